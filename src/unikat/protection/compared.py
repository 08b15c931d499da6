"""What became of the values of a key in a file that was protected elsewhere.

A level *becomes* one value of the protected file where a key was recoded. Where records of one
level show several values, each is judged by itself:

| value | is taken for |
|---|---|
| the level itself | unchanged |
| another level of the key, or a number or interval that does not hold the level | perturbed |
| an interval that holds the level, or a value that is no level | coarser, and true |

Levels that have the same one true value are a group. A level with several was recoded from record
to record; it stays apart, and a coarser value counts as the level: a match is thought to be easier
than it is, which is the safe side.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.keys import MISSING, Key
from unikat.data.numbers import number_meant, number_shown
from unikat.protection.recoding import KeyRecoding

_NUMBER = r"[-+]?[0-9]{1,15}(?:\.[0-9]{1,15})?"
_BETWEEN = re.compile(
    rf"\s*(?P<start>[\[\](]?)\s*(?P<low>{_NUMBER})\s*(?:,|;|-|–|\.\.|to)\s*(?P<high>{_NUMBER})\s*"
    r"(?P<end>[\[\])]?)\s*"
)
_BEYOND = re.compile(
    rf"\s*(?:(?P<sign>>=|<=|>|<|≥|≤)\s*(?P<edge>{_NUMBER})|(?P<more>{_NUMBER})\s*\+)\s*"
)
_MERGED = 5
"""Records of a level, at least, that all show one other level: the two were merged."""
_RENAMED = 2.0
"""How many times the records that show the commonest level among those of their level are those
that show it itself, from which on values are taken for codes of something else."""


@dataclass(frozen=True)
class KeyChange:
    """What was done to a key; numbers of records that are in both files."""

    name: str
    action: str
    """`as it is`, `recoded`, `recoded from record to record` or `left out`."""
    n_levels: int
    """Values of the original."""
    n_values: int
    """Values of the protected file."""
    n_unchanged: int
    n_recoded: int
    """Records with a coarser value that is true."""
    n_suppressed: int
    """Records whose value is missing now and was not."""
    n_otherwise: int
    """Records with a value that is not true: perturbed, or filled in where it was missing."""
    n_surviving: int
    """Records that show their level, although others of it, or an interval that holds it, are
    coarser."""


class Compared(NamedTuple):
    """A key of two files."""

    change: KeyChange
    recoding: KeyRecoding
    """What is true of the protected values."""
    codes: Int32
    """(n,): group of what each record shows, -1 where it shows nothing; from the number of groups
    on values that are true of nobody."""


def left_out_change(key: Key, n: int) -> KeyChange:
    """Say that a key is not in the protected file."""
    return KeyChange(key.name, "left out", key.n_levels, 0, 0, 0, n, 0, 0)


def compare_key(key: Key, codes: Int32, shown: Key, shown_codes: Int32) -> Compared:
    """Compare a key of the original with that of the protected file.

    Parameters
    ----------
    key, codes
        The key of the original, and (n,) codes of its records, -1 where missing.
    shown, shown_codes
        The same of the protected file, for the same records.
    """
    same = _same_levels(key, shown)
    known = (codes >= 0) & (shown_codes >= 0)
    counts = np.zeros((key.n_levels, shown.n_levels), np.int64)
    np.add.at(counts, (codes[known], shown_codes[known]), 1)
    n_of_level = counts.sum(axis=1)
    functional = bool(((counts > 0).sum(axis=1) <= 1).all())
    alike = np.flatnonzero(same >= 0)
    kept = counts[same[alike], alike].sum()
    commonest = counts[:, alike].max(axis=1, initial=0).sum()
    renamed = not functional and commonest > _RENAMED * kept
    if renamed:
        # Codes of groups, which are no levels although they look so.
        same[:] = -1
    is_same = same[None, :] == np.arange(key.n_levels)[:, None]
    true = counts > 0 if functional else _true(key, shown, same, counts, renamed)
    n_true = true.sum(axis=1)
    # A group for each true value; a level with several, or none, stays apart.
    image = np.where(n_true == 1, true.argmax(axis=1), -1)
    named = np.where(image >= 0, image, shown.n_levels + np.arange(key.n_levels))
    groups = np.unique(named, return_inverse=True)[1].astype(np.int32)
    n_groups = int(groups.max(initial=-1)) + 1
    group_of = n_groups + np.arange(shown.n_levels)
    apart = (same >= 0) & (image[np.maximum(same, 0)] < 0)
    group_of[apart] = groups[same[apart]]
    group_of[image[image >= 0]] = groups[image >= 0]
    at = np.maximum(codes, 0), np.maximum(shown_codes, 0)
    is_true = known & true[at]
    unchanged = known & is_same[at]
    filled = (codes < 0) & (shown_codes >= 0)
    found = np.where(is_true, groups[at[0]], group_of[at[1]])
    coarser = (true & ~is_same).any(axis=1) | _held(key, shown, same)
    return Compared(
        change=KeyChange(
            name=key.name,
            action="recoded from record to record"
            if (n_true > 1).any()
            else "recoded"
            if (true & ~is_same).any()
            else "as it is",
            n_levels=int((n_of_level > 0).sum()),
            n_values=int((counts.sum(axis=0) > 0).sum()),
            n_unchanged=int((unchanged & is_true).sum()),
            n_recoded=int((is_true & ~unchanged).sum()),
            n_suppressed=int(((codes >= 0) & (shown_codes < 0)).sum()),
            n_otherwise=int((known & ~is_true).sum() + filled.sum()),
            n_surviving=int((unchanged & is_true & coarser[at[0]]).sum()),
        ),
        recoding=KeyRecoding(
            name=key.name,
            text="as it is" if n_groups == key.n_levels else "recoded",
            groups=groups,
            key=Key.of_size(key.name, n_groups),
            stays=np.zeros(key.n_levels, np.bool_),
        ),
        # What is filled in tells nothing true that is known.
        codes=np.where(known, found, MISSING).astype(np.int32),
    )


def _same_levels(key: Key, shown: Key) -> Int64:
    """Level of the original that each value of the protected file is, (n_values,), -1 if none."""
    place = {label: code for code, label in enumerate(key.labels)}
    place |= {name: code for code, name in enumerate(_plain([str(one) for one in key.levels]))}
    return np.array([place.get(name, -1) for name in _names(shown)], np.int64)


def _names(key: Key) -> list[str]:
    """What levels are called: by their labels, since a code may mean something else elsewhere."""
    texts = []
    for level, label in zip(key.levels, key.labels, strict=True):
        number = number_meant(label)
        same = label == str(level) or (number is not None and number == number_meant(str(level)))
        texts.append(str(level) if same else label)
    return _plain(texts)


def _plain(texts: Sequence[str]) -> list[str]:
    """Write numbers alike, however they are written, if that tells all apart."""
    stripped = [text.strip() for text in texts]
    numbers = [number_meant(text) for text in stripped]
    plain = [
        text if one is None or not math.isfinite(one) else number_shown(one)
        for text, one in zip(stripped, numbers, strict=True)
    ]
    return plain if len(set(plain)) == len(set(stripped)) else stripped


def _true(key: Key, shown: Key, same: Int64, counts: Int64, renamed: bool) -> Bool:
    """Which values are true of which levels that show them, (n_levels, n_values)."""
    found = np.zeros(counts.shape, np.bool_)
    numbers = [number_meant(str(level)) for level in key.levels]
    intervals = [_interval(name) for name in _names(shown)]
    points = [number_meant(name) for name in _names(shown)]
    images = (counts > 0).sum(axis=1)
    for a, v in zip(*np.nonzero(counts), strict=True):
        number = numbers[a]
        if same[v] >= 0:
            merged = images[a] == 1 and counts[a, v] >= _MERGED
            found[a, v] = same[v] == a or merged
        elif number is not None and intervals[v] is not None:
            low, high = intervals[v]
            found[a, v] = low <= number < high
        else:
            found[a, v] = renamed or number is None or points[v] is None
    return found


def _held(key: Key, shown: Key, same: Int64) -> Bool:
    """Levels that lie in an interval of the protected file, (n_levels,)."""
    meant = [number_meant(str(level)) for level in key.levels]
    numbers = np.array([math.nan if one is None else one for one in meant])
    held = np.zeros(key.n_levels, np.bool_)
    for name, level in zip(_names(shown), same.tolist(), strict=True):
        interval = _interval(name) if level < 0 else None
        if interval is not None:
            held |= (numbers >= interval[0]) & (numbers < interval[1])
    return held


def _interval(text: str) -> tuple[float, float] | None:
    """The numbers that a group stands for, from the first to below the second; None if none.

    Examples
    --------
    >>> _interval("[20, 30["), _interval("20-29"), _interval(">= 80"), _interval("north")
    ((20.0, 30.0), (20.0, 30.0), (80.0, inf), None)
    """
    if found := _BETWEEN.fullmatch(text):
        low, high = float(found["low"]), float(found["high"])
        above, closed = found["start"] in ("(", "]") and found["start"], found["end"] != ")"
        if found["end"]:
            closed = found["end"] == "]"
        if above:
            low = math.nextafter(low, math.inf)
        if closed:
            # 20-29 holds 29.5 years, too.
            high = high + 1.0 if not found["end"] else math.nextafter(high, math.inf)
        return low, high
    if found := _BEYOND.fullmatch(text):
        if found["more"]:
            return float(found["more"]), math.inf
        edge = float(found["edge"])
        after = math.nextafter(edge, math.inf)
        return {
            ">=": (edge, math.inf),
            "≥": (edge, math.inf),
            ">": (after, math.inf),
            "<=": (-math.inf, after),
            "≤": (-math.inf, after),
            "<": (-math.inf, edge),
        }[found["sign"]]
    return None
