"""The learned prior of the profiles against exact laws: tables opened, concentration, base."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import naive
from unikat.kernels import profiles as kernels
from unikat.kernels.random import GENERATOR_SIZE, PURPOSE_LEARN, seek
from unikat.rng import chain_key

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-6
"""Of each assertion on a p-value; about 40 of them."""
KEY = chain_key(6, 0)


def opened(mass: float, size: int, n: int) -> np.ndarray:
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, KEY, size, 1, PURPOSE_LEARN)
    return np.array([kernels.opened_tables(generator, mass, float(size)) for _ in range(n)])


@pytest.mark.parametrize("mass", [1e-300, 1e-6, 0.03, 0.5, 1.0, 4.0, 70.0, 1e5])
@pytest.mark.parametrize("size", [1, 2, 3, 9, 50])
def test_opened_tables_have_their_law(mass, size):
    """Antoniak's law of the number of tables, by Stirling numbers (chi-square)."""
    n = 6000
    law = naive.table_law(size, mass)
    count = np.bincount(opened(mass, size, n), minlength=size + 1)
    assert len(count) == size + 1
    assert count[0] == 0
    common = law * n >= 8.0
    observed = np.append(count[common], count[~common].sum())
    expected = np.append(law[common], law[~common].sum()) * n
    if expected[-1] < 8.0:
        # Too few for the chi-square: their number is Poisson.
        assert stats.poisson.sf(observed[-1] - 1, expected[-1]) > FALSE_ALARM
        observed, expected = observed[:-1], expected[:-1] * observed[:-1].sum() / n
        expected *= observed.sum() / expected.sum()
    if len(observed) > 1:
        assert stats.chisquare(observed, expected).pvalue > FALSE_ALARM


@pytest.mark.parametrize("mass", [1e-3, 0.2, 30.0])
def test_opened_tables_of_many_tokens(mass):
    """Mean and variance for 100,000 tokens are those of independent openings (z, chi-square)."""
    n, size = 2000, 100_000
    p = mass / (mass + np.arange(size))
    drawn = opened(mass, size, n)
    z = (drawn.mean() - p.sum()) / np.sqrt((p * (1 - p)).sum() / n)
    assert 2 * stats.norm.sf(abs(z)) > FALSE_ALARM
    if mass > 1.0:
        ratio = drawn.var(ddof=1) / (p * (1 - p)).sum() * (n - 1)
        assert 2 * min(stats.chi2.cdf(ratio, n - 1), stats.chi2.sf(ratio, n - 1)) > FALSE_ALARM


OFFSETS = np.array([0, 2, 5], np.int64)
COUNTS = np.array([[3, 0, 1, 9, 0], [2, 0, 0, 1, 0], [1, 0, 1, 0, 0], [4, 0, 0, 3, 0], [0] * 5])
SHAPE, RATE = np.array([2.0, 0.7]), np.array([0.8, 0.3])


def log_evidence(c: np.ndarray, b: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Log probability of one key's tokens under Dirichlet(c b) profiles; b (levels, ...)."""
    value = np.zeros(np.broadcast(c, b[0]).shape)
    for n in counts.T:
        value += gammaln(c) - gammaln(c + n.sum())
        for share, m in zip(b, n, strict=True):
            value += gammaln(c * share + m) - gammaln(c * share)
    return value


def ranks(drawn: np.ndarray, grid: np.ndarray, mass: np.ndarray) -> np.ndarray:
    below = np.cumsum(mass)
    return np.interp(drawn, grid, below / below[-1])


def updates(start: np.ndarray, concentration: bool, base: bool, n_updates: int = 1) -> np.ndarray:
    """Profiles after updates from each start, (n, n_rows)."""
    after = start.copy()
    for run, profile in enumerate(after):
        for update in range(n_updates):
            kernels.draw_prior(
                KEY, 100 * run + update, OFFSETS, COUNTS, SHAPE, RATE, concentration, base, profile
            )
    return after


def starts(rng: np.random.Generator, n: int, concentration: bool, base: bool) -> np.ndarray:
    """Draw (c, b) of key 0, which has two levels, from the posterior on a grid.

    Key 1 starts anywhere.
    """
    c, b = np.exp(np.linspace(-10, 5, 500)), (np.arange(400) + 0.5) / 400
    log_mass = log_evidence(c[:, None], np.array([b, 1 - b])[:, None, :], COUNTS[:2])
    log_mass += (SHAPE[0] * np.log(c) - RATE[0] * c)[:, None]
    if not concentration:
        log_mass = np.where(np.arange(500)[:, None] == 340, log_mass, -np.inf)
    if not base:
        log_mass = np.where(np.arange(400) == 130, log_mass, -np.inf)
    mass = np.exp(log_mass - log_mass.max()).ravel()
    at = np.searchsorted(np.cumsum(mass), rng.random(n) * mass.sum())
    drawn_c, drawn_b = c[at // 400], b[at % 400]
    # Off the grid's points, where the density is as good as flat.
    drawn_c = drawn_c * np.exp((rng.random(n) - 0.5) * 15 / 499) if concentration else drawn_c
    drawn_b = drawn_b + (rng.random(n) - 0.5) / 400 if base else drawn_b
    key0 = drawn_c * np.array([drawn_b, 1 - drawn_b])
    return np.column_stack((key0.T, np.full((n, 3), 0.4)))


@pytest.mark.parametrize(("concentration", "base"), [(True, True), (True, False), (False, True)])
def test_prior_of_the_profiles_has_its_posterior(concentration, base):
    """c and b of a key by quadrature: updates stay at exact draws, and arrive from afar.

    Kolmogorov-Smirnov tests of c, of b, and of c where b is above its median.
    """
    c, b = np.exp(np.linspace(-12, 6, 1500)), (np.arange(800) + 0.5) / 800
    rng = np.random.default_rng(3)
    start = starts(rng, 6000, concentration, base)
    far = np.tile([50.0, 0.5, 0.01, 0.01, 8.0], (1500, 1))
    fixed_c, fixed_b = start[0, :2].sum(), start[0, 0] / start[0, :2].sum()
    if not concentration:
        far[:, :2] *= fixed_c / far[0, :2].sum()
    if not base:
        far[:, :2] = far[0, :2].sum() * np.array([fixed_b, 1 - fixed_b])
    log_mass = log_evidence(
        c[:, None] if concentration else np.array([[fixed_c]]),
        np.array([b, 1 - b])[:, None, :] if base else np.array([[[fixed_b]], [[1 - fixed_b]]]),
        COUNTS[:2],
    )
    if concentration:
        log_mass += (SHAPE[0] * np.log(c) - RATE[0] * c)[:, None]
    mass = np.exp(log_mass - log_mass.max())
    for profile in (
        updates(start, concentration, base),
        updates(far, concentration, base, n_updates=60),
    ):
        drawn_c = profile[:, :2].sum(axis=1)
        drawn_b = profile[:, 0] / drawn_c
        if concentration:
            assert stats.kstest(ranks(drawn_c, c, mass.sum(axis=1)), "uniform").pvalue > FALSE_ALARM
        else:
            np.testing.assert_allclose(drawn_c, fixed_c, rtol=1e-12)
        if base:
            assert stats.kstest(ranks(drawn_b, b, mass.sum(axis=0)), "uniform").pvalue > FALSE_ALARM
        else:
            np.testing.assert_allclose(drawn_b, fixed_b, rtol=1e-12)
        if concentration and base:
            half = len(b) // 2
            given = ranks(drawn_c[drawn_b > 0.5], c, mass[:, half:].sum(axis=1))
            assert stats.kstest(given, "uniform").pvalue > FALSE_ALARM


def test_prior_of_the_second_key():
    """Concentration of a key with three levels and a rate of its own, from afar; b stays."""
    b = np.array([0.2, 0.5, 0.3])
    start = np.tile(np.concatenate(([1.0, 1.0], 40.0 * b)), (4000, 1))
    after = updates(start, True, False, n_updates=60)
    np.testing.assert_allclose(after[:, 2:] / after[:, 2:].sum(axis=1, keepdims=True), b[None] *
                               np.ones((4000, 1)), rtol=1e-12)  # fmt: skip
    c = np.exp(np.linspace(-25, 6, 4000))
    log_mass = log_evidence(c, b[:, None], COUNTS[2:]) + SHAPE[1] * np.log(c) - RATE[1] * c
    mass = np.exp(log_mass - log_mass.max())
    drawn = ranks(after[:, 2:].sum(axis=1), c, mass)
    assert stats.kstest(drawn, "uniform").pvalue > FALSE_ALARM


def test_a_key_without_tokens_has_its_prior():
    """Nothing known of a key: c ~ Gamma, b ~ Dirichlet(1)."""
    profile = np.tile([1.0, 2.0, 0.1, 0.1, 0.1], (3000, 1))
    for run, row in enumerate(profile):
        kernels.draw_prior(
            KEY, run, OFFSETS, np.zeros((5, 8), np.int64), SHAPE, RATE, True, True, row
        )
    for first, last, shape, rate in ((0, 2, SHAPE[0], RATE[0]), (2, 5, SHAPE[1], RATE[1])):
        c = profile[:, first:last].sum(axis=1)
        assert stats.kstest(c, stats.gamma(shape, scale=1 / rate).cdf).pvalue > FALSE_ALARM
        law = stats.beta(1, last - first - 1)
        assert stats.kstest(profile[:, first] / c, law.cdf).pvalue > FALSE_ALARM
