"""The catalogue of models: their names, where their classes stand, and what sets each apart.

The name of a model stands here and in its class alone. The rest of the house asks for a trait, so
that a new model needs an entry here and no word elsewhere. Importing this costs nothing;
`models/catalogue.py` makes the models.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

AUTO = "auto"
"""Selects one of several models; the default."""
HOUSEHOLDS = "households"
"""Model whose unit is the household."""


class Entry(NamedTuple):
    """A model of the catalogue."""

    name: str
    """In specifications and on the command line."""
    module: str
    """That has its class."""
    class_name: str
    """Of its options, as `unikat` exports it."""
    of_households: bool = False
    """Its units are households."""
    candidate: bool = False
    """`auto` fits it by default: one of each family that is fitted within a minute."""
    selectable: bool = False
    """`auto` may select it, since its error is calibrated: learned with latent classes, while the
    other mixtures give similar estimates and intervals as good, of samples of persons and of whole
    households (docs/accuracy.md)."""
    draws_records: bool = False
    """Synthetic records can be drawn from it, and the attack that knows all other records is made
    for it."""
    knows_groups: bool = False
    """Its states tell what recoded keys would change."""
    on_gpu: bool = False
    """It has CUDA kernels."""
    many_classes: bool = False
    """Its chains start from many classes."""
    exact_keys: int | None = None
    """Keys up to which it computes the probability of a cell exactly; None: however many."""


_mixture = partial(
    Entry,
    selectable=True,
    draws_records=True,
    knows_groups=True,
    on_gpu=True,
    many_classes=True,
)
_MIXTURES, _LOGLINEAR, _CELLS = (
    f"unikat.models.{family}" for family in ("mixtures", "loglinear", "cells")
)
CATALOGUE = {
    entry.name: entry
    for entry in (
        Entry(AUTO, "unikat.models.auto", "Auto", knows_groups=True),
        _mixture(
            "latent-class",
            f"{_MIXTURES}.latent_class",
            "LatentClass",
            candidate=True,
        ),
        _mixture("hdp", f"{_MIXTURES}.hdp", "HDP", candidate=True, exact_keys=11),
        _mixture("gom", f"{_MIXTURES}.gom", "GoM", exact_keys=11),
        Entry("loglinear", f"{_LOGLINEAR}.conditional", "LogLinear", candidate=True),
        Entry("skinner-holmes", f"{_LOGLINEAR}.empirical_bayes", "SkinnerHolmes"),
        Entry("elamir-skinner", f"{_LOGLINEAR}.empirical_bayes", "ElamirSkinner", candidate=True),
        Entry("mixed-effects", f"{_LOGLINEAR}.mixed_effects", "MixedEffects"),
        Entry("individual-risk", f"{_CELLS}.individual_risk", "IndividualRisk"),
        Entry("dirichlet-multinomial", f"{_CELLS}.dirichlet", "DirichletMultinomial"),
        Entry("superpopulation-1", f"{_CELLS}.superpopulation", "Superpopulation1"),
        Entry("superpopulation-2", f"{_CELLS}.superpopulation", "Superpopulation2"),
        Entry(
            HOUSEHOLDS,
            "unikat.models.households.nested",
            "NestedHouseholds",
            of_households=True,
            draws_records=True,
            knows_groups=True,
        ),
    )
}
"""All models by name, in the order of lists, `auto` among them."""

SIMPLEST = "latent-class"
"""Mixture that is fitted where the user named none and its law is only a means."""
USUAL = "hdp"
"""Default of synthesis and evaluation, and the example of a name."""
EXAMPLE = "gom:components=30"
"""A model with an option."""
EXAMPLES = f"{USUAL},{EXAMPLE},'loglinear:terms=A + B:C'"
PATH_EXAMPLES = f"{USUAL},{USUAL}:alpha=per-record,'loglinear:terms=A + B:C'"


def models_with(*, of_households: bool | None = False, **traits: object) -> tuple[str, ...]:
    """Return the names of the models with some traits.

    Parameters
    ----------
    of_households
        Whether their units are households; None: either.
    traits
        Values by the name of a field of `Entry`.

    Examples
    --------
    >>> models_with(of_households=True)
    ('households',)
    >>> models_with(selectable=True)
    ('latent-class', 'hdp', 'gom')
    """
    wanted = traits if of_households is None else traits | {"of_households": of_households}
    return tuple(
        name
        for name, entry in CATALOGUE.items()
        if all(getattr(entry, trait) == value for trait, value in wanted.items())
    )


def either(names: tuple[str, ...]) -> str:
    """Write names as a choice.

    Examples
    --------
    >>> either(("a", "b", "c"))
    'a, b or c'
    """
    *first, last = names
    return f"{', '.join(first)} or {last}" if first else last
