"""The choice of language in the head of every page."""

from __future__ import annotations

from urllib.parse import parse_qsl, unquote

from starlette.requests import Request
from starlette.responses import Response

from unikat.report.text.language import LANGUAGES
from unikat.web.workbench import is_part, workbench_of


def choose(request: Request) -> Response:
    """Answer in another language from now on: load the page again."""
    bench = workbench_of(request)
    form = request.query_params if bench.read_only else request.state.form
    if form.get("language") in LANGUAGES:
        bench.spoken.choose(form["language"])
    if is_part(request):
        return Response(headers={"HX-Refresh": "true"})
    # Where scripts are off. Whatever is asked for lies below the secret.
    path, _, query = form.get("at", "").partition("?")
    return bench.see(unquote(path) if path.startswith("/") else "/", **dict(parse_qsl(query)))
