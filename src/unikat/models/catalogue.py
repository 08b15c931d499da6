"""Models by the names of the catalogue (`spec/models.py`): their classes, made with options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from importlib import import_module
from typing import Any

from unikat.errors import SpecError, brief, suggest
from unikat.spec.models import AUTO, CATALOGUE, models_with


def class_of(name: str) -> type[Any]:
    """Return the class of a model of the catalogue."""
    entry = CATALOGUE[name]
    found: type[Any] = getattr(import_module(entry.module), entry.class_name)
    return found


MODELS = {name: class_of(name) for name in models_with() if name != AUTO}
"""Of persons."""
OF_HOUSEHOLDS = {name: class_of(name) for name in models_with(of_households=True)}
"""Of households."""


def build(name: str, options: Mapping[str, Any], kinds: Mapping[str, type[Any]]) -> Any:
    """Make the model of a name among some, with its options."""
    kind = kinds.get(name)
    if kind is None:
        raise SpecError(
            f"There is no model {brief(name)!r}.{suggest(name, kinds)} Models: {', '.join(kinds)}."
        )
    known = [field.name for field in fields(kind)]
    for option in options:
        if option not in known:
            raise SpecError(
                f"The model {brief(name)!r} has no option {brief(option)!r}."
                f"{suggest(option, known)}"
                + (f" Options: {', '.join(known)}." if known else " It has none.")
                + _elsewhere(option)
            )
    return kind(**options)


def _elsewhere(option: str) -> str:
    """Name the models that have an option."""
    found = [name for name, kind in MODELS.items() if option in [one.name for one in fields(kind)]]
    return f" Models with {option}: {', '.join(found)}." if found else ""
