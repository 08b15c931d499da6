"""The laws of cells whose unobserved units are like the records of their class.

A class is one of a design (`exposure.BySampling`) or a margin cell whose number of people is known
(`margins.ByMargins`). Of the M_h unobserved units of class h a share q(c | h) is expected in
cell c.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.companions import Companions
from unikat.kernels import cells as kernels
from unikat.models.base import AnyLaw, Stream
from unikat.rng import chain_key

Error: TypeAlias = Callable[[Float64, Float64, Float64 | None], Float64]
"""Puts a model's own error on the probabilities of cells with so many records, of such
`Exposure.population`."""


class ClassChances(NamedTuple):
    """Chances of cells by class."""

    sample: Float64
    """(n,): probability that a record of the sample falls in the cell."""
    p: Float64
    """(n, width): probability that a unit of the class `of` falls in it."""
    of: Int64
    """(n, width)"""


class Look(NamedTuple):
    """One state of a model, to be looked at."""

    stream: Stream
    model: AnyLaw
    state: Any
    data: Any

    @property
    def poisson(self) -> bool:
        """The unobserved counts are independent."""
        return self.model.population == "poisson"

    def erring(self, p: Float64, counts: Float64, population: Float64 | None) -> Float64:
        """Put the model's own error on probabilities; the very same array if it has none."""
        return self.model.risk_probabilities(
            self.stream, self.data, p, counts, population=population
        )

    def elsewhere(self, chain: int) -> Look:
        """Return the same with random numbers of its own: of a chain beyond any run's."""
        return self._replace(stream=self.stream._replace(chain=self.stream.chain + chain))


def probabilities(look: Look, cells: Int32, companions: Companions | None = None) -> Float64:
    """Return a model's probabilities of cells, (n,): without companions, if these are given."""
    stream, model, state, data = look
    p = model.cell_probabilities(stream, state, data, cells)
    if companions is None:
        return p
    return model.without_companions(stream, state, data, cells, p, companions)


@dataclass(frozen=True, kw_only=True, eq=False)
class ByClass:
    """Unobserved units are like the records of their class."""

    unobserved: Float64
    """(n_classes,): M_h, whole numbers."""
    sizes: Float64
    """(n_classes,): N_h, the unobserved units and the records."""

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        one = np.ones(1)
        kernels.cell_risk(one, 0.5 * one, one, False, np.empty(1), np.empty(1))
        kernels.draw_population_by_class(
            chain_key(0, 0), 0, one, np.full((1, 1), 0.5), np.zeros((1, 1), np.int64), False
        )

    def probabilities(self, chances: ClassChances) -> Float64:
        """Probability that a record of the sample falls in each cell, (n,)."""
        return chances.sample

    def scaled(self, chances: ClassChances, probabilities: Float64) -> ClassChances:
        """Chances of cells that have these probabilities instead, in the same ratio by class."""
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = np.where(chances.sample > 0.0, probabilities / chances.sample, 1.0)
        return ClassChances(probabilities, np.minimum(chances.p * factor[:, None], 1.0), chances.of)

    def taken(self, chances: ClassChances, which: Int64 | Bool) -> ClassChances:
        """Chances of some cells."""
        return ClassChances(chances.sample[which], chances.p[which], chances.of[which])

    def means(self, chances: ClassChances) -> Float64:
        """Expected unobserved units of each cell, (n,)."""
        means: Float64 = (self.unobserved[chances.of] * chances.p).sum(axis=1)
        return means

    def population(self, chances: ClassChances) -> Float64:
        """Units of the population expected in each cell, over its probability, (n,).

        sum_h N_h q(c | h) / q(c): the sample's law q is not that of the population. A cell without
        probability has any; it gets N.
        """
        return self._over(self._units(chances), chances.sample)

    def _units(self, chances: ClassChances) -> Float64:
        """Units of the population expected in each cell, (n,)."""
        units: Float64 = (self.sizes[chances.of] * chances.p).sum(axis=1)
        return units

    def _over(self, units: Float64, probabilities: Float64) -> Float64:
        over = np.full(len(units), float(self.sizes.sum()))
        np.divide(units, probabilities, out=over, where=probabilities > 0.0)
        return over

    def risk(
        self, chances: ClassChances, counts: Float64, poisson: bool
    ) -> tuple[Float64, Float64]:
        """r1 and r2 of cells with so many records.

        The count of a cell is a sum of binomials; r2 takes the binomial with its mean and variance,
        which is exact for one class and off by a share of order p elsewhere.
        """
        means = self.means(chances)
        r1, r2 = np.empty(len(means)), np.empty(len(means))
        if poisson:
            kernels.cell_risk(np.ones(len(means)), means, counts, True, r1, r2)
            return r1, r2
        squares = (self.unobserved[chances.of] * chances.p**2).sum(axis=1)
        with np.errstate(invalid="ignore"):
            p = np.where(means > 0.0, squares / means, 0.0)
            unobserved = np.where(p > 0.0, means / p, 0.0)
        kernels.cell_risk(unobserved, p, counts, False, r1, r2)
        return self.alone(chances, False), r2

    def draw(self, stream: Stream, chances: ClassChances, poisson: bool) -> tuple[float, float]:
        """Population uniques among the cells, and sum of 1/F, in a drawn population."""
        used = np.bincount(chances.of.ravel(), chances.p.ravel())
        free = poisson or float(used.max(initial=0.0)) > 1.0
        found: tuple[float, float] = kernels.draw_population_by_class(
            chain_key(stream.seed, stream.chain),
            stream.sweep,
            self.unobserved,
            chances.p,
            chances.of,
            free,
        )
        return found

    def alone(self, chances: ClassChances, poisson: bool) -> Float64:
        """Probability that no unobserved unit is in each cell, (n,)."""
        if poisson:
            return np.exp(-self.means(chances))
        logs = np.log1p(-np.minimum(chances.p, 1.0 - 1.2e-16))
        alone: Float64 = np.exp((self.unobserved[chances.of] * logs).sum(axis=1))
        return alone

    def alone_joined(
        self,
        margin: ClassChances,
        cell: ClassChances,
        with_error: ClassChances,
        error: Error,
        poisson: bool,
    ) -> Float64:
        """As `alone`, of margins that hold a cell and others, with the model's error."""
        joining = np.maximum(margin.sample - cell.sample, 0.0)
        mean = np.maximum(self.means(margin) - self.means(cell), 0.0)
        units = np.maximum(self._units(margin) - self._units(cell), 0.0)
        erring = error(joining, np.zeros(len(joining)), self._over(units, joining))
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = np.where(joining > 0.0, erring / joining, 1.0)
        # Those that join have a Poisson count: the error of its rate is much larger than what that
        # leaves out. The cell itself has the law it has by itself.
        alone: Float64 = self.alone(with_error, poisson) * np.exp(-factor * mean)
        return alone

    def within(self, p: ClassChances, q: ClassChances) -> Float64:
        """What of cells with records `filled` wants summed: chances, means, units."""
        return np.column_stack((p.sample, q.sample, self.means(p), self.means(q), self._units(p)))

    def filled(self, margin: ClassChances, sums: Float64, error: Error) -> ClassChances:
        """Chances of margins with the model's error, some of whose cells have records.

        Their units are spread over the classes as without the error; their mean is exact.
        """
        joining = np.maximum(margin.sample - sums[:, 0], 0.0)
        before = self.means(margin)
        units = np.maximum(self._units(margin) - sums[:, 4], 0.0)
        erring = error(joining, np.zeros(len(joining)), self._over(units, joining))
        with np.errstate(invalid="ignore", divide="ignore"):
            factor = np.where(joining > 0.0, erring / joining, 1.0)
            mean = sums[:, 3] + factor * np.maximum(before - sums[:, 2], 0.0)
            ratio = np.where(before > 0.0, mean / before, 1.0)
        p = np.minimum(margin.p * ratio[:, None], 1.0)
        return ClassChances(sums[:, 1] + erring, p, margin.of)
