"""The page of attacks tried is made of its results, and the benchmark runs from end to end."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from test_reproduction import module

TRIALS: Any = module("attack_trials")


def test_the_page_is_that_of_the_results() -> None:
    docs = Path(__file__).parents[1] / "docs"
    assert (docs / "attack-trials.md").read_text(encoding="utf-8") == TRIALS.page()


def homes(n: int) -> pd.DataFrame:
    """Households of a head and up to three others."""
    rng = np.random.default_rng(1)
    rows = []
    for home in range(n):
        region = int(rng.integers(0, 3))
        for member in range(int(rng.integers(1, 5))):
            rows.append((region, 1 if member == 0 else 3, *map(int, rng.integers(0, (2, 8))), home))
    return pd.DataFrame(rows, columns=[*TRIALS.HOME_KEYS, TRIALS.HOME])


def test_samples_have_no_common_households_and_a_part_is_copied() -> None:
    people = homes(90)
    people["row"] = np.arange(len(people))
    parts = TRIALS.samples(people, 30, np.random.default_rng(2))
    rows = np.concatenate([part["row"] for part in parts])
    assert len(rows) == len(set(rows)) == len(people)
    assert all(set(part[TRIALS.HOME]) == set(range(30)) for part in parts)
    made = TRIALS.partly_copied(parts[0], parts[1], 3)
    assert set(made[TRIALS.HOME]) == set(range(30))
    copied = made["row"].isin(parts[0]["row"])
    assert set(made.loc[copied, TRIALS.HOME]) == {0, 1, 2}
    persons = TRIALS.samples(people.drop(columns=TRIALS.HOME), 20, np.random.default_rng(2))
    made = TRIALS.partly_copied(persons[0], persons[1], 2)
    assert made["row"].isin(persons[0]["row"]).sum() == 2
    assert len(made) == 20


@pytest.mark.slow
def test_the_benchmark_runs_and_makes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(TRIALS, "population", lambda unit: homes(240))
    monkeypatch.setattr(TRIALS, "RESULTS", tmp_path / "results" / "trials.jsonl")
    monkeypatch.setattr(TRIALS, "PAGE", tmp_path / "trials.md")
    few = TRIALS.GENERATOR["households"] | {"max_sweeps": 20}
    monkeypatch.setitem(TRIALS.GENERATOR, "households", few)
    asked = ["--units", "households", "--repeats", "1", "--homes", "80"]
    monkeypatch.setattr(sys, "argv", ["attack_trials.py", *asked])
    monkeypatch.syspath_prepend(str(Path(TRIALS.__file__).parent))
    TRIALS.main()
    lines = [json.loads(line) for line in TRIALS.RESULTS.read_text().splitlines()]
    assert {one["situation"] for one in lines} == set(TRIALS.SITUATIONS)
    (copy,) = (
        one
        for one in lines
        if one["situation"] == "copy" and one["attack"] == "replicated uniques of households"
    )
    assert copy["found"] == 1.0
    assert copy["success"] > 0.3
    assert "| replicated uniques of households | **100%**" in TRIALS.page(TRIALS.RESULTS)
