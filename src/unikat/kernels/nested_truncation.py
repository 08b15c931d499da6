"""Kernels of the nested mixture under rules: households simulated until enough are possible.

Household number t has random numbers of its own, so that the result depends neither on threads nor
on how the numbers are cut into blocks. A household is drawn in the stages of the rules and left
where it breaks one; what was drawn of it by then is counted. Its members' first key, the *lead*, is
drawn with their classes summed out. Of households that end there the classes are not needed one by
one: `share_out` draws how many of each there are. Roles that come with the household are known
before any class of a member.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.household_rules import first_broken
from unikat.kernels.jit import device, kernel
from unikat.kernels.nested_roles import Roles, fill_roles
from unikat.kernels.nested_ties import (
    GIVEN,
    Ties,
    count_value,
    draw_instead,
    draw_tied,
    only_head,
)
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_HOUSEHOLDS,
    binomial,
    next_bits,
    seek,
)
from unikat.kernels.weights import fill_alias
from unikat.kernels.zeros import find

_INV32 = 1.0 / 4294967296.0


class Law(NamedTuple):
    """Parameters of the nested mixture, for quick draws."""

    cut: npt.NDArray[np.float64]
    """(n_classes * n_compositions,): alias table of class and composition."""
    alias: npt.NDArray[np.int64]
    lead_cut: npt.NDArray[np.float64]
    """(n_classes, n_lead): alias tables of the lead key in each class."""
    lead_alias: npt.NDArray[np.int64]
    kind: npt.NDArray[np.float64]
    """(n_classes, n_lead, n_kinds): running sums of omega_gm phi_gm(lead), or of omega_gm."""
    lam: npt.NDArray[np.float64]
    """(n_classes, n_household_rows): running sums within each key."""
    phi: npt.NDArray[np.float64]
    """(n_classes * n_kinds, n_person_rows): running sums within each key."""
    ties: npt.NDArray[np.float64]
    """(3, n_places): the table of ties."""


class Shape(NamedTuple):
    """What households are made of."""

    offsets: npt.NDArray[np.int64]
    """(n_household_keys + 1,)"""
    first_rows: npt.NDArray[np.int64]
    """(n_person_keys, n_roles): first row of phi."""
    n_levels: npt.NDArray[np.int64]
    """(n_person_keys,)"""
    roles: Roles
    ties: Ties
    n_slots: int
    lead: int
    """The person key that is drawn first; -1 if no rule reads one, or it is drawn given a role."""
    lead_stage: int
    """The first stage that draws keys of persons."""
    lead_alone: int
    """1 if no other person key is drawn in its stage."""


class Found(NamedTuple):
    """Counts of impossible households, as far as they were drawn; they can be taken off again."""

    sizes: npt.NDArray[np.int64]
    """(n_classes,)"""
    member_sizes: npt.NDArray[np.int64]
    """(n_classes, n_kinds)"""
    counts: npt.NDArray[np.int64]
    """(n_classes, n_household_rows)"""
    member_counts: npt.NDArray[np.int64]
    """(n_classes * n_kinds, n_person_rows)"""
    leads: npt.NDArray[np.int64]
    """(n_classes, n_lead): members whose class was not drawn."""
    ties: npt.NDArray[np.int64]
    """(4, n_places), see `nested_ties`."""


class Listed(NamedTuple):
    """Impossible households one by one, as far as they were drawn; -1 elsewhere."""

    g: npt.NDArray[np.int16]
    """(n,): class; (0,) if they are not listed."""
    rows: npt.NDArray[np.int32]
    """(n, n_household_keys): rows of lam."""
    m: npt.NDArray[np.int16]
    """(n, n_slots): classes of the members whose keys were drawn."""
    persons: npt.NDArray[np.int32]
    """(n, n_slots, n_person_keys): rows of phi of their own draws."""


@kernel
def fill_law(pi, omega, lam, phi, offsets, member_offsets, lead, law):
    """Fill the tables of `law` from the parameters; see `nested.Weights`."""
    n_classes, n_kinds = omega.shape
    n_first = offsets[1]
    most = max(n_classes * n_first, law.lead_cut.shape[1])
    weights = np.empty(most)
    small = np.empty(most, np.int64)
    large = np.empty(most, np.int64)
    for g in range(n_classes):
        for x in range(n_first):
            weights[g * n_first + x] = pi[g] * lam[x, g]
    fill_alias(weights[: n_classes * n_first], law.cut, law.alias, small, large)
    for g in range(n_classes):
        for k in range(offsets.shape[0] - 1):
            running = 0.0
            for r in range(offsets[k], offsets[k + 1]):
                running += lam[r, g]
                law.lam[g, r] = running
    for r in range(member_offsets[-1]):
        for c in range(n_classes * n_kinds):
            law.phi[c, r] = phi[r, c]
    for c in range(n_classes * n_kinds):
        for k in range(member_offsets.shape[0] - 1):
            for r in range(member_offsets[k] + 1, member_offsets[k + 1]):
                law.phi[c, r] += law.phi[c, r - 1]
    if lead >= 0:
        n_lead = law.lead_cut.shape[1]
        for g in range(n_classes):
            for x in range(n_lead):
                running = 0.0
                for m in range(n_kinds):
                    running += omega[g, m] * phi[member_offsets[lead] + x, g * n_kinds + m]
                    law.kind[g, x, m] = running
                weights[x] = running
            fill_alias(weights[:n_lead], law.lead_cut[g], law.lead_alias[g], small, large)
    else:
        for g in range(n_classes):
            law.kind[g, 0] = np.cumsum(omega[g])


@device
def draw_kinds(generator, law, g, n_members, leads, kinds):
    """Draw the members' classes given the lead key."""
    n_kinds = law.kind.shape[2]
    for j in range(n_members):
        running = law.kind[g, leads[j]]
        mark = float(next_bits(generator)) * _INV32 * running[n_kinds - 1]
        kinds[j] = find(running, 0, n_kinds, mark)


@kernel
def simulate(
    key, sweep, purpose, first, end, target, sign, law, shape, rules, scratch, found, listed, at
):
    """Simulate the households [first, end), until `target` possible ones have come.

    Adds `sign` for all that is drawn of an impossible one to found: Found, and lists them in
    listed: Listed from place `at` on. Returns the number of possible households and of all.
    """
    offsets = shape.offsets
    first_rows = shape.first_rows
    roles = shape.roles
    lead = shape.lead
    n_first = offsets[1]
    n_lead = law.lead_cut.shape[1]
    n_all = law.cut.shape[0]
    n_kinds = found.member_sizes.shape[1]
    n_stages = rules.stage_first.shape[0] - 1
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    codes = np.full(offsets.shape[0] - 1, -1, np.int64)
    members = np.full((shape.n_slots, first_rows.shape[0]), -1, np.int64)
    role_of = np.zeros(shape.n_slots, np.int64)
    leads = np.zeros(shape.n_slots, np.int64)
    kinds = np.zeros(shape.n_slots, np.int64)
    ties = shape.ties
    origins = np.full((*members.shape, 3), -1, np.int64)
    n_possible = 0
    for t in range(first, end):
        seek(generator, key, t, sweep, purpose)
        point = float(next_bits(generator)) * _INV32 * n_all
        pick = int(point)
        if point - pick >= law.cut[pick]:
            pick = law.alias[pick]
        g = pick // n_first
        composition = pick - g * n_first
        n_members = fill_roles(generator, composition, roles, role_of)
        codes[0] = n_members - roles.least
        head = only_head(role_of, n_members, ties.head)
        if head > 0:
            # The head comes first, since values of the others depend on the head's.
            role_of[head] = role_of[0]
            role_of[0] = ties.head
        if roles.key >= 0:
            members[:n_members, roles.key] = role_of[:n_members]
        have_kinds = False
        broken = -1
        stage = 0
        while stage < n_stages:
            for place in range(rules.house_first[stage], rules.house_first[stage + 1]):
                k = rules.house_keys[place]
                if k > 0:
                    mark = float(next_bits(generator)) * _INV32 * law.lam[g, offsets[k + 1] - 1]
                    codes[k] = find(law.lam[g], offsets[k], offsets[k + 1], mark) - offsets[k]
            if lead >= 0 and stage == shape.lead_stage:
                for j in range(n_members):
                    point = float(next_bits(generator)) * _INV32 * n_lead
                    x = int(point)
                    if point - x >= law.lead_cut[g, x]:
                        x = law.lead_alias[g, x]
                    leads[j] = x
                    members[j, lead] = x
            if not have_kinds and (
                stage > shape.lead_stage or (stage == shape.lead_stage and shape.lead_alone == 0)
            ):
                draw_kinds(generator, law, g, n_members, leads, kinds)
                have_kinds = True
            for place in range(rules.person_first[stage], rules.person_first[stage + 1]):
                k = rules.person_keys[place]
                if k != lead and k != roles.key:
                    for j in range(n_members):
                        start = first_rows[k, role_of[j]]
                        stop = start + shape.n_levels[k]
                        origins[j, k] = -1
                        tied = -1
                        if head >= 0 and j > 0 and ties.first[k, role_of[j]] >= 0:
                            tied = ties.first[k, role_of[j]]
                            tied += members[0, k] * (shape.n_levels[k] + 1)
                            level = draw_tied(generator, law.ties[GIVEN], tied, shape.n_levels[k])
                            origins[j, k, 0] = tied + 1 + level
                            if level >= 0:
                                members[j, k] = level
                                continue
                        running = law.phi[g * n_kinds + kinds[j]]
                        mark = float(next_bits(generator)) * _INV32 * running[stop - 1]
                        level = find(running, start, stop, mark) - start
                        if tied >= 0:
                            origins[j, k, 1] = tied + 1 + level
                            other = draw_instead(
                                generator, law.ties, tied, level, shape.n_levels[k]
                            )
                            if other >= 0:
                                level = other
                                origins[j, k, 2] = tied + 1 + level
                        members[j, k] = level
            broken = first_broken(rules, stage, codes, members, n_members, scratch)
            if broken >= 0:
                break
            stage += 1
        if broken < 0:
            n_possible += 1
            if n_possible == target:
                return n_possible, t + 1 - first
            continue
        in_list = at < listed.g.shape[0]
        if in_list:
            if not have_kinds and lead >= 0 and stage >= shape.lead_stage:
                draw_kinds(generator, law, g, n_members, leads, kinds)
            listed.g[at] = g
            listed.rows[at, 0] = composition
        found.sizes[g] += sign
        found.counts[g, composition] += sign
        for place in range(rules.house_first[stage + 1]):
            k = rules.house_keys[place]
            if k > 0:
                found.counts[g, offsets[k] + codes[k]] += sign
                if in_list:
                    listed.rows[at, k] = offsets[k] + codes[k]
        if have_kinds:
            for j in range(n_members):
                c = g * n_kinds + kinds[j]
                found.member_sizes[g, kinds[j]] += sign
                if in_list:
                    listed.m[at, j] = kinds[j]
                for place in range(rules.person_first[stage + 1]):
                    k = rules.person_keys[place]
                    if k == roles.key:
                        continue
                    row = first_rows[k, role_of[j]] + members[j, k]
                    if origins[j, k, 0] >= 0:
                        origin, drawn, instead = origins[j, k]
                        count_value(origin, drawn, instead, sign, found.ties)
                        row = ties.base[drawn] if drawn >= 0 else -1
                    if row >= 0:
                        found.member_counts[c, row] += sign
                        if in_list:
                            listed.persons[at, j, k] = row
        elif lead >= 0 and stage >= shape.lead_stage:
            for j in range(n_members):
                found.leads[g, leads[j]] += sign
                if in_list:
                    listed.m[at, j] = kinds[j]
                    listed.persons[at, j, lead] = first_rows[lead, 0] + leads[j]
        at += int(in_list)
    return n_possible, end - first


@kernel
def share_out(key, sweep, first_row, law, found):
    """Draw how many of the members counted in `found.leads` each class has, and count them.

    first_row: row of the lead key's first level.
    """
    n_classes, n_lead = found.leads.shape
    n_kinds = found.member_sizes.shape[1]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for g in range(n_classes):
        for x in range(n_lead):
            left = found.leads[g, x]
            if left == 0:
                continue
            seek(generator, key, g * n_lead + x, sweep, PURPOSE_HOUSEHOLDS)
            # Beyond the blocks that household g * n_lead + x may use.
            generator[0] = 1 << 31
            # From the last class down, a running sum being all that is left.
            for m in range(n_kinds - 1, -1, -1):
                if left == 0:
                    break
                here = law.kind[g, x, m]
                below = law.kind[g, x, m - 1] if m > 0 else 0.0
                share = (here - below) / here if here > 0.0 else 1.0
                taken = left if m == 0 else np.int64(binomial(generator, float(left), share))
                found.member_sizes[g, m] += taken
                found.member_counts[g * n_kinds + m, first_row + x] += taken
                left -= taken


@kernel
def over_compositions(n_each, weight, head, factor, out):
    """Add sum_s weight[s, g] sum_h head[h, g] prod_r factor[r, h, g]^n_each[s, r] to out.

    out (n_classes,); n_each (n, n_groups): members by group of roles; weight (n, n_classes); head
    (n_types, n_classes); factor (n_groups, n_types, n_classes).
    """
    n_places, n_classes = head.shape
    for s in range(n_each.shape[0]):
        for h in range(n_places):
            for g in range(n_classes):
                product = weight[s, g] * head[h, g]
                for r in range(n_each.shape[1]):
                    for _ in range(n_each[s, r]):
                        product *= factor[r, h, g]
                out[g] += product
