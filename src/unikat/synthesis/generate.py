"""Draws of synthetic records from the posterior predictive distribution of a fitted model.

Each data set is drawn from a state of the posterior of its own. The first are the last states of
the chains, which are independent; where there are more data sets than chains, chains go on by as
many sweeps as an effective draw has taken, so that states of one chain are nearly independent.

What the design of the sample fixes is fixed in every data set: the number of records, and of each
class of records that were drawn with equal chances; the sizes of the households. Record i of a
synthetic file with a design has the class, and so the weight and the stratum, of record i of the
sample; its keys are drawn given the class alone.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Int32, Int64
from unikat.data.design import CLASS
from unikat.data.sampling import telling_key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.draws import Draws
from unikat.kernels.household_rules import HouseholdRules
from unikat.models.base import AnySampler, AnySimulator, Stream
from unikat.models.households.cells import drawn_given
from unikat.models.households.records import NestedData
from unikat.models.households.state import NestedState, weights_of

_FEWEST_SWEEPS = 10
"""Between two states of one chain."""
_MOST_DRAWN = 1000
"""Records drawn for each that is wanted, until every class has its number."""


class PosteriorState(NamedTuple):
    """A state of a chain, and the address of random numbers that no other draw has."""

    stream: Stream
    state: Any


def spacing(draws: Draws) -> int:
    """Sweeps of one chain in which one effective draw is made, by the worst monitored scalar."""
    retained = len(draws.retained_sweeps()) * draws.thin * draws.n_chains
    worst = [
        min(found.ess_bulk, found.ess_tail)
        for found in draws.diagnostics.values()
        if math.isfinite(found.ess_bulk) and math.isfinite(found.ess_tail)
    ]
    least = max(min(worst, default=1.0), 1.0)
    return max(math.ceil(retained / least), _FEWEST_SWEEPS)


def posterior_states(
    draws: Draws, model: AnySampler, data: Any, n: int, n_threads: int = 1
) -> Iterator[PosteriorState]:
    """Yield n states of the posterior, chain by chain.

    Parameters
    ----------
    draws
        Of the chains.
    model, data
        What was fitted to what `prepare` made of the table.
    n
        Data sets.
    n_threads
        Of a sweep; no number depends on it.
    """
    sweep, apart = draws.n_before + draws.n_sweeps, spacing(draws)
    states = list(draws.states)
    for number in range(n):
        chain = number % len(states)
        if number >= len(states):
            first = sweep + (number // len(states) - 1) * apart
            for one in range(first + 1, first + apart + 1):
                stream = Stream(draws.seed, chain, one)
                states[chain], _ = model.step(stream, states[chain], data, n_threads)
        at = sweep + number // len(states) * apart
        yield PosteriorState(Stream(draws.seed, chain, at), states[chain])


def draw_persons(
    at: PosteriorState, model: AnySimulator, data: Any, table: CellTable, fitted: CellTable
) -> Int32:
    """Draw as many persons as a sample has, (n_records, n_keys).

    Parameters
    ----------
    at, model, data
        State, and what was fitted.
    table
        The sample, with its design.
    fitted
        What the model was fitted to: the same, or with the class of the records as one more key.
    """
    if table.sampling is None:
        return model.simulate(at.stream, at.state, data, table.n_records)
    wanted = table.sampling.strata
    if fitted.keys[-1].name == CLASS:
        key, class_of = fitted.n_keys - 1, np.arange(table.sampling.n_strata)
    else:
        found = telling_key(table.sampling, table)
        assert found is not None
        key, class_of = found, np.full(table.n_levels[found], -1)
        class_of[table.cells[table.record_cell, key]] = wanted
    needed = np.bincount(wanted, minlength=table.sampling.n_strata)
    n = table.n_records
    while True:
        drawn = model.simulate(at.stream, at.state, data, n)
        of_class = class_of[drawn[:, key]]
        if np.all(np.bincount(of_class[of_class >= 0], minlength=len(needed)) >= needed):
            break
        n *= 2
        if n > _MOST_DRAWN * table.n_records:
            raise SpecError(
                "The model hardly ever draws a record of one of the classes of the design, so a "
                "synthetic file of the sample's numbers cannot be made. Join classes (strata or "
                "weights) that have few records."
            )
    return drawn[_first_of_each(of_class, wanted)][:, : table.n_keys]


def _first_of_each(of_class: Int64, wanted: Int32) -> Int64:
    """Numbers of the first draws of each class, put where records of that class are wanted."""
    order = np.argsort(wanted, kind="stable")
    drawn = np.argsort(of_class, kind="stable")
    begin = np.searchsorted(of_class[drawn], wanted[order])
    rank = np.arange(len(order)) - np.searchsorted(wanted[order], wanted[order])
    taken = np.empty(len(wanted), np.int64)
    taken[order] = drawn[begin + rank]
    return taken


def draw_households(
    at: PosteriorState,
    data: NestedData,
    rules: HouseholdRules | None,
    table: CellTable,
    fitted: CellTable,
) -> Int32:
    """Draw as many households of each size as a sample has, (n_households, n_columns).

    Household i has the size, and with a design the class, of household i of the sample. Those that
    the rules forbid are drawn again, given the same.
    """
    state: NestedState = at.state
    known = np.full((table.n_records, fitted.n_keys), -1, np.int32)
    known[:, 0] = table.cells[table.record_cell, 0]
    if fitted.keys[-1].name == CLASS:
        assert table.sampling is not None
        known[:, -1] = table.sampling.strata
    elif table.sampling is not None:
        key = telling_key(table.sampling, table)
        assert key is not None
        known[:, key] = table.cells[table.record_cell, key]
    weights = weights_of(state)
    drawn = data.columns.canonical(drawn_given(at.stream, data.columns, rules, weights, known))
    return np.ascontiguousarray(drawn[:, : table.n_keys])
