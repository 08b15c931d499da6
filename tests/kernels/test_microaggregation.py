"""Groups of near points: against the definition of MDAV, and against all partitions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from unikat.kernels.microaggregation import best_on_line, mdav, swap_partners


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(2, 60), st.integers(1, 4), st.integers(2, 7), st.booleans()
)
def test_mdav_is_that_of_its_definition(seed: int, n: int, width: int, k: int, ties: bool) -> None:
    """Whole numbers make distances exact, and few of them make most distances equal."""
    n = max(n, k)
    rng = np.random.default_rng(seed)
    points = rng.integers(0, 3 if ties else 10**4, (n, width)).astype(float)
    assert mdav(points, k).tolist() == naive.mdav(points, k).tolist()


def test_mdav_of_many_points_is_that_of_its_definition() -> None:
    """The mean moves and the outer points are sorted again; leaves of the tree run empty."""
    rng = np.random.default_rng(1)
    points = np.exp(rng.standard_normal((3000, 3)))
    group = mdav(points, 3)
    assert group.tolist() == naive.mdav(points, 3).tolist()
    assert set(np.bincount(group)) <= {3, 4, 5}


@pytest.mark.parametrize("k", [2, 3, 4])
def test_groups_on_a_line_are_the_best_of_all_partitions(k: int) -> None:
    rng = np.random.default_rng(k)
    for kind in range(6):
        values = np.sort(rng.integers(0, 6, 8) if kind % 2 else rng.lognormal(size=8) * 1e6)
        group = best_on_line(values.astype(float), k)
        assert np.bincount(group).min() >= k
        best = naive.best_groups(values.astype(float), k)
        assert naive.squares_within(values, group) == pytest.approx(best, rel=1e-9, abs=1e-9)


def test_large_numbers_near_each_other_lose_no_digits() -> None:
    """Sums of squares of numbers as large as these would be off by more than their distances."""
    values = 1e9 + np.array([0.0, 1.0, 2.0, 10.0, 11.0, 12.0])
    assert best_on_line(values, 2).tolist() == [0, 0, 0, 1, 1, 1]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 80), st.integers(1, 90))
def test_ranks_are_swapped_in_pairs_within_the_width(seed: int, n: int, width: int) -> None:
    partner = swap_partners(np.random.default_rng(seed).random(n), width)
    assert partner[partner].tolist() == list(range(n))
    assert (np.abs(partner - np.arange(n)) <= width).all()
    # Only ranks without a free neighbour in reach stay.
    alone = np.flatnonzero(partner == np.arange(n))
    assert (np.diff(alone) > width).all()
