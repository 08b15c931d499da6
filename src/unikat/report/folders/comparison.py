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

import io
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.files.json import json_text
from unikat.files.writing import all_or_nothing, write_bytes, write_text
from unikat.report.facts.comparison import ComparisonSummary, ModelFacts
from unikat.report.pages.comparison import render
from unikat.spec.comparison import ComparisonSpec

COMPARISON, SUMMARY = "comparison.parquet", "summary.json"
PAGE, SPEC, FITS = "comparison.html", "comparison.toml", "fits"
FILES = (COMPARISON, SPEC, PAGE, SUMMARY)
"""In the order in which they are moved into place."""
_TABLE_SCHEMA = "unikat.comparison-table/1"


def write(summary: ComparisonSummary, folder: Path, spec: ComparisonSpec) -> None:
    """Write the results of a comparison into a folder, replacing those that are there.

    Parameters
    ----------
    summary
        What was found.
    folder
        Where to write; made if it does not exist.
    spec
        The comparison as run.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    with all_or_nothing(folder, FILES, SUMMARY) as scratch:
        write_bytes(scratch / COMPARISON, _parquet(summary))
        write_text(scratch / SPEC, spec.to_toml(folder, _note(spec)))
        write_text(scratch / PAGE, render(summary))
        write_text(scratch / SUMMARY, json_text(asdict(summary)))


def rows(summary: ComparisonSummary) -> list[dict[str, Any]]:
    """Return the rows of `comparison.parquet`, one per model."""
    return [_row(model, summary) for model in summary.models]


def _row(model: ModelFacts, summary: ComparisonSummary) -> dict[str, Any]:
    row: dict[str, Any] = {"model": model.model, "n": summary.sample.n_records, "repeat": 0}
    for name in ("tau1", "tau2", "tau1_expected", "tau2_expected"):
        measure = getattr(model, name)
        for part in ("mean", "median", "lower", "upper"):
            row[f"{name}_{part}"] = getattr(measure, part)
    sampling = model.sampling
    row |= {
        "converged": sampling.converged,
        "stop_reason": sampling.stop_reason,
        "seconds": sampling.seconds,
        "rhat": sampling.rhat,
        "ess": sampling.ess,
        "n_sweeps": sampling.n_sweeps,
        "n_draws": sampling.n_draws,
    }
    score = model.held_out
    row |= {
        "log_score_mean": None if score is None else score.mean,
        "log_score_se": None if score is None else score.standard_error,
        "log_score_difference": None if score is None else score.difference,
        "log_score_difference_se": None if score is None else score.difference_standard_error,
        "log_score_n": None if score is None else score.n_records,
        "log_score_n_zero": None if score is None else score.n_zero,
        "log_score_best": None if score is None else score.best,
        "log_score_converged": None if score is None else score.sampling.converged,
        "log_score_seconds": None if score is None else score.sampling.seconds,
        "log_score_rhat": None if score is None else score.sampling.rhat,
        "log_score_ess": None if score is None else score.sampling.ess,
        "n_simulated": model.n_simulated,
    }
    for check in model.checks:
        name = f"cells_seen_{check.size}"
        row[f"{name}_observed"] = check.observed
        row[f"{name}_mean"] = check.mean
        row[f"{name}_lower"] = check.lower
        row[f"{name}_upper"] = check.upper
        row[f"{name}_p"] = check.p_value
    row["path_value"] = model.path_value
    return row


def table(summary: ComparisonSummary) -> pa.Table:
    """Return the rows of `comparison.parquet` as a table."""
    found = rows(summary)
    types = {str: pa.string(), bool: pa.bool_(), int: pa.int64()}
    fields, columns = [], []
    whole = ("log_score_n", "log_score_n_zero")
    yes_no = ("log_score_best", "log_score_converged")
    for name, first in found[0].items():
        kind = types.get(type(first), pa.float64())
        kind = pa.int64() if name in whole else pa.bool_() if name in yes_no else kind
        values = [row[name] for row in found]
        # What is not known is null, not NaN.
        values = [None if value != value else value for value in values]
        fields.append((name, pa.float64() if name == "path_value" else kind))
        columns.append(pa.array(values, fields[-1][1]))
    schema = pa.schema(fields).with_metadata(
        {
            "unikat.schema": _TABLE_SCHEMA,
            "unikat.version": summary.provenance.unikat,
            "unikat.seed": str(summary.seed),
            "unikat.converged": "true" if summary.converged else "false",
        }
    )
    return pa.Table.from_arrays(columns, schema=schema)


def _parquet(summary: ComparisonSummary) -> bytes:
    buffer = io.BytesIO()
    pq.write_table(table(summary), buffer, compression="zstd")
    return buffer.getvalue()


def _note(spec: ComparisonSpec) -> str:
    if not spec.limits:
        return ""
    return (
        "Some fits were ended by the clock; [limits] holds the sweeps they reached, so that a "
        "repetition gives the same numbers. Remove it to go further."
    )
