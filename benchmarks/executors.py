"""Executors: seconds of four chains, beside local processes on the same machine.

    python benchmarks/executors.py
    mpiexec -n 3 python -m mpi4py.futures benchmarks/executors.py --executors mpi

The New York sample of 10,000 records, `hdp`, four chains on two workers. Later runs are on the same
cluster, so without its start.
"""

from __future__ import annotations

import argparse
import time

from common import cell_table, machine, print_table


def seconds(name: str, sweeps: int, repeats: int) -> list[float]:
    """Times of the runs on one cluster."""
    from unikat import HDP
    from unikat.inference.backends import Workers
    from unikat.inference.chains import sample
    from unikat.inference.executors import executor_for_run, executor_of_run
    from unikat.inference.plan import Plan, StopRule
    from unikat.risk.measures import RiskMeasures

    table = cell_table("ny2000_clean_10000")
    plan = Plan(n_chains=4, thin=10, stop=StopRule(max_sweeps=sweeps, ess=1e9))
    found = []
    with executor_for_run(name, 2):
        for _ in range(repeats):
            workers = Workers(executor=executor_of_run(), n_workers=2, n_threads=1)
            started = time.perf_counter()
            sample(HDP(), table, RiskMeasures.of(table), seed=1, plan=plan, workers=workers)
            found.append(time.perf_counter() - started)
    return found


def main() -> None:
    """Run what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--executors", default="processes,dask,ray")
    parser.add_argument("--sweeps", type=int, default=4_000)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    print(machine())
    rows = []
    for name in options.executors.split(","):
        first, *later = seconds(name, options.sweeps, options.repeats)
        rows.append([name, f"{first:.1f}", f"{min(later):.1f}"])
    print_table(["executor", "first run, s", "fastest of the others, s"], rows)


if __name__ == "__main__":
    main()
