"""Alias tables, concentrations, tables, component weights and profiles against their laws."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

import naive
from unikat.kernels import profiles
from unikat.kernels import weights as kernels
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
    separate = np.zeros((n_draws, 2), np.int64)
    for draw in range(n_draws):
        kernels.draw_tables_and_alphas(
            KEY, draw, z, weights, 2.0, 1.0, np.full(len(z), alpha), separate[draw]
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
@pytest.mark.parametrize(("shape", "rate"), [(2.0, 0.5), (0.4, 3.0)])
@pytest.mark.parametrize("n_tokens", [0, 1, 3])
def test_alpha_of_a_record_follows_its_tables(n_tokens, shape, rate):
    """alpha_i given m tables has density a^m Gamma(a) / Gamma(a + J) times the prior.

    Tokens of one component that has all the weight: the number of tables is drawn from its law
    under the alpha that comes in, so their joint law with an alpha from the prior is kept.
    """
    n = 40_000
    alpha = stats.gamma.rvs(shape, scale=1 / rate, size=n, random_state=np.random.default_rng(3))
    before = alpha.copy()
    z = np.where(np.arange(3) < n_tokens, 0, -1) * np.ones((n, 1), np.int16)
    tables = np.zeros(1, np.int64)
    kernels.draw_tables_and_alphas(
        KEY, 1, z.astype(np.int16), np.ones(1), shape, rate, alpha, tables
    )
    assert tables[0] >= n * (n_tokens > 0)
    assert tables[0] <= n * n_tokens
    assert (alpha != before).all()
    assert stats.kstest(alpha, stats.gamma(shape, scale=1 / rate).cdf).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("n_tables", [1, 4])
@pytest.mark.parametrize("shape", [0.3, 2.0])
def test_alpha_of_a_record_has_its_density(shape, n_tables):
    """Given m tables among four tokens: a^m Gamma(a) / Gamma(a + 4) under the prior, by quadrature.

    Tables are certain: one where all tokens share a component of next to no weight, four where
    each has its own. Started at exact draws of that density, one update stays there.
    """
    n, rate = 20_000, 0.7
    grid = np.exp(np.linspace(-60, 6, 60_001))
    log_mass = (shape + n_tables) * np.log(grid) - rate * grid - np.log(naive.rising(grid, 4))
    below = np.cumsum(np.exp(log_mass - log_mass.max()))
    below /= below[-1]
    alpha = np.interp(np.random.default_rng(5).random(n), below, grid)
    z = np.tile(np.arange(4) if n_tables == 4 else np.zeros(4), (n, 1)).astype(np.int16)
    tables = np.zeros(4, np.int64)
    kernels.draw_tables_and_alphas(KEY, 2, z, np.full(4, 1e-15), shape, rate, alpha, tables)
    assert tables.sum() == n * n_tables
    assert stats.kstest(np.interp(alpha, grid, below), "uniform").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("alphas", [[0.02, 0.5, 3.0], [1e-60, 0.2], list(np.full(40, 2.0))])
def test_spread_has_its_posterior(alphas):
    """Shape and rate of the alphas' law against a grid: updates stay at exact draws and arrive.

    Marginals of both, and the rate given the shape (Kolmogorov-Smirnov).
    """
    alpha = np.array(alphas)
    n = len(alpha)
    shapes = np.exp(np.linspace(-14, 5, 8001))
    # The rate summed out; both priors are exponential.
    log_mass = np.log(shapes) - shapes + shapes * np.log(alpha).sum() - n * gammaln(shapes)
    log_mass += gammaln(1 + n * shapes) - n * shapes * np.log(1 + alpha.sum())
    below = np.cumsum(np.exp(log_mass - log_mass.max()))
    below /= below[-1]
    starts = {
        "stay": (np.interp(np.random.default_rng(6).random(4000), below, shapes), 1),
        "arrive": (np.full(1000, 60.0), 40),
    }
    for name, (start, updates) in starts.items():
        drawn = []
        for run, shape in enumerate(start):
            for update in range(updates):
                shape, rate = kernels.draw_spread(KEY, 100 * run + update, shape, alpha)
            drawn.append((shape, rate))
        shape, rate = np.array(drawn).T
        ranks = np.interp(shape, shapes, below)
        assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM, name
        ranks = stats.gamma.cdf(rate, 1 + n * shape, scale=1 / (1 + alpha.sum()))
        assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM, name


@pytest.mark.statistical
@pytest.mark.parametrize("share", [1.0, 0.3])
def test_finite_weights_are_dirichlet(share):
    """K weights ~ Dirichlet(share + tables), entry by entry; padding has none."""
    tables = np.array([4, 0, 1, 0, 2, 0, 0, 0])
    n = 8000
    drawn = np.empty((n, 8))
    for draw in range(n):
        assert kernels.draw_finite_weights(KEY, draw, share, 6, tables, drawn[draw]) == 3
    np.testing.assert_allclose(drawn.sum(axis=1), 1.0, rtol=1e-12)
    assert (drawn[:, 6:] == 0.0).all()
    shape = share + tables[:6]
    for k in range(6):
        law = stats.beta(shape[k], shape.sum() - shape[k])
        assert stats.kstest(drawn[:, k], law.cdf).pvalue > FALSE_ALARM / 6
    # Two of them given their sum.
    law = stats.beta(shape[0], shape[2])
    assert stats.kstest(drawn[:, 0] / (drawn[:, 0] + drawn[:, 2]), law.cdf).pvalue > FALSE_ALARM


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
    fresh = np.ones(8000, np.bool_)
    fresh[:7] = False
    theta[:, :7] = -1.0
    profiles.draw_profiles(KEY, 2, offsets, np.full(5, concentration), counts, fresh, theta)
    assert (theta[:, :7] == -1.0).all()
    theta = theta[:, 7:]
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
