"""Policies: what they may say, templates, answers to the questionnaire."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from unikat.cli.main import main
from unikat.errors import SpecError
from unikat.files.toml import parse_toml
from unikat.spec.limits import Limit
from unikat.spec.policy import Answers, Policy, template, templates

NEIGHBOUR = {"name": "neighbour", "keys": "AGE,SEX", "target": ["k >= 3"]}


def scenario(**more: Any) -> dict[str, Any]:
    return {"scenario": [NEIGHBOUR | more]}


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "asks for nothing"),
        ({"title": "x"}, "asks for nothing"),
        (scenario(target=["k >= 3", "k >= 5"]), "limits k more than once"),
        (scenario(target=["k <= 3"]), "is no limit"),
        (scenario(target=["diversity() >= 2"]), "is no limit"),
        (scenario(target=["diversity >= 2"]), "is no limit"),
        (scenario(target=["records(r2 > 0.1) <= 2"]), "is no limit"),
        (scenario(target=["r1 <= 2"]), "below 1"),
        (scenario(target=["households.tau1 <= 2"]), "is of households"),
        (scenario(target=["diversity(AGE) >= 2"]), "diversity of 'AGE' is limited"),
        (scenario() | {"never": ["age"]}, "'AGE' never leaves, and a scenario has it as a key"),
        (scenario(keys="AGE:width(5),SEX"), "without rules of grouping"),
        (scenario(errors=1.0), "errors"),
        (scenario(errors=-0.1), "errors"),
        (scenario() | {"minimum_cell": 0}, "minimum_cell"),
        (scenario() | {"confidence": 1.0}, "confidence"),
        (scenario() | {"path": "/etc/passwd"}, "path"),
        (scenario() | {"data": {"path": "/etc/passwd"}}, "data"),
        (scenario() | {"title": "a\x1b[2J"}, "control characters"),
        ({"scenario": [NEIGHBOUR, NEIGHBOUR]}, "the same name"),
        (scenario() | {"schema": "unikat.policy/2"}, "another version"),
        (scenario() | {"schema": "unikat.plan/1"}, "another kind"),
        (
            {"scenario": [NEIGHBOUR | {"name": str(i), "target": ["k >= 2"] } for i in range(201)]},
            "more than 200 targets",
        ),
    ],
)  # fmt: skip
def test_a_policy_that_contradicts_itself_is_refused(values: dict[str, Any], said: str) -> None:
    with pytest.raises(SpecError) as caught:
        Policy.of(values)
    assert said in str(caught.value)


@pytest.mark.parametrize("content", [b"\xff\xfe", b"a = ", b"a = [" * 5000, b"x" * 100], ids=len)
def test_a_policy_that_is_no_toml_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "policy.toml"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"policy\.toml"):
        Policy.of(path)
    with pytest.raises(SpecError, match="Cannot read"):
        Policy.of(tmp_path / "none.toml")


def test_what_a_policy_needs() -> None:
    def of(*targets: str, **more: Any) -> Any:
        return Policy.of(scenario(target=list(targets), **more)).spec

    assert not of("k >= 3", "diversity(IN (COME)) >= 2").needs_population
    assert not of("r1 <= 0.1", in_sample=True).needs_population
    assert of("k >= 3", "r1 <= 0.1").needs_population
    assert of("diversity(IN (COME)) >= 2").sensitive == ("IN (COME)",)
    assert str(Limit.of("diversity(IN (COME)) ≥ 2")) == "diversity(IN (COME)) >= 2"


def test_the_bytes_of_a_policy_are_those_of_its_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_bytes(b'# a comment\r\nnever = ["ID"]\r\n')
    found = Policy.of(path)
    assert (found.content, found.name) == (path.read_bytes(), "mine.toml")


@pytest.mark.parametrize("name", templates())
def test_a_template_is_a_policy_that_says_where_it_comes_from(name: str) -> None:
    found = Policy.of(parse_toml(template(name))).spec
    assert found.title
    assert found.sources
    limits = [limit for one in found.scenarios for limit in one.target]
    limits += [] if found.minimum_cell is None else [f"minimum_cell = {found.minimum_cell}"]
    # Every number has a source, or is said to be ours.
    for limit in limits:
        told = [one for one in found.sources if limit in one or limit.split()[-1] in one]
        assert told, limit


@pytest.mark.parametrize(
    ("answers", "name"),
    [
        (("public", False, False), "public-use-file"),
        (("researchers", False, False), "public-use-file"),
        (("researchers", True, False), "scientific-use-file"),
        (("room", True, True), "safe-room"),
    ],
)
def test_answers_choose_a_template(answers: Any, name: str) -> None:
    assert Answers(*answers).template == name


def test_answers_fill_a_template_in() -> None:
    said = Answers("public", False, True, ("INCOME",), ("AGE", "SEX"), ("ID",)).policy()
    found = Policy.of(parse_toml(said)).spec
    assert found.known_keys == ("AGE", "SEX")
    assert "ID" in found.never
    assert found.sensitive == ("INCOME",)
    assert [one.in_sample for one in found.scenarios] == [True]
    with pytest.raises(SpecError, match="AGE"):
        Answers("public", False, False, ("AGE",), ("AGE",)).policy()


def test_the_command_lists_prints_and_fills(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy"]) == 0
    assert capsys.readouterr().out.split()[0] == next(iter(templates()))
    assert main(["policy", "safe-room"]) == 0
    assert capsys.readouterr().out == template("safe-room")
    assert main(["policy", "safe-rom"]) == 1
    assert "safe-room" in capsys.readouterr().err
    assert main(["policy", "--recipients", "researchers", "--once"]) == 1
    assert "--contract or --no-contract, --keys" in capsys.readouterr().err
    answers = ["--recipients", "public", "--once", "--keys", "AGE,SEX"]
    assert main(["policy", *answers]) == 0
    assert Policy.of(parse_toml(capsys.readouterr().out)).spec.known_keys == ("AGE", "SEX")


def test_answers_that_are_not_given_are_asked_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = iter(["researchers", True, False, "AGE,SEX", "", "ID"])
    monkeypatch.setattr("click.prompt", lambda *_, **__: next(given))
    assert main(["policy", "--ask"]) == 0
    found = Policy.of(parse_toml(capsys.readouterr().out)).spec
    assert found.title.startswith("Scientific-use file")
    assert next(given, None) is None


def test_answers_given_twice_and_nobody_to_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["policy", "--recipients", "public", "--recipients", "room"]) == 1
    assert "--recipients is given 2 times" in capsys.readouterr().err
    assert main(["policy", "--once", "--repeated"]) == 1
    assert "given 2 times" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert main(["policy", "--ask"]) == 1
    assert "there is nobody to ask" in capsys.readouterr().err
