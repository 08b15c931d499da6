"""The report: one HTML file that opens anywhere, without a network and without a script.

Page one is for a committee; the technical part, in sections that fold, is for statisticians.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unikat._typing import Float64
from unikat.report.facts.breakdown import LevelFacts
from unikat.report.facts.result import Result
from unikat.report.facts.zeros import ZerosResult
from unikat.report.pages import figures, fitted
from unikat.report.pages.canvas import Drawing
from unikat.report.pages.fitted import FittedPage
from unikat.report.pages.template import fill
from unikat.report.text import (
    breakdown,
    classics,
    limits,
    numbers,
    selection,
    sensitivity,
    sentences,
)
from unikat.report.text.overview import Overview, overview
from unikat.report.text.selection import SelectionPage
from unikat.report.text.sensitivity import SensitivityPage
from unikat.report.text.words import nouns, say
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class ReportPage:
    """The context of `report.html.j2`: every name that the template uses, and no other."""

    title: str
    result: Result
    """The content of `result.json`; tables show its numbers."""
    unit: Any
    """The words for what all numbers are of."""
    said: Mapping[str, str]
    """Its sentences, by the path of the number that they explain."""
    overview: Overview
    """The sentences of page one."""
    figures: Mapping[str, Drawing]
    """By name; those that the result has no numbers for are absent."""
    sections: Mapping[str, str]
    """Titles of the sections of the technical part that this report has, by their anchor."""
    level: str
    """Probability of the intervals, such as 95%."""
    breakdowns: Sequence[tuple[str, Sequence[LevelFacts]]]
    """Variables of the table of risk by level, with their rows."""
    fitted: FittedPage | None
    selection: SelectionPage | None
    error: tuple[str, ...]
    """Model uncertainty of a model that was named."""
    sensitivity: SensitivityPage | None
    classics: Sequence[classics.Row]
    zeros: ZerosResult | None
    limits: Sequence[tuple[str, str]]
    """Assumptions and limits: a title and a text each."""
    provenance: Provenance
    command: str
    """What repeats the run."""


def render(result: Result, traces: Mapping[str, Float64]) -> str:
    """Render the report, a complete HTML document, in the language of the moment.

    Parameters
    ----------
    result
        The content of `result.json`.
    traces
        The draws of τ1 and τ2 by name, each (n_chains, n_draws), the discarded ones included;
        empty where nothing was sampled.
    """
    return fill("report.html.j2", context(result, traces))


def context(result: Result, traces: Mapping[str, Float64]) -> ReportPage:
    """Gather what the report shows; parameters as for `render`."""
    drawn, found = figures.drawings(result, traces), breakdown.tables(result.breakdowns)
    fit, selected = fitted.on_page(result), selection.on_page(result)
    error, compared = selection.error_on_page(result), sensitivity.on_page(result)
    measures = classics.rows(result.classics)
    independent = sentences.independent(result)
    present = {
        "measures": ("risk_measures", True),
        "file": ("file_and_key_variables", True),
        "households": ("households_and_members", result.households is not None),
        "levels": ("risk_by_level", bool(found)),
        "records": ("units_at_risk", "records" in drawn),
        "selection": ("model_selection", selected is not None),
        "error": ("model_uncertainty", bool(error)),
        "sensitivity": ("sensitivity", compared is not None),
        "fitted": ("fitted_model", fit is not None),
        "convergence": ("draws" if independent else "convergence", result.sampling is not None),
        "zeros": ("structural_zeros", result.zeros is not None),
        "release": ("two_releases", result.release is not None),
        "registry": ("registry", result.registry is not None),
        "linkage": ("linkage_with_errors", result.linkage is not None),
        "classics": ("classic_measures", bool(measures)),
        "limits": ("assumptions_and_limits", True),
        "repeat": ("how_to_repeat_this_run", True),
    }
    return ReportPage(
        title=say(f"overview.{'title_of' if result.data else 'title'}", data=result.data),
        result=result,
        unit=nouns(result.unit),
        said=result.sentences,
        overview=overview(result),
        figures=drawn,
        sections={
            anchor: say(f"titles.{title}", unit=result.unit)
            for anchor, (title, shown) in present.items()
            if shown
        },
        level=numbers.level(result.tau1.level),
        breakdowns=found,
        fitted=fit,
        selection=selected,
        error=error,
        sensitivity=compared,
        classics=measures,
        zeros=result.zeros,
        limits=limits.limits(result),
        provenance=result.provenance,
        command=AssessmentSpec.again(),
    )
