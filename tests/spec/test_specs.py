from __future__ import annotations

import math
import tomllib
from datetime import date
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unikat.errors import SpecError
from unikat.files.toml import read_toml, toml_value, write_toml
from unikat.language.keys import split_keys
from unikat.models.named import compared_models
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.model import ModelSpec
from unikat.spec.option import Option, options_of
from unikat.spec.provenance import Provenance
from unikat.spec.tables import DataSpec
from unikat.spec.trust import SHOWN
from unikat.spec.values import Table

scalars = (
    st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(exclude_categories=["Cs"]))
    | st.dates()
)
names = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(names, trees, max_size=4))
def test_what_is_written_is_read_back(values: dict[str, object]) -> None:
    assert tomllib.loads(write_toml(values)) == values


def test_special_values_are_written() -> None:
    text = write_toml({"inf": math.inf, "nan": math.nan, "day": date(2026, 1, 2), "empty": {}})
    back = tomllib.loads(text)
    assert back["inf"] == math.inf
    assert math.isnan(back["nan"])
    assert back["day"] == date(2026, 1, 2)
    assert back["empty"] == {}


@pytest.mark.parametrize("value", [None, object(), {"a": [None]}, "\ud800"])
def test_what_toml_cannot_hold_is_refused(value: object) -> None:
    with pytest.raises(SpecError, match="TOML"):
        write_toml({"x": value})


def test_a_specification_survives_the_round_trip(tmp_path: Path) -> None:
    spec = AssessmentSpec.parse(
        {
            "population_size": 10**12,
            "keys": ["AGE:cut(0,10)", 'a "quoted" näme', "SEX"],
            "data": {
                "path": str(tmp_path / "data" / "people.csv"),
                "missing_values": {"AGE": [-1, "x"], "SEX": 9},
                "delimiter": "\t",
            },
            "model": {"name": "hdp", "alpha_shape": 0.5, "alpha": "per-record"},
            "sampling": {"seed": 7, "max_seconds": 1.5},
            "report": {"level": 0.9, "show_small_cells": True},
        }
    )
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "assessment.toml").write_text(spec.to_toml(folder))
    assert AssessmentSpec.read(folder / "assessment.toml", SHOWN) == spec
    assert spec.model.options == {"alpha_shape": 0.5, "alpha": "per-record"}


def test_paths_are_relative_to_the_specification(tmp_path: Path) -> None:
    spec = AssessmentSpec.parse(
        {"data": {"path": "d/p.csv", "codebook": "c.json"}}, folder=tmp_path
    )
    assert spec.data.path == tmp_path / "d" / "p.csv"
    values = tomllib.loads(spec.to_toml(tmp_path / "out"))
    assert values["data"]["path"] == "../d/p.csv"
    assert values["data"]["codebook"] == "../c.json"


def test_a_path_that_shares_nothing_stays_absolute() -> None:
    spec = AssessmentSpec.parse({"data": {"path": "/elsewhere/p.csv"}})
    values = tomllib.loads(spec.to_toml(Path("/home/out")))
    assert values["data"]["path"] == "/elsewhere/p.csv"


def test_all_errors_are_told_at_once() -> None:
    with pytest.raises(SpecError) as caught:
        AssessmentSpec.parse(
            {
                "population": 5,
                "keys": [1],
                "data": {"missing": "drop"},
                "sampling": {"chainz": 2, "seed": -1},
                "report": {"level": 2},
            },
            where="spec.toml",
        )
    message = str(caught.value)
    assert message.startswith("spec.toml is not valid in 6 places:")
    assert "population: no such name. Did you mean 'population_size'?" in message
    assert "sampling.chainz: no such name. Did you mean 'chains'?" in message
    assert "sampling.seed is -1; it must be at least 0 and below 9,223," in message
    assert "data.missing is 'drop'; it must be integrate, level or wildcard." in message
    assert "report.level is 2; it must be above 0 and below 1, such as 0.95." in message
    assert "keys.0 is 1; it must be text." in message


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"held_out": "1"}, "held_out is 1; it must be at least 0 and below 1, such as 0.2."),
        ({"held_out": "120%"}, "held_out is 1"),
        ({"held_out": "a fifth"}, "held_out is 'a fifth'; it must be a number, at least 0 and bel"),
        (
            {"report": {"level": 2}},
            "report.level is 2; it must be above 0 and below 1, such as 0.95.",
        ),
        (
            {"sampling": {"rhat": "0.9"}},
            "sampling.rhat is 0.9; it must be above 1 and at most 1,000,000, such as 1.01.",
        ),
        (
            {"sampling": {"chains": 0}},
            "sampling.chains is 0; it must be at least 1 and at most 1,024, such as 4.",
        ),
        (
            {"sampling": {"chains": "2.5"}},
            "sampling.chains is 2.5; it must be a whole number, at least 1 and at most 1,024, suc",
        ),
        (
            {"sampling": {"thin": 0}},
            "sampling.thin is 0; it must be at least 1 and at most 500,000,000.",
        ),
        ({"sampling": {"thin": "x" * 99}}, "sampling.thin is 'xxxxxxxxxx"),
        ({"sampling": 3}, "sampling is 3; it must be a table."),
        ({"models": 3}, "models is 3; it must be a list."),
        (
            {"data": {"missing": "wildcards"}},
            "data.missing is 'wildcards'; it must be integrate, level or wildcard. "
            "Did you mean 'wildcard'?",
        ),
        ({"path": {"option": "x", "values": [1]}}, "path.values: a path needs two or more"),
        ({"path": {"option": "x"}}, "path.values: Field required."),
    ],
)
def test_an_option_with_a_wrong_value_is_told_with_its_rule(
    values: dict[str, object], message: str
) -> None:
    with pytest.raises(SpecError) as caught:
        ComparisonSpec.parse(values)
    assert str(caught.value).startswith(f"The specification is not valid: {message}")
    assert "Input should" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_values_that_mean_missing_are_not_told() -> None:
    with pytest.raises(SpecError) as caught:
        AssessmentSpec.parse({"data": {"missing_values": [["SECRET"]]}})
    assert "SECRET" not in str(caught.value)


@pytest.mark.parametrize("text", ["20%", " 20 %", "20.0%", "0.2", 0.2])
def test_a_share_may_be_given_in_percent(text: object) -> None:
    assert ComparisonSpec.parse({"held_out": text, "report": {"level": "95%"}}) == ComparisonSpec()
    assert AssessmentSpec.parse({"report": {"level": "90%"}}).report.level == 0.9


@pytest.mark.parametrize(
    ("content", "words"),
    [(b"keys = [", "is not a TOML file"), (b"\xff\xfe", "is not a TOML file")],
)
def test_a_file_that_is_no_toml_is_refused(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "a.toml"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=words):
        read_toml(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match="No such file"):
        read_toml(tmp_path / "a.toml")


def test_keys_in_one_text_are_split_outside_parentheses() -> None:
    assert split_keys("A, B:cut(0, 5) ,C,") == ["A", "B:cut(0, 5)", "C"]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2", 2),
        ("0.5", 0.5),
        ("true", True),
        ("shared", "shared"),
        ('"2"', "2"),
        ("a\nb = 1", "a\nb = 1"),
    ],
)
def test_settings_are_read_as_toml(text: str, value: object) -> None:
    assert toml_value(text) == value


def test_provenance_names_no_machine() -> None:
    record = Provenance.now(seed=3, data_fingerprint="f")
    import platform

    assert record.started.endswith("+00:00")
    assert platform.node() not in (record.platform, record.unikat, record.python)


@pytest.mark.parametrize(
    ("text", "options"),
    [
        ("loglinear:terms=A + B:C", {"terms": "A + B:C"}),
        ("loglinear:terms=A:B:C + D:interval=bootstrap", {"terms": "A:B:C + D",
                                                          "interval": "bootstrap"}),
        ("loglinear: terms = A : B :smoothing=1", {"terms": "A:B", "smoothing": 1}),
        ("loglinear:terms=two-way", {"terms": "two-way"}),
        ("gom:components=30:alpha=per-record", {"components": 30, "alpha": "per-record"}),
        ('loglinear:terms="12"', {"terms": "12"}),
        ("hdp:split_merge=false", {"split_merge": False}),
    ],
)  # fmt: skip
def test_a_model_is_read_from_its_label(text: str, options: dict[str, object]) -> None:
    spec = ModelSpec.of(text)
    assert spec.options == options
    assert ModelSpec.of(spec.label) == spec


@pytest.mark.parametrize("text", ["gom:components", "gom:3", "gom:components:k=3", "gom:=3"])
def test_the_first_part_is_an_option(text: str) -> None:
    with pytest.raises(SpecError, match="is not NAME=VALUE"):
        ModelSpec.of(text)


def test_commas_separate_models_and_colons_do_not() -> None:
    spec = ComparisonSpec.parse({"keys": "A,B,C", "models": "loglinear:terms=A + B:C,loglinear"})
    assert [named.label for named in compared_models(spec)] == [
        "loglinear:terms=A + B:C",
        "loglinear",
    ]


@pytest.mark.parametrize("codes", [["9", "\udcff"], {"AGE": "\udcff"}, {"AGE": ["9", "\udcff"]}])
def test_missing_values_are_texts(codes: Any) -> None:
    with pytest.raises(SpecError, match="not UTF-8"):
        AssessmentSpec.parse({"data": {"missing_values": codes}})


def test_two_options_of_one_name_are_a_defect() -> None:
    class Twice(Table):
        own: Annotated[int, Option("N", "One.", name="thing")] = 1
        data: DataSpec = DataSpec()
        other: Annotated[int, Option("N", "Another.", name="thing")] = 2

    with pytest.raises(TypeError, match="two options 'thing'"):
        options_of(Twice)
