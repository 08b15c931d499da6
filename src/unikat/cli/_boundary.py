"""What stands between the program and the system: streams, signals, warnings, and the last resort.

Whatever is raised ends in one message. Texts of exceptions that were not meant for the user are
never shown, since they may quote records.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import click

from unikat.errors import brief, why
from unikat.interrupts import never_lost

_PACKAGE = str(Path(__file__).parents[1])
_REMOTE = re.compile(r'File "([^"\n]+)", line ([0-9]+), in (\S+)')
_SYSTEM = {
    errno.EMFILE: "Allow more with  ulimit -n 1024,  or use --workers 1.",
    errno.ENFILE: "Close other programs, or use --workers 1.",
    errno.ENOSPC: "Make room on the disk of the results and on that of temporary files (TMPDIR).",
    errno.EDQUOT: "Make room on the disk of the results and on that of temporary files (TMPDIR).",
}
"""What to do about what the system refuses."""


class Stops:
    """What has asked this process to end, if anything has."""

    asked: bool = False
    number: int | None = None
    """Of the signal, unless it was Ctrl-C."""


@contextlib.contextmanager
def stopping() -> Iterator[Stops]:
    """Let SIGTERM and SIGHUP end a run as Ctrl-C does: what is done is kept."""
    stops = Stops()

    def interrupt(number: int, frame: FrameType | None) -> None:
        # Compiled code of others may turn the exception into another one.
        stops.asked = True
        signal.default_int_handler(number, frame)

    def stop(number: int, frame: FrameType | None) -> None:
        stops.asked, stops.number = True, number
        # It may be one that waits until a process has started.
        handler = signal.getsignal(signal.SIGINT)
        if callable(handler):
            handler(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    signals = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]
    main = threading.current_thread() is threading.main_thread()
    # Signals that are ignored (nohup) or already handled stay so.
    ours = [one for one in signals if main and signal.getsignal(one) == signal.SIG_DFL]
    for one in ours:
        signal.signal(one, stop)
    ctrl_c = main and signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if ctrl_c:
        signal.signal(signal.SIGINT, interrupt)
    try:
        with never_lost(lambda: stops.number or signal.SIGINT):
            yield stops
    finally:
        for one in ours:
            signal.signal(one, signal.SIG_DFL)
        if ctrl_c:
            signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def quiet_libraries() -> Iterator[None]:
    """Keep warnings of libraries from standard error; our own are in the results."""
    last, told = logging.lastResort, "PYTHONWARNINGS" in os.environ
    logging.lastResort = logging.NullHandler()
    logging.captureWarnings(True)
    if not told:
        # For the processes that are started; Python's own warn where this one is killed.
        os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        if not told:
            del os.environ["PYTHONWARNINGS"]
        logging.captureWarnings(False)
        logging.lastResort = last


def open_streams() -> None:
    """Open what was closed, so that no file gets the place of a stream."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            # The system gives the lowest number that is free.
            os.open(os.devnull, os.O_RDWR)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115  # to the end


def tell_unforeseen(error: BaseException, *, debug: bool) -> None:
    """Say on standard error what nobody foresaw, without the text of the exception."""
    if isinstance(error, MemoryError):
        lines = [
            "Error: There is not enough memory. Group or leave out keys with many levels, use "
            "fewer --workers, or a machine with more memory. Files that were complete are kept."
        ]
    elif isinstance(error, OSError) and error.errno:
        where = f", {brief(error.filename)!r}" if isinstance(error.filename, str) else ""
        remedy = _SYSTEM.get(error.errno, "")
        lines = [f"Error: The system refused: {why(error)}{where}. {remedy}".rstrip()]
    else:
        lines = [
            f"Error: This is a defect of unikat ({type(error).__name__}{_place(error)}), not of "
            "your data. Files that were complete are kept. Please report it with what  unikat "
            "--debug ...  shows: where it arose, and no value of the data."
        ]
    if debug:
        lines += _frames(error)
    for line in lines:
        click.echo(line, err=True)


def _place(error: BaseException) -> str:
    """Last place of ours that an error came from."""
    ours = [
        (file, line) for one in _chain(error) for file, line, _ in _steps(one) if _is_ours(file)
    ]
    return f" in {Path(ours[-1][0]).name}:{ours[-1][1]}" if ours else ""


def _frames(error: BaseException) -> list[str]:
    """Kinds of errors and where they were raised: no texts, no values."""
    lines = []
    for one in _chain(error):
        lines.append(f"{type(one).__module__}.{type(one).__name__}")
        for file, line, function in _steps(one):
            shown = os.path.relpath(file, Path(_PACKAGE).parent) if _is_ours(file) else file
            lines.append(f"  {shown}:{line} in {function}")
    return lines


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGE + os.sep)


def _chain(error: BaseException) -> list[BaseException]:
    """The error, and before it those that led to it."""
    found: list[BaseException] = []
    step: BaseException | None = error
    while step is not None and step not in found:
        found.insert(0, step)
        step = step.__cause__ or step.__context__
    # What a worker tells of itself is nearest to the place.
    return sorted(found, key=lambda one: type(one).__name__ == "_RemoteTraceback")


def _steps(error: BaseException) -> list[tuple[str, int, str]]:
    steps: list[tuple[str, int, str]] = [
        (frame.filename, frame.lineno or 0, frame.name)
        for frame in traceback.extract_tb(error.__traceback__)
    ]
    if type(error).__name__ == "_RemoteTraceback":
        told: Any = getattr(error, "tb", "")
        steps += [(file, int(line), name) for file, line, name in _REMOTE.findall(str(told))]
    return steps
