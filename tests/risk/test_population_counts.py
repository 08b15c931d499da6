"""Median and mode of F against the mixture of binomials that the draws are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unikat.risk.population_counts import add_to_histogram, summarise_counts


def histogram_of(draws: np.ndarray, unobserved: float, n_bins: int = 64) -> np.ndarray:
    """Add draws of x, (n_draws, n_cells)."""
    histogram = np.zeros((draws.shape[1], n_bins), np.int32)
    for means in draws:
        add_to_histogram(histogram, means, unobserved)
    return histogram


@pytest.mark.parametrize("unobserved", [7, 60, 1_000, 60_000])
@pytest.mark.parametrize("spread", [0.1, 0.5, 1.2])
def test_median_and_mode_are_those_of_the_mixture(unobserved, spread):
    """The median within a bin of x or one unit; the mode about as probable as the best F."""
    rng = np.random.default_rng(3)
    centre = np.array([0.05, 0.7, 3.0, 30.0, 300.0, 1_500.0])
    centre = centre[centre * np.exp(3.0 * spread) < unobserved]
    counts = np.arange(1.0, len(centre) + 1.0)
    z = np.clip(rng.standard_normal((4_000, len(centre))), -3.0, 3.0)
    draws = centre * np.exp(spread * z)
    found = summarise_counts(histogram_of(draws, unobserved), counts, unobserved)
    k = np.arange(min(unobserved, 10_000) + 1)
    width = np.log1p(unobserved) / 64
    z = np.linspace(-3.0, 3.0, 151)
    weight = stats.norm.pdf(z) / stats.norm.pdf(z).sum()
    for c, f in enumerate(counts):
        x = centre[c] * np.exp(spread * z)
        pmf = weight @ stats.binom.pmf(k, unobserved, x[:, None] / unobserved)
        middle = f + np.argmax(np.cumsum(pmf) >= 0.5)
        assert abs(found.median[c] - middle) <= max(1.0, width * middle)
        mode = int(found.mode[c] - f)
        # Of a law that is narrower than a bin the mode is known to a bin.
        near = abs(np.log((1.0 + mode) / (1.0 + np.argmax(pmf)))) <= width
        assert near or pmf[mode] >= 0.8 * pmf.max()
        assert found.median[c] == int(found.median[c]) >= f
        assert found.mode[c] == int(found.mode[c]) >= f


def test_cells_without_draws_are_not_known():
    found = summarise_counts(np.zeros((2, 16), np.int32), np.ones(2), 100.0)
    assert np.isnan(found).all()


def test_in_a_census_f_is_known():
    histogram = np.zeros((2, 16), np.int32)
    add_to_histogram(histogram, np.zeros(2), 0.0)
    found = summarise_counts(histogram, np.array([1.0, 3.0]), 0.0)
    np.testing.assert_array_equal(found, [[1.0, 3.0], [1.0, 3.0]])


def test_expected_units_beyond_the_population_are_taken_for_all_of_it():
    found = summarise_counts(histogram_of(np.array([[500.0]] * 9), 100.0), np.ones(1), 100.0)
    assert 95.0 <= found.median[0] <= 101.0
