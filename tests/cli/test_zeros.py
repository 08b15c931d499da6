"""Impossible combinations on the command line: what is told, written and refused."""

from __future__ import annotations

import html
import json
import os
import stat
import tomllib
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from unikat.cli.main import main
from unikat.jobs import zeros as work

from .test_assess import KEYS, everything, refused, write_people

# WORK and PLACE are 1, 2, 3, ...; the sample has both at their ends.
RULES = ["AGE < 30 and WORK > 90", "SEX == 1 and PLACE == 1 and AGE < 23"]
PEACEFUL = ["SEX == 1 and WORK == 1 and PLACE == 9"]
SHORT = (
    "--keys", KEYS, "--population-size", "20000", "--workers", "1", "--threads", "1",
    "--chains", "2", "--max-sweeps", "40", "--model", "hdp", "--quiet", "--allow-unconverged",
)  # fmt: skip


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    write_people(tmp_path / "people.csv")
    return tmp_path


def rules(*texts: Any, path: str = "zeros.toml", **more: Any) -> Path:
    from unikat.files.toml import write_toml

    Path(path).write_text(write_toml({"rules": list(texts), **more}))
    return Path(path)


def rows_with(rule: Any) -> list[int]:
    lines = Path("people.csv").read_text().splitlines()[1:]
    people = [list(map(int, line.split(","))) for line in lines]
    return [row for row, person in enumerate(people, start=1) if rule(*person)]


def young_men(age: int, sex: int, work: int, place: int) -> bool:
    return sex == 1 and place == 1 and age < 23


CONFLICT = "SEX == 1 and PLACE == 1 and AGE < 23"


def numbers(folder: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads((Path(folder) / "result.json").read_text())
    for name in ("seconds", "provenance"):
        del result[name]
    return result


def test_a_run_with_rules_says_so_everywhere_and_is_repeated_without_their_file(here: Path) -> None:
    zeros = rules({"rule": PEACEFUL[0], "name": "no work"}, "AGE < 21 and PLACE == 8")
    assert main(["assess", "people.csv", *SHORT, "--zeros", str(zeros), "--out", "a"]) == 0
    found = numbers("a")["zeros"]
    assert [(rule["name"], rule["text"]) for rule in found["rules"]] == [
        ("no work", PEACEFUL[0]),
        (None, "AGE < 21 and PLACE == 8"),
    ]
    assert (found["on_conflict"], found["n_conflicts"]) == ("stop", 0)
    assert 0 < found["n_impossible"] < found["n_cells"]
    page = (here / "a" / "report.html").read_text()
    assert "no work: <code>SEX == 1 and WORK == 1 and PLACE == 9</code>" in page
    assert "Impossible combinations are as declared" in page
    written = tomllib.loads((here / "a" / "assessment.toml").read_text())["zeros"]
    assert written == {
        "rules": [{"rule": PEACEFUL[0], "name": "no work"}, "AGE < 21 and PLACE == 8"],
        "tables": [],
        "on_conflict": "stop",
    }
    zeros.unlink()
    again = [
        "assess",
        "a/assessment.toml",
        "--trust-spec",
        "--out",
        "b",
        "--quiet",
        "--allow-unconverged",
    ]
    assert main(again) == 0
    assert numbers("b") == numbers("a")


def test_without_rules_nothing_is_said_of_them(here: Path) -> None:
    assert main(["assess", "people.csv", *SHORT, "--out", "a"]) == 0
    assert numbers("a")["zeros"] is None
    assert "zeros" not in tomllib.loads((here / "a" / "assessment.toml").read_text())
    assert "conflict" not in pq.read_schema(here / "a" / "records.parquet").names
    assert "<h2>Impossible combinations</h2>" not in (here / "a" / "report.html").read_text()


@pytest.mark.parametrize("policy", ["drop", "missing"])
def test_records_that_break_a_rule_keep_their_row(here: Path, policy: str) -> None:
    rows = rows_with(young_men)
    assert rows
    zeros = rules(CONFLICT)
    command = ["assess", "people.csv", *SHORT, "--zeros", str(zeros), "--zeros-conflict", policy]
    assert main([*command, "--out", "a"]) == 0
    found = numbers("a")
    dropped = len(rows) if policy == "drop" else 0
    assert found["zeros"]["on_conflict"] == policy
    assert found["zeros"]["n_conflicts"] == len(rows)
    assert found["zeros"]["n_dropped"] == dropped
    assert found["zeros"]["n_set_missing"] == len(rows) - dropped
    assert found["sample"]["n_records"] == 400 - dropped
    assert found["sample"]["n_incomplete"] == len(rows) - dropped
    table = pq.read_table(here / "a" / "records.parquet").to_pylist()
    assert [record["row"] for record in table] == list(range(1, 401))
    said = {"drop": "left out", "missing": "keys set missing"}[policy]
    assert [record["row"] for record in table if record["conflict"] == said] == rows
    assert {record["conflict"] for record in table} == {said, None}
    for record in table:
        gone = policy == "drop" and record["row"] in rows
        assert (record["f"] is None) == (record["r2"] is None) == gone
        assert not gone or record["sample_unique"] is record["r1"] is record["key_1"] is None
    # The rows named in the report are rows of the file.
    risks = {record["row"]: record["r1"] for record in table}
    for top in found["records"]["top"]:
        assert risks[top["row"]] == pytest.approx(top["r1"])
    again = [
        "assess",
        "a/assessment.toml",
        "--trust-spec",
        "--out",
        "b",
        "--quiet",
        "--allow-unconverged",
    ]
    assert main(again) == 0
    assert numbers("b") == found
    assert f"{len(rows)} rows of the file break a rule" in (here / "a" / "report.html").read_text()


@pytest.mark.parametrize("command", ["assess", "compare", "evaluate"])
def test_conflicts_stop_before_anything_is_written(command: str, capsys: Any) -> None:
    rows = rows_with(young_men)
    options = ["--keys", KEYS, "--zeros", str(rules(CONFLICT)), "--quiet"]
    options += ["--n", "50"] if command == "evaluate" else ["--population-size", "20000"]
    options += ["--models", "hdp"] if command != "assess" else []
    listed = ", ".join(map(str, rows[:5]))
    refused(
        [command, "people.csv", *options, "--out", "a"],
        capsys,
        f"{len(rows)} of 400 records break a rule",
        f"{CONFLICT}: {len(rows)} rows ({listed}",
        "--zeros-conflict drop",
        "--zeros-conflict missing",
    )


def test_a_study_and_a_comparison_list_the_rules(here: Path, capsys: Any) -> None:
    zeros = ["--zeros", str(rules({"rule": CONFLICT, "name": "young men"}))]
    zeros += ["--zeros-conflict", "drop"]
    few = ["--chains", "2", "--max-sweeps", "40", "--workers", "1"]
    few += ["--allow-unconverged", "--keys", KEYS, "--models", "hdp"]
    n = len(rows_with(young_men))
    study = ["evaluate", "people.csv", *few, *zeros, "--n", "50", "--repeats", "1"]
    assert main([*study, "--out", "study"]) == 0
    told = capsys.readouterr().out
    compared = ["compare", "people.csv", *few, *zeros, "--population-size", "20000"]
    assert main([*compared, "--out", "models"]) == 0
    for text in (told, capsys.readouterr().out):
        said = " ".join(text.split())
        assert "combinations of the keys were declared impossible" in said
        assert f"{n} rows of the file break a rule and were left out" in said
    for folder, page in (("study", "evaluation"), ("models", "comparison")):
        facts = json.loads((here / folder / "summary.json").read_text())["zeros"]
        assert (facts["n_dropped"], facts["rules"][0]["name"]) == (n, "young men")
        text = (here / folder / f"{page}.html").read_text()
        assert f"young men: <code>{html.escape(CONFLICT)}</code>" in text
        assert f"{n} rows of the file break a rule and were left out" in text
    assert (
        json.loads((here / "study" / "summary.json").read_text())["population"]["n_units"]
        == 400 - n
    )
    again = ["evaluate", "study/evaluation.toml", "--trust-spec", "--out", "again", "--quiet"]
    assert main([*again, "--allow-unconverged"]) == 0
    tables = [pq.read_table(f"{name}/evaluation.parquet") for name in ("study", "again")]
    assert tables[0].drop(["seconds"]).equals(tables[1].drop(["seconds"]))


def test_a_study_needs_every_key_of_every_unit(here: Path, capsys: Any) -> None:
    run = ["evaluate", "people.csv", "--keys", KEYS, "--n", "60", "--zeros", str(rules(CONFLICT))]
    words = ("break a rule of what is impossible", "--zeros-conflict drop")
    refused([*run, "--zeros-conflict", "missing", "--out", "a", "--quiet"], capsys, *words)


def test_an_answer_that_cannot_be_printed_is_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    import click

    def full(*_: Any, err: bool = False, **__: Any) -> None:
        if not err:
            raise OSError(28, "No space left on device")
        told.append(_[0])

    told: list[str] = []
    monkeypatch.setattr(click, "echo", full)
    zeros = str(rules(*PEACEFUL))
    assert main(["zeros", "check", "people.csv", "--keys", KEYS, "--zeros", zeros]) == 1
    assert any("Cannot write to standard output: No space left on device" in text for text in told)


def test_strata_follow_the_units_that_are_left(here: Path) -> None:
    options = ["--keys", KEYS, "--models", "hdp", "--n", "60", "--repeats", "1", "--chains", "2"]
    options += ["--max-sweeps", "40", "--quiet", "--allow-unconverged", "--workers", "1"]
    options += ["--zeros", str(rules(CONFLICT)), "--zeros-conflict", "drop"]
    study = ["evaluate", "people.csv", *options, "--design", "stratified", "--strata", "SEX"]
    assert main([*study, "--out", "a"]) == 0


def test_a_table_of_conditions_is_named_directly_and_counts_from_its_file(here: Path) -> None:
    (here / "deep").mkdir()
    (here / "deep" / "never.csv").write_text("SEX,WORK,PLACE\n1,1,9\n1,1,8\n")
    direct = ["assess", "people.csv", *SHORT, "--zeros", "deep/never.csv", "--out", "a"]
    assert main(direct) == 0
    rules(path="deep/zeros.toml", tables=["never.csv"])
    listed = ["assess", "people.csv", *SHORT, "--zeros", "deep/zeros.toml", "--out", "b"]
    assert main(listed) == 0
    assert numbers("a") == numbers("b")
    assert numbers("a")["zeros"]["rules"][0]["text"] == "2 conditions of never.csv"
    written = tomllib.loads((here / "a" / "assessment.toml").read_text())["zeros"]
    assert written["tables"] == ["../deep/never.csv"]
    assert main(["assess", "a/assessment.toml", "--trust-spec", "--out", "c", *SHORT[-2:]]) == 0
    assert numbers("c") == numbers("a")


def test_rules_stand_in_a_specification_too(here: Path) -> None:
    (here / "never.csv").write_text("SEX,WORK,PLACE\n1,1,9\n")
    (here / "spec.toml").write_text(
        f'keys = "{KEYS}"\npopulation_size = 20_000\nmodel = "hdp"\n'
        '[data]\npath = "people.csv"\n'
        f"[zeros]\nrules = ['{CONFLICT}']\ntables = ['never.csv']\n"
        "[sampling]\nchains = 2\nmax_sweeps = 40\nworkers = 1\n"
    )
    run = ["assess", "spec.toml", "--quiet", "--allow-unconverged", "--zeros-conflict", "drop"]
    assert main([*run, "--out", "a"]) == 0
    assert numbers("a")["zeros"]["n_dropped"] == len(rows_with(young_men))


def test_a_table_is_read_in_the_encoding_of_the_data(here: Path, capsys: Any) -> None:
    lines = ["Größe,SEX", *(f"{size},{sex}" for size in ("groß", "klein") for sex in (0, 1, 0))]
    (here / "sizes.csv").write_text("\n".join(lines), encoding="latin-1")
    (here / "never.csv").write_text("Größe,SEX\ngroß,1\n", encoding="latin-1")
    asked = ["sizes.csv", "--keys", "Größe,SEX", "--encoding", "latin-1"]
    assert main(["zeros", "check", *asked, "--zeros", "never.csv"]) == 1
    assert "1 of 6 rows of sizes.csv breaks a rule." in capsys.readouterr().out
    assert main(["zeros", "disjoint", *asked, "--zeros", "never.csv", "--out", "utf8.csv"]) == 0
    assert (here / "utf8.csv").read_text(encoding="utf-8").splitlines()[1] == '"groß","1"'
    assert main(["zeros", "check", *asked, "--zeros", "utf8.csv"]) == 1


def test_a_rule_in_a_specification_that_is_no_text(here: Path, capsys: Any) -> None:
    (here / "spec.toml").write_text(
        f'keys = "{KEYS}"\npopulation_size = 20_000\n[data]\npath = "people.csv"\n'
        "[zeros]\nrules = [{ rule = 3 }]\n"
    )
    said = "spec.toml is not valid: zeros.rules: entry 1: its rule is 3; it must be a text such as"
    refused(["assess", "spec.toml", "--out", "a"], capsys, said)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("rules = ['AGE < 14 and WOKR > 2']", ["Rule 1", "WOKR", "Did you mean 'WORK'", "^"]),
        ("rules = ['SEX == 1 and WORK == 9', 'SEX == 7']", ["Rule 2", "SEX", "7"]),
        ("rules = ['SEX == 1 and']", ["Rule 1", "expected here", "^"]),
        ("rules = [{rule = 'SEX = 1', name = 'men'}]", ["Rule 'men'", "write ==", "^"]),
        ("rules = []", ["there are no rules"]),
        ("", ["there are no rules"]),
        ("rules = 'SEX == 1'", ["rules", "must be a list"]),
        ("rules = [3]", ["rules: entry 1"]),
        ("rule = ['SEX == 1']", ["rule: no such name. Did you mean 'rules'"]),
        ("rules = ['SEX == 1'", ["is not a TOML file"]),
        ("rules = ['SEX == 1', 3]", ["rules: entry 2 is neither a text such as"]),
        ("rules = [{ rul = 'SEX == 1' }]", ["rules: entry 1 is neither a text such as"]),
        (
            "rules = ['SEX == 1', { rule = 3 }]",
            ["rules: entry 2: its rule is 3; it must be a text such as 'AGE < 14"],
        ),
        (
            "rules = [{ rule = 'SEX == 1', name = 3 }]",
            ["rules: entry 1: its name is 3; it must be a text, in quotes, or be left out."],
        ),
        ("rules = [{ rule = ['SEX == 1'] }]", ["rules: entry 1: its rule is a list;"]),
        ("[zeros]\nrules = ['SEX == 1']", ["has a table [zeros]", "take the line [zeros] out"]),
        ("rules = ['SEX == 1']\non_conflict = 'ignore'", ["on_conflict", "stop, drop or missing"]),
        ("rules = ['SEX in (1, 2)']", ["Rule 1", "forbids everything"]),
        ("tables = [3]", ["tables.0 is 3; it must be the path of a file."]),
        ("tables = ['wrong.csv']", ["wrong.csv", "'AEG'", "Did you mean 'AGE'"]),
        ("tables = ['nothing.csv']", ["nothing.csv"]),
    ],
)
@pytest.mark.parametrize("command", [["assess", "--population-size", "20000"], ["zeros", "check"]])
def test_wrong_rules_are_told_with_their_file(
    here: Path, capsys: Any, content: str, words: list[str], command: list[str]
) -> None:
    (here / "wrong.csv").write_text("AEG,SEX\n30,1\n")
    (here / "zeros.toml").write_text(content + "\n")
    out = ["--out", "a"] if command[0] == "assess" else []
    first, *more = command
    arguments = [first, *more, "people.csv", "--keys", KEYS, "--quiet", *out]
    refused([*arguments, "--zeros", "zeros.toml"], capsys, *words)
    main([*arguments, "--zeros", "zeros.toml"])
    assert "zeros.toml" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--zeros", "nothing.toml"], ["Cannot read nothing.toml: No such file"]),
        (["--zeros", "."], []),
        (["--zeros", "folder.toml"], ["Cannot read folder.toml"]),
        (["--zeros-conflict", "drop"], ["there are no rules", "--zeros zeros.toml"]),
        (["--zeros-conflict", "ignore"], ["--zeros-conflict", "ignore"]),
    ],
)
def test_wrong_files_are_refused(
    here: Path, capsys: Any, arguments: list[str], words: list[str]
) -> None:
    (here / "folder.toml").mkdir()
    run = ["assess", "people.csv", "--keys", KEYS, "--population-size", "20000", "--quiet"]
    refused([*run, *arguments, "--out", "a"], capsys, *words)


def test_check_tells_rows_by_rule_and_in_all(
    here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Wide enough for the numbers of all rows.
    monkeypatch.setenv("COLUMNS", "500")
    rows = rows_with(young_men)
    zeros = rules({"rule": CONFLICT, "name": "young men"}, PEACEFUL[0])
    command = ["zeros", "check", "people.csv", "--keys", KEYS, "--zeros", str(zeros)]
    assert main([*command, "--rows", "rows.csv"]) == 1
    lines = [line.split() for line in capsys.readouterr().out.splitlines() if line]
    share = f"{100 * len(rows) / 400:.1f}%"
    assert lines[1][:2] == ["young", "men"]
    assert lines[1][3:5] == [str(len(rows)), share]
    assert lines[1][5:] == ", ".join(map(str, rows)).split()
    assert lines[2][-2:] == ["0", "0%"]
    assert lines[3][:2] == ["all", "together"]
    assert stat.S_IMODE((here / "rows.csv").stat().st_mode) == 0o600
    assert (here / "rows.csv").read_text().splitlines() == [
        '"row","rule","condition"',
        *(f'{row},"young men",' for row in rows),
    ]
    assert main([*command, "--rows", "rows.csv"]) == 1
    assert "exists already" in capsys.readouterr().err
    assert main([*command, "--rows", "rows.csv", "--overwrite", "--quiet"]) == 1
    assert capsys.readouterr().out == ""


def test_check_tells_which_conditions_of_a_table_are_broken(here: Path, capsys: Any) -> None:
    Path("cannot.csv").write_text("SEX,PLACE,WORK\n1,1,\n1,9,1\n,2,\n")
    first = rows_with(lambda age, sex, work, place: sex == 1 and place == 1)
    third = rows_with(lambda age, sex, work, place: place == 2)
    command = ["zeros", "check", "people.csv", "--keys", KEYS, "--zeros", "cannot.csv"]
    assert main([*command, "--rows", "rows.csv"]) == 1
    lines = capsys.readouterr().out.splitlines()
    told = {line.strip().split("  ")[0]: line.split() for line in lines[2:4]}
    names = {'SEX == "1" and PLACE == "1"': first, 'PLACE == "2"': third}
    assert set(told) == set(names)
    for name, rows in names.items():
        assert f"{len(rows)}" in told[name]
    # Those that most rows break come first.
    assert lines[2].strip().startswith(max(names, key=lambda name: len(names[name])))
    assert lines == [line.rstrip() for line in lines]
    written = (here / "rows.csv").read_text().splitlines()
    assert len(written) == 1 + len(first) + len(third)
    assert f'{first[0]},"3 conditions of cannot.csv","SEX == ""1"" and PLACE == ""1"""' in written


def test_check_is_content_where_no_row_breaks_a_rule(capsys: Any) -> None:
    command = ["zeros", "check", "people.csv", "--keys", KEYS, "--zeros", str(rules(*PEACEFUL))]
    assert main(command) == 0
    assert "No row of people.csv breaks a rule (400 rows)." in capsys.readouterr().out


@pytest.mark.parametrize("name", ["never.csv", "never.parquet"])
def test_disjoint_conditions_read_back_as_the_same_rules(
    here: Path, capsys: Any, name: str
) -> None:
    zeros = rules(CONFLICT, PEACEFUL[0], "AGE >= 50 and SEX == 2")
    common = ["people.csv", "--keys", KEYS]
    write = ["zeros", "disjoint", *common, "--zeros", str(zeros), "--out", name]
    assert main(write) == 0
    assert stat.S_IMODE((here / name).stat().st_mode) == 0o600
    capsys.readouterr()
    said = []
    for source in (str(zeros), name):
        main(["zeros", "check", *common, "--zeros", source])
        said.append(capsys.readouterr().out.splitlines()[-3:])
    assert said[0] == said[1]
    again = ["zeros", "disjoint", *common, "--zeros", name, "--out", f"again-{name}", "--quiet"]
    assert main(again) == 0
    assert (here / name).read_bytes() == (here / f"again-{name}").read_bytes()
    refused(write, capsys, "exists already", "--overwrite")
    assert main([*write, "--overwrite", "--quiet"]) == 0


def test_suggestions_are_comments_until_they_are_accepted(here: Path, capsys: Any) -> None:
    lines = ["AGE,MARRIED"]
    lines += [
        f"{age},{married}"
        for age in range(10, 30)
        for married in "ny"
        if age > 15 or married == "n"
    ] * 30
    (here / "couples.csv").write_text("\n".join(lines) + "\n")
    command = ["zeros", "suggest", "couples.csv", "--keys", "AGE,MARRIED"]
    assert main([*command, "--out", "found.toml"]) == 0
    told = capsys.readouterr().out
    assert "MARRIED" in told
    assert "judge each" in told
    text = (here / "found.toml").read_text()
    assert tomllib.loads(text) == {"rules": []}
    assert stat.S_IMODE((here / "found.toml").stat().st_mode) == 0o600
    accepted = text.replace("    # 'A", "    'A")
    assert len(tomllib.loads(accepted)["rules"]) == 1
    (here / "accepted.toml").write_text(accepted)
    assert main([*command, "--out", "active.toml", "--active", "--quiet"]) == 0
    for name in ("accepted.toml", "active.toml"):
        check = ["zeros", "check", "couples.csv", "--keys", "AGE,MARRIED", "--zeros", name]
        assert main([*check, "--quiet"]) == 0
    assert capsys.readouterr().out == ""
    # What is known is not suggested again.
    assert main([*command, "--zeros", "active.toml"]) == 0
    assert capsys.readouterr().out == "No combination is missing beyond chance.\n"


def test_keys_that_are_not_looked_at_together_are_told(here: Path, capsys: Any) -> None:
    lines = ["A,B,C,D", *(f"{i // 2},{i // 2},{i % 2},{i % 3}" for i in range(1600))]
    (here / "wide.csv").write_text("\n".join(lines) + "\n")
    command = ["zeros", "suggest", "wide.csv", "--keys", "A,B,C,D", "--most", "1"]
    assert main([*command, "--out", "found.toml"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "Not looked at together" in told
    assert "1,000,000: A, B, C; A, B, D." in told
    assert "Not looked at together" in (here / "found.toml").read_text()
    tomllib.loads((here / "found.toml").read_text())
    assert main([*command, "--together", "2"]) == 0
    assert "Not looked at" not in capsys.readouterr().out


def test_a_list_that_was_cut_says_so(here: Path, capsys: Any) -> None:
    lines = ["X,Y,Z", *(f"{i % 2},{i % 2},{i % 2}" for i in range(400))]
    (here / "same.csv").write_text("\n".join(lines) + "\n")
    command = ["zeros", "suggest", "same.csv", "--keys", "X,Y,Z"]
    assert main([*command, "--most", "1"]) == 0
    assert "No more than 1 are listed; --most" in " ".join(capsys.readouterr().out.split())
    assert main(command) == 0
    assert "--most" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["check"], ["There are no rules", "--zeros FILE"]),
        (["disjoint", "--out", "a.csv"], ["There are no rules"]),
        (["disjoint", "--zeros", "zeros.toml", "--out", "a.xlsx"], [".csv or .parquet"]),
        (["disjoint", "--zeros", "zeros.toml", "--out", "no/a.csv"], ["does not exist"]),
        (["disjoint", "--zeros", "zeros.toml"], ["--out"]),
        (["suggest", "--together", "4"], ["--together 4 must be 2 or 3"]),
        (["suggest", "--together", "x"], ["--together", "not a whole number"]),
        (["suggest", "--most", "0"], ["--most 0 must be at least 1"]),
        (["suggest", "--out", "."], ["is a folder"]),
        (["suggest", "--out", "a.csv"], ["must end in .toml"]),
        (["suggest", "--out", "/dev/null", "--overwrite"], ["is a device"]),
        (["check", "--zeros", "zeros.toml", "--rows", "/dev/null", "--overwrite"], ["a device"]),
        (["check", "--zeros", "zeros.toml", "--rows", "."], ["is a folder"]),
    ],
)
def test_wrong_options_of_the_commands(capsys: Any, arguments: list[str], words: list[str]) -> None:
    rules(*PEACEFUL)
    command, *more = arguments
    refused(["zeros", command, "people.csv", "--keys", KEYS, *more, "--quiet"], capsys, *words)


def test_no_file_is_left_after_an_interrupt(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    before = everything(here)
    zeros = str(rules(*PEACEFUL))
    monkeypatch.setattr(work, "tabulate", interrupted)
    for command in (["check", "--rows", "a.csv"], ["disjoint", "--out", "a.csv"]):
        run = ["zeros", *command, "people.csv", "--keys", KEYS, "--zeros", zeros, "--quiet"]
        assert main(run) == 130
    os.unlink(zeros)
    assert everything(here) == before


def test_an_input_is_not_replaced_by_a_command_on_rules(tmp_path: Path, capsys: Any) -> None:
    data, rules = tmp_path / "d.csv", tmp_path / "rules.toml"
    data.write_text("A,B\n" + "1,1\n2,2\n1,2\n2,1\n" * 5)
    rules.write_text("rules = ['A == 1 and B == 1']\n")
    before = {path: path.read_bytes() for path in (data, rules)}
    link = tmp_path / "link.csv"
    link.symlink_to(data)
    common = [str(data), "--keys", "A,B", "--zeros", str(rules), "--overwrite"]
    for target in (data, link, tmp_path / "x" / ".." / "d.csv"):
        (tmp_path / "x").mkdir(exist_ok=True)
        assert main(["zeros", "check", *common, "--rows", str(target)]) == 1
        assert "would write" in capsys.readouterr().err
    assert main(["zeros", "disjoint", *common, "--out", str(data)]) == 1
    assert main(["zeros", "suggest", *common, "--out", str(rules)]) == 1
    assert capsys.readouterr().err.count("would write") == 2
    assert {path: path.read_bytes() for path in (data, rules)} == before
