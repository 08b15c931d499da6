"""Groups of levels: cells of coarser keys as a model of the finer ones sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int64
from unikat.kernels import laws

_Theta = TypeVar("_Theta", Float32, Float64)


class Groups(NamedTuple):
    """Groups of levels of each key; they may overlap. A cell of groups is a union of cells."""

    rows: Int64
    """The levels in each group, group by group; levels of all keys are counted together. A group
    without a level has n_rows, the number of all levels."""
    starts: Int64
    """(n_groups,): place of the first level of each group in `rows`."""
    offsets: Int64
    """(n_keys + 1,): first group of each key."""
    found: dict[bytes, Any]
    """What a model found out about cells, by their bytes, that is the same for all states."""
    weights: Float64 | None = None
    """(n_members,): of each level in `rows`, where groups are weighted sums; None: all are 1."""

    @classmethod
    def of(cls, members: Sequence[Bool]) -> Self:
        """Make groups of the members of each key's, (n_groups, n_levels) each."""
        first, n_rows = 0, sum(part.shape[1] for part in members)
        rows, sizes = [], []
        for part in members:
            group, level = np.nonzero(part)
            empty = np.flatnonzero(~part.any(axis=1))
            group = np.concatenate((group, empty))
            level = np.concatenate((first + level, np.full(len(empty), n_rows)))
            rows.append(level[np.argsort(group, kind="stable")])
            sizes.append(np.bincount(group, minlength=len(part)))
            first += part.shape[1]
        return cls(
            rows=np.concatenate(rows).astype(np.int64),
            starts=np.concatenate(([0], np.cumsum(np.concatenate(sizes))[:-1])).astype(np.int64),
            offsets=np.concatenate(([0], np.cumsum([len(part) for part in members]))),
            found={},
        )

    @classmethod
    def weighted(cls, shares: Sequence[Float64]) -> Self:
        """Make groups of which each level has a share, (n_groups, n_levels) for each key."""
        found = cls.of([part > 0.0 for part in shares])
        weights = [
            row[row > 0.0] if (row > 0.0).any() else np.ones(1) for part in shares for row in part
        ]
        return found._replace(weights=np.concatenate(weights))

    def members(self, n_rows: int) -> Bool:
        """Which levels are in each group, (n_groups, n_rows)."""
        found = np.zeros((len(self.starts), n_rows + 1), np.bool_)
        sizes = np.diff(np.append(self.starts, len(self.rows)))
        found[np.repeat(np.arange(len(sizes)), sizes), self.rows] = True
        return found[:, :n_rows]

    @property
    def sets(self) -> tuple[Int64, Int64, Float64]:
        """Where the levels of each group begin, (n_groups + 1,); these levels, and their shares."""
        shares = np.ones(len(self.rows)) if self.weights is None else self.weights
        return np.append(self.starts, len(self.rows)), self.rows, shares

    def sums(self, theta: _Theta) -> _Theta:
        """Sums of the levels' probabilities (n_rows, n_components), (n_groups, n_components)."""
        found = np.empty((len(self.starts), theta.shape[1]), theta.dtype)
        weights = np.empty(0) if self.weights is None else self.weights
        theta = np.ascontiguousarray(theta)
        laws.group_sums(theta, self.rows, self.starts, weights, found)
        return found
