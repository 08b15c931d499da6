"""Partially synthetic records: some keys drawn given the others of the record and the parameters.

Of persons key by key, in the order of the keys,

    p(x_A | rest)      = p(x_A, rest) / p(rest)
    p(x_B | x_A, rest) = p(x_B, x_A, rest) / p(x_A, rest)

with p the probability of a new individual's cell with the keys left out that are not drawn yet.
So the values are drawn from their joint conditional distribution, whatever the model, and possible
ones alone. With more than 11 keys the models `hdp` and `gom` estimate p, and the distribution is
theirs about.

Of households all at once: the household's class given what is kept of all its members, the members'
classes given that and what is kept of each, and the values given the classes. A household that the
rules forbid is drawn again. That is exact, since the kept values have one probability whatever is
drawn: what is left has the distribution given them and that the household is possible.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.design import CLASS
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels.household_rules import HouseholdRules
from unikat.models.base import AnyLaw
from unikat.models.households.cells import drawn_given
from unikat.models.households.records import NestedData
from unikat.models.households.state import NestedState, weights_of
from unikat.synthesis.generate import PosteriorState
from unikat.synthesis.persons import Persons

_GIVEN = 0x57
"""Part of the seed of these draws."""
_MOST_CELLS = 1 << 18
"""Cells that a model is asked for at a time."""


def draw_given(
    at: PosteriorState,
    model: AnyLaw,
    data: Any,
    table: CellTable,
    fitted: CellTable,
    replaced: Sequence[str],
) -> Int32:
    """Draw some keys of every record given its other keys, (n_records, n_keys).

    Keys that are not drawn stay as they are, also where they are missing: what is missing tells
    nothing.

    Parameters
    ----------
    at, model, data
        State, and what was fitted.
    table, fitted
        The sample, and what the model was fitted to: with the class of the design, which is given.
    replaced
        Names of the keys.
    """
    cells = _original(table, fitted)
    wanted = [j for j, key in enumerate(table.keys) if key.name in replaced]
    cells[:, wanted] = -1
    for j in wanted:
        known, place = np.unique(cells, axis=0, return_inverse=True)
        law = _law(at, model, data, known, j, table.keys[j].n_levels)
        sequence = np.random.SeedSequence(
            at.stream.seed, spawn_key=(_GIVEN, at.stream.chain, at.stream.sweep, j)
        )
        u = np.random.default_rng(sequence).random(len(cells))
        cells[:, j] = _drawn(law, place.ravel(), u)
    return np.ascontiguousarray(cells[:, : table.n_keys])


def draw_members_given(
    at: PosteriorState,
    data: NestedData,
    rules: HouseholdRules | None,
    persons: Persons,
    table: CellTable,
    fitted: CellTable,
    replaced: Sequence[str],
) -> Int32:
    """Draw some keys of every household and its members given all others, (n_persons, n_keys).

    A key of which the head's value is the household's is drawn of the head and of the others.

    Parameters
    ----------
    at, data, rules
        State, what was fitted, and what households are impossible.
    persons
        The original, in the order of the households of the table.
    table, fitted, replaced
        As of `draw_given`.
    """
    layout, household, names = table.layout, persons.household, persons.names
    assert layout is not None
    assert household is not None
    columns = data.columns
    houses, members = columns.parts(_original(table, fitted))
    of_house = {key.name: k for k, key in enumerate(layout.household_keys)}
    is_head = np.zeros(len(household), bool)
    if layout.head_apart:
        assert persons.head is not None
        is_head = persons.head
    # Members as they stand in the file: those of the table are sorted by what may be drawn.
    others = np.flatnonzero(~is_head)
    owner = household[others]
    slot = np.arange(len(others)) - np.searchsorted(owner, owner)
    for k, key in enumerate(layout.person_keys):
        members[owner, slot, k] = (
            -1 if key.name in replaced else persons.codes[others, names.index(key.name)]
        )
    for name in replaced:
        for one in (name, f"head.{name}"):
            if one in of_house:
                houses[:, of_house[one]] = -1
    state: NestedState = at.state
    weights = weights_of(state)
    cells = columns.joined(houses, members)
    houses, members = columns.parts(drawn_given(at.stream, columns, rules, weights, cells))
    found = persons.codes.copy()
    for name in replaced:
        j = names.index(name)
        if name in of_house:
            found[:, j] = houses[household, of_house[name]]
            continue
        k = [key.name for key in layout.person_keys].index(name)
        found[others, j] = members[owner, slot, k]
        head = of_house.get(f"head.{name}")
        if head is not None:
            found[is_head, j] = houses[household[is_head], head]
    return found


def _original(table: CellTable, fitted: CellTable) -> Int32:
    """Cells of the records of the sample, with the class of the design if it was fitted."""
    cells = np.full((table.n_records, fitted.n_keys), -1, np.int32)
    cells[:, : table.n_keys] = table.cells[table.record_cell]
    if fitted.keys[-1].name == CLASS:
        assert table.sampling is not None
        cells[:, -1] = table.sampling.strata
    return cells


def _law(
    at: PosteriorState, model: AnyLaw, data: Any, known: Int32, j: int, n_levels: int
) -> Float64:
    """Cumulative distribution of key j given the keys that are known, (n, n_levels)."""
    law = np.empty((len(known), n_levels))
    batch = max(_MOST_CELLS // n_levels, 1)
    for first in range(0, len(known), batch):
        part = known[first : first + batch]
        asked = np.repeat(part, n_levels, axis=0)
        asked[:, j] = np.tile(np.arange(n_levels, dtype=np.int32), len(part))
        p = model.cell_probabilities(at.stream, at.state, data, asked)
        law[first : first + batch] = p.reshape(len(part), n_levels)
    totals = law.sum(axis=1)
    if not np.all(totals > 0.0):
        raise SpecError(
            f"The model gives no level of a replaced key a probability in "
            f"{np.count_nonzero(~(totals > 0.0)):,} combinations of the other keys. Replace fewer "
            "keys, or check the rules of what is impossible."
        )
    cumulative: Float64 = np.cumsum(law / totals[:, None], axis=1)
    return cumulative


def _drawn(law: Float64, place: Int64, u: Float64) -> Int64:
    """Level of each record: the first whose cumulative probability exceeds its number."""
    order = np.argsort(place, kind="stable")
    found = np.empty(len(place), np.int64)
    begin = np.searchsorted(place[order], np.arange(len(law) + 1))
    for row, (first, last) in enumerate(pairwise(begin)):
        records = order[first:last]
        # The last level with a probability, where rounding leaves the sum below the number.
        last_level = int(np.searchsorted(law[row], law[row, -1]))
        level = np.searchsorted(law[row], u[records], side="right")
        found[records] = np.minimum(level, last_level)
    return found
