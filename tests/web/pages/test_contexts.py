"""Every page of the workbench has one context, whose fields are the names its template uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

import pytest
from jinja2 import Environment, meta, nodes

from unikat.web.pages.certificate import CertificatePage
from unikat.web.pages.check_page import (
    Checked,
    Counts,
    Expected,
    Grouped,
    Missing,
    Population,
    Suggested,
)
from unikat.web.pages.columns import ColumnsPage, Roles
from unikat.web.pages.connect import ConnectPage
from unikat.web.pages.file import FilePage
from unikat.web.pages.files import FilesPage
from unikat.web.pages.glossary import GlossaryPage
from unikat.web.pages.key_levels import LevelCounts
from unikat.web.pages.keys import KeysPage
from unikat.web.pages.level_editor import Editor
from unikat.web.pages.levels import LevelsPage
from unikat.web.pages.plan_parts import OtherColumnsPart, PlanPictures
from unikat.web.pages.plans import Beside, Frontier
from unikat.web.pages.policy import PolicyPage, Preview
from unikat.web.pages.problem import ProblemPage
from unikat.web.pages.records import NeighboursPage, Records, RecordsPage
from unikat.web.pages.run import Progress, ProgressPage, ResultPage
from unikat.web.pages.runs import AskedPage, BesidePage, RunsPage
from unikat.web.pages.start import Command, Foreseen, StartPage
from unikat.web.pages.states import StatesPage
from unikat.web.pages.template import environment
from unikat.web.pages.what_if import Numbers, Waiting, WhatIfPage

PAGES = [
    ("asked.html.j2", AskedPage),
    ("beside.html.j2", BesidePage),
    ("checked.html.j2", Checked),
    ("certificate.html.j2", CertificatePage),
    ("columns.html.j2", ColumnsPage),
    ("connect.html.j2", ConnectPage),
    ("command.html.j2", Command),
    ("counts.html.j2", Counts),
    ("expected.html.j2", Expected),
    ("file.html.j2", FilePage),
    ("files.html.j2", FilesPage),
    ("foreseen.html.j2", Foreseen),
    ("glossary.html.j2", GlossaryPage),
    ("grouped.html.j2", Grouped),
    ("keys.html.j2", KeysPage),
    ("level-counts.html.j2", LevelCounts),
    ("levels.html.j2", Editor),
    ("listed.html.j2", Records),
    ("missing.html.j2", Missing),
    ("policy.html.j2", PolicyPage),
    ("policy-text.html.j2", Preview),
    ("population.html.j2", Population),
    ("problem.html.j2", ProblemPage),
    ("progress.html.j2", Progress),
    ("records.html.j2", RecordsPage),
    ("neighbours.html.j2", NeighboursPage),
    ("result.html.j2", ResultPage),
    ("roles.html.j2", Roles),
    ("running.html.j2", ProgressPage),
    ("runs.html.j2", RunsPage),
    ("start.html.j2", StartPage),
    ("states.html.j2", StatesPage),
    ("suggested.html.j2", Suggested),
    ("what-if.html.j2", WhatIfPage),
    ("what-if-candidates.html.j2", Beside),
    ("what-if-columns.html.j2", OtherColumnsPart),
    ("what-if-pictures.html.j2", PlanPictures),
    ("what-if-frontier.html.j2", Frontier),
    ("what-if-levels.html.j2", LevelsPage),
    ("what-if-numbers.html.j2", Numbers),
    ("what-if-waiting.html.j2", Waiting),
]


def parts(made: Environment, name: str) -> Iterator[str]:
    """Yield the sources of a template and of all that it extends, includes or imports."""
    assert made.loader is not None
    source, _, _ = made.loader.get_source(made, name)
    yield source
    for other in meta.find_referenced_templates(made.parse(source)):
        assert other is not None
        yield from parts(made, other)


def used(name: str) -> set[str]:
    """Names that a template takes from its context."""
    made = environment()
    found: set[str] = set()
    for source in parts(made, name):
        tree = made.parse(source)
        macros = {name for node in tree.find_all(nodes.FromImport) for name in node.names}
        found |= meta.find_undeclared_variables(tree) - macros
    return found - set(made.globals)


@pytest.mark.parametrize(("name", "page"), PAGES)
def test_the_context_is_what_the_template_uses(name: str, page: type) -> None:
    known = {field.name for field in fields(page)}
    assert used(name) - known == set(), "names that are no field"
    assert known - used(name) == set(), "fields that are not used"


def test_every_template_of_a_page_is_here() -> None:
    made = environment()
    ours = [name for name in made.list_templates() if "layout.html.j2" in _source(made, name)]
    assert {name for name in ours if name != "layout.html.j2"} <= {name for name, _ in PAGES}


def _source(made: Environment, name: str) -> str:
    assert made.loader is not None
    return made.loader.get_source(made, name)[0]


def test_a_name_that_is_no_field_would_be_noticed() -> None:
    assert "profile" in used("file.html.j2")
    assert "profil" not in used("file.html.j2")
