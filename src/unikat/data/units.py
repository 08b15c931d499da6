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

    def counted(self, n: int, which: str = "") -> str:
        """Write a number of units, which an adjective may describe."""
        noun = self.one if n == 1 else self.many
        return f"{n:,} {which} {noun}" if which else f"{n:,} {noun}"


RECORD: Final = Unit(one="record", many="records")
HOUSEHOLD: Final = Unit(one="household", many="households")
