"""How often records are matched by others of the same sample: the one truth every owner has.

Of the records that are kept, those in a cell of their own are sample uniques of a smaller sample,
and the records left out are a population of which all is known: how many of them fall in the
same cell can be compared with what the model, fitted to the records kept, expects. With gamma
effects of overdispersion k on the cells and an error d of the level (`models.calibrated`) the
matches of a cell are negative binomial; so they have a likelihood for each pair (k, d).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import sum_equal
from unikat.data.table import CellTable
from unikat.kernels.overdispersion import match_likelihood
from unikat.models.base import AnyModel, Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS
from unikat.risk.exposure import ByClass, Exposure, class_left_open, without_class

MOST_CELLS = 6000
"""Cells looked at; more would tell little more of k and d, and cost time."""
EVERY = 8
"""One of so many kept draws is looked at: the likelihood of all pairs costs more than a sweep."""
MOST_MATCHES = 60
"""More matches count as so many: such cells are far from unique."""


class MatchTotals(NamedTuple):
    """Sums over draws."""

    n_draws: Int64
    """(1,): draws looked at."""
    probability: Float64
    """(n_cells, len(OVERDISPERSION), len(SHIFTS)): of the matches of each cell."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Matches:
    """The cells with one kept record, and the records left out that match it."""

    cells: Int32
    """(n_cells, n_keys): the sampling class left open where the model has one."""
    matches: Int64
    """(n_cells,)"""
    n_kept: int
    n_left_out: int
    population_size: int
    exposure: ByClass | None
    """Of the whole sample, where chances were unequal: how many units of the population a cell
    has, on which its overdispersion depends."""

    @classmethod
    def of(
        cls,
        kept: CellTable,
        left_out: CellTable,
        *,
        most: int = MOST_CELLS,
        exposure: Exposure | None = None,
    ) -> Matches:
        """Count the matches of two parts of a sample; records with missing keys do not count.

        At most so many cells are looked at.
        """
        fitted, kept, left_out = kept, without_class(kept), without_class(left_out)
        here, there = ~kept.incomplete, ~left_out.incomplete
        single = here & (kept.counts == 1)
        cells = kept.cells[single]
        times = left_out.counts[there].astype(np.float64)
        found = sum_equal(cells, left_out.cells[there], times, kept.n_levels)
        matches = np.minimum(found.astype(np.int64), MOST_MATCHES)
        # The cells are sorted by their levels, so every so many of them is no choice by risk.
        chosen = np.linspace(0, len(cells) - 1, min(len(cells), most)).astype(np.int64)
        return cls(
            cells=class_left_open(cells[chosen], fitted),
            matches=matches[chosen],
            n_kept=int(kept.counts[here].sum()),
            n_left_out=int(left_out.counts[there].sum()),
            population_size=kept.n_units,
            exposure=exposure if isinstance(exposure, ByClass) else None,
        )

    def compile(self) -> None:
        """Compile the kernel (or load it from the cache)."""
        one = np.ones(1)
        match_likelihood(one, np.ones(1, np.int64), 1.0, 1.0, one, one, one, np.zeros((1, 1, 1)))

    def cost(self) -> float:
        """Work of one observation on average, in nanoseconds, roughly."""
        return 40.0 * len(self.cells) * len(OVERDISPERSION) * len(SHIFTS) / EVERY

    def start(self) -> MatchTotals:
        """Empty totals."""
        shape = (len(self.cells), len(OVERDISPERSION), len(SHIFTS))
        return MatchTotals(n_draws=np.zeros(1, np.int64), probability=np.zeros(shape))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: MatchTotals
    ) -> None:
        """Add one state to the totals."""
        totals.n_draws[0] += 1
        if not len(self.cells):
            return
        p = model.cell_probabilities(stream, state, data, self.cells)
        population = np.full(len(p), float(self.population_size))
        if self.exposure is not None:
            keys = self.cells[:, :-1] if self.exposure.appended else self.cells
            chances = self.exposure.chances(stream, model, state, data, keys)
            population = self.exposure.population(chances)
        match_likelihood(
            p,
            self.matches,
            float(self.n_kept),
            float(self.n_left_out),
            population,
            OVERDISPERSION,
            SHIFTS,
            totals.probability,
        )

    def log_likelihood(self, totals: MatchTotals) -> Float64:
        """Log-likelihood of each (k, d), (len(OVERDISPERSION), len(SHIFTS)), the largest 0."""
        mean = totals.probability / max(int(totals.n_draws[0]), 1)
        values: Float64 = np.log(np.maximum(mean, 1e-300)).sum(axis=0)
        below: Float64 = values - values.max()
        return below
