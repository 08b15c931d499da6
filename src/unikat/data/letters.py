"""Letters of Stata and SAS, such as ``.a``, that say why a number is missing."""

from __future__ import annotations

import sys

_FIRST = 1 << 60
"""Letters that are levels are numbers from here on, beyond all whole numbers of a double."""
_STEP = 1 << 20


def is_letter(code: object) -> bool:
    """Whether a code is such a letter.

    Examples
    --------
    >>> is_letter(".a"), is_letter(".5"), is_letter("a")
    (True, False, False)
    """
    text = str(code)
    return len(text) == 2 and text[0] == "." and not text[1].isdigit()


def letter_number(letter: str) -> int:
    """What a letter is among the numbers of a key: more than any of them."""
    return _FIRST + _STEP * ord(letter[1])


def letter_of(number: object) -> str | None:
    """Return the letter that a number stands for; None of any other value.

    Examples
    --------
    >>> letter_of(letter_number(".a")), letter_of(3), letter_of(10**30)
    ('.a', None, None)
    """
    if isinstance(number, bool) or not isinstance(number, int):
        return None
    letter, rest = divmod(number - _FIRST, _STEP)
    return f".{chr(letter)}" if not rest and 0 <= letter <= sys.maxunicode else None
