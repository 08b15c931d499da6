"""Runs of the workbench: each a process of its own and a folder, one after the other.

A run is its folder. Those made in a terminal are in the list too, and those of an earlier
workbench can be resumed, since all that is known of a run is in its files.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unikat.errors import OutputError, UnikatError, why
from unikat.files.json import parse_json
from unikat.web.child import REQUEST
from unikat.web.events import FILE as EVENTS
from unikat.web.events import Listener, Teller
from unikat.web.folder import Folder

if TYPE_CHECKING:
    from unikat.spec.assessment import AssessmentSpec

RESULT, SPEC, REPORT, MANIFEST = "result.json", "assessment.toml", "report.html", "manifest.json"
WORK = ("sampling.checkpoint", "evidence")
"""What `resume` continues from."""
DOWNLOADS = (
    REPORT, RESULT, "records-at-risk.csv", "records.parquet", "households.parquet",
    "registry.parquet", "draws.nc", SPEC, MANIFEST,
)  # fmt: skip
"""Files of a run that can be had from its page."""
LARGEST_RESULT = 50_000_000
"""Bytes of a `result.json` that is read for the list."""
PATIENCE = 60.0
"""Seconds that runs have to write what they keep, when the workbench ends."""
State: TypeAlias = Literal[
    "waiting", "running", "stopping", "done", "unconverged", "unfinished", "failed"
]
WORDS: dict[State, str] = {
    "waiting": "Waiting for the run before it",
    "running": "Running",
    "stopping": "Stopping; what was done is being kept",
    "done": "Done",
    "unconverged": "Not converged",
    "unfinished": "Interrupted",
    "failed": "Failed",
}


@dataclass(frozen=True, kw_only=True)
class Answer:
    """What the list of runs says of a result, read from its `result.json`."""

    data: str
    model: str
    headline: str
    tau1: str
    """Median and interval."""
    created: str


@dataclass(frozen=True, kw_only=True)
class Run:
    """A run, as far as it is."""

    id: str
    """Its folder, from that of the workbench."""
    state: State
    answer: Answer | None
    """None if there is no result yet, and while the run goes on."""
    resumable: bool
    message: str = ""
    """What went wrong."""

    @property
    def words(self) -> str:
        """Its state."""
        return WORDS[self.state]

    @property
    def active(self) -> bool:
        """Whether it goes on, or will."""
        return self.state in ("waiting", "running", "stopping")


@dataclass(kw_only=True)
class _Job:
    id: str
    folder: Path
    resume: bool
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

    def start(self, spec: AssessmentSpec, name: str) -> str:
        """Queue a new run, and return its id.

        Parameters
        ----------
        spec
            What is to be done.
        name
            Of its folder, from that of the workbench.

        Raises
        ------
        OutputError
            If there is something of this name, or the folder cannot be made.
        """
        from unikat.files.writing import make_folder

        place = self._folder.place(name)
        if not name.strip() or place == self._folder.root:
            raise OutputError("The folder of the results needs a name.")
        if place.exists() and (not place.is_dir() or any(place.iterdir())):
            raise OutputError(
                f"The folder {name} holds something already. Give the results another name."
            )
        make_folder(place)
        return self._enqueue(spec, place, resume=False)

    def resume(self, id: str, changes: Mapping[str, str]) -> str:
        """Queue the rest of a run; `changes` are options of `unikat assess` such as `max_sweeps`.

        Raises
        ------
        OutputError, SpecError
            If there is nothing to continue from.
        """
        from unikat.spec.assessment import AssessmentSpec
        from unikat.spec.from_options import specify
        from unikat.spec.options import AssessOptions

        place = self._folder.resolve(id)
        run = self.get(id)
        if not run.resumable:
            raise OutputError(f"The run in {id} cannot be continued: it is {run.words.lower()}.")
        name = next(name for name in (REQUEST, SPEC) if (place / name).exists())
        spec, _ = specify(AssessmentSpec, AssessOptions, place / name, changes, shell=True)
        kept = any((place / part).exists() for part in WORK)
        return self._enqueue(spec, place, resume=kept)

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
        with self._lock:
            waiting = any(job.id == id for job in self._queue)
            current = self._current if self._current and self._current.id == id else None
        if waiting or current:
            state: State = "waiting" if waiting else "running"
            if current and current.cancelled:
                state = "stopping"
            return Run(id=id, state=state, answer=None, resumable=False)
        answer = read_answer(place)
        state, message, resumable = _ended(place, answer)
        return Run(id=id, state=state, answer=answer, resumable=resumable, message=message)

    def all(self) -> list[Run]:
        """List the runs, those of the latest change first."""
        return [self.get(self._folder.relative(folder)) for folder in self._folder.runs()]

    def asked(self, id: str) -> tuple[str, dict[str, Any]]:
        """Return the file that a run read, and its specification as TOML has it.

        The path is from the folder of the workbench; empty if the file is not in there, or if
        nothing is known of it.
        """
        from unikat.files.toml import read_toml

        place = self._folder.resolve(id)
        with contextlib.suppress(UnikatError, StopIteration, KeyError, TypeError):
            name = next(name for name in (SPEC, REQUEST) if (place / name).exists())
            values = read_toml(place / name)
            file = Path(os.path.abspath(place / values["data"]["path"]))
            return self._folder.relative(self._folder.resolve(self._folder.relative(file))), values
        return "", {}

    def free_name(self, stem: str) -> str:
        """Return the name of a folder that is not there yet."""
        name, number = f"{stem}-assessment", 1
        while (self._folder.root / name).exists():
            number += 1
            name = f"{stem}-assessment-{number}"
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

    def _enqueue(self, spec: AssessmentSpec, place: Path, *, resume: bool) -> str:
        from unikat.files.writing import write_text

        id = self._folder.relative(place)
        with self._lock:
            if any(job.id == id for job in self._queue) or (
                self._current is not None and self._current.id == id
            ):
                return id
            (place / REQUEST).unlink(missing_ok=True)
            write_text(place / REQUEST, spec.to_toml(place))
            if not resume:
                (place / EVENTS).unlink(missing_ok=True)
            self._queue.append(_Job(id=id, folder=place, resume=resume))
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
                    job.process = _process(job)
                except OSError as error:
                    Teller(job.folder).end("failed", f"It could not be started: {why(error)}.")
            if job.process is not None:
                job.process.wait()
            with self._lock:
                _let_go(job)
                self._current = None


def _process(job: _Job) -> subprocess.Popen[bytes]:
    arguments = [str(job.folder), *(["resume"] if job.resume else [])]
    return subprocess.Popen(
        [sys.executable, "-m", "unikat.web.child", *arguments],
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


def _ended(place: Path, answer: Answer | None) -> tuple[State, str, bool]:
    """State, message, and whether it can be resumed, of a run that does not go on here."""
    listener = Listener(folder=place)
    listener.listen()
    kept = any((place / name).exists() for name in WORK)
    described = (place / REQUEST).exists() or (place / SPEC).exists()
    if listener.state == "failed":
        return "failed", listener.message, kept and described
    if (place / MANIFEST).exists() and answer is not None:
        converged = read_result(place).get("converged") is True
        if listener.state == "interrupted":
            return "unfinished", "", kept and described
        return ("done" if converged else "unconverged"), "", kept and described
    if kept or (listener.state in (None, "interrupted") and (place / REQUEST).exists()):
        return "unfinished", "", described
    return "failed", "It ended before it had kept anything.", False


def read_result(place: Path) -> dict[str, Any]:
    """Read the `result.json` of a folder; empty if there is none that can be read."""
    path = place / RESULT
    try:
        if path.stat().st_size > LARGEST_RESULT:
            return {}
        found = parse_json(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_answer(place: Path) -> Answer | None:
    """Read what the list says of a result; None if there is none."""
    from unikat.report.text.numbers import number

    found = read_result(place)
    try:
        tau1, said = found["tau1"], found["sentences"]
        return Answer(
            data=str(found.get("data") or "a data frame"),
            model=str(found["model"]),
            headline=str(said["answer"]),
            tau1=f"{number(tau1['median'])} ({number(tau1['lower'])} to {number(tau1['upper'])})",
            created=str(found["provenance"]["started"])[:16].replace("T", " "),
        )
    except (KeyError, TypeError, ValueError):
        return None
