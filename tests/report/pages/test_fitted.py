"""What the report and the terminal say of models that are no samplers, and of their fits."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, get_args

import numpy as np
import pytest

from models.any_facts import AnyFacts
from report.estimates import estimate, provenance, spec, summarise
from unikat.cli._output import show
from unikat.files.json import json_text
from unikat.inference.draws import Draws
from unikat.models.base import Uncertainty
from unikat.report.facts.result import Result
from unikat.report.pages import fitted
from unikat.report.pages.assessment import render
from unikat.report.text import sentences
from unikat.report.text.language import known
from unikat.report.text.words import wording_of
from unikat.risk.estimate import RiskEstimate

STEPS = [
    {"added": "independence", "B1": 7.4, "B2": 13.6, "tau1": 75.2, "tau2": 133.0,
     "held_out": -7.251, "gain": None, "gain_error": None},
    {"added": "AGE:SEX", "B1": 1.2, "B2": -0.8, "tau1": 53.0, "tau2": 106.4,
     "held_out": -7.164, "gain": 0.0871, "gain_error": 0.0213},
]  # fmt: skip
FIT = {
    "terms": "AGE:SEX + REGION",
    "cells": 600,
    "zero_margins": 43,
    "margin_error": 9e-5,
    "B1": 1.2,
    "B2": -0.8,
    "criterion": "B2",
    "terms_added": 1,
    "path": STEPS,
}


@dataclass(frozen=True)
class Plugged:
    """Stands for a model of any kind."""

    name: ClassVar[str] = "loglinear"
    population: ClassVar[str] = "poisson"
    uncertainty: str = "conditional"
    smoothing: float = 0.0
    underfitting: float = 1.645
    interval: str = "conditional"


def found(kind: str, fit: dict[str, Any], *, converged: bool = True) -> RiskEstimate:
    made = estimate(converged=converged)
    assert made.draws is not None
    model: Any = Plugged(uncertainty=kind)
    return replace(made, draws=replace(made.draws, model=model, facts=AnyFacts(given=fit)))


def result(
    kind: str = "conditional", fit: dict[str, Any] | None = None, *, converged: bool = True
) -> Result:
    made = found(kind, FIT if fit is None else fit, converged=converged)
    # As `assess` has it: the model's name and options are in the specification.
    asked = spec().model_copy(
        update={
            "model": spec().model.model_validate(
                {"name": "loglinear", "smoothing": 0.0, "interval": "conditional"}
            )
        }
    )
    return summarise(made, asked, provenance())


def page(one: Result) -> str:
    draws: Draws | None = estimate().draws
    assert draws is not None
    return render(one, dict(draws.scalars))


def test_every_kind_has_its_words() -> None:
    for kind in get_args(Uncertainty):
        for part in ("title", "caption", "headline", "condition", "covers", "centre", "ends"):
            assert known(wording_of(kind, part)), (kind, part)


@pytest.mark.parametrize("kind", ["conditional", "bootstrap", "empirical-bayes"])
def test_independent_draws_are_no_posterior_of_chains(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    one = result(kind)
    text = page(one)
    show(one, Path("folder"))
    for said in (text, capsys.readouterr().out, json.dumps(one.sentences, ensure_ascii=False)):
        for words in ("osterior", "chains have", "The chains", "small classes", "140 samples"):
            assert words not in said, words
    assert "Enough draws." in text
    assert "one colour per chain" not in text
    assert "no chains to converge" in one.sentences["converged"]
    assert "lacks important terms can over- or understate τ1" in text


def test_what_the_interval_holds_is_said() -> None:
    narrow = dense(result("conditional"))
    assert narrow["answer"].endswith(" if the fitted model is exact.")
    assert "too narrow" in narrow["condition"]
    assert "interval=bootstrap" in narrow["condition"]
    wide = dense(result("bootstrap"))
    assert "estimation error" in wide["condition"]
    assert "too narrow" not in wide["condition"]
    assert "interval=bootstrap" not in wide["condition"]
    assert "somewhat too narrow" in dense(result("empirical-bayes"))["condition"]


def dense(one: Result) -> dict[str, str]:
    """What is said where there are more records than combinations: these intervals did well."""
    sample = replace(one.sample, n_combinations=1000.0)
    return sentences.sentences(replace(one, sample=sample))


def test_chains_of_another_model_have_another_start() -> None:
    text = page(result("posterior"))
    assert "The chains have converged" in text
    assert "started from different points" in text
    assert "small classes" not in text


def test_too_few_draws_are_told(capsys: pytest.CaptureFixture[str]) -> None:
    few = result(converged=False)
    assert "There are too few draws" in few.sentences["converged"]
    assert "Not enough draws." in page(few)
    show(few, Path("folder"))
    shown = capsys.readouterr().out
    assert "NOT ENOUGH DRAWS." in shown
    assert "R-hat" not in shown.partition("NOT ENOUGH")[0]


def test_the_fit_is_on_the_page() -> None:
    text = page(result())
    for words in (
        "<h2>Fitted model</h2>",
        "AGE:SEX + REGION",
        "600",
        "3.9% of the 15,552 cells",
        "without any record",
        "smoothing=1 leaves no zeros",
        "1.20",
        "−0.80",
        "Steps of the term selection",
        "13.60",
        "Expected τ1 and B2/√ν over the 1 steps of the selection",
        "Held-out log score",
        "−7.2510",
        "0.0871",
        "neither the size nor the sign of the error of τ1",
    ):
        assert words in text, words


def test_a_selection_by_held_out_score_shows_the_score() -> None:
    text = page(result(fit={**FIT, "criterion": "held-out"}))
    assert "Expected τ1 and held-out log score over the 1 steps" in text
    assert "the highest log score of held-out records" in text


def test_a_path_of_before_scores_has_no_columns_for_them() -> None:
    older = [{name: step[name] for name in list(step)[:5]} for step in STEPS]
    text = page(result(fit={**FIT, "path": older}))
    assert "Steps of the term selection" in text
    assert "Held-out log score" not in text


def test_a_model_that_says_nothing_has_no_section() -> None:
    one = result(fit={})
    assert one.fit == {}
    assert "Fitted model" not in page(one)
    assert fitted.brief(one) == ""


def test_unknown_facts_are_readable() -> None:
    fit = {
        "cells": 600,
        "effects": 12,
        "empirical": True,
        "spread": 0.12345,
        "seen": np.int64(3),
        "unknown": np.nan,
        "by_key": [{"key": "AGE <b>", "levels": 18}, {"key": "SEX", "levels": 2}],
        "options": {"random": "dp", "m": 3},
    }
    one = result("posterior", fit)
    text = page(one)
    for words in ("Fixed effects", "yes", "0.123", "By key", "AGE &lt;b&gt;", "random dp, m 3"):
        assert words in text, words
    assert "not known" in text
    assert "Fixed effects 12" in fitted.brief(one)


def test_the_fit_is_in_the_result_without_nan() -> None:
    one = result(fit={"B1": float("nan"), "path": [{"tau1": float("inf")}], "n": np.int64(4)})
    written = json.loads(json_text(asdict(one)))
    assert written["fit"] == {"B1": None, "path": [{"tau1": None}], "n": 4}
    assert written["uncertainty"] == "conditional"
    assert page(one)


def test_a_path_of_which_something_is_not_known_has_no_figure() -> None:
    steps = [STEPS[0], {**STEPS[1], "B2": None}]
    text = page(result(fit={**FIT, "path": steps, "B2": None, "terms_added": 60}))
    assert "the last 2" in text
    assert "steps of the selection." not in text


def test_margins_without_zeros_need_no_warning() -> None:
    text = page(result(fit={**FIT, "zero_margins": 0}))
    assert "smoothing=1" not in text
    assert "has a record" in text


def test_known_risks_have_no_kind() -> None:
    known = summarise(estimate(known=True), spec(), provenance())
    assert known.uncertainty is None
    assert sentences.state(known) == "Known exactly."
