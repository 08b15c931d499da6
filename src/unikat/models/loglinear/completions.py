"""Patterns with missing keys as lists of the cells they stand for."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from unikat._typing import Int32, Int64
from unikat.errors import SpecError

MOST_COMPLETIONS = 10_000_000
"""Cells that are listed at once."""


def expanded(cells: Int32, n_levels: Sequence[int]) -> tuple[Int32, Int64]:
    """List the cells that agree with each pattern, (n, n_keys), -1 where a key is left out.

    Returns
    -------
    completed, owner
        (n_completed, n_keys) cells, and the row of `cells` each belongs to.

    Raises
    ------
    SpecError
        If there would be too many.

    Examples
    --------
    >>> expanded(np.array([[0, 1], [1, -1]], np.int32), (2, 2))[0].tolist()
    [[0, 1], [1, 0], [1, 1]]
    """
    parts, owners = [], []
    masks, which = np.unique(cells < 0, axis=0, return_inverse=True)
    for m, mask in enumerate(masks):
        rows = np.flatnonzero(which.ravel() == m)
        free = np.flatnonzero(mask).tolist()
        each = math.prod(n_levels[j] for j in free)
        if each * len(rows) > MOST_COMPLETIONS:
            raise SpecError(
                f"{len(free)} keys are missing at once, which stands for {each:,} cells in each of "
                f"{len(rows):,} patterns; log-linear models of so many cells list at most "
                f"{MOST_COMPLETIONS:,}. Treat missing keys as a level, or use fewer keys."
            )
        levels = list(itertools.product(*(range(n_levels[j]) for j in free)))
        completed = np.repeat(cells[rows], each, axis=0)
        completed[:, free] = np.tile(np.array(levels, np.int32).reshape(each, -1), (len(rows), 1))
        parts.append(completed)
        owners.append(np.repeat(rows, each))
    if not parts:
        return cells, np.empty(0, np.int64)
    return np.concatenate(parts), np.concatenate(owners)
