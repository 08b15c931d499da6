"""The page, the table and the summary of comparisons made by hand."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar
from xml.etree import ElementTree

import numpy as np
import pytest

from report.browser import assert_sound, layout
from report.estimates import provenance, summary, table
from report.pages.test_assessment import Page
from unikat.errors import SpecError
from unikat.jobs.compare import Comparison as CompareAnswer
from unikat.jobs.outcome import check_folder
from unikat.models.base import Model
from unikat.models.named import Named
from unikat.report.facts.comparison import ComparisonSummary, comparison_facts
from unikat.report.folders.comparison import comparison_table
from unikat.report.pages import comparison_figures as figures
from unikat.report.pages.canvas import NARROW, WIDE
from unikat.report.pages.comparison import render
from unikat.report.pages.template import CONTENT_POLICY
from unikat.report.text import comparison
from unikat.report.text.numbers import interval, number
from unikat.report.text.summary import explained
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.kinds import COMPARE
from unikat.spec.trust import SHOWN
from unikat.studies.compare import ComparedModel, Comparison, RiskFit, SamplingRecord, ScoreFit
from unikat.studies.held_out import HeldOutScore, best_score, differences
from unikat.studies.predictive import SIZES, PredictiveCheck, counts_of_counts


@dataclass(frozen=True)
class StandIn(Model[Any, Any]):
    name: ClassVar[str] = "gom"
    population: ClassVar[str] = "multinomial"
    uncertainty: ClassVar[str] = "posterior"
    components: int = 2

    def never(self, *arguments: Any) -> Any:
        raise NotImplementedError

    prepare = init = step = cell_probabilities = predictive_probabilities = never
    impute = simulate = cost = never


def sampling(converged: bool = True) -> SamplingRecord:
    return SamplingRecord(
        converged=converged,
        stop_reason="converged" if converged else "time limit",
        rhat=1.004 if converged else 1.3,
        ess=800.0,
        n_chains=2,
        n_sweeps=1000,
        n_draws=500,
        n_discarded=250,
        thin=2,
        seconds=12.5,
    )


def risk_fit(centre: float, more: float, converged: bool = True) -> RiskFit:
    rng = np.random.default_rng(1)
    draws = rng.poisson(centre, 2000).astype(float)
    observed = counts_of_counts(table()).tolist()
    checks = tuple(
        PredictiveCheck(
            size=size, observed=number, mean=number * more, lower=number * more * 0.9,
            upper=number * more * 1.1, p_value=0.0 if abs(more - 1) > 0.1 else 0.7,
        )
        for size, number in zip(SIZES, observed, strict=True)
    )  # fmt: skip
    one = summary(draws)
    return RiskFit(
        tau1=one, tau2=one, tau1_expected=one, tau2_expected=one,
        tau1_deviation=float(draws.std()), checks=checks, n_simulated=400, warnings=(),
        sampling=sampling(converged),
    )  # fmt: skip


def score_fit(shift: float, n_zero: int = 0) -> ScoreFit:
    noise = np.random.default_rng(round(1000 * abs(shift)) + 3).normal(size=50)
    scores = np.random.default_rng(2).normal(-9.0, 2.0, 50) + shift + 0.1 * (noise - noise.mean())
    scores[:n_zero] = -math.inf
    found = scores[n_zero:]
    return ScoreFit(
        score=HeldOutScore(
            n_records=50, n_zero=n_zero, mean=float(found.mean()), standard_error=0.3,
            scores=scores, counts=np.ones(50, np.int64),
        ),
        sampling=sampling(),
    )  # fmt: skip


CASES = {2: (90.0, 1.3, -0.5), 5: (52.0, 1.02, 0.0), 20: (51.0, 1.0, -0.01)}


def compared(
    *,
    converged: bool = True,
    scored: bool = True,
    path: bool = True,
    n_zero: int = 0,
    option: str = "components",
) -> ComparisonSummary:
    fits = {
        value: (
            risk_fit(centre, more, converged or value != 2),
            score_fit(shift, n_zero if value == 2 else 0) if scored else None,
        )
        for value, (centre, more, shift) in CASES.items()
    }
    scores = [score.score for _, score in fits.values() if score is not None]
    apart: list[Any] = list(differences(scores)) if scored else [None] * 3
    models = tuple(
        ComparedModel(
            label=f"gom:components={value}", model=StandIn(value),  # type: ignore[arg-type]
            risk=risk, held_out=score, difference=difference, best=scored and value == 5,
        )
        for (value, (risk, score)), difference in zip(fits.items(), apart, strict=True)
    )  # fmt: skip
    values: dict[str, Any] = {"models": "gom", "keys": "AGE", "population_size": 150_000}
    if path:
        values["path"] = f"{option}=2,5,20"
    named = [
        Named(
            label=model.label, name="gom", model=model.model, base="gom" if path else None,
            value=value if path else None,
        )
        for model, value in zip(models, CASES, strict=True)
    ]  # fmt: skip
    facts = comparison_facts(
        Comparison(models=models, interrupted=False), named, table(),
        ComparisonSpec.parse(values), provenance(),
    )  # fmt: skip
    return explained(facts)


@pytest.fixture(scope="module")
def found() -> ComparisonSummary:
    return compared()


@pytest.mark.parametrize(
    "choices",
    [{}, {"converged": False}, {"scored": False}, {"path": False}, {"n_zero": 7}],
)
def test_the_page_is_one_file_without_script_or_network(choices: dict[str, Any]) -> None:
    page = Page(render(compared(**choices)))
    assert page.open == []
    policies = [a.get("content") for tag, a in page.tags if "http-equiv" in a and tag == "meta"]
    assert policies == [CONTENT_POLICY]
    for tag, attributes in page.tags:
        assert tag not in ("script", "link", "iframe", "object", "embed", "base", "form", "img")
        for name, value in attributes.items():
            assert not name.startswith("on"), (tag, name)
            assert name not in ("src", "href", "srcset", "action", "style"), (tag, name)
            if name != "xmlns":
                assert "://" not in (value or ""), (tag, name)
    assert "nan" not in page.text.lower().split()
    assert ("Not converged." in page.text) == ("converged" in choices)
    assert ("Stability of τ1 over components" in page.text) == ("path" not in choices)
    assert ("which model predicts unseen records best" in page.text) == ("scored" not in choices)
    # No label of a level, so no value of a record.
    assert "-v1" not in page.text


def test_figures_are_well_formed_and_speak(found: ComparisonSummary) -> None:
    models = found.models
    drawn = [
        figures.intervals(models, "tau1", "τ1", "caption"),
        figures.log_scores(models),
        figures.counts_of_counts(models),
        figures.path(models, found.paths[0]),
        figures.path(compared(scored=False).models, compared(scored=False).paths[0]),
    ]
    for drawing in drawn:
        for svg, most in ((drawing.wide, WIDE), (drawing.narrow, NARROW)):
            root = ElementTree.fromstring(svg)
            assert f"{root[0].text}. {root[1].text}" == drawing.alt
            assert "nan" not in svg
            for rect in root.iter("{http://www.w3.org/2000/svg}rect"):
                x, width = float(rect.attrib["x"]), float(rect.attrib["width"])
                assert -1 <= x <= x + width <= most + 1
    assert drawn[2].wide.count("doubt-mark") == 5
    for model in models:
        said = f"{model.model}: {number(model.tau1.median)}, {interval(model.tau1)}."
        assert said in drawn[0].alt
    assert "gom:components=2, once:" in drawn[2].alt


@pytest.mark.parametrize("choices", [{}, {"converged": False, "n_zero": 7}])
def test_no_text_is_cut_at_any_width(choices: dict[str, Any], tmp_path: Path) -> None:
    assert_sound(layout({"page": render(compared(**choices))}, tmp_path), figures=5)


def test_nothing_observed_and_nothing_simulated_can_be_drawn(found: ComparisonSummary) -> None:
    none = replace(found.models[0].checks[0], observed=0)
    unknown = replace(none, mean=math.nan, lower=math.nan, upper=math.nan, p_value=math.nan)
    checks = (none, unknown, *found.models[0].checks[2:])
    models = (replace(found.models[0], checks=checks), *found.models[1:])
    svg = figures.counts_of_counts(models).wide
    assert "file 0" in svg
    assert "no sample simulated" in svg
    assert "nan" not in svg
    assert "–" in render(replace(found, models=models))


def test_the_value_of_the_path_is_chosen(found: ComparisonSummary) -> None:
    (one,) = found.paths
    assert (one.option, one.base, one.values) == ("components", "gom", (2, 5, 20))
    assert one.chosen == 5
    assert not one.provisional
    assert "From components = 5 on" in found.sentences["paths.0"]
    assert "provisional" in compared(converged=False).sentences["paths.0"]
    open_ended = replace(one, chosen=None)
    assert "has not stabilised" in comparison.path_sentence(open_ended)
    assert "Use components" not in comparison.path_sentence(open_ended)
    assert "Use components = 5." in found.sentences["paths.0"]
    assert compared(path=False).paths == ()


def test_no_value_of_a_prior_is_chosen() -> None:
    """That a prior no longer moves the answer is no reason to take it."""
    summary = compared(option="zeros_tempering")
    (one,) = summary.paths
    assert one.chosen is None
    assert one.tau1_lowest < one.tau1_highest
    said = summary.sentences["paths.0"]
    assert "shows how sensitive τ1 is to the option" in said
    assert "Use zeros_tempering" not in said
    page = render(summary)
    assert "Sensitivity of τ1 to zeros_tempering" in page
    assert "Stability of τ1" not in page
    assert "A stable estimate" not in page


def test_the_evidence_in_words(found: ComparisonSummary) -> None:
    said = found.sentences["evidence"]
    assert said.startswith("gom:components=5 predicts the held-out records best")
    assert "gom:components=20 not significantly worse" in said
    assert said.endswith(
        "Samples simulated from gom:components=2 have more sample uniques than the file."
    )
    assert compared(converged=False).sentences["answer"].startswith("Provisional, not converged")
    alone = replace(found, models=found.models[:1])
    said = comparison.answer(alone)
    assert said.startswith("The model gom:components=2 estimates about ")
    assert f"interval {interval(alone.models[0].tau1)})" in said
    assert "do not rely on its interval" in comparison.evidence(alone)
    worse = replace(found.models[1], checks=found.models[0].checks)
    both = replace(found, models=(found.models[0], worse))
    assert "Samples simulated from all models have more" in comparison.evidence(both)
    assert "probability zero: 7" in "\n".join(comparison.terminal_table(compared(n_zero=7)))


def test_too_many_and_too_few_sample_uniques_are_told_apart(found: ComparisonSummary) -> None:
    check = found.models[0].checks[0]
    few = replace(check, mean=0.5 * check.observed)
    more, fewer, fits = (
        replace(model, model=name, checks=(one, *model.checks[1:]))
        for model, name, one in zip(
            found.models, ("much", "little", "fits"), (check, few, replace(check, p_value=0.7)),
            strict=True,
        )
    )  # fmt: skip

    def said(*models: Any) -> str:
        return comparison.evidence(replace(found, models=models))

    assert "Samples simulated from all models have fewer sample uniques" in said(fewer, fewer)
    assert "from all models have a different number of sample uniques" in said(more, fewer)
    assert "Samples simulated from little have fewer sample uniques than the file." in said(
        fewer, fits
    )
    assert "much and little have a different number of" in said(more, fewer, fits)
    assert said(fewer).startswith("Samples simulated from the model have fewer sample uniques than")


def test_the_best_model_is_named_only_as_far_as_can_be_told(found: ComparisonSummary) -> None:
    def said(**changes: Any) -> str:
        other = found.models[0]
        assert other.held_out is not None
        changed = replace(other, held_out=replace(other.held_out, **changes))
        return comparison.evidence(replace(found, models=(changed, *found.models[1:])))

    assert said().startswith("gom:components=5 predicts")
    assert said(sampling=sampling(converged=False)).startswith("Provisionally, gom:components=5 ")
    unknown = said(difference_standard_error=math.nan)
    assert unknown.startswith("Too few records were held out to tell which model predicts best.")
    assert "predicts the held-out records best" not in unknown


def test_the_table_has_a_row_per_model(found: ComparisonSummary) -> None:
    read = comparison_table(found)
    rows = read.to_pylist()
    assert [row["model"] for row in rows] == [f"gom:components={k}" for k in CASES]
    assert {row["repeat"] for row in rows} == {0}
    assert {row["n"] for row in rows} == {3000}
    for row, model in zip(rows, found.models, strict=True):
        assert model.held_out is not None
        assert row["tau1_mean"] == model.tau1.mean
        assert row["log_score_difference"] == model.held_out.difference
        assert row["cells_seen_5_upper"] == model.checks[4].upper
        assert row["converged"] is True
    assert [row["log_score_best"] for row in rows] == [False, True, False]
    assert read.schema.metadata[b"unikat.converged"] == b"true"
    without = comparison_table(compared(scored=False))
    assert without.schema == read.schema
    assert without.column("log_score_mean").null_count == 3


def test_what_is_written_is_private_and_complete(found: ComparisonSummary, tmp_path: Any) -> None:
    spec = ComparisonSpec.parse({"models": "gom", "path": "components=2,5,20"})
    CompareAnswer(summary=found, spec=spec).write(tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {*COMPARE.files, ".unikat"}
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in (tmp_path / "out").iterdir())
    content = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert content["schema"] == "unikat.comparison/1"
    assert content["paths"][0]["chosen"] == 5
    assert ComparisonSpec.read(tmp_path / "out" / "comparison.toml", SHOWN) == spec
    with pytest.raises(SpecError, match="exclude each other"):
        check_folder(COMPARE, tmp_path, resume=True, overwrite=True)


def test_long_names_are_shortened_in_the_middle(found: ComparisonSummary) -> None:
    name = "gom:" + ":".join(f"option_{i}=1" for i in range(20))
    drawing = figures.intervals([replace(found.models[0], model=name)], "tau1", "τ1", "caption")
    for svg in (drawing.wide, drawing.narrow):
        assert "…" in svg
        assert f"<title>{name}</title>" in svg
        assert "=1</text>" in svg


def test_a_warning_names_its_models_unless_all_have_it(found: ComparisonSummary) -> None:
    assert len(found.models) > 1
    first, *rest = found.models
    file = "There are missing keys."
    models = [replace(first, warnings=(file, "It underfits."))]
    models += [replace(model, warnings=(file,)) for model in rest]
    page = render(replace(found, models=tuple(models)))
    assert f"<li>{file}</li>" in page
    assert f"<li>{first.model}: It underfits.</li>" in page


def test_intervals_of_several_kinds_are_told_apart(found: ComparisonSummary) -> None:
    assert found.sentences["intervals"] == ""
    models = (replace(found.models[0], uncertainty="conditional"), *found.models[1:])
    said = comparison.explained(replace(found, models=models)).sentences["intervals"]
    assert said.startswith("The intervals cover different kinds of uncertainty: ")
    assert f"{models[0].model} (sampling uncertainty only, so too narrow)" in said
    alone = comparison.explained(replace(found, models=models[:1], paths=())).sentences["intervals"]
    assert alone.startswith("The intervals cover this uncertainty: ")


def test_a_model_that_records_refute_is_not_drawn_as_better() -> None:
    """It scores better on the other records, and is ranked after the best one all the same."""
    right = score_fit(0.0)
    # The same scores and a tenth more on all records but three, which it calls impossible.
    scores = np.where(np.arange(50) < 3, -math.inf, right.score.scores + 0.1)
    wrong = replace(
        right,
        score=replace(right.score, scores=scores, n_zero=3, mean=float(scores[3:].mean())),
    )
    assert best_score([right.score, wrong.score]) == 0
    apart = differences([right.score, wrong.score])
    assert apart[1].mean == pytest.approx(0.1)
    models = tuple(
        ComparedModel(
            label=label, model=StandIn(size),  # type: ignore[arg-type]
            risk=risk_fit(50.0, 1.0), held_out=fit, difference=difference, best=label == "right",
        )
        for label, size, fit, difference in zip(
            ("right", "wrong"), (2, 5), (right, wrong), apart, strict=True
        )
    )  # fmt: skip
    named = [Named(label=m.label, name="gom", model=m.model, base=None, value=None) for m in models]
    told = ComparisonSpec.parse({"models": "gom", "keys": "AGE", "population_size": 150_000})
    facts = comparison_facts(
        Comparison(models=models, interrupted=False), named, table(), told, provenance()
    )
    found = explained(facts)
    held_out = [model.held_out for model in found.models]
    assert [one.refuted for one in held_out if one is not None] == [False, True]
    assert "wrong gives probability zero to more of these records" in found.sentences["evidence"]
    page = render(found)
    drawn = re.findall(r"<svg[^>]*><title[^>]*>Held-out log score.*?</svg>", page, re.DOTALL)
    assert drawn
    for figure in drawn:
        assert "right" in figure
        assert "wrong" not in figure
    text = Page(page).text
    assert "Not drawn: wrong (3 records)" in text
    assert "+0.100" not in text
    assert "refuted" in text
    lines = comparison.terminal_table(found)
    assert any("refuted, probability zero: 3" in line for line in lines)


def of_kinds(*kinds: tuple[str, bool]) -> ComparisonSummary:
    """A comparison of models of these kinds of uncertainty, finished or not."""
    base = compared(path=False)
    models = []
    for (kind, finished), model in zip(kinds, base.models, strict=False):
        assert model.held_out is not None
        held_out = replace(model.held_out, sampling=sampling(finished))
        models.append(
            replace(
                model, model=f"{kind}-{len(models)}", uncertainty=kind, converged=finished,  # type: ignore[arg-type]
                sampling=sampling(finished), held_out=held_out,
            )
        )  # fmt: skip
    made = replace(base, models=tuple(models), converged=all(done for _, done in kinds))
    return replace(made, sentences=comparison.explained(made).sentences)


def test_draws_that_are_independent_have_no_chains_that_must_agree() -> None:
    few = of_kinds(("posterior", True), ("conditional", False))
    said = few.sentences["converged"]
    assert said.startswith("conditional-1 has too few independent draws")
    assert "not converged" not in said
    text = Page(render(few)).text
    assert "Not enough draws." in text
    assert "Not converged" not in text
    assert "(too few draws)" in text
    assert "(not converged)" not in text
    lines = "\n".join(comparison.terminal_table(few))
    assert "*: conditional-1: too few draws" in lines
    assert "1.300" not in lines
    both = of_kinds(("posterior", False), ("conditional", False))
    said = both.sentences["converged"]
    assert "The chains of posterior-0 have not converged" in said
    assert "conditional-1 has too few independent draws" in said
    assert "Not converged." in Page(render(both)).text
    assert comparison.state(of_kinds(("conditional", True), ("bootstrap", True))) == "Enough draws."
    assert comparison.state(of_kinds(("posterior", True), ("bootstrap", True))) == "Converged."
