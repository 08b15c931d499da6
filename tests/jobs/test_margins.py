"""Known margins from every way in: Python, files, specifications and the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.errors import DataError, SpecError

KEYS = ["age", "sex", "work"]
SHORT: dict[str, Any] = {
    "model": "latent-class", "chains": 2, "max_sweeps": 48, "workers": 1,
    "set": {"sampling.thin": 2},
}  # fmt: skip
FLAGS = [
    "--keys", ",".join(KEYS), "--model", "latent-class", "--chains", "2", "--max-sweeps", "48",
    "--set", "sampling.thin=2", "--workers", "1", "--quiet", "--allow-unconverged",
]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def population() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    n = 4_000
    return pd.DataFrame(
        {
            "age": rng.integers(0, 12, n),
            "sex": rng.integers(1, 3, n),
            "work": np.minimum(rng.geometric(0.2, n) - 1, 15),
        }
    )


PEOPLE = population()
SAMPLE = PEOPLE.iloc[:200]


def counts(*keys: str) -> pd.DataFrame:
    return PEOPLE.groupby(list(keys)).size().rename("people").reset_index()


def scalars(result: Any) -> tuple[float, ...]:
    return result.tau1.mean, result.tau1.lower, result.tau1.upper, result.tau2.mean


def test_all_ways_in_give_the_same_numbers(here: Path) -> None:
    SAMPLE.to_csv("sample.csv", index=False)
    counts("age", "sex").to_csv("census.csv", index=False)
    counts("work").to_parquet("work.parquet")
    frames = [counts("age", "sex"), counts("work")]
    found = unikat.assess(SAMPLE, keys=KEYS, margins=frames, **SHORT)
    mixed = unikat.assess(SAMPLE, keys=KEYS, margins=["census.csv", counts("work")], **SHORT)
    assert scalars(mixed) == scalars(found)
    files = [*FLAGS, "--margins", "census.csv,work.parquet", "--out", "out"]
    assert main(["assess", "sample.csv", *files]) == 0
    written = json.loads(Path("out/result.json").read_text())
    assert written["tau1"]["mean"] == found.tau1.mean
    assert written["sample"]["population_size"] == 4_000
    # The record of the run repeats it, from elsewhere too.
    assert 'path = "../census.csv"' in Path("out/assessment.toml").read_text()
    again = unikat.assess("out/assessment.toml", trust_spec=True)
    assert scalars(again) == scalars(found)
    one = unikat.assess(SAMPLE, keys=KEYS, margins=counts("age", "sex"), **SHORT)
    assert scalars(one) != scalars(found)
    assert scalars(one) != scalars(unikat.assess(SAMPLE, keys=KEYS, population_size=4_000, **SHORT))


def test_a_specification_lists_files_from_its_folder(here: Path) -> None:
    SAMPLE.to_csv("sample.csv", index=False)
    counts("age").to_csv("a,b.csv", sep=";", index=False)
    Path("deep").mkdir()
    Path("deep/run.toml").write_text(
        'keys = ["age", "sex", "work"]\ndata.path = "../sample.csv"\n'
        'margins = [{ path = "../a,b.csv", delimiter = ";" }]\n'
        'model = "latent-class"\nsampling = { chains = 2, max_sweeps = 48, thin = 2 }\n'
    )
    found = unikat.assess("deep/run.toml", workers=1, trust_spec=True)
    assert found.result.sample.population_size == 4_000
    # A file whose name has a comma is that file.
    options = {"keys": KEYS, **SHORT}
    assert scalars(unikat.assess("sample.csv", margins="a,b.csv", **options)) == scalars(found)


def test_the_results_say_what_was_used_and_what_it_adds(here: Path) -> None:
    found = unikat.assess(
        SAMPLE, keys=KEYS, margins=counts("age", "sex"), out="out", threshold="tau1 <= 5", **SHORT
    )
    (margin,) = json.loads(Path("out/result.json").read_text())["margins"]
    assert margin["file"] == "The data frame"
    assert (margin["keys"], margin["n_cells"], margin["n_outside"]) == (["age", "sex"], 24, 0)
    # Some 8 of 200 records in each of 24 cells: 1 / sqrt(8) without the finite corrections.
    assert 0.25 < margin["standard_error"] < 0.45
    assert 0.0 < margin["off"] < 1.0
    said = found.result.sentences["margins"]
    assert said.startswith("The numbers of people in the population by age × sex (24 cells) are")
    assert "From the sample alone" in said
    page = Path("out/report.html").read_text()
    assert said in page
    assert "the sum of the known counts" in page
    assert "Within known margins the file is a simple random sample" in page
    assert "simple random sample of the 4,000" not in page
    plain = unikat.assess(SAMPLE, keys=KEYS, population_size=4_000, **SHORT)
    assert plain.result.margins == ()
    assert "margins" not in plain.result.sentences


def test_the_terminal_says_so_too(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SAMPLE.to_csv("sample.csv", index=False)
    counts("age", "sex").to_csv("census.csv", index=False)
    flags = [flag for flag in FLAGS if flag != "--quiet"]
    assert main(["assess", "sample.csv", *flags, "--margins", "census.csv", "--out", "out"]) == 0
    assert "Margins: The numbers of people in the population by age × sex" in (
        capsys.readouterr().out
    )


def test_a_comparison_uses_them(here: Path) -> None:
    options = {name: value for name, value in SHORT.items() if name != "model"}
    found = unikat.compare(
        SAMPLE, keys=KEYS, margins=counts("age", "sex"), models="latent-class,hdp", held_out=0,
        out="out", **options,
    )  # fmt: skip
    same = unikat.assess(SAMPLE, keys=KEYS, margins=counts("age", "sex"), **SHORT)
    assert found.summary.models[0].tau1.mean == same.tau1.mean
    assert "margins = [" in Path("out/comparison.toml").read_text()


@pytest.mark.parametrize(
    "model",
    [
        "hdp",
        "gom",
        "loglinear:interval=bootstrap",
        "skinner-holmes",
        "mixed-effects",
        pytest.param(
            "auto:candidates=latent-class,individual-risk:evidence_seconds=0.5",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_every_model_of_keys_can_use_them(model: str) -> None:
    frame = SAMPLE.astype({"sex": "Int64"}).copy()
    frame.iloc[:5, 1] = pd.NA
    options = {**SHORT, "model": model}
    if model.startswith("auto"):
        options["model"] = unikat.Auto(
            candidates=("latent-class", "individual-risk"), evidence_seconds=0.5
        )
    found = unikat.assess(frame, keys=KEYS, margins=[counts("age", "sex"), counts("work")],
                          **options)  # fmt: skip
    assert 0.0 < found.tau1.mean < found.result.sample.n_uniques + 5
    assert np.isfinite(found.tau2.upper)


def test_a_model_of_cells_cannot() -> None:
    with pytest.raises(SpecError, match="cannot use margins"):
        unikat.assess(SAMPLE, keys=KEYS, margins=counts("sex"), model="individual-risk")


def test_what_is_wrong_ends_in_one_message(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    SAMPLE.assign(w=20.0).to_csv("sample.csv", index=False)
    counts("age", "sex").to_csv("census.csv", index=False)
    Path("empty.csv").write_text("")
    for flags, said in (
        (["--margins", "none.csv"], "none.csv"),
        (["--margins", "empty.csv"], "empty.csv"),
        (["--margins", ","], "names no file"),
        (["--margins", "sample.csv"], "has keys only"),
        (["--margins", "census.csv", "--population-size", "5000"], "sum to 4,000, but the pop"),
        (["--margins", "census.csv", "--weights", "w"], "calibrate the weights"),
        (["--margins", "census.csv", "--model", "superpopulation-2"], "cannot use margins"),
    ):
        if "sample.csv" in flags:
            SAMPLE.to_csv("sample.csv", index=False)
        assert main(["assess", "sample.csv", *FLAGS, *flags, "--out", "out"]) == 1, flags
        text = capsys.readouterr().err
        assert said in " ".join(text.split()), (flags, text)
        assert "Traceback" not in text
        assert not Path("out/result.json").exists()
        SAMPLE.assign(w=20.0).to_csv("sample.csv", index=False)


def test_a_frame_that_is_not_there_any_more_is_asked_for(here: Path) -> None:
    SAMPLE.to_csv("sample.csv", index=False)
    unikat.assess("sample.csv", keys=KEYS, margins=counts("sex"), out="out", **SHORT)
    with pytest.raises(DataError, match=r"Margin 1 names no file, as in a run of a data frame"):
        unikat.assess("out/assessment.toml", trust_spec=True)


@pytest.mark.slow
def test_a_file_is_protected_by_the_risk_within_the_margins(here: Path) -> None:
    SAMPLE.to_csv("sample.csv", index=False)
    counts("age", "sex").to_csv("census.csv", index=False)
    flags = ["--margins", "census.csv", "--target", "tau1 <= 2", "--out", "out"]
    # Not converged, so that nothing is known of the limit.
    assert main(["protect", "sample.csv", *FLAGS, *flags]) == 3
    found = json.loads(Path("out/protect.json").read_text())
    before = unikat.assess(SAMPLE, keys=KEYS, margins=counts("age", "sex"), **SHORT)
    assert found["population_size"] == len(PEOPLE)
    # By the law of the same states, and not by the populations that the assessment draws.
    by_law = before.what_if({})
    assert found["before"]["tau1"]["mean"] == pytest.approx(by_law.tau1.mean, rel=1e-9)
    assert before.tau1.mean > 2.0 >= found["by_plan"]
    (chosen,) = (plan for plan in found["plans"] if plan["chosen"])
    assert chosen["risk"]["tau1"]["upper"] == found["by_plan"]
    assert found["agrees"]
    assert "census.csv" in Path("out/protect.toml").read_text()
