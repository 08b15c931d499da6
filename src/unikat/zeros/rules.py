"""The text of a rule, which says what is impossible, into an expression.

::

    rule       = all { "or" all }
    all        = one { "and" one }
    one        = "not" one | "(" rule ")" | comparison
    comparison = KEY [ "not" ] "in" "(" literal { "," literal } ")"
               | KEY "is" [ "not" ] "missing"
               | operand operator operand { operator operand }
    operator   = "==" | "!=" | "<" | "<=" | ">" | ">="
    operand    = KEY | literal

A KEY is a bare name, or any name in backquotes; a literal is a number, or text in single or double
quotes. Names are looked up and levels are matched later (`unikat.zeros.conditions`); every part
of an expression keeps its place in the text, so that an error can point at it.
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
  | (?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?)
  | (?P<text>"[^"\n]*"|'[^'\n]*')
  | (?P<quoted>`[^`\n]*`)
  | (?P<name>[^\W\d]\w*(?:\.\w+)*)
  | (?P<operator>==|!=|<=|>=|<|>)
  | (?P<mark>[(),])
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
OPERAND = "a key, a number or a text in quotes"
_EXAMPLE = 'AGE < 14 and MARST in ("married", "widowed")'


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


Operand: TypeAlias = KeyRef | Literal


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Two operands and ``==``, ``!=``, ``<``, ``<=``, ``>`` or ``>=``; one at least is a key."""

    left: Operand
    operator: str
    right: Operand
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
    """Number of persons of a household; only in the rules of households, as what follows."""

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


@dataclass(frozen=True, kw_only=True)
class SumComparison:
    """Two sums, of parts with sign 1 or -1, and an operator."""

    left: tuple[tuple[int, Part], ...]
    operator: str
    right: tuple[tuple[int, Part], ...]
    position: int


Expression: TypeAlias = Comparison | SumComparison | Membership | Missingness | Not | Both | Either


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


def _tokens(text: str, where: str, pattern: re.Pattern[str]) -> list[_Token]:
    tokens: list[_Token] = []
    position = 0
    while position < len(text):
        match = pattern.match(text, position)
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


def parse(text: str, where: str | None = None) -> Expression:
    """Parse the text of a rule, as the module describes it; messages call it `where`.

    Raises
    ------
    SpecError
        If the text is no rule; the message shows the rule and points at the place.

    Examples
    --------
    >>> parse("AGE < 14").operator
    '<'
    >>> parse("AGE < 14 and")
    Traceback (most recent call last):
    ...
    unikat.errors.SpecError: The rule 'AGE < 14 and': a comparison is expected here, ...
      AGE < 14 and
                  ^
    """
    where = called(text) if where is None else where
    if not text.strip():
        raise SpecError(f"{where} is empty; write what is impossible, such as {_EXAMPLE}.")
    return _Parser(text, where).whole()


class _Parser:
    """Recursive descent over the tokens of one rule."""

    pattern = _TOKEN

    def __init__(self, text: str, where: str) -> None:
        self.text, self.where = text, where
        self.tokens = _tokens(text, where, self.pattern)
        self.place = 0
        self.depth = 0

    @property
    def token(self) -> _Token:
        return self.tokens[self.place]

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
            if self.token.kind != ")":
                self.refuse(opening.position, "this parenthesis is never closed; add ')'.")
            self.take()
        self.depth -= 1
        return inner

    def deeper(self, position: int) -> None:
        self.depth += 1
        if self.depth > DEEPEST:
            self.refuse(
                position,
                f"the rule is nested more than {DEEPEST} deep; write it as several rules.",
            )

    def comparison(self) -> Expression:
        first = self.operand("a comparison is expected here, such as AGE < 14")
        if isinstance(first, KeyRef) and self.token.kind in ("not", "in"):
            return self.membership(first)
        if isinstance(first, KeyRef) and self.token.kind == "is":
            return self.missingness(first)
        if self.token.kind not in OPERATORS:
            if self.token.kind == "in":
                self.refuse(first.position, "a key stands before in, not a level.")
            self.refuse(
                self.token.position,
                f"a comparison (== != < <= > >= in is) is expected here, not {self.token.said}.",
            )
        parts: list[Comparison] = []
        left = first
        while self.token.kind in OPERATORS:
            sign = self.take()
            right = self.operand(f"{OPERAND} is expected here")
            if isinstance(left, Literal) and isinstance(right, Literal):
                self.refuse(
                    left.position,
                    "two values are compared; one of them must be a key, whose name stands "
                    "without quotes (in backquotes if it has blanks).",
                )
            parts.append(
                Comparison(left=left, operator=sign.kind, right=right, position=sign.position)
            )
            left = right
        if len(parts) == 1:
            return parts[0]
        return Both(parts=tuple(parts), position=first.position)

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

    def operand(self, message: str) -> Operand:
        token = self.token
        if token.kind not in ("key", "number", "text"):
            hint = "; a key of this name stands in backquotes" if token.kind in WORDS else ""
            self.refuse(token.position, f"{message}, not {token.said}{hint}.")
        self.take()
        if token.kind == "key":
            return KeyRef(name=token.value, position=token.position)
        if token.kind == "text":
            return Literal(value=token.value, position=token.position)
        number = float(token.value)
        plain = token.value.lstrip("+-").isdigit()
        return Literal(value=int(token.value) if plain else number, position=token.position)


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
            sides = (expression.left, expression.right)
            found = [side.name for side in sides if isinstance(side, KeyRef)]
        case Membership() | Missingness():
            found = [expression.key.name]
    return tuple(dict.fromkeys(found))
