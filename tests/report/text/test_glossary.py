"""The glossary has one source, and every term that is named has an entry."""

from __future__ import annotations

from pathlib import Path

from unikat.report.text.glossary import anchor_of, glossary
from unikat.report.text.language import DEFAULT, catalogue
from unikat.web.pages.template import environment

PAGE = Path(__file__).parents[3] / "docs/reference/glossary.md"


def test_the_page_of_the_documentation_is_the_file_of_the_package() -> None:
    assert "{include} ../../src/unikat/report/words/en/glossary.md" in PAGE.read_text()
    assert len(glossary()) > 40


def test_terms_have_sentences_and_lead_to_terms() -> None:
    terms = glossary()
    assert [name for name, one in terms.items() if not one.text.endswith(".")] == []
    assert {name for one in terms.values() for name in one.see} <= set(terms)
    assert len({anchor_of(name) for name in terms}) == len(terms)
    assert not any(sign in one.text for one in terms.values() for sign in "{}`*")


def test_terms_of_the_workbench_are_in_the_glossary() -> None:
    made = environment()
    assert made.loader is not None
    import re

    sources = [made.loader.get_source(made, name)[0] for name in made.list_templates()]
    sources += [text for text in catalogue(DEFAULT).values() if isinstance(text, str)]
    used = {name for text in sources for name in re.findall(r"term\(['\"]([^'\"]+)", text)}
    assert used
    assert used <= set(glossary())
