"""Figures of a comparison as inline SVG, drawn as those of the report are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from unikat.report.facts.comparison import HeldOutFacts, ModelFacts, PathFacts
from unikat.report.pages.canvas import Canvas, drawing, text_width, ticks
from unikat.report.text.comparison import (
    TIMES,
    check_sentence,
    difference,
    score,
    unfinished,
)
from unikat.report.text.numbers import counted, interval, number
from unikat.risk.estimate import Summary
from unikat.studies.predictive import PredictiveCheck

_MOST_RATIO = 3.0
"""Simulated counts above so many times the observed one are drawn at the edge."""


@drawing
def intervals(
    canvas: Canvas, models: Sequence[ModelFacts], measure: str, name: str, caption: str
) -> None:
    """Draw the interval of a measure for each model, one below the other.

    Parameters
    ----------
    canvas
        Where to draw; `drawing` gives it.
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
    canvas.inset(14)
    canvas.x_range = (0.0, max(1.04 * max(summary.upper for _, summary in found), 1.0))
    marks = canvas.x_ticks(8)
    canvas.area(0)
    said = []
    for model, summary in found:
        words = f"{number(summary.median)}, {interval(summary)}"
        label = _label(model, model.sampling.converged)
        said.append(f"{label}: {words}.")
        canvas.row(label, words)
        ends = (canvas.x(summary.lower), canvas.x(summary.upper))
        y, tip = canvas.cursor + 9, f"{model.model}: {name} {words}"
        _range(canvas, ends, canvas.x(summary.median), y, model.sampling.converged, tip)
        canvas.cursor = y + 14
    canvas.alt = f"{name} by model, median and interval. {' '.join(said)}"
    canvas.bottom = canvas.cursor
    canvas.x_grid(marks)
    canvas.x_axis(marks, caption)


@drawing
def log_scores(canvas: Canvas, models: Sequence[ModelFacts]) -> None:
    """Draw how much worse than the best each model predicts, plus and minus two standard errors."""
    found = [(model, model.held_out) for model in models if model.held_out is not None]
    ends = [_score_ends(one) for _, one in found]
    low = min(end[0] for end in ends)
    high = max(end[2] for end in ends)
    pad = max(0.04 * (high - low), 1e-3)
    canvas.inset(14)
    canvas.x_range = (low - pad, high + pad)
    marks = canvas.x_ticks(7)
    zero = canvas.x(0.0)
    canvas.area(0)
    said = []
    for (model, one), (lower, middle, upper) in zip(found, ends, strict=True):
        words = difference(one)
        if one.n_zero:
            words += f", probability zero: {counted(one.n_zero, 'record')}"
        label = _label(model, one.sampling.converged)
        said.append(f"{label}: {words}.")
        canvas.row(label, words)
        y = canvas.cursor + 9
        canvas.line((zero, y - 9), (zero, y + 9), "mark-thin")
        place = (canvas.x(lower), canvas.x(upper))
        tip = f"{model.model}: mean log score {score(one.mean)}, difference to the best {words}"
        _range(canvas, place, canvas.x(middle), y, one.sampling.converged, tip)
        canvas.cursor = y + 14
    canvas.alt = f"Held-out log score by model, difference to the best. {' '.join(said)}"
    canvas.bottom = canvas.cursor
    canvas.x_grid(marks)
    canvas.x_axis(marks, "log score minus that of the best model, nats per record")


@drawing
def counts_of_counts(canvas: Canvas, models: Sequence[ModelFacts]) -> None:
    """Draw, for each model, simulated counts of counts as a share of the observed ones."""
    shares = [
        end / check.observed
        for model in models
        for check in model.checks
        if check.observed
        for end in (check.lower, check.upper)
        if not math.isnan(end)
    ]
    low = min([0.8, *shares])
    high = max(1.2, min(max([1.2, *shares]), _MOST_RATIO))
    canvas.x_range = (max(low - 0.04 * (high - low), 0.0), high + 0.04 * (high - low))
    names = max(text_width(times) for times in TIMES) + 14
    numbers = max(text_width(_check(one), "tiny") for model in models for one in model.checks) + 12
    room = canvas.width - names - numbers
    side_by_side = room >= 0.4 * canvas.width
    if side_by_side:
        canvas.left, canvas.right = names, names + room
    else:
        canvas.inset(14)
    marks = canvas.x_ticks(6)
    canvas.area(0)
    said = []
    for model in models:
        label = _label(model, model.sampling.converged)
        canvas.name(label)
        canvas.cursor += 3
        top = canvas.cursor
        one = canvas.x(1.0)
        for check, times in zip(model.checks, TIMES, strict=True):
            words = _check(check)
            said.append(f"{label}, {times}: {words}.")
            if side_by_side:
                y = canvas.cursor + 10
                canvas.text(canvas.left - 12, y + 4, times, anchor="end")
                canvas.text(canvas.right + 10, y + 4, words, anchor="start", kind="tiny")
            else:
                canvas.row(times, words, ("label", "tiny"))
                y = canvas.cursor + 6
                canvas.line((one, y - 5), (one, y + 5), "mark")
            if check.observed and not math.isnan(check.mean):
                places = [
                    canvas.x(min(value / check.observed, canvas.x_range[1]))
                    for value in (check.lower, check.mean, check.upper)
                ]
                within = check.lower <= check.observed <= check.upper
                tip = f"{model.model}: cells seen {times}: {words}"
                _range(canvas, (places[0], places[2]), places[1], y, within, tip, solid=True)
            canvas.cursor = y + 10
        if side_by_side:
            canvas.line((one, top), (one, canvas.cursor), "mark", below=True)
        canvas.cursor += 8
    canvas.alt = (
        f"Cells by number of records in samples simulated from each model. {' '.join(said)}"
    )
    canvas.bottom = canvas.cursor
    canvas.x_grid(marks)
    canvas.x_axis(marks, "number of cells in simulated samples, relative to this file (1)")


@drawing
def path(canvas: Canvas, models: Sequence[ModelFacts], facts: PathFacts) -> None:
    """Draw τ1 and the held-out score against the value of the path's option."""
    members = [model for model in models if model.path_base == facts.base]
    scored = [model.held_out for model in members if model.held_out is not None]
    low = min(model.tau1.lower for model in members)
    high = max(model.tau1.upper for model in members)
    pad = max(0.08 * (high - low), 0.5)
    tau1_range = (max(low - pad, 0.0), high + pad)
    marks = ticks(*tau1_range, 5)
    score_range, score_marks = (0.0, 1.0), []
    if scored:
        ends = [_score_ends(one) for one in scored]
        low, high = min(end[0] for end in ends), max(end[2] for end in ends)
        pad = max(0.08 * (high - low), 1e-3)
        score_range = (low - pad, high + pad)
        score_marks = ticks(*score_range, 4)
    canvas.y_margin([*marks, *score_marks])
    canvas.x_range = (-0.5, len(members) - 0.5)
    canvas.words("τ1", "strong", canvas.left, "start")
    if facts.chosen is not None:
        place = canvas.x(facts.values.index(facts.chosen))
        canvas.words("stable", "strong", place)
    top = canvas.cursor + 8
    canvas.cursor = top
    canvas.area(180)
    canvas.y_range = tau1_range
    canvas.y_axis(marks)
    said = []
    for position, (model, value) in enumerate(zip(members, facts.values, strict=True)):
        summary = model.tau1
        words = f"{number(summary.median)}, {interval(summary)}"
        said.append(f"{facts.option} {value:g}: {words}.")
        places = (canvas.y(summary.lower), canvas.y(summary.upper))
        middle, converged = canvas.y(summary.mean), model.sampling.converged
        tip = f"{model.model}: τ1 {words}"
        _upright(canvas, canvas.x(position), places, middle, converged, tip)
    if scored:
        canvas.cursor += 12
        words = "held-out log score minus that of the best model"
        canvas.words(words, "strong", canvas.left, "start")
        canvas.cursor += 8
        canvas.area(110)
        canvas.y_range = score_range
        canvas.y_axis(score_marks)
        for position, (model, one) in enumerate(zip(members, scored, strict=True)):
            lower, middle, upper = (canvas.y(end) for end in _score_ends(one))
            tip = f"{model.model}: difference to the best {difference(one)}"
            said.append(f"{model.model}: difference to the best {difference(one)}.")
            x, converged = canvas.x(position), one.sampling.converged
            _upright(canvas, x, (lower, upper), middle, converged, tip)
    if facts.chosen is not None:
        half = min((canvas.right - canvas.left) / len(members) / 2, 30.0)
        box = (place - half, top, 2 * half, canvas.bottom - top)
        canvas.rect(
            box, "bar-back", f"{facts.option} = {facts.chosen:g}: stable from here on", below=True
        )
    canvas.alt = f"τ1 of {facts.base} against {facts.option}. {' '.join(said)}"
    values = [(canvas.x(position), f"{value:g}") for position, value in enumerate(facts.values)]
    canvas.categories(values, facts.option)


def _score_ends(one: HeldOutFacts) -> tuple[float, float, float]:
    """Difference to the best minus two standard errors, itself, and plus two."""
    error = 0.0 if math.isnan(one.difference_standard_error) else one.difference_standard_error
    middle = 0.0 if math.isnan(one.difference) else one.difference
    return middle - 2.0 * error, middle, middle + 2.0 * error


def _check(check: PredictiveCheck) -> str:
    """Simulated and observed number of cells."""
    if math.isnan(check.mean):
        return "no sample simulated"
    return f"{check_sentence(check)}, file {check.observed:,}"


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
    return model.model if converged else f"{model.model} ({unfinished(model)})"
