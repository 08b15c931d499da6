"""Runs: processes of their own, progress, cancelling, resuming, and folders of other runs."""

from __future__ import annotations

import html
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from unikat.spec.kinds import ASSESS
from unikat.web.app import make_app
from unikat.web.drafts import Draft
from unikat.web.events import FILE as EVENTS
from unikat.web.events import MOST_POINTS, Listener
from unikat.web.folder import Folder
from unikat.web.kinds import REQUEST
from unikat.web.security import REPORT_POLICY, Access
from unikat.web.workbench import Workbench
from web_client import PORT, SURVEY, Client

LONGEST = 90.0
"""Seconds that a process may take to start on a busy machine."""
KEYS = {"path": "survey.csv", "key:age": "on", "key:sex": "on", "key:region": "on"}
RUN = {"path": "survey.csv", "model": "latent-class", "chains": "2", "workers": "1", "seed": "7"}


def opened(folder: Path) -> Client:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    return Client(app, access, bench)


def started(client: Client, out: str, max_sweeps: int) -> None:
    assert client.post("/keys", KEYS | {"population_size": "5000"}).status_code == 303
    answer = client.post("/run", RUN | {"max_sweeps": str(max_sweeps), "out": out})
    assert answer.status_code == 303
    assert answer.headers["location"].endswith(f"/runs/{out}")


def state_when(bench: Workbench, id: str, *states: str) -> str:
    """Wait until a run is in one of the states."""
    end = time.monotonic() + LONGEST
    while (state := bench.runs.get(id).state) not in states and time.monotonic() < end:
        time.sleep(0.05)
    return state


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which a workbench has made one run, and stopped another."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "survey.csv").write_text(SURVEY)
    client = opened(folder)
    started(client, "short", 40)
    # The stream ends when the run has ended.
    (folder / "stream").write_text(client.ask("/events/short").text)
    assert state_when(client.bench, "short", "unconverged", "done", "failed") == "unconverged"
    started(client, "long", 1_000_000)
    heard = client.bench.runs.listen("long")
    end = time.monotonic() + LONGEST
    while not heard.tau1 and time.monotonic() < end:
        heard.listen()
        time.sleep(0.05)
    assert client.post("/cancel/long", {}).status_code == 303
    assert state_when(client.bench, "long", "unfinished", "failed") == "unfinished"
    client.bench.runs.close()
    return folder


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "data"))


def test_the_stream_shows_progress_and_ends(folder: Path) -> None:
    stream = (folder / "stream").read_text()
    events = [event.split("\n", 1) for event in stream.strip().split("\n\n")]
    assert [name for name, _ in events[:-1]] == ["event: progress"] * (len(events) - 1)
    assert events[-1] == ["event: end", "data:"]
    assert "60 records, 3 keys" in stream
    assert "<html" not in stream


def test_a_finished_run_shows_its_report_and_files(client: Client, folder: Path) -> None:
    page = client.ask("/runs/short")
    assert page.status_code == 200
    assert "Not converged" in page.text
    report = client.ask("/report/short")
    assert report.text == (folder / "short" / "report.html").read_text()
    assert report.headers["content-security-policy"] == REPORT_POLICY
    for name in ASSESS.files:
        if not (folder / "short" / name).exists():
            continue
        assert f"name={name}" in page.text
        file = client.ask(f"/download/short?name={name}")
        assert file.content == (folder / "short" / name).read_bytes()
        assert file.headers["content-disposition"].startswith("attachment")
    # The file of the run is the one that the steps lead to.
    assert "/keys?path=survey.csv" in page.text


def test_its_specification_is_what_the_form_said(folder: Path) -> None:
    text = (folder / "short" / "assessment.toml").read_text()
    for line in ('path = "../survey.csv"', "seed = 7", "max_sweeps = 40", 'name = "latent-class"'):
        assert line in text
    for path in (folder / "short").iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_runs_of_a_terminal_are_listed(client: Client, folder: Path) -> None:
    for name in (REQUEST, EVENTS):
        (folder / "short" / name).unlink()
    (folder / "short").rename(folder / "terminal")
    page = client.ask("/runs").text
    assert "terminal" in page
    assert "Not converged" in page
    assert client.ask("/runs/terminal").status_code == 200


@pytest.mark.slow
def test_a_stopped_run_is_resumed_by_the_next_workbench(client: Client, folder: Path) -> None:
    assert "Interrupted" in client.ask("/runs").text
    sweeps = [
        line for line in (folder / "long" / EVENTS).read_text().splitlines() if '"sweeps"' in line
    ]
    before = max(json.loads(line)["sweeps"] or 0 for line in sweeps)
    answer = client.post("/resume/long", {"max_sweeps": str(before + 60)})
    assert answer.status_code == 303
    assert state_when(client.bench, "long", "unconverged", "done", "failed") != "failed"
    result = json.loads((folder / "long" / "result.json").read_text())
    assert result["sampling"]["n_sweeps"] >= before


def test_the_forms_are_filled_with_what_a_run_was_asked(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client, other = opened(folder), opened(folder)
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    rules = {
        "rules": "age >= 26 and sex == 'f'",
        "zeros_conflict": "drop",
        "missing_values": "-1,x",
    }
    form = (
        KEYS | rules | {"population_size": "5000", "grouping:age": "width(2)", "missing": "level"}
    )
    client.post("/keys", form)
    client.post("/run", RUN | {"max_sweeps": "20", "out": "asked", "set": "no_option=9"})
    before = client.bench.draft("survey.csv")
    assert before.rules
    assert len(before.values) == 10
    assert other.post("/again/asked", {}).headers["location"].endswith("/keys?path=survey.csv")
    after = other.bench.draft("survey.csv")
    assert dict(after.values) == dict(before.values)
    assert replace(after, values={}) == replace(before, values={}, notes=())


@pytest.mark.parametrize("name", [REQUEST, ASSESS.spec])
def test_a_run_of_somebody_else_is_not_continued(
    client: Client, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder.parent / "outside.csv").write_text(SURVEY)
    asked = (folder / "long" / REQUEST).read_text()
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        at = f"dask:tcp://127.0.0.1:{listener.getsockname()[1]}"
        for before, after, told in (
            ('"processes"', f'"{at}"', f"sampling.executor: {at}"),
            (
                "../survey.csv",
                "../../outside.csv",
                "outside.csv, outside of the folder",
            ),
            ('path = "', 'query = "SELECT 1"\npath = "', "SELECT 1"),
        ):
            foreign = asked.replace(before, after)
            assert foreign != asked
            (folder / "long" / REQUEST).unlink(missing_ok=True)
            (folder / "long" / name).write_text(foreign)
            answer = client.post("/resume/long", {"trust_spec": "yes", "executor": "processes"})
            # A query is shown, to be confirmed.
            assert answer.status_code == (409 if "Use this query" in answer.text else 422)
            assert told in html.unescape(answer.text)
        # Not even a process that is started with it takes it.
        (folder / "long" / REQUEST).write_text(foreign)
        command = [sys.executable, "-m", "unikat.web.child", folder / "long", folder, "resume"]
        with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
            process.wait(LONGEST)
        heard = client.bench.runs.listen("long")
        heard.listen()
        assert told in heard.message
        with pytest.raises(BlockingIOError):
            listener.accept()
    # What lies in the folder of the workbench is its own.
    for own in (REQUEST, name):
        (folder / "long" / own).write_text(asked)
    assert client.post("/resume/long", {}).status_code == 303


@pytest.mark.parametrize("name", [EVENTS, REQUEST, "fits/model/sampling.checkpoint"])
def test_a_run_with_links_is_neither_shown_nor_continued(
    client: Client, folder: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    outside = folder.parent / "outside"
    outside.write_bytes((folder / "long" / name).read_bytes())
    (folder / "long" / name).unlink()
    (folder / "long" / name).symlink_to(outside)
    before = outside.read_bytes()
    for page in ("/runs/long", "/events/long"):
        answer = client.ask(page)
        assert answer.status_code == 404
        assert name in html.unescape(answer.text)
    assert client.post("/resume/long", {}).status_code == 404
    assert "/runs/long" not in client.ask("/runs").text
    assert outside.read_bytes() == before


def test_links_within_a_run_are_not_written_through(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay in the folder of the workbench, where other files lie."""
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    (folder / "long" / EVENTS).unlink()
    (folder / "long" / EVENTS).symlink_to(folder / "survey.csv")
    answer = client.post("/resume/long", {})
    assert answer.status_code == 409
    assert "is a link" in answer.text
    assert (folder / "survey.csv").read_text() == SURVEY


def test_a_pipe_in_the_folder_of_a_run_stops_no_page(client: Client, folder: Path) -> None:
    (folder / "short" / EVENTS).unlink()
    os.mkfifo(folder / "short" / EVENTS)
    assert client.ask("/runs/short").status_code == 404
    assert client.ask("/runs").status_code == 200


def test_a_choice_that_no_list_has_is_kept(client: Client) -> None:
    client.bench.keep(
        Draft(path="survey.csv", values={"household": "region,block", "weights": "w"})
    )
    page = client.ask("/keys?path=survey.csv").text
    assert '<option value="region" selected>' in page
    assert '<option value="block" selected>' in page
    assert '<option value="w" selected>' in page


def test_a_finished_run_without_work_is_not_resumed(client: Client, folder: Path) -> None:
    shutil.rmtree(folder / "short" / ASSESS.work[0])
    answer = client.post("/resume/short", {})
    assert answer.status_code == 409
    assert "cannot be continued" in answer.text


def test_results_are_not_replaced(client: Client, folder: Path) -> None:
    before = (folder / "short" / "result.json").read_bytes()
    client.post("/keys", KEYS | {"population_size": "5000"})
    answer = client.post("/run", RUN | {"out": "short"})
    assert answer.status_code == 409
    assert "holds something already" in answer.text
    assert (folder / "short" / "result.json").read_bytes() == before


def test_a_run_that_fails_says_why(client: Client, folder: Path) -> None:
    client.post("/keys", KEYS | {"population_size": "5000"})
    answer = client.post("/run", RUN | {"out": "wrong", "set": "no_such_option=1"})
    assert answer.status_code == 303
    assert state_when(client.bench, "wrong", "failed", "done", "unconverged") == "failed"
    page = client.ask("/runs/wrong").text
    assert "no option &#39;no_such_option&#39;" in page
    assert sorted(path.name for path in (folder / "wrong").iterdir()) == [EVENTS, REQUEST]


def test_a_run_that_waits_can_be_cancelled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = opened(folder)
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    started(client, "waits", 10)
    assert client.bench.runs.get("waits").state == "waiting"
    client.post("/cancel/waits", {})
    run = client.bench.runs.get("waits")
    assert (run.state, run.resumable) == ("unfinished", True)


def test_a_listener_keeps_few_points_of_the_current_fit(tmp_path: Path) -> None:
    events = [{"kind": "start"}, {"kind": "stage", "text": "A"}, {"kind": "note", "text": "found"}]
    events += [
        {"kind": "progress", "sweeps": i, "tau1": [5.0 + 1 / (1 + i), 2, 9]} for i in range(1000)
    ]
    lines = [json.dumps(event) for event in events]
    heard = Listener(folder=tmp_path)
    assert not heard.listen()
    path = tmp_path / EVENTS
    path.write_text("\n".join(lines) + '\n{"kind": "progr')
    assert heard.listen()
    assert (heard.stage, heard.notes) == ("A", ["found"])
    assert len(heard.tau1) <= MOST_POINTS
    assert (heard.tau1[0], heard.tau1[-1]) == ((0, 6.0, 2, 9), (999, 5.0 + 1 / 1000, 2, 9))
    assert [sweeps for sweeps, *_ in heard.tau1] == sorted({sweeps for sweeps, *_ in heard.tau1})
    with path.open("a") as file:
        # The rest of the line, a line that is none, and another fit.
        file.write('ess", "sweeps": 3, "tau1": [2.0, 1, 4]}\nnot json\n[1]\n{"kind": "other"}\n')
    assert heard.listen()
    assert heard.tau1 == [(3, 2.0, 1.0, 4.0)]
