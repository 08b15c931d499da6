"""Success rates of attacks with their intervals, and what they exceed a baseline by."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, NamedTuple

import numpy as np
from pydantic import BeforeValidator, WithJsonSchema
from scipy.special import ndtr, ndtri
from scipy.stats import binomtest

from unikat._typing import Float64, Int32, Int64

AnyHousehold = Int32 | Int64 | None
"""Household of each record, (n,); None: records are independent."""
_LISTED = 16
"""Of so many units or fewer, all signs of their differences are listed."""


LowerEnd = Annotated[
    float,
    BeforeValidator(lambda value: -math.inf if value is None else value),
    WithJsonSchema({"type": ["number", "null"]}),
]
"""An excess over a baseline that may always succeed has no lower end: null in JSON."""


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A share with its interval."""

    value: float
    lower: LowerEnd
    upper: float


class Compared(NamedTuple):
    """Two rates that are compared, and what the first exceeds the second by."""

    attack: Rate
    baseline: Rate
    excess: Rate | None
    """See `excess_of`."""


class Contributions(NamedTuple):
    """What records contribute to a rate, and which of them are not independent."""

    values: Float64
    """(n,): not negative; their mean is at most 1."""
    household: AnyHousehold = None
    """(n,): household of each record; None: records are independent."""
    n_guesses: float | None = None
    """What the mean is a share of; None: of the records."""

    @property
    def share(self) -> float:
        """The rate."""
        return min(float(self.values.mean()), 1.0)

    @property
    def variance(self) -> float:
        """Variance of the rate."""
        return float((self.deviations**2).sum()) / len(self.values) ** 2

    @property
    def deviations(self) -> Float64:
        """Deviations from the mean, by record or summed by household, (n_units,)."""
        return self.by_unit(self.values - self.values.mean())

    def by_unit(self, values: Float64) -> Float64:
        """Sum values of the records by what is independent, (n_units,)."""
        if self.household is None:
            return values
        units = np.unique(self.household, return_inverse=True)[1]
        return np.bincount(units, values).astype(np.float64)


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


def rate_of(found: Contributions, level: float) -> Rate:
    """Mean of what records contribute to a share, with its interval.

    Wilson's interval for as many trials as give the mean the variance that the contributions
    show. Contributions of 0 and 1 of independent records give the usual one.
    """
    n_guesses = len(found.values) if found.n_guesses is None else found.n_guesses
    # Where no guess succeeds, or all do, the contributions do not vary.
    trials = float(np.count_nonzero(found.values)) or float(n_guesses)
    if (variance := found.variance) > 0.0 and 0.0 < found.share < 1.0:
        trials = found.share * (1.0 - found.share) / variance
    return wilson(found.share, trials, level) if trials else Rate(value=0.0, lower=0.0, upper=1.0)


def of_other_records(one: Contributions, other: Contributions, level: float) -> Compared:
    """Compare rates of different records, which are independent."""
    rates = _with_one_variance(one, other, level)
    return Compared(*rates, excess_of(*rates))


def of_same_records(one: Contributions, other: Contributions, level: float) -> Compared:
    """Compare two rates of the same records, such as before and after.

    With d the difference of what a record contributes, the excess counts as more than chance only
    if its sum is improbable were each d, of a household its sum, as often positive as negative: of
    contributions of 0 and 1 that is McNemar's exact test. The interval of the excess, which has
    the correlation of the contributions in it, then reaches down to 0 at least.
    """
    rates = _with_one_variance(one, other, level)
    excess = excess_of(*rates, correlation=_correlation(one, other))
    if excess is not None and excess.lower > 0.0:
        differences = one.by_unit(one.values - other.values)
        if probability_of_signs(differences) > (1.0 - level) / 2.0:
            excess = Rate(value=excess.value, lower=0.0, upper=excess.upper)
    return Compared(*rates, excess)


def probability_of_signs(differences: Float64) -> float:
    """Probability that differences with random signs add up to as much as they do, or more.

    Of differences of one size it is that of McNemar's exact test (1947), else that of all signs,
    listed where there are few, or the test of clustered matched pairs (Durkalski, Palesch, Lipsitz
    and Rust 2003, Statistics in Medicine 22, 2417-2428), sum over root of the sum of squares.

    Examples
    --------
    >>> probability_of_signs(np.array([1.0] * 40)) == 2.0**-40
    True
    """
    some = differences[differences != 0.0]
    size = np.abs(some)
    if not len(some):
        return 1.0
    if np.ptp(size) <= 1e-9 * size.max():
        return float(binomtest(int((some > 0).sum()), len(some), alternative="greater").pvalue)
    if len(some) <= _LISTED:
        bits = (np.arange(2 ** len(some))[:, None] >> np.arange(len(some))) & 1
        sums = (2 * bits - 1) @ size
        return float((sums >= some.sum() - 1e-9 * size.sum()).mean())
    return float(ndtr(-some.sum() / math.sqrt((some**2).sum())))


def _with_one_variance(one: Contributions, other: Contributions, level: float) -> tuple[Rate, Rate]:
    """Two rates that are compared, each with its interval.

    A few records with large contributions make most of the variance. The group without them has
    a mean too small and an interval too narrow, so both have the variance of all records together.
    """
    both = np.concatenate((one.values, other.values))
    share = float(both.mean())
    deviations = [found.by_unit(found.values - share) for found in (one, other)]
    variance = float(sum((part**2).sum() for part in deviations)) / len(both)
    if not (variance > 0.0 and 0.0 < share < 1.0):
        return rate_of(one, level), rate_of(other, level)
    trials = share * (1.0 - share) / variance
    first, second = (
        wilson(found.share, trials * len(found.values), level) for found in (one, other)
    )
    return first, second


def _correlation(one: Contributions, other: Contributions) -> float:
    """Correlation of two rates of the same records, with the correction of Newcombe.

    Newcombe (1998, Statistics in Medicine 17, 2635-2650, method 10) takes n/2 from the product of
    the counts that agree, so that equal rates do not make the interval of their difference a point.
    """
    first, second = one.deviations, other.deviations
    spread = math.sqrt(float((first**2).sum()) * float((second**2).sum()))
    if spread <= 0.0:
        return 0.0
    found = float(first @ second) / spread
    shares = [one.share * (1.0 - one.share), other.share * (1.0 - other.share)]
    if found <= 0.0 or min(shares) <= 0.0:
        return found
    # Of 0 and 1 and independent records, `spread` is n times the root of both variances.
    return max(found - spread / (2.0 * len(one.values) ** 2 * shares[0] * shares[1]), 0.0)


def excess_of(attack: Rate, baseline: Rate, correlation: float = 0.0) -> Rate | None:
    """Return (attack - baseline) / (1 - baseline): success where the baseline fails.

    It is 1 less the ratio of the failures, whose interval is made of those of both rates. They are
    independent if they are of different records (Donner and Zou 2012, Statistical Methods in
    Medical Research 21, 347-359, eq. 9); else the square of a limit of their difference has the
    term of the correlation (Zou and Donner 2008, Statistics in Medicine 27, 1693-1702).
    None if the baseline always succeeds.
    """
    failure, other = (
        (1.0 - rate.upper, 1.0 - rate.value, 1.0 - rate.lower) for rate in (attack, baseline)
    )
    if other[1] <= 0.0:
        return None
    # The larger the ratio of the failures, the smaller the excess.
    largest = _quadratic(failure[1], failure[2], other[1], other[0], correlation)
    smallest = _quadratic(failure[1], failure[0], other[1], other[2], correlation)
    divisor = smallest.half + smallest.root
    return Rate(
        value=1.0 - failure[1] / other[1],
        lower=-math.inf
        if largest.square <= 0.0
        else 1.0 - (largest.half + largest.root) / largest.square,
        upper=1.0 - max(smallest.constant, 0.0) / divisor if divisor > 0.0 else 1.0,
    )


class _Quadratic(NamedTuple):
    """A limit x of a ratio solves square x^2 - 2 half x + constant = 0."""

    square: float
    half: float
    constant: float

    @property
    def root(self) -> float:
        """Half the distance of its solutions, times `square`."""
        return math.sqrt(max(self.half**2 - self.square * self.constant, 0.0))


def _quadratic(
    one: float, end: float, two: float, other_end: float, correlation: float
) -> _Quadratic:
    """Equation of a limit of one / two, given the end of the interval of each it depends on."""
    return _Quadratic(
        other_end * (2.0 * two - other_end),
        one * two - correlation * abs(end - one) * abs(other_end - two),
        end * (2.0 * one - end),
    )


def nearer_of(
    ours: Float64,
    theirs: Float64,
    level: float,
    households: tuple[AnyHousehold, AnyHousehold] = (None, None),
) -> Rate:
    """Probability that one of ours is smaller than one of theirs, ties counted half.

    The interval is that of DeLong, DeLong and Clarke-Pearson (1988).

    Parameters
    ----------
    ours, theirs
        (n_files, n), (n_files, m): averages over the files are compared.
    level
        Probability of the interval.
    households
        Household of each of ours, (n,), and of theirs, (m,); None: records are independent.
    """
    smaller = np.mean([_below(a, b) for a, b in zip(ours, theirs, strict=True)], axis=0)
    larger = np.mean([1.0 - _below(b, a) for a, b in zip(ours, theirs, strict=True)], axis=0)
    value = float(smaller.mean())
    variance = sum(
        Contributions(one, household).variance
        for one, household in zip((smaller, larger), households, strict=True)
    )
    half = float(ndtri(0.5 + level / 2.0)) * math.sqrt(variance)
    return Rate(value=value, lower=max(value - half, 0.0), upper=min(value + half, 1.0))


def _below(values: Float64, others: Float64) -> Float64:
    """Share of the others above each value, ties counted half, (n,)."""
    ordered = np.sort(others)
    below = np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")
    share: Float64 = 1.0 - below / (2.0 * len(ordered))
    return share
