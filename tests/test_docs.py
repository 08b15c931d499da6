"""The documentation: its examples run, and it names what a run writes and every public name."""

from __future__ import annotations

import dataclasses
import re
import tomllib
import typing
from pathlib import Path

import executed_pages
import nbformat
import pytest
from nbclient.exceptions import CellExecutionError

import doc_pages
import unikat
from report.folders.test_comparison import compared
from unikat import datasets
from unikat.data import formats
from unikat.language.rules import parse
from unikat.models.auto import CANDIDATES, Auto
from unikat.models.base import Uncertainty
from unikat.models.calibrated import (
    CandidateFacts,
    ErrorFacts,
    OutsideFacts,
    RefusedFacts,
    SelectionFacts,
    TauFacts,
)
from unikat.report.facts import attack as attack_summary
from unikat.report.facts import certificate
from unikat.report.facts import check as check_summary
from unikat.report.facts import comparison as comparison_summary
from unikat.report.facts import evaluation as evaluation_summary
from unikat.report.facts import protection as protection_summary
from unikat.report.facts import result as summary
from unikat.report.facts import synthesis as synthesis_summary
from unikat.report.facts import verification as verification_summary
from unikat.report.folders import comparison
from unikat.report.folders.evaluation import _schema
from unikat.report.text import selection as choice
from unikat.report.text.glossary import glossary
from unikat.spec.kinds import KINDS
from unikat.spec.rules import ZerosSpec
from unikat.studies.calibrate import (
    COMPOSITION_EXPERIENCE,
    EXPERIENCE,
    HOUSEHOLD_EXPERIENCE,
    SAMPLED_HOUSEHOLDS,
)

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(
    path
    for path in DOCS.rglob("*.md")
    if not {"_build", "design"} & set(path.relative_to(DOCS).parts)
    and path.name not in {"adding-a-model.md", "changelog.md"}
)
"""Pages for users. The guide for a new model is tested with its skeleton; design notes and the
changelog show fragments."""
EXECUTED = [
    path
    for path in PAGES
    if path.parent.name != "notebooks"
    and any(one.language in {"python", "sh"} for one in doc_pages.examples(path))
]
"""Pages with examples. Notebooks are executed by `make docs`, which a cell that fails ends."""
KINDS_OF_PAGES = (
    "tutorial", "how-to", "case-studies", "notebooks", "gallery", "explanation", "reference",
    "readers",
)  # fmt: skip


def page(name: str) -> str:
    """Return the text of a page."""
    return (DOCS / name).read_text(encoding="utf-8")


RESULTS = page("results.md")
COMPARE = page("reference/compare.md")
EVALUATE = page("reference/evaluate.md")
SYNTHESIZE = page("reference/synthesize.md")
ATTACK = page("reference/attack.md")
PROTECT = page("reference/protect.md")
CHECK = page("reference/check.md")
ACCURACY = page("accuracy.md")
MODELS = page("models.md")
FILES = page("reference/data.md")
ZEROS = page("reference/structural-zeros.md")


@pytest.fixture(scope="module")
def supplies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the pages' commands read."""
    folder = tmp_path_factory.mktemp("supplies")
    datasets.write_examples(folder)
    return folder


@pytest.mark.slow
@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("path", EXECUTED, ids=lambda path: str(path.relative_to(DOCS)))
def test_the_examples_of_a_page_run(path, supplies, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    doc_pages.run_page(path, tmp_path, supplies)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```python\n1 / 0\n```\n", "division"),
        ("```sh\nunikat assess none.csv --keys a,b --population-size 9\n```\n", "ended with 1"),
        ("```sh\nmake test\n```\n", "only unikat"),
        ("<!-- not run: slow -->\n```sh\nmake test\n```\n", "why is it not run"),
        ("<!-- skip: it is too slow -->\n```sh\nmake test\n```\n", "skip"),
        ("```python\nprint(1)\n```\n\n<!-- output -->\n```text\n2\n```\n", "it printed"),
        (
            "```python\nprint('τ1', 90)\n```\n\n<!-- output: about -->\n```text\nτ1 9\n```\n",
            "it printed 90",
        ),
    ],
)
def test_a_planted_mistake_of_a_page_is_found(text, message, supplies, tmp_path, monkeypatch):
    (tmp_path / "page.md").write_text(text)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((AssertionError, ZeroDivisionError), match=message):
        doc_pages.run_page(tmp_path / "page.md", tmp_path, supplies)


@pytest.mark.usefixtures("no_network")
def test_a_notebook_shows_what_its_code_answers(tmp_path):
    """Pages under `notebooks/` are executed when they are built, by these functions."""
    text = (
        "# A {term}`title <a>`\n\nSee [that](other.md).\n\n```python\nprint(6 * 7)\n```\n\n"
        "```python\nimport pandas as pd\n\npd.DataFrame({'x': [17]})\n```\n\nEnd.\n"
    )
    notebook = executed_pages.notebook_of(text)
    assert notebook.cells[0].source == "# A title\n\nSee that."
    assert [cell.cell_type for cell in notebook.cells] == ["markdown", "code", "code", "markdown"]
    executed_pages.execute(notebook)
    nbformat.validate(notebook)
    shown = executed_pages.with_answers(text, notebook)
    assert "42" in shown
    assert "<td>17</td>" in shown
    # Nothing but answers is added.
    assert re.sub(r"\n(`{4}).*?\n\1\n", "", shown, flags=re.DOTALL) == text


def test_a_notebook_that_fails_ends_the_build():
    with pytest.raises(CellExecutionError, match="division"):
        executed_pages.execute(executed_pages.notebook_of("```python\n1 / 0\n```\n"))


def test_every_page_is_in_the_navigation_by_its_kind():
    front = page("index.md")
    for kind in KINDS_OF_PAGES:
        assert f"\n{kind}/index\n" in front
        listed = set(re.findall(r"^[.\w/-]+$", page(f"{kind}/index.md"), re.MULTILINE))
        found = {path.stem for path in (DOCS / kind).glob("*.md")} - {"index"}
        assert {name for name in listed if "/" not in name} == found


def test_every_reader_is_led_from_the_front_page():
    """Nobody has to know the kinds of pages to find the first one."""
    front = page("index.md")
    for path in [*(DOCS / "readers").glob("*.md"), DOCS / "gallery/index.md"]:
        name = path.relative_to(DOCS).as_posix()
        assert name == "readers/index.md" or f"({name})" in front, name


def test_the_gallery_shows_what_was_made():
    """Its program ends if a report has a figure or table without an entry, or the other way."""
    pages = [path for path in (DOCS / "gallery").glob("*.md") if path.name != "index.md"]
    shown = set()
    for path in pages:
        text = path.read_text(encoding="utf-8")
        for part in text.split("\n## ")[1:]:
            said = re.findall(r"^\*\*(.*?)\.\*\*", part, re.MULTILINE)
            assert said == ["What it shows", "How to read it", "What to do", "Worked example"], part
        shown |= set(re.findall(r"\.\./images/gallery/([\w-]+\.svg)", text))
    assert shown == {path.name for path in (DOCS / "images/gallery").iterdir()}


def test_terms_that_pages_link_to_are_in_the_glossary():
    terms = set(glossary())
    wanted = {
        "sample unique", "population unique", "key variable", "level", "cell", "τ1", "τ2", "r1",
        "r2", "posterior distribution", "credible interval", "prediction interval", "registry",
        "model uncertainty", "candidate model", "selected model", "held-out log score", "coverage",
        "structural zero", "chains", "warm-up", "R-hat", "effective sample size", "correct match",
        "incomplete record", "recode, top-code, suppress", "overdispersion",
        "minimal sample unique",
    }  # fmt: skip
    assert sorted(wanted - terms) == []
    unlinked = {
        name for name in ("sample unique", "τ1", "τ2", "held-out log score", "structural zero")
        if not any(f"{name}`" in path.read_text(encoding="utf-8") for path in PAGES)
    }  # fmt: skip
    assert unlinked == set()


def test_modules_that_design_notes_name_exist():
    package = Path(unikat.__file__).parent
    text = "".join(path.read_text(encoding="utf-8") for path in (DOCS / "design").glob("*.md"))
    named = set(re.findall(r"`((?:[a-z0-9_]+/)+[a-z0-9_]+(?:\.html)?\.(?:py|j2))`", text))
    assert len(named) > 40
    roots = (package, DOCS.parent)
    assert (
        sorted(name for name in named if not any((root / name).is_file() for root in roots)) == []
    )


def fields(kind: type) -> set[str]:
    """Return the names of a dataclass's fields, and of the dataclasses in it."""
    names = set()
    for name, hint in typing.get_type_hints(kind).items():
        names.add(name)
        for part in (hint, *typing.get_args(hint)):
            if dataclasses.is_dataclass(part):
                names |= fields(part)
    return names


def test_every_key_of_the_result_is_documented():
    names = fields(summary.Result)
    assert {"tau1_expected", "ess_tail", "rhat_target", "r1_upper", "data_fingerprint"} <= names
    assert sorted(name for name in names if f"`{name}`" not in RESULTS) == []


def test_everything_that_a_comparison_writes_is_documented():
    names = fields(comparison_summary.ComparisonSummary) | set(KINDS["compare"].files)
    columns = comparison.comparison_table(compared()).schema.names
    assert {"log_score_difference", "tau1_mean", "rhat"} <= set(columns)
    assert sorted(name for name in names if f"`{name}`" not in COMPARE) == []
    generic = re.compile(r"(tau[12](_expected)?|cells_seen_[1-5])_")
    assert [
        name for name in columns if not generic.match(name) and f"`{name}`" not in COMPARE
    ] == []


def test_every_file_is_documented():
    assert [name for name in KINDS["assess"].files if f"`{name}`" not in RESULTS] == []


@pytest.mark.parametrize("name", sorted(set(unikat.__all__) - {"__version__"}))
def test_every_public_name_is_documented(name):
    pages = (DOCS / "reference").glob("*.md")
    reference = "".join(path.read_text(encoding="utf-8") for path in pages)
    assert re.search(rf"unikat\.{name}$", reference, flags=re.MULTILINE)
    # Doctest runs the examples, and mypy sees that all have types.
    assert ">>>" in getattr(unikat, name).__doc__ or name == "datasets"


def test_everything_an_evaluation_writes_is_documented():
    names = fields(evaluation_summary.EvaluationSummary) - fields(summary.Provenance)
    assert {"coverage_lower", "false_negative", "n_incomplete", "max_seconds"} <= names
    columns = set(_schema().names)
    assert {"tau1_expected_lower", "n_drawn", "error"} <= columns
    words = names | columns | set(KINDS["evaluate"].files)
    assert sorted(name for name in words if f"`{name}`" not in EVALUATE) == []


def test_everything_a_synthesis_writes_is_documented():
    names = fields(synthesis_summary.SynthesisSummary) - fields(summary.Provenance)
    assert {"pmse_ratio", "n_looked_at", "lower"} <= names
    words = names | set(KINDS["synthesize"].files)
    assert sorted(name for name in words if f"`{name}`" not in SYNTHESIZE) == []


def test_everything_an_attack_writes_is_documented():
    names = fields(attack_summary.AttackSummary) - fields(summary.Provenance)
    assert {"by_file", "n_attacked", "upper"} <= names
    assert [name for name in names | set(KINDS["attack"].files) if f"`{name}`" not in ATTACK] == []


def test_everything_a_protection_writes_is_documented():
    names = fields(protection_summary.ProtectionSummary) - fields(summary.Provenance)
    assert {"n_uniques", "n_changed", "upper"} <= names
    assert [
        name for name in names | set(KINDS["protect"].files) if f"`{name}`" not in PROTECT
    ] == []


def test_everything_a_verification_writes_is_documented():
    names = fields(verification_summary.VerifySummary) - fields(summary.Provenance)
    assert {"n_uniques", "n_surviving", "upper"} <= names
    assert [name for name in names | set(KINDS["verify"].files) if f"`{name}`" not in PROTECT] == []


def test_everything_a_check_writes_is_documented():
    names = fields(check_summary.CheckSummary) | fields(certificate.Certificate)
    names -= fields(summary.Provenance)
    assert {"in_sample", "sha256", "forbidden"} <= names
    assert [name for name in names | set(KINDS["check"].files) if f"`{name}`" not in CHECK] == []


def test_the_file_of_rules_in_the_guide_is_one(tmp_path):
    (example,) = re.findall(r"^```toml\n(.*?)^```", ZEROS, flags=re.MULTILINE | re.DOTALL)
    (tmp_path / "zeros.toml").write_text(example, encoding="utf-8")
    rules = ZerosSpec.read(tmp_path / "zeros.toml").rules
    assert [rule.name for rule in rules] == [None, "no work before 16"]
    for rule in rules:
        parse(rule.rule)


def test_every_format_is_documented():
    assert [name for name in formats.FORMATS if f"`.{name}`" not in FILES.lower()] == []
    options = [f"--{name.replace('_', '-')}" for name in ("sheet", "table", "decimal", "format")]
    assert [option for option in options if option not in FILES] == []
    extras = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    named = set(re.findall(r"`unikat\[(\w+)\]`", FILES))
    assert named <= set(extras["project"]["optional-dependencies"])
    assert {"spreadsheet", "r", "stat", "postgres"} == named


def test_every_option_of_the_default_is_documented():
    names = [field.name for field in dataclasses.fields(Auto)]
    assert [name for name in names if f"| `{name}` |" not in MODELS] == []
    assert f"`{','.join(CANDIDATES)}`" in MODELS


def test_everything_that_the_default_tells_is_documented():
    kinds = (
        SelectionFacts, CandidateFacts, RefusedFacts, ErrorFacts, TauFacts, OutsideFacts
    )  # fmt: skip
    names = {field.name for kind in kinds for field in dataclasses.fields(kind)} - {"warnings"}
    assert {"behind_error", "tau1_upper", "median"} <= names
    assert [name for name in [*names, *choice.NAMES] if f"`{name}`" not in RESULTS] == []


def test_every_option_of_log_linear_models_is_documented():
    kinds = (unikat.LogLinear, unikat.SkinnerHolmes, unikat.ElamirSkinner, unikat.MixedEffects)
    names = [field.name for kind in kinds for field in dataclasses.fields(kind)]
    section = MODELS.partition("## Log-linear models")[2].partition("\n## ")[0]
    assert [name for name in names if f"`{name}`" not in section] == []
    defaults = unikat.LogLinear()
    assert f"| `{defaults.terms}` (default)" in section
    assert f"| {defaults.underfitting} |" in section
    assert f"| `{defaults.criterion}` (default)" in section


def test_every_kind_of_uncertainty_is_documented():
    kinds = typing.get_args(Uncertainty)
    assert [kind for kind in kinds if f"| `{kind}` |" not in RESULTS] == []


def test_what_is_known_of_a_models_error_is_what_was_measured():
    """The priors that are used are the rows of the studies' tables."""
    _, title, after = ACCURACY.partition("\n## Households\n")
    after, by_role, last = after.partition("\n### With the relation to the head\n")
    last, shared, _ = last.partition("\n## Keys that households share\n")
    assert title
    assert by_role
    assert shared
    rows = [re.findall(r"^\| all \| \d+ \| ([-\d. |]+) \|$", part, re.M) for part in (after, last)]
    known = (HOUSEHOLD_EXPERIENCE, COMPOSITION_EXPERIENCE, EXPERIENCE, SAMPLED_HOUSEHOLDS)
    measured = [tuple(float(number) for number in row.split("|")) for (row,) in rows]
    for study in ("persons", "households"):
        path = DOCS.parent / "benchmarks" / "results" / f"{study}-parameters.csv"
        (row,) = [line for line in path.read_text().splitlines() if line.startswith("all,")]
        measured.append(tuple(float(number) for number in row.split(",")[2:]))
    for numbers, experience in zip(measured, known, strict=True):
        assert dataclasses.astuple(experience)[: len(numbers)] == numbers
