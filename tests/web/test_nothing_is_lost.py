"""Drafts on disk and in two tabs; runs that are renamed, put away, looked for and sorted."""

from __future__ import annotations

import html
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest

from unikat.files.locks import acquire, release
from unikat.web.app import make_app
from unikat.web.archive import ARCHIVE
from unikat.web.draft_files import DRAFTS
from unikat.web.drafts import Draft
from unikat.web.folder import Folder, NotInFolderError
from unikat.web.security import Access
from web_client import PORT, Client

KEYS = {
    "path": "survey.csv", "key:age": "on", "key:sex": "on", "population_size": "5000",
    "grouping:age": "width(2)", "rules": "age >= 26 and sex == 'f'", "zeros_conflict": "drop",
}  # fmt: skip
RUN = {"path": "survey.csv", "kind": "protect", "target:measure": "k", "target:limit": "3",
       "keep:sex": "yes", "set": "components=5", "perturbation_seed": "4242"}  # fmt: skip
PART = {"HX-Request": "true"}


def opened(folder: Path) -> Client:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    return Client(app, access, bench)


def written(folder: Path) -> Path:
    (only,) = (folder / DRAFTS).iterdir()
    return only


@pytest.fixture
def filled(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A workbench whose forms are filled in."""
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    assert client.post("/keys", KEYS).status_code == 303
    client.post("/run", RUN | {"action": "command"})
    return client


def test_forms_are_there_after_a_restart(filled: Client, folder: Path) -> None:
    before = filled.bench.draft("survey.csv")
    after = opened(folder).bench.draft("survey.csv")
    secret = {name: text for name, text in before.values.items() if name != "perturbation_seed"}
    assert dict(after.values) == secret
    assert (after.keys, after.groupings, after.rules, after.kind, after.of_keys) == (
        before.keys, before.groupings, before.rules, before.kind, before.of_keys,
    )  # fmt: skip
    assert before.values["perturbation_seed"] == "4242"
    assert "4242" not in written(folder).read_text()
    page = opened(folder).ask("/keys?path=survey.csv").text
    assert 'value="width(2)"' in page


def test_nobody_else_reads_a_draft(filled: Client, folder: Path) -> None:
    assert (folder / DRAFTS).stat().st_mode & 0o777 == 0o700
    assert written(folder).stat().st_mode & 0o777 == 0o600
    # It holds what was written, and nothing that was found in the file.
    assert filled.bench.draft("survey.csv").notes
    assert "records" not in written(folder).read_text()
    for page in ("/files", "/runs"):
        assert DRAFTS not in filled.ask(page).text


@pytest.mark.parametrize(
    "lines",
    [
        "sampling.executor=dask:tcp://127.0.0.1:1",
        "data.query=SELECT 1",
        "data.database=x",
        "no.such=1",
    ],
)
def test_a_draft_of_somebody_else_takes_no_address(
    filled: Client, folder: Path, lines: str
) -> None:
    held = json.loads(written(folder).read_text())
    held["values"] |= {"set": f"{lines}\ncomponents=6", "trust_spec": "yes", "query": "SELECT 1"}
    written(folder).write_text(json.dumps(held))
    bench = opened(folder).bench
    draft = bench.draft("survey.csv")
    assert draft.values["set"] == "components=6"
    assert "trust_spec" not in draft.values
    # Its query stands there to be read, and nothing is read by it.
    with pytest.raises(NotInFolderError, match="Run the query"):
        bench.source(draft)


def test_what_others_could_write_is_not_read(filled: Client, folder: Path) -> None:
    place = written(folder)
    place.chmod(0o622)
    assert opened(folder).bench.draft("survey.csv") == Draft(path="survey.csv")
    place.chmod(0o600)
    assert opened(folder).bench.draft("survey.csv").keys
    text = place.read_text()
    half = text.replace('"age"', r'"\ud800"')
    for wrong in ("", "[]", "{", text.replace("survey.csv", "other.csv"), '{"keys": 3}', half):
        place.write_text(wrong)
        assert opened(folder).bench.draft("survey.csv") == Draft(path="survey.csv")
    # A key that is named twice is one.
    place.write_text(text.replace('"age",', '"age", "age",', 1))
    assert opened(folder).bench.draft("survey.csv").keys == ("age", "sex")
    outside = folder.parent / "outside.json"
    outside.write_text(text)
    place.unlink()
    # A pipe is not waited for.
    os.mkfifo(place, 0o600)
    assert opened(folder).bench.draft("survey.csv") == Draft(path="survey.csv")
    place.unlink()
    place.symlink_to(outside)
    assert opened(folder).bench.draft("survey.csv") == Draft(path="survey.csv")
    opened(folder).post("/keys/keep", KEYS)
    assert outside.read_text() == text


def test_a_link_in_place_of_the_folder_of_drafts_is_not_written_through(
    client: Client, folder: Path
) -> None:
    (folder.parent / "elsewhere").mkdir()
    (folder / DRAFTS).symlink_to(folder.parent / "elsewhere")
    client.post("/keys/keep", KEYS)
    assert list((folder.parent / "elsewhere").iterdir()) == []
    assert "until the workbench ends" in client.ask("/keys?path=survey.csv").text


def tab(client: Client, page: str = "/keys?path=survey.csv") -> dict[str, str]:
    """Open a form, and return what it sends of its tab."""
    text = client.ask(page).text
    fields = re.findall(
        r'<input type="hidden" name="(tab|since|asked_before)" value="(.*?)">', text
    )
    return {name: html.unescape(value) for name, value in fields}


def test_two_tabs_warn_each_other(filled: Client) -> None:
    one, other = tab(filled), tab(filled)
    assert filled.post("/keys/keep", KEYS | one | {"population_size": "6000"}).status_code == 204
    # The same tab goes on.
    assert filled.post("/keys/keep", KEYS | one | {"population_size": "6001"}).status_code == 204
    warned = filled.post("/keys/keep", KEYS | other | {"population_size": "7000"}, headers=PART)
    assert "Another tab has changed this form" in warned.text
    assert filled.bench.draft("survey.csv").values["population_size"] == "6001"
    # What asks for a part of the page takes nothing over either.
    filled.post("/keys/check", KEYS | other | {"population_size": "7000"}, headers=PART)
    assert filled.bench.draft("survey.csv").values["population_size"] == "6001"
    mine = KEYS | other | {"population_size": "7000", "mine": "yes"}
    assert filled.post("/keys/keep", mine, headers=PART).status_code == 204
    assert filled.bench.draft("survey.csv").values["population_size"] == "7000"
    # Now the first one is warned, also without a script: once.
    answer = filled.post("/keys", KEYS | one)
    assert answer.status_code == 409
    assert "was changed in another tab" in answer.text
    assert 'value="5000"' in answer.text
    assert filled.bench.draft("survey.csv").values["population_size"] == "7000"
    again = dict(re.findall(r'name="(tab|since)" value="(.*?)"', answer.text))
    assert filled.post("/keys", KEYS | again).status_code == 303


def test_two_workbenches_of_a_folder_warn_each_other(filled: Client, folder: Path) -> None:
    other = opened(folder)
    here = tab(filled)
    # What the other one writes is not replaced by a tab that does not know it.
    assert other.post("/keys/keep", KEYS | {"population_size": "7000"}).status_code == 204
    answer = filled.post("/keys/keep", KEYS | here | {"rules": ""}, headers=PART)
    assert "Another tab has changed this form" in answer.text
    draft = filled.bench.draft("survey.csv")
    assert (draft.values["population_size"], draft.rules) == ("7000", KEYS["rules"])
    assert draft.values["perturbation_seed"] == RUN["perturbation_seed"]
    # What stood here before can be taken back.
    assert filled.bench.undone("survey.csv")
    assert other.bench.draft("survey.csv").values["population_size"] == "5000"


def test_what_is_the_same_warns_nobody(filled: Client) -> None:
    one, other = tab(filled), tab(filled)
    for sent in (one, other, one):
        assert filled.post("/keys/keep", KEYS | sent).status_code == 204


def test_a_run_does_not_start_with_keys_of_another_tab(filled: Client, folder: Path) -> None:
    page = tab(filled, "/run?path=survey.csv&kind=assess")
    form = {"path": "survey.csv", "kind": "assess", "out": "new"}
    filled.post("/keys", KEYS | {"population_size": "9000"})
    answer = filled.post("/run", form | page)
    assert answer.status_code == 409
    assert "changed in another tab" in answer.text
    assert not (folder / "new").exists()
    again = tab(filled, "/run?path=survey.csv")
    assert filled.post("/run", form | again).status_code == 303


@pytest.fixture
def runs(folder: Path, client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A workbench with two runs that are done, one of them deeper."""
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    client.post("/keys", KEYS)
    for out in ("first", "deep/second"):
        form = {"path": "survey.csv", "kind": "assess", "out": out}
        assert client.post("/run", form).status_code == 303
        client.post(f"/cancel/{out}", {})
    return client


def listed(client: Client, query: str = "") -> list[str]:
    page = client.ask(f"/runs{query}").text
    return re.findall(r'<th scope="row"><a href="[^"]*/runs/([^"]*)">', page)


def test_runs_are_renamed_where_they_are(runs: Client, folder: Path) -> None:
    assert runs.post("/rename/deep/second", {"name": " third "}).status_code == 303
    assert sorted(listed(runs)) == ["deep/third", "first"]
    # Its paths still hold.
    assert runs.bench.runs.asked("deep/third")[0] == "survey.csv"
    for name in ("", " ", "..", ".hidden", "a/b", "../x", "/etc", "x" * 300, "a\\b", "a\0b"):
        answer = runs.post("/rename/first", {"name": name})
        assert answer.status_code in (404, 409), name
        assert 'role="alert"' in answer.text
    (folder / "taken").mkdir()
    assert runs.post("/rename/first", {"name": "taken"}).status_code == 409
    assert runs.post("/rename/first", {"name": "survey.csv"}).status_code == 409
    assert sorted(listed(runs)) == ["deep/third", "first"]


def test_a_run_is_put_away_and_taken_back(runs: Client, folder: Path) -> None:
    before = sorted(path.name for path in (folder / "deep/second").iterdir())
    assert runs.post("/archive/deep/second", {}).status_code == 303
    assert listed(runs) == ["first"]
    assert "Archive: 1 run" in runs.ask("/runs").text
    assert (folder / ARCHIVE).stat().st_mode & 0o077 == 0
    # Another one of the same name is put away beside it.
    form = {"path": "survey.csv", "kind": "assess", "out": "deep/second"}
    assert runs.post("/run", form).status_code == 303
    assert runs.post("/archive/deep/second", {}).status_code == 409
    runs.post("/cancel/deep/second", {})
    assert runs.post("/take-back/deep/second", {}).status_code == 409
    assert runs.post("/archive/deep/second", {}).status_code == 303
    assert [one.id for one in runs.bench.archive.all()] == ["deep/second-2", "deep/second"]
    for id in ("deep/second", "deep/second-2"):
        assert runs.post(f"/take-back/{id}", {}).status_code == 303
    assert sorted(listed(runs)) == ["deep/second", "deep/second-2", "first"]
    assert sorted(path.name for path in (folder / "deep/second").iterdir()) == before
    assert runs.bench.runs.asked("deep/second")[0] == "survey.csv"


@pytest.mark.parametrize("act", ["rename", "archive", "take-back"])
@pytest.mark.parametrize("id", ["", "none", "survey.csv", "../outside", "deep", ARCHIVE])
def test_nothing_but_runs_is_moved(runs: Client, folder: Path, act: str, id: str) -> None:
    (folder.parent / "outside").mkdir()
    before = sorted(map(str, folder.rglob("*")))
    assert runs.post(f"/{act}/{id}", {"name": "moved"}).status_code in (404, 409)
    assert sorted(map(str, folder.rglob("*"))) == before


def test_a_run_that_goes_on_is_not_moved(runs: Client, folder: Path) -> None:
    lock = acquire(folder / "first" / ".unikat")
    assert lock is not None
    for act in ("rename", "archive"):
        answer = runs.post(f"/{act}/first", {"name": "moved"})
        assert answer.status_code == 409
        assert "goes on" in answer.text
    release(lock)
    assert "first" in listed(runs)


def test_links_are_not_moved_through(runs: Client, folder: Path) -> None:
    (folder.parent / "outside").mkdir()
    (folder / ARCHIVE).symlink_to(folder.parent / "outside")
    assert runs.post("/archive/first", {}).status_code == 409
    assert list((folder.parent / "outside").iterdir()) == []
    assert runs.post("/take-back/first", {}).status_code == 404
    assert sorted(listed(runs)) == ["deep/second", "first"]


def test_runs_are_looked_for_and_sorted(runs: Client) -> None:
    assert listed(runs, "?search=SECOND") == ["deep/second"]
    assert sorted(listed(runs, "?search=assessment+interrupted")) == ["deep/second", "first"]
    assert listed(runs, "?search=nothing") == []
    assert "0 runs of 2" in runs.ask("/runs?search=nothing").text
    assert listed(runs, "?sort=folder") == ["deep/second", "first"]
    hostile = runs.ask("/runs", params={"search": '"><img src=x>', "sort": "<b>"}).text
    assert "<img" not in hostile
    assert "<b>" not in hostile


def test_times_are_those_of_this_machine(runs: Client, monkeypatch: Any) -> None:
    from unikat.report.text.listed import Listed
    from unikat.spec.kinds import ASSESS
    from unikat.web.runs import Run

    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    answer = Listed(data="", models=(), headline="", verdict="", created="2026-07-01 22:30",
                    converged=True, complete=True, figures={})  # fmt: skip
    run = Run(id="a", kind=ASSESS, state="done", answer=answer, resumable=False)
    assert run.begun == "2026-07-02 00:30"
    assert "Times are those of this machine (CE" in runs.ask("/runs").text
    monkeypatch.undo()
    time.tzset()


def test_names_of_drafts_tell_nothing(filled: Client, folder: Path) -> None:
    assert "survey" not in os.fspath(written(folder))
