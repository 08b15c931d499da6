"""The progress of a run of several fits: one quantity, τ1 as the answer has it, and one time left.

A fit knows how long it goes on, and not what follows. Here the events of every fit become those of
the run: the time left is that of all fits to come, and τ1 is told of the fits that give an answer
alone, by its median and interval. Of the others it would be another number: that of a model without
its error, or of half of the records.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from unikat.inference.plan import StopRule
from unikat.inference.progress import MOST_TIMES, Countdown, ProgressEvent, Watcher, work_needed
from unikat.risk.estimate import interval_of

TAU1 = "tau1"


@dataclass(kw_only=True)
class WholeRun:
    """The fits of a run, in order: those of the evidence, if there are any, and the last one."""

    watcher: Watcher
    level: float = 0.95
    """Probability of the interval of τ1."""
    stop: StopRule | None = None
    """Of the last fit; None: it is not part of what is told."""
    is_all: bool = False
    """Nothing that takes long follows the last fit."""
    begun: float = field(default_factory=time.monotonic)
    _to_come: dict[str, float] = field(default_factory=dict)
    """Counted seconds, at most, of each part before the last fit that is not done."""
    _counted: float = 0.0
    _took: float = 0.0
    """Counted and true seconds of the parts that are done."""
    _last: float | None = None
    """Seconds of the last fit, if it goes as the fits before it; None: not known yet."""
    _countdown: Countdown = field(default_factory=Countdown)

    def plan(self, counted: Mapping[str, float]) -> None:
        """Note the parts before the last fit, with their counted seconds at most."""
        self._to_come |= counted

    def part(self, name: str, *, like_last: bool = False) -> Watcher:
        """Return the watcher of a part; `like_last`: the last fit may go on from it."""
        begun = time.monotonic()

        def left(event: ProgressEvent) -> float | None:
            if like_last and TAU1 in event.draws:
                self._foresee_last(event)
            spent = time.monotonic() - begun
            rest = self._of(self._to_come.get(name, 0.0)) - spent
            return max(rest, event.seconds_left or 0.0)

        return self._watcher(left, name)

    def done(self, name: str, seconds: float | None) -> None:
        """Note what a part took, perhaps in an earlier run; None if it was given up."""
        counted = self._to_come.pop(name, 0.0)
        if seconds is not None:
            self._counted += counted
            self._took += seconds

    def answer(self) -> Watcher:
        """Return the watcher of a fit on the way that gives an answer."""
        return self._watcher(lambda _: 0.0, None, answers=True)

    def last(self) -> Watcher:
        """Return the watcher of the last fit."""
        self._to_come.clear()
        self._last = 0.0
        return self._watcher(lambda event: event.seconds_left, None, answers=True)

    def _watcher(
        self,
        left: Callable[[ProgressEvent], float | None],
        name: str | None,
        *,
        answers: bool = False,
    ) -> Watcher:
        tell = self.watcher.progress
        if tell is None:
            return self.watcher

        def progress(event: ProgressEvent) -> None:
            now = left(event)
            seconds = None
            if now is not None and self._last is not None and self.stop is not None:
                later = sum(one for other, one in self._to_come.items() if other != name)
                seconds = now + self._of(later) + self._last
            draws = event.draws.get(TAU1)
            tau1 = None if draws is None or not answers else interval_of(draws, self.level)
            tell(
                replace(
                    event,
                    seconds=max(event.seconds, time.monotonic() - self.begun),
                    seconds_left=seconds,
                    time_left=self._countdown.update(seconds),
                    whole_run=self.is_all,
                    tau1=tau1,
                )
            )

        return replace(self.watcher, progress=progress)

    def _of(self, counted: float) -> float:
        """Seconds of counted ones, by what the parts that are done took of theirs."""
        return counted * (self._took / self._counted if self._counted else 1.0)

    def _foresee_last(self, event: ProgressEvent) -> None:
        """Foresee the last fit by one that it may go on from."""
        if self.stop is None or event.rhat is None or event.ess is None or not event.sweeps:
            return
        times = work_needed(event.rhat, event.ess, self.stop.rhat, self.stop.ess)
        if times is None or times > MOST_TIMES:
            return
        sweeps = min(times * event.sweeps, float(self.stop.max_sweeps))
        seconds = sweeps * event.seconds / event.sweeps
        if self.stop.max_seconds is not None:
            seconds = min(seconds, self.stop.max_seconds)
        self._last = max(seconds, self._last or 0.0)
