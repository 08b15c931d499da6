"""Disjoint conditions: the union of conditions cut into pieces of one level or any of each key."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NoReturn

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.errors import SpecError
from unikat.zeros.conditions import Layout, check_conditions, merged, simplified

MOST_PIECES = 1_000_000
"""Most pieces that are listed."""
_SEARCHED = 4_000
"""Up to so many sets of conditions, every key is tried as the one to split next."""

_MOST_STATES = 200_000
"""Sets of conditions after which the search is given up."""

ANY = -1
"""Stands for every level of a key in a piece."""

State = frozenset[int]
"""Conditions that a part of the cells may meet; keys that are known are any in them."""


def disjoint(conditions: Bool, offsets: Int64 | Sequence[int]) -> Int32:
    """Cut what conditions cover into disjoint pieces, in the form of the R packages' ``MCZ``.

    The cells are split by the levels of one key, each part by the levels of another one, and so on
    until a part is covered by a single condition or meets none. Of all such splits one with fewest
    pieces is taken, or, where there are too many to compare, a good one.

    Parameters
    ----------
    conditions
        (n_conditions, n_rows): whether a level is in the set of a condition.
    offsets
        (n_keys + 1,): first row of each key, and n_rows.

    Returns
    -------
    Int32
        (n_pieces, n_keys): one level of each key, or -1 for any; sorted. A cell that meets a
        condition is in exactly one piece, any other cell in none.

    Examples
    --------
    Level 0 of the first key, or level 2 of the second:

    >>> disjoint(np.array([[1, 0, 1, 1, 1], [1, 1, 0, 0, 1]], dtype=bool), [0, 2, 5]).tolist()
    [[0, -1], [1, 2]]
    """
    layout = check_conditions(conditions, offsets)
    bits = merged(layout.to_bits(np.asarray(conditions, dtype=np.bool_)), layout.masks)
    bits = [condition for condition in bits if not layout.is_empty(condition)]
    n_keys = len(layout.n_levels)
    if not bits:
        return np.zeros((0, n_keys), dtype=np.int32)
    if layout.any in bits:
        return np.full((1, n_keys), ANY, dtype=np.int32)
    splits = _Splits(layout)
    start = frozenset(bits)
    n_pieces = splits.n_pieces(start)
    if n_pieces > MOST_PIECES:
        _refuse(f"fall into {n_pieces:,} disjoint pieces, more than {MOST_PIECES:,}")
    pieces = np.array(list(splits.pieces(start, [ANY] * n_keys)), dtype=np.int32)
    ordered: Int32 = pieces[np.lexsort(pieces.T[::-1])]
    return ordered


def _refuse(what: str) -> NoReturn:
    raise SpecError(
        f"The conditions {what}. Give keys fewer levels, or leave out the rules that join the most "
        "keys."
    )


def covers(conditions: Sequence[int], box: int, layout: Layout) -> bool:
    """Whether every cell of a condition meets one of others, all as integers."""
    # Outside the box everything is made to meet the conditions that touch it; what is left to ask
    # is whether these cover all.
    outside = layout.any & ~box
    touching = [c for c in conditions if not layout.is_empty(c & box)]
    start = frozenset(merged((c | outside for c in touching), layout.masks))
    steps = [Step(layout, key) for key in range(len(layout.n_levels))]
    known: dict[State, bool] = {frozenset(): False}

    def all_covered(state: State) -> bool:
        if layout.any in state:
            return True
        if state not in known:
            weight = [sum(c & mask != mask for c in state) for mask in layout.masks]
            key = max(range(len(weight)), key=weight.__getitem__)
            children = dict(steps[key].kinds(state))
            known[state] = all(child is None or all_covered(child) for child in children)
        return known[state]

    return all_covered(start)


class Step:
    """From a set of conditions that are still alive to those after one more key is known.

    A condition alive is reduced to the keys to come: two that ask the same of them are one, and
    one that asks more than another is dropped.
    """

    def __init__(self, layout: Layout, key: int) -> None:
        self.start = int(layout.offsets[key])
        self.n_levels = layout.n_levels[key]
        # The key now known is any in what remains of a condition.
        self.known = layout.masks[key]
        self.any = layout.any

    def kinds(self, state: State) -> list[tuple[State | None, int]]:
        """Return the set that follows each kind of level, and its levels as bits.

        None where a condition is met.
        """
        groups = [(1 << self.n_levels) - 1]
        for levels in {(condition & self.known) >> self.start for condition in state}:
            parts = [part for group in groups for part in (group & levels, group & ~levels)]
            groups = [part for part in parts if part]
        return [(self._after(state, (group & -group) << self.start), group) for group in groups]

    def children(self, state: State) -> list[State | None]:
        """Return the set that follows each level."""
        found: list[State | None] = [None] * self.n_levels
        for child, group in self.kinds(state):
            while group:
                lowest = group & -group
                found[lowest.bit_length() - 1] = child
                group ^= lowest
        return found

    def _after(self, state: State, level: int) -> State | None:
        left = {condition | self.known for condition in state if condition & level}
        return None if self.any in left else frozenset(simplified(left))


class _Splits:
    """The fewest pieces of every set of conditions met, and by which key it is split."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.steps = [Step(layout, key) for key in range(len(layout.n_levels))]
        self.known: dict[State, tuple[int, int]] = {frozenset(): (0, -1)}

    def n_pieces(self, state: State) -> int:
        """Fewest pieces of a set of conditions."""
        if state in self.known:
            return self.known[state][0]
        if len(self.known) > _MOST_STATES:
            _refuse("overlap in too many ways to be cut into disjoint pieces")
        keys = self.keys(state)
        best: tuple[int, int] | None = None
        for key in keys if len(self.known) < _SEARCHED else keys[:1]:
            total = 0
            for child, times in self.parts(state, key).items():
                total += times * (1 if child is None else self.n_pieces(child))
                if best is not None and total >= best[0]:
                    break
            else:
                best = total, key
        assert best is not None
        self.known[state] = best
        return best[0]

    def parts(self, state: State, key: int) -> dict[State | None, int]:
        """Sets of conditions that follow the levels of a key, and how often each does."""
        found: dict[State | None, int] = {}
        for child, levels in self.steps[key].kinds(state):
            found[child] = found.get(child, 0) + levels.bit_count()
        return found

    def keys(self, state: State) -> list[int]:
        """Keys that a condition restricts, those that most do first."""
        masks = self.layout.masks
        weight = [sum(c & mask != mask for c in state) for mask in masks]
        used = [j for j, n in enumerate(weight) if n]
        return sorted(used, key=lambda j: (-weight[j], self.layout.n_levels[j]))

    def pieces(self, state: State | None, piece: list[int]) -> Iterator[list[int]]:
        """List the pieces of a set of conditions, given the levels of the keys that are known."""
        if state is None:
            yield list(piece)
        elif state:
            key = self.known[state][1]
            for level, child in enumerate(self.steps[key].children(state)):
                piece[key] = level
                yield from self.pieces(child, piece)
            piece[key] = ANY
