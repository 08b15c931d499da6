"""Reads the sizes of strata from a text file."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from unikat.errors import SpecError


def read_stratum_sizes(path: Path) -> dict[str, int]:
    """Read the sizes of strata from a text file: a header, then a stratum and its size per line.

    Raises
    ------
    SpecError
        If the file cannot be read, or a line does not have two fields of which the second is a
        whole number.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, ValueError):
        raise SpecError(
            f"{path} cannot be read as a text file in UTF-8; it must name a stratum and its size, "
            "the units of the population in it, on each line, below a line with the columns' names."
        ) from None
    lines = text.splitlines()
    delimiter = max(",;\t", key=(lines or [""])[0].count)
    found: dict[str, int] = {}
    for number, row in enumerate(_rows(lines, delimiter, path), start=1):
        if number == 1 or not any(field.strip() for field in row):
            continue
        size = row[1].strip().replace("_", "") if len(row) == 2 else ""
        if not re.fullmatch(r"[0-9]{1,30}(\.0{0,30})?", size):
            raise SpecError(
                f"{path}, line {number}: there must be two fields, a stratum and the number of "
                "units of the population in it, a whole number without commas."
            )
        name = row[0].strip()
        if name in found:
            raise SpecError(f"{path}, line {number}: this stratum has a line already.")
        found[name] = int(float(size))
    if not found:
        raise SpecError(f"{path} names no stratum below its first line.")
    return found


def _rows(lines: Sequence[str], delimiter: str, path: Path) -> Iterator[list[str]]:
    try:
        yield from csv.reader(lines, delimiter=delimiter)
    except csv.Error:
        raise SpecError(f"{path} cannot be read as text with two fields on each line.") from None
