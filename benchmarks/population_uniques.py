"""Classic estimates of the number of population uniques beside the truth.

    python benchmarks/population_uniques.py --repeats 10

Simple random samples of the populations of accuracy.py, taken whole. Each entry is the mean error
in percent of the true number, over the samples in which the estimate exists; in how many it does
not is in brackets.
"""

from __future__ import annotations

import argparse
import math
import tempfile
from pathlib import Path

import numpy as np
from accuracy import POPULATIONS, prepare
from common import machine, print_table

FRACTIONS = (0.01, 0.05, 0.2, 0.5)


def estimates(sizes: np.ndarray, classes: np.ndarray, size: int, cells: int) -> dict[str, float]:
    """Every estimator and variant, by a short name."""
    from unikat.classics.population_uniques import bethlehem, dankar, pitman, snb, zayatz

    found = {
        "Pitman": pitman(sizes, classes, size),
        "limit": pitman(sizes, classes, size, asymptotic=True),
        "Zayatz": zayatz(sizes, classes, size),
        "SNB": snb(sizes, classes, size),
        "SNB, Shlosser": snb(sizes, classes, size, population_classes="shlosser"),
        "Dankar": dankar(sizes, classes, size),
        "Bethlehem": bethlehem(sizes, classes, size, cells),
        "moments": bethlehem(sizes, classes, size, cells, fit="moments"),
    }
    return {name: uniques.estimate for name, uniques in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--populations", nargs="+", default=list(POPULATIONS))
    parser.add_argument("--repeats", type=int, default=10)
    options = parser.parse_args()

    from unikat import Design, read

    print(machine())
    rows: list[list[object]] = []
    head: list[str] = []
    for name in options.populations:
        with tempfile.TemporaryDirectory() as folder:
            path, size = prepare(name, Path(folder))
            keys, design = POPULATIONS[name][1].split(","), Design(population_size=size)
            table = read(path, keys, design, missing="level").tabulate()
        true = int((table.counts == 1).sum())
        for fraction in FRACTIONS:
            rng = np.random.default_rng(1)
            results = []
            for _ in range(options.repeats):
                drawn = rng.choice(table.record_cell, round(fraction * size), replace=False)
                sizes, classes = np.unique(np.bincount(drawn), return_counts=True)
                some = sizes > 0
                results.append(
                    estimates(sizes[some], classes[some], size, math.prod(table.n_levels))
                )
            head = ["population", "f", "true", *results[0]]
            row: list[object] = [name, fraction, true]
            for method in results[0]:
                values = np.array([result[method] for result in results])
                exists = ~np.isnan(values)
                error = 100 * (values[exists] / true - 1)
                text = f"{error.mean():+.0f}%" if exists.any() else "–"
                row.append(text if exists.all() else f"{text} ({(~exists).sum()})")
            rows.append(row)
    print_table(head, rows)


if __name__ == "__main__":
    main()
