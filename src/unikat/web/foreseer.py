"""The process that says how long a run would take, while its form is filled in.

It reads the file and counts the work of every fit, at a low priority and beside the server, so that
no count of ticked keys waits for it. Questions and answers are lines of JSON on its standard
streams: `kind`, `spec` and `language`, then `lines` or `problem`. It ends when its input is closed,
or after a while without a question.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
from typing import IO, TYPE_CHECKING, Any

from unikat.errors import SpecError, why
from unikat.files.json import parse_json
from unikat.interrupts import patience
from unikat.web.sources import MOST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unikat.spec.base import Spec
    from unikat.spec.kinds import Kind

IDLE = 300.0
"""Seconds without a question after which it ends, and its memory is free again."""
NICE = 10
GONE = "The process that counts the work has ended unexpectedly; perhaps the memory was full."


class Foreseer:
    """The process, as the server sees it; it is started by the first question."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def expected_time(self, kind: Kind, spec: Spec, language: str) -> Sequence[str]:
        """Say in words how long a run would take, by counted work; one question at a time.

        Raises
        ------
        SpecError
            What the run would refuse before its first fit; or if there is no answer.
        """
        values = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        asked = {"kind": kind.name, "spec": values, "language": language}
        line = json.dumps(asked).encode() + b"\n"
        with self._lock:
            # One that was idle may end just now.
            answer = self._ask(line) or self._ask(line)
        if answer is None:
            raise SpecError(GONE)
        if "problem" in answer:
            raise SpecError(answer["problem"])
        return list(answer["lines"])

    def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()

    def _ask(self, line: bytes) -> dict[str, Any] | None:
        try:
            if self._process is None:
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "unikat.web.foreseer"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                )
        except OSError as error:
            raise SpecError(f"The work cannot be counted: {why(error)}.") from None
        streams = self._process.stdin, self._process.stdout
        assert streams[0] is not None
        assert streams[1] is not None
        with contextlib.suppress(OSError, ValueError):
            streams[0].write(line)
            streams[0].flush()
            found = parse_json(streams[1].readline())
            if isinstance(found, dict):
                return found
        self.close()
        return None


def foreseen(kind: Kind, spec: Spec) -> list[str]:
    """Say in words how long a run would take; no sweep is made.

    Raises
    ------
    UnikatError
        As the run, before its first fit.
    """
    from unikat.inference.trial import counted_alone
    from unikat.jobs import dry_run
    from unikat.report.text.dry_run import time_words
    from unikat.spec.from_options import Inputs

    with counted_alone():
        return time_words(getattr(dry_run, f"of_{kind.noun}")(spec, Inputs(), None))


def answered(question: dict[str, Any]) -> dict[str, Any]:
    """Answer a question."""
    from unikat.errors import UnikatError
    from unikat.report.text.language import speaking
    from unikat.spec.kinds import KINDS

    kind = KINDS[question["kind"]]
    try:
        with speaking(question["language"]):
            return {"lines": foreseen(kind, kind.specification.parse(question["spec"]))}
    except UnikatError as error:
        return {"problem": str(error)}
    except MemoryError:
        return {"problem": "There is not enough memory to count the work."}
    except Exception as error:
        # Its text may quote records.
        return {"problem": f"This is a defect of unikat ({type(error).__name__})."}


def main(questions: IO[bytes], answers: IO[bytes]) -> None:
    """Answer what is asked, until nobody asks any more."""
    with contextlib.suppress(AttributeError, OSError):
        os.nice(NICE)
    patience.set(MOST_SECONDS)
    while True:
        with contextlib.suppress(OSError, ValueError):
            if not select.select([questions], [], [], IDLE)[0]:
                return
        line = questions.readline()
        if not line:
            return
        question = parse_json(line)
        assert isinstance(question, dict)
        answers.write(json.dumps(answered(question)).encode() + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
