"""What the pages tell at once: of the keys together, and of how a file is read."""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from unikat.errors import SpecError
from unikat.spec.kinds import Kind
from unikat.web.foreseer import Foreseer, answered
from unikat.web.pages.file import ENCODINGS
from web_client import SURVEY, Client

PART = {"HX-Request": "true"}


def said(client: Client, **form: str) -> str:
    answer = client.post("/keys/counts", {"path": "survey.csv", **form}, headers=PART)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", "", html.unescape(answer.text))).strip()


def test_uniques_k_and_combinations_follow_the_ticks(client: Client, folder: Path) -> None:
    frame = pd.read_csv(folder / "survey.csv")
    assert "Tick keys" in said(client)
    for keys in (["age"], ["age", "sex"], ["age", "sex", "region"]):
        sizes = frame.groupby(keys).size()
        text = said(client, **{f"key:{key}": "on" for key in keys})
        n = int((sizes == 1).sum())
        assert f"{n} of 60 records are unique" in text
        assert f"{len(sizes)} combinations occur" in text
    bands = {"key:age": "on", "key:sex": "on", "grouping:age": "width(2)"}
    banded = frame.assign(age=frame.age // 2).groupby(["age", "sex"]).size()
    assert f"{len(banded)} combinations occur" in said(client, **bands)
    missing = said(client, **{"key:age": "on", "key:sex": "on", "missing_values": "20"})
    assert f"{int((frame.age == 20).sum())} records with a missing key" in missing
    assert "malformed" in said(client, **bands | {"grouping:age": "width("})
    # What is rare is not counted exactly.
    assert "the smallest has fewer than 3 records" in said(
        client, **{"key:age": "on", "key:sex": "on", "key:region": "on"}
    )
    whole = client.post("/keys/counts", {"path": "survey.csv", "key:age": "on"})
    assert "combinations occur" in whole.text
    assert "<html" in whole.text


def test_a_tick_codes_its_own_column_alone_and_another_file_is_read_again(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unikat.jobs import form_preview

    coded, code = [], form_preview.coded_key

    def counting(*asked: Any) -> Any:
        coded.append(asked[2])
        return code(*asked)

    monkeypatch.setattr(form_preview, "coded_key", counting)
    said(client, **{"key:age": "on", "key:sex": "on"})
    said(client, **{"key:age": "on", "key:sex": "on", "key:region": "on"})
    said(client, **{"key:age": "on", "key:region": "on"})
    client.ask("/levels?path=survey.csv&edit=age")
    assert coded == ["age", "sex", "region"]
    said(client, **{"key:age": "on", "grouping:age": "width(2)", "key:region": "on"})
    said(client, **{"key:age": "on", "key:region": "on", "missing:region": "1"})
    assert coded[3:] == ["age", "region"]
    text = (folder / "survey.csv").read_text()
    (folder / "survey.csv").write_text(text + text.splitlines()[1] + "\n")
    assert "of 61 records" in said(client, **{"key:age": "on", "key:sex": "on"})


def test_how_a_file_is_read_is_chosen_from_lists(client: Client, folder: Path) -> None:
    (folder / "word.csv").write_bytes("age;ort\n3,5;Köln\n4,5;Köln\n5,5;Köln\n".encode("cp1252"))
    (folder / "plain.csv").write_text("age;town\n3,5;A\n4,5;B\n")
    page = html.unescape(client.ask("/file?path=plain.csv").text)
    assert "found out: semicolon ;" in page
    assert "found out: UTF-8" in page
    form = {"path": "word.csv", "encoding": "cp1252", "rows": "1"}
    assert "Köln" in client.post("/file", form, headers=PART).text
    # What was chosen is no longer what was found out.
    assert 'value="cp1252" selected' in client.ask("/file?path=word.csv").text


@pytest.mark.parametrize("encoding", [name for name, _ in ENCODINGS])
def test_each_encoding_that_is_offered_can_be_read(
    client: Client, folder: Path, encoding: str
) -> None:
    (folder / "coded.csv").write_bytes(SURVEY.encode(encoding))
    answer = client.post("/file", {"path": "coded.csv", "encoding": encoding})
    assert answer.status_code == 200
    assert "60 records" in answer.text


def test_sheets_and_tables_are_listed(client: Client, folder: Path) -> None:
    import duckdb

    with duckdb.connect(folder / "two.duckdb") as made:
        made.execute("CREATE TABLE people AS SELECT range AS age FROM range(5)")
        made.execute("CREATE TABLE homes AS SELECT range AS id FROM range(3)")
    page = client.ask("/file?path=two.duckdb")
    assert page.status_code == 422
    assert '<option value="people">' in page.text
    chosen = client.post("/file", {"path": "two.duckdb", "table": "homes"})
    assert "3 records" in chosen.text
    assert '<option value="homes" selected>' in chosen.text
    assert 'id="sheet"' not in client.ask("/file?path=survey.csv").text


def test_a_run_is_foreseen_and_not_started(client: Client, folder: Path) -> None:
    keys = {"path": "survey.csv", "key:age": "on", "key:sex": "on", "population_size": "900"}
    client.post("/keys/keep", keys)
    form = {"path": "survey.csv", "kind": "assess", "out": "new", "action": "foresee",
            "model": "latent-class", "workers": "1"}  # fmt: skip
    part = client.post("/run", form, headers=PART)
    assert "60 records, 2 keys" in part.text
    assert "nothing was written" in part.text
    assert "<html" not in part.text
    assert not (folder / "new").exists()
    wrong = client.post("/run", form | {"chains": "-1"}, headers=PART)
    assert 'role="alert"' in wrong.text


def expected(client: Client, **form: str) -> Any:
    asked = {"path": "survey.csv", "kind": "assess", "out": "new", "action": "time",
             "model": "latent-class", "workers": "1"}  # fmt: skip
    return client.post("/run", asked | form, headers=PART)


def test_the_expected_time_follows_the_form_and_no_sweep_is_made(
    client: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from unikat.models.mixtures.latent_class import LatentClass

    def swept(*_: Any) -> None:
        raise AssertionError("a sweep was made")

    def here(_: Foreseer, kind: Kind, spec: Any, language: str) -> list[str]:
        # As the process does, which would not know of the test.
        values = spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        found = answered({"kind": kind.name, "spec": values, "language": language})
        if "problem" in found:
            raise SpecError(found["problem"])
        return list(found["lines"])

    monkeypatch.setattr(LatentClass, "step", swept)
    monkeypatch.setattr(Foreseer, "expected_time", here)
    assert "not known yet" in expected(client).text
    keys = dict.fromkeys(("key:age", "key:sex", "key:region"), "on")
    keys |= {"path": "survey.csv", "population_size": "900"}
    client.post("/keys/keep", keys)
    part = expected(client)
    assert "Expected time: " in part.text
    assert "counted" in part.text
    assert "<html" not in part.text
    # Ends of the range follow the limit of time.
    assert "more than" not in expected(client, max_seconds="1").text
    # What the run would refuse after it has read the file is said here.
    client.post("/keys/keep", keys | {"key:age": "", "weights": "sex"})
    assert "not known yet" in expected(client, chains="-1").text
    monkeypatch.setattr("unikat.web.workbench.MOST_VALUES", 10)
    client.post("/keys/keep", keys)
    assert "The file is large" in expected(client).text
    assert not (folder / "new").exists()


def test_the_expected_time_stands_beside_the_counts_and_comes_from_another_process(
    client: Client,
) -> None:
    def told(**form: str) -> str:
        return client.post("/keys/time", {"path": "survey.csv", **form}, headers=PART).text

    keys = dict.fromkeys(("key:age", "key:sex", "key:region"), "on")
    assert told() == ""
    assert "once the size of the population is given" in told(**keys)
    assert client.bench.foreseer._process is None
    first = told(**keys, population_size="900")
    assert "Expected time: " in first
    process = client.bench.foreseer._process
    assert process is not None
    # Another page of the same run asks for the same, which is known.
    process.kill()
    process.wait()
    assert told(**keys, population_size="900") == first
    # Who has ended is started again.
    assert "Expected time: " in told(**keys, population_size="901")
    assert client.bench.foreseer._process is not process
    # What the run would refuse once it has read the file.
    assert "not known yet. " in told(**keys, population_size="10")
    client.bench.foreseer.close()
    assert client.bench.foreseer._process is None
