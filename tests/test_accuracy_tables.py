"""The tables about `auto` are those of the files that the studies wrote."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest


def tables() -> ModuleType:
    """The module of the benchmarks that makes the tables."""
    path = Path(__file__).parents[1] / "benchmarks" / "accuracy_tables.py"
    spec = importlib.util.spec_from_file_location("accuracy_tables", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MADE = tables()


@pytest.mark.parametrize("path", MADE.PAGES, ids=lambda path: path.name)
def test_the_tables_of_a_page_are_made_of_the_results(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert MADE.TABLE.search(text)
    assert MADE.page(text) == text


def test_a_changed_number_is_seen() -> None:
    name = next(iter(MADE.TABLE.finditer(MADE.PAGES[0].read_text(encoding="utf-8"))))["name"]
    changed = f"<!-- table: {name} -->\n\n| 356 of 382 |\n\n<!-- end -->"
    assert "356 of 382" not in MADE.page(changed)
