"""An evaluation in words: its tables and warnings."""

from __future__ import annotations

from collections.abc import Sequence

from unikat.models.named import models_by_label
from unikat.report.facts.evaluation import EvaluationSummary
from unikat.report.text.numbers import counted, number, percent, verb
from unikat.studies.scores import MeasureScore, ModelScore

FEW_SAMPLES = 20
"""Samples below which a coverage says little."""


HEAD = (
    "n",
    "model",
    "true",
    "estimated",
    "bias",
    "relative",
    "RMSE",
    "coverage",
    "truth above, below",
    "95% limits",
    "width",
)
"""Titles of the table of one measure."""


def rows(results: Sequence[ModelScore], measure: str) -> list[tuple[str, ...]]:
    """Return the rows of the table of `tau1` or `tau2`, one per size and model."""
    made = []
    for result in results:
        score: MeasureScore | None = getattr(result, measure)
        name = (f"{result.n:,}", result.model)
        if score is None:
            made.append((*name, *["–"] * (len(HEAD) - 2)))
            continue
        made.append(
            (
                *name,
                number(score.truth),
                number(score.estimate),
                signed(score.bias) + _error(score.bias_error),
                "–" if score.relative_bias is None else signed_percent(score.relative_bias),
                number(score.rmse),
                f"{score.n_covered} of {result.n_samples}",
                "–" if score.n_above is None else f"{score.n_above}, {score.n_below}",
                f"{percent(score.coverage_lower)} to {percent(score.coverage_upper)}",
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
    return sign + (f"{abs(value):.2f}" if 0 < abs(value) < 1 else number(abs(value)))


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
    return "" if value is None else f" ± {value:.2g}" if value < 10 else f" ± {value:,.0f}"


def warnings(summary: EvaluationSummary) -> tuple[str, ...]:
    """Return what to know before the numbers of a study are used."""
    study, done = summary.study, summary.n_done
    said = []
    if not summary.complete:
        said.append(
            f"The study was interrupted: {done:,} of {counted(summary.n_fits, 'fit')} "
            f"{verb(done, 'were')} made. The numbers are for "
            f"{'that' if done == 1 else 'those'} only; continue with --resume."
        )
    if summary.n_unconverged:
        said.append(
            f"{summary.n_unconverged:,} of {counted(done, 'fit')} stopped at a limit before "
            "converging. They are included; their estimates and intervals are less certain than "
            "they look."
        )
    if summary.n_failed:
        said.append(
            f"{summary.n_failed:,} of {counted(done, 'fit')} failed and are excluded; the reasons "
            "are listed. If the failed samples are unlike the others, the results are biased."
        )
    if study.max_seconds is not None:
        said.append("Fits had a time limit, so the numbers depend on the machine and its load.")
    if study.repeats < FEW_SAMPLES:
        said.append(
            f"With {counted(study.repeats, 'sample')} of a size, coverage is known only roughly: "
            "see its 95% limits."
        )
    if summary.population.n_units in study.sizes and study.design != "bernoulli":
        said.append("A sample as large as the population is the population: its risk is known.")
    if study.allocation == "proportional":
        said.append(
            "The samples are stratified, and the models treat them as simple random samples."
        )
    if study.levels == "sample":
        said.append(
            "The models knew only the levels that occur in the sample, as without a codebook."
        )
    narrow = [
        label
        for label, model in models_by_label(study.models).items()
        if model.uncertainty in ("conditional", "empirical-bayes")
    ]
    if narrow:
        said.append(
            f"The intervals of {', '.join(narrow)} treat estimates as exact and leave out their "
            "error. Expect them to contain the true value less often than their level."
        )
    return tuple(said)
