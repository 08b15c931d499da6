"""The time left of a run of several parts, by a clock that only the test moves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.inference.progress import AnswerSoFar, ProgressEvent, TimeLeft, Watcher
from unikat.jobs.progress import describe, share_done
from unikat.jobs.schedule import Left, Part, Schedule
from unikat.protection.search import SearchProgress


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Run:
    """A run whose events are kept."""

    schedule: Schedule
    clock: Clock
    told: list[Any] = field(default_factory=list)
    watcher: Watcher | None = None

    @classmethod
    def of(cls, *parts: Part) -> Run:
        clock, told = Clock(), []
        watcher = Watcher(progress=told.append)
        found = cls(Schedule(watcher=watcher, parts=list(parts), clock=clock), clock)
        found.told = told
        return found

    def begin(self, name: str) -> None:
        self.watcher = self.schedule.begin(name)
        self.begun = self.clock.now

    def fit(self, seconds: float, left: float | None, **changes: Any) -> ProgressEvent:
        """Let some seconds of the part pass, and tell what is left of it."""
        self.clock.now += seconds
        values: dict[str, Any] = {
            "sweeps": 10, "max_sweeps": 1000, "seconds": self.clock.now - self.begun, "draws": {},
            "time_left": None, "rhat": None, "ess": None, "seconds_left": left,
        }  # fmt: skip
        return self._tell(ProgressEvent(**(values | changes)))

    def search(self, seconds: float, looks: int, most: int, **changes: Any) -> SearchProgress:
        self.clock.now += seconds
        values: dict[str, Any] = {
            "name": "Search", "looks": looks, "most_looks": most, "lost": None,
            "seconds": self.clock.now - self.begun,
        }  # fmt: skip
        return self._tell(SearchProgress(**(values | changes)))

    def _tell(self, event: Any) -> Any:
        assert self.watcher is not None
        assert self.watcher.progress is not None
        self.watcher.progress(event)
        return self.told[-1]


FIT = {"like": "fit"}


def protection() -> Run:
    return Run.of(
        Part(name="original", tau1_of="the file as it is", **FIT),
        Part(name="states", work=(0.0, 0.5), **FIT),
        Part(name="search", foreseen=Left(1.0, 40.0)),
        Part(name="protected", tau1_of="the protected file", **FIT),
    )


def test_the_first_fit_tells_what_the_whole_run_may_take() -> None:
    run = protection()
    run.begin("original")
    # Of a fit that tells nothing of itself nothing is known.
    assert run.fit(5.0, None).time_left is None
    run.fit(5.0, 90.0)
    told = run.fit(10.0, 80.0)
    # At least this fit, a look at few plans, and another fit that is four times as quick: 80 + 1 +
    # 25 s. At most twice of it all, with half a fit for the states: 160 + 100 + 40 + 200 s.
    assert told.time_left == TimeLeft(60.0, 600.0)
    assert told.whole_run
    assert told.seconds == 20.0


def test_a_search_makes_the_range_wide_and_its_end_narrow() -> None:
    run = protection()
    run.begin("original")
    run.fit(10.0, 10.0)
    run.fit(10.0, 0.0)
    run.begin("states")
    run.search(1.0, 101, 400, to_the_end=True)
    run.begin("search")
    run.search(0.1, 1, 2000)
    run.search(1.9, 21, 2000)
    wide = run.search(2.0, 21, 4001)
    # Looks are made in 0.2 s each, and there may be 3,981 more: 796 s.
    assert wide.time_left is not None
    assert wide.time_left.lower == 0.0
    assert wide.time_left.upper > 380.0
    assert share_done(wide) is not None
    run.begin("protected")
    run.fit(1.0, 9.0)
    last = run.fit(1.0, 8.0)
    assert last.time_left is not None
    # Of the search that has ended nothing is left; what is told is twice as sure as before.
    assert last.time_left == TimeLeft(0.0, 60.0)
    for left in (4.0, 3.0, 2.0):
        last = run.fit(1.0, left)
    assert last.time_left == TimeLeft(0.0, 30.0)
    assert "less than 30 seconds left" in describe(run.told[-1])


def test_nothing_is_told_while_a_part_to_come_is_unknown() -> None:
    run = Run.of(Part(name="a"), Part(name="b"))
    run.begin("a")
    for _ in range(3):
        assert run.fit(1.0, 20.0).time_left is None
    run.begin("b")
    run.fit(1.0, 20.0)
    assert run.fit(1.0, 19.0).time_left is not None


def test_a_part_that_takes_longer_than_it_said_moves_no_bar_back() -> None:
    # A part that is passed over takes no time.
    run = Run.of(Part(name="search", foreseen=Left(1.0, 20.0)), Part(name="last", **FIT))
    run.begin("last")
    run.fit(1.0, 5.0)
    assert run.fit(1.0, 4.0).share == pytest.approx(2 / 6)
    assert run.fit(1.0, 40.0).share == pytest.approx(2 / 6)
    assert run.told[-1].time_left is None or run.told[-1].time_left.upper >= 40.0


@pytest.mark.parametrize("seed", range(10))
def test_whatever_comes_the_bar_never_falls_and_ranges_seldom_grow(seed: int) -> None:
    """Estimates that jump, parts in any order, searches that end early or late."""
    rng = np.random.default_rng(seed)
    run, end, before, grown = protection(), np.inf, 0.0, 0
    for name in ("original", "states", "search", "protected"):
        run.begin(name)
        for look in range(1, 20):
            seconds = float(rng.exponential(2.0))
            if name in ("original", "protected"):
                left = None if rng.random() < 0.2 else float(rng.exponential(30.0))
                told = run.fit(seconds, left)
            else:
                told = run.search(seconds, look, 20, to_the_end=name == "states")
            share = share_done(told)
            assert share is None or before <= share <= 1.0
            before = before if share is None else share
            if told.time_left is not None:
                left = getattr(told, "seconds_left", None) or 0.0
                assert told.time_left.lower <= told.time_left.upper >= left
                grown += told.time_left.upper > end
                end = told.time_left.upper
    # Each time it has to be twice as sure.
    assert grown <= 4


def test_counted_work_is_corrected_by_the_pace_of_the_fits_made() -> None:
    """Of a comparison: sweeps take twice as long as was counted, so the next model's do too."""
    first = Part(name="fit", like="a", foreseen=Left(10.0, 900.0), sweep=0.1)
    second = Part(name="fit", like="b", foreseen=Left(10.0, 900.0), sweep=0.1)
    run = Run.of(first, second)
    run.watcher, run.begun = run.schedule.each("fit"), run.clock.now
    run.watcher.stage("a: fitting")
    run.fit(20.0, 10.0, sweeps=100)
    told = run.fit(0.0, 10.1, sweeps=100)
    # At least 10.1 and 10 x 3 x 2 s; at most twice of the first, and 900 / 3 x 2.
    assert told.time_left == TimeLeft(60.0, 1800.0)


def test_each_stage_of_a_group_of_fits_begins_the_next_and_others_follow() -> None:
    run = Run.of(
        *(Part(name="fit", **FIT) for _ in range(3)), Part(name="more", work=(0.0, 9.0), **FIT)
    )
    watcher = run.schedule.each("fit", "more")
    left = []
    for words in ("first", "second", "third", "going on", "going on"):
        watcher.stage(words)
        left.append([one.name for one in run.schedule.parts])
    assert left == [["fit", "fit", "more"], ["fit", "more"], ["more"], [], []]


def test_of_a_run_of_which_nothing_is_known_the_time_is_that_of_a_fit() -> None:
    run = Run.of()
    run.begin("a")
    told = run.fit(1.0, 5.0)
    assert not told.whole_run
    assert told.seconds_left == 5.0
    # A part that nobody foresaw takes none of those to come away.
    run = protection()
    run.begin("another")
    assert run.fit(1.0, 5.0).time_left is None
    assert len(run.schedule.parts) == 4


def test_only_files_that_the_answer_tells_have_a_picture() -> None:
    answer = AnswerSoFar(5.0, 2.0, 9.0, 0.95)
    run = Run.of(Part(name="a", tau1_of="the protected file", **FIT), Part(name="b", **FIT))
    run.begin("a")
    told = run.fit(1.0, 1.0, tau1=answer)
    assert (told.tau1, told.tau1_of) == (answer, "the protected file")
    assert "τ1 of the protected file 5 (95% interval 2 to 9)" in describe(told)
    run.begin("b")
    assert run.fit(1.0, 1.0, tau1=answer).tau1 is None


def test_who_is_not_told_costs_nothing() -> None:
    schedule = Schedule(watcher=Watcher(), parts=[])
    assert schedule.begin("a").progress is None
    assert schedule.each("a").progress is None


def test_a_fit_of_a_resumed_run_has_gone_on_before() -> None:
    run = Run.of(Part(name="a", **FIT), Part(name="b", **FIT))
    run.begin("a")
    run.begun -= 89.0
    assert run.fit(1.0, 10.0).seconds == 90.0
    # The next one may be as long as all of it.
    run.begin("b")
    run.fit(0.0, None)
    told = run.fit(1.0, None)
    assert told.time_left is not None
    assert told.time_left.upper >= 90.0


SHORT: dict[str, Any] = {
    "keys": "age,sex,place", "population_size": 900, "model": "latent-class", "chains": 2,
    "max_sweeps": 60, "workers": 1, "progress": True,
}  # fmt: skip


def people(seed: int, n: int = 120) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 60, n),
            "sex": rng.integers(0, 2, n),
            "place": np.minimum(rng.geometric(0.4, n), 6),
        }
    )


def _protect() -> None:
    unikat.protect(people(1), target="tau1 <= 40", recodings={"age": ["width(5)"]}, **SHORT)


def _compare() -> None:
    how = {name: value for name, value in SHORT.items() if name != "model"}
    unikat.compare(people(1), models="latent-class,hdp", **how)


def _attack() -> None:
    made = [people(2), people(3)]
    unikat.attack(people(1), made, control=people(4), **SHORT)


@pytest.mark.parametrize("make", [_protect, _compare, _attack])
def test_a_run_says_its_parts_and_all_of_them_come(
    make: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every event is one of the run, and at its end no part is left."""
    told: list[Any] = []
    made: list[Schedule] = []
    after_init = Schedule.__post_init__

    @contextlib.contextmanager
    def watching(_: bool | None = None) -> Iterator[Watcher]:
        yield Watcher(progress=told.append)

    def noted(schedule: Schedule) -> None:
        made.append(schedule)
        after_init(schedule)

    monkeypatch.setattr("unikat.jobs.from_python.watching", watching)
    monkeypatch.setattr(Schedule, "__post_init__", noted)
    make()
    fits = [one for one in told if isinstance(one, ProgressEvent)]
    assert fits
    assert all(one.whole_run for one in fits)
    seconds = [one.seconds for one in told]
    assert seconds == sorted(seconds)
    shares = [one.share for one in told if one.share is not None]
    assert shares == sorted(shares)
    assert made[0].parts == []
