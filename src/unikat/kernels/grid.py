"""Records with missing keys over the cells of a list."""

from __future__ import annotations

import numpy as np

from unikat.kernels.jit import kernel
from unikat.kernels.random import GENERATOR_SIZE, seek, uniform


@kernel
def complete(key, sweep, purpose, patterns, times, levels, strides, grid, mean, rows):
    """Draw the cell of every record of the patterns, in their order, into rows (sum(times),).

    A pattern (n_keys,), -1 where missing, is completed with probability proportional to mean.
    grid (n_combinations,) has the cell of each combination or -1; strides (n_keys,) index it.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    n_keys = levels.shape[0]
    digit = np.empty(n_keys, np.int64)
    record = 0
    for q in range(patterns.shape[0]):
        n_completions, at = 1, 0
        for j in range(n_keys):
            digit[j] = 0
            if patterns[q, j] < 0:
                n_completions *= levels[j]
            else:
                at += patterns[q, j] * strides[j]
        cells, below = np.empty(n_completions, np.int64), np.empty(n_completions)
        n, total = 0, 0.0
        for _ in range(n_completions):
            if grid[at] >= 0:
                total += mean[grid[at]]
                cells[n], below[n] = grid[at], total
                n += 1
            # The next combination of the missing keys, the last one turning fastest.
            j = n_keys - 1
            while j >= 0:
                if patterns[q, j] < 0:
                    digit[j] += 1
                    at += strides[j]
                    if digit[j] < levels[j]:
                        break
                    at -= levels[j] * strides[j]
                    digit[j] = 0
                j -= 1
        for _ in range(times[q]):
            seek(generator, key, record, sweep, purpose)
            u = uniform(generator) * total
            low, high = 0, n - 1
            while low < high:
                middle = (low + high) // 2
                if below[middle] > u:
                    high = middle
                else:
                    low = middle + 1
            rows[record] = cells[low]
            record += 1
