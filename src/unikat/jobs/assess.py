"""The main job: from data and options to an answer, and to the folder of a run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from unikat.classics.table import Classics
from unikat.data.frames import FrameKind
from unikat.data.grouping import HouseholdSample
from unikat.data.microdata import Microdata
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.plan import Plan
from unikat.inference.progress import Watcher
from unikat.jobs.assessment import Assessment
from unikat.jobs.from_python import documented, run_from_python
from unikat.jobs.households import read_sample
from unikat.jobs.inputs import Release, read_registry, read_release
from unikat.jobs.job import Job, in_folder, plan_of
from unikat.models.auto import Auto
from unikat.models.base import GroupsLevels
from unikat.models.device import check_kernels
from unikat.models.named import build_model
from unikat.protection.cumulative import cumulative
from unikat.protection.learned import Learned, learned
from unikat.protection.linkage import Linkage, check_linkage, linkage
from unikat.protection.recoded_law import grouping
from unikat.protection.what_if import Posterior
from unikat.report.facts.breakdown import Column
from unikat.report.facts.release import ReleaseResult
from unikat.report.facts.result import Stage
from unikat.report.facts.supplements import Supplements, find_classics, find_column
from unikat.report.folders import assessment as results
from unikat.report.folders.findings import Findings
from unikat.report.folders.outputs import RESULT
from unikat.report.text import sentences
from unikat.risk.estimate import RiskEstimate
from unikat.risk.registry import Registry
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import Inputs
from unikat.spec.key_errors import rates_of
from unikat.spec.kinds import ASSESS, MODEL
from unikat.studies.fit import Fit, check_registry, fit
from unikat.zeros.conflicts import Handled


@documented(ASSESS)
def assess(data: Any, *given: Any, **options: Any) -> Assessment:
    """Assess the disclosure risk of microdata: the whole job, from a file or frame to the answer.

    Parameters
    ----------
    data
        A pandas or polars frame, a pyarrow table, a DuckDB relation, or the path of a file; or the
        path of an ``assessment.toml``, over which the options go.

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
    return run_from_python(ASSESS, run, (data, *given), options)


@in_folder(ASSESS)
def run(job: Job[AssessmentSpec]) -> Assessment:
    """Assess what a specification names, in a folder of its own (see :func:`in_folder`).

    Results are written as a whole or not at all, but for the preliminary answer of `auto`.
    """
    spec, inputs, folder, watcher = job.spec, job.inputs, job.folder, job.watcher
    asked = load_and_check(spec, inputs, watcher)
    model, plan, microdata, table = asked.model, asked.plan, asked.microdata, asked.table
    handled, households, registry = asked.handled, asked.households, asked.registry
    classics, columns = asked.classics, asked.columns

    def findings(estimate: RiskEstimate, supplements: Supplements, stage: Stage) -> Findings:
        record = job.record(table.fingerprint, microdata.source.queries)
        return Findings.of(estimate, job.completed(), record, handled, supplements, stage)

    first: list[Findings] = []

    def preliminary(estimate: RiskEstimate) -> None:
        """Show the preliminary answer, and write it unless the folder holds complete results."""
        supplements = Supplements(classics=classics, columns=columns, households=households)
        first.append(findings(estimate, supplements, "preliminary"))
        watcher.note(sentences.preliminary(first[0].result))
        if folder is not None and not (folder / results.MANIFEST).exists():
            results.write_result(first[0], folder)

    kept = job.execution.of(MODEL)
    try:
        fitted = fit(
            model,
            table,
            seed=spec.sampling.seed,
            plan=plan,
            level=spec.report.level,
            registry=registry,
            checkpoint=kept.checkpoint,
            execution=replace(kept, preliminary=preliminary, whole_run=True),
        )
    except KeyboardInterrupt:
        if first:
            return _assessment(first[0], inputs, None)
        raise
    except SpecError:
        if (
            first
            and folder is not None
            and not job.resume
            and not (folder / results.MANIFEST).exists()
        ):
            # What cannot be decided has no answer.
            (folder / RESULT).unlink(missing_ok=True)
        raise
    told, links = _beyond_keys(fitted, classics, job)
    supplements = Supplements(
        learned=told,
        linkage=links,
        release=_together(fitted, asked.release, job),
        registry=fitted.registry_risk(spec.report.level),
        classics=classics,
        columns=columns,
        households=households,
    )
    found = findings(fitted.estimate(spec.report.level), supplements, "final")
    return job.finished(_assessment(found, inputs, folder))


def _beyond_keys(
    fitted: Fit, classics: Classics | None, job: Job[AssessmentSpec]
) -> tuple[tuple[Learned, ...], Linkage | None]:
    """What an intruder learns about sensitive variables, and links by keys with errors.

    Both by states of the fit; nothing where the model does not tell it.
    """
    asked, errors = () if classics is None else classics.sensitive, job.spec.key_errors
    table, links = fitted.table, None
    told: tuple[Learned, ...] = ()
    if not (asked or errors):
        return (), None
    if not isinstance(fitted.model, GroupsLevels) or table.layout is not None:
        return (), None
    posterior = Posterior.of(fitted, n_threads=job.workers.n_threads)
    level, seed = job.spec.report.level, job.spec.sampling.seed
    if asked:
        job.watcher.stage("Inferring sensitive variables")
        every = (
            learned(posterior, one.name, one.codes.astype(np.int64), level, seed) for one in asked
        )
        told = tuple(one for one in every if one is not None)
    if errors:
        job.watcher.stage("Linking with errors in the keys")
        links = linkage(posterior, rates_of(errors, [key.name for key in table.keys]), level)
    return told, links


def _together(
    fitted: Fit, release: Release | None, job: Job[AssessmentSpec]
) -> ReleaseResult | None:
    """What an intruder finds who has both releases."""
    if release is None:
        return None
    job.watcher.stage("Linking records")
    posterior = Posterior.of(fitted, n_threads=job.workers.n_threads)
    level, seed = job.spec.report.level, job.spec.sampling.seed
    found = cumulative(posterior, release.linked.right, level, seed)
    assert job.spec.release is not None
    path = job.spec.release.path
    links, known = release.linked, release.known
    return ReleaseResult(
        data=None if path is None else path.name,
        n_records=release.n_records,
        n_both=int((links.partner >= 0).sum()) if known else None,
        shared=release.shared,
        further=release.further,
        n_certain=int(links.certain.sum()),
        n_wrong=int((links.unique & (links.right == 0.0)).sum()) if known else None,
        links=float(links.right.sum()),
        tau1=None if found is None else found.tau1,
        tau2=None if found is None else found.tau2,
    )


class Loaded(NamedTuple):
    """Everything that is known before the first fit."""

    model: Any
    plan: Plan
    microdata: Microdata
    table: CellTable
    handled: Handled | None
    households: HouseholdSample | None
    classics: Classics | None
    columns: tuple[Column, ...]
    registry: Registry | None
    release: Release | None


def load_and_check(spec: AssessmentSpec, inputs: Inputs, watcher: Watcher) -> Loaded:
    """Read all that an assessment reads, and check all that can be checked before the first fit."""
    model = build_model(spec.model.name, spec.model.options)
    if spec.registry is not None:
        check_registry(model)
    if model.name != Auto.name:
        # What `auto` selects can be recoded.
        if spec.report.keep_states:
            grouping(model)
        if spec.key_errors:
            grouping(model, "how many links are correct if keys have errors")
        if spec.release is not None:
            grouping(model, "the risk of two releases together")
    plan = plan_of(spec.sampling)
    microdata, table, handled, households = read_sample(spec, inputs, watcher)
    release = None
    if spec.release is not None:
        watcher.stage("Linking the other release")
        release = read_release(spec, microdata, table, inputs.release)
        table = release.table
    model.check_keys([key.name for key in table.keys])
    if spec.key_errors:
        check_linkage(table, rates_of(spec.key_errors, [key.name for key in table.keys]))
    if spec.sampling.device == "cuda" and model.name != Auto.name:
        check_kernels(model, table)
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
    return Loaded(
        model, plan, microdata, table, handled, households, classics, columns, registry, release
    )


def _assessment(found: Findings, inputs: Inputs, folder: Path | None) -> Assessment:
    return Assessment(
        summary=found.result,
        spec=found.spec,
        folder=folder,
        _traces=found.traces,
        _findings=found,
        _frames=FrameKind.of(inputs.data),
    )
