"""The first page: files of data in the folder of the workbench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

from unikat.web.folder import Entry
from unikat.web.workbench import Nav, workbench_of


@dataclass(frozen=True, kw_only=True)
class FilesPage:
    """The context of `files.html.j2`."""

    title: str
    nav: Nav
    root: str
    """Name of the folder of the workbench."""
    crumbs: Sequence[tuple[str, str]]
    """Folders on the way to the one that is shown: name and path."""
    entries: Sequence[Entry]


def show(request: Request) -> Response:
    """List a folder."""
    bench, path = workbench_of(request), request.query_params.get("path", "")
    entries = bench.folder.entries(path)
    parts = PurePosixPath(path).parts
    crumbs = [(part, "/".join(parts[: i + 1])) for i, part in enumerate(parts)]
    page = FilesPage(
        title="Choose a file",
        nav=Nav(here="file"),
        root=bench.folder.root.name or str(bench.folder.root),
        crumbs=crumbs,
        entries=entries,
    )
    return bench.page("files.html.j2", page)
