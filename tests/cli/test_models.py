"""Models on the command line: their options, what they say, and how they fail or are stopped."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from unikat.cli.main import main
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.trust import SHOWN

KEYS = "age group,sex,work"
COMMON = ("--keys", KEYS, "--workers", "1", "--threads", "1", "--chains", "2", "--quiet")
NAMES = KEYS.split(",")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def people(here: Path) -> Path:
    """Write a file with labels and missing values."""
    return write_people(here / "people.csv", NAMES, (15, 2, 8), missing=True)


def write_people(
    path: Path, names: list[str], levels: tuple[int, ...], n: int = 400, *, missing: bool = False
) -> Path:
    rng = np.random.default_rng(1)
    base = rng.integers(0, 4, n)
    columns = [(base * k // 4 + rng.geometric(0.3, n)) % k for k in levels]
    rows = [[f"level {value}" for value in row] for row in zip(*columns, strict=True)]
    if missing:
        for row in rows[::9]:
            row[-1] = ""
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def assessed(here: Path, *arguments: str, population_size: int = 9000) -> dict[str, Any]:
    run = ["assess", "people.csv", *COMMON, "--population-size", str(population_size), *arguments]
    assert main([*run, "--out", "out", "--overwrite"]) == 0
    found: dict[str, Any] = json.loads((here / "out" / "result.json").read_text())
    return found


@pytest.mark.usefixtures("people")
def test_terms_are_an_option(here: Path) -> None:
    found = assessed(here, "--model", "loglinear", "--set", "terms=age group:work + sex")
    assert found["uncertainty"] == "conditional"
    assert found["fit"]["terms"] == "age group:work + sex"
    assert found["fit"]["cells"] > 0
    spec = AssessmentSpec.read(here / "out" / "assessment.toml", SHOWN)
    assert spec.model.options["terms"] == "age group:work + sex"
    again = ["assess", "out/assessment.toml", "--trust-spec", "--quiet", "--out", "again"]
    assert main(again) == 0
    repeated = json.loads((here / "again" / "result.json").read_text())
    assert repeated["tau1"] == found["tau1"]
    in_the_name = assessed(here, "--model", "loglinear:terms=age group:work + sex")
    assert in_the_name["tau1"] == found["tau1"]
    # What is set goes before what is named.
    set_too = assessed(
        here, "--model", "loglinear", "--set", "terms=two-way", "--set", "terms=independence"
    )
    assert set_too["fit"]["terms"] == "independence"


@pytest.mark.usefixtures("people")
def test_a_selection_shows_its_way(here: Path, capsys: Any) -> None:
    run = [argument for argument in COMMON if argument != "--quiet"]  # what is said is looked at
    made = ["assess", "people.csv", *run, "--population-size", "9000", "--model", "loglinear"]
    assert main([*made, "--set", "terms=select", "--out", "out"]) == 0
    shown = capsys.readouterr().out
    assert "Fitted model: " in shown
    assert "if the fitted model is exact" in " ".join(shown.split())
    assert "R-hat" not in shown
    fit = json.loads((here / "out" / "result.json").read_text())["fit"]
    assert fit["path"][0]["added"] == "independence"
    assert fit["terms_added"] == len(fit["path"]) - 1
    page = (here / "out" / "report.html").read_text()
    assert "Steps of the term selection" in page
    assert "osterior" not in page


@pytest.mark.usefixtures("people")
def test_a_bootstrap_is_wider(here: Path) -> None:
    terms = ("--model", "loglinear", "--set", "terms=independence", "--missing", "level")
    narrow = assessed(here, *terms, population_size=900)
    wide = assessed(here, *terms, "--set", "interval=bootstrap", population_size=900)
    assert wide["uncertainty"] == "bootstrap"
    widths = [one["tau1"]["upper"] - one["tau1"]["lower"] for one in (narrow, wide)]
    assert widths[0] < widths[1]
    assert "estimation error" in wide["sentences"]["condition"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "loglinear", "--set", "terms=agee + sex"], ["no key 'agee'", "three-way"]),
        (["--model", "loglinear", "--set", "terms=  "], ["model option terms"]),
        (["--model", "loglinear:terms=sex:work:age"], ["no key 'age'"]),
        (["--model", "loglinear", "--set", "interval=wide"], ["interval", "'bootstrap'"]),
        (["--model", "loglinear", "--set", "smoothing=-1"], ["smoothing is -1"]),
        (
            ["--set", "terms=two-way"],
            ["'auto' has no option 'terms'", "Models with terms: loglinear"],
        ),
        (["--model", "loglinear", "--set", "random=dp"], ["no option 'random'"]),
        (["--model", "loglinear", "--set", "mean=zero"], ["no option 'mean'"]),
        (["--model", "loglinear", "--set", "fixed=two-way"], ["no option 'fixed'"]),
        (["--model", "loglinear", "--set", "empirical=true"], ["no option 'empirical'"]),
        (["--model", "loglinear:terms"], ["'terms' in the model"]),
    ],
)
def test_what_is_wrong_is_one_message(
    people: Path, here: Path, capsys: Any, arguments: list[str], words: list[str]
) -> None:
    assert main(["assess", people.name, *COMMON, "--population-size", "9000", *arguments]) == 1
    told = capsys.readouterr().err
    assert told.count("\n") == 1
    assert [word for word in words if word not in told] == []
    assert [path.name for path in here.iterdir()] == [people.name]


@pytest.mark.slow
def test_too_many_cells_are_refused(here: Path, capsys: Any) -> None:
    names = [f"K{j}" for j in range(12)]
    write_people(here / "wide.csv", names, (9,) * 12, 3000)
    run = ["wide.csv", "--keys", ",".join(names), "--quiet"]
    for command, more in (
        (
            "assess",
            ["--population-size", "90000", "--model", "loglinear", "--set", "terms=two-way"],
        ),
        ("compare", ["--population-size", "90000", "--models", "loglinear"]),
    ):
        assert main([command, *run, *more, "--out", "out"]) == 1
        told = capsys.readouterr().err
        assert "more than 1,000,000,000 cells" in told
        assert "K0" in told
        assert not (here / "out").exists()


@pytest.mark.parametrize("command", ["compare", "evaluate"])
@pytest.mark.usefixtures("people")
def test_unknown_terms_are_refused_before_the_first_fit(
    here: Path, capsys: Any, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: Any, **__: Any) -> None:
        raise AssertionError("a fit was made")

    place = {"compare": "compare", "evaluate": "fit"}[command]
    monkeypatch.setattr(f"unikat.studies.{place}.sample", never)
    run = [command, "people.csv", "--keys", "age group,sex", "--quiet", "--workers", "1"]
    run += ["--models", "hdp,loglinear:terms=age:sex", "--out", "out"]
    more = ["--population-size", "9000"] if command == "compare" else ["--n", "50"]
    assert main([*run, *more]) == 1
    assert "no key 'age'" in capsys.readouterr().err
    assert not (here / "out").exists()


@pytest.mark.usefixtures("people")
def test_models_with_terms_side_by_side(here: Path, capsys: Any) -> None:
    models = "loglinear:terms=independence,loglinear:terms=age group:work + sex"
    run = ["--keys", KEYS, "--workers", "1", "--chains", "2", "--models", models]
    made = ["compare", "people.csv", *run, "--population-size", "9000", "--out", "out"]
    assert main([*made, "--max-sweeps", "800"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "so too narrow" in shown
    assert "The draws of all fits are independent" in shown
    page = (here / "out" / "comparison.html").read_text()
    assert "zero margin" in page
    assert "Each interval holds" not in page
    models_found = json.loads((here / "out" / "summary.json").read_text())["models"]
    assert [one["fit"]["terms"] for one in models_found] == [
        "independence", "age group:work + sex",
    ]  # fmt: skip
    assert (
        main(["compare", "out/comparison.toml", "--trust-spec", "--out", "again", "--quiet"]) == 0
    )
    again = json.loads((here / "again" / "summary.json").read_text())["models"]
    assert [one["tau1"] for one in again] == [one["tau1"] for one in models_found]


@pytest.mark.usefixtures("people")
def test_an_evaluation_says_which_intervals_are_narrow(here: Path, capsys: Any) -> None:
    run = ["evaluate", "people.csv", "--keys", "age group,sex", "--n", "60", "--repeats", "1"]
    run += ["--models", "loglinear:terms=age group + sex", "--chains", "2", "--workers", "1"]
    assert main([*run, "--max-sweeps", "400", "--out", "out", "--allow-unconverged"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert "The intervals of loglinear:terms=age group + sex treat estimates as exact" in shown
    assert "posterior mean" in (here / "out" / "evaluation.html").read_text()


SLOW = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # a background job may ignore it
from unikat.models import preparing
from unikat.models.loglinear import conditional
from unikat.cli.main import main

def slow(*_):
    with preparing.stage("selecting terms"):
        print("preparing", flush=True)
        time.sleep(60)

conditional.select = slow
sys.exit(main())
"""


@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
@pytest.mark.usefixtures("people")
@pytest.mark.parametrize("command", ["assess", "compare"])
def test_ctrl_c_while_a_model_is_fitted(here: Path, command: str) -> None:
    option = "--model" if command == "assess" else "--models"
    run = [command, "people.csv", "--keys", KEYS, "--population-size", "9000", "--out", "out"]
    process = subprocess.Popen(
        [sys.executable, "-c", SLOW, *run, option, "loglinear:terms=select"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        while process.stdout.readline().strip() != "preparing":
            assert process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, told
    assert "Interrupted; nothing was kept." in told
    assert "Traceback" not in told
    assert not (here / "out").exists()
