"""Finished fits of `compare` and `evaluate` that hold what no run writes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hostile.inputs import KEYS, SHORT, people
from inference.checkpoint_files import joined, parts
from unikat.cli.main import main
from unikat.inference import checkpoint as checkpoints

COMPARE = ["compare", "people.csv", "--keys", KEYS, "--population-size", "3000", "--models",
           "loglinear", *SHORT, "--out", "compared"]  # fmt: skip
EVALUATE = ["evaluate", "people.csv", "--keys", KEYS, "--n", "40", "--repeats", "1", "--models",
            "loglinear", *SHORT, "--out", "evaluated"]  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(people())


def _read(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Identity and content of a finished fit."""
    run = json.loads(parts(path.read_bytes())[0])["run"]
    found = checkpoints.load(path, run)
    assert found is not None
    return run, found


@pytest.mark.parametrize("kind", ["risk", "held-out"])
@pytest.mark.parametrize(
    "changes",
    [
        {"fit": None}, {"fit": {}}, {"fit": []}, {"targets": None}, {"targets": {}},
        {"fit.sampling": None}, {"fit.sampling": {}}, {"fit.tau1": {}}, {"fit.tau1": "x"},
        {"fit.checks": []}, {"fit.score": {}}, {"fit.score": None}, {"fit.matches": 3},
        {"fit.warnings": 1}, {"fit.sampling.n_sweeps": "many"},
    ],
)  # fmt: skip
def test_a_finished_fit_of_wrong_parts_is_refused(
    changes: dict[str, Any], kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(COMPARE) == 2
    path = next(Path("compared/fits").glob(f"*-{kind}/finished.fit"))
    run, content = _read(path)
    for name, value in changes.items():
        *way, last = name.split(".")
        holder = content
        for part in way:
            holder = holder[part]
        if last not in holder:
            pytest.skip("the other kind of fit has no such part")
        holder[last] = value
    checkpoints.save(path, run, content)
    before = path.read_bytes()
    capsys.readouterr()
    assert main([*COMPARE, "--resume"]) == 1
    told = capsys.readouterr().err
    assert "cannot be understood" in told
    assert len(told.splitlines()) == 1
    assert path.read_bytes() == before


@pytest.mark.parametrize("sealed", [True, False])
@pytest.mark.parametrize(
    "text", ["[" * 100_000, "", "[]", "null", "9" * 5000, '{"schema": 2}', "NaN"]
)
def test_a_fit_of_a_study_that_is_none_is_made_again(text: str, sealed: bool) -> None:
    assert main(EVALUATE) == 2
    task = next(Path("evaluated/tasks").glob("n*/*.fit"))
    _, whole = _read(task)
    task.write_bytes(joined(text.encode()) if sealed else text.encode())
    assert main([*EVALUATE, "--resume"]) == 2
    assert repr(_read(task)[1]["tau1"]) == repr(whole["tau1"])


@pytest.mark.parametrize(
    "changes",
    [
        {"tau1": "x"}, {"tau1": {}}, {"tau1_true": None}, {"records": {}}, {"records": [1]},
        {"seconds": []}, {"error": "told by somebody else"}, {"n_uniques": {}}, {"another": 1},
    ],
)  # fmt: skip
def test_a_fit_of_a_study_with_wrong_parts_is_made_again(
    changes: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(EVALUATE) == 2
    task = next(Path("evaluated/tasks").glob("n*/*.fit"))
    run, whole = _read(task)
    checkpoints.save(task, run, {**whole, **changes})
    assert main([*EVALUATE, "--resume"]) == 2
    assert "told by somebody else" not in capsys.readouterr().err
    _, again = _read(task)
    assert repr(again["tau1"]) == repr(whole["tau1"])
    assert repr(again["records"]) == repr(whole["records"])


@pytest.mark.parametrize("text", ["[" * 100_000, "[]", "null", "9" * 5000, "NaN", "\x00"])
def test_a_study_that_is_none_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(EVALUATE) == 2
    Path("evaluated/tasks/study.json").write_text(text)
    capsys.readouterr()
    assert main([*EVALUATE, "--resume"]) == 1
    told = capsys.readouterr().err
    assert "study.json cannot be read" in told
    assert len(told.splitlines()) == 1
