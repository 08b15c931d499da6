"""What a run would do, before it does it: read and count, try a few sweeps, and add up.

The data are read as the run reads them, so that wrong input has the same messages. The folder of
the results is looked at and left as it is.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple, ParamSpec

from unikat.data.table import CellTable
from unikat.data.units import HOUSEHOLD, RECORD
from unikat.errors import SpecError
from unikat.inference.trial import SLOWER
from unikat.jobs import assess, attack, check, compare, evaluate, protect_inputs, synthesize, verify
from unikat.jobs.attack_parts import fits_of
from unikat.jobs.from_python import run_from_python
from unikat.jobs.job import Job, beside_folder
from unikat.models.auto import Auto
from unikat.models.options import memory
from unikat.report.facts.columns import ColumnFacts
from unikat.report.facts.dry_run import DryRunFacts, FitForeseen, KeyCount, Span
from unikat.report.facts.levels import LevelsFacts
from unikat.report.facts.zeros import zeros_facts
from unikat.report.text import dry_run as words
from unikat.risk.estimate import known_exactly
from unikat.risk.exposure import fitted_table
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.attack import AttackSpec
from unikat.spec.base import Spec
from unikat.spec.check import CheckSpec
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.kinds import (
    ASSESS,
    ATTACK,
    CHECK,
    COMPARE,
    EVALUATE,
    KINDS,
    PROTECT,
    SYNTHESIZE,
    VERIFY,
    Kind,
)
from unikat.spec.protection import ProtectionSpec
from unikat.spec.synthesis import SynthesisSpec
from unikat.spec.verification import VerifySpec
from unikat.studies import foreseen
from unikat.studies.compare import Candidate, check_candidates
from unikat.studies.foreseen import ForeseenFit, Workload
from unikat.synthesis.convergence import SynthesisMeasures
from unikat.synthesis.generators import ByModel
from unikat.zeros.conflicts import Handled

P = ParamSpec("P")

MIB = 2.0**20
WORKER = 110 * MIB
"""Memory of a worker process before it has any data, shared pages counted in part."""
START_SECONDS = (1.0, 15.0)
"""Importing, starting processes, compiling what is not in the cache, writing."""
UNSURE = (0.75, 1.5)
"""Factors around the memory that is counted (docs/design/databases.md)."""
RECORD_BYTES = 400.0
"""Memory of one record while the results are made."""


@dataclass(frozen=True, kw_only=True)
class DryRun(DryRunFacts):
    """What a run would do; from :func:`unikat.dry_run`. Printed, it says so in words.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"], "age": [31, 44, 68]})
    >>> plan = unikat.dry_run(unikat.assess, frame, keys=["sex", "age"], population_size=30)
    >>> plan.n_records, plan.n_sample_uniques
    (3, 3)
    """

    def __repr__(self) -> str:
        return "\n".join(words.lines(self))


def dry_run(run: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> DryRun:
    """Say what a run would do, how long it would take, and what it needs, without running it.

    The data are read and counted, and a few sweeps are made to measure them. Nothing is written.

    Parameters
    ----------
    run
        :func:`unikat.assess`, or any other function that makes a run.
    *args, **kwargs
        What it would be called with.

    Returns
    -------
    DryRun
        Its fields are those of ``--dry-run --json``; printed, it says them in words. Times are in
        seconds, sizes in bytes.

    Raises
    ------
    SpecError, DataError, OutputError
        As the run, before its first fit.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"sex": ["f", "m", "f"], "age": [31, 44, 68]})
    >>> plan = unikat.dry_run(unikat.assess, frame, keys=["sex", "age"], population_size=30)
    >>> plan.n_records, plan.n_cells, plan.n_sample_uniques
    (3, 3, 3)
    """
    kind = KINDS.get(getattr(run, "__name__", ""))
    if kind is None or getattr(import_module(f"unikat.jobs.{kind.name}"), kind.name) is not run:
        raise SpecError(
            "dry_run takes unikat.assess, or another function that makes a run, and then what it "
            "would be called with."
        )
    foresee = globals()[f"of_{kind.noun}"]
    told: DryRun = run_from_python(kind, foresee, args, kwargs)
    return told


class Told(NamedTuple):
    """What a kind of run will do, once it has read its data."""

    table: CellTable
    load: Workload
    """Its fits."""
    results: Span = Span(lower=100e3, upper=500e3)
    """Bytes of its files."""
    handled: Handled | None = None
    search: tuple[float, float] = (0.0, 0.0)
    """Seconds of a search besides the fits, at least and at most."""
    columns: tuple[ColumnFacts, ...] = ()
    """Of a protection: what would be done to the columns that are no keys."""


def _of(
    kind: Kind, job_module: ModuleType
) -> Callable[[Callable[[Job[Any], Any], Told]], Callable[..., DryRun]]:
    """Make the dry run of a kind: read and check as the run does, then say what it will do.

    The function that is decorated takes a :class:`Job` and what `load_and_check` of its module has
    found.
    """

    def decorate(tell: Callable[[Job[Any], Any], Told]) -> Callable[..., DryRun]:
        @beside_folder(kind)
        def foresee(job: Job[Any]) -> DryRun:
            begin = time.monotonic()
            asked = job_module.load_and_check(job.spec, job.inputs, job.watcher)
            read = time.monotonic() - begin
            job.watcher.stage("Measuring sweeps")
            return _dry_run(job, tell(job, asked), read)

        return foresee

    return decorate


def _how(job: Job[Any]) -> dict[str, Any]:
    """How a fit is tried that is made as the specification says."""
    return {"plan": job.plan, "seed": job.spec.sampling.seed, "workers": job.workers}


@_of(ASSESS, assess)
def of_assessment(job: Job[AssessmentSpec], asked: assess.Loaded) -> Told:
    """Say what `jobs.assess.run` would do."""
    load = foreseen.of_assessment(asked.model, asked.table, registry=asked.registry, **_how(job))
    kept = max((fit.course.n_chains * fit.pace.state_bytes for fit in _sampled(load)), default=0.0)
    n, uniques = asked.table.n_records, asked.table.n_uniques
    n_draws = [
        times * fit.course.n_chains * fit.course.fewest_sweeps / fit.course.thin
        for fit in _sampled(load)[-1:]
        for times in (1.0, SLOWER)
    ] or [0.0, 0.0]
    states = kept if job.spec.report.keep_states else 0.0
    results = Span(
        lower=150e3 + 15.0 * n + 40.0 * uniques + 40.0 * n_draws[0] + 0.5 * states,
        upper=300e3 + 60.0 * n + 120.0 * uniques + 70.0 * n_draws[1] + states,
    )
    return Told(asked.table, load, results, asked.handled)


@_of(COMPARE, compare)
def of_comparison(job: Job[ComparisonSpec], asked: compare.Loaded) -> Told:
    """Say what `jobs.compare.run` would do."""
    # What auto selects is not known yet; where the file tells the risk nothing is selected.
    settled = [
        Candidate(label=one.label, model=one.model)
        for one in asked.named
        if not isinstance(one.model, Auto) or known_exactly(asked.table)
    ]
    if settled:
        check_candidates(settled, asked.table)
    for one in asked.named:
        one.model.check_keys([key.name for key in asked.table.keys])
    load = foreseen.of_comparison(
        [(one.label, one.model) for one in asked.named],
        asked.table,
        asked.settings,
        workers=job.workers,
    )
    results = Span(lower=100e3, upper=500e3 + 50e3 * len(asked.named))
    return Told(asked.table, load, results, asked.handled)


@_of(EVALUATE, evaluate)
def of_evaluation(job: Job[EvaluationSpec], asked: evaluate.Loaded) -> Told:
    """Say what `jobs.evaluate.run` would do."""
    generators = {
        f"files of {label}": one.make.model
        for label, one in asked.synthesizers.items()
        if isinstance(one.make, ByModel)
    }
    models = {**asked.models, **generators}
    load = foreseen.of_study(asked.population, models, asked.study, workers=job.workers)
    n_fits = len(asked.study.sizes) * asked.study.repeats * len(models)
    results = Span(lower=100e3 + 1e3 * n_fits, upper=500e3 + 6e3 * n_fits)
    return Told(asked.population.table, load, results, asked.handled)


@_of(PROTECT, protect_inputs)
def of_protection(job: Job[ProtectionSpec], asked: protect_inputs.Loaded) -> Told:
    """Say what `jobs.protect.run` would do.

    The fit of the protected file takes at most as long as that of the file, since its keys are
    coarser. States are made by half as many sweeps as draws, and a search looks at them. Keys that
    stay are not fitted again.
    """
    asked.model.check_keys([key.name for key in asked.table.keys])
    load = foreseen.of_assessment(asked.model, asked.table, **_how(job))
    upper = load.seconds()[1]
    search = 0.0, 0.5 * upper
    if job.spec.seeks:
        looks = protect_inputs.looks_foreseen(asked.model, asked.table, job.spec.sampling.seed)
        least, most = looks.closely
        search = least, looks.search + most + 0.5 * upper
    # The check by a policy fits the protected file once more.
    n_fits = (job.spec.assessed is None) + job.spec.changes_keys + (job.spec.policy is not None)
    fits, files = load * n_fits, _files_of_records(job.spec)
    return Told(asked.table, fits, files, asked.handled, search, asked.columns.facts)


@_of(VERIFY, verify)
def of_verification(job: Job[VerifySpec], asked: verify.Loaded) -> Told:
    """Say what `jobs.verify.run` would do.

    The protected file is fitted too, unless it is as the original or its values are perturbed.
    """
    asked.model.check_keys([key.name for key in asked.table.keys])
    load = foreseen.of_assessment(asked.model, asked.table, **_how(job))
    return Told(asked.table, load if asked.identical or asked.perturbed else load * 2)


@_of(CHECK, check)
def of_check(job: Job[CheckSpec], asked: check.Loaded) -> Told:
    """Say what `jobs.check.run` would do: it fits nothing where every limit is counted."""
    if asked.table is None:
        raise SpecError("The policy looks at names of columns alone: there is nothing to foresee.")
    if not asked.needs_model:
        return Told(asked.table, Workload(fits=()))
    asked.model.check_keys([key.name for key in asked.table.keys])
    return Told(asked.table, foreseen.of_assessment(asked.model, asked.table, **_how(job)))


@_of(SYNTHESIZE, synthesize)
def of_synthesis(job: Job[SynthesisSpec], asked: synthesize.Loaded) -> Told:
    """Say what `jobs.synthesize.run` would do."""
    model, fitted = asked.model, fitted_table(asked.table)
    observer, purpose = SynthesisMeasures.of(fitted), "records to draw from"
    fit = foreseen.tried(model, model.name, purpose, fitted, observer, **_how(job))
    load = foreseen.Workload(fits=(fit,))
    table = replace(asked.original.table, population_size=None)
    return Told(table, load, _files_of_records(job.spec, job.spec.datasets))


@_of(ATTACK, attack)
def of_attack(job: Job[AttackSpec], asked: attack.Loaded) -> Told:
    """Say what `jobs.attack.run` would do.

    The fits alone (see `fits_of`).
    """
    fitted, load = asked.fitted(job.spec), Workload(fits=())
    for one in fits_of(fitted, **_how(job)):
        load += one.load * one.n
    table = replace(fitted.original, population_size=job.spec.population_size)
    return Told(table, load)


def _files_of_records(spec: Spec, n: int = 1) -> Span:
    """Bytes of the results of a run that writes files of records as large as the data."""
    path = spec.data.path
    size = n * float(path.stat().st_size) if path is not None and path.is_file() else 0.0
    return Span(lower=150e3 + 0.2 * size, upper=1e6 + 2.0 * size)


def _dry_run(job: Job[Any], told: Told, seconds_to_read: float) -> DryRun:
    """Add up."""
    spec, folder, command = job.spec, job.folder, job.kind.name
    table, load, results, handled, search, others = told
    lower, upper, limit = load.seconds()
    other = [one + seconds_to_read for one in START_SECONDS]
    stored = [
        fit.course.n_chains * (fit.pace.state_bytes + 2.0 * fit.pace.totals_bytes)
        for fit in _sampled(load)
    ]
    work = max(stored, default=0.0)
    if folder is None or command == "evaluate":
        work = 0.0
    elif command not in ("assess", "compare"):
        # The chains of all fits.
        work = sum(fit.n_fits * n for fit, n in zip(_sampled(load), stored, strict=True))
    incomplete = table.counts[table.incomplete]
    return DryRun(
        command=command,
        data=spec.data.name,
        unit=(RECORD if table.layout is None else HOUSEHOLD).one,
        n_records=table.n_records,
        n_units=table.population_size,
        n_cells=table.n_cells,
        n_sample_uniques=table.n_uniques,
        n_incomplete=int(incomplete.sum()),
        keys=tuple(
            KeyCount(
                name=key.name,
                n_levels=key.n_levels,
                n_missing=n_missing,
                levels=LevelsFacts.of(key) if command == "protect" else None,
            )
            for key, n_missing in zip(table.variables, table.n_missing, strict=True)
        ),
        other_columns=others,
        zeros=zeros_facts(handled),
        known_exactly=not load.fits and command == "assess",
        fits=tuple(map(_facts, load.fits)),
        executor=spec.sampling.executor,
        at_a_time=load.at_a_time,
        target_rhat=spec.sampling.rhat,
        target_ess=spec.sampling.ess,
        seconds_to_read=seconds_to_read,
        seconds=Span(lower=lower + search[0] + other[0], upper=upper + search[1] + other[1]),
        seconds_at_limit=limit + search[1] + other[1],
        memory=_memory(table, load),
        machine_memory=memory(),
        folder=None if folder is None else str(folder),
        results=results,
        work=Span(lower=0.0, upper=work),
    )


def _sampled(load: Workload) -> list[Any]:
    """Fits of which a pace is known."""
    return [fit for fit in load.fits if fit.pace is not None]


def _facts(fit: ForeseenFit) -> FitForeseen:
    known: dict[str, Any] = {}
    if fit.course is not None:
        assert fit.pace is not None
        known = {
            name: getattr(fit.course, name)
            for name in (
                "n_chains", "n_workers", "n_threads", "thin", "fewest_sweeps", "max_sweeps",
                "seconds_per_sweep",
            )
        }  # fmt: skip
        known["measured"] = fit.pace.measured
    return FitForeseen(
        model=fit.model,
        purpose=fit.purpose,
        n_fits=fit.n_fits,
        seconds=Span(lower=fit.lower, upper=fit.upper),
        seconds_at_limit=fit.at_limit,
        refused=fit.refused,
        **known,
    )


def _memory(table: CellTable, load: Workload) -> Span | None:
    """Count the memory of the process that runs it, and of its workers."""
    used = _resident()
    if used is None:
        return None
    now, peak = used
    most = now + RECORD_BYTES * table.n_records
    for fit in _sampled(load):
        pace, course = fit.pace, fit.course
        chains = course.n_chains * (pace.state_bytes + 3.0 * pace.totals_bytes)
        # Copied when a segment begins, packed when it ends.
        working = 2.0 * pace.data_bytes + 2.0 * pace.state_bytes + 3.0 * pace.totals_bytes
        if load.at_a_time > 1:
            most = max(most, now + load.at_a_time * (WORKER + working + chains))
        elif course.n_workers > 1:
            most = max(most, now + chains + course.n_workers * (WORKER + working))
        else:
            most = max(most, now + chains + working)
    return Span(lower=max(UNSURE[0] * most, min(peak, most)), upper=max(UNSURE[1] * most, peak))


def _resident() -> tuple[float, float] | None:
    """Bytes of memory of this process, now and at most; None where the system does not tell."""
    try:
        import resource
    except ImportError:
        return None
    unit = 1 if sys.platform == "darwin" else 1024
    peak = float(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return float(pages * os.sysconf("SC_PAGE_SIZE")), peak
    except (OSError, ValueError, IndexError):
        return peak, peak
