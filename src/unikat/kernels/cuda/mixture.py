"""The mixed-membership sweep on the GPU: first the blocks of all records, then their tokens.

Records of one cell share their rows of theta, so a warp takes records of one cell. What is left of
a record's work after its blocks have moved has no loop over components: there each thread has a
record of its own.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numba import cuda, float32, float64, int64, uint32, uint64

from unikat.kernels import latent_class, mixture
from unikat.kernels.cuda import launch
from unikat.kernels.cuda.random import philox, seek, uniform
from unikat.kernels.mixture import BaseTables, Given, Records
from unikat.kernels.random import GENERATOR_SIZE, PURPOSE_ASSIGN, PURPOSE_MOVES

_MOST_KEYS = 64
"""Which the memory of a thread has room for."""
_PIECE = 256
"""Most records of a cell that a warp takes."""
_THREADS = 128
_INV32 = 1.0 / 4294967296.0
_INV53 = 1.0 / 9007199254740992.0

pick = launch.for_gpu(latent_class.pick)
first_mover = launch.for_gpu(mixture.first_mover)
redraw = launch.for_gpu(mixture.redraw, philox=philox)


def can_assign(n_keys: int, n_components: int) -> bool:
    """Whether a thread has room for so many keys, and a block for so many components."""
    return n_keys <= _MOST_KEYS and launch.fits(_move_bytes(n_components))


def assign(
    key: Any,
    sweep: int,
    records: Records,
    z: np.ndarray,
    given: Given,
    base_tables: BaseTables,
) -> tuple[np.ndarray, np.ndarray]:
    """As `mixture.assign` on all records; return counts and stacks, int64.

    z (n, n_keys) int16 is changed; records: stay on the GPU.
    """
    n, n_keys = z.shape
    n_components = len(given.weights)
    rows, record_cell = launch.resident(records.rows), launch.resident(records.record_cell)
    pieces = _pieces(launch.Same(records.record_cell))
    theta, alpha = cuda.to_device(given.theta), cuda.to_device(given.alpha)
    drawn = cuda.to_device(z)
    together = cuda.device_array(n, np.uint8)
    counts = cuda.to_device(np.zeros(given.theta.shape, np.int32))
    stacks = cuda.to_device(np.zeros((n_keys, n_components), np.int32))
    words = launch.words(key)
    # An array without rows cannot be sent; rising factorials have two rows or more.
    rising = given.rising if len(given.rising) else np.zeros((1, n_components))
    launch.launch(
        move_kernel,
        len(pieces) - 1,
        _move_bytes(n_components),
        words,
        sweep,
        pieces,
        rows,
        record_cell,
        drawn,
        alpha,
        cuda.to_device(given.weights),
        cuda.to_device(rising),
        theta,
        together,
    )
    launch.launch(
        token_kernel,
        -(-n // _THREADS),
        0,
        words,
        sweep,
        rows,
        record_cell,
        drawn,
        alpha,
        theta,
        *(cuda.to_device(table) for table in base_tables),
        together,
        counts,
        stacks,
        threads=_THREADS,
    )
    drawn.copy_to_host(z)
    return counts.copy_to_host().astype(np.int64), stacks.copy_to_host().astype(np.int64)


def _move_bytes(n_components: int) -> int:
    """Masses, and the sums of the eight groups."""
    return 8 * (n_components + 8)


@lru_cache(maxsize=2)
def _pieces(record_cell: launch.Same) -> Any:
    """First record of each piece of a cell, and the end, on the GPU."""
    cells = record_cell.array
    new = np.flatnonzero(np.diff(cells, prepend=-1))
    place = np.arange(len(cells)) - np.repeat(new, np.diff(new, append=len(cells)))
    starts = np.flatnonzero(place % _PIECE == 0)
    return cuda.to_device(np.append(starts, len(cells)))


@cuda.jit
def move_kernel(
    key, sweep, pieces, rows, record_cell, z, alpha, weights, rising, theta, together
):  # fmt: skip
    """Move the blocks of every record in `z`; note in `together` (n,) where there is one block.

    If alpha is shared, the records of a piece with one block have the same masses, found once; each
    lane then draws for records of its own. For other records the warp finds masses together. Every
    lane keeps a copy of such a record's components, and all draw the same.
    """
    n_components = theta.shape[1]
    n_keys = rows.shape[1]
    lane, n_lanes = cuda.threadIdx.x, cuda.blockDim.x
    # A file of one record has one alpha, too.
    shared = rising.shape[0] > 1
    room = cuda.shared.array(0, float64)
    mass = room[:n_components]
    group = room[n_components : n_components + 8]
    generator = cuda.local.array(GENERATOR_SIZE, uint32)
    token_row = cuda.local.array(_MOST_KEYS, int64)
    token_key = cuda.local.array(_MOST_KEYS, int64)
    component = cuda.local.array(_MOST_KEYS, int64)
    k0, k1 = uint64(key[0]), uint64(key[1])
    for piece in range(cuda.blockIdx.x, pieces.shape[0] - 1, cuda.gridDim.x):
        first, last = pieces[piece], pieces[piece + 1]
        c = record_cell[first]
        n_tok = 0
        for j in range(n_keys):
            if rows[c, j] >= 0:
                token_row[n_tok] = rows[c, j]
                token_key[n_tok] = j
                n_tok += 1
        if n_tok == 0:
            continue
        mine = 0
        for i in range(first + lane, last, n_lanes):
            one = 1
            for t in range(1, n_tok):
                if z[i, token_key[t]] != z[i, token_key[0]]:
                    one = 0
            together[i] = one
            mine += one
        some = cuda.syncthreads_or(mine)
        if shared and some:
            for s in range(lane, n_components, n_lanes):
                value = rising[n_tok, s]
                for t in range(n_tok):
                    value *= theta[token_row[t], s]
                mass[s] = value
            cuda.syncthreads()
            total = launch.summed(mass, group, lane, n_lanes)
            for i in range(first + lane, last, n_lanes):
                if together[i]:
                    w0, w1, _, _ = philox(
                        uint64(0), uint64(i), uint64(sweep), uint64(PURPOSE_ASSIGN), k0, k1
                    )
                    point = (float(w0 >> uint64(6)) * 134217728.0 + float(w1 >> uint64(5))) * _INV53
                    k = pick(mass, group, point * total)
                    for t in range(n_tok):
                        z[i, token_key[t]] = k
            cuda.syncthreads()
        for i in range(first, last):
            if shared and together[i]:
                continue
            concentration = alpha[0] if shared else alpha[i]
            for t in range(n_tok):
                component[t] = z[i, token_key[t]]
            seek(generator, key, i, sweep, PURPOSE_MOVES)
            for t in range(n_tok):
                k = component[t]
                seen = False
                for l in range(t):
                    seen = seen or component[l] == k
                if seen:
                    continue
                size = 0
                for l in range(t, n_tok):
                    if component[l] == k:
                        size += 1
                for s in range(lane, n_components, n_lanes):
                    if shared:
                        value = rising[size, s]
                    else:
                        value = concentration * weights[s]
                        for l in range(1, size):
                            value *= concentration * weights[s] + l
                    for l in range(n_tok):
                        if component[l] == k:
                            value *= theta[token_row[l], s]
                    for l in range(n_tok):
                        if component[l] == s and s != k:
                            value = 0.0
                    mass[s] = value
                cuda.syncthreads()
                total = launch.summed(mass, group, lane, n_lanes)
                if together[i]:
                    w0, w1, _, _ = philox(
                        uint64(0), uint64(i), uint64(sweep), uint64(PURPOSE_ASSIGN), k0, k1
                    )
                    point = (float(w0 >> uint64(6)) * 134217728.0 + float(w1 >> uint64(5))) * _INV53
                else:
                    point = uniform(generator)
                chosen = pick(mass, group, point * total)
                for l in range(t, n_tok):
                    if component[l] == k:
                        component[l] = chosen
                # Others may still read the masses, or z.
                cuda.syncthreads()
            for t in range(lane, n_tok, n_lanes):
                z[i, token_key[t]] = component[t]
        cuda.syncthreads()


@cuda.jit
def token_kernel(
    key, sweep, rows, record_cell, z, alpha, theta, base, cut, alias, together, counts, stacks
):  # fmt: skip
    """Redraw the tokens of every record in `z`, and count them."""
    n_keys = rows.shape[1]
    token_row = cuda.local.array(_MOST_KEYS, int64)
    token_key = cuda.local.array(_MOST_KEYS, int64)
    component = cuda.local.array(_MOST_KEYS, int64)
    bits = cuda.local.array(_MOST_KEYS, uint64)
    cumulative = cuda.local.array(_MOST_KEYS, float32)
    k0, k1 = uint64(key[0]), uint64(key[1])
    start = cuda.blockIdx.x * cuda.blockDim.x + cuda.threadIdx.x
    for i in range(start, z.shape[0], cuda.gridDim.x * cuda.blockDim.x):
        c = record_cell[i]
        n_tok = 0
        for j in range(n_keys):
            if rows[c, j] >= 0:
                token_row[n_tok] = rows[c, j]
                token_key[n_tok] = j
                component[n_tok] = z[i, j]
                n_tok += 1
        if n_tok == 0:
            continue
        concentration = alpha[0] if alpha.shape[0] == 1 else alpha[i]
        mover = -1
        if together[i]:
            _, _, w2, _ = philox(
                uint64(0), uint64(i), uint64(sweep), uint64(PURPOSE_ASSIGN), k0, k1
            )
            mover = first_mover(
                n_tok, token_row, component[0], float(w2) * _INV32, concentration, theta, base
            )
        if mover < n_tok:
            redraw(
                uint64(i), uint64(sweep), k0, k1, mover, n_tok, token_row, component,
                bits, cumulative, concentration, theta, base, cut, alias,
            )  # fmt: skip
        for t in range(n_tok):
            k = component[t]
            z[i, token_key[t]] = k
            cuda.atomic.add(counts, (token_row[t], k), 1)
            before = 0
            for l in range(t):
                if component[l] == k:
                    before += 1
            cuda.atomic.add(stacks, (before, k), 1)
