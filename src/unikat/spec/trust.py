"""What a file may decide, and what only the user: a specification is foreign until the user says.

Paths outside of a folder, databases, queries and clusters count where they stand on the user's own
command line or in the call. From a file they are named and refused, unless the user allows them.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from unikat.errors import SpecError, brief, option, visible
from unikat.spec.addresses import source_digest
from unikat.spec.paths import Place, leads_outside, of_user

_OF_SOURCE = (("data", "database"), ("data", "query"))
_MOST = 9
_LONGEST = 60


class Trust(NamedTuple):
    """What of a specification in a file counts.

    Examples
    --------
    >>> Trust().takes(("sampling", "executor"))
    False
    >>> Trust(given=("sampling.executor",)).takes(("sampling", "executor"))
    True
    """

    given: tuple[str, ...] = ()
    """Places of what the user gave: `sampling.executor`. It takes the place of what the file says,
    and counts."""
    inside: Path | None = None
    """The folder of the workbench, in which paths may lie, and which allows nothing else; None: the
    folder of the file."""
    allowed: bool = False
    """Whether the user allows all that the file says."""
    quiet: bool = False
    """Whether it is not told what was allowed; for what is shown and not read."""
    sources: frozenset[str] = frozenset()
    """Tables of databases and queries that the user has seen and confirmed, as `source_digest`
    tells them."""

    def takes(self, place: Place) -> bool:
        """Whether the user gave the value of a place, or a table that holds it."""
        return any(".".join(place[:n]) in self.given for n in range(1, len(place) + 1))

    def foreign(self, spec: Any, folder: Path) -> list[str]:
        """List what a specification from a folder says that only the user may decide."""
        inside = Path(os.path.realpath(folder if self.inside is None else self.inside))
        where = "its folder" if self.inside is None else "the folder of the workbench"
        found = []
        data = getattr(spec, "data", None)
        digest = source_digest(
            *(getattr(data, name, None) for name in ("database", "query", "table"))
        )
        for place, value in of_user(spec):
            name = ".".join(place)
            confirmed = place in _OF_SOURCE and digest in self.sources
            if confirmed or self.takes(place):
                continue
            if not isinstance(value, Path):
                found.append(f"{name}: {brief(str(value), _LONGEST)}")
            elif leads_outside(path := Path(os.path.abspath(folder / value)), inside):
                found.append(f"{name}: {brief(str(path), _LONGEST)}, outside of {where}")
        return found

    def check(self, spec: Any, where: str, folder: Path) -> None:
        """Refuse what only the user may decide, or say on standard error that it is taken.

        Raises
        ------
        SpecError
            If there is such a thing and the user has not allowed it; the message names all of it.
        """
        if self.allowed and self.quiet:
            return
        found = self.foreign(spec, folder)
        if not found:
            return
        if self.allowed:
            told = _lines(f"Taken from {brief(where)}, as you allow:", found)
            sys.stderr.write(f"{visible(told)}\n")
            return
        head = (
            f"{brief(where)} names what only you may name: a file of somebody else could make "
            "unikat read other files or connect to other machines."
        )
        remedy = (
            f"If you know who wrote the file, allow them with {option('trust_spec', True)}. What "
            "you give as an option yourself counts in any case."
            if self.inside is None
            else "The workbench takes none of it from a file. If you know who wrote it, give its "
            "command in a terminal, with --trust-spec."
        )
        raise SpecError(f"{_lines(head, found)}\n{remedy}")


FOREIGN = Trust()
"""Nothing counts that only the user may decide."""
SHOWN = Trust(allowed=True, quiet=True)
"""All counts, for a specification that is shown and by which nothing is read."""


def _lines(head: str, found: Sequence[str]) -> str:
    more = [f"... and {len(found) - _MOST:,} more"] if len(found) > _MOST else []
    return "\n  ".join([head, *found[:_MOST], *more])
