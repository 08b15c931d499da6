"""Clauses of household rules: some persons, the levels each has, and sums that are compared.

A rule is broken if one of its clauses holds of a household: different persons can be chosen, one
for each role that the clause names, who have certain levels, and the comparisons hold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from unikat.kernels.household_rules import AT_MOST, EQUAL, HOUSE, LESS, PERSON

MOST_CLAUSES = 4_000
"""Most clauses that a rule may become."""
ANY = ""
"""Who a key without a role is about: any member."""
HEAD = "head"
ONE = "."
"""Who a condition on one person is about."""

Box: TypeAlias = dict[int, frozenset[int]]
"""Levels by person key; a person meets it who has one of the levels of each."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """A number: of a person, of the household, of all persons."""

    kind: int
    sign: int
    person: str = ANY
    index: int = 0
    """Of a key, or of a count."""


@dataclass(frozen=True, kw_only=True)
class Test:
    """A sum compared with 0, or two values whose levels are compared."""

    __test__ = False

    operator: int
    terms: tuple[Term, ...]
    constant: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Clause:
    """What must hold together."""

    house: Mapping[int, frozenset[int]]
    """Levels by household key."""
    persons: Mapping[str, Box]
    """Levels by person key of each person, by role."""
    tests: tuple[Test, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Counted:
    """Who is counted: a person who meets one of some boxes; not who meets one of the others."""

    yes: tuple[Box, ...]
    no: tuple[Box, ...]


def boxes_of(clauses: Sequence[Clause]) -> tuple[Box, ...]:
    """Return the boxes of clauses on one person."""
    return tuple(clause.persons.get(ONE, {}) for clause in clauses)


def distinct(clauses: Iterable[Clause]) -> list[Clause]:
    """Drop clauses that are repeated."""
    seen: dict[object, Clause] = {}
    for clause in clauses:
        mark = (
            frozenset(clause.house.items()),
            frozenset((who, frozenset(box.items())) for who, box in clause.persons.items()),
            frozenset(clause.tests),
        )
        seen.setdefault(mark, clause)
    return list(seen.values())


def together(a: Clause, b: Clause) -> Clause | None:
    """Return what says both, None if no level is left of a key."""
    house = _narrowed(a.house, b.house)
    persons: dict[str, Box] = {who: dict(box) for who, box in a.persons.items()}
    for who, box in b.persons.items():
        persons[who] = _narrowed(persons.get(who, {}), box)
    if any(not levels for box in (house, *persons.values()) for levels in box.values()):
        return None
    tests = a.tests + tuple(test for test in b.tests if test not in a.tests)
    return Clause(house=house, persons=persons, tests=tests)


def _narrowed(a: Mapping[int, frozenset[int]], b: Mapping[int, frozenset[int]]) -> Box:
    return {
        k: a.get(k, b.get(k, frozenset())) & b.get(k, a.get(k, frozenset())) for k in {**a, **b}
    }


def sum_of(test: Test, ends: Callable[[Term], tuple[float, float]]) -> tuple[float, float]:
    """Return the least and the largest value of a sum, from those of its terms without sign."""
    least = most = test.constant
    for term in test.terms:
        low, high = ends(term)
        least += low if term.sign > 0 else -high
        most += high if term.sign > 0 else -low
    return least, most


def is_certain(operator: int, least: float, most: float) -> bool:
    """Whether a sum between two ends is certainly in a relation to 0."""
    if operator == LESS:
        return most < 0
    if operator == AT_MOST:
        return most <= 0
    if operator == EQUAL:
        return least == most == 0
    return most < 0 or least > 0


def needs(who: str | None, j: int, levels: Iterable[int]) -> list[Clause]:
    """Return the clause that somebody, or the household (None), has some levels of a key.

    No clause, if it has none.
    """
    chosen = {j: frozenset(levels)}
    if not chosen[j]:
        return []
    if who is None:
        return [Clause(house=chosen, persons={})]
    return [Clause(house={}, persons={who: chosen})]


def term_of(sign: int, who: str | None, j: int) -> Term:
    """Return the number of a key of somebody, or of the household (None)."""
    if who is None:
        return Term(kind=HOUSE, sign=sign, index=j)
    return Term(kind=PERSON, sign=sign, person=who, index=j)
