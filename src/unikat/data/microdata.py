"""Microdata: rows with chosen keys, not yet counted; and their tabulation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from unikat._typing import Float64, Int32, Int64
from unikat.data.clues import (
    MOST_COLUMNS,
    MOST_ROWS,
    clues,
    codes_of_column,
    household_columns,
    joined,
)
from unikat.data.columns import CodedKey
from unikat.data.design import Design
from unikat.data.engine import DEFAULT_MEMORY, quoted
from unikat.data.hand_groups import HandGroups
from unikat.data.keys import Key
from unikat.data.levels import clean_rows
from unikat.data.names import column_hint
from unikat.data.sampling import (
    codes_of,
    few_classes,
    make_households,
    make_sampling,
    numbers_of,
)
from unikat.data.sources import Declared, Source
from unikat.data.table import CellTable, Missing
from unikat.errors import DataError, brief
from unikat.interrupts import interruptible
from unikat.spec.missing import missing_codes_of

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_WORD_BITS = 62
"""Bits of a packed word that hold codes; the sign stays clear, so order is that of integers."""
_BATCH = 1 << 18
"""Rows taken from DuckDB at a time."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Microdata:
    """A sample's rows with their key variables; made by :func:`unikat.data.read`.

    Parameters
    ----------
    name
        What the data are called in messages: the file's name, or "The data frame".
    keys
        The key variables.
    n_records
        Number of rows, n.
    n_missing
        Number of rows with each key missing.
    design
        How the sample was drawn.
    missing
        What a missing key is.
    warnings
        What should be looked at, though nothing is wrong for sure.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> frame = pd.DataFrame({"SEX": ["f", "m", "f"], "AGE": [68, 44, None]})
    >>> data = unikat.read(frame, ["SEX", "AGE"], unikat.Design(population_size=100))
    >>> data.n_records, [key.name for key in data.keys], data.n_missing
    (3, ['SEX', 'AGE'], (0, 1))
    """

    name: str
    keys: tuple[Key, ...]
    n_records: int
    n_missing: tuple[int, ...]
    design: Design
    missing: Missing
    warnings: tuple[str, ...] = field(default=(), repr=False)
    _source: Source = field(repr=False)
    _coded: tuple[CodedKey, ...] = field(repr=False)
    _missing_values: Mapping[str, tuple[object, ...]] = field(default_factory=dict, repr=False)
    _memory_limit: str = field(default=DEFAULT_MEMORY, repr=False)
    _by_hand: Mapping[str, HandGroups] = field(default_factory=dict, repr=False)

    @interruptible
    def tabulate(self, memory_limit: str | None = None, threads: int | None = None) -> CellTable:
        """Count the occupied patterns of the keys.

        Rows are coded and packed into 64-bit words by DuckDB in a temporary file (8 bytes a row
        for up to about ten keys), grouped there with spilling to disk, and matched to their
        pattern in batches. Beyond `memory_limit` the process holds the table, 4 bytes per record
        and key and pattern.

        Parameters
        ----------
        memory_limit
            Memory that DuckDB may use, such as ``"1GB"``; None takes that of `read`.
        threads
            Number of threads; None takes all processors.

        Raises
        ------
        DataError
            If the file has changed since it was read, or memory or disk do not suffice; if the
            columns of the design cannot be used.
        SpecError
            If `memory_limit` or `threads` cannot be understood.

        Examples
        --------
        >>> import pandas as pd
        >>> from unikat.data import Design, read
        >>> frame = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 41, 30]})
        >>> table = read(frame, ["SEX", "AGE"], Design(population_size=100)).tabulate()
        >>> table.cells.tolist(), table.counts.tolist()
        ([[0, 0], [1, 1]], [2, 2])
        """
        self._source.check_unchanged()
        words = _words([key.n_levels for key in self.keys])
        columns = columns_of([key.name for key in self.keys], self.design)
        limit = self._memory_limit if memory_limit is None else memory_limit
        with self._source.session(columns, memory_limit=limit, threads=threads) as connection:
            places = {column: f"c{j}" for j, column in enumerate(columns)}
            sampling, population_size = make_sampling(
                connection, self.design, places, self.name, self._source.decimal
            )
            households = make_households(
                connection, self.design, places, self._missing_values, self.name
            )
            self._pack(connection, words)
            cells_packed, counts = _group(connection, len(words))
            record_cell = self._match(connection, cells_packed)
        self._source.delete_copies()
        table = CellTable(
            keys=self.keys,
            cells=_unpack(cells_packed, words, len(self.keys)),
            counts=counts,
            record_cell=record_cell,
            population_size=population_size,
            missing=self.missing,
            sampling=sampling,
            households=households,
        )
        if table.n_missing != self.n_missing or int(counts.sum()) != self.n_records:
            raise DataError(f"{self.name} has changed since it was read; read it again.")
        return few_classes(table)

    @interruptible
    def clues(self, household: Sequence[str] = ()) -> tuple[str, ...]:
        """Say what columns tell that are no keys: that whole households were sampled, or copied.

        `household` names the columns that identify a household, where the design does not; the
        first 20,000 rows of at most 500 columns are looked at. Columns may be named, values
        never are. What cannot be read tells nothing.

        Examples
        --------
        >>> import pandas as pd
        >>> from unikat.data import Design, read
        >>> frame = pd.DataFrame({"SEX": [1, 2, 2], "AGE": [30, 41, 41]})
        >>> read(frame, ["SEX", "AGE"], Design(population_size=100)).clues()
        ()
        """
        household = [*(household or self.design.household)]
        columns, used = self._first_codes(household)
        together = [columns.pop(name) for name in household if name in columns]
        unused = [name for name in columns if name not in used]
        return tuple(clues(columns, unused, joined(together) if household else None))

    def unnamed_households(self) -> tuple[str, ...]:
        """Name columns that look like numbers of households, and that neither keys nor design name.

        Rows and columns are looked at as for `clues`.
        """
        columns, used = self._first_codes([*self.design.household])
        return tuple(household_columns(columns, [name for name in columns if name not in used]))

    def _first_codes(self, household: Sequence[str]) -> tuple[dict[str, Int64], list[str]]:
        """Codes of the first rows of columns by name, and the names of those that are used."""
        used = [*columns_of([key.name for key in self.keys], self.design), *household]
        names = list(dict.fromkeys([*used, *self._source.columns]))[:MOST_COLUMNS]
        try:
            self._source.check_unchanged()
            with self._source.session(memory_limit=self._memory_limit) as connection:
                rows = self._source.first(connection, names, MOST_ROWS)
        except DataError:
            return {}, used
        columns = {
            name: codes
            for name in rows.column_names
            if (codes := codes_of_column(rows[name])) is not None
        }
        return columns, used

    def to_frame(self) -> Any:
        """Give the rows with all their columns, as the kind of frame that was read.

        pandas, polars (lazy stays lazy), pyarrow and DuckDB relations come back as such, the
        relation on DuckDB's default connection; files come as a pyarrow table, CSV columns as
        strings.
        """
        return self._source.native()

    def with_columns(self, columns: Mapping[str, ArrayLike]) -> Any:
        """Give the rows of `to_frame` with further columns.

        Parameters
        ----------
        columns
            New columns by name, each (n_records,) in the order of the input.

        Raises
        ------
        DataError
            If a name is taken or a column has another length.

        Examples
        --------
        >>> import pandas as pd
        >>> from unikat.data import Design, read
        >>> frame = pd.DataFrame({"SEX": [1, 2, 2], "AGE": [30, 41, 41]})
        >>> microdata = read(frame, ["SEX", "AGE"], Design(population_size=100))
        >>> list(microdata.with_columns({"risk": [0.5, 0.0, 0.0]}).columns)
        ['SEX', 'AGE', 'risk']
        """
        added = {name: np.asarray(values) for name, values in columns.items()}
        for name, values in added.items():
            if name in self._source.columns:
                raise DataError(
                    f"{self.name} already has a column {name!r}; choose another name for the new "
                    "one."
                )
            if values.shape != (self.n_records,):
                raise DataError(
                    f"The new column {name!r} has shape {values.shape}; it must have one value "
                    f"per row, ({self.n_records},)."
                )
        return self._source.native_with(added)

    def codes(self, column: str, missing_values: object = ()) -> tuple[Int32, list[str]]:
        """Code the values of any column, such as households or a sensitive variable.

        Parameters
        ----------
        column
            Name of a column of the data, key or not.
        missing_values
            Values that mean missing: by column, or for all.

        Returns
        -------
        tuple
            Codes, (n_records,) in the order of the input, -1 for missing; and the values as text,
            sorted, by number where all are numbers.

        Raises
        ------
        DataError
            If there is no such column, or the file has changed since it was read.

        Examples
        --------
        >>> import pandas as pd
        >>> from unikat.data import Design, read
        >>> frame = pd.DataFrame({"SEX": [1, 2], "AGE": [30, 41], "HH": [12, 7]})
        >>> codes, values = read(frame, ["SEX", "AGE"], Design(population_size=9)).codes("HH")
        >>> codes.tolist(), values
        ([1, 0], ['7', '12'])
        """
        if column in self._by_hand:
            key = self._by_hand[column].coded.key
            codes = self._groups(column)
            if key.missing_level is not None:
                codes[codes == key.missing_level] = -1
            return codes, [str(level) for level in key.levels if level is not None]
        with self.attached(column) as connection:
            return codes_of(connection, "c0", missing_codes_of(missing_values, column))

    def numbers(self, column: str) -> Float64:
        """Read any column of positive numbers, such as sizes of firms.

        Parameters
        ----------
        column
            Name of a column of the data, key or not.

        Returns
        -------
        Float64
            (n_records,) in the order of the input.

        Raises
        ------
        DataError
            If there is no such column; if a value is missing, no number, not finite, or not above
            0; or the file has changed since it was read.

        Examples
        --------
        >>> import pandas as pd
        >>> from unikat.data import Design, read
        >>> frame = pd.DataFrame({"SEX": [1, 2], "AGE": [30, 41], "STAFF": ["12", "7.5"]})
        >>> read(frame, ["SEX", "AGE"], Design(population_size=9)).numbers("STAFF").tolist()
        [12.0, 7.5]
        """
        with self.attached(column) as connection:
            return numbers_of(connection, "c0", column, self.name, self._source.decimal)

    def beside(self, other: Microdata) -> Microdata:
        """The same rows with the keys of another reading of them as well."""
        return replace(
            self,
            keys=(*self.keys, *other.keys),
            n_missing=(*self.n_missing, *other.n_missing),
            _coded=(*self._coded, *other._coded),
            _by_hand={**self._by_hand, **other._by_hand},
        )

    @property
    def source(self) -> Source:
        """Where the rows come from."""
        return self._source

    def declared(self, key: str) -> Declared:
        """Tell what the source, the codebook and the user say of the column of a key."""
        return next(coded.declared for coded in self._coded if coded.key.name == key)

    def declared_by_source(self, key: str) -> Declared:
        """Tell what the source says of the column of a key, as it is read."""
        return self.declared(key) if key in self._by_hand else self._source.declared(key)

    @property
    def labels(self) -> dict[str, dict[Any, str]]:
        """Labels of columns that groups made by hand with codes, and what means missing, have."""
        found: dict[str, dict[Any, str]] = {}
        for name, one in self._by_hand.items():
            if one.has_codes:
                pairs = zip(one.coded.key.levels, one.coded.key.labels, strict=True)
                of_levels = {code: label for code, label in pairs if code is not None}
                found[name] = {**self._source.declared(name).missing_labels, **of_levels}
        return found

    def letters(self, columns: Sequence[str]) -> dict[str, list[str | None]]:
        """Letters of the records, by column; see `Source.letters`."""
        found = self._source.letters(columns)
        texts = {name for name, one in self._by_hand.items() if not one.has_codes}
        return {name: letters for name, letters in found.items() if name not in texts}

    def values(self, columns: Sequence[str]) -> pa.Table:
        """Give columns as the source has them, in the order of the input; groups made by hand too.

        Raises
        ------
        DataError
            If there is no such column, or the file has changed since it was read.
        """
        for column in columns:
            self._check_column(column)
        self._source.check_unchanged()
        with self._source.session(memory_limit=self._memory_limit) as connection:
            found = self._source.values(connection, columns)
        for place, name in enumerate(columns):
            if name in self._by_hand:
                letters = self._source.letters([name]).get(name)
                written = self._by_hand[name].column(found[name], self._groups(name), letters)
                found = found.set_column(place, name, written)
        self._source.delete_copies()
        return found

    def _groups(self, column: str) -> Int32:
        """Groups made by hand of the records, (n_records,), -1 where missing."""
        one = self._by_hand[column]
        with self._source.session(one.columns, memory_limit=self._memory_limit) as connection:
            digit = _digit_sql(connection, one.position, one.coded)
            rows = clean_rows(["NULL"] * one.position + [one.coded.clean_sql])
            found = connection.sql(f"SELECT {digit} AS d FROM {rows}").to_arrow_table()
        codes: Int32 = found["d"].to_numpy().astype(np.int32) - 1
        return codes

    @contextmanager
    def attached(self, column: str) -> Iterator[duckdb.DuckDBPyConnection]:
        """Give a connection whose view ``source`` has the column as c0.

        Raises
        ------
        DataError
            If there is no such column, or the file has changed since it was read.
        """
        self._check_column(column)
        self._source.check_unchanged()
        with self._source.session([column], memory_limit=self._memory_limit) as connection:
            yield connection
        self._source.delete_copies()

    def _check_column(self, column: str) -> None:
        if column not in self._source.columns:
            raise DataError(
                f"{self.name} has no column {brief(column)!r}."
                + column_hint(column, self._source.columns)
            )

    def _pack(
        self, connection: duckdb.DuckDBPyConnection, words: Sequence[Sequence[_Digit]]
    ) -> None:
        """Make the table ``packed`` of one row per record, in order."""
        digits = [_digit_sql(connection, j, coded) for j, coded in enumerate(self._coded)]
        columns = []
        for w, word in enumerate(words):
            parts = [f"({digits[d.key]} << {d.shift})" for d in word]
            columns.append(f"{' | '.join(parts)} AS w{w}")
        rows = clean_rows([coded.clean_sql for coded in self._coded])
        connection.execute(f"CREATE TABLE packed AS SELECT {', '.join(columns)} FROM {rows}")

    def _match(self, connection: duckdb.DuckDBPyConnection, cells_packed: list[Int64]) -> Int32:
        """Row of the sorted cells that each record falls in, (n_records,)."""
        ranker = _Ranker(cells_packed)
        record_cell = np.empty(self.n_records, dtype=np.int32)
        start = 0
        for batch in _batches(connection, "SELECT * FROM packed"):
            stop = start + len(batch[0])
            # A file that grew behind our back must not end in an obscure message.
            if stop > self.n_records:
                raise DataError(f"{self.name} has changed since it was read; read it again.")
            record_cell[start:stop] = ranker.rank(batch)
            start = stop
        return record_cell[:start]


def columns_of(keys: Sequence[str], design: Design) -> list[str]:
    """List the columns that are read: the keys, then those of the design that are no keys."""
    return list(dict.fromkeys([*keys, *design.columns]))


@dataclass(frozen=True, kw_only=True)
class _Digit:
    """Where a key's digit (code + 1, 0 for missing) stands in its word."""

    key: int
    shift: int
    bits: int


class _Ranker:
    """Finds packed patterns among the sorted ones, word by word."""

    def __init__(self, words: list[Int64]) -> None:
        self._values: list[Int64] = []
        self._prefixes: list[Int64] = []
        self._first = np.unique(words[0])
        rank = np.searchsorted(self._first, words[0])
        for word in words[1:]:
            values = np.unique(word)
            joined = rank * len(values) + np.searchsorted(values, word)
            prefixes = np.unique(joined)
            rank = np.searchsorted(prefixes, joined)
            self._values.append(values)
            self._prefixes.append(prefixes)

    def rank(self, words: list[Int64]) -> Int64:
        """Rank of each pattern, all of which must occur among the sorted ones."""
        rank = _places(self._first, words[0])
        for word, values, prefixes in zip(words[1:], self._values, self._prefixes, strict=True):
            rank = _places(prefixes, rank * len(values) + _places(values, word))
        return rank


def _places(values: Int64, wanted: Int64) -> Int64:
    """`np.searchsorted`, sorting what is looked for first: neighbours then share cache lines."""
    order = np.argsort(wanted)
    places = np.empty(len(wanted), dtype=np.int64)
    places[order] = np.searchsorted(values, wanted[order])
    return places


def _words(n_levels: Sequence[int]) -> list[list[_Digit]]:
    """Lay the keys out over words, the first key highest, so that words sort like patterns."""
    sizes = [levels.bit_length() for levels in n_levels]
    groups: list[list[int]] = [[]]
    for key, bits in enumerate(sizes):
        if sum(sizes[k] for k in groups[-1]) + bits > _WORD_BITS:
            groups.append([])
        groups[-1].append(key)
    words = []
    for group in groups:
        shift, word = sum(sizes[k] for k in group), []
        for key in group:
            shift -= sizes[key]
            word.append(_Digit(key=key, shift=shift, bits=sizes[key]))
        words.append(word)
    return words


def _digit_sql(connection: duckdb.DuckDBPyConnection, position: int, coded: CodedKey) -> str:
    """SQL of a key's code + 1 as BIGINT; a missing value has 0, or its level's where it is one."""
    missing_level = coded.key.missing_level
    empty = 0 if missing_level is None else missing_level + 1
    if coded.dense:
        numbers = [int(value) for value in coded.codes]  # type: ignore[call-overload]  # integers
        low, high = min(numbers), max(numbers)
        digits = ["NULL"] * (high - low + 1)
        for number, code in zip(numbers, coded.codes.values(), strict=True):
            digits[number - low] = str(code + 1)
        array = f"[{', '.join(digits)}]::BIGINT[]"
        digit = f"list_extract({array}, {coded.value_sql} - ({low}) + 1)"
    else:
        listed = ", ".join(quoted(str(value)) for value in coded.codes)
        connection.execute(f"CREATE TYPE level{position} AS ENUM ({listed})")
        text = f"TRY_CAST(({coded.value_sql})::VARCHAR AS level{position})"
        digit = f"enum_code({text})::BIGINT + 1"
        if [*coded.codes.values()] != [*range(len(coded.codes))]:
            # Several values are one level.
            listed = ", ".join(str(code + 1) for code in coded.codes.values())
            digit = f"list_extract([{listed}]::BIGINT[], {digit})"
    return f"coalesce({digit}, {empty})"


def _group(connection: duckdb.DuckDBPyConnection, n_words: int) -> tuple[list[Int64], Int64]:
    """Sorted distinct rows of ``packed``, word by word, and their counts."""
    words = ", ".join(f"w{w}" for w in range(n_words))
    batches = list(
        _batches(
            connection,
            f"SELECT {words}, count(*)::BIGINT AS n FROM packed GROUP BY {words} ORDER BY {words}",
        )
    )
    columns = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
    return columns[:-1], columns[-1]


def _batches(connection: duckdb.DuckDBPyConnection, query: str) -> Iterator[list[Int64]]:
    """Columns of a query's result, all BIGINT without NULL, batch after batch."""
    for batch in connection.sql(query).to_arrow_reader(_BATCH):
        yield [column.to_numpy() for column in batch.columns]


def _unpack(packed: list[Int64], words: list[list[_Digit]], n_keys: int) -> Int32:
    cells = np.empty((len(packed[0]), n_keys), dtype=np.int32)
    for column, word in zip(packed, words, strict=True):
        for digit in word:
            cells[:, digit.key] = ((column >> digit.shift) & ((1 << digit.bits) - 1)) - 1
    return cells
