"""Combining rules: one inference from the estimates of several data sets.

Of data set l = 1 .. L there are an estimate q_l and its variance u_l. With q and u their means and
b = sum (q_l - q)^2 / (L - 1),

    partially synthetic   T = u + b / L             df = (L - 1) (1 + u L / b)^2
    fully synthetic       T = (1 + 1/L) b - u       df = (L - 1) (1 - u / ((1 + 1/L) b))^2
    multiple imputation   T = u + (1 + 1/L) b       df = (L - 1) (1 + u / ((1 + 1/L) b))^2

and (q - Q) / sqrt(T) is about t distributed.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from unikat._typing import Float64
from unikat.errors import SpecError, shown


class Combined(NamedTuple):
    """An inference from several data sets.

    Examples
    --------
    >>> import unikat
    >>> found = unikat.combine_partially_synthetic([0.30, 0.32, 0.34], [0.01, 0.01, 0.01])
    >>> round(found.lower, 2), round(found.estimate, 2), round(found.upper, 2)
    (0.12, 0.32, 0.52)
    """

    estimate: float
    """Mean of the estimates."""
    variance: float
    df: float
    """Degrees of freedom of the t distribution; infinite where the data sets agree."""
    lower: float
    upper: float


def combine_partially_synthetic(
    estimates: ArrayLike, variances: ArrayLike, level: float = 0.95
) -> Combined:
    """Combine partially synthetic data sets (Reiter 2003, equations 3 and 4).

    It also holds for data sets all of whose values are drawn, with as many records as the sample
    has: there T has the same mean as that of fully synthetic data, is never negative and varies
    less (Raab, Nowok and Dibben 2016).

    Parameters
    ----------
    estimates, variances
        (L,) each, L at least 2; the variance of each estimate as if its data set were real, not
        negative.
    level
        Probability of the interval, between 0 and 1.

    Raises
    ------
    SpecError
        If there are fewer than two data sets, or a number is out of range.

    Examples
    --------
    >>> found = combine_partially_synthetic([0.30, 0.32, 0.34], [0.01, 0.01, 0.01])
    >>> round(found.estimate, 2), round(found.variance, 6)
    (0.32, 0.010133)
    """
    q, u, b, n = _moments(estimates, variances, level)
    df = math.inf if b == 0.0 else (n - 1) * (1.0 + u * n / b) ** 2
    return _combined(q, u + b / n, df, level)


def combine_fully_synthetic(
    estimates: ArrayLike, variances: ArrayLike, level: float = 0.95, *, size_ratio: float = 1.0
) -> Combined:
    """Combine fully synthetic data sets (Raghunathan, Reiter and Rubin 2003, section 3).

    Where T is not positive it is replaced by `size_ratio` u (Reiter 2002, section 2), with no bound
    on the degrees of freedom.

    Parameters
    ----------
    estimates, variances, level
        As of `combine_partially_synthetic`.
    size_ratio
        Records of a synthetic data set over those of the sample.

    Raises
    ------
    SpecError
        As `combine_partially_synthetic`; and if the ratio is not positive and finite.

    Examples
    --------
    >>> found = combine_fully_synthetic([0.30, 0.50, 0.40], [0.01, 0.01, 0.01])
    >>> round(found.variance, 6), round(found.df, 3)
    (0.003333, 0.125)
    """
    q, u, b, n = _moments(estimates, variances, level)
    if not 0.0 < size_ratio < math.inf:
        raise SpecError(f"size_ratio is {shown(size_ratio)}; it must be positive and finite.")
    between = (1.0 + 1.0 / n) * b
    if between <= u:
        return _combined(q, size_ratio * u, math.inf, level)
    return _combined(q, between - u, (n - 1) * (1.0 - u / between) ** 2, level)


def combine_imputed(estimates: ArrayLike, variances: ArrayLike, level: float = 0.95) -> Combined:
    """Combine multiply imputed data sets (Rubin 1987, equations 3.1.2 to 3.1.7).

    Parameters, errors
        As of `combine_partially_synthetic`.

    Examples
    --------
    >>> round(combine_imputed([0.30, 0.32, 0.34], [0.01, 0.01, 0.01]).variance, 6)
    0.010533
    """
    q, u, b, n = _moments(estimates, variances, level)
    between = (1.0 + 1.0 / n) * b
    df = math.inf if between == 0.0 else (n - 1) * (1.0 + u / between) ** 2
    return _combined(q, u + between, df, level)


def _moments(
    estimates: ArrayLike, variances: ArrayLike, level: float
) -> tuple[float, float, float, int]:
    """Mean estimate, mean variance, variance of the estimates, and number of data sets."""
    q: Float64 = np.asarray(estimates, np.float64)
    u: Float64 = np.asarray(variances, np.float64)
    if q.ndim != 1 or q.shape != u.shape or len(q) < 2:
        raise SpecError(
            "The rules combine at least two data sets: give an estimate and its variance for each, "
            f"not shapes {q.shape} and {u.shape}."
        )
    if not (np.isfinite(q).all() and np.isfinite(u).all() and (u >= 0.0).all()):
        raise SpecError("Estimates and variances must be finite, and variances not negative.")
    if not 0.0 < level < 1.0:
        raise SpecError(f"level is {shown(level)}; it must be between 0 and 1.")
    return float(q.mean()), float(u.mean()), float(q.var(ddof=1)), len(q)


def _combined(estimate: float, variance: float, df: float, level: float) -> Combined:
    from scipy.stats import norm, t

    at = 0.5 + level / 2
    far = float(norm.ppf(at) if math.isinf(df) else t.ppf(at, df))
    half = far * math.sqrt(variance) if variance > 0.0 else 0.0
    return Combined(estimate, variance, df, estimate - half, estimate + half)
