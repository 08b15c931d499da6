"""Sentences about single columns: codes declared missing, and columns to remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unikat.data.keys import DeclaredCode
from unikat.errors import brief, option
from unikat.report.text.numbers import some
from unikat.report.text.words import say

_MOST_CODES = 8


class _Key(Protocol):
    @property
    def name(self) -> str:
        """Of the key."""

    @property
    def declared(self) -> tuple[DeclaredCode, ...]:
        """Its codes."""


def declared_words(keys: Sequence[_Key]) -> tuple[str, ...]:
    """Say of each key which codes were taken as missing, and which as levels.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> code = DeclaredCode(code="9", label="refused", n_records=31, is_level=False)
    >>> key = Key(name="EDUCATION", levels=(1, 2), labels=("low", "high"), declared=(code,))
    >>> print(declared_words([key])[0])
    EDUCATION: taken as missing: 9 'refused' (31 records).
    """
    said = []
    most: tuple[int, str] | None = None
    for key in keys:
        for one in key.declared:
            if one.is_level:
                said.append(
                    say(
                        f"declared.{'level_told' if one.told_by else 'level_asked'}",
                        name=key.name,
                        code=_code(one),
                        told_by=some(one.told_by, 5),
                        n=len(one.told_by),
                    )
                )
        missing = [one for one in key.declared if not one.is_level]
        if missing:
            codes = some([_code(one) for one in missing], _MOST_CODES)
            said.append(say("declared.missing", name=key.name, codes=codes))
            counts = [one.n_records for one in missing if one.label is not None]
            if counts and (most is None or max(counts) > most[0]):
                most = max(counts), key.name
    if most is not None:
        # The example is the key in which most depends on it.
        example = option("missing_values", f"{most[1]}: none")
        said.append(say("declared.remedy", option=example))
    return tuple(said)


class _Column(Protocol):
    @property
    def name(self) -> str:
        """Of the column."""

    @property
    def made_valid(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """Its groups of valid levels that join levels which are declared missing."""


def made_valid_words(columns: Sequence[_Column]) -> tuple[str, ...]:
    """Say of which groups the records count as valid, and some were declared missing before."""
    return tuple(
        say(
            "declared.made_valid",
            name=column.name,
            label=repr(brief(label)),
            old=some([repr(brief(one)) for one in old], 5),
        )
        for column in columns
        for label, old in column.made_valid
    )


def copied_words(telling: Sequence[tuple[str, str]], identifying: Sequence[str]) -> tuple[str, ...]:
    """Warn of copied columns: those that tell more of a key, each with the key, and identifiers."""
    return (
        *(say("declared.telling", column=column, key=key) for column, key in telling),
        *(say("declared.identifying", column=column) for column in identifying),
    )


def _code(one: DeclaredCode) -> str:
    label = "" if one.label is None else f" {brief(one.label)!r}"
    return say("declared.code", one=one, label=label)
