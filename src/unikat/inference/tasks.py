"""Independent tasks in worker processes: many small runs side by side instead of one large one.

The workers are those of :mod:`unikat.inference.processes`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, Executor, Future, wait
from itertools import islice
from typing import Any, TypeVar

from unikat.errors import UnikatError
from unikat.inference.executors import Cluster
from unikat.inference.processes import WorkerPool, available_cores

Task = TypeVar("Task")
Result = TypeVar("Result")

_POLL_SECONDS = 0.5
"""Waiting is cut in pieces, since Windows delivers Ctrl-C only between them."""
_WAITING = 2
"""Tasks made ahead, per worker: enough to keep all at work, few enough to hold in memory."""


def run_tasks(
    function: Callable[[Task], Result],
    tasks: Iterable[Task],
    n_workers: int | None = None,
    executor: Executor | None = None,
) -> Generator[Result]:
    """Apply a function to tasks, and give the results in the order in which they are ready.

    Parameters
    ----------
    function
        Named at the top of a module of this package. What it raises ends the run.
    tasks
        Made one by one, shortly before they are needed.
    n_workers
        Processes; by default one per core. 1: this process.
    executor
        Used in place of local processes, and not shut down.

    Raises
    ------
    UnikatError
        When a worker is lost.
    KeyboardInterrupt
        On Ctrl-C; tasks that were running are lost.
    """
    n_workers = n_workers or available_cores()
    pool: WorkerPool | _Elsewhere
    if executor is not None:
        pool = _Elsewhere(function, executor)
        n_workers = executor.n_slots if isinstance(executor, Cluster) else n_workers
    elif n_workers == 1:
        for task in tasks:
            yield function(task)
        return
    else:
        pool = WorkerPool(_apply, pickle.dumps(function), n_workers, preload=[function.__module__])
    running: set[Future[Result]] = set()
    rest = iter(tasks)
    finished = False
    try:
        while True:
            for task in islice(rest, _WAITING * n_workers - len(running)):
                running.add(pool.submit(task))
            if not running:
                finished = True
                break
            done, running = wait(running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
    except BrokenExecutor as error:
        raise UnikatError(
            "A worker process ended unexpectedly; most often the system had no memory left and "
            "stopped it. Nothing that was finished is lost: run again with --resume and fewer "
            "--workers."
        ) from error
    finally:
        # Also when the caller stops asking. A task that still runs has nothing worth waiting for.
        if not finished:
            pool.kill()
        pool.close()


class _Elsewhere:
    """An executor that others started and end."""

    def __init__(self, function: Callable[..., Any], executor: Executor) -> None:
        self._function, self._executor = function, executor

    def submit(self, task: Any) -> Future[Any]:
        return self._executor.submit(self._function, task)

    def kill(self) -> None:
        """Do nothing: what runs elsewhere cannot be reached, and its result is not read."""

    def close(self) -> None:
        """Do nothing."""


def _apply(function: Callable[[Task], Result], task: Task, _: Callable[[], bool]) -> Result:
    return function(task)
