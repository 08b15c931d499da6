"""Sweeps and cell probabilities on CPU and GPU, and whether the draws are the same.

On a machine with a GPU, in a copy of the source:

    python -m venv gpu && gpu/bin/pip install '.[cuda]' && gpu/bin/python benchmarks/gpu.py

--sizes 1000 is a short trial. Times are the fastest of three sweeps after one that compiles, with
all cores of the machine for the CPU.
"""

from __future__ import annotations

import argparse
import platform
import time
from typing import Any

import numpy as np

from unikat import CellTable, Key
from unikat.inference.processes import available_cores
from unikat.models.base import AnyModel, Stream
from unikat.models.device import Device, computing_on
from unikat.models.named import build_model

MODELS = ("latent-class", "hdp", "gom")
N_LEVELS = (2, 3, 5, 9, 12, 7, 4, 20, 6, 15)
N_CLASSES = 12
N_SWEEPS = 4
MOST_CELLS = 1_000_000
"""Whose probabilities are asked for."""


def table(n: int) -> CellTable:
    """Records of twelve classes, with a fiftieth of the keys missing."""
    rng = np.random.default_rng(1)
    kind = rng.integers(0, N_CLASSES, n)
    columns = []
    for size in N_LEVELS:
        law = rng.dirichlet(np.full(size, 0.5), N_CLASSES).cumsum(axis=1)
        code = (rng.random(n)[:, None] > law[kind]).sum(axis=1).clip(0, size - 1)
        columns.append(np.where(rng.random(n) < 0.02, -1, code))
    keys = [Key.of_size(f"K{j}", size) for j, size in enumerate(N_LEVELS)]
    return CellTable.from_codes(np.column_stack(columns), keys, population_size=100 * n)


def timed(
    model: AnyModel, data: Any, start: Any, cells: np.ndarray, device: Device
) -> tuple[float, float, Any, np.ndarray]:
    """Seconds of a sweep and of the probabilities; the last state, and the probabilities."""
    state, n_threads = start, available_cores()
    sweeps, asked = [], []
    with computing_on(device):
        for sweep in range(1, N_SWEEPS + 1):
            stream = Stream(1, 0, sweep)
            began = time.perf_counter()
            state, _ = model.step(stream, state, data, n_threads)
            sweeps.append(time.perf_counter() - began)
            began = time.perf_counter()
            p = model.cell_probabilities(stream, state, data, cells)
            asked.append(time.perf_counter() - began)
    return min(sweeps[1:]), min(asked[1:]), state, p


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10**5, 10**6, 10**7])
    sizes = parser.parse_args().sizes
    from unikat.kernels.cuda.launch import unavailable

    lacking = unavailable()
    if lacking is not None:
        what = {"package": "numba-cuda is not installed", "gpu": "there is no GPU"}[lacking]
        print(f"Not run: {what} on this machine.")
        return
    from numba import cuda

    gpu = getattr(cuda.get_current_device(), "name", "simulator")
    name = gpu.decode() if isinstance(gpu, bytes) else gpu
    print(f"{name}; {platform.processor() or platform.machine()}, {available_cores()} cores")
    print(f"{'n':>10} {'model':14} {'':13} {'CPU s':>9} {'GPU s':>9} {'ratio':>7}  same")
    for n in sizes:
        of = table(n)
        cells = of.cells[:MOST_CELLS]
        for model_name in MODELS:
            model = build_model(model_name, {})
            data = model.prepare(of)
            start = model.init(Stream(1, 0, 0), data)
            here, there = (timed(model, data, start, cells, on) for on in ("cpu", "cuda"))
            equal = [
                all(np.array_equal(a, b) for a, b in zip(here[2], there[2], strict=True)),
                bool(np.allclose(here[3], there[3], rtol=1e-5, atol=0.0)),
            ]
            for i, what in enumerate(("sweep", "probabilities")):
                ratio = here[i] / there[i]
                same = "yes" if equal[i] else f"no: {np.mean(here[2].z == there[2].z):.6f} of z"
                print(
                    f"{n:>10,} {model_name:14} {what:13} {here[i]:9.4f} {there[i]:9.4f} "
                    f"{ratio:7.1f}  {same}"
                )


if __name__ == "__main__":
    main()
