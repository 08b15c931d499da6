"""What all kinds of runs share: the call, the folder they work in, and the record they leave.

A kind of run is a line in `unikat.spec.kinds`, a specification, and a function of a :class:`Job`
that :func:`in_folder` decorates. The function raises SpecError or DataError if anything asked for
is wrong, before anything is written; OutputError if the results cannot be written; and, on Ctrl-C
before there is an answer, Unfinished if work is kept in the folder, else KeyboardInterrupt.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Generic, TypeVar

from unikat.data.frames import FrameKind
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, option
from unikat.files.folder import check_free, owned
from unikat.files.writing import make_folder
from unikat.inference.backends import Workers
from unikat.inference.executors import executor_for_run, executor_of_run
from unikat.inference.plan import Plan, StopRule
from unikat.inference.progress import SILENT, Watcher
from unikat.jobs.outcome import Outcome, check_folder, refuse_other_kind
from unikat.models.device import check_device
from unikat.report.text.language import speaking
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import FITS, Kind
from unikat.spec.provenance import Provenance
from unikat.spec.tables import SamplingSpec
from unikat.studies.auto import Execution
from unikat.studies.fit import Fit, complete_fit
from unikat.studies.store import FitStore

S = TypeVar("S", bound=Any)
Answer = TypeVar("Answer")
Done = TypeVar("Done", bound="Outcome")


class Unfinished(KeyboardInterrupt):
    """Ctrl-C before there was an answer; what was done is kept in the folder of the run."""


@dataclass(frozen=True, kw_only=True)
class Job(Generic[S]):
    """A run that has its folder: what is asked, and what every kind of run makes of it."""

    kind: Kind
    spec: S
    inputs: Inputs
    folder: Path | None
    """Where the results go; None: nothing is written."""
    resume: bool
    overwrite: bool
    watcher: Watcher
    started: datetime

    @property
    def plan(self) -> Plan:
        """Chains, thinning and limits of each fit."""
        return plan_of(self.spec.sampling)

    @property
    def workers(self) -> Workers:
        """Processes and threads."""
        return workers_of(self.spec.sampling)

    @property
    def store(self) -> FitStore | None:
        """Where a run of several fits keeps them; None if nothing is written."""
        if self.folder is None or FITS not in self.kind.work:
            return None
        return FitStore(folder=self.folder / FITS, resume=self.resume)

    @property
    def execution(self) -> Execution:
        """How fits are made."""
        return Execution(
            workers=self.workers,
            folder=None if self.store is None else self.store.folder,
            resume=self.resume,
            watcher=self.watcher,
        )

    def fit(self, name: str, model: Any, table: CellTable, level: float | None = None) -> Fit:
        """Fit as `complete_fit` does; `level` is that of the report, unless it is given."""
        return complete_fit(
            name,
            model,
            table,
            seed=self.spec.sampling.seed,
            plan=self.plan,
            level=self.spec.report.level if level is None else level,
            execution=self.execution,
        )

    @property
    def frames(self) -> FrameKind:
        """The kind of frames that the answer gives."""
        return FrameKind.of(self.inputs.data)

    def finished(self, answer: Done) -> Done:
        """Return the answer, after it is written where the results go."""
        if self.folder is not None:
            self.watcher.stage("Writing")
            answer.write(self.folder)
        return answer

    def record(self, data_fingerprint: str = "", queries: tuple[str, ...] = ()) -> Provenance:
        """Say what made the results.

        Parameters
        ----------
        data_fingerprint
            Of the table of cells; empty where it would confirm guesses of what was hidden.
        queries
            What ran on the server of a database.
        """
        return Provenance.now(
            seed=self.spec.sampling.seed,
            data_fingerprint=data_fingerprint,
            started=self.started,
            queries=queries,
        )

    def completed(self, **more: Any) -> S:
        """Return what was asked with the limit that was left to the sampler, and with `more`."""
        limit = {"max_sweeps": self.plan.stop.max_sweeps}
        sampling = self.spec.sampling.model_copy(update=limit)
        found: S = self.spec.model_copy(update={"sampling": sampling, **more})
        return found


def in_folder(kind: Kind) -> Callable[[Callable[[Job[Any]], Answer]], Callable[..., Answer]]:
    """Let a run have its folder to itself, after proving that it may and can write there.

    The function that is decorated takes a :class:`Job`. The one that this makes takes ``(spec,
    inputs, folder, *, resume, overwrite, watcher)``. It raises before it begins: SpecError if
    `resume` and `overwrite` contradict each other or lack a folder; OutputError if another run
    writes there, if the folder holds results that are neither to be resumed nor replaced, if a file
    there is not one of unikat's or is an input of the run, or if the folder cannot be written to.
    """
    return functools.partial(_placed, kind, False)


def beside_folder(kind: Kind) -> Callable[[Callable[[Job[Any]], Answer]], Callable[..., Answer]]:
    """Let a dry run see its folder as `in_folder` does, with the same refusals, and leave it."""
    return functools.partial(_placed, kind, True)


def _placed(kind: Kind, dry: bool, run: Callable[[Job[Any]], Answer]) -> Callable[..., Answer]:
    @functools.wraps(run)
    def with_folder(
        spec: Any,
        inputs: Inputs,
        folder: Path | None,
        *,
        resume: bool = False,
        overwrite: bool = False,
        watcher: Watcher | None = None,
    ) -> Answer:
        if folder is None and (resume or overwrite):
            raise SpecError(
                f"resume and overwrite need the folder of the {kind.noun}; name it with out."
            )
        if spec.sampling.executor == "processes":
            # A worker of a cluster looks for itself.
            check_device(spec.sampling.device)
        if folder is not None:
            refuse_other_kind(kind, folder)
        with ExitStack() as stack:
            if folder is not None and dry:
                check_free(folder, kind.names, spec.input_files())
            elif folder is not None:
                stack.enter_context(owned(folder, kind.names, spec.input_files()))
            if folder is not None:
                check_folder(kind, folder, resume=resume, overwrite=overwrite)
            if not dry:
                if folder is not None:
                    make_folder(folder)
                stack.enter_context(executor_for_run(spec.sampling.executor, spec.sampling.workers))
            job = Job(
                kind=kind,
                spec=spec,
                inputs=inputs,
                folder=folder,
                resume=resume,
                overwrite=overwrite,
                watcher=watcher or SILENT,
                started=datetime.now(UTC),
            )
            stack.enter_context(speaking(spec.report.language, spec.report.terms))
            return run(job) if dry or job.store is None else _keeping(job, job.store, run)

    return with_folder


def _keeping(job: Job[Any], store: FitStore, run: Callable[[Job[Any]], Answer]) -> Answer:
    """Make a run of several fits, which are kept until all have converged.

    Those of a run that is replaced go once there are others: on a full disk there never are. Those
    of one that is refused go, unless it was resumed.
    """
    earlier = store.kept() if job.overwrite else set()

    def forget() -> None:
        if earlier and not (now := store.kept()) <= earlier:
            store.clear(now & earlier)
            earlier.clear()

    def staged(words: str) -> None:
        forget()
        job.watcher.stage(words)

    def progressed(event: Any) -> None:
        forget()
        if job.watcher.progress is not None:
            job.watcher.progress(event)

    try:
        watcher = replace(job.watcher, stage=staged, progress=progressed)
        answer: Any = run(replace(job, watcher=watcher) if earlier else job)
    except (SpecError, DataError):
        if not (job.resume or job.kind.extends):
            store.clear(store.kept() - earlier)
        raise
    except KeyboardInterrupt:
        if store.kept() <= earlier:
            raise
        raise Unfinished(
            f"Interrupted. What was done is kept in {job.folder}; continue with "
            f"{option('resume', True)}."
        ) from None
    finally:
        forget()
    if answer.converged and not job.kind.extends:
        store.clear()
    found: Answer = answer
    return found


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


def workers_of(sampling: SamplingSpec) -> Workers:
    """Processes and threads that a specification names."""
    return Workers(
        executor=executor_of_run(),
        n_workers=sampling.workers,
        n_threads=sampling.threads,
        device=sampling.device,
    )
