"""Tables of a real PostgreSQL server: what is read, what is refused, what is never told."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postgres_server
import unikat.data.profile
from postgres_server import SECRET, Server
from unikat.data import Design, postgres, read
from unikat.data.postgres_places import services, with_timeout
from unikat.data.readers import open_source
from unikat.errors import DataError, SpecError, UnikatError
from unikat.inference.progress import Watcher
from unikat.interrupts import interrupt_main_thread, patience
from unikat.jobs.inputs import open_data
from unikat.spec.tables import DataSpec

pytest.importorskip("adbc_driver_postgresql")
pytestmark = pytest.mark.skipif(
    postgres_server.programs() is None, reason="needs the programs of PostgreSQL"
)
ODD = 'odd"; DROP TABLE persons; --'
DESIGN = Design(population_size=100_000)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", SECRET)
        with postgres_server.server() as running:
            running.run(table=("persons", pa.Table.from_pandas(people())))
            running.run(
                f"CREATE ROLE reader LOGIN PASSWORD '{SECRET}'",
                "GRANT SELECT ON persons TO reader",
                "CREATE TABLE secrets (a int, b int)",
                "INSERT INTO secrets VALUES (1, 2), (2, 1)",
            )
            yield running


def people(n: int = 3_000) -> pd.DataFrame:
    """Persons with missing values, empty texts, and texts that only look like numbers."""
    rng = np.random.default_rng(5)
    region = rng.choice(["01", "02", "ö'x", "", "west"], n).astype(object)
    region[::97] = None
    return pd.DataFrame(
        {
            "id": rng.permutation(n),
            "AGE": pd.array(np.where(rng.random(n) < 0.05, None, rng.integers(18, 80, n)), "Int64"),
            "region": region,
            "citizen": rng.random(n) < 0.9,
            "income": rng.normal(size=n).round(3),
        }
    )


KEYS = ["AGE", "region", "citizen", "income:quantile(4)"]


def test_a_table_is_the_same_as_its_file(server: Server, tmp_path: Path) -> None:
    file = tmp_path / "persons.parquet"
    people().to_parquet(file)
    for missing in ("integrate", "level"):
        expected = read(file, KEYS, DESIGN, missing=missing).tabulate()
        found = read(
            server.address("reader"), KEYS, DESIGN, table="persons", missing=missing
        ).tabulate()
        assert found.fingerprint == expected.fingerprint
        assert [key.labels for key in found.keys] == [key.labels for key in expected.keys]
        assert found.n_records == 3_000


def test_a_combination_of_thousands_of_rows_is_counted_in_full(server: Server) -> None:
    # It is repeated in pieces of a thousand rows.
    query = (
        "SELECT CASE WHEN i <= 2500 THEN 1 WHEN i <= 3500 THEN 2 ELSE 3 END AS a, "
        "CASE WHEN i = 4000 THEN 'x' ELSE 'y' END AS b FROM generate_series(1, 4000) AS i"
    )
    found = read(server.address(), ["a", "b"], DESIGN, query=query).tabulate()
    assert found.counts.tolist() == [2_500, 1_000, 1, 499]


def test_columns_asked_for_later_are_of_the_same_rows(server: Server) -> None:
    microdata = read(server.address(), ["AGE", "region", "citizen"], DESIGN, table="persons")
    table = microdata.tabulate()
    ids, names = microdata.codes("id")
    incomes = microdata.values(["income"])["income"].to_pylist()
    truth = people().set_index("id")
    ages, regions, _ = table.keys
    for row in range(0, 3_000, 7):
        person = truth.loc[int(names[ids[row]])]
        age, region, _ = table.cells[table.record_cell[row]]
        assert (None if pd.isna(person["AGE"]) else person["AGE"]) == (
            None if age < 0 else ages.levels[age]
        )
        assert (None if pd.isna(person["region"]) else person["region"] or None) == (
            None if region < 0 else regions.levels[region]
        )
        assert incomes[row] == person["income"]


def test_types_and_orders(server: Server) -> None:
    server.run(
        "CREATE TYPE mood AS ENUM ('sad', 'fair', 'gay')",
        "CREATE DOMAIN grade AS numeric(3,1)",
        "CREATE TABLE sexes (code smallint PRIMARY KEY, said text)",
        "INSERT INTO sexes VALUES (1, 'female'), (2, 'male'), (3, NULL)",
        "CREATE TABLE kinds (m mood, d grade, c char(4), u uuid, s smallint REFERENCES sexes, "
        "day date, at timestamptz, f real, j json, list int[])",
        "INSERT INTO kinds SELECT (ARRAY['gay','sad','fair'])[1 + i % 3]::mood, i % 4, "
        "(ARRAY['ab','x'])[1 + i % 2], md5((i % 5)::text)::uuid, 1 + i % 2, "
        "date '2020-01-01' + i, now() + i * interval '1 hour', i % 7, '{}', '{1}' "
        "FROM generate_series(1, 60) AS i",
    )
    keys = ["m", "d", "c", "u", "s", "day:quantile(3)", "at:quantile(2)", "f"]
    found = {
        key.name: key for key in read(server.address(), keys, DESIGN, table="kinds").tabulate().keys
    }
    assert found["m"].levels == ("sad", "fair", "gay")
    assert found["d"].levels == (0, 1, 2, 3)
    assert found["c"].levels == ("ab", "x")
    assert found["s"].labels == ("female", "male")
    assert [found[name].n_levels for name in ("u", "day", "at", "f")] == [5, 3, 2, 7]
    for name, kind in (("j", "json"), ("list", "integer[]")):
        with pytest.raises(DataError, match=re.escape(f"has the type {kind}")):
            read(server.address(), ["m", name], DESIGN, table="kinds")


def test_names_that_look_like_statements(server: Server) -> None:
    quoted = ODD.replace('"', '""')
    server.run(
        'CREATE SCHEMA IF NOT EXISTS "Other"',
        f'CREATE TABLE "Other"."{quoted}" ("A""b" int, "select" text)',
        f"INSERT INTO \"Other\".\"{quoted}\" VALUES (1, 'x'), (2, 'y'), (2, 'y')",
    )
    found = read(server.address(), ['A"b', "select"], DESIGN, table=f"Other.{ODD}").tabulate()
    assert found.counts.tolist() == [1, 2]
    assert server.rows("SELECT count(*) FROM persons") == [(3_000,)]


def test_queries_read_and_never_write(server: Server) -> None:
    query = "SELECT \"AGE\" / 10 AS tens, citizen FROM persons WHERE region = '01' -- mine"
    expected = people().query("region == '01'")
    found = read(server.address(), ["tens", "citizen"], DESIGN, query=query).tabulate()
    assert found.n_records == len(expected)
    server.run(
        "CREATE FUNCTION gone() RETURNS int LANGUAGE sql AS 'DELETE FROM persons RETURNING 1'"
    )
    for writing in (
        "DELETE FROM persons RETURNING *",
        "WITH gone AS (DELETE FROM persons RETURNING *) SELECT * FROM gone",
        "SELECT gone() AS a, 1 AS b",
        "SELECT 1 AS a, 2 AS b) AS x; DELETE FROM persons; --",
    ):
        with pytest.raises(DataError, match=r"writes|one SELECT"):
            read(server.address(), ["a", "b"], DESIGN, query=writing)
    assert server.rows("SELECT count(*) FROM persons") == [(3_000,)]
    with pytest.raises(SpecError, match="leave one of them out"):
        read(server.address(), ["a", "b"], DESIGN, query="SELECT 1", table="persons")


@pytest.mark.parametrize(
    "query",
    [
        "SELECT U&\"pg\\005fread\\005ffile\"('PG_VERSION') AS a, 1 AS b",
        "SELECT ('PG_VERSION'::text).pg_read_file AS a, 1 AS b",
        "SELECT a, b FROM (SELECT 1 AS a, 1 AS b) AS t WINDOW w AS (ORDER BY pg_read_file('none'))",
        "SELECT 1 AS a, 1 AS b WHERE set_config('search_path', 'x', true) = 'x'",
    ],
)
def test_other_writings_of_a_call_are_calls(server: Server, query: str) -> None:
    """PostgreSQL calls the function, whatever DuckDB's parser makes of the text."""
    with pytest.raises(DataError, match="one SELECT"):
        read(server.address(), ["a", "b"], DESIGN, query=query)


@pytest.mark.parametrize(
    ("user", "database", "table", "said"),
    [
        ("postgres", "postgres", "person", "Did you mean 'persons'"),
        ("reader", "postgres", "secrets", "permission denied for table secrets"),
        ("nobody", "postgres", "persons", "does not let this user in"),
        ("postgres", "nowhere", "persons", "has no database 'nowhere'"),
    ],
)
def test_what_is_refused(server: Server, user: str, database: str, table: str, said: str) -> None:
    with pytest.raises(UnikatError, match=said):
        read(server.address(user, database), ["AGE", "region", "citizen"], DESIGN, table=table)


def test_passwords_are_never_told(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    with_password = server.address().replace("postgres@", f"postgres:{SECRET}@")
    for address in (with_password, f"{server.address()}?password={SECRET}"):
        with pytest.raises(SpecError, match="holds a password") as refused:
            unikat.assess(address, keys=["AGE", "region"], population_size=9, table="persons")
        assert SECRET not in str(refused.value)
    monkeypatch.setenv("PGPASSWORD", "wrong-password")
    with pytest.raises(DataError, match="does not let this user in") as refused_by_server:
        read(server.address(), ["AGE", "region", "citizen"], DESIGN, table="persons")
    assert "wrong-password" not in str(refused_by_server.value)


def test_values_of_records_are_not_told(server: Server) -> None:
    with pytest.raises(DataError) as refused:
        read(server.address(), ["a", "b"], DESIGN,
             query="SELECT region::int AS a, 1 AS b FROM persons")  # fmt: skip
    assert "west" not in str(refused.value)
    assert "ö" not in str(refused.value)


OF_VALUES = [
    "to_tsquery(region || ' &')::text",
    "region::regclass::text",
    "region::regproc::text",
    "region::regrole::text",
    "region::date",
    "region::uuid",
    "region::int",
    "('{' || region)::json::text",
    "(xpath('//x', ('<' || region || '>')::xml))::text",
    "to_date(region, 'YYYY')",
    "date_part(region, now())",
    "timezone(region, now())",
    "convert_to(region, region)::text",
    "current_setting(region)",
    "has_table_privilege(region, 'select')",
    'make_date(coalesce("AGE", 1), 13, 99)',
    "region ~ (region || '(')",
    "raised(region)",
]


@pytest.fixture(scope="module")
def raising(server: Server) -> None:
    server.run(
        "CREATE TABLE western AS SELECT 'west'::text AS region, 4711 AS \"AGE\"",
        "CREATE FUNCTION raised(x text) RETURNS int LANGUAGE plpgsql STABLE AS "
        "$$BEGIN RAISE EXCEPTION 'no % here', x USING ERRCODE = '42501'; END$$",
    )


@pytest.mark.usefixtures("raising")
@pytest.mark.parametrize("computed", OF_VALUES)
def test_texts_of_the_server_do_not_reach_the_user(server: Server, computed: str) -> None:
    query = f"SELECT 1 AS whole, {computed} AS broken FROM western"
    with pytest.raises(DataError) as refused:
        read(server.address(), ["whole", "broken"], DESIGN, query=query)
    message = str(refused.value)
    assert "west" not in message
    assert "4711" not in message
    assert re.search(r"\(SQLSTATE \w{5}\)", message)
    if "raised" not in computed:
        assert "column 'broken'" in message


def test_names_of_the_query_are_told(server: Server) -> None:
    for query, said in (
        ("SELECT agee FROM persons", 'column "agee" does not exist'),
        ("SELECT 1 FROM person", 'relation "person" does not exist'),
        ("SELECT tens(region) FROM persons", "function tens(text) does not exist"),
    ):
        with pytest.raises(DataError, match=re.escape(said)):
            read(server.address(), ["a", "b"], DESIGN, query=query)


@pytest.mark.parametrize(
    "query",
    [
        "COPY persons TO PROGRAM 'touch {made}'",
        "SELECT 1 AS a, 2 AS b; COPY persons TO '{made}'",
        "SELECT pg_read_file('{secret}') AS a, 2 AS b",
        "SELECT a, 2 AS b FROM pg_catalog.\"pg_ls_dir\"('/') AS a",
        "SELECT lo_export(1, '{made}') AS a, 2 AS b",
        "SELECT lo_import('{secret}') AS a, 2 AS b",
        "SELECT dblink_exec('dbname=postgres', 'DELETE FROM persons') AS a, 2 AS b",
        "SELECT query_to_xml('COPY persons TO ''{made}''', true, true, '')::text AS a, 2 AS b",
        "SELECT set_config('default_transaction_read_only', 'off', false) AS a, 2 AS b",
        "SELECT pg_terminate_backend(pg_backend_pid()) AS a, 2 AS b",
        "SELECT * FROM persons FOR UPDATE",
        "SELECT citizen AS a, region AS b INTO taken FROM persons",
        "WITH g AS (INSERT INTO persons SELECT * FROM persons RETURNING *) SELECT * FROM g",
        "WITH g AS (WITH h AS (DELETE FROM persons RETURNING *) SELECT * FROM h) SELECT * FROM g",
        "SET ROLE postgres",
        "DO $$BEGIN DELETE FROM persons; END$$",
        "VACUUM",
        "TRUNCATE persons",
    ],
)
def test_a_superuser_gets_nothing_but_rows(server: Server, tmp_path: Path, query: str) -> None:
    tmp_path.chmod(0o777)
    made, secret = tmp_path / "made", tmp_path / "secret"
    secret.write_text(SECRET)
    query = query.replace("{made}", str(made)).replace("{secret}", str(secret))
    with pytest.raises(DataError, match="one SELECT") as refused:
        read(server.address(), ["a", "b"], DESIGN, query=query)
    assert SECRET not in str(refused.value)
    assert not made.exists()
    assert server.rows("SELECT count(*) FROM persons") == [(3_000,)]


def test_a_superuser_is_warned_of(server: Server) -> None:
    reader = open_source(server.address("reader"), table="persons")
    assert reader.warnings == ()
    (warning,) = open_source(server.address(), table="persons").warnings
    assert "is a superuser" in warning
    assert "SELECT alone" in warning
    server.run(
        f"CREATE ROLE starter LOGIN PASSWORD '{SECRET}' IN ROLE pg_execute_server_program",
        "GRANT SELECT ON persons TO starter",
    )
    (warning,) = open_source(server.address("starter"), table="persons").warnings
    assert "may write files or start programs" in warning
    for user, n in (("postgres", 1), ("reader", 0)):
        notes: list[str] = []
        data = DataSpec(database=server.address(user), table="persons")
        open_data(data, ["region", "citizen"], DESIGN, watcher=Watcher(note=notes.append))
        assert len([note for note in notes if "is a superuser" in note]) == n


def test_a_table_that_changes_meanwhile_is_refused(server: Server) -> None:
    server.run("CREATE TABLE moving AS SELECT * FROM persons")
    microdata = read(server.address(), ["AGE", "region", "citizen"], DESIGN, table="moving")
    microdata.tabulate()
    server.run("UPDATE moving SET region = '01' WHERE id = 7")
    with pytest.raises(DataError, match="has changed since it was read"):
        microdata.codes("income")


SLOW = "SELECT a, b, pg_sleep(30)::text AS c FROM (VALUES (1, 2), (2, 3)) AS v (a, b)"


@pytest.mark.parametrize("how", ["cancelled", "restarted"])
def test_a_query_that_the_server_ends(server: Server, how: str) -> None:
    def end() -> None:
        while not server.rows(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity "
            "WHERE query LIKE '%count(*) AS n FROM%' AND pid <> pg_backend_pid()"
            if how == "cancelled"
            else "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%count(*) AS n FROM%' "
            "AND pid <> pg_backend_pid()"
        ):
            time.sleep(0.05)
        if how == "restarted":
            server.restart()

    # The types are found by looking at one row, which takes this query its time, too.
    query = SLOW.replace("pg_sleep(30)", "pg_sleep(CASE a WHEN 2 THEN 30 ELSE 0 END)")
    killer = threading.Thread(target=end)
    killer.start()
    with pytest.raises(DataError, match=r"was cancelled|was shut down|was lost"):
        read(server.address(), ["a", "b", "c"], DESIGN, query=query)
    killer.join()
    found = read(server.address(), ["AGE", "region", "citizen"], DESIGN, table="persons")
    assert found.n_records == 3_000


def test_ctrl_c_ends_the_query_on_the_server(server: Server) -> None:
    query = SLOW.replace("pg_sleep(30)", "pg_sleep(CASE a WHEN 2 THEN 30 ELSE 0 END)")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "unikat", "assess", server.address(), "--query", query),
            *("--keys", "a,b,c", "--population-size", "100"),
        ],
        stderr=subprocess.PIPE,
        text=True,
    )
    running = "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%count(*) AS n FROM (SELECT a%' "
    running += "AND state = 'active' AND pid <> pg_backend_pid()"
    while not server.rows(running):
        time.sleep(0.1)
        assert process.poll() is None
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=20)
    assert "Traceback" not in said
    assert not server.rows(running)


def test_an_assessment_of_a_table(server: Server, tmp_path: Path) -> None:
    server.run(
        "CREATE TABLE weighted AS SELECT *, 20 + id % 3 AS weight FROM persons WHERE id < 400"
    )
    options = {
        "keys": ["AGE:width(10)", "region", "citizen"], "weights": "weight", "table": "weighted",
        "by": "citizen", "model": "latent-class", "chains": 2, "max_sweeps": 60, "workers": 1,
        "progress": False,
    }  # fmt: skip
    found = unikat.assess(server.address(), **options, out=tmp_path / "one")
    again = unikat.assess(
        tmp_path / "one/assessment.toml", out=tmp_path / "two", progress=False, trust_spec=True
    )
    assert again.tau1 == found.tau1
    result = json.loads((tmp_path / "one/result.json").read_text())
    assert result["data"] == "weighted in postgres"
    (query,) = result["provenance"]["queries"]
    assert "count(*) AS n FROM public.weighted GROUP BY 1, 2, 3, 4" in query
    assert "Ran in the database" in (tmp_path / "one/report.html").read_text()
    for file in (tmp_path / "one").rglob("*"):
        assert file.is_dir() or SECRET.encode() not in file.read_bytes()
    # The rows of a table have no order, so that levels say which is which.
    records = pq.read_table(tmp_path / "one/records.parquet").to_pandas()
    here = people().query("id < 400")
    frequency = here.assign(AGE=here["AGE"] // 10).groupby(["AGE", "region", "citizen"]).size()
    complete = records.dropna(subset=["level.AGE", "level.region", "level.citizen"])
    for _, row in complete.iterrows():
        key = (int(row["level.AGE"][:2]) // 10, row["level.region"], row["level.citizen"] == "True")
        assert frequency[key] == row["f"]


def refused(address: str, **how: str) -> str:
    """The one message for what cannot be read, which tells no password."""
    with pytest.raises(UnikatError) as error:
        open_source(address, **how)
    assert SECRET not in str(error.value)
    return str(error.value)


@pytest.fixture
def places(server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Server, Path]:
    """The server, and a home without a password in it or in the environment."""
    monkeypatch.delenv("PGPASSWORD")
    monkeypatch.setenv("HOME", str(tmp_path))
    return server, tmp_path


def test_passwords_come_from_postgresqls_own_places(
    places: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    server, home = places
    address = server.address("reader")
    assert "does not let this user in" in refused(address, table="persons")
    line = f"127.0.0.1:{server.port}:*:reader:"
    for place in (home / ".pgpass", home / "elsewhere"):
        if place.name == "elsewhere":
            monkeypatch.setenv("PGPASSFILE", str(place))
        place.write_text(line + SECRET)
        place.chmod(0o644)
        assert "chmod 600" in refused(address, table="persons")
        place.chmod(0o600)
        assert open_source(address, table="persons").columns
        place.write_text(f"{line}wrong{SECRET}")
        assert "does not let this user in" in refused(address, table="persons")
    monkeypatch.setenv("PGHOST", "127.0.0.1")
    monkeypatch.setenv("PGPORT", str(server.port))
    monkeypatch.setenv("PGUSER", "reader")
    monkeypatch.setenv("PGPASSWORD", SECRET)
    assert open_source("postgresql:///postgres", table="persons").columns
    monkeypatch.setenv("PGPORT", "1")
    assert "127.0.0.1 cannot be reached" in refused("postgresql:///postgres", table="persons")


@pytest.mark.parametrize("named", [False, True])
def test_a_service_file_is_followed_and_its_names_alone_are_told(
    places: tuple[Server, Path], monkeypatch: pytest.MonkeyPatch, named: bool
) -> None:
    server, home = places
    file = home / ".pg_service.conf"
    if named:
        file = home / "services"
        monkeypatch.setenv("PGSERVICEFILE", str(file))
    address = "postgresql://?service=survey"
    assert services() == {}
    assert "service file" in refused(address, table="persons")
    lines = f"host=127.0.0.1\nport={server.port}\nuser=reader\ndbname=postgres\npassword="
    file.write_text(f"# mine\n[survey]\n{lines}{SECRET}\n[wrong]\n{lines}x{SECRET}\n[survey]\n")
    assert list(services()) == ["survey", "wrong"]
    assert SECRET not in repr(services())
    found = open_source(address, table="persons")
    assert found.columns
    assert found.name == "persons in survey"
    monkeypatch.setenv("PGSERVICE", "survey")
    assert open_source("postgresql://", table="persons").columns
    assert "let this user in" in refused("postgresql://?service=wrong", table="persons")
    assert "no service of this name" in refused("postgresql://?service=none", table="persons")
    file.write_text("[survey]\nnonsense=1\n")
    assert "cannot be understood" in refused(address, table="persons")


def test_a_server_is_not_waited_for_without_end(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        asked = f"postgresql://me@127.0.0.1:{port}/x?connect_timeout=2"
        assert "does not answer" in refused(asked, table="persons")
    file = tmp_path / "services"
    file.write_text("[a]\nconnect_timeout=3\n[b]\nhost=h\n")
    monkeypatch.setenv("PGSERVICEFILE", str(file))
    for address, added in (
        ("postgresql://h/d", "?connect_timeout=15"),
        ("postgresql://h/d?sslmode=require", "&connect_timeout=15"),
        ("postgresql://?service=b", "&connect_timeout=15"),
        ("postgresql://?service=a", ""),
        ("postgresql://h/d?connect_timeout=0", ""),
    ):
        assert with_timeout(address) == address + added
    monkeypatch.setenv("PGCONNECT_TIMEOUT", "4")
    assert with_timeout("postgresql://h/d") == "postgresql://h/d"


@contextmanager
def frozen_while_counting(
    server: Server, monkeypatch: pytest.MonkeyPatch, then: Callable[[], None] = lambda: None
) -> Iterator[None]:
    """Stop the processes of a server once it counts rows; it would answer after this alone."""
    frozen: list[int] = []
    run = postgres._Server.run

    def freeze(self: postgres._Server, statement: str) -> None:
        if "count(*)" in statement:
            frozen.extend(server.processes())
            for one in frozen:
                os.kill(one, signal.SIGSTOP)
            then()
        run(self, statement)

    with monkeypatch.context() as patch:
        patch.setattr(postgres._Server, "run", freeze)
        try:
            yield
        finally:
            for one in frozen:
                os.kill(one, signal.SIGCONT)
    assert frozen


def test_a_page_waits_for_a_query_and_a_hanging_server_no_longer_than_it_says(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    def attached(query: str) -> str:
        source = open_source(server.address("reader"), query=query)
        with pytest.raises(DataError) as error, source.session(source.columns):
            pass
        return str(error.value)

    token = patience.set(1.0)
    try:
        slow = 'SELECT "AGE", pg_sleep(0.01)::text AS slept FROM persons'
        assert "took longer than 1 seconds" in attached(slow)
        monkeypatch.setattr(postgres, "_GRACE", 1.0)
        with frozen_while_counting(server, monkeypatch):
            assert "does not answer" in attached('SELECT "AGE" FROM persons')
    finally:
        patience.reset(token)


def test_ctrl_c_leaves_a_server_that_hangs(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        threading.Timer(0.5, interrupt_main_thread).start()

    with frozen_while_counting(server, monkeypatch, interrupt), pytest.raises(KeyboardInterrupt):
        unikat.data.profile.profile(server.address("reader"), table="persons")


def test_what_a_type_needs_is_a_query_that_works(server: Server) -> None:
    server.run(
        'CREATE TABLE converted AS SELECT i AS a, \'{}\'::json AS "J""x", ARRAY[i] AS tags, '
        "interval '1 day' AS lasts, '{}'::jsonb AS select FROM generate_series(1, 3) AS i",
        'CREATE SCHEMA "My schema"',
        'CREATE VIEW "My schema"."v 1" AS SELECT * FROM converted',
        'CREATE MATERIALIZED VIEW "My schema".m AS SELECT a FROM converted',
    )
    address = server.address()
    for how in (
        {"table": "converted"}, {"table": "My schema.v 1"},
        {"query": "SELECT * FROM converted; -- all"},
    ):  # fmt: skip
        with pytest.raises(DataError) as error:
            unikat.data.profile.profile(address, **how)
        query = re.search(r"SELECT .*", str(error.value))
        assert query
        found = unikat.data.profile.profile(address, query=query[0])
        assert [one.name for one in found.columns] == ["a", 'J"x', "tags", "lasts", "select"]
    assert unikat.data.profile.profile(address, table="My schema.m").n_records == 3
    source = open_source(address, table="My schema.m")
    server.run('DROP MATERIALIZED VIEW "My schema".m')
    with pytest.raises(DataError, match="not there any more"), source.session(["a"]):
        pass
