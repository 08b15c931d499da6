"""Exact probabilities of cells under mixed membership on the GPU.

One warp for each *beginning*: cells that differ in nothing but the last key. The steps are those of
`cells.partition_probabilities`, and so is the order of every sum; there eight beginnings share a
processor's registers, and products are kept from one beginning to the next.
"""

from __future__ import annotations

import math

import numpy as np
from numba import cuda, float32, float64, int64

from unikat.kernels import cells
from unikat.kernels.cuda import launch

_MOST_KEYS = 12
"""Partitions of more keys are not summed on the CPU either."""

_STEPS = 1 << 34
"""Sums of subsets of one launch: a GPU that also draws the screen gives a launch a few seconds."""

dot = launch.for_gpu(cells.dot)


def can_sum(n_keys: int, n_components: int) -> bool:
    """Whether a block has room for the subsets of so many keys."""
    return n_keys <= _MOST_KEYS and launch.fits(_bytes(n_keys, n_components))


def partition_probabilities(
    rows: np.ndarray,
    theta: np.ndarray,
    weights: np.ndarray,
    alpha: np.ndarray,
    alpha_weight: np.ndarray,
    out: np.ndarray,
) -> None:
    """As `cells.partition_probabilities`."""
    n, n_keys = rows.shape
    new = np.any(rows[1:, :-1] != rows[:-1, :-1], axis=1)
    heads = np.concatenate(([0], np.flatnonzero(new) + 1, [n]))
    scale = np.maximum(theta.max(axis=1).astype(np.float64), 1e-300)
    factorial = np.array([math.factorial(s) for s in range(n_keys + 1)], np.float64)
    drawn = cuda.device_array(n, np.float64)
    heads_there = cuda.to_device(heads)
    arguments = (
        cuda.to_device(rows),
        cuda.to_device(theta),
        cuda.to_device((theta / scale[:, None]).astype(np.float32)),
        cuda.to_device(scale),
        cuda.to_device(weights.astype(np.float32)),
        cuda.to_device(alpha),
        cuda.to_device(alpha_weight),
        cuda.to_device(factorial),
        drawn,
    )
    n_heads = len(heads) - 1 if n else 0
    at_a_time = max(_STEPS // (len(alpha) * 3 ** (n_keys - 1)), 1)
    for first in range(0, n_heads, at_a_time):
        some = heads_there[first : first + at_a_time + 1]
        launch.launch(
            partition_kernel, len(some) - 1, _bytes(n_keys, len(weights)), some, *arguments
        )
    drawn.copy_to_host(out)


def _bytes(n_keys: int, n_components: int) -> int:
    """Blocks, partitions and their rests of every subset, and masses of every component."""
    return 8 * (3 * _n_subsets(n_keys) + n_components)


def _n_subsets(n_keys: int) -> int:
    """Of all keys but the last, a whole number of times the subsets of four."""
    return 1 << max(n_keys - 1, 4)


@cuda.jit(device=True)
def term(subset, k, known, token_row, scaled, weights):
    """Weight of component k times the probabilities of a subset of the tokens, all float32."""
    value = weights[k]
    for t in range(known):
        if subset >> t & 1:
            value *= scaled[token_row[t], k]
    return value


@cuda.jit
def partition_kernel(
    heads, rows, theta, scaled, scale, weights, alpha, alpha_weight, factorial, out
):  # fmt: skip
    """Sum the partitions of every beginning, lanes over subsets; then its cells, lanes over them.

    heads (n_beginnings + 1,): first cell of each; weights (n_components,) float32.
    """
    n_keys = rows.shape[1]
    n_components = weights.shape[0]
    n_subsets = 1 << max(n_keys - 1, 4)
    lane, n_lanes = cuda.threadIdx.x, cuda.blockDim.x
    room = cuda.shared.array(0, float64)
    block = room[:n_subsets]
    partial = room[n_subsets : 2 * n_subsets]
    rest = room[2 * n_subsets : 3 * n_subsets]
    mass = room[3 * n_subsets : 3 * n_subsets + n_components]
    token_row = cuda.local.array(_MOST_KEYS, int64)
    low = cuda.local.array(16, float32)
    for w in range(cuda.blockIdx.x, heads.shape[0] - 1, cuda.gridDim.x):
        head = heads[w]
        known = 0
        size_of = 1.0
        for d in range(n_keys - 1):
            if rows[head, d] >= 0:
                token_row[known] = rows[head, d]
                size_of *= scale[rows[head, d]]
                known += 1
        full = (1 << known) - 1
        for s in range(lane, n_subsets, n_lanes):
            rest[s] = 0.0
            if s == 0 or s > full:
                continue
            # Four components at a time, as on the CPU.
            joint = float32(0.0)
            for k in range(0, n_components - 3, 4):
                joint += (
                    term(s, k, known, token_row, scaled, weights)
                    + term(s, k + 1, known, token_row, scaled, weights)
                ) + (
                    term(s, k + 2, known, token_row, scaled, weights)
                    + term(s, k + 3, known, token_row, scaled, weights)
                )
            for k in range(n_components // 4 * 4, n_components):
                joint += term(s, k, known, token_row, scaled, weights)
            block[s] = float(joint) * factorial[cuda.popc(s) - 1]
        whole = 0.0
        for p in range(alpha.shape[0]):
            if lane == 0:
                partial[0] = 1.0
            cuda.syncthreads()
            for t in range(known):
                bit = 1 << t
                for s in range(lane, bit, n_lanes):
                    total = block[bit + s]
                    b = s
                    while b > 0:
                        b = (b - 1) & s
                        total += block[bit + b] * partial[s - b]
                    partial[bit + s] = total * alpha[p]
                cuda.syncthreads()
            share = alpha_weight[p]
            for l in range(known):
                share /= alpha[p] + l
            whole += share * partial[full]
            # One token more. Its block carries an alpha, which takes that of l = 0 away.
            share = alpha_weight[p]
            for l in range(1, known + 1):
                share /= alpha[p] + l
            for s in range(lane, full + 1, n_lanes):
                rest[s] += share * partial[full - s] * factorial[cuda.popc(s)]
            cuda.syncthreads()
        # mass[k] = g_k sum_s rest[s] prod_{j in s} theta[r_j, k], a subset being one of the first
        # four tokens and one of the others.
        width = 1 << min(known, 4)
        for k in range(lane, n_components, n_lanes):
            low[0] = 1.0
            for t in range(min(known, 4)):
                bit = 1 << t
                for s in range(bit):
                    low[bit + s] = low[s] * scaled[token_row[t], k]
            sum_ = 0.0
            for h in range(1 << max(known - 4, 0)):
                inner = float32(0.0)
                for s in range(0, width - 3, 4):
                    at = 16 * h + s
                    inner += (low[s] * float32(rest[at]) + low[s + 1] * float32(rest[at + 1])) + (
                        low[s + 2] * float32(rest[at + 2]) + low[s + 3] * float32(rest[at + 3])
                    )
                for s in range(width // 4 * 4, width):
                    inner += low[s] * float32(rest[16 * h + s])
                sum_ += float(term(h << 4, k, known, token_row, scaled, weights) * inner)
            mass[k] = sum_
        cuda.syncthreads()
        for i in range(head + lane, heads[w + 1], n_lanes):
            r = rows[i, n_keys - 1]
            if r < 0:
                out[i] = size_of * whole
            else:
                out[i] = size_of * dot(theta[r], mass)
        cuda.syncthreads()
