"""A table of a real PostgreSQL server as the source of the workbench."""

from __future__ import annotations

import contextlib
import html
import re
import shutil
import socket
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import httpx
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import postgres_server
import unikat
from postgres_server import SECRET, Server
from unikat.web.app import make_app
from unikat.web.drafts import Draft
from unikat.web.folder import Folder
from unikat.web.runs import Run
from unikat.web.security import Access
from web_client import PORT, Client

pytest.importorskip("adbc_driver_postgresql")
pytestmark = pytest.mark.skipif(
    postgres_server.programs() is None, reason="needs the programs of PostgreSQL"
)
PART = {"HX-Request": "true"}
QUERY = "SELECT age, sex, region FROM persons"
FRAME = pd.DataFrame(
    {
        "age": [20 + i * 7 % 40 for i in range(200)],
        "sex": ["fm"[i % 3 // 2] for i in range(200)],
        "region": [f"r{i * i % 9}" for i in range(200)],
    }
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PGPASSWORD", SECRET)
        with postgres_server.server() as running:
            running.run(table=("persons", pa.Table.from_pandas(FRAME)))
            running.run("CREATE TABLE other (a int)")
            yield running


def refused(client: Client, address: str) -> str:
    answer = client.post("/database", {"address": address})
    assert answer.status_code == 422
    assert SECRET not in answer.text
    (said,) = re.findall(r'role="alert">(.*?)</div>', answer.text, re.DOTALL)
    assert said.count("<p>") == 2
    return html.unescape(said)


def test_an_address_is_refused_with_one_message_and_no_password(
    client: Client, folder: Path
) -> None:
    with_password = f"postgresql://me:{SECRET}@127.0.0.1:1/x"
    assert "holds a password" in refused(client, with_password)
    assert "holds a password" in refused(client, f"postgresql://127.0.0.1:1/x?password={SECRET}")
    assert "cannot be reached" in refused(client, "postgresql://me@127.0.0.1:1/x")
    assert "cannot be understood" in refused(client, "mysql://me@127.0.0.1/x")
    assert "cannot be understood" in refused(client, "")
    # A link opens nothing, and neither does an address that was refused.
    for path in (with_password, "postgresql://me@127.0.0.1:1/x"):
        answer = client.ask("/file?" + urlencode({"path": path}))
        assert answer.status_code == 404
        assert SECRET not in answer.text
    assert [one.name for one in folder.rglob("*")] == ["survey.csv"]


REQUEST = """schema = "unikat.assessment/1"
keys = ["age", "sex"]
population_size = 5000
[data]
database = "postgresql://me@127.0.0.1:{port}/survey?host=127.0.0.1"
table = "persons"
[report]
"""


@pytest.fixture
def trap() -> Iterator[socket.socket]:
    """A place where somebody waits for a connection."""
    with socket.create_server(("127.0.0.1", 0)) as waiting:
        waiting.setblocking(False)
        yield waiting


def test_no_address_of_the_workbench_connects_by_itself(
    client: Client, folder: Path, trap: socket.socket
) -> None:
    """Not by a file, a draft or a link of somebody else; those too that are added later."""
    port = trap.getsockname()[1]
    (folder / "x").mkdir()
    (folder / "x" / "workbench.toml").write_text(REQUEST.format(port=port))
    (address,) = re.findall('database = "(.*)"', REQUEST.format(port=port))
    client.bench.states.write(Draft(path=address, keys=("age",), values={"table": "persons"}))
    form = {"path": address, "name": "y", "key:age": "on", "query": "SELECT 1", "out": "new"}
    query = urlencode({"path": address, "row": "1", "values": "1", "one": "x", "other": "x"})
    for route in client.app._app.routes:
        path = route.path.replace("{id:path}", "x").replace("{name}", "x")
        if path in ("/database", "/rename/x", "/archive/x", "/town"):
            # The first is for addresses that its user writes; the others move the run, or are slow.
            continue
        for method in route.methods - {"HEAD"}:
            how = {"data": form} if method == "POST" else {}
            client.ask(path if how else f"{path}?{query}", method, **how)
            with pytest.raises(BlockingIOError):
                trap.accept()
    shown = client.ask("/runs/x").text
    (digest,) = re.findall('name="digest" value="([0-9a-f]{64})"', shown)
    for word in ("127.0.0.1", str(port), "survey", "persons", "me", "Connect to this database"):
        assert word in shown
    # The file is exchanged after it was seen.
    for word in ("survey", "persons"):
        (folder / "x" / "workbench.toml").write_text(
            REQUEST.format(port=port).replace(word, "other")
        )
        assert client.post("/connect/x", {"digest": digest}).status_code == 409
    with pytest.raises(BlockingIOError):
        trap.accept()


def test_a_query_of_a_file_is_run_when_its_user_presses_the_button(
    client: Client, folder: Path
) -> None:
    with contextlib.closing(sqlite3.connect(folder / "survey.sqlite")) as base:
        FRAME.to_sql("persons", base, index=False)
        FRAME.head(9).to_sql("others", base, index=False)
    path, asked = "survey.sqlite", "SELECT age, sex FROM persons WHERE region = 'r1'"
    n = int((FRAME["region"] == "r1").sum())
    page = client.post("/file", {"path": path, "query": asked, "rows": "1"}).text
    assert f"{n} records" in page
    # Another way of reading leaves it; a table takes its place.
    assert f"{n} records" in client.post("/file", {"path": path, "format": "sqlite"}).text
    assert "9 records" in client.post("/file", {"path": path, "table": "others"}).text
    # Blanks around a query are no part of it.
    assert f"{n} records" in client.post("/file", {"path": path, "query": f"\t{asked}\t\r\n"}).text
    for hostile in (
        "DELETE FROM persons", "SELECT 1; DROP TABLE persons", "ATTACH 'x.db' AS x",
        "COPY persons TO 'x.csv'", "SELECT * FROM read_csv('survey.csv')", "PRAGMA user_version",
        "WITH a AS (DELETE FROM persons RETURNING *) SELECT * FROM a", "SELECT * FROM nowhere",
        "SELECT load_extension('x')", "SELECT", "x" * 200_000,
    ):  # fmt: skip
        answer = client.post("/file", {"path": path, "query": hostile})
        assert answer.status_code == 422, hostile[:50]
        (said,) = re.findall(r'role="alert">(.*?)</div>', answer.text, re.DOTALL)
        assert "defect" not in said
    assert sorted(one.name for one in folder.iterdir() if one.name[0] != ".") == [
        "survey.csv", path,
    ]  # fmt: skip
    client.post("/file", {"path": path, "query": asked})
    # After a restart it stands there, and waits for its button; no link runs one.
    client = newly_opened(folder)
    again = client.ask(f"/file?{urlencode({'path': path, 'query': asked})}")
    assert again.status_code == 404
    assert "Run the query" in again.text
    assert html.escape(asked, quote=False) in html.unescape(again.text).replace("&#39;", "'")
    for page in ("keys", "run", "columns"):
        assert f"{n} records" not in client.ask(f"/{page}?path={path}").text
    assert f"{n} records" in client.post("/file", {"path": path, "query": asked}).text


@pytest.mark.slow
def test_a_table_is_chosen_its_keys_counted_and_assessed(
    client: Client, folder: Path, server: Server
) -> None:
    address = server.address()
    opened = client.post("/database", {"address": address})
    assert opened.status_code == 303
    tables = client.ask(f"/file?path={address}")
    assert tables.status_code == 422
    assert '<option value="persons">' in tables.text
    read = client.post("/file", {"path": address, "table": "persons", "rows": "1"})
    assert "200 records" in read.text
    assert "First records" in read.text
    keys = {f"key:{name}": "on" for name in FRAME}
    form = {"path": address, **keys, "population_size": "5000"}
    counted = client.post("/keys/counts", form, headers=PART).text
    # Columns that were ticked one after the other are of the same records.
    client.post("/keys/counts", {"path": address, "key:sex": "on"}, headers=PART)
    n_unique = int((FRAME.groupby(list(FRAME)).size() == 1).sum())
    assert f"<strong>{n_unique}</strong>" in counted
    assert client.post("/keys", form).status_code == 303
    run = {"path": address, "kind": "assess", "model": "latent-class", "chains": "2"}
    run |= {"max_sweeps": "20", "workers": "1", "out": "from-server"}
    assert client.post("/run", run | {"action": "start"}).status_code == 303
    ended(client, "from-server")
    # What lies in the folder has no password, and nobody else connects by it.
    for one in folder.rglob("*"):
        assert not one.is_file() or SECRET.encode() not in one.read_bytes(), one
    resumed = client.post("/resume/from-server", {"max_sweeps": "40"})
    assert resumed.status_code == 303
    ended(client, "from-server")


def ended(client: Client, id: str) -> Run:
    """Wait for a run, and tell how it stands."""
    for _ in range(600):
        if not client.bench.runs.get(id).active:
            break
        time.sleep(0.2)
    found = client.bench.runs.get(id)
    assert found.answer is not None, found.message
    return found


def newly_opened(folder: Path) -> Client:
    """A workbench that was started again."""
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    return Client(app, access, bench)


def confirming(answer: httpx.Response) -> dict[str, str]:
    """The form of the one button that connects."""
    assert answer.status_code == 409
    assert answer.text.count("Connect to this database<") == 1
    found = re.findall(r'name="(digest|then)" value="([^"]*)"', answer.text)
    return {name: html.unescape(value) for name, value in found}


@pytest.fixture(scope="module")
def done(server: Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an assessment of a table and one of a query, by somebody else."""
    folder = tmp_path_factory.mktemp("shared")
    for name, what in (("table", {"table": "persons"}), ("query", {"query": QUERY})):
        unikat.assess(
            server.address(), keys=list(FRAME), population_size=5000, model="latent-class",
            chains=2, max_sweeps=60, workers=1, keep_states=True, out=folder / name, **what,
        )  # fmt: skip
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("id", ["table", "query"])
def test_a_run_connects_once_its_user_has_seen_to_what(
    done: Path, tmp_path: Path, server: Server, id: str
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(done, folder)
    client = newly_opened(folder)
    before = server.connections()
    asking = [
        ("GET", f"/records/{id}?values=1"), ("GET", f"/neighbours/{id}?row=1"),
        ("GET", f"/what-if/{id}"), ("GET", f"/what-if-levels/{id}?edit=age"),
        ("GET", f"/what-if-frontier/{id}"), ("POST", f"/again/{id}"), ("POST", f"/resume/{id}"),
        ("POST", f"/what-if-apply/{id}"),
    ]  # fmt: skip
    for method, path in asking:
        answer = client.ask(path, method, data={"max_sweeps": "80"} if method == "POST" else None)
        form = confirming(answer)
        for shown in ("127.0.0.1", str(server.port), "postgres", "persons"):
            assert shown in answer.text, (path, shown)
        assert form["then"].endswith(path if method == "GET" else f"/runs/{id}")
        part = client.ask(path, method, headers=PART, data={})
        assert part.headers["hx-refresh"] == "true"
        assert not part.text
    # What was not shown is not confirmed, and without a form nothing is.
    for sent in ({}, {"digest": "0" * 64}):
        assert client.post(f"/connect/{id}", sent).status_code == 409
    assert client.ask(f"/connect/{id}").status_code == 405
    assert server.connections() == before
    gone = client.post(f"/connect/{id}", form | {"then": "https://evil.example/"})
    assert gone.headers["location"] == f"{client.access.base}/runs/{id}"
    assert "<strong>" in client.ask(f"/records/{id}?values=1").text
    assert client.ask(f"/neighbours/{id}?row=1&values=1").status_code == 200
    # What was confirmed is this table or query, and no other of the database.
    spec = folder / id / "assessment.toml"
    whole, what = spec.read_text(), {"table": ("persons", "other"), "query": ("region", "'x'")}[id]
    spec.write_text(whole.replace(*what))
    for method, path in asking:
        confirming(
            client.ask(path, method, data={"max_sweeps": "80"} if method == "POST" else None)
        )
    spec.write_text(whole)
    # The values of a row are those of its record, though a table has no order of rows.
    rows = client.bench.run_rows(folder / id)
    texts = rows.held.texts(list(range(rows.held.n_records)))
    records = pq.read_table(folder / id / "records.parquet").to_pylist()
    assert [[str(one[f"level.{key}"]) for key in FRAME] for one in records] == texts
    same = (FRAME.astype(str) == texts[0]).sum(axis=1)
    assert rows.neighbours(1).n_same == int((same == len(FRAME.columns)).sum())
    assert sum(one.n_records for one in rows.neighbours(1).by_key) == int((same == 2).sum())
    opened = client.ask(f"/what-if/{id}").text
    for _ in range(300):
        if "Sample uniques" in opened or "alert" in opened:
            break
        time.sleep(0.2)
        opened = client.ask(f"/what-if/{id}").text
    assert "Sample uniques" in opened
    again = client.post(f"/again/{id}", {})
    assert again.status_code == 303
    kept = client.bench.draft(server.address())
    assert kept.keys == tuple(FRAME)
    assert kept.values.get(id) == {"table": "persons", "query": QUERY}[id]
    # Who opens the database again sees what has changed in it, as of a file.
    server.run("DELETE FROM persons WHERE age = 20")
    try:
        client.post("/database", {"address": server.address()})
        for path in (f"/records/{id}?values=1", f"/neighbours/{id}?row=1"):
            answer = client.ask(path)
            assert answer.status_code == 422
            assert "has changed since this run" in answer.text
    finally:
        server.run(table=("persons", pa.Table.from_pandas(FRAME)))
    client.bench.explorers.close()
    client.bench.runs.close()
