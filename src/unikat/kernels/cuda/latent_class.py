"""The latent class kernels on the GPU: one warp for each cell, its lanes over the components."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import cuda, float64, int32, uint32

from unikat.kernels import latent_class
from unikat.kernels.cuda import launch
from unikat.kernels.cuda.random import binomial, seek, uniform
from unikat.kernels.latent_class import Walk
from unikat.kernels.random import GENERATOR_SIZE, PURPOSE_ALLOCATE

pick = launch.for_gpu(latent_class.pick)
deal = launch.for_gpu(latent_class.deal, binomial=binomial)


def can_allocate(n_components: int) -> bool:
    """Whether the shared memory of a block holds so many components."""
    return launch.fits(_allocate_bytes(n_components))


def allocate(
    key: Any, sweep: int, walk: Walk, theta: np.ndarray, weights: np.ndarray, z: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """As `latent_class.allocate` on all cells of the walk; return counts and sizes, int64.

    z (n_records, 1) int16 is written; walk: stays on the GPU.
    """
    counts = cuda.to_device(np.zeros(theta.shape, np.int32))
    sizes = cuda.to_device(np.zeros(len(weights), np.int32))
    drawn = cuda.to_device(z)
    launch.launch(
        allocate_kernel,
        len(walk.rows),
        _allocate_bytes(len(weights)),
        launch.words(key),
        sweep,
        launch.resident(walk.rows),
        launch.resident(walk.cell),
        launch.resident(walk.starts),
        cuda.to_device(theta),
        cuda.to_device(weights),
        drawn,
        counts,
        sizes,
    )
    drawn.copy_to_host(z)
    return counts.copy_to_host().astype(np.int64), sizes.copy_to_host().astype(np.int64)


def _allocate_bytes(n_components: int) -> int:
    """Masses, the sums of the eight groups, and how many records each component takes."""
    return 8 * (n_components + 8) + 4 * n_components


@cuda.jit
def allocate_kernel(key, sweep, rows, cell, starts, theta, weights, z, counts, sizes):
    """Draw the component of every record.

    The masses of a cell are found by all lanes and lie in shared memory, where every lane then
    draws for records of its own. Sums have the order of the CPU.
    """
    n_cells, n_keys = rows.shape
    n_components = theta.shape[1]
    lane, n_lanes = cuda.threadIdx.x, cuda.blockDim.x
    room = cuda.shared.array(0, float64)
    mass = room[:n_components]
    group = room[n_components : n_components + 8]
    first_taken = 2 * (n_components + 8)
    taken = cuda.shared.array(0, int32)[first_taken : first_taken + n_components]
    generator = cuda.local.array(GENERATOR_SIZE, uint32)
    for i in range(cuda.blockIdx.x, n_cells, cuda.gridDim.x):
        c = cell[i]
        n_records = starts[c + 1] - starts[c]
        known = False
        for j in range(n_keys):
            known = known or rows[i, j] >= 0
        if not known:
            for m in range(lane, n_records, n_lanes):
                z[starts[c] + m, 0] = -1
            continue
        for s in range(lane, n_components, n_lanes):
            value = weights[s]
            for j in range(n_keys):
                if rows[i, j] >= 0:
                    value *= theta[rows[i, j], s]
            mass[s] = value
            taken[s] = 0
        cuda.syncthreads()
        total = launch.summed(mass, group, lane, n_lanes)
        seek(generator, key, c, sweep, PURPOSE_ALLOCATE)
        if n_records <= 2 * n_components:
            for m in range(lane, n_records, n_lanes):
                # Two uniforms a block of random numbers.
                generator[0] = m >> 1
                generator[10] = 4
                if m & 1:
                    uniform(generator)
                k = pick(mass, group, uniform(generator) * total)
                z[starts[c] + m, 0] = k
                cuda.atomic.add(taken, k, 1)
        elif lane == 0:
            deal(generator, mass, total, n_records, taken)
        cuda.syncthreads()
        if n_records > 2 * n_components:
            record = starts[c]
            for k in range(n_components):
                for m in range(lane, taken[k], n_lanes):
                    z[record + m, 0] = k
                record += taken[k]
        for k in range(lane, n_components, n_lanes):
            if taken[k] > 0:
                cuda.atomic.add(sizes, k, taken[k])
                for j in range(n_keys):
                    if rows[i, j] >= 0:
                        cuda.atomic.add(counts, (rows[i, j], k), taken[k])
        cuda.syncthreads()


def can_multiply(n_components: int) -> bool:
    """Whether the shared memory of a block holds so many components."""
    return launch.fits(8 * n_components)


def probabilities(
    rows: np.ndarray, theta: np.ndarray, weights: np.ndarray, out: np.ndarray
) -> None:
    """As `latent_class.probabilities`."""
    found = cuda.device_array(len(rows), np.float64)
    launch.launch(
        probability_kernel,
        len(rows),
        8 * len(weights),
        cuda.to_device(rows),
        cuda.to_device(theta),
        cuda.to_device(weights),
        found,
    )
    found.copy_to_host(out)


@cuda.jit
def probability_kernel(rows, theta, weights, out):
    """Probability of every cell: products by all lanes, and their sum in the order of the CPU."""
    n_components = theta.shape[1]
    n_fours = n_components // 4 * 4
    lane, n_lanes = cuda.threadIdx.x, cuda.blockDim.x
    last = cuda.shared.array(0, float64)
    for i in range(cuda.blockIdx.x, rows.shape[0], cuda.gridDim.x):
        for s in range(lane, n_components, n_lanes):
            value = weights[s]
            for j in range(rows.shape[1]):
                if rows[i, j] >= 0:
                    value *= theta[rows[i, j], s]
            last[s] = value
        cuda.syncthreads()
        if lane == 0:
            a, b, c, d = 0.0, 0.0, 0.0, 0.0
            for s in range(0, n_fours, 4):
                a += last[s]
                b += last[s + 1]
                c += last[s + 2]
                d += last[s + 3]
            for s in range(n_fours, n_components):
                a += last[s]
            out[i] = (a + b) + (c + d)
        cuda.syncthreads()
