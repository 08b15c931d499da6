"""How chains are run: how many, how thinned, and when they stop."""

from __future__ import annotations

import math
from dataclasses import dataclass

from unikat.errors import SpecError, shown

MIN_KEPT = 2
"""Kept draws of every chain below which there is no result."""
MOST_SWEEPS = 1_000_000_000
MOST_CHAINS = 1024
GRACE_SECONDS = 30.0
"""Beyond a time limit, in which kernels are compiled and the first draws are made."""


@dataclass(frozen=True, kw_only=True)
class StopRule:
    """When to stop: at convergence of all monitored scalars, or at a limit.

    >>> StopRule(ess=1_000, max_seconds=600).rhat
    1.01
    """

    rhat: float = 1.01
    """Largest rank-normalised split R-hat."""
    ess: float = 400.0
    """Smallest effective sample size, bulk and tail, over all chains."""
    max_sweeps: int = 200_000
    """Of every chain; lowered to a multiple of the thinning."""
    max_seconds: float | None = None
    """Of this call, an earlier part of a resumed run not counted. With a time limit that is
    reached, and only then, the number of draws depends on the machine. It is looked at between
    rounds; a round, or the fit before the first, that lasts beyond half as much again and 30
    seconds is given up, and where no two draws were made there is no result."""

    def __post_init__(self) -> None:
        if not 1.0 < self.rhat < math.inf:
            raise SpecError(f"rhat is {shown(self.rhat)}; it must be above 1, such as 1.01.")
        for name in ("ess", "max_seconds"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise SpecError(f"{name} is {shown(value)}; it must be positive and finite.")
        if not MIN_KEPT <= self.max_sweeps <= MOST_SWEEPS:
            raise SpecError(
                f"max_sweeps is {shown(self.max_sweeps)}; it must be from {MIN_KEPT}, the fewest "
                f"draws that make an interval, to {MOST_SWEEPS:,}."
            )

    @property
    def latest(self) -> float:
        """Seconds after which a call ends in the middle of a round, or of a fit."""
        return math.inf if self.max_seconds is None else 1.5 * self.max_seconds + GRACE_SECONDS


@dataclass(frozen=True, kw_only=True)
class Plan:
    """Everything, beside model and seed, on which the draws depend.

    >>> Plan(n_chains=2, stop=StopRule(max_sweeps=5_000)).stop.max_sweeps
    5000
    """

    n_chains: int = 4
    thin: int | None = None
    """Sweeps per kept draw; by default so that observing costs half of sweeping, a quarter where
    chains go on from a `start`."""
    stop: StopRule = StopRule()

    def __post_init__(self) -> None:
        if not 1 <= self.n_chains <= MOST_CHAINS:
            raise SpecError(
                f"n_chains is {shown(self.n_chains)}; it must be from 1 to {MOST_CHAINS:,}."
            )
        most = self.stop.max_sweeps // MIN_KEPT
        if self.thin is not None and not 1 <= self.thin <= most:
            raise SpecError(
                f"thin is {shown(self.thin)}; it must be from 1 to {most:,}, so that the "
                f"{self.stop.max_sweeps:,} sweeps of max_sweeps keep {MIN_KEPT} draws."
            )
