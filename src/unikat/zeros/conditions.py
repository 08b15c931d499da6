"""Expressions into conditions: one set of levels per key, whose product is impossible.

A condition is handled as one integer, whose bit `offsets[j] + l` says that level l of key j is in
the set of key j; a key with all its bits is any. Conditions leave this module as arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn

import numpy as np

from unikat._typing import Bool, Int64
from unikat.data.keys import Key
from unikat.errors import SpecError, brief, listed, suggest
from unikat.zeros.levels import Interval, Levels, compare, is_number
from unikat.zeros.rules import (
    Both,
    Comparison,
    Either,
    Expression,
    KeyRef,
    Literal,
    Membership,
    Missingness,
    Not,
    refuse,
)

MOST_CONDITIONS = 100_000
"""Most conditions that a rule may expand to."""
_MOST_COMPARED = 2_000
"""Up to so many conditions, each is compared with each other."""

_MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True, kw_only=True, eq=False)
class Layout:
    """Where the levels of each key stand in a condition.

    Parameters
    ----------
    n_levels
        Levels of each key.
    """

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
    """The keys a rule may name, for the errors of all rules on the same keys.

    Parameters
    ----------
    keys
        The key variables.
    """

    def __init__(self, keys: Sequence[Key]) -> None:
        self.keys = tuple(keys)
        self.layout = Layout(n_levels=tuple(key.n_levels for key in keys))
        self.levels = tuple(Levels(key=key) for key in keys)
        self.position = {key.name: j for j, key in enumerate(keys)}

    def conditions(self, expression: Expression, text: str, where: str) -> list[int]:
        """Expand an expression to conditions.

        ``not`` is moved to the comparisons, none of which a missing value meets: ``not (A == 1)``
        is ``A != 1``, and neither holds of the level for missing values.

        Raises
        ------
        SpecError
            For unknown keys and levels, comparisons that the levels do not allow, and rules that
            become too many conditions.
        """
        return _Expander(self, text, where).expand(expression, negated=False)


class _Expander:
    """Expands one rule."""

    def __init__(self, context: Context, text: str, where: str) -> None:
        self.context, self.text, self.where = context, text, where
        self.layout = context.layout

    def refuse(self, position: int, message: str) -> NoReturn:
        refuse(self.text, position, message, self.where)

    def expand(self, expression: Expression, *, negated: bool) -> list[int]:
        if isinstance(expression, Not):
            return self.expand(expression.part, negated=not negated)
        if isinstance(expression, (Both, Either)):
            parts = [self.expand(part, negated=negated) for part in expression.parts]
            if isinstance(expression, Either) != negated:
                united = [condition for part in parts for condition in part]
                return merged(united, self.layout.masks)
            return self.product(parts, expression.position)
        if isinstance(expression, Missingness):
            return self.missingness(expression, negated != expression.negated)
        if isinstance(expression, Membership):
            return self.membership(expression, negated != expression.negated)
        assert isinstance(expression, Comparison)
        return self.comparison(expression, negated)

    def product(self, parts: list[list[int]], position: int) -> list[int]:
        found = parts[0]
        for part in parts[1:]:
            if len(found) * len(part) > MOST_CONDITIONS:
                self.refuse(
                    position,
                    f"the rule becomes more than {MOST_CONDITIONS:,} conditions here; write it as "
                    "several rules, without or within and.",
                )
            both = (a & b for a in found for b in part)
            found = merged(
                (condition for condition in both if not self.layout.is_empty(condition)),
                self.layout.masks,
            )
        return found

    def key(self, reference: KeyRef, other: object = None) -> int:
        """Find the key that a name means."""
        position = self.context.position.get(reference.name)
        if position is None:
            names = tuple(self.context.position)
            name = brief(reference.name)
            hint = suggest(reference.name, names)
            if isinstance(other, KeyRef) and other.name in self.context.position:
                levels = self.context.levels[self.context.position[other.name]]
                if levels.called(reference.name):
                    hint = f" If a level of {brief(other.name)!r} is meant, put it in quotes."
            keys = "" if "Did" in hint else f" The keys are {listed(names)}."
            self.refuse(
                reference.position,
                f"no key is called {name!r}.{hint or ' Correct the name.'}{keys}",
            )
        return self.context.position[reference.name]

    def level(self, j: int, literal: Literal) -> int:
        """Find the level that a literal means."""
        levels, name = self.context.levels[j], brief(self.context.keys[j].name)
        said = literal.value if is_number(literal.value) else brief(str(literal.value))
        found = levels.called(literal.value)
        if len(found) == 1:
            return min(found)
        if found:
            labels = levels.shown(found)
            which = f" (by value or label: {labels})" if labels else ""
            self.refuse(
                literal.position,
                f"{said!r} means several levels of {name!r}{which}; give the levels labels in the "
                "codebook that are no other level's value, and use these.",
            )
        missing = levels.key.missing_level
        if missing is not None and str(literal.value) == levels.key.labels[missing]:
            self.refuse(
                literal.position,
                f"the level for missing values is no value of {name!r}; write `{name}` is missing.",
            )
        self.refuse(
            literal.position,
            f"{name!r} has no level {said!r}.{levels.hint(str(literal.value))}",
        )

    def missingness(self, expression: Missingness, negated: bool) -> list[int]:
        j = self.key(expression.key)
        key = self.context.keys[j]
        if key.missing_level is None:
            self.refuse(
                expression.key.position,
                f"missing values of {key.name!r} are not a level; a rule can name them only where "
                "they are one (missing='level').",
            )
        chosen = {key.n_levels - 1}
        return self.of_levels(j, set(range(key.n_levels)) - chosen if negated else chosen)

    def membership(self, expression: Membership, negated: bool) -> list[int]:
        j = self.key(expression.key)
        chosen = {self.level(j, literal) for literal in expression.levels}
        named = set(range(self.context.levels[j].n_named))
        return self.of_levels(j, named - chosen if negated else chosen)

    def of_levels(self, j: int, levels: Iterable[int]) -> list[int]:
        condition = self.layout.only(j, levels)
        return [] if self.layout.is_empty(condition) else [condition]

    def comparison(self, expression: Comparison, negated: bool) -> list[int]:
        operator = _NEGATED[expression.operator] if negated else expression.operator
        left, right = expression.left, expression.right
        if isinstance(left, KeyRef) and isinstance(right, KeyRef):
            i, j = self.key(left, right), self.key(right, left)
            return self.two_keys(i, operator, j, expression)
        if isinstance(left, Literal):
            assert isinstance(right, KeyRef)
            left, right, operator = right, left, _MIRRORED[operator]
        assert isinstance(right, Literal)
        j = self.key(left)
        named = set(range(self.context.levels[j].n_named))
        if operator in ("==", "!="):
            equal = {self.level_or_inside(j, right)}
            return self.of_levels(j, equal if operator == "==" else named - equal)
        return self.of_levels(j, self.ordered(j, operator, right, expression))

    def level_or_inside(self, j: int, literal: Literal) -> int:
        """Find the level that a literal means; refuse a number within an interval."""
        levels = self.context.levels[j]
        if not levels.called(literal.value) and is_number(literal.value):
            number = float(literal.value)
            for view in levels.views:
                for code, interval in enumerate(view):
                    if compare(interval, "==", Interval(number, number)) is None:
                        self.refuse(
                            literal.position,
                            f"{literal.value} is only a part of {levels.called_in_text(code)} of "
                            f"{brief(levels.key.name)!r}; a rule can name whole levels only.",
                        )
        return self.level(j, literal)

    def ordered(self, j: int, operator: str, literal: Literal, expression: Comparison) -> set[int]:
        """Find the levels of a key that lie below or above a number."""
        levels = self.context.levels[j]
        name = brief(levels.key.name)
        try:
            number = float(literal.value)
        except ValueError:
            self.refuse(
                literal.position,
                f"{expression.operator} compares {name!r} with a number; for texts write == or "
                "in (...).",
            )
        against = Interval(number, number)
        found: list[set[int]] = []
        for view in self.views(j, expression):
            chosen = set()
            for code, interval in enumerate(view):
                holds = compare(interval, operator, against)
                if holds is None:
                    self.refuse(
                        literal.position,
                        f"{literal.value} cuts through {levels.called_in_text(code)} of {name!r}; "
                        "compare with a number at which a level begins, or bin the key "
                        "differently.",
                    )
                if holds:
                    chosen.add(code)
            found.append(chosen)
        self.check_agreement(found, name, expression)
        return found[0]

    def views(self, j: int, expression: Comparison) -> tuple[tuple[Interval, ...], ...]:
        levels = self.context.levels[j]
        if not levels.views:
            self.refuse(
                expression.position,
                f"{brief(levels.key.name)!r} has no order of numbers: {levels.without_number} is "
                "neither a number nor an interval. List levels with in (...).",
            )
        return levels.views

    def check_agreement(self, found: Sequence[object], name: str, expression: Comparison) -> None:
        if any(other != found[0] for other in found[1:]):
            self.refuse(
                expression.position,
                f"values and labels of {name!r} are different numbers, and the comparison would "
                "depend on which is meant. List levels with in (...).",
            )

    def two_keys(self, i: int, operator: str, j: int, expression: Comparison) -> list[int]:
        names = [brief(self.context.keys[k].name) for k in (i, j)]
        if i == j:
            self.refuse(expression.position, f"{names[0]!r} is compared with itself.")
        found = [
            self.pairs(i, left, operator, j, right, expression)
            for left in self.views(i, expression)
            for right in self.views(j, expression)
        ]
        self.check_agreement(found, f"{names[0]}' and '{names[1]}", expression)
        return found[0]

    def pairs(
        self,
        i: int,
        left: Sequence[Interval],
        operator: str,
        j: int,
        right: Sequence[Interval],
        expression: Comparison,
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
                        expression.position,
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
