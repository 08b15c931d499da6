"""Run the chains of a model until its risk measures have converged.

Rounds: every chain advances one segment; when all have, the parent looks at the draws, saves a
checkpoint, tells the progress, and goes on or stops.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_EXCEPTION, BrokenExecutor, Future, wait
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference import checkpoint as checkpoints
from unikat.inference import diagnostics as convergence
from unikat.inference import schedule
from unikat.inference.backends import Backend, Workers, open_backend
from unikat.inference.checkpoint import Checkpoint
from unikat.inference.draws import Diagnostics, Draws, Observer, add_totals
from unikat.inference.identity import run_identity
from unikat.inference.plan import MIN_KEPT, Plan, StopRule
from unikat.inference.progress import (
    MOST_TIMES,
    Countdown,
    Outlook,
    Progress,
    ProgressEvent,
    seconds_left,
)
from unikat.inference.restored import check_chains
from unikat.inference.segments import Job, Segment, SegmentResult
from unikat.models.base import CHAINS, AnyModel, Start
from unikat.models.options import check_memory
from unikat.models.preparing import report, reporting_to
from unikat.rng import check_seed

MIN_RETAINED = 50
"""Retained draws of every chain below which convergence is not judged."""
TELL_SECONDS = 0.2
"""Between two words of a model that is prepared."""
POLL_SECONDS = 0.5
"""Waiting is cut in pieces, since Windows delivers Ctrl-C only between them."""


class _Chains(NamedTuple):
    """All chains after a round; replaced as a whole, so that an interrupt finds it complete."""

    n_sweeps: int
    states: list[Any]
    previous: list[Any] | None
    """Totals of the last complete epoch, per chain; None in epoch 0."""
    current: list[Any]
    """Totals of the running epoch, per chain."""
    scalars: dict[str, Float64]
    next_check: int
    """Sweeps before which convergence is not worth a look."""
    seconds: float


_START = _Chains(0, [], None, [], {}, 0, 0.0)


def sample(
    model: AnyModel,
    table: CellTable,
    observer: Observer,
    *,
    seed: int,
    plan: Plan | None = None,
    start: Start | None = None,
    workers: Workers | None = None,
    checkpoint: Checkpoint | None = None,
    progress: Progress | None = None,
) -> Draws:
    """Draw from the posterior of a model until the monitored scalars have converged.

    The draws depend on `model`, `table`, `observer`, `seed`, `plan` and `start`, not on
    `workers`, nor on whether the run was interrupted and resumed.

    Parameters
    ----------
    model, table
        What is fitted to what; with a design the first table of :func:`unikat.views`.
    observer
        What is computed from every kept state.
    seed
        Not negative.
    plan
        Number of chains, thinning, and when to stop.
    start
        States from which the chains continue; by default all start from the model's `init`. Their
        sweeps count when the discarded part is determined, and nowhere else.
    workers
        Where the chains run: by default local processes, at most one per core.
    checkpoint
        Where the run is saved, and whether a saved run is continued.
    progress
        Told how the run goes.

    Returns
    -------
    Draws
        With `stop_reason` 'converged', 'sweep limit', 'time limit', or 'interrupted' (Ctrl-C).

    Raises
    ------
    SpecError
        When an argument is out of range, or the table has a design that the model would not see.
    OutputError
        When the checkpoint cannot be written or read.
    KeyboardInterrupt
        On Ctrl-C before the first round is complete, and on a second Ctrl-C.
    """
    seed = check_seed(seed)
    plan, workers = plan or Plan(), workers or Workers()
    if table.sampling is not None and not model.uses_weights:
        raise SpecError(
            "The table has weights or strata, which the model would not see. Take "
            "fitted, at_risk = views(model, table), sample from fitted, and measure at_risk: "
            "sample(model, fitted, RiskMeasures.of(at_risk), seed=1)."
        )
    started = time.monotonic()
    with reporting_to(_of_preparing(progress, started, plan.stop)):
        report(f"fitting {model.name}")
        data = model.prepare(table)
    if start is not None and len(start.states) != plan.n_chains:
        raise SpecError(f"There are {len(start.states)} states for {plan.n_chains} chains.")
    job = Job(model=model, data=data, observer=observer, device=workers.device)
    check_memory(
        plan.n_chains * model.state_bytes(data),
        f"{plan.n_chains:,} chains of the model {model.name}",
        "Take fewer chains, fewer components, or keys with fewer levels.",
    )
    sweep_cost = model.cost(job.data)[0]
    observe_cost = observer.cost(model, job.data)
    thin = plan.thin or schedule.default_thin(
        sweep_cost, observe_cost, goes_on=start is not None, times=observer.times_sweeping
    )
    thin = min(thin, plan.stop.max_sweeps // MIN_KEPT)
    run = _Run(
        job=job,
        seed=seed,
        plan=plan,
        thin=thin,
        shortest=schedule.shortest_round(sweep_cost, observe_cost, thin),
        start=start,
        saving=_Saving(checkpoint, run_identity(job, table, seed, plan.n_chains, thin, start))
        if checkpoint
        else None,
        progress=progress,
        started=started,
    )
    chains = run.resumed()
    with open_backend(job, workers, plan.n_chains, sweep_cost + observe_cost / thin) as backend:
        run.tell(chains)
        # Before the workers meet them: they then read compiled kernels from the cache, and do not
        # all write it at once.
        model.compile(table.has_impossible)
        observer.compile()
        # Not earlier: it would slow the compiling, for which the workers wait.
        convergence.start_import()
        chains, reason = run.until_stop(chains, backend)
    return run.draws(chains, reason)


class _Saving:
    """Writes checkpoints, not too often."""

    def __init__(self, checkpoint: Checkpoint, identity: Mapping[str, str]) -> None:
        self._checkpoint = checkpoint
        self._identity = identity
        self._due = time.monotonic() + checkpoint.every
        self._saved: _Chains | None = None

    def load(self, run: _Run) -> _Chains | None:
        if not self._checkpoint.resume:
            return None
        path = self._checkpoint.path
        content = checkpoints.load(path, self._identity)
        if content is None:
            return None
        try:
            check_chains(content, run.job, seed=run.seed, n_chains=run.plan.n_chains, thin=run.thin)
            return _Chains(**content)
        except (ValueError, TypeError, LookupError):
            raise checkpoints.not_understood(path) from None

    def save(self, chains: _Chains, *, now: bool = False) -> None:
        begin = time.monotonic()
        if chains is self._saved or not (now or begin >= self._due):
            return
        checkpoints.save(self._checkpoint.path, self._identity, chains._asdict())
        self._saved = chains
        end = time.monotonic()
        # Large states on slow disks: spend at most a tenth of the run on writing.
        self._due = end + max(self._checkpoint.every, 10.0 * (end - begin))


@dataclass(kw_only=True)
class _Run:
    """One call of `sample`."""

    job: Job
    seed: int
    plan: Plan
    thin: int
    shortest: int
    start: Start | None
    saving: _Saving | None
    progress: Progress | None
    started: float
    seconds_before: float = 0.0
    """Spent by the earlier parts of a resumed run."""
    seconds_per_sweep: float = 0.0
    checked: dict[str, Diagnostics] = field(default_factory=dict)
    checked_at: int = 0
    countdown: Countdown = field(default_factory=Countdown)

    @property
    def max_sweeps(self) -> int:
        return self.plan.stop.max_sweeps // self.thin * self.thin

    @property
    def before(self) -> int:
        """Sweeps before the first of this run, by whose numbers it is cut, kept and discarded."""
        return -(-(0 if self.start is None else self.start.n_sweeps) // self.thin) * self.thin

    def n_discarded(self, n_sweeps: int) -> int:
        """Sweeps of this run that are not used."""
        return max(schedule.n_discarded_sweeps(n_sweeps + self.before, self.thin) - self.before, 0)

    def next_cut(self, n_sweeps: int) -> int:
        """End of the round that starts after so many sweeps of this run."""
        cut = schedule.next_cut(n_sweeps + self.before, self.thin, self.shortest)
        return cut - self.before

    def resumed(self) -> _Chains:
        """Chains to start from: those of the checkpoint, or new ones."""
        chains = self.saving.load(self) if self.saving else None
        if chains is None:
            return _START
        self.seconds_before = chains.seconds
        self.seconds_per_sweep = chains.seconds / chains.n_sweeps
        return chains

    def until_stop(self, chains: _Chains, backend: Backend) -> tuple[_Chains, str]:
        """Make rounds until a reason to stop is found."""
        try:
            while True:
                chains, reason = self._judged(chains)
                if self.saving and self._enough(chains):
                    self.saving.save(chains, now=reason is not None)
                if chains.n_sweeps:
                    self.tell(chains)
                if reason is not None:
                    return chains, reason
                chains = self._round(chains, self._end_of_round(chains), backend)
        except KeyboardInterrupt:
            backend.abandon()
            if not self._enough(chains):
                raise
            if self.saving:
                self.saving.save(chains, now=True)
            return chains, "interrupted"
        except TimeoutError:
            backend.abandon()
            return chains, "time limit"
        except BrokenExecutor as error:
            if self.saving and self._enough(chains):
                self.saving.save(chains, now=True)
            raise backend.broken(error) from error

    def _enough(self, chains: _Chains) -> bool:
        """Whether there are draws to make a result of."""
        return chains.n_sweeps >= MIN_KEPT * self.thin

    def _judged(self, chains: _Chains) -> tuple[_Chains, str | None]:
        """Whether to stop, and why; decided from the draws, or by a limit."""
        if not chains.n_sweeps:
            return chains, None
        limit = None
        if chains.n_sweeps >= self.max_sweeps:
            limit = "sweep limit"
        elif self._enough(chains) and self._affordable_sweeps() < self.thin:
            limit = "time limit"
        # A limit may have cut a round short. Whether such a place is looked at must not change
        # where the same run stops without that limit.
        place = self.next_cut(chains.n_sweeps - 1)
        regular = chains.n_sweeps == place and chains.n_sweeps >= chains.next_check
        if not self._long_enough(chains) or not (regular or limit):
            return chains, limit
        self._diagnose(chains)
        if self._converged(chains):
            return chains, "converged"
        if regular:
            ess = self._worst_ess(chains)
            lacking = self.plan.stop.ess / ess if ess > 0.0 else 1.0
            pause = min(max(0.8 * lacking, 1.0), 1.5)
            chains = chains._replace(next_check=int(chains.n_sweeps * pause))
        return chains, limit

    def _diagnose(self, chains: _Chains) -> None:
        first = self.n_discarded(chains.n_sweeps) // self.thin
        draws = {name: one[:, first:] for name, one in chains.scalars.items()}
        observer = self.job.observer
        self.checked = {name: convergence.diagnose(draws[name]) for name in observer.monitored}
        for name, whole in observer.parts.items():
            self.checked[name] = convergence.as_part(self.checked[name], draws[name], draws[whole])
        self.checked_at = chains.n_sweeps

    def _worst_ess(self, chains: _Chains) -> float:
        used = (chains.n_sweeps - self.n_discarded(chains.n_sweeps)) // self.thin
        by_part = bool(self.job.observer.parts)
        return convergence.worst_ess(self.checked, used * self.plan.n_chains if by_part else None)

    def _long_enough(self, chains: _Chains) -> bool:
        discarded = self.n_discarded(chains.n_sweeps)
        enough = (chains.n_sweeps - discarded) // self.thin >= MIN_RETAINED
        return enough and discarded + self.before > 0

    def _converged(self, chains: _Chains) -> bool:
        # Draws that do not depend on each other have nothing to converge, only to be enough.
        independent = self.job.model.uncertainty not in CHAINS
        return (
            self._long_enough(chains)
            and (independent or convergence.worst_rhat(self.checked) <= self.plan.stop.rhat)
            and self._worst_ess(chains) >= self.plan.stop.ess
        )

    def _elapsed(self) -> float:
        return time.monotonic() - self.started

    def _affordable_sweeps(self) -> float:
        """Sweeps that the time limit leaves, going by the speed of the last round."""
        if self.plan.stop.max_seconds is None:
            return math.inf
        left = self.plan.stop.max_seconds - self._elapsed()
        if left <= 0.0:
            return 0.0
        return left / self.seconds_per_sweep if self.seconds_per_sweep > 0.0 else math.inf

    def _end_of_round(self, chains: _Chains) -> int:
        end = min(self.next_cut(chains.n_sweeps), self.max_sweeps)
        if self.plan.stop.max_seconds is not None and not self._enough(chains):
            # How long a sweep takes is not known yet, and there is no stopping inside a round.
            end = chains.n_sweeps + self.thin
        affordable = self._affordable_sweeps()
        if chains.n_sweeps and affordable < end - chains.n_sweeps:
            end = chains.n_sweeps + max(int(affordable) // self.thin, 1) * self.thin
        return end

    def _round(self, chains: _Chains, end: int, backend: Backend) -> _Chains:
        """Advance all chains to sweep `end`."""
        begin = time.monotonic()
        first = chains.n_sweeps + 1
        number = self.before + first
        same_epoch = chains.n_sweeps > 0 and schedule.epoch(number, self.thin) == schedule.epoch(
            number - 1, self.thin
        )
        states = chains.states or (None if self.start is None else self.start.states)
        futures = [
            backend.submit(
                Segment(
                    job=None,
                    chain=chain,
                    seed=self.seed,
                    first_sweep=number,
                    n_sweeps=end - chains.n_sweeps,
                    thin=self.thin,
                    n_threads=backend.n_threads,
                    state=states[chain] if states else None,
                    totals=chains.current[chain] if same_epoch else None,
                )
            )
            for chain in range(self.plan.n_chains)
        ]
        results = _results(futures, self.started + self.plan.stop.latest)
        if chains.n_sweeps:  # the first round is slow, since workers are still starting
            self.seconds_per_sweep = (time.monotonic() - begin) / (end - chains.n_sweeps)
        new = {
            name: np.stack([result.scalars[name] for result in results])
            for name in results[0].scalars
        }
        return chains._replace(
            n_sweeps=end,
            states=[result.state for result in results],
            previous=chains.previous if same_epoch else chains.current or None,
            current=[result.totals for result in results],
            scalars={
                name: np.concatenate([chains.scalars[name], draws], axis=1)
                if chains.scalars
                else draws
                for name, draws in new.items()
            },
            seconds=self.seconds_before + self._elapsed(),
        )

    def tell(self, chains: _Chains) -> None:
        """Call the progress callback."""
        if self.progress is None:
            return
        first = self.n_discarded(chains.n_sweeps) // self.thin
        rhat, ess = convergence.worst_rhat(self.checked), self._worst_ess(chains)
        limit = self.plan.stop.max_seconds
        outlook = Outlook(
            sweeps=chains.n_sweeps,
            checked_at=self.checked_at,
            rhat=rhat,
            ess=ess,
            target_rhat=self.plan.stop.rhat,
            target_ess=self.plan.stop.ess,
            max_sweeps=self.max_sweeps,
            seconds_per_sweep=self.seconds_per_sweep,
            seconds_to_limit=None if limit is None else max(limit - self._elapsed(), 0.0),
        )
        left = seconds_left(outlook, MOST_TIMES)
        self.progress(
            ProgressEvent(
                sweeps=chains.n_sweeps,
                max_sweeps=self.max_sweeps,
                seconds=self.seconds_before + self._elapsed(),
                time_left=self.countdown.update(left),
                seconds_left=left,
                draws={
                    name: chains.scalars[name][:, first:]
                    for name in self.job.observer.monitored
                    if name in chains.scalars
                },
                rhat=None if math.isnan(rhat) else rhat,
                ess=None if math.isnan(ess) else ess,
                target_ess=self.plan.stop.ess,
            )
        )

    def draws(self, chains: _Chains, reason: str) -> Draws:
        """Draw up the result."""
        if not self._enough(chains):
            raise SpecError(
                f"In the time of max_seconds (--max-seconds), {self.plan.stop.max_seconds:g} s, "
                f"the chains did not make {MIN_KEPT} draws each, the fewest that make an interval. "
                "Nothing was kept. Allow more seconds, or take fewer chains or keys."
            )
        if self.checked_at != chains.n_sweeps:
            self._diagnose(chains)
        per_chain = chains.current
        if chains.previous is not None:
            per_chain = [
                add_totals(before, now)
                for before, now in zip(chains.previous, chains.current, strict=True)
            ]
        discarded = self.n_discarded(chains.n_sweeps)
        return Draws(
            scalars=chains.scalars,
            n_discarded=discarded // self.thin,
            totals=self.job.observer.joined(per_chain),
            thin=self.thin,
            n_sweeps=chains.n_sweeps,
            n_chains=self.plan.n_chains,
            seed=self.seed,
            seconds=chains.seconds,
            converged=self._converged(chains),
            stop_reason=reason,
            diagnostics=self.checked,
            model=self.job.model,
            observer=self.job.observer,
            facts=self.job.model.facts(self.job.data),
            states=tuple(chains.states),
            n_before=self.before,
        )


def _of_preparing(
    progress: Progress | None, started: float, stop: StopRule
) -> Callable[[str], None]:
    """Return a callback that reports the progress of `prepare`, not too often.

    It also ends a model that is prepared for longer than the time limit and its grace (SpecError).
    """
    last = -math.inf

    def pass_on(words: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now > started + stop.latest:
            raise SpecError(
                f"The model was not fitted in the time of max_seconds (--max-seconds), "
                f"{stop.max_seconds:g} s. Nothing was kept. Allow more seconds, or choose another "
                "model or fewer keys."
            )
        if progress is None or now - last < TELL_SECONDS:
            return
        last = now
        progress(
            ProgressEvent(
                sweeps=0,
                max_sweeps=stop.max_sweeps,
                seconds=now - started,
                time_left=None,
                draws={},
                rhat=None,
                ess=None,
                preparing=words,
            )
        )

    return pass_on


def _results(futures: list[Future[SegmentResult]], latest: float) -> list[SegmentResult]:
    """Wait for a round until `latest`, or TimeoutError; the first error is raised at once."""
    pending = set(futures)
    try:
        while pending:
            if time.monotonic() > latest:
                raise TimeoutError
            done, pending = wait(pending, timeout=POLL_SECONDS, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
    finally:
        for future in pending:
            future.cancel()
    return [future.result() for future in futures]
