"""What was taken as missing of the codes that a file, a codebook or the user declares so."""

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
    labelled, letters = [], []
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
            known = [one for one in missing if one.label is not None]
            labelled += [key.name] if any(not one.is_letter for one in known) else []
            letters += [(key.name, one.code) for one in known if one.is_letter]
    if labelled:
        said.append(
            "If such a code is an answer, as 'not applicable' is, take it as a level: "
            f"{option('missing_values', f'{labelled[0]}: none')}, or list it under levels in a "
            "codebook."
        )
    if letters:
        name, code = letters[0]
        said.append(
            "Letters such as .a are always taken as missing. If one is an answer, as 'not "
            "applicable' is, give it a number and a label in the program that wrote the file; in "
            f"Stata: mvencode {name}, mv({code}=-9)."
        )
    return tuple(said)


def _code(one: DeclaredCode) -> str:
    label = "" if one.label is None else f" {brief(one.label)!r}"
    return f"{one.code}{label} ({counted(one.n_records, 'record')})"
