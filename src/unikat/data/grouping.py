"""From persons to households: the rows of a file grouped, checked, and coded as one row each.

What contradicts itself is refused with the row numbers of the file, and never with values.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import AnyArray, Bool, Int32, Int64
from unikat.data.design import Design
from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.microdata import Microdata
from unikat.data.numbers import rows_shown
from unikat.data.patterns import distinct
from unikat.data.sampling import few_classes, refuse_missing, sampling_from
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, brief, option, setting

MOST_MEMBERS = 60
"""Persons of a household; more are an institution, or households that share a number."""
SIZE = "size"
"""Name of the key that holds the number of persons."""


@dataclass(frozen=True, kw_only=True)
class Grouping:
    """How persons form households.

    Parameters
    ----------
    household_keys
        Names of the keys that all members of a household share.
    head_keys
        Names of the persons' keys of which the head's value is a key of the household, called
        `head.NAME`. The head is then not among the members.
    scattered
        Members of a household may stand anywhere in the file.
    aside
        Names of columns that were read with the keys and are none.
    role
        Name of the persons' key that says what each is in the household; None if none does.
    drop_headless
        Leave households with no head or several out, and do not refuse them.
    """

    household_keys: tuple[str, ...] = ()
    head_keys: tuple[str, ...] = ()
    scattered: bool = False
    aside: tuple[str, ...] = ()
    role: str | None = None
    drop_headless: bool = False

    def __post_init__(self) -> None:
        both = sorted({*self.household_keys} & {*self.head_keys})
        if both:
            raise SpecError(
                f"{brief(both[0])!r} is named as a key of the household and of its head; a key "
                "that all members share is one of the household."
            )


class HouseholdSample(NamedTuple):
    """A sample of households."""

    table: CellTable
    """A record is a household, in order of appearance; see `CellTable.layout`."""
    of_record: Int32
    """(n_records,): household of each row of the file; -1 where it was left out."""
    head: Bool | None
    """(n_records,): who is the head; None if that was not declared."""
    conflicts: Any = None
    """`HouseholdConflicts`: households of the file that break a rule; None without rules."""

    def once(self, values: AnyArray, what: str, name: str) -> AnyArray:
        """Values of the households, (n_households,), of values of persons that all members share.

        Parameters
        ----------
        values
            (n_records,)
        what
            What they are, in the plural.
        name
            What messages call the file.
        """
        # A row that was left out is a household by itself, behind the others.
        left_out = self.table.n_records + np.arange(len(self.of_record))
        own = np.where(self.of_record < 0, left_out, self.of_record)
        place = np.unique(own, return_inverse=True)[1].astype(np.int32)
        return np.asarray(_once(values, place, what, name)[: self.table.n_records])


def numbered_households(
    microdata: Microdata, columns: Sequence[str], missing_values: object = ()
) -> Int32:
    """Number the households of a file by their order of appearance, (n_records,)."""
    together = np.zeros(microdata.n_records, np.int64)
    for column in columns:
        codes, values = microdata.codes(column, missing_values)
        refuse_missing(codes < 0, column, microdata.name, "household")
        together = np.unique(together * len(values) + codes, return_inverse=True)[1]
    return _by_appearance(together)


def numbered_in_both(
    ours: Microdata, theirs: Microdata, columns: Sequence[str], what: str
) -> tuple[Int64, Int64]:
    """Number the units that columns identify, alike in two files, from 0.

    Returns
    -------
    tuple
        The number of each record of either file; a missing value of ours is a value.
    """
    n = ours.n_records
    together = np.zeros(n + theirs.n_records, np.int64)
    for column in columns:
        codes, values = ours.codes(column)
        other, other_values = theirs.codes(column)
        refuse_missing(other < 0, column, theirs.name, what)
        place = {value: code for code, value in enumerate(values)}
        renumbered = np.array([place.setdefault(value, len(place)) for value in other_values])
        both = np.concatenate((codes, renumbered[other]))
        together = np.unique(together * len(place) + both, return_inverse=True)[1]
    return together[:n], together[n:]


def joined_keys(
    persons: Microdata,
    households: Microdata,
    columns: Sequence[str],
    of_record: Int32,
) -> tuple[tuple[Key, ...], Int32]:
    """Keys of a file of households, in the order of the households of a file of persons.

    Parameters
    ----------
    persons, households
        The two files; those of the keys of `households` are taken.
    columns
        Columns that together identify a household, in both files.
    of_record
        (n_records,) household of each person.

    Returns
    -------
    tuple
        The keys, and their codes (n_households, n_keys).
    """
    mine, theirs = numbered_in_both(persons, households, columns, "household")
    order = np.argsort(theirs, kind="stable")
    twice = order[1:][np.diff(theirs[order]) == 0]
    if len(twice):
        n_twice = len(np.unique(theirs[twice]))
        raise DataError(
            f"{households.name}: {_counted(n_twice)} listed more than once ({_rows(twice)}). "
            "It must have one row for each household."
        )
    row = np.full(int(max(mine.max(), theirs.max())) + 1, -1, np.int64)
    row[theirs] = np.arange(len(theirs))
    lacking = row[mine] < 0
    if lacking.any():
        raise DataError(
            f"{persons.name}: the households of {np.count_nonzero(lacking):,} persons "
            f"({_rows(np.flatnonzero(lacking))}) are not in {households.name}. Add them there, or "
            "leave these persons out."
        )
    table = households.tabulate()
    _, first = np.unique(of_record, return_index=True)
    return table.keys, table.cells[table.record_cell[row[mine[first]]]]


def _by_appearance(groups: Int64) -> Int32:
    _, first, place = np.unique(groups, return_index=True, return_inverse=True)
    rank = np.empty(len(first), np.int32)
    rank[np.argsort(first)] = np.arange(len(first), dtype=np.int32)
    return rank[place]


def group(
    persons: CellTable,
    of_record: Int32,
    design: Design,
    grouping: Grouping,
    *,
    name: str,
    head: Bool | None = None,
    joined: tuple[tuple[Key, ...], Int32] | None = None,
    weights: AnyArray | None = None,
    strata: tuple[Int32, list[str]] | None = None,
) -> HouseholdSample:
    """Make the table of households of persons.

    Parameters
    ----------
    persons
        Table of the persons, with the keys of both kinds.
    of_record
        (n_records,) household of each person, by order of appearance.
    design
        How the *households* were drawn; its population size is their number.
    grouping
        How persons form households.
    name
        What messages call the file.
    head
        (n_records,): who is the head; None if that was not declared.
    joined
        Keys of a file of households and their codes, (n_households, n_keys).
    weights, strata
        Of each person, the same for all members: column of the design as numbers, and as codes
        with their labels.

    Raises
    ------
    DataError
        If a household contradicts itself, is split over the file, has no head or several, or is
        very large.
    SpecError
        If the population is not known, or smaller than the sample.
    """
    names = [key.name for key in persons.keys]
    if SIZE in names:
        raise SpecError(
            f"A key is called {SIZE!r}, which is the number of persons of a household here. Rename "
            "the column."
        )
    if not grouping.scattered:
        _refuse_split(of_record, name)
    n_households = int(of_record.max()) + 1
    sizes = np.bincount(of_record, minlength=n_households)
    _refuse_large(sizes, of_record, name)
    codes = persons.cells[persons.record_cell]
    shared = [names.index(key) for key in grouping.household_keys]
    household = _shared(codes[:, shared], of_record, [names[j] for j in shared], name)
    keys = [persons.keys[j] for j in shared]
    if joined is not None:
        keys += joined[0]
        household = np.concatenate((household, joined[1]), axis=1)
    members = np.ones(len(of_record), bool)
    headless = np.zeros(n_households, bool)
    if head is not None:
        headless = np.bincount(of_record[head], minlength=n_households) != 1
        if headless.any() and not grouping.drop_headless:
            _refuse_headless(head, of_record, n_households, name)
        # One that is left out has any head until then.
        first = np.unique(of_record, return_index=True)[1]
        first[of_record[head]] = np.flatnonzero(head)
        if grouping.head_keys:
            moved = [names.index(key) for key in grouping.head_keys]
            household = np.concatenate((household, codes[first][:, moved]), axis=1)
            keys += [_renamed(persons.keys[j]) for j in moved]
            members[first] = False
    rest = [j for j, key in enumerate(names) if j not in shared and key not in grouping.aside]
    if not rest:
        raise SpecError(
            "All keys are keys of the household; name at least one key of its members in "
            f"{option('keys')}."
        )
    apart = bool(grouping.head_keys)
    most = int(sizes.max())
    if apart and most == 1:
        raise DataError(
            f"{name}: every household has one person, the head, so there are no other members. "
            f"Leave {setting('households.head_keys')} out."
        )
    layout = HouseholdLayout(
        household_keys=(
            Key(
                name=SIZE,
                levels=tuple(range(1, most + 1)),
                labels=tuple(map(str, range(1, most + 1))),
            ),
            *keys,
        ),
        person_keys=tuple(persons.keys[j] for j in rest),
        n_slots=most - apart,
        head_apart=apart,
        role=next((k for k, j in enumerate(rest) if names[j] == grouping.role), -1),
    )
    order = np.argsort(of_record, kind="stable")
    order = order[members[order]]
    rows = layout.pack(
        np.concatenate((sizes[:, None] - 1, household), axis=1).astype(np.int32),
        codes[order][:, rest],
    )
    numbers = None if weights is None else _once(weights, of_record, "weights", name)
    classes, labels = (None, []) if strata is None else strata
    if classes is not None:
        classes = _once(classes, of_record, "strata", name)
    sampling, population_size = sampling_from(design, classes, labels, numbers, name)
    if population_size is None:
        raise SpecError(
            "The number of households in the population is needed, for example from the census. "
            f"Give it: {option('population_households')}."
        )
    if population_size < n_households:
        raise SpecError(
            f"The population has {population_size:,} households, but the data hold "
            f"{n_households:,}. Give the number of households in the whole population: "
            f"{option('population_households')}."
        )
    columns = layout.columns
    found = distinct(rows, [key.n_levels for key in columns])
    table = CellTable(
        keys=columns,
        cells=np.ascontiguousarray(rows[found.first], np.int32),
        counts=found.counts,
        record_cell=found.place.astype(np.int32),
        population_size=population_size,
        missing=persons.missing,
        sampling=sampling,
        layout=layout,
    )
    sample = HouseholdSample(few_classes(table), of_record, head)
    return without_households(sample, headless, "has no head, or several; correct the rule of it")


def without_households(
    sample: HouseholdSample, left_out: Bool, why: str = "breaks a rule; correct the rules"
) -> HouseholdSample:
    """Leave households out, (n_households,) True; the others are numbered anew.

    `why` says what is wrong with all of them, if none is left, and what to do.
    """
    if not left_out.any():
        return sample
    kept = np.flatnonzero(~left_out)
    if not len(kept):
        raise DataError(f"No household is left: every one {why}.")
    table = sample.table
    number = np.full(len(left_out), -1, np.int32)
    number[kept] = np.arange(len(kept), dtype=np.int32)
    cell = table.record_cell[kept]
    occupied, place = np.unique(cell, return_inverse=True)
    return sample._replace(
        table=replace(
            table,
            cells=table.cells[occupied],
            counts=np.bincount(place).astype(np.int64),
            record_cell=place.astype(np.int32),
            sampling=None if table.sampling is None else table.sampling.taken(kept),
        ),
        of_record=np.where(sample.of_record < 0, -1, number[sample.of_record]).astype(np.int32),
    )


def _renamed(key: Key) -> Key:
    return replace(key, name=f"head.{key.name}")


def _refuse_split(of_record: Int32, name: str) -> None:
    """Refuse households whose members are not neighbours in the file."""
    changes = np.flatnonzero(np.diff(of_record) != 0) + 1
    starts = np.concatenate(([0], changes))
    again = starts[of_record[starts] <= np.maximum.accumulate(np.r_[-1, of_record[starts][:-1]])]
    if len(again):
        belong = "belongs to a household that" if len(again) == 1 else "belong to households that"
        raise DataError(
            f"{name}: {_rows(again)} {belong} ended before, so that members of a household are "
            "split over the file. If numbers of households are used again (in each region or "
            f"quarter), name all columns that tell them apart: {option('household', 'A,B')}. If "
            f"the file is in another order, say so: {setting('households.scattered', True)}."
        )


def _refuse_large(sizes: Int64, of_record: Int32, name: str) -> None:
    large = sizes > MOST_MEMBERS
    if large.any():
        raise DataError(
            f"{name}: {_counted(int(np.count_nonzero(large)))} of more than {MOST_MEMBERS} persons "
            f"({_rows(_first_rows(large, of_record))}). Institutions are no households: leave them "
            "out. If numbers of households are used again, name all columns that tell them apart."
        )


def _first_rows(which: Bool, of_record: Int32) -> Int64:
    """First row of each of some households."""
    _, first = np.unique(of_record, return_index=True)
    return np.asarray(first[which], np.int64)


def _shared(codes: Int32, of_record: Int32, names: Sequence[str], name: str) -> Int32:
    """Codes of the keys that all members share, (n_households, n_keys); what is known decides."""
    n_households = int(of_record.max()) + 1
    found = np.full((n_households, codes.shape[1]), -1, np.int32)
    for j, key in enumerate(names):
        column = codes[:, j]
        np.maximum.at(found[:, j], of_record, column)
        wrong = (column >= 0) & (column != found[of_record, j])
        if wrong.any():
            broken = np.unique(of_record[wrong])
            rows = np.flatnonzero(np.isin(of_record, broken))
            raise DataError(
                f"{name}: members of {_counted(len(broken))} differ in {key!r}, a key of the "
                f"household ({_rows(rows)}). Correct them, or take it as a key of persons: leave "
                f"it out of {option('household_keys')}."
            )
    return found


def _refuse_headless(head: Bool, of_record: Int32, n_households: int, name: str) -> None:
    """Refuse households with no head or several."""
    heads = np.bincount(of_record[head], minlength=n_households)
    for wrong, what in ((heads == 0, "no head"), (heads > 1, "several heads")):
        if wrong.any():
            n = int(np.count_nonzero(wrong))
            rows = np.flatnonzero(wrong[of_record] & (head if what == "several heads" else True))
            raise DataError(
                f"{name}: {_counted(n)} with {what} by {option('head')} ({_rows(rows)}). Correct "
                "the rule or the file, or leave them out: "
                f"{setting('households.drop_headless', True)}."
            )


def _once(values: AnyArray, of_record: Int32, what: str, name: str) -> Any:
    """Values of the households, of values of persons that all members share."""
    _, first = np.unique(of_record, return_index=True)
    found = values[first]
    wrong = values != found[of_record]
    if wrong.any():
        broken = np.unique(of_record[wrong])
        rows = np.flatnonzero(np.isin(of_record, broken))
        raise DataError(
            f"{name}: members of {_counted(len(broken))} differ in their {what} "
            f"({_rows(rows)}). Households were drawn as wholes here, so that their members share "
            f"them: name the column that holds the {what} of households. A synthesis can do "
            f"without {what}."
        )
    return found


def _counted(n: int) -> str:
    return f"{n:,} household{'' if n == 1 else 's'}"


def _rows(rows: Int64) -> str:
    return f"{'row' if len(rows) == 1 else 'rows'} {rows_shown(rows + 1)}"
