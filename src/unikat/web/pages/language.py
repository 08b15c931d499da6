"""The choice of language in the head of every page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from unikat.report.text.language import LANGUAGES
from unikat.web.workbench import is_part, workbench_of

STEPS = ("file", "keys", "columns", "run", "states")
"""Pages of a file to which one comes back where scripts are off."""


def choose(request: Request) -> Response:
    """Answer in another language from now on: load the page again."""
    bench = workbench_of(request)
    form = request.query_params if bench.read_only else request.state.form
    if form.get("language") in LANGUAGES:
        bench.spoken.choose(form["language"])
    if is_part(request):
        return Response(headers={"HX-Refresh": "true"})
    here, path = form.get("here"), form.get("path", "")
    return bench.see(f"/{here}", path=path) if here in STEPS and path else bench.see("/")
