"""Attacks on synthetic files in words: a sentence for each, the answer, the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from textwrap import wrap
from typing import Any

from unikat.report.facts.attack import AttackSummary
from unikat.report.text import linked
from unikat.report.text.classics import inferred_sentences
from unikat.report.text.language import wording
from unikat.report.text.numbers import between, columns, listed, percent
from unikat.report.text.words import capital, say
from unikat.synthesis.attacks import households
from unikat.synthesis.attacks.claims import Claims
from unikat.synthesis.attacks.membership_model import BoundFacts
from unikat.synthesis.attacks.persons import NAME as ONE_UNKNOWN
from unikat.synthesis.attacks.posterior import PosteriorFacts
from unikat.synthesis.attacks.rates import Rate
from unikat.synthesis.attacks.run import OF_HOUSEHOLDS, AttackResult

_FOUND = {
    ONE_UNKNOWN: "one_unknown",
    households.HOUSEHOLD: "household",
    households.PERSON: "person",
}
"""Codes of the sentences of attacks whose names are longer."""


def head() -> list[str]:
    """Return the titles of the table."""
    return list(wording("attack.head"))


def title(result: AttackResult) -> str:
    """Return the name of an attack, as tables and figures have it."""
    name = capital(result.name)
    return name if result.target is None else f"{name}: {result.target}"


def span(rate: Rate) -> str:
    """Write the interval of a share."""
    return between(rate.lower, rate.upper)


def row(result: AttackResult) -> tuple[str, ...]:
    """Return the row of an attack in the table."""
    excess = result.excess
    return (
        title(result),
        percent(result.rate.value) if result.n else "–",
        span(result.rate) if result.n else "–",
        percent(result.baseline.value) if result.n else "–",
        *(("–", "–") if excess is None else excess_shown(excess)),
    )


def excess_shown(excess: Rate) -> tuple[str, str]:
    """Write an excess and its interval; less success than the baseline has is no number.

    Examples
    --------
    >>> excess_shown(Rate(value=0.04, lower=0.01, upper=0.07))
    ('4.0%', '1.0% to 7.0%')
    >>> excess_shown(Rate(value=-0.73, lower=-0.9, upper=-0.5))
    ('none', '–')
    >>> excess_shown(Rate(value=-0.02, lower=-0.05, upper=0.01))
    ('none', 'up to 1.0%')
    """
    value = say("attack.none") if excess.value <= 0.0 else percent(excess.value)
    if excess.upper <= 0.0:
        return value, "–"
    return value, span(excess) if excess.lower > 0.0 else say("attack.up_to", upper=excess.upper)


def terminal_lines(summary: AttackSummary) -> list[str]:
    """Return the answer and the table for the terminal."""
    if summary.linkage is not None:
        return linked.terminal_lines(summary)
    said = summary.sentences
    rows = [head(), *(row(result) for result in summary.attacks)]
    lines = [*wrap(said["answer"], width=88), "", *columns(rows), ""]
    if said["generator"]:
        lines += wrap(say("attack.generator.warning", text=said["generator"]), width=88)
    for name in (
        "baseline",
        "membership",
        "claims",
        "inferred",
        "household_posterior",
        "posterior",
    ):
        lines += wrap(said[name], width=88)
    return lines


def explained(summary: AttackSummary) -> AttackSummary:
    """Add the sentences: the answer, its limits, and one for each attack, by its place."""
    if summary.linkage is not None:
        return linked.explained(summary)
    said = {
        "answer": _answer(summary),
        "generator": _generator(summary),
        "baseline": _baseline(summary),
        "claims": "" if summary.claims is None else _claims(summary.claims),
        "inferred": inferred_sentences(summary.inferred),
        "membership": _membership(summary),
        "household_posterior": _household_posterior(summary),
        "posterior": "" if summary.posterior is None else _posterior(summary.posterior),
    }
    for place, result in enumerate(summary.attacks):
        said[f"attacks.{place}"] = _sentence(summary, result)
    return replace(summary, sentences=said)


def _answer(summary: AttackSummary) -> str:
    found = [result for result in summary.attacks if result.found]
    without = say(f"attack.answer.{'control' if summary.control else 'alone'}")
    n = len(summary.attacks)
    if not found:
        return say("attack.answer.none", n=n, without=without)
    # Of the surest, since few guesses can give any share.
    greatest = max(found, key=lambda result: 0.0 if result.excess is None else result.excess.lower)
    assert greatest.excess is not None
    return say(
        "attack.answer.some",
        n=n,
        n_found=len(found),
        without=without,
        excess="{} ({})".format(*excess_shown(greatest.excess)),
        title=title(greatest),
    )


def _baseline(summary: AttackSummary) -> str:
    if summary.control is None:
        return say("attack.base.margins")
    n = len(summary.attacks)
    by_chance = n * (1.0 - summary.level) / 2.0
    n_records = summary.control.n_records
    return say("attack.base.control", n=n, n_records=n_records, by_chance=by_chance)


def _membership(summary: AttackSummary) -> str:
    """Say if a person can be told to be in the original, by the test of fewest false alarms."""
    tests = [result for result in summary.attacks if result.kind in ("even", "false alarms")]
    if not tests:
        return say("attack.membership.unknown")
    bound = "" if summary.membership_bound is None else bound_said(summary.membership_bound, tests)
    found = [one for one in tests if one.found]
    if not found:
        return " ".join(filter(None, [say("attack.membership.not_found", n=len(tests)), bound]))
    # Who is sure of few persons knows more than who is right a little more often about all.
    best = min(found, key=lambda one: (one.baseline.value, -one.rate.lower))
    sentence = _sentence(summary, best)
    who = "of_households" if best.name.endswith(OF_HOUSEHOLDS) else "found"
    return " ".join(filter(None, [say(f"attack.membership.{who}", sentence=sentence), bound]))


def bound_said(facts: BoundFacts, tests: Sequence[AttackResult]) -> str:
    """Say what no test can exceed of files that the model has drawn, and if one does."""
    beyond = [
        one
        for one in tests
        if not one.name.endswith(OF_HOUSEHOLDS)
        and one.rate.lower
        > (facts.pairs if one.kind == "even" else one.baseline.value + facts.advantage)
    ]
    names = listed([title(one) for one in beyond]) if beyond else ""
    return say(
        "attack.membership.bound", beyond and "attack.membership.beyond", facts=facts, names=names
    )


def _generator(summary: AttackSummary) -> str:
    """Warn of files that were made by a fit that has not converged."""
    failed = [one.fit for one in summary.synthetic if one.fit and not one.fit.converged]
    if not failed:
        return ""
    n_files = len(summary.synthetic)
    return say(
        f"attack.generator.{'all' if len(failed) == n_files else 'some'}",
        "attack.generator.remedy",
        n=len(failed),
        n_files=n_files,
        models=listed(list(dict.fromkeys(fit.model for fit in failed))),
        stop_reason=failed[0].stop_reason,
    )


def _claims(claims: Claims) -> str:
    """Say what an intruder claims who takes a synthetic file for real, and what of it is true."""
    files = claims.by_file
    tau1 = [file.tau1 for file in files if file.tau1 is not None]
    true = [file.true for file in files if file.true is not None]
    in_population = files[0].n_true is not None
    return say(
        f"attack.claims.{'several' if len(files) > 1 else 'one'}",
        tau1 and "attack.claims.believes",
        true and "attack.claims.right",
        in_population and "attack.claims.population",
        uniques=_mean(files, "n_uniques"),
        replicated=_mean(files, "n_replicated"),
        tau1=_mean(tau1, "median"),
        tau1_lower=_mean(tau1, "lower"),
        tau1_upper=_mean(tau1, "upper"),
        right=_mean(true, "value"),
        right_lower=_mean(true, "lower"),
        right_upper=_mean(true, "upper"),
        own=claims.tau1,
        **{name: _mean(files, name) for name in ("n_true", "n_elsewhere", "n_nobody")},
    )


def _mean(found: Sequence[Any], name: str) -> Any:
    """Mean of a number over the files, 0 where it is not known."""
    return sum(getattr(one, name) or 0 for one in found) / max(len(found), 1)


def _household_posterior(summary: AttackSummary) -> str:
    """Say what is learned of households; and of which files nobody knows if it is right."""
    if summary.household_posterior is None:
        return ""
    unknown = [one.name for one in summary.synthetic if one.fit is None]
    doubt = [say("attack.ties_unknown", n=len(unknown), names=listed(unknown))] if unknown else []
    return " ".join([_posterior(summary.household_posterior), *doubt])


def _posterior(facts: PosteriorFacts) -> str:
    """Say what the attack with all other records known is based on."""
    kind = facts.unit if facts.unit in ("household", "person") else "combination"
    speak = partial(say, facts=facts)
    base = f"attack.posterior.{kind}"
    if facts.n_unknown == facts.n_persons:
        return speak(base, "attack.posterior.too_few")
    priors = [speak("attack.posterior.prior", prior=prior) for prior in facts.priors]
    return " ".join([speak(base, facts.n_unknown and "attack.posterior.unknown"), *priors])


def _sentence(summary: AttackSummary, result: AttackResult) -> str:
    """Say what an attack found, what it finds without the file, and what is left."""
    one_key = result.name == "singling out by one key"
    singling = "singling" in result.name
    if result.n == 0.0:
        nobody = "nobody_one_key" if one_key else "nobody"
        name = nobody if singling else "nothing"
        return say(f"attack.found.{name}", title=title(result))
    name = _FOUND.get(result.name, result.name)
    if singling:
        name = "single_one_key" if one_key else "single"
    elif name == "attribute disclosure" and result.target in summary.keys:
        name = "attribute disclosure of a key"
    elif result.kind == "false alarms":
        name = f"{name}_at"
    value = interval = ""
    if result.excess is None:
        left = "attack.excess.impossible"
    elif result.found:
        left = "attack.excess.is"
        value, interval = excess_shown(result.excess)
    else:
        left = "attack.excess.chance" if result.excess.value > 0.0 else "attack.not_more"
    parts = (
        say(
            f"attack.found.{name}",
            share=f"{percent(result.rate.value)} ({span(result.rate)})",
            target=result.target,
            baseline=result.baseline.value,
            link=summary.link,
            n=round(result.n),
        ),
        say(f"attack.baseline.{result.kind}", baseline=result.baseline.value),
        say(left, value=value, interval=interval),
    )
    return " ".join(filter(None, parts))
