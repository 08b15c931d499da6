"""A scaling law of identification: from correctness in small populations to uniqueness in large.

Rocher, Hendrickx and de Montjoye (2025, *Nature Communications* 16, 347) take the persons of a
population for draws from a Pitman-Yor process with discount d and strength alpha. The share of n
persons who are alone with what is known of them is on average

    uniqueness(n) = Gamma(1 + alpha) Gamma(n + d + alpha - 1) / (Gamma(d + alpha) Gamma(n + alpha)),

and correctness(n), the share whom an intruder identifies who picks one of those that match, is the
number of different combinations over n:

    correctness(n) = (Gamma(1 + alpha) Gamma(n + d + alpha)
                      / (Gamma(d + alpha) Gamma(n + alpha)) - alpha) / (n d).

A person is the first with a combination as often as the last one of so many is alone, so
correctness(n) is the mean of uniqueness(1), ..., uniqueness(n). It is computed so: no numbers
cancel. The two parameters are those whose curve is nearest to correctness observed at small
n, squared differences weighted by log n, as the authors do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, gammaln, logit, poch

from unikat._typing import Float64, Int64

N_SIZES = 20
"""Sizes at which a sample's correctness is looked at, evenly spaced by their logarithm."""
STARTS = (0.1, 0.5, 0.9)
"""Discounts from which the nearest curve is looked for."""


class Law(NamedTuple):
    """Parameters of a Pitman-Yor process."""

    discount: float
    """d, 0 to 1."""
    strength: float
    """alpha, above 0."""

    def uniqueness(self, n: float) -> float:
        """Expected share of n persons who are alone."""
        d, alpha = self
        return float(poch(alpha + d, 1.0 - d) / poch(alpha + d + (n - 1.0), 1.0 - d))

    def correctness(self, sizes: Int64) -> Float64:
        """Expected share of n persons who are identified, for each of some sizes, (n_sizes,)."""
        d, alpha = self
        before = np.arange(int(sizes.max()) - 1)
        alone = np.cumprod((alpha + d + before) / (alpha + 1.0 + before))
        different = 1.0 + np.concatenate(([0.0], np.cumsum(alone)))
        return different[sizes - 1] / sizes


def nearest_law(sizes: Int64, observed: Float64) -> Law:
    """Find the law whose correctness is nearest to what was observed.

    Parameters
    ----------
    sizes
        (n_sizes,) numbers of persons, at least 1.
    observed
        (n_sizes,) correctness among so many.

    Examples
    --------
    >>> law = nearest_law(np.array([1, 10, 100]), np.array([1.0, 0.99, 0.95]))
    >>> law.correctness(np.array([1_000])).round(2).tolist()
    [0.88]
    """
    weights = np.log(sizes)

    def law(place: Float64) -> Law:
        return Law(float(expit(place[0])), float(np.exp(np.clip(place[1], -30.0, 30.0))))

    def distance(place: Float64) -> float:
        return float((weights * (law(place).correctness(sizes) - observed) ** 2).mean())

    found = [
        minimize(
            distance,
            (logit(start), 0.5 * np.log(sizes.max())),
            method="Nelder-Mead",
            options={"xatol": 1e-6, "fatol": 1e-16, "maxiter": 2_000, "maxfev": 2_000},
        )
        for start in STARTS
    ]
    return law(min(found, key=lambda one: one.fun).x)


def expected_correctness(counts: Int64, sizes: Int64) -> Float64:
    """Mean correctness among some of the records of a sample, drawn without replacement.

    Parameters
    ----------
    counts
        (n_classes,) records that share their keys.
    sizes
        (n_sizes,) numbers of records that are drawn.
    """
    n = int(counts.sum())
    size, times = np.unique(counts, return_counts=True)
    left, drawn = (n - size)[:, None], sizes[None, :]
    # None of a class is drawn with the probability C(n - size, m) / C(n, m).
    with np.errstate(invalid="ignore"):
        chance = gammaln(left + 1) - gammaln(left - drawn + 1) + gammaln(n - drawn + 1)
    none = np.where(drawn > left, 0.0, np.exp(chance - gammaln(n + 1)))
    different: Float64 = times @ (1.0 - none)
    return different / sizes
