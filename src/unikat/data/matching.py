"""Levels of a key in another file: which code they have among those of the first."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unikat._typing import Int32
from unikat.data.keys import Key
from unikat.data.sampling import one_way
from unikat.errors import SpecError

UNKNOWN = -2
"""Code of a level that the first file does not have."""


def codes_among(ours: Key, theirs: Key, what: str, whose: str) -> Int32:
    """Find the code among our levels of each of theirs, by the labels, else by the levels.

    Texts that mean the same number are the same level (1 and 1.0), unless several do.

    Returns
    -------
    Int32
        (n_levels + 1,): for each of their levels its code, `UNKNOWN` where we have none; and -1,
        the code of a missing key, in the last place.

    Examples
    --------
    >>> ours = Key(name="SEX", levels=(1, 2), labels=("1", "2"))
    >>> theirs = Key(name="SEX", levels=("2.0", "3"), labels=("2.0", "3"))
    >>> codes_among(ours, theirs, "the register", "the survey").tolist()
    [1, -2, -1]
    """
    if ours.binning is not None and ours.binning.startswith("quantile"):
        raise SpecError(
            f"Key {ours.name!r} is grouped by quantiles, which are not the same values in {what} "
            f"as in {whose}; group it by cut(...) or width(...)."
        )
    ways = [_unambiguous(ours.labels), _unambiguous([str(level) for level in ours.levels])]
    place = {label: code for code, label in enumerate(ours.labels)}
    found = []
    for label, level in zip(theirs.labels, theirs.levels, strict=True):
        texts = [one_way(label), one_way(str(level))]
        known = (way[text] for way, text in zip(ways, texts, strict=True) if text in way)
        found.append(place.get(label, next(known, UNKNOWN)))
    return np.array([*found, -1], np.int32)


def _unambiguous(texts: Sequence[str]) -> dict[str, int]:
    """Place of each text, written one way, that occurs once."""
    places: dict[str, list[int]] = {}
    for place, text in enumerate(texts):
        places.setdefault(one_way(text), []).append(place)
    return {text: several[0] for text, several in places.items() if len(several) == 1}
