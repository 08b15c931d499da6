"""Sources of rows: each gives DuckDB its key columns in order.

A source is opened once. Its key columns are seen by DuckDB as a view ``source`` with columns c0,
c1, ... (positions in the list of keys), so that no column name ever needs quoting and names that
differ in case only do not clash.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat._typing import AnyArray
from unikat.data.engine import literals, pattern, quoted, session
from unikat.data.names import NO_HEADER, like_record
from unikat.errors import DataError, brief, listed
from unikat.files.scratch import private

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


FILE_NUMBER = "file_index"
"""DuckDB's number of the file that a row is from; a column of this name would hide it."""

MOST_LETTERS = 2_000
"""Longest name of a column; what is longer is none, and would fill pages and messages."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What the source itself says of a column, as statistical packages and categoricals do."""

    order: tuple[object, ...] | None = None
    """Order of the levels (categories), of which not all need occur."""
    ordered: bool | None = None
    """Whether the source says that levels are ordered, as of an ordered factor; None: it does not
    say."""
    labels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[object, ...] = ()
    missing_ranges: tuple[tuple[float, float], ...] = ()


def categories_of(column: pa.ChunkedArray) -> Declared:
    """Tell the order of the categories of an Arrow column, and whether it means something."""
    import pyarrow as pa

    if not pa.types.is_dictionary(column.type) or not column.num_chunks:
        return Declared()
    column = column.unify_dictionaries()
    order = tuple(column.chunk(0).dictionary.to_pylist())
    return Declared(order=order, ordered=True if column.type.ordered else None)


def as_categories(
    values: pa.Array, order: Sequence[object], kind: pa.DictionaryType
) -> pa.DictionaryArray:
    """Give values as categories of an order; those that it lacks are put behind it."""
    import pyarrow as pa
    import pyarrow.compute as pc

    known = pa.array(order, kind.value_type)
    further = pc.unique(values.drop_null()).filter(
        pc.invert(pc.is_in(pc.unique(values.drop_null()), known))
    )
    levels = pa.concat_arrays([known, further])
    places = pc.index_in(values, levels).cast(kind.index_type)
    return pa.DictionaryArray.from_arrays(places, levels, ordered=kind.ordered)


class Source(ABC):
    """Rows in a fixed order, with named columns."""

    name: str
    """What it is called in messages."""
    columns: tuple[str, ...]
    decimal: str | None = None
    """What stands before the decimals in texts; None finds it out where it is unambiguous."""

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return []

    @property
    def queries(self) -> tuple[str, ...]:
        """What ran on the server of a database."""
        return ()

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is unsafe about reading from this source."""
        return ()

    @abstractmethod
    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns, renamed c0, c1, ..."""

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns; those that cannot be read are left out."""
        self.attach(connection, names)
        found = connection.sql(f"SELECT * FROM source LIMIT {n_rows}").to_arrow_table()
        return found.rename_columns(list(names))

    def values(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
        """Give the named columns in the types that the source has."""
        self.attach(connection, names)
        found = connection.sql("SELECT * FROM source").to_arrow_table()
        return found.rename_columns(list(names))

    @abstractmethod
    def native(self) -> Any:
        """Give the rows with all columns, as the kind of frame that was given."""

    def native_with(self, added: Mapping[str, AnyArray]) -> Any:
        """Give the rows with further columns (files: a pyarrow table)."""
        table: pa.Table = self.native()
        for name, values in added.items():
            table = table.append_column(name, [values])
        return table

    def declared(self, name: str) -> Declared:
        """Tell what the source itself says of a column."""
        return Declared()

    @property
    def holds_labels(self) -> bool:
        """Whether records that are written in its format can have labels of codes."""
        return False

    def missing_labels(self, name: str) -> Mapping[Any, str]:
        """Labels of the codes of a column that the source itself declares missing."""
        return {}

    keeps_letters = False
    """Whether records that are written in its format can have letters such as ``.a``."""

    def letters(self, names: Sequence[str]) -> dict[str, list[str | None]]:
        """Letters that say why numbers are missing, by row of columns that have some."""
        return {}

    def letters_counted(self, name: str) -> Mapping[str, int]:
        """Records of each letter, such as ``.a``, that says why a number is missing."""
        return {}

    def width(self, name: str) -> int | None:
        """Bytes that a column of text has room for; None if it has any number."""
        return None

    def check_unchanged(self) -> None:
        """Refuse to go on if the source is no longer what was read; frames stay as they are."""
        return

    def delete_copies(self) -> None:
        """Delete copies of rows on disk; what is asked for later is read from the source again."""
        return


def check_columns(columns: Sequence[str], name: str) -> tuple[str, ...]:
    """Refuse columns without names of their own (DataError)."""
    places: dict[str, list[str]] = {}
    for place, column in enumerate(columns, start=1):
        places.setdefault(column, []).append(f"{place:,}")
    twice = [alike for alike in places.values() if len(alike) > 1]
    if twice:
        # The first line of a file without a header is a record, so the names are not told.
        which = listed([f"columns {listed(alike, 3)}" for alike in twice], 3)
        if like_record(columns):
            raise DataError(f"{name}: {which} are called the same. {NO_HEADER}")
        raise DataError(
            f"{name} has {len(twice):,} column name(s) that occur more than once: {which} are "
            "called the same. Check that the first line names the columns, each differently."
        )
    if too_long := [place for place, column in enumerate(columns, 1) if len(column) > MOST_LETTERS]:
        raise DataError(
            f"{name}: the name of column {too_long[0]:,} has {len(columns[too_long[0] - 1]):,} "
            f"characters; names have at most {MOST_LETTERS:,}. Check that the first line names the "
            "columns, and rename this one."
        )
    if not columns:
        raise DataError(f"{name} has no columns; there is nothing to read.")
    return tuple(columns)


class FileSource(Source):
    """Files read by DuckDB itself; remembers what they looked like when they were opened."""

    def __init__(self, paths: Sequence[Path], name: str) -> None:
        self.paths = [path.resolve() for path in paths]
        self.name = brief(name)
        self._stamp = self._look()

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return self.paths

    def check_unchanged(self) -> None:
        """Refuse to go on if a file has another size or time than when it was opened."""
        try:
            same = self._look() == self._stamp
        except OSError:
            same = False
        if not same:
            raise DataError(f"{self.name} has changed since it was read; read it again.")

    def _look(self) -> list[tuple[int, int]]:
        return [(s.st_size, s.st_mtime_ns) for s in (path.stat() for path in self.paths)]


class ParquetSource(FileSource):
    """One or several Parquet files, their rows one after the other in order of file name."""

    def __init__(
        self,
        paths: Sequence[Path],
        name: str,
        made: Sequence[str] = (),
        values: Sequence[Sequence[str | None]] = (),
    ) -> None:
        """Describe the files.

        Parameters
        ----------
        paths, name
            Where they are, and what they are called in messages.
        made
            Columns that the names of their folders make.
        values
            Of these columns, for each file.
        """
        super().__init__(paths, name)
        self._made: list[str] = []
        self._categories: dict[str, Declared] = {}
        names = parquet_schema(self.paths[0], name).names
        check_columns(names, name)
        with session(self.files, name=name) as connection:
            described = connection.execute(f"DESCRIBE SELECT * FROM {self._relation}").fetchall()
        # DuckDB renames columns that differ in case only; their order stays.
        self._sql_names = [row[0] for row in described]
        for j in range(len(made)):
            sql_name = f"unikat folder {j}"
            levels = [one[j] for one in values]
            listed = ", ".join("NULL" if level is None else quoted(level) for level in levels)
            self._made.append(
                f"list_extract(CAST([{listed}] AS VARCHAR[]), CAST({FILE_NUMBER} AS BIGINT) + 1) "
                f"AS {identifier(sql_name)}"
            )
            self._sql_names.append(sql_name)
        self.columns = check_columns([*names, *made], name)

    @property
    def _relation(self) -> str:
        paths = literals([pattern(path) for path in self.paths])
        # The values that DuckDB takes from names of folders would replace columns of the files.
        files = f"read_parquet({paths}, hive_partitioning = false)"
        return f"(SELECT *, {', '.join(self._made)} FROM {files})" if self._made else files

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        columns = [identifier(self._sql_names[self.columns.index(name)]) for name in names]
        listed = ", ".join(f"{column} AS c{j}" for j, column in enumerate(columns))
        connection.execute(f"CREATE TEMP VIEW source AS SELECT {listed} FROM {self._relation}")

    def values(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
        """Give the named columns in the types that the first file has."""
        import pyarrow.parquet as pq

        table = super().values(connection, names)
        schema = pq.read_schema(self.paths[0])
        for place, name in enumerate(names):
            if schema.get_field_index(name) < 0:
                continue
            field = schema.field(name)
            order = self.declared(name).order
            if order is None:
                column = table[name].cast(field.type)
            else:
                # Arrow alone would number the categories as they occur.
                plain = table[name].cast(field.type.value_type).combine_chunks()
                column = as_categories(plain, order, field.type)
            table = table.set_column(place, field, column)
        return table

    def declared(self, name: str) -> Declared:
        """Tell the order of the categories of a column, as the first file has it."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        schema = parquet_schema(self.paths[0], self.name)
        if name not in schema.names or not pa.types.is_dictionary(schema.field(name).type):
            return Declared()
        if name not in self._categories:
            column = pq.read_table(self.paths[0], columns=[name], partitioning=None)[name]
            self._categories[name] = categories_of(column)
        return self._categories[name]

    def native(self) -> Any:
        """Give the rows with all columns."""
        self.check_unchanged()
        with session(self.files, name=self.name) as connection:
            table = connection.sql(f"SELECT * FROM {self._relation}").to_arrow_table()
        return table.rename_columns(list(self.columns))


def parquet_schema(path: Path, name: str) -> pa.Schema:
    """Columns of a Parquet file, which messages call `name`, and their types.

    Raises
    ------
    DataError
        If it is none.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError):
        raise DataError(
            f"{brief(name)} cannot be read as Parquet. The file may be damaged or not "
            "of the format its name says; write it again from its source."
        ) from None


class CsvSource(FileSource):
    """A delimited text file. Its key columns are put aside as Parquet, so it is parsed once."""

    def __init__(
        self,
        path: Path,
        *,
        name: str,
        text: Path,
        columns: Sequence[str],
        delimiter: str,
        encoding: str,
        folder: Path,
        transcode: Callable[[], None] | None = None,
    ) -> None:
        """Describe the file.

        Parameters
        ----------
        path, name
            The file, and what messages call it.
        text
            The UTF-8 file to parse: the same or a transcoded copy.
        columns, delimiter, encoding
            Names in the header, the character between fields, and the encoding of the file.
        folder
            Temporary folder for copies of the keys; it has to outlive this source.
        transcode
            Makes the transcoded copy, again if it was deleted.
        """
        super().__init__([path], name)
        self.columns = check_columns(columns, name)
        self.text = text.resolve()
        self.delimiter, self.encoding = delimiter, encoding
        self._transcode = transcode
        self._aside = folder / "keys.parquet"
        self._kept: tuple[str, ...] | None = None

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return [self.text, self._aside]

    @property
    def relation(self) -> str:
        """What DuckDB selects from: columns f0, f1, ... of text."""
        # Everything is declared, because a guess made from the first rows can be wrong below.
        columns = ", ".join(f"'f{j}': 'VARCHAR'" for j in range(len(self.columns)))
        packed = "gzip" if self.text.suffix == ".gz" else "none"
        return (
            f"read_csv({quoted(pattern(self.text))}, auto_detect = false, header = true, "
            f"delim = {quoted(self.delimiter)}, quote = '\"', escape = '\"', "
            f"compression = '{packed}', columns = {{{columns}}})"
        )

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        if self._kept != tuple(names):
            self.need_text()
            listed = ", ".join(
                f"f{self.columns.index(name)} AS c{j}" for j, name in enumerate(names)
            )
            self._kept = None
            # Where the file is there already, DuckDB would write beside it, which is not allowed.
            connection.execute(
                f"COPY (SELECT {listed} FROM {self.relation}) "
                f"TO {quoted(str(private(self._aside)))} "
                "(FORMAT parquet, USE_TMP_FILE false)"
            )
            self._kept = tuple(names)
        connection.execute(
            f"CREATE TEMP VIEW source AS SELECT * FROM read_parquet({quoted(pattern(self._aside))})"
        )

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns, which are not put aside."""
        self.need_text()
        listed = ", ".join(f"f{self.columns.index(name)}" for name in names)
        query = f"SELECT {listed} FROM {self.relation} LIMIT {n_rows}"
        return connection.sql(query).to_arrow_table().rename_columns(list(names))

    def native(self) -> Any:
        """Give the rows with all columns."""
        self.check_unchanged()
        self.need_text()
        with session(self.files, name=self.name) as connection:
            table = connection.sql(f"SELECT * FROM {self.relation}").to_arrow_table()
        return table.rename_columns(list(self.columns))

    def delete_copies(self) -> None:
        """Delete the columns put aside and the transcoded copy."""
        self._kept = None
        self._aside.unlink(missing_ok=True)
        if self._transcode is not None:
            self.text.unlink(missing_ok=True)

    def need_text(self) -> None:
        """Make the transcoded copy again if it was deleted."""
        if self._transcode is not None and not self.text.exists():
            self._transcode()


class ArrowSource(Source):
    """Base of sources that hand over their key columns as an Arrow table."""

    @abstractmethod
    def columns_of(self, names: Sequence[str]) -> pa.Table:
        """Give the named columns."""

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        table = self.columns_of(names).rename_columns([f"c{j}" for j in range(len(names))])
        connection.register("source", table)

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns; those that cannot be read are left out."""
        return self.columns_of(names).slice(0, n_rows)

    def values(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
        """Give the named columns in the types that the source has."""
        return self.columns_of(names)

    def declared(self, name: str) -> Declared:
        """Tell what the source itself says of a column."""
        return categories_of(self.columns_of([name]).column(0))


class FrameSource(ArrowSource):
    """A frame in memory: pandas, polars, pyarrow, or a DuckDB relation brought into memory."""

    def __init__(self, frame: Any, *, kind: str, name: str = "The data frame") -> None:
        """Wrap a narwhals eager frame.

        `kind` is ``"eager"``, ``"lazy"`` (polars, given back lazy) or ``"relation"`` (DuckDB,
        given back as a relation on DuckDB's default connection).
        """
        self._frame = frame
        self._kind = kind
        self.name = name
        self.columns = check_columns(list(frame.columns), name)

    def columns_of(self, names: Sequence[str]) -> pa.Table:
        """Give the named columns."""
        import pyarrow as pa

        taken = {}
        for name in names:
            try:
                taken[name] = self._arrow(name)
            except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
                raise DataError(
                    f"{self.name}, column {name!r}: its values are of several types. Convert the "
                    "column to one type, for example to strings."
                ) from None
        return pa.table(taken)

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns; those that cannot be read are left out."""
        import pyarrow as pa

        head = FrameSource(self._frame.head(n_rows), kind="eager", name=self.name)
        taken = {}
        for name in names:
            # A column of several types matters only if it is used.
            with contextlib.suppress(DataError):
                taken[name] = head.columns_of([name]).column(0)
        return pa.table(taken)

    def declared(self, name: str) -> Declared:
        """Tell what the source itself says of a column."""
        import narwhals.stable.v2 as nw

        # The categories of a polars Categorical are in order of appearance, which says nothing.
        if self._frame.implementation.is_polars() and self._frame.schema[name] == nw.Categorical:
            return Declared()
        return super().declared(name)

    def _arrow(self, name: str) -> pa.Array | pa.ChunkedArray:
        """Give a column, categories that are intervals (of pandas.cut, say) as their text."""
        import pyarrow as pa

        if self._frame.implementation.is_pandas():
            import pandas as pd

            column = self._frame.to_native()[name]
            if isinstance(column.dtype, pd.IntervalDtype):
                column = column.astype("category")
            categories = getattr(column.dtype, "categories", None)
            if categories is not None and isinstance(categories.dtype, pd.IntervalDtype):
                return pa.Array.from_pandas(column.cat.rename_categories(str))
        return self._frame.select(name).to_arrow().column(0)

    def native(self) -> Any:
        """Give the rows with all columns."""
        return self._given_back(self._frame)

    def native_with(self, added: Mapping[str, AnyArray]) -> Any:
        """Give the rows with further columns."""
        import narwhals.stable.v2 as nw

        backend = self._frame.implementation
        series = [nw.new_series(name, values, backend=backend) for name, values in added.items()]
        return self._given_back(self._frame.with_columns(*series))

    def _given_back(self, frame: Any) -> Any:
        if self._kind == "lazy":
            return frame.lazy().to_native()
        if self._kind == "relation":
            import duckdb

            return duckdb.from_arrow(frame.to_native())
        return frame.to_native()


class TableSource(ArrowSource, FileSource):
    """A file as an Arrow table: in memory, or mapped where it is an Arrow file not compressed."""

    def __init__(self, path: Path, table: pa.Table) -> None:
        FileSource.__init__(self, [path], path.name)
        self._table = table
        self.columns = check_columns(table.column_names, path.name)

    def columns_of(self, names: Sequence[str]) -> pa.Table:
        """Give the named columns."""
        return self._table.select(list(names))

    def native(self) -> Any:
        """Give the rows with all columns."""
        return self._table


class LoadedSource(ArrowSource, FileSource):
    """Base of files that another library reads; their key columns are read once."""

    _cache: tuple[tuple[str, ...], pa.Table] | None = None

    @abstractmethod
    def load(self, names: Sequence[str], n_rows: int | None = None) -> pa.Table:
        """Read the named columns from the file; with `n_rows` these first rows alone."""

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns; the keys that were read are kept."""
        return self.load(names, n_rows)

    def columns_of(self, names: Sequence[str]) -> pa.Table:
        """Give the named columns."""
        wanted = tuple(names)
        # The keys are read together once; what is asked of single columns comes from there.
        if self._cache is None or not set(wanted) <= set(self._cache[0]):
            self._cache = (wanted, self.load(wanted))
        return self._cache[1].select(list(wanted))

    def native(self) -> Any:
        """Give the rows with all columns."""
        return self.load(self.columns)


def identifier(name: str) -> str:
    """SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
