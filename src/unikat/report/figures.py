"""Figures of the report as inline SVG: no script, no file, colours from the page's style sheet.

Each function returns one `<svg>` with a title that screen readers speak; parts explain themselves
in `<title>` tooltips. Only numbers and key names enter a figure, never a record's values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

import numpy as np

from unikat._typing import Float64
from unikat.report.choice import Answer
from unikat.report.summary import KeyFacts
from unikat.report.wording import counted, number
from unikat.risk.estimate import Summary

WIDTH = 680
_MOST_BINS = 44
_MOST_POINTS = 340


class Canvas:
    """A list of SVG elements with a horizontal and a vertical scale."""

    def __init__(self, height: int, left: int, right: int, top: int, bottom: int) -> None:
        self.height = height
        self.left, self.right = left, WIDTH - right
        self.top, self.bottom = top, height - bottom
        self.x_range = self.y_range = (0.0, 1.0)
        self.parts: list[str] = []

    def x(self, value: float) -> float:
        """Place of a value on the horizontal scale."""
        low, high = self.x_range
        return self.left + (self.right - self.left) * (value - low) / (high - low)

    def y(self, value: float) -> float:
        """Place of a value on the vertical scale."""
        low, high = self.y_range
        return self.bottom - (self.bottom - self.top) * (value - low) / (high - low)

    def rect(self, box: tuple[float, float, float, float], kind: str, title: str = "") -> None:
        """Add a rectangle (x, y, width, height), with a tooltip."""
        x, y, width, height = box
        tip = f"<title>{escape(title)}</title>" if title else ""
        self.parts.append(
            f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
            f'height="{max(height, 0):.1f}">{tip}</rect>'
        )

    def line(self, start: tuple[float, float], end: tuple[float, float], kind: str) -> None:
        """Add a straight line."""
        self.parts.append(
            f'<line class="{kind}" x1="{start[0]:.1f}" y1="{start[1]:.1f}" '
            f'x2="{end[0]:.1f}" y2="{end[1]:.1f}"/>'
        )

    def text(
        self, x: float, y: float, words: str, anchor: str = "middle", kind: str = "label"
    ) -> None:
        """Add words."""
        self.parts.append(
            f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">'
            f"{escape(words)}</text>"
        )

    def path(self, points: Sequence[tuple[float, float]], kind: str, title: str) -> None:
        """Add a line through points, with a tooltip."""
        steps = " ".join(
            f"{'M' if i == 0 else 'L'}{x:.1f} {y:.1f}" for i, (x, y) in enumerate(points)
        )
        self.parts.append(f'<path class="{kind}" d="{steps}"><title>{escape(title)}</title></path>')

    def x_axis(self, ticks: Sequence[float], caption: str, suffix: str = "") -> None:
        """Add the horizontal axis with its ticks and the words under it."""
        self.line((self.left, self.bottom), (self.right, self.bottom), "axis")
        for tick in ticks:
            self.line((self.x(tick), self.bottom), (self.x(tick), self.bottom + 4), "axis")
            self.text(self.x(tick), self.bottom + 17, f"{tick:,g}{suffix}")
        self.text((self.left + self.right) / 2, self.bottom + 36, caption, kind="caption")

    def y_axis(self, ticks: Sequence[float]) -> None:
        """Add horizontal grid lines with their numbers."""
        for tick in ticks:
            self.line((self.left, self.y(tick)), (self.right, self.y(tick)), "grid")
            self.text(self.left - 7, self.y(tick) + 4, f"{tick:,g}", anchor="end")

    def svg(self, title: str) -> str:
        """Return the picture; screen readers speak the title."""
        label = escape(title, quote=True)
        return (
            f'<svg viewBox="0 0 {WIDTH} {self.height}" role="img" aria-label="{label}" '
            f'xmlns="http://www.w3.org/2000/svg">{"".join(self.parts)}</svg>'
        )


def distribution(
    draws: Float64,
    summary: Summary,
    name: str,
    caption: str,
    title: str = "Posterior distribution of",
) -> str:
    """Draw the distribution of draws, its interval in full colour and its median marked.

    Parameters
    ----------
    draws
        Draws, any shape.
    summary
        Their summary.
    name
        The measure, for the tooltips.
    caption
        Words under the axis.
    title
        What the distribution is; the name follows.
    """
    values = draws.ravel()
    edges = _edges(values)
    counts, _ = np.histogram(values, edges)
    canvas = Canvas(height=216, left=16, right=16, top=30, bottom=46)
    canvas.x_range = (float(edges[0]), float(edges[-1]))
    canvas.y_range = (0.0, float(counts.max()))
    for low, high, count in zip(edges[:-1], edges[1:], counts, strict=True):
        middle = (low + high) / 2
        inside = summary.lower - 0.5 <= middle <= summary.upper + 0.5
        x, y = canvas.x(low), canvas.y(count)
        box = (x + 0.5, y, canvas.x(high) - x - 1, canvas.bottom - y)
        tip = f"{name} between {_edge(low)} and {_edge(high)}: {count / len(values):.1%} of draws"
        canvas.rect(box, "bar" if inside else "bar-faint", tip)
    middle = canvas.x(summary.median)
    canvas.line((middle, canvas.top - 8), (middle, canvas.bottom), "mark")
    anchor = "end" if middle > WIDTH * 0.7 else "start"
    words = (
        f"median {number(summary.median)}, {100 * summary.level:g}% between "
        f"{number(summary.lower)} and {number(summary.upper)}"
    )
    if WIDTH * 0.3 < middle < WIDTH * 0.7:
        anchor = "middle"
    canvas.text(middle, canvas.top - 14, words, anchor=anchor, kind="strong")
    canvas.x_axis(_ticks(*canvas.x_range, 8), caption)
    return canvas.svg(f"{title} {name}: {words}.")


def trace(draws: Float64, n_discarded: int, name: str) -> str:
    """Draw the chains in the order in which they were made.

    Parameters
    ----------
    draws
        (n_chains, n_draws).
    n_discarded
        Draws at the start that are not used; shaded.
    name
        The measure.
    """
    n_chains, n_draws = draws.shape
    stride = max(1, math.ceil(n_draws / _MOST_POINTS))
    canvas = Canvas(height=216, left=46, right=14, top=12, bottom=46)
    used = draws[:, n_discarded:] if n_discarded < n_draws else draws
    shown = draws[:, min(n_discarded // 4, n_draws - 1) :]
    low, high = float(min(shown.min(), used.min())), float(max(shown.max(), used.max()))
    pad = max((high - low) * 0.04, 0.5)
    canvas.x_range = (0.0, float(max(n_draws - 1, 1)))
    canvas.y_range = (max(low - pad, 0.0) if low >= 0 else low - pad, high + pad)
    canvas.y_axis(_ticks(*canvas.y_range, 5))
    for chain in range(n_chains):
        values = np.clip(draws[chain, ::stride], *canvas.y_range)
        points = [(canvas.x(i * stride), canvas.y(value)) for i, value in enumerate(values)]
        canvas.path(points, f"chain chain-{chain % 4}", f"chain {chain + 1}")
    if n_discarded:
        edge = canvas.x(n_discarded)
        box = (canvas.left, canvas.top, edge - canvas.left, canvas.bottom - canvas.top)
        canvas.rect(box, "veil", "start of the run, not used")
        canvas.line((edge, canvas.top), (edge, canvas.bottom), "mark-thin")
        canvas.text(edge - 6, canvas.top + 12, "not used", anchor="end", kind="caption")
    canvas.x_axis(_ticks(0, n_draws, 6), "draw")
    return canvas.svg(f"{name} in {n_chains} chains over {n_draws} draws each.")


def record_risks(histogram: Sequence[int]) -> str:
    """Draw how many records have which r1.

    Parameters
    ----------
    histogram
        Records in each bin.
    """
    n_bins = len(histogram)
    # Most records are safe, and one tall bar of them would flatten all that matters.
    first = int(histogram[0] > 3 * max(histogram[1:]) > 0)
    drawn = histogram[first:]
    canvas = Canvas(height=216, left=46, right=14, top=18, bottom=46)
    canvas.x_range = (first / n_bins, 1.0)
    canvas.y_range = (0.0, float(max(*drawn, 1)) * 1.08)
    canvas.y_axis([tick for tick in _ticks(*canvas.y_range, 4) if tick == round(tick)])
    for i, count in enumerate(drawn, start=first):
        x, y = canvas.x(i / n_bins), canvas.y(count)
        box = (x + 1, y, canvas.x((i + 1) / n_bins) - x - 2, canvas.bottom - y)
        tip = f"r1 from {i / n_bins:.2f} to {(i + 1) / n_bins:.2f}: {counted(count, 'record')}"
        canvas.rect(box, "bar" if i * 2 >= n_bins else "bar-mid", tip)
        if count:
            canvas.text(x + box[2] / 2 + 1, y - 4, f"{count:,}", kind="tiny")
    if first:
        words = f"{histogram[0]:,} records with r1 below {1 / n_bins:g} are not drawn"
        canvas.text(canvas.right, canvas.top + 4, words, "end", "caption")
    canvas.x_axis(
        [0, 0.2, 0.4, 0.6, 0.8, 1.0][first:],
        "r1, probability that the record is unique in the population",
    )
    return canvas.svg(f"Records by risk r1 in {n_bins} bins of equal width: {list(histogram)}.")


def key_drops(keys: Sequence[KeyFacts], tau1: float) -> str:
    """Draw the part of expected τ1 that goes with each key, the worst key first.

    Parameters
    ----------
    keys
        The keys; those whose fall is not known are left out.
    tau1
        Expected τ1 with all keys.
    """
    known = sorted(
        (key for key in keys if key.drop is not None), key=lambda key: -(key.drop or 0.0)
    )
    row = 27
    canvas = Canvas(height=row * len(known) + 8, left=190, right=150, top=4, bottom=4)
    canvas.x_range = (0.0, max(tau1, 1e-9))
    for i, key in enumerate(known):
        y = canvas.top + i * row
        drop = min(max(key.drop or 0.0, 0.0), canvas.x_range[1])
        canvas.text(canvas.left - 10, y + 17, _shorten(key.name), anchor="end", kind="name")
        canvas.rect((canvas.left, y + 4, canvas.right - canvas.left, row - 8), "bar-back")
        words = f"−{drop / canvas.x_range[1]:.0%}, leaves {number(max(tau1 - drop, 0.0))}"
        tip = f"without {key.name}: expected τ1 {words} of {number(tau1)}"
        canvas.rect((canvas.left, y + 4, canvas.x(drop) - canvas.left, row - 8), "bar", tip)
        canvas.text(canvas.right + 10, y + 17, words, anchor="start", kind="name")
    return canvas.svg("Part of expected τ1 that goes if one key is left out.")


def answers(found: Sequence[Answer], name: str, caption: str) -> str:
    """Draw a measure with its interval as several models tell it, one below the other.

    Parameters
    ----------
    found
        The answers; the final one is in full colour.
    name
        The measure, for the tooltips.
    caption
        Words under the axis.
    """
    row = 42
    canvas = Canvas(height=row * len(found) + 58, left=16, right=16, top=4, bottom=50)
    canvas.x_range = (0.0, max(1.04 * max(one.tau1.upper for one in found), 1.0))
    marks = _ticks(*canvas.x_range, 8)
    for mark in marks:
        canvas.line((canvas.x(mark), canvas.top), (canvas.x(mark), canvas.bottom), "grid")
    said = []
    for position, one in enumerate(found):
        y, words = canvas.top + position * row, one.tau1.words
        said.append(f"{one.label}: {words}")
        tip = f"{one.label}: {name} {words}"
        canvas.text(canvas.left, y + 16, one.label, "start", "strong" if one.final else "name")
        canvas.text(canvas.right, y + 16, words, "end", "strong" if one.final else "label")
        low, high = canvas.x(one.tau1.lower), canvas.x(one.tau1.upper)
        kind = "bar" if one.final else "bar-faint" if one.narrow else "bar-mid"
        half = 5.0 if one.final else 2.5
        canvas.rect((low, y + 29 - half, max(high - low, 1.0), 2 * half), kind, tip)
        middle = canvas.x(one.tau1.middle)
        if one.final:
            canvas.line((middle, y + 21), (middle, y + 37), "mark")
        else:
            canvas.rect((middle - 4, y + 25, 8, 8), "bar", tip)
    canvas.x_axis(marks, caption)
    return canvas.svg(f"{name} with its interval. {'; '.join(said)}.")


def selection(
    terms: Sequence[str],
    statistic: Sequence[float],
    tau1: Sequence[float],
    name: str,
    threshold: float,
) -> str:
    """Draw the way of a selection of terms: expected τ1, and below it the statistic.

    Parameters
    ----------
    terms
        Added at each step; the first is where the selection began.
    statistic, tau1
        After each step.
    name
        Of the statistic.
    threshold
        Where the selection ends.
    """
    canvas = Canvas(height=330, left=58, right=16, top=24, bottom=46)
    canvas.x_range = (0.0, float(max(len(terms) - 1, 1)))
    full = canvas.bottom
    panels = ((tau1, "expected τ1", None, 24, 142), (statistic, name, threshold, 182, full))
    for values, title, level, top, bottom in panels:
        canvas.top, canvas.bottom = top, bottom
        low, high = min(values), max(values)
        if level is not None:
            low, high = min(low, level), max(high, level)
        pad = max(0.08 * (high - low), 0.05)
        canvas.y_range = (low - pad if level is not None else max(low - pad, 0.0), high + pad)
        canvas.y_axis(_ticks(*canvas.y_range, 4))
        canvas.text(canvas.left, top - 8, title, anchor="start", kind="strong")
        if level is not None:
            canvas.line(
                (canvas.left, canvas.y(level)), (canvas.right, canvas.y(level)), "mark-thin"
            )
        points = [(canvas.x(i), canvas.y(value)) for i, value in enumerate(values)]
        canvas.path(points, "chain chain-0", title)
        for (x, y), term, value in zip(points, terms, values, strict=True):
            canvas.rect((x - 3, y - 3, 6, 6), "bar", f"{term}: {title} {value:,.2f}")
    marks = [tick for tick in _ticks(*canvas.x_range, 10) if tick == round(tick)]
    canvas.x_axis(marks, "terms added")
    return canvas.svg(f"Expected τ1 and {name} over the {len(terms) - 1} steps of the selection.")


def _edges(values: Float64) -> Float64:
    """Edges of a histogram; counts fall in the middle of whole-numbered bins."""
    low, high = (float(q) for q in np.quantile(values, [0.0005, 0.9995]))
    whole = bool(np.all(values == np.round(values)))
    if whole or high - low > _MOST_BINS:
        width = max(1, math.ceil((high - low + 1) / _MOST_BINS))
        first = math.floor(low) - 0.5
        n_bins = max(math.ceil((high + 0.5 - first) / width), 5)
        return first + width * np.arange(n_bins + 1, dtype=np.float64)
    return np.linspace(low, max(high, low + 1e-6), _MOST_BINS + 1)


def _edge(value: float) -> str:
    return f"{math.ceil(value):,}" if value % 1 == 0.5 else f"{value:.2f}"


def _ticks(low: float, high: float, most: int) -> list[float]:
    """At most about `most` round numbers between low and high."""
    span = max(high - low, 1e-12)
    step = 10.0 ** math.floor(math.log10(span / most))
    for factor in (1, 2, 5, 10):
        if span / (step * factor) <= most:
            step *= factor
            break
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 10) for i in range(first, last + 1)]


def _shorten(name: str, length: int = 24) -> str:
    return name if len(name) <= length else name[: length - 1] + "…"
