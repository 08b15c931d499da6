"""Tables of more than `DETAILED` patterns: the same draws in less memory, down to the files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats

import unikat
from unikat import Design
from unikat.inference import backends
from unikat.inference.segments import Job
from unikat.models import records
from unikat.models.base import Stream
from unikat.models.named import build_model
from unikat.risk import estimate, measures
from unikat.risk.estimate import beta_quantiles

KEYS = ["age", "sex", "work", "place"]
RUN: dict[str, Any] = {
    "keys": KEYS, "population_size": 3000, "chains": 2, "max_sweeps": 400, "workers": 1,
    "model": "latent-class",
}  # fmt: skip


def people(missing: bool) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 20, 300),
            "sex": rng.integers(0, 2, 300),
            "work": np.minimum(rng.geometric(0.4, 300) - 1, 4),
            "place": rng.integers(0, 4, 300),
        }
    )
    if missing:
        frame["work"] = frame["work"].astype("Int64").mask(rng.random(300) < 0.05)
    return frame


@pytest.mark.slow
@pytest.mark.parametrize("missing", [False, True])
def test_the_draws_are_those_of_a_small_table(
    missing: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    detailed = unikat.assess(people(missing), **RUN)
    for module in (measures, estimate):
        monkeypatch.setattr(module, "DETAILED", 100)
    found = unikat.assess(people(missing), out=tmp_path / "out", **RUN)
    assert found.draws is not None
    assert detailed.draws is not None
    for name in ("tau1", "tau2", "tau1_expected", "tau2_expected"):
        same = (answer.draws["posterior"][name] for answer in (found, detailed))
        np.testing.assert_array_equal(*same)

    few, all_of_them = found.records, detailed.records
    for name in ("r1", "r2"):
        np.testing.assert_array_equal(few[name], all_of_them[name])
        one = few["sample_unique"].to_numpy(bool)
        for end in ("lower", "upper"):
            near, exact = few[f"{name}_{end}"][one], all_of_them[f"{name}_{end}"][one]
            if missing:
                # A record that is unique in some draws alone has no beta distribution.
                assert near.isna().all()
                continue
            # A bin of 64 is at most 1/32 wide, and a posterior is no beta distribution.
            assert np.abs(near - exact).max() < 0.15
            assert abs(np.mean(near - exact)) < 0.02
        assert few[f"{name}_lower"][~one].isna().all()
    ranks = few["rank"][one].to_numpy()
    assert sorted(ranks) == list(range(1, one.sum() + 1))
    assert (np.diff(few["r1"][one].to_numpy()[np.argsort(ranks)]) <= 0).all()
    for name in ("F_median", "F_mode", "rank_lower", "key_1", "drop_1"):
        assert few[name].isna().all()
    assert any("more than 100: to save memory" in text for text in found.result.warnings)
    assert pq.read_table(tmp_path / "out" / "records.parquet").num_rows == 300
    assert (tmp_path / "out" / "report.html").exists()
    table = unikat.read(people(missing), KEYS, Design(population_size=3000)).tabulate()
    totals = measures.RiskMeasures.of(table).start()
    assert sum(part.nbytes for part in totals) <= 70 * table.n_cells + 200


def test_beta_quantiles_are_those_of_the_distribution() -> None:
    alpha, beta = np.array([0.3, 2.0, 40.0, 0.05]), np.array([5.0, 2.0, 1.0, 0.05])
    law = stats.beta(alpha, beta)
    mean, square = law.mean(), law.var() + law.mean() ** 2
    for found, level in zip(beta_quantiles(mean, square, (0.025, 0.5)), (0.025, 0.5), strict=True):
        np.testing.assert_allclose(found, law.ppf(level), rtol=1e-6, atol=1e-12)
    # No variance, none but by rounding, and that of 0 and 1 alone.
    mean = np.array([0.0, 1.0, 0.3, 0.3, 0.25, 0.99])
    square = np.array([0.0, 1.0, 0.09, 0.09 - 1e-17, 0.25, 0.99])
    lower, upper = beta_quantiles(mean, square, (0.025, 0.975))
    np.testing.assert_array_equal(lower, [0.0, 1.0, 0.3, 0.3, 0.0, 1.0])
    np.testing.assert_array_equal(upper, [0.0, 1.0, 0.3, 0.3, 1.0, 1.0])


@pytest.mark.parametrize("name", ["latent-class", "hdp"])
def test_cells_in_blocks_have_the_same_probabilities(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = unikat.read(people(True), KEYS, Design(population_size=3000)).tabulate()
    model = build_model(name, {})
    data, stream = model.prepare(table), Stream(1, 0, 0)
    state = model.init(stream, data)
    whole = model.cell_probabilities(stream, state, data, table.cells)
    monkeypatch.setattr(records, "BLOCK", 7)
    np.testing.assert_array_equal(model.cell_probabilities(stream, state, data, table.cells), whole)


def test_workers_that_would_not_fit_are_not_started(monkeypatch: pytest.MonkeyPatch) -> None:
    table = unikat.read(people(False), KEYS, Design(population_size=3000)).tabulate()
    model = build_model("hdp", {})
    job = Job(model=model, data=model.prepare(table), observer=measures.RiskMeasures.of(table))
    asked: dict[str, Any] = {"n_chains": 4, "sweep_cost": 1e9}
    monkeypatch.setattr(backends, "available_cores", lambda: 2)
    monkeypatch.setattr(backends, "memory", lambda: 100_000)
    with backends.open_backend(job, backends.Workers(), **asked) as backend:
        assert isinstance(backend, backends._InProcess)
        assert backend.n_threads == 2
    monkeypatch.setattr(backends, "memory", lambda: 10_000_000)
    with backends.open_backend(job, backends.Workers(), **asked) as backend:
        assert isinstance(backend, backends._Processes)
