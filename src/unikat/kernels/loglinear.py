"""Kernels of hierarchical log-linear models: one walk over the cells gives all margins.

The weight of a cell is a product of factors, one for each generator (a maximal term of the model).
The keys are walked as a tree, depth first. A node at depth d has the levels of the first d keys
fixed; its `weight` holds for every row (level of a later key) the product of the factors between
the row and what is fixed. Coming back from it, `mass` has what lies below, by row. The last two
keys are not walked: what is below a node at depth n_keys - 2 is a *block*, levels by levels. A
branch of weight zero is cut off, so only cells that are not zero cost anything.

Every kernel fills a block of its own: with the block kept in the walk a fit takes half as long
again, since the inner loops are no longer vectorised.

Rows are levels of keys in the order of the walk: row `offsets[d] + x` is level x of the d-th key.
Factors of generators of one and two keys are entries of dense arrays over rows; those of three and
more keys stand in a list of tables.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel


class Terms(NamedTuple):
    """Generators of three and more keys, and the possible cells; keys in the order of the walk."""

    offsets: npt.NDArray[np.int64]
    """(n_keys + 1,): first row of each key; at least two keys."""
    first: npt.NDArray[np.int64]
    """(n_keys + 1,): generators whose last key but one is the d-th are first[d] to first[d + 1]."""
    last: npt.NDArray[np.int64]
    """(n_generators,): last key of each."""
    start: npt.NDArray[np.int64]
    """(n_generators,): first entry of each in `high`."""
    strides: npt.NDArray[np.int64]
    """(n_generators, n_keys): stride of each key in the generator's table; 0 for a key not in it,
    and for the last, which is 1."""
    child: npt.NDArray[np.int32]
    """(n_keys or more, most levels): decision diagram of the possible cells."""
    all_possible: bool
    """Whether it forbids nothing."""


class Factors(NamedTuple):
    """Factors of the weight of a cell."""

    single: npt.NDArray[np.float64]
    """(n_rows,)"""
    pair: npt.NDArray[np.float64]
    """(n_rows, n_rows): of the row of an earlier key and the row of a later one; 1 if no term."""
    high: npt.NDArray[np.float64]
    """Tables of the generators of three and more keys, one after the other."""


class Walk(NamedTuple):
    """Where a walk stands."""

    weight: npt.NDArray[np.float64]
    """(n_keys, n_rows)"""
    mass: npt.NDArray[np.float64]
    """(n_keys, n_rows): sums below the node, by row."""
    total: npt.NDArray[np.float64]
    """(n_keys,): sum below the node."""
    value: npt.NDArray[np.float64]
    """(n_keys,): product of the factors among what is fixed."""
    level: npt.NDArray[np.int64]
    """(n_keys,)"""
    node: npt.NDArray[np.int64]
    """(n_keys,): of the diagram."""
    open: npt.NDArray[np.bool_]
    """(1,): whether the root has been opened."""


@device
def start_walk(scale, terms, factors):
    """Return a walk before its first block."""
    n_keys = terms.offsets.shape[0] - 1
    n_rows = terms.offsets[n_keys]
    walk = Walk(
        np.empty((n_keys, n_rows)),
        np.zeros((n_keys, n_rows)),
        np.zeros(n_keys),
        np.empty(n_keys),
        np.zeros(n_keys, np.int64),
        np.zeros(n_keys, np.int64),
        np.zeros(1, np.bool_),
    )
    walk.weight[0] = factors.single
    walk.value[0] = scale
    return walk


@device
def entry(g, n_fixed, terms, level):
    """First entry in `high` of a generator's line, its first keys being fixed."""
    at = terms.start[g]
    for j in range(n_fixed):
        at += terms.strides[g, j] * level[j]
    return at


@device
def next_block(walk, terms, factors, fixed, collect, pair_margin, high_margin):
    """Go on to the next block; return whether there is one.

    fixed (n_keys,): level of each key, -1 if all are walked. With `collect`, what the walk
    leaves is added to the margins.
    """
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    n_rows = offsets[n_keys]
    bottom = n_keys - 2
    if walk.open[0]:
        d = bottom
        back = True
    else:
        walk.open[0] = True
        d = 0
        back = False
        walk.level[0] = -1
        if bottom == 0:
            return True
    while True:
        if back:
            if d == 0:
                return False
            d -= 1
            if collect:
                row = offsets[d] + walk.level[d]
                for r in range(offsets[d + 1], n_rows):
                    m = walk.mass[d + 1, r]
                    pair_margin[row, r] += m
                    walk.mass[d, r] += m
                walk.mass[d, row] += walk.total[d + 1]
                walk.total[d] += walk.total[d + 1]
                for g in range(terms.first[d], terms.first[d + 1]):
                    at = entry(g, d + 1, terms, walk.level)
                    row = offsets[terms.last[g]]
                    for y in range(offsets[terms.last[g] + 1] - row):
                        high_margin[at + y] += walk.mass[d + 1, row + y]
            back = False
        walk.level[d] += 1
        if fixed[d] >= 0 and walk.level[d] < fixed[d]:
            walk.level[d] = fixed[d]
        x = walk.level[d]
        row = offsets[d] + x
        if row >= offsets[d + 1] or (fixed[d] >= 0 and x > fixed[d]):
            back = True
            continue
        after = terms.child[walk.node[d], x]
        v = walk.value[d] * walk.weight[d, row]
        if after < 0 or v == 0.0:
            continue
        for r in range(offsets[d + 1], n_rows):
            walk.weight[d + 1, r] = walk.weight[d, r] * factors.pair[row, r]
        for g in range(terms.first[d], terms.first[d + 1]):
            at = entry(g, d + 1, terms, walk.level)
            row = offsets[terms.last[g]]
            for y in range(offsets[terms.last[g] + 1] - row):
                walk.weight[d + 1, row + y] *= factors.high[at + y]
        d += 1
        walk.value[d] = v
        walk.node[d] = after
        walk.level[d] = -1
        walk.total[d] = 0.0
        for r in range(offsets[d], n_rows):
            walk.mass[d, r] = 0.0
        if d == bottom:
            return True


@device
def block_factors(walk, terms, factors, fixed, block):
    """Fill block (levels of the last key but one, levels of the last) with their factors.

    Zero where impossible or not fixed so. The same for all blocks if nothing varies.
    """
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    for x in range(block.shape[0]):
        after = terms.child[walk.node[a], x]
        walk.level[a] = x
        for y in range(block.shape[1]):
            free = (fixed[a] < 0 or fixed[a] == x) and (fixed[b] < 0 or fixed[b] == y)
            possible = after >= 0 and terms.child[after, y] >= 0
            inside = free and possible
            block[x, y] = factors.pair[offsets[a] + x, offsets[b] + y] if inside else 0.0
        for g in range(terms.first[a], terms.first[a + 1]):
            at = entry(g, b, terms, walk.level)
            for y in range(block.shape[1]):
                block[x, y] *= factors.high[at + y]


@device
def row_weights(walk, terms, block, rows):
    """Weight of the cells of a block with each level of the last key but one, into rows."""
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    for x in range(block.shape[0]):
        v = walk.value[a] * walk.weight[a, offsets[a] + x]
        # Four sums side by side: one would wait for itself.
        s0 = s1 = s2 = s3 = 0.0
        n = block.shape[1]
        for y in range(0, n - 3, 4):
            r = offsets[b] + y
            s0 += walk.weight[a, r] * block[x, y]
            s1 += walk.weight[a, r + 1] * block[x, y + 1]
            s2 += walk.weight[a, r + 2] * block[x, y + 2]
            s3 += walk.weight[a, r + 3] * block[x, y + 3]
        for y in range(n - n % 4, n):
            s0 += walk.weight[a, offsets[b] + y] * block[x, y]
        rows[x] = v * ((s0 + s1) + (s2 + s3))


@device
def is_constant(terms):
    """Whether the factors of all blocks are the same."""
    n_keys = terms.offsets.shape[0] - 1
    return terms.all_possible and terms.first[n_keys - 2] == terms.first[n_keys - 1]


@kernel
def add_margins(scale, terms, factors, fixed, pair_margin, high_margin):
    """Add the margins of the cells' weights, times scale; return their total.

    fixed (n_keys,): level of each key, -1 if all. pair_margin (n_rows, n_rows): for the row of an
    earlier and that of a later key; its diagonal holds the margins of the rows themselves.
    high_margin: as `Factors.high`.
    """
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    n_a, n_b = offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]
    walk = start_walk(scale, terms, factors)
    block = np.empty((n_a, n_b))
    sums = np.zeros((n_a, n_b))
    # Small arrays of their own, so that the loops below can be vectorised.
    weight = np.empty(n_b)
    mass = np.empty(n_b)
    line = np.empty(n_b)
    stale = True
    while next_block(walk, terms, factors, fixed, True, pair_margin, high_margin):
        if stale:
            block_factors(walk, terms, factors, fixed, block)
            stale = not is_constant(terms)
        for y in range(n_b):
            weight[y] = walk.weight[a, offsets[b] + y]
            mass[y] = 0.0
        for x in range(n_a):
            v = walk.value[a] * walk.weight[a, offsets[a] + x]
            if v == 0.0:
                continue
            for y in range(n_b):
                line[y] = v * weight[y] * block[x, y]
            for y in range(n_b):
                mass[y] += line[y]
            for y in range(n_b):
                sums[x, y] += line[y]
            # Four sums side by side: one would wait for itself.
            s0 = s1 = s2 = s3 = 0.0
            for y in range(0, n_b - 3, 4):
                s0 += line[y]
                s1 += line[y + 1]
                s2 += line[y + 2]
                s3 += line[y + 3]
            for y in range(n_b - n_b % 4, n_b):
                s0 += line[y]
            s = (s0 + s1) + (s2 + s3)
            walk.mass[a, offsets[a] + x] = s
            walk.total[a] += s
            walk.level[a] = x
            for g in range(terms.first[a], terms.first[a + 1]):
                at = entry(g, b, terms, walk.level)
                for y in range(n_b):
                    high_margin[at + y] += line[y]
        for y in range(n_b):
            walk.mass[a, offsets[b] + y] = mass[y]
    for x in range(n_a):
        for y in range(n_b):
            pair_margin[offsets[a] + x, offsets[b] + y] += sums[x, y]
    for r in range(offsets[n_keys]):
        pair_margin[r, r] += walk.mass[0, r]
    return walk.total[0]


@kernel
def add_completions(terms, factors, patterns, counts, pair_margin, high_margin, totals):
    """Add the margins that records with missing keys are expected to have, given what is known.

    patterns (n, n_keys), -1 where missing; counts (n,); totals (n,): weight of each pattern.
    """
    for i in range(patterns.shape[0]):
        totals[i] = total_weight(terms, factors, patterns[i])
        if totals[i] > 0.0:
            add_margins(
                counts[i] / totals[i], terms, factors, patterns[i], pair_margin, high_margin
            )


@device
def total_weight(terms, factors, fixed):
    """Weight of the cells with the levels that are fixed."""
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    block = np.empty((offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]))
    rows = np.empty(block.shape[0])
    nothing = np.empty(0)
    total = 0.0
    stale = True
    walk = start_walk(1.0, terms, factors)
    while next_block(walk, terms, factors, fixed, False, factors.pair, nothing):
        if stale:
            block_factors(walk, terms, factors, fixed, block)
            stale = not is_constant(terms)
        row_weights(walk, terms, block, rows)
        for x in range(block.shape[0]):
            total += rows[x]
    return total


@device
def one_weight(terms, factors, cell):
    """Weight of a complete cell."""
    n_keys = cell.shape[0]
    node = 0
    weight = 1.0
    for d in range(n_keys):
        node = terms.child[node, cell[d]]
        if node < 0:
            return 0.0
        row = terms.offsets[d] + cell[d]
        weight *= factors.single[row]
        for e in range(d):
            weight *= factors.pair[terms.offsets[e] + cell[e], row]
    for g in range(terms.last.shape[0]):
        at = entry(g, n_keys, terms, cell)
        weight *= factors.high[at + cell[terms.last[g]]]
    return weight


@kernel
def cell_weights(terms, factors, cells, out):
    """Weight of each cell, (n,); -1 leaves a key out."""
    for i in range(cells.shape[0]):
        complete = True
        for d in range(cells.shape[1]):
            complete = complete and cells[i, d] >= 0
        out[i] = (
            one_weight(terms, factors, cells[i])
            if complete
            else total_weight(terms, factors, cells[i])
        )


@device
def draw_cells(terms, factors, fixed, marks, cells):
    """Draw cells with the levels that are fixed: the one in which each mark falls.

    marks (n,), ascending, from 0 to the total weight; cells (n, n_keys) is filled in their order.
    """
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    block = np.empty((offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]))
    rows = np.empty(block.shape[0])
    nothing = np.empty(0)
    below = 0.0
    i = 0
    # The last row that has weight: marks past the rounded total fall there.
    final = np.zeros(n_keys, np.int64)
    stale = True
    walk = start_walk(1.0, terms, factors)
    while i < marks.shape[0] and next_block(
        walk, terms, factors, fixed, False, factors.pair, nothing
    ):
        if stale:
            block_factors(walk, terms, factors, fixed, block)
            stale = not is_constant(terms)
        row_weights(walk, terms, block, rows)
        for x in range(block.shape[0]):
            if rows[x] == 0.0:
                continue
            inside = below
            below += rows[x]
            if i == marks.shape[0]:
                break
            v = walk.value[a] * walk.weight[a, offsets[a] + x]
            y = 0
            while y < block.shape[1] and walk.weight[a, offsets[b] + y] * block[x, y] == 0.0:
                y += 1
            final[:a] = walk.level[:a]
            final[a], final[b] = x, y
            inside += v * walk.weight[a, offsets[b] + y] * block[x, y]
            while i < marks.shape[0] and marks[i] < below:
                # To the next level with weight, if there is one, while the mark is beyond this.
                z = y + 1
                while marks[i] >= inside and z < block.shape[1]:
                    m = v * walk.weight[a, offsets[b] + z] * block[x, z]
                    if m > 0.0:
                        inside += m
                        y = z
                    z += 1
                cells[i, :a] = walk.level[:a]
                cells[i, a] = x
                cells[i, b] = y
                i += 1
    while i < marks.shape[0]:
        cells[i] = final
        i += 1


@kernel
def draw_completions(total, terms, factors, patterns, counts, uniforms, cells):
    """Draw the missing keys of records, pattern by pattern, ascending within a pattern.

    patterns (n, n_keys), counts (n,); uniforms and cells have one row for each record, uniforms
    ascending within a pattern; total is the weight of all cells.
    """
    first = 0
    for i in range(patterns.shape[0]):
        last = first + counts[i]
        free = True
        for d in range(patterns.shape[1]):
            free = free and patterns[i, d] < 0
        weight = total if free else total_weight(terms, factors, patterns[i])
        marks = uniforms[first:last] * weight
        draw_cells(terms, factors, patterns[i], marks, cells[first:last])
        first = last


@kernel
def count_cells(terms, factors, limit):
    """Count the cells of positive weight, up to the first count beyond limit."""
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    block = np.empty((offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]))
    free = np.full(n_keys, -1)
    nothing = np.empty(0)
    count = 0
    stale = True
    walk = start_walk(1.0, terms, factors)
    while count <= limit and next_block(walk, terms, factors, free, False, factors.pair, nothing):
        if stale:
            block_factors(walk, terms, factors, free, block)
            stale = not is_constant(terms)
        for x in range(block.shape[0]):
            if walk.weight[a, offsets[a] + x] > 0.0:
                for y in range(block.shape[1]):
                    count += walk.weight[a, offsets[b] + y] * block[x, y] > 0.0
    return count
