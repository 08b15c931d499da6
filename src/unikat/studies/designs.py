"""Samples from a file that is taken as the population, with what is true of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.design import Sampling
from unikat.data.households import HouseholdLayout
from unikat.data.keys import MISSING, Key
from unikat.data.sampling import few_classes, sampling_of
from unikat.data.table import CellTable
from unikat.errors import DataError
from unikat.rng import check_seed

DesignName: TypeAlias = Literal["simple", "bernoulli", "stratified", "pps", "households"]
"""How units are drawn: n without replacement; each by itself with probability n/N; n without
replacement, a number that is fixed from each stratum; n without replacement with probabilities
in proportion to a size; or whole households, as many as have n units on average."""
Levels: TypeAlias = Literal["population", "sample"]
"""Which levels a sample's keys have: all of the population, or those that its records show."""
Allocation: TypeAlias = Literal["proportional", "equal", "power"]
"""How n is shared among strata: as their sizes are, alike, or as a power of their sizes."""

_CERTAIN = 1.0 - 1e-9
"""Inclusion probabilities from here on are 1: two points of a systematic sample, 1 apart but for
rounding, then never hit the same unit."""
_DRAW, _CHAINS, _SECOND, _BLANK = 0, 1, 2, 3
"""What a random number is for; the first part of its address."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample:
    """A sample and the truth about it."""

    table: CellTable
    """The sample."""
    population_counts: Int64
    """F, the number of units of the population with each pattern, (n_cells,); of a pattern with a
    missing key that of one of its records."""
    units: Int64
    """(n,) rows of the population that were drawn, in increasing order."""
    whole: Sample | None = None
    """The sample before values were set missing; None if none were."""

    @property
    def tau1(self) -> float:
        """Sample uniques that are unique in the population, all values known."""
        return float(np.count_nonzero(self._at_risk == 1))

    @property
    def tau2(self) -> float:
        """Sum of 1/F over the sample uniques, all values known."""
        return float((1.0 / self._at_risk).sum())

    def blanked(self, share: float, rng: np.random.Generator) -> Sample:
        """Return the sample with a share of its keys' values set missing, each by itself."""
        table = self.table
        codes = table.cells[table.record_cell]
        codes[rng.random(codes.shape) < share] = MISSING
        # What was missing in the population stays a level; what is set missing here is unknown.
        drawn = replace(table, missing="integrate").with_keys(table.keys, codes)
        counts = np.zeros(drawn.n_cells, np.int64)
        counts[drawn.record_cell] = self.population_counts[table.record_cell]
        return replace(self, table=drawn, population_counts=counts, whole=self)

    @property
    def _at_risk(self) -> Int64:
        whole = self.whole or self
        return whole.population_counts[whole.table.unique]


@dataclass(frozen=True, kw_only=True, eq=False)
class Population:
    """A file that holds all units of a population, records or households.

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
    """All units; `record_cell` is the pattern of each, `households` the household, if known."""
    strata: Int32 | None = None
    """(N,) number of the stratum of each unit, from 0, every number with a unit."""
    measure: Float64 | None = None
    """(N,) size of each unit, above 0, for sampling with probabilities in proportion to it."""

    @classmethod
    def of(
        cls, table: CellTable, strata: ArrayLike | None = None, measure: Float64 | None = None
    ) -> Population:
        """Take the records of a table as all units of a population.

        Parameters
        ----------
        table
            The units, with their households if such are to be drawn; its population size and
            sampling are not used.
        strata
            (N,) whole numbers from 0, one per unit.
        measure
            (N,) finite sizes above 0, one per unit.
        """
        lacking = [
            f"{key.name} {n:,}"
            for key, n in zip(table.variables, table.n_missing, strict=True)
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
            numbers = np.unique(strata, return_inverse=True)[1].astype(np.int32)
        whole = replace(table, population_size=table.n_records, sampling=None)
        return cls(table=whole, strata=numbers, measure=measure)

    @property
    def n_units(self) -> int:
        """Number of units, N."""
        return self.table.n_records

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 (hex) of the table, the order of the units, the strata and the sizes."""
        digest = hashlib.sha256(self.table.fingerprint.encode())
        digest.update(np.ascontiguousarray(self.table.record_cell, dtype="<i4").data)
        if self.strata is not None:
            digest.update(np.ascontiguousarray(self.strata, dtype="<i4").data)
        if self.measure is not None:
            digest.update(b"measure")
            digest.update(np.ascontiguousarray(self.measure, dtype="<f8").data)
        return digest.hexdigest()

    def sample(
        self,
        units: Int64,
        sampling: Sampling | None = None,
        *,
        by_household: bool = False,
        levels: Levels = "population",
    ) -> Sample:
        """Make the sample of some units, with the truth about it.

        Parameters
        ----------
        units
            (n,) rows of the population, each at most once, at least one.
        sampling
            What each of them stands for; None if all had equal chances.
        by_household
            The units were drawn by households; else the sample does not know its households.
        levels
            Levels of its keys.
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
            sampling=sampling,
            households=_renumbered(_households(self)[units]) if by_household else None,
        )
        if levels == "sample":
            drawn = observed_levels(drawn)
        return Sample(
            table=few_classes(drawn), population_counts=table.counts[occupied], units=units
        )


def observed_levels(table: CellTable) -> CellTable:
    """Return a table whose keys have the levels of its records alone, at least two each.

    Of households also as many slots as the largest has members.
    """
    # Rules are about all levels; the specification refuses them.
    assert not table.has_impossible
    # The order of the levels is kept, so cells stay sorted.
    if table.layout is not None:
        layout, cells = _of_households(table.layout, table.cells)
        return replace(table, cells=cells, keys=layout.columns, layout=layout)
    cells, keys = table.cells.copy(), []
    for j, key in enumerate(table.keys):
        own, new = _seen(key, np.unique(cells[:, j]))
        cells[:, j] = new[cells[:, j]]
        keys.append(own)
    return replace(table, cells=cells, keys=tuple(keys))


def _of_households(layout: HouseholdLayout, cells: Int32) -> tuple[HouseholdLayout, Int32]:
    """Layout of the levels and sizes of some households, and their cells in it."""
    houses, members = (part.copy() for part in layout.parts(cells))
    # Smaller sizes stay, as codes of the size count from 1; a head alone leaves a slot empty.
    largest = max(int(houses[:, 0].max()) + 1, 1 + int(layout.head_apart))
    size = layout.household_keys[0]
    household_keys = [replace(size, levels=size.levels[:largest], labels=size.labels[:largest])]
    for k, key in enumerate(layout.household_keys[1:], start=1):
        own, new = _seen(key, np.unique(houses[:, k]))
        houses[:, k] = new[houses[:, k]]
        household_keys.append(own)
    person_keys = []
    for k, key in enumerate(layout.person_keys):
        own, new = _seen(key, np.unique(members[:, :, k]))
        members[:, :, k] = new[members[:, :, k]]
        person_keys.append(own)
    n_slots = largest - int(layout.head_apart)
    slots = members[:, :n_slots].reshape(len(cells), -1)
    found = replace(
        layout,
        household_keys=tuple(household_keys),
        person_keys=tuple(person_keys),
        n_slots=n_slots,
    )
    return found, np.ascontiguousarray(np.concatenate((houses, slots), axis=1))


def _seen(key: Key, codes: Int32) -> tuple[Key, Int32]:
    """Key of the levels that occur, and the new code of each old one.

    What is no level, missing (-1) or absent (n_levels), stays so.
    """
    seen = codes[(codes >= 0) & (codes < key.n_levels)]
    if len(seen) < 2:
        # A key needs two levels; which one is added makes no difference.
        seen = np.union1d(seen, np.setdiff1d(np.arange(key.n_levels), seen)[: 2 - len(seen)])
    new = np.full(key.n_levels + 2, -1, np.int32)
    new[seen] = np.arange(len(seen), dtype=np.int32)
    new[key.n_levels] = len(seen)
    kept = seen.tolist()
    own = replace(
        key,
        levels=tuple(key.levels[code] for code in kept),
        labels=tuple(key.labels[code] for code in kept),
        private=frozenset(i for i, code in enumerate(kept) if code in key.private),
    )
    return own, new


def draw_sample(
    population: Population,
    n: int,
    repeat: int,
    *,
    seed: int,
    design: DesignName = "simple",
    allocation: Allocation = "proportional",
    power: float = 0.5,
    levels: Levels = "population",
    blank: float = 0.0,
) -> Sample | None:
    """Draw a sample (see `draw_units`) and say what each of its records stands for.

    Without equal chances the sample has weights: N_h/n_h in a stratum; 1/pi, scaled to sum to N,
    under ``"pps"``. A share `blank` of the values is set missing; a larger one contains a smaller.

    Returns
    -------
    Sample or None
        None if no unit was drawn.
    """
    units = draw_units(
        population, n, repeat, seed=seed, design=design, allocation=allocation, power=power
    )
    if not len(units):
        return None
    sampling = None
    if design == "pps":
        chances = inclusion(n, _measure(population))[units]
        sampling = sampling_of(1.0 / chances, population.n_units)
    elif design == "stratified" and allocation != "proportional":
        everybody = _strata(population)
        sizes, strata = np.bincount(everybody), everybody[units]
        sampling = Sampling(
            weights=(sizes / np.bincount(strata))[strata],
            strata=strata,
            sizes=sizes.astype(np.float64),
            from_weights=False,
        )
    by_household = design == "households" and population.table.layout is None
    drawn = population.sample(units, sampling, by_household=by_household, levels=levels)
    if not blank:
        return drawn
    rng = np.random.Generator(np.random.Philox(_address(seed, _BLANK, n, repeat)))
    return drawn.blanked(blank, rng)


def draw_units(
    population: Population,
    n: int,
    repeat: int,
    *,
    seed: int,
    design: DesignName = "simple",
    allocation: Allocation = "proportional",
    power: float = 0.5,
) -> Int64:
    """Draw a sample; it depends on population, design, seed, n and repeat alone.

    Parameters
    ----------
    population
        From which to draw.
    n
        Size of the sample, 1 to N; its mean under ``"bernoulli"`` and ``"households"``.
    repeat
        Number of the repetition, from 1.
    seed
        Seed of the study.
    design
        How to draw. ``"stratified"`` shares n among the strata and draws each share without
        replacement. ``"pps"`` draws with the probabilities of `inclusion`, by a systematic sample
        of the units in random order. ``"households"`` draws n H / N of the H households, all with
        equal chances, and takes all their units.
    allocation
        Shares of the strata: ``"proportional"`` as `allocate` has them; ``"equal"`` and
        ``"power"`` as `allocate_power`, with power 0 and `power`.
    power
        Of the strata's sizes, 0 to 1.

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
    if design == "pps":
        return _systematic(rng, inclusion(n, _measure(population)), n)
    if design == "households":
        households = _households(population)
        total = int(households.max()) + 1
        wanted = min(max(round(n * total / size), 1), total)
        chosen = np.zeros(total, bool)
        chosen[rng.choice(total, wanted, replace=False, shuffle=False)] = True
        return np.flatnonzero(chosen[households])
    strata = _strata(population)
    sizes = np.bincount(strata)
    if allocation == "proportional":
        shares = allocate(n, sizes)
    else:
        shares = allocate_power(n, sizes, 0.0 if allocation == "equal" else power)
    members = np.split(np.argsort(strata, kind="stable"), np.cumsum(sizes)[:-1])
    parts = [
        rng.choice(units, wanted, replace=False, shuffle=False)
        for units, wanted in zip(members, shares, strict=True)
    ]
    return np.sort(np.concatenate(parts)).astype(np.int64)


def second_sample(population: Population, sample: Sample, n: int, repeat: int, seed: int) -> Sample:
    """Draw as many other units as a sample has, with equal chances; all others if there are fewer.

    It depends on population, sample, seed, n and repeat alone.
    """
    rng = np.random.Generator(np.random.Philox(_address(seed, _SECOND, n, repeat)))
    others = np.setdiff1d(np.arange(population.n_units), sample.units, assume_unique=True)
    wanted = min(len(sample.units), len(others))
    chosen = rng.choice(others, wanted, replace=False, shuffle=False)
    return population.sample(np.sort(chosen).astype(np.int64))


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


def allocate_power(n: int, sizes: Int64, power: float) -> Int64:
    """Share n among strata in proportion to a power of their sizes (Bankier 1988).

    The share of stratum h is t N_h^q, at least 1 and at most N_h; t is such that they sum to n.
    With q = 0 all strata have the same share, but for those that are smaller, which are taken
    whole.

    Parameters
    ----------
    n
        To be shared, from the number of strata to the sum of the sizes.
    sizes
        (n_strata,), at least 1.
    power
        q, 0 to 1.

    Returns
    -------
    Int64
        (n_strata,), with sum n, from 1 to the size; rounded by largest remainder, of equal
        remainders the first go first.

    Examples
    --------
    >>> allocate_power(100, np.array([10, 400, 1600]), 0.0).tolist()
    [10, 45, 45]
    >>> allocate_power(90, np.array([100, 400, 900]), 0.5).tolist()
    [15, 30, 45]
    """
    relative = sizes.astype(np.float64) ** power
    # Between two neighbouring values of t at which a share meets a limit, the sum is linear in t.
    turns = np.unique(np.concatenate((1.0 / relative, sizes / relative)))
    low, high = 0, len(turns) - 1
    while high - low > 1:
        middle = (low + high) // 2
        if np.clip(turns[middle] * relative, 1.0, sizes).sum() <= n:
            low = middle
        else:
            high = middle
    ends = [np.clip(turns[end] * relative, 1.0, sizes) for end in (low, high)]
    least, most = (float(end.sum()) for end in ends)
    part = 0.0 if most <= least else min(max((n - least) / (most - least), 0.0), 1.0)
    exact = ends[0] + part * (ends[1] - ends[0])
    shares: Int64 = np.floor(exact).astype(np.int64)
    # Up to rounding errors: a share of 45 may come as 44.999...
    remainders = np.where(shares < sizes, np.round(exact - shares, 9), -1.0)
    shares[np.argsort(-remainders, kind="stable")[: n - int(shares.sum())]] += 1
    return shares


def inclusion(n: int, measure: Float64) -> Float64:
    """Inclusion probabilities in proportion to a size, with sum n.

    pi_i = n x_i / sum of x; units for which this is 1 or more are certain, and the rest of n is
    shared among the others in the same way, until no probability is above 1.

    Parameters
    ----------
    n
        Size of the sample, at most that of the population.
    measure
        (N,) sizes, above 0.

    Examples
    --------
    >>> inclusion(2, np.array([6.0, 1.0, 1.0, 2.0])).tolist()
    [1.0, 0.25, 0.25, 0.5]
    """
    # Relative, so that a sum of large sizes is finite.
    size = measure / measure.max()
    certain: Bool = np.zeros(len(size), bool)
    while True:
        chances = np.ones(len(size))
        rest = size[~certain]
        chances[~certain] = (n - np.count_nonzero(certain)) * (rest / rest.sum())
        beyond = ~certain & (chances >= _CERTAIN)
        if not beyond.any():
            return chances
        certain |= beyond


def _systematic(rng: np.random.Generator, chances: Float64, n: int) -> Int64:
    """Draw n units with these probabilities, whose sum is n."""
    certain = np.flatnonzero(chances >= _CERTAIN)
    others = rng.permutation(np.flatnonzero(chances < _CERTAIN))
    wanted = n - len(certain)
    if not wanted:
        return certain
    # Unit i has the stretch of length pi_i that ends at ends[i]; points 1 apart hit one unit each.
    ends = np.cumsum(chances[others])
    points = rng.random() + np.arange(wanted)
    hit = np.searchsorted(ends * (wanted / ends[-1]), points, side="right")
    units = others[np.minimum(hit, len(others) - 1)]
    return np.sort(np.concatenate((certain, units))).astype(np.int64)


def _strata(population: Population) -> Int32:
    assert population.strata is not None
    return population.strata


def _measure(population: Population) -> Float64:
    assert population.measure is not None
    return population.measure


def _households(population: Population) -> Int32:
    """Household of each unit; where the units are households, each is its own."""
    if population.table.layout is not None:
        return np.arange(population.n_units, dtype=np.int32)
    assert population.table.households is not None
    return population.table.households


def _renumbered(households: Int32) -> Int32:
    """Number the households that are left from 0."""
    return np.unique(households, return_inverse=True)[1].astype(np.int32)


def _address(seed: int, purpose: int, n: int, repeat: int) -> np.random.SeedSequence:
    return np.random.SeedSequence(check_seed(seed), spawn_key=(purpose, n, repeat))
