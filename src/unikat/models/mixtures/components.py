"""Components of the mixtures without a limit: the occupied ones, and sticks of the unseen part."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float32, Float64, Int16, Int64
from unikat.kernels import weights as kernels
from unikat.kernels.mixture import BaseTables
from unikat.models.records import START_CLASSES

FIRST_COMPONENTS = 32
_MOST = 16_384
_SPARE = 8


class Components(NamedTuple):
    """Arrays with an axis of components, the empty ones included."""

    z: Int16
    """Component of each token or record, -1 where missing."""
    weights: Float64
    """(n_components,)"""
    counts: Int64
    """(n_rows, n_components)"""
    stacks: Int64
    """(n_keys or 1, n_components), see `mixture.assign`."""
    theta: Float32
    """(n_rows, n_components)"""


def base_tables_of(theta: Float32, weights: Float64) -> BaseTables:
    """Alias tables of the base part of every row of theta."""
    tables = BaseTables(
        np.empty(len(theta), np.float32),
        np.empty(theta.shape, np.float32),
        np.empty(theta.shape, np.int16),
    )
    kernels.base_tables(theta, weights, *tables)
    return tables


def stick_tolerance(n: int) -> float:
    """Largest weight that the last stick may have: a twentieth of a record among n."""
    return min(max(0.05 / max(n, 1), 1e-6), 1e-4)


def first_components(chain: int) -> int:
    """Components at the start of a chain."""
    return max(FIRST_COMPONENTS, 2 * START_CLASSES[chain % len(START_CLASSES)])


def compacted(components: Components, top: float) -> Components:
    """Move the occupied components to the front, and drop empty ones where there are far too many.

    Kept are empty components for sticks down to the tolerance, given alpha_0 = `top`: after m
    sticks of Beta(1, top) about exp(-m / top) of the unseen part is left.
    """
    n_components = len(components.weights)
    occupied = np.flatnonzero(components.stacks[0])
    n = int(components.stacks[0].sum())
    sticks = top * math.log(max(top / (top + n) / stick_tolerance(n), 1.0))
    keep = max(FIRST_COMPONENTS, _in_eights(len(occupied) + _SPARE + 1.15 * sticks))
    if n_components < 1.15 * keep:
        return components
    kept = np.concatenate((occupied, np.setdiff1d(np.arange(n_components), occupied)))[:keep]
    place = np.full(n_components + 1, -1, np.int16)
    place[occupied] = np.arange(len(occupied))
    # z = -1 (missing) reads the last entry, which stays -1. `take` keeps the layout in memory, for
    # which the kernels are compiled; an index would not.
    return Components(
        place[components.z],
        components.weights[kept],
        components.counts.take(kept, axis=1),
        components.stacks.take(kept, axis=1),
        components.theta.take(kept, axis=1),
    )


def draw_sticks(
    key: Any, sweep: int, top: float, shape: float, rate: float, tables: Int64
) -> tuple[Float64, float, int]:
    """Draw component weights and their concentration given the tables, (n_components,).

    Returns (weights, top, occupied); there are more weights than tables if the unseen part needs
    more sticks.
    """
    while True:
        weights = np.empty(len(tables))
        drawn, remainder, occupied = kernels.draw_weights(
            key, sweep, top, shape, rate, tables, weights
        )
        if remainder < stick_tolerance(int(tables.sum())) or len(tables) >= _MOST:
            return weights, drawn, occupied
        # The same draw again, with more empty components.
        tables = padded(tables, _in_eights(1.1 * len(tables)))


def padded(array: Int64, n_components: int) -> Int64:
    """Add empty components along the last axis."""
    extra = np.zeros((*array.shape[:-1], n_components - array.shape[-1]), array.dtype)
    return np.concatenate((array, extra), axis=-1) if extra.size else array


def _in_eights(n: float) -> int:
    return 8 * math.ceil(n / 8)
