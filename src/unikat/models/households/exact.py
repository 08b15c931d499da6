"""Probability of a possible household, exactly, where rules compare members with the head alone.

Given class g and the head's type h (his levels of the keys that rules read) the members are
independent, and how many have each role is decided by itself:

    P(possible | g) = sum_s w_g(s) [s possible] sum_h P_g(h) prod_r q_gr(h)^s_r

with s the numbers of members by role, w_g(s) their probability (times the orders of the roles
where each member draws his own), and q_gr(h) the probability that a member of role r may live with
a head of type h. Roles that rules do not tell apart are summed over together; what is left of a
composition that is not listed is all compositions less the listed ones.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int64
from unikat.kernels.household_rules import HouseholdRules
from unikat.kernels.nested import Weights
from unikat.kernels.nested_roles import Roles
from unikat.kernels.nested_ties import Ties
from unikat.kernels.nested_truncation import over_compositions
from unikat.zeros.household_heads import HeadRules, head_rules
from unikat.zeros.household_rules import alike_to

_MOST_COMPOSITIONS = 20_000
"""Compositions of groups of roles, at most."""


class ExactRules(NamedTuple):
    """Rules that compare members with the head alone, and the compositions that they leave."""

    rules: HeadRules
    roles: Roles
    ties: Ties
    first_rows: Int64
    """(n_person_keys, n_roles): see `records.Columns`."""
    listed: Int64
    """The listed compositions that are possible."""
    group: Int64
    """(n_roles,): group of each role; the head's is one of its own."""
    grouped: Int64
    """(n, n_groups): all possible compositions of the groups."""


def exact_rules(
    program: HouseholdRules, roles: Roles, ties: Ties, n_levels: Int64, first_rows: Int64
) -> ExactRules | None:
    """What the exact probability needs; None where the rules are of another kind.

    n_levels (n_person_keys,) and first_rows (n_person_keys, n_roles): see `records.Columns`.
    """
    for role in [roles.key] if roles.key >= 0 else range(len(n_levels)):
        rules = head_rules(program, n_levels, role)
        if rules is not None and {ties.head, roles.once} <= {-1, rules.head}:
            return _with_compositions(rules, roles, ties, first_rows)
    return None


def _with_compositions(
    rules: HeadRules, roles: Roles, ties: Ties, first_rows: Int64
) -> ExactRules | None:
    n_roles = len(rules.alone)
    alike = alike_to(rules.program, n_roles, True, rules.role)
    first, group = np.unique(alike, return_inverse=True)
    n_most = len(roles.sizes) + roles.least - 1
    if math.comb(n_most + len(first), len(first)) > _MOST_COMPOSITIONS:
        return None
    grouped = np.array(
        [s for n in range(roles.least, n_most + 1) for s in _parted(n, len(first))], np.int64
    )
    each = np.zeros((len(grouped), n_roles), np.int64)
    each[:, first] = grouped
    good = rules.compositions_possible(each)
    if rules.head >= 0 and (each[good, rules.head] > 1).any():
        return None
    listed = np.empty(0, np.int64)
    if roles.key >= 0:
        listed = np.flatnonzero(rules.compositions_possible(roles.members))
    return ExactRules(rules, roles, ties, first_rows, listed, group.ravel(), grouped[good])


def _parted(n: int, n_groups: int) -> list[tuple[int, ...]]:
    """All ways to part n members among groups."""
    if n_groups == 1:
        return [(n,)]
    return [(k, *rest) for k in range(n + 1) for rest in _parted(n - k, n_groups - 1)]


def chance_by_class(exact: ExactRules, weights: Weights) -> Float64:
    """Probability of a possible household in each class, (n_classes,)."""
    roles, rules = exact.roles, exact.rules
    members = _members(exact, weights)
    alone = np.einsum("rx,rxg->rg", rules.alone, members)[:, None]
    laws = [(np.ones((1, len(weights.pi))), alone)]
    if rules.head >= 0:
        if exact.ties.head < 0:
            beside = np.einsum("rhx,rxg->rhg", rules.beside, members)
        else:
            beside = np.empty((*rules.beside.shape[:2], len(weights.pi)))
            for h in range(len(rules.types)):
                tied = _members(exact, weights, h)
                beside[:, h] = np.einsum("rx,rxg->rg", rules.beside[:, h], tied)
        head = rules.alone[rules.head][:, None] * members[rules.head]
        laws.append((head, beside))

    def total(n_each: Int64, weight: Float64, shares: Float64, group: Int64) -> Float64:
        """Sum over compositions (n, n_groups) with weights (n, n_classes)."""
        found = np.zeros(len(weights.pi))
        heads = n_each[:, group[rules.head]] if rules.head >= 0 else np.zeros(len(n_each))
        for n_heads, (head, factor) in enumerate(laws):
            here = heads == n_heads
            others = n_each[here]
            scale = 1.0
            if n_heads:
                others = others - (np.arange(others.shape[1]) == group[rules.head])
                scale = shares[rules.head]
            together = np.zeros((others.shape[1], *factor.shape[1:]))
            np.add.at(together, group, shares[:, None, None] * factor)
            over_compositions(others, weight[here], scale * head, together, found)
        return found

    lam = weights.lam.astype(np.float64)
    n = exact.grouped.sum(axis=1)
    factorials = np.array([math.factorial(s) for s in range(int(n.max(initial=0)) + 1)], float)
    orders = (factorials[n] / factorials[exact.grouped].prod(axis=1))[:, None]
    if roles.key < 0:
        shares = np.ones(len(exact.group))
        return total(exact.grouped, orders * lam[n - roles.least], shares, exact.group)
    n_listed = len(roles.members)
    weight = lam[exact.listed]
    found = np.zeros(len(weights.pi))
    if roles.rest > 0.0:
        rest = lam[n_listed] / roles.rest
        shares, ways = roles.shares.copy(), orders * roles.sizes[n - roles.least][:, None]
        if roles.once >= 0:
            shares[roles.once] = 1.0
            ways /= n[:, None]
            ways[exact.grouped[:, exact.group[roles.once]] != 1] = 0.0
        found += total(exact.grouped, ways * rest, shares, exact.group)
        weight = weight - roles.listed[exact.listed, None] * rest
    itself = np.arange(len(exact.group))
    return found + total(roles.members[exact.listed], weight, np.ones(len(itself)), itself)


def _members(exact: ExactRules, weights: Weights, head: int | None = None) -> Float64:
    """Probability of each type of a member in each role, (n_roles, n_types, n_classes).

    head: the type of the head, to whose values members may be tied. Where members draw their roles,
    the probability of the role is a factor of it.
    """
    rules, ties = exact.rules, exact.ties
    n_roles, n_types = rules.alone.shape
    found = np.empty((n_roles, n_types, len(weights.pi)))
    for r in range(n_roles):
        product = np.broadcast_to(weights.omega.ravel(), (n_types, weights.omega.size))
        place = r if exact.roles.key >= 0 else 0
        if exact.roles.key < 0:
            product = product * weights.phi[exact.first_rows[rules.role, 0] + r]
        for k, levels in zip(rules.keys, rules.types.T, strict=True):
            factor = weights.phi[exact.first_rows[k, place] + levels].astype(np.float64)
            start = ties.first[k, place]
            if head is not None and start >= 0:
                n = rules.n_levels[k]
                start += levels[head] * (n + 1)
                given, kept, moved = weights.ties[:, start : start + n + 1]
                first = exact.first_rows[k, place]
                lost = (1.0 - kept[1:]) @ weights.phi[first : first + n]
                at = 1 + levels
                factor = given[0] * (kept[at, None] * factor + moved[at, None] * lost)
                factor += given[at, None]
            product = product * factor
        found[r] = product.reshape(n_types, *weights.omega.shape).sum(axis=2)
    return found
