from __future__ import annotations

import math

import pytest

from unikat.studies.path import PathPoint, agree, stabilised


def path(means, deviation=4.0, ess=400.0):
    return [
        PathPoint(value=value, mean=mean, deviation=deviation, ess=ess)
        for value, mean in means.items()
    ]


@pytest.mark.parametrize(
    ("means", "chosen"),
    [
        ({2: 90, 5: 60, 10: 52, 20: 51, 30: 51.5}, 10),
        ({2: 50, 5: 50, 10: 50}, 2),
        ({2: 90, 5: 70, 10: 50}, None),
        # A slow drift: each step is small, the whole way is not.
        ({k: 100 - 4 * k for k in range(1, 9)}, None),
        # The same value twice says nothing.
        ({2: 90, 20: 52, 29: 51}, None),
        ({2: 90, 20: 52, 25: 51, 29: 51}, None),
        ({2: 90, 20: 52, 25: 51, 30: 51}, 20),
        # Two neighbours are not enough, nor is one larger value that is not far away.
        ({1: 50, 2: 50}, None),
        ({1: 50, 2: 50, 3: 50}, 1),
        ({2: 90, 20: 52, 30: 51}, None),
        ({2: 90, 20: 52, 40: 51}, None),
        ({2: 90, 20: 52, 41: 51}, 20),
        # Stable for a while is not stable.
        ({2: 50, 5: 50, 10: 50, 20: 80}, None),
        ({30: 51, 2: 90, 10: 50}, 10),  # in any order
        ({1: 50}, None),
        ({}, None),
        ({1: 0.0, 3: 0.0}, 1),
    ],
)
def test_the_smallest_value_from_which_on_nothing_changes(means, chosen):
    assert stabilised(path(means)) == chosen


def test_a_path_of_wide_posteriors_is_measured_by_them():
    narrow, wide = path({1: 50, 2: 54}, deviation=1.0), path({1: 50, 2: 54}, deviation=9.0)
    assert not agree(*narrow)
    assert agree(*wide)
    # One wide posterior is not enough.
    assert not agree(narrow[0], wide[1])


def test_noise_does_not_pass_for_agreement():
    for ess in (1.0, 100.0, math.nan):
        assert not agree(*path({1: 50.0, 2: 54.0}, deviation=4.0, ess=ess))
    # 5% of 52.7 is 2.6; the Monte Carlo error of the difference allows a little more.
    assert agree(*path({1: 50.0, 2: 52.7}, deviation=0.5, ess=100.0))
    assert not agree(*path({1: 50.0, 2: 52.7}, deviation=0.5, ess=1e9))
