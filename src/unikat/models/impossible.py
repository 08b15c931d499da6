"""Mixed membership under structural zeros: the impossible records of a sweep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from unikat._typing import Int64
from unikat.kernels import mixture
from unikat.kernels import weights as weight_kernels
from unikat.models import possible
from unikat.models.records import MixtureData

if TYPE_CHECKING:
    from unikat.models.mixed_membership import MembershipState, MixedMembership

_AGAIN = 1 << 31
"""Added to the sweep for the second draw of a kind within it, which needs numbers of its own."""


def impossible_records(
    model: MixedMembership,
    key: Any,
    sweep: int,
    state: MembershipState,
    data: MixtureData,
    counts: Int64,
    stacks: Int64,
    n_threads: int,
) -> tuple[MembershipState, possible.Impossible]:
    """Simulate the impossible records; before, move along what they leave open.

    counts and stacks: those of the sample.
    """
    assert data.zeros is not None
    alpha, n_keys = state.alpha, len(data.offsets) - 1
    shared = model.alpha == "shared"
    target = model.n_possible(len(data.record_cell))
    mixed = possible.simulate_memberships(
        key, sweep, data.zeros, data, target,
        alpha if shared else np.array(model.record_law(state)), state.weights, state.theta,
        n_threads,
    )  # fmt: skip
    if not shared:
        return state, mixed
    counts, stacks = counts.copy(), stacks.copy()
    places, n = np.arange(len(mixed.rows), dtype=np.int32), len(mixed.rows)
    needed = np.where(mixed.rows >= 0, mixed.z, np.int16(-1))
    mixture.count(0, n, mixed.rows, places, needed, counts, np.zeros_like(stacks))
    mixture.count(0, n, np.zeros_like(mixed.rows), places, mixed.z, np.zeros_like(counts), stacks)
    tables = np.zeros(len(state.weights), np.int64)
    weight_kernels.draw_tables(key, sweep + _AGAIN, float(alpha[0]), stacks, state.weights, tables)
    theta, weights = possible.along_ridges(
        key, sweep, data.zeros, data, state.profile, counts, tables, alpha,
        model.weight_exponents(state, tables), target + n, state.theta, state.weights,
    )  # fmt: skip
    together = possible.chances_of_one(weights, alpha, n_keys)
    pure = possible.simulate_classes(
        key, sweep, data.zeros, data, target + n, together, theta, n_threads
    )
    rows = np.concatenate((mixed.rows, pure.rows))
    z = np.concatenate((needed, np.where(pure.rows >= 0, pure.z, np.int16(-1))))
    state = state._replace(theta=theta, weights=weights)
    return state, possible.Impossible(rows, z, pure.alpha)
