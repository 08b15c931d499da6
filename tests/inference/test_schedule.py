"""The cutting of chains, by counting."""

from __future__ import annotations

import pytest

from unikat.inference import schedule


@pytest.mark.parametrize(
    ("sweep", "observe", "thin"),
    [(1.0, 0.0, 1), (1.0, 0.5, 1), (1.0, 0.6, 2), (1.0, 10.0, 20), (1.0, 1e9, 50), (0.0, 1.0, 1)],
)
def test_observing_costs_at_most_half_of_sweeping(sweep, observe, thin):
    assert schedule.default_thin(sweep, observe) == thin


def test_chains_that_go_on_are_observed_half_as_often():
    assert schedule.default_thin(1.0, 0.2, goes_on=True) == 1
    assert schedule.default_thin(1.0, 10.0, goes_on=True) == 40
    assert schedule.default_thin(1.0, 1e9, goes_on=True) == schedule.MAX_THIN


def cuts(thin, shortest, until):
    """List the ends of all rounds up to a sweep."""
    ends = [0]
    while ends[-1] < until:
        ends.append(schedule.next_cut(ends[-1], thin, shortest))
    return ends[1:]


@pytest.mark.parametrize("thin", [1, 3, 50])
@pytest.mark.parametrize("draws", [1, 2, 16])
def test_rounds_are_multiples_of_thin_within_one_epoch_and_not_too_long(thin, draws):
    ends = cuts(thin, draws * thin, 10_000 * thin)
    for before, end in zip([0, *ends], ends, strict=False):
        assert end % thin == 0
        assert schedule.epoch(before + 1, thin) == schedule.epoch(end, thin)
        assert end - before <= max(draws * thin, end / 8)
    assert 20 <= len([end for end in ends if end <= 4000 * thin]) <= 90


def test_a_cheap_run_has_a_moderate_number_of_rounds():
    shortest = schedule.shortest_round(5e6, 1e6, 1)
    assert 20 <= len(cuts(1, shortest, 2000)) <= 60


def test_a_costly_sweep_is_a_round_of_its_own():
    assert schedule.shortest_round(1e9, 1e9, 2) == 2
    assert schedule.shortest_round(1.0, 1.0, 2) == 2 * schedule.MAX_FIRST_ROUND


def test_cuts_do_not_depend_on_where_a_round_began():
    ends = cuts(2, 4, 5000)
    for start in range(0, 4000, 7):
        assert schedule.next_cut(start, 2, 4) == min(end for end in ends if end > start)


@pytest.mark.parametrize("thin", [1, 7])
def test_epochs_double_and_a_quarter_to_a_half_is_discarded(thin):
    first = schedule.FIRST_EPOCH * thin
    starts = [schedule.epoch_start(number, thin) for number in range(6)]
    assert starts == [0, first, 2 * first, 4 * first, 8 * first, 16 * first]
    for n_sweeps in range(1, 40 * first):
        number = schedule.epoch(n_sweeps, thin)
        assert starts_before(n_sweeps, number, thin)
        discarded = schedule.n_discarded_sweeps(n_sweeps, thin)
        assert discarded == schedule.epoch_start(number - 1, thin)
        if n_sweeps > 2 * first:
            assert 0.25 <= discarded / n_sweeps < 0.5
    assert schedule.n_discarded_sweeps(0, thin) == 0


def starts_before(n_sweeps, number, thin):
    return schedule.epoch_start(number, thin) < n_sweeps <= schedule.epoch_start(number + 1, thin)
