from __future__ import annotations

import errno
import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from unikat.cli.main import main
from unikat.spec.values import whole_number

KEYS = "AGE,SEX,WORK,PLACE"
COMMON = (
    "--keys", KEYS, "--model", "hdp", "--workers", "1", "--threads", "1", "--chains", "2",
    "--quiet",
)  # fmt: skip
FEW = ("--max-sweeps", "40")
RELAXED = {"rhat": 3.0, "ess": 4, "max_sweeps": 4000}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def people(here: Path) -> Path:
    return write_people(here / "people.csv")


def write_people(path: Path, n: int = 400, *, missing: bool = False) -> Path:
    rng = np.random.default_rng(1)
    columns = [rng.integers(20, 60, n), rng.integers(1, 3, n), *rng.geometric(0.4, (2, n))]
    rows = [[str(value) for value in row] for row in zip(*columns, strict=True)]
    if missing:
        for row in rows[::9]:
            row[2] = ""
    path.write_text(KEYS + "\n" + "".join(",".join(row) + "\n" for row in rows))
    return path


def specify(here: Path, **sampling: Any) -> Path:
    lines = [
        "population_size = 20_000",
        'model = "hdp"',
        f"keys = {json.dumps(KEYS.split(','))}",
        "[data]",
        'path = "people.csv"',
        "[sampling]",
        "chains = 2",
        "workers = 1",
        "threads = 1",
        *(f"{name} = {value}" for name, value in sampling.items()),
    ]
    path = here / "spec.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def everything(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def refused(arguments: list[str], capsys: Any, *words: str) -> str:
    """Run, assert exit code 1, one message that says the words, nothing written; return it."""
    before = everything(Path())
    assert main(arguments) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert "Traceback" not in told.err
    assert told.err.strip().count("Error:") == 1
    said = " ".join(told.err.split())
    for word in words:
        assert word in said
    assert everything(Path()) == before
    return said


def numbers(folder: Path) -> dict[str, Any]:
    result = json.loads((folder / "result.json").read_text())
    for name in ("seconds", "provenance", "sentences"):
        result.pop(name)
    return dict(result)


def test_the_main_job(people: Path, here: Path, capsys: Any) -> None:
    spec = specify(here, **RELAXED)
    assert main(["assess", str(spec)]) == 0
    told = capsys.readouterr()
    assert "sample uniques in this file" in told.out
    assert "Report: people-unikat/report.html" in told.out
    folder = here / "people-unikat"
    names = {"result.json", "records.parquet", "records-at-risk.csv", "draws.nc", "assessment.toml"}
    assert {path.name for path in folder.iterdir()} == names | {
        "report.html",
        "manifest.json",
        ".unikat",
    }
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o600 for path in folder.iterdir())
    assert pq.read_table(folder / "records.parquet").num_rows == 400
    result = numbers(folder)
    assert result["converged"]
    assert result["sample"]["population_size"] == 20_000
    assert 0 <= result["tau1"]["lower"] <= result["tau1"]["median"] <= result["tau1"]["upper"]


def test_the_written_specification_gives_the_same_numbers(people: Path, here: Path) -> None:
    spec = specify(here, seed=7, **RELAXED)
    assert main(["assess", str(spec), "--quiet", "--set", "alpha_shape=1.5", "--out", "a"]) == 0
    again = [
        "assess",
        "a/assessment.toml",
        "--trust-spec",
        "--out",
        "deep/b",
        "--workers",
        "2",
        "--quiet",
    ]
    assert main(again) == 0
    assert numbers(here / "deep" / "b") == numbers(here / "a")
    assert numbers(here / "a")["model_options"]["alpha_shape"] == 1.5
    a, b = (pq.read_table(here / name / "records.parquet") for name in ("a", "deep/b"))
    assert a.equals(b)


@pytest.mark.parametrize(
    ("written", "arguments", "options"),
    [
        ("", ["--model", "gom:components=3"], {"components": 3}),
        ("", ["--model", "gom"], {}),
        (
            "",
            ["--model", "gom:components=3:alpha=per-record", "--set", "components=4"],
            {"components": 4, "alpha": "per-record"},
        ),
        ('model = "gom:components=3"', ["--set", "alpha=per-record"],
         {"components": 3, "alpha": "per-record"}),
        ('[model]\nname = "hdp"\ncomponents = 2', ["--model", "gom:alpha=per-record"],
         {"alpha": "per-record"}),
    ],
)  # fmt: skip
def test_a_model_is_named_with_its_options(
    here: Path,
    monkeypatch: pytest.MonkeyPatch,
    written: str,
    arguments: list[str],
    options: dict[str, Any],
) -> None:
    (here / "spec.toml").write_text(written + "\n")
    seen = []

    def run(spec: Any, *_: Any, **__: Any) -> None:
        seen.append((spec.model.name, spec.model.options))
        raise KeyboardInterrupt

    monkeypatch.setattr("unikat.jobs.assess.run", run)
    assert main(["assess", "spec.toml", *arguments, "--quiet"]) == 130
    assert seen == [("gom", options)]


def test_an_unconverged_run_is_written_marked_and_resumed(
    people: Path, here: Path, capsys: Any
) -> None:
    specify(here, **RELAXED)
    run = ["assess", "spec.toml", "--out", "out"]
    assert main([*run, *FEW, "--quiet"]) == 2
    assert "--resume" in capsys.readouterr().err
    assert (here / "out" / "fits" / "model" / "sampling.checkpoint").exists()
    assert not numbers(here / "out")["converged"]
    assert "Not converged." in (here / "out" / "report.html").read_text()
    refused(
        run, capsys, "already holds an unfinished assessment", "--resume", "--overwrite", "--out"
    )
    assert main([*run, *FEW, "--resume", "--allow-unconverged"]) == 0
    assert "NOT CONVERGED" in capsys.readouterr().out
    assert main([*run, "--resume", "--quiet"]) == 0
    assert not (here / "out" / "fits" / "model" / "sampling.checkpoint").exists()
    refused([*run, "--resume"], capsys, "is finished", "nothing to resume")
    assert main(["assess", "spec.toml", "--out", "straight", "--quiet"]) == 0
    assert numbers(here / "out") == numbers(here / "straight")


def test_json_goes_to_standard_output(people: Path, here: Path, capsys: Any) -> None:
    specify(here, **RELAXED)
    assert main(["assess", "spec.toml", "--json", "--quiet"]) == 0
    told = capsys.readouterr()
    assert json.loads(told.out) == json.loads((here / "people-unikat/result.json").read_text())
    assert told.err == ""


def test_overwriting_is_asked_for(people: Path, here: Path, capsys: Any) -> None:
    specify(here, **RELAXED)
    run = ["assess", "spec.toml", "--out", "out"]
    assert main([*run, "--quiet"]) == 0
    refused(
        run,
        capsys,
        "already holds an assessment (report.html",
        "--overwrite",
        "Nothing was written",
    )
    refused([*run, "--resume"], capsys, "nothing to resume")
    refused([*run, "--resume", "--overwrite"], capsys, "exclude each other")
    assert main([*run, "--overwrite", "--quiet"]) == 0
    assert numbers(here / "out")["converged"]


def test_results_of_others_are_not_overwritten(people: Path, here: Path, capsys: Any) -> None:
    specify(here, **RELAXED)
    (here / "out").mkdir()
    (here / "out" / "result.json").write_text("somebody's")
    run = ["assess", "spec.toml", "--out", "out"]
    for way in ([], ["--overwrite"], ["--resume"]):
        refused([*run, *way], capsys, "holds result.json, which unikat did not write there")


def test_a_refused_overwrite_keeps_the_old_run(people: Path, here: Path, capsys: Any) -> None:
    specify(here, **RELAXED)
    assert main(["assess", "spec.toml", "--out", "out", "--quiet"]) == 0
    bad = ["assess", "spec.toml", "--out", "out", "--overwrite", "--keys", "AGE,NONE"]
    refused(bad, capsys, "no column 'NONE'")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.csv", "--keys", KEYS, "--population-size", "9000"], ["none.csv"]),
        (["none.toml"], ["Cannot read none.toml", "No such file"]),
        (["people.csv", "--population-size", "9000"], ["no keys"]),
        (["people.csv", "--keys", KEYS], ["population size is needed", "--population-size"]),
        (["people.csv", "--keys", KEYS, "--population-size", "399"], ["399", "400 records"]),
        (
            ["people.csv", "--keys", KEYS, "--population-size", "many"],
            ["--population-size: 'many'", "thousands", "1,000,000"],
        ),
        (["people.csv", "--keys", KEYS, "--population-size", "0"], ["at least 1"]),
        (["people.csv", "--keys", "AGE,SEXX", "--population-size", "9e3"], ["'SEXX'", "'SEX'"]),
        (["people.csv", "--keys", "AGE,SEX:cut(5", "--population-size", "9e3"], ["cut(5"]),
        (["people.csv", *COMMON, "--population-size", "9e3", "--model", "hpd"], ["'hpd'", "'hdp'"]),
        (
            ["people.csv", *COMMON, "--population-size", "9e3", "--model", "gom:3"],
            ["'3' in the model 'gom:3' is not NAME=VALUE"],
        ),
        (
            ["people.csv", *COMMON, "--population-size", "9e3", "--set", "alpha_shap=1"],
            ["no option 'alpha_shap'", "'alpha_shape'"],
        ),
        (["people.csv", *COMMON, "--population-size", "9e3", "--set", "alpha"], ["NAME=VALUE"]),
        (
            ["people.csv", *COMMON, "--population-size", "9e3", "--set", "alpha_shape=-1"],
            ["alpha_shape", "from 1e-06"],
        ),
        (
            ["people.csv", *COMMON, "--population-size", "9e3", "--level", "95", "--seed", "-1"],
            ["in 2 places", "--level is 95", "--seed is -1"],
        ),
        (["people.csv", *COMMON, "--population-size", "9e3", "--missing", "drop"], ["wildcard"]),
        (["people.csv", *COMMON, "--population-size", "9e3", "--encoding", "utf-99"], ["utf-99"]),
        (["people.csv", *COMMON, "--population-size", "9e3", "--codebook", "no.json"], ["no.json"]),
        (["people.csv", *COMMON, "--population-size", "9e3", "--out", "people.csv"], ["is a file"]),
        (
            ["people.csv", *COMMON, "--population-size", "9e3", "--out", "people.csv/x"],
            ["Not a directory"],
        ),
        (["people.csv", "--no-such-option"], ["--no-such-option"]),
        ([], ["Missing argument"]),
    ],
)
def test_bad_input(people: Path, capsys: Any, arguments: list[str], words: list[str]) -> None:
    refused(["assess", *arguments], capsys, *words)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("keys = [", ["is not a TOML file"]),
        ("keys = 3\npopulaton_size = 5", ["in 2 places", "'population_size'"]),
        ("data = 5", ["data"]),
        ("[model]\nname = 5", ["model.name"]),
        ('keys = ["AGE", "SEX"]\npopulation_size = 5000', ["No data file is named"]),
        ('schema = "unikat.assessment/9"', ["schema", "unikat.assessment/1"]),
    ],
)
def test_bad_specifications(here: Path, capsys: Any, text: str, words: list[str]) -> None:
    (here / "bad.toml").write_text(text)
    refused(["assess", "bad.toml"], capsys, *words)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("9000", 9000), ("9,000", 9000), ("1,000,000", 10**6), ("1_000_000", 10**6),
        ("1e6", 10**6), ("2.5E+3", 2500), ("-5", -5), ("1e17", 10**17), ("50 000", 50_000),
        ("1\u00a0000\u00a0000", 10**6), ("1\u202f000", 1000),
    ],
)  # fmt: skip
def test_numbers_as_people_write_them(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize(
    "text",
    ["1,5", "1,00,000", "10,0000", ",000", "1,000,", "1,000_000", "1_0", "_1", "1.000.000",
     "9000.0", "1.25e1", "1e-3", "1e999", "1,000e3", "", "1 00", "1 0000", "1 000,000",
     "\u0661"],
)  # fmt: skip
def test_commas_and_spaces_only_separate_thousands(text: str) -> None:
    with pytest.raises(ValueError, match=r"thousands.*1,000,000"):
        whole_number(text)


def test_missing_tokens_have_to_be_named(here: Path, capsys: Any) -> None:
    text = write_people(here / "gaps.csv", missing=True).read_text()
    (here / "gaps.csv").write_text(text.replace(",,", ",NA,"))
    run = ["assess", "gaps.csv", *COMMON, *FEW, "--population-size", "9,000"]
    refused(run, capsys, "45 record(s) hold NA", "--missing-values NA", "codebook")
    assert main([*run, "--missing-values", "NA", "--allow-unconverged"]) == 0
    result = numbers(here / "gaps-unikat")
    assert {key["name"]: key["n_missing"] for key in result["keys"]}["WORK"] == 45


def test_a_census_with_wildcards_is_not_beyond_doubt(here: Path, capsys: Any) -> None:
    (here / "gaps.csv").write_text("A,B\n1,1\n1,2\n2,1\n2,\n" + "3,3\n" * 4)
    run = ["assess", "gaps.csv", "--keys", "A,B", "--missing", "wildcard"]
    assert main([*run, "--population-size", "8"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "unique in the population." in told
    assert "known exactly" not in told
    assert any("(wildcard)" in warning for warning in numbers(here / "gaps-unikat")["warnings"])


def test_no_value_of_a_record_is_told(here: Path, capsys: Any) -> None:
    text = KEYS + "\n" + "SECRET,1,2,3\n" * 3 + "SECRET,1\n"
    (here / "ragged.csv").write_text(text)
    assert main(["assess", "ragged.csv", "--keys", KEYS, "--population-size", "99"]) == 1
    assert "SECRET" not in capsys.readouterr().err


def test_a_census_is_known_exactly(people: Path, here: Path, capsys: Any) -> None:
    assert main(["assess", "people.csv", "--keys", KEYS, "--population-size", "400"]) == 0
    assert "This is known exactly." in capsys.readouterr().out
    result = numbers(here / "people-unikat")
    assert result["known_exactly"]
    assert result["tau1"]["mean"] == result["sample"]["n_uniques"] > 0
    assert not (here / "people-unikat" / "draws.nc").exists()


def test_no_sample_uniques(here: Path, capsys: Any) -> None:
    (here / "twins.csv").write_text("A,B\n" + "1,1\n2,2\n" * 20)
    assert main(["assess", "twins.csv", "--keys", "A,B", "--population-size", "4000"]) == 0
    assert "The file has no sample unique on these keys" in capsys.readouterr().out
    assert numbers(here / "twins-unikat")["tau2"]["upper"] == 0
    assert "The file has no sample unique" in (here / "twins-unikat" / "report.html").read_text()


def test_a_very_large_population(people: Path, here: Path) -> None:
    run = ["assess", "people.csv", *COMMON, *FEW, "--population-size", "1_000_000_000_000"]
    assert main([*run, "--allow-unconverged"]) == 0
    assert numbers(here / "people-unikat")["tau1_expected"]["mean"] < 1


@pytest.mark.parametrize("how", ["integrate", "level", "wildcard"])
def test_missing_values_are_counted(here: Path, how: str) -> None:
    write_people(here / "gaps.csv", missing=True)
    run = ["assess", "gaps.csv", *COMMON, *FEW, "--population-size", "9,000", "--missing", how]
    assert main([*run, "--allow-unconverged"]) == 0
    result = numbers(here / "gaps-unikat")
    assert {key["name"]: key["n_missing"] for key in result["keys"]}["WORK"] == 45
    assert result["sample"]["missing"] == how


@pytest.mark.parametrize("nth", [1, 2, 4, 7])
def test_a_full_disk(
    people: Path, here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, nth: int
) -> None:
    real, calls = os.fsync, 0

    def full(handle: int) -> None:
        nonlocal calls
        calls += 1
        if calls >= nth:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    assert main(["assess", "people.csv", *COMMON, *FEW, "--population-size", "9000"]) == 1
    told = capsys.readouterr().err
    assert "the disk is full" in told
    assert "Traceback" not in told
    left = {path.name for path in (here / "people-unikat").glob("*")}
    assert left <= {"fits", ".unikat"}


@pytest.mark.parametrize("command", ["assess", "synthesize", "compare"])
def test_a_full_disk_keeps_the_run_that_is_replaced(
    people: Path, here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    run = [command, "people.csv", *FEW, "--out", "out", "--quiet"]
    model = "--models" if command == "compare" else "--model"
    run += ["--keys", "AGE,SEX,WORK", model, "latent-class", "--allow-unconverged"]
    if command != "synthesize":
        run += ["--population-size", "9000"]
    if command == "compare":
        run += ["--held-out", "0"]
    assert main(run) == 0
    before = content(here / "out")
    (kept,) = (path for path in before if path.name == "sampling.checkpoint")

    def full(handle: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert main([*run, "--overwrite", "--seed", "2"]) == 1
    assert "The earlier checkpoint is still whole" in " ".join(capsys.readouterr().err.split())
    assert content(here / "out") == before
    # It is replaced as soon as there is another.
    assert main([*run, "--overwrite", "--seed", "2"]) == 0
    assert content(here / "out")[kept] != before[kept]


def content(folder: Path) -> dict[Path, bytes]:
    """All files of a folder and of those in it."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_an_unconverged_run_without_its_checkpoint_is_not_called_finished(
    people: Path, here: Path, capsys: Any
) -> None:
    run = ["assess", "people.csv", *COMMON, *FEW, "--population-size", "9000", "--out", "out"]
    assert main([*run, "--allow-unconverged"]) == 0
    shutil.rmtree(here / "out" / "fits")
    refused([*run, "--resume"], capsys, "has not converged, but its fits", "--overwrite")


def test_a_damaged_checkpoint(people: Path, here: Path, capsys: Any) -> None:
    run = ["assess", "people.csv", *COMMON, *FEW, "--population-size", "9000"]
    assert main(run) == 2
    path = here / "people-unikat" / "fits" / "model" / "sampling.checkpoint"
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    capsys.readouterr()
    refused([*run, "--resume"], capsys, "damaged", "checksum")


def test_a_checkpoint_of_another_run(people: Path, here: Path, capsys: Any) -> None:
    run = ["assess", "people.csv", *COMMON, *FEW, "--population-size", "9000"]
    assert main(run) == 2
    capsys.readouterr()
    refused([*run, "--resume", "--seed", "2"], capsys, "belongs to another run")


def test_an_interrupt_before_anything_is_done(
    people: Path, here: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("unikat.studies.fit.sample", interrupted)
    assert main(["assess", "people.csv", *COMMON, "--population-size", "9000"]) == 130
    assert "Interrupted" in capsys.readouterr().err
    assert not (here / "people-unikat").exists()
