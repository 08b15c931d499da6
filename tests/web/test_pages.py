"""What pages say and keep: errors of the library in the page, and every field of a form."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from unikat.web.draft_files import DRAFTS
from web_client import Client

FORM = {
    "path": "survey.csv",
    "key:age": "on",
    "key:sex": "on",
    "grouping:age": "width(5)",
    "population_size": "5000",
    "missing_values": "-1,99",
    "missing": "level",
    "weights": "",
    "rules": "age >= 25 and sex == 'f'",
    "zeros_conflict": "drop",
}


def test_a_file_is_profiled_without_values_of_records(client: Client, folder: Path) -> None:
    rows = "".join(f"person {i},{1000 + i},{'ab'[i % 2]}\n" for i in range(50))
    (folder / "names.csv").write_text(f"name,income,sex\n{rows}")
    page = client.ask("/file?path=names.csv")
    assert page.status_code == 200
    assert "50 records" in page.text
    assert "a, b" in page.text
    assert "person 7" not in page.text
    assert "1007" not in page.text
    assert "person 7" in client.ask("/file?path=names.csv&rows=1").text


def test_a_file_that_cannot_be_read_can_be_read_in_another_way(
    client: Client, folder: Path
) -> None:
    (folder / "old.csv").write_bytes("größe,b\nä,1\nö,2\n".encode("latin-1"))
    page = client.ask("/file?path=old.csv")
    assert page.status_code == 422
    assert "the text is not UTF-8" in page.text
    again = client.post("/file", {"path": "old.csv", "encoding": "latin-1"})
    assert again.status_code == 200
    assert "größe" in again.text
    # The other pages read it likewise.
    assert "größe" in client.ask("/keys?path=old.csv").text


def test_keys_that_agree_with_the_file_lead_to_the_run(client: Client) -> None:
    answer = client.post("/keys", FORM)
    assert answer.status_code == 303
    assert answer.headers["location"].endswith("/run?path=survey.csv")
    page = client.ask("/run?path=survey.csv").text
    # 10 of 60 records break the rule.
    assert "50 records, 2 keys" in page
    command = re.search(r"<code>(unikat assess.*?)</code>", page)
    assert command is not None
    assert "--keys &#39;age:width(5),sex&#39; --population-size 5000" in command[1]
    assert "--zeros rules.toml" in command[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"population_size": "many"}, "The form is not valid: --population-size"),
        ({"population_size": "12"}, "population size is 12"),
        ({"grouping:age": "width("}, "malformed"),
        ({"rules": "agee < 10"}, "agee"),
        ({"rules": "sex == 'f'", "zeros_conflict": ""}, "break"),
        ({"codebook": "../codebook.json"}, "codebook"),
    ],
)
def test_an_error_is_told_and_nothing_that_was_said_is_lost(
    client: Client, change: dict[str, str], message: str
) -> None:
    form = FORM | change
    answer = client.post("/keys", form)
    assert answer.status_code == (404 if "codebook" in change else 422)
    alert = answer.text.partition('role="alert"')[2].partition("</div>")[0]
    assert message in alert
    for page in (answer.text, client.ask("/keys?path=survey.csv").text):
        held = page.replace("&lt;", "<").replace("&gt;", ">").replace("&#39;", "'")
        assert page.count(" checked>") == 2
        for name in ("grouping:age", "population_size", "missing_values"):
            assert re.search(rf'name="{name}" value="{re.escape(form.get(name, ""))}"', held)
        assert f"\n{form['rules']}</textarea>" in held
        for name in ("missing", "zeros_conflict", "codebook"):
            if form.get(name):
                assert f'<option value="{form[name]}" selected>' in page


def test_rules_are_held_against_the_file(client: Client) -> None:
    form = FORM | {"rules": "age >= 25 and sex == 'm'"}
    part = client.post("/keys/check", form, headers={"HX-Request": "true"}).text
    assert "<html" not in part
    assert re.search(r"\d+ records break a rule", part)
    whole = client.post("/keys/check", form)
    assert whole.status_code == 200
    assert "<html" in whole.text
    assert "records break a rule" in whole.text
    wrong = client.post("/keys/check", FORM | {"rules": "age <"}, headers={"HX-Request": "true"})
    assert 'role="alert"' in wrong.text


def test_a_run_that_is_not_valid_is_not_begun(client: Client, folder: Path) -> None:
    client.post("/keys", FORM)
    form = {"path": "survey.csv", "model": "latent-class", "chains": "none", "out": "new"}
    answer = client.post("/run", form)
    assert answer.status_code == 422
    assert "--chains" in answer.text
    assert 'value="none"' in answer.text
    for out in ("../elsewhere", "", "."):
        answer = client.post("/run", form | {"chains": "2", "out": out})
        assert answer.status_code in (404, 409)
        assert 'role="alert"' in answer.text
    assert sorted(path.name for path in folder.iterdir()) == [DRAFTS, "survey.csv"]


@pytest.mark.parametrize(
    ("path", "status", "kind"),
    [
        ("/no-such-page", 404, "HTTPError"),
        ("/runs/none", 404, "NotInFolderError"),
        ("/file?path=../x.csv", 404, "NotInFolderError"),
        ("/keys/check", 405, "HTTPError"),
    ],
)
def test_programs_get_errors_in_one_shape(
    client: Client, path: str, status: int, kind: str
) -> None:
    answer = client.ask(path, headers={"Accept": "application/json"})
    assert answer.status_code == status
    (error,) = answer.json().values()
    assert set(error) == {"status", "kind", "message"}
    assert (error["status"], error["kind"]) == (status, kind)


def test_a_defect_shows_no_text_of_the_exception(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise RuntimeError("value of a record")

    monkeypatch.setattr(client.bench.runs, "all", fail)
    answer = client.ask("/runs")
    assert answer.status_code == 500
    assert "value of a record" not in answer.text
    assert "defect of unikat" in answer.text
