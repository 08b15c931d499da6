"""The language of household rules.

It is the language of `unikat.zeros.rules`, and

::

    comparison = sum operator sum { operator sum }
               | NAME [ "not" ] "in" "(" literal { "," literal } ")" | NAME "is" [ "not" ] "missing"
    sum        = operand { ( "+" | "-" ) operand }
    operand    = NAME | literal | "size" | "count" "(" rule ")" | ( "min" | "max" ) "(" KEY ")"

A NAME is a KEY, or ``ROLE.KEY`` for the key of a member who has a role. Names are looked up later
(`unikat.zeros.household_binding`).
"""

from __future__ import annotations

import re

from unikat.errors import SpecError
from unikat.zeros.rules import (
    OPERATORS,
    Both,
    Count,
    Expression,
    Extreme,
    KeyRef,
    Literal,
    Operand,
    Part,
    Size,
    SumComparison,
    _Parser,
    called,
)

EXAMPLE = 'spouse.AGE < 16 or count(REL == "head") != 1'
_OPERAND = "a key, a number, count(...), min(...) or max(...)"
_TOKEN = re.compile(
    r"""
    (?P<space>\s+)
  | (?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<text>"[^"\n]*"|'[^'\n]*')
  | (?P<quoted>(?:[^\W\d]\w*\.)?`[^`\n]*`)
  | (?P<name>[^\W\d]\w*(?:\.\w+)*)
  | (?P<operator>==|!=|<=|>=|<|>)
  | (?P<mark>[(),+-])
    """,
    re.VERBOSE,
)


_AGGREGATES = ("count", "min", "max")


def parse_household_rule(text: str, where: str | None = None) -> Expression:
    """Parse the text of a household rule; messages call it `where`.

    Raises
    ------
    SpecError
        If the text is no rule; the message shows the rule and points at the place.

    Examples
    --------
    >>> parse_household_rule("child.AGE > head.AGE - 12").operator
    '>'
    """
    where = called(text) if where is None else where
    if not text.strip():
        raise SpecError(f"{where} is empty; write what is impossible, such as {EXAMPLE}.")
    return _HouseholdParser(text, where).whole()


class _HouseholdParser(_Parser):
    """Also sums, the size, and what is counted or compared over all persons."""

    pattern = _TOKEN

    def comparison(self) -> Expression:
        start = self.token.position
        first = self.sum("a comparison is expected here, such as spouse.AGE < 16")
        sign, name = first[0]
        if self.token.kind in ("not", "in", "is"):
            if len(first) > 1 or sign < 0 or not isinstance(name, (KeyRef, Size)):
                self.refuse(start, f"a key stands before {self.token.said}, and nothing else.")
            key = name if isinstance(name, KeyRef) else KeyRef(name="size", position=start)
            if self.token.kind == "is":
                return self.missingness(key)
            return self.membership(key)
        if self.token.kind not in OPERATORS:
            self.refuse(
                self.token.position,
                f"a comparison (== != < <= > >= in is) is expected here, not {self.token.said}.",
            )
        parts: list[Expression] = []
        left = first
        while self.token.kind in OPERATORS:
            operator = self.take()
            right = self.sum(f"{_OPERAND} is expected here")
            if all(isinstance(part, Literal) for _, part in left + right):
                self.refuse(
                    operator.position,
                    "two values are compared; one of them must be a key, whose name stands "
                    "without quotes (in backquotes if it has blanks).",
                )
            parts.append(
                SumComparison(
                    left=left, operator=operator.kind, right=right, position=operator.position
                )
            )
            left = right
        return parts[0] if len(parts) == 1 else Both(parts=tuple(parts), position=start)

    def sum(self, message: str) -> tuple[tuple[int, Part], ...]:
        parts = [self.part(1, message)]
        while self.token.kind in ("+", "-"):
            sign = -1 if self.take().kind == "-" else 1
            parts.append(self.part(sign, f"{_OPERAND} is expected here"))
        for _, part in parts:
            if len(parts) > 1 and isinstance(part, Literal) and isinstance(part.value, str):
                self.refuse(part.position, "only numbers are added and subtracted, not a text.")
        return tuple(parts)

    def part(self, sign: int, message: str) -> tuple[int, Part]:
        token, after = self.token, self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        word = token.value.lower()
        if token.kind == "key" and after.kind == "(" and word in _AGGREGATES:
            return sign, self.aggregate(word)
        if token.kind == "key" and token.value == "size":
            self.take()
            return sign, Size(position=token.position)
        return sign, self.operand(message)

    def aggregate(self, word: str) -> Part:
        start = self.take().position
        opening = self.take().position
        self.deeper(opening)
        found: Part
        if word == "count":
            found = Count(condition=self.either(), position=start)
        else:
            name = self.expect("key", f"the name of a key is expected here, as in {word}(AGE).")
            key = KeyRef(name=name.value, position=name.position)
            found = Extreme(which=word, key=key, position=start)
        if self.token.kind != ")":
            self.refuse(opening, "this parenthesis is never closed; add ')'.")
        self.take()
        self.depth -= 1
        return found

    def operand(self, message: str) -> Operand:
        token, after = self.token, self.tokens[min(self.place + 1, len(self.tokens) - 1)]
        if token.kind not in ("+", "-") or after.kind != "number":
            return super().operand(message)
        self.take()
        found = super().operand(message)
        assert isinstance(found, Literal)
        assert not isinstance(found.value, str)
        value = -found.value if token.kind == "-" else found.value
        return Literal(value=value, position=token.position)
