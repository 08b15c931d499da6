"""Warnings of lower rooms in the language of the moment.

They are English sentences, and stay so in files and in Python. A page in another language finds the
sentence by the English one in `warnings.toml`, of which it is a filled-in template.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from unikat.report.text.language import DEFAULT, current, known, wording
from unikat.report.text.numbers import localised
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
    if current() == DEFAULT:
        return warning
    for code, pattern in _patterns():
        if (found := pattern.fullmatch(warning)) is not None:
            facts: dict[str, Any] = {name: _fact(text) for name, text in found.groupdict().items()}
            return say(code, **facts)
    return warning


@cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    sentences = [(code, re.escape(wording(code, DEFAULT))) for code in table("warnings.sentence")]
    return [(code, re.compile(_FACT.sub(r"(?P<\1>.+?)", text))) for code, text in sentences]


def _fact(text: str) -> str:
    part = f"warnings.part.{text}"
    if known(part):
        return say(part)
    return localised(text) if _NUMBER.fullmatch(text) else text
