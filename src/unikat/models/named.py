"""Models by the names and labels that a specification gives them, `auto` among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from unikat.errors import SpecError, shown, suggest
from unikat.models.auto import Auto
from unikat.models.base import AnyModel, Specified
from unikat.models.catalogue import MODELS, OF_HOUSEHOLDS, build
from unikat.spec.comparison import ComparisonSpec
from unikat.spec.model import ModelSpec
from unikat.spec.models import CATALOGUE, EXAMPLE, USUAL

ALL: dict[str, type[Any]] = {Auto.name: Auto, **MODELS, **OF_HOUSEHOLDS}


def build_model(name: str, options: Mapping[str, Any]) -> Any:
    """Make the model of a name, with its options.

    `auto` is no model itself: `studies.auto.decided` puts one in its place.

    Examples
    --------
    >>> build_model("hdp", {"alpha": "per-record"}).alpha
    'per-record'
    """
    return build(name, options, ALL)


def model_of(asked: Any) -> Any:
    """Return a model that was given as one, or by its name and options as the command line has it.

    Examples
    --------
    >>> model_of("gom:components=30").components
    30
    """
    if isinstance(asked, str):
        named = ModelSpec.of(asked)
        return build_model(named.name, named.options)
    if isinstance(asked, Specified):
        return asked
    raise SpecError(
        f"The model is neither a name such as {EXAMPLE!r}, nor a model such as "
        f"unikat.{CATALOGUE[USUAL].class_name}(), but {shown(asked)}."
    )


@dataclass(frozen=True, kw_only=True)
class Named:
    """A model of the comparison, with its place on the path if it is on it."""

    label: str
    name: str
    model: AnyModel
    base: str | None = None
    """Label without the option of the path; None for a model that is not on the path."""
    value: float | None = None
    """Value of the path's option."""


def compared_models(spec: ComparisonSpec) -> tuple[Named, ...]:
    """Build the models of a comparison, those with the option of the path once for each value.

    Examples
    --------
    >>> spec = ComparisonSpec.parse({"keys": "AGE,SEX", "models": "hdp,hdp:alpha=per-record"})
    >>> [named.label for named in compared_models(spec)]
    ['hdp', 'hdp:alpha=per-record']
    """
    if not spec.models:
        raise SpecError(
            "No models are named; name them as --models hdp,hdp:alpha=per-record (or models = "
            '["hdp", "hdp:alpha=per-record"]).'
        )
    path = spec.path
    found: list[Named] = []
    options: list[str] = []
    for text in spec.models:
        asked = ModelSpec.of(text)
        model = build_model(asked.name, asked.options)
        known = [field.name for field in fields(model)]
        options += known
        if path is None or path.option not in known:
            found.append(Named(label=asked.label, name=asked.name, model=model))
            continue
        if path.option in asked.options:
            raise SpecError(
                f"The model {asked.label!r} sets {path.option}, and so does the path; leave it out "
                "of the model."
            )
        for value in path.values:
            on_path = ModelSpec(name=asked.name, **asked.options, **{path.option: value})
            found.append(
                Named(
                    label=on_path.label,
                    name=asked.name,
                    model=build_model(asked.name, on_path.options),
                    base=asked.label,
                    value=value,
                )
            )
    if path is not None and not any(named.base for named in found):
        raise SpecError(
            f"None of the models has the option {path.option!r} of the path."
            f"{suggest(path.option, options)} Options: {', '.join(dict.fromkeys(options))}."
        )
    labels = [named.label for named in found]
    for label in spec.limits:
        if label not in labels:
            raise SpecError(
                f"limits names the model {label!r}, which is not compared.{suggest(label, labels)}"
            )
    return tuple(found)


def models_by_label(texts: Sequence[str]) -> dict[str, AnyModel]:
    """Build models from texts such as `gom:components=30`.

    Examples
    --------
    >>> list(models_by_label(["hdp", "gom:components=30"]))
    ['hdp', 'gom:components=30']
    """
    models: dict[str, AnyModel] = {}
    for text in texts:
        named = ModelSpec.of(text)
        if named.label in models:
            raise SpecError(f"The model {named.label!r} is named more than once.")
        models[named.label] = build_model(named.name, named.options)
    return models
