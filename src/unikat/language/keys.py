"""The little language of keys: lists of them, what is done to each, and names with a value.

::

    list    = item { "," item }                       entries stand between ";"
    key     = NAME [ ":" call ]                       AGE   AGE:width(5)   BIRTH:year
    call    = WORD "(" [ number { "," number } ] ")"  width(5)   cut(0,1000,5000)
            | "day" | "month" | "quarter" | "year"
    entry   = NAME sign value                         age: width(5), width(10)   region = 2

A NAME is that of a column and may hold anything, also a sign, and commas between parentheses. So
what is a column is that column whatever it looks like; else the last colon before a call counts,
and each option says whether the first or the last sign of an entry does. In double quotes any name
can be written, `"a, b": cut(18,65)`, with two of them for one that it holds (`quoted`).
"""

from __future__ import annotations

import re
from collections.abc import Collection
from itertools import pairwise
from math import isfinite
from typing import NamedTuple

BARE = ("day", "month", "quarter", "year")
"""Rules that need no number."""
_CALL = (
    r"\s*(?:(?P<word>\w+)\s*\((?P<arguments>[^()]*)\)"
    rf"|(?P<bare>(?i:{'|'.join(BARE)})))\s*"
)
_KEY = re.compile(rf"(?P<name>.+):{_CALL}", re.DOTALL)
_ONLY_CALL = re.compile(_CALL)
_QUOTED = re.compile(r'"((?:[^"]|"")*)"')
_SIGNS = ",;:=+"
_PLAIN = re.compile(rf"[^\s{_SIGNS}\"()]+(?: +[^\s{_SIGNS}\"()]+)*")


class Call(NamedTuple):
    """A rule of a key, such as ``width(5)``."""

    word: str
    """In small letters."""
    arguments: tuple[str, ...]

    @property
    def numbers(self) -> tuple[float, ...]:
        """The arguments; empty if one of them is no finite number."""
        try:
            numbers = tuple(map(float, self.arguments))
        except ValueError:
            return ()
        return numbers if all(map(isfinite, numbers)) else ()

    def __str__(self) -> str:
        return f"{self.word}({','.join(self.arguments)})" if self.arguments else self.word

    @classmethod
    def of(cls, text: str) -> Call | None:
        """Read a rule; None if the text is none.

        Examples
        --------
        >>> str(Call.of("Cut( 0, 10 )")), str(Call.of("year")), Call.of("left out")
        ('cut(0,10)', 'year', None)
        """
        found = _ONLY_CALL.fullmatch(text)
        return None if found is None else cls._found(found)

    @classmethod
    def _found(cls, found: re.Match[str]) -> Call:
        if found["bare"]:
            return cls(found["bare"].lower(), ())
        arguments = tuple(part.strip() for part in found["arguments"].split(","))
        return cls(found["word"].lower(), arguments)


def key_of(text: str, columns: Collection[str] = ()) -> tuple[str, Call | None]:
    """Return the column that a key names, and its rule.

    Parameters
    ----------
    text
        The key.
    columns
        What is one of these has no rule.

    Examples
    --------
    >>> key_of("AGE: width(5)"), key_of("AGE"), str(key_of("BIRTH:year")[1])
    (('AGE', Call(word='width', arguments=('5',))), ('AGE', None), 'year')
    """
    found = None if text in columns else _KEY.fullmatch(text)
    return (text, None) if found is None else (found["name"].strip(), Call._found(found))


def column_of(text: str) -> str:
    """Return the column that a key names.

    Examples
    --------
    >>> column_of("AGE:width(5)")
    'AGE'
    """
    return key_of(text)[0]


def quoted(name: str) -> str:
    """Write a name so that it is one in every list and before every value.

    Examples
    --------
    >>> quoted("AGE"), quoted("in (EUR)"), quoted("a, b")
    ('AGE', 'in (EUR)', '"a, b"')
    """
    one = _PLAIN.fullmatch(re.sub(r"\(([^()]*)\)", r"\1", name))
    return name if one else '"' + name.replace('"', '""') + '"'


def _unquoted(text: str) -> str:
    found = _QUOTED.fullmatch(text)
    return text if found is None else found[1].replace('""', '"')


def split_keys(text: str, at: str = ",") -> list[str]:
    """Split `A,B:cut(0,10),C` at the commas that are not between parentheses or in quoted names.

    Parameters
    ----------
    text
        The list.
    at
        The character between its items.

    Examples
    --------
    >>> split_keys("A, B:cut(0,10),C"), split_keys("a),b (net,C:cut(0,10)")
    (['A', 'B:cut(0,10)', 'C'], ['a)', 'b (net', 'C:cut(0,10)'])
    >>> split_keys('"a, b", "c, d":width(5)')
    ['a, b', 'c, d:width(5)']
    """
    items = []
    for item in parts_of(text, at):
        found = _QUOTED.match(item)
        rest = "" if found is None else item[found.end() :].lstrip()
        if found is None or rest[:1] not in ("", ":"):
            items.append(item)
        else:
            items.append(f"{_unquoted(found[0])}{rest}")
    return items


def parts_of(text: str, at: str = ";") -> list[str]:
    """Split a text as `split_keys` does, its parts as they stand: lists, or names with a value."""
    places = [(-1, 0), *_places(text, re.escape(at)), (len(text), 0)]
    items = [text[end:start].strip() for (_, end), (start, _) in pairwise(places)]
    return [item for item in items if item]


def entry_of(text: str, sign: str = ":", *, last: bool = False) -> tuple[str, str]:
    """Split an entry into name and value; the name is empty where there is no sign.

    Parameters
    ----------
    text
        The entry.
    sign
        What stands between the two, a regular expression; not between parentheses.
    last
        Whether the last sign counts, so that the name may hold others; else the first one does.

    Examples
    --------
    >>> entry_of("a:b: width(5)", last=True), entry_of("head: REL == 1"), entry_of("AGE")
    (('a:b', 'width(5)'), ('head', 'REL == 1'), ('', 'AGE'))
    """
    places = _places(text, sign)
    if not places:
        return "", text.strip()
    start, end = places[-1 if last else 0]
    return _unquoted(text[:start].strip()), text[end:].strip()


def _places(text: str, sign: str) -> list[tuple[int, int]]:
    """Where a sign begins and ends that is not between parentheses or in a quoted name.

    A parenthesis without its other half, as in the name of a column, is a character like others;
    so is a quotation mark that does not begin and end a name.
    """
    places: list[tuple[int, int]] = []
    opened: list[int] = []
    pattern, at = re.compile(f'["()]|{sign}'), 0
    while found := pattern.search(text, at):
        at = max(found.end(), at + 1)
        if found[0] == '"':
            at = _end_of_name(text, found.start()) or at
        elif found[0] == "(":
            opened.append(len(places))
        elif found[0] != ")":
            places.append(found.span())
        elif opened:
            del places[opened.pop() :]
    return places


def _end_of_name(text: str, start: int) -> int | None:
    """Where a name ends whose quotation mark is at a place; None if none begins there."""
    before = start - 1
    while before >= 0 and text[before].isspace():
        before -= 1
    if before >= 0 and text[before] not in _SIGNS:
        return None
    found = _QUOTED.match(text, start)
    if found is None:
        return None
    after = found.end()
    while after < len(text) and text[after].isspace():
        after += 1
    return found.end() if after == len(text) or text[after] in _SIGNS else None


def is_signed(text: str, sign: str) -> bool:
    """Whether a sign stands in a text, outside of parentheses and quoted names."""
    return bool(_places(text, sign))


def entries_of(
    text: str, at: str = ";", sign: str = ":", *, last: bool = False
) -> list[tuple[str, str]]:
    """Split a text into its entries, and each into name and value (see `entry_of`).

    Examples
    --------
    >>> entries_of("head: REL == 1; spouse: REL == 2")
    [('head', 'REL == 1'), ('spouse', 'REL == 2')]
    """
    return [entry_of(part, sign, last=last) for part in parts_of(text, at)]
