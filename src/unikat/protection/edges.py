"""Levels as numbers, and the edges between which they are grouped."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unikat._typing import Int64
from unikat.data.keys import MOST_LEVELS, Key
from unikat.data.named_levels import Levels
from unikat.data.numbers import number_shown
from unikat.data.spans import Interval
from unikat.data.structure import views_of
from unikat.errors import SpecError
from unikat.protection.groups import span_name

_MOST_QUANTILES = 1_000
NUMBER_RULES = ("width", "cut", "quantile", "top", "bottom")


class NumbersGrouped(NamedTuple):
    """Groups of levels that are numbers."""

    group_of: list[str | None]
    """Name of each level's group; None: it stays as it is."""
    frozen: str
    """The rule that does the same to other records."""
    whole: bool
    """Whether groups are called as those of whole numbers are."""


def numbers_grouped(
    key: Key,
    counts: Int64,
    rule: str,
    numbers: Sequence[float],
    shown: str,
    whole: bool | None,
) -> NumbersGrouped:
    """Group levels that are numbers by a rule, one of `NUMBER_RULES`."""
    intervals = numbers_of(key)
    if intervals is None:
        raise SpecError(
            f"Key {key.name!r} has levels that are no numbers, so that {shown} cannot group them; "
            "name the groups: a mapping of levels to groups, or rare(0.05)."
        )
    if rule == "quantile":
        edges = quantile_edges(intervals, counts, numbers[0], key.name, shown)
    elif rule == "width":
        edges = _equal_edges(intervals, numbers[0], key.name, shown)
    else:
        edges = sorted(numbers)
    if whole is None:
        whole = all(one.low.is_integer() for one in intervals if math.isfinite(one.low))
    group_of: list[str | None] = []
    for code, one in enumerate(intervals):
        place = edges_below(one, edges, after=rule == "bottom")
        if place is None:
            raise SpecError(
                f"Key {key.name!r}: {Levels(key=key).called_in_text(code)} lies in two groups of "
                f"{shown}; take edges at which levels end."
            )
        group_of.append(span_name(place, edges, rule, whole=whole))
    frozen = shown
    if rule == "quantile":
        frozen = f"cut({','.join(number_shown(edge) for edge in edges)})"
    return NumbersGrouped(group_of, frozen, whole)


def _equal_edges(intervals: Sequence[Interval], width: float, name: str, shown: str) -> list[float]:
    if width <= 0.0:
        raise SpecError(f"Key {name!r}: {shown} needs a width above 0.")
    low = min(one.low for one in intervals if math.isfinite(one.low)) / width
    high = max(one.high for one in intervals if math.isfinite(one.high)) / width
    if not high - low < MOST_LEVELS:
        raise SpecError(
            f"Key {name!r}: {shown} makes more than {MOST_LEVELS:,} groups; take a larger width."
        )
    # As decimals: 3 * 0.1 is a little above 0.3, which begins its group.
    return [
        float(number_shown(k * width)) for k in range(math.floor(low) - 1, math.floor(high) + 3)
    ]


def numbers_of(key: Key) -> tuple[Interval, ...] | None:
    """The numbers that each level stands for; None if levels are no numbers."""
    views = views_of(key)
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
