"""The page of an evaluation: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from unikat.report.facts.evaluation import EvaluationSummary, Failure
from unikat.report.facts.zeros import ZerosFacts
from unikat.report.pages import evaluation_figures as figures
from unikat.report.pages.canvas import Drawing
from unikat.report.pages.template import fill
from unikat.report.text import evaluation
from unikat.report.text.households import described
from unikat.report.text.numbers import level
from unikat.report.text.words import nouns, say
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.provenance import Provenance
from unikat.studies.pooled import CutoffScore, ModelScore, UnsafeScore
from unikat.studies.scores import N_CUTOFFS, SUMMARIES, UNSAFE_CUTOFFS

_CUTOFFS = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Cut-offs of the table."""
_MOST_FAILURES = 50


Classified: TypeAlias = tuple[tuple[str, str, tuple[UnsafeScore, ...]], ...]
"""Errors at the cut-offs, by model and summary of F."""


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
    unsafe: tuple[tuple[str, Classified], ...]
    """Caption and rows of the tables of unsafe records and of unsafe cells."""


@dataclass(frozen=True, kw_only=True)
class EvaluationPage:
    """The context of `evaluation.html.j2`: every name that the template uses, and no other."""

    title: str
    summary: EvaluationSummary
    """The content of `summary.json`."""
    answer: str
    """The headline: how often the intervals contained the true value."""
    state: str
    """Whether all fits were made, succeeded and converged."""
    finished: bool
    """All of that."""
    parts: Sequence[SizePart]
    """Figures and tables by sample size."""
    generators: Sequence[tuple[int, Drawing]]
    """Sample size, and the figure of the generators of synthetic files."""
    cutoffs: Sequence[float]
    """Cut-offs of the table of false negatives and false positives."""
    unsafe_cutoffs: Sequence[float]
    """Cut-offs of the table of unsafe records."""
    failures: Sequence[Failure]
    design: str
    """How the samples were drawn."""
    level: str
    """Probability of the intervals, such as 95%."""
    zeros: ZerosFacts | None
    households_said: str
    """What a household is; empty where the units are persons."""
    unit: Any
    """The words for the units (`nouns`)."""
    provenance: Provenance
    command: str
    """What repeats the evaluation."""


def render(summary: EvaluationSummary, rows: Sequence[figures.Row]) -> str:
    """Render the page; `rows` are those of the samples and models."""
    return fill("evaluation.html.j2", context(summary, rows))


def context(summary: EvaluationSummary, rows: Sequence[figures.Row]) -> EvaluationPage:
    """Gather what the page shows; parameters as for `render`."""
    data = summary.population.data
    return EvaluationPage(
        title=say(f"pages.{'evaluation_of' if data else 'evaluation'}", data=data),
        summary=summary,
        answer=evaluation.answer(summary),
        state=evaluation.state(summary),
        finished=summary.converged and summary.complete and not summary.n_failed,
        parts=[_part(n, summary, rows) for n in _sizes(summary)],
        generators=[
            (n, figures.generators([one for one in summary.synthesizers if one.n == n]))
            for n in sorted({one.n for one in summary.synthesizers if one.n_samples})
        ],
        cutoffs=_CUTOFFS,
        unsafe_cutoffs=UNSAFE_CUTOFFS,
        failures=summary.failures[:_MOST_FAILURES],
        design=evaluation.design(summary),
        level=level(summary.study.level),
        zeros=summary.zeros,
        households_said=described(summary.households),
        unit=nouns(summary.unit),
        provenance=summary.provenance,
        command=EvaluationSpec.again(),
    )


def _sizes(summary: EvaluationSummary) -> list[int]:
    return sorted({one.n for one in summary.results if one.n_samples})


def _part(n: int, summary: EvaluationSummary, rows: Sequence[figures.Row]) -> SizePart:
    results = tuple(
        one
        for one in summary.results
        if one.n == n and one.n_samples and one.model not in summary.others
    )
    fits = [row for row in rows if row["n"] == n]
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
        unsafe=tuple(
            (caption, found)
            for caption, scores in (
                ("unsafe_records", [one.unsafe for one in results]),
                ("unsafe_cells", [one.unsafe_cells for one in results]),
            )
            if (found := _classified(results, scores))
        ),
    )


def _classified(
    results: Sequence[ModelScore], scores: Sequence[tuple[UnsafeScore, ...]]
) -> Classified:
    return tuple(
        (one.model, summary, at)
        for one, errors in zip(results, scores, strict=True)
        for summary in SUMMARIES
        if (at := tuple(error for error in errors if error.summary == summary))
    )
