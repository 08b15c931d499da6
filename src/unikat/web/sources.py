"""The data that a workbench may read: files of its folder, and what its user has confirmed.

A database on a server and a query count only if the user of this workbench wrote or confirmed them
since its start. No link, no draft and no file of somebody else makes a connection.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from unikat.errors import UnikatError
from unikat.spec.addresses import checked_address, connection_parts, is_address, source_digest
from unikat.web.folder import Folder, NotInFolderError

if TYPE_CHECKING:
    from unikat.spec.base import Spec
    from unikat.spec.trust import Trust

MOST_SECONDS = 60.0
"""For which a page waits for the server of a database."""
NOT_WRITTEN = (
    "This query was not written since the workbench was started. Read it on the page File, and "
    "press Run the query there."
)
_WORDS = {"host": "Server", "port": "Port", "dbname": "Database", "user": "User"}


class NotConnectedError(UnikatError):
    """A run is of a database, or by a query, that nobody has confirmed since the start."""

    def __init__(self, id: str) -> None:
        super().__init__(
            "This run read a database or used a query, and a file of a run opens neither by "
            "itself. Look at what it names, and confirm it on the page of the run."
        )
        self.id = id


class RunSource(NamedTuple):
    """Of what database, and by what query, a run was."""

    path: str
    """Of the file, from the folder of the workbench, or the address of the database."""
    query: str
    table: str

    @classmethod
    def of(cls, path: str, values: Mapping[str, Any]) -> RunSource:
        """Take it from the specification of a run, whose data lie at a path."""
        data = values.get("data")
        data = data if isinstance(data, Mapping) else {}
        return cls(path, *(str(data.get(name) or "") for name in ("query", "table")))

    @classmethod
    def of_spec(cls, spec: Spec) -> RunSource:
        """Take it from what a run of this workbench is asked."""
        data = spec.data
        return cls(data.database or "", data.query or "", data.table or "")

    @property
    def address(self) -> str:
        """Of the database; empty of a file."""
        return self.path if is_address(self.path) else ""

    @property
    def digest(self) -> str:
        """What tells it from others; empty of a file that is read without a query."""
        return source_digest(self.address, self.query, self.table)

    @property
    def rows(self) -> list[tuple[str, str]]:
        """All that decides where a connection goes and what is read, with names."""
        if not self.address:
            return [("File", self.path), ("Query", self.query)]
        parts = connection_parts(self.address)
        by_service = "service" in parts
        found = []
        for name, words in _WORDS.items():
            otherwise = "as the service says" if by_service else "as PostgreSQL finds it"
            found.append((words, parts.pop(name, otherwise)))
        found += parts.items()
        read = ("Query", self.query) if self.query else ("Table", self.table or "the only one")
        return [*found, read]


@dataclass(frozen=True, kw_only=True)
class Sources:
    """What may be read."""

    folder: Folder
    _confirmed: set[str] = field(default_factory=set)
    """Databases, and tables and queries of them, as `source_digest` tells them."""

    def find(self, path: str, query: str = "") -> Path | str:
        """Return where data lie: a file of the folder, or the address of a database.

        Raises
        ------
        NotInFolderError
            If there is no such file, or the user has not opened the database or written the query
            since the start.
        """
        is_database = is_address(path)
        if is_database and source_digest(path, "") not in self._confirmed:
            raise NotInFolderError(
                "This database was not opened since the workbench was started. Write its address "
                "on the page File, under A database on a server."
            )
        if query and source_digest(path if is_database else "", query) not in self._confirmed:
            raise NotInFolderError(NOT_WRITTEN)
        return path if is_database else self.folder.source(path)

    def takes(self, source: RunSource) -> bool:
        """Whether a run may read its data again."""
        return not source.digest or source.digest in self._confirmed

    def trust(self, source: RunSource | None = None) -> Trust:
        """Return what counts of the specification of a run: of its source, if that was confirmed.

        Without a source what its user has just said counts alone.
        """
        from unikat.spec.trust import Trust

        taken = {source.digest} & self._confirmed if source is not None else set()
        return Trust(inside=self.folder.root, sources=frozenset(taken))

    def connect(self, address: str) -> None:
        """Open a database, whose tables can then be chosen.

        Raises
        ------
        SpecError, DataError
            If the address is none or holds a password, or the server does not let the user in.
        """
        from unikat.data.profile import tables_in_database

        tables_in_database(checked_address(address))
        self._confirmed.add(source_digest(address, ""))

    def confirm(self, source: RunSource) -> None:
        """Take what a run reads as asked for by the user; its database has to be open."""
        self._confirmed.add(source.digest)

    def confirm_query(self, path: str, query: str) -> None:
        """Take a query as that of the user; the database has to be open."""
        self._confirmed.add(source_digest(path if is_address(path) else "", query))


def stamp(file: Path | str) -> tuple[object, ...]:
    """What changes when a file does, or one of several; a database has no such thing."""
    if isinstance(file, str):
        return (file,)
    if file.is_file():
        seen = file.stat()
        return file, seen.st_mtime_ns, seen.st_size
    from unikat.data.folders import find_parts

    return file, *map(stamp, find_parts(file, None, is_folder=file.is_dir()).paths)
