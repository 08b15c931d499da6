"""The law of the unobserved units of cells given a state of a model, without drawing any.

Given a state, X unobserved units fall in a cell with f records, and F = f + X. Without
an error of the model X is binomial, and r1 = P(X = 0) is what `exposure` says. With one, the
expected units are a g, g ~ Gamma(α) independent from cell to cell (`models.base.ErrorLaw`), and a
margin may add cells without records, of b expected units. X is then Poisson(b) plus negative
binomial,

    E s^X = exp(-b (1 - s)) (1 + a (1 - s))^-α,        r1 = exp(-b) (1 + a)^-α.

So nothing is drawn: two plans that share a cell have the same numbers for it.

τ1 counts the sample uniques with X = 0, τ2 sums 1/F (`predictive` has their laws).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int64
from unikat.risk.by_class import Look
from unikat.risk.exposure import Exposure

_LISTED = 8
"""Values of F whose probabilities are summed one by one in moments of 1/F."""
_LEFT_OUT = 0.01
"""Of a variance of 1/F at most, by taking values of F as alike."""
_NODES = 44
"""Of an integral."""
_BLOCK = 256
"""Cells whose integrals are taken at a time."""


class Others(NamedTuple):
    """Law of the unobserved units of cells, (n,) each: Poisson plus negative binomial."""

    steady: Float64
    """b, mean of the Poisson part."""
    shape: Float64
    """α; 0 without a model error."""
    scale: Float64
    """a, expected units over α."""

    @property
    def alone(self) -> Float64:
        """P(X = 0)."""
        found: Float64 = np.exp(-self.steady - self.shape * np.log1p(self.scale))
        return found

    def below(self, k: Float64) -> Float64:
        """P(X < k), (n,), k whole numbers, at least 1; of one of the two parts alone."""
        from scipy.special import betainc, gammaincc

        found: Float64 = np.where(
            self.shape > 0.0,
            betainc(np.maximum(self.shape, 1e-9), k, 1.0 / (1.0 + self.scale)),
            gammaincc(k, self.steady),
        )
        return found

    def drawn(self, generator: np.random.Generator) -> Int64:
        """Draw the unobserved units, (n,)."""
        rate = generator.standard_gamma(self.shape) * self.scale + self.steady
        return generator.poisson(rate)


class Moments(NamedTuple):
    """What a state says of cells, (n,) each."""

    r1: Float64
    """P(X = 0)."""
    r2: Float64
    """E 1/F."""
    second: Float64
    """E 1/F²."""
    third: Float64
    """E 1/F³."""
    counts: Float64 | float = 1.0
    """f, the candidates that are known."""

    @property
    def unique(self) -> Float64:
        """P(F = 1)."""
        return np.where(self.counts == 1.0, self.r1, 0.0)

    @property
    def cumulants(self) -> Float64:
        """First three cumulants of the sum of 1/F, (3,)."""
        _, m1, m2, m3, _ = self
        parts = (m1, m2 - m1**2, m3 - 3.0 * m1 * m2 + 2.0 * m1**3)
        return np.array([part.sum() for part in parts])


def others(
    look: Look,
    exposure: Exposure,
    chances: Any,
    counts: Float64,
    joined: Float64 | None = None,
    *,
    by_mean: bool = False,
) -> Others:
    """Return the law of the unobserved units of cells with records.

    Parameters
    ----------
    look, exposure
        The state, and how unobserved units relate to the records.
    chances, counts
        The model's chances of the cells, without its error; and their records (n,).
    joined
        (n,): expected units of cells without records that a margin adds.
    by_mean
        Without an error of the model: Poisson with the mean of X, and not with its P(X = 0).
    """
    error = look.model.error_law(
        look.stream, look.data, exposure.probabilities(chances), counts,
        exposure.population(chances),
    )  # fmt: skip
    nothing = np.zeros(len(counts))
    steady = nothing if joined is None else joined
    means = exposure.means(chances)
    if error is not None:
        return Others(steady, error.shape, means * error.factor)
    if by_mean:
        return Others(steady + means, nothing, nothing)
    alone = exposure.alone(chances, look.poisson)
    with np.errstate(divide="ignore"):
        own = np.where(alone > 1e-250, -np.log(alone), means)
    return Others(steady + own, nothing, nothing)


def moments(
    look: Look, exposure: Exposure, chances: Any, counts: Float64, joined: Float64 | None = None
) -> Moments:
    """Return the risks of cells and higher moments of 1/F; arguments as of `others`."""
    law = others(look, exposure, chances, counts, joined)
    if law.shape.any() or joined is not None:
        return moments_of(law, counts)
    r1, r2 = exposure.risk(chances, counts, look.poisson)
    return Moments(r1, r2, *_higher(law, counts, r2), counts)


def moments_of(law: Others, counts: Float64) -> Moments:
    """Return the risks of cells with (n,) records and such unobserved units."""
    r2 = mean_inverse(law, counts)
    return Moments(law.alone, r2, *_higher(law, counts, r2), counts)


def mean_inverse(law: Others, counts: Float64) -> Float64:
    """E 1/F, (n,)."""
    b, alpha, a = law
    found = np.empty(len(b))
    simple = (counts == 1.0) & (b == 0.0) & (alpha > 1.0 + 1e-9)
    # The integral of the generating function.
    with np.errstate(divide="ignore", invalid="ignore"):
        log = np.log1p(a)
        closed = (-np.expm1((1.0 - alpha) * log)) / ((alpha - 1.0) * a)
    found[simple] = np.where(a > 1e-12, closed, 1.0)[simple]
    rest = np.flatnonzero(~simple)
    if len(rest):
        found[rest] = _powers(Others(*(part[rest] for part in law)), counts[rest])[0]
    return found


def _powers(law: Others, counts: Float64) -> Float64:
    """E 1/F, E 1/F² and E 1/F³, (3, n), by an integral."""
    found = np.empty((3, len(counts)))
    for start in range(0, len(counts), _BLOCK):
        some = slice(start, start + _BLOCK)
        found[:, some] = _powers_of_few(Others(*(part[some] for part in law)), counts[some])
    return found


def _powers_of_few(law: Others, counts: Float64) -> Float64:
    # E 1/(f + X)^(k + 1) = integral of u^k / k! exp(-f u) E exp(-u X), over the logarithm of u.
    b, alpha, a = law
    first, last = np.log(2e-5 / (counts + b + alpha * a)), np.log(40.0 / counts)
    step = (last - first) / (_NODES - 1)
    u = np.exp(first + np.arange(_NODES)[:, None] * step)
    less = -np.expm1(-u)
    part = u * np.exp(-counts * u - b * less - alpha * np.log1p(a * less))
    total = np.empty((3, len(b)))
    total[0] = part.sum(axis=0)
    part *= u
    total[1] = part.sum(axis=0)
    part *= 0.5 * u
    total[2] = part.sum(axis=0)
    # Below the first node u is so small that the integrand is u itself: a geometric series.
    total[0] += np.exp(first) / np.expm1(step)
    found: Float64 = total * step
    return found


def _higher(law: Others, counts: Float64, r2: Float64) -> tuple[Float64, Float64]:
    """E 1/F² and E 1/F³, (n,): the first values of F one by one, the others as if all alike.

    Where that may leave out more than `_LEFT_OUT` of the variance of 1/F, by an integral.
    """
    b, alpha, a = law
    share = a / (1.0 + a)
    p, tail = np.empty((_LISTED, len(b))), np.zeros(len(b))
    p[0] = law.alone
    for x in range(_LISTED - 1):
        # (x + 1) p(x + 1) = b p(x) + α Σ_i share^(i + 1) p(x - i).
        tail = share * (p[x] + tail)
        p[x + 1] = (b * p[x] + alpha * tail) / (x + 1.0)
    same = len(counts) and (counts == counts[0]).all()
    inverse = 1.0 / ((counts[0] if same else counts[:, None]) + np.arange(_LISTED))
    sums = [
        inverse**power @ p if same else (inverse.T**power * p).sum(axis=0) for power in (1, 2, 3)
    ]
    rest = np.maximum(r2 - sums[0], 0.0)
    left = np.maximum(1.0 - p.sum(axis=0), 1e-300)
    most = 1.0 / (counts + _LISTED)
    typical = np.minimum(rest / left, most)
    second, third = sums[1] + rest * typical, sums[2] + rest * typical**2
    # A variable from 0 to `most` has a variance of at most mean (most - mean).
    left_out = rest * (most - typical)
    far = np.flatnonzero(left_out > _LEFT_OUT * (second - r2**2) + 1e-12)
    if len(far):
        m1, m2, m3 = _powers(Others(*(part[far] for part in law)), counts[far])
        # Of a population of known size r2 is not quite m1: moments about the mean are kept.
        mean = r2[far]
        second[far] = mean**2 + np.maximum(m2 - m1**2, 0.0)
        third[far] = m3 - 3.0 * m1 * m2 + 2.0 * m1**3 + 3.0 * mean * second[far] - 2.0 * mean**3
    return second, third


class State(NamedTuple):
    """What a state says of τ1 and τ2."""

    r1: Float64
    """(n,) of the records that τ1 may count."""
    cumulants: Float64
    """(3,) of τ2."""

    @classmethod
    def of(cls, *found: Moments) -> State:
        """Take both from the moments of sample uniques."""
        r1 = np.concatenate([one.unique for one in found])
        return cls(r1, np.sum([one.cumulants for one in found], axis=0))


def smallest_at_least(law: Others, counts: Float64, thresholds: Float64) -> Float64:
    """P(min F >= k) of cells given a state, at least, for rising thresholds k, (n_thresholds,).

    It is 1 - Σ P(F < k), or 0: a lower bound however the counts of cells depend on each other
    (Bonferroni). In a population of known size they are negatively associated, so the product of
    P(F >= k) would be an upper bound, which promises more than is there. Where the bound is near 1,
    as a limit asks for, the two differ by half the square of the sum.

    Without an error of the model X counts independent units. `law` should then be Poisson with the
    mean of X: that has the larger P(X < k) for all k <= E X (Anderson and Samuels 1967). A Poisson
    law with the P(X = 0) of a binomial one has a larger mean: by 5% where a tenth of the population
    is in the cell, by 39% where half of it is.
    """
    found = np.zeros(len(thresholds))
    for place, k in enumerate(thresholds):
        few = np.flatnonzero(counts < k)
        below = Others(*(part[few] for part in law)).below(k - counts[few])
        found[place] = max(1.0 - float(below.sum()), 0.0)
        if found[place] == 0.0:
            break
    return found
