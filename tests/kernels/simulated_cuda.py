"""CUDA kernels against those of the CPU, in Numba's simulator: run by `test_cuda.py`.

The simulator is chosen when Numba is first imported, so these tests have a process of their own.
It runs kernels as Python, with their threads and barriers, on the arithmetic of NumPy: whatever
does not use `log`, `exp` and the like has the bits of the CPU.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numba import config, cuda

import naive
import unikat
from kernels.test_latent_class import KEY, prepared, random_classes
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import UnikatError
from unikat.kernels import cells as cells_kernels
from unikat.kernels import latent_class
from unikat.kernels.cuda import cells as cuda_cells
from unikat.kernels.cuda import latent_class as cuda_latent_class
from unikat.kernels.cuda import launch
from unikat.kernels.cuda import mixture as cuda_mixture
from unikat.models.base import AnyModel, Stream
from unikat.models.device import Device, computing_on, on_gpu
from unikat.models.mixtures.gom import GoM
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.latent_class import LatentClass

N_LEVELS = (3, 2, 5, 4)
MODELS: dict[str, AnyModel] = {
    "latent-class": LatentClass(),
    "hdp": HDP(),
    "hdp-per-record": HDP(alpha="per-record"),
    "gom": GoM(components=11),
}


@pytest.fixture(autouse=True)
def simulator() -> None:
    assert config.ENABLE_CUDASIM


@pytest.fixture(params=[3, 32])
def lanes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> int:
    """Threads of a block: what they share must not depend on their number."""
    monkeypatch.setattr(launch, "LANES", request.param)
    return request.param


def table(n_alike: int) -> CellTable:
    """24 records with keys missing, one without any known key, 9 of one cell, many of another."""
    rng = np.random.default_rng(5)
    codes = np.column_stack([rng.integers(0, l, 24) for l in N_LEVELS])
    codes[rng.random(codes.shape) < 0.15] = -1
    codes[7] = -1
    few, many = np.tile([0, 1, 4, 2], (9, 1)), np.tile([2, 1, 0, 3], (n_alike, 1))
    codes = np.concatenate((codes, few, many))
    keys = [Key.of_size(f"K{j}", l) for j, l in enumerate(N_LEVELS)]
    return CellTable.from_codes(codes, keys, population_size=100_000)


def sweeps(model: AnyModel, on: Device, of: CellTable) -> list[tuple[Any, np.ndarray]]:
    """States of a chain, and their cell probabilities; about half the records start mixed."""
    data = model.prepare(of)
    state = model.init(Stream(11, 0, 0), data)
    if state.z.shape[1] > 1:
        rng = np.random.default_rng(6)
        moved = rng.integers(0, 4, state.z.shape).astype(np.int16)
        mixed = (state.z >= 0) & (rng.random((len(state.z), 1)) < 0.5)
        state = state._replace(z=np.where(mixed, moved, state.z), alpha=state.alpha * 0.0 + 0.6)
    found = []
    with computing_on(on):
        for sweep in (1, 2):
            stream = Stream(11, 0, sweep)
            state, _ = model.step(stream, state, data, 2)
            # With an alpha for each record they take the same kernel, 16 times.
            asked = of.cells[:15] if len(getattr(state, "alpha", ())) < 2 else of.cells[:0]
            found.append((state, model.cell_probabilities(stream, state, data, asked)))
    return found


@pytest.mark.parametrize("name", MODELS)
def test_a_chain_has_the_states_of_the_cpu(
    name: str, lanes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cuda_mixture, "_PIECE", 5)
    monkeypatch.setattr(cuda_mixture, "_THREADS", 8)
    # A launch for every beginning.
    monkeypatch.setattr(cuda_cells, "_STEPS", 1)
    # More records of a cell than twice the components are dealt out by binomials.
    of = table(140 if name == "latent-class" else 12)
    for (state, p), (its_state, its_p) in zip(
        *(sweeps(MODELS[name], on, of) for on in ("cpu", "cuda")), strict=True
    ):
        for mine, its in zip(state, its_state, strict=True):
            np.testing.assert_array_equal(mine, its)
        np.testing.assert_array_equal(p, its_p)
    n_components = len(state.weights)
    if name == "latent-class":
        assert of.counts.max() > 2 * n_components
    elif name != "gom":
        # Some records of one block, some of several.
        z = np.where(state.z < 0, state.z.max(axis=1, keepdims=True), state.z)
        pure = (z == z[:, :1]).all(axis=1)
        assert 3 < pure.sum() < len(pure) - 3


def test_a_file_of_one_record_with_its_own_alpha() -> None:
    one = CellTable.from_codes([[1, 0, 2]], [Key.of_size(f"K{j}", 3) for j in range(3)], 9)
    mine, its = (sweeps(HDP(alpha="per-record"), on, one) for on in ("cpu", "cuda"))
    for state, its_state in zip(mine[-1][0], its[-1][0], strict=True):
        np.testing.assert_array_equal(state, its_state)


def test_a_gpu_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> None:
        raise cuda.cudadrv.driver.CudaAPIError(2, "out of memory")

    model = LatentClass()
    data = model.prepare(table(12))
    state = model.init(Stream(11, 0, 0), data)
    monkeypatch.setattr(cuda_latent_class.cuda, "to_device", full)
    with (
        pytest.raises(UnikatError, match=r"failed .*CudaAPIError.*workers=1"),
        computing_on("cuda"),
    ):
        model.step(Stream(11, 0, 1), state, data, 1)


def test_records_get_the_classes_of_the_cpu(lanes: int) -> None:
    """Cells of one record, of few and of many; masses spread over classes, some without any."""
    _, data = prepared()
    theta, weights = random_classes()
    z = np.empty((data.walk.starts[-1], 1), np.int16)
    counts, sizes = np.zeros(theta.shape, np.int64), np.zeros(len(weights), np.int64)
    n_cells = len(data.walk.rows)
    latent_class.allocate(KEY, 3, 0, n_cells, data.walk, theta, weights, z, counts, sizes)
    its = np.empty_like(z)
    its_counts, its_sizes = cuda_latent_class.allocate(KEY, 3, data.walk, theta, weights, its)
    np.testing.assert_array_equal(its, z)
    np.testing.assert_array_equal(its_counts, counts)
    np.testing.assert_array_equal(its_sizes, sizes)


@pytest.mark.parametrize("n_levels", [(3,), (2, 3), (4, 2, 3), (2, 3, 2, 2, 2, 2)])
def test_probabilities_are_sums_over_partitions(n_levels: tuple[int, ...], lanes: int) -> None:
    """Keys left out included. Relative error 2e-6 per key: theta is in single precision."""
    rng = np.random.default_rng(3)
    n_components = 10
    profiles = [rng.dirichlet(np.full(n, 0.6), n_components).T for n in n_levels]
    theta = np.concatenate(profiles).astype(np.float32)
    weights = rng.dirichlet(np.full(n_components, 0.5))
    cells = np.array(list(itertools.product(*(range(-1, n) for n in n_levels))), np.int32)
    # In the order of the product, of which some are taken.
    cells = cells[np.sort(rng.permutation(len(cells))[:12])]
    first = np.concatenate(([0], np.cumsum(n_levels)[:-1]))
    rows = np.ascontiguousarray(np.where(cells >= 0, cells + first, -1).astype(np.int32))
    for alpha, share in (([0.9], [1.0]), ([0.2, 3.0], [0.3, 0.7])):
        given = (rows, theta, weights, np.array(alpha), np.array(share))
        here, there = np.empty(len(rows)), np.empty(len(rows))
        cells_kernels.partition_probabilities(*given, here)
        cuda_cells.partition_probabilities(*given, there)
        np.testing.assert_array_equal(there, here)
        by_key = [theta[a : a + n].astype(float) for a, n in zip(first, n_levels, strict=True)]
        expected = [
            sum(
                b * naive.cell_probability(by_key, weights, a, cell)
                for a, b in zip(alpha, share, strict=True)
            )
            for cell in cells
        ]
        np.testing.assert_allclose(there, expected, rtol=2e-6 * len(n_levels))


def test_the_option_reaches_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    launched = []
    simulate = launch.launch

    def watched(kernel: Any, *rest: Any, **options: Any) -> None:
        launched.append(kernel.py_func.__name__)
        simulate(kernel, *rest, **options)

    monkeypatch.setattr(launch, "launch", watched)
    monkeypatch.setattr(launch, "LANES", 4)
    monkeypatch.setattr(cuda_mixture, "_THREADS", 4)
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({name: rng.integers(0, 3, 12) for name in "ab"})
    options: dict[str, Any] = {
        "keys": ["a", "b"], "population_size": 500, "max_sweeps": 4, "chains": 2,
        "set": {"sampling.thin": 1}, "workers": 1, "progress": False,
    }  # fmt: skip
    kernels = {
        "latent-class": {"allocate_kernel", "probability_kernel"},
        "hdp": {"move_kernel", "token_kernel", "partition_kernel"},
    }
    for model, its in kernels.items():
        here, there = (
            unikat.assess(frame, **options, model=model, device=on) for on in ("cpu", "cuda")
        )
        assert set(launched) == its
        launched.clear()
        assert there.spec.sampling.device == "cuda"
        for name in ("tau1", "tau2"):
            np.testing.assert_array_equal(
                here.draws["posterior"][name], there.draws["posterior"][name]
            )
    assert not on_gpu()
