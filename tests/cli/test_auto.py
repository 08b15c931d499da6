"""`auto` on the command line: the default, its options, interrupts, and repetition."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cli.test_assess import KEYS, numbers, refused, write_people
from cli.test_main import COMMAND, ENVIRONMENT
from unikat.cli.main import main
from unikat.studies import auto

SIZE = ("--keys", KEYS, "--population-size", "20000")
ONE = ("--workers", "1", "--threads", "1", "--chains", "2")
QUICK = (
    *SIZE, *ONE, "--max-sweeps", "400", "--allow-unconverged", "--set", "evidence_seconds=0.2",
    "--set", "candidates=latent-class,elamir-skinner",
)  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.csv")
    return tmp_path


@pytest.mark.slow
def test_the_default_chooses_and_tells_how(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Lines of a log wait for two seconds.
    monkeypatch.setattr("unikat.jobs.progress.QUIET_SECONDS", 0.0)
    assert main(["assess", "people.csv", *QUICK, "--out", "a"]) == 0
    told = capsys.readouterr()
    shown = " ".join(told.out.split())
    assert "Selected model: latent-class, the only candidate whose model error is" in shown
    lines = told.err.splitlines()
    first = lines.index("Candidate 1 of 2: latent-class: fitting all records")
    answer = next(i for i, line in enumerate(lines) if line.startswith("Preliminary answer: τ1"))
    assert first < answer < lines.index("Candidate 2 of 2: elamir-skinner: fitting all records")
    assert lines.count("Fitting the selected model, latent-class, together with its error") == 1
    result = numbers(here / "a")
    assert result["model"] == "auto"
    assert result["uncertainty"] == "calibrated"
    assert result["fit"]["chosen"] == "latent-class"
    assert [row["model"] for row in result["fit"]["candidates"]] == [
        "latent-class", "elamir-skinner"
    ]  # fmt: skip
    assert [row["what"] for row in result["fit"]["model_error"]] == ["overdispersion", "level"]
    assert "Model selection" in (here / "a" / "report.html").read_text()
    before = (here / "a" / "report.html").read_text()
    assert main(["report", "a"]) == 0
    assert (here / "a" / "report.html").read_text() == before
    again = [
        "assess",
        "a/assessment.toml",
        "--trust-spec",
        "--out",
        "b",
        "--workers",
        "2",
        "--quiet",
    ]
    assert main([*again, "--allow-unconverged"]) == 0
    assert numbers(here / "b") == result


@pytest.mark.slow
def test_without_its_error_it_is_the_model(here: Path) -> None:
    only = ("--set", "candidates=latent-class", "--set", "calibrate=false", "--quiet")
    assert main(["assess", "people.csv", *QUICK, *only, "--out", "a"]) == 0
    named = ("--model", "latent-class", "--max-sweeps", "400", "--allow-unconverged", "--quiet")
    assert main(["assess", "people.csv", *SIZE, *ONE, *named, "--out", "b"]) == 0
    a, b = numbers(here / "a"), numbers(here / "b")
    assert a["uncertainty"] == "posterior"
    assert a["tau1"] == b["tau1"]
    assert a["records"] == b["records"]
    assert "model_error" not in a["fit"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--set", "candidates=latent-clas"], ["'latent-clas'", "Did you mean 'latent-class'"]),
        (["--set", "candidates=loglinear"], ["no model that could be chosen"]),
        (["--set", "candidates=auto"], ["names auto itself"]),
        (["--set", "candidates=3"], ["must be a list of models"]),
        (["--set", "evidence_seconds=0"], ["evidence_seconds is 0", "from 0.001"]),
        (["--set", "held_out=1"], ["held_out is 1", "from 0.01 to 0.99"]),
        (["--set", "calibrate=maybe"], ["calibrate"]),
        (
            ["--set", "alpha=shared"],
            ["no option 'alpha'", "Models with alpha: hdp, gom"],
        ),
    ],
)
def test_wrong_options_are_one_message(capsys: Any, arguments: list[str], words: list[str]) -> None:
    refused(["assess", "people.csv", *SIZE, "--quiet", *arguments], capsys, *words)


def test_what_cannot_be_decided_leaves_nothing(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(found: Any, refused: Any, *_: Any) -> None:
        from unikat.errors import SpecError

        raise SpecError("No candidate could be fitted.")

    monkeypatch.setattr(auto, "_choose", nothing)
    refused(["assess", "people.csv", *QUICK, "--out", "a", "--quiet"], capsys, "No candidate")


def interrupted_at(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Press Ctrl-C when so many fits of the evidence have begun."""
    real, begun = auto.compare, 0

    def compare(*arguments: Any, **named: Any) -> Any:
        nonlocal begun
        begun += 1
        if begun >= number:
            raise KeyboardInterrupt
        return real(*arguments, **named)

    monkeypatch.setattr(auto, "compare", compare)


@pytest.mark.slow
def test_an_interrupted_choice_is_resumed(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = ["assess", "people.csv", *QUICK, "--quiet", "--out", "out"]
    with monkeypatch.context() as patch:
        interrupted_at(2, patch)
        assert main(run) == 2
    told = capsys.readouterr().err
    assert "Interrupted before a model was selected" in told
    assert "preliminary answer" in told
    assert "--resume" in told
    kept = {"fits", ".unikat", "result.json"}
    assert {path.name for path in (here / "out").iterdir()} == kept
    refused(run, capsys, "already holds an unfinished assessment", "--resume", "--overwrite")
    refused(["report", "out"], capsys, "not hold a complete run")
    fits = sorted((here / "out").rglob("*.fit"))
    assert len(fits) == 2
    times = [path.stat().st_mtime_ns for path in fits]
    with monkeypatch.context() as patch:
        interrupted_at(2, patch)
        assert main([*run, "--resume"]) == 2
    assert [path.stat().st_mtime_ns for path in fits] == times
    assert main([*run, "--resume"]) == 0
    assert main([*run[:-1], "straight"]) == 0
    assert numbers(here / "out") == numbers(here / "straight")
    with monkeypatch.context() as patch:
        interrupted_at(2, patch)
        assert main([*run, "--overwrite", "--set", "held_out=0.4"]) == 2
    # The old results are still there, and whole.
    assert numbers(here / "out") == numbers(here / "straight")
    assert main([*run, "--overwrite"]) == 0
    assert numbers(here / "out") == numbers(here / "straight")


def test_an_interrupt_before_the_first_fit_leaves_nothing(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_at(1, monkeypatch)
    assert main(["assess", "people.csv", *QUICK, "--quiet", "--out", "out"]) == 130
    assert "nothing was kept" in capsys.readouterr().err
    assert not (here / "out").exists()


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="Ctrl-C is sent as a POSIX signal")
def test_ctrl_c_while_candidates_are_fitted(here: Path) -> None:
    run = ["assess", "people.csv", *SIZE, *ONE, "--set", "evidence_seconds=2000"]
    process = subprocess.Popen(
        [*COMMAND, *run, "--set", "candidates=latent-class", "--out", "out"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 120
        answer = here / "out" / "result.json"
        while not (answer.exists() and list(here.glob("out/fits/model/*/*"))):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < end
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        _, told = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 2, told
    assert "Traceback" not in told
    assert "--resume" in told
    kept = {"fits", ".unikat", "result.json"}
    assert {path.name for path in (here / "out").iterdir()} == kept


@pytest.mark.slow
def test_a_comparison_takes_auto_by_its_label(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("unikat.jobs.progress.QUIET_SECONDS", 0.0)
    label = "auto:evidence_seconds=0.2"
    run = ["compare", "people.csv", *SIZE, *ONE, "--max-sweeps", "200", "--allow-unconverged"]
    models = ["--models", f"latent-class,{label}", "--out", "out"]
    assert main([*run, *models]) == 0
    told = capsys.readouterr()
    assert f"{label}: Candidate 1 of 4: latent-class: fitting all records" in told.err
    shown = " ".join(told.out.split())
    assert f"Only {label} includes model uncertainty." in shown
    summary = json.loads((here / "out" / "summary.json").read_text())
    assert [model["model"] for model in summary["models"]] == ["latent-class", label]
    found = summary["models"][1]
    assert found["uncertainty"] == "calibrated"
    assert found["options"]["evidence_seconds"] == 0.2
    # The answer is that of an assessment.
    named = ["--max-sweeps", "200", "--allow-unconverged", "--quiet", "--out", "alone"]
    assert main(["assess", "people.csv", *SIZE, *ONE, "--model", label, *named]) == 0
    assert numbers(here / "alone")["tau1"] == found["tau1"]
    assert found["fit"]["chosen"] in ("latent-class", "hdp")
    assert main([*run, *models, "--resume", "--quiet"]) == 0
    assert main([*run, *models, "--overwrite", "--quiet"]) == 0
    again = json.loads((here / "out" / "summary.json").read_text())
    assert again["models"][1]["tau1"] == found["tau1"]


def test_a_study_takes_auto(here: Path) -> None:
    run = ["evaluate", "people.csv", "--keys", KEYS, "--n", "100", "--repeats", "1", "--quiet"]
    run += ["--chains", "2", "--workers", "1", "--max-sweeps", "200", "--allow-unconverged"]
    assert main([*run, "--models", "auto:evidence_seconds=0.2", "--out", "study"]) == 0
    summary = json.loads((here / "study" / "summary.json").read_text())
    assert summary["n_failed"] == 0


def test_the_preliminary_answer_is_shown_and_written(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the first sweeps, before any fit is done: on standard error, and in result.json."""
    from unikat.studies import compare

    write_people(here / "people.csv", 300)
    seen = []
    real = compare.sample

    def sample(*args: Any, **how: Any) -> Any:
        path = here / "people-unikat" / "result.json"
        seen.append(json.loads(path.read_text())["stage"] if path.exists() else None)
        return real(*args, **how)

    monkeypatch.setattr(compare, "sample", sample)
    # Lines of a log wait for two seconds.
    monkeypatch.setattr("unikat.jobs.progress.QUIET_SECONDS", 0.0)
    run = ["assess", "people.csv", "--keys", KEYS, "--population-size", "36,970", "--chains", "2",
           "--workers", "1", "--max-sweeps", "48", "--set", "evidence_seconds=0.4",
           "--set", 'candidates=["latent-class", "elamir-skinner"]']  # fmt: skip
    assert main([*run, "--allow-unconverged"]) == 0
    assert seen == 4 * ["preliminary"]
    told = capsys.readouterr().err
    # The size as it was understood comes first, then the answer, then the other candidate.
    places = [told.index(words) for words in ("population 36,970", "Preliminary answer: τ1 about",
                                              "Candidate 2 of 2")]  # fmt: skip
    assert places == sorted(places)
    assert numbers(here / "people-unikat")["stage"] == "final"
