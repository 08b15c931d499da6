"""What a sample says of the error of a model: how often its rare cells are seen again.

A model may be right about frequent cells and wrong about rare ones, whose records are at risk. So
the evidence comes from cells that are seen once, twice or three times although the model, fitted
to all *other* records, expects fewer than `RARE` units of the population in them. Given that a
cell is seen so often, how often follows a negative binomial law of mean n exp(d) p_c and relative
variance k_c (`models.calibrated`), truncated to 1, 2 and 3: a likelihood of each pair (k, d).

The probability p_c without the cell's own records comes from the same chain: draws of the
posterior are weighted by one over the probability of its f records, p_c^-f exp(n p_c) (importance
sampling for leaving out, Gelfand, Dey and Chang 1992). Weights are cut off at sqrt(S) times their
mean over S draws, which bounds their variance (Ionides 2008, JCGS 17, 295-311). Draws are kept as
counts by bins of log(N p_c), so that memory does not grow with them. Where units had unequal
chances, N p_c is the number of population units expected in the cell.

Where keys are missing only complete records are counted, and n is their number. So a cell's records
are taken to be complete with the same chance everywhere; where rare cells have more missing values,
they look rarer than they are (docs/design/missing-keys.md).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.companions import Companions, Members
from unikat.data.table import CellTable
from unikat.kernels import overdispersion as kernels
from unikat.models.base import AnyModel, Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS, values_of_k
from unikat.risk.by_class import Look
from unikat.risk.exposure import Exposure, exposure_of

RARE = 2.0
"""Units of the population expected in a rare cell, at most."""
MOST_OBSERVED = 3000
"""Cells seen once, twice or three times each that are looked at."""
MOST_USED = 500
"""Rare ones among them whose likelihood is computed: more would tell little more."""
BINS: Float64 = np.linspace(-12.0, 8.0, 81)
"""Edges of the bins of log(N p_c); the first and the last bin take what is beyond."""


class RareCellTotals(NamedTuple):
    """Sums over draws."""

    draws: Int32
    """(n_cells, len(BINS) - 1): draws of the population units expected in each cell, by bin."""
    units: Float64
    """(n_cells,): sums of these."""
    records: Float64
    """(n_cells,): sums of the records expected in each cell."""


NO_RARE_CELLS = RareCellTotals(np.zeros((0, len(BINS) - 1), np.int32), np.zeros(0), np.zeros(0))


@dataclass(frozen=True, kw_only=True, eq=False)
class RareCells:
    """Cells that are seen once, twice or three times."""

    cells: Int32
    """(n_cells, n_keys)"""
    counts: Int64
    """(n_cells,): 1, 2 or 3. Where whole households were drawn these are households."""
    weights: Float64
    """(n_cells,): cells of the sample that each stands for."""
    n_records: int
    """Records without a missing key."""
    population_size: int
    exposure: Exposure
    companions: Companions | None = None
    overdispersion: Float64 = field(default_factory=lambda: OVERDISPERSION)
    """Values of k whose likelihood is computed."""

    @classmethod
    def of(cls, table: CellTable) -> RareCells:
        """Take the cells of a sample; incomplete records do not count.

        Of more cells than `MOST_OBSERVED` every second, third, ... is taken: they are sorted by
        their levels, so that this is no selection by risk.
        """
        complete = ~table.incomplete
        members = Members.of(table)
        seen = table.counts if members is None else members.n_households(table)
        taken, weights = [], []
        for times in (1, 2, 3):
            found = np.flatnonzero(complete & (seen == times))
            places = np.linspace(0, len(found) - 1, min(len(found), MOST_OBSERVED))
            taken.append(found[places.astype(np.int64)])
            weights.append(np.full(len(places), len(found) / max(len(places), 1)))
        which = np.concatenate(taken)
        return cls(
            cells=table.cells[which],
            counts=seen[which],
            companions=None if members is None else members.companions(table.cells[which]),
            weights=np.concatenate(weights),
            n_records=int(table.counts[complete].sum()),
            population_size=table.n_units,
            exposure=exposure_of(table),
            overdispersion=values_of_k(table),
        )

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        draws, one, expected = np.zeros((1, len(BINS) - 1), np.int32), np.ones(1), np.exp(BINS[1:])
        kernels.add_to_bins(one, BINS[0], BINS[1] - BINS[0], draws)
        kernels.means_without(draws, expected, 1.0, one)
        count = np.ones(1, np.int64)
        kernels.repeat_likelihood(draws, expected, count, one, one, one, np.zeros((1, 1, 1)))

    def start(self) -> RareCellTotals:
        """Empty totals."""
        n = len(self.cells)
        return RareCellTotals(np.zeros((n, len(BINS) - 1), np.int32), np.zeros(n), np.zeros(n))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: RareCellTotals
    ) -> None:
        """Add one state to the totals."""
        if not len(self.cells):
            return
        look = Look(stream, model, state, data)
        chances = self.exposure.chances(look, self.cells, self.companions)
        p = self.exposure.probabilities(chances)
        over = self.exposure.population(chances)
        units = (float(self.population_size) if over is None else over) * p
        kernels.add_to_bins(units, BINS[0], BINS[1] - BINS[0], totals.draws)
        totals.units[...] += units
        totals.records[...] += self.n_records * p

    def log_likelihood(self, totals: RareCellTotals) -> Float64:
        """Log-likelihood of each (k, d), (len(overdispersion), len(SHIFTS)), the largest 0."""
        total = np.zeros((len(self.overdispersion), len(SHIFTS)))
        expected = np.exp(0.5 * (BINS[1:] + BINS[:-1]))
        # Sampling fraction of the units of each cell; without a design that of all units.
        fraction = totals.records / np.maximum(totals.units, 1e-300)
        for times in (1, 2, 3):
            seen = np.flatnonzero(self.counts == times)
            means = kernels.means_without(
                totals.draws[seen], expected, float(times), fraction[seen]
            )
            rare = seen[means < RARE]
            used = rare[np.linspace(0, len(rare) - 1, min(len(rare), MOST_USED)).astype(np.int64)]
            if not len(used):
                continue
            out = np.empty((len(used), len(self.overdispersion), len(SHIFTS)))
            kernels.repeat_likelihood(
                totals.draws[used],
                expected,
                self.counts[used],
                fraction[used],
                self.overdispersion,
                SHIFTS,
                out,
            )
            total += self.weights[rare].sum() / len(used) * out.sum(axis=0)
        below: Float64 = total - total.max()
        return below
