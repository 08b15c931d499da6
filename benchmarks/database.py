"""Counting the combinations of a table of PostgreSQL, beside the bare GROUP BY of the same columns.

    python benchmarks/database.py
    python benchmarks/database.py --rows 1_000_000 --distinct

Starts a server of its own from Debian's package, fills a table with ten text columns, and takes
turns: `SELECT ... GROUP BY`, whose answer is counted on the server, and `read` and `tabulate`, in a
process of their own. Rows are those of the census data in ../shared/data, drawn again; or, with
`--distinct`, columns of six levels each that depend on nothing, so that nearly all combinations
differ.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from common import data_file, machine, print_table

sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

KEYS = ["ST", "AGEP", "SEX", "RAC1P", "HISP", "CIT", "MAR", "SCHL", "IND", "OCC"]
CHUNK = 1_000_000


def rows(seed: int, n_rows: int, *, distinct: bool) -> Any:
    """Arrow table of text."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(seed)
    if distinct:
        levels = pa.array([f"level {i}" for i in range(6)])
        return pa.table({key: levels.take(rng.integers(0, 6, n_rows)) for key in KEYS})
    pool = pq.read_table(data_file("acs2024_persons_northeast"), columns=KEYS)
    texts = pa.table({name: pool[name].cast(pa.string()) for name in KEYS})
    return texts.take(rng.integers(0, len(pool), n_rows))


def ours(address: str) -> None:
    """Read and tabulate, and print seconds and memory."""
    from unikat import Design, read

    started = time.perf_counter()
    microdata = read(address, KEYS, Design(population_size=10**10), table="persons")
    surveyed = time.perf_counter()
    table = microdata.tabulate()
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(surveyed - started, ended - surveyed, peak, table.n_cells)


def main() -> None:
    """Start, fill, measure."""
    from postgres_server import SECRET, server

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--distinct", action="store_true")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--address", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.address:
        ours(options.address)
        return
    print(machine())
    bare, found = [], []
    os.environ["PGPASSWORD"] = SECRET
    with server() as running:
        first = True
        for start in range(0, options.rows, CHUNK):
            part = rows(start, min(CHUNK, options.rows - start), distinct=options.distinct)
            running.run(table=("persons" if first else "more", part))
            if not first:
                running.run("INSERT INTO persons SELECT * FROM more", "DROP TABLE more")
            first = False
        running.run("ANALYZE persons")
        columns = ", ".join(f'"{key}"' for key in KEYS)
        query = f"SELECT count(*) FROM (SELECT {columns} FROM persons GROUP BY {columns}) AS found"
        for _ in range(options.repeats):
            begun = time.perf_counter()
            running.rows(query)
            bare.append(time.perf_counter() - begun)
            command = [sys.executable, __file__, "--address", running.address()]
            said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            found.append([float(number) for number in said.split()])
    read, tabulated, peak, cells = (statistics.median(part) for part in zip(*found, strict=True))
    base = statistics.median(bare)
    what = "distinct" if options.distinct else "census"
    row = [f"{options.rows:,}, {what}", f"{cells:,.0f}", f"{base:.1f}", f"{read:.1f}"]
    row += [f"{tabulated:.1f}", f"{(read + tabulated) / base:.2f}", f"{peak:.2f}"]
    print_table(
        ["rows", "combinations", "GROUP BY, s", "read, s", "tabulate, s", "ratio", "peak, GiB"],
        [row],
    )


if __name__ == "__main__":
    main()
