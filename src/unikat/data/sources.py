"""Sources of rows: each gives DuckDB its key columns in order.

Five kinds differ: what DuckDB reads itself (`RelationSource`), what a reader brings into memory
(`TableSource`) or gives in batches (`unikat.data.streams`), text (`unikat.data.text_files`), and
tables of a server (`unikat.data.postgres`). Readers of formats are functions that make one.

A source is opened once. Its key columns are seen by DuckDB as a view ``source`` with columns c0,
c1, ... (positions in the list of keys), so that no column name ever needs quoting and names that
differ in case only do not clash.
"""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat._typing import AnyArray
from unikat.data.engine import DEFAULT_MEMORY, session
from unikat.data.names import NO_HEADER, like_record
from unikat.errors import DataError, brief, listed

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


MOST_LETTERS = 2_000
"""Longest name of a column; what is longer is none, and would fill pages and messages."""


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What the source itself says of a column, as statistical packages and categoricals do.

    Examples
    --------
    >>> Declared(order=("low", "high"), ordered=True, title="Level of income").missing
    ()
    """

    order: tuple[object, ...] | None = None
    """Order of the levels (categories), of which not all need occur."""
    ordered: bool | None = None
    """Whether the source says that levels are ordered, as of an ordered factor; None: it does not
    say."""
    measure: str = ""
    """What a statistical file calls the column: `nominal`, `ordinal` or `scale`; else empty."""
    title: str = ""
    """Label of the column itself in a statistical file: `Age in years`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[object, ...] = ()
    missing_ranges: tuple[tuple[float, float], ...] = ()
    missing_labels: Mapping[Any, str] = field(default_factory=dict)
    """Labels of the codes that are declared missing."""
    width: int | None = None
    """Bytes that a column of text has room for; None: any number."""


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
    """Rows in a fixed order, with named columns.

    Parameters
    ----------
    name
        What messages call it.
    columns
        Names of the columns.
    paths
        The files it is made of; what they look like now is remembered.
    format
        Of the files, as `read` names it; else what kind of data it is.
    """

    decimal: str | None = None
    """What stands before the decimals in texts; None finds it out where it is unambiguous."""
    queries: tuple[str, ...] = ()
    """What ran on the server of a database."""
    warnings: tuple[str, ...] = ()
    """What is unsafe about reading from this source."""
    holds_labels = False
    """Whether records that are written in its format can have labels of codes."""
    keeps_letters = False
    """Whether records that are written in its format can have letters such as ``.a``."""

    def __init__(
        self, name: str, columns: Sequence[str], *, paths: Sequence[Path] = (), format: str
    ) -> None:
        self.name, self.format = name, format
        self.paths = [path.resolve() for path in paths]
        self._stamp = self._look()
        self.columns = check_columns(columns, name)

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return self.paths

    @abstractmethod
    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns, renamed c0, c1, ..."""

    @contextlib.contextmanager
    def session(
        self,
        names: Sequence[str] | None = None,
        *,
        memory_limit: str = DEFAULT_MEMORY,
        threads: int | None = None,
    ) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a session of DuckDB (see `engine.session`), with the view of some columns."""
        with session(
            self.files, name=self.name, memory_limit=memory_limit, threads=threads
        ) as connection:
            if names is not None:
                self.attach(connection, names)
            yield connection

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

    def letters(self, names: Sequence[str]) -> dict[str, list[str | None]]:
        """Letters that say why numbers are missing, by row of columns that have some."""
        return {}

    def letters_counted(self, name: str) -> Mapping[str, int]:
        """Records of each letter, such as ``.a``, that says why a number is missing."""
        found = Counter(letter for letter in self.letters([name]).get(name, ()) if letter)
        return dict(found.most_common())

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

    def delete_copies(self) -> None:
        """Delete copies of rows on disk; what is asked for later is read from the source again."""
        return


class RelationSource(Source):
    """What DuckDB reads itself and gives in a fixed order: Parquet, or a table of a DuckDB file.

    Parameters
    ----------
    name, columns, paths, format
        As of `Source`.
    beside
        Further files that DuckDB must be allowed to read.
    relation
        What DuckDB selects from.
    sql_names
        Names of the columns there.
    prepare
        Makes the relation known to a connection.
    declare
        Tells what the file says of a column.
    typed
        Brings a table into the types of the file.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        *,
        paths: Sequence[Path],
        format: str,
        relation: str,
        sql_names: Sequence[str],
        declare: Callable[[str], Declared],
        prepare: Callable[[duckdb.DuckDBPyConnection], None] = lambda _: None,
        typed: Callable[[pa.Table], pa.Table] = lambda table: table,
        beside: Sequence[Path] = (),
    ) -> None:
        super().__init__(name, columns, paths=paths, format=format)
        self._beside = tuple(beside)
        self._relation, self._sql_names = relation, tuple(sql_names)
        self._prepare, self._declare, self._typed = prepare, declare, typed
        self._declared: dict[str, Declared] = {}

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return [*self.paths, *self._beside]

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        self._prepare(connection)
        columns = [identifier(self._sql_names[self.columns.index(name)]) for name in names]
        listed = ", ".join(f"{column} AS c{j}" for j, column in enumerate(columns))
        connection.execute(f"CREATE TEMP VIEW source AS SELECT {listed} FROM {self._relation}")

    def values(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
        """Give the named columns in the types that the file has."""
        return self._typed(super().values(connection, names))

    def declared(self, name: str) -> Declared:
        """Tell what the file says of a column."""
        if name not in self._declared:
            self._declared[name] = self._declare(name)
        return self._declared[name]

    def native(self) -> Any:
        """Give the rows with all columns."""
        self.check_unchanged()
        with self.session() as connection:
            self._prepare(connection)
            table = connection.sql(f"SELECT * FROM {self._relation}").to_arrow_table()
        return table.rename_columns(list(self.columns))


class TableSource(Source):
    """What a reader brings into memory as an Arrow table, the columns of the keys once.

    Parameters
    ----------
    name, columns, paths, format
        As of `Source`.
    load
        The reader: takes names of columns, and how many of the first rows, None for all.
    check
        Refuses columns that cannot be used.
    """

    def __init__(
        self,
        name: str,
        columns: Sequence[str],
        load: Callable[[Sequence[str], int | None], pa.Table],
        *,
        paths: Sequence[Path] = (),
        format: str,
        check: Callable[[Sequence[str]], None] = lambda _: None,
    ) -> None:
        super().__init__(name, columns, paths=paths, format=format)
        self._load, self._check = load, check
        self._cache: tuple[tuple[str, ...], pa.Table] | None = None

    @classmethod
    def of(cls, path: Path, table: pa.Table, format: str) -> TableSource:
        """Describe a file that is in memory already, or mapped."""
        return cls(
            brief(path.name),
            table.column_names,
            lambda names, n_rows: table.select(list(names)).slice(0, n_rows),
            paths=[path],
            format=format,
        )

    def columns_of(self, names: Sequence[str]) -> pa.Table:
        """Give the named columns."""
        self._check(names)
        wanted = tuple(names)
        # The keys are read together once; what is asked of single columns comes from there.
        if self._cache is None or not set(wanted) <= set(self._cache[0]):
            self._cache = (wanted, self._load(wanted, None))
        return self._cache[1].select(list(wanted))

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns; letters of c0 are in a0."""
        import pyarrow as pa

        table = self.columns_of(names).rename_columns([f"c{j}" for j in range(len(names))])
        letters = self.letters(names)
        for j, name in enumerate(names):
            if name in letters:
                table = table.append_column(f"a{j}", pa.array(letters[name], pa.string()))
        connection.register("source", table)

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns; the keys that were read are kept."""
        return self._load(names, n_rows)

    def values(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
        """Give the named columns in the types that the source has."""
        return self.columns_of(names)

    def declared(self, name: str) -> Declared:
        """Tell what the source itself says of a column."""
        return categories_of(self.columns_of([name]).column(0))

    def native(self) -> Any:
        """Give the rows with all columns."""
        return self._load(self.columns, None)


class FrameSource(TableSource):
    """A frame in memory: pandas, polars, pyarrow, or a DuckDB relation brought into memory."""

    def __init__(self, frame: Any, *, kind: str, name: str = "The data frame") -> None:
        """Wrap a narwhals eager frame.

        `kind` is ``"eager"``, ``"lazy"`` (polars, given back lazy) or ``"relation"`` (DuckDB,
        given back as a relation on DuckDB's default connection).
        """
        self._frame = frame
        self._kind = kind
        super().__init__(name, frame.columns, self._head, format="frame")

    def columns_of(self, names: Sequence[str]) -> pa.Table:
        """Give the named columns, which the frame keeps itself."""
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

    def _head(self, names: Sequence[str], n_rows: int | None) -> pa.Table:
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


def identifier(name: str) -> str:
    """SQL identifier."""
    return '"' + name.replace('"', '""') + '"'
