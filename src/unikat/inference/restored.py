"""Chains from a checkpoint: held against what this run would have written.

A checksum notices damage, not intent. Kernels read states without looking, so a state of another
shape, or with an index beyond an array, would end the process.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from unikat.inference.segments import Job
from unikat.models.base import AnySampler, Stream


def check_chains(
    content: Mapping[str, Any], job: Job, *, seed: int, n_chains: int, thin: int
) -> None:
    """Refuse chains that this run cannot have written.

    Raises
    ------
    ValueError, TypeError, LookupError
        If anything is of another type, shape or range.
    """
    n_sweeps, scalars = content["n_sweeps"], content["scalars"]
    _require(isinstance(n_sweeps, int) and n_sweeps > 0 and n_sweeps % thin == 0)
    _require(isinstance(content["next_check"], int) and 0 <= content["next_check"] < 2**62)
    _require(isinstance(content["seconds"], float) and 0.0 <= content["seconds"] < math.inf)
    _require(isinstance(scalars, dict) and set(job.observer.monitored) <= set(scalars))
    for draws in scalars.values():
        _require(isinstance(draws, np.ndarray) and draws.dtype == np.float64)
        _require(draws.shape == (n_chains, n_sweeps // thin))
    empty = job.observer.start()
    for name in ("previous", "current"):
        totals = content[name]
        if totals is None and name == "previous":
            continue
        _require(isinstance(totals, list) and len(totals) == n_chains)
        _require(all(_alike(one, empty, shapes=True) for one in totals))
    _require(isinstance(content["states"], list))
    check_states(content["states"], job.model, job.data, seed=seed, n_chains=n_chains)


def check_states(
    states: Sequence[Any], model: AnySampler, data: Any, *, seed: int, n_chains: int
) -> None:
    """Refuse states of a file from which this model cannot go on; raises as `check_chains`."""
    _require(len(states) == n_chains)
    first = model.init(Stream(seed, 0, 0), data)
    for state in states:
        _require(_alike(state, first, shapes=False))
        _require(model.state_fits(state, data, first))


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("its content is not of this run")


def _alike(given: Any, expected: Any, *, shapes: bool) -> bool:
    """Whether a value is built as another, without NaN where that has none."""
    if hasattr(expected, "_fields"):
        return type(given) is type(expected) and all(
            _alike(one, other, shapes=shapes) for one, other in zip(given, expected, strict=True)
        )
    one, other = np.asarray(given), np.asarray(expected)
    return (
        # A text may have another length.
        (one.dtype == other.dtype or one.dtype.kind == other.dtype.kind == "U")
        and one.ndim == other.ndim
        and (not shapes or one.shape == other.shape)
        and (one.dtype.kind != "f" or not np.isnan(one).any() or bool(np.isnan(other).any()))
    )
