"""Words of English on a page of another language."""

from __future__ import annotations

import re
from functools import cache
from html import unescape

from unikat.report.text.language import DEFAULT, LANGUAGES, catalogue

FOREIGN = [spoken for spoken in LANGUAGES if spoken != DEFAULT]
OF_DATA = frozenset({
    "age", "sex", "region", "number", "people", "name", "neighbour", "rules", "protected",
    "report", "html", "csv", "data",
})  # fmt: skip
"""Words of the files of tests, and of names of ours."""


def words_of(text: str) -> set[str]:
    """Words of three letters and more."""
    return {word.lower() for word in re.findall(r"[A-Za-zÀ-ÿ]{3,}", text)} - OF_DATA


def shown(page: str) -> str:
    """What a page shows, and what a screen reader says."""
    body = page.partition("</style>")[2]
    labels = re.findall(r'(?:aria-label|title|alt)="([^"]*)"', body)
    return unescape(" ".join([re.sub(r"<[^>]*>", " ", body), *labels]))


@cache
def english(spoken: str) -> set[str]:
    """Words that the English catalogue has, and that of the language has not."""
    return _said(DEFAULT) - _said(spoken)


def _said(spoken: str) -> set[str]:
    found = []
    for words in catalogue(spoken).values():
        for text in words if isinstance(words, list) else [words]:
            # Names of facts are English in every language; words in quotes are not.
            found.append(re.sub(r"\{[{%].*?[%}]\}", lambda one: _quoted(one[0]), text))
    return words_of(" ".join(found))


def _quoted(expression: str) -> str:
    return " ".join(re.findall(r"'([^']*)'", expression))
