"""Households as rows: members sorted, absent ones last, and what the columns are."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.data.households import HouseholdLayout, sorted_slots
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError


def layout_of(n_slots: int = 3, head_apart: bool = False, **more: object) -> HouseholdLayout:
    options: dict[str, object] = {
        "household_keys": (Key.of_size("size", n_slots + int(head_apart)), Key.of_size("A", 2)),
        "person_keys": (Key.of_size("B", 2), Key.of_size("C", 3)),
        "n_slots": n_slots,
        "head_apart": head_apart,
    }
    return HouseholdLayout(**(options | more))  # type: ignore[arg-type]


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1), st.booleans())
def test_members_have_no_order(seed, head_apart):
    """Any order of the members gives the same row, and the row gives the members back."""
    rng = np.random.default_rng(seed)
    layout = layout_of(head_apart=head_apart)
    codes = np.stack([rng.integers(layout.household_keys[0].n_levels, size=5),
                      rng.integers(2, size=5)], axis=1)  # fmt: skip
    n_members = layout.n_members(codes[:, 0])
    persons = [rng.integers((2, 3), size=(n, 2)) for n in n_members]
    rows = layout.pack(codes, np.concatenate(persons))
    shuffled = [part[rng.permutation(len(part))] for part in persons]
    np.testing.assert_array_equal(rows, layout.pack(codes, np.concatenate(shuffled)))
    back, members = layout.parts(rows)
    np.testing.assert_array_equal(back, codes)
    for part, row, n in zip(persons, members, n_members, strict=True):
        assert sorted(map(tuple, row[:n].tolist())) == sorted(map(tuple, part.tolist()))
        assert row[:n].tolist() == sorted(row[:n].tolist())
        assert (row[n:] == layout.absent).all()
    np.testing.assert_array_equal(layout.canonical(rows), rows)
    np.testing.assert_array_equal(layout.joined(back, members), rows)
    assert layout.present(rows).sum(axis=1).tolist() == n_members.tolist()


def test_columns_after_the_members_are_kept():
    layout = layout_of(2)
    rows = np.array([[1, 0, 1, 2, 0, 1, 7]], np.int32)
    assert layout.canonical(rows).tolist() == [[1, 0, 0, 1, 1, 2, 7]]
    assert layout.n_columns == len(layout.columns) == 6
    assert [key.n_levels for key in layout.columns] == [2, 2, 3, 4, 3, 4]


def test_missing_keys_come_first_and_absent_members_last():
    members = np.array([[[2, 3], [1, 0], [-1, 2]]], np.int32)
    assert sorted_slots(members).tolist() == [[[-1, 2], [1, 0], [2, 3]]]
    assert sorted_slots(members[:0]).shape == (0, 3, 2)


def test_a_member_who_is_not_there_has_no_key_that_could_be_hidden():
    layout = layout_of(3)
    rows = layout.pack(np.array([[0, 1], [2, 0]]), np.array([[1, 2], [0, 0], [0, 1], [1, 1]]))
    hidden = np.array([[True, True, True], [False, False, True]])
    found = layout.hiding(rows, hidden)
    assert found.tolist() == [
        [0, -1, -1, -1, 2, 3, 2, 3],
        [2, 0, 0, -1, 0, -1, 1, -1],
    ]
    assert layout.unknown(found).tolist() == hidden.tolist()
    assert layout.is_whole(found).all()
    found[1, 3] = 0
    assert layout.is_whole(found).tolist() == [True, False]
    # A key of one member is missing of the household.
    assert layout.missing(found).tolist() == hidden.tolist()


def test_a_missing_size_tells_no_members():
    assert layout_of(2, True).n_members(np.array([0, 1, -1])).tolist() == [0, 1, -1]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"household_keys": (Key.of_size("size", 2),)}, "up to 2 members but 3 slots"),
        ({"household_keys": ()}, "needs its size"),
        ({"person_keys": ()}, "at least one key of its members"),
    ],
)
def test_layouts_that_cannot_be_are_refused(more, message):
    with pytest.raises(SpecError, match=message):
        layout_of(**more)


def test_a_table_knows_its_layout():
    layout = layout_of(2)
    rows = layout.pack(np.array([[1, 0], [0, 1]]), np.array([[1, 2], [0, 0], [1, 1]]))
    table = CellTable.from_codes(rows, layout.columns, 50, layout=layout)
    without = CellTable.from_codes(rows, layout.columns, 50)
    assert table.layout is layout
    assert table.fingerprint != without.fingerprint
    assert not table.has_impossible
