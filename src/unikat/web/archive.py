"""Runs that are renamed, or put away and taken back: nothing is deleted."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from unikat.errors import OutputError, brief, why
from unikat.spec.kinds import ASSESS, Kind
from unikat.web.folder import Folder, NotInFolderError
from unikat.web.kinds import kind_at
from unikat.web.runs import Runs, read_answer

if TYPE_CHECKING:
    from unikat.report.text.listed import Listed

ARCHIVE = ".unikat-archive"
"""Folder of the runs that were put away, in that of the workbench."""


@dataclass(frozen=True, kw_only=True)
class Archived:
    """A run that was put away."""

    id: str
    """The folder to which it goes back, from that of the workbench."""
    kind: Kind
    answer: Listed | None


@dataclass(frozen=True)
class Archive:
    """What moves the folders of runs; each stays as deep as it was, so that its paths hold."""

    folder: Folder
    runs: Runs

    def rename(self, id: str, name: str) -> str:
        """Give a run another name within the folder that it is in, and return its new id.

        Raises
        ------
        NotInFolderError, OutputError
            If there is no such run, it goes on, or it cannot have this name.
        """
        place, name = self._movable(id), name.strip()
        target = self.folder.place(f"{id.rpartition('/')[0]}/{name}".lstrip("/"))
        if not name or "/" in name or not self.folder.lists(target):
            raise OutputError(
                "A run needs a name without a slash that does not begin with a point."
            )
        _move(place, target)
        return self.folder.relative(target)

    def put(self, id: str) -> None:
        """Put a run away.

        Raises
        ------
        NotInFolderError, OutputError
            If there is no such run, it goes on, or it cannot be moved.
        """
        place = self._movable(id)
        target, number = self._root / id, 1
        while os.path.lexists(target):
            number += 1
            target = self._root / f"{id}-{number}"
        try:
            self._root.mkdir(mode=0o700, exist_ok=True)
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"The run cannot be put away: {why(error)}.") from None
        _move(place, target)

    def take_back(self, id: str) -> None:
        """Take a run back to where it was.

        Raises
        ------
        NotInFolderError, OutputError
            If it is not in the archive, or there is something else where it was.
        """
        if id not in {one.id for one in self.all()}:
            raise NotInFolderError(f"There is no {brief(id)!r} in the archive.")
        target = self.folder.place(id)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"The run cannot be taken back: {why(error)}.") from None
        _move(self._root / id, target)

    def all(self) -> list[Archived]:
        """List the runs that were put away, those of the latest change first."""
        root = self.folder.root / ARCHIVE
        if root.is_symlink() or not root.is_dir():
            return []
        inside = Folder(root)
        return [
            Archived(id=inside.relative(place), kind=kind, answer=read_answer(place, kind))
            for place in inside.runs()
            for kind in [kind_at(place) or ASSESS]
            if place != root
        ]

    @property
    def _root(self) -> Path:
        found = self.folder.root / ARCHIVE
        if found.is_symlink():
            raise OutputError(f"{ARCHIVE} is a link. If the folder is yours, delete it.")
        return found

    def _movable(self, id: str) -> Path:
        """Return the folder of a run that does not go on."""
        place, run = self.folder.resolve(id), self.runs.get(id)
        if place == self.folder.root or kind_at(place) is None:
            raise NotInFolderError(f"{brief(id)!r} is not the folder of a run that can be moved.")
        if run.active or run.state == "elsewhere":
            raise OutputError(f"The run in {id} goes on. Stop it before you move it.")
        return place


def _move(place: Path, target: Path) -> None:
    if os.path.lexists(target):
        raise OutputError(
            f"There is something called {brief(target.name)} already. Rename it first."
        )
    try:
        place.rename(target)
    except OSError as error:
        raise OutputError(f"The run cannot be moved: {why(error)}.") from None
