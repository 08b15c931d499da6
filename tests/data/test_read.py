"""Reading every format and kind of frame: the same records give the same table, in order."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data.decoding import decoded
from unikat.data import CellTable, Design, Microdata, read

DESIGN = Design(population_size=1_000_000)
KEYS = ["REGION", "SEX", "STATUS", "WORKS", "CHILDREN", "AGE:width(10)", "INCOME:cut(0,2000)"]


def expected(frame: pd.DataFrame) -> pd.DataFrame:
    wanted = frame[["REGION", "SEX", "STATUS", "WORKS", "CHILDREN"]].astype(object)
    wanted["AGE"] = [f"{10 * (a // 10)}-{10 * (a // 10) + 9}" for a in frame["AGE"]]
    wanted["INCOME"] = [
        "< 0" if x < 0 else ">= 2000" if x >= 2000 else "[0, 2000)" for x in frame["INCOME"]
    ]
    return wanted.where(wanted.notna(), None)


def check(table: CellTable, frame: pd.DataFrame) -> None:
    wanted, got = expected(frame), decoded(table)
    for name in wanted:
        assert got[name].tolist() == wanted[name].tolist(), name
    assert (np.unique(table.cells, axis=0) == table.cells).all()
    assert (np.bincount(table.record_cell) == table.counts).all()


def in_memory(frame: pd.DataFrame) -> dict[str, object]:
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    return {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "lazy": pl.from_pandas(frame).lazy(),
        "arrow": arrow,
        "batch": arrow.combine_chunks().to_batches()[0],
        "relation": duckdb.from_arrow(arrow),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "lazy", "arrow", "batch", "relation"])
def test_frames(frame: pd.DataFrame, kind: str) -> None:
    given = in_memory(frame)[kind]
    microdata = read(given, KEYS, DESIGN)
    table = microdata.tabulate()
    check(table, frame)
    assert microdata.n_records == 300
    assert microdata.n_missing == table.n_missing == (3, 0, 0, 0, 30, 0, 0)
    added = microdata.with_columns(
        {"risk": np.arange(300) / 300, "unique": np.arange(300) % 2 == 0}
    )
    kept = pa.Table if kind == "batch" else type(given)
    assert isinstance(added, kept)
    back = {
        "pandas": lambda: added,
        "polars": lambda: added.to_pandas(),
        "lazy": lambda: added.collect().to_pandas(),
        "relation": lambda: added.to_arrow_table().to_pandas(),
    }.get(kind, lambda: added.to_pandas())()
    assert list(back.columns) == [*frame.columns, "risk", "unique"]
    assert back["AGE"].tolist() == frame["AGE"].tolist()
    assert back["risk"].tolist() == (np.arange(300) / 300).tolist()
    assert type(microdata.to_frame()) is kept


def test_pandas_index_is_kept(frame: pd.DataFrame) -> None:
    frame.index = frame.index[::-1] + 5
    microdata = read(frame, KEYS, DESIGN)
    added = microdata.with_columns({"row": np.arange(300)})
    assert added.index.tolist() == frame.index.tolist()
    assert added["row"].tolist() == list(range(300))
    check(microdata.tabulate(), frame)


def write(frame: pd.DataFrame, path: Path) -> None:
    name = path.name.removesuffix(".gz")
    if name.endswith((".csv", ".txt")):
        frame.to_csv(path, index=False, sep=";" if name.endswith("txt") else ",")
    elif name.endswith(".tsv"):
        frame.to_csv(path, index=False, sep="\t")
    elif name.endswith(".parquet"):
        frame.to_parquet(path, row_group_size=70)
    else:
        frame.to_feather(path, compression="uncompressed", chunksize=70)


@pytest.mark.parametrize("suffix", ["parquet", "arrow", "feather"])
def test_binary_files(frame: pd.DataFrame, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"it's a file.{suffix}"
    write(frame, path)
    microdata = read(path, KEYS, DESIGN)
    check(microdata.tabulate(), frame)
    added = microdata.with_columns({"risk": np.zeros(300)})
    assert isinstance(added, pa.Table)
    assert added["AGE"].to_pylist() == frame["AGE"].tolist()
    assert added.column_names[-1] == "risk"


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.txt", "x.csv.gz"])
def test_text_files(frame: pd.DataFrame, tmp_path: Path, name: str) -> None:
    write(frame, tmp_path / name)
    microdata = read(str(tmp_path / name), KEYS, DESIGN)
    table = microdata.tabulate()
    # In text everything is text.
    frame["SEX"] = frame["SEX"].astype(str)
    frame["WORKS"] = frame["WORKS"].astype(str)
    frame["CHILDREN"] = [None if np.isnan(x) else str(x) for x in frame["CHILDREN"]]
    check(table, frame)
    assert table.keys[0].levels == ("01", "02", "10", "x y")
    added = microdata.with_columns({"risk": np.zeros(300)})
    assert added["REGION"].to_pylist()[:4] == frame["REGION"].tolist()[:4]
    assert added["REGION"].to_pylist()[4] is None


def test_parquet_parts(frame: pd.DataFrame, tmp_path: Path) -> None:
    for part in range(3):
        frame[100 * part : 100 * (part + 1)].to_parquet(tmp_path / f"part{part}.parquet")
    for source in (tmp_path, tmp_path / "*.parquet", tmp_path / "part[0-2].parquet"):
        microdata = read(source, KEYS, DESIGN)
        check(microdata.tabulate(), frame)
    assert microdata.to_frame()["AGE"].to_pylist() == frame["AGE"].tolist()


def test_parquet_folder_names_as_columns(tmp_path: Path) -> None:
    for year in ("07", "08"):
        (tmp_path / f"YEAR={year}").mkdir()
        pq.write_table(pa.table({"A": [1, 2] * 10}), tmp_path / f"YEAR={year}" / "p.parquet")
    table = read(tmp_path, "YEAR,A", DESIGN).tabulate()
    assert table.keys[0].levels == ("07", "08")
    assert table.counts.tolist() == [10] * 4


def test_names_that_differ_in_case(tmp_path: Path) -> None:
    columns = pa.table({"age": [1, 2, 1, 2], "AGE": [1, 1, 1, 2], "a,b": ["x", "y", "z", "z"]})
    pq.write_table(columns, tmp_path / "c.parquet")
    for source in (columns, tmp_path / "c.parquet"):
        microdata = read(source, ["age", "AGE", "a,b"], DESIGN)
        assert decoded(microdata.tabulate())["AGE"].tolist() == [1, 1, 1, 2]
        assert microdata.to_frame().column_names == ["age", "AGE", "a,b"]


def test_csv_details(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    text = '\ufeff"A","long name, B",C\r\n007,"q ""x""",1\r\n7,"new\r\nline",\r\n007,"",3\r\n'
    path.write_bytes(text.encode())
    microdata = read(path, ["A", "long name, B", "C"], DESIGN)
    rows = decoded(microdata.tabulate())
    assert rows["A"].tolist() == ["007", "7", "007"]
    assert rows["long name, B"].tolist() == ['q "x"', "new\r\nline", None]
    assert rows["C"].tolist() == ["1", None, "3"]


@pytest.mark.parametrize("name", ["a.csv", "a.csv.gz"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("within", ["\n", "\r\n", "\r"])
def test_a_line_break_within_a_name_ends_no_line(
    tmp_path: Path, within: str, end: str, name: str
) -> None:
    """A spreadsheet writes one as LF and ends lines by CR LF: no record was found in such files."""
    lines = [f'A,"income{within}in euros"', *(f'{i % 3},"x{within}{i % 2}"' for i in range(60)), ""]
    packed = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / name).write_bytes(packed(end.join(lines).encode()))
    found = read(tmp_path / name, ["A", f"income{within}in euros"], DESIGN).tabulate()
    assert found.n_records == 60
    assert found.n_cells == 6


def test_numeric_looking_text_is_sorted_by_number(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("A,B\n10,b10\n9,b9\n-1,b1\n2.5,b9\n")
    keys = read(path, "A,B", DESIGN).keys
    assert keys[0].levels == ("-1", "2.5", "9", "10")
    assert keys[1].levels == ("b1", "b10", "b9")


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8-sig"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "x.csv.gz"
    path.write_bytes(gzip.compress("É,B\nmañana,1\nnoche,2\nnoche,1\n".encode(encoding)))
    microdata = read(path, "É,B", DESIGN, encoding=encoding)
    assert decoded(microdata.tabulate())["É"].tolist() == ["mañana", "noche", "noche"]
    assert microdata.to_frame()["É"].to_pylist() == ["mañana", "noche", "noche"]
    if encoding.startswith("utf"):
        assert read(path, "É,B", DESIGN).keys == microdata.keys


def test_delimiter_and_format(tmp_path: Path) -> None:
    path = tmp_path / "rows.dat"
    path.write_text("A~B\n1~2\n2~1\n")
    microdata = read(path, "A,B", DESIGN, format="CSV", delimiter="~")
    assert microdata.n_records == 2


def records(microdata: Microdata, name: str) -> list[object]:
    return decoded(microdata.tabulate())[name].tolist()


def test_missing_values(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {"A": [1, -1, 9, 2], "B": ["x", "-1", "9", "y"], "C": [1.0, -1, np.nan, 9], "D": [1, 2] * 2}
    )
    every = read(frame, "A,B,C,D", DESIGN, missing_values=[-1], missing="wildcard")
    assert records(every, "A") == [1, None, 9, 2]
    assert records(every, "B") == ["x", None, "9", "y"]
    assert records(every, "C") == [1, None, None, 9]
    assert every.n_missing == (1, 1, 2, 0)
    one = read(frame, "A,B,C,D", DESIGN, missing_values={"A": 9, "B": ("9", "x")})
    assert records(one, "A") == [1, -1, None, 2]
    assert records(one, "B") == [None, "-1", None, "y"]
    said = read(frame, "A,B,C,D", DESIGN, codebook={"A": {"missing": [9, "2"]}})
    assert records(said, "A") == [1, -1, None, None]
    # A program that met a missing value wrote the others as numbers.
    texts = pd.DataFrame({"A": ["1.0", "-1.0", "", "2.5"], "B": ["-1.5", "x", "y", "-1.00"]})
    for codes in (["-1"], ["-1.0"], [-1]):
        found = read(texts, "A,B", DESIGN, missing_values=codes, constant_keys=True)
        assert found.n_missing == (2, 1)


def test_missing_as_a_level() -> None:
    frame = pd.DataFrame({"A": [1, 2, None, 2], "B": ["x", "y", "y", "y"]})
    microdata = read(frame, "A,B", DESIGN, missing="level")
    assert microdata.keys[0].levels == (1, 2, None)
    assert microdata.keys[0].labels == ("1", "2", "missing")
    assert microdata.keys[1].levels == ("x", "y")
    table = microdata.tabulate()
    assert table.n_missing == microdata.n_missing == (1, 0)
    assert not table.incomplete.any()
    assert decoded(table)["A"].tolist() == [1, 2, None, 2]


def test_codebook(tmp_path: Path) -> None:
    frame = pd.DataFrame({"A": [1, 2, 1, 2], "B": ["b", "a", "a", "b"], "C": [True, False] * 2})
    book = {
        "_note": "nothing",
        "A": {"levels": [3, 2, 1], "labels": ["three", "two", "one"]},
        "B": {"a": "Ah", "zz": "never"},
        "C": {"labels": {"True": "yes"}},
        "D": "text",
    }
    keys = read(frame, "A,B,C", DESIGN, codebook=book).keys
    assert keys[0].levels == (3, 2, 1)
    assert keys[0].labels == ("three", "two", "one")
    assert (keys[1].levels, keys[1].labels) == (("a", "b"), ("Ah", "b"))
    assert keys[2].labels == ("False", "yes")
    table = read(frame, "A,B,C", DESIGN, codebook=book).tabulate()
    assert decoded(table)["A"].tolist() == [1, 2, 1, 2]
    toml = tmp_path / "book.toml"
    toml.write_text('[A]\nlevels = [3, 2, 1]\nlabels = ["three", "two", "one"]\n')
    assert read(frame, "A,B", DESIGN, codebook=toml).keys[0] == keys[0]
    json = tmp_path / "book.json"
    json.write_text('{"A": {"levels": ["3", "2", "1"], "labels": {"3": "three"}}}')
    assert read(frame, "A,B", DESIGN, codebook=json).keys[0].labels == ("three", "2", "1")


def test_levels_of_categories_and_enums() -> None:
    values = ["lo", "hi", "mid", "hi"]
    order = ["lo", "mid", "hi", "top"]
    other = [1, 2, 1, 2]
    for column in (
        pd.Series(pd.Categorical(values, order)),
        pd.Series(pd.Categorical(values, order, ordered=True)),
    ):
        keys = read(pd.DataFrame({"A": column, "B": other}), "A,B", DESIGN).keys
        assert keys[0].levels == ("lo", "mid", "hi")
    enum = pl.DataFrame({"A": pl.Series(values, dtype=pl.Enum(order)), "B": other})
    assert read(enum, "A,B", DESIGN).keys[0].levels == ("lo", "mid", "hi")
    plain = pl.DataFrame({"A": pl.Series(values, dtype=pl.Categorical), "B": other})
    assert read(plain, "A,B", DESIGN).keys[0].levels == ("hi", "lo", "mid")
    numbers = pd.DataFrame({"A": pd.Categorical([10, 9, 10, 8], [10, 9, 8]), "B": other})
    assert read(numbers, "A,B", DESIGN).keys[0].levels == (10, 9, 8)
    chunks = pa.chunked_array(
        [pa.array(["b", "a"]).dictionary_encode(), pa.array(["c", "b"]).dictionary_encode()]
    )
    parts = pa.table({"A": chunks, "B": other})
    assert decoded(read(parts, "A,B", DESIGN).tabulate())["A"].tolist() == ["b", "a", "c", "b"]


def test_intervals_are_levels() -> None:
    """What pandas.cut makes, also in columns of the design."""
    ages = pd.Series([5, 64, 31, 9, 40, None, 15, 31])
    bands = pd.cut(ages, [0, 10, 20, 30, 64])
    backwards = bands.cat.reorder_categories(bands.cat.categories[::-1])
    frame = pd.DataFrame({"AGE": bands, "BACK": backwards, "B": [1, 2] * 4})
    microdata = read(frame, "AGE,BACK,B", DESIGN)
    # 20 to 30 has no record; categories declare no levels.
    labels = ("(0, 10]", "(10, 20]", "(30, 64]")
    assert microdata.keys[0].levels == microdata.keys[0].labels == labels
    assert microdata.keys[1].levels == labels[::-1]
    wanted = ["(0, 10]", "(30, 64]", "(30, 64]", "(0, 10]", "(30, 64]", None, "(10, 20]"]
    assert decoded(microdata.tabulate())["AGE"].tolist()[:7] == wanted
    pd.testing.assert_frame_equal(microdata.to_frame(), frame)
    plain = frame.assign(AGE=bands.astype("interval"))
    assert len(read(plain, "AGE,B", DESIGN).keys[0].levels) == 3
    whole = frame.dropna().assign(C=[1, 2, 3, 1, 2, 3, 1])
    design = Design(strata="AGE", stratum_sizes=dict.fromkeys(labels, 100))
    assert read(whole, "B,C", design).tabulate().population_size == 300


def test_wide_and_unusual_integers() -> None:
    frame = pl.DataFrame(
        {
            "A": pl.Series([2**63 + 5, 3, 3, 4], dtype=pl.UInt64),
            "B": [10**12, -(10**12), 5, 5],
            "C": [0, 5000, 99_999, 5000],
        }
    )
    with pytest.raises(Exception, match="decimal numbers"):
        read(frame, "A,B", DESIGN)
    table = read(frame, "B,C", DESIGN).tabulate()
    assert table.keys[0].levels == (-(10**12), 5, 10**12)
    assert decoded(table)["C"].tolist() == [0, 5000, 99_999, 5000]


def test_census_is_allowed(frame: pd.DataFrame) -> None:
    assert read(frame, KEYS, Design(population_size=300)).tabulate().population_size == 300


@pytest.mark.parametrize("missing", ["integrate", "level"])
def test_many_keys_in_several_words(missing: str) -> None:
    rng = np.random.default_rng(2)
    sizes = [2, 500, 3, 9, 70, 1000] * 6
    codes = np.stack([rng.integers(0, size, 2000) for size in sizes], axis=1)
    codes[:, 3][rng.random(2000) < 0.2] = -7
    codes = np.concatenate([codes, codes[:500]])
    rng.shuffle(codes)
    names = [f"K{j}" for j in range(len(sizes))]
    source = pa.table({name: codes[:, j] for j, name in enumerate(names)})
    table = read(
        source,
        names,
        DESIGN,
        missing_values={"K3": -7},
        missing=missing,  # type: ignore[arg-type]
    ).tabulate()
    coded = np.stack(
        [
            np.where(codes[:, j] == -7, -1 if missing == "integrate" else key.n_levels - 1, 0)
            + np.where(
                codes[:, j] == -7,
                0,
                np.searchsorted(np.unique(codes[:, j][codes[:, j] >= 0]), codes[:, j]),
            )
            for j, key in enumerate(table.keys)
        ],
        axis=1,
    )
    direct = CellTable.from_codes(coded, table.keys, 1_000_000, missing)  # type: ignore[arg-type]
    assert table.fingerprint == direct.fingerprint
    assert (table.record_cell == direct.record_cell).all()


def test_order_and_memory_limit(tmp_path: Path) -> None:
    rng = np.random.default_rng(4)
    n = 1_500_000
    rows = pa.table(
        {
            "A": rng.integers(0, 300, n),
            "B": rng.integers(0, 300, n).astype(str),
            "C": rng.integers(0, 50, n),
        }
    )
    pq.write_table(rows, tmp_path / "r.parquet", row_group_size=100_000)
    microdata = read(tmp_path / "r.parquet", "A,B,C", Design(population_size=10**9))
    table = microdata.tabulate(memory_limit="80MB", threads=2)
    assert int(table.counts.sum()) == n
    levels_b = np.array([int(level) for level in table.keys[1].levels])  # type: ignore[call-overload]
    got = table.cells[table.record_cell]
    assert (got[:, 0] == rows["A"].to_numpy()).all()
    assert (levels_b[got[:, 1]] == rows["B"].to_numpy(zero_copy_only=False).astype(int)).all()
    assert (got[:, 2] == rows["C"].to_numpy()).all()
    assert microdata.tabulate(threads=1).fingerprint == table.fingerprint


def test_nothing_is_left_behind(
    frame: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setenv("TMPDIR", str(scratch))
    path = tmp_path / "x.csv"
    frame.to_csv(path, index=False)
    microdata = read(path, KEYS, DESIGN)
    kept = list(scratch.iterdir())
    assert [entry.stat().st_mode & 0o777 for entry in kept] == [0o700]
    microdata.tabulate()
    del microdata
    assert not list(scratch.iterdir())


def test_no_network(frame: pd.DataFrame, tmp_path: Path, no_network: None) -> None:
    frame.to_csv(tmp_path / "x.csv", index=False)
    read(tmp_path / "x.csv", KEYS, DESIGN, encoding="cp1252").tabulate()


def test_sessions_are_locked(tmp_path: Path) -> None:
    from unikat.data.engine import session
    from unikat.errors import DataError

    (tmp_path / "other.csv").write_text("a\n1\n")
    for query in (
        f"SELECT * FROM read_csv('{tmp_path}/other.csv')",
        f"COPY (SELECT 1) TO '{tmp_path}/out.csv'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
    ):
        with pytest.raises(DataError), session([], name="x") as connection:
            connection.execute(query)


@pytest.mark.parametrize(
    ("name", "keys", "n", "cells", "uniques"),
    [
        (
            "adult_48842",
            "age,sex,race,marital_status,education,occupation,workclass",
            48_842,
            25_223,
            18_174,
        ),
        (
            "eusilcP_population",
            "region,age,gender,ecoStat,citizenship,hsize",
            58_654,
            14_029,
            5_778,
        ),
    ],
)
def test_published_counts(
    shared_data: Path, name: str, keys: str, n: int, cells: int, uniques: int
) -> None:
    table = read(
        shared_data / f"{name}.parquet",
        keys,
        Design(population_size=n),
        codebook=shared_data / f"{name}.codebook.json",
    ).tabulate()
    assert (table.n_records, table.n_cells, table.n_uniques) == (n, cells, uniques)


def test_codebooks_of_the_real_data(shared_data: Path) -> None:
    from unikat.data import load_codebook
    from unikat.errors import SpecError

    for path in shared_data.glob("*.codebook.json"):
        if "variables" in json.loads(path.read_text()):
            # Notes on a file: its variables lie in a table of their own, beside its size and terms.
            with pytest.raises(
                SpecError, match=r"'stats': labels must hold a text .* begin with _"
            ):
                load_codebook(path)
        else:
            assert load_codebook(path)
    keys = read(
        shared_data / "acs2024_persons_northeast.parquet",
        "SEX,AGEP:width(5),SCHL",
        DESIGN,
        codebook=shared_data / "acs2024_persons.codebook.json",
    ).keys
    assert keys[0].labels == ("Male", "Female")
    assert keys[1].labels[:2] == ("0-4", "5-9")
    assert keys[2].labels[0] == "under 3"


def test_items_missing_in_real_data(shared_data: Path) -> None:
    path = shared_data / "nyexample_X.parquet"
    microdata = read(
        path, pq.read_schema(path).names, Design(population_size=10**7), missing="wildcard"
    )
    table = microdata.tabulate()
    assert table.n_records == 20_000
    assert all(1500 < n < 2500 for n in table.n_missing)
    rows = table.cells[table.record_cell]
    for cell in range(0, table.n_cells, 1500):
        pattern = table.cells[cell]
        agree = (rows == pattern) | (rows == -1) | (pattern == -1)
        assert table.matches[cell] == agree.all(axis=1).sum()
