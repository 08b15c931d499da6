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
from unikat.spec.kinds import KINDS, Kind
from unikat.spec.trust import Trust
from unikat.web.drafts import PAGES, Draft, fields_on
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
COLUMNS = {
    "path": "survey.csv",
    "role:town": "identifier",
    "method:0:weight": "round",
    "amount:0:weight": "10",
    "method:1:weight": "swap",
    "together": "height+age2: noise(10%)",
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
                "tables": "age, sex; region, sex"},
    "synthesize": {"datasets": "3", "model": "gom", "replace": "age,region", "set": "components=4"},
    "attack": {"synthetic:made.csv": "on", "synthetic:others.csv": "on",
               "control": "h.csv", "attacks": "500", "targets": "region", "link": "age",
               "model": "hdp", "risk": "assessed"},
    "verify": {"protected": "made.csv", "id": "age", "target": "tau1 <= 5", "model": "gom"},
    "check": {"policy": "policy.toml", "original": "made.csv", "left_out": "town",
              "model": "auto"},
}  # fmt: skip


@pytest.fixture
def asked(client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A workbench in which keys are marked and no run is begun."""
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    (folder / "h.csv").write_text("A,AB\nB,AB\nC,CD\nD,CD\n")
    for name in ("made.csv", "others.csv"):
        (folder / name).write_text(SURVEY)
    (folder / "assessed").mkdir()
    (folder / "policy.toml").write_text(
        "[[scenario]]\nname = 'all'\nkeys = ['age', 'sex', 'region', 'town']\n"
        "target = 'tau1 <= 5'\n"
    )
    # What is said is kept, though the file does not tell the sizes of its strata.
    assert client.post("/keys", KEYS).status_code == 422
    assert client.post("/columns", COLUMNS).status_code == 422
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
    assert (rules is None) == (kind == "verify")
    if rules is not None:
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
    # Files of these kinds are taken as they are, and one knows no rules.
    grouped = before.groupings if KINDS[kind].groups_keys else {}
    rules = "" if kind == "verify" else before.rules
    assert (after.keys, after.groupings, after.rules, after.kind, after.of_keys) == (
        before.keys, grouped, rules, before.kind, before.of_keys,
    )  # fmt: skip
    assert asked.ask("/run?path=survey.csv").text.count(" checked>") == page.count(" checked>")


def test_a_population_needs_no_size(client: Client) -> None:
    form = {"path": "survey.csv", "key:age": "on", "key:sex": "on"}
    assert client.post("/keys", form).status_code == 303
    assert "No population size yet" in client.ask("/run?path=survey.csv").text
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


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_every_option_that_a_form_asks_for_has_its_field(asked: Client, kind: Kind) -> None:
    page = asked.ask(f"/run?path=survey.csv&kind={kind.name}").text
    named = set(re.findall(r'name="([a-z_0-9]+)[":]', page)) | {"path"}
    # A target is made of two fields, and a choice of models of many.
    assert set(fields_on("run", kind)) - named - {"synthetic"} == set()
    for field in ("synthetic", "certificate"):
        assert f'id="{field}' not in page or field in fields_on("run", kind)
    assert "In Python" not in page


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_what_names_a_file_is_looked_for_in_the_folder(kind: Kind) -> None:
    for page in PAGES:
        for one in fields_on(page, kind).values():
            told = "" if one.field is None else repr(one.field.annotation)
            # Hierarchies and matrices of keys are looked for by themselves.
            if re.search(r"\bPath\b|FileSpec|MarginSpec|RegistrySpec", told) and page != "key":
                assert one.is_file or one.is_files, one.name


def test_a_file_without_population_size_can_be_synthesized_and_checked(asked: Client) -> None:
    form = {"path": "survey.csv", "key:age": "on", "key:sex": "on"}
    for kind in ("synthesize", "attack"):
        assert asked.ask(f"/run?path=survey.csv&kind={kind}").status_code == 200
        assert asked.post("/keys", form).status_code == 303, kind
        assert "60 records, 2 keys" in asked.ask("/run?path=survey.csv").text
    assert asked.ask("/run?path=survey.csv&kind=check").status_code == 200
    assert asked.post("/keys", {"path": "survey.csv"}).status_code == 303
    assert "No keys are marked" not in asked.ask("/run?path=survey.csv").text


def test_what_a_kind_of_run_has_no_use_for_is_said(asked: Client) -> None:
    page = asked.ask("/run?path=survey.csv&kind=verify").text
    for unused in ("age:width(2)", "--zeros", "--zeros-conflict"):
        assert f"<code>{unused}</code>" in page


def test_a_model_that_draws_no_records_is_forgotten(asked: Client) -> None:
    posted(asked, "assess", model="loglinear", action="command")
    asked.ask("/run?path=survey.csv&kind=synthesize")
    assert "model" not in asked.bench.draft("survey.csv").values


@pytest.mark.parametrize(
    ("kind", "change", "message"),
    [
        ("synthesize", {"datasets": "0"}, "--datasets"),
        ("synthesize", {"model": "loglinear"}, "records cannot be drawn from the model loglinear"),
        ("attack", {"synthetic:made.csv": "", "synthetic:../x.csv": "on"}, "not in the folder"),
        ("attack", {"control": "/etc/passwd"}, "not in the folder"),
        ("attack", {"risk": "../assessed"}, "not in the folder"),
        ("verify", {"protected": ""}, "protected"),
        ("verify", {"protected": "none.csv"}, "none.csv"),
        ("check", {"policy": ""}, "no policy is named"),
        ("check", {"policy": "../policy.toml"}, "not in the folder"),
        ("check", {"original": "--salt=x"}, "salt"),
    ],
)
def test_an_error_of_a_form_that_is_made_of_options_is_told(
    asked: Client, folder: Path, kind: str, change: dict[str, str], message: str
) -> None:
    answer = posted(asked, kind, **change)
    assert answer.status_code in (404, 422)
    assert message in alert(answer.text)
    assert not (folder / "new").exists()


def test_a_kind_without_a_form_is_told(asked: Client) -> None:
    for kind in ("attacks", "none", "<script>"):
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
