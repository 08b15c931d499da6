"""Columns that tell a key or follow from one, and what becomes of them."""

from __future__ import annotations

import itertools
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.protection.test_labelled import pyreadstat

import unikat
from unikat.cli.main import main
from unikat.protection.linked import LINKED, Homes, Pairs, followed, links
from unikat.protection.recoding import parse_recoding

QUICKLY: Any = {
    "population_size": 40_000, "model": "latent-class", "max_sweeps": 60, "chains": 2,
    "workers": 1,
}  # fmt: skip


def gain(inner: list[int], outer: list[int], groups: list[int]) -> float:
    """The measure by its definition: pairs of different records, one by one."""
    pairs = [
        (a, b)
        for a, b in itertools.permutations(range(len(inner)), 2)
        if (groups[a], outer[a]) == (groups[b], outer[b])
    ]
    right = wrong = 0.0
    for a in range(len(inner)):
        same = [b for one, b in pairs if one == a]
        if not same:
            continue
        group = [b for b in range(len(inner)) if b != a and groups[b] == groups[a]]
        others = [
            (i, j)
            for i, j in itertools.permutations(range(len(inner)), 2)
            if groups[i] == groups[j] == groups[a]
        ]
        chance = np.mean([inner[i] == inner[j] for i, j in others])
        assert group
        right += np.mean([inner[b] == inner[a] for b in same]) - chance
        wrong += 1.0 - chance
    return right / wrong


def test_the_measure_is_that_of_its_definition() -> None:
    rng = np.random.default_rng(4)
    levels = rng.integers(0, 6, 30).astype(np.int32)
    values = np.where(rng.random(30) < 0.6, levels // 2, rng.integers(0, 4, 30)).astype(np.int32)
    groups = np.array([0, 0, 0, 1, 1, 1], np.int32)
    pairs, of = Pairs.of(values, levels), groups[levels].tolist()
    told = gain(levels.tolist(), values.tolist(), of)
    assert pairs.tells(groups) == pytest.approx(told, rel=1e-12)
    assert pairs.follows(groups) == pytest.approx(
        gain(values.tolist(), levels.tolist(), of), rel=1e-12
    )


@pytest.mark.parametrize("n_values", [2, 40, 900])
def test_chance_measures_nothing_whatever_the_number_of_values(n_values: int) -> None:
    rng = np.random.default_rng(n_values)
    groups = np.arange(30, dtype=np.int32) // 6
    found = []
    for _ in range(60):
        levels = rng.integers(0, 30, 1000).astype(np.int32)
        pairs = Pairs.of(rng.integers(0, n_values, 1000).astype(np.int32), levels)
        found.append((pairs.tells(groups), pairs.follows(groups)))
    mean, error = np.mean(found, axis=0), np.std(found, axis=0) / np.sqrt(len(found))
    assert (np.abs(mean) < 4.0 * error).all()
    assert np.max(found) < LINKED


def test_what_is_linked_and_with_what() -> None:
    rng = np.random.default_rng(2)
    n = 4000
    age, region = rng.integers(0, 90, n), rng.integers(0, 12, n)
    codes = np.stack([age, region], axis=1).astype(np.int32)
    columns = {
        "born": 2024 - age,
        "band": age // 5,
        "village": region * 40 + rng.integers(0, 40, n),
        "province": region // 3,
        "noisy": np.where(rng.random(n) < 0.02, rng.integers(0, 90, n), age),
        "half": np.where(rng.random(n) < 0.5, rng.integers(0, 90, n), age),
        "number": np.arange(n),
        "other": rng.integers(0, 5, n),
    }
    found = {
        name: [one.key for one in links(column.astype(np.int32), codes)]
        for name, column in columns.items()
    }
    assert found == {
        "born": [0], "band": [0], "village": [1], "province": [1], "noisy": [0], "half": [],
        "number": [], "other": [],
    }  # fmt: skip


def test_a_key_of_another_member_is_found() -> None:
    rng = np.random.default_rng(3)
    home = np.sort(rng.integers(0, 900, 2000)).astype(np.int32)
    age = rng.integers(0, 90, 2000).astype(np.int32)
    first = np.unique(home, return_index=True)[1]
    head = age[first[np.searchsorted(np.unique(home), home)]]
    partner = np.full(2000, -1, np.int32)
    homes = Homes.of(home)
    partner[homes.one] = age[homes.other]
    codes = age[:, None]
    assert links(head, codes) == []
    assert [one.member for one in links(head, codes, homes)] == [True]
    assert [one.member for one in links(partner, codes, homes)] == [True]
    assert links(rng.permutation(age), codes, homes) == []


def test_values_are_joined_until_the_groups_tell_them() -> None:
    frame = pd.DataFrame({"age": np.arange(60) % 30, "sex": np.arange(60) % 2})
    from unikat.data import Design, read

    table = read(frame, ["age", "sex"], Design(population_size=1000)).tabulate()
    recoding = parse_recoding(table, {"age": "cut(10,14)"})
    age = np.arange(30)
    values = (age // 4).astype(np.int32)
    part = followed({0: Pairs.of(values, age.astype(np.int32))}, recoding.keys, 8)
    # 8 to 11 lies on both sides of 10, 12 to 15 of 14.
    assert part is None
    coarse = parse_recoding(table, {"age": "cut(8,16)"})
    part = followed({0: Pairs.of(values, age.astype(np.int32))}, coarse.keys, 8)
    assert part is not None
    assert part.tolist() == [0, 0, 1, 1, 2, 2, 2, 2]


def people(n: int = 1500) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    town, age = rng.integers(0, 20, n), rng.integers(0, 80, n)
    frame = pd.DataFrame(
        {
            "serial": rng.permutation(n) + 70_000,
            "town": town.astype(float),
            "province": (town // 4 + 1).astype(float),
            "age": age.astype(float),
            "band": (age // 5 + 1).astype(float),
            "born": (2024 - age).astype(float),
            "quarter": (town * 10 + rng.integers(0, 10, n)).astype(float),
            "sex": rng.choice([1.0, 2.0], n),
            "health": rng.choice([1.0, 2.0, 3.0], n),
        }
    )
    frame.loc[::17, "band"] = np.nan
    return frame


LABELS = {
    "province": {float(i): f"Province {i}" for i in range(1, 6)},
    "band": {float(i): f"{5 * i - 5} to {5 * i - 1} years" for i in range(1, 17)},
    "sex": {1.0: "male", 2.0: "female"},
}
RULES = {"age": "cut(20,40,60)", "town": {str(i): f"T{i // 8}" for i in range(20)}}


def write(path: Path) -> None:
    frame = people()
    if path.suffix == ".sav":
        pyreadstat.write_sav(frame, path, variable_value_labels=LABELS)
    elif path.suffix == ".dta":
        pyreadstat.write_dta(frame, path, variable_value_labels=LABELS)
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)


@pytest.mark.parametrize("ending", ["sav", "dta", "parquet", "csv"])
def test_linked_columns_follow_their_keys_in_every_format(tmp_path: Path, ending: str) -> None:
    source = tmp_path / f"people.{ending}"
    write(source)
    found = unikat.protect(
        str(source), keys=["town", "age", "sex"], recode=RULES, out=tmp_path / "out", **QUICKLY
    )
    actions = {one.name: (one.role, one.action) for one in found.summary.other_columns}
    assert actions == {
        "serial": ("identifier", "removed"),
        # Provinces of four towns lie in groups of eight.
        "province": ("linked", "recoded"),
        "band": ("linked", "copied"),
        "born": ("linked", "recoded"),
        "quarter": ("linked", "removed"),
        "health": ("other", "copied"),
    } | {"band": ("linked", "recoded")}
    assert found.summary.telling == ()
    file = tmp_path / "out" / f"protected.{ending}"
    labels: Any = {}
    if ending in ("sav", "dta"):
        reader = pyreadstat.read_sav if ending == "sav" else pyreadstat.read_dta
        after, meta = reader(file)
        labels = meta.variable_value_labels
    else:
        after = pd.read_parquet(file) if ending == "parquet" else pd.read_csv(file)
    assert list(after.columns) == ["town", "province", "age", "band", "born", "sex", "health"]
    before = people()
    for name, key in (("province", "town"), ("band", "age"), ("born", "age")):
        shown = after[[key, name]].dropna()
        # The groups of the key tell the column.
        assert (shown.groupby(key)[name].nunique() == 1).all()
        assert after[name].isna().equals(before[name].isna())
        assert after[name].nunique() > 1
    if labels:
        assert set(labels["province"].values()) == {
            "Province 1, Province 2", "Province 3, Province 4", "Province 5",
        }  # fmt: skip
        assert list(labels["province"]) == sorted(labels["province"])
        assert "0 to 4 years, 5 to 9 years" in next(iter(labels["band"].values()))
    # The plan does the same to another file, and the same to this one.
    again = tmp_path / f"again.{ending}"
    assert main(["apply", str(tmp_path / "out/plan.toml"), str(source), "--out", str(again)]) == 0
    if ending in ("csv", "parquet"):
        same = pd.read_parquet(again) if ending == "parquet" else pd.read_csv(again)
        assert same.equals(after)
    plan = tomllib.loads((tmp_path / "out/plan.toml").read_text())
    assert plan["removed"] == ["serial", "quarter"]
    assert [one["name"] for one in plan["linked"]] == ["province", "band", "born"]


def test_linked_columns_of_keys_that_are_left_out_perturbed_or_suppressed() -> None:
    frame = people()
    keys: Any = {"keys": ["town", "age", "sex"], **QUICKLY}
    left_out = unikat.protect(frame, recode={"town": None}, **keys)
    assert {"province", "quarter"}.isdisjoint(left_out.frame.columns)
    assert {"band", "born"} <= set(left_out.frame.columns)
    perturbed = unikat.protect(frame, recode={"age": "width(20)"}, pram={"town": 0.7}, **keys)
    assert {"province", "quarter"}.isdisjoint(perturbed.frame.columns)
    suppressed = unikat.protect(frame, recode={"age": "width(40)"}, suppress="k >= 30", **keys)
    after = suppressed.frame
    gone = after["town"].isna()
    assert gone.any()
    assert after.loc[gone, "province"].isna().all()
    assert after.loc[~gone, "province"].notna().all()


def test_the_user_overrules(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = people()
    columns = "serial: other; quarter: linked(town); born: sensitive; health: removed"
    found = unikat.protect(
        frame, keys=["town", "age", "sex"], recode=RULES, columns=columns, **QUICKLY
    )
    assert {"serial", "born"} <= set(found.frame.columns)
    assert {"quarter", "health"}.isdisjoint(found.frame.columns)
    assert found.summary.telling == (("born", "age"),)
    assert found.summary.identifying == ("serial",)
    write(tmp_path / "people.csv")
    command = [
        "protect", str(tmp_path / "people.csv"), "--keys", "town,age,sex", "--population-size",
        "40000", "--recode", "age: width(10)", "--dry-run", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    for told, said in (
        ("nowhere: other", "which is no column"),
        ("health: linked", "tells no key and follows from none"),
        ("town: removed; born: linked(health)", "roles contradict: 'town' is a key, and removed"),
        ("health: key", "and --keys does not name it"),
        ("health: x", "is no role"),
    ):
        assert main([*command, "--columns", told]) == 1
        assert said in capsys.readouterr().err
    # Nothing is fitted before the columns are named.
    assert main([*command, "--model", "latent-class"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Would be removed: serial" in said
    assert "province (linked with town" in said
