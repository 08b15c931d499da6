"""Compare models on a file: from a specification to the folder of a comparison.

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

import contextlib
import io
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from markupsafe import Markup

from unikat.data.table import CellTable
from unikat.errors import OutputError, SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule
from unikat.inference.identity import digest
from unikat.inference.progress import Progress
from unikat.models.auto import Auto
from unikat.models.base import check_keys
from unikat.provenance import Provenance
from unikat.report import comparison_figures as figures
from unikat.report import comparison_wording as wording
from unikat.report import html
from unikat.report.comparison_spec import ComparisonSpec, Named
from unikat.report.comparison_summary import (
    ComparisonSummary,
    ModelFacts,
    summarise_comparison,
)
from unikat.report.files import all_or_nothing, json_text, make_folder, write_bytes, write_text
from unikat.report.fitted import facts_in_line
from unikat.report.source import design_of, tabulate, without_conflicts
from unikat.report.wording import duration, interval, number
from unikat.report.zeros_facts import on_page
from unikat.risk.auto import Means, decided
from unikat.risk.compare import Candidate, Comparison, ComparisonSettings, Store, compare
from unikat.risk.estimate import known_exactly
from unikat.risk.path import SIZES

COMPARISON, SUMMARY = "comparison.parquet", "summary.json"
PAGE, SPEC, FITS = "comparison.html", "comparison.toml", "fits"
EVIDENCE = "evidence"
"""Beginning of the folders, inside that of the fits, of what each `auto` chooses by."""
FILES = (COMPARISON, SPEC, PAGE, SUMMARY)
"""In the order in which they are moved into place."""
_TABLE_SCHEMA = "unikat.comparison-table/1"


def run(
    spec: ComparisonSpec,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    stage: Callable[[str], None] | None = None,
) -> ComparisonSummary | None:
    """Compare the models of a specification and write the results into a folder.

    Parameters
    ----------
    spec
        What to do.
    folder
        Where the results go. Finished fits and checkpoints are kept there in `fits/`.
    resume
        Take finished fits from the folder, and go on with unfinished ones. Models can be added.
    overwrite
        Replace the comparison that is in the folder.
    progress
        Told how each fit goes.
    stage
        Told, in words, what is done now.

    Returns
    -------
    ComparisonSummary or None
        What was written; None after an interrupt, when fits are kept but nothing else is written.

    Raises
    ------
    SpecError, DataError
        If anything asked for is wrong. Nothing was written.
    OutputError
        If the folder holds a comparison and neither `resume` nor `overwrite` is set, or it cannot
        be written to.
    KeyboardInterrupt
        After an interrupt so early that nothing is kept.
    """
    tell = stage if stage is not None else _ignore
    started = datetime.now(UTC)
    named = spec.build_models()
    design = design_of(spec.design, spec.population_size)
    settings = _settings(spec)
    check_folder(folder, resume=resume, overwrite=overwrite)
    tell("Reading")
    table = tabulate(spec.data, spec.keys, design)
    handled = None
    if spec.zeros is not None:
        handled = without_conflicts(table, spec.zeros, spec.data)
        table = handled.table
    made = make_folder(folder)
    store = Store(folder=folder / FITS, resume=resume)
    if overwrite:
        _clear(store)
    workers = Workers(n_workers=spec.sampling.workers, n_threads=spec.sampling.threads)
    means = Means(workers=workers, resume=resume, progress=progress, stage=stage)
    try:
        try:
            chosen = [_resolved(one, table, spec, store, means) for one in named]
            comparison = compare(
                [Candidate(label=one.label, model=one.model) for one in chosen],
                table,
                settings,
                workers=workers,
                store=store,
                progress=progress,
                stage=stage,
            )
            interrupted = comparison.interrupted
        except KeyboardInterrupt:
            interrupted = True
        if interrupted:
            if not store.folder.exists():
                raise KeyboardInterrupt
            return None
        tell("Writing")
        record = Provenance.now(
            seed=spec.sampling.seed, data_fingerprint=table.fingerprint, started=started
        )
        summary = summarise_comparison(comparison, named, table, spec, record, handled)
        write(summary, folder, _completed(spec, settings, comparison))
        return summary
    finally:
        if made:
            # Succeeds only if nothing was kept in it.
            with contextlib.suppress(OSError):
                folder.rmdir()


def _resolved(
    one: Named, table: CellTable, spec: ComparisonSpec, store: Store, means: Means
) -> Named:
    """Put the model that `auto` chooses in its place, under the label that was asked for."""
    if not isinstance(one.model, Auto) or known_exactly(table):
        return one
    check_keys(one.model, [key.name for key in table.keys])
    stage = means.stage
    means = replace(
        means,
        folder=_evidence(store, digest(one.model)),
        stage=None if stage is None else lambda text: stage(f"{one.label}: {text}"),
    )
    seed, level = spec.sampling.seed, spec.level
    return replace(one, model=decided(one.model, table, seed=seed, level=level, means=means))


def _evidence(store: Store, which: str) -> Path:
    """Folder of the fits by which one model `auto` chooses."""
    return store.folder / f"{EVIDENCE}-{which}"


def _clear(store: Store) -> None:
    """Delete all fits, those by which `auto` chooses first."""
    for folder in store.folder.glob(f"{EVIDENCE}-*"):
        Store(folder=folder).clear()
    store.clear()


def check_folder(folder: Path, *, resume: bool = False, overwrite: bool = False) -> None:
    """Refuse a folder that holds another comparison, before any work is done.

    Raises
    ------
    SpecError, OutputError
        With what to do.
    """
    if resume and overwrite:
        raise SpecError("--resume and --overwrite exclude each other; give one of them.")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; choose another --out.")
    found = [name for name in FILES if (folder / name).exists()]
    if resume or overwrite or not (found or (folder / FITS).exists()):
        return
    what = f"a comparison ({', '.join(found)})" if found else "an unfinished comparison"
    raise OutputError(
        f"The folder {folder} already holds {what}. Give --resume to go on with it or to add "
        "models, --overwrite to replace it, or another --out. Nothing was written."
    )


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
    models = summary.models
    drawn = {
        "tau1": figures.intervals(
            models, "tau1", "τ1", "τ1, unique records that are population unique"
        ),
        "tau2": figures.intervals(models, "tau2", "τ2", "τ2, correct links an intruder would make"),
        "counts": figures.counts_of_counts(models),
    }
    if models[0].held_out is not None:
        drawn["scores"] = figures.log_scores(models)
    paths = [
        {
            "facts": one,
            "question": wording.path_question(one),
            "chooses": one.option in SIZES,
            "sentence": summary.sentences[f"paths.{position}"],
            "figure": Markup(figures.path(models, one)),
        }
        for position, one in enumerate(summary.paths)
    ]
    return html.template("comparison.html.j2").render(
        policy=html.CONTENT_POLICY,
        summary=summary,
        said=summary.sentences,
        figures={name: Markup(svg) for name, svg in drawn.items()},
        paths=paths,
        warnings=_warnings(models),
        fits={model.model: said for model in models if (said := facts_in_line(model.fit))},
        zeros=on_page(summary.zeros, SUMMARY),
        times=wording.TIMES,
        level=f"{100 * summary.level:g}%",
        number=number,
        interval=interval,
        duration=duration,
        rhat=_rhat,
        score=wording.score,
        difference=wording.difference,
        p_value=wording.p_value,
        command=f"unikat {ComparisonSpec.command} --out NEW_FOLDER",
    )


def _warnings(models: Sequence[ModelFacts]) -> list[str]:
    """Warnings of the models; what concerns the file is said by all alike, and once."""
    sampled = [model for model in models if model.sampling.converged]
    said: dict[str, list[str]] = {}
    for model in sampled:
        for warning in model.warnings:
            said.setdefault(warning, []).append(model.model)
    return [
        warning if len(names) == len(sampled) else f"{wording.listed(names)}: {warning}"
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


def _parquet(summary: ComparisonSummary) -> bytes:
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
    buffer = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), buffer, compression="zstd")
    return buffer.getvalue()


def _settings(spec: ComparisonSpec) -> ComparisonSettings:
    sampling = spec.sampling
    limits = {} if sampling.max_sweeps is None else {"max_sweeps": sampling.max_sweeps}
    stop = StopRule(
        rhat=sampling.rhat, ess=sampling.ess, max_seconds=sampling.max_seconds, **limits
    )
    plan = Plan(n_chains=sampling.chains, thin=sampling.thin, stop=stop)
    return ComparisonSettings(
        seed=sampling.seed,
        plan=plan,
        held_out=spec.held_out,
        level=spec.level,
        limits={
            label: {str(kind): n for kind, n in limit.items()}
            for label, limit in spec.limits.items()
        },
    )


def _completed(
    spec: ComparisonSpec, settings: ComparisonSettings, comparison: Comparison
) -> ComparisonSpec:
    """Write down what was left to the sampler, and where the clock ended a fit."""
    limits = {label: dict(limit) for label, limit in settings.limits.items()}
    for model in comparison.models:
        fits = {"risk": model.risk.sampling}
        if model.held_out is not None:
            fits["held-out"] = model.held_out.sampling
        for kind, fit in fits.items():
            if fit.stop_reason == "time limit":
                limits.setdefault(model.label, {})[kind] = fit.n_sweeps
    sampling = spec.sampling.model_copy(update={"max_sweeps": settings.plan.stop.max_sweeps})
    return spec.model_copy(update={"sampling": sampling, "limits": limits})


def _note(spec: ComparisonSpec) -> str:
    if not spec.limits:
        return ""
    return (
        "Some fits were ended by the clock; [limits] holds the sweeps they reached, so that a "
        "repetition gives the same numbers. Remove it to go further."
    )


def _rhat(value: float) -> str:
    return "–" if value != value else f"{value:.3f}"


def _ignore(_: str) -> None:
    """Tell nobody."""
