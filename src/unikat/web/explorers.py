"""The processes behind what-if pages, each of one run, as the server sees them."""

from __future__ import annotations

import contextlib
import itertools
import json
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from unikat.errors import why
from unikat.files.json import parse_json
from unikat.report.text.language import current

Choice: TypeAlias = "int | str"
"""A step of a key, or groups of its levels as `language.levels` writes them."""
NOTHING: Mapping[str, str] = MappingProxyType({})
STATES = "states.checkpoint"
"""File of a run in which its states are kept."""
MOST = 2
"""Processes at a time; each holds a file's table and some hundred states of a model."""
MOST_PAGES = 64
"""Pages whose last question is kept."""
GONE = (
    "The process that looks at recodings has ended unexpectedly; perhaps the memory was full. Load "
    "the page again to start another one."
)
ENDED = "The process that looks at recodings was ended for another run. Load the page again."


@dataclass(kw_only=True)
class Question:
    """What was asked, and what was answered so far."""

    asked: dict[str, Any]
    answer: dict[str, Any] | None = None
    """The last answer, as the process wrote it."""
    last: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The last answer of each kind."""
    stage: int = 0
    """Answers so far; of a look the first are the counts."""
    done: bool = False
    """No other answer follows."""

    @property
    def problem(self) -> str:
        """Why there is no answer; empty if there is one, or will be."""
        told = self.answer is not None and self.answer["kind"] == "problem"
        return str(self.answer["text"]) if told and self.answer else ""


class Explorer:
    """The process of one run. It is started at once, and answers when it is ready."""

    def __init__(
        self, place: Path, inside: Path, command: Sequence[str] = (), source: str = ""
    ) -> None:
        self.state: Literal["preparing", "ready", "failed"] = "preparing"
        self.text, self.share = "Starting", None
        """What it is doing while it prepares, and how much of it is done; why it failed."""
        self.keys: list[dict[str, Any]] = []
        """As `ExploredKey` has them."""
        self.n_states = 0
        self.level = 0.95
        self._changed = threading.Condition()
        self._numbers = itertools.count(1)
        self._open: dict[int, Question] = {}
        self._last: dict[str, Question] = {}
        """Of each page and kind of question."""
        self._closing = False
        try:
            self._process = subprocess.Popen(
                command
                or [
                    *(sys.executable, "-P", "-m", "unikat.web.explorer"),
                    *(str(place), str(inside), source, current()),
                ],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            self._fail(f"It could not be started: {why(error)}.")
            return
        threading.Thread(target=self._listen, daemon=True).start()

    def look(
        self,
        page: str,
        steps: Sequence[Choice],
        target: str,
        key: str = "",
        besides: Mapping[str, str] = NOTHING,
    ) -> Question:
        """Ask for the risk after a recoding; what the page has asked before is then obsolete.

        A step of each key, or groups made by hand; of a key the risk of its groups is told, too.
        `besides`: what else is done, as options of `protect`.
        """
        return self._ask(f"look {page}", **_looked(page, steps, target, key, besides))

    def asked(
        self,
        page: str,
        steps: Sequence[Choice],
        target: str,
        key: str = "",
        besides: Mapping[str, str] = NOTHING,
    ) -> Question | None:
        """Return what a page has asked last, if it is this look."""
        last = self._last.get(f"look {page}")
        same = last is not None and last.asked == _looked(page, steps, target, key, besides)
        return last if same else None

    def levels(self, key: str, kind: str) -> Question:
        """Ask for the levels of a key, meant in some way."""
        place = f"levels {key} {kind}"
        return self._ask(place, ask="levels", page=place, key=key, kind=kind)

    def pictures(
        self,
        page: str,
        steps: Sequence[Choice],
        besides: Mapping[str, str],
        pair: Sequence[str],
        *,
        columns: bool = False,
    ) -> Question:
        """Ask what a plan does to the keys and where its risk is; or what columns would tell."""
        asked = {"steps": list(steps), "besides": dict(besides), "pair": list(pair)}
        place = f"pictures {page} {columns}"
        return self._ask(place, ask="pictures", page=place, columns=columns, **asked)

    def find(self, target: str) -> Question:
        """Ask for the cheapest recoding that reaches a target; another search for one ends."""
        return self._ask("find", ask="find", target=target)

    def early(self, steps: Sequence[Choice], target: str) -> str:
        """Say that the search that found these steps for a target stopped early; else empty."""
        last = self._last.get("find")
        answer = None if last is None or last.asked["target"] != target else last.answer
        here = answer is not None and answer["kind"] == "found" and answer["steps"] == list(steps)
        return str(answer["early"]) if answer is not None and here else ""

    def frontier(self) -> Question:
        """Ask for the frontier; it is searched once."""
        return self._ask("frontier", ask="frontier")

    def wait(self, ready: Callable[[], object], seconds: float) -> None:
        """Wait until something is so, as far as answers tell, or the time is over."""
        with self._changed:
            self._changed.wait_for(lambda: ready() or self.state == "failed", seconds)

    def close(self) -> None:
        """End the process."""
        self._closing = True
        self._hang_up()

    def _hang_up(self) -> None:
        process = getattr(self, "_process", None)
        if process is not None and process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()

    def _ask(self, place: str, **asked: Any) -> Question:
        with self._changed:
            last = self._last.get(place)
            if last is not None and last.asked == asked:
                return last
            question = Question(asked=asked)
            self._last.pop(place, None)
            while len(self._last) >= MOST_PAGES:
                self._last.pop(next(iter(self._last)))
            self._last[place] = question
            if self.state == "failed":
                self._end(question, self.text)
                return question
            number = next(self._numbers)
            self._open[number] = question
            assert self._process.stdin is not None
            # It may end just now; who waits is then told.
            with contextlib.suppress(OSError, ValueError):
                self._process.stdin.write(json.dumps({"id": number, **asked}).encode() + b"\n")
                self._process.stdin.flush()
        return question

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._process.stdout as answers:
            for line in answers:
                with contextlib.suppress(ValueError):
                    self._hear(parse_json(line))
        self._process.wait()
        self._hang_up()
        if self.state != "failed":
            self._fail(ENDED if self._closing else GONE)

    def _hear(self, event: Any) -> None:
        with self._changed:
            match event["kind"]:
                case "preparing":
                    self.text, self.share = event["text"], event["share"]
                case "ready":
                    self.state, self.keys = "ready", event["keys"]
                    self.n_states, self.level = event["n_states"], event["level"]
                case "failed":
                    self.state, self.text = "failed", event["text"]
                case kind:
                    question = self._open[event["id"]]
                    question.answer, question.stage = event, question.stage + 1
                    question.last[kind] = event
                    question.done = kind not in ("searching", "counts") and event.get(
                        "complete", True
                    )
                    if question.done:
                        del self._open[event["id"]]
            self._changed.notify_all()

    def _fail(self, text: str) -> None:
        with self._changed:
            self.state, self.text = "failed", text
            for question in self._open.values():
                self._end(question, text)
            self._open.clear()
            self._changed.notify_all()

    @staticmethod
    def _end(question: Question, text: str) -> None:
        question.answer, question.done = {"kind": "problem", "text": text}, True


def _looked(
    page: str, steps: Sequence[Choice], target: str, key: str, besides: Mapping[str, str]
) -> dict[str, Any]:
    asked = {"ask": "look", "page": page, "steps": list(steps), "target": target, "key": key}
    return asked | {"besides": dict(besides)}


@dataclass(kw_only=True)
class Explorers:
    """At most `MOST` processes; of more, the one that was not used for longest ends."""

    inside: Path
    """The folder of the workbench, in which the files of runs have to lie."""
    _open: dict[tuple[Path, int, str], Explorer] = field(default_factory=dict)
    """By the folder of the run, the time of its states and language, in the order of their use."""
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, place: Path, source: str = "") -> Explorer:
        """Return the process of a run, started if there is none.

        `source`: what the user confirmed of its database, as `source_digest` tells it.

        Raises
        ------
        OSError
            If the run has kept no states.
        """
        key = (place, (place / STATES).stat().st_mtime_ns, current())
        with self._lock:
            found = self._open.pop(key, None)
            if found is None:
                while len(self._open) >= MOST:
                    self._open.pop(next(iter(self._open))).close()
                found = Explorer(place, self.inside, source=source)
            self._open[key] = found
            return found

    def forget(self, explorer: Explorer) -> None:
        """Let go of a process that has ended: the next page of its run starts another one."""
        with self._lock:
            self._open = {key: one for key, one in self._open.items() if one is not explorer}
        explorer.close()

    def close(self) -> None:
        """End all."""
        with self._lock:
            for one in self._open.values():
                one.close()
            self._open.clear()
