"""Local suppression: seconds and suppressed values on census records.

    python benchmarks/suppression.py --records 100_000

Records of ten keys are drawn from the census data in ../shared/data. Two rules: k-anonymity with
k = 3, and a limit of 0.1 on the probability that a record which is the only one of the sample in
its margin is alone in a population ten times as large, with independent keys for the probability of
a margin. `--missing 0.02` sets that share of the values missing first.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import numpy as np
from common import data_file, machine, print_table

KEYS = ["ST", "AGEP", "SEX", "RAC1P", "HISP", "CIT", "MAR", "SCHL", "IND", "OCC"]


def main() -> None:
    """Suppress by both rules; print a table."""
    import pandas as pd

    from unikat.protection.suppression import KAnonymity, RiskLimit, suppress

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=lambda text: int(text.replace("_", "")), default=100_000)
    parser.add_argument("--missing", type=float, default=0.0, help="share of values set missing")
    options = parser.parse_args()
    print(machine())
    rng = np.random.default_rng(1)
    frame = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=KEYS)
    frame = frame.iloc[rng.choice(len(frame), options.records, replace=False)]
    codes = np.column_stack([pd.factorize(frame[key], sort=True)[0] for key in KEYS])
    n_levels = (codes.max(axis=0) + 1).tolist()
    shares = [
        np.bincount(column, minlength=n) / len(codes)
        for column, n in zip(codes.T, n_levels, strict=True)
    ]
    codes[rng.random(codes.shape) < options.missing] = -1

    def risk_of(patterns: Any) -> Any:
        mean = np.full(len(patterns), 9.0 * options.records)
        for column, share in zip(patterns.T, shares, strict=True):
            mean *= np.where(column < 0, 1.0, share[column])
        return np.exp(-mean)

    suppress(codes[:50], n_levels, KAnonymity(2))  # compiles
    rows = []
    for name, rule in (("k = 3", KAnonymity(3)), ("r1 <= 0.1", RiskLimit(0.1, risk_of))):
        started = time.perf_counter()
        found = suppress(codes, n_levels, rule)
        seconds = time.perf_counter() - started
        records = int(found.any(axis=1).sum())
        rows.append([name, f"{int(found.sum()):,}", f"{records:,}", f"{seconds:.1f}"])
    print_table(["rule", "values", "records", "seconds"], rows)
    print(f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10:.0f} MiB")


if __name__ == "__main__":
    main()
