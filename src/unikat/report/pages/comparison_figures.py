"""Figures of a comparison as inline SVG, drawn as those of the report are.

`drawing` gives each function its canvas.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from unikat.report.facts.comparison import HeldOutFacts, ModelFacts, PathFacts
from unikat.report.pages.canvas import Canvas, drawing, span, text_width, ticks
from unikat.report.text.comparison import TIMES, check_sentence, difference, mark, score
from unikat.report.text.numbers import interval, number
from unikat.report.text.words import say
from unikat.risk.estimate import Summary
from unikat.studies.compare import SamplingRecord
from unikat.studies.predictive import PredictiveCheck

_MOST_RATIO = 3.0
"""Simulated counts above so many times the observed one are drawn at the edge."""


@drawing
def intervals(
    canvas: Canvas, models: Sequence[ModelFacts], measure: str, name: str, caption: str
) -> None:
    """Draw the interval of a measure (`tau1` or `tau2`) for each model, one below the other."""
    found: list[tuple[ModelFacts, Summary]] = [(m, getattr(m, measure)) for m in models]
    canvas.inset()
    canvas.begin_rows(0.0, max(1.04 * max(summary.upper for _, summary in found), 1.0))
    said = []
    for model, summary in found:
        words = f"{number(summary.median)}, {interval(summary)}"
        label = _row(canvas, model, model.sampling, words)
        said.append(f"{label}: {words}.")
        values = (summary.lower, summary.median, summary.upper)
        tip = f"{model.model}: {name} {words}"
        canvas.interval(values, canvas.cursor - 14, tip, _kinds(model.sampling))
    canvas.describe(say("figures.models.title", name=name), said)
    canvas.end_rows(caption)


@drawing
def log_scores(canvas: Canvas, models: Sequence[ModelFacts]) -> None:
    """Draw how much worse than the best each model predicts, plus and minus two standard errors."""
    found = [(model, model.held_out) for model in models if model.held_out is not None]
    canvas.inset()
    canvas.begin_rows(*span([_score_ends(one) for _, one in found], 0.04, 1e-3), 7)
    zero = canvas.x(0.0)
    said = []
    for model, one in found:
        words = difference(one)
        if one.n_zero:
            words += say("figures.scores.zero", n=one.n_zero)
        label = _row(canvas, model, one.sampling, words)
        said.append(f"{label}: {words}.")
        y = canvas.cursor - 14
        canvas.line((zero, y - 9), (zero, y + 9), "mark-thin")
        tip = say("figures.scores.tip", model=model.model, score=score(one.mean), words=words)
        canvas.interval(_score_ends(one), y, tip, _kinds(one.sampling))
    canvas.describe(say("figures.scores.title"), said)
    canvas.end_rows(say("figures.scores.axis"))


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
    pad = 0.04 * (high - low)
    names = max(text_width(times) for times in TIMES) + 14
    numbers = max(text_width(_check(one), "tiny") for model in models for one in model.checks) + 12
    room = canvas.width - names - numbers
    side_by_side = room >= 0.4 * canvas.width
    if side_by_side:
        canvas.left, canvas.right = names, names + room
    else:
        canvas.inset()
    canvas.begin_rows(max(low - pad, 0.0), high + pad, 6)
    said = []
    for model in models:
        label = _label(model, model.sampling)
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
                values = [
                    min(value / check.observed, canvas.x_range[1])
                    for value in (check.lower, check.mean, check.upper)
                ]
                within = check.lower <= check.observed <= check.upper
                kinds = ("bar-mid", "bar") if within else ("doubt", "doubt-mark")
                tip = say("figures.counts.tip", model=model.model, times=times, words=words)
                canvas.interval(values, y, tip, kinds, name=times, series=label)
            canvas.cursor = y + 10
        if side_by_side:
            canvas.line((one, top), (one, canvas.cursor), "mark", below=True)
        canvas.cursor += 8
    canvas.describe(say("figures.counts.title"), said)
    canvas.end_rows(say("figures.counts.axis"))


@drawing
def path(canvas: Canvas, models: Sequence[ModelFacts], facts: PathFacts) -> None:
    """Draw τ1 and the held-out score against the value of the path's option."""
    members = [model for model in models if model.path_base == facts.base]
    scored = [model.held_out for model in members if model.held_out is not None]
    low, high = span([(one.tau1.lower, one.tau1.upper) for one in members], 0.08, 0.5)
    tau1_range = (max(low, 0.0), high)
    marks = ticks(*tau1_range, 5)
    score_range = span([_score_ends(one) for one in scored], 0.08, 1e-3)
    score_marks = ticks(*score_range, 4) if scored else []
    canvas.y_margin([*marks, *score_marks])
    canvas.x_range = (-0.5, len(members) - 0.5)
    canvas.words("τ1", "strong", canvas.left, "start")
    if facts.chosen is not None:
        place = canvas.x(facts.values.index(facts.chosen))
        canvas.words(say("figures.path.stable"), "strong", place)
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
        values = (summary.lower, summary.mean, summary.upper)
        x, kinds, tip = canvas.x(position), _kinds(model.sampling), f"{model.model}: τ1 {words}"
        name = f"{facts.option} {value:g}"
        canvas.interval(values, x, tip, kinds, upright=True, name=name, series="τ1")
    if scored:
        canvas.cursor += 12
        scores = say("figures.path.scores")
        canvas.panel(scores, 110, score_range, score_marks)
        for position, (model, one) in enumerate(zip(members, scored, strict=True)):
            tip = say("figures.path.score", model=model.model, difference=difference(one))
            said.append(f"{tip}.")
            x, kinds = canvas.x(position), _kinds(one.sampling)
            name = f"{facts.option} {facts.values[position]:g}"
            canvas.interval(_score_ends(one), x, tip, kinds, upright=True, name=name, series=scores)
    if facts.chosen is not None:
        half = min((canvas.right - canvas.left) / len(members) / 2, 30.0)
        box = (place - half, top, 2 * half, canvas.bottom - top)
        tip = say("figures.path.chosen", option=facts.option, value=f"{facts.chosen:g}")
        canvas.rect(box, "bar-back", tip, below=True)
    canvas.describe(say("figures.path.title", facts=facts), said)
    places = [(canvas.x(position), f"{value:g}") for position, value in enumerate(facts.values)]
    canvas.categories(places, facts.option)


def _score_ends(one: HeldOutFacts) -> tuple[float, float, float]:
    """Difference to the best minus two standard errors, itself, and plus two."""
    error = 0.0 if math.isnan(one.difference_standard_error) else one.difference_standard_error
    middle = 0.0 if math.isnan(one.difference) else one.difference
    return middle - 2.0 * error, middle, middle + 2.0 * error


def _check(check: PredictiveCheck) -> str:
    """Simulated and observed number of cells."""
    if math.isnan(check.mean):
        return say("figures.counts.none")
    return say("figures.counts.check", simulated=check_sentence(check), n=check.observed)


def _kinds(sampling: SamplingRecord) -> tuple[str, str]:
    return ("bar-mid" if sampling.converged else "bar-faint", "bar")


def _row(canvas: Canvas, model: ModelFacts, sampling: SamplingRecord, words: str) -> str:
    """Add a row for an interval, 14 above the cursor; return the name of the model in it."""
    label = _label(model, sampling)
    canvas.row(label, words)
    canvas.cursor += 23
    return label


def _label(model: ModelFacts, sampling: SamplingRecord) -> str:
    return f"{model.model}{mark(model, sampling)}"
