"""R-hat and effective sample size at the edges, and against independent draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unikat.inference.diagnostics import ENDS, as_part, diagnose, worst_ess, worst_rhat
from unikat.inference.draws import Diagnostics


def test_independent_draws():
    draws = np.random.default_rng(1).normal(size=(4, 1000))
    one = diagnose(draws)
    assert one.rhat < 1.01
    assert 3000 < one.ess_bulk < 5000
    assert 3000 < one.ess_tail < 5000


def test_same_as_arviz_on_labelled_arrays():
    azs = pytest.importorskip("arviz_stats")
    draws = np.cumsum(np.random.default_rng(2).normal(size=(3, 200)), axis=1)
    one = diagnose(draws)
    from arviz_base import from_dict

    tree = from_dict({"posterior": {"x": draws}})
    assert one.rhat == float(azs.rhat(tree)["x"])
    assert one.ess_bulk == float(azs.ess(tree, method="bulk")["x"])
    assert one.ess_tail == float(azs.ess(tree, method="tail", prob=(0.05, 0.95))["x"])


def test_constant_is_converged_with_all_its_draws():
    assert diagnose(np.full((4, 30), 7.5)) == Diagnostics(rhat=1.0, ess_bulk=120.0, ess_tail=120.0)


def test_chains_constant_at_different_values_are_not_converged():
    assert diagnose(np.repeat([[0.0], [1.0]], 100, axis=1)).rhat > 1e6


def test_a_chain_apart_is_seen():
    draws = np.random.default_rng(3).normal(size=(4, 500))
    draws[2] += 5.0
    assert diagnose(draws).rhat > 1.2


@pytest.mark.parametrize(
    "draws", [np.zeros((4, 3)), np.full((4, 50), np.nan), np.ones((1, 9)), np.ones((1, 1))]
)
def test_too_few_or_not_finite(draws):
    assert all(math.isnan(x) for x in vars(diagnose(draws)).values())


def test_one_infinite_draw_prevents_convergence():
    draws = np.random.default_rng(4).normal(size=(4, 500))
    draws[1, 3] = np.inf
    assert math.isnan(diagnose(draws).rhat)


def test_one_chain_is_judged_by_its_halves():
    draws = np.random.default_rng(5).normal(size=(1, 1001))
    assert diagnose(draws).rhat < 1.02
    drifting = draws + np.linspace(0.0, 5.0, 1001)
    assert diagnose(drifting).rhat > 1.2


def test_rare_events():
    """A risk that is zero but for a few draws has finite numbers."""
    draws = np.zeros((4, 200))
    draws[:, ::50] = 1.0
    one = diagnose(draws)
    assert np.isfinite([one.rhat, one.ess_bulk, one.ess_tail]).all()


def test_worst():
    good = Diagnostics(rhat=1.0, ess_bulk=500.0, ess_tail=400.0)
    bad = Diagnostics(rhat=1.3, ess_bulk=50.0, ess_tail=70.0)
    none = Diagnostics(rhat=math.nan, ess_bulk=math.nan, ess_tail=math.nan)
    assert (worst_rhat({"a": good, "b": bad}), worst_ess({"a": good, "b": bad})) == (1.3, 50.0)
    assert math.isnan(worst_rhat({"a": good, "b": none}))
    assert math.isnan(worst_ess({"a": none, "b": good}))
    assert math.isnan(worst_rhat({}))


def test_a_part_is_judged_by_what_it_means_for_the_whole():
    """X = Y e: the ESS by Y is that of X with all draws of e, 1/20 of its deviation at 400."""
    rng = np.random.default_rng(6)
    n, slow, means, deviations, sizes = 600, 0.95, [], [], []
    for _ in range(60):
        y = rng.normal(size=(4, n))
        for t in range(1, n):
            y[:, t] = slow * y[:, t - 1] + np.sqrt(1.0 - slow**2) * y[:, t]
        y = 100.0 + 10.0 * y
        x = 1.3 * y * np.exp(rng.normal(0.0, 0.15, y.shape))
        found = as_part(diagnose(y), y, x)
        sizes.append(found.ess_bulk)
        means.append(1.3 * np.exp(0.5 * 0.15**2) * y.mean())
        deviations.append(x.std())
    error = np.std(means) / np.mean(deviations)
    # Sixty replicates tell a standard deviation to a tenth.
    assert error == pytest.approx(1.0 / np.sqrt(np.mean(sizes)), rel=0.3)
    assert found.ess_bulk > 1.3 * diagnose(y).ess_bulk


def test_a_whole_in_another_unit_is_judged_as_its_part():
    """X = 3 Y has the relative variance of Y: the share is one."""
    y = np.random.default_rng(8).normal(50.0, 5.0, (4, 200))
    found, own = as_part(diagnose(y), y, 3.0 * y), diagnose(y)
    assert found.rhat == pytest.approx(own.rhat)
    assert found.ess_bulk == pytest.approx(own.ess_bulk)


def test_chains_that_stay_apart_are_seen_in_the_part_however_large_the_error():
    rng = np.random.default_rng(7)
    y = rng.normal(100.0, 1.0, (4, 500)) + np.array([[-2.0], [0.0], [0.0], [2.0]])
    x = y * np.exp(rng.normal(0.0, 1.0, y.shape))
    assert diagnose(x).rhat < 1.01
    found = as_part(diagnose(y), y, x)
    assert found.rhat > 1.05
    assert found.ess_bulk < 80.0


def test_the_ends_of_a_whole_ask_for_more_draws():
    """By simulation 1,600 draws know an end to 1/15 of the standard deviation."""
    one = Diagnostics(rhat=1.0, ess_bulk=900.0, ess_tail=800.0)
    assert worst_ess({"x": one}, 1000) == 1000 / ENDS
    assert worst_ess({"x": one}, 8000) == worst_ess({"x": one}) == 800.0
    assert math.isnan(worst_ess({}, 1000))
    ends = np.quantile(np.random.default_rng(9).normal(size=(400, 1600)), 0.975, axis=1)
    assert ends.std() == pytest.approx(1.0 / 15.0, rel=0.15)


def test_a_part_without_error_is_judged_as_it_is():
    y = np.random.default_rng(8).normal(50.0, 5.0, (4, 200))
    assert as_part(diagnose(y), y, y) == diagnose(y)
    none = as_part(Diagnostics(rhat=math.nan, ess_bulk=math.nan, ess_tail=math.nan), y * 0.0, y)
    assert math.isnan(none.rhat)
