"""What the true risk of known public files is: the second table of docs/reference/scale.md.

    python benchmarks/scale.py            # prints the table; ../shared/data is needed

Each file is taken as a whole population. Of 20 simple random samples of 5% it counts, without a
model, what an intruder who knows the keys could do: sample uniques, those that are unique in the
file (τ1), correct matches (τ2), and records in combinations of one or two. Each number is the mean
of the samples.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd

sys.path.insert(0, str(Path(__file__).parent))

from populations import APART, POPULATIONS

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SHARE = 0.05
REPEATS = 20
HEAD = (
    "file taken as the population", "keys", "persons", "records", "sample uniques",
    "τ1 per 1,000 records", "τ2 per 1,000 records", "r1 of a sample unique", "k below 3",
)  # fmt: skip


def row(name: str, source: str, keys: list[str]) -> str:
    """Line of the table of one file."""
    columns = [key.partition(":")[0] for key in keys]
    frame = pd.read_parquet(DATA / f"{source}.parquet", columns=columns)
    for key in keys:
        column, _, rule = key.partition(":")
        if rule:
            frame[column] //= int(rule.removeprefix("width(").rstrip(")"))
    cell = frame.groupby(columns, dropna=False, observed=True).ngroup().to_numpy()
    size = np.bincount(cell)
    n = round(SHARE * len(frame))
    counted = []
    for repeat in range(REPEATS):
        drawn = cell[np.random.default_rng(repeat).choice(len(cell), n, replace=False)]
        here = np.bincount(drawn, minlength=len(size))
        alone = here == 1
        tau1, tau2 = np.count_nonzero(alone & (size == 1)), (1 / size[alone]).sum()
        few = here[(here > 0) & (here < 3)].sum()
        counted.append([alone.sum(), tau1, tau2, few])
    uniques, tau1, tau2, few = np.mean(counted, axis=0)
    cells = (
        name, " ".join(keys), f"{len(frame):,}", f"{n:,}", f"{uniques / n:.0%}",
        f"{1000 * tau1 / n:.0f}", f"{1000 * tau2 / n:.0f}", f"{tau1 / uniques:.2f}",
        f"{few / n:.0%}",
    )  # fmt: skip
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    print("| " + " | ".join(HEAD) + " |")
    print("|" + "---|" * len(HEAD))
    for name, (source, keys) in {**POPULATIONS, **APART}.items():
        print(row(name, source, keys))


if __name__ == "__main__":
    main()
