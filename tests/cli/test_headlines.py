"""What is said first: the same counts everywhere, and no interval that is known to be wrong."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main

KEYS = "AGE,SEX,REGION,WORK"
COMMON = ("--keys", KEYS, "--population-size", "40000", "--workers", "1")


@pytest.fixture
def gaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """800 people; one value in thirty is missing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(4)
    codes = np.column_stack(
        [rng.integers(18, 70, 800), rng.integers(1, 3, 800), rng.integers(1, 8, 800),
         rng.geometric(0.4, 800)]
    ).astype(object)  # fmt: skip
    codes[rng.random(codes.shape) < 1 / 30] = None
    pd.DataFrame(codes, columns=KEYS.split(",")).to_csv("gaps.csv", index=False)
    return tmp_path / "gaps.csv"


def read(path: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(path).read_text())
    return found


def text_of(path: str) -> str:
    page = re.sub(r"<(style|svg).*?</\1>", " ", Path(path).read_text(), flags=re.DOTALL)
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.slow
def test_assess_and_compare_count_the_same_records(
    gaps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Sample uniques and incomplete records, in the same words, and no other count unnamed."""
    frame = pd.read_csv(gaps)
    whole = frame.notna().all(axis=1)
    alone = whole & ~frame[whole].duplicated(keep=False).reindex(frame.index, fill_value=True)
    n_uniques, n_incomplete = int(alone.sum()), int((~whole).sum())
    words = f"{n_uniques:,} sample uniques and {n_incomplete:,} incomplete records"
    arguments = [str(gaps), *COMMON]
    assert main(["assess", *arguments, "--model", "individual-risk", "--classics"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"of the {words} in this file" in told
    found = read("gaps-unikat/result.json")
    assert found["sample"]["n_uniques"] == n_uniques
    assert found["records"]["n_judged"] == n_uniques + n_incomplete
    page = text_of("gaps-unikat/report.html")
    assert f"of the {words} in this file" in page
    assert f"Records at risk {n_uniques + n_incomplete:,} " in page
    # k-anonymity counts other records, and says so.
    (fewer,) = (one["records"] for one in found["classics"]["anonymity"] if one["k"] == 2)
    assert fewer < n_uniques
    assert f"The {fewer:,} records of fewer than 2 in k-anonymity are not the {words}" in page
    few = ("--chains", "2", "--max-sweeps", "40", "--allow-unconverged")
    models = ("--models", "latent-class,hdp")
    assert main(["compare", *arguments, *models, *few, "--out", "compared"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"the {words} in this file" in told
    summary = read("compared/summary.json")
    assert summary["sample"] == found["sample"]
    checks = summary["models"][0]["checks"]
    assert checks[0]["observed"] == n_uniques
    for said in (told, page, text_of("compared/comparison.html"), *summary["sentences"].values()):
        assert "or may be" not in said


def test_an_interval_that_missed_the_truth_is_no_headline(
    gaps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its known error comes first; the numbers stay in result.json and in the technical part."""
    arguments = ["assess", str(gaps), *COMMON, "--model", "individual-risk", "--classics"]
    assert main(arguments) == 0
    told = " ".join(capsys.readouterr().out.split())
    found = read("gaps-unikat/result.json")
    tau1 = found["tau1"]
    ends = f"{tau1['lower']:,.0f} to {tau1['upper']:,.0f}"
    start = "In trials on files like this one, estimates by the model used here were 88% too low"
    assert told.startswith(start)
    assert found["sentences"]["answer"].startswith(start)
    assert "contained the true value in 0 of 70 samples" in told
    assert "95%" not in told.partition("contained")[0].replace("the 95% intervals of this", "")
    assert ends not in told
    assert "interval" not in told.partition("unique in file and population")[2][:40]
    page = text_of("gaps-unikat/report.html")
    first = page.partition("What was assessed")[0]
    assert start in first
    assert ends not in first
    for words in (f"{tau1['lower']:,.0f} and {tau1['upper']:,.0f}", "95% interval "):
        assert words not in first
    # In the technical part, by its nominal level.
    technical = page.partition("Technical part")[2]
    assert ends in technical
    assert "nominal 95% interval" in technical
    assert "the intervals of this model contained the true τ1 in 0 of 70 samples" in technical
    # The classics say another number: why, and what to believe.
    said = found["sentences"]["classics.model"]
    pitman = next(one for one in found["classics"]["uniques"] if one["method"] == "pitman")
    assert f"Pitman's sampling formula {pitman['in_sample']:,.0f}" in said
    assert "88% too low" in said
    assert "use neither" in said
    assert "auto" in said
    assert said in page
    assert said in told
    assert ends not in said


def test_neither_is_it_one_in_python(gaps: Path) -> None:
    frame = pd.read_csv(gaps)
    asked: Any = {"keys": KEYS.split(","), "population_size": 40_000, "workers": 1}
    answer = unikat.assess(frame, model="individual-risk", **asked)
    ends = f"{answer.tau1.lower:,.0f} to {answer.tau1.upper:,.0f}"
    for shown in (repr(answer), answer._repr_html_()):
        assert "88% too low on average" in shown
        assert ends not in shown
        assert "incomplete records" in shown
    assert "<svg" not in answer._repr_html_()
    short: Any = {"chains": 2, "max_sweeps": 40}
    compared = unikat.compare(frame, models="latent-class,individual-risk", **short, **asked)
    wrong = compared.summary.models[1].tau1
    for shown in (repr(compared), compared._repr_html_()):
        assert f"{wrong.lower:,.0f} to {wrong.upper:,.0f}" not in shown
        assert "†: no interval is shown" in shown
        assert "refuted" in shown


def test_a_model_that_did_well_keeps_its_interval(
    gaps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["assess", str(gaps), *COMMON, "--model", "latent-class", "--max-sweeps", "40",
                 "--chains", "2", "--allow-unconverged"]  # fmt: skip
    assert main(arguments) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "in the population; 95% interval " in told
    assert "In trials" not in told


def test_compare_shows_no_interval_that_missed_the_truth(
    gaps: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    models = ("--models", "latent-class,individual-risk")
    few = ("--chains", "2", "--max-sweeps", "40", "--allow-unconverged")
    assert main(["compare", str(gaps), *COMMON, *models, *few, "--out", "compared"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    summary = read("compared/summary.json")
    wrong = summary["models"][1]["tau1"]
    ends = f"{wrong['lower']:,.0f} to {wrong['upper']:,.0f}"
    page = text_of("compared/comparison.html")
    for said in (told, page):
        assert ends not in said
        assert "†: no interval is shown" in said
        assert "individual-risk was 88% too low on average" in said
    # The headline is that of the other model.
    right = summary["models"][0]["tau1"]
    assert (
        f"interval {right['lower']:,.0f} to {right['upper']:,.0f})"
        in summary["sentences"]["answer"]
    )
    assert "individual-risk" not in summary["sentences"]["answer"]
