"""Joins of patterns to patterns and cells, against the slow twins."""

from __future__ import annotations

import numpy as np
import pytest

import naive
from unikat.data import patterns as joins
from unikat.errors import SpecError

LEVELS = {"few": (2, 3, 2), "one": (3,), "many": (2,) * 40, "wide": (90_000, 3, 90_000, 90_000)}


def rows(n: int, levels: tuple[int, ...], share_missing: float, seed: int) -> np.ndarray:
    """Random codes, many rows equal, and some agreeing in part."""
    rng = np.random.default_rng(seed)
    few = np.stack([rng.integers(0, size, 12) for size in levels], axis=1)
    found = few[rng.integers(0, len(few), n)].copy()
    at = rng.integers(0, len(levels), n)
    found[np.arange(n), at] = rng.integers(0, np.array(levels)[at])
    found[rng.random(found.shape) < share_missing] = -1
    return found.astype(np.int32)


def paired(meetings: list[joins.Meeting]) -> list[tuple[int, int]]:
    """Rows that agree, one by one."""
    return [
        (int(i), int(k))
        for met in meetings
        for i, wanted in zip(met.asking, met.wanted, strict=True)
        for k, offered in zip(met.answering, met.offered, strict=True)
        if wanted == offered
    ]


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("name", LEVELS)
def test_distinct_rows_are_those_of_a_sort(name: str, share: float) -> None:
    levels = LEVELS[name]
    codes = rows(60, levels, share, 1)
    found = joins.distinct(codes, levels)
    assert [tuple(row) for row in codes[found.first].tolist()] == sorted(set(map(tuple, codes)))
    np.testing.assert_array_equal(codes[found.first][found.place], codes)
    np.testing.assert_array_equal(found.counts, np.bincount(found.place))
    assert all((codes[:i] != codes[i]).any(axis=1).all() for i in found.first)


@pytest.mark.parametrize("share", [0.0, 0.3])
@pytest.mark.parametrize("name", LEVELS)
def test_equal_rows_of_two_lists(name: str, share: float) -> None:
    levels = LEVELS[name]
    one, other = rows(40, levels, share, 2), rows(50, levels, share, 2)[5:]
    equal = (one[:, None] == other).all(axis=2)
    ours, theirs, n = joins.numbered(one, other, levels)
    np.testing.assert_array_equal(ours[:, None] == theirs, equal)
    assert max(ours.max(), theirs.max()) == n - 1
    # In lexicographic order.
    order = np.argsort(ours, kind="stable")
    assert [tuple(row) for row in one[order].tolist()] == sorted(map(tuple, one.tolist()))
    np.testing.assert_array_equal(joins.is_in(one, other, levels), equal.any(axis=1))
    met = joins.meeting(one, other, levels)
    assert sorted(paired([met])) == sorted(map(tuple, np.argwhere(equal).tolist()))
    values = np.random.default_rng(3).integers(1, 9, len(other)).astype(float)
    assert joins.sum_equal(one, other, values, levels).tolist() == naive.sum_equal(
        one, other, values
    )


@pytest.mark.parametrize("name", LEVELS)
def test_cells_that_agree_with_patterns(name: str) -> None:
    levels = LEVELS[name]
    cells, asked = rows(40, levels, 0.0, 4), rows(50, levels, 0.4, 4)
    found = paired(list(joins.agreeing(asked, cells, levels)))
    assert len(found) == len(set(found))
    assert set(found) == naive.agreeing_pairs(asked, cells)


@pytest.mark.parametrize("name", LEVELS)
def test_patterns_that_agree_with_patterns(name: str) -> None:
    levels = LEVELS[name]
    asked = rows(50, levels, 0.3, 5)
    found = paired(list(joins.meetings(asked, levels)))
    expected = naive.agreeing_pairs(asked, asked)
    assert len(found) == len(set(found))
    assert set(found) == expected
    values = np.arange(100).reshape(50, 2)
    sums = np.zeros_like(values)
    for i, k in expected:
        sums[i] += values[k]
    np.testing.assert_array_equal(joins.match_sums(asked, values, levels), sums)


def test_patterns_by_the_keys_they_know() -> None:
    asked = rows(80, (2, 3, 2), 0.4, 6)
    members, masks = joins.by_known_keys(asked)
    assert sorted(np.concatenate(members).tolist()) == list(range(80))
    assert len({tuple(mask) for mask in masks.tolist()}) == len(masks)
    for some, mask in zip(members, masks, strict=True):
        assert ((asked[some] >= 0) == mask).all()


def test_completions_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    levels = (2, 3, 2)
    asked = rows(30, levels, 0.4, 7)
    cells, owner = joins.listed_completions(asked, levels)
    for i, pattern in enumerate(asked.tolist()):
        found = sorted(tuple(cell) for cell in cells[owner == i].tolist())
        assert found == naive.listed_completions(pattern, levels)
    monkeypatch.setattr(joins, "MOST_COMPLETIONS", 3)
    with pytest.raises(SpecError, match="at most 3"):
        joins.listed_completions(np.full((1, 3), -1, np.int32), levels)


def test_nothing_is_joined_to_nothing() -> None:
    nothing, one = np.empty((0, 2), np.int32), np.zeros((1, 2), np.int32)
    levels = (2, 2)
    assert joins.distinct(nothing, levels).first.tolist() == []
    assert paired(list(joins.agreeing(nothing, one, levels))) == []
    assert paired(list(joins.agreeing(one, nothing, levels))) == []
    assert joins.sum_equal(one, nothing, np.empty(0), levels).tolist() == [0.0]
    assert joins.sum_equal(nothing, one, np.ones(1), levels).tolist() == []
    assert joins.is_in(one, nothing, levels).tolist() == [False]
