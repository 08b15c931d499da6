"""Patterns joined to patterns and cells: every join of rows of codes stands here.

A *pattern* is a row of codes over the keys, -1 where a key is missing; a *cell* is a pattern
without -1. Two patterns agree if they are equal in every key that both know. Rows of
codes are (n, n_keys) arrays, and `n_levels` has the number of levels of each key.

| question | function |
|---|---|
| which rows are equal? | `distinct` |
| which rows of two lists are equal? | `numbered`, `meeting`, `is_in` |
| how much do the rows equal to each one add up to? | `sum_equal` |
| which cells agree with each pattern? | `agreeing` |
| how much do the cells that agree with each pattern add up to? | `agreeing_sums`, `summed` |
| how much do the patterns that agree with each one add up to? | `match_sums`, `meetings` |
| which patterns know the same keys? | `by_known_keys` |
| which cells does a pattern stand for? | `listed_completions` |
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from unikat._typing import AnyArray, Bool, Float64, Int32, Int64
from unikat.data.keys import MISSING
from unikat.errors import SpecError

_ROOM = 2**62
MOST_COMPLETIONS = 10_000_000
"""Cells that are listed at once."""

Sums = TypeVar("Sums", Int64, Float64)


def pattern_ids(codes: AnyArray, n_levels: Sequence[int]) -> Int64:
    """Integers that order and distinguish the rows of `codes` as a lexicographic sort would, (n,).

    They are below 2**62 and comparable only within one call. The number of keys is not limited: the
    running number is replaced by its rank whenever the next key would not fit.
    """
    ids = np.zeros(len(codes), dtype=np.int64)
    size = 1
    for j, levels in enumerate(n_levels):
        if size * (levels + 1) > _ROOM:
            values, ids = np.unique(ids, return_inverse=True)
            size = max(1, len(values))
        ids = ids * (levels + 1) + codes[:, j] + 1
        size *= levels + 1
    return ids


class Distinct(NamedTuple):
    """The distinct rows of some codes, in lexicographic order (-1 first)."""

    first: Int64
    """(n_distinct,): the first row of each."""
    place: Int64
    """(n,): which of them each row is."""
    counts: Int64
    """(n_distinct,): rows of each."""


def distinct(codes: AnyArray, n_levels: Sequence[int]) -> Distinct:
    """Find the rows that are equal.

    Examples
    --------
    >>> found = distinct(np.array([[1, 0], [0, -1], [1, 0]]), (2, 2))
    >>> found.first.tolist(), found.place.tolist(), found.counts.tolist()
    ([1, 0], [1, 0, 1], [1, 2])
    """
    _, first, place, counts = np.unique(
        pattern_ids(codes, n_levels), return_index=True, return_inverse=True, return_counts=True
    )
    return Distinct(first, place, counts.astype(np.int64))


def numbered(ours: Int32, theirs: Int32, n_levels: Sequence[int]) -> tuple[Int64, Int64, int]:
    """Number the rows of two lists, equal rows alike, by their lexicographic order, from 0.

    Examples
    --------
    >>> ours, theirs, n = numbered(np.array([[1], [0]]), np.array([[1], [2]]), (3,))
    >>> ours.tolist(), theirs.tolist(), n
    ([1, 0], [1, 2], 3)
    """
    values, place = np.unique(
        pattern_ids(np.concatenate((ours, theirs)), n_levels), return_inverse=True
    )
    return place[: len(ours)], place[len(ours) :], len(values)


def is_in(cells: Int32, known: Int32, n_levels: Sequence[int]) -> Bool:
    """Whether each row of `cells` is equal to one of `known`, (n,)."""
    ids = pattern_ids(np.concatenate((known, cells)), n_levels)
    found: Bool = np.isin(ids[len(known) :], ids[: len(known)])
    return found


def sum_equal(
    cells: Int32, known: Int32, values: Float64 | Int64, n_levels: Sequence[int]
) -> Float64:
    """Sum the values of the rows of `known` that are equal to each row of `cells`, (n,).

    Examples
    --------
    >>> known = np.array([[0, 1], [0, 1], [1, 1]])
    >>> sum_equal(np.array([[0, 1], [1, 0]]), known, np.array([2.0, 3.0, 5.0]), (2, 2)).tolist()
    [5.0, 0.0]
    """
    sums = np.zeros(len(cells))
    met = meeting(cells, known, n_levels)
    sums[met.asking] = np.bincount(met.offered, values[met.answering], met.n_numbers)[met.wanted]
    return sums


class Meeting(NamedTuple):
    """Rows that ask and rows that answer; those with equal numbers agree."""

    asking: Int64
    """(n_asking,) rows."""
    answering: Int64
    """(n_answering,) rows."""
    wanted: Int64
    """(n_asking,) number of what a row asks for, 0 to n_numbers-1."""
    offered: Int64
    """(n_answering,) number of what a row answers with, 0 to n_numbers-1."""
    n_numbers: int


def meetings(cells: Int32, n_levels: Sequence[int]) -> Iterator[Meeting]:
    """Find all pairs of compatible patterns: those that agree on every key both of them know.

    Every ordered pair, a pattern and itself too, is in one meeting.

    Examples
    --------
    >>> met = list(meetings(np.array([[0, 1], [-1, 1]], np.int32), (2, 2)))
    >>> sum(int((one.wanted[:, None] == one.offered).sum()) for one in met)
    4
    """
    members, masks = by_known_keys(cells)
    parts = _parts_of_ids(cells, n_levels)
    whole = parts.sum(axis=0)
    for asking, mask in zip(members, masks, strict=True):
        # What two patterns must agree on are the keys both have. Masks that share the same keys
        # with this one are answered together by one lookup of the projected patterns.
        shared, group_of = np.unique(masks & mask, axis=0, return_inverse=True)
        group_of = group_of.ravel()
        for g, common in enumerate(shared):
            answering = np.concatenate([members[m] for m in np.flatnonzero(group_of == g)])
            if len(parts):
                # The identifier of the whole less that of the other keys, of which most are few.
                others = np.flatnonzero(~common)
                wanted, offered = whole[asking], whole[answering]
                for j in others:
                    wanted -= parts[j, asking]
                    offered -= parts[j, answering]
                yield _met(wanted, offered, asking, answering)
            else:
                columns = np.flatnonzero(common)
                levels = [n_levels[j] for j in columns.tolist()]
                met = meeting(
                    cells[np.ix_(asking, columns)], cells[np.ix_(answering, columns)], levels
                )
                yield met._replace(asking=asking[met.asking], answering=answering[met.answering])


def by_known_keys(cells: Int32) -> tuple[list[Int64], Bool]:
    """Group patterns by the keys they know.

    Returns
    -------
    members, masks
        Rows of each group; and (n_groups, n_keys), the keys that it knows.
    """
    known = cells != MISSING
    # Much faster than to sort the rows of a matrix.
    ids = pattern_ids(known.astype(np.int32) - 1, [1] * cells.shape[1])
    _, first, group_of = np.unique(ids, return_index=True, return_inverse=True)
    order = np.argsort(group_of, kind="stable")
    members = np.split(order, np.cumsum(np.bincount(group_of))[:-1])
    # Of nothing there is one empty part, and no group.
    return members[: len(first)], known[first]


def meeting(asking: Int32, answering: Int32, n_levels: Sequence[int]) -> Meeting:
    """Find the rows of two lists of codes that are equal; rows without an equal may be left out.

    Parameters
    ----------
    asking, answering
        (n_asking, n_keys), (n_answering, n_keys) codes, -1 to n_levels-1.
    n_levels
        Levels of each key.
    """
    ids = pattern_ids(np.concatenate((asking, answering)), n_levels)
    wanted, offered = ids[: len(asking)], ids[len(asking) :]
    return _met(wanted, offered, np.arange(len(asking)), np.arange(len(answering)))


def _parts_of_ids(cells: Int32, n_levels: Sequence[int]) -> Int64:
    """Terms that add up to an identifier of a pattern, (n_keys, n), 0 where missing.

    Empty where they would not fit in 62 bits.
    """
    strides, size = [], 1
    for levels in n_levels:
        strides.append(size)
        size *= levels + 1
    if size > _ROOM:
        return np.empty((0, len(cells)), np.int64)
    return (cells.T + np.int64(1)) * np.array(strides, np.int64)[:, None]


def _met(wanted: Int64, offered: Int64, asking: Int64, answering: Int64) -> Meeting:
    """Number the identifiers of the shorter side, and look the other side up."""
    turned = len(wanted) > len(offered)
    few, many = (offered, wanted) if turned else (wanted, offered)
    values, few = np.unique(few, return_inverse=True)
    found = np.zeros(len(many), np.bool_)
    if len(values):
        place = np.minimum(np.searchsorted(values, many), len(values) - 1)
        found = values[place] == many
        many = place
    if turned:
        return Meeting(asking[found], answering, many[found], few, len(values))
    return Meeting(asking, answering[found], few, many[found], len(values))


def agreeing(patterns: Int32, cells: Int32, n_levels: Sequence[int]) -> Iterator[Meeting]:
    """Find the cells that agree with each pattern, by the keys that patterns know.

    Every pattern asks in one meeting; cells answer in any number of them.

    Examples
    --------
    >>> met = next(agreeing(np.array([[-1, 1]]), np.array([[0, 1], [1, 1], [1, 0]]), (2, 2)))
    >>> met.asking, met.answering[met.offered == met.wanted[0]]
    (array([0]), array([0, 1]))
    """
    asking, parts = _parts_of_ids(patterns, n_levels), _parts_of_ids(cells, n_levels)
    wanted, whole, everyone = asking.sum(axis=0), parts.sum(axis=0), np.arange(len(cells))
    for rows, mask in zip(*by_known_keys(patterns), strict=True):
        if len(parts):
            # The identifier of the whole less that of the other keys, of which most are few.
            offered = whole.copy()
            for j in np.flatnonzero(~mask):
                offered -= parts[j]
            yield _met(wanted[rows], offered, rows, everyone)
            continue
        keys = np.flatnonzero(mask)
        levels = [n_levels[j] for j in keys.tolist()]
        met = meeting(patterns[np.ix_(rows, keys)], cells[:, keys], levels)
        yield met._replace(asking=rows[met.asking])


def agreeing_sums(
    patterns: Int32, cells: Int32, values: Float64, n_levels: Sequence[int]
) -> Float64:
    """Sum values (n_cells, n_values) over the cells that agree with each pattern, (n, n_values).

    Examples
    --------
    >>> cells = np.array([[0, 1], [1, 1], [1, 0]])
    >>> agreeing_sums(np.array([[-1, 1], [0, -1]]), cells, np.eye(3), (2, 2)).tolist()
    [[1.0, 1.0, 0.0], [1.0, 0.0, 0.0]]
    """
    return summed(agreeing(patterns, cells, n_levels), values, len(patterns))


def summed(pairs: Iterable[Meeting], values: Float64, n: int) -> Float64:
    """Sum values (n_answering, n_values) over what answers each of n rows, (n, n_values)."""
    sums = np.zeros((n, values.shape[1]))
    for met in pairs:
        for j, column in enumerate(values.T):
            totals = np.bincount(met.offered, column[met.answering], minlength=met.n_numbers)
            sums[met.asking, j] += totals[met.wanted]
    return sums


def match_sums(cells: Int32, values: Sums, n_levels: Sequence[int]) -> Sums:
    """Sum values over the patterns compatible with each, itself among them.

    values and result (n, n_values); whole numbers are summed as such.
    """
    if (cells != MISSING).all():
        return values.copy()
    sums = np.zeros_like(values)
    for met in meetings(cells, n_levels):
        totals = np.zeros((met.n_numbers, values.shape[1]), values.dtype)
        np.add.at(totals, met.offered, values[met.answering])
        sums[met.asking] += totals[met.wanted]
    return sums


def listed_completions(cells: Int32, n_levels: Sequence[int]) -> tuple[Int32, Int64]:
    """List the cells that agree with each pattern, (n, n_keys), -1 where a key is left out.

    Returns
    -------
    completed, owner
        (n_completed, n_keys) cells, and the row of `cells` each belongs to.

    Examples
    --------
    >>> listed_completions(np.array([[0, 1], [1, -1]], np.int32), (2, 2))[0].tolist()
    [[0, 1], [1, 0], [1, 1]]
    """
    parts, owners = [], []
    masks, which = np.unique(cells < 0, axis=0, return_inverse=True)
    for m, mask in enumerate(masks):
        rows = np.flatnonzero(which.ravel() == m)
        free = np.flatnonzero(mask).tolist()
        each = math.prod(n_levels[j] for j in free)
        if each * len(rows) > MOST_COMPLETIONS:
            raise SpecError(
                f"{len(free)} keys are missing at once, which stands for {each:,} cells in each of "
                f"{len(rows):,} patterns; log-linear models of so many cells list at most "
                f"{MOST_COMPLETIONS:,}. Treat missing keys as a level, or use fewer keys."
            )
        levels = list(itertools.product(*(range(n_levels[j]) for j in free)))
        completed = np.repeat(cells[rows], each, axis=0)
        completed[:, free] = np.tile(np.array(levels, np.int32).reshape(each, -1), (len(rows), 1))
        parts.append(completed)
        owners.append(np.repeat(rows, each))
    if not parts:
        return cells, np.empty(0, np.int64)
    return np.concatenate(parts), np.concatenate(owners)
