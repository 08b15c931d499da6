"""Levels as numbers, and the edges between which they are grouped."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from unikat._typing import Int64
from unikat.data.keys import Key
from unikat.errors import SpecError
from unikat.zeros.levels import Interval, Levels

_MOST_QUANTILES = 1_000


def numbers_of(key: Key) -> tuple[Interval, ...] | None:
    """The numbers that each level stands for; None if levels are no numbers."""
    views = Levels(key=key).views
    if not views:
        return None
    # A group of numbers has its number as value, and its edges as label.
    return views[0] if key.binning is None else views[-1]


def edges_below(one: Interval, edges: Sequence[float], *, after: bool) -> int | None:
    """Number of edges at or below an interval (`after`: below it); None if one lies within."""
    place = [
        edge < one.low
        or (edge == one.low and not after and one.has_low)
        or (edge == one.low and not one.has_low and not one.is_point)
        for edge in edges
    ]
    for edge, is_below in zip(edges, place, strict=True):
        inside = one.low < edge < one.high
        if after and not is_below and edge == one.low and not one.is_point:
            inside = True
        if not after and edge == one.high and one.has_high and not one.is_point:
            inside = True
        if inside:
            return None
    return sum(place)


def quantile_edges(
    intervals: Sequence[Interval], counts: Int64, q: float, name: str, shown: str
) -> list[float]:
    """Edges of groups of about as many records, at starts of levels."""
    if q < 2 or not q.is_integer():
        raise SpecError(f"Key {name!r}: {shown} needs a whole number of groups, at least 2.")
    if q > _MOST_QUANTILES:
        raise SpecError(
            f"Key {name!r}: {shown} asks for more than {_MOST_QUANTILES:,} groups; ask for fewer."
        )
    lows = np.array([one.low for one in intervals])
    order = np.argsort(lows, kind="stable")
    before = np.cumsum(counts[: len(lows)][order]) - counts[: len(lows)][order]
    total = float(counts[: len(lows)].sum())
    edges = []
    for part in range(1, int(q)):
        place = int(np.argmin(np.abs(before - part * total / q)))
        edges.append(float(lows[order[place]]))
    return sorted({edge for edge in edges if math.isfinite(edge) and edge > lows.min()})
