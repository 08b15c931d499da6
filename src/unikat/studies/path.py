"""The value of a model's option from which on the risk estimate has stabilised.

Manrique-Vallier and Reiter (2012, section 4) fit grade-of-membership models with more and more
profiles K and take the smallest K from which on the estimate of tau1 no longer changes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

SIZES = frozenset({"components"})
"""Options that are the size of a model and only have to be large enough; of any other option, such
as a prior, no value is right because the estimate no longer changes."""
RELATIVE = 0.05
"""Difference of the means that is too small to matter, as a share of the larger one."""
DEVIATIONS = 0.5
"""The same in posterior standard deviations, the smaller one of the two."""
SPAN = 0.5
"""Part of its own value by which the path must go on beyond a value that is chosen..."""
SPAN_ALONE = 1.0
"""...by more than so much where one larger value alone speaks for it."""
LEAST_ESS = 100.0
"""Effective draws that are counted at least, so that noise cannot pass for agreement."""


@dataclass(frozen=True, kw_only=True)
class PathPoint:
    """The estimate at one value of the option."""

    value: float
    mean: float
    """Posterior mean of tau1."""
    deviation: float
    """Its posterior standard deviation."""
    ess: float
    """Effective draws of the mean (bulk); NaN where not known."""


def agree(one: PathPoint, other: PathPoint) -> bool:
    """Return whether two estimates are the same for all practical purposes.

    The means may differ by the larger of 5% of the larger mean and half of the smaller posterior
    standard deviation, plus twice the Monte Carlo standard error of the difference,

        |m1 - m2| <= max(0.05 max(m1, m2), 0.5 min(s1, s2)) + 2 sqrt(s1^2/E1 + s2^2/E2),

    the effective draws E being counted as at least 100.

    Examples
    --------
    >>> point = PathPoint(value=5, mean=50.0, deviation=4.0, ess=400.0)
    >>> agree(point, PathPoint(value=10, mean=52.5, deviation=4.0, ess=400.0))
    True
    >>> agree(point, PathPoint(value=10, mean=56.0, deviation=4.0, ess=400.0))
    False
    """
    matters = max(
        RELATIVE * max(abs(one.mean), abs(other.mean)),
        DEVIATIONS * min(one.deviation, other.deviation),
    )
    noise = 2.0 * math.sqrt(sum(p.deviation**2 / max(LEAST_ESS, p.ess) for p in (one, other)))
    return abs(one.mean - other.mean) <= matters + noise


def stabilised(points: Sequence[PathPoint]) -> float | None:
    """Return the smallest value from which on the estimate has stabilised.

    That is the smallest value v whose estimate agrees (:func:`agree`) with that of *every* larger
    value of the path, if the path tells enough beyond v: two or more larger values of which the
    largest is at least 1.5 v (beyond 20, to 30 or more), or a single one that is more than 2 v. So
    neither the small steps of a slow drift nor two neighbouring values are taken for rest. If no
    value qualifies, the path has not stabilised, or ends too early to tell.

    Returns
    -------
    float or None
        None if the estimate still changes at the end of the path, or that is too early to tell.

    Examples
    --------
    >>> means = {2: 90.0, 5: 60.0, 10: 52.0, 20: 51.0, 30: 51.5}
    >>> stabilised(
    ...     [PathPoint(value=k, mean=m, deviation=4.0, ess=400.0) for k, m in means.items()]
    ... )
    10
    """
    ordered = sorted(points, key=lambda point: point.value)
    for position, point in enumerate(ordered[:-1]):
        larger = ordered[position + 1 :]
        beyond, own = larger[-1].value - point.value, abs(point.value)
        enough = beyond >= SPAN * own if len(larger) > 1 else beyond > SPAN_ALONE * own
        if enough and all(agree(point, other) for other in larger):
            return point.value
    return None
