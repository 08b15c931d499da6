"""Joint distribution tests of the HDP's samplers.

Everything starts as one exact draw from the prior, data included. A transition that leaves the
posterior alone, followed by new data given the state, leaves the joint law alone (Geweke 2004),
so every function of the state has its prior mean at every later time. Runs are many, short and
independent, so the comparison is an ordinary two-sample t test: its false-alarm rate does not
depend on how well the chain mixes (Gandy & Scott 2020).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from statistical import twin
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.hdp import HDP
from unikat.models.mixed_membership import MembershipState

Array = twin.Array
Advance = Callable[[np.random.Generator, int, int, Any, Array], tuple[Any, Array]]

NAMES = (
    "alpha", "log alpha", "top", "log top", "components", "same record", "same key", "largest",
    "sum g0^2", "base", "base^2", "codes", "equal records", "alpha * same record",
    "top * components", "components^2", "fit", "log fit",
)  # fmt: skip


def model_of(prior: twin.Prior) -> HDP:
    """Return the model under test with these priors."""
    return HDP(
        alpha="shared" if prior.shared else "per-record",
        alpha_shape=prior.alpha[0],
        alpha_rate=prior.alpha[1],
        top_shape=prior.top[0],
        top_rate=prior.top[1],
        profile_concentration=prior.profile,
    )


def tabulate(codes: Array, prior: twin.Prior) -> tuple[CellTable, Array]:
    """Tabulate the data; also the order of the records that the model's states have."""
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(prior.n_levels)]
    table = CellTable.from_codes(codes, keys, population_size=10 * len(codes))
    return table, np.argsort(table.record_cell, kind="stable")


def in_order(state: Any, order: Array, shared: bool) -> MembershipState:
    """Return the state with its records permuted, in the types that the kernels take."""
    return MembershipState(
        z=np.asarray(state.z, np.int16)[order],
        theta=np.asarray(state.theta, np.float32),
        weights=state.weights,
        alpha=state.alpha if shared else state.alpha[order],
        top=state.top,
    )


def advance_model(prior: twin.Prior, model: HDP | None = None) -> Advance:
    """One sweep of the model under test, through its public contract."""
    model = model or model_of(prior)

    def advance(rng: Any, run: int, time: int, state: Any, codes: Array) -> tuple[Any, Array]:
        table, order = tabulate(codes, prior)
        state = in_order(state, order, prior.shared)
        state, _ = model.step(Stream(run, 0, time), state, model.prepare(table), 1)
        return state, codes[order]

    return advance


def advance_naive(prior: twin.Prior, bug: str = "") -> Advance:
    """One sweep of the slow twin, with a bug planted."""

    def advance(rng: Any, run: int, time: int, state: Any, codes: Array) -> tuple[Any, Array]:
        return twin.sweep(rng, prior, state, codes, bug), codes

    return advance


def functions(prior: twin.Prior, state: Any, codes: Array) -> list[float]:
    """Functions of the state that do not depend on how components are labelled (`NAMES`)."""
    z = np.asarray(state.z)
    alpha = float(np.mean(state.alpha))
    top = float(state.top[0])
    components = len(set(z[z >= 0].tolist()))
    pairs = list(itertools.combinations(range(z.shape[1]), 2))
    complete = z[(z >= 0).all(axis=1)]
    same = float(np.mean([(complete[:, a] == complete[:, b]).mean() for a, b in pairs]))
    first = z[z[:, 0] >= 0, 0]
    same_key = float((first[1:] == first[:-1]).mean())
    base = float(state.weights @ state.theta[0])
    i, j = np.nonzero(codes >= 0)
    fit = state.theta[codes[i, j] + prior.offsets[j], z[i, j]]
    seen = codes[(codes >= 0).all(axis=1)]
    equal = float((seen[1:] == seen[:-1]).all(axis=1).mean())
    return [
        alpha, float(np.mean(np.log(state.alpha))), top, np.log(top), components, same, same_key,
        float(state.weights.max()), float((state.weights**2).sum()), base, base**2,
        float((codes[:, -1] == 0).mean()), equal, alpha * same, top * components,
        float(components**2), float(fit.mean()), float(np.log(fit).mean()),
    ]  # fmt: skip


def joint_test(
    prior: twin.Prior,
    advance: Advance,
    *,
    seed: int,
    n_runs: int,
    n_steps: int,
    n_prior: int = 600,
) -> dict[str, float]:
    """P-values of the sampler's means against the prior's, by function."""
    rng = np.random.default_rng(seed)
    expected = [functions(prior, *twin.draw_prior(rng, prior)) for _ in range(n_prior)]
    means = []
    for run in range(n_runs):
        state, codes = twin.draw_prior(rng, prior)
        seen = []
        for time in range(1, n_steps + 1):
            state, codes = advance(rng, seed * 1000 + run, time, state, codes)
            # Records that meet in a cell became neighbours; the functions must not know.
            order = rng.permutation(len(codes))
            codes = codes[order]
            state = state._replace(
                z=state.z[order], alpha=state.alpha if prior.shared else state.alpha[order]
            )
            # Before the new data: a draw of the posterior goes with the data that it saw.
            if 3 * time > n_steps and time % 3 == 0:
                seen.append(functions(prior, state, codes))
            codes = twin.draw_codes(rng, prior, state)
        means.append(np.mean(seen, axis=0))
    p = stats.ttest_ind(np.array(means), np.array(expected), equal_var=False).pvalue
    return dict(zip(NAMES, p.tolist(), strict=True))
