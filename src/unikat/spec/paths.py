"""The paths in a specification: where they stand, found by their type and by no list of names."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

from pydantic import BaseModel

from unikat.errors import SpecError, brief, has_surrogates

Place: TypeAlias = tuple[str, ...]
"""Where a value stands: `("margins", "0", "path")`."""
_FILE = re.compile(r"\s*file\((?P<path>.*)\)\s*", re.DOTALL)


class NamesFiles:
    """Marks a field whose texts may be `file(PATH)`."""


class OfUser:
    """Marks a field that counts only from the user's own command line or call."""


def is_path(value: object) -> TypeGuard[str | os.PathLike[str]]:
    """Whether a value names a file, and is not what stands in one."""
    return isinstance(value, (str, os.PathLike))


def given_path(value: str | os.PathLike[str]) -> str:
    """Return the path of an option, which counts from the working directory."""
    return str(Path(value).expanduser().absolute())


def hierarchy_file(rule: object) -> str | None:
    """Return the file that a recoding names, `file(age.csv)`; None of other recodings.

    Examples
    --------
    >>> hierarchy_file("file(age.csv)"), hierarchy_file("width(5)")
    ('age.csv', None)
    """
    found = _FILE.fullmatch(rule) if isinstance(rule, str) else None
    return (found["path"].strip() or None) if found else None


def with_paths(value: Any, change: Callable[[Path], Path], *, texts: bool = False) -> Any:
    """Return a table, list or mapping in which every path is changed; the rest is as it was.

    Parameters
    ----------
    value
        A specification, or a part of one.
    change
        Given a path, returns another one.
    texts
        Whether a text may be `file(PATH)`; fields that say so themselves are known.

    Examples
    --------
    >>> with_paths({"AGE": ("width(5)", "file(age.csv)")}, lambda path: "in" / path, texts=True)
    {'AGE': ('width(5)', 'file(in/age.csv)')}
    """
    if isinstance(value, Path):
        return change(value)
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        parts = {name: (getattr(value, name), _named_in(field)) for name, field in fields.items()}
    elif isinstance(value, (Mapping, list, tuple)):
        parts = {name: (part, inner) for name, part, inner in _parts(value, texts)}
    else:
        path = hierarchy_file(value) if texts else None
        return value if path is None else f"file({change(Path(path))})"
    new = {name: with_paths(part, change, texts=inner) for name, (part, inner) in parts.items()}
    changed = {name: part for name, part in new.items() if part is not parts[name][0]}
    if not changed:
        return value
    if isinstance(value, BaseModel):
        return value.model_copy(update=changed)
    return new if isinstance(value, Mapping) else type(value)(new.values())


def paths_in(value: Any) -> Iterator[Path]:
    """Yield the paths in a specification, or in a part of one."""
    return (found for _, found in of_user(value) if isinstance(found, Path))


def of_user(value: Any) -> Iterator[tuple[Place, Any]]:
    """Yield paths, and what else only the user may decide, with where it stands."""
    return _values(value, (), texts=False)


def _values(value: Any, at: Place, *, texts: bool) -> Iterator[tuple[Place, Any]]:
    if isinstance(value, BaseModel):
        for name, field in type(value).model_fields.items():
            part, place = getattr(value, name), (*at, field.alias or name)
            if OfUser in field.metadata:
                if part != field.default:
                    yield place, part
            else:
                yield from _values(part, place, texts=_named_in(field))
    elif isinstance(value, (Mapping, list, tuple)):
        for name, part, inner in _parts(value, texts):
            yield from _values(part, (*at, str(name)), texts=inner)
    elif isinstance(value, Path):
        yield at, value
    elif texts and (path := hierarchy_file(value)):
        yield at, Path(path)


def _parts(
    value: Mapping[Any, Any] | list[Any] | tuple[Any, ...], texts: bool
) -> Iterator[tuple[Any, Any, bool]]:
    """Yield name or number, part, and whether a text there may be `file(PATH)`."""
    if isinstance(value, Mapping):
        yield from ((name, part, texts) for name, part in value.items())
    else:
        # A mapping in a list is one of levels, whose names are no files.
        for number, part in enumerate(value):
            yield number, part, texts and not isinstance(part, Mapping)


def _named_in(field: Any) -> bool:
    return NamesFiles in field.metadata


def located_path(path: Path, folder: Path) -> Path:
    """Return an absolute path, a relative one counting from a folder."""
    found = os.path.abspath(folder / path)
    if "\0" in found or has_surrogates(found):
        raise SpecError(
            f"A path holds characters that are no text in UTF-8: {brief(found)!r}. Rename the file "
            "or its folder, or set a locale of UTF-8 (LC_ALL=C.UTF-8)."
        )
    return Path(found)


def relative_path(path: Path, folder: Path) -> Path:
    """Return a path from a folder, unless they share nothing."""
    folder = Path(os.path.abspath(folder))
    try:
        shared = Path(os.path.commonpath([path, folder]))
    except ValueError:
        return path
    return path if shared == Path(shared.anchor) else Path(os.path.relpath(path, folder))


def leads_outside(path: Path, folder: Path) -> bool:
    """Whether a path, or a link in the folder or pattern of files it names, leads elsewhere."""
    while True:
        found = Path(os.path.realpath(path))
        if not found.is_relative_to(folder):
            return True
        if os.path.lexists(path) or not set("*?[") & set(str(path)):
            break
        # A pattern: whatever it may match.
        path = path.parent
    links = (
        Path(root, name)
        for root, folders, files in os.walk(found)
        for name in (*folders, *files)
        if os.path.islink(os.path.join(root, name))
    )
    return any(not Path(os.path.realpath(link)).is_relative_to(folder) for link in links)
