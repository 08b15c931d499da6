"""The predictive laws of τ1 and τ2, from what the states of a model say of cells (`law`).

**τ1** counts the sample uniques with X = 0. Given the state it is Poisson-binomial with the
probabilities r1, since the X of different cells are nearly independent: in a population of M
unobserved units they are multinomial, which takes about (Σ M p r1)² / M from a variance of
Σ r1 (1 - r1), so intervals are wide rather than narrow. The distribution function is exact
(convolution) where the variance is below `EXACT`, and elsewhere the refined normal approximation
(Volkova 1996), with x = (k + 1/2 - μ) / σ and γ = Σ r1 (1 - r1) (1 - 2 r1) / σ³:

    P(τ1 <= k)  ~  Φ(x) + γ (1 - x²) φ(x) / 6.

**Persons** in unique households are the same sum with each household's size as its weight, by the
same means: the laws of the sizes are convolved, or the three cumulants have the sizes in them.

**τ2** sums 1/F. Given the state it is taken as a gamma variable, shifted, with the first three
cumulants of τ2 (Pearson type III).

**Predictive law.** The mean of the states' distribution functions; quantiles are where it passes
their level. τ2 >= τ1 in every population, so a quantile of τ2 is at least that of τ1.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from unikat._typing import Bool, Float64, Int64
from unikat.data.table import CellTable
from unikat.kernels import laws
from unikat.risk.estimate import RecordRisk, RiskEstimate, Summary
from unikat.risk.law import State

EXACT = 60.0
"""Variance of τ1 given a state, below which its law is computed by convolution."""
_REACH = 9.0
"""Standard deviations beyond which nothing is computed."""


@dataclass(frozen=True, eq=False)
class Law:
    """The predictive law of τ1 and τ2: the mean of the laws of states."""

    states: Sequence[State] = field(repr=False)

    @cached_property
    def means(self) -> Float64:
        """Expected τ1 of each state, (n_states,)."""
        return np.array([one.r1.sum() for one in self.states])

    @cached_property
    def cumulants(self) -> Float64:
        """Of τ2, (n_states, 3)."""
        return np.array([one.cumulants for one in self.states])

    @property
    def most(self) -> int:
        """Largest value of τ1 and τ2."""
        return max((len(one.r1) for one in self.states), default=0)

    def at_most(self, k: float) -> Float64:
        """P(τ1 <= k) of each state, (n_states,)."""
        if k < 0.0:
            return np.zeros(len(self.states))
        if "_counts" in self.__dict__ or k > self.most:
            return self._counts.at_most(k)
        found = np.zeros(len(self.states))
        # Elsewhere it is below exp(-14), as a sum of mean μ is below μ - t: exp(-t² / 2 μ).
        near = np.flatnonzero(np.maximum(self.means - k, 0.0) ** 2 <= 28.0 * self.means).tolist()
        some = _Counts([self.states[place].r1 for place in near], math.floor(k))
        found[near] = some.at_most(k)
        return found

    def sums_at_most(self, x: float) -> Float64:
        """P(τ2 <= x) of each state, (n_states,)."""
        return _shifted_gamma(self.cumulants, x)

    def tau1(self, level: float) -> Summary:
        """Mean, median and equal-tailed interval of τ1."""
        return _summary(float(self.means.mean()), [self._tau1(q) for q in _levels(level)], level)

    def persons(self, sizes: Int64, level: float) -> Summary:
        """Mean, median and interval of the persons in the units with X = 0, of such sizes, (n,)."""
        # Where all sizes are even, so is the sum.
        step = int(np.gcd.reduce(sizes, initial=0)) or 1
        counts = _Counts([one.r1 for one in self.states], sizes=sizes // step)
        mean, most = float(np.mean([sizes @ one.r1 for one in self.states])), int(sizes.sum())
        found = [step * _quantile(counts, most // step, q) for q in _levels(level)]
        return _summary(mean, found, level)

    def bins(self, most: int = 44) -> tuple[tuple[float, float, float], ...]:
        """Lower end, upper end and probability of at most so many bars of a picture of τ1."""
        low, high = self._tau1(0.0005), self._tau1(0.9995)
        width = max(1, math.ceil((high - low + 1) / most))
        ends = [low - 0.5 + width * i for i in range(math.ceil((high - low + 1) / width) + 1)]
        reached = [float(self._counts.at_most(end).mean()) if end > 0 else 0.0 for end in ends]
        return tuple(
            (one, other, after - before)
            for (one, before), (other, after) in pairwise(zip(ends, reached, strict=True))
        )

    def tau2(self, level: float) -> Summary:
        """Mean, median and equal-tailed interval of τ2."""
        mean = float(self.cumulants[:, 0].mean())
        return _summary(mean, [self._tau2(q) for q in _levels(level)], level)

    @cached_property
    def _counts(self) -> _Counts:
        return _Counts([one.r1 for one in self.states])

    def _tau1(self, level: float) -> float:
        return _quantile(self._counts, self.most, level)

    def _tau2(self, level: float) -> float:
        low, high = 0.0, float(self.most)
        while high - low > 1e-7 * max(high, 1.0):
            middle = (low + high) / 2.0
            reached = float(self.sums_at_most(middle).mean()) >= level
            low, high = (low, middle) if reached else (middle, high)
        return max(high, self._tau1(level))


def _quantile(counts: _Counts, most: int, level: float) -> float:
    """The least k of at most `most` with P(count <= k), in the mean of the states, at a level."""
    low, high = -1, most
    while high - low > 1:
        middle = (low + high) // 2
        reached = float(counts.at_most(middle).mean()) >= level - 1e-12
        low, high = (low, middle) if reached else (middle, high)
    return float(high)


def _levels(level: float) -> tuple[float, float, float]:
    tail = (1.0 - level) / 2.0
    return tail, 0.5, 1.0 - tail


def _summary(mean: float, quantiles: Sequence[float], level: float) -> Summary:
    lower, median, upper = quantiles
    return Summary(
        mean=mean,
        median=median,
        lower=lower,
        upper=upper,
        level=level,
        rhat=None,
        ess_bulk=None,
        ess_tail=None,
    )


def by_law(
    found: RiskEstimate, law: Law, shown: Law | None = None, sizes: Int64 | None = None
) -> RiskEstimate:
    """Put laws of τ1 and τ2 into an estimate, in place of drawn populations.

    Parameters
    ----------
    found
        By the same states.
    law
        Of τ1 and τ2, and r1 of the sample uniques.
    shown
        Of what the file shows, where records are imputed.
    sizes
        (n_cells,): persons of each household, where these are the units; else None.
    """
    level, records, table = found.tau1.level, found.records, found.table
    persons = None
    if table.missing == "wildcard" or not table.incomplete.any():
        r1 = records.r1.copy()
        r1[records.unique] = np.mean([one.r1 for one in law.states], axis=0)
        persons = None if sizes is None else law.persons(sizes[records.unique], level)
        records = replace(records, r1=r1)
    return replace(
        found,
        tau1=law.tau1(level),
        tau2=law.tau2(level),
        tau1_shown=None if shown is None else shown.tau1(level),
        tau2_shown=None if shown is None else shown.tau2(level),
        records=records,
        tau1_bins=(law if shown is None else shown).bins(),
        persons=persons,
    )


def of_law(
    law: Law, table: CellTable, level: float, sizes: Int64 | None = None, *, converged: bool
) -> RiskEstimate:
    """Make an estimate of a law alone: τ1, τ2, and r1 of the sample uniques; the rest is NaN.

    Parameters
    ----------
    law, table
        Of the sample uniques of a table whose records are not imputed.
    level
        Probability of the intervals.
    sizes
        As of `by_law`.
    converged
        Whether the chains of the states have.
    """
    unknown = np.broadcast_to(np.nan, table.n_cells)
    r1 = np.full(table.n_cells, np.nan)
    r1[table.unique] = np.mean([one.r1 for one in law.states], axis=0)
    names = ("r1_lower", "r1_upper", "r2", "r2_lower", "r2_upper", "F_median", "F_mode")
    places = ("rank", "rank_lower", "rank_upper")
    records = RecordRisk(
        unique=table.unique,
        r1=r1,
        key_drop=np.broadcast_to(np.nan, (table.n_cells, len(table.variables))),
        **dict.fromkeys((*names, *places), unknown),
    )
    tau1, tau2 = law.tau1(level), law.tau2(level)
    return RiskEstimate(
        table=table,
        draws=None,
        tau1=tau1,
        tau2=tau2,
        tau1_expected=tau1,
        tau2_expected=tau2,
        records=records,
        warnings=(),
        converged=converged,
        tau1_bins=law.bins(),
        persons=None if sizes is None else law.persons(sizes[table.unique], level),
    )


class _Counts:
    """Poisson-binomial laws, one for each state, whose distribution functions are asked for."""

    def __init__(
        self, r1: Sequence[Float64], most: int | None = None, sizes: Int64 | None = None
    ) -> None:
        # `most`: the largest value that is asked for; `sizes`: of what is counted, else 1 each.
        each = np.float64(1.0) if sizes is None else sizes
        variance = np.array([float((one * (1.0 - one)).sum()) for one in r1])
        self._wide: Bool = variance >= EXACT
        self._normal = np.array(
            [
                (
                    (each * one).sum(),
                    (each**2 * one * (1.0 - one)).sum(),
                    (each**3 * one * (1.0 - one) * (1.0 - 2.0 * one)).sum(),
                )
                for one in r1
            ]
        ).reshape(-1, 3)
        narrow = [one for one, wide in zip(r1, self._wide, strict=True) if not wide]
        self._exact = (
            poisson_binomial(narrow, most) if sizes is None else weighted_sums(narrow, sizes)
        )

    def at_most(self, k: float) -> Float64:
        """P(count <= k) of each state."""
        from scipy.special import ndtr

        found = np.empty(len(self._wide))
        row = min(math.floor(k), len(self._exact) - 1)
        found[~self._wide] = self._exact[row] if k >= 0.0 else 0.0
        mean, variance, third = self._normal[self._wide].T
        x = (math.floor(k) + 0.5 - mean) / np.sqrt(variance)
        density = np.exp(-0.5 * x**2) / math.sqrt(2.0 * math.pi)
        refined = ndtr(x) + third / variance**1.5 * (1.0 - x**2) * density / 6.0
        found[self._wide] = np.clip(refined, 0.0, 1.0)
        return found


def poisson_binomial(probabilities: Sequence[Float64], most: int | None = None) -> Float64:
    """Distribution functions of sums of independent indicators, by convolution.

    Parameters
    ----------
    probabilities
        Of the indicators of each sum, (n,) each.
    most
        The largest value that is asked for; None: all.

    Returns
    -------
    array
        (n_values, n_sums): P(sum <= k), up to where no sum has any probability left.

    Examples
    --------
    >>> poisson_binomial([np.array([0.5, 0.5]), np.array([1.0, 0.25])]).T.tolist()
    [[0.25, 0.75, 1.0], [0.0, 0.75, 1.0]]
    """
    n_sums, width = len(probabilities), max((len(one) for one in probabilities), default=0)
    p = np.zeros((width, n_sums))
    for place, one in enumerate(probabilities):
        p[: len(one), place] = one
    # Those of little probability come last, when most values have theirs.
    p = p[np.argsort(-p.max(axis=1, initial=0.0), kind="stable")]
    p = p[p.max(axis=1, initial=0.0) > 1e-14]
    mean, variance = p.sum(axis=0), (p * (1.0 - p)).sum(axis=0)
    reach = math.ceil((mean + _REACH * np.sqrt(variance) + _REACH).max(initial=0.0))
    n_values = min(len(p), reach, len(p) if most is None else most) + 1
    law = np.zeros((n_values, n_sums))
    law[0] = 1.0
    laws.add_indicators(np.ascontiguousarray(p), law)
    found: Float64 = np.minimum(np.cumsum(law, axis=0), 1.0)
    if n_values == reach + 1:
        # What lies beyond has no weight that counts.
        found[-1] = 1.0
    return found


def weighted_sums(probabilities: Sequence[Float64], weights: Int64) -> Float64:
    """Distribution functions of sums of independent indicators, each with its weight.

    Parameters
    ----------
    probabilities
        Of the indicators of each sum, (n,) each.
    weights
        (n,): positive whole numbers.

    Returns
    -------
    array
        (n_values, n_sums): P(sum <= k).

    Examples
    --------
    >>> weighted_sums([np.array([0.5, 0.5])], np.array([1, 3])).T.tolist()
    [[0.25, 0.5, 0.5, 0.75, 1.0]]
    """
    law = np.ones((1, len(probabilities)))
    for weight in np.unique(weights).tolist():
        reached = poisson_binomial([one[weights == weight] for one in probabilities])
        wider = np.zeros((len(law) + weight * (len(reached) - 1), len(probabilities)))
        for n, share in enumerate(np.diff(reached, axis=0, prepend=0.0)):
            wider[n * weight : n * weight + len(law)] += share * law
        law = wider
    found: Float64 = np.minimum(np.cumsum(law, axis=0), 1.0)
    found[-1] = 1.0
    return found


def _shifted_gamma(cumulants: Float64, x: float) -> Float64:
    """P(Y <= x) of variables with three cumulants, (n, 3), each a shifted gamma one, (n,)."""
    from scipy.special import gammainc, gammaincc, ndtr

    mean, variance, third = cumulants.T
    found: Float64 = (x >= mean - 1e-9).astype(np.float64)
    varies = variance > 1e-14
    spread = np.sqrt(np.where(varies, variance, 1.0))
    skewed = varies & (np.abs(third) > 1e-4 * spread**3)
    plain = varies & ~skewed
    found[plain] = ndtr((x - mean[plain]) / spread[plain])
    mean, variance, third = mean[skewed], variance[skewed], third[skewed]
    theta = np.abs(third) / (2.0 * variance)
    shape = variance / theta**2
    sign = np.sign(third)
    y = np.maximum(sign * (x - mean) / theta + shape, 0.0)
    found[skewed] = np.where(third > 0.0, gammainc(shape, y), gammaincc(shape, y))
    return found
