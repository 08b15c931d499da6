"""Latent classes against NPBayesImputeCat and an independent sampler of the same model.

The values lie beside the checkout, with how they were obtained (shared/oracles/README.md).
"""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.mixtures.latent_class import LatentClass

FOLDER = Path(__file__).parents[3] / "shared" / "oracles"
ORACLE = FOLDER / "npbayes_nozeros.json"
FALSE_ALARM = 1e-5
CHAINS, WARMUP, SWEEPS, BATCHES = 2, 500, 4000, 10


@pytest.mark.statistical
def test_posterior_is_that_of_npbayesimputecat():
    """Cell probabilities, classes, alpha_0 and tau1 of 1,000 records.

    t tests on batch means with the errors of both sides, false alarm 1e-5 in total; never tighter
    than a tenth of the posterior deviation, since the other sampler holds at most 20 classes.
    """
    if not ORACLE.exists():
        pytest.skip(f"{ORACLE} is not here: the oracle values are kept beside the checkout")
    oracle = json.loads(ORACLE.read_text())
    with open(FOLDER / oracle["input"], newline="") as file:
        names, *rows = list(csv.reader(file))
    levels = [sorted(set(column)) for column in zip(*rows, strict=True)]
    codes = [[levels[j].index(x) for j, x in enumerate(row)] for row in rows]
    keys = [Key.of_size(name, len(found)) for name, found in zip(names, levels, strict=True)]
    table = CellTable.from_codes(codes, keys, population_size=10_000)
    cells = np.array(
        [
            [levels[j].index(case["levels"][name]) for j, name in enumerate(names)]
            for case in oracle["cells"]
        ],
        np.int32,
    )
    unique = table.cells[table.unique]
    model = LatentClass(
        top_shape=0.25, top_rate=0.25, profile_concentration=1.0, profile_base="uniform"
    )
    data = model.prepare(table)
    batches = []
    for chain in range(CHAINS):
        state = model.init(Stream(1, chain, 0), data)
        seen = []
        for sweep in range(1, WARMUP + SWEEPS + 1):
            where = Stream(1, chain, sweep)
            state, info = model.step(where, state, data, 1)
            if sweep <= WARMUP:
                continue
            p = model.cell_probabilities(where, state, data, np.concatenate((cells, unique)))
            tau1 = np.exp(9000 * np.log1p(-p[len(cells) :])).sum()
            seen.append([*p[: len(cells)], state.top[0], info.values["n_components"], tau1])
        batches.extend(np.array(seen).reshape(BATCHES, -1, len(cells) + 3).mean(axis=1))
    ours = np.mean(batches, axis=0)
    error = np.std(batches, axis=0, ddof=1) / np.sqrt(len(batches))
    other = oracle["other"]
    cases = [*oracle["cells"], other["alpha"], other["k_star"], other["tau1_N10000"]]
    quantile = stats.t.isf(0.5 * FALSE_ALARM / len(cases), len(batches) - 1)
    for case, mean, mcse in zip(cases, ours, error, strict=True):
        exact = case["exact_model"]
        tolerance = max(quantile * np.hypot(mcse, exact["mcse"]), 0.1 * exact["sd"])
        assert abs(mean - exact["mean"]) < tolerance, case
        # The error itself must be small, or agreement would say little.
        assert mcse < 0.2 * exact["sd"], case
