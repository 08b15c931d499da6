from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.models.calibrated import OVERDISPERSION, SHIFTS
from unikat.studies import calibrate
from unikat.studies.calibrate import EXPERIENCE, Experience, posterior, prior, quantiles

LOG_K = np.log(OVERDISPERSION)
SHAPE = (len(OVERDISPERSION), len(SHIFTS))


def moments(weights, values):
    mean = float(weights @ values) / weights.sum()
    return mean, math.sqrt(float(weights @ (values - mean) ** 2) / weights.sum())


@pytest.mark.parametrize("n_keys", [2, 5, 8, 15, 40])
def test_the_prior_is_a_distribution(n_keys):
    weights = prior(n_keys)
    assert weights.shape == SHAPE
    assert (weights >= 0.0).all()
    np.testing.assert_allclose(weights.sum(), 1.0)


@pytest.mark.parametrize("n_keys", [3, 8, 12])
def test_the_prior_has_the_moments_of_experience(n_keys):
    """Far from the ends of the grids: to 0.01 (log k) and 0.005 (d)."""
    experience = Experience(
        centre=-2.0, slope=1.3, deviation=0.4, shift=0.07, ridge=-0.05, shift_deviation=0.09
    )
    weights = prior(n_keys, experience)
    # Fewer than four and more than ten keys were not learned from.
    centre = -2.0 + 1.3 * math.log(min(max(n_keys, 4), 10) / 8.0)
    mean, deviation = moments(weights.sum(axis=1), LOG_K)
    assert mean == pytest.approx(centre, abs=0.01)
    assert deviation == pytest.approx(0.4, abs=0.01)
    for index in (6, 12, 18):
        mean, deviation = moments(weights[index], SHIFTS)
        assert mean == pytest.approx(0.07 - 0.05 * (LOG_K[index] - centre), abs=0.005)
        assert deviation == pytest.approx(0.09, abs=0.005)


def test_shifts_count_by_the_width_they_stand_for():
    """A wide prior reaches where the grid is coarse; its density is normal there too."""
    experience = Experience(
        centre=-2.0, slope=0.0, deviation=0.5, shift=0.0, ridge=0.0, shift_deviation=0.5
    )
    of_d = prior(8, experience).sum(axis=0)
    inner = np.flatnonzero(np.abs(SHIFTS) < 1.0)
    density = of_d[inner] / ((SHIFTS[inner + 1] - SHIFTS[inner - 1]) / 2.0)
    expected = np.exp(-0.5 * (SHIFTS[inner] / 0.5) ** 2)
    np.testing.assert_allclose(density / density.max(), expected, rtol=1e-12)


def test_the_prior_that_is_used():
    """Normal on the grid, which ends where few populations are."""
    weights = prior(8)
    law = stats.norm(EXPERIENCE.centre, EXPERIENCE.deviation)
    mean, deviation = moments(weights.sum(axis=1), LOG_K)
    expected = moments(law.pdf(LOG_K), LOG_K)
    assert (mean, deviation) == pytest.approx(expected, abs=1e-9)
    assert law.sf(LOG_K[-1]) < 0.05
    more, fewer = (moments(prior(n).sum(axis=1), LOG_K)[0] for n in (12, 4))
    assert fewer < mean < more


@pytest.mark.parametrize("level", [0.0, -500.0])
def test_matches_that_tell_nothing_leave_the_prior(level):
    np.testing.assert_allclose(posterior(prior(6), np.full(SHAPE, level)), prior(6), rtol=1e-12)


def test_the_posterior_pair_by_pair():
    """Against sums from the definition, on a part of the grid of k: to 1e-10."""
    rng = np.random.default_rng(1)
    matches = -3.0 * rng.exponential(size=SHAPE)
    matches -= matches.max()
    settings = (calibrate.LAG, calibrate.SPREAD_K, calibrate.SPREAD_D, calibrate.POWER)
    for weights in (prior(7), np.full(SHAPE, 1.0 / math.prod(SHAPE))):
        twin = naive.error_posterior(weights, np.exp(matches), LOG_K, SHIFTS, settings)
        found = posterior(weights, matches)
        np.testing.assert_allclose(found, twin, rtol=1e-10)
        # A constant of the likelihood has no influence.
        np.testing.assert_allclose(posterior(weights, matches - 900.0), found, rtol=1e-10)


def sharp(index, shift, sharpness=200.0):
    """Log-likelihood with its peak at one pair."""
    away = (LOG_K - LOG_K[index])[:, None] ** 2 + 25.0 * (SHIFTS - SHIFTS[shift])[None, :] ** 2
    return -sharpness * away


def test_matches_move_what_is_known():
    """Towards the likelihood, in both directions and for both parameters."""
    low, high = 4, len(LOG_K) - 3
    left, right = (int(np.searchsorted(SHIFTS, d)) for d in (-0.25, 0.15))
    found = {}
    for index in (low, high):
        for shift in (left, right):
            weights = posterior(prior(8), sharp(index, shift))
            assert weights.sum() == pytest.approx(1.0)
            of_k, of_d = weights.sum(axis=1), weights.sum(axis=0)
            found[index, shift] = (moments(of_k, LOG_K)[0], moments(of_d, SHIFTS)[0])
    for shift in (left, right):
        assert found[high, shift][0] - found[low, shift][0] > 0.2
    for index in (low, high):
        assert found[index, right][1] - found[index, left][1] > 0.1


def test_the_whole_sample_is_more_overdispersed_than_its_half(monkeypatch):
    """By LAG in log k, to half a step of the grid; d stays where it is."""
    monkeypatch.setattr(calibrate, "SPREAD_K", 0.4)
    weights = posterior(np.ones(SHAPE), sharp(10, 9))
    step = LOG_K[1] - LOG_K[0]
    peak = LOG_K[int(np.argmax(weights.sum(axis=1)))]
    assert abs(peak - (LOG_K[10] + calibrate.LAG)) <= step / 2 + 1e-9
    assert peak > LOG_K[10]
    assert int(np.argmax(weights.sum(axis=0))) == 9


def test_a_part_of_the_likelihood_counts(monkeypatch):
    """With the power 1 the posterior is narrower than with POWER."""
    matches = sharp(12, 12, sharpness=1.0)
    narrow = []
    for power in (calibrate.POWER, 1.0):
        monkeypatch.setattr(calibrate, "POWER", power)
        narrow.append(moments(posterior(np.ones(SHAPE), matches).sum(axis=1), LOG_K)[1])
    assert narrow[1] < narrow[0]


def test_quantiles():
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert quantiles(np.array([1.0, 1.0, 1.0, 1.0]), values, 0.4) == (2.0, 2.0, 3.0)
    # In any unit, and where there is no weight nothing is found.
    assert quantiles(np.array([0.0, 0.0, 7.0, 0.0]), values, 0.95) == (3.0, 3.0, 3.0)
    lower, middle, upper = quantiles(np.array([2.0, 90.0, 5.0, 3.0]), values, 0.95)
    assert (lower, middle, upper) == (2.0, 2.0, 4.0)
    for level in (0.5, 0.9, 0.95, 0.999):
        lower, middle, upper = quantiles(prior(5).sum(axis=1), OVERDISPERSION, level)
        assert lower < middle < upper
        inside = slice(*np.searchsorted(OVERDISPERSION, (lower, np.nextafter(upper, 9.0))))
        assert prior(5).sum(axis=1)[inside].sum() >= level - 1e-12
