"""Compare the nested model under rules with NestedCategBayesImpute.

    python benchmarks/nested_peer.py [--chains 4]

The peer truncates size by size, which draws the law of the size from a wrong conditional; it holds
at most 20 household and 15 person classes; and its chains had not settled. So our chains start from
as many and move as its do, without splits and merges, and margins given the size are compared: each
has to be within four Monte Carlo errors and half a deviation of the peer's synthetic populations of
2,000 households. A minute and a half of one core; the exit code is 1 if a margin is not. The peer's
values lie beside the checkout, in shared/oracles.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from reference.test_nested import (  # found by the path above
    FOLDER,
    ORACLE,
    margins,
    ruled_table,
    sizes_of,
)
from unikat.models.base import Stream
from unikat.models.households import nested

CLASSES, KINDS = 20, 15
WARMUP, SWEEPS, EVERY = 600, 300, 25
"""The impossible mass rises for some 600 sweeps, and the share of spouses with it."""
LEFT_OVER = 0.5
"""Of a deviation of the peer's synthetic populations."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--chains", type=int, default=4)
    n_chains = parser.parse_args().chains
    oracle = json.loads(ORACLE.read_text())
    table, rules = ruled_table(FOLDER / oracle["input"])
    layout = table.layout
    rows = table.cells[table.record_cell]
    sizes = sizes_of(layout, rows)
    # The peer's own; no option has them.
    nested._MOST_HELD, nested._FIRST_KINDS = CLASSES, KINDS
    model = nested.NestedHouseholds(
        profile_concentration=1.0, profile_base="uniform", zeros_tempering=0.0, split_merge=False
    )
    data = model.prepare(table)._replace(rules=rules)
    chains = []
    for chain in range(n_chains):
        state = model.init(Stream(1, chain, 0), data)
        seen = []
        for sweep in range(1, WARMUP + SWEEPS + 1):
            where = Stream(1, chain, sweep)
            state, _ = model.step(where, state, data, 1)
            if sweep > WARMUP and sweep % EVERY == 0:
                drawn = model.simulate(where, state, data, 4000)
                seen.append(list(margins(layout, drawn, sizes).values()))
        chains.append(np.array(seen))
    mean = np.mean([np.mean(chain, axis=0) for chain in chains], axis=0)
    # Batches of one draw; at least what the chains differ by, which have not settled.
    between = np.std([chain.mean(axis=0) for chain in chains], axis=0, ddof=1)
    error = np.maximum(
        np.concatenate(chains).std(axis=0) / np.sqrt(n_chains * len(chains[0])),
        between / np.sqrt(n_chains),
    )
    far = 0
    for name, ours, mine in zip(margins(layout, rows, sizes), mean, error, strict=True):
        theirs = oracle["marginals"][name]
        bound = 4.0 * np.hypot(mine, theirs["mcse"]) + LEFT_OVER * theirs["sd"]
        apart = bool(abs(ours - theirs["mean"]) > bound)
        far += apart
        print(
            f"{name:32s} {ours:9.4f} {theirs['mean']:9.4f}  bound {bound:.4f}{' FAR' * apart}",
            flush=True,
        )
    return int(far > 0)


if __name__ == "__main__":
    sys.exit(main())
