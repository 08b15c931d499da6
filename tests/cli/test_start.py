"""`unikat start`: what it proposes, what it writes, and that the command it prints works."""

from __future__ import annotations

import io
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from unikat.cli.main import main
from unikat.datasets import simulate_homes


@pytest.fixture(autouse=True)
def homes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Write households with weights, persons' numbers, codes for missing and a size."""
    monkeypatch.chdir(tmp_path)
    generator = np.random.default_rng(5)
    frame = simulate_homes(generator, 120)
    per_home = frame.groupby("hid")["hid"]
    frame["person"] = per_home.cumcount() + 1
    frame["members"] = per_home.transform("size")
    frame["education"] = generator.choice([1, 2, 3, 9], len(frame), p=[0.4, 0.3, 0.2, 0.1])
    frame["peso"] = 50 + frame["hid"] % 7
    frame["income"] = generator.gamma(2.0, 900.0, len(frame)).round(2)
    frame["pid"] = np.arange(len(frame)) + 1_000_000
    frame.to_csv("homes.csv", index=False)
    return frame


def written(name: str = "assessment.toml") -> dict[str, Any]:
    return tomllib.loads(Path(name).read_text())


def printed_command(said: str) -> list[str]:
    (line,) = [line for line in said.splitlines() if line.startswith("    unikat ")]
    return shlex.split(line)[1:]


def test_what_is_proposed_for_a_synthesis_runs_as_printed(homes: Any, capsys: Any) -> None:
    assert main(["start", "homes.csv", "--for", "synthetic", "--yes"]) == 0
    command = printed_command(capsys.readouterr().out)
    found = written("synthesis.toml")
    assert found["design"]["household"] == ["hid"]
    assert found["households"] == {"keys": ["tenure", "region"], "head": 'relation == "head"'}
    assert found["data"]["missing_values"] == {"education": ["9"]}
    # Neither identifiers, measurements and the design, nor what the household itself tells.
    assert set(found["keys"]) == {
        "relation",
        "age:width(5)",
        "sex",
        "tenure",
        "region",
        "education",
    }
    limits = ["--chains", "2", "--max-sweeps", "60", "--workers", "1", "--allow-unconverged"]
    assert main([*command, *limits, "--quiet", "--out", "out", "--datasets", "2"]) == 0
    made = pd.read_csv("out/synthetic_1.csv")
    assert (made[made["relation"] == "head"].groupby("hid").size() == 1).all()
    assert made["hid"].nunique() == homes["hid"].nunique()


def test_what_is_proposed_for_an_assessment_is_read_as_printed(capsys: Any) -> None:
    assert main(["start", "homes.csv", "--yes"]) == 0
    command = printed_command(capsys.readouterr().out)
    found = written()
    assert found["design"] == {"weights": "peso", "household": ["hid"]}
    assert not {"pid", "person", "income"} & set(found["keys"])
    assert "members" in found["keys"]
    assert main([*command, "--model", "skinner-holmes", "--dry-run", "--quiet"]) == 0


def test_answers_take_the_place_of_what_is_proposed(monkeypatch: Any, capsys: Any) -> None:
    """A dash is none; who has said the household is not asked for it."""
    answers = "-\n-\n71000\nage:width(10),sex,region\nn\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    assert main(["start", "homes.csv", "--household", "hid", "--out", "said.toml"]) == 0
    found = written("said.toml")
    assert found["keys"] == ["age:width(10)", "sex", "region"]
    assert found["population_size"] == 71000
    assert found["design"] == {"household": ["hid"]}
    assert "missing_values" not in found.get("data", {})
    assert not Path("zeros.toml").exists()
    asked = capsys.readouterr().err
    assert [f"{number}. " in asked for number in (1, 5, 6)] == [True, True, False]


def test_a_wrong_answer_is_asked_for_again_and_no_other_is_lost(
    homes: Any, monkeypatch: Any, capsys: Any
) -> None:
    """Each wrong answer used to end the questions, after the last of them."""
    # A remark that some have, and a weight as it is called in German.
    homes["remark"] = np.where(homes["hid"] == 3, "see the letter", "")
    homes.rename(columns={"peso": "gew"}).to_csv("homes.csv", index=False)
    Path("zeros.toml").write_text("rules = []")
    answers = [
        "eduction: 9", "education: 9", "HID", "hid", "wieght", "-", "", "7.100", "-", "71 000",
        "age,sexy", "age:log(2),sex", "age:width(10)", "age:width(10),sex,region",
    ]  # fmt: skip
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join([*answers, ""])))
    assert main(["start", "homes.csv", "--out", "said.toml"]) == 0
    found = written("said.toml")
    assert found["keys"] == ["age:width(10)", "sex", "region"]
    assert found["data"]["missing_values"] == {"education": ["9"]}
    assert found["population_size"] == 71000
    assert found["design"] == {"household": ["hid"]}
    heard = capsys.readouterr().err
    assert heard.count("Error: ") == 9
    assert heard.count("Nothing in FILE tells how many units") == 2
    assert all(f"Did you mean {name!r}" in heard for name in ("education", "hid", "sex"))
    assert "[gew]" in heard
    assert "remark" not in heard
    assert "zeros.toml is there already, so no impossible" in heard
    assert Path("zeros.toml").read_text() == "rules = []"


def test_answers_that_the_file_does_not_bear_come_back_as_options(
    monkeypatch: Any, capsys: Any
) -> None:
    answers = "-\n-\n-\n12\nage,sex,region\nn\n"
    monkeypatch.setattr("sys.stdin", io.StringIO(answers))
    assert main(["start", "homes.csv"]) == 1
    heard = capsys.readouterr().err
    (again,) = [line for line in heard.splitlines() if line.startswith("    unikat start")]
    command = shlex.split(again.replace("--population-size 12", "--population-size 9000"))[1:]
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert main(command) == 0
    assert written()["keys"] == ["age", "sex", "region"]


def test_what_cannot_be_proposed_is_asked_for_by_its_option(homes: Any, capsys: Any) -> None:
    homes.drop(columns="peso").to_csv("homes.csv", index=False)
    assert main(["start", "homes.csv", "--yes"]) == 1
    assert "--population-size N" in capsys.readouterr().err
    assert not Path("assessment.toml").exists()


def test_nothing_is_replaced_and_what_a_run_refuses_is_refused_at_once(capsys: Any) -> None:
    Path("assessment.toml").write_text("mine")
    assert main(["start", "homes.csv", "--yes"]) == 1
    assert "--overwrite" in capsys.readouterr().err
    assert main(["start", "homes.csv", "--yes", "--overwrite", "--keys", "age,sexy"]) == 1
    assert "Did you mean 'sex'" in capsys.readouterr().err
    assert Path("assessment.toml").read_text() == "mine"


def test_households_without_a_head_are_left_out_where_that_is_said(homes: Any, capsys: Any) -> None:
    """Three households lose their head, one gets a second one."""
    first = homes.index[(homes["relation"] == "head") & (homes["hid"] < 3)]
    homes.loc[first, "relation"] = "child"
    big = homes[homes["members"] > 1]["hid"].max()
    homes.loc[homes["hid"] == big, "relation"] = "head"
    homes.to_csv("homes.csv", index=False)
    options = ["--keys", "relation,age:width(10),sex,region", "--household", "hid"]
    options += ["--household-keys", "region", "--head", "relation == 'head'", "--chains", "2"]
    options += ["--max-sweeps", "40", "--workers", "1", "--allow-unconverged", "--quiet"]
    assert main(["synthesize", "homes.csv", *options, "--datasets", "2", "--out", "a"]) == 1
    remedy = "--set households.drop_headless=true"
    assert remedy in capsys.readouterr().err
    options += shlex.split(remedy)
    assert main(["synthesize", "homes.csv", *options, "--datasets", "2", "--out", "b"]) == 0
    made = pd.read_csv("b/synthetic_1.csv")
    sizes = homes[~homes["hid"].isin([0, 1, 2, big])].groupby("hid").size()
    assert sorted(made.groupby("hid").size()) == sorted(sizes)
    # Dropped twice: for their head, and for a rule.
    Path("rules.toml").write_text("rules = ['age >= 60']")
    options += ["--zeros", "rules.toml", "--zeros-conflict", "drop"]
    assert main(["synthesize", "homes.csv", *options, "--datasets", "2", "--out", "c"]) == 0
    made = pd.read_csv("c/synthetic_1.csv")
    young = homes[~homes["hid"].isin([0, 1, 2, big])].groupby("hid")["age"].max() < 60
    assert made["hid"].nunique() == young.sum()


def test_the_same_answer_twice_is_one(capsys: Any) -> None:
    options = ["--keys", "age,sex,age", "--population-size", "9000", "--dry-run", "--quiet"]
    assert main(["assess", "homes.csv", *options, "--keys", "age,sex,age"]) == 0
    assert main(["assess", "homes.csv", *options, "--keys", "age,sex"]) == 1
    assert "--keys is given 2 times" in capsys.readouterr().err


@pytest.mark.parametrize("planted", [False, True])
def test_a_code_for_who_was_not_asked_is_no_missing_value(
    homes: pd.DataFrame, capsys: Any, planted: bool
) -> None:
    """Where as many adults have the code at random, it may mean a refusal: then it is proposed."""
    generator = np.random.default_rng(3)
    child = homes["age"] < 15
    assert child.sum() >= 20
    homes["work"] = np.where(child, -1, generator.integers(1, 6, len(homes)))
    if planted:
        homes["work"] = generator.permutation(homes["work"])
    homes.to_csv("homes.csv", index=False)
    assert main(["start", "homes.csv", "--for", "synthetic", "--yes"]) == 0
    said = capsys.readouterr().err
    assert ("work: -1 is taken as a value" in said) is not planted
    missing = written("synthesis.toml")["data"]["missing_values"]
    assert missing == {"education": ["9"], **({"work": ["-1"]} if planted else {})}


@pytest.mark.parametrize("refused", [False, True])
def test_an_age_below_zero_is_that_of_babies_or_of_who_refused(
    homes: pd.DataFrame, capsys: Any, refused: bool
) -> None:
    child = homes["age"] < 15
    homes["work"] = np.where(child, -1, np.random.default_rng(3).integers(1, 6, len(homes)))
    homes.loc[homes.index[child][:2], "age"] = 0
    homes.loc[homes.index[~child if refused else child][2:5], "age"] = -1
    homes.to_csv("homes.csv", index=False)
    assert main(["start", "homes.csv", "--for", "synthetic", "--yes"]) == 0
    assert ("age: -1 is taken as a value" in capsys.readouterr().err) is not refused
    assert ("age" in written("synthesis.toml")["data"]["missing_values"]) is refused


def test_an_option_over_a_specification_is_what_is_wrong(capsys: Any) -> None:
    assert main(["start", "homes.csv", "--for", "synthetic", "--yes"]) == 0
    capsys.readouterr()
    for wrong in (["--datasets", "0"], ["--datasets", "1", "--share", "share(all same age)"]):
        assert main(["synthesize", "synthesis.toml", *wrong, "--out", "run"]) == 1
        said = capsys.readouterr().err
        assert "synthesis.toml" not in said
        assert "--datasets" in said


def test_a_look_for_rules_that_finds_none_says_so(homes: pd.DataFrame, capsys: Any) -> None:
    generator = np.random.default_rng(4)
    pd.DataFrame({f"k{n}": generator.integers(0, 3, 300) for n in range(3)}).to_csv("one.csv")
    arguments = ["start", "one.csv", "--yes", "--population-size", "9000", "--keys", "k0,k1,k2"]
    assert main(arguments) == 0
    assert "No impossible combinations were found" in capsys.readouterr().out
    assert not Path("zeros.toml").exists()


def test_an_option_without_its_value_says_what_the_value_is(capsys: Any) -> None:
    assert main(["zeros", "check", "homes.csv", "--household"]) == 1
    said = capsys.readouterr().err
    assert "--household needs a value, --household " in said
    assert "Column" in said


def test_rules_are_held_against_the_file_of_a_synthesis(capsys: Any) -> None:
    """What it says of keys, codes and households is what they are about."""
    assert main(["start", "homes.csv", "--for", "synthetic", "--yes"]) == 0
    Path("homes.toml").write_text("""rules = ['count(relation == "head") != 1', "size > 1"]""")
    capsys.readouterr()
    assert main(["zeros", "check", "synthesis.toml", "--zeros", "homes.toml"]) == 1
    ours = capsys.readouterr().out
    said = "--household hid --household-keys tenure,region --missing-values education:9"
    keys = ",".join(written("synthesis.toml")["keys"])
    rules = ["--zeros", "homes.toml", "--keys", keys, *said.split()]
    assert main(["zeros", "check", "homes.csv", *rules]) == 1
    assert capsys.readouterr().out == ours
    assert "of 120 households of homes.csv break a rule" in ours


@pytest.mark.parametrize(
    ("named", "planted", "said"),
    [
        ([], False, "have the same tenure, region. Say so: --household-keys tenure,region"),
        (["--household-keys", "region"], False, "the same tenure. Say so: --household-keys region"),
        ([], True, "the same region. Say so: --household-keys region"),
        (["--household-keys", "tenure,region"], False, ""),
    ],
)
def test_who_names_no_key_of_the_household_is_told_which_are(
    homes: pd.DataFrame, capsys: Any, named: list[str], planted: bool, said: str
) -> None:
    """A key in which a single household differs is none: naming it would be refused."""
    if planted:
        others = homes["tenure"].unique()
        first = homes.index[homes["members"] > 1][0]
        homes.loc[first, "tenure"] = others[others != homes.loc[first, "tenure"]][0]
        homes.to_csv("homes.csv", index=False)
    keys = ["--keys", "relation,age:width(5),sex,tenure,region", "--household", "hid"]
    assert main(["synthesize", "homes.csv", *keys, *named, "--dry-run"]) == 0
    found = capsys.readouterr().err
    assert said in found
    assert ("Say so: --household-keys" in found) is bool(said)
