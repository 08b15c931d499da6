"""Values as numbers, and numbers and dates as text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from unikat._typing import Int64

_LONGEST_NUMBER = 300
"""Digits of a number: more do not fit in a float."""
ROWS_SHOWN = 5
"""Row numbers in a message."""


def number_meant(code: object) -> float | None:
    """Return a missing code or declared level as a number, None if it is none."""
    if isinstance(code, float):
        return code
    if isinstance(code, int):
        return code if abs(code) < 10**_LONGEST_NUMBER else None
    text = str(code)
    if len(text) > _LONGEST_NUMBER:
        return None
    try:
        return int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return None


def number_of(value: object) -> float:
    """Return a value that is known to be a number."""
    assert isinstance(value, (int, float))
    return value


def number_shown(number: float) -> str:
    """Return a number as text; whole numbers without a point."""
    # Fifteen digits hide the noise of binary fractions such as 3 * 0.1.
    return str(int(number)) if float(number).is_integer() else f"{number:.15g}"


def rounded_shown(number: float) -> str:
    """Return a number to three significant digits."""
    return number_shown(float(f"{number:.3g}"))


def date_shown(seconds: float) -> str:
    """Return seconds since 1970 as a date, with the time where there is one."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    midnight = (moment.hour, moment.minute, moment.second, moment.microsecond) == (0, 0, 0, 0)
    return moment.strftime("%Y-%m-%d" if midnight else "%Y-%m-%d %H:%M:%S")


def as_text(value: object) -> str:
    """Return a cell of a sheet or a database as text, whole numbers without a point."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return value.isoformat() if isinstance(value, date) else str(value)


def rows_shown(rows: Sequence[int] | Int64, n: int | None = None) -> str:
    """Return the first row numbers of some; `n` is how many there are, where not all are given.

    Examples
    --------
    >>> rows_shown([1, 2]), rows_shown([1, 2, 3, 4, 5, 1006]), rows_shown([1], 9)
    ('1, 2', '1, 2, 3, 4, 5, ...', '1, ...')
    """
    shown = ", ".join(f"{row:,}" for row in rows[:ROWS_SHOWN])
    return f"{shown}, ..." if (len(rows) if n is None else n) > len(rows[:ROWS_SHOWN]) else shown
