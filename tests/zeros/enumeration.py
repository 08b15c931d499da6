"""Slow twins: all cells one after the other, and random conditions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from unikat._typing import Bool, Int32


def all_cells(n_levels: Sequence[int]) -> Int32:
    """All cells, (n_cells, n_keys)."""
    return np.array(list(product(*map(range, n_levels))), dtype=np.int32)


def meets(conditions: Bool, offsets: Sequence[int], cells: Int32) -> Bool:
    """Whether a cell meets a condition, one cell and condition after the other."""
    return np.array(
        [
            any(all(c[offsets[j] + level] for j, level in enumerate(cell)) for c in conditions)
            for cell in cells
        ],
        dtype=bool,
    )


def random_conditions(rng: np.random.Generator, n_levels: Sequence[int], n_conditions: int) -> Bool:
    """Conditions that restrict some keys each, to sets that are not empty."""
    rows = []
    for _ in range(n_conditions):
        row = []
        for n in n_levels:
            chosen = rng.random(n) < 0.5 if rng.random() < 0.6 else np.ones(n, bool)
            chosen[rng.integers(n)] = True
            row.append(chosen)
        rows.append(np.concatenate(row))
    return np.array(rows, dtype=bool).reshape(n_conditions, sum(n_levels))
