"""Two pages for a committee, from a protection or a check, and the document of Word."""

from __future__ import annotations

import io
import shutil
import subprocess
from dataclasses import asdict, replace
from functools import cache
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from report.browser import assert_sound, layout
from report.languages import FOREIGN, english, shown, words_of
from report.pages.test_print import n_sheets, pages
from unikat.cli.main import main
from unikat.data.keys import Key
from unikat.errors import SpecError
from unikat.protection.recoding import Recoding, recode_key, unchanged
from unikat.report.facts.committee import bins, key_shares
from unikat.report.folders.committee import word_document
from unikat.report.pages.committee import CommitteePage, render
from unikat.report.text.committee import MOST_KEYS, MOST_LIMITS, MOST_WARNINGS, told
from unikat.report.text.language import speaking
from unikat.report.text.summary import explained
from unikat.risk.law import State
from unikat.risk.predictive import Law
from unikat.spec.terms import TermsSpec, forms_of

QUICK: dict[str, Any] = {
    "keys": "age,sex,region", "population_size": 5000, "model": "latent-class", "chains": 2,
    "max_sweeps": 60, "workers": 1, "progress": False,
}  # fmt: skip


def people(n: int = 200) -> pd.DataFrame:
    rng = np.random.default_rng(2)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "sex": rng.choice(["f", "m"], n),
            "region": rng.choice(list("abcde"), n),
            "number": np.arange(n),
        }
    )


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a protection."""
    folder = tmp_path_factory.mktemp("committee")
    people().to_csv(folder / "people.csv", index=False)
    unikat.protect(
        folder / "people.csv", recode={"age": "width(10)", "region": "left out"},
        suppress="k >= 3", scenarios=[{"name": "neighbour", "target": ["tau1 <= 5", "k >= 3"]}],
        out=folder / "run", **QUICK,
    )  # fmt: skip
    return folder / "run"


@cache
def checked() -> unikat.Check:
    policy = {"title": "Rules", "never": ["name"], "scenario": [
        {"name": "neighbour", "keys": ["sex", "region"], "target": ["tau1 <= 5", "k >= 3"]}
    ]}  # fmt: skip
    how = {name: value for name, value in QUICK.items() if name != "keys"}
    found = unikat.check(people(), policy=policy, keys="age", **how)
    assert isinstance(found, unikat.Check)
    return found


def crowded(folder: Path) -> Any:
    """The facts of a protection with more of everything than two pages have room for."""
    found = unikat.load(folder).summary
    long = "a name of a key that is longer than any person would write it, and then longer still "
    keys = tuple(replace(found.keys[0], name=f"{long * 3}{i}") for i in range(30))
    scenarios = tuple(replace(found.scenarios[0], name=f"{long * 2}{i}") for i in range(40))
    scenarios = tuple(replace(one, keys=tuple(key.name for key in keys)) for one in scenarios)
    warnings = tuple(f"{long}{i}" for i in range(50))
    return replace(found, keys=keys, scenarios=scenarios, warnings=warnings, data=long * 3)


def test_it_says_what_a_committee_decides_by(protected: Path) -> None:
    found = unikat.load(protected)
    page = unescape((protected / "committee.html").read_text())
    content = told(found.summary)
    assert page == unescape(found.committee())
    for text in (content.question, content.answer, *content.left, *content.assumptions):
        assert text
        assert text in page
    assert content.verdict is not None
    assert f'<div class="box {content.verdict.css}">' in page
    assert page.count("<svg") == 2 + 2 * len(content.keys) - 1, "region is left out"
    assert [row.name for row in content.keys] == ["age", "sex", "region"]
    assert "τ1" in page
    assert "R-hat" not in page
    # The technical part stays a page of its own.
    assert "report.html" in page
    with pytest.raises(SpecError, match="not of an assessment"):
        unikat.assess(people(), **QUICK).committee()


def test_a_check_has_its_pages_too(tmp_path: Path) -> None:
    found = checked()
    found.save(tmp_path / "run")
    page = unescape((tmp_path / "run" / "committee.html").read_text())
    assert "May a data frame be released under the policy “Rules”?" in page
    for row in told(found.summary).limits:
        assert all(cell in page for cell in row)


@pytest.mark.parametrize("spoken", FOREIGN)
def test_no_word_of_english_is_left(spoken: str, protected: Path, tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    for found in (unikat.load(protected), checked()):
        page = found.committee(spoken)
        assert f'<html lang="{spoken}">' in page
        found.write_word(tmp_path / "other.docx", spoken)
        made = docx.Document(str(tmp_path / "other.docx"))
        proofed = made.styles.element.xpath("//w:lang/@w:val")
        assert proofed == [made.core_properties.language]
        assert proofed[0].startswith(f"{spoken}-")
        cells = [cell.text for table in made.tables for row in table.rows for cell in row.cells]
        texts = (shown(page), *(one.text for one in made.paragraphs), *cells)
        assert words_of(" ".join(texts)) & english(spoken) == set()


def test_an_office_finds_its_own_words_and_their_source(protected: Path) -> None:
    docx = pytest.importorskip("docx")
    own = {form: f"Merkmal {form[::-1]}" for one in forms_of("de").values() for form in one}
    with speaking("de", TermsSpec(source="Handbuch 2026", words={"de": own})):
        facts = explained(unikat.load(protected).summary)
        made = docx.Document(io.BytesIO(word_document(facts)))
        cells = [cell.text for table in made.tables for row in table.rows for cell in row.cells]
        said = [render(facts), " ".join([*cells, *(one.text for one in made.paragraphs)])]
    for text in said:
        assert "Handbuch 2026" in text
        assert "Merkmal" in text
        assert not any(f" {form}" in text.replace(f"Merkmal {form}", "") for form in own)


@pytest.mark.slow
def test_it_prints_on_two_pages_whatever_it_holds(protected: Path, tmp_path: Path) -> None:
    full = crowded(protected)
    content = told(full)
    assert len(content.keys) == MOST_KEYS
    assert len(content.limits) == MOST_LIMITS
    assert len(content.left) == MOST_WARNINGS + 2
    for facts in (unikat.load(protected).summary, full):
        assert pages(render(facts), tmp_path) == 2
    for spoken in FOREIGN:
        with speaking(spoken):
            said = replace(explained(full), warnings=full.warnings)
            assert pages(render(said), tmp_path) == 2, spoken
    assert pages(render(checked().summary), tmp_path) == 2


@pytest.mark.slow
def test_nothing_overlaps_or_is_cut(protected: Path, tmp_path: Path) -> None:
    # τ1, and each key before and after, but the one that is left out.
    for found, n in ((unikat.load(protected).summary, 1 + 2 * 3 - 1), (checked().summary, 1)):
        assert_sound(layout({"committee": render(found)}, tmp_path), n)


def test_the_document_of_word_has_the_same_sentences(protected: Path) -> None:
    docx = pytest.importorskip("docx")
    assert main(["report", str(protected), "--word"]) == 0
    made = docx.Document(str(protected / "committee.docx"))
    content = told(unikat.load(protected).summary)
    said = [one.text for one in made.paragraphs]
    said += [cell.text for table in made.tables for row in table.rows for cell in row.cells]
    texts = [content.question, content.answer, *content.left, *content.assumptions, *content.done]
    for text in (*texts, *(cell for row in (*content.rows, *content.limits) for cell in row)):
        assert text in said
    unikat.load(protected).save(protected.with_name("copy"))
    assert (protected.with_name("copy") / "committee.docx").exists()
    hostile = replace(unikat.load(protected).summary, data="a\x00b\x1b[2J")
    assert docx.Document(io.BytesIO(word_document(hostile)))


@pytest.mark.parametrize("spoken", ["en", *FOREIGN])
def test_tables_of_word_are_as_wide_as_the_text_and_one_page_is_turned(
    protected: Path, spoken: str
) -> None:
    docx = pytest.importorskip("docx")
    with speaking(spoken):
        for facts in (crowded(protected), checked().summary):
            made = docx.Document(io.BytesIO(word_document(facts)))
            page = made.sections[0]
            for table in made.tables:
                width = sum(one.width for one in table.columns)
                assert width == pytest.approx(
                    page.page_width - page.left_margin - page.right_margin, abs=9000
                )
                assert [one.width for one in table.rows[-1].cells] == [
                    one.width for one in table.columns
                ]
            assert len(made.element.xpath("//w:pageBreakBefore")) == 1


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice Writer is not installed")
def test_the_document_of_word_has_two_pages_in_every_language(
    protected: Path, tmp_path: Path
) -> None:
    pytest.importorskip("docx")
    full = crowded(protected)
    for spoken in ("en", *FOREIGN):
        with speaking(spoken):
            said = replace(explained(full), warnings=full.warnings)
            found = {"full": said, "protected": unikat.load(protected).summary}
            for name, facts in (found | {"checked": checked().summary}).items():
                (tmp_path / f"{name}-{spoken}.docx").write_bytes(word_document(facts))
    to_pdf = ["soffice", "--headless", f"-env:UserInstallation={(tmp_path / 'user').as_uri()}"]
    to_pdf += ["--convert-to", "pdf", "--outdir", str(tmp_path)]
    subprocess.run([*to_pdf, *map(str, tmp_path.glob("*.docx"))], check=True, capture_output=True)
    printed = {one.stem: n_sheets(one) for one in tmp_path.glob("*.pdf")}
    assert len(printed) == 12
    assert set(printed.values()) == {2}, printed


def test_without_python_docx_a_message_says_how_to_get_it(
    protected: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "docx", None)
    with pytest.raises(SpecError, match=r"unikat\[word\]"):
        unikat.load(protected).write_word(protected / "other.docx")
    assert not (protected / "other.docx").exists()


def test_shares_of_levels_before_and_after() -> None:
    ages = Key(name="age", levels=(20, 21, 30), labels=("20", "21", "30"))
    sex = Key.of_size("sex", 2)
    counts = np.array([1, 1, 1])
    recoding = Recoding(keys=(recode_key(ages, counts, "width(10)"), unchanged(sex).left_out()))
    codes = np.array([[0, 0], [1, 1], [2, 1], [-1, 0]], np.int32)
    released = np.array([[0], [0], [-1], [-1]], np.int32)
    age, gone = key_shares(recoding, codes, released)
    assert age.before == (0.3333, 0.3333, 0.3333)
    assert age.after == (("20-29", 1.0), ("30-39", 0.0))
    assert age.missing == (0.25, 0.5)
    assert (gone.after, gone.missing) == ((), (0.0, 1.0))


def test_the_picture_of_a_law_is_that_of_its_draws() -> None:
    rng = np.random.default_rng(1)
    r1 = [rng.random(30) * scale for scale in (0.2, 0.6, 0.9)]
    law = Law([State(one, np.array([one.sum(), 1.0, 0.1])) for one in r1])
    found = law.bins()
    assert sum(share for *_, share in found) == pytest.approx(1.0, abs=2e-3)
    drawn = np.array([(rng.random(30) < r1[i % 3]).sum() for i in range(30_000)], float)
    for low, high, share in found:
        near = ((drawn > low) & (drawn < high)).mean()
        assert near == pytest.approx(share, abs=5.0 * np.sqrt(0.25 / len(drawn)))
    assert sum(share for *_, share in bins(drawn)) == pytest.approx(1.0, abs=2e-3)
    assert bins(np.array([np.nan])) == ()


def test_the_context_is_that_of_the_page() -> None:
    assert {"told", "picture", "bars"} <= set(CommitteePage.__dataclass_fields__)
    assert "tau1_bins" in asdict(checked().summary)["risk"]
