"""What a query of a database may be, and what is told of those that fail."""

from __future__ import annotations

import contextlib
import hashlib
import sqlite3
from pathlib import Path

import duckdb
import pytest

import unikat
from unikat.data import Design, read
from unikat.data.profile import profile
from unikat.data.queries import relation_of, without_values
from unikat.errors import DataError
from unikat.interrupts import patience

DESIGN = Design(population_size=1_000)
SECRET = "Geheimrat"


@pytest.fixture(params=["duckdb", "sqlite"])
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    path = tmp_path / f"m.{request.param}"
    statements = [
        "CREATE TABLE t (A INTEGER, B TEXT)",
        "CREATE VIEW v AS SELECT * FROM t",
        *(f"INSERT INTO t VALUES ({i % 3}, 'b{i % 2}')" for i in range(20)),
        f"INSERT INTO t VALUES (1, '{SECRET}')",
    ]
    if request.param == "duckdb":
        with duckdb.connect(str(path)) as connection:
            for statement in statements:
                connection.execute(statement)
    else:
        writer = sqlite3.connect(path)
        for statement in statements:
            writer.execute(statement)
        writer.commit()
        writer.close()
    return path


HOSTILE = [
    "SELECT A, B FROM t; COPY (SELECT 1) TO '{file}'",
    "COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)",
    "COPY t TO '{other}'",
    "SELECT A, B FROM t; COPY (SELECT 1) TO '{file}' (USE_TMP_FILE false)",
    "SELECT 1) AS x; COPY (SELECT 1 AS A) TO '{file}' (USE_TMP_FILE false); SELECT (1",
    "ATTACH '{file}' AS z; DROP TABLE z.t",
    "SELECT 1; ATTACH '{other}' AS z",
    "ATTACH '{other}' AS z",
    "DETACH original",
    "DROP TABLE t",
    "DELETE FROM t RETURNING *",
    "INSERT INTO t VALUES (7, 'x') RETURNING *",
    "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
    "SELECT (WITH gone AS (UPDATE t SET A = 0 RETURNING *) SELECT count(*) FROM gone) AS A, 1 AS B",
    "PRAGMA writable_schema = ON",
    "PRAGMA table_info('t')",
    "SET enable_external_access = true",
    "INSTALL httpfs",
    "LOAD httpfs",
    "VACUUM",
    "CHECKPOINT",
    "CALL enable_logging()",
    "EXPORT DATABASE '{other}'",
    "EXPLAIN ANALYZE SELECT A, B FROM t",
    "SELECT content AS A, 1 AS B FROM read_text('{csv}')",
    "SELECT * FROM read_csv('{csv}')",
    "SELECT * FROM '{csv}'",
    "SELECT file AS A, 1 AS B FROM glob('{csv}')",
    "SELECT * FROM query('SELECT * FROM t')",
    "SELECT name AS A, value AS B FROM duckdb_settings()",
    "SELECT load_extension('{other}') AS A, 1 AS B",
    "SELECT writefile('{other}', 'x') AS A, 1 AS B",
    "SELECT getenv('HOME') AS A, 1 AS B",
    "SELECT U&\"pg\\005fread\\005ffile\"('{csv}') AS A, 1 AS B FROM t",
    'SELECT u&"A" AS A, B FROM t',
    "SELECT A, B FROM t WHERE B = U&'b\\0030'",
    'SELECT A, B FROM t WHERE A = U /* */ & /* */ "pg\\005fsleep"',
    "SELECT \"pg\\005fread\\005ffile\"('{csv}') AS A, 1 AS B",
    "SELECT set_config('default_transaction_read_only', 'off', false) AS A, B FROM t",
    "SELECT \"SET_config\"('role', 'x', true) AS A, B FROM t",
    "SELECT pg_catalog.set_config('role', 'x', true) AS A, B FROM t",
    "SELECT set_config(is_local := true, setting_name := 'role', new_value := 'x') AS A, B FROM t",
    "SELECT A, B FROM t ORDER BY set_config('role', 'x', true)",
    "SELECT A, B FROM t LIMIT length(set_config('role', 'x', true))",
    "SELECT count(*) FILTER (set_config('role', 'x', true) = '') OVER () AS A, B FROM t",
    "SELECT A, B FROM t WINDOW w AS (ORDER BY set_config('role', 'x', true))",
    "SELECT A, B FROM t WINDOW w AS (ORDER BY \"PG_read_file\" ('{csv}'))",
    "SELECT A, (B).pg_read_file AS B FROM t",
    'SELECT A, (B)."pg_read_file" AS B FROM t',
    "SHOW TABLES",
    "SUMMARIZE t",
    "",
    ";",
    "-- nothing",
    "SELECT A, B FROM t\0",
    "SELECT '\ud800' AS A, 1 AS B",
    "SELECT A, B FROM t WHERE " + "(" * 3_000 + "true" + ")" * 3_000,
    "SELECT A, B FROM t WHERE A IN (" + "1," * 60_000 + "1)",
]


@pytest.mark.parametrize("query", HOSTILE, ids=range(len(HOSTILE)))
def test_no_query_writes_or_reads_another_file(
    database: Path, tmp_path: Path, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", SECRET)
    csv, other = tmp_path / "other.csv", tmp_path / "made"
    csv.write_text(f"A,B\n1,{SECRET}\n")
    for name, path in {"file": database, "csv": csv, "other": other}.items():
        query = query.replace(f"{{{name}}}", str(path))
    before = {path: hashlib.sha256(path.read_bytes()).digest() for path in (database, csv)}
    specification = tmp_path / "assessment.toml"
    with pytest.raises(DataError, match=r"one SELECT|only the file that was named") as refused:
        read(database, "A,B", DESIGN, query=query)
    assert SECRET not in str(refused.value)
    assert set(tmp_path.iterdir()) == {database, csv}
    if "\0" not in query and "\ud800" not in query:
        specification.write_text(
            "population_size = 1000\nkeys = ['A', 'B']\n"
            f"[data]\npath = '{database}'\nquery = '''{query}'''\n"
        )
        with pytest.raises(unikat.UnikatError):
            unikat.assess(specification, out=tmp_path / "out", progress=False)
        specification.unlink()
        assert not (tmp_path / "out").exists()
    assert set(tmp_path.iterdir()) == {database, csv}
    assert before == {path: hashlib.sha256(path.read_bytes()).digest() for path in before}


@pytest.mark.parametrize(
    "query",
    [
        "SELECT A, B FROM t; -- all of them",
        "/* one */ SELECT A, B FROM t /* two */ ; ;",
        "FROM t",
        "SELECT A, B FROM t WHERE B <> 'U&\"x\"' AND A & 1 >= 0 -- U&'x'",
        "WITH u AS (SELECT * FROM v) SELECT A, '; -- ' || B AS B FROM u",
        "SELECT A, B FROM t UNION ALL SELECT A, B FROM t WHERE A > 5",
    ],
)
def test_queries_that_read(database: Path, query: str) -> None:
    if database.suffix == ".sqlite" and query.startswith("FROM"):
        pytest.skip("DuckDB alone knows a SELECT without this word")
    assert read(database, "A,B", DESIGN, query=query).n_records == 21


def test_a_query_does_not_see_variables(tmp_path: Path) -> None:
    import pandas as pd

    people = pd.DataFrame({"A": [1, 2], "B": [1, 2]})
    with duckdb.connect(str(tmp_path / "m.duckdb")) as connection:
        connection.execute("CREATE TABLE t AS SELECT 1 AS A")
    assert len(people) == 2
    with pytest.raises(DataError, match="one SELECT"):
        read(tmp_path / "m.duckdb", "A,B", DESIGN, query="SELECT * FROM people")


@pytest.mark.parametrize(
    "listed",
    [
        "CAST(B AS INTEGER) AS A, 1 AS C",
        "strptime(B, '%Y') AS A, 1 AS C",
        "error(B) AS A, 1 AS C",
        "json_extract(B, '$') AS A, 1 AS C",
        "B::JSON AS A, 1 AS C",
        "date_part(B, now()) AS A, 1 AS C",
        "(SELECT A FROM t)::ENUM('x') AS A, 1 AS C",
        "regexp_matches('a', B || '(') AS A, 1 AS C",
        "list_sort([1], B) AS A, 1 AS C",
        f"CAST(B AS DATE) AS A, 1 AS C FROM t WHERE B <> '{SECRET[:4]}' OR",
    ],
)
def test_errors_do_not_quote_values(database: Path, listed: str) -> None:
    if database.suffix == ".sqlite" and listed.startswith(("CAST", "B::")):
        pytest.skip("SQLite takes any text for a number")
    end = " true" if listed.endswith("OR") else " FROM t"
    with pytest.raises(DataError) as refused:
        read(database, "A,C", DESIGN, query=f"SELECT {listed}{end}", constant_keys=True)
    assert SECRET not in str(refused.value)
    assert "b0" not in str(refused.value)


def test_the_column_that_cannot_be_computed_is_named(tmp_path: Path) -> None:
    with duckdb.connect(str(tmp_path / "m.duckdb")) as connection:
        connection.execute(f"CREATE TABLE t AS SELECT 1 AS A, '{SECRET}' AS B")
    with pytest.raises(DataError, match="column 'year': a value cannot be computed"):
        read(tmp_path / "m.duckdb", "A,year", DESIGN, query="SELECT A, B::INTEGER AS year FROM t")


def test_what_is_told_of_an_error_stands_in_the_query() -> None:
    assert without_values('relation "Müller-Lü 7" does not exist', "SELECT a::regclass") == (
        'relation "…" does not exist'
    )
    assert "42" not in without_values("invalid value 42 for a", "SELECT a")
    assert without_values('Binder Error: column "agee" not found!\nLINE 1: x', "SELECT agee") == (
        'column "agee" not found'
    )


def test_what_duckdb_does_not_parse_is_refused_with_a_way_out() -> None:
    with pytest.raises(DataError, match="grammar of DuckDB holds for all databases") as refused:
        relation_of("SELECT j #>> '{a}' AS a FROM t")
    assert "view" in str(refused.value)
    assert "--table" in str(refused.value)


def test_a_page_waits_for_no_query_or_view_without_end(tmp_path: Path) -> None:
    endless = "WITH RECURSIVE x(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM x) SELECT i, 1 FROM x"
    with contextlib.closing(sqlite3.connect(tmp_path / "x.sqlite")) as base:
        base.execute(f"CREATE VIEW endless AS {endless}")
    with contextlib.closing(duckdb.connect(str(tmp_path / "x.duckdb"))) as base:
        base.execute(
            "CREATE VIEW endless AS SELECT count(*) AS a, 1 AS b FROM range(100000000000000)"
        )
    before = patience.set(0.2)
    try:
        for name in ("x.sqlite", "x.duckdb"):
            for how in ({"table": "endless"}, {"query": endless}):
                with pytest.raises(
                    DataError, match="longer than 0 seconds, for which a page waits"
                ):
                    profile(tmp_path / name, **how)
    finally:
        patience.reset(before)
