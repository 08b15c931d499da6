"""Tables of SQLite and DuckDB files, opened to be read only."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterable, Iterator, Sequence, Set
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.data.engine import (
    DEFAULT_MEMORY,
    quoted,
    session,
    within,
)
from unikat.data.names import choose_table
from unikat.data.numbers import as_text
from unikat.data.queries import (
    check_one,
    failing_column,
    refused,
    relation_of,
    took_too_long,
    without_values,
)
from unikat.data.sources import (
    Declared,
    RelationSource,
    Source,
    TableSource,
    identifier,
)
from unikat.errors import DataError, brief
from unikat.interrupts import within_patience

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


def open_sqlite(
    path: Path, table: str | None, query: str | None, memory_limit: str = DEFAULT_MEMORY
) -> TableSource:
    """Open a table, a view or a query of an SQLite file.

    Columns of an SQLite table may hold values of several types. Whole numbers and others together
    are numbers, and numbers and text together are text.
    """
    path, name = path.resolve(), brief(path.name)
    is_view = True
    if query is not None:
        check_one(table)
        relation = relation_of(query)
    with _sqlite(path, query) as connection:
        kinds = dict(
            connection.execute(
                "SELECT name, type FROM sqlite_schema WHERE type IN ('table', 'view') "
                "AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\' ORDER BY name"
            )
        )
        if query is None:
            chosen = choose_table(list(kinds), table, what="table", file=name)
            relation, is_view = identifier(chosen), kinds[chosen] == "view"
        try:
            rows = connection.execute(f"SELECT * FROM {relation} LIMIT 0")
        except sqlite3.OperationalError as error:
            if query is None or not _is_of_query(error):
                raise
            raise refused(without_values(error, query), name) from None
    columns = [column[0] for column in rows.description]

    def load(names: Sequence[str], n_rows: int | None) -> pa.Table:
        import pyarrow as pa

        with _sqlite(path, query, computed=is_view) as connection:
            types = [_types(connection, relation, is_view, one, n_rows) for one in names]
            # An index that holds some columns could give its rows in another order, and so could a
            # view of which only some columns are asked for.
            listed = "*" if is_view else ", ".join(map(identifier, names))
            places = [columns.index(one) if is_view else j for j, one in enumerate(names)]
            limit = "" if n_rows is None else f" LIMIT {n_rows}"
            rows = connection.execute(f"SELECT {listed} FROM {relation}{_HINTS[is_view]}{limit}")
            schema = pa.schema(
                [(one, _arrow_type(found)) for one, found in zip(names, types, strict=True)]
            )
            batches = _batches(rows, places, types, schema)
            return pa.Table.from_batches(within(batches, name, memory_limit), schema=schema)

    return TableSource(name, columns, load, paths=[path], format="sqlite")


def _types(
    connection: sqlite3.Connection, relation: str, is_view: bool, name: str, n_rows: int | None
) -> set[str]:
    """Types that the values of a column have, of all rows or the first."""
    column = identifier(name)
    if n_rows is not None:
        relation = f"(SELECT {column} FROM {relation}{_HINTS[is_view]} LIMIT {n_rows})"
    rows = connection.execute(
        f"SELECT DISTINCT typeof({column}) FROM {relation} WHERE {column} <> ''"
    )
    return {row[0] for row in rows}


def _batches(
    rows: Iterable[tuple[Any, ...]],
    places: Sequence[int],
    types: Sequence[Set[str]],
    schema: pa.Schema,
) -> Iterator[pa.RecordBatch]:
    """Give rows in batches, which end early where columns hold long texts."""
    import pyarrow as pa

    texts = [j for j, found in enumerate(types) if found & {"text", "blob"}]

    def batch(rows: list[tuple[Any, ...]]) -> pa.RecordBatch:
        columns = zip(zip(*rows, strict=True), types, schema, strict=True)
        return pa.record_batch(
            [pa.array(_converted(column, found), field.type) for column, found, field in columns],
            schema=schema,
        )

    here: list[tuple[Any, ...]] = []
    size = 0
    for row in rows:
        here.append(taken := tuple(row[place] for place in places))
        size += sum(len(taken[j]) for j in texts if isinstance(taken[j], (str, bytes)))
        if len(here) == _BATCH or size > _BATCH_BYTES:
            yield batch(here)
            here, size = [], 0
    if here:
        yield batch(here)


@contextmanager
def _sqlite(
    path: Path, query: str | None, *, computed: bool = False
) -> Iterator[sqlite3.Connection]:
    """Open the file to be read only; errors leave as messages without values.

    `computed`: of a query or view, which may never end; a page does not wait for that.
    """
    name = brief(path.name)
    # Without a journal nothing is locked, and no file is made beside this one.
    pending = any(Path(f"{path}{end}").exists() for end in ("-wal", "-journal"))
    connection = None
    try:
        address = f"{path.as_uri()}?mode=ro{'' if pending else '&immutable=1'}"
        connection = sqlite3.connect(address, uri=True)
        connection.execute("PRAGMA trusted_schema = OFF")
        connection.execute("PRAGMA query_only = ON")
        connection.set_authorizer(_only_reads)
        with within_patience(connection.interrupt) if computed else nullcontext():
            yield connection
    # Names of columns and messages of damaged files need not be text.
    except (sqlite3.Error, UnicodeDecodeError) as error:
        if "UTF-8 column" in str(error):
            raise DataError(
                f"{name}: the table holds text that is not UTF-8; correct it, or export the table "
                "as CSV and name its encoding."
            ) from None
        if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
            raise took_too_long(name) from None
        if query is not None and _is_of_query(error):
            raise refused("a value cannot be computed as it asks", name) from None
        raise DataError(
            f"{name} cannot be read as an SQLite database. The file may be damaged, in use by "
            "another program, or not of the format its name says; write it again, or export the "
            "table as CSV."
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
    # What is not in the file yet lies beside it.
    files = [path, Path(f"{path}.wal")]
    with session(files, name=path.name, memory_limit=memory_limit) as connection:
        attach_read_only(connection, path)
        if query is not None:
            connection.execute("USE original")
            with _waited(connection, path.name):
                answer = _answer(connection, relation, query, path.name, memory_limit)
            return TableSource.of(path, answer, "duckdb")
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
        chosen = choose_table(list(places), table, what="table", file=path.name)
        relation = f"original.{places[chosen]}"
        if views[chosen]:
            with _waited(connection, path.name):
                answer = _held(connection.sql(f"SELECT * FROM {relation}"), path.name, memory_limit)
            return TableSource.of(path, answer, "duckdb")
        described = connection.execute(f"DESCRIBE {relation}").fetchall()
    columns = [row[0] for row in described]
    enums = [row[0] for row in described if row[1].startswith("ENUM(")]

    def declare(name: str) -> Declared:
        if name not in enums:
            return Declared()
        column = identifier(name)
        with session(files, name=path.name) as connection:
            attach_read_only(connection, path)
            rows = connection.execute(
                f"SELECT unnest(enum_range({column}))::VARCHAR "
                f"FROM (SELECT {column} FROM {relation} LIMIT 1)"
            ).fetchall()
        return Declared(order=tuple(row[0] for row in rows), ordered=True)

    return RelationSource(
        brief(path.name),
        columns,
        paths=[path],
        beside=files[1:],
        format="duckdb",
        relation=relation,
        sql_names=columns,
        declare=declare,
        prepare=lambda connection: attach_read_only(connection, path),
    )


@contextmanager
def _waited(connection: duckdb.DuckDBPyConnection, name: str) -> Iterator[None]:
    """Compute a query or view, which may never end; a page does not wait for that (DataError)."""
    import duckdb

    with within_patience(connection.interrupt):
        try:
            yield
        except duckdb.InterruptException:
            raise took_too_long(brief(name)) from None


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
    except (duckdb.PermissionException, duckdb.InterruptException):
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
    """Attach a DuckDB file as ``original``."""
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
