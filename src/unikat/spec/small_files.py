"""Small text files that a specification names: sizes of strata, and transition matrices."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from typing import TypeAlias

from unikat.errors import SpecError
from unikat.files.toml import file_bytes

Matrix: TypeAlias = dict[str, dict[str, float]]
"""For each level the probabilities of what it becomes."""


def read_stratum_sizes(path: Path) -> dict[str, int]:
    """Read the sizes of strata from a text file: a header, then a stratum and its size per line."""
    rows = _rows(
        path,
        "name a stratum and its size, the units of the population in it, on each line, below a "
        "line with the columns' names",
        "two fields on each line",
    )
    found: dict[str, int] = {}
    for number, row in enumerate(rows, start=1):
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


def read_matrix(path: Path) -> Matrix:
    """Read a transition matrix from a text file: levels stand in the first row and first column."""
    holds = "hold a transition matrix, with the levels in the first row and the first column"
    rows = [
        row
        for row in _rows(path, holds, "a level and probabilities on each line")
        if any(map(str.strip, row))
    ]
    levels = [level.strip() for level in rows[0][1:]] if rows else []
    names = [row[0].strip() for row in rows[1:]]
    if not levels or len(set(levels)) < len(levels) or len(set(names)) < len(names):
        raise SpecError(
            f"{path} must hold a transition matrix: the levels in the first row and in the first "
            "column, each once, and below and beside them the probabilities."
        )
    found: Matrix = {}
    for number, row in enumerate(rows[1:], start=2):
        try:
            values = [float(value) for value in row[1:]]
        except ValueError:
            values = []
        if len(values) != len(levels):
            raise SpecError(
                f"{path}, row {number}: there must be a level and {len(levels)} probabilities, "
                "numbers with a decimal point."
            )
        found[row[0].strip()] = dict(zip(levels, values, strict=True))
    return found


def _rows(path: Path, holds: str, fields: str) -> list[list[str]]:
    """Read the rows of a text file that must hold something, with some fields on each line."""
    try:
        lines = file_bytes(path).decode("utf-8-sig").splitlines()
    except (OSError, ValueError):
        raise SpecError(
            f"{path} cannot be read as a text file in UTF-8; it must {holds}."
        ) from None
    delimiter = max(",;\t", key=(lines or [""])[0].count)
    try:
        return [*csv.reader(lines, delimiter=delimiter)]
    except csv.Error:
        raise SpecError(f"{path} cannot be read as text with {fields}.") from None
