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
counts by bins of log(N p_c), so that memory does not grow with them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.kernels import overdispersion as kernels
from unikat.models.base import AnyModel, Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS
from unikat.risk.exposure import class_left_open, without_class

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
    """(n_cells, len(BINS) - 1): draws of the probability of each cell in each bin."""


NO_RARE_CELLS = RareCellTotals(np.zeros((0, len(BINS) - 1), np.int32))


@dataclass(frozen=True, kw_only=True, eq=False)
class RareCells:
    """Cells that are seen once, twice or three times."""

    cells: Int32
    """(n_cells, n_keys): the sampling class left open where the model has one."""
    counts: Int64
    """(n_cells,): 1, 2 or 3."""
    weights: Float64
    """(n_cells,): cells of the sample that each stands for."""
    n_records: int
    """Records without a missing key."""
    population_size: int

    @classmethod
    def of(cls, table: CellTable) -> RareCells:
        """Take the cells of the table that a model is fitted to; incomplete records do not count.

        Of more cells than `MOST_OBSERVED` every second, third, ... is taken: they are sorted by
        their levels, so that this is no selection by risk.
        """
        at_risk = without_class(table)
        complete = ~at_risk.incomplete
        taken, weights = [], []
        for times in (1, 2, 3):
            found = np.flatnonzero(complete & (at_risk.counts == times))
            places = np.linspace(0, len(found) - 1, min(len(found), MOST_OBSERVED))
            taken.append(found[places.astype(np.int64)])
            weights.append(np.full(len(places), len(found) / max(len(places), 1)))
        which = np.concatenate(taken)
        return cls(
            cells=class_left_open(at_risk.cells[which], table),
            counts=at_risk.counts[which],
            weights=np.concatenate(weights),
            n_records=int(at_risk.counts[complete].sum()),
            population_size=table.n_units,
        )

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        draws = np.zeros((1, len(BINS) - 1), np.int32)
        kernels.add_to_bins(np.ones(1), BINS[0], BINS[1] - BINS[0], draws)
        one, expected = np.ones(1), np.exp(BINS[1:])
        kernels.means_without(draws, expected, 1.0, 0.5)
        kernels.repeat_likelihood(
            draws, expected, np.ones(1, np.int64), 1.0, 2.0, one, one, np.zeros((1, 1, 1))
        )

    def start(self) -> RareCellTotals:
        """Empty totals."""
        return RareCellTotals(np.zeros((len(self.cells), len(BINS) - 1), np.int32))

    def cost(self, model: AnyModel, data: Any) -> float:
        """Work of one observation, in the unit of the model's cost."""
        return float((model.cost(data)[1] + 10.0) * len(self.cells))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: RareCellTotals
    ) -> None:
        """Add one state to the totals."""
        if len(self.cells):
            p = model.cell_probabilities(stream, state, data, self.cells)
            kernels.add_to_bins(self.population_size * p, BINS[0], BINS[1] - BINS[0], totals.draws)

    def log_likelihood(self, totals: RareCellTotals) -> Float64:
        """Log-likelihood of each (k, d), (len(OVERDISPERSION), len(SHIFTS)), the largest 0."""
        total = np.zeros((len(OVERDISPERSION), len(SHIFTS)))
        middle = 0.5 * (BINS[1:] + BINS[:-1])
        expected = np.exp(middle)
        for times in (1, 2, 3):
            seen = np.flatnonzero(self.counts == times)
            means = kernels.means_without(
                totals.draws[seen], expected, float(times), self.n_records / self.population_size
            )
            rare = seen[means < RARE]
            used = rare[np.linspace(0, len(rare) - 1, min(len(rare), MOST_USED)).astype(np.int64)]
            if not len(used):
                continue
            out = np.empty((len(used), len(OVERDISPERSION), len(SHIFTS)))
            kernels.repeat_likelihood(
                totals.draws[used],
                expected,
                self.counts[used],
                float(self.n_records),
                float(self.population_size),
                OVERDISPERSION,
                SHIFTS,
                out,
            )
            stands_for = self.weights[rare].sum() / len(used)
            total += stands_for * out.sum(axis=0)
        below: Float64 = total - total.max()
        return below
