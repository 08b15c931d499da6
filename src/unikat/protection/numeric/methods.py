"""Methods for continuous variables: coding of ends, rounding, noise and rank swapping.

Each takes the columns of an entry as (n, n_columns), NaN where missing, and returns them changed; a
missing value stays missing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from unikat._typing import Float64, Int64
from unikat.errors import SpecError, option
from unikat.kernels.microaggregation import swap_partners
from unikat.protection.numeric.microaggregation import microaggregated
from unikat.spec.numeric import AS_IT_IS, Method

FEWEST = 3
"""Records whose mean may be published: of two, each knows the other."""


def changed(values: Float64, method: Method, by: Int64, generator: np.random.Generator) -> Float64:
    """Carry out a method.

    Parameters
    ----------
    values
        (n, n_columns).
    method
        What is to be done.
    by
        (n,): group of each record, within which it microaggregates; -1 where it is not known.
    generator
        For methods that draw.
    """
    if method.name == AS_IT_IS:
        return values
    if method.name == "microaggregate":
        return microaggregated(values, int(method.amount), by)
    if method.name == "noise":
        return with_noise(values, method, generator)
    one: Callable[[Float64, Method, np.random.Generator], Float64]
    one = {"round": rounded, "swap": rank_swapped}.get(method.name, end_coded)
    found = values.copy()
    for column in found.T:
        known = np.isfinite(column)
        column[known] = one(column[known], method, generator)
    return found


def end_coded(values: Float64, method: Method, _: np.random.Generator) -> Float64:
    """Replace what lies beyond a bound by its mean, as the US Census Bureau does, or by the bound.

    The mean leaves the mean of the column as it is; the bound tells nothing of those beyond. A
    percentage is a percentile of the records: the smallest value with at least so many of them up
    to it.

    Examples
    --------
    >>> income = np.array([1.0, 2.0, 3.0, 10.0, 20.0, 30.0])
    >>> end_coded(income, Method.of("top(50%)"), np.random.default_rng()).tolist()
    [1.0, 2.0, 3.0, 20.0, 20.0, 20.0]
    >>> end_coded(income, Method.of("bottom(2, bound)"), np.random.default_rng()).tolist()
    [2.0, 2.0, 3.0, 10.0, 20.0, 30.0]
    """
    bound = method.amount
    if method.percent and len(values):
        bound = float(np.quantile(values, bound / 100.0, method="inverted_cdf"))
    beyond = values > bound if method.name == "top" else values < bound
    if method.variant == "bound" or not beyond.any():
        return np.where(beyond, bound, values)
    if beyond.sum() < FEWEST:
        raise SpecError(
            f"{option('numeric')}, {method}: {beyond.sum()} record(s) lie beyond the bound, and a "
            f"mean of fewer than {FEWEST} may tell their values. Move the bound, or take the bound "
            f"itself: {method._replace(variant='bound')}."
        )
    return np.where(beyond, values[beyond].mean(), values)


def rounded(values: Float64, method: Method, generator: np.random.Generator) -> Float64:
    """Round to multiples of the amount: to the nearest, or at random without bias.

    At random a value goes up with the probability that leaves its expectation as it is.

    Examples
    --------
    >>> rounded(np.array([149.0, 150.0, 151.0]), Method.of("round(100)"), None).tolist()
    [100.0, 200.0, 200.0]
    """
    base = method.amount
    if method.variant == "nearest":
        return base * np.rint(values / base)
    low = np.floor(values / base)
    return base * (low + (generator.random(len(values)) < values / base - low))


def with_noise(values: Float64, method: Method, generator: np.random.Generator) -> Float64:
    r"""Add normal noise that has the correlations of the columns.

    .. math:: z = x + e, \qquad e \sim N(0, a^2 \Sigma),

    a the amount and :math:`\Sigma` the covariance of the data, by complete records. `preserving`
    draws the sum to the mean, :math:`\bar{x} + (z - \bar{x}) / \sqrt{1 + a^2}`, so that means and
    covariances stay as they are in expectation (Kim 1986, *A method for limiting disclosure in
    microdata based on random noise and transformation*, Proceedings of the Survey Research
    Methods Section, American Statistical Association).
    """
    mean, scale = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    complete = values[np.isfinite(values).all(axis=1)]
    root = np.eye(values.shape[1])
    if values.shape[1] > 1 and len(complete) > values.shape[1]:
        spread = complete.std(axis=0)
        unit = (complete - complete.mean(axis=0)) / np.where(spread > 0.0, spread, 1.0)
        # Columns that determine each other have a correlation matrix without full rank.
        sizes, axes = np.linalg.eigh(unit.T @ unit / len(complete))
        root = (axes * np.sqrt(np.maximum(sizes, 0.0))).T
    size = method.amount / 100.0
    noisy: Float64 = values + size * scale * (generator.standard_normal(values.shape) @ root)
    if method.variant == "preserving":
        noisy = mean + (noisy - mean) / np.sqrt(1.0 + size**2)
    return noisy


def rank_swapped(values: Float64, method: Method, generator: np.random.Generator) -> Float64:
    """Let values exchange places with others whose rank is at most so many percent away.

    Moore 1996, *Controlled data-swapping techniques for masking public use microdata sets*, US
    Census Bureau SRD report 96-04. The values of the column stay as they are; equal ones have ranks
    in random order.
    """
    n = len(values)
    order = np.lexsort((generator.random(n), values))
    width = max(1, int(n * method.amount / 100.0))
    found = np.empty(n)
    found[order] = values[order][swap_partners(generator.random(n), width)]
    return found
