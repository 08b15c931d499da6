"""What a run would read again from a database or by a query, and the button that confirms it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from unikat.errors import UnikatError
from unikat.report.text.words import say
from unikat.web.sources import NotConnectedError
from unikat.web.workbench import Nav, Workbench, is_part, status_of, workbench_of

CHANGED = "What the run names has changed since you saw it. Look at it again."


@dataclass(frozen=True, kw_only=True)
class Connection:
    """The context of `connection.html.j2`: what a file of a run names, and a button."""

    id: str
    """Of the run."""
    rows: Sequence[tuple[str, str]]
    is_database: bool
    digest: str
    """Of what is shown: nothing else is confirmed."""
    then: str
    """Address of the page that is shown next."""


@dataclass(frozen=True, kw_only=True)
class ConnectPage:
    """The context of `connect.html.j2`."""

    title: str
    nav: Nav
    connection: Connection | None
    problem: str


def connection(bench: Workbench, id: str, then: str = "") -> Connection | None:
    """Return what is to be confirmed before a run can read its data again; None if nothing is."""
    source = bench.run_source(id)
    if bench.read_only or bench.sources.takes(source):
        return None
    return Connection(
        id=id,
        rows=source.rows,
        is_database=bool(source.address),
        digest=source.digest,
        then=then or bench.pages.at(f"/runs/{id}"),
    )


def connect(request: Request) -> Response:
    """Confirm what was shown, and connect."""
    bench, id, form = workbench_of(request), request.path_params["id"], request.state.form
    source, then = bench.run_source(id), form.get("then", "")
    if not then.startswith(bench.pages.at("/")):
        then = bench.pages.at(f"/runs/{id}")
    if not source.digest or form.get("digest") != source.digest:
        return _page(bench, id, then, CHANGED, 409)
    try:
        bench.open_run(source)
    except UnikatError as error:
        return _page(bench, id, then, str(error), status_of(error))
    return RedirectResponse(then, status_code=303)


def asked_first(request: Request, error: NotConnectedError) -> Response:
    """Answer in the place of a page that needs data which nobody has confirmed."""
    if is_part(request):
        # The page as a whole says what is to be confirmed.
        return Response("", headers={"HX-Refresh": "true"})
    bench, query = workbench_of(request), request.url.query
    then = bench.pages.at("/") + request.url.path.lstrip("/") + (f"?{query}" if query else "")
    then = then if request.method == "GET" else ""
    return _page(bench, error.id, then, "", 409)


def _page(bench: Workbench, id: str, then: str, problem: str, status: int) -> Response:
    page = ConnectPage(
        title=say("web.connection.title", id=id),
        nav=bench.nav(id),
        connection=connection(bench, id, then),
        problem=problem,
    )
    return bench.page("connect.html.j2", page, status)
