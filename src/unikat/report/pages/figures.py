"""Figures of the report as inline SVG: no script, no file, colours from the page's style sheet.

Each function returns a `Drawing` with a text that screen readers speak; `drawing` gives it the
canvas. `drawings` lists those of an assessment, with the section that shows each and its caption: a
figure has its function, its entry there and its words in `report/words/*/figures.toml`.

Parts explain themselves in `<title>` tooltips. Only numbers and key names enter a figure,
never a record's values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from unikat._typing import Float64
from unikat.data.units import RECORD, Unit
from unikat.report.facts.committee import edges
from unikat.report.facts.result import KeyFacts, Result
from unikat.report.pages.canvas import (
    Canvas,
    Drawing,
    drawing,
    line_height,
    shortened,
    span,
    text_width,
    ticks,
)
from unikat.report.text import overview, sentences, track_record
from unikat.report.text import sensitivity as assumed
from unikat.report.text.numbers import digits, in_turn, level, number, significant, titled
from unikat.report.text.overview import Group
from unikat.report.text.sensitivity import Group as Assumptions
from unikat.report.text.words import capital, say
from unikat.risk.estimate import Summary
from unikat.risk.measures import WITHOUT_ERROR

_GAP = 14.0
_ROW = ("name", "label")
Bar: TypeAlias = tuple[str, float, str]
"""Name on the left of a bar, its share of the whole width, and words on its right."""


def drawings(result: Result, traces: Mapping[str, Float64]) -> dict[str, Drawing]:
    """Draw the figures that the result has numbers for, by name.

    Parameters
    ----------
    result
        The content of `result.json`.
    traces
        The draws of τ1 and τ2 by name, each (n_chains, n_draws), the discarded ones included;
        empty where nothing was sampled.
    """
    drawn = {}
    sampling, unit = result.sampling, result.unit
    probability = level(result.tau1.level)
    if sampling is not None and "tau1" in traces:
        first = sampling.n_discarded
        of_measure = {}
        for name, summary in (("τ1", result.tau1), ("τ2", result.tau2)):
            draws = traces[name.replace("τ", "tau")][:, first:]
            title = sentences.of_kind(result, "title", measure=name)
            of_measure[name] = distribution(draws, summary, name, say(f"figures.{name}"), title)
        said = {name: sentences.of_kind(result, "caption", measure=name) for name in of_measure}
        if track_record.of_result(result).unreliable:
            drawn["tau1_unreliable"] = of_measure["τ1"].placed(
                "measures",
                say("figures.distribution.unreliable", said=said["τ1"], level=probability),
            )
        else:
            drawn["tau1"] = of_measure["τ1"]
        interval = sentences.interval_name(result)
        drawn["tau2"] = of_measure["τ2"].placed(
            "measures", say("figures.distribution.caption", said=said["τ2"], interval=interval)
        )
        if not sentences.independent(result):
            # Model uncertainty, independent from draw to draw, would hide that chains disagree.
            draws = traces.get(WITHOUT_ERROR[0], traces["tau1"])
            drawn["trace"] = trace(draws, first, "τ1").placed("convergence", _of_trace(result))
    if assumptions := assumed.groups(result):
        faint = any(row.narrow for group in assumptions for row in group.rows)
        drawn["sensitivity"] = sensitivity(assumptions, "τ1", say("figures.τ1")).placed(
            "sensitivity",
            say(
                "figures.sensitivity.caption",
                faint and "figures.sensitivity.faint",
                level=probability,
            ),
        )
    if not result.known_exactly and result.records.n_judged:
        drawn["records"] = record_risks(result.records.histogram, unit).placed(
            "records", say("figures.records.caption", unit=unit)
        )
    if any(key.drop is not None for key in result.keys):
        drawn["keys"] = key_drops(result.keys, result.tau1_expected.mean)
    if found := overview.groups(result):
        drawn["groups"] = groups(found, unit)
    return drawn


def _of_trace(result: Result) -> str:
    """Say below the chains what they show."""
    calibrated = result.uncertainty == "calibrated"
    opening = f"figures.trace.{'caption_without_error' if calibrated else 'caption'}"
    if calibrated and result.sampling is not None and result.sampling.rhat is not None:
        return say(opening, "figures.trace.rhat_beside", rhat=result.sampling.rhat)
    rhat = result.tau1.rhat
    return say(opening, rhat is not None and "figures.trace.rhat", rhat=rhat)


@drawing
def distribution(
    canvas: Canvas,
    draws: Float64,
    summary: Summary,
    name: str,
    caption: str,
    title: str,
) -> None:
    """Draw the distribution of draws, its interval in full colour and its median marked."""
    values = draws.ravel()
    ends = edges(values)
    counts, _ = np.histogram(values, ends)
    words = say("figures.distribution.words", summary=summary, level=level(summary.level))
    canvas.describe(title, [f"{capital(words)}."])
    canvas.inset()
    canvas.x_range = (float(ends[0]), float(ends[-1]))
    canvas.y_range = (0.0, float(counts.max()))
    middle = canvas.x(summary.median)
    canvas.words(words, "strong", middle)
    canvas.cursor += 12
    canvas.area(140)
    for low, high, count in zip(ends[:-1], ends[1:], counts, strict=True):
        centre = (low + high) / 2
        inside = summary.lower - 0.5 <= centre <= summary.upper + 0.5
        x, y = canvas.x(low), canvas.y(count)
        box = (x + 0.5, y, canvas.x(high) - x - 1, canvas.bottom - y)
        tip = say(
            "figures.distribution.bar",
            name=name,
            low=_edge(low),
            high=_edge(high),
            part=count / len(values),
        )
        canvas.rect(box, "bar" if inside else "bar-faint", tip)
        canvas.datum(
            "histogram", x_lower=float(low), x_upper=float(high), y=count / len(values),
            inside_interval=bool(inside),
        )  # fmt: skip
    canvas.line((middle, canvas.top - 8), (middle, canvas.bottom), "mark")
    canvas.x_axis(canvas.x_ticks(8), caption)


@drawing
def trace(canvas: Canvas, draws: Float64, n_discarded: int, name: str) -> None:
    """Draw the chains, (n_chains, n_draws), as they were made; what is not used is shaded."""
    n_chains, n_draws = draws.shape
    stride = max(1, math.ceil(2 * n_draws / canvas.width))
    used = draws[:, n_discarded:] if n_discarded < n_draws else draws
    shown = draws[:, min(n_discarded // 4, n_draws - 1) :]
    least = float(min(shown.min(), used.min()))
    low, high = span([(least, float(max(shown.max(), used.max())))], 0.04, 0.5)
    means = ", ".join(number(float(chain.mean())) for chain in used)
    canvas.describe(
        say("figures.trace.title", name=name, n_chains=n_chains, n_draws=n_draws),
        [say("figures.trace.means", means=means)],
    )
    canvas.x_range = (0.0, float(max(n_draws - 1, 1)))
    canvas.y_range = (max(low, 0.0) if least >= 0 else low, high)
    marks = ticks(*canvas.y_range, 5)
    canvas.y_margin(marks)
    edge = canvas.x(n_discarded)
    if n_discarded:
        canvas.words(say("figures.trace.unused"), at=(canvas.left + edge) / 2)
    canvas.cursor += 10
    canvas.area(158)
    canvas.y_axis(marks)
    for chain in range(n_chains):
        values = np.clip(draws[chain, ::stride], *canvas.y_range)
        points = [(canvas.x(i * stride), canvas.y(value)) for i, value in enumerate(values)]
        called = say("figures.trace.chain", n=chain + 1)
        canvas.path(points, f"chain chain-{chain % 4}", called)
        for i, value in enumerate(draws[chain, ::stride]):
            canvas.datum("line", series=called, x=i * stride, y=float(value))
    if n_discarded:
        box = (canvas.left, canvas.top, edge - canvas.left, canvas.bottom - canvas.top)
        canvas.rect(box, "veil", say("figures.trace.start"))
        canvas.line((edge, canvas.top), (edge, canvas.bottom), "mark-thin")
    canvas.x_axis(canvas.x_ticks(6, whole=True), say("figures.trace.axis"))


@drawing
def record_risks(
    canvas: Canvas, histogram: Sequence[int], unit: Unit = RECORD, words: str = "records"
) -> None:
    """Draw how many units have which r1, or what else from 0 to 1 the words are about."""
    said = f"figures.{words}"
    ends = [significant(i / len(histogram)) for i in range(len(histogram) + 1)]
    counts = [
        say(f"{said}.bin", low=low, high=high, n=count)
        for low, high, count in zip(ends[:-1], ends[1:], histogram, strict=True)
    ]
    canvas.describe(say(f"{said}.title", unit=unit), [f"{'; '.join(counts)}."])
    if canvas.narrow and len(histogram) % 2 == 0:
        histogram = [a + b for a, b in zip(histogram[::2], histogram[1::2], strict=True)]
    n_bins = len(histogram)
    # Most records are safe, and one tall bar of them would flatten all that matters.
    first = int(histogram[0] > 3 * max(histogram[1:]) > 0)
    drawn = histogram[first:]
    canvas.x_range = (first / n_bins, 1.0)
    canvas.y_range = (0.0, float(max(*drawn, 1)) * 1.08)
    marks = [tick for tick in ticks(*canvas.y_range, 4) if tick == round(tick)]
    canvas.y_margin(marks)
    if first:
        below = significant(1 / n_bins)
        left_out = say(f"{said}.not_drawn", unit=unit, n=histogram[0], below=below)
        canvas.words(left_out, at=canvas.right, anchor="end")
    step = (canvas.right - canvas.left) / len(drawn)
    # All bars or none: a bar without its number would look like one without records.
    numbered = all(text_width(number(count), "tiny") <= step for count in drawn)
    canvas.cursor += 12 if numbered else 8
    canvas.area(152)
    canvas.y_axis(marks)
    for i, count in enumerate(drawn, start=first):
        x, y = canvas.x(i / n_bins), canvas.y(count)
        low, high = i / n_bins, (i + 1) / n_bins
        tip = say(f"{said}.bar", unit=unit, low=low, high=high, n=count)
        box = (x + 1, y, step - 2, canvas.bottom - y)
        canvas.rect(box, "bar" if i * 2 >= n_bins else "bar-mid", tip)
        canvas.datum("histogram", x_lower=low, x_upper=high, y=count)
        if count and numbered:
            canvas.text(x + step / 2, y - 4, number(count), kind="tiny")
    shares = [tick for tick in (0, 0.2, 0.4, 0.6, 0.8, 1.0) if tick >= canvas.x_range[0]]
    canvas.x_axis(shares, say(f"{said}.axis", unit=unit))


@drawing
def key_drops(canvas: Canvas, keys: Sequence[KeyFacts], tau1: float) -> None:
    """Draw the part of expected τ1 that goes with each key, where it is known; the worst first."""
    known = [(key.name, key.drop) for key in keys if key.drop is not None]
    whole, bars = max(tau1, 1e-9), []
    for name, drop in sorted(known, key=lambda pair: -pair[1]):
        share = min(max(drop, 0.0), whole) / whole
        left = max((1.0 - share) * tau1, 0.0)
        bars.append((name, share, say("figures.keys.bar", part=share, left=left)))
    bar_rows(canvas, bars, say("figures.keys.title"), say("figures.keys.axis", tau1=tau1))


@drawing
def groups(canvas: Canvas, found: Sequence[Group], unit: Unit = RECORD) -> None:
    """Draw the expected population uniques of each group of units among its sample uniques."""
    bars = [
        (
            one.name,
            min(max(one.tau1 / max(one.n_uniques, 1), 0.0), 1.0),
            say("figures.groups.bar", unit=unit, one=one),
        )
        for one in found
    ]
    title = say("figures.groups.title", unit=unit)
    bar_rows(canvas, bars, title, say("figures.groups.axis"))


def bar_rows(canvas: Canvas, bars: Sequence[Bar], title: str, caption: str) -> None:
    """Draw bars one below the other; words go above a bar if there is no room on its right."""
    canvas.describe(title, [f"{titled(name, words)}." for name, _, words in bars])
    canvas.axis = caption
    canvas.x_range = (0.0, 1.0)
    longest = max((text_width(name, "name") for name, _, _ in bars), default=0.0)
    names = min(longest, 0.34 * canvas.width) + 12
    widest = max((text_width(words, "name") for _, _, words in bars), default=0.0)
    room = canvas.width - names - widest - 12
    side_by_side = room >= 0.25 * canvas.width
    if side_by_side:
        canvas.left, canvas.right = names, names + room
    for name, share, words in bars:
        if side_by_side:
            lines = len(shortened(name, names - 12, "name"))
            middle = canvas.cursor + lines * line_height("name") / 2
            canvas.text(canvas.right + 10, middle + 4.5, words, anchor="start", kind="name")
            canvas.name(name, names - 10, names - 12, "end")
            y = middle - 8.5
        else:
            canvas.row(name, words, ("name", "name"))
            y = canvas.cursor + 2
            canvas.cursor = y + 17
        canvas.rect((canvas.left, y, canvas.right - canvas.left, 17), "bar-back")
        tip = titled(name, words)
        canvas.datum("bar", name=name, x=share, said=words)
        canvas.rect((canvas.left, y, canvas.x(share) - canvas.left, 17), "bar", tip)
        canvas.cursor += 6
    canvas.words(caption, at=(canvas.left + canvas.right) / 2)


@drawing
def sensitivity(canvas: Canvas, found: Sequence[Assumptions], name: str, caption: str) -> None:
    """Draw a measure under several assumptions, in groups; the final answer in full colour.

    On a page names and numbers stand beside the intervals, on a phone above them.
    """
    rows = [row for group in found for row in group.rows]
    said = in_turn(titled(row.label, row.tau1.words) for row in rows)
    canvas.describe(say("figures.sensitivity.title", name=name), [f"{said}."])
    others = [row for row in rows if not row.final] or rows
    names = max(text_width(row.label, "name") for row in others) + _GAP
    room = canvas.width - names - max(text_width(row.tau1.words) for row in others) - _GAP
    if beside := room >= 0.4 * canvas.width:
        canvas.left, canvas.right = names, names + room
    else:
        canvas.inset()
    canvas.begin_rows(0.0, max(1.04 * max(row.tau1.upper for row in rows), 1.0))
    final = [end for row in rows if row.final for end in (row.tau1.lower, row.tau1.upper)]
    for group in found:
        if group.title:
            canvas.cursor += 4
            canvas.name(group.title, kind="tiny")
        for row in group.rows:
            words = row.tau1.words
            if beside and not row.final:
                y = canvas.cursor + 9
                canvas.text(2.0, y + 4, row.label, "start", "name")
                canvas.text(canvas.width - 2.0, y + 4, words, "end")
            else:
                canvas.row(row.label, words, ("strong", "strong") if row.final else _ROW)
                y = canvas.cursor + 10
            for end in final:
                canvas.line((canvas.x(end), y - 6), (canvas.x(end), y + 6), "mark-thin", below=True)
            values = (row.tau1.lower, row.tau1.middle, row.tau1.upper)
            tip = titled(row.label, f"{name} {words}")
            if row.final:
                low, middle, high = map(canvas.x, values)
                canvas.rect((low, y - 5, max(high - low, 1.0), 10), "bar", tip)
                canvas.line((middle, y - 8), (middle, y + 8), "mark")
                ends = dict(zip(("x_lower", "x", "x_upper"), values, strict=True))
                canvas.datum("interval", name=row.label, series=group.title, **ends)
            else:
                kinds = ("bar-faint" if row.narrow else "bar-mid", "bar")
                canvas.interval(values, y, tip, kinds, name=row.label, series=group.title)
            canvas.cursor = y + 10
    canvas.end_rows(caption)


@drawing
def term_selection(
    canvas: Canvas,
    terms: Sequence[str],
    statistic: Sequence[float],
    tau1: Sequence[float],
    name: str,
    threshold: float | None,
) -> None:
    """Draw the steps of a term selection, the first being its start: expected τ1, and a statistic.

    The selection ends where the statistic reaches the threshold; None where it has no such value.
    """
    steps = in_turn(
        say("figures.terms.step", term=term, after=after, value=value)
        for term, after, value in zip(terms, tau1, statistic, strict=True)
    )
    canvas.describe(say("figures.terms.title", name=name, n=len(terms) - 1), [f"{steps}."])
    canvas.x_range = (0.0, float(max(len(terms) - 1, 1)))
    panels = []
    expected = say("figures.terms.tau1")
    for values, title, end in ((tau1, expected, None), (statistic, name, threshold)):
        low, high = span([values, () if end is None else (end,)], 0.08, 0.05)
        # Neither is negative, but a log score is.
        floor = max(low, 0.0) if end is None and min(values) >= 0.0 else low
        panels.append((values, title, end, (floor, high)))
    canvas.y_margin([tick for *_, y_range in panels for tick in ticks(*y_range, 4)])
    canvas.right -= 6
    for values, title, end, y_range in panels:
        canvas.panel(title, 112, y_range, ticks(*y_range, 4))
        if end is not None:
            canvas.line((canvas.left, canvas.y(end)), (canvas.right, canvas.y(end)), "mark-thin")
        points = [(canvas.x(i), canvas.y(value)) for i, value in enumerate(values)]
        canvas.path(points, "chain chain-0", title)
        for step, ((x, y), term, value) in enumerate(zip(points, terms, values, strict=True)):
            canvas.datum("line", series=title, x=step, y=value, term=term)
            canvas.rect((x - 3, y - 3, 6, 6), "bar", f"{term}: {title} {digits(value, 2)}")
        canvas.cursor += 12
    canvas.x_axis(canvas.x_ticks(10, whole=True), say("figures.terms.axis"))


def _edge(value: float) -> str:
    return f"{math.ceil(value):,}" if value % 1 == 0.5 else f"{value:.2f}"
