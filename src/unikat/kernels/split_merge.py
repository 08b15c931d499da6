"""Split–merge moves: one Metropolis step merges two components or splits one.

Gibbs moves change one record at a time, so a chain hardly ever splits a component that merged two
real groups. Jain & Neal (2004) propose a split by a few restricted Gibbs scans that assign the
members of one component to two sides. The acceptance of a merge has the probability that such scans
would have made the two components. Profiles and weights are integrated out.

Here the *component*, or the pair, is chosen uniformly. Two random members would nearly always
choose the largest components. The members assigned are *items*: all tokens that a record has in the
component, with their tables.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_SPLIT,
    next_bits,
    seek,
    uniform,
)

_INV32 = 1.0 / 4294967296.0
_SCANS = 1


class PartitionPrior(NamedTuple):
    """What the law of tables and components depends on.

    A split multiplies the prior of the partition by exp(log_new[components before it])
    Gamma(share + t_0) Gamma(share + t_1) / Gamma(share + t_0 + t_1), t = tables. A Dirichlet
    process has log_new = log(top concentration) and share 0; K components with Dirichlet(s) weights
    have log_new[k] = log(K - k) - log Gamma(s) and share s: there are K - k names that the new
    component can take.
    """

    alpha: npt.NDArray[np.float64]
    """(1,) or (n_records,); it does not matter where tables and components are one."""
    weights: npt.NDArray[np.float64]
    """(n_components,): given these the tables are drawn once more."""
    log_new: npt.NDArray[np.float64]
    """(most components,)"""
    share: float
    profile: npt.NDArray[np.float64]
    """(n_rows,): Dirichlet parameters of the profiles."""


class Partition(NamedTuple):
    """The partition of the tokens."""

    z: npt.NDArray[np.int16]
    """(n_records, n_keys), or (n_records, 1) where a record has one component."""
    tables: npt.NDArray[np.int64]
    """(n_components,)"""
    counts: npt.NDArray[np.int64]
    """(n_rows, n_components), see `mixture.Tally`."""
    stacks: npt.NDArray[np.int64]
    """(n_keys or 1, n_components), see `mixture.Tally`."""


class Sides(NamedTuple):
    """Counts of the items assigned to the two sides.

    Whole numbers as floats: exact, and not converted at every use.
    """

    counts: npt.NDArray[np.float64]
    """(2, n_rows)"""
    totals: npt.NDArray[np.float64]
    """(2, n_keys)"""
    tables: npt.NDArray[np.float64]
    """(2,)"""


@device
def choose_component(generator, sizes, n_occupied, other):
    """Pick an occupied component uniformly, not `other`."""
    mark = int(uniform(generator) * (n_occupied - int(other >= 0)))
    chosen = -1
    for k in range(sizes.shape[0]):
        if sizes[k] > 0 and k != other:
            chosen = k
            if mark == 0:
                break
            mark -= 1
    return chosen


@device
def put(sign, side, keys, rows, n_tables, sides):
    """Add an item to a side (sign 1.0), or take it away (sign -1.0)."""
    sides.tables[side] += sign * n_tables
    for t in range(keys.shape[0]):
        sides.counts[side, rows[t]] += sign
        sides.totals[side, keys[t]] += sign


@device
def bounded(odds):
    """Odds within what can be computed with.

    Beyond, the proposal is not quite the restricted Gibbs one, which costs acceptance and no more,
    since it is drawn and weighed by the same odds.
    """
    return min(max(odds, 1e-200), 1e200)


@device
def side_odds(keys, rows, n_tables, sides, profile, mass, share):
    """Odds of side 1 for an item that is on neither side."""
    counts, totals, tables = sides
    odds = 1.0
    above = 1.0
    below = 1.0
    for t in range(keys.shape[0]):
        r = rows[t]
        j = keys[t]
        above *= (profile[r] + counts[1, r]) * (mass[j] + totals[0, j])
        below *= (profile[r] + counts[0, r]) * (mass[j] + totals[1, j])
        if t % 8 == 7:
            # A division is dear, but the products must not run out of range.
            odds = bounded(odds * above / below)
            above = 1.0
            below = 1.0
    for extra in range(n_tables):
        above *= share + tables[1] + extra
        below *= share + tables[0] + extra
    return bounded(odds * above / below)


@device
def log_evidence(counts, totals, offsets, profile, mass):
    """Log probability of the levels of one component's tokens, its profiles integrated out."""
    value = 0.0
    for j in range(offsets.shape[0] - 1):
        value += math.lgamma(mass[j]) - math.lgamma(mass[j] + totals[j])
        for r in range(offsets[j], offsets[j + 1]):
            if counts[r] > 0:
                value += math.lgamma(profile[r] + counts[r]) - math.lgamma(profile[r])
    return value


@kernel
def propose(key, sweep, records, prior, partition):
    """Propose one split or merge; returns 1 or -1 if it was accepted, else 0.

    records: `mixture.Records`; prior: PartitionPrior; partition: Partition, changed in place.
    """
    rows, record_cell, offsets = records
    alpha, weights, log_new, share, profile = prior
    z, tables, counts, stacks = partition
    n, width = z.shape
    n_keys = rows.shape[1]
    n_rows = profile.shape[0]
    n_components = tables.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_SPLIT)
    n_occupied = 0
    free = -1
    for k in range(n_components - 1, -1, -1):
        n_occupied += int(stacks[0, k] > 0)
        if stacks[0, k] == 0:
            free = k
    split = uniform(generator) < 0.5
    if n_occupied < 2 - int(split) or (split and n_occupied >= log_new.shape[0]):
        return 0
    a = choose_component(generator, stacks[0], n_occupied, -1)
    b = a if split else choose_component(generator, stacks[0], n_occupied, a)
    n_a = stacks[0, a]
    n_b = stacks[0, b]
    if split and (n_a < 2 or free < 0):
        return 0
    anchor_a = min(int(uniform(generator) * n_a), n_a - 1)
    if split:
        anchor_b = min(int(uniform(generator) * (n_a - 1)), n_a - 2)
        anchor_b += int(anchor_b >= anchor_a)
    else:
        anchor_b = min(int(uniform(generator) * n_b), n_b - 1)

    # Gather the items; their tables are drawn given alpha and weights, as all tables were.
    n_items = n_a if split else n_a + n_b
    item_record = np.empty(n_items, np.int64)
    item_tables = np.empty(n_items, np.int64)
    item_start = np.empty(n_items + 1, np.int64)
    item_rows = np.empty(n_items * n_keys, np.int64)
    item_keys = np.empty(n_items * n_keys, np.int64)
    now = np.zeros(n_items, np.int64)
    tables[a] = 0
    tables[b] = 0
    n_tokens = 0
    e = 0
    seen_a = 0
    seen_b = 0
    first = -1
    second = -1
    clash = False
    for i in range(n):
        if width == 1 and z[i, 0] != a and z[i, 0] != b:
            continue
        c = record_cell[i]
        found = 0
        for which in range(1 if split else 2):
            k = a if which == 0 else b
            size = 0
            start = n_tokens
            for j in range(n_keys):
                if rows[c, j] >= 0 and z[i, min(j, width - 1)] == k:
                    item_rows[n_tokens] = rows[c, j]
                    item_keys[n_tokens] = j
                    n_tokens += 1
                    size += 1
            if size == 0:
                continue
            found += 1
            n_tables = 1
            if width > 1:
                opening = alpha[min(i, alpha.shape[0] - 1)] * weights[k]
                for l in range(1, size):
                    mark = float(next_bits(generator)) * _INV32
                    n_tables += int(mark * (opening + l) < opening)
            tables[k] += n_tables
            item_record[e] = i
            item_tables[e] = n_tables
            item_start[e] = start
            now[e] = which
            if which == 0:
                if seen_a == anchor_a:
                    first = e
                if split and seen_a == anchor_b:
                    second = e
                seen_a += 1
            else:
                if seen_b == anchor_b:
                    second = e
                seen_b += 1
            e += 1
        clash = clash or found == 2
    item_start[n_items] = n_tokens
    if clash:
        # A record with tokens in both would have to be parted again on the way back.
        return 0

    mass = np.zeros(n_keys)
    for j in range(n_keys):
        for r in range(offsets[j], offsets[j + 1]):
            mass[j] += profile[r]
    sides = Sides(np.zeros((2, n_rows)), np.zeros((2, n_keys)), np.zeros(2))
    side_counts, side_totals, side_tables = sides
    side_size = np.zeros(2, np.int64)
    side = np.zeros(n_items, np.int64)
    side[second] = 1
    for e in (first, second):
        s, end = item_start[e], item_start[e + 1]
        put(1.0, side[e], item_keys[s:end], item_rows[s:end], item_tables[e], sides)
    log_proposal = 0.0
    for scan in range(_SCANS + 2):
        # First everybody joins the anchors in turn; then Gibbs scans, the last one counted.
        final = scan == _SCANS + 1
        for e in range(n_items):
            if e == first or e == second:
                continue
            s, end = item_start[e], item_start[e + 1]
            keys_e = item_keys[s:end]
            rows_e = item_rows[s:end]
            before = side[e]
            if scan > 0:
                put(-1.0, before, keys_e, rows_e, item_tables[e], sides)
            odds = side_odds(keys_e, rows_e, item_tables[e], sides, profile, mass, share)
            if final and not split:
                side[e] = now[e]
            else:
                mark = float(next_bits(generator)) * _INV32
                side[e] = int(mark * (1.0 + odds) < odds)
            if final:
                log_proposal += (math.log(odds) if side[e] == 1 else 0.0) - math.log1p(odds)
            put(1.0, side[e], keys_e, rows_e, item_tables[e], sides)
    for e in range(n_items):
        side_size[side[e]] += 1

    n_merged = n_occupied if split else n_occupied - 1
    gain = log_new[n_merged]
    gain += math.lgamma(share + side_tables[0]) + math.lgamma(share + side_tables[1])
    gain -= math.lgamma(share + side_tables[0] + side_tables[1])
    gain += log_evidence(side_counts[0], side_totals[0], offsets, profile, mass)
    gain += log_evidence(side_counts[1], side_totals[1], offsets, profile, mass)
    gain -= log_evidence(
        side_counts[0] + side_counts[1], side_totals[0] + side_totals[1], offsets, profile, mass
    )
    # Chances of the component and its anchors, 1 / (n_merged n_items (n_items - 1)), against those
    # of the ordered pair and its anchors, 1 / ((n_merged + 1) n_merged size_0 size_1).
    gain += math.log(float(n_items)) + math.log(n_items - 1.0) - math.log(n_merged + 1.0)
    gain -= math.log(float(side_size[0])) + math.log(float(side_size[1]))
    log_ratio = gain - log_proposal if split else log_proposal - gain
    # Written so that a number that could not be computed is refused.
    if not math.log(uniform(generator)) < log_ratio:
        return 0

    target = free if split else a
    source = a if split else b
    for e in range(n_items):
        if side[e] == 0:
            continue
        i = item_record[e]
        n_tok = item_start[e + 1] - item_start[e]
        for t in range(n_tok):
            s = item_start[e] + t
            z[i, min(item_keys[s], width - 1)] = target
            counts[item_rows[s], source] -= 1
            counts[item_rows[s], target] += 1
            if t < stacks.shape[0]:
                stacks[t, source] -= 1
                stacks[t, target] += 1
        tables[source] -= item_tables[e]
        tables[target] += item_tables[e]
    return 1 if split else -1
