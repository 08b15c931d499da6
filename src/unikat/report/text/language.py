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
from typing import TYPE_CHECKING, Any, Final, NamedTuple, get_args

from unikat.errors import SpecError
from unikat.spec.values import Language

if TYPE_CHECKING:
    from unikat.spec.terms import TermsSpec

DEFAULT: Final = "en"
NAMES: Final = {"en": "English", "es": "Español", "fr": "Français", "de": "Deutsch"}
"""What each language calls itself."""
LANGUAGES: Final[tuple[str, ...]] = get_args(Language)
_CURRENT: ContextVar[str] = ContextVar("language", default=DEFAULT)
_OFFICE: ContextVar[Office | None] = ContextVar("office", default=None)
_QUOTED = re.compile(r"(\{\{.*?\}\}|\{%.*?%\})")
"""What of a template is no text."""
_BEFORE_SIGN = re.compile(r" (?=[%:;?!»](?![=}]))|(?<=«) ")
"""A blank at which a line must not end; none of a template's own `%}` and `!=`."""


class Office(NamedTuple):
    """Words of an office in the language of the moment."""

    source: str
    words: tuple[tuple[str, str], ...]
    """Ours and theirs."""


def office() -> Office | None:
    """Return the words of an office that are said in the place of ours."""
    return _OFFICE.get()


def current() -> str:
    """Return the code of the language in which words are said."""
    return _CURRENT.get()


def check_language(language: str) -> None:
    """Refuse a language without words."""
    if language not in LANGUAGES:
        known = f"{', '.join(LANGUAGES[:-1])} or {LANGUAGES[-1]}"
        raise SpecError(f"language is {language!r}; it must be {known}.")


@contextmanager
def speaking(language: str, terms: TermsSpec | None = None) -> Iterator[None]:
    """Say all words in a language, terms as an office does."""
    check_language(language)
    own = tuple(
        one for of, words in (terms.words.items() if terms else ()) if of == language
        for one in words.items()
    )  # fmt: skip
    token = _CURRENT.set(language)
    of_office = _OFFICE.set(Office(terms.source, own) if terms and own else None)
    try:
        yield
    finally:
        _OFFICE.reset(of_office)
        _CURRENT.reset(token)


def preferred(accepted: str) -> str:
    """Return the language of ours that a browser would rather have, by its `Accept-Language`.

    Examples
    --------
    >>> preferred("fr-CH, fr;q=0.9, en;q=0.8"), preferred("nl, de;q=0.5, en;q=0.7"), preferred("")
    ('fr', 'en', 'en')
    """
    found: list[tuple[float, int, str]] = []
    for part in accepted.split(","):
        tag, _, weight = part.partition(";")
        name = tag.strip().partition("-")[0].lower()
        try:
            share = float(weight.strip().removeprefix("q=") or 1)
        except ValueError:
            continue
        if name in LANGUAGES and share > 0:
            found.append((-share, len(found), name))
    return min(found)[2] if found else DEFAULT


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
    found = own[code] if code in own else catalogue(DEFAULT)[code]
    said = None if language else office()
    return found if said is None else _replaced(found, said.words)


def _replaced(found: Any, words: tuple[tuple[str, str], ...]) -> Any:
    if isinstance(found, list):
        return [_replaced(one, words) for one in found]
    theirs = dict(words)
    by_small = {one.lower(): word for one, word in words}
    ours = re.compile(rf"\b({'|'.join(map(re.escape, theirs))})\b", re.IGNORECASE)

    def word(at: re.Match[str]) -> str:
        new = by_small[at[0].lower()]
        # At the beginning of a sentence; a noun of German has a capital anywhere.
        return f"{new[:1].upper()}{new[1:]}" if at[0][:1].isupper() and at[0] not in theirs else new

    parts = _QUOTED.split(found)
    # Of a tag only the forms of a word that go with a number are text.
    parts[::2] = [ours.sub(word, one) for one in parts[::2]]
    parts[1::2] = [
        re.sub(r"form\([^)]*\)", lambda one: ours.sub(word, one[0]), tag) for tag in parts[1::2]
    ]
    return "".join(parts)


def known(code: str) -> bool:
    """Return whether there are words of this code."""
    return code in catalogue(DEFAULT)
