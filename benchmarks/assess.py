"""The command as a user meets it: seconds and memory of `unikat assess`, `--help` and `demo`.

    python benchmarks/assess.py
    python benchmarks/assess.py --only help assess
    python benchmarks/assess.py --only auto

Each command runs as a process of its own, with an empty folder for compiled kernels where it says
cold. Memory is that of the command and all its workers: the largest peak of one process, the peak
of their sum, and the peak of the sum in which pages that processes share count once (PSS).
Linux only, since it is read from /proc.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from accuracy import TEN, prepare
from common import POPULATION, data_file, keys_of, machine, print_table

FILE = "ny2000_clean_10000"
WATCH_SECONDS = 0.2


@dataclass
class Run:
    """A command that has ended; memory in MiB."""

    seconds: float
    code: int
    largest: float
    rss: float
    pss: float


def children() -> dict[int, list[int]]:
    """Process ids by parent."""
    found: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                # The name, in brackets, may hold anything; the parent is the second field after it.
                parent = (entry / "stat").read_text().rpartition(")")[2].split()[1]
                found.setdefault(int(parent), []).append(int(entry.name))
    return found


def tree(root: int) -> list[int]:
    """Process ids of a process and all that descend from it."""
    of, members = children(), [root]
    for process in members:
        members += of.get(process, [])
    return members


def field(process: int, file: str, name: str) -> float:
    """A field of a file in /proc, in MiB; 0 where the process is gone."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/{file}").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) / 1024
    return 0.0


def watch(arguments: list[str], cache: Path, log: Path) -> Run:
    """Run `unikat` with these arguments, watching its memory."""
    program = shutil.which("unikat", path=str(Path(sys.executable).parent))
    if program is None:
        sys.exit("There is no `unikat` beside this Python; run make env.")
    environment = {**os.environ, "UNIKAT_CACHE_DIR": str(cache)}
    largest = rss = pss = 0.0
    with log.open("wb") as output:
        started = time.perf_counter()
        process = subprocess.Popen(
            [program, *arguments], env=environment, stdout=output, stderr=subprocess.STDOUT
        )
        try:
            while True:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(WATCH_SECONDS)
                    break
                members = tree(process.pid)
                largest = max(largest, *(field(one, "status", "VmHWM") for one in members))
                rss = max(rss, sum(field(one, "status", "VmRSS") for one in members))
                pss = max(pss, sum(field(one, "smaps_rollup", "Pss") for one in members))
        finally:
            if process.poll() is None:
                process.terminate()
                process.wait()
        taken = time.perf_counter() - started
    return Run(taken, process.returncode, largest, rss, pss)


def result(folder: Path) -> str:
    """What an output folder says."""
    path = folder / "result.json"
    if not path.exists():
        return "no result"
    found = json.loads(path.read_text())
    tau1, sampling = found["tau1"], found["sampling"]
    return (
        f"{found['stop_reason']}, {sampling['n_sweeps']} sweeps, τ1 {tau1['mean']:.1f} "
        f"[{tau1['lower']:.0f}, {tau1['upper']:.0f}]"
    )


def row(what: str, run: Run, found: str) -> list[object]:
    """Row of the result."""
    return [
        what,
        f"{run.seconds:.2f}",
        run.code,
        *(f"{value:,.0f}" for value in (run.largest, run.rss, run.pss)),
        found,
    ]


def measure(only: list[str], extra: list[str], folder: Path) -> list[list[object]]:
    """Run the commands in a temporary folder."""
    rows = []
    log = folder / "log.txt"

    def record(what: str, arguments: list[str], cache: str, out: Path) -> None:
        run = watch(arguments, folder / cache, log)
        rows.append(row(what, run, result(out)))
        if not (out / "result.json").exists():
            print(f"{what}:\n{log.read_text(errors='replace')}")

    if "help" in only:
        runs = [watch(["--help"], folder / f"help{i}", log) for i in range(7)]
        times = [run.seconds for run in runs]
        middle = Run(statistics.median(times), max(abs(run.code) for run in runs), 0, 0, 0)
        rows.append(
            [
                *row("--help", middle, "")[:3],
                *["–"] * 3,
                f"median of {len(times)}; first {times[0]:.2f}, slowest {max(times):.2f}",
            ]
        )
    if "assess" in only:
        command = ["assess", str(data_file(FILE)), "--keys", ",".join(keys_of(FILE))]
        command += ["--population-size", str(POPULATION), "--model", "hdp", *extra]
        for what in ("cold", "warm"):
            out = folder / what
            record(f"assess, {what}", [*command, "--out", str(out)], "kernels", out)
    if "auto" in only:
        for n, keys in ((5000, TEN), (20_000, ",".join(TEN.split(",")[:8]))):
            path, size = prepare("acs-northeast-10", folder)
            drawn = pd.read_parquet(path).sample(n, random_state=1)
            sample, out = folder / f"{n}.parquet", folder / f"auto-{n}"
            drawn.to_parquet(sample)
            command = ["assess", str(sample), "--keys", keys, "--population-size", str(size)]
            command += ["--missing", "level", *extra, "--out", str(out)]
            record(f"auto, n = {n:,}, {keys.count(',') + 1} keys, cold", command, f"auto{n}", out)
            answer = next(line for line in log.read_text().splitlines() if "First answer" in line)
            print(answer)
    if "demo" in only:
        out = folder / "demo"
        record("demo, cold", ["demo", "--out", str(out)], "demo-kernels", out)
        print("\n".join(log.read_text(errors="replace").splitlines()[-8:]))
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    choices = ["help", "assess", "demo", "auto"]
    parser.add_argument("--only", nargs="+", choices=choices, default=choices)
    parser.add_argument("--seed", default="1", help="of assess")
    parser.add_argument("--max-seconds", help="of assess, which then may not converge")
    options = parser.parse_args()
    if not Path("/proc/self/smaps_rollup").exists():
        sys.exit("This benchmark reads /proc of Linux.")
    extra = ["--seed", options.seed]
    if options.max_seconds:
        extra += ["--max-seconds", options.max_seconds]
    print(machine())
    with tempfile.TemporaryDirectory(prefix="unikat-benchmark-") as folder:
        rows = measure(options.only, extra, Path(folder))
    head = ["unikat", "seconds", "exit", "largest MiB", "sum of RSS", "sum of PSS", "result"]
    print_table(head, rows)


if __name__ == "__main__":
    main()
