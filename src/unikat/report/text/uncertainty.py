"""The words for each kind of uncertainty that the draws of a model have.

The kinds are those of `unikat.models.base.Uncertainty`; a model names its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from unikat.models.base import Uncertainty


@dataclass(frozen=True, kw_only=True)
class Kind:
    """Words for one kind."""

    independent: bool = False
    """The draws are independent: there are no chains that have to converge."""
    title: str = "Distribution of"
    """Title of a figure of the draws; the measure follows."""
    caption: str
    """What the figure shows; `{measure}` stands for its name."""
    headline: str = "{level} interval {ends}"
    """The interval in a headline; `{level}` is its probability, `{ends}` its ends."""
    condition: str
    """What the interval covers and leaves out."""
    covers: str
    """The same, where the limits of the numbers are listed."""
    centre: str
    """What mean and median are."""
    ends: str
    """What the ends of an interval are."""
    expected: str = ""
    """What the expected measures are; begins with a blank."""
    records: str = ""
    """About the intervals of single records."""
    brief: str = ""
    """What the interval covers, in a few words."""
    proviso: str = "if the model is right"
    """When the intervals should contain the true value."""


INDEPENDENT = " These draws are independent: R-hat can be above 1 by chance if they are few."
"""Added to what R-hat means."""

KINDS: Final[Mapping[Uncertainty, Kind]] = {
    "posterior": Kind(
        title="Posterior distribution of",
        caption="Posterior distribution of {measure}",
        condition=(
            "The interval covers sampling and parameter uncertainty, and is correct if the model "
            "is right. It leaves out model error, which can be larger."
        ),
        covers="The interval covers sampling and parameter uncertainty, not model error.",
        centre="Mean and median of the posterior distribution.",
        ends="If the model is right, the number lies between them with this probability.",
        brief="sampling and parameter uncertainty",
    ),
    "calibrated": Kind(
        caption="Posterior distribution of {measure}, model uncertainty included",
        condition=(
            "The interval covers sampling, parameter and model uncertainty. Model uncertainty was "
            "calibrated on real populations with known risk and on this file."
        ),
        covers=(
            "The interval covers sampling, parameter and model uncertainty. Model uncertainty was "
            "calibrated on about 200 samples from populations with known risk, and on the records "
            "of this file. Calibration does not cover populations unlike those: synthetic ones, "
            "ones with copied records, or keys of which the file lacks many levels. It does not "
            "cover a wrong population size or a sample that is not random."
        ),
        centre="Mean and median of the posterior distribution, model uncertainty included.",
        ends=(
            "If the model error is no larger than in the populations used for calibration, the "
            "number lies between them with this probability."
        ),
        expected=" They include model uncertainty.",
        records=(
            "r1 of single records includes model uncertainty. It was calibrated on all sample "
            "uniques together and may be larger for some records."
        ),
        brief="sampling, parameter and model uncertainty",
        proviso="if the model error is no larger than in the populations used for calibration",
    ),
    "conditional": Kind(
        independent=True,
        caption="Distribution of {measure} given the fitted model",
        headline="{level} interval {ends} if the fitted model is exact",
        condition=(
            "The interval treats the fitted model as exact and covers sampling uncertainty only. "
            "It leaves out estimation error, so it is too narrow, and model error, which can be "
            "larger."
        ),
        covers=(
            "The interval treats the fitted parameters as exact. It leaves out parameter and model "
            "uncertainty."
        ),
        centre="Mean and median given the fitted model.",
        ends=(
            "If the fitted model is exact, the number lies between them with this probability. "
            "Estimation error is left out, so the interval is too narrow."
        ),
        expected=" The parameters are the fitted ones: these are plug-in estimates.",
        records="r1 of single records treats the fitted model as exact.",
        brief="sampling uncertainty only, so too narrow",
    ),
    "bootstrap": Kind(
        independent=True,
        title="Bootstrap distribution of",
        caption="Bootstrap distribution of {measure}",
        headline="{level} confidence interval {ends}",
        condition=(
            "The interval covers sampling uncertainty and estimation error, by a bootstrap from "
            "the fitted model. It leaves out model error, which can be larger."
        ),
        covers=(
            "The interval covers sampling uncertainty and estimation error, by refits to samples "
            "simulated from the fitted model. It does not cover model error."
        ),
        centre="Mean and median of the bootstrap distribution, corrected for bias.",
        ends=(
            "If the model is right, such intervals contain the number with about this probability."
        ),
        expected=" Their draws include estimation error.",
        records=(
            "The bootstrap is of τ1 and τ2: r1 of single records treats the fitted model as exact."
        ),
        brief="sampling uncertainty and estimation error",
    ),
    "empirical-bayes": Kind(
        independent=True,
        caption="Distribution of {measure} given the estimated parameters",
        condition=(
            "The interval treats the estimated parameters of the model as exact. It leaves out "
            "their estimation error, so it is somewhat too narrow, and model error, which can be "
            "larger."
        ),
        covers=(
            "The interval treats the estimated parameters as exact. It leaves out parameter and "
            "model uncertainty."
        ),
        centre="Mean and median given the estimated parameters.",
        ends=(
            "If the model and its estimated parameters are right, the number lies between them "
            "with this probability."
        ),
        brief="uncertainty given the estimated parameters, so somewhat too narrow",
    ),
}
POSTERIOR: Final = KINDS["posterior"]
