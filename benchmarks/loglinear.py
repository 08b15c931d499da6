"""Log-linear models: two-way fits, stepwise selection, against plain proportional fitting.

    python benchmarks/loglinear.py                  # fits and selection on the ACS northeast adults
    python benchmarks/loglinear.py --reference      # and proportional fitting in NumPy, a minute
    python benchmarks/loglinear.py --only selection

Adults of the ACS 2024 of the northeast, ten keys; samples of `--n` records. Memory is the largest
resident size of the process, which holds the population file and the compiled kernels as well.
"""

from __future__ import annotations

import argparse
import itertools
import resource
import time

import numpy as np
import pandas as pd
from common import data_file, machine, print_table

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.selection import select
from unikat.models.loglinear.terms import all_interactions

KEYS = ["AGEP", "SEX", "RAC1P", "MAR", "SCHL", "ESR", "CIT", "DIS", "LANX", "MIL"]


def sample_table(n: int, *, age_bands: int, schooling: int, keys: list[str]) -> CellTable:
    """Draw n adults, their age in bands and their schooling in groups of levels."""
    frame = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=keys)
    frame = frame[frame["AGEP"] >= 18].astype(np.int64)
    frame["AGEP"] = np.minimum((frame["AGEP"] - 18) * age_bands // 77, age_bands - 1)
    if "SCHL" in frame:
        frame["SCHL"] //= schooling
    size = len(frame)
    levels = [np.unique(frame[name]) for name in keys]
    drawn = frame.sample(n, random_state=1)
    codes = np.stack([np.searchsorted(of_key, drawn[name])
                      for name, of_key in zip(keys, levels, strict=True)], axis=1)  # fmt: skip
    seen = [Key.of_size(name, len(of_key)) for name, of_key in zip(keys, levels, strict=True)]
    return CellTable.from_codes(codes, seen, population_size=size)


def proportional_fitting(table: CellTable, tolerance: float, most: int) -> tuple[float, int, float]:
    """Fit all pairs on the whole grid with NumPy; seconds, cycles, largest error of a margin."""
    shape = table.n_levels
    observed = np.zeros(shape)
    observed[tuple(table.cells.T)] = table.counts
    pairs = list(itertools.combinations(range(len(shape)), 2))
    others = [tuple(j for j in range(len(shape)) if j not in pair) for pair in pairs]
    wanted = [observed.sum(axis=other, keepdims=True) for other in others]
    started = time.perf_counter()
    fitted = np.full(shape, table.n_records / observed.size)
    error = np.inf
    cycles = 0
    while error > tolerance and cycles < most:
        cycles += 1
        error = 0.0
        for other, margin in zip(others, wanted, strict=True):
            got = fitted.sum(axis=other, keepdims=True)
            error = max(error, float(np.abs(got - margin).max()))
            fitted *= np.divide(margin, got, out=np.zeros_like(got), where=got > 0)
    return time.perf_counter() - started, cycles, error


def time_fit(table: CellTable, repeats: int, smoothing: float = 0.0) -> list[object]:
    """Fit all pairs; the fastest of some repeats."""
    best = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        fitted = fit(table, all_interactions(table.n_keys, 2), smoothing=smoothing)
        best = min(best, time.perf_counter() - started)
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    grid = int(np.prod(table.n_levels, dtype=np.int64))
    return [f"{table.n_records:,}", f"{grid:,}", f"{fitted.n_cells:,}", f"{best:.3f} s",
            fitted.n_walks, f"{fitted.margin_error:.1e}", f"{memory:.0f} MiB"]  # fmt: skip


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=["fits", "selection"])
    parser.add_argument("--n", type=int, nargs="+", default=[5_000, 20_000])
    parser.add_argument("--reference", action="store_true")
    options = parser.parse_args()
    print(machine())
    large = {"age_bands": 28, "schooling": 1, "keys": KEYS}
    small = {"age_bands": 7, "schooling": 3, "keys": KEYS[:6] + KEYS[7:8]}
    if options.only != "selection":
        time_fit(sample_table(2_000, **small), 1)
        rows = [time_fit(sample_table(n, **small), 20) for n in options.n]
        rows += [time_fit(sample_table(n, **large), 2) for n in options.n]
        # With a record spread over everything no cell is zero: the largest case.
        largest = sample_table(5_000, age_bands=96, schooling=1, keys=KEYS)
        rows.append(time_fit(largest, 1, smoothing=1.0))
        head = ["n", "cells", "not zero", "two-way fit to 1e-4", "walks", "error", "memory"]
        print_table(head, rows)
    if options.reference:
        table = sample_table(options.n[0], **large)
        seconds, cycles, error = proportional_fitting(table, 1e-4, 30)
        print(f"NumPy, n = {options.n[0]:,}: {seconds:.1f} s, {cycles} cycles, error {error:.1e}")
    if options.only != "fits":
        table = sample_table(10_000, age_bands=17, schooling=3, keys=KEYS)
        started = time.perf_counter()
        path = select(table, "B2", 1.645, 1e-4, 0.0)
        seconds = time.perf_counter() - started
        grid = int(np.prod(table.n_levels, dtype=np.int64))
        print(f"selection, n = 10,000, {grid:,} cells: {seconds:.1f} s")
        names = [key.name for key in table.keys]
        print_table(
            ["added", "B1/sqrt(nu)", "B2/sqrt(nu)", "tau1", "tau2"],
            [[":".join(names[j] for j in step.added) or "independence",
              f"{step.evidence.b1:.2f}", f"{step.evidence.b2:.2f}",
              f"{step.evidence.tau1:.1f}", f"{step.evidence.tau2:.1f}"] for step in path],
        )  # fmt: skip


if __name__ == "__main__":
    main()
