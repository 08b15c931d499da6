"""Slots of an unlimited number of components: the occupied ones and sticks of the unseen part."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int16, Int64
from unikat.kernels import weights as kernels
from unikat.models.records import START_CLASSES

FIRST_SLOTS = 32
_MOST = 16_384
_SPARE = 12
STICK_TOLERANCE = 1e-6
"""Largest part of the unseen that the last stick may take."""


class Slots(NamedTuple):
    """What is kept per slot."""

    z: Int16
    """Component of each token or record, -1 where missing."""
    weights: Float64
    """(n_slots,)"""
    counts: Int64
    """(n_rows, n_slots)"""
    stacks: Int64
    """(n_keys or 1, n_slots), see `mixture.assign`."""


def first_slots(chain: int) -> int:
    """Slots at the start of a chain."""
    return max(FIRST_SLOTS, 2 * START_CLASSES[chain % len(START_CLASSES)])


def compacted(slots: Slots) -> Slots:
    """Move the occupied slots to the front and drop half of the slots where few are needed."""
    n_slots = len(slots.weights)
    occupied = np.flatnonzero(slots.stacks[0])
    keep = n_slots // 2
    if keep < FIRST_SLOTS or len(occupied) + _SPARE > keep:
        return slots
    kept = np.concatenate((occupied, np.setdiff1d(np.arange(n_slots), occupied)))[:keep]
    place = np.full(n_slots + 1, -1, np.int16)
    place[occupied] = np.arange(len(occupied))
    # z = -1 (missing) reads the last entry, which stays -1. `take` keeps the layout in memory, for
    # which the kernels are compiled; an index would not.
    return Slots(
        place[slots.z],
        slots.weights[kept],
        slots.counts.take(kept, axis=1),
        slots.stacks.take(kept, axis=1),
    )


def draw_sticks(
    key: Any, sweep: int, top: float, shape: float, rate: float, tables: Int64
) -> tuple[Float64, float, int]:
    """Draw component weights and their concentration given the tables, (n_slots,).

    Returns (weights, top, occupied); there are more weights than tables if the unseen part needs
    more sticks.
    """
    while True:
        weights = np.empty(len(tables))
        drawn, remainder, occupied = kernels.draw_weights(
            key, sweep, top, shape, rate, tables, weights
        )
        if remainder < STICK_TOLERANCE or len(tables) >= _MOST:
            return weights, drawn, occupied
        # The same draw again, with more empty slots.
        tables = padded(tables, 2 * len(tables))


def padded(array: Int64, n_slots: int) -> Int64:
    """Add empty slots along the last axis."""
    extra = np.zeros((*array.shape[:-1], n_slots - array.shape[-1]), array.dtype)
    return np.concatenate((array, extra), axis=-1) if extra.size else array
