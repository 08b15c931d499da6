"""Special uniques: seconds and peak memory of SUDA2 on a large sample.

    python benchmarks/suda.py --records 100_000

Draws records of ten keys from the census data in ../shared/data where they are, else simulates
them; missing values are a level. Every run is a process of its own: the first with an empty folder
of compiled kernels, the second with that folder, and then the second's search once more. With
`--missing 0.02` that share of the values is set missing, to match any level.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

from common import DATA, machine, print_table

KEYS = ["ST", "AGEP", "SEX", "RAC1P", "HISP", "CIT", "MAR", "SCHL", "IND", "OCC"]
LEVELS = [9, 94, 2, 9, 24, 5, 5, 25, 20, 27]
MORE_KEYS = ["ESR", "COW", "MIL", "DIS", "LANX"]
MORE_LEVELS = [7, 10, 5, 2, 3]


def measure(options: argparse.Namespace) -> None:
    """Find the uniques twice; print what each step took."""
    import numpy as np
    import pandas as pd

    from unikat.classics.suda import suda2
    from unikat.data import Design, read

    keys = [*KEYS, *MORE_KEYS][: options.keys]
    rng = np.random.default_rng(1)
    census = DATA / "acs2024_persons_northeast.parquet"
    if census.exists() and not options.simulate:
        frame = pd.read_parquet(census, columns=keys)
        frame = frame.iloc[rng.choice(len(frame), options.records, replace=False)]
    else:
        # Independent keys with falling shares: few records are alike.
        levels = [*LEVELS, *MORE_LEVELS]
        frame = pd.DataFrame(
            {
                key: np.minimum(rng.geometric(1 / (1 + n / 4), options.records), n)
                for key, n in zip(keys, levels, strict=False)
            }
        )
    # In the census data -1 is not applicable: a level.
    frame = frame.astype("Int64")
    if options.missing:
        frame = frame.mask(rng.random(frame.shape) < options.missing)
    missing = "wildcard" if options.missing else "level"
    microdata = read(frame, keys, Design(population_size=10**7), missing=missing)
    table = microdata.tabulate()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    seconds = []
    for _ in range(2):
        started = time.perf_counter()
        result = suda2(table, largest=options.largest)
        seconds.append(time.perf_counter() - started)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
    values = [
        f"{table.n_cells:,}",
        f"{table.n_uniques:,}",
        f"{int(result.n_msu.sum(dtype=np.int64)):,}",
        *(f"{value:.1f}" for value in seconds),
        f"{after:.0f}",
        f"{before:.0f}",
    ]
    print(";".join(values))


def main() -> None:
    """Run with an empty and with a filled folder of compiled kernels; print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=lambda text: int(text.replace("_", "")), default=100_000)
    parser.add_argument("--keys", type=int, default=10, help="10 to 15")
    parser.add_argument("--largest", type=int, default=None, help="most keys of an MSU")
    parser.add_argument("--missing", type=float, default=0.0, help="share of values set missing")
    parser.add_argument("--simulate", action="store_true", help="even where census data are")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        measure(options)
        return
    print(machine())
    rows = []
    with tempfile.TemporaryDirectory(prefix="unikat-benchmark-") as folder:
        environment = {**os.environ, "UNIKAT_CACHE_DIR": folder}
        for kernels in ("cold", "warm"):
            command = [sys.executable, __file__, "--measure", *sys.argv[1:]]
            done = subprocess.run(
                command, check=True, env=environment, stdout=subprocess.PIPE, text=True
            )
            rows.append([kernels, *done.stdout.split()[-1].split(";")])
    head = ["kernels", "patterns", "uniques", "MSUs", "first s", "again s", "peak MiB", "before"]
    print_table(head, rows)


if __name__ == "__main__":
    main()
