"""Alias tables, concentrations, tables, component weights and profiles against their laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.kernels import weights as kernels
from unikat.models import mixed_membership
from unikat.rng import chain_key

FALSE_ALARM = 1e-6
"""Of each assertion on a p-value."""
KEY = chain_key(4, 0)


@pytest.mark.parametrize("n_slots", [1, 3, 8, 64, 1000])
def test_alias_tables_hold_the_probabilities(n_slots):
    """What the tables stand for is weights times theta, to single precision; zeros stay zero."""
    rng = np.random.default_rng(1)
    theta = rng.gamma(0.3, size=(5, n_slots)).astype(np.float32)
    weights = rng.dirichlet(np.full(n_slots, 0.5))
    weights[1::4] = 0.0
    base = np.empty(5, np.float32)
    cut, alias = np.empty((5, n_slots), np.float32), np.empty((5, n_slots), np.int16)
    kernels.base_tables(theta, weights, base, cut, alias)
    expected = theta.astype(float) * weights
    np.testing.assert_allclose(base, expected.sum(axis=1), rtol=1e-6)
    mass = naive.alias_masses(base, cut, alias)
    np.testing.assert_allclose(mass, expected, atol=1e-6 * expected.sum(axis=1).max())
    assert (mass[:, weights == 0.0] < 1e-12 * expected.sum()).all()


def occupancy_stacks(occupancy: np.ndarray, n_keys: int) -> np.ndarray:
    """stacks[l, k] = records with more than l tokens of k; occupancy (n_records, n_slots)."""
    return np.array([(occupancy > l).sum(axis=0) for l in range(n_keys)], np.int64)


OCCUPANCY = np.array([[3, 0, 0], [2, 1, 0], [1, 1, 1], [0, 0, 2], [0, 1, 0]])
WEIGHTS = np.array([0.5, 0.3, 0.2])


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [0.5, 1.0, 3.0])
def test_alpha_is_drawn_from_its_posterior(shape):
    """Started at exact draws of the posterior, updates of alpha stay there; from afar they arrive.

    Kolmogorov-Smirnov tests against the posterior by quadrature, on independent draws.
    """
    rate, n_keys = 0.8, 3
    at_least = np.array([(OCCUPANCY.sum(axis=1) > l).sum() for l in range(n_keys)], float)
    grid = np.exp(np.linspace(-25, 8, 40_001))
    log_mass = stats.gamma.logpdf(grid, shape, scale=1 / rate) + np.log(grid)
    for row in OCCUPANCY:
        log_mass -= np.log(naive.rising(grid, int(row.sum())))
        for k, n in enumerate(row):
            log_mass += np.log(naive.rising(grid * WEIGHTS[k], int(n)))
    below = np.cumsum(np.exp(log_mass - log_mass.max()))
    below /= below[-1]
    stacks = occupancy_stacks(OCCUPANCY, n_keys)
    rng = np.random.default_rng(2)
    starts = {
        "stay": np.interp(rng.random(4000), below, grid),
        "arrive": np.full(4000, 40.0),
    }
    for name, start in starts.items():
        draws = []
        for run, alpha in enumerate(start):
            for update in range(1 if name == "stay" else 30):
                alpha = kernels.draw_alpha(
                    KEY, 100 * run + update, alpha, shape, rate, stacks, WEIGHTS, at_least
                )
            draws.append(alpha)
        cdf = np.interp(draws, grid, below)
        assert stats.kstest(cdf, "uniform").pvalue > FALSE_ALARM, name


@pytest.mark.statistical
def test_tables_follow_the_stirling_law():
    """Shared and per-record draws of the number of tables have Antoniak's law (chi-square)."""
    alpha, n_keys, n_draws = 1.7, 4, 20_000
    occupancy = np.array([[4, 0], [2, 2], [3, 1], [0, 4]])
    weights = np.array([0.6, 0.4])
    laws = []
    for k in range(2):
        law = np.ones(1)
        for n in occupancy[:, k]:
            law = np.convolve(law, naive.table_law(int(n), alpha * weights[k]))
        laws.append(law)
    stacks = occupancy_stacks(occupancy, n_keys)
    shared = np.empty((n_draws, 2), np.int64)
    for draw in range(n_draws):
        kernels.draw_tables(KEY, draw, alpha, stacks, weights, shared[draw])
    z = np.array([[0] * a + [1] * b for a, b in occupancy], np.int16)
    grid, cut, alias = mixed_membership._alpha_tables(2.0, 1.0, n_keys)
    separate = np.zeros((n_draws, 2), np.int64)
    for draw in range(n_draws):
        kernels.draw_tables_and_alphas(
            KEY,
            draw,
            0,
            len(z),
            z,
            weights,
            grid,
            cut,
            alias,
            np.full(len(z), alpha),
            separate[draw],
        )
    for tables in (shared, separate):
        for k, law in enumerate(laws):
            count = np.bincount(tables[:, k], minlength=len(law))
            assert count[law == 0.0].sum() == 0
            common = law * n_draws > 5
            observed = np.append(count[common], count[~common].sum())
            expected = np.append(law[common], law[~common].sum()) * n_draws
            keep = expected > 0
            assert stats.chisquare(observed[keep], expected[keep]).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("n_tokens", [0, 1, 3])
def test_alpha_of_a_record_follows_its_tables(n_tokens):
    """alpha_i given m tables has density a^m Gamma(a) / Gamma(a + J) times the prior.

    Tokens of one component that has all the weight: the number of tables is drawn from its law
    under the alpha that comes in, so their joint law with an alpha from the prior is kept.
    """
    n, shape, rate = 40_000, 2.0, 0.5
    grid, cut, alias = mixed_membership._alpha_tables(shape, rate, 3)
    alpha = stats.gamma.rvs(shape, scale=1 / rate, size=n, random_state=np.random.default_rng(3))
    z = np.where(np.arange(3) < n_tokens, 0, -1) * np.ones((n, 1), np.int16)
    tables = np.zeros(1, np.int64)
    kernels.draw_tables_and_alphas(
        KEY, 1, 0, n, z.astype(np.int16), np.ones(1), grid, cut, alias, alpha, tables
    )
    assert tables[0] >= n * (n_tokens > 0)
    # The grid has 1,024 quantiles: blur them within their steps before the test.
    rank = np.searchsorted(grid, alpha) + np.random.default_rng(4).random(n)
    assert stats.kstest(rank / len(grid), "uniform").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("tables", [[4, 0, 1, 0, 0, 2, 0, 0], [0] * 8])
def test_top_and_weights_have_their_law(tables):
    """alpha_0 has its posterior given the tables; g0 given alpha_0 is Dirichlet, and stick-broken.

    One update from exact draws of alpha_0; g0's shares are compared through their own cumulative
    distributions given alpha_0 (Kolmogorov-Smirnov).
    """
    shape, rate, n = 2.0, 1.5, 6000
    seats = np.array(tables, np.int64)
    dishes, total = int((seats > 0).sum()), int(seats.sum())
    grid = np.exp(np.linspace(-20, 5, 20_001))
    log_mass = shape * np.log(grid) - rate * grid + dishes * np.log(grid)
    log_mass -= np.log(naive.rising(grid, total))
    below = np.cumsum(np.exp(log_mass - log_mass.max()))
    below /= below[-1]
    start = np.interp(np.random.default_rng(5).random(n), below, grid)
    top, uniforms = np.empty(n), []
    for draw in range(n):
        weights = np.empty(len(seats))
        top[draw], remainder, occupied = kernels.draw_weights(
            KEY, draw, start[draw], shape, rate, seats, weights
        )
        assert occupied == dishes
        np.testing.assert_allclose(weights.sum(), 1.0, rtol=1e-12)
        empty = weights[seats == 0]
        assert 0.0 <= remainder <= empty[-1]
        unseen = empty.sum()
        ranks = [stats.beta.cdf(empty[0] / unseen, 1.0, top[draw])]
        if total:
            ranks.append(stats.beta.cdf(unseen, top[draw], total))
            ranks.append(stats.beta.cdf(weights[0] / (1 - unseen), seats[0], total - seats[0]))
        uniforms.append(ranks)
    assert stats.kstest(np.interp(top, grid, below), "uniform").pvalue > FALSE_ALARM
    for column in np.array(uniforms).T:
        assert stats.kstest(column, "uniform").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("concentration", [0.01, 0.5, 1.0, 2.5])
def test_profiles_are_dirichlet(concentration):
    """Every entry is Beta(concentration + count, rest) (Kolmogorov-Smirnov), keys apart."""
    offsets = np.array([0, 2, 5], np.int64)
    counts = np.repeat(np.array([[3], [0], [1], [0], [7]], np.int32), 8000, axis=1)
    theta = np.empty(counts.shape, np.float32)
    kernels.draw_profiles(KEY, 2, offsets, np.full(5, concentration), counts, theta)
    for first, last in ((0, 2), (2, 5)):
        np.testing.assert_allclose(theta[first:last].sum(axis=0), 1.0, rtol=1e-5)
        shape = concentration + counts[first:last, 0]
        for r in range(first, last):
            law = stats.beta(shape[r - first], shape.sum() - shape[r - first])
            draws = theta[r].astype(float)
            # Where single precision rounds to 0 or 1 the distribution jumps: spread it there.
            rng = np.random.default_rng(r)
            low, high = law.cdf(draws * (1 - 1e-6) - 1e-40), law.cdf(draws * (1 + 1e-6) + 1e-40)
            ranks = low + rng.random(len(draws)) * (high - low)
            assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM / 5
