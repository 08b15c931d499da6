"""Conditions into the decision diagram of the possible cells."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from unikat._typing import AnyArray, Bool, Int32, Int64
from unikat.data.keys import MISSING
from unikat.data.patterns import distinct
from unikat.errors import SpecError
from unikat.kernels.zeros import Diagram
from unikat.zeros.conditions import Layout, check_conditions, merged

MOST_NODES = 200_000
"""Most nodes of a diagram, and most sets of conditions met on the way to it."""
_CHUNK = 1 << 22
"""Most truth values of one step of `possible`."""
_COMPARED = 512
"""Up to so many conditions, one that lies within another is noticed at every layer."""
_MOST_WORK = 500_000
"""Steps after which no further order of the keys is tried."""


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
    alive, most = _Alive(bits, layout), MOST_NODES
    for order in _orders(bits, layout, alive):
        layers = _layers(alive, order, most)
        if layers is None:
            continue
        # An order that is much worse before equal nodes are merged is given up.
        most = min(most, 2 * sum(map(len, layers)) + len(order))
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
        n_levels = [diagram.child.shape[1]] * cells.shape[1]
        first, where, _ = distinct(cells[incomplete], n_levels)
        patterns = cells[incomplete][first]
        widest = int(np.diff(diagram.first).max())
        step = max(1, _CHUNK // widest)
        found = [
            _possible_patterns(diagram, patterns[start : start + step])
            for start in range(0, len(patterns), step)
        ]
        result[incomplete] = np.concatenate(found)[where]
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


class _Alive:
    """Which conditions a cell may still meet, from key to key; sets of conditions are integers.

    A condition alive counts by what it asks of the keys to come: one that asks the same as
    another, or more, is dropped, so that equal endings are met as equal sets.
    """

    def __init__(self, conditions: Sequence[int], layout: Layout) -> None:
        self.layout = layout
        self.rows = layout.to_array(conditions)
        self.all = (1 << len(conditions)) - 1
        self.work = 0
        """Steps done, by which the search for an order is bounded."""
        columns = Layout(n_levels=(len(conditions),)).to_bits(self.rows.T)
        starts = layout.offsets.tolist()
        self.allowed = [columns[a:b] for a, b in pairwise(starts)]
        self.distinct = [tuple(dict.fromkeys(allowed)) for allowed in self.allowed]
        self.stages: dict[frozenset[int], tuple[int, int, dict[int, int]]] = {}

    def stage(self, known: frozenset[int]) -> tuple[int, int, dict[int, int]]:
        """Tell what becomes of the conditions when some keys are known.

        Returns those of which nothing is left to ask, those that make others needless, and which.
        """
        if known not in self.stages:
            rows = self.rows.copy()
            for j in known:
                rows[:, self.layout.offsets[j] : self.layout.offsets[j + 1]] = True
            done = _as_bits(np.asarray(rows.all(axis=1)))
            needless = _within(rows) if len(rows) <= _COMPARED else _repeated(rows)
            self.stages[known] = done, sum(1 << i for i in needless), needless
            self.work += len(rows)
        return self.stages[known]

    def after(self, state: int, key: int, known: frozenset[int]) -> dict[int, int | None]:
        """Return the set that follows each kind of level; None where a condition is met."""
        done, strong, needless = self.stage(known)
        found: dict[int, int | None] = {}
        self.work += len(self.distinct[key])
        for allowed in self.distinct[key]:
            left = state & allowed
            if left & done:
                found[allowed] = None
                continue
            candidates = left & strong
            while candidates:
                lowest = candidates & -candidates
                dropped = ~needless[lowest.bit_length() - 1]
                left &= dropped
                candidates &= dropped & ~lowest
            found[allowed] = left
        return found


def _as_bits(flags: Bool) -> int:
    return int.from_bytes(np.packbits(flags, bitorder="little").tobytes(), "little")


def _within(rows: Bool) -> dict[int, int]:
    """Conditions that others lie within, and which; of equal ones the first counts."""
    ones = rows.astype(np.float32)
    inside = ones @ (1 - ones).T == 0
    equal = inside & inside.T
    # Row i, column j: condition i lies within j, and goes.
    goes = inside & ~(equal & np.triu(np.ones_like(inside)))
    return {int(j): _as_bits(goes[:, j]) for j in np.flatnonzero(goes.any(axis=0))}


def _repeated(rows: Bool) -> dict[int, int]:
    """Conditions that are repeated later, and where."""
    first: dict[bytes, int] = {}
    found: dict[int, int] = {}
    for i, row in enumerate(np.packbits(rows, axis=1)):
        kept = first.setdefault(row.tobytes(), i)
        if kept != i:
            found[kept] = found.get(kept, 0) | 1 << i
    return found


def _orders(conditions: Sequence[int], layout: Layout, alive: _Alive) -> Iterator[list[int]]:
    """Orders of the keys worth a try."""
    n_keys = len(layout.n_levels)
    weight = [sum(c & mask != mask for c in conditions) for mask in layout.masks]
    used = [j for j in range(n_keys) if weight[j]]
    free = [j for j in range(n_keys) if not weight[j]]
    often = sorted(used, key=lambda j: -weight[j])
    tried: set[tuple[int, ...]] = set()
    for order in (often, used, often[::-1]):
        if tuple(order) not in tried:
            tried.add(tuple(order))
            yield [*order, *free]
    if len(used) < 3:
        return
    # The best first key is not known, so each is tried, as long as the work stays bounded.
    for first in often:
        if alive.work > _MOST_WORK:
            return
        order = _greedy(alive, used, first)
        if tuple(order) not in tried:
            tried.add(tuple(order))
            yield [*order, *free]


def _greedy(alive: _Alive, used: list[int], first: int) -> list[int]:
    """Put next, again and again, the key after which there are fewest different endings."""
    order, left = [first], [j for j in used if j != first]
    states = _next_states(alive, {alive.all}, first, frozenset([first]))
    while left:
        best: tuple[tuple[int, int], int, set[int]] | None = None
        for j in left:
            after = _next_states(alive, states, j, frozenset([*order, j]))
            size = len(after), -alive.layout.n_levels[j]
            if best is None or size < best[0]:
                best = size, j, after
        assert best is not None
        order.append(best[1])
        left.remove(best[1])
        states = best[2]
        if alive.work > _MOST_WORK:
            return order + left
    return order


def _next_states(alive: _Alive, states: set[int], key: int, known: frozenset[int]) -> set[int]:
    found: set[int | None] = set()
    for state in states:
        if alive.work > _MOST_WORK:
            break
        found.update(alive.after(state, key, known).values())
    return {state for state in found if state is not None}


_Layer = list[list[int]]
"""For each node of a layer the place of its child in the next layer, or -1, by level."""


def _layers(alive: _Alive, order: Sequence[int], most: int) -> list[_Layer] | None:
    """Layers from the first to the last, equal endings not yet merged; None if too many nodes."""
    states = [alive.all]
    layers: list[_Layer] = []
    n_nodes = 1
    for depth, key in enumerate(order):
        known = frozenset(order[: depth + 1])
        place: dict[int, int] = {}
        layer: _Layer = []
        for state in states:
            after = alive.after(state, key, known)
            places = {
                allowed: -1 if child is None else place.setdefault(child, len(place))
                for allowed, child in after.items()
            }
            layer.append([places[allowed] for allowed in alive.allowed[key]])
            if n_nodes + len(place) > most:
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
