"""The page of the leaderboard is made of its results, and the benchmark runs from end to end."""

from __future__ import annotations

import json
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from test_reproduction import module
from unikat.datasets import simulate_town

PAGE = module("leaderboard_page")
COPULA = module("copula")


def test_the_page_is_that_of_the_results() -> None:
    docs = Path(__file__).parents[1] / "docs"
    assert (docs / "leaderboard.md").read_text(encoding="utf-8") == PAGE.page()
    assert (docs / "images" / "leaderboard.svg").read_text(encoding="utf-8") == PAGE.figure()


def test_a_normal_population_has_the_probabilities_of_the_copula() -> None:
    rng = np.random.default_rng(1)
    correlations = np.array([[1.0, 0.6, -0.3], [0.6, 1.0, 0.2], [-0.3, 0.2, 1.0]])
    z = rng.multivariate_normal(np.zeros(3), correlations, 200_000)
    cuts = ([-1.0, 0.0, 0.5], [-0.5, 0.5, 1.5], [0.0, 1.0])
    codes = np.stack([np.searchsorted(cut, z[:, j]) for j, cut in enumerate(cuts)], axis=1)
    cells, counts = np.unique(codes, axis=0, return_counts=True)
    found = COPULA.probabilities(codes[:20_000], cells)
    np.testing.assert_allclose(found, counts / counts.sum(), atol=0.006)
    assert found.sum() == pytest.approx(1.0, abs=1e-3)
    cumulative = [np.cumsum(np.bincount(column)) / 20_000 for column in codes[:20_000].T]
    np.testing.assert_allclose(
        COPULA.correlations(codes[:20_000], cumulative), correlations, atol=0.05
    )


def test_simulated_populations_are_like_the_sample_they_were_made_of() -> None:
    rng = np.random.default_rng(2)
    z = rng.multivariate_normal(np.zeros(2), [[1.0, 0.7], [0.7, 1.0]], 4_000)
    codes = np.stack([np.searchsorted([-1.0, 0.0, 1.0], z[:, j]) for j in (0, 1)], axis=1)
    made = [COPULA.gaussian_population]
    if COPULA.vines is not None:
        made.append(COPULA.vine_population)
    wanted = np.bincount(codes[:, 0] * 4 + codes[:, 1], minlength=16) / 4_000
    for simulate in made:
        found = simulate(codes, 50_000)
        table = np.bincount(found[:, 0] * 4 + found[:, 1], minlength=16) / 50_000
        np.testing.assert_allclose(table, wanted, atol=0.02)


def test_expected_risks_are_those_of_all_samples() -> None:
    """Of a population of eight, all samples of three."""
    population = np.array([[0], [0], [0], [1], [1], [2], [3], [3]])
    tau1, tau2 = [], []
    for rows in combinations(range(8), 3):
        found, counts = np.unique(population[list(rows)], return_counts=True)
        size = np.array([np.count_nonzero(population == level) for level in found[counts == 1]])
        tau1.append(np.count_nonzero(size == 1))
        tau2.append((1.0 / size).sum())
    assert COPULA.totals(population, 3) == pytest.approx((np.mean(tau1), np.mean(tau2)))


@pytest.mark.slow
def test_the_benchmark_runs_and_makes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board: Any = module("leaderboard")
    keys = ["age", "sex", "education", "occupation", "birth_region"]
    frame = simulate_town(4_000)[keys]
    monkeypatch.setattr(board, "population", lambda name: (frame, keys))
    monkeypatch.setattr(board, "without_survey", lambda name, experience: experience)
    monkeypatch.setattr(board, "RESULTS", tmp_path / "results" / "leaderboard.jsonl")
    monkeypatch.setattr(board, "DOCS", tmp_path)
    (tmp_path / "images").mkdir()
    asked = [str(tmp_path / "out"), "--populations", "town", "--shares", "10", "--repeats", "2"]
    monkeypatch.setattr(sys, "argv", ["leaderboard.py", *asked, "--smoke", "--models", "loglinear"])
    monkeypatch.syspath_prepend(str(Path(board.__file__).parent))
    board.main()
    lines = [json.loads(line) for line in board.RESULTS.read_text().splitlines()]
    assert {"loglinear", "pitman", "gaussian-copula"} <= {one["model"] for one in lines}
    (copula,) = (one for one in lines if one["model"] == "gaussian-copula")
    assert copula["records"]["auc"] > 0.5
    assert "| town | 4,000 |" in PAGE.page(board.RESULTS)
