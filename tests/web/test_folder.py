"""The folder of the workbench: nothing outside of it is listed, read or served."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from unikat.web.folder import Folder, NotInFolderError
from web_client import SURVEY, Client


@pytest.fixture
def secret(folder: Path) -> Path:
    """A file beside the folder, to which links in the folder lead."""
    outside = folder.parent / "outside"
    outside.mkdir()
    (outside / "secret.csv").write_text("secret,b\n1,2\n3,4\n")
    (folder / "link.csv").symlink_to(outside / "secret.csv")
    (folder / "linked").symlink_to(outside)
    return outside / "secret.csv"


OUTSIDE = ["../outside/secret.csv", "link.csv", "linked/secret.csv", "/etc/passwd", "linked",
           "a/../../outside/secret.csv", "..\\outside\\secret.csv", "survey.csv\0"]  # fmt: skip


@pytest.mark.usefixtures("secret")
@pytest.mark.parametrize("path", OUTSIDE)
def test_nothing_outside_is_read(client: Client, path: str) -> None:
    for page in ("/file", "/files", "/keys", "/run"):
        answer = client.ask(page, params={"path": path})
        assert answer.status_code == 404
        assert "secret,b" not in answer.text
    for page in ("/keys", "/keys/check", "/file", "/run"):
        assert client.post(page, {"path": path, "key:secret": "on"}).status_code == 404


@pytest.mark.parametrize("id", ["../outside", "linked", "%2e%2e/outside", "..%2foutside"])
@pytest.mark.parametrize("page", ["runs", "events", "report", "download"])
def test_nothing_outside_is_served(client: Client, secret: Path, id: str, page: str) -> None:
    for name in ("result.json", "report.html"):
        (secret.parent / name).write_text("secret")
    answer = client.ask(f"/{page}/{id}?name=result.json")
    assert answer.status_code in (403, 404)
    assert "secret" not in answer.text


@pytest.mark.usefixtures("secret")
def test_links_that_lead_outside_are_not_listed(folder: Path) -> None:
    (folder / "within.csv").symlink_to(folder / "survey.csv")
    assert [entry.name for entry in Folder.of(folder).entries("")] == ["survey.csv", "within.csv"]


def test_hidden_and_other_files_are_not_listed(folder: Path) -> None:
    for name in (".hidden.csv", "notes.docx", "copy.parquet"):
        (folder / name).write_text("x")
    (folder / "waves").mkdir()
    (folder / "run").mkdir()
    (folder / "run" / "result.json").write_text("{}")
    found = [(entry.name, entry.kind) for entry in Folder.of(folder).entries("")]
    assert found == [
        ("run", "run"),
        ("waves", "folder"),
        ("copy.parquet", "file"),
        ("survey.csv", "file"),
    ]


def test_what_a_run_has_just_renamed_is_not_strange(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is gone between the listing of the folder and the look at it."""
    (folder / "run").mkdir()
    (folder / "run" / "result.json").write_text("{}")
    written = folder / "run" / ".unikat-writing-abcdefgh"
    written.write_text("")
    real = os.path.realpath

    def renamed(path: str) -> str:
        written.unlink(missing_ok=True)
        return real(path)

    here = Folder.of(folder)
    monkeypatch.setattr("unikat.web.folder.os.path.realpath", renamed)
    assert [run.name for run in here.runs()] == ["run"]


def test_a_file_is_no_folder_to_open(folder: Path) -> None:
    with pytest.raises(NotInFolderError, match="not a folder"):
        Folder.of(folder / "survey.csv")


def test_only_files_of_a_run_can_be_had(client: Client, folder: Path) -> None:
    run = folder / "run"
    run.mkdir()
    (run / "result.json").write_text("{}")
    (run / "survey.csv").write_text(SURVEY)
    assert client.ask("/download/run?name=result.json").status_code == 200
    for name in ("survey.csv", "../survey.csv", "", "workbench.jsonl"):
        assert client.ask("/download/run", params={"name": name}).status_code == 404


HOSTILE = "<script>alert(1)</script>&\"'"


def test_names_of_files_and_columns_are_escaped(client: Client, folder: Path) -> None:
    name = HOSTILE.replace("/", "") + ".csv"
    quoted = HOSTILE.replace('"', '""')
    rows = "".join(f'{i % 2},"{quoted}",{i % 3}\n' for i in range(30))
    (folder / name).write_text(f'"{quoted}",b,"<img src=x onerror=alert(1)>"\n{rows}')
    pages = ["/files", "/file", "/keys", "/run"]
    for page in pages:
        answer = client.ask(page, params={} if page == "/files" else {"path": name, "rows": "1"})
        assert answer.status_code == 200
        assert "<script>alert" not in answer.text
        assert "<img" not in answer.text
        assert "&lt;script&gt;" in answer.text
    posted = client.post("/keys", {"path": name, f"key:{HOSTILE}": "on", "rules": HOSTILE})
    assert posted.status_code == 422
    assert "<script>alert" not in posted.text


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 2600, "é" * 200], ids=["name", "path", "bytes"])
@pytest.mark.parametrize("page", ["/runs/{}", "/report/{}", "/records/{}", "/asked/{}", "/file"])
def test_a_path_that_no_system_has_is_not_there(client: Client, page: str, name: str) -> None:
    path = page.format(name) if "{}" in page else page
    answer = client.ask(path, params={"path": name} if path == page else {})
    assert answer.status_code in (404, 422)
    assert "is no path of a file or folder" in answer.text
    assert len(answer.text) < 10_000
