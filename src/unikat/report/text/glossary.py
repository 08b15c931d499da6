"""The glossary: terms with their sentences, which the documentation and the workbench show."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from importlib.resources import files
from typing import NamedTuple

_REFERENCE = re.compile(r"\{term\}`([^`<]*?)(?:\s*<([^`>]*)>)?`")
_LINK = re.compile(r"\[([^\]]*)\]\([^)]*\)")
_SIGN = re.compile(r"[*`]")


class Term(NamedTuple):
    """A term."""

    name: str
    text: str
    """Its sentences, without signs of markup."""
    see: tuple[str, ...]
    """Terms that they name."""

    @property
    def anchor(self) -> str:
        """Of the term on a page."""
        return anchor_of(self.name)


def anchor_of(name: str) -> str:
    """Return a name of letters, digits and hyphens for a term.

    Examples
    --------
    >>> anchor_of("τ1"), anchor_of("recode, top-code, suppress")
    ('term-t1', 'term-recode-top-code-suppress')
    """
    plain = unicodedata.normalize("NFKD", name.replace("τ", "t")).lower()
    return "term-" + re.sub(r"[^a-z0-9]+", "-", plain).strip("-")


@cache
def glossary() -> dict[str, Term]:
    """Return the terms by name, in the order of the page.

    Examples
    --------
    >>> glossary()["sample unique"].text
    'A complete record that is the only one in the file with its combination of key values: f = 1.'
    """
    page = files("unikat.report").joinpath("words", "glossary.md").read_text(encoding="utf-8")
    found: dict[str, Term] = {}
    # The block begins and ends with a line of three backticks.
    for part in re.split(r"\n\s*\n", page.partition("\n")[2].rpartition("```")[0]):
        name, _, text = part.strip("\n").partition("\n")
        text = " ".join(text.split())
        see = tuple((target or words).strip() for words, target in _REFERENCE.findall(text))
        plain = _SIGN.sub("", _LINK.sub(r"\1", _REFERENCE.sub(r"\1", text)))
        found[name] = Term(name, plain, see)
    return found
