"""Plans that suppress single values instead of joining more levels, and the cheapest of them.

A plan of the frontier that misses the target reaches it if the values of its riskiest records are
suppressed: those whose risk is above a threshold, the largest that is enough. The cheapest plan is
then neither the finest, of which many values go, nor the coarsest. Along the frontier the loss
falls and rises again, about; it is looked at in steps of eight plans, then of four, two and one
around the best. The answer is the best of the plans that were looked at.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.errors import SpecError, listed, option
from unikat.protection.going_on import N_STATES
from unikat.protection.lost import information_lost
from unikat.protection.perturbed import CorrectMatches, correct_matches
from unikat.protection.recoding import Recoding
from unikat.protection.search import Plan, SearchProgress, Tell
from unikat.protection.subsample import Shares
from unikat.protection.suppression import KAnonymity, RiskLimit, suppress
from unikat.protection.what_if import FEW, Posterior
from unikat.spec.limits import Limit

_THRESHOLDS = (0.7, 0.5, 0.35, 0.25, 0.18, 0.13, 0.09, 0.065, 0.045, 0.03, 0.02, 0.014, 0.01, 0.005)
"""Of r1, above which values are suppressed."""
_STATES = 32
"""By which a plan is looked at before it is taken."""
_STEP = 8


@dataclass(frozen=True, kw_only=True, eq=False)
class SuppressedPlan:
    """A plan and what it suppresses."""

    plan: Plan
    rule: str
    """As `--suppress` takes it: `r1 <= 0.05`."""
    lost: float
    """Share of the information that is lost by all of it."""
    suppressed: Bool = field(repr=False)
    """(n_released, n_kept_keys): values of the released records of the table."""
    matches: CorrectMatches
    """The risk of the file that comes out."""


def suppressed_values(
    limit: Limit,
    posterior: Posterior,
    recoding: Recoding,
    codes: Int32,
    weights: Sequence[float],
    keep: Sequence[str],
    n_states: int = N_STATES,
) -> Bool:
    """Values of recoded records that local suppression sets missing, (n, n_kept_keys).

    Parameters
    ----------
    limit
        That every record reaches, of r1 or k.
    posterior, recoding
        Of the file as it was, and what is done to it.
    codes
        (n, n_kept_keys): the recoded records.
    weights
        How much a value of each key costs.
    keep
        Keys that lose no value.
    n_states
        By which r1 is asked for.

    Raises
    ------
    SpecError
        If no suppression makes all records safe.
    """
    rule = (
        KAnonymity(math.ceil(limit.bound))
        if limit.measure == "k"
        else RiskLimit(limit.bound, posterior.margin_risk(recoding, n_states))
    )
    keys = [one.key for one in recoding.keys if one.key is not None]
    # A key whose information does not count is the first to go, but not for nothing.
    costs = [
        np.inf if recoding.keys[j].name in keep else max(weights[j], 1e-6) for j in recoding.kept
    ]
    try:
        return suppress(codes, [key.n_levels for key in keys], rule, costs=costs).suppressed
    except SpecError as error:
        if not keep:
            raise
        raise SpecError(
            f"{error} No value of {listed(list(keep))} is suppressed, since "
            f"{option('keep')} names {'it' if len(keep) == 1 else 'them'}."
        ) from None


@dataclass(kw_only=True, eq=False)
class SuppressedPlans:
    """The plans of a frontier with the suppression that a target of τ1, τ2 or k needs."""

    posterior: Posterior
    target: Limit
    level: float
    weights: Sequence[float]
    """How much the information of each key counts."""
    weight_of_suppressed: float
    """How much that of a suppressed value counts, as a multiple."""
    keep: Sequence[str] = ()
    shares: Shares | None = None
    """Of the records that the table has."""
    tell: Tell | None = None
    seen: dict[int, SuppressedPlan | None] = field(default_factory=dict, repr=False)
    """By the place of the plan in the frontier; None if it cannot be better than the best."""

    def best(self, plans: Sequence[Plan], most: float) -> SuppressedPlan | None:
        """Find the cheapest plan, by all states; None if none loses less than `most`.

        plans: of the frontier, in rising order of what they lose.
        """
        began, step = time.monotonic(), _STEP
        asked = list(range(0, len(plans), step))
        while step:
            for place in asked:
                if place in self.seen or not 0 <= place < len(plans):
                    continue
                if self.tell is not None:
                    found = self._best
                    progress = SearchProgress(
                        name="Suppression",
                        looks=len(self.seen) + 1,
                        most_looks=len(plans),
                        lost=None if found is None else found.lost,
                        seconds=time.monotonic() - began,
                    )
                    self.tell(progress)
                self.seen[place] = self._looked_at(plans[place], most)
            middle = next((at for at, one in self.seen.items() if one is self._best and one), None)
            if middle is None:
                break
            step //= 2
            asked = [middle - step, middle + step]
        while (found := self._best) is not None:
            if (closely := self._closely(found)) is not None and closely.lost < most:
                return closely
            place = next(at for at, one in self.seen.items() if one is found)
            self.seen[place] = None
        return None

    @property
    def _best(self) -> SuppressedPlan | None:
        found = [one for one in self.seen.values() if one is not None]
        return min(found, key=lambda one: one.lost, default=None)

    def _looked_at(self, plan: Plan, most: float) -> SuppressedPlan | None:
        if plan.lost >= most:
            return None
        if self.target.measure == "k":
            return self._suppressing(plan, f"k >= {self.target.bound:g}", FEW, _STATES)
        # The largest threshold that is enough.
        low, high, found = 0, len(_THRESHOLDS), None
        while low < high:
            middle = (low + high) // 2
            one = self._suppressing(plan, f"r1 <= {_THRESHOLDS[middle]:g}", FEW, _STATES)
            if one is not None and self._reaches(one):
                found, high = one, middle
            else:
                low = middle + 1
        return found

    def _closely(self, found: SuppressedPlan) -> SuppressedPlan | None:
        """By all states; with a lower threshold if it then misses the target."""
        if self.target.measure == "k":
            return self._suppressing(found.plan, found.rule, N_STATES, N_STATES)
        first = _THRESHOLDS.index(Limit.of(found.rule).bound)
        for threshold in _THRESHOLDS[first:]:
            one = self._suppressing(found.plan, f"r1 <= {threshold:g}", N_STATES, N_STATES)
            if one is not None and self._reaches(one):
                return one
        return None

    def _reaches(self, one: SuppressedPlan) -> bool:
        value = one.matches.measured.value(self.target)
        return value is not None and self.target.met(value)

    def _suppressing(
        self, plan: Plan, rule: str, n_of_margins: int, n_states: int
    ) -> SuppressedPlan | None:
        table, recoding = self.posterior.table, plan.recoding
        held = recoding.held
        rows: Int64 = np.arange(table.n_records) if held is None else np.flatnonzero(~held)
        codes = table.cells[table.record_cell[rows]]
        true = recoding.codes(codes)
        try:
            gone = suppressed_values(
                Limit.of(rule), self.posterior, recoding, true, self.weights, self.keep,
                n_of_margins,
            )  # fmt: skip
        except SpecError:
            return None
        visible = np.where(gone, -1, true).astype(np.int32)
        matches = correct_matches(
            self.posterior, recoding, visible, self.level, rows, true, n_states=n_states
        )
        lost = information_lost(
            codes, recoding, self.weights,
            suppressed=gone, weight_of_suppressed=self.weight_of_suppressed,
        )  # fmt: skip
        if self.shares is not None:
            lost = self.shares.lost(lost, self.shares.share_of(recoding.held))
        return SuppressedPlan(plan=plan, rule=rule, lost=lost, suppressed=gone, matches=matches)
