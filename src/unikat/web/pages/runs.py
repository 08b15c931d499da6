"""The list of runs in the folder of the workbench, those made in a terminal too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from unikat.web.runs import Run
from unikat.web.workbench import Nav, workbench_of


@dataclass(frozen=True, kw_only=True)
class RunsPage:
    """The context of `runs.html.j2`."""

    title: str
    nav: Nav
    runs: Sequence[Run]


def show(request: Request) -> Response:
    """List the runs."""
    bench = workbench_of(request)
    page = RunsPage(title="Runs", nav=Nav(here="runs"), runs=bench.runs.all())
    return bench.page("runs.html.j2", page)
