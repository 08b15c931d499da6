"""An office's own words stand in the place of ours, in every sentence and in every form."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from jinja2 import meta

from unikat.cli.main import main
from unikat.report.text import words
from unikat.report.text.language import LANGUAGES, catalogue, speaking, wording
from unikat.spec.terms import TermsSpec, forms_of
from unikat.spec.values import Language

_TAG = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def texts(found: Any) -> str:
    """The text of a sentence or of several, without what is no text."""
    return " ".join(_TAG.sub(" ", one) for one in ([found] if isinstance(found, str) else found))


def made_up(language: Language) -> TermsSpec:
    own = [form for forms in forms_of(language).values() for form in forms]
    return TermsSpec(source="us", words={language: {one: f"qx{i}" for i, one in enumerate(own)}})


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_form_of_a_term_is_listed_and_occurs(language: Language) -> None:
    said = " ".join(texts(found) for found in catalogue(language).values())
    assert set(forms_of(language)) == set(forms_of("en"))
    for term, forms in forms_of(language).items():
        # What begins as a form, word by word, is one: a plural or a case that is not listed.
        begun = r"\w*\s+".join(map(re.escape, forms[0].removesuffix("s").split())) + r"\w*"
        found = {one.lower() for one in re.findall(rf"\b{begun}", said, re.IGNORECASE)}
        assert found == {form.lower() for form in forms}, term


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_word_of_ours_is_left_and_every_fact_stays(language: Language) -> None:
    terms = made_up(language)
    ours = "|".join(map(re.escape, terms.words[language]))
    n_changed = 0
    for code, before in catalogue(language).items():
        with speaking(language, terms):
            after = wording(code)
        assert not re.search(rf"\b({ours})\b", texts(after), re.IGNORECASE), code
        n_changed += after != before
        if isinstance(after, str):
            parse = words._environment().parse
            facts = [meta.find_undeclared_variables(parse(one)) for one in (before, after)]
            assert facts[0] == facts[1], code
    assert n_changed > 60
    assert wording("overview.meaning.unique", language) in catalogue(language).values()


def test_a_sentence_begins_with_a_capital_and_other_languages_stay() -> None:
    terms = TermsSpec(source="INE", words={"es": {"intruso": "atacante"}})
    with speaking("es", terms):
        said = [wording(code) for code in catalogue("es")]
        assert any("atacante" in one for one in map(texts, said))
        assert not any(re.search(r"\. atacante", one) for one in map(texts, said))
    for language in ("es", "fr"):
        with speaking(language, terms if language == "fr" else None):
            assert not any("atacante" in texts(wording(code)) for code in catalogue(language))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('source = "x"\n[words.es]\nintrusa = "atacante"', "There are: emparejamientos correctos"),
        ('source = "x"\n[words.de]\nAngreifer = "Täter"', "Angreifers is missing in de"),
        ('source = "x"\n[words.es]\nintruso = "{{ 7 * 7 }}"', "a sign of markup"),
        ('[words.es]\nintruso = "atacante"', "source"),
        ('source = "x"\n[words.it]\nintruso = "atacante"', "it"),
        ("", "source"),
    ],
)
def test_a_wrong_file_is_one_message_that_names_it(
    content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    terms, data = tmp_path / "terms.toml", tmp_path / "people.csv"
    terms.write_text(content)
    data.write_text("a,b\n1,2\n1,3\n")
    given = ["assess", str(data), "--keys", "a,b", "--population-size", "9", "--terms", str(terms)]
    assert main(given) == 1
    told = capsys.readouterr().err
    assert str(terms) in told
    assert said in told
    assert "Traceback" not in told
