"""Reading a table back into the rows it was made from."""

from __future__ import annotations

import pandas as pd

from unikat.data import CellTable


def decoded(table: CellTable) -> pd.DataFrame:
    """Levels of the records in input order, None where missing."""
    rows = table.cells[table.record_cell]
    return pd.DataFrame(
        {
            key.name: pd.Series(
                [None if code < 0 else key.levels[code] for code in rows[:, j]], dtype=object
            )
            for j, key in enumerate(table.keys)
        }
    )
