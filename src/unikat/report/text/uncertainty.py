"""What is said of each kind of uncertainty that the draws of a model have.

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

    independent: bool
    """The draws do not depend on each other: there are no chains that have to agree."""
    title: str
    """What a figure of the draws is called; the measure follows."""
    caption: str
    """What the figure shows; `{measure}` stands for its name."""
    within: str
    """How sure the interval is; "between ... and ..." follows. `{level}` is its probability."""
    condition: str
    """What the interval holds and leaves out."""
    covers: str
    """The same, where the limits of the numbers are listed."""
    centre: str
    """What mean and median are."""
    ends: str
    """What the ends of an interval are."""
    expected: str = ""
    """What the expected measures are; begins with a blank."""
    records: str = ""
    """What is to be said of the intervals of single records."""
    brief: str = ""
    """In a few words, where several models stand side by side."""
    proviso: str = "if the model is right"
    """When the truth should lie in the intervals."""


INDEPENDENT = (
    " These draws do not depend on each other: it can be above 1 by chance, if they are few."
)
"""Added to what R-hat means."""

POSTERIOR: Final = Kind(
    independent=False,
    title="Posterior distribution of",
    caption="What is known of {measure} given the file and the model",
    within="with {level} probability",
    condition=(
        "This interval holds if the model is right. It leaves out the error of the model itself, "
        "which can be larger."
    ),
    covers=(
        "The interval covers the doubt about the parameters of one model, not the doubt about the "
        "model."
    ),
    centre="Centre of the posterior distribution.",
    ends="If the model is right, the number lies between them with this probability.",
    brief="the doubt about population and parameters",
)
_CALIBRATED: Final = Kind(
    independent=False,
    title="Distribution of",
    caption="What is known of {measure} given the file, the model and how far models like it err",
    within="with {level} probability",
    condition=(
        "This interval holds the chance of who lives in the population, the doubt about the "
        "parameters, and the error of the model itself, as large as it was in populations of known "
        "truth and as this file shows it. It leaves out errors of a kind that those populations "
        "did not have."
    ),
    covers=(
        "The interval covers the doubt about the parameters and the error of the model itself. How "
        "large that error can be was learned from about 200 samples of populations whose truth is "
        "known, and from this file's own records. It does not cover what those populations did not "
        "have: a population that is itself synthetic or made of copied records, or keys of which "
        "the file lacks many levels; nor a population size that is wrong, nor a sample that is "
        "not random."
    ),
    centre="Centre of the distribution, the model's own error counted.",
    ends=(
        "If the model errs no more than such models did in populations of known truth, the number "
        "lies between them with this probability."
    ),
    expected=" They carry the model's own error.",
    records=(
        "The r1 of single records carries the model's own error. That error was learned from all "
        "sample uniques together: whether it is larger for some records is not known."
    ),
    brief="the doubt about population and parameters, and the error of the model itself",
    proviso="if the model errs no more than such models did in populations of known truth",
)
_CONDITIONAL: Final = Kind(
    independent=True,
    title="Distribution of",
    caption="What {measure} can be in the population if the fitted model is exact",
    within="if the fitted model is exact, with {level} probability",
    condition=(
        "This interval takes the fitted model for the truth: it holds the chance of who lives in "
        "the population, and nothing else. It leaves out the error of the estimate, so it is too "
        "narrow, and the error of the model itself, which can be larger."
    ),
    covers=(
        "The interval takes the fitted parameters for the truth. It leaves out the doubt about "
        "them and the doubt about the model."
    ),
    centre="Centre of the populations that the fitted model allows.",
    ends=(
        "If the fitted model is exact, the number lies between them with this probability; the "
        "error of the estimate is left out, so they are too close together."
    ),
    expected=" The parameters are the fitted ones here: this is the plug-in estimate.",
    records="The r1 of single records takes the fitted model for the truth.",
    brief="the chance in the population alone, so too narrow",
)
_BOOTSTRAP: Final = Kind(
    independent=True,
    title="Bootstrap distribution of",
    caption="What {measure} can be, going by the errors in samples simulated from the fitted model",
    within="with {level} confidence",
    condition=(
        "This interval holds the chance of who lives in the population and the error of the "
        "estimate, as large as it is in samples simulated from the fitted model. It leaves out the "
        "error of the model itself, which can be larger."
    ),
    covers=(
        "The interval covers the doubt about the parameters of one model, by fits to samples that "
        "were simulated from it, not the doubt about the model."
    ),
    centre="Centre of the bootstrap distribution, which is corrected for the estimate's bias.",
    ends=(
        "If the model is right, intervals made in this way hold the number with about this "
        "probability."
    ),
    expected=" Its draws have the error of the estimate.",
    records=(
        "The bootstrap is of τ1 and τ2: the r1 of single records takes the fitted model for the "
        "truth."
    ),
    brief="the chance in the population and the error of the estimate",
)
_EMPIRICAL_BAYES: Final = Kind(
    independent=True,
    title="Distribution of",
    caption="What is known of {measure} given the file and the estimated parameters",
    within="with {level} probability",
    condition=(
        "This interval takes the estimated parameters of the model for the truth and holds what "
        "they leave open. It leaves out their error, so it is somewhat too narrow, and the error "
        "of the model itself, which can be larger."
    ),
    covers=(
        "The interval covers what the estimated parameters of one model leave open, not their "
        "error, and not the doubt about the model."
    ),
    centre="Centre of the distribution given the file and the estimated parameters.",
    ends=(
        "If the model and its estimated parameters are right, the number lies between them with "
        "this probability."
    ),
    brief="what the estimated parameters leave open, not their error",
)
KINDS: Final[Mapping[Uncertainty, Kind]] = {
    "posterior": POSTERIOR,
    "calibrated": _CALIBRATED,
    "empirical-bayes": _EMPIRICAL_BAYES,
    "conditional": _CONDITIONAL,
    "bootstrap": _BOOTSTRAP,
}
