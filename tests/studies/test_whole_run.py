"""The progress of a run of several fits: τ1 as the answer has it, and the time of the whole run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from studies.test_auto import RIGHT, WRONG, auto, toys  # noqa: F401  # models for every test
from studies.test_compare import HERE, some_table
from unikat.inference.plan import Plan, StopRule
from unikat.inference.progress import ProgressEvent, Watcher
from unikat.jobs.progress import share_done
from unikat.models.calibrated import Calibrated
from unikat.risk.estimate import interval_of
from unikat.studies.auto import Execution
from unikat.studies.fit import fit
from unikat.studies.whole_run import WholeRun

DRAWS = {"tau1": np.arange(200.0).reshape(2, 100)}
STOP = StopRule(rhat=1.01, ess=400.0)


def event(**changes: Any) -> ProgressEvent:
    found: dict[str, Any] = {
        "sweeps": 100, "max_sweeps": 1000, "seconds": 10.0, "time_left": None, "draws": DRAWS,
        "rhat": 1.01, "ess": 100.0, "seconds_left": 5.0,
    }  # fmt: skip
    return ProgressEvent(**(found | changes))


def run_of(**changes: Any) -> tuple[WholeRun, list[ProgressEvent]]:
    told: list[ProgressEvent] = []
    return WholeRun(watcher=Watcher(progress=told.append), stop=STOP, is_all=True, **changes), told


def tell(watcher: Watcher, **changes: Any) -> None:
    assert watcher.progress is not None
    watcher.progress(event(**changes))


def test_the_time_left_is_that_of_all_fits_to_come() -> None:
    """A fit that ends in 5 seconds is followed by another candidate and the last fit."""
    run, told = run_of()
    run.plan({"a": 20.0, "b": 20.0})
    first = run.part("a", like_last=True)
    tell(first, rhat=None, ess=None)
    # Nothing is known yet of the last fit.
    assert (told[-1].seconds_left, told[-1].time_left) == (None, None)
    tell(first)
    tell(first, sweeps=101)
    # 20 of this one, 20 of the next; the last takes four times the effective draws: 40 s.
    assert told[-1].seconds_left == pytest.approx(80.0, abs=1.0)
    assert told[-1].time_left is not None
    assert told[-1].time_left.upper > 80.0
    # The first took half of what was counted, so the next is expected to.
    run.done("a", 10.0)
    tell(run.part("b"), seconds_left=None, draws={})
    assert told[-1].seconds_left == pytest.approx(10.0 + 40.0, abs=1.0)
    # One that is given up says nothing of the pace.
    run.done("b", None)
    tell(run.last(), seconds_left=33.0)
    assert told[-1].seconds_left == pytest.approx(33.0)
    assert all(one.whole_run for one in told)


def test_no_time_is_promised_where_chains_have_not_met() -> None:
    run, told = run_of()
    run.plan({"a": 20.0})
    tell(run.part("a", like_last=True), rhat=1.4)
    assert told[-1].seconds_left is None
    tell(run.last(), seconds_left=None)
    assert told[-1].seconds_left is None
    assert share_done(told[-1]) is None


def test_limits_bound_the_last_fit() -> None:
    run, told = run_of()
    run.stop = StopRule(rhat=1.01, ess=400.0, max_sweeps=200, max_seconds=None)
    tell(run.part("a", like_last=True))
    assert told[-1].seconds_left == pytest.approx(20.0 + 5.0, abs=0.5)
    run, told = run_of()
    run.stop = StopRule(rhat=1.01, ess=400.0, max_seconds=7.0)
    tell(run.part("a", like_last=True))
    assert told[-1].seconds_left == pytest.approx(7.0 + 5.0, abs=0.5)


def test_only_fits_that_give_an_answer_tell_it() -> None:
    run, told = run_of(level=0.8)
    tell(run.part("a", like_last=True))
    assert told[-1].tau1 is None
    for watcher in (run.answer(), run.last()):
        tell(watcher)
        assert told[-1].tau1 == interval_of(DRAWS["tau1"], 0.8)
    tell(run.last(), draws={})
    assert told[-1].tau1 is None


def test_the_bar_is_that_of_the_time() -> None:
    assert share_done(event(seconds=30.0, seconds_left=10.0)) == pytest.approx(0.75)
    assert share_done(event(seconds_left=None)) is None


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_the_last_that_is_told_is_the_answer(level: float) -> None:
    """Of the very run: not the mean, nor τ1 of a model without its error."""
    events: list[ProgressEvent] = []
    found = fit(
        auto(RIGHT, WRONG),
        some_table(),
        plan=Plan(n_chains=2, stop=StopRule(max_sweeps=400)),
        level=level,
        execution=Execution(workers=HERE, watcher=Watcher(progress=events.append), whole_run=True),
    )
    assert isinstance(found.model, Calibrated)
    tau1 = found.estimate(level).tau1
    assert events[-1].tau1 == (tau1.median, tau1.lower, tau1.upper, level)
    assert events[-1].seconds_left == 0.0 or events[-1].seconds_left is None
    # Three or four fits before it, none of which gives an answer.
    assert sum(one.tau1 is None for one in events) >= 4
    assert all(one.whole_run for one in events)
    seconds = [one.seconds for one in events if not one.preparing]
    assert seconds == sorted(seconds)
