"""Evidence of a model's error: which cells are looked at, and that it points at the truth."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unikat.data import CellTable, Key
from unikat.models.calibrated import OVERDISPERSION, SHIFTS
from unikat.risk.exposure import exposure_of
from unikat.studies import rare_cells
from unikat.studies.rare_cells import BINS, RareCells

KEYS = [Key.of_size("A", 300), Key.of_size("B", 2)]


def test_cells_seen_once_twice_or_three_times_are_looked_at() -> None:
    codes = [[0, 0], [1, 0], [1, 0], *[[2, 1]] * 3, *[[3, 1]] * 4, [5, -1], [6, 1]]
    found = RareCells.of(CellTable.from_codes(codes, KEYS, 900))
    assert found.cells.tolist() == [[0, 0], [6, 1], [1, 0], [2, 1]]
    assert found.counts.tolist() == [1, 1, 2, 3]
    assert found.weights.tolist() == [1.0] * 4
    # The incomplete record is none of those that could be seen.
    assert found.n_records == len(codes) - 1
    assert found.population_size == 900


def test_of_many_cells_some_stand_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rare_cells, "MOST_OBSERVED", 40)
    codes = np.column_stack((np.arange(200), np.zeros(200, int)))
    found = RareCells.of(CellTable.from_codes(codes, KEYS, 900))
    assert len(found.cells) == 40
    np.testing.assert_allclose(found.weights.sum(), 200.0)


def simulated(k: float, d: float, seed: int, n_cells: int = 60_000) -> np.ndarray:
    """Log-likelihood by cells whose rates have this error around a model that is known exactly."""
    rng = np.random.default_rng(seed)
    n, population = 3_000.0, 60_000.0
    p = rng.lognormal(0.0, 0.7, n_cells)
    p *= 20_000.0 / population / p.sum()
    units = population * np.exp(d) * p
    spread = np.minimum(k * units**-0.15, 5.0)
    counts = rng.poisson(n / population * units * rng.gamma(1.0 / spread, spread))
    seen = np.flatnonzero((counts >= 1) & (counts <= 3))
    found = RareCells(
        cells=np.zeros((len(seen), 1), np.int32),
        counts=counts[seen].astype(np.int64),
        weights=np.ones(len(seen)),
        n_records=int(n),
        population_size=int(population),
        exposure=exposure_of(CellTable.from_codes([[0, 0]], KEYS, int(population))),
    )
    totals = found.start()
    totals.units[:] = population * p[seen]
    totals.records[:] = n * p[seen]
    places = ((np.log(population * p[seen]) - BINS[0]) / (BINS[1] - BINS[0])).astype(int)
    totals.draws[np.arange(len(seen)), places] = 100
    return found.log_likelihood(totals)


@pytest.mark.statistical
@pytest.mark.parametrize(("k", "d"), [(0.1, 0.0), (0.8, -0.1), (1.5, 0.2)])
def test_the_evidence_prefers_the_true_error(k: float, d: float) -> None:
    """The mean log-likelihood ratio against any other pair is not below 0, by z, alpha 0.001.

    And where the cells have much more spread than the model knows, the evidence says so clearly.
    """
    true = int(np.argmin(np.abs(np.log(OVERDISPERSION / k)))), int(np.argmin(np.abs(SHIFTS - d)))
    found = np.array([simulated(float(OVERDISPERSION[true[0]]), d, seed) for seed in range(24)])
    gain = found[:, true[0], true[1]][:, None, None] - found[:, ::6, ::5]
    error = gain.std(axis=0, ddof=1) / np.sqrt(len(gain))
    # One-sided, for all pairs of the coarser grid together.
    limit = stats.norm.isf(0.001 / gain[0].size)
    assert (gain.mean(axis=0) >= -limit * error - 1e-9).all()
    none = found[:, true[0], true[1]] - found[:, 0, int(np.argmin(np.abs(SHIFTS)))]
    if (1.0 + k) * np.exp(d) > 1.5:
        assert none.mean() > 5.0 * none.std(ddof=1) / np.sqrt(len(none))
