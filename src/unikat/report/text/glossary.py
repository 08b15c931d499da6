"""The glossary: terms with their sentences, which the documentation and the workbench show."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import NamedTuple

from unikat.report.text.language import current

_REFERENCE = re.compile(r"\{term\}`([^`<]*?)(?:\s*<([^`>]*)>)?`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SIGN = re.compile(r"[*`]")


class Term(NamedTuple):
    """A term."""

    key: str
    """Its English name, by which pages and other terms ask for it."""
    name: str
    text: str
    """Its sentences, without signs of markup."""
    see: tuple[str, ...]
    """Terms that they name, by their English names."""

    @property
    def anchor(self) -> str:
        """Of the term on a page."""
        return anchor_of(self.key)


def anchor_of(name: str) -> str:
    """Return a name of letters, digits and hyphens for a term.

    Examples
    --------
    >>> anchor_of("τ1"), anchor_of("recode, top-code, suppress")
    ('term-t1', 'term-recode-top-code-suppress')
    """
    plain = unicodedata.normalize("NFKD", name.replace("τ", "t")).lower()
    return "term-" + re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


def glossary() -> dict[str, Term]:
    """Return the terms of the language of the moment by English name, in the order of the page.

    Examples
    --------
    >>> glossary()["sample unique"].text
    'A complete record that is the only one in the file with its combination of key values: f = 1.'
    """
    return _glossary(current())


@cache
def _glossary(spoken: str) -> dict[str, Term]:
    page = files("unikat.report").joinpath("words", spoken, "glossary.md")
    found: dict[str, Term] = {}
    # The block begins and ends with a line of three backticks.
    for part in re.split(
        r"\n\s*\n", page.read_text(encoding="utf-8").partition("\n")[2].rpartition("```")[0]
    ):
        title, _, text = part.strip("\n").partition("\n")
        # Other languages have the English name behind theirs.
        name, _, key = title.partition(" | ")
        text = " ".join(text.split())
        see = tuple((target or words).strip() for words, target in _REFERENCE.findall(text))
        plain = _SIGN.sub("", _LINK.sub(r"\1", _REFERENCE.sub(r"\1", text)))
        found[key or name] = Term(key or name, name, plain, see)
    return found
