"""Expressions into conditions: one set of levels per key, whose product is impossible.

A condition is handled as one integer, whose bit `offsets[j] + l` says that level l of key j is in
the set of key j; a key with all its bits is any. Conditions leave this module as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unikat._typing import Bool, Int64
from unikat.data.keys import Key
from unikat.data.named_levels import Levels, compare
from unikat.data.spans import Interval
from unikat.errors import SpecError, brief
from unikat.language.rules import (
    Comparison,
    Expression,
    KeyRef,
    Literal,
    Membership,
    Missingness,
    Part,
)
from unikat.zeros.binding import MIRRORED, NEGATED, Binder

MOST_CONDITIONS = 100_000
"""Most conditions that a rule may expand to."""
_MOST_COMPARED = 2_000
"""Up to so many conditions, each is compared with each other."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Where the levels of each key stand in a condition."""

    n_levels: tuple[int, ...]

    @cached_property
    def offsets(self) -> Int64:
        """First row of each key, and the number of rows, (n_keys + 1,)."""
        return np.concatenate([[0], np.cumsum(self.n_levels)]).astype(np.int64)

    @cached_property
    def masks(self) -> tuple[int, ...]:
        """All levels of each key, as bits."""
        starts = self.offsets[:-1].tolist()
        return tuple(
            ((1 << n) - 1) << start for n, start in zip(self.n_levels, starts, strict=True)
        )

    @property
    def any(self) -> int:
        """The condition that holds of every cell."""
        return (1 << int(self.offsets[-1])) - 1

    def only(self, key: int, levels: Iterable[int]) -> int:
        """Return the condition that a key has one of some levels."""
        start = int(self.offsets[key])
        chosen = sum(1 << (start + level) for level in levels)
        return self.any & ~self.masks[key] | chosen

    def to_array(self, conditions: Sequence[int]) -> Bool:
        """Return conditions as an array, (n_conditions, n_rows)."""
        n_rows = int(self.offsets[-1])
        n_bytes = (n_rows + 7) // 8
        packed = b"".join(condition.to_bytes(n_bytes, "little") for condition in conditions)
        rows = np.frombuffer(packed, dtype=np.uint8).reshape(len(conditions), n_bytes)
        return np.unpackbits(rows, axis=1, count=n_rows, bitorder="little").astype(np.bool_)

    def to_bits(self, conditions: Bool) -> list[int]:
        """Return the rows of an array of conditions as integers."""
        packed = np.packbits(conditions, axis=1, bitorder="little")
        return [int.from_bytes(row.tobytes(), "little") for row in packed]

    def is_empty(self, condition: int) -> bool:
        """Whether a key has no level left, so that nothing meets the condition."""
        return any(not condition & mask for mask in self.masks)


def layout_of(offsets: Int64 | Sequence[int]) -> Layout:
    """Return the layout with given offsets."""
    return Layout(n_levels=tuple(int(n) for n in np.diff(np.asarray(offsets))))


def simplified(conditions: Iterable[int]) -> list[int]:
    """Drop conditions that are repeated or lie within another one; the others keep their order."""
    found = list(dict.fromkeys(conditions))
    if len(found) > _MOST_COMPARED:
        return found
    # What holds another condition has more bits, so it comes before it.
    kept: list[int] = []
    for condition in sorted(found, key=int.bit_count, reverse=True):
        if not any(condition | other == other for other in kept):
            kept.append(condition)
    chosen = set(kept)
    return [condition for condition in found if condition in chosen]


def merged(conditions: Iterable[int], masks: Sequence[int]) -> list[int]:
    """Unite conditions that differ in one key only, until there are none."""
    found = simplified(conditions)
    before = -1
    while before != len(found):
        before = len(found)
        for mask in masks:
            groups: dict[int, int] = {}
            for condition in found:
                rest = condition & ~mask
                groups[rest] = groups.get(rest, 0) | condition
            found = list(groups.values())
        found = simplified(found)
    return found


class Context:
    """The keys a rule may name, for the errors of all rules on the same keys."""

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = tuple(keys)
        self.layout = Layout(n_levels=tuple(key.n_levels for key in keys))
        self.levels = tuple(Levels(key=key) for key in keys)
        self.position = {key.name: j for j, key in enumerate(keys)}

    def conditions(self, expression: Expression, text: str, where: str) -> list[int]:
        """Expand an expression to conditions.

        Raises
        ------
        SpecError
            For unknown keys and levels, comparisons that the levels do not allow, and rules that
            become too many conditions.
        """
        return _Expander(self, text, where).expand(expression, negated=False)


class _Expander(Binder[int]):
    """Expands one rule to conditions."""

    most = MOST_CONDITIONS

    def __init__(self, context: Context, text: str, where: str) -> None:
        super().__init__(text, where)
        self.context, self.layout = context, context.layout

    def together(self, a: int, b: int) -> int | None:
        return None if self.layout.is_empty(a & b) else a & b

    def tidied(self, found: Iterable[int]) -> list[int]:
        return merged(found, self.layout.masks)

    def key(self, reference: KeyRef, other: Part | None = None) -> int:
        """Find the key that a name means."""
        places = self.context.position
        if reference.name not in places:
            near = places.get(other.name) if isinstance(other, KeyRef) else None
            levels = None if near is None else self.context.levels[near]
            self.no_key(reference, tuple(places), levels)
        return places[reference.name]

    def of_levels(self, j: int, levels: Iterable[int]) -> list[int]:
        condition = self.layout.only(j, levels)
        return [] if self.layout.is_empty(condition) else [condition]

    def of_key(self, expression: Membership | Missingness, *, negated: bool) -> list[int]:
        j = self.key(expression.key)
        found = self.stated(self.context.levels[j], expression, negated=negated)
        return self.of_levels(j, found)

    def comparison(self, expression: Comparison, *, negated: bool) -> list[int]:
        operator = NEGATED[expression.operator] if negated else expression.operator
        (_, left), (_, right) = *expression.left, *expression.right
        if isinstance(left, KeyRef) and isinstance(right, KeyRef):
            i, j = self.key(left, right), self.key(right, left)
            return self.two_keys(i, operator, j, expression.position)
        if isinstance(left, Literal):
            left, right, operator = right, left, MIRRORED[operator]
        assert isinstance(left, KeyRef)
        assert isinstance(right, Literal)
        j = self.key(left)
        found = self.compared(self.context.levels[j], operator, right, expression)
        return self.of_levels(j, found)

    def two_keys(self, i: int, operator: str, j: int, position: int) -> list[int]:
        a, b = self.context.levels[i], self.context.levels[j]
        names = [brief(one.key.name) for one in (a, b)]
        if i == j:
            self.refuse(position, f"{names[0]!r} is compared with itself.")
        found = [
            self.pairs(i, left, operator, j, right, position)
            for left in self.views(a, position)
            for right in self.views(b, position)
        ]
        if any(other != found[0] for other in found[1:]):
            self.several_numbers(f"{names[0]}' and '{names[1]}", position)
        return found[0]

    def pairs(
        self,
        i: int,
        left: Sequence[Interval],
        operator: str,
        j: int,
        right: Sequence[Interval],
        position: int,
    ) -> list[int]:
        """Conditions of the pairs of levels that are in a relation."""
        groups: dict[frozenset[int], list[int]] = {}
        for code, interval in enumerate(left):
            chosen = set()
            for other, against in enumerate(right):
                holds = compare(interval, operator, against)
                if holds is None:
                    a, b = (self.context.levels[k] for k in (i, j))
                    self.refuse(
                        position,
                        f"whether this holds is not certain for {a.called_in_text(code)} of "
                        f"{brief(a.key.name)!r} and {b.called_in_text(other)} of "
                        f"{brief(b.key.name)!r}; compare keys whose levels are numbers.",
                    )
                if holds:
                    chosen.add(other)
            groups.setdefault(frozenset(chosen), []).append(code)
        return [
            self.layout.only(i, codes) & self.layout.only(j, others)
            for others, codes in groups.items()
            if others
        ]


def check_conditions(conditions: Bool, offsets: Int64 | Sequence[int]) -> Layout:
    """Return the layout of conditions whose shape fits the offsets (else SpecError)."""
    layout = layout_of(offsets)
    shape = np.shape(conditions)
    if len(shape) != 2 or shape[1] != int(layout.offsets[-1]):
        raise SpecError(
            f"Conditions must have shape (n_conditions, {int(layout.offsets[-1])}), a column per "
            f"level; got {shape}."
        )
    return layout
