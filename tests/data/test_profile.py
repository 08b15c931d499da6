"""Profiles of columns: counts as pandas makes them, and no values of records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from unikat.data.profile import MOST_NAMED, N_BINS, ColumnProfile, Profile, preview, profile
from unikat.errors import DataError

N = 700


@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    made = pd.DataFrame(
        {
            "sex": rng.choice(["f", "m"], N),
            "age": rng.integers(0, 80, N),
            "income": np.exp(rng.normal(10, 1, N)).round(2),
            "name": [f"person {i}" for i in range(N)],
            "code": rng.choice(["1", "2", "x"], N),
            "born": pd.to_datetime("2000-01-01") + pd.to_timedelta(rng.integers(0, 50, N), "D"),
            "empty": [""] * N,
        }
    )
    made["sex"] = made["sex"].where(rng.random(N) > 0.1)
    made["income"] = made["income"].where(rng.random(N) > 0.2)
    return made


def column(found: Profile, name: str) -> ColumnProfile:
    return next(one for one in found.columns if one.name == name)


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_counts_are_those_of_pandas(frame: pd.DataFrame, tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"file.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path, index=False)
    found = profile(path)
    assert (found.n_records, found.n_columns, found.format) == (N, 7, ending)
    assert (found.delimiter, found.encoding) == (
        (",", "utf-8") if ending == "csv" else (None, None)
    )
    for one in found.columns:
        values = frame[one.name].replace("", np.nan)
        assert one.n_missing == values.isna().sum()
        if one.exact:
            assert one.n_levels == values.nunique()
        else:
            assert one.n_levels == pytest.approx(values.nunique(), rel=0.1)
    kinds = {one.name: one.kind for one in found.columns}
    assert [kinds[name] for name in ("sex", "age", "income", "name", "code")] == [
        "text", "numbers", "numbers", "text", "text"]  # fmt: skip
    assert kinds["born"] == ("text" if ending == "csv" else "dates")


def test_pictures_are_those_of_pandas(frame: pd.DataFrame) -> None:
    found = profile(frame)
    counts = frame["sex"].value_counts().sort_index()
    assert column(found, "sex").bars == pytest.approx(tuple(counts / counts.max()))
    known = frame["income"].dropna()
    counts = np.histogram(known, N_BINS)[0]
    assert column(found, "income").bars == pytest.approx(tuple(counts / counts.max()))
    # Eighty ages, four to a bar.
    counts = frame["age"].value_counts().reindex(range(80), fill_value=0)
    there = counts[counts > 0].to_numpy()
    sums = [there[i : i + 4].sum() for i in range(0, len(there), 4)]
    assert column(found, "age").bars == pytest.approx(tuple(np.array(sums) / max(sums)))
    assert column(found, "empty").bars == ()


def test_levels_are_named_only_where_they_tell_of_nobody(frame: pd.DataFrame) -> None:
    found = profile(frame)
    named = {one.name: one.levels for one in found.columns if one.levels}
    assert named == {"sex": ("f", "m"), "code": ("1", "2", "x")}
    assert not any(value in repr(found) for value in ("person 7", str(frame["income"].max())))
    # What one or two records have may tell of them.
    few = frame.head(20).assign(note=["none"] * 17 + ["Ann Smith"] + ["Bob Jones"] * 2)
    assert column(profile(few), "name").levels == ()
    assert column(profile(few), "note").levels == ("none",)
    assert column(profile(few), "sex").levels == ("f", "m")
    many = pd.DataFrame({"a": [str(i % (MOST_NAMED + 1)) for i in range(1000)]})
    assert profile(many).columns[0].levels == ()


def test_labels_and_missing_codes_of_the_file_are_known(tmp_path: Path) -> None:
    pyreadstat = pytest.importorskip("pyreadstat")
    path = tmp_path / "file.sav"
    frame = pd.DataFrame(
        {"sex": [1.0, 2.0, 2.0, 9.0, 1.0, 2.0], "age": [10.0, 20.0, 997, 998, 5, 5]}
    )
    pyreadstat.write_sav(
        frame,
        str(path),
        column_labels={"sex": "Sex of the person"},
        variable_value_labels={"sex": {1: "male", 2: "female", 9: "refused"}},
        missing_ranges={"sex": [9], "age": [{"lo": 997, "hi": 999}]},
    )
    found = profile(path)
    sex, age = found.columns
    assert (sex.n_missing, sex.n_levels, sex.n_labels) == (1, 2, 3)
    assert (sex.title, age.title) == ("Sex of the person", "")
    assert (age.n_missing, age.n_levels) == (2, 3)
    twice = pd.concat([frame] * 3)
    pyreadstat.write_sav(
        twice, str(path), variable_value_labels={"sex": {1: "male", 2: "female"}},
        missing_ranges={"sex": [9]},
    )  # fmt: skip
    assert profile(path).columns[0].levels == ("1 = male", "2 = female")


def test_a_preview_has_the_first_records(frame: pd.DataFrame) -> None:
    names, rows = preview(frame, 3)
    assert names == tuple(frame.columns)
    assert [row[3] for row in rows] == ["person 0", "person 1", "person 2"]


def test_a_file_without_records_is_told(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("a,b\n")
    with pytest.raises(DataError, match="has no records"):
        profile(path)
