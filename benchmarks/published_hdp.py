"""What the program that paper 1 published (BNP_DR, commit 6d11a81) computes, with its errors.

Our own code of its steps, to find out where the paper's figures come from; unikat's own sampler is
`hdp`. Each difference from the sampler that the paper states is a correction that can be switched
on by its name:

`tables`
    Step 2 draws the numbers of tables with α_i g_0k, not with α_0 g_0k.
`order`
    Empty components are dropped between step 2 and step 3, and the program leaves the numbers of
    tables in the old order: after a component has died the following ones get each other's
    weights, and one of them the weight zero. It also counts one component too many, so that a new
    one stands a place too far and gets the weight zero at once.
`steps`
    α_0 and α_i are drawn with the weights integrated out (step 6), so they must be drawn before
    the weights (steps 3 and 4). The paper has them after.
`prior`
    A new record's α comes from the prior Gamma(2, 1), not from a gamma that is matched to mean and
    variance of the sampled α_i.
`draws`
    P(c) is a mean over 10,000 drawn vectors g, not over 500. (1 - P(c))^(N - n) is convex in P(c),
    so few draws make τ1 too large.

Where the weight is zero the program divides zero by zero; the choice that it then makes is the
first one, no table.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
from numba import njit

CORRECTIONS = ("tables", "order", "steps", "prior", "draws")
MOST = 200
"""Columns for components."""
SHAPE, RATE = 2.0, 1.0
"""Of the gamma priors of α_0 and of α_i."""


class Found(NamedTuple):
    """Draws of a chain after its burn-in."""

    draws: dict[str, Any]
    n_sweeps: int
    burn_in: int


@njit(cache=True)
def gamma(shape):
    """Gamma variable, 0 where the shape is 0."""
    return np.random.standard_gamma(shape) if shape > 0.0 else 0.0


@njit(cache=True)
def dirichlet(shapes, used, out):
    """Draw proportions of the first `used` places into `out`."""
    total = 0.0
    while total <= 0.0:
        total = 0.0
        for k in range(used):
            out[k] = gamma(shapes[k])
            total += out[k]
    for k in range(used):
        out[k] /= total


@njit(cache=True)
def beta_variable(a, b):
    """Beta variable; a half where both gammas are too small for a double."""
    x, y = gamma(a), gamma(b)
    return x / (x + y) if x + y > 0.0 else 0.5


@njit(cache=True)
def born(n_components, weights, pi, alpha_0, alpha):
    """Split a new component off the unseen part, as step 1 does; its column is the last."""
    new = n_components + 1
    stay = beta_variable(alpha_0, 1.0)
    for i in range(len(alpha)):
        a = alpha[i] * weights[0]
        part = beta_variable(a * stay, a * (1.0 - stay))
        pi[i, new] = pi[i, 0] * (1.0 - part)
        pi[i, 0] *= part
    weights[new] = weights[0] * (1.0 - stay)
    weights[0] *= stay
    return new


@njit(cache=True)
def last_column(weights, n_components):
    """Last column that a token can be in: weights left in the old order may lie further out."""
    last = n_components
    for k in range(n_components + 1, MOST + 1):
        if weights[k] > 0.0:
            last = k
    return last


@njit(cache=True)
def assign(x, n_levels, theta, weights, pi, alpha_0, alpha, n_components, z):
    """Step 1: all tokens given (g_i, theta); then the new components. Returns their number."""
    n, n_keys = x.shape
    chance = np.empty(MOST + 1)
    used = last_column(weights, n_components)
    for i in range(n):
        for j in range(n_keys):
            total = pi[i, 0] / n_levels[j]
            chance[0] = total
            for k in range(1, used + 1):
                total += pi[i, k] * theta[k - 1, j, x[i, j]]
                chance[k] = total
            u = np.random.random() * total
            k = 0
            while k < used and chance[k] < u:
                k += 1
            z[i, j] = k
    while True:
        new = -1
        for i in range(n):
            for j in range(n_keys):
                if z[i, j] == 0:
                    if new < 0:
                        if n_components + 1 >= MOST:
                            return -1
                        n_components = born(n_components, weights, pi, alpha_0, alpha)
                        new = n_components
                        z[i, j] = new
                    elif np.random.random() * (pi[i, 0] + pi[i, new]) >= pi[i, 0]:
                        z[i, j] = new
        if new < 0:
            return n_components


@njit(cache=True)
def tables_of(size, concentration):
    """Step 2 for one record and component: how many tables `size` tokens open."""
    if concentration <= 0.0:
        return 0
    opened = 0
    for seated in range(size):
        if np.random.random() * (concentration + seated) < concentration:
            opened += 1
    return opened


@njit(cache=True)
def concentrations(n_keys, tables, of_record, n_components, alpha_0, alpha):
    """Step 6: α_0 and all α_i given the tables; returns α_0, and changes `alpha`."""
    total = tables.sum()
    eta = np.log(beta_variable(alpha_0 + 1.0, total))
    odds = total * (RATE - eta)
    less = np.random.random() * (n_components + SHAPE - 1.0 + odds) < odds
    alpha_0 = gamma(SHAPE + n_components - less) / (RATE - eta)
    for i in range(len(alpha)):
        eta = np.log(beta_variable(alpha[i] + 1.0, float(n_keys)))
        odds = n_keys * (RATE - eta)
        less = np.random.random() * (of_record[i] + SHAPE - 1.0 + odds) < odds
        alpha[i] = gamma(SHAPE + of_record[i] - less) / (RATE - eta)
    return alpha_0


@njit(cache=True)
def memberships(sizes, place, alpha, weights, pi):
    """Step 4: the records' proportions."""
    n, used = sizes.shape
    own, drawn = np.empty(used), np.empty(used)
    pi[:] = 0.0
    for i in range(n):
        for k in range(used):
            own[k] = alpha[i] * weights[k]
        for k in range(1, used):
            if sizes[i, k]:
                own[place[k]] += sizes[i, k]
        dirichlet(own, used, drawn)
        pi[i, :used] = drawn


@njit(cache=True)
def profiles(x, z, place, n_levels, used, theta):
    """Step 5: profiles of the components, those without tokens from their prior."""
    counts = np.ones(theta.shape)
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            counts[place[z[i, j]] - 1, j, x[i, j]] += 1.0
    for k in range(used):
        for j in range(x.shape[1]):
            dirichlet(counts[k, j], n_levels[j], theta[k, j])


@njit(cache=True)
def sweep(x, n_levels, theta, weights, pi, alpha, alpha_0, n_components, right):
    """One sweep of the program; returns its number of components and α_0. Arrays are changed.

    `right`: whether tables, order and steps are corrected.
    """
    right_tables, in_order, alphas_first = right
    n, n_keys = x.shape
    z = np.empty((n, n_keys), np.int64)
    used = last_column(weights, n_components)
    last = assign(x, n_levels, theta, weights, pi, alpha_0, alpha, n_components, z)
    if last < 0 or used > MOST - 2:
        return -1, alpha_0
    last = max(last, used)
    sizes = np.zeros((n, last + 1), np.int64)
    for i in range(n):
        for j in range(n_keys):
            sizes[i, z[i, j]] += 1
    tokens = sizes.sum(axis=0)
    tables, of_record = np.zeros(last + 1), np.zeros(n)
    for i in range(n):
        concentration = alpha[i] if right_tables else alpha_0
        for k in range(1, last + 1):
            if sizes[i, k]:
                opened = tables_of(sizes[i, k], concentration * weights[k])
                tables[k] += opened
                of_record[i] += opened
    # Components without tokens are dropped; the tables stay where they were unless `in_order`.
    place = np.zeros(last + 1, np.int64)
    occupied = 0
    for k in range(1, last + 1):
        if tokens[k]:
            occupied += 1
            place[k] = occupied
    n_components = occupied if in_order else occupied + 1
    if alphas_first:
        alpha_0 = concentrations(n_keys, tables, of_record, n_components, alpha_0, alpha)
    shapes = np.zeros(last + 1)
    shapes[0] = alpha_0
    for k in range(1, last + 1):
        if not in_order:
            shapes[k] = tables[k]
        elif place[k]:
            shapes[place[k]] = tables[k]
    weights[:] = 0.0
    dirichlet(shapes, last + 1, weights)
    memberships(sizes, place, alpha, weights, pi)
    profiles(x, z, place, n_levels, last + 2, theta)
    if not alphas_first:
        alpha_0 = concentrations(n_keys, tables, of_record, n_components, alpha_0, alpha)
    return n_components, alpha_0


@njit(cache=True)
def tau_of(cells, n_levels, theta, weights, shape, rate, n_draws, unobserved):
    """τ1 given a state: P(c) by Monte Carlo, then the sum of (1 - P(c))^(N - n)."""
    n_keys = cells.shape[1]
    used = len(weights)
    while used > 1 and weights[used - 1] == 0.0:
        used -= 1
    p = np.zeros(len(cells))
    g, own = np.empty(used), np.empty(used)
    level = np.empty((n_keys, theta.shape[2]))
    for _ in range(n_draws):
        a = gamma(shape) / rate
        for k in range(used):
            own[k] = a * weights[k]
        dirichlet(own, used, g)
        for j in range(n_keys):
            for x in range(n_levels[j]):
                total = g[0] / n_levels[j]
                for k in range(1, used):
                    total += g[k] * theta[k - 1, j, x]
                level[j, x] = total
        for c in range(len(cells)):
            product = 1.0
            for j in range(n_keys):
                product *= level[j, cells[c, j]]
            p[c] += product
    return np.exp(unobserved * np.log1p(-p / n_draws)).sum()


@njit(cache=True)
def seed_of(seed):
    """Seed Numba's generator."""
    np.random.seed(seed)


def start(n: int, n_levels: Any, n_components: int, rng: np.random.Generator) -> list[Any]:
    """The program's random start: profiles, weights and memberships from flat Dirichlets."""
    theta = np.zeros((MOST + 2, len(n_levels), max(n_levels)))
    for j, size in enumerate(n_levels):
        theta[:, j, :size] = rng.dirichlet(np.ones(size), MOST + 2)
    weights, pi = np.zeros(MOST + 1), np.zeros((n, MOST + 1))
    weights[: n_components + 1] = rng.dirichlet(np.ones(n_components + 1))
    pi[:, : n_components + 1] = rng.dirichlet(np.ones(n_components + 1), n)
    return [theta, weights, pi, rng.gamma(SHAPE, 1.0 / RATE, n)]


class State(NamedTuple):
    """A chain after a sweep; the arrays are the chain's own."""

    theta: Any
    weights: Any
    alpha: Any
    alpha_0: float
    n_components: int


def chain(
    x: Any, n_levels: Any, corrections: frozenset[str], *, n_start: int, seed: int
) -> Iterator[State]:
    """Yield the states of a chain, sweep after sweep."""
    if unknown := corrections - set(CORRECTIONS):
        raise ValueError(f"no correction {unknown}; there are {CORRECTIONS}")
    seed_of(seed)
    theta, weights, pi, alpha = start(len(x), n_levels, n_start, np.random.default_rng(seed))
    alpha_0, n_components = SHAPE / RATE, n_start
    right = ("tables" in corrections, "order" in corrections, "steps" in corrections)
    while True:
        n_components, alpha_0 = sweep(
            x, n_levels, theta, weights, pi, alpha, alpha_0, n_components, right
        )
        if n_components < 0:
            raise RuntimeError("more components than there are columns")
        yield State(theta, weights, alpha, alpha_0, n_components)


def run(
    table: Any,
    corrections: frozenset[str] = frozenset(),
    *,
    n_sweeps: int,
    n_start: int = 30,
    thin: int = 20,
    seed: int = 1,
) -> Found:
    """Run one chain; the first third is left out. The program starts with 100 components."""
    x = table.cells[table.record_cell].astype(np.int64)
    n_levels = np.array(table.n_levels, np.int64)
    unique = table.cells[table.unique].astype(np.int64)
    unobserved = float(table.population_size - table.n_records)
    n_draws = 10_000 if "draws" in corrections else 500
    kept: dict[str, list[float]] = {name: [] for name in ("tau1", "components", "alpha_0", "alpha")}
    states = chain(x, n_levels, corrections, n_start=n_start, seed=seed)
    for state in islice(states, thin - 1, n_sweeps, thin):
        shape, rate = SHAPE, RATE
        if "prior" not in corrections:
            mean, variance = state.alpha.mean(), state.alpha.var()
            shape, rate = mean**2 / variance, mean / variance
        found = tau_of(
            unique, n_levels, state.theta, state.weights, shape, rate, n_draws, unobserved
        )
        kept["tau1"].append(found)
        kept["components"].append(state.n_components)
        kept["alpha_0"].append(state.alpha_0)
        kept["alpha"].append(state.alpha.mean())
    burn_in = len(kept["tau1"]) // 3
    draws = {name: np.array(values[burn_in:]) for name, values in kept.items()}
    return Found(draws, n_sweeps, burn_in * thin)
