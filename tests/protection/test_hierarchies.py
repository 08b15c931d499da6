"""Hierarchies from files, as other programs write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unikat
from protection.test_protect import people
from unikat.cli.main import main
from unikat.data.hierarchies import read_hierarchy
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError
from unikat.protection.hierarchies import choices, own_recodings

AGES = Key(
    name="age",
    levels=(84.0, 20.0, 21.0, 35.0),
    labels=("84.0", "20.0", "21.0", "35.0"),
    private=frozenset(range(4)),
)
PLACES = Key(name="place", levels=(1, 2, 3), labels=("North", "South", "East"))


def table() -> CellTable:
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, 4, 50), rng.integers(0, 3, 50)])
    codes[::9, 0] = -1
    return CellTable.from_codes(codes, (AGES, PLACES), 900)


def file_of(folder: Path, text: str, name: str = "age.csv") -> Path:
    (folder / name).write_text(text)
    return folder / name


def test_each_column_is_a_recoding_and_levels_are_called_as_the_user_sees_them(
    tmp_path: Path,
) -> None:
    age = read_hierarchy(
        file_of(
            tmp_path,
            "\ufeff20;20-29;<50;*\n21;20-29;<50;*\n\n84;80+;50+;*\n99;80+;50+;*\n35.0;30-39;<50;*\n",
        )
    )
    place = read_hierarchy(file_of(tmp_path, 'North,"N, S"\nSouth,"N, S"\n3,E\nWest,E\n'))
    parts = choices(table(), given={"age": [age], "place": [place]})
    (of_age, of_place) = (part.recodings for part in parts)
    assert [one.text for one in of_age] == [
        "as it is", "in the groups of column 2 of age.csv", "in the groups of column 3 of age.csv",
        "left out",
    ]  # fmt: skip
    fine = of_age[1]
    assert fine.key is not None
    assert [fine.key.labels[g] for g in fine.groups] == ["80+", "20-29", "20-29", "30-39"]
    # What the data lack is in the plan, too; what they have as they have it.
    assert fine.rule == {
        "20.0": "20-29", "21.0": "20-29", "84.0": "80+", "99": "80+", "35.0": "30-39",
    }  # fmt: skip
    assert [one.key and one.key.labels for one in of_place] == [PLACES.labels, ("N, S", "E")]
    assert of_place[1].rule == {"1": "N, S", "2": "N, S", "3": "E", "West": "E"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("20,a\n21,a\n35,b\n", "1 of the 4 levels of the key is in no row"),
        ("20,a\n21,a\n84,b\n84.0,b\n35,b\n", "has 1 of its levels in more than one row"),
        ("20,a,x\n21,a,y\n84,b,x\n35,b,x\n", "column 3 splits 1 of the groups of column 2"),
        ("", "holds no groups"),
        ("20\n21\n", "holds no groups"),
        ("20,a,*\n21,a\n", "has 2 fields in line 2; give each row 3"),
        ("20,a,*\n21,,*\n", "has an empty field in line 2"),
        ('20,"a\n', "is no CSV file"),
        (None, "Cannot read the hierarchy age.csv"),
        (b"20,\xff\n", "neither UTF-8 text nor"),
    ],
)
def test_files_that_are_no_hierarchy_of_the_key(
    tmp_path: Path, text: str | bytes | None, said: str
) -> None:
    path = tmp_path / "age.csv"
    if text is not None:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises((DataError, SpecError)) as caught:
        choices(table(), given={"age": [read_hierarchy(path)]})
    assert said in str(caught.value)
    # Only records tell that there is such a level.
    assert "84" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_plan_of_a_hierarchy_recodes_next_years_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    frame = people(150)
    frame.to_csv("people.csv", index=False)
    rows = [f"{age};{'young' if age < 40 else 'old'};any;*" for age in range(100)]
    file_of(tmp_path, "\n".join(rows))
    options = ["--keys", "sex,age", "--population-size", "3000", "--target", "k >= 20", "--keep",
               "sex", "--model", "latent-class", "--max-sweeps", "40", "--chains", "2",
               "--workers", "1", "--quiet", "--allow-unconverged"]  # fmt: skip
    command = ["protect", "people.csv", *options, "--recodings", "age: file(age.csv), width(2)"]
    assert main([*command, "--out", "out"]) == 0
    after = pd.read_csv("out/protected.csv")
    assert after["age"].tolist() == ["young" if age < 40 else "old" for age in frame["age"]]
    # The specification lies elsewhere and finds the file; nothing of an input is overwritten.
    assert '"file(../age.csv)"' in Path("out/protect.toml").read_text()
    # An age that this year's file lacks.
    assert 98 not in set(frame["age"])
    frame.assign(age=98.0).to_csv("next.csv", index=False)
    assert main(["apply", "out/plan.toml", "next.csv", "--out", "n.csv"]) == 0
    assert set(pd.read_csv("n.csv")["age"]) == {"old"}
    frame.assign(age=100).to_csv("next.csv", index=False)
    assert main(["apply", "out/plan.toml", "next.csv", "--out", "m.csv"]) == 1


def test_a_column_that_joins_all_levels_of_the_data(tmp_path: Path) -> None:
    """It need not be that of the file: another year's file may have other levels."""
    rows = [f"{age},{'<100' if age < 100 else '100+'}" for age in range(130)]
    path = file_of(tmp_path, "\n".join(rows))
    found = unikat.protect(
        people(80), keys=["sex", "age"], population_size=900, target="k >= 30", keep="sex",
        recodings={"age": [f"file({path})"]}, model="latent-class", max_sweeps=30, chains=2,
        workers=1,
    )  # fmt: skip
    assert set(found.frame["age"]) == {"<100"}
    assert isinstance(found.plan.keys[1].rule, dict)
    assert found.plan.keys[1].rule["120"] == "100+"


@pytest.mark.parametrize(
    ("counts", "kept"),
    [
        ([50, 20, 16, 14], [{"a"}, {"a", "b"}]),
        ([34, 33, 33], []),
        # Of many levels the rest has nothing in common.
        ([60, *[4] * 10], []),
    ],
)
def test_common_levels_stand_against_all_others(counts: list[int], kept: list[set[str]]) -> None:
    levels = tuple("abcdefghijk"[: len(counts)])
    key = Key(name="place", levels=levels, labels=levels)
    own = own_recodings(key, np.array(counts))
    found = []
    for one in own:
        if one.key is not None and one.changes:
            joined = np.bincount(one.groups)[one.groups] > 1
            found.append({level for level, so in zip(levels, joined, strict=True) if not so})
    assert sorted(found, key=len) == kept
