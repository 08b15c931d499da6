"""How long a fit will take and what it needs, before it begins: some sweeps, made and measured.

Nothing here has an influence on a number. Sweeps of the trial are thrown away.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import numpy as np

from unikat.data.table import CellTable
from unikat.inference import schedule
from unikat.inference.backends import Workers, local_workers
from unikat.inference.chains import MIN_RETAINED
from unikat.inference.draws import Observer
from unikat.inference.plan import MIN_KEPT, Plan
from unikat.inference.progress import Outlook, seconds_left
from unikat.inference.segments import n_bytes
from unikat.models.base import CHAINS, AnyModel, Stream
from unikat.models.preparing import reporting_to

TRIAL_SECONDS = 1.0
"""For the sweeps of one model; a layout that reports its progress is given up after as long."""
MOST_SWEEPS = 40
SLOWER = 30.0
"""Times the fewest sweeps up to which chains needed on real tables: those of
`docs/design/databases.md` needed 1 to 29 times, and a few sweeps do not tell which."""
GUESSED = 3.0
"""Factor within which counted work tells the time."""


_COUNTED_ALONE: ContextVar[bool] = ContextVar("_COUNTED_ALONE", default=False)


@contextmanager
def counted_alone() -> Iterator[None]:
    """Make no sweeps: count the work of all fits that are foreseen meanwhile, which is quick."""
    before = _COUNTED_ALONE.set(True)
    try:
        yield
    finally:
        _COUNTED_ALONE.reset(before)


class _TooLong(Exception):  # noqa: N818  # no error, the way out
    """The layout of the arrays takes longer than the trial may."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """What a sweep takes."""

    measured: bool
    """Else counted work (`Model.cost`)."""
    sweep: float
    """Seconds of one sweep of one chain."""
    observation: float
    """Seconds of observing one kept state."""
    prepare: float
    """Seconds of laying out the arrays; of models without chains that is the fit."""
    counted_sweep: float
    """Counted work of a sweep, in nanoseconds, on which thinning and workers depend."""
    counted_observation: float
    data_bytes: float
    job_bytes: float
    """Of the data and the observer."""
    state_bytes: float
    totals_bytes: float
    times_sweeping: float = Observer.times_sweeping
    """Of the observer."""


def try_out(
    model: AnyModel, table: CellTable, observer: Observer, *, n_threads: int, seed: int
) -> Pace | None:
    """Make a few sweeps and measure them, or count where even a few would take long.

    Returns
    -------
    Pace or None
        None where already the layout takes longer than the trial may, as of models whose fit it is.
    """
    started = time.perf_counter()
    most = 0.0 if _COUNTED_ALONE.get() else TRIAL_SECONDS

    def stop(_: str) -> None:
        if time.perf_counter() - started > most:
            raise _TooLong

    try:
        with reporting_to(stop):
            data = model.prepare(table)
    except _TooLong:
        return None
    prepared = time.perf_counter() - started
    sweep_cost, observe_cost = model.cost(data)[0], observer.cost(model, data)
    totals = observer.start()
    sweep, observation = 1e-9 * sweep_cost, 1e-9 * observe_cost
    state_bytes = model.state_bytes(data)
    measured = 3.0 * sweep + observation < most
    if measured:
        model.compile(table.has_impossible)
        observer.compile()
        state = model.init(Stream(seed, 0, 0), data)
        took: list[float] = []
        while len(took) < MOST_SWEEPS and sum(took) < 0.5 * most:
            stream = Stream(seed, 0, len(took) + 1)
            begin = time.perf_counter()
            state, _ = model.step(stream, state, data, n_threads)
            took.append(time.perf_counter() - begin)
        # The first ones have many components, or meet cold caches.
        sweep = float(np.median(took))
        took.clear()
        while len(took) < MOST_SWEEPS and sum(took) < 0.5 * most:
            begin = time.perf_counter()
            observer.observe(Stream(seed, 0, len(took) + 1), model, state, data, totals)
            took.append(time.perf_counter() - begin)
        observation = float(np.median(took))
        state_bytes = max(state_bytes, n_bytes(state))
    return Pace(
        measured=measured,
        sweep=sweep,
        observation=observation,
        prepare=prepared,
        counted_sweep=sweep_cost,
        counted_observation=observe_cost,
        times_sweeping=observer.times_sweeping,
        data_bytes=n_bytes(data),
        job_bytes=n_bytes((data, observer)),
        state_bytes=state_bytes,
        totals_bytes=n_bytes(totals),
    )


@dataclass(frozen=True, kw_only=True)
class Course:
    """How a fit will go."""

    n_chains: int
    n_workers: int
    """Processes; 1: the process of the run."""
    n_threads: int
    thin: int
    fewest_sweeps: int
    """Of each chain, if all draws were independent."""
    max_sweeps: int
    seconds_per_sweep: float
    """Of all chains together, observations included."""
    lower: float
    upper: float
    """Seconds of the fit, if it takes up to `SLOWER` times the fewest sweeps."""
    at_limit: float
    """Seconds if it goes on to its limit of sweeps or time."""


def course(
    model: AnyModel,
    pace: Pace,
    plan: Plan,
    workers: Workers,
    *,
    before: int = 0,
    most: float = SLOWER,
) -> Course:
    """Say how a fit will go.

    Parameters
    ----------
    model, pace, plan, workers
        Of the fit.
    before
        Sweeps of an earlier fit that it goes on from.
    most
        Times the fewest sweeps that it may take.
    """
    stop = plan.stop
    thin = plan.thin or schedule.default_thin(
        pace.counted_sweep,
        pace.counted_observation,
        goes_on=before > 0,
        times=pace.times_sweeping,
    )
    thin = min(thin, stop.max_sweeps // MIN_KEPT)
    before = -(-before // thin) * thin
    shortest = schedule.shortest_round(pace.counted_sweep, pace.counted_observation, thin)
    draws = max(math.ceil(stop.ess / plan.n_chains), MIN_RETAINED)
    limit = stop.max_sweeps // thin * thin
    fewest = schedule.fewest_sweeps(draws, thin, shortest, before=before)
    work = pace.counted_sweep + pace.counted_observation / thin
    n_workers, n_threads = local_workers(workers, plan.n_chains, work, pace.job_bytes)
    turns = math.ceil(plan.n_chains / n_workers)
    per_sweep = turns * (pace.sweep + pace.observation / thin)
    independent = model.uncertainty not in CHAINS
    # Without a measurement, counted work may be wrong either way.
    wide = 1.25 if pace.measured else GUESSED

    def seconds(times: float, per_sweep: float) -> float:
        left = seconds_left(
            Outlook(
                sweeps=0,
                checked_at=fewest,
                rhat=1.0,
                ess=stop.ess / times,
                target_rhat=stop.rhat,
                target_ess=stop.ess,
                max_sweeps=limit,
                seconds_per_sweep=per_sweep,
                seconds_to_limit=stop.max_seconds,
            )
        )
        assert left is not None
        return pace.prepare + left

    at_limit = limit * per_sweep
    return Course(
        n_chains=plan.n_chains,
        n_workers=n_workers,
        n_threads=n_threads,
        thin=thin,
        fewest_sweeps=min(fewest, limit),
        max_sweeps=limit,
        seconds_per_sweep=per_sweep,
        lower=seconds(1.0, per_sweep / wide),
        upper=seconds(1.25 if independent else most, per_sweep * wide),
        at_limit=pace.prepare
        + (at_limit if stop.max_seconds is None else min(at_limit, stop.max_seconds)),
    )
