"""The range of the time left: from a fixed ladder, never growing."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from unikat.inference.progress import MARGIN, RANGES, Countdown, TimeLeft


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
def test_a_range_never_grows(seed):
    """Estimates jump up and down by a factor of ten; what is shown only falls, or goes."""
    rng = np.random.default_rng(seed)
    countdown, shown, now = Countdown(), [], 0.0
    for left in np.linspace(1000.0, 0.0, 200):
        now += 5.0
        estimate = None if rng.random() < 0.1 else float(left * 10 ** rng.uniform(-1, 1))
        shown.append(countdown.update(estimate, now))
    uppers = [part.upper for part in shown if part is not None]
    assert uppers == sorted(uppers, reverse=True)
    gone = [part is None for part in shown]
    # Once it could not be kept, no other range takes its place.
    first = gone.index(False)
    assert sorted(gone[first:]) == gone[first:]


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
    assert countdown.update(None, 2.0) == TimeLeft(60.0, 180.0)
    # Past the end of the range.
    assert countdown.update(1000.0, 190.0) is None
    assert countdown.update(5.0, 191.0) is None
    assert MARGIN > 1.0
