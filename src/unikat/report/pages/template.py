"""Templates of the pages: each is filled in from the fields of one dataclass, its context."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from unikat.errors import on_page
from unikat.report.pages import colours
from unikat.report.pages.canvas import Drawing
from unikat.report.text import (
    comparison,
    evaluation,
    language,
    numbers,
    sentences,
    words,
    zeros,
)
from unikat.report.text.warned import warned

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
"""Nothing is loaded and no script runs, whatever a page holds."""


class Page(str):
    """A page, which knows what it draws."""

    context: Any

    @property
    def drawings(self) -> dict[str, Drawing]:
        """Its figures by name, in the order of the fields of its context."""
        return dict(_drawings("", self.context))


def _drawings(name: str, value: Any) -> Iterator[tuple[str, Drawing]]:
    if isinstance(value, Drawing):
        yield name, value
    elif isinstance(value, Mapping):
        for key, one in value.items():
            yield from _drawings(str(key), one)
    elif isinstance(value, (list, tuple)):
        drawn = [found for one in value if (found := [*_drawings(name, one)])]
        for place, found in enumerate(drawn, start=1):
            yield from ((f"{of}_{place}" if len(drawn) > 1 else of, one) for of, one in found)
    elif is_dataclass(value) and type(value).__module__.startswith(__package__ or ""):
        for field in fields(value):
            of = name if name and field.name == "figure" else field.name
            yield from _drawings(of, getattr(value, field.name))


def fill(name: str, context: Any) -> Page:
    """Render a page from a dataclass: a template may use its fields, and what all share."""
    values = {field.name: getattr(context, field.name) for field in fields(context)}
    page = Page(template(name).render(values))
    page.context = context
    return page


@lru_cache(maxsize=8)
def template(name: str) -> Template:
    """Load a template."""
    return environment().get_template(name)


@lru_cache(maxsize=1)
def environment() -> Environment:
    """Make what all templates share: values are escaped, and an unknown name is an error."""
    made = Environment(
        loader=PackageLoader("unikat.report.pages"),
        autoescape=True,
        finalize=on_page,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals |= {
        "policy": CONTENT_POLICY,
        "colours": Markup(colours.style()),
        "language": language.current,
        "office": language.office,
        "say": words.say,
        "number": numbers.number,
        "counted": words.counted,
        "percent": numbers.percent,
        "interval": numbers.interval,
        "duration": numbers.duration,
        "sentences": sentences,
        "comparison": comparison,
        "evaluation": evaluation,
        "zero_rules": zeros,
        "warned": warned,
    }
    return made
