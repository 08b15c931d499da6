"""Templates of the pages: each is filled in from the fields of one dataclass, its context."""

from __future__ import annotations

from dataclasses import fields
from functools import lru_cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from unikat.errors import on_page
from unikat.report.pages import colours
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


def fill(name: str, context: Any) -> str:
    """Render a page from a dataclass: a template may use its fields, and what all share."""
    values = {field.name: getattr(context, field.name) for field in fields(context)}
    return template(name).render(values)


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
