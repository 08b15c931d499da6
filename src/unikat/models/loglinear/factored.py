"""A log-linear model as factors: how its keys are walked, its margins, and what a fit can do."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import loglinear as kernels
from unikat.kernels.loglinear import Factors, Terms
from unikat.models.loglinear.terms import Generators

_MOST_ROWS = 4_000
"""Levels of all keys together: pairs of them are kept as a dense array."""


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
        owner = np.repeat(np.arange(len(counts)), counts)
        uniforms = generator.random(len(walked))
        kernels.draw_completions(
            self.total,
            layout.terms,
            self.factors,
            arrange(layout, patterns),
            counts,
            uniforms[np.lexsort((uniforms, owner))],
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
