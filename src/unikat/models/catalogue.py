"""All models, by the name they have in specifications and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from unikat.errors import SpecError, brief, suggest
from unikat.models.auto import Auto
from unikat.models.empirical_bayes import ElamirSkinner, SkinnerHolmes
from unikat.models.gom import GoM
from unikat.models.hdp import HDP
from unikat.models.individual_risk import IndividualRisk
from unikat.models.latent_class import LatentClass
from unikat.models.loglinear import LogLinear
from unikat.models.mixed_effects import MixedEffects
from unikat.models.superpopulation import Superpopulation1, Superpopulation2

MODELS: dict[str, type[Any]] = {
    model.name: model
    for model in (
        HDP,
        GoM,
        LatentClass,
        LogLinear,
        SkinnerHolmes,
        ElamirSkinner,
        MixedEffects,
        IndividualRisk,
        Superpopulation1,
        Superpopulation2,
    )
}
"""Filled from here alone."""


def build_model(name: str, options: Mapping[str, Any]) -> Any:
    """Make the model of a name, with its options.

    `auto` is no model itself: `risk.auto.decided` puts one in its place.

    Raises
    ------
    SpecError
        If there is no such model or option, or the model refuses a value.

    Examples
    --------
    >>> build_model("hdp", {"alpha": "per-record"}).alpha
    'per-record'
    """
    kind = Auto if name == Auto.name else MODELS.get(name)
    if kind is None:
        names = [Auto.name, *MODELS]
        raise SpecError(
            f"There is no model {brief(name)!r}.{suggest(name, names)} Models: {', '.join(names)}."
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
