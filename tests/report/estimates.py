"""Estimates made by hand, to test what is written without sampling."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from unikat.data import CellTable, Key
from unikat.inference.draws import Diagnostics, Draws
from unikat.models.base import Model
from unikat.report.facts.result import Result, assessment_facts
from unikat.report.folders import assessment as folders
from unikat.report.folders.findings import Findings
from unikat.report.text.summary import explained
from unikat.risk.estimate import RecordRisk, RiskEstimate, Summary
from unikat.risk.measures import RiskMeasures
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.provenance import Provenance


def summarise(*found: Any, **more: Any) -> Result:
    """Return what `result.json` holds of an estimate; parameters as for `assessment_facts`."""
    return explained(assessment_facts(*found, **more))


NAMES = ("AGE", "SEX", "OCCUPATION <b>", "REGION", "TENURE")


@dataclass(frozen=True)
class StandInModel(Model[Any, Any]):
    name: ClassVar[str] = "hdp"
    population: ClassVar[str] = "multinomial"
    uncertainty: ClassVar[str] = "posterior"
    alpha_shape: float = 2.0

    def never(self, *arguments: Any) -> Any:
        raise NotImplementedError

    prepare = init = step = cell_probabilities = predictive_probabilities = never
    impute = simulate = cost = never


def table(
    n: int = 3000, population_size: int = 150_000, *, missing: bool = False, seed: int = 5
) -> CellTable:
    rng = np.random.default_rng(seed)
    levels = (18, 2, 9, 12, 4)
    codes = np.column_stack([np.minimum(rng.geometric(0.25, n) - 1, size - 1) for size in levels])
    if missing:
        codes[rng.random(codes.shape) < 0.02] = -1
    keys = [
        Key(name=name, levels=tuple(range(size)), labels=tuple(f"{name}-v{i}" for i in range(size)))
        for name, size in zip(NAMES, levels, strict=True)
    ]
    return CellTable.from_codes(codes, keys, population_size)


def summary(values: Any, rhat: float | None = 1.003) -> Summary:
    lower, median, upper = np.quantile(values, [0.025, 0.5, 0.975])
    return Summary(
        mean=float(np.mean(values)),
        median=float(median),
        lower=float(lower),
        upper=float(upper),
        level=0.95,
        rhat=rhat,
        ess_bulk=None if rhat is None else 812.0,
        ess_tail=None if rhat is None else 655.0,
    )


def estimate(
    cells: CellTable | None = None, *, converged: bool = True, known: bool = False, seed: int = 3
) -> RiskEstimate:
    cells = table() if cells is None else cells
    rng = np.random.default_rng(seed)
    judged = (cells.unique | cells.incomplete) & (cells.counts >= 1)
    r1 = np.where(judged, rng.beta(0.25, 2.2, cells.n_cells), np.nan)
    r2 = np.where(judged, np.minimum(r1 * 1.5 + 0.01, 1.0), 1.0 / (1.0 + 20.0 * cells.counts))
    share = rng.dirichlet([0.5, 0.2, 1.2, 0.8, 0.3], cells.n_cells)[:, : cells.n_keys]
    place = np.full(cells.n_cells, np.nan)
    place[cells.unique] = 1.0 + np.argsort(np.argsort(-r1[cells.unique]))
    records = RecordRisk(
        unique=cells.unique,
        r1=r1,
        r1_lower=r1 * 0.6,
        r1_upper=np.minimum(r1 * 1.4, 1.0),
        r2=r2,
        r2_lower=r2 * 0.6,
        r2_upper=np.minimum(r2 * 1.4, 1.0),
        F_median=np.ceil(1.2 / r2),
        F_mode=np.ceil(1.0 / r2),
        rank=place,
        rank_lower=np.maximum(place * 0.5, 1.0),
        rank_upper=np.minimum(place * 1.5, float(cells.n_uniques)),
        key_drop=share * np.where(judged, r1, np.nan)[:, None],
    )
    expected = float(np.nansum(r1 * cells.counts))
    means = expected + 3.0 * rng.standard_normal((4, 400))
    means[:, :90] += 30.0 * np.exp(-np.arange(90) / 20.0) * np.array([1, -0.8, 0.5, -0.3])[:, None]
    scalars = {
        "tau1": rng.poisson(np.maximum(means, 0)).astype(float),
        "tau2": 1.7 * means + 4.0 * rng.standard_normal((4, 400)),
        "tau1_expected": means,
        "tau2_expected": 1.7 * means,
        "alpha": rng.gamma(3.0, 0.2, (4, 400)),
    }
    draws = None
    if not known:
        observer = RiskMeasures.of(cells)
        draws = Draws(
            scalars=scalars,
            n_discarded=133,
            totals=observer.start(),
            thin=2,
            n_sweeps=800,
            n_chains=4,
            seed=1,
            seconds=12.3,
            converged=converged,
            stop_reason="converged" if converged else "sweep limit",
            diagnostics={
                name: Diagnostics(rhat=1.003, ess_bulk=812.0, ess_tail=655.0) for name in scalars
            },
            model=StandInModel(),  # type: ignore[arg-type]
            observer=observer,
        )
    found = {
        name: summary([float(cells.n_uniques)], None) if known else summary(scalars[name][:, 133:])
        for name in ("tau1", "tau2", "tau1_expected", "tau2_expected")
    }
    return RiskEstimate(
        table=cells,
        draws=draws,
        records=records,
        converged=converged,
        warnings=() if converged else ("The chains have not converged.",),
        **found,
    )


def spec(path: Path | None = None, **report: Any) -> AssessmentSpec:
    return AssessmentSpec.parse(
        {
            "population_size": 150_000,
            "keys": list(NAMES),
            "model": {"name": "hdp"},
            "data": {} if path is None else {"path": str(path)},
            "report": report,
        }
    )


def provenance() -> Provenance:
    return Provenance(
        unikat="0.1.0",
        python="3.11.7",
        numpy="2.4.6",
        numba="0.68.1",
        platform="linux-x86_64",
        started="2026-11-20T12:00:00+00:00",
        seed=1,
        data_fingerprint="ab" * 32,
    )


def write(estimate: RiskEstimate, folder: Path, *what: Any) -> Result:
    """Write the results of an estimate, and return what `result.json` holds."""
    found = Findings.of(estimate, *what)
    folders.write(found, folder)
    return found.result
