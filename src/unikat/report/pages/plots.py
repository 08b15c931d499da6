"""The figures of an answer one by one, for notebooks and papers.

Each function returns a `Figure`, which shows itself in a notebook and saves itself to a file.
"""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from html import escape
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from unikat._typing import Float64
from unikat.errors import SpecError, brief
from unikat.files.writing import replace_file
from unikat.report.facts.result import Result
from unikat.report.pages.canvas import WIDE, Drawing
from unikat.report.pages.colours import DARK, LIGHT, declared
from unikat.report.pages.figures import drawings
from unikat.report.pages.template import CONTENT_POLICY, template

if TYPE_CHECKING:
    import pandas as pd

_SHAPES: dict[str, list[tuple[str, dict[str, str]]]] = {
    "histogram": [("bar", {"x": "x_lower", "x2": "x_upper", "y": "y"})],
    "bar": [("bar", {"y": "name", "x": "x"})],
    "interval": [
        ("rule", {"y": "name", "x": "x_lower", "x2": "x_upper"}), ("point", {"y": "name", "x": "x"})
    ],
    "line": [("line", {"x": "x", "y": "y"})],
    "point": [
        ("point", {"x": "x", "y": "y"}), ("rule", {"x": "x", "y": "y_lower", "y2": "y_upper"})
    ],
    "cell": [("rect", {"y": "name", "x": "x", "color": "value"})],
}  # fmt: skip
"""Marks of Vega-Lite and their channels, for each mark of a figure (`Canvas.datum`)."""
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
    axis: str = ""
    """Words below its horizontal axis."""
    data: Sequence[Mapping[str, Any]] = ()
    """A row for each mark (`Canvas.datum`)."""

    @property
    def frame(self) -> pd.DataFrame:
        """Its numbers as a pandas frame, a row for each mark."""
        import pandas as pd

        return pd.DataFrame(list(self.data))

    def vega(self) -> dict[str, Any]:
        """Return the figure as a specification of Vega-Lite, with its data.

        JupyterLab, Observable and Altair show it. Scales are plain, and words are fewer.

        Raises
        ------
        SpecError
            If there is nothing to show.

        Examples
        --------
        >>> row = {"mark": "bar", "name": "age", "x": 0.4}
        >>> Figure(svg="", alt="Keys.", data=[row]).vega()["layer"][0]["mark"]
        {'type': 'bar', 'tooltip': True}
        """
        if not self.data:
            raise SpecError("The figure has no mark, since there is nothing to show.")
        layers = [layer for mark in dict.fromkeys(row["mark"] for row in self.data)
                  for layer in self._layers(mark)]  # fmt: skip
        values = [
            {name: None if value != value else value for name, value in row.items()}
            for row in self.data
        ]
        return {
            "$schema": "https://vega.github.io/schema/vega-lite/v5.json",
            "description": self.alt,
            "data": {"values": values},
            "layer": layers,
        }

    def _layers(self, mark: str) -> Iterator[dict[str, Any]]:
        rows = [row for row in self.data if row["mark"] == mark]
        for shape, fields in _SHAPES[mark]:
            if not all(field in rows[0] for field in fields.values()):
                continue
            encoding: dict[str, Any] = {}
            for channel, field in fields.items():
                text = any(isinstance(row.get(field), str) for row in rows)
                encoding[channel] = {"field": field}
                if not channel.endswith("2"):
                    title = self.axis if channel == "x" else None
                    kind = "nominal" if text else "quantitative"
                    words = title or (None if field in ("name", "y") else field)
                    encoding[channel] |= {"type": kind, "title": words}
                if text:
                    encoding[channel]["sort"] = None
            if mark == "histogram":
                encoding["x"]["bin"], encoding["y"]["stack"] = "binned", None
            if len({row.get("series") for row in rows}) > 1:
                series = {"field": "series", "type": "nominal", "sort": None}
                encoding["color"], encoding["opacity"] = series, {"value": 0.7}
                if mark == "interval":
                    encoding["yOffset"] = series
            yield {
                "transform": [{"filter": f"datum.mark === '{mark}'"}],
                "mark": {"type": shape, "tooltip": True},
                "encoding": encoding,
            }

    def to_altair(self) -> Any:
        """Return the figure as a chart of Altair, which can be changed.

        Raises
        ------
        SpecError
            If Altair is not installed, or there is nothing to show.
        """
        try:
            altair = import_module("altair")
        except ImportError:
            raise SpecError(
                "A chart of Altair needs Altair: pip install altair. Without it .vega() gives the "
                "same as a specification of Vega-Lite, and .frame its numbers."
            ) from None
        return altair.Chart.from_dict(self.vega())

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
    """Draw a figure of the report (by its name in `drawings`) on white paper."""
    drawn = drawings(result, traces)
    if name not in drawn:
        _refuse(name, result)
    return by_itself(drawn[name])


def by_itself(drawn: Drawing) -> Figure:
    """Return a figure of a page on white paper."""
    # The style goes behind the description, which is the first thing in a picture.
    opening, rest = drawn.wide.split("</desc>", 1)
    svg = f"{opening}</desc>{_style_of_file()}{rest}"
    return Figure(svg=svg, alt=drawn.alt, axis=drawn.axis, data=drawn.data)


class Figures:
    """Figures of an answer by name, as its page has them: ``.plot.tau1()``; printed, it lists them.

    Called, ``.plot()``, it draws the first.
    """

    def __init__(self, drawn: Mapping[str, Drawing]) -> None:
        self._drawn = drawn

    def __getattr__(self, name: str) -> Callable[[], Figure]:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._drawn:
            raise AttributeError(f"There is no figure {brief(name)!r} here. {self!r}")
        return partial(by_itself, self._drawn[name])

    def __call__(self) -> Figure:
        """Draw the first."""
        if not self._drawn:
            raise SpecError("This answer has no figure; its page has tables alone: .to_html().")
        return by_itself(next(iter(self._drawn.values())))

    def __dir__(self) -> list[str]:
        return list(self._drawn)

    def __repr__(self) -> str:
        return f"Figures: {' '.join(f'.plot.{name}()' for name in self._drawn) or 'none'}"


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
