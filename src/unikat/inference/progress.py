"""What is told to whoever watches a run, and the estimate of the time left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class ProgressEvent:
    """Where a run stands; told when it starts and after every round."""

    sweeps: int
    """Made by every chain."""
    max_sweeps: int
    seconds: float
    """Spent sampling, earlier parts of a resumed run included."""
    seconds_left: float | None
    """Estimated until the run stops by itself; None while it cannot be told."""
    means: Mapping[str, float]
    """Of the monitored scalars over the draws retained so far; empty before the first."""
    rhat: float | None
    """Largest of the monitored scalars when last checked; None before the first check."""
    ess: float | None
    """Smallest of the monitored scalars when last checked, bulk or tail."""
    preparing: str = ""
    """While the model is prepared, before the first sweep: what it does; else empty."""


class Progress(Protocol):
    """A function that is told how the run goes, on the thread that called `sample`."""

    def __call__(self, event: ProgressEvent, /) -> None:
        """Receive one event."""
        ...


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """What the estimate of the time left is made from."""

    sweeps: int
    checked_at: int
    """Sweeps when convergence was last checked."""
    rhat: float
    ess: float
    target_rhat: float
    target_ess: float
    max_sweeps: int
    seconds_per_sweep: float
    seconds_to_limit: float | None
    """Until the time limit."""


def seconds_left(outlook: Outlook) -> float | None:
    """Time until the run stops, if things go on as they have.

    The effective sample size grows in proportion to the sweeps, and the excess of R-hat over 1
    falls in proportion. While R-hat is above 1.1 the chains have not found each other, nothing is
    known about when they will, and only a limit on sweeps or time bounds the run: None.
    """
    if not outlook.seconds_per_sweep > 0.0 or not outlook.ess > 0.0 or not outlook.rhat <= 1.1:
        return None
    excess = (outlook.rhat - 1.0) / max(outlook.target_rhat - 1.0, 1e-6)
    factor = max(outlook.target_ess / outlook.ess, excess, 1.0)
    needed = min(outlook.checked_at * factor, outlook.max_sweeps)
    left = max(needed - outlook.sweeps, 0.0) * outlook.seconds_per_sweep
    return left if outlook.seconds_to_limit is None else min(left, outlook.seconds_to_limit)
