"""Numbers, counts, shares, times and intervals in words, and tables of them for the terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Protocol

from unikat.errors import brief
from unikat.report.text.language import wording


class Ends(Protocol):
    """What has an interval."""

    @property
    def lower(self) -> float:
        """Its lower end."""

    @property
    def upper(self) -> float:
        """Its upper end."""


class Estimated(Ends, Protocol):
    """A number with its interval."""

    @property
    def mean(self) -> float:
        """The number."""


def number(value: float) -> str:
    """Write a number as a reader wants it: whole from 10 on, one digit below.

    Examples
    --------
    >>> number(1292.0), number(51.7), number(3.62), number(0.0)
    ('1,292', '52', '3.6', '0')
    """
    if value != value:
        return _wording("unknown")
    if value == round(value) or abs(value) >= 10:
        return localised(f"{round(value):,}")
    return _wording("tiny") if 0 < value < 0.05 else localised(f"{value:.1f}")


def localised(written: str) -> str:
    """Write a number that Python has written with the signs of the language and of print."""
    signs = {ord("-"): "−", ord("."): _wording("decimal"), ord(","): _wording("group")}
    return written.translate(signs)


def digits(value: float, n: int) -> str:
    """Write a number with so many digits behind the point.

    Examples
    --------
    >>> digits(1.0042, 3), digits(-0.25, 2)
    ('1.004', '−0.25')
    """
    return localised(f"{value:,.{n}f}")


def significant(value: float, n: int = 6) -> str:
    """Write a number with at most so many digits that count.

    Examples
    --------
    >>> significant(0.95), significant(1.645), significant(0.00123456, 2)
    ('0.95', '1.645', '0.0012')
    """
    return localised(f"{value:.{n}g}")


def counted(n: int, noun: str) -> str:
    """Write a number of things, with an English noun.

    Examples
    --------
    >>> counted(1, "record"), counted(1200, "record"), counted(0, "record")
    ('1 record', '1,200 records', '0 records')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def verb(n: int, plural: str) -> str:
    """Return the form of an English verb that goes with a number of things.

    Examples
    --------
    >>> verb(1, "have"), verb(4, "have"), verb(1, "were"), verb(1, "break"), verb(0, "are")
    ('has', 'have', 'was', 'breaks', 'are')
    """
    if n != 1:
        return plural
    return {"have": "has", "are": "is", "were": "was", "do": "does"}.get(plural, f"{plural}s")


def to(low: str, high: str) -> str:
    """Write a range.

    Examples
    --------
    >>> to("0", "9")
    '0 to 9'
    """
    return str(_wording("to")).format(low, high)


def percent(share: float) -> str:
    """Write a share as a percentage with about two digits.

    Examples
    --------
    >>> percent(0.0387), percent(0.5), percent(0.0004), percent(0.0)
    ('3.9%', '50%', '0.04%', '0%')
    """
    value = 100 * share
    if value != value:
        return _wording("unknown")
    if 0 < value < 0.0095:
        return _wording("tiny_percent")
    places = 0 if value == 0 or value >= 10 else 1 if value >= 0.095 else 2
    return with_percent(digits(value, places))


def whole_percent(share: float, places: int = 0) -> str:
    """Write a share as a percentage with a fixed number of digits behind the point.

    Examples
    --------
    >>> whole_percent(0.387), whole_percent(0.0004, 1)
    ('39%', '0.0%')
    """
    return with_percent(digits(100 * share, places))


def with_percent(written: str) -> str:
    """Write the sign of a percentage with a number."""
    return _wording("percent").format(written)


def level(probability: float) -> str:
    """Write the probability of an interval.

    Examples
    --------
    >>> level(0.95), level(0.999)
    ('95%', '99.9%')
    """
    return with_percent(significant(100 * probability))


def duration(seconds: float) -> str:
    """Write a length of time.

    Examples
    --------
    >>> duration(12.34), duration(0.2), duration(75), duration(7322)
    ('12 s', '0.2 s', '1 min 15 s', '2 h 2 min')
    """
    whole = round(seconds)
    if whole < 60:
        return _wording("seconds").format(digits(seconds, 1) if seconds < 10 else whole)
    if whole < 3600:
        return _wording("minutes").format(whole // 60, whole % 60)
    return _wording("hours").format(whole // 3600, whole % 3600 // 60)


def date(moment: str) -> str:
    """Write the day of a moment in ISO 8601; what is none stays, since files are foreign.

    Examples
    --------
    >>> date("2026-11-05T19:48:38+00:00")
    '5 November 2026'
    """
    try:
        day = datetime.fromisoformat(moment)
    except ValueError:
        return moment
    month = wording("numbers.months")[day.month - 1]
    return _wording("date").format(day=day.day, month=month, year=day.year)


def listed(names: Sequence[str]) -> str:
    """Write names as a list in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} {_wording('and')} {names[-1]}"


def titled(name: str, words: str) -> str:
    """Write a name and what is said of it, with the colon of the language.

    Examples
    --------
    >>> titled("age", "in five-year bands")
    'age: in five-year bands'
    """
    return _wording("titled").format(name, words)


def in_turn(sentences: Iterable[str]) -> str:
    """Write parts of a sentence one after the other, with the semicolons of the language.

    Examples
    --------
    >>> in_turn(["age left out", "sex as in the file"])
    'age left out; sex as in the file'
    """
    return _wording("in_turn").join(sentences)


def some(names: Sequence[str], most: int) -> str:
    """Write the first few names, each brief, and how many more there are.

    Examples
    --------
    >>> some(["a", "b", "c"], 2)
    'a, b and 1 more'
    """
    first, more = ", ".join(map(brief, names[:most])), len(names) - most
    return _wording("more").format(first, number(more)) if more > 0 else first


def _wording(name: str) -> str:
    return str(wording(f"numbers.{name}"))


def between(lower: float, upper: float) -> str:
    """Write a range of shares."""
    return _wording("to").format(percent(lower), percent(upper))


def interval(summary: Ends) -> str:
    """Write an interval."""
    return _wording("to").format(number(summary.lower), number(summary.upper))


def estimated(middle: float, summary: Ends) -> str:
    """Write an estimate with its interval."""
    return f"{number(middle)} ({interval(summary)})"


WIDTH = 100
"""Of a table for a terminal whose width is not known."""
_LEAST = 12
"""Of a column that is wrapped."""


def columns(
    rows: Sequence[Sequence[str]], left: Collection[int] = (0,), width: int | None = None
) -> list[str]:
    """Write rows as lines for the terminal, with their columns under each other.

    The texts of the columns in `left` begin under each other, those of the others end so. Where the
    terminal (`width`; None: that of the terminal) is too narrow those in `left` are wrapped; no
    number is cut.

    Examples
    --------
    >>> columns([("key", "levels"), ("occupation", "9")])
    ['key         levels', 'occupation       9']
    >>> columns([("key", "levels"), ("main occupation", "9")], width=20)
    ['key             levels', 'main                 9', 'occupation']
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    for i in range(len(rows[0])):
        table.add_column(justify="left" if i in left else "right", no_wrap=i not in left)
    for row in rows:
        # As they are: a name may look like markup.
        table.add_row(*map(Text, row))
    least = sum(
        2 + max(min(cell_len(row[i]), _LEAST) if i in left else cell_len(row[i]) for row in rows)
        for i in range(len(rows[0]))
    )
    if width is None:
        width = shutil.get_terminal_size((WIDTH, 24)).columns
    written = io.StringIO()
    # In a notebook Console would show the table there and then, and write nothing.
    console = Console(file=written, width=max(width, least), color_system=None, force_jupyter=False)
    console.print(table)
    return [line.rstrip() for line in written.getvalue().splitlines()]
