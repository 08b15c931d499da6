"""What tells one run from another: compared when a checkpoint is read."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from unikat._version import __version__
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.segments import Job
from unikat.models.base import AnyModel, Start


def run_identity(
    job: Job, table: CellTable, seed: int, n_chains: int, thin: int, start: Start | None = None
) -> dict[str, str]:
    """Everything on which the draws depend, as readable names and short strings."""
    return {
        "table": table.fingerprint[:16],
        "model": f"{job.model!r} #{digest(job.model)}",
        "measures": f"{type(job.observer).__name__} #{digest(job.observer)}",
        "seed": str(seed),
        "chains": str(n_chains),
        "thin": str(thin),
        "start": "new" if start is None else f"#{digest(start)}",
        "unikat version": __version__,
    }


def digest(value: Any) -> str:
    """Hash a value by its content, 16 hexadecimal digits."""
    sha = hashlib.sha256()
    _feed(sha, value)
    return sha.hexdigest()[:16]


def check_distinct(models: Iterable[tuple[str, AnyModel]]) -> None:
    """Refuse models of which two are the same."""
    labels: dict[str, str] = {}
    for label, model in models:
        key = digest(model)
        if key in labels:
            raise SpecError(
                f"The models {labels[key]!r} and {label!r} are the same, options that are not "
                "given having their defaults; name each once."
            )
        labels[key] = label


def _feed(sha: Any, value: Any) -> None:
    kind = type(value)
    sha.update(f"<{kind.__module__}.{kind.__qualname__}".encode())
    if isinstance(value, np.ndarray) and value.dtype != object:
        sha.update(f"{value.dtype.str}{value.shape}".encode())
        sha.update(np.ascontiguousarray(value).data)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            sha.update(field.name.encode())
            _feed(sha, getattr(value, field.name))
    elif isinstance(value, (list, tuple)):
        for item in value:
            _feed(sha, item)
    elif isinstance(value, Mapping):
        for key, item in value.items():
            _feed(sha, key)
            _feed(sha, item)
    elif value is None or isinstance(value, (bool, int, float, str)):
        sha.update(repr(value).encode())
    else:
        sha.update(pickle.dumps(value, protocol=5))
    sha.update(b">")
