"""Names of household rules bound to keys and roles: expressions into clauses."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf, nextafter
from typing import NoReturn

from unikat.data.keys import Key
from unikat.data.named_levels import Levels
from unikat.errors import SpecError, brief, listed, suggest
from unikat.kernels.household_rules import (
    AT_MOST,
    COUNT,
    EQUAL,
    GREATEST,
    HOUSE,
    LEAST,
    LESS,
    OTHER_LEVEL,
    PERSON,
    SAME_LEVEL,
    SIZE,
    UNEQUAL,
)
from unikat.language.rules import (
    WORDS,
    Comparison,
    Count,
    Either,
    Expression,
    Extreme,
    KeyRef,
    Literal,
    Membership,
    Missingness,
    Part,
    Size,
    parse,
)
from unikat.zeros.binding import MIRRORED, NEGATED, Binder
from unikat.zeros.household_clauses import (
    ANY,
    HEAD,
    MOST_CLAUSES,
    ONE,
    Box,
    Clause,
    Counted,
    Term,
    Test,
    boxes_of,
    distinct,
    is_certain,
    needs,
    sum_of,
    term_of,
    together,
)

_CODES = {"==": EQUAL, "!=": UNEQUAL, "<": LESS, "<=": AT_MOST}


class Vocabulary:
    """The keys and roles that rules may name; it also collects what they count.

    Parameters
    ----------
    household_keys
        Keys of the household; with `head_apart` those of the head are called ``head.KEY``.
    person_keys
        Keys of the members.
    roles
        A condition on one person by role.
    head_apart
        Whether the head is not among the members.
    """

    def __init__(
        self,
        household_keys: Sequence[Key],
        person_keys: Sequence[Key],
        roles: Mapping[str, str],
        *,
        head_apart: bool = False,
    ) -> None:
        self.household_keys, self.person_keys = tuple(household_keys), tuple(person_keys)
        self.head_apart = head_apart
        self.house_place = {key.name: j for j, key in enumerate(household_keys)}
        self.person_place = {key.name: j for j, key in enumerate(person_keys)}
        self.counts: list[Counted] = []
        self.head_key = {
            self.person_place[name[len(HEAD) + 1 :]]: j
            for name, j in self.house_place.items()
            if head_apart
            and name.removeprefix(f"{HEAD}.") in self.person_place
            and name.startswith(f"{HEAD}.")
        }
        """Household key that is the head's, by person key."""
        self._levels: dict[tuple[bool, int], Levels] = {}
        self._numbers: dict[tuple[bool, int], tuple[tuple[float, ...], tuple[float, ...]]] = {}
        self.roles: dict[str, tuple[Box, ...]] = {}
        for role, text in roles.items():
            where = f"The role {brief(role)!r}"
            if not (role.isidentifier() and role.lower() not in (*WORDS, "size")):
                raise SpecError(
                    f"{where} has no name that a rule can use; use letters, digits and _ only."
                )
            self.roles[role] = self.boxes(parse(text, where, households=True), text, where)
            if not self.roles[role]:
                raise SpecError(
                    f"{where} can be nobody's: no combination of levels meets it.\n  {brief(text)}"
                )
        self.head_levels = self._head_levels()

    def _head_levels(self) -> Box:
        """Levels that the head can have of keys that are not the household's."""
        boxes = self.roles.get(HEAD, ()) if self.head_apart else ()
        keys = set.intersection(*(set(box) for box in boxes)) if boxes else set()
        return {
            k: frozenset().union(*(box[k] for box in boxes))
            for k in sorted(keys - set(self.head_key))
        }

    def key(self, person: bool, j: int) -> Key:
        """Return a key by whose it is and its position."""
        return (self.person_keys if person else self.household_keys)[j]

    def boxes(self, expression: Expression, text: str, where: str) -> tuple[Box, ...]:
        """Expand a condition on one person."""
        clauses = _Binder(self, text, where, one_person=True).expand(expression, negated=False)
        return boxes_of(clauses)

    def clauses(self, expression: Expression, text: str, where: str) -> list[Clause]:
        """Expand a rule; the persons have their roles.

        Raises
        ------
        SpecError
            For unknown names and levels, comparisons that the levels do not allow, and rules that
            become too many clauses.
        """
        binder = _Binder(self, text, where, one_person=False)
        found: list[Clause] = []
        for clause in binder.expand(expression, negated=False):
            parts = [[clause]]
            for role in clause.persons:
                if role != ANY and not (role == HEAD and self.head_apart):
                    parts.append(
                        [Clause(house={}, persons={role: box}) for box in self.roles[role]]
                    )
            found += binder.product(parts, expression.position)
        return [clause for clause in distinct(found) if not self.is_never(clause)]

    def numbers(self, person: bool, j: int) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
        """Least and largest number of each level of a key; None if they have none for sure."""
        if (person, j) not in self._numbers:
            levels = self.levels(person, j)
            # Letters, which are above all numbers, cannot be counted with.
            if len(levels.views) != 1 or any(end.low == inf for end in levels.views[0]):
                return None
            view = levels.views[0]
            unknown = [(-inf, inf)] * (levels.key.n_levels - levels.n_named)
            ends = [
                (
                    end.low if end.has_low else nextafter(end.low, inf),
                    end.high if end.has_high else nextafter(end.high, -inf),
                )
                for end in view
            ] + unknown
            self._numbers[person, j] = (
                tuple(low for low, _ in ends),
                tuple(high for _, high in ends),
            )
        return self._numbers[person, j]

    def levels(self, person: bool, j: int) -> Levels:
        """Return the levels of a key by whose it is and its position."""
        if (person, j) not in self._levels:
            self._levels[person, j] = Levels(key=self.key(person, j))
        return self._levels[person, j]

    def is_never(self, clause: Clause) -> bool:
        """Whether a clause holds of no household, as far as that is easily told."""
        return any(self._never(test, clause) for test in clause.tests)

    def is_always(self, clause: Clause) -> bool:
        """Whether a clause holds of every household, as far as that is easily told."""
        return not (clause.house or clause.persons) and all(map(self._always, clause.tests))

    def _never(self, test: Test, clause: Clause) -> bool:
        if test.operator >= SAME_LEVEL:
            return False
        least, most = sum_of(test, lambda term: self._range(term, clause)[:2])
        # The least that the upper end of the sum can be.
        _, highest = sum_of(test, lambda term: self._range(term, clause)[2:])
        if test.operator == LESS:
            return highest >= 0
        if test.operator == AT_MOST:
            return highest > 0
        if test.operator == EQUAL:
            return least > 0 or most < 0
        return least == most == 0

    def _always(self, test: Test) -> bool:
        if any(term.kind not in (SIZE, COUNT) for term in test.terms):
            return False
        empty = Clause(house={}, persons={})
        return is_certain(test.operator, *sum_of(test, lambda term: self._range(term, empty)[:2]))

    def _range(self, term: Term, clause: Clause) -> tuple[float, float, float, float]:
        """Least, largest number; largest of the low ends, least of the high ends of the levels."""
        if term.kind in (SIZE, COUNT):
            least = 1.0 if term.kind == SIZE else 0.0
            return least, inf, inf, least
        person = term.kind != HOUSE
        numbers = self.numbers(person, term.index)
        assert numbers is not None
        chosen: frozenset[int] | range = range(len(numbers[0]))
        if term.kind == PERSON:
            chosen = clause.persons[term.person].get(term.index, chosen)
        elif term.kind == HOUSE:
            chosen = clause.house.get(term.index, chosen)
        lows = [numbers[0][level] for level in chosen]
        highs = [numbers[1][level] for level in chosen]
        return min(lows), max(highs), max(lows), min(highs)


class _Binder(Binder[Clause]):
    """Binds the names of one rule, or of one condition on a person, and expands it."""

    most = MOST_CLAUSES

    def __init__(self, words: Vocabulary, text: str, where: str, *, one_person: bool) -> None:
        super().__init__(text, where)
        self.words, self.one_person = words, one_person

    def together(self, a: Clause, b: Clause) -> Clause | None:
        return together(a, b)

    def tidied(self, found: Iterable[Clause]) -> list[Clause]:
        return distinct(found)

    def of_key(self, expression: Membership | Missingness, *, negated: bool) -> list[Clause]:
        if expression.key.name == "size":
            return self.size_in(expression, negated)
        who, j = self.resolve(expression.key)
        levels = self.words.levels(who is not None, j)
        return needs(who, j, self.stated(levels, expression, negated=negated))

    def resolve(self, reference: KeyRef, other: object = None) -> tuple[str | None, int]:
        """Find what a name means: who (None: the household), and the position of the key."""
        words, name, at = self.words, reference.name, reference.position
        role, dot, key = name.partition(".")
        if self.one_person:
            if name in words.person_place:
                return ONE, words.person_place[name]
            if name in words.house_place:
                self.refuse(
                    at,
                    f"{brief(name)!r} is a key of the household; a condition on one person names "
                    "keys of persons only.",
                )
            if dot and key in words.person_place:
                self.refuse(
                    at,
                    "a condition on one person (of a role, or within count) names keys without a "
                    f"role; write {brief(key)}.",
                )
        if words.head_apart and role == HEAD and key in words.person_place:
            return self.of_head(words.person_place[key], at)
        if name in words.house_place:
            return None, words.house_place[name]
        if name in words.person_place:
            return ANY, words.person_place[name]
        if dot and key in words.person_place and role in words.roles:
            return role, words.person_place[key]
        self.unknown(reference, other)

    def of_head(self, k: int, position: int) -> tuple[str, int]:
        if k not in self.words.head_key and k not in self.words.head_levels:
            name = brief(self.words.person_keys[k].name)
            known = [self.words.person_keys[j].name for j in self.words.head_key]
            self.refuse(
                position,
                f"the head's {name!r} is not known, because the head has keys of its own "
                f"({listed(known)}); name {name!r} among them (--set households.head_keys).",
            )
        return HEAD, k

    def unknown(self, reference: KeyRef, other: object) -> NoReturn:
        words, at = self.words, reference.position
        role, dot, key = reference.name.partition(".")
        if dot and key in words.house_place and role in words.roles:
            self.refuse(
                at,
                f"{brief(key)!r} is a key of the household; write it without a role.",
            )
        if dot and key in words.person_place:
            declared = (
                f" The roles are {listed(list(words.roles))}."
                if words.roles
                else " No role is declared."
            )
            remedy = (
                "Say who is the head with --head (head=)."
                if role == HEAD
                else f"Declare it under [roles]: {brief(role)} = 'a condition on one person'."
            )
            self.refuse(
                at,
                f"no role is called {brief(role)!r}."
                f"{suggest(role, words.roles) or declared} {remedy}",
            )
        if dot and role in words.roles:
            hint = suggest(key, words.person_place)
            said = f" The keys of persons are {listed(list(words.person_place))}."
            self.refuse(at, f"no key of persons is called {brief(key)!r}.{hint or said}")
        names = list(words.person_place)
        if not self.one_person:
            names += [*words.house_place, "size"]
        near = words.person_place.get(other.name) if isinstance(other, KeyRef) else None
        self.no_key(reference, names, None if near is None else words.levels(True, near))

    def size_in(self, expression: Membership | Missingness, negated: bool) -> list[Clause]:
        if self.one_person or isinstance(expression, Missingness):
            said = "is never missing" if isinstance(expression, Missingness) else "is no key"
            self.refuse(expression.key.position, f"the size {said}; compare it with numbers.")
        position = expression.position
        size = ((1, Size(position=expression.key.position)),)
        equal = tuple(
            Comparison(left=size, operator="==", right=((1, level),), position=position)
            for level in expression.levels
        )
        return self.expand(Either(parts=equal, position=position), negated=negated)

    def comparison(self, expression: Comparison, *, negated: bool) -> list[Clause]:
        operator = NEGATED[expression.operator] if negated else expression.operator
        parts = [*expression.left, *((-sign, part) for sign, part in expression.right)]
        keys = [part for _, part in parts if isinstance(part, KeyRef)]
        n_others = sum(isinstance(part, (Size, Count, Extreme)) for _, part in parts)
        places = [self.resolve(part, _opposite(expression, part)) for part in keys]
        if len(keys) == 1 and not n_others:
            return self.with_number(expression, operator, keys[0], *places[0])
        plain = len(parts) == 2 and len(keys) == 2
        if plain and places[0] == places[1]:
            self.refuse(expression.position, f"{brief(keys[0].name)!r} is compared with itself.")
        pair = [self.words.key(who is not None, j) for who, j in places]
        same = len({(key.levels, key.labels) for key in pair}) == 1
        if plain and same and operator in ("==", "!="):
            terms = tuple(term_of(1, who, j) for who, j in places)
            code = SAME_LEVEL if operator == "==" else OTHER_LEVEL
            return self.of_test(Test(operator=code, terms=terms), expression.position)
        flip = -1 if operator in (">", ">=") else 1
        place = iter(places)
        terms, constant = (), 0.0
        for sign, part in parts:
            if isinstance(part, Literal):
                constant += flip * sign * self.number(part)
            else:
                where = next(place) if isinstance(part, KeyRef) else None
                terms += (self.term(flip * sign, part, where, expression.position),)
        code = _CODES[MIRRORED[operator] if flip < 0 else operator]
        return self.of_test(
            Test(operator=code, terms=terms, constant=constant), expression.position
        )

    def with_number(
        self, expression: Comparison, operator: str, key: KeyRef, who: str | None, j: int
    ) -> list[Clause]:
        """Clauses of a key that is compared with a number or a text."""
        if len(expression.left) == len(expression.right) == 1:
            on_left = isinstance(expression.left[0][1], KeyRef)
            value = expression.right[0][1] if on_left else expression.left[0][1]
            assert isinstance(value, Literal)
        else:
            parts = [*expression.left, *((-sign, part) for sign, part in expression.right)]
            numbers = [(sign, part) for sign, part in parts if isinstance(part, Literal)]
            of_key = next(sign for sign, part in parts if part is key)
            total = -of_key * sum(sign * self.number(part) for sign, part in numbers)
            value = Literal(value=total, position=expression.position)
            on_left = of_key > 0
        operator = operator if on_left else MIRRORED[operator]
        levels = self.words.levels(who is not None, j)
        return needs(who, j, self.compared(levels, operator, value, expression))

    def number(self, literal: Literal) -> float:
        if isinstance(literal.value, str):
            self.refuse(literal.position, "a number is expected here, not a text.")
        return literal.value

    def term(
        self, sign: int, part: Part, place: tuple[str | None, int] | None, position: int
    ) -> Term:
        if isinstance(part, KeyRef):
            assert place is not None
            self.check_numbers(place[0] is not None, place[1], part.position)
            return term_of(sign, *place)
        if self.one_person:
            self.refuse(
                part.position,
                "a condition on one person holds no size, count, min or max.",
            )
        if isinstance(part, Size):
            return Term(kind=SIZE, sign=sign)
        if isinstance(part, Extreme):
            k = self.words.person_place.get(part.key.name)
            if k is None:
                one = _Binder(self.words, self.text, self.where, one_person=True)
                _, k = one.resolve(part.key)
            self.check_numbers(True, k, part.key.position)
            return Term(kind=LEAST if part.which == "min" else GREATEST, sign=sign, index=k)
        assert isinstance(part, Count)
        one = _Binder(self.words, self.text, self.where, one_person=True)
        counted = Counted(
            yes=boxes_of(one.expand(part.condition, negated=False)),
            no=boxes_of(one.expand(part.condition, negated=True)),
        )
        if counted not in self.words.counts:
            self.words.counts.append(counted)
        return Term(kind=COUNT, sign=sign, index=self.words.counts.index(counted))

    def check_numbers(self, person: bool, j: int, position: int) -> None:
        if self.words.numbers(person, j) is None:
            levels = self.words.levels(person, j)
            self.views(levels, position)
            self.several_numbers(brief(levels.key.name), position)

    def of_test(self, test: Test, position: int) -> list[Clause]:
        if self.one_person:
            return self.pairs(test, position)
        persons: dict[str, Box] = {term.person: {} for term in test.terms if term.kind == PERSON}
        return [Clause(house={}, persons=persons, tests=(test,))]

    def pairs(self, test: Test, position: int) -> list[Clause]:
        """Clauses of two keys of one person: the pairs of levels of which a comparison holds."""
        keys = list(dict.fromkeys(term.index for term in test.terms))
        if len(keys) > 2:
            self.refuse(position, "a condition on one person compares at most two keys at a time.")
        holds = self.holds(test)
        n_levels = [self.words.levels(True, k).n_named for k in keys]
        groups: dict[frozenset[int], set[int]] = {}
        for code in range(n_levels[0]):
            if len(keys) == 1:
                if holds({keys[0]: code}):
                    groups.setdefault(frozenset(), set()).add(code)
                continue
            others = frozenset(
                other for other in range(n_levels[1]) if holds({keys[0]: code, keys[1]: other})
            )
            if others:
                groups.setdefault(others, set()).add(code)
        return [
            Clause(
                house={},
                persons={ONE: dict(zip(keys, (frozenset(codes), others), strict=False))},
            )
            for others, codes in groups.items()
        ]

    def holds(self, test: Test) -> Callable[[Mapping[int, int]], bool]:
        """Return what tells whether a comparison of keys of one person holds for sure."""
        if test.operator >= SAME_LEVEL:
            a, b = test.terms
            return lambda codes: (codes[a.index] == codes[b.index]) == (test.operator == SAME_LEVEL)

        def compare(codes: Mapping[int, int]) -> bool:
            def ends(term: Term) -> tuple[float, float]:
                numbers = self.words.numbers(True, term.index)
                assert numbers is not None
                low, high = (of_levels[codes[term.index]] for of_levels in numbers)
                return low, high

            return is_certain(test.operator, *sum_of(test, ends))

        return compare


def _opposite(expression: Comparison, part: Part) -> Part | None:
    """Return what alone stands on the other side of a comparison."""
    for side, other in (
        (expression.left, expression.right),
        (expression.right, expression.left),
    ):
        if len(side) == len(other) == 1 and side[0][1] is part:
            return other[0][1]
    return None
