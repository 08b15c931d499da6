"""Groups of levels that somebody made by hand, as recodings."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import people
from unikat.data.hierarchies import read_hierarchy
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.jobs.protection_target import explicit_plan
from unikat.language.levels import Group, LevelGroups
from unikat.protection.by_hand import meant, recode_by_hand
from unikat.protection.recoding import KeyRecoding, recode_key

AGE = Key(name="age", levels=tuple(range(80)), labels=tuple(map(str, range(80))))
EDUCATION = Key(
    name="education",
    levels=(1, 2, 3, 4, -9),
    labels=("none", "primary", "secondary", "tertiary", "no answer"),
    ordered=True,
    declared_missing=frozenset({4}),
)
REGION = Key(name="region", levels=("a", "b", "c", "d"), labels=("a", "b", "c", "d"))
CODES = ("1111", "1112", "1211", "2111", "2112", "2113", "2114", "3111", "3112", "3113", "3114")
JOB = Key(name="ISCO", levels=CODES, labels=CODES)


def made(key: Key, *groups: Group, kind: str = "found") -> KeyRecoding:
    counts = np.full(key.n_levels, 5)
    return recode_by_hand(key, counts, LevelGroups(kind=kind, groups=groups))


@pytest.mark.parametrize(
    ("key", "groups", "rule"),
    [
        (AGE, [range(18), range(18, 65), range(65, 80)], "cut(18,65)"),
        (AGE, [range(65, 80)], "top(65)"),
        (AGE, [range(6)], "bottom(5)"),
        (JOB, [range(3), range(3, 7), range(7, 11)], "level(1)"),
    ],
)
def test_a_rule_that_does_the_same_takes_the_place_of_groups(
    key: Key, groups: list[range], rule: str
) -> None:
    one = made(key, *(Group(tuple(codes)) for codes in groups))
    assert one.text == rule
    other = recode_key(key, np.full(key.n_levels, 5), rule)
    assert one.key is not None
    assert other.key is not None
    assert one.key.labels == other.key.labels
    # Who names a group gets that name, which no rule gives.
    named = made(key, Group(tuple(groups[0]), "first"))
    assert named.key is not None
    assert "first" in named.key.labels
    assert isinstance(named.rule, dict)


@pytest.mark.parametrize(
    ("key", "codes", "name"),
    [
        (REGION, (0, 3), "a, d"),
        (EDUCATION, (0, 1), "none, primary"),
        (AGE, (30, 31, 32), "30-32"),
        (JOB, (0, 1, 2), "1"),
        (JOB, (0, 3), "1111, 2111"),
    ],
)
def test_a_group_is_called_after_its_levels_or_its_branch(
    key: Key, codes: tuple[int, ...], name: str
) -> None:
    one = made(key, Group(codes))
    assert one.key is not None
    assert one.key.labels[one.groups[codes[0]]] == name
    assert one.stays.sum() == key.n_levels - len(codes)
    assert len({*one.groups.tolist()}) == key.n_levels - len(codes) + 1


def test_what_cannot_be_a_group_is_refused() -> None:
    with pytest.raises(SpecError, match="declared missing"):
        made(EDUCATION, Group((3, 4)))
    with pytest.raises(SpecError, match="does not have"):
        made(REGION, Group((3, 4)))
    with pytest.raises(SpecError, match="name of a level that is not in it"):
        made(REGION, Group((0, 1), "d"))
    with pytest.raises(SpecError, match="cannot be the name of a group"):
        made(REGION, Group((0, 1), "=1+1"))
    with pytest.raises(SpecError, match="are not in NACE"):
        made(JOB, Group((0, 1)), kind="nace2")
    with pytest.raises(SpecError, match="no kind of levels"):
        made(JOB, Group((0, 1)), kind="isco")
    with pytest.raises(SpecError, match="--levels"):
        meant(JOB, "file(/etc/passwd)")


def test_levels_can_be_meant_otherwise() -> None:
    assert meant(JOB, "nominal")[0].kind == "nominal"
    assert meant(JOB, "prefix(1)")[0].kind == "hierarchical"
    one = made(REGION, Group((1, 2, 3)), kind="ordered")
    assert one.key is not None
    assert one.key.labels == ("a", "b, c, d")


def test_the_file_of_groups_does_what_the_groups_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    codes = np.column_stack([rng.integers(0, 4, 60), rng.integers(0, 5, 60)])
    table = CellTable.from_codes(codes, (REGION, EDUCATION), 900)
    with (tmp_path / "region.csv").open("w", newline="") as file:
        csv.writer(file, delimiter=";").writerows(
            [("a", "a"), ("b", "north; far"), ("c", "north; far"), ("d", "d")]
        )
    tree = read_hierarchy(tmp_path / "region.csv")
    plan = explicit_plan(table, {"region": tree}, [1.0, 1.0])
    one = plan.recoding.keys[0]
    assert one.key is not None
    assert one.key.labels == ("a", "north; far", "d")
    # A level in a group of its own name stays, with its label.
    assert one.stays.tolist() == [True, False, False, True]
    by_hand = explicit_plan(table, {"region": {"b": "north; far", "c": "north; far"}}, [1.0, 1.0])
    assert plan.lost == by_hand.lost
    (tmp_path / "several.csv").write_text("a;a;x\nb;e;y\nc;e;y\nd;d;x\n")
    several = read_hierarchy(tmp_path / "several.csv")
    with pytest.raises(SpecError, match="several recodings of 'region'"):
        explicit_plan(table, {"region": several}, [1.0, 1.0])
    with pytest.raises(SpecError, match="none of the keys"):
        explicit_plan(table, {"regio": tree}, [1.0, 1.0])


def test_a_recoding_by_a_file_protects_and_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = people(120)
    frame.to_csv("people.csv", index=False)
    rows = {"low": "basic", "mid": "basic", "high": "high"}
    Path("education.csv").write_text("".join(f"{a};{b}\n" for a, b in rows.items()))
    found = unikat.protect(
        "people.csv", keys="sex,education", population_size=3000, model="latent-class",
        recode="education: file(education.csv)", max_sweeps=20, chains=2, workers=1, out="out",
        progress=False,
    )  # fmt: skip
    assert found.frame["education"].tolist() == frame["education"].map(rows).tolist()
    assert '"file(../education.csv)"' in Path("out/protect.toml").read_text()
    again = unikat.protect("out/protect.toml", trust_spec=True, progress=False)
    pd.testing.assert_frame_equal(again.frame, found.frame)
