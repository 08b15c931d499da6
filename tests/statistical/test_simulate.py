"""New individuals that a model simulates have the law that its cell probabilities state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.mixed_membership import HDP, HDPState

KEYS = [Key.of_size("A", 2), Key.of_size("B", 3), Key.of_size("C", 2)]
N = 20_000


@pytest.mark.statistical
@pytest.mark.parametrize("size", [0.3, 3.0])
@pytest.mark.parametrize("alpha", ["shared", "per-record"])
def test_simulated_cells_follow_the_cell_probabilities(alpha, size):
    """Chi-square over all 12 cells of a table, 40,000 individuals; false alarm 1e-6 each.

    The two streams are of two chains, so that the addresses of both are seen to matter.
    """
    rng = np.random.default_rng(7)
    table = CellTable.from_codes([[0, 0, 0], [1, 2, 1], [1, 1, 0]], KEYS, 1000)
    model = HDP(alpha=alpha, alpha_shape=2.0, alpha_rate=2.0 / size)
    data = model.prepare(table)
    theta = np.concatenate([rng.dirichlet(np.full(key.n_levels, 0.5), 8).T for key in KEYS])
    state = HDPState(
        z=np.zeros((3, 3), np.int16),
        theta=theta.astype(np.float32),
        weights=np.array([0.4, 0.3, 0.2, 0.1, 0.0, 0.0, 0.0, 0.0]),
        alpha=np.full(1 if alpha == "shared" else 3, size),
        top=np.ones(1),
    )
    cells = np.array(list(itertools.product(*(range(key.n_levels) for key in KEYS))), np.int32)
    law = model.cell_probabilities(Stream(3, 0, 5), state, data, cells)
    np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-5)
    before = [array.copy() for array in state]
    drawn = [model.simulate(Stream(3, chain, 5), state, data, N) for chain in (0, 1)]
    for copy, array in zip(before, state, strict=True):
        np.testing.assert_array_equal(copy, array)
    assert not np.array_equal(*drawn)
    np.testing.assert_array_equal(drawn[0], model.simulate(Stream(3, 0, 5), state, data, N))
    places = np.ravel_multi_index(np.concatenate(drawn).T, [key.n_levels for key in KEYS])
    observed = np.bincount(places, minlength=len(cells))
    assert observed.sum() == 2 * N
    expected = law / law.sum() * 2 * N
    assert expected.min() > 20
    assert stats.chisquare(observed, expected).pvalue > 1e-6
