"""The HDP as a model: layout of the data, parameters, imputation, purity of its functions."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.mixed_membership import MembershipState

KEYS = [Key.of_size("A", 2), Key.of_size("B", 3), Key.of_size("C", 2)]
CODES = [[1, 2, 0], [-1, 2, 1], [1, 2, 0], [0, -1, -1], [-1, 2, 1]]


def test_data_are_laid_out_by_pattern():
    """Rows of theta are levels, key after key; records follow their patterns."""
    data = HDP().prepare(CellTable.from_codes(CODES, KEYS, 50))
    np.testing.assert_array_equal(data.offsets, [0, 2, 5, 7])
    np.testing.assert_array_equal(data.rows, [[-1, 4, 6], [0, -1, -1], [1, 4, 5]])
    np.testing.assert_array_equal(data.record_cell, [0, 0, 1, 2, 2])
    # Known keys of the records: 2, 2, 1, 3, 3.
    np.testing.assert_array_equal(data.at_least, [5, 4, 2])


@pytest.mark.parametrize(
    "bad",
    [
        {"alpha": "both"},
        {"alpha_shape": 0.0},
        {"alpha_rate": -1.0},
        {"top_shape": float("nan")},
        {"top_rate": True},
        {"top_shape": float("inf")},
        {"alpha_shape": 0.049, "alpha": "per-record"},
        {"profile_concentration": "1"},
    ],
)
def test_impossible_parameters_are_refused(bad):
    with pytest.raises(SpecError, match=next(iter(bad))):
        HDP(**bad)


def test_small_shapes_are_for_a_shared_alpha():
    assert HDP(alpha_shape=0.01).alpha == "shared"
    assert HDP(alpha_shape=0.05, alpha="per-record").alpha_shape == 0.05


def test_the_cost_of_a_sweep_counts_levels():
    """Profiles are drawn for every level, also where there are few records."""
    few, many = (
        HDP().cost(HDP().prepare(CellTable.from_codes([[0, 0]] * 9, keys, 50)))
        for keys in ([Key.of_size("A", size), Key.of_size("B", 2)] for size in (2, 5_002))
    )
    assert few[0] == 9 * (60 + 20 * 2) + 60 * 4 * 32
    assert many[0] - few[0] == 60 * 5_000 * 32
    assert many[1] == few[1]


def test_chains_start_apart_and_the_same_chain_starts_the_same():
    table = CellTable.from_codes(CODES * 20, KEYS, 500)
    model = HDP()
    data = model.prepare(table)
    one, same, other = (model.init(Stream(1, chain, 0), data) for chain in (0, 0, 1))
    for a, b in zip(one, same, strict=True):
        np.testing.assert_array_equal(a, b)
    assert not np.array_equal(one.weights[:8], other.weights[:8])
    assert ((one.z >= 0) == (table.cells[data.record_cell] >= 0)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", ["shared", "per-record"])
def test_imputed_keys_follow_the_urn(alpha):
    """Chi-square of 30,000 imputations of two patterns against their law; false alarm 1e-6 each.

    Records with one and with two keys missing stand among complete ones; with one alpha per
    record each has its own.
    """
    rng = np.random.default_rng(1)
    n = 15_000
    table = CellTable.from_codes([[-1, 2, 1], [0, -1, -1], [1, 0, 0], [1, 1, 0]] * n, KEYS, 10**6)
    model = HDP(alpha=alpha)
    data = model.prepare(table)
    np.testing.assert_array_equal(data.rows[:, 0] < 0, [True, False, False, False])
    weights = np.array([0.5, 0.2, 0.2, 0.1, 0, 0, 0, 0])
    theta = [rng.dirichlet(np.ones(key.n_levels), 8).T for key in KEYS]
    alphas = {"shared": [0.8] * 4, "per-record": [0.3, 2.0, 1.0, 1.0]}[alpha]
    components = np.array([[-1, 1, 3], [2, -1, -1], [0, 0, 0], [0, 1, 2]], np.int16)
    state = MembershipState(
        z=components[data.record_cell], theta=np.concatenate(theta).astype(np.float32),
        weights=weights,
        alpha=np.array(alphas[:1]) if alpha == "shared" else np.array(alphas)[data.record_cell],
        spread=np.empty(0), top=np.ones(1), profile=np.ones(7), **naive.no_zeros(3, 7),
    )  # fmt: skip
    read = [array for array in (*state, *data) if array is not None]
    before = [np.copy(value) for value in read]
    draws = [model.impute(Stream(3, 0, sweep), state, data) for sweep in (1, 2)]
    for copy, array in zip(before, read, strict=True):
        np.testing.assert_array_equal(copy, array)
    assert draws[0].shape == (2 * n, 3)
    assert not np.array_equal(draws[0], draws[1])
    for pattern in range(2):
        cells = np.concatenate([d[pattern * n : (pattern + 1) * n] for d in draws])
        law = naive.impute_law(
            table.cells[pattern].tolist(),
            components[pattern].tolist(),
            theta,
            weights,
            alphas[pattern],
        )
        np.testing.assert_allclose(sum(law.values()), 1.0)
        ids = [tuple(cell) for cell in cells.tolist()]
        observed = [ids.count(cell) for cell in law]
        assert sum(observed) == len(cells)
        assert stats.chisquare(observed, np.array([*law.values()]) * len(cells)).pvalue > 1e-6


def test_nothing_to_impute():
    table = CellTable.from_codes([[0, 0, 0], [1, 1, 1]], KEYS, 9)
    model = HDP()
    data = model.prepare(table)
    assert model.impute(Stream(0, 0, 1), model.init(Stream(0, 0, 0), data), data).shape == (0, 3)


def test_slots_grow_with_the_unseen_part():
    """A large alpha_0 leaves much unseen: slots are added until the last stick hardly matters."""
    table = CellTable.from_codes([[0, 0, 0], [1, 1, 1]], KEYS, 9)
    model = HDP(top_shape=400.0, top_rate=10.0)
    data = model.prepare(table)
    state = model.init(Stream(0, 0, 0), data)
    for sweep in range(1, 4):
        state, _ = model.step(Stream(0, 0, sweep), state, data, 1)
    n_slots = len(state.weights)
    assert n_slots >= 256
    assert n_slots % 8 == 0
    assert state.theta.shape == (7, n_slots)
    np.testing.assert_allclose(state.weights.sum(), 1.0)
