"""Texts that name numbers: `34`, `20-24`, `[20, 30)`, `65 and over`, `under 5 years`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import pairwise
from math import inf, isfinite
from typing import NamedTuple

_NUMBER = r"[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?"
_POINT = re.compile(_NUMBER)
_BRACKETS = re.compile(rf"([\[(])\s*({_NUMBER}|-inf)\s*,\s*({_NUMBER}|\+?inf)\s*([\])])", re.I)
_DASH = re.compile(rf"({_NUMBER})\s*(?:-|–|to|a|bis)\s*({_NUMBER})")
_SIGN = re.compile(rf"(<=|>=|<|>|≤|≥)\s*({_NUMBER})")
_ABOVE = re.compile(
    rf"({_NUMBER})\s*(?:\+|plus|(?:and|or|y|o|et|und)\s*"
    r"(?:over|older|more|above|up|upwards|más|mas|mayores|plus|älter|mehr))"
)
_BELOW = re.compile(
    rf"(?:up to|hasta|bis)\s*({_NUMBER})|({_NUMBER})\s*(?:and|or|y|o|et|und)\s*"
    r"(?:under|younger|less|below|menos|menores|moins|jünger|weniger)"
)
_UNDER = re.compile(
    rf"(?:under|below|less than|younger than|menos de|menores de|unter)\s*({_NUMBER})"
)
_OVER = re.compile(rf"(?:over|more than|older than|más de|mas de|über)\s*({_NUMBER})")
_UNIT = re.compile(r"\s*\b(?:years?|yrs?|años|anos|ans|jahre)\b(?:\s*(?:old|of age))?", re.I)
_ONE = re.compile(r"\b(?:one|uno?)$", re.I)
_BEFORE = re.compile(r"(?:ages?|aged|edad|between|entre)\s+(?:de\s+)?(?=[\d<>≤≥])", re.I)


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


class Span(NamedTuple):
    """What a text names."""

    interval: Interval
    continuous: bool
    """Written with one bracket of each kind, as only intervals of real numbers are."""
    whole_numbers: bool
    """Written as only groups of whole numbers are: ``20-24``, or a number alone."""


def span_of(text: str) -> Span | None:
    """Interval that a text names, None if it names none.

    Examples
    --------
    >>> span_of("65 and over").interval[:2], span_of("Age 20 to 24 years").interval[:2]
    ((65.0, inf), (20.0, 24.0))
    >>> span_of("Aged care")
    """
    text = _BEFORE.sub("", _UNIT.sub("", text.strip()), count=1).strip()
    text = _ONE.sub("1", text)
    if _POINT.fullmatch(text):
        return Span(Interval(float(text), float(text)), False, True)
    if match := _BRACKETS.fullmatch(text):
        left, low, high, right = match.groups()
        found = Interval(float(low), float(high), left == "[", right == "]")
        return Span(found, (left == "[") != (right == "]"), False)
    text = text.lower()
    if match := _DASH.fullmatch(text):
        return Span(Interval(float(match[1]), float(match[2])), False, True)
    if match := _SIGN.fullmatch(text):
        operator = match[1].replace("≤", "<=").replace("≥", ">=")
        number, closed = float(match[2]), operator in ("<=", ">=")
        if operator[0] == "<":
            return Span(Interval(-inf, number, True, closed), False, False)
        return Span(Interval(number, inf, closed, True), False, False)
    for form, below, closed in (
        (_ABOVE, False, True),
        (_OVER, False, False),
        (_BELOW, True, True),
        (_UNDER, True, False),
    ):
        if match := form.fullmatch(text):
            number = float(next(filter(None, match.groups())))
            ends = (-inf, number, True, closed) if below else (number, inf, closed, True)
            return Span(Interval(*ends), False, False)
    return None


def intervals_of(texts: Sequence[str], *, binned: bool = False) -> tuple[Interval, ...] | None:
    """Intervals that the texts name, None unless all name one."""
    spans = [found for found in map(span_of, texts) if found is not None]
    if len(spans) < len(texts) or any(one.interval.low > one.interval.high for one in spans):
        return None
    intervals = tuple(one.interval for one in spans)
    limits = [limit for one in intervals for limit in one[:2] if isfinite(limit)]
    whole = all(limit.is_integer() for limit in limits)
    whole = whole and not any(one.continuous for one in spans)
    # The bins of fractions are written with brackets, except the two outer ones: two bins alone
    # do not tell whether there is a number between 14 and 15.
    if whole and (not binned or any(one.whole_numbers for one in spans)):
        intervals = tuple(
            Interval(
                one.low if one.has_low else one.low + 1,
                one.high if one.has_high else one.high - 1,
            )
            for one in intervals
        )
    apart = sorted(intervals)
    if any(a.high > b.low for a, b in pairwise(apart) if a != b):
        # Codes such as 25-503 and 25-703 are no bands.
        return None
    return intervals
