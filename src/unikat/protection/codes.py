"""What the groups of a recoded key are written as, in columns of codes that have labels.

A level that stays keeps its code and its label. A group gets a code that no value of the column
has: where the levels are whole numbers, 10, 100, ... plus its lowest number, so that groups 65-69
and 70-74 of ages up to 97 are 165 and 170. Its label is made of the labels of its levels.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, count, product
from math import isfinite
from typing import Any

import numpy as np

from unikat.data.hand_groups import steers
from unikat.data.keys import Key
from unikat.data.letters import is_letter
from unikat.data.numbers import number_meant
from unikat.data.sources import Declared
from unikat.data.spans import Interval
from unikat.data.structure import structure_of, valid_part, views_of
from unikat.protection.groups import LONGEST, is_labelled, joined_name
from unikat.protection.recoding import KeyRecoding

_LARGEST_BASE = 10**6
_OPEN = re.compile(r"(<=|>=|<)\s*(-?\d.*)")
_IN_WORDS = {">=": "{} and over", "<=": "{} and under", "<": "under {}"}
_WHOLE = re.compile(r"-?[0-9]{1,7}")
"""Codes that every column of numbers has room for."""
_SHORT = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


@dataclass(frozen=True, kw_only=True)
class Groups:
    """Groups of a recoded key that are written otherwise than their levels."""

    numbers: tuple[int, ...]
    """Of the groups in the recoded key."""
    names: tuple[str, ...]
    """In the plan."""
    labels: tuple[str, ...]
    """What a reader is told that they are."""
    levels: tuple[tuple[str, ...], ...]
    """Labels of the levels that each joins."""
    lowest: tuple[float | None, ...]
    """Lowest number among the levels of each; None where one is no number."""
    declared: tuple[Any, ...]
    """Code of each that joins nothing but codes which are declared missing: the first of these.
    None of others."""
    made_valid: tuple[tuple[str, tuple[str, ...]], ...]
    """Labels of others that join such codes, each with the labels of these."""


def groups_of(key: Key, one: KeyRecoding) -> Groups:
    """Name the groups of a recoded key; levels that stay as they are excepted."""
    assert one.key is not None
    missing = one.key.missing_level
    numbers = tuple(
        group
        for group in range(one.key.n_levels)
        if group != missing and not one.stays[one.groups == group].all()
    )
    members = [np.flatnonzero(one.groups == group).tolist() for group in numbers]
    names = tuple(one.key.labels[group] for group in numbers)
    # Numbers of codes tell a reader nothing.
    is_ordered = structure_of(key).is_ordered
    by_levels = isinstance(one.rule, str) and is_labelled(key) and not is_ordered
    labels: list[str] = []
    for name, codes in zip(names, members, strict=True):
        found = one.labels.get(name) or in_words(name)
        if by_levels:
            found = joined_name([key.labels[c] for c in codes], taken=set(labels))
        labels.append(found)
    return Groups(
        numbers=numbers,
        names=names,
        labels=tuple(labels),
        levels=tuple(tuple(key.labels[c] for c in codes) for codes in members),
        lowest=tuple(_lowest_of([key.levels[c] for c in codes]) for codes in members),
        declared=tuple(
            key.levels[codes[0]] if key.declared_missing.issuperset(codes) else None
            for codes in members
        ),
        made_valid=tuple(
            (label, tuple(key.labels[c] for c in codes if c in key.declared_missing))
            for label, codes in zip(labels, members, strict=True)
            if not (
                key.declared_missing.issuperset(codes) or key.declared_missing.isdisjoint(codes)
            )
        ),
    )


def _lowest_of(levels: Sequence[object]) -> float | None:
    numbers = [number_meant(level) for level in levels]
    known = [number for number in numbers if number is not None]
    return min(known) if len(known) == len(levels) else None


def in_words(name: str) -> str:
    """Say a group that is open at one end in words.

    Examples
    --------
    >>> in_words(">= 65"), in_words("20-29")
    ('65 and over', '20-29')
    """
    found = _OPEN.fullmatch(name)
    return _IN_WORDS[found[1]].format(found[2]) if found else name


def number_codes(
    key: Key,
    recoded: Key,
    groups: Groups,
    used: Sequence[float],
    declared: Declared,
    known: Mapping[str, object],
) -> list[Any]:
    """Numbers that the groups are written as, none of which a value has or means missing.

    A group of codes that are declared missing, and of nothing else, has the first of these, or its
    letter: it stays declared.

    Parameters
    ----------
    key, recoded
        The key, and the recoded one.
    groups
        Its groups.
    used
        Values that the column has, or has labels for.
    declared
        What the source says means missing.
    known
        Codes of groups by name, of a plan. Others are found where such a code is none of this
        file: a level that stays or another group has it, or it makes valid records missing.
    """
    missing = {n for code in declared.missing if (n := number_meant(code)) is not None}
    taken = set(used) | missing

    def is_declared(code: float) -> bool:
        return code in missing or any(a <= code <= b for a, b in declared.missing_ranges)

    def free(code: float) -> bool:
        return code not in taken and not is_declared(code)

    lows = _lowest(recoded, groups)
    places = [float(place) for place in range(1, len(groups.names) + 1)]
    levels = [number_meant(level) for level in key.levels]
    known_levels = [abs(level) for level in levels if level is not None]
    largest = max(known_levels or [abs(value) for value in used if value not in missing] or [0.0])
    others: set[object] = {
        str(level) if is_letter(level) else number_meant(level)
        for group, level in enumerate(recoded.levels)
        if group not in groups.numbers
    }
    found: list[Any] = []
    for name, own in zip(groups.names, groups.declared, strict=True):
        code = _told(known.get(name))
        # Whether the code means missing; a group does if it joins nothing else.
        is_missing = is_letter(code) if isinstance(code, str) else is_declared(code or 0)
        has_letters = not isinstance(code, str) or is_letter(own)
        if code in others or is_missing != (own is not None) or not has_letters:
            code = own
        others.add(code)
        found.append(code)
    taken |= {code for code in found if isinstance(code, int)}
    for base in (10**power for power in range(1, 7)):
        for offsets in (lows, places):
            if base <= largest or offsets is None:
                continue
            codes = [int(base + offset) for offset in offsets]
            new = [c for c, old in zip(codes, found, strict=True) if old is None]
            if len(set(new)) == len(new) and all(map(free, new)):
                return [c if old is None else old for c, old in zip(codes, found, strict=True)]
    # Negative codes are read as missing by many.
    far = 10 * _LARGEST_BASE
    tried = chain(range(1, far), range(-1, -far, -1), count(far))
    left = (code for code in tried if free(code))
    return [next(left) if code is None else code for code in found]


def _told(code: object) -> int | str | None:
    """The code of a plan, a whole number or a letter; None if it is neither."""
    if is_letter(code):
        return str(code)
    return int(str(code)) if _WHOLE.fullmatch(str(code)) else None


def _lowest(recoded: Key, groups: Groups) -> list[float] | None:
    """The lowest number of each group, or the highest of one without; None if they are no use."""
    valid, codes = valid_part(recoded)
    views = views_of(valid)
    lows: list[float | None] = list(groups.lowest)
    if views:
        spans = dict(zip(codes.tolist(), views[-1], strict=True))
        lows = [
            _end(spans[number]) if number in spans else low
            for number, low in zip(groups.numbers, lows, strict=True)
        ]
    # Those that are declared missing have a code.
    lows = [
        0.0 if code is not None else low for low, code in zip(lows, groups.declared, strict=True)
    ]
    found = [low for low in lows if low is not None and float(low).is_integer()]
    if len(found) < len(lows) or not all(0 <= low < _LARGEST_BASE for low in found):
        return None
    return found


def _end(one: Interval) -> float:
    return one.low if isfinite(one.low) else one.high


def text_codes(
    groups: Groups, used: Sequence[str], most: int | None, known: Mapping[str, object]
) -> list[str]:
    """Short texts that the groups are written as, none of which a value has.

    Parameters
    ----------
    groups
        The groups.
    used
        Values that the column has, or has labels for.
    most
        Characters that the column has room for; None: any number.
    known
        Codes of groups by name, of a plan; others are found where a value has one, or it is too
        long.
    """
    found: list[str | None] = []
    for name, declared in zip(groups.names, groups.declared, strict=True):
        code = str(known.get(name, ""))
        fits = 0 < len(code.encode()) <= (most or LONGEST) and not steers(code)
        if not fits or code in found or code in used:
            code = "" if declared is None else str(declared)
        found.append(code or None)
    taken = {*used, *(code for code in found if code is not None)}
    left = (code for code in _texts(most) if code not in taken)
    return [next(left) if code is None else code for code in found]


def _texts(most: int | None) -> Iterator[str]:
    if most is None or most > 1:
        room = 10 ** ((most or 8) - 1)
        yield from (f"G{number}" for number in range(1, room))
    for length in range(1, (most or 8) + 1):
        yield from ("".join(letters) for letters in product(_SHORT, repeat=length))
