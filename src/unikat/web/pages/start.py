"""The page that starts a run: the model, its account in plain words, and the command line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from starlette.requests import Request
from starlette.responses import Response

from unikat.errors import UnikatError
from unikat.web.drafts import RULES, RUN, Draft
from unikat.web.workbench import Nav, Workbench, status_of, workbench_of

MODELS = (
    ("auto", "auto: several are fitted, the best gives the answer (recommended)"),
    ("latent-class", "latent-class"),
    ("hdp", "hdp"),
    ("gom", "gom"),
    ("loglinear", "loglinear"),
    ("skinner-holmes", "skinner-holmes"),
    ("elamir-skinner", "elamir-skinner"),
    ("mixed-effects", "mixed-effects"),
    ("individual-risk", "individual-risk"),
    ("superpopulation-1", "superpopulation-1"),
    ("superpopulation-2", "superpopulation-2"),
)
"""Names of the models of persons, with what the list shows."""


@dataclass(frozen=True, kw_only=True)
class StartPage:
    """The context of `start.html.j2`."""

    title: str
    nav: Nav
    path: str
    draft: Draft
    models: Sequence[tuple[str, str]]
    out: str
    """Folder of the results, from that of the workbench."""
    command: str
    """The command line that does the same."""
    rules_name: str
    """Name of the file of rules that it reads."""
    problem: str


def show(request: Request) -> Response:
    """Show the form as its draft has it."""
    bench = workbench_of(request)
    draft = bench.draft(request.query_params.get("path", ""))
    return _page(bench, draft, bench.runs.free_name(_stem(draft.path)))


def submit(request: Request) -> Response:
    """Queue the run, or say what is wrong."""
    bench, form = workbench_of(request), request.state.form
    draft = bench.draft(form.get("path", "")).updated(form, RUN)
    bench.keep(draft)
    out = form.get("out", "").strip()
    try:
        spec = draft.spec(bench.folder.resolve(draft.path), bench.folder.root)
        if form.get("action") == "command":
            return _page(bench, draft, out)
        id = bench.runs.start(spec, out)
    except UnikatError as error:
        return _page(bench, draft, out, str(error), status_of(error))
    return bench.see(f"/runs/{id}")


def _stem(path: str) -> str:
    return PurePosixPath(path).name.split(".")[0].strip("*") or "data"


def _page(
    bench: Workbench, draft: Draft, out: str, problem: str = "", status: int = 200
) -> Response:
    page = StartPage(
        title=f"Assess {PurePosixPath(draft.path).name}",
        nav=Nav(here="run", path=draft.path),
        path=draft.path,
        draft=draft,
        models=MODELS,
        out=out,
        command=draft.command(out),
        rules_name=RULES,
        problem=problem,
    )
    return bench.page("start.html.j2", page, status)
