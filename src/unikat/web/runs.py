"""Runs of the workbench: each a process of its own and a folder, one after the other.

A run is its folder, whose files hold its whole state. So the list has the runs of a terminal too,
and a workbench can resume the runs of an earlier one.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unikat.errors import OutputError, UnikatError, brief, why
from unikat.files.folder import MARK, refuse_links
from unikat.files.json import parse_json
from unikat.files.locks import held
from unikat.report.text.language import DEFAULT, LANGUAGES, speaking
from unikat.report.text.words import say
from unikat.spec.addresses import checked_address, source_digest
from unikat.spec.kinds import ASSESS, EVALUATE, Kind
from unikat.web.events import FILE as EVENTS
from unikat.web.events import Listener, Teller
from unikat.web.folder import DEEPEST, Folder, NotInFolderError
from unikat.web.kinds import REQUEST, check_models, kind_at

if TYPE_CHECKING:
    from unikat.report.text.listed import Listed
    from unikat.spec.base import Spec
    from unikat.spec.trust import Trust

LARGEST_RESULT = 50_000_000
"""Bytes of a file of numbers that is read for the list."""
PATIENCE = 60.0
"""Seconds that runs have to write what they keep, when the workbench ends."""
State: TypeAlias = Literal[
    "waiting", "running", "stopping", "elsewhere", "done", "unconverged", "unfinished", "failed"
]


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, as far as it is."""

    id: str
    """Its folder, from that of the workbench."""
    kind: Kind
    state: State
    answer: Listed | None
    """None if there is no result yet, and while the run goes on."""
    resumable: bool
    kept: bool = False
    """Whether there is work with which it would continue."""
    message: str = ""
    """What went wrong."""
    language: str = DEFAULT
    """Of the headline of its answer."""

    @property
    def beyond_verdict(self) -> str:
        """The headline after the words of the verdict, which a page says in its own language."""
        if self.answer is None or not self.answer.verdict:
            return self.answer.headline if self.answer else ""
        with speaking(self.language):
            return self.answer.headline.removeprefix(say(f"verdict.word.{self.answer.verdict}"))

    @property
    def words(self) -> str:
        """Its state."""
        if self.state == "unfinished" and self.answer is None and not self.kept:
            return say("web.states.nothing_kept")
        return say(f"web.states.{self.state}")

    @property
    def begun(self) -> str:
        """When it began, in the time of this machine; empty if it has no result."""
        if self.answer is None:
            return ""
        try:
            begun = datetime.fromisoformat(self.answer.created).replace(tzinfo=UTC)
        except ValueError:
            return self.answer.created
        return begun.astimezone().strftime("%Y-%m-%d %H:%M")

    @property
    def decidable(self) -> bool:
        """Whether it is finished, so that it can be decided on."""
        return self.answer is not None and self.state in ("done", "unconverged")

    @property
    def active(self) -> bool:
        """Whether it goes on, or will."""
        return self.state in ("waiting", "running", "stopping")


@dataclass(kw_only=True)
class _Job:
    id: str
    folder: Path
    resume: bool
    source: str = ""
    """The table of a database, or the query, that was given or confirmed for it, as
    `source_digest` tells them."""
    process: subprocess.Popen[bytes] | None = None
    cancelled: bool = False


class Runs:
    """The runs in the folder of a workbench, and the queue of those that go on."""

    def __init__(self, folder: Folder) -> None:
        self._folder = folder
        self._lock = threading.Condition()
        self._queue: deque[_Job] = deque()
        self._current: _Job | None = None
        self._closed = False
        self._thread: threading.Thread | None = None

    def start(self, spec: Spec, name: str) -> str:
        """Queue a new run, and return its id.

        Parameters
        ----------
        spec
            What is to be done, of any kind of run.
        name
            Of its folder, from that of the workbench.

        Raises
        ------
        OutputError
            If there is something of this name, the folder cannot be made, or the list of runs
            would not have it.
        """
        from unikat.files.writing import make_folder

        place = self._folder.place(name)
        if not name.strip() or place == self._folder.root:
            raise OutputError("The folder of the results needs a name.")
        if not self._folder.lists(place):
            raise OutputError(
                f"Results in {name} would not be found again: the workbench looks for runs in "
                f"folders down to {DEEPEST} levels, whose names do not begin with a point. Give "
                "the results another name."
            )
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise OutputError(
                f"The folder {name} holds something already. Give the results another name."
            )
        make_folder(place)
        return self._enqueue(spec, place, resume=False)

    def resume(self, id: str, changes: Mapping[str, str], trust: Trust) -> str:
        """Queue the rest of a run; `changes` are options of its kind such as `max_sweeps`.

        A run that has kept nothing yet begins again. `trust`: what of its file counts.

        Raises
        ------
        OutputError, SpecError
            If there is nothing to continue from.
        """
        from unikat.spec.from_options import specify

        place = self._folder.resolve(id)
        run = self.get(id)
        if not run.resumable:
            raise OutputError(f"The run in {id} cannot be continued: it is {run.words.lower()}.")
        name = next(name for name in (REQUEST, run.kind.spec) if (place / name).exists())
        spec, _ = specify(
            run.kind.specification,
            place / name,
            changes,
            shell=True,
            trust=trust,
        )
        check_models(spec)
        return self._enqueue(spec, place, resume=_kept(place, run.kind))

    def cancel(self, id: str) -> None:
        """End a run as Ctrl-C does: what was done is kept. One that waits is not begun."""
        with self._lock:
            for job in list(self._queue):
                if job.id == id:
                    self._queue.remove(job)
            if self._current is not None and self._current.id == id:
                _stop(self._current)

    def get(self, id: str) -> Run:
        """Tell how a run stands.

        Raises
        ------
        NotInFolderError
            If there is no such folder.
        """
        place = self._folder.resolve(id)
        if not place.is_dir():
            raise NotInFolderError(f"{brief(id)!r} is no folder, and so no run.")
        with self._lock:
            waiting = any(job.id == id for job in self._queue)
            current = self._current if self._current and self._current.id == id else None
        if waiting or current:
            state: State = "waiting" if waiting else "running"
            if current and current.cancelled:
                state = "stopping"
            return Run(
                id=id, kind=kind_at(place) or ASSESS, state=state, answer=None, resumable=False
            )
        return _ended(id, place)

    def all(self) -> list[Run]:
        """List the runs, those of the latest change first."""
        return [self.get(self._folder.relative(folder)) for folder in self._folder.runs()]

    def asked(self, id: str) -> tuple[str, dict[str, Any]]:
        """Return the file that a run read, and its specification as TOML has it.

        The path is from the folder of the workbench, or the address of a database; empty if the
        file is not in there, or if nothing is known of it.
        """
        from unikat.files.toml import read_toml

        place = self._folder.resolve(id)
        with contextlib.suppress(UnikatError, StopIteration, KeyError, TypeError, AttributeError):
            spec = (kind_at(place) or ASSESS).spec
            name = next(name for name in (spec, REQUEST) if (place / name).exists())
            values = read_toml(place / name)
            if isinstance(address := values["data"].get("database"), str):
                return checked_address(address), values
            file = Path(os.path.abspath(place / values["data"]["path"]))
            return self._folder.relative(self._folder.source(self._folder.relative(file))), values
        return "", {}

    def specification(self, id: str) -> tuple[str, str]:
        """Return the name of the file of the specification of a run, and what it holds.

        Raises
        ------
        NotInFolderError
            If there is none.
        """
        place = self._folder.resolve(id)
        for name in ((kind_at(place) or ASSESS).spec, REQUEST):
            with contextlib.suppress(OSError, ValueError):
                return name, (place / name).read_text(encoding="utf-8")
        raise NotInFolderError("This run has written no specification yet.")

    def free_name(self, stem: str, kind: Kind = ASSESS) -> str:
        """Return the name of a folder for a run of a kind that is not there yet."""
        name, number = f"{stem}-{kind.noun}", 1
        while (self._folder.root / name).exists():
            number += 1
            name = f"{stem}-{kind.noun}-{number}"
        return name

    def listen(self, id: str) -> Listener:
        """Return what reads the events of a run."""
        return Listener(folder=self._folder.resolve(id))

    def close(self) -> None:
        """End the run that goes on as Ctrl-C does, and begin no other."""
        with self._lock:
            self._closed = True
            self._queue.clear()
            if self._current is not None:
                _stop(self._current)
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(PATIENCE)

    def _enqueue(self, spec: Spec, place: Path, *, resume: bool) -> str:
        from unikat.files.writing import write_text

        id = self._folder.relative(place)
        refuse_links(place, (REQUEST, EVENTS))
        with self._lock:
            if any(job.id == id for job in self._queue) or (
                self._current is not None and self._current.id == id
            ):
                return id
            (place / REQUEST).unlink(missing_ok=True)
            write_text(place / REQUEST, spec.to_toml(place))
            if not resume:
                (place / EVENTS).unlink(missing_ok=True)
            source = source_digest(spec.data.database, spec.data.query, spec.data.table)
            self._queue.append(_Job(id=id, folder=place, resume=resume, source=source))
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="unikat-runs", daemon=True)
                self._thread.start()
            self._lock.notify_all()
        return id

    def _work(self) -> None:
        while True:
            with self._lock:
                self._lock.wait_for(lambda: self._queue or self._closed)
                if self._closed:
                    return
                job = self._queue.popleft()
                self._current = job
                try:
                    job.process = _process(job, self._folder.root)
                except OSError as error:
                    Teller(job.folder).end("failed", f"It could not be started: {why(error)}.")
            if job.process is not None:
                job.process.wait()
            with self._lock:
                _let_go(job)
                self._current = None


def _process(job: _Job, root: Path) -> subprocess.Popen[bytes]:
    arguments = [str(job.folder), str(root), "resume" if job.resume else "new", job.source]
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "unikat.web.child", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        # Ctrl-C in the terminal of the workbench is for the workbench, which then ends its runs.
        start_new_session=True,
    )


def _stop(job: _Job) -> None:
    job.cancelled = True
    _let_go(job)


def _let_go(job: _Job) -> None:
    """Close the standard input of a process, which ends it if it goes on."""
    if job.process is not None and job.process.stdin is not None:
        with contextlib.suppress(OSError):
            job.process.stdin.close()


def _kept(place: Path, kind: Kind) -> bool:
    return any((place / name).exists() for name in kind.work)


def _ended(id: str, place: Path) -> Run:
    """Tell of a run that does not go on here."""
    kind = kind_at(place) or ASSESS
    answer = read_answer(place, kind)
    listener = Listener(folder=place)
    listener.listen()
    kept = _kept(place, kind)
    described = (place / REQUEST).exists() or (place / kind.spec).exists()
    state, message, resumable = _state(place, kind, answer, listener), "", kept and described
    if state == "elsewhere":
        resumable = False
    elif state == "failed":
        message = listener.message or (
            f"The numbers of the result cannot be read: {kind.numbers} was changed, or is of "
            "another version of unikat."
            if (place / kind.last).exists()
            else "It ended before it had kept anything."
        )
    elif state == "unfinished" and answer is None:
        resumable = described
    return Run(
        id=id,
        kind=kind,
        state=state,
        answer=answer,
        resumable=resumable,
        kept=kept,
        message=message,
        language=DEFAULT if answer is None else _language(place, kind),
    )


def _language(place: Path, kind: Kind) -> str:
    """Find the language in which a run has said what it found; an evaluation says it in English."""
    from unikat.files.toml import read_toml

    with contextlib.suppress(UnikatError, KeyError, TypeError):
        said = read_toml(place / kind.spec)["report"]["language"]
        return said if said in LANGUAGES and kind is not EVALUATE else DEFAULT
    return DEFAULT


def _state(place: Path, kind: Kind, answer: Listed | None, listener: Listener) -> State:
    """State of a run that does not go on here."""
    if held(place / MARK):
        return "elsewhere"
    if listener.state == "failed":
        return "failed"
    if (place / kind.last).exists():
        if answer is None:
            return "failed"
        if listener.state == "interrupted" or not answer.complete:
            return "unfinished"
        return "done" if answer.converged else "unconverged"
    if _kept(place, kind) or (
        listener.state in (None, "interrupted") and (place / REQUEST).exists()
    ):
        return "unfinished"
    return "failed"


def read_numbers(place: Path, kind: Kind = ASSESS) -> dict[str, Any]:
    """Read the file of numbers of a run; empty if there is none that can be read."""
    path = place / kind.numbers
    try:
        if path.stat().st_size > LARGEST_RESULT:
            return {}
        found = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_answer(place: Path, kind: Kind) -> Listed | None:
    """Read what the list says of a result; None if there is none."""
    from unikat.report.text.listed import listed

    return listed(kind.name, read_numbers(place, kind))
