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
        kind="classes", tempering=0.0, known=gaps()
    ),
}


@pytest.mark.parametrize("name", PRIORS)
def test_sampler_keeps_the_joint_law(name):
    sampler = joint.ModelUnderTest(PRIORS[name])
    p = joint.joint_test(PRIORS[name], sampler, seed=1, n_runs=60, n_steps=36)
    assert passes(p), p
    assert sampler.moved > 0.02 * sampler.swept
