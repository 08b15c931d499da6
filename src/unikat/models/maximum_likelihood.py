"""Maximum likelihood of hierarchical log-linear models, without a table of all cells.

    p_c = prod_g u_g(c_g) / Z        factors u_g of the generators g

The log likelihood sum_c f_c log p_c is concave in log u, and its gradient is observed minus fitted
margins, which one walk over the cells gives (`kernels/loglinear.py`). It is maximised by L-BFGS
(Byrd, Lu, Nocedal and Zhu 1995) in log u, each times the root of its observed margin, so that all
have about the same curvature. Where a margin is zero the factor is zero: the extended maximum
likelihood estimate (Haberman 1974; Skinner and Shlomo 2008, section 3).

A record with missing keys counts with the weight of all its completions, log sum_c p_c, whose
gradient are the margins of its completions given what is known.
"""

from __future__ import annotations

import contextlib
import itertools
import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import loglinear as kernels
from unikat.kernels.loglinear import Factors, Terms
from unikat.models.terms import Generators

MOST_CELLS = 1_000_000_000
"""Cells above which the walk would take too long."""
_MOST_ROWS = 4_000
"""Levels of all keys together: pairs of them are kept as a dense array."""
_MOST_WALKS = 3_000
_MOST_SETS = 100_000
"""Sets of keys that are compared for an error message."""
_FURTHEST = 150.0
"""Largest logarithm of a factor either way: beyond, it is as good as 0, and products overflow."""


class Layout(NamedTuple):
    """How the keys are walked, and where each generator's factors stand."""

    keys: Int64
    """(n_walked,): key of each depth; -1 is a key of one level beside a single real one."""
    terms: Terms
    pairs: Int64
    """(n_pairs, 2): generators of two keys, as depths."""
    high: tuple[tuple[int, ...], ...]
    """Generators of three and more keys, as depths, in the order of `terms`."""
    alone: tuple[int, ...]
    """Keys that are generators of their own, as depths."""
    inside: Bool
    """(n_walked, n_walked): pairs of depths that are in some generator."""


class Fit(NamedTuple):
    """A fitted model."""

    layout: Layout
    factors: Factors
    total: float
    """Weight of all cells together, Z."""
    margin_error: float
    """Largest difference between an observed and a fitted margin, in records."""
    n_walks: int
    converged: bool
    n_cells: int
    """Cells of positive probability."""
    n_zero_margins: int
    """Entries of the generators' margins that no record has, so that the fit is zero there."""

    def probabilities(self, cells: Int32) -> Float64:
        """Probability of each cell, (n,); -1 leaves a key out."""
        weights = np.empty(len(cells))
        kernels.cell_weights(self.layout.terms, self.factors, arrange(self.layout, cells), weights)
        # Nothing known is certain; the walk over everything would give the same.
        return np.where((cells < 0).all(axis=1), 1.0, weights / self.total)

    def simulate(self, generator: np.random.Generator, n: int) -> Int32:
        """Draw n individuals, (n, n_keys)."""
        anything = np.full((1, int((self.layout.keys >= 0).sum())), -1, np.int32)
        drawn = self.complete(generator, anything, np.array([n]))
        # They come in the order of the walk, but are to be exchangeable.
        return generator.permutation(drawn)

    def complete(self, generator: np.random.Generator, patterns: Int32, counts: Int64) -> Int32:
        """Draw the missing keys of records, pattern by pattern: (sum of counts, n_keys)."""
        layout = self.layout
        real = layout.keys >= 0
        walked = np.empty((int(counts.sum()), len(layout.keys)), np.int64)
        kernels.draw_completions(
            self.total,
            layout.terms,
            self.factors,
            arrange(layout, patterns),
            counts,
            generator.random(len(walked)),
            walked,
        )
        cells = np.empty((len(walked), int(real.sum())), np.int32)
        cells[:, layout.keys[real]] = walked[:, real]
        return cells


def lay_out(table: CellTable, generators: Generators) -> Layout:
    """Choose the order of the walk, and the places of the generators."""
    if table.zeros is not None:
        keys = np.asarray(table.zeros.order, np.int64)
    else:
        # Long blocks at the end of the walk.
        keys = np.argsort(table.n_levels, kind="stable")
    levels = np.asarray(table.n_levels, np.int64)[keys]
    if len(keys) == 1:
        keys, levels = np.append(-1, keys), np.append(1, levels)
    n = len(keys)
    if levels.sum() > _MOST_ROWS:
        raise SpecError(
            f"The keys have {levels.sum():,} levels together; log-linear models take at most "
            f"{_MOST_ROWS:,}. Coarsen a key, or choose another model."
        )
    depth = {int(key): d for d, key in enumerate(keys)}
    sets = [tuple(sorted(depth[j] for j in one)) for one in generators]
    high = tuple(sorted((one for one in sets if len(one) > 2), key=lambda one: one[-2]))
    strides = np.zeros((len(high), n), np.int64)
    sizes = np.array([math.prod(levels[list(one)].tolist()) for one in high], np.int64)
    for g, one in enumerate(high):
        strides[g, list(one)] = [
            math.prod(levels[list(one[i + 1 :])].tolist()) for i in range(len(one))
        ]
        strides[g, one[-1]] = 0
    inside = np.zeros((n, n), np.bool_)
    for one in sets:
        for a, b in itertools.combinations(one, 2):
            inside[a, b] = True
    simple = table.zeros is None
    if table.zeros is not None and n == len(table.zeros.order):
        child = table.zeros.child
    else:
        # One node in each layer; of a single key with impossible levels the first layer is added.
        child = np.repeat(np.arange(1, n + 1, dtype=np.int32)[:, None], levels.max(), axis=1)
        if table.zeros is not None:
            child[1] = table.zeros.child[0]
    terms = Terms(
        offsets=np.concatenate(([0], np.cumsum(levels))),
        first=np.searchsorted([one[-2] for one in high], np.arange(n + 1)).astype(np.int64),
        last=np.array([one[-1] for one in high], np.int64),
        start=np.concatenate(([0], np.cumsum(sizes)))[: len(high)].astype(np.int64),
        strides=strides,
        child=np.ascontiguousarray(child, np.int32),
        all_possible=simple,
    )
    pairs = np.array([one for one in sets if len(one) == 2], np.int64).reshape(-1, 2)
    alone = tuple(one[0] for one in sets if len(one) == 1)
    return Layout(keys=keys, terms=terms, pairs=pairs, high=high, alone=alone, inside=inside)


def arrange(layout: Layout, cells: Int32) -> Int64:
    """Return cells in the order of the walk, -1 kept."""
    walked = np.zeros((len(cells), len(layout.keys)), np.int64)
    real = layout.keys >= 0
    walked[:, real] = cells[:, layout.keys[real]]
    return walked


class Margins(NamedTuple):
    """Margins of all pairs of keys, and of the generators of three and more."""

    pair: Float64
    """(n_rows, n_rows), of an earlier and a later key; the diagonal holds single keys."""
    high: Float64

    @classmethod
    def of(cls, layout: Layout, cells: Int64, counts: Float64) -> Margins:
        """Count records; those in which a generator has a missing key do not count for it."""
        offsets = layout.terms.offsets
        levels = np.diff(offsets)
        pair, high = cls.empty(layout)
        for a, b in itertools.combinations_with_replacement(range(cells.shape[1]), 2):
            known = (cells[:, a] >= 0) & (cells[:, b] >= 0)
            where = cells[known, a] * levels[b] + cells[known, b]
            table = np.bincount(where, counts[known], minlength=levels[a] * levels[b])
            pair[offsets[a] : offsets[a + 1], offsets[b] : offsets[b + 1]] = table.reshape(
                levels[a], levels[b]
            )
        for g, one in enumerate(layout.high):
            known = np.all(cells[:, list(one)] >= 0, axis=1)
            where = layout.terms.start[g] + cells[known] @ layout.terms.strides[g]
            where += cells[known, one[-1]]
            high += np.bincount(where, counts[known], minlength=len(high))
        return cls(pair, high)

    @classmethod
    def empty(cls, layout: Layout) -> Margins:
        """Return margins of nothing."""
        n_rows = int(layout.terms.offsets[-1])
        return cls(np.zeros((n_rows, n_rows)), np.zeros(n_high(layout)))


def n_high(layout: Layout) -> int:
    """Entries of the generators of three and more keys."""
    levels = np.diff(layout.terms.offsets)
    return sum(math.prod(levels[list(one)].tolist()) for one in layout.high)


def fit(
    table: CellTable,
    generators: Generators,
    *,
    tolerance: float = 1e-4,
    smoothing: float = 0.0,
    start: Fit | None = None,
) -> Fit:
    """Fit by maximum likelihood.

    Parameters
    ----------
    table
        The sample; with missing keys the likelihood is that of the known ones.
    generators
        The model.
    tolerance
        Largest difference between an observed and a fitted margin, in records.
    smoothing
        Records added, spread as if keys were independent.
    start
        A fit of a model within this one, whose factors are a start.

    Raises
    ------
    SpecError
        If there are too many cells of positive probability, or nothing is known of any record.
    """
    if (table.cells < 0).all():
        raise SpecError(
            "No record has a key that is known, so a log-linear model has nothing to be fitted to."
        )
    layout = lay_out(table, generators)
    problem = _Problem(table, layout, smoothing)
    n_cells = int(kernels.count_cells(layout.terms, problem.support, MOST_CELLS))
    if n_cells > MOST_CELLS:
        raise SpecError(too_large(table, generators))
    return problem.solve(max(tolerance, 1e-12 * problem.n), n_cells, start)


class _Problem:
    """What is maximised: observed margins, and where the factors may be positive."""

    def __init__(self, table: CellTable, layout: Layout, smoothing: float) -> None:
        self.layout = layout
        cells = arrange(layout, table.cells)
        counts = table.counts.astype(np.float64)
        incomplete = table.incomplete
        known = ~(table.cells < 0).all(axis=1)
        self.patterns = np.ascontiguousarray(cells[incomplete & known])
        self.pattern_counts = counts[incomplete & known]
        # A record of which nothing is known says nothing.
        self.n = float(counts[known].sum()) + smoothing
        self.observed = Margins.of(layout, cells[~incomplete], counts[~incomplete])
        seen = Margins.of(layout, cells, counts)
        if smoothing:
            self._smooth(seen, smoothing)
        self.seen = self._opened(seen)
        self.single = np.diag(self.seen.pair).copy()
        self.single /= np.add.reduceat(self.single, layout.terms.offsets[:-1]).repeat(
            np.diff(layout.terms.offsets)
        )
        self.support = self._factors_of_support()
        self.pair_entries, self.high_entries = self._entries()
        self.wanted = self.estimated(self.observed)

    def _smooth(self, seen: Margins, smoothing: float) -> None:
        """Add records spread as under independence, over the possible cells."""
        rows = np.diag(seen.pair) / max(np.diag(seen.pair).max(), 1.0)
        # A key that no record has gives its levels equal shares.
        for first, last in itertools.pairwise(self.layout.terms.offsets.tolist()):
            if not rows[first:last].any():
                rows[first:last] = 1.0
        n_rows = len(rows)
        high = np.ones(n_high(self.layout))
        free = np.full(len(self.layout.keys), -1)
        # Where levels that were seen are impossible together, all cells have equal shares.
        for shares in (rows, np.ones(n_rows)):
            independent = Factors(shares, np.ones((n_rows, n_rows)), high)
            added = Margins.empty(self.layout)
            total = kernels.add_margins(
                1.0, self.layout.terms, independent, free, added.pair, added.high
            )
            if total > 0.0:
                break
        for margins in (self.observed, seen):
            margins.pair[...] += smoothing / total * added.pair
            margins.high[...] += smoothing / total * added.high

    def _opened(self, seen: Margins) -> Margins:
        """Open margins for the records with missing keys that nothing else could explain."""
        self.seen = seen
        totals = np.empty(len(self.patterns))
        factors = self._factors_of_support()
        kernels.cell_weights(self.layout.terms, factors, self.patterns, totals)
        closed = self.patterns[totals == 0.0]
        if not len(closed):
            return seen
        n_rows = len(seen.pair)
        high = np.ones(n_high(self.layout))
        free = Factors(np.ones(n_rows), np.ones((n_rows, n_rows)), high)
        kernels.add_completions(
            self.layout.terms, free, closed, np.ones(len(closed)), seen.pair, seen.high,
            np.empty(len(closed)),
        )  # fmt: skip
        return seen

    def _factors_of_support(self) -> Factors:
        """Factors that are 1 where a margin is positive, and 0 elsewhere."""
        of_row = np.repeat(np.arange(len(self.layout.keys)), np.diff(self.layout.terms.offsets))
        inside = self.layout.inside[of_row[:, None], of_row]
        pair = np.where(inside, self.seen.pair > 0.0, 1.0)
        single = np.diag(self.seen.pair) > 0.0
        return Factors(single.astype(np.float64), pair, (self.seen.high > 0.0).astype(np.float64))

    def _entries(self) -> tuple[tuple[Int64, ...], Int64]:
        """Entries of the factors that are estimated."""
        of_row = np.repeat(np.arange(len(self.layout.keys)), np.diff(self.layout.terms.offsets))
        chosen = np.zeros_like(self.layout.inside)
        chosen[self.layout.pairs[:, 0], self.layout.pairs[:, 1]] = True
        # Single keys too: in a generator they only change its scale, which costs nothing.
        chosen[np.diag_indices(len(chosen))] = True
        estimated = chosen[of_row[:, None], of_row] & (self.seen.pair > 0.0)
        off_diagonal = of_row[:, None] != of_row
        estimated &= off_diagonal | np.eye(len(of_row), dtype=np.bool_)
        return np.nonzero(estimated), np.flatnonzero(self.seen.high > 0.0)

    def solve(self, tolerance: float, n_cells: int, start: Fit | None) -> Fit:
        """Climb to the maximum."""
        climb = _Climb(self, tolerance, self._start(start))
        climb.run()
        zero = (self.seen.pair == 0.0) & self.layout.inside.repeat(
            np.diff(self.layout.terms.offsets), axis=0
        ).repeat(np.diff(self.layout.terms.offsets), axis=1)
        return Fit(
            layout=self.layout,
            factors=self.factors(climb.logs),
            total=climb.total,
            margin_error=climb.error,
            n_walks=climb.n_walks,
            converged=climb.error <= tolerance,
            n_cells=n_cells,
            n_zero_margins=int(zero.sum() + (self.seen.high == 0.0).sum()),
        )

    def estimated(self, margins: Margins) -> Float64:
        """Margins of the factors that are estimated."""
        return np.append(margins.pair[self.pair_entries], margins.high[self.high_entries])

    def entries_by_generator(self) -> list[Int64]:
        """Places of each generator's margin among those that are estimated."""
        offsets = self.layout.terms.offsets
        depth = np.searchsorted(offsets, self.pair_entries, side="right") - 1
        found = [
            np.flatnonzero((depth[0] == a) & (depth[1] == b))
            for a, b in [*self.layout.pairs.tolist(), *((d, d) for d in self.layout.alone)]
        ]
        ends = np.append(self.layout.terms.start, len(self.support.high))
        which = np.searchsorted(ends, self.high_entries, side="right") - 1
        n_pairs = len(depth[0])
        return found + [n_pairs + np.flatnonzero(which == g) for g in range(len(ends) - 1)]

    def _start(self, start: Fit | None) -> Float64:
        """Logarithms of the factors to begin with, those of the single keys beside their shares."""
        if start is not None:
            with np.errstate(divide="ignore", invalid="ignore"):
                single = np.log(start.factors.single / self.single)
                logs = np.log(start.factors.pair)
                high = np.zeros(len(self.support.high))
                if start.layout.high == self.layout.high:
                    high = np.log(start.factors.high)
            logs[np.diag_indices(len(logs))] = single
            found = np.append(logs[self.pair_entries], high[self.high_entries])
            return np.where(np.isfinite(found), found, 0.0)
        rows, columns = self.pair_entries
        shares = self.single[rows] * self.single[columns] * self.n
        ratio = np.log(self.seen.pair[self.pair_entries] / shares)
        # A part of the whole: the pairs of a key share what it has to say.
        return np.append(
            np.where(rows == columns, 0.0, 0.3 * ratio), np.zeros(len(self.high_entries))
        )

    def factors(self, logs: Float64) -> Factors:
        n_pairs = len(self.pair_entries[0])
        pair = self.support.pair.copy()
        pair[self.pair_entries] = np.exp(logs[:n_pairs])
        single = self.single * np.diag(pair)
        np.fill_diagonal(pair, 1.0)
        high = self.support.high.copy()
        high[self.high_entries] = np.exp(logs[n_pairs:])
        return Factors(single, pair, high)


class _Climb:
    """The way to the maximum; knows the best place so far."""

    def __init__(self, problem: _Problem, tolerance: float, start: Float64) -> None:
        self.problem = problem
        self.scale = np.sqrt(np.maximum(problem.estimated(problem.seen), 0.5))
        self.tolerance = tolerance
        self.logs = np.clip(start, -_FURTHEST, _FURTHEST)
        self.error = math.inf
        self.highest = 0.0
        self.total = 1.0
        self.n_walks = 0

    def run(self) -> None:
        """Climb until the margins agree, or too many walks were made."""
        with contextlib.suppress(_ReachedError):
            # Without bounds it would leap to where numbers end, if the maximum lies at infinity.
            furthest = _FURTHEST * self.scale
            minimize(
                self.negative,
                self.scale * self.logs,
                jac=True,
                method="L-BFGS-B",
                bounds=np.column_stack((-furthest, furthest)),
                options={
                    "maxcor": 20, "maxiter": _MOST_WALKS, "maxfun": _MOST_WALKS,
                    "ftol": 0.0, "gtol": 0.0,
                },
            )  # fmt: skip
            # Near the top the likelihood is flat to its last digit, the margins are not: their last
            # digits come from proportional fitting, one generator at a time.
            logs = self.logs
            while self.n_walks < _MOST_WALKS:
                for entries in self.problem.entries_by_generator():
                    wanted, got, _, _ = self.margins(logs)
                    entries = entries[(wanted[entries] > 0.0) & (got[entries] > 0.0)]
                    logs = logs.copy()
                    logs[entries] += np.log(wanted[entries]) - np.log(got[entries])

    def negative(self, scaled: Float64) -> tuple[float, Float64]:
        """Return minus the log likelihood, and its gradient."""
        problem = self.problem
        logs = scaled / self.scale
        wanted, got, total, totals = self.margins(logs)
        if not (0.0 < total < math.inf and (totals > 0.0).all()):
            # Too far for numbers: go back.
            return self.highest + abs(self.highest) + 1e3, np.zeros_like(logs)
        value = problem.n * math.log(total) - float(problem.wanted @ logs)
        value -= float(problem.pattern_counts @ np.log(totals))
        self.highest = max(self.highest, value)
        return value, (got - wanted) / self.scale

    def margins(self, logs: Float64) -> tuple[Float64, Float64, float, Float64]:
        """Return observed and fitted margins, total weight, and that of the incomplete patterns."""
        problem = self.problem
        terms = problem.layout.terms
        factors = problem.factors(logs)
        self.n_walks += 1
        fitted, expected = Margins.empty(problem.layout), Margins.empty(problem.layout)
        free = np.full(len(problem.layout.keys), -1)
        total = kernels.add_margins(1.0, terms, factors, free, fitted.pair, fitted.high)
        totals = np.empty(len(problem.patterns))
        kernels.add_completions(
            terms, factors, problem.patterns, problem.pattern_counts, expected.pair,
            expected.high, totals,
        )  # fmt: skip
        wanted = problem.wanted + problem.estimated(expected)
        got = problem.estimated(fitted) * (problem.n / total if total > 0.0 else 0.0)
        error = float(np.abs(got - wanted).max(initial=0.0))
        if error < self.error:
            self.logs, self.total, self.error = logs, total, error
        if error <= self.tolerance:
            raise _ReachedError
        return wanted, got, total, totals


class _ReachedError(Exception):
    """The margins agree."""


def too_large(table: CellTable, generators: Generators) -> str:
    """Say that there are too many cells, and which keys would do."""
    levels = table.n_levels

    def size(keys: tuple[int, ...]) -> int:
        return math.prod(levels[j] for j in keys)

    # The keys of fewest levels show how many keys fit; of so many, those with the most cells.
    few = sorted(range(table.n_keys), key=lambda j: levels[j])
    n_best = max(n for n in range(table.n_keys + 1) if size(tuple(few[:n])) <= MOST_CELLS)
    best = tuple(sorted(few[:n_best]))
    if math.comb(table.n_keys, n_best) <= _MOST_SETS:
        sets = itertools.combinations(range(table.n_keys), n_best)
        best = max((one for one in sets if size(one) <= MOST_CELLS), key=size)
    names = ", ".join(table.keys[j].name for j in best)
    return (
        f"The log-linear model has more than {MOST_CELLS:,} cells of positive probability. The "
        f"largest set of keys that surely fits is {names}. Leave the others out or coarsen keys; "
        "decomposable models, such as independence, take any number of cells."
    )
