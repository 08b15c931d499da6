"""How the sample was drawn: facts of the design, and what the numbers assume about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from unikat.data.table import CellTable
from unikat.risk.exposure import ByClass, exposure_of
from unikat.specification import DesignSpec

if TYPE_CHECKING:
    from unikat.models.base import AnyModel
    from unikat.report.summary import Result

_EQUAL = 1.001
"""Design effect up to which weights pass as equal."""


@dataclass(frozen=True, kw_only=True)
class DesignResult:
    """The design of a sample whose units had unequal chances."""

    weights: str | None
    """Column of the weights, or of the inclusion probabilities."""
    strata: str | None
    """Column of the strata."""
    classes: Literal["strata", "weights"]
    """What the classes of equal chances are made of."""
    n_classes: int
    told_by: str | None
    """Key that tells the class of every record; None if the class is no key."""
    lowest_fraction: float
    """Smallest sampling fraction of a class."""
    highest_fraction: float
    design_effect: float
    """1 + the squared coefficient of variation of the weights (Kish 1965)."""
    used: Literal["classes", "cells", "none"]
    """How the model uses it: units of a class are alike; cells have weights; not at all."""


def design_result(
    table: CellTable, spec: DesignSpec, model: AnyModel | None
) -> DesignResult | None:
    """Return the facts of a table's design; None for equal chances.

    Parameters
    ----------
    table
        The sample.
    spec
        Names of the columns.
    model
        The model that was fitted, if any.
    """
    sampling = table.sampling
    if sampling is None:
        return None
    exposure = exposure_of(table)
    key = None
    if isinstance(exposure, ByClass) and not exposure.appended:
        key = table.keys[exposure.column].name
    fractions = sampling.n_sampled / np.maximum(sampling.sizes, 1e-300)
    weights = sampling.weights
    used: Literal["classes", "cells", "none"] = "classes"
    if model is None or sampling.n_strata == 1:
        used = "none"
    if getattr(model, "uses_weights", False):
        used = "cells"
    return DesignResult(
        weights=spec.weights if spec.weights is not None else spec.inclusion,
        strata=spec.strata,
        classes="weights" if sampling.from_weights else "strata",
        n_classes=sampling.n_strata,
        told_by=key,
        lowest_fraction=float(min(fractions.min(), 1.0)),
        highest_fraction=float(min(fractions.max(), 1.0)),
        design_effect=float(len(weights) * (weights**2).sum() / weights.sum() ** 2),
        used=used,
    )


def sentences(result: Result) -> Mapping[str, str]:
    """Return a sentence for the design, if there is one."""
    if result.design is None:
        return {}
    return {
        "design": said(result.design),
        "design.design_effect": (
            "Effect of the weights: 1 + their squared coefficient of variation (Kish). For an "
            "estimate of a share the file is worth so many times fewer records."
        ),
    }


def said(design: DesignResult) -> str:
    """Say how records were drawn."""
    low, high = _percent(design.lowest_fraction), _percent(design.highest_fraction)
    if design.n_classes == 1:
        if design.design_effect > _EQUAL:
            return (
                "The records have unequal weights, but are too few to be put into classes of about "
                "the same weight."
            )
        return "All records have the same weight, so their units had equal chances to be drawn."
    if design.classes == "strata":
        return (
            f"The records were drawn from {design.n_classes:,} strata, of which between {low} and "
            f"{high} of the units are in the file."
        )
    return (
        "The records have unequal weights. They were put into "
        f"{design.n_classes:,} classes of about the same weight, in which the file holds "
        f"between {low} and {high} of the units."
    )


def limit(result: Result) -> tuple[str, str]:
    """Return what the numbers assume about the drawing of the sample: a title and a text."""
    sample, design = result.sample, result.design
    clusters = (
        " Households and other clusters are not used: records are taken to be drawn one by one."
    )
    if design is None:
        return (
            "The file is a simple random sample",
            f"The {sample.n_records:,} records are taken to be drawn from the "
            f"{sample.population_size:,} units of the population with equal chances and without "
            "repetition. If some groups were sampled more densely, their records are safer or more "
            "exposed than shown: give the weights or the strata." + clusters,
        )
    if design.used == "cells":
        return (
            "Weights tell how much of each combination is in the file",
            f"{said(design)} The model sees combinations, not keys: what is known of the sampling "
            "of a combination are the weights of the records that have it. Weights are taken as "
            "right; a weight that is wrong for one record moves the risk of that record."
            + clusters,
        )
    if design.n_classes == 1 and design.design_effect > _EQUAL:
        return (
            "The file is like a simple random sample",
            f"{said(design)} The model takes the units that are not in the file to be like the "
            "records, as if all had had equal chances to be drawn: the weights tell the size of "
            "the population and nothing else. Where weights go with the keys, the risk is wrong."
            + clusters,
        )
    alike = "the stratum" if design.classes == "strata" else "records of about the same weight"
    return (
        "Units that are not in the file are like the records of their class",
        f"{said(design)} Within {alike} units are taken to have had equal chances to be drawn, so "
        "that those not in the file are like those that are. "
        + (
            "Sizes of the classes are sums of weights, which are taken as right; where weights "
            "within a class differ and go with the keys, something remains uncounted."
            if design.weights is not None
            else "The sizes of the strata are taken as right."
        )
        + clusters,
    )


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g}%"
