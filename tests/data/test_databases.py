"""SQLite and DuckDB files: values as they are, rows in one order, nothing written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import duckdb
import pytest

from data.decoding import decoded
from unikat.data import Design, Microdata, read
from unikat.errors import UnikatError

DESIGN = Design(population_size=10**6)


def sqlite(path: Path, *statements: str, rows: Iterable[tuple[Any, ...]] = ()) -> Path:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    for row in rows:
        connection.execute(f"INSERT INTO t VALUES ({', '.join('?' * len(row))})", row)
    connection.commit()
    connection.close()
    return path


def column(microdata: Microdata, name: str) -> list[object]:
    return decoded(microdata.tabulate())[name].tolist()


def refused(source: Path, keys: str = "A,B", **options: Any) -> str:
    with pytest.raises(UnikatError) as caught:
        read(source, keys, DESIGN, **options)
    return str(caught.value)


def test_sqlite_values(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path / "it's #1?.db",
        "CREATE TABLE t (A, B, C, D TEXT, E)",
        rows=[
            (1, 1.0, "01", "x", b"\0"),
            (2, 2.0, 1, None, b"\0"),
            (None, 2, 1.0, "", None),
            (2, None, "", "y", b"\1"),
        ],
    )
    microdata = read(path, "A,B,C,D", DESIGN)
    assert column(microdata, "A") == [1, 2, None, 2]
    assert column(microdata, "B") == [1, 2, 2, None]
    assert column(microdata, "C") == ["01", "1", "1", None]
    assert column(microdata, "D") == ["x", None, None, "y"]
    added = microdata.with_columns({"risk": [0.0] * 4})
    assert added["E"].to_pylist() == [b"\0", b"\0", None, b"\1"]
    assert "BLOB" in refused(path, "A,E")
    assert list(tmp_path.iterdir()) == [path]


def test_sqlite_order_does_not_depend_on_indices(tmp_path: Path) -> None:
    rows = [(7 * i % 5, i, f"x{i % 3}") for i in range(40)]
    path = sqlite(
        tmp_path / "x.sqlite",
        "CREATE TABLE t (A, B, C)",
        "CREATE INDEX covering ON t (A, C)",
        "CREATE VIEW v AS SELECT * FROM t",
        rows=rows,
    )
    for table in ("t", "v"):
        microdata = read(path, "A,C", DESIGN, table=table)
        assert column(microdata, "A") == [row[0] for row in rows]
        assert microdata.to_frame()["B"].to_pylist() == list(range(40))


def test_sqlite_tables(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "x.sqlite", "CREATE TABLE t (A, B)", 'CREATE TABLE "a b" (A, B)')
    message = refused(path)
    assert "holds 2 tables: 'a b', 't'" in message
    assert "--table 'a b' (in Python: table='a b')" in message
    assert "holds no table 'T1'. Did you mean 't'?" in refused(path, table="T1")
    assert "has columns but no rows" in refused(path, table="a b")
    assert "holds no table" in refused(
        sqlite(tmp_path / "e.db", "CREATE TABLE t (a)", "DROP TABLE t")
    )


def test_sqlite_with_a_journal(tmp_path: Path) -> None:
    """What another program has written and not yet moved into the file is read too."""
    path = tmp_path / "x.sqlite"
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA journal_mode = WAL")
    writer.execute("CREATE TABLE t (A, B)")
    writer.executemany("INSERT INTO t VALUES (?, ?)", [(i % 2, i % 3) for i in range(12)])
    writer.commit()
    assert read(path, "A,B", DESIGN).n_records == 12
    writer.close()


def test_sqlite_that_cannot_be_read(tmp_path: Path) -> None:
    path = sqlite(
        tmp_path / "x.sqlite",
        "CREATE TABLE t (A, B)",
        rows=[(i % 2, f"y{i % 3}") for i in range(999)],
    )
    whole = path.read_bytes()
    path.write_bytes(whole[:5000] + b"\xff" * 3000)
    assert "cannot be read as an SQLite database" in refused(path)
    latin = sqlite(
        tmp_path / "l.sqlite",
        "CREATE TABLE t (A, B)",
        "INSERT INTO t VALUES (CAST(x'f1' AS TEXT), 1), ('b', 2)",
    )
    assert "text that is not UTF-8" in refused(latin)
    path.write_bytes(whole.replace(b"(A, B)", b"(\xff, B)"))
    assert "cannot be read as an SQLite database" in refused(path)
    (tmp_path / "text.db").write_text("A,B\n1,2\n")
    assert "looks like something else" in refused(tmp_path / "text.db")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """A DuckDB file with a table, one in a schema, and a view."""
    path = tmp_path / "it's.duckdb"
    with duckdb.connect(str(path)) as connection:
        connection.execute(
            "CREATE TYPE mood AS ENUM ('never', 'low', 'high'); CREATE SCHEMA s;"
            "CREATE TABLE t AS SELECT 7 * range % 5 AS A, 'k' || range % 3 AS B, "
            '(CASE WHEN range % 2 = 0 THEN \'high\' ELSE \'low\' END)::mood AS "it\'s ""C""", '
            "range AS D FROM range(40);"
            "CREATE TABLE s.u AS SELECT * FROM t;"
            "CREATE VIEW v AS SELECT A, B, D FROM t WHERE D < 30"
        )
    return path


def test_duckdb(database: Path) -> None:
    before = database.read_bytes()
    for table, n in (("t", 40), ("s.u", 40), ("v", 30)):
        microdata = read(database, "A,B", DESIGN, table=table)
        assert column(microdata, "A") == [7 * i % 5 for i in range(n)]
        assert microdata.with_columns({"risk": [0.0] * n})["D"].to_pylist() == list(range(n))
    strange = read(database, ["A", 'it\'s "C"'], DESIGN, table="t")
    assert strange.keys[1].levels == ("low", "high")
    message = refused(database)
    assert "holds 3 tables: 't', 'v', 's.u'" in message
    assert "--table t (in Python: table='t')" in message
    assert database.read_bytes() == before
    assert list(database.parent.iterdir()) == [database]


def test_databases_called_db(database: Path, tmp_path: Path) -> None:
    path = database.rename(tmp_path / "x.db")
    assert read(path, "A,B", DESIGN, table="t").n_records == 40
    assert "looks like DuckDB: --format duckdb" in refused(path.rename(tmp_path / "x.csv"))


def test_a_value_beyond_what_sqlite_holds_is_the_fault_of_the_query(tmp_path: Path) -> None:
    path = sqlite(tmp_path / "x.db", "CREATE TABLE t (A, B)", rows=[(1, 2), (2, 3)])
    said = refused(path, query="SELECT A, zeroblob(2000000000) AS B FROM t")
    assert "the query is refused: a value cannot be computed as it asks" in said


def test_a_view_reads_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "other.csv").write_text("A,B\n1,2\n")
    with duckdb.connect(str(tmp_path / "x.duckdb")) as connection:
        connection.execute(f"CREATE VIEW v AS FROM read_csv('{tmp_path}/other.csv')")
    assert "only the file that was named is read" in refused(tmp_path / "x.duckdb")


def test_duckdb_with_a_journal(tmp_path: Path) -> None:
    path = tmp_path / "x.duckdb"
    code = (
        f"import duckdb, os; c = duckdb.connect({str(path)!r});"
        "c.execute('PRAGMA disable_checkpoint_on_shutdown');"
        "c.execute('CREATE TABLE t AS SELECT range % 2 AS A, range % 3 AS B FROM range(12)');"
        "os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert Path(f"{path}.wal").exists()
    assert read(path, "A,B", DESIGN).tabulate().n_records == 12


def test_duckdb_that_cannot_be_read(database: Path) -> None:
    code = (
        "import duckdb, sys, time; c = duckdb.connect(sys.argv[1]); print('open', flush=True);"
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        other.stdout.readline()
        assert "Another program has it open for writing" in refused(database)
        other.communicate()
    whole = bytearray(database.read_bytes())
    whole[0:4096] = whole[0:16] + bytes(4080)
    database.write_bytes(whole)
    assert "cannot be opened as a DuckDB database" in refused(database)


def test_queries(tmp_path: Path, database: Path) -> None:
    rows = [(1, "x"), (1, "y"), (2, "x"), (2, "x")]
    path = sqlite(tmp_path / "a.sqlite", "CREATE TABLE t (A, B)", rows=rows)
    with duckdb.connect(str(tmp_path / "a.duckdb")) as connection:
        connection.execute("CREATE TABLE t (A INT, B TEXT)")
        connection.executemany("INSERT INTO t VALUES (?, ?)", rows)
    for source in (path, tmp_path / "a.duckdb"):
        found = read(source, "twice,B", DESIGN, query="SELECT A * 2 AS twice, B FROM t; ")
        assert column(found, "twice") == [2, 2, 4, 4]
        assert "one SELECT" in refused(source, query="SELECT nope FROM t -- why not")
        assert "one SELECT" in refused(source, query="DELETE FROM t RETURNING *")
        assert "leave one of them out" in refused(source, query="SELECT 1", table="t")
        assert read(source, "A,B", DESIGN).n_records == 4
    (tmp_path / "a.csv").write_text("A,B\n1,2\n")
    assert "has no queries" in refused(tmp_path / "a.csv", query="SELECT 1")


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
@pytest.mark.parametrize("listed", ["a, b", "repeated"])
def test_views_stop_at_the_limit(tmp_path: Path, kind: str, listed: str) -> None:
    """An endless view: what has come so far is counted, and not what is to come."""
    path = tmp_path / f"x.{kind}"
    text = "b" if kind == "duckdb" else "CAST(b AS TEXT)"
    long = "repeat(b, 9)" if kind == "duckdb" else f"printf('%s%01000d', {text}, 0)"
    rows = "a, b" if listed == "a, b" else f"a, {long} AS b"
    if kind == "duckdb":
        with duckdb.connect(str(path)) as connection:
            connection.execute(
                f"CREATE VIEW v AS SELECT {rows} FROM (SELECT i % 3 AS a, 'x' || i AS b "
                "FROM range(1000000000) t(i))"
            )
    else:
        with sqlite3.connect(path) as other:
            other.execute(
                "CREATE VIEW v AS WITH RECURSIVE t(a, b) AS (VALUES (1, 'x') UNION ALL "
                f"SELECT a % 3 + 1, '{'x' * 40}' || a FROM t LIMIT 300000) SELECT {rows} FROM t"
            )
        other.close()
    for options in ({"table": "v"}, {"query": "SELECT a, b FROM v"}):
        said = refused(path, "a,b", memory_limit="10MB", **options)
        assert "needs more memory than the 10MB allowed: its rows are" in said
