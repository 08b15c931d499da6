"""Small pictures of the workbench, without words in them: what they show stands beside them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from markupsafe import Markup, escape

from unikat.report.pages.canvas import Canvas, drawing, span, ticks
from unikat.report.text.numbers import number, to
from unikat.report.text.words import say

_WIDTH, _HEIGHT, _GAP = 96.0, 24.0, 1.0
_WIDE, _TALL = 240.0, 48.0
MOST_DRAWN = 80
"""Columns of the picture of groups."""


def bars(shares: Sequence[float], name: str) -> Markup:
    """Draw how the records of a column are distributed over its levels.

    Examples
    --------
    >>> "<rect" in bars((1.0, 0.5), "SEX"), str(bars((), "SEX"))
    (True, '')
    """
    if not shares:
        return Markup("")
    width = _WIDTH / len(shares)
    drawn = "".join(
        f'<rect class="bar" x="{i * width:.1f}" y="{_HEIGHT * (1 - share):.1f}" '
        f'width="{max(width - _GAP, 1):.1f}" height="{max(_HEIGHT * share, 0.5):.1f}"/>'
        for i, share in enumerate(shares)
    )
    called = escape(say("web.pictures.distribution", name=name))
    return Markup(
        f'<svg class="unikat bars" viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" '
        f'preserveAspectRatio="none"><title>{called}</title>{drawn}</svg>'
    )


def group_bars(labels: Sequence[str], counts: Sequence[int], said: str) -> Markup:
    """Draw the records of each group of a key; each column tells its group when it is pointed at.

    Where there are more groups than can be drawn, neighbours stand together.

    Examples
    --------
    >>> "<title>0-9: 12 records</title>" in group_bars(("0-9", "10-19"), (12, 1), "AGE, 2 groups")
    True
    """
    together = -(-len(counts) // MOST_DRAWN)
    starts = range(0, len(counts), together)
    sums = [sum(counts[start : start + together]) for start in starts]
    width = _WIDE / len(sums)
    drawn = []
    for i, (start, n) in enumerate(zip(starts, sums, strict=True)):
        first, last = labels[start], labels[min(start + together, len(labels)) - 1]
        called = first if first == last else to(first, last)
        share = n / max(*sums, 1)
        drawn.append(
            f'<g class="column"><title>{escape(called)}: {few(n)}</title>'
            f'<rect class="ground" x="{i * width:.2f}" y="0" width="{width:.2f}" '
            f'height="{_TALL:.0f}"/><rect class="bar" x="{i * width:.2f}" '
            f'y="{_TALL * (1 - share):.1f}" width="{max(width - min(_GAP, width / 4), 0.5):.2f}" '
            f'height="{max(_TALL * share, 0.5):.1f}"/></g>'
        )
    return Markup(
        f'<svg class="unikat columns" viewBox="0 0 {_WIDE:.0f} {_TALL:.0f}" role="img" '
        f'aria-label="{escape(said)}" preserveAspectRatio="none">{"".join(drawn)}</svg>'
    )


def pair_bars(before: Sequence[float], after: Sequence[float], said: str) -> Markup:
    """Draw the records by range of numbers as they are, and as lines what they become.

    Examples
    --------
    >>> str(pair_bars((1.0, 0.5), (0.5, 1.0), "wage")).count("<rect")
    2
    """
    width = _WIDE / max(len(before), 1)
    drawn = "".join(
        f'<rect class="bar even" x="{i * width:.2f}" y="{_TALL * (1 - share):.1f}" '
        f'width="{max(width - _GAP, 0.5):.2f}" height="{_TALL * share:.1f}"/>'
        for i, share in enumerate(before)
    )
    steps = "".join(
        f"{'L' if i else 'M'}{i * width:.2f} {_TALL * (1 - share):.1f}H{(i + 1) * width:.2f}"
        for i, share in enumerate(after)
    )
    return Markup(
        f'<svg class="unikat bands twice" viewBox="0 0 {_WIDE:.0f} {_TALL:.0f}" role="img" '
        f'aria-label="{escape(said)}" preserveAspectRatio="none">{drawn}'
        f'<path class="line" d="{steps}"/></svg>'
    )


def band_bars(counts: Sequence[int], edges: Sequence[Any]) -> Markup:
    """Draw the records of each level in order, those of every other band lighter.

    Parameters
    ----------
    counts
        Of each level.
    edges
        Beginnings of bands, `place` being the number of levels below.

    Examples
    --------
    >>> from types import SimpleNamespace
    >>> band_bars((3, 1, 2), [SimpleNamespace(place=1)]).count("bar even")
    2
    """
    width, most = _WIDE / max(len(counts), 1), max(*counts, 1)
    starts = [edge.place for edge in edges]
    drawn = "".join(
        f'<rect class="bar{" even" if sum(start <= i for start in starts) % 2 else ""}" '
        f'x="{i * width:.2f}" y="{_TALL * (1 - n / most):.1f}" '
        f'width="{max(width - min(_GAP, width / 4), 0.5):.2f}" '
        f'height="{max(_TALL * n / most, 0.5):.1f}"/>'
        for i, n in enumerate(counts)
    )
    return Markup(
        f'<svg class="unikat bands" viewBox="0 0 {_WIDE:.0f} {_TALL:.0f}" aria-hidden="true" '
        f'preserveAspectRatio="none">{drawn}</svg>'
    )


def drops(keys: Sequence[tuple[str, float]], r1: float) -> Markup:
    """Draw how much of a record's r1 each key carries: by how much it falls without the key.

    Examples
    --------
    >>> str(drops((("AGE", 0.4), ("SEX", 0.1)), 0.5)).count("<rect")
    4
    """
    height = 5.0
    drawn = "".join(
        f'<rect class="ground" x="0" y="{i * height:.0f}" width="{_WIDTH * min(r1, 1.0):.1f}" '
        f'height="{height - 1:.0f}"/><rect class="bar" x="0" y="{i * height:.0f}" '
        f'width="{_WIDTH * min(max(drop, 0.0), 1.0):.1f}" height="{height - 1:.0f}"/>'
        for i, (_, drop) in enumerate(keys)
    )
    return Markup(
        f'<svg class="unikat drops" viewBox="0 0 {_WIDTH:.0f} {height * max(len(keys), 1):.0f}" '
        f'aria-hidden="true">{drawn}</svg>'
    )


def reach(value: float, lower: float, upper: float) -> Markup:
    """Draw a probability with its interval, from 0 to 1.

    Examples
    --------
    >>> 'x1="24.0"' in reach(0.5, 0.25, 0.75)
    True
    """
    ends = [_WIDTH * min(max(end, 0.0), 1.0) for end in (value, lower, upper)]
    return Markup(
        f'<svg class="unikat reach" viewBox="0 0 {_WIDTH:.0f} 12" aria-hidden="true">'
        f'<line class="axis" x1="0" y1="6" x2="{_WIDTH:.0f}" y2="6"/>'
        f'<line class="span" x1="{ends[1]:.1f}" y1="6" x2="{ends[2]:.1f}" y2="6"/>'
        f'<circle class="point" cx="{ends[0]:.1f}" cy="6" r="3.5"/></svg>'
    )


def few(n: int) -> str:
    """Write a number of records; of fewer than three not how many.

    Examples
    --------
    >>> few(0), few(2), few(1200)
    ('no record', 'fewer than 3 records', '1,200 records')
    """
    return say("web.few.many" if n > 2 else "web.few.few" if n else "web.few.none", n=n)


@drawing
def settling(canvas: Canvas, points: Sequence[tuple[int, float, float, float]]) -> None:
    """Draw τ1 and the ends of its interval against the sweeps after which they were that."""
    sweeps, *last = points[-1]
    middle, lower, upper = map(number, last)
    canvas.describe(
        say("web.pictures.settling"),
        [say("web.pictures.after", middle=middle, lower=lower, upper=upper, n=sweeps)],
    )
    canvas.x_range = (float(points[0][0]), float(max(points[-1][0], points[0][0] + 1)))
    low, high = span([[value for _, *range_ in points for value in range_]], 0.2, 0.5)
    canvas.y_range = (max(low, 0.0), high)
    marks = ticks(*canvas.y_range, 4)
    canvas.y_margin(marks)
    canvas.cursor += 8
    canvas.area(130)
    canvas.y_axis(marks)
    for line, kind in ((1, "curve"), (2, "end"), (3, "end")):
        places = [(canvas.x(point[0]), canvas.y(point[line])) for point in points]
        canvas.path(places, f"chain chain-0 {kind}", "")
    canvas.x_axis(canvas.x_ticks(5, whole=True), say("web.pictures.sweeps"))
