"""`unikat protect` from a file to a file."""

from __future__ import annotations

import itertools
import json
import tomllib
from dataclasses import asdict, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unikat
from unikat.cli.main import main
from unikat.errors import SpecError
from unikat.report.pages.protection import render
from unikat.report.text import protection as text
from unikat.report.text.numbers import estimated, interval
from unikat.report.text.sentences import two_counts
from unikat.risk.limits import Measured, judge
from unikat.spec.limits import Limit
from unikat.spec.plan import PlanSpec
from unikat.spec.protection import ProtectionSpec

QUICK = (
    "--model", "latent-class", "--max-sweeps", "150", "--chains", "2", "--workers", "1", "--quiet",
    "--allow-unconverged",
)  # fmt: skip
KEYS = "region,sex,age,education"
PLANTED = "84"
"""An age of one person: no output may hold it once ages are in groups."""


def people(n: int = 400) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    age = rng.integers(0, 80, n)
    age[7] = int(PLANTED)
    return pd.DataFrame(
        {
            "id": [f"p{i}q" for i in range(n)],
            "region": rng.choice(["01", "02", "11", "12", "13"], n, p=[0.5, 0.3, 0.1, 0.07, 0.03]),
            "sex": rng.choice(["f", "m"], n),
            "age": age,
            "note": "x",
            "education": np.where(age < 20, "low", rng.choice(["low", "mid", "high"], n)),
        }
    )


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("protect")
    source = folder / "people.csv"
    people().to_csv(source, index=False, sep=";")
    out = folder / "out"
    options = (
        "--target",
        "tau1_estimate <= 1",
        "--recodings",
        "age: width(5), width(10), width(20); education: rare(0.1)",
    )
    assert main(["protect", str(source), "--keys", KEYS, "--population-size", "8000",
                 *options, "--keep", "sex,region", "--out", str(out), *QUICK]) == 3  # fmt: skip
    return source, out


def test_the_folder_and_what_is_in_it(protected: tuple[Path, Path]) -> None:
    source, out = protected
    names = {"protected.csv", "plan.toml", "plans.parquet", "protect.json", "report.html"}
    assert {path.name for path in out.iterdir()} >= {*names, "protect.toml"}
    found = json.loads((out / "protect.json").read_text())
    (chosen,) = (plan for plan in found["plans"] if plan["chosen"])
    assert found["by_plan"] <= 1.0
    assert found["target"]["value"] == max(found["by_plan"], found["by_refit"])
    assert found["verdict"] == found["target"]["verdict"] == "not known"
    assert found["before"]["tau1"]["mean"] > 1.0
    assert "sex" not in chosen["recodings"]
    lost = [plan["lost"] for plan in found["plans"]]
    assert lost == sorted(lost)
    tau1 = [plan["risk"]["tau1"]["mean"] for plan in found["plans"] if not plan["chosen"]]
    assert all(a > b for a, b in itertools.pairwise(tau1))
    assert pq.read_table(out / "plans.parquet").num_rows == len(lost)
    before = pd.read_csv(source, sep=";", dtype=str)
    after = pd.read_csv(out / "protected.csv", sep=";", dtype=str)
    kept = [name for name in before.columns if chosen["recodings"].get(name) != "left out"]
    kept.remove("id")
    assert list(after.columns) == kept
    for name in set(kept) - set(chosen["recodings"]):
        assert after[name].tolist() == before[name].tolist()
    # Recoded values are those of the groups, record by record.
    if chosen["recodings"].get("age", "").startswith("width"):
        width = int(chosen["recodings"]["age"][6:-1])
        low = before["age"].astype(int) // width * width
        assert after["age"].tolist() == [f"{a}-{a + width - 1}" for a in low]
    changes = {change["name"]: change for change in found["columns"]}
    for name in kept:
        if name in changes:
            assert changes[name]["n_changed"] == (after[name] != before[name]).sum()


def test_no_value_beyond_the_plan_survives(protected: tuple[Path, Path]) -> None:
    _, out = protected
    found = json.loads((out / "protect.json").read_text())
    (chosen,) = (plan for plan in found["plans"] if plan["chosen"])
    assert chosen["recodings"]["age"] != "as it is"
    ages = set(pd.read_csv(out / "protected.csv", sep=";", dtype=str).get("age", []))
    assert not any(text.strip().isdigit() for text in ages)
    # Rows hold names of persons as well: no other file may.
    for name in ("report.html", "protect.json", "plan.toml", "protect.toml"):
        assert "p7q" not in (out / name).read_text()
    plans = pq.read_table(out / "plans.parquet").to_pandas().astype(str).fillna("")
    assert not plans.map(lambda text: "p7q" in text).any(axis=None)


def test_the_plan_recodes_another_file(protected: tuple[Path, Path], tmp_path: Path) -> None:
    source, out = protected
    plan = out / "plan.toml"
    again = tmp_path / "again.csv"
    assert main(["apply", str(plan), str(source), "--out", str(again)]) == 0
    assert again.read_bytes() == (out / "protected.csv").read_bytes()
    # It is not overwritten unasked.
    assert main(["apply", str(plan), str(source), "--out", str(again)]) == 1
    fewer = tmp_path / "fewer.csv"
    people().drop(columns="sex").to_csv(fewer, index=False, sep=";")
    assert main(["apply", str(plan), str(fewer), "--out", str(tmp_path / "x")]) == 1
    assert not (tmp_path / "x").exists()


def test_a_plan_groups_levels_that_are_alone_in_their_groups(tmp_path: Path) -> None:
    """Another file may have one level in each group; its values would tell what the plan hides."""
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'schema = "unikat.plan/1"\n[[keys]]\nname = "age"\nkey = "age"\nrule = "width(10)"\n'
    )
    pd.DataFrame({"age": [84, 35, 35], "x": [1, 2, 3]}).to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "out.csv"
    assert main(["apply", str(plan), str(tmp_path / "a.csv"), "--out", str(out)]) == 0
    assert pd.read_csv(out)["age"].tolist() == ["80-89", "30-39", "30-39"]


def test_levels_that_a_plan_does_not_know_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people().to_csv(tmp_path / "people.csv", index=False)
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'schema = "unikat.plan/1"\n[[keys]]\nname = "region"\nkey = "region"\n'
        'levels = ["01", "02", "11", "12", "13"]\nrule = { 12 = "other", 13 = "other" }\n'
        '[[keys]]\nname = "age"\nkey = "age"\nrule = "left out"\n'
    )
    command = ["apply", str(plan), "--out", str(tmp_path / "out.csv")]
    assert main([*command, str(tmp_path / "people.csv")]) == 0
    found = pd.read_csv(tmp_path / "out.csv", dtype=str)
    assert set(found["region"]) == {"01", "02", "11", "other"}
    assert "age" not in found
    people().assign(region="77").to_csv(tmp_path / "other.csv", index=False)
    assert main([*command, str(tmp_path / "other.csv"), "--overwrite"]) == 1
    said = capsys.readouterr().err
    assert "the plan does not know 1 level that no codebook names (400 records" in " ".join(
        said.split()
    )
    assert "77" not in said


def test_a_frame_and_its_specification_give_the_same_plan(
    protected: tuple[Path, Path],
) -> None:
    source, out = protected
    frame = pd.read_csv(source, sep=";", dtype={"region": str})
    spec = tomllib.loads((out / "protect.toml").read_text())
    found = unikat.protect(
        frame, keys=KEYS, population_size=8000, target="tau1_estimate <= 1", keep="sex,region",
        recodings={"age": ["width(5)", "width(10)", "width(20)"], "education": ["rare(0.1)"]},
        model="latent-class",
        max_sweeps=150, chains=2, workers=1,
    )  # fmt: skip
    assert spec["target"] == found.spec.target
    assert found.plan.keys == PlanSpec.read(out / "plan.toml").keys
    assert found.frame.astype(str).equals(
        pd.read_csv(out / "protected.csv", sep=";", dtype=str).set_axis(found.frame.index)
    )
    assert len(found.plans) == len(found.summary.plans)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "no target is named"),
        (("--recode", "age: width(5), width(10)"), "'age' has 2 recodings; name one for each key"),
        (("--recode", "age"), "name each key and its recodings"),
        (("--recode", "agee: width(5)"), "'agee' is none of the keys"),
        (("--recode", "age: file(age.csv)"), "Cannot read the hierarchy age.csv"),
        (
            ("--recode", "age: width(5)", "--target", "k >= 2", "--recodings", "sex: left out"),
            "--recodings among what to choose; leave one of them out",
        ),
        (("--recode", "age: width(5)", "--keep", "age", "--suppress", "k >= 2"), "named by --keep"),
        (("--recode", "age: width(5)", "--keep", "sex"), "--keep is about keys that a search"),
        (
            ("--recode", "region: left out", "--swap", "region"),
            "'region' is left out by --recode, and --pram or --swap needs it",
        ),
        (("--target", "tau1 < 5"), "is no limit"),
        (("--target", "tau1 <= 5", "--keep", KEYS), "keep fewer keys"),
        (("--target", "tau1 <= 5", "--keep", "agee"), "'agee' is none of the keys"),
        (("--target", "tau1 <= 5", "--weights-of-keys", "age"), "name each key and its weight"),
        (("--target", "tau1 <= 5", "--recodings", "age: wide(3)"), "is not known"),
        (("--target", "k >= 1000"), "No recoding reaches k >= 1000"),
        (
            ("--target", "tau1 <= 5", "--model", "households", "--household", "id"),
            "number of households",
        ),
    ],
)
def test_what_cannot_be_done_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], said: str
) -> None:
    source, out = tmp_path / "people.csv", tmp_path / "out"
    people(150).to_csv(source, index=False)
    model = () if "--model" in options else QUICK[:2]
    command = ["protect", str(source), "--keys", KEYS, "--population-size", "3000"]
    code = main([*command, *options, *model, "--out", str(out), *QUICK[2:]])
    assert code == 1
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (out / "protected.csv").exists()


@pytest.mark.slow
def test_missing_values_and_statistical_files(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    frame = people(200).drop(columns=["id", "note"])
    frame["region"] = frame["region"].astype(float)
    frame.loc[::9, "region"] = np.nan
    source = tmp_path / "people.sav"
    labels = {"region": {1.0: "North", 2.0: "South", 11.0: "East", 12.0: "West", 13.0: "Isle"}}
    pyreadstat.write_sav(frame, source, variable_value_labels=labels)
    found = unikat.protect(
        source, keys=["region", "sex", "age"], population_size=4000, target="k >= 2",
        recodings={"region": [{"East": "others", "West": "others", "Isle": "others"}],
                   "age": ["width(40)", None]},
        model="latent-class", max_sweeps=60, chains=2, workers=1, out=tmp_path / "out",
    )  # fmt: skip
    after, meta = pyreadstat.read_sav(tmp_path / "out" / "protected.sav")
    assert len(after) == 200
    rules = {one.name: one.rule for one in found.plan.keys}
    if isinstance(rules["region"], dict):
        assert set(meta.variable_value_labels["region"].values()) >= {"others"}
        assert after["region"].isna().sum() == frame["region"].isna().sum()
    if rules["age"] is not None and rules["age"] != "left out":
        assert set(meta.variable_value_labels["age"].values()) <= {"0-39", "40-79", "80-119"}


def test_missing_keys_have_both_numbers_and_rows_count_the_same_records(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    frame = people(300)
    frame.loc[::7, "education"] = None
    options: dict[str, Any] = {
        "keys": KEYS.split(","), "population_size": 8000, "model": "latent-class",
        "max_sweeps": 20, "chains": 2, "workers": 1, "progress": False,
    }  # fmt: skip
    found = unikat.protect(
        frame, recode={"age": "width(5)"}, suppress="k >= 2", out=tmp_path / "out", **options
    ).summary
    assert not found.converged
    said, hidden = found.sentences, found.before.tau1_hidden
    assert hidden is not None
    assert hidden.mean > found.before.tau1.mean
    numbers = [estimated(one.mean, one) for one in (found.before.tau1, hidden)]
    assert said["hidden"].startswith(f"Before protection: b{two_counts(*numbers)[1:]}")
    assert said["answer"].startswith("Provisional, not converged: τ1 ")
    assert "by the values that the file shows" in said["answer"]
    # The same sentence in the assessment of the file, and its numbers.
    result = unikat.assess(frame, **options).result
    assert result.tau1_shown is not None
    assert "By the values that the file shows τ1 is " in result.sentences["tau1_shown"]
    assert "missing values hide" in result.sentences["tau1_shown"]
    page = (tmp_path / "out" / "report.html").read_text()
    assert "<title>Provisional, not converged: Protection of" in page
    assert said["answer"] in page
    assert said["hidden"] in page
    # After suppression both columns are of one file, whose records are counted once.
    assert found.released is not None
    assert found.released.n_uniques == found.refit.n_uniques == found.after.n_uniques
    assert found.released.smallest == found.refit.smallest


@pytest.mark.slow
def test_tables_of_the_terminal_fit_it_and_lose_no_number(
    protected: tuple[Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    source, out = protected
    monkeypatch.setenv("COLUMNS", "90")
    options = [one for one in QUICK if one != "--quiet"]
    call = ["protect", str(source), "--keys", KEYS, "--population-size", "8000"]
    assert main([*call, "--target", "tau1 <= 30", "--out", str(out.parent / "wide"), *options]) == 3
    printed = capsys.readouterr().out
    table = printed[printed.index("\nplan") :]
    assert max(map(len, table.split("Protected file")[0].splitlines())) <= 90
    found = json.loads((out.parent / "wide" / "protect.json").read_text())
    for plan in found["plans"]:
        assert interval(SimpleNamespace(**plan["risk"]["tau1"])) in table


@pytest.mark.slow
@pytest.mark.parametrize("suppress", ["k >= 2", "r1 <= 0.3"])
def test_suppression_makes_every_record_safe(tmp_path: Path, suppress: str) -> None:
    frame = people(250)
    frame.loc[::11, "education"] = None
    frame.to_csv(tmp_path / "people.csv", index=False)
    found = unikat.protect(
        tmp_path / "people.csv", keys=KEYS, population_size=3000, target="tau1 <= 20",
        suppress=suppress, keep="sex", model="latent-class", max_sweeps=100, chains=2, workers=1,
        recodings={"age": ["width(10)", "width(20)"], "region": ["rare(0.2)"], "education": []},
        columns="id: other", out=tmp_path / "out",
    )  # fmt: skip
    before = found.summary
    assert before.suppression is not None
    after = pd.read_csv(tmp_path / "out" / "protected.csv", dtype=str)
    names = [name for name in KEYS.split(",") if name in after]
    blanks = {change.name: change.n_suppressed for change in before.columns}
    missing = pd.read_csv(tmp_path / "people.csv", dtype=str)[names].isna().sum()
    assert sum(blanks.values()) == before.suppression.n_values > 0
    for name in names:
        assert after[name].isna().sum() == missing[name] + blanks[name]
    # Columns that are no keys stay as they were.
    assert after["id"].tolist() == frame["id"].tolist()
    if suppress == "k >= 2":
        # What a record shows agrees with another one, as that was before suppression.
        whole = pd.DataFrame(index=frame.index)
        for name in names:
            groups = after[[name]].assign(raw=frame[name].astype(str)).dropna(subset=[name])
            known = frame[name].notna()
            whole[name] = (
                frame[name]
                .astype(str)
                .map(dict(zip(groups["raw"], groups[name], strict=True)))
                .where(known)
            )
        for i in after.index[after[names].notna().any(axis=1)]:
            shown = [name for name in names if pd.notna(after.loc[i, name])]
            agree = pd.Series(True, index=whole.index)
            for name in shown:
                agree &= whole[name].isna() | (whole[name] == after.loc[i, name])
            assert agree.sum() >= 2
    else:
        smallest = found.summary.refit.tau1.mean
        assert smallest <= found.summary.chosen.risk.tau1.mean + 0.5


def test_suppression_of_missing_levels_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    people(100).to_csv(tmp_path / "people.csv", index=False)
    command = ["protect", str(tmp_path / "people.csv"), "--keys", KEYS, "--target", "tau1 <= 5",
               "--population-size", "3000", "--out", str(tmp_path / "out")]  # fmt: skip
    for options, said in (
        (["--suppress", "tau1 <= 3"], "--suppress is about single records"),
        (["--suppress", "k >= 2", "--missing", "level"], "takes it for a level"),
        (["--suppress", "k >= 2", "--missing", "wildcard"], "whose risk it hides"),
    ):
        assert main([*command, *options]) == 1
        assert said in " ".join(capsys.readouterr().err.split())


def test_columns_that_tell_what_was_recoded_are_named() -> None:
    frame = people(500)
    frame["born"] = 2026 - frame["age"] // 2 * 2
    frame["ageing"] = frame["age"] * 7
    frame["other"] = np.arange(len(frame)) % 5
    found = unikat.protect(
        frame, keys=["sex", "age", "region"], population_size=4000, target="tau1 <= 5",
        keep="sex,region", recodings={"age": ["width(20)"]}, model="latent-class", max_sweeps=60,
        chains=2, workers=1, columns={"id": "other", "born": "other", "ageing": "other"},
    )  # fmt: skip
    assert found.summary.telling == (("born", "age"), ("ageing", "age"))
    said = " ".join(found.summary.warnings)
    assert "The column ageing tells more of age than" in said
    # As `verify` names them.
    assert found.summary.identifying == ("id",)
    assert "The column id is that of the original and has a value of its own" in said
    assert "stopped early" not in text.explained(found.summary).sentences["search"]
    early = replace(found.summary, least_lost=0.01)
    assert (
        "No plan that loses less than 1.0% reaches the target"
        in text.explained(early).sentences["search"]
    )
    assert "The search stopped early" in render(
        replace(early, sentences=text.explained(early).sentences)
    )


@pytest.mark.slow
def test_files_of_keys_alone_nested_columns_and_plans_told_once(tmp_path: Path) -> None:
    options: Any = {
        "population_size": 8000, "keys": KEYS.split(","), "target": "tau1 <= 10", "keep": "sex",
        "model": "latent-class", "max_sweeps": 150, "chains": 2, "workers": 1, "progress": False,
    }  # fmt: skip
    alone = people()[KEYS.split(",")]
    pq.write_table(pa.Table.from_pandas(alone), tmp_path / "alone.parquet")
    found = unikat.protect(tmp_path / "alone.parquet", **options)
    told = [tuple(sorted(plan.recodings.items())) for plan in found.summary.plans]
    assert len(set(told)) == len(told)
    with_lists = pa.Table.from_pandas(alone).append_column(
        "visits", pa.array([[1, 2]] * len(alone))
    )
    pq.write_table(with_lists, tmp_path / "lists.parquet")
    again = unikat.protect(
        tmp_path / "lists.parquet", suppress="k >= 2", out=tmp_path / "out", **options
    )
    assert pq.read_table(tmp_path / "out" / "protected.parquet")["visits"][0].as_py() == [1, 2]
    blanks = {change.name: change.n_suppressed for change in again.summary.columns}
    assert blanks["sex"] == 0
    assert sum(blanks.values()) > 0


def test_a_plan_that_is_applied_suppresses_nothing(
    protected: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = protected
    call = ["apply", str(out / "plan.toml"), str(source), "--out", str(tmp_path / "a")]
    assert main([*call, "--suppress", "k >= 3"]) == 1
    assert "No such option" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_options_of_reading_go_with_a_plan_and_others_are_refused(
    protected: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = protected
    plan = str(out / "plan.toml")
    other = tmp_path / "other.txt"
    people().to_csv(other, index=False, sep="|")
    call = ["apply", plan, str(other), "--out", str(tmp_path / "out.txt")]
    assert main([*call, "--format", "csv", "--delimiter", "|"]) == 0
    read = [pd.read_csv(tmp_path / "out.txt", sep="|"), pd.read_csv(out / "protected.csv", sep=";")]
    assert read[0].equals(read[1])
    capsys.readouterr()
    for option in (("--seed", "3"), ("--missing", "wildcard"), ("--json",), ("--keep", "sex")):
        assert main([*call, "--overwrite", *option]) == 1
        assert f"No such option '{option[0]}'" in capsys.readouterr().err
    # Another TOML file of the same folder.
    assert main(["apply", str(out / "protect.toml"), str(source), *call[3:]]) == 1
    said = capsys.readouterr().err
    assert "is of another kind: its schema is 'unikat.protection/1'" in said
    assert said.count("\n") == 1


def test_keys_that_are_kept_are_named_where_nothing_reaches_the_limit() -> None:
    options: Any = {
        "keys": KEYS, "population_size": 900, "keep": "age", "model": "latent-class",
        "max_sweeps": 40, "chains": 2, "workers": 1,
    }  # fmt: skip
    with pytest.raises(SpecError, match=r"Kept as they are: age\. Keep fewer keys"):
        unikat.protect(people(60), target="k >= 2", **options)
    with pytest.raises(SpecError, match="No value of age is suppressed, since --keep"):
        unikat.protect(people(60), target="tau1 <= 60", suppress="k >= 2", **options)


def test_too_many_keys_for_suppression_are_refused_before_anything_is_read() -> None:
    with pytest.raises(SpecError, match="of at most 20, and there are 21"):
        ProtectionSpec.parse(
            {"target": "k >= 2", "keys": [f"k{i}" for i in range(21)], "suppress": "k >= 2"}
        )


def test_names_of_keys_may_hold_colons_and_equals_signs() -> None:
    values = {"target": "k >= 2", "keys": "a=b,c:d", "weights_of_keys": "a=b=2"}
    spec = ProtectionSpec.parse({**values, "recodings": "c:d: width(5)"})
    assert spec.weights_of_keys == {"a=b": 2.0}
    assert spec.recodings == {"c:d": ("width(5)",)}
    with pytest.raises(SpecError, match="suppresses nothing"):
        ProtectionSpec.parse({**values, "suppress": "k >= 1"})


@pytest.mark.slow
def test_rows_outside_the_assessment_and_a_missed_target_are_said(tmp_path: Path) -> None:
    frame = people(250)
    frame.loc[:2, ["age", "education"]] = [5, "high"]
    found = unikat.protect(
        frame, keys=KEYS, population_size=3000, target="tau1 <= 20", model="latent-class",
        zeros=["age < 10 and education == 'high'"], zeros_conflict="drop", max_sweeps=60, chains=2,
        workers=1,
    )  # fmt: skip
    assert found.summary.n_not_assessed == 3
    assert "3 rows of the protected file broke a rule and were not assessed" in " ".join(
        found.summary.warnings
    )
    assert len(found.frame) == 250
    # One verdict, by the larger of plan and new fit, in one place.
    judged = judge("tau1 <= 20", [19.0, 22.0])
    missed = replace(
        found.summary, target=judged, verdict="not met", by_plan=19.0, by_refit=22.0, agrees=False
    )
    assert "does not agree with the plan" in " ".join(text.explained(missed).warnings)
    said = text.verdict_of(missed)
    assert said is not None
    assert said.title == "Limit not met: τ1 ≤ 20."
    assert said.sentence.startswith("The upper end of the 95% interval of τ1 by the new fit is 22.")
    page = render(replace(missed, sentences=text.explained(missed).sentences))
    # The title of the file and of the page.
    assert page.count("Limit not met") == 2
    for word in ("reached", "agrees", "misses the", "missed:"):
        assert word not in page


@pytest.mark.slow
def test_a_plan_that_is_told_is_done(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, out = tmp_path / "people.csv", tmp_path / "out"
    people(200).to_csv(source, index=False)
    command = ["protect", str(source), "--keys", KEYS, "--population-size", "4000"]
    told = ["--recode", "age: width(20); region: left out", "--target", "tau1 <= 0.001"]
    # Not converged, so that nothing is known of the limit.
    assert main([*command, *told, "--out", str(out), *QUICK]) == 3
    found = json.loads((out / "protect.json").read_text())
    assert (found["told"], found["n_plans"], found["verdict"]) == (True, 1, "not known")
    assert found["target"] == asdict(
        judge("tau1 <= 0.001", [found["by_plan"], found["by_refit"]], "not converged")
    )
    as_it_was, plan = found["plans"]
    assert as_it_was["recodings"] == {}
    assert plan["recodings"] == {"age": "width(20)", "region": "left out"}
    assert found["before"]["tau1"]["mean"] > plan["risk"]["tau1"]["mean"]
    assert found["sentences"]["verdict"].startswith("Not known whether the limit is met: τ1 ≤ 0.0")
    page = (out / "report.html").read_text()
    assert found["sentences"]["lost"] in page
    assert "the search looked at" not in page
    written = pd.read_csv(out / "protected.csv")
    assert set(written["age"]) == {"0-19", "20-39", "40-59", "60-79", "80-99"}
    assert "region" not in written
    # The same by its specification, by its plan, and by a search that can only choose it.
    again = unikat.protect(out / "protect.toml", trust_spec=True)
    assert [one.lost for one in again.summary.plans] == [0.0, plan["lost"]]
    assert main(["apply", str(out / "plan.toml"), str(source), "--out",
                 str(tmp_path / "same.csv"), "--quiet"]) == 0  # fmt: skip
    assert (tmp_path / "same.csv").read_bytes() == (out / "protected.csv").read_bytes()
    searched = unikat.protect(
        source, keys=KEYS, population_size=4000, keep="sex,education",
        target=f"tau1 <= {found['by_plan']:.7f}",
        recodings={"age": ["width(20)"], "region": [None]}, model="latent-class",
        max_sweeps=150, chains=2, workers=1,
    ).summary  # fmt: skip
    assert searched.chosen.lost == plan["lost"]
    assert searched.chosen.risk.tau1.mean == plan["risk"]["tau1"]["mean"]


def test_what_a_new_fit_says_of_a_target() -> None:
    found = unikat.assess(
        people(150), keys=KEYS, population_size=3000, model="latent-class", max_sweeps=60,
        chains=2, workers=1,
    ).estimate  # fmt: skip
    assert found is not None
    r1 = np.nan_to_num(found.records.r1)
    for words, number in {
        "tau1_estimate <= 5": found.tau1.mean,
        "tau1 <= 5": found.tau1.upper,
        "tau2 <= 5": found.tau2.upper,
        "r1 <= 0.5": r1.max(),
        "records(r1 > 0.1) <= 3": found.table.counts[r1 > 0.1].sum(),
        "k >= 2": 1,
    }.items():
        assert Measured.of(found).value(Limit.of(words)) == number
