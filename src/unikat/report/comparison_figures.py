"""Figures of a comparison as inline SVG, drawn as those of the report are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unikat.report.comparison_summary import ModelFacts, PathFacts
from unikat.report.comparison_wording import TIMES, check_sentence, difference, score
from unikat.report.figures import Canvas
from unikat.report.figures import _ticks as ticks
from unikat.report.wording import counted, interval, number
from unikat.risk.estimate import Summary

_ROW = 46
_THIN_ROW = 20
_MOST_RATIO = 3.0
"""Simulated counts above so many times the observed one are drawn at the edge."""
_LONGEST_LABEL = 84


def intervals(models: Sequence[ModelFacts], measure: str, name: str, caption: str) -> str:
    """Draw the interval of a measure for each model, one below the other.

    Parameters
    ----------
    models
        The models.
    measure
        `tau1` or `tau2`.
    name
        What the measure is called.
    caption
        Words under the axis.
    """
    found: list[tuple[ModelFacts, Summary]] = [(m, getattr(m, measure)) for m in models]
    canvas = Canvas(height=_ROW * len(found) + 58, left=16, right=16, top=6, bottom=50)
    high = max(summary.upper for _, summary in found)
    canvas.x_range = (0.0, max(high * 1.04, 1.0))
    _vertical_grid(canvas, ticks(*canvas.x_range, 8))
    for row, (model, summary) in enumerate(found):
        y = canvas.top + row * _ROW
        words = f"{number(summary.median)}, {interval(summary)}"
        tip = f"{model.model}: {name} {words}"
        canvas.text(canvas.left, y + 16, _label(model, model.sampling.converged), "start", "name")
        canvas.text(canvas.right, y + 16, words, anchor="end", kind="label")
        ends = (canvas.x(summary.lower), canvas.x(summary.upper))
        _range(canvas, ends, canvas.x(summary.median), y + 30, model.sampling.converged, tip)
    canvas.x_axis(ticks(*canvas.x_range, 8), caption)
    return canvas.svg(f"{name} by model, median and interval.")


def log_scores(models: Sequence[ModelFacts]) -> str:
    """Draw how much worse than the best each model predicts, plus and minus two standard errors."""
    found = [(model, model.held_out) for model in models if model.held_out is not None]
    canvas = Canvas(height=_ROW * len(found) + 58, left=16, right=24, top=6, bottom=50)
    ends = []
    for _, one in found:
        error = 0.0 if math.isnan(one.difference_standard_error) else one.difference_standard_error
        middle = 0.0 if math.isnan(one.difference) else one.difference
        ends.append((middle - 2.0 * error, middle, middle + 2.0 * error))
    low = min(end[0] for end in ends)
    high = max(end[2] for end in ends)
    pad = max(0.04 * (high - low), 1e-3)
    canvas.x_range = (low - pad, high + pad)
    _vertical_grid(canvas, ticks(*canvas.x_range, 7))
    zero = canvas.x(0.0)
    for row, ((model, one), (lower, middle, upper)) in enumerate(zip(found, ends, strict=True)):
        y = canvas.top + row * _ROW
        words = difference(one)
        if one.n_zero:
            words += f", {counted(one.n_zero, 'record')} impossible"
        canvas.text(canvas.left, y + 16, _label(model, one.sampling.converged), "start", "name")
        canvas.text(canvas.right, y + 16, words, anchor="end", kind="label")
        canvas.line((zero, y + 21), (zero, y + 39), "mark-thin")
        place = (canvas.x(lower), canvas.x(upper))
        tip = f"{model.model}: mean log score {score(one.mean)}, difference to the best {words}"
        _range(canvas, place, canvas.x(middle), y + 30, one.sampling.converged, tip)
    canvas.x_axis(
        ticks(*canvas.x_range, 7), "log score minus that of the best model, nats per record"
    )
    return canvas.svg("Held-out log score by model, difference to the best.")


def counts_of_counts(models: Sequence[ModelFacts]) -> str:
    """Draw, for each model, simulated counts of counts as a share of the observed ones."""
    shares = [
        end / check.observed
        for model in models
        for check in model.checks
        if check.observed
        for end in (check.lower, check.upper)
        if not math.isnan(end)
    ]
    block = 30 + _THIN_ROW * len(TIMES)
    canvas = Canvas(height=block * len(models) + 58, left=120, right=150, top=4, bottom=54)
    low = min([0.8, *shares])
    high = max(1.2, min(max([1.2, *shares]), _MOST_RATIO))
    canvas.x_range = (max(low - 0.04 * (high - low), 0.0), high + 0.04 * (high - low))
    marks = ticks(*canvas.x_range, 6)
    _vertical_grid(canvas, marks)
    for row, model in enumerate(models):
        top = canvas.top + row * block
        canvas.text(16, top + 18, _label(model, model.sampling.converged), "start", "name")
        one = canvas.x(1.0)
        canvas.line((one, top + 25), (one, top + block - 4), "mark")
        for line, (check, times) in enumerate(zip(model.checks, TIMES, strict=True)):
            y = top + 36 + line * _THIN_ROW
            canvas.text(canvas.left - 12, y + 4, times, anchor="end", kind="label")
            words = f"{check_sentence(check)}, file {check.observed:,}"
            tip = f"{model.model}: cells seen {times}: {words}"
            if math.isnan(check.mean):
                words = "no sample simulated"
            elif not check.observed:
                words = f"{check_sentence(check)}, file 0"
            else:
                places = [
                    canvas.x(min(value / check.observed, canvas.x_range[1]))
                    for value in (check.lower, check.mean, check.upper)
                ]
                within = check.lower <= check.observed <= check.upper
                _range(canvas, (places[0], places[2]), places[1], y, within, tip, solid=True)
            canvas.text(canvas.right + 10, y + 4, words, anchor="start", kind="tiny")
    canvas.x_axis(
        marks,
        "number of cells in simulated samples, the number in the file being 1",
    )
    return canvas.svg("Cells seen once, twice and so on in samples that each model would produce.")


def path(models: Sequence[ModelFacts], facts: PathFacts) -> str:
    """Draw τ1 and the held-out score against the value of the path's option."""
    members = [model for model in models if model.path_base == facts.base]
    scored = all(model.held_out is not None for model in members)
    canvas = Canvas(height=420 if scored else 250, left=58, right=16, top=24, bottom=46)
    full = canvas.bottom
    canvas.x_range = (-0.5, len(members) - 0.5)
    if facts.chosen is not None:
        place = canvas.x(facts.values.index(facts.chosen))
        half = min((canvas.right - canvas.left) / len(members) / 2, 30.0)
        box = (place - half, canvas.top, 2 * half, full - canvas.top)
        canvas.rect(box, "bar-back", f"{facts.option} = {facts.chosen:g} is chosen")
        canvas.text(place, canvas.top - 8, "chosen", kind="strong")
    if scored:
        canvas.bottom = canvas.top + 190
    low = min(model.tau1.lower for model in members)
    high = max(model.tau1.upper for model in members)
    pad = max(0.08 * (high - low), 0.5)
    canvas.y_range = (max(low - pad, 0.0), high + pad)
    canvas.y_axis(ticks(*canvas.y_range, 5))
    canvas.text(canvas.left, canvas.top - 8, "τ1", anchor="start", kind="strong")
    for position, model in enumerate(members):
        summary = model.tau1
        tip = f"{model.model}: τ1 {number(summary.median)}, {interval(summary)}"
        ends = (canvas.y(summary.lower), canvas.y(summary.upper))
        middle = canvas.y(summary.mean)
        _upright(canvas, canvas.x(position), ends, middle, model.sampling.converged, tip)
    if scored:
        _path_scores(canvas, members, full)
    canvas.bottom = full
    canvas.line((canvas.left, full), (canvas.right, full), "axis")
    for position, value in enumerate(facts.values):
        canvas.text(canvas.x(position), full + 17, f"{value:g}")
    canvas.text((canvas.left + canvas.right) / 2, full + 36, facts.option, kind="caption")
    return canvas.svg(f"τ1 of {facts.base} against {facts.option}.")


def _path_scores(canvas: Canvas, members: Sequence[ModelFacts], bottom: int) -> None:
    """Add a panel below with the scores of the models of a path."""
    canvas.top, canvas.bottom = canvas.bottom + 34, bottom
    ends = []
    for model in members:
        one = model.held_out
        assert one is not None
        error = 0.0 if math.isnan(one.difference_standard_error) else one.difference_standard_error
        middle = 0.0 if math.isnan(one.difference) else one.difference
        ends.append((middle - 2.0 * error, middle, middle + 2.0 * error, one))
    low, high = min(end[0] for end in ends), max(end[2] for end in ends)
    pad = max(0.08 * (high - low), 1e-3)
    canvas.y_range = (low - pad, high + pad)
    canvas.y_axis(ticks(*canvas.y_range, 4))
    words = "log score of records left out, minus that of the best model"
    canvas.text(canvas.left, canvas.top - 10, words, anchor="start", kind="strong")
    for position, (model, (lower, middle, upper, one)) in enumerate(
        zip(members, ends, strict=True)
    ):
        tip = f"{model.model}: difference to the best {difference(one)}"
        places = (canvas.y(lower), canvas.y(upper))
        converged = one.sampling.converged
        _upright(canvas, canvas.x(position), places, canvas.y(middle), converged, tip)


def _vertical_grid(canvas: Canvas, marks: Sequence[float]) -> None:
    for mark in marks:
        canvas.line((canvas.x(mark), canvas.top), (canvas.x(mark), canvas.bottom), "grid")


def _range(
    canvas: Canvas,
    ends: tuple[float, float],
    middle: float,
    y: float,
    sure: bool,
    tip: str,
    solid: bool = False,
) -> None:
    """Add an interval and its middle; in another colour where it is not sure."""
    kind = "bar-mid" if sure or not solid else "doubt"
    kind = kind if sure or solid else "bar-faint"
    canvas.rect((ends[0], y - 2.5, max(ends[1] - ends[0], 1.0), 5), kind, tip)
    canvas.rect((middle - 4, y - 4, 8, 8), "bar" if sure or not solid else "doubt-mark", tip)


def _upright(
    canvas: Canvas,
    x: float,
    ends: tuple[float, float],
    middle: float,
    sure: bool,
    tip: str,
) -> None:
    top, bottom = min(ends), max(ends)
    kind = "bar-mid" if sure else "bar-faint"
    canvas.rect((x - 2.5, top, 5, max(bottom - top, 1.0)), kind, tip)
    canvas.rect((x - 4, middle - 4, 8, 8), "bar", tip)


def _label(model: ModelFacts, converged: bool) -> str:
    name = model.model
    if len(name) > _LONGEST_LABEL:
        half = _LONGEST_LABEL // 2
        name = f"{name[:half]}…{name[-half:]}"
    return name if converged else f"{name} (not converged)"
