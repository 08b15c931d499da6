"""The page of the papers is made of the published figures and of the results; none is left out."""

from __future__ import annotations

import importlib.util
import itertools
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
PAPERS = Path(__file__).parents[2] / "shared" / "papers"


def module(name: str) -> ModuleType:
    """A module of the benchmarks, which import each other by name."""
    sys.path.insert(0, str(BENCHMARKS))
    try:
        spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
        assert spec is not None
        assert spec.loader is not None
        found = importlib.util.module_from_spec(spec)
        sys.modules[name] = found
        spec.loader.exec_module(found)
        return found
    finally:
        sys.path.remove(str(BENCHMARKS))


MADE = module("reproduction_page")
ENTRIES = MADE.PUBLISHED["entry"]


def test_the_page_is_that_of_the_files() -> None:
    assert MADE.PAGE.read_text(encoding="utf-8") == MADE.page()


def test_its_figures_are_those_of_the_files() -> None:
    figures = MADE.figures()
    assert figures
    for place, figure in figures.items():
        assert place.read_text(encoding="utf-8") == figure
        assert f"(images/{place.name})" in MADE.page()


def test_a_changed_result_is_seen() -> None:
    found = MADE.results()
    entry = next(e for e in ENTRIES if MADE.references(e) & _measures(found))
    before = MADE.section(entry, found)
    assert MADE.section(entry, {}) != before


def _measures(found: dict[str, Any]) -> set[str]:
    return {f"{fit}|{name}" for fit, line in found.items() for name in line["measures"]}


@pytest.mark.parametrize("paper", MADE.PUBLISHED["paper"], ids=lambda paper: str(paper["number"]))
def test_every_table_and_figure_has_an_entry(paper: dict[str, Any]) -> None:
    covered = [name for e in ENTRIES if e["paper"] == paper["number"] for name in e["covers"]]
    tables = [f"T{i}" for i in range(1, paper["tables"] + 1)]
    figures = [f"F{i}" for i in range(1, paper["figures"] + 1)]
    assert sorted(covered) == sorted(tables + figures)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_an_entry_has_numbers_or_says_why_not(entry: dict[str, Any]) -> None:
    lines = list(MADE.cells(entry))
    assert bool(lines) != bool(entry.get("not_run"))
    assert all(line["ref"] or line["truth"] for line in lines)


def test_every_computed_measure_that_the_page_names_is_there() -> None:
    found = MADE.results()
    for entry in ENTRIES:
        for reference in MADE.references(entry):
            fit, _, measure = reference.rpartition("|")
            if fit in found:
                assert measure.partition("@")[0] in found[fit]["measures"], reference


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry["id"])
def test_published_numbers_stand_in_the_paper(entry: dict[str, Any]) -> None:
    if not PAPERS.exists():
        pytest.skip("the papers are not beside the checkout")
    if entry.get("deposited"):
        return
    (path,) = PAPERS.glob(f"{entry['paper']}-*.txt")
    text = path.read_text(encoding="utf-8").replace("-", "−")
    numbers = set(re.findall(r"−?\d*\.?\d+", text.replace(",", "")))
    for row in entry.get("rows", []):
        some = row["published"] if isinstance(row["published"], list) else [row["published"]]
        for figure in some:
            said = re.findall(r"−?\d*\.?\d+", figure.replace(",", ""))
            assert [n for n in said if n not in numbers and f"−{n}" not in numbers] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("corrections", "right"),
    [({"tables", "order", "steps"}, True), ({"tables", "steps"}, False), (set(), False)],
    ids=["corrected", "order of the components wrong", "as published"],
)
def test_the_program_of_paper_1_keeps_its_prior_where_it_is_corrected(
    corrections: set[str], right: bool
) -> None:
    """Keys of one level tell nothing, so α_0 and α_i keep their prior, Gamma(2, 1)."""
    program = module("published_hdp")
    x, n_levels = np.zeros((12, 3), np.int64), np.ones(3, np.int64)
    states = program.chain(x, n_levels, frozenset(corrections), n_start=5, seed=1)
    drawn = np.array([[s.alpha_0, s.alpha.mean(), (s.alpha**2).mean()]
                      for s in itertools.islice(states, 40_000)])  # fmt: skip
    means = drawn.reshape(40, -1, 3).mean(axis=1)
    distance = np.abs(means.mean(axis=0) - [2.0, 2.0, 6.0]) / (means.std(axis=0) / 40**0.5)
    assert bool((distance < 4.0).all()) == right, distance
