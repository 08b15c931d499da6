"""What computes the sweeps and cell probabilities of the models that have CUDA kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Literal, TypeAlias

from unikat.data.table import CellTable
from unikat.errors import SpecError, UnikatError, option
from unikat.models.base import AnyModel
from unikat.spec.models import either, models_with

Device: TypeAlias = Literal["cpu", "cuda"]

_device: ContextVar[Device] = ContextVar("unikat_device", default="cpu")


@contextlib.contextmanager
def computing_on(device: Device) -> Iterator[None]:
    """Let models compute on this device; the numbers do not depend on it up to rounding."""
    token = _device.set(device)
    try:
        yield
    except Exception as error:
        # Each part of numba-cuda has errors of its own.
        if device == "cpu" or "cuda" not in type(error).__module__:
            raise
        raise UnikatError(
            f"The GPU failed ({type(error).__name__}): its memory may be full, or another process "
            f"may have it for itself. Take {option('workers', 1)}, or {option('device', 'cpu')}."
        ) from error
    finally:
        _device.reset(token)


def on_gpu() -> bool:
    """Whether what is computed here is to be computed on the GPU."""
    return _device.get() == "cuda"


def check_kernels(model: AnyModel, table: CellTable) -> None:
    """Refuse a GPU for a model, or a table, that only the CPU can do (SpecError)."""
    able = models_with(on_gpu=True)
    if model.name not in able:
        raise SpecError(
            f"The model {model.name} has no CUDA kernels. Take {either(able)}, or "
            f"{option('device', 'cpu')}."
        )
    if table.zeros is not None:
        raise SpecError(
            f"Structural zeros are not computed on a GPU. Take {option('device', 'cpu')}."
        )


def check_device(device: Device) -> None:
    """Refuse a GPU that is not there, or for which a package is lacking (SpecError)."""
    if device == "cpu":
        return
    # Imports Numba.
    from unikat.kernels.cuda.launch import unavailable

    lacking = unavailable()
    remedy = f"or take {option('device', 'cpu')}"
    if lacking == "package":
        raise SpecError(
            f"{option('device', 'cuda')} needs the package numba-cuda: install it with  "
            f"pip install 'unikat[cuda]', {remedy}."
        )
    if lacking is not None:
        raise SpecError(
            f"{option('device', 'cuda')} finds no GPU that CUDA can use on this machine. Check "
            f"with nvidia-smi that there is one and that its driver is installed, {remedy}."
        )
