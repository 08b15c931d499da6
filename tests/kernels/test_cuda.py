"""CUDA kernels without a GPU: simulated in a process of its own, and compiled to PTX."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest

import unikat
from unikat.errors import SpecError

pytest.importorskip("numba_cuda", reason="numba-cuda is for Linux and Windows")
SIMULATED = Path(__file__).with_name("simulated_cuda.py")
CAPABILITIES = ((7, 0), (9, 0))
"""Volta and Hopper."""
KEY, WHOLE = "UniTuple(uint32, 2)", "int64"
KERNELS = {
    "latent_class.allocate_kernel": (
        KEY, WHOLE, "int32[:,::1]", "int64[::1]", "int64[::1]", "float32[:,::1]", "float64[::1]",
        "int16[:,::1]", "int32[:,::1]", "int32[::1]",
    ),
    "latent_class.probability_kernel": (
        "int32[:,::1]", "float64[:,::1]", "float64[::1]", "float64[::1]",
    ),
    "mixture.move_kernel": (
        KEY, WHOLE, "int64[::1]", "int32[:,::1]", "int32[::1]", "int16[:,::1]", "float64[::1]",
        "float64[::1]", "float64[:,::1]", "float32[:,::1]", "uint8[::1]",
    ),
    "mixture.token_kernel": (
        KEY, WHOLE, "int32[:,::1]", "int32[::1]", "int16[:,::1]", "float64[::1]",
        "float32[:,::1]", "float32[::1]", "float32[:,::1]", "int16[:,::1]", "uint8[::1]",
        "int32[:,::1]", "int32[:,::1]",
    ),
    "cells.partition_kernel": (
        "int64[::1]", "int32[:,::1]", "float32[:,::1]", "float32[:,::1]", "float64[::1]",
        "float32[::1]", "float64[::1]", "float64[::1]", "float64[::1]", "float64[::1]",
    ),
}  # fmt: skip


@pytest.mark.slow
def test_kernels_have_the_numbers_of_the_cpu_in_the_simulator() -> None:
    environment = {**os.environ, "NUMBA_ENABLE_CUDASIM": "1"}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(SIMULATED)]
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, cwd=SIMULATED.parents[2]
    )
    assert done.returncode == 0, done.stdout
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="the compiler is installed on Linux")
@pytest.mark.parametrize("name", KERNELS)
def test_kernels_compile_to_ptx(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a GPU, and without NVRTC, which is asked only where it lies and what it knows."""
    from numba import cuda, types
    from numba.core import sigutils
    from numba.cuda import cuda_paths, dispatcher
    from numba.cuda.cudadrv import nvrtc

    # The helpers' intermediate code does not depend on the GPU.
    some = SimpleNamespace(compute_capability=CAPABILITIES[0])
    monkeypatch.setattr(dispatcher, "get_current_device", lambda: some)

    monkeypatch.setattr(nvrtc, "get_supported_ccs", lambda: list(CAPABILITIES))
    monkeypatch.setattr(cuda_paths, "_get_nvrtc_path", lambda: None)
    module, _, kernel = name.partition(".")
    function = getattr(importlib.import_module(f"unikat.kernels.cuda.{module}"), kernel).py_func
    given = tuple(
        types.UniTuple(types.uint32, 2) if one == KEY else sigutils._parse_signature_string(one)
        for one in KERNELS[name]
    )
    for capability in CAPABILITIES:
        ptx, _ = cuda.compile_ptx(function, given, device=False, cc=capability)
        assert f".target sm_{capability[0]}{capability[1]}" in ptx
        assert ".entry" in ptx
        # Blocks meet in whole numbers, whose sum does not depend on their order.
        added = re.findall(r"(?<!bar\.)\b(?:red|atom)\.\S+", ptx)
        assert bool(added) == (kernel in {"allocate_kernel", "token_kernel"})
        assert all(re.search(r"\.[us](32|64)$", one) for one in added)


def frame() -> pd.DataFrame:
    return pd.DataFrame({"a": [0, 1, 2, 1], "b": [0, 0, 1, 1]})


def test_a_machine_without_a_gpu_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    launch = importlib.import_module("unikat.kernels.cuda.launch")
    monkeypatch.setattr(launch.cuda, "is_available", lambda: False)
    with pytest.raises(SpecError, match=r"finds no GPU.*device='cpu'"):
        unikat.assess(frame(), keys=["a", "b"], population_size=9, model="hdp", device="cuda")


@pytest.mark.parametrize(
    ("lacking", "options", "said"),
    [
        ("package", {}, r"needs the package numba-cuda: .*pip install 'unikat\[cuda\]'"),
        (None, {"model": "loglinear"}, "The model loglinear has no CUDA kernels"),
        (None, {"zeros": ["a == 0 and b == 1"]}, "Structural zeros are not computed on a GPU"),
    ],
    ids=["package", "model", "zeros"],
)
def test_what_a_gpu_cannot_do_is_refused(
    lacking: str | None, options: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    launch = importlib.import_module("unikat.kernels.cuda.launch")
    monkeypatch.setattr(launch, "unavailable", lambda: lacking)
    asked: dict[str, Any] = {"keys": ["a", "b"], "population_size": 9, "model": "hdp"}
    with pytest.raises(SpecError, match=said):
        unikat.assess(frame(), device="cuda", **{**asked, **options})
