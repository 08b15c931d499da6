"""The possible combinations of levels, counted and drawn without a list of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.patterns import distinct
from unikat.kernels.zeros import Diagram
from unikat.zeros.diagram import possible

_CHUNK = 1 << 22
"""Most numbers of one step of `completions`."""


class Combinations(NamedTuple):
    """The combinations of levels that are possible.

    Examples
    --------
    >>> combinations = Combinations(np.array([2, 3]), None)
    >>> combinations.completions(np.array([[-1, -1], [1, -1]], np.int32)).tolist()
    [6.0, 3.0]
    """

    levels: Int64
    """(n_keys,): number of levels of each key."""
    zeros: Diagram | None
    """The possible ones; None if all are."""

    def allows(self, cells: Int32) -> Bool:
        """Whether combinations are possible, (n,)."""
        if self.zeros is None:
            return np.ones(len(cells), np.bool_)
        return possible(self.zeros, cells)

    def completions(self, patterns: Int32) -> Float64:
        """Possible completions of each pattern, (n,); patterns (n, n_keys), -1 where missing."""
        if self.zeros is None:
            product: Float64 = np.prod(
                np.where(patterns < 0, self.levels, 1).astype(np.float64), axis=1
            )
            return product
        step = max(1, _CHUNK // int(np.diff(self.zeros.first).max()))
        parts = [self._ways(patterns[i : i + step])[0][:, 0] for i in range(0, len(patterns), step)]
        return np.concatenate(parts) if parts else np.empty(0)

    def draw(self, generator: np.random.Generator, patterns: Int32) -> Int32:
        """Draw a possible completion of each pattern, all alike probable, (n, n_keys)."""
        cells = patterns.copy()
        if self.zeros is None:
            drawn = generator.integers(0, self.levels, patterns.shape, dtype=np.int32)
            cells[cells < 0] = drawn[cells < 0]
            return cells
        diagram = self.zeros
        step = max(1, _CHUNK // len(diagram.child))
        for start in range(0, len(cells), step):
            part = cells[start : start + step]
            first, which, _ = distinct(part, self.levels.tolist())
            ways = self._ways(part[first])
            node = np.zeros(len(part), np.int64)
            for depth, key in enumerate(diagram.order.tolist()):
                after = int(diagram.first[depth + 1])
                child = diagram.child[node]
                # The last column of the ways is that of -1, with none.
                place = np.where(child < 0, ways[depth + 1].shape[1] - 1, child - after)
                weight = ways[depth + 1][which[:, None], place]
                known = part[:, key] >= 0
                weight[known] *= np.arange(weight.shape[1]) == part[known, key][:, None]
                total = np.cumsum(weight, axis=1)
                at = generator.random(len(part)) * total[:, -1]
                level = (total <= at[:, None]).sum(axis=1)
                part[:, key] = level
                node = child[np.arange(len(part)), level].astype(np.int64)
        return cells

    def _ways(self, patterns: Int32) -> list[Float64]:
        """Ways from each node of each layer to the end, a column of 0 behind, for each pattern."""
        diagram = self.zeros
        assert diagram is not None
        ways = np.zeros((len(patterns), 2))
        ways[:, 0] = 1.0
        found = [ways]
        for depth in range(len(diagram.order) - 1, -1, -1):
            first, after = int(diagram.first[depth]), int(diagram.first[depth + 1])
            child = diagram.child[first:after]
            target = np.where(child < 0, ways.shape[1] - 1, child - after)
            codes = patterns[:, diagram.order[depth]]
            before = np.zeros((len(patterns), after - first + 1))
            for level in range(target.shape[1]):
                rows = np.flatnonzero((codes == level) | (codes < 0))
                before[rows, :-1] += ways[np.ix_(rows, target[:, level])]
            ways = before
            found.append(ways)
        return found[::-1]
