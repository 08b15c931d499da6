"""Synthetic records as rows of persons: codes, their order, and the columns of the file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.grouping import SIZE
from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.microdata import Microdata
from unikat.data.sampling import one_way
from unikat.data.values import LevelValues, decimal_of
from unikat.errors import SpecError, brief, option

if TYPE_CHECKING:
    import pyarrow as pa

_VALUES = 0x56
"""Part of the seed of draws of values within levels."""


class Persons(NamedTuple):
    """The persons of the original, in the order in which synthetic ones are written."""

    keys: tuple[Key, ...]
    codes: Int32
    """(n_persons, n_keys), -1 where missing."""
    rows: Int64
    """(n_persons,): their rows in the file; those that were left out are not among them."""
    household: Int32 | None = None
    """(n_persons,), from 0, ascending; None if the sample is one of persons."""
    head: Bool | None = None
    """(n_persons,): who is the head; None if that was not declared."""

    @property
    def names(self) -> list[str]:
        """Names of the keys."""
        return [key.name for key in self.keys]


def head_codes(persons: Persons, layout: HouseholdLayout) -> Mapping[str, int]:
    """Codes of the keys that all heads share, where the heads are apart and these no head keys."""
    if not layout.head_apart or persons.head is None:
        return {}
    moved = {key.name for key in layout.household_keys}
    found = {}
    for key in layout.person_keys:
        if f"head.{key.name}" in moved:
            continue
        codes = np.unique(persons.codes[persons.head, persons.names.index(key.name)])
        if len(codes) > 1:
            raise SpecError(
                f"Heads are drawn apart from other members, and differ in {brief(key.name)!r}, "
                f"which is no key of theirs; add it to {option('head_keys')}."
            )
        found[key.name] = int(codes[0])
    return found


def persons_of(
    drawn: Int32, layout: HouseholdLayout, names: Sequence[str], of_head: Mapping[str, int]
) -> Int32:
    """Members of households as rows of persons, the head first if it is apart.

    Parameters
    ----------
    drawn
        (n_households, n_columns) cells of the layout.
    layout
        What the columns are.
    names
        Keys of the persons, in the order of the columns.
    of_head
        Codes of the head in keys that are not its own (`head_codes`).

    Returns
    -------
    Int32
        (n_persons, n_keys), household by household.
    """
    houses, members = layout.parts(drawn)
    sizes = houses[:, 0].astype(np.int64) + 1
    household = np.repeat(np.arange(len(drawn)), sizes)
    place = np.arange(len(household)) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    slot = place - int(layout.head_apart)
    is_head = slot < 0
    of_house = {key.name: j for j, key in enumerate(layout.household_keys) if key.name != SIZE}
    of_person = {key.name: k for k, key in enumerate(layout.person_keys)}
    found = np.full((len(household), len(names)), -1, np.int32)
    for j, name in enumerate(names):
        if name in of_house:
            found[:, j] = houses[household, of_house[name]]
            continue
        found[:, j] = members[household, np.maximum(slot, 0), of_person[name]]
        if layout.head_apart:
            head = of_house.get(f"head.{name}")
            codes = houses[:, head] if head is not None else np.full(len(houses), of_head[name])
            found[is_head, j] = codes[household[is_head]]
    return found


def heads_first(codes: Int32, household: Int32, head: Bool) -> Int32:
    """Rows of persons with the head of each household before its other members."""
    return codes[np.lexsort((~head, household))]


@dataclass(frozen=True, kw_only=True, eq=False)
class Columns:
    """The columns of the synthetic files; made by `columns_of`."""

    names: tuple[str, ...]
    """In the order of the input."""
    left_out: tuple[str, ...]
    """Columns of the input that the synthetic files do not have."""
    copied: pa.Table = field(repr=False)
    """Columns of the design, and those of households with new numbers; rows as the persons."""
    values: Mapping[str, LevelValues] = field(repr=False)
    original: pa.Table = field(repr=False)
    """The keys as the input has them, rows as the persons."""
    labels: Mapping[str, Mapping[Any, str]] = field(repr=False)
    """Labels of columns whose groups were made by hand, where the format holds some."""

    def table(
        self, codes: Int32, keys: Sequence[Key], seed: int, number: int, drawn: Sequence[str]
    ) -> pa.Table:
        """Return a synthetic file.

        Parameters
        ----------
        codes
            (n_persons, n_keys).
        keys
            Their keys.
        seed, number
            Of the run, and of the data set: address of draws within levels.
        drawn
            Keys that were drawn; others are written as they are in the input.
        """
        import pyarrow as pa

        found = {name: self.copied[name] for name in self.copied.column_names}
        for j, key in enumerate(keys):
            if key.name not in drawn:
                found[key.name] = self.original[key.name]
                continue
            rng = _generator(seed, number, j)
            found[key.name] = self.values[key.name].write(codes[:, j], rng)
        fields = [
            self.original.schema.field(name)
            if name in self.original.column_names and found[name].type == self.original[name].type
            else pa.field(name, found[name].type)
            for name in self.names
        ]
        return pa.table([found[name] for name in self.names], schema=pa.schema(fields))

    def letters(
        self, codes: Int32, keys: Sequence[Key], seed: int, number: int, drawn: Sequence[str]
    ) -> dict[str, Sequence[str | None]]:
        """Return the letters such as ``.a`` of the columns of `table` that have some."""
        found = {}
        for j, key in enumerate(keys):
            values, rng = self.values[key.name], _generator(seed, number, j)
            new = values.letters_of(codes[:, j], rng) if key.name in drawn else values.letters
            if new is not None:
                found[key.name] = new
        return found


def _generator(seed: int, number: int, j: int) -> np.random.Generator:
    sequence = np.random.SeedSequence(seed, spawn_key=(_VALUES, number, j))
    return np.random.default_rng(sequence)


def columns_of(
    microdata: Microdata,
    persons: Persons,
    households: Sequence[str],
    design: Sequence[str],
    decimal: str | None,
) -> Columns:
    """Gather what the columns of synthetic files need.

    Parameters
    ----------
    microdata
        The rows.
    persons
        Those that are written.
    households
        Columns that identify the household; its number is written into the first.
    design
        Columns of weights and strata, which are copied.
    decimal
        What the user says stands before decimals.
    """
    import pyarrow as pa

    keys = persons.names
    listed = {*keys, *households, *design}
    names = tuple(name for name in microdata.source.columns if name in listed)
    values = microdata.values(names)
    rows = pa.array(persons.rows)
    taken = values.take(rows)
    letters = {
        name: [found[row] for row in persons.rows.tolist()]
        for name, found in microdata.letters(keys).items()
    }
    if not microdata.source.keeps_letters:
        # What cannot be written as a letter is written as text.
        for key in persons.keys:
            levels = {str(key.levels[code]) for code in key.declared_missing}
            if levels & set(letters.get(key.name, ())):
                texts = _as_texts(taken[key.name], letters.pop(key.name), levels)
                place = taken.column_names.index(key.name)
                taken = taken.set_column(place, key.name, pa.chunked_array([texts]))
    copied = {name: taken[name] for name in design if name not in (*keys, *households)}
    if persons.household is not None:
        for place, name in enumerate(households):
            # The first number alone tells households apart.
            numbers = np.where(place == 0, persons.household.astype(np.int64) + 1, 1)
            copied[name] = _as(numbers, values[name].type)
    return Columns(
        names=names,
        left_out=tuple(name for name in microdata.source.columns if name not in names),
        copied=pa.table(copied),
        values={
            key.name: LevelValues(
                key=key,
                column=taken[key.name],
                codes=persons.codes[:, j],
                decimal=decimal_of(taken[key.name], decimal),
                letters=letters.get(key.name),
            )
            for j, key in enumerate(persons.keys)
        },
        original=taken.select(keys),
        labels={name: found for name, found in microdata.labels.items() if name in keys},
    )


def _as_texts(column: pa.ChunkedArray, letters: Sequence[str | None], levels: Set[str]) -> pa.Array:
    import pyarrow as pa

    return pa.array(
        [
            letter if letter in levels else None if value is None else one_way(str(value))
            for value, letter in zip(column.to_pylist(), letters, strict=True)
        ],
        pa.string(),
    )


def _as(numbers: Int64, kind: pa.DataType) -> pa.Array:
    """Numbers of households in the type of their column, as text where that cannot hold them."""
    import pyarrow as pa

    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    if pa.types.is_integer(plain) or pa.types.is_floating(plain):
        try:
            return pa.array(numbers).cast(plain)
        except pa.ArrowInvalid:
            return pa.array(numbers)
    return pa.array(numbers.astype(str).tolist(), pa.string())


class Plain(NamedTuple):
    """Households with the head among the members, as rules are looked up in."""

    household_keys: tuple[Key, ...]
    """The size first."""
    person_keys: tuple[Key, ...]
    houses: Int32
    """(n_households, n_household_keys)"""
    members: Int32
    """(n_households, n_slots, n_person_keys); codes beyond the last level where nobody is."""

    @property
    def sizes(self) -> Int64:
        """Members of each household, (n_households,)."""
        return self.houses[:, 0].astype(np.int64) + 1


def plain_households(persons: Persons, codes: Int32, shared: Sequence[str]) -> Plain:
    """Group rows of persons, in the order of `persons`, into households.

    Parameters
    ----------
    persons
        Who lives with whom.
    codes
        (n_persons, n_keys).
    shared
        Names of the keys of households.
    """
    assert persons.household is not None
    sizes = np.bincount(persons.household)
    begin = np.cumsum(sizes) - sizes
    of_house = [j for j, name in enumerate(persons.names) if name in shared]
    of_person = [j for j, name in enumerate(persons.names) if name not in shared]
    keys = tuple(persons.keys[j] for j in of_person)
    houses = np.column_stack((sizes - 1, codes[begin][:, of_house])).astype(np.int32)
    members = np.empty((len(sizes), int(sizes.max()), len(keys)), np.int32)
    members[:] = [key.n_levels for key in keys]
    place = np.arange(len(codes)) - begin[persons.household]
    members[persons.household, place] = codes[:, of_person]
    levels = tuple(range(1, int(sizes.max()) + 1))
    size = Key(name=SIZE, levels=levels, labels=tuple(map(str, levels)))
    return Plain((size, *(persons.keys[j] for j in of_house)), keys, houses, members)


def of_first_members(codes: Int32, persons: Persons, shared: Sequence[str]) -> Int32:
    """Give all members of a household its first member's values of the keys that they share."""
    assert persons.household is not None
    first = np.searchsorted(persons.household, persons.household)
    found = codes.copy()
    for j, name in enumerate(persons.names):
        if name in shared:
            found[:, j] = codes[first, j]
    return found
