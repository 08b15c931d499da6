"""Every page has one context: a dataclass whose fields are the names that its template uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields
from html import unescape

import pytest
from jinja2 import meta, nodes

from report.estimates import estimate, provenance, spec, summarise, table
from unikat.report.pages.assessment import ReportPage, render
from unikat.report.pages.attack import AttackPage
from unikat.report.pages.check import CheckPage
from unikat.report.pages.committee import CommitteePage
from unikat.report.pages.comparison import ComparisonPage
from unikat.report.pages.evaluation import EvaluationPage
from unikat.report.pages.figures import drawings
from unikat.report.pages.protection import ProtectionPage
from unikat.report.pages.synthesis import SynthesisPage
from unikat.report.pages.template import environment
from unikat.report.pages.verification import VerificationPage


def parts(name: str) -> Iterator[str]:
    """Yield the sources of a template and of all that it extends, includes or imports."""
    made = environment()
    assert made.loader is not None
    source, _, _ = made.loader.get_source(made, name)
    yield source
    for other in meta.find_referenced_templates(made.parse(source)):
        assert other is not None
        yield from parts(other)


def used(name: str) -> set[str]:
    """Names that a template takes from its context."""
    made = environment()
    found: set[str] = set()
    for source in parts(name):
        tree = made.parse(source)
        macros = {name for node in tree.find_all(nodes.FromImport) for name in node.names}
        found |= meta.find_undeclared_variables(tree) - macros
    return found - set(made.globals) - {"caller"}


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("report.html.j2", ReportPage),
        ("attack.html.j2", AttackPage),
        ("check.html.j2", CheckPage),
        ("committee.html.j2", CommitteePage),
        ("comparison.html.j2", ComparisonPage),
        ("evaluation.html.j2", EvaluationPage),
        ("protection.html.j2", ProtectionPage),
        ("synthesis.html.j2", SynthesisPage),
        ("verification.html.j2", VerificationPage),
    ],
)
def test_the_context_is_what_the_template_uses(name: str, page: type) -> None:
    known = {field.name for field in fields(page)}
    assert used(name) - known == set(), "names that are no field"
    assert known - used(name) == set(), "fields that are not used"


def test_every_section_shows_its_figures() -> None:
    made = environment()
    assert made.loader is not None
    source, _, _ = made.loader.get_source(made, "report.html.j2")
    sections = set(re.findall(r'section\(sections, "(\w+)"\)', source))
    placed = re.findall(r'shown\(figures, "(\w+)"\)', source)
    assert len(placed) == len(set(placed))
    assert sections - set(placed) == {"limits", "repeat"}


def test_every_figure_is_shown() -> None:
    for found in (estimate(), estimate(converged=False), estimate(table(missing=True))):
        result = summarise(found, spec(), provenance())
        assert found.draws is not None
        traces = dict(found.draws.scalars)
        page, drawn = render(result, traces), drawings(result, traces)
        assert "records" in drawn
        for figure in drawn.values():
            assert figure.wide in page
            assert bool(figure.section) == bool(figure.caption)
            assert figure.caption in unescape(page)


def test_a_name_that_is_no_field_would_be_noticed() -> None:
    assert "result" in used("report.html.j2")
    assert "resultat" not in used("report.html.j2")
