"""A new individual under mixed membership: probabilities of cells, and of being possible."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int32, Int64
from unikat.kernels import cells as cell_kernels
from unikat.kernels import zeros as zero_kernels
from unikat.models.device import on_gpu
from unikat.models.groups import Groups
from unikat.models.mixtures import truncation
from unikat.models.mixtures.completions import Completions, possible_products
from unikat.models.records import MixtureData, in_blocks, rows_of, sorted_places

EXACT_KEYS = 11
"""Up to so many keys, probabilities of cells are exact."""
_NODES = 16
_NEGLIGIBLE = 1e-7
_REPEATS = (4, 32)
_SMALL_ALPHA = 0.05
_MIXED = 4096
"""Records drawn for the probability of a possible one."""


_MOST_ARRANGED = 1 << 20
"""Cells of which the best order of the keys is looked for."""
_LAID_OUT = b"laid out"
"""Where the cells of groups that were asked for last are kept: they are those of every state."""


class NewRecord(NamedTuple):
    """What the law of a new individual depends on."""

    theta: Float32
    """(n_rows or more, n_components); rows beyond those of the levels are sets of levels."""
    weights: Float64
    """(n_components,)"""
    alpha: Float64
    """(n_nodes,): values of its concentration..."""
    alpha_weight: Float64
    """(n_nodes,): ...and their probabilities."""
    used: Bool
    """(n_components,): components that hold tokens."""


class Arranged(NamedTuple):
    """Combinations of rows, arranged so that neighbours share work; the same for all states."""

    keys: Int64
    """(n_keys,): order of the keys."""
    places: Int64
    """(n,): where each combination came from."""
    rows: Int32
    """(n, n_keys)"""


def arranged(rows: Int32, offsets: Int64) -> Arranged:
    """Arrange combinations of rows (n, n_keys), -1 leaving a key out.

    Cells that differ in their last key only share all but a dot product. So the last key is the one
    with most levels, or the last column where that gives fewer cells that differ in another:
    the class of a sampling design, with which every cell is asked for in every class.
    """
    order = np.argsort(np.diff(offsets), kind="stable")
    found = _sorted(rows, order)
    last = rows.shape[1] - 1
    if order[-1] != last and _beginnings(rows) < _beginnings(found.rows):
        return _sorted(rows, np.append(order[order != last], last))
    return found


def _sorted(rows: Int32, order: Int64) -> Arranged:
    rows = rows[:, order]
    places = sorted_places(rows)
    return Arranged(order, places, np.ascontiguousarray(rows[places]))


def _beginnings(rows: Int32) -> int:
    """How many rows differ from the one before in another key than the last."""
    return int(np.any(rows[1:, :-1] != rows[:-1, :-1], axis=1).sum())


def row_probabilities(
    key: Any, sweep: int, record: NewRecord, offsets: Int64, rows: Int32
) -> Float64:
    """Probability of each combination of rows (n, n_keys), -1 leaving a key out, (n,).

    Exact for up to 11 keys, beyond that an unbiased estimate. Without truncation.
    """
    if rows.shape[1] > EXACT_KEYS:
        # Estimates have random numbers by their place.
        return arranged_probabilities(key, sweep, record, arranged(rows, offsets))
    # The order of the keys is that of all cells, since rounding depends on it. It is found out only
    # where a copy of them all is small.
    whole = arranged(rows, offsets) if len(rows) <= _MOST_ARRANGED else None
    order = np.argsort(np.diff(offsets), kind="stable") if whole is None else whole.keys

    def probabilities(part: Int32) -> Float64:
        cells = whole if whole is not None and len(part) == len(rows) else _sorted(part, order)
        return arranged_probabilities(key, sweep, record, cells)

    return in_blocks(probabilities, rows)


def arranged_probabilities(key: Any, sweep: int, record: NewRecord, cells: Arranged) -> Float64:
    """Do the same of rows that are arranged, (n,) as they stood before."""
    components = components_that_matter(record)
    theta = np.ascontiguousarray(record.theta[:, components], np.float32)
    alpha, alpha_weight = record.alpha, record.alpha_weight
    weights = record.weights[components]
    rows = cells.rows
    out, result = np.empty(len(rows)), np.empty(len(rows))
    if rows.shape[1] <= EXACT_KEYS:
        partitions = cell_kernels.partition_probabilities
        if on_gpu():
            from unikat.kernels.cuda import cells as cuda_kernels

            if cuda_kernels.can_sum(rows.shape[1], len(weights)):
                partitions = cuda_kernels.partition_probabilities
        partitions(rows, theta, weights, alpha, alpha_weight, out)
    else:
        wide = theta.astype(np.float64)
        cell_kernels.sequential_probabilities(
            key,
            sweep,
            rows,
            wide,
            weights,
            wide @ weights,
            alpha,
            alpha_weight,
            repeats(record),
            out,
        )
    result[cells.places] = out
    return result


def group_probabilities(
    key: Any, sweep: int, record: NewRecord, groups: Groups, cells: Int32
) -> Float64:
    """Do the same of cells of groups of levels (n, n_keys), -1 leaving a key out, (n,)."""
    asked = cells.tobytes()
    kept, laid_out = groups.found.get(_LAID_OUT, (b"", None))
    if kept != asked:
        there = (cells >= 0).any(axis=0)
        # Keys that are left out everywhere would double the work, each of them.
        sizes = np.concatenate(([0], np.cumsum(np.diff(groups.offsets)[there])))
        laid_out = arranged(rows_of(cells, groups.offsets)[:, there], sizes)
        groups.found[_LAID_OUT] = (asked, laid_out)
    if not laid_out.rows.shape[1]:
        return np.ones(len(cells))
    sets = groups.sums(record.theta)
    return arranged_probabilities(key, sweep, record._replace(theta=sets), laid_out)


def repeats(record: NewRecord) -> int:
    """How often the seating of a new record's tokens is drawn, where it is not summed."""
    # A small alpha leaves little to estimate; the nodes of a prior repeat by themselves.
    return _REPEATS[len(record.alpha) == 1 and float(record.alpha[0]) > _SMALL_ALPHA]


def possible_probabilities(
    key: Any, sweep: int, record: NewRecord, data: MixtureData, parts: Completions, n: int
) -> Float64:
    """Probability that a possible individual falls in each of n patterns, (n,).

    parts: products of sets that make up the possible completions of each.
    """
    p = _product_probabilities(key, sweep, record, data, parts)
    total = np.bincount(parts.owner, p, minlength=n)
    return np.minimum(total / possible_mass(key, sweep, record, data), 1.0)


def _product_probabilities(
    key: Any, sweep: int, record: NewRecord, data: MixtureData, parts: Completions
) -> Float64:
    """Probability of each product of sets, (n_products,)."""
    sets = parts.sets.astype(np.float32) @ record.theta
    wide = record._replace(theta=np.vstack((record.theta, sets)))
    return row_probabilities(key, sweep, wide, data.offsets, parts.rows)


def possible_mass(key: Any, sweep: int, record: NewRecord, data: MixtureData) -> float:
    """Probability that a record is possible.

    Exact for up to 11 keys, if few products of sets make up the possible cells. Otherwise exact for
    the records all of whose keys come from one component, and the others are drawn.
    """
    assert data.zeros is not None
    if len(data.offsets) - 1 <= EXACT_KEYS:
        parts = possible_products(data.zeros, data.offsets)
        if parts is not None:
            return max(float(_product_probabilities(key, sweep, record, data, parts).sum()), 1e-300)
    chance = truncation.chances(data.zeros, data, record.theta)[0]
    together = np.zeros(len(record.weights))
    for value, share in zip(record.alpha, record.alpha_weight, strict=True):
        same = record.weights.copy()
        for l in range(1, len(data.offsets) - 1):
            same *= (l + value * record.weights) / (l + value)
        together += share * same
    bounds = np.round(_MIXED * np.cumsum(record.alpha_weight)).astype(np.int64)
    drawn = np.repeat(record.alpha, np.diff(bounds, prepend=0))
    mixed = zero_kernels.mixed_chance(
        key,
        sweep,
        len(drawn),
        data.zeros,
        data.offsets,
        drawn,
        np.cumsum(record.weights),
        record.theta,
    )
    return max(float(together @ chance + mixed), 1e-300)


def components_that_matter(record: NewRecord) -> Int64:
    """Components in falling weight: all that hold tokens, and sticks until the rest is negligible.

    An occupied component may weigh as little as 1/n, so none of them is dropped.
    """
    components = np.argsort(-record.weights, kind="stable")
    keep = record.used[components]
    keep[: 1 + np.searchsorted(np.cumsum(record.weights[components]), 1.0 - _NEGLIGIBLE)] = True
    return components[keep]


@lru_cache(maxsize=8)
def gamma_nodes(shape: float, rate: float) -> tuple[Float64, Float64]:
    """Gauss quadrature of Gamma(shape, rate) in u = alpha / (3 + alpha).

    There the chances of a record's partitions, alpha^m Gamma(alpha) / Gamma(alpha + J), are smooth
    whatever the scale of alpha; in alpha itself they are not where the rate is small. The 3 keeps
    the poles at alpha = -1, ..., 1 - J far from both ends of u.
    """
    # The measure on a fine grid of log alpha, by the trapezium rule.
    reach = 12.0 * np.sqrt(shape) + 40.0
    low = np.log(shape - reach) if shape > 400.0 else -40.0 / shape
    eta = np.linspace(low, np.log(shape + reach), 2001)
    mass = shape * eta - np.exp(eta)
    mass = np.exp(mass - mass.max())
    alpha = np.exp(eta) / rate
    u = alpha / (3.0 + alpha)
    # Its orthonormal polynomials (Stieltjes), whose recurrence has the nodes as eigenvalues.
    diagonal, beside = np.empty(_NODES), np.zeros(_NODES)
    before, now = np.zeros_like(u), np.sqrt(mass / mass.sum())
    basis = [now]
    for p in range(_NODES):
        diagonal[p] = u @ now**2
        after = (u - diagonal[p]) * now - (beside[p - 1] if p else 0.0) * before
        for other in basis:
            after -= (other @ after) * other
        beside[p] = np.sqrt(after @ after)
        before, now = now, after / max(beside[p], 1e-300)
        basis.append(now)
    jacobi = np.diag(diagonal) + np.diag(beside[:-1], 1) + np.diag(beside[:-1], -1)
    nodes, vectors = np.linalg.eigh(jacobi)
    return np.maximum(3.0 * nodes / (1.0 - nodes), 1e-100), vectors[0] ** 2
