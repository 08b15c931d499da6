"""Warnings of lower rooms, on pages of other languages."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unikat
from report.estimates import estimate
from report.languages import FOREIGN, english, shown, words_of
from unikat.data.checks import table_warnings
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.calibrated import OutsideFacts
from unikat.report.text.language import DEFAULT, catalogue, speaking
from unikat.report.text.warned import warned
from unikat.studies.known_error import _unlike

SOURCES = Path(__file__).parents[3] / "src" / "unikat"
SENTENCES = {
    code: words
    for code, words in catalogue(DEFAULT).items()
    if code.startswith("warnings.sentence.")
}


def test_english_warnings_stay_as_they_are() -> None:
    assert warned("Sampling stopped, whatever.") == "Sampling stopped, whatever."
    with speaking("de"):
        assert warned("Sampling stopped, whatever.") == "Sampling stopped, whatever."


@pytest.mark.parametrize("spoken", FOREIGN)
def test_every_sentence_is_found_again_with_its_facts(spoken: str) -> None:
    for code, words in SENTENCES.items():
        names = re.findall(r"\{\{ (\w+) \}\}", words)
        warning = re.sub(r"\{\{ (\w+) \}\}", lambda one: f"<{one[1]}>", words)
        with speaking(spoken):
            said = warned(warning)
        assert said != warning, code
        for name in names:
            if name != "same":
                assert said.count(f"<{name}>") in (0, 1), code
        assert set(re.findall(r"<(\w+)>", said)) <= set(names), code


def test_numbers_are_those_of_the_language() -> None:
    codes = np.stack([np.arange(3000) % 1500, np.arange(3000) % 2], axis=1)
    keys = [Key.of_size("ID", 1500), Key.of_size("SEX", 2)]
    (warning,) = table_warnings(CellTable.from_codes(codes, keys, 100_000))
    assert "1,500 levels in 3,000 records" in warning
    with speaking("de"):
        assert "1.500 Ausprägungen bei insgesamt 3.000 (Datensätze)" in warned(warning)


def test_what_the_calibration_had_is_said_too() -> None:
    seen = [OutsideFacts(what="share_of_uniques", value=0.98, lowest=0.01, highest=0.9)]
    seen.append(OutsideFacts(what="keys", value=1, lowest=2, highest=12))
    (warning,) = _unlike(seen, estimate().table)
    with speaking("de"):
        said = warned(warning)
    assert "an Stichproben mit 1\u00a0% bis 90\u00a0% Stichprobenunikaten und 2 bis 12 Schl" in said
    assert "Diese Datei hat 98\u00a0% Stichprobenunikate und 1 Schlüssel:" in said


def test_a_sentence_that_is_no_more_written_so_is_told() -> None:
    """The catalogue has what the source says: each part between two facts."""
    texts = []
    for path in SOURCES.rglob("*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    source = "\n".join(texts)
    for code, words in SENTENCES.items():
        for part in re.split(r"\{\{ \w+ \}\}", words):
            for sentence in re.split(r"(?<=[.,:;(])\s?", part):
                if len(sentence) > 25:
                    assert sentence.strip(" .")[:40] in source, (code, sentence)


@pytest.mark.parametrize("spoken", FOREIGN)
def test_page_one_of_a_run_that_stopped_has_no_english(spoken: str) -> None:
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.integers(20, 70, 150), "sex": rng.integers(0, 2, 150)})
    found = unikat.assess(
        frame, keys="age,sex", population_size=3000, model="latent-class", chains=2,
        max_sweeps=40, workers=1, progress=False,
    )  # fmt: skip
    assert found.warnings
    assert found.warnings[0].startswith("Sampling stopped")
    page = found.to_html(spoken)
    page_one = page.partition('class="technical"')[0]
    assert 'lang="en"' not in page_one
    assert words_of(shown(page_one)) & english(spoken) == set()
