"""A policy made by answers, written into the folder, and taken by the form of a check."""

from __future__ import annotations

import html
from pathlib import Path

from unikat.spec.policy import Answers, Policy, template
from web_client import Client

PART = {"HX-Request": "true"}
FORM = {
    "path": "survey.csv", "recipients": "researchers", "contract": "yes", "key:age": "on",
    "key:sex": "on", "sensitive:region": "on", "out": "policy.toml", "do": "write",
}  # fmt: skip


def test_answers_become_a_policy_that_a_check_takes(client: Client, folder: Path) -> None:
    shown = html.unescape(client.post("/policy", FORM, headers=PART).text)
    wanted = Answers("researchers", True, False, ("region",), ("age", "sex")).policy()
    assert wanted.strip() in shown
    assert not (folder / "policy.toml").exists()
    done = client.post("/policy", FORM)
    assert done.headers["location"].endswith("/run?path=survey.csv&kind=check")
    assert (folder / "policy.toml").read_text() == wanted
    assert (folder / "policy.toml").stat().st_mode & 0o077 == 0
    assert Policy.of(folder / "policy.toml").spec.sensitive == ("region",)
    assert (
        '<option value="policy.toml" selected>'
        in client.ask("/run?path=survey.csv&kind=check").text
    )
    # What is there stays, and another name is proposed.
    again = client.post("/policy", FORM | {"repeated": "yes"})
    assert again.status_code == 409
    assert "is there already" in again.text
    assert (folder / "policy.toml").read_text() == wanted
    assert 'value="policy-2.toml"' in client.ask("/policy?path=survey.csv").text


def test_the_public_signs_nothing_and_templates_stay_as_they_are(
    client: Client, folder: Path
) -> None:
    public = client.post("/policy", FORM | {"recipients": "public", "do": "show"}).text
    assert "From the template public-use-file" in public
    client.post("/policy", FORM | {"template": "hipaa-safe-harbor", "out": "hipaa.toml"})
    assert (folder / "hipaa.toml").read_text() == template("hipaa-safe-harbor")


def test_wrong_answers_and_names_are_told(client: Client, folder: Path) -> None:
    both = client.post("/policy", FORM | {"sensitive:age": "on"})
    assert both.status_code == 422
    assert 'name="sensitive:age" checked' in both.text
    assert client.post("/policy", FORM | {"recipients": "all"}).status_code == 422
    for name in ("../p.toml", "/tmp/p.toml", "p.csv", "", "no/such/p.toml"):
        answer = client.post("/policy", FORM | {"out": name})
        assert answer.status_code in (404, 409, 422), name
    assert client.post("/policy", FORM | {"template": "none"}).status_code == 422
    assert sorted(path.name for path in folder.rglob("*.toml")) == []


def test_roles_of_columns_answer_what_they_can(client: Client) -> None:
    roles = {"path": "survey.csv", "role:age": "key", "role:sex": "sensitive"}
    client.post("/columns", roles | {"role:region": "identifier"})
    page = client.ask("/policy?path=survey.csv").text
    for field in ("key:age", "sensitive:sex", "never:region"):
        assert f'name="{field}" checked' in page
