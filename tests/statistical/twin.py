"""The mixtures once more: their prior, and their sampler written from the conditionals.

See `naive`. One twin serves all: unlimited components or K of them; every key of a record a
component of its own, or one for all; concentrations and profiles' prior known or learned. Its prior
knows of impossible cells too, by trying records until possible ones come; there `State` and data
are whole, and `Prior.known` says which keys the sampler is shown.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from naive import Array, block_weights, token_weights

LEAST_ALPHA = 1e-100
"""Below this a record's alpha is held: the models say so too."""


class State(NamedTuple):
    """All unknowns; the fields are those of the samplers under test."""

    z: Array
    theta: Array
    weights: Array
    alpha: Array
    spread: Array
    top: Array
    profile: Array


class Prior(NamedTuple):
    """The fixed numbers. `known` (n_records, n_keys) says which keys are not missing.

    kind: "shared", "per-record" or "hierarchical" alpha, or "classes", one component a record.
    profile: c_j / n_j, or None where it is learned, with the gamma prior `law`; base: "uniform" or
    "learned". components: their number where it is limited, else 0. impossible: which cells are,
    an array with one axis per key, and tempering: c / n of the prior's factor s(phi)^c, s the
    probability of the possible cells.
    """

    n_levels: tuple[int, ...]
    known: Array
    kind: str
    alpha: tuple[float, float]
    top: tuple[float, float]
    profile: float | None
    n_slots: int = 32
    base: str = "uniform"
    law: tuple[float, float] = (3.0, 2.0)
    components: int = 0
    impossible: Array | None = None
    tempering: float = 0.0

    @property
    def offsets(self) -> Array:
        """First row of theta of each key."""
        return _offsets(self.n_levels)

    @property
    def per_record(self) -> bool:
        """Whether each record has an alpha of its own."""
        return self.kind in ("per-record", "hierarchical")


@lru_cache
def _offsets(n_levels: tuple[int, ...]) -> Array:
    return np.concatenate(([0], np.cumsum(n_levels)))


def sticks(rng: np.random.Generator, top: float, n: int) -> Array:
    """First weights of GEM(top); the last of them takes what is left."""
    broken = rng.beta(1.0, top, n)
    broken[-1] = 1.0
    return broken * np.concatenate(([1.0], np.cumprod(1.0 - broken[:-1])))


def draw_profiles(rng: np.random.Generator, prior: Prior, profile: Array, counts: Array) -> Array:
    """theta ~ Dirichlet(profile + counts), key by key and slot by slot."""
    theta = rng.gamma(profile[:, None] + counts)
    for first, last in itertools.pairwise(prior.offsets):
        theta[first:last] /= theta[first:last].sum(axis=0)
    return theta


def draw_codes(rng: np.random.Generator, prior: Prior, state: State) -> Array:
    """Data given everything else: x_ij ~ theta_j^(z_ij), -1 where missing; possible ones."""
    if prior.impossible is not None:
        law = cell_law(prior, state.theta, state.z)
        law[:, prior.impossible] = 0.0
        below = np.cumsum(law.reshape(len(law), -1), axis=1)
        mark = rng.random((len(law), 1)) * below[:, -1:]
        return np.column_stack(np.unravel_index((below <= mark).sum(axis=1), prior.n_levels))
    codes = np.full(state.z.shape, -1, np.int32)
    for j, (first, last) in enumerate(itertools.pairwise(prior.offsets)):
        here = np.flatnonzero(state.z[:, j] >= 0)
        below = np.cumsum(state.theta[first : last - 1, state.z[here, j]], axis=0)
        codes[here, j] = (rng.random(len(here)) >= below).sum(axis=0)
    return codes


def cell_law(prior: Prior, theta: Array, z: Array) -> Array:
    """prod_j theta_j^(z_ij) of all cells, (n, *n_levels), by components z (n, n_keys)."""
    law = np.ones(len(z))
    for j, (first, last) in enumerate(itertools.pairwise(prior.offsets)):
        law = law[..., None] * theta[first:last, z[:, j]].T.reshape(len(z), *(1,) * j, last - first)
    return law


def draw_prior(rng: np.random.Generator, prior: Prior) -> tuple[State, Array]:
    """Everything from the prior, and the data."""
    if prior.impossible is None:
        state = draw_unknowns(rng, prior)
        return state, draw_codes(rng, prior, state)
    n = len(prior.known)
    c = round(prior.tempering * n)
    while True:
        # c more records, of which each has to be possible: accepted with chance s(phi)^c.
        state = draw_unknowns(rng, prior, np.zeros((0, len(prior.n_levels)), bool))
        records = [draw_record(rng, prior, state) for _ in range(c)]
        if all(not prior.impossible[tuple(codes)] for _, _, codes in records):
            break
    records = []
    while len(records) < n:
        record = draw_record(rng, prior, state)
        if not prior.impossible[tuple(record[2])]:
            records.append(record)
    alpha, z, codes = map(np.array, zip(*records, strict=True))
    return state._replace(z=z, alpha=alpha if prior.per_record else state.alpha), codes


def draw_record(rng: np.random.Generator, prior: Prior, state: State) -> tuple[float, Array, Array]:
    """One record's alpha, components and codes given what stands above the records."""
    if prior.per_record:
        alpha = draw_alphas(rng, prior, state.spread, 1)[0]
    else:
        alpha = float(state.alpha[0])
    z = draw_components(rng, len(prior.n_levels), alpha, state.weights)
    codes = np.array(
        [
            _choose(rng, state.theta[first:last, k])
            for (first, last), k in zip(itertools.pairwise(prior.offsets), z, strict=True)
        ]
    )
    return alpha, z, codes


def draw_components(rng: np.random.Generator, n_tokens: int, alpha: float, weights: Array) -> Array:
    """Components of a record's tokens: a copy of one before, or a draw from the weights."""
    z = np.empty(n_tokens, int)
    below = weights.cumsum()
    for t in range(n_tokens):
        if rng.random() * (t + alpha) < t:
            z[t] = z[rng.integers(t)]
        else:
            z[t] = min(int(below.searchsorted(rng.random())), len(weights) - 1)
    return z


def draw_alphas(rng: np.random.Generator, prior: Prior, spread: Array, n: int) -> Array:
    """Concentrations: of n records, or the shared one."""
    if prior.kind == "hierarchical":
        # On the log scale, where small shapes do not underflow.
        log_alpha = np.log(rng.gamma(spread[0] + 1.0, size=n)) + np.log(rng.random(n)) / spread[0]
        return np.exp(np.maximum(log_alpha - np.log(spread[1]), math.log(LEAST_ALPHA)))
    if prior.kind == "classes":
        return np.zeros(1)
    size = n if prior.per_record else 1
    return rng.gamma(prior.alpha[0], size=size) / prior.alpha[1]


def draw_unknowns(rng: np.random.Generator, prior: Prior, known: Array | None = None) -> State:
    """Everything but the data from the prior, as if all cells were possible."""
    known = prior.known if known is None else known
    n, n_keys = known.shape
    top, n_slots = np.empty(0), prior.n_slots
    if prior.components:
        weights = np.zeros(n_slots)
        weights[: prior.components] = rng.dirichlet(np.ones(prior.components))
    else:
        top = rng.gamma(prior.top[0], size=1) / prior.top[1]
        weights = sticks(rng, top[0], n_slots)
        while weights[-1] > 1e-6:
            # Break the last stick on.
            weights = np.concatenate((weights[:-1], weights[-1] * sticks(rng, top[0], n_slots + 1)))
            n_slots *= 2
    parts = []
    for levels in prior.n_levels:
        c = prior.profile or rng.gamma(prior.law[0]) / prior.law[1]
        b = np.full(levels, 1.0 / levels)
        parts.append(
            c * levels * (rng.dirichlet(np.ones(levels)) if prior.base == "learned" else b)
        )
    profile = np.concatenate(parts)
    theta = draw_profiles(rng, prior, profile, np.zeros((prior.offsets[-1], n_slots)))
    spread = np.empty(0)
    if prior.kind == "hierarchical":
        spread = rng.exponential(size=2)
    alpha = draw_alphas(rng, prior, spread, n)
    z = np.full((n, n_keys), -1)
    for i in range(n):
        here = np.flatnonzero(known[i])
        z[i, here] = draw_components(rng, len(here), alpha[i if prior.per_record else 0], weights)
    return State(z, theta, weights, alpha, spread, top, profile)


def draw_on_grid(
    rng: np.random.Generator,
    log_density: Callable[[Array], Array],
    law: tuple[float, float],
    ends: tuple[float, float] = (1e-6, 200.0),
) -> float:
    """Draw a > 0 of density exp(log_density(a)) under the prior Gamma(*law), on a grid of log a."""
    a = np.exp(np.linspace(math.log(ends[0]), math.log(ends[1]), 3000))
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
        alpha = state.alpha[i if prior.per_record else 0]
        here = np.flatnonzero(rows[i] >= 0)
        likelihood = state.theta[rows[i, here]]
        if prior.kind == "classes":
            z[i, here] = _choose(rng, state.weights * likelihood.prod(axis=0))
            np.add.at(counts, (rows[i, here], z[i, here]), 1)
            continue
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
    alphas, spread = state.alpha.copy(), state.spread
    if prior.kind == "shared":
        used = [(n, k) for row in occupancy for k, n in enumerate(row) if n]

        def log_density(a: Array) -> Array:
            value = -sum(log_rising(a, int(size)) for size in sizes)
            return value + sum(log_rising(a * state.weights[k], n) for n, k in used)

        alphas[0] = draw_on_grid(rng, log_density, prior.alpha)
    tables = np.zeros_like(occupancy)
    for i, k in zip(*np.nonzero(occupancy), strict=True):
        mass = alphas[i if prior.per_record else 0] * state.weights[k]
        if bug == "expected tables":
            tables[i, k] = occupancy[i, k]
        elif prior.kind == "classes":
            tables[i, k] = 1
        else:
            tables[i, k] = sum(rng.random() < mass / (mass + l) for l in range(occupancy[i, k]))
    if prior.per_record:
        law, ends = prior.alpha, (1e-6, 200.0)
        if prior.kind == "hierarchical":
            law, ends = (float(spread[0]), float(spread[1])), (LEAST_ALPHA, 1e6)
        for i, size in enumerate(sizes):
            opened = int(tables[i].sum())
            alphas[i] = draw_on_grid(
                rng, lambda a, m=opened, s=size: m * np.log(a) - log_rising(a, int(s)), law, ends
            )
    if prior.kind == "hierarchical":
        spread = draw_spread(rng, alphas, spread)
    seats = tables.sum(axis=0)
    dishes, total = int((seats > 0).sum()), int(seats.sum())
    weights, top = np.zeros(len(seats)), state.top
    if prior.components:
        weights[: prior.components] = rng.dirichlet(1.0 + seats[: prior.components])
    else:
        top = np.array(
            [draw_on_grid(rng, lambda a: dishes * np.log(a) - log_rising(a, total), prior.top)]
        )
        shares = rng.gamma(np.append(seats[seats > 0], top))
        shares /= shares.sum()
        weights[seats > 0] = shares[:-1]
        weights[seats == 0] = shares[-1] * sticks(rng, top[0], int((seats == 0).sum()))
    profile = draw_profile_prior(rng, prior, state.profile, counts)
    theta = draw_profiles(rng, prior, profile, counts)
    return State(z, theta, weights, alphas, spread, top, profile)


def draw_spread(rng: np.random.Generator, alphas: Array, spread: Array) -> Array:
    """Shape a and rate b of alphas ~ Gamma(a, b), priors Gamma(1, 1): a | b, then b | a."""
    n, total = len(alphas), float(np.log(alphas).sum())
    a = draw_on_grid(
        rng, lambda a: a * (total + n * math.log(spread[1])) - n * gammaln(a), (1.0, 1.0)
    )
    return np.array([a, rng.gamma(1.0 + n * a) / (1.0 + alphas.sum())])


def draw_profile_prior(
    rng: np.random.Generator, prior: Prior, profile: Array, counts: Array
) -> Array:
    """What is learned of the profiles' Dirichlet parameters c_j b_j given counts, theta out.

    c_j on a grid given b_j. b_j, with its flat prior, by Metropolis: two levels share what they
    have anew, uniformly.
    """
    profile = profile.copy()
    for j, (first, last) in enumerate(itertools.pairwise(prior.offsets)):
        levels = prior.n_levels[j]
        here = counts[first:last, counts[first:last].sum(axis=0) > 0]
        c = float(profile[first:last].sum())
        b = profile[first:last] / c

        def log_evidence(c: Array, b: Array, here: Array = here) -> Array:
            value = here.shape[1] * gammaln(c)
            for n in here.T:
                value = value - gammaln(c + n.sum())
                for share, m in zip(b, n, strict=True):
                    if m:
                        value = value + gammaln(c * share + m) - gammaln(c * share)
            return value

        if prior.profile is None:
            c = draw_on_grid(
                rng, lambda c, b=b: log_evidence(c, b), (prior.law[0], prior.law[1] / levels)
            )
        if prior.base == "learned":
            for _ in range(2 * levels):
                x, y = rng.choice(levels, 2, replace=False)
                moved = b.copy()
                moved[x] = (b[x] + b[y]) * rng.random()
                moved[y] = b[x] + b[y] - moved[x]
                gain = log_evidence(np.array(c), moved) - log_evidence(np.array(c), b)
                if np.log(rng.random()) < gain:
                    b = moved
        profile[first:last] = c * b
    return profile


def _choose(rng: np.random.Generator, mass: Array) -> int:
    return min(int(mass.cumsum().searchsorted(rng.random() * mass.sum())), len(mass) - 1)


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
