"""The process behind a what-if page: opens an exploration, and answers questions about recodings.

Questions and answers are lines of JSON on its standard streams. It ends when its input is closed.

| question | answers, by their `kind` |
|---|---|
| `ask: look`, with `page`, `steps`, `target`, `key`, `besides` | `counts`, `look` by few, by all |
| `ask: levels`, with `key` and `kind` | `levels` |
| `ask: pictures`, with `page`, `steps`, `besides`, `pair`, `columns` | `pictures`, or `columns` |
| `ask: find`, with `target` | `searching` now and then, then `found` |
| `ask: frontier` | `searching` now and then, `frontier` by few states, then by all |

Each has an `id`, which its answers repeat. A question is answered by `obsolete` if the same page
has asked another one of its kind since, and by `problem` if it has no answer. Looks go first, also
in the middle of a search.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.files.json import parse_json

if TYPE_CHECKING:
    from unikat.jobs.explore import Exploration

FEW = 20
"""States of the first answer."""
_WRITING = threading.Lock()
QUICK = ("look", "levels", "pictures")
"""Questions that are answered in the middle of a search."""
TELL = 0.5
"""Seconds between two words of a search, at least."""


class _ObsoleteError(Exception):
    """Nobody waits for the answer any more."""


class Inbox:
    """Questions that were not answered yet."""

    def __init__(self) -> None:
        self._lock = threading.Condition()
        self._waiting: list[dict[str, Any]] = []
        self._latest: dict[tuple[str, str], int] = {}
        """Of each page and kind of question."""
        self.answering: Answering | None = None
        """Who counts, once there is one; what is wrong with a question is told in its turn."""

    def expect(self, question: dict[str, Any]) -> None:
        """Make older questions of the page obsolete."""
        with self._lock:
            self._latest[question["ask"], question.get("page", "")] = question["id"]

    def put(self, question: dict[str, Any]) -> None:
        """Take a question in."""
        self.expect(question)
        with self._lock:
            self._waiting.append(question)
            self._lock.notify()

    def take(self) -> dict[str, Any]:
        """Wait for a question; looks go first."""
        with self._lock:
            self._lock.wait_for(lambda: self._waiting)
            return self._pop() or self._waiting.pop(0)

    def look(self) -> dict[str, Any] | None:
        """Return a look that waits, if any does."""
        with self._lock:
            return self._pop()

    def is_obsolete(self, question: dict[str, Any]) -> bool:
        """Whether the page has asked another question of this kind since."""
        latest = self._latest[question["ask"], question.get("page", "")]
        return latest != int(question["id"])

    def _pop(self) -> dict[str, Any] | None:
        quick = (i for i, one in enumerate(self._waiting) if one["ask"] in QUICK)
        at = next(quick, None)
        return None if at is None else self._waiting.pop(at)


class Answering:
    """Answers questions, one after the other."""

    def __init__(self, exploration: Exploration, inbox: Inbox) -> None:
        self._exploration, self._inbox = exploration, inbox

    def answer(self, question: dict[str, Any]) -> None:
        """Answer a question."""
        from unikat.errors import UnikatError

        def check() -> None:
            if self._inbox.is_obsolete(question):
                raise _ObsoleteError

        try:
            check()
            if question["ask"] == "look":
                self._look(question, check)
            elif question["ask"] == "levels":
                found = self._exploration.levels(question["key"], question["kind"])
                _say(question, "levels", levels=asdict(found))
            elif question["ask"] == "pictures":
                self._pictures(question, check)
            else:
                self._search(question, check)
        except _ObsoleteError:
            _say(question, "obsolete")
        except UnikatError as error:
            _say(question, "problem", text=str(error))
        except MemoryError:
            _say(question, "problem", text="There is not enough memory for this recoding.")
        except Exception as error:
            # Its text may quote records.
            name = type(error).__name__
            text = f"This is a defect of unikat ({name}), not of your data. Try another recoding."
            _say(question, "problem", text=text)

    def count(self, question: dict[str, Any]) -> None:
        """Answer a look with what the recoded file itself tells."""
        counts = self._exploration.counts(question["steps"], question["key"], question["besides"])
        if counts is not None:
            _say(question, "counts", look=asdict(counts))
        question["counted"] = True

    def _look(self, question: dict[str, Any], check: Any) -> None:
        n_all = self._exploration.n_states
        if not question.get("counted"):
            self.count(question)
        check()
        for n_states in (FEW, None) if n_all > FEW else (None,):
            found = self._exploration.look(
                question["steps"],
                question["target"],
                n_states,
                check,
                question["key"],
                question["besides"],
            )
            complete = n_states is None or found.n_states in (0, n_all)
            _say(question, "look", look=asdict(found), complete=complete)
            if complete:
                return

    def _pictures(self, question: dict[str, Any], check: Any) -> None:
        steps, besides = question["steps"], question["besides"]
        if question["columns"]:
            columns = self._exploration.columns(steps, besides)
            _say(question, "columns", **asdict(columns))
            return
        pair = tuple(question["pair"]) if question["pair"] else None
        found = self._exploration.pictures(steps, besides, pair, check)
        _say(question, "pictures", **asdict(found))

    def _search(self, question: dict[str, Any], check: Any) -> None:
        from unikat.jobs.progress import describe

        last = 0.0

        def between() -> None:
            check()
            while (look := self._inbox.look()) is not None:
                self.answer(look)

        def tell(event: Any) -> None:
            nonlocal last
            if time.monotonic() - last >= TELL:
                last = time.monotonic()
                _say(question, "searching", text=describe(event))

        if question["ask"] == "find":
            found = self._exploration.find(question["target"], between, tell)
            _say(question, "found", steps=found.steps, early=found.early)
        else:

            def early(points: Any) -> None:
                _say(question, "frontier", **asdict(points), complete=False)

            _say(question, "frontier", **asdict(self._exploration.frontier(between, tell, early)))


def main(folder: Path, inside: Path, source: str = "") -> None:
    """Open the exploration of a run, and answer what is asked on the standard input.

    Its file has to lie inside the folder of the workbench; `source` is what the user confirmed of
    a database, as `source_digest` tells it.
    """
    from unikat.errors import UnikatError

    inbox = Inbox()
    threading.Thread(target=_listen, args=(inbox,), daemon=True).start()
    try:
        from unikat.jobs.explore import Exploration
        from unikat.spec.trust import Trust

        last = 0.0

        def tell(words: str, share: float | None) -> None:
            nonlocal last
            if share in (None, 0.0) or time.monotonic() - last >= TELL:
                last = time.monotonic()
                _write(kind="preparing", text=words, share=share)

        exploration = Exploration.open(
            folder, tell, Trust(inside=inside, sources=frozenset({source} - {""}))
        )
    except UnikatError as error:
        _write(kind="failed", text=str(error))
        return
    keys = [asdict(key) for key in exploration.keys]
    _write(kind="ready", keys=keys, n_states=exploration.n_states, level=exploration.level)
    answering = inbox.answering = Answering(exploration, inbox)
    while True:
        answering.answer(inbox.take())


def _listen(inbox: Inbox) -> None:
    """Read questions until there will be none any more; then end the process."""
    for line in sys.stdin.buffer:
        question = parse_json(line)
        assert isinstance(question, dict)
        inbox.expect(question)
        if inbox.answering is not None and question["ask"] == "look":
            # Counts do not wait until the older look has noticed that it is obsolete.
            with contextlib.suppress(Exception):
                inbox.answering.count(question)
        inbox.put(question)
    os._exit(0)


def _say(question: dict[str, Any], kind: str, **answer: Any) -> None:
    _write(id=question["id"], kind=kind, **answer)


def _write(**event: Any) -> None:
    # Threads that draw states tell how far they are.
    with _WRITING:
        sys.stdout.write(json.dumps(event, ensure_ascii=True) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    from unikat.report.text.language import speaking

    with speaking(sys.argv[4]):
        main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3])
