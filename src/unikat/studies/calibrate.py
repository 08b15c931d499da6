"""The error of a model: what is known of it beforehand, and what the sample adds.

Latent classes and their relatives, with learned priors, were fitted to samples of many populations
whose truth is known (`benchmarks/calibration.py`). In each, the population counts of the sample
uniques tell the overdispersion k of the cells around the model and the error d of its level
(`models.calibrated`). Over populations

    log k ~ N(a + b log(J / 8), s^2),    d | k ~ N(m + r (log k - a - b log(J / 8)), t^2),

J being the number of keys: the more keys, the more of what they have to do with each other is left
out by a model; and where cells are spread further around it, the unique ones are rarer than it
says. This is the prior of a new file. Its own records add to it by their matches (`risk.matches`)
in half of the sample: there log k is smaller by `LAG`, give or take `SPREAD_K`, since a smaller
sample tells of commoner cells; d differs by `SPREAD_D`; and the matches of different cells are not
independent of each other as the likelihood takes them to be, so it counts with the power `POWER`.
These four were chosen by the log score of the true tau1 in populations left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64
from unikat.models.calibrated import OVERDISPERSION, SHIFTS


@dataclass(frozen=True, kw_only=True)
class Experience:
    """Parameters of the prior of a model's error."""

    centre: float
    """a: mean of log k with eight keys."""
    slope: float
    """b: of log k over the log of the number of keys."""
    deviation: float
    """s: standard deviation of log k between populations."""
    shift: float
    """m: mean of d."""
    ridge: float
    """r: change of d with log k."""
    shift_deviation: float
    """t: standard deviation of d between populations with the same k."""


EXPERIENCE = Experience(
    centre=-0.717,
    slope=0.423,
    deviation=0.686,
    shift=-0.164,
    ridge=-0.155,
    shift_deviation=0.068,
)
"""Fitted by `benchmarks/calibration.py`."""
FEWEST_KEYS, MOST_KEYS = 4, 10
"""Keys of the samples that were learned from; fewer or more count as so many."""
LAG, SPREAD_K, SPREAD_D, POWER = 0.3, 1.2, 0.04, 0.4


def prior(n_keys: int, experience: Experience = EXPERIENCE) -> Float64:
    """Probability of each overdispersion and shift before the file is seen.

    Parameters
    ----------
    n_keys
        J.
    experience
        From populations of known truth.

    Returns
    -------
    Float64
        (len(OVERDISPERSION), len(SHIFTS)), of sum 1.
    """
    log_k = np.log(OVERDISPERSION)
    within = min(max(n_keys, FEWEST_KEYS), MOST_KEYS)
    centre = experience.centre + experience.slope * math.log(within / 8.0)
    of_k = _normal(log_k, centre, experience.deviation)
    # The shifts are not equally far apart.
    middle = experience.shift + experience.ridge * (log_k - centre)
    of_d = _normal(SHIFTS, middle[:, None], experience.shift_deviation) * np.gradient(SHIFTS)
    joint = of_k[:, None] * of_d / of_d.sum(axis=1, keepdims=True)
    weights: Float64 = joint / joint.sum()
    return weights


def posterior(prior_weights: Float64, matches: Float64) -> Float64:
    """Probability of each overdispersion and shift after the matches were seen.

    Parameters
    ----------
    prior_weights
        From :func:`prior`.
    matches
        Log-likelihood of each pair in half of the sample (`risk.matches`), same shape.

    Returns
    -------
    Float64
        Same shape, of sum 1.
    """
    log_k = np.log(OVERDISPERSION)
    seen = np.exp(POWER * (matches - matches.max()))
    # Rows: k and d of the whole sample; columns: those of its half.
    by_k = _normal(log_k[None, :] + LAG, log_k[:, None], SPREAD_K)
    by_d = _normal(SHIFTS[:, None], SHIFTS[None, :], SPREAD_D) * np.gradient(SHIFTS)
    by_k /= by_k.sum(axis=1, keepdims=True)
    by_d /= by_d.sum(axis=1, keepdims=True)
    weights = prior_weights * (by_k @ seen @ by_d.T)
    normalised: Float64 = weights / weights.sum()
    return normalised


def quantiles(weights: Float64, values: Float64, level: float) -> tuple[float, float, float]:
    """Lower end, median and upper end of one of the two.

    Parameters
    ----------
    weights
        Of `values`, in any unit.
    values
        Ascending.
    level
        Probability of the equal-tailed interval.
    """
    tail = (1.0 - level) / 2.0
    cumulative = np.cumsum(weights) / np.sum(weights)
    places = np.searchsorted(cumulative, (tail, 0.5, 1.0 - tail))
    lower, middle, upper = values[np.minimum(places, len(values) - 1)].tolist()
    return lower, middle, upper


def _normal(values: Float64, mean: float | Float64, deviation: float) -> Float64:
    density: Float64 = np.exp(-0.5 * ((values - mean) / deviation) ** 2)
    return density
