"""The HDP once more: its prior, and its sampler written from the conditionals (see `naive`)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from naive import Array, block_weights, token_weights


class State(NamedTuple):
    """All unknowns of the HDP; the fields are those of the sampler under test."""

    z: Array
    theta: Array
    weights: Array
    alpha: Array
    top: Array


class Prior(NamedTuple):
    """The HDP's fixed numbers. `known` (n_records, n_keys) says which keys are not missing."""

    n_levels: tuple[int, ...]
    known: Array
    shared: bool
    alpha: tuple[float, float]
    top: tuple[float, float]
    profile: float
    n_slots: int = 32

    @property
    def offsets(self) -> Array:
        """First row of theta of each key."""
        return np.concatenate(([0], np.cumsum(self.n_levels)))


def sticks(rng: np.random.Generator, top: float, n: int) -> Array:
    """First weights of GEM(top); the last of them takes what is left."""
    broken = rng.beta(1.0, top, n)
    broken[-1] = 1.0
    return broken * np.concatenate(([1.0], np.cumprod(1.0 - broken[:-1])))


def draw_profiles(rng: np.random.Generator, prior: Prior, counts: Array) -> Array:
    """theta ~ Dirichlet(profile + counts), key by key and slot by slot."""
    theta = rng.gamma(prior.profile + counts)
    for first, last in itertools.pairwise(prior.offsets):
        theta[first:last] /= theta[first:last].sum(axis=0)
    return theta


def draw_codes(rng: np.random.Generator, prior: Prior, state: State) -> Array:
    """Data given everything else: x_ij ~ theta_j^(z_ij), -1 where missing."""
    codes = np.full(state.z.shape, -1, np.int32)
    for j, (first, last) in enumerate(itertools.pairwise(prior.offsets)):
        here = np.flatnonzero(state.z[:, j] >= 0)
        below = np.cumsum(state.theta[first : last - 1, state.z[here, j]], axis=0)
        codes[here, j] = (rng.random(len(here)) >= below).sum(axis=0)
    return codes


def draw_prior(rng: np.random.Generator, prior: Prior) -> tuple[State, Array]:
    """Everything from the prior, and the data."""
    n, n_keys = prior.known.shape
    top = rng.gamma(prior.top[0]) / prior.top[1]
    n_slots = prior.n_slots
    weights = sticks(rng, top, n_slots)
    while weights[-1] > 1e-6:
        # Break the last stick on.
        weights = np.concatenate((weights[:-1], weights[-1] * sticks(rng, top, n_slots + 1)))
        n_slots *= 2
    theta = draw_profiles(rng, prior, np.zeros((prior.offsets[-1], n_slots)))
    alpha = rng.gamma(prior.alpha[0], size=1 if prior.shared else n) / prior.alpha[1]
    z = np.full((n, n_keys), -1)
    for i in range(n):
        a = alpha[0 if prior.shared else i]
        for j in np.flatnonzero(prior.known[i]):
            before = z[i, z[i] >= 0]
            if rng.random() * (len(before) + a) < len(before):
                z[i, j] = rng.choice(before)
            else:
                z[i, j] = min(np.searchsorted(np.cumsum(weights), rng.random()), n_slots - 1)
    state = State(z, theta, weights, alpha, np.array([top]))
    return state, draw_codes(rng, prior, state)


def draw_on_grid(
    rng: np.random.Generator, log_density: Callable[[Array], Array], law: tuple[float, float]
) -> float:
    """Draw a > 0 of density exp(log_density(a)) under the prior Gamma(*law), on a grid of log a."""
    a = np.exp(np.linspace(math.log(1e-6), math.log(200.0), 3000))
    # law[0] log a, not law[0] - 1: the grid is even in log a.
    value = log_density(a) + law[0] * np.log(a) - law[1] * a
    below = np.cumsum(np.exp(value - value.max()))
    return float(a[np.searchsorted(below, rng.random() * below[-1])])


def log_rising(a: Array, n: int) -> Array:
    """log of `rising`."""
    return np.log(a[:, None] + np.arange(n)).sum(axis=1)


def sweep(
    rng: np.random.Generator, prior: Prior, state: State, codes: Array, bug: str = ""
) -> State:
    """One sweep of the sampler, written from the conditionals.

    `bug` plants one: 'cumulative' (a copied token takes the next token's component), 'blocks' (a
    block may join another block), 'expected tables' (tables never shared).
    """
    rows = np.where(codes >= 0, codes + prior.offsets[:-1], -1)
    z = state.z.copy()
    counts = np.zeros(state.theta.shape)
    for i in range(len(z)):
        alpha = state.alpha[0 if prior.shared else i]
        here = np.flatnonzero(rows[i] >= 0)
        likelihood = state.theta[rows[i, here]]
        at = [int(k) for k in z[i, here]]
        for t in range(len(at)):
            if at[t] not in at[:t]:
                mass = block_weights(
                    at, t, likelihood, state.weights, alpha, ignore=bug == "blocks"
                )
                k = _choose(rng, mass)
                at = [k if c == at[t] else c for c in at]
        for t in range(len(at)):
            if bug == "cumulative":
                at[t] = _next_token(rng, at, t, likelihood[t], state.weights * alpha)
            else:
                at[t] = _choose(rng, token_weights(at, t, likelihood, state.weights, alpha))
        z[i, here] = at
        np.add.at(counts, (rows[i, here], at), 1)
    # occupancy[i, k]: tokens of record i in component k.
    occupancy = np.zeros((len(z), len(state.weights)), int)
    for i in range(len(z)):
        np.add.at(occupancy[i], z[i, z[i] >= 0], 1)
    sizes = occupancy.sum(axis=1)
    alphas = state.alpha.copy()
    if prior.shared:
        used = [(n, k) for row in occupancy for k, n in enumerate(row) if n]

        def log_density(a: Array) -> Array:
            value = -sum(log_rising(a, int(size)) for size in sizes)
            return value + sum(log_rising(a * state.weights[k], n) for n, k in used)

        alphas[0] = draw_on_grid(rng, log_density, prior.alpha)
    tables = np.zeros_like(occupancy)
    for i, k in zip(*np.nonzero(occupancy), strict=True):
        mass = alphas[0 if prior.shared else i] * state.weights[k]
        if bug == "expected tables":
            tables[i, k] = occupancy[i, k]
        else:
            tables[i, k] = sum(rng.random() < mass / (mass + l) for l in range(occupancy[i, k]))
    if not prior.shared:
        for i, size in enumerate(sizes):
            opened = int(tables[i].sum())
            alphas[i] = draw_on_grid(
                rng, lambda a, m=opened, s=size: m * np.log(a) - log_rising(a, int(s)), prior.alpha
            )
    seats = tables.sum(axis=0)
    dishes, total = int((seats > 0).sum()), int(seats.sum())
    top = draw_on_grid(rng, lambda a: dishes * np.log(a) - log_rising(a, total), prior.top)
    shares = rng.gamma(np.append(seats[seats > 0], top))
    shares /= shares.sum()
    weights = np.empty(len(seats))
    weights[seats > 0] = shares[:-1]
    weights[seats == 0] = shares[-1] * sticks(rng, top, int((seats == 0).sum()))
    return State(z, draw_profiles(rng, prior, counts), weights, alphas, np.array([top]))


def _choose(rng: np.random.Generator, mass: Array) -> int:
    return int(min(np.searchsorted(np.cumsum(mass), rng.random() * mass.sum()), len(mass) - 1))


def _next_token(
    rng: np.random.Generator, at: list[int], t: int, likelihood: Array, base: Array
) -> int:
    """Choose the component of token t with its copies shifted by one: the planted bug."""
    others = at[:t] + at[t + 1 :]
    copies = likelihood[others]
    fresh = base * likelihood
    mark = rng.random() * (copies.sum() + fresh.sum())
    if mark >= copies.sum() or not others:
        return _choose(rng, fresh)
    return others[(int(np.searchsorted(np.cumsum(copies), mark)) + 1) % len(others)]
