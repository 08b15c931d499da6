"""Decomposable models in closed form against the walk's fit, and on any number of cells."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from models.loglinear.test_maximum_likelihood import keys_of, random_counts, table_of
from unikat.data import patterns as joins
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.loglinear.decomposable import DecomposableFit
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.terms import elimination, maximal
from zeros.enumeration import all_cells


def random_decomposable(rng: np.random.Generator, n_keys: int) -> tuple[tuple[int, ...], ...]:
    """Each key depends on part of a clique of earlier ones."""
    cliques: list[set[int]] = [{0}]
    for key in range(1, n_keys):
        home = sorted(cliques[rng.integers(len(cliques))])
        kept = rng.random(len(home)) < 0.6
        cliques.append({key, *(j for j, k in zip(home, kept, strict=True) if k)})
    names = rng.permutation(n_keys)
    return maximal([{int(names[j]) for j in clique} for clique in cliques])


@pytest.mark.parametrize("seed", range(12))
def test_closed_form_is_the_fit_of_the_walk(seed):
    """Probabilities of all cells and of all patterns with keys left out; margins may be zero."""
    rng = np.random.default_rng(seed)
    n_keys = int(rng.integers(2, 6))
    n_levels = tuple(int(n) for n in rng.integers(1, 5, n_keys))
    counts = random_counts(rng, n_levels, 2.0)
    counts.flat[0] += 1
    table = table_of(counts)
    generators = random_decomposable(rng, n_keys)
    order = elimination(generators, n_keys)
    assert order is not None
    closed = DecomposableFit.of(table, order)
    walked = fit(table, generators, tolerance=1e-10)
    patterns = np.array(list(itertools.product(*(range(-1, n) for n in n_levels))), np.int32)
    for cells in (all_cells(n_levels), patterns, patterns[:0]):
        np.testing.assert_allclose(
            closed.probabilities(cells), walked.probabilities(cells), rtol=1e-7, atol=1e-10
        )
    np.testing.assert_allclose(closed.probabilities(all_cells(n_levels)).sum(), 1.0)


@pytest.mark.parametrize("terms", ["independence", "chain"])
def test_a_trillion_cells(terms):
    """12 keys of 10 levels: the product of the shares, or of the conditionals along a chain."""
    rng = np.random.default_rng(1)
    codes = np.empty((500, 12), np.int64)
    codes[:, 0] = rng.integers(0, 10, 500)
    for j in range(1, 12):
        stay = rng.random(500) < 0.5
        codes[:, j] = np.where(stay, codes[:, j - 1], rng.integers(0, 10, 500))
    table = CellTable.from_codes(codes, keys_of((10,) * 12), 10_000)
    pairs = " + ".join(f"K{j}:K{j + 1}" for j in range(11))
    model = LogLinear(terms=pairs if terms == "chain" else terms)
    data = model.prepare(table)
    assert isinstance(data.fit, DecomposableFit)
    state = model.init(Stream(1, 0, 0), data)
    p = model.cell_probabilities(Stream(1, 0, 0), state, data, table.cells)
    twin = []
    for cell in table.cells:
        agree = codes == cell
        value = agree[:, 0].mean()
        for j in range(1, 12):
            given = agree[:, j - 1] if terms == "chain" else np.ones(500, bool)
            value *= (agree[:, j] & given).sum() / given.sum()
        twin.append(value)
    np.testing.assert_allclose(p, twin, rtol=1e-12)
    # Leaving out a key sums over its levels.
    margin = table.cells[:3].copy()
    margin[:, 5] = -1
    total = np.zeros(3)
    for level in range(10):
        margin_cells = margin.copy()
        margin_cells[:, 5] = level
        total += data.fit.probabilities(margin_cells)
    np.testing.assert_allclose(data.fit.probabilities(margin), total, rtol=1e-12)
    # Individuals: the first two keys have their joint share (chi-square, false alarm 1e-6).
    drawn = model.simulate(Stream(1, 0, 0), state, data, 20_000)
    assert drawn.shape == (20_000, 12)
    assert drawn.dtype == np.int32
    refitted = model.refit(CellTable.from_codes(drawn, table.keys, 30_000), data)
    assert isinstance(refitted.fit, DecomposableFit)
    assert refitted.fit.order == data.fit.order
    assert model.facts(data).warnings == ()
    assert model.facts(data).values["terms"] == model.terms


@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(4))
def test_individuals_have_the_cell_probabilities(seed):
    """Chi-square of 20,000 over all cells; false alarm 1e-6 each."""
    rng = np.random.default_rng(seed)
    n_levels = (3, 2, 4, 2)
    counts = random_counts(rng, n_levels, 2.0)
    order = elimination(random_decomposable(rng, 4), 4)
    assert order is not None
    closed = DecomposableFit.of(table_of(counts), order)
    p = closed.probabilities(all_cells(n_levels))
    drawn = closed.simulate(np.random.default_rng(2), 20_000)
    observed = np.bincount(np.ravel_multi_index(tuple(drawn.T), n_levels), minlength=len(p))
    assert observed[p == 0.0].sum() == 0
    common = p * 20_000 > 5.0
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(p[common], p[~common].sum()) * 20_000
    kept = f_exp > 0.0
    assert stats.chisquare(f_obs[kept], f_exp[kept]).pvalue > 1e-6


def test_too_many_completions_are_refused(monkeypatch):
    monkeypatch.setattr(joins, "MOST_COMPLETIONS", 100)
    table = CellTable.from_codes(np.zeros((5, 4), int), keys_of((5,) * 4), 100)
    order = elimination(((0,), (1,), (2,), (3,)), 4)
    assert order is not None
    closed = DecomposableFit.of(table, order)
    cells = np.array([[0, -1, -1, 0]] * 5, np.int32)
    with pytest.raises(SpecError, match="2 keys are missing at once, which stands for 25 cells"):
        closed.probabilities(cells)
    assert closed.probabilities(cells[:4]).tolist() == [1.0] * 4
    assert math.isclose(closed.probabilities(np.full((1, 4), -1, np.int32))[0], 1.0)
