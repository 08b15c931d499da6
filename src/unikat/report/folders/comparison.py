"""The folder of a comparison, and its page.

| file | what it is |
|---|---|
| `comparison.parquet` | one row per model |
| `summary.json` | every number of the page, with a sentence for each kind |
| `comparison.html` | the page |
| `comparison.toml` | the comparison as run |
| `fits/` | finished fits and checkpoints, for `--resume`; those with which `auto` chooses too |

The first four are written as a whole or not at all. All are readable by their owner alone, and
hold no value of a record.
"""

from __future__ import annotations

from operator import attrgetter
from typing import Any

import pyarrow as pa

from unikat.report.facts.comparison import ComparisonSummary, ModelFacts
from unikat.report.folders.parquet import labelled

_TABLE_SCHEMA = "unikat.comparison-table/1"
_SCORE = {
    "mean": "mean",
    "se": "standard_error",
    "difference": "difference",
    "difference_se": "difference_standard_error",
    "n": "n_records",
    "n_zero": "n_zero",
    "best": "best",
    "converged": "sampling.converged",
    "seconds": "sampling.seconds",
    "rhat": "sampling.rhat",
    "ess": "sampling.ess",
}
"""Columns of the log score, which begin with `log_score_`, and where they come from."""
_OPTIONAL = {
    "log_score_n": pa.int64(),
    "log_score_n_zero": pa.int64(),
    "log_score_best": pa.bool_(),
    "log_score_converged": pa.bool_(),
    "path_value": pa.float64(),
}
"""Columns whose first value may be unknown or of another type."""


def rows(summary: ComparisonSummary) -> list[dict[str, Any]]:
    """Return the rows of `comparison.parquet`, one per model."""
    return [_row(model, summary) for model in summary.models]


def _row(model: ModelFacts, summary: ComparisonSummary) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model.model, "n": summary.sample.n_records, "repeat": 0}
    for name in ("tau1", "tau2", "tau1_expected", "tau2_expected"):
        for part in ("mean", "median", "lower", "upper"):
            row[f"{name}_{part}"] = getattr(getattr(model, name), part)
    for name in ("converged", "stop_reason", "seconds", "rhat", "ess", "n_sweeps", "n_draws"):
        row[name] = getattr(model.sampling, name)
    score = model.held_out
    for name, path in _SCORE.items():
        row[f"log_score_{name}"] = None if score is None else attrgetter(path)(score)
    row["n_simulated"] = model.n_simulated
    for check in model.checks:
        name = f"cells_seen_{check.size}"
        row[f"{name}_observed"] = check.observed
        for part in ("mean", "lower", "upper"):
            row[f"{name}_{part}"] = getattr(check, part)
        row[f"{name}_p"] = check.p_value
    row["path_value"] = model.path_value
    return row


def comparison_table(summary: ComparisonSummary) -> pa.Table:
    """Return the rows of `comparison.parquet` as a table."""
    found = rows(summary)
    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64()}
    schema = pa.schema(
        [
            (name, _OPTIONAL.get(name, types.get(type(value), pa.float64())))
            for name, value in found[0].items()
        ]
    )
    # What is not known is null, not NaN.
    known = [
        {name: None if value != value else value for name, value in row.items()} for row in found
    ]
    schema = labelled(
        schema, _TABLE_SCHEMA, summary.provenance, state="converged", value=summary.converged
    )
    return pa.Table.from_pylist(known, schema=schema)
