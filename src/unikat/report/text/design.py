"""How the sample was drawn: facts of the design, and what the numbers assume about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unikat.report.facts.design import DesignResult

if TYPE_CHECKING:
    from unikat.report.facts.assessment import Result


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
        return "All records have about the same weight: their units had equal chances to be drawn."
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
    if design.used == "none":
        return (
            "The design is not used",
            f"{said(design)} "
            + (
                "So nothing is left to be used."
                if design.n_classes == 1
                else "The model has one law for the sampling rates of all combinations, whatever "
                "their weights: where some groups were sampled more densely, their records are "
                "safer or more exposed than shown."
            )
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
