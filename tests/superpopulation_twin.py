"""Slow twins of the superpopulation models, from the equations alone, in NumPy and SciPy.

Symbols are those of Polettini and Stander. Nothing here imports a kernel.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special, stats

Array = NDArray[Any]

_X, _W = np.polynomial.legendre.leggauss(40)
_PANELS = np.linspace(-200.0, 200.0, 401)
_U = (_PANELS[:-1, None] + 0.5 * (_X + 1.0)).ravel()
_WEIGHTS = np.tile(0.5 * _W, 400)


def mean_over_p(a: float, b: float, function: Callable[[Array], Array]) -> float:
    """Mean of a function of p over p ~ Beta(a, b), by Gauss-Legendre in panels of logit p."""
    log_density = -a * np.logaddexp(0.0, -_U) - b * np.logaddexp(0.0, _U) - special.betaln(a, b)
    return float(np.sum(_WEIGHTS * np.exp(log_density) * function(special.expit(_U))))


def negative_binomial(f: float, alpha: float, odds: Array) -> Array:
    """Equation (7): f given p, odds = N p / (K alpha)."""
    return stats.nbinom.pmf(f, alpha, 1.0 / (1.0 + odds))


def chance_of_count(f: int, alpha: float, a: float, b: float, s: float) -> float:
    """P(f): equation (7) averaged over p."""
    return mean_over_p(a, b, lambda p: negative_binomial(f, alpha, s * p))


def chance_of_size(
    sizes: Array, f: int, alpha: float, a: float, b: float, s: float, misprint: bool = False
) -> Array:
    """P(F | f) up to F's largest: Bayes' theorem with P(F) and P(f | F), the first in closed form.

    misprint: with p^(alpha + f - 1) in the place of p^(a + f - 1), as the paper prints it.
    """
    prior = stats.nbinom.pmf(sizes, alpha, 1.0 / (1.0 + s))
    first = alpha if misprint else a
    log_chance = special.gammaln(sizes + 1) - special.gammaln(f + 1)
    log_chance -= special.gammaln(sizes - f + 1)
    log_chance += special.betaln(first + f, b + sizes - f) - special.betaln(first, b)
    found = prior * np.exp(log_chance)
    return found / found.sum()


def hierarchy(
    rng: np.random.Generator, n: int, alpha: float, a: float, b: float, N: float, K: float
) -> tuple[Array, Array]:
    """F and f of n cells, drawn step by step."""
    pi = rng.gamma(alpha, 1.0 / (K * alpha), n)
    sizes = rng.poisson(N * pi)
    return sizes, rng.binomial(sizes, rng.beta(a, b, n))


def log_likelihood_1(counts: Array, K: int, alpha: float, a: float, b: float, N: float) -> float:
    """All K cells of Model I; counts: of those that are not empty."""
    s = N / (K * alpha)
    empty = math.log(chance_of_count(0, alpha, a, b, s))
    each = {int(f): math.log(chance_of_count(int(f), alpha, a, b, s)) for f in np.unique(counts)}
    return sum(each[int(f)] for f in counts) + (K - len(counts)) * empty


def log_likelihood_2(
    counts: Array, rates: Array, points: Array, chances: Array, K: int, alpha: float, a: float,
    gamma: float, N: float,
) -> float:  # fmt: skip
    """All K cells of Model II (Distribution 3); an empty cell has one of the points as its rate."""
    s = N / (K * alpha)
    value = sum(
        math.log(gamma * chance_of_count(int(f), alpha, a * rate, a * (1.0 - rate), s))
        for f, rate in zip(counts, rates, strict=True)
    )
    empty = sum(
        chance * chance_of_count(0, alpha, a * rate, a * (1.0 - rate), s)
        for rate, chance in zip(points, chances, strict=True)
    )
    return value + (K - len(counts)) * math.log(gamma * empty + 1.0 - gamma)
