"""Probabilities without companions against their means, which are known, and their sums."""

import itertools

import numpy as np
import pytest

from unikat.kernels import latent_class, thinning
from unikat.rng import chain_key

N_LEVELS, N_CLASSES, ALPHA = (2, 3, 2), 4, 0.7
OFFSETS = np.concatenate(([0], np.cumsum(N_LEVELS)))
CELLS = np.array(list(itertools.product(*map(range, N_LEVELS))))
PHI = np.array([0.5, 1.5, 0.4, 0.3, 1.1, 0.8, 0.2])
KEY = chain_key(3, 0)


def sample(seed=0, n=30):
    """Rows of records, some keys missing, and classes; the last class stays empty."""
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, size, n) for size in N_LEVELS])
    rows = (codes + OFFSETS[:-1]).astype(np.int32)
    rows[rng.random(rows.shape) < 0.1] = -1
    return rows, rng.integers(0, N_CLASSES - 1, n)


def tokens(rows, z):
    """Counts of tokens and sizes of classes."""
    counts = np.zeros((OFFSETS[-1], N_CLASSES), np.int64)
    latent_class.count(rows, z[:, None].astype(np.int16), counts)
    return counts, np.bincount(z, minlength=N_CLASSES)


def state(rng, counts, sizes):
    """Weights and profiles given the classes; the empty class has what is not seen."""
    weights = rng.dirichlet(np.where(sizes > 0, sizes, ALPHA))
    theta = np.empty(counts.shape)
    for first, last in itertools.pairwise(OFFSETS):
        for k in range(counts.shape[1]):
            theta[first:last, k] = rng.dirichlet(PHI[first:last] + counts[first:last, k])
    return weights, theta


def thinned(rows, z, weights, theta, companions, *, asked=None, sets=(), sweep=0, wrong=0):
    """Probabilities of cells with the same companions each, (n,); sets by shares of levels."""
    counts, sizes = tokens(rows, z)
    asked = CELLS + OFFSETS[:-1] if asked is None else asked
    shares = np.array(sets, np.float64).reshape(-1, len(theta))
    of_set, levels = np.nonzero(shares)
    starts = np.searchsorted(of_set, np.arange(len(shares) + 1))
    n, records = len(asked), np.asarray(companions, np.int64)
    of = (np.arange(n + 1) * len(records), np.tile(records, n), np.zeros(n, np.int64))
    p = np.full(n, -1.0)
    z = z[:, None].astype(np.int16)
    drawn = thinning.Drawn(rows, z, z >= 0, theta, weights, counts + wrong, sizes, 0.0, PHI)
    joined = np.vstack((theta, shares @ theta))
    sets = thinning.Asked(asked.astype(np.int64), joined, starts, levels, shares[of_set, levels])
    thinning.thin(KEY, sweep, of, drawn, sets, np.zeros(0, np.bool_), p, np.zeros(0))
    return p


COMPANIONS = (0, 1, 3, 5, 7, 10, 12, 14, 17)
"""Of `means`: 4 of the 6 records of one class, 3 of 22, and both of a third, so that a wrong count
shows in their weights and in their profiles."""


def mean_without(rows, z):
    """Mean probability of every cell where the companions had not been there."""
    left = np.setdiff1d(np.arange(len(rows)), COMPANIONS)
    counts, sizes = tokens(rows[left], z[left])
    mass = np.where(sizes > 0, sizes, 0.0)
    # Had a class been empty, it would be no class.
    mass[N_CLASSES - 1] = ALPHA
    p = np.tile(mass / mass.sum(), (len(CELLS), 1))
    for j, (first, last) in enumerate(itertools.pairwise(OFFSETS)):
        mean = PHI[first:last, None] + counts[first:last]
        p *= (mean / mean.sum(axis=0))[CELLS[:, j]]
    return p.sum(axis=1)


def means(wrong=0, n=8_000):
    """Mean and its standard error over draws of the state, of every cell."""
    rows, z = sample()
    # All of one class are companions.
    z[z == 2] = 1
    z[[3, 7]] = 2
    counts, sizes = tokens(rows, z)
    rng = np.random.default_rng(1)
    drawn = np.array(
        [
            thinned(rows, z, *state(rng, counts, sizes), COMPANIONS, sweep=sweep, wrong=wrong)
            for sweep in range(n)
        ]
    )
    return drawn.mean(axis=0), drawn.std(axis=0) / np.sqrt(n), mean_without(rows, z)


def test_the_mean_is_that_of_a_sample_without_the_companions():
    found, error, expected = means()
    assert np.abs((found - expected) / error).max() < 4.5


@pytest.mark.slow
def test_a_count_that_keeps_a_companion_would_be_seen():
    found, error, expected = means(wrong=1)
    assert np.abs((found - expected) / error).max() > 6.0


def test_probabilities_add_up_to_one_and_a_union_is_the_sum_of_its_cells():
    rows, z = sample(4)
    weights, theta = state(np.random.default_rng(2), *tokens(rows, z))
    p = thinned(rows, z, weights, theta, COMPANIONS)
    assert p.sum() == pytest.approx(1.0, abs=1e-12)
    # Both levels of the first key, two of the second, half of the records of one of the third.
    sets = np.zeros((3, len(theta)))
    sets[0, [0, 1]] = sets[1, [2, 4]] = 1.0
    sets[2, 6] = 0.5
    asked = len(theta) + np.array([[0, 1, 2]])
    joined = thinned(rows, z, weights, theta, COMPANIONS, asked=asked, sets=sets)
    wanted = (CELLS[:, 1] != 1) & (CELLS[:, 2] == 1)
    assert joined[0] == pytest.approx(0.5 * p[wanted].sum(), rel=1e-12)
    any_level = thinned(rows, z, weights, theta, COMPANIONS, asked=np.array([[-1, 3, -1]]))
    assert any_level[0] == pytest.approx(p[CELLS[:, 1] == 1].sum(), rel=1e-12)


def test_without_companions_nothing_is_touched():
    rows, z = sample(5)
    weights, theta = state(np.random.default_rng(2), *tokens(rows, z))
    assert (thinned(rows, z, weights, theta, ()) == -1.0).all()


def test_records_of_a_cell_are_shuffled_within_it():
    starts, order = np.array([0, 1, 4, 4, 60]), np.empty(60, np.int64)
    found = np.zeros((60, 60))
    for sweep in range(3000):
        thinning.shuffled(KEY, sweep, starts, order)
        found[np.arange(60), order] += 1
    assert found[0, 0] == 3000
    assert found[1:4, 1:4].sum() == 9000
    assert np.abs(found[1:4, 1:4] - 1000).max() < 4.5 * np.sqrt(3000 * 2 / 9)
    assert np.abs(found[4:, 4:] - 3000 / 56).max() < 6.0 * np.sqrt(3000 / 56)
