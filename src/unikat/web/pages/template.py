"""Templates of the workbench: each is filled in from the fields of one dataclass, its context."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import fields
from functools import lru_cache, partial
from typing import Any
from urllib.parse import quote, urlencode

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from unikat._version import __version__
from unikat.errors import on_page
from unikat.report.pages import colours
from unikat.report.text import language
from unikat.report.text.glossary import anchor_of, glossary
from unikat.report.text.numbers import digits, number, percent
from unikat.report.text.words import capital, counted, marked, say, small
from unikat.spec.network import NETWORK
from unikat.web.drafts import flag_of
from unikat.web.pages.pictures import (
    band_bars,
    bars,
    drops,
    few,
    group_bars,
    pair_bars,
    reach,
    settling,
)

shown_at: ContextVar[str] = ContextVar("shown_at", default="")
"""Address of the page that is answered, below the secret; empty of the answer to a form."""
STYLE = ("style.css.j2", "workbench.css.j2")
"""The style of reports, and what the workbench adds."""


class Pages:
    """The pages of one server, whose addresses begin with its secret."""

    def __init__(self, base: str, *, read_only: bool = False) -> None:
        self._base = base
        self._environment = environment()
        self._environment.globals["at"] = self.at
        self._environment.globals["shown_at"] = shown_at.get
        self._environment.globals["term"] = self.term
        self._environment.globals["about"] = self.about
        self._environment.globals["t"] = partial(marked, at=self.at, term=self.term)
        self._environment.globals["read_only"] = read_only

    def at(self, path: str, /, **query: str) -> str:
        """Return the address of a page; a path of the folder may be a part of it."""
        asked = {name: value for name, value in query.items() if value}
        return f"{self._base}{quote(path)}{'?' + urlencode(asked) if asked else ''}"

    def term(self, name: str, words: str = "") -> Markup:
        """Write a term that leads to its sentence in the glossary, and shows it when pointed at."""
        one = glossary()[name]
        address = f"{self.at('/glossary')}#{one.anchor}"
        return Markup('<a class="term" href="{}" title="{}">{}</a>').format(
            address, one.text, words or one.name
        )

    def about(self, page: str, *terms: str) -> Markup:
        """Say what a page is for, and lead to the terms that one has to know on it."""
        see = Markup(", ").join(map(self.term, terms))
        said = say("web.head.terms", listed="{}") if terms else ""
        further = (
            Markup(' <span class="see">{}</span>').format(Markup(said).format(see)) if terms else ""
        )
        return Markup('<p class="about">{}{}</p>').format(say(f"workbench.page.{page}"), further)

    def fill(self, name: str, context: Any) -> str:
        """Render a page from a dataclass: a template may use its fields, and what all share."""
        values = {field.name: getattr(context, field.name) for field in fields(context)}
        return self._environment.get_template(name).render(values)


def environment() -> Environment:
    """Make what all templates share: values are escaped, and an unknown name is an error."""
    made = Environment(
        loader=ChoiceLoader(
            [PackageLoader("unikat.web.pages"), PackageLoader("unikat.report.pages")]
        ),
        autoescape=True,
        finalize=on_page,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "about": lambda page, *_: say(f"workbench.page.{page}"),
        "anchor_of": anchor_of,
        "at": lambda path, /, **_: path,
        "band_bars": band_bars,
        "bars": bars,
        "group_bars": group_bars,
        "drops": drops,
        "few": few,
        "flag_of": flag_of,
        "pair_bars": pair_bars,
        "reach": reach,
        "shown_at": str,
        "term": lambda name, words="": words or name,
        "settling": settling,
        "small": small,
        "t": marked,
        "language": language,
        "colours": Markup(colours.style()),
        "capital": capital,
        "counted": counted,
        "digits": digits,
        "noun": lambda kind: say(f"web.kinds.{kind.name}"),
        "number": number,
        "percent": percent,
        "network": NETWORK,
        "read_only": False,
        "version": __version__,
    }
    return made


@lru_cache(maxsize=1)
def style() -> str:
    """Write the style sheet."""
    return "\n".join(environment().get_template(name).render() for name in STYLE)
