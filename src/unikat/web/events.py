"""What a run tells while it goes on: one line of JSON for each event, in a file of its folder."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unikat.files.json import parse_json
from unikat.files.writing import appended

if TYPE_CHECKING:
    from unikat.inference.progress import Watcher

FILE = "workbench.jsonl"
EVERY = 0.5
"""Seconds between two events of progress, at least."""
SLOWER = 400
"""Events after which the time between two doubles, so that a long run does not fill the disk."""
MOST_POINTS = 240
"""Points of τ1 that are kept for the picture."""
End: TypeAlias = Literal["done", "unconverged", "interrupted", "failed"]


class Teller:
    """Writes the events of a run."""

    def __init__(self, folder: Path) -> None:
        self._file = appended(folder / FILE)
        self._last, self._every, self._told = 0.0, EVERY, 0
        self._tell(kind="start")

    def watcher(self) -> Watcher:
        """Return what the run calls."""
        from unikat.inference.progress import Watcher

        return Watcher(
            progress=self.progress,
            stage=lambda words: self._tell(kind="stage", text=words),
            note=lambda words: self._tell(kind="note", text=words),
        )

    def progress(self, event: Any) -> None:
        """Tell where the run stands, if that was not told just now."""
        from unikat.jobs.progress import describe, share_done

        now = time.monotonic()
        if now - self._last < self._every:
            return
        self._last, self._told = now, self._told + 1
        if self._told % SLOWER == 0:
            self._every *= 2
        tau1 = getattr(event, "tau1", None)
        self._tell(
            kind="progress",
            text=describe(event),
            share=share_done(event),
            sweeps=getattr(event, "sweeps", None),
            tau1=None if tau1 is None else [tau1.median, tau1.lower, tau1.upper],
            of=getattr(event, "tau1_of", ""),
        )

    def end(self, state: End, message: str = "") -> None:
        """Tell how the run ended."""
        self._tell(kind="end", state=state, text=message)
        self._file.close()

    def _tell(self, **event: Any) -> None:
        self._file.write(json.dumps(event, ensure_ascii=True) + "\n")
        self._file.flush()


@dataclass(kw_only=True)
class Listener:
    """Reads the events of a run as they are written."""

    folder: Path
    stage: str = ""
    notes: list[str] = field(default_factory=list)
    text: str = ""
    share: float | None = None
    tau1: list[tuple[int, float, float, float]] = field(default_factory=list)
    """Sweeps, and τ1 then as the answer has it: median and ends of its interval."""
    tau1_of: str = ""
    """The file that it is of, in words, where the run has several."""
    state: End | None = None
    """How the run ended; None while it goes on, or if it ended without a word."""
    message: str = ""
    _offset: int = 0
    _rest: bytes = b""

    def listen(self) -> bool:
        """Read what is new; return whether anything was."""
        try:
            with (self.folder / FILE).open("rb") as file:
                file.seek(self._offset)
                new = file.read()
        except OSError:
            return False
        self._offset += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in lines:
            self._hear(line)
        return bool(lines)

    def _hear(self, line: bytes) -> None:
        try:
            event = parse_json(line)
        except ValueError:
            # A line that was cut off when the machine went down.
            return
        if not isinstance(event, dict):
            return
        hear = _HEARD.get(str(event.get("kind")))
        if hear is not None:
            hear(self, event)

    def _start(self, _: dict[str, Any]) -> None:
        self.stage, self.text, self.message, self.share, self.state = "", "", "", None, None
        self.tau1_of = ""
        self.notes.clear()
        self.tau1.clear()

    def _stage(self, event: dict[str, Any]) -> None:
        # What is done of the run does not fall when another part begins.
        self.stage, self.text = str(event.get("text", "")), ""

    def _note(self, event: dict[str, Any]) -> None:
        self.notes.append(str(event.get("text", "")))

    def _progress(self, event: dict[str, Any]) -> None:
        self.text, self.share = str(event.get("text", "")), event.get("share")
        sweeps, tau1 = event.get("sweeps"), _range(event.get("tau1"))
        if not isinstance(sweeps, int) or tau1 is None:
            return
        of = str(event.get("of", ""))
        if self.tau1 and (sweeps < self.tau1[-1][0] or of != self.tau1_of):
            # Another fit has begun, which may be of another file.
            self.tau1.clear()
        self.tau1_of = of
        self.tau1.append((sweeps, *tau1))
        if len(self.tau1) > MOST_POINTS:
            del self.tau1[1:-1:2]

    def _end(self, event: dict[str, Any]) -> None:
        self.state, self.message = event.get("state"), str(event.get("text", ""))


def _range(value: Any) -> tuple[float, float, float] | None:
    """Read a median with the ends of its interval; None if it is none."""
    if not isinstance(value, list) or len(value) != 3:
        return None
    if not all(isinstance(one, (int, float)) for one in value):
        return None
    middle, lower, upper = map(float, value)
    return middle, lower, upper


_HEARD: dict[str, Callable[[Listener, dict[str, Any]], None]] = {
    "start": Listener._start,
    "stage": Listener._stage,
    "note": Listener._note,
    "progress": Listener._progress,
    "end": Listener._end,
}
