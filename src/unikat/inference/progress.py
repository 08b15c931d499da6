"""What a run reports while it goes on, and the estimate of the time left."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple, Protocol

from unikat._typing import Float64


@dataclass(frozen=True)
class TimeLeft:
    """A range of seconds in which a run is expected to end."""

    lower: float
    upper: float
    """Infinite in the last range."""

    def __str__(self) -> str:
        """Say the range in words, such as '1 to 3 minutes'."""
        first, last = self.ends
        if first is None or last is None:
            return f"more than {first}" if last is None else f"less than {last}"
        return f"{f'{first.number:g}' if first.unit == last.unit else first} to {last}"

    @property
    def ends(self) -> tuple[Time | None, Time | None]:
        """Both ends in units of their own; none where there is no end."""
        last = None if math.isinf(self.upper) else _counted(self.upper, self.upper - 1)
        return _counted(self.lower, min(self.lower, self.upper - 1)) if self.lower else None, last


class Time(NamedTuple):
    """A time in a unit that fits it."""

    number: float
    unit: str
    """`second`, `minute`, `hour` or `day`."""

    def __str__(self) -> str:
        """Say it in words."""
        return f"{self.number:g} {self.unit}{'' if self.number == 1 else 's'}"


_UNITS = ((86_400.0, "day"), (3600.0, "hour"), (60.0, "minute"), (1.0, "second"))


def _counted(seconds: float, of: float) -> Time:
    """Give seconds in the largest unit that is not above another time."""
    size, unit = next((size, unit) for size, unit in _UNITS if of >= size or size == 1.0)
    return Time(seconds / size, unit)


_ENDS = (0.0, 10.0, 30.0, 60.0, 180.0, 600.0, 1800.0, 3600.0, 3 * 3600.0, 10 * 3600.0, math.inf)
RANGES = tuple(TimeLeft(*ends) for ends in pairwise(_ENDS))
"""Ranges of the time left that are shown."""
MARGIN = 2.0
"""Effective sample sizes are estimates: a range is shown if so many times the estimate fits it."""
MOST_TIMES = 4.0
"""Multiple of the work done beyond which the rest is not known: with fewer effective draws chains
often stay where they are, and neither their number nor R-hat says for how long."""
RECENT = 3
"""Estimates of which the largest counts: with few draws R-hat is often low by chance."""


_LONG = (0.0, 1.0, 3.0, *_ENDS[1:-1], *(days * 86_400.0 for days in (1, 3, 10, 30)), math.inf)


def range_between(lower: float, upper: float) -> TimeLeft:
    """Return the range to show for two estimates of a time, in seconds, widened to round ends.

    Examples
    --------
    >>> str(range_between(41.0, 170.0)), str(range_between(7200.0, 40_000.0))
    ('30 seconds to 3 minutes', '1 to 24 hours')
    >>> str(range_between(90.0, 5e6)), str(range_between(5e6, 5e6))
    ('more than 1 minute', 'more than 30 days')
    """
    return TimeLeft(
        max(end for end in _LONG[:-1] if end <= lower), min(end for end in _LONG if end >= upper)
    )


def range_of(seconds: float) -> TimeLeft:
    """Return the range to show for an estimate of the time left, in seconds."""
    return next(part for part in RANGES if MARGIN * seconds <= part.upper)


class Countdown:
    """Turns estimates of the time left into ranges whose end holds, or none where none is known.

    A range never grows. Where an estimate goes beyond its end, or there is no estimate, none is
    shown; the next one has to be so much surer.
    """

    def __init__(self) -> None:
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._shown: TimeLeft | None = None
        self._end = math.inf
        self._margin = 1.0

    def update(
        self, seconds: float | None, now: float | None = None, least: float = math.inf
    ) -> TimeLeft | None:
        """Return the range to show.

        Parameters
        ----------
        seconds
            The estimate; None if there is none.
        now
            Seconds of a clock that never goes back; by default this machine's.
        least
            Seconds that are left at least, where that is far below the estimate: the range then
            begins there.
        """
        now = time.monotonic() if now is None else now
        if seconds is None:
            self._recent.clear()
        elif seconds not in self._recent:
            self._recent.append(seconds)
        if self._shown is not None and (not self._recent or now + self._recent[-1] > self._end):
            self._shown, self._end = None, math.inf
            self._margin *= MARGIN
        if len(self._recent) > 1:
            found = range_of(self._margin * max(self._recent))
            if self._shown is None or found.upper < self._shown.upper:
                self._shown, self._end = found, now + found.upper
        if self._shown is not None and least < self._shown.lower:
            self._shown = replace(self._shown, lower=max(end for end in _ENDS if end <= least))
        return self._shown

    def forget(self) -> None:
        """Forget the estimates of a part that is over; what is shown stays."""
        self._recent.clear()


class AnswerSoFar(NamedTuple):
    """A measure by the draws so far: its median and equal-tailed interval."""

    median: float
    lower: float
    upper: float
    level: float


@dataclass(frozen=True, kw_only=True)
class ProgressEvent:
    """Where a run stands; reported when it starts and after every round."""

    sweeps: int
    """Made by every chain."""
    max_sweeps: int
    seconds: float
    """Spent sampling, earlier parts of a resumed run included."""
    time_left: TimeLeft | None
    """Until the fit stops by itself, or the whole run; None while it cannot be estimated."""
    draws: Mapping[str, Float64]
    """Of the monitored scalars, those retained so far, (n_chains, n); empty before the first."""
    rhat: float | None
    """Largest of the monitored scalars when last checked; None before the first check."""
    ess: float | None
    """Smallest of the monitored scalars when last checked, bulk or tail."""
    target_ess: float | None = None
    """Effective sample size at which the run stops, if R-hat allows."""
    preparing: str = ""
    """While the model is prepared, before the first sweep: what it does; else empty."""
    seconds_left: float | None = None
    """The estimate from which `time_left` is made."""
    whole_run: bool = False
    """Times are those of the whole run, and not of one of its fits."""
    share: float | None = None
    """Of the run that is done, where several parts tell it together; it never falls."""
    tau1: AnswerSoFar | None = None
    """τ1 as the answer has it, by the draws so far; None of a fit that gives no answer."""
    tau1_of: str = ""
    """The file that it is of, in words, where a run has several."""


class Progress(Protocol):
    """A callback that receives events, on the thread that called `sample`."""

    def __call__(self, event: ProgressEvent, /) -> None:
        """Receive one event."""
        ...


def _ignore(_: Any) -> None:
    """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """The callbacks of a run, all called on the thread that runs it."""

    progress: Callable[[Any], None] | None = None
    """Where the current fit (ProgressEvent), study (StudyProgress) or search (SearchProgress)
    stands."""
    stage: Callable[[str], None] = _ignore
    """What is done now, in words."""
    note: Callable[[str], None] = _ignore
    """What was found on the way, which stays in sight."""

    def within(self, part: str) -> Watcher:
        """Return a watcher of a part of the run, whose stages begin with the name of the part."""
        return replace(self, stage=lambda words: self.stage(f"{part}: {words}"))


SILENT = Watcher()


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


def work_needed(rhat: float, ess: float, target_rhat: float, target_ess: float) -> float | None:
    """Work until a fit stops, as a multiple of what was done; at least 1.

    The effective sample size grows in proportion to the work, and the excess of R-hat over 1 falls
    in proportion. While R-hat is above 1.1 the chains are in different places, and nothing is known
    about when they meet: None.
    """
    if not ess > 0.0 or not rhat <= 1.1:
        return None
    return max(target_ess / ess, (rhat - 1.0) / max(target_rhat - 1.0, 1e-6), 1.0)


def seconds_left(outlook: Outlook, most: float = math.inf) -> float | None:
    """Time until the run stops, if things go on as they have.

    None where that cannot be estimated: only a limit on sweeps or time bounds the run, or more than
    `most` times the work that was done is needed.
    """
    factor = work_needed(outlook.rhat, outlook.ess, outlook.target_rhat, outlook.target_ess)
    if factor is None or factor > most or not outlook.seconds_per_sweep > 0.0:
        return None
    needed = min(outlook.checked_at * factor, outlook.max_sweeps)
    left = max(needed - outlook.sweeps, 0.0) * outlook.seconds_per_sweep
    return left if outlook.seconds_to_limit is None else min(left, outlook.seconds_to_limit)
