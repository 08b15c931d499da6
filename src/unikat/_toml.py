"""TOML: reading it, and writing nested values so that they are read back the same."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from datetime import date, datetime, time
from math import isfinite
from typing import Any

from unikat.errors import SpecError


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    SpecError
        If it cannot be read or is not TOML.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SpecError(f"Cannot read {os.fspath(path)}: {error.strerror or error}.") from None
    except UnicodeDecodeError:
        raise SpecError(
            f"{os.fspath(path)} is not a TOML file: it is not UTF-8 text. Save it as UTF-8."
        ) from None
    except tomllib.TOMLDecodeError as error:
        # The position is named by the parser; the line itself is not repeated.
        raise SpecError(f"{os.fspath(path)} is not a TOML file: {error}.") from None


def toml_value(text: str) -> Any:
    """Read one value as TOML would, or else take it as a string.

    Examples
    --------
    >>> toml_value("0.5"), toml_value("true"), toml_value("shared")
    (0.5, True, 'shared')
    """
    if "\n" in text:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def write_toml(values: Mapping[str, Any]) -> str:
    """Write nested tables, lists and scalars as TOML; `tomllib` reads back the same values.

    Parameters
    ----------
    values
        Strings, booleans, numbers, dates, lists and mappings with text keys. None is not TOML.

    Raises
    ------
    SpecError
        If a value has no form in TOML.
    """
    return "".join(_lines(values, ()))


def _lines(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    lines = [f"{_name(name)} = {toml_literal(value)}\n" for name, value in plain.items()]
    if path and (plain or not values):
        lines.insert(0, f"\n[{'.'.join(map(_name, path))}]\n")
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += _lines(value, (*path, name))
    return lines


def _name(name: str) -> str:
    bare = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if bare else _text(name)


_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def _text(value: str) -> str:
    if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise SpecError("A text with a lone surrogate cannot be written as TOML; rename it.")
    out = [
        _ESCAPES.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c)
        for c in value
    ]
    return '"' + "".join(out) + '"'


def toml_literal(value: Any) -> str:
    """Write one value as TOML, on one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_name(name)} = {toml_literal(item)}" for name, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(toml_literal, value)) + "]"
    raise SpecError(f"A value of type {type(value).__name__} cannot be written as TOML.")
