"""Households as rows of codes: what the columns are, and the order of the members.

    size, household keys, keys of member 1, keys of member 2, ... up to the largest household

A member that a household does not have has the code `n_levels` of each key, *absent*; -1 is a key
left out or missing. Members have no order: they are sorted by their codes, the absent ones last, so
that households that cannot be told apart are the same row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.keys import MISSING, Key
from unikat.data.patterns import Meeting, by_known_keys, meeting
from unikat.errors import SpecError

if TYPE_CHECKING:
    from unikat.kernels.household_rules import HouseholdRules

ABSENT_LABEL = "absent"
"""Label of the level of a member's key that says that there is no such member."""


@dataclass(frozen=True, kw_only=True, eq=False)
class HouseholdLayout:
    """What the columns of a table of households are.

    Parameters
    ----------
    household_keys
        Keys of the household, the size first; its code c is the size c + 1.
    person_keys
        Keys of each member, at least one.
    n_slots
        Members of the largest household, the head not counted if it is apart.
    head_apart
        The head's keys are household keys, and the head is not among the members.
    rules
        What households are impossible; None if all are possible.
    role
        Position of the key of persons that says what each is in the household; -1 if none does.

    Raises
    ------
    SpecError
        If there is no size or no key of persons, or the slots do not go with the sizes.

    Examples
    --------
    >>> layout = HouseholdLayout(
    ...     household_keys=(Key.of_size("size", 2),),
    ...     person_keys=(Key.of_size("AGE", 3), Key.of_size("SEX", 2)),
    ...     n_slots=2,
    ... )
    >>> [key.name for key in layout.columns]
    ['size', '1.AGE', '1.SEX', '2.AGE', '2.SEX']
    >>> layout.pack(np.array([[1], [0]]), np.array([[2, 0], [1, 1], [0, 0]])).tolist()
    [[1, 1, 1, 2, 0], [0, 0, 0, 3, 2]]
    """

    household_keys: tuple[Key, ...]
    person_keys: tuple[Key, ...]
    n_slots: int
    head_apart: bool = False
    rules: HouseholdRules | None = None
    role: int = -1

    def __post_init__(self) -> None:
        if not self.household_keys or not self.person_keys:
            raise SpecError("A household needs its size and at least one key of its members.")
        most = self.household_keys[0].n_levels - int(self.head_apart)
        if self.n_slots != most or most < 1:
            raise SpecError(
                f"Households have up to {most} members but {self.n_slots} slots; give one slot per "
                "member of the largest household, and at least one."
            )

    @property
    def n_columns(self) -> int:
        """Number of columns of a row."""
        return len(self.household_keys) + self.n_slots * len(self.person_keys)

    @property
    def columns(self) -> tuple[Key, ...]:
        """A key for each column; those of members have a level more, absent."""
        slots = range(1, self.n_slots + 1)
        return self.household_keys + tuple(
            _with_absent(key, slot) for slot in slots for key in self.person_keys
        )

    @property
    def variables(self) -> tuple[Key, ...]:
        """The keys that can be left out: those of the household but its size, then of persons."""
        return (*self.household_keys[1:], *self.person_keys)

    def name_of(self, key: Key) -> str:
        """Name of the column that a household key is of, which is the members' if it is the head's.

        Of any other key its own.
        """
        name = key.name.removeprefix("head.")
        of_head = self.head_apart and any(one.name == name for one in self.person_keys)
        return name if of_head else key.name

    def without(self, rows: Int32, variable: int) -> Int32:
        """Rows in canonical form with one of `variables` left out, by its position."""
        return self.without_hidden(rows, np.arange(len(self.variables)) == variable)

    def hiding(self, rows: Int32, hidden: Bool) -> Int32:
        """Rows in canonical form with some of `variables` left out, of all members.

        Parameters
        ----------
        rows
            (n, n_columns), and columns after those of the households, which are kept.
        hidden
            (n, n_variables): what is left out of each.

        Examples
        --------
        >>> size, age, sex = Key.of_size("size", 2), Key.of_size("AGE", 3), Key.of_size("SEX", 2)
        >>> layout = HouseholdLayout(household_keys=(size,), person_keys=(age, sex), n_slots=2)
        >>> layout.hiding(np.array([[1, 0, 1, 2, 0]]), np.array([[True, False]])).tolist()
        [[1, -1, 0, -1, 1]]
        """
        households, members = (part.copy() for part in self.parts(rows))
        n_own = len(self.household_keys) - 1
        households[:, 1:][hidden[:, :n_own]] = MISSING
        there = members != self.absent
        members[there & hidden[:, None, n_own:]] = MISSING
        return self._row(households, members, rows[:, self.n_columns :])

    def is_whole(self, rows: Int32) -> Bool:
        """Whether each of `variables` is known of all members of a household or of none, (n,)."""
        unknown = self.unknown(rows)
        alike: Bool = (self.hiding(rows, unknown) == rows).all(axis=1)
        return alike

    def without_hidden(self, rows: Int32, hidden: Bool) -> Int32:
        """Leave the same variables, (n_variables,), out of all rows."""
        return self.hiding(rows, np.broadcast_to(hidden, (len(rows), len(hidden))))

    def unknown(self, rows: Int32) -> Bool:
        """Tell which of `variables` are -1 in each row, in a member at least, (n, n_variables)."""
        households, members = self.parts(rows)
        found: Bool = np.concatenate(
            (households[:, 1:] == MISSING, (members == MISSING).any(axis=1)), axis=1
        )
        return found

    def missing(self, rows: Int32) -> Bool:
        """Which of `variables` are missing in each row, in a member at least, (n, n_variables)."""
        households, members = self.parts(rows)
        of_members = [
            (members[:, :, k] == (MISSING if key.missing_level is None else key.missing_level))
            for k, key in enumerate(self.person_keys)
        ]
        of_households = [
            households[:, k] == (MISSING if key.missing_level is None else key.missing_level)
            for k, key in enumerate(self.household_keys)
        ][1:]
        found: Bool = np.stack([*of_households, *(one.any(axis=1) for one in of_members)], axis=1)
        return found

    @property
    def absent(self) -> Int32:
        """Codes of a member that is not there, (n_person_keys,)."""
        return np.array([key.n_levels for key in self.person_keys], np.int32)

    def n_members(self, sizes: Int32) -> Int64:
        """Members of households of these codes of the size, (n,); -1 where it is missing."""
        members = np.asarray(sizes, np.int64) + int(not self.head_apart)
        return np.where(np.asarray(sizes) < 0, -1, members)

    def parts(self, rows: Int32) -> tuple[Int32, Int32]:
        """Household codes (n, n_household_keys), members' (n, n_slots, n_person_keys) of rows."""
        n_household = len(self.household_keys)
        members = rows[:, n_household : self.n_columns]
        shape = len(rows), self.n_slots, len(self.person_keys)
        return rows[:, :n_household], members.reshape(shape)

    def present(self, rows: Int32) -> Bool:
        """Which slots hold a member, (n, n_slots), of rows or of their household codes."""
        slots = np.arange(self.n_slots)
        there: Bool = slots < self.n_members(rows[:, 0])[:, None]
        return there

    def joined(self, households: Int32, members: Int32) -> Int32:
        """Rows in canonical form of households (n, n_household_keys) and slots (n, n_slots, ...).

        Slots beyond the members of a household, in its order of slots, become absent.
        """
        households = np.asarray(households, np.int32)
        return self._row(
            households, np.where(self.present(households)[:, :, None], members, self.absent)
        )

    def canonical(self, rows: Int32) -> Int32:
        """Rows with the members sorted; columns after those of the households are kept."""
        return self._row(*self.parts(rows), rows[:, self.n_columns :])

    def _row(self, households: Int32, members: Int32, *further: Int32) -> Int32:
        n_slots = self.n_columns - len(self.household_keys)
        slots = sorted_slots(members).reshape(len(households), n_slots)
        return np.concatenate((households, slots, *further), axis=1).astype(np.int32)

    def pack(self, households: Int32, persons: Int32) -> Int32:
        """Rows in canonical form of households and their members.

        Parameters
        ----------
        households
            (n, n_household_keys) codes, the size first and known.
        persons
            (n_persons, n_person_keys) codes, household by household; as many as the sizes say.
        """
        households = np.asarray(households, np.int32)
        members = np.empty((len(households), self.n_slots, len(self.person_keys)), np.int32)
        members[self.present(households)] = persons
        return self.joined(households, members)


def agreeing_households(layout: HouseholdLayout, patterns: Int32, rows: Int32) -> Iterator[Meeting]:
    """Find the households that agree with each pattern, by the variables that it knows.

    Every pattern asks in one meeting; see `patterns.agreeing`.

    Parameters
    ----------
    patterns
        (n, n_columns), whole (`HouseholdLayout.is_whole`).
    rows
        (n_rows, n_columns). A household that lacks what a pattern knows does not agree.
    """
    n_levels = [key.n_levels for key in layout.columns]
    members, masks = by_known_keys(-layout.unknown(patterns).astype(np.int32))
    for asking, known in zip(members, masks, strict=True):
        met = meeting(patterns[asking], layout.without_hidden(rows, ~known), n_levels)
        yield met._replace(asking=asking[met.asking])


def household_meetings(layout: HouseholdLayout, rows: Int32) -> Iterator[Meeting]:
    """Find all pairs of whole rows that are equal in the variables that both know."""
    n_levels = [key.n_levels for key in layout.columns]
    members, masks = by_known_keys(-layout.unknown(rows).astype(np.int32))
    for asking, known in zip(members, masks, strict=True):
        for answering, other in zip(members, masks, strict=True):
            hidden = ~(known & other)
            met = meeting(
                layout.without_hidden(rows[asking], hidden),
                layout.without_hidden(rows[answering], hidden),
                n_levels,
            )
            yield met._replace(asking=asking[met.asking], answering=answering[met.answering])


def sorted_slots(members: Int32) -> Int32:
    """Members sorted lexicographically within each household, (n, n_slots, n_person_keys).

    Absent members have the largest codes, so they come last.
    """
    n, n_slots, n_keys = members.shape
    keys = tuple(members[:, :, k] for k in range(n_keys - 1, -1, -1))
    order = np.lexsort(keys, axis=1) if n else np.zeros((n, n_slots), np.int64)
    return np.take_along_axis(members, order[:, :, None], axis=1)


def _with_absent(key: Key, slot: int) -> Key:
    """A member's key: the key's levels, and one for no such member."""
    return Key(
        name=f"{slot}.{key.name}",
        levels=(*key.levels, ABSENT_LABEL),
        labels=(*key.labels, ABSENT_LABEL),
        binning=key.binning,
        private=key.private,
    )
