"""What a committee says of a run: comments and decisions, a line for each in a file beside it.

The file is only added to. Each line has the digests of the results that were decided on, and that
of the line before, so that a page can say whether results or earlier lines have changed since.
"""

from __future__ import annotations

import getpass
import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from unikat.errors import OutputError, SpecError, why
from unikat.files.json import parse_json
from unikat.files.writing import appended
from unikat.report.text.words import say
from unikat.web.runs import Run

FILE = "decisions.jsonl"
SCHEMA = "unikat.decision/1"
SAID = ("accepted", "refused", "comment")
"""What can be said."""
LONGEST_NAME, LONGEST_COMMENT = 200, 10_000
MOST_BYTES = 10_000_000


@dataclass(frozen=True, kw_only=True)
class Decision:
    """One line."""

    words: str
    by: str
    account: str
    """Name of the account of the machine in which the workbench ran."""
    comment: str
    at: str
    """In the time of this machine."""
    unchanged: bool
    """Whether the results are those that it was about."""
    whole: bool
    """Whether it and the lines before it stand as they were written."""


def add(place: Path, run: Run, fields: dict[str, str]) -> None:
    """Write down what was said of a run.

    Parameters
    ----------
    place
        Its folder.
    run
        The run.
    fields
        `decision`, `by` and `comment`.

    Raises
    ------
    SpecError
        If something is missing or too long.
    OutputError
        If the run has no result on which one can decide, or the file cannot be written.
    """
    said, by = fields.get("decision", ""), fields.get("by", "").strip()
    comment = fields.get("comment", "").strip()
    if said not in SAID:
        raise SpecError("Choose whether the run is accepted, refused or commented on.")
    if not 0 < len(by) <= LONGEST_NAME:
        raise SpecError(f"Say who decides, in at most {LONGEST_NAME} characters.")
    if said == "comment" and not comment:
        raise SpecError("A comment needs some words.")
    if len(comment) > LONGEST_COMMENT:
        raise SpecError(f"The comment has more than {LONGEST_COMMENT:,} characters.")
    if run.answer is None or not run.decidable:
        raise OutputError("The run has no result yet on which one can decide.")
    if said == "accepted" and run.state != "done":
        raise OutputError(
            "The run has not converged, so nothing can be accepted by its numbers. Continue it, or "
            "refuse it."
        )
    lines = _lines(place)
    entry = {
        "schema": SCHEMA,
        "decision": said,
        "by": by,
        "account": _account(),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "comment": comment,
        "state": run.state,
        "verdict": run.answer.verdict,
        "files": digests(place, run),
        "before": _digest(lines[-1]) if lines else "",
    }
    try:
        with appended(place / FILE) as file:
            file.write(json.dumps(entry, ensure_ascii=True) + "\n")
    except OSError as error:
        raise OutputError(f"{FILE} cannot be written ({why(error)}).") from None


def read(place: Path, run: Run) -> list[Decision]:
    """Read what was said of a run, the last first; lines that cannot be read are passed over."""
    lines = _lines(place)
    now = digests(place, run) if lines else {}
    found, whole, before = [], True, ""
    for line in lines:
        try:
            entry = parse_json(line)
        except ValueError:
            entry = None
        entry = entry if isinstance(entry, dict) else {}
        whole = whole and entry.get("before") == before
        before = _digest(line)
        if entry.get("decision") in SAID:
            found.append(
                Decision(
                    words=say(f"web.decisions.{entry['decision']}"),
                    by=str(entry.get("by", ""))[:LONGEST_NAME],
                    account=str(entry.get("account", ""))[:LONGEST_NAME],
                    comment=str(entry.get("comment", ""))[:LONGEST_COMMENT],
                    at=_local(entry.get("at")),
                    unchanged=entry.get("files") == now,
                    whole=whole,
                )
            )
    return found[::-1]


def last(place: Path) -> str:
    """Say what was decided last of a run, and by whom; empty if nothing was."""
    for line in reversed(_lines(place)):
        try:
            entry = parse_json(line)
        except ValueError:
            continue
        if isinstance(entry, dict) and entry.get("decision") in ("accepted", "refused"):
            words = say(f"web.decisions.{entry['decision']}")
            return say(
                "web.decisions.last", words=words, by=str(entry.get("by", ""))[:LONGEST_NAME]
            )
    return ""


def digests(place: Path, run: Run) -> dict[str, str]:
    """Return the SHA-256 of report, numbers, specification and files of records of a run."""
    found = {}
    for name in _decided_on(place, run):
        with (place / name).open("rb") as file:
            found[name] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


def _decided_on(place: Path, run: Run) -> Iterator[str]:
    names = (run.kind.report, run.kind.numbers, run.kind.spec, *run.kind.records_in(place))
    yield from (name for name in names if (place / name).is_file())


def _lines(place: Path) -> list[bytes]:
    path = place / FILE
    try:
        if path.is_symlink() or path.stat().st_size > MOST_BYTES:
            return []
        return [line for line in path.read_bytes().split(b"\n") if line]
    except OSError:
        return []


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _account() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError, ImportError):
        return ""


def _local(value: Any) -> str:
    try:
        return datetime.fromisoformat(str(value)).astimezone().strftime("%Y-%m-%d %H:%M")
    except ValueError:
        return ""
