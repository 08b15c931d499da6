"""The main job: from a specification to the folder of a run."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unikat.data.table import CellTable
from unikat.errors import OutputError, SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule, sample
from unikat.inference.checkpoint import FILE_NAME as CHECKPOINT
from unikat.inference.checkpoint import Checkpoint
from unikat.inference.draws import Observer
from unikat.inference.progress import Progress
from unikat.models.base import check_keys
from unikat.models.calibrated import Calibrated
from unikat.models.catalogue import build_model
from unikat.provenance import AssessmentSpec, Provenance
from unikat.report import results
from unikat.report.beside import Beside, find_classics
from unikat.report.files import make_folder
from unikat.report.registry import read_registry
from unikat.report.source import design_of, open_data, without_conflicts
from unikat.risk.auto import Means, decided
from unikat.risk.bootstrap import observer_for
from unikat.risk.compare import Store
from unikat.risk.estimate import RiskEstimate, assess, known_exactly
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures
from unikat.risk.registry import RegistryMeasures, registry_risk

EVIDENCE = "evidence"
"""Folder inside a run's in which `auto` keeps finished fits until the run has converged."""


def run(
    spec: AssessmentSpec,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    stage: Callable[[str], None] | None = None,
    note: Callable[[str], None] | None = None,
) -> RiskEstimate | None:
    """Assess a file and write the results into a folder.

    Parameters
    ----------
    spec
        What to do.
    folder
        Where the results go. While the run lasts it holds the checkpoint, which stays if the
        chains have not converged, and what `auto` has found out so far.
    resume
        Go on from the checkpoint in the folder.
    overwrite
        Replace the run that is in the folder, once the new results are complete.
    progress
        Told how sampling goes.
    stage
        Told, in words, what is done now.
    note
        Told, in words, what was found on the way.

    Returns
    -------
    RiskEstimate or None
        What was written. `converged` and `draws.stop_reason` tell how it ended. None after an
        interrupt while `auto` was choosing: its finished fits are kept, nothing else is written.

    Raises
    ------
    SpecError, DataError
        If anything asked for is wrong. Nothing was written.
    OutputError
        If the folder holds a run and neither `resume` nor `overwrite` is set, or it cannot be
        written to: noticed before the work begins. Results are written as a whole or not at all.
    KeyboardInterrupt
        After an interrupt so early that nothing is kept.
    """
    tell = stage if stage is not None else _ignore
    started = datetime.now(UTC)
    model = build_model(spec.model.name, spec.model.options)
    if spec.registry is not None and getattr(model, "uses_weights", False):
        raise SpecError(
            f"The model {spec.model.name} sees combinations and not keys, so it cannot tell how "
            "frequent those are that no record of the survey has, as most of a registry's; name "
            "another with --model, or leave the registry out."
        )
    design = design_of(spec.design, spec.population_size)
    plan, workers = _plan(spec), _workers(spec)
    check_folder(folder, resume=resume, overwrite=overwrite)
    tell("Reading")
    microdata = open_data(spec.data, spec.keys, design)
    table = microdata.tabulate()
    handled = None
    if spec.zeros is not None:
        handled = without_conflicts(table, spec.zeros, spec.data)
        table = handled.table
    check_keys(model, [key.name for key in table.keys])
    found = None
    if spec.classics is not None:
        tell("Computing the classic measures")
        found = find_classics(microdata, table, spec.classics, handled, spec.data.missing_values)
    made = make_folder(folder)
    checkpoint = Checkpoint(folder=folder, resume=resume)
    evidence = Store(folder=folder / EVIDENCE, resume=resume)
    if overwrite:
        evidence.clear()
        # Else what is found now could not be gone on with beside the old chains.
        checkpoint.remove()
    try:
        draws, registry = None, None
        if spec.registry is not None:
            tell("Reading the registry")
            registry = read_registry(spec, table)
        if registry is not None or not known_exactly(table):
            means = Means(
                workers=workers,
                folder=evidence.folder,
                resume=resume,
                progress=progress,
                stage=stage,
                note=note,
            )
            try:
                model = _decided(model, table, spec, means)
            except KeyboardInterrupt:
                if not evidence.folder.exists():
                    raise
                return None
            except SpecError:
                if not resume:
                    # What cannot be decided is no unfinished run.
                    evidence.clear()
                raise
            tell(_fitting(model))
            fitted, at_risk = views(model, table)
            measures: Observer = RiskMeasures.of(at_risk)
            if registry is not None:
                measures = RegistryMeasures(measures=RiskMeasures.of(at_risk), registry=registry)
            draws = sample(
                model,
                fitted,
                observer_for(model, measures, at_risk),
                seed=spec.sampling.seed,
                plan=plan,
                workers=workers,
                checkpoint=checkpoint,
                progress=progress,
            )
        tell("Writing")
        estimate = assess(draws, table, level=spec.report.level)
        record = Provenance.now(
            seed=spec.sampling.seed, data_fingerprint=table.fingerprint, started=started
        )
        beside = Beside(
            registry=None
            if draws is None or registry is None
            else registry_risk(draws, registry, level=spec.report.level),
            classics=found,
        )
        results.write(estimate, folder, _completed(spec, plan), record, handled, beside)
    finally:
        if made:
            # Succeeds only if nothing was kept in it.
            with contextlib.suppress(OSError):
                folder.rmdir()
    if estimate.converged:
        checkpoint.remove()
        evidence.clear()
    return estimate


def check_folder(folder: Path, *, resume: bool = False, overwrite: bool = False) -> None:
    """Refuse a folder that holds another run, before any work is done.

    Raises
    ------
    OutputError
        With what to do.
    """
    if resume and overwrite:
        raise SpecError("--resume and --overwrite exclude each other; give one of them.")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; choose another --out.")
    unfinished = (folder / CHECKPOINT).exists() or (folder / EVIDENCE).exists()
    found = [name for name in results.FILES if (folder / name).exists()]
    if resume and found and not unfinished:
        raise OutputError(
            f"The run in {folder} is finished: there is nothing to resume. Read its "
            f"{results.REPORT}, or repeat the run with --overwrite."
        )
    if resume or overwrite or not (found or unfinished):
        return
    what = "an unfinished run" if unfinished else f"a run ({', '.join(found)})"
    remedy = "--resume to go on with it, " if unfinished else ""
    raise OutputError(
        f"The folder {folder} already holds {what}. Give {remedy}--overwrite to replace it, or "
        "another --out. Nothing was written."
    )


def _decided(model: Any, table: CellTable, spec: AssessmentSpec, means: Means) -> Any:
    """Return the model that is fitted, which `auto` has chosen if it was asked for."""
    seed, level = spec.sampling.seed, spec.report.level
    return decided(model, table, seed=seed, level=level, means=means)


def _fitting(model: Any) -> str:
    """Say what is fitted."""
    if not isinstance(model, Calibrated):
        return "Fitting"
    error = ", together with its error" if model.weights else ""
    return f"Fitting the chosen model, {model.told.values['chosen']}{error}"


def _plan(spec: AssessmentSpec) -> Plan:
    sampling = spec.sampling
    limits = {} if sampling.max_sweeps is None else {"max_sweeps": sampling.max_sweeps}
    return Plan(
        n_chains=sampling.chains,
        thin=sampling.thin,
        stop=StopRule(
            rhat=sampling.rhat, ess=sampling.ess, max_seconds=sampling.max_seconds, **limits
        ),
    )


def _completed(spec: AssessmentSpec, plan: Plan) -> AssessmentSpec:
    """Write down the limit that was left to the sampler; the estimate tells the rest."""
    sampling = spec.sampling.model_copy(update={"max_sweeps": plan.stop.max_sweeps})
    return spec.model_copy(update={"sampling": sampling})


def _workers(spec: AssessmentSpec) -> Workers:
    return Workers(n_workers=spec.sampling.workers, n_threads=spec.sampling.threads)


def _ignore(_: str) -> None:
    """Tell nobody."""
