from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli.test_assess import KEYS, everything, refused, write_people
from cli.test_main import COMMAND, ENVIRONMENT
from unikat.cli.main import main
from unikat.errors import OutputError
from unikat.report.folders.assessment import load

MODELS = "hdp,hdp:alpha=per-record"
COMMON = ("--keys", KEYS, "--workers", "1", "--threads", "1", "--chains", "2")
FEW = ("--max-sweeps", "40", "--population-size", "9000")
FILES = {"comparison.parquet", "summary.json", "comparison.html", "comparison.toml"}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def people(here: Path) -> Path:
    return write_people(here / "people.csv")


def specify(here: Path, models: str = MODELS, **sampling: Any) -> Path:
    chosen = {"rhat": 3.0, "ess": 4, "max_sweeps": 2000, **sampling}
    lines = [
        "population_size = 20_000",
        f"keys = {json.dumps(KEYS.split(','))}",
        f"models = {json.dumps(models.split(','))}",
        "[data]",
        'path = "people.csv"',
        "[sampling]",
        "chains = 2",
        "workers = 1",
        "threads = 1",
        *(f"{name} = {value}" for name, value in chosen.items()),
    ]
    path = here / "spec.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def numbers(folder: Path) -> dict[str, Any]:
    """The summary without times."""
    summary = json.loads((folder / "summary.json").read_text())
    for name in ("seconds", "provenance"):
        summary.pop(name)
    for model in summary["models"]:
        model["sampling"].pop("seconds")
        model["held_out"]["sampling"].pop("seconds")
    return dict(summary)


def test_the_whole_comparison(
    people: Path, here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # However fast the machine is.
    monkeypatch.setattr("unikat.jobs.progress.QUIET_SECONDS", 0.0)
    specify(here)
    assert main(["compare", "spec.toml"]) == 0
    told = capsys.readouterr()
    assert "Two models estimate " in told.out
    assert "hdp:alpha=per-record  " in told.out
    assert "Page: people-comparison/comparison.html" in told.out
    assert "hdp (1 of 2): fitting all records" in told.err
    folder = here / "people-comparison"
    assert {path.name for path in folder.iterdir()} == FILES | {"fits", ".unikat"}
    written = [path for path in folder.rglob("*") if path.is_file()]
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in written)
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    assert len(folders) == 6
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in folders)
    table = pq.read_table(folder / "comparison.parquet").to_pylist()
    assert [row["model"] for row in table] == MODELS.split(",")
    assert all(row["converged"] and row["n"] == 400 and row["repeat"] == 0 for row in table)
    summary = numbers(folder)
    assert summary["schema"] == "unikat.comparison/1"
    assert [model["tau1"]["mean"] for model in summary["models"]] == [
        row["tau1_mean"] for row in table
    ]
    # The specification as run gives the same numbers.
    again = [
        "compare",
        "people-comparison/comparison.toml",
        "--trust-spec",
        "--out",
        "b",
        "--threads",
        "2",
    ]
    assert main([*again, "--quiet"]) == 0
    assert numbers(here / "b") == summary
    # All is done, so nothing is sampled again, and all files are the same.
    before = everything(folder)
    assert main(["compare", "spec.toml", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads((folder / "summary.json").read_text())
    after = everything(folder)
    assert [name for name in before if before[name] != after[name]] in (
        [],
        ["comparison.html", "summary.json"],  # another second on the clock
    )
    assert numbers(folder) == summary
    assert main(["compare", "spec.toml", "--resume", "--seed", "2"]) == 1
    assert "belongs to another run" in capsys.readouterr().err
    # The page is rendered again from the numbers, without the fits.
    shutil.rmtree(folder / "fits")
    before = everything(folder)
    (folder / "comparison.html").write_text("an old page")
    assert main(["report", "people-comparison"]) == 0
    assert everything(folder) == before


@pytest.mark.slow
def test_an_unconverged_comparison_is_marked_and_resumed(
    people: Path, here: Path, capsys: Any
) -> None:
    specify(here, models="hdp")
    run = ["compare", "spec.toml", "--out", "out"]
    assert main([*run, "--max-sweeps", "16", "--quiet"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert not numbers(here / "out")["converged"]
    refused(run, capsys, "already holds a comparison", "--resume", "--overwrite", "--out")
    more = [*run, "--max-sweeps", "16", "--resume", "--allow-unconverged"]
    assert main(more) == 0
    assert "NOT CONVERGED" in capsys.readouterr().out
    assert main([*run, "--resume", "--quiet"]) == 0
    assert numbers(here / "out")["converged"]
    refused([*run, "--resume", "--overwrite"], capsys, "exclude each other")
    assert main([*run, "--overwrite", "--quiet"]) == 0
    resumed = numbers(here / "out")
    assert main(["compare", "spec.toml", "--out", "straight", "--quiet"]) == 0
    assert numbers(here / "straight") == resumed


def test_a_path_and_a_model_that_is_added(people: Path, here: Path, capsys: Any) -> None:
    run = ["compare", "people.csv", *COMMON, *FEW, "--out", "out", "--allow-unconverged"]
    path = ["--path", "profile_concentration=1,0.2", "--held-out", "0"]
    assert main([*run, "--models", "hdp", *path]) == 0
    assert "profile_concentration" in capsys.readouterr().out
    summary = json.loads((here / "out/summary.json").read_text())
    assert [model["path_value"] for model in summary["models"]] == [0.2, 1.0]
    assert summary["paths"][0]["values"] == [0.2, 1.0]
    assert summary["models"][0]["held_out"] is None
    page = (here / "out/comparison.html").read_text()
    assert "Sensitivity of τ1 to profile_concentration" in page
    assert summary["paths"][0]["chosen"] is None
    assert "predicts unseen records" not in page
    assert main([*run, "--models", "hdp", "--resume", "--quiet", "--held-out", "0"]) == 0
    label = "hdp:profile_concentration=1"
    assert main([*run, "--models", f"hdp:alpha=per-record,{label}", "--resume", "--quiet"]) == 0
    rows = pq.read_table(here / "out/comparison.parquet").to_pylist()
    assert [row["model"] for row in rows] == ["hdp:alpha=per-record", label]


@pytest.mark.slow
def test_a_fit_that_the_clock_ended_is_repeated(people: Path, here: Path) -> None:
    specify(here, models="hdp", rhat=1.0001, ess=1e6, max_sweeps=10**6)
    assert main(["compare", "spec.toml", "--out", "a", "--max-seconds", "1", "--quiet"]) == 2
    text = (here / "a" / "comparison.toml").read_text()
    assert "[limits.hdp]\nrisk = " in text
    assert main(["compare", "a/comparison.toml", "--trust-spec", "--out", "b", "--quiet"]) == 2
    a, b = numbers(here / "a"), numbers(here / "b")
    for one in (a, b):
        for sampling in (one["models"][0]["sampling"], one["models"][0]["held_out"]["sampling"]):
            sampling.pop("stop_reason")
        one["models"][0].pop("warnings")
    assert a == b


@pytest.mark.parametrize("how", ["integrate", "level", "wildcard"])
def test_missing_keys(here: Path, how: str) -> None:
    write_people(here / "gaps.csv", missing=True)
    run = ["compare", "gaps.csv", *COMMON, *FEW, "--models", "hdp", "--missing", how, "--quiet"]
    assert main([*run, "--allow-unconverged"]) == 0
    summary = numbers(here / "gaps-comparison")
    check = summary["models"][0]["checks"][0]
    assert check["observed"] == summary["sample"]["n_uniques"]
    assert summary["models"][0]["held_out"]["n_records"] == 80


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.csv", *COMMON, *FEW, "--models", "hdp"], ["none.csv"]),
        (["none.toml"], ["Cannot read none.toml"]),
        (["people.csv", *COMMON, *FEW], ["No models are named", "--models"]),
        (["people.csv", *COMMON, *FEW, "--models", "hpd"], ["'hpd'", "'hdp'"]),
        (["people.csv", *COMMON, *FEW, "--models", "hdp:alpa=shared"], ["'alpa'", "'alpha'"]),
        (["people.csv", *COMMON, *FEW, "--models", "hdp:alpha"], ["NAME=VALUE"]),
        (["people.csv", *COMMON, *FEW, "--models", "hdp,hdp"], ["are the same"]),
        (
            ["people.csv", *COMMON, "--models", "hdp"],
            ["population size is needed", "--population-size"],
        ),
        (
            ["people.csv", "--keys", "AGE,SEXX", *FEW, "--models", "hdp"],
            ["no column 'SEXX'", "'SEX'"],
        ),
        (["people.csv", *FEW, "--models", "hdp"], ["no keys"]),
        (
            ["people.csv", *COMMON, *FEW, "--models", "hdp", "--held-out", "1"],
            ["--held-out is 1; it must be at least 0 and below 1"],
        ),
        (
            ["people.csv", *COMMON, *FEW, "--models", "hdp", "--path", "components=1,2"],
            ["None of the models has the option 'components'"],
        ),
        (
            ["people.csv", *COMMON, *FEW, "--models", "hdp", "--path", "alpha_shape=1"],
            ["path.values", "two or more"],
        ),
        (
            ["people.csv", *COMMON, *FEW, "--models", "hdp", "--path", "alpha=shared"],
            ["OPTION=NUMBER"],
        ),
        (
            ["people.csv", *COMMON, *FEW, "--models", "hdp", "--path", "alpha_shape=1,1,2"],
            ["each number once"],
        ),
        (
            ["people.csv", *COMMON, *FEW, "--models", "hdp:top_rate=1", "--path", "top_rate=1,2"],
            ["sets top_rate, and so does the path"],
        ),
        (
            ["people.csv", *COMMON, "--population-size", "400", "--models", "hdp"],
            ["nothing to compare", "unikat assess"],
        ),
        (["people.csv", *COMMON, *FEW, "--models", "hdp", "--out", "people.csv"], ["is a file"]),
    ],
)
def test_bad_input(people: Path, capsys: Any, arguments: list[str], words: list[str]) -> None:
    refused(["compare", *arguments, "--quiet"], capsys, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('modles = ["hdp"]', ["no such name", "'models'"]),
        ('schema = "unikat.assessment/1"', ["schema", "unikat.comparison-spec/1"]),
        ("[limits.hdp]\nrisk = 0", ["at least 1"]),
        ("[limits.hdp]\nrisks = 9", ["limits.hdp"]),
        ('models = ["hdp"]\n[limits.gom]\nrisk = 9', ["'gom', which is not compared"]),
        ('models = ["hdp"]\npath = 3', ["path"]),
    ],
)
def test_bad_specifications(here: Path, capsys: Any, text: str, words: list[str]) -> None:
    (here / "bad.toml").write_text(text)
    refused(["compare", "bad.toml", "--quiet"], capsys, *words)


def test_no_value_of_a_record_is_told_or_shown(here: Path, capsys: Any) -> None:
    text = write_people(here / "people.csv").read_text().splitlines()
    text[1] = "SECRET," + text[1].partition(",")[2]
    (here / "people.csv").write_text("\n".join(text) + "\n")
    run = ["compare", "people.csv", *COMMON, *FEW, "--models", "hdp", "--allow-unconverged"]
    assert main(run) == 0
    told = capsys.readouterr()
    assert "SECRET" not in told.out + told.err
    assert not any(b"SECRET" in found for found in everything(here / "people-comparison").values())


def test_an_interrupt_before_anything_is_done(
    people: Path, here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unikat.studies.compare.sample", interrupted)
    assert main(["compare", "people.csv", *COMMON, *FEW, "--models", "hdp"]) == 130
    assert "Interrupted" in capsys.readouterr().err
    assert not (here / "people-comparison").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(people: Path, here: Path) -> None:
    specify(here, models="hdp,hdp:top_rate=2", rhat=1.0000001, ess=1e9, max_sweeps=10**9)
    out = here / "people-comparison"
    process = subprocess.Popen(
        [*COMMAND, "compare", "spec.toml", "--max-sweeps", "1000000"],
        env=ENVIRONMENT, cwd=here, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        end = time.monotonic() + 120
        while not list(out.rglob("sampling.checkpoint")) and time.monotonic() < end:
            assert process.poll() is None, process.communicate()
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 2, told
    assert "Traceback" not in told
    assert "--resume" in told
    assert shown == ""
    assert {path.name for path in out.iterdir()} == {"fits", ".unikat"}
    with pytest.raises(OutputError, match=r"a comparison that is not finished.* --resume"):
        load(out)
    specify(here, models="hdp,hdp:top_rate=2")
    run = subprocess.run(
        [*COMMAND, "compare", "spec.toml", "--quiet"],
        env=ENVIRONMENT, cwd=here, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 1
    assert "already holds an unfinished comparison" in run.stderr
    assert main(["compare", "spec.toml", "--resume", "--quiet"]) == 0
    assert numbers(out)["converged"]


def test_help_loads_nothing_heavy() -> None:
    program = (
        "import sys; from unikat.cli.main import main; main(['compare', '--help']);"
        "heavy = {'numpy', 'numba', 'rich', 'pyarrow', 'jinja2', 'duckdb'};"
        "sys.exit(','.join(heavy & set(sys.modules)) or 0)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=ENVIRONMENT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "Usage: unikat compare" in run.stdout
