"""Where PostgreSQL's library looks for what an address does not say, and why it did not connect."""

from __future__ import annotations

import os
import re
from pathlib import Path

from unikat.errors import DataError, brief
from unikat.spec.addresses import connection_parts, database_name

SECONDS = 15
"""That a server is waited for which does not answer; the library itself waits for ever."""
_MOST_BYTES, _MOST_SERVICES = 1_000_000, 200
_TIMEOUT = "connect_timeout"
_PLACES = (
    "a password belongs in the environment variable PGPASSWORD, in a service file, or in the file "
    "~/.pgpass, which is passed over if others may read it (chmod 600)"
)


def services() -> dict[str, frozenset[str]]:
    """Return the names of the services of the user's service file, each with what it sets.

    No value is read out of it: a service may hold a password.
    """
    place = Path(os.environ.get("PGSERVICEFILE") or "~/.pg_service.conf").expanduser()
    try:
        if not place.is_file() or place.stat().st_size > _MOST_BYTES:
            return {}
        lines = place.read_text("utf-8", "replace").splitlines()
    except OSError:
        return {}
    found: dict[str, set[str]] = {}
    here: set[str] = set()
    for line in map(str.strip, lines):
        if line.startswith("["):
            name = line[1:].partition("]")[0]
            # As for the library, the first of one name counts.
            here = set()
            found.setdefault(name, here)
        elif not line.startswith("#"):
            here.add(line.partition("=")[0].strip())
    named = [name for name in found if name and name.isprintable()][:_MOST_SERVICES]
    return {name: frozenset(found[name]) for name in named}


def with_timeout(address: str) -> str:
    """Return an address by which a server is not waited for without end.

    What the address, the environment or the service says of it stays.
    """
    parts = connection_parts(address)
    service = parts.get("service") or os.environ.get("PGSERVICE", "")
    told = services().get(service, frozenset()) if service else frozenset()
    if _TIMEOUT in parts or _TIMEOUT in told or os.environ.get("PGCONNECT_TIMEOUT"):
        return address
    return f"{address}{'&' if '?' in address else '?'}{_TIMEOUT}={SECONDS}"


def not_connected(address: str, text: str) -> DataError:
    """Say why the library did not connect, by its own text, which is not shown."""
    parts = connection_parts(address)
    service = parts.get("service") or os.environ.get("PGSERVICE", "")
    host = parts.get("hostaddr") or parts.get("host")
    where = (
        f"The server at {brief(host)}" if host else f"The server of the service {brief(service)}"
    )
    if not (host or service):
        host = os.environ.get("PGHOSTADDR") or os.environ.get("PGHOST")
        where = f"The server at {brief(host or 'this machine')}"
    if re.search(r"definition of service|service file", text):
        why = (
            "has no service of this name"
            if "definition" in text
            else "cannot be understood"
            if "syntax" in text
            else "is not there"
        )
        return DataError(
            f"The service {brief(service)!r} cannot be used: the service file {why}. Write it in "
            "the file ~/.pg_service.conf, or in the one that PGSERVICEFILE names."
        )
    if re.search(r'database "[^"]*" does not exist', text):
        return DataError(
            f"{where} has no database {brief(database_name(address))!r}; check the address."
        )
    if re.search("timeout expired", text):
        return DataError(
            f"{where} does not answer. Check host and port in the address, and whether the server "
            f"is running; {_TIMEOUT} in the address says for how many seconds it is waited for."
        )
    if re.search("could not translate host name", text):
        return DataError(f"{where} cannot be found: no machine has this name. Check the address.")
    if re.search(r"invalid (\w+ value|URI query parameter|port number|integer value)", text):
        return DataError(
            "The address, or what PostgreSQL's own places add to it, has a parameter that "
            "PostgreSQL does not know or cannot use. Check the port, and what stands behind the ? "
            "in the address."
        )
    refused = re.search(r"password|authentication|role|pg_hba", text)
    what = "does not let this user in" if refused else "cannot be reached"
    return DataError(f"{where} {what}. Check host, port and user in the address; {_PLACES}.")
