"""The first pass over the data: the levels of each key, their counts, and errors in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from unikat.data.binning import KeySpec
from unikat.data.codebook import Entry
from unikat.data.columns import CodedKey, Column, refuse_constant
from unikat.data.keys import MOST_LEVELS
from unikat.data.not_asked import keep_answers
from unikat.data.numbers import ROWS_SHOWN, rows_shown
from unikat.data.sources import Source
from unikat.data.table import Missing
from unikat.errors import DataError, option
from unikat.language.dates import DateForm

if TYPE_CHECKING:
    import duckdb


def describe(connection: duckdb.DuckDBPyConnection) -> list[str]:
    """Types of the columns of the view ``source``, as DuckDB names them."""
    return [row[1] for row in connection.execute("DESCRIBE SELECT * FROM source").fetchall()]


def survey(
    connection: duckdb.DuckDBPyConnection,
    source: Source,
    specs: Sequence[KeySpec],
    *,
    codebook: Mapping[str, Entry],
    missing_values: Mapping[str, tuple[object, ...]],
    missing: Missing,
    constant_keys: bool,
    empty_rows: bool = False,
    answers: Mapping[str, Sequence[str]] | None = None,
    dates: Mapping[str, DateForm] | None = None,
) -> tuple[int, list[CodedKey]]:
    """Find the levels of every key; return the number of records and the coded keys.

    Raises
    ------
    DataError
        For no rows; a key whose type, values or number of levels cannot be used; rows without
        any key.
    SpecError
        For declared levels that do not fit the column or do not cover its values.
    """
    n_records = _scalar(connection, "SELECT count(*) FROM source")
    if n_records == 0:
        raise DataError(f"{source.name} has columns but no rows; give a file with records.")
    columns = [
        Column(
            *(connection, source, spec, j, type_name, codebook, missing_values, n_records),
            form=(dates or {}).get(spec.name),
        )
        # The columns of the design come after those of the keys.
        for j, (spec, type_name) in enumerate(zip(specs, describe(connection), strict=False))
    ]
    for column in columns:
        for code in (answers or {}).get(column.spec.name, ()):
            column.answers[code] = ()
        column.prepare()
    estimates = connection.execute(
        f"SELECT {', '.join(f'approx_count_distinct({c.value_sql})' for c in columns)} "
        f"FROM {clean_rows([c.clean_sql for c in columns])}"
    ).fetchall()
    for column, estimate in zip(columns, estimates[0], strict=True):
        # The count is good to a few per cent; the exact one follows where it is affordable.
        if estimate > 1.3 * MOST_LEVELS:
            column.refuse_levels(f"about {estimate:,}")
    coded = [column.code(missing) for column in columns]
    if answers is None:
        keep_answers(connection, columns, coded, missing)
    for spec, found in zip(specs, coded, strict=True):
        if found.key.n_levels == 1 and not constant_keys and not spec.by_hand:
            refuse_constant(source.name, found.key)
    if missing != "level" and not empty_rows and all(key.n_missing for key in coded):
        _refuse_empty_rows(connection, source, coded)
    return n_records, coded


def clean_rows(clean_sql: Sequence[str]) -> str:
    """SQL relation of the clean values k0, k1, ..."""
    listed = ", ".join(f"{sql} AS k{j}" for j, sql in enumerate(clean_sql))
    return f"(SELECT {listed} FROM source)"


def _scalar(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    # All rows are fetched, although there is one: an unread result blocks the connection.
    return int(connection.execute(query).fetchall()[0][0])


def _refuse_empty_rows(
    connection: duckdb.DuckDBPyConnection, source: Source, coded: Sequence[CodedKey]
) -> None:
    nothing = " AND ".join(f"k{j} IS NULL" for j in range(len(coded)))
    rows = clean_rows([key.clean_sql for key in coded])
    n = _scalar(connection, f"SELECT count(*) FROM {rows} WHERE {nothing}")
    if not n:
        return
    first = connection.execute(
        f"SELECT row FROM (SELECT *, row_number() OVER () AS row FROM {rows}) "
        f"WHERE {nothing} ORDER BY row LIMIT {ROWS_SHOWN}"
    ).fetchall()
    shown = rows_shown([row[0] for row in first], n)
    raise DataError(
        f"{source.name}: {n:,} row(s) have all {len(coded)} keys missing (data rows "
        f"{shown}, counted from 1). Such rows say nothing of "
        "their risk; remove them, add keys, or take missing values as a level: "
        f"{option('missing', 'level')}."
    )
