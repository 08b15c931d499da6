"""Tables of results in CSV and in files of Stata and SPSS, also beside the file assessed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pyreadstat
import pytest

from unikat.errors import DataError, OutputError, SpecError
from unikat.jobs.export import export, title_of

LABELS = {"sex": {1: "male", 2: "female"}, "work": {1: "yes", 2: "no", 9: "refused"}}


@pytest.fixture
def frame() -> pd.DataFrame:
    """Return records with labels and a code that means missing."""
    generator = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "sex": generator.integers(1, 3, 50),
            "work": generator.choice([1, 2, 9], 50),
            "name": generator.choice(["a", "bc", ""], 50),
        }
    )


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Return a folder with a table like that of an assessment."""
    folder = tmp_path / "results"
    folder.mkdir()
    table = pd.DataFrame(
        {
            "row": np.arange(1, 51),
            "sample_unique": np.arange(50) % 2 == 0,
            "r1": np.where(np.arange(50) % 2 == 0, np.linspace(0, 1, 50), np.nan),
            "key_1": pd.Categorical(["sex", None] * 25),
            "level.sex": "x",
        }
    )
    table.to_parquet(folder / "records.parquet")
    return folder


def test_csv_has_what_the_table_has(results, tmp_path):
    assert export(results, tmp_path / "a.csv") == 50
    read = pd.read_csv(tmp_path / "a.csv")
    original = pq.read_table(results / "records.parquet").to_pandas()
    pd.testing.assert_frame_equal(
        read, original.astype({"key_1": object}), check_dtype=False, check_categorical=False
    )
    assert (tmp_path / "a.csv").stat().st_mode & 0o777 == 0o600


def test_no_name_of_a_key_is_a_formula_in_a_csv(results, tmp_path, frame):
    """Whoever made the file named its columns; its own columns come back as they were."""
    evil = "=cmd|'/C calc'!A0"
    table = pd.read_parquet(results / "records.parquet")
    table.assign(key_1=evil).rename(columns={"level.sex": "+x"}).to_parquet(
        results / "records.parquet"
    )
    frame.assign(note=evil).to_csv(tmp_path / "file.csv", index=False)
    export(results, tmp_path / "a.csv")
    export(results, tmp_path / "b.csv", beside=tmp_path / "file.csv")
    for name in ("a.csv", "b.csv"):
        read = pd.read_csv(tmp_path / name)
        assert set(read["key_1"]) == {f"'{evil}"}
        assert "'+x" in read
        assert read["r1"].dtype == float
    assert set(read["note"]) == {evil}


@pytest.mark.parametrize("ending", ["sav", "dta"])
def test_labels_and_codes_of_the_file_stay_and_results_have_labels(
    ending, frame, results, tmp_path
):
    data, out = tmp_path / f"d.{ending}", tmp_path / f"out.{ending}"
    titles = ["Sex of the person", "Work", "Name"]
    if ending == "sav":
        pyreadstat.write_sav(
            frame, data, column_labels=titles, variable_value_labels=LABELS,
            missing_ranges={"work": [9]},
        )  # fmt: skip
    else:
        letters = frame["work"].astype(object).mask(frame["work"] == 9, "a")
        labels = LABELS | {"work": {1: "yes", 2: "no", "a": "refused"}}
        pyreadstat.write_dta(
            frame.assign(work=letters), data, column_labels=titles, variable_value_labels=labels,
            missing_user_values={"work": ["a"]},
        )  # fmt: skip
    export(results, out, beside=data)
    read = getattr(pyreadstat, f"read_{ending}")
    (before, of_before), (after, of_after) = (read(p, user_missing=True) for p in (data, out))
    columns = list(frame.columns)
    assert list(after.columns[:3]) == columns
    pd.testing.assert_frame_equal(after[columns], before[columns])
    assert of_after.variable_value_labels == of_before.variable_value_labels
    assert of_after.column_labels[:3] == titles
    assert of_after.column_names_to_labels["r1"] == title_of("r1") != "r1"
    assert of_after.column_names[3:] == ["row", "sample_unique", "r1", "key_1", "level_sex"]
    if ending == "sav":
        assert of_after.original_variable_types["r1"] == "F12.5"
    np.testing.assert_array_equal(
        after["r1"], pq.read_table(results / "records.parquet")["r1"].to_numpy()
    )


def test_other_rows_names_and_endings_are_refused_and_nothing_is_written(frame, results, tmp_path):
    frame.head(9).to_csv(tmp_path / "few.csv", index=False)
    frame.assign(R1=1).to_csv(tmp_path / "named.csv", index=False)
    (tmp_path / "there.csv").write_text("kept")
    for error, message, out, beside in (
        (DataError, "9 rows, and the results have 50", "a.csv", "few.csv"),
        (SpecError, "r1", "a.csv", "named.csv"),
        (OutputError, "ending .csv", "a.dta", "few.csv"),
        (OutputError, "no ending that is written", "a.txt", None),
        (OutputError, "overwrite", "there.csv", None),
        (OutputError, "few.csv", "few.csv", "few.csv"),
    ):
        with pytest.raises(error, match=message):
            export(
                results, tmp_path / out, beside=beside and tmp_path / beside,
                overwrite=out == "few.csv",
            )  # fmt: skip
        assert not (tmp_path / "a.csv").exists()
    assert (tmp_path / "there.csv").read_text() == "kept"
    with pytest.raises(DataError, match="folder of an assessment"):
        export(tmp_path / "none", tmp_path / "a.csv")
