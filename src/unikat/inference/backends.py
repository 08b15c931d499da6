"""Where segments run: in this process, in local worker processes, or on an executor of the user.

Worker processes (see :mod:`unikat.inference.processes`) are given the job once, when they start,
and stop between two sweeps when the parent says so.
"""

from __future__ import annotations

import contextlib
import math
import os
import pickle
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import (
    BrokenExecutor,
    Executor,
    Future,
    ThreadPoolExecutor,
)
from concurrent.futures import wait as wait_futures
from dataclasses import dataclass, replace
from typing import Any, Protocol

from unikat.errors import SpecError, UnikatError, shown
from unikat.inference.executors import Cluster
from unikat.inference.processes import WorkerPool, available_cores
from unikat.inference.segments import Job, Segment, SegmentResult, n_bytes, run_segment
from unikat.interrupts import leave
from unikat.models.device import Device
from unikat.models.options import memory

PATIENCE = 1.0
"""Seconds for which sweeps that still run are waited for, once their results are not wanted."""
TINY_SWEEP = 4e5
"""Counted work of a sweep (nanoseconds, roughly) below which worker processes, which take seconds
to start, do not pay: four chains of some thousand sweeps are then a matter of seconds."""

_TIMES_THE_JOB = 6
"""Memory of a process that samples over that of its table: states, totals, and what is made on the
way. Where it is not there for every worker, threads of this process share one table."""
MOST_WORKERS, MOST_THREADS = 1024, 256
"""More than any machine has cores; the system would refuse them, or run out of memory."""


@dataclass(frozen=True, kw_only=True)
class Workers:
    """What to run chains on; the numbers do not depend on it.

    Examples
    --------
    >>> import unikat
    >>> unikat.Workers(n_workers=2, n_threads=1).device
    'cpu'
    """

    executor: Executor | None = None
    """Used as it is and not shut down; by default local processes."""
    n_workers: int | None = None
    """Local processes; by default one per chain, at most one per core. 1: this process."""
    n_threads: int | None = None
    """Threads of each chain; by default what the cores allow."""
    device: Device = "cpu"
    """`"cuda"`: models that have CUDA kernels compute on the GPU."""

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


def local_workers(
    workers: Workers, n_chains: int, sweep_cost: float, job_bytes: float
) -> tuple[int, int]:
    """Processes on this machine, and threads of each, for chains of a counted work per sweep.

    One process is this one. `job_bytes` is the memory of what every process needs a copy of.
    """
    cores = available_cores()
    n_workers = min(workers.n_workers or cores, n_chains)
    needed = _TIMES_THE_JOB * job_bytes * (n_workers + 1)
    if workers.n_workers is None and (sweep_cost < TINY_SWEEP or needed > (memory() or math.inf)):
        n_workers = 1
    return n_workers, workers.n_threads or max(1, cores // n_workers)


@contextlib.contextmanager
def open_backend(job: Job, workers: Workers, n_chains: int, sweep_cost: float) -> Iterator[Backend]:
    """Start what `workers` asks for, and end what was started here, and nothing else."""
    cores = available_cores()
    if workers.executor is not None:
        # A worker of a cluster is one core.
        shared = isinstance(workers.executor, Cluster)
        each = 1 if shared else max(1, cores // n_chains)
        yield _Foreign(job, workers.executor, workers.n_threads or each)
        return
    n_workers, n_threads = local_workers(
        workers, n_chains, sweep_cost, n_bytes((job.data, job.observer))
    )
    luggage = None if n_workers == 1 else _pack(job)
    local: _InProcess | _Processes
    if luggage is None:
        local = _InProcess(job, workers.n_threads or cores)
    else:
        local = _Processes(luggage, _own_modules(job), n_workers, n_threads)
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
    """An executor of the user, or a cluster, which is given the job once."""

    def __init__(self, job: Job, executor: Executor, n_threads: int) -> None:
        self._job: Any = executor.share(job) if isinstance(executor, Cluster) else job
        self._executor = executor
        self.n_threads = n_threads

    def submit(self, segment: Segment) -> Future[SegmentResult]:
        return self._executor.submit(_run_with, segment, self._job)

    def abandon(self) -> None:
        """Do nothing: what runs elsewhere cannot be reached, and its result is not read."""

    def broken(self, error: BrokenExecutor) -> UnikatError:
        return UnikatError(f"The executor broke down while sampling: {error}. {RESUME}")


class _InProcess:
    """One thread of this process: nothing to start and nothing to send."""

    def __init__(self, job: Job, n_threads: int) -> None:
        self._job = job
        self._stop = threading.Event()
        self._executor: Executor = ThreadPoolExecutor(1, thread_name_prefix="unikat-chains")
        self._last: Future[SegmentResult] | None = None
        self.n_threads = n_threads

    def submit(self, segment: Segment) -> Future[SegmentResult]:
        segment = replace(segment, job=self._job)
        self._last = self._executor.submit(run_segment, segment, self._stop.is_set)
        return self._last

    def abandon(self) -> None:
        self._stop.set()

    def close(self) -> None:
        """End the thread; one that is in a long sweep ends after it."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        last = self._last
        if last is not None and wait_futures([last], timeout=PATIENCE).not_done:
            leave(lambda: not last.done())

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


class _Processes:
    """Worker processes on this machine."""

    def __init__(self, luggage: bytes, modules: list[str], n_workers: int, n_threads: int) -> None:
        self._needs_main = _MAIN in luggage
        self.n_threads = n_threads
        self._pool = WorkerPool(
            _run_segment, luggage, n_workers, preload=modules, imports_main=self._needs_main
        )
        # Started now, so that the workers import while the parent compiles.
        try:
            for _ in range(n_workers):
                self._pool.start_one()
        except BaseException as error:
            # Workers that are on their way need what this process holds for them.
            self.kill()
            self.close()
            if isinstance(error, BrokenExecutor):
                raise self.broken(error) from error
            if isinstance(error, RuntimeError):
                # Raised in a worker that runs the user's script from the top, to this very place.
                raise UnikatError(_GUARD) from None
            raise

    def submit(self, segment: Segment) -> Future[SegmentResult]:
        return self._pool.submit(segment)

    def abandon(self) -> None:
        self._pool.abandon()

    def close(self) -> None:
        """Wait for the workers to end."""
        self._pool.close()

    def kill(self) -> None:
        """End the workers now, in the middle of a sweep."""
        self._pool.kill()

    def broken(self, error: BrokenExecutor) -> UnikatError:
        hint = f" {_GUARD}" if self._needs_main else ""
        return UnikatError(
            "A worker process ended unexpectedly; most often the system had no memory left and "
            f"stopped it. Try fewer workers (n_workers=1 uses no processes).{hint} {RESUME}"
        )


def _run_with(segment: Segment, job: Job) -> SegmentResult:
    return run_segment(replace(segment, job=job))


def _run_segment(job: Job, segment: Segment, stopped: Callable[[], bool]) -> SegmentResult:
    return run_segment(replace(segment, job=job), stopped)


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
