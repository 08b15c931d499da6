"""Real clusters on this machine: the numbers of local processes, also when a worker is lost."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Future
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from inference.toy_chain import DyingOnce, Toy, ToyTable, Watch
from unikat.errors import DataError, SpecError
from unikat.inference import executors
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.executors import Cluster, executor_for_run, executor_of_run
from unikat.inference.plan import Plan, StopRule

OPTIONS: dict[str, Any] = {
    "keys": ["a", "b", "c"], "population_size": 5_000, "model": "hdp", "max_sweeps": 300,
    "chains": 3, "seed": 4,
}  # fmt: skip


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(8)
    columns = {"a": rng.integers(0, 9, n), "b": rng.integers(0, 5, n), "c": rng.integers(0, 7, n)}
    return pd.DataFrame(columns)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Of two workers, for all tests, since one takes seconds to start."""
    pytest.importorskip("distributed")
    with executor_for_run("dask", 2):
        yield executor_of_run()


def _family(of: int) -> set[int]:
    """A process and those that it has started."""
    found = {of}
    while True:
        more = {
            int(task.name)
            for task in Path("/proc").glob("[0-9]*")
            if _parent(task) in found and int(task.name) not in found
        }
        if not more:
            return found
        found |= more


def _parent(task: Path) -> int | None:
    try:
        return int((task / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _listening(processes: set[int]) -> set[str]:
    """Addresses, in hexadecimal, at which processes listen for TCP."""
    sockets = set()
    for process in processes:
        for handle in Path(f"/proc/{process}/fd").glob("*"):
            with contextlib.suppress(OSError):
                sockets.add(os.readlink(handle).removeprefix("socket:[").rstrip("]"))
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/self/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in sockets:
                found.add(words[1].partition(":")[0])
    return found


@pytest.mark.skipif(not Path("/proc/self/net/tcp").exists(), reason="needs Linux's /proc")
def test_what_dask_starts_here_listens_on_this_machine_alone(cluster: Any) -> None:
    """Scheduler, workers, nannies and pages."""
    cluster.submit(int, "1").result(timeout=60)
    # 127.0.0.1, of a machine that has the last byte first.
    assert _listening(_family(os.getpid())) == {"0100007F"}


def draw(model: Any, workers: Workers) -> Any:
    plan = Plan(n_chains=3, thin=3, stop=StopRule(max_sweeps=700))
    return sample(model, ToyTable(), Watch(), seed=7, plan=plan, workers=workers)


def test_chains_are_those_of_processes_although_a_worker_is_killed(
    cluster: Any, tmp_path: Path
) -> None:
    expected = draw(Toy(), Workers(n_workers=1))
    mark = tmp_path / "killed"
    found = draw(DyingOnce(mark=str(mark)), Workers(executor=cluster))
    assert mark.exists()
    for name, values in expected.scalars.items():
        np.testing.assert_array_equal(found.scalars[name], values)


class Losing(Cluster):
    """Every worker is lost, and there is none to share with until some have been asked."""

    def __init__(self, ready_after: int) -> None:
        super().__init__(1)
        self.asked, self.ready_after = 0, ready_after

    def _place(self, value: Any) -> Any:
        self.asked += 1
        if 1 < self.asked < self.ready_after:
            raise TimeoutError("no workers")
        return value

    def _send(self, function: Any, args: tuple[Any, ...]) -> Future[Any]:
        sent: Future[Any] = Future()
        if self.asked >= self.ready_after:
            sent.set_result((True, function(*args)))
        else:
            sent.set_exception(OSError("gone"))
        return sent


@pytest.mark.parametrize("ready_after", [3, 9])
def test_work_is_done_or_lost_although_there_is_no_worker_for_a_while(ready_after: int) -> None:
    """Whoever waits is answered, which was a run that hangs."""
    losing = Losing(ready_after)
    answer = losing.submit(int, losing.share("7"))
    if ready_after == 3:
        assert answer.result(timeout=30) == 7
    else:
        with pytest.raises(BrokenExecutor, match="lost"):
            answer.result(timeout=30)


def test_errors_of_the_work_leave_as_they_are(cluster: Any) -> None:
    with pytest.raises(DataError, match=r"^told$"):
        cluster.submit(_refuse, cluster.share("told")).result(timeout=60)


def _refuse(said: str) -> None:
    raise DataError(said)


@pytest.mark.slow
def test_a_run_and_an_evaluation_have_the_same_numbers() -> None:
    pytest.importorskip("distributed")
    here, there = (
        unikat.assess(people(), **OPTIONS, workers=2, executor=name, progress=False)
        for name in ("processes", "dask")
    )
    assert np.array_equal(here.draws["posterior"]["tau1"], there.draws["posterior"]["tau1"])
    assert here.records.equals(there.records)
    options: dict[str, Any] = {
        "keys": ["a", "b", "c"], "n": 100, "repeats": 3, "models": "latent-class", "chains": 2,
        "max_sweeps": 60, "workers": 2, "progress": False,
    }  # fmt: skip
    tables = [
        unikat.evaluate(people(1_000), **options, executor=name).table
        for name in ("processes", "dask")
    ]
    assert tables[0].drop(columns="seconds").equals(tables[1].drop(columns="seconds"))


def mpiexec() -> list[str]:
    """Return the beginning of a command that runs on three processes; MPICH's of pip, if there."""
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py")
    own = Path(sys.executable).with_name("mpiexec")
    return [str(own) if own.exists() else "mpiexec", "-n", "3", sys.executable]


@pytest.mark.slow
def test_mpi_and_a_process_that_is_killed(tmp_path: Path) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    words = ["assess", str(tmp_path / "people.csv"), "--allow-unconverged", "--quiet"]
    for name, value in OPTIONS.items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        words += [f"--{name.replace('_', '-')}", text]

    def run(out: str, executor: str, *more: str) -> subprocess.Popen[bytes]:
        start = [*mpiexec(), "-m", "mpi4py.futures"] if executor == "mpi" else [sys.executable]
        command = [*start, "-m", "unikat", *words, "--out", str(tmp_path / out), *more]
        return subprocess.Popen(
            [*command, "--executor", executor],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    expected, found = run("here", "processes"), run("there", "mpi")
    assert (expected.wait(), found.wait()) == (0, 0)
    # A process that is lost ends all others; the run goes on from what was kept.
    broken = run("broken", "mpi", "--max-sweeps", "300000", "--set", "sampling.ess=1e8")
    kept = tmp_path / "broken" / "fits" / "model" / "sampling.checkpoint"
    while not kept.exists():
        assert broken.poll() is None
        time.sleep(0.1)
    os.kill(_rank(2, str(tmp_path / "broken")), signal.SIGKILL)
    assert broken.wait(timeout=60) != 0
    again = run("broken", "processes", "--resume", "--set", "sampling.ess=400")
    results = [
        json.loads((tmp_path / out / "result.json").read_text()) for out in ("here", "there")
    ]
    assert results[0]["tau1"] == results[1]["tau1"]
    assert again.wait() == 0
    assert (tmp_path / "broken" / "result.json").exists()


def _rank(number: int, folder: str) -> int:
    """Return the process of MPI that has this number and works for this folder."""
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if folder not in (process / "cmdline").read_text():
                continue
            if f"PMI_RANK={number}\0" in (process / "environ").read_text():
                return int(process.name)
        except OSError:
            continue
    raise AssertionError(f"there is no process {number}")


def test_what_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(name: str) -> str:
        with pytest.raises(SpecError) as caught:
            unikat.assess(people(), **OPTIONS, executor=name, progress=False)
        return str(caught.value)

    assert "'spark' is not known" in refused("spark")
    assert "take processes or dask" in refused("ray")
    assert "mpiexec -n" in refused("mpi") if importlib.util.find_spec("mpi4py") else True
    if importlib.util.find_spec("distributed"):
        monkeypatch.setattr(executors, "_SECONDS", 1)
        assert "cannot be reached at tcp://127.0.0.1:9" in refused("dask:tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    assert "needs the package dask" in refused("dask")
