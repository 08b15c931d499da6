"""A policy made by answers, written into the folder, and taken by the form of a check."""

from __future__ import annotations

import html
import re
import shutil
from pathlib import Path

import pytest

import unikat
from unikat.files.toml import read_toml
from unikat.spec.policy import Answers, Policy, template
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, Client

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


@pytest.fixture(scope="module")
def certified(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file, its check, and the file before protection."""
    folder = tmp_path_factory.mktemp("certified")
    (folder / "before.csv").write_text("age,sex\n" + "1,f\n2,m\n" * 20)
    (folder / "survey.csv").write_text("age,sex\n" + "1,f\n1,m\n" * 20)
    policy = {"scenario": [{"name": "neighbour", "keys": ["age", "sex"], "target": "k >= 3"}]}
    unikat.check(
        folder / "survey.csv", policy=policy, original=folder / "before.csv",
        out=folder / "checked", progress=False,
    )  # fmt: skip
    return folder


@pytest.fixture
def verifier(certified: Path, tmp_path: Path) -> Client:
    """A workbench of a copy of that folder."""
    shutil.copytree(certified, tmp_path / "data")
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(tmp_path / "data"), access)
    return Client(app, access, bench)


ASKED = "/certificate?path=survey.csv"


def test_a_file_is_held_against_its_certificate(verifier: Client) -> None:
    folder = verifier.bench.folder.root
    page = verifier.ask(ASKED).text
    assert '<option value="checked/certificate.json">' in page
    assert "Certified" not in page
    certificate = f"{ASKED}&certificate=checked/certificate.json"
    page = html.unescape(verifier.ask(certificate).text)
    assert "Certified: the file meets" in page
    assert "Not compared: original" in page
    whole = html.unescape(verifier.ask(f"{certificate}&original=before.csv").text)
    assert re.search(r"The same to the last byte [^<]*original", whole)
    assert "Not compared" not in whole
    salt = read_toml(folder / "checked/check.toml")["salt"]
    assert salt not in whole
    # One that was sent, without the folder of the check: its original cannot be compared.
    (folder / "certificate-sent.json").write_bytes(
        (folder / "checked/certificate.json").read_bytes()
    )
    assert 'value="certificate-sent.json"' in verifier.ask(ASKED).text
    sent = f"{ASKED}&certificate=certificate-sent.json"
    assert "Certified: the file meets" in html.unescape(verifier.ask(sent).text)
    assert "needs its salt" in verifier.ask(f"{sent}&original=before.csv").text
    for salt in ("", "no salt", "1" * 500):
        (folder / "sent").mkdir(exist_ok=True)
        (folder / "sent/certificate.json").write_bytes(
            (folder / "certificate-sent.json").read_bytes()
        )
        (folder / "sent/check.toml").write_text(f'salt = "{salt}"\n')
        strange = f"{ASKED}&certificate=sent/certificate.json&original=before.csv"
        assert verifier.ask(strange).status_code == 422
    (folder / "before.csv").write_text("age,sex\n2,f\n")
    other = verifier.ask(f"{certificate}&original=before.csv")
    assert other.status_code == 422
    assert "is not the original" in other.text
    assert "Certified" not in other.text
    (folder / "survey.csv").write_text((folder / "survey.csv").read_text() + "1,f\n")
    assert "is not the file of the certificate" in verifier.ask(certificate).text
    (folder / "survey.csv").write_text("age,sex\n" + "1,f\n1,m\n" * 20)
    with (folder / "checked/policy.toml").open("a") as file:
        file.write("\n")
    assert "is not the policy" in verifier.ask(certificate).text


@pytest.mark.parametrize(
    "wrong",
    ["checked", "survey.csv", "none.json", "../x.json", "/etc/passwd", "checked/check.toml", "%00"],
)
def test_what_is_no_certificate_is_refused(verifier: Client, wrong: str) -> None:
    answer = verifier.ask(f"{ASKED}&certificate={wrong}")
    assert answer.status_code in (404, 422)
    assert "Certified" not in answer.text
    assert "root:" not in answer.text


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
