"""The figures of an assessment one by one, for notebooks and papers.

Each function returns a `Figure`, which shows itself in a notebook and saves itself to a file.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import NoReturn

from unikat._typing import Float64
from unikat.errors import SpecError
from unikat.files.writing import replace_file
from unikat.report.facts.result import Result
from unikat.report.pages.canvas import WIDE
from unikat.report.pages.colours import DARK, LIGHT, declared
from unikat.report.pages.figures import drawings
from unikat.report.pages.template import CONTENT_POLICY, template

_SMALLEST = 600
"""Least width in pixels at which the text of a figure can be read."""


@dataclass(frozen=True, repr=False)
class Figure:
    """A figure that a notebook shows.

    Examples
    --------
    >>> figure = Figure(svg="<svg/>", alt="Posterior distribution of τ1: median 52.")
    >>> figure
    <Figure: Posterior distribution of τ1: median 52.>
    """

    svg: str
    """The picture on white paper; it needs no style sheet and no network."""
    alt: str
    """What it shows, with its numbers."""

    def __repr__(self) -> str:
        """Say in one line what the figure shows."""
        return f"<Figure: {textwrap.shorten(self.alt, 100, placeholder=' …')}>"

    def _repr_svg_(self) -> str:
        """Show the picture where HTML cannot be shown."""
        return self.svg

    def _repr_html_(self) -> str:
        """Show the picture in a notebook, in the colours of its theme."""
        themed = self.svg.replace(_style_of_file(), _style_of_page(), 1)
        return (
            f'<div class="unikat-box" tabindex="0" role="group" aria-label="Figure">{themed}</div>'
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the figure to a file that you alone can read; one that is there is replaced.

        Parameters
        ----------
        path
            The file: `.svg` for a picture, `.html` for a page.

        Raises
        ------
        SpecError
            If the name ends otherwise.
        OutputError
            If the file cannot be written.
        """
        target = Path(path)
        suffix = target.suffix.lower()
        if suffix not in (".svg", ".html"):
            raise SpecError(
                f"A figure cannot be saved as {target.name!r}: the name must end in .svg or .html."
            )
        replace_file(target, (self.svg if suffix == ".svg" else self._page()).encode())

    def _page(self) -> str:
        return (
            '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{CONTENT_POLICY}">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{escape(self.alt)}</title>\n</head>\n<body>\n{self._repr_html_()}\n"
            "</body>\n</html>\n"
        )


def figure(name: str, result: Result, traces: Mapping[str, Float64]) -> Figure:
    """Draw a figure of the report (by its name in `drawings`) on white paper.

    Raises
    ------
    SpecError
        If there is nothing to show, with the reason.
    """
    drawn = drawings(result, traces)
    if name not in drawn:
        _refuse(name, result)
    # The style goes behind the description, which is the first thing in a picture.
    opening, rest = drawn[name].wide.split("</desc>", 1)
    return Figure(svg=f"{opening}</desc>{_style_of_file()}{rest}", alt=drawn[name].alt)


def _refuse(name: str, result: Result) -> NoReturn:
    """Say why a figure has nothing to show."""
    if result.known_exactly and name != "keys":
        why = "The risk is known exactly, so there is nothing to draw: see result.tau1."
    elif name == "trace":
        why = "This model draws without chains, so there is no trace of chains to draw."
    elif name in ("tau1", "tau2"):
        why = f"The draws of {name} are missing: hand over the traces of the run."
    elif name == "records":
        why = "No record is unique in the file, so there is no risk of records to draw."
    else:
        why = "The fall of τ1 without each key was not computed for this run."
    raise SpecError(why)


@lru_cache(maxsize=1)
def _style_of_file() -> str:
    """Style of a picture by itself, on white paper; many programs know no custom properties."""
    rules = template("figure.css.j2").render()
    for name, colour in LIGHT.items():
        rules = rules.replace(f"var(--{name})", colour)
    return f"<style>\n{rules}.unikat {{ background: {LIGHT['paper']}; }}\n</style>"


def theme(selector: str) -> str:
    """Colours of what a notebook shows: its theme decides, or what the reader prefers."""
    light, dark = f"{{ {declared(LIGHT)} }}", f"{{ {declared(DARK)} }}"

    def within(*surroundings: str) -> str:
        return ", ".join(f"{one} {selector}" for one in surroundings)

    lit = within('[data-jp-theme-light="true"]', '[data-theme="light"]', ".vscode-light")
    dim = within('[data-jp-theme-light="false"]', '[data-theme="dark"]', ".vscode-dark")
    return (
        f"\n{selector} {light}\n"
        f"@media screen and (prefers-color-scheme: dark) {{ {selector} {dark} }}\n"
        f"{lit} {light}\n{dim} {dark}\n"
    )


@lru_cache(maxsize=1)
def _style_of_page() -> str:
    """Style of a picture in a notebook."""
    rules = template("figure.css.j2").render()
    return (
        f"<style>{theme('.unikat')}{rules}"
        f".unikat {{ background: var(--paper); width: 100%; min-width: {_SMALLEST}px; "
        f"max-width: {WIDE}px; height: auto; }}\n"
        ".unikat-box { overflow-x: auto; }\n</style>"
    )
