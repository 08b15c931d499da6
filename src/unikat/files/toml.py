"""TOML: reading it, and writing nested values so that they are read back the same."""

from __future__ import annotations

import errno
import os
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

import tomli_w

from unikat.errors import SpecError, brief, has_surrogates

LONGEST = 100_000_000
"""Bytes of a file that says something of the data, at most."""


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file."""
    return toml_of(read_bytes(path, pipes=True), os.fspath(path))


def file_bytes(path: str | os.PathLike[str], most: int = LONGEST, *, pipes: bool = False) -> bytes:
    """Read a file whole; OSError if it is no file, or has more than `most` bytes.

    Pipes, which the user has named himself, are waited for with `pipes`.
    """
    if not pipes and os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)):
        raise OSError(errno.EINVAL, "it is no file")
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        # A device may never end.
        raise OSError(errno.EFBIG, f"it has more than {most:,} bytes")
    return content


def read_bytes(path: str | os.PathLike[str], most: int = LONGEST, *, pipes: bool = False) -> bytes:
    """Read a file whole, as `file_bytes`; SpecError if it cannot be read."""
    try:
        return file_bytes(path, most, pipes=pipes)
    except (OSError, ValueError) as error:
        raise SpecError(f"Cannot read {brief(os.fspath(path))}: {why_not_read(error)}.") from None


def toml_of(content: bytes, name: str) -> dict[str, Any]:
    """Read the content of a TOML file; SpecError, with the file's name, if it is none."""
    try:
        # Editors on Windows put a mark before the text.
        return parse_toml(content.decode("utf-8-sig"))
    except UnicodeDecodeError:
        why = "it is not UTF-8 text. Save it as UTF-8"
    except ValueError as error:
        why = str(error)
    raise SpecError(f"{brief(name)} is not a TOML file: {why}.")


def packaged_toml(package: str, name: str) -> dict[str, Any]:
    """Read a TOML file that lies with the modules of a package."""
    return tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))


def why_not_read(error: OSError | ValueError) -> str:
    """Say why a file cannot be opened, in the system's words."""
    if isinstance(error, OSError):
        return error.strerror or "the system does not say why"
    return "its name holds a character that no name of a file can have"


def parse_toml(text: str) -> dict[str, Any]:
    """Read TOML, whatever it holds.

    Raises
    ------
    ValueError
        If it is none, is nested too deeply, or has a whole number of more than 64 bits, which the
        format does not have. The message is no sentence and has no period.
    """
    try:
        values = tomllib.loads(text)
        _check_numbers(values)
        return values
    except tomllib.TOMLDecodeError as error:
        # The position is named by the parser; the line itself is not repeated.
        raise ValueError(brief(str(error))) from None
    except RecursionError:
        raise ValueError("its lists or tables are nested too deeply") from None
    except ValueError:
        raise ValueError(
            "it has a whole number of more than 64 bits; numbers go up to about 9.2e18"
        ) from None


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
        return parse_toml(f"value = {text}")["value"]
    except ValueError:
        return text


def _check_numbers(value: Any) -> None:
    """Refuse whole numbers of more than 64 bits, anywhere in a value."""
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        raise ValueError
    if isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            _check_numbers(item)


def write_toml(values: Mapping[str, Any]) -> str:
    """Write nested tables, lists and scalars as TOML; `tomllib` reads back the same values.

    Parameters
    ----------
    values
        Strings, booleans, numbers, dates, lists and mappings with text keys. None is not TOML.
    """
    try:
        text = tomli_w.dumps(values)
    except TypeError:
        raise SpecError("A value of this type cannot be written as TOML.") from None
    if has_surrogates(text):
        raise SpecError("A text with a lone surrogate cannot be written as TOML; rename it.")
    return text


def toml_literal(value: str | float) -> str:
    """Write a text, a number or a truth value as TOML does.

    Examples
    --------
    >>> toml_literal("0.5"), toml_literal(0.5)
    ('"0.5"', '0.5')
    """
    return write_toml({"x": value}).removeprefix("x = ").rstrip("\n")
