"""Disjoint pieces, against enumeration and the published ones of New York."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from unikat.errors import SpecError
from unikat.zeros import Zeros, disjoint
from unikat.zeros.conditions import layout_of
from unikat.zeros.disjoint_conditions import covers
from zeros.enumeration import all_cells, meets, random_conditions

SIZES = (3, 2, 4, 2)
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def times_covered(pieces, cells):
    """How many pieces each cell is in."""
    inside = (pieces[:, None] == cells) | (pieces[:, None] == -1)
    return inside.all(axis=2).sum(axis=0)


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.parametrize("searched", [4_000, 0])
def test_pieces_cover_exactly_once(seed, searched, monkeypatch):
    monkeypatch.setattr("unikat.zeros.disjoint_conditions._SEARCHED", searched)
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, SIZES, int(rng.integers(0, 7)))
    cells = all_cells(SIZES)
    expected = meets(conditions, OFFSETS, cells)
    pieces = disjoint(conditions, OFFSETS)
    assert pieces.dtype == np.int32
    assert pieces.shape[1] == len(SIZES)
    np.testing.assert_array_equal(times_covered(pieces, cells), expected)


@pytest.mark.parametrize("seed", range(40))
def test_covers(seed):
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, SIZES, 7)
    layout, cells = layout_of(OFFSETS), all_cells(SIZES)
    *others, box = layout.to_bits(conditions)
    inside = meets(conditions[-1:], OFFSETS, cells)
    expected = meets(conditions[:-1], OFFSETS, cells)[inside].all()
    assert covers(others, box, layout) == expected


def test_too_many_pieces_are_refused(monkeypatch):
    monkeypatch.setattr("unikat.zeros.disjoint_conditions.MOST_PIECES", 1)
    conditions = np.array([[1, 0, 0, 1, 1], [1, 1, 1, 1, 0]], dtype=bool)
    with pytest.raises(SpecError, match="more than 1"):
        disjoint(conditions, [0, 3, 5])


def test_too_long_a_search_is_given_up(monkeypatch):
    monkeypatch.setattr("unikat.zeros.disjoint_conditions._MOST_STATES", 0)
    conditions = np.array([[1, 0, 0, 1, 1], [1, 1, 1, 1, 0]], dtype=bool)
    with pytest.raises(SpecError, match="too many ways"):
        disjoint(conditions, [0, 3, 5])


def test_new_york(new_york, shared_data):
    zeros = Zeros.of([], new_york.keys, tables=[shared_data / "nyexample_MCZ.parquet"])
    assert len(zeros.conditions) == 60
    pieces = disjoint(zeros.conditions, zeros.offsets)
    assert len(pieces) <= 480
    sizes = np.where(pieces < 0, zeros.n_levels, 1).prod(axis=1)
    assert sizes.sum() == zeros.n_impossible == 2_317_030
    same = (pieces[:, None] == pieces) | (pieces[:, None] == -1) | (pieces == -1)
    assert same.all(axis=2).sum() == len(pieces)
    assert zeros.forbids(pieces).all()


def test_new_york_as_published(new_york, shared_data):
    zeros = Zeros.of([], new_york.keys, tables=[shared_data / "nyexample_MCZ.parquet"])
    published = pd.read_parquet(shared_data / "ny2000_sz_disjoint_zeros.parquet").to_numpy() - 1
    # Levels are counted in the order of their numbers, "<15" coming before "15".
    ages = ["<15", "15", "16", "17", "[18,24]", "[25,35]", "[36,50]", "[51,70]", ">70"]
    codes = [new_york.keys[2].labels.index(age) for age in ages]
    age = published[:, 2]
    published[:, 2] = np.where(age < 0, -1, np.array(codes)[age])
    assert zeros.forbids(published).all()
    sizes = np.where(published < 0, zeros.n_levels, 1).prod(axis=1)
    assert sizes.sum() == zeros.n_impossible == 2_317_030
    assert zeros.n_cells == 2_566_080
