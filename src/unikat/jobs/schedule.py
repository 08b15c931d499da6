"""The parts of a run, and the time that is left of all of them.

A fit or a search knows at most how long it goes on itself. A run that has several says beforehand
which parts it has, and what is known of each. Here the events of a part become those of the run:

- of a part that goes on, its own estimate counts, or what was foreseen less what it has taken;
- of a part to come, what the parts of its group have taken, or the counted work of its fit by the
  pace of the fits that were made;
- where nothing is known of a part, no time is told.

What is left is a range. Its ends are added up, so that a search which may end at once or look at
thousands of plans makes it wide, and `Countdown` puts it on the ladder of ranges.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from unikat.inference.progress import MARGIN, Countdown, ProgressEvent, TimeLeft, Watcher
from unikat.inference.trial import GUESSED
from unikat.jobs.job import Job
from unikat.protection.search import SearchProgress
from unikat.studies.foreseen import ForeseenFit

ORIGINAL, PROTECTED = "the file as it is", "the protected file"
"""Files of which one run estimates τ1."""
FEW_LOOKS = 20
QUICKER = 4.0
"""Times that a part of a group may be quicker than the others; longer it may be by `MARGIN`."""


class Left(NamedTuple):
    """Seconds, at least and at most."""

    least: float
    most: float

    def after(self, spent: float) -> Left | None:
        """What is left after some of it; None if it takes longer than at most."""
        return Left(max(self.least - spent, 0.0), self.most - spent) if spent < self.most else None


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a run, such as a fit or a search."""

    name: str
    like: str = ""
    """Of a group of parts that take about as long as each other."""
    work: tuple[float, float] = (1.0, 1.0)
    """Of a part of the group, at least and at most; of what says nothing of the others from 0."""
    foreseen: Left | None = None
    """Before any part of the group was made; None: not known."""
    sweep: float = 0.0
    """Counted seconds of a sweep of a fit, by which it was foreseen; 0: it was not counted."""
    tau1_of: str | None = None
    """The file whose τ1 it estimates, in words, if the answer has that; None: it is not told."""

    @property
    def usual(self) -> float:
        """Its work, where that tells how long others of the group take; else 0."""
        return math.sqrt(math.prod(self.work))

    @classmethod
    def counted(cls, fits: Iterable[ForeseenFit], *, timed: bool, **more: Any) -> Part:
        """Foresee a part of some fits by their counted work; `timed`: they have a time limit."""
        some = [one for one in fits if one.refused is None]
        foreseen = Left(sum(one.lower for one in some), sum(one.upper for one in some))
        sweep = some[0].course.seconds_per_sweep if len(some) == 1 and some[0].course else 0.0
        return cls(foreseen=foreseen, sweep=0.0 if timed else sweep, **more)


@dataclass(kw_only=True)
class Schedule:
    """The parts of a run, in order; a part that is passed over takes no time."""

    watcher: Watcher
    parts: list[Part]
    """Those to come. Without any nothing is known of the run, and events stay those of their part.
    """
    clock: Callable[[], float] = time.monotonic
    _known: bool = False
    _now: Part | None = None
    _begun: float = 0.0
    """When the run began."""
    _since: float = 0.0
    """When the part that goes on began."""
    _took: dict[str, list[float]] = field(default_factory=dict)
    """Of each group, the seconds of the parts that were made, by their work."""
    _seconds: float | None = None
    """Of the part that goes on, as far as its events tell; None before the first."""
    _pace: float | None = None
    """Seconds of the last fit for each that was counted."""
    _share: float | None = None
    _countdown: Countdown = field(default_factory=Countdown)

    def __post_init__(self) -> None:
        """Begin."""
        self._begun, self._known = self.clock(), bool(self.parts)

    def begin(self, name: str) -> Watcher:
        """Begin the next part of a name, and return its watcher; others before it are done.

        One that was not foreseen is not known, and those to come stay.
        """
        now = self._now
        if now is not None and now.like and now.usual and self._seconds is not None:
            self._took.setdefault(now.like, []).append(self._seconds / now.usual)
        places = [place for place, one in enumerate(self.parts) if one.name == name]
        self._now = self.parts[places[0]] if places else Part(name=name)
        if places:
            del self.parts[: places[0] + 1]
        self._since, self._seconds = self.clock(), None
        self._countdown.forget()
        tell = self.watcher.progress
        if tell is None or not self._known:
            return self.watcher
        part = self._now
        return replace(self.watcher, progress=lambda event: tell(self._told(part, event)))

    def job(self, job: Job[Any], name: str) -> Job[Any]:
        """Begin the next part of a name, and return the run as that part sees it."""
        return replace(job, watcher=self.begin(name))

    def each(self, name: str, then: str = "") -> Watcher:
        """Return a watcher each stage of which begins the next part of a name.

        `then`: the part that all stages are after those.
        """
        current = self.watcher

        def stage(words: str) -> None:
            nonlocal current
            if any(one.name == name for one in self.parts):
                current = self.begin(name)
            elif then and (self._now is None or self._now.name != then):
                current = self.begin(then)
            self.watcher.stage(words)

        def progress(event: Any) -> None:
            if current.progress is not None:
                current.progress(event)

        found = replace(self.watcher, stage=stage)
        return found if self.watcher.progress is None else replace(found, progress=progress)

    def _told(self, part: Part, event: Any) -> Any:
        """Make an event of a part one of the run."""
        now = self.clock()
        spent, run = now - self._since, now - self._begun
        if isinstance(event, ProgressEvent):
            # Of a run that is resumed it has gone on before.
            run += max(event.seconds - spent, 0.0)
            spent = max(event.seconds, spent)
            if event.sweeps and part.sweep:
                self._pace = event.seconds / (event.sweeps * part.sweep)
        self._seconds = spent
        left = self._of_all(part, event, spent)
        middle = time_left = None
        if left is None:
            self._countdown.update(None, now)
        else:
            middle = math.sqrt(max(left.least, left.most / MARGIN**3) * left.most / MARGIN)
            time_left = self._countdown.update(left.most / MARGIN, now, left.least)
            share = run / max(run + middle, 1e-9)
            self._share = share if self._share is None else max(share, self._share)
        return self._with(part, event, run, middle, time_left)

    def _with(
        self, part: Part, event: Any, run: float, left: float | None, time_left: TimeLeft | None
    ) -> Any:
        if isinstance(event, SearchProgress):
            return replace(event, seconds=run, time_left=time_left, share=self._share)
        if not isinstance(event, ProgressEvent):
            return event
        return replace(
            event,
            seconds=run,
            seconds_left=left,
            time_left=time_left,
            share=self._share,
            whole_run=True,
            tau1=None if part.tau1_of is None else event.tau1,
            tau1_of=part.tau1_of or "",
        )

    def _of_all(self, part: Part, event: Any, spent: float) -> Left | None:
        """What is left of the part that goes on and of those to come; None if one is not known."""
        took: dict[str, float] = {}
        if isinstance(event, ProgressEvent) and event.seconds_left is not None and part.usual:
            took[part.like] = (spent + event.seconds_left) / part.usual
        every = [
            self._of_event(part, event, spent),
            *(self._to_come(one, took.get(one.like)) for one in self.parts),
        ]
        known = [one for one in every if one is not None]
        if len(known) < len(every):
            return None
        return Left(sum(one.least for one in known), sum(one.most for one in known))

    def _of_event(self, part: Part, event: Any, spent: float) -> Left | None:
        foreseen = self._to_come(part)
        before = None if foreseen is None else foreseen.after(spent)
        if isinstance(event, SearchProgress):
            done = event.looks - 1
            if done < 1:
                return before
            left = max(event.most_looks - done, 0) * event.seconds / done
            if event.to_the_end:
                return Left(left, left * MARGIN)
            # A few looks do not tell the pace: the first ones are at coarse plans.
            if before is not None and done < FEW_LOOKS:
                left = max(left, before.most)
            return Left(0.0, left)
        if isinstance(event, ProgressEvent) and event.seconds_left is not None:
            return Left(event.seconds_left, event.seconds_left * MARGIN)
        return before

    def _to_come(self, part: Part, going_on: float | None = None) -> Left | None:
        """Foresee a part by those of its group, one that goes on included, or by its work."""
        took = self._took.get(part.like, []) if part.like else []
        if part.like and going_on is not None:
            took = [*took, going_on]
        if took:
            least, most = part.work
            return Left(min(took) * least / QUICKER, max(took) * most * MARGIN)
        if part.foreseen is None or not part.sweep or self._pace is None:
            return part.foreseen
        # Counted work may be wrong by a factor, which the pace of other fits has told.
        least, most = part.foreseen
        return Left(least * GUESSED * self._pace, most / GUESSED * self._pace)
