"""The HDP sampler leaves the joint law of data and unknowns alone; planted bugs do not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from statistical import joint, twin
from unikat.kernels import weights as kernels
from unikat.models.base import Stream
from unikat.models.hdp import HDP

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-5
"""Of each test, shared evenly among the functions that are compared; eight such tests, so below
1e-4 in total. A planted bug has to be seen at a hundredth of it."""


def passes(p_values: dict[str, float], share: float = 1.0) -> bool:
    return min(p_values.values()) > share * FALSE_ALARM / len(p_values)


def gaps() -> np.ndarray:
    """Which keys of six records with three keys are known."""
    known = np.ones((6, 3), bool)
    known[0, 0] = known[1, 1] = known[1, 2] = False
    return known


WHOLE = np.ones((6, 3), bool)
FAR_APART = twin.Prior((2, 3, 2), WHOLE, True, (2.0, 4.0), (4.0, 1.0), 1.0)
"""alpha is near 0.5 and alpha_0 near 4, so that one in the other's place shows."""
MANY_BLOCKS = twin.Prior((2,) * 5, np.ones((3, 5), bool), True, (40.0, 10.0), (20.0, 20.0), 0.5, 16)
"""Records of several blocks, for bugs in how they move; concentrations nearly known."""
SHARP = twin.Prior((4,) * 4, np.ones((4, 4), bool), True, (40.0, 10.0), (20.0, 10.0), 0.1, 16)
"""Several blocks, and profiles so different that a wrong component shows."""


@pytest.mark.parametrize(
    "prior",
    [
        FAR_APART,
        FAR_APART._replace(shared=False),
        twin.Prior((2, 3, 2), gaps(), True, (2.0, 1.0), (2.0, 1.0), 0.5),
        twin.Prior((2, 3, 2), gaps(), False, (2.0, 1.0), (2.0, 1.0), 0.5),
    ],
    ids=["shared", "per-record", "shared-missing", "per-record-missing"],
)
def test_sampler_keeps_the_joint_law(prior):
    p = joint.joint_test(prior, joint.advance_model(prior), seed=1, n_runs=60, n_steps=36)
    assert passes(p), p


@pytest.mark.parametrize("prior", [MANY_BLOCKS, SHARP], ids=["many-blocks", "sharp"])
def test_twin_keeps_the_joint_law(prior):
    """Without a planted bug the slow twin passes, at the size at which its bugs are caught."""
    p = joint.joint_test(prior, joint.advance_naive(prior), seed=2, n_runs=40, n_steps=20)
    assert passes(p), p


class Recalling(HDP):
    """The model, telling the planted bug what alpha_0 is."""

    def step(self, stream: Stream, state: Any, data: Any, n_threads: int) -> Any:
        top_of[0] = float(state.top[0])
        return super().step(stream, state, data, n_threads)


top_of = [0.0]


def test_tables_with_the_wrong_concentration_are_caught(monkeypatch):
    """Paper 1's slip: alpha_0 in the place of alpha in the table counts (its step 2, eq. 12)."""
    right = kernels.draw_tables

    def slip(key: Any, sweep: int, alpha: float, *rest: Any) -> Any:
        return right(key, sweep, top_of[0], *rest)

    monkeypatch.setattr(kernels, "draw_tables", slip)
    model = Recalling(**vars(joint.model_of(FAR_APART)))
    p = joint.joint_test(
        FAR_APART, joint.advance_model(FAR_APART, model), seed=3, n_runs=60, n_steps=36
    )
    assert not passes(p, 0.01), p


def test_a_missing_jacobian_is_caught(monkeypatch):
    """alpha drawn on the log scale with its density on the plain scale."""
    right = kernels.draw_alpha

    def slip(key: Any, sweep: int, alpha: float, shape: float, *rest: Any) -> Any:
        return right(key, sweep, alpha, shape - 1.0, *rest)

    monkeypatch.setattr(kernels, "draw_alpha", slip)
    p = joint.joint_test(FAR_APART, joint.advance_model(FAR_APART), seed=4, n_runs=60, n_steps=36)
    assert not passes(p, 0.01), p


@pytest.mark.parametrize(
    ("bug", "prior", "n_runs"),
    [
        ("cumulative", SHARP, 120),
        ("blocks", MANY_BLOCKS, 200),
        ("expected tables", FAR_APART, 30),
    ],
)
def test_bugs_planted_in_the_twin_are_caught(bug, prior, n_runs):
    """Copies off by one, blocks that join other blocks, every token at a table of its own."""
    p = joint.joint_test(
        prior, joint.advance_naive(prior, bug), seed=5, n_runs=n_runs, n_steps=20, n_prior=1500
    )
    assert not passes(p, 0.01), p


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per-record"])
def test_ranks_of_the_truth_are_uniform(shared):
    """Simulation-based calibration (Talts et al. 2018), chains started by the model itself.

    Data with missing keys; ranks of five quantities among 7 draws, 12 sweeps apart, ties broken
    at random; chi-square over 110 data sets.
    """
    n_draws, n_sets, thin, warmup = 7, 110, 12, 24
    prior = twin.Prior((2, 3, 2), gaps(), shared, (2.0, 1.5), (3.0, 1.5), 0.7)
    model = joint.model_of(prior)
    rng = np.random.default_rng(6)
    cells = np.array([[0, 1, 1], [1, -1, 0]], np.int32)
    ranks = []
    for data_set in range(n_sets):
        truth, codes = twin.draw_prior(rng, prior)
        table, order = joint.tabulate(codes, prior)
        data = model.prepare(table)

        def numbers(state: Any, data: Any = data, sweep: int = 0) -> list[float]:
            p = model.cell_probabilities(Stream(0, 0, sweep), state, data, cells)
            squares = float((state.weights**2).sum())
            return [*p, float(np.log(state.alpha).mean()), state.top[0], squares]

        true = np.array(numbers(joint.in_order(truth, order, shared)))
        below = np.zeros(len(true))
        state = model.init(Stream(data_set, data_set % 4, 0), data)
        for time in range(1, warmup + n_draws * thin + 1):
            state, _ = model.step(Stream(data_set, data_set % 4, time), state, data, 1)
            if time > warmup and (time - warmup) % thin == 0:
                seen = np.array(numbers(state))
                below += (seen < true) + (seen == true) * (rng.random(len(true)) < 0.5)
        ranks.append(below)
    p_values = [
        stats.chisquare(np.bincount(column.astype(int), minlength=n_draws + 1)).pvalue
        for column in np.array(ranks).T
    ]
    assert min(p_values) > FALSE_ALARM / len(p_values), p_values
