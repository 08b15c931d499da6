"""The samplers against their exact posterior on tables so small that everything can be listed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.mixtures.gom import GoM
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.latent_class import LatentClass

pytestmark = pytest.mark.statistical

N_LEVELS = (2, 2)
RECORDS = {
    "complete": [[0, 0], [0, 1], [1, 1]],
    "missing": [[-1, 1], [0, 0], [1, 1]],
}
CHAINS, WARMUP, SWEEPS, BATCHES = 4, 50, 1000, 10
FALSE_ALARM = 1e-5
"""Of each of ten cases: up to 11 numbers are compared, each at a share of it, in a t test on batch
means; 1e-4 in total."""
PROFILES: dict[str, Any] = {"profile_concentration": 0.5, "profile_base": "uniform"}


MODELS: dict[str, Any] = {
    "hdp": HDP(alpha_shape=2.0, alpha_rate=2.0, top_shape=3.0, top_rate=2.0, **PROFILES),
    "hdp-per-record": HDP(
        alpha="per-record", alpha_shape=2.0, alpha_rate=2.0, top_shape=3.0, top_rate=2.0, **PROFILES
    ),
    "gom": GoM(components=2, alpha_shape=2.0, alpha_rate=2.0, **PROFILES),
    "gom-per-record": GoM(
        components=3, alpha="per-record", alpha_shape=2.0, alpha_rate=2.0, **PROFILES
    ),
    "classes": LatentClass(top_shape=3.0, top_rate=2.0, **PROFILES),
}


def franchise(records: list[list[int]], model: Any) -> naive.Franchise:
    classes = isinstance(model, LatentClass)
    components = model.components if isinstance(model, GoM) else 0
    return naive.Franchise(
        records, N_LEVELS,
        shared=classes or model.alpha == "shared",
        alpha=None if classes else (model.alpha_shape, model.alpha_rate),
        top=1.0 if components else (model.top_shape, model.top_rate),
        components=components,
        profile=model.profile_concentration,
    )  # fmt: skip


@pytest.mark.parametrize("case", RECORDS)
@pytest.mark.parametrize("name", MODELS)
def test_posterior_is_that_of_the_enumeration(name, case):
    """Co-clustering, components, concentrations and cell probabilities have their exact means.

    With one alpha per record, alpha is compared for the first record of the table.
    """
    model = MODELS[name]
    classes = isinstance(model, LatentClass)
    records = RECORDS[case]
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(N_LEVELS)]
    table = CellTable.from_codes(records, keys, population_size=99)
    # The records are written in the order of their pattern, which is the order of the state.
    assert table.record_cell.tolist() == [0, 1, 2]
    exact = franchise(records, model)
    new_cells = np.array([[0, 0], [1, 0], [0, -1]], np.int32)
    # A new individual's cell: the evidence with one more record, over the evidence without it.
    new = [franchise([*records, cell.tolist()], model).evidence for cell in new_cells]
    # Of latent classes the first token of each record; its others go with it.
    tokens = [t for t, token in enumerate(exact.tokens) if t == 0 or not classes
              or exact.tokens[t - 1][0] != token[0]]  # fmt: skip
    pairs = list(itertools.combinations(tokens, 2))[:: 1 if classes else 3]
    expected = np.array(
        [exact.n_components]
        + [exact.alpha_mean] * (not classes)
        + [exact.top_mean] * (not isinstance(model, GoM))
        + [value / exact.evidence for value in new]
        + [exact.together[pair] for pair in pairs]
    )
    known = table.cells >= 0
    data = model.prepare(table)
    batches = []
    for chain in range(CHAINS):
        state = model.init(Stream(7, chain, 0), data)
        seen = []
        for time in range(1, WARMUP + SWEEPS + 1):
            state, info = model.step(Stream(7, chain, time), state, data, 1)
            if time <= WARMUP:
                continue
            p = model.cell_probabilities(Stream(7, chain, time), state, data, new_cells)
            z = np.broadcast_to(state.z, known.shape)[known]
            alpha = [] if classes else [state.alpha[0]]
            seen.append(
                [info.values["n_components"], *alpha, *state.top, *p]
                + [z[a] == z[b] for a, b in pairs]
            )
        batches.extend(np.array(seen, float).reshape(BATCHES, -1, len(expected)).mean(axis=1))
    p_values = stats.ttest_1samp(np.array(batches), expected).pvalue
    assert p_values.min() > FALSE_ALARM / len(expected), dict(
        zip(expected.tolist(), np.mean(batches, axis=0).tolist(), strict=True)
    )


@pytest.mark.parametrize("name", MODELS)
def test_the_enumeration_is_a_probability(name):
    """The evidences of all possible records add to one, and to that of the margin."""
    model = MODELS[name]
    given = [[0, 1]]
    base = franchise(given, model).evidence
    cells = list(itertools.product(range(2), repeat=2))
    both = [franchise([*given, list(cell)], model).evidence for cell in cells]
    np.testing.assert_allclose(sum(both), base, rtol=1e-9)
    margin = franchise([*given, [0, -1]], model).evidence
    np.testing.assert_allclose(both[0] + both[1], margin, rtol=1e-9)
    # Alone in the sample, a record is a draw from the base measure: a flat one here.
    np.testing.assert_allclose(base, 0.25, rtol=1e-9)
