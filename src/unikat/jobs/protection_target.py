"""What a protection has to reach: a target, or those of several scenarios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from unikat.data.table import CellTable
from unikat.errors import SpecError, listed, option
from unikat.protection.hierarchies import Choices
from unikat.protection.recoding import (
    Recoding,
    Rule,
    level_counts,
    parse_recoding,
    recodable,
    unchanged,
)
from unikat.protection.scenarios import Scenario, Scenarios
from unikat.protection.search import Frontier, Goal, Plan, Search, Value, losses, undominated
from unikat.protection.suppressed_plans import SuppressedPlan, SuppressedPlans
from unikat.protection.what_if import Posterior
from unikat.report.facts.protection import ScenarioFacts
from unikat.risk.estimate import RiskEstimate
from unikat.risk.limits import Measured, Reason, judge
from unikat.spec.limits import Limit
from unikat.spec.protection import ProtectionSpec
from unikat.studies.fit import Fit


class Aim(NamedTuple):
    """What the search is to reach, and how it looks at a recoding."""

    goal: Goal
    quick: Callable[[Recoding], Value]
    closely: Callable[[Recoding], Value]
    """By all states."""
    tau1: Callable[[Recoding], float]
    """Of the frontier, by few states."""
    unreached: Callable[[Search], SpecError]
    """What is said if no recoding reaches the goal."""


def scenarios_of(spec: ProtectionSpec, table: CellTable) -> list[Scenario]:
    """The scenarios; the target of the file itself is the first, of one who knows all keys."""
    of_file = [spec.target] if spec.target else []
    found = Scenario.of("all keys", (), of_file, table, in_sample=False)
    for one in spec.scenarios:
        how: Any = {"in_sample": one.in_sample, "errors": one.errors}
        found += Scenario.of(one.name, one.keys, one.target, table, **how)
    return found


def explicit_plan(table: CellTable, rules: Mapping[str, Rule], weights: Sequence[float]) -> Plan:
    """The plan that does what rules say; keys without one stay as they are."""
    recoding = parse_recoding(table, rules)
    parts = [
        Choices.of([unchanged(key), one], counts)
        for key, one, counts in zip(
            recodable(table), recoding.keys, level_counts(table), strict=True
        )
    ]
    lost = float(losses(parts, weights)[(-1,) * len(parts)])
    return Plan(recoding=recoding, lost=lost, value=Value(math.nan, math.nan))


def aim_of(spec: ProtectionSpec, scenarios: Scenarios) -> Aim:
    """The target, or those of the scenarios."""
    posterior, level = scenarios.posterior, spec.report.level

    if not spec.scenarios:
        target = Limit.of(spec.target)

        def by_all(recoding: Recoding) -> Value:
            # The numbers of the page.
            found = posterior.what_if(recoding, level)
            measure = posterior.measured(recoding, target, level, found)
            return Value(measure, Measured.of(found).tau1.mean)

        def unreached(search: Search) -> SpecError:
            looks = sorted(search.seen, key=lambda at: search.seen[at].measure)
            at = looks[-1 if target.wants_more else 0]
            best = by_all(search.recoding(at)).measure
            return SpecError(
                f"No recoding reaches {target}; the best that was found has {target.measure} "
                f"{best:.3g}."
            )

        def quick(recoding: Recoding) -> Value:
            return posterior.value(recoding, target, level)

        return Aim(target, quick, by_all, posterior.tau1, unreached)

    def closely(recoding: Recoding) -> Value:
        values = zip(scenarios.scenarios, scenarios.measures(recoding), strict=True)
        missed = not all(one.target.met(value) for one, value in values)
        return Value(float(missed), posterior.tau1(recoding))

    return Aim(
        scenarios, scenarios.evaluate, closely, posterior.tau1, lambda _: scenarios.unreached()
    )


def verified(search: Search, plan: Plan | None, aim: Aim, keep: Sequence[str]) -> Plan:
    """Look at the best plan by all states; go on with the next best while it misses the goal."""
    while plan is not None:
        value = aim.closely(plan.recoding)
        if aim.goal.met(value.measure):
            return Plan(recoding=plan.recoding, lost=plan.lost, value=value)
        search.miss(plan.recoding)
        plan = search.best(aim.goal)
    remedy = "Allow"
    if keep:
        remedy = (
            f"Kept as they are: {listed(list(keep))}. Keep fewer keys ({option('keep')}), allow"
        )
    raise SpecError(
        f"{aim.unreached(search)} {remedy} coarser recodings ({option('recodings')}), or set "
        "another target."
    )


def with_suppression(
    spec: ProtectionSpec,
    weights: Sequence[float],
    search: Search,
    found: Frontier,
    aim: Aim,
    posterior: Posterior,
) -> tuple[Plan, str | None, tuple[SuppressedPlan, ...]]:
    """Find the cheapest plan, with suppressed values or without.

    Returns
    -------
    tuple
        The recoding; the rule by which values are suppressed, None if none are; and the plans with
        suppressed values that were looked at.
    """
    plans = SuppressedPlans(
        posterior=posterior,
        target=Limit.of(spec.target),
        level=spec.report.level,
        weights=weights,
        weight_of_suppressed=spec.weight_of_suppressed,
        keep=spec.keep,
        shares=search.shares,
        tell=search.tell,
    )
    whole, unreached = None, None
    try:
        whole = verified(search, found.reached, aim, spec.keep)
    except SpecError as error:
        unreached = error
    best = plans.best(found.plans, 1.0 if whole is None else whole.lost)
    looked_at = tuple(one for one in plans.seen.values() if one is not None)
    if best is not None:
        return best.plan, best.rule, looked_at
    if whole is None:
        assert unreached is not None
        raise unreached
    return whole, None, looked_at


def closer_look(
    plans: Sequence[Plan], chosen: Plan | None, look: Callable[[Recoding], RiskEstimate]
) -> list[tuple[Plan, RiskEstimate]]:
    """Estimate the risk after each plan by all states; leave out plans that another beats."""
    found = [(one, look(one.recoding)) for one in undominated(plans, chosen)]
    return [
        (one, risk)
        for one, risk in found
        if one is chosen
        or not any(other.lost < one.lost and _shown(its) <= _shown(risk) for other, its in found)
    ]


def _shown(risk: RiskEstimate) -> float:
    return Measured.of(risk).tau1.mean


class Stages(NamedTuple):
    """The file as it was, the plan, and the protected file: what is known of each."""

    before: RiskEstimate
    promised: RiskEstimate
    """By the plan."""
    again: Fit
    """Of the recoded file, with its suppressed values."""
    refit: RiskEstimate
    released: Measured | None
    """The file with suppressed and perturbed values, by the model of the file as it was; None if
    there are none."""
    perturbed: bool
    """Values were perturbed: the others are of true values."""
    unknown: tuple[Reason, ...]
    """Why these numbers may not tell whether a limit is met."""


def verdicts_of(
    level: float, scenarios: Scenarios, plan: Plan, stages: Stages
) -> tuple[ScenarioFacts, ...]:
    """What each scenario has before, after by the plan, and after by the new fit; and the verdict.

    The least favourable of plan and new fit is judged. What suppression does for an intruder who
    knows some of the keys the new fit alone tells.
    """
    table, again = scenarios.posterior.table, stages.again
    as_it_was = Recoding(keys=tuple(map(unchanged, recodable(table))))
    whole = Recoding(keys=tuple(map(unchanged, recodable(again.table))))

    @cache
    def refitted() -> Scenarios:
        return Scenarios(posterior=Posterior.of(again), scenarios=scenarios.scenarios, level=level)

    before, promised, refit = map(Measured.of, (stages.before, stages.promised, stages.refit))
    found = []
    for one in scenarios.scenarios:
        first = seen_by(one, as_it_was, before, lambda: scenarios)
        then = seen_by(one, plan.recoding, promised, lambda: scenarios)
        last = seen_by(one, whole, refit, refitted)
        values: list[float | None] = [then, last]
        unknown = stages.unknown
        if stages.released is not None:
            value = _shown_by(one, whole, stages.released)
            if not stages.perturbed:
                values = [value, last]
                then = then if value is None else value
            elif value is not None:
                values = [value]
            else:
                unknown = (*unknown, "perturbed")
                if one.in_sample:
                    # One record of two alike, perturbed, leaves the other alone.
                    values = []
        found.append(ScenarioFacts.of(one, first, then, last, judge(one.target, values, unknown)))
    return tuple(found)


def _sees_all(one: Scenario, recoding: Recoding) -> bool:
    margin = one.margin(recoding)
    return margin is not None and margin.kept == recoding.kept and not one.in_sample


def _shown_by(one: Scenario, recoding: Recoding, found: Measured) -> float | None:
    """What an estimate of all keys tells of a target; None if it does not, or he sees others."""
    asked = one.target.without_errors(one.errors)
    value = found.value(asked) if _sees_all(one, recoding) else None
    return None if value is None else one.target.with_errors(value, one.errors)


def seen_by(
    one: Scenario, recoding: Recoding, found: Measured, by: Callable[[], Scenarios]
) -> float:
    """The number that a scenario's target is judged by: that of the page where he sees all keys."""
    value = _shown_by(one, recoding, found)
    return by().measure(one, recoding) if value is None else value
