"""Plans that perturb or suppress values instead of joining more levels, and the cheapest of them.

A plan of the frontier that misses the target may reach it if some keys are perturbed, or if the
values of its riskiest records are suppressed: those whose risk is above a threshold, the largest
that is enough. The cheapest plan is then neither the finest, of which many values go, nor the
coarsest. For each perturbation, the weakest first, the frontier is looked at by itself:

- With perturbation alone the risk falls along the frontier and the loss rises, about: the first
  plan that reaches the target is found by bisection, and looked for among the eight before it.
- With suppression the loss falls and rises again: in steps of eight plans, then of four, two and
  one around the best.

Plans that cost more than the best so far, which is what they lose and more where keys are left out,
are not looked at. The answer is the best of the plans
that were looked at, each with the values that its file shows (`protection.release`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from unikat.errors import SpecError
from unikat.protection.going_on import N_STATES
from unikat.protection.perturbed import CorrectMatches
from unikat.protection.release import Release, Releases
from unikat.protection.search import Plan, SearchProgress, Tell
from unikat.protection.what_if import FEW
from unikat.spec.limits import Limit
from unikat.spec.perturbation import Pram

THRESHOLDS = (0.7, 0.5, 0.35, 0.25, 0.18, 0.13, 0.09, 0.065, 0.045, 0.03, 0.02, 0.014, 0.01, 0.005)
"""Of r1, above which values are suppressed."""
_STATES = 32
"""By which a plan is looked at before it is taken."""
_STEP = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class Reaching:
    """A release that reaches the target, and its risk."""

    release: Release
    matches: CorrectMatches

    @property
    def cost(self) -> float:
        """Share of the information that it loses, and what its plan costs besides."""
        return self.release.lost + self.release.plan.more


_Place = tuple[int, int]
"""The perturbation, and the plan of the frontier."""


@dataclass(kw_only=True, eq=False)
class ReleasedPlans:
    """The plans of a frontier, perturbed and suppressed as a target of τ1, τ2 or k needs."""

    releases: Releases
    target: Limit
    perturbations: Sequence[Pram] = ({},)
    """To choose from."""
    suppress: bool = True
    """Whether values may be suppressed."""
    tell: Tell | None = None
    seen: dict[_Place, Reaching | None] = field(default_factory=dict, repr=False)
    """None if it misses the target, or cannot be better than the best."""
    dear: set[_Place] = field(default_factory=set, repr=False)
    """Those that were not looked at because they cost more than the best."""

    def best(self, plans: Sequence[Plan], most: float) -> Reaching | None:
        """Find the cheapest release, by all states; None if none costs less than `most`.

        plans: of the frontier, in rising order of cost.
        """
        began = time.monotonic()
        for number, pram in enumerate(self.perturbations):
            places = [at for at, plan in enumerate(plans) if _kept(plan).issuperset(pram)]
            if self.suppress:
                self._walk(plans, places, number, most, began)
            elif pram:
                self._bisect(plans, places, number, most, began)
        while (at := self._best) is not None:
            found = self.seen[at]
            assert found is not None
            if (closely := self._closely(found)) is not None and closely.cost < most:
                return closely
            self.seen[at] = None
            # The next plan of the frontier has less risk.
            pram = self.perturbations[at[0]]
            after = (n for n in range(at[1] + 1, len(plans)) if _kept(plans[n]).issuperset(pram))
            self._look(plans, (at[0], next(after, len(plans))), most, began)
        return None

    def _bisect(
        self, plans: Sequence[Plan], places: Sequence[int], number: int, most: float, began: float
    ) -> None:
        """Find the first plan that reaches the target with a perturbation alone."""
        low, high = 0, len(places)
        while low < high:
            middle = (low + high) // 2
            at = number, places[middle]
            self._look(plans, at, most, began)
            if self.seen[at] is not None or at in self.dear:
                high = middle
            else:
                low = middle + 1
        for place in places[max(low - _STEP, 0) : low]:
            self._look(plans, (number, place), most, began)

    def _walk(
        self, plans: Sequence[Plan], places: Sequence[int], number: int, most: float, began: float
    ) -> None:
        """Look for the cheapest plan with a perturbation and suppression."""
        step = _STEP
        asked = [*range(0, len(places), step)]
        while step:
            for middle in asked:
                if 0 <= middle < len(places):
                    self._look(plans, (number, places[middle]), most, began)
            of_these = [at for at, one in self.seen.items() if one is not None and at[0] == number]
            if not of_these:
                return
            middle = places.index(min(of_these, key=self._cost)[1])
            step //= 2
            asked = [middle - step, middle + step]

    def _look(self, plans: Sequence[Plan], at: _Place, most: float, began: float) -> None:
        if at in self.seen or not 0 <= at[1] < len(plans):
            return
        best = None if self._best is None else self.seen[self._best]
        if self.tell is not None:
            self.tell(
                SearchProgress(
                    name="Suppression" if self.suppress else "Perturbation",
                    looks=len(self.seen) + 1,
                    most_looks=len(plans) * len(self.perturbations),
                    lost=None if best is None else best.release.lost,
                    seconds=time.monotonic() - began,
                )
            )
        # Along the frontier of one perturbation a plan that is no better leads to better ones.
        others = [self._cost(one) for one in self.seen if one[0] != at[0] and self.seen[one]]
        plan, pram, bound = plans[at[1]], self.perturbations[at[0]], min([most, *others])
        unsuppressed = plan.cost
        if pram and plan.cost < bound:
            release = self._released(plan, pram, None, FEW)
            unsuppressed = bound if release is None else release.lost + plan.more
        if unsuppressed >= bound:
            self.seen[at] = None
            self.dear.add(at)
        else:
            self.seen[at] = self._looked_at(plan, pram)

    @property
    def _best(self) -> _Place | None:
        found = [at for at, one in self.seen.items() if one is not None]
        return min(found, key=self._cost, default=None)

    def _cost(self, at: _Place) -> float:
        found = self.seen[at]
        return math.inf if found is None else found.cost

    def _rules(self, pram: Pram) -> list[str | None]:
        """Rules of suppression, the one that suppresses least first."""
        found: list[str | None] = [None] if pram else []
        if self.suppress and self.target.plain == "k":
            found.append(f"k >= {self.target.bound:g}")
        elif self.suppress:
            found += [f"r1 <= {threshold:g}" for threshold in THRESHOLDS]
        return found

    def _looked_at(self, plan: Plan, pram: Pram) -> Reaching | None:
        """The release that reaches the target with the fewest values suppressed, by few states."""
        rules = self._rules(pram)
        # The first that is enough.
        low, high, found = 0, len(rules), None
        while low < high:
            middle = (low + high) // 2
            one = self._reaching(plan, pram, rules[middle], FEW, _STATES)
            if one is not None:
                found, high = one, middle
            else:
                low = middle + 1
        return found

    def _closely(self, found: Reaching) -> Reaching | None:
        """By all states; with more suppressed if it then misses the target."""
        one = found.release
        rules = self._rules(one.pram)
        for rule in rules[rules.index(one.rule) :]:
            closely = self._reaching(one.plan, one.pram, rule, N_STATES, N_STATES)
            if closely is not None:
                return closely
        return None

    def _reaching(
        self,
        plan: Plan,
        pram: Pram,
        rule: str | None,
        n_of_margins: int,
        n_states: int,
    ) -> Reaching | None:
        """The release of a plan, if it reaches the target."""
        release = self._released(plan, pram, rule, n_of_margins)
        if release is None:
            return None
        matches = self.releases.matches(release, n_states=n_states)
        value = matches.measured.value(self.target)
        reached = value is not None and self.target.met(value)
        return Reaching(release=release, matches=matches) if reached else None

    def _released(self, plan: Plan, pram: Pram, rule: str | None, n_states: int) -> Release | None:
        """The release of a plan; None if there is none."""
        try:
            return self.releases.of(plan, pram, rule, n_states=n_states)
        except SpecError:
            return None


def _kept(plan: Plan) -> set[str]:
    """Names of the keys that a plan does not leave out."""
    return {plan.recoding.keys[j].name for j in plan.recoding.kept}
