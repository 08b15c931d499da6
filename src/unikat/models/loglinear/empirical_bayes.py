"""Log-linear models with a random effect in each cell, by empirical Bayes.

    f_c | lambda_c ~ Poisson(pi lambda_c),    lambda_c random with mean L_c = N p_c

p_c is the fit of a log-linear model. `skinner-holmes` (Skinner and Holmes 1998; paper 3, eq. 3-5):
log lambda_c ~ Normal with variance sigma^2; `elamir-skinner` (Elamir and Skinner 2006): lambda_c ~
Gamma(a, a / L_c). The spread comes from moments: with mu_c = pi L_c,

    E (f_c - mu_c)^2 = mu_c + D mu_c^2,   D = exp(sigma^2) - 1  or  1 / a,

so D = sum_c ((f_c - mu_c)^2 - f_c) / sum_c mu_c^2, or 0 where that is negative: the plug-in
estimate then remains. With fitted means in place of the true ones D is underestimated, in small
samples by a third.

Every draw has lambda_c from its posterior given f_c: the mean over draws of a record's r1 is paper
3's eq. 4. The spread and the fit count as known.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import is_in, listed_completions, sum_equal
from unikat.data.table import CellTable
from unikat.errors import SpecError, shown
from unikat.kernels import random_rates as kernels
from unikat.models.base import Facts, Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.loglinear.factored import Fit
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.selection import evidence
from unikat.models.loglinear.terms import parse_terms, write_terms
from unikat.models.options import TOLERANCE, check_choice, check_numbers
from unikat.models.records import compile_plug_in, generator_of
from unikat.rng import chain_key

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(48)


@dataclass(frozen=True, kw_only=True)
class RandomRatesFacts(Facts):
    """Terms, cells, zero margins and the spread of the rates."""

    terms: str
    cells: int
    zero_margins: int
    overdispersion: float
    """Relative variance of the rates around the terms, by moments."""
    shape: float | None
    """Of the gamma law; None, and left out, for another."""
    sigma2: float | None
    """Variance of the logarithm under the normal law; None, and left out, for another."""
    population: float
    """Expected by the fitted model, in N."""


class RandomRatesData(NamedTuple):
    """Fit, spread, and the cells that are not empty."""

    fit: Fit
    share: float
    """pi: complete records over N."""
    population_size: int
    spread: float
    """D above."""
    parameter: float
    """sigma^2, or 1 / a: 0 without random effects."""
    shift: float
    """From log L to the mean of log lambda (lognormal)."""
    overdispersion: float
    """D before it was kept from being negative."""
    names: tuple[str, ...]
    n_levels: tuple[int, ...]
    cells: Int32
    """(n_cells, n_keys): complete patterns of the sample."""
    counts: Float64
    """(n_cells,)"""
    total: float
    """Posterior mean of the sum of lambda over all cells."""
    patterns: Int32
    """(n_patterns, n_keys): patterns with missing keys."""
    pattern_counts: Int64


class RandomRatesState(NamedTuple):
    """Nothing is kept: a sweep's rates are drawn where they are asked for."""


@dataclass(frozen=True, kw_only=True)
class _RandomRates(Model[RandomRatesState, RandomRatesData]):
    """What both models share.

    Parameters
    ----------
    terms
        Of the log-linear model, as :class:`unikat.models.loglinear.conditional.LogLinear` has
        them; not ``select``.
    tolerance
        Largest difference of an observed and a fitted margin, in records; from 1e-12 to 1e6.
    """

    name: ClassVar[str]
    population: ClassVar[PopulationLaw] = "poisson"
    lognormal: ClassVar[bool]
    terms: str = "independence"
    tolerance: float = 1e-4

    def __post_init__(self) -> None:
        """Check the options; the terms are checked where the keys are known."""
        if not isinstance(self.terms, str) or not self.terms.strip() or self.terms == "select":
            raise SpecError(
                f"model option terms is {shown(self.terms)}; write independence, two-way, "
                "three-way, or terms such as 'A + B:C'."
            )
        check_numbers(self, {"tolerance": TOLERANCE})

    @property
    def uncertainty(self) -> Uncertainty:
        """Rates are drawn; their law counts as known."""
        return "empirical-bayes"

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels, or load them from the cache; the terms do not matter."""
        compile_plug_in(replace(self, terms="independence"), zeros)

    def check_keys(self, names: Sequence[str]) -> None:
        """Refuse terms of keys that there are not."""
        parse_terms(self.terms, names)

    def prepare(self, table: CellTable) -> RandomRatesData:
        """Fit the log-linear model, and estimate the spread of the random effects."""
        generators = parse_terms(self.terms, [key.name for key in table.keys])
        fitted = fit(table, generators, tolerance=self.tolerance)
        complete = ~table.incomplete
        cells, counts = table.cells[complete], table.counts[complete].astype(np.float64)
        # Rates are learned from complete records: right if keys are missing completely at random.
        n = counts.sum()
        means = n * fitted.probabilities(cells)
        overdispersion = 0.0
        if n:
            squared = evidence(table, fitted).squared_means
            excess = np.sum(counts**2 - 2.0 * counts * means) + squared - n
            overdispersion = float(excess / squared)
        spread = max(overdispersion, 0.0)
        parameter, shift = self._parameters(spread)
        data = RandomRatesData(
            fit=fitted,
            share=float(n) / table.n_units,
            population_size=table.n_units,
            spread=spread,
            parameter=parameter,
            shift=shift,
            overdispersion=overdispersion,
            names=tuple(key.name for key in table.keys),
            n_levels=table.n_levels,
            cells=cells,
            counts=counts,
            total=0.0,
            patterns=table.cells[~complete],
            pattern_counts=table.counts[~complete],
        )
        return data._replace(total=self._total(data))

    @abstractmethod
    def _parameters(self, spread: float) -> tuple[float, float]:
        """Return the parameter of the random effects' law, and the shift of the log mean."""

    def init(self, stream: Stream, data: RandomRatesData) -> RandomRatesState:
        """Return the state, which is empty."""
        return RandomRatesState()

    def step(
        self, stream: Stream, state: RandomRatesState, data: RandomRatesData, n_threads: int
    ) -> tuple[RandomRatesState, Info]:
        """Do nothing: what is random is drawn where it is asked for."""
        return state, Info({})

    def cell_probabilities(
        self, stream: Stream, state: RandomRatesState, data: RandomRatesData, cells: Int32
    ) -> Float64:
        """Lambda / N of each cell, (n,), lambda from its posterior; -1 sums over a key.

        They add up to 1 only on average: each cell's rate is drawn for itself.
        """
        sample = data.cells, data.counts
        if len(data.patterns):
            # As this sweep completes them: what is imputed is in its cell.
            imputed = self.impute(stream, state, data)
            sample = (
                np.concatenate((data.cells, imputed)),
                np.append(data.counts, np.ones(len(imputed))),
            )
        drawn = partial(self._drawn, stream, data, *sample)
        return self._summed(cells, data, drawn) / data.population_size

    def _drawn(
        self, stream: Stream, data: RandomRatesData, known: Int32, times: Float64, cells: Int32
    ) -> Float64:
        """Draw the rates of cells given records: cells (n_known, n_keys) and how often each."""
        fitted = data.population_size * data.fit.probabilities(cells)
        rates = np.empty(len(cells))
        counts = sum_equal(cells, known, times, data.n_levels)
        share = float(times.sum()) / data.population_size
        law = kernels.RateLaw(share, self.lognormal, data.parameter, data.shift)
        key = chain_key(stream.seed, stream.chain)
        kernels.draw_rates(key, stream.sweep, cells, counts, fitted, law, rates)
        return rates

    def predictive_probabilities(
        self, stream: Stream, state: RandomRatesState, data: RandomRatesData, cells: Int32
    ) -> Float64:
        """Posterior mean of lambda over that of the sum over all cells, (n,)."""
        return self._summed(cells, data, partial(self._mean, data)) / data.total

    def _mean(self, data: RandomRatesData, cells: Int32) -> Float64:
        fitted = data.population_size * data.fit.probabilities(cells)
        counts = sum_equal(cells, data.cells, data.counts, data.n_levels)
        return self._posterior_mean(data, fitted, counts)

    @abstractmethod
    def _posterior_mean(self, data: RandomRatesData, fitted: Float64, counts: Float64) -> Float64:
        """E[lambda | f = counts]."""

    @abstractmethod
    def _log_none(self, data: RandomRatesData, fitted: Float64, theta: float) -> Float64:
        """-log E[exp(-theta lambda) | f = 0]."""

    def _summed(self, cells: Int32, data: RandomRatesData, of_cells: Any) -> Float64:
        """Apply a function of complete cells, summing over the keys that are left out."""
        known = ~(cells < 0).all(axis=1)
        completed, owner = listed_completions(cells[known], data.n_levels)
        sums = np.full(len(cells), np.nan)
        sums[known] = np.bincount(owner, of_cells(completed), minlength=int(known.sum()))
        if not known.all():
            sums[~known] = data.total
        return sums

    def _total(self, data: RandomRatesData) -> float:
        """Posterior mean of the sum of lambda over all cells."""
        fitted = data.population_size * data.fit.probabilities(data.cells)
        nothing = np.zeros(len(fitted))
        occupied = self._posterior_mean(data, fitted, data.counts)
        occupied -= self._posterior_mean(data, fitted, nothing)
        points = _tabulated_rates()
        table = self._posterior_mean(data, points, np.zeros(len(points)))
        empty = kernels.empty_total(
            data.population_size / data.fit.total,
            data.fit.layout.terms,
            data.fit.factors,
            table,
        )
        return float(occupied.sum() + empty)

    def impute(self, stream: Stream, state: RandomRatesState, data: RandomRatesData) -> Int32:
        """Draw the missing keys of the incomplete records by the log-linear fit."""
        return data.fit.complete(generator_of(stream, 1), data.patterns, data.pattern_counts)

    def simulate(
        self, stream: Stream, state: RandomRatesState, data: RandomRatesData, n_records: int
    ) -> Int32:
        """Draw new individuals, (n_records, n_keys); those of one cell share its rate."""
        generator = generator_of(stream, 2)
        rates = self._drawn(stream, data, data.cells, data.counts, data.cells)
        # A few more than asked for, of which so many are taken at random: the cells' Poisson
        # counts given their total.
        theta = (n_records + 5.0 * math.sqrt(n_records) + 10.0) / max(data.total, 1.0)
        occupied = generator.poisson(theta * rates)
        cells, counts = self._empty(stream, data, theta)
        everything = np.concatenate(
            (np.repeat(data.cells, occupied, axis=0), np.repeat(cells, counts, axis=0))
        )
        if len(everything) < n_records:
            more = generator.integers(0, len(everything), n_records - len(everything))
            everything = np.concatenate((everything, everything[more]))
        return generator.permutation(everything)[:n_records]

    def _empty(self, stream: Stream, data: RandomRatesData, theta: float) -> tuple[Int32, Int64]:
        """Draw the cells outside the sample that new records fall into, and their counts."""
        table = self._log_none(data, _tabulated_rates(), theta)
        layout = data.fit.layout
        room = int(2 * theta * data.population_size) + 1_000
        found = -1
        while found < 0:
            walked = np.empty((room, len(layout.keys)), np.int64)
            times = np.empty(room)
            found = kernels.draw_empty(
                chain_key(stream.seed, stream.chain),
                stream.sweep,
                data.population_size / data.fit.total,
                theta,
                kernels.RateLaw(data.share, self.lognormal, data.parameter, data.shift),
                layout.terms,
                data.fit.factors,
                table,
                walked,
                times,
            )
            room *= 4
        real = layout.keys >= 0
        cells = np.empty((found, int(real.sum())), np.int32)
        cells[:, layout.keys[real]] = walked[:found, real]
        outside = ~is_in(cells, data.cells, data.n_levels)
        return cells[outside], times[:found][outside].astype(np.int64)

    def cost(self, data: RandomRatesData) -> tuple[float, float]:
        """Nothing for a sweep; of a cell its rate."""
        return 0.0, 300.0 + 3.0 * len(data.n_levels) ** 2

    def simulation_cost(self, data: RandomRatesData, n_records: int, n_keys: int) -> float:
        """Work of `simulate`: a walk over the cells."""
        return 10.0 * data.fit.n_cells + 500.0 * n_records

    def facts(self, data: RandomRatesData) -> Facts:
        """Terms, cells, zero margins and the spread."""
        warnings = []
        if data.overdispersion <= 0.0:
            warnings.append(
                "The moments show no spread of the cells' rates around the log-linear model "
                f"({data.overdispersion:.2g}): the estimate is that of the model without random "
                "effects."
            )
        return RandomRatesFacts(
            terms=write_terms(parse_terms(self.terms, data.names), data.names),
            cells=data.fit.n_cells,
            zero_margins=data.fit.n_zero_margins,
            overdispersion=data.overdispersion,
            shape=self._shape(data),
            sigma2=self._sigma2(data),
            population=data.total / data.population_size,
            warnings=tuple(warnings),
        )

    def _shape(self, data: RandomRatesData) -> float | None:
        """Shape of the gamma law; None for another law."""
        return None

    def _sigma2(self, data: RandomRatesData) -> float | None:
        """Variance of the normal law; None for another law."""
        return None


@dataclass(frozen=True, kw_only=True)
class ElamirSkinner(_RandomRates):
    """Log-linear model with gamma random effects (Elamir and Skinner 2006).

    Given f_c the rate is gamma again: shape a + f_c, rate a / L_c + pi.

    See Also
    --------
    SkinnerHolmes : lognormal effects; terms and tolerance are the same.

    Examples
    --------
    >>> import unikat
    >>> table = unikat.tabulate([[0, 2], [1, 1], [0, 2], [1, 2]], population_size=40)
    >>> found = unikat.estimate_risk(unikat.fit(unikat.ElamirSkinner(), table))
    >>> 0 <= found.tau1.mean <= found.tau2.mean <= table.n_uniques
    True
    """

    name: ClassVar[str] = "elamir-skinner"
    lognormal: ClassVar[bool] = False

    def _parameters(self, spread: float) -> tuple[float, float]:
        return spread, 0.0

    def _posterior_mean(self, data: RandomRatesData, fitted: Float64, counts: Float64) -> Float64:
        if data.parameter == 0.0:
            return fitted
        shape = 1.0 / data.parameter
        with np.errstate(divide="ignore"):
            return (shape + counts) / (shape / fitted + data.share)

    def _log_none(self, data: RandomRatesData, fitted: Float64, theta: float) -> Float64:
        if data.parameter == 0.0:
            return theta * fitted
        shape = 1.0 / data.parameter
        return shape * np.log1p(theta / (shape / fitted + data.share))

    def _shape(self, data: RandomRatesData) -> float:
        return 1.0 / data.parameter if data.parameter else math.inf


@dataclass(frozen=True, kw_only=True)
class SkinnerHolmes(_RandomRates):
    """Log-linear model with lognormal random effects (Skinner and Holmes 1998).

    Parameters
    ----------
    form
        ``posterior``: lambda from its posterior (paper 3, eq. 4); ``prior-mean``: at its prior
        mean, whatever f; ``plug-in``: without its effect, exp(w'b) (eq. 5).
    centre
        Whether the fitted rate is the ``mean`` of lambda, as the moments take it, or its ``median``
        exp(w'b), as paper 3 writes it.

    See Also
    --------
    ElamirSkinner : gamma effects.

    Examples
    --------
    >>> import unikat
    >>> table = unikat.tabulate([[0, 2], [1, 1], [0, 2], [1, 2]], population_size=40)
    >>> found = unikat.estimate_risk(unikat.fit(unikat.SkinnerHolmes(), table))
    >>> 0 <= found.tau1.mean <= found.tau2.mean <= table.n_uniques
    True
    """

    name: ClassVar[str] = "skinner-holmes"
    lognormal: ClassVar[bool] = True
    form: str = "posterior"
    centre: str = "mean"

    def __post_init__(self) -> None:
        """Check the options."""
        super().__post_init__()
        check_choice("form", self.form, ("posterior", "prior-mean", "plug-in"))
        check_choice("centre", self.centre, ("mean", "median"))

    @property
    def uncertainty(self) -> Uncertainty:
        """Rates are drawn from their posterior, or count as known."""
        return "empirical-bayes" if self.form == "posterior" else "conditional"

    def _parameters(self, spread: float) -> tuple[float, float]:
        variance = math.log1p(spread)
        shift = -0.5 * variance if self.centre == "mean" else 0.0
        if self.form == "prior-mean":
            return 0.0, shift + 0.5 * variance
        if self.form == "plug-in":
            return 0.0, shift
        return variance, shift

    def _posterior_mean(self, data: RandomRatesData, fitted: Float64, counts: Float64) -> Float64:
        if data.parameter == 0.0:
            return fitted * math.exp(data.shift)
        with np.errstate(invalid="ignore"):
            above = _log_integral(data, fitted, counts + 1.0, data.share)
            below = _log_integral(data, fitted, counts, data.share)
        mean: Float64 = np.where(fitted > 0.0, np.exp(above - below), 0.0)
        return mean

    def _log_none(self, data: RandomRatesData, fitted: Float64, theta: float) -> Float64:
        if data.parameter == 0.0:
            return theta * fitted * math.exp(data.shift)
        nothing = np.zeros(len(fitted))
        none = theta * self._posterior_mean(data, fitted, nothing)
        # Where it is small the difference has no digits left, and is not needed.
        large = none > 1e-6
        some = _log_integral(data, fitted[large], nothing[large], data.share)
        some -= _log_integral(data, fitted[large], nothing[large], data.share + theta)
        none[large] = some
        return none

    def _sigma2(self, data: RandomRatesData) -> float:
        return math.log1p(data.spread)


def _log_integral(data: RandomRatesData, fitted: Float64, counts: Float64, share: float) -> Float64:
    """Log of the integral of exp(f x - share e^x) over x ~ Normal(log fitted + shift, variance).

    Gauss-Hermite around the mode, with the curvature there (Liu and Pierce 1994).
    """
    variance = data.parameter
    with np.errstate(divide="ignore"):
        mean = np.log(fitted) + data.shift
    mode = np.where(np.isfinite(mean), mean, 0.0) + variance * counts
    # Newton's method from the right of the mode, where it is monotone, on a concave function.
    mode = np.minimum(mode, np.log((counts + 1.0) / share) + 5.0)
    for _ in range(100):
        rate = share * np.exp(mode)
        slope = counts - rate - (mode - mean) / variance
        change = slope / (rate + 1.0 / variance)
        mode = mode + change
        if np.nanmax(np.abs(change), initial=0.0) < 1e-12:
            break
    width = 1.0 / np.sqrt(share * np.exp(mode) + 1.0 / variance)
    x = mode[:, None] + width[:, None] * _NODES
    logs = counts[:, None] * x - share * np.exp(x) - (x - mean[:, None]) ** 2 / (2.0 * variance)
    logs += 0.5 * _NODES**2
    top: Float64 = logs.max(axis=1)
    total = np.exp(logs - top[:, None]) @ _WEIGHTS
    return top + np.log(total * width / math.sqrt(2.0 * math.pi * variance))


def _tabulated_rates() -> Float64:
    """Fitted rates at which the kernels have functions of them, (n_points,)."""
    points = np.arange(kernels.N_OCTAVES * kernels.PER_OCTAVE + 1)
    mantissa = 0.5 + 0.5 / kernels.PER_OCTAVE * (points % kernels.PER_OCTAVE)
    rates: Float64 = np.ldexp(mantissa, kernels.LOWEST + points // kernels.PER_OCTAVE)
    return rates
