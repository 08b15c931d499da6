"""Names and levels of rules: what is the same in rules of persons and of households.

A rule becomes parts of which one has to hold: conditions (`unikat.zeros.conditions`) or clauses
(`unikat.zeros.household_binding`). ``not`` is moved to the comparisons, none of which a missing
value meets: ``not (A == 1)`` is ``A != 1``, and neither holds of the level for missing values.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import ClassVar, Generic, NoReturn, TypeVar

from unikat.data.named_levels import Levels, compare, is_number
from unikat.data.spans import Interval
from unikat.errors import SpecError, brief, listed, suggest
from unikat.language.rules import (
    Both,
    Comparison,
    Either,
    Expression,
    KeyRef,
    Literal,
    Membership,
    Missingness,
    Not,
    refuse,
)

MIRRORED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
NEGATED = {"==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}

Alternative = TypeVar("Alternative")
"""A condition or a clause."""


class Binder(ABC, Generic[Alternative]):
    """Binds the names of one rule and expands it."""

    most: ClassVar[int]
    """Most alternatives that a rule may expand to."""

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where

    @abstractmethod
    def of_key(self, expression: Membership | Missingness, *, negated: bool) -> list[Alternative]:
        """Expand what says which levels a key has."""

    @abstractmethod
    def comparison(self, expression: Comparison, *, negated: bool) -> list[Alternative]:
        """Expand a comparison."""

    @abstractmethod
    def together(self, a: Alternative, b: Alternative) -> Alternative | None:
        """Return what says both, None if nothing meets it."""

    @abstractmethod
    def tidied(self, found: Iterable[Alternative]) -> list[Alternative]:
        """Leave out alternatives that say nothing new."""

    def refuse(self, position: int, message: str) -> NoReturn:
        """Raise a SpecError that points at a character of the rule."""
        refuse(self.text, position, message, self.where)

    def expand(self, expression: Expression, *, negated: bool) -> list[Alternative]:
        """Return the alternatives of an expression, or of the contrary."""
        if isinstance(expression, Not):
            return self.expand(expression.part, negated=not negated)
        if isinstance(expression, (Both, Either)):
            parts = [self.expand(part, negated=negated) for part in expression.parts]
            if isinstance(expression, Either) != negated:
                return self.tidied(one for part in parts for one in part)
            return self.product(parts, expression.position)
        if isinstance(expression, Comparison):
            return self.comparison(expression, negated=negated)
        return self.of_key(expression, negated=negated != expression.negated)

    def product(self, parts: Sequence[Sequence[Alternative]], position: int) -> list[Alternative]:
        """Return what says one alternative of each part."""
        found = list(parts[0])
        for part in parts[1:]:
            if len(found) * len(part) > self.most:
                self.refuse(
                    position,
                    f"the rule becomes more than {self.most:,} conditions here; write it as "
                    "several rules, without or within and.",
                )
            both = (self.together(a, b) for a in found for b in part)
            found = self.tidied(one for one in both if one is not None)
        return found

    def no_key(
        self, reference: KeyRef, names: Sequence[str], other: Levels | None = None
    ) -> NoReturn:
        """Refuse the name of a key; `other` are the levels of the key that it is compared with."""
        hint = suggest(reference.name, names)
        if other is not None and other.called(reference.name):
            hint = f" If a level of {brief(other.key.name)!r} is meant, put it in quotes."
        keys = "" if "Did" in hint else f" The keys are {listed(names)}."
        self.refuse(
            reference.position,
            f"no key is called {brief(reference.name)!r}.{hint or ' Correct the name.'}{keys}",
        )

    def stated(
        self, levels: Levels, expression: Membership | Missingness, *, negated: bool
    ) -> set[int]:
        """Levels that a key has by ``in`` or ``is missing``."""
        if isinstance(expression, Membership):
            chosen = {self.level(levels, literal) for literal in expression.levels}
            return set(range(levels.n_named)) - chosen if negated else chosen
        key = levels.key
        if key.missing_level is None:
            self.refuse(
                expression.key.position,
                f"missing values of {key.name!r} are not a level; a rule can name them only where "
                "they are one (missing='level').",
            )
        chosen = {key.n_levels - 1}
        return set(range(key.n_levels)) - chosen if negated else chosen

    def compared(
        self, levels: Levels, operator: str, literal: Literal, expression: Comparison
    ) -> set[int]:
        """Levels of a key of which an operator and a literal hold, as a comparison says it."""
        if operator in ("==", "!="):
            equal = {self.level_or_inside(levels, literal)}
            return equal if operator == "==" else set(range(levels.n_named)) - equal
        return self.ordered(levels, operator, literal, expression)

    def level(self, levels: Levels, literal: Literal) -> int:
        """Find the level that a literal means."""
        name = brief(levels.key.name)
        said = literal.value if is_number(literal.value) else brief(str(literal.value))
        found = levels.called(literal.value)
        if len(found) == 1:
            return min(found)
        if found:
            labels = levels.shown(found)
            which = f" (by value or label: {labels})" if labels else ""
            self.refuse(
                literal.position,
                f"{said!r} means several levels of {name!r}{which}; give the levels labels in the "
                "codebook that are no other level's value, and use these.",
            )
        missing = levels.key.missing_level
        if missing is not None and str(literal.value) == levels.key.labels[missing]:
            self.refuse(
                literal.position,
                f"the level for missing values is no value of {name!r}; write `{name}` is missing.",
            )
        self.refuse(
            literal.position,
            f"{name!r} has no level {said!r}.{levels.hint(str(literal.value))}",
        )

    def level_or_inside(self, levels: Levels, literal: Literal) -> int:
        """Find the level that a literal means; refuse a number within an interval."""
        if not levels.called(literal.value) and is_number(literal.value):
            number = float(literal.value)
            for view in levels.views:
                for code, interval in enumerate(view):
                    if compare(interval, "==", Interval(number, number)) is None:
                        self.refuse(
                            literal.position,
                            f"{literal.value} is only a part of {levels.called_in_text(code)} of "
                            f"{brief(levels.key.name)!r}; a rule can name whole levels only.",
                        )
        return self.level(levels, literal)

    def ordered(
        self, levels: Levels, operator: str, literal: Literal, expression: Comparison
    ) -> set[int]:
        """Find the levels of a key that lie below or above a number."""
        name = brief(levels.key.name)
        try:
            number = float(literal.value)
        except ValueError:
            self.refuse(
                literal.position,
                f"{expression.operator} compares {name!r} with a number; for texts write == or "
                "in (...).",
            )
        against = Interval(number, number)
        found: list[set[int]] = []
        for view in self.views(levels, expression.position):
            chosen = set()
            for code, interval in enumerate(view):
                holds = compare(interval, operator, against)
                if holds is None:
                    self.refuse(
                        literal.position,
                        f"{literal.value} cuts through {levels.called_in_text(code)} of {name!r}; "
                        "compare with a number at which a level begins, or bin the key "
                        "differently.",
                    )
                if holds:
                    chosen.add(code)
            found.append(chosen)
        if any(other != found[0] for other in found[1:]):
            self.several_numbers(name, expression.position)
        return found[0]

    def views(self, levels: Levels, position: int) -> tuple[tuple[Interval, ...], ...]:
        """The levels as numbers (see `Levels.views`), of which there have to be some."""
        if not levels.views:
            self.refuse(
                position,
                f"{brief(levels.key.name)!r} has no order of numbers: {levels.without_number} is "
                "neither a number nor an interval. List levels with in (...).",
            )
        return levels.views

    def several_numbers(self, name: str, position: int) -> NoReturn:
        """Refuse a comparison that depends on whether values or labels are the numbers."""
        self.refuse(
            position,
            f"values and labels of {name!r} are different numbers, and the comparison would "
            "depend on which is meant. List levels with in (...).",
        )


def nothing_forbidden(text: str, where: str, unit: str) -> SpecError:
    """Say that no household, or no combination of levels, meets a rule."""
    return SpecError(
        f"{where} forbids nothing: no {unit} meets it. A rule says what is impossible; correct it "
        f"or leave it out.\n  {brief(text)}"
    )


def all_forbidden(text: str, where: str, unit: str) -> SpecError:
    """Say that every household, or every combination of levels, meets a rule."""
    return SpecError(
        f"{where} forbids everything: every {unit} meets it. A rule says what is impossible, not "
        f"what is possible; perhaps a not is missing.\n  {brief(text)}"
    )
