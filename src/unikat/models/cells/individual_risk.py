"""The individual risk model of Benedetti and Franconi, as a model with a sampler.

A cell's F units are each in the sample with probability p_c, estimated by f_c / F_c with the sum of
the cell's weights for F_c. Given f_c the unobserved F - f are negative binomial, which is Poisson
with the rate

    rate_c ~ Gamma(f_c) (1 - p_c) / p_c,    of mean F_c - f_c.

Cells without records have no estimate of F, and no unobserved units: the model knows neither keys
nor levels, only cells that were seen. The weights count as known, and so does p_c.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import agreeing, agreeing_sums, distinct
from unikat.data.table import CellTable
from unikat.kernels import individual as kernels
from unikat.kernels.zeros import Diagram
from unikat.kernels.zeros import complete as complete_possibly
from unikat.models.base import Facts, Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.records import compile_plug_in, generator_of
from unikat.rng import chain_key


@dataclass(frozen=True, kw_only=True)
class IndividualRiskFacts(Facts):
    """Sampling rates of the cells, and the imputed records."""

    smallest_p: float
    """Sampling rate of a cell: its records divided by the sum of their weights."""
    largest_p: float
    estimated_population: float
    """Sum of the weights."""
    cells_fully_sampled: int
    records_without_candidates: int


class IndividualRiskData(NamedTuple):
    """Cells with complete records, and what the records with missing keys may be."""

    cells: Int32
    """(n_cells, n_keys): complete patterns of the sample."""
    counts: Float64
    """(n_cells,): f."""
    sizes: Float64
    """(n_cells,): sum of the weights, which estimates F."""
    patterns: Int32
    """(n_patterns, n_keys): patterns with missing keys."""
    pattern_counts: Int64
    weights: Float64
    """(n_incomplete_records,): weights of their records, pattern by pattern."""
    start: Int64
    """(n_patterns + 1,): first candidate of each pattern."""
    candidates: Int64
    """(n_candidates,): cells compatible with each pattern."""
    below: Float64
    """(n_candidates,): their sizes, added up within each pattern."""
    shares: Float64
    """(n_rows, 1): shares of the levels, for records that no cell is compatible with."""
    offsets: Int64
    """(n_keys + 1,): first row of each key."""
    diagram: Diagram
    """The possible cells."""
    n_levels: tuple[int, ...]
    unobserved: float
    """M = N - n, at least 1."""
    n_below_one: int
    """Complete patterns with weights below 1 on average."""


class IndividualRiskState(NamedTuple):
    """Nothing is kept: a sweep's rates are drawn where they are asked for."""


class _Occupied(NamedTuple):
    """Cells with records, missing keys filled in."""

    cells: Int32
    counts: Float64
    sizes: Float64
    """F, at least `counts`."""


@dataclass(frozen=True, kw_only=True)
class IndividualRisk(Model[IndividualRiskState, IndividualRiskData]):
    """The individual risk model: F given f is negative binomial, by the weights.

    Benedetti and Franconi (1998); Franconi and Polettini (2004). It has no options. Missing keys
    are filled in from the cells of complete records that agree with what is known, in proportion
    to their estimated population counts.

    Examples
    --------
    >>> from unikat.data import Key
    >>> table = CellTable.from_codes([[0], [0], [1]], [Key.of_size("SEX", 2)], population_size=30)
    >>> model, stream = IndividualRisk(), Stream(1, 0, 0)
    >>> data = model.prepare(table)
    >>> risk = model.integrated_risk(
    ...     stream, model.init(stream, data), data, table.cells, table.counts.astype(float)
    ... )
    >>> [values.round(4).tolist() for values in risk]
    [[0.01, 0.1], [0.0827, 0.2558]]
    """

    name: ClassVar[str] = "individual-risk"
    population: ClassVar[PopulationLaw] = "poisson"
    uses_weights: ClassVar[bool] = True
    has_cell_rates: ClassVar[bool] = True
    uncertainty: ClassVar[Uncertainty] = "empirical-bayes"

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels, or load them from the cache."""
        compile_plug_in(self, zeros)

    def prepare(self, table: CellTable) -> IndividualRiskData:
        """Estimate the population counts of cells, and list what incomplete records may be."""
        complete = ~table.incomplete
        cells, sizes = table.cells[complete], table.cell_weights[complete]
        patterns = table.cells[~complete]
        levels = np.asarray(table.n_levels, np.int64)
        order = np.argsort(table.record_cell, kind="stable")
        order = order[~complete[table.record_cell[order]]]
        start, candidates, below = _candidates(patterns, cells, sizes, table.n_levels)
        return IndividualRiskData(
            cells=cells,
            counts=table.counts[complete].astype(np.float64),
            sizes=sizes,
            patterns=patterns,
            pattern_counts=table.counts[~complete],
            weights=table.weights[order],
            start=start,
            candidates=candidates,
            below=below,
            shares=_shares(table),
            offsets=np.concatenate(([0], np.cumsum(levels))),
            diagram=_any_cell(table.n_levels) if table.zeros is None else table.zeros,
            n_levels=table.n_levels,
            unobserved=float(max(table.n_units - table.n_records, 1)),
            # Equal weights add up to a count but for rounding.
            n_below_one=int((sizes < table.counts[complete] * (1.0 - 1e-9)).sum()),
        )

    def init(self, stream: Stream, data: IndividualRiskData) -> IndividualRiskState:
        """Return the state, which is empty."""
        return IndividualRiskState()

    def step(
        self, stream: Stream, state: IndividualRiskState, data: IndividualRiskData, n_threads: int
    ) -> tuple[IndividualRiskState, Info]:
        """Do nothing: what is random is drawn where it is asked for."""
        return state, Info({})

    def cell_probabilities(
        self, stream: Stream, state: IndividualRiskState, data: IndividualRiskData, cells: Int32
    ) -> Float64:
        """Drawn rate over N - n of each cell, (n,); -1 sums over a key.

        0 for a cell without records. They add up to 1 only on average, if the weights to N.
        """
        occupied = self._occupied(stream, data)
        rates = self._rates(stream, occupied)
        return (
            agreeing_sums(cells, occupied.cells, rates[:, None], data.n_levels)[:, 0]
            / data.unobserved
        )

    def predictive_probabilities(
        self, stream: Stream, state: IndividualRiskState, data: IndividualRiskData, cells: Int32
    ) -> Float64:
        """F - f of each cell as a share of all, (n,); of F where all units are in the sample."""
        occupied = self._occupied(stream, data)
        expected = occupied.sizes - occupied.counts
        expected = expected if expected.any() else occupied.sizes
        sums = agreeing_sums(cells, occupied.cells, expected[:, None], data.n_levels)[:, 0]
        shares: Float64 = sums / expected.sum()
        return shares

    def integrated_risk(
        self,
        stream: Stream,
        state: IndividualRiskState,
        data: IndividualRiskData,
        cells: Int32,
        counts: Float64,
    ) -> tuple[Float64, Float64]:
        """P(F = f | f) = p^f and E[1/F | f] of cells with f records, the rates integrated out.

        Where a key is left out (-1), p is that of the cells together. A cell where the model has no
        records counts as fully sampled.
        """
        occupied = self._occupied(stream, data)
        both = np.stack((occupied.counts, occupied.sizes), axis=1)
        f, size = agreeing_sums(cells, occupied.cells, both, data.n_levels).T
        p = np.where(f > 0.0, f / np.where(f > 0.0, size, 1.0), 1.0)
        r2 = np.empty(len(cells))
        kernels.exact_risk(np.asarray(counts, np.float64), p, r2)
        r1: Float64 = p**counts
        return r1, r2

    def empty_rest(
        self, state: IndividualRiskState, data: IndividualRiskData, margins: Int32, cells: Int32
    ) -> Float64:
        """Return 1 for each margin, (n,): cells without records have no units at all."""
        return np.ones(len(margins))

    def impute(self, stream: Stream, state: IndividualRiskState, data: IndividualRiskData) -> Int32:
        """Draw the cells of the incomplete records among those of complete ones that agree.

        In proportion to the estimated population counts. Where none agrees, levels are drawn by
        their shares in the sample, given that the cell is possible.
        """
        chosen, free = self._completed(stream, data)
        imputed = np.empty((len(chosen), len(data.n_levels)), np.int32)
        imputed[chosen < 0] = free
        imputed[chosen >= 0] = data.cells[chosen[chosen >= 0]]
        return imputed

    def simulate(
        self,
        stream: Stream,
        state: IndividualRiskState,
        data: IndividualRiskData,
        n_records: int,
    ) -> Int32:
        """Draw new individuals, (n_records, n_keys): unobserved units, by this sweep's rates."""
        occupied = self._occupied(stream, data)
        rates = self._rates(stream, occupied)
        rates = rates if rates.any() else occupied.sizes
        drawn = generator_of(stream, 2).choice(len(rates), n_records, p=rates / rates.sum())
        cells: Int32 = occupied.cells[drawn]
        return cells

    def cost(self, data: IndividualRiskData) -> tuple[float, float]:
        """Nothing for a sweep; of a cell its rate and the search for it."""
        return 0.0, 300.0 + 20.0 * len(data.n_levels)

    def facts(self, data: IndividualRiskData) -> Facts:
        """Sampling probabilities of the cells, and what could not be as the model has it."""
        p = np.minimum(data.counts / data.sizes, 1.0)
        n_free = int(data.pattern_counts[np.diff(data.start) == 0].sum())
        warnings = []
        if data.n_below_one:
            warnings.append(
                f"{data.n_below_one:,} of {len(p):,} cells have weights that add up to less than "
                "their records; they count as fully sampled (p = 1)."
            )
        if n_free:
            warnings.append(
                f"{n_free:,} records with missing keys agree with no complete record; their "
                "missing keys are drawn by the shares of the levels."
            )
        return IndividualRiskFacts(
            smallest_p=float(p.min()) if len(p) else math.nan,
            largest_p=float(p.max()) if len(p) else math.nan,
            estimated_population=float(data.sizes.sum() + data.weights.sum()),
            cells_fully_sampled=data.n_below_one,
            records_without_candidates=n_free,
            warnings=tuple(warnings),
        )

    def _rates(self, stream: Stream, occupied: _Occupied) -> Float64:
        """Draw the rate of each cell."""
        rates = np.empty(len(occupied.cells))
        odds = (occupied.sizes - occupied.counts) / occupied.counts
        kernels.draw_rates(
            chain_key(stream.seed, stream.chain),
            stream.sweep,
            occupied.cells,
            occupied.counts,
            odds,
            rates,
        )
        return rates

    def _occupied(self, stream: Stream, data: IndividualRiskData) -> _Occupied:
        """Cells with records as this sweep completes them."""
        cells, counts, sizes = data.cells, data.counts, data.sizes
        if len(data.patterns):
            chosen, free = self._completed(stream, data)
            found = distinct(free, data.n_levels)
            others = free[found.first]
            cells = np.concatenate((cells, others))
            place = chosen.copy()
            place[chosen < 0] = len(counts) + found.place
            counts = np.append(counts, np.zeros(len(others))) + np.bincount(
                place, minlength=len(cells)
            )
            sizes = np.append(sizes, np.zeros(len(others))) + np.bincount(
                place, data.weights, minlength=len(cells)
            )
        return _Occupied(cells, counts, np.maximum(sizes, counts))

    def _completed(self, stream: Stream, data: IndividualRiskData) -> tuple[Int64, Int32]:
        """Cell of each incomplete record or -1, (n,), and the cells of those with -1."""
        key = chain_key(stream.seed, stream.chain)
        chosen = np.full(len(data.weights), -1)
        kernels.choose(
            key, stream.sweep, data.pattern_counts, data.start, data.candidates, data.below, chosen
        )
        patterns = np.repeat(data.patterns, data.pattern_counts, axis=0)[chosen < 0]
        rows = np.where(patterns >= 0, patterns + data.offsets[:-1], -1).astype(np.int32)
        free = np.empty_like(rows)
        together = np.zeros((len(rows), 1), np.int16)
        complete_possibly(
            key, stream.sweep, rows, together, data.diagram, data.offsets, data.shares, free
        )
        return chosen, (free - data.offsets[:-1]).astype(np.int32)


def _candidates(
    patterns: Int32, cells: Int32, sizes: Float64, n_levels: tuple[int, ...]
) -> tuple[Int64, Int64, Float64]:
    """Cells that complete each pattern: first of each pattern, cells, and their sizes added up."""
    owners, found = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for met in agreeing(patterns, cells, n_levels):
        answering = met.answering[np.argsort(met.offered, kind="stable")]
        many = np.bincount(met.offered, minlength=met.n_numbers)
        first = np.cumsum(many) - many
        each = many[met.wanted]
        within = np.arange(each.sum()) - np.repeat(np.cumsum(each) - each, each)
        owners.append(np.repeat(met.asking, each))
        found.append(answering[np.repeat(first[met.wanted], each) + within])
    owner, candidates = np.concatenate(owners), np.concatenate(found)
    order = np.argsort(owner, kind="stable")
    candidates = candidates[order]
    start = np.searchsorted(owner[order], np.arange(len(patterns) + 1))
    below = np.empty(len(candidates))
    for first_one, last in zip(start[:-1].tolist(), start[1:].tolist(), strict=True):
        below[first_one:last] = np.cumsum(sizes[candidates[first_one:last]])
    return start, candidates, below


def _shares(table: CellTable) -> Float64:
    """Weighted shares of the levels of each key, (n_rows, 1), with half a record more for each."""
    half = table.n_units / table.n_records / 2.0
    shares = []
    for column, levels in zip(table.cells.T, table.n_levels, strict=True):
        known = column >= 0
        size = np.bincount(column[known], table.cell_weights[known], minlength=levels) + half
        shares.append(size / size.sum())
    return np.concatenate(shares)[:, None]


def _any_cell(n_levels: tuple[int, ...]) -> Diagram:
    """Diagram of a table without impossible cells."""
    n_keys = len(n_levels)
    child = np.full((n_keys, max(n_levels)), -1, np.int32)
    for j, levels in enumerate(n_levels):
        child[j, :levels] = j + 1
    return Diagram(np.arange(n_keys), np.arange(n_keys + 2), child)
