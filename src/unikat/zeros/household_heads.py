"""Rules that compare members with the head alone: what of them is decided by whom.

Where every rule is either about how many members have each role, or about one member at a time,
alone or beside the head, the members other than the head are independent given the head and the
class. `head_rules` looks whether that is so, and tells what is impossible in three tables. It asks
the compiled rules themselves about households of one and of two, so that nothing is parsed twice.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Int64
from unikat.kernels.household_rules import (
    CLAUSES,
    COMPARISONS,
    COUNT,
    COUNTS,
    HEAD_APART,
    HEAD_KEY,
    HOUSE_OFFSET,
    MASKS,
    N_WORDS,
    NEEDS,
    PERSON,
    PERSON_OFFSET,
    RULE_FIRST,
    SIZE,
    TERMS,
    HouseholdRules,
    broken_rules,
    household_scratch,
)

_MOST_PAIRS = 2_000_000
"""Pairs of head and member that are looked at, at most."""


class HeadRules(NamedTuple):
    """What is impossible, where rules compare members with the head alone."""

    role: int
    """The person key that holds the role."""
    head: int
    """The head's role; -1 if no rule compares two members."""
    n_levels: Int64
    """(n_person_keys,)"""
    keys: Int64
    """(n_keys,): the other person keys that rules read."""
    types: Int64
    """(n_types, n_keys): all combinations of their levels."""
    alone: Bool
    """(n_roles, n_types): whether a member may live alone, but for how many have each role."""
    beside: Bool
    """(n_roles, n_types, n_types): whether a member may live with a head of some type, first."""
    counting: list[int]
    """The rules on how many members have each role."""
    program: HouseholdRules

    def compositions_possible(self, n_each: Int64) -> Bool:
        """Tell which compositions, members by role (n, n_roles), may be."""
        return _compositions(self.program, self.role, self.counting, n_each)


def head_rules(program: HouseholdRules, n_levels: Int64, role: int) -> HeadRules | None:
    """Return what is impossible where rules compare members with the head alone, else None.

    Parameters
    ----------
    program
        The rules.
    n_levels
        (n_person_keys,): levels of each key of persons.
    role
        The person key that holds the role.
    """
    if program.code[HEAD_APART]:
        return None
    reader = _Reader(program, n_levels, role)
    counting = [rule for rule in range(reader.n_rules) if reader.is_counting(rule)]
    others = [rule for rule in range(reader.n_rules) if rule not in counting]
    heads = set(range(int(n_levels[role])))
    for rule in others:
        heads &= reader.heads_of(rule)
    if not heads:
        return None
    keys = np.flatnonzero(
        [k != role and k in program.person_keys.tolist() for k in range(len(n_levels))]
    )
    n_types = int(np.prod(n_levels[keys]))
    if n_levels[role] * n_types**2 > _MOST_PAIRS:
        return None
    types = np.stack(np.unravel_index(np.arange(n_types), n_levels[keys].tolist() or [1]), axis=1)
    types = types[:, : len(keys)].astype(np.int64)
    n_roles = int(n_levels[role])
    head = -1
    if any(map(reader.compares, others)):
        # Of several that might be the head, the one whom nobody has twice.
        twice = _compositions(program, role, counting, 2 * np.eye(n_roles, dtype=np.int64))
        head = min(heads, key=lambda one: (bool(twice[one]), one))
    person = np.full((n_roles, n_types, len(n_levels)), -1, np.int64)
    person[:, :, keys] = types
    person[:, :, role] = np.arange(n_roles)[:, None]
    broken = _broken(program, person.reshape(-1, 1, len(n_levels)), 1)
    alone = np.logical_not(broken[:, others].any(axis=1)).reshape(n_roles, n_types)
    beside = np.repeat(alone[:, None], n_types, axis=1)
    if head >= 0:
        pairs = np.empty((n_roles, n_types, n_types, 2, len(n_levels)), np.int64)
        pairs[:, :, :, 0] = person[head][None, :, None]
        pairs[:, :, :, 1] = person[:, None]
        broken = _broken(program, pairs.reshape(-1, 2, len(n_levels)), 2)
        beside = np.logical_not(broken[:, others].any(axis=1)).reshape(beside.shape)
    return HeadRules(
        role,
        head,
        n_levels,
        keys,
        types,
        alone,
        beside,
        counting,
        program,
    )


class _Reader:
    """What the clauses of a program are about."""

    def __init__(self, program: HouseholdRules, n_levels: Int64, role: int) -> None:
        code = self.code = program.code
        self.n_levels, self.role = n_levels, role
        self.n_rules = len(program.order)
        n_words = int(code[N_WORDS])
        self.masks = code[code[MASKS] : code[NEEDS]].reshape(-1, n_words)
        self.needs = code[code[NEEDS] : code[RULE_FIRST]].reshape(-1, n_words)
        self.clauses = code[code[CLAUSES] : code[COMPARISONS]].reshape(-1, 4)
        self.comparisons = code[code[COMPARISONS] : code[TERMS]].reshape(-1, 4)
        self.terms = code[code[TERMS] : code[COUNTS]].reshape(-1, 4)
        n_counts = int(self.terms[self.terms[:, 0] == COUNT, 3].max(initial=-1)) + 1
        self.counts = code[code[COUNTS] : code[COUNTS] + 3 * n_counts].reshape(-1, 3)

    def rule_clauses(self, rule: int) -> Int64:
        """Clauses of a rule, (n, 4)."""
        first, end = self.code[self.code[RULE_FIRST] + rule :][:2]
        found: Int64 = self.clauses[first:end]
        return found

    def terms_of(self, clause: Int64) -> Int64:
        """Terms of the comparisons of a clause, (n, 4)."""
        parts = [
            self.terms[first:end] for _, _, first, end in self.comparisons[clause[2] : clause[3]]
        ]
        return np.concatenate([np.empty((0, 4), np.int64), *parts])

    def levels(self, need: int, k: int) -> Bool:
        """Which levels of a person key meet what a need says of it, (n_levels,)."""
        start = int(self.code[self.code[PERSON_OFFSET] + k]) + 1
        rows = self.masks[start : start + self.n_levels[k]]
        said = self.needs[need] & np.bitwise_or.reduce(rows, axis=0, initial=0)
        good: Bool = ((rows & said) == said).all(axis=1)
        return good

    def is_of_role(self, need: int) -> bool:
        """Whether a need says nothing of keys other than the role."""
        start = int(self.code[self.code[PERSON_OFFSET] + self.role]) + 1
        rows = self.masks[start : start + self.n_levels[self.role]]
        said = np.bitwise_or.reduce(rows, axis=0, initial=0)
        return bool((self.needs[need] & ~said == 0).all())

    def is_counting(self, rule: int) -> bool:
        """Whether a rule is decided by how many members have each role."""
        for clause in self.rule_clauses(rule):
            need, n_persons = int(clause[0]), int(clause[1])
            if self.needs[need].any() or not all(
                self.is_of_role(need + 1 + d) for d in range(n_persons)
            ):
                return False
            for kind, _, _, index in self.terms_of(clause):
                if kind == COUNT:
                    first, _, end = self.counts[index]
                    if not all(self.is_of_role(n) for n in range(first, end)):
                        return False
                elif kind != SIZE and not (kind == PERSON and index == self.role):
                    return False
        return True

    def compares(self, rule: int) -> bool:
        """Whether a rule is about more than one person."""
        return bool((self.rule_clauses(rule)[:, 1] > 1).any())

    def heads_of(self, rule: int) -> set[int]:
        """Roles that may be the head's: the only ones with whom a rule compares another member."""
        heads = set(range(int(self.n_levels[self.role])))
        for clause in self.rule_clauses(rule):
            need, n_persons = int(clause[0]), int(clause[1])
            terms = self.terms_of(clause)
            if self.needs[need].any() or n_persons > 2 or (terms[:, 0] != PERSON).any():
                return set()
            if n_persons == 2:
                roles = [np.flatnonzero(self.levels(need + 1 + d, self.role)) for d in range(2)]
                heads &= {int(held[0]) for held in roles if len(held) == 1}
        return heads


def _n_person_keys(program: HouseholdRules) -> int:
    code = program.code
    return int(code[HEAD_KEY] - code[PERSON_OFFSET])


def _compositions(program: HouseholdRules, role: int, counting: list[int], n_each: Int64) -> Bool:
    """Which compositions, members by role (n, n_roles), break none of the rules on numbers."""
    n_members = n_each.sum(axis=1)
    slots = np.arange(max(int(n_members.max(initial=1)), 1)) < n_members[:, None]
    held = np.full(slots.shape, -1, np.int64)
    held[slots] = np.repeat(np.tile(np.arange(n_each.shape[1]), len(n_each)), n_each.ravel())
    members = np.full((*slots.shape, _n_person_keys(program)), -1, np.int64)
    members[:, :, role] = held
    broken = _broken(program, members, n_members)
    return np.logical_not(broken[:, counting].any(axis=1))


def _broken(program: HouseholdRules, members: Int64, n_members: Int64 | int) -> Bool:
    """Which rules households break, (n, n_rules), of whose own keys nothing is known."""
    n = len(members)
    sizes = np.ascontiguousarray(np.broadcast_to(n_members, n), np.int64)
    code = program.code
    houses = np.full((n, int(code[PERSON_OFFSET] - code[HOUSE_OFFSET])), -1, np.int64)
    found = np.zeros((n, len(program.order)), bool)
    scratch = household_scratch(program, members.shape[1])
    broken_rules(program, houses, np.ascontiguousarray(members), sizes, scratch, found)
    return found
