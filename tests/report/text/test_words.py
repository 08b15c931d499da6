"""The catalogue of words: every sentence is one that can be said, in every language."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from report.estimates import estimate, provenance, spec, summarise, table
from report.languages import FOREIGN, english, shown, words_of
from unikat import UnikatError
from unikat.data.units import HOUSEHOLD, RECORD
from unikat.report.facts.result import Result
from unikat.report.pages.assessment import render
from unikat.report.pages.figures import drawings
from unikat.report.text import language, sentences, words
from unikat.report.text.language import DEFAULT, LANGUAGES, catalogue, speaking
from unikat.report.text.overview import overview
from unikat.report.text.summary import explained
from unikat.report.text.words import counted, form, placeholders, say

SNAPSHOT = Path(__file__).parents[2] / "reference" / "values" / "words.json"
SOURCES = Path(__file__).parents[3] / "src" / "unikat"


def templates(spoken: str) -> Iterator[tuple[str, str]]:
    for code, wording in catalogue(spoken).items():
        if isinstance(wording, str):
            yield code, wording


def results() -> Iterator[Result]:
    for made in (
        estimate(),
        estimate(converged=False),
        estimate(table(population_size=3000), known=True),
        estimate(table(missing=True)),
    ):
        yield summarise(made, spec(), provenance())


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_every_sentence_is_a_template(spoken: str) -> None:
    for code, wording in templates(spoken):
        placeholders(code, spoken)
        for noun in re.findall(r"\|of\('([^']*)'\)", wording):
            assert f"nouns.{noun}" in catalogue(spoken), code


@pytest.mark.parametrize("spoken", FOREIGN)
def test_a_language_says_what_english_says_by_the_same_facts(spoken: str) -> None:
    own, english = catalogue(spoken), catalogue(DEFAULT)
    for code, wording in own.items():
        topic, _, _ = code.partition(".")
        if topic == "units":
            continue
        assert code in english, code
        if isinstance(wording, list):
            assert len(wording) == len(english[code]), code
        else:
            assert wording.count("{}") == english[code].count("{}"), code
            assert placeholders(code, spoken) <= placeholders(code, DEFAULT) | {"unit"}, code
            for name in placeholders(code, DEFAULT) - placeholders(code, spoken) - {"unit"}:
                # A language may need no form where English does.
                assert not re.findall(rf"\{{\{{ {name}[\w.]*(?![\w.]|\|form\()", english[code]), (
                    code
                )


@pytest.mark.parametrize("spoken", FOREIGN)
def test_a_language_is_complete(spoken: str) -> None:
    assert set(catalogue(DEFAULT)) - set(catalogue(spoken)) == set()


@pytest.mark.parametrize("spoken", FOREIGN)
def test_page_one_has_no_word_of_english(spoken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def strictly(code: str, other: str | None = None) -> object:
        return catalogue(other or language.current())[code]

    monkeypatch.setattr(words, "wording", strictly)
    words._template_of.cache_clear()
    draws = estimate().draws
    assert draws is not None
    for result in results():
        with speaking(spoken):
            page = overview(result)
            assert sentences.headline(result)
            sentences.condition(result)
            sentences.published(result)
            assert sentences.state(result)
            assert page.assessed
            assert drawings(result, dict(draws.scalars))
            for code, _ in templates(DEFAULT):
                topic = code.partition(".")[0]
                if topic == "overview" and not placeholders(code, spoken):
                    say(code)
            page_one = render(explained(result), dict(draws.scalars)).partition("technical")[0]
            assert words_of(shown(page_one)) & english(spoken) == set()


def test_the_technical_part_of_a_foreign_report_is_there() -> None:
    result = next(results())
    with speaking("es"):
        page = render(explained(result), {})
    assert '<html lang="es">' in page
    assert "únicos muestrales" in page
    assert page.count("<details") == render(result, {}).count("<details")


def test_a_language_without_words_is_refused() -> None:
    with (
        pytest.raises(UnikatError, match="language is 'tlh'; it must be en, es, fr or de"),
        speaking("tlh"),
    ):
        pass


def test_the_language_of_the_moment_ends_with_the_block() -> None:
    with speaking("es"):
        assert counted(1200.0, "household") == "1.200 hogares"
    assert counted(1200.0, "household") == "1,200 households"


def test_numbers_choose_the_form_of_a_word_as_they_are_written() -> None:
    assert form(0.97, "is", "are") == "are"
    assert form(1.0, "is", "are") == "is"
    assert form(0, "is", "are") == "are"


def test_households_have_sentences_of_their_own_and_are_not_rewritten() -> None:
    facts = {"covers": "", "trials": "", "terms": ""}
    said = say("overview.meaning.found", unit=HOUSEHOLD, **facts)
    assert "find it in the file" in said
    assert "record" not in say("limits.impossible.text", unit=HOUSEHOLD)
    assert "combinations" in say("limits.impossible.text", unit=RECORD)


def test_every_code_is_said_somewhere() -> None:
    source = "".join(
        path.read_text(encoding="utf-8")
        for pattern in ("*.py", "*.j2")
        for path in SOURCES.rglob(pattern)
    )
    begins = tuple(set(re.findall(r"[\"'](\w+\.[\w.]*)(?:\{|\" ~)", source)))
    named = set(re.findall(r"[\"'](\w+\.[^\"']+)[\"']", source))
    for code in catalogue(DEFAULT):
        code = code.partition("@")[0]
        assert code in named or code.startswith(
            (*begins, "nouns.", "units.", "numbers.", "warnings.")
        ), code


def snapshot() -> dict[str, str]:
    found = {}
    for i, result in enumerate(results()):
        for spoken in LANGUAGES:
            with speaking(spoken):
                said = explained(result).sentences
            found |= {f"{spoken} {i} {path}": text for path, text in said.items()}
    return found


def test_the_sentences_of_made_up_results_are_those_that_were_read() -> None:
    """After a change of words: `python tests/report/text/test_words.py`, and read what changed."""
    assert snapshot() == json.loads(SNAPSHOT.read_text(encoding="utf-8"))


if __name__ == "__main__":
    text = json.dumps(snapshot(), indent=1, ensure_ascii=False, sort_keys=True)
    SNAPSHOT.write_text(text + "\n", encoding="utf-8")
