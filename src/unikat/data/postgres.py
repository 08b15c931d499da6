"""Tables of PostgreSQL: the server counts the combinations of the columns that are used.

A table has no order of rows. The rows of the source are the combinations that the server counted,
sorted by the columns in the order in which they were first asked for, each as often as it occurs.
Columns that are asked for later come last in that order, so that the rows stay where they were.
"""

from __future__ import annotations

import ctypes
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unikat.data.engine import pattern, quoted
from unikat.data.names import choose_table
from unikat.data.postgres_places import not_connected, with_timeout
from unikat.data.queries import (
    check_one,
    failing_column,
    relation_of,
    took_too_long,
    without_values,
)
from unikat.data.sources import Declared, Source, identifier
from unikat.errors import DataError, SpecError, brief, option
from unikat.files.scratch import Scratch, private
from unikat.interrupts import patience, stopped_by, within_seconds
from unikat.spec.addresses import checked_address, database_name

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_AS_THEY_ARE = (
    "smallint", "integer", "bigint", "boolean", "date", "real", "double precision", "text",
    "character varying", "timestamp without time zone",
)  # fmt: skip
_CASTS = {
    **dict.fromkeys(_AS_THEY_ARE, "{}"),
    "numeric": "{}::double precision",
    "oid": "{}::bigint",
    # The cast takes away the blanks that fill a value up to its length.
    "character": "{}::text",
    '"char"': "{}::text",
    "name": "{}::text",
    "uuid": "{}::text",
    "citext": "{}::text",
    "timestamp with time zone": "({} AT TIME ZONE 'UTC')",
}
"""SQL of a column by its type; columns of other types cannot be used."""
_AT_ONCE = 1_000
"""Rows of one combination that DuckDB repeats at a time, so that no list of them grows large."""
_MOST_LABELS = 100_000
_MOST_LETTERS, _FEW = 1_000, 5
"""Of columns in a query that a message gives; columns of a longer one."""
_READ_ONLY = "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY"
_TABLES = """
SELECT CASE WHEN pg_table_is_visible(c.oid) THEN c.relname
            ELSE n.nspname || '.' || c.relname END,
       quote_ident(n.nspname) || '.' || quote_ident(c.relname)
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p', 'v', 'm', 'f') AND NOT c.relispartition
  AND n.nspname <> 'information_schema' AND n.nspname !~ '^pg_'
  AND has_schema_privilege(n.oid, 'USAGE')
ORDER BY 1
"""
_TYPES = """
SELECT t.oid, CASE WHEN b.typtype = 'e' THEN 'enum' ELSE format_type(b.oid, NULL) END,
       ARRAY(SELECT e.enumlabel::text FROM pg_enum e WHERE e.enumtypid = b.oid
             ORDER BY e.enumsortorder)
FROM pg_type t JOIN pg_type b ON b.oid = coalesce(nullif(t.typbasetype, 0), t.oid)
WHERE t.oid IN ({})
"""
_POWERS = """
SELECT CASE WHEN (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
            THEN 'is a superuser'
            WHEN EXISTS (SELECT 1 FROM pg_roles WHERE rolname IN ('pg_execute_server_program',
                 'pg_write_server_files') AND pg_has_role(current_user, oid, 'USAGE'))
            THEN 'may write files or start programs on the server' END
"""
_LOOKUPS = """
SELECT f.confrelid::regclass::text, quote_ident(k.attname), quote_ident(t.attname)
FROM pg_constraint f
JOIN pg_attribute a ON a.attrelid = f.conrelid AND a.attnum = f.conkey[1]
JOIN pg_attribute k ON k.attrelid = f.confrelid AND k.attnum = f.confkey[1]
JOIN pg_attribute t ON t.attrelid = f.confrelid AND t.attnum > 0 AND t.attnum <> k.attnum
  AND NOT t.attisdropped AND t.atttypid IN ('text'::regtype, 'varchar'::regtype)
WHERE f.contype = 'f' AND cardinality(f.conkey) = 1
  AND f.conrelid = {}::regclass AND a.attname = {}
  AND has_table_privilege(f.confrelid, 'SELECT')
ORDER BY t.attnum LIMIT 1
"""


class _QueryError(DataError):
    """A query that the server ended."""

    by_value: bool = False
    """Whether a value of one column can be the cause."""


class _Type(NamedTuple):
    """Type of a column."""

    name: str
    """Of a domain, that of its values; `enum` of an enumeration."""
    labels: tuple[str, ...]
    """Of an enumeration, in order."""


class PostgresSource(Source):
    """A table, view or query of a PostgreSQL database, which is read and never changed."""

    def __init__(self, address: str, table: str | None, query: str | None) -> None:
        """Connect, and find the columns.

        Parameters
        ----------
        address
            ``postgresql://USER@HOST:PORT/DATABASE`` without a password.
        table
            Name of a table or view, with its schema if that is not on the search path; None if
            there is only one.
        query
            A query in place of a table.

        Raises
        ------
        SpecError
            If the address holds a password, the driver is not installed, there is no such table,
            or both a table and a query are named.
        DataError
            If the server cannot be reached, does not let the user in, or refuses the query.
        """
        self._address = checked_address(address)
        database = database_name(address)
        self.name = f"The query of {database}" if query is not None else database
        self._asked = query or ""
        if query is not None:
            check_one(table)
            self._relation = relation_of(query)
        self._table: str | None = None
        self.columns = ()
        with self._naming_column(), self._server() as server:
            if query is None:
                tables = dict(server.rows(_TABLES))
                self._asked = chosen = choose_table(
                    list(tables), table, what="table", file=database
                )
                self.name = f"{chosen} in {database}"
                self._relation = self._table = tables[chosen]
            found = server.reader(f"SELECT * FROM {self._relation} LIMIT 0").schema.names
            super().__init__(self.name, found, format="postgresql")
            self._types = self._found_types(server)
            powers = server.rows(_POWERS)[0][0]
        if powers:
            self.warnings = (
                f"The role of this session {powers}. Views and functions of the database run "
                "with its rights, even where they write files or start programs, which a read-only "
                "session does not stop. Use a role that has CONNECT and SELECT alone.",
            )
        scratch = Scratch()
        folder = scratch.path.resolve()
        self._counts, self._spare = folder / "counts-0.parquet", folder / "counts-1.parquet"
        self._counted: list[str] = []
        weakref.finalize(self, scratch.close)

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return [self._counts, self._spare]

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns, which the server counts once."""
        further = [name for name in dict.fromkeys(names) if name not in self._counted]
        if further:
            counted = [*self._counted, *further]
            with self._naming_column(counted):
                self._count(connection, counted)
        listed = ", ".join(f"g{self._counted.index(name)} AS c{j}" for j, name in enumerate(names))
        connection.execute(
            f"CREATE TEMP VIEW source AS SELECT {listed} FROM "
            f"(SELECT *, unnest(range(n)) FROM {_parquet(self._counts)})"
        )

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give some rows as the server has them; columns that cannot be read are left out."""
        readable = [name for name in names if self._types[name].name in (*_CASTS, "enum")]
        listed = ", ".join(f"{self._sql(name)} AS c{j}" for j, name in enumerate(readable))
        with self._server() as server:
            query = f"SELECT {listed} FROM {self._relation} LIMIT {n_rows}"
            return server.reader(query).read_all().rename_columns(readable)

    def native(self) -> Any:
        """Give the rows with all columns, in the order of this source."""
        with self.session() as connection:
            return self.values(connection, self.columns)

    def declared(self, name: str) -> Declared:
        """Tell the order of an enumeration, and the labels that a lookup table has."""
        order = self._types[name].labels or None
        if self._table is None:
            return Declared(order=order, ordered=order is not None or None)
        labels: dict[str, str] = {}
        with self._server() as server:
            for table, key, label in server.rows(
                _LOOKUPS.format(quoted(self._table), quoted(name))
            ):
                labels |= server.rows(
                    f"SELECT {key}::text, {label}::text FROM {table} "
                    f"WHERE {label} IS NOT NULL LIMIT {_MOST_LABELS}"
                )
        return Declared(order=order, ordered=order is not None or None, labels=labels)

    def _found_types(self, server: _Server) -> dict[str, _Type]:
        # The join gives a row of a relation without rows, too.
        asked = ", ".join(f"pg_typeof(row.{identifier(name)})::oid" for name in self.columns)
        oids = server.rows(
            f"SELECT {asked} FROM (SELECT 1) AS one "
            f"LEFT JOIN (SELECT * FROM {self._relation} LIMIT 1) AS row ON true"
        )[0]
        rows = server.rows(_TYPES.format(", ".join(map(str, oids))))
        known = {oid: _Type(kind, tuple(labels)) for oid, kind, labels in rows}
        return {name: known[oid] for name, oid in zip(self.columns, oids, strict=True)}

    def _sql(self, name: str) -> str:
        """SQL of a column in a type that DuckDB knows."""
        kind = self._types[name].name
        cast = "{}::text" if kind == "enum" else _CASTS.get(kind)
        if cast is None:
            raise DataError(
                f"{self.name}, column {brief(name)!r} has the type {brief(kind)}, which cannot be "
                f"used. Convert it in a query, {option('query')}: {self._converting()}"
            )
        return cast.format(identifier(name))

    def _converting(self) -> str:
        """Write a query that gives all columns in types that can be used."""
        usable = {name: self._types[name].name in (*_CASTS, "enum") for name in self.columns}
        listed = [
            identifier(name) if usable[name] else f"{identifier(name)}::text AS {identifier(name)}"
            for name in self.columns
        ]
        if sum(map(len, listed)) > _MOST_LETTERS:
            listed = [
                part for part, ready in zip(listed, usable.values(), strict=True) if not ready
            ]
            listed = [*listed[:_FEW], "... and the other columns that you need"]
        # A comment ends with its line.
        where = self._relation if "--" in self._relation else self._relation.replace("\n", " ")
        return f"SELECT {', '.join(listed)} FROM {where}"

    def _counting(self, names: Sequence[str]) -> str:
        columns = ", ".join(f"{self._sql(name)} AS g{j}" for j, name in enumerate(names))
        places = ", ".join(str(j) for j in range(1, len(names) + 1))
        return f"SELECT {columns}, count(*) AS n FROM {self._relation} GROUP BY {places}"

    def _count(self, connection: duckdb.DuckDBPyConnection, names: list[str]) -> None:
        """Let the server count the combinations of columns, and keep them in order."""
        import duckdb
        import pyarrow as pa

        columns = ", ".join(f"g{j}" for j in range(len(names)))
        failed: list[Exception] = []
        with self._server() as server:
            found = server.reader(self._counting(names))

            def batches() -> Iterator[pa.RecordBatch]:
                try:
                    yield from found
                except Exception as error:
                    # DuckDB would tell it in words of its own.
                    failed.append(error)
                    raise

            connection.register("found", pa.RecordBatchReader.from_batches(found.schema, batches()))
            try:
                connection.execute(
                    f"COPY (SELECT {columns}, least({_AT_ONCE}, n - beginning) AS n FROM "
                    f"(SELECT *, unnest(range(0, n, {_AT_ONCE})) AS beginning FROM found) "
                    f"ORDER BY {columns}, beginning) TO {quoted(str(private(self._spare)))} "
                    "(FORMAT parquet, USE_TMP_FILE false)"
                )
            except duckdb.Error:
                if failed:
                    raise self._told(failed[0]) from None
                raise
            finally:
                connection.unregister("found")
        if self._counted:
            self._check_same(connection)
        self._counts, self._spare = self._spare, self._counts
        self._counted = names
        self.queries = (self._counting(names),)

    def _check_same(self, connection: duckdb.DuckDBPyConnection) -> None:
        """Refuse new counts that do not agree with the old ones: rows could be mixed up."""
        before = ", ".join(f"g{j}" for j in range(len(self._counted)))
        old, new = (
            f"SELECT {before}, sum(n) FROM {_parquet(path)} GROUP BY ALL"
            for path in (self._counts, self._spare)
        )
        rows = connection.execute(
            f"SELECT count(*) FROM (({old} EXCEPT {new}) UNION ALL ({new} EXCEPT {old}))"
        ).fetchall()
        if rows[0][0]:
            raise DataError(
                f"{self.name} has changed since it was read; read it again, or read a copy that "
                "does not change."
            )

    @contextmanager
    def _server(self) -> Iterator[_Server]:
        """Connect for a while; errors leave as messages without values of records."""
        try:
            import adbc_driver_postgresql.dbapi as driver
        except ImportError:
            raise SpecError(
                "PostgreSQL needs the package adbc-driver-postgresql: install it with  "
                "pip install 'unikat[postgres]',  or export the table as Parquet."
            ) from None
        seconds = patience.get()
        try:
            connection = driver.connect(with_timeout(self._address))
            cursor = connection.cursor()
            server = _Server(cursor, seconds)
            try:
                with stopped_by(cursor.adbc_cancel):
                    server.run(_READ_ONLY)
                    if seconds is not None:
                        server.run(f"SET statement_timeout = {round(seconds * 1000)}")
                    connection.commit()
                    yield server
            finally:
                if server.is_lost:
                    # A step in it goes on without end, and to close it would wait for that. So it
                    # is never let go.
                    for one in (cursor, connection):
                        ctypes.pythonapi.Py_IncRef(ctypes.py_object(one))
                else:
                    cursor.close()
                    connection.close()
        except (driver.Error, OSError) as error:
            raise self._told(error) from None

    @contextmanager
    def _naming_column(self, names: Sequence[str] | None = None) -> Iterator[None]:
        """Name the column whose values make the server end a query: one of these, or of all."""
        try:
            yield
        except _QueryError as error:
            if not error.by_value:
                raise

            def run(name: str) -> None:
                with self._server() as server:
                    server.rows(f"SELECT count({identifier(name)}) FROM {self._relation}")

            lead, why = str(error).split(": ", 1)
            raise DataError(f"{lead}: {failing_column(names or self.columns, run)}{why}") from None

    def _told(self, error: Exception) -> DataError:
        """Say what an error of the server means; its own text may quote values of records."""
        text = str(error)
        if isinstance(error, TimeoutError):
            return DataError(
                f"{self.name} cannot be read: the server does not answer. Try again when it does."
            )
        if "Failed to connect" in text:
            return not_connected(self._address, text)
        found = re.search(r"SQLSTATE: (\w{5})", text)
        # An answer that breaks off has no code.
        state = found[1] if found else _state(text)
        details = getattr(error, "details", None) or ()
        code = f" (SQLSTATE {state})" if found else ""
        if state == "42P01" and self._table:
            return DataError(f"{self.name} is not there any more; choose another table.")
        if state == "57014" and patience.get() is not None:
            return took_too_long(self.name)
        # Found before a row was read: it names tables and columns of the query.
        if any(name in _OF_TEXT for name, _ in details) or state == "42501":
            names = re.search(r"ERROR:\s+([^\n]*)", text)
            said = without_values(names[1] if names else "", self._asked)
            remedy = _OF_NAMES.get(state, _OF_NAMES[""])
            return DataError(f"{self.name} cannot be read: {said}{code}{remedy}.")
        start = next((start for start in _MEANINGS if state.startswith(start)), "")
        error = _QueryError(f"{self.name} cannot be read: {_MEANINGS[start]}{code}.")
        error.by_value = start in _BY_VALUES
        return error


_OF_NAMES = {
    "42501": ". Ask for the right to SELECT",
    "42601": "; the query must be one SELECT",
    "": "; check the names in the query",
}
"""What to do about names, rights and grammar, by codes of errors."""
_MEANINGS = {
    "0A000": "the query does what the server cannot do; give one SELECT",
    "21": "a part of the query gives several rows where one is needed; correct the query",
    "22": "a value cannot be computed as the query asks; correct the query",
    "25006": "the query writes, and only queries that read are run",
    "42": "a value names what is not there, or cannot be understood, as the query asks; correct "
    "the query",
    "57014": "the query was cancelled on the server, by hand or by its time limit",
    "57P": "the server was shut down or started again; run this again when it is there",
    "08": "the connection to the server was lost; run this again",
    "53": "the server lacks memory, disk or connections; use fewer or coarser columns, or ask who "
    "runs it",
    "54": "the query is beyond a limit of the server; make it simpler",
    "55": "the server holds back what the query needs; run this again later",
    "P0": "a function of the database refused a value; correct the query or the function",
    "XX": "the server reports an error of its own, maybe damaged data; ask who runs it",
    "": "the server ended the query; its log says why",
}
"""What codes of errors mean that are found while rows are read, by their beginnings. Their texts
quote values."""
_BY_VALUES = ("21", "22", "42", "P0")
"""Those that a value of one column can cause."""
_OF_TEXT = ("PG_DIAG_STATEMENT_POSITION", b"PG_DIAG_STATEMENT_POSITION")
"""What an error has that is found in the text of a query."""
_STATES = {
    "canceling statement": "57014",
    "terminating connection|closed the connection|connection": "57P",
    "no space|out of memory|temporary file size": "53",
    "invalid|out of range|division by zero": "22",
}


def _state(text: str) -> str:
    """Code of an error by its English words; empty if there are others."""
    found = (code for words, code in _STATES.items() if re.search(words, text, re.IGNORECASE))
    return next(found, "")


_GRACE = 10.0
"""Seconds after its time limit in which a server has to say that it ended a query."""


class _Server:
    """An open connection that only reads."""

    def __init__(self, cursor: Any, seconds: float | None) -> None:
        self._cursor = cursor
        self._seconds = None if seconds is None else seconds + _GRACE
        self.is_lost = False
        """Whether it does not answer any more."""

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a short answer."""
        self.run(query)
        found: list[tuple[Any, ...]] = self._answered(self._cursor.fetchall)
        return found

    def reader(self, query: str) -> pa.RecordBatchReader:
        """Return a long answer, batch after batch."""
        import pyarrow as pa

        self.run(query)
        found: pa.RecordBatchReader = self._answered(self._cursor.fetch_record_batch)
        if self._seconds is None:
            return found

        def batches() -> Iterator[pa.RecordBatch]:
            while (batch := self._answered(lambda: next(found, None))) is not None:
                yield batch

        return pa.RecordBatchReader.from_batches(found.schema, batches())

    def run(self, statement: str) -> None:
        """Run a statement."""
        self._answered(lambda: self._cursor.execute(statement))

    def _answered(self, step: Callable[[], Any]) -> Any:
        try:
            return within_seconds(step, self._seconds)
        except TimeoutError:
            self.is_lost = True
            raise


def _parquet(path: Path) -> str:
    return f"read_parquet({quoted(pattern(path))})"
