"""What is wrong with a specification, as pydantic finds it, said for its user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from unikat.errors import brief, shown, suggest

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
_MOST_PROBLEMS = 10
_OF_LEVELS = ("rule", "labels", "codes")
"""Fields of a plan that may be mappings whose names are levels of a key, which records hold."""
_HOLD_LEVELS = (*_OF_LEVELS, "levels", "answers", "made_valid")


def all_problems(
    problems: Sequence[Mapping[str, Any]],
    where: str,
    specification: type[BaseModel],
    spoken: Mapping[str, str] | None = None,
) -> str:
    """Tell what is wrong with a specification: each option with its value, rule and a remedy."""
    lines = []
    for problem in problems[:_MOST_PROBLEMS]:
        location = problem["loc"]
        path = ".".join(_without_levels(location))
        path = brief((spoken or {}).get(path, path))
        field, rest = _field(specification, location)
        if problem["type"] == "extra_forbidden":
            known = _names(specification, location)
            lines.append(f"{path}: no such name.{suggest(str(location[-1]), known)}")
        elif field is not None and all(isinstance(part, int) for part in rest):
            lines.append(_broken_rule(path, problem, None if rest else field))
        else:
            # It may be a code that records hold: its value is not told.
            lines.append(_told(path, problem))
    if len(problems) == 1:
        if where.endswith(".toml") and spoken and path in spoken.values():
            where = "An option"  # and not the file that it goes over
        return f"{where} is not valid: {lines[0]}"
    if len(problems) > len(lines):
        lines.append(f"... and {len(problems) - len(lines):,} more.")
    return "\n  ".join([f"{where} is not valid in {len(problems)} places:", *lines])


def _without_levels(location: Sequence[int | str]) -> Iterator[str]:
    """Yield the parts of a place in a specification up to a mapping whose names are levels."""
    for part in map(str, location):
        if part.startswith("dict["):
            return
        yield part
        if part in _OF_LEVELS:
            return


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
        end = "." + suggest(
            given if isinstance(given, str) else "", re.findall("'([^']*)'", expected)
        )
    elif kind is None and not (bounds and problem["type"].startswith(("greater", "less"))):
        return _told(path, problem)
    else:
        rule = ", ".join(filter(None, [kind, " and ".join(bounds)]))
        default = None if field is None else field.default
        usual = isinstance(default, (int, float)) and not isinstance(default, bool)
        end = f", such as {default}." if usual else "."
    return f"{path} is {shown(given)}; it must be {rule}{end}"


def _field(
    specification: type[BaseModel], location: tuple[str | int, ...]
) -> tuple[FieldInfo | None, tuple[str | int, ...]]:
    """Field in which a problem lies, and the rest of the way to it."""
    table, field = specification, None
    for position, part in enumerate(location):
        if position and isinstance(part, int):
            # One of several tables.
            continue
        field = _fields(table).get(str(part))
        if field is None or part in _HOLD_LEVELS:
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
