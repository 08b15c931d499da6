"""New individuals that a model simulates have the law that its cell probabilities state."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.named import build_model
from unikat.spec.model import ModelSpec

KEYS = [Key.of_size("A", 2), Key.of_size("B", 3), Key.of_size("C", 2)]
N = 50_000
MODELS = [
    *(f"hdp:alpha={alpha}:alpha_rate=0.5" for alpha in ("shared", "per-record", "hierarchical")),
    *(f"gom:components=4:alpha={alpha}" for alpha in ("shared", "per-record", "hierarchical")),
    "latent-class",
]


@pytest.mark.statistical
@pytest.mark.parametrize("label", MODELS)
def test_simulated_cells_follow_the_cell_probabilities(label):
    """Chi-square over all 12 cells of a table, 100,000 individuals; false alarm 1e-6 each.

    The state is one that the sampler has reached on a small table. The individuals are of two
    chains and come in four calls.
    """
    rng = np.random.default_rng(7)
    codes = np.column_stack([rng.integers(0, key.n_levels, 40) for key in KEYS])
    table = CellTable.from_codes(codes, KEYS, 1000)
    spec = ModelSpec.of(label)
    model = build_model(spec.name, spec.options)
    data = model.prepare(table)
    state = model.init(Stream(3, 0, 0), data)
    for sweep in range(1, 20):
        state, _ = model.step(Stream(3, 0, sweep), state, data, 1)
    cells = np.array(list(itertools.product(*(range(key.n_levels) for key in KEYS))), np.int32)
    law = model.cell_probabilities(Stream(3, 0, 19), state, data, cells)
    np.testing.assert_allclose(law.sum(), 1.0, rtol=1e-4)
    before = [np.copy(part) for part in state]
    streams = [Stream(3, chain, sweep) for chain in (0, 1) for sweep in (19, 20)]
    drawn = [model.simulate(stream, state, data, N // 2) for stream in streams]
    for copy, part in zip(before, state, strict=True):
        np.testing.assert_array_equal(copy, part)
    assert all(not np.array_equal(*pair) for pair in itertools.combinations(drawn, 2))
    np.testing.assert_array_equal(drawn[0], model.simulate(streams[0], state, data, N // 2))
    places = np.ravel_multi_index(np.concatenate(drawn).T, [key.n_levels for key in KEYS])
    observed = np.bincount(places, minlength=len(cells))
    assert observed.sum() == 2 * N
    expected = law / law.sum() * 2 * N
    assert expected.min() > 20
    assert stats.chisquare(observed, expected).pvalue > 1e-6
