"""Runs of all kinds are read back from their folders, with their numbers and their page."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.cli.main import main
from unikat.files.json import json_text
from unikat.report.text.summary import explained
from unikat.spec.kinds import KINDS

QUICK: Any = {"keys": "age,sex,region", "workers": 1, "chains": 2, "max_sweeps": 40, "seed": 3}
N: Any = {"population_size": 3000}
MODEL: Any = {"model": "latent-class"}


def people(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(["01", "02", "11"], n),
        }
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The answers of a run of each kind, in folders of their names beside the data."""
    folder = tmp_path_factory.mktemp("runs")
    file = folder / "people.csv"
    people().to_csv(file, index=False)
    found = {
        "assess": unikat.assess(file, out=folder / "assess", **QUICK, **N, **MODEL),
        "compare": unikat.compare(
            file, models="latent-class", held_out=0.2, out=folder / "compare", **QUICK, **N
        ),
        "evaluate": unikat.evaluate(
            file, n="60", repeats=2, models="latent-class", out=folder / "evaluate", **QUICK
        ),
        "protect": unikat.protect(
            file, target="k >= 2", recodings={"age": ["width(10)", "width(20)"]}, suppress="k >= 3",
            out=folder / "protect", **QUICK, **N, **MODEL,
        ),
        "synthesize": unikat.synthesize(
            file, datasets=2, out=folder / "synthesize", **QUICK, **MODEL
        ),
        "verify": unikat.verify(
            file, protected=folder / "protect" / "protected.csv", out=folder / "verify",
            **QUICK, **N, **MODEL,
        ),
    }  # fmt: skip
    found["check"] = unikat.check(
        file, policy={"scenario": [{"name": "all", "target": "tau1 <= 5"}]}, out=folder / "check",
        **QUICK, **N, **MODEL,
    )  # fmt: skip
    found["attack"] = unikat.attack(
        file, synthetic=folder / "synthesize" / "synthetic_1.csv", keys="age,sex,region",
        targets="region", out=folder / "attack", **N,
    )  # fmt: skip
    return found


def numbers(found: Any) -> Any:
    """All of them, as its file has them."""
    return json.loads(json_text(asdict(found.summary)))


@pytest.mark.parametrize("name", KINDS)
def test_a_run_is_read_back(name: str, runs: dict[str, Any], tmp_path: Path) -> None:
    made, kind = runs[name], KINDS[name]
    found = unikat.load(made.folder)
    assert type(found) is type(made)
    assert numbers(found) == numbers(made)
    assert found.spec.model_dump(exclude={"data"}) == made.spec.model_dump(exclude={"data"})
    assert found.to_html() == made.to_html() == (made.folder / kind.report).read_text()
    for what in ("table", "frame", "frames", "plans", "plan", "codebook", "records"):
        if hasattr(made, what):
            old, new = getattr(made, what), getattr(found, what)
            assert str(new) == str(old), what
    found.save(tmp_path / "copy")
    again = {path.name for path in (tmp_path / "copy").iterdir()} - {".unikat"}
    there = {path.name for path in made.folder.iterdir()} - {".unikat"}
    assert again == there - set(kind.work)
    for path in again - {kind.spec, "manifest.json"}:
        old, new = (made.folder / path).read_bytes(), (tmp_path / "copy" / path).read_bytes()
        # A whole number may have become one with a point.
        assert (json.loads(new) == json.loads(old)) if path.endswith(".json") else new == old
    assert numbers(unikat.load(tmp_path / "copy")) == numbers(made)


@pytest.mark.parametrize("name", KINDS)
def test_its_page_is_rendered_again(
    name: str, runs: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    page = runs[name].folder / KINDS[name].report
    before = page.read_text()
    page.write_text("an old page")
    assert main(["report", str(page.parent)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert page.read_text() == before


@pytest.mark.parametrize("name", KINDS)
def test_what_was_read_back_is_said_again_in_any_language(name: str, runs: dict[str, Any]) -> None:
    found = unikat.load(runs[name].folder)
    assert numbers(replace(found, summary=explained(found.summary))) == numbers(found)
    page = found.to_html("es")
    assert '<html lang="es">' in page
    assert page.count("<tr>") == found.to_html().count("<tr>")
    with pytest.raises(unikat.SpecError, match="language is 'tlh'; it must be en, es, fr or de"):
        found.to_html("tlh")


def test_a_run_speaks_the_language_that_was_asked_for(
    runs: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    english, out = runs["assess"], tmp_path / "es"
    again = [str(english.folder / "assessment.toml"), "--trust-spec", "--out", str(out)]
    assert main(["assess", *again, "--language", "es", "--allow-unconverged"]) == 0
    assert "únicos muestrales" in capsys.readouterr().out
    found, page = unikat.load(out), (out / "report.html").read_text()
    assert found.spec.report.language == "es"
    assert found.to_html() == page
    assert page.partition("</h1>")[0] == english.to_html("es").partition("</h1>")[0]
    assert found.tau1 == english.tau1
    assert found.result.sentences["tau1"] != english.result.sentences["tau1"]
    assert main(["report", str(out), "--language", "en"]) == 0
    page = (out / "report.html").read_text()
    assert page == found.to_html("en")
    assert page.partition("</h1>")[0] == english.to_html().partition("</h1>")[0]
    capsys.readouterr()
    assert main(["assess", *again, "--language", "tlh", "--overwrite"]) == 1
    assert "--language is 'tlh'; it must be en, es, fr or de" in capsys.readouterr().err
    assert main(["report", str(out), "--language", "tlh"]) == 1
    assert "language is 'tlh'; it must be en, es, fr or de" in capsys.readouterr().err


@pytest.mark.parametrize("name", [name for name in KINDS if name != "assess"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda text: text[: len(text) // 2], "cannot be understood"),
        (lambda text: "[1, 2]", "cannot be understood"),
        (lambda text: text.replace("/1", "/9", 1), "this version of unikat reads 'unikat."),
    ],
    ids=["cut short", "a list", "another version"],
)
def test_damaged_numbers_are_one_message(
    name: str, change: Any, says: str, runs: dict[str, Any], tmp_path: Path
) -> None:
    kind = KINDS[name]
    for file in (kind.numbers, kind.spec):
        (tmp_path / file).write_bytes((runs[name].folder / file).read_bytes())
    numbers = tmp_path / kind.numbers
    numbers.write_text(change(numbers.read_text()))
    with pytest.raises(unikat.OutputError, match=says):
        unikat.load(tmp_path)


@pytest.mark.parametrize("name", ["protect", "synthesize"])
def test_a_folder_of_others_leads_nowhere(name: str, runs: dict[str, Any], tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("name,age\nzqx,1\n")
    kind, folder = KINDS[name], tmp_path / "sent"
    unikat.load(runs[name].folder).save(folder)
    (file,) = kind.records_in(folder)[:1]
    numbers = folder / kind.numbers
    before = numbers.read_text()
    numbers.write_text(before.replace(file, "../secret.csv"))
    with pytest.raises(unikat.OutputError, match=r"has no file '\.\./secret\.csv'"):
        _ = unikat.load(folder).frame if name == "protect" else unikat.load(folder).frames
    numbers.write_text(before)
    (folder / file).unlink()
    (folder / file).symlink_to(secret)
    with pytest.raises(unikat.OutputError, match="link"):
        unikat.load(folder)
