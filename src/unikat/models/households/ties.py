"""Members whose values depend on the head's: which keys, by role, and their law.

With ties the value of a key of a member in role r is, with some probability, drawn given the head's
value of the same key alone, and else by the member's own class (`kernels.nested_ties`). Own draws
are kept with a probability that depends on their difference from the head's value, such as the
years between a child and the head; else they make place for one given the head's. The probabilities
have Dirichlet priors, so that given the *origin* of each value (own, or given the head's) all
conditionals are those of counts. A household in which nobody is the head, or several are, has own
draws alone.

Given the head's values members are still independent in a class, so the probability of a cell is
the same sum with other factors. They are rows of phi more: of each level together with that of the
head (`extended`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import betaln

from unikat._typing import AnyArray, Bool, Float32, Float64, Int32, Int64
from unikat.kernels import nested_ties as kernels
from unikat.kernels.nested import Weights
from unikat.kernels.nested_ties import Ties

_PARTS = np.array([1.0, 0.5, 0.5])
"""Dirichlet prior of a value being an own draw, drawn by level, drawn by difference."""
_SPREAD = 1.0
"""Dirichlet prior of the levels, or of the differences, all together."""
_KEPT = 1.0, 1.0
"""Beta prior of an own draw being kept, where the difference is between two steps."""
_STEP = 0.15
"""Probability that it has a step at a difference."""
_EVEN = 1e-4
"""Share of the law of differences that is the same for all, so that some lead to a level."""


def ties_of(head: int, tied: Bool, n_levels: Int64, n_roles: int, first_rows: Int64) -> Ties:
    """Lay the table of ties out.

    tied (n_person_keys,): keys that are; n_levels and first_rows: see `records.Columns`.
    """
    first = np.full((len(n_levels), n_roles), -1, np.int64)
    own, base, head_row = [], [], []
    place = 0
    for k in np.flatnonzero(tied if head >= 0 else np.zeros_like(tied)):
        n = int(n_levels[k])
        for role in range(n_roles):
            if role == head:
                continue
            first[k, role] = place
            starts = place + (n + 1) * np.arange(n)
            own.append(np.repeat(starts, n + 1))
            levels = first_rows[k, role] + np.arange(n)
            base.append(np.tile(np.append(-1, levels), n))
            head_row.append(np.repeat(levels, n + 1))
            place += n * (n + 1)
    nothing = np.empty(0, np.int64)
    return Ties(
        head if place else -1,
        first,
        np.concatenate([nothing, *own]),
        np.concatenate([nothing, *base]),
        np.concatenate([nothing, *head_row]),
    )


def places_of(ties: Ties, n_levels: Int64, roles: Int32, members: Int32, heads: Int32) -> Int64:
    """Places of the values of members, -1 where they are not tied.

    roles (n,); members and heads (n, n_person_keys): codes of the members and of their heads, -1
    where there is no head or a value is missing.
    """
    first = ties.first[:, np.maximum(roles, 0)].T
    real = (first >= 0) & (roles >= 0)[:, None] & (members >= 0) & (heads >= 0)
    return np.where(real, first + heads * (n_levels + 1) + 1 + members, -1).astype(np.int64)


def heads_of(ties: Ties, roles: Int32, members: Int32) -> Int32:
    """Codes of the head's values, (n, n_person_keys), -1 where there is not one head.

    roles (n, n_slots), -1 in slots beyond the size; members (n, n_slots, n_person_keys).
    """
    is_head = roles == ties.head if ties.head >= 0 else np.zeros_like(roles, bool)
    slot = is_head.argmax(axis=1)
    found = members[np.arange(len(members)), slot]
    one = is_head.sum(axis=1) == 1
    return np.where(one[:, None], found, -1).astype(np.int32)


def extended(ties: Ties, weights: Weights, entries: Int64, lost: Float32) -> Weights:
    """Weights with rows of phi more: of the levels at these places of the table of ties.

    lost: see `lost_draws`.
    """
    if not len(entries):
        return weights
    given, kept, moved = weights.ties.astype(np.float32)
    own = given[ties.own[entries]]
    more = weights.phi[ties.base[entries]]
    more *= (own * kept[entries])[:, None]
    more += given[entries][:, None]
    more += lost[ties.head_row[entries]] * (own * moved[entries])[:, None]
    return weights._replace(phi=np.concatenate((weights.phi, more)))


def lost_draws(ties: Ties, weights: Weights) -> Float32:
    """Probability of an own draw that is not kept, (n_person_rows, n_components).

    By the row of phi that the head's level has in the member's role; 0 of untied keys.
    """
    lost = np.zeros_like(weights.phi) if ties.head >= 0 else np.empty((0, 0), np.float32)
    start = 0
    while start < len(ties.own):
        here, n = _one_law(ties, start)
        levels = slice(ties.head_row[start], ties.head_row[start] + n)
        left = 1.0 - weights.ties[kernels.KEPT, here].reshape(n, n + 1)[:, 1:]
        lost[levels] = left.astype(np.float32) @ weights.phi[levels]
        start = here.stop
    return lost


class Origins(NamedTuple):
    """The members' own draws, and counts of the table."""

    own_rows: Int32
    """(n_members, n_person_keys): rows of phi, -1 where a value is not the member's own draw."""
    counts: Int64
    """(4, n_places)"""


def draw_origins(
    key: Any,
    sweep: int,
    ties: Ties,
    weights: Weights,
    lost: Float32,
    component: Int64,
    rows: Int32,
    places: Int64,
    n_levels: Int64,
) -> Origins:
    """Draw which values are the members' own draws, given their classes."""
    found = Origins(np.empty_like(rows), np.zeros((4, len(ties.own)), np.int64))
    kernels.draw_origins(
        key,
        sweep,
        ties,
        weights.ties,
        weights.phi,
        lost,
        component,
        rows,
        places,
        n_levels,
        *found,
    )
    return found


class Law(NamedTuple):
    """Law of a key of members in a role, given the level h of the head's.

    With the first part the value is an own draw; with the second it has the law `by_level[h]`; with
    the third it is h + d, d having the law `by_difference` among the differences that lead to a
    level. An own draw that differs from h by d is kept with probability `kept`; else it becomes
    h + d', with d' as before.
    """

    parts: Float64
    """(3,)"""
    by_level: Float64
    """(n_levels, n_levels)"""
    by_difference: Float64
    """(2 n_levels - 1,), from 1 - n_levels on."""
    kept: Float64
    """(2 n_levels - 1,)"""

    @property
    def packed(self) -> Float64:
        """All its numbers, in one row."""
        return np.concatenate([part.ravel() for part in self])

    @classmethod
    def unpacked(cls, n: int, packed: Float64) -> Law:
        """The law of a key with n levels."""
        ends = np.cumsum([3, n * n, 2 * n - 1])
        parts, by_level, by_difference, kept = np.split(packed, ends)
        return cls(parts, by_level.reshape(n, n), by_difference, kept)

    @property
    def shifted(self) -> Float64:
        """Probability of h + d being the level x, by h and x, (n_levels, n_levels)."""
        shifted: Float64 = self.by_difference[_differences(len(self.by_level))]
        shifted /= shifted.sum(axis=1, keepdims=True)
        return shifted

    @property
    def table(self) -> Float64:
        """Its part of the table of ties, (3, n_levels, n_levels + 1)."""
        shifted = self.shifted
        table = np.zeros((3, len(shifted), len(shifted) + 1))
        table[:, :, 0] = np.array([self.parts[0], 1.0, 0.0])[:, None]
        table[:, :, 1:] = (
            self.parts[1] * self.by_level + self.parts[2] * shifted,
            self.kept[_differences(len(shifted))],
            shifted,
        )
        return table

    @classmethod
    def drawn(cls, rng: np.random.Generator, counts: Int64, before: Law) -> Law:
        """Draw the law given counts (4, n_levels, n_levels + 1), and the law before."""
        n = len(before.by_level)
        origin, stayed, came, left = counts
        moved = before.parts[2] * before.shifted
        moved /= before.parts[1] * before.by_level + moved
        by_difference = rng.binomial(origin[:, 1:], moved)
        by_level = origin[:, 1:] - by_difference
        totals = np.array([origin[:, 0].sum(), by_level.sum(), by_difference.sum()])
        differences = _missed(rng, by_difference + came[:, 1:], before.by_difference)
        differences += _sums(by_difference + came[:, 1:])
        even = _EVEN / (2 * n - 1)
        differences -= rng.binomial(differences, even / before.by_difference)
        return cls(
            _dirichlet(rng, _PARTS + totals),
            np.array([_dirichlet(rng, _SPREAD / n + row) for row in by_level]),
            (1.0 - _EVEN) * _dirichlet(rng, _SPREAD / (2 * n - 1) + differences) + even,
            _draw_steps(rng, _sums(stayed[:, 1:]), _sums(left[:, 1:])),
        )


def _differences(n: int) -> Int64:
    """Place of x - h among all differences, (n, n)."""
    return np.arange(n) - np.arange(n)[:, None] + n - 1


def _sums(counts: AnyArray) -> AnyArray:
    """Sums of counts (n, n) by the difference of the level from the head's, (2 n - 1,)."""
    summed = np.bincount(_differences(len(counts)).ravel(), counts.ravel())
    return summed.astype(counts.dtype)


def _missed(rng: np.random.Generator, counts: Int64, law: Float64) -> Int64:
    """Differences without a level that were drawn before the counted ones (n, n), (2 n - 1,)."""
    missed = np.zeros(len(law), np.int64)
    for h, times in enumerate(counts.sum(axis=1)):
        beyond = np.where(_reached(len(counts))[h], 0.0, law)
        chance = beyond.sum()
        if times:
            n_missed = rng.negative_binomial(times, 1.0 - chance)
            missed += rng.multinomial(n_missed, beyond / chance)
    return missed


def _draw_steps(rng: np.random.Generator, stayed: Float64, left: Float64) -> Float64:
    """Draw a probability that changes at some differences alone, given counts by difference.

    Each difference but the first is a step with the same probability. The steps are drawn exactly:
    from the last difference on, the evidence of what follows is summed over all next steps.
    """
    n = len(stayed)
    stays, leaves = (np.concatenate(([0.0], np.cumsum(counts))) for counts in (stayed, left))
    first, end = np.triu_indices(n + 1, 1)
    log_one = np.full((n, n + 1), -np.inf)
    log_one[first, end] = betaln(
        _KEPT[0] + stays[end] - stays[first], _KEPT[1] + leaves[end] - leaves[first]
    ) - betaln(*_KEPT)
    log_one[first, end] += (end - first - 1) * np.log1p(-_STEP)
    after = np.zeros(n + 1)
    for d in range(n - 1, -1, -1):
        log_one[d, :n] += after[:n] + np.log(_STEP)
        after[d] = np.logaddexp.reduce(log_one[d, d + 1 :])
    kept, d = np.empty(n), 0
    while d < n:
        end_here = int(rng.choice(n + 1, p=np.exp(log_one[d] - after[d])))
        here = slice(d, end_here)
        kept[here] = rng.beta(_KEPT[0] + stayed[here].sum(), _KEPT[1] + left[here].sum())
        d = end_here
    return kept


def _reached(n: int) -> Bool:
    """Which differences lead to a level, by h, (n, 2 n - 1)."""
    to = np.arange(n)[:, None] + np.arange(1 - n, n)
    return (to >= 0) & (to < n)


def _dirichlet(rng: np.random.Generator, shape: AnyArray) -> Float64:
    """Draw from a Dirichlet distribution; shapes may be tiny, but one is not."""
    # Gamma(a) is Gamma(a + 1) u^(1 / a): on the log scale nothing underflows.
    log_gamma = np.log(rng.standard_gamma(shape + 1.0)) + np.log(rng.random(len(shape))) / shape
    drawn: Float64 = np.exp(log_gamma - log_gamma.max())
    drawn /= drawn.sum()
    return drawn


def _one_law(ties: Ties, start: int) -> tuple[slice, int]:
    """Part of the table of the law that starts at a place, and the levels of its key."""
    n = int(np.count_nonzero(ties.own == start)) - 1
    return slice(start, start + n * (n + 1)), n


def laws_of(ties: Ties, packed: Float64) -> list[tuple[slice, Law]]:
    """Laws of a state, each with its part of the table of ties."""
    found, start, place = [], 0, 0
    while place < len(ties.own):
        here, n = _one_law(ties, place)
        end = start + 3 + n * n + 2 * (2 * n - 1)
        found.append((here, Law.unpacked(n, packed[start:end])))
        start, place = end, here.stop
    return found


def _joined(ties: Ties, laws: list[tuple[slice, Law]]) -> tuple[Float64, Float64]:
    """The table of ties, and the laws that it is made of."""
    table = np.empty((3, len(ties.own)))
    for here, law in laws:
        table[:, here] = law.table.reshape(3, -1)
    return table, np.concatenate([np.empty(0), *(law.packed for _, law in laws)])


def first_laws(ties: Ties, places: Int64) -> tuple[Float64, Float64]:
    """Start as if each tied value were an own draw with probability one half.

    Returns the table of ties and the laws that it is made of.
    """
    given = np.bincount(places[places >= 0], minlength=len(ties.own)) / 4.0
    laws, place = [], 0
    while place < len(given):
        here, n = _one_law(ties, place)
        counts = given[here].reshape(n, n + 1)[:, 1:]
        levels = counts + _SPREAD / n
        # From below: a probability near 1 of differences that are rare is left slowly.
        alone = np.outer(counts.sum(axis=1), counts.sum(axis=0)) / max(counts.sum(), 1.0)
        kept = (_sums(counts) + 0.5) / (_sums(alone) + 0.5)
        gaps = _sums(counts) + _SPREAD / (2 * n - 1)
        law = Law(
            _PARTS / _PARTS.sum(),
            levels / levels.sum(axis=1, keepdims=True),
            (1.0 - _EVEN) * gaps / gaps.sum() + _EVEN / (2 * n - 1),
            np.clip(kept, 0.01, 0.9),
        )
        laws.append((here, law))
        place = here.stop
    return _joined(ties, laws)


def draw_laws(
    rng: np.random.Generator, ties: Ties, packed: Float64, counts: Int64
) -> tuple[Float64, Float64]:
    """Draw the laws given the laws before and counts of the table; return it with them."""
    laws = []
    for here, before in laws_of(ties, packed):
        n = len(before.by_level)
        laws.append((here, Law.drawn(rng, counts[:, here].reshape(4, n, n + 1), before)))
    return _joined(ties, laws)
