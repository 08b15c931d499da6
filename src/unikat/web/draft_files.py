"""Drafts of forms on disk: what somebody has written is there again after a restart.

They lie in a hidden folder of the folder of the workbench, which its owner alone can read: rules
of impossible combinations and recodings may quote values of records.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from unikat.errors import OutputError, UnikatError, has_surrogates, why
from unikat.files.json import parse_json
from unikat.report.text.language import LANGUAGES
from unikat.spec.kinds import ASSESS, KINDS, Kind
from unikat.web.drafts import PAGES, Draft, fields_on, may_be_restored
from unikat.web.folder import Folder

DRAFTS = ".unikat-drafts"
"""Folder of the drafts, in that of the workbench."""
SCHEMA = "unikat.draft/1"
SECRETS = ("perturbation_seed", "salt")
"""Who knows them can undo what hides records: they are written nowhere."""
MOST_BYTES = 2_000_000
MOST_FILES = 1_000
"""Files that are looked at for named states."""


@dataclass(frozen=True)
class DraftFiles:
    """The drafts of a folder, a file for each file of data."""

    folder: Folder
    _seen: dict[Path, int] = field(default_factory=dict)
    """When each file was written that was read or written here."""

    def changed(self, path: str) -> bool:
        """Whether another workbench has written a draft since it was read or written here."""
        place = self._place(path)
        return _written(place) not in (0, self._seen.get(place))

    def read(self, path: str, name: str = "") -> Draft | None:
        """Return what was kept about a file of data; None if nothing is that can be read.

        With a name it is a state that somebody has named. What somebody else may have written is
        not read, and no address, query or cluster is taken from a file.
        """
        place = self._place(path, name)
        self._seen[place] = _written(place)
        found = read_private(place)
        if not isinstance(found, dict) or (
            (found.get("schema"), found.get("path"), found.get("name", "")) != (SCHEMA, path, name)
        ):
            return None
        kind = KINDS.get(str(found.get("kind")), ASSESS)
        keys = found.get("keys")
        of_keys = found.get("of_keys")
        written = {name: value for name, value in found.items() if name != "path"}
        if has_surrogates(json.dumps(written, ensure_ascii=False)):
            # No form holds half a character, and no process could be asked of it.
            return None
        return Draft(
            path=path,
            kind=kind,
            values=_known(texts(found.get("values")), kind),
            keys=tuple(dict.fromkeys(map(str, keys))) if isinstance(keys, list) else (),
            groupings=texts(found.get("groupings")),
            of_keys={
                str(name): texts(values)
                for name, values in (of_keys if isinstance(of_keys, dict) else {}).items()
                # Those of another kind of run are there when it is chosen again.
                if any(name in fields_on("key", one) for one in KINDS.values())
            },
            rules=str(found.get("rules", "")),
        )

    def named(self, path: str) -> list[tuple[str, float]]:
        """Return the named states of a file of data, with the times of writing, the last first."""
        found = []
        with contextlib.suppress(OSError):
            for one in islice(os.scandir(self.folder.root / DRAFTS), MOST_FILES):
                held = read_private(Path(one.path)) if one.name.endswith(".json") else None
                if isinstance(held, dict) and held.get("path") == path:
                    name = held.get("name")
                    if isinstance(name, str) and name and self.read(path, name) is not None:
                        found.append((name, one.stat(follow_symlinks=False).st_mtime))
        return sorted(found, key=lambda pair: (-pair[1], pair[0]))

    def remove(self, path: str, name: str) -> None:
        """Remove a named state."""
        if name and self.read(path, name) is not None:
            with contextlib.suppress(OSError):
                self._place(path, name).unlink()

    def write(self, draft: Draft, name: str = "") -> str:
        """Keep a draft; return why it could not be kept, empty if it was."""
        values = {name: text for name, text in draft.values.items() if name not in SECRETS}
        content = {
            "schema": SCHEMA,
            "path": draft.path,
            "name": name,
            "kind": draft.kind.name,
            "keys": list(draft.keys),
            "groupings": dict(draft.groupings),
            "values": values,
            "of_keys": {name: dict(texts) for name, texts in draft.of_keys.items()},
            "rules": draft.rules,
        }
        place = self._place(draft.path, name)
        problem = write_private(place, content)
        self._seen[place] = _written(place)
        return problem

    def _place(self, path: str, name: str = "") -> Path:
        told = f"{path}\0{name}" if name else path
        digest = hashlib.sha256(told.encode("utf-8", "surrogatepass")).hexdigest()[:24]
        return self.folder.root / DRAFTS / f"{digest}.json"


def _written(place: Path) -> int:
    """When a file was written last, in nanoseconds; 0 if there is none."""
    try:
        return place.stat(follow_symlinks=False).st_mtime_ns
    except OSError:
        return 0


class ChosenLanguage:
    """The language that was chosen last, kept in a folder, but by a reader."""

    def __init__(self, folder: Folder | None, first: str = "") -> None:
        self._place = folder and folder.root / DRAFTS / "language.json"
        kept = read_private(self._place) if self._place else ""
        self.code: str = first or (kept if kept in LANGUAGES else "")
        """Empty if none was."""

    def choose(self, code: str) -> None:
        """Take another one; if it cannot be kept, the workbench goes on with it."""
        self.code = code
        if self._place:
            write_private(self._place, code)


def read_private(place: Path) -> Any:
    """Return the JSON of a file that nobody else may have written; None if there is none such."""
    try:
        if place.parent.is_symlink():
            return None
        # A pipe of somebody else would be waited for.
        how = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        handle = os.open(place, os.O_RDONLY | how)
        with os.fdopen(handle, "rb") as file:
            seen = os.fstat(handle)
            ours = not hasattr(os, "getuid") or seen.st_uid == os.getuid()
            whole = stat.S_ISREG(seen.st_mode) and seen.st_size <= MOST_BYTES
            if not ours or not whole or seen.st_mode & 0o022:
                return None
            return parse_json(file.read(MOST_BYTES))
    except (OSError, ValueError, UnikatError):
        return None


def write_private(place: Path, content: Any) -> str:
    """Write JSON that its owner alone can read; return why it could not be, empty if it was."""
    from unikat.files.writing import replace_file

    try:
        place.parent.mkdir(mode=0o700, exist_ok=True)
        if place.parent.is_symlink():
            return f"{DRAFTS} is a link"
        replace_file(place, json.dumps(content, ensure_ascii=True, indent=1).encode())
    except OSError as error:
        return why(error)
    except OutputError as error:
        return str(error)
    return ""


def texts(value: Any) -> dict[str, str]:
    """Return the texts of a table by name; what is none is left out."""
    pairs = value.items() if isinstance(value, dict) else ()
    return {str(name): text for name, text in pairs if isinstance(text, str)}


def _known(values: Mapping[str, str], kind: Kind) -> dict[str, str]:
    """Return the fields that forms have, and of `set` what a file may say."""
    names = {name for one in KINDS.values() for page in PAGES for name in fields_on(page, one)}
    found = {name: text for name, text in values.items() if name in names}
    if "set" in found:
        lines = found["set"].splitlines()
        found["set"] = "\n".join(line for line in lines if may_be_restored(line, kind))
    return found
