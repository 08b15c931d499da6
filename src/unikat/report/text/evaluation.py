"""An evaluation in words: its table, and what to know of its numbers."""

from __future__ import annotations

from collections.abc import Sequence

from unikat.models.named import models_by_label
from unikat.report.text.numbers import counted, number, percent
from unikat.spec.evaluation import EvaluationSpec
from unikat.studies.evaluate import Evaluation
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
    "held",
    "95% limits",
    "width",
)
"""Titles of the table of one measure."""


def rows(results: Sequence[ModelScore], measure: str) -> list[tuple[str, ...]]:
    """Rows of the table of one measure, in the words of a reader.

    Parameters
    ----------
    results
        One entry per size and model.
    measure
        `tau1` or `tau2`.
    """
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


def _error(value: float | None) -> str:
    return "" if value is None else f" ± {value:.2g}" if value < 10 else f" ± {value:,.0f}"


def narrow(spec: EvaluationSpec) -> tuple[str, ...]:
    """Name the models whose intervals leave out the error of the estimate."""
    found = [
        label
        for label, model in models_by_label(spec.models).items()
        if model.uncertainty in ("conditional", "empirical-bayes")
    ]
    if not found:
        return ()
    return (
        f"The intervals of {', '.join(found)} take what was estimated for the truth and leave out "
        "its error: they are expected to hold the truth less often than their level says.",
    )


def warnings(evaluation: Evaluation, n_unconverged: int, n_failed: int) -> tuple[str, ...]:
    """What to know of the numbers of a study."""
    study, done = evaluation.study, len(evaluation.scores)
    said = []
    if not evaluation.complete:
        total = len(study.sizes) * study.repeats * len(evaluation.models)
        said.append(
            f"The study was interrupted: {done:,} of {counted(total, 'fit')} "
            f"{'was' if done == 1 else 'were'} made. These numbers are about "
            f"{'that' if done == 1 else 'those'} alone; --resume goes on."
        )
    if n_unconverged:
        said.append(
            f"{n_unconverged:,} of {counted(done, 'fit')} stopped at a limit without having "
            "converged. Such fits are counted like the others; their estimates and intervals are "
            "less certain than they look."
        )
    if n_failed:
        said.append(
            f"{n_failed:,} of {counted(done, 'fit')} failed. Such fits are in no number here; the "
            "reasons are listed. If the samples that failed are unlike the others, what is left is "
            "biased."
        )
    if study.plan.stop.max_seconds is not None:
        said.append(
            "Fits had a time limit: how many draws were made, and so the numbers, depend on the "
            "machine and on what else it did."
        )
    if study.repeats < FEW_SAMPLES:
        said.append(
            f"With {counted(study.repeats, 'sample')} of a size the coverage is known only "
            "roughly: see its limits."
        )
    if evaluation.population_size in study.sizes and study.design != "bernoulli":
        said.append("A sample as large as the population is the population: its risk is known.")
    if study.design == "stratified" and study.allocation == "proportional":
        said.append(
            "The samples are stratified, while the models take them for simple random samples."
        )
    return tuple(said)
