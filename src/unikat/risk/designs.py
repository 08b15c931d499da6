"""Samples from a file that is taken as the population, with what is true of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias, get_args

import numpy as np
from numpy.typing import ArrayLike

from unikat._typing import Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, suggest
from unikat.rng import check_seed

DesignName: TypeAlias = Literal["simple", "bernoulli", "stratified"]
"""How units are drawn: n without replacement; each by itself with probability n/N; or n without
replacement with every stratum's share as in the population."""

_DRAW, _CHAINS = 0, 1
"""What a random number is for; the first part of its address."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A sample and the truth about it."""

    table: CellTable
    """The sample; its keys have the levels of the population."""
    population_counts: Int64
    """F, the number of units of the population with each pattern, (n_cells,)."""

    @property
    def tau1(self) -> float:
        """Sample uniques that are unique in the population."""
        return float(np.count_nonzero(self._at_risk == 1))

    @property
    def tau2(self) -> float:
        """Sum of 1/F over the sample uniques."""
        return float((1.0 / self._at_risk).sum())

    @property
    def _at_risk(self) -> Int64:
        return self.population_counts[self.table.unique]


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A file whose rows are all units of a population.

    A population cell is a pattern of the table. Make one by :meth:`of`, which checks.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2], [0, 1]], keys, population_size=4)
    >>> sample = Population.of(table).sample(np.array([0, 1]))
    >>> sample.tau1, sample.tau2
    (1.0, 1.5)
    """

    table: CellTable
    """All units; `record_cell` is the pattern of each."""
    strata: Int32 | None = None
    """(N,) number of the stratum of each unit, from 0."""

    @classmethod
    def of(cls, table: CellTable, strata: ArrayLike | None = None) -> Population:
        """Take the records of a table as all units of a population.

        Parameters
        ----------
        table
            The units; its population size is not used.
        strata
            (N,) whole numbers from 0, one per unit.

        Raises
        ------
        DataError
            If a key is missing and missing is no level: nobody knows then which units are
            unique. If the strata do not fit.
        """
        lacking = [
            f"{key.name} {n:,}"
            for key, n in zip(table.keys, table.n_missing, strict=True)
            if n and key.missing_level is None
        ]
        if lacking:
            raise DataError(
                f"{int(table.counts[table.incomplete].sum()):,} units of the population have a "
                f"missing key ({', '.join(lacking)}). The truth is known only if every unit has a "
                "cell. Take missing as a level of its own with --missing level "
                '(missing="level"), or leave these units out of the file.'
            )
        numbers = None
        if strata is not None:
            numbers = np.asarray(strata)
            if numbers.shape != (table.n_records,) or numbers.dtype.kind not in "iu":
                raise DataError("The strata must be whole numbers, one for each unit.")
            if numbers.min() < 0:
                raise DataError("The numbers of the strata must not be negative.")
            numbers = numbers.astype(np.int32)
        return cls(table=replace(table, population_size=table.n_records), strata=numbers)

    @property
    def n_units(self) -> int:
        """Number of units, N."""
        return self.table.n_records

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the table, the order of the units, and the strata."""
        digest = hashlib.sha256(self.table.fingerprint.encode())
        digest.update(np.ascontiguousarray(self.table.record_cell, dtype="<i4").data)
        if self.strata is not None:
            digest.update(np.ascontiguousarray(self.strata, dtype="<i4").data)
        return digest.hexdigest()

    def sample(self, units: Int64) -> Sample:
        """Make the sample of some units, with the truth about it.

        Parameters
        ----------
        units
            (n,) rows of the population, each at most once, at least one.
        """
        table = self.table
        cell = table.record_cell[units]
        counts = np.bincount(cell, minlength=table.n_cells)
        occupied = np.flatnonzero(counts)
        place = np.zeros(table.n_cells, np.int32)
        place[occupied] = np.arange(len(occupied), dtype=np.int32)
        drawn = replace(
            table,
            cells=np.ascontiguousarray(table.cells[occupied]),
            counts=counts[occupied].astype(np.int64),
            record_cell=place[cell],
        )
        return Sample(table=drawn, population_counts=table.counts[occupied])


def check_design(design: str) -> None:
    """Refuse an unknown design (SpecError)."""
    choices = get_args(DesignName)
    if design not in choices:
        raise SpecError(
            f"The design {design!r} is not known; use one of {', '.join(choices)}."
            + suggest(design, choices)
        )


def draw_units(
    population: Population, n: int, repeat: int, *, seed: int, design: DesignName = "simple"
) -> Int64:
    """Draw a sample; it depends on population, design, seed, n and repeat alone.

    Parameters
    ----------
    population
        From which to draw.
    n
        Size of the sample, 1 to N; its mean under ``"bernoulli"``.
    repeat
        Number of the repetition, from 1.
    seed
        Seed of the study.
    design
        How to draw. ``"stratified"`` gives every stratum its proportional share of n, rounded by
        largest remainder, and draws it without replacement.

    Returns
    -------
    Int64
        Rows of the units drawn, in increasing order; none is possible under ``"bernoulli"``.
    """
    rng = np.random.Generator(np.random.Philox(_address(seed, _DRAW, n, repeat)))
    size = population.n_units
    if design == "bernoulli":
        return np.flatnonzero(rng.random(size) < n / size)
    if design == "simple":
        return np.sort(rng.choice(size, n, replace=False, shuffle=False)).astype(np.int64)
    assert population.strata is not None
    sizes = np.bincount(population.strata)
    members = np.split(np.argsort(population.strata, kind="stable"), np.cumsum(sizes)[:-1])
    parts = [
        rng.choice(units, wanted, replace=False, shuffle=False)
        for units, wanted in zip(members, allocate(n, sizes), strict=True)
    ]
    return np.sort(np.concatenate(parts)).astype(np.int64)


def chain_seed(seed: int, n: int, repeat: int) -> int:
    """Seed of the chains for one sample: the same for all models, so that none moves another."""
    state = _address(seed, _CHAINS, n, repeat).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def allocate(n: int, sizes: Int64) -> Int64:
    """Share n among strata in proportion to their sizes, by largest remainder.

    Parameters
    ----------
    n
        To be shared, at most the sum of the sizes.
    sizes
        (n_strata,).

    Returns
    -------
    Int64
        (n_strata,), with sum n, none above its size; of equal remainders the first go first.

    Examples
    --------
    >>> allocate(10, np.array([50, 30, 20])).tolist(), allocate(2, np.array([5, 5, 5])).tolist()
    ([5, 3, 2], [1, 1, 0])
    """
    total = int(sizes.sum())
    shares = n * sizes // total
    remainders = n * sizes % total
    first = np.argsort(-remainders, kind="stable")[: n - int(shares.sum())]
    shares[first] += 1
    return shares.astype(np.int64)


def _address(seed: int, purpose: int, n: int, repeat: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(check_seed(seed), spawn_key=(purpose, n, repeat))
