"""Files of groups that were made by hand: into the folder, or to be downloaded."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import SpecError
from unikat.web.folder import NotInFolderError
from unikat.web.pages.what_if_state import LONGEST, State

Rows = Sequence[tuple[str, str]]
_MOST = 1000


class Place(NamedTuple):
    """Where a file of groups stands, or would."""

    path: PurePosixPath
    """From the folder of the workbench."""
    is_there: bool


def place_of(root: Path, folder: PurePosixPath, name: str, rows: Rows) -> Place:
    """Find the file of a folder that has these groups of a key, or a name that is free.

    What somebody else, or an earlier run, has there stays as it is.
    """
    from unikat.jobs.explore import groups_file

    content, stem = _content(rows), groups_file(name).removesuffix(".csv")
    for number in range(1, _MOST):
        path = folder / f"{stem}{f'-{number}' if number > 1 else ''}.csv"
        target = root / path
        if target.is_file() and not target.is_symlink():
            same = target.stat().st_size == len(content) and target.read_bytes() == content
            if same:
                return Place(path, True)
        elif not target.exists() and not target.is_symlink():
            return Place(path, False)
    raise SpecError("There are too many files of groups; remove those that no run names.")


def write(root: Path, folder: PurePosixPath, name: str, rows: Rows) -> PurePosixPath:
    """Write groups into a folder, unless they are there; return the path of the file."""
    from unikat.files.writing import replace_file

    place = place_of(root, folder, name, rows)
    if not place.is_there:
        (root / folder).mkdir(mode=0o700, exist_ok=True)
        replace_file(root / place.path, _content(rows))
    return place.path


def _content(rows: Rows) -> bytes:
    text = io.StringIO()
    csv.writer(text, delimiter=";", lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def download(request: Request) -> Response:
    """Serve the groups of a key that were made by hand, as a hierarchy for the command line."""
    state = State.of(request)
    state.explorer.wait(lambda: state.explorer.state != "preparing", LONGEST)
    name = state.given.get("edit", "")
    look = state.whole()
    if name not in look["files"]:
        raise NotInFolderError("No groups of this key were made by hand.")
    file = look["rules"][name][5:-1]
    said = {"Content-Disposition": f'attachment; filename="{file}"'}
    content = _content(look["files"][name])
    return Response(content, media_type="text/csv; charset=utf-8", headers=said)


def save(request: Request) -> Response:
    """Write all groups that were made by hand into the folder of the workbench."""
    state = State.of(request, request.state.form)
    state.explorer.wait(lambda: state.explorer.state != "preparing", LONGEST)
    for name, rows in state.whole()["files"].items():
        write(state.bench.folder.root, PurePosixPath(), name, rows)
    return state.bench.see(f"/what-if/{state.id}", **state.fields(state.steps))
