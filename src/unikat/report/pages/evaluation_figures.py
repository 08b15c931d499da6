"""Figures of an evaluation as inline SVG, drawn as those of the report are.

Only sums over many records and the scores of whole samples enter a figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from unikat.report.pages.canvas import Canvas, drawing, line_height
from unikat.report.text.numbers import counted, number, percent
from unikat.risk.estimate import Summary
from unikat.studies.scores import N_CUTOFFS, FitScore, GroupScore, ModelScore, holds

N_COLOURS = 8
_MOST_LINES = 40
"""Samples of a model that are drawn; of more, some are left out."""
_LINE = 8
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


@drawing
def errors(canvas: Canvas, scores: Sequence[FitScore], measure: str, name: str) -> None:
    """Draw estimate minus true value with its interval, a line per sample, a block per model.

    Parameters
    ----------
    canvas
        Where to draw; `drawing` gives it.
    scores
        Fits of samples of one size.
    measure
        `tau1` or `tau2`.
    name
        What the measure is called.
    """
    blocks: dict[str, list[tuple[float, float, float, bool]]] = {}
    for score in scores:
        summary: Summary | None = getattr(score, measure)
        if summary is not None:
            true = getattr(score, f"{measure}_true")
            ends = (summary.lower - true, summary.mean - true, summary.upper - true)
            blocks.setdefault(score.model, []).append((*ends, holds(summary, true)))
    shown = {model: _some(lines) for model, lines in blocks.items()}
    values = [end for lines in shown.values() for line in lines for end in line[:3]]
    low, high = min([-1.0, *values]), max([1.0, *values])
    pad = 0.03 * (high - low)
    canvas.inset(14)
    canvas.x_range = (low - pad, high + pad)
    marks = canvas.x_ticks(8)
    zero = canvas.x(0.0)
    canvas.area(0)
    said = []
    for model, lines in shown.items():
        held = sum(line[3] for line in blocks[model])
        words = f"covered in {held} of {len(blocks[model])}"
        middle = sorted(line[1] for line in blocks[model])[len(blocks[model]) // 2]
        said.append(f"{model}: {words}, median error {number(middle)}.")
        canvas.row(model, words)
        y = canvas.cursor + 7
        # Interrupted where the words stand.
        canvas.line((zero, y - 4), (zero, y + _LINE * len(lines) - 4), "mark")
        for lower, centre, upper, inside in lines:
            kind = "held" if inside else "missed"
            canvas.line((canvas.x(lower), y), (canvas.x(upper), y), kind)
            tip = f"{model}: error {number(centre)}"
            canvas.dot((canvas.x(centre), y), 2.5, f"{kind}-dot", tip)
            y += _LINE
        canvas.cursor = y + 4
    canvas.alt = f"Estimate of {name} minus true value by sample and model. {' '.join(said)}"
    canvas.bottom = canvas.cursor
    canvas.x_grid(marks)
    canvas.x_axis(marks, f"estimate of {name} minus true value in the sample")


@drawing
def cutoffs(canvas: Canvas, results: Sequence[ModelScore]) -> None:
    """Draw false positives and false negatives against the cut-off on r1.

    Parameters
    ----------
    canvas
        Where to draw; `drawing` gives it.
    results
        Models on samples of one size.
    """
    _square(canvas, results)
    for i, result in enumerate(results):
        for part, kind in (("false_negative", ""), ("false_positive", " dashed")):
            points = [
                (canvas.x(one.cutoff), canvas.y(getattr(one, part)))
                for one in result.cutoffs
                if getattr(one, part) is not None
            ]
            if points:
                tip = f"{result.model}: {part.replace('_', ' ')} share"
                canvas.path(points, f"chain curve chain-{i % N_COLOURS}{kind}", tip)
    canvas.x_axis(_SHARES, "cut-off: records with r1 above it are classified as population uniques")
    canvas.alt = "Shares of false negatives and false positives by cut-off on r1."
    for result in results:
        shares = [
            f"above {one.cutoff:g} {_share(one.false_negative)} and {_share(one.false_positive)}"
            for one in result.cutoffs[:: N_CUTOFFS // 10]
        ]
        canvas.alt += f" {result.model}: {', '.join(shares)}."


@drawing
def trade_off(canvas: Canvas, results: Sequence[ModelScore]) -> None:
    """Draw the share of false negatives against that of false positives.

    Parameters
    ----------
    canvas
        Where to draw; `drawing` gives it.
    results
        Models on samples of one size.
    """
    _square(canvas, results)
    for i, result in enumerate(results):
        points = [
            (canvas.x(one.false_positive), canvas.y(one.false_negative))
            for one in result.cutoffs
            if one.false_positive is not None and one.false_negative is not None
        ]
        if points:
            canvas.path(points, f"chain curve chain-{i % N_COLOURS}", result.model)
    canvas.x_axis(_SHARES, "share of false positives")
    canvas.alt = "Share of false negatives against share of false positives."
    for result in results:
        shares = [
            f"{_share(one.false_negative)} at {_share(one.false_positive)}"
            for one in result.cutoffs[:: N_CUTOFFS // 10]
        ]
        canvas.alt += f" {result.model}: {', '.join(shares)}."


@drawing
def calibration(canvas: Canvas, results: Sequence[ModelScore], measure: str) -> None:
    """Draw the calibration of record risks: true against predicted risk, in ten groups.

    Parameters
    ----------
    canvas
        Where to draw; `drawing` gives it.
    results
        Models on samples of one size.
    measure
        `r1` or `r2`.
    """
    _square(canvas, results)
    canvas.line((canvas.x(0.0), canvas.y(0.0)), (canvas.x(1.0), canvas.y(1.0)), "mark-thin")
    groups: list[tuple[GroupScore, ...]] = [getattr(one, f"{measure}_groups") for one in results]
    most = max([1, *(group.records for part in groups for group in part)])
    what = "population uniques" if measure == "r1" else "mean of 1/F"
    for i, (result, part) in enumerate(zip(results, groups, strict=True)):
        points = []
        for group in part:
            if group.predicted is None or group.truth is None:
                continue
            place = (canvas.x(group.predicted), canvas.y(group.truth))
            points.append(place)
            radius = 2.0 + 8.0 * math.sqrt(group.records / most)
            tip = (
                f"{result.model}: predicted {percent(group.predicted)}, {what} "
                f"{percent(group.truth)}, {counted(group.records, 'record')}"
            )
            canvas.dot(place, radius, f"dot dot-{i % N_COLOURS}", tip)
        if points:
            canvas.path(points, f"chain curve chain-{i % N_COLOURS}", result.model)
    words = "r1, predicted" if measure == "r1" else "r2, predicted"
    canvas.x_axis(_SHARES, f"{words} (mean of the group)")
    canvas.alt = f"Truth against predicted {measure}, in ten groups."
    for result, part in zip(results, groups, strict=True):
        shares = [
            f"{percent(group.truth)} at {percent(group.predicted)}"
            for group in part
            if group.predicted is not None and group.truth is not None
        ]
        canvas.alt += f" {result.model}: {', '.join(shares)}."


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


def _share(value: float | None) -> str:
    return "none" if value is None else percent(value)


def _some(lines: list[tuple[float, float, float, bool]]) -> list[tuple[float, float, float, bool]]:
    """At most so many as can be drawn, spread over all, in the order of the error."""
    ordered = sorted(lines, key=lambda line: line[1])
    if len(ordered) <= _MOST_LINES:
        return ordered
    return [ordered[i * (len(ordered) - 1) // (_MOST_LINES - 1)] for i in range(_MOST_LINES)]
