"""The fits of an intruder: to the original, and to the original with each synthetic file.

First every fit converges. Then they go on until log rho of every record is sure enough, each with
the draws that its share of the variance asks for. Where fits with n_f draws have the variances
a_f / n_f, the sum is below a target with the fewest draws in all if n_f is proportional to the root
of a_f. See docs/design/rho.md.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unikat._typing import Float64
from unikat.data.table import CellTable
from unikat.inference.chains import sample
from unikat.inference.draws import Draws
from unikat.inference.plan import MIN_KEPT, Plan
from unikat.models.base import AnyModel, Start
from unikat.synthesis.attacks.posterior import (
    MOST_ERROR,
    N_BATCHES,
    Fitting,
    Mean,
    RatioObserver,
    RatioTotals,
)

AIM = 0.9 * MOST_ERROR
"""Standard error for which draws are made: its estimate is uncertain."""
MOST_GROWTH, LEAST_GROWTH = 2.0, 1.2
"""A fit that goes on has at most, and at least, so many times its draws afterwards."""
MOST_TIMES = 10.0
"""A record is given up that needs more draws of a fit than so many times those of its start."""
NEVER = 1e300
"""Effective draws of a fit that goes on for a number of sweeps."""

Asked = Callable[[Sequence[Mean]], Float64]
"""Squared standard errors of log rho by fit, (n_fits, n_records): see `errors_by_fit`."""


@dataclass(kw_only=True)
class _Fit:
    """One fit, which can go on."""

    name: str
    what: str
    model: AnyModel
    table: CellTable
    observer: RatioObserver
    how: Fitting
    totals: RatioTotals = field(init=False)
    converged: bool = False
    ended: bool = False
    """It has reached a limit."""
    n_most: float = 0.0
    """Draws of all chains beyond which a record is given up."""
    _last: Draws | None = None
    _n_sweeps: int = 0
    _n_parts: int = 0
    _seconds: float = 0.0

    @property
    def n_draws(self) -> float:
        """Draws that are used, of all chains."""
        return float(self.totals.n_draws.sum())

    def begin(self) -> None:
        """Fit until convergence, or a limit."""
        self.how.execution.watcher.stage(f"Fitting {self.how.label} to the original {self.what}")
        draws = self._sampled(self.how.plan)
        self.totals, self.converged = draws.totals, draws.converged
        self.ended = not draws.converged
        self.n_most = MOST_TIMES * self.n_draws

    def go_on(self, times: float, n_lacking: int) -> None:
        """Make so many times the draws, as far as the limits allow."""
        last, stop = self._last, self.how.plan.stop
        assert last is not None
        self.how.execution.watcher.stage(
            f"Going on with {self.how.label} of the original {self.what}, for {n_lacking} records"
        )
        more = math.ceil((times - 1.0) * self.n_draws / self.how.plan.n_chains) * last.thin
        more = min(more, stop.max_sweeps - self._n_sweeps) // last.thin
        left = None if stop.max_seconds is None else stop.max_seconds - self._seconds
        if more < MIN_KEPT or (left is not None and left <= 0.0):
            self.ended = True
            return
        limits = replace(stop, ess=NEVER, max_sweeps=more * last.thin, max_seconds=left)
        plan = replace(self.how.plan, stop=limits, thin=last.thin)
        draws = self._sampled(plan, Start(last.states, self._n_sweeps))
        self.totals = appended(self.totals, draws.totals)
        self.ended = draws.stop_reason == "time limit"

    def _sampled(self, plan: Plan, start: Start | None = None) -> Draws:
        """Run the chains, and keep where they ended."""
        how, begun = self.how, time.monotonic()
        part = "" if start is None else f"-{self._n_parts}"
        draws = sample(
            self.model,
            self.table,
            self.observer,
            seed=how.seed,
            plan=plan,
            start=start,
            workers=how.execution.workers,
            checkpoint=how.execution.of(self.name + part).checkpoint,
            progress=how.execution.watcher.progress,
        )
        if draws.stop_reason == "interrupted":
            raise KeyboardInterrupt
        self._last = draws
        self._n_sweeps += draws.n_sweeps
        self._n_parts += 1
        self._seconds += time.monotonic() - begun
        return draws


def appended(first: RatioTotals, then: RatioTotals) -> RatioTotals:
    """Totals of chains that went on; of more than `N_BATCHES` two become one."""
    both = RatioTotals(*(np.concatenate(pair, axis=1) for pair in zip(first, then, strict=True)))
    used = both.n_draws.any(axis=0)
    both = RatioTotals(*(one[:, used] for one in both))
    while both.n_draws.shape[1] > N_BATCHES:
        starts = np.arange(0, both.n_draws.shape[1], 2)
        both = RatioTotals(*(np.add.reduceat(one, starts, axis=1) for one in both))
    return both


def draws_needed(errors: Float64, n_draws: Float64, n_most: Float64) -> tuple[Float64, int]:
    """Draws that each fit should have in all, (n_fits,), and for how many records.

    Parameters
    ----------
    errors
        Squared standard error of log rho by fit, (n_fits, n_records).
    n_draws
        (n_fits,): draws that the fits have.
    n_most
        (n_fits,): draws beyond which a record is given up.
    """
    of_draw = np.sqrt(errors * n_draws[:, None])
    needed = of_draw * of_draw.sum(axis=0) / AIM**2
    lacking = errors.sum(axis=0) >= MOST_ERROR**2
    lacking &= (needed <= n_most[:, None]).all(axis=0)
    return needed[:, lacking].max(axis=1, initial=0.0), int(lacking.sum())


def fitted_means(
    fits: Sequence[tuple[AnyModel, CellTable]],
    observer: RatioObserver,
    how: Fitting,
    asked: Asked,
) -> tuple[list[Mean], bool]:
    """Fit the model to the original, and to it with each synthetic file; and if all converged.

    Parameters
    ----------
    fits
        Model and table of each.
    observer
        What is computed from their states.
    how
        They are fitted until they converge, and then go on.
    asked
        By which errors fits go on.
    """
    running = [
        _Fit(
            name=f"known-{number}",
            what=f"with synthetic file {number}" if number else "alone",
            model=model,
            table=table,
            observer=observer,
            how=how,
        )
        for number, (model, table) in enumerate(fits)
    ]
    for one in running:
        one.begin()
    while True:
        means = [Mean.of(one.totals) for one in running]
        n_draws = np.array([one.n_draws for one in running])
        n_most = np.array([one.n_most for one in running])
        needed, n_lacking = draws_needed(asked(means), n_draws, n_most)
        short = [
            (one, times)
            for one, times in zip(running, needed / n_draws, strict=True)
            if times > 1.0 and not one.ended
        ]
        if not short:
            return means, all(one.converged for one in running)
        for one, times in short:
            one.go_on(min(max(times, LEAST_GROWTH), MOST_GROWTH), n_lacking)
