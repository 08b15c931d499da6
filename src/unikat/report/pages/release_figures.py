"""Pictures of a release: τ1 before and after, and the plans; for reports and the workbench."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from unikat.protection.search import NONE
from unikat.report.facts.columns import ColumnFacts, LeftOver
from unikat.report.facts.protection import KINDS
from unikat.report.facts.risk_map import RiskMap
from unikat.report.facts.table_counts import TableCounts
from unikat.report.pages.canvas import (
    Canvas,
    drawing,
    line_height,
    shortened,
    text_width,
    tick_text,
    ticks,
)
from unikat.report.pages.figures import bar_rows
from unikat.report.text.numbers import Estimated, estimated, titled
from unikat.report.text.words import say
from unikat.spec.limits import Limit


class Side(NamedTuple):
    """τ1 of a file: before, or as it is released."""

    name: str
    tau1: Estimated
    bins: Sequence[tuple[float, float, float]]
    """Lower end, upper end and probability of each bar; none where nothing was drawn."""


class Point(NamedTuple):
    """A plan among others."""

    words: str
    lost: float
    """Share of the information, 0 to 1."""
    tau1: Estimated
    label: str = ""
    """What stands beside it; those with one are drawn in full colour."""
    address: str = ""
    """Where it leads; a picture in a report leads nowhere."""
    beaten: bool = False
    """It is none of the frontier of its kind, and no line goes through it."""
    kind: str = KINDS[0]
    faint: bool = False
    """A plan of another kind beats it."""


_SHAPE = dict(zip(KINDS, ("", "square", "triangle", "diamond"), strict=True))
_COLOUR = dict(zip(KINDS, ("bar", "dot-1", "dot-3", "dot-2"), strict=True))


_MARKS = (0, *(part * 10**power for power in range(9) for part in (1, 2, 5)))
_FAR = 4.0
"""Ratio of the largest τ1 to the smallest above which equal steps are about equal factors."""
_LEAST = 3.0
"""Width of a bar in pixels, at least."""


def bound_of(limit: str | None) -> float | None:
    """The bound of a limit of τ1; None of another limit, or without one."""
    found = Limit.of(limit) if limit else None
    return found.bound if found is not None and found.plain.startswith("tau1") else None


@drawing
def posteriors(canvas: Canvas, sides: Sequence[Side], limit: str | None = None) -> None:
    """Draw the posterior distribution of τ1 of each side, one below the other on one scale.

    The area of a bar is its probability. Where sides are far apart equal steps are about equal
    factors. The limit goes through all of them.
    """
    bound = bound_of(limit)
    spread = [_ends(one) for one in sides]
    low = min([low for low, _ in spread] + ([] if bound is None else [bound]))
    high = max([high for _, high in spread] + [1.0 if bound is None else bound])
    far = (high + 1.0) / (max(low, 0.0) + 1.0) > _FAR

    def place(value: float) -> float:
        # A count takes the room around it, so that 0 has some, too.
        return math.log1p(max(value, -0.5)) if far else value

    edge = 0.04 * (place(high) - place(low))
    canvas.inset()
    canvas.x_range = (place(max(low, -0.5)) - edge, place(high) + edge)
    said: list[str] = []
    areas: list[tuple[float, float]] = []
    for one in sides:
        words = titled(one.name, estimated(one.tau1.mean, one.tau1))
        said.append(f"{words}.")
        canvas.words(words, "strong", canvas.left, "start")
        # The words of the limit have a line of their own, above all bars.
        canvas.cursor += 18 if bound is not None and not areas else 6
        canvas.area(58)
        areas.append((canvas.top, canvas.bottom))
        _bars_of(canvas, one, words, place)
        canvas.line((canvas.left, canvas.bottom), (canvas.right, canvas.bottom), "axis")
        canvas.cursor += 14
    canvas.bottom = canvas.cursor - 14
    if bound is not None:
        x = canvas.x(place(bound))
        # Not through the names of the sides.
        for top, bottom in areas:
            canvas.line((x, top), (x, bottom), "mark")
        words = say("figures.posteriors.limit", bound=tick_text(bound))
        anchor = "start" if x < (canvas.left + canvas.right) / 2 else "end"
        place_of_words = x + (5 if anchor == "start" else -5), areas[0][0] - 3
        canvas.text(*place_of_words, words, anchor, "tiny")
        said.append(f"{words}.")
    canvas.describe(say("figures.posteriors.title"), said)
    marks: Iterable[float] = _MARKS if far else ticks(max(low, 0.0), high, 8)
    shown = [(canvas.x(place(mark)), tick_text(mark)) for mark in marks]
    inside = [one for one in shown if canvas.left - 1 <= one[0] <= canvas.right + 1]
    canvas.categories(inside, say("figures.τ1"), ticked=True)


def _ends(one: Side) -> tuple[float, float]:
    ends = [end for low, high, _ in one.bins for end in (low, high)]
    return min([one.tau1.lower, *ends]), max([one.tau1.upper, *ends])


def _bars_of(canvas: Canvas, one: Side, words: str, place: Callable[[float], float]) -> None:
    if not one.bins:
        values = [place(end) for end in (one.tau1.lower, one.tau1.mean, one.tau1.upper)]
        canvas.interval(values, canvas.bottom - 14, words, ("bar-faint", "bar"))
        ends = {"x_lower": one.tau1.lower, "x": one.tau1.mean, "x_upper": one.tau1.upper}
        canvas.data[-1] |= {"name": one.name, **ends}  # as they are, on a plain scale
        return
    found: list[tuple[float, float, float, float, bool]] = []
    begin, total = one.bins[0][0], 0.0
    sides = [_inside(one, low, high) for low, high, _ in one.bins]
    for (_, high, share), inside, after in zip(one.bins, sides, [*sides[1:], None], strict=True):
        total += share
        # Bars narrower than a line are put together, but not across an end of the interval.
        if inside != after or canvas.x(place(high)) - canvas.x(place(begin)) >= _LEAST:
            width = max(place(high) - place(begin), 1e-9)
            found.append((begin, high, total, total / width, inside))
            begin, total = high, 0.0
    canvas.y_range = (0.0, max((density for *_, density, _ in found), default=1.0))
    for low, high, share, density, inside in found:
        x, y = canvas.x(place(low)), canvas.y(density)
        tip = say(
            "figures.posteriors.bar",
            low=max(math.ceil(low), 0),
            high=math.floor(high),
            part=share,
        )
        width = canvas.x(place(high)) - x
        gap = 0.6 if width > 2 * _LEAST else 0.0
        box = (x, y, width - gap, canvas.bottom - y)
        canvas.rect(box, "bar" if inside else "bar-faint", tip)
        density = share / max(high - low, 1e-9)
        canvas.datum("histogram", series=one.name, x_lower=low, x_upper=high, y=density)


def _inside(one: Side, low: float, high: float) -> bool:
    return one.tau1.lower - 0.5 <= (low + high) / 2 <= one.tau1.upper + 0.5


@drawing
def frontier(
    canvas: Canvas, points: Sequence[Point], level: float, limit: str | None = None
) -> None:
    """Draw τ1 of plans with its interval against the information that they lose, and the limit.

    Equal steps up are about equal factors, so that small numbers are seen beside large ones. Points
    with an address are links; then the picture is a group. Kinds of plans have shapes and colours.
    """
    bound = bound_of(limit)
    if any(one.address for one in points):
        canvas.role = "group"
    most = max([one.tau1.upper for one in points] + [bound or 0.0, 1.0])
    marks = [mark for mark in _MARKS if mark <= 1.05 * most]
    canvas.y_margin(marks)
    canvas.left += 12
    canvas.right -= 16
    kinds = [kind for kind in KINDS if any(one.kind == kind for one in points)]
    if len(kinds) > 1:
        _legend(canvas, kinds)
    canvas.words(say("figures.plans.tau1", level=level), "caption", 0.0, "start")
    canvas.cursor += 8
    canvas.area(260)
    canvas.y_range = (0.0, math.log1p(1.05 * most))
    canvas.x_range = (0.0, 100.0 * max(1.02 * max((one.lost for one in points), default=0.0), 0.01))
    last = math.inf
    for mark in marks:
        height = canvas.y(math.log1p(mark))
        canvas.line((canvas.left, height), (canvas.right, height), "grid")
        if last - height >= line_height("label"):
            canvas.text(canvas.left - 7, height + 4, tick_text(mark), anchor="end")
            last = height
    said = []
    if bound is not None and limit is not None:
        height = canvas.y(math.log1p(bound))
        canvas.line((canvas.left, height), (canvas.right, height), "mark")
        which = "interval" if Limit.of(limit).of_interval else "estimate"
        words = say(f"figures.plans.target_{which}", bound=tick_text(bound))
        canvas.text(canvas.right, height - 5, words, anchor="end", kind="tiny")
        said.append(f"{words}.")

    def place(one: Point) -> tuple[float, float]:
        return canvas.x(100.0 * one.lost), canvas.y(math.log1p(max(one.tau1.mean, 0.0)))

    for kind in kinds:
        for one, other in pairwise(one for one in points if one.kind == kind and not one.beaten):
            canvas.line(place(one), place(other), "grid")
    taken: list[tuple[float, float, float]] = []
    for one in sorted(points, key=lambda point: bool(point.label)):
        x, y = place(one)
        low, high = (canvas.y(math.log1p(end)) for end in (one.tau1.lower, one.tau1.upper))
        tip = say("figures.plans.tip", words=one.words, tau1=one.tau1)
        kind = "bar-mid" if one.label else "bar-faint"
        canvas.rect((x - 2.0, high, 4.0, max(low - high, 1.0)), kind, tip)
        told: dict[str, Any] = {"x": 100.0 * one.lost, "y": one.tau1.mean, "name": one.label}
        if len(kinds) > 1:
            told["series"] = say(f"figures.plans.{one.kind}")
        canvas.datum("point", **told, y_lower=one.tau1.lower, y_upper=one.tau1.upper)
        colour, shape = _COLOUR[one.kind], _SHAPE[one.kind]
        if one.kind == KINDS[0] and not one.label:
            colour = "bar-mid" if one.faint or len(kinds) < 2 else "bar"
        elif one.faint and not one.label:
            colour += " dot"
        if one.address:
            here = bool(one.label)
            canvas.link(one.address, (x, y), tip, here=here, kind=colour, shape=shape)
        else:
            canvas.dot((x, y), 6.0 if one.label else 3.5, colour, tip, shape)
        said.append(f"{tip}.")
    for one in points:
        if one.label:
            x, y = place(one)
            _label(canvas, one.label, (x, y), taken)
    canvas.describe(say("figures.plans.title"), said)
    canvas.x_axis(canvas.x_ticks(6), say("figures.plans.axis"))


def _legend(canvas: Canvas, kinds: Sequence[str]) -> None:
    """Name the marks of kinds of plans, in as many lines as they need."""
    x, height = 5.0, line_height("label") + 3
    for kind in kinds:
        words = say(f"figures.plans.{kind}")
        width = 12 + text_width(words) + 16
        if x > 5.0 and x + width > canvas.width:
            x, canvas.cursor = 5.0, canvas.cursor + height
        canvas.dot((x, canvas.cursor + 8), 4.5, _COLOUR[kind], words, _SHAPE[kind])
        canvas.text(x + 10, canvas.cursor + 12, words, "start")
        x += width
    canvas.cursor += height + 6


def _label(
    canvas: Canvas, words: str, at: tuple[float, float], taken: list[tuple[float, float, float]]
) -> None:
    """Name a point, a line higher as long as another name stands there."""
    (words, *_) = shortened(words, 110.0, "tiny", most=1)
    width = text_width(words, "tiny")
    x, y = at[0] + 10, at[1] + 4
    if x + width > canvas.right + 12:
        x = at[0] - 10 - width

    def free(y: float) -> bool:
        return all(
            abs(y - other) >= 12 or x >= right or x + width <= left for left, right, other in taken
        )

    while not free(y) and y > canvas.top:
        y -= 12
    taken.append((x, x + width, y))
    canvas.text(x, y, words, anchor="start", kind="tiny")


@drawing
def risk_cells(canvas: Canvas, found: RiskMap, most: float | None = None) -> None:
    """Draw the cells of two keys, the more expected population uniques the darker.

    Four steps of equal factors tell less than a number and are seen at a glance; the number is in
    the tip of a cell. The darkest step begins at a quarter of `most`; None: of the largest cell.
    """
    most = found.largest if most is None else most
    said = []
    for (i, j), (x, y, width, height), where in _cells(canvas, found.names, found.labels):
        risk, n = found.tau1[i][j], found.records[i][j]
        canvas.datum("cell", name=found.labels[0][i], x=found.labels[1][j], value=risk)
        box = (x + 0.5, y + 0.5, width - 1, height - 1)
        if risk is None:
            canvas.rect(box, "cell-few", say("figures.risk_map.few", where=where))
        elif n:
            tip = say("figures.risk_map.cell", where=where, tau1=risk, n=n)
            canvas.rect(box, _shade(risk, NONE, most), tip)
            if risk > most / 4:
                said.append(f"{tip}.")
    canvas.describe(say("figures.risk_map.title", names=found.names), said)
    axis = say("figures.risk_map.axis", total=found.total, names=found.names)
    _columns(canvas, found.labels[1], axis)


@drawing
def table_cells(canvas: Canvas, found: TableCounts) -> None:
    """Draw the records in the cells of two keys: the left half of a cell before, the right after.

    The darker, the more, by four steps of equal factors; a cell that is as it was has one colour.
    """
    said = []
    for (i, j), (x, y, width, height), where in _cells(canvas, found.names, found.labels):
        both = found.before[i][j], found.after[i][j]
        tip = say("figures.table.cell", where=where, before=both[0], after=both[1])
        for half, (name, n) in enumerate(zip(("before", "after"), both, strict=True)):
            row = {"name": found.labels[0][i], "x": found.labels[1][j], "value": n}
            canvas.datum("cell", series=say(f"committee.{name}"), **row)
            box = (x + 0.5 + half * (width - 1) / 2, y + 0.5, (width - 1) / 2, height - 1)
            if n is None:
                canvas.rect(box, "cell-few", say("figures.risk_map.few", where=where))
            elif any(both):
                canvas.rect(box, _shade(n, 0.5, found.largest), tip)
        if None not in both and max(both[0] or 0.0, both[1] or 0.0) > found.largest / 4:
            said.append(f"{tip}.")
    canvas.describe(say("figures.table.title", names=found.names), said)
    _columns(canvas, found.labels[1], say("figures.table.axis", names=found.names))


def _shade(value: float, least: float, most: float) -> str:
    step = 0 if value < least else 1 + int(value > most / 16) + int(value > most / 4)
    return ("cell-0", "bar-faint", "bar-mid", "bar")[step]


def _cells(
    canvas: Canvas, names: tuple[str, str], labels: tuple[Sequence[str], Sequence[str]]
) -> Iterator[tuple[tuple[int, int], tuple[float, float, float, float], str]]:
    """Place, box and name of the cells of two keys, the rows named beside them."""
    rows, columns = labels
    short = [shortened(label, 0.3 * canvas.width, "tiny", most=1)[0] for label in rows]
    canvas.name(say("figures.risk_map.rows", names=names), kind="tiny")
    canvas.cursor += 4
    canvas.left = 8 + max((text_width(name, "tiny") for name in short), default=0.0)
    side = (canvas.right - canvas.left) / max(len(columns), 1)
    height = max(min(side, 24.0), 13.0)
    canvas.area(height * len(rows))
    for i, name in enumerate(short):
        y = canvas.top + i * height
        canvas.text(canvas.left - 6, y + height / 2 + 4, name, "end", "tiny", rows[i])
        for j, label in enumerate(columns):
            where = f"{names[0]} {rows[i]}, {names[1]} {label}"
            yield (i, j), (canvas.left + j * side, y, side, height), where


def _columns(canvas: Canvas, labels: Sequence[str], axis: str) -> None:
    """Name the columns of cells below them."""
    side = (canvas.right - canvas.left) / max(len(labels), 1)
    places = [(canvas.left + (j + 0.5) * side, label) for j, label in enumerate(labels)]
    short = [
        (x, shortened(label, max(side * 1.6, 40.0), "label", most=1)[0]) for x, label in places
    ]
    canvas.categories(short, axis)


@drawing
def with_columns(
    canvas: Canvas, columns: Sequence[ColumnFacts], found: LeftOver, most: int = 8
) -> None:
    """Draw τ1 by the keys alone, with each column that is left, and with all of them."""
    known = [(one.name, tau1) for one in columns if one.risk and (tau1 := one.risk.tau1)]
    known.sort(key=lambda pair: -pair[1].mean)
    rows = [(say("figures.with_columns.alone"), found.without.tau1), *known[:most]]
    if found.together is not None and found.n_columns > 1:
        rows.append((say("figures.with_columns.all", n=found.n_columns), found.together.tau1))
    told = [(name, tau1) for name, tau1 in rows if tau1 is not None]
    whole = max((tau1.mean for _, tau1 in told), default=0.0) or 1.0
    bars = [(name, tau1.mean / whole, estimated(tau1.mean, tau1)) for name, tau1 in told]
    bar_rows(canvas, bars, say("figures.with_columns.title"), say("figures.with_columns.axis"))
