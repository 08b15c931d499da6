"""How the sample was drawn from the population: today, the population size alone."""

from __future__ import annotations

from dataclasses import dataclass
from operator import index

from unikat.errors import SpecError

LARGEST_POPULATION = 2**62
"""Population sizes stay below this, so that sums and differences of counts fit in 64 bits."""


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
