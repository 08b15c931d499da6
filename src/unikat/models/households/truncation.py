"""Household rules in the nested mixture: truncation to the possible households.

Given possible households only, the likelihood is prod_i p(x_i) / (1 - p0)^n. Every sweep simulates
households, of any size, until n are possible; the impossible ones that came before join the sample,
as far as they were drawn (Manrique-Vallier & Reiter 2014; docs/design/households.md).
"""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from unikat._typing import Int64
from unikat.errors import SpecError
from unikat.kernels import nested_truncation as kernels
from unikat.kernels.household_rules import HouseholdRules, household_scratch
from unikat.kernels.nested import Drawn, Tally, Weights, count
from unikat.kernels.nested_split import Tokens
from unikat.kernels.nested_truncation import Found, Law, Listed, Shape
from unikat.models.households.classes import empty_tally
from unikat.models.households.records import Columns, apart
from unikat.models.records import in_parts

_BLOCKS = (64, 2048)
"""Fewest and most households that are simulated in one go."""
_LEAST_CHANCE = 1e-5
"""Probability of a possible household below which the rules are taken to be wrong."""
_FIRST_LOOK = 1_000_000
"""Households after which it is judged."""


class OneByOne(NamedTuple):
    """Impossible households as records."""

    drawn: Drawn
    tokens: Tokens
    """Without the keys of their rows, which are those of the sample."""


class Simulated(NamedTuple):
    """Impossible households that came before a number of possible ones."""

    tally: Tally
    n_impossible: int
    records: OneByOne | None = None
    """They themselves, if they were asked for and are few enough."""


def shape_of(columns: Columns, rules: HouseholdRules) -> Shape:
    """What the simulation needs to know of columns and rules."""
    lead, lead_stage, alone = -1, len(rules.stage_first), 0
    drawn = np.flatnonzero(rules.person_keys != columns.roles.key)
    if len(drawn):
        first = int(drawn[0])
        lead_stage = int(np.searchsorted(rules.person_first, first, side="right")) - 1
        if columns.roles.key < 0:
            lead = int(rules.person_keys[0])
            alone = int(rules.person_first[lead_stage + 1] == 1)
    return Shape(
        columns.offsets,
        columns.first_rows,
        columns.absent,
        columns.roles,
        columns.ties,
        columns.n_slots,
        lead,
        lead_stage,
        alone,
    )


def law_of(columns: Columns, weights: Weights, shape: Shape) -> Law:
    """Tables for quick draws."""
    n_classes, n_kinds = weights.omega.shape
    n_lead = int(columns.absent[shape.lead]) if shape.lead >= 0 else 1
    n_first = int(columns.offsets[1])
    law = Law(
        np.empty(n_classes * n_first),
        np.empty(n_classes * n_first, np.int64),
        np.empty((n_classes, n_lead)),
        np.empty((n_classes, n_lead), np.int64),
        np.empty((n_classes, n_lead, n_kinds)),
        np.empty((n_classes, len(weights.lam))),
        np.empty((n_classes * n_kinds, len(weights.phi))),
        weights.ties,
    )
    kernels.fill_law(
        weights.pi,
        weights.omega,
        weights.lam,
        weights.phi,
        columns.offsets,
        columns.member_offsets,
        shape.lead,
        law,
    )
    return law


def simulate_impossible(
    key: Any,
    sweep: int,
    purpose: int,
    target: int,
    columns: Columns,
    rules: HouseholdRules,
    weights: Weights,
    n_threads: int,
    most_listed: int = 0,
) -> Simulated:
    """Simulate households until `target` possible ones have come; count the impossible ones.

    Up to `most_listed` impossible ones are also returned one by one.
    """
    shape = shape_of(columns, rules)
    law = law_of(columns, weights, shape)
    counted = [_nothing(law, shape) for _ in range(n_threads)]
    scratches = [household_scratch(rules, columns.n_slots) for _ in range(n_threads)]

    none = _room(columns, 0)

    def run(
        part: int, first: int, end: int, stop: int, sign: int, listed: Listed = none
    ) -> tuple[int, int]:
        possible, used = kernels.simulate(
            key,
            sweep,
            purpose,
            first,
            end,
            stop,
            sign,
            law,
            shape,
            rules,
            scratches[part],
            counted[part],
            listed,
            0,
        )
        return int(possible), int(used)

    done = found = 0
    while found < target:
        if done >= _FIRST_LOOK and found < _LEAST_CHANCE * done:
            refuse()
        left = target - found
        expected = left * (done + 1) / (found + 1) if done else left
        expected = min(expected, 16_384 + 8 * done)
        block = int(min(max(expected / (4 * n_threads), _BLOCKS[0]), _BLOCKS[1]))
        n_blocks = max(int(expected / block), 1)
        possible = np.zeros(n_blocks, np.int64)

        def work(
            part: int,
            first: int,
            last: int,
            done: int = done,
            block: int = block,
            possible: Int64 = possible,
        ) -> None:
            for b in range(first, last):
                start = done + b * block
                possible[b] = run(part, start, start + block, -1, 1)[0]

        in_parts(work, n_blocks, n_threads)
        reached = np.cumsum(possible)
        last = int(np.searchsorted(reached, left))
        # What came after the last possible household that was wanted is taken off again.
        for b in range(last, n_blocks):
            run(0, done + b * block, done + (b + 1) * block, -1, -1)
        if last < n_blocks:
            before = int(reached[last] - possible[last])
            start = done + last * block
            done = start + run(0, start, start + block, left - before, 1)[1]
            found = target
        else:
            found += int(reached[-1])
            done += n_blocks * block
    tally = _tally(key, sweep, law, shape, counted)
    n_impossible = done - target
    if n_impossible > most_listed:
        return Simulated(tally, n_impossible)
    listed = _room(columns, n_impossible)
    run(0, 0, done, -1, 0, listed)
    records = _records(columns, listed)
    # Members whose first key alone was drawn have classes that are drawn once more.
    again = empty_tally(*weights.lam.shape[:1], *weights.phi.shape[:1], *weights.omega.shape)
    count(apart(records.tokens), records.drawn, again)
    return Simulated(again._replace(ties=tally.ties), n_impossible, records)


def _room(columns: Columns, n: int) -> Listed:
    """Room for `n` impossible households."""
    n_person_keys = len(columns.absent)
    return Listed(
        np.empty(n, np.int16),
        np.full((n, columns.n_household_keys), -1, np.int32),
        np.full((n, columns.n_slots), -1, np.int16),
        np.full((n, columns.n_slots, n_person_keys), -1, np.int32),
    )


def _records(columns: Columns, listed: Listed) -> OneByOne:
    """Households of a list as records."""
    there = listed.m >= 0
    n_members = int(there.sum())
    tokens = Tokens(
        listed.rows,
        np.ascontiguousarray(listed.persons[there][:, columns.walk]),
        np.arange(len(listed.g), dtype=np.int32),
        np.concatenate(([0], np.cumsum(there.sum(axis=1)))).astype(np.int64),
        np.arange(n_members, dtype=np.int32),
        np.empty(0, np.int64),
        np.empty(0, np.int64),
    )
    return OneByOne(Drawn(listed.g, listed.m[there]), tokens)


def _nothing(law: Law, shape: Shape) -> Found:
    n_classes, n_lead, n_kinds = law.kind.shape
    return Found(
        np.zeros(n_classes, np.int64),
        np.zeros((n_classes, n_kinds), np.int64),
        np.zeros(law.lam.shape, np.int64),
        np.zeros(law.phi.shape, np.int64),
        np.zeros((n_classes, n_lead), np.int64),
        np.zeros((4, law.ties.shape[1]), np.int64),
    )


def _tally(key: Any, sweep: int, law: Law, shape: Shape, counted: list[Found]) -> Tally:
    found = Found(*(np.sum(parts, axis=0) for parts in zip(*counted, strict=True)))
    if shape.lead >= 0:
        kernels.share_out(key, sweep, int(shape.first_rows[shape.lead, 0]), law, found)
    return Tally(
        found.sizes,
        found.member_sizes,
        np.ascontiguousarray(found.counts.T),
        np.ascontiguousarray(found.member_counts.T),
        found.ties,
    )


def chance_of_possible(
    key: Any,
    sweep: int,
    purpose: int,
    target: int,
    columns: Columns,
    rules: HouseholdRules,
    weights: Weights,
) -> float:
    """Inverse of an unbiased estimate of 1 / (1 - p0), by which probabilities are divided.

    Households are simulated until `target` are possible. Their mean number is target / (1 - p0).
    """
    found = simulate_impossible(key, sweep, purpose, target, columns, rules, weights, 1)
    return target / (target + found.n_impossible)


def refuse() -> NoReturn:
    """Stop a chain whose households are hardly ever possible."""
    raise SpecError(
        "Fewer than 1 in 100,000 simulated households obey the household rules. Check that the "
        "rules say what is impossible, not what is possible, and that the sample obeys them."
    )
