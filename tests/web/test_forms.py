"""The forms of each kind of run: what they ask for, the command line they show, what they keep."""

from __future__ import annotations

import html
import re
import shlex
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from unikat.cli.main import cli
from unikat.spec.kinds import KINDS
from unikat.spec.trust import Trust
from unikat.web.drafts import Draft
from web_client import SURVEY, Client

KEYS = {
    "path": "survey.csv",
    "key:age": "on",
    "key:sex": "on",
    "key:region": "on",
    "grouping:age": "width(2)",
    "population_size": "5000",
    "strata": "region",
    "rules": "age >= 26 and sex == 'f'",
    "zeros_conflict": "drop",
}
SAMPLING = {"chains": "2", "seed": "7", "max_sweeps": "20", "workers": "1"}
FORMS: dict[str, dict[str, str]] = {
    "assess": {"model": "latent-class", "threshold": "tau1 <= 5",
               "set": "top_shape=0.5\nsampling.rhat=1.05",
               "classics": "yes", "sensitive": "sex,region", "show_small_cells": "yes",
               "level": "0.9", "language": "es"},
    "compare": {"models:hdp": "on", "models:gom": "on", "models": "loglinear:terms=two-way",
                "held_out": "0.1", "option:path": "components=5,10"},
    "evaluate": {"models:hdp": "on", "n": "20, 30", "repeats": "3", "design": "stratified",
                 "allocation": "equal", "levels": "population"},
    "protect": {"target:measure": "k", "target:limit": "3", "suppress": "r1 <= 0.2",
                "keep:sex": "yes", "weights_of_keys:age": "2", "model": "latent-class",
                "recodings:age": "width(4), cut(22, 25)", "recodings:region": "file(h.csv)",
                "tables": "age, sex; region, sex",
                "numeric": "weight: round(10),swap(5%); height+age2: noise(10%)"},
}  # fmt: skip


@pytest.fixture
def asked(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A workbench in which keys are marked and no run is begun."""
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    (folder / "h.csv").write_text("A,AB\nB,AB\nC,CD\nD,CD\n")
    # What is said is kept, though the file does not tell the sizes of its strata.
    assert client.post("/keys", KEYS).status_code == 422
    return client


def posted(client: Client, kind: str, out: str = "new", **more: str) -> Any:
    form = {"path": "survey.csv", "kind": kind, "out": out}
    return client.post("/run", form | SAMPLING | FORMS[kind] | more)


def alert(text: str) -> str:
    return html.unescape(text.partition('role="alert"')[2].partition("</div>")[0])


@pytest.mark.parametrize("kind", FORMS)
def test_the_command_line_asks_for_what_the_form_does(
    asked: Client, folder: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown = posted(asked, kind, action="command").text
    found = re.search(r"<code>(unikat .*?)</code>", shown)
    rules = re.search(r"<code>(rules = .*?)</code>", shown, re.DOTALL)
    assert found is not None
    assert rules is not None
    (folder / "rules.toml").write_text(html.unescape(rules[1]))
    assert posted(asked, kind).headers["location"].endswith("/runs/new")
    spec = KINDS[kind].specification.read(folder / "new" / "workbench.toml", Trust(inside=folder))
    job = import_module(f"unikat.jobs.{kind}")
    seen: list[Any] = []
    monkeypatch.setattr(job, "run", lambda spec, *_, **__: seen.append(spec) or _stop())
    monkeypatch.chdir(folder)
    CliRunner().invoke(cli, shlex.split(html.unescape(found[1]))[1:])
    assert [one.to_toml(folder) for one in seen] == [spec.to_toml(folder)]


def _stop() -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("kind", FORMS)
def test_the_form_is_filled_again(asked: Client, kind: str) -> None:
    posted(asked, kind)
    before = asked.bench.draft("survey.csv")
    page = asked.ask("/run?path=survey.csv").text
    asked.bench.keep(Draft(path="survey.csv"))
    assert asked.post("/again/new", {}).status_code == 303
    after = asked.bench.draft("survey.csv")
    # The one default that is said, of the levels of samples.
    said = "levels" if kind == "evaluate" else ""
    used = {name: text for name, text in before._given.items() if name != said}
    if kind == "protect":
        used["tables"] = "age,sex; region,sex"
    assert dict(after.values) == used
    assert (after.keys, after.groupings, after.rules, after.kind, after.of_keys) == (
        before.keys, before.groupings, before.rules, before.kind, before.of_keys,
    )  # fmt: skip
    assert asked.ask("/run?path=survey.csv").text.count(" checked>") == page.count(" checked>")


def test_a_population_needs_no_size(client: Client) -> None:
    form = {"path": "survey.csv", "key:age": "on", "key:sex": "on"}
    assert "population size" in alert(client.post("/keys", form).text)
    assert client.ask("/run?path=survey.csv&kind=evaluate").status_code == 200
    assert client.post("/keys", form | {"weights": "age"}).status_code == 303
    page = client.ask("/run?path=survey.csv").text
    assert "Population: 60 units, 2 keys" in page
    # What is not used is said.
    assert "<code>--weights</code>" in page
    assert "--weights age" not in page
    assert "Population: 60" not in client.ask("/run?path=survey.csv&kind=assess").text


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("compare", {"models:hdp": "", "models:gom": "", "models": ""}, "--models"),
        ("compare", {"models": "nothing"}, "There is no model 'nothing'"),
        ("compare", {"held_out": "2"}, "--held-out"),
        ("compare", {"option:path": "components"}, "The path 'components'"),
        ("evaluate", {"n": "20,100"}, "a comma separates sizes"),
        ("evaluate", {"design": "pps", "allocation": ""}, "--size"),
        ("evaluate", {"repeats": "0"}, "--repeats"),
        ("protect", {"target:limit": "three"}, "'k >= three' is no limit"),
        ("protect", {"target": "tau3 <= 4"}, "'tau3 <= 4' is no limit"),
        ("protect", {"weights_of_keys:age": "-1"}, "--weights-of-keys"),
        ("protect", {"pram:region": "1.5"}, "'region'"),
        ("protect", {"pram:region": "../matrix.csv"}, "not in the folder"),
        ("protect", {"recodings:region": "file(/etc/passwd)"}, "not in the folder"),
        ("protect", {"scenarios": "none.toml"}, "'none.toml'"),
        ("protect", {"scenarios": "survey.csv"}, "survey.csv"),
        ("protect", {"swap": "sex: r1 > 2", "keep:sex": ""}, "r1 is a probability"),
    ],
)
def test_an_error_is_told_and_the_form_kept(
    asked: Client, folder: Path, kind: str, change: dict[str, str], message: str
) -> None:
    answer = posted(asked, kind, **change)
    assert answer.status_code in (404, 422)
    assert message in alert(answer.text)
    held = html.unescape(answer.text)
    for name, value in change.items():
        text = {"target:limit": "k >= three"}.get(name, value)
        assert not text or f'value="{text}"' in held
    assert not (folder / "new").exists()


def test_a_kind_without_a_form_is_told(asked: Client) -> None:
    for kind in ("attack", "verify", "none", "<script>"):
        assert asked.ask("/run", params={"path": "survey.csv", "kind": kind}).status_code == 404
        posted_kind = {"path": "survey.csv", "kind": kind, "out": "new"}
        assert asked.post("/run", posted_kind).status_code == 404


HOSTILE = '<img src=x onerror=alert(1)>"&,;:='


def test_names_of_keys_are_escaped_and_kept(client: Client, folder: Path) -> None:
    quoted = HOSTILE.replace('"', '""')
    (folder / "odd.csv").write_text(f'"{quoted}",b\n' + SURVEY.partition("\n")[2])
    client.bench.runs._work = lambda: None  # type: ignore[method-assign]
    client.bench.keep(Draft(path="odd.csv", keys=(HOSTILE, "b"), values={"population_size": "99"}))
    form = {"path": "odd.csv", "kind": "protect", "target": "k >= 2", "out": "new"}
    odd = {f"keep:{HOSTILE}": "yes", f"weights_of_keys:{HOSTILE}": "3", "recodings:b": "left out"}
    answer = client.post("/run", form | odd | {"action": "command"})
    assert answer.status_code == 200
    assert "<img" not in answer.text
    assert client.post("/run", form | odd).status_code == 303
    spec: Any = KINDS["protect"].specification.read(
        folder / "new" / "workbench.toml", Trust(inside=folder)
    )
    assert (spec.keep, spec.weights_of_keys) == ((HOSTILE,), {HOSTILE: 3.0})


def test_a_file_whose_name_begins_with_a_dash_is_a_file() -> None:
    assert " ./-x.csv " in Draft(path="-x.csv", keys=("a", "b")).command("new")
