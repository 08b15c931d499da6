"""Addresses of databases: told from paths of files, and never with a password."""

from __future__ import annotations

import re
from typing import TypeGuard
from urllib.parse import parse_qsl, unquote, urlsplit

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
        parts = urlsplit(address)
        names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
        _ = parts.port
        wrong = not is_address(address) or any(ord(char) < 33 for char in address)
    except ValueError:
        wrong, names = True, []
    if wrong:
        raise no_address()
    if parts.password is not None or any(_SECRET.search(name) for name in names):
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
    return unquote(urlsplit(address).path.strip("/")) or "the database"
