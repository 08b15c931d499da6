"""What the CUDA kernels share: functions of the CPU, arrays that stay on the GPU, launches.

One block is one warp of threads, its *lanes*. Blocks walk over cells or records in strides of the
grid, so that a grid need not fit the table. Whatever is added up across blocks is whole numbers,
so that the order of blocks changes nothing.

Numba has two packages of this name: the one that is kept, numba-cuda, takes the place of the old
one in Numba itself. Under NUMBA_ENABLE_CUDASIM=1 kernels run in Python, without a GPU.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import lru_cache
from types import FunctionType
from typing import Any

import numpy as np
from numba import config, cuda

# A small file is no reason to warn.
config.CUDA_LOW_OCCUPANCY_WARNINGS = 0  # type: ignore[attr-defined]  # set from the environment
_SIMULATED: bool = config.ENABLE_CUDASIM  # type: ignore[attr-defined]  # set from the environment
LANES = 32
"""Threads of a block: one warp."""
_BLOCKS_PER_PROCESSOR = 32
"""The most that a multiprocessor holds at a time."""
_SHARED_BYTES = 48 * 1024
"""Shared memory that every block may ask for."""


def unavailable() -> str | None:
    """Why kernels cannot run here: `"package"` or `"gpu"`; None if they can."""
    if importlib.util.find_spec("numba_cuda") is None:
        return "package"
    return None if _SIMULATED or cuda.is_available() else "gpu"


def for_gpu(function: Any, **helpers: Any) -> Any:
    """Compile a helper of the CPU kernels for the GPU: one source, so the same numbers.

    Parameters
    ----------
    function
        What `jit.device` or `jit.leaf` made.
    helpers
        By the names under which `function` calls them: helpers that this has returned.
    """
    plain: Callable[..., Any] = getattr(function, "py_func", function)
    bound = FunctionType(
        plain.__code__, {**plain.__globals__, **helpers}, plain.__name__, plain.__defaults__
    )
    return cuda.jit(device=True)(bound)


@cuda.jit(device=True)
def summed(mass, group, lane, n_lanes):
    """Sum masses as the CPU does, by groups of every eighth; all lanes of a block call it.

    group (8,) gets the sums of the groups. Both are shared memory that the lanes have filled.
    """
    for g in range(lane, 8, n_lanes):
        part = 0.0
        for s in range(g, mass.shape[0], 8):
            part += mass[s]
        group[g] = part
    cuda.syncthreads()
    total = 0.0
    for g in range(8):
        total += group[g]
    return total


def fits(shared_bytes: int) -> bool:
    """Whether a block may have so much shared memory."""
    return shared_bytes <= _SHARED_BYTES


def launch(
    kernel: Any, n: int, shared_bytes: int, *arguments: Any, threads: int | None = None
) -> None:
    """Run a kernel over n items, one block for each, or fewer blocks that take several.

    Blocks have a warp of threads, unless told otherwise.
    """
    if n > 0:
        kernel[min(n, _most_blocks()), threads or LANES, 0, shared_bytes](*arguments)


def resident(array: np.ndarray) -> Any:
    """Copy to the GPU an array that never changes; the copies of the last few are kept."""
    return _resident(Same(array))


def words(key: Any) -> tuple[np.uint32, np.uint32]:
    """Return the key of the random numbers as kernels take it."""
    return np.uint32(key[0]), np.uint32(key[1])


@lru_cache(maxsize=1)
def _most_blocks() -> int:
    if _SIMULATED:
        return 2
    return int(cuda.get_current_device().MULTIPROCESSOR_COUNT) * _BLOCKS_PER_PROCESSOR


class Same:
    """An array that is equal to itself alone."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __hash__(self) -> int:
        return id(self.array)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.array is other.array


@lru_cache(maxsize=8)
def _resident(same: Same) -> Any:
    return cuda.to_device(np.ascontiguousarray(same.array))
