"""Slow twin of the mixed-effects model, from its equations, with joint and rank tests.

    log joint = sum_c log Poisson(f_c; exp(offset_c + w_c' beta + phi_c)) + the log priors

Partitions of the cells under DP(m) have probability Gamma(m) / Gamma(m + C) m^c prod Gamma(n_j)
(paper 3, eq. 9). As in `joint`, everything starts as a draw from the prior, data included, and a
right sweep followed by new data leaves that law alone; runs are many, short and independent.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats
from scipy.special import gammaln

from statistical import joint
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.loglinear.grid import design_of
from unikat.models.loglinear.mixed_effects import MixedEffects, MixedEffectsData, MixedEffectsState

Array = NDArray[Any]


class Case(NamedTuple):
    """A model with a small grid."""

    model: MixedEffects
    levels: tuple[int, ...] = (2, 3)
    gap: float = 0.0
    """Chance of each record that its first key is missing."""
    impossible: tuple[int, ...] = ()
    """Combinations without records, by their running number."""
    share: float | None = None
    """pi; None for offsets of their own in every cell, as estimated fixed effects have."""


def prepared(case: Case) -> MixedEffectsData:
    """Data of the case, without records; the patterns are all that could come."""
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(case.levels)]
    n_all = int(np.prod(case.levels))
    mask = np.isin(np.arange(n_all), case.impossible).reshape(case.levels)
    cells = np.argwhere(~mask)
    diagram = joint.diagram_of(mask) if mask.any() else None
    table = CellTable.from_codes(cells, keys, population_size=2 * len(cells), zeros=diagram)
    model = case.model
    # Joint tests know no data to estimate from: any known offset stands for an estimate.
    data = MixedEffects(**(vars(model) | {"empirical": False})).prepare(table)
    if model.empirical:
        data = data._replace(design=design_of(data.grid, "none", intercept=False))
    n_cells = len(cells)
    offset = np.linspace(0.2, 1.6, n_cells) if case.share is None else np.log([case.share])
    patterns = np.unique(np.where([True] + [False] * (len(case.levels) - 1), -1, cells), axis=0)
    patterns = patterns[: len(patterns) if case.gap else 0].astype(np.int32)
    return data._replace(
        offset=np.broadcast_to(offset, n_cells).copy(),
        known=np.zeros(n_cells, np.int64),
        patterns=patterns,
        times=np.zeros(len(patterns), np.int64),
    )


def design(model: MixedEffects, cells: Array, levels: tuple[int, ...]) -> Array:
    """W, from the definition of treatment contrasts, dense."""
    if model.empirical:
        return np.empty((len(cells), 0))
    columns = [] if model.random == "dp" else [np.ones(len(cells))]
    singles = [[(cells[:, j] == l) * 1.0 for l in range(1, n)] for j, n in enumerate(levels)]
    if model.fixed != "none":
        columns += [column for key in singles for column in key]
    if model.fixed == "two-way":
        for one, other in itertools.combinations(singles, 2):
            columns += [a * b for a in one for b in other]
    return np.array(columns).reshape(-1, len(cells)).T


def inverse_gamma_logpdf(x: Any, shape: float, rate: float) -> Any:
    return shape * np.log(rate) - gammaln(shape) - (shape + 1) * np.log(x) - rate / x


def log_partition(sizes: Any, mass: Any) -> Any:
    """Log probability of a partition (eq. 9)."""
    n = int(np.sum(sizes))
    new = len(sizes) * np.log(mass) + gammaln(mass) - gammaln(mass + n)
    return new + sum(gammaln(size) for size in sizes)


def clustered(model: MixedEffects) -> bool:
    return model.random in ("dp", "gamma-dp")


def log_base(model: MixedEffects, values: Array, mean: float, variance: float) -> Any:
    """Log density of phi under the base measure; of log x where x ~ Gamma(1/s2, 1/s2)."""
    if model.random == "dp":
        return stats.norm.logpdf(values, mean, np.sqrt(variance))
    return stats.gamma.logpdf(np.exp(values), 1.0 / variance, scale=variance) + values


def log_joint(
    model: MixedEffects,
    W: Array,
    offset: Array,
    f: Array,
    *,
    beta: Array,
    phi: Array | None = None,
    cluster: Array | None = None,
    values: Array | None = None,
    variance: float = 1.0,
    mean: float = 0.0,
    mass: float = 1.0,
) -> float:
    """Log density of data and all unknowns, from the equations."""
    effects = np.zeros(len(f))
    total = stats.norm.logpdf(beta, 0.0, np.sqrt(model.effect_variance)).sum()
    if model.random == "normal":
        assert phi is not None
        effects = phi
        total += stats.norm.logpdf(phi, 0.0, np.sqrt(variance)).sum()
    if clustered(model):
        assert cluster is not None
        assert values is not None
        effects = values[cluster]
        total += log_base(model, values, mean, variance).sum()
        total += log_partition(np.bincount(cluster), mass)
        total += stats.gamma.logpdf(mass, model.mass_shape, scale=1 / model.mass_rate)
        if model.mean == "unknown":
            total += stats.norm.logpdf(mean, 0.0, np.sqrt(model.mean_variance))
    if model.random != "none":
        total += inverse_gamma_logpdf(variance, model.variance_shape, model.variance_scale)
    rate = offset + (W @ beta if W.shape[1] else 0.0) + effects
    return float(total + (f * rate - np.exp(rate) - gammaln(f + 1.0)).sum())


def draw_prior(
    rng: np.random.Generator, case: Case, data: MixedEffectsData, W: Array
) -> MixedEffectsState:
    """Draw the unknowns from the prior; the counts are still to come."""
    model, n = case.model, len(W)
    beta = rng.normal(0.0, np.sqrt(model.effect_variance), W.shape[1])
    variance, mean, mass = 1.0, 0.0, 1.0
    effects, values = np.empty(0), np.empty(0)
    cluster = np.empty(0, np.int32)
    phi = np.zeros(n)
    if model.random != "none":
        variance = model.variance_scale / rng.gamma(model.variance_shape)
    if model.random == "normal":
        phi = effects = rng.normal(0.0, np.sqrt(variance), n)
    if clustered(model):
        mass = rng.gamma(model.mass_shape) / model.mass_rate
        if model.mean == "unknown":
            mean = rng.normal(0.0, np.sqrt(model.mean_variance))
        tables: list[int] = []
        for i in range(n):
            weights = np.array([*map(tables.count, range(len(set(tables)))), mass])
            tables.append(int(rng.choice(len(weights), p=weights / (mass + i))))
        cluster = np.array(tables, np.int32)
        values = rng.normal(mean, np.sqrt(variance), len(set(tables)))
        if model.random == "gamma-dp":
            # Logarithms of gamma variables: of a small shape by one of a larger shape.
            shape = 1.0 / variance
            uniforms = rng.random(len(values))
            grown = rng.gamma(shape + 1.0, 1.0, len(values))
            values = np.log(grown) + np.log(uniforms) / shape - np.log(shape)
        phi = values[cluster]
    return MixedEffectsState(
        counts=np.zeros(n, np.int64),
        beta=beta,
        effects=effects,
        cluster=cluster,
        values=values,
        variance=variance,
        mean=mean,
        mass=mass,
        step_size=0.9,
        log_mean=data.offset + W @ beta + phi,
    )


def draw_data(
    rng: np.random.Generator, case: Case, data: MixedEffectsData, state: MixedEffectsState
) -> tuple[MixedEffectsData, MixedEffectsState]:
    """Draw the records given the unknowns; of some the first key is missing."""
    counts = rng.poisson(np.exp(state.log_mean))
    lost = rng.binomial(counts, case.gap)
    times = np.zeros(len(data.patterns), np.int64)
    for p, pattern in enumerate(data.patterns):
        times[p] = lost[(data.grid.cells[:, 1:] == pattern[1:]).all(axis=1)].sum()
    data = data._replace(known=counts - lost, times=times, n_records=int(counts.sum()))
    return data, state._replace(counts=counts)


def functions(case: Case, state: MixedEffectsState) -> dict[str, float]:
    """Functions of unknowns and counts; all have a variance, and none looks at labels."""
    rate, f = state.log_mean, np.log1p(state.counts)
    found = {"records": float(f.sum())}
    for i in (0, len(rate) - 1):
        found |= {
            f"rate {i}": float(np.tanh(rate[i] / 2)),
            f"count {i}": float(f[i]),
            f"rate {i} * count": float(np.tanh(rate[i] / 2) * f[i]),
        }
    fit = state.counts * np.tanh(rate / 3)
    found["fit"] = float(np.tanh(fit.sum() / 10))
    if len(state.beta):
        found["beta sum"] = float(state.beta.sum())
        found["beta squares"] = float((state.beta**2).mean())
        for a in {0, len(state.beta) - 1}:
            found[f"beta {a}"] = float(state.beta[a])
            found[f"beta {a} * count"] = float(state.beta[a] * f[-1])
    if case.model.random != "none":
        spread = np.log(state.variance)
        effects = state.effects if case.model.random == "normal" else state.values
        found |= {"log sigma2": float(spread), "log sigma2 squared": float(spread**2)}
        found["effects"] = float(effects.mean())
        found["effects squared"] = float(np.log((effects**2).mean() + 0.01))
        found["sigma2 * effects"] = float(spread * np.log((effects**2).mean() + 0.01))
    if case.model.random == "normal" and len(state.beta):
        found["beta * effects"] = float(state.beta[0] * state.effects.mean())
    if clustered(case.model):
        n, mass = len(state.values), np.log(state.mass)
        phi = state.values[state.cluster]
        found |= {
            "clusters": float(n),
            "clusters squared": float(n**2),
            "log mass": float(mass),
            "log mass squared": float(mass**2),
            "mass * clusters": float(mass * n),
            "first and last": float(state.cluster[0] == state.cluster[-1]),
            "largest": float(np.bincount(state.cluster).max()),
            "first effect": float(phi[0]),
            "distance": float(np.abs(phi[0] - phi[1])),
            "alone": float((np.bincount(state.cluster) == 1).sum()),
        }
        if len(state.beta):
            found["beta * effects"] = float(state.beta[0] * phi.mean())
        if case.model.mean == "unknown":
            found["mean"] = state.mean
            found["mean squared"] = state.mean**2
            found["mean * effects"] = float(state.mean * phi.mean())
    return found


def joint_test(
    case: Case, *, seed: int, n_runs: int = 220, n_steps: int = 21, n_prior: int = 4000
) -> dict[str, float]:
    """P-values of the sampler's means against the prior's, by function (two-sample t tests)."""
    rng = np.random.default_rng(seed)
    empty = prepared(case)
    W = design(case.model, empty.grid.cells, case.levels)
    expected = []
    for _ in range(n_prior):
        _, state = draw_data(rng, case, empty, draw_prior(rng, case, empty, W))
        expected.append(list(functions(case, state).values()))
    means, names = [], list(functions(case, state))
    for run in range(n_runs):
        data, state = draw_data(rng, case, empty, draw_prior(rng, case, empty, W))
        seen = []
        for time in range(1, n_steps + 1):
            state, _ = case.model.step(Stream(seed * 1000 + run, 0, time), state, data, 1)
            if 3 * time > n_steps and time % 3 == 0:
                seen.append(list(functions(case, state).values()))
            data, state = draw_data(rng, case, data, state)
        means.append(np.mean(seen, axis=0))
    p = stats.ttest_ind(np.array(means), np.array(expected), equal_var=False).pvalue
    return dict(zip(names, p.tolist(), strict=True))


def rank_test(
    case: Case,
    *,
    seed: int,
    n_sets: int = 120,
    n_draws: int = 7,
    thin: int = 8,
    warmup: int = 20,
) -> dict[str, float]:
    """Ranks of the truth among draws, chains started by the model (Talts et al. 2018).

    P-values of chi-square over the data sets; ties are broken at random.
    """
    rng = np.random.default_rng(seed)
    empty = prepared(case)
    W = design(case.model, empty.grid.cells, case.levels)
    ranks: list[Array] = []
    names: list[str] = []
    for data_set in range(n_sets):
        data, truth = draw_data(rng, case, empty, draw_prior(rng, case, empty, W))
        true = np.array(list(ranked(case, truth).values()))
        names, below = list(ranked(case, truth)), np.zeros(len(true))
        chain = data_set % 4
        state = case.model.init(Stream(data_set, chain, 0), data)
        for time in range(1, warmup + n_draws * thin + 1):
            state, _ = case.model.step(Stream(data_set, chain, time), state, data, 1)
            if time > warmup and (time - warmup) % thin == 0:
                seen = np.array(list(ranked(case, state).values()))
                below += (seen < true) + (seen == true) * (rng.random(len(true)) < 0.5)
        ranks.append(below)
    return {
        name: float(stats.chisquare(np.bincount(column.astype(int), minlength=n_draws + 1)).pvalue)
        for name, column in zip(names, np.array(ranks).T, strict=True)
    }


def ranked(case: Case, state: MixedEffectsState) -> dict[str, float]:
    """What is ranked: log rates, and what the model learns beside them."""
    found = {
        "rate 0": float(state.log_mean[0]),
        "last rate": float(state.log_mean[-1]),
        "total": float(np.exp(state.log_mean).sum()),
    }
    if len(state.beta):
        found["beta"] = float(state.beta[-1])
    if case.model.random != "none":
        found["sigma2"] = state.variance
    if clustered(case.model):
        found |= {"mass": state.mass, "clusters": float(len(state.values))}
    if case.model.mean == "unknown":
        found["mean"] = state.mean
    return found


def batch_p_values(draws: Array, expected: Array, n_batches: int = 50) -> Array:
    """P-values of the columns' means against known ones, t tests of the batches' means."""
    size = len(draws) // n_batches
    batches = draws[: size * n_batches].reshape(n_batches, size, -1).mean(axis=1)
    error = batches.std(axis=0, ddof=1) / np.sqrt(n_batches)
    gap = np.abs(batches.mean(axis=0) - expected)
    p: Array = 2.0 * stats.t.sf(gap / np.maximum(error, 1e-12), n_batches - 1)
    return p


def law_on_a_grid(
    log_density: Callable[[float], float], low: float, high: float, n: int = 4001
) -> Callable[[Any], Any]:
    """Distribution function of a density known up to a constant, by the trapezium rule."""
    x = np.linspace(low, high, n)
    log_values = np.array([log_density(float(v)) for v in x])
    density = np.exp(log_values - log_values.max())
    below = np.concatenate(([0.0], np.cumsum((density[1:] + density[:-1]) / 2)))
    # The density must have died out at both ends, or the law would be cut.
    assert max(density[0], density[-1]) < 1e-7
    return lambda v: np.interp(v, x, below / below[-1])
