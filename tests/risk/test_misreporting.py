"""Correct matches if keys are misreported, against simulated files."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.risk.measures import RiskMeasures
from unikat.risk.misreporting import correct_shares, neighbours_of, probabilities
from unikat.risk.population_counts import add_to_histogram, bin_means

LEVELS = (6, 4, 8, 2, 5, 5, 3, 4)
KEYS = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
N, N_RECORDS = 60_000, 1_500
N_TOWNS = 40


class Town:
    """A population of a few groups whose laws are known."""

    def __init__(self, rng: Any) -> None:
        self.weights = rng.dirichlet(np.ones(5))
        self.profiles = [rng.dirichlet(np.full(n, 0.5), 5) for n in LEVELS]
        self.margins = [self.weights @ profile for profile in self.profiles]

    def people(self, rng: Any) -> np.ndarray:
        group = rng.choice(5, N, p=self.weights)
        found = np.empty((N, len(LEVELS)), np.int32)
        for j, profile in enumerate(self.profiles):
            drawn = rng.random(N)[:, None] > np.cumsum(profile, axis=1)[group][:, :-1]
            found[:, j] = drawn.sum(axis=1)
        return found

    def published(self, cells: np.ndarray, share: float) -> np.ndarray:
        """Law of the published records."""
        q = np.repeat(self.weights[:, None], len(cells), axis=1)
        for j, (profile, margin) in enumerate(zip(self.profiles, self.margins, strict=True)):
            q = q * ((1.0 - share) * profile + share * margin)[:, cells[:, j]]
        found: np.ndarray = q.sum(axis=0)
        return found


def cell_of(codes: np.ndarray) -> np.ndarray:
    return np.ravel_multi_index(codes.T, LEVELS)


def draw(seed: int, share: float) -> tuple[Town, CellTable, int]:
    """Return a town, the file as it is published, and the number of correct matches."""
    rng = np.random.default_rng(seed)
    town = Town(rng)
    people = town.people(rng)
    true = people[rng.choice(N, N_RECORDS, replace=False)]
    codes = true.copy()
    for j, margin in enumerate(town.margins):
        replaced = rng.random(N_RECORDS) < share
        codes[replaced, j] = rng.choice(LEVELS[j], replaced.sum(), p=margin)
    published = cell_of(codes)
    counts = np.bincount(published, minlength=int(np.prod(LEVELS)))
    population = np.bincount(cell_of(people), minlength=len(counts))
    correct = (counts[published] == 1) & (population[published] == 1)
    correct &= published == cell_of(true)
    return town, CellTable.from_codes(codes, KEYS, N), int(correct.sum())


def totals_of(table: CellTable, q: np.ndarray) -> Any:
    """Totals of a draw in which the cells have these probabilities."""
    totals = RiskMeasures.of(table).start()
    add_to_histogram(totals.histogram_others, (N - table.n_records) * q, N - table.n_records)
    totals.n_draws[...] = 1
    totals.weight[...] = 1.0
    totals.r1[...] = np.where(table.unique, np.exp(-(N - table.n_records) * q), 0.0)
    return totals


@pytest.mark.statistical
@pytest.mark.parametrize("share", [0.0, 0.02, 0.05])
def test_expected_correct_matches_are_those_of_simulated_files(share: float) -> None:
    """Over the towns the sums differ by chance, 5 standard errors, and 5% for groups and bins."""
    expected, correct = [], []
    for seed in range(N_TOWNS):
        town, table, found = draw(seed, share)
        totals = totals_of(table, town.published(table.cells, share))
        (factor,) = correct_shares(table, totals, (share,)).tolist()
        expected.append(factor * totals.r1[table.unique].sum())
        correct.append(found)
    difference = np.array(expected) - np.array(correct)
    error = difference.std() / np.sqrt(len(difference))
    assert abs(difference.mean()) < 5.0 * error + 0.05 * np.mean(correct)
    # It would be noticed if nobody thought of records that are truly elsewhere.
    if share == 0.05:
        plain = [totals_of(*_published(seed, share)).r1.sum() for seed in range(N_TOWNS)]
        assert np.mean(plain) > 1.3 * np.mean(correct)


def _published(seed: int, share: float) -> tuple[CellTable, np.ndarray]:
    town, table, _ = draw(seed, share)
    return table, town.published(table.cells, share)


def test_neighbours_are_counted_as_they_are() -> None:
    rng = np.random.default_rng(3)
    codes = (rng.random((80, 8)) ** 2 * LEVELS).astype(np.int32)
    table = CellTable.from_codes(codes, KEYS, N)
    found = neighbours_of(table)
    for place, cell in enumerate(table.cells[table.unique]):
        margin = (codes == cell).mean(axis=0)
        np.testing.assert_allclose(found.margin[place], margin)
        for n_left_out, sums in ((1, found.one), (2, found.two)):
            total = 0.0
            for left_out in combinations(range(8), n_left_out):
                rest = [j for j in range(8) if j not in left_out]
                others = (codes[:, rest] == cell[rest]).all(axis=1).sum() - 1
                total += margin[list(left_out)].prod() * others
            assert sums[place] == pytest.approx(total)


def test_a_key_by_itself() -> None:
    table = CellTable.from_codes([[0], [1], [1], [1]], [Key.of_size("A", 2)], 100)
    found = neighbours_of(table)
    assert (found.margin.item(), found.one.item(), found.two.item()) == (0.25, 0.75, 0.0)
    stays, truly = probabilities(found, np.array([1.0]), 0.1)
    assert stays.item() == pytest.approx(0.9 + 0.1 * 0.25)
    assert truly.item() == pytest.approx(1.0 - 0.1 * 0.75)


def test_nothing_misreported_changes_nothing_and_more_is_less() -> None:
    town, table, _ = draw(1, 0.0)
    totals = totals_of(table, town.published(table.cells, 0.0))
    found = correct_shares(table, totals, (0.0, 0.01, 0.02, 0.05, 0.5, 1.0))
    assert found[0] == pytest.approx(1.0)
    assert (np.diff(found) < 0.0).all()
    assert (found >= 0.0).all()


def test_where_it_is_not_known() -> None:
    town, table, _ = draw(2, 0.0)
    totals = totals_of(table, town.published(table.cells, 0.0))
    codes = table.cells[table.record_cell].copy()
    codes[0, 0] = -1
    gaps = CellTable.from_codes(codes, KEYS, N)
    census = CellTable.from_codes(codes[1:], KEYS, N_RECORDS - 1)
    for other in (gaps, census):
        start = RiskMeasures.of(other).start()
        assert correct_shares(other, start, (0.01,)).size == 0
    assert correct_shares(table, RiskMeasures.of(table).start(), (0.01,)).size == 0
    assert correct_shares(table, totals, (0.01,)).size == 1
    margins: Any = ("known counts",)
    assert correct_shares(replace(table, margins=margins), totals, (0.01,)).size == 0


def test_bins_stand_for_their_middles() -> None:
    means = bin_means(64, 1e6)
    histogram = np.zeros((64, 64), np.int32)
    add_to_histogram(histogram, means, 1e6)
    np.testing.assert_array_equal(histogram, np.eye(64))
