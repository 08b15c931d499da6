"""Clauses of household rules into the arrays of the kernels, and the stages of their keys."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf

import numpy as np

from unikat._typing import Int64
from unikat.data.named_levels import Levels
from unikat.kernels.household_rules import (
    BITS,
    COUNT,
    GREATEST,
    HOUSE,
    LEAST,
    N_HEADER,
    PERSON,
    SAME_LEVEL,
    SIZE,
    HouseholdRules,
)
from unikat.zeros.household_binding import Vocabulary
from unikat.zeros.household_clauses import HEAD, Box, Clause, Term, Test

_MEMBERS = 3
"""Members of a household, where the work of a rule is weighed."""


class _Bits:
    """The bits of masks: one for each set of levels of a key, and one for being the head."""

    def __init__(self) -> None:
        self.place: dict[tuple[bool, int, frozenset[int]], int] = {}

    def of(self, person: bool, j: int, levels: frozenset[int]) -> int:
        return self.place.setdefault((person, j, levels), len(self.place) + 1)

    @property
    def n_words(self) -> int:
        """Words of a mask."""
        return len(self.place) // BITS + 1

    def words(self, bits: Iterable[int]) -> list[int]:
        """Return a mask, a number for each word."""
        words = [0] * self.n_words
        for bit in bits:
            words[bit // BITS] |= 1 << (bit % BITS)
        return words


def compile_rules(rules: Sequence[Sequence[Clause]], words: Vocabulary) -> HouseholdRules:
    """Return rules, each a list of clauses, as arrays."""
    bits = _Bits()
    is_head = 0
    needs: list[list[int]] = []

    def need_of(box: Box, person: bool = True, head: bool = False) -> int:
        found = [bits.of(person, j, levels) for j, levels in sorted(box.items())]
        needs.append([*found, is_head] if head else found)
        return len(needs) - 1

    clauses: list[tuple[int, ...]] = []
    comparisons: list[tuple[int, ...]] = []
    terms: list[tuple[int, ...]] = []
    constants: list[float] = []
    rule_first = [0]
    for rule in rules:
        for clause in rule:
            who = sorted(clause.persons, key=lambda name: (name != HEAD, name))
            first = need_of(dict(clause.house), person=False)
            for name in who:
                need_of(clause.persons[name], head=words.head_apart and name == HEAD)
            start = len(comparisons)
            for test in sorted(clause.tests, key=lambda test: (_depth(test, who), _work(test))):
                begin = len(terms)
                terms += [_row_of_term(term, test, who, words) for term in test.terms]
                comparisons.append((test.operator, _depth(test, who), begin, len(terms)))
                constants.append(test.constant)
            clauses.append((first, len(who), start, len(comparisons)))
        rule_first.append(len(clauses))
    counts = []
    for counted in words.counts:
        ends = [len(needs)]
        for boxes in (counted.yes, counted.no):
            for box in boxes:
                need_of(box)
            ends.append(len(needs))
        counts.append(ends)
    tables = _Tables(words, bits)
    stages = stages_of(rules, words)
    sections: list[Sequence[object]] = [
        tables.offsets[False],
        tables.offsets[True],
        [
            next((k for k, at in words.head_key.items() if at == j), -1)
            for j in range(len(words.household_keys))
        ],
        tables.head_row,
        bits.words([is_head, *tables.head_bits]),
        [bits.words(row) for row in tables.bits],
        [bits.words(need) for need in needs],
        rule_first,
        clauses,
        comparisons,
        terms,
        counts,
    ]
    return HouseholdRules(
        code=packed(
            [
                bits.n_words,
                int(words.head_apart),
                max((clause[1] for clause in clauses), default=0),
            ],
            [_ints(section).ravel() for section in sections],
            2 * len(tables.ends),
        ),
        numbers=np.array([*np.ravel(tables.ends), *constants], np.float64),
        order=_ints([rule for _, _, here in stages for rule in here]),
        stage_first=_running([here for _, _, here in stages]),
        house_keys=_ints([j for house, _, _ in stages for j in house]),
        house_first=_running([house for house, _, _ in stages]),
        person_keys=_ints([k for _, persons, _ in stages for k in persons]),
        person_first=_running([persons for _, persons, _ in stages]),
    )


def packed(numbers: Sequence[int], sections: Sequence[Int64], constants: int) -> Int64:
    """Return the numbers, where the sections begin, where the constants begin; and the sections."""
    places = N_HEADER + np.cumsum([0, *map(len, sections[:-1])])
    header = _ints([*numbers, *places, constants])
    assert len(header) == N_HEADER
    return np.concatenate([header, *sections])


class _Tables:
    """What each level of each key meets, and its numbers: rows of all keys."""

    def __init__(self, words: Vocabulary, bits: _Bits) -> None:
        self.offsets: dict[bool, list[int]] = {False: [], True: []}
        self.bits: list[list[int]] = []
        self.ends: list[tuple[float, float]] = []
        self.head_row: list[int] = []
        self.head_bits: list[int] = []
        sets: dict[tuple[bool, int], list[tuple[frozenset[int], int]]] = {}
        for (person, j, levels), bit in bits.place.items():
            sets.setdefault((person, j), []).append((levels, bit))
        for person, keys in ((False, words.household_keys), (True, words.person_keys)):
            for j, key in enumerate(keys):
                self.offsets[person].append(len(self.bits))
                here = sets.get((person, j), [])
                numbers = words.numbers(person, j) or (
                    (-inf,) * key.n_levels,
                    (inf,) * key.n_levels,
                )
                self.bits += [[]] + [
                    [bit for levels, bit in here if code in levels] for code in range(key.n_levels)
                ]
                self.ends += [(-inf, inf), *zip(*numbers, strict=True)]
                # What the head has where it is no key of the household; of members never read.
                possible = words.head_levels.get(j) if person else None
                some = possible or frozenset()
                self.bits.append([bit for levels, bit in here if some and some <= levels])
                low = min((numbers[0][level] for level in some), default=-inf)
                self.ends.append((low, max((numbers[1][level] for level in some), default=inf)))
                if not person:
                    continue
                start = self.offsets[True][j]
                if j in words.head_key:
                    self.head_row.append(-1)
                elif len(some) == 1:
                    self.head_row.append(start + 1 + min(some))
                else:
                    self.head_row.append(start + 1 + key.n_levels if some else start)
                if some:
                    self.head_bits += self.bits[-1]


def _depth(test: Test, who: Sequence[str]) -> int:
    """Number of persons that a comparison must know."""
    return max(
        (who.index(term.person) + 1 for term in test.terms if term.kind == PERSON), default=0
    )


def _work(test: Test) -> int:
    return sum(_MEMBERS if term.kind in (COUNT, LEAST, GREATEST) else 1 for term in test.terms)


def _row_of_term(
    term: Term, test: Test, who: Sequence[str], words: Vocabulary
) -> tuple[int, int, int, int]:
    sign = term.sign
    if test.operator >= SAME_LEVEL:
        sign = Levels(key=words.key(term.kind == PERSON, term.index)).n_named
    person = who.index(term.person) if term.kind == PERSON else 0
    return term.kind, sign, person, term.index


def keys_of(clauses: Iterable[Clause], words: Vocabulary) -> frozenset[tuple[bool, int]]:
    """Keys that must be known to decide a rule: whether of persons, and position."""
    found: set[tuple[bool, int]] = set()

    def add_all(k: int) -> None:
        found.add((True, k))
        if k in words.head_key:
            found.add((False, words.head_key[k]))

    def add(who: str, k: int) -> None:
        if words.head_apart and who == HEAD:
            found.update({(False, words.head_key[k])} if k in words.head_key else set())
        else:
            add_all(k)

    for clause in clauses:
        found |= {(False, j) for j in clause.house}
        for who, box in clause.persons.items():
            for k in box:
                add(who, k)
        for term in (term for test in clause.tests for term in test.terms):
            if term.kind == PERSON:
                add(term.person, term.index)
            elif term.kind == HOUSE:
                found.add((False, term.index))
            elif term.kind == COUNT:
                counted = words.counts[term.index]
                for k in {k for box in counted.yes + counted.no for k in box}:
                    add_all(k)
            elif term.kind != SIZE:
                add_all(term.index)
    return frozenset(found)


def stages_of(
    rules: Sequence[Sequence[Clause]], words: Vocabulary
) -> list[tuple[list[int], list[int], list[int]]]:
    """Household keys, person keys and rules of each stage.

    The next stage draws the keys of the rule that needs the fewest new ones, of several of that
    which decides most rules. A person key counts as one for each member.
    """
    left = {rule: keys_of(clauses, words) for rule, clauses in enumerate(rules)}
    effort = {rule: _effort(clauses) for rule, clauses in enumerate(rules)}
    known: frozenset[tuple[bool, int]] = frozenset()
    stages = []
    while left:
        best = min(left, key=lambda rule: _preference(left[rule] - known, known, left))
        new = left[best] - known
        known |= new
        here = [rule for rule, keys in left.items() if keys <= known]
        stages.append(
            (
                sorted(j for person, j in new if not person),
                sorted(j for person, j in new if person),
                sorted(here, key=lambda rule: (effort[rule], rule)),
            )
        )
        for rule in here:
            del left[rule]
    return stages


def _preference(
    new: frozenset[tuple[bool, int]],
    known: frozenset[tuple[bool, int]],
    left: Mapping[int, frozenset[tuple[bool, int]]],
) -> tuple[int, int]:
    cost = sum(_MEMBERS if person else 1 for person, _ in new)
    decided = sum(keys <= known | new for keys in left.values())
    return cost, -decided


def _effort(clauses: Sequence[Clause]) -> int:
    return sum(
        int(_MEMBERS ** len(clause.persons)) * (1 + sum(map(_work, clause.tests)))
        for clause in clauses
    )


def _ints(values: Sequence[object]) -> Int64:
    return np.array(values, np.int64)


def _running(parts: Sequence[Sequence[int]]) -> Int64:
    return np.cumsum([0, *map(len, parts)]).astype(np.int64)
