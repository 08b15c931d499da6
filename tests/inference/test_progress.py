"""The range of the time left: from a fixed ladder, and none where it is not known."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from unikat.inference.progress import (
    MARGIN,
    MOST_TIMES,
    RANGES,
    Countdown,
    Outlook,
    TimeLeft,
    seconds_left,
)


def test_ranges_cover_all_times_in_words():
    assert [str(part) for part in RANGES] == [
        "less than 10 seconds", "10 to 30 seconds", "30 to 60 seconds", "1 to 3 minutes",
        "3 to 10 minutes", "10 to 30 minutes", "30 to 60 minutes", "1 to 3 hours",
        "3 to 10 hours", "more than 10 hours",
    ]  # fmt: skip
    for before, after in pairwise(RANGES):
        assert before.upper == after.lower
    assert (RANGES[0].lower, RANGES[-1].upper) == (0.0, math.inf)


@pytest.mark.parametrize("seed", range(20))
def test_nothing_is_shown_that_the_newest_estimate_denies(seed):
    """Estimates jump up and down by a factor of ten, and sometimes there is none."""
    rng = np.random.default_rng(seed)
    countdown, shown, now = Countdown(), [], 0.0
    for left in np.linspace(1000.0, 0.0, 200):
        now += 5.0
        estimate = None if rng.random() < 0.1 else float(left * 10 ** rng.uniform(-1, 1))
        shown.append(countdown.update(estimate, now))
        assert estimate is not None or shown[-1] is None
        assert shown[-1] is None or estimate is None or estimate <= shown[-1].upper


def test_good_estimates_keep_what_they_promise():
    """The end of the range shown is never before the true end, if estimates are right."""
    for total in (5.0, 45.0, 170.0, 2500.0):
        countdown = Countdown()
        for now in np.linspace(0.0, total, 60):
            shown = countdown.update((total - now) * 1.2, now)
            # One estimate is none.
            assert (shown is None) == (now == 0.0)
            assert shown is None or now + shown.upper >= total


def test_no_estimate_shows_nothing():
    countdown = Countdown()
    assert countdown.update(None, 0.0) is None
    assert countdown.update(80.0, 1.0) is None
    assert countdown.update(70.0, 1.0) == TimeLeft(60.0, 180.0)
    assert countdown.update(None, 2.0) is None
    assert MARGIN > 1.0


def test_what_was_told_too_early_is_taken_back_at_once():
    """Effective draws of a few sweeps are too many by chance, and then stay where they are."""
    countdown = Countdown()
    countdown.update(20.0, 0.0)
    assert countdown.update(19.0, 1.0) == TimeLeft(30.0, 60.0)
    told = countdown.update(270.0, 2.0)
    assert told == TimeLeft(600.0, 1800.0)
    # Twice as sure as before.
    assert countdown.update(250.0, 22.0) == told


@pytest.mark.parametrize(("rhat", "ess"), [(1.005, 30.0), (1.09, 390.0), (1.2, 390.0)])
def test_no_time_is_told_while_most_is_to_come(rhat, ess):
    outlook = Outlook(
        sweeps=1056, checked_at=1056, rhat=rhat, ess=ess, target_rhat=1.01, target_ess=400.0,
        max_sweeps=10**6, seconds_per_sweep=0.02, seconds_to_limit=None,
    )  # fmt: skip
    assert seconds_left(outlook, MOST_TIMES) is None
    known = seconds_left(replace(outlook, rhat=1.02, ess=200.0), MOST_TIMES)
    assert known == pytest.approx(1056 * 0.02)
