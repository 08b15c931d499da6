"""A PostgreSQL server of its own for tests: Debian's programs, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SECRET = "not-to-be-told"
"""Password of the users of the server."""


def programs() -> Path | None:
    """Return the folder of initdb and pg_ctl; None if PostgreSQL is not installed."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    where = shutil.which("initdb")
    return found[-1].parent if found else Path(where).parent if where else None


@dataclass(frozen=True, kw_only=True)
class Server:
    """A server that listens on 127.0.0.1."""

    folder: Path
    port: int
    _bin: Path

    def address(self, user: str = "postgres", database: str = "postgres") -> str:
        """Return its address, without the password."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def run(self, *statements: str, table: tuple[str, Any] | None = None) -> None:
        """Run statements as its owner; or fill a table from an Arrow table."""
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(self.address()) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
            if table is not None:
                cursor.adbc_ingest(table[0], table[1], mode="replace")
            connection.commit()

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return what a query gives to its owner."""
        import adbc_driver_postgresql.dbapi as driver

        with driver.connect(self.address()) as connection, connection.cursor() as cursor:
            cursor.execute(query)
            found: list[tuple[Any, ...]] = cursor.fetchall()
            return found

    def connections(self) -> int:
        """Return how many connections there were so far, without one of its own."""
        return (self.folder / "log").read_text().count("connection received")

    def processes(self) -> list[int]:
        """Return the numbers of its processes, that of the server itself first."""
        first = int((self.folder / "data" / "postmaster.pid").read_text().split()[0])
        listed = subprocess.run(
            ["ps", "-o", "pid=", "--ppid", str(first)], capture_output=True, text=True, check=True
        )
        return [first, *map(int, listed.stdout.split())]

    def restart(self) -> None:
        """Shut it down, whoever is connected, and start it again."""
        self.control("restart", "-m", "fast")

    def control(self, *words: str) -> None:
        """Call pg_ctl."""
        listening = (
            f"-p {self.port} -k {self.folder} -c listen_addresses=127.0.0.1 -c fsync=off "
            "-c log_connections=on"
        )
        _as_owner(
            [
                *(self._bin / "pg_ctl", "-D", self.folder / "data", "-w", "-o", listening),
                *("-l", self.folder / "log", *words),
            ]
        )


def _as_owner(command: Sequence[Any]) -> None:
    """Run a command as a user who may run a server: root may not."""
    if os.geteuid() == 0:
        command = ["runuser", "-u", "postgres", "--", *command]
    subprocess.run(list(map(str, command)), check=True, stdout=subprocess.DEVNULL, cwd="/")


@contextmanager
def server() -> Iterator[Server]:
    """Start a server, whose users need a password, and stop it at the end."""
    found = programs()
    assert found is not None
    # Its path is short, as that of a socket has to be, and its owner may enter all of it.
    folder = Path(tempfile.mkdtemp(prefix="unikat-pg-", dir="/tmp"))
    try:
        password = folder / "password"
        password.write_text(SECRET)
        if os.geteuid() == 0:
            shutil.chown(folder, "postgres")
            shutil.chown(password, "postgres")
        _as_owner(
            [
                *(found / "initdb", "-D", folder / "data", "-A", "scram-sha-256", "-U", "postgres"),
                *("--pwfile", password, "--no-sync", "-E", "UTF8", "--locale", "C"),
            ]
        )
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        running = Server(folder=folder, port=port, _bin=found)
        running.control("start")
        try:
            yield running
        finally:
            running.control("stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
