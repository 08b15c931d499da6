"""The sampling design in words, and what the numbers assume about it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unikat.report.facts.design import DesignResult

if TYPE_CHECKING:
    from unikat.report.facts.result import Result


def sentences(result: Result) -> Mapping[str, str]:
    """Return a sentence for the design, if there is one."""
    if result.design is None:
        return {}
    return {
        "design": said(result.design),
        "design.design_effect": (
            "Design effect of the weights: 1 + their squared coefficient of variation (Kish). For "
            "estimates of shares, the file is worth this many times fewer records."
        ),
    }


def said(design: DesignResult) -> str:
    """Say how records were drawn."""
    low, high = _percent(design.lowest_fraction), _percent(design.highest_fraction)
    if design.n_classes == 1:
        return "All records have about the same weight, so units had equal sampling probabilities."
    if design.classes == "strata":
        return (
            f"The records were drawn from {design.n_classes:,} strata with sampling fractions from "
            f"{low} to {high}."
        )
    return (
        f"The records have unequal weights. They form {design.n_classes:,} classes of about the "
        f"same weight, with sampling fractions from {low} to {high}."
    )


def limit(result: Result) -> tuple[str, str]:
    """Return what the numbers assume about the drawing of the sample: a title and a text."""
    sample, design = result.sample, result.design
    clusters = (
        " Households and other clusters are not used: records are assumed to be drawn "
        "independently."
    )
    if design is None:
        return (
            "The file is a simple random sample",
            f"The {sample.n_records:,} records are assumed to be a simple random sample of the "
            f"{sample.population_size:,} units of the population. If some groups were sampled more "
            "densely, their risk is not as shown: give the weights or the strata." + clusters,
        )
    if design.used == "cells":
        return (
            "Weights give the sampling rate of each cell",
            f"{said(design)} The model sees cells, not keys: the sampling rate of a cell comes "
            "from the weights of its records. Weights are assumed to be correct; a wrong weight of "
            "a record changes its risk." + clusters,
        )
    if design.used == "none":
        return (
            "The design is not used",
            f"{said(design)} "
            + (
                "Nothing remains to be used."
                if design.n_classes == 1
                else "The model uses one distribution for the sampling rates of all cells, "
                "whatever their weights. If some groups were sampled more densely, their risk is "
                "not as shown."
            )
            + clusters,
        )
    alike = "the stratum" if design.classes == "strata" else "records of about the same weight"
    return (
        "Units outside the file are like the records of their class",
        f"{said(design)} Within {alike}, units are assumed to have equal sampling probabilities, "
        "so that units outside the file are like those in it. "
        + (
            "Class sizes are sums of weights, which are assumed to be correct. Differences of "
            "weights within a class that depend on the keys are not covered."
            if design.weights is not None
            else "The stratum sizes are assumed to be correct."
        )
        + clusters,
    )


def _percent(share: float) -> str:
    return f"{100.0 * share:.3g}%"
