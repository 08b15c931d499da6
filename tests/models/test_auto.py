from __future__ import annotations

import math
from typing import Any

import pytest

from unikat.errors import SpecError
from unikat.models.auto import CANDIDATES, Auto
from unikat.models.catalogue import MODELS
from unikat.models.named import build_model
from unikat.spec.model import ModelSpec


def test_it_is_no_model_but_can_be_named():
    assert Auto.name not in MODELS
    assert build_model("auto", {}) == Auto()
    assert ModelSpec().name == "auto"
    assert list(Auto().models()) == list(CANDIDATES)
    assert {model.name for model in Auto().models().values()} == set(CANDIDATES)


@pytest.mark.parametrize(
    "candidates",
    ["hdp, gom:components=3", ["hdp", "gom:components=3"], (" hdp ", "gom:components=3")],
)
def test_candidates_are_a_text_or_a_list(candidates):
    auto = build_model("auto", {"candidates": candidates})
    assert auto.candidates == ("hdp", "gom:components=3")
    assert auto.models()["gom:components=3"].components == 3


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({"candidates": ""}, "candidates"),
        ({"candidates": "hdp,"}, "candidates"),
        ({"candidates": 3}, "candidates"),
        ({"candidates": ["hdp", 3]}, "candidates"),
        ({"candidates": ["hdp", " "]}, "candidates"),
        ({"candidates": []}, "candidates names no model that could be chosen"),
        ({"candidates": "loglinear,elamir-skinner"}, "names no model that could be chosen"),
        ({"candidates": "hdp,auto"}, "auto itself"),
        ({"candidates": "hdp,auto:held_out=0.3"}, "auto itself"),
        ({"candidates": "hdp,latentclass"}, "no model 'latentclass'"),
        ({"candidates": "hdp:colour=3"}, "no option 'colour'"),
        ({"candidates": "hdp,gom:components=0"}, "components"),
        ({"evidence_seconds": 0}, "evidence_seconds"),
        ({"evidence_seconds": -1.0}, "evidence_seconds"),
        ({"evidence_seconds": math.inf}, "evidence_seconds"),
        ({"evidence_seconds": "60"}, "evidence_seconds"),
        ({"calibrate": 1}, "calibrate"),
        ({"calibrate": "no"}, "calibrate"),
        ({"held_out": 0.0}, "held_out"),
        ({"held_out": 1.0}, "held_out"),
        ({"held_out": math.nan}, "held_out"),
        ({"candidate": "hdp"}, "no option 'candidate'.* candidates"),
    ],
)
def test_impossible_options_are_refused(bad, message):
    with pytest.raises(SpecError, match=message):
        build_model("auto", bad)


def test_candidates_may_refuse_keys():
    auto = Auto(candidates=("hdp", "loglinear:terms=AGE + SEX"))
    auto.check_keys(["AGE", "SEX"])
    with pytest.raises(SpecError, match="SEX"):
        auto.check_keys(["AGE", "REGION"])


def test_candidates_are_compiled(monkeypatch):
    told: list[Any] = []
    monkeypatch.setattr(MODELS["hdp"], "compile", lambda _, zeros: told.append(zeros))
    Auto(candidates=("hdp", "loglinear")).compile(True)
    assert told == [True]
