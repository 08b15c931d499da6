"""How the sample was drawn from the population."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from operator import index

import numpy as np

from unikat._typing import Float64, Int32
from unikat.errors import SpecError

LARGEST_POPULATION = 2**62
"""Population sizes stay below this, so that sums and differences of counts fit in 64 bits."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sampling:
    """What each record stands for where records were not drawn with equal chances.

    Records of one class were drawn with equal chances, as far as is known: a class is a stratum,
    or, where only weights are known, the records of about the same weight. With H classes:

    Parameters
    ----------
    weights
        (n_records,) units of the population that each record stands for, above 0; their sum is
        about N.
    strata
        (n_records,) class of each record, 0 to H-1; every class has a record.
    sizes
        (H,) N_h, the units of the population in each class, at least its records; sum N.
    from_weights
        Whether the classes were made from the weights, and `sizes` are sums of weights; else the
        classes are strata.
    """

    weights: Float64
    strata: Int32
    sizes: Float64
    from_weights: bool

    @property
    def n_strata(self) -> int:
        """H, the number of classes."""
        return len(self.sizes)

    @property
    def n_sampled(self) -> Float64:
        """n_h, the records of each class, (H,)."""
        return np.bincount(self.strata, minlength=self.n_strata).astype(np.float64)

    @property
    def digest(self) -> bytes:
        """SHA-256 of all numbers."""
        digest = hashlib.sha256(np.ascontiguousarray(self.weights, dtype="<f8").data)
        digest.update(np.ascontiguousarray(self.strata, dtype="<i4").data)
        digest.update(np.ascontiguousarray(self.sizes, dtype="<f8").data)
        return digest.digest()


@dataclass(frozen=True, kw_only=True)
class Design:
    """Design of the sample.

    Parameters
    ----------
    population_size
        N, the number of units (persons, households, firms) in the population from which the
        sample was drawn; not the sum of weights and not the number of records. From the number
        of records n (a census) up to 2**62.

    Raises
    ------
    SpecError
        If the population size is missing, not a whole number, not positive, or too large.

    Examples
    --------
    >>> Design(population_size=712_174).population_size
    712174
    """

    population_size: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "population_size", _population_size(self.population_size))

    def check(self, n_records: int) -> None:
        """Refuse a population smaller than the sample of `n_records` records (SpecError)."""
        if self.population_size < n_records:
            raise SpecError(
                f"The population size is {self.population_size:,}, but the data hold "
                f"{n_records:,} records. The population size N is the number of units in the "
                "whole population, so it cannot be smaller than the number of records; give the "
                "population's size, or the population's part that the file covers."
            )


def _population_size(value: object) -> int:
    if value is None:
        raise SpecError(
            "The population size is needed: the number of units (persons, households, ...) in "
            "the population from which the sample was drawn, for example from the census. Give "
            "it as population_size=... or --population-size."
        )
    rule = "The population size must be a whole number of units"
    try:
        if isinstance(value, bool):
            raise TypeError
        # A float such as 1e6 holds a whole number and is what a calculation often leaves behind.
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        number = index(value)  # type: ignore[arg-type]  # TypeError is the question asked
    except TypeError:
        raise SpecError(f"{rule}; got {value!r}.") from None
    if number < 1:
        raise SpecError(f"{rule}, at least 1; got {number}.")
    if number >= LARGEST_POPULATION:
        raise SpecError(f"{rule} below 2**62 (about 4.6e18); got {number}.")
    return number
