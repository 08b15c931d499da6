"""Compare models on data: from options to an answer, and to the folder of a comparison."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any, Unpack

from unikat.data.checks import table_warnings
from unikat.data.frames import FILE, FrameKind
from unikat.data.table import CellTable
from unikat.errors import SpecError, option
from unikat.files.folder import into_folder
from unikat.files.writing import make_folder
from unikat.inference.backends import Workers
from unikat.inference.identity import digest
from unikat.jobs.assess import Unfinished, plan_of
from unikat.jobs.inputs import design_of, tabulate, without_conflicts
from unikat.jobs.progress import Watcher, silent, watching
from unikat.models.auto import Auto
from unikat.models.base import check_keys
from unikat.models.named import Named, compared_models
from unikat.report.facts.comparison import ComparisonSummary
from unikat.report.folders import comparison as pages
from unikat.report.pages.comparison import render
from unikat.report.text import assessment
from unikat.report.text.comparison import notes, short_table, terminal_table
from unikat.report.text.summary import summarise_comparison
from unikat.risk.estimate import known_exactly
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.from_options import Inputs, documented, specify
from unikat.spec.options import CompareOptions
from unikat.spec.provenance import Provenance
from unikat.studies import compare as comparing
from unikat.studies.auto import Execution, decided
from unikat.studies.compare import Candidate, ComparisonSettings, Store

EVIDENCE = "evidence"
"""Beginning of the folders, inside that of the fits, of what each `auto` chooses by."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Comparison:
    """Several models side by side; from :func:`unikat.compare`."""

    summary: ComparisonSummary
    """Every number of the page, as `summary.json` holds them."""
    spec: ComparisonSpec
    """What was asked, completed with what was left to be decided."""
    folder: Path | None = None
    """Where the results lie; None if they were not written."""
    _kind: FrameKind = FILE

    @property
    def converged(self) -> bool:
        """Whether all fits converged."""
        return self.summary.converged

    @cached_property
    def table(self) -> Any:
        """One row per model, with the columns of `comparison.parquet`.

        A frame of the kind that was compared on; a pandas frame for files.
        """
        return self._kind.frame(pages.table(self.summary), same_rows=False)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write page, table, numbers and specification into a folder.

        Raises
        ------
        OutputError
            If the folder holds a comparison and `overwrite` is not set, or it cannot be written.
        """
        folder = Path(folder)
        pages.check_folder(folder, overwrite=overwrite)
        pages.write(self.summary, folder, self.spec)
        return folder

    def to_html(self) -> str:
        """Return the page, a complete HTML document that needs no network."""
        return render(self.summary)

    def __repr__(self) -> str:
        state = "converged" if self.converged else "NOT CONVERGED"
        names = ", ".join(model.model for model in self.summary.models)
        return "\n".join([f"Comparison of {names}: {state}", *terminal_table(self.summary)])

    def _repr_html_(self) -> str:
        head, *models = (
            "".join(f"<{cell}>{escape(text)}</{cell}>" for text in row)
            for cell, row in zip(
                ["th", *["td"] * len(self.summary.models)], short_table(self.summary), strict=True
            )
        )
        rows = "".join(f"<tr>{row}</tr>" for row in models)
        said = "".join(f"<p>{escape(text)}</p>" for text in notes(self.summary))
        return (
            f"<div><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>{said}</div>"
        )


@documented(ComparisonSpec, CompareOptions)
def compare(
    data: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
    **options: Unpack[CompareOptions],
) -> Comparison:
    """Compare several models on the same data.

    Parameters
    ----------
    data
        As for :func:`unikat.assess`; or the path of a ``comparison.toml``.
    out
        Folder for the results, and for finished fits; None: nothing is written.
    resume
        Continue the comparison in `out`; models can be added.
    overwrite
        Replace the comparison in `out`.
    progress
        Show the progress. None: in notebooks and on terminals only.

    Returns
    -------
    Comparison
        Estimates side by side, held-out scores, posterior predictive checks.

    Raises
    ------
    SpecError, DataError
        If an option or the data are wrong. Nothing was written.
    OutputError
        If `out` holds a comparison and neither `resume` nor `overwrite` is set, or it cannot be
        written.
    KeyboardInterrupt
        On Ctrl-C; finished fits are kept in `out`.
    """
    spec, inputs = specify(ComparisonSpec, CompareOptions, data, options)
    with watching(progress) as watcher:
        folder = None if out is None else Path(out).expanduser()
        return run(spec, inputs, folder, resume=resume, overwrite=overwrite, watcher=watcher)


@into_folder(*pages.FILES, pages.FITS)
def run(
    spec: ComparisonSpec,
    inputs: Inputs,
    folder: Path | None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    watcher: Watcher | None = None,
) -> Comparison:
    """Compare the models of a specification.

    Parameters
    ----------
    spec
        What to do.
    inputs
        Data that were handed over as values.
    folder
        Where the results go. Finished fits and checkpoints are kept there in `fits/`. None:
        nothing is written.
    resume
        Take finished fits from the folder, and continue unfinished ones. Models can be added.
    overwrite
        Replace the comparison that is in the folder.
    watcher
        Callbacks for progress.

    Raises
    ------
    SpecError, DataError
        If anything asked for is wrong. Nothing was written.
    OutputError
        If the folder holds a comparison and neither `resume` nor `overwrite` is set, or it cannot
        be written to.
    Unfinished
        On Ctrl-C, if fits are kept in the folder.
    KeyboardInterrupt
        On Ctrl-C so early that nothing is kept.
    """
    watcher = watcher or silent()
    started = datetime.now(UTC)
    named = compared_models(spec)
    design = design_of(spec.design, spec.population_size)
    settings = _settings(spec)
    if folder is None and (resume or overwrite):
        raise SpecError("resume and overwrite need the folder of the comparison; name it with out.")
    if folder is not None:
        pages.check_folder(folder, resume=resume, overwrite=overwrite)
    watcher.stage("Reading")
    table = tabulate(spec.data, spec.keys, design, inputs.data)
    handled = None
    if spec.zeros is not None:
        handled = without_conflicts(table, spec.zeros, spec.data)
        table = handled.table
    watcher.note(assessment.understood(table))
    for warning in table_warnings(table):
        watcher.note(f"Warning: {warning}")
    made = folder is not None and make_folder(folder)
    store = None if folder is None else Store(folder=folder / pages.FITS, resume=resume)
    if overwrite and store is not None:
        _clear(store)
    workers = Workers(n_workers=spec.sampling.workers, n_threads=spec.sampling.threads)
    execution = Execution(
        workers=workers, resume=resume, progress=watcher.progress, stage=watcher.stage
    )
    try:
        try:
            chosen = [_resolved(one, table, spec, store, execution) for one in named]
            comparison = comparing.compare(
                [Candidate(label=one.label, model=one.model) for one in chosen],
                table,
                settings,
                workers=workers,
                store=store,
                progress=watcher.progress,
                stage=watcher.stage,
            )
            if comparison.interrupted:
                raise KeyboardInterrupt
        except KeyboardInterrupt:
            if store is not None and store.folder.exists():
                raise Unfinished(
                    f"Interrupted. Finished fits are kept in {folder}; continue with "
                    f"{option('resume', True)}."
                ) from None
            raise
        record = Provenance.now(
            seed=spec.sampling.seed, data_fingerprint=table.fingerprint, started=started
        )
        summary = summarise_comparison(comparison, named, table, spec, record, handled)
        completed = _completed(spec, settings, comparison)
        if folder is not None:
            watcher.stage("Writing")
            pages.write(summary, folder, completed)
        return Comparison(
            summary=summary, spec=completed, folder=folder, _kind=FrameKind.of(inputs.data)
        )
    finally:
        if made and folder is not None:
            # Succeeds only if nothing was kept in it.
            with contextlib.suppress(OSError):
                folder.rmdir()


def _resolved(
    one: Named, table: CellTable, spec: ComparisonSpec, store: Store | None, execution: Execution
) -> Named:
    """Put the model that `auto` selects in its place, under the label that was asked for."""
    if not isinstance(one.model, Auto) or known_exactly(table):
        return one
    check_keys(one.model, [key.name for key in table.keys])
    stage = execution.stage
    execution = replace(
        execution,
        folder=None if store is None else store.folder / f"{EVIDENCE}-{digest(one.model)}",
        stage=None if stage is None else lambda text: stage(f"{one.label}: {text}"),
    )
    model = decided(
        one.model, table, seed=spec.sampling.seed, level=spec.level, execution=execution
    )
    return replace(one, model=model)


def _clear(store: Store) -> None:
    """Delete all fits, those by which `auto` selects first."""
    for folder in store.folder.glob(f"{EVIDENCE}-*"):
        Store(folder=folder).clear()
    store.clear()


def _settings(spec: ComparisonSpec) -> ComparisonSettings:
    return ComparisonSettings(
        seed=spec.sampling.seed,
        plan=plan_of(spec.sampling),
        held_out=spec.held_out,
        level=spec.level,
        limits={
            label: {str(kind): n for kind, n in limit.items()}
            for label, limit in spec.limits.items()
        },
    )


def _completed(
    spec: ComparisonSpec, settings: ComparisonSettings, comparison: comparing.Comparison
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
