"""Generators of synthetic files side by side, where the units are households.

| generator | makes |
|---|---|
| `ByModel` of the model of households | households of a state, as `unikat synthesize` does |
| `Flat` | persons of another generator, put into households of the sample's sizes |
| `WideCart` | the columns of a row one after the other, each by a tree of those before it |

All have the sizes of the sample's households, and `cart` and those of persons know no rules. A file
is scored by the members and by pairs of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.households import HouseholdLayout
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.households.nested import NestedHouseholds
from unikat.studies.designs import Population, Sample
from unikat.synthesis.generators import (
    ByModel,
    Generator,
    Made,
    Measured,
    Training,
    cart,
    cart_values,
    generators,
    second_sample,
)
from unikat.synthesis.utility import margin_distances


@dataclass(frozen=True)
class Flat:
    """Puts the persons that a generator makes into households of the sample's sizes.

    All members get the first one's values of the keys of the household, as by
    `unikat synthesize --method flat`.
    """

    make: Generator
    layout: HouseholdLayout = field(repr=False)

    def __call__(self, training: Training) -> Made:
        """Make persons, and households of them."""
        n_shared = len(self.layout.household_keys) - 1
        persons, others = (_persons(one, self.layout) for one in (training.table, training.second))
        found = self.make(training._replace(table=persons, second=others))
        sizes = training.codes[:, :1]
        first = np.cumsum(sizes[:, 0] + 1) - sizes[:, 0] - 1
        houses = np.hstack((sizes, found.codes[first, :n_shared]))
        return Made(self.layout.pack(houses, found.codes[:, n_shared:]), found.converged)


def _persons(table: CellTable, layout: HouseholdLayout) -> CellTable:
    """The members as records: the keys of their household, but its size, and their own."""
    codes = members(table.cells[table.record_cell], layout)[0]
    return CellTable.from_codes(codes[:, 1:], layout.variables, len(codes), table.missing)


def members(rows: Int32, layout: HouseholdLayout) -> tuple[Int32, Int64]:
    """Members of households with the keys of these before their own, and their household's row."""
    houses, slots = layout.parts(rows)
    there = layout.present(rows)
    household = np.nonzero(there)[0]
    return np.hstack((houses[household], slots[there])), household


@dataclass(frozen=True)
class WideCart:
    """Draws the columns of households in their order, each by a tree of those before it.

    A tree of a member's key is grown on the households that have this member. Members are in the
    order of their codes.
    """

    layout: HouseholdLayout = field(repr=False)

    def __call__(self, training: Training) -> Made:
        """Draw households."""
        layout, codes, rng = self.layout, training.codes, training.rng
        n_houses, n_own = len(layout.household_keys), len(layout.person_keys)
        there = layout.present(codes)
        found = np.empty_like(codes)
        found[:, 0] = codes[:, 0]
        found[:, n_houses:] = np.tile(layout.absent, layout.n_slots)
        for column in range(1, layout.n_columns):
            slot = (column - n_houses) // n_own
            some = np.flatnonzero(there[:, slot]) if slot >= 0 else np.arange(len(codes))
            if len(some):
                known, values = codes[some, :column], codes[some, column]
                found[some, column] = cart_values(known, values, found[some, :column], rng)
        return Made(layout.canonical(found))


@dataclass(frozen=True, kw_only=True, eq=False)
class MeasuredHouseholds(Measured):
    """A generator of households whose files are scored beside a population."""

    layout: HouseholdLayout = field(repr=False)

    def distances(self, codes: Int32, table: CellTable) -> tuple[float, ...]:
        """Distances of the tables of members, with the keys of their households."""
        n_levels = [key.n_levels for key in (*self.layout.household_keys, *self.layout.person_keys)]
        whole, household = members(self.cells, self.layout)
        made = members(codes, self.layout)[0]
        return margin_distances(whole, self.counts[household], made, n_levels)

    def apart(self, codes: Int32) -> float | None:
        """Mean distance of the tables of one key of two members who live together.

        Each household with two members or more counts once, its pairs of members in equal shares
        and in both orders. None without such a household.
        """
        shares = [
            pair_shares(rows, weights, self.layout)
            for rows, weights in ((self.cells, self.counts), (codes, np.ones(len(codes))))
        ]
        if shares[0] is None or shares[1] is None:
            return None
        both = zip(*shares, strict=True)
        return float(np.mean([0.5 * np.abs(one - other).sum() for one, other in both]))

    def inferred(self, sample: Sample, codes: Int32, n_threads: int) -> float | None:
        """Keys of members are not inferred: a record is a household of several persons."""
        return None


def pair_shares(
    rows: Int32, weights: Float64 | Int64, layout: HouseholdLayout
) -> list[Float64] | None:
    """Law of the values of two members who live together, (n_levels, n_levels) for each key.

    The two are drawn from a household, which is drawn among those with at least two members. None
    if there is none.
    """
    slots, there = layout.parts(rows)[1], layout.present(rows)
    n = there.sum(axis=1)
    found = [np.zeros((key.n_levels, key.n_levels)) for key in layout.person_keys]
    of_pair = np.where(n > 1, weights / np.maximum(n * (n - 1), 1), 0.0)
    for first in range(layout.n_slots):
        for second in range(layout.n_slots):
            some = there[:, first] & there[:, second]
            if first != second and some.any():
                for k, table in enumerate(found):
                    at = slots[some, first, k], slots[some, second, k]
                    np.add.at(table, at, of_pair[some])
    total = found[0].sum()
    return [one / total for one in found] if total > 0.0 else None


def measured(labels: Iterable[str], population: Population) -> dict[str, Measured]:
    """Make generators by their labels, scored beside a population of persons or of households."""
    table = population.table
    found = generators(labels)
    if table.layout is None:
        return {label: Measured.of(make, population) for label, make in found.items()}
    layout = table.layout
    return {
        label: MeasuredHouseholds(
            make=_of_households(make, label, layout),
            cells=table.cells,
            counts=table.counts,
            layout=layout,
        )
        for label, make in found.items()
    }


def _of_households(make: Generator, label: str, layout: HouseholdLayout) -> Generator:
    if make is cart:
        return WideCart(layout)
    ours = isinstance(make, ByModel) and isinstance(make.model, NestedHouseholds)
    if ours or make is second_sample:
        return make
    if layout.head_apart:
        raise SpecError(
            f"The synthesizer {label} makes persons, and the keys of heads are apart from those of "
            "other members; leave --head-keys out, or the synthesizer."
        )
    return Flat(make, layout)
