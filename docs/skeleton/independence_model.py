"""The model file: in the package, `src/unikat/models/independence.py`.

    X_ij ~ theta_j,    theta_j ~ Dirichlet(1)          key j of record i

Keys are independent: too simple to be of use, but a whole model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from independence_kernels import draw_shares  # in the package: from unikat.kernels import ...

from unikat._typing import Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.options import check_numbers
from unikat.rng import chain_key


class IndependenceData(NamedTuple):
    """The table as the kernel reads it."""

    cells: Int32
    """(n_cells, n_keys), -1 where missing."""
    counts: Int64
    """(n_cells,)"""
    offsets: Int64
    """(n_keys + 1,): first row of each key."""
    frequencies: Float64
    """(n_rows,): known records of each level."""


class IndependenceState(NamedTuple):
    """What is unknown; options of the model never stand here."""

    shares: Float64
    """(n_rows,): theta."""


@dataclass(frozen=True, kw_only=True)
class Independence(Model[IndependenceState, IndependenceData]):
    """Independent keys.

    Parameters
    ----------
    prior
        Parameter of the symmetric Dirichlet prior, from 1 to 1,000,000.
    """

    name: ClassVar[str] = "independence"
    population: ClassVar[PopulationLaw] = "multinomial"
    uncertainty: ClassVar[Uncertainty] = "posterior"
    prior: float = 1.0

    def __post_init__(self) -> None:
        """Refuse bad options here, and nowhere deeper."""
        check_numbers(self, {"prior": (1.0, 1e6)})

    def prepare(self, table: CellTable) -> IndependenceData:
        """Lay the table out; done once per chain."""
        if table.zeros is not None:
            # Without truncation the probabilities would be those of a population that cannot be.
            raise SpecError(
                "The model independence does not know impossible combinations; leave the rules "
                "out, or choose a model that does: hdp, gom or latent-class."
            )
        offsets = np.concatenate(([0], np.cumsum(table.n_levels)))
        known = table.cells >= 0
        times = np.broadcast_to(table.counts[:, None], known.shape)[known]
        rows = (table.cells + offsets[:-1])[known]
        frequencies = np.bincount(rows, times, minlength=offsets[-1]).astype(np.float64)
        return IndependenceData(table.cells, table.counts, offsets, frequencies)

    def init(self, stream: Stream, data: IndependenceData) -> IndependenceState:
        """Start chains apart from each other: convergence is judged by their agreement."""
        rng = np.random.Generator(np.random.Philox(key=chain_key(stream.seed, stream.chain)))
        draws = rng.gamma(1.0, size=len(data.frequencies))
        totals = np.add.reduceat(draws, data.offsets[:-1])
        return IndependenceState(draws / np.repeat(totals, np.diff(data.offsets)))

    def step(
        self, stream: Stream, state: IndependenceState, data: IndependenceData, n_threads: int
    ) -> tuple[IndependenceState, Info]:
        """One sweep: returns a new state, leaves the old one alone."""
        shares = np.empty_like(state.shares)
        key = chain_key(stream.seed, stream.chain)
        draw_shares(key, stream.sweep, data.offsets, data.frequencies + self.prior, shares)
        return IndependenceState(shares), Info({"largest_share": float(shares.max())})

    def cell_probabilities(
        self, stream: Stream, state: IndependenceState, data: IndependenceData, cells: Int32
    ) -> Float64:
        """Probability of each cell; a key left out (-1) matches every level."""
        shares = np.append(state.shares, 1.0)
        rows = np.where(cells >= 0, cells + data.offsets[:-1], len(shares) - 1)
        product: Float64 = shares[rows].prod(axis=1)
        return product

    def predictive_probabilities(
        self, stream: Stream, state: IndependenceState, data: IndependenceData, cells: Int32
    ) -> Float64:
        """Mean of `cell_probabilities` given the records: here the whole state can be averaged."""
        mean = data.frequencies + self.prior
        totals = np.add.reduceat(mean, data.offsets[:-1])
        averaged = IndependenceState(mean / np.repeat(totals, np.diff(data.offsets)))
        return self.cell_probabilities(stream, averaged, data, cells)

    def impute(self, stream: Stream, state: IndependenceState, data: IndependenceData) -> Int32:
        """Draw the missing keys of the incomplete records, in the order of their patterns."""
        incomplete = np.any(data.cells < 0, axis=1)
        cells = np.repeat(data.cells[incomplete], data.counts[incomplete], axis=0)
        return np.where(cells >= 0, cells, _draw(stream, 0, state, data, len(cells)))

    def simulate(
        self, stream: Stream, state: IndependenceState, data: IndependenceData, n_records: int
    ) -> Int32:
        """Draw new individuals, for posterior predictive checks."""
        return _draw(stream, 1, state, data, n_records)

    def cost(self, data: IndependenceData) -> tuple[float, float]:
        """Nanoseconds of a sweep and of one cell: they set how often tau is looked at."""
        return 30.0 * len(data.frequencies), 10.0 * len(data.offsets)


def _draw(
    stream: Stream, purpose: int, state: IndependenceState, data: IndependenceData, n: int
) -> Int32:
    """Draw n individuals; imputed and new ones must not share their random numbers."""
    rng = np.random.default_rng((stream.seed, stream.chain, stream.sweep, purpose))
    cells = np.empty((n, len(data.offsets) - 1), np.int32)
    for j in range(cells.shape[1]):
        below = np.cumsum(state.shares[data.offsets[j] : data.offsets[j + 1] - 1])
        cells[:, j] = np.searchsorted(below, rng.random(n), side="right")
    return cells
