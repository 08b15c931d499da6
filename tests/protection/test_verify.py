"""Verification of files that another program protected."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import unikat
from protection.test_protect import KEYS, QUICK, people
from unikat.cli.main import main
from unikat.data.keys import Key
from unikat.protection.compared import compare_key
from unikat.report.text.numbers import estimated, percent

QUICKLY: dict[str, Any] = {
    "keys": KEYS,
    "population_size": 8000,
    "model": "latent-class",
    "max_sweeps": 60,
    "chains": 2,
    "workers": 1,
    "progress": False,
}  # fmt: skip


def tens(age: Any, pattern: str = "{0}-{1}") -> Any:
    return [pattern.format(a // 10 * 10, a // 10 * 10 + 9, a // 10 * 10 + 10) for a in age]


def changes(found: unikat.Verification) -> dict[str, tuple[str, int, int, int, int, int]]:
    return {
        one.name: (
            one.action, one.n_unchanged, one.n_recoded, one.n_suppressed, one.n_otherwise,
            one.n_surviving,
        )
        for one in found.summary.keys
    }  # fmt: skip


def key_of(values: list[Any]) -> tuple[Key, Any]:
    levels = sorted({value for value in values if value is not None}, key=str)
    key = Key(name="K", levels=tuple(levels), labels=tuple(map(str, levels)))
    return key, np.array([-1 if v is None else levels.index(v) for v in values], np.int32)


@pytest.mark.parametrize(
    ("before", "after", "action", "counts", "groups"),
    [
        # unchanged, recoded, suppressed, otherwise, surviving; and the groups of sorted levels.
        ([1, 2, 3, 3], ["1", "2", "3", None], "as it is", (3, 0, 1, 0, 0), [0, 1, 2]),
        ([1, 2, 3, 30], ["1-9", "1-9", "1-9", "30-39"], "recoded", (0, 4, 0, 0, 0), [0, 0, 0, 1]),
        # A merger with a level; and a level that became another by chance.
        (list("aabb"), list("aaaa"), "recoded", (2, 2, 0, 0, 0), [0, 0]),
        (list("aaabbb"), list("aabbba"), "as it is", (4, 0, 0, 2, 0), [0, 1]),
        # Intervals tell which value is true, also where groups were perturbed.
        (
            [20, 20, 21, 35, 35, 35],
            ["[20, 30[", "[30, 40[", "[20, 30[", "[30, 40[", "[20, 30[", "[30, 40["],
            "recoded", (0, 4, 0, 2, 0), [0, 0, 1],
        ),
        # One by one: levels stay as groups, and a value that survives is counted.
        (
            [20, 20, 21, 35],
            ["20", "[20, 30[", "[20, 30[", "35"],
            "recoded from record to record", (2, 2, 0, 0, 1), [0, 1, 2],
        ),
        (
            [20, 21, 25, 35], ["20-29", "20-29", "25", "30-39"],
            "recoded", (1, 3, 0, 0, 1), [0, 0, 2, 1],
        ),
        # Other writings of the same numbers; rounding; a value that was filled in.
        (["1", "2", "10"], [1.0, 2.0, 10.0], "as it is", (3, 0, 0, 0, 0), [0, 2, 1]),
        ([21, 23, 24, 24], [20, 25, 25, 25], "recoded", (0, 4, 0, 0, 0), [0, 1, 1]),
        ([1, 2, None], ["1", "2", "2"], "as it is", (2, 0, 0, 1, 0), [0, 1]),
        # Codes of groups that look like levels, and are not true of every record: no perturbation.
        (
            [1, 2, 3, 3, 4, 4, 4], [2, 2, 1, 1, 1, 1, 2], "recoded from record to record",
            (0, 7, 0, 0, 0), [0, 0, 1, 2],
        ),
    ],
)  # fmt: skip
def test_what_became_of_a_key(
    before: list[Any], after: list[Any], action: str, counts: tuple[int, ...], groups: list[int]
) -> None:
    found = compare_key(*key_of(before), *key_of(after))
    one = found.change
    assert one.action == action
    assert counts == (
        one.n_unchanged, one.n_recoded, one.n_suppressed, one.n_otherwise, one.n_surviving,
    )  # fmt: skip
    same = np.array(groups)[:, None] == groups
    made = found.recoding.groups
    assert (same == (made[:, None] == made)).all()
    # Records whose value is true have the group of their level, others none of the true ones.
    _, codes = key_of(before)
    known = (codes >= 0) & (found.codes >= 0)
    right = found.codes[known] == made[codes[known]]
    assert right.sum() == one.n_unchanged + one.n_recoded


def test_labels_say_what_codes_mean() -> None:
    key, codes = key_of([1, 2, 3, 3, 4, 4])
    shown = Key(name="K", levels=(1, 2), labels=("1-2", "3-4"))
    found = compare_key(key, codes, shown, np.array([0, 0, 1, 1, 1, 0], np.int32)).change
    assert (found.n_unchanged, found.n_recoded, found.n_otherwise) == (0, 5, 1)
    # The original's label, the code without one, and the same text as a value.
    labelled = Key(name="K", levels=(1, 2), labels=("north", "south"))
    for other in (
        Key(name="K", levels=(7, 8), labels=("north", "south")),
        Key(name="K", levels=(1, 2), labels=("1", "2")),
        Key(name="K", levels=("north", "south"), labels=("north", "south")),
        Key(name="K", levels=(1.0, 2.0), labels=("1", "2")),
    ):
        found = compare_key(labelled, codes[:2], other, codes[:2]).change
        assert found.n_unchanged == 2


def test_the_kind_of_a_key_that_was_left_out_is_no_matter() -> None:
    frame = people(60)
    found = unikat.verify(
        frame, frame.drop(columns="education"), keys=["sex", "region", "education"],
        levels="education: ordered", population_size=60,
    )  # fmt: skip
    assert found.summary.keys[-1].action == "left out"


def test_a_file_made_of_a_query_is_read_without_one(tmp_path: Path) -> None:
    frame = people(60)
    with closing(sqlite3.connect(tmp_path / "people.sqlite")) as connection:
        frame.to_sql("people", connection, index=False)
    frame.to_csv(tmp_path / "protected.csv", index=False)
    found = unikat.verify(
        tmp_path / "people.sqlite", tmp_path / "protected.csv", keys=["sex", "region"],
        query="SELECT * FROM people ORDER BY rowid", population_size=60,
    )  # fmt: skip
    assert found.summary.identical


@pytest.mark.slow
def test_a_file_of_sdcmicro_and_one_of_arx(tmp_path: Path, capsys: Any) -> None:
    frame = people(300)
    frame["born"] = 2026 - frame["age"]
    frame.to_csv(tmp_path / "original.csv", index=False)
    safe = frame.assign(age=tens(frame["age"], "[{0}, {2}["), region=frame["region"])
    safe.loc[::7, "region"] = "*"
    safe.loc[5, "age"] = str(frame.loc[5, "age"])
    safe = safe.drop(columns="education").sample(frac=0.9, random_state=1)
    safe.to_csv(tmp_path / "arx.csv", index=False, sep=";")
    command = [
        "verify", str(tmp_path / "original.csv"), str(tmp_path / "arx.csv"), "--keys",
        KEYS, "--population-size", "8000", "--missing-values", "*", "--out", str(tmp_path / "out"),
    ]  # fmt: skip
    assert main([*command, *QUICK]) == 1
    assert "cannot be matched by their order" in capsys.readouterr().err
    quick = [word for word in QUICK if word != "--quiet"]
    assert main([*command, "--id", "id", "--target", "tau1 <= 0", *quick]) == 3
    out = capsys.readouterr().out
    assert "Not known whether the limit is met: τ1 ≤ 0. The run has not converged." in " ".join(
        out.split()
    )
    found = json.loads((tmp_path / "out" / "verify.json").read_text())
    keys = {one["name"]: one for one in found["keys"]}
    n = len(safe)
    assert (found["n_original"], found["n_protected"], found["verdict"]) == (300, n, "not known")
    assert keys["sex"]["n_unchanged"] == n
    assert keys["education"]["action"] == "left out"
    assert keys["region"]["n_suppressed"] == (safe["region"] == "*").sum()
    assert keys["region"]["n_unchanged"] == (safe["region"] != "*").sum()
    survives = int(5 in safe.index)
    assert keys["age"]["n_surviving"] == keys["age"]["n_unchanged"] == survives
    assert keys["age"]["n_recoded"] == n - survives
    assert found["telling"] == [["born", "age"]]
    assert found["identifying"] == ["id"]
    assert found["matches"] is None
    assert 0.0 < found["after"]["tau1"]["mean"] < found["before"]["tau1"]["mean"]
    page = (tmp_path / "out" / "report.html").read_text()
    for text in ("p7q", "[20, 30[", PLANTED_TEXT):
        assert text not in page
        assert text not in json.dumps(found)
        assert text not in out
    # The specification repeats the run.
    again = ["verify", str(tmp_path / "out" / "verify.toml"),
             str(tmp_path / "arx.csv"), "--out", str(tmp_path / "b"), "--trust-spec",
             *QUICK]  # fmt: skip
    assert main(again) == 3
    repeated = json.loads((tmp_path / "b" / "verify.json").read_text())
    assert repeated["after"] == found["after"]


PLANTED_TEXT = "84</"
"""An age of one person, as a cell of a table."""


@pytest.mark.slow
def test_our_own_files_agree_with_what_protect_said() -> None:
    frame = people()
    recoded = unikat.protect(
        frame, target="tau1_estimate <= 1", keep="sex,education,region",
        recodings={"age": ["width(10)", "width(20)"]}, **QUICKLY,
    )  # fmt: skip
    found = unikat.verify(frame, protected=recoded.frame, target="k >= 1", **QUICKLY)
    assert found.verdict == "met"
    assert found.summary.after is not None
    plan = found.summary.by_original
    assert plan is not None
    promised = recoded.summary.chosen.risk.tau1
    assert plan.tau1.interval == promised.interval
    assert plan.tau1.mean == pytest.approx(promised.mean)
    refit = recoded.summary.refit
    assert found.summary.after.n_uniques == refit.n_uniques
    assert found.summary.after.tau1.mean == pytest.approx(refit.tau1.mean, rel=0.5)
    assert changes(found)["age"][2] == len(frame)

    perturbed = unikat.protect(
        frame, pram="region: 0.5", swap="sex", set={"swap_match": "age"}, **QUICKLY
    )
    told = perturbed.summary.perturbation
    assert told is not None
    again = unikat.verify(frame, protected=perturbed.frame, target="tau2 <= 1000", **QUICKLY)
    # The same model, the same true and published records: the same risk.
    assert again.summary.matches is not None
    assert again.summary.after is None
    for name in ("n_uniques", "n_true", "smallest", "tau1", "tau2"):
        assert getattr(again.summary.matches, name) == getattr(told, name)
    assert again.summary.target is not None
    assert again.summary.target.value == told.tau2.upper
    assert {one.name: one.n_otherwise for one in again.summary.keys if one.n_otherwise} == {
        one.name: one.n_changed for one in told.keys
    }
    with pytest.raises(unikat.SpecError, match="after perturbation r1"):
        unikat.verify(frame, protected=perturbed.frame, target="r1 <= 0.2", **QUICKLY)


@pytest.mark.slow
def test_a_suppressed_file_is_judged_by_the_worse_of_new_fit_and_model_of_the_original() -> None:
    """As by `protect` itself."""
    frame = people()
    made = unikat.protect(frame, recode={"age": "width(20)"}, suppress="k >= 2", **QUICKLY)
    for target in ("tau1 <= 5", "tau2 <= 5", "tau1_estimate <= 5"):
        found = unikat.verify(frame, protected=made.frame, target=target, **QUICKLY).summary
        assert found.by_original is not None
        assert found.after is not None
        assert found.target is not None
        released, refit = made.summary.released, made.summary.refit
        assert released is not None
        assert found.by_original.tau1 == released.tau1
        assert found.by_original.tau2 == released.tau2
        name = target[:4]
        of = "mean" if "estimate" in target else "upper"
        both = [getattr(getattr(one, name), of) for one in (found.by_original, found.after)]
        assert found.target.value == max(both)
        assert refit.n_uniques == found.after.n_uniques
    method = found.sentences["method"]
    for one in (found.by_original.tau1, found.after.tau1):
        assert estimated(one.mean, one) in method


def test_shares_of_a_key_add_up() -> None:
    frame = people()
    frame.loc[:9, "education"] = None
    shown = frame.copy()
    shown.loc[5:29, "education"] = None
    found = unikat.verify(frame, protected=shown, **QUICKLY)
    (row,) = (row for row in found._table().to_pylist() if row["key"] == "education")
    n = len(frame)
    assert (row["suppressed"], row["missing"]) == (percent(20 / n), percent(10 / n))
    assert row["unchanged"] == percent((n - 30) / n)


def test_models_without_the_risk_of_recoded_keys_and_files_known_exactly_have_the_new_fit() -> None:
    frame = people(200)
    safe = frame.assign(age=tens(frame["age"]))
    options = {**QUICKLY, "model": "loglinear"}
    found = unikat.verify(frame, protected=safe, target="tau1 <= 500", **options).summary
    assert found.by_original is None
    assert found.after is not None
    assert found.target is not None
    assert found.target.value == found.after.tau1.upper
    # Nobody is unobserved; and `auto` fits nothing.
    options = {**QUICKLY, "population_size": 200, "model": "auto"}
    known = unikat.verify(frame, protected=safe, target="tau1 <= 500", **options).summary
    assert known.verdict == "met"
    assert known.by_original is not None
    assert known.after is not None
    assert known.by_original.tau1.mean == known.after.tau1.mean == known.after.n_uniques


def test_identical_files_and_what_cannot_be_verified(tmp_path: Path) -> None:
    frame = people(150)
    found = unikat.verify(frame, protected=frame, **QUICKLY)
    assert found.summary.identical
    assert "nothing was protected" in repr(found)
    assert list(found.table["key"]) == KEYS.split(",")
    assert found.save(tmp_path / "out") == tmp_path / "out"
    wrong: list[tuple[Any, dict[str, Any], str]] = [
        (frame[["note"]], {}, "none of the keys"),
        (frame[:-1], {}, "cannot be matched by their order"),
        (frame, {"id": "note"}, "does not identify records"),
        (frame.assign(id=lambda f: f["id"] + "z"), {"id": "id"}, "is not in"),
        (frame, {"target": "population_k >= 3"}, "known of a plan"),
        (frame, {"missing": "level"}, "takes it for a level"),
        (frame, {"missing": "wildcard", "target": "tau1 <= 5"}, "gives lower bounds"),
        (frame, {"keys": "sex,age:width(5)"}, "without rules of grouping"),
        (None, {}, "no protected file is named"),
        (frame, {"id": "nobody"}, "no column 'nobody'"),
    ]
    for protected, options, said in wrong:
        with pytest.raises(unikat.UnikatError, match=said):
            unikat.verify(frame, protected=protected, **QUICKLY | options)


@pytest.mark.parametrize("columns", [["income"], []])
def test_files_in_another_order_are_refused(columns: list[str]) -> None:
    rng = np.random.default_rng(4)
    frame = people(300)[KEYS.split(",")]
    frame["income"] = rng.normal(size=len(frame))
    frame = frame[[*KEYS.split(","), *columns]]
    safe = frame.assign(age=tens(frame["age"]))
    options: dict[str, Any] = {
        "keys": KEYS, "population_size": 8000, "model": "latent-class", "max_sweeps": 60,
        "chains": 2, "workers": 1, "progress": False,
    }  # fmt: skip
    moved = safe.sample(frac=1.0, random_state=2).reset_index(drop=True)
    with pytest.raises(unikat.DataError, match="stand in another order"):
        unikat.verify(frame, protected=moved, **options)
    # Values that were perturbed are none in another order.
    swapped = safe.assign(region=rng.permutation(safe["region"].to_numpy()))
    assert unikat.verify(frame, protected=swapped, **options).summary.n_protected == 300
