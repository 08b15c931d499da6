"""Weights, strata, classic measures and registries on the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unikat.cli.main import main

KEYS = "REGION,AGE,SEX,WORK"
COMMON = ("--keys", KEYS, "--model", "loglinear:terms=two-way", "--workers", "1", "--quiet")
SIZES = {"north": 600, "south": 20_000}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def people(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    region = np.where(rng.random(n) < 0.5, "north", "south")
    return pd.DataFrame(
        {
            "REGION": region,
            "AGE": rng.integers(20, 60, n),
            "SEX": rng.integers(1, 3, n),
            "WORK": rng.geometric(0.4, n),
            "HID": np.arange(n) // 3,
            "ILL": rng.integers(0, 4, n),
        }
    )


@pytest.fixture
def survey(here: Path) -> Path:
    frame = people(400, 1)
    counts = frame["REGION"].value_counts()
    frame["W"] = frame["REGION"].map(pd.Series(SIZES) / counts)
    path = here / "survey.csv"
    frame.to_csv(path, index=False)
    lines = "".join(f"{name};{size}\n" for name, size in SIZES.items())
    (here / "sizes.csv").write_text(f"stratum;units\n{lines}")
    return path


def result(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(folder, "result.json").read_text())
    return found


def records(folder: str) -> pd.DataFrame:
    return pd.read_parquet(Path(folder, "records.parquet"))


def test_strata_and_weights_say_the_same(survey, here):
    """Sizes of strata, weights with strata, and a specification give the same numbers."""
    strata = ("--strata", "REGION", "--stratum-sizes", "sizes.csv")
    assert main(["assess", str(survey), *COMMON, *strata, "--out", "sizes"]) == 0
    weighted = ("--strata", "REGION", "--weights", "W")
    assert main(["assess", str(survey), *COMMON, *weighted, "--out", "weights"]) == 0
    one, other = result("sizes"), result("weights")
    assert one["sample"]["population_size"] == 20_600
    assert one["design"]["told_by"] == "REGION"
    assert one["design"]["n_classes"] == 2
    assert one["tau1"] == other["tau1"]
    assert one["tau2"] == other["tau2"]
    assert (
        main(["assess", "sizes/assessment.toml", "--trust-spec", "--quiet", "--out", "again"]) == 0
    )
    assert result("again")["tau1"] == one["tau1"]
    report = Path("sizes", "report.html").read_text()
    assert "drawn from 2 strata" in report
    assert "are like the records of their class" in report
    assert "simple random sample" not in report.replace("in a simple random", "")


def test_a_densely_sampled_stratum_is_at_greater_risk(survey):
    """A third of the north is in the file, and a hundredth of the south."""
    assert main(["assess", str(survey), *COMMON, "--weights", "W", "--out", "told"]) == 0
    plain = ("--population-size", "20600", "--out", "plain")
    assert main(["assess", str(survey), *COMMON, *plain]) == 0
    told, untold = records("told"), records("plain")
    north = pd.read_csv(survey)["REGION"].eq("north") & told["sample_unique"]
    south = ~north & told["sample_unique"]
    assert told.loc[north, "r1"].mean() > 5 * told.loc[south, "r1"].mean()
    assert told.loc[north, "r1"].mean() > 3 * untold.loc[north, "r1"].mean()
    assert result("plain")["design"] is None
    assert result("told")["design"]["classes"] == "weights"


def test_mixtures_and_comparisons_take_a_design(survey):
    arguments = ["compare", str(survey), "--keys", KEYS, "--models",
                 "latent-class,loglinear,individual-risk", "--weights", "W", "--max-sweeps", "60",
                 "--workers", "1", "--quiet", "--allow-unconverged", "--out", "both"]  # fmt: skip
    assert main(arguments) == 0
    table = pd.read_parquet("both/comparison.parquet")
    assert (table["tau2_mean"] > 0).all()
    scores = table.set_index("model")["log_score_mean"]
    # Both are scored on the keys alone, without the class that was added.
    assert abs(scores["latent-class"] - scores["loglinear"]) < 2


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--weights", "AGE", "--population-size", "999"), "sum to"),
        (("--weights", "nothing"), "no column 'nothing'"),
        (("--strata", "REGION"), "not how many units"),
        (("--strata", "REGION", "--stratum-sizes", "none.csv"), "cannot be read"),
        (("--strata", "REGION", "--stratum-sizes", "survey.csv"), "two fields"),
        (("--strata", "WORK", "--stratum-sizes", "sizes.csv"), "have no size"),
        (("--weights", "W", "--set", "design.inclusion=AGE"), "give one of the two"),
        ((), "population size is needed"),
        (("--weights", "W", "--household", "HOUSE"), "no column 'HOUSE'"),
        (("--weights", "W", "--sensitive", "ILL,HEALTH"), "no column 'HEALTH'"),
        (("--weights", "W", "--registry", "nowhere.csv"), "There is no file"),
    ],
)
def test_what_is_refused_is_said_once_and_writes_nothing(survey, capsys, options, says):
    assert main(["assess", str(survey), *COMMON, *options, "--out", "out"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert says in told.err
    assert "Traceback" not in told.err
    assert not Path("out").exists()


@pytest.mark.parametrize("bad", ["-3", "0", "", "heavy"])
def test_weights_that_are_no_weights(survey, capsys, bad):
    frame = pd.read_csv(survey, dtype=str)
    frame.loc[6, "W"] = bad
    frame.to_csv("bad.csv", index=False)
    assert main(["assess", "bad.csv", *COMMON, "--weights", "W", "--out", "out"]) == 1
    told = capsys.readouterr().err
    assert "column 'W'" in told
    assert "(rows 7)" in told
    assert "heavy" not in told
    assert not Path("out").exists()


def test_the_classic_measures_stand_beside(survey, capsys):
    options = ("--weights", "W", "--household", "HID", "--sensitive", "ILL", "--out", "out")
    arguments = ["assess", str(survey), *COMMON[:-1], "--classics", *options]
    assert main(arguments) == 0
    assert "The classic measures" in capsys.readouterr().out
    found, table = result("out")["classics"], records("out")
    frame = pd.read_csv(survey)
    groups = frame.groupby(KEYS.split(","))
    size = groups["W"].transform("size")
    assert (table["k"] == size).all()
    np.testing.assert_allclose(table["k_population"], groups["W"].transform("sum"))
    assert [one["records"] for one in found["anonymity"]] == [(size < k).sum() for k in (2, 3, 5)]
    # Unique records: E(1/F) of the negative binomial, p / (1 - p) log(1 / p).
    p = 1.0 / table.loc[table["k"] == 1, "k_population"]
    expected = -p * np.log(p) / (1 - p)
    np.testing.assert_allclose(table.loc[table["k"] == 1, "individual_risk"], expected)
    of_house = 1 - (1 - table["individual_risk"]).groupby(frame["HID"]).transform("prod")
    np.testing.assert_allclose(table["household_risk"], of_house)
    np.testing.assert_allclose(found["household"]["expected"], of_house.sum())
    assert ((table["suda"] > 0) == (size == 1)).all()
    assert found["suda"]["records"] == (size == 1).sum()
    assert [one["name"] for one in found["sensitive"]] == ["ILL"]
    assert found["sensitive"][0]["distinct"] == groups["ILL"].nunique().min()
    methods = [one["method"] for one in found["uniques"]]
    assert methods == ["pitman", "zayatz", "snb", "dankar", "bethlehem"]
    assert "<h2>Classic measures</h2>" in Path("out", "report.html").read_text()
    assert main(["assess", "out/assessment.toml", "--trust-spec", "--quiet", "--out", "again"]) == 0
    assert result("again")["classics"] == found


def test_records_left_out_have_no_classic_measures(survey):
    Path("zeros.toml").write_text("rules = ['AGE < 25 and WORK == 1']\n")
    arguments = ["assess", str(survey), *COMMON, "--weights", "W", "--classics", "--household",
                 "HID", "--zeros", "zeros.toml", "--zeros-conflict", "drop",
                 "--out", "out"]  # fmt: skip
    assert main(arguments) == 0
    table, frame = records("out"), pd.read_csv(survey)
    left_out = (frame["AGE"] < 25) & (frame["WORK"] == 1)
    assert 0 < left_out.sum() == table["k"].isna().sum() == table["individual_risk"].isna().sum()
    assert (table["k"].isna() == left_out).all()
    size = frame[~left_out].groupby(KEYS.split(","))["W"].transform("size")
    assert (table.loc[~left_out, "k"] == size).all()


def test_a_registry_is_looked_up(survey, capsys):
    registry = people(300, 2)
    registry.loc[0, "AGE"] = 99
    registry.loc[1, "SEX"] = np.nan
    registry.to_parquet("registry.parquet")
    arguments = ["assess", str(survey), *COMMON[:-1], "--weights", "W", "--registry",
                 "registry.parquet", "--out", "out"]  # fmt: skip
    assert main(arguments) == 0
    said = " ".join(capsys.readouterr().out.split())
    found, table = result("out")["registry"], pd.read_parquet("out/registry.parquet")
    # What a reader counts: complete rows of the registry that no other row equals.
    alone = ~registry.duplicated(KEYS.split(","), keep=False)
    alone &= registry[KEYS.split(",")].notna().all(axis=1)
    assert (table["unique"] == alone.to_numpy()).all()
    assert found["n_uniques"] == alone.sum()
    assert f"{alone.sum():,} records are unique in the registry" in said
    shared = table["unique"] & (table["f"] >= 2)
    assert found["n_shared"] == shared.sum() > 0
    assert (table.loc[shared, "r1"] == 0.0).all()
    assert f"Of the other {found['n_possible']:,}, about" in said
    assert len(table) == found["n_records"] == 300
    assert found["n_unknown"] >= 1
    assert found["n_incomplete"] == 1
    assert np.isnan(table.loc[0, "r2"])
    unique = table["unique"] & table["r2"].notna()
    assert table["r1"].notna().sum() == unique.sum()
    assert found["n_possible"] == unique.sum() - found["n_shared"]
    assert found["n_unknown"] + found["n_impossible"] == table["r2"].isna().sum()
    assert 0 <= found["tau1"]["mean"] <= found["n_possible"]
    assert table["r1"].sum() == pytest.approx(found["tau1"]["mean"], abs=3)
    known = table["population"].notna()
    assert (table.loc[known, "population"] >= table.loc[known, ["g", "f"]].max(axis=1)).all()
    assert "<h2>Registry</h2>" in Path("out", "report.html").read_text()
    docs = (Path(__file__).parents[2] / "docs" / "results.md").read_text(encoding="utf-8")
    section = docs.partition("## registry.parquet")[2].partition("\n## ")[0]
    assert all(f"`{column}`" in section for column in table.columns)
    assert main(["assess", "out/assessment.toml", "--trust-spec", "--quiet", "--out", "again"]) == 0
    assert result("again")["registry"] == found
    # The survey's own answer is that without a registry, but for how long the chains run.
    alone = ["assess", str(survey), *COMMON, "--weights", "W", "--out", "alone"]
    assert main(alone) == 0
    of_both = [result(folder)["tau1"]["mean"] for folder in ("alone", "out")]
    assert of_both[0] == pytest.approx(of_both[1], abs=1.5)


def test_a_registry_coded_otherwise_is_refused(survey, capsys):
    people(20, 3).assign(SEX="female").to_parquet("registry.parquet")
    arguments = ["assess", str(survey), *COMMON, "--weights", "W", "--registry",
                 "registry.parquet", "--out", "out"]  # fmt: skip
    assert main(arguments) == 1
    assert "coded in the same way" in capsys.readouterr().err
    assert not Path("out").exists()


def test_a_registry_by_a_model_that_knows_no_other_combinations_is_refused(survey, capsys):
    people(20, 3).to_parquet("registry.parquet")
    arguments = ["assess", str(survey), "--keys", KEYS, "--model", "individual-risk", "--weights",
                 "W", "--registry", "registry.parquet", "--out", "out"]  # fmt: skip
    assert main(arguments) == 1
    assert "sees cells and not keys" in capsys.readouterr().err
    assert not Path("out").exists()


def test_an_empty_margin_tells_nothing_of_a_registered_combination(survey):
    """Nobody of the survey is 20 and works 1; so the model of two-way margins has no such cell."""
    frame = pd.read_csv(survey)
    frame.loc[frame["AGE"] == 20, "WORK"] = 2
    frame.to_csv("survey.csv", index=False)
    registry = people(300, 2)
    registry.loc[:2, "AGE"], registry.loc[:2, "WORK"] = 20, 1
    registry.to_parquet("registry.parquet")
    arguments = ["assess", "survey.csv", *COMMON, "--weights", "W", "--registry",
                 "registry.parquet", "--out", "out"]  # fmt: skip
    assert main(arguments) == 0
    found, table = result("out"), pd.read_parquet("out/registry.parquet")
    assert found["registry"]["n_impossible"] >= 3
    assert table.loc[:2, "r2"].isna().all()
    assert "probability zero under the model" in found["sentences"]["registry"]
    assert "Probability zero" in Path("out", "report.html").read_text()


def test_relative_weights_do_not_make_a_census(survey, capsys):
    frame = pd.read_csv(survey)
    frame["W"] /= frame["W"].mean()
    frame.to_csv("relative.csv", index=False)
    for factor in (1.0, 0.4):
        frame.assign(W=factor * frame["W"]).to_csv("relative.csv", index=False)
        assert main(["assess", "relative.csv", *COMMON, "--weights", "W", "--out", "out"]) == 1
        assert "--relative-weights" in capsys.readouterr().err
    frame.assign(W=1).to_csv("census.csv", index=False)
    assert main(["assess", "census.csv", *COMMON, "--weights", "W", "--out", "out"]) == 0
    assert result("out")["tau1"]["mean"] == result("out")["sample"]["n_uniques"]


def test_weights_of_few_records_are_used(survey):
    frame = pd.read_csv(survey).head(300)
    frame["W"] = np.exp(np.random.default_rng(1).normal(3, 1, 300))
    frame.to_csv("few.csv", index=False)
    assert main(["assess", "few.csv", *COMMON, "--weights", "W", "--out", "out"]) == 0
    found = result("out")
    assert found["design"]["used"] == "classes"
    assert found["design"]["n_classes"] == 3
    assert "3 classes of about the same weight" in found["sentences"]["design"]


def test_missing_codes_are_no_household_and_a_key_is_not_sensitive(survey, capsys):
    frame = pd.read_csv(survey)
    frame["HID"] = frame["HID"].astype(object)
    frame.loc[::4, "HID"] = "NA"
    frame.to_csv("survey.csv", index=False)
    arguments = ["assess", "survey.csv", *COMMON, "--weights", "W", "--classics", "--household",
                 "HID", "--missing-values", "NA", "--out", "out"]  # fmt: skip
    assert main(arguments) == 0
    table = records("out")
    alone = table[::4]
    np.testing.assert_allclose(alone["household_risk"], alone["individual_risk"], rtol=1e-12)
    said = result("out")["sentences"]["classics.household risk"]
    assert "records in households with a re-identified member" in said
    homes = result("out")["sample"]["n_households"]
    said = f"Whole households were sampled: {homes:,} households with {len(table):,} records."
    assert result("out")["sentences"]["sample.n_households"] == said
    assert homes == len(frame.loc[::4]) + frame["HID"].drop(frame.index[::4]).nunique()
    assert main([*arguments, "--sensitive", "ILL,AGE", "--overwrite"]) == 1
    assert "'AGE' is a key" in capsys.readouterr().err
