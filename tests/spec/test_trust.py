"""What a specification in a file may not decide: it is named, refused, and never touched."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import unikat
from unikat.cli.main import main
from unikat.errors import SpecError
from unikat.spec.addresses import source_digest
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.attack import AttackSpec
from unikat.spec.base import Spec
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.evaluation import EvaluationSpec
from unikat.spec.from_options import specify
from unikat.spec.paths import NamesFiles, OfUser, hierarchy_file, of_user
from unikat.spec.plan import PlanSpec
from unikat.spec.protection import ProtectionSpec
from unikat.spec.synthesis import SynthesisSpec
from unikat.spec.tables import FileSpec, RegistrySpec
from unikat.spec.trust import FOREIGN, Trust
from unikat.spec.verification import VerifySpec

from .test_addresses import NEARLY, SECRET

KINDS = (
    AssessmentSpec,
    AttackSpec,
    ComparisonSpec,
    EvaluationSpec,
    PlanSpec,
    ProtectionSpec,
    SynthesisSpec,
    VerifySpec,
)
SURVEY = "A,B,C\n" + "".join(f"{i * i % 53},{i % 3},{i % 5}\n" for i in range(60))


@pytest.fixture
def sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that somebody sent, beside data of the user."""
    (tmp_path / "survey.csv").write_text(SURVEY)
    folder = tmp_path / "sent"
    folder.mkdir()
    (folder / "survey.csv").write_text(SURVEY)
    monkeypatch.chdir(tmp_path)
    return folder


@pytest.fixture
def port() -> Iterator[socket.socket]:
    """A port on which nobody may ring."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        listener.setblocking(False)
        yield listener
        with pytest.raises(BlockingIOError):
            listener.accept()


def address(listener: socket.socket) -> str:
    return f"tcp://127.0.0.1:{listener.getsockname()[1]}"


def written(folder: Path, text: str, name: str = "assessment.toml") -> Path:
    path = folder / name
    path.write_text(f'keys = ["A", "B"]\npopulation_size = 600\nmodel = "latent-class"\n{text}')
    return path


def fields(table: type[BaseModel], at: str = "") -> Iterator[tuple[str, Any, list[Any]]]:
    """All fields of a specification, with their tables and lists of tables."""
    for name, field in table.model_fields.items():
        place = f"{at}{field.alias or name}"
        yield place, field.annotation, field.metadata
        kinds, inner = [field.annotation], []
        while kinds:
            kind = kinds.pop()
            kinds += get_args(kind)
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                inner.append(kind)
        for kind in inner:
            yield from fields(kind, f"{place}.")


@pytest.mark.parametrize("kind", KINDS)
def test_every_path_query_and_address_of_a_specification_is_foreign(kind: type[Spec]) -> None:
    """No list of names: a field whose type is a path counts, whatever command has it."""
    outside, n_found = Path("/elsewhere/x"), 0
    for place, annotation, metadata in fields(kind):
        names = place.split(".")
        value: Any
        if OfUser in metadata:
            value = "something else"
        elif annotation == tuple[Path, ...]:
            value = (outside,)
        elif "Path" in str(annotation) and "PathSpec" not in str(annotation):
            value = {"A": outside} if "dict[str, float" in str(annotation) else outside
        elif NamesFiles in metadata:
            value = {"A": ("width(5)", "file(/elsewhere/x)")}
        else:
            assert names[-1] not in ("query", "executor", "database", "path", "codebook") or (
                place == "path"
            )
            continue
        spec = _with(kind, names, value)
        (found,) = FOREIGN.foreign(spec, Path("/here"))
        assert found.startswith(place.split(".")[0])
        assert names[-1] in found
        n_found += 1
    assert n_found >= 4


def _with(kind: Any, names: list[str], value: Any) -> Any:
    """A table with one value, unchecked."""
    field = next(
        name for name, field in kind.model_fields.items() if (field.alias or name) == names[0]
    )
    if len(names) > 1:
        several, inner = [kind.model_fields[field].annotation], []
        listed = "tuple" in str(several[0])
        while several:
            one = several.pop()
            several += get_args(one)
            inner += [one] if isinstance(one, type) and issubclass(one, BaseModel) else []
        value = _with(inner[0], names[1:], value)
        value = (value,) if listed else value
    defaults = {
        name: one.get_default(call_default_factory=True)
        for name, one in kind.model_fields.items()
        if not one.is_required()
    }
    return kind.model_construct(**(defaults | {field: value}))


def test_a_cluster_is_not_rung(sent: Path, port: socket.socket, capsys: Any) -> None:
    asked = f'[sampling]\nexecutor = "dask:{address(port)}"'
    spec = written(sent, f'[data]\npath = "survey.csv"\n{asked}')
    assert main(["assess", str(spec), "--out", "out"]) == 1
    error = capsys.readouterr().err
    assert f"sampling.executor: dask:{address(port)}" in error
    assert "--trust-spec" in error
    assert not Path("out").exists()
    for command in (unikat.assess, unikat.protect):
        with pytest.raises(SpecError, match="only you may name"):
            command(spec, **({"target": "k >= 2"} if command is unikat.protect else {}))


def test_all_is_named_at_once_and_the_users_own_options_count(
    sent: Path, port: socket.socket
) -> None:
    spec = written(
        sent,
        f'[data]\npath = "../survey.csv"\nquery = "SELECT 1"\ncodebook = "/elsewhere/book.toml"\n'
        f'[sampling]\nexecutor = "ray:{address(port)}"\n[[margins]]\npath = "../m.csv"\n'
        '[registry]\npath = "r.csv"\nquery = "SELECT 2"\n',
    )
    with pytest.raises(SpecError) as caught:
        specify(AssessmentSpec, spec, {})
    for place in (
        "data.path", "data.query: SELECT 1", "data.codebook: /elsewhere/book.toml",
        "sampling.executor", "margins.0.path", "registry.query",
    ):  # fmt: skip
        assert place in str(caught.value)
    assert "registry.path" not in str(caught.value)
    given = {
        "executor": "processes", "query": "SELECT 3", "codebook": "../book.toml",
        "margins": "../m.csv",
    }  # fmt: skip
    with pytest.raises(SpecError) as caught:
        specify(AssessmentSpec, spec, given)
    lines = [line for line in str(caught.value).splitlines() if line.startswith("  ")]
    assert [line.split(":")[0].strip() for line in lines] == ["data.path", "registry.query"]
    # Who names a file has not named the query that somebody else wrote for it.
    with pytest.raises(SpecError, match=r"registry\.query: SELECT 2"):
        specify(AssessmentSpec, spec, given | {"registry": "mine.duckdb"})


def test_what_set_names_counts_as_the_users_own(sent: Path) -> None:
    spec = written(sent, '[data]\npath = "survey.csv"\n[registry]\npath = "../r.csv"\n')
    with pytest.raises(SpecError, match=r"registry\.path"):
        specify(AssessmentSpec, spec, {"set": {"data.path": "../survey.csv"}})
    found, _ = specify(
        AssessmentSpec, spec, {"set": ["data.path=survey.csv", "registry.path=../r.csv"]}
    )
    # From the working directory, as the paths of options.
    assert found.data.path == sent.parent / "survey.csv"
    assert found.registry is not None
    assert found.registry.path == sent.parent.parent / "r.csv"


@pytest.mark.slow
def test_one_option_allows_and_says_what_was_taken(sent: Path, capsys: Any) -> None:
    spec = written(sent, '[data]\npath = "../survey.csv"\n[sampling]\nmax_sweeps = 20\n')
    assert main(["assess", str(spec), "--out", "out", "--workers", "1"]) == 1
    capsys.readouterr()
    code = main(["assess", str(spec), "--out", "out", "--workers", "1", "--trust-spec"])
    assert code == 2
    error = capsys.readouterr().err
    assert error.count("as you allow") == 1
    assert error.count("/survey.csv, outside of its folder") == 1
    # It is no part of what was asked.
    assert "trust_spec =" not in Path("out/assessment.toml").read_text()
    again = ["assess", "out/assessment.toml", "--out", "again", "--workers", "1"]
    assert main(again) == 1
    assert main([*again, "--trust-spec"]) == 2


def test_a_database_and_its_query_are_confirmed_together(sent: Path) -> None:
    address, query = "postgresql://me@db.example/survey", "SELECT A, B FROM persons"
    spec = {"population_size": 100, "keys": ["A", "B"], "data": {"database": address}}
    for said in ({}, {"query": query}, {"table": "persons"}):
        asked = AssessmentSpec.parse(spec | {"data": spec["data"] | said})
        query_and_table = said.get("query"), said.get("table")
        confirmed = Trust(sources=frozenset({source_digest(address, *query_and_table)}))
        assert confirmed.foreign(asked, sent) == []
        for other in (
            (address, "SELECT A, B FROM others"), (address, None, "others"),
            (f"{address}2", *query_and_table),
        ):  # fmt: skip
            found = Trust(sources=frozenset({source_digest(*other)})).foreign(asked, sent)
            assert len(found) == 1 + ("query" in said)
        # Of a registry nothing was confirmed.
        both = asked.model_copy(update={"registry": RegistrySpec(query=query)})
        assert [one.partition(":")[0] for one in confirmed.foreign(both, sent)] == [
            "registry.query"
        ]


def test_links_and_patterns_lead_nowhere_else(sent: Path) -> None:
    (sent / "link.csv").symlink_to(sent.parent / "survey.csv")
    (sent / "inner.csv").symlink_to("survey.csv")
    (sent / "parts").mkdir()
    (sent / "parts" / "1.csv").write_text(SURVEY)
    (sent / "whole").mkdir()
    (sent / "whole" / "1.csv").write_text(SURVEY)
    (sent / "parts" / "2.csv").symlink_to(sent.parent / "survey.csv")
    for path, allowed in (
        ("survey.csv", True), ("inner.csv", True), ("whole", True), ("whole/*.csv", True),
        (str(sent / "survey.csv"), True), ("../sent/survey.csv", True), ("missing.csv", True),
        ("link.csv", False), ("parts", False), ("parts/*.csv", False),
        ("*/../../survey.csv", False),
        ("../survey.csv", False), (str(sent.parent / "survey.csv"), False), ("..", False),
    ):  # fmt: skip
        spec = written(sent, f'[data]\npath = "{path}"\n')
        if allowed:
            specify(AssessmentSpec, spec, {})
            continue
        with pytest.raises(SpecError, match=r"data\.path"):
            specify(AssessmentSpec, spec, {})
    # A specification that is itself reached by a link counts from where it lies.
    spec = written(sent, '[data]\npath = "survey.csv"\n')
    os.symlink(spec, sent.parent / "mine.toml")
    found, _ = specify(AssessmentSpec, sent.parent / "mine.toml", {})
    assert found.data.path == sent / "survey.csv"


def test_files_of_rules_plans_and_matrices(sent: Path, capsys: Any) -> None:
    (sent / "zeros.toml").write_text('tables = ["../no.csv"]\n')
    for command in ("assess", "zeros check"):
        line = [*command.split(), "survey.csv", "--keys", "A,B", "--zeros", "sent/zeros.toml"]
        assert main(line) == 1
        assert "tables.0:" in (error := capsys.readouterr().err)
        assert "no.csv, outside" in error
        assert main([*line, "--trust-spec"]) == 1
        assert "only you may name" not in capsys.readouterr().err
    (sent / "plan.toml").write_text(
        'schema = "unikat.plan/1"\nkeys = [{ name = "A", key = "A", rule = "width(2)" }]\n'
        '[data]\ncodebook = "../book.toml"\n'
    )
    Path("book.toml").write_text("[A]\n")
    apply = ["apply", "sent/plan.toml", "survey.csv", "--out", "p.csv"]
    assert main(apply) == 1
    assert "data.codebook:" in capsys.readouterr().err
    assert not Path("p.csv").exists()
    assert main([*apply, "--codebook", "book.toml"]) == 0
    assert main([*apply, "--trust-spec", "--overwrite"]) == 0
    capsys.readouterr()
    # A matrix would be read with the specification: not before it is allowed.
    spec = written(
        sent,
        '[data]\npath = "survey.csv"\n[pram]\nA = "../secret"\n'
        '[recodings]\nB = ["file(/x.csv)"]',
        "protect.toml",
    )  # fmt: skip
    spec.write_text(spec.read_text().replace("[data]", 'target = "k >= 2"\n[data]'))
    Path("secret").write_text("words that are no matrix")
    assert main(["protect", str(spec), "--out", "p"]) == 1
    error = capsys.readouterr().err
    assert "pram.A:" in error
    assert "recodings.B.0: /x.csv" in error
    assert "matrix" not in error


def test_a_foreign_folder_of_results_is_shown_and_not_followed(sent: Path) -> None:
    options = {"keys": "A,B", "population_size": 600, "model": "latent-class", "chains": 1}
    found = unikat.assess(
        "survey.csv", **options, max_sweeps=40, keep_states=True, out=sent / "run", workers=1
    )
    loaded = unikat.load(sent / "run")
    assert loaded.tau1 == found.tau1
    with pytest.raises(SpecError, match=r"data\.path: .*survey\.csv, outside"):
        loaded.what_if({"A": None})
    allowed = unikat.load(sent / "run", trust_spec=True)
    assert allowed.what_if({"A": None}).tau1.mean == found.what_if({"A": None}).tau1.mean


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("dask:tcp://me:geheim@host:1", "dask:tcp:…"),
        ("dask:tcp:/me:geheim@host:1", "dask:tcp:…"),
        ("dask:tcp://geheim%40host:geheim@host:1", "dask:tcp:…"),
        ("ray:me:geheim@host:1", "…"),
        ("dask:tcp://host:1", "dask:tcp://host:1"),
        ("dask:tcp://me@host:1", "…"),
        ("ray:host:6379", "ray:host:6379"),
    ],
)
def test_an_address_is_told_without_a_password(address: str, told: str) -> None:
    trust = Trust()
    spec = _with(AssessmentSpec, ["sampling", "executor"], address)
    assert trust.foreign(spec, Path("/here")) == [f"sampling.executor: {told}"]


@pytest.mark.parametrize("shape", NEARLY)
@pytest.mark.parametrize("place", ["executor", "query", "path"])
def test_no_password_of_a_file_is_told(shape: str, place: str) -> None:
    address = shape.format(SECRET)
    if place == "executor":
        spec = _with(AssessmentSpec, ["sampling", "executor"], f"dask:{address}")
    elif place == "query":
        spec = _with(AssessmentSpec, ["data"], FileSpec(query=f"SELECT '{address}'"))
    else:
        spec = _with(AssessmentSpec, ["data"], FileSpec(path=Path("/out", address)))
    told = Trust().foreign(spec, Path("/here"))
    assert told
    assert SECRET not in "".join(told)


def test_what_a_file_says_is_told_in_short() -> None:
    trust = Trust()
    spec = _with(AssessmentSpec, ["data"], FileSpec(query="x" * 500))
    (told,) = trust.foreign(spec, Path("/here"))
    assert len(told) < 100


def test_texts_that_look_like_files_are_texts() -> None:
    spec = AssessmentSpec.parse(
        {"keys": ["file(x)"], "data": {"codebook": {"A": {"labels": {"1": "file(../x)"}}}}}
    )
    assert list(of_user(spec)) == []
    assert spec.keys == ("file(x)",)
    assert hierarchy_file(spec.keys[0]) == "x"
