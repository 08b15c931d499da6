"""Two releases of the same persons: what `assess --release` says beside the truth.

    python benchmarks/releases.py --populations adult eph --n 1000 --repeats 20

Samples of a population are released twice: the first file has the first five keys, the second the
first four and the rest. An intruder links the records of both by the four, at random where several
have the same values. Of the records that he links right it is counted how many are unique in the
population by all keys (tau1), and the sum of 1/F (tau2), over those unique in the file by all keys.
The second file is of the same persons (`same`), of half of them and of others (`half`), or has
another value of the first key in 10% of its records (`errors`).
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np
import pandas as pd
from common import machine, print_table
from leaderboard import plain, population

SHARED, FIRST = 4, 5


def situation(
    name: str, frame: pd.DataFrame, rows: Any, rng: np.random.Generator
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The two releases of some rows, each in an order of its own."""
    second = rows
    if name == "half":
        others = np.setdiff1d(np.arange(len(frame)), rows)
        second = np.concatenate((rows[::2], rng.choice(others, len(rows) // 2, replace=False)))
    columns = list(frame.columns)
    first = frame.iloc[rows].iloc[:, :FIRST].assign(person=rows)
    other = frame.iloc[second].drop(columns=columns[SHARED:FIRST]).assign(person=second)
    if name == "errors":
        wrong = rng.random(len(other)) < 0.1
        drawn = rng.choice(frame[columns[0]].to_numpy(), int(wrong.sum()))
        other.loc[wrong, columns[0]] = drawn
    return first.reset_index(drop=True), other.sample(frac=1.0, random_state=rng.integers(2**31))


def truth(
    frame: pd.DataFrame, first: pd.DataFrame, other: pd.DataFrame, rng: np.random.Generator
) -> tuple[int, float]:
    """What an intruder finds: population uniques and the sum of 1/F, of records linked right."""
    columns = list(frame.columns)
    groups = other.groupby(columns[:SHARED], dropna=False)["person"].apply(np.array).to_dict()
    whole = frame.groupby(columns, dropna=False)[columns[0]].transform("size").to_numpy()
    everywhere = frame.iloc[first["person"]]
    there = first["person"].isin(other["person"]).to_numpy()
    alone = everywhere[there].groupby(columns, dropna=False)[columns[0]].transform("size") == 1
    unique = set(first["person"].to_numpy()[there][alone.to_numpy()])
    tau1, tau2 = 0, 0.0
    for row in first.itertuples(index=False):
        candidates = groups.get(tuple(row[:SHARED]))
        if candidates is None or rng.choice(candidates) != row[-1] or row[-1] not in unique:
            continue
        tau1 += whole[row[-1]] == 1
        tau2 += 1.0 / whole[row[-1]]
    return tau1, tau2


def main() -> None:
    """Read what is asked for, and print how the estimates did."""
    import unikat

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--populations", nargs="+", default=["adult", "eph"])
    parser.add_argument("--situations", nargs="+", default=["same", "half", "errors"])
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--model", default="latent-class")
    parser.add_argument("--sweeps", type=int, default=4000)
    options = parser.parse_args()
    print(machine())
    lines = []
    for name in options.populations:
        frame, keys = population(name)
        # Widths are those of the keys, so that a level is what an intruder sees.
        for key in keys:
            column, _, how = key.partition(":")
            if how.startswith("width("):
                frame[column] = frame[column] // int(how[6:-1])
        frame = frame[plain(keys)].fillna(-999).astype(str)
        columns = list(frame.columns)
        for case in options.situations:
            found: list[tuple[Any, tuple[int, float]]] = []
            for repeat in range(options.repeats):
                rng = np.random.default_rng([7, repeat])
                rows = rng.choice(len(frame), options.n, replace=False)
                first, other = situation(case, frame, rows, rng)
                result = unikat.assess(
                    first,
                    keys=columns[:FIRST],
                    population_size=len(frame),
                    release=other,
                    release_keys=columns[FIRST:],
                    release_id="person",
                    model=options.model,
                    max_sweeps=options.sweeps,
                    seed=repeat + 1,
                    workers=2,
                ).result.release
                found.append((result, truth(frame, first, other, rng)))
            for i, measure in enumerate(("tau1", "tau2")):
                told = [getattr(result, measure) for result, _ in found]
                true = np.array([pair[i] for _, pair in found])
                mean = np.array([one.mean for one in told])
                covered = sum(
                    one.lower <= value <= one.upper for one, value in zip(told, true, strict=True)
                )
                lines.append(
                    [
                        name,
                        case,
                        measure,
                        f"{np.mean([result.n_certain for result, _ in found]):.0f}",
                        f"{np.mean([result.links for result, _ in found]):.0f}",
                        f"{true.mean():.1f}",
                        f"{mean.mean():.1f}",
                        f"{np.abs(mean - true).mean():.1f}",
                        f"{covered} of {len(found)}",
                    ]
                )
    print_table(
        ["population", "second release", "measure", "certain", "linked right", "true", "estimated",
         "mean error", "covered"],
        lines,
    )  # fmt: skip


if __name__ == "__main__":
    main()
