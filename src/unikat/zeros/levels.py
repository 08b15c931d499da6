"""Levels of a key as rules see them: their names, and the numbers they stand for."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from math import inf, isfinite
from typing import NamedTuple

from unikat.data.keys import Key
from unikat.data.letters import is_letter
from unikat.errors import brief, listed, suggest

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_POINT = re.compile(_NUMBER)
_BRACKETS = re.compile(rf"([\[(])\s*({_NUMBER}|-inf)\s*,\s*({_NUMBER}|\+?inf)\s*([\])])", re.I)
_DASH = re.compile(rf"({_NUMBER})\s*(?:-|–|to)\s*({_NUMBER})")
_OPEN_END = re.compile(rf"(<=|>=|<|>|≤|≥)\s*({_NUMBER})")
_PLUS = re.compile(rf"({_NUMBER})\s*\+")
_ZERO = re.compile(r"-?0\d")

_SHOWN_LEVELS = 8


class Interval(NamedTuple):
    """The numbers from `low` to `high`; whether the ends belong to it."""

    low: float
    high: float
    has_low: bool = True
    has_high: bool = True

    @property
    def is_point(self) -> bool:
        """Whether it is one number."""
        return self.low == self.high


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
    """The levels of a key as a rule sees them; the level for missing values has no number.

    Parameters
    ----------
    key
        The key variable.
    """

    key: Key

    @property
    def n_named(self) -> int:
        """Number of levels that are values, so without the one for missing values."""
        return self.key.n_levels - (self.key.missing_level is not None)

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
        texts = [tuple(str(level) for level in self.key.levels[: self.n_named])]
        texts.append(self.key.labels[: self.n_named])
        letters = [code for code in self.key.declared_missing if is_letter(texts[0][code])]
        views = []
        for view in texts:
            known = tuple(text for code, text in enumerate(view) if code not in letters)
            found = _intervals(known, binned=self.key.binning is not None)
            if known and found is not None:
                numbers = iter(found)
                # As in Stata, letters that say why a number is missing are above all numbers.
                views.append(
                    tuple(
                        Interval(inf, inf) if code in letters else next(numbers)
                        for code in range(len(view))
                    )
                )
        return tuple(dict.fromkeys(views))

    @cached_property
    def is_ordered(self) -> bool:
        """Whether the levels have an order that means something; the one place that decides.

        What the source or the codebook declares counts. Otherwise groups of numbers are ordered,
        levels whose labels are numbers or spans of numbers, and numbers unless they are codes: most
        have a label that is no number, or one has a leading zero.
        """
        if self.key.ordered is not None or self.key.binning is not None:
            return self.key.ordered is not False
        values = [str(level) for level in self.key.levels[: self.n_named]]
        labels = self.key.labels[: self.n_named]
        if not self.views or any(_ZERO.match(value) for value in values):
            return False
        n_labelled = sum(_ends(label) is None for label in labels)
        return 2 * n_labelled <= self.n_named

    @cached_property
    def order(self) -> list[int] | None:
        """Levels from the lowest to the highest, None if they have no order that is certain."""
        if not self.is_ordered:
            return None
        if self.key.ordered:
            return list(range(self.n_named))
        orders = [sorted(range(self.n_named), key=view.__getitem__) for view in self.views]
        if not orders or any(order != orders[0] for order in orders):
            return None
        return orders[0]

    @cached_property
    def without_number(self) -> str:
        """What a message calls a level that has no number, where there is no view."""
        labels = self.key.labels[: self.n_named]
        code = next((code for code, label in enumerate(labels) if _ends(label) is None), 0)
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


class _Ends(NamedTuple):
    interval: Interval
    continuous: bool
    """Written with one bracket of each kind, as only intervals of real numbers are."""
    whole_numbers: bool
    """Written as only groups of whole numbers are: ``20-24``, or a number alone."""


def _ends(text: str) -> _Ends | None:
    """Interval that a text names, None if it names none."""
    text = text.strip()
    if _POINT.fullmatch(text):
        return _Ends(Interval(float(text), float(text)), False, True)
    if match := _BRACKETS.fullmatch(text):
        left, low, high, right = match.groups()
        found = Interval(float(low), float(high), left == "[", right == "]")
        return _Ends(found, (left == "[") != (right == "]"), False)
    if match := _DASH.fullmatch(text):
        return _Ends(Interval(float(match[1]), float(match[2])), False, True)
    if match := _OPEN_END.fullmatch(text):
        operator = match[1].replace("≤", "<=").replace("≥", ">=")
        number, closed = float(match[2]), operator in ("<=", ">=")
        if operator[0] == "<":
            return _Ends(Interval(-inf, number, True, closed), False, False)
        return _Ends(Interval(number, inf, closed, True), False, False)
    if match := _PLUS.fullmatch(text):
        return _Ends(Interval(float(match[1]), inf), False, False)
    return None


def _intervals(texts: tuple[str, ...], *, binned: bool) -> tuple[Interval, ...] | None:
    """Intervals that the texts name, None unless all name one."""
    ends = [found for found in map(_ends, texts) if found is not None]
    if len(ends) < len(texts) or any(end.interval.low > end.interval.high for end in ends):
        return None
    intervals = tuple(end.interval for end in ends)
    limits = [limit for end in intervals for limit in end[:2] if isfinite(limit)]
    whole = all(limit.is_integer() for limit in limits)
    whole = whole and not any(end.continuous for end in ends)
    # The bins of fractions are written with brackets, except the two outer ones: two bins alone
    # do not tell whether there is a number between 14 and 15.
    if whole and (not binned or any(end.whole_numbers for end in ends)):
        intervals = tuple(
            Interval(
                end.low if end.has_low else end.low + 1,
                end.high if end.has_high else end.high - 1,
            )
            for end in intervals
        )
    return intervals
