"""Sizes of a sample's classes, and what is estimated from them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from unikat._typing import Float64
from unikat.data.design import Design
from unikat.errors import DataError


@dataclass(frozen=True, kw_only=True)
class Uniques:
    """Estimated number of units of the population that are alone with their keys.

    Parameters
    ----------
    method
        ``"pitman"``, ``"zayatz"``, ``"snb"``, ``"dankar"`` or ``"bethlehem"``.
    estimate
        S_1, in units of the population; NaN if there is no estimate.
    in_sample
        f S_1: about how many of them a simple random sample of n units holds. It is crude, since
        it does not ask which records they are; tau1 of a model does.
    parameters
        Of the fitted law, by name; empty where nothing was fitted.
    chosen
        The estimator that a rule took, or an empty text.
    reason
        Why there is no estimate; empty where there is one.
    """

    method: str
    estimate: float
    in_sample: float
    parameters: Mapping[str, float] = field(default_factory=dict)
    chosen: str = ""
    reason: str = ""


@dataclass(frozen=True, kw_only=True, eq=False)
class Histogram:
    """Sizes of the classes of a sample, and the size of the population."""

    sizes: Float64
    """(n_sizes,): j, rising, of the sizes that occur."""
    classes: Float64
    """(n_sizes,): c_j, above 0; not whole where classes overlap."""
    n: float
    population_size: int

    @classmethod
    def of(cls, sizes: ArrayLike, classes: ArrayLike, population_size: int) -> Histogram:
        """Check the arrays, which are as in :func:`population_uniques.pitman`."""
        j = np.asarray(sizes, dtype=np.float64)
        c = np.asarray(classes, dtype=np.float64)
        if j.ndim != 1 or j.shape != c.shape:
            raise DataError(
                "A histogram of class sizes is two arrays of one dimension and equal length: the "
                f"sizes, and how many classes have each; got shapes {j.shape} and {c.shape}."
            )
        if not (np.isfinite(j * c).all() and (c >= 0.0).all() and (j >= 1.0).all()):
            raise DataError("Sizes of classes are at least 1, and numbers of classes at least 0.")
        if not np.array_equal(j, np.rint(j)) or len(np.unique(j)) < len(j):
            raise DataError("Sizes of classes are whole numbers, each listed once.")
        order = np.argsort(j)
        order = order[c[order] > 0.0]
        design = Design(population_size=population_size)
        # Shares of overlapping classes add up to whole numbers only up to rounding.
        n = round(float(j @ c))
        design.check(n)
        assert design.population_size is not None
        return cls(
            sizes=j[order], classes=c[order], n=float(n), population_size=design.population_size
        )

    @property
    def u(self) -> float:
        """Number of classes."""
        return float(self.classes.sum())

    @property
    def fraction(self) -> float:
        """Sampling fraction, n / N."""
        return self.n / self.population_size

    def of_size(self, size: int) -> float:
        """Return the number of classes of a size."""
        return float(self.classes[self.sizes == size].sum())

    @property
    def problem(self) -> str:
        """Why no estimator can say anything, or an empty text."""
        alone = self.of_size(1)
        if not len(self.sizes):
            return "There is no record."
        if self.n >= self.population_size:
            return (
                f"The sample is the whole population: its {alone:,.0f} uniques are counted, and "
                "there is nothing to estimate."
            )
        if not alone:
            return "No record is alone in its class, so nothing tells of uniques in the population."
        if len(self.sizes) == 1:
            return (
                "Every record is alone in its class: the sample does not tell whether the "
                "population has any class of two."
            )
        return ""

    def none(self, method: str, reason: str = "", **parameters: float) -> Uniques:
        """Return the lack of an estimate; the reason is `problem` unless another is given."""
        return Uniques(
            method=method,
            estimate=math.nan,
            in_sample=math.nan,
            parameters=parameters,
            reason=reason or self.problem,
        )

    def found(self, method: str, estimate: float, **parameters: float) -> Uniques:
        """Return an estimate of S_1."""
        return Uniques(
            method=method,
            estimate=estimate,
            in_sample=self.fraction * estimate,
            parameters=parameters,
        )
