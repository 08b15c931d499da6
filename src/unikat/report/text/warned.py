"""Warnings of lower rooms in the language of the moment.

They are English sentences, and stay so in files and in Python. A page in another language finds the
sentence by the English one in `warnings.toml`, of which it is a filled-in template.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from unikat.report.text.language import DEFAULT, current, known, wording
from unikat.report.text.numbers import listed, localised
from unikat.report.text.words import say, table

_FACT = re.compile(r"\\\{\\\{\\ (\w+)\\ \\\}\\\}")
_NUMBER = re.compile(r"\d[\d,]*(\.\d+)?")


def warned(warning: str) -> str:
    """Say a warning; one that the catalogue does not know stays English.

    Examples
    --------
    >>> warned("The population is too large for exact counts; they are rounded.")
    'The population is too large for exact counts; they are rounded.'
    """
    return (current() != DEFAULT and _found_again(warning, "sentence")) or warning


def _found_again(said: str, kind: str) -> str:
    """Say what an English sentence or a piece of one says; nothing if it is not known."""
    for code, pattern in _patterns(kind):
        if (found := pattern.fullmatch(said)) is not None:
            facts: dict[str, Any] = {name: _fact(text) for name, text in found.groupdict().items()}
            return say(code, **facts)
    return ""


@cache
def _patterns(kind: str) -> list[tuple[str, re.Pattern[str]]]:
    english = {code: re.escape(wording(code, DEFAULT)) for code in table(f"warnings.{kind}")}
    return [(code, re.compile(_FACT.sub(r"(?P<\1>.+?)", text))) for code, text in english.items()]


def _fact(text: str) -> str:
    part = f"warnings.part.{text}"
    if known(part):
        return say(part)
    if _NUMBER.fullmatch(text):
        return localised(text)
    pieces = [_found_again(piece, "piece") for piece in text.split(" and ")]
    return listed(pieces) if all(pieces) else text
