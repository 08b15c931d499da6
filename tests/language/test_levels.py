"""Groups of levels made by hand, as a text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unikat.language.levels import Group, LevelGroups


@pytest.mark.parametrize(
    "text",
    ["found\n0-x", "found\nnorth", "found\n0-3\n3-4", "found\n1,1", "found\n5-2", "found\n-1"],
)
def test_what_is_no_groups_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no groups"):
        LevelGroups.parse(text)


def test_merging_takes_levels_from_other_groups() -> None:
    made = LevelGroups().merged([4, 5, 6], "far").merged([0, 1])
    assert made.groups == (Group((0, 1)), Group((4, 5, 6), "far"))
    # Of a group of two one level is left, which is then alone.
    assert made.merged([1, 2]).groups == (Group((1, 2)), Group((4, 5, 6), "far"))
    assert made.merged([6, 7]).groups == (Group((0, 1)), Group((4, 5), "far"), Group((6, 7)))
    assert made.split(0).groups == (Group((4, 5, 6), "far"),)
    assert made.split(7) == made
    assert made.renamed(["near", ""]).groups == (Group((0, 1), "near"), Group((4, 5, 6)))


def test_bands_are_cut_in_the_order_of_the_levels() -> None:
    order = [3, 2, 1, 0]
    made = LevelGroups(kind="ordered", groups=(Group((7, 8)),)).banded(order, [1, 9])
    assert made.groups == (Group((0, 1, 2)), Group((7, 8)))
    assert made.starts(order) == [1]
    named = made.renamed(["low", ""])
    # A band that stays keeps its name.
    assert named.banded(order, [1]) == named
    assert named.banded(order, [2]).groups == (Group((0, 1)), Group((2, 3)), Group((7, 8)))
    assert LevelGroups().starts([0, 1, 2]) == [1, 2]


@given(st.lists(st.sets(st.integers(0, 40), min_size=2, max_size=9), max_size=8), st.text())
def test_the_text_holds_all(merges: list[set[int]], name: str) -> None:
    made = LevelGroups()
    for codes in merges:
        made = made.merged(codes, "".join(name.split()) if name.isprintable() else "")
    assert LevelGroups.parse(str(made)) == made
    codes = [code for one in made.groups for code in one.codes]
    assert len(codes) == len(set(codes))
    assert all(len(one.codes) > 1 for one in made.groups)
