"""Samplers under structural zeros: joint law, ranks, enumeration, and planted bugs.

The law: pi(phi) s(phi)^c prod_i f(x_i | phi) / s(phi), s the probability of the possible cells.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from statistical import joint, twin
from unikat.models import possible

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-5
"""Of each test, shared evenly among what is compared. A planted bug has to be seen at a hundredth
of it."""


def passes(p_values: dict[str, float], share: float = 1.0) -> bool:
    return min(p_values.values()) > share * FALSE_ALARM / len(p_values)


def gaps() -> np.ndarray:
    """Which keys of six records with three keys are known: two of one record are not."""
    known = np.ones((6, 3), bool)
    known[0, 0] = known[1, 1] = known[1, 2] = known[2, 2] = False
    return known


WHOLE = np.ones((6, 3), bool)
CORNER = np.zeros((2, 3, 2), bool)
CORNER[0, 1:, :] = CORNER[:, 0, 1] = CORNER[1, 2, 0] = True
"""Seven of twelve cells, of overlapping conditions."""
FEW = np.zeros((2, 3, 2), bool)
FEW[0, 1, 1] = FEW[1, 2, 1] = True
"""Little enough that they cannot have nearly all probability, with no prior against it."""

HDP = twin.Prior(
    (2, 3, 2), WHOLE, "shared", (2.0, 2.0), (3.0, 2.0), 1.0, impossible=CORNER, tempering=0.34
)
"""Two of six records temper: c is 2."""
LEARNED = HDP._replace(profile=None, base="learned", law=(6.0, 3.0))
GRADES = HDP._replace(components=3, alpha=(2.0, 1.0))

PRIORS = {
    "hdp": HDP,
    "hdp-untempered": HDP._replace(tempering=0.0, profile=2.0),
    "hdp-per-record-missing": HDP._replace(kind="per-record", known=gaps()),
    "hdp-hierarchical-learned-missing": LEARNED._replace(kind="hierarchical", known=gaps()),
    "gom-learned-missing": LEARNED._replace(components=3, known=gaps()),
    "gom-per-record": GRADES._replace(kind="per-record"),
    "classes": HDP._replace(kind="classes", top=(2.0, 2.0)),
    "classes-untempered-learned-missing": LEARNED._replace(
        kind="classes", tempering=0.0, known=gaps(), impossible=FEW
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_sampler_keeps_the_joint_law(name):
    sampler = joint.ModelUnderTest(PRIORS[name])
    p = joint.joint_test(PRIORS[name], sampler, seed=1, n_runs=60, n_steps=36)
    assert passes(p), p
    assert sampler.moved > 0.02 * sampler.swept


def fewer(keep: Callable[[np.ndarray], np.ndarray]) -> Callable[[Any], Any]:
    """Return a planted bug: not all tokens of the impossible records are counted.

    `keep` (n, n_keys) of which there are, in the order of the layers.
    """

    def plant(right: Any) -> Any:
        def slip(key: Any, sweep: int, diagram: Any, *rest: Any) -> Any:
            found = right(key, sweep, diagram, *rest)
            rows, z = found.rows.copy(), found.z.copy()
            there = rows[:, diagram.order] >= 0
            gone = np.zeros(rows.shape, bool)
            gone[:, diagram.order] = there & ~keep(there)
            rows[gone] = -1
            if z.shape == rows.shape:
                z[gone] = -1
            return found._replace(rows=rows, z=z)

        return slip

    return plant


def ignored(right: Any) -> Any:
    """Plant a sampler that does not know of truncation."""

    def slip(*arguments: Any) -> Any:
        return type(right(*arguments))(*(part[:0] for part in right(*arguments)))

    return slip


def not_last(there: np.ndarray) -> np.ndarray:
    """All but the token that makes a record impossible."""
    return np.roll(there, -1, axis=1) & (np.arange(there.shape[1]) < there.shape[1] - 1)


def untempered(right: Any) -> Any:
    """Plant a simulation that goes on to n possible records."""
    return lambda model, n: n


def own_tokens(right: Any) -> Any:
    """Plant an alpha that is drawn as if the impossible records had no tokens."""

    def slip(data: Any, imputed: Any, more: Any) -> Any:
        return right(data, imputed, more)._replace(at_least=right(data, imputed, more[:0]).at_least)

    return slip


def anything(right: Any) -> Any:
    """Plant missing keys drawn as if everything were possible."""

    def slip(key: Any, sweep: int, diagram: Any, data: Any, *rest: Any) -> Any:
        n_levels = tuple(np.diff(data.offsets).tolist())
        return right(key, sweep, joint.diagram_of(np.zeros(n_levels, bool)), data, *rest)

    return slip


def unconditional(right: Any) -> Any:
    """Plant missing keys drawn by the shares of the levels, whatever the components."""

    def slip(key: Any, sweep: int, diagram: Any, data: Any, z: Any, theta: Any) -> Any:
        return right(key, sweep, diagram, data, z, np.full_like(theta, 0.5))

    return slip


def equal_alphas(right: Any) -> Any:
    """Plant impossible records of which it is forgotten with what alpha they were drawn."""

    def slip(*arguments: Any) -> Any:
        found = right(*arguments)
        return found._replace(alpha=np.ones(len(found.alpha)))

    return slip


def same_for_all(right: Any) -> Any:
    """Plant classes of the impossible records that are those of all records."""

    def slip(*arguments: Any) -> Any:
        chance = right(*arguments)
        chance[0] = chance[0].mean()
        return chance

    return slip


MIXED, CLASSES = "simulate_memberships", "simulate_classes"
SHARP = PRIORS["classes"]._replace(profile=0.4, known=gaps())
BUGS = {
    "mixed: ignored": (HDP, 40, possible, MIXED, ignored),
    "mixed: not tempered": (HDP, 50, possible.TruncationPrior, "n_possible", untempered),
    "mixed: last tokens": (HDP, 40, possible, MIXED, fewer(not_last)),
    "mixed: tokens of alpha": (HDP, 25, possible, "augmented", own_tokens),
    "mixed: keys missing": (PRIORS["hdp-per-record-missing"], 100, possible, "completed", anything),
    "mixed: keys by share": (
        PRIORS["gom-learned-missing"], 60, possible, "completed", unconditional,
    ),
    "mixed: alphas": (PRIORS["hdp-hierarchical-learned-missing"], 60, possible, MIXED, equal_alphas),
    "classes: ignored": (SHARP, 25, possible, CLASSES, ignored),
    "classes: not tempered": (SHARP, 50, possible.TruncationPrior, "n_possible", untempered),
    "classes: last tokens": (SHARP, 25, possible, CLASSES, fewer(not_last)),
    "classes: keys missing": (SHARP, 60, possible, "completed", anything),
    "classes: keys by share": (SHARP, 60, possible, "completed", unconditional),
    "classes: wrong ones": (SHARP, 60, possible, "chances", same_for_all),
}  # fmt: skip


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name, monkeypatch):
    prior, n_runs, module, function, plant = BUGS[name]
    monkeypatch.setattr(module, function, plant(getattr(module, function)))
    p = joint.joint_test(prior, joint.ModelUnderTest(prior), seed=4, n_runs=n_runs, n_steps=36)
    assert not passes(p, 0.01), p
