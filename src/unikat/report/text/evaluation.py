"""An evaluation in words: its tables and warnings."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from unikat.models.named import models_by_label
from unikat.report.facts.evaluation import EvaluationSummary
from unikat.report.text.language import wording
from unikat.report.text.numbers import (
    between,
    digits,
    level,
    listed,
    number,
    percent,
    significant,
)
from unikat.report.text.words import say
from unikat.spec.models import AUTO
from unikat.studies.pooled import MeasureScore, ModelScore, RecordsScore
from unikat.studies.side_by_side import Beside, SynthesizerScore
from unikat.synthesis.utility import ORDERS

FEW_SAMPLES = 20
"""Samples below which a coverage says little."""


def head(table: str = "head") -> tuple[str, ...]:
    """Return the titles of the table of one measure, or of another one.

    Another one is `"side"`, of models side by side, or the first columns of `"synthesizers"`.
    """
    return tuple(wording(f"evaluation.{table}"))


def rows(results: Sequence[ModelScore], measure: str) -> list[tuple[str, ...]]:
    """Return the rows of the table of `tau1` or `tau2`, one per size and model.

    Formulas without an estimate have none.
    """
    made = []
    for result in results:
        score: MeasureScore | None = getattr(result, measure)
        name = (number(result.n), result.model)
        if score is None:
            if result.n_samples:
                continue
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
                *_interval(score, result.n_samples),
                _limits(score),
                "–" if score.width is None else number(score.width),
            )
        )
    return made


def _interval(score: MeasureScore, n_samples: int) -> tuple[str, str]:
    """How often the interval contained the truth, and on which side the truth lay."""
    n = n_samples if score.n_intervals is None else score.n_intervals
    if not n:
        return "–", "–"
    sides = "–" if score.n_above is None else f"{score.n_above}, {score.n_below}"
    return say("evaluation.covered", score=score, n=n), sides


def _limits(score: MeasureScore) -> str:
    if score.coverage_lower is None or score.coverage_upper is None:
        return "–"
    return between(score.coverage_lower, score.coverage_upper)


def side_by_side(summary: EvaluationSummary) -> list[tuple[str, ...]]:
    """Return the rows of the table of all models and formulas, the least error of τ1 first.

    Errors and widths are beside those that chance makes, by the r1 of the reference: `auto` where
    it is among the models, else the first of them.
    """
    made: list[tuple[str, ...]] = []
    for n in sorted({one.n for one in summary.results}):
        of_size = [
            one for one in summary.results if one.n == n and (one.tau1 or one.tau2 or one.n_failed)
        ]
        chance = reference(of_size).records if of_size else None
        for one in sorted(of_size, key=_error_of_tau1):
            name = (number(n), one.model)
            tau2 = _relative_error(one.tau2)
            made.append((*name, *_beside_chance(one, chance), *_of_records(one.records), tau2))
    return made


def _beside_chance(one: ModelScore, chance: RecordsScore | None) -> tuple[str, ...]:
    """Error and interval of τ1; both beside those that chance makes."""
    score = one.tau1
    if score is None:
        return ("–",) * 5
    error = width = "–"
    if chance is not None:
        error = _ratio(score.absolute, chance.by_chance)
        width = _ratio(score.width, chance.width_by_chance)
    return _relative_error(score), error, *_interval(score, one.n_samples), width


def _of_records(records: RecordsScore | None) -> tuple[str, ...]:
    if records is None:
        return ("–",) * 3
    auc = "–" if records.auc is None else f"{records.auc:.3f}"
    return auc, f"{records.brier:.4f}", f"{records.log_score:.4f}"


def _relative_error(score: MeasureScore | None) -> str:
    """Mean absolute error over the mean truth."""
    if score is None or score.absolute is None or not score.truth:
        return "–"
    return percent(score.absolute / score.truth)


def reference(results: Sequence[ModelScore]) -> ModelScore:
    """Return the model by whose r1 chance is measured: `auto`, else the first."""
    return next((one for one in results if one.model.split(":")[0] == AUTO), results[0])


def _error_of_tau1(one: ModelScore) -> float:
    found = one.tau1
    if found is None or found.absolute is None:
        return math.inf
    return found.absolute / found.truth if found.truth else found.absolute


def _ratio(value: float | None, to: float | None) -> str:
    return significant(value / to, 3) if value is not None and to else "–"


def synthesizer_head(summary: EvaluationSummary) -> tuple[str, ...]:
    """Return the names of the columns of `synthesizer_rows`."""
    of_households = any(one.apart for one in summary.synthesizers)
    return (*head("synthesizers"), *head("of_households" if of_households else "of_persons"))


def synthesizer_rows(summary: EvaluationSummary) -> list[tuple[str, ...]]:
    """Return the rows of the table of generators of synthetic files, those with a file."""
    return [_synthesizer_row(one) for one in summary.synthesizers if one.distances]


def _synthesizer_row(one: SynthesizerScore) -> tuple[str, ...]:
    distances = [f"{found.mean:.4f}" for found in one.distances]
    return (
        number(one.n),
        one.synthesizer,
        *distances,
        *["–"] * (len(ORDERS) - len(distances)),
        "–" if one.distance is None else significant(one.distance, 3),
        *_beside_second(one.reproduced),
        _mean(one.reproduced_alone),
        _mean(one.true_claims),
        *(_beside_second(one.inferred) if one.apart is None else _apart(one.apart)),
    )


def _apart(found: Beside) -> tuple[str, str]:
    """A distance, and how many times that of the second samples it is."""
    return f"{found.mean:.4f}", _ratio(found.mean, found.mean - found.difference)


def _mean(found: Beside | None) -> str:
    return "–" if found is None else percent(found.mean)


def _beside_second(found: Beside | None) -> tuple[str, str]:
    """A share, and how much larger it is than of the second samples, with its interval."""
    if found is None:
        return "–", "–"
    if found.lower is None or found.upper is None or found.lower == found.upper == 0.0:
        return percent(found.mean), signed_percent(found.difference)
    ends = wording("numbers.to").format(signed_percent(found.lower), signed_percent(found.upper))
    return percent(found.mean), f"{signed_percent(found.difference)} ({ends})"


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
    partly = sorted(
        {one.model for one in summary.results
         if one.model in summary.others and one.n_samples < study.repeats}
    )  # fmt: skip
    codes = (
        not summary.complete and "interrupted",
        summary.n_unconverged and "unconverged",
        summary.n_failed and "failed",
        study.plan.stop.max_seconds is not None and "time",
        bool(summary.results) and study.repeats < FEW_SAMPLES and "few",
        whole and "population",
        study.design == "stratified" and study.allocation == "proportional" and "proportional",
        study.levels == "sample" and "levels",
        study.blank > 0 and "blank",
        narrow and "narrow",
        partly and "partly",
    )
    facts: dict[str, Any] = {
        "summary": summary,
        "study": study,
        "narrow": ", ".join(narrow),
        "partly": ", ".join(partly),
    }
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


def design(summary: EvaluationSummary) -> str:
    """Say how the samples were drawn, and what the models used of the design."""
    study = summary.study
    how = study.design == "stratified" and f"evaluation.allocation.{study.allocation}"
    allocation = say(how, power=study.power)
    code = f"evaluation.design.{study.design}"
    return say(code, unit=summary.unit, allocation=allocation)


def answer(summary: EvaluationSummary) -> str:
    """Say for each measure how often the intervals contained the true value."""
    results = [one for one in summary.results if one.model not in summary.others]
    total = sum(one.n_samples for one in results)
    if not total and summary.synthesizers:
        shares = [
            say("evaluation.answer.share", one=one, share=one.reproduced.mean)
            for one in summary.synthesizers
            if one.reproduced is not None and one.n == summary.synthesizers[0].n
        ]
        return say("evaluation.answer.synthesizers", shares=listed(shares))
    if not total:
        return say("evaluation.answer.none")
    covered = {
        measure: sum(
            score.n_covered for one in results if (score := getattr(one, measure)) is not None
        )
        for measure in ("tau1", "tau2")
    }
    return say("evaluation.answer.covered", n=total, level=level(summary.study.level), **covered)
