"""Choose a sheet or table of a file that has several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from unikat.errors import DataError, SpecError, brief, listed, option, suggest

_MOST_SHOWN = 10
_LONGEST_SHOWN = 40


def choose(
    names: Sequence[str], wanted: str | None, *, what: Literal["sheet", "table"], file: str
) -> str:
    """Return the sheet or table that is meant: the one that is named, or the only one.

    Raises
    ------
    DataError
        If the file holds nothing, or several and none is named.
    SpecError
        If it does not hold what is named.
    """
    if wanted is not None and wanted in names:
        return wanted
    if not names:
        raise DataError(f"{file} holds no {what}; there is nothing to read.")
    if wanted is None and len(names) == 1:
        return names[0]
    # Names are the work of others, and may hold anything.
    shown = [name for name in names if name.isprintable() and len(name) <= _LONGEST_SHOWN]
    told = f": {listed([repr(name) for name in shown], _MOST_SHOWN)}" if shown else ""
    if wanted is None:
        raise DataError(
            f"{file} holds {len(names):,} {what}s{told}. Name the one to read, for example "
            f"{option(what, shown[0] if shown else None)}."
        )
    raise SpecError(
        f"{file} holds no {what} {brief(wanted)!r}.{suggest(wanted, shown)} It holds "
        f"{len(names):,}{told}."
    )
