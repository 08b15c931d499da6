"""Folders of files: the same records as from one file, and refusals that name the file."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset as ds
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import unikat
from data.decoding import decoded
from unikat.cli.main import main
from unikat.data import Design, read
from unikat.data.sources import Source
from unikat.errors import DataError, SpecError, UnikatError
from unikat.files.scratch import temporary_root

DESIGN = Design(population_size=1_000_000)
SECRET = "Zanzibar"
Write = Callable[[Path, dict[str, list[Any]]], None]


def csv(path: Path, columns: dict[str, list[Any]], delimiter: str = ",", **how: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [list(columns), *zip(*columns.values(), strict=True)]
    text = "".join(
        delimiter.join("" if value is None else str(value) for value in row) + "\n" for row in rows
    )
    path.write_bytes(text.encode(**how))


def parquet(path: Path, columns: dict[str, list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


def arrow(path: Path, columns: dict[str, list[Any]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pa.feather.write_feather(pa.table(columns), str(path), compression="zstd")


READERS: dict[str, Callable[[Path], pd.DataFrame]] = {
    "csv": pd.read_csv,
    "parquet": pd.read_parquet,
    "arrow": pd.read_feather,
}
WRITERS: dict[str, Write] = {"csv": csv, "parquet": parquet, "arrow": arrow}


@pytest.fixture(params=WRITERS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def values(source: Any, keys: str = "A,B", **options: Any) -> dict[str, list[Any]]:
    found = decoded(read(source, keys, DESIGN, **options).tabulate())
    return {name: found[name].tolist() for name in found}


def refused(*words: str, source: Any, **options: Any) -> None:
    with pytest.raises(UnikatError) as caught:
        read(source, options.pop("keys", "A,B"), DESIGN, **options).tabulate()
    said = str(caught.value)
    for word in words:
        assert word in said, said
    assert SECRET not in said


def test_the_rows_are_those_of_one_file(tmp_path: Path, kind: str) -> None:
    """In order of the paths; names of folders are columns of text."""
    rng = np.random.default_rng(1)
    whole: dict[str, list[Any]] = {"A": [], "B": [], "year": [], "place": []}
    for year in ("07", "7", "08"):
        for place in ("x y", "a/b", "ö"):
            n = int(rng.integers(3, 9))
            part = {"A": rng.integers(0, 4, n).tolist(), "B": rng.integers(0, 3, n).tolist()}
            name = place.replace("/", "%2F").replace(" ", "%20")
            folder = tmp_path / "in" / f"year={year}" / f"place={name}"
            WRITERS[kind](folder / f"part.{kind}", part)
    keys = ["A", "B", "year", "place"]
    for folder in sorted((tmp_path / "in").rglob(f"*.{kind}")):
        rows = READERS[kind](folder)
        year, place = (part.partition("=")[2] for part in folder.parts[-3:-1])
        whole["A"] += rows["A"].tolist()
        whole["B"] += rows["B"].tolist()
        whole["year"] += [year] * len(rows)
        whole["place"] += [place.replace("%2F", "/").replace("%20", " ")] * len(rows)
    frame = pd.DataFrame(whole)
    if kind == "csv":
        frame[["A", "B"]] = frame[["A", "B"]].astype(str)
    found = read(tmp_path / "in", keys, DESIGN)
    one = read(frame, keys, DESIGN).tabulate()
    table = found.tabulate()
    assert [key.levels for key in table.keys] == [key.levels for key in one.keys]
    np.testing.assert_array_equal(table.cells, one.cells)
    np.testing.assert_array_equal(table.record_cell, one.record_cell)
    assert table.fingerprint == one.fingerprint
    native = found.to_frame()
    assert native.column_names == keys
    assert native["place"].to_pylist() == whole["place"]
    again = read(tmp_path / "in", keys, DESIGN).tabulate()
    np.testing.assert_array_equal(again.record_cell, table.record_cell)
    # A pattern sees the same.
    of_pattern = read(tmp_path / "in" / "year=*" / "*" / f"*.{kind}", keys, DESIGN).tabulate()
    np.testing.assert_array_equal(of_pattern.record_cell, table.record_cell)


def test_a_folder_without_a_value_is_missing(tmp_path: Path, kind: str) -> None:
    for name in ("1", "__HIVE_DEFAULT_PARTITION__", "%5F", ""):
        WRITERS[kind](tmp_path / f"g={name}" / f"x.{kind}", {"A": [1, 2], "B": [1, 1]})
    found = values(tmp_path, "A,g")
    assert sorted(map(str, found["g"])) == ["1", "1", "None", "None", "None", "None", "_", "_"]
    level = read(tmp_path, "A,g", DESIGN, missing_values={"g": "_"}, constant_keys=True).n_missing
    assert level[1] == 6


def test_files_that_are_no_data_are_left_out(tmp_path: Path, kind: str) -> None:
    good = {"A": [1, 2], "B": [1, 2]}
    WRITERS[kind](tmp_path / "in" / f"b.{kind}", good)
    WRITERS[kind](tmp_path / "in" / f"a.{kind}", good)
    bad = {"C": [9], "D": [9]}
    for name in (f".hidden.{kind}", f"_tmp.{kind}", f"_temporary/0/x.{kind}", f".s/x.{kind}"):
        WRITERS[kind](tmp_path / "in" / name, bad)
    for name in ("_SUCCESS", "_metadata", ".part.crc", "README", "notes.md", "codebook.json"):
        (tmp_path / "in" / name).write_text("x")
    assert len(values(tmp_path / "in")["A"]) == 4


def test_a_folder_that_holds_nothing_is_refused(tmp_path: Path) -> None:
    refused("holds no Parquet, CSV, TSV or Arrow files", source=tmp_path)
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "sub").mkdir()
    refused("holds no Parquet, CSV, TSV or Arrow files", source=tmp_path)
    parquet(tmp_path / "x.parquet", {"A": [1], "B": [1]})
    refused("holds no csv files", source=tmp_path, format="csv")
    refused("holds no", source=tmp_path / "*.csv")


def test_formats_are_not_mixed(tmp_path: Path) -> None:
    good = {"A": [1, 2], "B": [1, 2]}
    parquet(tmp_path / "a.parquet", good)
    csv(tmp_path / "deep" / "b.csv", {"A": [7], "B": [7]})
    refused("several formats: 1 csv, 1 parquet", "--format", source=tmp_path)
    assert values(tmp_path, format="parquet")["A"] == [1, 2]
    assert values(tmp_path, format="csv", keys="A,B", constant_keys=True)["A"] == ["7"]
    (tmp_path / "only").mkdir()
    (tmp_path / "only" / "x.sav").write_bytes(b"$FL2")
    refused("format sav", "Read them one at a time", source=tmp_path / "only")


def test_names_that_say_no_format(tmp_path: Path) -> None:
    for number in range(2):
        csv(tmp_path / f"part-{number}", {"A": ["01", "1"], "B": [1, number]})
    refused("holds no Parquet, CSV, TSV or Arrow files", source=tmp_path)
    assert values(tmp_path, format="csv")["A"] == ["01", "1", "01", "1"]


def test_files_with_other_columns_are_named(tmp_path: Path, kind: str) -> None:
    write = WRITERS[kind]
    write(tmp_path / "o" / f"a.{kind}", {"A": [1, 2], "B": [1, 2]})
    write(tmp_path / "o" / f"b.{kind}", {"B": [3, 1], "A": [1, 2]})
    write(tmp_path / "o" / f"c.{kind}", {"A": [1], "B": [4]})
    # The order of the columns may differ.
    assert [str(value) for value in values(tmp_path / "o")["B"]] == ["1", "2", "3", "1", "4"]
    write(tmp_path / "o" / f"d.{kind}", {"A": [1], "C": [4]})
    told = ("1 of their names are the same",) if kind == "csv" else ("lacks B", "has C besides")
    refused("do not all have the same columns", f"d.{kind}", *told, source=tmp_path / "o")


def test_files_are_named_by_their_folder(tmp_path: Path, kind: str) -> None:
    """Many files have the same name."""
    WRITERS[kind](tmp_path / "y=1" / f"part-0.{kind}", {"A": [1, 2], "B": [1, 2]})
    WRITERS[kind](tmp_path / "y=2" / f"part-0.{kind}", {"B": [1, 2], "A": [1, 2], "C": [1, 2]})
    refused(f"y=2/part-0.{kind}", f"y=1/part-0.{kind}", source=tmp_path)
    refused(f"y=2/part-0.{kind}", f"y=1/part-0.{kind}", source=tmp_path / "y=*" / "*")


def test_a_text_without_a_header_tells_no_record(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{SECRET},42\nx,43\n")
    (tmp_path / "b.csv").write_text(f"{SECRET}s,17\ny,18\n")
    refused("b.csv has 2 and a.csv has 2; 0 of", "first line of every file", source=tmp_path)
    # Nor a second time the same.
    (tmp_path / "b.csv").write_text(f"{SECRET},{SECRET}\ny,18\n")
    refused("b.csv has 1 column name(s)", source=tmp_path)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (pa.array([1, 2]), pa.array([1.6, 2.4])),
        (pa.array([True, False]), pa.array([1, 7])),
        (pa.array([None, None], pa.null()), pa.array([SECRET, "b"])),
        (pa.array([1, 2]), pa.array(["01", "1"])),
        (pa.array([1, 2], pa.int8()), pa.array([1, 300], pa.int16())),
        (pa.array([1, 2], pa.timestamp("us")), pa.array([1, 2], pa.timestamp("ns"))),
        (pa.array([1, 2]), pa.array([1, 2]).dictionary_encode().cast(pa.int32())),
    ],
)
@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_files_with_other_types_are_named(
    tmp_path: Path, kind: str, first: pa.Array, second: pa.Array
) -> None:
    """DuckDB would read all in the type of the first: 1.6 as 2."""
    for a, b in ((first, second), (second, first)):
        WRITERS[kind](tmp_path / "g=1" / f"x.{kind}", {"A": a, "B": [1, 2]})
        WRITERS[kind](tmp_path / "g=2" / f"x.{kind}", {"B": [1, 2], "A": b})
        refused(
            f"the column A is {b.type} in g=2/x.{kind} and {a.type} in g=1/x.{kind}",
            "write it with one type in all files", source=tmp_path,
        )  # fmt: skip


def test_kinds_of_text_are_one_type_in_parquet(tmp_path: Path) -> None:
    plain = pa.array(["01", "1", None])
    kinds = [plain, plain.dictionary_encode(), plain.cast(pa.large_string())]
    for turn in range(3):
        for number, column in enumerate([*kinds[turn:], *kinds[:turn]]):
            parquet(tmp_path / f"{turn}" / f"{number}.parquet", {"A": column, "B": [1, 2, 3]})
        found = read(tmp_path / f"{turn}", "A,B", DESIGN)
        assert decoded(found.tabulate())["A"].tolist() == ["01", "1", None] * 3
        assert found.to_frame()["A"].to_pylist() == ["01", "1", None] * 3


def test_names_that_duckdb_uses(tmp_path: Path) -> None:
    """A column `file_index` would hide the number of the file, and so the folder of a row."""
    for name in ("file_index", "FILE_INDEX"):
        parquet(tmp_path / name / "g=1" / "x.parquet", {"A": [1, 2], name: [1, 0]})
        parquet(tmp_path / name / "g=2" / "x.parquet", {"A": [1, 2], name: [0, 1]})
        refused(f"a column {name} and folders g=...", source=tmp_path / name, keys="A,g")
        # Without such folders it is a column like others.
        assert values(tmp_path / name / "g=1", f"A,{name}")[name] == [1, 0]
    used = {"A": [1, 2], "filename": ["b", "a"], "file_row_number": [9, 8]}
    for name in ("1", "2"):
        parquet(tmp_path / "other" / f"g={name}" / "x.parquet", used)
    found = values(tmp_path / "other", "A,g,filename,file_row_number")
    assert found["g"] == ["1", "1", "2", "2"]
    assert found["filename"] == ["b", "a", "b", "a"]
    assert found["file_row_number"] == [9, 8, 9, 8]
    for name in ("1", "2"):
        part = {"A": [1, 2], "B": [2, 1]}
        parquet(tmp_path / "made" / f"file_index={name}" / "x.parquet", part)
    assert values(tmp_path / "made", "A,file_index")["file_index"] == ["1", "1", "2", "2"]


def test_names_that_differ_in_case_only(tmp_path: Path, kind: str) -> None:
    """DuckDB would exchange the columns of Parquet files in another order."""
    WRITERS[kind](tmp_path / f"a.{kind}", {"A": [1, 2], "a": [30, 40], "B": [1, 2]})
    WRITERS[kind](tmp_path / f"b.{kind}", {"a": [50, 60], "A": [3, 4], "B": [3, 4]})
    if kind == "parquet":
        refused("differ in case only: A, a.", source=tmp_path)
        (tmp_path / "b.parquet").unlink()
        assert values(tmp_path, "A,a") == {"A": [1, 2], "a": [30, 40]}
        return
    found = values(tmp_path, "A,a")
    assert [str(value) for value in found["A"]] == ["1", "2", "3", "4"]
    assert [str(value) for value in found["a"]] == ["30", "40", "50", "60"]


def test_a_pattern_leaves_out_what_a_folder_does(tmp_path: Path, kind: str) -> None:
    """And has every file once."""
    good, bad = {"A": [1, 2], "B": [1, 2]}, {"A": [8, 9], "B": [8, 9]}
    WRITERS[kind](tmp_path / "_in" / "p" / "q" / f"a.{kind}", good)
    for name in (f".x.{kind}", f"p/_a.{kind}", f"p/_temporary/0/a.{kind}", f".s/a.{kind}"):
        WRITERS[kind](tmp_path / "_in" / name, bad)
    wanted = [str(value) for value in values(tmp_path / "_in")["A"]]
    assert wanted == ["1", "2"]
    for text in (f"**/*.{kind}", f"**/**/*.{kind}", f"**/**/[apq]*/**/*.{kind}"):
        assert [str(value) for value in values(tmp_path / "_in" / text)["A"]] == wanted
    refused("holds no", "begin with . or _", source=tmp_path / "_in" / ".[xs]*")


def test_links_to_folders_are_refused(tmp_path: Path, kind: str) -> None:
    """Not skipped without a word, and not followed in circles."""
    for name in ("in/a", "other"):
        WRITERS[kind](tmp_path / name / f"x.{kind}", {"A": [1, 2], "B": [1, 2]})
    link = tmp_path / "in" / "b"
    for target in (tmp_path / "other", tmp_path / "in"):
        link.symlink_to(target, target_is_directory=True)
        for source in (tmp_path / "in", tmp_path / "in" / "**" / f"*.{kind}"):
            refused("b in", "is a symbolic link to a folder", source=source)
        link.unlink()
    link.symlink_to(tmp_path / "other", target_is_directory=True)
    # The link itself may be named, and files may be links.
    assert len(values(link)["A"]) == 2
    assert len(values(link / f"*.{kind}")["A"]) == 2
    link.unlink()
    (tmp_path / "in" / f"y.{kind}").symlink_to(tmp_path / "other" / f"x.{kind}")
    assert len(values(tmp_path / "in")["A"]) == 4


def test_a_column_that_is_a_folder_too_is_refused(tmp_path: Path, kind: str) -> None:
    WRITERS[kind](tmp_path / "A=1" / f"x.{kind}", {"A": [SECRET, "2"], "B": [1, 2]})
    refused("A is a column of the files and also the name of folders", source=tmp_path)
    # One file is itself: its folders are not its columns.
    assert values(tmp_path / "A=1" / f"x.{kind}")["A"] == [SECRET, "2"]
    # Nor are those above the folder that is named.
    assert values(tmp_path / "A=1")["A"] == [SECRET, "2"]


def test_folders_that_do_not_fit_together_are_refused(tmp_path: Path, kind: str) -> None:
    good = {"A": [1, 2], "B": [1, 2]}
    write = WRITERS[kind]
    write(tmp_path / "in" / "y=1" / f"x.{kind}", good)
    write(tmp_path / "in" / f"z.{kind}", good)
    refused("in folders of no key=value", "in folders of y=...", source=tmp_path / "in")
    write(tmp_path / "twice" / "y=1" / "y=2" / f"x.{kind}", good)
    refused("within folders of the same name", source=tmp_path / "twice")
    write(tmp_path / "bad" / "y=%FF" / f"x.{kind}", good)
    refused("not UTF-8", source=tmp_path / "bad")
    # Folders without a sign of equality are folders.
    write(tmp_path / "plain" / "2024" / f"x.{kind}", good)
    write(tmp_path / "plain" / "2025" / f"x.{kind}", good)
    assert len(values(tmp_path / "plain")["A"]) == 4


def test_csv_files_are_read_as_one_is(tmp_path: Path) -> None:
    """Codes, decimals, missing values, delimiters, encodings, line ends, quotation marks."""
    csv(tmp_path / "in" / "a.csv", {"A": ["007", "7", None], "B": ["1,5", "2,5", "ä"]}, ";",
        encoding="cp1252")  # fmt: skip
    csv(tmp_path / "in" / "b.csv", {"A": ["-9", "7", "7"], "B": ["1,5", "ä", "ä"]}, ";",
        encoding="cp1252")  # fmt: skip
    how = {"encoding": "cp1252", "missing_values": "-9"}
    found = values(tmp_path / "in", **how)
    assert found["A"] == ["007", "7", None, None, "7", "7"]
    assert found["B"] == ["1,5", "2,5", "ä", "1,5", "ä", "ä"]
    refused("not UTF-8", "a.csv", source=tmp_path / "in")
    # Numbers of all files together tell the groups.
    csv(tmp_path / "n" / "a.csv", {"A": [1, 2], "B": ["0,5", "1,5"]}, ";")
    csv(tmp_path / "n" / "b.csv", {"A": [1, 2], "B": ["2,5", "9,5"]}, ";")
    keys = read(tmp_path / "n", "A,B:cut(1,2)", DESIGN).keys
    assert len(keys[1].levels) == 3
    (tmp_path / "z").mkdir()
    (tmp_path / "z" / "a.csv").write_text('A,B\r\n"x\ny",1\r\n')
    with gzip.open(tmp_path / "z" / "b.csv.gz", "wt") as file:
        file.write("A,B\n1,2\n")
    assert values(tmp_path / "z")["A"] == ["x\ny", "1"]
    # A part may have no rows.
    (tmp_path / "z" / "c.csv").write_text("A,B\n")
    assert values(tmp_path / "z")["A"] == ["x\ny", "1"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is empty (0 bytes)"),
        (b"A,B\n1,2,Zanzibar\n", "line 2: the header names 2 columns but the line has 3"),
        (b'A,B\n1,"Zanzibar\n', "a quotation mark opens and does not close"),
        (b"A,B\n1,\xff\n", "not UTF-8"),
        (b"A;C\n1;2\n", "do not all have the same columns"),
        (b"A,A\n1,2\n", "occur more than once"),
        (b"PAR1xxxx", "looks like Parquet"),
        (b"A,\0\n", "holds binary data"),
        (gzip.compress(b"A,B\n1,2\n" * 99, mtime=0)[:-9], "not a complete gzip file"),
    ],
)
def test_a_bad_csv_file_is_named(tmp_path: Path, content: bytes, words: str) -> None:
    """By its folder too: files that Spark writes all have such names."""
    csv(tmp_path / "y=1" / "part-0.csv", {"A": [1, 2], "B": [1, 2]})
    bad = tmp_path / "y=2" / ("part-0.csv.gz" if content.startswith(b"\x1f") else "part-0.csv")
    bad.parent.mkdir()
    bad.write_bytes(content)
    refused(words, f"y=2/{bad.name}", source=tmp_path)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_a_damaged_file_is_named(tmp_path: Path, kind: str) -> None:
    WRITERS[kind](tmp_path / f"a.{kind}", {"A": [1, 2], "B": [1, 2]})
    (tmp_path / f"b.{kind}").write_bytes((tmp_path / f"a.{kind}").read_bytes()[:60])
    refused(f"b.{kind}", "damaged", source=tmp_path)


def test_options_of_other_formats_are_refused(tmp_path: Path) -> None:
    csv(tmp_path / "a.csv", {"A": [1, 2], "B": [1, 2]})
    with pytest.raises(SpecError, match="leave the option out"):
        read(tmp_path, "A,B", DESIGN, table="x")


def test_a_folder_that_changes_is_noticed(tmp_path: Path, kind: str) -> None:
    for name in "ab":
        WRITERS[kind](tmp_path / f"{name}.{kind}", {"A": [1, 2], "B": [1, 2]})
    found = read(tmp_path, "A,B", DESIGN)
    WRITERS[kind](tmp_path / f"b.{kind}", {"A": [1, 2, 3], "B": [1, 2, 3]})
    with pytest.raises(DataError, match="changed since it was read"):
        found.tabulate()
    with pytest.raises(DataError, match="changed since it was read"):
        found.to_frame()


def batches() -> list[pa.RecordBatch]:
    rng = np.random.default_rng(5)
    return [
        pa.RecordBatch.from_pydict(
            {"A": rng.integers(0, 5, 40), "B": rng.choice(["01", "1", "x"], 40), "C": [0.5] * 40}
        )
        for _ in range(30)
    ]


def test_a_dataset_is_its_table(tmp_path: Path) -> None:
    whole = pa.Table.from_batches(batches())
    pq.write_to_dataset(
        whole, tmp_path / "d", partition_cols=["B"], basename_template="x-{i}.parquet"
    )
    schema = pa.schema([("B", pa.string())])
    dataset = ds.dataset(tmp_path / "d", partitioning=ds.partitioning(schema, flavor="hive"))
    for given, table in (
        (dataset, dataset.to_table()),
        (ds.dataset(whole), whole),
        (dataset.filter(ds.field("A") > 1), dataset.to_table(filter=ds.field("A") > 1)),
    ):
        found, wanted = read(given, "A,B", DESIGN), read(table, "A,B", DESIGN)
        assert [key.levels for key in found.keys] == [key.levels for key in wanted.keys]
        np.testing.assert_array_equal(found.tabulate().record_cell, wanted.tabulate().record_cell)
        assert found.tabulate().fingerprint == wanted.tabulate().fingerprint
        assert found.to_frame().equals(table)
    result = unikat.assess(
        dataset, keys="A,B", population_size=50_000, model="loglinear:terms=independence"
    )
    assert isinstance(result.records, pa.Table)
    assert len(result.records) == len(whole)


def test_a_dataset_is_never_whole_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counting asks for batches of the keys alone."""
    dataset = ds.dataset(pa.Table.from_batches(batches()))

    def whole(*_: Any, **__: Any) -> None:
        raise AssertionError

    held: list[int] = []
    write = pq.ParquetWriter.write_batch

    def written(self: Any, batch: pa.RecordBatch, *how: Any, **more: Any) -> None:
        held.append(len(batch))
        assert batch.num_columns == 2
        write(self, batch, *how, **more)

    monkeypatch.setattr(Source, "values", whole)
    monkeypatch.setattr(pq.ParquetWriter, "write_batch", written)
    table = read(dataset, "A,B", DESIGN).tabulate()
    assert table.n_records == sum(held) == 1200
    assert max(held) == 40


def test_categories_of_a_dataset_give_the_order() -> None:
    column = pd.Categorical(["b", "a", "c", "a"], categories=["c", "b", "a"], ordered=True)
    table = pa.Table.from_pandas(pd.DataFrame({"A": column, "B": [1, 2, 1, 2]}))
    wanted = read(table, "A,B", DESIGN).keys[0].levels
    assert read(ds.dataset(table), "A,B", DESIGN).keys[0].levels == wanted == ("c", "b", "a")


def test_a_dataset_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    parquet(tmp_path / "a.parquet", {"A": [1, 2], "B": [1, 2]})
    gone = ds.dataset(tmp_path)
    (tmp_path / "a.parquet").unlink()
    refused("The dataset cannot be read to its end", source=gone)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["A", "A"])
    refused("occur more than once", source=ds.dataset(twice))


def test_nothing_is_left_behind(tmp_path: Path, kind: str, monkeypatch: Any) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    assert temporary_root() == tmp_path / "tmp"
    for name in "abc":
        WRITERS[kind](tmp_path / "in" / f"{name}.{kind}", {"A": [1, 2], "B": [1, 2]})
    found = read(tmp_path / "in", "A,B", DESIGN)
    found.tabulate()
    del found
    import gc

    gc.collect()
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("kind", ["csv", "parquet", "arrow"])
def test_a_protected_folder_is_one_file(tmp_path: Path, kind: str) -> None:
    """In the format of the folder, with the columns that its folders make."""
    rng = np.random.default_rng(2)
    for year in ("07", "08"):
        part = {name: rng.integers(0, n, 60).tolist() for name, n in (("A", 6), ("B", 5), ("C", 4))}
        WRITERS[kind](tmp_path / "in" / f"y={year}" / f"x.{kind}", part)
    unikat.protect(
        tmp_path / "in", keys="A,B,C,y", population_size=2000, recode={"A": "width(2)"},
        model="latent-class", chains=2, max_sweeps=60, workers=1, out=tmp_path / "out",
    )  # fmt: skip
    (made,) = (tmp_path / "out").glob(f"protected*.{kind}")
    rows = READERS[kind](made)
    assert [str(value).zfill(2) for value in rows["y"]] == ["07"] * 60 + ["08"] * 60
    assert set(map(str, rows["A"])) == {"0-1", "2-3", "4-5"}
    command = ["apply", str(tmp_path / "out" / "plan.toml"), str(tmp_path / "in")]
    assert main([*command, "--out", str(tmp_path / f"again.{kind}"), "--quiet"]) == 0
    assert READERS[kind](tmp_path / f"again.{kind}").equals(rows)
    assert main([*command, "--out", str(tmp_path / "again.sav"), "--quiet"]) == 1
