"""A piece of one chain: the unit of work that is sent to a worker, wherever it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from unikat._typing import Float64
from unikat.inference.draws import Observer, map_totals
from unikat.models.base import AnyModel, Stream
from unikat.models.device import Device, check_device, computing_on


@dataclass(frozen=True, kw_only=True)
class Job:
    """What all segments of a run share."""

    model: AnyModel
    data: Any
    """What `model.prepare` made of the table."""
    observer: Observer
    device: Device = "cpu"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Sweeps `first_sweep` to `first_sweep + n_sweeps - 1` of one chain."""

    job: Job | None
    """None where the worker was given the job when it started."""
    chain: int
    seed: int
    first_sweep: int
    """Counted from 1; the start of the chain is drawn as sweep 0."""
    n_sweeps: int
    thin: int
    """A state is observed after every sweep that is a multiple of this."""
    n_threads: int
    state: Any
    """The chain's state before `first_sweep`; None at sweep 1."""
    totals: Any
    """The observer's totals of the epoch so far; None where the epoch begins."""


@dataclass(frozen=True, kw_only=True)
class SegmentResult:
    """What a segment leaves behind."""

    state: Any
    scalars: Mapping[str, Float64]
    """Each (n_kept,)."""
    totals: Any


class AbandonedError(Exception):
    """The run was stopped while this segment was running; its result is not wanted."""


def run_segment(segment: Segment, stopped: Callable[[], bool] | None = None) -> SegmentResult:
    """Run a segment; a pure function of the segment.

    Raises
    ------
    AbandonedError
        When `stopped` says so.
    SpecError
        If there is no GPU and the job asks for one.
    """
    job = segment.job
    if job is None:
        raise ValueError("the segment has no job, and its worker was not given one")
    check_device(job.device)
    with computing_on(job.device):
        return _run(job, segment, stopped)


def _run(job: Job, segment: Segment, stopped: Callable[[], bool] | None) -> SegmentResult:
    model, data, observer = job.model, job.data, job.observer
    state = segment.state
    if state is None:
        state = model.init(Stream(segment.seed, segment.chain, 0), data)
    # Copied, since the observer adds in place and the round may yet be abandoned.
    totals = observer.start() if segment.totals is None else map_totals(np.copy, segment.totals)
    kept: list[dict[str, float]] = []
    for sweep in range(segment.first_sweep, segment.first_sweep + segment.n_sweeps):
        if stopped is not None and stopped():
            raise AbandonedError
        stream = Stream(segment.seed, segment.chain, sweep)
        state, info = model.step(stream, state, data, segment.n_threads)
        if sweep % segment.thin == 0:
            kept.append({**info.values, **observer.observe(stream, model, state, data, totals)})
    names = kept[0] if kept else {}
    return SegmentResult(
        state=state,
        scalars={name: np.array([draw[name] for draw in kept], np.float64) for name in names},
        totals=totals,
    )


def n_bytes(value: Any) -> float:
    """Memory of the arrays within a value, in bytes; each array once.

    Examples
    --------
    >>> n_bytes((np.zeros(10), {"a": np.zeros(2, np.int32)}))
    88.0
    """
    seen: dict[int, float] = {}

    def walk(one: Any) -> None:
        if id(one) in seen:
            return
        seen[id(one)] = float(one.nbytes) if isinstance(one, np.ndarray) else 0.0
        if isinstance(one, (tuple, list)):
            for part in one:
                walk(part)
        elif isinstance(one, Mapping):
            for part in one.values():
                walk(part)
        elif is_dataclass(one) and not isinstance(one, type):
            for field in fields(one):
                walk(getattr(one, field.name))

    walk(value)
    return sum(seen.values())
