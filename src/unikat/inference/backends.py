"""Where segments run: in this process, in local worker processes, or on an executor of the user.

The local pool is started with `forkserver` (or `spawn`), never `fork`: a forked process dies in
Numba's thread pool. Its workers are given the job once, when they start; they ignore Ctrl-C, stop
between two sweeps when the parent says so, and end when the parent is gone, however it ended.
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
import types
from collections.abc import Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
)
from concurrent.futures import wait as wait_futures
from dataclasses import dataclass, replace
from multiprocessing import resource_tracker
from multiprocessing.connection import wait
from typing import Any, Protocol

from unikat.errors import SpecError, UnikatError, shown
from unikat.inference.segments import Job, Segment, SegmentResult, run_segment
from unikat.interrupts import NAME
from unikat.scratch import Scratch

PATIENCE = 1.0
"""Seconds for which sweeps that still run are waited for, once their results are not wanted."""
TINY_SWEEP = 4e5
"""Counted work of a sweep (nanoseconds, roughly) below which worker processes, which take seconds
to start, do not pay: four chains of some thousand sweeps are then a matter of seconds."""

MOST_WORKERS, MOST_THREADS = 1024, 256
"""More than any machine has cores; the system would refuse them, or run out of memory."""


@dataclass(frozen=True, kw_only=True)
class Workers:
    """What to run chains on; the numbers do not depend on it."""

    executor: Executor | None = None
    """Used as it is and not shut down; by default local processes."""
    n_workers: int | None = None
    """Local processes; by default one per chain, at most one per core. 1: this process."""
    n_threads: int | None = None
    """Threads of each chain; by default what the cores allow."""

    def __post_init__(self) -> None:
        for name, most in (("n_workers", MOST_WORKERS), ("n_threads", MOST_THREADS)):
            value = getattr(self, name)
            if value is not None and not 1 <= value <= most:
                raise SpecError(f"{name} is {shown(value)}; it must be from 1 to {most:,}.")


class Backend(Protocol):
    """Runs segments."""

    n_threads: int

    def submit(self, segment: Segment) -> Future[SegmentResult]:
        """Start a segment, or queue it."""
        ...

    def abandon(self) -> None:
        """Let running segments end at their next sweep, without a result."""
        ...

    def broken(self, error: BrokenExecutor) -> UnikatError:
        """Say what a lost worker means and what to do."""
        ...


def available_cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@contextlib.contextmanager
def open_backend(job: Job, workers: Workers, n_chains: int, sweep_cost: float) -> Iterator[Backend]:
    """Start what `workers` asks for, and end what was started here, and nothing else."""
    cores = available_cores()
    if workers.executor is not None:
        yield _Foreign(job, workers.executor, workers.n_threads or max(1, cores // n_chains))
        return
    tiny = workers.n_workers is None and sweep_cost < TINY_SWEEP
    n_workers = 1 if tiny else min(workers.n_workers or cores, n_chains)
    n_threads = workers.n_threads or max(1, cores // n_workers)
    luggage = None if n_workers == 1 else _pack(job)
    local: _InProcess | _Pool
    if luggage is None:
        local = _InProcess(job, workers.n_threads or cores)
    else:
        local = _Pool(luggage, _own_modules(job), n_workers, n_threads)
    try:
        yield local
    finally:
        local.abandon()
        # A sweep may take long, and nobody waits for its result.
        timer = threading.Timer(PATIENCE, local.kill)
        timer.daemon = True
        timer.start()
        try:
            local.close()
        except KeyboardInterrupt:
            # Python takes a thread whose join was interrupted for ended, and closes the queue by
            # which the pool tells its workers to end.
            local.kill()
            raise
        finally:
            timer.cancel()


class _Foreign:
    """An executor of the user: every segment carries the job."""

    def __init__(self, job: Job, executor: Executor, n_threads: int) -> None:
        self._job = job
        self._executor = executor
        self.n_threads = n_threads

    def submit(self, segment: Segment) -> Future[SegmentResult]:
        return self._executor.submit(run_segment, replace(segment, job=self._job))

    def abandon(self) -> None:
        """Do nothing: what runs elsewhere cannot be reached, and its result is not read."""

    def broken(self, error: BrokenExecutor) -> UnikatError:
        return UnikatError(f"The executor broke down while sampling: {error}. {RESUME}")


class _InProcess:
    """One thread of this process: nothing to start and nothing to send."""

    def __init__(self, job: Job, n_threads: int) -> None:
        self._job = job
        self._stop = threading.Event()
        self.executor: Executor = ThreadPoolExecutor(1, thread_name_prefix=f"{NAME}-chains")
        self._last: Future[SegmentResult] | None = None
        self.n_threads = n_threads

    def submit(self, segment: Segment) -> Future[SegmentResult]:
        segment = replace(segment, job=self._job)
        self._last = self.executor.submit(run_segment, segment, self._stop.is_set)
        return self._last

    def abandon(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """End the thread; one that is in a long sweep ends after it."""
        self.executor.shutdown(wait=False, cancel_futures=True)
        if self._last is not None:
            wait_futures([self._last], timeout=PATIENCE)

    def kill(self) -> None:
        """Do nothing: a thread ends with its sweep."""

    def broken(self, error: BrokenExecutor) -> UnikatError:
        return UnikatError(f"The sampling thread broke down: {error}.")


RESUME = (
    "Nothing up to the last checkpoint is lost: run again with --resume, or without it if the run "
    "had no checkpoint."
)


_GUARD = (
    "The model or the observer is defined in the script that is run: it must then start its work "
    "under `if __name__ == '__main__':`."
)
_MAIN = b"__main__"


class _Pool:
    """Worker processes on this machine."""

    def __init__(self, luggage: bytes, modules: list[str], n_workers: int, n_threads: int) -> None:
        method = "forkserver" if sys.platform == "linux" else "spawn"
        context = multiprocessing.get_context(method)
        if method == "forkserver":
            # Imported once and inherited by all workers. Without this the server would import the
            # user's script.
            context.set_forkserver_preload(modules)
        # A bare byte in shared memory: an event has a lock, and a worker killed while it holds the
        # lock would block all others for ever.
        self._stop = context.RawValue("b", 0)
        self._needs_main = _MAIN in luggage
        self.n_threads = n_threads
        self.executor: Executor = ProcessPoolExecutor(
            n_workers, mp_context=context, initializer=_start_worker, initargs=(luggage, self._stop)
        )
        # Started now, so that the workers import while the parent compiles.
        try:
            for _ in range(n_workers):
                self._submit(os.getpid)
        except BrokenExecutor as error:
            raise self.broken(error) from error
        except RuntimeError:
            # Raised in a worker that runs the user's script from the top, to this very place.
            raise UnikatError(_GUARD) from None
        except KeyboardInterrupt:
            # Workers that are on their way need what this process holds for them.
            self.kill()
            self.executor.shutdown(wait=True, cancel_futures=True)
            raise

    def submit(self, segment: Segment) -> Future[SegmentResult]:
        return self._submit(_run_here, segment)

    def _submit(self, function: Any, *arguments: Any) -> Future[Any]:
        # Any submission may start a process.
        with contextlib.nullcontext() if self._needs_main else main_hidden(), uninterrupted():
            return self.executor.submit(function, *arguments)

    def abandon(self) -> None:
        self._stop.value = _ABANDON

    def close(self) -> None:
        """Wait for the workers to end."""
        self.executor.shutdown(wait=True, cancel_futures=True)

    def kill(self) -> None:
        """End the workers now, in the middle of a sweep."""
        kill_workers(self._stop)

    def broken(self, error: BrokenExecutor) -> UnikatError:
        hint = f" {_GUARD}" if self._needs_main else ""
        return UnikatError(
            "A worker process ended unexpectedly; most often the system had no memory left and "
            f"stopped it. Try fewer workers (n_workers=1 uses no processes).{hint} {RESUME}"
        )


def _pack(job: Job) -> bytes | None:
    """Pickle the job for the workers, once; None if it cannot reach them."""
    try:
        luggage = pickle.dumps(job, protocol=pickle.HIGHEST_PROTOCOL)
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return None if _MAIN in luggage and not _main_has_file() else luggage


def _main_has_file() -> bool:
    """Whether a worker can import the script; what was typed in, or is in a notebook, it cannot."""
    main = sys.modules["__main__"]
    file = getattr(main, "__file__", None)
    return main.__spec__ is not None or (file is not None and os.path.isfile(file))


def _own_modules(job: Job) -> list[str]:
    names = [__name__, type(job.model).__module__, type(job.observer).__module__]
    return [name for name in names if name.split(".")[0] == __name__.split(".")[0]]


_main_lock = threading.Lock()


@contextlib.contextmanager
def main_hidden() -> Iterator[None]:
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
def uninterrupted() -> Iterator[None]:
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
    if "tempdir" not in config:
        config["tempdir"] = str(Scratch().path)


_ABANDON, _DIE = 1, 2
WATCH_SECONDS = 0.2

_here: tuple[Job, Any] | None = None
"""In a worker: its job, and the byte that stops it."""


def _start_worker(luggage: bytes, stop: Any) -> None:
    global _here
    # First of all: unpacking imports the model, and Ctrl-C meanwhile is for the parent.
    begin_worker(stop)
    _here = (pickle.loads(luggage), stop)


def begin_worker(stop: Any) -> None:
    """Make a new process a worker: deaf to Ctrl-C, gone when its parent is or says so, quiet."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=watch_parent, args=(stop,), name="unikat-watch", daemon=True).start()
    # What libraries warn of is not for standard error.
    logging.captureWarnings(True)
    logging.lastResort = logging.NullHandler()


def watch_parent(stop: Any) -> None:
    """End this worker when its parent is gone, or says so."""
    parent = multiprocessing.parent_process()
    while parent is not None:
        if wait([parent.sentinel], WATCH_SECONDS) or stop.value == _DIE:
            os._exit(1)


def kill_workers(stop: Any) -> None:
    """Let the workers that watch this byte end now, in the middle of what they do."""
    stop.value = _DIE


def _run_here(segment: Segment) -> SegmentResult:
    if _here is None:
        raise RuntimeError("a segment was sent to a process that is not a worker")
    job, stop = _here
    return run_segment(replace(segment, job=job), lambda: bool(stop.value))
