"""The sentences of a protection."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from unikat.errors import option
from unikat.protection.perturbed import CorrectMatches
from unikat.report.facts.protection import (
    PerturbationFacts,
    PlanFacts,
    ProtectionSummary,
    RiskFacts,
)
from unikat.report.text import numeric
from unikat.report.text.classics import inferred_sentences
from unikat.report.text.columns import columns_sentence, left_over_sentence
from unikat.report.text.declared import copied_words, made_valid_words
from unikat.report.text.language import wording
from unikat.report.text.numbers import (
    estimated,
    interval,
    number,
    percent,
    some,
)
from unikat.report.text.plan_words import (
    assumed_words,
    level_words,
    method_words,
    plan_words,
)
from unikat.report.text.sentences import first, two_counts
from unikat.report.text.track_record import SEARCHED
from unikat.report.text.verdict import VerdictText, apart, named, verdict_text, verdicts_text
from unikat.report.text.words import changed, say
from unikat.spec.limits import Limit
from unikat.spec.models import AUTO
from unikat.spec.recodings import LEFT_OUT

LEAD = (
    "hidden",
    "plan",
    "households",
    "sampled",
    "suppression",
    "perturbation",
    "matches",
    "numeric",
    "refit",
)
"""Sentences that stand first on the page and in the terminal, by their place."""


def explained(found: ProtectionSummary) -> ProtectionSummary:
    """Add the sentences, by the places of what they explain, and the warnings."""
    said = {**found.sentences, **_sentences(found)}
    return replace(found, sentences=said, warnings=_warnings(found))


def _sentences(found: ProtectionSummary) -> dict[str, str]:
    before, after = found.before.tau1, found.after.tau1
    shown = found.before.tau1_hidden or found.after.tau1_hidden
    speak = partial(say, found=found, utility=found.utility)
    said = {
        "answer": speak(
            "protection.answer",
            begins=first(found.converged),
            changed=changed(say(found.households and "protection.tau1") or "τ1", before, after),
            by=say(shown and "protection.by_shown"),
            lost=found.lost,
        ),
        "plan": speak(
            "protection.plan",
            _has_signs(found) and "protection.signs",
            plan=plan_words(_as_released(found), unchanged=True),
        ),
        "lost": speak("protection.lost"),
        "tables": speak(
            "protection.tables",
            f"protection.tables_{'suppressed' if found.suppression else 'file'}",
        ),
        "columns": columns_sentence(found.other_columns, homes=found.households),
        "columns_done": columns_sentence(
            found.other_columns, remedies=False, homes=found.households
        ),
        "left_over": left_over_sentence(found.other_columns, found.left_over),
        "levels": say(
            "protection.levels",
            levels=level_words(found.levels),
            assumed=assumed_words(found.levels),
        ),
    }
    if found.inferred:
        said["inferred"] = inferred_sentences(found.inferred)
    if not found.keys_stay and (found.perturbation is None or found.chosen.recodings):
        # Perturbed values are not taken for true: without recoding nothing was fitted again.
        fitted = "recoded" if found.perturbation else "protected"
        said["refit"] = speak(f"protection.refit_{fitted}")
    if (verdict := verdict_of(found)) is not None:
        said["verdict"] = f"{verdict.title} {verdict.sentence}".strip()
    if (hidden := found.before.tau1_hidden) is not None:
        both = two_counts(estimated(before.mean, before), estimated(hidden.mean, hidden))
        said["hidden"] = speak("protection.hidden", both=both)
    if found.searched and found.least_lost is not None:
        said["search"] = stopped_early(
            found.n_plans, found.n_looked_at, found.chosen.lost, found.least_lost
        )
    elif found.searched:
        said["search"] = speak("protection.search")
    if found.scenarios:
        unperturbed = found.perturbation is not None and "protection.scenarios_before"
        said["scenarios"] = say("protection.scenarios", unperturbed)
    if found.numeric is not None:
        said |= numeric.sentences(found.numeric, found.after.tau2.mean)
    if found.perturbation is not None:
        said |= _perturbed(found, found.perturbation)
    if found.searched and found.model == AUTO:
        said["search"] = f"{said['search']} {speak('protection.selection', trials=SEARCHED)}"
    if any(plan.perturb for plan in found.plans):
        said["search"] = f"{said['search']} {speak('protection.perturbing')}"
    if any(plan.suppress for plan in found.plans):
        said["search"] = f"{said['search']} {speak('protection.suppressing')}"
    if found.households:
        rules = found.household_rules
        said["households"] = say(
            "protection.households",
            rules is not None and "protection.household_rules",
            found=found,
            rules=rules,
        )
    if found.share < 1.0:
        said["sampled"] = speak("protection.sampled")
    if found.suppression is not None:
        # The error of `auto` was seen to cover it; no other model's was.
        by_risk = Limit.of(found.suppression.rule).plain == "r1"
        said["suppression"] = say(
            f"protection.suppression{'_households' if found.households else ''}",
            by_risk and found.model != AUTO and "protection.suppression_chosen",
            "assessment.published.counted",
            what=found.suppression,
            rule=named(found.suppression.rule),
        )
    return said


def _as_released(found: ProtectionSummary) -> PlanFacts:
    """The plan; a key that is perturbed besides is not as in the file."""
    others = () if found.perturbation is None else [one.name for one in found.perturbation.keys]
    unchanged = tuple(name for name in found.chosen.unchanged if name not in others)
    return replace(found.chosen, unchanged=unchanged)


def stopped_early(n_plans: int, n_looked_at: int, lost: float, least_lost: float) -> str:
    """Say that a search took the best plan so far, and what a better one would lose at least."""
    return say(
        "protection.stopped_early",
        n_plans=n_plans,
        n_looked_at=n_looked_at,
        lost=lost,
        least_lost=least_lost,
        recodings=option("recodings"),
        keep=option("keep"),
    )


def verdict_of(found: ProtectionSummary) -> VerdictText | None:
    """Say whether the target is met, or those of all scenarios: one verdict for the run."""
    if found.verdict is None:
        return None
    remedy = say(f"protection.verdict.{'recode' if found.told else 'stricter'}")
    if found.target is None and len(found.scenarios) > 1:
        judged = [one.target for one in found.scenarios]
        return verdicts_text(judged, found.verdict, remedy)
    target, by_plan, by_refit = found.target, found.by_plan, found.by_refit
    if target is None:
        (one,) = found.scenarios
        target, by_plan, by_refit = one.target, one.after, one.refit
    of = "by_refit" if target.value == by_refit else "by_plan"
    if found.perturbation is not None:
        # Those of single records are bounded by what they were before.
        after = found.target is not None and "tau" in target.limit
        of = "perturbed" if after else "before"
    elif by_plan == by_refit:
        of = "by_both"
    words = say(f"protection.verdict.{of}")
    return verdict_text(target, found.level, of=words, remedy=remedy)


def scenario_rows(found: ProtectionSummary) -> list[tuple[str, ...]]:
    """Rows of the table of scenarios."""
    rows: list[tuple[str, ...]] = [tuple(wording("protection.head.scenarios"))]
    for one in found.scenarios:
        known = "in_sample" if one.in_sample else "keys"
        knows = say(f"protection.knows.{known}", keys=", ".join(one.keys))
        bound = Limit.of(one.target.limit).bound
        after = one.after
        if found.perturbation is not None and one.target.value is not None:
            # Of the perturbed file.
            after = one.target.value
        measures = (apart(value, bound) for value in (one.before, after, one.refit))
        verdict = say(f"check.verdict.{one.target.verdict}")
        rows.append((one.name, knows, named(one.target.limit), *measures, verdict))
    return rows


def _perturbed(found: ProtectionSummary, what: PerturbationFacts) -> dict[str, str]:
    """Say what perturbation did, and what it does to the risk."""
    parts = [
        say("protection.perturbed.key", one=one, method=method_words(one)) for one in what.keys
    ]
    without = say(what.ignored and "protection.perturbed.without", keys=some(what.ignored, 5))
    speak = partial(say, what=what, links=what.links)
    said = {
        "perturbation": speak(
            "protection.perturbed.records",
            what.n_left and "protection.perturbed.left",
            n_records=found.n_records,
            keys=", ".join(parts),
        ),
        "matches": speak("protection.perturbed.matches", before=found.chosen.risk, without=without),
        "method": speak("protection.perturbed.method"),
    }
    if what.links is not None:
        said["links"] = speak(
            f"protection.perturbed.{'links_bounded' if what.links.bounded else 'links'}"
        )
    return said


def _has_signs(found: ProtectionSummary) -> bool:
    """Whether groups of numbers are written with signs in the file, and told in words."""
    rules = (one.action.partition("(")[0] for one in found.columns)
    return any(rule in ("top", "bottom", "cut") for rule in rules)


def _idle_rules(found: ProtectionSummary) -> set[str]:
    """Rules that were told, which may do nothing; a search takes none that does not."""
    return {one.action for one in found.columns if found.told} - {"as it is", LEFT_OUT}


def _warnings(found: ProtectionSummary) -> tuple[str, ...]:
    what = found.perturbation
    codes = (
        not found.converged and "unconverged",
        what is not None and not what.n_records and "unchanged",
        not found.agrees and "disagrees",
        found.n_not_assessed and "not_assessed",
        found.policy and f"policy.{found.policy}",
    )
    idle = [one for one in found.columns if one.action in _idle_rules(found) and not one.n_changed]
    return (
        *(say("protection.warning.idle", name=one.name, rule=one.action) for one in idle),
        *copied_words(found.telling, found.identifying),
        *made_valid_words(found.columns),
        *(numeric.warnings(found.numeric) if found.numeric else ()),
        *(say(f"protection.warning.{code}", n=found.n_not_assessed) for code in codes if code),
    )


def risk_rows(
    sides: Sequence[RiskFacts | CorrectMatches], *, households: bool = False
) -> list[tuple[str, ...]]:
    """Rows of the table of risk: the measures of several files, or of one by several fits."""
    smallest = say(f"pages.risk.smallest{'_households' if households else ''}")
    alone = [getattr(side, "n_alone", None) for side in sides]
    of_shown = [
        say("pages.risk.alone"),
        *(
            number(side.n_uniques if one is None else one)
            for side, one in zip(sides, alone, strict=True)
        ),
    ]
    return [
        *(
            (
                say(f"pages.risk.{name}"),
                *(estimated(one.mean, one) for one in (getattr(side, name) for side in sides)),
            )
            for name in ("tau1", "tau2")
        ),
        (say("pages.risk.uniques"), *(number(side.n_uniques) for side in sides)),
        *([tuple(of_shown)] if any(one is not None for one in alone) else []),
        (smallest, *(number(side.smallest) for side in sides)),
    ]


def table_rows(found: ProtectionSummary) -> list[tuple[str, ...]]:
    """Rows of the table of the user's own tables."""
    rows: list[tuple[str, ...]] = [tuple(wording("protection.head.tables"))]
    for plan, file in zip(found.chosen.utility.tables, found.utility.tables, strict=True):
        rows.append(
            (
                " × ".join(file.variables),
                percent(plan.distance),
                percent(file.distance),
                percent(plan.distance_expected),
            )
        )
    return rows


def plan_rows(found: ProtectionSummary) -> list[tuple[str, ...]]:
    """Rows of the table of plans; the released file last, where it is more than a plan."""
    rows: list[tuple[str, ...]] = [tuple(wording("protection.head.plans"))]
    shown = [
        (
            _called(plan, chosen=plan.chosen and found.released is None),
            plan.lost,
            plan.utility.distance,
            plan.risk,
        )
        for plan in found.plans
    ]
    if found.released is not None:
        words = say("protection.key.then", words=plan_words(found.chosen), beyond=beyond(found))
        words = say("protection.key.chosen", words=words)
        shown.append((words, found.lost, found.utility.distance, found.released))
    for words, lost, distance, risk in shown:
        rows.append(
            (
                words,
                percent(lost),
                percent(distance),
                number(risk.tau1.mean),
                interval(risk.tau1),
                number(risk.tau2.mean),
            )
        )
    return rows


def _called(plan: PlanFacts, *, chosen: bool) -> str:
    changes = plan.recodings or plan.share < 1.0 or plan.perturb or plan.suppress
    words = plan_words(plan) if changes else say("protection.key.as_it_is")
    return say("protection.key.chosen", words=words) if chosen else words


def joined_rows(found: ProtectionSummary, most: int = 20) -> list[tuple[str, ...]]:
    """Rows of the table of levels that were joined; none where rules of numbers tell it.

    The first `most` levels of a group are named; all are in `protect.json` and `plan.toml`.
    """
    rows = [
        (column.name, label, some(levels, most))
        for column in found.columns
        for label, levels in column.joined
    ]
    return [tuple(wording("protection.head.joined")), *rows] if rows else []


def beyond(found: ProtectionSummary) -> str:
    """Say what was done beside recoding: `values perturbed and suppressed`."""
    if found.perturbation is not None and found.suppression is not None:
        return say("protection.key.both")
    return say(f"protection.key.{'suppressed' if found.perturbation is None else 'perturbed'}")
