"""The language of rules, which say what is impossible of a person or of a household.

::

    rule       = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" rule ")" | comparison
    comparison = KEY [ "not" ] "in" "(" literal { "," literal } ")"
               | KEY "is" [ "not" ] "missing"
               | sum operator sum { operator sum }
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">="
    sum        = operand { ( "+" | "-" ) operand }
    operand    = KEY | literal | "size" | "count" "(" rule ")" | ( "min" | "max" ) "(" KEY ")"

A KEY is a bare name, or any name in backquotes; a literal is a number, or text in single or double
quotes. Sums, the size, what is counted and extremes belong to rules of households, where a KEY may
be ``ROLE.KEY``: the key of a member who has a role. Names are looked up and levels are matched
later (`unikat.zeros.binding`); every part of an expression keeps its place in the text, so that an
error can point at it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

from unikat.errors import SpecError, brief, visible

DEEPEST = 100
"""Most parentheses and ``not`` within each other."""
_LONGEST_SHOWN = 60
_WINDOW = 100

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
OPERATORS = frozenset(("==", "!=", "<=", ">=", "<", ">"))
WORDS = frozenset(("and", "or", "not", "in", "is", "missing"))
"""What a key can be called only in backquotes."""
_INSTEAD = {
    "=": "'=' is no comparison; write == for equal.",
    "&": "'&' is not understood; write and.",
    "|": "'|' is not understood; write or.",
    "!": "'!' is not understood; write not, or != for unequal.",
    "~": "'~' is not understood; write not.",
    "[": "'[' is not understood; a list stands in parentheses.",
    "{": "'{' is not understood; a list stands in parentheses.",
    '"': "this quotation mark is not closed; put another at the end of the text.",
    "'": "this quotation mark is not closed; put another at the end of the text.",
    "`": "this backquote is not closed; put another at the end of the name.",
    "#": "'#' is not understood; a rule holds no comment.",
}
_AGGREGATES = ("count", "min", "max")
_OPERANDS = {
    False: "a key, a number or a text in quotes",
    True: "a key, a number, count(...), min(...) or max(...)",
}
_COMPARISONS = {False: "AGE < 14", True: "spouse.AGE < 16"}
_EXAMPLE = 'AGE < 14 and MARST in ("married", "widowed")'
EXAMPLE_OF_HOUSEHOLDS = 'spouse.AGE < 16 or count(REL == "head") != 1'


@dataclass(frozen=True, kw_only=True)
class KeyRef:
    """A key, by its name."""

    name: str
    position: int


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A number or a text that means a level, or is compared with levels."""

    value: float | str
    position: int


@dataclass(frozen=True, kw_only=True)
class Membership:
    """A key is in a list of levels, or not in it."""

    key: KeyRef
    levels: tuple[Literal, ...]
    negated: bool
    position: int


@dataclass(frozen=True, kw_only=True)
class Missingness:
    """A key is missing, or is not."""

    key: KeyRef
    negated: bool
    position: int


@dataclass(frozen=True, kw_only=True)
class Not:
    """The contrary."""

    part: Expression
    position: int


@dataclass(frozen=True, kw_only=True)
class Both:
    """All parts hold."""

    parts: tuple[Expression, ...]
    position: int


@dataclass(frozen=True, kw_only=True)
class Either:
    """At least one part holds."""

    parts: tuple[Expression, ...]
    position: int


@dataclass(frozen=True, kw_only=True)
class Size:
    """Number of persons of a household; in rules of households, as what follows."""

    position: int


@dataclass(frozen=True, kw_only=True)
class Count:
    """Number of persons who meet a condition."""

    condition: Expression
    position: int


@dataclass(frozen=True, kw_only=True)
class Extreme:
    """Least (``min``) or largest (``max``) value of a key among the persons."""

    which: str
    key: KeyRef
    position: int


Part: TypeAlias = KeyRef | Literal | Size | Count | Extreme


Sum: TypeAlias = tuple[tuple[int, Part], ...]
"""Parts, each with its sign, 1 or -1."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two sums and ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``; not all parts are literals."""

    left: Sum
    operator: str
    right: Sum
    position: int


Expression: TypeAlias = Comparison | Membership | Missingness | Not | Both | Either


def refuse(text: str, position: int, message: str, where: str = "The rule") -> NoReturn:
    """Raise a SpecError that shows the rule and points at one character of it."""
    start = text.rfind("\n", 0, position) + 1
    end = text.find("\n", position)
    line = text[start : end if end >= 0 else len(text)]
    place = position - start
    # Of a long line, a piece around the place that is meant.
    first = max(0, place - _WINDOW // 2) if len(line) > _WINDOW else 0
    # A control character keeps its one place, so that the caret stands below what is meant.
    shown = "".join(
        char if char.isprintable() or char == "\t" else "�"
        for char in line[first : first + _WINDOW]
    )
    # A tab stays a tab, so that the caret stands below its character.
    blank = "".join("\t" if char == "\t" else " " for char in shown[: place - first])
    raise SpecError(f"{where}: {message}\n  {shown}\n  {blank}^")


def called(text: str, number: int | None = None, name: str | None = None) -> str:
    """Return what messages call a rule: its name, or its number and the beginning of its text."""
    if name:
        return f"Rule {brief(name, _LONGEST_SHOWN)!r}"
    line = visible(brief(text, _LONGEST_SHOWN))
    return f"The rule '{line}'" if number is None else f"Rule {number}"


@dataclass(frozen=True, kw_only=True)
class _Token:
    kind: str
    """``"number"``, ``"text"``, ``"key"``, ``"end"``; a word, an operator or a mark is itself."""
    value: str
    position: int

    @property
    def said(self) -> str:
        if self.kind == "end":
            return "the end of the rule"
        return "this text" if self.kind == "text" else f"{brief(self.value)!r}"


def _tokens(text: str, where: str) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            char = text[position]
            refuse(text, position, _INSTEAD.get(char, f"{char!r} is not understood."), where)
        kind, value = str(match.lastgroup), match[0]
        if kind == "text":
            tokens.append(_Token(kind=kind, value=value[1:-1], position=position))
        elif kind == "quoted":
            tokens.append(_Token(kind="key", value=value.replace("`", ""), position=position))
        elif kind == "name" and value.lower() in WORDS:
            tokens.append(_Token(kind=value.lower(), value=value, position=position))
        elif kind == "name":
            tokens.append(_Token(kind="key", value=value, position=position))
        elif kind == "number":
            if len(value) > _LONGEST_SHOWN:
                refuse(text, position, "this number has too many digits.", where)
            following = text[match.end() : match.end() + 1]
            if following.isalnum() or following in ("_", "."):
                remedy = "a name that begins with a digit stands in backquotes, a text in quotes."
                refuse(text, position, f"this is neither a number nor a name; {remedy}", where)
            tokens.append(_Token(kind=kind, value=value, position=position))
        elif kind != "space":
            tokens.append(_Token(kind=value, value=value, position=position))
        position = match.end()
    tokens.append(_Token(kind="end", value="", position=len(text.rstrip())))
    return tokens


def parse(text: str, where: str | None = None, *, households: bool = False) -> Expression:
    """Parse the text of a rule, as the module describes it.

    Parameters
    ----------
    text
        The rule.
    where
        What messages call it.
    households
        Whether it is of households.

    Raises
    ------
    SpecError
        If the text is no rule; the message shows the rule and points at the place.

    Examples
    --------
    >>> parse("child.AGE > head.AGE - 12", households=True).operator
    '>'
    >>> parse("AGE < 14 and")
    Traceback (most recent call last):
    ...
    unikat.errors.SpecError: The rule 'AGE < 14 and': a comparison is expected here, ...
      AGE < 14 and
                  ^
    """
    where = called(text) if where is None else where
    if not text.strip():
        example = EXAMPLE_OF_HOUSEHOLDS if households else _EXAMPLE
        raise SpecError(f"{where} is empty; write what is impossible, such as {example}.")
    return _Parser(text, where, households).whole()


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str, where: str, households: bool) -> None:
        self.text, self.where, self.households = text, where, households
        self.tokens = _tokens(text, where)
        self.place = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.place]

    @property
    def following(self) -> _Token:
        return self.tokens[min(self.place + 1, len(self.tokens) - 1)]

    def take(self) -> _Token:
        token = self.token
        self.place += 1
        return token

    def refuse(self, position: int, message: str) -> NoReturn:
        refuse(self.text, position, message, self.where)

    def expect(self, kind: str, message: str) -> _Token:
        if self.token.kind != kind:
            self.refuse(self.token.position, message)
        return self.take()

    def whole(self) -> Expression:
        expression = self.either()
        if self.token.kind == ")":
            self.refuse(self.token.position, "this parenthesis was never opened; remove it.")
        if self.token.kind != "end":
            self.refuse(
                self.token.position,
                f"'and', 'or' or the end is expected here, not {self.token.said}.",
            )
        return expression

    def either(self) -> Expression:
        start = self.token.position
        parts = [self.both()]
        while self.token.kind == "or":
            self.take()
            parts.append(self.both())
        return parts[0] if len(parts) == 1 else Either(parts=tuple(parts), position=start)

    def both(self) -> Expression:
        start = self.token.position
        parts = [self.one()]
        while self.token.kind == "and":
            self.take()
            parts.append(self.one())
        return parts[0] if len(parts) == 1 else Both(parts=tuple(parts), position=start)

    def one(self) -> Expression:
        if self.token.kind not in ("not", "("):
            return self.comparison()
        opening = self.take()
        self.deeper(opening.position)
        if opening.kind == "not":
            inner: Expression = Not(part=self.one(), position=opening.position)
        else:
            inner = self.either()
            self.close(opening.position)
        self.depth -= 1
        return inner

    def close(self, opening: int) -> None:
        if self.token.kind != ")":
            self.refuse(opening, "this parenthesis is never closed; add ')'.")
        self.take()

    def deeper(self, position: int) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(
                position,
                f"the rule is nested more than {DEEPEST} deep; write it as several rules.",
            )

    def comparison(self) -> Expression:
        start = self.token.position
        such = _COMPARISONS[self.households]
        left = self.sum(f"a comparison is expected here, such as {such}")
        if self.token.kind in ("not", "in", "is"):
            key = self.key_alone(left, start)
            return self.missingness(key) if self.token.kind == "is" else self.membership(key)
        if self.token.kind not in OPERATORS:
            self.refuse(
                self.token.position,
                f"a comparison (== != < <= > >= in is) is expected here, not {self.token.said}.",
            )
        parts: list[Comparison] = []
        while self.token.kind in OPERATORS:
            sign = self.take()
            right = self.sum(f"{_OPERANDS[self.households]} is expected here")
            if all(isinstance(part, Literal) for _, part in left + right):
                self.refuse(
                    left[0][1].position,
                    "two values are compared; one of them must be a key, whose name stands "
                    "without quotes (in backquotes if it has blanks).",
                )
            parts.append(
                Comparison(left=left, operator=sign.kind, right=right, position=sign.position)
            )
            left = right
        return parts[0] if len(parts) == 1 else Both(parts=tuple(parts), position=start)

    def key_alone(self, found: Sum, start: int) -> KeyRef:
        """The key before ``in`` or ``is``."""
        sign, part = found[0]
        if len(found) > 1 or sign < 0 or not isinstance(part, (KeyRef, Size)):
            self.refuse(start, f"a key stands before {self.token.said}, and nothing else.")
        return part if isinstance(part, KeyRef) else KeyRef(name="size", position=start)

    def sum(self, message: str) -> Sum:
        parts = [(1, self.part(message))]
        while self.households and self.token.kind in ("+", "-"):
            sign = -1 if self.take().kind == "-" else 1
            parts.append((sign, self.part(f"{_OPERANDS[True]} is expected here")))
        for _, part in parts:
            if len(parts) > 1 and isinstance(part, Literal) and isinstance(part.value, str):
                self.refuse(part.position, "only numbers are added and subtracted, not a text.")
        return tuple(parts)

    def part(self, message: str) -> Part:
        token = self.token
        if self.households and token.kind == "key":
            if self.following.kind == "(" and token.value.lower() in _AGGREGATES:
                return self.aggregate(token.value.lower())
            if token.value == "size":
                self.take()
                return Size(position=token.position)
        return self.operand(message)

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
        self.close(opening)
        self.depth -= 1
        return found

    def missingness(self, key: KeyRef) -> Expression:
        start = self.take().position
        negated = self.token.kind == "not" and bool(self.take())
        self.expect("missing", "missing is expected after is; compare with == or !=.")
        return Missingness(key=key, negated=negated, position=start)

    def membership(self, key: KeyRef) -> Expression:
        start = self.token.position
        negated = self.token.kind == "not" and bool(self.take())
        self.expect("in", "in is expected after not.")
        self.expect("(", 'A list in parentheses is expected after in, such as ("a", "b").')
        levels: list[Literal] = []
        while True:
            value = self.operand("a level is expected here, a number or a text in quotes")
            if isinstance(value, KeyRef):
                self.refuse(value.position, "a level is expected here; put a text in quotes.")
            levels.append(value)
            if self.token.kind == ")":
                self.take()
                return Membership(key=key, levels=tuple(levels), negated=negated, position=start)
            self.expect(",", "a comma or ')' is expected here.")

    def operand(self, message: str) -> KeyRef | Literal:
        start, sign = self.token.position, 1
        if self.token.kind in ("+", "-") and self.following.kind == "number":
            sign = -1 if self.take().kind == "-" else 1
        token = self.token
        if token.kind not in ("key", "number", "text"):
            hint = "; a key of this name stands in backquotes" if token.kind in WORDS else ""
            self.refuse(token.position, f"{message}, not {token.said}{hint}.")
        self.take()
        if token.kind == "key":
            return KeyRef(name=token.value, position=start)
        if token.kind == "text":
            return Literal(value=token.value, position=start)
        number = int(token.value) if token.value.isdigit() else float(token.value)
        return Literal(value=sign * number, position=start)


def names_in(expression: Expression) -> tuple[str, ...]:
    """Names of the keys that an expression is about, each once.

    Examples
    --------
    >>> names_in(parse("AGE < 14 and (SEX == 1 or AGE > 90)"))
    ('AGE', 'SEX')
    """
    match expression:
        case Not():
            return names_in(expression.part)
        case Both() | Either():
            found = [name for part in expression.parts for name in names_in(part)]
        case Comparison():
            parts = [part for _, part in expression.left + expression.right]
            found = [name for part in parts for name in _names_of(part)]
        case Membership() | Missingness():
            found = [expression.key.name]
    return tuple(dict.fromkeys(found))


def _names_of(part: Part) -> tuple[str, ...]:
    match part:
        case KeyRef():
            return (part.name,)
        case Extreme():
            return (part.key.name,)
        case Count():
            return names_in(part.condition)
    return ()
