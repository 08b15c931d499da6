"""A workbench that is only read, and what a committee writes beside a run."""

from __future__ import annotations

import html
import json
import re
import shutil
from pathlib import Path

import pytest

import unikat
from unikat.web.app import READING, make_app
from unikat.web.decisions import FILE, LONGEST_COMMENT
from unikat.web.folder import Folder
from unikat.web.kinds import REQUEST
from unikat.web.security import Access
from web_client import PORT, SURVEY, Client

HOSTILE = '<img src=x onerror=alert(1)>"&'


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a protection, a run that did not converge, and one that was never begun."""
    folder = tmp_path_factory.mktemp("decided")
    (folder / "survey.csv").write_text(SURVEY)
    file = folder / "survey.csv"
    small = {"population_size": 5000, "workers": 1, "chains": 2, "progress": False}
    unikat.assess(file, keys="age,sex", model="superpopulation-1", population_size=5000,
                  out=folder / "done", progress=False)  # fmt: skip
    unikat.protect(file, keys="age,sex", model="latent-class", max_sweeps=20,
                   recode="age: width(9)", out=folder / "short", **small)  # fmt: skip
    unikat.assess(file, keys="age,sex,region", model="latent-class", max_sweeps=40, seed=7,
                  out=folder / "rough", **small)  # fmt: skip
    (folder / "waiting").mkdir()
    shutil.copy(folder / "done" / "assessment.toml", folder / "waiting" / REQUEST)
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "data"))


def reader(folder: Path) -> Client:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access, read_only=True)
    return Client(app, access, bench)


def written(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def decided(client: Client, id: str = "done", **fields: str) -> int:
    form = {"decision": "accepted", "by": "Release committee", "comment": "Fine."} | fields
    return client.post(f"/decide/{id}", form).status_code


def test_a_decision_is_written_beside_the_run(client: Client, folder: Path) -> None:
    assert "Nothing was decided yet." in client.ask("/runs/done").text
    assert decided(client, decision="comment", comment=f"Why?\n{HOSTILE}", by=HOSTILE) == 303
    assert decided(client) == 303
    page = client.ask("/runs/done").text
    assert "<strong>Accepted</strong> by Release committee" in page
    assert "<img" not in page
    assert HOSTILE in html.unescape(page)
    assert page.index("Accepted</strong>") < page.index("Comment</strong>")
    assert "have changed since" not in page
    assert "Accepted by Release committee" in client.ask("/runs").text
    path = folder / "done" / FILE
    assert path.stat().st_mode & 0o777 == 0o600
    first, second = map(json.loads, path.read_text().splitlines())
    assert (first["decision"], first["before"]) == ("comment", "")
    assert second["files"].keys() == {"report.html", "result.json", "assessment.toml"}
    assert client.ask(f"/download/done?name={FILE}").content == path.read_bytes()


def test_it_is_told_if_results_or_records_of_decisions_change(client: Client, folder: Path) -> None:
    assert decided(client) == 303
    assert decided(client, decision="refused") == 303
    with (folder / "done" / "report.html").open("a") as file:
        file.write(" ")
    assert client.ask("/runs/done").text.count("have changed since") == 2
    path = folder / "done" / FILE
    path.write_text(path.read_text().replace("Fine.", "Bad.", 1))
    assert client.ask("/runs/done").text.count("was changed after it was written") == 1
    for wrong in ("", "[]\n", "{\n", '{"decision": "accepted", "at": 3, "files": 4}\n', "\0"):
        path.write_text(wrong)
        assert client.ask("/runs/done").status_code == 200
        assert client.ask("/runs").status_code == 200


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"decision": ""}, "Choose whether"),
        ({"decision": "maybe"}, "Choose whether"),
        ({"by": " "}, "who decides"),
        ({"by": "x" * 201}, "who decides"),
        ({"decision": "comment", "comment": ""}, "some words"),
        ({"comment": "x" * (LONGEST_COMMENT + 1)}, "characters"),
    ],
)
def test_what_is_incomplete_is_not_written(
    client: Client, folder: Path, fields: dict[str, str], message: str
) -> None:
    form = {"decision": "accepted", "by": "Committee", "comment": "Kept words."}
    answer = client.post("/decide/done", form | fields)
    assert answer.status_code == 422
    assert message in answer.text
    assert not (folder / "done" / FILE).exists()
    if "comment" not in fields:
        assert "Kept words." in answer.text


def test_what_has_no_answer_is_not_decided(client: Client, folder: Path) -> None:
    assert decided(client, "waiting") == 409
    assert decided(client, "none") == 404
    assert decided(client, "") in (404, 409)
    # It did not converge.
    assert client.bench.runs.get("rough").state == "unconverged"
    assert decided(client, "rough") == 409
    assert decided(client, "rough", decision="refused") == 303
    assert decided(client, "short", decision="refused") == 303
    entry = json.loads((folder / "short" / FILE).read_text())
    assert "protected.csv" in entry["files"]
    outside = folder.parent / "outside"
    outside.write_text("")
    (folder / "done" / FILE).symlink_to(outside)
    assert decided(client) in (404, 409)
    assert outside.read_text() == ""


def test_a_reader_sees_finished_runs_and_nothing_else(client: Client, folder: Path) -> None:
    assert decided(client) == 303
    before = written(folder)
    read = reader(folder)
    assert read.ask("/").headers["location"].endswith("/runs")
    listed = read.ask("/runs").text
    found = re.findall(r'<th scope="row"><a href="[^"]*/runs/([^"]*)">', listed)
    assert sorted(found) == ["done", "rough", "short"]
    for page in (
        "/runs",
        "/runs/done",
        "/runs/short",
        "/asked/done",
        "/beside?one=done&other=short",
    ):
        text = read.ask(page).text
        assert read.ask(page).status_code == 200, page
        assert 'method="post"' not in text, page
        for part in ("/files", "/file?", "/keys", "/run?", "/records/", "/what-if/", "/again/"):
            assert f"{read.access.base}{part}" not in text, (page, part)
    assert "Accepted</strong> by Release committee" in read.ask("/runs/done").text
    assert read.ask("/report/done").status_code == 200
    assert read.ask("/download/done?name=result.json").status_code == 200
    # Rows of records are none of the papers.
    for name in ("records.parquet", "records-at-risk.csv", "protected.csv", "plans.parquet"):
        for id in ("done", "short"):
            assert read.ask(f"/download/{id}?name={name}").status_code == 404
    for page in ("/runs/waiting", "/asked/waiting", "/report/waiting", "/runs/survey.csv"):
        assert read.ask(page).status_code == 404
    client.post("/archive/done", {})
    assert read.ask("/runs/.unikat-archive/done").status_code == 404
    client.post("/take-back/done", {})
    assert written(folder) == before


def test_a_reader_can_send_nothing(client: Client, folder: Path) -> None:
    before = written(folder)
    read = reader(folder)
    form = {"path": "survey.csv", "name": "y", "key:age": "on", "by": "x", "decision": "refused"}
    for route in client.app._app.routes:
        path = route.path.replace("{id:path}", "done").replace("{name}", "htmx.min.js")
        for method in ("POST", "PUT", "DELETE", "PATCH"):
            assert read.ask(path, method, data=form).status_code in (403, 404, 405), path
        if route.path not in READING:
            assert read.ask(path).status_code == 404, path
            assert read.ask(f"{path}?path=survey.csv&name=survey.csv").status_code == 404, path
        assert read.ask(path, cookie=False).status_code == 403, path
    assert written(folder) == before


def test_a_new_address_is_not_read_without_a_word(folder: Path) -> None:
    routes = {route.path for route in reader(folder).app._app.routes}
    assert routes == set(READING)
