"""The folder of an evaluation.

| file | what it is |
|---|---|
| `evaluation.parquet` | one row per sample and model |
| `samples.parquet` | with `--leaderboard` or `--synthesizers`: which rows each sample has |
| `synthesizers.parquet` | with `--synthesizers`: one row per synthetic file |
| `summary.json` | bias, error, coverage and record-level scores of every model and size |
| `evaluation.html` | the page |
| `evaluation.toml` | the study as run |
| `tasks/` | finished fits, from which `--resume` goes on |
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat.data.keys import MISSING
from unikat.report.facts.evaluation import EvaluationSummary
from unikat.report.folders.folder import not_understood
from unikat.report.folders.parquet import labelled
from unikat.spec.kinds import EVALUATE
from unikat.studies.designs import Population, Sample
from unikat.studies.evaluate import Study, sample_of
from unikat.studies.scores import FitScore
from unikat.synthesis.utility import ORDERS

_MEASURES = ("tau1", "tau2", "tau1_expected", "tau2_expected")
_PARTS = ("mean", "median", "lower", "upper")


def samples_table(scores: Sequence[FitScore], summary: EvaluationSummary) -> pa.Table:
    """Return the rows of `evaluation.parquet`, one per sample and model."""
    schema = labelled(
        _schema(), summary.schema, summary.provenance, state="complete", value=summary.complete
    )
    return pa.Table.from_pylist([_row(score) for score in scores], schema=schema)


def read_samples(folder: Path) -> pa.Table:
    """Read `evaluation.parquet` of a run."""
    path = folder / EVALUATE.others[0]
    try:
        found = pq.read_table(path)
        if found.schema.equals(_schema()):
            return found
    except (pa.ArrowException, OSError, ValueError) as error:
        raise not_understood(path, error) from None
    raise not_understood(path, ValueError())


def rows_table(population: Population, study: Study) -> pa.Table:
    """Return the rows of `samples.parquet`: which rows of the file, from 1, each sample has.

    With values set missing also the keys that each record lacks.
    """
    parts = []
    for n in study.sizes:
        for repeat in range(1, study.repeats + 1):
            sample = sample_of(population, study, n, repeat)
            drawn = np.empty(0, np.int64) if sample is None else sample.units + 1
            same = {"n": np.full(len(drawn), n), "repeat": np.full(len(drawn), repeat)}
            columns: dict[str, object] = {**same, "row": drawn}
            if study.blank:
                columns["blank"] = pa.array(_lacking(sample), pa.list_(pa.string()))
            parts.append(pa.table(columns))
    return pa.concat_tables(parts)


def _lacking(sample: Sample | None) -> list[list[str]]:
    """Names of the keys that each record lacks since they were set missing."""
    if sample is None:
        return []
    names = [key.name for key in sample.table.keys]
    gaps = (sample.table.cells == MISSING)[sample.table.record_cell]
    return [[name for name, gap in zip(names, row, strict=True) if gap] for row in gaps.tolist()]


def files_table(scores: Sequence[FitScore], summary: EvaluationSummary) -> pa.Table:
    """Return the rows of `synthesizers.parquet`, one per synthetic file."""
    whole, real = pa.int64(), pa.float64()
    counts = ("n_records", "reproduced", "reproduced_alone", "claims", "true_claims")
    schema = pa.schema(
        [("synthesizer", pa.string())]
        + [(name, whole) for name in ("n", "repeat", "n_drawn", "n_uniques", "tau1_true", *counts)]
        + [(f"distance_{order}", real) for order in ORDERS]
        + [("apart", real), ("inferred", real)]
        + [("converged", pa.bool_()), ("seconds", real), ("error", pa.string())]
    )
    rows = []
    for score in scores:
        row: dict[str, object] = {"synthesizer": score.model}
        row |= {name: getattr(score, name) for name in schema.names if hasattr(score, name)}
        found = score.synthetic
        if found is not None:
            row |= {name: getattr(found, name) for name in (*counts, "apart", "inferred")}
            row |= {f"distance_{i}": value for i, value in enumerate(found.distances, 1)}
        else:
            row["converged"] = None
        rows.append({**row, "tau1_true": int(score.tau1_true)})
    labels = labelled(
        schema, summary.schema, summary.provenance, state="complete", value=summary.complete
    )
    return pa.Table.from_pylist(rows, schema=labels)


def _row(score: FitScore) -> dict[str, object]:
    row: dict[str, object] = {}
    for name in _schema().names:
        measure, _, part = name.rpartition("_")
        if measure in _MEASURES and part in _PARTS:
            found = getattr(score, measure) or getattr(score, f"{measure}_point", None)
            row[name] = getattr(found, part, None)
        else:
            row[name] = getattr(score, name)
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
