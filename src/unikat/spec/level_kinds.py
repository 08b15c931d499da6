"""The grammar of kinds of levels, `EDU: ordered; ISCO: isco08`, of groups, dates, and levels apart.

::

    levels = NAME ":" kind { ";" NAME ":" kind }
    groups = NAME ":" file { ";" NAME ":" file }
    dates  = NAME ":" form { ";" NAME ":" form }      (`unikat.language.dates`)
    kind   = "nominal" | "ordered" | "numeric" | "age" | SYSTEM | "prefix(" n { "," n } ")" | file
    file   = "file(" PATH ")"
    apart  = NAME ":" LEVEL "," LEVEL { "," LEVEL } { ";" ... }
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import isnan
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator

from unikat.errors import listed, shown, suggest
from unikat.language.dates import FORMS as FORMS_OF_DATES
from unikat.language.dates import DateForm
from unikat.language.keys import Call, entries_of, split_keys
from unikat.spec.option import Asked, Option, plain
from unikat.spec.paths import NamesFiles, given_path, hierarchy_file, with_paths

PLAIN = ("nominal", "ordered", "numeric", "age")
"""Kinds that need no list: any order, neighbours, numbers, years of age."""
SYSTEMS = {
    "isco08": "occupations, ISCO-08",
    "isced2011": "education, ISCED 2011",
    "nace2": "industries, NACE Rev. 2",
    "isic4": "industries, ISIC Rev. 4",
    "icd10": "diseases, ICD-10",
    "nuts2024": "regions, NUTS 2024",
    "iso3166": "countries, ISO 3166",
    "soc2018": "occupations, US SOC 2018",
    "us_states": "states of the US",
}
"""Code systems of the package, `data/trees`, and what they are of."""
FORMS = (
    f"nominal, ordered, numeric, age, a code system ({', '.join(SYSTEMS)}), prefix(1,2) for codes "
    "that begin with their group, or file(tree.csv)"
)


_CALLED_ELSE = {"ordinal": "ordered", "scale": "numeric", "continuous": "numeric"}
"""Words of other programs."""


def checked_kind(kind: object) -> str:
    """Return a kind as it is written.

    Raises
    ------
    ValueError
        If it is none.
    """
    text = kind.strip() if isinstance(kind, str) else ""
    text = _CALLED_ELSE.get(text.lower(), text)
    if text.lower() in PLAIN or text.lower() in SYSTEMS:
        return text.lower()
    if hierarchy_file(text) is not None or prefixes(text):
        return text
    near = suggest(text, [*PLAIN, *SYSTEMS])
    raise ValueError(f"{shown(kind)} is no kind of levels; write {FORMS}.{near}".rstrip("."))


def prefixes(kind: str) -> tuple[int, ...]:
    """Return the lengths of `prefix(1,2)`, in rising order; none of other kinds.

    Examples
    --------
    >>> prefixes("prefix(3,1)"), prefixes("ordered")
    ((1, 3), ())
    """
    call = Call.of(kind)
    if call is None or call.word != "prefix":
        return ()
    numbers = call.numbers
    if not numbers or not all(number.is_integer() and 1 <= number <= 100 for number in numbers):
        return ()
    return tuple(sorted({int(number) for number in numbers}))


def _by_key(
    value: object,
    what: str = "the kind of its levels",
    example: str = "EDU: ordered; ISCO: isco08",
) -> object:
    """Read `EDU: ordered; ISCO: isco08`; a mapping stays."""
    if not isinstance(value, str):
        return value
    entries = entries_of(value, last=True)
    found = dict(entries)
    if not found or len(found) < len(entries) or not all(name and one for name, one in entries):
        raise ValueError(f"name each key and {what}, each key once, as in '{example}'")
    return found


def _checked(levels: dict[str, str]) -> dict[str, str]:
    return {name: checked_kind(kind) for name, kind in levels.items()}


def _read(value: Any, _: Asked) -> Any:
    try:
        return with_paths(_by_key(plain(value)), lambda path: Path(given_path(path)), texts=True)
    except ValueError:
        # The specification says what is wrong.
        return value


LevelKinds = Annotated[
    dict[str, str],
    BeforeValidator(_by_key),
    AfterValidator(_checked),
    NamesFiles,
    Option(
        "TEXT",
        "Kinds of the levels of some keys, where the file does not tell: 'EDU: ordered; ISCO: "
        f"isco08; REGION: nominal'. A kind is {FORMS}. Recodings of protect follow it.",
        "found from the file",
        accepts="str | Mapping[str, str]",
        read=_read,
        form="key",
    ),
]
"""Kind of the levels, by key."""


def _groups_by_key(value: object) -> object:
    """Read `REGION: file(region-groups.csv)`; in a mapping a path stands for a file."""
    if not isinstance(value, str):
        value = plain(value)
        if not isinstance(value, Mapping):
            return value
        return {
            name: f"file({one})" if isinstance(one, os.PathLike) else one
            for name, one in value.items()
        }
    entries = entries_of(value, last=True)
    found = dict(entries)
    if not found or len(found) < len(entries) or not all(found):
        raise ValueError(_OF_GROUPS)
    return found


def named_groups(groups: Mapping[Any, Any]) -> dict[str, str]:
    """Write levels and their groups as texts; what is missing has no name.

    Examples
    --------
    >>> named_groups({1: "north", 2: None, 3: float("nan")})
    {'1': 'north', '2': '', '3': ''}
    """
    return {str(level): "" if _is_missing(group) else str(group) for level, group in groups.items()}


def _is_missing(group: object) -> bool:
    nothing = type(group).__name__ in ("NoneType", "NAType", "NaTType")
    return nothing or (isinstance(group, float) and isnan(group))


def _checked_groups(groups: dict[str, Any]) -> dict[str, Any]:
    for one in groups.values():
        if not isinstance(one, Mapping) and hierarchy_file(one) is None:
            raise ValueError(_OF_GROUPS)
    return {
        name: named_groups(one) if isinstance(one, Mapping) else one.strip()
        for name, one in groups.items()
    }


def _read_groups(value: Any, _: Asked) -> Any:
    try:
        found = _groups_by_key(value)
        return with_paths(found, lambda path: Path(given_path(path)), texts=True)
    except ValueError:
        # The specification says what is wrong.
        return value


_OF_GROUPS = (
    "name each key once, and the file of its groups, which has a level and its group in each row, "
    "as in 'REGION: file(region-groups.csv)'; in Python also a mapping of levels to groups"
)
LevelGroups = Annotated[
    dict[str, Any],
    BeforeValidator(_groups_by_key),
    AfterValidator(_checked_groups),
    NamesFiles,
    Option(
        "TEXT",
        "Groups of levels in which some keys are read, as if the file had them: 'REGION: "
        "file(region-groups.csv)', with a level and its group in each row. In Python also a "
        "mapping of levels to groups.",
        "levels as the file has them",
        accepts="str | Mapping[str, Any]",
        read=_read_groups,
        form="key",
    ),
]
"""Groups that were made by hand, by key: a file, or a mapping of levels."""


def _dates(value: object) -> object:
    return _by_key(value, "the form of its dates", "BIRTH: DD/MM/YYYY; VISIT: YYYY-MM-DD")


Dates = Annotated[
    dict[str, str],
    BeforeValidator(_dates),
    AfterValidator(lambda dates: {name: str(DateForm.of(form)) for name, form in dates.items()}),
    Option(
        "TEXT",
        "Form of the dates of some keys, where several are possible: 'BIRTH: DD/MM/YYYY; VISIT: "
        f"DD.MM.YY to 2026'. A form is {FORMS_OF_DATES}.",
        "the only form that all values have",
        accepts="str | Mapping[str, str]",
        form="key",
    ),
]
"""Form of the dates, by key."""


def _sets(value: object) -> object:
    """Read `STATUS: unemployed, employed; EDU: 1, 5`; a mapping stays."""
    if isinstance(value, Mapping):
        return {
            name: split_keys(levels) if isinstance(levels, str) else [str(one) for one in levels]
            for name, levels in value.items()
        }
    if not isinstance(value, str):
        return value
    return {name: split_keys(levels) for name, levels in entries_of(value)}


def _several(apart: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    for name, levels in apart.items():
        if not name or len(set(levels)) < 2:
            raise ValueError(
                f"levels that stay apart are two or more of a key, and {shown(name or 'a key')} "
                f"has {listed(list(levels)) or 'none'}; write 'STATUS: unemployed, employed'"
            )
    return apart


Apart = Annotated[
    dict[str, tuple[str, ...]],
    BeforeValidator(_sets),
    AfterValidator(_several),
    Option(
        "TEXT",
        "Levels that no recoding joins with each other: 'STATUS: unemployed, employed; EDU: 1, 5', "
        "by value or label. Their key is not left out.",
        "any may be joined",
        accepts="str | Mapping[str, Sequence[Any]]",
        form="key",
    ),
]
"""Levels that are never joined with each other, by key."""
