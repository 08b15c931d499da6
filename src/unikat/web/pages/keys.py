"""The page on which keys, grouping rules, design and impossible combinations are said."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.web.drafts import DESIGN, Draft
from unikat.web.workbench import Nav, Workbench, is_part, status_of, workbench_of

if TYPE_CHECKING:
    from unikat.data.profile import ColumnProfile

KEY, GROUPING = "key:", "grouping:"
"""Beginnings of the names of fields, before the name of a column."""


@dataclass(frozen=True, kw_only=True)
class KeysPage:
    """The context of `keys.html.j2`."""

    title: str
    nav: Nav
    path: str
    columns: Sequence[ColumnProfile]
    draft: Draft
    problem: str
    """What is wrong with the form; empty if nothing is known to be."""
    checked: Checked | None
    """What a check of the rules has found; None unless it was asked for."""


@dataclass(frozen=True, kw_only=True)
class Checked:
    """The context of `checked.html.j2`: impossible combinations held against the file."""

    lines: Sequence[str]
    """The table that `unikat zeros check` prints."""
    n_records: int
    """Records that break a rule."""
    problem: str


def show(request: Request) -> Response:
    """Show the form as its draft has it."""
    bench = workbench_of(request)
    return _page(bench, bench.draft(request.query_params.get("path", "")))


def submit(request: Request) -> Response:
    """Take the form: go on to the run if file and form agree, else say what is wrong."""
    bench, draft = workbench_of(request), _posted(request)
    bench.keep(draft)
    try:
        notes = _understood(bench, draft)
    except UnikatError as error:
        return _page(bench, draft, str(error), status_of(error))
    bench.keep(replace(draft, notes=notes))
    return bench.see("/run", path=draft.path)


def check(request: Request) -> Response:
    """Hold the rules against the file."""
    bench, draft = workbench_of(request), _posted(request)
    bench.keep(draft)
    checked, status = _checked(bench, draft)
    if is_part(request):
        # A script puts it into the page whatever the status is.
        return bench.page("checked.html.j2", checked)
    return _page(bench, draft, status=status, checked=checked)


def _posted(request: Request) -> Draft:
    form = request.state.form
    draft = workbench_of(request).draft(form.get("path", ""))
    keys = [name.removeprefix(KEY) for name in form if name.startswith(KEY)]
    groupings = {
        name.removeprefix(GROUPING): rule
        for name, rule in form.items()
        if name.startswith(GROUPING)
    }
    return draft.updated(form, DESIGN).with_keys(keys, groupings, form.get("rules", ""))


def _understood(bench: Workbench, draft: Draft) -> tuple[str, ...]:
    """Read the file as the run will, and return what it notes."""
    from unikat.inference.progress import Watcher
    from unikat.jobs.inputs import design_of, read_table
    from unikat.spec.from_options import Inputs

    spec = draft.spec(bench.folder.resolve(draft.path), bench.folder.root)
    notes: list[str] = []
    read_table(spec, design_of(spec), Inputs(), Watcher(note=notes.append))
    return tuple(notes)


def _checked(bench: Workbench, draft: Draft) -> tuple[Checked, int]:
    from unikat.jobs.zeros import check as held_against_file
    from unikat.jobs.zeros import check_lines

    try:
        spec = draft.spec(bench.folder.resolve(draft.path), bench.folder.root)
        found = held_against_file(spec)
    except UnikatError as error:
        return Checked(lines=(), n_records=0, problem=str(error)), status_of(error)
    return Checked(lines=check_lines(found), n_records=found.n_records, problem=""), 200


def _page(
    bench: Workbench,
    draft: Draft,
    problem: str = "",
    status: int = 200,
    checked: Checked | None = None,
) -> Response:
    columns: Sequence[ColumnProfile] = ()
    try:
        columns = bench.profile(draft).columns
    except UnikatError as error:
        problem, status = str(error), status_of(error)
    page = KeysPage(
        title=f"Keys and design of {draft.path.rpartition('/')[2]}",
        nav=Nav(here="keys", path=draft.path),
        path=draft.path,
        columns=columns,
        draft=draft,
        problem=problem,
        checked=checked,
    )
    return bench.page("keys.html.j2", page, status)
