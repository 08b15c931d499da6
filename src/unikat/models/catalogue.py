"""All models, by the name they have in specifications and on the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from unikat.errors import SpecError, brief, suggest
from unikat.models.cells.individual_risk import IndividualRisk
from unikat.models.cells.superpopulation import Superpopulation1, Superpopulation2
from unikat.models.households.nested import NestedHouseholds
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.loglinear.empirical_bayes import ElamirSkinner, SkinnerHolmes
from unikat.models.loglinear.mixed_effects import MixedEffects
from unikat.models.mixtures.gom import GoM
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.latent_class import LatentClass

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
"""Of persons. Filled from here alone."""
OF_HOUSEHOLDS: dict[str, type[Any]] = {NestedHouseholds.name: NestedHouseholds}
"""Of households."""


def build(name: str, options: Mapping[str, Any], kinds: Mapping[str, type[Any]]) -> Any:
    """Make the model of a name among some, with its options.

    Raises
    ------
    SpecError
        If there is no such model or option, or the model refuses a value.
    """
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
