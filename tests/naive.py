"""Slow twins: every formula once more, from the equations, in plain Python and NumPy.

Nothing here imports a kernel. Symbols are those of `docs` and of models.md: theta is a list of
(n_levels, n_components) arrays, one per key; a record's tokens are its known keys.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]


def philox(counter: Sequence[int], key: Sequence[int]) -> tuple[int, ...]:
    """Philox4x32-10 of Salmon, Moraes, Dror & Shaw (2011)."""
    c, k = list(counter), list(key)
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ k[0], b & 0xFFFFFFFF, (a >> 32) ^ c[3] ^ k[1], a & 0xFFFFFFFF]
        k = [(k[0] + 0x9E3779B9) & 0xFFFFFFFF, (k[1] + 0xBB67AE85) & 0xFFFFFFFF]
    return tuple(c)


def set_partitions(items: Sequence[Any]) -> Iterator[list[list[Any]]]:
    """Yield every partition of `items` into blocks."""
    if not items:
        yield []
        return
    for partition in set_partitions(items[1:]):
        yield [[items[0]], *partition]
        for b, block in enumerate(partition):
            yield [*partition[:b], [items[0], *block], *partition[b + 1 :]]


def rising(a: Any, n: int) -> Any:
    """a (a + 1) ... (a + n - 1), of a number or an array."""
    return math.prod((a + l for l in range(n)), start=a * 0.0 + 1.0)


def no_zeros(n_keys: int, n_rows: int) -> dict[str, Array]:
    """Return the fields of a sampler's state that are empty without structural zeros."""
    return {
        "imputed": np.empty((0, n_keys), np.int32),
        "impossible": np.empty((n_rows, 0), np.int32),
        "impossible_tables": np.empty(0, np.int64),
    }


# --- probabilities of cells, and risks -------------------------------------------------------


def cell_probability(
    theta: list[Array], weights: Array, alpha: float, cell: Sequence[int]
) -> float:
    """E prod_j sum_k g_k theta_j,c_j,k over g ~ DP(alpha, weights), partition by partition."""
    known = [j for j, level in enumerate(cell) if level >= 0]
    total = 0.0
    for partition in set_partitions(known):
        term = alpha ** len(partition) / rising(alpha, len(known))
        for block in partition:
            joint = weights * np.prod([theta[j][cell[j]] for j in block], axis=0)
            term *= math.factorial(len(block) - 1) * float(joint.sum())
        total += term
    return total


def closed_sum(theta: list[Array], weights: Array, alpha: float, cell: Sequence[int]) -> float:
    """The same for K components: a sum over all z in {1..K}^J (paper 2, eq. 24)."""
    known = [j for j, level in enumerate(cell) if level >= 0]
    total = 0.0
    for z in itertools.product(range(len(weights)), repeat=len(known)):
        term = math.lgamma(alpha) - math.lgamma(alpha + len(known))
        for k in set(z):
            mass = alpha * float(weights[k])
            term += math.lgamma(mass + z.count(k)) - math.lgamma(mass)
        value = math.exp(term)
        for j, k in zip(known, z, strict=True):
            value *= float(theta[j][cell[j], k])
        total += value
    return total


def cell_probability_draws(
    rng: np.random.Generator,
    theta: list[Array],
    weights: Array,
    alpha: float,
    cell: Sequence[int],
    n: int,
) -> Array:
    """The same expectation's integrand at `n` draws of g ~ Dirichlet(alpha weights)."""
    g = rng.dirichlet(alpha * weights, n)
    factors = [g @ theta[j][level] for j, level in enumerate(cell) if level >= 0]
    return np.prod([np.ones(n), *factors], axis=0)


def binomial_support(trials: int, p: float) -> tuple[Array, Array]:
    """Values and probabilities of Binomial(trials, p), by ratios from the mode outwards."""
    mode = min(math.floor((trials + 1) * p), trials)
    reach = math.ceil(14 * math.sqrt(trials * p * (1 - p))) + 80
    up = np.arange(mode + 1, min(trials, mode + reach) + 1, dtype=float)
    down = np.arange(mode, max(0, mode - reach), -1, dtype=float)
    odds = p / (1 - p)
    above = np.cumprod((trials - up + 1) / up * odds)
    below = np.cumprod(down / (trials - down + 1) / odds)
    x = np.concatenate((down[::-1] - 1, [mode], up))
    mass = np.concatenate((below[::-1], [1.0], above))
    return x, mass / math.fsum(mass)


def match_risk(trials: int, p: float, count: int) -> float:
    """E[1 / (count + X)], X ~ Binomial(trials, p), as a sum."""
    x, mass = binomial_support(trials, p)
    return math.fsum(mass / (count + x))


def simulate_population(
    rng: np.random.Generator, unobserved: int, all_cells: Array, sample_unique: Array
) -> tuple[int, float]:
    """Simulate each unobserved individual over all cells; count what is left of the uniques."""
    people = rng.choice(len(all_cells), size=unobserved, p=all_cells)
    others = np.bincount(people, minlength=len(all_cells))[sample_unique]
    return int((others == 0).sum()), float((1.0 / (1 + others)).sum())


# --- mixtures by enumeration -----------------------------------------------------------------


class Franchise:
    """The exact posterior of a mixture on a tiny table, as a Chinese restaurant franchise.

    Every partition of every record's tokens into tables and of all tables into dishes is listed;
    g, g0 and theta are integrated out in closed form, the concentrations by quadrature.

    alpha: (shape, rate) of its gamma prior, a number if it is known, or None for latent classes,
    where a record has one table; one for all records if `shared`. top: the same for alpha_0; or
    `components` of them have a Dirichlet(1) prior. profile: Dirichlet parameter of every level.
    """

    def __init__(
        self,
        records: Sequence[Sequence[int]],
        n_levels: Sequence[int],
        *,
        alpha: tuple[float, float] | float | None,
        profile: float,
        top: tuple[float, float] | float = 1.0,
        shared: bool = True,
        components: int = 0,
    ) -> None:
        self.n_levels, self.shared, self.profile = n_levels, shared, profile
        self.alpha, self.top, self.n_most = alpha, top, components
        self.tokens = [
            (i, j, level)
            for i, record in enumerate(records)
            for j, level in enumerate(record)
            if level >= 0
        ]
        self.sizes = [sum(level >= 0 for level in record) for record in records]
        self._top: dict[tuple[int, int, int], float] = {}
        self._alpha: dict[tuple[Any, int, int], float] = {}
        self._dish: dict[tuple[int, ...], float] = {}
        self.evidence = 0.0
        pairs = len(self.tokens)
        self.together = np.zeros((pairs, pairs))
        self.n_components = self.alpha_mean = self.top_mean = 0.0
        # Of every menu, each dish as its tokens and its number of tables.
        self.law: dict[frozenset[tuple[tuple[int, ...], int]], float] = {}
        per_record = [
            list(self._seatings([t for t, token in enumerate(self.tokens) if token[0] == i]))
            for i in range(len(records))
        ]
        for seating in itertools.product(*per_record):
            tables = [table for record in seating for table in record]
            ways = 1
            if alpha is not None:
                ways = math.prod(math.factorial(len(table) - 1) for table in tables)
            n_tables = [len(record) for record in seating]
            a0, a1 = self._alpha_factor(n_tables, 0), self._alpha_factor(n_tables, 1)
            for menu in set_partitions(tables):
                dishes = [[t for table in dish for t in table] for dish in menu]
                seats = [len(dish) for dish in menu]
                weight = ways * math.prod(self._likelihood(dish) for dish in dishes)
                b0 = self._menu_factor(seats, 0)
                mass = weight * a0 * b0
                self.evidence += mass
                self.n_components += mass * len(menu)
                self.alpha_mean += weight * a1 * b0
                self.top_mean += weight * a0 * self._menu_factor(seats, 1)
                state = frozenset(
                    (tuple(sorted(dish)), n) for dish, n in zip(dishes, seats, strict=True)
                )
                self.law[state] = self.law.get(state, 0.0) + mass
                for dish in dishes:
                    for t in dish:
                        self.together[t, dish] += mass
        for name in ("together", "n_components", "alpha_mean", "top_mean"):
            setattr(self, name, getattr(self, name) / self.evidence)
        for state in self.law:
            self.law[state] /= self.evidence

    def _seatings(self, tokens: list[int]) -> Iterator[list[list[int]]]:
        if self.alpha is not None:
            return set_partitions(tokens)
        return iter([[tokens] if tokens else []])

    def _likelihood(self, dish: list[int]) -> float:
        where = tuple(sorted(dish))
        if where in self._dish:
            return self._dish[where]
        value = 1.0
        for j, levels in enumerate(self.n_levels):
            count = np.bincount(
                [self.tokens[t][2] for t in dish if self.tokens[t][1] == j], minlength=levels
            )
            value *= math.prod(rising(self.profile, int(c)) for c in count)
            value /= rising(levels * self.profile, int(count.sum()))
        self._dish[where] = value
        return value

    def _menu_factor(self, seats: list[int], power: int) -> float:
        """P(menu), times top^power where there is a top concentration."""
        dishes, tables = len(seats), sum(seats)
        if self.n_most:
            # Names for the dishes; then Dirichlet(1) weights, integrated out.
            value = float(math.perm(self.n_most, dishes))
            value *= math.prod(math.factorial(n) for n in seats)
            return value / rising(float(self.n_most), tables)
        where = dishes, tables, power
        if where not in self._top:
            # E[top^(power + dishes) Gamma(top) / Gamma(top + tables)] under the prior.
            self._top[where] = gamma_mean(
                lambda a: a ** (dishes + power) / rising(a, tables), self.top
            )
        return self._top[where] * math.prod(math.factorial(n - 1) for n in seats)

    def _alpha_factor(self, n_tables: list[int], power: int) -> float:
        """E[alpha^power prod_i alpha^tables_i Gamma(alpha) / Gamma(alpha + tokens_i)].

        With one alpha per record, `power` is that of record 0's.
        """
        if self.alpha is None:
            return 1.0
        if self.shared:
            where: tuple[Any, int, int] = ("all", sum(n_tables), power)
            if where not in self._alpha:
                self._alpha[where] = gamma_mean(
                    lambda a: (
                        a ** (sum(n_tables) + power)
                        / math.prod(rising(a, size) for size in self.sizes)
                    ),
                    self.alpha,
                )
            return self._alpha[where]
        value = 1.0
        for i, (tables, size) in enumerate(zip(n_tables, self.sizes, strict=True)):
            where = (tables, size, power if i == 0 else 0)
            if where not in self._alpha:
                self._alpha[where] = gamma_mean(
                    lambda a, w=where: a ** (w[0] + w[2]) / rising(a, w[1]), self.alpha
                )
            value *= self._alpha[where]
        return value


def gamma_mean(function: Callable[[Array], Array], law: tuple[float, float] | float) -> float:
    """E f(a), a ~ Gamma(shape, rate), for f smooth: the trapezium rule in log a.

    f(a) where `law` is a number, the value that a is known to have.
    """
    if isinstance(law, float):
        return float(function(np.array(law)))
    shape, rate = law
    a = np.exp(np.arange(-60.0 / shape, math.log(700.0 / rate), 0.05))
    mass = np.exp(shape * np.log(a) - rate * a)
    return float((function(a) * mass).sum() / mass.sum())


# --- conditionals of the HDP's tokens --------------------------------------------------------


def block_weights(
    z: Sequence[int],
    t: int,
    likelihood: Array,
    weights: Array,
    alpha: float,
    *,
    ignore: bool = False,
) -> Array:
    """Unnormalised law of the component of token t's block, the other blocks staying put.

    P(z) = prod_k Gamma(alpha g_k + n_k) / Gamma(alpha g_k) prod_t likelihood[t, z_t], restricted
    to states with the same blocks. likelihood (n_tokens, n_components). `ignore` is a bug to plant:
    the block may join another.
    """
    block = [l for l in range(len(z)) if z[l] == z[t]]
    mass = rising(alpha * weights, len(block)) * likelihood[block].prod(axis=0)
    if not ignore:
        mass[[k for k in z if k != z[t]]] = 0.0
    return mass


def token_weights(
    z: Sequence[int], t: int, likelihood: Array, weights: Array, alpha: float
) -> Array:
    """Unnormalised law of token t's component: (n_k without t + alpha g_k) likelihood."""
    count = np.bincount([z[l] for l in range(len(z)) if l != t], minlength=len(weights))
    return (count + alpha * weights) * likelihood[t]


def sweep_matrix(likelihood: Array, weights: Array, alpha: float) -> tuple[Array, Array]:
    """Transition matrix of one sweep of one record, and the law it has to leave alone.

    States are all (z_1, ..., z_T) in lexicographic order. For t = 1, ..., T the block that t is
    the first of moves; then for t = 1, ..., T the token moves.
    """
    n_tokens, n_components = likelihood.shape
    states = list(itertools.product(range(n_components), repeat=n_tokens))
    place = {state: s for s, state in enumerate(states)}
    matrix = np.eye(len(states))
    for t in range(n_tokens):
        step = np.zeros_like(matrix)
        for s, z in enumerate(states):
            if z[t] in z[:t]:
                step[s, s] = 1.0
                continue
            mass = block_weights(z, t, likelihood, weights, alpha)
            for k in np.flatnonzero(mass):
                moved = tuple(int(k) if c == z[t] else c for c in z)
                step[s, place[moved]] += mass[k] / mass.sum()
        matrix = matrix @ step
    for t in range(n_tokens):
        step = np.zeros_like(matrix)
        for s, z in enumerate(states):
            mass = token_weights(z, t, likelihood, weights, alpha)
            for k in range(n_components):
                step[s, place[(*z[:t], k, *z[t + 1 :])]] = mass[k] / mass.sum()
        matrix = matrix @ step
    law = np.array(
        [
            math.prod(rising(alpha * weights[k], z.count(k)) for k in set(z))
            * math.prod(float(likelihood[t, k]) for t, k in enumerate(z))
            for z in states
        ]
    )
    return matrix, law / law.sum()


def alias_masses(total: Array, cut: Array, alias: Array) -> Array:
    """Masses that alias tables stand for, (n_rows, n_slots); `total` (n_rows,)."""
    n_rows, n_slots = cut.shape
    mass = np.zeros((n_rows, n_slots))
    for r in range(n_rows):
        for s in range(n_slots):
            kept = min(float(cut[r, s]), 1.0)
            mass[r, s] += kept
            mass[r, alias[r, s]] += 1.0 - kept
    return mass * (np.asarray(total, float) / n_slots)[:, None]


def stirling(n: int) -> list[int]:
    """Unsigned Stirling numbers of the first kind c(n, 0), ..., c(n, n)."""
    row = [1]
    for m in range(n):
        row = [(row[k - 1] if k else 0) + m * (row[k] if k < len(row) else 0) for k in range(m + 2)]
    return row


def table_law(n: int, mass: float) -> Array:
    """P(number of tables = 0, ..., n) of n customers with concentration `mass`."""
    return np.array([c * mass**m for m, c in enumerate(stirling(n))]) / rising(mass, n)


def impute_law(
    record: Sequence[int], z: Sequence[int], theta: list[Array], weights: Array, alpha: float
) -> dict[tuple[int, ...], float]:
    """Law of the completed record, its missing tokens following the urn in order of keys."""
    law = {(tuple(record), tuple(z)): 1.0}
    for j, level in enumerate(record):
        if level >= 0:
            continue
        grown: dict[Any, float] = {}
        for (cell, at), mass in law.items():
            known = [k for k in at if k >= 0]
            for k in range(len(weights)):
                p = (known.count(k) + alpha * weights[k]) / (len(known) + alpha)
                for x in range(len(theta[j])):
                    where = ((*cell[:j], x, *cell[j + 1 :]), (*at[:j], k, *at[j + 1 :]))
                    grown[where] = grown.get(where, 0.0) + mass * p * float(theta[j][x, k])
        law = grown
    cells: dict[tuple[int, ...], float] = {}
    for (cell, _), mass in law.items():
        cells[cell] = cells.get(cell, 0.0) + mass
    return cells


# --- structural zeros ------------------------------------------------------------------------


def cell_law(theta: list[Array], z: Sequence[int]) -> Array:
    """prod_j theta_j,x_j,z_j of every cell x, one axis per key."""
    law = np.ones(())
    for profile, k in zip(theta, z, strict=True):
        law = np.multiply.outer(law, profile[:, k].astype(float))
    return law


def urn_law(
    n_keys: int, weights: Array, alpha: tuple[float, float] | float
) -> dict[tuple[int, ...], float]:
    """P(z) of a record's components, the prior mean over alpha where its law is given."""
    law = {}
    for z in itertools.product(range(len(weights)), repeat=n_keys):

        def given(a: Array, z: tuple[int, ...] = z) -> Array:
            mass = math.prod(rising(a * weights[k], z.count(k)) for k in set(z))
            return mass / rising(a, n_keys)

        law[z] = gamma_mean(given, alpha)
    return law


def impossible_beginnings(
    impossible: Array, order: Sequence[int]
) -> Iterator[tuple[dict[int, int], int]]:
    """Yield the shortest beginnings after which nothing is possible, and their length.

    A beginning names the levels of the first keys of `order`.
    """
    layers = impossible.transpose(list(order))

    def grow(levels: tuple[int, ...]) -> Iterator[tuple[dict[int, int], int]]:
        if layers[levels].all():
            yield dict(zip(order, levels, strict=False)), len(levels)
        elif len(levels) < layers.ndim:
            for level in range(layers.shape[len(levels)]):
                yield from grow((*levels, level))

    return grow(())


def impossible_law(
    impossible: Array,
    order: Sequence[int],
    theta: list[Array],
    urn: dict[tuple[int, ...], float],
) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
    """P(beginning, its components) of a record that is impossible; sums to their probability.

    Both are -1 for the keys that do not belong to the beginning.
    """
    n_keys = len(order)
    law: dict[tuple[tuple[int, ...], tuple[int, ...]], float] = {}
    for levels, _ in impossible_beginnings(impossible, order):
        pattern = tuple(levels.get(j, -1) for j in range(n_keys))
        for z, mass in urn.items():
            known = tuple(k if j in levels else -1 for j, k in enumerate(z))
            p = mass * math.prod(float(theta[j][x, z[j]]) for j, x in levels.items())
            law[pattern, known] = law.get((pattern, known), 0.0) + p
    return law


def completion_law(
    impossible: Array, theta: list[Array], record: Sequence[int], z: Sequence[int]
) -> dict[tuple[int, ...], float]:
    """Law of the possible completions of a record given its components."""
    law = cell_law(theta, z)
    law[impossible] = 0.0
    cells = {
        cell: float(law[cell])
        for cell in itertools.product(*map(range, law.shape))
        if all(x in (-1, level) for x, level in zip(record, cell, strict=True))
    }
    total = math.fsum(cells.values())
    return {cell: mass / total for cell, mass in cells.items() if mass > 0.0}


def mixed_law(
    impossible: Array,
    order: Sequence[int],
    theta: list[Array],
    urn: dict[tuple[int, ...], float],
) -> dict[tuple[tuple[int, ...], tuple[int, ...]], float]:
    """P(beginning, components of all keys) of an impossible record of several components."""
    law = {}
    for levels, _ in impossible_beginnings(impossible, order):
        pattern = tuple(levels.get(j, -1) for j in range(len(order)))
        for z, mass in urn.items():
            if len(set(z)) > 1:
                law[pattern, z] = mass * math.prod(
                    float(theta[j][x, z[j]]) for j, x in levels.items()
                )
    return law


class Ridge:
    """One move of a profile and its component's weight, its ratio from the densities.

    The target: Dirichlet profiles, weights with density prod_k g_k^(e_k - 1) over the slots that
    move, what is left to the others having exponent `rest`, and the factor (1 - R)^-n_seen, R the
    probability of an impossible record of one component. theta is a list of (n_levels, n_slots),
    as are `shapes`; exponents (n_slots,), 0 for the slots that do not move.
    """

    def __init__(
        self,
        impossible: Array,
        shapes: list[Array],
        exponents: Array,
        rest: float,
        alpha: float,
        n_seen: float,
    ) -> None:
        self.impossible, self.shapes, self.exponents = impossible, shapes, exponents
        self.rest, self.alpha, self.n_seen = rest, alpha, n_seen

    def possible(self, theta: list[Array], k: int) -> float:
        return float(cell_law(theta, [k] * len(theta))[~self.impossible].sum())

    def tilts(self, theta: list[Array], j: int, k: int) -> Array:
        """P(possible | key j has each level, the other keys of k)."""
        found = []
        for level in range(len(theta[j])):
            sure = [profile.copy() for profile in theta]
            sure[j][:, k] = np.arange(len(theta[j])) == level
            found.append(self.possible(sure, k))
        return np.array(found)

    def moved_weights(self, weights: Array, k: int, ratio: float) -> Array:
        grown = np.where(np.arange(len(weights)) == k, weights * ratio, weights)
        return grown / grown.sum()

    def log_target(self, theta: list[Array], weights: Array) -> float:
        value = math.fsum(
            float(((shape - 1.0) * np.log(profile)).sum())
            for shape, profile in zip(self.shapes, theta, strict=True)
        )
        free = self.exponents > 0.0
        value += float(((self.exponents[free] - 1.0) * np.log(weights[free])).sum())
        if not free.all():
            value += (self.rest - 1.0) * math.log(weights[~free].sum())
        mass = math.fsum(
            float(g)
            * math.prod((l + self.alpha * g) / (l + self.alpha) for l in range(1, len(theta)))
            * (1.0 - self.possible(theta, k))
            for k, g in enumerate(weights)
        )
        return value - self.n_seen * math.log1p(-mass)

    def log_jacobian(self, weights: Array, k: int, ratio: float) -> float:
        """Of the weights that move, the last of all given by the others, by differences."""
        free = np.flatnonzero(self.exponents > 0.0)
        last = np.arange(len(weights))[-1:]
        if len(free) < len(weights):
            last = np.flatnonzero(self.exponents <= 0.0)
        else:
            free = free[:-1]
        columns = []
        for place in free:
            step = 1e-6 * weights[place]
            ends = []
            for sign in (-1.0, 1.0):
                there = weights.copy()
                there[place] += sign * step
                # What is left shrinks as a whole.
                there[last] *= 1.0 - sign * step / weights[last].sum()
                ends.append(self.moved_weights(there, k, ratio)[free])
            columns.append((ends[1] - ends[0]) / (2.0 * step))
        return float(np.linalg.slogdet(np.array(columns))[1])

    def log_proposal(self, profile: Array, shape: Array, rates: Array) -> float:
        """Density of normalised Gamma(shape) / rates at `profile`, but for a constant."""
        value = float((shape * np.log(rates) + (shape - 1.0) * np.log(profile)).sum())
        return value - float(shape.sum()) * math.log(float(rates @ profile))

    def log_ratio(
        self, theta: list[Array], weights: Array, j: int, k: int, profile: Array, floor: float
    ) -> tuple[float, list[Array], Array]:
        """Log of the ratio to accept with, and the state proposed."""
        rates = self.tilts(theta, j, k) + floor
        after = [there.copy() for there in theta]
        after[j][:, k] = profile
        ratio = self.possible(theta, k) / self.possible(after, k)
        moved = self.moved_weights(weights, k, ratio)
        value = self.log_target(after, moved) - self.log_target(theta, weights)
        value += self.log_jacobian(weights, k, ratio)
        value += self.log_proposal(theta[j][:, k], self.shapes[j][:, k], rates)
        value -= self.log_proposal(profile, self.shapes[j][:, k], rates)
        return value, after, moved


# --- rates that vary around a model ----------------------------------------------------------


def poisson(count: int, mean: Any) -> Any:
    """P(count) of a Poisson variable; `mean` a number or an array, positive."""
    return np.exp(count * np.log(mean) - mean - math.lgamma(count + 1.0))


def effect_law(
    overdispersion: float, seen: Sequence[tuple[int, float]] = ()
) -> tuple[Array, Array]:
    """Values g and their probabilities: g ~ Gamma(1/k, rate 1/k) by the trapezium rule in log g.

    seen: (count, mean) pairs; the law is that given Poisson counts of means mean g, by Bayes.
    """
    shape = 1.0 / overdispersion
    log_g = np.linspace(-max(150.0, 30.0 / shape), max(7.0, 5.0 + math.log(overdispersion)), 40_001)
    g = np.exp(np.maximum(log_g, -700.0))
    log_density = shape * log_g - shape * g
    for count, mean in seen:
        log_density = log_density + count * (math.log(mean) + log_g) - mean * g
    weights = np.exp(log_density - log_density.max())
    return g, weights / weights.sum()


def cell_overdispersion(k: float, expected: float) -> float:
    """Overdispersion of a cell of which so many individuals of the population are expected."""
    most = 5.0 if k <= 2.0 else 2.5 * k
    return min(most, k / expected**0.15) if expected > 0.0 else most


def repeat_probability(
    count: int, p: Array, n: float, population_size: float, k: float, shift: float
) -> float:
    """P(a cell is seen `count` times | it is seen 1, 2 or 3 times) by the other records.

    p: equally likely probabilities of the cell given all records; its rate is exp(d) p g. Without
    the cell's own records each counts with p^-count exp(n p), at most sqrt(S) times the mean.
    """
    weights = np.exp(-count * np.log(p) + n * p - (-count * np.log(p) + n * p).max())
    weights = np.minimum(weights, weights.sum() / math.sqrt(len(p)))
    q = math.exp(shift) * p
    seen = np.empty((len(p), 3))
    for i, one in enumerate(q):
        g, mass = effect_law(cell_overdispersion(k, population_size * one), [])
        seen[i] = [float(mass @ poisson(times, n * one * g)) for times in (1, 2, 3)]
    return float(weights @ seen[:, count - 1] / (weights @ seen.sum(axis=1)))


def error_posterior(
    prior: Array, likelihood: Array, log_k: Array, shifts: Array, settings: Sequence[float]
) -> Array:
    """P(k, d of the population | what the sample tells), pair by pair.

    likelihood: that of each pair; settings: lag_k, lag_d, spread_k, spread_d, power. The log k
    that the sample tells is normal around log k + lag_k, its d around d + lag_d, on the grids.
    """
    lag, lag_d, spread_k, spread_d, power = settings
    width = [
        (shifts[min(b + 1, len(shifts) - 1)] - shifts[max(b - 1, 0)])
        / (1.0 if b in (0, len(shifts) - 1) else 2.0)
        for b in range(len(shifts))
    ]
    found = np.zeros(prior.shape)
    for a, b in np.ndindex(*prior.shape):
        of_k = [math.exp(-0.5 * ((x - (log_k[a] + lag)) / spread_k) ** 2) for x in log_k]
        of_d = [
            math.exp(-0.5 * ((x - shifts[b] - lag_d) / spread_d) ** 2) * w
            for x, w in zip(shifts, width, strict=True)
        ]
        mean = sum(
            of_k[i] * of_d[j] * likelihood[i, j] ** power for i, j in np.ndindex(*prior.shape)
        ) / (sum(of_k) * sum(of_d))
        found[a, b] = prior[a, b] * mean
    return found / found.sum()


# --- log-linear models -----------------------------------------------------------------------


def poisson_match_risk(mean: float, count: int) -> float:
    """E[1 / (count + X)], X ~ Poisson(mean), as a sum from the mode outwards."""
    mode = math.floor(mean)
    reach = math.ceil(14 * math.sqrt(mean)) + 80
    up = np.arange(mode + 1, mode + reach + 1, dtype=float)
    down = np.arange(mode, max(0, mode - reach), -1, dtype=float)
    x = np.concatenate((down[::-1] - 1, [mode], up))
    mass = np.concatenate((np.cumprod(down / mean)[::-1], [1.0], np.cumprod(mean / up)))
    return math.fsum(mass / (count + x)) / math.fsum(mass)


class Product:
    """Weights of all cells as a product of factors, one table for each of some sets of keys.

    factors: {(0,): table, (0, 1): table, ...}, the axes of a table being its keys in order.
    possible: array of truth values, one axis per key.
    """

    def __init__(self, factors: dict[tuple[int, ...], Array], possible: Array) -> None:
        self.weight = np.zeros(possible.shape)
        for cell in itertools.product(*map(range, possible.shape)):
            if possible[cell]:
                self.weight[cell] = math.prod(
                    float(table[tuple(cell[j] for j in keys)]) for keys, table in factors.items()
                )

    def agreeing(self, pattern: Sequence[int]) -> Array:
        """Weights of the cells that agree with a pattern (-1 is any level), else 0."""
        kept = np.zeros_like(self.weight)
        where = tuple(slice(None) if level < 0 else slice(level, level + 1) for level in pattern)
        kept[where] = self.weight[where]
        return kept

    def cumulative(self, pattern: Sequence[int]) -> tuple[Array, Array]:
        """Cells of positive weight that agree, in lexicographic order, and running sums."""
        kept = self.agreeing(pattern)
        cells = np.argwhere(kept > 0.0)
        return cells, np.cumsum(kept[tuple(cells.T)])


def margin(table: Array, keys: Sequence[int]) -> Array:
    """Sum over all other axes."""
    return table.sum(axis=tuple(j for j in range(table.ndim) if j not in keys))


def fit_margins(fitted: Array, observed: Array, sets: Sequence[Sequence[int]]) -> Array:
    """One cycle of iterative proportional fitting (Deming and Stephan 1940)."""
    for keys in sets:
        others = tuple(j for j in range(observed.ndim) if j not in keys)
        wanted = observed.sum(axis=others, keepdims=True)
        got = fitted.sum(axis=others, keepdims=True)
        fitted = fitted * np.divide(wanted, got, out=np.zeros_like(got), where=got > 0.0)
    return fitted


def proportional_fitting(
    observed: Array,
    sets: Sequence[Sequence[int]],
    possible: Array | None = None,
    n_cycles: int = 20_000,
    tolerance: float = 1e-12,
) -> Array:
    """Fitted counts of the possible cells; margins agree to `tolerance` records."""
    fitted = np.ones(observed.shape) if possible is None else possible.astype(float)
    for _ in range(n_cycles):
        fitted = fit_margins(fitted, observed, sets)
        gaps = [np.abs(margin(fitted, keys) - margin(observed, keys)).max() for keys in sets]
        if max(gaps) < tolerance:
            return fitted
    raise ArithmeticError(f"margins differ by {max(gaps)} after {n_cycles} cycles")


def expected_counts(p: Array, records: Sequence[tuple[Sequence[int], float]]) -> Array:
    """Counts of the completed records that are expected given what is known of them."""
    counts = np.zeros(p.shape)
    for pattern, n in records:
        where = tuple(slice(None) if level < 0 else slice(level, level + 1) for level in pattern)
        counts[where] += n * p[where] / p[where].sum()
    return counts


def log_likelihood(p: Array, records: Sequence[tuple[Sequence[int], float]]) -> float:
    """Sum of the log probabilities of what is known of each record."""
    total = 0.0
    for pattern, n in records:
        where = tuple(slice(None) if level < 0 else level for level in pattern)
        total += n * math.log(float(np.sum(p[where])))
    return total


def fit_incomplete(
    records: Sequence[tuple[Sequence[int], float]],
    sets: Sequence[Sequence[int]],
    possible: Array,
    n_steps: int = 20_000,
    tolerance: float = 1e-13,
) -> Array:
    """Probabilities of the cells by expectation and conditional maximisation, on the full grid."""
    p = possible / possible.sum()
    n = sum(count for _, count in records)
    for _ in range(n_steps):
        after = fit_margins(p, expected_counts(p, records) / n, sets)
        change = np.abs(after - p).max()
        p = after
        if change < tolerance:
            return p / p.sum()
    raise ArithmeticError(f"still changing by {change} after {n_steps} steps")


def bias_sums(observed: Array, means: Array, share: float) -> list[float]:
    """B1, nu1, B2, nu2 of Skinner and Shlomo (2008), over all cells, in 60 digits."""
    sums = [Decimal(0)] * 4
    with localcontext() as context:
        context.prec = 60
        pi = Decimal(share)
        for f, mean in zip(observed.ravel().tolist(), means.ravel().tolist(), strict=True):
            if mean == 0.0:
                continue
            mu = Decimal(mean)
            rest = 1 - pi
            x = rest * mu / pi
            decay = (-x).exp()
            # h1 = exp(-x), h2 = (1 - exp(-x)) / x, and their derivatives by the rate mu / pi.
            slopes = -decay * rest, (decay * (1 + x) - 1) / x**2 * rest
            bends = decay * rest**2, (2 - decay * (x * x + 2 * x + 2)) / x**3 * rest**2
            unique = mu * (-mu).exp()
            for i in range(2):
                a = -unique * slopes[i] / pi
                b = unique * bends[i] / (2 * pi**2)
                gap = Decimal(f) - mu
                sums[2 * i] += a * gap + b * (gap**2 - Decimal(f))
                sums[2 * i + 1] += a * a * mu + 2 * b * b * mu * mu
    return [float(value) for value in sums]


def is_decomposable(sets: Sequence[frozenset[int]]) -> bool:
    """Lauritzen's definition: a class that is one set, or falls into two that meet in one place.

    The two are decomposable and their unions intersect in what a set of one and a set of the other
    have in common (Lauritzen 1996, section 4.4).
    """
    if len(sets) == 1:
        return True
    for size in range(1, len(sets) // 2 + 1):
        for chosen in itertools.combinations(range(len(sets)), size):
            one = [sets[i] for i in chosen]
            other = [sets[i] for i in range(len(sets)) if i not in chosen]
            common = frozenset().union(*one) & frozenset().union(*other)
            if (
                any(common == a & b for a in one for b in other)
                and is_decomposable(one)
                and is_decomposable(other)
            ):
                return True
    return False


# --- patterns of codes, -1 where a key is missing ---------------------------------------------


def agree(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two patterns are equal in every key that both know."""
    return all(a == b or a == -1 or b == -1 for a, b in zip(one, other, strict=True))


def agreeing_pairs(patterns: Array, others: Array) -> set[tuple[int, int]]:
    """Rows of patterns and of others that agree."""
    return {
        (i, k)
        for i, one in enumerate(patterns.tolist())
        for k, other in enumerate(others.tolist())
        if agree(one, other)
    }


def sum_equal(cells: Array, known: Array, values: Array) -> list[float]:
    """Sum of the values of the rows of known that are equal to each cell."""
    return [
        sum(v for other, v in zip(known.tolist(), values.tolist(), strict=True) if other == one)
        for one in cells.tolist()
    ]


def listed_completions(pattern: Sequence[int], n_levels: Sequence[int]) -> list[tuple[int, ...]]:
    """Cells that agree with a pattern."""
    return [cell for cell in itertools.product(*map(range, n_levels)) if agree(cell, pattern)]


def nearest_records(target: Sequence[int], records: Sequence[Sequence[int]]) -> list[int]:
    """Rows of the records that differ from a target in the fewest keys, and that number last."""
    differing = [sum(a != b for a, b in zip(target, one, strict=True)) for one in records]
    least = min(differing)
    return [*(i for i, d in enumerate(differing) if d == least), least]


def smoothed_density(
    target: Sequence[int],
    records: Sequence[Sequence[int]],
    margins: Sequence[Sequence[float]],
    bandwidth: float,
) -> float:
    """Density of a file at a cell by the kernel of Aitchison and Aitken, one record at a time."""
    total = 0.0
    for record in records:
        each = 1.0
        for key, (one, other) in enumerate(zip(target, record, strict=True)):
            each *= (1.0 - bandwidth) * (one == other) + bandwidth * margins[key][one]
        total += each
    return total / len(records)


def linked_share(
    one: Sequence[int],
    other: Sequence[int],
    records: Sequence[Sequence[int]],
    others: Sequence[Sequence[int]],
) -> float:
    """Probability that a nearest record for each part of a target, at random, is the same."""
    a, b = nearest_records(one, records)[:-1], nearest_records(other, others)[:-1]
    return len(set(a) & set(b)) / (len(a) * len(b))


def singled_out(
    file: Sequence[Sequence[int]], synthetic: Sequence[Sequence[int]], keys: Sequence[int]
) -> tuple[int, int]:
    """Predicates on some keys that hold for one synthetic record; and for one of the file too."""
    made = [tuple(one[j] for j in keys) for one in synthetic]
    real = [tuple(one[j] for j in keys) for one in file]
    predicates = [one for one in set(made) if made.count(one) == 1]
    return len(predicates), sum(real.count(one) == 1 for one in predicates)


def correct_match(
    published: Any, cells: Any, population: Any, matrices: Any, fraction: float, others: Any = None
) -> Any:
    r"""Probability that a match with a published sample unique is correct, where keys were changed.

    Each unit is in the sample with probability pi, and one that is truly in cell k is then
    published in cell j with probability M_kj. With F_k units in cell k, a match is correct with

    .. math::
        \frac{M_{jj} / (1 - \pi M_{jj})}{\sum_k F_k M_{kj} / (1 - \pi M_{kj})},

    the odds of this unit over those of all units (Shlomo and Skinner 2010). `published` (m, n_keys)
    are cells, `population` (n_cells,) units of `cells`, or (n_draws, n_cells) draws, `others` the
    sum over cells that are not listed. The intruder's own unit is in the cell in any case.
    """
    published, cells = np.asarray(published, np.int64), np.asarray(cells, np.int64)
    draws = np.atleast_2d(np.asarray(population, np.float64))
    matrices = [None if one is None else np.asarray(one, np.float64) for one in matrices]
    unlisted = np.zeros(len(published)) if others is None else np.asarray(others, np.float64)
    found = np.empty(len(published))
    for place, target in enumerate(published):
        moved, stays, same = np.ones(len(cells)), 1.0, np.ones(len(cells), np.bool_)
        for j, matrix in enumerate(matrices):
            alike = cells[:, j] == target[j]
            same &= alike
            moved *= alike if matrix is None else matrix[cells[:, j], target[j]]
            stays *= 1.0 if matrix is None else float(matrix[target[j], target[j]])
        odds = moved / (1.0 - fraction * moved)
        own = stays / (1.0 - fraction * stays)
        lacking = np.maximum(1.0 - draws[:, same].sum(axis=1), 0.0) * own
        total = draws @ odds + lacking + unlisted[place]
        # Where a level never stays as it is nobody is found.
        found[place] = np.mean(own / total) if own > 0.0 else 0.0
    return found


def mdav(points: Array, k: int) -> Array:
    """MDAV by its definition (Domingo-Ferrer and Torra 2005): group of each point, (n,)."""
    group = np.full(len(points), -1)

    def farthest(place: Array) -> int:
        free = np.flatnonzero(group < 0)
        return int(free[np.argmax(((points[free] - place) ** 2).sum(axis=1))])

    def take(chosen: int, number: int) -> None:
        group[chosen] = number
        free = np.flatnonzero(group < 0)
        away = ((points[free] - points[chosen]) ** 2).sum(axis=1)
        group[free[np.argsort(away, kind="stable")[: k - 1]]] = number

    number = 0
    while (left := int((group < 0).sum())) >= 2 * k:
        chosen = farthest(points[group < 0].sum(axis=0) / left)
        take(chosen, number)
        number += 1
        if left >= 3 * k:
            take(farthest(points[chosen]), number)
            number += 1
    group[group < 0] = number
    return group


def squares_within(values: Array, group: Array) -> float:
    """Sum of squares of numbers, or of points, within groups."""
    return float(
        sum(
            ((one - one.mean(axis=0)) ** 2).sum()
            for one in (values[group == g] for g in set(group))
        )
    )


def best_groups(values: Array, k: int) -> float:
    """Least sum of squares within groups of k and more, over all partitions."""
    found = math.inf
    for blocks in set_partitions(range(len(values))):
        if min(map(len, blocks)) >= k:
            found = min(found, sum(((values[b] - values[b].mean()) ** 2).sum() for b in blocks))
    return found


def nearest_share(known: Array, released: Array, group: Array) -> float:
    """Expected share of records that an intruder links to the nearest one of their group.

    known, released (n, n_columns), complete; group (n,).
    """
    total = 0.0
    for i in range(len(known)):
        others = np.flatnonzero(group == group[i])
        away = ((released[others] - known[i]) ** 2).sum(axis=1)
        nearest = others[away <= away.min() * (1 + 1e-12)]
        total += (i in nearest) / len(nearest)
    return total / len(known)


def correct_link(
    x: Sequence[int],
    cells: Any,
    others: Any,
    own: Sequence[float],
    matrices: Sequence[Any],
    missing: Sequence[float],
    shares: Sequence[Any],
    most: int = 60,
) -> float:
    """Probability that a record in cell x is linked to the right person of a spoilt population.

    `cells` (n_cells, n_keys) has `others` (n_cells,) persons expected in each cell, Poisson, and in
    x besides the right person `own`: probabilities of 0, 1, ... persons. All spoilt records are
    listed: each true level becomes another with the probabilities of a row of its key's matrix, and
    is lost with the probability `missing`. `shares` are those of the levels in the spoilt file.
    """
    spoilt = list(itertools.product(*([*range(len(one)), -1] for one in matrices)))

    def weight(y: Sequence[int]) -> float:
        found = 0.0
        for j, (a, b) in enumerate(zip(x, y, strict=True)):
            stays, share = matrices[j][a][a], shares[j][a]
            if b >= 0 and a == b:
                found += math.log(stays / share)
            elif b >= 0:
                found += math.log(max(1.0 - stays, 1e-300) / max(1.0 - share, 1e-300))
        return found

    def becomes(cell: Sequence[int], y: Sequence[int]) -> float:
        found = 1.0
        for j, (a, b) in enumerate(zip(cell, y, strict=True)):
            found *= missing[j] if b < 0 else (1.0 - missing[j]) * matrices[j][a][b]
        return found

    weights = [weight(y) for y in spoilt]
    mine = [becomes(x, y) for y in spoilt]
    expected = [
        sum(n * becomes(cell, y) for cell, n in zip(cells, others, strict=True)) for y in spoilt
    ]
    total = 0.0
    for w, probability in zip(weights, mine, strict=True):
        better = [i for i, other in enumerate(weights) if other > w + 1e-9]
        same = [i for i, other in enumerate(weights) if abs(other - w) <= 1e-9]
        none = math.exp(-sum(expected[i] for i in better))
        rate = sum(expected[i] for i in same)
        p_better, p_same = sum(mine[i] for i in better), sum(mine[i] for i in same)
        among, poisson = [0.0] * len(own), math.exp(-rate)
        for t in range(most):
            among = [one + poisson / (1 + k + t) for k, one in enumerate(among)]
            poisson *= rate / (t + 1)
        inverse = 0.0
        for n_own, chance in enumerate(own):
            for k in range(n_own + 1):
                ways = math.comb(n_own, k) * p_same**k
                ways *= max(1.0 - p_same - p_better, 0.0) ** (n_own - k)
                inverse += chance * ways * among[k]
        total += probability * none * inverse
    return total
