"""Groups of levels: which are joined, and what the group is called.

A group is called after the levels that it joins, so that who reads a protected file knows what it
holds. Of ordered keys the groups are bands of adjacent levels.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from itertools import count, pairwise
from math import inf

import numpy as np

from unikat._typing import Int64
from unikat.data.binning import whole_span
from unikat.data.codebook import clipped
from unikat.data.hand_groups import CONTROL
from unikat.data.keys import Key
from unikat.data.named_levels import Levels, level_names
from unikat.data.numbers import number_shown
from unikat.data.structure import order_of, views_of
from unikat.errors import SpecError, option
from unikat.language.dates import Period, time_of

LONGEST = 100
"""Bytes of the name of a group; labels in SPSS may have 120."""


def called(key: Key, code: int) -> tuple[str, str]:
    """What a level is called in a file: its value and its label."""
    return str(key.levels[code]), key.labels[code]


def is_labelled(key: Key) -> bool:
    """Whether the values of a key are codes that have labels."""
    return key.binning is None and any(
        level is not None and str(level) != label
        for level, label in zip(key.levels, key.labels, strict=True)
    )


def labels_of(key: Key) -> dict[str, str]:
    """Labels of the levels of a key that has some, by what rules call them."""
    if not is_labelled(key):
        return {}
    return dict(zip(level_names(key), key.labels, strict=False))


def joined_name(
    labels: Sequence[str], *, is_band: bool = False, taken: Set[str] = frozenset()
) -> str:
    """Call a group after the levels that it joins.

    Parameters
    ----------
    labels
        Of the levels, in their order.
    is_band
        Whether they are adjacent levels of an ordered key: then the first and the last tell all.
    taken
        Names of other levels and groups.

    Examples
    --------
    >>> joined_name(["Hindu", "Sikh", "Jewish"])
    'Hindu, Sikh, Jewish'
    >>> joined_name([f"Occupation {n}" for n in range(30)])[-26:]
    'Occupation 5 and 24 others'
    >>> joined_name([f"{n} to {n + 4} years" for n in range(0, 90, 5)], is_band=True)
    '0 to 4 years to 85 to 89 years'
    """
    plain = (
        CONTROL.sub(" ", label).strip() if CONTROL.search(label) else label for label in labels
    )
    names = _names(list(dict.fromkeys(plain)), is_band)
    numbered = (name if n == 1 else f"{name} ({n})" for n in count(1) for name in (names,))
    return next(name for name in numbered if name not in taken)


def _names(labels: list[str], is_band: bool) -> str:
    whole = ", ".join(labels)
    if _fits(whole):
        return whole
    if is_band and _fits(span := f"{labels[0]} to {labels[-1]}"):
        return span
    for n in range(len(labels) - 1, 0, -1):
        text = ", ".join(labels[:n]) + _others(len(labels) - n)
        if _fits(text):
            return text
    end = f"...{_others(len(labels) - 1)}"
    return clipped(labels[0], LONGEST - len(end)) + end


def _others(n: int) -> str:
    return f" and {n:,} other{'' if n == 1 else 's'}" if n else ""


def _fits(text: str) -> bool:
    return len(text.encode()) <= LONGEST


def other_name(labels: Sequence[str], taken: Set[str] = frozenset()) -> str:
    """Call a group of rare levels that have nothing else in common.

    Examples
    --------
    >>> other_name(["Hindu", "Sikh"])
    'other (Hindu, Sikh)'
    """
    names = joined_name(labels)
    numbered = (f"other ({names})" + (f" ({n})" if n > 1 else "") for n in count(1))
    return next(name for name in numbered if name not in taken)


def periods(key: Key, period: Period) -> list[str | None]:
    """Name of the period that each level lies in, which is a date or a shorter period.

    Raises
    ------
    SpecError
        If a level is none, or lies in several periods.
    """
    found: list[str | None] = []
    for code, name in enumerate(level_names(key)):
        days = time_of(name)
        numbers = {period.number(day) for day in days or ()}
        if len(numbers) != 1:
            what = f"lies in several groups of {period}" if days else "is no date or period of time"
            raise SpecError(
                f"Key {key.name!r}: {Levels(key=key).called_in_text(code)} {what}. Read the key "
                f"with a finer rule, such as {option('keys', f'{key.name}:month')}, or take a "
                "coarser one to group it."
            )
        found.append(period.name(numbers.pop()))
    return found


def rare_levels(
    key: Key, counts: Int64, share: float, apart: Set[int] = frozenset()
) -> list[str | None]:
    """Name of the group of each level: one of all with fewer records than a share of them all.

    One such level alone stays: a group of it would hide nothing. So do those that stay apart.
    """
    n = Levels(key=key).n_named
    rare = counts[:n] < share * counts[:n].sum()
    rare[list(apart)] = False
    if rare.sum() < 2:
        return [None] * n
    # The name must be none of a level that stays.
    taken = {name for code in range(n) if not rare[code] for name in called(key, code)}
    other = other_name([key.labels[code] for code in np.flatnonzero(rare)], taken)
    return [other if rare[code] else None for code in range(n)]


def bands(key: Key, counts: Int64, share: float, apart: Set[int] = frozenset()) -> list[str | None]:
    """Name of the band of each level: adjacent levels, each band with a share of the records.

    The band with the fewest records is joined to the smaller of its neighbours until all have
    enough; a level that has enough by itself stays. No band has two of the levels that stay apart.
    """
    order = order_of(key)
    assert order is not None
    found = [[code] for code in order]
    sizes = [int(counts[code]) for code in order]
    least = share * sum(sizes)
    while pairs := [
        (sizes[place], place, sizes[beside], beside)
        for place in range(len(found))
        for beside in (place - 1, place + 1)
        if sizes[place] < least
        and 0 <= beside < len(found)
        and len(apart & {*found[place], *found[beside]}) < 2
    ]:
        _, place, _, beside = min(pairs)
        low, high = sorted((place, beside))
        found[low : high + 1] = [[*found[low], *found[high]]]
        sizes[low : high + 1] = [sizes[low] + sizes[high]]
    group_of: list[str | None] = [None] * len(order)
    taken = {name for band in found if len(band) == 1 for name in called(key, band[0])}
    for place, band in enumerate(found):
        if len(band) > 1:
            ends = (place == 0, place == len(found) - 1)
            name = band_name(key, band, ends) or joined_name(
                [key.labels[code] for code in band], is_band=True, taken=taken
            )
            taken.add(name)
            for code in band:
                group_of[code] = name
    return group_of


def band_name(key: Key, band: list[int], ends: tuple[bool, bool]) -> str | None:
    """What a band of numbers, or of spans of numbers, is called; None of other levels.

    Parameters
    ----------
    key, band
        The key, and the codes of adjacent levels, from the lowest.
    ends
        Whether the band has the lowest and the highest level of the key.
    """
    views = views_of(key)
    if key.binning is not None or not views:
        return None
    view = views[-1]
    low, high = view[band[0]], view[band[-1]]
    adjacent = all(view[a].high <= view[b].low <= view[a].high + 1 for a, b in pairwise(band))
    if low.is_point and high.is_point and not is_labelled(key):
        # Other records may have numbers beyond those of these.
        low = low._replace(low=-inf) if ends[0] else low
        high = high._replace(high=inf) if ends[1] else high
    elif not adjacent or (is_labelled(key) and low.is_point and high.is_point):
        return None
    if high.high == inf:
        return f">= {number_shown(low.low)}"
    if low.low == -inf:
        return f"{'<=' if high.has_high else '<'} {number_shown(high.high)}"
    return f"{number_shown(low.low)}-{number_shown(high.high)}"


def span_name(place: int, edges: Sequence[float], rule: str, *, whole: bool) -> str | None:
    """What a group is called; None: its level stays as it is."""
    if rule == "top":
        return f">= {number_shown(edges[0])}" if place else None
    if rule == "bottom":
        return None if place else f"<= {number_shown(edges[0])}"
    low = edges[place - 1] if place else None
    high = edges[place] if place < len(edges) else None
    if low is None:
        return None if high is None else f"< {number_shown(high)}"
    if high is None:
        return f">= {number_shown(low)}"
    if whole and low.is_integer() and high.is_integer():
        return whole_span(low, high - 1.0, number_shown)
    return f"[{number_shown(low)}, {number_shown(high)})"
