"""Maximum likelihood fits against proportional fitting and EM on the full grid, and against R."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.loglinear import factored, maximum_likelihood
from unikat.models.loglinear.factored import Fit
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.terms import all_interactions, maximal
from unikat.zeros.diagram import build, possible
from zeros.enumeration import all_cells, random_conditions

VALUES = Path(__file__).parents[2] / "reference" / "values"


def keys_of(n_levels: tuple[int, ...]) -> list[Key]:
    return [Key.of_size(f"K{j}", n) for j, n in enumerate(n_levels)]


def table_of(counts: np.ndarray, **options: Any) -> CellTable:
    """Return a table with these counts in its cells."""
    codes = np.repeat(np.argwhere(counts > 0), counts[counts > 0].astype(int), axis=0)
    return CellTable.from_codes(codes, keys_of(counts.shape), 10 * len(codes), **options)


def probabilities(fitted: Fit, n_levels: tuple[int, ...]) -> np.ndarray:
    return fitted.probabilities(all_cells(n_levels)).reshape(n_levels)


def read_reference(name: str) -> tuple[CellTable, np.ndarray, np.ndarray, list[str]]:
    """Return a table, its occupied cells, the fitted counts by model, and the keys' names."""
    with open(VALUES / f"loglin_{name}.csv", newline="") as file:
        header, *rows = list(csv.reader(file))
    names = [name.split("/")[0] for name in header[:-3]]
    keys = [Key.of_size(*(f(x) for f, x in zip((str, int), name.split("/"), strict=True)))
            for name in header[:-3]]  # fmt: skip
    values = np.array(rows, float)
    cells = values[:, : len(keys)].astype(np.int32)
    codes = np.repeat(cells, values[:, -3].astype(int), axis=0)
    table = CellTable.from_codes(codes, keys, population_size=494_856)
    return table, cells, values[:, -2:], names


def random_counts(rng: np.random.Generator, n_levels: tuple[int, ...], mean: float) -> np.ndarray:
    """Counts of dependent keys."""
    weight = rng.gamma(1.5, size=n_levels)
    for a, b in itertools.combinations(range(len(n_levels)), 2):
        shape = [n if j in (a, b) else 1 for j, n in enumerate(n_levels)]
        weight *= rng.gamma(2.0, size=shape)
    return rng.poisson(weight / weight.mean() * mean)


def random_generators(rng: np.random.Generator, n_keys: int) -> tuple[tuple[int, ...], ...]:
    sets = [
        rng.choice(n_keys, int(rng.integers(2, min(n_keys, 4) + 1)), replace=False).tolist()
        for _ in range(rng.integers(1, 5))
    ]
    return maximal([*sets, *([j] for j in range(n_keys))])


@pytest.mark.parametrize("seed", range(24))
def test_fits_are_those_of_proportional_fitting(seed):
    """Independence, two-way, three-way and random hierarchical models: 1e-8 of a record.

    Small tables, all cells of which the twin has; some two-way margins are zero. (With larger
    terms a maximum would often lie at infinity, where proportional fitting does not arrive.)
    """
    rng = np.random.default_rng(seed)
    n_keys = int(rng.integers(2, 6))
    n_levels = tuple(int(n) for n in rng.integers(2, 5, n_keys))
    order = seed % 4
    counts = random_counts(rng, n_levels, 4.0) + (order in (0, 3))
    generators = all_interactions(n_keys, order) if order else random_generators(rng, n_keys)
    table = table_of(counts)
    fitted = fit(table, generators, tolerance=1e-10)
    assert fitted.converged
    assert fitted.margin_error <= max(1e-10, 1e-12 * table.n_records)
    twin = naive.proportional_fitting(counts.astype(float), generators, tolerance=1e-10)
    n = counts.sum()
    np.testing.assert_allclose(probabilities(fitted, n_levels) * n, twin, atol=1e-8)
    # Where a margin is zero the fit is zero, and it is counted.
    margins = [naive.margin(counts, one) for one in generators]
    assert fitted.n_cells == (twin > 0.0).sum()
    if not fitted.layout.high:
        single = [naive.margin(counts, (j,)) for one in generators if len(one) == 1 for j in one]
        pairs = [m for m in margins if m.ndim == 2]
        assert fitted.n_zero_margins == sum(int((m == 0).sum()) for m in [*single, *pairs])


@pytest.mark.parametrize("name", ["haireyecolor", "haireyecolor_zero_margin",
                                  "acs_ne_adults_1000", "acs_ne_adults_3000"])  # fmt: skip
def test_fits_are_those_of_r(name):
    """stats::loglin's fitted counts of the occupied cells, to 1e-9 relative.

    R stops at margins within 1e-11 records; a fitted count of a sparse table follows from them
    less closely, the smallest by 1e-8.
    """
    table, cells, expected, names = read_reference(name)
    for column, order in enumerate((1, 2)):
        generators = all_interactions(len(names), order)
        fitted = fit(table, generators, tolerance=1e-10)
        ours = fitted.probabilities(cells) * table.n_records
        np.testing.assert_allclose(ours, expected[:, column], rtol=1e-9, atol=1e-9)
    forbidden = {"haireyecolor": 0, "haireyecolor_zero_margin": 2,
                 "acs_ne_adults_1000": 864, "acs_ne_adults_3000": 1370}  # fmt: skip
    size = int(np.prod(table.n_levels))
    assert size - fitted.n_cells == forbidden[name]


@pytest.mark.parametrize("seed", range(12))
def test_impossible_cells_have_no_probability(seed):
    """The twin fits the possible cells alone."""
    rng = np.random.default_rng(seed)
    n_keys = int(rng.integers(1, 5))
    n_levels = tuple(int(n) for n in rng.integers(2, 5, n_keys))
    offsets = np.concatenate(([0], np.cumsum(n_levels)))
    while True:
        conditions = random_conditions(rng, n_levels, int(rng.integers(1, 4)))
        try:
            diagram = build(conditions, offsets)
        except SpecError:
            continue
        allowed = possible(diagram, all_cells(n_levels)).reshape(n_levels)
        counts = rng.poisson(6.0, n_levels) * allowed
        if not allowed.all() and counts.sum() > 0:
            break
    generators = random_generators(rng, n_keys) if n_keys > 1 else ((0,),)
    fitted = fit(table_of(counts, zeros=diagram), generators, tolerance=1e-10)
    twin = naive.proportional_fitting(counts.astype(float), generators, allowed, tolerance=1e-10)
    p = probabilities(fitted, n_levels)
    np.testing.assert_allclose(p * counts.sum(), twin, atol=1e-7)
    assert (p[~allowed] == 0.0).all()
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-12)


def incomplete_table(seed: int, n_levels: tuple[int, ...], n: int, missing: float) -> CellTable:
    rng = np.random.default_rng(seed)
    p = random_counts(rng, n_levels, 50.0) + 1.0
    codes = all_cells(n_levels)[rng.choice(p.size, n, p=(p / p.sum()).ravel())]
    codes[rng.random(codes.shape) < missing] = -1
    # A record of which nothing is known says nothing.
    codes[0] = -1
    codes[1 : p.size + 1] = all_cells(n_levels)[: n - 1]
    return CellTable.from_codes(codes, keys_of(n_levels), 10 * n)


def records_of(table: CellTable) -> list[tuple[list[int], float]]:
    return [
        (cell.tolist(), float(n))
        for cell, n in zip(table.cells, table.counts, strict=True)
        if (cell >= 0).any()
    ]


@pytest.mark.parametrize("seed", range(8))
def test_fits_with_missing_keys_are_those_of_em(seed):
    """The likelihood of what is known: the same maximum as EM on the full grid, 1e-7 of a record.

    All margins are positive, so that the grid is the same.
    """
    rng = np.random.default_rng(seed)
    n_levels = ((2, 3, 2), (3, 2, 4, 2))[seed % 2]
    table = incomplete_table(seed, n_levels, 600, 0.15)
    generators = (
        all_interactions(len(n_levels), 1 + seed // 2 % 2)
        if seed < 4
        else random_generators(rng, len(n_levels))
    )
    records = records_of(table)
    fitted = fit(table, generators, tolerance=1e-10)
    assert fitted.converged
    assert fitted.n_zero_margins == 0
    p = probabilities(fitted, n_levels)
    twin = naive.fit_incomplete(records, generators, np.ones(n_levels))
    np.testing.assert_allclose(
        naive.log_likelihood(p, records), naive.log_likelihood(twin, records), rtol=1e-13
    )
    np.testing.assert_allclose(p * 600, twin * 600, atol=1e-7)
    # Nothing complete is left out, nothing incomplete counted twice.
    expected = naive.expected_counts(p, records)
    n = sum(count for _, count in records)
    np.testing.assert_allclose(expected.sum(), n)
    for one in generators:
        np.testing.assert_allclose(naive.margin(expected, one), naive.margin(p, one) * n, atol=1e-8)


def test_missing_keys_with_impossible_cells():
    """EM over the possible cells alone."""
    n_levels = (2, 3, 2)
    offsets = np.concatenate(([0], np.cumsum(n_levels)))
    diagram = build(np.array([[False, True, True, False, False, True, True]]), offsets)
    allowed = possible(diagram, all_cells(n_levels)).reshape(n_levels)
    rng = np.random.default_rng(5)
    codes = all_cells(n_levels)[rng.choice(np.flatnonzero(allowed.ravel()), 500)]
    codes[rng.random(codes.shape) < 0.2] = -1
    table = CellTable.from_codes(codes, keys_of(n_levels), 5000, zeros=diagram)
    for generators in (((0,), (1,), (2,)), ((0, 1), (2,)), ((0, 1), (1, 2))):
        fitted = fit(table, generators, tolerance=1e-10)
        twin = naive.fit_incomplete(records_of(table), generators, allowed.astype(float))
        np.testing.assert_allclose(probabilities(fitted, n_levels), twin, atol=1e-9)


def test_a_pattern_that_no_margin_explains_opens_its_completions():
    """(1, ?) with level 1 in no complete record: the fit gives it what it needs, and no more."""
    codes = [[0, 0]] * 3 + [[0, 1]] * 2 + [[1, -1]] * 5
    table = CellTable.from_codes(codes, keys_of((2, 2)), 100)
    p = probabilities(fit(table, ((0, 1),), tolerance=1e-10), (2, 2))
    np.testing.assert_allclose(p[0], [0.3, 0.2], atol=1e-9)
    np.testing.assert_allclose(p[1].sum(), 0.5, atol=1e-9)
    assert (p[1] > 0.0).all()
    # Level 1 of B was seen with level 0 of A only; nothing asks for (1, 1).
    codes = [[0, 0]] * 3 + [[0, 1]] * 2 + [[1, 0]] * 2 + [[1, -1]] * 5
    table = CellTable.from_codes(codes, keys_of((2, 2)), 100)
    p = probabilities(fit(table, ((0, 1),), tolerance=1e-10), (2, 2))
    np.testing.assert_allclose(p, [[3 / 12, 2 / 12], [7 / 12, 0.0]], atol=1e-9)


def test_a_key_that_no_record_has_is_spread_evenly():
    table = CellTable.from_codes([[0, -1], [1, -1], [1, -1]], keys_of((2, 3)), 100)
    for generators in (((0, 1),), ((0,), (1,))):
        for smoothing in (0.0, 1.5):
            fitted = fit(table, generators, tolerance=1e-10, smoothing=smoothing)
            p = probabilities(fitted, (2, 3))
            np.testing.assert_allclose(p, np.outer([1 / 9, 2 / 9], [1.0] * 3), atol=1e-9)


def test_records_of_which_nothing_is_known_cannot_be_fitted():
    table = CellTable.from_codes([[-1, -1]] * 3, keys_of((2, 3)), 100)
    with pytest.raises(SpecError, match="No record has a key that is known"):
        fit(table, ((0, 1),))


@pytest.mark.parametrize("missing", [0.0, 0.2])
@pytest.mark.parametrize("smoothing", [0.5, 30.0])
def test_smoothing_adds_records_spread_as_under_independence(smoothing, missing):
    """The twin fits the margins of the counts plus the product of the shares of the levels."""
    n_levels = (3, 4, 2)
    table = incomplete_table(3, n_levels, 30, missing)
    shares = [
        np.bincount(table.cells[known, j], table.counts[known], minlength=n_levels[j])
        for j, known in enumerate((table.cells >= 0).T)
    ]
    added = np.einsum("a,b,c->abc", *shares)
    added *= smoothing / added.sum()
    records = records_of(table)
    spread = [(cell.tolist(), float(added[tuple(cell)])) for cell in all_cells(n_levels)]
    generators = ((0, 1), (1, 2))
    fitted = fit(table, generators, tolerance=1e-10, smoothing=smoothing)
    if missing:
        twin = naive.fit_incomplete(records + spread, generators, np.ones(n_levels))
    else:
        counts = naive.expected_counts(np.ones(n_levels), records) + added
        twin = naive.proportional_fitting(counts, generators, tolerance=1e-10)
        twin /= twin.sum()
    np.testing.assert_allclose(probabilities(fitted, n_levels), twin, atol=1e-8)
    assert fitted.n_zero_margins == 0
    assert fitted.n_cells == 24


def test_smoothing_where_cells_are_impossible():
    """What is added is spread over the possible cells; levels that no record has stay empty."""
    diagram = build(np.array([[False, True, False, False, True]]), [0, 2, 5])
    table = CellTable.from_codes([[0, 0]] * 3 + [[1, 1]] * 2 + [[0, 2]], keys_of((2, 3)), 100,
                                 zeros=diagram)  # fmt: skip
    fitted = fit(table, ((0, 1),), tolerance=1e-10, smoothing=2.0)
    added = np.outer([4, 2], [3, 2, 1]) * [[1, 1, 1], [1, 1, 0]]
    counts = np.array([[3, 0, 1], [0, 2, 0]]) + 2.0 * added / added.sum()
    np.testing.assert_allclose(probabilities(fitted, (2, 3)), counts / 8.0, atol=1e-9)
    # The levels that were seen cannot be together: what is added is even over the possible cells.
    table = CellTable.from_codes([[1, -1]] * 3 + [[-1, 2]] * 2, keys_of((2, 3)), 100,
                                 zeros=diagram)  # fmt: skip
    fitted = fit(table, ((0,), (1,)), tolerance=1e-10, smoothing=2.0)
    spread = [(cell, 2.0 / 5.0) for cell in np.argwhere(added > 0).tolist()]
    twin = naive.fit_incomplete([*records_of(table), *spread], ((0,), (1,)), added > 0)
    np.testing.assert_allclose(probabilities(fitted, (2, 3)), twin, atol=1e-9)


def test_a_maximum_at_infinity_with_missing_keys():
    """(1, ?) and (?, 2), with (1, 2) impossible: independence only comes near (0, 2) and (1, .)."""
    diagram = build(np.array([[False, True, False, False, True]]), [0, 2, 5])
    table = CellTable.from_codes([[1, -1]] * 3 + [[-1, 2]] * 2, keys_of((2, 3)), 100,
                                 zeros=diagram)  # fmt: skip
    fitted = fit(table, ((0,), (1,)), tolerance=1e-6)
    assert fitted.converged
    p = probabilities(fitted, (2, 3))
    np.testing.assert_allclose([p[1].sum(), p[0, 2], p[1, 2]], [0.6, 0.4, 0.0], atol=1e-6)


def test_a_single_key_has_its_shares():
    generators = ((0,),)
    table = CellTable.from_codes([[0], [2], [2], [-1], [3]], keys_of((4,)), 100)
    fitted = fit(table, generators, tolerance=1e-10)
    cells = np.array([[0], [1], [2], [3], [-1]], np.int32)
    np.testing.assert_allclose(fitted.probabilities(cells), [0.25, 0.0, 0.5, 0.25, 1.0])
    diagram = build(np.array([[False, True, False, False]]), [0, 4])
    fitted = fit(CellTable.from_codes([[0], [2], [2], [-1], [3]], keys_of((4,)), 100,
                                      zeros=diagram), generators)  # fmt: skip
    np.testing.assert_allclose(fitted.probabilities(cells), [0.25, 0.0, 0.5, 0.25, 1.0], atol=1e-9)
    drawn = fitted.simulate(np.random.default_rng(1), 1000)
    assert set(drawn[:, 0].tolist()) == {0, 2, 3}


def test_levels_that_nobody_has_get_nothing():
    counts = np.zeros((3, 4, 2), int)
    counts[:2, 1:] = np.random.default_rng(2).poisson(5.0, (2, 3, 2)) + 1
    for order in (1, 2, 3):
        fitted = fit(table_of(counts), all_interactions(3, order), tolerance=1e-10)
        p = probabilities(fitted, counts.shape)
        inner = naive.proportional_fitting(
            counts[:2, 1:].astype(float), all_interactions(3, order), tolerance=1e-11
        )
        np.testing.assert_allclose(p[:2, 1:] * counts.sum(), inner, atol=1e-8)
        assert p[2].sum() == p[:, 0].sum() == 0.0
        assert fitted.n_cells == 12


def test_margins_that_leave_out_keys_and_what_is_certain():
    counts = random_counts(np.random.default_rng(4), (3, 2, 4), 5.0)
    fitted = fit(table_of(counts), ((0, 1), (1, 2)), tolerance=1e-10)
    p = probabilities(fitted, counts.shape)
    patterns = np.array(list(itertools.product(*(range(-1, n) for n in counts.shape))), np.int32)
    for pattern, ours in zip(patterns, fitted.probabilities(patterns), strict=True):
        where = tuple(slice(None) if x < 0 else int(x) for x in pattern)
        np.testing.assert_allclose(ours, p[where].sum(), rtol=1e-12)
    assert fitted.probabilities(patterns[:1])[0] == 1.0
    assert fitted.probabilities(patterns[:0]).shape == (0,)


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_the_start_does_not_matter(missing):
    """From the fit of a smaller model, of the model itself, of a larger one; a level is unseen."""
    table = incomplete_table(6, (3, 2, 4, 2), 500, missing)
    wider = keys_of((3, 3, 4, 2))
    codes = np.repeat(table.cells, table.counts, axis=0)
    table = CellTable.from_codes(codes, wider, 5000)
    models = [all_interactions(4, order) for order in (1, 2, 3)]
    cold = [fit(table, model, tolerance=1e-9) for model in models]
    cells = all_cells((3, 3, 4, 2))
    for (to, model), start in itertools.product(enumerate(models), cold):
        warm = fit(table, model, tolerance=1e-9, start=start)
        assert warm.converged
        np.testing.assert_allclose(
            warm.probabilities(cells), cold[to].probabilities(cells), atol=1e-9
        )
    for model, before in zip(models, cold, strict=True):
        assert fit(table, model, tolerance=1e-9, start=before).n_walks <= max(1, before.n_walks / 4)
    # The same numbers, to the last digit, each time.
    np.testing.assert_array_equal(
        fit(table, models[1], tolerance=1e-9).probabilities(cells), cold[1].probabilities(cells)
    )


def test_fits_without_a_maximum_inside_come_as_near_as_asked():
    """Haberman's example: no zero margin, and yet two cells go to zero."""
    counts = np.full((2, 2, 2), 5)
    counts[0, 0, 0] = counts[1, 1, 1] = 0
    fitted = fit(table_of(counts), all_interactions(3, 2), tolerance=1e-5)
    assert fitted.converged
    np.testing.assert_allclose(probabilities(fitted, (2, 2, 2)) * 30, counts, atol=1e-4)


def test_the_tolerance_is_kept_and_what_is_not_reached_is_told(monkeypatch):
    counts = random_counts(np.random.default_rng(7), (3, 4, 3, 2), 2.0)
    for tolerance in (1.0, 1e-2, 1e-6):
        fitted = fit(table_of(counts), all_interactions(4, 2), tolerance=tolerance)
        p = probabilities(fitted, counts.shape) * counts.sum()
        gaps = [
            np.abs(naive.margin(p, one) - naive.margin(counts, one)).max()
            for one in all_interactions(4, 2)
        ]
        assert max(gaps) <= tolerance * 1.0001
        assert fitted.margin_error <= tolerance
    monkeypatch.setattr(maximum_likelihood, "_MOST_WALKS", 3)
    short = fit(table_of(counts), all_interactions(4, 2), tolerance=1e-9)
    assert not short.converged
    assert short.margin_error > 1e-9


def test_what_is_too_large_is_refused_with_keys_that_fit(monkeypatch):
    """More cells of positive probability than the limit; zero margins do not count."""
    monkeypatch.setattr(maximum_likelihood, "MOST_CELLS", 100)
    counts = random_counts(np.random.default_rng(8), (5, 4, 3, 2), 20.0) + 1
    with pytest.raises(SpecError, match=r"more than 100 cells.*surely fits is K0, K1, K2\."):
        fit(table_of(counts), all_interactions(4, 1))
    diagonal = np.zeros((5, 5, 5), int)
    diagonal[np.arange(5), np.arange(5), np.arange(5)] = 2
    assert fit(table_of(diagonal), all_interactions(3, 2)).n_cells == 5
    with pytest.raises(SpecError, match="more than 100 cells"):
        fit(table_of(diagonal), all_interactions(3, 1))


def test_many_keys_are_not_all_compared():
    """Of 40 keys there are 10^11 sets of 20; the smallest keys are named."""
    keys = keys_of((3, 4) * 20)
    codes = np.random.default_rng(1).integers(0, 3, (50, 40))
    text = maximum_likelihood.too_large(CellTable.from_codes(codes, keys, 100), ())
    even = ", ".join(f"K{j}" for j in range(0, 36, 2))
    assert f"surely fits is {even}. Leave" in text


def test_too_many_levels_are_refused():
    keys = [Key.of_size("A", 4000), Key.of_size("B", 2)]
    table = CellTable.from_codes([[0, 0]], keys, 10)
    with pytest.raises(SpecError, match="4,002 levels"):
        fit(table, ((0,), (1,)))


@pytest.mark.statistical
@pytest.mark.parametrize("generators", [((0, 1), (1, 2)), ((0, 1, 2),), ((0, 1), (0, 2), (1, 2))])
def test_individuals_and_completions_have_the_law_of_the_fit(generators):
    """Chi-square of 20,000 individuals, and of the completions of two patterns; 1e-6 each.

    Simulated individuals are in no order: the first half has the law of the second.
    """
    counts = random_counts(np.random.default_rng(9), (3, 4, 2), 3.0)
    fitted = fit(table_of(counts), generators, tolerance=1e-8)
    p = probabilities(fitted, counts.shape)
    drawn = fitted.simulate(np.random.default_rng(1), 20_000)
    assert drawn.dtype == np.int32
    place = np.ravel_multi_index(tuple(drawn.T), counts.shape)

    def check(observed: np.ndarray, law: np.ndarray) -> None:
        assert observed[law == 0.0].sum() == 0
        common = law * observed.sum() > 5.0
        f_obs = np.append(observed[common], observed[~common].sum())
        f_exp = np.append(law[common], law[~common].sum()) * observed.sum() / law.sum()
        kept = f_exp > 0.0
        assert stats.chisquare(f_obs[kept], f_exp[kept]).pvalue > 1e-6

    for half in (place[:10_000], place[10_000:]):
        check(np.bincount(half, minlength=24), p.ravel())
    patterns = np.array([[-1, 1, -1], [0, -1, 1]], np.int32)
    completed = fitted.complete(np.random.default_rng(2), patterns, np.array([5000, 5000]))
    assert (completed[:5000, 1] == 1).all()
    assert (completed[5000:, [0, 2]] == [0, 1]).all()
    for pattern, rows in zip(patterns, np.split(completed, 2), strict=True):
        where = tuple(slice(None) if x < 0 else slice(x, x + 1) for x in pattern)
        law = np.zeros_like(p)
        law[where] = p[where]
        observed = np.bincount(np.ravel_multi_index(tuple(rows.T), p.shape), minlength=p.size)
        check(observed, law.ravel())


@pytest.mark.parametrize(
    "begin",
    [
        [(0,), (1, 2), (3,), (4,)],
        [*itertools.combinations(range(5), 2)],
        [*itertools.combinations(range(5), 2), (0, 1, 2)],
        [*itertools.combinations(range(5), 2), (0, 1, 2), (1, 2, 3)],
    ],
)
def test_a_larger_model_starts_where_the_smaller_one_is(begin):
    """The factors of a fit, put into the generators of a model with one term more."""
    levels = (2, 3, 2, 3, 2)
    rng = np.random.default_rng(7)
    codes = np.stack([rng.integers(0, k, 400) for k in levels], axis=1)
    codes[:, 1] = np.where(rng.random(400) < 0.4, codes[:, 2], codes[:, 1])
    table = CellTable.from_codes(codes, keys_of(levels), 10_000)
    cells = np.array(list(itertools.product(*map(range, levels))), np.int32)
    smaller = maximal([(j,) for j in range(5)] + begin)
    start = fit(table, smaller, tolerance=1e-6)
    for size in (2, 3, 4):
        for term in itertools.combinations(range(5), size):
            larger = maximal([*smaller, term])
            layout = factored.lay_out(table, larger)
            problem = maximum_likelihood._Problem(table, layout, 0.0)
            begun = start._replace(layout=layout, factors=problem.factors(problem._start(start)))
            np.testing.assert_allclose(
                begun.probabilities(cells), start.probabilities(cells), rtol=1e-9
            )
            if larger != smaller:
                nudged = maximum_likelihood.nudged(table, larger, term, smoothing=0.0, start=start)
                p = nudged.probabilities(cells).reshape(levels)
                others = tuple(j for j in range(5) if j not in term)
                seen = naive.margin(
                    np.bincount(
                        np.ravel_multi_index(tuple(codes.T), levels), minlength=len(cells)
                    ).reshape(levels),
                    term,
                )
                np.testing.assert_allclose(p.sum(axis=others), seen.squeeze() / 400, rtol=1e-9)


def test_a_step_that_is_too_long_is_taken_back(monkeypatch):
    """Its weights overflow, which is no warning and no number to go on from."""
    values = []

    def too_far(negative, start, *arguments, **options):
        values.append(negative(np.full_like(start, 1e5)))
        return original(negative, start, *arguments, **options)

    original = maximum_likelihood.minimise
    monkeypatch.setattr(maximum_likelihood, "minimise", too_far)
    table = table_of(random_counts(np.random.default_rng(1), (3, 4, 2), 2.0))
    assert fit(table, ((0, 1), (1, 2), (0, 2)), tolerance=1e-6).converged
    ((value, gradient),) = values
    assert np.isfinite(value)
    assert not gradient.any()
