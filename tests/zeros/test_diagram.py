"""The diagram of the possible cells, against enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from unikat.errors import SpecError
from unikat.zeros import diagram as diagrams
from unikat.zeros.diagram import NothingPossibleError, build, n_edges, n_possible, possible
from zeros.enumeration import all_cells, meets, random_conditions

SIZES = (3, 2, 4, 2, 3)
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def check_form(diagram, sizes):
    """The contract of `Diagram`."""
    n_keys = len(sizes)
    assert sorted(diagram.order.tolist()) == list(range(n_keys))
    assert diagram.order.dtype == np.int64
    assert diagram.first.dtype == np.int64
    assert diagram.child.dtype == np.int32
    assert diagram.first.shape == (n_keys + 2,)
    assert diagram.first[:2].tolist() == [0, 1]
    assert diagram.first[-1] - diagram.first[-2] == 1
    assert diagram.child.shape == (diagram.first[-1] - 1, max(sizes))
    for d, key in enumerate(diagram.order):
        first, after, end = diagram.first[d : d + 3]
        block = diagram.child[first:after]
        assert (block[:, sizes[key] :] == -1).all()
        alive = block[block >= 0]
        assert ((alive >= after) & (alive < end)).all()
        # Every node is reached, leads on, and differs from the others of its layer.
        assert set(alive.tolist()) == set(range(after, end))
        assert (block >= 0).any(axis=1).all()
        assert len(np.unique(block, axis=0)) == len(block)


@pytest.mark.parametrize("seed", range(40))
def test_cells_and_counts(seed):
    rng = np.random.default_rng(seed)
    conditions = random_conditions(rng, SIZES, int(rng.integers(0, 7)))
    cells = all_cells(SIZES)
    expected = ~meets(conditions, OFFSETS, cells)
    if not expected.any():
        with pytest.raises(NothingPossibleError):
            build(conditions, OFFSETS)
        return
    diagram = build(conditions, OFFSETS)
    check_form(diagram, SIZES)
    np.testing.assert_array_equal(possible(diagram, cells), expected)
    assert n_possible(diagram, SIZES) == expected.sum()
    patterns = np.where(
        rng.random((200, len(SIZES))) < 0.5, -1, cells[rng.integers(len(cells), size=200)]
    )
    completed = [
        expected[((pattern == -1) | (pattern == cells)).all(axis=1)].any() for pattern in patterns
    ]
    np.testing.assert_array_equal(possible(diagram, patterns), completed)


@pytest.mark.parametrize(("name", "value"), [("_COMPARED", 0), ("_MOST_WORK", 0)])
@pytest.mark.parametrize("seed", range(10))
def test_shortcuts_change_nothing_but_the_size(seed, name, value, monkeypatch):
    monkeypatch.setattr(diagrams, name, value)
    test_cells_and_counts(seed)


def test_no_conditions_and_free_keys():
    diagram = build(np.zeros((0, sum(SIZES)), dtype=bool), OFFSETS)
    check_form(diagram, SIZES)
    assert len(diagram.child) == len(SIZES)
    assert n_possible(diagram, SIZES) == np.prod(SIZES)
    assert n_edges(diagram) == sum(SIZES)


def test_many_patterns_go_in_pieces(monkeypatch):
    rng = np.random.default_rng(3)
    conditions = random_conditions(rng, SIZES, 4)
    diagram = build(conditions, OFFSETS)
    cells = all_cells(SIZES)
    patterns = np.where(rng.random(cells.shape) < 0.4, -1, cells)
    whole = possible(diagram, patterns)
    monkeypatch.setattr(diagrams, "_CHUNK", 20)
    np.testing.assert_array_equal(possible(diagram, patterns), whole)


def test_counts_beyond_64_bits():
    n_keys = 60
    conditions = np.ones((1, 4 * n_keys), dtype=bool)
    conditions[0, [0, 4]] = False
    diagram = build(conditions, np.arange(0, 4 * n_keys + 1, 4))
    assert n_possible(diagram, (4,) * n_keys) == 4**n_keys - 9 * 4 ** (n_keys - 2)


def test_too_large_diagrams_are_refused(monkeypatch):
    monkeypatch.setattr(diagrams, "MOST_NODES", 5)
    conditions = random_conditions(np.random.default_rng(3), SIZES, 4)
    with pytest.raises(SpecError, match="more than 5 nodes"):
        build(conditions, OFFSETS)


def test_wrong_shapes_are_refused():
    with pytest.raises(SpecError, match=r"shape \(n_conditions, 14\)"):
        build(np.ones((2, 13), dtype=bool), OFFSETS)
