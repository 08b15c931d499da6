"""R-hat and effective sample size at the edges, and against independent draws."""

from __future__ import annotations

import math

import numpy as np
import pytest

from unikat.inference.diagnostics import diagnose, worst_ess, worst_rhat
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


@pytest.mark.parametrize("draws", [np.zeros((4, 3)), np.full((4, 50), np.nan), np.ones((1, 9))])
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
