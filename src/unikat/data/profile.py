"""What the columns of a file are like, before anybody has said which of them are keys.

A profile holds no value of a record but names of levels, and these only of columns that have few
levels, and of levels that several records share. A preview holds values and is made only if it is
asked for.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from unikat.data.dates import LIKE_DATE, forms_of
from unikat.data.engine import DEFAULT_MEMORY, literals, quoted
from unikat.data.names import NoSuchTableError
from unikat.data.readers import open_source
from unikat.data.sources import Declared, Source
from unikat.data.text_files import TextSource
from unikat.errors import DataError, UnikatError
from unikat.interrupts import interruptible
from unikat.language.dates import DateForm

if TYPE_CHECKING:
    import duckdb

Kind: TypeAlias = Literal["numbers", "text", "dates", "yes or no", "other"]

MOST_NAMED = 30
"""Levels of a column whose names are in a profile, at most."""
LEAST_SHARED = 3
"""Records that a level has whose name is in a profile: a rarer one may tell of somebody."""
MOST_COUNTED = 100
"""Levels up to which the levels of a column are counted exactly."""
N_BINS = 24
"""Bars of the picture of a column, at most."""
_PARTS = ("sheet", "table", "query")
"""Options that say which part of a file is read."""
_RULES = ("width(5)", "width(10)", "quantile(5)", "quantile(10)")
_FIRST_ROWS = 300
"""Rows by which a column of texts is taken for one of dates."""
MOST_COLUMNS = 2_000
"""Columns that are looked at."""


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """One column."""

    name: str
    kind: Kind
    n_levels: int
    """Different values, without missing ones."""
    exact: bool
    """Whether `n_levels` was counted, and not estimated."""
    n_missing: int
    """Empty values, and codes that the file itself declares missing."""
    bars: tuple[float, ...]
    """Records by level, or by range of numbers, as shares of the largest; empty: not drawn."""
    levels: tuple[str, ...]
    """Names of levels, with labels: of those that are not rare, if there are few levels."""
    n_labels: int
    """Labels of levels that the file has."""

    title: str = ""
    """Label of the column itself in a statistical file."""
    has_numbers: bool = False
    """Whether some of its values are numbers, so that all may be once missing codes are named."""
    forms: tuple[DateForm, ...] = ()
    """Forms of dates that most of its first values have, where it is no column of dates."""

    @property
    def rules(self) -> tuple[str, ...]:
        """Examples of rules that can group its values; empty if none can."""
        if self.kind == "dates" or self.forms:
            return ("year", "years(5)", "quarter", "month", "quantile(10)")
        return _RULES if self.has_numbers and self.kind in ("numbers", "text") else ()


@dataclass(frozen=True, kw_only=True)
class Profile:
    """A file, as far as it is known before keys are named."""

    name: str
    format: str
    n_records: int
    columns: tuple[ColumnProfile, ...]
    n_columns: int
    """Columns of the file, of which `columns` has the first 2,000."""
    delimiter: str | None = None
    """Of a text file."""
    encoding: str | None = None
    """Of a text file."""


@interruptible
def profile(source: Any, *, memory_limit: str = DEFAULT_MEMORY, **reading: Any) -> Profile:
    """Look at every column of a file, in one pass over it and one over what it left.

    Parameters
    ----------
    source
        A path or a frame, as `read` takes them.
    memory_limit
        Memory that DuckDB may use.
    **reading
        Format, delimiter, encoding, sheet and table, as `read` takes them.

    Raises
    ------
    DataError, SpecError
        If the file cannot be read as asked.

    Examples
    --------
    >>> import pandas as pd
    >>> found = profile(pd.DataFrame({"SEX": ["f", "m", "f", "m", "f", "m"], "N": [*range(6)]}))
    >>> [(column.name, column.kind, column.levels) for column in found.columns]
    [('SEX', 'text', ('f', 'm')), ('N', 'numbers', ())]
    """
    opened = open_source(source, memory_limit=memory_limit, **reading)
    names = list(opened.columns[:MOST_COLUMNS])
    with opened.session(names, memory_limit=memory_limit) as connection:
        n_records, columns = _columns(connection, opened, names)
    opened.delete_copies()
    text = opened if isinstance(opened, TextSource) else None
    return Profile(
        name=opened.name,
        format=opened.format,
        n_records=n_records,
        columns=columns,
        n_columns=len(opened.columns),
        delimiter=None if text is None else text.delimiter,
        encoding=None if text is None else text.encoding,
    )


@interruptible
def preview(
    source: Any, n_rows: int = 10, **reading: Any
) -> tuple[tuple[str, ...], list[list[str]]]:
    """Give the names of the columns and the first rows as text; parameters as of `profile`.

    Raises
    ------
    DataError, SpecError
        If the file cannot be read as asked.

    Examples
    --------
    >>> import pandas as pd
    >>> preview(pd.DataFrame({"SEX": ["f", None], "N": [1, 2]}))
    (('SEX', 'N'), [['f', '1'], ['', '2']])
    """
    opened = open_source(source, **reading)
    names = opened.columns[:MOST_COLUMNS]
    with opened.session() as connection:
        rows = opened.first(connection, names, n_rows)
    opened.delete_copies()
    # What cannot be read is left out.
    shown = tuple(rows.column_names)
    return shown, [
        ["" if row[name] is None else str(row[name]) for name in shown] for row in rows.to_pylist()
    ]


class _Sql:
    """SQL of one column: its values as text and as numbers, where they are there."""

    def __init__(self, position: int, type_name: str, declared: Declared) -> None:
        column = f"c{position}"
        self.kind: Kind = _KINDS.get(type_name.partition("(")[0], "other")
        is_text = type_name.startswith(("VARCHAR", "ENUM"))
        text = f"nullif({column}::VARCHAR, '')"
        number_of = f"TRY_CAST({column}::VARCHAR AS DOUBLE)" if is_text else f"{column}::DOUBLE"
        there = [f"{text} IS NOT NULL"]
        if type_name in ("DOUBLE", "FLOAT"):
            there.append(f"NOT isnan({column})")
        if declared.missing:
            there.append(f"{text} NOT IN {_texts(declared.missing)}")
        there += [
            f"NOT coalesce({number_of} BETWEEN {low} AND {high}, false)"
            for low, high in declared.missing_ranges
            if math.isfinite(low) and math.isfinite(high) and self.kind in ("numbers", "text")
        ]
        known = " AND ".join(there)
        number = number_of if self.kind in ("numbers", "text") else "NULL::DOUBLE"
        self.select = (
            f"CASE WHEN {known} THEN {text} END AS t{position}, "
            f"CASE WHEN {known} AND isfinite({number}) THEN {number} END AS x{position}"
        )


_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(
        ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT",
         "UINTEGER", "UBIGINT", "FLOAT", "DOUBLE", "DECIMAL"),
        "numbers",
    ),
    **dict.fromkeys(("DATE", "TIMESTAMP", "TIMESTAMP WITH TIME ZONE", "TIME"), "dates"),
    **dict.fromkeys(("TIMESTAMP_S", "TIMESTAMP_MS", "TIMESTAMP_NS"), "dates"),
    "VARCHAR": "text",
    "ENUM": "text",
    "BOOLEAN": "yes or no",
}  # fmt: skip


def _texts(values: Sequence[object]) -> str:
    """Texts of values, for IN: a whole number may be written with a decimal."""
    texts = [str(value) for value in values]
    texts += [f"{float(value):.1f}" for value in values if isinstance(value, (int, float))]
    return f"({literals(list(dict.fromkeys(texts)))[1:-1]})"


def _columns(
    connection: duckdb.DuckDBPyConnection, opened: Source, names: Sequence[str]
) -> tuple[int, tuple[ColumnProfile, ...]]:
    """Count everything in one query, and the levels or ranges of all columns in a second one."""
    described = connection.execute("DESCRIBE SELECT * FROM source").fetchall()
    declared = [opened.declared(name) for name in names]
    parts = [
        _Sql(j, str(row[1]), said)
        for j, (row, said) in enumerate(zip(described, declared, strict=True))
    ]
    # One expression for each value: DuckDB would evaluate it again in every aggregate.
    source = f"(SELECT {', '.join(part.select for part in parts)} FROM source)"
    asked = ["count(*)"]
    for j in range(len(parts)):
        asked.append(f"count(t{j}), approx_count_distinct(t{j}), count(x{j}), min(x{j}), max(x{j})")
    row = connection.execute(f"SELECT {', '.join(asked)} FROM {source}").fetchone()
    assert row is not None
    n_records = int(row[0])
    if not n_records:
        raise DataError(f"{opened.name} has no records, only names of columns.")
    counted = [_Counted(*row[1 + 5 * j : 6 + 5 * j]) for j in range(len(parts))]
    pictures = _pictures(connection, source, counted)
    forms = _forms(connection, source, parts)
    return n_records, tuple(
        _profiled(name, part, found, said, picture, n_records, forms.get(j, ()))
        for j, (name, part, found, said, picture) in enumerate(
            zip(names, parts, counted, declared, pictures, strict=True)
        )
    )


def _forms(
    connection: duckdb.DuckDBPyConnection, source: str, parts: Sequence[_Sql]
) -> dict[int, tuple[DateForm, ...]]:
    """Find columns of texts and numbers whose first values look like dates, and their forms."""
    texts = [j for j, part in enumerate(parts) if part.kind in ("numbers", "text")]
    if not texts:
        return {}
    first = f"(SELECT * FROM {source} LIMIT {_FIRST_ROWS})"
    asked = ", ".join(
        f"count(t{j}) < 2 * count(*) FILTER (regexp_matches(t{j}, {quoted(LIKE_DATE)}))"
        for j in texts
    )
    row = connection.execute(f"SELECT {asked} FROM {first}").fetchone() or ()
    found = {}
    for j in (j for j, likely in zip(texts, row, strict=True) if likely):
        forms = forms_of(connection, f"(SELECT t{j} AS v FROM {first})")
        if forms:
            found[j] = forms
    return found


@dataclass(frozen=True)
class _Counted:
    n_known: int
    n_levels: int
    n_numbers: int
    low: float | None
    high: float | None

    @property
    def few(self) -> bool:
        """Whether the levels are few enough to be counted one by one."""
        return self.n_levels <= MOST_COUNTED

    @property
    def all_numbers(self) -> bool:
        """Whether every value that is there is a number."""
        return 0 < self.n_known == self.n_numbers


def _pictures(
    connection: duckdb.DuckDBPyConnection, source: str, counted: Sequence[_Counted]
) -> list[dict[Any, int] | None]:
    """Count records by level where these are few, by range where they are numbers; else None."""
    asked, places = [], []
    for j, found in enumerate(counted):
        if found.few:
            asked.append(f"histogram(t{j})")
        elif found.all_numbers and found.low is not None and found.high is not None:
            width = (found.high - found.low) / N_BINS
            place = f"floor((x{j} - ({found.low!r})) / {width!r})"
            # DuckDB's least passes over what is missing.
            bin_ = f"least({place}, {N_BINS - 1})::INTEGER"
            asked.append(f"histogram({bin_}) FILTER (x{j} IS NOT NULL)")
        else:
            continue
        places.append(j)
    pictures: list[dict[Any, int] | None] = [None] * len(counted)
    if asked:
        row = connection.execute(f"SELECT {', '.join(asked)} FROM {source}").fetchone()
        for place_of, found_counts in zip(places, row or (), strict=True):
            pictures[place_of] = found_counts or {}
    return pictures


def _profiled(
    name: str,
    part: _Sql,
    found: _Counted,
    declared: Declared,
    picture: dict[Any, int] | None,
    n_records: int,
    forms: tuple[DateForm, ...],
) -> ColumnProfile:
    kind: Kind = "numbers" if part.kind == "text" and found.all_numbers else part.kind
    levels: list[str] = []
    bars: list[int] = []
    if found.few and picture is not None:
        levels = sorted(picture, key=_in_order)
        bars = _joined([picture[level] for level in levels])
    elif picture is not None:
        bars = [picture.get(number, 0) for number in range(N_BINS)]
    n_levels = len(levels) if found.few else min(found.n_levels, found.n_known)
    named = [
        level
        for level in levels
        if len(levels) <= MOST_NAMED and picture is not None and picture[level] >= LEAST_SHARED
    ]
    return ColumnProfile(
        name=name,
        kind=kind,
        n_levels=n_levels,
        exact=found.few,
        n_missing=n_records - found.n_known,
        bars=tuple(count / max(bars) for count in bars) if any(bars) else (),
        levels=tuple(
            labelled(level, declared.labels, is_number=part.kind == "numbers") for level in named
        ),
        n_labels=len(declared.labels),
        title=declared.title,
        has_numbers=found.n_numbers > 0,
        forms=forms,
    )


def tables_in(source: Any, **reading: Any) -> tuple[str, tuple[str, ...]]:
    """Tell what a file holds several of, `sheet` or `table`, and their names; empty if neither.

    Names that cannot be shown are left out.
    """
    how = {
        name: value for name, value in reading.items() if name not in ("sheet", "table", "query")
    }
    for what in _PARTS[:2]:
        try:
            # No file can have it.
            open_source(source, **how, **{what: "\0"})
        except NoSuchTableError as error:
            return what, error.names
        except UnikatError:
            continue
    return "", ()


def tables_in_database(address: str) -> tuple[str, ...]:
    """Connect to a database on a server, and tell the names of its tables and views.

    Raises
    ------
    DataError, SpecError
        If the server cannot be reached, does not let the user in, or has no table.
    """
    try:
        open_source(address, table="\0")
    except NoSuchTableError as error:
        return error.names
    raise AssertionError


def _joined(counts: Sequence[int]) -> list[int]:
    """Add neighbours up where there are more than can be drawn."""
    together = math.ceil(len(counts) / N_BINS)
    return [sum(counts[first : first + together]) for first in range(0, len(counts), together or 1)]


def _in_order(level: str) -> tuple[bool, float, str]:
    """Numbers by size, before texts."""
    try:
        return False, float(level), level
    except ValueError:
        return True, 0.0, level


def labelled(level: str, labels: Mapping[str, str], *, is_number: bool = False) -> str:
    """Write a level with its label, if the file has one; whole numbers without a decimal.

    Examples
    --------
    >>> labelled("1.0", {"1": "0 to 15"}), labelled("-9.0", {}, is_number=True), labelled("1.0", {})
    ('1 = 0 to 15', '-9', '1.0')
    """
    whole = level.removesuffix(".0")
    label = labels.get(level) or labels.get(whole)
    if label is not None:
        return f"{whole} = {label}"
    return whole if is_number else level
