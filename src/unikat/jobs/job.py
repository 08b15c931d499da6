"""What all kinds of runs share: the call, the folder they work in, and what they leave there.

A kind of run is a line in `unikat.spec.kinds`, a specification, and a function of a :class:`Job`
that :func:`in_folder` decorates. The function raises SpecError or DataError if anything asked for
is wrong, before anything is written; OutputError if the results cannot be written; and, on Ctrl-C
before there is an answer, Unfinished if work is kept in the folder, else KeyboardInterrupt.
"""

from __future__ import annotations

import contextlib
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import pyarrow as pa

from unikat.data.frames import FILE, FrameKind
from unikat.data.table import CellTable
from unikat.errors import DataError, Leading, OutputError, SpecError, option
from unikat.files.folder import check_free, claimed, owned
from unikat.files.json import parse_json
from unikat.files.writing import make_folder, replace_file, write_text
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule
from unikat.inference.executors import executor_for_run, executor_of_run
from unikat.inference.progress import SILENT, Watcher
from unikat.models.device import check_device
from unikat.report.folders.committee import word_document
from unikat.report.folders.folder import read_run, replace_page, write_run
from unikat.report.pages.cards import card
from unikat.report.pages.committee import render as render_committee
from unikat.report.pages.plots import Figures
from unikat.report.text.language import speaking
from unikat.report.text.summary import explained
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import ASSESS, COMMITTEE, FITS, KINDS, WORD, Kind, kind_in
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


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Outcome(Leading, ABC):
    """The answer of a run, whether it was just made or read from its folder."""

    summary: Any
    """Every number of the page, as the file of the numbers holds them. Called, `summary()`, it
    gives the main ones as a pandas frame."""
    spec: Any
    """What was asked, completed with what was left to be decided."""
    folder: Path | None = None
    """Where the results lie; None if they were not written."""
    _frames: FrameKind = FILE

    kind: ClassVar[Kind]

    @classmethod
    def loaded(cls, folder: Path, trust_spec: bool) -> Self:
        """Read the answer of a complete run from its folder; see :func:`load`."""
        summary, spec = read_run(cls.kind, folder)
        return cls(summary=summary, spec=spec, folder=folder.resolve())

    def handed(self, data: Any, asked: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return what an option gets to which the answer is given, and options that go with it.

        Parameters
        ----------
        data
            What the other run is about.
        asked
            Its options.

        Raises
        ------
        SpecError
            If nothing is made of such an answer.
        """
        raise SpecError(
            f"An option was given {_with_article(self.kind)}; only the answer of unikat.synthesize "
            "can be given to a run, as in unikat.attack(original, synthesis). Give a file or frame."
        )

    @property
    def converged(self) -> bool:
        """Whether all fits converged."""
        return bool(self.summary.converged)

    def to_frame(self) -> Any:
        """Return the rows of the answer as a frame.

        Records of an assessment with their risk, models of a comparison, fits of an evaluation,
        attacks, keys of a verification, limits of a check; of a protection the protected records,
        and of a synthesis all synthetic records, with the number of their file in `dataset`.
        """
        return self._as_frame()

    @abstractmethod
    def _as_frame(self) -> Any: ...

    def _repr_html_(self) -> str:
        """Show the answer in a notebook."""
        with speaking(self.spec.report.language, self.spec.report.terms):
            return card(self._said_first(), self._shown())

    def _shown(self) -> list[list[Any]]:
        """Return the table that a notebook shows, its titles first."""
        rows = self.summary.overview()
        return [list(rows[0]), *(list(row.values()) for row in rows)] if rows else []

    def _said_first(self) -> list[str]:
        """Return the sentences that a notebook shows."""
        said = self.summary.sentences
        return [said[place] for place in ("verdict", "answer") if place in said]

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write all files of the run into a folder.

        Parameters
        ----------
        folder
            Where to write; made if it does not exist. All files are readable by you alone.
        overwrite
            Replace the results of another run that are there.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        OutputError
            If the folder holds another run and `overwrite` is not set, or it cannot be written to;
            what was there is then still there.
        """
        folder = Path(folder).expanduser()
        if self.folder is not None and self.folder.resolve() == folder.resolve():
            return folder
        check_folder(self.kind, folder, overwrite=overwrite)
        self.write(folder)
        return folder

    @property
    def plot(self) -> Any:
        """Figures of the page, by name; printed, it lists them."""
        return Figures(self._said("", self._page).drawings)

    def to_html(self, language: str = "") -> str:
        """Return the page, a complete HTML document that needs no network.

        Parameters
        ----------
        language
            Code of its language, `en`, `es`, `fr` or `de`; empty: that of the run.

        Raises
        ------
        SpecError
            If there are no words in the language.
        """
        return str(self._said(language, self._page))

    @abstractmethod
    def _page(self, summary: Any) -> str:
        """Render the page."""

    def write(self, folder: Path) -> None:
        """Write the files of the run into a folder that is its own.

        Raises
        ------
        OutputError
            If anything cannot be written; what was in the folder is then still there.
        """
        page, others = self.to_html(), self._others(folder)
        write_run(
            self.kind, self.summary, page, self.spec, folder, note=self._note(), others=others
        )

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        """Return what writes the files besides numbers, page and specification, by name."""
        return {}

    def committee(self, language: str = "") -> str:
        """Return two pages for a committee that decides on a release, as HTML; see `to_html`.

        Raises
        ------
        SpecError
            If there are no words in the language, or the run is none of protection or check.
        """
        if not self.kind.decides:
            other = _with_article(self.kind)
            raise SpecError(f"Pages for a committee are of protection or check, not of {other}.")
        return str(self._said(language, render_committee))

    def write_word(self, path: str | os.PathLike[str], language: str = "") -> None:
        """Write the same as a document of Word, without its pictures.

        Raises
        ------
        SpecError
            As of `committee`, or if python-docx is not installed.
        OutputError
            If it cannot be written.
        """
        self.committee(language)
        replace_file(Path(path).expanduser(), self._said(language, word_document))

    def _said(self, language: str, make: Callable[[Any], Any]) -> Any:
        own = self.spec.report.language
        with speaking(language or own, self.spec.report.terms):
            return make(self.summary if language in ("", own) else explained(self.summary))

    def _for_committee(self) -> dict[str, Callable[[Path], None]]:
        """Return what writes the pages for a committee, by name."""
        return {COMMITTEE: functools.partial(write_text, text=self.committee())}

    def _note(self) -> str:
        """Return a comment of the specification."""
        same = "Fits had a time limit, so a repetition does not give exactly the same results."
        return "" if self.spec.sampling.max_seconds is None else same


class Tabled(Outcome):
    """An answer whose results are a table."""

    @cached_property
    def table(self) -> Any:
        """The table of the results, a frame of the kind of the data; a pandas frame for files."""
        return self._frames.frame(self._table(), same_rows=False)

    @abstractmethod
    def _table(self) -> pa.Table: ...

    def _as_frame(self) -> Any:
        return self.table


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


def refuse_other_kind(kind: Kind, folder: Path) -> None:
    """Refuse a folder of a run of another kind, whose page or fits would be lost (OutputError)."""
    ours = claimed(folder)
    if kind.spec in ours:
        return
    for other in KINDS.values():
        if other.spec in ours and any((folder / name).exists() for name in other.names):
            raise OutputError(
                f"The folder {folder} holds {_with_article(other)}. A run of another kind needs a "
                f"folder of its own: name it with {option('out')}. Nothing was written."
            )


def _with_article(kind: Kind) -> str:
    return f"{'an' if kind.noun[0] in 'aeiou' else 'a'} {kind.noun}"


def check_folder(
    kind: Kind, folder: Path, *, resume: bool = False, overwrite: bool = False
) -> None:
    """Refuse a folder that holds another run of the same kind, before any work is done.

    Raises
    ------
    SpecError, OutputError
        With what to do.
    """
    replace, continue_ = option("overwrite", True), option("resume", True)
    if resume and overwrite:
        raise SpecError(f"{continue_} and {replace} exclude each other; give one of them.")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; name another with {option('out')}.")
    found = [name for name in kind.files if (folder / name).exists()]
    unfinished = any((folder / name).exists() for name in kind.work)
    if resume and found and not unfinished:
        gone = f"its fits (the folder {kind.work[0]}) are gone, so it cannot be resumed"
        why = f"The {kind.noun} in {folder} is finished: there is nothing to resume"
        if kind.extends:
            why = f"Of the {kind.noun} in {folder} {gone}"
        elif _unconverged(kind, folder):
            why = f"The {kind.noun} in {folder} has not converged, but {gone}"
        raise OutputError(f"{why}. Repeat it with {replace}.")
    if resume or overwrite or not (found or unfinished):
        return
    complete = found and (kind.extends or not unfinished)
    what = (
        f"{_with_article(kind)} ({', '.join(found)})" if complete else f"an unfinished {kind.noun}"
    )
    remedy = (
        f"Replace it with {replace}"
        if complete and not kind.extends
        else f"Continue it with {continue_}, or replace it with {replace}"
    )
    raise OutputError(
        f"The folder {folder} already holds {what}. {remedy}, or name another with "
        f"{option('out')}. Nothing was written."
    )


def _unconverged(kind: Kind, folder: Path) -> bool:
    """Whether the results in a folder say that they have not converged."""
    with contextlib.suppress(OSError, ValueError):
        said = parse_json((folder / kind.numbers).read_bytes(), constants=True)
        return isinstance(said, dict) and said.get("converged") is False
    return False


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


def load(folder: str | os.PathLike[str], *, trust_spec: bool = False) -> Any:
    """Read a run from its folder.

    Parameters
    ----------
    folder
        The folder that `out` or `save` named.
    trust_spec
        Whether `what_if` of an assessment may read the file or database that the specification in
        the folder names, also outside of the folder. Only if you know who wrote it.

    Returns
    -------
    Assessment, Comparison, Evaluation, Protection, Synthesis, Attacks or Verification
        What the run gave; whichever lies there.

    Raises
    ------
    OutputError
        If there is no complete run, it is of another version, or a file of an assessment was
        changed since it was written.

    Examples
    --------
    >>> import unikat
    >>> unikat.load("no such folder")
    Traceback (most recent call last):
    unikat.errors.OutputError: no such folder is not a folder; name the folder of a run (its --out).
    """
    folder = Path(folder).expanduser()
    kind = kind_in(folder) or ASSESS
    module = vars(import_module(f"unikat.jobs.{kind.name}"))
    answer: Any = next(one for one in module.values() if getattr(one, "kind", None) is kind)
    return answer.loaded(folder, trust_spec)


def write_page(folder: Path, language: str = "", *, word: bool = False) -> Path:
    """Render the pages of a run again, in place of the old ones; return where the report is.

    With `word` also the document for a committee.

    Raises
    ------
    SpecError
        If there are no words in the language.
    OutputError
        As of `load`, or if it cannot be written; the old page is then still there.
    """
    found, folder = load(folder), folder.expanduser()
    if found.kind.decides:
        replace_page(folder, found.kind, lambda: found.committee(language), COMMITTEE)
    if word:
        found.write_word(folder / WORD, language)
    return replace_page(folder, found.kind, lambda: found.to_html(language))
