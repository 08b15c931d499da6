"""The page of the leaderboard is made of its results, and the benchmark runs from end to end."""

from __future__ import annotations

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
    for name, text in PAGE.figures().items():
        assert (docs / "images" / name).read_text(encoding="utf-8") == text
        assert f"](images/{name})" in PAGE.page()


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


def test_who_has_seen_the_whole_file_knows_how_many_are_unique() -> None:
    """Of the uniques of a sample: as many as his risks say, within four standard deviations."""
    board: Any = module("leaderboard")
    keys = ["age", "sex", "education", "occupation"]
    frame = simulate_town(3_000)[keys]
    risks = board.known_risks(frame, keys)
    unique = ~frame.duplicated(keep=False).to_numpy()
    drawn = np.random.default_rng(3).choice(3_000, 300, replace=False)
    at_risk = drawn[~frame.iloc[drawn].duplicated(keep=False).to_numpy()]
    r1, true = risks[at_risk], unique[at_risk]
    assert abs(r1.sum() - true.sum()) < 4.0 * np.sqrt((r1 * (1.0 - r1)).sum())
    assert r1[true].mean() > 2.0 * r1[~true].mean()


@pytest.mark.slow
def test_the_benchmark_runs_with_every_design_and_makes_its_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    board: Any = module("leaderboard")
    keys = ["age", "sex", "education", "occupation", "birth_region"]
    frame = simulate_town(3_000)[keys]
    frame["home"] = np.arange(3_000) // 3

    def population(name: str, further: tuple[str, ...] = ()) -> tuple[Any, list[str]]:
        return frame[list(dict.fromkeys([*keys, *further]))], keys

    monkeypatch.setattr(board, "population", population)
    monkeypatch.setattr(board, "HOUSEHOLD", {"town": ("home",)})
    monkeypatch.setattr(board, "STRATA", {"town": "birth_region"})
    monkeypatch.setattr(board, "without_survey", lambda name, experience, *study: experience)
    monkeypatch.setattr(board, "RESULTS", tmp_path / "results" / "leaderboard.jsonl")
    monkeypatch.setattr(board, "DOCS", tmp_path)
    (tmp_path / "images").mkdir()
    asked = [str(tmp_path / "out"), "--populations", "town", "elsewhere", "--shares", "10"]
    asked += ["--repeats", "1", "--smoke", "--models", "loglinear", "--designs", *board.DESIGNS]
    monkeypatch.setattr(sys, "argv", ["leaderboard.py", *asked])
    monkeypatch.syspath_prepend(str(Path(board.__file__).parent))
    board.main()
    lines = PAGE.lines(board.RESULTS)
    designs = dict.fromkeys((one["population"], one["design"]) for one in lines)
    # Elsewhere there are no households and no strata.
    assert list(designs) == [
        ("town", "persons"), ("elsewhere", "persons"), ("town", "households"), ("town", "unequal"),
        ("town", "missing-2"), ("elsewhere", "missing-2"), ("town", "missing-7"),
        ("elsewhere", "missing-7"),
    ]  # fmt: skip
    for name, design in designs:
        own = [one for one in lines if (one["population"], one["design"]) == (name, design)]
        found = {one["model"]: one for one in own}
        assert {"loglinear", "pitman", "scaling-law", "gaussian-copula"} <= found.keys()
        assert found["clairvoyant"]["records"]["auc"] > 0.5
        assert len({one["tau1"]["truth"] for one in own if one["tau1"]}) == 1
    with_auto = tmp_path / "with-auto.jsonl"
    with_auto.write_text(
        board.RESULTS.read_text().replace('"model": "loglinear"', '"model": "auto"')
    )
    page = PAGE.page(with_auto)
    assert "| town | 3,000 |" in page
    for title in PAGE.TITLE.values():
        assert f"## {title}\n" in page
    assert "| `pitman` † |" in page
    assert all("<svg" in text for text in PAGE.figures(with_auto).values())
