"""Repeated samples from populations whose truth is known: bias and coverage of τ1 and τ2.

    python benchmarks/repeated.py --repeats 5 --max-seconds 60

A file taken as the population, simple random samples from it, and the predictive 95% interval
against the true count in each sample (models.md §7, point 6).
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from common import data_file, machine, markdown_row

if TYPE_CHECKING:
    from unikat._typing import Int64

POPULATIONS = {
    "town": (("age", "sex", "marital_status", "education", "occupation"), 2_000),
    "acs2024_persons_west": (("AGEP", "SEX", "RAC1P", "MAR", "SCHL"), 2_000),
    "adult_48842": (("age", "sex", "race", "marital_status", "education"), 1_000),
}
"""Keys and size of the samples of each population."""
HEAD = ["population", "N", "n", "uniques", "stopped", "s", "true τ1", "τ1", "true τ2", "τ2"]


def codes(name: str, keys: tuple[str, ...]) -> Int64:
    """Codes (N, n_keys) of a population."""
    import numpy as np
    import pandas as pd

    if name == "town":
        from unikat.report.demo import simulate_town

        frame = simulate_town(200_000).to_pandas()
    else:
        frame = pd.read_parquet(data_file(name))
    return np.column_stack([pd.factorize(frame[key], sort=True)[0] for key in keys])


def run(name: str, repeat: int, population: Int64, n: int, max_seconds: float) -> list[bool]:
    """Draw one sample, assess it, print a row; say whether τ1 and τ2 were covered."""
    import numpy as np

    from unikat import HDP, CellTable, Key, RiskMeasures, assess, sample
    from unikat.inference.chains import Plan, StopRule

    rng = np.random.default_rng([repeat, len(population), n])
    _, cell, size = np.unique(population, axis=0, return_inverse=True, return_counts=True)
    cell = cell.ravel()
    chosen = rng.choice(len(population), n, replace=False)
    alone = np.flatnonzero(np.bincount(cell[chosen], minlength=len(size)) == 1)
    truth = float((size[alone] == 1).sum()), float((1.0 / size[alone]).sum())
    keys = [Key.of_size(f"K{j}", int(top) + 1) for j, top in enumerate(population.max(axis=0))]
    table = CellTable.from_codes(population[chosen], keys, population_size=len(population))
    plan = Plan(stop=StopRule(max_seconds=max_seconds))
    draws = sample(HDP(), table, RiskMeasures.of(table), seed=repeat, plan=plan)
    found = assess(draws, table)
    values = [name, len(population), n, table.n_uniques, draws.stop_reason, f"{draws.seconds:.0f}"]
    covered = []
    for true, tau in zip(truth, (found.tau1, found.tau2), strict=True):
        covered.append(tau.lower <= true <= tau.upper)
        mark = "" if covered[-1] else " missed"
        values += [f"{true:.0f}", f"{tau.mean:.1f} [{tau.lower:.0f}, {tau.upper:.0f}]{mark}"]
    print(markdown_row(values), flush=True)
    return covered


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--populations", nargs="+", choices=list(POPULATIONS), default=POPULATIONS)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--max-seconds", type=float, default=60.0, help="for each sample")
    options = parser.parse_args()
    print(machine(), end="\n\n")
    print(markdown_row(HEAD))
    print(markdown_row("-" * len(title) for title in HEAD))
    for name in options.populations:
        keys, n = POPULATIONS[name]
        population = codes(name, keys)
        held = [
            run(name, repeat, population, n, options.max_seconds)
            for repeat in range(1, options.repeats + 1)
        ]
        for measure, flags in zip(("τ1", "τ2"), zip(*held, strict=True), strict=True):
            print(f"{name}: {measure} held in {sum(flags)} of {len(flags)}")


if __name__ == "__main__":
    main()
