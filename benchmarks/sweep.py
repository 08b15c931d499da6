"""Milliseconds per sweep, per evaluation of the cell probabilities, and per observed draw.

    python benchmarks/sweep.py
    python benchmarks/sweep.py --only ny
    python benchmarks/sweep.py --only classes --models latent-class

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

from common import cell_table, cores, data_file, machine, print_table, zeros_table

if TYPE_CHECKING:
    from unikat.data import CellTable

IPUMS_KEYS = ["OWNERSHP", "MORTGAGE", "AGE", "SEX", "MARST", "RACESING", "EDUC", "EMPSTAT",
              "DISABWRK", "VETSTAT"]  # fmt: skip
CENSUS_KEYS = ["ST", "AGEP", "SEX", "RAC1P", "HISP", "CIT", "MAR", "SCHL", "ESR", "DIS"]


class Chain:
    """A chain that is advanced by hand."""

    def __init__(self, table: CellTable, label: str, seed: int) -> None:
        from unikat.models.base import Stream
        from unikat.models.named import build_model
        from unikat.spec.model import ModelSpec

        spec = ModelSpec.of(label)
        self.model = build_model(spec.name, spec.options)
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


def ipums(level: bool) -> CellTable:
    """20,000 people of New York 2000 with ten keys, a tenth of the values missing.

    They are missing, or a level of their own if `level`: NPBayesImputeCat's example file.
    """
    from unikat import Design, read

    missing = "level" if level else "integrate"
    design = Design(population_size=953_076)
    return read(data_file("nyexample_X"), IPUMS_KEYS, design, missing=missing).tabulate()


def with_zeros() -> CellTable:
    """`ipums`, values missing, with the 60 conditions of NPBayesImputeCat's example."""
    from unikat import Zeros, apply_zeros

    table = ipums(level=False)
    zeros = Zeros.of([], table.keys, tables=[data_file("nyexample_MCZ")])
    return apply_zeros(table, zeros, "stop").table


def classes(n_records: int = 20_000, n_keys: int = 10, n_classes: int = 50) -> CellTable:
    """Simulated latent classes: 5 levels a key, profiles ~ Dirichlet(1/2)."""
    import numpy as np

    from unikat.data import CellTable, Key

    rng = np.random.default_rng(1)
    profiles = rng.dirichlet(np.full(5, 0.5), (n_classes, n_keys)).cumsum(axis=2)
    component = rng.choice(n_classes, n_records, p=rng.dirichlet(np.full(n_classes, 5.0)))
    codes = (rng.random((n_records, n_keys, 1)) > profiles[component]).sum(axis=2)
    keys = [Key.of_size(f"K{j}", 5) for j in range(n_keys)]
    population = max(10**6, 10 * n_records)
    return CellTable.from_codes(np.minimum(codes, 4), keys, population_size=population)


def seconds(work: Callable[..., object], *arguments: object) -> float:
    """Time one call."""
    started = time.perf_counter()
    work(*arguments)
    return time.perf_counter() - started


def measure(
    name: str,
    table: CellTable,
    label: str,
    *,
    burn_in: int,
    blocks: int,
    block: int,
    observations: int,
) -> list[list[str]]:
    """Rows of the result for one table."""
    from unikat.risk.measures import RiskMeasures

    chain, measures = Chain(table, label, seed=1), RiskMeasures.of(table)
    chain.model.compile(table.zeros is not None)
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
        f"{name}, {label}: {table.n_records:,} records, {table.n_keys} keys, "
        f"{table.n_cells:,} patterns, "
        f"{table.n_uniques:,} sample uniques; after {chain.stream.sweep} sweeps "
        f"{chain.n_components} components in {len(chain.state.weights)} slots"
    )
    return [
        [name, label, what, str(n), f"{1e3 * statistics.median(t):,.3f}", f"{1e3 * min(t):,.3f}"]
        for (what, n), t in times.items()
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", choices=["ny", "classes", "zeros", "census", "patterns"])
    parser.add_argument("--models", nargs="+", default=["hdp"])
    parser.add_argument("--records", type=int, default=1_000_000, help="of the census table")
    parser.add_argument("--burn-in", type=int, default=500, help="sweeps, New York")
    parser.add_argument("--census-burn-in", type=int, default=30, help="sweeps, census")
    parser.add_argument("--blocks", type=int, default=15)
    options = parser.parse_args()
    print(machine())
    rows = []
    small = {"burn_in": options.burn_in, "blocks": options.blocks, "block": 50}
    small["observations"] = options.blocks
    large = {"burn_in": options.census_burn_in, "blocks": options.blocks, "block": 2}
    large["observations"] = 2
    for label in options.models:
        if options.only in (None, "ny"):
            table = cell_table("ny2000_clean_10000")
            rows += measure("ny2000_clean_10000", table, label, **small)
        if options.only in (None, "classes"):
            rows += measure("50 simulated classes", classes(), label, **small)
            rows += measure("nyexample, missing", ipums(level=False), label, **small)
            rows += measure("nyexample, missing a level", ipums(level=True), label, **small)
        if options.only in (None, "zeros"):
            rows += measure("nyexample, missing, 60 zeros", with_zeros(), label, **small)
            for name in ("ny2000_sz_1000", "ny2000_sz_10000"):
                rows += measure(name, zeros_table(name), label, **small)
        if options.only in (None, "census"):
            table = census(options.records)
            rows += measure(f"census, {options.records:,} records", table, label, **large)
        if options.only in (None, "patterns"):
            table = classes(n_records=2_200_000)
            rows += measure("50 simulated classes, patterns", table, label, **large)
    print_table(["data", "model", "what", "threads", "median ms", "fastest ms"], rows)


if __name__ == "__main__":
    main()
