"""The folder that the workbench was opened for: nothing outside of it is shown or read."""

from __future__ import annotations

import contextlib
import glob
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Literal

from unikat.errors import UnikatError, brief
from unikat.files.toml import why_not_read
from unikat.web.kinds import kind_at

MOST_ENTRIES = 2_000
"""Of a folder that are listed."""
SEVERAL = (".csv", ".tsv", ".txt", ".parquet", ".pq", ".arrow", ".feather", ".ipc")
"""Endings of files that can be parts of one."""
DEEPEST, MOST_FOLDERS = 4, 2_000
"""How deep runs are looked for, and in how many folders."""


class NotInFolderError(UnikatError):
    """A path leads to nothing in the folder of the workbench."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A file of data, a folder, or the folder of a run."""

    name: str
    path: str
    """From the folder of the workbench, with slashes."""
    kind: Literal["folder", "run", "file"]
    size: int
    """In bytes; 0 of a folder."""


@dataclass(frozen=True)
class Folder:
    """The folder of the workbench."""

    root: Path

    @classmethod
    def of(cls, path: Path) -> Folder:
        """Open a folder.

        Raises
        ------
        NotInFolderError
            If it is none.
        """
        root = Path(os.path.realpath(path.expanduser()))
        if not root.is_dir():
            raise NotInFolderError(f"{path} is not a folder; name the one that holds your files.")
        return cls(root)

    def resolve(self, path: str) -> Path:
        """Return a file or folder by its path from here.

        Raises
        ------
        NotInFolderError
            If there is none, or the path leads outside, also by a symbolic link, or is that of a
            run some of whose files do.
        """
        found = self.place(path)
        if not found.exists():
            raise NotInFolderError(f"There is no {brief(path)!r} in the folder of the workbench.")
        if is_run(found) and (name := self._strange(found)):
            raise NotInFolderError(
                f"{brief(path)!r} holds {brief(name)!r}, which is no file of the folder of the "
                "workbench: a link that leads outside, or neither a file nor a folder. unikat did "
                "not make it. If the folder is yours, delete it."
            )
        return found

    def _strange(self, run: Path) -> str:
        """Name of what lies in the folder of a run, however deep, and leads away; empty if none."""
        for folder, *names in os.walk(run):
            for path in (os.path.join(folder, name) for kind in names for name in kind):
                there = Path(os.path.realpath(path))
                inside = there.is_relative_to(self.root)
                ordinary = inside and (there.is_file() or there.is_dir())
                # What a run writes is renamed once it is whole: it may be gone by now.
                if not ordinary and os.path.lexists(path):
                    return os.path.relpath(path, run)
        return ""

    def place(self, path: str) -> Path:
        """Return where a path leads, whether something is there or not.

        Raises
        ------
        NotInFolderError
            If that is outside of the folder.
        """
        wanted = PurePosixPath(path)
        outside = wanted.is_absolute() or ".." in wanted.parts or "\\" in path or "\0" in path
        try:
            found = self.root if outside else Path(os.path.realpath(self.root / wanted))
            found.exists()
        except (OSError, ValueError) as error:
            # Names that are too long, or no text.
            raise NotInFolderError(
                f"{brief(path)!r} is no path of a file or folder ({why_not_read(error)})."
            ) from None
        if outside or not found.is_relative_to(self.root):
            raise NotInFolderError(
                f"{brief(path)!r} is not in the folder of the workbench. Start the workbench with "
                "the folder that holds it."
            )
        return found

    def source(self, path: str) -> Path:
        """Return a file of data, or a folder or pattern of several.

        Raises
        ------
        NotInFolderError
            If there is none in here, or a file of it lies elsewhere.
        """
        from unikat.data.folders import find_parts
        from unikat.errors import DataError

        several = glob.has_magic(path)
        found = self.place(path) if several else self.resolve(path)
        if found.is_file():
            return found
        if not several and (not path or not found.is_dir() or is_run(found)):
            raise NotInFolderError("No file of data is chosen; choose one first.")
        try:
            parts = find_parts(found, None, is_folder=not several)
        except DataError as error:
            raise NotInFolderError(str(error)) from None
        for part in parts.paths:
            if not Path(os.path.realpath(part)).is_relative_to(self.root):
                raise NotInFolderError(
                    f"{brief(path)!r} holds a link that leads outside of the folder of the "
                    "workbench. Start the workbench with the folder that holds its files."
                )
        return found

    def parts(self, path: str) -> tuple[tuple[str, str, int], ...]:
        """Tell which files of a folder can be read as one: path, format and number of files."""
        found: dict[str, int] = {}
        folders = []
        for one in self.entries(path):
            if one.kind == "file":
                ending = PurePosixPath(one.name).suffix
                found[ending] = found.get(ending, 0) + (ending.lower() in SEVERAL)
            elif one.kind == "folder":
                folders.append(one.name)
        if path and not found and any("=" in name for name in folders):
            # Partitions, as Spark and Arrow write them.
            return ((path, "", len(folders)),)
        return tuple(
            ((PurePosixPath(path) / f"*{ending}").as_posix(), ending[1:], n)
            for ending, n in found.items()
            if n > 1
        )

    def relative(self, path: Path) -> str:
        """Return the path of something in the folder, with slashes; empty for the folder itself.

        Raises
        ------
        NotInFolderError
            If it is not in here.
        """
        if not path.is_relative_to(self.root):
            raise NotInFolderError(f"{brief(path.name)!r} is not in the folder of the workbench.")
        found = path.relative_to(self.root).as_posix()
        return "" if found == "." else found

    def entries(self, path: str) -> tuple[Entry, ...]:
        """List folders and files of data, folders first; what is hidden or leads outside is not.

        Raises
        ------
        NotInFolderError
            If the path is no folder in here, or it cannot be read.
        """
        from unikat.data.formats import format_of

        folder = self.resolve(path)
        found = []
        try:
            listed = sorted(os.scandir(folder), key=lambda one: one.name.casefold())
        except OSError as error:
            raise NotInFolderError(
                f"{brief(path)!r} cannot be listed ({error.strerror})."
            ) from None
        for one in listed[:MOST_ENTRIES]:
            there = Path(os.path.realpath(one.path))
            if one.name.startswith(".") or not there.is_relative_to(self.root):
                continue
            is_file = there.is_file()
            if (is_file and format_of(there) is None) or not (is_file or there.is_dir()):
                continue
            found.append(
                Entry(
                    name=one.name,
                    path=(PurePosixPath(path) / one.name).as_posix(),
                    kind="file" if is_file else "run" if is_run(there) else "folder",
                    size=there.stat().st_size if is_file else 0,
                )
            )
        return tuple(sorted(found, key=lambda one: one.kind == "file"))

    def files(self, endings: tuple[str, ...] = ()) -> tuple[str, ...]:
        """List files in here and below by their paths, but not those of runs.

        Parameters
        ----------
        endings
            Of their names; without any, files of data.
        """
        from unikat.data.formats import format_of

        found = []
        for folder in self._folders():
            if is_run(folder):
                continue
            with contextlib.suppress(OSError):
                for one in os.scandir(folder):
                    wanted = (
                        one.name.lower().endswith(endings) if endings else format_of(Path(one.path))
                    )
                    if wanted and one.is_file(follow_symlinks=False) and one.name[0] != ".":
                        found.append(self.relative(Path(one.path)))
        return tuple(sorted(found, key=lambda path: (path.count("/"), path.casefold())))

    def named(self, name: str) -> dict[str, int]:
        """List files of data of a name, with their sizes in bytes, by their paths."""
        found = [path for path in self.files() if PurePosixPath(path).name == name]
        return {path: (self.root / path).stat().st_size for path in found}

    def runs(self) -> list[Path]:
        """List the folders of runs in here that can be read, those of the latest change first."""
        found = [one for one in self._folders() if is_run(one) and not self._strange(one)]
        return sorted(found, key=lambda folder: folder.stat().st_mtime, reverse=True)

    def lists(self, place: Path) -> bool:
        """Whether a run in a folder of this path would be found by `runs`."""
        parts = place.relative_to(self.root).parts
        return len(parts) <= DEEPEST and not any(part.startswith(".") for part in parts)

    def _folders(self) -> Iterator[Path]:
        """Yield the folders in here, the folder itself first, without following links."""
        open_, n_seen = [(self.root, 0)], 0
        while open_ and n_seen < MOST_FOLDERS:
            folder, depth = open_.pop(0)
            n_seen += 1
            yield folder
            if depth == DEEPEST:
                continue
            try:
                inside = sorted(os.scandir(folder), key=lambda one: one.name)
            except OSError:
                continue
            open_ += [
                (Path(one.path), depth + 1)
                for one in inside
                if one.is_dir(follow_symlinks=False) and not one.name.startswith(".")
            ]


def is_run(folder: Path) -> bool:
    """Whether a folder is that of a run."""
    return kind_at(folder) is not None
