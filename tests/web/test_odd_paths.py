"""Paths that no run or file can have: every address of the workbench answers, never with a 500."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from unikat.web.app import make_app
from unikat.web.draft_files import DRAFTS
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, SURVEY, Client

ODD = [
    "a" * 300,
    "a/" * 2_500,
    "a" * 5_000,
    "/".join(["b" * 200] * 30),
    "survey.csv/" + "c" * 300,
    "survey.csv/inside",
    # A file is no run.
    "other.csv",
    "nul\0inside",
    "\ud800.csv",
    "\udcff/x",
    "é" * 200,
    "line\nbreak",
    "\x1b[31m",
    "../" * 50 + "etc/passwd",
    "/etc/passwd",
    "~root",
    "con:stream",
    "%00%2e%2e",
    " ",
    ".",
    "postgresql+psycopg2://u:geheim@h/d",
]
GETS = sorted(
    {
        *(
            "/files?path={}",
            "/file?path={}",
            "/keys?path={}",
            "/run?path={}",
            "/find?name={}&size=1",
        ),
        *("/run?path=survey.csv&kind={}", "/beside?one={}&other={}", "/asked/{}", "/runs/{}"),
        *("/events/{}", "/report/{}", "/records/{}", "/download/{}?name=report.html"),
        *("/download/{}?name={}", "/what-if/{}", "/what-if-numbers/{}", "/what-if-waiting/{}"),
        *(
            "/what-if-frontier/{}",
            "/what-if-levels/{}",
            "/what-if-groups/{}",
            "/what-if-candidates/{}",
            "/what-if-pictures/{}",
            "/what-if-columns/{}",
            "/static/{}",
        ),
    }
)
FIELDS = ("out", "codebook", "registry", "zeros", "margins", "stratum_sizes", "path", "keys")


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    folder = tmp_path_factory.mktemp("odd")
    for name in ("survey.csv", "other.csv"):
        (folder / name).write_text(SURVEY)
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    yield Client(app, access, bench)
    bench.runs.close()


def written(path: str) -> str:
    return quote(path.encode("utf-8", "surrogatepass"))


@pytest.mark.parametrize("path", ODD, ids=range(len(ODD)))
def test_an_address_with_an_odd_path_is_answered(client: Client, path: str) -> None:
    for page in GETS:
        answer = client.ask(page.replace("{}", written(path)))
        assert answer.status_code < 500, (page, answer.status_code)
        assert "geheim" not in re.sub('value="[^"]*"', "", answer.text)


@pytest.mark.parametrize(
    "path", [path for path in ODD if "\ud800" not in path and "\udcff" not in path]
)
def test_a_form_with_an_odd_path_is_answered(client: Client, path: str) -> None:
    root = client.bench.folder.root
    before = {root / DRAFTS, *root.iterdir()}
    form = {"path": "survey.csv", "key:age": "on", "key:sex": "on", "population_size": "10000"}
    client.post("/keys", form)
    # No run is begun: some of these are names of folders.
    form |= {"model": "latent-class", "chains": "none"}
    for field in FIELDS:
        for page in ("/file", "/keys", "/run"):
            answer = client.post(page, form | {field: path})
            assert answer.status_code < 500, (page, field, answer.status_code)
    acts = (
        "/cancel/",
        "/resume/",
        "/again/",
        "/what-if-apply/",
        "/what-if-save/",
        "/what-if-remove/",
        "/archive/",
        "/take-back/",
    )
    for page in (*acts, "/rename/", "/decide/"):
        answer = client.post(page + written(path), {"name": path})
        assert answer.status_code < 500, (page, answer.status_code)
    assert {root / DRAFTS, *root.iterdir()} == before


def test_a_folder_of_results_may_not_have_such_a_name(client: Client) -> None:
    form = {"path": "survey.csv", "keys": "age,sex", "model": "latent-class", "chains": "2"}
    for out in ("a" * 300, "a/" * 2_500):
        answer = client.post("/run", form | {"out": out})
        assert answer.status_code in (404, 409, 422)
        assert 'role="alert"' in answer.text
