"""Tables of SQLite and DuckDB files, opened to be read only."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence, Set
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.data.engine import (
    DEFAULT_MEMORY,
    quoted,
    session,
    within,
)
from unikat.data.numbers import as_text
from unikat.data.parts import choose
from unikat.data.queries import check_one, failing_column, refused, relation_of, without_values
from unikat.data.sources import (
    Declared,
    FileSource,
    LoadedSource,
    Source,
    TableSource,
    check_columns,
    identifier,
)
from unikat.errors import DataError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_BATCH = 1 << 16
"""Rows taken from SQLite at a time, at most."""
_BATCH_BYTES = 1 << 24
"""Letters and bytes of their values after which a batch ends."""
_ROWS = 2048
"""Rows taken from DuckDB at a time; it makes as many at once."""
_HINTS = (" NOT INDEXED", "")
"""What lets the rows of a table, and of a view, come in their order."""
_READS = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE)
_NO_FUNCTIONS = ("load_extension", "fts3_tokenizer", "readfile", "writefile", "edit")


class SqliteSource(LoadedSource):
    """A table or a view of an SQLite file.

    Columns of an SQLite table may hold values of several types. Whole numbers and others together
    are numbers, and numbers and text together are text.
    """

    def __init__(
        self,
        path: Path,
        table: str | None,
        query: str | None,
        memory_limit: str = DEFAULT_MEMORY,
    ) -> None:
        FileSource.__init__(self, [path], path.name)
        self._limit = memory_limit
        self._is_view = True
        self._query = query
        if query is not None:
            check_one(table)
            self._relation = relation_of(query)
        with self._opened() as connection:
            kinds = dict(
                connection.execute(
                    "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') "
                    "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
                )
            )
            if query is None:
                chosen = choose(list(kinds), table, what="table", file=self.name)
                self._relation, self._is_view = identifier(chosen), kinds[chosen] == "view"
            try:
                rows = connection.execute(f"SELECT * FROM {self._relation} LIMIT 0")
            except sqlite3.OperationalError as error:
                if query is None or not _is_of_query(error):
                    raise
                raise refused(without_values(error, query), self.name) from None
        self.columns = check_columns([column[0] for column in rows.description], self.name)

    def load(self, names: Sequence[str], n_rows: int | None = None) -> pa.Table:
        """Read the named columns from the file; with `n_rows` these first rows alone."""
        import pyarrow as pa

        with self._opened() as connection:
            types = [self._types(connection, name, n_rows) for name in names]
            schema = pa.schema(
                [(name, _arrow_type(found)) for name, found in zip(names, types, strict=True)]
            )
            texts = [j for j, found in enumerate(types) if found & {"text", "blob"}]
            batches = (
                pa.record_batch(
                    [
                        pa.array(_converted(column, found), field.type)
                        for column, found, field in zip(
                            zip(*rows, strict=True), types, schema, strict=True
                        )
                    ],
                    schema=schema,
                )
                for rows in self._rows(connection, names, texts, n_rows)
            )
            return pa.Table.from_batches(within(batches, self.name, self._limit), schema=schema)

    def _types(
        self, connection: sqlite3.Connection, name: str, n_rows: int | None = None
    ) -> set[str]:
        table, column = self._relation, identifier(name)
        if n_rows is not None:
            table = f"(SELECT {column} FROM {table}{_HINTS[self._is_view]} LIMIT {n_rows})"
        rows = connection.execute(
            f"SELECT DISTINCT typeof({column}) FROM {table} WHERE {column} <> ''"
        )
        return {row[0] for row in rows}

    def _rows(
        self,
        connection: sqlite3.Connection,
        names: Sequence[str],
        texts: Sequence[int],
        n_rows: int | None,
    ) -> Iterator[list[tuple[Any, ...]]]:
        """Give the rows in batches; `texts` are the places of columns that may hold long values."""
        # An index that holds some columns could give its rows in another order, and so could a
        # view of which only some columns are asked for.
        if self._is_view:
            listed = "*"
            places = [self.columns.index(name) for name in names]
        else:
            listed = ", ".join(map(identifier, names))
            places = list(range(len(names)))
        query = f"SELECT {listed} FROM {self._relation}{_HINTS[self._is_view]}"
        if n_rows is not None:
            query += f" LIMIT {n_rows}"
        batch: list[tuple[Any, ...]] = []
        size = 0
        for row in connection.execute(query):
            batch.append(taken := tuple(row[place] for place in places))
            for j in texts:
                if isinstance(value := taken[j], (str, bytes)):
                    size += len(value)
            if len(batch) == _BATCH or size > _BATCH_BYTES:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch

    @contextmanager
    def _opened(self) -> Iterator[sqlite3.Connection]:
        path = self.paths[0]
        # Without a journal nothing is locked, and no file is made beside this one.
        pending = any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal"))
        connection = None
        try:
            address = f"{path.as_uri()}?mode=ro{'' if pending else '&immutable=1'}"
            connection = sqlite3.connect(address, uri=True)
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA query_only = ON")
            connection.set_authorizer(_only_reads)
            yield connection
        # Names of columns and messages of damaged files need not be text.
        except (sqlite3.Error, UnicodeDecodeError) as error:
            if "UTF-8 column" in str(error):
                raise DataError(
                    f"{self.name}: the table holds text that is not UTF-8; correct it, or export "
                    "the table as CSV and name its encoding."
                ) from None
            if self._query is not None and _is_of_query(error):
                raise refused("a value cannot be computed as it asks", self.name) from None
            raise DataError(
                f"{self.name} cannot be read as an SQLite database. The file may be damaged, in "
                "use by another program, or not of the format its name says; write it again, or "
                "export the table as CSV."
            ) from None
        finally:
            if connection is not None:
                connection.close()


def _is_of_query(error: Exception) -> bool:
    """Whether the query is to blame, and not the file."""
    return getattr(error, "sqlite_errorname", "") in (
        "SQLITE_ERROR",
        "SQLITE_AUTH",
        "SQLITE_TOOBIG",
    )


def _only_reads(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    """Let SQLite read and compute, and nothing else."""
    allowed = action in _READS or (
        action == sqlite3.SQLITE_FUNCTION and str(second).lower() not in _NO_FUNCTIONS
    )
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _arrow_type(types: Set[str]) -> pa.DataType:
    """Type of a column whose values have these types of SQLite."""
    import pyarrow as pa

    if "blob" in types:
        return pa.binary()
    if "text" in types:
        return pa.string()
    return pa.float64() if "real" in types else pa.int64()


def _converted(values: Sequence[Any], types: Set[str]) -> list[Any]:
    """Values of one type, None for empty text."""
    kept = [None if value == "" else value for value in values]
    if "blob" in types:
        return [value.encode() if isinstance(value, str) else value for value in kept]
    if "text" in types:
        return [None if value is None else as_text(value) for value in kept]
    return [None if value is None else float(value) for value in kept] if "real" in types else kept


class DuckDbSource(FileSource):
    """A table of a DuckDB file, whose rows DuckDB gives in a fixed order."""

    def __init__(self, path: Path, table: str) -> None:
        """Describe the table, whose name is SQL already."""
        super().__init__([path], path.name)
        self._table = table
        with self._opened() as connection:
            rows = connection.execute(f"DESCRIBE original.{table}").fetchall()
        self.columns = check_columns([row[0] for row in rows], self.name)
        self._enums = [row[0] for row in rows if row[1].startswith("ENUM(")]

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read: what is not in the file yet lies beside it."""
        return [self.paths[0], Path(f"{self.paths[0]}.wal")]

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        attach_read_only(connection, self.paths[0])
        listed = ", ".join(f"{identifier(name)} AS c{j}" for j, name in enumerate(names))
        connection.execute(
            f"CREATE TEMP VIEW source AS SELECT {listed} FROM original.{self._table}"
        )

    def declared(self, name: str) -> Declared:
        """Tell the order of the levels of an ENUM."""
        if name not in self._enums:
            return Declared()
        column = identifier(name)
        with self._opened() as connection:
            rows = connection.execute(
                f"SELECT unnest(enum_range({column}))::VARCHAR "
                f"FROM (SELECT {column} FROM original.{self._table} LIMIT 1)"
            ).fetchall()
        return Declared(order=tuple(row[0] for row in rows), ordered=True)

    def native(self) -> Any:
        """Give the rows with all columns."""
        with self._opened() as connection:
            return connection.sql(f"SELECT * FROM original.{self._table}").to_arrow_table()

    @contextmanager
    def _opened(self) -> Iterator[duckdb.DuckDBPyConnection]:
        with session(self.files, name=self.name) as connection:
            attach_read_only(connection, self.paths[0])
            yield connection


def open_duckdb(
    path: Path, table: str | None, query: str | None, memory_limit: str = DEFAULT_MEMORY
) -> Source:
    """Open a table of a DuckDB file; views and queries are brought into memory, up to the limit.

    Their rows need not come in the same order twice.
    """
    path = path.resolve()
    if query is not None:
        check_one(table)
        relation = relation_of(query)
    files = [path, Path(f"{path}.wal")]
    with session(files, name=path.name, memory_limit=memory_limit) as connection:
        attach_read_only(connection, path)
        if query is not None:
            connection.execute("USE original")
            answer = _answer(connection, relation, query, path.name, memory_limit)
            return TableSource(path, answer)
        rows = connection.execute(
            "SELECT schema_name, table_name, false FROM duckdb_tables() "
            "WHERE database_name = 'original' AND NOT internal UNION ALL "
            "SELECT schema_name, view_name, true FROM duckdb_views() "
            "WHERE database_name = 'original' AND NOT internal ORDER BY ALL"
        ).fetchall()
        views = {}
        places = {}
        for schema, name, is_view in rows:
            called = name if schema == "main" else f"{schema}.{name}"
            places[called] = f"{identifier(schema)}.{identifier(name)}"
            views[called] = is_view
        chosen = choose(list(places), table, what="table", file=path.name)
        if not views[chosen]:
            return DuckDbSource(path, places[chosen])
        asked = connection.sql(f"SELECT * FROM original.{places[chosen]}")
        return TableSource(path, _held(asked, path.name, memory_limit))


def _held(asked: duckdb.DuckDBPyRelation, name: str, memory_limit: str) -> pa.Table:
    """Bring rows into memory; what is too much is noticed as it comes (DataError)."""
    import duckdb
    import pyarrow as pa

    try:
        reader = asked.to_arrow_reader(_ROWS)
        return pa.Table.from_batches(within(reader, name, memory_limit), schema=reader.schema)
    except (OSError, pa.ArrowException) as error:
        # Arrow passes DuckDB's errors on as its own: "Out of Range Error: ...".
        kind = re.sub(r"\W", "", str(error).partition(" Error:")[0]).casefold()
        kinds = {called.casefold(): one for called, one in vars(duckdb).items()}
        raise kinds.get(f"{kind}exception", duckdb.Error)(str(error)) from None


def _answer(
    connection: duckdb.DuckDBPyConnection, relation: str, query: str, name: str, memory_limit: str
) -> pa.Table:
    """Run a query, which was checked."""
    import duckdb

    def ask(listed: str) -> duckdb.DuckDBPyRelation:
        # What is run is the one statement that was parsed, and no text.
        (statement,) = connection.extract_statements(f"SELECT {listed} FROM {relation}")
        return connection.sql(statement)

    try:
        asked = ask("*")
    except duckdb.PermissionException:
        raise
    except duckdb.Error as error:
        raise refused(without_values(error, query), name) from None
    try:
        return _held(asked, name, memory_limit)
    except (
        duckdb.ConversionException,
        duckdb.InvalidInputException,
        duckdb.NotImplementedException,
        duckdb.OutOfRangeException,
    ):
        where = failing_column(
            asked.columns, lambda column: ask(f"count({identifier(column)})").fetchall()
        )
        raise refused(f"{where}a value cannot be computed as it asks", name) from None


def attach_read_only(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    """Attach a DuckDB file as ``original``.

    Raises
    ------
    DataError
        If it is in use, damaged, or of another version.
    """
    import duckdb

    try:
        connection.execute(f"ATTACH {quoted(str(path))} AS original (READ_ONLY)")
    except duckdb.Error as error:
        reason = (
            "Another program has it open for writing; close that."
            if "lock" in str(error)
            else "The file may be damaged, of a version of DuckDB newer than "
            f"{duckdb.__version__}, or not of the format its name says; export the table as "
            "Parquet."
        )
        raise DataError(f"{path.name} cannot be opened as a DuckDB database. {reason}") from None
