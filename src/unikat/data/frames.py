"""Return frames of the same kind as the frames given."""

from __future__ import annotations

from typing import Any, NamedTuple

import pyarrow as pa


class FrameKind(NamedTuple):
    """What kind of frame was passed, and its index; not its rows."""

    name: str
    """``"pandas"``, ``"polars"``, ``"lazy"`` (polars), ``"pyarrow"`` or ``"duckdb"``."""
    index: Any = None
    """Index of a pandas frame when it was passed."""

    @classmethod
    def of(cls, data: Any) -> FrameKind:
        """Tell the kind of data; of a file, or of anything else, pandas."""
        import pandas as pd

        if isinstance(data, pd.DataFrame):
            return cls("pandas", data.index)
        match type(data).__module__.partition(".")[0], type(data).__name__:
            case "polars", "LazyFrame":
                return cls("lazy")
            case ("polars" | "pyarrow") as name, _:
                return cls(name)
            case (("duckdb" | "_duckdb"), _):
                return cls("duckdb")
        return cls("pandas")

    def frame(self, table: pa.Table, *, same_rows: bool = True) -> Any:
        """Return a table as this kind of frame.

        A relation is one on DuckDB's default connection.

        Parameters
        ----------
        table
            The rows.
        same_rows
            They are those of the data, in the same order, and get their index.
        """
        if self.name == "pyarrow":
            return table
        if self.name == "duckdb":
            import duckdb

            return duckdb.from_arrow(table)
        if self.name in ("polars", "lazy"):
            import polars as pl

            found = pl.DataFrame(table)
            return found.lazy() if self.name == "lazy" else found
        frame = table.to_pandas()
        if same_rows and self.index is not None:
            frame.index = self.index
        return frame


FILE = FrameKind("pandas")
"""What a file gives."""
