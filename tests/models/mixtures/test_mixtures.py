"""What the mixtures promise beside the contract: their states, profiles and slots."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from models.contract import N_LEVELS, after, every_mixture, random_table
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.mixtures import mixed_membership
from unikat.models.named import build_model


@every_mixture
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_states_stay_valid(name, options, missing):
    """Weights and profiles are probabilities, missing keys have no component."""
    model: Any = build_model(name, options)
    table = random_table(missing=missing)
    data = model.prepare(table)
    state = after(model, data, 0)
    first = np.concatenate(([0], np.cumsum(N_LEVELS)))
    for sweep in range(1, 30):
        state, info = model.step(Stream(3, 1, sweep), state, data, 1)
        np.testing.assert_allclose(state.weights.sum(), 1.0)
        assert (state.weights >= 0.0).all()
        assert state.theta.shape == (first[-1], len(state.weights))
        assert len(state.weights) % 8 == 0
        for start, end in itertools.pairwise(first):
            np.testing.assert_allclose(state.theta[start:end].sum(axis=0), 1.0, rtol=1e-5)
        assert (state.profile > 0.0).all()
        known = table.cells[np.repeat(np.arange(table.n_cells), table.counts)] >= 0
        if state.z.shape[1] == 1:
            known = known.any(axis=1, keepdims=True)
        assert ((state.z >= 0) == known).all()
        assert info.values["n_components"] == len(set(state.z[known].tolist()))
        assert (state.weights[np.unique(state.z[known])] > 0.0).all()


@pytest.mark.parametrize("alpha", ["per-record", "hierarchical"])
def test_simulated_alphas_are_new_in_every_sweep(alpha, monkeypatch):
    """The numbers of one sweep are not those of the next one, shifted."""
    model: Any = build_model("hdp", {"alpha": alpha})
    data = model.prepare(random_table())
    state = after(model, data, 2)
    seen: list[float] = []
    right = mixed_membership.mixture.impute

    def listen(*arguments: Any) -> None:
        seen.extend(arguments[5].tolist())
        right(*arguments)

    monkeypatch.setattr(mixed_membership.mixture, "impute", listen)
    for sweep in range(1, 6):
        model.simulate(Stream(3, 1, sweep), state, data, 200)
    model.simulate(Stream(3, 2, 1), state, data, 200)
    assert len(seen) == len(set(seen)) == 1200


@every_mixture
def test_without_known_keys_no_record_has_a_component(name, options):
    """The model is left at its prior."""
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    model: Any = build_model(name, options)
    data = model.prepare(CellTable.from_codes([[-1, -1]] * 3, keys, 50))
    assert (after(model, data, 5).z == -1).all()


@pytest.mark.statistical
@every_mixture
def test_predictive_probabilities_are_means_over_the_profiles(name, options):
    """The mean over 400 draws of the profiles given the components (z test, false alarm 1e-6)."""
    model = build_model(name, options)
    data = model.prepare(random_table())
    records = getattr(data, "records", data)
    state = after(model, data, 8)
    cells = np.array([[0, 0, 0, 0], [1, 2, 1, 3], [0, 2, -1, 1], [-1, -1, -1, 2]], np.int32)
    rng = np.random.default_rng(2)
    counts = np.zeros(state.theta.shape)
    rows = records.rows[records.record_cell]
    for row, component in zip(rows, np.broadcast_to(state.z, rows.shape), strict=True):
        for r, k in zip(row, component, strict=True):
            if r >= 0:
                counts[r, k] += 1
    draws = []
    for _ in range(400):
        theta = rng.gamma(state.profile[:, None] + counts) + 1e-300
        for first, last in itertools.pairwise(records.offsets):
            theta[first:last] /= theta[first:last].sum(axis=0)
        redrawn = state._replace(theta=theta.astype(np.float32))
        draws.append(model.cell_probabilities(Stream(3, 1, 9), redrawn, data, cells))
    mean = model.predictive_probabilities(Stream(3, 1, 9), state, data, cells)
    error = np.std(draws, axis=0) / np.sqrt(len(draws))
    z = (np.mean(draws, axis=0) - mean) / error
    assert (2 * stats.norm.sf(np.abs(z)) > 1e-6 / len(cells)).all(), z


@pytest.mark.parametrize("name", ["hdp", "latent-class"])
def test_empty_slots_keep_their_profiles_only_while_that_is_right(name):
    """Three sweeps in four, and never after a move that integrated the profiles out.

    A component that was merged away leaves a slot whose profile must become one of the prior: too
    small an error for the joint tests to see, since it lasts three sweeps.
    """
    model = build_model(name, {})
    data = model.prepare(random_table())
    state = model.init(Stream(3, 1, 0), data)
    kept = moved = 0
    for sweep in range(1, 400):
        before = {column.tobytes() for column in state.theta.T}
        state, info = model.step(Stream(3, 1, sweep), state, data, 1)
        occupied = set(state.z[state.z >= 0].tolist())
        same = {k for k, column in enumerate(state.theta.T) if column.tobytes() in before}
        assert not same & occupied
        if sweep % 4 == 0 or info.values["split_merge"]:
            assert not same
            moved += bool(sweep % 4 and info.values["split_merge"])
        else:
            kept += bool(same)
    assert kept > 100
    assert moved > 3
