"""The folder of an evaluation.

| file | what it is |
|---|---|
| `evaluation.parquet` | one row per sample and model |
| `summary.json` | bias, error, coverage and record-level scores of every model and size |
| `evaluation.html` | the page |
| `evaluation.toml` | the study as run |
| `tasks/` | finished fits, from which `--resume` goes on |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.report.facts.evaluation import EvaluationSummary
from unikat.report.folders.folder import not_understood
from unikat.report.folders.parquet import labelled
from unikat.spec.kinds import EVALUATE
from unikat.studies.scores import FitScore

_MEASURES = ("tau1", "tau2", "tau1_expected", "tau2_expected")
_PARTS = ("mean", "median", "lower", "upper")


def samples_table(scores: Sequence[FitScore], summary: EvaluationSummary) -> pa.Table:
    """Return the rows of `evaluation.parquet`, one per sample and model."""
    schema = labelled(
        _schema(), summary.schema, summary.provenance, state="complete", value=summary.complete
    )
    return pa.Table.from_pylist([_row(score) for score in scores], schema=schema)


def read_samples(folder: Path) -> pa.Table:
    """Read `evaluation.parquet` of a run.

    Raises
    ------
    OutputError
        If it cannot be read, or is not what a run writes.
    """
    path = folder / EVALUATE.others[0]
    try:
        found = pq.read_table(path)
        if found.schema.equals(_schema()):
            return found
    except (pa.ArrowException, OSError, ValueError) as error:
        raise not_understood(path, error) from None
    raise not_understood(path, ValueError())


def _row(score: FitScore) -> dict[str, object]:
    row: dict[str, object] = {}
    for name in _schema().names:
        measure, _, part = name.rpartition("_")
        found = getattr(score, measure) if measure in _MEASURES and part in _PARTS else score
        row[name] = None if found is None else getattr(found, part if found is not score else name)
    row["converged"] = None if score.error is not None else score.converged
    return row


def _schema() -> pa.Schema:
    whole, real = pa.int64(), pa.float64()
    fields = [("model", pa.string())]
    fields += [(name, whole) for name in ("n", "repeat", "n_drawn", "n_uniques")]
    for measure in ("tau1", "tau2"):
        fields.append((f"{measure}_true", real))
        fields += [(f"{measure}_{part}", real) for part in _PARTS]
    for measure in ("tau1_expected", "tau2_expected"):
        fields += [(f"{measure}_{part}", real) for part in _PARTS]
    fields += [("converged", pa.bool_()), ("stop_reason", pa.string()), ("rhat", real)]
    fields += [("ess", real), ("n_sweeps", whole), ("seconds", real), ("error", pa.string())]
    return pa.schema(fields)
