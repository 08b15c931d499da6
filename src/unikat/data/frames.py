"""Return frames of the same kind as the frames given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unikat._typing import AnyArray
from unikat.errors import DataError, SpecError
from unikat.language.keys import column_of, split_keys

if TYPE_CHECKING:
    import pyarrow as pa


class FrameKind(NamedTuple):
    """What kind of frame was passed, and its index; not its rows."""

    name: str
    """``"pandas"``, ``"polars"``, ``"lazy"`` (polars), ``"pyarrow"``, ``"duckdb"``; of a matrix
    ``"codes"``, for which pandas frames are returned."""
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
            case "numpy", _:
                return cls("codes")
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


def with_column(data: Any, name: str, values: Any) -> tuple[Any, str]:
    """Add values to a frame as a column that has no name there yet; the frame stays as it is.

    A series of pandas beside a pandas frame is matched by its index, as pandas does. One that is a
    column of the frame itself is that column.

    Parameters
    ----------
    data
        A pandas or polars frame, or a pyarrow table.
    name
        What the values are, and what the column is called; with ``_`` behind it where the frame
        has such a column.
    values
        A series, an array or a list, a value for each row.

    Returns
    -------
    tuple
        The frame, and the name of the column.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"sex": ["f", "m"]}, index=["a", "b"])
    >>> with_column(frame, "weights", pd.Series([1, 2], index=["b", "a"]))[0]["weights"].tolist()
    [2, 1]
    """
    kind = FrameKind.of(data).name
    if kind not in ("pandas", "polars", "lazy", "pyarrow") or not hasattr(data, "columns"):
        raise SpecError(
            f"{name} beside these data must be the name of a column; values can be given beside a "
            "pandas or polars frame, or a pyarrow table."
        )
    columns = data.column_names if kind == "pyarrow" else list(data.columns)
    if kind == "pandas" and type(values).__name__ == "Series" and hasattr(values, "reindex"):
        if values.name in columns and values.equals(data[values.name]):
            return data, str(values.name)
        values = _by_index(data, name, values)
    column = np.asarray(values)
    n_rows = None if kind == "lazy" else len(data)
    if column.ndim != 1 or n_rows not in (None, len(column)):
        held = f"{len(column):,} values" if column.ndim == 1 else f"shape {column.shape}"
        rows = "" if n_rows is None else f": the data have {n_rows:,}"
        raise SpecError(f"{name} has {held}; give one for each row of the data{rows}.")
    while name in columns:
        name += "_"
    if kind == "pandas":
        found = data.copy(deep=False)
        found[name] = column
        return found, name
    if kind == "pyarrow":
        return data.append_column(name, [column.tolist()]), name
    import polars as pl

    return data.with_columns(pl.Series(name, column)), name


def _by_index(data: Any, name: str, values: Any) -> Any:
    """Return the values of a series in the order of a pandas frame."""
    if values.index.equals(data.index):
        return values
    without = int((~data.index.isin(values.index)).sum())
    if without or not values.index.is_unique:
        said = f" ({without:,} of {len(data):,} rows have no value)" if without else ""
        raise SpecError(
            f"{name} has another index than the data, and pandas matches by index{said}. "
            "If the values are in the order of the rows, and one for each, give "
            f"{name}=values.to_numpy()."
        )
    return values.reindex(data.index)


def matrix_of(data: Any) -> AnyArray:
    """Return codes as a matrix (n_records, n_keys) of whole numbers; what is masked becomes -1."""
    try:
        codes = np.ma.asanyarray(data) if np.ma.isMaskedArray(data) else np.asarray(data)
    except ValueError:
        raise DataError("Each record needs a code for each key, -1 where missing.") from None
    if codes.ndim != 2 or not codes.size or codes.dtype.kind not in "iu":
        raise DataError(
            "Codes are whole numbers in a matrix, with a row for each record and a column for each "
            f"key, -1 where missing; got shape {codes.shape} of {codes.dtype}."
        )
    missing, plain = np.ma.getmaskarray(codes), np.ma.getdata(codes)
    for extreme in (plain.min(where=~missing, initial=0), plain.max(where=~missing, initial=0)):
        if not -1 <= extreme <= np.iinfo(np.int64).max:
            raise DataError(f"Codes are from 0, or -1 where missing; got {extreme}.")
    return np.where(missing, -1, plain.astype(np.int64))


def frame_of_codes(data: AnyArray, keys: str | Sequence[str]) -> pa.Table:
    """Return a matrix of codes as a frame.

    Parameters
    ----------
    data
        (n_records, n_keys) whole numbers, -1 where missing.
    keys
        The key of each column, as `read` takes keys.
    """
    import pyarrow as pa

    codes, named = matrix_of(data), split_keys(keys) if isinstance(keys, str) else keys
    names = [column_of(str(key)) for key in named or ()]
    if codes.shape[1] != len(names):
        raise DataError(
            f"A matrix of codes has a column for each key, and there are {len(names)} keys; got "
            f"shape {codes.shape}. Other columns, such as weights, need a frame."
        )
    columns = [pa.array(column, mask=column == -1) for column in codes.T]
    return pa.Table.from_arrays(columns, names=names)


FILE = FrameKind("pandas")
"""What a file gives."""
