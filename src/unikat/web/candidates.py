"""Plans that somebody has saved by name, of each run: where the sliders of *What if* stood.

They lie beside the drafts and are read as these are. Their numbers are not kept: the states of the
run tell them again, so that they are never those of another fit.
"""

from __future__ import annotations

import hashlib
import threading
from dataclasses import dataclass, field
from pathlib import Path

from unikat.errors import SpecError
from unikat.web.draft_files import DRAFTS, read_private, texts, write_private
from unikat.web.folder import Folder

SCHEMA = "unikat.candidates/1"
MOST = 12
"""Candidates of a run."""
LONGEST = 60
"""Characters of a name."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A plan with a name."""

    name: str
    fields: dict[str, str]
    """The query of its address."""


@dataclass(frozen=True)
class Candidates:
    """The saved plans of a folder, a file for each run."""

    folder: Folder
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, id: str) -> list[Candidate]:
        """Return those of a run, in the order in which they were saved."""
        found = read_private(self._place(id))
        if not isinstance(found, dict) or (found.get("schema"), found.get("run")) != (SCHEMA, id):
            return []
        kept = found.get("candidates")
        pairs = [
            (one.get("name"), texts(one.get("fields")))
            for one in (kept if isinstance(kept, list) else ())
            if isinstance(one, dict)
        ]
        by_name = {name: fields for name, fields in pairs if isinstance(name, str) and name}
        return [Candidate(name=name, fields=fields) for name, fields in by_name.items()][:MOST]

    def save(self, id: str, name: str, fields: dict[str, str]) -> None:
        """Keep a plan; one of the same name is replaced.

        Raises
        ------
        SpecError
            If it has no name, there are too many, or it cannot be written.
        """
        name = " ".join(name.split())
        if not 0 < len(name) <= LONGEST:
            raise SpecError(f"A candidate needs a name of at most {LONGEST} characters.")
        with self._lock:
            found = {one.name: one.fields for one in self.of(id)}
            if name not in found and len(found) >= MOST:
                raise SpecError(
                    f"There are {MOST} candidates of this run, and no more fit side by side; "
                    "remove one first."
                )
            self._write(id, found | {name: fields})

    def remove(self, id: str, name: str) -> None:
        """Forget a plan; SpecError if that cannot be written."""
        with self._lock:
            self._write(id, {one.name: one.fields for one in self.of(id) if one.name != name})

    def rename(self, id: str, new: str) -> None:
        """Let those of a run follow it to its new name."""
        with self._lock:
            if found := self.of(id):
                self._write(new, {one.name: one.fields for one in found})
                self._write(id, {})

    def _write(self, id: str, found: dict[str, dict[str, str]]) -> None:
        kept = [{"name": name, "fields": fields} for name, fields in found.items()]
        content = {"schema": SCHEMA, "run": id, "candidates": kept}
        if problem := write_private(self._place(id), content):
            raise SpecError(f"The candidates cannot be kept: {problem}.")

    def _place(self, id: str) -> Path:
        name = hashlib.sha256(f"candidates of {id}".encode("utf-8", "surrogatepass")).hexdigest()
        return self.folder.root / DRAFTS / f"{name[:24]}.json"
