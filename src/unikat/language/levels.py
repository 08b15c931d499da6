"""Groups of levels that somebody makes by hand, as a text that an address can hold.

::

    groups = kind { NEWLINE group }
    group  = codes [ " " NAME ]                 0-3,7 north
    codes  = span { "," span }
    span   = n [ "-" n ]

The kind is how the levels are meant, `found` if the file tells it, else one of
`unikat.spec.level_kinds`. A code is the place of a level among those of its key. A group without a
name is called after its levels.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, Self

FOUND = "found"
MOST_CODES = 100_000
_GROUP = re.compile(r"(?P<codes>\d{1,6}(?:-\d{1,6})?(?:,\d{1,6}(?:-\d{1,6})?)*)(?: (?P<name>.+))?")


class Group(NamedTuple):
    """Levels that are one."""

    codes: tuple[int, ...]
    """In rising order."""
    name: str = ""
    """Empty: after the levels."""


@dataclass(frozen=True, kw_only=True)
class LevelGroups:
    r"""Groups of some levels of a key; the other levels stay as they are.

    Examples
    --------
    >>> made = LevelGroups().merged([0, 1, 2], "young").merged([2, 7])
    >>> str(made)
    'found\n0-1 young\n2,7'
    >>> LevelGroups.parse(str(made)) == made
    True
    """

    kind: str = FOUND
    groups: tuple[Group, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text.

        Raises
        ------
        ValueError
            If it is none, or a level is in two groups.
        """
        kind, *lines = [line.strip() for line in text.splitlines()] or [FOUND]
        groups, seen = [], set[int]()
        for line in filter(None, lines):
            found = _GROUP.fullmatch(line)
            codes = () if found is None else _codes(found["codes"])
            if found is None or not codes or not seen.isdisjoint(codes):
                raise ValueError("these are no groups of levels")
            seen.update(codes)
            groups.append(Group(codes, found["name"] or ""))
        return cls(kind=kind, groups=tuple(groups))

    def __str__(self) -> str:
        lines = (f"{_spans(one.codes)} {one.name}".strip() for one in self.groups)
        return "\n".join([self.kind, *lines])

    def merged(self, codes: Iterable[int], name: str = "") -> Self:
        """Put levels into one group; from the groups that they were in they are taken away."""
        new = tuple(sorted(set(codes)))
        kept = self._without(new)
        return replace(self, groups=_sorted([*kept, *([Group(new, name)] if new[1:] else [])]))

    def split(self, place: int) -> Self:
        """Take a group apart, the places counting from 0; without such a group nothing changes."""
        groups = tuple(one for i, one in enumerate(self.groups) if i != place)
        return replace(self, groups=groups)

    def renamed(self, names: Sequence[str]) -> Self:
        """Name the groups, in their order; an empty name is made from the levels."""
        pairs = zip(self.groups, names, strict=True)
        return replace(self, groups=tuple(one._replace(name=name) for one, name in pairs))

    def banded(self, order: Sequence[int], starts: Iterable[int]) -> Self:
        r"""Cut ordered levels into bands; a band that stays as it was keeps its name.

        Parameters
        ----------
        order
            Codes from the lowest level to the highest.
        starts
            Places in the order at which a band begins, beside the first.

        Examples
        --------
        >>> str(LevelGroups().banded([0, 1, 2, 3], [2]))
        'found\n0-1\n2-3'
        """
        ends = [0, *sorted({start for start in starts if 0 < start < len(order)}), len(order)]
        names = {one.codes: one.name for one in self.groups}
        bands = [tuple(sorted(order[low:high])) for low, high in pairwise(ends)]
        others = self._without(order)
        made = [Group(band, names.get(band, "")) for band in bands if len(band) > 1]
        return replace(self, groups=_sorted([*others, *made]))

    def starts(self, order: Sequence[int]) -> list[int]:
        """Places in the order at which a band begins, beside the first; a lone level is a band."""
        of = {code: i for i, one in enumerate(self.groups) for code in one.codes}
        pairs = enumerate(pairwise(order), start=1)
        return [place for place, (a, b) in pairs if of.get(a, -1) != of.get(b, -1) or a not in of]

    def _without(self, codes: Collection[int]) -> list[Group]:
        gone, found = set(codes), []
        for one in self.groups:
            left = tuple(code for code in one.codes if code not in gone)
            if len(left) > 1:
                found.append(one._replace(codes=left))
        return found


def _sorted(groups: Iterable[Group]) -> tuple[Group, ...]:
    return tuple(sorted(groups, key=lambda one: one.codes[0]))


def _codes(text: str) -> tuple[int, ...]:
    found: list[int] = []
    for span in text.split(","):
        low, _, high = span.partition("-")
        found += range(int(low), min(int(high or low), MOST_CODES) + 1)
    return tuple(sorted(found)) if len(set(found)) == len(found) else ()


def _spans(codes: Sequence[int]) -> str:
    spans: list[list[int]] = []
    for code in codes:
        if spans and spans[-1][1] == code - 1:
            spans[-1][1] = code
        else:
            spans.append([code, code])
    return ",".join(f"{low}-{high}" if high > low else f"{low}" for low, high in spans)
