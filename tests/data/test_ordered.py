"""Which sources say that the levels of a column are ordered."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from unikat.data import Design, read
from unikat.data.keys import Key
from unikat.errors import SpecError

GRADES = ["none", "low", "mid", "high"]
ROWS = ["mid", "low", "high", "mid", "low", "mid"]


def grade(source: Any, **options: Any) -> Key:
    return read(source, ["grade", "n"], Design(population_size=100), **options).keys[0]


def frame(*, ordered: bool = True) -> pd.DataFrame:
    grades = pd.Categorical(ROWS, categories=GRADES, ordered=ordered)
    return pd.DataFrame({"grade": grades, "n": [1, 2] * 3})


def test_categories_of_frames() -> None:
    for ordered in (True, False):
        found = grade(frame(ordered=ordered))
        assert found.levels == ("low", "mid", "high")
        assert found.ordered is (ordered or None)
    enum = pl.DataFrame({"grade": pl.Series(ROWS, dtype=pl.Enum(GRADES)), "n": [1, 2] * 3})
    assert (grade(enum).levels, grade(enum).ordered) == (("low", "mid", "high"), True)
    assert grade(enum.cast({"grade": pl.Categorical})).ordered is None


@pytest.mark.parametrize("ending", ["parquet", "arrow"])
def test_categories_of_files(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"grades.{ending}"
    table = pa.Table.from_pandas(frame())
    if ending == "parquet":
        pq.write_table(table, path, row_group_size=2)
    else:
        feather.write_feather(table, str(path))
    found = grade(path)
    assert (found.levels, found.ordered) == (("low", "mid", "high"), True)
    # A copy of the column keeps the categories in their order, the unused one too.
    design = Design(population_size=100)
    column = read(path, ["grade", "n"], design).values(["grade"])["grade"].unify_dictionaries()
    assert column.chunk(0).dictionary.to_pylist() == GRADES
    assert column.type.ordered
    assert column.to_pylist() == ROWS
    pl.from_pandas(frame()).write_parquet(path)


def test_measure_of_spss(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    codes = frame()["grade"].cat.codes
    path = tmp_path / "grades.sav"
    data = pd.DataFrame({"grade": codes.astype(float), "n": [1.0, 2.0] * 3})
    labels = {"grade": dict(enumerate(GRADES))}
    for measure, expected in (("ordinal", True), ("nominal", None)):
        pyreadstat.write_sav(
            data, path, variable_value_labels=labels, variable_measure={"grade": measure}
        )
        assert grade(path).ordered is expected


def test_a_codebook_says_it_and_is_believed_before_the_file() -> None:
    plain = pd.DataFrame({"grade": ROWS, "n": [1, 2] * 3})
    said = {"grade": {"levels": GRADES, "ordered": True}}
    assert grade(plain, codebook=said).ordered
    assert grade(frame(), codebook={"grade": {"ordered": False}}).ordered is False
    with pytest.raises(SpecError, match="ordered must be true or false"):
        grade(plain, codebook={"grade": {"ordered": "yes"}})
