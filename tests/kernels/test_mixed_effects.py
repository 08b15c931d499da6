"""Kernels of the mixed-effects model against the equations."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import lambertw

from statistical import mixed
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels import cholesky, fixed_effects, poisson_normal
from unikat.kernels import mixed_effects as kernels
from unikat.kernels.base_measure import Base
from unikat.kernels.fixed_effects import Cells, Prior
from unikat.kernels.mixed_effects import complete
from unikat.kernels.partition import split_merge
from unikat.kernels.random import GENERATOR_SIZE, PURPOSE_LANGEVIN, normal, seek, uniform
from unikat.models.loglinear.grid import design_of, list_cells
from unikat.models.loglinear.mixed_effects import MixedEffects
from unikat.rng import chain_key

FALSE_ALARM = 1e-6
"""Of each statistical comparison; about 40 of them, so 4e-5 in total."""
KEY = chain_key(11, 0)
LEVELS = (2, 3, 2)
NONE = np.empty(0, np.int32)


def a_grid(fixed: str = "two-way", intercept: bool = True) -> Any:
    """Cells, design, dense design, counts and offsets of a small table."""
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
    grid = list_cells(CellTable.from_codes([[0, 0, 0]], keys, population_size=9), "mixed-effects")
    design = design_of(grid, fixed, intercept)
    model = MixedEffects(random="normal" if intercept else "dp", fixed=fixed)
    rng = np.random.default_rng(3)
    W = mixed.design(model, grid.cells, LEVELS)
    return design, W, rng.poisson(3.0, len(W)), rng.normal(size=len(W))


@pytest.mark.parametrize("log_x", [-800.0, -40.0, -5.0, -0.3, 0.0, 0.99, 1.0, 3.0, 30.0, 650.0])
def test_product_logarithm(log_x):
    if log_x > -700:
        expected = lambertw(np.exp(log_x)).real
        np.testing.assert_allclose(poisson_normal.product_logarithm(log_x), expected, rtol=1e-13)
    else:
        assert poisson_normal.product_logarithm(log_x) == 0.0


LAWS = [
    (0.0, 0.0, 0.0, 1.0),
    (0.0, -np.inf, 0.0, 2.0),
    (0.0, -8.0, 0.0, 10.0),
    (0.0, 3.0, 0.0, 10.0),
    (0.0, 12.0, 1.0, 30.0),
    (1.0, 0.0, 0.0, 100.0),
    (3.0, -1.0, -2.0, 0.3),
    (40.0, 2.0, 0.0, 1.0),
    (5.0, 9.0, 4.0, 0.05),
    (20_000.0, 3.0, 0.0, 2.0),
]


@pytest.mark.statistical
@pytest.mark.parametrize("law", LAWS)
def test_tilted_draws_have_their_density(law):
    """Kolmogorov-Smirnov of 20,000 draws against quadrature; those of all cells are drawn so."""
    count, log_exposure, mean, variance = law
    draws = np.empty(20_000)
    counts = np.full(len(draws), int(count))
    # phi + mean is what is drawn when the mean of phi is put into the offset.
    kernels.draw_effects(KEY, 1, counts, np.full(len(draws), log_exposure + mean), variance, draws)
    draws += mean

    def log_density(x: float) -> float:
        return count * x - np.exp(x + log_exposure) - (x - mean) ** 2 / (2 * variance)

    low, high = draws.min(), draws.max()
    cdf = mixed.law_on_a_grid(log_density, low - (high - low), high + 0.6 * (high - low), 40_001)
    assert stats.kstest(draws, cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("law", [law for law in LAWS if np.isfinite(law[1])])
def test_tilted_integrals(law):
    """Against a rule with very many points around the mode."""
    count, log_exposure, mean, variance = law

    def height(x: np.ndarray) -> np.ndarray:
        normal_part = -((x - mean) ** 2) / (2 * variance) - np.log(2 * np.pi * variance) / 2
        return count * x - np.exp(x + log_exposure) + normal_part

    wide = mean + np.sqrt(variance) * np.linspace(-40.0, 40.0, 400_001)
    wide = wide[wide + log_exposure < 600.0]
    top = wide[height(wide).argmax()]
    x = np.linspace(top - 12 * np.sqrt(variance), top + 12 * np.sqrt(variance), 2_000_001)
    x = x[x + log_exposure < 600.0]
    value = np.log(np.exp(height(x) - height(x).max()).sum() * (x[1] - x[0])) + height(x).max()
    got = poisson_normal.log_rate_integral(*law)
    np.testing.assert_allclose(got, value, rtol=1e-10, atol=1e-9)


def test_splits_and_merges_leave_no_gaps():
    rng = np.random.default_rng(13)
    counts, offset = rng.poisson(2.0, 40), rng.normal(size=40)
    cluster, n, n_moved = rng.integers(0, 5, 40).astype(np.int32), 5, 0
    for sweep in range(400):
        n, moved = split_merge(
            KEY, sweep, 3, counts, offset, 1.5, Base(False, 0.2, 1.1), cluster, n
        )
        assert sorted(set(cluster.tolist())) == list(range(n))
        n_moved += moved
    assert n_moved > 30


@pytest.mark.statistical
def test_values_of_clusters_have_their_density():
    """Two clusters of three cells, and a mean that is not 0."""
    counts, offset = np.array([0, 4, 2]), np.array([0.3, 0.9, -0.5])
    cluster = np.array([0, 1, 0], np.int32)
    draws = np.empty((8_000, 2))
    for sweep, row in enumerate(draws):
        kernels.draw_values(KEY, sweep, counts, offset, cluster, Base(False, 0.7, 1.3), row)
    model = MixedEffects(fixed="none")
    for j in range(2):

        def log_density(x: float, j: int = j) -> float:
            values = np.zeros(2)
            values[j] = x
            return mixed.log_joint(
                model, np.empty((3, 0)), offset, counts, beta=np.empty(0), cluster=cluster,
                values=values, mean=0.7, variance=1.3,
            )  # fmt: skip

        cdf = mixed.law_on_a_grid(log_density, -8.0, 8.0)
        assert stats.kstest(draws[:, j], cdf).pvalue > FALSE_ALARM


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 9, 30])
def test_factor_and_solves(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n + 2))
    matrix = root @ root.T
    upper = np.triu(matrix).copy()
    half = cholesky.factor(upper)
    upper = np.triu(upper)
    np.testing.assert_allclose(upper.T @ upper, matrix, atol=1e-10)
    np.testing.assert_allclose(2 * half, np.linalg.slogdet(matrix)[1])
    vector = rng.normal(size=n)
    lower_solved, upper_solved = vector.copy(), vector.copy()
    cholesky.solve_lower(upper, lower_solved)
    cholesky.solve_upper(upper, upper_solved)
    np.testing.assert_allclose(upper.T @ lower_solved, vector, atol=1e-9)
    np.testing.assert_allclose(upper @ upper_solved, vector, atol=1e-9)
    assert np.isnan(cholesky.factor(-np.eye(n)))


def test_exponentials():
    x = np.concatenate((np.linspace(-690.0, 0.0, 20_001), np.linspace(-1.5, 0.0, 20_001)))
    ours = x + 3.0
    kernels.exponentials(ours, np.empty(len(x), np.int64), len(x))
    np.testing.assert_allclose(ours, np.exp(x), rtol=2e-15)
    far = np.array([-5000.0, 0.0, -np.inf, 7.0])
    kernels.exponentials(far, np.empty(3, np.int64), 3)
    np.testing.assert_allclose(far, [0.0, 1.0, 0.0, 7.0], atol=1e-300)


@pytest.mark.parametrize("fixed", ["none", "independence", "two-way"])
@pytest.mark.parametrize("intercept", [True, False])
def test_linear_and_information_are_those_of_the_dense_design(fixed, intercept):
    design, W, _, offset = a_grid(fixed, intercept)
    rng = np.random.default_rng(4)
    beta, weights = rng.normal(size=W.shape[1]), rng.random(len(W))
    out, matrix = np.empty(len(W)), np.zeros((len(beta), len(beta)))
    fixed_effects.linear(offset, design.starts, design.columns, beta, out)
    np.testing.assert_allclose(out, offset + W @ beta)
    fixed_effects.information(design.starts, design.columns, weights, matrix)
    np.testing.assert_allclose(matrix, np.triu(W.T @ (weights[:, None] * W)))
    np.testing.assert_allclose(design.gram, np.triu(W.T @ W))
    for a, column in enumerate(W.T):
        cells = design.column_cells[design.column_starts[a] : design.column_starts[a + 1]]
        assert cells.tolist() == np.flatnonzero(column).tolist()


@pytest.mark.parametrize("least", [0.0, 5.0, 1e9])
def test_joined_designs(least):
    """Columns with fewer records go into the offset; a cluster is a column of its own."""
    design, W, counts, offset = a_grid("independence", intercept=False)
    rng = np.random.default_rng(5)
    cluster = rng.integers(0, 3, len(W)).astype(np.int32)
    cluster[:3] = range(3)
    all_columns = np.hstack((W, np.eye(3)[cluster]))
    coefficients = rng.normal(size=all_columns.shape[1])
    cells = Cells(counts, offset, design.starts, design.columns)
    (_, rest, starts, columns), chosen = fixed_effects.joined(cells, cluster, coefficients, least)
    assert chosen.tolist() == np.flatnonzero(counts @ all_columns >= least).tolist()
    out = np.empty(len(W))
    fixed_effects.linear(rest, starts, columns, coefficients[chosen], out)
    np.testing.assert_allclose(out, offset + all_columns @ coefficients)


def test_climbing_ends_at_the_mode():
    design, W, counts, offset = a_grid()
    counts[:4] = 0
    mean, precision = np.zeros(W.shape[1]), np.full(W.shape[1], 0.1)
    mean[1] = 2.0
    mode = np.full(W.shape[1], 3.0)
    cells = Cells(counts, offset, design.starts, design.columns)
    fixed_effects.climb(cells, mode, Prior(mean, precision), np.zeros(len(mode)))
    slope = W.T @ (counts - np.exp(offset + W @ mode)) - precision * (mode - mean)
    np.testing.assert_allclose(slope, 0.0, atol=5e-3)
    away = mode.copy()
    noise = np.random.default_rng(6).normal(size=len(mode))
    fixed_effects.climb(cells, away, Prior(mean, precision), noise)
    metric = W.T @ (np.exp(offset + W @ mode)[:, None] * W) + np.diag(precision)
    np.testing.assert_allclose((away - mode) @ metric @ (away - mode), noise @ noise, rtol=0.01)


def naive_langevin(sweep, step, W, offset, counts, start, mean, precision):
    """SMMALA from its equations, with the kernel's random numbers."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, KEY, 0, sweep, PURPOSE_LANGEVIN)

    def geometry(b):
        rate = offset + W @ b
        density = (counts * rate - np.exp(rate)).sum() - 0.5 * precision @ (b - mean) ** 2
        gradient = W.T @ (counts - np.exp(rate)) - precision * (b - mean)
        return density, gradient, W.T @ (np.exp(rate)[:, None] * W) + np.diag(precision)

    def log_proposal(to, at):
        _, gradient, metric = geometry(at)
        away = to - at - step**2 / 2 * np.linalg.solve(metric, gradient)
        # Up to the powers of 2 pi and of the step, which are the same both ways.
        return np.linalg.slogdet(metric)[1] / 2 - away @ metric @ away / (2 * step**2)

    density, gradient, metric = geometry(start)
    xi = np.array([normal(generator) for _ in start])
    proposal = start + step**2 / 2 * np.linalg.solve(metric, gradient)
    proposal += step * np.linalg.solve(np.linalg.cholesky(metric).T, xi)
    ratio = geometry(proposal)[0] - density
    ratio += log_proposal(start, proposal) - log_proposal(proposal, start)
    accepted = np.log(uniform(generator)) < ratio
    return min(1.0, float(np.exp(ratio))), proposal if accepted else start


def test_langevin_is_that_of_the_equations():
    """Proposal, ratio and decision, over a walk of 40 steps with both outcomes."""
    design, W, counts, offset = a_grid()
    n = W.shape[1]
    rng = np.random.default_rng(7)
    mean, precision = rng.normal(size=n), np.exp(rng.normal(size=n))
    at, outcomes = np.zeros(n), []
    cells, prior = Cells(counts, offset, design.starts, design.columns), Prior(mean, precision)
    fixed_effects.climb(cells, at, prior, rng.normal(size=n))
    for sweep in range(40):
        before = at.copy()
        p = fixed_effects.langevin(KEY, sweep, 1.1, cells, at, prior)
        expected, there = naive_langevin(sweep, 1.1, W, offset, counts, before, mean, precision)
        np.testing.assert_allclose(p, expected, rtol=1e-8, atol=1e-12)
        np.testing.assert_allclose(at, there, rtol=1e-9)
        outcomes.append(bool((at != before).any()))
    assert 5 < sum(outcomes) < 40


def test_langevin_refuses_what_is_not_finite():
    """A proposal so far away that a rate is infinite leaves the effects where they are."""
    design, W, counts, offset = a_grid()
    at = np.zeros(W.shape[1])
    for sweep in range(20):
        cells = Cells(counts, offset, design.starts, design.columns)
        prior = Prior(np.zeros(len(at)), np.full(len(at), 0.1))
        p = fixed_effects.langevin(KEY, sweep, 1e6, cells, at, prior)
        assert p == 0.0
        assert (at == 0.0).all()


@pytest.mark.statistical
def test_coefficients_one_by_one():
    """The last of them given all others, by the joint density; log means follow."""
    design, W, counts, offset = a_grid("independence")
    counts[W[:, -1] > 0] = 0
    model = MixedEffects(random="none", effect_variance=3.0)
    draws, first = np.empty((4_000, W.shape[1])), np.linspace(-0.5, 0.5, W.shape[1])
    for sweep, row in enumerate(draws):
        row[:] = first
        log_mean = offset + W @ row
        fixed_effects.draw_coefficients(
            KEY, sweep, counts, log_mean, design.column_starts, design.column_cells, 3.0, row
        )
        np.testing.assert_allclose(log_mean, offset + W @ row, atol=1e-10)
    # Each draw has its own conditional law: their places in it are uniform.
    places = []
    for row in draws[:120]:

        def log_density(x: float, row: Any = row) -> float:
            return mixed.log_joint(model, W, offset, counts, beta=np.append(row[:-1], x))

        places.append(mixed.law_on_a_grid(log_density, -16.0, 6.0, 301)(row[-1]))
    assert stats.kstest(places, "uniform").pvalue > FALSE_ALARM
    # The first one's conditional is the same every time.

    def first_log_density(x: float) -> float:
        return mixed.log_joint(model, W, offset, counts, beta=np.append(x, first[1:]))

    cdf = mixed.law_on_a_grid(first_log_density, -4.0, 4.0)
    assert stats.kstest(draws[:, 0], cdf).pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_recentring_is_the_regression_of_the_log_means():
    """Mean and covariance of beta given W beta + phi, and those log means kept."""
    design, W, _, _ = a_grid("independence")
    rng = np.random.default_rng(8)
    beta, phi = rng.normal(size=W.shape[1]), rng.normal(size=len(W))
    draws = np.empty((20_000, len(beta)))
    for sweep, row in enumerate(draws):
        row[:], effects = beta, phi.copy()
        kernels.recentre(
            KEY, sweep, design.starts, design.columns, design.gram, 0.7, 5.0, effects, row
        )
        np.testing.assert_allclose(W @ row + effects, W @ beta + phi, atol=1e-10)
    precision = W.T @ W / 0.7 + np.eye(len(beta)) / 5.0
    mean = np.linalg.solve(precision, W.T @ (W @ beta + phi) / 0.7)
    standard = (draws - mean) @ np.linalg.cholesky(precision)
    for column in standard.T:
        assert stats.kstest(column, "norm").pvalue > FALSE_ALARM
    correlation = np.corrcoef(standard.T)[np.triu_indices(len(beta), 1)]
    z = np.abs(correlation) * np.sqrt(len(draws))
    assert 2 * stats.norm.sf(z.max()) * len(z) > FALSE_ALARM


@pytest.mark.statistical
def test_rescaling_keeps_the_law_of_the_scale():
    """log sigma given phi / sigma from the joint density: 2,000 chains of 8 moves."""
    counts, offset = np.array([0, 2, 5, 1]), np.array([0.4, 0.1, -0.2, 0.9])
    u = np.array([-0.8, 0.3, 1.4, -0.1])
    model = MixedEffects(random="normal", fixed="none", variance_shape=2.5, variance_scale=1.5)

    def log_density(log_scale: float) -> float:
        scale = np.exp(log_scale)
        value = mixed.log_joint(
            model, np.empty((4, 0)), offset, counts, beta=np.empty(0), phi=u * scale,
            variance=scale**2,
        )  # fmt: skip
        # phi = u sigma and sigma^2 = e^(2 log sigma): their Jacobians.
        return value + 4 * log_scale + 2 * log_scale

    cdf = mixed.law_on_a_grid(log_density, -4.0, 2.6)
    x = np.linspace(-4.0, 2.6, 4001)
    ends = []
    starts = np.interp(np.random.default_rng(9).random(3_000), cdf(x), x)
    for run, start in enumerate(starts):
        variance, effects = float(np.exp(2 * start)), u * np.exp(start)
        for sweep in range(8):
            variance = kernels.rescale(
                KEY, 8 * run + sweep, counts, offset, variance, 2.5, 1.5, effects
            )
        np.testing.assert_allclose(effects, u * np.sqrt(variance))
        ends.append(0.5 * np.log(variance))
    assert np.mean(np.array(ends) != starts) > 0.95
    assert stats.kstest(ends, cdf).pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_hyperparameters_have_their_conditionals():
    """alpha, sigma^2 by the joint density; m by repeating its two-stage draw."""
    values, cluster = np.array([0.5, 2.0, -0.3]), np.array([0, 1, 1, 2, 0], np.int32)
    model = MixedEffects(
        mean="unknown", mean_variance=2.0, variance_shape=1.5, variance_scale=0.8, mass_shape=2.0,
        mass_rate=0.6, fixed="none",
    )  # fmt: skip
    zeros = np.zeros(5)

    def density(**unknown: float) -> float:
        given = {"variance": 0.9, "mean": 0.4, "mass": 1.2} | unknown
        return mixed.log_joint(
            model, np.empty((5, 0)), zeros, zeros, beta=np.empty(0), cluster=cluster,
            values=values, **given,
        )  # fmt: skip

    n = 20_000
    means = [kernels.draw_mean(KEY, s, values, 0.9, 2.0) for s in range(n)]
    cdf = mixed.law_on_a_grid(lambda x: density(mean=x), -6.0, 6.0)
    assert stats.kstest(means, cdf).pvalue > FALSE_ALARM
    variances = [kernels.draw_variance(KEY, s, values, 0.4, 1.5, 0.8) for s in range(n)]
    cdf = mixed.law_on_a_grid(lambda x: density(variance=np.exp(x)) + x, -4.0, 8.0)
    assert stats.kstest(np.log(variances), cdf).pvalue > FALSE_ALARM
    cdf = mixed.law_on_a_grid(lambda x: density(mass=np.exp(x)) + x, -9.0, 4.0)
    masses = []
    for run in range(6_000):
        mass = 1.0
        for sweep in range(12):
            mass = kernels.draw_mass(KEY, 12 * run + sweep, mass, 3, 5, 2.0, 0.6)
        masses.append(mass)
    assert stats.kstest(np.log(masses), cdf).pvalue > FALSE_ALARM


def test_clusters_stay_numbered_without_gaps():
    rng = np.random.default_rng(10)
    counts, offset = rng.poisson(2.0, 60), rng.normal(size=60)
    cluster, values, base = np.zeros(60, np.int32), np.zeros(1), Base(False, 0.3, 1.5)
    seen = set()
    for sweep in range(200):
        before = {int(c): float(v) for c, v in enumerate(values)}
        values = kernels.allocate(KEY, sweep, counts, offset, 2.0, base, cluster, values)
        assert sorted(set(cluster.tolist())) == list(range(len(values)))
        assert len(set(values.tolist())) == len(values)
        assert len(set(values.tolist()) & set(before.values())) > 0
        seen.add(len(values))
    assert len(seen) > 4


@pytest.mark.statistical
def test_records_are_completed_in_proportion():
    """Every pattern over its possible completions: chi-square; the known keys stay."""
    rng = np.random.default_rng(12)
    all_cells = np.array(list(itertools.product(*map(range, LEVELS))))
    index = np.full(12, -1, np.int32)
    listed = np.array([0, 1, 3, 4, 6, 7, 8, 10, 11])
    index[listed] = np.arange(len(listed))
    mean = rng.random(len(listed))
    patterns = np.array([[-1, 1, 0], [0, -1, -1], [-1, -1, -1], [1, 1, -1]], np.int32)
    times = np.array([3_000, 0, 5_000, 2_000])
    rows = np.full(times.sum(), -1, np.int64)
    levels, strides = np.array(LEVELS), np.array([6, 2, 1])
    complete(KEY, 1, 48, patterns, times, levels, strides, index, mean, rows)
    for pattern, part in zip(patterns, np.split(rows, np.cumsum(times)[:-1]), strict=True):
        cells = all_cells[listed]
        agree = ((cells == pattern) | (pattern < 0)).all(axis=1)
        observed = np.bincount(part, minlength=len(listed))
        assert observed[~agree].sum() == 0
        if agree.sum() > 1 and len(part):
            expected = len(part) * mean[agree] / mean[agree].sum()
            assert stats.chisquare(observed[agree], expected).pvalue > FALSE_ALARM
