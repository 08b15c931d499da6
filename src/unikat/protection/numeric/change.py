"""The continuous variables of a released file: checked, changed, and compared with the original."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple
from zlib import crc32

import numpy as np

from unikat._typing import AnyArray, Float64, Int64
from unikat.data.measured import Measured
from unikat.data.names import column_hint
from unikat.errors import DataError, SpecError, brief, listed, option
from unikat.protection.numeric.methods import changed
from unikat.protection.numeric.risk import NumericRisk, near, risk_of
from unikat.protection.numeric.utility import Moments, NumericUtility, moments, utility_of
from unikat.spec.numeric import AS_IT_IS, Method, columns_named

if TYPE_CHECKING:
    import pyarrow as pa


_LARGEST = 1e100


class Entry(NamedTuple):
    """Columns that are changed together."""

    columns: tuple[Measured, ...]
    methods: tuple[Method, ...]

    @property
    def values(self) -> Float64:
        """(n_records, n_columns), NaN where missing."""
        return np.column_stack([one.values for one in self.columns])

    def of_rows(self, rows: Int64) -> Entry:
        """Take some of the records."""
        some = [replace(one, values=one.values[rows]) for one in self.columns]
        return self._replace(columns=tuple(some))


@dataclass(frozen=True, kw_only=True)
class NumericColumn:
    """What was done to a continuous variable."""

    name: str
    methods: tuple[str, ...]
    together: tuple[str, ...]
    """Columns that were changed with it."""
    by_household: bool
    """Whether all members of every household have the same value, which was changed once."""
    n_values: int
    n_missing: int
    """Records without a number, which stay as they are."""
    n_labelled: int
    """Values that have a label and were taken for numbers."""
    n_changed: int
    n_emptied: int
    """Values set missing, since fewer records than a group have its columns."""
    near_deviations: float
    """Share of the released values within 0.05 standard deviations of the true ones."""
    near_share: float
    """Share within 5% of the true ones."""
    near_ranks: float
    """Share whose rank is within 1% of the records of that of the true ones."""
    kept: Moments
    idle: tuple[str, ...] = ()
    """Methods that changed no value."""


@dataclass(frozen=True, kw_only=True)
class NumericFacts:
    """What was done to the continuous variables of a file, the risk of them and what they keep."""

    columns: tuple[NumericColumn, ...]
    risk: NumericRisk
    utility: NumericUtility

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns."""
        return tuple(one.name for one in self.columns)


def entries(
    numeric: Mapping[str, Sequence[Method]],
    columns: Sequence[str],
    keys: Sequence[str],
    read: Callable[[str], Measured],
    where: str,
) -> list[Entry]:
    """Read the columns that are to be changed, and refuse what cannot be done.

    Parameters
    ----------
    numeric
        Methods by column, or columns joined by `+`.
    columns, keys
        Of the file.
    read
        Reads a column of numbers.
    where
        What messages call the file.
    """
    found = []
    named: list[str] = []
    for text, methods in numeric.items():
        names = columns_named(text, columns)
        for name in [*names, *(one for method in methods for one in method.by)]:
            if name not in columns:
                raise DataError(
                    f"{where} has no column {brief(name)!r}, which {option('numeric')} names."
                    + column_hint(name, columns)
                )
        for name in names:
            if name in keys:
                raise SpecError(
                    f"{brief(name)!r} is a key, which {option('numeric')} cannot change: recode it "
                    "(--recode, --recodings), or leave it out of the keys."
                )
            if name in named:
                raise SpecError(
                    f"{option('numeric')} names {brief(name)!r} twice; name each column once, with "
                    "all its methods."
                )
            named.append(name)
        found.append(Entry(tuple(map(read, names)), tuple(methods)))
    for entry in found:
        check_entry(entry, named)
    return found


def check_entry(entry: Entry, named: Sequence[str] = ()) -> None:
    """Refuse methods that cannot be carried out on some columns, before the fit."""
    for method in entry.methods:
        if both := [name for name in method.by if name in named]:
            raise SpecError(
                f"{method} groups by {brief(both[0])!r}, which {option('numeric')} changes; group "
                "by a column that it does not name."
            )
    values = entry.values
    for column, one in zip(values.T, entry.columns, strict=True):
        sizes = np.abs(column[np.isfinite(column) & (column != 0.0)])
        if ((sizes > _LARGEST) | (sizes < 1.0 / _LARGEST)).any():
            raise DataError(
                f"Column {brief(one.name)!r} has numbers above {_LARGEST:g} or below "
                f"{1.0 / _LARGEST:g}, whose squares cannot be computed; correct them, or leave the "
                f"column out of {option('numeric')}."
            )
        n = int(np.isfinite(column).sum())
        needed = [int(m.amount) for m in entry.methods if m.name == "microaggregate"]
        if n < max([1, *needed]):
            raise DataError(
                f"Column {brief(one.name)!r} has {n:,} number(s), and {max([1, *needed]):,} are "
                f"needed for {listed(list(map(str, entry.methods)))}. Take smaller groups, or "
                f"leave the column out of {option('numeric')}."
            )
    # Means of few values are found out before the fit, and not after it.
    by, generator = np.zeros(len(values), np.int64), np.random.default_rng(0)
    for method in entry.methods:
        if method.name in ("top", "bottom", "round"):
            values = changed(values, method, by, generator)


def change(
    table: pa.Table,
    some: Sequence[Entry],
    keys_before: AnyArray,
    keys_after: AnyArray,
    household: AnyArray | None,
    seed: int | None,
) -> tuple[pa.Table, NumericFacts]:
    """Change the continuous variables of a released table.

    Parameters
    ----------
    table
        The rows as they are released.
    some
        What is to be changed.
    keys_before, keys_after
        (n,): number of what a record shows of its keys, in the original and the released file.
    household
        (n,): number of each record's household, if the file has some. Columns in which all members
        agree are changed by households, so that members still agree and their mean tells no more.
    seed
        Of the methods that draw; each column draws its own numbers whichever others are changed.

    Returns
    -------
    tuple
        The changed table, and the facts.
    """
    facts: list[NumericColumn] = []
    columns: list[Float64] = []
    for entry in some:
        made = values_changed(table, entry, household, seed)
        for one, released in zip(entry.columns, made.values.T, strict=True):
            place = table.column_names.index(one.name)
            written = one.written(table.column(place), released)
            table = table.set_column(place, one.name, written)
            columns.append(released)
            facts.append(made.facts(one, released))
    true = np.column_stack([entry.values for entry in some])
    released = np.column_stack(columns)
    return table, NumericFacts(
        columns=tuple(facts),
        risk=risk_of(true, released, keys_before, keys_after),
        utility=utility_of([one.name for one in facts], true, released),
    )


class ChangedValues(NamedTuple):
    """The values of an entry as they are released."""

    entry: Entry
    values: Float64
    """(n_records, n_columns), NaN where missing."""
    by_household: bool
    """Whether they were changed by households."""
    idle: tuple[str, ...]
    """Methods that changed no value."""

    def facts(self, one: Measured, released: Float64) -> NumericColumn:
        """Tell what was done to one of the columns; `released` are its values."""
        known = np.isfinite(one.values)
        both = known & np.isfinite(released)
        close = near(one.values[both], released[both])
        return NumericColumn(
            name=one.name,
            methods=tuple(map(str, self.entry.methods)),
            together=tuple(other.name for other in self.entry.columns if other is not one),
            by_household=self.by_household,
            n_values=int(known.sum()),
            n_missing=int((~known).sum()),
            n_labelled=one.n_labelled,
            n_changed=int((one.values[both] != released[both]).sum()),
            n_emptied=int((known & ~both).sum()),
            near_deviations=float(close.deviations.mean()),
            near_share=float(close.share.mean()),
            near_ranks=float(close.ranks.mean()),
            kept=moments(one.values[both], released[both]),
            idle=self.idle,
        )


def values_changed(
    table: pa.Table, entry: Entry, household: AnyArray | None, seed: int | None
) -> ChangedValues:
    """Change the values of one entry; see `change`."""
    values = entry.values
    units, unit = _units(values, household)
    values = values[units]
    names = [crc32(one.name.encode()) for one in entry.columns]
    idle: list[str] = []
    for number, method in enumerate(entry.methods):
        random = np.random.SeedSequence(seed or 0, spawn_key=(*names, number))
        by = _groups(table, method.by)[units]
        before = values
        values = changed(before, method, by, np.random.default_rng(random))
        if method.name != AS_IT_IS and np.array_equal(before, values, equal_nan=True):
            idle.append(str(method))
    released = [
        np.where(np.isfinite(one.values), one.rounded(column), np.nan)
        for one, column in zip(entry.columns, values[unit].T, strict=True)
    ]
    return ChangedValues(entry, np.column_stack(released), len(units) < len(unit), tuple(idle))


def _units(values: Float64, household: AnyArray | None) -> tuple[Int64, Int64]:
    """Rows of what is changed, and which of them each record has: households where all agree."""
    every = np.arange(len(values))
    if household is None:
        return every, every
    # A record whose household is not known is alone.
    numbers = np.where(household < 0, len(values) + every, household)
    _, first, place = np.unique(numbers, return_index=True, return_inverse=True)
    if np.array_equal(values, values[first][place], equal_nan=True):
        return first, place
    return every, every


def _groups(table: pa.Table, by: Sequence[str]) -> Int64:
    """Number the values of columns as they are released; those that are left out group nothing."""
    import pyarrow as pa
    import pyarrow.compute as pc

    group = np.zeros(table.num_rows, np.int64)
    for name in by:
        if name in table.column_names:
            column = table[name].combine_chunks()
            if not pa.types.is_dictionary(column.type):
                column = pc.dictionary_encode(column)
            values = (
                pc.fill_null(column.indices, -1).to_numpy(zero_copy_only=False).astype(np.int64)
            )
            _, group = np.unique(np.column_stack((group, values)), axis=0, return_inverse=True)
    return group.ravel()
