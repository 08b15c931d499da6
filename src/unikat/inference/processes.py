"""Worker processes on this machine, for the chains of a run and for independent tasks.

They are started with `forkserver` (or `spawn`), never `fork`: a forked process dies in Numba's
thread pool. A worker is given once, when it starts, what all its work shares; it ignores Ctrl-C,
and ends when the parent says so or is gone, however the parent ended.
"""

from __future__ import annotations

import contextlib
import logging
import multiprocessing
import os
import pickle
import signal
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from unikat.errors import UnikatError
from unikat.files.scratch import Scratch, sweep, temporary_root

WATCH_SECONDS = 0.2
_LOSS_SECONDS = 1.0
"""Between two looks for workers that are lost; one that stays unnoticed for two is told."""
_LET_GO = 0.2
"""Seconds in which the system closes all files of a process that was killed."""
_ABANDON, _DIE = 1, 2
_STARTING = "unikat.inference.starting"
"""Is loaded by the server of workers, and sets what it and they print."""

_SOCKET_PATH = 103
"""Bytes the systems allow for the path of a socket; Linux allows four more."""
_SOCKET_NAME = len("/unikat-12345678/listener-12345678")
_FILES, _FILES_PER_WORKER = 12, 4
"""Open files that the pool and each of its workers need here, and a few to spare."""

Work = Callable[[Any, Any, Callable[[], bool]], Any]
"""Of what all work shares, an item, and a function that tells whether to stop; gives the result."""


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class WorkerPool:
    """Worker processes; started when work is submitted.

    Parameters
    ----------
    work
        Named at the top of a module of this package.
    shared
        Pickled: what every item of work needs, sent once to each worker.
    preload
        Names of modules to import once, before the workers start, who inherit them.
    imports_main
        Whether the workers import the user's script, because what they are sent is defined there.
    """

    def __init__(
        self,
        work: Work,
        shared: bytes,
        n_workers: int,
        *,
        preload: list[str],
        imports_main: bool = False,
    ) -> None:
        _check_open_files(n_workers)
        method = "forkserver" if sys.platform == "linux" else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            # Without this the server would import the user's script.
            context.set_forkserver_preload([*preload, _STARTING])
        # A bare byte in shared memory: an event has a lock, and a worker killed while it holds the
        # lock would block all others for ever.
        self._stop = context.RawValue("b", 0)
        self._imports_main = imports_main
        # The locks of the queues start the tracker of resources.
        with not_from_here():
            self._executor = ProcessPoolExecutor(
                n_workers,
                mp_context=context,
                initializer=_become_worker,
                initargs=(work, shared, self._stop),
            )
        self._answers = self._executor._result_queue
        self._closed = threading.Event()
        threading.Thread(target=self._watch_workers, name="unikat-losses", daemon=True).start()

    def submit(self, item: Any) -> Future[Any]:
        """Give an item of work to the next free worker."""
        return self._submit(_run, item)

    def start_one(self) -> None:
        """Start a worker before there is work, so that it imports meanwhile."""
        self._submit(os.getpid)

    def _submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        # Any submission may start a process.
        hidden = contextlib.nullcontext() if self._imports_main else _main_hidden()
        with not_from_here(), hidden, _uninterrupted():
            try:
                return self._executor.submit(function, *arguments)
            except (EOFError, OSError) as error:
                # The process that starts others was killed while it was asked for one, or the pool
                # is being killed.
                raise BrokenExecutor("no worker could be started") from error

    def abandon(self) -> None:
        """Tell the work that runs to stop where it can."""
        self._stop.value = _ABANDON

    def kill(self) -> None:
        """End the workers now, in the middle of what they do."""
        self._stop.value = _DIE
        # The executor may wait for the rest of an answer whose worker is gone. When the last end
        # for writing is closed, it learns that none will come; this one is for new workers alone.
        self._answers._writer.close()  # type: ignore[attr-defined]

    def close(self) -> None:
        """Wait for the workers to end; what waits is dropped."""
        try:
            self._executor.shutdown(wait=True, cancel_futures=True)
        finally:
            self._closed.set()

    def _watch_workers(self) -> None:
        """Kill the pool when a worker is lost and the executor does not notice.

        It notices unless the worker was killed in the middle of an answer.
        """
        lost = False
        executor = self._executor
        while not (executor._broken or executor._shutdown_thread or self._closed.is_set()):
            processes = list((executor._processes or {}).values())
            ended = bool(wait([process.sentinel for process in processes], 0))
            if ended and lost:
                self.kill()
                return
            lost = ended
            self._closed.wait(_LOSS_SECONDS)


def _check_open_files(n_workers: int) -> None:
    """Refuse a pool whose processes could not be started, before half of it is."""
    taken: list[int] = []
    try:
        for _ in range(_FILES + _FILES_PER_WORKER * n_workers):
            taken.append(os.open(os.devnull, os.O_RDONLY))
    except OSError as error:
        raise UnikatError(
            f"Too many open files: the limit of the system leaves too few for {n_workers} worker "
            "processes. Raise it with  ulimit -n 1024,  or use fewer workers; 1 needs none."
        ) from error
    finally:
        for one in taken:
            os.close(one)


_SAFE_PATH = "PYTHONSAFEPATH"
_safe_lock = threading.Lock()
_n_safe = 0


@contextlib.contextmanager
def not_from_here() -> Iterator[None]:
    """Start processes of Python that do not look for modules in the current folder.

    They are started with `-c`, and would run a `numpy.py` that lies beside the data.
    """
    global _n_safe
    with _safe_lock:
        # Not restored by another thread while this one starts something.
        ours = _n_safe > 0 or not os.environ.get(_SAFE_PATH)
        if ours:
            _n_safe += 1
            os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        with _safe_lock:
            if ours:
                _n_safe -= 1
                if not _n_safe:
                    os.environ.pop(_SAFE_PATH, None)


_main_lock = threading.Lock()


@contextlib.contextmanager
def _main_hidden() -> Iterator[None]:
    """Start processes without importing the user's script in them.

    A new process imports the script that the parent runs. A script without a `__main__` guard
    would then be run again, to the end, in every worker. Ours need nothing from it.
    """
    with _main_lock:
        main = sys.modules["__main__"]
        sys.modules["__main__"] = types.ModuleType("__main__")
        try:
            yield
        finally:
            sys.modules["__main__"] = main


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Keep Ctrl-C from processes that start here until they ignore it; this one gets it after.

    A process that is interrupted while it imports prints a traceback, and one that starts needs
    what its parent holds for it.
    """
    _keep_sockets()
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    # Started beforehand: where it is started it lets the signal through again.
    resource_tracker.ensure_running()
    held: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    # The mask is for the new process. Here another thread may take the signal all the same, and
    # its handler then runs in the main thread.
    handler = signal.getsignal(signal.SIGINT)
    if main and callable(handler):
        signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if main and callable(handler):
            signal.signal(signal.SIGINT, handler)
            if held:
                handler(held[0], None)


def _keep_sockets() -> None:
    """Let multiprocessing keep its sockets in a temporary folder that goes even after a kill."""
    config: dict[str, Any] = multiprocessing.current_process()._config  # type: ignore[attr-defined]
    if "tempdir" in config:
        return
    root = temporary_root()
    if os.name == "posix" and len(os.fsencode(root)) + _SOCKET_NAME > _SOCKET_PATH:
        # A socket holds nothing on disk: any place serves whose path is short enough. Windows has
        # pipes, whose names are no paths.
        root = _short_folder(root)
    config["tempdir"] = str(Scratch(root).path)


def _short_folder(root: Path) -> Path:
    for name in ("/tmp", "/var/tmp", "/dev/shm"):
        if os.path.isdir(name) and os.access(name, os.W_OK | os.X_OK):
            return Path(name)
    raise UnikatError(
        f"The path of the folder for temporary files, {str(root)!r}, is too long for the sockets "
        f"of worker processes: at most {_SOCKET_PATH - _SOCKET_NAME} bytes. Set TMPDIR to a folder "
        "with a shorter path, or use one worker."
    )


_here: tuple[Work, Any, Any] | None = None
"""In a worker: its work, what that shares, and the byte that stops it."""


def _become_worker(work: Work, shared: bytes, stop: Any) -> None:
    """Make a new process a worker: deaf to Ctrl-C, gone when its parent is or says so, quiet."""
    global _here
    # First of all: unpacking imports the model, and Ctrl-C meanwhile is for the parent.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_watch_parent, args=(stop,), name="unikat-watch", daemon=True).start()
    # Warnings of libraries do not belong on standard error.
    logging.captureWarnings(True)
    logging.lastResort = logging.NullHandler()
    _here = (work, pickle.loads(shared), stop)


def _watch_parent(stop: Any) -> None:
    """End this worker when its parent is gone, or says so."""
    parent = multiprocessing.parent_process()
    while parent is not None:
        if wait([parent.sentinel], WATCH_SECONDS):
            _clean_after_parent()
            os._exit(1)
        if stop.value == _DIE:
            os._exit(1)


def _clean_after_parent() -> None:
    """Delete the temporary folders of a parent that was killed; without workers the next run does.

    Those of processes that live are locked, and stay.
    """
    # The parent lets go of its locks a little later than of what it is watched by.
    time.sleep(_LET_GO)
    sockets = multiprocessing.current_process()._config.get("tempdir")  # type: ignore[attr-defined]
    with contextlib.suppress(Exception):
        for root in {temporary_root(), Path(sockets).parent if sockets else temporary_root()}:
            sweep(root)


def _run(item: Any) -> Any:
    if _here is None:
        raise RuntimeError("work was sent to a process that is not a worker")
    work, shared, stop = _here
    return work(shared, item, lambda: bool(stop.value))
