"""Rates that vary around a model, against integrals over the gamma effect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.kernels import overdispersion as kernels
from unikat.rng import chain_key

FALSE_ALARM = 1e-6
"""Of every p-value; 32 of them, so 3e-5 for the module."""
N = 20_000
KEY = chain_key(7, 1)
POPULATION = 50_000.0
GRID_K = (0.005, 0.1, 0.7, 2.0, 20.0)


def rates(p, counts, k, *, factor=1.0, n_records=1000.0, sweep=3, key=KEY):
    p, counts = np.asarray(p, float), np.asarray(counts, float)
    out = np.full(len(p), np.nan)
    looked_at, population = np.full(len(p), n_records), np.full(len(p), POPULATION)
    kernels.draw_rates(key, sweep, p, counts, looked_at, population, k, factor, out)
    return out


def indices(cumulative, n=N, key=KEY):
    cumulative = np.asarray(cumulative, float)
    return np.array([kernels.draw_pair(key, sweep, cumulative) for sweep in range(n)])


# --- draws of the rates -----------------------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("count", [1, 4])
@pytest.mark.parametrize("k", GRID_K)
def test_rates_have_their_posterior(k, count):
    """KS test against the prior times a Poisson likelihood, and z tests of mean and variance."""
    p, factor, n_records = 0.0015, 0.8, 1000.0
    drawn = rates(np.full(N, p), np.full(N, count), k, factor=factor) / (factor * p)
    spread = naive.cell_overdispersion(k, POPULATION * factor * p)
    g, weights = naive.effect_law(spread, [(count, n_records * factor * p)])
    cumulative = np.cumsum(weights)
    assert stats.kstest(drawn, lambda x: np.interp(x, g, cumulative)).pvalue > FALSE_ALARM
    mean = float(weights @ g)
    centred = [float(weights @ (g - mean) ** power) for power in (2, 4)]
    z = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(drawn.mean() - mean) < z * math.sqrt(centred[0] / N)
    error = math.sqrt((centred[1] - centred[0] ** 2) / N)
    assert abs(((drawn - mean) ** 2).mean() - centred[0]) < z * error
    # Cells, and sweeps of one cell, are independent of each other.
    assert stats.pearsonr(drawn[:-1], drawn[1:]).pvalue > FALSE_ALARM
    later = rates(np.full(N, p), np.full(N, count), k, factor=factor, sweep=4)
    assert stats.pearsonr(drawn, later).pvalue > FALSE_ALARM


@pytest.mark.parametrize("k", GRID_K)
@pytest.mark.parametrize("factor", [0.5, 1.0, 1.6])
def test_rates_of_empty_cells_are_means(k, factor):
    """Given no record of n, by integration; relative error 1e-9."""
    p = np.array([1e-9, 1e-4, 0.002, 0.05])
    found = rates(p, np.zeros(4), k, factor=factor)
    for one, value in zip(p, found, strict=True):
        spread = naive.cell_overdispersion(k, POPULATION * factor * one)
        g, weights = naive.effect_law(spread, [(0, 1000.0 * factor * one)])
        assert math.isclose(value, factor * one * float(weights @ g), rel_tol=1e-9)
    # Chance has no part in it.
    np.testing.assert_array_equal(found, rates(p, np.zeros(4), k, factor=factor, sweep=9))


def test_small_overdispersion_is_nearly_none():
    """Their standard deviation is at most 1e-4 of themselves: 6 of these."""
    p = np.full(200, 0.001)
    np.testing.assert_allclose(rates(p, np.ones(200), 1e-8), p, rtol=6e-4)


def test_rates_are_probabilities():
    drawn = rates(np.full(2000, 0.9), np.ones(2000), 2.0, factor=3.0, n_records=1.0)
    assert drawn.max() == 1.0
    assert 0.0 < drawn.min() < 1.0
    assert rates([0.9], [0.0], 1e-9, factor=3.0, n_records=1.0).tolist() == [1.0]
    assert rates([0.0, 0.0], [0.0, 1.0], 0.5).tolist() == [0.0, 0.0]


def test_rates_depend_on_their_address_alone():
    """On chain, sweep and position: not on how many cells there are, nor on the other cells."""
    p, counts = np.linspace(1e-4, 0.01, 50), np.tile([1.0, 0.0, 2.0, 5.0, 1.0], 10)
    drawn = rates(p, counts, 0.4)
    np.testing.assert_array_equal(drawn, rates(p, counts, 0.4))
    np.testing.assert_array_equal(drawn[:7], rates(p[:7], counts[:7], 0.4))
    others = counts.copy()
    others[:20] = 0.0
    np.testing.assert_array_equal(drawn[20:], rates(p, others, 0.4)[20:])
    seen = counts > 0
    assert (drawn != rates(p, counts, 0.4, sweep=4))[seen].all()
    assert (drawn != rates(p, counts, 0.4, key=chain_key(7, 2)))[seen].all()
    assert (drawn != rates(p, counts, 0.4, key=chain_key(8, 1)))[seen].all()


# --- draws of overdispersion and shift --------------------------------------------------------


@pytest.mark.statistical
@pytest.mark.parametrize("unit", [1.0, 250.0])
def test_pairs_have_their_weights(unit):
    """Chi-square over sweeps; what has no weight is never drawn, at either end or between."""
    weights = np.array([0.0, 0.4, 0.1, 0.0, 0.3, 0.15, 0.05, 0.0])
    found = np.bincount(indices(np.cumsum(unit * weights)), minlength=len(weights))
    assert len(found) == len(weights)
    positive = weights > 0
    assert found[~positive].sum() == 0
    assert stats.chisquare(found[positive], N * weights[positive]).pvalue > FALSE_ALARM


def test_pairs_depend_on_their_address_alone():
    cumulative = np.cumsum(np.ones(500))
    drawn = indices(cumulative, 50)
    np.testing.assert_array_equal(drawn, indices(cumulative, 50))
    assert (drawn != indices(cumulative, 50, chain_key(7, 2))).mean() > 0.9
    assert indices([3.0], 5).tolist() == [0] * 5


# --- what rare cells tell ---------------------------------------------------------------------


def in_bins(values, lowest=-14.0, width=0.02, n_bins=1100):
    """Draws (n_cells, n_draws) as counts by fine bins, and the middle of each bin."""
    out = np.zeros((len(values), n_bins), np.int32)
    for draw in values.T:
        kernels.add_to_bins(np.ascontiguousarray(draw), lowest, width, out)
    return out, np.exp(lowest + width * (np.arange(n_bins) + 0.5))


def test_draws_are_counted_in_their_bins():
    out = np.zeros((4, 3), np.int32)
    kernels.add_to_bins(np.exp([-9.0, 0.4, 1.9, 9.0]), 0.0, 1.0, out)
    kernels.add_to_bins(np.exp([0.1, 1.4, 1.1, 2.5]), 0.0, 1.0, out)
    assert out.tolist() == [[2, 0, 0], [1, 1, 0], [0, 2, 0], [0, 0, 2]]
    # No probability at all is in the first bin.
    kernels.add_to_bins(np.zeros(4), 0.0, 1.0, out)
    assert out[:, 0].tolist() == [3, 2, 1, 1]


def test_means_without_the_own_records_are_those_of_the_conjugate_law():
    """Gamma(a, b) before the cell's f records of n, Gamma(a + f, b + n) after: back to a / b."""
    rng = np.random.default_rng(4)
    n, a, b = 500.0, 6.0, 20_000.0
    for times in (1, 2, 3):
        after = rng.gamma(a + times, 1.0 / (b + n), (1, 40_000))
        draws, expected = in_bins(POPULATION * after)
        found = kernels.means_without(draws, expected, float(times), np.array([n / POPULATION]))
        assert found[0] == pytest.approx(POPULATION * a / b, rel=0.03)
        # The planted bug: draws that still know the cell's own records.
        assert after.mean() * POPULATION > 1.1 * POPULATION * a / b


@pytest.mark.slow
def test_repeats_have_the_law_without_the_own_records():
    """Against sums of SciPy's negative binomial over the draws, every k and d."""
    rng = np.random.default_rng(2)
    n = 400.0
    p = rng.lognormal(-9.0, 1.0, (3, 60))
    draws, expected = in_bins(POPULATION * p, width=0.001, n_bins=30_000)
    k, shifts = np.array(GRID_K), np.array([-1.1, 0.0, 0.4])
    counts = np.array([1, 2, 3])
    out, fraction = np.empty((3, len(GRID_K), 3)), np.full(3, n / POPULATION)
    kernels.repeat_likelihood(draws, expected, counts, fraction, k, shifts, out)
    for i, m, s in np.ndindex(*out.shape):
        twin = naive.repeat_probability(int(counts[i]), p[i], n, POPULATION, k[m], shifts[s])
        assert math.exp(out[i, m, s]) == pytest.approx(twin, rel=2e-3), (i, m, s)
    # Of one cell the three probabilities add up to 1, where draws have one weight.
    single, at = in_bins(np.full((3, 1), POPULATION * 1e-4))
    kernels.repeat_likelihood(single, at, counts, fraction, k, shifts, out)
    np.testing.assert_allclose(np.exp(out).sum(axis=0), 1.0, rtol=1e-12)
