"""Classic measures of 1,000,000 records: frequencies, individual and household risk, diversity.

    python benchmarks/individual.py
    python benchmarks/individual.py --records 100_000 --missing 0 0.01
    python benchmarks/individual.py --model         # and a draw of the model individual-risk

Keys are independent with falling shares, which fills very many cells; weights are gamma, about 20
on average. Seconds are the fastest of three, in one thread, after the kernels are compiled.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from common import machine, print_table

from unikat.classics.diversity import l_diversity, t_closeness
from unikat.classics.frequencies import frequencies, k_anonymity
from unikat.classics.individual import household_risk, individual_risk
from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.cells.individual_risk import IndividualRisk
from unikat.studies.fit import fit

LEVELS = (2, 9, 9, 5, 25, 5, 9)
VALUES = 20


def simulated(n: int, missing: float) -> CellTable:
    """Draw n records, a share of their keys missing, with unequal weights."""
    rng = np.random.default_rng(1)
    codes = (rng.random((n, len(LEVELS))) ** 3 * LEVELS).astype(np.int32)
    codes[rng.random(codes.shape) < missing] = -1
    weights = rng.gamma(4.0, 5.0, n) + 1.0
    size = round(weights.sum())
    keys = [Key.of_size(f"K{j}", levels) for j, levels in enumerate(LEVELS)]
    table = CellTable.from_codes(codes, keys, population_size=size)
    sampling = Sampling(
        weights=weights,
        strata=np.zeros(n, np.int32),
        sizes=np.array([float(size)]),
        from_weights=True,
    )
    return CellTable(
        keys=table.keys, cells=table.cells, counts=table.counts, record_cell=table.record_cell,
        population_size=size, sampling=sampling,
    )  # fmt: skip


def timed(compute: Callable[[], Any], repeats: int = 3) -> tuple[str, Any]:
    """Return the seconds of the fastest of some repeats, and what was computed."""
    best, found = np.inf, None
    for _ in range(repeats):
        started = time.perf_counter()
        found = compute()
        best = min(best, time.perf_counter() - started)
    return f"{best:.2f} s", found


def measures(n: int, missing: float) -> list[object]:
    """Time the measures of one table."""
    table = simulated(n, missing)
    rng = np.random.default_rng(2)
    sensitive, household = rng.integers(0, VALUES, n), np.arange(n) // 3
    of_frequencies, found = timed(lambda: frequencies(table))
    of_risk, risk = timed(lambda: individual_risk(table, "exact", found)[table.record_cell])
    of_approximation, _ = timed(lambda: individual_risk(table, "approx", found))
    of_households, _ = timed(lambda: household_risk(risk, household))
    of_diversity, _ = timed(lambda: l_diversity(table, sensitive), 1)
    of_closeness, _ = timed(lambda: t_closeness(table, sensitive), 1)
    two = k_anonymity(found).violating[0]
    return [f"{missing:.0%}", f"{table.n_cells:,}", f"{two:,}", f"{risk.sum():,.0f}",
            of_frequencies, of_risk, of_approximation, of_households, of_diversity,
            of_closeness]  # fmt: skip


def model(n: int, missing: float) -> list[object]:
    """Time the model: a fit, and a thousand draws of the measures."""
    table = simulated(n, missing)
    of_fit, data = timed(lambda: IndividualRisk().prepare(table), 1)
    of_draws, fitted = timed(lambda: fit(IndividualRisk(), table, seed=1), 1)
    draws = fitted.draws
    tau1 = draws.retained("tau1")
    return [f"{missing:.0%}", f"{len(data.cells):,}", of_fit, of_draws, tau1.size,
            f"{tau1.mean():,.0f}"]  # fmt: skip


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    whole: Callable[[str], int] = lambda text: int(text.replace("_", ""))  # noqa: E731
    parser.add_argument("--records", type=whole, default=1_000_000)
    parser.add_argument("--missing", type=float, nargs="+", default=[0.0, 0.01, 0.05])
    parser.add_argument("--model", action="store_true")
    options = parser.parse_args()
    print(machine(), end="\n\n")
    measures(1_000, 0.1)
    print_table(
        ["missing", "patterns", "f < 2", "expected", "frequencies", "exact risk", "approx",
         "households", "l-diversity", "t-closeness"],
        [measures(options.records, missing) for missing in options.missing],
    )  # fmt: skip
    if options.model:
        print()
        print_table(
            ["missing", "cells", "fit", "draws", "number", "τ1"],
            [model(options.records, missing) for missing in options.missing],
        )


if __name__ == "__main__":
    main()
