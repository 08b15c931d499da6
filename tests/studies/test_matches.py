"""Records left out that match kept ones: counts, likelihood, and what it tells of the rates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.split import split
from unikat.data.table import CellTable, Missing
from unikat.models.base import Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS
from unikat.studies.matches import MOST_MATCHES, Matches

KEYS = [Key.of_size("A", 4), Key.of_size("B", 3), Key.of_size("C", 3)]


class Fixed:
    """Its state is the probability of every cell, an array with an axis per key."""

    def cell_probabilities(self, stream: Any, state: Any, data: Any, cells: Any) -> Any:
        assert (cells >= 0).all()
        return state[tuple(cells.T)]


def some_table(n: int = 60, seed: int = 1, missing: Missing = "integrate") -> CellTable:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([np.minimum(rng.geometric(0.4, n) - 1, k.n_levels - 1) for k in KEYS])
    codes[rng.random(codes.shape) < 0.06] = -1
    return CellTable.from_codes(codes, KEYS, 5000, missing)


def records(table: CellTable) -> list[tuple[int, ...]]:
    """Complete ones."""
    found = [tuple(cell) for cell in table.cells[table.record_cell].tolist()]
    return [record for record in found if min(record) >= 0]


def likelihood(found: Matches, *states: Any) -> Any:
    """From states observed one after the other."""
    totals = found.start()
    for sweep, state in enumerate(states):
        found.observe(Stream(1, 0, sweep), Fixed(), state, None, totals)
    assert totals.n_draws[0] == len(states)
    return found.log_likelihood(totals)


@pytest.mark.parametrize("missing", ["integrate", "wildcard"])
@pytest.mark.parametrize("seed", range(5))
def test_matches_by_hand(seed, missing):
    kept, out = split(some_table(seed=seed, missing=missing), 0.5, seed)
    found = Matches.of(kept, out)
    here, there = records(kept), records(out)
    expected = {cell: there.count(cell) for cell in here if here.count(cell) == 1}
    assert kept.incomplete.any()
    assert out.incomplete.any()
    assert len(expected) > 3
    cells = [tuple(cell) for cell in found.cells.tolist()]
    assert dict(zip(cells, found.matches.tolist(), strict=True)) == expected
    assert (found.n_kept, found.n_left_out) == (len(here), len(there))
    assert found.cost() > 0.0


def test_many_matches_are_cut():
    kept = CellTable.from_codes([[0, 0, 0], [1, 1, 1], [1, 1, 1]], KEYS, 500)
    out = CellTable.from_codes([[0, 0, 0]] * (MOST_MATCHES + 5) + [[1, 1, 1]], KEYS, 500)
    found = Matches.of(kept, out)
    assert found.matches.tolist() == [MOST_MATCHES]
    assert found.n_left_out == MOST_MATCHES + 6


def test_nothing_to_match():
    """No record kept alone, none left out that is complete, or neither: nothing is learned."""
    alone, twice = [[0, 0, 0]], [[0, 0, 0]] * 2
    state = np.full((4, 3, 3), 1 / 36)
    for kept, out, n_cells in (
        (twice, alone, 0),
        ([[-1, 0, 0]], alone, 0),
        ([[-1, 0, 0]], [[-1, 0, 0]], 0),
        (alone, [[0, -1, 0]], 1),
    ):
        found = Matches.of(*(CellTable.from_codes(part, KEYS, 500) for part in (kept, out)))
        assert len(found.cells) == n_cells
        np.testing.assert_allclose(likelihood(found, state), 0.0)
        np.testing.assert_allclose(likelihood(found), 0.0)


def test_the_likelihood_by_hand():
    """The mean over two states of each cell's probability, multiplied over cells."""
    kept, out = split(some_table(n=24), 0.5, 3)
    found = Matches.of(kept, out)
    rng = np.random.default_rng(2)
    states = [rng.dirichlet(np.full(36, 0.5)).reshape(4, 3, 3) for _ in range(2)]
    logs = likelihood(found, *states)
    assert logs.shape == (len(OVERDISPERSION), len(SHIFTS))
    assert logs.max() == 0.0

    def by_hand(index: int, shift: int) -> float:
        return sum(
            math.log(
                sum(
                    naive.matches_probability(
                        y, state[tuple(cell)], found.n_kept, found.n_left_out,
                        found.population_size,
                        OVERDISPERSION[index], SHIFTS[shift],
                    )
                    for state in states
                ) / 2
            )
            for cell, y in zip(found.cells.tolist(), found.matches.tolist(), strict=True)
        )  # fmt: skip

    pairs = [(0, 0), (5, 20), (12, 12), (18, 3), (23, 25)]
    expected = np.array([by_hand(*pair) for pair in pairs])
    ours = np.array([logs[pair] for pair in pairs])
    np.testing.assert_allclose(ours - ours[0], expected - expected[0], rtol=1e-7)


def test_many_cells_are_looked_at_in_part():
    """Every so many of them; their likelihood is their own, not that of all."""
    table = some_table(n=60, seed=4)
    kept, out = split(table, 0.5, 1)
    whole = Matches.of(kept, out)
    n = len(whole.cells)
    part = Matches.of(kept, out, most=n // 3)
    assert len(part.cells) == len(part.matches) == n // 3
    assert (part.n_kept, part.n_left_out) == (whole.n_kept, whole.n_left_out)
    where = [np.flatnonzero((whole.cells == cell).all(axis=1))[0] for cell in part.cells]
    np.testing.assert_array_equal(whole.matches[where], part.matches)
    # Spread over all of the table, none twice.
    assert (where[0], where[-1]) == (0, n - 1)
    assert 2 <= np.diff(where).min() <= np.diff(where).max() <= 5
    state = np.random.default_rng(3).dirichlet(np.ones(36)).reshape(4, 3, 3)
    totals = whole.start()
    whole.observe(Stream(1, 0, 0), Fixed(), state, None, totals)
    logs = np.log(totals.probability[where]).sum(axis=0)
    np.testing.assert_allclose(likelihood(part, state), logs - logs.max(), rtol=1e-9, atol=1e-9)
    np.testing.assert_array_equal(Matches.of(kept, out, most=n).cells, whole.cells)
    nothing = Matches.of(kept, out, most=0)
    assert nothing.cost() == 0.0
    np.testing.assert_array_equal(likelihood(nothing, state), 0.0)


# --- what matches tell ------------------------------------------------------------------------

LEVELS = (6, 5, 5, 4, 4, 3)
"""7,200 cells."""


def latent_classes() -> Any:
    """Probabilities of all cells under four classes."""
    rng = np.random.default_rng(5)
    p = np.zeros(LEVELS)
    for weight in (0.4, 0.3, 0.2, 0.1):
        joint = np.array(weight)
        for n in LEVELS:
            joint = np.multiply.outer(joint, rng.dirichlet(np.full(n, 0.8)))
        p += joint
    return p


def of_sample(rates: Any, rng: Any) -> Matches:
    """Matches of two halves of 5,000 records."""
    counts = rng.multinomial(5000, (rates / rates.sum()).ravel())
    cells = np.column_stack(np.unravel_index(np.arange(rates.size), LEVELS))
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
    return Matches.of(*split(CellTable.from_codes(np.repeat(cells, counts, axis=0), keys, 10**6),
                             0.5, 1))  # fmt: skip


NOT_REJECTED = stats.chi2.isf(1e-6, 2) / 2
"""Largest fall of the log-likelihood at the true k and d, with a false alarm of 1e-6."""


@pytest.mark.statistical
@pytest.mark.parametrize("k", [0.05, 0.8])
def test_matches_tell_the_overdispersion(k):
    """Likelihood ratio tests with the true model in place of a fit, three populations together.

    The true k without a shift is not rejected; the other k is, whatever the shift.
    """
    p = latent_classes()
    rng = np.random.default_rng(11)
    spread = np.vectorize(naive.cell_overdispersion)(k, 1e6 * p)
    parts = [of_sample(p * rng.gamma(1.0 / spread, spread), rng) for _ in range(3)]
    assert all(len(part.cells) > 300 for part in parts)
    logs = sum(likelihood(part, p) for part in parts)
    logs = logs - logs.max()
    # Between the values of the grid the logarithm is smooth: linear is close enough.
    at = {
        one: np.array([np.interp(math.log(one), np.log(OVERDISPERSION), row) for row in logs.T])
        for one in (0.05, 0.8)
    }
    none = int(np.argmin(np.abs(SHIFTS)))
    assert -at.pop(k)[none] < NOT_REJECTED
    (other,) = at.values()
    assert -other.max() > NOT_REJECTED


@pytest.mark.statistical
@pytest.mark.parametrize("d", [-0.4, 0.3])
def test_matches_tell_the_level(d):
    """The model gives every cell exp(-d) of its rate; -d is rejected, d is not."""
    p = latent_classes()
    logs = likelihood(of_sample(p, np.random.default_rng(12)), math.exp(-d) * p)
    right, wrong = (int(np.argmin(np.abs(SHIFTS - x))) for x in (d, -d))
    assert -logs[0, right] < NOT_REJECTED
    assert -logs[:, wrong].max() > NOT_REJECTED
