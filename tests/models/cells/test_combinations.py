"""Possible combinations of levels, counted and drawn, against a list of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from unikat.models.cells.combinations import Combinations
from unikat.zeros.diagram import build, possible

LEVELS = (2, 3, 2, 4)
CELLS = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
PATTERNS = np.array(list(itertools.product(*(range(-1, n) for n in LEVELS))), np.int32)


def with_zeros() -> Combinations:
    """K0 = 0 with K1 = 2, and K3 = 3 with K2 = 1, are impossible."""
    conditions = np.ones((2, sum(LEVELS)), bool)
    conditions[0, [1, 2, 3]] = False
    conditions[1, [5, 7, 8, 9]] = False
    diagram = build(conditions, np.concatenate(([0], np.cumsum(LEVELS))))
    return Combinations(np.array(LEVELS), diagram)


BOTH = pytest.mark.parametrize(
    "combinations", [Combinations(np.array(LEVELS), None), with_zeros()], ids=["all", "zeros"]
)


def listed(combinations: Combinations) -> np.ndarray:
    zeros = combinations.zeros
    return CELLS if zeros is None else CELLS[possible(zeros, CELLS)]


@BOTH
def test_completions_are_counted(combinations: Combinations) -> None:
    cells = listed(combinations)
    agree = ((PATTERNS[:, None] < 0) | (PATTERNS[:, None] == cells)).all(axis=2)
    np.testing.assert_array_equal(combinations.completions(PATTERNS), agree.sum(axis=1))
    assert combinations.completions(PATTERNS[:0]).shape == (0,)
    np.testing.assert_array_equal(
        combinations.allows(CELLS), (CELLS[:, None] == cells).all(axis=2).any(axis=1)
    )


@BOTH
@pytest.mark.statistical
def test_completions_are_drawn_alike(combinations: Combinations) -> None:
    """Chi-square of 5,000 draws for three patterns, false alarm 1e-6 each."""
    rng = np.random.default_rng(2)
    cells = listed(combinations)
    for pattern in ([-1, -1, -1, -1], [-1, 2, -1, -1], [0, -1, 1, -1]):
        pattern = np.array(pattern, np.int32)
        drawn = combinations.draw(rng, np.tile(pattern, (5_000, 1)))
        agree = ((pattern < 0) | (pattern == cells)).all(axis=1)
        found = (drawn[:, None] == cells[agree]).all(axis=2)
        assert found.any(axis=1).all()
        assert stats.chisquare(found.sum(axis=0)).pvalue > 1e-6
