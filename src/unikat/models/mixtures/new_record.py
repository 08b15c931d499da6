"""A new individual under mixed membership: probabilities of cells, and of being possible."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int32, Int64
from unikat.kernels import cells as cell_kernels
from unikat.kernels import zeros as zero_kernels
from unikat.models.device import on_gpu
from unikat.models.mixtures import truncation
from unikat.models.mixtures.completions import Completions
from unikat.models.records import MixtureData, in_blocks, sorted_places

EXACT_KEYS = 11
"""Up to so many keys, probabilities of cells are exact."""
_NODES = 16
_NEGLIGIBLE = 1e-7
_REPEATS = (4, 32)
_SMALL_ALPHA = 0.05
_MIXED = 4096
"""Records drawn for the probability of a possible one."""


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


def row_probabilities(
    key: Any, sweep: int, record: NewRecord, offsets: Int64, rows: Int32
) -> Float64:
    """Probability of each combination of rows (n, n_keys), -1 leaving a key out, (n,).

    Exact for up to 11 keys, beyond that an unbiased estimate. Without truncation.
    """
    # The last key costs one dot product a cell, so it is the one with most levels.
    order = np.argsort(np.diff(offsets), kind="stable")
    components = _components_that_matter(record)
    theta = np.ascontiguousarray(record.theta[:, components], np.float32)
    alpha, alpha_weight = record.alpha, record.alpha_weight
    weights = record.weights[components]

    exact = rows.shape[1] <= EXACT_KEYS
    partitions = cell_kernels.partition_probabilities
    if on_gpu():
        from unikat.kernels.cuda import cells as cuda_kernels

        if cuda_kernels.can_sum(rows.shape[1], len(weights)):
            partitions = cuda_kernels.partition_probabilities

    def probabilities(rows: Int32) -> Float64:
        rows = rows[:, order]
        sorting = sorted_places(rows)
        rows = np.ascontiguousarray(rows[sorting])
        out, result = np.empty(len(rows)), np.empty(len(rows))
        if exact:
            partitions(rows, theta, weights, alpha, alpha_weight, out)
        else:
            wide = theta.astype(np.float64)
            # A small alpha leaves little to estimate; the nodes of a prior repeat by themselves.
            spread = len(alpha) == 1 and float(alpha[0]) > _SMALL_ALPHA
            cell_kernels.sequential_probabilities(
                key,
                sweep,
                rows,
                wide,
                weights,
                wide @ weights,
                alpha,
                alpha_weight,
                _REPEATS[spread],
                out,
            )
        result[sorting] = out
        return result

    # Estimates have random numbers by their place.
    return in_blocks(probabilities, rows) if exact else probabilities(rows)


def possible_probabilities(
    key: Any, sweep: int, record: NewRecord, data: MixtureData, parts: Completions, n: int
) -> Float64:
    """Probability that a possible individual falls in each of n patterns, (n,).

    parts: products of sets that make up the possible completions of each.
    """
    sets = parts.sets.astype(np.float32) @ record.theta
    p = row_probabilities(
        key,
        sweep,
        record._replace(theta=np.vstack((record.theta, sets))),
        data.offsets,
        parts.rows,
    )
    total = np.bincount(parts.owner, p, minlength=n)
    return np.minimum(total / possible_mass(key, sweep, record, data), 1.0)


def possible_mass(key: Any, sweep: int, record: NewRecord, data: MixtureData) -> float:
    """Probability that a record is possible.

    Exact for the records all of whose keys come from one component; the others are drawn. The last
    answer is remembered: every state is asked about its cells and about their margins.
    """
    return _possible_mass(_State(key, sweep, record, data))


class _State:
    """What the probability depends on. Arrays of a state never change: the same ones are equal."""

    def __init__(self, key: Any, sweep: int, record: NewRecord, data: MixtureData) -> None:
        self.key, self.sweep, self.record, self.data = key, sweep, record, data

    def __hash__(self) -> int:
        return hash((*self.key.tolist(), self.sweep))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, _State)
            and self.sweep == other.sweep
            and self.data is other.data
            and self.record.theta is other.record.theta
            and self.record.weights is other.record.weights
            and np.array_equal(self.key, other.key)
            and np.array_equal(self.record.alpha, other.record.alpha)
        )


@lru_cache(maxsize=1)
def _possible_mass(state: _State) -> float:
    key, sweep, record, data = state.key, state.sweep, state.record, state.data
    assert data.zeros is not None
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


def _components_that_matter(record: NewRecord) -> Int64:
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
