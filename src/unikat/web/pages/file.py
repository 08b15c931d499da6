"""The page of a file: how it was read, and what its columns are like."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.web.drafts import Draft, fields_on
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.data.profile import Profile

N_ROWS = 8
"""Records of a preview."""


@dataclass(frozen=True, kw_only=True)
class FilePage:
    """The context of `file.html.j2`."""

    title: str
    nav: Nav
    path: str
    profile: Profile | None
    """None if the file could not be read."""
    values: Mapping[str, str]
    """What the fields of how it is read hold."""
    problem: str
    """Why it could not be read; empty if it could."""
    preview: tuple[Sequence[str], Sequence[Sequence[str]]] | None
    """Columns and the first records; None unless they were asked for."""


def show(request: Request) -> Response:
    """Show a file, read as its draft says."""
    bench = workbench_of(request)
    draft = bench.draft(request.query_params.get("path", ""))
    return _page(bench, draft, with_rows=request.query_params.get("rows") == "1")


def reread(request: Request) -> Response:
    """Read the file as the form says."""
    bench = workbench_of(request)
    form = request.state.form
    draft = bench.draft(form.get("path", "")).updated(form, fields_on("file"))
    bench.keep(draft)
    return _page(bench, draft, with_rows=False)


def _page(bench: Workbench, draft: Draft, *, with_rows: bool) -> Response:
    from unikat.data.profile import preview

    file = bench.folder.resolve(draft.path)
    found, rows, problem, status = None, None, "", 200
    try:
        found = bench.profile(draft)
        if with_rows:
            rows = preview(file, N_ROWS, **draft.reading)
    except UnikatError as error:
        problem, status = str(error), status_of(error)
    page = FilePage(
        title=file.name,
        nav=Nav(here="file", path=draft.path),
        path=draft.path,
        profile=found,
        values=draft.values,
        problem=problem,
        preview=rows,
    )
    return bench.page("file.html.j2", page, status)
