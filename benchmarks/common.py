"""What the benchmarks share: where the data are, how a result is printed, on which machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unikat.data import CellTable

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
POPULATION = 712_174
"""Units in the population of the ny2000_clean and hdp_synthetic samples."""
TRUTH = {
    "ny2000_clean_1000": 9,
    "ny2000_clean_10000": 53,
    "hdp_synthetic_1000": 4,
    "hdp_synthetic_10000": 66,
}
"""True tau1 of each of these samples."""


def data_file(name: str) -> Path:
    """Path of a Parquet file of the shared data; the program ends if it is not there."""
    path = DATA / f"{name}.parquet"
    if not path.exists():
        sys.exit(f"This benchmark needs {name}.parquet in ../shared/data beside the checkout.")
    return path


def keys_of(name: str) -> list[str]:
    """Key variables of a sample of `TRUTH`: all its columns."""
    letter = "V" if name.startswith("hdp") else "X"
    return [f"{letter}{j}" for j in range(1, 9)]


def cell_table(name: str) -> CellTable:
    """Tabulate a sample of `TRUTH`."""
    from unikat import Design, read

    return read(data_file(name), keys_of(name), Design(population_size=POPULATION)).tabulate()


def zeros_table(name: str) -> CellTable:
    """Tabulate a sample of the New York data with structural zeros, N = 953,076."""
    import pandas as pd

    from unikat import Design, Zeros, apply_zeros, read

    keys = [f"X{j}" for j in range(1, 11)]
    table = read(data_file(name), keys, Design(population_size=953_076)).tabulate()
    published = pd.read_parquet(data_file("ny2000_sz_disjoint_zeros"))
    # Published levels count from 1, those of the data from 0; 0 means any.
    conditions = published.apply(lambda column: [value - 1 if value else None for value in column])
    zeros = Zeros.of([], table.keys, tables=[conditions.astype("Int64")])
    return apply_zeros(table, zeros, "stop").table


def cores() -> int:
    """Cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def machine() -> str:
    """Machine, versions, date, and how busy the machine is (before the benchmark starts)."""
    import numba

    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{_processor()}, {cores()} cores, Python {platform.python_version()}, "
        f"Numba {numba.__version__}, {datetime.now(UTC):%Y-%m-%d}, load at the start {load}"
    )


def processor_seconds(pid: int) -> float:
    """Seconds of processor time that a process has taken so far, on Linux; else not a number."""
    place = Path(f"/proc/{pid}/stat")
    if not place.exists():
        return float("nan")
    fields = place.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def markdown_row(values: Iterable[object]) -> str:
    """One row of a Markdown table."""
    return f"| {' | '.join(map(str, values))} |"


def print_table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned Markdown table."""
    lines = [list(head), *[[str(value) for value in row] for row in rows]]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    lines.insert(1, ["-" * width for width in widths])
    for line in lines:
        print(markdown_row(text.ljust(width) for text, width in zip(line, widths, strict=True)))
