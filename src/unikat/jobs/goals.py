"""What a protection has to reach: a target, or those of several scenarios."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from unikat.data.table import CellTable
from unikat.errors import SpecError, listed, option
from unikat.protection.hierarchies import Choices
from unikat.protection.recoding import Recoding, Rule, level_counts, parse_recoding, unchanged
from unikat.protection.scenarios import Scenario, Scenarios, n_states_for
from unikat.protection.search import Goal, Plan, Search, Value, losses, undominated
from unikat.protection.what_if import N_STATES, Posterior
from unikat.report.facts.protection import ScenarioFacts
from unikat.risk.estimate import RiskEstimate
from unikat.spec.protection import ProtectionSpec
from unikat.spec.target import Target
from unikat.studies.fit import Fit

_MOST_REJECTED = 200
"""Plans that a closer look may reject."""


class Aim(NamedTuple):
    """What the search is to reach, and how it looks at a recoding."""

    goal: Goal
    quick: Callable[[Recoding], Value]
    closely: Callable[[Recoding], Value]
    """By all states."""
    tau1: Callable[[Recoding], float] | None
    """None where the quick look tells it."""
    unreached: Callable[[Search], SpecError]
    """What is said if no recoding reaches the goal."""


def scenarios_of(spec: ProtectionSpec, table: CellTable) -> list[Scenario]:
    """The scenarios; the target of the file itself is the first, of one who knows all keys."""
    if not spec.scenarios:
        return []
    of_file = [spec.target] if spec.target else []
    found = Scenario.of("all keys", (), of_file, table, in_sample=False)
    for one in spec.scenarios:
        found += Scenario.of(one.name, one.keys, one.target, table, in_sample=one.in_sample)
    return found


def told(table: CellTable, rules: Mapping[str, Rule], weights: Sequence[float]) -> Plan:
    """The plan that does what rules say; keys without one stay as they are."""
    recoding = parse_recoding(table, rules)
    parts = [
        Choices.of([unchanged(key), one], counts)
        for key, one, counts in zip(table.keys, recoding.keys, level_counts(table), strict=True)
    ]
    lost = float(losses(parts, weights)[(-1,) * len(parts)])
    return Plan(recoding=recoding, lost=lost, value=Value(math.nan, math.nan))


def aim_of(spec: ProtectionSpec, scenarios: Scenarios) -> Aim:
    """The target, or those of the scenarios."""
    posterior, level = scenarios.posterior, spec.report.level
    n_all = max(sum(map(len, posterior.states)), 1)

    def by(n_states: int, target: Target) -> Callable[[Recoding], Value]:
        return lambda recoding: posterior.value(recoding, target, level, n_states)

    of_tau1 = Target("tau1", 0.0)

    def tau1(recoding: Recoding) -> float:
        return by(n_states_for(of_tau1), of_tau1)(recoding).tau1

    if not spec.scenarios:
        target = Target.of(spec.target)

        def unreached(search: Search) -> SpecError:
            looks = sorted(search.seen, key=lambda at: search.seen[at].measure)
            at = looks[-1 if target.wants_more else 0]
            best = by(n_all, target)(search.recoding(at)).measure
            return SpecError(
                f"No recoding reaches {target}; the best that was found has {target.measure} "
                f"{best:.3g}."
            )

        quick = by(n_states_for(target), target)
        told = target.measure in ("tau1", "tau2")
        return Aim(target, quick, by(n_all, target), None if told else tau1, unreached)

    def closely(recoding: Recoding) -> Value:
        values = zip(scenarios.scenarios, scenarios.measures(recoding), strict=True)
        missed = not all(one.target.met(value) for one, value in values)
        return Value(float(missed), by(n_all, of_tau1)(recoding).tau1)

    return Aim(scenarios, scenarios.evaluate, closely, tau1, lambda _: scenarios.unreached())


def verified(search: Search, plan: Plan | None, aim: Aim, keep: Sequence[str]) -> Plan:
    """Look at the best plan by all states; go on with the next best while it misses the goal."""
    for _ in range(_MOST_REJECTED):
        if plan is None:
            break
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


def closer_look(
    plans: Sequence[Plan], chosen: Plan | None, look: Callable[[Recoding], RiskEstimate]
) -> list[tuple[Plan, RiskEstimate]]:
    """Estimate the risk after each plan by all states; leave out plans that another beats."""
    found = [(one, look(one.recoding)) for one in undominated(plans, chosen)]
    return [
        (one, risk)
        for one, risk in found
        if one is chosen
        or not any(
            other.lost < one.lost and its.tau1.mean <= risk.tau1.mean for other, its in found
        )
    ]


def verdicts_of(
    spec: ProtectionSpec,
    scenarios: Scenarios,
    plan: Plan,
    again: Fit,
    refit: RiskEstimate,
) -> tuple[ScenarioFacts, ...]:
    """What each scenario has before, after by the plan, and after by the new fit."""
    if not spec.scenarios:
        return ()
    table = scenarios.posterior.table
    before = scenarios.measures(Recoding(keys=tuple(map(unchanged, table.keys))))
    after = scenarios.measures(plan.recoding)
    posterior = Posterior.of(again)
    whole = Recoding(keys=tuple(map(unchanged, again.table.keys)))
    seen = Scenarios(posterior=posterior, scenarios=scenarios.scenarios, level=spec.report.level)
    found = []
    for one, first, then in zip(scenarios.scenarios, before, after, strict=True):
        margin = one.margin(whole)
        if margin is None or one.target.measure == "population_k":
            last = seen.measure(one, whole, N_STATES)
        elif len(margin.kept) == len(whole.keys) and not one.in_sample:
            last = reached(refit, one.target)
        else:
            of = posterior.within_sample if one.in_sample else posterior
            last = reached(of.what_if(margin, spec.report.level), one.target)
        found.append(ScenarioFacts.of(one, first, then, last))
    return tuple(found)


def refit_reaches(
    spec: ProtectionSpec, verdicts: Sequence[ScenarioFacts], refit: RiskEstimate
) -> bool | None:
    """Whether the new fit reaches all targets; None where it does not tell."""
    if verdicts:
        return all(one.reached for one in verdicts)
    if not spec.target:
        return None
    target = Target.of(spec.target)
    return None if target.measure == "population_k" else target.met(reached(refit, target))


def reached(found: RiskEstimate, target: Target) -> float:
    """What an estimate says of the target's measure; of the smallest F it says nothing."""
    tau1, tau2 = found.tau1_shown or found.tau1, found.tau2_shown or found.tau2
    r1 = np.nan_to_num(found.records.r1_published)
    return {
        "tau1": tau1.mean,
        "tau2": tau2.mean,
        "tau1_upper": tau1.upper,
        "tau2_upper": tau2.upper,
        "r1": float(r1.max(initial=0.0)),
        "records": float(found.table.counts[r1 > (target.above or 0.0)].sum()),
        "k": float(found.table.matches.min()),
    }[target.measure]
