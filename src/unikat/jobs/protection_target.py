"""What a protection has to reach: a target, or those of several scenarios."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from unikat.data.hand_groups import only_groups
from unikat.data.hierarchies import Hierarchy
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError, listed, option
from unikat.protection.going_on import N_STATES
from unikat.protection.hierarchies import Choices
from unikat.protection.perturbed import CorrectMatches
from unikat.protection.recoding import (
    KeyRecoding,
    Recoding,
    Rule,
    by_hierarchy,
    level_counts,
    parse_recoding,
    recodable,
    unchanged,
)
from unikat.protection.release import Release, Releases
from unikat.protection.released_plans import Reaching, ReleasedPlans
from unikat.protection.scenarios import Scenario, Scenarios
from unikat.protection.search import (
    Frontier,
    Goal,
    Plan,
    Search,
    SearchProgress,
    Tell,
    Value,
    losses,
    undominated,
)
from unikat.protection.what_if import Posterior
from unikat.report.facts.protection import ScenarioFacts
from unikat.risk.estimate import RiskEstimate
from unikat.risk.limits import Measured, Reason, judge
from unikat.spec.limits import Limit
from unikat.spec.protection import BY_SEARCH, ProtectionSpec


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


def explicit_plan(
    table: CellTable, rules: Mapping[str, Rule | Hierarchy], weights: Sequence[float]
) -> Plan:
    """The plan that does what rules say; keys without one stay as they are."""
    trees = {name: rule for name, rule in rules.items() if isinstance(rule, Hierarchy)}
    plain = {name: rule for name, rule in rules.items() if not isinstance(rule, Hierarchy)}
    # A mapping of no level checks that there is such a key.
    recoding = parse_recoding(table, {**plain, **{name: {} for name in trees}})
    keys = zip(recodable(table), recoding.keys, strict=True)
    recoding = Recoding(
        keys=tuple(
            _by_only_column(key, trees[key.name]) if key.name in trees else one for key, one in keys
        )
    )
    recoding.check_kept()
    lost = lost_by(table, recoding, weights)
    return Plan(recoding=recoding, lost=lost, value=Value(math.nan, math.nan))


def _by_only_column(key: Key, tree: Hierarchy) -> KeyRecoding:
    only_groups(key.name, tree, f"Name it by {option('recodings')}, with a target, or take one: ")
    return by_hierarchy(key, tree)[0]


def lost_by(table: CellTable, recoding: Recoding, weights: Sequence[float] | None = None) -> float:
    """Share of the information of the keys that a recoding loses, each key with its weight."""
    parts = [
        Choices.of([unchanged(key), one], counts)
        for key, one, counts in zip(
            recodable(table), recoding.keys, level_counts(table), strict=True
        )
    ]
    return float(losses(parts, weights)[(-1,) * len(parts)])


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
            return replace(plan, value=value)
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


def with_release(
    spec: ProtectionSpec, search: Search, found: Frontier, aim: Aim, releases: Releases
) -> tuple[Release, tuple[Reaching, ...]]:
    """Find the cheapest plan, with perturbed or suppressed values or without.

    Returns
    -------
    tuple
        What is released, and the plans with such values that were looked at and reach the target.
    """
    plans = ReleasedPlans(
        releases=releases,
        target=Limit.of(spec.target),
        perturbations=spec.perturbations,
        suppress=spec.suppress == BY_SEARCH,
        tell=search.tell,
    )
    whole, unreached = None, None
    if {} in spec.perturbations:
        try:
            whole = verified(search, found.reached, aim, spec.keep)
        except SpecError as error:
            unreached = error
    best = plans.best(found.plans, math.inf if whole is None else whole.cost)
    looked_at = tuple(one for one in plans.seen.values() if one is not None)
    if best is not None:
        return best.release, looked_at
    if whole is not None:
        return releases.of(whole, {}, None), looked_at
    raise unreached or SpecError(
        f"No plan that was looked at reaches {spec.target} with its keys perturbed. Allow that "
        f"they stay ({option('pram')} with 1 among the probabilities), coarser recodings "
        f"({option('recodings')}), or set another target."
    )


MOST_SHOWN = 24
"""Plans of a frontier whose risk is computed by all states."""


def closer_look(
    plans: Sequence[Plan],
    chosen: Plan | None,
    look: Callable[[Recoding], RiskEstimate],
    tell: Tell | None = None,
) -> list[tuple[Plan, RiskEstimate]]:
    """Estimate the risk after each plan by all states; leave out plans that another beats.

    Of more than `MOST_SHOWN` plans some are looked at, evenly spread, with the first, the last and
    the chosen one.
    """
    some = undominated(plans, chosen)
    if len(some) > MOST_SHOWN:
        places = set(np.linspace(0, len(some) - 1, MOST_SHOWN).round().astype(int).tolist())
        some = [one for i, one in enumerate(some) if i in places or one is chosen]
    began, found = time.monotonic(), []
    for n, one in enumerate(some, 1):
        if tell is not None:
            seconds = time.monotonic() - began
            tell(
                SearchProgress(
                    name="Plans",
                    looks=n,
                    most_looks=len(some),
                    lost=None,
                    seconds=seconds,
                    to_the_end=True,
                )
            )
        found.append((one, look(one.recoding)))
    return [
        (one, risk)
        for one, risk in found
        if one is chosen
        or not any(other.cost < one.cost and _shown(its) <= _shown(risk) for other, its in found)
    ]


def _shown(risk: RiskEstimate) -> float:
    return Measured.of(risk).tau1.mean


def states_told(tell: Tell | None) -> Callable[[float], None] | None:
    """Tell how many states of the posterior are made, from the share of them."""
    if tell is None:
        return None
    begun = time.monotonic()

    def told(share: float) -> None:
        seconds, n = time.monotonic() - begun, max(round(share * N_STATES), 1)
        event = SearchProgress(
            name="Posterior",
            unit="state",
            looks=n,
            most_looks=N_STATES,
            lost=None,
            seconds=seconds,
            to_the_end=True,
        )
        tell(event)

    return told


class Stages(NamedTuple):
    """The file as it was, the plan, and the protected file: what is known of each."""

    before: RiskEstimate
    promised: RiskEstimate
    """By the plan."""
    again: CellTable
    """The recoded file, with its suppressed values, that was fitted again."""
    refitted: Callable[[], Posterior]
    """States of that fit."""
    refit: RiskEstimate
    released: Measured | None
    """The file with suppressed and perturbed values, by the model of the file as it was; None if
    there are none."""
    unknown: tuple[Reason, ...]
    """Why these numbers may not tell whether a limit is met."""
    perturbed: Callable[[Recoding], CorrectMatches] | None = None
    """The risk of the perturbed file, against an intruder who knows some of its keys; None if no
    values were perturbed. The other numbers, but for `released`, are then of true values."""


def verdicts_of(
    level: float, scenarios: Scenarios, plan: Plan, stages: Stages
) -> tuple[ScenarioFacts, ...]:
    """What each scenario has before, after by the plan, and after by the new fit; and the verdict.

    The least favourable of plan and new fit is judged. What suppression does for an intruder who
    knows some of the keys the new fit alone tells.
    """
    table, again = scenarios.posterior.table, stages.again
    as_it_was = Recoding(keys=tuple(map(unchanged, recodable(table))))
    whole = Recoding(keys=tuple(map(unchanged, recodable(again))))

    @cache
    def refitted() -> Scenarios:
        posterior = stages.refitted()
        return Scenarios(posterior=posterior, scenarios=scenarios.scenarios, level=level)

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
            if stages.perturbed is None:
                values = [value, last]
                then = then if value is None else value
            elif one.margin(plan.recoding) is not None:
                value = (
                    _of_perturbed(one, plan.recoding, stages.perturbed) if value is None else value
                )
                if value is not None:
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


def _of_perturbed(
    one: Scenario, recoding: Recoding, matches: Callable[[Recoding], CorrectMatches]
) -> float | None:
    """What an intruder reaches with a perturbed file; None if that is not known.

    k is counted in the file; what else one reaches who knows who is in it is not known.
    """
    margin = one.margin(recoding)
    if margin is None or (one.in_sample and one.target.measure != "k"):
        return None
    value = matches(margin).measured.value(one.target.without_errors(one.errors))
    return None if value is None else one.target.with_errors(value, one.errors)


def seen_by(
    one: Scenario, recoding: Recoding, found: Measured, by: Callable[[], Scenarios]
) -> float:
    """The number that a scenario's target is judged by: that of the page where he sees all keys."""
    value = _shown_by(one, recoding, found)
    return by().measure(one, recoding) if value is None else value
