"""Two releases of the same persons: which records an intruder links who has both.

He links a record of the one file to a record of the other by the keys that both have, at random
where several share their values. Of a record whose person is in both files, with the same values,
and of whose values the other file has b records, the link is right with probability 1 / b. What is
missing is a value like others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.patterns import numbered
from unikat.errors import DataError, option


class Linked(NamedTuple):
    """What links the records of a file, n, to those of another release."""

    partner: Int64
    """(n,): record of the other file that is of the same person; -1 if there is none, or nobody
    knows it."""
    right: Float64
    """(n,): probability that the record is linked to its partner; 0 without one."""
    unique: Bool
    """(n,): whether both files have the values of the shared keys once: the link is no guess."""

    @property
    def certain(self) -> Bool:
        """Whether the link is no guess and right, (n,)."""
        found: Bool = self.unique & (self.right == 1.0)
        return found


def linked(
    ours: Int32,
    theirs: Int32,
    n_levels: Sequence[int],
    ids: tuple[Int64, Int64] | None = None,
) -> Linked:
    """Link the records of two files by their shared keys.

    Parameters
    ----------
    ours, theirs
        (n, n_shared) and (m, n_shared) codes in the same levels; missing is -1.
    n_levels
        Of the shared keys; codes may be one beyond, for levels that the first file lacks.
    ids
        Number of the person of each record of either file, at most once in each. None: nobody
        knows, and both files have the same persons.

    Examples
    --------
    >>> ours, theirs = np.array([[0], [1], [1]]), np.array([[1], [0], [1]])
    >>> persons = np.array([7, 8, 9]), np.array([9, 7, 8])
    >>> found = linked(ours, theirs, (2,), persons)
    >>> found.partner.tolist(), found.right.tolist(), found.certain.tolist()
    ([1, 2, 0], [1.0, 0.5, 0.5], [True, False, False])
    """
    cell, other, n_cells = numbered(ours, theirs, [n + 1 for n in n_levels])
    here, there = (np.bincount(one, minlength=n_cells) for one in (cell, other))
    unique = (here[cell] == 1) & (there[cell] == 1)
    if ids is None:
        apart = int(np.abs(here - there).sum())
        if apart:
            raise DataError(
                "Both releases are taken for the same persons with the same values of the shared "
                f"keys, but {apart:,} record(s) of one have no counterpart in the other. Name the "
                f"columns that say who is who ({option('release_id')}), or the keys that are the "
                f"same in both ({option('shared')})."
            )
        last = np.full(n_cells, -1, np.int64)
        last[other] = np.arange(len(other))
        partner = np.where(unique, last[cell], -1)
        return Linked(partner, unique.astype(np.float64), unique)
    place = np.full(int(max(one.max(initial=-1) for one in ids)) + 1, -1, np.int64)
    place[ids[1]] = np.arange(len(other))
    partner = place[ids[0]]
    agree = (partner >= 0) & (other[partner] == cell)
    return Linked(partner, np.where(agree, 1.0 / np.maximum(there[cell], 1), 0.0), unique)
