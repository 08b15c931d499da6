from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cli.test_assess import everything, refused, write_people
from cli.test_main import COMMAND, ENVIRONMENT
from unikat.cli.main import main
from unikat.inference.progress import TimeLeft
from unikat.jobs.progress import describe
from unikat.studies.evaluate import StudyProgress

COMMON = ["--keys", "AGE:width(10),SEX,WORK,PLACE", "--workers", "1", "--chains", "2"]
EASY = ["--max-sweeps", "4000", "--set", "sampling.rhat=9", "--set", "sampling.ess=1"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.csv")
    write_people(tmp_path / "gaps.csv", missing=True)
    return tmp_path


def test_the_whole_command(here: Path, capsys: Any) -> None:
    command = ["evaluate", "people.csv", *COMMON, *EASY, "--n", "40,20%", "--repeats", "2"]
    assert main([*command, "--models", "hdp,hdp:alpha=per-record"]) == 0
    told = capsys.readouterr()
    folder = here / "people-evaluation"
    assert f"Page: {folder.name}/evaluation.html" in told.out
    # In the tables of τ1 and of τ2, and side by side.
    assert told.out.count("hdp:alpha=per-record") == 6
    assert "τ1" in told.out
    assert " of 2 " in told.out
    found = pq.read_table(folder / "evaluation.parquet").to_pandas()
    assert len(found) == 8
    assert set(found["n"]) == {40, 80}
    assert main([*command, "--models", "hdp,hdp:alpha=per-record", "--resume", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["n_done"] == 8
    page = (folder / "evaluation.html").read_bytes()
    (folder / "evaluation.html").write_bytes(b"")
    assert main(["report", folder.name]) == 0
    assert capsys.readouterr().out.strip() == f"{folder.name}/evaluation.html"
    assert (folder / "evaluation.html").read_bytes() == page
    # From its own record.
    spec = str(folder / "evaluation.toml")
    assert main(["evaluate", spec, "--trust-spec", "--out", "again", "--quiet"]) == 0
    again = pq.read_table(here / "again" / "evaluation.parquet").to_pandas()
    assert again.drop(columns="seconds").equals(found.drop(columns="seconds"))
    assert capsys.readouterr().out == ""


def test_unconverged_fits_have_a_code_of_their_own(here: Path, capsys: Any) -> None:
    command = ["evaluate", "people.csv", *COMMON, "--max-sweeps", "40", "--n", "40"]
    command += ["--repeats", "1", "--quiet"]
    assert main(command) == 2
    assert "1 of 1 fit did not converge" in capsys.readouterr().err
    folder = here / "people-evaluation"
    page = (folder / "evaluation.html").read_text()
    for words in ("With 1 sample of a size", "1 of 1 fit stopped", "1 of 1 fit was made"):
        assert words in page
    said = page + (folder / "summary.json").read_text()
    assert not re.search(r"\b1 (fits|samples|records)\b", said)
    assert main([*command, "--overwrite", "--allow-unconverged"]) == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nobody.csv", *COMMON, "--n", "40"], "There is no file"),
        (["people.csv", "--keys", "AGE,SEXX", "--n", "40"], "Did you mean 'SEX'"),
        (["people.csv", *COMMON], "No sample size"),
        (["people.csv", *COMMON, "--n", "401"], "larger than the population, which has 400"),
        (["people.csv", *COMMON, "--n", "10%,40"], "more than once"),
        (["people.csv", *COMMON, "--n", "1,500"], "a comma separates sizes, but 1,500 looks"),
        (
            ["people.csv", *COMMON, "--n", "40", "--models", "hdp,hdp:alpha=shared"],
            "The models 'hdp' and 'hdp:alpha=shared' are the same",
        ),
        (["people.csv", *COMMON, "--n", "ten"], "neither a whole number"),
        (["people.csv", *COMMON, "--n", "40", "--models", "hpd"], "Did you mean 'hdp'"),
        (["people.csv", *COMMON, "--n", "40", "--models", "hdp:alfa=1"], "no option 'alfa'"),
        (["people.csv", *COMMON, "--n", "40", "--design", "random"], "must be simple, bernoulli"),
        (["people.csv", *COMMON, "--n", "40", "--design", "simpel"], "Did you mean 'simple'"),
        (["people.csv", *COMMON, "--n", "40", "--repeats", "0"], "repeats is 0; it must be at"),
        (["people.csv", *COMMON, "--n", "40", "--strata", "PLACE"], "design is simple"),
        (["people.csv", *COMMON, "--n", "40", "--size", "AGE"], "add --design pps"),
        (["people.csv", *COMMON, "--n", "40", "--allocation", "equal"], "add --design stratified"),
        (
            [
                "people.csv",
                *COMMON,
                "--n",
                "40",
                "--design",
                "stratified",
                "--strata",
                "PLACE",
                "--allocation",
                "power",
                "--power",
                "2",
            ],
            "power is 2",
        ),
        (["people.csv", *COMMON, "--n", "40", "--repeats", "many"], "not a whole number"),
        (["gaps.csv", *COMMON, "--n", "40"], "--missing level"),
        (["people.csv", *COMMON, "--n", "40", "--resume", "--overwrite"], "exclude each other"),
        (["people.csv", *COMMON, "--n", "40", "--out", "people.csv"], "is a file, not a folder"),
    ],
)
def test_bad_input_gets_one_message(arguments: list[str], words: str, capsys: Any) -> None:
    refused(["evaluate", *arguments, "--quiet"], capsys, words)


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_keeps_what_is_done_and_resume_goes_on(here: Path) -> None:
    command = ["evaluate", "people.csv", *COMMON[:2], "--chains", "2"]
    command += ["--n", "40", "--max-sweeps", "40", "--allow-unconverged"]
    process = subprocess.Popen(
        [*COMMAND, *command, "--repeats", "100000", "--workers", "2"],
        env=ENVIRONMENT,
        cwd=here,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    tasks = here / "people-evaluation" / "tasks"
    try:
        end = time.monotonic() + 120
        while len(list(tasks.glob("n*/*.fit"))) < 2 and time.monotonic() < end:
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        shown, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 2, told
    assert "Traceback" not in told
    assert "Interrupted after" in told
    assert "--resume" in told
    assert "The study was interrupted" in shown
    done = {path: path.read_bytes() for path in tasks.rglob("*") if path.is_file()}
    assert main([*command, "--repeats", "2", "--workers", "1", "--resume", "--quiet"]) == 0
    assert {path: path.read_bytes() for path in done} == done
    assert "people-evaluation/summary.json" in everything(here)


def test_progress_of_a_study_in_one_line() -> None:
    event = StudyProgress(done=3, total=40, failed=0, seconds=75.0, time_left=TimeLeft(180, 600))
    assert describe(event) == "3 of 40 fits done  1:15  3 to 10 minutes left"
    early = StudyProgress(done=0, total=40, failed=1, seconds=0.0, time_left=None)
    assert describe(early) == "0 of 40 fits done  0:00  1 failed"
