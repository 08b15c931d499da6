"""Every bad input gets one message: file or key, rule, counts, remedy, and never a value."""

from __future__ import annotations

import datetime
import gzip
import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unikat.data import Design, Key, load_codebook, read
from unikat.errors import DataError, SpecError, UnikatError

DESIGN = Design(population_size=10**7)
SECRET = "4711"
"""A value that must not come up in any message."""


def refused(*fragments: str, source: object, keys: object = "A,B", **options: object) -> str:
    with pytest.raises(UnikatError) as caught:
        read(source, keys, options.pop("design", DESIGN), **options)  # type: ignore[arg-type]
    message = str(caught.value)
    for fragment in fragments:
        assert fragment in message, message
    assert SECRET not in message
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__ or caught.value.__context__ is None
    return message


def columns(**values: object) -> pa.Table:
    return pa.table({"B": [1, 2] * 10, **values})


def text(tmp_path: Path, content: str | bytes, name: str = "x.csv") -> Path:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_file_missing(tmp_path: Path) -> None:
    text(tmp_path, "A,B\n", "sample.csv")
    refused("There is no file", "Did you mean 'sample.csv'", source=tmp_path / "sampel.csv")
    refused("folder", "is not there either", source=tmp_path / "nowhere" / "x.csv")
    refused("has columns but no rows", source=tmp_path)
    refused("holds no Parquet, CSV, TSV or Arrow files", source=tmp_path / "*.parquet")
    refused("holds no parquet files", source=tmp_path / "*.csv", format="parquet")


@pytest.mark.parametrize("name", ["x.csv", "x.parquet", "x.arrow", "x.sav", "x.dta"])
def test_empty_file(tmp_path: Path, name: str) -> None:
    refused(f"{name} is empty (0 bytes)", source=text(tmp_path, "", name))


def test_header_without_rows(tmp_path: Path) -> None:
    refused("x.csv has columns but no rows", source=text(tmp_path, "A,B\n"))
    refused("has columns but no rows", source=columns(A=[1] * 20)[:0])
    pq.write_table(columns(A=[1] * 20)[:0], tmp_path / "x.parquet")
    refused("x.parquet has columns but no rows", source=tmp_path / "x.parquet")


def test_not_the_format_its_name_says(tmp_path: Path) -> None:
    pq.write_table(columns(A=[1, 1, 2, 2] * 5), tmp_path / "rows.csv")
    refused(
        "rows.csv is to be read as csv",
        "Parquet: --format parquet (in Python: format='parquet')",
        source=tmp_path / "rows.csv",
    )
    assert read(tmp_path / "rows.csv", "A,B", DESIGN, format="parquet").n_records == 20
    for name in ("x.parquet", "x.arrow"):
        refused("is to be read as", "something else", source=text(tmp_path, "A,B\n1,2\n", name))
    for name in ("x.sav", "x.dta", "x.sas7bdat", "x.xpt"):
        refused(f"{name} cannot be read as", source=text(tmp_path, "A,B\n1,2\n", name))
    refused(
        "a spreadsheet: --format xlsx", "Or a zip archive", source=text(tmp_path, b"PK\x03\x04....")
    )
    refused("gzip; add .gz", source=text(tmp_path, gzip.compress(b"A,B\n1,2\n")))
    refused("not a complete gzip", source=text(tmp_path, "A,B\n1,2\n", "x.csv.gz"))
    cut = gzip.compress(b"A,B\n" + b"1,2\n" * 1000)[:-12]
    refused("not a complete gzip", source=text(tmp_path, cut, "y.csv.gz"))
    refused("holds binary data", source=text(tmp_path, b"A,B\n\x00\x01,\x00\n"))
    damaged = (tmp_path / "rows.csv").read_bytes()
    refused("cannot be read as Parquet", source=text(tmp_path, damaged[:-30], "d.parquet"))
    refused("cannot be read as an Arrow file", source=text(tmp_path, b"ARROW1\0\0....", "d.arrow"))
    refused("does not say its format", "--format (in", source=text(tmp_path, "x", "book.xls"))
    refused(
        "--format parquett (in Python: format='parquett') is not known",
        "Did you mean 'parquet'",
        source=text(tmp_path, "x"),
        format="parquett",
    )


def test_wrong_encoding(tmp_path: Path) -> None:
    early = text(tmp_path, "A,B\nñ,4711\n".encode("latin-1"))
    refused("x.csv", "not UTF-8", "encoding='latin-1'", source=early)
    late = "A,B\n" + "n,4711\n" * 30_000 + "ñ,4711\n"
    refused(
        "line 30002",
        "not UTF-8",
        "encoding='latin-1'",
        source=text(tmp_path, late.encode("latin-1")),
    )
    refused("not in the encoding utf-16", source=early, encoding="utf-16")
    refused(
        "--encoding klingon (in Python: encoding='klingon') is not known",
        source=early,
        encoding="klingon",
    )


def test_broken_lines(tmp_path: Path) -> None:
    long = text(tmp_path, "A,B\n1,2\n4711,2,3\n")
    refused("x.csv, line 3", "names 2 columns", "3 fields", "delimiter", source=long)
    short = text(tmp_path, "A,B\n1,2\n4711\n")
    refused("x.csv, line 3", "1 fields", source=short)
    refused("opens and does not close", source=text(tmp_path, 'A,B\n1,2\n4711,"2\n3,4\n'))
    refused("begins with an empty line", source=text(tmp_path, "\nA,B\n1,2\n"))
    refused(
        "--delimiter ab (in Python: delimiter='ab') must be one character",
        source=long,
        delimiter="ab",
    )


def test_duplicate_column_names(tmp_path: Path) -> None:
    message = "1 column name(s) that occur more than once: columns 1, 3 are"
    refused("x.csv has", message, source=text(tmp_path, "A,B,A\n1,2,3\n"))
    twice = pa.Table.from_arrays([pa.array([1, 2])] * 3, names=["A", "B", "A"])
    refused(message, source=twice)
    refused(message, source=pd.DataFrame(np.ones((2, 3)), columns=["A", "B", "A"]))
    pq.write_table(twice, tmp_path / "x.parquet")
    refused(message, source=tmp_path / "x.parquet")


def test_unusable_sources() -> None:
    refused("type dict cannot be read", source={"A": [1]})
    refused("2 column name(s) that are not strings", source=pd.DataFrame(np.ones((2, 2))))
    refused("has no columns", source=pd.DataFrame(index=[1, 2]))
    mixed = pd.DataFrame({"A": [1, "x", 2.5, b"y"], "B": [1, 2, 1, 2]})
    refused("column 'A'", "several types", source=mixed)
    refused("design must be a Design", source=columns(), design=100)


def test_key_lists() -> None:
    source = columns(A=[1, 1, 2, 2] * 5, AGE=list(range(10)) * 2)
    refused(
        "no column 'AEG'",
        "Did you mean 'AGE'",
        "There are 3 columns: B, A, AGE.",
        source=source,
        keys="AEG,B",
    )
    refused("no column 'X'", source=source, keys="X:width(5),B")
    refused("'A' is listed more than once", source=source, keys="A,B,A:width(2)")
    refused("There are no keys", source=source, keys=" ,")
    refused("There are no keys", source=source, keys=[])
    refused("names of columns", source=source, keys=["A", 3])
    refused("Only one key ('A')", "at least two", source=source, keys="A")


@pytest.mark.parametrize(
    ("rule", "fragment"),
    [
        ("quantil(10)", "'quantil' is not known"),
        ("quantile(1)", "whole number of bins from 2"),
        ("quantile(2.5)", "whole number of bins from 2"),
        ("quantile(2,3)", "whole number of bins from 2"),
        ("quantile(10", "is malformed"),
        ("quantile", "is malformed"),
        ("width()", "is malformed"),
        ("width(x)", "is malformed"),
        ("width(0)", "one number above 0"),
        ("width(inf)", "is malformed"),
        ("width(5,6)", "one number above 0"),
        ("cut(3,2)", "must increase"),
        ("cut(1,1)", "must increase"),
        ("cut(nan)", "is malformed"),
        ("width(1e-300)", "too small"),
    ],
)
def test_binning_rules(rule: str, fragment: str) -> None:
    message = refused(fragment, source=columns(AGE=[20, 30] * 10), keys=[f"AGE:{rule}", "B"])
    assert "AGE" in message


def test_binning_of_what_is_no_number(tmp_path: Path) -> None:
    path = text(tmp_path, "A,B\n1,2\nx4711,1\nnan,2\n12,1\n")
    refused(
        "key 'A': 2 value(s) are not finite numbers",
        "missing_values",
        source=path,
        keys="A:width(5),B",
    )
    assert read(
        path, "A:width(5),B", DESIGN, missing_values=["x4711", "nan"], codebook=None
    ).n_missing == (2, 0)
    refused("1 value(s) are not finite", source=columns(A=[1.0] * 19 + [np.inf]), keys="A:cut(2),B")
    refused(
        "true and false, which cannot be binned",
        source=columns(A=[True, False] * 10),
        keys="A:cut(2),B",
    )


def test_floats_and_dates() -> None:
    halves = [0.5, 1.0, 2.0, 4711.25] * 5
    refused(
        "key 'A': the column holds decimal numbers (10 values",
        "A:quantile(10)",
        source=columns(A=halves),
    )
    days = [datetime.date(2000, month, 1) for month in (1, 2, 3, 4)] * 5
    for values in (days, pa.array(days).cast(pa.timestamp("ns"))):
        refused("key 'A' holds dates or times", "year", "A:quantile(10)", source=columns(A=values))
        refused("holds dates or times", source=columns(A=values), keys="A:width(5),B")
        labels = read(columns(A=values), "A:quantile(2),B", DESIGN).keys[0].labels
        assert labels == ("< 2000-03-01", ">= 2000-03-01")
    refused("has the type TIME", source=columns(A=[datetime.time(1)] * 20))
    refused("has the type INTEGER[]", source=columns(A=pa.array([[1]] * 20, pa.list_(pa.int32()))))


def test_useless_keys(tmp_path: Path) -> None:
    refused(
        "key 'A' has the same level in every row;", "Remove it", source=columns(A=["4711"] * 20)
    )
    refused("once it is binned", source=columns(A=[4711] * 20), keys="A:quantile(4),B")
    refused("key 'A' is missing in every row", source=columns(A=pa.nulls(20)))
    refused("is missing in every row", source=columns(A=[4711] * 20), missing_values=[int(SECRET)])
    refused("different in every one of its 20 rows", "identifies", source=columns(A=range(20)))
    many = pa.table({"A": np.arange(120_000) % 100_001, "B": np.arange(120_000) % 2})
    refused("has 100,001 levels", "at most 100,000", "A:quantile(10)", source=many)
    more = pa.table({"A": np.arange(10**6).astype(str), "B": np.arange(10**6) % 2})
    refused("levels in 1,000,000 rows", "identifies units", source=more)
    most = pa.table({"A": np.arange(120_000) % 100_000, "B": np.arange(120_000) % 2})
    assert read(most, "A,B", DESIGN).keys[0].n_levels == 100_000


def test_too_many_levels_wherever_they_are_declared(tmp_path: Path) -> None:
    many = list(range(150_000))
    source = columns(A=[1, 1, 2, 2] * 5)
    book = tmp_path / "book.json"
    book.write_text(json.dumps({"A": {"levels": many}}))
    refused("key 'A'", "declares 150,000 levels", "at most 100,000", source=source, codebook=book)
    with pytest.raises(SpecError, match="150,000 levels; a key may have at most 100,000"):
        Key(name="A", levels=tuple(many), labels=tuple(map(str, many)))
    with pytest.raises(SpecError, match="at most 100,000"):
        Key.of_size("A", 10**15)
    # Those of other variables do not matter, nor labels and categories without a record.
    for said in ({"Z": {"levels": many}}, {"A": {"labels": {str(i): "x" for i in many}}}):
        assert read(source, "A,B", DESIGN, codebook=said).keys[0].n_levels == 2
    wide = pd.DataFrame({"A": pd.Categorical([5, 7] * 10, many), "B": [1, 2, 2, 1] * 5})
    assert read(wide, "A,B", DESIGN).keys[0].levels == (5, 7)


@pytest.mark.parametrize(
    "token", ["NA", "N/A", "n/a", "NaN", "nan", ".", "NULL", "null", "None", "#N/A"]
)
def test_tokens_that_mean_missing(tmp_path: Path, token: str) -> None:
    rows = [f"{token if i < 3 else 'xyz'[i % 3]},{i % 2}\n" for i in range(20)]
    path = text(tmp_path, "A,B\n" + "".join(rows))
    table = columns(A=[row.partition(",")[0] for row in rows])
    pq.write_table(table, tmp_path / "x.parquet")
    for source in (path, tmp_path / "x.parquet", table, table.to_pandas()):
        refused(
            f"key 'A': 3 record(s) hold {token}, which",
            f"--missing-values {shlex.quote(token)} (in Python: missing_values=['{token}'])",
            "codebook",
            source=source,
        )
        for missing in ({"missing_values": [token]}, {"codebook": {"A": {"missing": [token]}}}):
            assert read(source, "A,B", DESIGN, **missing).n_missing == (3, 0)  # type: ignore[arg-type]
        for said in ({"levels": ["x", "y", "z", token]}, {"labels": {token: "not asked"}}):
            declared = read(source, "A,B", DESIGN, codebook={"A": said})
            assert token in declared.keys[0].levels
            assert declared.n_missing == (0, 0)
    numeric = columns(A=[1, 2] * 10)
    assert read(numeric, "A,B", DESIGN, missing_values=[token]).n_missing == (0, 0)


def test_tokens_are_counted_together() -> None:
    source = columns(A=["NA", "null", "x", "y"] * 5)
    refused("10 record(s) hold NA, null, which", "--missing-values NA,null", source=source)
    categories = source.to_pandas().astype({"A": "category"})
    refused("10 record(s) hold NA, null", source=categories)
    refused("10 record(s)", source=source, codebook={"A": {"levels": ["x", "y"]}})
    for level in ("?", "none", "na", "nat"):
        assert read(columns(A=[level, "x"] * 10), "A,B", DESIGN).keys[0].n_levels == 2


def test_levels_that_differ_by_blanks(tmp_path: Path) -> None:
    path = text(tmp_path, "A,B\n" + "x4711,1\ny,2\n" * 8 + "x4711 ,1\n x4711,2\n" * 2)
    refused("key 'A': 2 level(s), in 4 record(s)", "blanks", "codebook", source=path)
    padded = {"A": {"levels": ["x4711", "x4711 ", " x4711", "y"]}}
    assert read(path, "A,B", DESIGN, codebook=padded).keys[0].n_levels == 4
    refused("2 level(s), in 10 record(s)", source=columns(A=[" ", " NA", "x", "y"] * 5))
    refused("1 level(s), in 10 record(s)", source=columns(A=["x ", " x"] * 10))
    refused(
        "1 level(s), in 5 record(s)",
        source=columns(A=["9 ", "9", "x", "y"] * 5),
        missing_values=["9"],
    )
    assert read(columns(A=["x ", "y "] * 10), "A,B", DESIGN).keys[0].levels == ("x ", "y ")


def test_rows_without_any_key(tmp_path: Path) -> None:
    content = "A,B\n" + "".join(
        ",\n" if i in (3, 8, 9, 11, 15, 19) else f"{i % 3},{i % 2}\n" for i in range(20)
    )
    path = text(tmp_path, content)
    for missing in ("integrate", "wildcard"):
        refused(
            "6 row(s) have all 2 keys missing",
            "(data rows 4, 9, 10, 12, 16, ..., counted from 1)",
            "missing='level'",
            source=path,
            missing=missing,
        )
    assert read(path, "A,B", DESIGN, missing="level").n_records == 20


def test_population_size() -> None:
    source = columns(A=[1, 1, 2, 2] * 5)
    refused("population size is 19", "20 records", source=source, design=Design(population_size=19))
    with pytest.raises(SpecError, match="The population size is needed"):
        Design(population_size=None)  # type: ignore[arg-type]


def test_options() -> None:
    source = columns(A=[1, 1, 2, 2] * 5)
    refused(
        "--missing drop (in Python: missing='drop') is not known", source=source, missing="drop"
    )
    refused("missing values name 'a'", "Did you mean 'A'", source=source, missing_values={"a": [1]})
    microdata = read(source, "A,B", DESIGN)
    with pytest.raises(SpecError, match="memory limit 'lots' is not a size"):
        microdata.tabulate(memory_limit="lots")
    with pytest.raises(SpecError, match="is not a size"):
        microdata.tabulate(memory_limit="\udcff")
    # DuckDB takes these for no limit at all.
    for limit in ("-1GB", "-5", "none", "--"):
        with pytest.raises(SpecError, match="is not a size"):
            microdata.tabulate(memory_limit=limit)
    with pytest.raises(SpecError, match="threads must be at least 1"):
        microdata.tabulate(threads=0)
    with pytest.raises(DataError, match="already has a column 'B'"):
        microdata.with_columns({"B": np.zeros(20)})
    with pytest.raises(DataError, match=r"shape \(3,\); it must have one value"):
        microdata.with_columns({"C": np.zeros(3)})


@pytest.mark.parametrize(
    ("book", "fragments"),
    [
        ({"A": {"levels": [1, 3]}}, ("declares 2 levels", "10 row(s) have one of 1 other value")),
        ({"A": {"levels": [1, 1, 2]}}, ("'A': a level is listed more than once",)),
        ({"A": {"levels": [1, 2], "missing": [2]}}, ("both in levels and in missing",)),
        ({"A": {"levels": [1, 2], "labels": ["x"]}}, ("1 labels and 2 levels",)),
        ({"A": {"labels": ["x"]}}, ("go with levels",)),
        ({"A": {"levels": "12"}}, ("levels must be a list",)),
        ({"A": {"levels": [[1]]}}, ("numbers, strings or true/false",)),
        ({"A": {"levels": [1, 2], "label": {}}}, ("'label' is not known", "Did you mean 'labels'")),
        ({"A": {"levels": [1, 2], "labels": "x"}}, ("labels must be a table",)),
        ({"A": {"levels": [1, 2, "old"]}}, ("holds whole numbers, but a level declared",)),
    ],
)
def test_codebooks(book: dict[str, object], fragments: tuple[str, ...]) -> None:
    refused(*fragments, source=columns(A=[1, 1, 2, 2] * 5), codebook=book)


@pytest.mark.parametrize(
    ("name", "content", "fragment"),
    [
        ("b.json", "{", "not valid JSON (line 1"),
        ("b.json", "[1]", "must be a table of variables"),
        ("b.toml", "A = = 1", "not valid TOML"),
        ("b.json", b"\xff\xfe", "not UTF-8"),
    ],
)
def test_codebook_files(tmp_path: Path, name: str, content: str | bytes, fragment: str) -> None:
    with pytest.raises(UnikatError) as caught:
        load_codebook(text(tmp_path, content, name))
    assert fragment in str(caught.value)
    with pytest.raises(DataError, match="cannot be opened"):
        load_codebook(tmp_path / "none.json")


def rewrite(path: Path) -> None:
    pq.write_table(columns(A=[1, 2, 3, 4] * 5), path)


@pytest.mark.parametrize("change", [rewrite, Path.unlink])
def test_file_that_changes(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(columns(A=[1, 1, 2, 2] * 5), path)
    microdata = read(path, "A,B", DESIGN)
    change(path)
    with pytest.raises(DataError, match=r"x\.parquet has changed since it was read"):
        microdata.tabulate()


def test_parts_that_differ(tmp_path: Path) -> None:
    pq.write_table(columns(A=[1, 1, 2, 2] * 5), tmp_path / "a.parquet")
    pq.write_table(columns(), tmp_path / "b.parquet")
    refused("do not all have the same columns", source=tmp_path)


def test_no_pyreadstat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyreadstat", None)
    refused("needs the package pyreadstat", "unikat[stat]", source=text(tmp_path, "x", "x.sav"))


def test_import_is_light() -> None:
    code = (
        "import sys, unikat.data; "
        "print(sorted({'duckdb', 'pandas', 'pyarrow', 'polars', 'narwhals'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_ties_make_fewer_quantiles() -> None:
    values = [0] * 12 + [1, 2, 3, 4, 5, 6, 7, 8]
    key = read(columns(A=values), "A:quantile(5),B", DESIGN).keys[0]
    assert key.binning == "quantile(5)"
    assert key.labels == ("< 1", "1-4", ">= 5")
    even = read(columns(A=np.arange(20) / 4), "A:quantile(4),B", DESIGN).tabulate()
    assert np.bincount(even.cells[even.record_cell][:, 0]).tolist() == [5, 5, 5, 5]
