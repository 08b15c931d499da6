"""Layout of figures: no text is cut or overlaps another.

Every figure is drawn twice, for a page and for a phone; the style sheet shows the one that fits. No
browser is asked how wide a text is: widths are those of the widest common typeface, so a text takes
its room or less. Words that do not fit side by side go below each other. Long names are broken
into lines and, at last, lose their middle; numbers never do.
"""

from __future__ import annotations

import math
import re
import unicodedata
from bisect import bisect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, wraps
from html import escape
from typing import Any, Concatenate, ParamSpec
from zlib import crc32

from unikat.report.text.numbers import localised

WIDE, NARROW = 680, 288
"""Widths that figures are drawn for, in pixels at their usual size."""
_SIZES = {"label": 12.0, "caption": 12.0, "tiny": 11.0, "name": 13.0, "strong": 13.0}
"""Sizes of type, as in the style sheet."""
_LINE, _BASE = 1.4, 1.08
"""Height of a line and place of its base, as parts of the size."""
_EDGE, _GAP = 2.0, 12.0
_WIDTHS = (
    (0.35, " \u00a0\u202f,./:;\\|'’ijl"), (0.4, "()-[]ft"), (0.45, "IJ!r"), (0.5, '"*_`'),
    (0.55, "?csz"), (0.6, "FLkvxy"), (0.65, "0123456789$EPSTYabdeghnopqu{}τ"),
    (0.7, "ABCKRVXZ"), (0.75, "NU"), (0.85, "#+<=>^w~&DGHOQ−±×"), (0.9, "M"), (1.0, "%@Wm"),
)  # fmt: skip
"""Widths of characters, as parts of the size: those of DejaVu Sans and Verdana, rounded up."""
_WIDTH_OF = {character: width for width, characters in _WIDTHS for character in characters}
_BOLD = 1.15
_BREAKS = ":=+,;_-/.|&"
"""A word too long for a line is broken after one of these, if it has any."""
_BLANKS = re.compile(r"[^\S\u00a0\u202f]+")
"""Where a line may end: at no blank that holds a sign to its number."""
_MOST_LINES = 3


def text_width(words: str, kind: str = "label") -> float:
    """Width that words take at most.

    Examples
    --------
    >>> text_width("leaves 110") > text_width("leaves 11") > 40
    True
    """
    em = sum(map(_advance, words))
    return em * _SIZES[kind] * (_BOLD if kind == "strong" else 1.0)


@lru_cache(maxsize=4096)
def _advance(character: str) -> float:
    """Width of a character as a part of the size."""
    character = unicodedata.normalize("NFD", character)[0]
    if character in _WIDTH_OF:
        return _WIDTH_OF[character]
    if unicodedata.combining(character):
        return 0.0
    return 0.75 if character.islower() else 1.1


def wrapped(words: str, width: float, kind: str = "label") -> list[str]:
    r"""Break words into lines that fit.

    Examples
    --------
    >>> wrapped("median 52, 95% between 37 and 68", 130)
    ['median 52, 95%', 'between 37 and 68']
    >>> wrapped("médiane 52, 95\u00a0% entre 37 et 68", 105)
    ['médiane 52,', '95\xa0% entre 37', 'et 68']
    """
    lines = [""]
    for word in _BLANKS.split(words.strip()):
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, kind) <= width:
            lines[-1] = longer
            continue
        if lines[-1]:
            lines.append("")
        while text_width(word, kind) > width and len(word) > 1:
            n_fit = max(
                bisect(range(1, len(word)), width, key=lambda n: text_width(word[:n], kind)), 1
            )
            at = max((n for n in range(1, n_fit + 1) if word[n - 1] in _BREAKS), default=n_fit)
            lines[-1], word = word[:at], word[at:]
            lines.append("")
        lines[-1] = word
    return lines


def shortened(name: str, width: float, kind: str, most: int = _MOST_LINES) -> list[str]:
    """Break a name into lines that fit; without its middle if there are more than `most`.

    Examples
    --------
    >>> shortened("a" * 60, 100, "label", most=1)
    ['aaaaaa…aaaaa']
    """

    def kept(n_characters: int) -> list[str]:
        head = name[: math.ceil(n_characters / 2)].rstrip()
        return wrapped(f"{head}…{name[len(name) - n_characters // 2 :].lstrip()}", width, kind)

    lines = wrapped(name, width, kind)
    if len(lines) <= most:
        return lines
    n_kept = bisect(range(1, len(name)), most, key=lambda n: len(kept(n)))
    while len(lines := kept(n_kept)) > most and n_kept > 1:
        # Where lines break, one character less may take a line more.
        n_kept -= 1
    return lines


def ticks(low: float, high: float, most: int) -> list[float]:
    """At most about `most` round numbers between low and high."""
    span = max(high - low, 1e-12)
    step = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= most:
            step *= factor
            break
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def tick_text(value: float) -> str:
    """Write the number at a tick.

    Examples
    --------
    >>> tick_text(1500000.0), tick_text(-0.25)
    ('1,500,000', '−0.25')
    """
    return localised(f"{value:,.15g}")


def span(ends: Iterable[Sequence[float]], part: float, least: float = 0.0) -> tuple[float, float]:
    """Ends of a scale: the extremes with a margin, a part of the range or at least so much."""
    values = [value for one in ends for value in one]
    if not values:
        return 0.0, 1.0
    low, high = min(values), max(values)
    pad = max(part * (high - low), least)
    return low - pad, high + pad


SHAPES: Mapping[str, Sequence[tuple[float, float]]] = {
    "square": [(-0.89, -0.89), (0.89, -0.89), (0.89, 0.89), (-0.89, 0.89)],
    "triangle": [(0.0, -1.35), (1.25, 0.85), (-1.25, 0.85)],
    "diamond": [(0.0, -1.3), (1.3, 0.0), (0.0, 1.3), (-1.3, 0.0)],
}
"""Corners of marks of about the area of a circle of radius 1."""


class Canvas:
    """A figure in the making: words from the top down, and areas with two scales between them."""

    def __init__(self, width: int) -> None:
        self.width = width
        self.left, self.right = _EDGE, width - _EDGE
        self.top = self.bottom = 0.0
        self.x_range = self.y_range = (0.0, 1.0)
        self.cursor = 2.0
        """Where the next thing goes, from the top."""
        self.parts: list[str] = []
        self.role = "img"
        """What screen readers take it for; a picture with links in it is a `group`."""
        self.title = self.details = ""
        """What the figure shows, and its numbers, for those who cannot see it."""
        self.data: list[dict[str, Any]] = []
        """What is drawn, as numbers: a row for each mark (`datum`)."""
        self.axis = self.named = ""
        """Words below the horizontal axis; the last name of a row."""
        self.marks: list[float] = []
        """Ticks of rows that share a horizontal scale (`begin_rows`)."""

    @property
    def narrow(self) -> bool:
        """Whether the figure is drawn for a phone."""
        return self.width < WIDE

    def inset(self, margin: float = 14.0) -> None:
        """Leave a margin on the left and on the right of the areas."""
        self.left += margin
        self.right -= margin

    def describe(self, title: str, details: Iterable[str]) -> None:
        """Say what the figure shows, and its numbers in sentences."""
        self.title, self.details = title, " ".join(details)

    def datum(self, mark: str, **values: Any) -> None:
        """Tell a mark in numbers, for who draws it elsewhere (`plots.Figure.vega`).

        Parameters
        ----------
        mark
            `histogram` (x_lower, x_upper, y), `bar` (name, x), `interval` (name, x_lower, x,
            x_upper), `line` and `point` (x, y), or `cell` (name, x, value).
        **values
            Of the mark; `series` tells apart what the figure does by a colour or a place.
        """
        self.data.append({"mark": mark, **values})

    def area(self, height: float) -> None:
        """Begin an area with scales, so high, below what is there."""
        self.top = self.cursor
        self.bottom = self.cursor = self.top + height

    def panel(
        self, title: str, height: float, y_range: tuple[float, float], marks: Sequence[float]
    ) -> None:
        """Begin an area with a title and a vertical scale, for which `y_margin` has made room."""
        self.words(title, "strong", self.left, "start")
        self.cursor += 8
        self.area(height)
        self.y_range = y_range
        self.y_axis(marks)

    def x(self, value: float) -> float:
        """Place of a value on the horizontal scale."""
        low, high = self.x_range
        high = high if high > low else low + 1.0
        return self.left + (self.right - self.left) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Place of a value on the vertical scale."""
        low, high = self.y_range
        high = high if high > low else low + 1.0
        return self.bottom - (self.bottom - self.top) * (value - low) / (high - low)

    def rect(
        self,
        box: tuple[float, float, float, float],
        kind: str,
        title: str = "",
        *,
        below: bool = False,
    ) -> None:
        """Add a rectangle (x, y, width, height), with a tooltip; below all else, if asked."""
        x, y, width, height = box
        self._add(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
            f'height="{max(height, 0):.1f}">{_tip(title)}</rect>',
            below,
        )

    def line(
        self,
        start: tuple[float, float],
        end: tuple[float, float],
        kind: str,
        *,
        below: bool = False,
    ) -> None:
        """Add a straight line; below all else, if asked."""
        self._add(
            f'<line class="{kind}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" '
            f'x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>',
            below,
        )

    def interval(
        self,
        values: Iterable[float],
        across: float,
        tip: str,
        kinds: tuple[str, str],
        *,
        upright: bool = False,
        **told: str,
    ) -> None:
        """Add an interval (lower end, middle, upper end) and a square in its middle.

        `told` are name and series of its row in `data`; the name is that of the last row if it has
        none.
        """
        values = tuple(values)
        ends = dict(zip(("x_lower", "x", "x_upper"), values, strict=True))
        self.datum("interval", **{"name": self.named} | told, **ends)
        low, middle, high = map(self.y if upright else self.x, values)
        low, high = sorted((low, high))
        length = max(high - low, 1.0)
        boxes = [(low, across - 2.5, length, 5.0), (middle - 4, across - 4, 8.0, 8.0)]
        for (x, y, width, height), kind in zip(boxes, kinds, strict=True):
            self.rect((y, x, height, width) if upright else (x, y, width, height), kind, tip)

    def dot(
        self, place: tuple[float, float], radius: float, kind: str, title: str, shape: str = ""
    ) -> None:
        """Add a circle or one of `SHAPES` of the same area, with a tooltip."""
        x, y = place
        if corners := SHAPES.get(shape):
            steps = " ".join(f"{x + radius * dx:.1f},{y + radius * dy:.1f}" for dx, dy in corners)
            form = "polygon", f'points="{steps}"'
        else:
            form = "circle", f'cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"'
        self.parts.append(f'<{form[0]} class="{kind}" {form[1]}>{_tip(title)}</{form[0]}>')

    def link(
        self,
        address: str,
        place: tuple[float, float],
        words: str,
        *,
        here: bool,
        kind: str = "",
        shape: str = "",
    ) -> None:
        """Add a point that leads to a page; its area is larger than what is seen.

        It is no stop of the keyboard: there may be a hundred, so a list beside them has them, too.
        kind, shape: as of `dot`.
        """
        x, y = place
        current = ' aria-current="true"' if here else ""
        self.parts.append(
            f'<a href="{escape(address)}" aria-label="{escape(words)}" tabindex="-1"{current}>'
            f'<circle class="aim" cx="{x:.1f}" cy="{y:.1f}" r="12"/>'
        )
        self.dot(place, 6 if here else 3.5, kind or ("bar" if here else "bar-mid"), words, shape)
        self.parts.append("</a>")

    def path(self, points: Sequence[tuple[float, float]], kind: str, title: str) -> None:
        """Add a line through points, with a tooltip."""
        steps = " ".join(
            f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points)
        )
        self.parts.append(f'<path class="{kind}" d="{steps}">{_tip(title)}</path>')

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str = "middle",
        kind: str = "label",
        title: str = "",
    ) -> None:
        """Add one line of words on a base line, moved sideways where it would leave the figure."""
        x += self._span(x, words, anchor, kind)[0] - _start(x, words, anchor, kind)
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{_tip(title)}{escape(words)}</text>"
        )

    def words(
        self, words: str, kind: str = "caption", at: float | None = None, anchor: str = "middle"
    ) -> None:
        """Add words below what is there, in as many lines as they need."""
        place = self.width / 2 if at is None else at
        for line in _balanced(words, self.width - 2 * _EDGE, kind):
            self.text(place, self.cursor + _BASE * _SIZES[kind], line, anchor, kind)
            self.cursor += line_height(kind)

    def name(
        self,
        name: str,
        x: float = _EDGE,
        width: float = math.inf,
        anchor: str = "start",
        kind: str = "name",
    ) -> None:
        """Add a name below what is there; the tooltip of a shortened name has all of it."""
        self.named = name
        lines = shortened(name, min(width, self.width - 2 * _EDGE), kind)
        title = name if any("…" in line for line in lines) else ""
        for line in lines:
            self.text(x, self.cursor + _BASE * _SIZES[kind], line, anchor, kind, title)
            self.cursor += line_height(kind)

    def row(self, name: str, words: str, kinds: tuple[str, str] = ("name", "label")) -> None:
        """Add a name on the left and words on the right, or below it if both have no room."""
        begin, width = self.cursor, self.width - 2 * _EDGE
        room = width - text_width(words, kinds[1]) - _GAP
        if fits := text_width(name, kinds[0]) <= room or room >= 0.55 * width:
            width = room
        self.name(name, width=width, kind=kinds[0])
        end = self.cursor
        if fits:
            # On one base line, whatever the sizes.
            self.cursor = begin + _BASE * (_SIZES[kinds[0]] - _SIZES[kinds[1]])
        self.words(words, kinds[1], self.width - _EDGE, "end")
        self.cursor = max(self.cursor, end)

    def begin_rows(self, low: float, high: float, most: int = 8) -> None:
        """Begin rows on one horizontal scale, with at most so many ticks."""
        self.x_range = (low, high)
        self.marks = self.x_ticks(most)
        self.area(0)

    def end_rows(self, caption: str) -> None:
        """End the rows: grid lines behind them, and the axis below."""
        self.bottom = self.cursor
        for mark in self.marks:
            place = self.x(mark)
            self.line((place, self.top), (place, self.bottom), "grid", below=True)
        self.x_axis(self.marks, caption)

    def x_ticks(self, most: int, *, whole: bool = False) -> list[float]:
        """As many round numbers of the horizontal scale as can stand side by side."""
        marks: list[float] = []
        for n_asked in range(most, 0, -1):
            marks = ticks(*self.x_range, n_asked)
            if whole:
                marks = [mark for mark in marks if mark == round(mark)]
            places = [(self.x(mark), tick_text(mark)) for mark in marks]
            if places == self._apart(places):
                return marks
        return marks[:1]

    def x_axis(self, marks: Sequence[float], caption: str) -> None:
        """Add the horizontal axis below the area, with its ticks and the words under it."""
        places = [(self.x(mark), tick_text(mark)) for mark in marks]
        self.categories(places, caption, ticked=True)

    def categories(
        self, places: Sequence[tuple[float, str]], caption: str, *, ticked: bool = False
    ) -> None:
        """Add the horizontal axis with words at places; words without room are left out."""
        self.axis = caption
        self.line((self.left, self.bottom), (self.right, self.bottom), "axis")
        for x, _ in places:
            if ticked:
                self.line((x, self.bottom), (x, self.bottom + 4), "axis")
        for x, words in self._apart(places):
            self.text(x, self.bottom + 21, words)
        self.cursor = self.bottom + 29
        self.words(caption, at=(self.left + self.right) / 2)

    def y_margin(self, marks: Sequence[float]) -> None:
        """Make room on the left for the numbers of the vertical scale."""
        self.left = _EDGE + 7 + max((text_width(tick_text(mark)) for mark in marks), default=0.0)

    def y_axis(self, marks: Sequence[float]) -> None:
        """Add horizontal grid lines with their numbers; `y_margin` has made room for them."""
        for mark in marks:
            self.line((self.left, self.y(mark)), (self.right, self.y(mark)), "grid")
            self.text(self.left - 7, self.y(mark) + 4, tick_text(mark), anchor="end")

    def svg(self, kind: str) -> str:
        """Return the picture; screen readers speak its title and its numbers."""
        height = math.ceil(self.cursor + 2)
        name = f"{kind}-{crc32(f'{self.title} {self.details}'.encode()):08x}"
        return (
            f'<svg class="unikat {kind}" viewBox="0 0 {self.width} {height}" '
            f'width="{self.width}" height="{height}" role="{self.role}" '
            f'aria-labelledby="{name}-title {name}-desc" xmlns="http://www.w3.org/2000/svg">'
            f'<title id="{name}-title">{escape(self.title)}</title>'
            f'<desc id="{name}-desc">{escape(self.details)}</desc>{"".join(self.parts)}</svg>'
        )

    def _add(self, part: str, below: bool) -> None:
        self.parts.insert(0 if below else len(self.parts), part)

    def _span(self, x: float, words: str, anchor: str, kind: str) -> tuple[float, float]:
        """Left and right end of words, moved into the figure."""
        width = text_width(words, kind)
        start = _start(x, words, anchor, kind)
        start = max(min(start, self.width - _EDGE - width), _EDGE)
        return start, start + width

    def _apart(self, places: Sequence[tuple[float, str]]) -> list[tuple[float, str]]:
        """Places whose words, centred there, do not touch those of the places before."""
        kept, end = [], -math.inf
        for x, words in places:
            left, right = self._span(x, words, "middle", "label")
            if left >= end + 6:
                kept.append((x, words))
                end = right
        return kept


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """A figure for a page and for a phone."""

    wide: str
    narrow: str
    alt: str
    """What it shows, with its numbers."""
    axis: str = ""
    """Words below its horizontal axis."""
    data: Sequence[Mapping[str, Any]] = ()
    """A row for each mark (`Canvas.datum`)."""
    section: str = ""
    """Of the technical part, by its anchor, which shows it; empty if a template places it."""
    caption: str = ""
    """Below it in its section."""

    def __html__(self) -> str:
        """Both, for a page's template; the style sheet shows the one that fits."""
        return f"{self.wide}\n{self.narrow}"

    def placed(self, section: str, caption: str) -> Drawing:
        """Return the figure of a section, with its caption."""
        return replace(self, section=section, caption=caption)


_P = ParamSpec("_P")


def drawing(draw: Callable[Concatenate[Canvas, _P], None]) -> Callable[_P, Drawing]:
    """Make a function that draws on a canvas draw for a page and for a phone."""

    @wraps(draw)
    def both(*args: _P.args, **kwargs: _P.kwargs) -> Drawing:
        wide, narrow = Canvas(WIDE), Canvas(NARROW)
        for canvas in (wide, narrow):
            draw(canvas, *args, **kwargs)
        return Drawing(
            wide=wide.svg("unikat-wide"),
            narrow=narrow.svg("unikat-narrow"),
            alt=f"{wide.title}. {wide.details}",
            axis=wide.axis,
            data=tuple(wide.data),
        )

    return both


def line_height(kind: str) -> float:
    """Height of a line of words."""
    return _LINE * _SIZES[kind]


def _balanced(words: str, width: float, kind: str) -> list[str]:
    """Break words into as few lines as fit, of about the same length."""
    lines = wrapped(words, width, kind)
    while len(narrower := wrapped(words, width := width - 4.0, kind)) <= len(lines) and width > 80:
        lines = narrower
    return lines


def _start(x: float, words: str, anchor: str, kind: str) -> float:
    """Left end of words at a place."""
    return x - {"start": 0.0, "middle": 0.5, "end": 1.0}[anchor] * text_width(words, kind)


def _tip(title: str) -> str:
    return f"<title>{escape(title)}</title>" if title else ""
