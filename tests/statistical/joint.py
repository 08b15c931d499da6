"""Joint distribution tests of the mixtures' samplers, and ranks of the truth.

Everything starts as one exact draw from the prior, data included. A transition that leaves the
posterior alone, followed by new data given the state, leaves the joint law alone (Geweke 2004),
so every function of the state has its prior mean at every later time. Runs are many, short and
independent, so the comparison is an ordinary two-sample t test: its false-alarm rate does not
depend on how well the chain mixes (Gandy & Scott 2020).

Under structural zeros the model is shown the known keys alone; its imputed ones join the state.
"""

from __future__ import annotations

import itertools
import pickle
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy import stats

from statistical import twin
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels.zeros import Diagram
from unikat.models.base import AnyModel, Stream
from unikat.models.mixtures.gom import GoM
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.latent_class import LatentClass, LatentClassState
from unikat.models.mixtures.mixed_membership import MembershipState
from unikat.zeros.diagram import build

Array = twin.Array
Advance = Callable[[np.random.Generator, int, int, Any, Array], tuple[Any, Array]]


def model_of(prior: twin.Prior) -> Any:
    """Return the model under test with these priors."""
    options: dict[str, Any] = {
        "profile_concentration": prior.profile or "learned",
        "profile_base": prior.base,
        "profile_shape": prior.law[0],
        "profile_rate": prior.law[1],
        "zeros_tempering": prior.tempering,
    }
    top = {"top_shape": prior.top[0], "top_rate": prior.top[1]}
    if prior.kind == "classes":
        return LatentClass(**options, **top)
    options |= {
        "alpha": prior.kind,
        "alpha_shape": prior.alpha[0],
        "alpha_rate": prior.alpha[1],
    }
    if prior.components:
        return GoM(**options, components=prior.components)
    return HDP(**options, **top)


def tabulate(codes: Array, prior: twin.Prior) -> tuple[CellTable, Array]:
    """Tabulate the data; also the order of the records that the model's states have."""
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(prior.n_levels)]
    zeros = None
    if prior.impossible is not None:
        codes = np.where(prior.known, codes, -1)
        zeros = diagram_of(prior.impossible)
    table = CellTable.from_codes(codes, keys, population_size=10 * len(codes), zeros=zeros)
    return table, np.argsort(table.record_cell, kind="stable")


def diagram_of(impossible: Array) -> Diagram:
    """The diagram of the cells, each impossible one a condition of its own."""
    return _diagram(impossible.shape, np.flatnonzero(impossible).tobytes())


@lru_cache
def _diagram(n_levels: tuple[int, ...], impossible: bytes) -> Diagram:
    cells = np.unravel_index(np.frombuffer(impossible, np.int64), n_levels)
    blocks = [np.eye(n, dtype=bool)[cells[j]] for j, n in enumerate(n_levels)]
    return build(np.hstack(blocks), [0, *np.cumsum(n_levels).tolist()])


def in_order(prior: twin.Prior, state: twin.State, codes: Array, order: Array) -> Any:
    """Return the model's state with its records permuted, in the types that the kernels take."""
    z = np.asarray(state.z, np.int16)[order]
    theta = np.asarray(state.theta, np.float32)
    imputed = np.empty((0, len(prior.n_levels)), np.int32)
    if prior.impossible is not None:
        gaps = ~prior.known[order].all(axis=1)
        imputed = (codes[order][gaps] + prior.offsets[:-1]).astype(np.int32)
    zeros = imputed, np.empty((len(theta), 0), np.int32)
    if prior.kind == "classes":
        # Known keys of a record have the same class, missing ones have -1.
        z = z.max(axis=1, keepdims=True)
        return LatentClassState(z, theta, state.weights, state.top, state.profile, *zeros)
    alpha = state.alpha[order] if prior.per_record else state.alpha
    parts = state.weights, alpha, state.spread, state.top, state.profile, *zeros
    return MembershipState(z, theta, *parts, np.empty(0, np.int64))


def as_twin(prior: twin.Prior, state: Any, codes: Array) -> tuple[twin.State, Array]:
    """Return the model's state as the twin's, and the data; under zeros with what was imputed."""
    if prior.impossible is not None:
        codes = codes.copy()
        codes[(codes < 0).any(axis=1)] = state.imputed - prior.offsets[:-1]
    if isinstance(state, LatentClassState):
        z = np.where(codes >= 0, state.z, -1)
        none = np.empty(0)
        return twin.State(
            z, state.theta, state.weights, np.zeros(1), none, state.top, state.profile
        ), codes
    return twin.State(*state[: len(twin.State._fields)]), codes


class ModelUnderTest:
    """One sweep of the model, through its public contract; counts its split-merge moves."""

    def __init__(self, prior: twin.Prior, model: AnyModel | None = None) -> None:
        self.prior, self.model = prior, model or model_of(prior)
        self.moved = self.swept = 0

    def __call__(
        self, rng: Any, run: int, time: int, state: Any, codes: Array
    ) -> tuple[Any, Array]:
        table, order = tabulate(codes, self.prior)
        state, info = self.model.step(
            Stream(run, 0, time),
            in_order(self.prior, state, codes, order),
            self.model.prepare(table),
            1,
        )
        self.moved += int(info.values["split_merge"])
        self.swept += 1
        return as_twin(self.prior, state, table.cells[table.record_cell][order])


def advance_naive(prior: twin.Prior, bug: str = "") -> Advance:
    """One sweep of the slow twin, with a bug planted."""

    def advance(rng: Any, run: int, time: int, state: Any, codes: Array) -> tuple[Any, Array]:
        return twin.sweep(rng, prior, state, codes, bug), codes

    return advance


def functions(prior: twin.Prior, state: twin.State, codes: Array) -> dict[str, float]:
    """Functions of the state that do not depend on how components are labelled.

    Where a function has no variance under the prior, a bounded one stands in for it.
    """
    z = np.asarray(state.z)
    components = len(set(z[z >= 0].tolist()))
    first = z[z[:, 0] >= 0, 0]
    base = float(state.weights @ state.theta[0])
    i, j = np.nonzero(codes >= 0)
    fit = state.theta[codes[i, j] + prior.offsets[j], z[i, j]]
    seen = codes[(codes >= 0).all(axis=1)]
    found = {
        "components": float(components),
        "components^2": float(components**2),
        "same key": float((first[1:] == first[:-1]).mean()),
        "largest": float(state.weights.max()),
        "sum g0^2": float((state.weights**2).sum()),
        "base": base,
        "base^2": base**2,
        "codes": float((codes[:, -1] == 0).mean()),
        "equal records": float((seen[1:] == seen[:-1]).all(axis=1).mean()),
        "fit": float(fit.mean()),
        "log fit": float(np.log(np.maximum(fit, 1e-6)).mean()),
    }
    if prior.kind != "classes":
        pairs = list(itertools.combinations(range(z.shape[1]), 2))
        complete = z[(z >= 0).all(axis=1)]
        same = float(np.mean([(complete[:, a] == complete[:, b]).mean() for a, b in pairs]))
        alpha = float(np.mean(state.alpha))
        log_alpha = float(np.mean(np.log(state.alpha)))
        if prior.kind == "hierarchical":
            alpha = float(np.mean(state.alpha / (1.0 + state.alpha)))
            log_alpha = float(np.mean(np.tanh(0.2 * np.log(state.alpha))))
            found["shape"], found["rate"] = state.spread.tolist()
        found |= {
            "same record": same,
            "alpha": alpha,
            "log alpha": log_alpha,
            "alpha * same record": alpha * same,
        }
    if prior.impossible is not None:
        # Of a record of one component, and of one whose components are independent.
        same = possible_components(prior, state.theta)
        mean = (state.theta @ state.weights)[:, None]
        apart = twin.cell_law(prior, mean, np.zeros((1, len(prior.n_levels)), int))
        found |= {
            "possible": float(state.weights @ same),
            "possible^2": float(state.weights @ same) ** 2,
            "possible component": float(state.weights @ same**2),
            "possible apart": float(apart[:, ~prior.impossible].sum()),
        }
        found["smallest"] = float(same[np.unique(z)].min())
        found |= {f"codes {j}": float(codes[:, j].mean()) for j in range(codes.shape[1] - 1)}
    if len(state.top):
        top = float(state.top[0])
        found |= {"top": top, "log top": np.log(top), "top * components": top * components}
    for j in (0, len(prior.n_levels) - 1):
        here = state.profile[prior.offsets[j] : prior.offsets[j + 1]]
        if prior.profile is None:
            found |= {
                f"concentration {j}": float(here.sum()),
                f"log concentration {j}": float(np.log(here.sum())),
                f"concentration {j} * components": float(here.sum()) * components,
            }
        if prior.base == "learned":
            share = here / here.sum()
            found |= {
                f"profile {j}": float(share[0]),
                f"profile {j} squared": float((share**2).sum()),
                f"profile {j} of the codes": float(share[codes[codes[:, j] >= 0, j]].mean()),
            }
    return found


CAUGHT, EVERY = 1e-7, 15
"""A joint test looks after every EVERY runs, and ends where a p-value, for all functions together,
is below CAUGHT: of a planted bug more runs would say no more. Looks of a sampler without a bug may
not end so either, at a hundredth of the tests' false-alarm rate each."""


def compared(names: Iterable[str], means: list[Array], expected: Array) -> dict[str, float]:
    """P-values of two-sample t tests, by function."""
    p = stats.ttest_ind(np.array(means), expected, equal_var=False).pvalue
    return dict(zip(names, p.tolist(), strict=True))


def is_caught(p: dict[str, float]) -> bool:
    """Whether a p-value is so small that more runs would say no more."""
    return min(p.values()) <= CAUGHT / len(p)


_DRAWN: dict[bytes, Array] = {}


def drawn_once(prior: Any, n: int, draw: Callable[[np.random.Generator], Any]) -> Array:
    """Functions of draws from a prior, (n, n_functions), which all tests of this prior share."""
    key = pickle.dumps((prior, n))
    if key not in _DRAWN:
        # No test has this stream.
        rng = np.random.default_rng((9, 1))
        _DRAWN[key] = np.array([list(draw(rng).values()) for _ in range(n)])
    return _DRAWN[key]


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
    expected = drawn_once(
        prior, n_prior, lambda rng: functions(prior, *twin.draw_prior(rng, prior))
    )
    means: list[Array] = []
    names: dict[str, float] = {}
    for run in range(n_runs):
        state, codes = twin.draw_prior(rng, prior)
        seen = []
        for time in range(1, n_steps + 1):
            state, codes = advance(rng, seed * 1000 + run, time, state, codes)
            # Records that meet in a cell became neighbours; the functions must not know.
            order = rng.permutation(len(codes))
            codes = codes[order]
            state = state._replace(
                z=state.z[order], alpha=state.alpha[order] if prior.per_record else state.alpha
            )
            # Before the new data: a draw of the posterior goes with the data that it saw.
            if 3 * time > n_steps and time % 3 == 0:
                names = functions(prior, state, codes)
                seen.append(list(names.values()))
            codes = twin.draw_codes(rng, prior, state)
        means.append(np.mean(seen, axis=0))
        if len(means) % EVERY == 0 and is_caught(found := compared(names, means, expected)):
            return found
    return compared(names, means, expected)


def rank_test(
    prior: twin.Prior,
    cells: list[list[int]],
    *,
    seed: int,
    n_sets: int,
    n_draws: int = 7,
    thin: int = 12,
    warmup: int = 24,
) -> list[float]:
    """Simulation-based calibration (Talts et al. 2018), chains started by the model itself.

    Ranks of the truth among `n_draws` draws, `thin` sweeps apart, ties broken at random: of the
    probabilities of `cells`, sum g0^2, and what is learned of the concentrations. P-values of
    chi-square over the data sets.
    """
    model = model_of(prior)
    rng = np.random.default_rng(seed)
    patterns = np.array(cells, np.int32)
    ranks = []
    for data_set in range(n_sets):
        truth, codes = twin.draw_prior(rng, prior)
        table, order = tabulate(codes, prior)
        data = model.prepare(table)

        def numbers(state: Any, data: Any = data, sweep: int = 0) -> list[float]:
            p = model.cell_probabilities(Stream(0, 0, sweep), state, data, patterns)
            more = [float((state.weights**2).sum()), *state.top]
            if prior.kind != "classes":
                more.append(float(np.log(state.alpha).mean()))
            if prior.profile is None:
                more.append(float(np.log(state.profile[:2].sum())))
            if prior.impossible is not None:
                more.append(float(state.weights @ possible_components(prior, state.theta)))
            return [*p, *more]

        true = np.array(numbers(in_order(prior, truth, codes, order)))
        below = np.zeros(len(true))
        state = model.init(Stream(data_set, data_set % 4, 0), data)
        for time in range(1, warmup + n_draws * thin + 1):
            state, _ = model.step(Stream(data_set, data_set % 4, time), state, data, 1)
            if time > warmup and (time - warmup) % thin == 0:
                seen = np.array(numbers(state))
                below += (seen < true) + (seen == true) * (rng.random(len(true)) < 0.5)
        ranks.append(below)
    return [
        float(stats.chisquare(np.bincount(column.astype(int), minlength=n_draws + 1)).pvalue)
        for column in np.array(ranks).T
    ]


def possible_components(prior: twin.Prior, theta: Array) -> Array:
    """Probability that a record of each component is possible, by summing over the cells."""
    assert prior.impossible is not None
    z = np.tile(np.arange(theta.shape[1])[:, None], len(prior.n_levels))
    return twin.cell_law(prior, theta, z)[:, ~prior.impossible].sum(axis=1)
