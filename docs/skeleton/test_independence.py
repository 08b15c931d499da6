"""The test file: in the package, `tests/models/test_independence.py`.

What every sampler owes: its exact posterior on a small table, its law of new individuals, purity,
and an assessment through the public door.
"""

from __future__ import annotations

import numpy as np
import pytest
from independence_model import Independence
from scipy import stats

import unikat
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream

KEYS = [Key.of_size("A", 2), Key.of_size("B", 3)]
RECORDS = [[0, 0], [0, 1], [1, 1], [-1, 2], [0, 1]]
TABLE = CellTable.from_codes(RECORDS * 4, KEYS, population_size=1000)
FALSE_ALARM = 1e-6


def states(n):
    model = Independence()
    data = model.prepare(TABLE)
    state = model.init(Stream(1, 0, 0), data)
    for sweep in range(1, n + 1):
        state, _ = model.step(Stream(1, 0, sweep), state, data, 1)
        yield model, data, state


def test_the_posterior_is_the_exact_one():
    """Every share is Beta(1 + count, rest): Kolmogorov-Smirnov, five of them."""
    draws = np.array([state.shares for *_, state in states(4000)])
    counts = [12, 4, 4, 12, 4]
    rest = [4, 12, 16, 8, 16]
    for row, (here, elsewhere) in enumerate(zip(counts, rest, strict=True)):
        levels = 2 if row < 2 else 3
        law = stats.beta(1 + here, elsewhere + levels - 1)
        assert stats.kstest(draws[:, row], law.cdf).pvalue > FALSE_ALARM / 5


def test_new_individuals_follow_the_cell_probabilities():
    model, data, state = next(states(1))
    cells = np.array([[a, b] for a in range(2) for b in range(3)], np.int32)
    p = model.cell_probabilities(Stream(1, 0, 1), state, data, cells)
    np.testing.assert_allclose(p.sum(), 1.0)
    drawn = model.simulate(Stream(1, 0, 1), state, data, 20_000)
    observed = np.bincount(drawn @ [3, 1], minlength=6)
    assert stats.chisquare(observed, p * 20_000).pvalue > FALSE_ALARM


def test_a_step_leaves_the_state_alone():
    model, data, state = next(states(1))
    before = state.shares.copy()
    model.step(Stream(1, 0, 2), state, data, 1)
    np.testing.assert_array_equal(state.shares, before)


def test_impossible_combinations_are_refused():
    """A model that ignored them would give them probability without a word."""
    handled = unikat.apply_zeros(TABLE, unikat.Zeros.of(["A == 1 and B == 0"], KEYS))
    with pytest.raises(SpecError, match="impossible combinations"):
        Independence().prepare(handled.table)
    plan = Plan(n_chains=2, thin=1, stop=StopRule(max_sweeps=20))
    with pytest.raises(SpecError, match="impossible combinations"):
        unikat.fit(Independence(), handled.table, seed=1, plan=plan)


def test_the_risk_can_be_assessed():
    """Nothing above the contract knows the model."""
    plan = Plan(n_chains=2, thin=1, stop=StopRule(max_sweeps=200))
    estimate = unikat.fit(Independence(), TABLE, seed=1, plan=plan).estimate()
    assert 0 <= estimate.tau1.mean <= TABLE.n_uniques
