"""Model selection in words: candidates, held-out log scores and model uncertainty."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

from models.any_facts import AnyFacts
from report.estimates import estimate, provenance, spec, summarise, write
from unikat.cli._output import show
from unikat.jobs.outcome import write_page
from unikat.report.facts.result import Result
from unikat.report.folders.assessment import load
from unikat.report.pages import fitted
from unikat.report.pages.assessment import render
from unikat.report.text import selection, sensitivity, sentences
from unikat.report.text.limits import limits
from unikat.report.text.words import say, wording_of


class Calibrated:
    """Stands for a model with its error."""

    name = "auto"
    population = "multinomial"
    uncertainty = "calibrated"


def candidate(model: str, **changes: Any) -> dict[str, Any]:
    found = {
        "model": model, "chosen": False, "score": -7.2, "impossible": 0, "behind": -0.004,
        "behind_error": 0.0015, "uniques": 0.031, "choosable": True, "uncertainty": "posterior",
        "tau1": 50.2,
        "tau1_median": 50.0, "tau1_lower": 40.0, "tau1_upper": 61.0, "tau2": 90.0,
        "converged": True,
    }  # fmt: skip
    assert set(changes) <= set(found)
    return found | changes


FIRST = candidate("latent-class", chosen=True, behind=0.0, behind_error=0.0)
SECOND = candidate("hdp:alpha=per-record")
NARROW = candidate(
    "loglinear", choosable=False, uncertainty="conditional", impossible=3, behind=-0.28,
    behind_error=0.2, uniques=-0.1, converged=False,
)  # fmt: skip
ERROR = [
    {"what": "overdispersion", "lower": 0.09, "median": 0.25, "upper": 0.64},
    {"what": "level", "lower": 0.8, "median": 0.9, "upper": 1.1},
]


def facts(*candidates: dict[str, Any], **changes: Any) -> dict[str, Any]:
    rows = candidates or (FIRST, SECOND, NARROW)
    chosen = next(row["model"] for row in rows if row["chosen"])
    before = {"mean": 50.2, "median": 50.0, "lower": 40.0, "upper": 61.0}
    found = {"chosen": chosen, "candidates": list(rows), "model_error": ERROR, "before": before}
    return found | changes


def result(*candidates: dict[str, Any], **changes: Any) -> Result:
    found = estimate()
    assert found.draws is not None
    told = facts(*candidates, **changes)
    draws = replace(found.draws, model=Calibrated(), facts=AnyFacts(given=told))  # type: ignore[arg-type]
    made = summarise(replace(found, draws=None), spec(), provenance())
    made = replace(
        made, model="auto", model_options={"held_out": 0.5}, known_exactly=False,
        sampling=summarise(found, spec(), provenance()).sampling,
        uncertainty="calibrated", fit=draws.facts.values, sentences={},
    )  # fmt: skip
    made.sentences.update(sentences.sentences(made) | selection.sentences(made))
    return made


def traces() -> dict[str, Any]:
    found = estimate().draws
    assert found is not None
    return dict(found.scalars)


class Words(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.words: list[str] = []
        self.feed(text)
        self.text = " ".join(" ".join(self.words).split())

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_the_page_tells_the_choice_before_the_computation() -> None:
    page = render(result(), traces())
    text = Words(page).text
    assert text.index("3 candidate models") < text.index("The chains have converged")
    for words in (
        "3 candidate models were compared by prediction: 1,500 records of 3,000 were held out",
        "Selected model: latent-class. No other model with calibrated error predicted",
        "refuted probability zero: 3 −10%",
        "in trials 36% too low on average *",
        "No interval is shown for loglinear",
        "* marks fits that had not converged",
        "deviate from the model by 50% (30% to 80%; coefficient of variation",
        "cells of sample uniques are 10% rarer than the model says (20% rarer to 10% more",
        "latent-class alone estimates τ1 at 50 (40 to 61)",
    ):
        assert words in text, words
    assert "Fitted model" not in text
    assert "{" not in re.sub(r"<style>.*?</style>", "", page, flags=re.DOTALL)


def test_the_choice_is_told_in_the_json_and_on_the_terminal(
    capsys: pytest.CaptureFixture[str],
) -> None:
    found = result()
    for name in ("fit.chosen", "fit.candidates", "fit.model_error", "fit.before", "model"):
        assert found.sentences[name]
    show(found, Path("out"))
    told = " ".join(capsys.readouterr().out.split())
    assert "Selected model: latent-class. No other model with" in told
    assert "record 50 (40 to 61)" in told
    assert "loglinear 50 (in trials 36% too low on average)" in told
    assert "with an interval" in told
    assert say(wording_of("calibrated", "condition")) in told
    # Told once, not again as facts of the fit.
    assert "Fitted model" not in told
    assert fitted.on_page(found) is None


@pytest.mark.parametrize(
    ("candidates", "words"),
    [
        ((FIRST,), "Selected model: latent-class, the only candidate."),
        ((FIRST, NARROW), "latent-class, the only candidate whose model error is calibrated."),
        (
            (candidate("latent-class"), candidate("hdp", chosen=True, behind=0.0)),
            "hdp. It predicted the held-out records significantly better than latent-class",
        ),
        (
            (candidate("latent-class", impossible=2), candidate("hdp", chosen=True, behind=0.0)),
            "hdp. latent-class gives probability zero to 2 held-out records, hdp to 0.",
        ),
        (
            (
                FIRST | {"behind": -0.1},
                SECOND,
                candidate(
                    "elamir-skinner",
                    choosable=False,
                    uncertainty="empirical-bayes",
                    behind=0.0,
                ),
            ),
            "elamir-skinner predicted best, but is shown for comparison only",
        ),
    ],
)
def test_the_reason_is_the_one_that_decided(
    candidates: tuple[dict[str, Any], ...], words: str
) -> None:
    assert words in result(*candidates).sentences["fit.chosen"]


def test_what_is_not_known_is_no_number() -> None:
    found = result(
        FIRST | {"uniques": None},
        SECOND | {"behind": None, "behind_error": None},
        not_fitted=[{"model": "loglinear", "reason": "It is too large."}],
    )
    page = selection.on_page(found)
    assert page is not None
    assert page.candidates[0].excess == page.candidates[1].prediction == "not known"
    assert page.not_fitted == (("loglinear", "It is too large."),)
    assert "could not be fitted to this file: loglinear." in found.sentences["fit.not_fitted"]
    assert "loglinear was not fitted: It is too large." in Words(render(found, traces())).text


def test_without_its_error_the_model_is_said_to_have_none_counted() -> None:
    told = {name: value for name, value in facts().items() if name not in ("model_error", "before")}
    found = replace(result(), fit=told, uncertainty="posterior")
    assert "(calibrate=false)" in selection.sentences(found)["fit.before"]
    assert "fit.model_error" not in selection.sentences(found)
    text = Words(render(found, traces())).text
    assert "with model uncertainty" not in text
    assert "if the model is right" in text


def test_a_named_model_has_no_choice() -> None:
    plain = summarise(estimate(), spec(), provenance())
    assert selection.of(plain) is None
    assert selection.on_page(plain) is None
    assert selection.sentences(plain) == {}
    assert selection.brief(plain) == ""
    assert "Model selection" not in render(plain, traces())


def test_the_interval_is_said_to_hold_the_error_and_not_more() -> None:
    found = result()
    assert "covers sampling, parameter and model uncertainty" in found.sentences["condition"]
    assert "on real populations with known risk and on this file" in found.sentences["condition"]
    said = dict(limits(found))["The answer depends on the model"]
    for words in ("not cover", "synthetic", "lacks many levels", "population size", "not random"):
        assert words in said, words
    assert "551 of the 579 samples" in said
    assert "140 samples" not in said
    assert found.fitted_model == "latent-class"
    assert "many small classes" in sentences.computation(found)
    assert "Both also cover τ1 and τ2 without model uncertainty" in sentences.verdict(found)


def test_the_figure_tells_all_answers() -> None:
    from unikat.report.pages import figures

    found = result()
    drawing = figures.sensitivity(sensitivity.groups(found), "τ1", "τ1")
    for svg in (drawing.wide, drawing.narrow):
        ElementTree.fromstring(svg)
        assert 'role="img"' in svg
        for words in ("record: 50 (40 to 61)", "Answer: latent-class with model uncertainty"):
            assert words in svg
        # In trials its interval missed the truth: it is in the table, without an interval.
        assert "loglinear" not in svg
    zero = selection.Range(middle=0.0, lower=0.0, upper=0.0)
    one = sensitivity.Group(title="", rows=(selection.Answer(label="<a>", tau1=zero),))
    drawing = figures.sensitivity([one], "τ1", "τ1")
    ElementTree.fromstring(drawing.wide)


def test_chains_are_judged_without_the_error() -> None:
    found = result()
    assert found.sampling is not None
    bad = replace(found, converged=False, sampling=replace(found.sampling, rhat=1.2))
    assert "R-hat is up to 1.200 (target: at most 1.01)" in sentences.verdict(bad)
    page = render(found, traces() | {"tau1_model": traces()["tau1"] + 1000.0})
    assert "τ1 without model uncertainty by draw" in page
    drawn, _ = re.findall(r"<svg[^>]*><title[^>]*>τ1 in 4 chains.*?</svg>", page)
    assert re.search(r">1,[0-9]+<", drawn)


def test_the_report_is_rendered_again_as_it_was(tmp_path: Path) -> None:
    found = estimate()
    assert found.draws is not None
    scalars = dict(found.draws.scalars)
    scalars["tau1_model"] = scalars["tau1"] + 1.0
    scalars["tau2_model"] = scalars["tau2"]
    told = AnyFacts(given=facts())
    draws = replace(found.draws, scalars=scalars, facts=told)
    write(replace(found, draws=draws), tmp_path, spec(Path("/data/people.csv")), provenance())
    first = (tmp_path / "report.html").read_text()
    results = load(tmp_path)
    np.testing.assert_array_equal(results.traces["tau1_model"], scalars["tau1_model"])
    write_page(results.folder)
    assert (tmp_path / "report.html").read_text() == first
    assert "Model selection" in first
    fit = json.loads((tmp_path / "result.json").read_text())["fit"]
    assert fit["candidates"][2]["impossible"] == 3
