"""The page of a comparison: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from unikat.report.facts.comparison import ComparisonSummary, ModelFacts, PathFacts
from unikat.report.facts.zeros import ZerosFacts
from unikat.report.pages import comparison_figures as figures
from unikat.report.pages.canvas import Drawing
from unikat.report.pages.fitted import facts_in_line
from unikat.report.pages.template import fill
from unikat.report.text import comparison
from unikat.report.text.households import described
from unikat.report.text.numbers import level, listed
from unikat.report.text.words import nouns, say
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.provenance import Provenance
from unikat.studies.path import SIZES


@dataclass(frozen=True, kw_only=True)
class PathSection:
    """What the page shows of a path over one option of a model."""

    question: str
    sentence: str
    figure: Drawing
    caption: str


@dataclass(frozen=True, kw_only=True)
class ComparisonPage:
    """The context of `comparison.html.j2`: every name that the template uses, and no other."""

    title: str
    summary: ComparisonSummary
    """The content of `summary.json`."""
    said: Mapping[str, str]
    """Its sentences, by name."""
    warnings: Sequence[str]
    figures: Mapping[str, Drawing]
    """By name; those that there are no numbers for are absent."""
    fits: Sequence[str]
    """Facts of the fit of each model; may be empty."""
    paths: Sequence[PathSection]
    level: str
    """Probability of the intervals, such as 95%."""
    zeros: ZerosFacts | None
    households_said: str
    """What a household is; empty where the units are persons."""
    unit: Any
    """The words for the units (`nouns`)."""
    left_out: bool
    """Units of the file were left out, because they break a rule."""
    provenance: Provenance
    command: str
    """What repeats the comparison."""


def render(summary: ComparisonSummary) -> str:
    """Render the page of a comparison, a complete HTML document."""
    return fill("comparison.html.j2", context(summary))


def context(summary: ComparisonSummary) -> ComparisonPage:
    """Gather what the page shows."""
    models = summary.models
    return ComparisonPage(
        title=say(f"pages.{'comparison_of' if summary.data else 'comparison'}", data=summary.data),
        summary=summary,
        said=summary.sentences,
        warnings=_warnings(models),
        figures=_drawings(summary),
        fits=[facts_in_line(model.fit) for model in models],
        paths=[
            _path(summary, path, summary.sentences[f"paths.{position}"])
            for position, path in enumerate(summary.paths)
        ],
        level=level(summary.level),
        zeros=summary.zeros,
        households_said=described(summary.households),
        unit=nouns(summary.unit),
        left_out=summary.n_left_out > 0,
        provenance=summary.provenance,
        command=ComparisonSpec.again(),
    )


def _drawings(summary: ComparisonSummary) -> dict[str, Drawing]:
    models, trusted = summary.models, comparison.trusted(summary)
    drawn = {"counts": figures.counts_of_counts(models)}
    if trusted:
        for name, symbol in (("tau1", "τ1"), ("tau2", "τ2")):
            axis = say(f"figures.{symbol}")
            drawn[name] = figures.intervals(trusted, name, symbol, axis)
    if models[0].held_out is not None:
        drawn["scores"] = figures.log_scores(
            [one for one in models if one.held_out is not None and not one.held_out.refuted]
        )
    return drawn


def _path(summary: ComparisonSummary, path: PathFacts, sentence: str) -> PathSection:
    models = summary.models
    caption = say(
        f"pages.path.{'scores' if _scored(models, path) else 'intervals'}",
        path.option in SIZES and "pages.path.rule",
        level=level(summary.level),
        option=path.option,
    )
    return PathSection(
        question=comparison.path_question(path),
        sentence=sentence,
        figure=figures.path(_on_path(models, path), path),
        caption=caption,
    )


def _scored(models: Sequence[ModelFacts], path: PathFacts) -> bool:
    """Whether the scores along a path can be drawn: not those of models that records refute."""
    members = [model for model in models if model.path_base == path.base]
    return all(one.held_out is not None and not one.held_out.refuted for one in members)


def _on_path(models: Sequence[ModelFacts], path: PathFacts) -> Sequence[ModelFacts]:
    """Return the models for the figure of a path, without scores that cannot be drawn."""
    if _scored(models, path):
        return models
    return [replace(model, held_out=None) for model in models]


def _warnings(models: Sequence[ModelFacts]) -> list[str]:
    """Warnings of the models; what concerns the file is said by all alike, and once."""
    sampled = [model for model in models if model.sampling.converged]
    said: dict[str, list[str]] = {}
    for model in sampled:
        for warning in model.warnings:
            said.setdefault(warning, []).append(model.model)
    return [
        warning if len(names) == len(sampled) else f"{listed(names)}: {warning}"
        for warning, names in said.items()
    ]
