"""The tokens' sweep against its transition matrix, and independence of how the work is cut."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.mixed_membership import MembershipState, MixtureData

FALSE_ALARM = 1e-6
"""Of each test of transitions, split evenly over its start states (chi-square)."""
N_SLOTS = 8
"""The kernels want a multiple of eight slots; the spare ones have no weight."""


def row_p_value(observed: np.ndarray, expected: np.ndarray) -> float:
    """Chi-square p-value, cells of small expectation pooled; impossible ones must be empty."""
    assert observed[expected == 0.0].sum() == 0
    large = expected >= 8.0
    f_obs = np.append(observed[large], observed[~large].sum())
    f_exp = np.append(expected[large], expected[~large].sum())
    if f_exp[-1] < 8.0:
        f_obs = np.append(f_obs[:-2], f_obs[-2:].sum())
        f_exp = np.append(f_exp[:-2], f_exp[-2:].sum())
    return float(stats.chisquare(f_obs, f_exp * f_obs.sum() / f_exp.sum()).pvalue)


@pytest.mark.statistical
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per-record"])
@pytest.mark.parametrize(
    ("n_components", "known", "alpha", "n_each"),
    [
        (3, (0, 1, 2), 0.7, 20_000),
        (3, (0, 1, 2), 0.05, 20_000),
        (3, (0, 1, 2, 3), 2.5, 10_000),
        (8, (0, 1, 2), 6.0, 1_500),
        (5, (0, 2), 1.5, 20_000),
        (8, (1,), 0.3, 20_000),
    ],
    ids=["three", "small-alpha", "four-tokens", "eight-components", "missing", "one-token"],
)
def test_sweep_has_its_transition_matrix(n_components, known, alpha, n_each, shared):
    """From every state of a record, one sweep goes to every state as often as the equations say."""
    rng = np.random.default_rng(20)
    n_keys, n_levels = 4, 3
    weights = np.zeros(N_SLOTS)
    weights[:n_components] = rng.dirichlet(np.full(n_components, 0.8))
    theta = rng.dirichlet(np.ones(n_levels), (n_keys, N_SLOTS)).transpose(0, 2, 1)
    theta = theta.reshape(-1, N_SLOTS).astype(np.float32)
    rows = np.full((1, n_keys), -1, np.int32)
    rows[0, known] = [j * n_levels + j % n_levels for j in known]
    matrix, law = naive.sweep_matrix(
        theta[rows[0, known], :n_components].astype(float), weights[:n_components], alpha
    )
    np.testing.assert_allclose(matrix.sum(axis=1), 1.0)
    np.testing.assert_allclose(law @ matrix, law, rtol=1e-9)

    states = np.array(list(itertools.product(range(n_components), repeat=len(known))))
    n = len(states) * n_each
    z = np.full((n, n_keys), -1, np.int16)
    z[:, known] = np.repeat(states, n_each, axis=0)
    state = MembershipState(
        z=z, theta=theta, weights=weights, alpha=np.full(1 if shared else n, alpha),
        spread=np.empty(0), top=np.ones(1), profile=np.ones(n_keys * n_levels),
        **naive.no_zeros(n_keys, n_keys * n_levels),
    )  # fmt: skip
    data = MixtureData(
        rows=rows,
        record_cell=np.zeros(n, np.int32),
        counts=np.array([n]),
        offsets=np.arange(n_keys + 1, dtype=np.int64) * n_levels,
        at_least=np.array([n if l < len(known) else 0 for l in range(n_keys)], float),
        frequencies=np.zeros(n_keys * n_levels),
    )
    # Only the moves of one record at a time have this matrix.
    model = HDP(alpha="shared" if shared else "per-record", split_merge=False)
    after, _ = model.step(Stream(5, 0, 3), state, data, 1)
    moved = after.z[:, known].astype(np.int64)
    assert (np.delete(after.z, known, axis=1) == -1).all()
    place = moved @ n_components ** np.arange(len(known))[::-1]
    observed = np.bincount(
        np.repeat(np.arange(len(states)), n_each) * len(states) + place, minlength=len(states) ** 2
    ).reshape(len(states), len(states))
    p_values = [row_p_value(o, e) for o, e in zip(observed, matrix * n_each, strict=True)]
    assert min(p_values) > FALSE_ALARM / len(states)


def random_table(rng: np.random.Generator, n: int, *, missing: float) -> CellTable:
    keys = [Key.of_size(f"K{j}", levels) for j, levels in enumerate((2, 3, 2, 4))]
    codes = np.column_stack([rng.integers(key.n_levels, size=n) for key in keys])
    codes[rng.random(codes.shape) < missing] = -1
    return CellTable.from_codes(codes, keys, population_size=10 * n)


@pytest.mark.parametrize("alpha", ["shared", "per-record"])
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_numbers_do_not_depend_on_threads(alpha, missing):
    """One, two, three and seven parts give the same states, bit for bit."""
    table = random_table(np.random.default_rng(1), 301, missing=missing)
    model = HDP(alpha=alpha)
    data = model.prepare(table)
    ends = []
    for n_threads in (1, 2, 3, 7):
        state = model.init(Stream(3, 1, 0), data)
        for sweep in range(1, 12):
            state, _ = model.step(Stream(3, 1, sweep), state, data, n_threads)
        ends.append(state)
    for other in ends[1:]:
        for mine, theirs in zip(ends[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("alpha", ["shared", "per-record"])
def test_step_leaves_its_arguments_alone_and_keeps_a_valid_state(alpha):
    """No input is changed; weights and profiles are probabilities; missing tokens stay missing."""
    table = random_table(np.random.default_rng(2), 200, missing=0.3)
    model = HDP(alpha=alpha, profile_concentration=0.1)
    data = model.prepare(table)
    state = model.init(Stream(3, 1, 0), data)
    read = [array for array in (*state, *data) if array is not None]
    before = [np.copy(value) for value in read]
    after, info = model.step(Stream(3, 1, 1), state, data, 2)
    for copy, array in zip(before, read, strict=True):
        np.testing.assert_array_equal(copy, array)
    known = table.cells[data.record_cell] >= 0
    assert ((after.z >= 0) == known).all()
    np.testing.assert_allclose(after.weights.sum(), 1.0)
    assert (after.alpha > 0).all()
    for first, last in itertools.pairwise(data.offsets):
        np.testing.assert_allclose(after.theta[first:last].sum(axis=0), 1.0, rtol=1e-5)
    assert info.values["n_components"] == len(set(after.z[known].tolist()))


@pytest.mark.parametrize("alpha", ["shared", "per-record"])
def test_a_record_may_have_no_known_key(alpha):
    """A record with all keys missing has no tokens; it sorts first, where nothing is set up yet."""
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(2, size=20), rng.integers(3, size=20)])
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    model = HDP(alpha=alpha)
    for n_empty in (0, 4):
        empty = np.full((n_empty, 2), -1)
        table = CellTable.from_codes(np.concatenate((empty, codes)), keys, 100)
        data = model.prepare(table)
        state = model.init(Stream(1, 0, 0), data)
        for sweep in range(1, 6):
            state, _ = model.step(Stream(1, 0, sweep), state, data, 1)
        assert (state.z[:n_empty] == -1).all()
        assert (state.z[n_empty:] >= 0).all()
        cells = model.impute(Stream(1, 0, 6), state, data)
        assert len(cells) == n_empty
        assert ((cells >= 0) & (cells < [2, 3])).all()


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", [1e-67, 1e-40, 1e-3])
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per-record"])
def test_a_single_token_does_not_depend_on_alpha(alpha, shared):
    """A record with one known key chooses by weight times profile, however small alpha is."""
    n, weights = 20_000, np.zeros(N_SLOTS)
    weights[:3] = 0.5, 0.3, 0.2
    theta = np.full((2, N_SLOTS), 0.5, np.float32)
    theta[0, :3] = 0.9, 0.2, 0.4
    theta[1] = 1.0 - theta[0]
    data = MixtureData(
        rows=np.array([[0]], np.int32), record_cell=np.zeros(n, np.int32), counts=np.array([n]),
        offsets=np.array([0, 2]), at_least=np.array([float(n)]), frequencies=np.array([n, 0.0]),
    )  # fmt: skip
    state = MembershipState(
        z=np.zeros((n, 1), np.int16), theta=theta, weights=weights,
        alpha=np.full(1 if shared else n, alpha), spread=np.empty(0), top=np.ones(1),
        profile=np.ones(2), **naive.no_zeros(1, 2),
    )  # fmt: skip
    model = HDP(alpha="shared" if shared else "per-record", split_merge=False)
    after, _ = model.step(Stream(9, 0, 1), state, data, 1)
    observed = np.bincount(after.z[:, 0], minlength=N_SLOTS)
    expected = weights * theta[0] / (weights @ theta[0]) * n
    assert row_p_value(observed, expected) > FALSE_ALARM
