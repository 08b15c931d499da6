"""The kernel file: in the package, `src/unikat/kernels/independence.py`.

Compiled functions of arrays: no defaults, no checks, no frames, and no randomness but the
generator's. Symbols and shapes are in the docstrings, since Numba has no annotations.
"""

from __future__ import annotations

import numpy as np

from unikat.kernels.jit import kernel
from unikat.kernels.random import GENERATOR_SIZE, gamma, seek

# In the package a purpose is a constant in `kernels/random.py`; none may be used twice.
PURPOSE_SHARES = 900


@kernel
def draw_shares(key, sweep, offsets, parameters, shares):
    """Draw shares[rows of key j] ~ Dirichlet(parameters of its rows), for every key j.

    key (2,) uint32; offsets (n_keys + 1,): first row of each key; parameters, shares (n_rows,).
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for j in range(offsets.shape[0] - 1):
        # One unit per key: the numbers do not depend on the order of the work.
        seek(generator, key, j, sweep, PURPOSE_SHARES)
        total = 0.0
        for r in range(offsets[j], offsets[j + 1]):
            shares[r] = gamma(generator, parameters[r])
            total += shares[r]
        for r in range(offsets[j], offsets[j + 1]):
            shares[r] /= total
