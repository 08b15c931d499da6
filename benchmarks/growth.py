"""Growth of the time of a sweep and of an observed draw with n, N and the number of cells.

    python benchmarks/growth.py
    python benchmarks/growth.py --most 10_000_000 --plot docs/images/growth.svg

Simulated latent classes, eight keys of 12 levels. One of the three grows while the others stay: n
from 10,000; N from 10^6 at n = 100,000; cells by levels that no record has, at n = 100,000. The
figure of a size is the median of single sweeps, and of single observations
(`RiskMeasures.observe`), on all cores. A slope is that of log time on log size; for n it is that
from 100,000 on, where what every sweep costs no longer counts. `--plot` needs matplotlib.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import TYPE_CHECKING

from common import cores, machine, print_table
from sweep import Chain, seconds

if TYPE_CHECKING:
    from unikat.data import CellTable

N_KEYS, N_CLASSES, N_LEVELS = 8, 20, 12
CHUNK = 1_000_000
STEADY = 100_000
"""Records from which the slope in n is taken."""
Point = tuple[str, str, float, float, float]
"""What grows, model, size, seconds of a sweep and of an observation."""


def simulated(n_records: int, population_size: int, n_levels: int = N_LEVELS) -> CellTable:
    """Return records of 20 classes with `N_LEVELS` levels a key; keys may have more levels."""
    import numpy as np

    from unikat.data import CellTable, Key

    rng = np.random.default_rng(1)
    profiles = rng.dirichlet(np.full(N_LEVELS, 0.5), (N_CLASSES, N_KEYS)).cumsum(axis=2)
    shares = rng.dirichlet(np.full(N_CLASSES, 5.0))
    codes = np.empty((n_records, N_KEYS), np.int8)
    for first in range(0, n_records, CHUNK):
        part = codes[first : first + CHUNK]
        component = rng.choice(N_CLASSES, len(part), p=shares)
        for j in range(N_KEYS):
            below = rng.random((len(part), 1)) > profiles[component, j]
            part[:, j] = np.minimum(below.sum(axis=1), N_LEVELS - 1)
    keys = [Key.of_size(f"K{j}", n_levels) for j in range(N_KEYS)]
    return CellTable.from_codes(codes, keys, population_size=population_size)


def measured(what: str, table: CellTable, label: str, size: float, sweeps: int) -> Point:
    """Time sweeps and observations after as many sweeps again, and print what was found."""
    from unikat.risk.measures import RiskMeasures

    chain, measures = Chain(table, label, seed=1), RiskMeasures.of(table)
    chain.model.compile()
    measures.compile()
    totals = measures.start()
    chain.advance(sweeps, cores())
    of_sweep = [seconds(chain.advance, 1, cores()) for _ in range(sweeps)]
    of_draw = [
        seconds(measures.observe, chain.stream, chain.model, chain.state, chain.data, totals)
        for _ in range(3)
    ]
    print(f"{what} {size:.0e}, {label}: {table.n_cells:,} patterns, {chain.n_components} classes")
    return what, label, size, statistics.median(of_sweep), statistics.median(of_draw)


def slope(points: list[Point], place: int) -> float:
    """Slope of log time on log size."""
    import numpy as np

    sizes = np.log([point[2] for point in points])
    return float(np.polyfit(sizes, np.log([point[place] for point in points]), 1)[0])


def plot(points: list[Point], path: Path) -> None:
    """Draw a panel for each of n, N and cells."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 3, figsize=(9.6, 3.4), sharey=True, layout="constrained")
    titles = {"n": "records n", "N": "population N", "cells": "cells of the table"}
    for panel, (what, title) in zip(panels, titles.items(), strict=True):
        for label, colour in (("latent-class", "tab:blue"), ("hdp", "tab:orange")):
            line = [point for point in points if point[:2] == (what, label)]
            for place, style, name in ((3, "o-", "sweep"), (4, "s--", "observed draw")):
                times = [point[place] for point in line]
                panel.loglog([point[2] for point in line], times, style, color=colour,
                             label=f"{label}, {name}", markersize=4)  # fmt: skip
        panel.set_xlabel(title)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("seconds")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None)


def main() -> None:
    """Measure, print, draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", default=["latent-class", "hdp"])
    parser.add_argument("--most", type=int, default=10_000_000, help="records")
    parser.add_argument("--plot", type=Path, help="file of the figure")
    options = parser.parse_args()
    print(machine())
    points = []
    for label in options.models:
        for n in (10**k for k in range(4, 9) if 10**k <= options.most):
            sweeps = max(4, min(40, 4_000_000 // n))
            points.append(measured("n", simulated(n, 10**9), label, n, sweeps))
        for size in (10**6, 10**7, 10**8, 10**9, 10**10):
            points.append(measured("N", simulated(100_000, size), label, size, 20))
        for n_levels in (12, 24, 48, 96):
            table = simulated(100_000, 10**7, n_levels)
            points.append(measured("cells", table, label, float(n_levels) ** N_KEYS, 20))
    rows, slopes = [], []
    for what, label, size, sweep, draw in points:
        rows.append([what, label, f"{size:.0e}", f"{1e3 * sweep:,.2f}", f"{1e3 * draw:,.2f}"])
    print_table(["grows", "model", "size", "sweep, ms", "observed draw, ms"], rows)
    for what in ("n", "N", "cells"):
        for label in options.models:
            line = [p for p in points if p[:2] == (what, label) and (what != "n" or p[2] >= STEADY)]
            slopes.append([what, label, f"{slope(line, 3):.2f}", f"{slope(line, 4):.2f}"])
    print_table(["grows", "model", "slope of a sweep", "of an observed draw"], slopes)
    if options.plot:
        plot(points, options.plot)


if __name__ == "__main__":
    main()
