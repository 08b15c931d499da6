"""Runs of every kind: made by the workbench or in a terminal, listed, shown, resumed."""

from __future__ import annotations

import html
import json
import re
import shutil
import time
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import unikat
from unikat.files.folder import MARK, owned
from unikat.report.folders.assessment import FILES
from unikat.spec.from_options import specify
from unikat.spec.kinds import ASSESS, KINDS, WORD, Kind
from unikat.spec.option import options_of
from unikat.studies.store import FOLDER
from unikat.web.app import make_app
from unikat.web.events import FILE as EVENTS
from unikat.web.folder import Folder
from unikat.web.kinds import REQUEST, kind_at, kind_of
from unikat.web.kinds import run as perform
from unikat.web.security import Access
from web_client import PORT, SURVEY, Client

LONGEST = 90.0
"""Seconds that a run may take on a busy machine."""
SMALL = {"keys": "age,sex,region", "chains": 2, "workers": 1, "max_sweeps": 40}
ASKED: dict[str, dict[str, Any]] = {
    "compare": {"population_size": 5000, "models": "latent-class", "held_out": 0},
    "evaluate": {"n": "20", "repeats": 2, "models": "latent-class"},
    "protect": {"population_size": 5000, "model": "latent-class", "target": "k >= 2",
                "recodings": "age: width(10)", "keep": "sex"},
}  # fmt: skip


def opened(folder: Path) -> Client:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    return Client(app, access, bench)


def asked(name: str, folder: Path) -> Any:
    """A specification of a kind of run."""
    kind, file = KINDS[name], folder / "survey.csv"
    return specify(kind.specification, file, SMALL | ASKED[name], shell=True)[0]


def ended(client: Client, id: str) -> str:
    """Wait until a run has ended, and return its state."""
    end = time.monotonic() + LONGEST
    while (run := client.bench.runs.get(id)).active and time.monotonic() < end:
        time.sleep(0.05)
    return run.state


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run of each kind: an evaluation by a workbench, the others in a terminal."""
    folder = tmp_path_factory.mktemp("kinds")
    (folder / "survey.csv").write_text(SURVEY)
    client = opened(folder)
    assert client.bench.runs.start(asked("evaluate", folder), "evaluate") == "evaluate"
    for name in ("compare", "protect"):
        perform(asked(name, folder), folder / name)
    # It is too short to converge.
    assert ended(client, "evaluate") == "unconverged"
    client.bench.runs.close()
    return folder


@pytest.fixture(scope="module")
def terminal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with runs of the kinds whose forms are made of options."""
    folder = tmp_path_factory.mktemp("terminal")
    (folder / "survey.csv").write_text(SURVEY)
    small = {"keys": "age,sex,region", "chains": 2, "workers": 1, "max_sweeps": 40}
    file = folder / "survey.csv"
    synthetic = folder / "synthesize" / "synthetic_1.csv"
    unikat.synthesize(file, model="latent-class", datasets=2, out=synthetic.parent, **small)
    unikat.attack(file, synthetic=synthetic, keys="age,sex,region", out=folder / "attack",
                  population_size=5000, targets="region")  # fmt: skip
    unikat.verify(file, protected=synthetic, model="latent-class", population_size=5000,
                  out=folder / "verify", **small)  # fmt: skip
    policy = {"scenario": [{"name": "all", "target": "tau1 <= 5"}]}
    unikat.check(file, policy=policy, model="latent-class", population_size=5000,
                 out=folder / "check", **small)  # fmt: skip
    return folder


def test_further_runs_are_listed_and_shown(terminal: Path) -> None:
    client = opened(terminal)
    found = {run.id: run for run in client.bench.runs.all()}
    # The verdict of a headline stands out in it.
    listed = re.sub(r"</?(strong|span)[^>]*>", "", client.ask("/runs").text)
    assert {run.kind.name for run in found.values()} == {"synthesize", "attack", "verify", "check"}
    for id, run in found.items():
        assert run.answer is not None
        assert run.state == ("done" if run.answer.converged else "unconverged")
        assert html.escape(run.answer.headline) in listed
        assert run.answer.data == "survey.csv"
        page = client.ask(f"/runs/{id}").text
        assert client.ask(f"/report/{id}").status_code == 200
        assert "/again/" in page
        assert html.unescape(page).count(run.kind.repeat(id)) == 1
    for id in ("synthesize", "attack", "verify", "check"):
        assert client.post(f"/again/{id}", {}).status_code == 303
        assert client.bench.draft("survey.csv").kind.name == id
        if id == "attack":
            # The synthesis is offered as a whole.
            page = client.ask("/run?path=survey.csv").text
            assert 'name="synthetic:synthesize"' in page
            assert 'name="synthetic:synthesize/synthetic_1.csv"' in page
    shown = client.ask("/download/synthesize?name=synthetic_2.csv").text
    assert shown == (terminal / "synthesize" / "synthetic_2.csv").read_text()
    both = client.ask("/beside?one=verify&other=synthesize").text
    assert "Synthetic files" not in both
    assert '<th scope="row">Records</th>' in both


@pytest.fixture
def folder(made: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(made, tmp_path / "data"))


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_kind_is_complete(kind: Kind) -> None:
    assert callable(import_module(f"unikat.jobs.{kind.name}").run)
    assert kind.spec in kind.specification.command
    assert kind.specification.command.startswith(kind.name)
    known = {one.name for one in options_of(kind.specification)}
    assert {name for name, _, _ in kind.adds} <= known
    assert len(set(kind.files)) == len(kind.files)


def test_files_are_called_the_same_where_they_are_written() -> None:
    assert set(ASSESS.files) == set(FILES)
    assert KINDS["evaluate"].work == (FOLDER,)


@pytest.mark.parametrize("name", ASKED)
def test_a_run_of_each_kind_is_shown(client: Client, folder: Path, name: str) -> None:
    kind = KINDS[name]
    page = client.ask(f"/runs/{name}")
    assert page.status_code == 200
    assert f"unikat {name} {name}/{kind.spec} --trust-spec --out NEW_FOLDER" in page.text
    # The file of the run is the one that the steps lead to.
    assert "/keys?path=survey.csv" in page.text
    assert client.ask(f"/report/{name}").text == (folder / name / kind.report).read_text()
    files = [*kind.files, *(["protected.csv"] if name == "protect" else [])]
    assert ("/file?path=protect%2Fprotected.csv" in page.text) == (name == "protect")
    # The document of Word, and which rows samples have, are written where they are asked for.
    for file in set(files) - {WORD, "samples.parquet", "synthesizers.parquet"}:
        assert f"name={file}" in page.text
        had = client.ask(f"/download/{name}?name={file}")
        assert had.content == (folder / name / file).read_bytes()
    for file in (REQUEST, EVENTS, MARK, "survey.csv"):
        assert client.ask(f"/download/{name}?name={file}").status_code == 404


@pytest.mark.parametrize("by", ["workbench", "terminal"])
def test_runs_of_all_kinds_are_listed(client: Client, folder: Path, by: str) -> None:
    if by == "terminal":
        for name in ASKED:
            for file in (REQUEST, EVENTS):
                (folder / name / file).unlink(missing_ok=True)
    found = {run.id: run for run in client.bench.runs.all()}
    assert {id: run.kind.name for id, run in found.items()} == {name: name for name in ASKED}
    assert {run.state for run in found.values()} == {"unconverged"}
    page = client.ask("/runs").text
    for run in found.values():
        assert run.answer is not None
        assert run.answer.data == "survey.csv"
        assert run.answer.models == ("latent-class",)
        assert run.answer.headline.replace(">", "&gt;") in page
        assert f">{run.kind.noun}, <" in page
    entries = {entry.name: entry.kind for entry in client.bench.folder.entries("")}
    assert entries == dict.fromkeys(ASKED, "run") | {"survey.csv": "file"}


def test_a_number_that_is_not_known_is_said_to_be_so(client: Client, folder: Path) -> None:
    path = folder / "protect" / "protect.json"
    found = json.loads(path.read_text())
    found["before"]["tau1"]["mean"] = None
    path.write_text(json.dumps(found))
    answer = client.bench.runs.get("protect").answer
    assert answer is not None
    assert answer.figures["τ1 of the file, mean"].startswith("not known (")


def test_a_study_is_continued_with_more(client: Client, folder: Path) -> None:
    client.post("/resume/evaluate", {"repeats": "3"})
    assert ended(client, "evaluate") == "unconverged"
    found = json.loads((folder / "evaluate" / "summary.json").read_text())
    assert (found["n_done"], found["study"]["repeats"]) == (3, 3)


def test_a_comparison_is_not_continued_with_what_is_no_model(client: Client, folder: Path) -> None:
    before = (folder / "compare" / "summary.json").read_bytes()
    answer = client.post("/resume/compare", {"models": "latent-class,nothing"})
    assert answer.status_code == 422
    assert "There is no model" in answer.text
    assert client.bench.runs.get("compare").state == "unconverged"
    assert (folder / "compare" / "summary.json").read_bytes() == before


def test_a_protection_that_was_stopped_before_it_began_begins(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    client.bench.runs.start(asked("protect", folder), "stopped")
    client.post("/cancel/stopped", {})
    assert "Begin the run" in client.ask("/runs/stopped").text
    client.post("/resume/stopped", {})
    assert [(job.id, job.resume) for job in client.bench.runs._queue] == [("stopped", False)]


def test_a_run_that_a_terminal_has_going_is_no_interrupted_one(
    client: Client, folder: Path
) -> None:
    place = folder / "terminal"
    with owned(place, KINDS["compare"].files):
        run = client.bench.runs.get("terminal")
        assert (run.state, run.kind.name, run.resumable) == ("elsewhere", "compare", False)
        assert "Going on elsewhere" in client.ask("/runs").text
        page = client.ask("/runs/terminal").text
        assert "in a terminal" in page
        assert "/cancel/" not in page
        (place / "fits").mkdir()
        # So that the folder stays.
        (place / KINDS["compare"].report).write_text("")
    assert client.bench.runs.get("terminal").state == "unfinished"
    # What is no run any more can be looked into again.
    (place / "fits").rmdir()
    assert kind_at(place) is None


def test_a_folder_of_other_files_is_no_run(folder: Path) -> None:
    other = folder / "other"
    other.mkdir()
    for name in ("summary.json", "report.html", "utility.json"):
        (other / name).write_text("{}")
    # Written by hand, to be run.
    (other / "protect.toml").write_text("")
    assert kind_at(other) is None
    assert kind_of(asked("protect", folder)).name == "protect"
    (other / REQUEST).write_text("no toml [")
    assert kind_at(other) == KINDS["assess"]


@pytest.mark.parametrize("numbers", ["{}", "[]", "no json", '{"converged": true}'])
def test_numbers_that_are_none_are_no_answer(client: Client, folder: Path, numbers: str) -> None:
    for name in ASKED:
        (folder / name / KINDS[name].numbers).write_text(numbers)
    for run in client.bench.runs.all():
        assert run.answer is None
        assert "cannot be read" in client.ask(f"/runs/{run.id}").text


@pytest.mark.parametrize("name", ASKED)
def test_its_specification_is_shown(client: Client, folder: Path, name: str) -> None:
    assert f"/asked/{name}" in client.ask("/runs").text
    page = client.ask(f"/asked/{name}")
    assert page.status_code == 200
    shown = html.unescape(page.text)
    assert (folder / name / KINDS[name].spec).read_text().strip() in shown
    assert f"/again/{name}" in page.text
    assert client.ask("/asked/survey.csv").status_code == 404


def test_two_runs_of_a_kind_side_by_side(client: Client, folder: Path) -> None:
    shutil.copytree(folder / "protect", folder / "second")
    spec = folder / "second" / "protect.toml"
    spec.write_text(spec.read_text().replace("seed = 1", "seed = 8"))
    numbers = json.loads((folder / "protect" / "protect.json").read_text())
    page = client.ask("/beside?one=protect&other=second").text
    found, _, specs = page.partition("What they were asked")
    different, _, same = specs.partition("The same in both")
    assert "two kinds" not in page
    lost = numbers["plans"][-1]["lost"]
    for text in (f"{100 * lost:.0f}%", "τ1 of the file, mean", "τ2 of the protected file, mean"):
        assert text in found
    assert re.findall(r'<th scope="row">(.*?)</th>', different) == ["sampling.seed"]
    assert re.findall(r'<td data-name="second">(.*?)</td>', different) == ["8"]
    # The same file, though it is named from two folders.
    assert "survey.csv" in same


def test_two_runs_of_two_kinds_side_by_side(client: Client) -> None:
    page = client.ask("/beside?one=protect&other=compare").text
    found, _, specs = page.partition("What they were asked")
    assert "runs of two kinds: protection and comparison" in found
    names = re.findall(r'<th scope="row">(.*?)</th>', found)
    assert {"Records", "Population", "Sample uniques of the file", "Converged"} <= set(names)
    assert "Information lost" not in names
    assert "target" in specs


@pytest.mark.parametrize("query", ["", "?one=protect", "?one=protect&other=protect"])
def test_one_run_is_not_compared_with_itself(client: Client, query: str) -> None:
    answer = client.ask(f"/beside{query}")
    assert answer.status_code == 422
    assert "two different runs" in answer.text
    # What was chosen stays so.
    assert answer.text.count(" checked") == query.count("protect")


def test_hostile_names_of_runs_are_escaped(client: Client, folder: Path) -> None:
    name = "<img src=x onerror=alert(1)>'\"&"
    (folder / "protect").rename(folder / name)
    numbers = folder / name / "protect.json"
    found = json.loads(numbers.read_text())
    found |= {"data": "<script>alert(1)</script>", "model": "<script>alert(1)</script>"}
    numbers.write_text(json.dumps(found))
    for path in ("/runs", f"/runs/{quote(name)}", f"/asked/{quote(name)}",
                 f"/beside?one={quote(name)}&other=compare"):  # fmt: skip
        page = client.ask(path)
        assert page.status_code == 200
        assert "<img" not in page.text
        assert "<script>alert" not in page.text
    for run in ("../outside", "none"):
        assert client.ask("/beside", params={"one": "compare", "other": run}).status_code == 404
    assert f"unikat protect '{name}" not in client.ask(f"/runs/{quote(name)}").text


@pytest.mark.parametrize(
    ("place", "value"),
    [
        (("plans",), []),
        (("lost",), 10**400),
        (("level",), 10**400),
        (("model",), "\ud800"),
        (("data",), "\ud800 \x1b[31m<script>"),
        (("sentences", "answer"), "\u202e\x1b[31m"),
        (("provenance", "seed"), "\ud800"),
        (("provenance", "started"), "\ud800"),
        (("target", "limit"), {"\ud800": ["\x1b"]}),
    ],
)
def test_a_folder_of_somebody_else_does_not_take_the_list_away(
    folder: Path, place: tuple[str, ...], value: Any
) -> None:
    """One number too large, or one text that is no UTF-8, ended the list of all runs in 500."""
    path = folder / "protect" / "protect.json"
    numbers = json.loads(path.read_text())
    part = numbers
    for name in place[:-1]:
        part = part[name]
    part[place[-1]] = value
    path.write_text(json.dumps(numbers))
    client = opened(folder)
    for page in ("/runs", "/runs/protect", "/beside?one=protect&other=compare"):
        answer = client.ask(page)
        assert answer.status_code < 500, page
        assert not set("\x1b\u202e") & set(answer.text)
        assert "<script>" not in answer.text.replace("<script>\n", "")
    assert "compare" in client.ask("/runs").text
