"""Attacks on synthetic files in words: a sentence for each, the answer, the table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from textwrap import wrap

from unikat.report.facts.attack import AttackSummary
from unikat.report.text.numbers import columns, counted, estimated, listed, number, percent, verb
from unikat.synthesis.attacks import households
from unikat.synthesis.attacks.posterior import NAME as ONE_UNKNOWN
from unikat.synthesis.attacks.posterior import PosteriorFacts
from unikat.synthesis.attacks.rates import Rate
from unikat.synthesis.attacks.run import AttackResult

BASELINES = {
    "control": "At the control records the same attack succeeds for {}.",
    "margins": "With a file made from the margins alone it is {}.",
    "most frequent value": "With the most frequent value as the guess it is {}.",
    "even": "",
    "prior": "Before he has seen the synthetic file it is {}.",
}
"""What is said of a baseline, by its kind."""
NOT_MORE = "It succeeds no more often than the baseline."
HEAD = ("attack", "success", "interval", "without the file", "excess", "interval")
"""Titles of the table."""


def title(result: AttackResult) -> str:
    """Return the name of an attack, as tables and figures have it."""
    name = result.name[:1].upper() + result.name[1:]
    return name if result.target is None else f"{name}: {result.target}"


def span(rate: Rate) -> str:
    """Write the interval of a share."""
    return f"{percent(rate.lower)} to {percent(rate.upper)}"


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
    >>> excess_shown(Rate(value=-0.73, lower=-0.9, upper=-0.5)), NOT_MORE
    (('none', '–'), 'It succeeds no more often than the baseline.')
    >>> excess_shown(Rate(value=-0.02, lower=-0.05, upper=0.01))
    ('none', 'up to 1.0%')
    """
    value = "none" if excess.value <= 0.0 else percent(excess.value)
    if excess.upper <= 0.0:
        return value, "–"
    return value, span(excess) if excess.lower > 0.0 else f"up to {percent(excess.upper)}"


def terminal_lines(summary: AttackSummary) -> list[str]:
    """Return the answer and the table for the terminal."""
    said = summary.sentences
    rows = [HEAD, *(row(result) for result in summary.attacks)]
    lines = [*wrap(said["answer"], width=88), "", *columns(rows), ""]
    if said["generator"]:
        lines += wrap(f"Warning: {said['generator']}", width=88)
    for name in ("baseline", "claims", "household_posterior", "posterior"):
        lines += wrap(said[name], width=88)
    return lines


def explained(summary: AttackSummary) -> AttackSummary:
    """Add the sentences: the answer, its limits, and one for each attack, by its place."""
    said = {
        "answer": _answer(summary),
        "generator": _generator(summary),
        "baseline": _baseline(summary),
        "claims": _claims(summary),
        **{
            name: "" if facts is None else _posterior(facts)
            for name, facts in (
                ("household_posterior", summary.household_posterior),
                ("posterior", summary.posterior),
            )
        },
    }
    for place, result in enumerate(summary.attacks):
        said[f"attacks.{place}"] = _sentence(summary, result)
    return replace(summary, sentences=said)


def _answer(summary: AttackSummary) -> str:
    found = [result for result in summary.attacks if result.found]
    n = len(summary.attacks)
    without = (
        "at the original than at records that the generator never saw"
        if summary.control
        else "than without the synthetic file"
    )
    if not found:
        return f"None of the {n} attacks succeeds more often {without}."
    # Of the surest, since few guesses can give any share.
    greatest = max(found, key=lambda result: 0.0 if result.excess is None else result.excess.lower)
    assert greatest.excess is not None
    succeed = "succeeds" if len(found) == 1 else "succeed"
    excess = "{} ({})".format(*excess_shown(greatest.excess))
    return (
        f"{len(found)} of the {n} attacks {succeed} more often {without}. The greatest excess is "
        f"{excess}: {title(greatest)}."
    )


def _baseline(summary: AttackSummary) -> str:
    if summary.control is None:
        return (
            "There is no control file, so the baseline is an intruder who knows the margins alone. "
            "Part of the excess is then what the file tells of the population, not of its records. "
            "Keep some records from the generator, and name them with --control."
        )
    by_chance = len(summary.attacks) * (1.0 - summary.level) / 2.0
    records = counted(summary.control.n_records, "control record")
    return (
        f"The baseline is the same attack at {records}. "
        f"Of {len(summary.attacks)} attacks that learn nothing, about {by_chance:.1f} exceed it by "
        "chance."
    )


def _generator(summary: AttackSummary) -> str:
    """Warn of files that were made by a fit that has not converged."""
    failed = [one.fit for one in summary.synthetic if one.fit and not one.fit.converged]
    if not failed:
        return ""
    n, n_files = len(failed), len(summary.synthetic)
    which = f"{n} of the {n_files} synthetic files {verb(n, 'come')}"
    if n == n_files:
        which = "The synthetic file comes" if n == 1 else "The synthetic files come"
    models = listed(list(dict.fromkeys(fit.model for fit in failed)))
    return (
        f"{which} from a fit of {models} that has not converged ({failed[0].stop_reason}). The "
        "attacks tell of these files, not of those that a converged fit would give. Continue the "
        "synthesis with --resume and a higher limit, and attack its files."
    )


def _claims(summary: AttackSummary) -> str:
    """Say what an intruder claims who takes a synthetic file for real, and what of it is true."""
    claims = summary.claims
    several = len(claims.by_file) > 1
    one = "each synthetic file" if several else "the synthetic file"

    def mean(values: Sequence[float]) -> str:
        return number(sum(values) / len(values))

    uniques, replicated = (
        mean([getattr(file, name) for file in claims.by_file])
        for name in ("n_uniques", "n_replicated")
    )
    average = " on average" if several else ""
    said = [
        f"An intruder who takes {one} for a real sample finds {uniques} uniques in it{average}; "
        f"{replicated} of them have the keys of a unique of the original."
    ]
    tau1 = [file.tau1 for file in claims.by_file if file.tau1 is not None]
    if tau1:
        lower, upper = (mean([getattr(file, end) for file in tau1]) for end in ("lower", "upper"))
        said.append(
            f"He believes that {mean([file.median for file in tau1])} ({lower} to {upper}) of them "
            "are unique in the population."
        )
    true = [file.true for file in claims.by_file if file.true is not None]
    if true:
        assert claims.tau1 is not None
        lower, upper = (mean([getattr(file, end) for file in true]) for end in ("lower", "upper"))
        said.append(
            f"About {mean([file.value for file in true])} ({lower} to {upper}) of his claims are "
            "true: the person is in the original, and unique in the population. Of the original's "
            f"own uniques τ1 is {estimated(claims.tau1.median, claims.tau1)}."
        )
    if claims.by_file[0].n_true is not None:
        counts = [
            mean([getattr(file, name) or 0 for file in claims.by_file])
            for name in ("n_true", "n_elsewhere", "n_nobody")
        ]
        said.append(
            f"In the population {counts[0]} of his claims are true, {counts[1]} are about a person "
            f"who is not in the original, and {counts[2]} about keys that nobody has."
        )
    return " ".join(said)


def _posterior(facts: PosteriorFacts) -> str:
    """Say what the attack with all other records known is based on."""
    of_homes = facts.unit != "combination"
    others = {"household": "households", "person": "persons"}.get(facts.unit, "records")
    average = " on average" if of_homes else " each"
    base = (
        f"All other {others} known: {counted(facts.n_persons, facts.unit)} with "
        f"{facts.n_candidates} candidates{average}, by {facts.model}; the effective number of "
        f"draws is {number(facts.effective_draws)} (median)."
    )
    if facts.n_unknown == facts.n_persons:
        return (
            f"{base} That is too few for any number (at least {number(facts.least_draws)} are "
            "needed); raise --set sampling.ess."
        )
    if facts.n_unknown:
        base += (
            f" {counted(facts.n_unknown, facts.unit)} with fewer than "
            f"{number(facts.least_draws)} {verb(facts.n_unknown, 'have')} no number."
        )
    for prior in facts.priors:
        base += (
            f" With a {prior.prior} prior the true values are among the first three for "
            f"{percent(prior.top_three)}, before {percent(prior.top_three_before)}; their "
            f"probability at least doubles for {percent(prior.twice)}, and is at most "
            f"{percent(prior.largest)}, before {percent(prior.largest_before)}."
        )
    return base


def _sentence(summary: AttackSummary, result: AttackResult) -> str:
    """Say what an attack found, what it finds without the file, and what is left."""
    share = f"{percent(result.rate.value)} ({span(result.rate)})"
    target, records = result.target, "of the original's records"
    others = "other keys" if target in summary.keys else "keys"
    values = "key values" if result.name == "singling out by one key" else "combinations of values"
    if result.n == 0.0 and "singling" in result.name:
        return f"No {values} belong to one synthetic record, so nobody is singled out."
    if result.n == 0.0:
        return f"{title(result)}: the synthetic file gives nothing to guess by."
    what = {
        "replicated uniques": f"{share} {records} are unique on the keys, and unique in the "
        "synthetic file too.",
        "linkability": f"Two sources, one with {listed(summary.link[0])} and one with "
        f"{listed(summary.link[1])}, can be linked for {share} {records}.",
        "attribute disclosure": f"For {share} {records} all synthetic records with the same "
        f"{others} agree on {target}, and their value is right.",
        "inference": f"The nearest synthetic record gives the right value of {target} for {share} "
        f"{records}.",
        ONE_UNKNOWN: "An intruder who knows the model, all other records and a person but for one "
        f"key, with a {target}, names the right values for {share} of the combinations.",
        households.HOUSEHOLD: "An intruder who knows the model, all other households and one but "
        f"for one value, with a {target}, names the right values for {share} of the households.",
        households.PERSON: "An intruder who knows the model, all other persons and one but for "
        f"one value, with a {target}, names the right values for {share} of the persons.",
        "distance": f"A record of the original is nearer to the synthetic file than a control "
        f"record in {share} of all pairs; 50% is no difference.",
    }.get(
        result.name,
        f"{round(result.n):,} {values} belong to one synthetic record. {share} of them single out "
        "one record of the original.",
    )
    parts = [what, BASELINES[result.kind].format(percent(result.baseline.value))]
    if result.excess is None:
        parts.append("More is not possible.")
    elif result.found:
        value, interval = excess_shown(result.excess)
        parts.append(f"The excess is {value} ({interval}).")
    elif result.excess.value > 0.0:
        parts.append("The excess is within what chance explains.")
    else:
        parts.append(NOT_MORE)
    return " ".join(filter(None, parts))
