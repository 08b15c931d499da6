"""The walk over the cells against all cells, listed one by one."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels import loglinear as kernels
from unikat.kernels.loglinear import Factors
from unikat.models.loglinear.factored import Layout, lay_out
from unikat.models.loglinear.terms import maximal
from unikat.zeros.diagram import build, possible
from zeros.enumeration import all_cells, random_conditions

EXACT = 1e-11
"""Relative: the order of the sums differs."""


class Case(NamedTuple):
    """A random model; everything but `keys` in the order of the walk."""

    layout: Layout
    factors: Factors
    n_levels: tuple[int, ...]
    twin: naive.Product


def random_case(seed: int) -> Case:
    """2 to 5 keys of 1 to 5 levels, generators of 1 to 4 keys, factors of 0, impossible cells."""
    rng = np.random.default_rng(seed)
    n_keys = int(rng.integers(2, 6))
    # Blocks longer than four have a loop of their own.
    levels = [int(rng.integers(1, 6 if n_keys < 5 else 4)) for _ in range(n_keys)]
    sets = [
        rng.choice(n_keys, min(n_keys, int(rng.integers(1, 5))), replace=False).tolist()
        for _ in range(rng.integers(1, 6))
    ]
    generators = maximal([*sets, *([j] for j in range(n_keys))])
    diagram = None
    if rng.random() < 0.5:
        offsets = np.concatenate(([0], np.cumsum(levels)))
        conditions = random_conditions(rng, levels, int(rng.integers(1, 4)))
        cell = all_cells(levels)[0]
        # The first cell stays possible.
        kept = [c for c in conditions if not all(c[offsets[j] + x] for j, x in enumerate(cell))]
        if kept:
            diagram = build(np.array(kept), offsets)
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(levels)]
    table = CellTable.from_codes([[0] * n_keys], keys, 10, zeros=diagram)
    layout = lay_out(table, generators)
    walked = tuple(levels[key] for key in layout.keys)
    first = layout.terms.offsets
    n_rows = int(first[-1])

    def draw(*shape: int) -> np.ndarray:
        return rng.exponential(size=shape) * (rng.random(shape) > rng.choice([0.0, 0.1, 0.4]))

    single, pair, high = draw(n_rows), np.ones((n_rows, n_rows)), [np.empty(0)]
    tables = {(d,): single[first[d] : first[d + 1]] for d in range(n_keys)}
    for a, b in layout.pairs.tolist():
        tables[a, b] = draw(walked[a], walked[b])
        pair[first[a] : first[a + 1], first[b] : first[b + 1]] = tables[a, b]
    for one in layout.high:
        tables[one] = draw(*(walked[d] for d in one))
        high.append(tables[one].ravel())
    cells = all_cells(walked)
    allowed = np.ones(walked, np.bool_)
    if diagram is not None:
        codes = np.empty_like(cells)
        codes[:, layout.keys] = cells
        allowed = possible(diagram, codes).reshape(walked)
    return Case(
        layout, Factors(single, pair, np.concatenate(high)), walked, naive.Product(tables, allowed)
    )


def random_patterns(rng: np.random.Generator, case: Case, n: int) -> np.ndarray:
    cells = np.column_stack([rng.integers(0, levels, n) for levels in case.n_levels])
    cells[rng.random(cells.shape) < rng.choice([0.2, 0.5, 0.9])] = -1
    return np.ascontiguousarray(cells, np.int64)


def margins_of(case: Case, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Margins of pairs (single keys on the diagonal) and of generators of three and more keys."""
    first = case.layout.terms.offsets
    pair = np.zeros((first[-1], first[-1]))
    for a, b in itertools.combinations(range(len(case.n_levels)), 2):
        pair[first[a] : first[a + 1], first[b] : first[b + 1]] = naive.margin(weight, (a, b))
    for a in range(len(case.n_levels)):
        place = np.arange(first[a], first[a + 1])
        pair[place, place] = naive.margin(weight, (a,))
    high = [naive.margin(weight, one).ravel() for one in case.layout.high]
    return pair, np.concatenate([np.empty(0), *high])


def close(ours: object, theirs: object) -> None:
    np.testing.assert_allclose(ours, theirs, rtol=EXACT, atol=1e-300)


cases = given(st.integers(0, 2**32 - 1))
often = settings(deadline=None, max_examples=150, derandomize=True)


@cases
@often
def test_margins_are_sums_over_the_cells(seed):
    """All cells, and those with some keys fixed; they are added to what is there."""
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    free = np.full((1, len(case.n_levels)), -1, np.int64)
    for fixed in np.concatenate((free, random_patterns(rng, case, 3))):
        scale = float(rng.exponential())
        weight = case.twin.agreeing(fixed) * scale
        expected = margins_of(case, weight)
        before = [rng.exponential(size=part.shape) for part in expected]
        ours = [part.copy() for part in before]
        total = kernels.add_margins(scale, case.layout.terms, case.factors, fixed, *ours)
        close(total, weight.sum())
        for mine, start, theirs in zip(ours, before, expected, strict=True):
            close(mine, start + theirs)


@cases
@often
def test_weights_of_cells_are_products(seed):
    """Complete cells, and sums over the keys that are left out."""
    case = random_case(seed)
    patterns = random_patterns(np.random.default_rng(seed), case, 12)
    patterns = np.concatenate((patterns, all_cells(case.n_levels)[:40]))
    out = np.empty(len(patterns))
    kernels.cell_weights(case.layout.terms, case.factors, patterns, out)
    close(out, [case.twin.agreeing(pattern).sum() for pattern in patterns])


@cases
@often
def test_completions_have_the_margins_expected_given_what_is_known(seed):
    """Each pattern's count spread over its completions by weight; none if they weigh nothing."""
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    patterns = random_patterns(rng, case, 4)
    counts = rng.integers(1, 9, len(patterns)).astype(float)
    kept = [case.twin.agreeing(pattern) for pattern in patterns]
    expected = sum(
        (c * w / w.sum() for c, w in zip(counts, kept, strict=True) if w.sum() > 0.0),
        start=np.zeros(case.n_levels),
    )
    theirs = margins_of(case, expected)
    ours = [np.zeros_like(part) for part in theirs]
    totals = np.empty(len(patterns))
    kernels.add_completions(
        case.layout.terms, case.factors, patterns, counts, *ours, totals
    )  # fmt: skip
    close(totals, [w.sum() for w in kept])
    for mine, other in zip(ours, theirs, strict=True):
        close(mine, other)


@cases
@often
def test_draws_are_the_cells_in_which_the_marks_fall(seed):
    """Exact, by the running sums over the listed cells; marks within rounding of one are let go."""
    case = random_case(seed)
    rng = np.random.default_rng(seed)
    free = np.full((1, len(case.n_levels)), -1, np.int64)
    patterns = np.concatenate((free, random_patterns(rng, case, 3)))
    patterns = patterns[[case.twin.agreeing(pattern).sum() > 0.0 for pattern in patterns]]
    counts = rng.integers(0, 30, len(patterns))
    uniforms = np.concatenate([np.zeros(0), *(np.sort(rng.random(n)) for n in counts)])
    drawn = np.full((counts.sum(), len(case.n_levels)), -9, np.int64)
    before = uniforms.copy()
    total = case.twin.weight.sum()
    kernels.draw_completions(
        total, case.layout.terms, case.factors, patterns, counts, uniforms, drawn
    )
    np.testing.assert_array_equal(uniforms, before)
    ends = np.cumsum(counts)
    for pattern, first, last in zip(patterns, ends - counts, ends, strict=True):
        cells, below = case.twin.cumulative(pattern)
        marks = np.sort(uniforms[first:last]) * below[-1]
        place = np.searchsorted(below, marks, side="right")
        clear = np.abs(marks[:, None] - below).min(axis=1) > 1e-9 * below[-1]
        assert (~clear).sum() <= 1
        np.testing.assert_array_equal(drawn[first:last][clear], cells[place[clear]])


@pytest.mark.parametrize("seed", range(20))
def test_a_mark_beyond_the_total_falls_in_a_cell_that_has_weight(seed):
    """Rounding may put it there; the cell is in the last line that has weight."""
    case = random_case(seed)
    if case.twin.weight.sum() == 0.0:
        return
    cells, below = case.twin.cumulative([-1] * len(case.n_levels))
    drawn = np.empty((1, len(case.n_levels)), np.int64)
    free = np.full((1, len(case.n_levels)), -1, np.int64)
    kernels.draw_completions(
        float(below[-1]), case.layout.terms, case.factors, free, np.ones(1, np.int64),
        np.array([1.0 + 1e-9]), drawn,
    )  # fmt: skip
    assert case.twin.weight[tuple(drawn[0])] > 0.0
    np.testing.assert_array_equal(drawn[0, :-1], cells[-1, :-1])


@cases
@often
def test_cells_are_counted_up_to_the_limit(seed):
    case = random_case(seed)
    there = int((case.twin.weight > 0.0).sum())
    assert kernels.count_cells(case.layout.terms, case.factors, 10**9) == there
    assert kernels.count_cells(case.layout.terms, case.factors, there) == there
    if there:
        assert kernels.count_cells(case.layout.terms, case.factors, there - 1) > there - 1


def test_the_cases_are_of_all_kinds():
    """Generators of every size, impossible cells, weights of zero, blocks that vary or do not."""
    found = [random_case(seed) for seed in range(60)]
    sizes = {len(one) for case in found for one in case.layout.high}
    assert sizes == {3, 4}
    assert {len(case.layout.pairs) > 0 for case in found} == {True, False}
    assert {case.layout.terms.all_possible for case in found} == {True, False}
    assert {bool(kernels.is_constant(case.layout.terms)) for case in found} == {True, False}
    assert {len(case.n_levels) for case in found} == {2, 3, 4, 5}
    empty = [(case.twin.weight == 0.0).mean() for case in found]
    assert sum(share == 0.0 for share in empty) > 5
    assert sum(0.0 < share < 1.0 for share in empty) > 20


@pytest.mark.parametrize("n_levels", [(1, 1), (1, 7), (6, 1), (3, 9)])
def test_two_keys_are_one_block(n_levels):
    keys = [Key.of_size("A", n_levels[0]), Key.of_size("B", n_levels[1])]
    table = CellTable.from_codes([[0, 0]], keys, 10)
    layout = lay_out(table, ((0, 1),))
    walked = [n_levels[key] for key in layout.keys]
    rng = np.random.default_rng(3)
    n_rows = sum(walked)
    single, pair = rng.exponential(size=n_rows), np.ones((n_rows, n_rows))
    pair[: walked[0], walked[0] :] = rng.exponential(size=walked)
    weight = np.outer(single[: walked[0]], single[walked[0] :]) * pair[: walked[0], walked[0] :]
    got = np.zeros_like(pair)
    factors = Factors(single, pair, np.empty(0))
    free = np.full(2, -1, np.int64)
    total = kernels.add_margins(1.0, layout.terms, factors, free, got, np.empty(0))
    close(total, weight.sum())
    close(got[: walked[0], walked[0] :], weight)
    close(np.diag(got), np.append(weight.sum(axis=1), weight.sum(axis=0)))
