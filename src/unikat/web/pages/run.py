"""The page of a run: its progress while it goes on, then its result, served as it lies there."""

from __future__ import annotations

import asyncio
import mimetypes
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse

from unikat.errors import UnikatError
from unikat.files.json import parse_json
from unikat.report.text.words import say
from unikat.web import decisions
from unikat.web.decisions import Decision
from unikat.web.drafts import Draft
from unikat.web.events import Listener
from unikat.web.explorers import STATES
from unikat.web.folder import NotInFolderError
from unikat.web.pages.connect import Connection, connection
from unikat.web.pages.records import records_of
from unikat.web.runs import Run
from unikat.web.security import REPORT_POLICY
from unikat.web.sources import NotConnectedError
from unikat.web.workbench import TOWN, Nav, Workbench, status_of, workbench_of

PAPERS = (".html", ".docx", ".json", ".toml", decisions.FILE)
"""Endings of the files that a committee can have."""
EVERY = 0.3
"""Seconds between two looks at the events of a run."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The context of `progress.html.j2`, which is sent again whenever something has happened."""

    run: Run
    heard: Listener
    """What the run has told so far."""


@dataclass(frozen=True, kw_only=True)
class ProgressPage:
    """The context of `running.html.j2`: a run that goes on, or that ended without a result."""

    title: str
    nav: Nav
    run: Run
    heard: Listener
    connection: Connection | None
    """What is to be confirmed before its data are read again; None if nothing is."""
    problem: str
    """Why it was not resumed; empty if nobody asked."""


@dataclass(frozen=True, kw_only=True)
class ResultPage:
    """The context of `result.html.j2`: the report, and the files of the result."""

    title: str
    nav: Nav
    run: Run
    files: Sequence[tuple[str, int]]
    """Names and sizes of the files that can be had."""
    truth: Mapping[str, float]
    """What is true of a sample of the simulated town; empty of other files."""
    records: Sequence[tuple[str, str]]
    """Names and paths of those that are files of data."""
    has_report: bool
    has_records: bool
    """Whether its records can be looked at one by one."""
    what_if: bool
    """Whether recodings can be looked at, since its states were kept."""
    decisions: Sequence[Decision]
    """What was said of the run, the last first."""
    words: Mapping[str, str]
    """What can be said of it."""
    said: Mapping[str, str]
    """The fields of what was to be said, and was not taken."""
    repeat: str
    """The command line that repeats the run."""
    connection: Connection | None
    """As of `ProgressPage`."""
    problem: str


def show(request: Request) -> Response:
    """Show a run: its result if it is there, else its progress."""
    return _page(workbench_of(request), request.path_params["id"])


def cancel(request: Request) -> Response:
    """End a run as Ctrl-C does."""
    bench, id = workbench_of(request), request.path_params["id"]
    bench.runs.cancel(id)
    return bench.see(f"/runs/{id}")


def resume(request: Request) -> Response:
    """Continue a run, with a higher limit if one is given."""
    bench, id = workbench_of(request), request.path_params["id"]
    form = request.state.form
    adds = bench.runs.get(id).kind.adds
    changes = {name: form[name].strip() for name, _, _ in adds if form.get(name, "").strip()}
    try:
        bench.runs.resume(id, changes, bench.sources.trust(bench.connected(id)))
    except (NotInFolderError, NotConnectedError):
        raise
    except UnikatError as error:
        return _page(bench, id, str(error), status_of(error))
    return bench.see(f"/runs/{id}")


def again(request: Request) -> Response:
    """Fill the forms with what a run was asked, so that it can be changed and run again."""
    bench, id = workbench_of(request), request.path_params["id"]
    source = bench.connected(id)
    if not source.path:
        raise NotInFolderError("The file of this run is not in the folder of the workbench.")
    values = bench.runs.asked(id)[1]
    bench.keep(Draft.of_run(source.path, values, bench.runs.get(id).kind, id))
    return bench.see("/keys", path=source.path)


def decide(request: Request) -> Response:
    """Write down a comment or a decision."""
    bench, id, form = workbench_of(request), request.path_params["id"], request.state.form
    place, run = bench.folder.resolve(id), bench.runs.get(id)
    try:
        decisions.add(place, run, form)
    except UnikatError as error:
        return _page(bench, id, str(error), status_of(error), form)
    return bench.see(f"/runs/{id}")


def _page(
    bench: Workbench,
    id: str,
    problem: str = "",
    status: int = 200,
    said: Mapping[str, str] | None = None,
) -> Response:
    run = bench.shown(id)
    place = bench.folder.resolve(id)
    nav = bench.nav(id)
    files = [(name, (place / name).stat().st_size) for name in _downloads(bench, run, place)]
    if run.active or not files:
        heard = bench.runs.listen(id)
        heard.listen()
        page = ProgressPage(
            title=say("web.running.title", id=id),
            nav=nav,
            run=run,
            heard=heard,
            connection=connection(bench, id),
            problem=problem,
        )
        return bench.page("running.html.j2", page, status)
    return bench.page(
        "result.html.j2",
        ResultPage(
            title=say("web.what_if.result", id=id),
            nav=nav,
            run=run,
            files=files,
            truth=_truth(bench) if nav.guide and not bench.read_only else {},
            records=[(name, f"{id}/{name}".lstrip("/")) for name in run.kind.records_in(place)],
            has_report=(place / run.kind.report).is_file(),
            has_records=not bench.read_only and records_of(place) is not None,
            what_if=not bench.read_only and (place / STATES).is_file(),
            decisions=decisions.read(place, run),
            words={one: say(f"web.decisions.{one}") for one in decisions.SAID},
            said=said or {},
            repeat=run.kind.repeat(id),
            connection=connection(bench, id),
            problem=problem,
        ),
        status,
    )


def _truth(bench: Workbench) -> dict[str, float]:
    """The true numbers of the simulated town; empty if they are not there any more."""
    try:
        found = parse_json(bench.folder.resolve(TOWN).with_name("truth.json").read_bytes())
        return {name: float(found[name]) for name in ("n_uniques", "tau1", "tau2")}
    except (UnikatError, OSError, ValueError, KeyError, TypeError):
        return {}


def _downloads(bench: Workbench, run: Run, place: Path) -> list[str]:
    """List what can be had of a run; of one that is only read no file with rows of records."""
    found = run.kind.downloads(place)
    if found and (place / decisions.FILE).is_file():
        found.append(decisions.FILE)
    return [name for name in found if not bench.read_only or name.endswith(PAPERS)]


def events(request: Request) -> Response:
    """Stream the progress of a run as server-sent events, until it has ended."""
    bench, id = workbench_of(request), request.path_params["id"]
    bench.runs.get(id)
    return StreamingResponse(_stream(bench, id), media_type="text/event-stream")


async def _stream(bench: Workbench, id: str) -> AsyncIterator[str]:
    heard, before = bench.runs.listen(id), ""
    while True:
        new = heard.listen()
        run = await asyncio.to_thread(bench.runs.get, id)
        if new or run.state != before:
            yield _event(
                "progress", bench.pages.fill("progress.html.j2", Progress(run=run, heard=heard))
            )
        before = run.state
        if not run.active:
            yield _event("end", "")
            return
        await asyncio.sleep(EVERY)


def _event(name: str, text: str) -> str:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n"


def report(request: Request) -> Response:
    """Serve the report of a run, which holds its style and no script."""
    bench, id = workbench_of(request), request.path_params["id"]
    place = bench.folder.resolve(f"{id}/{bench.shown(id).kind.report}")
    return FileResponse(
        place, media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY}
    )


def download(request: Request) -> Response:
    """Serve a file of a run, to be saved."""
    bench, id = workbench_of(request), request.path_params["id"]
    name = request.query_params.get("name", "")
    if name not in _downloads(bench, bench.shown(id), bench.folder.resolve(id)):
        raise NotInFolderError("A run has no file of this name.")
    place = bench.folder.resolve(f"{id}/{name}")
    kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
    return FileResponse(place, media_type=kind, filename=name)
