"""Success rates of attacks with their intervals, and what they exceed a baseline by."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from unikat._typing import Float64


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A share with its interval."""

    value: float
    lower: float
    upper: float


def wilson(share: float, n: float, level: float) -> Rate:
    """Wilson's score interval of a share of n trials (Wilson 1927).

    Examples
    --------
    >>> found = wilson(0.0, 100, 0.95)
    >>> round(found.upper, 3)
    0.037
    """
    z = float(ndtri(0.5 + level / 2.0))
    middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n)
    half = z / (1.0 + z * z / n) * math.sqrt(share * (1.0 - share) / n + z * z / (4.0 * n * n))
    return Rate(
        value=share, lower=max(min(middle - half, share), 0.0), upper=min(middle + half, 1.0)
    )


def rate_of(contributions: Float64, level: float, n_guesses: float | None = None) -> Rate:
    """Mean of what records contribute to a share, with its interval.

    Wilson's interval for as many trials as give the mean the variance that the contributions
    show. Contributions of 0 and 1 give the usual one.

    Parameters
    ----------
    contributions
        (n,): not negative; their mean is at most 1.
    level
        Probability of the interval.
    n_guesses
        What the mean is a share of; None: of the records.
    """
    n = len(contributions)
    share = min(float(contributions.mean()), 1.0)
    variance = float(contributions.var()) / n
    # Where no guess succeeds, or all do, the contributions do not vary.
    trials = float(np.count_nonzero(contributions)) or float(n if n_guesses is None else n_guesses)
    if variance > 0.0 and 0.0 < share < 1.0:
        trials = share * (1.0 - share) / variance
    return wilson(share, trials, level) if trials else Rate(value=0.0, lower=0.0, upper=1.0)


def rates_of(
    one: Float64,
    other: Float64,
    level: float,
    n_guesses: tuple[float, float] | None = None,
) -> tuple[Rate, Rate]:
    """Two rates that are compared, each with its interval; parameters are those of `rate_of`.

    A few records with large contributions make most of the variance. The group without them has
    a mean too small and an interval too narrow, so both have the variance of all records together.
    """
    joined = np.concatenate((one, other))
    share, variance = float(joined.mean()), float(joined.var())
    if not (variance > 0.0 and 0.0 < share < 1.0):
        guesses = (None, None) if n_guesses is None else n_guesses
        return rate_of(one, level, guesses[0]), rate_of(other, level, guesses[1])
    trials = share * (1.0 - share) / variance
    first, second = (
        wilson(min(float(part.mean()), 1.0), trials * len(part), level) for part in (one, other)
    )
    return first, second


def excess_of(attack: Rate, baseline: Rate) -> Rate | None:
    """Return (attack - baseline) / (1 - baseline): success where the baseline fails.

    It is 1 less the ratio of the failures, whose interval is made of those of both rates, which are
    independent (Donner and Zou 2012, Statistical Methods in Medical Research 21, 347-359, eq. 9).
    None if the baseline always succeeds.
    """
    failure = (1.0 - attack.upper, 1.0 - attack.value, 1.0 - attack.lower)
    other = (1.0 - baseline.upper, 1.0 - baseline.value, 1.0 - baseline.lower)
    if other[1] <= 0.0:
        return None
    return Rate(
        value=1.0 - failure[1] / other[1],
        lower=1.0 - _ratio_limit(failure[1], failure[2], other[1], other[0], +1.0),
        upper=1.0 - _ratio_limit(failure[1], failure[0], other[1], other[2], -1.0),
    )


def _ratio_limit(one: float, end: float, two: float, other_end: float, sign: float) -> float:
    """Limit of one / two, given the end of the interval of each that it depends on."""
    below = other_end * (2.0 * two - other_end)
    if below <= 0.0:
        return math.inf
    root = (one * two) ** 2 - end * (2.0 * one - end) * below
    return max(one * two + sign * math.sqrt(max(root, 0.0)), 0.0) / below


def nearer_of(ours: Float64, theirs: Float64, level: float) -> Rate:
    """Probability that one of ours is smaller than one of theirs, ties counted half.

    The interval is that of DeLong, DeLong and Clarke-Pearson (1988).

    Parameters
    ----------
    ours, theirs
        (n_files, n), (n_files, m): averages over the files are compared.
    level
        Probability of the interval.
    """
    smaller = np.mean([_below(a, b) for a, b in zip(ours, theirs, strict=True)], axis=0)
    larger = np.mean([1.0 - _below(b, a) for a, b in zip(ours, theirs, strict=True)], axis=0)
    value = float(smaller.mean())
    variance = sum(float(one.var()) / len(one) for one in (smaller, larger))
    half = float(ndtri(0.5 + level / 2.0)) * math.sqrt(variance)
    return Rate(value=value, lower=max(value - half, 0.0), upper=min(value + half, 1.0))


def _below(values: Float64, others: Float64) -> Float64:
    """Share of the others above each value, ties counted half, (n,)."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    share: Float64 = 1.0 - below / (2.0 * len(ordered))
    return share
