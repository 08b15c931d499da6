"""The samplers leave the joint law of data and unknowns alone; planted bugs do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from statistical import joint, twin
from unikat.kernels import profiles, split_merge, weights
from unikat.models.base import Stream
from unikat.models.mixtures import latent_class
from unikat.models.mixtures.hdp import HDP

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

FALSE_ALARM = 1e-5
"""Of each test, shared evenly among the functions that are compared; 23 such tests, so 2.3e-4
in total. A planted bug has to be seen at a hundredth of it."""


def passes(p_values: dict[str, float], share: float = 1.0) -> bool:
    return min(p_values.values()) > share * FALSE_ALARM / len(p_values)


def gaps(empty: bool = False) -> np.ndarray:
    """Which keys of six records with three keys are known; `empty`: one record has none."""
    known = np.ones((6, 3), bool)
    known[0, 0] = known[1, 1] = known[1, 2] = False
    known[3] = not empty
    return known


WHOLE = np.ones((6, 3), bool)
FAR_APART = twin.Prior((2, 3, 2), WHOLE, "shared", (2.0, 4.0), (4.0, 1.0), 1.0)
"""alpha is near 0.5 and alpha_0 near 4, so that one in the other's place shows."""
MANY_BLOCKS = twin.Prior(
    (2,) * 5, np.ones((3, 5), bool), "shared", (40.0, 10.0), (20.0, 20.0), 0.5, 16
)
"""Records of several blocks, for bugs in how they move; concentrations nearly known."""
SHARP = twin.Prior((4,) * 4, np.ones((4, 4), bool), "shared", (40.0, 10.0), (20.0, 10.0), 0.1, 16)
"""Several blocks, and profiles so different that a wrong component shows."""
FEW_CLASSES = twin.Prior((2, 3, 2), WHOLE, "classes", (1.0, 1.0), (2.0, 2.0), 0.1)
LEARNED = twin.Prior((2, 3, 2), WHOLE, "shared", (2.0, 2.0), (3.0, 2.0), None, base="learned")
GAPS = twin.Prior((2, 3, 2), gaps(), "shared", (2.0, 1.0), (2.0, 1.0), 0.5)
GRADES = GAPS._replace(components=3, alpha=(2.0, 2.0), known=WHOLE)
SHARP_GRADES = SHARP._replace(components=8, alpha=(2.0, 10.0), known=np.ones((6, 4), bool))
"""Few records have two components, so that splits and merges matter beside the other moves."""

PRIORS = {
    "hdp": FAR_APART,
    "hdp-per-record": FAR_APART._replace(kind="per-record"),
    "hdp-missing": GAPS,
    "hdp-per-record-missing": GAPS._replace(kind="per-record"),
    "hdp-learned": LEARNED,
    "hdp-per-record-concentration": LEARNED._replace(kind="per-record", base="uniform"),
    "hdp-hierarchical-missing": LEARNED._replace(kind="hierarchical", known=gaps(True)),
    "hdp-hierarchical-base": LEARNED._replace(kind="hierarchical", profile=0.7),
    "gom": GRADES,
    "gom-sharp": SHARP_GRADES,
    "gom-hierarchical-missing": LEARNED._replace(kind="hierarchical", components=11, known=gaps()),
    "gom-per-record-base": GRADES._replace(kind="per-record", base="learned"),
    "classes": FEW_CLASSES,
    "classes-learned-missing": LEARNED._replace(kind="classes", known=gaps(True)),
    "classes-concentration": LEARNED._replace(kind="classes", base="uniform"),
}


@pytest.mark.parametrize("name", PRIORS)
def test_sampler_keeps_the_joint_law(name):
    """Split-merge moves are on, and made often enough to matter."""
    sampler = joint.ModelUnderTest(PRIORS[name])
    p = joint.joint_test(PRIORS[name], sampler, seed=1, n_runs=60, n_steps=36)
    assert passes(p), p
    assert sampler.moved > 0.05 * sampler.swept


@pytest.mark.parametrize(
    ("prior", "n_runs"),
    [
        (MANY_BLOCKS, 40),
        (SHARP, 40),
        (LEARNED._replace(kind="hierarchical", components=3), 20),
        (LEARNED._replace(kind="classes"), 20),
    ],
    ids=["many-blocks", "sharp", "gom-hierarchical", "classes"],
)
def test_twin_keeps_the_joint_law(prior, n_runs):
    """Without a planted bug the slow twin passes, at the size at which its bugs are caught."""
    p = joint.joint_test(prior, joint.advance_naive(prior), seed=2, n_runs=n_runs, n_steps=20)
    assert passes(p), p


class Recalling(HDP):
    """The model, telling the planted bug what alpha_0 is."""

    def step(self, stream: Stream, state: Any, data: Any, n_threads: int) -> Any:
        top_of[0] = float(state.top[0])
        return super().step(stream, state, data, n_threads)


top_of = [0.0]


def test_tables_with_the_wrong_concentration_are_caught(monkeypatch):
    """Paper 1's slip: alpha_0 in the place of alpha in the table counts (its step 2, eq. 12)."""
    right = weights.draw_tables

    def slip(key: Any, sweep: int, alpha: float, *rest: Any) -> Any:
        return right(key, sweep, top_of[0], *rest)

    monkeypatch.setattr(weights, "draw_tables", slip)
    sampler = joint.ModelUnderTest(FAR_APART, Recalling(**vars(joint.model_of(FAR_APART))))
    p = joint.joint_test(FAR_APART, sampler, seed=3, n_runs=120, n_steps=36)
    assert not passes(p, 0.01), p


def altered(where: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a planted bug: one argument of a kernel is not what it should be."""

    def plant(right: Any) -> Any:
        def slip(*arguments: Any) -> Any:
            changed = list(arguments)
            changed[where] = change(changed[where])
            return right(*changed)

        return slip

    return plant


def new_component(change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Change the prior of a new component."""
    return lambda prior: prior._replace(log_new=change(prior.log_new))


def wrong_rate(right: Any) -> Any:
    """Plant a rate drawn as if the records were half as many."""

    def slip(*arguments: Any) -> Any:
        shape, rate = right(*arguments)
        return shape, 0.5 * rate

    return slip


BUGS = {
    # A Jacobian left out: alpha drawn on the log scale with its density on the plain scale.
    "alpha": (FAR_APART, weights, "draw_alpha", altered(3, lambda shape: shape - 1.0)),
    "alpha of a record": (
        PRIORS["hdp-per-record"], weights, "draw_tables_and_alphas", altered(5, lambda r: r / 2),
    ),
    "spread": (PRIORS["hdp-hierarchical-base"], weights, "draw_spread", wrong_rate),
    # The prior is one of c_j / n_j.
    "rate of a concentration": (
        PRIORS["hdp-per-record-concentration"], profiles, "draw_prior",
        altered(5, lambda rate: rate * np.array([2.0, 3.0, 2.0])),
    ),
    "tokens of the base": (
        PRIORS["classes-learned-missing"], profiles, "draw_prior", altered(3, lambda n: n // 2),
    ),
    "share of a component": (
        GRADES, weights, "draw_finite_weights", altered(2, lambda share: 0.4 * share),
    ),
    "names of a component": (
        SHARP_GRADES, split_merge, "propose", altered(3, new_component(lambda new: new * 0.0)),
    ),
    "chance of a split": (
        FEW_CLASSES, split_merge, "propose",
        altered(3, new_component(lambda new: new + np.log(4.0))),
    ),
    "tables of a class": (
        FEW_CLASSES, latent_class, "draw_sticks", altered(5, lambda t: np.minimum(t, 1)),
    ),
}  # fmt: skip


LENGTHS = {"tokens of the base": (400, 144, 3000)}
"""Runs, sweeps and draws of the prior for a bug in what is drawn every fourth sweep."""


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name, monkeypatch):
    """A wrong number handed to a kernel."""
    prior, module, kernel, plant = BUGS[name]
    monkeypatch.setattr(module, kernel, plant(getattr(module, kernel)))
    n_runs, n_steps, n_prior = LENGTHS.get(name, (100, 36, 600))
    model = joint.ModelUnderTest(prior)
    p = joint.joint_test(prior, model, seed=4, n_runs=n_runs, n_steps=n_steps, n_prior=n_prior)
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


RANKED = {
    "hdp": GAPS._replace(alpha=(2.0, 1.5), top=(3.0, 1.5), profile=0.7),
    "hdp-per-record": GAPS._replace(
        kind="per-record", alpha=(2.0, 1.5), top=(3.0, 1.5), profile=0.7
    ),
    "gom": LEARNED._replace(components=3, known=gaps()),
    "classes": LEARNED._replace(kind="classes", known=gaps()),
}


@pytest.mark.parametrize("name", RANKED)
def test_ranks_of_the_truth_are_uniform(name):
    """Data with missing keys."""
    p_values = joint.rank_test(RANKED[name], [[0, 1, 1], [1, -1, 0]], seed=6, n_sets=110)
    assert min(p_values) > FALSE_ALARM / len(p_values), p_values
