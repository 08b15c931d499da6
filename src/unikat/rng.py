"""Seeds: one user seed, resolved once, spawned per chain."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from unikat._typing import UInt32
from unikat.errors import SpecError


def check_seed(seed: int) -> int:
    """Return the seed if it is a whole number that is not negative."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)) or seed < 0:
        raise SpecError(f"seed must be a whole number, 0 or above, not {seed!r}.")
    return int(seed)


def chain_key(seed: int, chain: int, *part: int) -> UInt32:
    """Key of a chain's counter-based generator, (2,) uint32.

    A `part` of the model that uses the same kernels as another has a key of its own.
    """
    return _chain_key(seed, chain, *part).copy()


@lru_cache(maxsize=1024)
def _chain_key(seed: int, *spawned: int) -> UInt32:
    """Kept, since every sweep asks for it."""
    return np.random.SeedSequence(seed, spawn_key=spawned).generate_state(2).astype(np.uint32)
