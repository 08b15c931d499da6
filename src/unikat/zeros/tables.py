"""Tables of conditions: a column per key, one impossible combination per row, blanks for any."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from math import isnan
from os import PathLike
from pathlib import Path
from typing import Any

from unikat._typing import Bool
from unikat.data.keys import Key
from unikat.data.named_levels import Levels, is_number
from unikat.data.names import is_name
from unikat.data.numbers import number_meant
from unikat.data.readers import open_source
from unikat.errors import DataError, SpecError, brief, listed, suggest
from unikat.zeros.conditions import MOST_CONDITIONS, Layout, simplified

_BLANKS = frozenset(("", "*", "NA", "N/A", "NaN", "nan", "<NA>", "None", "NULL", "null", "."))
"""What stands for any level, unless a level of the key is called so."""


_FORMULA = re.compile(r"\s*[=+\-@]|[\t\r\n]")
"""The beginning of a text that spreadsheet programs run as a formula."""


def csv_field(text: str) -> str:
    """Return a text for a CSV file: an apostrophe keeps a spreadsheet from running a formula.

    Examples
    --------
    >>> csv_field("=1+1"), csv_field("-1"), csv_field("none")
    ("'=1+1", '-1', 'none')
    """
    is_formula = _FORMULA.match(text) and number_meant(text) is None
    return f"'{text}" if is_formula else text


def _from_csv(field: str) -> str:
    """Take the apostrophe away that `csv_field` puts before a formula."""
    return field[1:] if field[:1] == "'" and csv_field(field[1:]) == field else field


def conditions_from_table(table: Any, keys: Sequence[Key], *, encoding: str | None = None) -> Bool:
    """Read conditions from a table: the R packages' ``MCZ``, or one written by hand.

    Each row says that a combination of levels is impossible. An empty field, a missing value,
    ``NA`` or ``*`` stands for any level, and so does a key without a column. Entries are values or
    labels of levels.

    Parameters
    ----------
    table
        A path (CSV, TSV, Parquet, ...) or a pandas, polars or pyarrow frame.
    keys
        The key variables.
    encoding
        Character encoding of a file that cannot be read without: a text that is not UTF-8, say.

    Returns
    -------
    Bool
        (n_conditions, n_rows): whether a level is in the set of a condition, n_rows being the sum
        of the numbers of levels. Rows that are repeated or lie within another one are left out.

    Examples
    --------
    >>> import pandas as pd
    >>> keys = [Key.of_size("AGE", 3), Key.of_size("SEX", 2)]
    >>> table = pd.DataFrame({"AGE": ["0", "2"], "SEX": ["1", None]})
    >>> conditions_from_table(table, keys).astype(int)
    array([[1, 0, 0, 0, 1],
           [0, 0, 1, 1, 1]])
    """
    position = {key.name: j for j, key in enumerate(keys)}
    try:
        source, columns, rows = _read(table, position, None)
    except DataError:
        if encoding is None:
            raise
        # That of the data comes second: a table that `unikat zeros disjoint` wrote is UTF-8.
        source, columns, rows = _read(table, position, encoding)
    if not rows:
        raise SpecError(f"{source} has no rows; each row is to be an impossible combination.")
    if len(rows) > MOST_CONDITIONS:
        raise SpecError(
            f"{source} has {len(rows):,} rows, more than {MOST_CONDITIONS:,}. Write the "
            "conditions as rules, or unite rows that differ in one key by leaving it blank."
        )
    layout = Layout(n_levels=tuple(key.n_levels for key in keys))
    levels = [Levels(key=keys[position[column]]) for column in columns]
    known: list[dict[object, int | None]] = [{} for _ in columns]
    conditions = []
    for number, row in enumerate(rows, start=1):
        condition = layout.any
        for j, entry in enumerate(row):
            if entry not in known[j]:
                known[j][entry] = _level(levels[j], entry, f"{source}, row {number}")
            level = known[j][entry]
            if level is not None:
                condition &= layout.only(position[columns[j]], (level,))
        if condition == layout.any:
            raise SpecError(
                f"{source}, row {number}: every field is blank, which would make every "
                "combination impossible. Remove the row, or name a level."
            )
        conditions.append(condition)
    return layout.to_array(simplified(conditions))


def _read(
    table: Any, keys: Collection[str], encoding: str | None
) -> tuple[str, list[str], list[tuple[Any, ...]]]:
    """Return what messages call a table, its columns, which must be keys, and its rows."""
    source = open_source(table, delimiter=None, encoding=encoding, format=None)
    names = list(source.columns)
    columns = [name if name in keys else _from_csv(name) for name in names]
    strange = [place for place, column in enumerate(columns) if column not in keys]
    if strange:
        # Where no column is a key, the first line may be a row.
        name = columns[strange[0]]
        header = len(strange) < len(columns) and is_name(name)
        said = f" {name!r}" if header else f" {strange[0] + 1:,}"
        near = suggest(name, keys) if header else ""
        raise SpecError(
            f"{source.name}: the column{said} is no key.{near} A table of impossible combinations "
            "has a column per key and no others, and a first line that names them; the keys are "
            f"{listed(list(keys))}."
        )
    with source.session(names) as connection:
        return source.name, columns, connection.execute("SELECT * FROM source").fetchall()


def text_of_table(table: Any, n_conditions: int) -> str:
    """Say what a rule is that is a table of conditions."""
    plural = "s" if n_conditions != 1 else ""
    return f"{n_conditions:,} condition{plural} of {_name_of(table)}"


def everything_forbidden(table: Any) -> SpecError:
    """Say that a table leaves nothing possible."""
    return SpecError(
        f"{_name_of(table)} forbids everything: its conditions together leave no combination "
        "possible. A row says what is impossible, not what is possible."
    )


def _name_of(table: Any) -> str:
    return Path(table).name if isinstance(table, (str, PathLike)) else "a table"


def _level(levels: Levels, entry: object, where: str) -> int | None:
    """Level that an entry means, None if any."""
    if entry is None or (isinstance(entry, float) and isnan(entry)):
        return None
    value = entry if is_number(entry) or isinstance(entry, str) else str(entry)
    found = levels.called(value)
    if not found and isinstance(value, str):
        found = levels.called(_from_csv(value))
    if not found and isinstance(value, str):
        value = _from_csv(value.strip())
        found = levels.called(value)
    if len(found) == 1:
        return min(found)
    if not found and str(value) in _BLANKS:
        return None
    name = brief(levels.key.name)
    if found:
        labels = levels.shown(found)
        which = f" (by value or label: {labels})" if labels else ""
        raise SpecError(
            f"{where}: the entry of {name!r} means several levels{which}; give the levels labels "
            "in the codebook that are no other level's value."
        )
    raise SpecError(
        f"{where}: the entry of {name!r} is no level of it.{levels.hint(str(value))} A blank "
        "stands for any."
    )
