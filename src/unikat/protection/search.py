"""The recoding that loses least information among those that reach a target, and the frontier.

Recodings of all keys form a product of partial orders: one plan is coarser than another if each of
its keys is. Coarser plans have at most the risk and at least the loss of finer ones. A plan that
misses the target therefore rules out all finer ones. The search looks at the plan that loses least
among those not ruled out; if it misses the target, its keys are made coarser, one after another, as
long as the target is still missed, and all plans finer than what comes out are ruled out. The first
plan that reaches the target loses least of all.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Protocol

import numpy as np

from unikat._typing import Bool, Float64
from unikat.errors import SpecError
from unikat.protection.hierarchies import Choices
from unikat.protection.recoding import Recoding
from unikat.spec.limits import Limit

NONE = 0.05
"""A τ1 below it is none: plans that lose more to have even less are not shown."""
MOST_PLANS = 20_000_000
"""Plans among which the search can choose."""


class Goal(Protocol):
    """What has to be reached: a target, or those of several scenarios."""

    def met(self, value: float) -> bool:
        """Whether a value of its measure is good enough."""
        ...


class Value(NamedTuple):
    """What a plan reaches."""

    measure: float
    """Of the goal."""
    tau1: float
    """Posterior mean of τ1; NaN if it was not looked at."""


Evaluate = Callable[[Recoding], Value]


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A recoding of all keys, what it loses and what it reaches."""

    recoding: Recoding
    lost: float
    """Share of the information lost, 0 to 1 (see `losses`)."""
    value: Value
    """By the states that the search looks at."""


@dataclass(kw_only=True, eq=False)
class Search:
    """A search among the recodings of some keys. Made by :meth:`of`; it remembers what it found."""

    choices: Sequence[Choices]
    lost: Float64 = field(repr=False)
    """Of every plan, an axis for each key."""
    evaluate: Evaluate
    misses: Bool = field(repr=False)
    """Plans that are ruled out by the targets so far."""
    nothing: tuple[int, ...]
    """The plan without any key, which is none; of -1 where there is no such plan."""
    seen: dict[tuple[int, ...], Value] = field(default_factory=dict, repr=False)

    @classmethod
    def of(
        cls,
        choices: Sequence[Choices],
        evaluate: Evaluate,
        weights: Sequence[float] | None = None,
    ) -> Search:
        """Prepare a search.

        Parameters
        ----------
        choices
            Recodings of each key.
        evaluate
            Tells what a recoding reaches.
        weights
            How much the information of each key counts, not negative; None: all alike.

        Raises
        ------
        SpecError
            If there are more than `MOST_PLANS` plans.
        """
        shape = tuple(len(one.recodings) for one in choices)
        if math.prod(shape) > MOST_PLANS:
            raise SpecError(
                f"There are {math.prod(shape):,} combinations of recodings, more than "
                f"{MOST_PLANS:,}; name fewer recodings for some keys (--recodings; in Python: "
                "recodings), or keep some keys as they are (--keep)."
            )
        lost = losses(choices, weights)
        misses = np.zeros(shape, np.bool_)
        # A file without any key is none that is published.
        out = tuple(
            next((i for i, one in enumerate(part.recodings) if one.key is None), -1)
            for part in choices
        )
        if min(out) >= 0:
            misses[out] = True
        return cls(choices=choices, lost=lost, evaluate=evaluate, misses=misses, nothing=out)

    def best(self, goal: Goal) -> Plan | None:
        """Find the plan that loses least and reaches a goal; None if none does.

        Later goals must be stricter: what misses this one misses them.
        """
        reaches = np.zeros(self.lost.shape, np.bool_)
        for place, value in self.seen.items():
            if goal.met(value.measure):
                reaches[self._coarser(place)] = True
            else:
                self._rule_out(place)
        while True:
            costs = np.where(self.misses, np.inf, self.lost)
            place = tuple(int(i) for i in np.unravel_index(int(np.argmin(costs)), costs.shape))
            if self.misses[place]:
                return None
            value = self.value(place)
            if goal.met(value.measure):
                lost = float(self.lost[place])
                return Plan(recoding=self.recoding(place), lost=lost, value=value)
            self._rule_out(self._coarsest_that_misses(place, goal, reaches))

    def value(self, place: tuple[int, ...]) -> Value:
        """What a plan reaches; looked at once."""
        if place not in self.seen:
            self.seen[place] = self.evaluate(self.recoding(place))
        return self.seen[place]

    def recoding(self, place: tuple[int, ...]) -> Recoding:
        """The recoding of a plan, given by the place of each key's."""
        return Recoding(
            keys=tuple(one.recodings[i] for one, i in zip(self.choices, place, strict=True))
        )

    def miss(self, recoding: Recoding) -> None:
        """Rule out a plan and all finer ones, since a closer look has shown that it misses."""
        self._rule_out(self.place(recoding))

    def place(self, recoding: Recoding) -> tuple[int, ...]:
        """The place of each key's recoding."""
        return tuple(
            next(i for i, one in enumerate(part.recodings) if one is chosen)
            for part, chosen in zip(self.choices, recoding.keys, strict=True)
        )

    def _coarsest_that_misses(
        self, place: tuple[int, ...], goal: Goal, reaches: Bool
    ) -> tuple[int, ...]:
        """Make keys coarser as long as the target is missed, those of least entropy first.

        What a plan reaches is known of coarser and finer ones, too.
        """
        found = place
        for j in sorted(range(len(place)), key=lambda j: self.choices[j].entropy):
            part = self.choices[j]
            coarser = np.flatnonzero(part.coarser[:, found[j]])
            for i in sorted(coarser.tolist(), key=lambda i: -part.lost[i]):
                tried = (*found[:j], i, *found[j + 1 :])
                if tried == self.nothing:
                    continue
                if i == found[j] or self.misses[tried]:
                    found = tried
                    break
                if reaches[tried]:
                    continue
                if goal.met(self.value(tried).measure):
                    reaches[self._coarser(tried)] = True
                    continue
                found = tried
                break
        return found

    def _coarser(self, place: tuple[int, ...]) -> tuple[Any, ...]:
        """Index of all plans that are coarser than one, or the same."""
        return np.ix_(
            *(
                np.flatnonzero(part.coarser[:, i])
                for part, i in zip(self.choices, place, strict=True)
            )
        )

    def _rule_out(self, place: tuple[int, ...]) -> None:
        """Rule out a plan and all that are finer."""
        finer = [np.flatnonzero(one.coarser[i]) for one, i in zip(self.choices, place, strict=True)]
        self.misses[np.ix_(*finer)] = True


def losses(choices: Sequence[Choices], weights: Sequence[float] | None = None) -> Float64:
    """Share of the information that every plan loses, an axis for each key.

    The entropy that the keys lose, over the entropy that they have, each counted with its weight.
    """
    each = np.ones(len(choices)) if weights is None else np.asarray(weights, np.float64)
    whole = float(sum(w * one.entropy for w, one in zip(each, choices, strict=True)))
    found = np.zeros(())
    for w, one in zip(each, choices, strict=True):
        found = np.add.outer(found, w * one.lost / max(whole, 1e-300))
    return np.minimum(found, 1.0)


class Frontier(NamedTuple):
    """What `frontier` finds."""

    plans: list[Plan]
    """None of them is dominated, in rising order of what is lost; the file as it is comes first."""
    reached: Plan | None
    """What loses least and reaches the target; None if nothing does."""
    n_looked_at: int
    """Plans whose risk was computed."""


def frontier(
    search: Search, goal: Goal | None, tau1: Callable[[Recoding], float] | None = None
) -> Frontier:
    """Find plans of falling τ1 that no other beats, and the plan that reaches the goal.

    The limits of τ1 are halved from that of the file as it is, down to half a record. Every plan
    that was looked at on the way counts, also one that missed its limit by little.

    Parameters
    ----------
    search
        Its `evaluate` tells the goal's measure and τ1.
    goal
        What the protected file has to reach; None: the plans of falling τ1 alone.
    tau1
        Tells τ1 of a recoding, if the search does not.
    """

    def by_tau1_alone(recoding: Recoding) -> Value:
        found = search.evaluate(recoding).tau1 if tau1 is None else tau1(recoding)
        return Value(found, found)

    reached = None if goal is None else search.best(goal)
    # τ1 is another measure: what misses its limits need not miss the goal.
    by_tau1 = Search.of(search.choices, by_tau1_alone)
    by_tau1.lost = search.lost
    by_tau1.seen = {
        place: Value(value.tau1, value.tau1)
        for place, value in search.seen.items()
        if not math.isnan(value.tau1)
    }
    whole = tuple(0 for _ in search.choices)
    limit = by_tau1.value(whole).tau1 / 2.0
    while limit >= 0.5:
        plan = by_tau1.best(Limit("tau1_estimate", limit))
        if plan is None:
            break
        limit = min(limit, plan.value.tau1) / 2.0
    if reached is not None:
        tau1_of_it = by_tau1.value(search.place(reached.recoding)).tau1
        reached = replace(reached, value=Value(reached.value.measure, tau1_of_it))
    found = [
        Plan(recoding=search.recoding(place), lost=float(search.lost[place]), value=value)
        for place, value in by_tau1.seen.items()
    ]
    if reached is not None:
        found.insert(0, reached)
    n_looked_at = len({*search.seen, *by_tau1.seen})
    return Frontier(undominated(found), reached, n_looked_at)


def undominated(plans: Sequence[Plan], chosen: Plan | None = None) -> list[Plan]:
    """Plans that no other beats in what is lost and in τ1, in rising order of what is lost.

    `chosen` stays whatever its τ1: the target may be another measure. A τ1 below `NONE` is none.
    """
    found: list[Plan] = []
    least = np.inf
    for plan in sorted(plans, key=lambda plan: (plan.lost, plan.value.tau1)):
        tau1 = max(plan.value.tau1, NONE)
        if tau1 < least or plan is chosen:
            found.append(plan)
            least = min(least, tau1)
    return found
