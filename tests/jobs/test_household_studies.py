"""Evaluations and comparisons whose units are households: truth, samples, pages and refusals."""

from __future__ import annotations

import json
from collections import Counter
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.errors import DataError, SpecError
from unikat.inference.progress import SILENT
from unikat.jobs.evaluate import read_population
from unikat.models.base import Stream
from unikat.risk.by_class import Look
from unikat.risk.exposure import exposure_of
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.evaluation import EvaluationSpec
from unikat.studies.designs import Population, draw_sample, draw_units, observed_levels

KEYS, SHARED = ["rel", "age", "sex"], ["area"]


def homes(n: int, seed: int = 1) -> pd.DataFrame:
    """Draw households of one to four members, whose ages go together."""
    rng = np.random.default_rng(seed)
    rows = []
    for home in range(n):
        area, size = int(rng.integers(0, 3)), int(rng.choice([1, 2, 3, 4], p=[0.3, 0.4, 0.2, 0.1]))
        age = int(rng.integers(2, 7))
        for member in range(size):
            own = age if member < 2 else int(rng.integers(0, 2))
            rel = ("head", "spouse", "child", "child")[member]
            rows.append((home, area, rel, own, int(rng.integers(0, 2)), size))
    return pd.DataFrame(rows, columns=["hid", "area", "rel", "age", "sex", "members"])


def described(**more: Any) -> EvaluationSpec:
    """Write an evaluation of households."""
    values = {
        "keys": KEYS,
        "household": ["hid"],
        "households": {"keys": SHARED, "head": "rel == 'head'"},
        "models": "households:calibrate=false",
        "n": 20,
    }
    return EvaluationSpec.parse(values | more)


def population_of(frame: pd.DataFrame, **more: Any) -> Population:
    """Read a frame as a population of households."""
    return read_population(described(**more), frame, SILENT).population


def pattern(frame: pd.DataFrame, home: int) -> tuple[Any, ...]:
    """What is known of a household: its area, and its members in no order."""
    rows = frame[frame["hid"] == home]
    return rows["area"].iloc[0], tuple(sorted(map(tuple, rows[KEYS].to_numpy())))


def test_the_truth_of_every_sample_is_counted_from_the_file() -> None:
    frame = homes(7)
    # Two that cannot be told apart, whose members stand in another order.
    twin = frame[frame["hid"] == 0].assign(hid=7).iloc[::-1]
    frame = pd.concat([frame, twin], ignore_index=True)
    population = population_of(frame)
    patterns = [pattern(frame, home) for home in range(8)]
    everybody = Counter(patterns)
    assert population.n_units == 8
    assert everybody[patterns[0]] >= 2
    for chosen in combinations(range(8), 3):
        sample = population.sample(np.array(chosen))
        seen = Counter(patterns[home] for home in chosen)
        alone = [one for one, times in seen.items() if times == 1]
        assert sample.table.n_uniques == len(alone)
        assert sample.tau1 == sum(everybody[one] == 1 for one in alone)
        assert sample.tau2 == pytest.approx(sum(1 / everybody[one] for one in alone))
        assert sample.table.layout is not None
        assert sample.table.n_units == 8


@pytest.mark.parametrize("design", ["simple", "households"])
def test_samples_are_of_households_each_as_likely(design: Any) -> None:
    population = population_of(homes(12))
    drawn = [draw_units(population, 4, repeat, seed=3, design=design) for repeat in range(1, 1201)]
    assert {len(units) for units in drawn} == {4}
    times = np.bincount(np.concatenate(drawn), minlength=12)
    # Binomial(1200, 1/3), standard deviation 16.3.
    assert np.abs(times - 400).max() < 5 * 16.3


def test_the_truth_differs_from_that_of_persons_and_of_households_in_another_order() -> None:
    """Planted bugs: members as units, and members with an order."""
    frame = homes(60)
    population = population_of(frame)
    sample = draw_sample(population, 30, 1, seed=2)
    assert sample is not None
    persons = frame[KEYS + SHARED].value_counts()
    alone = int((persons == 1).sum())
    patterns = Counter(pattern(frame, home) for home in range(60))
    assert int((population.table.counts == 1).sum()) == sum(n == 1 for n in patterns.values())
    assert alone != sum(n == 1 for n in patterns.values())
    # Members turned round are the same households.
    again = population_of(frame.sort_index(ascending=False), households=replaced(scattered=True))
    assert sorted(again.table.counts) == sorted(population.table.counts)
    assert np.array_equal(again.table.cells, population.table.cells)


def replaced(**more: Any) -> dict[str, Any]:
    """Describe households as `described` does, and more."""
    return {"keys": SHARED, "head": "rel == 'head'", **more}


def test_strata_and_sizes_are_those_of_households() -> None:
    frame = homes(40)
    population = population_of(frame, design="stratified", strata="area")
    assert population.strata is not None
    first = frame.groupby("hid").first()
    assert np.array_equal(population.strata, first["area"])
    sized = population_of(frame, design="pps", size="members")
    assert sized.measure is not None
    assert np.array_equal(sized.measure, first["members"])
    with pytest.raises(DataError, match="differ in their sizes"):
        population_of(frame.assign(members=range(1, len(frame) + 1)), design="pps", size="members")


def test_levels_of_a_sample_are_those_of_its_households() -> None:
    frame = homes(50)
    population = population_of(frame)
    chosen = np.flatnonzero(frame.groupby("hid").size().to_numpy() <= 2)[:9]
    table = population.sample(chosen).table
    own = observed_levels(table)
    again = population_of(frame[frame["hid"].isin(chosen)]).table
    assert own.layout is not None
    assert again.layout is not None
    assert own.layout.n_slots == again.layout.n_slots
    assert [key.labels for key in own.keys] == [key.labels for key in again.keys]
    assert np.array_equal(own.cells, again.cells)
    assert np.array_equal(own.counts, again.counts)
    assert np.array_equal(own.record_cell, again.record_cell)


def test_households_that_break_a_rule_are_left_out_of_the_population() -> None:
    frame = homes(30)
    rules = {"rules": ["count(sex == 1) >= 2"], "on_conflict": "drop"}
    found = read_population(described(zeros=rules), frame, SILENT)
    broken = frame.groupby("hid")["sex"].sum() >= 2
    assert broken.any()
    assert found.population.n_units == 30 - broken.sum()
    strata = population_of(frame, zeros=rules, design="stratified", strata="area").strata
    assert np.array_equal(strata, frame.groupby("hid")["area"].first()[~broken])
    with pytest.raises(SpecError, match="levels"):
        described(zeros=rules, levels="sample")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Write a population and a sample of it."""
    folder = tmp_path_factory.mktemp("homes")
    frame = homes(300)
    frame.to_csv(folder / "all.csv", index=False)
    frame[frame["hid"] % 5 == 0].to_csv(folder / "sample.csv", index=False)
    return folder


SHORT = ["--chains", "2", "--max-sweeps", "60", "--workers", "1", "--allow-unconverged", "--quiet"]
WHAT = ["--keys", "rel,age,sex", "--household", "hid", "--household-keys", "area"]
WHAT += ["--head", "rel == 'head'"]


def test_a_study_of_households_from_the_command_line(files: Path, capsys: Any) -> None:
    out = files / "study"
    models = "households,households:composition=none:calibrate=false"
    options = ["--models", models, "--n", "40,20%", "--repeats", "2", *WHAT, *SHORT]
    assert main(["evaluate", str(files / "all.csv"), *options, "--out", str(out)]) == 0
    rows = pd.read_parquet(out / "evaluation.parquet")
    assert rows["n_drawn"].tolist() == [40] * 4 + [60] * 4
    assert rows["error"].isna().all()
    assert (rows["tau1_true"] <= rows["n_uniques"]).all()
    # The models see the same samples.
    truth = rows.pivot(index=["n", "repeat"], columns="model", values="tau1_true")
    assert truth.nunique(axis=1).eq(1).all()
    summary = json.loads((out / "summary.json").read_text())
    assert summary["population"]["n_units"] == 300
    assert summary["population"]["n_keys"] == 4
    assert summary["households"]["n_households"] == 300
    assert summary["households"]["person_keys"] == KEYS
    assert {one["model"] for one in summary["results"]} == set(models.split(","))
    page = (out / "evaluation.html").read_text()
    assert "300 households of the file are the population" in page
    assert "household" in capsys.readouterr().out or summary["results"]
    again = [str(out / "evaluation.toml"), "--trust-spec", "--out", str(files / "again")]
    assert main(["evaluate", *again, "--allow-unconverged", "--quiet"]) == 0
    same = pd.read_parquet(files / "again" / "evaluation.parquet")
    numbers = ["tau1_mean", "tau1_lower", "tau1_upper", "tau2_mean"]
    pd.testing.assert_frame_equal(rows[numbers], same[numbers])


def test_a_comparison_of_models_of_households(files: Path) -> None:
    out = files / "compared"
    models = "households,households:composition=none:calibrate=false"
    options = ["--models", models, "--population-households", "300", *WHAT, *SHORT]
    assert main(["compare", str(files / "sample.csv"), *options, "--out", str(out)]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert summary["households"]["population_households"] == 300
    assert summary["sample"]["n_records"] == 60
    first, second = summary["models"]
    assert (first["uncertainty"], second["uncertainty"]) == ("calibrated", "posterior")
    assert first["held_out"]["n_records"] == second["held_out"]["n_records"] == 12
    checks = first["checks"]
    assert sum(check["observed"] * check["size"] for check in checks) <= 60
    assert all(check["lower"] <= check["mean"] <= check["upper"] for check in checks)
    page = (out / "comparison.html").read_text()
    assert "Households in the file" in page
    assert "Incomplete households" in page


def test_simulated_households_are_checked_as_those_of_the_file_are() -> None:
    """As many households are simulated, and those that cannot be told apart are one cell."""
    frame = homes(80)
    found = unikat.compare(
        frame,
        keys=KEYS,
        household="hid",
        household_keys=SHARED,
        population_households=800,
        models=["households:calibrate=false"],
        held_out=0,
        chains=2,
        max_sweeps=400,
        workers=1,
    )
    (model,) = found.summary.models
    patterns = Counter(pattern(frame, home) for home in range(80))
    times = Counter(min(n, 5) for n in patterns.values())
    assert [check.observed for check in model.checks] == [times[n] for n in range(1, 6)]
    # A model that is fitted to these households has about as many uniques.
    assert 0.5 < model.checks[0].mean / model.checks[0].observed < 1.6


@pytest.mark.parametrize("command", ["compare", "evaluate"])
def test_units_are_compared_with_like_units_alone(files: Path, capsys: Any, command: str) -> None:
    options = ["--keys", "age,sex", "--models", "households,hdp,auto", "--household", "hid"]
    options += ["--population-size", "900"] if command == "compare" else ["--n", "50"]
    assert main([command, str(files / "sample.csv"), *options]) == 1
    said = capsys.readouterr().err
    assert "hdp, auto and households have different units" in said
    assert main([command, str(files / "sample.csv"), *options[:2], *options[6:], *WHAT[4:]]) == 1
    assert "--model households" in capsys.readouterr().err


def test_what_does_not_go_with_households_is_refused() -> None:
    frame = homes(20)
    with pytest.raises(SpecError, match="needs to know which persons live together"):
        described(household=[], households=None)
    with pytest.raises(SpecError, match=r"households\.population"):
        described(households=replaced(population=900))
    with pytest.raises(SpecError, match="wildcard"):
        described(data={"missing": "wildcard"})
    with pytest.raises(SpecError, match="which has 20 households"):
        unikat.evaluate(
            frame, keys=KEYS, household="hid", models="households", n=21, household_keys=SHARED
        )
    with pytest.raises(DataError, match="missing key"):
        population_of(frame.assign(sex=[None, *frame["sex"][1:]]))
    level = population_of(frame.assign(sex=[None, *frame["sex"][1:]]), data={"missing": "level"})
    assert level.n_units == 20


def test_the_specification_of_a_comparison_repeats_it() -> None:
    spec = ComparisonSpec.parse(
        {
            "keys": KEYS,
            "models": ["households"],
            "design": {"household": ["hid"]},
            "households": replaced(population=90),
        }
    )
    assert spec.of_households


def test_margins_of_households_are_what_the_cells_of_a_model_sum_to() -> None:
    """Chances given the margin, from all possible households one by one."""
    frame = homes(40).query("members <= 2")[["hid", "area", "sex"]]
    spec = described(
        keys=["sex"], households={"keys": SHARED}, n=9, margins=["size+area"], design="households"
    )
    population = read_population(spec, frame, SILENT).population
    sizes = frame.groupby("hid").agg(size=("sex", "size"), area=("area", "first"))
    counts = sizes.value_counts().reindex(pd.MultiIndex.from_product([[1, 2], [0, 1, 2]]))
    (margin,) = population.table.margins
    assert margin.counts.tolist() == counts.fillna(0).tolist()
    sample = draw_sample(population, 9, 1, seed=1, design="households")
    assert sample is not None
    table = sample.table
    # Each household is a unit of its own: nobody was drawn together with it.
    assert table.households is None
    model = unikat.NestedHouseholds(composition="none")
    data, stream = model.prepare(table), Stream(1, 0, 1)
    state, _ = model.step(stream, model.init(Stream(1, 0, 0), data), data, 1)
    layout = table.layout
    assert layout is not None
    people = [[(0,)], [(1,)], [(0,), (0,)], [(0,), (1,)], [(1,), (1,)]]
    every = np.concatenate(
        [
            layout.pack(np.array([[len(one) - 1, area]]), np.array(one))
            for one in people
            for area in range(3)
        ]
    )
    p = model.cell_probabilities(stream, state, data, every)
    assert p.sum() == pytest.approx(1.0, rel=1e-4)
    class_of = every[:, 0] * 3 + every[:, 1]
    of_class = np.bincount(class_of, p)
    chances = exposure_of(table).chances(Look(stream, model, state, data), every)
    assert chances.p[:, 0] == pytest.approx(p / of_class[class_of], rel=1e-5)
    assert chances.of[:, 0].tolist() == class_of.tolist()
    # Planted bug: the size alone.
    assert not np.allclose(chances.p[:, 0], p / np.bincount(every[:, 0], p)[every[:, 0]])


def test_known_counts_of_households_from_a_file_and_from_the_population(files: Path) -> None:
    frame = pd.read_csv(files / "all.csv")
    sizes = frame.groupby("hid").agg(size=("sex", "size"), area=("area", "first"))
    sizes.value_counts().reset_index(name="households").to_csv(files / "counts.csv", index=False)
    out = files / "margins"
    told = ["--model", "households", "--margins", str(files / "counts.csv"), *WHAT, *SHORT]
    assert main(["assess", str(files / "sample.csv"), *told, "--out", str(out)]) == 0
    result = json.loads((out / "result.json").read_text())
    assert result["sample"]["population_size"] == 300
    assert result["households"]["population_households"] == 300
    assert result["margins"][0]["keys"] == ["size", "area"]
    assert result["tau1"]["lower"] <= result["tau1"]["mean"] <= result["tau1"]["upper"]
    study = files / "told"
    options = ["--n", "60", "--repeats", "1", "--models", "households", "--margins", "size+area"]
    everybody = str(files / "all.csv")
    assert main(["evaluate", everybody, *options, *WHAT, *SHORT, "--out", str(study)]) == 0
    rows = pd.read_parquet(study / "evaluation.parquet")
    assert rows["error"].isna().all()
    assert "size and area" in (study / "evaluation.html").read_text()


def test_known_counts_that_cannot_be_used_are_refused() -> None:
    frame = homes(30)
    with pytest.raises(SpecError, match=r"over 'size', 'area'\."):
        population_of(frame, margins=["age"])
    with pytest.raises(SpecError, match="rules"):
        population_of(frame, margins=["size"], zeros={"rules": ["count(sex == 1) >= 9"]})
    with pytest.raises(SpecError, match="equal chances"):
        population_of(frame, margins=["size"], design="stratified", strata="area")
    with pytest.raises(SpecError, match="levels"):
        population_of(frame, margins=["size"], levels="sample")


def test_known_counts_of_persons_in_a_study() -> None:
    frame = homes(60)
    found = unikat.evaluate(
        frame,
        keys=KEYS + SHARED,
        models="latent-class",
        margins="age+area,sex",
        n=30,
        repeats=1,
        chains=2,
        max_sweeps=60,
        workers=1,
    )
    assert found.table["error"].isna().all()
    with pytest.raises(SpecError, match="cannot use margins"):
        unikat.evaluate(frame, keys=KEYS, models="superpopulation-1", margins="age,sex", n=30)
