"""The recoding that loses least information among those that reach a target, and the frontier.

Recodings of all keys form a product of partial orders: one plan is coarser than another if each of
its keys is. Coarser plans have at most the risk and at least the loss of finer ones: the loss
always, the risk but for keys that members of sampled households share, whose law is that of the
coarser keys and no sum (`models.mixtures.homes`). A plan that misses the target therefore rules out
all finer ones. The search looks at the plan that loses least among those not ruled out; if it
misses the target, its keys are made coarser, one after another, as long as the target is still
missed, and all plans finer than what comes out are ruled out. Which key is made coarser first is
asked of the plans that are left: the step that rules out most of them for what it loses. A plan
that reaches the target on the way is made finer as long as it does, and what loses more than it is
not looked at any more. The first plan that reaches the target loses least of all.

Many keys of many levels have thousands of plans at the border of what reaches the target, and a
proof needs a look at most of them. After `MOST_LOOKS` the search takes the best plan so far, no key
of which can be made finer, and says what share of the information any plan loses that could be
better (`Search.least`).

The share of the records that is released (`protection.subsample`) is one more axis of the product,
on which a smaller share is coarser if it is never less favourable for what has to be reached. Where
it may be, no share is finer than another, and the search looks at each by itself.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, Protocol

import numpy as np

from unikat._typing import Bool, Float64, Int64
from unikat.errors import SpecError
from unikat.inference.progress import TimeLeft
from unikat.protection.hierarchies import Choices
from unikat.protection.recoding import Recoding
from unikat.protection.subsample import Shares
from unikat.spec.limits import Limit

NONE = 0.05
"""A τ1 below it is none: plans that lose more to have even less are not shown."""
MOST_PLANS = 20_000_000
"""Plans among which the search can choose."""
MOST_LOOKS = 2_000
"""Plans whose risk is computed before the best of them is taken."""
_MORE_LOOKS = 100
_WEIGHED = 40_000
"""Plans by which the order of steps is chosen, at most."""
_STEP = 0.005
"""Share of the information that any step counts as losing, beside its own."""


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


@dataclass(frozen=True, kw_only=True)
class SearchProgress:
    """Where a search stands; told before every look."""

    name: str
    """Of the search."""
    looks: int
    """Plans whose risk was computed, with the one that is looked at now."""
    most_looks: int
    """After which the best plan so far is made finer, which takes a few more."""
    lost: float | None
    """Share of the information that this plan loses; None before one that reaches the target."""
    seconds: float
    """Since the search began; in an event of a run, since the run began."""
    unit: str = "look"
    """What is counted."""
    to_the_end: bool = False
    """It makes them all."""
    time_left: TimeLeft | None = None
    """Of the whole run; None while it is not known."""
    share: float | None = None
    """Of the run that is done."""


Tell = Callable[[SearchProgress], None]


@dataclass(frozen=True, kw_only=True, eq=False)
class Plan:
    """A recoding of all keys, what it loses and what it reaches."""

    recoding: Recoding
    lost: float
    """Share of the information lost, 0 to 1 (see `losses`)."""
    value: Value
    """By the states that the search looks at."""
    more: float = 0.0
    """What it costs besides what is lost, where the search leaves keys out (see `costs`)."""

    @property
    def cost(self) -> float:
        """By which plans are ordered."""
        return self.lost + self.more


class _EnoughError(Exception):
    """So many plans were looked at."""


@dataclass(kw_only=True, eq=False)
class Search:
    """A search among the recodings of some keys. Made by :meth:`of`; it remembers what it found."""

    choices: Sequence[Choices]
    lost: Float64 = field(repr=False)
    """Of every plan, an axis for each key, and one for the shares if there are some."""
    cost: Float64 = field(repr=False)
    """By which plans are ordered: what they lose, and more where keys are left out (`costs`)."""
    evaluate: Evaluate
    shares: Shares | None = None
    """Of the records; None: all are released."""
    tell: Tell | None = None
    name: str = "Search"
    """What is searched, in words for who watches."""
    misses: Bool = field(repr=False)
    """Plans that are ruled out by the targets so far."""
    nothing: tuple[int, ...]
    """The plan without any key, which is none; of -1 where there is no such plan."""
    seen: dict[tuple[int, ...], Value] = field(default_factory=dict, repr=False)
    begun: float = field(default_factory=time.monotonic)
    most_looks: int = MOST_LOOKS
    more_looks: int = _MORE_LOOKS
    """For another limit after that, or if a closer look rejects the plan."""
    least: float | None = None
    """What a plan loses at least that was not ruled out when the last search stopped early; None if
    it ended by itself."""
    _reaches: Bool = field(default_factory=lambda: np.zeros(0, np.bool_), repr=False)
    """Plans that reach the goal of this search."""
    _found: tuple[int, ...] | None = None
    """Of those looked at that reach it the one that loses least."""
    _until: int = 0
    """Looks after which it stops."""
    _most: int = 0
    """The same, but for those that make the best plan finer."""

    @classmethod
    def of(
        cls,
        choices: Sequence[Choices],
        evaluate: Evaluate,
        weights: Sequence[float] | None = None,
        *,
        shares: Shares | None = None,
        tell: Tell | None = None,
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
        shares
            Of the records, of which one is released; None: all records are.
        tell
            Told where the search stands, before each look.
        """
        shape = tuple(len(one.recodings) for one in choices)
        if shares is not None:
            shape = (*shape, len(shares.shares))
        if math.prod(shape) > MOST_PLANS:
            raise SpecError(
                f"There are {math.prod(shape):,} combinations of recodings, more than "
                f"{MOST_PLANS:,}; name fewer recodings for some keys (--recodings; in Python: "
                "recodings), or keep some keys as they are (--keep)."
            )
        lost = losses(choices, weights)
        more = costs(choices, weights) - lost
        if shares is not None:
            lost = 1.0 - np.multiply.outer(1.0 - lost, shares.kept)
            more = more[..., None]
        misses = np.zeros(shape, np.bool_)
        # A file without any key is none that is published.
        out = tuple(
            next((i for i, one in enumerate(part.recodings) if one.key is None), -1)
            for part in choices
        )
        if min(out) >= 0:
            misses[out] = True
        return cls(
            choices=choices,
            lost=lost,
            cost=lost + more,
            evaluate=evaluate,
            shares=shares,
            tell=tell,
            misses=misses,
            nothing=out,
        )

    @cached_property
    def axes(self) -> list[Bool]:
        """Of each axis, (n, n): whether the first is coarser than the second, or the same."""
        of_keys = [one.coarser for one in self.choices]
        return of_keys if self.shares is None else [*of_keys, self.shares.coarser]

    @cached_property
    def order(self) -> Int64:
        """All plans, numbered as by `ravel`, in rising order of what they cost."""
        return np.argsort(self.cost, axis=None, kind="stable")

    def best(self, goal: Goal) -> Plan | None:
        """Find the plan that loses least and reaches a goal; None if none does.

        Later goals must be stricter: what misses this one misses them. After too many looks it is
        the best that was found, and `least` says so.
        """
        self._reaches, self._found, self.least = np.zeros(self.lost.shape, np.bool_), None, None
        self._until = self._most = max(self.most_looks, len(self.seen) + self.more_looks)
        for place, value in self.seen.items():
            # What is ruled out has ruled out all finer plans.
            if (met := goal.met(value.measure)) or not self.misses[place]:
                self._note(place, met=met)
        least = self._least(0)
        try:
            while least is not None and not self._met(least[1], goal):
                self._rule_out(self._coarsest_that_misses(least, goal))
                least = self._least(least[0])
            at = None if least is None else least[1]
        except _EnoughError:
            at = self._best_so_far(goal)
            left = self._least(0)
            if at is not None and left is not None and left[1] != at:
                self.least = float(self.lost[left[1]])
        if at is None:
            return None
        return self.plan(at, self.value(at))

    def plan(self, place: tuple[int, ...], value: Value) -> Plan:
        """The plan at a place of each key's recoding, with what it reaches."""
        lost = float(self.lost[place])
        more = float(self.cost[place]) - lost
        return Plan(recoding=self.recoding(place), lost=lost, value=value, more=more)

    def _least(self, start: int) -> tuple[int, tuple[int, ...]] | None:
        """The plan that loses least of those that are left, from a number of `order` on."""
        misses, order = self.misses.reshape(-1), self.order
        for first in range(start, len(order), _WEIGHED):
            left = np.flatnonzero(~misses[order[first : first + _WEIGHED]])
            if len(left):
                number = first + int(left[0])
                place = np.unravel_index(order[number], self.lost.shape)
                return number, tuple(int(i) for i in place)
        return None

    def _met(self, place: tuple[int, ...], goal: Goal) -> bool:
        """Whether a plan reaches the goal; what that tells of others is kept."""
        if self._reaches[place] and place in self.seen:
            return True
        if place not in self.seen and len(self.seen) >= self._until:
            raise _EnoughError
        met = goal.met(self.value(place).measure)
        self._note(place, met=met)
        return met

    def _note(self, place: tuple[int, ...], *, met: bool) -> None:
        if not met:
            self._rule_out(place)
            return
        self._reaches[self._coarser(place)] = True
        # A closer look may have rejected it.
        if not self.misses[place] and (
            self._found is None or self.cost[place] < self.cost[self._found]
        ):
            self._found = place

    def _best_so_far(self, goal: Goal) -> tuple[int, ...] | None:
        """The best plan that is known, made finer; or else one made of the coarsest of all."""
        self._until = int(self.lost.size)
        if self._found is None:
            # If these miss the goal, all do.
            ends = [np.flatnonzero(coarser.sum(axis=0) == 1) for coarser in self.axes]
            coarsest = [tuple(map(int, at)) for at in product(*ends)]
            if any(map(self._is_nothing, coarsest)):
                coarsest = [
                    (*self.nothing[:j], int(i), *self.nothing[j + 1 :], *share)
                    for j, one in enumerate(self.choices)
                    for i in np.flatnonzero(np.arange(len(one.recodings)) != self.nothing[j])
                    for share in product(*(end.tolist() for end in ends[len(self.choices) :]))
                ]
            for at in sorted(coarsest, key=lambda at: (-self.cost[at], at)):
                if not self.misses[at] and self._met(at, goal):
                    break
        if self._found is not None:
            self._make_finer(self._found, goal)
        return self._found

    def _make_finer(self, place: tuple[int, ...], goal: Goal) -> None:
        """Make keys of a plan finer, those that lose most first, as long as it reaches the goal."""
        at: tuple[int, ...] | None = place
        while at is not None:
            place = at
            finer = [
                (*place[:j], int(i), *place[j + 1 :])
                for j, coarser in enumerate(self.axes)
                for i in np.flatnonzero(coarser[place[j]])
                if i != place[j]
            ]
            finer.sort(key=lambda at: (self.cost[at], at))
            at = next(
                (
                    one
                    for one in finer
                    if not self.misses[one] and (self._reaches[one] or self._met(one, goal))
                ),
                None,
            )
        self._met(place, goal)

    def value(self, place: tuple[int, ...]) -> Value:
        """What a plan reaches; looked at once."""
        if place not in self.seen:
            if self.tell is not None:
                self.tell(self._stands())
            self.seen[place] = self.evaluate(self.recoding(place))
        return self.seen[place]

    def _stands(self) -> SearchProgress:
        return SearchProgress(
            name=self.name,
            looks=len(self.seen) + 1,
            most_looks=self._most,
            lost=None if self._found is None else float(self.lost[self._found]),
            seconds=time.monotonic() - self.begun,
        )

    def recoding(self, place: tuple[int, ...]) -> Recoding:
        """The recoding of a plan, given by the place of each key's and of the share."""
        keys = tuple(one.recodings[i] for one, i in zip(self.choices, place, strict=False))
        return Recoding(
            keys=keys, held=None if self.shares is None else self.shares.held[place[-1]]
        )

    def miss(self, recoding: Recoding) -> None:
        """Rule out a plan and all finer ones, since a closer look has shown that it misses."""
        self._rule_out(self.place(recoding))

    def place(self, recoding: Recoding) -> tuple[int, ...]:
        """The place of each key's recoding, and of the share."""
        place = tuple(
            next(i for i, one in enumerate(part.recodings) if one is chosen)
            for part, chosen in zip(self.choices, recoding.keys, strict=True)
        )
        if self.shares is None:
            return place
        return (*place, next(i for i, one in enumerate(self.shares.held) if one is recoding.held))

    def _is_nothing(self, place: tuple[int, ...]) -> bool:
        return place[: len(self.choices)] == self.nothing

    def _coarsest_that_misses(
        self, start: tuple[int, tuple[int, ...]], goal: Goal
    ) -> tuple[int, ...]:
        """Make keys coarser as long as the target is missed.

        The step comes first that rules out most for what it loses, of the plans that lose less than
        the best that is known. What a plan reaches is known of coarser and finer ones, too.
        """
        number, found = start
        left = self.order[number:]
        left = left[~self.misses.reshape(-1)[left]]
        if self._found is not None:
            left = left[self.cost.reshape(-1)[left] < self.cost[self._found]]
        left = left[:: -(-len(left) // _WEIGHED) or 1]
        levels = np.unravel_index(left, self.lost.shape)
        while (tried := self._next_step(found, levels)) is not None:
            if self.misses[tried] or not self._met(tried, goal):
                found = tried
            elif tried == self._found:
                self._make_finer(tried, goal)
        return found

    def _next_step(self, place: tuple[int, ...], levels: Sequence[Int64]) -> tuple[int, ...] | None:
        """The coarser plan by one key that rules out most for what it loses, if it is not known.

        `levels`: of the plans that are left, the recoding of each key.
        """
        above = [~coarser[i][at] for coarser, i, at in zip(self.axes, place, levels, strict=True)]
        n_above = np.sum(above, axis=0)
        best: tuple[float, tuple[int, ...]] | None = None
        for j, coarser in enumerate(self.axes):
            # These are not finer because of this key alone.
            alone = levels[j][above[j] & (n_above == 1)]
            counts = np.bincount(alone, minlength=len(coarser))
            for i in np.flatnonzero(coarser[:, place[j]]).tolist():
                tried = (*place[:j], i, *place[j + 1 :])
                more = int(counts[coarser[i]].sum())
                if not more or self._is_nothing(tried) or self._reaches[tried]:
                    continue
                rate = more / (float(self.cost[tried] - self.cost[place]) + _STEP)
                if best is None or rate > best[0]:
                    best = rate, tried
        return None if best is None else best[1]

    def _coarser(self, place: tuple[int, ...]) -> tuple[Any, ...]:
        """Index of all plans that are coarser than one, or the same."""
        return np.ix_(
            *(np.flatnonzero(axis[:, i]) for axis, i in zip(self.axes, place, strict=True))
        )

    def _rule_out(self, place: tuple[int, ...]) -> None:
        """Rule out a plan and all that are finer."""
        finer = [np.flatnonzero(axis[i]) for axis, i in zip(self.axes, place, strict=True)]
        self.misses[np.ix_(*finer)] = True


def losses(choices: Sequence[Choices], weights: Sequence[float] | None = None) -> Float64:
    """Share of the information that every plan loses, an axis for each key.

    Of each key the share of its own entropy that is lost, and of these the root of the mean square,
    each key counted with its weight. So keys of many levels do not count more, and one that is left
    out counts more than the same loss spread over several: by the sum of bits the best plans have
    ages in single years and no sex, by the mean share every other key and no age.
    """
    return np.minimum(_root_of_mean_square([_shares(one) for one in choices], choices, weights), 1)


def costs(choices: Sequence[Choices], weights: Sequence[float] | None = None) -> Float64:
    """What the search goes by: as `losses`, but a key that is left out counts as several.

    As how many says `Choices.out_counts`: to join levels is what an office does, and to leave a key
    out what it does if nothing else helps.
    """
    shares = []
    for one in choices:
        out = np.array([recoding.key is None for recoding in one.recodings])
        shares.append(np.where(out, math.sqrt(one.out_counts), _shares(one)))
    return _root_of_mean_square(shares, choices, weights)


def _shares(one: Choices) -> Float64:
    found: Float64 = one.lost / max(one.entropy, 1e-300)
    return found


def _root_of_mean_square(
    shares: Sequence[Float64], choices: Sequence[Choices], weights: Sequence[float] | None
) -> Float64:
    each = np.ones(len(choices)) if weights is None else np.asarray(weights, np.float64)
    whole = float(sum(w for w, one in zip(each, choices, strict=True) if one.entropy > 0.0))
    found = np.zeros(())
    for w, share in zip(each, shares, strict=True):
        found = np.add.outer(found, w * share**2 / max(whole, 1e-300))
    return np.sqrt(found)


class Frontier(NamedTuple):
    """What `frontier` finds."""

    plans: list[Plan]
    """None of them is dominated, in rising order of what is lost; the file as it is comes first."""
    reached: Plan | None
    """What loses least and reaches the target; None if nothing does."""
    n_looked_at: int
    """Plans whose risk was computed."""
    complete: bool
    """Whether no look was spared: of each limit of τ1 the cheapest plan is there."""


def frontier(
    search: Search,
    goal: Goal | None,
    tau1: Callable[[Recoding], float] | None = None,
    *,
    step: float = 0.5,
) -> Frontier:
    """Find plans of falling τ1 that no other beats, and the plan that reaches the goal.

    The limits of τ1 fall from that of the file as it is, down to half a record. Every plan that was
    looked at on the way counts, also one that missed its limit by little.

    Parameters
    ----------
    search
        Its `evaluate` tells the goal's measure and τ1.
    goal
        What the protected file has to reach; None: the plans of falling τ1 alone.
    tau1
        Tells τ1 of a recoding, if the search does not.
    step
        A limit as a share of the τ1 of the plan before, below 1. Near 1 every plan is found that no
        other beats by more than that, unless the looks are used up (`Frontier.complete`).
    """

    def by_tau1_alone(recoding: Recoding) -> Value:
        found = search.evaluate(recoding).tau1 if tau1 is None else tau1(recoding)
        return Value(found, found)

    reached = None if goal is None else search.best(goal)
    # τ1 is another measure: what misses its limits need not miss the goal.
    shares = None if search.shares is None else replace(search.shares, ordered=True)
    by_tau1 = Search.of(search.choices, by_tau1_alone, shares=shares, tell=search.tell)
    by_tau1.lost, by_tau1.cost, by_tau1.order = search.lost, search.cost, search.order
    by_tau1.name = "Frontier"
    by_tau1.most_looks = search.most_looks
    by_tau1.seen = {
        place: Value(value.tau1, value.tau1)
        for place, value in search.seen.items()
        if not math.isnan(value.tau1)
    }
    whole, complete = tuple(0 for _ in search.axes), True
    limit = step * by_tau1.value(whole).tau1
    while limit >= 0.5:
        plan = by_tau1.best(Limit("tau1_estimate", limit))
        complete = complete and by_tau1.least is None
        if plan is None:
            break
        # Once looks are spared, each limit costs more of them.
        limit = (step if complete else min(step, 0.5)) * min(limit, plan.value.tau1)
    if reached is not None:
        tau1_of_it = by_tau1.value(search.place(reached.recoding)).tau1
        reached = replace(reached, value=Value(reached.value.measure, tau1_of_it))
    found = [search.plan(place, value) for place, value in by_tau1.seen.items()]
    if reached is not None:
        found.insert(0, reached)
    n_looked_at = len({*search.seen, *by_tau1.seen})
    return Frontier(undominated(found), reached, n_looked_at, complete)


def undominated(plans: Sequence[Plan], chosen: Plan | None = None) -> list[Plan]:
    """Plans that no other beats in cost and in τ1, in rising order of cost.

    `chosen` stays whatever its τ1: the target may be another measure. A τ1 below `NONE` is none.
    """
    found: list[Plan] = []
    least = np.inf
    for plan in sorted(plans, key=lambda plan: (plan.cost, plan.value.tau1)):
        tau1 = max(plan.value.tau1, NONE)
        if tau1 < least or plan is chosen:
            found.append(plan)
            least = min(least, tau1)
    return found
