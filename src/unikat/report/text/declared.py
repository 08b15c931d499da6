"""Sentences about single columns: codes declared missing, and columns to remove."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from unikat.data.keys import DeclaredCode
from unikat.errors import brief, listed, option
from unikat.report.text.numbers import counted

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
                why = (
                    f"{listed(list(one.told_by))} "
                    f"{'tells' if len(one.told_by) == 1 else 'tell'} who has it"
                    if one.told_by
                    else "as you say"
                )
                said.append(f"{key.name}: taken as a level, not as missing: {_code(one)}; {why}.")
        missing = [one for one in key.declared if not one.is_level]
        if missing:
            codes = listed([_code(one) for one in missing], _MOST_CODES)
            said.append(f"{key.name}: taken as missing: {codes}.")
            counts = [one.n_records for one in missing if one.label is not None]
            if counts and (most is None or max(counts) > most[0]):
                most = max(counts), key.name
    if most is not None:
        # The example is the key in which most depends on it.
        said.append(
            "If such a code is an answer, as 'not applicable' is, take it as a level: "
            f"{option('missing_values', f'{most[1]}: none')}, or list it under levels in a "
            "codebook."
        )
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
        f"{column.name}: the group {brief(label)!r} joins valid levels with "
        f"{listed([repr(brief(one)) for one in old])}, declared missing. It is a valid code in the "
        "protected file: statistics count its records. Put declared codes into a group of their "
        "own to keep them declared missing."
        for column in columns
        for label, old in column.made_valid
    )


def copied_words(telling: Sequence[tuple[str, str]], identifying: Sequence[str]) -> tuple[str, ...]:
    """Warn of copied columns: those that tell more of a key, each with the key, and identifiers."""
    return (
        *(
            f"The column {column} tells more of {key} than the protected key shows. Remove the "
            "column, or take it as a key."
            for column, key in telling
        ),
        *(
            f"The column {column} is that of the original and has a value of its own for nearly "
            "every record. Remove it before the release, or give it new or rounded values."
            for column in identifying
        ),
    )


def _code(one: DeclaredCode) -> str:
    label = "" if one.label is None else f" {brief(one.label)!r}"
    return f"{one.code}{label} ({counted(one.n_records, 'record')})"
