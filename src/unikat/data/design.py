"""How the sample was drawn from the population."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from operator import index

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.errors import SpecError, brief, check_column_name, option

LARGEST_POPULATION = 2**62
"""Population sizes stay below this, so that sums and differences of counts fit in 64 bits."""
CLASS = "sampling class"
"""Name of the key that tells the class of a record, where models get one."""


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
        (H,) N_h, the units of the population in each class; sum N. Sums of calibrated weights,
        which can be below 1, may be less than the records.
    from_weights
        Whether the classes were made from the weights, and `sizes` are sums of weights; else the
        classes are strata.
    """

    weights: Float64 = field(repr=False)
    strata: Int32 = field(repr=False)
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

    def taken(self, records: Int64) -> Sampling:
        """Return that of some records: what they stand for, and the classes' sizes, stay."""
        return replace(self, weights=self.weights[records], strata=self.strata[records])

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

    Without columns that say otherwise every unit had the same chance to be drawn. Names are those
    of columns of the data.

    Parameters
    ----------
    population_size
        N, the number of units (persons, households, firms) in the population from which the
        sample was drawn; not the sum of weights and not the number of records. From the number
        of records n (a census) up to 2**62. None: the sum of the weights, or of the strata's
        sizes.
    weights
        Column of weights, above 0: the units that each record stands for, design weights or
        calibrated ones. They sum to N, but for 10%.
    inclusion
        Column of inclusion probabilities, above 0 and at most 1, instead of weights.
    strata
        Column of the stratum of each record. Within strata units had equal chances, unless weights
        say otherwise.
    stratum_sizes
        Units of the population in each stratum, by its value in the column as text. None: the sum
        of the weights of its records.
    relative_weights
        Weights are known up to a factor (they sum to n, say), and are scaled to sum to N.
    household
        Columns that together identify the household, or any other group whose members were drawn
        together: whole households were sampled, not single persons. Empty: records were drawn one
        by one.
    without_population
        The population size is not known and nothing else tells it: the file is read for its
        levels, rules or records alone. What needs the size then says so.

    Raises
    ------
    SpecError
        If the population size is not a whole number, not positive, or too large; if it is missing
        and nothing else tells it; or columns are named that exclude each other.

    Examples
    --------
    >>> Design(population_size=712_174).population_size
    712174
    >>> Design(strata="REGION", stratum_sizes={"north": 4000, "south": 10000}).strata
    'REGION'
    """

    population_size: int | None = None
    weights: str | None = None
    inclusion: str | None = None
    strata: str | None = None
    stratum_sizes: Mapping[str, int] | None = None
    relative_weights: bool = False
    household: tuple[str, ...] = ()
    without_population: bool = False

    def __post_init__(self) -> None:
        for name in ("weights", "inclusion", "strata"):
            check_column_name(name, getattr(self, name))
        for column in self.household:
            check_column_name("household", column)
            for name in ("weights", "inclusion", "strata"):
                if getattr(self, name) == column and len(self.household) == 1:
                    raise SpecError(
                        f"The column {brief(column)!r} is named twice, as {name} and as what tells "
                        "households apart. A household has a number of its own; name the column "
                        f"that holds it: {option('household', 'COLUMN')}."
                    )
        if self.weights is not None and self.inclusion is not None:
            raise SpecError(
                "Weights and inclusion probabilities are both named; a weight is the inverse of a "
                "probability, so give one of the two columns."
            )
        weighted = self.weights is not None or self.inclusion is not None
        if self.stratum_sizes is not None:
            if self.strata is None:
                raise SpecError(
                    "Sizes of strata are given, but no column of strata; name it: "
                    f"{option('strata', 'COLUMN')}."
                )
            if weighted:
                raise SpecError(
                    "Sizes of strata and weights are both given, and may contradict each other; "
                    "give one of the two. Weights say how many units a stratum has by their sum."
                )
            sizes = {str(name): _population_size(size) for name, size in self.stratum_sizes.items()}
            object.__setattr__(self, "stratum_sizes", sizes)
        elif self.strata is not None and not weighted:
            raise SpecError(
                f"The strata are in column {brief(self.strata)!r}, but not how many units of the "
                f"population each has. Give the sizes of the strata: {option('stratum_sizes')}, "
                f"or a column of weights: {option('weights', 'COLUMN')}."
            )
        if self.relative_weights and self.weights is None:
            raise SpecError(
                f"{option('relative_weights', True)} is about weights, and no column of weights is "
                "named."
            )
        known = self.stratum_sizes is not None or (weighted and not self.relative_weights)
        known = known or self.without_population
        if self.population_size is not None or not known:
            object.__setattr__(self, "population_size", _population_size(self.population_size))

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that the design names."""
        named = (self.weights, self.inclusion, self.strata, *self.household)
        return tuple(name for name in named if name is not None)

    def use_of(self, column: str) -> str:
        """Say what the design reads a column for."""
        uses = {
            self.weights: "weights",
            self.inclusion: "inclusion probabilities",
            self.strata: "strata",
        }
        return uses.get(column, "households")

    def check(self, n_records: int) -> None:
        """Refuse a population smaller than the sample of `n_records` records (SpecError)."""
        if self.population_size is not None and self.population_size < n_records:
            raise SpecError(
                f"The population size is {self.population_size:,}, but the data hold "
                f"{n_records:,} records. The population size N is the number of units in the "
                "whole population, so it cannot be smaller than the number of records; give the "
                "population's size, or the population's part that the file covers."
            )


def no_population() -> SpecError:
    """Return the error of what needs a population size that is not known."""
    return SpecError(
        "The population size is needed: the number of units (persons, households, ...) in "
        "the population from which the sample was drawn, for example from the census. Give "
        f"it: {option('population_size')}."
    )


def _population_size(value: object) -> int:
    if value is None:
        raise no_population()
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
