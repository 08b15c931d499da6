"""The words for the units of a file: records, each of a person, or households.

A sentence that holds for both takes them as an argument; nothing rewrites a finished text, in which
names of files and keys stand, too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["HOUSEHOLD", "RECORD", "Unit"]


@dataclass(frozen=True, kw_only=True)
class Unit:
    """Words for one kind of unit.

    Examples
    --------
    >>> HOUSEHOLD.counted(1200), RECORD.counted(1, "incomplete")
    ('1,200 households', '1 incomplete record')
    """

    one: str
    many: str
    whom: str
    """Of whom an intruder knows the keys, and looks for."""
    in_population: str
    """One unit of the population, which may be outside the file."""
    found: str
    """What an intruder can do who knows the values."""
    by_row: str
    """By which row of the file a unit is named, counted from 1."""

    def counted(self, n: int, which: str = "") -> str:
        """Write a number of units, which an adjective may describe."""
        noun = self.one if n == 1 else self.many
        return f"{n:,} {which} {noun}" if which else f"{n:,} {noun}"


RECORD: Final = Unit(
    one="record",
    many="records",
    whom="person",
    in_population="population unit",
    found="can find the person's record",
    by_row="by row number (the first record is row 1)",
)
HOUSEHOLD: Final = Unit(
    one="household",
    many="households",
    whom="household",
    in_population="household of the population",
    found="can find it in the file",
    by_row="by the row in which they begin",
)
