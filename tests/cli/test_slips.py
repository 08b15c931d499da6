"""Slips of the user: what is meant is told, whatever it is called elsewhere."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.data import Design, read
from unikat.errors import SpecError

COMMANDS = ["assess", "compare", "evaluate", "protect", "synthesize", "attack", "zeros check"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"A": [1, 2, 1, 1, 2, -1] * 20, "B": [1, 2, 3, 4, 5, 6] * 20})
    frame.assign(C=[7, 8] * 60).to_csv("data.csv", index=False)
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS)
def test_help_shows_no_inner_names(command: str, capsys: Any) -> None:
    assert main([*command.split(), "--help"]) == 0
    assert "Pydantic" not in capsys.readouterr().out


@pytest.mark.parametrize("command", [*COMMANDS, "verify", "check", "apply", "zeros suggest"])
def test_help_explains_what_most_runs_need_and_names_the_rest(
    command: str, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    words = command.split()
    assert main([*words, "--help"]) == 0
    short = capsys.readouterr().out
    if command == "assess":
        assert len(short.splitlines()) <= 60
    assert main([*words, "--help", "all"]) == 0
    whole = capsys.readouterr().out
    flags = set(re.findall(r"^  (--[a-z-]+)", whole, re.MULTILINE))
    # Names are broken at the end of a line.
    joined = re.sub(r"-\n\s+", "-", short)
    assert flags <= set(re.findall(r"--[a-z-]+", joined))
    assert "--keys A,B,C" in short or command == "apply"


def test_help_of_a_synthesis_says_which_model_takes_households(capsys: Any) -> None:
    """The default model refuses the option."""
    assert main(["synthesize", "--help"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "--model households" in said.partition("--household A,B")[2].partition(" --seed")[0]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("option", ["--keys", "--target", "--threshold"])
def test_a_question_asked_twice_is_refused(command: str, option: str, capsys: Any) -> None:
    """The last one counted in silence: of two limits one was never judged."""
    asked = [*command.split(), "data.csv", option, "A,B", option, "B,C"]
    assert main(asked) == 1
    said = capsys.readouterr().err
    known = (("protect", "--target"), ("assess", "--threshold"))
    if option == "--keys" or (command, option) in known:
        assert f"{option} is given 2 times; give it once." in said


def test_missing_codes_go_with_a_design_that_is_a_name(capsys: Any) -> None:
    asked = ["--keys", "A,B", "--n", "30", "--design", "simple", "--missing-values", "-1"]
    few = ["--repeats", "1", "--models", "skinner-holmes", "--out", "out", "--quiet"]
    code = main(["evaluate", "data.csv", *asked, *few, "--allow-unconverged"])
    assert code == 1
    # The code was taken as missing, and truth needs every unit.
    assert "20 units of the population have a missing key" in capsys.readouterr().err
    assert main(["evaluate", "data.csv", *asked, *few, "--missing", "level"]) in (0, 2)
    assert "-1" in Path("out/evaluation.toml").read_text()


@pytest.mark.parametrize(
    ("other", "ours"),
    [("random_state", "seed"), ("n_chains", "chains"), ("n_jobs", "workers"), ("sep", "delimiter")],
)
def test_names_of_other_programs_lead_to_ours(other: str, ours: str, capsys: Any) -> None:
    with pytest.raises(SpecError, match=f"write {ours}="):
        unikat.assess("data.csv", keys="A,B", population_size=900, **{other: 1})  # type: ignore
    spelled = f"--{other.replace('_', '-')}"
    assert main(["assess", "data.csv", "--keys", "A,B", spelled, "1"]) == 1
    assert f"'--{ours}'" in capsys.readouterr().err


def test_a_file_without_a_header_is_told(capsys: Any) -> None:
    Path("bare.csv").write_text("1,30,m,1\n2,31,f,2\n1,32,m,1\n")
    assert main(["assess", "bare.csv", "--keys", "SEX,AGE", "--population-size", "99"]) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "write a line with the names of the columns before it" in said
    assert "30" not in said


def test_a_codebook_of_another_file_is_warned_of() -> None:
    book = {"A": {"1": "yes", "2": "no", "-1": "none"}, "B": {"1": "first"}, "CC": {"1": "x"}}
    Path("book.json").write_text(json.dumps(book))
    warnings = read("data.csv", "A,B", Design(population_size=999), codebook="book.json").warnings
    assert len(warnings) == 2
    assert "variables that data.csv does not have: CC. Did you mean 'C'?" in warnings[0]
    assert "a label for 1 of the 6 levels of B; 5 have none" in warnings[1]
    assert read("data.csv", "A,C", Design(population_size=999)).warnings == ()
    few = ["--model", "skinner-holmes", "--population-size", "9999", "--out", "out"]
    main(["assess", "data.csv", "--keys", "A,B", "--codebook", "book.json", *few])
    told = json.loads(Path("out/result.json").read_text())["warnings"]
    assert sum("codebook" in one for one in told) == 2


def test_rules_of_households_are_checked(capsys: Any) -> None:
    people = {"H": [1, 1, 2, 2, 3], "REL": [1, 2, 1, 1, 1], "AGE": [30, 10, 40, 41, 50]}
    pd.DataFrame(people).to_csv("homes.csv", index=False)
    rules = "rules = ['count(REL == 1) != 1', 'spouse.AGE < 16', 'count(AGE > 90) > 0']\n"
    Path("rules.toml").write_text(f"{rules}[roles]\nspouse = 'REL == 2'\n")
    command = ["zeros", "check", "homes.csv", "--keys", "REL,AGE", "--zeros", "rules.toml"]
    assert main([*command, "--household", "H", "--rows", "rows.csv"]) == 1
    said = capsys.readouterr()
    assert said.err == ""
    found = [line.split() for line in said.out.splitlines()]
    assert [line[-3:] for line in found[1:3]] == [["1", "33%", "3"], ["1", "33%", "1"]]
    assert "2 of 3 households of homes.csv break a rule." in said.out
    rows = pd.read_csv("rows.csv")
    assert rows["row"].tolist() == [1, 2, 3, 4]
    assert rows["rule"].tolist() == ["spouse.AGE < 16"] * 2 + ["count(REL == 1) != 1"] * 2
    assert main(command) == 1
    assert "--household COLUMN" in capsys.readouterr().err
    Path("rules.toml").write_text("rules = ['count(AGE > 90) > 0']\n")
    assert main([*command, "--household", "H"]) == 0
    assert "No household of homes.csv breaks a rule (3 households)." in capsys.readouterr().out


def test_verbs_go_with_their_number() -> None:
    frame = pd.DataFrame({"A": [1, 2] * 20, "B": [1, 1, 2, 2, 3] * 8, "C": [1, 2, 2, 1] * 10})
    frame.loc[:3, ["A", "B"]] = 9
    asked = {"keys": "A,B,C", "zeros": ["A == 9 and B == 9"], "zeros_conflict": "drop"}
    few = {"chains": 2, "max_sweeps": 20, "model": "latent-class", "datasets": 2}
    made = unikat.synthesize(frame, **asked, **few)
    said = made.summary.sentences["rows_left_out"]
    assert said.startswith("4 rows of the input break a rule and have no counterpart")
