"""Households of a file that break a rule: how many, and in which rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from unikat._typing import AnyArray, Bool, Int64
from unikat.data.numbers import ROWS_SHOWN
from unikat.errors import SpecError, brief
from unikat.zeros.conflicts import BrokenRule, broken_told
from unikat.zeros.household_rules import HouseholdZeros


@dataclass(frozen=True, kw_only=True, eq=False)
class HouseholdConflicts:
    """The households that break a rule; made by :func:`find_household_conflicts`."""

    zeros: HouseholdZeros
    broken: Bool
    """(n_households, n_rules): which rules a household breaks."""
    record_household: Int64
    """(n_rows,): household of each row of the file, -1 of a row that belongs to none."""
    roles_of_nobody: tuple[str, ...] = ()
    """Roles in rules that no member has for sure."""

    @cached_property
    def in_conflict(self) -> Bool:
        """Households that break a rule, (n_households,)."""
        return np.asarray(self.broken.any(axis=1))

    @property
    def n_households(self) -> int:
        """Households that break a rule."""
        return int(self.in_conflict.sum())

    @cached_property
    def rules(self) -> tuple[BrokenRule, ...]:
        """Every rule in its order, with the households that break it in place of records.

        A household that breaks several rules counts for each. The rows are the first row of each
        household.
        """
        return tuple(
            BrokenRule(
                name=rule.name,
                text=rule.text,
                n_records=int(broken.sum()),
                first_rows=tuple(np.sort(self._first_row[broken])[:ROWS_SHOWN].tolist()),
            )
            for rule, broken in zip(self.zeros.rules, self.broken.T, strict=True)
        )

    def rows(self, rule: int) -> Int64:
        """Row numbers of all members of the households that break a rule, the first row being 1."""
        there = self.record_household >= 0
        found = there & self.broken[self.record_household, rule]
        return np.flatnonzero(found).astype(np.int64) + 1

    @cached_property
    def _first_row(self) -> Int64:
        """Row number in which each household begins."""
        first = np.zeros(len(self.broken), np.int64)
        rows = np.arange(len(self.record_household), 0, -1)
        there = self.record_household[::-1] >= 0
        first[self.record_household[::-1][there]] = rows[there]
        return first

    def message(self, name: str) -> str:
        """Say how many households break which rule, where they begin, and what can be done."""
        breaks = "breaks" if self.n_households == 1 else "break"
        return broken_told(
            f"{self.n_households:,} of {len(self.broken):,} households {breaks} a rule of what is "
            f"impossible, in {name}; the rows are those in which they begin:",
            self.rules,
            ("household, row {}", "households, rows {}"),
            "Correct the rules or the file, or leave these households out with "
            '--zeros-conflict drop (on_conflict="drop").',
        )

    @property
    def warnings(self) -> tuple[str, ...]:
        """What should be looked at, though nothing is wrong for sure."""
        return tuple(
            f"Nobody in the data has the role {role!r} ({brief(self.zeros.roles[role])}), so the "
            "rules about it are never broken. Check the condition of the role."
            for role in self.roles_of_nobody
        )


def find_household_conflicts(
    zeros: HouseholdZeros,
    house_codes: AnyArray,
    member_codes: AnyArray,
    n_members: AnyArray,
    record_household: AnyArray,
) -> HouseholdConflicts:
    """Find the households that break a rule.

    Parameters
    ----------
    zeros
        The rules.
    house_codes, member_codes, n_members
        The households (see :meth:`HouseholdZeros.broken`).
    record_household
        (n_rows,): household of each row of the file, -1 of a row that belongs to none.
    """
    house, members = np.asarray(house_codes), np.asarray(member_codes)
    for codes, keys in ((house, zeros.household_keys), (members, zeros.person_keys)):
        largest = codes.max(axis=tuple(range(codes.ndim - 1)), initial=-1)
        # The code after the last level is that of a member that a household does not have.
        allowed = [key.n_levels - (codes is house) for key in keys]
        if codes.shape[-1] != len(keys) or (largest > allowed).any():
            raise SpecError(
                "The rules were made for other keys, or other levels of them, than the households "
                "have; make them with the keys of the households."
            )
    return HouseholdConflicts(
        zeros=zeros,
        broken=zeros.broken(house, members, n_members),
        record_household=np.asarray(record_household, np.int64),
        roles_of_nobody=zeros.roles_of_nobody(members, n_members),
    )
