"""Maximum likelihood of hierarchical log-linear models, without a table of all cells.

    p_c = prod_g u_g(c_g) / Z        factors u_g of the generators g

The log likelihood sum_c f_c log p_c is concave in log u, and its gradient is observed minus fitted
margins, which one walk over the cells gives (`kernels/loglinear.py`). It is maximised by L-BFGS
(Nocedal 1980) in log u, each times the root of its observed margin, so that all
have about the same curvature. Where a margin is zero the factor is zero: the extended maximum
likelihood estimate (Haberman 1974; Skinner and Shlomo 2008, section 3).

A record with missing keys counts with the weight of all its completions, log sum_c p_c, whose
gradient are the margins of its completions given what is known.
"""

from __future__ import annotations

import contextlib
import itertools
import math

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import loglinear as kernels
from unikat.kernels.loglinear import Factors
from unikat.models.loglinear.factored import Fit, Layout, Margins, arrange, lay_out, n_high
from unikat.models.loglinear.quasi_newton import minimise
from unikat.models.loglinear.terms import Generators, parse_terms
from unikat.models.preparing import report, stage

MOST_CELLS = 1_000_000_000
"""Cells above which the walk would take too long."""
_MOST_WALKS = 3_000
_LONGEST = 10.0
"""Change of the logarithm of a factor in one iteration."""
_MOST_SETS = 100_000
"""Sets of keys that are compared for an error message."""
_LEAST = 1e-4
"""Records of a margin, for the scale of its factor; smoothing leaves less than one."""
_FURTHEST = 150.0
"""Largest logarithm of a factor either way: beyond, it is as good as 0, and products overflow."""


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
    """
    if (table.cells < 0).all():
        raise SpecError(
            "No record has a key that is known, so a log-linear model has nothing to be fitted to."
        )
    with stage("fitting"):
        layout = lay_out(table, generators)
        problem = _Problem(table, layout, smoothing)
        n_cells = int(kernels.count_cells(layout.terms, problem.support, MOST_CELLS))
        if n_cells > MOST_CELLS:
            raise SpecError(too_large(table, generators))
        return problem.solve(max(tolerance, 1e-12 * problem.n), n_cells, start)


def fitted_shares(table: CellTable, cells: Int32, terms: str) -> Float64:
    """Probabilities of cells (n, n_keys) at the fit of terms; with ``none`` all have the same."""
    if terms == "none":
        return np.full(len(cells), 1.0 / len(cells))
    generators = parse_terms(terms, [key.name for key in table.keys])
    return fit(table, generators, tolerance=1e-6).probabilities(cells)


def nudged(
    table: CellTable,
    generators: Generators,
    term: tuple[int, ...],
    *,
    smoothing: float,
    start: Fit,
) -> Fit:
    """Return a fit after one step of proportional fitting, of a term that was added to it.

    The term's margin then agrees, and the others nearly do: cheap, and enough to tell which of many
    terms is worth a fit.
    """
    problem = _Problem(table, lay_out(table, generators), smoothing)
    return problem.nudged(term, start)


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
            self.layout.terms,
            free,
            closed,
            np.ones(len(closed)),
            seen.pair,
            seen.high,
            np.empty(len(closed)),
        )
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

    def nudged(self, term: tuple[int, ...], start: Fit) -> Fit:
        """Make one step of proportional fitting from a fit."""
        logs = self._start(start)
        wanted, got, total, _ = _Climb(self, -1.0, logs).margins(logs)
        keys = self.layout.keys
        depths = tuple(sorted(int(np.flatnonzero(keys == key)[0]) for key in term))
        pairs = [tuple(pair) for pair in self.layout.pairs.tolist()]
        order = [*pairs, *((d,) for d in self.layout.alone), *self.layout.high]
        entries = self.entries_by_generator()[order.index(depths)]
        logs[entries] += np.log(wanted[entries] / got[entries])
        # The step moves mass, and makes none.
        return start._replace(layout=self.layout, factors=self.factors(logs), total=total)

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
                high = self._high_of(start)
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

    def _high_of(self, start: Fit) -> Float64:
        """Put a fit's larger factors, and its pairs that are now within one, into larger tables."""
        offsets, levels = self.layout.terms.offsets, np.diff(self.layout.terms.offsets)
        tables = [np.zeros(levels[list(one)]) for one in self.layout.high]
        pairs = {tuple(pair) for pair in self.layout.pairs.tolist()}
        of_start: list[tuple[tuple[int, ...], Float64]] = []
        for g, one in enumerate(start.layout.high):
            first, shape = start.layout.terms.start[g], levels[list(one)]
            of_start.append((one, start.factors.high[first : first + shape.prod()].reshape(shape)))
        for a, b in (tuple(pair) for pair in start.layout.pairs.tolist()):
            if (a, b) not in pairs:
                rows, columns = slice(*offsets[a : a + 2]), slice(*offsets[b : b + 2])
                of_start.append(((a, b), start.factors.pair[rows, columns]))
        for one, factors in of_start:
            within = [g for g, larger in enumerate(self.layout.high) if set(one) <= set(larger)]
            if not within:
                # Not a model within this one: a start all the same.
                continue
            g = within[0]
            wide = [int(levels[d]) if d in one else 1 for d in self.layout.high[g]]
            tables[g] += np.log(factors).reshape(wide)
        return np.concatenate([np.zeros(0), *(table.ravel() for table in tables)])

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
        self.scale = np.sqrt(np.maximum(problem.estimated(problem.seen), _LEAST))
        self.tolerance = tolerance
        self.logs = np.clip(start, -_FURTHEST, _FURTHEST)
        self.error = math.inf
        self.highest = 0.0
        self.total = 1.0
        self.n_walks = 0

    def run(self) -> None:
        """Climb until the margins agree, or too many walks were made."""
        with contextlib.suppress(_ReachedError):
            start = self.scale * self.logs
            minimise(self.negative, start, _LONGEST * self.scale, _MOST_WALKS)
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
        # A trial step may be so long that weights overflow.
        with np.errstate(over="ignore", invalid="ignore"):
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
            terms,
            factors,
            problem.patterns,
            problem.pattern_counts,
            expected.pair,
            expected.high,
            totals,
        )
        wanted = problem.wanted + problem.estimated(expected)
        got = problem.estimated(fitted) * (problem.n / total if total > 0.0 else 0.0)
        error = float(np.abs(got - wanted).max(initial=0.0))
        if error < self.error:
            self.logs, self.total, self.error = logs, total, error
        report(f"margins within {self.error:.2g} records")
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
        "decomposable models, such as loglinear:terms=independence, take any number of cells."
    )
