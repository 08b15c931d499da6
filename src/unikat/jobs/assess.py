"""The main job: from data and options to an answer, and to the folder of a run."""

from __future__ import annotations

import contextlib
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

from unikat.data.checks import table_warnings
from unikat.data.frames import FrameKind
from unikat.errors import OutputError, SpecError, option
from unikat.files.folder import into_folder
from unikat.files.writing import make_folder
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule
from unikat.inference.checkpoint import FILE_NAME as CHECKPOINT
from unikat.inference.checkpoint import Checkpoint
from unikat.jobs.assessment import Assessment
from unikat.jobs.inputs import design_of, open_data, read_registry, without_conflicts
from unikat.jobs.progress import Watcher, silent, watching
from unikat.models.base import check_keys
from unikat.models.named import build_model
from unikat.report.facts.assessment import Stage
from unikat.report.facts.supplements import Supplements, find_classics, find_column
from unikat.report.folders import assessment as results
from unikat.report.folders.assessment import Findings
from unikat.report.text import assessment
from unikat.risk.estimate import RiskEstimate
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import Inputs, documented, specify
from unikat.spec.options import AssessOptions
from unikat.spec.provenance import Provenance
from unikat.spec.tables import SamplingSpec
from unikat.studies.auto import Execution
from unikat.studies.compare import Store
from unikat.studies.fit import check_registry, fit

EVIDENCE = "evidence"
"""Folder inside a run's in which `auto` keeps finished fits until the run has converged."""


class Unfinished(KeyboardInterrupt):
    """Ctrl-C before there was an answer; what was done is kept in the folder of the run."""


@documented(AssessmentSpec, AssessOptions)
def assess(
    data: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    overwrite: bool = False,
    progress: bool | None = None,
    **options: Unpack[AssessOptions],
) -> Assessment:
    """Assess the disclosure risk of microdata: the whole job, from a file or frame to the answer.

    Parameters
    ----------
    data
        A pandas or polars frame, a pyarrow table, a DuckDB relation, or the path of a file; or the
        path of an ``assessment.toml``, over which the options go.
    out
        Folder for the results. The run is saved there while it lasts, so that `resume` can go on
        with it. None: nothing is written; see :meth:`Assessment.save`.
    resume
        Continue the unfinished run in `out`.
    overwrite
        Replace the run in `out`, once the new results are complete.
    progress
        Show the progress. None: in notebooks and on terminals only.

    Returns
    -------
    Assessment
        The answer. After Ctrl-C it holds what was done, marked as not converged.

    Raises
    ------
    SpecError, DataError
        If an option or the data are wrong. Nothing was written.
    OutputError
        If `out` holds a run and neither `resume` nor `overwrite` is set, or it cannot be written.
    KeyboardInterrupt
        On Ctrl-C before there was any answer.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"], "age": [31, 44, 68]})
    >>> result = unikat.assess(frame, keys=["sex", "age"], population_size=3)
    >>> result.tau1.mean
    3.0
    """
    spec, inputs = specify(AssessmentSpec, AssessOptions, data, options)
    with watching(progress) as watcher:
        folder = None if out is None else Path(out).expanduser()
        return run(spec, inputs, folder, resume=resume, overwrite=overwrite, watcher=watcher)


@into_folder(*results.FILES, CHECKPOINT, EVIDENCE)
def run(
    spec: AssessmentSpec,
    inputs: Inputs,
    folder: Path | None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    watcher: Watcher | None = None,
) -> Assessment:
    """Assess what a specification names.

    Parameters
    ----------
    spec
        What to do.
    inputs
        Data that were handed over as values.
    folder
        Where the results go. While the run lasts it holds the checkpoint, which stays if the
        chains have not converged, and what `auto` has found out so far. None: nothing is written.
    resume
        Continue from the checkpoint in the folder.
    overwrite
        Replace the run that is in the folder, once the new results are complete.
    watcher
        Callbacks for progress.

    Raises
    ------
    SpecError, DataError
        If anything asked for is wrong. Nothing was written.
    OutputError
        If the folder holds a run and neither `resume` nor `overwrite` is set, or it cannot be
        written to: noticed before the work begins. Results are written as a whole or not at all.
    Unfinished
        On Ctrl-C before there is an answer, if finished fits are kept in the folder.
    KeyboardInterrupt
        On Ctrl-C so early that nothing is kept.
    """
    watcher = watcher or silent()
    started = datetime.now(UTC)
    model = build_model(spec.model.name, spec.model.options)
    if spec.registry is not None:
        check_registry(model)
    design = design_of(spec.design, spec.population_size)
    plan = plan_of(spec.sampling)
    workers = Workers(n_workers=spec.sampling.workers, n_threads=spec.sampling.threads)
    if folder is None and (resume or overwrite):
        raise SpecError("resume and overwrite need the folder of the run; name it with out.")
    if folder is not None:
        check_folder(folder, resume=resume, overwrite=overwrite)
    watcher.stage("Reading")
    microdata = open_data(spec.data, spec.keys, design, inputs.data)
    table = microdata.tabulate()
    handled = None
    if spec.zeros is not None:
        handled = without_conflicts(table, spec.zeros, spec.data)
        table = handled.table
    check_keys(model, [key.name for key in table.keys])
    watcher.note(assessment.understood(table))
    for warning in table_warnings(table):
        watcher.note(f"Warning: {warning}")
    classics = None
    if spec.classics is not None:
        watcher.stage("Computing the classic measures")
        classics = find_classics(microdata, table, spec.classics, handled, spec.data.missing_values)
    columns = tuple(
        find_column(microdata, name, handled, spec.data.missing_values) for name in spec.report.by
    )
    registry = None
    if spec.registry is not None:
        watcher.stage("Reading the registry")
        registry = read_registry(spec, table, inputs.registry)

    def findings(estimate: RiskEstimate, supplements: Supplements, stage: Stage) -> Findings:
        record = Provenance.now(
            seed=spec.sampling.seed, data_fingerprint=table.fingerprint, started=started
        )
        return Findings.of(estimate, _completed(spec, plan), record, handled, supplements, stage)

    first: list[Findings] = []

    def preliminary(estimate: RiskEstimate) -> None:
        """Show the first answer, and write it unless the folder holds complete results."""
        supplements = Supplements(classics=classics, columns=columns)
        first.append(findings(estimate, supplements, "preliminary"))
        watcher.note(assessment.first_answer(first[0].result))
        if folder is not None and not (folder / results.MANIFEST).exists():
            first[0].write_result(folder)

    with _kept(folder, resume=resume, overwrite=overwrite) as kept:
        try:
            fitted = fit(
                model,
                table,
                seed=spec.sampling.seed,
                plan=plan,
                level=spec.report.level,
                registry=registry,
                checkpoint=kept.checkpoint,
                execution=Execution(
                    workers=workers,
                    folder=None if kept.evidence is None else kept.evidence.folder,
                    resume=resume,
                    progress=watcher.progress,
                    stage=watcher.stage,
                    preliminary=preliminary,
                ),
            )
        except KeyboardInterrupt:
            if first:
                return _assessment(first[0], inputs, None)
            kept.unfinished()
            raise
        except SpecError:
            if not resume:
                # What cannot be decided is no unfinished run.
                kept.clear(folder)
            raise
        try:
            supplements = Supplements(
                registry=fitted.registry_risk(spec.report.level), classics=classics, columns=columns
            )
            found = findings(fitted.estimate(spec.report.level), supplements, "final")
            if folder is not None:
                watcher.stage("Writing")
                found.write(folder)
        except KeyboardInterrupt:
            kept.unfinished()
            raise
        if folder is not None and found.result.converged:
            kept.clear(None)
    return _assessment(found, inputs, folder)


def _assessment(found: Findings, inputs: Inputs, folder: Path | None) -> Assessment:
    return Assessment(
        result=found.result,
        spec=found.spec,
        folder=folder,
        _traces=found.traces,
        _findings=found,
        _kind=FrameKind.of(inputs.data),
    )


class _Kept:
    """What is kept in the folder of a run while it lasts."""

    def __init__(self, folder: Path | None, *, resume: bool) -> None:
        self.checkpoint = None if folder is None else Checkpoint(folder=folder, resume=resume)
        self.evidence = None if folder is None else Store(folder=folder / EVIDENCE, resume=resume)

    def unfinished(self) -> None:
        """Say after Ctrl-C that something is kept, if it is (Unfinished)."""
        if self.checkpoint is None or self.evidence is None:
            return
        if self.checkpoint.path.exists() or self.evidence.folder.exists():
            raise Unfinished(
                f"Interrupted. What was done is kept in {self.checkpoint.path.parent}; continue "
                f"with {option('resume', True)}."
            ) from None

    def clear(self, folder: Path | None) -> None:
        """Delete it; with a folder also a preliminary result there."""
        if self.checkpoint is not None:
            self.checkpoint.remove()
        if self.evidence is not None:
            self.evidence.clear()
        if folder is not None and not (folder / results.MANIFEST).exists():
            (folder / results.RESULT).unlink(missing_ok=True)


@contextlib.contextmanager
def _kept(folder: Path | None, *, resume: bool, overwrite: bool) -> Any:
    """Make the folder of a run; it goes again if nothing was kept in it."""
    kept = _Kept(folder, resume=resume)
    made = folder is not None and make_folder(folder)
    try:
        if overwrite:
            # Else what is found now could not be continued beside the old chains.
            kept.clear(None)
        yield kept
    finally:
        if made and folder is not None:
            with contextlib.suppress(OSError):
                folder.rmdir()


def check_folder(folder: Path, *, resume: bool = False, overwrite: bool = False) -> None:
    """Refuse a folder that holds another run, before any work is done.

    Raises
    ------
    OutputError
        With what to do.
    """
    if resume and overwrite:
        raise SpecError("resume and overwrite exclude each other; give one of them.")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; name another with {option('out')}.")
    unfinished = (folder / CHECKPOINT).exists() or (folder / EVIDENCE).exists()
    found = [name for name in results.FILES if (folder / name).exists()]
    if resume and found and not unfinished:
        raise OutputError(
            f"The run in {folder} is finished: there is nothing to resume. Read its "
            f"{results.REPORT}, or repeat the run with {option('overwrite', True)}."
        )
    if resume or overwrite or not (found or unfinished):
        return
    what = "an unfinished run" if unfinished else f"a run ({', '.join(found)})"
    remedy = f"Continue it with {option('resume', True)}, or replace" if unfinished else "Replace"
    raise OutputError(
        f"The folder {folder} already holds {what}. {remedy} it with {option('overwrite', True)}, "
        f"or name another with {option('out')}. Nothing was written."
    )


def plan_of(sampling: SamplingSpec) -> Plan:
    """Chains, thinning and limits that a specification names."""
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
