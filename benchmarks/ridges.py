"""Structural zeros: effective draws of the expected τ1 with and without the moves along ridges.

    python benchmarks/ridges.py --model hdp --sweeps 5000

One chain on `ny2000_sz_1000`, looked at every fifth sweep, the first fifth of the sweeps left out.
"""

from __future__ import annotations

import argparse
import time

from common import machine, print_table, zeros_table


def main() -> None:
    """Run both and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", choices=["hdp", "latent-class"], default="hdp")
    parser.add_argument("--sweeps", type=int, default=5000)
    options = parser.parse_args()

    import numpy as np
    from arviz_stats.base import array_stats

    from unikat.kernels import truncation
    from unikat.models.base import Stream
    from unikat.models.named import build_model

    print(machine(), end="\n\n")
    table = zeros_table("ny2000_sz_1000")
    unique, unobserved = table.cells[table.unique], table.population_size - table.n_records
    moves = truncation.along_ridges
    rows = []
    for name, kernel in (("with", moves), ("without", lambda *_: (0, 0))):
        truncation.along_ridges = kernel
        model = build_model(options.model, {})
        model.compile(True)
        data = model.prepare(table)
        state = model.init(Stream(1, 0, 0), data)
        values, begun = [], time.perf_counter()
        for sweep in range(1, options.sweeps + 1):
            stream = Stream(1, 0, sweep)
            state, _ = model.step(stream, state, data, 1)
            if sweep > options.sweeps // 5 and sweep % 5 == 0:
                p = model.cell_probabilities(stream, state, data, unique)
                values.append(float(np.exp(unobserved * np.log1p(-p)).sum()))
        draws = np.array(values)[None, :]
        ess = array_stats.ess(draws, chain_axis=0, draw_axis=1, method="bulk")
        rows.append([options.model, name, options.sweeps, f"{time.perf_counter() - begun:.0f}",
                     f"{np.mean(values):.2f}", f"{float(ess):.0f}"])  # fmt: skip
    print_table(["model", "moves", "sweeps", "seconds", "expected τ1", "ESS"], rows)


if __name__ == "__main__":
    main()
