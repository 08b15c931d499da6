"""Population count of one cell under the Poisson-gamma-beta models (Polettini, Stander: Model I).

    pi ~ Gamma(alpha, K alpha),  F | pi ~ Poisson(N pi),  p ~ Beta(a, b),  f | F, p ~ Binomial(F, p)

Distribution 1 of the paper is the law of F given f, Distribution 2 that of f. Both are misprinted
there: p has the exponent a + f - 1, not alpha + f - 1, and Gamma(a) must read Gamma(a + f).
Model II has the same law of F given f > 0, with a = size p_hat, b = size (1 - p_hat).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike
from scipy import special

from unikat._typing import Float64
from unikat.errors import SpecError
from unikat.kernels import hypergeometric as kernels


@dataclass(frozen=True, kw_only=True)
class PopulationCount:
    """The population count F of a cell given its sample count f, and the law of f.

    Parameters
    ----------
    alpha
        Shape of the gamma law of pi, 1e-3 to 1e3 in what was tried.
    a, b
        Parameters of the beta law of p, 1e-2 to 1e4 in what was tried.
    population_size
        N.
    n_cells
        K.
    count
        f, records of the sample in the cell; 0 or more.

    Raises
    ------
    SpecError
        If a parameter is out of range.

    Examples
    --------
    A sample unique among 5,000 cells and 100,000 units:

    >>> cell = PopulationCount(alpha=1, a=2, b=18, population_size=100_000, n_cells=5_000, count=1)
    >>> round(cell.mean_inverse, 4), round(cell.alone, 4), cell.median, cell.modes
    (0.1356, 0.0214, 12, (6,))

    The probabilities of F = 1, 2, 3:

    >>> cell.pmf([1, 2, 3]).round(4).tolist()
    [0.0214, 0.035, 0.0432]
    """

    alpha: float
    a: float
    b: float
    population_size: int
    n_cells: int
    count: int

    def __post_init__(self) -> None:
        """Check the parameters."""
        for name in ("alpha", "a", "b", "population_size", "n_cells"):
            value = getattr(self, name)
            if isinstance(value, bool) or not 0 < value < math.inf:
                raise SpecError(f"{name} is {value!r}; it must be a positive, finite number.")
        if not 0 <= self.count < math.inf or self.count != int(self.count):
            raise SpecError(f"count is {self.count!r}; it must be a whole number, 0 or above.")

    @property
    def _s(self) -> float:
        return self.population_size / (self.n_cells * self.alpha)

    @cached_property
    def _nodes(self) -> tuple[Float64, Float64, Float64]:
        """p, 1 - p and weights: any mean over p given f is a sum over them."""
        found: tuple[Float64, Float64, Float64] = kernels.posterior_nodes(
            float(self.alpha), float(self.a), float(self.b), self._s, float(self.count)
        )
        return found

    @cached_property
    def log_marginal(self) -> float:
        """Log P(f), Distribution 2."""
        return float(
            kernels.log_count_probability(
                float(self.alpha), float(self.a), float(self.b), self._s, float(self.count)
            )
        )

    def pmf(self, size: ArrayLike) -> Float64:
        """P(F | f) at whole numbers, Distribution 1; 0 below f."""
        sizes = np.asarray(size, np.float64)
        flat = np.atleast_1d(sizes).ravel()
        logs = np.full(len(flat), -math.inf)
        inside = flat >= self.count
        those = np.empty(int(inside.sum()))
        kernels.log_population_probability(
            float(self.alpha),
            float(self.a),
            float(self.b),
            self._s,
            float(self.count),
            self.log_marginal,
            flat[inside],
            those,
        )
        logs[inside] = those
        found: Float64 = np.exp(logs).reshape(sizes.shape)
        return found

    def _exceeds(self, size: int) -> float:
        """P(F > size | f), with its digits where it is small."""
        _, q, weights = self._nodes
        go = self._s * q / (1.0 + self._s)
        more = size - self.count
        return float(weights @ special.betainc(more + 1.0, self.alpha + self.count, go))

    @property
    def alone(self) -> float:
        """P(F = f | f): no other unit of the population is in the cell."""
        return float(self.pmf(self.count))

    @cached_property
    def mean(self) -> float:
        """E(F | f)."""
        p, q, weights = self._nodes
        odds = self._s * q / (1.0 + self._s * p)
        return self.count + (self.alpha + self.count) * float(weights @ odds)

    @cached_property
    def mean_inverse(self) -> float:
        """E(1/F | f), the risk of a record; f at least 1.

        Raises
        ------
        SpecError
            If f is 0.
        """
        if self.count < 1:
            raise SpecError("E(1/F | f) is of a record in the cell: count must be at least 1.")
        return float(
            kernels.mean_inverse(*self._nodes, float(self.alpha), self._s, float(self.count))
        )

    @cached_property
    def median(self) -> int:
        """Smallest m with P(F <= m | f) at least one half."""
        low, high = self.count - 1, self.count
        while self._exceeds(high) > 0.5:
            low, high = high, 2 * high + 1
        while high - low > 1:
            middle = (low + high) // 2
            if self._exceeds(middle) > 0.5:
                low = middle
            else:
                high = middle
        return high

    @cached_property
    def modes(self) -> tuple[int, ...]:
        """The most probable F; two of them where they tie.

        P(F + 1) / P(F) is above 1 between two roots of a quadratic, so the mode is at f or behind
        the larger root. Ties are decided in whole numbers, not by rounding.
        """
        alpha, a, b = Fraction(self.alpha), Fraction(self.a), Fraction(self.b)
        whole, rates = Fraction(self.population_size), Fraction(self.n_cells) * alpha

        def rise(size: int) -> Fraction:
            """Sign of P(size + 1) - P(size)."""
            more = size - self.count
            up = whole * (alpha + size) * (more + b)
            return up - (whole + rates) * (a + b + size) * (more + 1)

        # Of the quadratic in x = F - f.
        f = self.count
        second = -rates
        first = whole * (alpha + f + b) - (whole + rates) * (a + b + f + 1)
        constant = whole * (alpha + f) * b - (whole + rates) * (a + b + f)
        inside = first * first - 4 * second * constant
        if inside < 0 or (first <= 0 and constant < 0):
            return (f,)
        root = (float(first) + math.sqrt(float(inside))) / (2.0 * float(rates))
        top = f + max(math.ceil(root), 0)
        while rise(top) > 0:
            top += 1
        while top > f and rise(top - 1) < 0:
            top -= 1
        ends = [top, top + 1] if rise(top) == 0 else [top]
        if top > f and rise(top - 1) == 0:
            ends.insert(0, top - 1)
        at_start, at_top = self.pmf([f, ends[0]])
        if ends[0] > f and at_start > at_top:
            return (f,)
        return tuple(ends)
