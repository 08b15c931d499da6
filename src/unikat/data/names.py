"""Names of columns, sheets and tables: which of them a message may show.

The first line of a file without a header is a record, and a header that is read in the wrong
encoding or with an open quotation mark can be anything. So a message states how many columns there
are, and names a few of them only where the whole header looks like names.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Literal

from unikat.errors import DataError, SpecError, brief, listed, option, suggest
from unikat.language.keys import quoted

MOST_SHOWN = 5
"""Names in a message, at most."""
_LONGEST = 40
_MOST_TABLES = 10
_NAME = re.compile(r"[^\W\d][\w .()/%-]*")
_VALUE = re.compile(r"\s*[-+(]?\s*[.,]?\d")
"""The beginning of a number, a date, a code or an address."""


NO_HEADER = (
    "Their names look like values. If the first line is a record, write a line with the names of "
    "the columns before it."
)


def like_record(columns: Sequence[str]) -> bool:
    """Whether names of columns look like values, as those of a file without a header do."""
    return any(_VALUE.match(column) for column in columns)


def column_hint(name: str, columns: Sequence[str], *, confirmed: bool = True) -> str:
    """Say which columns there are where one is not found, without values of records.

    The sentences follow "There is no column ...", each with a blank before it. `confirmed`: another
    name that was asked for is one of the columns, so the first line of the file is a header.

    Examples
    --------
    >>> column_hint("AEG", ["AGE", "SEX"])
    " Did you mean 'AGE'? There are 2 columns: AGE, SEX."
    >>> column_hint("AGE", ["34", "f", "Ardez"])
    ' There are 3 columns. Their names look like values. If the first line is a record, write a line
    with the names of the columns before it.'
    """
    many = f" There {'is 1 column' if len(columns) == 1 else f'are {len(columns):,} columns'}"
    names = [column for column in columns if is_name(column)]
    if like_record(columns):
        return f"{many}. {NO_HEADER}"
    if written := _in_quotes(name, columns):
        return written
    if 2 * len(names) < len(columns):
        return (
            f"{many}. Their names are empty, long or not readable: check the first line, the "
            "encoding and the delimiter."
        )
    near = suggest(name, names)
    if not confirmed:
        return f"{near}{many}, and none has a name that was asked for: check the first line."
    such = ": " if len(columns) <= MOST_SHOWN else ", such as "
    return f"{near}{many}{such}{', '.join(names[:MOST_SHOWN])}." if names else f"{near}{many}."


def _in_quotes(name: str, columns: Sequence[str]) -> str:
    """Say how a column is written, of whose name a part was taken for one; empty if of none."""
    for column in columns:
        parts = {part.strip() for part in re.split("[,;:=]", column)}
        if name in parts and len(column) <= _LONGEST and column.isprintable():
            return (
                f" Write a name with such a sign in double quotes: {shlex.quote(quoted(column))}."
            )
    return ""


def is_name(column: str) -> bool:
    """Whether a column's name is short and printable, and begins as names do."""
    return len(column) <= _LONGEST and bool(_NAME.fullmatch(column)) and column.isprintable()


class NoSuchTableError(SpecError):
    """A file has no sheet or table of a name; `names` are those that it has."""

    def __init__(self, message: str, names: Sequence[str]) -> None:
        super().__init__(message)
        self.names = tuple(names)


def choose_table(
    names: Sequence[str], wanted: str | None, *, what: Literal["sheet", "table"], file: str
) -> str:
    """Return the sheet or table that is meant: the one that is named, or the only one."""
    if wanted is not None and wanted in names:
        return wanted
    if not names:
        raise DataError(f"{file} holds no {what}; there is nothing to read.")
    if wanted is None and len(names) == 1:
        return names[0]
    # Names are the work of others, and may hold anything.
    shown = [name for name in names if name.isprintable() and len(name) <= _LONGEST]
    told = f": {listed([repr(name) for name in shown], _MOST_TABLES)}" if shown else ""
    if wanted is None:
        raise DataError(
            f"{file} holds {len(names):,} {what}s{told}. Name the one to read, for example "
            f"{option(what, shown[0] if shown else None)}."
        )
    raise NoSuchTableError(
        f"{file} holds no {what} {brief(wanted)!r}.{suggest(wanted, shown)} It holds "
        f"{len(names):,}{told}.",
        # Long ones can be chosen, though no message lists them.
        [name for name in names if name.isprintable()],
    )
