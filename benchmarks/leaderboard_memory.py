"""Memory that each estimator of the leaderboard takes: the peak of a process of its own.

    python benchmarks/leaderboard_memory.py
    python benchmarks/leaderboard_memory.py --population pakistan-1 --n 2000

Peak resident memory of the process over what it held with the sample read, so that interpreter,
libraries and the file do not count (Linux only). Its result, results/leaderboard-memory.json, is a
table of docs/leaderboard.md (python benchmarks/leaderboard.py --page).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
from common import machine
from copula import vines
from leaderboard import COPULA, MODELS, TWO, coded, population

RESULT = Path(__file__).parent / "results" / "leaderboard-memory.json"
FORMULAS = "formulas"
ESTIMATORS = (*MODELS, FORMULAS, COPULA, TWO)


def resident(which: str) -> float:
    """Resident memory of this process, now (`VmRSS`) or at its peak (`VmHWM`), in MB."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith(which)).split()[1]) / 1024


def needed(estimator: str, name: str, n: int) -> float:
    """MB that an estimator takes in this process."""
    import unikat
    from unikat.classics.formulas import FORMULAS as EVERY

    frame, keys = population(name)
    rows = np.random.default_rng(1).choice(len(frame), n, replace=False)
    sample = frame.iloc[rows].reset_index(drop=True)
    design = unikat.Design(population_size=len(frame))
    table = unikat.read(sample, keys, design, missing="level").tabulate()
    codes = coded(sample, keys)
    _, cell, count = np.unique(codes, axis=0, return_inverse=True, return_counts=True)
    # The peak is from here on that of what follows.
    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    if estimator == FORMULAS:
        for formula in EVERY.values():
            formula.estimate(table)
    elif estimator == COPULA:
        from copula import probabilities

        probabilities(codes, codes[count[cell.ravel()] == 1])
    elif estimator == TWO:
        from copula import mean_of_two

        mean_of_two(codes, len(frame))
    else:
        unikat.assess(
            sample, keys=keys, population_size=len(frame), missing="level", model=estimator,
            seed=1, workers=1, progress=False,
        )  # fmt: skip
    return resident("VmHWM") - before


def main() -> None:
    """Measure each estimator in a process of its own, one after the other."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--population", default="adult")
    parser.add_argument("--n", type=int, default=10_000)
    parser.add_argument("--estimators", nargs="+", default=list(ESTIMATORS), choices=ESTIMATORS)
    parser.add_argument("--here", action="store_true", help="in this process, and print the MB")
    options = parser.parse_args()
    asked = ["--population", options.population, "--n", str(options.n)]
    if options.here:
        print(needed(options.estimators[0], options.population, options.n))
        return
    found = {}
    for estimator in options.estimators:
        if estimator == TWO and vines is None:
            continue
        command = [sys.executable, __file__, *asked, "--estimators", estimator, "--here"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[estimator] = round(float(done.stdout.split()[-1]))
        print(f"{estimator}: {found[estimator]} MB", flush=True)
    note = {"population": options.population, "n": options.n, "machine": machine(), "mb": found}
    RESULT.write_text(json.dumps(note, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
