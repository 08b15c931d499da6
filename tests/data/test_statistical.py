"""SPSS, Stata and SAS files: labels stay labels, and declared missing codes are missing."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

from data.decoding import decoded
from data.measured import needed
from unikat.data import Design, read
from unikat.data.statistical import StatisticalSource
from unikat.errors import DataError, UnikatError

pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'stat' is not installed")

DESIGN = Design(population_size=1000)


def test_spss(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "SEX": [1.0, 2, 9, None, 1, 98],
            "TOWN": ["01", "", "02", "zz", "01", "02"],
            "AGE": [30.0, 41, 30, 41, 30, 41],
            "WEIGHT": [0.5] * 6,
        }
    )
    for suffix, compress in (("sav", False), ("zsav", True)):
        path = tmp_path / f"x.{suffix}"
        pyreadstat.write_sav(
            frame,
            path,
            row_compress=False,
            compress=compress,
            missing_ranges={"SEX": [9, {"lo": 97, "hi": 99}], "TOWN": ["zz"]},
            variable_value_labels={"SEX": {1: "male", 2: "female", 3: "other", 9: "refused"}},
        )
        microdata = read(path, "SEX,TOWN,AGE", DESIGN)
        assert microdata.n_missing == (3, 2, 0)
        assert microdata.keys[0].levels == (1, 2)
        assert microdata.keys[0].labels == ("male", "female")
        rows = decoded(microdata.tabulate())
        assert rows["SEX"].tolist() == [1, 2, None, None, 1, None]
        assert rows["TOWN"].tolist() == ["01", None, "02", None, "01", "02"]
        added = microdata.with_columns({"risk": [0.0] * 6})
        assert isinstance(added, pa.Table)
        assert added["SEX"].to_pylist() == [1, 2, 9, None, 1, 98]
        assert added.column_names == ["SEX", "TOWN", "AGE", "WEIGHT", "risk"]
        with pytest.raises(UnikatError, match=r"no column 'WIEGHT'.* Did you mean 'WEIGHT'"):
            read(path, "WIEGHT,SEX", DESIGN)


def test_several_columns_of_one_name_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader would rename all but the first, with a warning."""
    path = tmp_path / "x.sav"
    pyreadstat.write_sav(pd.DataFrame({"AGE": [1.0], "SEX": [2.0]}), path)
    real = pyreadstat.read_sav

    def renaming(*arguments: Any, **options: Any) -> Any:
        warnings.warn("column 'AGE' is duplicated, renamed to 'AGE_duplicated1'", stacklevel=1)
        return real(*arguments, **options)

    monkeypatch.setattr(pyreadstat, "read_sav", renaming)
    with pytest.raises(DataError, match="several columns of one name"):
        read(path, "SEX,AGE", DESIGN)


def test_a_column_without_a_name_is_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "x.sav"
    pyreadstat.write_sav(pd.DataFrame({"AGE": [1.0], "SEX": [2.0]}), path)
    real = pyreadstat.read_sav

    def nameless(*arguments: Any, **options: Any) -> Any:
        frame, meta = real(*arguments, **options)
        meta.column_names = [None, "SEX"]
        return frame, meta

    monkeypatch.setattr(pyreadstat, "read_sav", nameless)
    with pytest.raises(DataError, match="cannot be read as SPSS"):
        read(path, "SEX,AGE", DESIGN)


def test_stata(tmp_path: Path) -> None:
    path = tmp_path / "x.dta"
    frame = pd.DataFrame(
        {"A": pd.Series([1, 2, "a", "b", 1], dtype=object), "B": ["x", "y", "x", "y", "y"]}
    )
    pyreadstat.write_dta(frame, path, missing_user_values={"A": ["a", "b"]})
    microdata = read(path, "A,B", DESIGN)
    assert microdata.n_missing == (2, 0)
    assert decoded(microdata.tabulate())["A"].tolist() == [1, 2, None, None, 1]
    assert microdata.to_frame()["A"].to_pylist() == [1, 2, None, None, 1]


def test_stata_labels(tmp_path: Path) -> None:
    path = tmp_path / "x.dta"
    frame = pd.DataFrame({"A": pd.Categorical(["low", "high", None, "low"]), "B": [1, 2, 1, 2]})
    frame.to_stata(path, write_index=False)
    microdata = read(path, "A,B", DESIGN)
    assert microdata.keys[0].labels == ("high", "low")
    assert microdata.n_missing == (1, 0)


def test_sas_transport(tmp_path: Path) -> None:
    path = tmp_path / "x.xpt"
    frame = pd.DataFrame({"A": [1.0, 2, None, 1], "B": ["x", "y", "", "y"], "C": [1.0, 2, 3, 1]})
    pyreadstat.write_xport(frame, path)
    microdata = read(path, "A,B,C", DESIGN)
    assert microdata.n_missing == (1, 1, 0)
    assert decoded(microdata.tabulate())["A"].tolist() == [1, 2, None, 1]


def test_a_reader_that_stumbles_over_a_damaged_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.dta"
    pyreadstat.write_dta(pd.DataFrame({"A": ["x", "y"], "B": ["x", "y"]}), path)

    def stumble(*_: object, **__: object) -> None:
        raise TypeError("unsupported operand: 'a value'")

    monkeypatch.setattr(pyreadstat, "read_dta", stumble)
    with pytest.raises(UnikatError, match=r"cannot be read as Stata.* damaged") as told:
        read(path, "A,B", DESIGN)
    assert "a value" not in str(told.value)


def several_parts(path: Path, n_rows: int = 40_000) -> pd.DataFrame:
    """Write a file that is read in several parts where 10 MB are allowed."""
    frame = pd.DataFrame(
        {
            # No value in the first part, whole numbers in the next, then others.
            "late": [None] * 30_000 + [1.0] * 5_000 + [1.5] * (n_rows - 35_000),
            "code": [float(row % 7) for row in range(n_rows)],
            "text": [f"t{row % 5}" for row in range(n_rows)],
        }
    )
    write = {".dta": pyreadstat.write_dta, ".xpt": pyreadstat.write_xport}
    write.get(path.suffix, pyreadstat.write_sav)(frame, path)
    return frame


@pytest.mark.parametrize("suffix", ["sav", "dta", "xpt"])
def test_parts_make_the_whole_file(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    frame = several_parts(path)
    few = StatisticalSource(path, suffix, None, "8MB")
    assert len(list(few._parts(few.columns))) > 3
    table = few.load(few.columns)
    assert table.equals(StatisticalSource(path, suffix, None).load(few.columns).combine_chunks())
    assert table["late"].to_pylist() == [None if pd.isna(v) else v for v in frame["late"]]
    assert table["text"].to_pylist() == frame["text"].tolist()
    assert few.load(["code"], 7)["code"].to_pylist() == frame["code"][:7].tolist()


def test_letters_of_several_parts(tmp_path: Path) -> None:
    path = tmp_path / "x.dta"
    codes: list[Any] = [float(row % 7) for row in range(40_000)]
    codes[3], codes[-1] = "a", "b"
    pyreadstat.write_dta(
        pd.DataFrame({"code": codes, "sex": [1.0, 2.0] * 20_000}),
        path,
        missing_user_values={"code": ["a", "b"]},
    )
    source = StatisticalSource(path, "dta", None, "5MB")
    assert len(list(source._parts(["code"]))) > 1
    assert source.letters_counted("code") == {".a": 1, ".b": 1}
    letters = source.letters(["code", "sex"])
    assert letters["code"][3] == ".a"
    assert len(letters["code"]) == 40_000
    assert "sex" not in letters


@pytest.mark.parametrize("suffix", ["sav", "dta", "xpt"])
def test_a_file_needs_no_more_than_its_limit(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    several_parts(path, 400_000)
    with pytest.raises(DataError, match=r"needs more memory than the 5MB allowed: its rows.*Leave"):
        read(path, "code,text", Design(population_size=10**6), memory_limit="5MB")


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of memory is in other units")
@pytest.mark.parametrize("suffix", ["sav", "dta"])
def test_a_header_that_tells_of_too_many_rows_takes_no_memory(tmp_path: Path, suffix: str) -> None:
    """The library takes room for all rows of the header before it reads the first."""
    path = tmp_path / f"x.{suffix}"
    frame = pd.DataFrame({"SEX": [1.0, 2.0] * 50, "AGE": [float(a % 50) for a in range(100)]})
    content = bytearray()
    if suffix == "sav":
        pyreadstat.write_sav(frame, path)
        content = bytearray(path.read_bytes())
        # The number of cases is the sixth number behind the name of the program.
        assert int.from_bytes(content[80:84], "little") == 100
        content[80:84] = (2_000_000_000).to_bytes(4, "little")
    else:
        pyreadstat.write_dta(frame, path)
        content = bytearray(path.read_bytes())
        place = content.index(b"<N>") + len(b"<N>")
        assert int.from_bytes(content[place : place + 8], "little") == 100
        content[place : place + 8] = (2_000_000_000).to_bytes(8, "little")
    path.write_bytes(content)
    message, size = needed(path, "200MB")
    # For SPSS, numbers beyond reason are not known to the library: it counts the rows.
    assert ("x.dta cannot be read as Stata" in message) == (suffix == "dta")
    assert size < 2e8


@pytest.mark.parametrize("limit", ["10MB", "1GB"])
def test_a_file_that_was_cut_short(tmp_path: Path, limit: str) -> None:
    path = tmp_path / "x.sav"
    several_parts(path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) * 2 // 3])
    with pytest.raises(DataError, match=r"cannot be read as SPSS. The file may be damaged"):
        read(path, "code,text", Design(population_size=10**6), memory_limit=limit)
