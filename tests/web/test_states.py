"""Changes that are taken back, states that are kept by name, and a project that is moved."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from unikat.web.app import make_app
from unikat.web.draft_files import DRAFTS
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, Client

FILE = {"path": "survey.csv"}


def keys(client: Client) -> tuple[str, ...]:
    return client.bench.draft("survey.csv").keys


def test_changes_are_taken_back_one_by_one(client: Client) -> None:
    client.post("/keys/keep", FILE | {"key:age": "on"})
    client.post("/keys/keep", FILE | {"key:age": "on", "key:sex": "on"})
    # What is the same is no change.
    client.post("/keys/keep", FILE | {"key:age": "on", "key:sex": "on"})
    assert "2 changes" in client.ask("/states?path=survey.csv").text
    for left in (("age",), (), ()):
        assert client.post("/states", FILE | {"do": "undo"}).status_code == 303
        assert keys(client) == left
    # It is on disk, too.
    assert (
        json.loads(next((client.bench.folder.root / DRAFTS).glob("*.json")).read_text())["keys"]
        == []
    )


def test_states_have_names(client: Client, folder: Path) -> None:
    client.post("/keys/keep", FILE | {"key:age": "on", "perturbation_seed": "5"})
    name = "first <b> try"
    client.post("/states", FILE | {"do": "keep", "name": name})
    client.post("/keys/keep", FILE | {"key:sex": "on"})
    page = client.ask("/states?path=survey.csv").text
    assert "first &lt;b&gt; try" in page
    client.post("/states", FILE | {"do": "take", "name": name})
    assert keys(client) == ("age",)
    client.post("/states", FILE | {"do": "undo"})
    assert keys(client) == ("sex",)
    # It is there in another workbench, and is not taken for the form itself or for another file.
    (folder / "other.csv").write_text((folder / "survey.csv").read_text())
    app, bench = make_app(Folder.of(folder), client.access)
    again = Client(app, client.access, bench)
    assert keys(again) == ("sex",)
    assert name not in again.ask("/states?path=other.csv").text
    assert (
        again.post("/states", {"path": "other.csv", "do": "take", "name": name}).status_code == 404
    )
    again.post("/states", FILE | {"do": "take", "name": name})
    assert keys(again) == ("age",)
    again.post("/states", FILE | {"do": "remove", "name": name})
    assert again.post("/states", FILE | {"do": "take", "name": name}).status_code == 404
    assert keys(again) == ("age",)
    for wrong in ("", "x" * 81, "a\nb\x00"):
        assert again.post("/states", FILE | {"do": "keep", "name": wrong}).status_code == 422
    assert all(one.stat().st_mode & 0o077 == 0 for one in (folder / DRAFTS).iterdir())


def test_a_project_is_a_folder_that_is_opened_elsewhere(
    client: Client, folder: Path, tmp_path: Path
) -> None:
    form = FILE | {"key:age": "on", "key:sex": "on", "population_size": "900"}
    assert client.post("/keys", form).status_code == 303
    client.post("/states", FILE | {"do": "keep", "name": "first"})
    shutil.make_archive(str(tmp_path / "project"), "zip", folder)
    shutil.unpack_archive(tmp_path / "project.zip", tmp_path / "elsewhere")
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(tmp_path / "elsewhere"), access)
    moved = Client(app, access, bench)
    assert keys(moved) == ("age", "sex")
    assert "first" in moved.ask("/states?path=survey.csv").text
    spec = bench.draft("survey.csv").spec(bench.folder.source("survey.csv"), bench.folder.root)
    assert spec.data.path == tmp_path / "elsewhere" / "survey.csv"
