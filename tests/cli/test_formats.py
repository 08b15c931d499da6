"""Files of other kinds than text through the command line, and again from what it wrote."""

from __future__ import annotations

import sqlite3
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unikat.cli.main import main

OPTIONS = ["--keys", "A,B,PAY:cut(20)", "--model", "individual-risk", "--weights", "W"]


@pytest.fixture
def people(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    """Records whose numbers have commas before the decimals."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"A": rng.integers(0, 9, 300), "B": rng.integers(0, 4, 300)})
    frame["PAY"] = [f"{pay:.2f}".replace(".", ",") for pay in rng.gamma(2.0, 10.0, 300)]
    frame["W"] = [f"{weight:.3f}".replace(".", ",") for weight in rng.uniform(5.0, 50.0, 300)]
    return frame


def test_a_table_with_decimal_commas(
    people: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    connection = sqlite3.connect("people.sqlite")
    people.to_sql("people", connection, index=False)
    people[:3].to_sql("notes", connection, index=False)
    connection.close()
    command = ["assess", "people.sqlite", *OPTIONS, "--quiet", "--out"]
    assert main([*command, "one"]) == 1
    assert "holds 2 tables: 'notes', 'people'" in capsys.readouterr().err
    command[-1:-1] = ["--table", "people"]
    # The weights could as well be thousands; the pay could not.
    assert main([*command, "one"]) == 1
    error = capsys.readouterr().err
    assert "column 'W': 300 of 300 values are no numbers" in error
    assert "say --decimal , (in Python: decimal=',')" in error
    command[-1:-1] = ["--decimal", ",", "--memory-limit", "500MB"]
    assert main([*command, "one"]) == 0
    written = tomllib.loads(Path("one/assessment.toml").read_text(encoding="utf-8"))["data"]
    assert (written["table"], written["decimal"], written["memory_limit"]) == (
        "people",
        ",",
        "500MB",
    )
    assert main(["assess", "one/assessment.toml", "--trust-spec", "--out", "two", "--quiet"]) == 0
    plain = people.assign(
        PAY=people["PAY"].str.replace(",", ".").astype(float),
        W=people["W"].str.replace(",", ".").astype(float),
    )
    plain.to_parquet("people.parquet")
    assert main(["assess", "people.parquet", *OPTIONS, "--quiet", "--out", "three"]) == 0
    first, *others = (
        pd.read_parquet(f"{name}/records.parquet") for name in ("one", "two", "three")
    )
    for other in others:
        pd.testing.assert_frame_equal(other, first)
    assert not Path("people.sqlite-wal").exists()


def test_options_that_are_no_values(
    people: pd.DataFrame, capsys: pytest.CaptureFixture[str]
) -> None:
    people.to_csv("people.csv", sep=";", index=False)
    for option, value, words in (
        ("--decimal", ";", "decimal is ';'"),
        ("--sheet", "x", "which has no sheets"),
        ("--memory-limit", "much", "such as --memory-limit 2GB"),
    ):
        assert main(["assess", "people.csv", *OPTIONS, option, value, "--out", "out"]) == 1
        assert words in capsys.readouterr().err
    assert not Path("out").exists()
