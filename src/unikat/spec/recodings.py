"""How options of a protection are written: recodings, tables, weights and shares."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from unikat.errors import brief
from unikat.language.keys import entries_of, is_signed, parts_of, split_keys
from unikat.spec.option import Asked
from unikat.spec.paths import given_path, with_paths

LEFT_OUT = "left out"
"""The rule of a key that is left out."""


def recodings_of(value: object) -> object:
    """Read `age: width(5), width(10); region: left out`; also the rules in a mapping by key."""
    if isinstance(value, Mapping):
        return {
            name: split_keys(rules) if isinstance(rules, str) else rules
            for name, rules in value.items()
        }
    if not isinstance(value, str):
        return value
    found = {}
    # A name may hold a colon, a rule has one within parentheses alone.
    for name, rules in entries_of(value, last=True):
        if not name or not rules:
            raise ValueError(
                "name each key and its recodings, as in 'age: width(5), width(10); region: "
                f"{LEFT_OUT}'"
            )
        found[name] = split_keys(rules)
    return found


def one_of_each(value: object) -> object:
    """Read `age: width(10); region: left out`, one recoding for each key; a mapping stays."""
    found = recodings_of(value) if isinstance(value, str) else value
    if not isinstance(value, str) or not isinstance(found, Mapping):
        return found
    for name, rules in found.items():
        if len(rules) != 1:
            raise ValueError(
                f"{brief(name)!r} has {len(rules)} recodings; name one for each key, as in 'age: "
                f"width(10); region: {LEFT_OUT}' (--recodings takes several to choose from)"
            )
    return {name: rules[0] for name, rules in found.items()}


def tables_of(value: object) -> object:
    """Read `age,sex; region,income`; lists stay as they are."""
    if not isinstance(value, str):
        return value
    return [split_keys(part) for part in parts_of(value)]


def shares_of(value: object) -> object:
    """Read `0.25, 50%`; numbers and lists of them stay."""
    if isinstance(value, float | int) and not isinstance(value, bool):
        return (value,)
    if not isinstance(value, str):
        return value
    found = []
    for part in split_keys(value):
        number, percent = part.removesuffix("%"), part.endswith("%")
        try:
            found.append(float(number) / 100.0 if percent else float(number))
        except ValueError:
            raise ValueError(f"{brief(part)!r} is no share; write 0.5 or 50%") from None
    return found


def weights_of(value: object) -> object:
    """Read `age=2,region=0.5`, or `age: 2; region: 0.5` as other options; a mapping stays.

    Examples
    --------
    >>> weights_of("age=2,region=0.5") == weights_of("age: 2; region: 0.5")
    True
    """
    if not isinstance(value, str):
        return value
    at, sign = (",", "=") if is_signed(value, "=") else (";", ":")
    pairs = dict(entries_of(value, at, sign, last=True))
    if not all(pairs):
        raise ValueError("name each key and its weight, as in 'age=2,region=0.5'")
    return pairs


def read_recodings(value: Any, _: Asked) -> Any:
    """Read recodings; a hierarchy is named by its path."""
    return _with_files(recodings_of, value)


def read_recoding(value: Any, _: Asked) -> Any:
    """Read one recoding for each key; a hierarchy is named by its path."""
    return _with_files(one_of_each, value)


def _with_files(read: Callable[[object], object], value: object) -> Any:
    try:
        return with_paths(read(value), lambda path: Path(given_path(path)), texts=True)
    except ValueError:
        # The specification says what is wrong.
        return value
