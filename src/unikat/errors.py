"""Errors meant for the user: one clear message, exit code 1, never a record's values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, get_args

if TYPE_CHECKING:
    from pydantic import BaseModel
    from pydantic.fields import FieldInfo

_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "finite": "a number",
    "bool": "true or false",
    "string": "text",
    "tuple": "a list",
    "path": "the path of a file",
    "dict": "a table",
    "model": "a table",
}
"""What is asked for, by the beginning of the name that pydantic gives to an error."""
_BOUNDS = {"ge": "at least", "gt": "above", "le": "at most", "lt": "below"}
_LONGEST_SHOWN = 40


class UnikatError(Exception):
    """Base of every error with a message for the user (what, where, rule, remedy)."""


class DataError(UnikatError):
    """The file or frame cannot be read as asked, or its keys cannot be used."""


class SpecError(UnikatError):
    """An option or a specification is wrong."""


class OutputError(UnikatError):
    """Results or checkpoints cannot be written or read."""


def suggest(name: str, candidates: Iterable[str]) -> str:
    """Return `` Did you mean 'X'?`` for the nearest candidate, or an empty string."""
    names = list(candidates)
    by_folded = {candidate.casefold(): candidate for candidate in names}
    near = get_close_matches(name.casefold(), by_folded, n=1, cutoff=0.6)
    return f" Did you mean {by_folded[near[0]]!r}?" if near else ""


def all_problems(
    problems: Sequence[Mapping[str, Any]], where: str, specification: type[BaseModel]
) -> str:
    """Tell what is wrong with a specification: each option with its value, rule and a remedy.

    Parameters
    ----------
    problems
        As pydantic lists them.
    where
        What the message calls the specification.
    specification
        Its class.
    """
    lines = []
    for problem in problems:
        location = problem["loc"]
        path = ".".join(str(part) for part in location)
        field, rest = _field(specification, location)
        if problem["type"] == "extra_forbidden":
            known = _names(specification, location)
            lines.append(f"{path}: no such name.{suggest(str(location[-1]), known)}")
        elif field is not None and all(isinstance(part, int) for part in rest):
            lines.append(_broken_rule(path, problem, None if rest else field))
        else:
            # It may be a code that records hold: its value is not told.
            lines.append(_told(path, problem))
    if len(lines) == 1:
        return f"{where} is not valid: {lines[0]}"
    return "\n  ".join([f"{where} is not valid in {len(lines)} places:", *lines])


def _told(path: str, problem: Mapping[str, Any]) -> str:
    lead = f"{path}: " if path else ""
    return f"{lead}{problem['msg'].removeprefix('Value error, ')}."


def _broken_rule(path: str, problem: Mapping[str, Any], field: FieldInfo | None) -> str:
    """Say the option, the value given, the rule and an example, for an option that is one value."""
    given, kind = problem["input"], _KINDS.get(problem["type"].partition("_")[0])
    marks = [] if field is None else field.metadata
    bounds = [
        f"{words} {getattr(mark, name):,}"
        for name, words in _BOUNDS.items()
        for mark in marks
        if hasattr(mark, name)
    ]
    if problem["type"] == "literal_error":
        expected = problem["ctx"]["expected"]
        rule = expected.replace("'", "")
        end = "." + suggest(str(given), re.findall("'([^']*)'", expected))
    elif kind is None and not (bounds and problem["type"].startswith(("greater", "less"))):
        return _told(path, problem)
    else:
        rule = ", ".join(filter(None, [kind, " and ".join(bounds)]))
        default = None if field is None else field.default
        usual = isinstance(default, (int, float)) and not isinstance(default, bool)
        end = f", such as {default}." if usual else "."
    return f"{path} is {shown(given)}; it must be {rule}{end}"


def shown(value: object) -> str:
    """Return the value of an option for a message; a number in a text as a number."""
    if isinstance(value, str) and re.fullmatch(r"-?[0-9.]+(e-?[0-9]+)?", value.strip()):
        return value.strip()
    if not isinstance(value, (str, int, float)):
        return {"dict": "a table", "list": "a list"}.get(type(value).__name__, "something else")
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 1]}…"


def _field(
    specification: type[BaseModel], location: tuple[str | int, ...]
) -> tuple[FieldInfo | None, tuple[str | int, ...]]:
    """Field in which a problem lies, and the rest of the way to it."""
    table, field = specification, None
    for position, part in enumerate(location):
        field = _fields(table).get(str(part))
        if field is None:
            return None, location
        kinds = (field.annotation, *get_args(field.annotation))
        inner = next((kind for kind in kinds if hasattr(kind, "model_fields")), None)
        if inner is None:
            return field, location[position + 1 :]
        table = inner
    return field, ()


def _fields(table: type[BaseModel]) -> dict[str, FieldInfo]:
    return {field.alias or name: field for name, field in table.model_fields.items()}


def _names(specification: type[BaseModel], location: tuple[str | int, ...]) -> list[str]:
    """Names that may stand where one was not known."""
    field = _fields(specification).get(str(location[0])) if len(location) > 1 else None
    table: Any = specification if field is None else field.annotation
    return list(_fields(table if hasattr(table, "model_fields") else specification))
