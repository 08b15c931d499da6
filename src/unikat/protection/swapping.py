"""Targeted record swapping: records at risk exchange some keys with records that are like them.

Source: Shlomo, Tudor and Groom (2010), *Data swapping for protecting census tables*, Privacy in
Statistical Databases, LNCS 6344, 41-51 (targeted swapping of households between areas).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unikat._typing import AnyArray, Bool, Int32, Int64
from unikat.data.patterns import distinct
from unikat.data.shared_keys import known_values


class Swap(NamedTuple):
    """Records after swapping."""

    codes: Int32
    """(n, n_keys)."""
    swapped: Bool
    """(n,) whether a record was part of a swap."""
    left: Bool
    """(n,) whether a target found no partner."""


def swap_records(
    codes: AnyArray,
    n_levels: Sequence[int],
    targets: AnyArray,
    *,
    swap: Sequence[int],
    match: Sequence[int],
    seed: int,
    household: AnyArray | None = None,
) -> Swap:
    """Exchange the swap keys of each target with those of a record drawn from its partners.

    Partners agree in the match keys and differ in a swap key. Every record is swapped at most once.
    So within each combination of match keys as many records as before have each value of the swap
    keys: only what goes together with the other keys changes.

    With households whole households exchange the swap keys, which all members of a household whose
    value is known must share, as they do an area. Partners then have as many members, and the same
    combinations of match keys among them, and exchange member by member, missing values too; a
    household is a target if a member is one.

    Parameters
    ----------
    codes
        (n, n_keys), -1 where missing; a missing key is a level of its own here.
    n_levels
        Levels of each key.
    targets
        (n,) numbers; records above 0 are targets, the largest one first. For instance the risk of
        those above a threshold, 0 for the others.
    swap, match
        Columns of the swap and of the match keys; no column is in both.
    seed
        Partners are drawn with it.
    household
        (n,) whole numbers, or None.

    Examples
    --------
    >>> codes = [[0, 0], [0, 1], [1, 0]]
    >>> found = swap_records(codes, (2, 2), [1, 0, 0], swap=[1], match=[0], seed=1)
    >>> found.codes.tolist(), found.swapped.tolist()
    ([[0, 1], [0, 0], [1, 0]], [True, True, False])
    """
    codes = np.array(codes, np.int32)
    risk = np.asarray(targets, np.float64)
    n = len(codes)
    keys = np.array(swap, np.int64)
    alike = _numbers(codes[:, list(match)], [n_levels[j] for j in match])
    unit = np.arange(n) if household is None else np.unique(household, return_inverse=True)[1]
    order = np.lexsort((alike, unit))
    members = np.split(order, np.flatnonzero(np.diff(unit[order])) + 1) if n else []
    values, _ = known_values(codes[:, keys], unit)
    value = _numbers(values, [n_levels[j] for j in swap])
    # The units of each group by their value, those that are drawn first at the end.
    drawn = np.random.default_rng(seed).permutation(len(members))
    groups: dict[tuple[int, ...], dict[int, list[int]]] = {}
    for u in np.argsort(-drawn).tolist():
        queues = groups.setdefault(tuple(alike[members[u]].tolist()), {})
        queues.setdefault(int(value[u]), []).append(u)
    highest = np.array([risk[rows].max() for rows in members])
    swapped, left = np.zeros(n, np.bool_), np.zeros(n, np.bool_)
    done = np.zeros(len(members), np.bool_)
    for u in np.argsort(-highest, kind="stable")[: int((highest > 0.0).sum())].tolist():
        if done[u]:
            continue
        firsts = []
        for other, queue in groups[tuple(alike[members[u]].tolist())].items():
            while queue and done[queue[-1]]:
                queue.pop()
            if queue and other != value[u]:
                firsts.append(queue[-1])
        partner = min(firsts, key=lambda v: drawn[v], default=None)
        if partner is None:
            left[members[u][risk[members[u]] > 0.0]] = True
            continue
        # Members are sorted alike in both households, so as many records as before are missing.
        ours, theirs = np.ix_(members[u], keys), np.ix_(members[partner], keys)
        codes[ours], codes[theirs] = codes[theirs], codes[ours]
        for one in (u, partner):
            done[one] = True
            swapped[members[one]] = True
    return Swap(codes, swapped, left)


def _numbers(codes: Int32, n_levels: Sequence[int]) -> Int64:
    """Number of each row among the distinct ones, (n,)."""
    return distinct(codes, n_levels).place
