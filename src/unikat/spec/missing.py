"""Codes that mean missing: of all keys, or by key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from unikat.language.keys import column_of, entry_of, parts_of, split_keys
from unikat.spec.option import Asked, plain

Code: TypeAlias = str | int | float

_NONE = "none"


def missing_codes(value: Any, columns: Sequence[str] = ()) -> Any:
    """Read missing codes: `-1,99` of all keys, `AGE: 999; SEX: 9` by key, or both: `-1; AGE: 999`.

    `AGE: none` is an empty list: no code of AGE means missing, whatever the file says.

    Parameters
    ----------
    value
        A text, or what Python accepts.
    columns
        Which the codes of all keys are for, where some have codes of their own.

    Examples
    --------
    >>> missing_codes("-1,99")
    ['-1', '99']
    >>> missing_codes("-1; AGE: 999,998", ["AGE", "SEX"])
    {'AGE': ['-1', '999', '998'], 'SEX': ['-1']}
    >>> missing_codes("OCCUPATION: none")
    {'OCCUPATION': []}
    """
    if not isinstance(value, str):
        value = plain(value)
        return value if isinstance(value, (dict, list)) else [value]
    shared, by_key = split_codes(value)
    if not by_key:
        return _codes(value)
    common = [code for code in _codes(shared) if code]
    names = dict.fromkeys([*(columns if common else ()), *by_key])
    return {
        name: [] if by_key.get(name) == _NONE else [*common, *_codes(by_key.get(name, ""))]
        for name in names
    }


def split_codes(text: str) -> tuple[str, dict[str, str]]:
    """Split a text of missing codes: those of all keys, and those by key.

    Examples
    --------
    >>> split_codes("-1; AGE: 999,998")
    ('-1', {'AGE': '999,998'})
    """
    # A code may hold a colon: only one with a blank after it follows the name of a key.
    parts = [(part, entry_of(part, r":\s")) for part in parts_of(text)]
    shared = ";".join(part for part, (name, codes) in parts if not (name and codes))
    return shared.strip(), {name: codes for _, (name, codes) in parts if name and codes}


def _codes(text: str) -> list[str]:
    return [code.strip() for code in text.split(",")] if text else []


def _columns(values: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Columns of the keys and the household, which missing codes are for."""
    listed: list[Any] = []
    design = values.get("design")
    # The design of an evaluation is a name.
    design = design if isinstance(design, Mapping) else {}
    for name, before in (("keys", values), ("household", design)):
        said = given.get(name, before.get(name, ()))
        listed += split_keys(said) if isinstance(said, str) else plain(said)
    # A plan has a table for each key.
    listed = [one["key"] if isinstance(one, Mapping) else one for one in listed]
    return list(map(column_of, listed))


def read_missing_values(value: Any, asked: Asked) -> Any:
    """Read the option: codes of all keys beside codes by key are those of each key."""
    return missing_codes(value, _columns(asked.values, asked.given))


def missing_codes_of(given: object, column: str) -> tuple[object, ...]:
    """List the codes of a column, of codes by column or of all columns.

    Examples
    --------
    >>> missing_codes_of({"AGE": -1}, "AGE"), missing_codes_of({"AGE": -1}, "SEX")
    ((-1,), ())
    """
    return listed_codes(given.get(column, ()) if isinstance(given, Mapping) else given)


def listed_codes(codes: object) -> tuple[object, ...]:
    """List codes, of which there may be a single one."""
    if isinstance(codes, str) or not isinstance(codes, (Sequence, set, frozenset)):
        return (codes,)
    return tuple(codes)
