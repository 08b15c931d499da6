"""Ctrl-C ends what does not look for it, within two seconds."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

import duckdb
import pytest

from unikat import interrupts
from unikat.data.engine import session
from unikat.interrupts import interruptible, left_behind, stopped_by

posix = pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
ENDLESS = "SELECT sum(a.range * b.range) FROM range(1000000000) a, range(1000000000) b"
word: ContextVar[str] = ContextVar("word", default="none")


@contextmanager
def ctrl_c(after: float) -> Iterator[None]:
    timer = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    try:
        yield
    finally:
        timer.join()


def test_results_and_errors_come_through() -> None:
    @interruptible
    def divided(a: int, *, by: int) -> tuple[float, str, bool]:
        return a / by, word.get(), threading.current_thread() is threading.main_thread()

    word.set("said")
    assert divided(4, by=2) == (2.0, "said", False)
    with pytest.raises(ZeroDivisionError):
        divided(1, by=0)


def test_another_thread_works_itself() -> None:
    found: list[threading.Thread] = []
    thread = threading.Thread(
        target=interruptible(lambda: found.append(threading.current_thread()))
    )
    thread.start()
    thread.join()
    assert found == [thread]


@posix
def test_ctrl_c_ends_a_query(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)

    @interruptible
    def query() -> None:
        with session([], name="x") as connection:
            connection.execute(ENDLESS)

    with ctrl_c(0.5), pytest.raises(KeyboardInterrupt):
        query()
    assert list(tmp_path.iterdir()) == [], "the query has ended"


@posix
def test_a_step_that_cannot_be_stopped_is_left() -> None:
    end = threading.Event()

    @interruptible
    def deaf() -> None:
        end.wait(60)

    begin = time.monotonic()
    with ctrl_c(0.2), pytest.raises(KeyboardInterrupt):
        deaf()
    assert left_behind()
    end.set()
    while left_behind():
        time.sleep(0.01)
    assert time.monotonic() - begin < 50


def test_what_stops_a_step_is_forgotten_after_it() -> None:
    connection = duckdb.connect()
    with stopped_by(connection.interrupt):
        assert interrupts._stoppers
        connection.execute("SELECT 1")
    assert not interrupts._stoppers


def test_a_thread_that_is_just_ending_is_not_left_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    """The main thread goes on when the step has ended, which is before its thread has."""
    end, work = threading.Event(), threading.Thread.run

    def slowly_ending(thread: threading.Thread) -> None:
        work(thread)
        end.wait(60)

    monkeypatch.setattr(threading.Thread, "run", slowly_ending)
    assert interruptible(lambda: 7)() == 7
    assert not left_behind()
    end.set()
