"""Tabulating a large Parquet file: seconds and peak memory.

    python benchmarks/tabulate.py --rows 100_000_000 --memory 1GB

Makes a Parquet file with ten keys in a temporary folder, by resampling rows of the census data in
../shared/data where they are, else by simulation; tabulates it in a process of its own, so that
the peak memory is that of the tabulation; and removes the file.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import machine

KEYS = ["ST", "AGEP", "SEX", "RAC1P", "HISP", "CIT", "MAR", "SCHL", "IND", "OCC"]
LEVELS = [9, 94, 2, 9, 24, 5, 5, 25, 20, 27]
SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
CHUNK = 1_000_000


def make(path: Path, n_rows: int) -> str:
    """Write the file in chunks; return where its rows come from."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(1)
    census = SHARED / "acs2024_persons_northeast.parquet"
    pool = pq.read_table(census, columns=KEYS) if census.exists() else None
    writer = None
    for start in range(0, n_rows, CHUNK):
        size = min(CHUNK, n_rows - start)
        if pool is not None:
            chunk = pool.take(rng.integers(0, len(pool), size))
        else:
            # Independent keys with falling shares fill very many cells: the harder case.
            draws = {
                key: np.minimum(rng.geometric(1 / (1 + levels / 4), size), levels).astype(np.int8)
                for key, levels in zip(KEYS, LEVELS, strict=True)
            }
            chunk = pa.table(draws)
        writer = writer or pq.ParquetWriter(path, chunk.schema)
        writer.write_table(chunk)
    if writer is not None:
        writer.close()
    return "census data, resampled" if pool is not None else "simulated"


def tabulate(path: Path, memory: str, threads: int | None) -> None:
    """Tabulate the file and print what it took."""
    from unikat.data import Design, read

    started = time.perf_counter()
    microdata = read(path, KEYS, Design(population_size=10**10))
    surveyed = time.perf_counter()
    table = microdata.tabulate(memory_limit=memory, threads=threads)
    ended = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{table.n_records:,} rows, {table.n_keys} keys, {table.n_cells:,} patterns, "
        f"{table.n_uniques:,} uniques\n"
        f"levels {surveyed - started:.1f} s, table {ended - surveyed:.1f} s, "
        f"peak memory {peak:.2f} GiB (DuckDB limit {memory})"
    )


def main() -> None:
    """Make, tabulate, remove."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=lambda text: int(text.replace("_", "")), default=10_000_000)
    parser.add_argument("--memory", default="1GB", help="DuckDB's memory limit")
    parser.add_argument("--threads", type=int, default=None)
    parser.add_argument("--simulate", action="store_true", help="even where census data are")
    parser.add_argument("--file", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.file:
        tabulate(options.file, options.memory, options.threads)
        return
    print(machine())
    global SHARED
    SHARED = Path(os.devnull) if options.simulate else SHARED
    with tempfile.TemporaryDirectory(prefix="unikat-benchmark-") as folder:
        path = Path(folder) / "rows.parquet"
        started = time.perf_counter()
        origin = make(path, options.rows)
        size = path.stat().st_size / 1e6
        print(f"{origin}: {size:.0f} MB written in {time.perf_counter() - started:.0f} s")
        command = [sys.executable, __file__, "--file", str(path), "--memory", options.memory]
        if options.threads:
            command += ["--threads", str(options.threads)]
        subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
