"""Small things of pages that an officer stumbles over."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pandas as pd
import pytest

from unikat.data.held import hold
from unikat.data.profile import profile
from unikat.spec.values import whole_number
from unikat.web.draft_files import DRAFTS
from unikat.web.folder import DEEPEST
from web_client import Client

KEYS = {"path": "survey.csv", "key:age": "on", "key:sex": "on", "population_size": "5 000"}
PART = {"HX-Request": "true"}


@pytest.fixture
def asked(client: Client, monkeypatch: pytest.MonkeyPatch) -> Client:
    """A workbench in which keys are marked and no run is begun."""
    monkeypatch.setattr(client.bench.runs, "_work", lambda: None)
    assert client.post("/keys", KEYS).status_code == 303
    return client


@pytest.mark.parametrize("text", ["50 000", "50\u00a0000", "50\u202f000", "50,000", "50_000"])
def test_thousands_are_written_as_people_do(text: str) -> None:
    assert whole_number(text) == 50_000


@pytest.mark.parametrize("text", ["50 00", "1,000 000", "5000 000", "1 0000", "50  000"])
def test_other_spaces_are_no_thousands(text: str) -> None:
    with pytest.raises(ValueError, match="not a whole number"):
        whole_number(text)


def test_codes_of_numbers_have_no_decimal_and_stand_apart_from_their_labels(
    tmp_path: Path,
) -> None:
    import pyreadstat

    ages = [1.0] * 5 + [2.0] * 5 + [-9.0] * 5
    pyreadstat.write_sav(
        pd.DataFrame({"AGE": ages}), tmp_path / "a.sav",
        variable_value_labels={"AGE": {1: "0 to 15", 2: "16 to 24"}},
    )  # fmt: skip
    (column,) = profile(tmp_path / "a.sav").columns
    assert column.levels == ("-9", "1 = 0 to 15", "2 = 16 to 24")
    assert hold(tmp_path / "a.sav", ["AGE"]).texts([0, 14]) == [["1 = 0 to 15"], ["-9"]]


def test_missing_values_are_counted_with_the_codes_that_are_named(client: Client) -> None:
    def told(**form: str) -> str:
        sent = {"path": "survey.csv", "column": "age", **form}
        return client.post("/keys/missing", sent, headers=PART).text.strip()

    assert told() == "0"
    assert told(**{"missing:age": "20"}) == "9"
    assert told(missing_values="20,21") == "18"
    assert told(**{"key:age": "on", "grouping:age": "width(", "missing:age": "20"}) == "9"
    wrong = client.post("/keys/missing", {"path": "survey.csv", "column": "nothing"}, headers=PART)
    assert "nothing" in wrong.text
    # A page with codes in it asks at once.
    client.post("/keys/keep", KEYS | {"missing:age": "20"})
    assert re.search(r'hx-trigger="[^"]*, load"', client.ask("/keys?path=survey.csv").text)


def test_enter_goes_on_and_checks_nothing_else(client: Client) -> None:
    page = client.ask("/keys?path=survey.csv").text
    first = re.search(r"<button([^>]*)>([^<]*)<", page[page.index("<main") :])
    assert first is not None
    assert first[2] == "Check and go on"
    assert "formaction" not in first[1]


def test_the_command_follows_the_form(asked: Client) -> None:
    form = {"path": "survey.csv", "kind": "assess", "out": "new", "action": "command"}
    part = asked.post("/run", form | {"model": "hdp"}, headers=PART)
    assert "<html" not in part.text
    assert "--model hdp" in part.text
    # What is written is kept, and what is wrong is said beside the command.
    assert asked.bench.draft("survey.csv").values["model"] == "hdp"
    wrong = asked.post("/run", form | {"chains": "none"}, headers=PART)
    assert wrong.status_code == 200
    assert "--chains" in wrong.text.partition("<pre")[0]
    assert (
        'hx-trigger="input delay:400ms from:closest form"' in asked.ask("/run?path=survey.csv").text
    )


def test_an_evaluation_takes_what_an_assessment_takes(asked: Client) -> None:
    page = asked.ask("/run?path=survey.csv&kind=evaluate").text
    assert re.search(r'name="models:auto" checked', page)
    assert "--models auto" in page
    form = {"path": "survey.csv", "kind": "evaluate", "out": "new", "action": "command"}
    shown = asked.post("/run", form | {"n": "20"}, headers=PART).text
    assert "--models auto" in shown


@pytest.mark.parametrize(
    "name", [".hidden", ".hidden/run", "a/.b", "/".join("abcde"[: DEEPEST + 1])]
)
def test_a_run_that_would_not_be_listed_is_not_begun(
    asked: Client, folder: Path, name: str
) -> None:
    form = {"path": "survey.csv", "kind": "assess", "out": name}
    answer = asked.post("/run", form)
    assert answer.status_code == 409
    assert "would not be found again" in html.unescape(answer.text)
    assert sorted(path.name for path in folder.iterdir()) == [DRAFTS, "survey.csv"]
    assert asked.post("/run", form | {"out": "/".join("abcd"[:DEEPEST])}).status_code == 303
    assert len(asked.bench.runs.all()) == 1


def test_a_run_that_never_began_says_so(asked: Client) -> None:
    assert asked.post("/run", {"path": "survey.csv", "kind": "assess", "out": "new"}).status_code
    assert "It has not begun" in asked.ask("/runs/new").text
    asked.post("/cancel/new", {})
    page = asked.ask("/runs/new").text
    assert "What was done is kept" not in page
    assert "It starts from the beginning" in page
    assert "Begin the run" in page
