"""Synthetic files read back with the labels of the input, in every format that is written."""

from __future__ import annotations

import gzip
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import unikat
from unikat.data.design import Design

pyreadstat = pytest.importorskip("pyreadstat")

N = 240
DESIGN = Design(without_population=True)
QUICK = {"datasets": 2, "chains": 2, "workers": 1, "max_sweeps": 20}
LABELS = {"sex": {1.0: "woman", 2.0: "man"}, "edu": {1.0: "low", 2.0: "high", 9.0: "refused"}}
RANGES = {"edu": [{"lo": 9.0, "hi": 9.0}]}


def codes() -> pd.DataFrame:
    """Numeric codes; 9 of `edu` means missing."""
    rng = np.random.default_rng(11)
    return pd.DataFrame(
        {
            "id": np.arange(N, dtype=float),
            "sex": rng.integers(1, 3, N).astype(float),
            "edu": rng.choice([1.0, 2.0, 9.0], N, p=[0.5, 0.4, 0.1]),
            "age": rng.integers(18, 90, N).astype(float),
        }
    )


def write(path: Path) -> None:
    """Write the persons in the format of a name."""
    frame = codes()
    labels = {"column_labels": ["number", "sex of person", "education", "age"]}
    match "".join(path.suffixes):
        case ".sav" | ".zsav":
            pyreadstat.write_sav(
                frame,
                path,
                compress=path.suffix == ".zsav",
                variable_value_labels=LABELS,
                missing_ranges=RANGES,
                variable_measure={"sex": "nominal", "edu": "ordinal"},
                **labels,
            )
        case ".dta":
            pyreadstat.write_dta(
                frame.replace({"edu": {9.0: np.nan}}), path, variable_value_labels=LABELS, **labels
            )
        case ".xpt":
            pyreadstat.write_xport(frame, path, **labels)
        case ".parquet":
            texts = pa.array(frame["sex"].map({1.0: "woman", 2.0: "man"})).dictionary_encode()
            pq.write_table(
                pa.table(
                    {
                        "id": pa.array(frame["id"], pa.int32()),
                        "sex": texts,
                        "edu": pa.array(frame["edu"].astype(int), pa.int8()),
                        "age": pa.array(frame["age"].astype(int), pa.int16()),
                    }
                ),
                path,
            )
        case ".arrow":
            table = pa.Table.from_pandas(frame, preserve_index=False)
            with pa.ipc.new_file(str(path), table.schema) as writer:
                writer.write_table(table)
        case ".csv" | ".csv.gz":
            shown = frame.astype(int)
            shown["sex"] = shown["sex"].map({1: "01", 2: "02"})
            shown["age"] = [f"{age},5" for age in shown["age"]]
            text = shown.to_csv(index=False, sep=";").encode("latin-1")
            path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


ENDINGS = (".csv", ".csv.gz", ".parquet", ".arrow", ".sav", ".zsav", ".dta", ".xpt")


@pytest.mark.parametrize("missing", ["level", "integrate"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_a_file_reads_back_as_the_input(tmp_path, ending, missing):
    source = tmp_path / f"persons{ending}"
    write(source)
    options = {
        "missing": missing,
        "missing_values": {"edu": [9]},
        "encoding": "latin-1" if "csv" in ending else None,
    }
    keys = ["sex", "edu", "age:width(10)"]
    out = tmp_path / "out"
    found = unikat.synthesize(source, keys=keys, out=out, **options, **QUICK)
    assert found.summary.files == (f"synthetic_1{ending}", f"synthetic_2{ending}")
    before = unikat.read(source, keys, DESIGN, **options)
    for name in found.summary.files:
        after = unikat.read(out / name, keys, DESIGN, **options)
        assert after.source.columns == ("sex", "edu", "age")
        for one, other in zip(before.keys[:2], after.keys[:2], strict=True):
            assert set(zip(other.levels, other.labels, strict=True)) <= set(
                zip(one.levels, one.labels, strict=True)
            )
        assert set(after.keys[2].labels) <= set(before.keys[2].labels)
        assert after.n_records == N
        assert (after.n_missing[1] > 0) == (missing == "level")
        names = ("sex", "edu", "age")
        assert after.values(names).schema.types == before.values(names).schema.types
        assert oct((out / name).stat().st_mode & 0o777) == "0o600"


def test_spss_keeps_labels_missing_codes_and_measures(tmp_path):
    source = tmp_path / "persons.sav"
    write(source)
    keys = ["sex", "edu", "age:width(10)"]
    unikat.synthesize(source, keys=keys, out=tmp_path / "out", missing="level", **QUICK)
    frame, meta = pyreadstat.read_sav(tmp_path / "out" / "synthetic_1.sav", user_missing=True)
    assert meta.variable_value_labels == LABELS
    assert meta.missing_ranges == RANGES
    assert meta.column_names_to_labels["edu"] == "education"
    assert meta.variable_measure["edu"] == "ordinal"
    assert set(frame["edu"]) == {1.0, 2.0, 9.0}


def test_text_files_keep_delimiter_codes_and_decimals(tmp_path):
    source = tmp_path / "persons.csv"
    write(source)
    keys = ["sex", "edu", "age:width(10)"]
    unikat.synthesize(source, keys=keys, out=tmp_path / "out", **QUICK)
    frame = pd.read_csv(tmp_path / "out" / "synthetic_2.csv", sep=";", dtype=str)
    assert set(frame["sex"]) == {"01", "02"}
    assert frame["age"].str.fullmatch(r"[0-9]+,[0-9]").all()


def test_frames_come_back_as_they_were_given():
    polars = pytest.importorskip("polars")
    frame = codes().assign(kind=pd.Categorical(["b", "a"] * (N // 2), categories=["b", "a", "c"]))
    keys = ["sex", "edu", "kind"]
    for data in (frame, polars.from_pandas(frame), pa.Table.from_pandas(frame)):
        found = unikat.synthesize(data, keys=keys, **QUICK)
        for synthetic in found.frames:
            assert type(synthetic) is type(data)
    again = unikat.synthesize(frame, keys=keys, **QUICK).frames[0]
    assert again["kind"].dtype == frame["kind"].dtype
    assert again["sex"].dtype == frame["sex"].dtype


def test_formats_that_cannot_be_written_become_parquet(tmp_path):
    import sqlite3

    source = tmp_path / "persons.sqlite"
    with sqlite3.connect(source) as connection:
        codes().to_sql("persons", connection, index=False)
    found = unikat.synthesize(source, keys=["sex", "edu"], out=tmp_path / "out", **QUICK)
    assert found.summary.files == ("synthetic_1.parquet", "synthetic_2.parquet")
    assert pq.read_table(tmp_path / "out" / "synthetic_1.parquet").num_rows == N


@pytest.mark.parametrize("replace", [None, "occ"])
def test_stata_keeps_letters_that_are_levels_and_those_that_are_missing(tmp_path, replace):
    rng = np.random.default_rng(2)
    age = rng.integers(5, 60, N).astype(float)
    occ = np.where(age < 16, "a", rng.choice([1.0, 2.0], N).astype(object))
    occ[age >= 50] = np.where(np.arange(N) % 2 == 0, "z", occ)[age >= 50]
    source = tmp_path / "persons.dta"
    labels = {"occ": {1: "clerk", 2: "miner", "a": "Under 16", "z": "Refused"}}
    pyreadstat.write_dta(
        pd.DataFrame({"occ": occ, "age": age, "sex": rng.integers(1, 3, N).astype(float)}),
        source,
        variable_value_labels=labels,
        missing_user_values={"occ": ["a", "z"]},
    )
    keys = ["occ", "age:cut(16,50)", "sex"]
    unikat.synthesize(
        source, keys=keys, out=tmp_path / "out", missing="level", replace=replace, **QUICK
    )
    found, meta = pyreadstat.read_dta(tmp_path / "out" / "synthetic_1.dta", user_missing=True)
    assert set(found["occ"]) == {1.0, 2.0, "a", "z"}
    assert meta.variable_value_labels == labels
    again = unikat.read(tmp_path / "out" / "synthetic_1.dta", keys, DESIGN, missing="level")
    assert {one.code: (one.label, one.n_records) for one in again.keys[0].declared} == {
        f".{letter}": (labels["occ"][letter], (found["occ"] == letter).sum()) for letter in "az"
    }


def test_views_of_duckdb_give_parquet(tmp_path):
    """They were Arrow files that were called .duckdb."""
    source = tmp_path / "persons.duckdb"
    with duckdb.connect(str(source)) as connection:
        connection.execute("CREATE VIEW v AS SELECT i % 3 AS a, i % 5 AS b FROM range(90) t(i)")
    found = unikat.synthesize(source, table="v", keys="a,b", out=tmp_path / "out", **QUICK)
    assert found.summary.files[0] == "synthetic_1.parquet"


def test_ordered_factors_of_r_come_back_ordered(tmp_path):
    pytest.importorskip("pyreadr")
    from tests.data.test_r_files import r_frame

    source = tmp_path / "persons.rds"
    source.write_bytes(r_frame())
    keys = ["grade", "town", "age"]
    found = unikat.synthesize(source, keys=keys, out=tmp_path / "out", **QUICK)
    assert found.summary.files[0] == "synthetic_1.parquet"
    schema = pq.read_schema(tmp_path / "out" / "synthetic_1.parquet")
    assert schema.field("grade").type.ordered
    assert not schema.field("town").type.ordered
