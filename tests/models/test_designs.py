"""Every model takes a design: a class that a key tells, one that no key tells, and both gaps."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from models.contract import random_table
from unikat.data.design import Sampling
from unikat.data.table import CellTable
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models.catalogue import MODELS
from unikat.models.named import build_model
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures
from unikat.risk.observe import observer_for

RATES = np.array([0.5, 0.1, 0.02])


def drawn(*, told: bool) -> CellTable:
    """A table whose records stand for 2, 10 or 50 units, told by a key or not."""
    table = random_table(120, missing=0.0)
    key = table.cells[table.record_cell, 1]
    strata = key % 3 if told else np.arange(120) % 3
    sizes = np.bincount(strata, minlength=3) / RATES
    sampling = Sampling(
        weights=1.0 / RATES[strata], strata=strata.astype(np.int32), sizes=sizes,
        from_weights=False,
    )  # fmt: skip
    return replace(table, population_size=round(sizes.sum()), sampling=sampling)


def taus(model: Any, table: CellTable) -> dict[str, float]:
    fitted, at_risk = views(model, table)
    draws = sample(
        model,
        fitted,
        observer_for(model, RiskMeasures.of(at_risk), at_risk),
        seed=1,
        plan=Plan(n_chains=2, stop=StopRule(max_sweeps=24)),
        workers=Workers(n_workers=1, n_threads=1),
    )
    return {name: float(draws.retained(name).mean()) for name in ("tau1", "tau2", "tau2_expected")}


@pytest.mark.parametrize("told", [True, False])
@pytest.mark.parametrize("name", MODELS)
def test_every_model_takes_a_design(name: str, told: bool) -> None:
    """Measures are finite and in order, and move when the design does."""
    model, table = build_model(name, {}), drawn(told=told)
    found = taus(model, table)
    assert 0.0 <= found["tau1"] <= found["tau2"] <= table.n_uniques
    assert found["tau2"] > 0.0
    # As many records of as many units, drawn with equal chances.
    plain = taus(model, replace(table, sampling=None))
    if name == "superpopulation-1":
        # One law for all cells: the weights are not used.
        assert found == plain
    else:
        assert found != plain


@pytest.mark.parametrize("treatment", ["integrate", "wildcard"])
@pytest.mark.parametrize("name", ["latent-class", "loglinear", "elamir-skinner", "individual-risk"])
def test_missing_keys_and_a_design(name: str, treatment: str) -> None:
    whole = drawn(told=False)
    codes = whole.cells[whole.record_cell].copy()
    # One key at most, so that no record agrees with all others.
    codes[::6, 2] = -1
    made = CellTable.from_codes(codes, whole.keys, whole.population_size, treatment)
    table = replace(made, sampling=whole.sampling)
    found = taus(build_model(name, {}), table)
    assert 0.0 < found["tau2"] <= table.n_records
