"""Data frames in files of R, read with pyreadr."""

from __future__ import annotations

import bz2
import gzip
import lzma
import re
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
        _mark_ordered(path, list(frames.values()))
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


_CLASS = re.compile(
    rb"\x00\x00\x00\x10\x00\x00\x00(?:\x02....\x00\x00\x00\x07(?P<ordered>ordered)|\x01)"
    rb"....\x00\x00\x00\x06factor",
    re.DOTALL,
)
"""The class of a factor as R writes it: one or two texts, each after its kind and length."""
_CHUNK, _OVERLAP = 1 << 20, 64


def _mark_ordered(path: Path, frames: Sequence[Any]) -> None:
    """Say of categories which are ordered factors: the library reads the class and does not tell.

    The classes of factors stand in the file in the order of their columns. If there are not as many
    as categories, nothing is known, and no factor is taken as ordered.
    """
    import pandas as pd

    columns = [
        (frame, name)
        for frame in frames
        for name in frame.columns
        if isinstance(frame[name].dtype, pd.CategoricalDtype)
    ]
    try:
        ordered = _ordered(path) if columns else []
    except (OSError, EOFError, ValueError, lzma.LZMAError):
        return
    if len(ordered) == len(columns):
        for (frame, name), is_ordered in zip(columns, ordered, strict=True):
            if is_ordered:
                frame[name] = frame[name].cat.as_ordered()


def _ordered(path: Path) -> list[bool]:
    """Whether each factor of a file is ordered, in their order."""
    found, rest = [], b""
    with _unpacked(path) as file:
        while chunk := file.read(_CHUNK):
            text, end = rest + chunk, 0
            for match in _CLASS.finditer(text):
                found.append(match["ordered"] is not None)
                end = match.end()
            # What may go on in the next chunk.
            rest = text[max(end, len(text) - _OVERLAP) :]
    return found


def _unpacked(path: Path) -> Any:
    with path.open("rb") as file:
        head = file.read(6)
    if head.startswith(b"\x1f\x8b"):
        return gzip.open(path, "rb")
    if head.startswith(b"BZh"):
        return bz2.open(path, "rb")
    if head.startswith(b"\xfd7zXZ"):
        return lzma.open(path, "rb")
    return path.open("rb")
