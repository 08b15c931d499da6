"""The application: addresses to pages, errors to one shape."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from urllib.parse import quote, unquote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from unikat.errors import UnikatError
from unikat.interrupts import patience
from unikat.report.text.language import preferred, speaking
from unikat.report.text.words import say
from unikat.web.folder import Folder
from unikat.web.pages import (
    certificate,
    columns,
    connect,
    file,
    files,
    glossary,
    group_files,
    key_levels,
    keys,
    language,
    levels,
    plan_parts,
    plans,
    policy,
    records,
    run,
    runs,
    start,
    states,
    what_if,
)
from unikat.web.pages.problem import ProblemPage
from unikat.web.pages.template import shown_at, style
from unikat.web.security import Access, Guard
from unikat.web.sources import MOST_SECONDS, NotConnectedError
from unikat.web.workbench import Nav, Workbench, status_of, texts, workbench_of

MOST_FIELDS = 10_000
"""Of a form: some for each column of the file."""
LONGEST = 2000
"""Characters of an address to which one comes back after a change of language."""
SCRIPTS = ("htmx.min.js", "htmx-sse.min.js", "workbench.js")
DEFECT = (
    "This is a defect of unikat, not of your data. What you did before is kept: go back and try "
    "something else, or do the same in a terminal with  unikat --debug assess."
)


READING = (
    "/",
    "/runs",
    "/runs/{id:path}",
    "/report/{id:path}",
    "/asked/{id:path}",
    "/download/{id:path}",
    "/beside",
    "/glossary",
    "/language",
    "/static/{name}",
)
"""Addresses of a workbench that is read and takes nothing in."""


def make_app(
    folder: Folder, access: Access, *, read_only: bool = False, spoken: str = ""
) -> tuple[Guard, Workbench]:
    """Make the application for a folder, guarded; and the workbench behind it.

    With `read_only` it has the addresses of `READING` alone, and shows finished runs. Pages are in
    the language that is named, chosen on a page, or asked for by the browser.
    """
    bench = Workbench.of(folder, access.base, read_only=read_only, language=spoken)
    routes = _routes()
    if read_only:
        routes = [one for one in routes if one.path in READING and "GET" in (one.methods or ())]
        # It is kept in memory alone: a reader sends nothing.
        routes.append(Route("/language", language.choose))
    app = _Application(
        routes=routes,
        exception_handlers={
            UnikatError: _unikat_error,
            HTTPException: _http_error,
            Exception: _defect,
        },
    )
    app.state.workbench = bench
    # It would redirect to an address without the secret.
    app.router.redirect_slashes = False
    return Guard(app, access), bench


def _routes() -> list[Route]:
    return [
        Route("/", _home),
        Route("/files", files.show),
        Route("/find", files.find),
        Route("/database", _with_form(files.database), methods=["POST"]),
        Route("/town", _with_form(files.make_town), methods=["POST"]),
        Route("/file", file.show),
        Route("/file", _with_form(file.reread), methods=["POST"]),
        Route("/keys", keys.show),
        Route("/keys", _with_form(keys.submit), methods=["POST"]),
        Route("/keys/keep", _with_form(keys.keep), methods=["POST"]),
        Route("/keys/groups", _with_form(keys.groups), methods=["POST"]),
        Route("/keys/missing", _with_form(keys.missing), methods=["POST"]),
        Route("/keys/counts", _with_form(keys.counts), methods=["POST"]),
        Route("/keys/time", _with_form(keys.time), methods=["POST"]),
        Route("/keys/population", _with_form(keys.population), methods=["POST"]),
        Route("/keys/check", _with_form(keys.check), methods=["POST"]),
        Route("/keys/suggest", _with_form(keys.suggest), methods=["POST"]),
        Route("/levels", key_levels.show),
        Route("/levels", _with_form(key_levels.submit), methods=["POST"]),
        Route("/columns", columns.show),
        Route("/columns", _with_form(columns.submit), methods=["POST"]),
        Route("/states", states.show),
        Route("/states", _with_form(states.submit), methods=["POST"]),
        Route("/policy", policy.show),
        Route("/policy", _with_form(policy.submit), methods=["POST"]),
        Route("/certificate", certificate.show),
        Route("/run", start.show),
        Route("/run", _with_form(start.submit), methods=["POST"]),
        Route("/runs", runs.show),
        Route("/rename/{id:path}", _with_form(runs.rename), methods=["POST"]),
        Route("/archive/{id:path}", _with_form(runs.archive), methods=["POST"]),
        Route("/take-back/{id:path}", _with_form(runs.take_back), methods=["POST"]),
        Route("/beside", runs.beside),
        Route("/asked/{id:path}", runs.asked),
        Route("/runs/{id:path}", run.show),
        Route("/cancel/{id:path}", _with_form(run.cancel), methods=["POST"]),
        Route("/resume/{id:path}", _with_form(run.resume), methods=["POST"]),
        Route("/connect/{id:path}", _with_form(connect.connect), methods=["POST"]),
        Route("/again/{id:path}", _with_form(run.again), methods=["POST"]),
        Route("/decide/{id:path}", _with_form(run.decide), methods=["POST"]),
        Route("/events/{id:path}", run.events),
        Route("/report/{id:path}", run.report),
        Route("/records/{id:path}", records.show),
        Route("/neighbours/{id:path}", records.neighbours),
        Route("/records-file/{id:path}", records.export),
        Route("/download/{id:path}", run.download),
        Route("/what-if/{id:path}", what_if.show),
        Route("/what-if-numbers/{id:path}", what_if.numbers),
        Route("/what-if-waiting/{id:path}", what_if.waiting),
        Route("/what-if-frontier/{id:path}", plans.frontier),
        Route("/what-if-candidates/{id:path}", plans.candidates),
        Route("/what-if-pictures/{id:path}", plan_parts.pictures),
        Route("/what-if-columns/{id:path}", plan_parts.columns),
        Route("/what-if-save/{id:path}", _with_form(what_if.save), methods=["POST"]),
        Route("/what-if-remove/{id:path}", _with_form(what_if.remove), methods=["POST"]),
        Route("/what-if-levels/{id:path}", levels.show),
        Route("/what-if-groups/{id:path}", group_files.download),
        Route("/what-if-groups/{id:path}", _with_form(group_files.save), methods=["POST"]),
        Route("/what-if-apply/{id:path}", _with_form(what_if.apply), methods=["POST"]),
        Route("/glossary", glossary.show),
        Route("/language", _with_form(language.choose), methods=["POST"]),
        Route("/static/{name}", _static),
    ]


class _Application(Starlette):
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer in the language that was chosen, else in that of the browser."""
        asked = Headers(scope=scope).get("accept-language", "")
        if scope["type"] == "http" and scope["method"] == "GET":
            query = scope["query_string"].decode("latin-1")
            at = f"{quote(scope['path'])}{'?' if query else ''}{query}"
            # The address of a database may hold a password, and is not shown again.
            shown_at.set(at if len(at) <= LONGEST and "://" not in unquote(query) else "")
        patience.set(MOST_SECONDS)
        with speaking(self.state.workbench.spoken.code or preferred(asked)):
            await super().__call__(scope, receive, send)


def _with_form(
    answer: Callable[[Request], Response],
) -> Callable[[Request], Awaitable[Response]]:
    """Give a function the fields of the form, and a thread of its own."""

    async def endpoint(request: Request) -> Response:
        async with request.form(max_files=0, max_fields=MOST_FIELDS) as form:
            request.state.form = texts(form)
        return await run_in_threadpool(answer, request)

    return endpoint


def _home(request: Request) -> Response:
    bench = workbench_of(request)
    return bench.see("/runs" if bench.read_only else "/files")


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name == "workbench.css":
        return Response(style(), media_type="text/css")
    if name not in SCRIPTS:
        raise HTTPException(404)
    content = resources.files("unikat.web").joinpath("static", name).read_bytes()
    return Response(content, media_type="text/javascript")


def _unikat_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, UnikatError)
    if isinstance(error, NotConnectedError) and not _wants_json(request):
        return connect.asked_first(request, error)
    return _problem(request, status_of(error), type(error).__name__, str(error))


def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    said = {404: "There is no such page.", 405: "This page does not take what was sent."}
    message = said.get(error.status_code, "The request could not be understood.")
    return _problem(request, error.status_code, "HTTPError", message)


def _defect(request: Request, _: Exception) -> Response:
    # The text of the exception may quote records.
    return _problem(request, 500, "Defect", DEFECT)


def _wants_json(request: Request) -> bool:
    return "application/json" in request.headers.get("accept", "")


def _problem(request: Request, status: int, kind: str, message: str) -> Response:
    if _wants_json(request):
        # The one shape of every error, for programs.
        content = {"error": {"status": status, "kind": kind, "message": message}}
        return JSONResponse(content, status_code=status)
    page = ProblemPage(title=say("web.problem.title"), nav=Nav(here=""), message=message)
    return workbench_of(request).page("problem.html.j2", page, status)
