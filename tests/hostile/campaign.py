"""A campaign of kills: tiny runs are disturbed at random instants, and must end as if undisturbed.

Shared by the tests and by `benchmarks/kills.py`. Nothing is asserted here: `disturbed` returns
what went wrong, in words.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "unikat"]
SIGNALS = ("SIGKILL", "SIGTERM", "SIGINT")
TARGETS = ("parent", "worker", "group")
LONGEST = 120.0
"""Seconds after which a run counts as one that hangs."""
LONGEST_MESSAGE = 2000

_SAMPLING = {"seed": 3, "chains": 2, "workers": 2, "rhat": 1.0000001, "ess": 1e9}
_FLAGS = ("--keys", "AGE,SEX,EDU,JOB", "--seed", "3", "--chains", "2", "--workers", "2",
          "--set", "sampling.rhat=1.0000001", "--set", "sampling.ess=1e9",
          "--max-sweeps", "200")  # fmt: skip
_DATA = 'keys = ["AGE", "SEX", "EDU", "JOB"]\n'


@dataclass(frozen=True)
class Kind:
    """A kind of run: what it is asked, and the table it writes."""

    head: str
    sampling: dict[str, float]
    table: str
    arguments: tuple[str, ...] = ()
    """In place of a specification, where the run is asked on the command line."""


KINDS = {
    "assess": Kind(
        'population_size = 5000\nmodel = "hdp"\n',
        {**_SAMPLING, "max_sweeps": 400},
        "records.parquet",
    ),
    "compare": Kind(
        'population_size = 5000\nmodels = ["hdp", "gom:components=3"]\n',
        {**_SAMPLING, "max_sweeps": 120},
        "comparison.parquet",
    ),
    "evaluate": Kind(
        'n = [60]\nrepeats = 3\nmodels = ["hdp"]\n',
        {**_SAMPLING, "max_sweeps": 120},
        "evaluation.parquet",
    ),
    "synthesize": Kind(
        "", {}, "synthetic_1.csv",
        ("people.csv", *_FLAGS, "--model", "latent-class", "--datasets", "2"),
    ),
    "protect": Kind(
        "", {}, "protected.csv",
        ("people.csv", *_FLAGS, "--model", "latent-class", "--population-size", "5000", "--recode",
         "AGE: width(5)", "--pram", "EDU: 0.9", "--perturbation-seed", "4"),
    ),
    "attack": Kind(
        "", {}, "attack.json",
        ("people.csv", *_FLAGS, "--synthetic", "made.csv", "--targets", "JOB", "--attacks", "40",
         "--model", "latent-class"),
    ),
    "verify": Kind(
        "", {}, "verify.json",
        ("people.csv", "made.csv", *_FLAGS, "--model", "latent-class", "--population-size", "5000"),
    ),
    "check": Kind(
        "", {}, "check.json",
        ("people.csv", *_FLAGS, "--policy", "policy.toml", "--model", "latent-class",
         "--population-size", "5000"),
    ),
}  # fmt: skip
"""By the name of the command."""


@dataclass(frozen=True)
class Blow:
    """What is done to a run."""

    kind: str
    signal: str
    target: str
    share: float
    """When: the share of the time that an undisturbed run takes."""


@dataclass(frozen=True)
class Reference:
    """An undisturbed run."""

    seconds: float
    content: dict[str, Any]


def blows(n: int, seed: int) -> list[Blow]:
    """Draw what is done; all kinds of runs, signals and targets come equally often."""
    rng = random.Random(seed)
    cells = [(k, s, t) for s in SIGNALS for t in TARGETS for k in KINDS]
    drawn: list[Blow] = []
    while len(drawn) < n:
        rng.shuffle(cells)
        drawn += [Blow(kind, name, target, rng.uniform(0.1, 1.0)) for kind, name, target in cells]
    return drawn[:n]


def prepare(folder: Path) -> None:
    """Write the data and what the runs are asked."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "AGE": rng.integers(20, 32, 300),
            "SEX": rng.integers(0, 2, 300),
            "EDU": rng.geometric(0.4, 300),
            "JOB": rng.geometric(0.3, 300),
        }
    )
    frame.to_csv(folder / "people.csv", index=False)
    frame.apply(lambda column: rng.permutation(column)).to_csv(folder / "made.csv", index=False)
    (folder / "policy.toml").write_text('[[scenario]]\nname = "all"\ntarget = "tau1 <= 5"\n')
    for name, kind in KINDS.items():
        if kind.arguments:
            continue
        sampling = "".join(f"{key} = {value}\n" for key, value in kind.sampling.items())
        text = f'{_DATA}{kind.head}[data]\npath = "people.csv"\n[sampling]\n{sampling}'
        (folder / f"{name}.toml").write_text(text)


def start(kind: str, folder: Path, out: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run in a session of its own, with its own temporary folder and an open umask."""
    scratch = out.with_name(f"{out.name}-tmp")
    scratch.mkdir(exist_ok=True)
    asked = KINDS[kind].arguments or (f"{kind}.toml",)
    command = [*COMMAND, kind, *asked, "--out", str(out), "--allow-unconverged"]
    return subprocess.Popen(
        [*command, "--quiet", *options],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        umask=0,
        start_new_session=True,
    )


def undisturbed(kind: str, folder: Path) -> Reference:
    """Run to the end."""
    out = folder / f"{kind}-reference"
    begin = time.monotonic()
    process = start(kind, folder, out)
    said = process.communicate(timeout=600)
    # Whether a policy is met is not known of chains that have not converged.
    if process.returncode != (3 if kind == "check" else 0):
        raise RuntimeError(f"the undisturbed run of {kind} failed: {said}")
    return Reference(time.monotonic() - begin, content(kind, out))


def disturbed(blow: Blow, folder: Path, number: int, reference: Reference) -> list[str]:
    """Disturb a run, resume it, and return what went wrong."""
    out = folder / f"out-{number}"
    scratch = out.with_name(f"{out.name}-tmp")
    process = start(blow.kind, folder, out)
    try:
        process.wait(blow.share * reference.seconds)
    except subprocess.TimeoutExpired:
        strike(blow, process, random.Random(number))
    wrong, _ = ended(process, blow.signal)
    if blow.signal != "SIGKILL":
        wrong += [f"left in the temporary folder: {path.name}" for path in scratch.iterdir()]
    again = start(blow.kind, folder, out, "--resume")
    said, told = ended(again, "none")
    # The blow may have come when all was done.
    if not (again.returncode == 1 and "is finished" in told):
        wrong += said
    wrong += [f"left after resuming: {path.name}" for path in scratch.iterdir()]
    wrong += unclean(out)
    try:
        if content(blow.kind, out) != reference.content:
            wrong.append("other results than undisturbed")
    except OSError as error:
        wrong.append(f"no results ({error.filename})")
    return wrong


def strike(blow: Blow, process: subprocess.Popen[str], rng: random.Random) -> None:
    """Send the signal."""
    number = getattr(signal, blow.signal)
    if blow.target == "group":
        os.killpg(process.pid, number)
        return
    pids = [process.pid]
    if blow.target == "worker":
        pids = workers(process.pid) or pids
    try:
        os.kill(rng.choice(pids), number)
    except ProcessLookupError:
        # It has just ended by itself.
        return


def ended(process: subprocess.Popen[str], name: str) -> tuple[list[str], str]:
    """Wait for the end of a run and of its processes; what is wrong with it, and what it said."""
    try:
        _, told = process.communicate(timeout=LONGEST)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        return ["hangs"], ""
    wrong = []
    codes = {
        "SIGKILL": {0, 1, -9},
        "SIGTERM": {0, 1, 143, -15},
        "SIGINT": {0, 2, 130, -2},
        "none": {0},
    }[name]
    if process.returncode not in codes:
        wrong.append(f"exit code {process.returncode}: {told[:LONGEST_MESSAGE]}")
    elif len(told) > LONGEST_MESSAGE or any(w in told for w in ("Traceback", "Warning", "defect")):
        wrong.append(f"message: {told[:LONGEST_MESSAGE]}")
    end = time.monotonic() + 20.0
    while (left := session(process.pid)) and time.monotonic() < end:
        time.sleep(0.05)
    if left:
        wrong.append(f"{len(left)} processes left")
        os.killpg(process.pid, signal.SIGKILL)
    return wrong, told


def unclean(out: Path) -> list[str]:
    """Return what is wrong with the names and modes in a folder of results."""
    wrong = []
    for path in [out, *out.rglob("*")] if out.exists() else []:
        if path.name.endswith(".tmp") or path.name.startswith(".unikat-"):
            wrong.append(f"left in the results: {path.name}")
        mode = path.stat().st_mode & 0o777
        if mode != (0o700 if path.is_dir() else 0o600):
            wrong.append(f"mode of {path.name}: {mode:o}")
    return wrong


def content(kind: str, out: Path) -> dict[str, Any]:
    """Results without times: every number of every row."""
    found: dict[str, Any]
    path = out / KINDS[kind].table
    if path.suffix == ".csv":
        return {"table": path.read_text()}
    if path.suffix == ".json":
        found = json.loads(path.read_text())
        return {
            name: value for name, value in found.items() if name not in ("provenance", "seconds")
        }
    frame = pd.read_parquet(path)
    frame = frame.drop(columns=[name for name in frame if "seconds" in name])
    found = {"table": frame.to_csv()}
    if kind == "assess":
        result = json.loads((out / "result.json").read_text())
        found |= {name: result[name] for name in ("tau1", "tau2", "sample", "stop_reason")}
    return found


def session(number: int) -> list[int]:
    """Processes of a session that are still running."""
    return [pid for pid, _, its in _processes() if its == number]


def workers(parent: int) -> list[int]:
    """Worker processes of a run: children of the server from which they are forked."""
    own = {pid: father for pid, father, its in _processes() if its == parent}
    return [pid for pid, father in own.items() if father != parent and father in own]


def _processes() -> list[tuple[int, int, int]]:
    """Number, parent and session of each process that runs."""
    found = []
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if fields[0] != "Z":
            found.append((int(folder.name), int(fields[1]), int(fields[3])))
    return found
