from __future__ import annotations

import inspect
import os
import signal
import struct
import sys
import threading
import time
from multiprocessing import forkserver
from pathlib import Path

import pytest

from unikat.errors import UnikatError
from unikat.inference.tasks import run_tasks


def square(x: int) -> tuple[int, int]:
    return x * x, os.getpid()


def fail(x: int) -> int:
    if x == 3:
        raise UnikatError("three")
    return x


def die(x: int) -> int:
    os._exit(3)


def die_while_answering(x: int) -> int:
    """Write the length of a long answer and its first bytes, as a worker does, and be killed."""
    frame = inspect.currentframe()
    while frame is not None and "result_queue" not in frame.f_locals:
        frame = frame.f_back
    assert frame is not None
    answers = frame.f_locals["result_queue"]
    with answers._wlock:
        os.write(answers._writer.fileno(), struct.pack("!i", 1 << 20) + bytes(1000))
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def linger(path: str) -> int:
    Path(path).touch()
    time.sleep(60)
    return 1


@pytest.mark.parametrize("n_workers", [1, 2])
def test_all_tasks_are_done(n_workers):
    done = list(run_tasks(square, iter(range(9)), n_workers))
    assert sorted(result for result, _ in done) == [x * x for x in range(9)]
    here = {process for _, process in done} == {os.getpid()}
    assert here == (n_workers == 1)


def test_no_tasks_are_no_error():
    assert list(run_tasks(square, [], 2)) == []


def test_tasks_are_made_when_they_are_needed():
    made = []

    def tasks():
        for x in range(100):
            made.append(x)
            yield x

    results = run_tasks(square, tasks(), 2)
    next(results)
    assert len(made) < 10
    results.close()


@pytest.mark.parametrize("n_workers", [1, 2])
def test_an_error_ends_the_run(n_workers):
    with pytest.raises(UnikatError, match="three"):
        list(run_tasks(fail, range(50), n_workers))


def test_a_lost_worker_is_told():
    with pytest.raises(UnikatError, match=r"ended unexpectedly.*--resume"):
        list(run_tasks(die, [1, 2], 2))


@pytest.mark.skipif(sys.platform == "win32", reason="pipes of Windows are no files")
@pytest.mark.timeout(60)
def test_a_worker_lost_in_the_middle_of_an_answer_is_told():
    """The rest of the answer never comes, which was a run that hangs."""
    with pytest.raises(UnikatError, match=r"ended unexpectedly.*--resume"):
        list(run_tasks(die_while_answering, [1, 2], 2))


@pytest.mark.skipif(sys.platform != "linux", reason="processes are started by a server on Linux")
def test_a_killed_server_of_processes_is_told():
    """Killed while it is asked for a process, which was a defect (EOFError)."""
    assert len(list(run_tasks(square, [1], 2))) == 1
    server = forkserver._forkserver._forkserver_pid
    os.kill(server, signal.SIGSTOP)
    timer = threading.Timer(0.5, os.kill, (server, signal.SIGKILL))
    timer.start()
    with pytest.raises(UnikatError, match=r"ended unexpectedly.*--resume"):
        list(run_tasks(square, range(9), 2))
    timer.join()
    # The next run starts another one; a process that dies closes its files before it is dead.
    os.waitid(os.P_PID, server, os.WEXITED | os.WNOWAIT)
    assert len(list(run_tasks(square, range(9), 2))) == 9


def test_whoever_stops_asking_does_not_wait(tmp_path):
    begin = time.monotonic()
    results = run_tasks(mixed, [str(tmp_path / "a"), 1], 2)
    assert next(results) == 1
    results.close()
    assert time.monotonic() - begin < 30


def mixed(task: object) -> int:
    if isinstance(task, str):
        return linger(task)
    return 1
