"""Addresses of databases: told from paths of files, and never with a password."""

from __future__ import annotations

import hashlib
import re
from typing import TypeGuard
from urllib.parse import unquote

from unikat.errors import SpecError, hidden

_BEGINNINGS = ("postgresql://", "postgres://")


def is_address(value: object) -> TypeGuard[str]:
    """Whether a value is the address of a database, and not the path of a file.

    Examples
    --------
    >>> is_address("postgresql://db.example/survey"), is_address("postgresql.csv")
    (True, False)
    """
    return isinstance(value, str) and value.lower().startswith(_BEGINNINGS)


_PARTS = re.compile(
    r"\w+://(?:(?P<user>[^:@/?]*)(?P<password>:[^@/?]*)?@)?(?P<hosts>[^@/?]*)"
    r"(?:/(?P<dbname>[^?]*))?(?:\?(?P<parameters>.*))?"
)
_HOST = re.compile(r"(?P<host>\[[^]]*\]|[^:]*)(?::(?P<port>[0-9]*))?")


def connection_parts(address: str) -> dict[str, str]:
    """Return what an address says of a connection, by the names that PostgreSQL's library has.

    It is taken apart as that library does: parameters behind ``?`` take the place of what stands
    before them, and several servers are tried one after the other.

    Raises
    ------
    ValueError
        If it is no address.

    Examples
    --------
    >>> connection_parts("postgresql://me@a.example:5433/survey?host=b.example")
    {'user': 'me', 'host': 'b.example', 'port': '5433', 'dbname': 'survey'}
    """
    found = _PARTS.fullmatch(address)
    hosts = [] if found is None else [_HOST.fullmatch(one) for one in found["hosts"].split(",")]
    if found is None or None in hosts:
        raise ValueError
    parts = {
        "user": found["user"],
        "password": found["password"],
        "host": ",".join(one["host"].strip("[]") for one in hosts if one) or None,
        "port": ",".join(one["port"] or "" for one in hosts if one).strip(",") or None,
        "dbname": found["dbname"] or None,
    }
    for one in filter(None, (found["parameters"] or "").split("&")):
        name, sign, value = one.partition("=")
        if not sign:
            raise ValueError
        parts[unquote(name)] = value
    return {name: unquote(value) for name, value in parts.items() if value is not None}


_SECRET = re.compile("password|secret|token|scram_")
"""In names of parameters that hold a password, or a key to log in with."""


def checked_address(address: str) -> str:
    """Return an address that may be written into files and messages.

    Raises
    ------
    SpecError
        If it holds a password, which other users of the machine could read in the list of
        processes; or if it is no address. The message does not quote it.

    Examples
    --------
    >>> checked_address("postgresql://officer@db.example:5433/survey")
    'postgresql://officer@db.example:5433/survey'
    """
    try:
        names = [name.lower() for name in connection_parts(address)]
        # What follows # is a part of the name for PostgreSQL's library, and none for others.
        wrong = not is_address(address) or any(ord(char) < 33 or char == "#" for char in address)
    except ValueError:
        wrong, names = True, []
    if wrong:
        raise no_address()
    if any(_SECRET.search(name) for name in names):
        raise SpecError(
            "The address of the database holds a password, which others could read in the list of "
            "processes and in files of the run. Take it out, and put it into the environment "
            "variable PGPASSWORD or the file ~/.pgpass, where PostgreSQL's programs look for it."
        )
    if hidden(address, whole=True) != address:
        raise no_address()
    return address


def no_address(lead: str = "The address of the database cannot be understood") -> SpecError:
    """Say that an address is none, without a part of it: it may hold a password."""
    return SpecError(
        f"{lead}. Write an address as "
        "postgresql://USER@HOST:PORT/DATABASE; characters such as @ and / in a name are "
        "written as %40 and %2F. Databases of other kinds are not read; export their table."
    )


def database_name(address: str) -> str:
    """Return the name of the database in an address, as messages and reports have it.

    Examples
    --------
    >>> database_name("postgresql://officer@db.example/survey%20a?sslmode=require")
    'survey a'
    """
    parts = connection_parts(address)
    return parts.get("dbname") or parts.get("service") or "the database"


def source_digest(database: str | None, query: str | None, table: str | None = None) -> str:
    """Return what tells a table of a database, or a query, from others; empty where none is.

    A digest can be given to another process without showing a query in the list of processes.

    Examples
    --------
    >>> source_digest(None, None)
    ''
    """
    if not (database or query):
        return ""
    told = "\0".join([database or "", query or "", table or ""]).encode("utf-8", "surrogatepass")
    return hashlib.sha256(told).hexdigest()
