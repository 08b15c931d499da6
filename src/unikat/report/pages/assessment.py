"""The report: one HTML file that opens anywhere, without a network and without a script."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from unikat._typing import Float64
from unikat.report.facts.assessment import Result
from unikat.report.pages import colours, figures, fitted
from unikat.report.pages.canvas import Drawing
from unikat.report.text import assessment, classics, limits, numbers, selection, track_record
from unikat.report.text.zeros import on_page
from unikat.risk.measures import WITHOUT_ERROR

CONTENT_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def render(result: Result, traces: Mapping[str, Float64]) -> str:
    """Render the report.

    Parameters
    ----------
    result
        What the report says.
    traces
        Draws of τ1 and τ2 by name, each (n_chains, n_draws), the discarded ones included; empty
        where nothing was sampled.

    Returns
    -------
    str
        A complete HTML document.
    """
    kind = assessment.kind(result)
    return template("report.html.j2").render(
        policy=CONTENT_POLICY,
        result=result,
        said=result.sentences,
        figures=drawings(result, traces),
        share=assessment.share(result),
        source=assessment.population_source(result),
        limits=limits.limits(result),
        zeros=on_page(result.zeros, "result.json"),
        selection=selection.on_page(result),
        classics=classics.rows(result.classics),
        fitted=fitted.on_page(result),
        kind=kind,
        state=assessment.state(result),
        known={
            name: kind.caption.format(measure=symbol)
            for name, symbol in (("tau1", "τ1"), ("tau2", "τ2"))
        },
        computation="" if result.sampling is None else assessment.computation(result),
        number=numbers.number,
        percent=numbers.percent,
        interval=numbers.interval,
        level=assessment.level(result.tau1),
        interval_name=assessment.interval_name(result),
        proviso=assessment.proviso(result),
        duration=numbers.duration,
        command="unikat assess assessment.toml --out NEW_FOLDER",
    )


def drawings(result: Result, traces: Mapping[str, Float64]) -> dict[str, Drawing]:
    """Draw the figures of the report, by name; those that the result has no numbers for are absent.

    Parameters
    ----------
    result, traces
        As for `render`.
    """
    drawn = {}
    sampling = result.sampling
    if sampling is not None and "tau1" in traces:
        first = sampling.n_discarded
        tau1, tau2 = traces["tau1"], traces["tau2"]
        kind = assessment.kind(result)
        drawn["tau1"] = figures.distribution(
            tau1[:, first:],
            result.tau1,
            "τ1",
            "τ1, unique records that are population unique",
            kind.title,
        )
        drawn["tau2"] = figures.distribution(
            tau2[:, first:],
            result.tau2,
            "τ2",
            "τ2, correct links an intruder would make",
            kind.title,
        )
        if not kind.independent:
            # An error that is drawn anew for every draw would hide that chains disagree.
            drawn["trace"] = figures.trace(traces.get(WITHOUT_ERROR[0], tau1), first, "τ1")
        if track_record.of_result(result).doubted:
            drawn["tau1_doubted"] = drawn.pop("tau1")
    if tried := selection.answers(result):
        words = "τ1, unique records that are population unique"
        drawn["selection"] = figures.answers(tried, "τ1", words)
    if not result.known_exactly and result.records.n_judged:
        drawn["records"] = figures.record_risks(result.records.histogram)
    if any(key.drop is not None for key in result.keys):
        drawn["keys"] = figures.key_drops(result.keys, result.tau1_expected.mean)
    return drawn


@lru_cache(maxsize=8)
def template(name: str) -> Template:
    """Load a page's template; values are escaped, and one that is not known is an error."""
    environment = Environment(
        loader=PackageLoader("unikat.report.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["counted"] = numbers.counted
    environment.globals["colours"] = Markup(colours.style())
    return environment.get_template(name)
