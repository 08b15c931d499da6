"""The page of the glossary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response

from unikat.report.text.glossary import Term, glossary
from unikat.report.text.words import say
from unikat.web.workbench import Nav, workbench_of


@dataclass(frozen=True, kw_only=True)
class GlossaryPage:
    """The context of `glossary.html.j2`."""

    title: str
    nav: Nav
    terms: Sequence[Term]
    names: Mapping[str, str]
    """What terms are called, by English name."""


def show(request: Request) -> Response:
    """Show all terms."""
    terms = glossary()
    page = GlossaryPage(
        title=say("web.glossary.title"),
        nav=Nav(here="glossary"),
        terms=list(terms.values()),
        names={key: one.name for key, one in terms.items()},
    )
    return workbench_of(request).page("glossary.html.j2", page)
