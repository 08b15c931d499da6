"""Slow twin of household rules: the expression itself, over all choices of members.

Truth has three values: True, False, and None where it is not decided. A value is the set of codes
that it may be, or None where nothing is known of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf
from typing import Any

from unikat.data import Key
from unikat.language.rules import (
    Both,
    Count,
    Either,
    Extreme,
    KeyRef,
    Literal,
    Membership,
    Missingness,
    Not,
    Size,
    parse,
)

Value = frozenset[int] | None
Person = dict[str, Value]
NOBODY: Person = {}


@dataclass
class Household:
    """Values of the household, of its persons, and which of these is the head that is apart."""

    house: dict[str, Value]
    persons: list[Person]
    head: Person | None = None


@dataclass
class Twin:
    """Rules of households, slowly."""

    keys: Mapping[str, Key]
    numbers: Mapping[str, Sequence[tuple[float, float]]]
    roles: Mapping[str, str]
    head_apart: bool
    person_names: frozenset[str]

    def household(
        self, household_keys: Sequence[str], house: Sequence[int], members: Sequence[Sequence[int]]
    ) -> Household:
        names = [name for name in self.keys if name in self.person_names]
        values = {
            name: None if code < 0 else frozenset([code])
            for name, code in zip(household_keys, house, strict=True)
        }
        persons: list[Person] = [
            {
                name: None if code < 0 else frozenset([code])
                for name, code in zip(names, member, strict=True)
            }
            for member in members
        ]
        if not self.head_apart:
            return Household(values, persons)
        # The head has a level of a key that is not the household's if its role allows no other.
        head: Person = {}
        for name in names:
            head[name] = values.get(f"head.{name}")
            if f"head.{name}" not in values and "head" in self.roles:
                head[name] = self.possible(name)
        return Household(values, [head, *persons], head)

    def possible(self, name: str) -> Value:
        """Levels that a head can have, where its role is about this key alone."""
        expression = parse(self.roles["head"], households=True)
        said = _names(expression)
        if said != {name}:
            return None
        levels = [
            code
            for code in range(self.keys[name].n_levels)
            if self.truth(expression, {".": {name: frozenset([code])}}, Household({}, [])) is True
        ]
        return frozenset(levels)

    def is_broken(self, rule: str, household: Household) -> bool:
        expression = parse(rule, households=True)
        who = sorted(self.roles_of(expression))
        people: list[Person] = [*household.persons, NOBODY]
        for chosen in product(range(len(people)), repeat=len(who)):
            somebody = [i for i in chosen if i < len(people) - 1]
            if len(set(somebody)) < len(somebody):
                continue
            persons = {role: people[i] for role, i in zip(who, chosen, strict=True)}
            if all(
                person is NOBODY or self.has_role(person, role, household)
                for role, person in persons.items()
            ) and self.truth(expression, persons, household):
                return True
        return False

    def has_role(self, person: Person, role: str, household: Household) -> bool:
        if role == "":
            return True
        if role == "head" and self.head_apart:
            return person is household.head
        condition = parse(self.roles[role], households=True)
        return self.truth(condition, {".": person}, household) is True

    def roles_of(self, expression: Any) -> set[str]:
        return {self.split(name)[0] for name in _names(expression) if self.is_of_person(name)}

    def is_of_person(self, name: str) -> bool:
        if name in self.person_names:
            return True
        if self.head_apart and name.startswith("head."):
            return True
        return "." in name and name not in self.keys

    def split(self, name: str) -> tuple[str, str]:
        if name in self.person_names:
            return "", name
        role, _, key = name.partition(".")
        return role, key

    def value(self, name: str, persons: Mapping[str, Person], household: Household) -> Value:
        if "." in persons:
            return persons["."][name]
        if self.is_of_person(name):
            role, key = self.split(name)
            return persons[role].get(key)
        return household.house[name]

    def truth(self, e: Any, persons: Mapping[str, Person], household: Household) -> bool | None:
        if isinstance(e, Not):
            found = self.truth(e.part, persons, household)
            return None if found is None else not found
        if isinstance(e, (Both, Either)):
            truths = [self.truth(part, persons, household) for part in e.parts]
            decisive = isinstance(e, Either)
            if decisive in truths:
                return decisive
            return None if None in truths else not decisive
        if isinstance(e, (Membership, Missingness)):
            if e.key.name == "size":
                found = len(household.persons) in [level.value for level in e.levels]
                return found != e.negated
            key = self.keys[self.split(e.key.name)[1] or e.key.name]
            value = self.value(e.key.name, persons, household)
            if isinstance(e, Missingness):
                assert key.missing_level is not None
                found = _within(value, {key.missing_level})
            else:
                found = self.among(key, value, {_code(key, level.value) for level in e.levels})
            return None if found is None else found != e.negated
        return self.compared(e, persons, household)

    def among(self, key: Key, value: Value, codes: set[int]) -> bool | None:
        if value is not None and key.missing_level in value:
            return None
        return _within(value, codes)

    def compared(self, e: Any, persons: Mapping[str, Person], household: Household) -> bool | None:
        if len(e.left) == len(e.right) == 1 and e.operator in ("==", "!="):
            a, b = e.left[0][1], e.right[0][1]
            if isinstance(a, Literal):
                a, b = b, a
            found: bool | None
            if isinstance(a, KeyRef) and isinstance(b, Literal):
                key = self.key_of(a, persons)
                value = self.value(a.name, persons, household)
                found = self.among(key, value, {_code(key, b.value)})
                return None if found is None else found == (e.operator == "==")
            if isinstance(a, KeyRef) and isinstance(b, KeyRef):
                keys = [self.key_of(a, persons), self.key_of(b, persons)]
                if keys[0].levels == keys[1].levels:
                    values = [self.value(part.name, persons, household) for part in (a, b)]
                    if any(
                        value is None or len(value) > 1 or key.missing_level in value
                        for key, value in zip(keys, values, strict=True)
                    ):
                        return None
                    return (values[0] == values[1]) == (e.operator == "==")
        low, high = 0.0, 0.0
        for sign, part in [*e.left, *((-sign, part) for sign, part in e.right)]:
            least, most = self.ends(part, persons, household)
            low += least if sign > 0 else -most
            high += most if sign > 0 else -least
        return _related(e.operator, low, high)

    def key_of(self, part: KeyRef, persons: Mapping[str, Person]) -> Key:
        return self.keys[self.split(part.name)[1] if self.is_of_person(part.name) else part.name]

    def ends(
        self, part: Any, persons: Mapping[str, Person], household: Household
    ) -> tuple[float, float]:
        if isinstance(part, Literal):
            return float(part.value), float(part.value)
        if isinstance(part, Size):
            return len(household.persons), len(household.persons)
        if isinstance(part, Count):
            truths = [
                self.truth(part.condition, {".": person}, household) for person in household.persons
            ]
            return truths.count(True), len(truths) - truths.count(False)
        if isinstance(part, Extreme):
            best = min if part.which == "min" else max
            found = [self.range(part.key.name, p[part.key.name]) for p in household.persons]
            if not found:
                return -inf, inf
            return best(low for low, _ in found), best(high for _, high in found)
        name = self.split(part.name)[1] if self.is_of_person(part.name) else part.name
        return self.range(name, self.value(part.name, persons, household))

    def range(self, name: str, value: Value) -> tuple[float, float]:
        if value is None:
            return -inf, inf
        found = [self.numbers[name][code] for code in value]
        return min(low for low, _ in found), max(high for _, high in found)


def _related(operator: str, low: float, high: float) -> bool | None:
    if operator in (">", ">="):
        return _related("<" if operator == ">" else "<=", -high, -low)
    if operator == "<":
        return True if high < 0 else False if low >= 0 else None
    if operator == "<=":
        return True if high <= 0 else False if low > 0 else None
    equal = True if low == high == 0 else False if high < 0 or low > 0 else None
    return equal if operator == "==" or equal is None else not equal


def _within(value: Value, codes: set[int]) -> bool | None:
    if value is None:
        return None
    if value <= codes:
        return True
    return None if value & codes else False


def _code(key: Key, said: object) -> int:
    return next(code for code, level in enumerate(key.levels) if str(level) == str(said))


def _names(expression: Any) -> set[str]:
    """Names of keys outside of count, min and max."""
    return set(_walk(expression))


def _walk(e: Any) -> Iterator[str]:
    if isinstance(e, Not):
        yield from _walk(e.part)
    elif isinstance(e, (Both, Either)):
        for part in e.parts:
            yield from _walk(part)
    elif isinstance(e, (Membership, Missingness)):
        if e.key.name != "size":
            yield e.key.name
    else:
        for _, part in e.left + e.right:
            if isinstance(part, KeyRef):
                yield part.name
