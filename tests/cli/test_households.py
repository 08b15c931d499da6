"""Household risk from the command line: the folder of a run, its words, and what is refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.datasets import simulate_homes
from unikat.studies import compare as comparing

RULES = """
rules = ["count(relation == 'spouse') > 1", "child.age > head.age"]
[roles]
child = "relation == 'child'"
"""
HEAD = ("--head", "relation == 'head'", "--set", "households.head_keys=age,sex")
COMMON = (
    *("--model", "households", "--keys", "relation,age:width(10),sex", "--household", "hid"),
    *("--household-keys", "region", "--chains", "2", "--max-sweeps", "60", "--workers", "1"),
    *("--allow-unconverged", "--quiet"),
)


@pytest.fixture(scope="module")
def homes() -> pd.DataFrame:
    return simulate_homes(np.random.default_rng(5), 120)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, homes: pd.DataFrame) -> Path:
    monkeypatch.chdir(tmp_path)
    homes.to_csv("homes.csv", index=False)
    (tmp_path / "rules.toml").write_text(RULES)
    return tmp_path


def result(folder: str = "out") -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "result.json").read_text())
    return found


def test_a_run_answers_in_households(here: Path, homes: pd.DataFrame, capsys: Any):
    options = [*COMMON, *HEAD, "--population-households", "9000", "--zeros", "rules.toml"]
    assert main(["assess", "homes.csv", "--out", "out", *options]) == 0
    found = result()
    households = found["households"]
    assert households["n_households"] == found["sample"]["n_records"] == 120
    assert households["n_persons"] == len(homes)
    assert households["population_households"] == 9000
    assert households["household_keys"] == ["size", "region", "head.age", "head.sex"]
    assert households["tau1"] == found["tau1"]
    assert 0 < households["tau1"]["lower"] <= households["tau1"]["mean"] <= households["n_unique"]
    assert households["tau1_independent"]["mean"] > 0
    assert sum(line["households"] for line in households["by_size"]) == 120
    assert [rule["n_households"] for rule in households["rules"]] == [0, 0]
    assert [key["name"] for key in found["keys"]] == [
        *("region", "head.age", "head.sex", "relation", "age", "sex")
    ]

    rows = pd.read_parquet("out/households.parquet")
    assert rows["household"].tolist() == list(range(120))
    assert rows["size"].tolist() == homes.groupby("hid", sort=False).size().tolist()
    assert int(rows["sample_unique"].sum()) == households["n_unique"]
    persons = pd.read_parquet("out/records.parquet")
    assert persons["household"].tolist() == homes["hid"].tolist()
    r1 = rows["r1"].to_numpy()[homes["hid"].to_numpy()]
    np.testing.assert_array_equal(persons["r1"], r1)
    assert not Path("out/records-at-risk.csv").exists()

    assert found["uncertainty"] == "calibrated"
    assert found["model_options"]["calibrate"] is True
    assert [error["what"] for error in found["fit"]["model_error"]] == ["overdispersion", "level"]
    assert {"mean", "median", "lower", "upper"} == set(found["fit"]["before"])
    assert "chosen" not in found["fit"]
    assert "households alone estimates" in found["sentences"]["fit.before"]
    assert "households of seven surveys" in found["sentences"]["fit.model_error"]
    assert not Path("out/fits").exists() or not found["converged"]

    report = Path("out/report.html").read_text()
    assert "Model uncertainty</h2>" in report
    assert "coefficient of variation at one expected household" in report
    assert "Households at risk" in report
    assert "120 households" in report
    assert "120 records" not in report
    capsys.readouterr()
    again = unikat.load("out")
    assert again.result.households.n_unique == households["n_unique"]
    assert "120 households" in repr(again)


def test_without_its_error_a_run_is_that_of_the_model_alone(here: Path):
    options = [*COMMON, *HEAD, "--population-households", "9000", "--set", "calibrate=false"]
    assert main(["assess", "homes.csv", "--out", "out", *options]) == 0
    found = result()
    assert found["uncertainty"] == "posterior"
    assert "model_error" not in found["fit"]
    assert "Model uncertainty</h2>" not in Path("out/report.html").read_text()


def test_a_run_that_was_interrupted_goes_on(here: Path, monkeypatch: pytest.MonkeyPatch):
    """In the fit for the evidence; and in the last one, whose limit is lower at first."""
    options = [*COMMON, *HEAD, "--population-households", "9000"]
    assert main(["assess", "homes.csv", "--out", "plain", *options]) == 0
    real, calls = comparing.sample, []

    def interrupted(*arguments: Any, **given: Any) -> Any:
        calls.append(arguments)
        draws = real(*arguments, **given)
        return replace(draws, stop_reason="interrupted") if len(calls) == 1 else draws

    monkeypatch.setattr(comparing, "sample", interrupted)
    assert main(["assess", "homes.csv", "--out", "out", *options]) == 2
    assert Path("out/fits").exists()
    assert main(["assess", "homes.csv", "--out", "out", *options, "--resume"]) == 0
    for name in ("tau1", "tau2", "fit"):
        assert result()[name] == result("plain")[name]


@pytest.mark.slow
def test_a_run_can_be_repeated(here: Path):
    options = [*COMMON, *HEAD, "--population-households", "9000", "--zeros", "rules.toml"]
    assert main(["assess", "homes.csv", "--out", "out", *options]) == 0
    again = [
        "assess",
        "out/assessment.toml",
        "--trust-spec",
        "--out",
        "again",
        "--allow-unconverged",
        "--quiet",
    ]
    assert main(again) == 0
    assert result("again")["tau1"] == result()["tau1"]


def test_what_contradicts_itself_leaves_nothing(here: Path, capsys: Any):
    homes = pd.read_csv("homes.csv")
    spouse = homes.index[homes["relation"] == "spouse"][0]
    homes.loc[spouse, "region"] = "east"
    homes.to_csv("wrong.csv", index=False)
    options = [*COMMON, "--population-households", "9000"]
    assert main(["assess", "wrong.csv", "--out", "out", *options]) == 1
    told = capsys.readouterr().err
    assert "differ in 'region'" in told
    assert f"rows {spouse}, {spouse + 1}" in told
    assert "east" not in told
    assert not Path("out").exists()
    assert main(["assess", "homes.csv", "--out", "out", *COMMON]) == 1
    assert "--population-households" in capsys.readouterr().err


@pytest.mark.slow
def test_households_that_break_a_rule_stop_the_run_or_are_left_out(here: Path, capsys: Any):
    homes = pd.read_csv("homes.csv")
    child = homes.index[homes["relation"] == "child"][0]
    homes.loc[child, "age"] = 99
    homes.to_csv("wrong.csv", index=False)
    options = [*COMMON, *HEAD, "--population-households", "9000", "--zeros", "rules.toml"]
    assert main(["assess", "wrong.csv", "--out", "out", *options]) == 1
    assert "1 of 120 households breaks a rule" in capsys.readouterr().err
    options += ["--zeros-conflict", "drop"]
    assert main(["assess", "wrong.csv", "--out", "out", *options]) == 0
    assert result()["households"]["n_left_out"] == 1
    assert result()["households"]["n_households"] == 119
    persons = pd.read_parquet("out/records.parquet")
    assert persons["household"].isna().sum() == (homes["hid"] == homes.loc[child, "hid"]).sum()


def test_members_with_missing_keys_are_filled_in(here: Path):
    homes = pd.read_csv("homes.csv")
    homes.loc[homes.index[::9], "sex"] = None
    homes.to_csv("gaps.csv", index=False)
    options = [*COMMON, "--population-households", "9000"]
    assert main(["assess", "gaps.csv", "--out", "out", *options]) == 0
    found = result()
    assert found["sample"]["n_incomplete"] > 0
    assert found["households"]["tau1_independent"] is None
    missing = {key["name"]: key["n_missing"] for key in found["keys"]}
    assert missing["sex"] == found["sample"]["n_incomplete"]


def test_a_person_is_looked_for_by_what_is_known_of_the_spouse(here: Path):
    options = ["--keys", "age:width(10),sex", "--household", "hid", "--population-size", "20000"]
    options += ["--roles", "head: relation == 'head'; spouse: relation == 'spouse'"]
    options += ["--relatives", "head.age,spouse.age", "--model", "latent-class"]
    options += ["--max-sweeps", "60", "--chains", "2", "--allow-unconverged", "--quiet"]
    assert main(["assess", "homes.csv", "--out", "out", *options]) == 0
    assert [key["name"] for key in result()["keys"]] == ["age", "sex", "head.age", "spouse.age"]
    assert result()["households"] is None
