"""Hierarchies of levels from files: each row a level and the ever coarser groups that it is in."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from unikat.data.numbers import number_meant
from unikat.errors import DataError, brief
from unikat.files.toml import why_not_read


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """Groups of the levels of a key, column by column; made by :func:`read_hierarchy`."""

    name: str
    """Of the file."""
    levels: tuple[str, ...]
    """The first column."""
    groups: tuple[tuple[str, ...], ...]
    """(n_columns, n_levels): what each further column calls the group of each level."""


def read_hierarchy(path: Path, encoding: str | None = None) -> Hierarchy:
    """Read a hierarchy: a CSV file without header, delimited by semicolons or else by commas.

    The first column holds the levels, the next ones ever coarser groups; programs end with `*`.

    Raises
    ------
    DataError
        If the file cannot be read or is empty, a row has another number of fields or an empty one,
        a level stands in two rows, or a column splits a group of the column before it.
    """
    name = brief(path.name)
    try:
        content = path.read_bytes()
    except (OSError, ValueError) as error:
        raise DataError(f"Cannot read the hierarchy {name}: {why_not_read(error)}.") from None
    try:
        text = _text_of(content, encoding)
    except (UnicodeError, LookupError):
        raise DataError(
            f"The hierarchy {name} is neither UTF-8 text nor in the encoding of the data; name "
            "that (--encoding; in Python: encoding), or save the file as UTF-8."
        ) from None
    first = next(filter(None, map(str.strip, text.splitlines())), "")
    try:
        lines = io.StringIO(text, newline="")
        reader = csv.reader(lines, delimiter=";" if ";" in first else ",", strict=True)
        rows = [(reader.line_num, [field.strip() for field in row]) for row in reader if any(row)]
    except csv.Error as error:
        raise DataError(f"The hierarchy {name} is no CSV file: {error}.") from None
    if not rows or len(rows[0][1]) < 2:
        raise DataError(
            f"The hierarchy {name} holds no groups; write a level and its groups in each row, "
            "with semicolons or commas between."
        )
    width = len(rows[0][1])
    for line, row in rows:
        if len(row) != width or not all(row):
            what = f"{len(row)} fields" if len(row) != width else "an empty field"
            raise DataError(
                f"The hierarchy {name} has {what} in line {line}; give each row {width}, as the "
                "first has, and a name in each."
            )
    columns = list(zip(*(row for _, row in rows), strict=True))
    twice = len(columns[0]) - len({_as_number(level) for level in columns[0]})
    if twice:
        raise DataError(
            f"The hierarchy {name} has {twice:,} of its levels in more than one row; give each "
            "level one row."
        )
    for j in range(2, width):
        if split := _n_split(columns[j - 1], columns[j]):
            raise DataError(
                f"{name} is no hierarchy: column {j + 1} splits {split:,} of the groups of column "
                f"{j}. Put levels of one group into one group of every later column."
            )
    return Hierarchy(name=name, levels=columns[0], groups=tuple(columns[1:]))


def _text_of(content: bytes, encoding: str | None) -> str:
    """Read text of UTF-8, with or without the mark of some programs, or else of an encoding."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeError:
        if encoding is None:
            raise
        return content.decode(encoding)


def _as_number(level: str) -> str | float:
    """A level by its number, since 84 and 84.0 are the same."""
    number = number_meant(level)
    return level if number is None else float(number)


def _n_split(finer: Sequence[str], coarser: Sequence[str]) -> int:
    """Groups of a column that lie in several of the next."""
    return len(set(zip(finer, coarser, strict=True))) - len(set(finer))
