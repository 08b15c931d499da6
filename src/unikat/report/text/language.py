"""The language of the moment, and its words.

The words of a language are the files of `report/words/<language>`. What a language lacks is said in
English.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from importlib.resources import files
from typing import Any, Final, get_args

from unikat.errors import SpecError
from unikat.spec.values import Language

DEFAULT: Final = "en"
LANGUAGES: Final[tuple[str, ...]] = get_args(Language)
_CURRENT: ContextVar[str] = ContextVar("language", default=DEFAULT)
_BEFORE_SIGN = re.compile(r" (?=[%:;?!»](?![=}]))|(?<=«) ")
"""A blank at which a line must not end; none of a template's own `%}` and `!=`."""


def current() -> str:
    """Return the code of the language in which words are said."""
    return _CURRENT.get()


@contextmanager
def speaking(language: str) -> Iterator[None]:
    """Say all words in a language.

    Raises
    ------
    SpecError
        If there are no words in it.
    """
    if language not in LANGUAGES:
        known = f"{', '.join(LANGUAGES[:-1])} or {LANGUAGES[-1]}"
        raise SpecError(f"language is {language!r}; it must be {known}.")
    token = _CURRENT.set(language)
    try:
        yield
    finally:
        _CURRENT.reset(token)


@cache
def catalogue(language: str) -> Mapping[str, Any]:
    """Return the words of a language by code: name of the file, and the names that lead to them.

    Examples
    --------
    >>> catalogue("en")["units.household.many"]
    'households'
    """
    found: dict[str, Any] = {}
    for file in (files("unikat.report") / "words" / language).iterdir():
        if file.name.endswith(".toml"):
            words = tomllib.loads(file.read_text(encoding="utf-8"))
            found |= _flat(words, file.name.removesuffix(".toml"))
    blank = found["numbers.before_sign"]
    return {code: _unbroken(words, blank) for code, words in found.items()}


def _unbroken(words: Any, blank: str) -> Any:
    """Keep a sign on the line of its word: catalogues are written with plain blanks."""
    if isinstance(words, list):
        return [_unbroken(one, blank) for one in words]
    return _BEFORE_SIGN.sub(blank, words)


def _flat(words: Mapping[str, Any], at: str) -> Iterator[tuple[str, Any]]:
    for name, value in words.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{at}.{name}")
        else:
            yield f"{at}.{name}", value


def wording(code: str, language: str | None = None) -> Any:
    """Return what the catalogue has under a code, in the language of the moment by default.

    Raises
    ------
    KeyError
        If no language has it.
    """
    own = catalogue(language or current())
    return own[code] if code in own else catalogue(DEFAULT)[code]


def known(code: str) -> bool:
    """Return whether there are words of this code."""
    return code in catalogue(DEFAULT)
