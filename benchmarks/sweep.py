"""Milliseconds per sweep, per evaluation of the cell probabilities, and per observed draw.

    python benchmarks/sweep.py
    python benchmarks/sweep.py --only ny

One chain on one thread and on all cores, from the state the chain is in after a burn-in. Blocks
of sweeps on one and on all threads alternate, so that other work on the machine slows both alike;
the median block is the figure, the fastest shows what the machine can do.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from common import cell_table, cores, data_file, machine, print_table

if TYPE_CHECKING:
    from unikat.data import CellTable

CENSUS_KEYS = ["ST", "AGEP", "SEX", "RAC1P", "HISP", "CIT", "MAR", "SCHL", "ESR", "DIS"]


class Chain:
    """A chain that is advanced by hand."""

    def __init__(self, table: CellTable, seed: int) -> None:
        from unikat import HDP
        from unikat.models.base import Stream

        self.model = HDP()
        self.data = self.model.prepare(table)
        self.stream = Stream(seed, 0, 0)
        self.state = self.model.init(self.stream, self.data)
        self.n_components = 0

    def advance(self, n_sweeps: int, n_threads: int) -> None:
        """Make some sweeps; the threads do not change the numbers."""
        for _ in range(n_sweeps):
            self.stream = self.stream._replace(sweep=self.stream.sweep + 1)
            self.state, info = self.model.step(self.stream, self.state, self.data, n_threads)
            self.n_components = int(info.values["n_components"])


def census(n_records: int) -> CellTable:
    """Persons of the American Community Survey, northeast and west, drawn with replacement."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    from unikat import Design, read

    regions = [data_file(f"acs2024_persons_{region}") for region in ("northeast", "west")]
    pool = pa.concat_tables([pq.read_table(path, columns=CENSUS_KEYS) for path in regions])
    drawn = pool.take(np.random.default_rng(1).integers(0, len(pool), n_records))
    # -1 (not applicable: too young for school or work) is a level like any other.
    return read(drawn, CENSUS_KEYS, Design(population_size=100 * n_records)).tabulate()


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """Time one call."""
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def measure(
    name: str, table: CellTable, *, burn_in: int, blocks: int, block: int, observations: int
) -> list[list[str]]:
    """Rows of the result for one table."""
    from unikat import RiskMeasures

    chain, measures = Chain(table, seed=1), RiskMeasures.of(table)
    chain.model.compile()
    measures.compile()
    chain.advance(burn_in, cores())

    times: dict[tuple[str, int], list[float]] = {}
    for _ in range(blocks):
        for n_threads in sorted({1, cores()}):
            taken = seconds(chain.advance, block, n_threads)
            times.setdefault(("sweep", n_threads), []).append(taken / block)

    model, data, totals = chain.model, chain.data, measures.start()
    uniques = table.cells[table.unique]
    for _ in range(observations):
        chain.advance(1, cores())
        state, stream = chain.state, chain.stream
        taken = seconds(model.cell_probabilities, stream, state, data, uniques)
        times.setdefault(("cell_probabilities, sample uniques", 1), []).append(taken)
        taken = seconds(measures.observe, stream, model, state, data, totals)
        times.setdefault(("RiskMeasures.observe", 1), []).append(taken)

    print(
        f"{name}: {table.n_records:,} records, {table.n_keys} keys, {table.n_cells:,} patterns, "
        f"{table.n_uniques:,} sample uniques; after {chain.stream.sweep} sweeps "
        f"{chain.n_components} components, alpha {chain.state.alpha.mean():.2g}"
    )
    return [
        [name, what, str(n), f"{1e3 * statistics.median(t):,.3f}", f"{1e3 * min(t):,.3f}"]
        for (what, n), t in times.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["ny", "census"])
    parser.add_argument("--records", type=int, default=1_000_000, help="of the census table")
    parser.add_argument("--burn-in", type=int, default=500, help="sweeps, New York")
    parser.add_argument("--census-burn-in", type=int, default=30, help="sweeps, census")
    parser.add_argument("--blocks", type=int, default=15)
    options = parser.parse_args()
    print(machine())
    rows = []
    if options.only != "census":
        rows += measure(
            "ny2000_clean_10000",
            cell_table("ny2000_clean_10000"),
            burn_in=options.burn_in,
            blocks=options.blocks,
            block=50,
            observations=options.blocks,
        )
    if options.only != "ny":
        rows += measure(
            f"census, {options.records:,} records",
            census(options.records),
            burn_in=options.census_burn_in,
            blocks=options.blocks,
            block=2,
            observations=2,
        )
    print_table(["data", "what", "threads", "median ms", "fastest ms"], rows)


if __name__ == "__main__":
    main()
