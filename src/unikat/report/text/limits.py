"""Assumptions and limits of an assessment; the first is how the sample was drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from unikat.errors import listed
from unikat.models.catalogue import MODELS
from unikat.report.facts.design import DesignResult
from unikat.report.text import track_record
from unikat.report.text.numbers import counted, percent
from unikat.report.text.sentences import incomplete, kind

if TYPE_CHECKING:
    from unikat.data.units import Unit
    from unikat.report.facts.result import Result

_MEMBERSHIP = ("hdp", "gom")
EXACT_KEYS = 11
"""Keys up to which these compute the probability of a cell exactly."""


def limits(result: Result) -> list[tuple[str, str]]:
    """Return what the numbers assume and leave out: a title and a text for each point."""
    sample, unit = result.sample, result.unit
    points = [
        design_limit(result),
        (
            "Keys are known without error",
            f"The intruder is assumed to know every key of every {unit.one} exactly as in the "
            "file. Errors, changes over time and different codings in the intruder's source make "
            "correct matches rarer than shown.",
        ),
        (
            "The keys are the right ones",
            "Variables that an intruder could know and that are not among the keys are ignored. "
            f"With more keys, more {unit.many} are unique.",
        ),
        ("Missing values", incomplete(result)),
        _impossible(result),
        (
            "The answer depends on the model",
            f"{kind(result).covers} {_model_error(result)} If much depends on the number, repeat "
            "the assessment with coarser keys.",
        ),
    ]
    if sample.n_keys > EXACT_KEYS and result.fitted_model in _MEMBERSHIP:
        points.append(
            (
                "Many keys",
                f"With more than {EXACT_KEYS} keys, each draw has an unbiased estimate of the cell "
                "probability, not an exact sum, which makes r1 very slightly too high.",
            )
        )
    if result.known_exactly:
        return [point for point in points[1:4] if "Missing" not in point[0]]
    return points


def _model_error(result: Result) -> str:
    """Say how large the model's error was in trials, or that this is not known."""
    said = track_record.of_result(result).sentence
    if "terms" in result.fit:
        said += (
            " A log-linear model that lacks important terms can over- or understate τ1; one with "
            "more terms than the file supports mostly understates it."
        )
    return said


def _impossible(result: Result) -> tuple[str, str]:
    if result.households is not None and result.households.rules:
        return (
            "Impossible households are as declared",
            "A rule that forbids households that do occur makes other households seem more "
            "frequent, and so safer, than they are.",
        )
    if result.zeros is None:
        return (
            "Impossible combinations are not declared",
            "Combinations of values that cannot occur keep a small probability. This makes "
            "possible combinations seem slightly rarer than they are.",
        )
    return (
        "Impossible combinations are as declared",
        "A rule that forbids combinations that do occur makes other combinations seem more "
        "frequent, and so safer, than they are. Impossible combinations that are not declared keep "
        "a small probability.",
    )


def design_sentences(result: Result) -> Mapping[str, str]:
    """Return sentences for the design, for known margins and for households, if there are any."""
    said = {}
    if result.design is not None:
        said["design"] = _drawn(result.design, result.unit)
        said["design.design_effect"] = (
            "Design effect of the weights: 1 + their squared coefficient of variation (Kish). For "
            f"estimates of shares, the file is worth this many times fewer {result.unit.many}."
        )
    if result.margins:
        said["margins"] = _known_counts(result)
    if result.sample.n_households is not None:
        said["sample.n_households"] = whole_households(result)
    return said


def _known_counts(result: Result) -> str:
    """Say which margins were used, and what they add to the sample."""
    tables = listed(
        [f"{' × '.join(one.keys)} ({counted(one.n_cells, 'cell')})" for one in result.margins], 5
    )
    finest = max(result.margins, key=lambda one: one.n_cells)
    said = f"The numbers of people in the population by {tables} are held at their known values."
    if finest.standard_error is None or finest.off is None:
        return said
    return (
        f"{said} From the sample alone, the number in the {' × '.join(finest.keys)} cell of a "
        "typical sample unique would have a standard error of "
        f"{percent(finest.standard_error)} and is off by {percent(finest.off)}."
    )


def whole_households(result: Result) -> str:
    """Say how many households were sampled."""
    sample = result.sample
    assert sample.n_households is not None
    homes = counted(sample.n_households, "household")
    return f"Whole households were sampled: {homes} with {counted(sample.n_records, 'record')}."


def _clusters(result: Result) -> str:
    """Say what is made of households; begins with a blank."""
    if result.households is not None:
        return ""
    if result.sample.n_households is None:
        return (
            " Households and other clusters are not used: records are assumed to be drawn "
            "independently."
        )
    said = f" {whole_households(result)} "
    if not MODELS[result.fitted_model].leaves_out_companions:
        return said + (
            "The model takes persons as drawn one by one, so its interval may be too narrow and "
            "too low. The default model allows for households."
        )
    said += (
        "The probability of a record's combination is that of a sample without the other members "
        "of its household; the model was fitted to all of them."
    )
    if result.model == "auto":
        said += " The model uncertainty is that of samples of households."
    return said


def _drawn(design: DesignResult, unit: Unit) -> str:
    """Say how the units of the file were drawn."""
    low, high = _percent(design.lowest_fraction), _percent(design.highest_fraction)
    if design.n_classes == 1:
        return (
            f"All {unit.many} have about the same weight, so units had equal sampling "
            "probabilities."
        )
    if design.classes == "strata":
        return (
            f"The {unit.many} were drawn from {design.n_classes:,} strata with sampling fractions "
            f"from {low} to {high}."
        )
    return (
        f"The {unit.many} have unequal weights. They form {design.n_classes:,} classes of about "
        f"the same weight, with sampling fractions from {low} to {high}."
    )


def design_limit(result: Result) -> tuple[str, str]:
    """Return what the numbers assume about the drawing of the sample: a title and a text."""
    sample, design, unit = result.sample, result.design, result.unit
    clusters = _clusters(result)
    if result.margins:
        return (
            "Within known margins the file is a simple random sample",
            "The known numbers of people are assumed to be exact and of the population that was "
            "sampled. Among people with the same keys of the margins, all are assumed to have had "
            "equal sampling probabilities. If some groups were sampled more densely that the "
            "margins do not tell apart, their risk is not as shown." + clusters,
        )
    if design is None and sample.n_households is not None:
        return (
            "The households are a simple random sample",
            "All households of the population are assumed to have had equal sampling "
            "probabilities. If some groups were sampled more densely, their risk is not as shown: "
            "give the weights or the strata." + clusters,
        )
    if design is None:
        return (
            "The file is a simple random sample",
            f"The {unit.counted(sample.n_records)} are assumed to be a simple random sample of the "
            f"{sample.population_size:,} units of the population. If some groups were sampled more "
            "densely, their risk is not as shown: give the weights or the strata." + clusters,
        )
    if design.used == "cells":
        return (
            "Weights give the sampling rate of each cell",
            f"{_drawn(design, unit)} The model sees cells, not keys: the sampling rate of a cell "
            f"comes from the weights of its {unit.many}. Weights are assumed to be correct; a "
            f"wrong weight of a {unit.one} changes its risk." + clusters,
        )
    if design.used == "none":
        return (
            "The design is not used",
            f"{_drawn(design, unit)} "
            + (
                "Nothing remains to be used."
                if design.n_classes == 1
                else "The model uses one distribution for the sampling rates of all cells, "
                "whatever their weights. If some groups were sampled more densely, their risk is "
                "not as shown."
            )
            + clusters,
        )
    alike = "the stratum" if design.classes == "strata" else f"{unit.many} of about the same weight"
    return (
        f"Units outside the file are like the {unit.many} of their class",
        f"{_drawn(design, unit)} Within {alike}, units are assumed to have equal sampling "
        "probabilities, so that units outside the file are like those in it. "
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
