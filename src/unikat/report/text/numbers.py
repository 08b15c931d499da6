"""Numbers, counts, shares, times and intervals in words, and tables of them for the terminal."""

from __future__ import annotations

import io
import shutil
from collections.abc import Collection, Sequence
from typing import Protocol


class Ends(Protocol):
    """What has an interval."""

    @property
    def lower(self) -> float:
        """Its lower end."""

    @property
    def upper(self) -> float:
        """Its upper end."""


def number(value: float) -> str:
    """Write a number as a reader wants it: whole from 10 on, one digit below.

    Examples
    --------
    >>> number(1292.0), number(51.7), number(3.62), number(0.0)
    ('1,292', '52', '3.6', '0')
    """
    if value != value:
        return "not known"
    if value == round(value) or abs(value) >= 10:
        return f"{round(value):,}"
    return "less than 0.1" if 0 < value < 0.05 else f"{value:.1f}"


def counted(n: int, noun: str) -> str:
    """Write a number of things.

    Examples
    --------
    >>> counted(1, "record"), counted(1200, "record"), counted(0, "record")
    ('1 record', '1,200 records', '0 records')
    """
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def verb(n: int, plural: str) -> str:
    """Return the form of a verb that goes with a number of things.

    Examples
    --------
    >>> verb(1, "have"), verb(4, "have"), verb(1, "were"), verb(1, "break"), verb(0, "are")
    ('has', 'have', 'was', 'breaks', 'are')
    """
    if n != 1:
        return plural
    return {"have": "has", "are": "is", "were": "was", "do": "does"}.get(plural, f"{plural}s")


def percent(share: float) -> str:
    """Write a share as a percentage with about two digits.

    Examples
    --------
    >>> percent(0.0387), percent(0.5), percent(0.0004), percent(0.0)
    ('3.9%', '50%', '0.04%', '0%')
    """
    value = 100 * share
    if value != value:
        return "not known"
    if value == 0 or value >= 10:
        return f"{value:.0f}%"
    if value >= 0.095:
        return f"{value:.1f}%"
    return f"{value:.2f}%" if value >= 0.0095 else "less than 0.01%"


def duration(seconds: float) -> str:
    """Write a length of time.

    Examples
    --------
    >>> duration(12.34), duration(0.2), duration(75), duration(7322)
    ('12 s', '0.2 s', '1 min 15 s', '2 h 2 min')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def listed(names: Sequence[str]) -> str:
    """Write names as a list in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def interval(summary: Ends) -> str:
    """Write an interval."""
    return f"{number(summary.lower)} to {number(summary.upper)}"


def estimated(middle: float, summary: Ends) -> str:
    """Write an estimate with its interval."""
    return f"{number(middle)} ({interval(summary)})"


class Estimate(Ends, Protocol):
    """A mean with an interval."""

    @property
    def mean(self) -> float:
        """The estimate."""


def changed(name: str, before: Estimate, after: Estimate) -> str:
    """Say how a number changes: it falls, rises or stays, as its reader sees it.

    Examples
    --------
    >>> from types import SimpleNamespace as E
    >>> one, two = E(mean=11.0, lower=9.0, upper=13.0), E(mean=5.0, lower=3.0, upper=8.0)
    >>> changed("τ1", one, two), changed("τ1", one, one)
    ('τ1 falls from 11 (9 to 13) to 5 (3 to 8)', 'τ1 stays at 11 (9 to 13)')
    """
    first, then = estimated(before.mean, before), estimated(after.mean, after)
    if number(before.mean) == number(after.mean):
        same = first == then
        return f"{name} stays at {first}" if same else f"{name} stays: {first} before, {then} after"
    return f"{name} {'falls' if after.mean < before.mean else 'rises'} from {first} to {then}"


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
    Console(file=written, width=max(width, least), color_system=None).print(table)
    return [line.rstrip() for line in written.getvalue().splitlines()]
