"""Data frames in files of R, read with pyreadr."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unikat.data.parts import choose
from unikat.data.sources import FileSource, FrameSource, LoadedSource
from unikat.errors import DataError, SpecError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class RSource(LoadedSource):
    """A data frame of an ``.rds`` or ``.RData`` file; the levels of factors keep their order."""

    def __init__(self, path: Path, table: str | None) -> None:
        FileSource.__init__(self, [path], path.name)
        try:
            import pyreadr
        except ImportError:
            raise SpecError(
                f"{path.name} is a file of R, which needs the package pyreadr: install it with  "
                "pip install 'unikat[r]',  or write the data as CSV or Parquet."
            ) from None
        import narwhals.stable.v2 as nw

        try:
            with warnings.catch_warnings(action="ignore"):
                found = pyreadr.read_r(str(path))
        # The library raises many kinds of errors for files that are damaged.
        except Exception:
            raise DataError(
                f"{self.name} cannot be read as a file of R. It may be damaged, or hold something "
                "else than data frames, such as lists; write the data frame again with saveRDS, "
                "or as CSV."
            ) from None
        # A vector comes as a frame whose column has no name; that of an .rds file has none itself.
        frames = {
            str(name or path.stem): frame
            for name, frame in found.items()
            if all(isinstance(column, str) for column in frame.columns)
        }
        frame = nw.from_native(frames[choose(list(frames), table, what="table", file=self.name)])
        self._frame = FrameSource(frame, kind="eager", name=self.name)
        self.columns = self._frame.columns

    def load(self, names: Sequence[str], n_rows: int | None = None) -> pa.Table:
        """Read the named columns from the file; with `n_rows` these first rows alone."""
        return self._frame.columns_of(names).slice(0, n_rows)

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns; those that cannot be read are left out."""
        return self._frame.first(connection, names, n_rows)
