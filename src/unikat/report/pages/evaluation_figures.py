"""Figures of an evaluation as inline SVG, drawn as those of the report are.

`drawing` gives each function its canvas. Only sums over many records and the scores of whole
samples enter a figure; all results of a figure are of samples of one size.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from unikat.report.pages.canvas import Canvas, drawing, line_height, span, ticks
from unikat.report.text.numbers import percent
from unikat.report.text.words import say
from unikat.studies.pooled import CutoffScore, GroupScore, ModelScore, holds
from unikat.studies.scores import N_CUTOFFS
from unikat.studies.side_by_side import SynthesizerScore

Row: TypeAlias = Mapping[str, Any]
"""A row of `evaluation.parquet`."""
N_COLOURS = 8
_MOST_LINES = 40
"""Samples of a model that are drawn; of more, some are left out."""
_LINE = 8
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@drawing
def errors(canvas: Canvas, rows: Sequence[Row], measure: str, name: str) -> None:
    """Draw estimate minus true value with its interval, a line per sample, a block per model."""
    blocks: dict[str, list[tuple[float, float, float, bool]]] = {}
    for row in rows:
        if row[f"{measure}_lower"] is not None:
            true = row[f"{measure}_true"]
            lower, centre, upper = (row[f"{measure}_{part}"] for part in ("lower", "mean", "upper"))
            ends = (lower - true, centre - true, upper - true)
            blocks.setdefault(row["model"], []).append((*ends, holds(lower, upper, true)))
    shown = {model: _some(lines) for model, lines in blocks.items()}
    values = [end for lines in shown.values() for line in lines for end in line[:3]]
    canvas.inset()
    canvas.begin_rows(*span([(-1.0, 1.0), values], 0.03))
    zero = canvas.x(0.0)
    said = []
    for model, lines in shown.items():
        covered = sum(line[3] for line in blocks[model])
        words = say("figures.errors.covered", covered=covered, n=len(blocks[model]))
        middle = sorted(line[1] for line in blocks[model])[len(blocks[model]) // 2]
        said.append(say("figures.errors.said", model=model, words=words, error=middle))
        canvas.row(model, words)
        y = canvas.cursor + 7
        # Interrupted where the words stand.
        canvas.line((zero, y - 4), (zero, y + _LINE * len(lines) - 4), "mark")
        for sample, (lower, centre, upper, inside) in enumerate(lines, start=1):
            told = {"name": f"{model} {sample}", "series": model}
            canvas.datum("interval", **told, x_lower=lower, x=centre, x_upper=upper)
            kind = "covered" if inside else "missed"
            canvas.line((canvas.x(lower), y), (canvas.x(upper), y), kind)
            tip = say("figures.errors.tip", model=model, error=centre)
            canvas.dot((canvas.x(centre), y), 2.5, f"{kind}-dot", tip)
            y += _LINE
        canvas.cursor = y + 4
    canvas.describe(say("figures.errors.title", name=name), said)
    canvas.end_rows(say("figures.errors.axis", name=name))


@drawing
def cutoffs(canvas: Canvas, results: Sequence[ModelScore]) -> None:
    """Draw false positives and false negatives against the cut-off on r1."""
    _square(canvas, results)
    for i, result in enumerate(results):
        for part, kind in (("false_negative", ""), ("false_positive", " dashed")):
            points = [(one.cutoff, getattr(one, part)) for one in result.cutoffs]
            _curve(canvas, i, points, say(f"figures.cutoffs.{part}", model=result.model), kind)
    canvas.x_axis(_SHARES, say("figures.cutoffs.axis"))
    canvas.describe(
        say("figures.cutoffs.title"),
        _spoken(results, "figures.cutoffs.at"),
    )


@drawing
def trade_off(canvas: Canvas, results: Sequence[ModelScore]) -> None:
    """Draw the share of false negatives against that of false positives."""
    _square(canvas, results)
    for i, result in enumerate(results):
        points = [(one.false_positive, one.false_negative) for one in result.cutoffs]
        _curve(canvas, i, points, result.model)
    canvas.x_axis(_SHARES, say("figures.trade_off.axis"))
    canvas.describe(
        say("figures.trade_off.title"),
        _spoken(results, "figures.trade_off.at"),
    )


@drawing
def calibration(canvas: Canvas, results: Sequence[ModelScore], measure: str) -> None:
    """Draw true against predicted record risks (`r1` or `r2`), in ten groups."""
    _square(canvas, results)
    canvas.line((canvas.x(0.0), canvas.y(0.0)), (canvas.x(1.0), canvas.y(1.0)), "mark-thin")
    groups: list[tuple[GroupScore, ...]] = [getattr(one, f"{measure}_groups") for one in results]
    most = max([1, *(group.records for part in groups for group in part)])
    what = say(f"figures.calibration.{measure}")
    said = []
    for i, (result, part) in enumerate(zip(results, groups, strict=True)):
        shares = []
        for group in part:
            if group.predicted is None or group.truth is None:
                continue
            tip = say("figures.calibration.tip", model=result.model, group=group, what=what)
            place = (canvas.x(group.predicted), canvas.y(group.truth))
            told = {"series": result.model, "records": group.records}
            canvas.datum("point", **told, x=group.predicted, y=group.truth)
            canvas.dot(
                place, 2.0 + 8.0 * math.sqrt(group.records / most), f"dot dot-{i % N_COLOURS}", tip
            )
            shares.append(say("figures.calibration.at", group=group))
        _curve(canvas, i, [(group.predicted, group.truth) for group in part], result.model)
        said.append(f"{result.model}: {', '.join(shares)}.")
    canvas.x_axis(_SHARES, say("figures.calibration.axis", measure=measure))
    canvas.describe(say("figures.calibration.title", measure=measure), said)


def _spoken(results: Sequence[ModelScore], code: str) -> list[str]:
    """Numbers at ten cut-offs, a sentence per model."""
    every = N_CUTOFFS // 10
    return [
        f"{result.model}: {', '.join(_at(code, one) for one in result.cutoffs[::every])}."
        for result in results
    ]


def _curve(
    canvas: Canvas,
    i: int,
    points: Sequence[tuple[float | None, float | None]],
    tip: str,
    kind: str = "",
) -> None:
    """Draw the line of a model through the points that are known."""
    known = [(x, y) for x, y in points if x is not None and y is not None]
    places = [(canvas.x(x), canvas.y(y)) for x, y in known]
    for x, y in known:
        canvas.datum("line", series=tip, x=x, y=y)
    if places:
        canvas.path(places, f"chain curve chain-{i % N_COLOURS}{kind}", tip)


@drawing
def generators(canvas: Canvas, results: Sequence[SynthesizerScore]) -> None:
    """Draw the share of reproduced sample uniques of each generator against its distance."""
    points = [
        (i, one, one.distance, one.reproduced.mean)
        for i, one in enumerate(results)
        if one.distance is not None and one.reproduced is not None
    ]
    for i, one, _, _ in points:
        y = canvas.cursor + line_height("label") / 2
        canvas.dot((15, y), 5.0, f"dot dot-{i % N_COLOURS}", one.synthesizer)
        canvas.name(one.synthesizer, 36, canvas.width - 38, kind="label")
    canvas.cursor += 12
    most = max([0.05, *(share for *_, share in points)])
    marks = ticks(0.0, 1.1 * most, 5)
    canvas.y_margin(marks)
    canvas.right -= 10
    low, high = span([(1.0,), [distance for *_, distance, _ in points]], 0.08, 0.05)
    canvas.x_range, canvas.y_range = (low, high), (0.0, 1.1 * most)
    canvas.area(274)
    canvas.y_axis(marks)
    for i, one, distance, share in points:
        tip = say("figures.generators.at", one=one)
        canvas.datum("point", series=one.synthesizer, x=distance, y=share)
        canvas.dot((canvas.x(distance), canvas.y(share)), 6.0, f"dot dot-{i % N_COLOURS}", tip)
    canvas.x_axis(ticks(low, high, 5), say("figures.generators.axis"))
    canvas.describe(
        say("figures.generators.title"),
        [say("figures.generators.at", one=one) for _, one, _, _ in points],
    )


def _square(canvas: Canvas, results: Sequence[ModelScore]) -> None:
    """Add a legend, and below it an area with shares on both axes."""
    for i, result in enumerate(results):
        y = canvas.cursor + line_height("label") / 2
        canvas.path([(2, y), (28, y)], f"chain curve chain-{i % N_COLOURS}", result.model)
        canvas.name(result.model, 36, canvas.width - 38, kind="label")
    canvas.cursor += 12
    canvas.y_margin(_SHARES)
    canvas.right -= 10
    canvas.area(274)
    canvas.y_axis(_SHARES)


def _at(code: str, one: CutoffScore) -> str:
    """Say the shares of false negatives and false positives at a cut-off."""
    negative, positive = (
        say("figures.cutoffs.none") if share is None else percent(share)
        for share in (one.false_negative, one.false_positive)
    )
    return say(code, cutoff=f"{one.cutoff:g}", negative=negative, positive=positive)


def _some(lines: list[tuple[float, float, float, bool]]) -> list[tuple[float, float, float, bool]]:
    """At most so many as can be drawn, spread over all, in the order of the error."""
    ordered = sorted(lines, key=lambda line: line[1])
    if len(ordered) <= _MOST_LINES:
        return ordered
    return [ordered[i * (len(ordered) - 1) // (_MOST_LINES - 1)] for i in range(_MOST_LINES)]
