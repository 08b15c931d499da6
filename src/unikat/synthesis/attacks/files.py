"""The files of an attack in one coding: the original, synthetic files, a control file."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unikat._typing import Int32
from unikat.data.keys import Key
from unikat.data.matching import UNKNOWN, codes_among
from unikat.data.numbers import number_meant
from unikat.data.table import CellTable
from unikat.errors import DataError, option
from unikat.synthesis.attacks.rates import AnyHousehold


class Named(NamedTuple):
    """A tabulated file, and what messages call it."""

    name: str
    table: CellTable
    of_record: Int32 | None = None
    """(n_records,): household of each record; None if persons alone are attacked."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Files:
    """Records of all files, coded alike; a missing value is a level of its own. See `aligned`."""

    names: tuple[str, ...]
    """Of the columns: the keys first, then what an intruder wants to learn."""
    n_keys: int
    """Columns that are keys."""
    n_levels: tuple[int, ...]
    """Levels of each column in any file."""
    original: Int32
    """(n, n_columns)"""
    synthetic: tuple[Int32, ...]
    """Each (n_synthetic, n_columns)."""
    control: Int32
    """(n_control, n_columns): records of the same population that the generator never saw; may be
    empty."""
    population: Int32
    """(N, n_columns): the whole population; empty if it is not known."""
    household: AnyHousehold = None
    """(n,): household of each record of the original, whose persons are not independent."""
    control_household: AnyHousehold = None
    """(n_control,): the same of the control file."""
    synthetic_household: tuple[AnyHousehold, ...] = (None,)
    """Each (n_synthetic,): the same of each synthetic file."""


def aligned(
    original: Named,
    synthetic: Sequence[Named],
    control: Named | None = None,
    population: Named | None = None,
    *,
    n_keys: int,
) -> Files:
    """Bring files into the coding of the original, whose tables have missing as a level."""
    keys = original.table.keys
    levels: list[dict[str, int]] = [{} for _ in keys]
    """Labels of levels that the control file or the population alone has, with their codes."""
    made = [coded(one, keys) for one in synthetic]
    nothing = np.empty((0, len(keys)), np.int32)
    others = [nothing if one is None else coded(one, keys, levels) for one in (control, population)]
    return Files(
        names=tuple(key.name for key in keys),
        n_keys=n_keys,
        n_levels=tuple(
            key.n_levels + len(further) for key, further in zip(keys, levels, strict=True)
        ),
        original=original.table.cells[original.table.record_cell],
        synthetic=tuple(made),
        control=others[0],
        population=others[1],
        household=original.of_record,
        control_household=None if control is None else control.of_record,
        synthetic_household=tuple(one.of_record for one in synthetic),
    )


def coded(
    file: Named,
    keys: Sequence[Key],
    further: list[dict[str, int]] | None = None,
    whose: str = "the original",
) -> Int32:
    """Code the records of a file as another one has them, (n_records, n_columns).

    Parameters
    ----------
    file
        With the same keys in the same order.
    keys
        Of the other file.
    further
        Takes labels of levels that the other file lacks, by key, with new codes; None: refuse them.
    whose
        What messages call the other file.
    """
    table = file.table
    cells = np.empty_like(table.cells)
    for j, (ours, theirs) in enumerate(zip(keys, table.keys, strict=True)):
        codes = codes_among(ours, theirs, file.name, whose)
        unknown = np.flatnonzero(codes == UNKNOWN)
        if len(unknown) and further is None:
            rows = int(table.counts[np.isin(table.cells[:, j], unknown)].sum())
            if rows:
                raise DataError(
                    f"{file.name}, key {ours.name!r}: {rows:,} record(s) have a level that "
                    f"{whose} does not have. If the level can occur, declare it in the codebook: "
                    f"{option('codebook', 'levels.json')}. If not, check that both files have the "
                    f"same codes.{_grouped(ours)}"
                )
        for code in unknown if further is not None else ():
            assert further is not None
            label = theirs.labels[code]
            codes[code] = further[j].setdefault(label, ours.n_levels + len(further[j]))
        cells[:, j] = codes[table.cells[:, j]]
    return cells[table.record_cell]


def _grouped(key: Key) -> str:
    """How to compare numbers that were drawn within a group, as ages are."""
    if key.binning or key.n_levels <= 30 or any(number_meant(one) is None for one in key.labels):
        return ""
    return f" Numbers that were drawn within a group are compared by groups: {key.name}:width(5)."
