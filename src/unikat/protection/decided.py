"""Whether some states of a posterior tell on which side of a limit a recoding is.

Laws of states need no drawn populations, so a mean over some of the states differs from that over
all by the spread between states alone. A recoding that misses a limit is ruled out with all that
are finer: that is said of it only where the mean is `SURE` standard errors beyond the limit. A
recoding within the limit is looked at again by all states before it is taken: less is asked.
"""

from __future__ import annotations

import math

import numpy as np

from unikat._typing import Float64
from unikat.protection.search import Value
from unikat.risk.predictive import Law
from unikat.spec.limits import Limit

SURE = 4.0
"""Standard errors by which a recoding is beyond a limit that misses it."""
LIKELY = 2.0
"""Standard errors by which it is within a limit that is met."""


def told(law: Law, limit: Limit, level: float, *, every: bool) -> tuple[bool, Value]:
    """Whether states tell on which side of a limit a recoding is, and what they say.

    Parameters
    ----------
    law
        Of the states.
    limit
        Of τ1, τ2 or r1.
    level
        Probability of the intervals.
    every
        These are all states, so that they do.
    """
    tau1 = float(law.means.mean())
    needed = (1.0 + level) / 2.0
    if limit.plain in ("r1", "records"):
        return _of_records(law, limit, tau1, every)
    if not limit.of_interval:
        by_state = law.means if limit.plain == "tau1_estimate" else law.cumulants[:, 0]
        return every or decided(-by_state, -limit.bound), Value(float(by_state.mean()), tau1)
    if every:
        found = law.tau1(level) if limit.plain == "tau1" else law.tau2(level)
        return True, Value(found.upper, tau1)
    below = law.at_most(limit.bound)
    if limit.plain == "tau2":
        # τ2 is at least τ1.
        of_sums = law.sums_at_most(limit.bound)
        below = min(below, of_sums, key=lambda one: float(one.mean()))
    met = float(below.mean()) >= needed
    # Its place among others that miss the limit, or are within it, is by the mean.
    measure = min(tau1, limit.bound) if met else limit.bound + max(tau1, 1e-9)
    return decided(below, needed), Value(measure, tau1)


def decided(by_state: Float64, needed: float) -> bool:
    """Whether a mean is surely below what is needed, or probably not."""
    mean = float(by_state.mean())
    error = float(by_state.std(ddof=1)) / math.sqrt(len(by_state)) if len(by_state) > 1 else np.inf
    return mean + SURE * error < needed or mean - LIKELY * error >= needed


def _of_records(law: Law, limit: Limit, tau1: float, every: bool) -> tuple[bool, Value]:
    """Of single records, whose risk is a mean over the states."""
    r1 = np.array([one.r1 for one in law.states])
    mean = r1.mean(axis=0)
    error = r1.std(axis=0, ddof=1) / math.sqrt(len(r1)) if len(r1) > 1 else np.inf

    def measure(risks: Float64) -> float:
        if limit.plain == "r1":
            return float(risks.max(initial=0.0))
        return float((risks > (limit.above or 0.0)).sum())

    missed = not limit.met(measure(mean - SURE * error))
    met = limit.met(measure(mean + LIKELY * error))
    return every or missed or met, Value(measure(mean), tau1)
