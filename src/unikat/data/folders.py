"""Folders of files: which are read, in which order, and what the names of their folders say.

Files come in the order of their paths, so that a folder has the same rows every time. Folders
named ``key=value`` (as Hive, Spark and Arrow write them) are columns of text.
"""

from __future__ import annotations

import glob
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from unikat.data.formats import format_of
from unikat.data.sources import check_columns
from unikat.errors import DataError, brief, listed, option

if TYPE_CHECKING:
    import pyarrow as pa

TOGETHER = ("parquet", "csv", "tsv", "arrow")
"""Formats of which several files can be read together."""
_NONE = "__HIVE_DEFAULT_PARTITION__"
"""What Hive calls the folder of rows in which the value is missing."""


class Part(NamedTuple):
    """A file of a folder."""

    path: Path
    values: tuple[str | None, ...]
    """Of the columns that the folders' names make."""


class Parts(NamedTuple):
    """The files of a folder, in their order."""

    name: str
    """What it is called in messages."""
    root: Path
    """The folder, of a pattern the part before its first wildcard."""
    kind: str
    columns: tuple[str, ...]
    """That the names of the folders make."""
    parts: tuple[Part, ...]

    @property
    def paths(self) -> list[Path]:
        """Where the files are."""
        return [part.path for part in self.parts]

    def labels(self) -> list[str]:
        """Tell what the files are called in messages: many have the same name."""
        return [brief(str(path.relative_to(self.root))) for path in self.paths]


def find_parts(path: Path, kind: str | None, *, is_folder: bool) -> Parts:
    """Find the files of a folder, or of a pattern.

    Hidden files and folders are left out, and those whose names begin with an underscore
    (``_SUCCESS``, ``_temporary``).
    """
    if is_folder:
        name, root, found = f"The folder {brief(path.name)}", path, sorted(_below(path))
    else:
        name, root = f"The pattern {brief(path.name)}", _fixed(path)
        found = sorted(_matching(path, root))
    chosen, kind = _of_one_format(found, kind, name)
    columns, values = _partitions([file.relative_to(root) for file in chosen], name)
    return Parts(name, root, kind, columns, tuple(map(Part, chosen, values)))


def _below(folder: Path) -> Iterator[Path]:
    def fail(error: OSError) -> None:
        raise DataError(f"{brief(str(folder))} cannot be opened ({error.strerror}).")

    for place, folders, files in os.walk(folder, onerror=fail):
        folders[:] = [name for name in folders if not _hidden(name)]
        for name in folders:
            _check_link(Path(place, name), folder)
        yield from (Path(place, name) for name in files if not _hidden(name))


def _hidden(name: str) -> bool:
    return name.startswith(".") or (name.startswith("_") and "=" not in name)


def _check_link(folder: Path, root: Path) -> None:
    """Refuse a link to a folder: its files may be elsewhere too, or the link lead in a circle."""
    if folder.is_symlink():
        raise DataError(
            f"{brief(str(folder.relative_to(root)))} in {brief(str(root))} is a symbolic link to a "
            "folder, and links to folders are not followed. Put the folder itself there, or remove "
            "the link."
        )


def _matching(path: Path, root: Path) -> Iterator[Path]:
    """Files that fit a pattern; what a folder leaves out is left out."""
    # Two ** find a file several times.
    for match in {Path(one) for one in glob.glob(str(path), recursive=True)}:
        below = match.relative_to(root)
        if not match.is_file() or any(map(_hidden, below.parts)):
            continue
        for folder in below.parents[:-1]:
            _check_link(root / folder, root)
        yield match


def _fixed(path: Path) -> Path:
    """Folder of a pattern from which on names may differ."""
    fixed = []
    for part in path.parts[:-1]:
        if glob.has_magic(part):
            break
        fixed.append(part)
    return Path(*fixed)


def _of_one_format(found: list[Path], kind: str | None, name: str) -> tuple[list[Path], str]:
    formats = {file: format_of(file) for file in found}
    known = Counter(format for format in formats.values() if format is not None)
    if kind is None and len(known) > 1:
        which = listed([f"{n:,} {format}" for format, n in sorted(known.items())], len(known))
        raise DataError(
            f"{name} holds files of several formats: {which}. Name the one to read with "
            f"{option('format', max(known, key=lambda one: known[one]))}, or put the others "
            "elsewhere."
        )
    kind = kind or next(iter(known), None)
    if kind is not None and kind not in TOGETHER:
        raise DataError(
            f"{name} holds files of the format {kind}; several files can be read together only as "
            "Parquet, CSV, TSV or Arrow. Read them one at a time."
        )
    chosen = [file for file in found if formats[file] == kind]
    if not chosen and kind is not None and not known:
        # The names say nothing, and the user has said it.
        chosen = found
    if not chosen or kind is None:
        what = "Parquet, CSV, TSV or Arrow" if kind is None else kind
        raise DataError(
            f"{name} holds no {what} files; check the path. Names that begin with . or _ are left "
            "out."
        )
    return chosen, kind


def _partitions(
    files: Sequence[PurePath], name: str
) -> tuple[tuple[str, ...], list[tuple[str | None, ...]]]:
    """Columns and values that the names of the folders make."""
    columns: tuple[str, ...] | None = None
    values = []
    for file in files:
        pairs = [part.split("=", 1) for part in file.parts[:-1] if part.find("=") > 0]
        try:
            named = [(unquote(key, errors="strict"), value) for key, value in pairs]
            found = tuple(
                None if value in ("", _NONE) else unquote(value, errors="strict")
                for _, value in named
            )
        except UnicodeDecodeError:
            raise DataError(
                f"{name}: the folder of {brief(str(file))} has a name that is not UTF-8 text after "
                "its percent signs are decoded; rename it."
            ) from None
        keys = tuple(key for key, _ in named)
        if columns is None:
            columns = keys
        if keys != columns:
            raise DataError(
                f"{name}: {brief(str(file))} lies in folders of {folder_keys(keys)}, and "
                f"{brief(str(files[0]))} in folders of {folder_keys(columns)}. Every file must "
                "lie in folders of the same names, in the same order."
            )
        values.append(found)
    twice = [key for key, n in Counter(columns or ()).items() if n > 1]
    if twice:
        raise DataError(
            f"{name} has folders of {brief(twice[0])} within folders of the same name; name each "
            "differently."
        )
    return columns or (), values


def folder_keys(keys: Sequence[str]) -> str:
    """Folders of some columns, as messages name them."""
    return listed([f"{brief(key)}=..." for key in keys], 5) if keys else "no key=value"


def check_alike(parts: Parts, columns: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """Columns of all files together; refuse those that differ (DataError)."""
    first, labels = columns[0], parts.labels()
    for label, found in zip(labels, columns, strict=True):
        check_columns(found, label)
        if set(found) == set(first):
            continue
        differs = f"{parts.name}: its files do not all have the same columns."
        if parts.kind in ("csv", "tsv"):
            # The first line of a file without a header is a record, so the names are not told.
            raise DataError(
                f"{differs} {label} has {len(found):,} and {labels[0]} has {len(first):,}; "
                f"{len(set(found) & set(first)):,} of their names are the same. Check that the "
                "first line of every file names the columns. Write all with the same columns, or "
                "read them one at a time."
            )
        lacking = [brief(one) for one in first if one not in found]
        more = [brief(one) for one in found if one not in first]
        said = [f"it lacks {listed(lacking, 3)}"] if lacking else []
        said += [f"it has {listed(more, 3)} besides"] if more else []
        raise DataError(
            f"{differs} {label} differs from {labels[0]}: {' and '.join(said)}. Write all with the "
            "same columns, or read them one at a time."
        )
    both = [name for name in parts.columns if name in first]
    if both:
        raise DataError(
            f"{parts.name}: {brief(both[0])} is a column of the files and also the name of folders "
            f"({brief(both[0])}=...). Rename one of them; their values may differ."
        )
    return check_columns([*first, *parts.columns], parts.name)


def check_types(parts: Parts, schemas: Sequence[pa.Schema]) -> None:
    """Refuse columns that are not of one type in all files (DataError)."""
    labels = parts.labels()
    for label, schema in zip(labels, schemas, strict=True):
        for field in schemas[0]:
            other = schema.field(field.name).type
            if other != field.type:
                raise DataError(
                    f"{parts.name}: the column {brief(field.name)} is {brief(str(other))} in "
                    f"{label} and {brief(str(field.type))} in {labels[0]}; write it with one type "
                    "in all files."
                )
