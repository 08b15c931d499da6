"""Patterns with missing keys as sums over products of sets of levels, under structural zeros.

The probability of a pattern is that of its possible completions. They are a union of disjoint
products of one set of levels per missing key; within a product, a component's probability of a set
is the sum over its levels, so a set is one more row of theta and a product is one more cell.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.kernels.zeros import Diagram
from unikat.models.groups import Groups

_MOST_PATHS = 10_000
_MOST_PRODUCTS = 500
"""More products than that take longer than draws of records do."""


class Completions(NamedTuple):
    """Products of sets that make up the possible completions of patterns."""

    owner: Int64
    """(n_products,): the pattern each is of, in rising order."""
    rows: Int32
    """(n_products, n_keys): row of theta or, from n_rows on, set; -1 for all levels of a key."""
    sets: Float64
    """(n_sets, n_rows): 1 for a level in the set."""


class _Question:
    """Diagram and patterns, compared by what they hold."""

    def __init__(
        self, diagram: Diagram, offsets: Int64, cells: Int32, groups: Groups | None = None
    ) -> None:
        self.diagram, self.offsets, self.cells, self.groups = diagram, offsets, cells, groups
        digest = hashlib.blake2b(np.ascontiguousarray(cells).tobytes())
        parts = () if groups is None else (groups.rows, groups.starts, groups.offsets)
        for part in (*diagram, offsets, *parts):
            digest.update(np.ascontiguousarray(part).tobytes())
        self._digest = digest.digest()

    def __hash__(self) -> int:
        return hash(self._digest)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Question) and self._digest == other._digest


def completions(diagram: Diagram, offsets: Int64, cells: Int32) -> Completions:
    """Find the possible completions of patterns (n, n_keys), -1 where missing.

    A complete pattern is its own completion if it is possible, and has none otherwise. The answer
    for the last few questions is remembered: the same patterns come back draw after draw.
    """
    return _completions(_Question(diagram, offsets, cells))


@lru_cache(maxsize=12)
def _completions(question: _Question) -> Completions:
    diagram, offsets, cells = question.diagram, question.offsets, question.cells
    n_rows, n_keys = int(offsets[-1]), len(offsets) - 1
    start, after, sets_of = _groups(_Question(diagram, offsets, cells[:0]))
    node = np.zeros(len(cells), np.int64)
    owner = np.arange(len(cells))
    # The set of every key: a single level, or a group of levels after which the same is possible.
    chosen = np.full((len(cells), n_keys), -1, np.int64)
    for j in diagram.order.tolist():
        codes = cells[owner, j].astype(np.int64)
        known = codes >= 0
        repeats = np.where(known, 1, start[node + 1] - start[node])
        item = np.repeat(np.arange(len(owner)), repeats)
        within = np.arange(len(item)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        group = start[node[item]] + within
        free = ~known[item]
        level = codes[item]
        owner, chosen = owner[item], chosen[item]
        before = node[item]
        node = diagram.child[before, np.maximum(level, 0)].astype(np.int64)
        node[free] = after[group[free]]
        chosen[:, j] = offsets[j] + level
        chosen[free, j] = n_rows + sets_of.place[group[free]]
        alive = node >= 0
        node, owner, chosen = node[alive], owner[alive], chosen[alive]
    sets = sets_of.members
    for j in range(n_keys):
        if np.any(cells[:, j] < 0):
            owner, chosen, sets = _united(owner, chosen, sets, j, n_rows)
    # A set of all levels is a key left out.
    sizes = np.add.reduceat(sets, offsets[:-1], axis=1)
    whole = (sizes == np.diff(offsets)).any(axis=1)
    is_set = chosen >= n_rows
    leave = is_set & whole[np.where(is_set, chosen - n_rows, 0)] if len(sets) else is_set
    chosen[leave] = -1
    order = np.argsort(owner, kind="stable")
    return Completions(owner[order], chosen[order].astype(np.int32), sets.astype(np.float64))


def possible_products(diagram: Diagram, offsets: Int64) -> Completions | None:
    """Find products of sets that make up all possible cells; None if they may be too many."""
    if _n_paths(_Question(diagram, offsets, np.empty((0, 0), np.int32))) > _MOST_PATHS:
        return None
    parts = completions(diagram, offsets, np.full((1, len(offsets) - 1), -1, np.int32))
    return parts if len(parts.rows) <= _MOST_PRODUCTS else None


@lru_cache(maxsize=4)
def _n_paths(question: _Question) -> float:
    """Number of ways through the diagram, levels that lead to the same node counted once."""
    child = question.diagram.child
    paths = np.zeros(len(child) + 2)
    # The end of every possible cell; -1, nowhere, reads the last entry.
    paths[len(child)] = 1.0
    for node in range(len(child) - 1, -1, -1):
        paths[node] = paths[np.unique(child[node])].sum()
    return float(paths[0])


def grouped_completions(
    diagram: Diagram, offsets: Int64, groups: Groups, cells: Int32
) -> Completions:
    """Find the possible cells of cells of groups (n, n_keys), -1 where a key is left out.

    All rows of what is found are sets. The answer for the last few questions is remembered.
    """
    return _grouped_completions(_Question(diagram, offsets, cells, groups))


@lru_cache(maxsize=4)
def _grouped_completions(question: _Question) -> Completions:
    diagram, offsets, cells = question.diagram, question.offsets, question.cells
    groups = question.groups
    assert groups is not None
    n_rows, n_keys = int(offsets[-1]), len(offsets) - 1
    members = groups.members(n_rows)
    node, owner = np.zeros(len(cells), np.int64), np.arange(len(cells))
    chosen = np.full((len(cells), n_keys), -1, np.int64)
    sets = np.empty((0, n_rows), np.bool_)
    for depth, j in enumerate(diagram.order.tolist()):
        # Which levels of each group lead from each node to which next one; the last group has all.
        levels = slice(int(offsets[j]), int(offsets[j + 1]))
        of_key = slice(int(groups.offsets[j]), int(groups.offsets[j + 1]))
        first = int(diagram.first[depth])
        child = diagram.child[first : int(diagram.first[depth + 1]), : levels.stop - levels.start]
        member = np.vstack((members[of_key, levels], np.ones(child.shape[1], bool)))
        at, group, level = np.nonzero(member[None] & (child >= 0)[:, None])
        step, where = np.unique(
            np.column_stack((at * len(member) + group, child[at, level])),
            axis=0,
            return_inverse=True,
        )
        leads = np.zeros((len(step), n_rows), np.bool_)
        leads[where.ravel(), levels.start + level] = True
        found, place = np.unique(leads, axis=0, return_inverse=True)
        # Of each cell so far: one for each node that its group leads to.
        asked = (node - first) * len(member) + np.where(
            cells[owner, j] < 0, len(member) - 1, cells[owner, j]
        )
        start, stop = (np.searchsorted(step[:, 0], asked, side) for side in ("left", "right"))
        item = np.repeat(np.arange(len(owner)), stop - start)
        taken = np.arange(len(item)) - np.repeat(np.cumsum(stop - start) - stop, stop - start)
        owner, chosen, node = owner[item], chosen[item], step[taken, 1]
        chosen[:, j] = n_rows + len(sets) + place.ravel()[taken]
        sets = np.vstack((sets, found))
    for j in range(n_keys):
        owner, chosen, sets = _united(owner, chosen, sets, j, n_rows)
    order = np.argsort(owner, kind="stable")
    return Completions(owner[order], chosen[order].astype(np.int32), sets.astype(np.float64))


class _Sets(NamedTuple):
    place: Int64
    """(n_groups,): set of each group."""
    members: Bool
    """(n_sets, n_rows)"""


@lru_cache(maxsize=2)
def _groups(question: _Question) -> tuple[Int64, Int64, _Sets]:
    """Levels of every node grouped by the node they lead to: starts, nodes and sets."""
    diagram, offsets = question.diagram, question.offsets
    start, after, members = [0], [], []
    for depth, j in enumerate(diagram.order.tolist()):
        levels = slice(int(offsets[j]), int(offsets[j + 1]))
        for node in range(int(diagram.first[depth]), int(diagram.first[depth + 1])):
            child = diagram.child[node, : levels.stop - levels.start]
            for target in np.unique(child[child >= 0]).tolist():
                member = np.zeros(int(offsets[-1]), np.bool_)
                member[levels] = child == target
                after.append(target)
                members.append(member)
            start.append(len(after))
    unique, place = np.unique(np.array(members), axis=0, return_inverse=True)
    return np.array(start), np.array(after), _Sets(place.ravel(), unique)


def _united(
    owner: Int64, chosen: Int64, sets: Bool, j: int, n_rows: int
) -> tuple[Int64, Int64, Bool]:
    """Unite the sets of key j in products that are equal otherwise."""
    rest = np.column_stack((owner, np.delete(chosen, j, axis=1), chosen[:, j] < n_rows))
    order = np.lexsort(rest.T[::-1])
    rest, owner, chosen = rest[order], owner[order], chosen[order]
    first = np.concatenate(([True], np.any(rest[1:] != rest[:-1], axis=1)))[: len(owner)]
    single = np.diff(np.append(np.flatnonzero(first), len(owner))) == 1
    if single.all():
        return owner, chosen, sets
    starts = np.flatnonzero(first)
    kept, merged = owner[starts], chosen[starts].copy()
    for place in np.flatnonzero(~single).tolist():
        stop = starts[place + 1] if place + 1 < len(starts) else len(owner)
        united = np.any(sets[chosen[starts[place] : stop, j] - n_rows], axis=0)
        same = np.flatnonzero((sets == united).all(axis=1))
        if not len(same):
            sets = np.vstack((sets, united))
            same = np.array([len(sets) - 1])
        merged[place, j] = n_rows + same[0]
    return kept, merged, sets
