"""The page that says what went wrong, where no other page can."""

from __future__ import annotations

from dataclasses import dataclass

from unikat.web.workbench import Nav


@dataclass(frozen=True, kw_only=True)
class ProblemPage:
    """The context of `problem.html.j2`."""

    title: str
    nav: Nav
    message: str
