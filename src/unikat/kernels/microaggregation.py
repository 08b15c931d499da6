"""Groups of near points: MDAV over a tree of boxes, and the best groups of numbers on a line.

Symbols: n points of n_columns numbers, groups of at least k. The tree halves the points along the
widest side of their box; node i has the children 2 i + 1 and 2 i + 2, and the last nodes are
leaves. Boxes hold the points that are left, so they shrink as points are taken.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from unikat.kernels.jit import device, kernel

LEAF = 16
"""Points of a leaf, about."""
_SLACK = 1.0 + 1e-12
"""A bound by the triangle inequality is larger by it than what rounding can lose."""


class Tree(NamedTuple):
    """The points that are left, by boxes."""

    order: np.ndarray
    """(n,): the points leaf by leaf; in each leaf those that are left come first."""
    points: np.ndarray
    """(n, n_columns): their numbers, in this order."""
    start: np.ndarray
    """(n_nodes,): where the points of a node begin in `order`."""
    left: np.ndarray
    """(n_nodes,): points of a node that are left."""
    low: np.ndarray
    """(n_nodes, n_columns), as `high`: the box of these."""
    high: np.ndarray
    leaf: np.ndarray
    """(n,): leaf of each point."""


@device
def _fit_leaf(tree, node):
    """Find the box of the points that are left in a leaf."""
    tree.low[node], tree.high[node] = np.inf, -np.inf
    for place in range(tree.start[node], tree.start[node] + tree.left[node]):
        for j in range(tree.points.shape[1]):
            value = tree.points[place, j]
            tree.low[node, j] = min(tree.low[node, j], value)
            tree.high[node, j] = max(tree.high[node, j], value)


@device
def _fit_parent(tree, node):
    """Find the box of a node from those of its children, which are empty where nothing is left."""
    one, two = 2 * node + 1, 2 * node + 2
    for j in range(tree.points.shape[1]):
        tree.low[node, j] = min(tree.low[one, j], tree.low[two, j])
        tree.high[node, j] = max(tree.high[one, j], tree.high[two, j])


@device
def _tree_of(points):
    n, n_columns = points.shape
    n_leaves = 1
    while n_leaves * LEAF < n:
        n_leaves *= 2
    n_nodes = 2 * n_leaves - 1
    tree = Tree(
        np.arange(n),
        np.empty((n, n_columns)),
        np.zeros(n_nodes, np.int64),
        np.zeros(n_nodes, np.int64),
        np.empty((n_nodes, n_columns)),
        np.empty((n_nodes, n_columns)),
        np.empty(n, np.int64),
    )
    tree.left[0] = n
    for node in range(n_nodes):
        first, size = tree.start[node], tree.left[node]
        inside = tree.order[first : first + size]
        if node >= n_leaves - 1:
            tree.leaf[inside] = node
            tree.points[first : first + size] = points[inside]
            _fit_leaf(tree, node)
            continue
        widest, side = 0, -1.0
        for j in range(n_columns):
            low, high = np.inf, -np.inf
            for i in inside:
                low, high = min(low, points[i, j]), max(high, points[i, j])
            if high - low > side:
                widest, side = j, high - low
        inside[:] = inside[np.argsort(points[inside, widest], kind="mergesort")]
        tree.start[2 * node + 1], tree.left[2 * node + 1] = first, size // 2
        tree.start[2 * node + 2], tree.left[2 * node + 2] = first + size // 2, size - size // 2
    for node in range(n_leaves - 2, -1, -1):
        _fit_parent(tree, node)
    return tree


@device
def _take(tree, i):
    """Take a point out of the tree."""
    node = tree.leaf[i]
    last = tree.start[node] + tree.left[node] - 1
    place = tree.start[node]
    while tree.order[place] != i:
        place += 1
    tree.order[place], tree.order[last] = tree.order[last], i
    tree.points[place] = tree.points[last]
    tree.left[node] -= 1
    _fit_leaf(tree, node)
    while node:
        node = (node - 1) // 2
        tree.left[node] -= 1
        _fit_parent(tree, node)


@device
def _distance(one, two):
    """Squared distance of two points."""
    total = 0.0
    for j in range(len(one)):
        total += (one[j] - two[j]) ** 2
    return total


@device
def _most(tree, node, point):
    """Bound the squared distance of a point from those of a box from above."""
    total = 0.0
    for j in range(len(point)):
        total += max((point[j] - tree.low[node, j]) ** 2, (tree.high[node, j] - point[j]) ** 2)
    return total


@device
def _least(tree, node, point):
    """Bound it from below."""
    total = 0.0
    for j in range(len(point)):
        total += max(tree.low[node, j] - point[j], point[j] - tree.high[node, j], 0.0) ** 2
    return total


@device
def _farthest(tree, point, stack):
    """Find the point that is left and farthest from a point; of several the first."""
    found, most = -1, -1.0
    depth, stack[0] = 1, 0
    while depth:
        depth -= 1
        node = stack[depth]
        if not tree.left[node] or _most(tree, node, point) < most:
            continue
        if 2 * node + 1 < len(tree.left):
            one, two = 2 * node + 1, 2 * node + 2
            if _most(tree, one, point) > _most(tree, two, point):
                one, two = two, one
            stack[depth], stack[depth + 1] = one, two
            depth += 2
            continue
        for place in range(tree.start[node], tree.start[node] + tree.left[node]):
            i = tree.order[place]
            distance = _distance(tree.points[place], point)
            if distance > most or (distance == most and i < found):
                found, most = i, distance
    return found


@device
def _nearest(tree, point, near, distances, stack):
    """Find the points that are left and nearest to a point, into `near`; of several the first."""
    wanted, n = len(near), 0
    depth, stack[0] = 1, 0
    while depth:
        depth -= 1
        node = stack[depth]
        if not tree.left[node] or (
            n == wanted and _least(tree, node, point) > distances[wanted - 1]
        ):
            continue
        if 2 * node + 1 < len(tree.left):
            one, two = 2 * node + 1, 2 * node + 2
            if _least(tree, one, point) < _least(tree, two, point):
                one, two = two, one
            stack[depth], stack[depth + 1] = one, two
            depth += 2
            continue
        for place in range(tree.start[node], tree.start[node] + tree.left[node]):
            i = tree.order[place]
            distance = _distance(tree.points[place], point)
            at = min(n, wanted - 1)
            if n == wanted and (
                distance > distances[at] or (distance == distances[at] and i > near[at])
            ):
                continue
            while at and (
                distance < distances[at - 1] or (distance == distances[at - 1] and i < near[at - 1])
            ):
                near[at], distances[at] = near[at - 1], distances[at - 1]
                at -= 1
            near[at], distances[at] = i, distance
            n = min(n + 1, wanted)


@device
def _sorted_from(points, group, centre):
    """Points without a group by falling distance from a centre, and these distances."""
    free = np.flatnonzero(group < 0)
    distance = np.empty(len(free))
    for a in range(len(free)):
        distance[a] = np.sqrt(_distance(points[free[a]], centre))
    order = np.argsort(-distance, kind="mergesort")
    return free[order], distance[order]


@kernel
def mdav(points, k):
    """Group points by MDAV: maximum distance to the average vector.

    Domingo-Ferrer and Torra 2005, *Ordinal, continuous and heterogeneous k-anonymity through
    microaggregation*, Data Mining and Knowledge Discovery 11, 195-212: while 3 k points are left,
    the one farthest from their mean and its k - 1 nearest are a group, and the one that is then
    farthest from it and its k - 1 nearest are another. Of 2 k points and more one group is made
    around the farthest, and the others are the last. Where distances are equal the first counts.

    points (n, n_columns) with n >= k; returns the group of each, (n,), from 0. The farthest point
    is looked for from the outside in: the points are sorted by their distance from an earlier mean,
    and the mean has moved by so much that those further in cannot be it.
    """
    n, n_columns = points.shape
    group = np.full(n, -1, np.int64)
    tree = _tree_of(points)
    stack = np.empty(128, np.int64)
    near, distances = np.empty(k - 1, np.int64), np.empty(k - 1)
    total = np.zeros(n_columns)
    for i in range(n):
        for j in range(n_columns):
            total[j] += points[i, j]
    left, n_groups = n, 0
    reference = total / n
    outer, reach = _sorted_from(points, group, reference)
    begin, looked_at = 0, 0
    while left >= 2 * k:
        centre = total / left
        if looked_at > 8 * left:
            reference = centre
            outer, reach = _sorted_from(points, group, reference)
            begin, looked_at = 0, 0
        moved = np.sqrt(_distance(centre, reference))
        while group[outer[begin]] >= 0:
            begin += 1
        chosen, most = -1, -1.0
        for place in range(begin, len(outer)):
            looked_at += 1
            if ((reach[place] + moved) * _SLACK) ** 2 < most:
                break
            i = outer[place]
            if group[i] < 0:
                distance = _distance(points[i], centre)
                if distance > most or (distance == most and i < chosen):
                    chosen, most = i, distance
        for side in range(2 if left >= 3 * k else 1):
            if side:
                chosen = _farthest(tree, points[chosen], stack)
            _take(tree, chosen)
            _nearest(tree, points[chosen], near, distances, stack)
            group[chosen] = n_groups
            total -= points[chosen]
            for i in near:
                _take(tree, i)
                group[i] = n_groups
                total -= points[i]
            n_groups += 1
            left -= k
    group[group < 0] = n_groups
    return group


@kernel
def best_on_line(values, k):
    """Group sorted numbers so that the sum of squares within groups of k and more is smallest.

    Hansen and Mukherjee 2003, *A polynomial algorithm for optimal univariate microaggregation*,
    IEEE Transactions on Knowledge and Data Engineering 15, 1043-1044: groups of k to 2 k - 1
    neighbours, the best of the first j numbers from those of fewer.

    values (n,) in rising order, n >= k; returns the group of each, (n,), from 0.
    """
    n = len(values)
    least, size_of = np.full(n + 1, np.inf), np.zeros(n + 1, np.int64)
    least[0] = 0.0
    for j in range(k, n + 1):
        mean = within = 0.0
        for size in range(1, min(2 * k - 1, j) + 1):
            # Welford's update, of numbers near each other, loses no digits.
            step = values[j - size] - mean
            mean += step / size
            within += step * (values[j - size] - mean)
            if size >= k and least[j - size] + within < least[j]:
                least[j], size_of[j] = least[j - size] + within, size
    group = np.empty(n, np.int64)
    j, number = n, 0
    while j:
        group[j - size_of[j] : j] = number
        j -= size_of[j]
        number += 1
    return number - 1 - group


@kernel
def swap_partners(uniform, width):
    """Choose for each rank another one within `width` to swap with (Moore 1996).

    uniform (n,): random numbers from 0 to 1, one for each rank. From the lowest rank on a rank
    without a partner takes one of those without a partner among the next `width`, the first from a
    random place on. Returns the partner of each rank, (n,), itself where none was left.
    """
    n = len(uniform)
    partner = np.arange(n)
    for i in range(n):
        size = min(width, n - 1 - i)
        if partner[i] != i or not size:
            continue
        first = int(uniform[i] * size)
        for step in range(size):
            other = i + 1 + (first + step) % size
            if partner[other] == other:
                partner[i], partner[other] = other, i
                break
    return partner
