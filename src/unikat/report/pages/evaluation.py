"""The page of an evaluation: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unikat.report.facts.evaluation import EvaluationSummary, StudyFacts
from unikat.report.pages import assessment as html
from unikat.report.pages import evaluation_figures as figures
from unikat.report.pages.canvas import Drawing
from unikat.report.text import numbers
from unikat.report.text.evaluation import HEAD, rows, signed
from unikat.report.text.zeros import on_page
from unikat.studies.scores import N_CUTOFFS, CutoffScore, FitScore, ModelScore

_CUTOFFS = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Cut-offs of the table."""
_MOST_FAILURES = 50


@dataclass(frozen=True, kw_only=True)
class SizePart:
    """What the page shows of the samples of one size."""

    n: int
    results: tuple[ModelScore, ...]
    tau1: Drawing
    tau2: Drawing
    cutoffs: Drawing
    trade_off: Drawing
    r1: Drawing
    r2: Drawing
    at: tuple[tuple[str, tuple[CutoffScore, ...]], ...]
    """The table's cut-offs, by model."""


def render(summary: EvaluationSummary, scores: Sequence[FitScore]) -> str:
    """Render the page.

    Parameters
    ----------
    summary
        What the page says.
    scores
        The fits, for the figures of single samples.
    """
    return html.template("evaluation.html.j2").render(
        policy=html.CONTENT_POLICY,
        summary=summary,
        answer=_answer(summary),
        head=HEAD,
        rows={name: rows(summary.results, name) for name in ("tau1", "tau2")},
        parts=[_part(n, summary, scores) for n in _sizes(summary)],
        cutoffs=_CUTOFFS,
        zeros=on_page(summary.zeros, "summary.json"),
        failures=summary.failures[:_MOST_FAILURES],
        number=numbers.number,
        percent=numbers.percent,
        signed=signed,
        duration=numbers.duration,
        share=_share,
        level=f"{100 * summary.study.level:g}%",
        design=_drawn(summary.study),
        command="unikat evaluate evaluation.toml --out NEW_FOLDER",
    )


_DESIGNS = {
    "simple": "simple random sampling without replacement",
    "bernoulli": "Bernoulli sampling (each unit by itself, so the size varies)",
    "stratified": "stratified random sampling, ",
    "pps": "sampling with probabilities in proportion to a size (randomised systematic); the "
    "models were told the weights, the inverses of these, scaled to sum to the population",
}
_ALLOCATIONS = {
    "proportional": "each stratum with its share of the sample",
    "equal": "as many units from every stratum, or all where it has fewer",
    "power": "shares in proportion to the strata's sizes to the power ",
}


def _drawn(study: StudyFacts) -> str:
    """Say how the samples were drawn, and what the models were told of it."""
    said = _DESIGNS[study.design]
    if study.allocation is None:
        return said
    said += _ALLOCATIONS[study.allocation]
    if study.power is not None:
        said += f"{study.power:g}"
    if study.allocation != "proportional":
        said += "; the models were told the strata and their sizes"
    return said


def _answer(summary: EvaluationSummary) -> str:
    """Say for each measure how often the intervals held, over all models and sizes."""
    said: list[str] = []
    for measure, words in (("tau1", "τ1"), ("tau2", "τ2")):
        scores = [getattr(one, measure) for one in summary.results]
        held = sum(score.n_covered for score in scores if score is not None)
        total = sum(one.n_samples for one in summary.results)
        # The first says of what.
        of = f"{total:,}" if said else numbers.counted(total, "fit")
        said.append(f"that of {words} in {held:,} of {of}")
    if not any(one.n_samples for one in summary.results):
        return "No fit gave an estimate."
    level = f"{100 * summary.study.level:g}%"
    return f"The {level} intervals held the truth: {said[0]}, {said[1]}."


def _sizes(summary: EvaluationSummary) -> list[int]:
    return sorted({one.n for one in summary.results if one.n_samples})


def _part(n: int, summary: EvaluationSummary, scores: Sequence[FitScore]) -> SizePart:
    results = tuple(one for one in summary.results if one.n == n and one.n_samples)
    fits = [score for score in scores if score.n == n]
    places = [round(cutoff * N_CUTOFFS) for cutoff in _CUTOFFS]
    return SizePart(
        n=n,
        results=results,
        tau1=figures.errors(fits, "tau1", "τ1"),
        tau2=figures.errors(fits, "tau2", "τ2"),
        cutoffs=figures.cutoffs(results),
        trade_off=figures.trade_off(results),
        r1=figures.calibration(results, "r1"),
        r2=figures.calibration(results, "r2"),
        at=tuple((one.model, tuple(one.cutoffs[i] for i in places)) for one in results),
    )


def _share(value: float | None) -> str:
    return "–" if value is None else numbers.percent(value)
