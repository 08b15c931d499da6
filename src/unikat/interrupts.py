"""Ctrl-C within a second, also while compiled code works that does not look for it.

Python tells of Ctrl-C in its main thread, between two steps of Python. A query of DuckDB or a
compiled search is one step, however long it takes. `interruptible` makes such a step in another
thread while the main thread waits and listens. Where Python drops the exception (in a finalizer,
for example), `never_lost` raises it again.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

_POLL = 0.2
"""Seconds of one piece of waiting: Windows delivers Ctrl-C only between them."""
_PATIENCE = 1.0
"""Seconds for which an interrupted step is waited for; it is then left behind."""
_AGAIN = 0.05
"""Seconds after which a dropped Ctrl-C is repeated: by then its finalizer has ended."""

patience: contextvars.ContextVar[float | None] = contextvars.ContextVar("patience", default=None)
"""Seconds for which the answer of a database is worth waiting; None: without end."""
_stoppers: dict[int, list[Callable[[], object]]] = {}
"""By thread: what makes the step stop that it is in."""
_left: list[Callable[[], bool]] = []
"""Whether each step still runs that was not waited for."""


def interruptible(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let Ctrl-C end a function at once, wherever it is.

    For work of which nothing is kept that is not complete. A step that cannot be stopped goes on
    in a thread that does not keep the process alive; its result is not used.
    """

    @functools.wraps(function)
    def call(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        if threading.current_thread() is not threading.main_thread():
            # Ctrl-C is not for this thread.
            return function(*args, **kwargs)
        found: list[Result] = []
        failed: list[BaseException] = []
        context = contextvars.copy_context()
        # Python takes a thread whose join was interrupted for ended.
        ended = threading.Event()

        def work() -> None:
            try:
                found.append(context.run(function, *args, **kwargs))
            except BaseException as error:
                failed.append(error)
            finally:
                ended.set()

        thread = threading.Thread(target=work, name="unikat-work", daemon=True)
        try:
            thread.start()
            while not ended.wait(_POLL):
                pass
        except BaseException:
            _stop(thread, ended)
            raise
        if failed:
            # Not to be kept alive by its own traceback.
            raise failed.pop()
        return found[0]

    return call


def within_seconds(step: Callable[[], Result], seconds: float | None) -> Result:
    """Do a step that may wait without end for another machine; TimeoutError if it does.

    It is then left behind, in a thread that does not keep the process alive.
    """
    if seconds is None:
        return step()
    found: list[Result] = []
    failed: list[BaseException] = []

    def work() -> None:
        try:
            found.append(step())
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=work, name="unikat-waiting", daemon=True)
    thread.start()
    thread.join(seconds)
    if thread.is_alive():
        leave(thread.is_alive)
        raise TimeoutError
    if failed:
        raise failed.pop()
    return found[0]


@contextmanager
def stopped_by(stop: Callable[[], object]) -> Iterator[None]:
    """Name what ends the steps of this thread; it is called from another thread, perhaps often."""
    mine = _stoppers.setdefault(threading.get_ident(), [])
    mine.append(stop)
    try:
        yield
    finally:
        mine.remove(stop)
        if not mine:
            del _stoppers[threading.get_ident()]


@contextmanager
def within_patience(stop: Callable[[], object]) -> Iterator[None]:
    """Stop the steps of this thread once they take longer than a page waits, if one waits."""
    seconds, ended = patience.get(), threading.Event()
    if seconds is None:
        yield
        return

    def watch() -> None:
        wait = seconds
        while not ended.wait(wait):
            # It ends the step that runs now; the thread may begin another.
            stop()
            wait = _POLL

    watching = threading.Thread(target=watch, name="unikat-patience", daemon=True)
    watching.start()
    try:
        yield
    finally:
        ended.set()
        watching.join()


def interrupt_main_thread(number: int = signal.SIGINT) -> None:
    """Deliver a signal to the main thread, from any thread, also if it waits for the system."""
    if hasattr(signal, "pthread_kill"):
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, number)
    else:
        import _thread

        _thread.interrupt_main(signal.Signals(number))


@contextmanager
def never_lost(number: Callable[[], int] = lambda: signal.SIGINT) -> Iterator[None]:
    """Repeat a Ctrl-C whose exception Python drops, as it does in finalizers and callbacks.

    `number` tells which signal is to be repeated.
    """
    before = sys.unraisablehook
    waiting: list[threading.Timer] = []

    def hook(dropped: sys.UnraisableHookArgs) -> None:
        if not issubclass(dropped.exc_type, KeyboardInterrupt):
            before(dropped)
            return
        again = threading.Timer(_AGAIN, interrupt_main_thread, (number(),))
        again.daemon = True
        waiting.append(again)
        again.start()

    sys.unraisablehook = hook
    try:
        yield
    finally:
        sys.unraisablehook = before
        for again in waiting:
            again.cancel()
            again.join()


def leave(runs: Callable[[], bool]) -> None:
    """Leave a step behind; `runs` tells whether it still runs."""
    _left[:] = [other for other in _left if other()]
    _left.append(runs)


def left_behind() -> bool:
    """Whether a step still runs that was left behind; a thread that is just ending is none."""
    return any(runs() for runs in _left)


def _stop(thread: threading.Thread, ended: threading.Event) -> None:
    end = time.monotonic() + _PATIENCE
    while not ended.wait(0.05) and time.monotonic() < end:
        # Each ends the query that runs now; the thread may begin another.
        for stop in tuple(_stoppers.get(thread.ident or 0, ())):
            # To cancel a query of a server that hangs takes without end, too.
            with contextlib.suppress(TimeoutError):
                within_seconds(stop, max(end - time.monotonic(), 0.05))
    if not ended.is_set():
        leave(lambda: not ended.is_set())
