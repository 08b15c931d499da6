"""The page of the glossary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from unikat.report.text.glossary import Term, glossary
from unikat.web.workbench import Nav, workbench_of


@dataclass(frozen=True, kw_only=True)
class GlossaryPage:
    """The context of `glossary.html.j2`."""

    title: str
    nav: Nav
    terms: Sequence[Term]


def show(request: Request) -> Response:
    """Show all terms."""
    terms = list(glossary().values())
    page = GlossaryPage(title="Glossary", nav=Nav(here="glossary"), terms=terms)
    return workbench_of(request).page("glossary.html.j2", page)
