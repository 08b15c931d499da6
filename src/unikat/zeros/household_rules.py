"""Rules of what is impossible in a household."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from unikat._typing import AnyArray, Bool, Int64
from unikat.data.keys import Key
from unikat.errors import SpecError
from unikat.kernels.household_rules import (
    COUNT,
    COUNTS,
    HEAD_KEY,
    HOUSE,
    HOUSE_OFFSET,
    MASKS,
    N_WORDS,
    PERSON_OFFSET,
    TERMS,
    HouseholdRules,
    broken_rules,
    household_scratch,
)
from unikat.language.rules import EXAMPLE_OF_HOUSEHOLDS as EXAMPLE
from unikat.language.rules import called, parse
from unikat.zeros.binding import all_forbidden, nothing_forbidden
from unikat.zeros.conditions import Layout
from unikat.zeros.diagram import NothingPossibleError, build
from unikat.zeros.household_binding import Vocabulary
from unikat.zeros.household_clauses import ANY, HEAD, Box, Clause
from unikat.zeros.household_programs import compile_rules
from unikat.zeros.tables import conditions_from_table, everything_forbidden, text_of_table


@dataclass(frozen=True, kw_only=True, eq=False)
class HouseholdRule:
    """A rule of what is impossible in a household.

    Parameters
    ----------
    text
        The rule as it was written.
    name
        What messages and reports call it; None if its text is to speak for it.
    clauses
        It is broken if one of them holds.
    """

    text: str
    name: str | None
    clauses: tuple[Clause, ...]

    @property
    def roles(self) -> frozenset[str]:
        """The roles it names."""
        return frozenset(who for clause in self.clauses for who in clause.persons) - {ANY}


@dataclass(frozen=True, kw_only=True, eq=False)
class HouseholdZeros:
    """The impossible households.

    Parameters
    ----------
    household_keys
        Keys of households.
    person_keys
        Keys of members.
    roles
        A condition on one person by role.
    head_apart
        Whether the head is not among the members, and its keys are household keys ``head.KEY``.
    rules
        What is impossible.
    role_boxes
        The roles as levels by person key: who has the levels of one of them has the role.
    program
        The rules as arrays (see :class:`unikat.kernels.household_rules.HouseholdRules`).

    Examples
    --------
    >>> relation = Key(name="REL", levels=("h", "s", "c"), labels=("head", "spouse", "child"))
    >>> keys = [Key.of_size("AGE", 100), relation]
    >>> zeros = HouseholdZeros.of(
    ...     ['count(REL == "h") != 1', "child.AGE > head.AGE - 12"],
    ...     {"head": 'REL == "h"', "child": 'REL == "c"'},
    ...     household_keys=(),
    ...     person_keys=keys,
    ... )
    >>> members = np.array([[[40, 0], [30, 2]], [[40, 0], [20, 2]], [[40, 1], [20, 2]]])
    >>> zeros.broken(np.empty((3, 0)), members, [2, 2, 2]).tolist()
    [[False, True], [False, False], [True, False]]
    """

    household_keys: tuple[Key, ...]
    person_keys: tuple[Key, ...]
    roles: Mapping[str, str]
    head_apart: bool
    rules: tuple[HouseholdRule, ...]
    role_boxes: Mapping[str, tuple[Box, ...]]
    program: HouseholdRules

    @classmethod
    def of(
        cls,
        rules: Sequence[str | tuple[str | None, str]],
        roles: Mapping[str, str],
        household_keys: Sequence[Key],
        person_keys: Sequence[Key],
        *,
        head_apart: bool = False,
        tables: Sequence[Any] = (),
        encoding: str | None = None,
    ) -> HouseholdZeros:
        """Read rules.

        Parameters
        ----------
        rules
            Texts, or pairs (name, text).
        roles
            A condition on one person by role; ``head`` among them.
        household_keys
            Keys of households, in the order of their codes.
        person_keys
            Keys of members, in the order of their codes.
        head_apart
            Whether the head is not among the members, and its keys are household keys
            ``head.KEY``.
        tables
            Paths or frames with a row per impossible combination of a member's and the household's
            keys (see :func:`unikat.zeros.conditions_from_table`).
        encoding
            Character encoding of files of conditions that are not UTF-8.
        """
        if isinstance(rules, str):
            raise SpecError(f"rules must be a list of texts, such as [{EXAMPLE!r}].")
        words = Vocabulary(household_keys, person_keys, roles, head_apart=head_apart)
        found = []
        for number, rule in enumerate(rules, start=1):
            name, text = (None, rule) if isinstance(rule, str) else rule
            found.append(_read(text, words, called(text, number, name), name))
        found += [_read_table(table, words, encoding) for table in tables]
        if not found:
            raise SpecError(f"There are no rules; write what is impossible, such as {EXAMPLE}.")
        return cls(
            household_keys=tuple(household_keys),
            person_keys=tuple(person_keys),
            roles=dict(roles),
            head_apart=head_apart,
            rules=tuple(found),
            role_boxes=words.roles,
            program=compile_rules([rule.clauses for rule in found], words),
        )

    def roles_of_nobody(self, member_codes: AnyArray, n_members: AnyArray) -> tuple[str, ...]:
        """Return the roles in rules that no member has for sure (see :meth:`broken`)."""
        members = np.asarray(member_codes, np.int64)
        there = np.arange(members.shape[1]) < np.asarray(n_members)[:, None]
        people = members[there]
        found = []
        for role, boxes in self.role_boxes.items():
            if role == HEAD and self.head_apart:
                continue
            has = np.zeros(len(people), bool)
            for box in boxes:
                has |= np.all([np.isin(people[:, k], list(box[k])) for k in box], axis=0)
            if not has.any() and any(role in rule.roles for rule in self.rules):
                found.append(role)
        return tuple(found)

    def ordered(self, n_broken: Int64) -> HouseholdRules:
        """Return the program with the rules of each stage ordered: the most often broken first.

        Parameters
        ----------
        n_broken
            (n_rules,): how often each was found broken.
        """
        program = self.program
        order = program.order.copy()
        for first, end in pairwise(program.stage_first.tolist()):
            here = order[first:end]
            order[first:end] = here[np.argsort(-n_broken[here], kind="stable")]
        return program._replace(order=order)

    def broken(self, house_codes: AnyArray, member_codes: AnyArray, n_members: AnyArray) -> Bool:
        """Tell which rules households break, (n, n_rules).

        Parameters
        ----------
        house_codes
            (n, n_household_keys) codes, -1 where missing.
        member_codes
            (n, n_slots, n_person_keys) codes, -1 where missing, of which the first members are
            read.
        n_members
            (n,): members of each household; without the head if it is apart.
        """
        house = np.ascontiguousarray(house_codes, np.int64)
        members = np.ascontiguousarray(member_codes, np.int64)
        sizes = np.ascontiguousarray(n_members, np.int64)
        found = np.zeros((len(sizes), len(self.rules)), bool)
        scratch = household_scratch(self.program, members.shape[1])
        broken_rules(self.program, house, members, sizes, scratch, found)
        return found


def alike_to(program: HouseholdRules, n_levels: int, person: bool, j: int) -> Int64:
    """First of the levels of a key that no rule tells apart from each, (n_levels,)."""
    code = program.code
    head_of = -1 if person else int(code[code[HEAD_KEY] + j])
    terms = code[code[TERMS] : code[COUNTS]].reshape(-1, 4)
    of_persons = (terms[:, 0] != HOUSE) & (terms[:, 0] != COUNT)
    found: dict[object, int] = {}
    first = np.empty(n_levels, np.int64)
    for level in range(n_levels):
        mark: list[object] = []
        for whose, k in ((person, j), (True, head_of)):
            if k < 0:
                continue
            row = code[code[PERSON_OFFSET if whose else HOUSE_OFFSET] + k] + 1 + level
            start = code[MASKS] + row * code[N_WORDS]
            mark += code[start : start + code[N_WORDS]].tolist()
            if ((terms[:, 3] == k) & (of_persons if whose else terms[:, 0] == HOUSE)).any():
                mark.append(level)
        first[level] = found.setdefault(tuple(mark), level)
    return first


def _read(text: str, words: Vocabulary, where: str, name: str | None) -> HouseholdRule:
    clauses = words.clauses(parse(text, where, households=True), text, where)
    if not clauses:
        raise nothing_forbidden(text, where, "household")
    if any(map(words.is_always, clauses)) or _is_everybody(clauses, words):
        raise all_forbidden(text, where, "household")
    return HouseholdRule(text=text, name=name, clauses=tuple(clauses))


def _read_table(table: Any, words: Vocabulary, encoding: str | None) -> HouseholdRule:
    """Read a table of conditions on a member and the household as one rule."""
    keys = (*words.household_keys, *words.person_keys)
    n_house = len(words.household_keys)
    offsets = np.cumsum([0, *(key.n_levels for key in keys)])
    clauses = []
    for condition in conditions_from_table(table, keys, encoding=encoding):
        sets = [condition[start:end] for start, end in pairwise(offsets.tolist())]
        levels = {
            j: frozenset(np.flatnonzero(chosen).tolist())
            for j, chosen in enumerate(sets)
            if not chosen.all()
        }
        person = {j - n_house: chosen for j, chosen in levels.items() if j >= n_house}
        house = {j: chosen for j, chosen in levels.items() if j < n_house}
        clauses.append(Clause(house=house, persons={ANY: person} if person else {}))
    if _is_everybody(clauses, words):
        raise everything_forbidden(table)
    text = text_of_table(table, len(clauses))
    return HouseholdRule(text=text, name=None, clauses=tuple(clauses))


def _is_everybody(clauses: Sequence[Clause], words: Vocabulary) -> bool:
    """Whether clauses that are about any one member alone leave no member possible."""
    keys = (*words.household_keys, *words.person_keys)
    layout = Layout(n_levels=tuple(key.n_levels for key in keys))
    conditions = []
    for clause in clauses:
        if not clause.tests and set(clause.persons) <= {ANY}:
            condition = layout.any
            for j, levels in clause.house.items():
                condition &= layout.only(j, levels)
            for k, levels in clause.persons.get(ANY, {}).items():
                condition &= layout.only(len(words.household_keys) + k, levels)
            conditions.append(condition)
    if not conditions:
        return False
    try:
        build(layout.to_array(conditions), layout.offsets)
    except NothingPossibleError:
        return True
    return False
