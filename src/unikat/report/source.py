"""The data that a specification names, for every command that reads a file."""

from __future__ import annotations

from collections.abc import Sequence

from unikat.data import CellTable, Design, read
from unikat.errors import DataError
from unikat.provenance import DataSpec


def tabulate(data: DataSpec, keys: Sequence[str], design: Design) -> CellTable:
    """Read the file and tabulate its keys.

    Raises
    ------
    DataError, SpecError
        If no file is named, or it cannot be read as asked.
    """
    if data.path is None:
        raise DataError("No data file is named; give its path as data.path or on the command line.")
    microdata = read(
        data.path,
        list(keys),
        design,
        codebook=data.codebook,
        missing=data.missing,
        missing_values=data.missing_values,
        delimiter=data.delimiter,
        encoding=data.encoding,
        format=data.format,
    )
    return microdata.tabulate()
