"""The page of what the forms of a file held: taken back, or kept under a name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import OutputError, SpecError, UnikatError, visible
from unikat.report.text.words import say
from unikat.web.folder import NotInFolderError
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

LONGEST = 80
"""Characters of the name of a state."""


@dataclass(frozen=True, kw_only=True)
class StatesPage:
    """The context of `states.html.j2`."""

    title: str
    nav: Nav
    path: str
    n_undone: int
    """Changes that can be taken back."""
    states: Sequence[tuple[str, str]]
    """Names and local times."""
    command: str
    """The command line of the forms as they are."""
    problem: str


def show(request: Request) -> Response:
    """Show the states of a file."""
    return _page(workbench_of(request), request.query_params.get("path", ""))


def submit(request: Request) -> Response:
    """Take a change back; keep, take or remove a named state."""
    bench, form = workbench_of(request), request.state.form
    path, do, name = form.get("path", ""), form.get("do", ""), form.get("name", "").strip()
    draft = bench.draft(path)
    try:
        if do == "undo":
            bench.undone(path)
        elif do == "keep":
            if not name or len(name) > LONGEST or visible(name) != name:
                raise SpecError(f"Give the state a name of 1 to {LONGEST} characters.")
            if why := bench.states.write(draft, name):
                raise OutputError(f"The state cannot be written ({why}).")
        elif do == "take":
            found = bench.states.read(path, name)
            if found is None:
                raise NotInFolderError("There is no such state any more.")
            bench.restore(found)
        elif do == "remove":
            bench.states.remove(path, name)
    except UnikatError as error:
        return _page(bench, path, str(error), status_of(error))
    return bench.see("/states", path=path)


def _page(bench: Workbench, path: str, problem: str = "", status: int = 200) -> Response:
    draft = bench.draft(path)
    page = StatesPage(
        title=say("web.states.title", name=path.rpartition("/")[2]),
        nav=Nav(here="states", path=path),
        path=path,
        n_undone=bench.n_undone(path),
        states=[
            (name, datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M"))
            for name, at in bench.states.named(path)
        ],
        command=draft.command("RESULT"),
        problem=problem,
    )
    return bench.page("states.html.j2", page, status)
