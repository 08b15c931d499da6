"""Split-merge moves of household classes, weights and profiles integrated out.

As `split_merge` (Jain & Neal 2004), its items being households with the classes of their members.
A split parts the households of a class; each of its person classes is parted with them. A merge
joins the households of two classes and has to say which of their person classes are one: those of
the second class choose, one after the other, a free one of the first or to stay alone, each in
proportion to what it makes of the target. Given the pairs a split would part the merged class back
into what it was, so the acceptance weighs the scan that assigns the households by the choice of the
pairs. Both depend on partitions alone, not on labels: person classes choose in the order in which
they first occur.

Symbols: as in `nested`; beta is common to all household classes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.nested import from_logs
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_HOUSEHOLD_SPLIT,
    draw_one,
    seek,
    uniform,
)
from unikat.kernels.split_merge import choose_component, log_evidence

_SCANS = 5
"""Gibbs scans before the one that is counted. After one hardly any split that takes more than ten
households from a class of a hundred is accepted; more than a dozen bring no more of them."""


class Tokens(NamedTuple):
    """Records and their members one by one."""

    rows: npt.NDArray[np.int32]
    """(n_cells, n_household_keys): rows of lam."""
    persons: npt.NDArray[np.int32]
    """(n_persons, n_person_keys): rows of phi."""
    cell: npt.NDArray[np.int32]
    """(n_records,)"""
    first: npt.NDArray[np.int64]
    """(n_records + 1,): first member of each record."""
    person: npt.NDArray[np.int32]
    """(n_members,)"""
    key_of: npt.NDArray[np.int64]
    """(n_household_rows,): key of each row."""
    member_key_of: npt.NDArray[np.int64]
    """(n_person_rows,)"""


class NestedPrior(NamedTuple):
    """What the law of the classes depends on."""

    alpha: float
    beta: float
    profile: npt.NDArray[np.float64]
    member_profile: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.int64]
    member_offsets: npt.NDArray[np.int64]


class Sides(NamedTuple):
    """Counts of the households on the two sides; whole numbers as floats."""

    sizes: npt.NDArray[np.float64]
    """(2,)"""
    counts: npt.NDArray[np.float64]
    """(2, n_household_rows)"""
    totals: npt.NDArray[np.float64]
    """(2, n_household_keys)"""
    members: npt.NDArray[np.float64]
    """(2,)"""
    kinds: npt.NDArray[np.float64]
    """(2, n_kinds)"""
    member_counts: npt.NDArray[np.float64]
    """(2, n_kinds, n_person_rows)"""
    member_totals: npt.NDArray[np.float64]
    """(2, n_kinds, n_person_keys)"""


@device
def put(sign, side, i, label, tokens, sides):
    """Add household i to a side (sign 1.0), or take it away (-1.0); label: its members' classes."""
    sides.sizes[side] += sign
    row = tokens.rows[tokens.cell[i]]
    for k in range(row.shape[0]):
        if row[k] >= 0:
            sides.counts[side, row[k]] += sign
            sides.totals[side, tokens.key_of[row[k]]] += sign
    for t in range(tokens.first[i], tokens.first[i + 1]):
        m = label[t]
        sides.members[side] += sign
        sides.kinds[side, m] += sign
        person = tokens.persons[tokens.person[t]]
        for k in range(person.shape[0]):
            if person[k] >= 0:
                sides.member_counts[side, m, person[k]] += sign
                sides.member_totals[side, m, tokens.member_key_of[person[k]]] += sign


@device
def log_odds(i, label, tokens, prior, mass, member_mass, sides):
    """Log odds of side 1 for a household that is on neither side, its members one by one."""
    value = math.log(sides.sizes[1] / sides.sizes[0])
    above = 1.0
    below = 1.0
    row = tokens.rows[tokens.cell[i]]
    for k in range(row.shape[0]):
        r = row[k]
        if r >= 0:
            j = tokens.key_of[r]
            above *= (prior.profile[r] + sides.counts[1, r]) * (mass[j] + sides.totals[0, j])
            below *= (prior.profile[r] + sides.counts[0, r]) * (mass[j] + sides.totals[1, j])
    value += math.log(max(above, 1e-300)) - math.log(max(below, 1e-300))
    for t in range(tokens.first[i], tokens.first[i + 1]):
        m = label[t]
        none = prior.beta
        above = sides.kinds[1, m] if sides.kinds[1, m] > 0.0 else none
        below = sides.kinds[0, m] if sides.kinds[0, m] > 0.0 else none
        above *= sides.members[0] + prior.beta
        below *= sides.members[1] + prior.beta
        person = tokens.persons[tokens.person[t]]
        for k in range(person.shape[0]):
            r = person[k]
            if r >= 0:
                j = tokens.member_key_of[r]
                above *= prior.member_profile[r] + sides.member_counts[1, m, r]
                above *= member_mass[j] + sides.member_totals[0, m, j]
                below *= prior.member_profile[r] + sides.member_counts[0, m, r]
                below *= member_mass[j] + sides.member_totals[1, m, j]
        value += math.log(max(above, 1e-300)) - math.log(max(below, 1e-300))
    # Beyond, the proposal is not quite the restricted Gibbs one; it is weighed as it is drawn.
    return min(max(value, -400.0), 400.0)


@device
def log_joined(n_0, counts_0, totals_0, n_1, counts_1, totals_1, prior, member_mass):
    """Log ratio of the target with two person classes as one to that with them apart, but beta."""
    offsets = prior.member_offsets
    profile = prior.member_profile
    value = math.lgamma(n_0 + n_1) - math.lgamma(n_0) - math.lgamma(n_1)
    value += log_evidence(counts_0 + counts_1, totals_0 + totals_1, offsets, profile, member_mass)
    value -= log_evidence(counts_0, totals_0, offsets, profile, member_mass)
    value -= log_evidence(counts_1, totals_1, offsets, profile, member_mass)
    return value


@device
def choose_pairs(generator, free, order, n_order, pair, sides, prior, member_mass):
    """Let the person classes of side 1 choose partners; return the log probability of the choice.

    order[:n_order]: those classes, as they choose; pair (n_kinds,): their partners on side 0, -1
    for none; drawn if `free`, else given.
    """
    n_kinds = pair.shape[0]
    taken = np.zeros(n_kinds, np.bool_)
    weight = np.empty(n_kinds + 1)
    log_p = 0.0
    for place in range(n_order):
        b = order[place]
        weight[n_kinds] = math.log(prior.beta)
        largest = weight[n_kinds]
        for a in range(n_kinds):
            weight[a] = -np.inf
            if sides.kinds[0, a] > 0.0 and not taken[a]:
                weight[a] = log_joined(
                    sides.kinds[0, a], sides.member_counts[0, a], sides.member_totals[0, a],
                    sides.kinds[1, b], sides.member_counts[1, b], sides.member_totals[1, b],
                    prior, member_mass,
                )  # fmt: skip
                largest = max(largest, weight[a])
        total = from_logs(weight, largest)
        if free:
            chosen = draw_one(generator, weight, total)
            pair[b] = chosen if chosen < n_kinds else -1
        which = pair[b] if pair[b] >= 0 else n_kinds
        log_p += math.log(max(weight[which] / total, 1e-300))
        if pair[b] >= 0:
            taken[pair[b]] = True
    return log_p


@device
def empty_sides(n_rows, n_keys, n_kinds, n_member_rows, n_member_keys):
    """Return two sides without households."""
    return Sides(
        np.zeros(2),
        np.zeros((2, n_rows)),
        np.zeros((2, n_keys)),
        np.zeros(2),
        np.zeros((2, n_kinds)),
        np.zeros((2, n_kinds, n_member_rows)),
        np.zeros((2, n_kinds, n_member_keys)),
    )


@device
def log_gain(sides, prior, mass, member_mass):
    """Log of the target with the sides as two classes over that with them as one."""
    sizes, counts, totals, members, kinds, member_counts, member_totals = sides
    value = math.log(prior.alpha) + math.lgamma(sizes[0]) + math.lgamma(sizes[1])
    value -= math.lgamma(sizes[0] + sizes[1])
    offsets = prior.offsets
    value += log_evidence(counts[0], totals[0], offsets, prior.profile, mass)
    value += log_evidence(counts[1], totals[1], offsets, prior.profile, mass)
    value -= log_evidence(
        counts[0] + counts[1], totals[0] + totals[1], offsets, prior.profile, mass
    )
    beta = prior.beta
    value += math.lgamma(beta) + math.lgamma(beta + members[0] + members[1])
    value -= math.lgamma(beta + members[0]) + math.lgamma(beta + members[1])
    for m in range(kinds.shape[1]):
        if kinds[0, m] > 0.0 and kinds[1, m] > 0.0:
            value += math.log(beta)
            value -= log_joined(
                kinds[0, m], member_counts[0, m], member_totals[0, m],
                kinds[1, m], member_counts[1, m], member_totals[1, m],
                prior, member_mass,
            )  # fmt: skip
    return value


@device
def log_ratio_of_split(n_items, n_merged, log_pairs, sides, prior, mass, member_mass):
    """Log of the acceptance ratio of a split into these sides, but for the scan that assigns them.

    n_merged: occupied classes before it.
    """
    # Chances of the class and its anchors, 1 / (n_merged n_items (n_items - 1)), against those of
    # the ordered pair and its anchors, 1 / ((n_merged + 1) n_merged size_0 size_1), and the pairs.
    value = log_gain(sides, prior, mass, member_mass)
    value += math.log(float(n_items)) + math.log(n_items - 1.0) - math.log(n_merged + 1.0)
    return value + log_pairs - math.log(sides.sizes[0]) - math.log(sides.sizes[1])


@kernel
def propose(key, sweep, number, tokens, prior, n_kinds, g, m, sizes, closed):
    """Propose to split a household class or to merge two; return the classes (a, b) it was done to.

    g (n_records,) and m (n_members,) are changed in place where it is accepted: a split gives the
    households of class b, which was empty, their old class's labels of person classes; a merge
    empties b. number: of the proposal in its sweep. sizes (n_classes,): households of each class;
    n_kinds: labels of person classes that there are; closed (n_classes,): classes that have further
    households, which are left as they are. Returns (-1, -1) where nothing changed.
    """
    n_records = g.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, number, sweep, PURPOSE_HOUSEHOLD_SPLIT)
    n_occupied = 0
    empty = -1
    for c in range(sizes.shape[0]):
        n_occupied += int(sizes[c] > 0 and not closed[c])
        if sizes[c] == 0 and not closed[c]:
            empty = c
    split = uniform(generator) < 0.5
    if n_occupied == 0 or (split and empty < 0) or (not split and n_occupied < 2):
        return -1, -1
    a = choose_component(generator, sizes, n_occupied, -1)
    b = -1 if split else choose_component(generator, sizes, n_occupied, a)
    n_items = sizes[a] + (0 if split else sizes[b])
    if n_items < 2:
        return -1, -1
    item = np.empty(n_items, np.int64)
    now = np.zeros(n_items, np.int64)
    e = 0
    for i in range(n_records):
        if g[i] == a or g[i] == b:
            item[e] = i
            now[e] = int(g[i] == b)
            e += 1
    first = -1
    second = -1
    if split:
        first = int(uniform(generator) * n_items)
        second = int(uniform(generator) * (n_items - 1))
        second += int(second >= first)
    else:
        mark_a = int(uniform(generator) * sizes[a])
        mark_b = int(uniform(generator) * sizes[b])
        for e in range(n_items):
            if now[e] == 0:
                if mark_a == 0:
                    first = e
                mark_a -= 1
            else:
                if mark_b == 0:
                    second = e
                mark_b -= 1
    offsets = prior.offsets
    member_offsets = prior.member_offsets
    n_keys = offsets.shape[0] - 1
    n_member_keys = member_offsets.shape[0] - 1
    mass = np.zeros(n_keys)
    for k in range(n_keys):
        for r in range(offsets[k], offsets[k + 1]):
            mass[k] += prior.profile[r]
    member_mass = np.zeros(n_member_keys)
    for k in range(n_member_keys):
        for r in range(member_offsets[k], member_offsets[k + 1]):
            member_mass[k] += prior.member_profile[r]
    n_rows = offsets[n_keys]
    n_member_rows = member_offsets[n_member_keys]

    # The members' classes in the merged class.
    label = m.copy()
    log_pairs = 0.0
    order = np.empty(n_kinds, np.int64)
    seen = np.zeros(n_kinds, np.bool_)
    pair = np.full(n_kinds, -1, np.int64)
    if not split:
        apart = empty_sides(n_rows, n_keys, n_kinds, n_member_rows, n_member_keys)
        n_order = 0
        for e in range(n_items):
            put(1.0, now[e], item[e], m, tokens, apart)
            if now[e] == 1:
                for t in range(tokens.first[item[e]], tokens.first[item[e] + 1]):
                    if not seen[m[t]]:
                        seen[m[t]] = True
                        order[n_order] = m[t]
                        n_order += 1
        log_pairs = choose_pairs(generator, True, order, n_order, pair, apart, prior, member_mass)
        spare = 0
        for place in range(n_order):
            if pair[order[place]] < 0:
                while spare < n_kinds and apart.kinds[0, spare] > 0.0:
                    spare += 1
                if spare == n_kinds:
                    return -1, -1
                pair[order[place]] = spare
                spare += 1
        for e in range(n_items):
            if now[e] == 1:
                for t in range(tokens.first[item[e]], tokens.first[item[e] + 1]):
                    label[t] = pair[m[t]]

    n_merged = n_occupied if split else n_occupied - 1
    log_mark = math.log(uniform(generator))
    sides = empty_sides(n_rows, n_keys, n_kinds, n_member_rows, n_member_keys)
    gain = 0.0
    if not split:
        for e in range(n_items):
            put(1.0, now[e], item[e], label, tokens, sides)
        gain = log_ratio_of_split(n_items, n_merged, log_pairs, sides, prior, mass, member_mass)
        if not log_mark < -gain:
            # The scans would only make it less likely: what they add is the log of a probability.
            return -1, -1
        sides = empty_sides(n_rows, n_keys, n_kinds, n_member_rows, n_member_keys)
    side = np.zeros(n_items, np.int64)
    side[second] = 1
    put(1.0, 0, item[first], label, tokens, sides)
    put(1.0, 1, item[second], label, tokens, sides)
    log_proposal = 0.0
    for scan in range(_SCANS + 2):
        # First everybody joins the anchors in turn; then Gibbs scans, the last one counted.
        final = scan == _SCANS + 1
        for e in range(n_items):
            if e == first or e == second:
                continue
            if scan > 0:
                put(-1.0, side[e], item[e], label, tokens, sides)
            odds = log_odds(item[e], label, tokens, prior, mass, member_mass, sides)
            chance = 1.0 / (1.0 + math.exp(-odds))
            if final and not split:
                side[e] = now[e]
            else:
                side[e] = int(uniform(generator) < chance)
            if final:
                log_proposal -= math.log1p(math.exp(-odds if side[e] == 1 else odds))
            put(1.0, side[e], item[e], label, tokens, sides)
    if split:
        n_order = 0
        for e in range(n_items):
            if side[e] == 1:
                for t in range(tokens.first[item[e]], tokens.first[item[e] + 1]):
                    if not seen[m[t]]:
                        seen[m[t]] = True
                        order[n_order] = m[t]
                        n_order += 1
                        pair[m[t]] = m[t] if sides.kinds[0, m[t]] > 0.0 else -1
        log_pairs = choose_pairs(generator, False, order, n_order, pair, sides, prior, member_mass)
        gain = log_ratio_of_split(n_items, n_merged, log_pairs, sides, prior, mass, member_mass)
    log_ratio = gain - log_proposal if split else log_proposal - gain
    if not log_mark < log_ratio:
        return -1, -1
    if split:
        for e in range(n_items):
            if side[e] == 1:
                g[item[e]] = empty
        return a, empty
    for e in range(n_items):
        if now[e] == 1:
            g[item[e]] = a
            for t in range(tokens.first[item[e]], tokens.first[item[e] + 1]):
                m[t] = label[t]
    return a, b
