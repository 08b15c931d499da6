"""Figures of an evaluation as inline SVG, drawn as those of the report are.

Only sums over many records and the scores of whole samples enter a figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from unikat.report.figures import Canvas
from unikat.report.figures import _ticks as ticks
from unikat.report.wording import counted, number, percent
from unikat.risk.estimate import Summary
from unikat.risk.scores import FitScore, GroupScore, ModelScore, holds

N_COLOURS = 8
_MOST_LINES = 40
"""Samples of a model that are drawn; of more, some are left out."""
_LINE = 8
_SHARES = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)


def errors(scores: Sequence[FitScore], measure: str, name: str) -> str:
    """Draw estimate minus truth with its interval, a line per sample, a block per model.

    Parameters
    ----------
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
    n_lines = sum(map(len, shown.values()))
    canvas = Canvas(
        height=26 * len(shown) + _LINE * n_lines + 62, left=16, right=16, top=8, bottom=50
    )
    values = [end for lines in shown.values() for line in lines for end in line[:3]]
    low, high = min([-1.0, *values]), max([1.0, *values])
    pad = 0.03 * (high - low)
    canvas.x_range = (low - pad, high + pad)
    marks = ticks(*canvas.x_range, 8)
    for mark in marks:
        canvas.line((canvas.x(mark), canvas.top), (canvas.x(mark), canvas.bottom), "grid")
    zero = canvas.x(0.0)
    y = float(canvas.top)
    for model, lines in shown.items():
        y += 18
        held = sum(line[3] for line in blocks[model])
        canvas.text(canvas.left, y, _short(model), "start", "name")
        canvas.text(canvas.right, y, f"held in {held} of {len(blocks[model])}", "end", "label")
        y += 8
        # Interrupted where the words stand.
        canvas.line((zero, y - 4), (zero, y + _LINE * len(lines) - 4), "mark")
        for lower, middle, upper, inside in lines:
            kind = "held" if inside else "missed"
            canvas.line((canvas.x(lower), y), (canvas.x(upper), y), kind)
            tip = f"{model}: {number(middle)} from the truth"
            _dot(canvas, (canvas.x(middle), y), 2.5, f"{kind}-dot", tip)
            y += _LINE
    canvas.x_axis(marks, f"estimate of {name} minus the truth in the sample")
    return canvas.svg(f"Estimate of {name} minus the truth, for each sample and model.")


def cutoffs(results: Sequence[ModelScore]) -> str:
    """Draw false positives and false negatives against the cut-off on r1.

    Parameters
    ----------
    results
        Models on samples of one size.
    """
    canvas = _square_canvas(results)
    for i, result in enumerate(results):
        for part, kind in (("false_negative", ""), ("false_positive", " dashed")):
            points = [
                (canvas.x(one.cutoff), canvas.y(getattr(one, part)))
                for one in result.cutoffs
                if getattr(one, part) is not None
            ]
            if points:
                tip = f"{result.model}: {part.replace('_', ' ')} share"
                canvas.path(points, f"chain chain-{i % N_COLOURS}{kind}", tip)
    canvas.x_axis(_SHARES, "cut-off: records with r1 above it are called population unique")
    return canvas.svg("Shares of false negatives and false positives by cut-off on r1.")


def trade_off(results: Sequence[ModelScore]) -> str:
    """Draw the share of false negatives against that of false positives.

    Parameters
    ----------
    results
        Models on samples of one size.
    """
    canvas = _square_canvas(results)
    for i, result in enumerate(results):
        points = [
            (canvas.x(one.false_positive), canvas.y(one.false_negative))
            for one in result.cutoffs
            if one.false_positive is not None and one.false_negative is not None
        ]
        if points:
            canvas.path(points, f"chain chain-{i % N_COLOURS}", result.model)
    canvas.x_axis(_SHARES, "share of false positives")
    return canvas.svg("Share of false negatives against share of false positives.")


def calibration(results: Sequence[ModelScore], measure: str) -> str:
    """Draw what was true against what was predicted, for records of about the same risk.

    Parameters
    ----------
    results
        Models on samples of one size.
    measure
        `r1` or `r2`.
    """
    canvas = _square_canvas(results)
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
            _dot(canvas, place, radius, f"dot dot-{i % N_COLOURS}", tip)
        if points:
            canvas.path(points, f"chain chain-{i % N_COLOURS}", result.model)
    words = "r1, predicted" if measure == "r1" else "r2, predicted"
    canvas.x_axis(_SHARES, f"{words} (mean of the group)")
    return canvas.svg(f"Truth against predicted {measure}, in ten groups.")


def _square_canvas(results: Sequence[ModelScore]) -> Canvas:
    """Canvas with shares on both axes and a legend above."""
    row = 18
    canvas = Canvas(
        height=330 + row * len(results), left=46, right=16, top=10 + row * len(results), bottom=46
    )
    for i, result in enumerate(results):
        y = 10 + row * i
        ends = [(canvas.left, y), (canvas.left + 26, y)]
        canvas.path(ends, f"chain chain-{i % N_COLOURS}", result.model)
        canvas.text(canvas.left + 34, y + 4, _short(result.model), "start", "label")
    canvas.y_range = (0.0, 1.0)
    canvas.y_axis(_SHARES)
    return canvas


def _dot(canvas: Canvas, place: tuple[float, float], radius: float, kind: str, title: str) -> None:
    canvas.parts.append(
        f'<circle class="{kind}" cx="{place[0]:.1f}" cy="{place[1]:.1f}" r="{radius:.1f}">'
        f"<title>{escape(title)}</title></circle>"
    )


def _some(lines: list[tuple[float, float, float, bool]]) -> list[tuple[float, float, float, bool]]:
    """At most so many as can be drawn, spread over all, in the order of the error."""
    ordered = sorted(lines, key=lambda line: line[1])
    if len(ordered) <= _MOST_LINES:
        return ordered
    return [ordered[i * (len(ordered) - 1) // (_MOST_LINES - 1)] for i in range(_MOST_LINES)]


def _short(label: str, length: int = 80) -> str:
    return label if len(label) <= length else label[: length - 1] + "…"
