"""Names of models stand in the catalogue and in the models: no other room knows one."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from unikat.models.base import GroupsLevels
from unikat.models.catalogue import class_of
from unikat.models.mixtures.new_record import EXACT_KEYS
from unikat.spec.models import AUTO, CATALOGUE, HOUSEHOLDS, models_with

PACKAGE = Path(__file__).parents[1] / "src" / "unikat"
MAY = ("models", "spec/models.py")
WORDS_TOO = {AUTO, HOUSEHOLDS}
"""Words of other things too: `overflow: auto`, and the households of a file or a design."""
NAMES = re.compile(r"(?<![\w-])(" + "|".join(sorted(set(CATALOGUE) - WORDS_TOO)) + r")(?![\w-])")


def named_in(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module that name a model, but docstrings, with their lines."""
    said = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
        if not isinstance(text, str) or id(node) in said:
            continue
        if text == AUTO or NAMES.search(text):
            yield node.lineno, text


def test_no_other_room_names_a_model():
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {text}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.relative_to(PACKAGE).as_posix().startswith(MAY)
        for line, text in named_in(ast.parse(path.read_text(encoding="utf-8")))
    ]
    templates = [
        str(path.relative_to(PACKAGE))
        for path in sorted(PACKAGE.rglob("*.j2"))
        if NAMES.search(path.read_text(encoding="utf-8"))
    ]
    assert found + templates == []


@pytest.mark.parametrize(
    "code", ['x = "hdp"', 'f"take {a} or gom"', 'if model == "auto": pass', 'A = ("latent-class",)']
)
def test_a_planted_name_is_found(code):
    assert list(named_in(ast.parse(code)))


@pytest.mark.parametrize("name", CATALOGUE)
def test_the_catalogue_says_what_the_models_are(name):
    entry, kind = CATALOGUE[name], class_of(name)
    assert kind.name == entry.name
    assert name == AUTO or isinstance(kind(), GroupsLevels) == entry.knows_groups


def test_the_catalogue_has_the_limit_of_exact_probabilities():
    assert {CATALOGUE[name].exact_keys for name in models_with()} == {None, EXACT_KEYS}
