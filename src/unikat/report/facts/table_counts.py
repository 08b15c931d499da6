"""The table of two keys before and after: how many records each cell has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from unikat._typing import Bool, Float64
from unikat.data.keys import Key
from unikat.report.facts.breakdown import FEWEST_RECORDS
from unikat.report.facts.risk_map import MOST, hidden, side, told

Cells = tuple[tuple[float | None, ...], ...]


@dataclass(frozen=True, kw_only=True)
class TableCounts:
    """Records in the cells of two keys, by the levels of the original."""

    names: tuple[str, str]
    """Of the keys, that of the rows first."""
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    before: Cells
    """Of each cell; None where they are too few to be told, or would tell such a cell."""
    after: Cells
    """What users of the file count, groups spread over their levels; None likewise."""
    n_hidden: int
    """Cells that are not told."""
    joined: bool
    """Whether levels of a key are joined, or the rest of them, since there are more than 18."""

    @classmethod
    def of(
        cls, keys: tuple[Key, Key], before: Float64, after: Float64, *, show_all: bool = False
    ) -> Self:
        """Take it from tables of all levels.

        Parameters
        ----------
        keys
            Of rows and columns.
        before, after
            (n_levels, n_levels): records.
        show_all
            Tell cells with few records, too.
        """
        parts = [
            side(key, np.arange(key.n_levels, dtype=np.int32), before.sum(axis=1 - axis))
            for axis, key in enumerate(keys)
        ]
        (down, rows), (across, columns) = parts
        tables = []
        for table in (before, after):
            found = np.zeros((len(rows), len(columns)))
            np.add.at(found, (down[:, None], across[None, :]), table)
            tables.append(found)
        few: Bool = np.zeros(tables[0].shape, np.bool_)
        if not show_all:
            few = hidden(tables[0])
        gone = few if show_all else few | ((tables[1] > 0) & (tables[1] < FEWEST_RECORDS))
        return cls(
            names=(keys[0].name, keys[1].name),
            labels=(rows, columns),
            before=told(tables[0], few),
            after=told(tables[1], gone),
            n_hidden=int(gone.sum()),
            joined=any(key.n_levels > MOST for key in keys),
        )

    @property
    def largest(self) -> float:
        """Records of the cell that has most, before or after."""
        return max((n or 0.0 for row in (*self.before, *self.after) for n in row), default=0.0)
