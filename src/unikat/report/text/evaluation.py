"""An evaluation in words: its tables and warnings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unikat.models.named import models_by_label
from unikat.report.facts.evaluation import EvaluationSummary, StudyFacts
from unikat.report.text.language import wording
from unikat.report.text.numbers import between, digits, level, number, percent, significant
from unikat.report.text.words import say
from unikat.studies.scores import MeasureScore, ModelScore

FEW_SAMPLES = 20
"""Samples below which a coverage says little."""


def head() -> tuple[str, ...]:
    """Return the titles of the table of one measure."""
    return tuple(wording("evaluation.head"))


def rows(results: Sequence[ModelScore], measure: str) -> list[tuple[str, ...]]:
    """Return the rows of the table of `tau1` or `tau2`, one per size and model."""
    made = []
    for result in results:
        score: MeasureScore | None = getattr(result, measure)
        name = (number(result.n), result.model)
        if score is None:
            made.append((*name, *["–"] * (len(head()) - 2)))
            continue
        made.append(
            (
                *name,
                number(score.truth),
                number(score.estimate),
                signed(score.bias) + _error(score.bias_error),
                "–" if score.relative_bias is None else signed_percent(score.relative_bias),
                number(score.rmse),
                say("evaluation.covered", score=score, n=result.n_samples),
                "–" if score.n_above is None else f"{score.n_above}, {score.n_below}",
                between(score.coverage_lower, score.coverage_upper),
                number(score.width),
            )
        )
    return made


def signed(value: float) -> str:
    """Write a number with its sign.

    Examples
    --------
    >>> signed(3.62), signed(-12.4), signed(0.0)
    ('+3.6', '−12', '0')
    """
    sign = "+" if value > 0 else "−" if value < 0 else ""
    return sign + (digits(abs(value), 2) if 0 < abs(value) < 1 else number(abs(value)))


def signed_percent(share: float) -> str:
    """Write a share as a percentage with its sign.

    Examples
    --------
    >>> signed_percent(-0.031), signed_percent(0.5)
    ('−3.1%', '+50%')
    """
    return ("+" if share > 0 else "−" if share < 0 else "") + percent(abs(share))


def share(value: float | None) -> str:
    """Write a share that may be unknown."""
    return "–" if value is None else percent(value)


def _error(value: float | None) -> str:
    if value is None:
        return ""
    return f" ± {significant(value, 2) if value < 10 else number(round(value))}"


def explained(summary: EvaluationSummary) -> EvaluationSummary:
    """Add what to know before the numbers of a study are used."""
    return replace(summary, warnings=_warnings(summary))


def _warnings(summary: EvaluationSummary) -> tuple[str, ...]:
    study = summary.study
    narrow = [
        label
        for label, model in models_by_label(study.models).items()
        if model.uncertainty in ("conditional", "empirical-bayes")
    ]
    whole = summary.population.n_units in study.sizes and study.design != "bernoulli"
    codes = (
        not summary.complete and "interrupted",
        summary.n_unconverged and "unconverged",
        summary.n_failed and "failed",
        study.plan.stop.max_seconds is not None and "time",
        study.repeats < FEW_SAMPLES and "few",
        whole and "population",
        study.design == "stratified" and study.allocation == "proportional" and "proportional",
        study.levels == "sample" and "levels",
        narrow and "narrow",
    )
    facts: dict[str, Any] = {"summary": summary, "study": study, "narrow": ", ".join(narrow)}
    return tuple(say(f"evaluation.warning.{code}", **facts) for code in codes if code)


def state(summary: EvaluationSummary) -> str:
    """Say whether all fits were made, succeeded and converged."""
    if not summary.complete:
        name = "incomplete"
    elif summary.n_failed:
        name = "failed"
    else:
        name = "converged" if summary.converged else "unconverged"
    return say(f"evaluation.state.{name}")


def design(study: StudyFacts) -> str:
    """Say how the samples were drawn, and what the models used of the design."""
    how = study.design == "stratified" and f"evaluation.allocation.{study.allocation}"
    allocation = say(how, power=study.power)
    return say(f"evaluation.design.{study.design}", allocation=allocation)


def answer(summary: EvaluationSummary) -> str:
    """Say for each measure how often the intervals contained the true value."""
    total = sum(one.n_samples for one in summary.results)
    if not total:
        return say("evaluation.answer.none")
    covered = {
        measure: sum(
            score.n_covered
            for one in summary.results
            if (score := getattr(one, measure)) is not None
        )
        for measure in ("tau1", "tau2")
    }
    return say("evaluation.answer.covered", n=total, level=level(summary.study.level), **covered)
