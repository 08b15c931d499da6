"""Levels whose codes are declared missing: they stay so, or the report says that they do not."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.protection.test_labelled import recoded

import unikat
from unikat.cli.main import main
from unikat.data import Design, read
from unikat.data.structure import order_of
from unikat.jobs.applied import plan_keys
from unikat.protection.recoding import parse_recoding
from unikat.protection.released import released
from unikat.report.text.declared import made_valid_words
from unikat.spec.plan import PlanSpec
from unikat.synthesis.persons import Persons, columns_of
from unikat.zeros import Rule

pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'stat' is not installed")

OCCUPATIONS = {1: "Managers", 2: "Clerks", 3: "Farmers", 4: "Miners", 5: "Sailors"}
NOT_ASKED = {-9: "Under 16", -8: "Retired", -7: "Refused"}
KEYS = ["occ", "age", "sex"]


def people(n: int = 600) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    age = rng.integers(5, 95, n)
    work = rng.choice([1, 2, 3, 4, 5], n, p=[0.45, 0.45, 0.04, 0.03, 0.03])
    occupation = np.where(age < 16, -9, np.where(age > 70, -8, work))
    occupation[rng.random(n) < 0.01] = -7
    return pd.DataFrame({"occ": occupation, "age": age, "sex": rng.integers(1, 3, n)}).astype(float)


def spss(path: Path, frame: pd.DataFrame) -> Path:
    pyreadstat.write_sav(
        frame,
        path,
        variable_value_labels={"occ": OCCUPATIONS | NOT_ASKED},
        missing_ranges={"occ": [{"lo": -9, "hi": -7}]},
        variable_format={"occ": "F2.0"},
    )
    return path


def stata(path: Path, frame: pd.DataFrame) -> Path:
    letters = {-9: "a", -8: "b", -7: "z"}
    occupation = frame["occ"].astype(object)
    for code, letter in letters.items():
        occupation[frame["occ"] == code] = letter
    labels = {letters[code]: label for code, label in NOT_ASKED.items()}
    pyreadstat.write_dta(
        frame.assign(occ=occupation),
        path,
        variable_value_labels={"occ": OCCUPATIONS | labels},
        missing_user_values={"occ": ["a", "b", "z"]},
    )
    return path


def test_rules_leave_declared_levels_apart(tmp_path: Path) -> None:
    """Who was not asked is neither a rare occupation nor a low number."""
    frame = people()
    few = (frame["occ"] == -9) & (frame.groupby("occ").cumcount() >= 20)
    frame = frame[~few].reset_index(drop=True)
    source = spss(tmp_path / "survey.sav", frame)
    for rule, code in (("rare(0.1)", 13), ("width(3)", None), ("bottom(2)", None)):
        out = tmp_path / "out.sav"
        out.unlink(missing_ok=True)
        recoded(source, {"occ": rule}, out, keys=KEYS)
        found, meta = pyreadstat.read_sav(out, user_missing=True)
        declared = frame["occ"] < 0
        assert found.loc[declared, "occ"].equals(frame.loc[declared, "occ"]), rule
        assert (found.loc[~declared, "occ"] > 0).all()
        assert NOT_ASKED.items() <= meta.variable_value_labels["occ"].items()
        assert meta.missing_ranges == {"occ": [{"lo": -9.0, "hi": -7.0}]}
        if code is not None:
            assert meta.variable_value_labels["occ"][code] == "other (Farmers, Miners, Sailors)"
        # Who reads it without declared codes counts the same persons as missing.
        assert pyreadstat.read_sav(out)[0]["occ"].isna().equals(declared)


def test_a_group_of_declared_codes_stays_declared(tmp_path: Path) -> None:
    frame = people()
    source, out = spss(tmp_path / "survey.sav", frame), tmp_path / "out.sav"
    made, plan = recoded(source, {"occ": [[-9, -8], [3, 4, 5]]}, out, keys=KEYS)
    found, meta = pyreadstat.read_sav(out, user_missing=True)
    assert meta.variable_value_labels["occ"] == {
        -9: "Under 16, Retired", -7: "Refused", 1: "Managers", 2: "Clerks",
        13: "Farmers, Miners, Sailors",
    }  # fmt: skip
    assert found["occ"].tolist() == frame["occ"].replace({-8: -9, 4: 13, 5: 13, 3: 13}).tolist()
    assert pyreadstat.read_sav(out)[0]["occ"].isna().equals(frame["occ"] < 0)
    assert made.changes[0].made_valid == ()
    assert plan.keys[0].codes["Under 16, Retired"] == -9
    # Another file gets the same.
    path, again = tmp_path / "plan.toml", tmp_path / "again.sav"
    path.write_text(plan.to_toml(tmp_path))
    assert not main(["apply", str(path), str(source), "--out", str(again), "--quiet"])
    other, meta_again = pyreadstat.read_sav(again, user_missing=True)
    assert other["occ"].equals(found["occ"])
    assert meta_again.variable_value_labels == meta.variable_value_labels


def test_a_mixed_group_is_valid_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = people()
    source, out = spss(tmp_path / "survey.sav", frame), tmp_path / "out.sav"
    made, plan = recoded(source, {"occ": [[-9, 3, 4, 5]]}, out, keys=KEYS)
    found, meta = pyreadstat.read_sav(out, user_missing=True)
    label = "Under 16, Farmers, Miners, Sailors"
    (code,) = [c for c, said in meta.variable_value_labels["occ"].items() if said == label]
    assert code > 9
    joined = frame["occ"].isin([-9, 3, 4, 5])
    assert (found.loc[joined, "occ"] == code).all()
    # The label of a level that no record has goes, that of another declared one stays.
    assert -9 not in meta.variable_value_labels["occ"]
    assert meta.variable_value_labels["occ"][-8] == "Retired"
    missing = frame["occ"].isin([-8, -7])
    assert pyreadstat.read_sav(out)[0]["occ"].isna().equals(missing)
    assert made.changes[0].made_valid == ((label, ("Under 16",)),)
    (said,) = made_valid_words(made.changes)
    assert label in said
    assert "'Under 16'" in said
    # The plan says so, and who carries it out is told.
    path = tmp_path / "plan.toml"
    path.write_text(plan.to_toml(tmp_path))
    assert PlanSpec.read(path).keys[0].made_valid == {label: ("Under 16",)}
    again = tmp_path / "again.sav"
    assert not main(["apply", str(path), str(source), "--out", str(again)])
    assert said in " ".join(capsys.readouterr().out.split())


def test_the_report_names_a_mixed_group(tmp_path: Path) -> None:
    source, out = spss(tmp_path / "survey.sav", people()), tmp_path / "out"
    found = unikat.protect(
        source,
        keys=["occ", "age:width(8)", "sex"],
        recode={"occ": dict.fromkeys(["-9", "3", "4", "5"], "low")},
        population_size=6_000,
        model="latent-class",
        max_sweeps=20,
        chains=2,
        workers=1,
        out=out,
    )
    words = "occ: the group 'low' joins valid levels with 'Under 16', declared missing."
    assert any(words in said for said in found.summary.warnings)
    assert any(words in said for said in json.loads((out / "protect.json").read_text())["warnings"])
    assert "Under 16&#39;, declared missing" in (out / "report.html").read_text()
    assert found.plan.keys[0].made_valid == {"low": ("Under 16",)}
    assert PlanSpec.read(out / "plan.toml").keys == found.plan.keys


def test_groups_of_text_codes_stay_declared(tmp_path: Path) -> None:
    """A column of text of SPSS can have declared codes, too."""
    frame = people()
    texts = frame["occ"].map({-9: "N", -8: "R", -7: "X", 1: "M", 2: "C", 3: "F", 4: "I", 5: "S"})
    source, out = tmp_path / "survey.sav", tmp_path / "out.sav"
    pyreadstat.write_sav(
        frame.assign(occ=texts),
        source,
        variable_value_labels={"occ": {"N": "Under 16", "R": "Retired", "X": "Refused"}},
        missing_ranges={"occ": ["N", "R", "X"]},
    )
    recoded(source, {"occ": [["N", "R"], ["F", "I", "S"]]}, out, keys=KEYS)
    found, meta = pyreadstat.read_sav(out, user_missing=True)
    assert {"N", "X", "M", "C"} < set(found["occ"])
    assert (found["occ"][texts.isin(["N", "R"])] == "N").all()
    assert meta.variable_value_labels["occ"]["N"] == "Under 16, Retired"
    assert meta.missing_ranges["occ"] == [{"lo": c, "hi": c} for c in "NRX"]
    joined = found["occ"][texts.isin(["F", "I", "S"])].unique().tolist()
    assert len(joined) == 1
    assert meta.variable_value_labels["occ"][joined[0]] == "F, I, S"


def test_letters_of_stata_are_levels_where_keys_tell_who_has_them(tmp_path: Path) -> None:
    frame = people()
    source = stata(tmp_path / "survey.dta", frame)
    spss_file = spss(tmp_path / "survey.sav", frame)
    design = Design(population_size=10_000)
    found, same = (read(path, KEYS, design) for path in (source, spss_file))
    taken = {one.code: one.is_level for one in found.keys[0].declared}
    assert taken == {".a": True, ".b": True, ".z": False}
    assert found.keys[0].levels == (1, 2, 3, 4, 5, ".a", ".b")
    assert found.keys[0].labels[-2:] == ("Under 16", "Retired")
    # The same cells as of the file of SPSS, whose codes come first.
    one, other = found.tabulate(), same.tabulate()
    place = np.array([same.keys[0].labels.index(label) for label in found.keys[0].labels])
    codes = one.cells[one.record_cell]
    codes[:, 0] = np.where(codes[:, 0] >= 0, place[codes[:, 0]], -1)
    assert codes.tolist() == other.cells[other.record_cell].tolist()
    assert found.n_missing == same.n_missing
    # The user decides by key: of none, of all but some, or of all.
    none = read(source, KEYS, design, missing_values={"occ": []})
    assert set(none.keys[0].answers) == {".a", ".b", ".z"}
    assert none.n_missing[0] == 0
    named = read(source, KEYS, design, missing_values={"occ": [".a"]})
    assert named.keys[0].answers == (".b",)
    book: dict[str, Any] = {"occ": {"levels": [1, 2, 3, 4, 5, ".z"]}}
    listed = read(source, ["occ", "sex"], design, codebook=book)
    assert listed.keys[0].levels == (1, 2, 3, 4, 5, ".z")
    level = read(source, ["occ", "sex"], design, missing="level")
    assert level.keys[0].levels == (1, 2, 3, 4, 5, None)


def test_letters_are_written_with_their_labels(tmp_path: Path) -> None:
    frame = people()
    source, out = stata(tmp_path / "survey.dta", frame), tmp_path / "out.dta"
    before, _ = pyreadstat.read_dta(source, user_missing=True)
    made, plan = recoded(source, {"occ": "rare(0.1)", "age": "width(20)"}, out, keys=KEYS)
    found, meta = pyreadstat.read_dta(out, user_missing=True)
    assert meta.variable_value_labels["occ"] == {
        1: "Managers", 2: "Clerks", 13: "other (Farmers, Miners, Sailors)",
        "a": "Under 16", "b": "Retired", "z": "Refused",
    }  # fmt: skip
    expected = before["occ"].replace({3.0: 13.0, 4.0: 13.0, 5.0: 13.0})
    assert found["occ"].tolist() == expected.tolist()
    assert sorted(meta.missing_user_values["occ"]) == ["a", "b", "z"]
    # A plan does the same.
    path, again = tmp_path / "plan.toml", tmp_path / "again.dta"
    path.write_text(plan.to_toml(tmp_path))
    assert not main(["apply", str(path), str(source), "--out", str(again), "--quiet"])
    assert pyreadstat.read_dta(again, user_missing=True)[0].equals(found)
    # A group of letters has the first; one with valid levels is a number.
    out.unlink()
    recoded(source, {"occ": [[".a", ".b"]]}, out, keys=KEYS)
    found, meta = pyreadstat.read_dta(out, user_missing=True)
    assert found["occ"].tolist() == before["occ"].replace({"b": "a"}).tolist()
    assert meta.variable_value_labels["occ"]["a"] == "Under 16, Retired"
    assert "b" not in meta.variable_value_labels["occ"]
    out.unlink()
    made, _ = recoded(source, {"occ": [[".a", 3, 4, 5]]}, out, keys=KEYS)
    found, meta = pyreadstat.read_dta(out, user_missing=True)
    assert "a" not in set(found["occ"])
    assert made.changes[0].made_valid[0][1] == ("Under 16",)


def test_letters_become_text_where_the_format_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files of SAS become Parquet: who was not asked would be missing there."""
    source = stata(tmp_path / "survey.dta", people())
    microdata = read(source, KEYS, Design(population_size=10_000))
    monkeypatch.setattr(microdata.source, "keeps_letters", False)
    table = microdata.tabulate()
    made = released(
        microdata, table.cells[table.record_cell], parse_recoding(table, {"occ": "rare(0.1)"})
    )
    values = made.table["occ"].to_pylist()
    group = "other (Farmers, Miners, Sailors)"
    assert set(values) == {"1", "2", group, ".a", ".b", None}
    assert values.count(".a") == (people()["occ"] == -9).sum()
    assert values.count(None) == (people()["occ"] == -7).sum()
    codes = table.cells[table.record_cell]
    persons = Persons(table.keys, codes, np.arange(len(codes)))
    columns = columns_of(microdata, persons, (), (), None)
    drawn = columns.table(codes, table.keys, 1, 0, KEYS)["occ"].to_pylist()
    assert set(drawn) == {"1", "2", "3", "4", "5", ".a", ".b", None}
    assert drawn.count(".a") == (people()["occ"] == -9).sum()


def test_perturbed_and_suppressed_letters(tmp_path: Path) -> None:
    frame = people()
    source, out = stata(tmp_path / "survey.dta", frame), tmp_path / "out.dta"
    microdata = read(source, KEYS, Design(population_size=10_000))
    table = microdata.tabulate()
    show = table.cells[table.record_cell].copy()
    managers, under = (microdata.keys[0].levels.index(level) for level in (1, ".a"))
    rows = np.flatnonzero(show[:, 0] == managers)[:5], np.flatnonzero(show[:, 0] == under)[:5]
    show[rows[0], 0], show[rows[1], 0] = under, managers
    gone = np.zeros((len(frame), len(KEYS)), np.bool_)
    gone[np.flatnonzero(frame["occ"] == -9)[10:15], 0] = True
    recoded(source, {}, out, keys=KEYS, suppress=gone, show=show)
    found, _ = pyreadstat.read_dta(out, user_missing=True)
    assert found["occ"][rows[0]].tolist() == ["a"] * 5
    assert found["occ"][rows[1]].tolist() == [1.0] * 5
    assert found["occ"][gone[:, 0]].isna().all()
    assert (found["occ"][frame["occ"] == -7] == "z").all()


def test_rules_with_letters(tmp_path: Path) -> None:
    """Letters are above all numbers, as in Stata; they have names in rules."""
    source = stata(tmp_path / "survey.dta", people())
    keys = read(source, KEYS, Design(population_size=10_000)).keys
    for rule, levels in (
        ("occ == 'Under 16'", {5}),
        ("occ == '.a'", {5}),
        ("occ < 3", {0, 1}),
        ("occ >= 5", {4, 5, 6}),
    ):
        found = Rule.of(rule, keys)
        chosen = found.conditions.any(axis=0)[found.offsets[0] : found.offsets[1]]
        assert set(np.flatnonzero(chosen).tolist()) == levels
    assert order_of(keys[0]) is None


@pytest.mark.parametrize("ending", ["dta", "sav"])
@pytest.mark.parametrize(
    ("values", "rule", "code", "label"),
    [
        # Up to the largest of byte, int and long of Stata.
        (range(98), "top(65)", 165, "65 and over"),
        ([1, 2, 32000, 32700, 32739], "rare(0.1)", 132000, "other (32000, 32700, 32739)"),
        ([1, 2, 3, 2147483610, 2147483619], "rare(0.1)", 4, "other (3, 2147483610, 2147483619)"),
        # Negative numbers have no place behind 10, 100, ...
        ([-1, -2, -40, -41, -42], "rare(0.1)", 101, "other (-42, -41, -40)"),
        (
            ["1.5", "2.5", "3", "4", "5"],
            "rare(0.1)",
            {"dta": "other (3, 4, 5)", "sav": "13"},
            "other (3, 4, 5)",
        ),
        (
            ["A", "B", "C", "D", "F"],
            "rare(0.1)",
            {"dta": "other (C, D, F)", "sav": "E"},
            "other (C, D, F)",
        ),
    ],
)
def test_codes_of_groups_fit_their_column(
    tmp_path: Path, ending: str, values: Any, rule: str, code: Any, label: str
) -> None:
    rng = np.random.default_rng(1)
    shares = [0.45, 0.45, 0.04, 0.03, 0.03] if len(values) == 5 else None
    drawn = rng.choice(list(values), 400, p=shares)
    frame = pd.DataFrame({"k": drawn, "sex": rng.integers(1, 3, 400)})
    if drawn.dtype.kind == "i":
        frame = frame.astype("int32")
    source, out = tmp_path / f"survey.{ending}", tmp_path / f"out.{ending}"
    (pyreadstat.write_dta if ending == "dta" else pyreadstat.write_sav)(frame, source)
    made, _ = recoded(source, {"k": rule}, out, keys=["k", "sex"])
    reader = pyreadstat.read_dta if ending == "dta" else pyreadstat.read_sav
    found, meta = reader(out, user_missing=True)
    expected = code[ending] if isinstance(code, dict) else code
    new = (set(found["k"]) - set(frame["k"])) or {expected}
    assert new == {expected}
    assert not found["k"].isna().any()
    assert found["k"].value_counts()[expected] == sum(
        level in made.changes[0].joined[0][1] if made.changes[0].joined else int(level) >= 65
        for level in map(str, frame["k"])
    )
    if expected != label:
        assert meta.variable_value_labels["k"][expected] == label
    before = reader(source, metadataonly=True)[1]
    assert meta.readstat_variable_types == before.readstat_variable_types
    if ending == "sav" and isinstance(expected, int):
        width = int(meta.original_variable_types["k"][1:].partition(".")[0])
        assert width >= len(str(expected))


def test_codes_that_a_codebook_declares_missing_are_no_codes_of_groups() -> None:
    frame = people().replace({"occ": {-9.0: 1.0, -8.0: 2.0, -7.0: 1.0}}).astype(int)
    labels = {str(code): label for code, label in OCCUPATIONS.items()}
    book = {"occ": {"labels": labels | {"13": "Refused"}, "missing": [13]}}
    made, _ = recoded(frame, {"occ": "rare(0.1)"}, codebook=book, keys=KEYS)
    assert made.codebook is not None
    (code,) = [int(c) for c, said in made.codebook["occ"]["labels"].items() if "Miners" in said]
    assert code != 13
    assert made.codebook["occ"]["labels"]["13"] == "Refused"
    again = read(made.table, KEYS, Design(population_size=10_000), codebook=made.codebook)
    assert again.n_missing[0] == 0


def test_a_code_of_a_plan_that_another_file_has_is_not_taken_twice(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    ages = rng.integers(0, 98, 400)
    frame = pd.DataFrame({"age": ages, "sex": rng.integers(1, 3, 400)}).astype(float)
    source, other = tmp_path / "survey.sav", tmp_path / "other.sav"
    pyreadstat.write_sav(frame, source)
    _, plan = recoded(source, {"age": "bottom(20)"}, keys=["age", "sex"])
    (code,) = plan.keys[0].codes.values()
    assert code == 120
    frame.loc[:3, "age"] = code
    pyreadstat.write_sav(frame, other)
    path, out = tmp_path / "plan.toml", tmp_path / "out.sav"
    path.write_text(plan.to_toml(tmp_path))
    assert not main(["apply", str(path), str(other), "--out", str(out), "--quiet"])
    found, meta = pyreadstat.read_sav(out)
    assert (found["age"] == code).sum() == 4
    assert code not in meta.variable_value_labels["age"]


@pytest.mark.slow
def test_a_stata_file_through_assess_protect_and_verify(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Letters are levels in all commands alike, and each declaration is said on a line."""
    source, out = stata(tmp_path / "survey.dta", people()), tmp_path / "out"
    quick = ["--keys", "occ,age,sex", "--population-size", "6000", "--model", "latent-class"]
    quick += ["--max-sweeps", "20", "--chains", "2", "--workers", "1", "--allow-unconverged"]
    assert main(["assess", str(source), *quick, "--out", str(tmp_path / "assessed")]) == 0
    # Once, before the run; the report has it too.
    assert "".join(capsys.readouterr()).count("occ: taken as missing: .z 'Refused'") == 1
    result = json.loads((tmp_path / "assessed" / "result.json").read_text())
    (key, *_) = result["keys"]
    assert {one["code"]: one["is_level"] for one in key["declared"]} == {
        ".a": True, ".b": True, ".z": False,
    }  # fmt: skip
    recode = ["--recode", "age: width(20); occ: rare(0.1)"]
    assert main(["protect", str(source), *quick, *recode, "--out", str(out)]) == 0
    assert "".join(capsys.readouterr()).count("occ: taken as missing: .z 'Refused'") == 1
    protected = out / "protected.dta"
    before, _ = pyreadstat.read_dta(source, user_missing=True)
    after, _ = pyreadstat.read_dta(protected, user_missing=True)
    letters = before["occ"].map(lambda value: value if isinstance(value, str) else "")
    assert after["occ"].map(lambda v: v if isinstance(v, str) else "").equals(letters)
    capsys.readouterr()
    command = ["verify", str(source), str(protected), *quick]
    assert main([*command, "--out", str(tmp_path / "checked")]) == 0
    found = json.loads((tmp_path / "checked" / "verify.json").read_text())
    occupation = next(key for key in found["keys"] if key["name"] == "occ")
    assert occupation["action"] == "recoded"
    assert occupation["n_suppressed"] == occupation["n_otherwise"] == 0
    assert occupation["n_recoded"] == before["occ"].isin([3.0, 4.0, 5.0]).sum()


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_unseen_levels_do_not_change_sides(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], ending: str
) -> None:
    """A new declared level joins no valid ones, and a new valid level no declared ones."""
    frame, write = people(), {"sav": spss, "dta": stata}[ending]
    small = frame[~frame["occ"].isin([-8.0, 5.0])].reset_index(drop=True)
    source = write(tmp_path / f"small.{ending}", small)
    other = write(tmp_path / f"all.{ending}", frame)
    reader = pyreadstat.read_sav if ending == "sav" else pyreadstat.read_dta
    path, out = tmp_path / "plan.toml", tmp_path / f"out.{ending}"
    command = ["apply", str(path), str(other), "--out", str(out)]
    command += ["--missing-values", "occ: none", "--unseen", "group", "--overwrite"]
    _, plan = recoded(source, {"occ": "rare(0.1)"}, keys=KEYS)
    path.write_text(plan.to_toml(tmp_path))
    assert main(command) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "declared missing: left as is." in said
    assert "'Sailors' (" in said
    before, after = reader(other)[0]["occ"], reader(out)[0]["occ"]
    assert after.isna().equals(before.isna())
    # The only group of the plan is one of declared codes.
    codes = [-9, -7] if ending == "sav" else [".a", ".z"]
    microdata = read(source, KEYS, Design(population_size=9_000), missing_values={"occ": []})
    table = microdata.tabulate()
    recoding = parse_recoding(table, {"occ": [codes]})
    made = released(microdata, table.cells[table.record_cell], recoding)
    plan = PlanSpec(keys=plan_keys(recoding, KEYS, microdata.keys, made))
    path.write_text(plan.to_toml(tmp_path))
    assert main(command) == 1
    assert "has no group of rare levels to put it into" in " ".join(capsys.readouterr().err.split())
