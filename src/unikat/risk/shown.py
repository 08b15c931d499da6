"""Risk of what a published file shows: an incomplete record is known by its known keys alone.

r1 of an incomplete record says that its complete combination is alone. An intruder who knows the
hidden keys of a person cannot use them, since the file does not show them. For him the record is
one of all that agree with its known keys: those of the margin m of these keys. With f_m records of
the sample in the margin, the record itself among them, and F_m units of the population,

    r1_shown = P(F_m = 1),        r2_shown = E(1 / F_m).

Given a completed sample (the incomplete records imputed) f_m is known, so r1_shown is 0 unless
f_m = 1, and the unobserved units of the margin have the law of those of a cell (`exposure`): its
probability is that of the cells in it, each with the model's own error; those without a record
have its mean. The margin holds the record's cell, so r1_shown <= r1 and r2_shown <= r2. A complete
record has its r1 and r2: the file shows all of it.

tau1_shown and tau2_shown are about the records that are alone in the completed sample with what
the file shows of them: for each F_m, or F of a complete record, is drawn. Margins of two incomplete
records may share cells, in which no record is; their counts are drawn as if they did not. The mean
is right, and the variance slightly too small.

Of a model that integrates rates out r1_shown is r1 of the imputed cell times the chance that the
rest of the margin is empty (`measures`), and r2_shown is its own for the margin.

Where this costs more than the measures do it is done in every second, third, ... kept draw.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.companions import Companions, companions_of
from unikat.data.households import HouseholdLayout, agreeing_households
from unikat.data.patterns import Meeting, agreeing, by_known_keys, summed
from unikat.data.table import CellTable
from unikat.kernels import cells as kernels
from unikat.models.base import IntegratesRisk
from unikat.risk.by_class import Look
from unikat.risk.exposure import Exposure
from unikat.risk.law import Moments, moments

SHOWN = ("tau1_shown", "tau2_shown")
"""Scalars of a draw."""
NOT_SHOWN = dict.fromkeys(SHOWN, math.nan)
"""The same of a draw that was not looked at."""
MOST_SKIPPED = 8
"""At least one in so many kept draws is looked at."""
_AGREEMENT_COST = 40.0
"""Nanoseconds, roughly, to ask one cell for one set of known keys."""
_CHAINS = 2**29, 2**28
"""Added to the chain's number: random numbers of their own for complete and incomplete records."""


class ShownTotals(NamedTuple):
    """Sums over the draws that were looked at; they add across chains."""

    n_draws: Int64
    """(1,)"""
    r1: Float64
    """(n_patterns,)"""
    r2: Float64
    """(n_patterns,)"""
    histogram_r1: Int32
    """(n_patterns, n_bins): over the square root of r1."""
    histogram_r2: Int32
    """(n_patterns, n_bins)"""


class Completed(NamedTuple):
    """A completed sample, by cell, under one state of a model."""

    cells: Int32
    """(n_cells, n_keys): those that have records."""
    counts: Float64
    """(n_cells,)"""
    released: Float64
    """(n_cells,): of these records, those that are released; see `CellTable.held`."""
    p: Any
    """The model's chances of the cells."""
    q: Any
    """The same with its error; the very same object if it has none."""
    own: Int64
    """(n_patterns,): cell of the first record of each incomplete pattern."""
    r1: Float64 | None
    """(n_cells,) of a model that integrates rates out; else None."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Shown:
    """What the known keys of incomplete records show. Made by :meth:`of`."""

    patterns: Int32
    """(n_patterns, n_keys): incomplete, -1 where a key is missing. One that many records have is
    one item: all of them agree with each other."""
    released: Int64
    """(n_patterns,): records of each that are released."""
    n_sets: int
    """Sets of known keys that they have."""
    n_levels: tuple[int, ...]
    exposure: Exposure
    companions: Companions | None
    """Of the patterns, by the records that agree with what they show."""
    layout: HouseholdLayout | None
    """What the columns are where a record is a household."""

    @property
    def is_known(self) -> bool:
        """Whether it is known who agrees with what is shown.

        Not of a household of which a key is known of some members and not of all: these may be any
        of another's.
        """
        return self.layout is None or bool(self.layout.is_whole(self.patterns).all())

    def _agreeing(self, cells: Int32) -> Iterator[Meeting]:
        if self.layout is None:
            return agreeing(self.patterns, cells, self.n_levels)
        return agreeing_households(self.layout, self.patterns, cells)

    @classmethod
    def of(cls, table: CellTable, imputed: Int64, exposure: Exposure) -> Shown:
        """Prepare for those patterns of a table that are imputed."""
        patterns = table.cells[imputed]
        return cls(
            patterns=patterns,
            released=table.released[imputed],
            n_sets=len(by_known_keys(patterns)[0]),
            n_levels=table.n_levels,
            exposure=exposure,
            companions=companions_of(table, patterns),
            layout=table.layout,
        )

    def skipped(self, look: Look, n_cells: int, cost: float) -> int:
        """Return in how many kept draws one is looked at, where the measures cost so much."""
        margins = len(self.patterns) * self.exposure.width * look.model.cost(look.data)[1]
        ratio = (margins + _AGREEMENT_COST * self.n_sets * n_cells) / max(cost, 1.0)
        return min(max(math.ceil(ratio), 1), MOST_SKIPPED)

    def observe(
        self,
        look: Look,
        sample: Completed,
        complete: Any,
        totals: ShownTotals,
        margins: list[Moments] | None = None,
    ) -> Mapping[str, float]:
        """Add one draw to the totals and return its tau's.

        `complete` are the chances, with error, of the complete records that are sample unique.
        Into `margins` goes what the state says of the margins that are alone.
        """
        margin = self.exposure.chances(look, self.patterns, self.companions)
        values = [sample.counts[:, None], sample.released[:, None]]
        if sample.q is not sample.p:
            values.append(self.exposure.within(sample.p, sample.q))
        sums = summed(self._agreeing(sample.cells), np.hstack(values), len(self.patterns))
        records = sums[:, 0]
        if sample.q is not sample.p:
            margin = self.exposure.filled(margin, sums[:, 2:], look.erring)
        unique = (sums[:, 1] == 1.0) & (self.released > 0)
        if margins is not None:
            margins.append(self._moments(look, margin, unique, records, sample))
        alone = unique & (records == 1.0)
        r1, r2 = self._risk(look, margin, records, alone, sample)
        r1 = np.where(alone, r1, 0.0)
        totals.n_draws[0] += 1
        kernels.add_records(
            r1,
            r2,
            np.arange(len(r1)),
            np.zeros(len(r1)),
            totals.r1,
            totals.r2,
            totals.histogram_r1,
            totals.histogram_r2,
        )
        parts = zip(_CHAINS, (complete, self.exposure.taken(margin, alone)), strict=True)
        drawn = [
            self.exposure.draw(look.elsewhere(chain).stream, chances, look.poisson)
            for chain, chances in parts
        ]
        return dict(zip(SHOWN, np.sum(drawn, axis=0).tolist(), strict=True))

    def _moments(
        self, look: Look, margin: Any, alone: Any, records: Float64, sample: Completed
    ) -> Moments:
        """What the state says of margins of which one record is released.

        `margin` with the model's error.
        """
        of, counts = self.exposure, records[alone]
        chances = of.taken(margin, alone)
        if sample.q is sample.p:
            return moments(look, of, chances, counts)
        # The record's own cell has an error, and the cells that join it have its mean.
        p, q = (of.taken(part, sample.own[alone]) for part in (sample.p, sample.q))
        joined = np.maximum(of.means(chances) - of.means(q), 0.0)
        return moments(look, of, p, counts, joined)

    def _risk(
        self, look: Look, margin: Any, records: Float64, alone: Any, sample: Completed
    ) -> tuple[Float64, Float64]:
        """r1 (of those that are alone) and r2 of the margins, (n_patterns,)."""
        model, patterns = look.model, self.patterns
        if sample.r1 is None or not isinstance(model, IntegratesRisk):
            return self.exposure.risk(margin, records, look.poisson)
        r2 = model.integrated_risk(look.stream, look.state, look.data, patterns, records)[1]
        r1, own = np.zeros(len(patterns)), sample.own[alone]
        rest = model.empty_rest(look.state, look.data, patterns[alone], sample.cells[own])
        r1[alone] = sample.r1[own] * rest
        return r1, r2
