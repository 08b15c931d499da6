"""Levels of a key as rules and files see them: their names, and the numbers they stand for."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property

from unikat.data.keys import Key
from unikat.data.spans import Interval, span_of
from unikat.data.structure import n_named, views_of
from unikat.errors import brief, listed, suggest

_POINT = re.compile(r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
_SHOWN_LEVELS = 8


def less(a: Interval, b: Interval) -> bool | None:
    """Whether x < y for all x in `a` and y in `b` (True), for none (False), or for some (None)."""
    if a.high < b.low or (a.high == b.low and not (a.has_high and b.has_low)):
        return True
    return False if a.low >= b.high else None


def compare(a: Interval, operator: str, b: Interval) -> bool | None:
    """Whether a comparison holds for all numbers of two intervals, none, or some (None)."""
    if operator == "<":
        return less(a, b)
    if operator == ">":
        return less(b, a)
    if operator in ("<=", ">="):
        opposite = less(b, a) if operator == "<=" else less(a, b)
        return None if opposite is None else not opposite
    equal: bool | None = None
    if less(a, b) or less(b, a):
        equal = False
    elif a.is_point and b.is_point:
        equal = True
    return equal if operator == "==" or equal is None else not equal


def is_number(value: object) -> bool:
    """Whether a value is a number (a truth value is none)."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True, kw_only=True, eq=False)
class Levels:
    """The levels of a key as a rule sees them; the level for missing values has no number."""

    key: Key

    @property
    def n_named(self) -> int:
        """Number of levels that are values, so without the one for missing values."""
        return n_named(self.key)

    @cached_property
    def _by_name(self) -> dict[str | float, set[int]]:
        """Levels by what they may be called: value, label, and either as a number."""
        found: dict[str | float, set[int]] = {}
        for code in range(self.n_named):
            for said in (self.key.levels[code], self.key.labels[code]):
                names: list[str | float] = [str(said)]
                if is_number(said) or _POINT.fullmatch(str(said)):
                    names.append(float(str(said)))
                for name in names:
                    found.setdefault(name, set()).add(code)
        return found

    def called(self, literal: object) -> set[int]:
        """Levels whose value or label is the literal: one if all is well, several if not.

        A text means a level of that very text before it means a number.
        """
        if is_number(literal):
            return self._by_name.get(float(str(literal)), set())
        text = str(literal)
        found = self._by_name.get(text)
        if found is None and _POINT.fullmatch(text.strip()):
            found = self._by_name.get(float(text))
        return found or set()

    @cached_property
    def views(self) -> tuple[tuple[Interval, ...], ...]:
        """The levels as numbers: by their values, by their labels, or neither, one or both."""
        return views_of(self.key)

    @cached_property
    def without_number(self) -> str:
        """What a message calls a level that has no number, where there is no view."""
        labels = self.key.labels[: self.n_named]
        code = next((code for code, label in enumerate(labels) if span_of(label) is None), 0)
        return self.called_in_text(code)

    def shown(self, codes: Iterable[int]) -> str:
        """Return the labels of those levels that a message may show, the first few of many."""
        labels = [self.key.labels[code] for code in sorted(codes) if self.may_show(code)]
        return listed([repr(brief(label)) for label in labels], _SHOWN_LEVELS)

    def called_in_text(self, code: int) -> str:
        """Return what a message calls a level."""
        return f"the level {self.shown([code])}" if self.may_show(code) else "a level"

    def may_show(self, code: int) -> bool:
        """Whether a message may name a level: not where only records tell it."""
        return code not in self.key.private

    def hint(self, text: str) -> str:
        """Say what can be done where a text means no level, without naming values of records."""
        key, codes = self.key, [code for code in range(self.n_named) if self.may_show(code)]
        names = [key.labels[code] for code in codes] + [str(key.levels[code]) for code in codes]
        said = suggest(text, dict.fromkeys(names))
        name = brief(key.name)
        if len(codes) == self.n_named:
            said += f" Its levels are {self.shown(codes)}."
        elif codes:
            said += f" Its levels in the codebook are {self.shown(codes)}."
        if key.binning is not None:
            return f"{said} {name} is grouped by {brief(key.binning)}, so its levels are groups."
        return (
            f"{said} If no record of the sample has this level, declare it in a codebook: list all "
            f"levels of {name} under levels."
        )


def level_names(key: Key) -> list[str]:
    """What levels are called in rules: groups of numbers by label; not that for missing values."""
    names = key.labels if key.binning is not None else [str(level) for level in key.levels]
    return list(names[: n_named(key)])


def codes_called(key: Key) -> Callable[[str], set[int]]:
    """Return what tells the levels that a file calls so: by value, or else by label or number."""
    levels = Levels(key=key)
    by_value = {name: {code} for code, name in enumerate(level_names(key))}
    return lambda text: by_value.get(text) or levels.called(text)
