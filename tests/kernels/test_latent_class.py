"""Kernels of the latent class model against sums and products, cell by cell."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels import latent_class as kernels
from unikat.models.mixtures.latent_class import LatentClass, LatentClassData
from unikat.rng import chain_key

KEY = chain_key(9, 0)
N_LEVELS = (3, 2, 4)
N_SLOTS = 8
FALSE_ALARM = 1e-6
"""Of each test of frequencies, split over its cells."""
CELLS = {
    # Up to twice the number of slots, records are dealt out one by one; beyond, by binomials.
    (0, 0, 0): 1,
    (0, 1, 3): 5,
    (1, 1, 2): 16,
    (1, 1, 3): 17,
    (2, 0, 1): 400,
    (-1, 0, 2): 3,
    (2, -1, -1): 60,
    (-1, -1, -1): 4,
}


def prepared() -> tuple[CellTable, LatentClassData]:
    codes = [cell for cell, count in CELLS.items() for _ in range(count)]
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(N_LEVELS)]
    table = CellTable.from_codes(codes, keys, population_size=10_000)
    return table, LatentClass().prepare(table)


def random_classes(n_slots: int = N_SLOTS) -> tuple[np.ndarray, np.ndarray]:
    """Profiles and weights; two slots have no weight, one level of one class no probability."""
    rng = np.random.default_rng(2)
    theta = np.concatenate([rng.dirichlet(np.full(n, 0.7), n_slots).T for n in N_LEVELS])
    theta[2, 1], theta[0, 1] = 0.0, theta[0, 1] + theta[2, 1]
    weights = rng.dirichlet(np.full(n_slots, 0.8))
    weights[[3, 7]] = 0.0
    return theta.astype(np.float32), weights / weights.sum()


def class_law(cell: tuple[int, ...], theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """P(class | cell), written from the equation."""
    first = np.concatenate(([0], np.cumsum(N_LEVELS)))
    mass = weights.copy()
    for j, level in enumerate(cell):
        if level >= 0:
            mass = mass * theta[first[j] + level].astype(float)
    return mass / mass.sum()


def allocated(
    data: LatentClassData, theta: np.ndarray, weights: np.ndarray, sweep: int, bounds: list[int]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    z = np.full((len(data.records.record_cell), 1), 99, np.int16)
    counts = np.zeros(theta.shape, np.int64)
    sizes = np.zeros(theta.shape[1], np.int64)
    for first, last in itertools.pairwise(bounds):
        kernels.allocate(KEY, sweep, first, last, data.walk, theta, weights, z, counts, sizes)
    return z, counts, sizes


@pytest.mark.statistical
def test_records_choose_their_class_by_weight_and_profiles():
    """Chi-square over 1,500 sweeps, cell by cell: one, few and many records, keys missing."""
    table, data = prepared()
    theta, weights = random_classes()
    n_sweeps = 1500
    chosen = np.zeros((table.n_cells, N_SLOTS))
    rows = data.records.rows[data.records.record_cell]
    many = []
    cell_of_many = [tuple(cell) for cell in table.cells.tolist()].index((2, 0, 1))
    for sweep in range(n_sweeps):
        z, counts, sizes = allocated(data, theta, weights, sweep, [0, table.n_cells])
        known = (rows >= 0).any(axis=1)
        assert (z[~known] == -1).all()
        assert ((z[known] >= 0) & (z[known] < N_SLOTS)).all()
        np.add.at(chosen, (data.records.record_cell[known], z[known, 0]), 1)
        many.append((z[data.records.record_cell == cell_of_many, 0] == 0).sum())
        if sweep < 20:
            again = np.zeros_like(counts)
            i, j = np.nonzero(rows >= 0)
            np.add.at(again, (rows[i, j], z[i, 0]), 1)
            np.testing.assert_array_equal(counts, again)
            np.testing.assert_array_equal(sizes, np.bincount(z[known, 0], minlength=N_SLOTS))
    for cell, observed in zip(table.cells.tolist(), chosen, strict=True):
        count = CELLS[tuple(cell)]
        if max(cell) < 0:
            assert observed.sum() == 0
            continue
        expected = class_law(tuple(cell), theta, weights) * count * n_sweeps
        assert observed.sum() == count * n_sweeps
        assert (observed[expected == 0.0] == 0).all()
        common = expected >= 8.0
        f_obs = np.append(observed[common], observed[~common].sum())
        f_exp = np.append(expected[common], expected[~common].sum())
        keep = f_exp > 0.0
        assert stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > FALSE_ALARM / 8
    # Not only on average: the number of 400 records that go to a class is binomial.
    p = class_law((2, 0, 1), theta, weights)[0]
    assert 0.05 < p < 0.95
    edges = stats.binom.ppf(np.linspace(0.05, 0.95, 10), 400, p)
    place = np.searchsorted(edges, many, side="left")
    expected = np.diff(np.concatenate(([0.0], stats.binom.cdf(edges, 400, p), [1.0])))
    observed = np.bincount(place, minlength=len(expected))
    assert stats.chisquare(observed, expected * n_sweeps).pvalue > FALSE_ALARM


def test_the_cut_of_the_work_does_not_matter():
    table, data = prepared()
    theta, weights = random_classes(16)
    whole = allocated(data, theta, weights, 3, [0, table.n_cells])
    for bounds in ([0, 1, 4, 4, 8], list(range(table.n_cells + 1))):
        for a, b in zip(whole, allocated(data, theta, weights, 3, bounds), strict=True):
            np.testing.assert_array_equal(a, b)
    other = allocated(data, theta, weights, 4, [0, table.n_cells])
    assert not np.array_equal(whole[0], other[0])


def test_every_record_is_dealt_out_where_one_class_has_nearly_all():
    """Rounding leaves no record behind, whichever class has the weight."""
    table, data = prepared()
    theta, _ = random_classes()
    theta = np.maximum(theta, np.float32(1e-30))
    for heavy in range(N_SLOTS):
        for light in (0.0, 1e-300, 1e-17, 1e-13):
            weights = np.full(N_SLOTS, light)
            weights[heavy] = 1.0
            z, _, sizes = allocated(data, theta, weights, 0, [0, table.n_cells])
            assert sizes.sum() == table.n_records - 4
            assert ((z >= -1) & (z < N_SLOTS)).all()
            assert (z == -1).sum() == 4


def test_probabilities_are_sums_over_classes():
    """Every cell and margin, in any order, to 1e-12."""
    theta, weights = random_classes(16)
    first = np.concatenate(([0], np.cumsum(N_LEVELS)))
    cells = np.array(sorted(itertools.product(*(range(-1, n) for n in N_LEVELS))))
    rows = np.where(cells >= 0, cells + first[:-1], -1).astype(np.int32)
    out = np.empty(len(cells))
    kernels.probabilities(rows, theta.astype(float), weights, out)
    expected = [
        sum(
            weights[k] * np.prod([float(theta[r, k]) for r in row if r >= 0])
            for k in range(len(weights))
        )
        for row in rows
    ]
    np.testing.assert_allclose(out, expected, rtol=1e-12)
    shuffled = np.random.default_rng(1).permutation(len(cells))
    again = np.empty(len(cells))
    kernels.probabilities(rows[shuffled], theta.astype(float), weights, again)
    np.testing.assert_allclose(again, out[shuffled], rtol=1e-12)
