"""Structural zeros, New York n = 10,000: do chains from far apart reach the same place?

    python benchmarks/modes.py --seconds 300
    python benchmarks/modes.py --file ny2000_sz_1000 --seconds 60

Three starts of one model: from many pure classes, from few, and from records whose keys come from
components at random (large alpha), where tau1 is near 200 and the published chains had one of their
two modes. Prints where each is as time goes by.
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Any

from common import machine, print_table, zeros_table

if TYPE_CHECKING:
    from unikat.data import CellTable
    from unikat.models.mixtures.hdp import HDP

STARTS = ("pure", "few", "mixed")


def start(model: HDP, name: str, data: Any, seed: int) -> Any:
    """State at the start: `init`, or tokens dealt to 8 components by record or one by one."""
    import numpy as np

    from unikat.models.base import Stream

    state = model.init(Stream(seed, STARTS.index(name), 0), data)
    if name == "pure":
        return state
    rng = np.random.default_rng(seed)
    shape = state.z.shape if name == "mixed" else (len(state.z), 1)
    z = np.broadcast_to(rng.integers(0, 8, shape), state.z.shape).astype(np.int16).copy()
    # All that the first sweep reads of the start, apart from z: profiles of the whole file.
    shares = data.frequencies + 0.5
    levels = np.diff(data.offsets)
    shares /= np.repeat(np.add.reduceat(shares, data.offsets[:-1]), levels)
    noise = rng.gamma(20.0 * shares[:, None] * np.ones(state.theta.shape[1]) + 1e-3)
    noise /= np.repeat(np.add.reduceat(noise, data.offsets[:-1], axis=0), levels, axis=0)
    weights = np.full(len(state.weights), 1e-6)
    weights[:8] = 1.0
    alpha = np.array([20.0 if name == "mixed" else 0.01])
    return state._replace(
        z=z, theta=noise.astype(np.float32), weights=weights / weights.sum(), alpha=alpha
    )


def run(model: HDP, table: CellTable, name: str, seconds: float) -> list[list[object]]:
    """Follow one chain; a row for every sixth of the time."""
    import numpy as np

    from unikat.models.base import Stream

    data = model.prepare(table)
    state = start(model, name, data, 1)
    unobserved = table.population_size - table.n_records
    unique = table.cells[table.unique]
    rows: list[list[object]] = []
    values: list[float] = []
    begun = time.perf_counter()
    sweep = 0
    while len(rows) < 6:
        sweep += 1
        state, info = model.step(Stream(1, STARTS.index(name), sweep), state, data, 1)
        passed = time.perf_counter() - begun
        if sweep % 20 == 0 or not values:
            p = model.cell_probabilities(Stream(1, STARTS.index(name), sweep), state, data, unique)
            values.append(float(np.exp(unobserved * np.log1p(-p)).sum()))
        if passed > seconds * (len(rows) + 1) / 6:
            kept = values[-max(1, len(values) // 4) :]
            rows.append(
                [name, f"{passed:.0f}", sweep, f"{info.values['alpha']:.3f}",
                 f"{info.values['n_components']:.0f}", f"{info.values['impossible_mass']:.2f}",
                 f"{np.mean(kept):.1f} ± {np.std(kept):.1f}"]
            )  # fmt: skip
            values = values[-200:]
    return rows


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--file", default="ny2000_sz_10000")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each start")
    parser.add_argument("--starts", nargs="+", choices=STARTS, default=list(STARTS))
    parser.add_argument("--tempering", type=float, default=0.02)
    options = parser.parse_args()

    from unikat.models.mixtures.hdp import HDP

    model = HDP(zeros_tempering=options.tempering)
    model.compile(True)
    print(machine(), end="\n\n")
    table = zeros_table(options.file)
    rows = [row for name in options.starts for row in run(model, table, name, options.seconds)]
    print_table(
        ["start", "seconds", "sweeps", "alpha", "components", "p0", "expected τ1, last quarter"],
        rows,
    )


if __name__ == "__main__":
    main()
