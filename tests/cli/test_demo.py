from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from unikat.cli.main import main
from unikat.jobs import demo


@pytest.fixture
def village(monkeypatch: pytest.MonkeyPatch) -> None:
    """A population small enough to be sampled as a whole, so that nothing is estimated."""
    town, sample = demo.simulate_town, demo.draw_sample
    monkeypatch.setattr(demo, "simulate_town", lambda seed: town(900, seed=seed))
    monkeypatch.setattr(demo, "draw_sample", lambda town, seed: sample(town, 1.0, seed=seed))


def test_the_demo_shows_estimate_beside_truth(village: None, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    assert main(["demo", "--out", str(out)]) == 0
    told = capsys.readouterr().out
    truth = json.loads((out / "truth.json").read_text())
    assert f"τ1  true {truth['tau1']}, estimated {truth['tau1']}" in told
    assert told.count("the interval contains the true value") == 2
    result = json.loads((out / "result.json").read_text())
    assert result["tau1"]["mean"] == truth["tau1"] == truth["n_uniques"]
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in out.iterdir())


def test_the_demo_asks_before_it_overwrites(village: None, tmp_path: Path, capsys: Any) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "truth.json").write_text("mine")
    assert main(["demo", "--out", str(out)]) == 1
    assert "holds truth.json, which unikat did not write" in capsys.readouterr().err
    assert main(["demo", "--out", str(out), "--overwrite"]) == 1
    assert [path.name for path in out.iterdir()] == ["truth.json"]
    assert (out / "truth.json").read_text() == "mine"
    (out / "truth.json").unlink()
    assert main(["demo", "--out", str(out), "--quiet"]) == 0
    assert main(["demo", "--out", str(out)]) == 1
    assert "already holds an assessment" in capsys.readouterr().err
