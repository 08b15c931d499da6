"""A table of a real PostgreSQL server as the source of the workbench."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode

import pandas as pd
import pyarrow as pa
import pytest

import postgres_server
from postgres_server import SECRET, Server
from web_client import Client

pytest.importorskip("adbc_driver_postgresql")
pytestmark = pytest.mark.skipif(
    postgres_server.programs() is None, reason="needs the programs of PostgreSQL"
)
PART = {"HX-Request": "true"}
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
    for _ in range(600):
        if not client.bench.runs.get("from-server").active:
            break
        time.sleep(0.2)
    found = client.bench.runs.get("from-server")
    assert found.answer is not None, found.message
    # What lies in the folder has no password, and nobody else connects by it.
    for one in folder.rglob("*"):
        assert not one.is_file() or SECRET.encode() not in one.read_bytes(), one
    resumed = client.post("/resume/from-server", {"max_sweeps": "40"})
    assert resumed.status_code in (409, 422)
    assert "data.database" in resumed.text
