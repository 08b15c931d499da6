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
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.files.json import json_text
from unikat.files.writing import all_or_nothing, write_bytes, write_text
from unikat.report.facts.comparison import (
    ComparisonSummary,
    ModelFacts,
    PathFacts,
)
from unikat.report.pages import assessment as html
from unikat.report.pages import comparison_figures as figures
from unikat.report.pages.fitted import facts_in_line
from unikat.report.text import comparison
from unikat.report.text.numbers import duration, number
from unikat.report.text.zeros import on_page
from unikat.spec.comparison import ComparisonSpec
from unikat.studies.path import SIZES

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


def render(summary: ComparisonSummary) -> str:
    """Render the page of a comparison, a complete HTML document."""
    models, trusted = summary.models, comparison.trusted(summary)
    drawn = {"counts": figures.counts_of_counts(models)}
    if trusted:
        drawn["tau1"] = figures.intervals(
            trusted, "tau1", "τ1", "τ1, unique records that are population unique"
        )
        drawn["tau2"] = figures.intervals(
            trusted, "tau2", "τ2", "τ2, correct links an intruder would make"
        )
    if models[0].held_out is not None:
        drawn["scores"] = figures.log_scores(
            [one for one in models if one.held_out is not None and not one.held_out.refuted]
        )
    paths = [
        {
            "facts": one,
            "scored": _scored(models, one),
            "question": comparison.path_question(one),
            "chooses": one.option in SIZES,
            "sentence": summary.sentences[f"paths.{position}"],
            "figure": figures.path(_on_path(models, one), one),
        }
        for position, one in enumerate(summary.paths)
    ]
    return html.template("comparison.html.j2").render(
        policy=html.CONTENT_POLICY,
        summary=summary,
        said=summary.sentences,
        figures=drawn,
        paths=paths,
        warnings=_warnings(models),
        fits={model.model: said for model in models if (said := facts_in_line(model.fit))},
        zeros=on_page(summary.zeros, SUMMARY),
        times=comparison.TIMES,
        level=f"{100 * summary.level:g}%",
        number=number,
        shown=lambda model, measure: comparison.shown(summary, model, measure),
        state=comparison.state(summary),
        mark=comparison.mark,
        duration=duration,
        rhat=comparison.rhat,
        score=comparison.score,
        difference=comparison.difference,
        p_value=comparison.p_value,
        command=f"unikat {ComparisonSpec.command} --out NEW_FOLDER",
    )


def _scored(models: Sequence[ModelFacts], path: PathFacts) -> bool:
    """Whether the scores along a path can be drawn: not beside models that records refute."""
    members = [model for model in models if model.path_base == path.base]
    return all(one.held_out is not None and not one.held_out.refuted for one in members)


def _on_path(models: Sequence[ModelFacts], path: PathFacts) -> Sequence[ModelFacts]:
    """Return the models for the figure of a path, without scores that cannot be drawn."""
    if _scored(models, path):
        return models
    return [replace(model, held_out=None) for model in models]


def _warnings(models: Sequence[ModelFacts]) -> list[str]:
    """Warnings of the models; what concerns the file is said by all alike, and once."""
    sampled = [model for model in models if model.sampling.converged]
    said: dict[str, list[str]] = {}
    for model in sampled:
        for warning in model.warnings:
            said.setdefault(warning, []).append(model.model)
    return [
        warning if len(names) == len(sampled) else f"{comparison.listed(names)}: {warning}"
        for warning, names in said.items()
    ]


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
