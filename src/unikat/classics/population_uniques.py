"""How many units of the population are unique, from the sizes of the sample's classes alone.

A class is the records that share their keys. c_j classes of the sample have j records, and u in
all; n is the number of records, N of units, f = n / N. S_1 is the number of classes of the
population with one unit. The estimators know nothing of the keys, and take the records to be a
simple random sample: weights and strata are not used.

They count the uniques among *all* units, which is not tau1. Under simple random sampling a unique
of the population is in the sample with probability f, so that f S_1 is a crude estimate of those in
the sample; it is given beside each estimate.

An estimate that does not exist is NaN, with the reason in words.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import poch

from unikat._typing import Float64
from unikat.classics.histogram import Histogram, Uniques
from unikat.classics.sums import falling_root, reciprocals, spaced, stirling, weighted
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.zeros.diagram import n_possible

Classes: TypeAlias = Literal["modified-shlosser", "shlosser"]
"""Estimate of the number of the population's classes."""
Fit: TypeAlias = Literal["likelihood", "moments"]
"""How Bethlehem's law is fitted."""

LOW_FRACTION = 0.1
"""Up to this sampling fraction Dankar's rule takes Pitman's model."""
MOST_EVEN = 1e6
"""A gamma law with a greater shape has no variance that numbers of records could tell."""


def pitman(
    sizes: ArrayLike, classes: ArrayLike, population_size: int, *, asymptotic: bool = False
) -> Uniques:
    """Pitman's sampling formula, by maximum likelihood (Hoshino 2001).

    The sizes of the classes have, with 0 <= alpha < 1 and theta > -alpha, the probability

        prod_{i=1}^{u-1} (theta + i alpha) / prod_{i=1}^{n-1} (theta + i)
            * prod_j (prod_{i=1}^{j-1} (i - alpha))^{c_j}

    up to a constant. For each alpha one theta solves the likelihood equation, between two values
    where it has opposite signs; so does alpha along these theta, or the maximum is at alpha = 0,
    which is Ewens's formula. If no class has three records the likelihood hardly tells alpha. Sums
    are digamma functions, so n may be large. Then

        E S_1 = N Gamma(theta + 1) Gamma(theta + alpha + N - 1)
                  / (Gamma(theta + alpha) Gamma(theta + N)).

    Parameters
    ----------
    sizes
        (n_sizes,) sizes j of the sample's classes, each once.
    classes
        (n_sizes,) number c_j of classes of each size.
    population_size
        N, at least the number of records.
    asymptotic
        Use the limit Gamma(theta + 1) / Gamma(theta + alpha) N^alpha of the expectation, as ARX
        does. It is higher unless theta is small, and may be above N: then there is no estimate.

    Returns
    -------
    Uniques
        With the parameters ``theta`` and ``alpha``. NaN if no class or every class has size 1, or
        n = N.

    Raises
    ------
    DataError
        If the arrays are no histogram.
    SpecError
        If N is smaller than the number of records.

    Examples
    --------
    >>> found = pitman([1, 2, 3, 9], [40, 12, 5, 2], 5_000)
    >>> round(found.estimate), round(found.parameters["alpha"], 2)
    (198, 0.35)
    """
    h = Histogram.of(sizes, classes, population_size)
    if h.problem:
        return h.none("pitman")
    delta, alpha = _pitman_fit(h)
    # Gamma(theta + 1) / Gamma(theta + alpha); the ratio at N is of like form, without cancelling.
    estimate = poch(delta, 1.0 - alpha)
    if asymptotic:
        estimate *= float(population_size) ** alpha
    else:
        estimate *= population_size / poch(delta + (population_size - 1.0), 1.0 - alpha)
    fitted = {"theta": delta - alpha, "alpha": alpha}
    if asymptotic and estimate > population_size:
        return h.none(
            "pitman", "The limit of the expectation is above N; N is too small.", **fitted
        )
    return h.found("pitman", float(estimate), **fitted)


def _pitman_fit(h: Histogram) -> tuple[float, float]:
    """Return theta + alpha, which is positive, and alpha, of the highest likelihood."""
    rises, steps = h.u - 1.0, h.n - 1.0

    def theta_score(delta: float, alpha: float) -> float:
        return spaced(delta, alpha, rises) - float(reciprocals(delta + 1.0 - alpha, steps))

    def best_delta(alpha: float) -> float:
        # As delta rises the first sum falls from infinity, and at last, u < n, below the second.
        return falling_root(lambda x: theta_score(x, alpha), 1.0)

    def alpha_score(alpha: float) -> float:
        delta = best_delta(alpha)
        within = float(h.classes @ reciprocals(1.0 - alpha, h.sizes - 1.0))
        past = float(reciprocals(delta + 1.0 - alpha, steps))
        return weighted(delta, alpha, rises) + past - within

    if alpha_score(0.0) <= 0.0:
        return best_delta(0.0), 0.0
    # Towards alpha = 1 the score falls to minus infinity, as classes of two or more exist.
    gap = 0.5
    while alpha_score(1.0 - gap) > 0.0:
        gap /= 4.0
    alpha = float(brentq(alpha_score, 0.0, 1.0 - gap, xtol=1e-15, rtol=1e-14))
    return best_delta(alpha), alpha


def zayatz(sizes: ArrayLike, classes: ArrayLike, population_size: int) -> Uniques:
    """Estimate of Zayatz (1991): the population's classes are as large as the sample's.

    With p_j = c_j / u as the share of the population's classes that have j units,

        P(F = 1 | f = 1) = p_1 P(f = 1 | F = 1) / sum_j p_j P(f = 1 | F = j),
        S_1 = c_1 P(F = 1 | f = 1) N / n,

    where P(f = 1 | F = j) is hypergeometric: one of n draws from N falls on the j units. Since
    classes of the sample are smaller than those of the population, it runs high where f is small.

    Parameters
    ----------
    sizes, classes, population_size
        As in :func:`pitman`.

    Returns
    -------
    Uniques
        With the parameter ``conditional``, P(F = 1 | f = 1). NaN as for :func:`pitman`.

    Raises
    ------
    DataError, SpecError
        As :func:`pitman`.

    Examples
    --------
    >>> found = zayatz([1, 2, 3, 9], [40, 12, 5, 2], 5_000)
    >>> round(found.estimate), round(found.parameters["conditional"], 3)
    (883, 0.428)
    """
    h = Histogram.of(sizes, classes, population_size)
    if h.problem:
        return h.none("zayatz")
    chances = _one_drawn(h)
    conditional = h.of_size(1) * h.fraction / float(h.classes @ chances)
    estimate = h.of_size(1) * conditional / h.fraction
    return h.found("zayatz", estimate, conditional=conditional)


def _one_drawn(h: Histogram) -> Float64:
    """P(f = 1 | F = j) for each size: j f prod_{i=0}^{j-2} (N - n - i) / (N - 1 - i)."""
    size, n, k = float(h.population_size), h.n, h.sizes - 1.0
    rest = size - n + 1.0
    chances = np.zeros(len(k))
    # Larger classes leave no room for the other n - 1 draws.
    some = k < rest
    k = k[some]
    top, bottom = rest - k, size - k
    # The products as gamma functions, their leading parts joined so that they do not cancel.
    logs = k * np.log1p(-(n - 1.0) / size)
    logs += (top - 0.5) * np.log1p(k / top) - (bottom - 0.5) * np.log1p(k / bottom)
    logs += stirling(np.full(1, rest)) - stirling(top)
    logs -= stirling(np.full(1, size)) - stirling(bottom)
    chances[some] = h.sizes[some] * h.fraction * np.exp(logs)
    return chances


def snb(
    sizes: ArrayLike,
    classes: ArrayLike,
    population_size: int,
    *,
    population_classes: Classes = "modified-shlosser",
) -> Uniques:
    """Law of class sizes that is negative binomial from 1 on (Chen and Keller-McNulty 1998).

    F - 1 of each of the population's K classes is negative binomial: P(F = 1) = b^a. Each unit is
    sampled with probability f. a and b solve, with d = (1 - f)(1 - b),

        c_1 = K f (b / (1 - d))^a (1 + a d / (1 - d)),
        c_2 = K f^2 a b^a (1 - b) (2 - (1 - a) d) / (2 (1 - d)^(a + 2)),

    and S_1 = K b^a. The solution, if there is one, is unique: in t = 1 - b / (1 - d) the quotient
    of the equations is quadratic in a, with one positive root, and what remains falls in t.

    K is estimated from the sample by Shlosser's estimator or its modification (Haas and Stokes
    1998). The modified one is the default: the other puts K higher, and S_1 with it, which was too
    high already in samples of known populations (benchmarks/population_uniques.py). ARX means to
    use the modified one; slips in it and in the second equation leave it without a solution. These
    are the equations as they follow from the law.

    Parameters
    ----------
    sizes, classes, population_size
        As in :func:`pitman`.
    population_classes
        Estimate of K.

    Returns
    -------
    Uniques
        With the parameters ``K``, ``a``, ``b``. NaN as for :func:`pitman`, and if there is no
        class of two, or the equations have no solution: the classes of one and two records are
        then too many for K.

    Raises
    ------
    DataError
        If the arrays are no histogram.
    SpecError
        If N is smaller than the number of records, or the estimate of K is not known.

    Examples
    --------
    >>> found = snb([1, 2, 3, 9], [40, 12, 5, 2], 5_000)
    >>> round(found.estimate), round(found.parameters["K"])
    (695, 862)
    """
    h = Histogram.of(sizes, classes, population_size)
    if population_classes not in get_args(Classes):
        raise SpecError(
            f"population_classes is {population_classes!r}; use one of "
            f"{', '.join(map(repr, get_args(Classes)))}."
        )
    if h.problem:
        return h.none("snb")
    if not h.of_size(2):
        return h.none("snb", "No class has two records, so one of the two equations is void.")
    K = _shlosser(h, modified=population_classes == "modified-shlosser")
    f = h.fraction
    odds = (1.0 - f) / f
    pairs = h.of_size(2) / h.of_size(1)
    level = math.log(h.of_size(1) / (K * f))

    def product(t: float) -> float:
        """The product a t for which c_2 / c_1 is as observed."""
        linear = 1.0 + odds * t / 2.0 - pairs * odds
        root = math.hypot(linear, math.sqrt(2.0 * odds * pairs))
        return 2.0 * pairs / (linear + root) if linear > 0.0 else (root - linear) / odds

    def excess(z: float) -> float:
        """Log of the first equation at t = 1 - exp(-z), which falls in z."""
        t = -math.expm1(-z)
        return -product(t) * (z / t if t else 1.0) + math.log1p(odds * product(t)) - level

    if not excess(0.0) > 0.0:
        return h.none(
            "snb",
            f"No slide negative binomial law of {K:,.0f} classes gives as many classes with one "
            "and with two records as the sample has.",
            K=K,
        )
    z = falling_root(excess, 1.0)
    t = -math.expm1(-z)
    # b = (1 - t) f / (t + (1 - t) f)
    log_b = math.log(f) - z - math.log(t + (1.0 - t) * f)
    a = product(t) / t
    return h.found("snb", K * math.exp(a * log_b), K=K, a=a, b=math.exp(log_b))


def _shlosser(h: Histogram, *, modified: bool) -> float:
    """Estimate the number of classes in the population."""
    f, j = h.fraction, h.sizes
    unseen = float(h.classes @ np.exp(j * np.log1p(-f)))
    ratio = unseen / float(h.classes @ (j * f * np.exp((j - 1.0) * np.log1p(-f))))
    if not modified:
        return h.u + h.of_size(1) * ratio
    square = np.log1p(-f * f)
    # (1 - f)^j ((1 + f)^j - 1), neither overflowing nor cancelling.
    below = float(h.classes @ (np.exp(j * square) * -np.expm1(-j * np.log1p(f))))
    above = float(h.classes @ (j * f * f * np.exp((j - 1.0) * square)))
    return h.u + h.of_size(1) * above / below * ratio**2


def dankar(
    sizes: ArrayLike, classes: ArrayLike, population_size: int, *, asymptotic: bool = False
) -> Uniques:
    """Decision rule of Dankar, El Emam, Neisa and Roffey (2012).

    Pitman's estimate up to a sampling fraction of 0.1; above it the smaller of Zayatz's estimate
    and that of the slide negative binomial law, or Zayatz's alone where the other does not exist.
    In ARX it never exists (see :func:`snb`), so that the same rule gives Zayatz's estimate for
    every higher fraction there.

    Parameters
    ----------
    sizes, classes, population_size, asymptotic
        As in :func:`pitman`.

    Returns
    -------
    Uniques
        `chosen` is the estimator, and the parameters are its own. NaN as for :func:`pitman`.

    Raises
    ------
    DataError, SpecError
        As :func:`pitman`.

    Examples
    --------
    >>> found = dankar([1, 2, 3, 9], [40, 12, 5, 2], 500)
    >>> round(found.estimate), found.chosen
    (81, 'snb')
    """
    h = Histogram.of(sizes, classes, population_size)
    if h.problem:
        return h.none("dankar")
    if h.fraction <= LOW_FRACTION:
        taken = pitman(sizes, classes, population_size, asymptotic=asymptotic)
    else:
        taken = zayatz(sizes, classes, population_size)
        other = snb(sizes, classes, population_size)
        if other.estimate < taken.estimate:
            taken = other
    return replace(taken, method="dankar", chosen=taken.method)


def bethlehem(
    sizes: ArrayLike,
    classes: ArrayLike,
    population_size: int,
    n_cells: float,
    *,
    fit: Fit = "likelihood",
) -> Uniques:
    """Poisson-gamma law of all cells (Bethlehem, Keller and Pannekoek 1990).

    Each of the K cells of the grid, occupied or not, has a rate pi ~ Gamma(alpha, scale beta) of
    mean alpha beta = 1 / K; counts are Poisson with means n pi and N pi, so negative binomial:

        E S_1 = K N alpha beta (1 + N beta)^-(alpha + 1) = N (1 + N beta)^-(alpha + 1).

    ``moments``: with the variance s^2 of f over the K cells, beta = (K s^2 / n - 1) / n, which is
    sum_c f_c (f_c - 1) / n^2 - 1 / K. ``likelihood``: alpha solves

        sum_j c_j sum_{i=0}^{j-1} 1 / (alpha + i) = K log(1 + n / (K alpha)),

    which has one root if, and only if, the beta of moments is positive (Levin and Reeds 1977).
    Moments follow the few largest cells, so the likelihood is the default.

    Most cells of a large grid can hold nobody. As K grows the law tends to Fisher's logarithmic
    series: alpha tends to 0, theta = 1 / beta to the root of u = theta log(1 + n / theta), and S_1
    to N theta / (N + theta). A huge or infinite K is therefore no difficulty, but the estimate is
    that of Ewens's formula, Pitman's with alpha = 0, which is often far too low.

    Parameters
    ----------
    sizes, classes, population_size
        As in :func:`pitman`.
    n_cells
        K, cells of the grid, at least the number of classes; may be infinite.
    fit
        How alpha and beta are estimated.

    Returns
    -------
    Uniques
        With the parameters ``alpha``, ``beta`` (of rates that add up to 1) and ``K``. NaN as for
        :func:`pitman`, and if the cells vary no more than by chance.

    Raises
    ------
    DataError
        If the arrays are no histogram.
    SpecError
        If N is smaller than the number of records, K than that of classes, or the way to fit is
        not known.

    Examples
    --------
    >>> found = bethlehem([1, 2, 3, 9], [40, 12, 5, 2], 5_000, 2_000)
    >>> round(found.estimate), round(found.parameters["alpha"], 3)
    (57, 0.033)
    """
    h = Histogram.of(sizes, classes, population_size)
    if fit not in get_args(Fit):
        raise SpecError(f"fit is {fit!r}; use one of {', '.join(map(repr, get_args(Fit)))}.")
    if not n_cells >= h.u:
        raise SpecError(
            f"The number of cells is {n_cells:,}, but {h.u:,.0f} classes are in the sample; give "
            "the product of the numbers of levels."
        )
    if h.problem:
        return h.none("bethlehem")
    j, n = h.sizes, h.n
    beta = float(h.classes @ (j * (j - 1.0))) / n**2 - 1.0 / n_cells
    if beta * n_cells * MOST_EVEN <= 1.0:
        return h.none(
            "bethlehem",
            "The numbers of records vary over the cells no more than by chance, so the gamma law "
            "has no variance to be estimated.",
            K=float(n_cells),
        )
    theta = 1.0 / beta
    if fit == "likelihood":

        def score(theta: float) -> float:
            more = float(h.classes @ reciprocals(1.0 + theta / n_cells, j - 1.0))
            return h.u / theta + more / n_cells - math.log1p(n / theta)

        theta = falling_root(score, theta)
    alpha = theta / n_cells
    estimate = population_size * math.exp(-(1.0 + alpha) * math.log1p(population_size / theta))
    return h.found("bethlehem", estimate, alpha=alpha, beta=1.0 / theta, K=float(n_cells))


def population_uniques(table: CellTable) -> tuple[Uniques, ...]:
    """All estimators, from a table of cells.

    Missing keys: under ``"level"`` they are levels like others. Under ``"integrate"`` classes and
    n are those of the complete records; this is right if keys are missing completely at random.
    Under ``"wildcard"`` a record's class is the records that match it. These overlap, so c_j is
    the number of records with j matches, themselves among them, divided by j: c_1 is the number of
    the sample's uniques, and the sum of j c_j is n.

    The cells of the grid, for :func:`bethlehem`, are the possible ones. A design's weights and
    strata are not used.

    Returns
    -------
    tuple of Uniques
        Pitman, Zayatz, SNB, Dankar, Bethlehem.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 9)]
    >>> codes = [[0, 1], [0, 1], [0, 1], [0, 2], [1, 2], [1, 5], [1, 5]]
    >>> for found in population_uniques(CellTable.from_codes(codes, keys, 100)):
    ...     print(found.method, f"{found.estimate:.1f}", found.chosen)
    pitman 3.0
    zayatz 8.8
    snb 3.5
    dankar 3.0 pitman
    bethlehem 2.2
    """
    counts = table.counts
    if table.missing == "wildcard":
        sizes = table.matches
    else:
        counts = counts[~table.incomplete]
        sizes = counts
    j, place = np.unique(sizes, return_inverse=True)
    c = np.bincount(place, counts, minlength=len(j)) / j
    n_cells = math.prod(table.n_levels)
    if table.zeros is not None:
        n_cells = n_possible(table.zeros, table.n_levels)
    # A grid of more cells than a double can hold is infinite.
    cells = float(n_cells) if n_cells < 10**300 else math.inf
    size = table.n_units
    return (
        pitman(j, c, size),
        zayatz(j, c, size),
        snb(j, c, size),
        dankar(j, c, size),
        bethlehem(j, c, size, cells),
    )
