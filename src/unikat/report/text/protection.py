"""The sentences of a protection."""

from __future__ import annotations

from unikat.errors import listed, option
from unikat.language.keys import Call
from unikat.report.facts.protection import PerturbationFacts, PlanFacts, ProtectionSummary
from unikat.report.text.declared import copied_words, made_valid_words
from unikat.report.text.numbers import changed, counted, estimated, number, percent
from unikat.report.text.sentences import COUNTED, first, two_counts
from unikat.report.text.verdict import VerdictText, apart, named, verdict_text, verdicts_text
from unikat.spec.limits import Limit


def sentences(found: ProtectionSummary) -> dict[str, str]:
    """Say what every number means, by its place."""
    before, after = found.before.tau1, found.after.tau1
    recoded = bool(found.chosen.recodings)
    lost = f"{percent(found.lost)} of the information in the keys is lost"
    by = ""
    if found.before.tau1_hidden or found.after.tau1_hidden:
        by = " by the values that the file shows"
    said = {
        "answer": f"{first(found.converged)}{changed('τ1', before, after)}{by}; {lost}.",
        "plan": f"Plan: {plan_words(found.chosen)}.",
        "search": f"Of {counted(found.n_plans, 'combination')} of recodings the search looked at "
        f"{number(found.n_looked_at)} and took the one that reaches the target and loses least, "
        f"by all {counted(found.n_states, 'posterior state')} of the model of the file as it was. "
        "Plans that few states show to be beyond the limit were ruled out by these.",
        "lost": "Information lost is the entropy that the keys lose, as a share of the entropy "
        "that they have, each key counted with its weight. A suppressed value tells nothing any "
        "more; where values are perturbed, all values of the key tell less.",
        "tables": "Tables of two keys: the share of the records that would have to move for the "
        "table of the published file to be that of the original, in the mean over "
        f"{counted(found.utility.n_pairs, 'pair')} of keys; groups are spread over their levels by "
        "the shares that these had. A second sample of the same population would differ by about "
        f"{percent(found.utility.distance_expected)}. The protected file"
        f"{', suppressed values missing,' if found.suppression else ''} differs by "
        f"{percent(found.utility.distance)}.",
        "refit": f"A new fit of the {_fitted(found)} file gives τ1 "
        f"{estimated(found.refit.tau1.mean, found.refit.tau1)}.",
        "columns": "Columns that are no keys were copied as they are. Look for columns that tell "
        "what was recoded, suppressed or perturbed (a copy, a code of the place, a birth date), "
        "and for names and numbers of persons.",
    }
    if (verdict := verdict_of(found)) is not None:
        said["verdict"] = f"{verdict.title} {verdict.sentence}".strip()
    if (hidden := found.before.tau1_hidden) is not None:
        both = two_counts(estimated(before.mean, before), estimated(hidden.mean, hidden))
        said["hidden"] = (
            f"Before protection: {both[:1].lower()}{both[1:]} The heading of an assessment has the "
            "second number, this page the first."
        )
    if found.least_lost is not None:
        said["search"] = stopped_early(
            found.n_plans, found.n_looked_at, found.chosen.lost, found.least_lost
        )
    if not found.searched:
        del said["search"]
    if found.scenarios:
        said["scenarios"] = (
            "Each row is an intruder and what has to be reached against him. He sees the keys that "
            "he knows; one who knows who is in the file identifies every sample unique. The "
            "less favourable of plan and new fit is judged."
        )
        if found.perturbation is not None:
            said["scenarios"] += " These are numbers before perturbation."
    if found.perturbation is not None:
        said |= _perturbed(found, found.perturbation)
        if not recoded:
            # Nothing was fitted again.
            del said["refit"]
    if found.suppression is not None:
        what = found.suppression
        said["suppression"] = (
            f"So that every record reaches {named(what.rule)}, "
            f"{counted(what.n_values, 'value')} of {counted(what.n_records, 'record')} "
            f"{'was' if what.n_values == 1 else 'were'} set missing: the fewest, each counted with "
            f"the weight of its key. {COUNTED}"
        )
    return said


def stopped_early(n_plans: int, n_looked_at: int, lost: float, least_lost: float) -> str:
    """Say that a search took the best plan so far, and what a better one would lose at least."""
    return (
        f"The search stopped early: of {counted(n_plans, 'combination')} of recodings it looked at "
        f"{number(n_looked_at)}. Of the plans that reach the target it took the one that loses "
        f"least, {percent(lost)} of the information. No plan that loses less than "
        f"{percent(least_lost)} reaches the target; between the two a better one may exist. Name "
        f"fewer recodings of some keys ({option('recodings')}), or keep some as they are "
        f"({option('keep')})."
    )


def verdict_of(found: ProtectionSummary) -> VerdictText | None:
    """Say whether the target is met, or those of all scenarios: one verdict for the run."""
    if found.verdict is None:
        return None
    remedy = (
        "Recode more, or search a plan with the target alone."
        if found.told
        else "Take a stricter target, or recode more."
    )
    if found.target is None and len(found.scenarios) > 1:
        judged = [one.target for one in found.scenarios]
        return verdicts_text(judged, found.verdict, remedy)
    target, by_plan, by_refit = found.target, found.by_plan, found.by_refit
    if target is None:
        (one,) = found.scenarios
        target, by_plan, by_refit = one.target, one.after, one.refit
    of = " by the new fit" if target.value == by_refit else " by the plan"
    if found.perturbation is not None:
        # Those of single records are bounded by what they were before.
        after = found.target is not None and "tau" in target.limit
        of = " of the perturbed file" if after else " before perturbation"
    elif by_plan == by_refit:
        of = " by plan and new fit"
    return verdict_text(target, found.level, of=of, remedy=remedy)


def scenario_rows(found: ProtectionSummary) -> list[tuple[str, ...]]:
    """Rows of the table of scenarios."""
    rows: list[tuple[str, ...]] = [
        ("scenario", "knows", "target", "before", "by the plan", "new fit", "verdict")
    ]
    for one in found.scenarios:
        knows = ", ".join(one.keys) + ("; who is in the file" if one.in_sample else "")
        bound = Limit.of(one.target.limit).bound
        measures = (apart(value, bound) for value in (one.before, one.after, one.refit))
        rows.append((one.name, knows, named(one.target.limit), *measures, one.target.verdict))
    return rows


def _fitted(found: ProtectionSummary) -> str:
    """Which file was fitted last: perturbed values are not taken for true."""
    return "recoded" if found.perturbation else "protected"


def _perturbed(found: ProtectionSummary, what: PerturbationFacts) -> dict[str, str]:
    """Say what perturbation did, and what it does to the risk."""
    before = found.chosen.risk
    without = f", without {listed(list(what.ignored))}," if what.ignored else ""
    parts = [
        f"{one.name} by {one.method} in {counted(one.n_changed, 'record')}" for one in what.keys
    ]
    said = {
        "perturbation": f"{counted(what.n_records, 'record')} of {number(found.n_records)} "
        f"{'shows' if what.n_records == 1 else 'show'} a value that is not "
        f"{'its' if what.n_records == 1 else 'their'} own: {', '.join(parts)}.",
        "matches": f"Of {counted(what.n_uniques, 'record')} that "
        f"{'is' if what.n_uniques == 1 else 'are'} alone in the protected file with what "
        f"{'it shows' if what.n_uniques == 1 else 'they show'}, "
        f"{number(what.n_true)} {'shows its' if what.n_true == 1 else 'show their'} true keys. The "
        f"expected number of correct matches (τ2) of the intruder who has most{without} is "
        f"{estimated(what.tau2.mean, what.tau2)}; it was {number(before.tau2.mean)} before "
        f"perturbation. Of these {estimated(what.tau1.mean, what.tau1)} are matches with "
        f"population uniques (τ1); {number(before.tau1.mean)} were before.",
        "method": "A match with a unique record of the protected file is correct only if the "
        "record shows its true keys, and then for one of the persons of the population with these "
        "keys. The owner of the file knows which records do, so the numbers hold however the "
        "values were changed. They are those of the intruder who does best: who looks for records "
        "that agree in all keys, or leaves out one perturbed key, or all of them.",
    }
    if what.links is not None:
        bound = "at most " if what.links.bounded else ""
        said["links"] = (
            "An intruder who knows the matrices and the population can say of a match that it is "
            f"correct with probability {bound}{percent(what.links.mean)} in the mean over the "
            f"unique records, and {bound}{percent(what.links.largest)} for the one where it is "
            "largest (Shlomo and Skinner 2010)."
        )
    if what.n_left:
        said["perturbation"] += (
            f" {counted(what.n_left, 'record')} at risk found no partner to swap with; with fewer "
            "keys in which partners agree (--set swap_match) more do."
        )
    return said


def warnings(found: ProtectionSummary) -> tuple[str, ...]:
    """Warn of what should be looked at before the file is released."""
    said = [*copied_words(found.telling, found.identifying)]
    said += made_valid_words(found.columns)
    if not found.converged:
        said.append("The chains have not converged: do not decide on these numbers.")
    if found.perturbation is not None and not found.perturbation.n_records:
        said.append("Perturbation changed no value: the file is what it would be without it.")
    if not found.agrees:
        said.append(
            "The new fit of the protected file does not agree with the plan: neither interval of "
            "τ1 holds the other estimate."
        )
    if found.n_not_assessed:
        said.append(
            f"{counted(found.n_not_assessed, 'row')} of the protected file broke a rule and "
            f"{'was' if found.n_not_assessed == 1 else 'were'} not assessed. Correct or remove "
            "them before the release."
        )
    return tuple(said)


def plan_words(plan: PlanFacts) -> str:
    """Say what a plan does: `age in groups of 10, region left out`."""
    if not plan.recodings:
        return "nothing is recoded"
    return ", ".join(key_words(name, text) for name, text in plan.recodings.items())


def key_words(name: str, text: str) -> str:
    """Say what is done to a key.

    Examples
    --------
    >>> key_words("age", "width(10)"), key_words("place", "rare(0.05)")
    ('age in groups of 10', 'place: levels under 5% joined')
    """
    found = Call.of(text)
    if found is None:
        return f"{name} {text}"
    argument = ",".join(found.arguments)
    if found.word in ("rare", "bands"):
        which = "levels" if found.word == "rare" else "neighbouring levels"
        return f"{name}: {which} under {100.0 * float(argument):.3g}% joined"
    return {
        "width": f"{name} in groups of {argument}",
        "cut": f"{name} in groups from {argument}",
        "quantile": f"{name} in {argument} groups of about as many records",
        "top": f"{name}: {argument} and above joined",
        "bottom": f"{name}: {argument} and below joined",
    }[found.word]


def table_rows(found: ProtectionSummary) -> list[tuple[str, ...]]:
    """Rows of the table of the user's own tables."""
    rows: list[tuple[str, ...]] = [("table", "by the plan", "protected file", "second sample")]
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
    rows: list[tuple[str, ...]] = [("plan", "lost", "tables", "τ1", "interval", "τ2")]
    shown = [
        (
            f"{'as it is' if not plan.recodings else plan_words(plan)}"
            f"{' (chosen)' if plan.chosen else ''}",
            plan.lost,
            plan.utility.distance,
            plan.risk,
        )
        for plan in found.plans
    ]
    if found.released is not None:
        words = f"{plan_words(found.chosen)}; then {beyond(found)}"
        shown.append((words, found.lost, found.utility.distance, found.released))
    for words, lost, distance, risk in shown:
        rows.append(
            (
                words,
                percent(lost),
                percent(distance),
                number(risk.tau1.mean),
                f"{number(risk.tau1.lower)} to {number(risk.tau1.upper)}",
                number(risk.tau2.mean),
            )
        )
    return rows


def joined_rows(found: ProtectionSummary, most: int = 20) -> list[tuple[str, ...]]:
    """Rows of the table of levels that were joined; none where rules of numbers tell it.

    The first `most` levels of a group are named; all are in `protect.json` and `plan.toml`.
    """
    rows = [
        (column.name, label, listed(list(levels), most))
        for column in found.columns
        for label, levels in column.joined
    ]
    return [("key", "group", "levels that it joins"), *rows] if rows else []


def beyond(found: ProtectionSummary) -> str:
    """Say what was done beside recoding: `values perturbed and suppressed`."""
    done = [
        *(["perturbed"] if found.perturbation is not None else []),
        *(["suppressed"] if found.suppression is not None else []),
    ]
    return f"values {' and '.join(done)}"
