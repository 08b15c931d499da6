"""Recodings by the kind of the levels: up a hierarchy, neighbours, the rare ones; levels apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import people
from protection.test_subsample import options
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.protection.hierarchies import MOST, Choices, choices, own_recodings
from unikat.protection.recoding import KeyRecoding, recode_key

JOBS = Key(
    name="isco",
    levels=(1111, 1112, 1120, 2111, 2112, 2211, 3111),
    labels=tuple(map(str, (1111, 1112, 1120, 2111, 2112, 2211, 3111))),
)
COUNTS = np.array([500, 400, 2, 300, 3, 300, 1])


def groups(one: KeyRecoding) -> dict[str, list[str]]:
    """Levels of each group by its name."""
    assert one.key is not None
    found: dict[str, list[str]] = {}
    for code, group in enumerate(one.groups.tolist()):
        found.setdefault(one.key.labels[group], []).append(str(code))
    return found


def test_levels_go_up_to_one_height() -> None:
    found = recode_key(JOBS, COUNTS, "level(2)")
    assert groups(found) == {"11": ["0", "1", "2"], "21": ["3", "4"], "22": ["5"], "31": ["6"]}
    assert found.title == "ISCO-08 sub-major group"
    assert found.labels["21"] == "Science and Engineering Professionals"
    # Also what no record has, for other files.
    assert isinstance(found.rule, dict)
    assert found.rule["9111"] == "91"
    top = recode_key(JOBS, COUNTS, "level(1)")
    assert top.is_coarser(found)
    assert not found.is_coarser(top)
    with pytest.raises(SpecError, match="needs a whole number"):
        recode_key(JOBS, COUNTS, "level(0.5)")


def test_a_rare_branch_goes_up_and_others_stay() -> None:
    found = groups(recode_key(JOBS, COUNTS, "local(0.01)"))
    # Of major group 1 one unit group is rare, and so is its minor group; the whole branch goes up
    # to where no group is rare. Nothing is rare in 22.
    assert found["11"] == ["0", "1", "2"]
    assert found["211"] == ["3", "4"]
    assert found["2211"] == ["5"]
    # Alone in its major group, and rare there.
    assert found["3111"] == ["6"]


def test_what_is_rare_at_the_top_is_put_together_by_name() -> None:
    counts = np.array([500, 400, 50, 300, 30, 3, 1])
    named = Key(name="isco", levels=(1111, 1112, 2111, 2112, 3111, 6111, 9111),
                labels=tuple(map(str, (1111, 1112, 2111, 2112, 3111, 6111, 9111))))  # fmt: skip
    found = recode_key(named, counts, "local(0.01)")
    assert found.key is not None
    assert found.groups[5] == found.groups[6]
    assert found.key.labels[found.groups[5]].startswith("other (")


def test_codes_by_their_beginning() -> None:
    places = Key(name="place", levels=("A11", "A12", "B20", "C"), labels=("A11", "A12", "B20", "C"))
    found = recode_key(places, np.ones(4, np.int64), "prefix(1)")
    assert groups(found) == {"A": ["0", "1"], "B": ["2"], "C": ["3"]}
    with pytest.raises(SpecError, match="no level has more"):
        recode_key(places, np.ones(4, np.int64), "prefix(3)")


def test_join_names_levels() -> None:
    places = Key(name="place", levels=(1, 2, 3), labels=("North", "South", "East"))
    found = recode_key(places, np.ones(3, np.int64), "join(North, 3)")
    assert groups(found) == {"North, East": ["0", "2"], "South": ["1"]}


def ages(lowest: int) -> tuple[Key, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    years = tuple(range(lowest, 98))
    counts = np.maximum(120 - np.arange(lowest, 98), 5)
    return Key(name="AGE", levels=years, labels=tuple(map(str, years))), counts


@pytest.mark.parametrize("lowest", [0, 18])
def test_ages_have_the_bands_that_offices_publish(lowest: int) -> None:
    key, counts = ages(lowest)
    found = own_recodings(key, counts)
    assert len(found) <= MOST
    texts = [one.text for one in found]
    assert any(text.startswith("top(") for text in texts)
    edges = [
        [int(edge) for edge in text[4:-1].split(",")] for text in texts if text.startswith("cut")
    ]
    assert edges
    # Ends of five years, and at most 90; coarser ones are made of finer ones.
    assert all(edge % 5 == 0 and edge <= 90 for part in edges for edge in part)
    parts = Choices.of(found, counts)
    nested = [len(a.groups) and b.is_coarser(a)
              for a, b in zip(parts.recodings, parts.recodings[1:], strict=False)]  # fmt: skip
    assert all(nested)


@pytest.mark.parametrize(
    "labels",
    [
        [f"{10 * n} to {10 * n + 9}" for n in range(9)],
        ["none", "preschool", *(f"grade {n}" for n in range(1, 12)), "high school", "doctorate"],
    ],
)
def test_codes_of_bands_are_no_numbers(labels: list[str]) -> None:
    key = Key(name="age", levels=tuple(range(1, len(labels) + 1)), labels=tuple(labels))
    counts = np.arange(1, len(labels) + 1) * 5
    texts = {one.text.partition("(")[0] for one in own_recodings(key, counts)}
    assert texts == {"as it is", "bands", "left out"}


@pytest.mark.parametrize("seed", range(20))
def test_ordered_levels_join_neighbours_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 12))
    key = Key(name="x", levels=tuple(range(n)), labels=tuple(f"level {c}" for c in range(n)),
              told="ordered", told_by="option")  # fmt: skip
    counts = np.ceil(rng.gamma(0.5, 100.0, n)).astype(np.int64)
    apart = frozenset(rng.choice(n, 2, replace=False).tolist())
    for one in own_recodings(key, counts, apart):
        assert (np.diff(one.groups) >= 0).all()
        assert len({int(one.groups[code]) for code in apart}) == 2


def test_the_order_of_recodings_is_that_of_their_groups() -> None:
    """One is coarser than another if and only if it joins all that the other joins."""
    rng = np.random.default_rng(3)
    for key, counts in ((JOBS, COUNTS), ages(0), ages(18)):
        parts = Choices.of(own_recodings(key, counts), counts)
        for i, one in enumerate(parts.recodings):
            for j, other in enumerate(parts.recodings):
                pairs = rng.integers(0, key.n_levels, (500, 2))
                joins = [p.groups[pairs[:, 0]] == p.groups[pairs[:, 1]] for p in (one, other)]
                if parts.coarser[i, j]:
                    assert (joins[0] | ~joins[1]).all()
        assert (np.diff(parts.lost) >= 0).all()


def table() -> CellTable:
    rng = np.random.default_rng(1)
    status = Key(name="status", levels=(1, 2, 3, 4), labels=("employed", "unemployed", "at home",
                                                             "student"))  # fmt: skip
    sex = Key(name="sex", levels=(1, 2), labels=("m", "f"))
    shares = [0.9, 0.04, 0.03, 0.03]
    codes = np.column_stack([rng.choice(4, 400, p=shares), rng.integers(0, 2, 400)])
    return CellTable.from_codes(codes, (status, sex), 9000)


def test_a_key_with_levels_that_stay_apart_cannot_be_left_out_by_a_told_plan() -> None:
    with pytest.raises(SpecError, match="keeps apart"):
        unikat.protect(
            people(),
            **options(
                keys=["region", "sex", "age"], recode={"region": "left out"}, apart="region: 01, 02"
            ),
        )


def test_levels_that_stay_apart() -> None:
    (found, _) = choices(table(), apart={"status": ["unemployed", "3"]})
    assert all(one.key is not None for one in found.recodings)
    assert all(one.groups[1] != one.groups[2] for one in found.recodings)
    (joined, _) = choices(table())
    assert any(one.key is not None and one.groups[1] == one.groups[2] for one in joined.recodings)
    with pytest.raises(SpecError, match="'employd' is no level of the key"):
        choices(table(), apart={"status": ["employd", "3"]})
    given = {"status": [[["unemployed", "at home"]]]}
    with pytest.raises(SpecError, match="keeps apart"):
        choices(table(), given=given, apart={"status": ["2", "3"]})


def test_nodes_without_labels_and_heights_that_are_none(tmp_path: Path) -> None:
    tree = tmp_path / "tree.csv"
    tree.write_text("code,parent\na,x\nb,x\nc,y\nx,\ny,\n")
    frame = pd.DataFrame({"PLACE": list("abcc"), "SEX": list("fmfm")})
    keys: Any = {"keys": ["PLACE", "SEX"], "levels": f"PLACE: file({tree})", "progress": False}
    keys |= {"population_size": 4}
    found = unikat.protect(frame, **keys, recode={"PLACE": "level(1)"})
    assert found.frame["PLACE"].tolist() == ["x", "x", "y", "y"]
    with pytest.raises(SpecError, match=r"level\(99\) is below the lowest groups of tree.csv"):
        unikat.protect(frame, **keys, recode={"PLACE": "level(99)"})
    tree.write_text("code,label,parent\na,A,x\nb,B,x\nc,C,y\nx,=cmd,\ny,Y,\n")
    with pytest.raises(SpecError, match="'=cmd' cannot be the name of a group"):
        unikat.protect(frame, **keys, recode={"PLACE": "level(1)"})


@pytest.mark.parametrize("rule", ["join()", "join(a)"])
def test_levels_that_are_joined_are_two_or_more(rule: str) -> None:
    frame = pd.DataFrame({"PLACE": list("abcc"), "SEX": list("fmfm")})
    with pytest.raises(SpecError, match="joins nothing; name two levels or more"):
        unikat.protect(
            frame, keys=["PLACE", "SEX"], population_size=4, recode={"PLACE": rule}, progress=False
        )
