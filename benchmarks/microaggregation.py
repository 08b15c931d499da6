"""Microaggregation: processor seconds and what is lost, beside `mdav` of sdcMicro where R has it.

    python benchmarks/microaggregation.py --records 100_000 --columns 5 --size 3

Columns are normal, lognormal with correlations of 0.5, and whole numbers with many ties. Lost is
SSE / SST, the share of the variance within groups. `--plain` groups by the definition as well,
pair by pair, which takes 100,000 times 100,000 distances.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from common import machine, print_table

SDCMICRO = """
suppressMessages(library(sdcMicro)); at <- commandArgs(TRUE)
x <- as.data.frame(matrix(readBin(at[1], "double", 1e9), ncol = as.integer(at[2])))
size <- as.integer(at[3])
took <- system.time(m <- microaggregation(x, method = "mdav", aggr = size))
writeBin(as.vector(as.matrix(m$mx)), at[4]); cat(took[["user.self"]])
"""


def main() -> None:
    """Microaggregate each kind of columns; print a table."""
    from unikat.protection.numeric.microaggregation import microaggregated

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=lambda text: int(text.replace("_", "")), default=100_000)
    parser.add_argument("--columns", type=int, default=5)
    parser.add_argument("--size", type=int, default=3, help="records of a group, at least")
    parser.add_argument("--plain", action="store_true", help="also by the definition")
    parser.add_argument("--alone", action="store_true", help="without sdcMicro")
    options = parser.parse_args()
    print(machine())
    rng = np.random.default_rng(1)
    normal = rng.standard_normal((options.records, options.columns))
    shared = rng.standard_normal((options.records, 1))
    skewed = np.exp((normal + shared) / np.sqrt(2.0))
    whole = rng.poisson(20.0, normal.shape).astype(float)
    nobody = np.zeros(options.records, np.int64)
    microaggregated(normal[:50], options.size, nobody[:50])  # compiles
    rows = []
    for name, values in (("normal", normal), ("lognormal", skewed), ("whole numbers", whole)):
        started = time.process_time()
        found = microaggregated(values, options.size, nobody)
        rows.append([name, "unikat", time.process_time() - started, lost(values, found)])
        if options.plain:
            started = time.process_time()
            found = plain(values, options.size)
            rows.append([name, "definition", time.process_time() - started, lost(values, found)])
        theirs = None if options.alone else sdcmicro(values, options.size)
        if theirs is not None:
            rows.append([name, "sdcMicro", theirs[0], lost(values, theirs[1])])
    print_table(
        ["columns", "by", "processor seconds", "lost"],
        [[name, by, f"{seconds:.2f}", f"{share:.5%}"] for name, by, seconds, share in rows],
    )


def lost(values: Any, found: Any) -> float:
    """SSE / SST, each column counted by its standard deviation."""
    return float(np.mean(((values - found) ** 2).mean(axis=0) / values.var(axis=0)))


def plain(values: Any, size: int) -> Any:
    """Microaggregate by the slow twin of the tests."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
    import naive

    group = naive.mdav(values / values.std(axis=0), size)
    counts = np.bincount(group)
    return np.column_stack([(np.bincount(group, one) / counts)[group] for one in values.T])


def sdcmicro(values: Any, size: int) -> tuple[float, Any] | None:
    """Microaggregate by sdcMicro; None where there is none."""
    if shutil.which("Rscript") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        data, out = Path(folder) / "in", Path(folder) / "out"
        values.T.tofile(data)
        words = ["Rscript", "-e", SDCMICRO, data, str(values.shape[1]), str(size), out]
        told = subprocess.run(words, capture_output=True, text=True, check=False)
        if told.returncode:
            return None
        found = np.fromfile(out).reshape(values.shape[::-1]).T
        return float(told.stdout.split()[-1]), found


if __name__ == "__main__":
    main()
