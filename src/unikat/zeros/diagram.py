"""Conditions into the decision diagram of the possible cells."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from unikat._typing import AnyArray, Bool, Int32, Int64
from unikat.data.keys import MISSING
from unikat.errors import SpecError
from unikat.kernels.zeros import Diagram
from unikat.zeros.conditions import Layout, check_conditions, merged

MOST_NODES = 200_000
"""Most nodes of a diagram, and most sets of conditions met on the way to it."""
_CHUNK = 1 << 22
"""Most truth values of one step of `possible`."""
_FEW_CONDITIONS = 300
"""Up to so many conditions, one that lies within another is noticed at every layer."""
_FEW_KEYS = 24
"""Up to so many keys, the order is found by trying each key at each layer."""


class NothingPossibleError(SpecError):
    """The conditions cover every cell."""


def build(conditions: Bool, offsets: Int64 | Sequence[int]) -> Diagram:
    """Build the diagram of the cells that meet none of the conditions.

    The keys are put in an order that keeps it small; keys that no condition restricts come last.

    Parameters
    ----------
    conditions
        (n_conditions, n_rows): whether a level is in the set of a condition.
    offsets
        (n_keys + 1,): first row of each key, and n_rows.

    Raises
    ------
    NothingPossibleError
        If no cell is left.
    SpecError
        If the diagram would have more than 200,000 nodes.

    Examples
    --------
    A key of two levels and one of three; level 0 of the first excludes level 2 of the second:

    >>> diagram = build(np.array([[True, False, False, False, True]]), [0, 2, 5])
    >>> n_possible(diagram, (2, 3)), len(diagram.child)
    (5, 3)
    """
    layout = check_conditions(conditions, offsets)
    bits = merged(layout.to_bits(np.asarray(conditions, dtype=np.bool_)), layout.masks)
    bits = [condition for condition in bits if not layout.is_empty(condition)]
    if layout.any in bits:
        _refuse_nothing_possible()
    found: tuple[tuple[int, int], Diagram] | None = None
    for order in _orders(bits, layout):
        layers = _layers(bits, layout, order)
        if layers is None:
            continue
        diagram = _reduced(layers, order, layout)
        size = n_edges(diagram), len(diagram.child)
        if found is None or size < found[0]:
            found = size, diagram
    if found is None:
        raise SpecError(
            f"The structural zeros need a diagram of more than {MOST_NODES:,} nodes. Leave out the "
            "rules that join the most keys, or give keys fewer levels."
        )
    return found[1]


def n_edges(diagram: Diagram) -> int:
    """Return the number of edges that lead on."""
    return int(np.count_nonzero(diagram.child >= 0))


def n_possible(diagram: Diagram, n_levels: Sequence[int]) -> int:
    """Return the number of possible cells, exactly.

    Parameters
    ----------
    diagram
        The possible cells.
    n_levels
        Levels of each key; unused beyond a check, since the diagram holds them.
    """
    assert len(n_levels) == len(diagram.order)
    counts = [0] * len(diagram.child) + [1]
    for node in range(len(diagram.child) - 1, -1, -1):
        counts[node] = sum(counts[child] for child in diagram.child[node].tolist() if child >= 0)
    return counts[0]


def possible(diagram: Diagram, cells: AnyArray) -> Bool:
    """Tell which patterns are possible, (n,): those of which a completion is.

    Parameters
    ----------
    diagram
        The possible cells.
    cells
        (n, n_keys) codes, -1 where missing.
    """
    cells = np.asarray(cells)
    result = np.zeros(len(cells), dtype=np.bool_)
    incomplete = (cells == MISSING).any(axis=1)
    complete = np.flatnonzero(~incomplete)
    result[complete] = _possible_cells(diagram, cells[complete])
    if incomplete.any():
        patterns, where = np.unique(cells[incomplete], axis=0, return_inverse=True)
        widest = int(np.diff(diagram.first).max())
        step = max(1, _CHUNK // widest)
        found = [
            _possible_patterns(diagram, patterns[start : start + step])
            for start in range(0, len(patterns), step)
        ]
        result[incomplete] = np.concatenate(found)[where.ravel()]
    return result


def _possible_cells(diagram: Diagram, cells: AnyArray) -> Bool:
    node = np.zeros(len(cells), dtype=np.int64)
    # A last row of -1, where one stays who has once been sent to -1.
    child = np.vstack([diagram.child, np.full_like(diagram.child[:1], -1)])
    for key in diagram.order:
        node = np.where(node < 0, -1, child[node, cells[:, key]])
    alive: Bool = node >= 0
    return alive


def _possible_patterns(diagram: Diagram, patterns: AnyArray) -> Bool:
    # From the last layer to the first: which nodes of a layer reach the end of a pattern. The
    # column behind the last node stands for -1, and is False.
    reached = np.zeros((len(patterns), 2), dtype=np.bool_)
    reached[:, 0] = True
    for depth in range(len(diagram.order) - 1, -1, -1):
        first, after = int(diagram.first[depth]), int(diagram.first[depth + 1])
        child = diagram.child[first:after]
        target = np.where(child < 0, reached.shape[1] - 1, child - after)
        codes = patterns[:, diagram.order[depth]]
        before = np.zeros((len(patterns), after - first + 1), dtype=np.bool_)
        for level in range(target.shape[1]):
            rows = np.flatnonzero((codes == level) | (codes == MISSING))
            if len(rows):
                before[rows, :-1] |= reached[np.ix_(rows, target[:, level])]
        reached = before
    alive: Bool = reached[:, 0]
    return alive


def _refuse_nothing_possible() -> None:
    raise NothingPossibleError(
        "The structural zeros leave no combination possible. Check the rules: one of them, or "
        "several together, forbid everything."
    )


def _orders(conditions: Sequence[int], layout: Layout) -> list[list[int]]:
    """Orders of the keys worth a try."""
    n_keys = len(layout.n_levels)
    weight = [sum(c & mask != mask for c in conditions) for mask in layout.masks]
    used = [j for j in range(n_keys) if weight[j]]
    free = [j for j in range(n_keys) if not weight[j]]
    often = sorted(used, key=lambda j: -weight[j])
    orders = [often, used, often[::-1]]
    if 2 < len(used) <= _FEW_KEYS and len(conditions) <= _FEW_CONDITIONS:
        # The best first key is not known, so each is tried.
        orders += [_greedy(conditions, layout, used, first) for first in used]
    distinct = dict.fromkeys(tuple(order) for order in orders)
    return [[*order, *free] for order in distinct]


def _greedy(conditions: Sequence[int], layout: Layout, used: list[int], first: int) -> list[int]:
    """Put next, again and again, the key after which there are fewest different endings."""
    order, left = [first], [j for j in used if j != first]
    states = Step(conditions, layout, first, left).advance({frozenset(conditions)})
    while left:
        best: tuple[tuple[int, int], int, set[frozenset[int]]] | None = None
        for j in left:
            rest = [k for k in left if k != j]
            after = Step(conditions, layout, j, rest).advance(states)
            size = len(after), -layout.n_levels[j]
            if best is None or size < best[0]:
                best = size, j, after
        assert best is not None
        order.append(best[1])
        left.remove(best[1])
        states = best[2]
        if len(states) > MOST_NODES // 100:
            return order + left
    return order


class Step:
    """From a set of conditions that are still alive to those after one more key is known.

    A condition alive is reduced to the keys to come: two that ask the same of them are one, and
    one that asks more than another is dropped.
    """

    def __init__(
        self, conditions: Sequence[int], layout: Layout, key: int, rest: Sequence[int]
    ) -> None:
        self.start = int(layout.offsets[key])
        self.n_levels = layout.n_levels[key]
        # The key now known is any in what remains of a condition.
        self.known = layout.masks[key]
        self.done = layout.any
        self.few = len(conditions) <= _FEW_CONDITIONS

    def advance(self, states: set[frozenset[int]]) -> set[frozenset[int]]:
        """Return the sets that follow, without the impossible one."""
        found: set[frozenset[int]] = set()
        for state in states:
            found.update(after for after in self.children(state) if after is not None)
        return found

    def children(self, state: frozenset[int]) -> list[frozenset[int] | None]:
        """Return the set that follows each level; None where a condition is met."""
        # Levels that the same conditions allow lead to the same set.
        known: dict[int, frozenset[int] | None] = {}
        children: list[frozenset[int] | None] = []
        conditions = list(state)
        columns = [0] * self.n_levels
        for i, condition in enumerate(conditions):
            levels = (condition & self.known) >> self.start
            while levels:
                lowest = levels & -levels
                columns[lowest.bit_length() - 1] |= 1 << i
                levels ^= lowest
        for column in columns:
            if column not in known:
                known[column] = self._after(conditions, column)
            children.append(known[column])
        return children

    def _after(self, conditions: Sequence[int], column: int) -> frozenset[int] | None:
        left = {c | self.known for i, c in enumerate(conditions) if column >> i & 1}
        if self.done in left:
            return None
        if self.few and len(left) > 1:
            kept: list[int] = []
            for condition in sorted(left, key=int.bit_count, reverse=True):
                if not any(condition | other == other for other in kept):
                    kept.append(condition)
            return frozenset(kept)
        return frozenset(left)


_Layer = list[list[int]]
"""For each node of a layer the place of its child in the next layer, or -1, by level."""


def _layers(conditions: Sequence[int], layout: Layout, order: Sequence[int]) -> list[_Layer] | None:
    """Layers from the first to the last, equal endings not yet merged; None if too many nodes."""
    states = [frozenset(conditions)]
    layers: list[_Layer] = []
    n_nodes = 1
    for depth, key in enumerate(order):
        step = Step(conditions, layout, key, order[depth + 1 :])
        place: dict[frozenset[int], int] = {}
        layer: _Layer = []
        for state in states:
            children = step.children(state)
            layer.append([-1 if c is None else place.setdefault(c, len(place)) for c in children])
            if n_nodes + len(place) > MOST_NODES:
                return None
        layers.append(layer)
        states = list(place)
        n_nodes += len(states)
    return layers


def _reduced(layers: list[_Layer], order: Sequence[int], layout: Layout) -> Diagram:
    """Merge nodes with equal children from the last layer up, and drop those without an end."""
    merged_layers: list[list[tuple[int, ...]]] = []
    place = [0]
    for layer in reversed(layers):
        known: dict[tuple[int, ...], int] = {}
        above = []
        for node in layer:
            children = tuple(-1 if c < 0 else place[c] for c in node)
            dead = all(c < 0 for c in children)
            above.append(-1 if dead else known.setdefault(children, len(known)))
        merged_layers.append(list(known))
        place = above
    merged_layers.reverse()
    if not merged_layers[0]:
        _refuse_nothing_possible()
    # A node whose parents are gone is not reached any more: none, since a parent goes only if
    # all its children do, and merged nodes have the same children.
    sizes = [len(layer) for layer in merged_layers]
    first = np.concatenate([[0], np.cumsum([*sizes, 1])]).astype(np.int64)
    child: Int32 = np.full((int(first[-2]), max(layout.n_levels)), -1, dtype=np.int32)
    for depth, nodes in enumerate(merged_layers):
        block = np.array(nodes, dtype=np.int32).reshape(len(nodes), -1)
        shifted = np.where(block < 0, -1, block + first[depth + 1])
        child[first[depth] : first[depth + 1], : block.shape[1]] = shifted
    return Diagram(order=np.array(order, dtype=np.int64), first=first, child=child)
