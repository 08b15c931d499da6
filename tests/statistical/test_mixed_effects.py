"""The mixed-effects sampler: exact posteriors, joint distribution tests, ranks, planted bugs."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from statistical import mixed
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels import fixed_effects
from unikat.kernels import mixed_effects as kernels
from unikat.kernels.base_measure import Base
from unikat.kernels.partition import split_merge
from unikat.models.base import Stream
from unikat.models.loglinear import mixed_effects
from unikat.models.loglinear.mixed_effects import MixedEffects
from unikat.rng import chain_key

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

FALSE_ALARM = 1e-5
"""Of each test, shared evenly among what it compares; 59 such tests, so 5.9e-4 in total. A planted
bug has to be seen at a hundredth of it."""
TIGHT: dict[str, Any] = {
    "effect_variance": 0.6,
    "mean_variance": 0.8,
    "variance_shape": 4.0,
    "variance_scale": 3.0,
    "mass_shape": 3.0,
    "mass_rate": 2.0,
}
"""Priors under which counts of few cells have moments that a test can see."""


def passes(p_values: Any, share: float = 1.0) -> bool:
    values = list(p_values.values()) if isinstance(p_values, dict) else np.ravel(p_values).tolist()
    return min(values) > share * FALSE_ALARM / len(values)


def case(random: str, mean: str, fixed: str, **more: Any) -> mixed.Case:
    return mixed.Case(MixedEffects(random=random, mean=mean, fixed=fixed, **TIGHT), **more)


KINDS = [
    ("none", "zero"), ("normal", "zero"), ("dp", "zero"), ("dp", "unknown"), ("gamma-dp", "zero"),
]  # fmt: skip
FIXED = ("none", "independence", "two-way")
CASES = {
    f"{random}-{mean}-{fixed}": case(random, mean, fixed, share=1.5)
    for (random, mean), fixed in itertools.product(KINDS, FIXED)
}
FAR: dict[str, Any] = TIGHT | {"mean_variance": 1.5, "variance_shape": 8.0, "variance_scale": 1.0}
"""Values near a mean that is far from 0, and many records: the Langevin move of both matters."""
CASES |= {
    "far-mean": mixed.Case(MixedEffects(random="dp", mean="unknown", **FAR), share=5.0),
    "missing": case("none", "zero", "independence", gap=0.4),
    "zeros-missing": case("dp", "zero", "independence", gap=0.3, impossible=(1, 3)),
    "normal-zeros-missing": case("normal", "zero", "two-way", gap=0.3, impossible=(0,)),
    "empirical": mixed.Case(MixedEffects(random="dp", mean="unknown", empirical=True, **TIGHT)),
    "gamma-zeros-missing": case("gamma-dp", "zero", "independence", gap=0.3, impossible=(1, 3)),
    "gamma-empirical": mixed.Case(MixedEffects(random="gamma-dp", empirical=True, **TIGHT)),
    "normal-empirical": mixed.Case(MixedEffects(random="normal", empirical=True, **TIGHT)),
}


@pytest.mark.parametrize("name", CASES)
def test_sampler_keeps_the_joint_law(name):
    p = mixed.joint_test(CASES[name], seed=1)
    assert passes(p), p


@pytest.mark.parametrize("name", CASES)
def test_ranks_of_the_truth_are_uniform(name):
    p = mixed.rank_test(CASES[name], seed=2)
    assert passes(p), p


def altered(where: int, change: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return a planted bug: one argument of a kernel is not what it should be."""

    def plant(right: Any) -> Any:
        def slip(*arguments: Any) -> Any:
            changed = list(arguments)
            changed[where] = change(changed[where])
            return right(*changed)

        return slip

    return plant


BUGS = {
    # m given the clusters of as many cells as there are clusters, about.
    "mass": ("dp-zero-none", "draw_mass", altered(4, lambda n_cells: n_cells // 2)),
    # alpha as if all values had come from one draw of the base measure.
    "mean": ("dp-unknown-none", "draw_mean", altered(2, lambda values: values[:1])),
    "effects": ("normal-zero-none", "draw_effects", altered(4, lambda variance: 0.7 * variance)),
    # A new cluster three times as likely in a split as in the prior.
    "split": ("dp-zero-none", "split_merge", altered(5, lambda mass: 3.0 * mass)),
    # The shift of values and intercept as if the intercept had a flat prior.
    "exchange": ("gamma-dp-zero-independence", "exchange", altered(3, lambda prior: 100.0 * prior)),
    # Values of a cluster as if the gamma law were twice as wide.
    "gamma": (
        "gamma-dp-zero-none",
        "draw_values",
        altered(5, lambda base: base._replace(variance=2.0 * base.variance)),
    ),
    # The regression of the log means without the prior of beta.
    "recentre": ("normal-zero-independence", "recentre", altered(6, lambda prior: 100.0 * prior)),
}


@pytest.mark.parametrize("name", BUGS)
def test_planted_bugs_are_caught(name, monkeypatch):
    """A wrong number handed to a kernel."""
    where, kernel, plant = BUGS[name]
    module: Any = mixed_effects if kernel == "split_merge" else kernels
    monkeypatch.setattr(module, kernel, plant(getattr(module, kernel)))
    p = mixed.joint_test(CASES[where], seed=4, n_runs=400)
    assert not passes(p, 0.01), p


def test_values_moved_under_the_wrong_mean_are_caught(monkeypatch):
    """The Langevin move takes the values' prior mean for 0."""
    right = MixedEffects._prior

    def slip(self: MixedEffects, state: Any) -> Any:
        mean, precision = right(self, state)
        return fixed_effects.Prior(np.zeros_like(mean), precision)

    monkeypatch.setattr(MixedEffects, "_prior", slip)
    p = mixed.joint_test(CASES["far-mean"], seed=4, n_runs=300)
    assert not passes(p, 0.01), p


def test_a_gamma_law_that_forgets_its_constant_is_caught(monkeypatch):
    """The density of e^values without shape^shape / Gamma(shape), twice."""
    right = mixed_effects.slice_draw

    def slip(generator: Any, position: float, log_density: Any) -> float:
        def lacking(at: float) -> float:
            shape = np.exp(-at)
            return log_density(at) - 2.0 * (shape * -at - math.lgamma(shape))

        return right(generator, position, lacking)

    monkeypatch.setattr(mixed_effects, "slice_draw", slip)
    p = mixed.joint_test(CASES["gamma-dp-zero-none"], seed=4, n_runs=300)
    assert not passes(p, 0.01), p


# --- exact posteriors ------------------------------------------------------------------------

COUNTS = np.array([0, 1, 3, 9])
OFFSET = np.array([0.4, -0.3, 0.1, 0.8])
PARTITIONS = list(naive.set_partitions(range(4)))


def block_integrals(
    variance: np.ndarray, mean: float, gamma: bool
) -> dict[tuple[int, ...], np.ndarray]:
    """Integral and first moment of e^eta over eta of each set of cells, for every variance."""
    if gamma:
        # Of x ~ Gamma(a, a) by the trapezium rule in the logarithm.
        eta = np.broadcast_to(np.linspace(-60.0, 6.0, 8_001), (len(variance), 8_001))
        shape = 1.0 / variance[:, None]
        w = np.exp(stats.gamma.logpdf(np.exp(eta), shape, scale=1.0 / shape) + eta)
        w = w / w.sum(axis=1, keepdims=True)
    else:
        x, nodes = np.polynomial.hermite_e.hermegauss(120)
        eta = mean + np.sqrt(variance)[:, None] * x
        w = np.broadcast_to(nodes / nodes.sum(), eta.shape)
    found = {}
    for size in range(1, 5):
        for block in itertools.combinations(range(4), size):
            f, o = COUNTS[list(block)], OFFSET[list(block)]
            like = np.exp(
                (f[:, None, None] * eta - np.exp(o)[:, None, None] * np.exp(eta)).sum(axis=0)
            )
            found[block] = np.stack([(like * w).sum(axis=1), (like * np.exp(eta) * w).sum(axis=1)])
    return found


def exact(base: Base, mass: float) -> Any:
    """Posterior of the 15 partitions, and mean of e^phi of each cell, given the base measure."""
    return exact_over(
        np.array([base.variance]), np.ones(1), base.mean, base.gamma,
        lambda sizes: mixed.log_partition(sizes, mass),
    )  # fmt: skip


def exact_over(
    variance: np.ndarray, weight: np.ndarray, mean: float, gamma: bool, log_eppf: Any
) -> Any:
    """The same with sigma^2 on a grid."""
    integrals = block_integrals(variance, mean, gamma)
    probability, moments = [], []
    for partition in PARTITIONS:
        blocks = [tuple(sorted(block)) for block in partition]
        like = np.prod([integrals[block][0] for block in blocks], axis=0)
        scale = np.exp(log_eppf([len(block) for block in blocks]))
        probability.append(scale * float(weight @ like))
        row = np.empty(4)
        for block in blocks:
            moment = like / integrals[block][0] * integrals[block][1]
            row[list(block)] = scale * float(weight @ moment)
        moments.append(row)
    total = sum(probability)
    return np.array(probability) / total, np.sum(moments, axis=0) / total


def partition_numbers(clusters: np.ndarray) -> np.ndarray:
    """Which of the 15 partitions each row of labels is, as indicators."""
    names = {
        tuple(min(block) for i in range(4) for block in partition if i in block): number
        for number, partition in enumerate(PARTITIONS)
    }
    first = (clusters[:, :, None] == clusters[:, None, :]).argmax(axis=2)
    found = np.array([names[tuple(row)] for row in first.tolist()])
    return np.eye(len(PARTITIONS))[found]


BASES = [Base(False, 0.3, 1.7), Base(True, 0.0, 1.7)]


@pytest.mark.parametrize("base", BASES, ids=["normal", "gamma"])
def test_clusters_have_the_exact_posterior_given_the_base_measure(base):
    """Algorithm 8 with spare values, and exact values: all 15 partitions of four cells."""
    mass = 0.8
    expected, moments = exact(base, mass)
    key, cluster, values = chain_key(5, 0), np.zeros(4, np.int32), np.zeros(1)
    n = 60_000
    clusters, rates = np.empty((n, 4), int), np.empty((n, 4))
    for sweep in range(n):
        values = kernels.allocate(key, sweep, COUNTS, OFFSET, mass, base, cluster, values)
        kernels.draw_values(key, sweep, COUNTS, OFFSET, cluster, base, values)
        clusters[sweep], rates[sweep] = cluster, np.exp(values[cluster])
    draws = np.hstack((partition_numbers(clusters), rates))
    p = mixed.batch_p_values(draws, np.concatenate((expected, moments)))
    assert passes(p), p


@pytest.mark.parametrize("base", BASES, ids=["normal", "gamma"])
def test_splits_and_merges_alone_have_the_exact_posterior(base):
    """The same partitions, by these moves only; nothing else moves a cell."""
    mass = 0.8
    expected, _ = exact(base, mass)
    key, cluster, n_clusters = chain_key(5, 1), np.zeros(4, np.int32), 1
    clusters, n_moved = np.empty((60_000, 4), int), 0
    for sweep, row in enumerate(clusters):
        n_clusters, moved = split_merge(
            key, sweep, 2, COUNTS, OFFSET, mass, base, cluster, n_clusters
        )
        row[:] = cluster
        n_moved += moved
    assert n_moved > 10_000
    p = mixed.batch_p_values(partition_numbers(clusters), expected)
    assert passes(p), p


@pytest.mark.parametrize("random", ["dp", "gamma-dp"])
def test_the_whole_sampler_has_the_exact_posterior_of_partitions(random):
    """The same with m and sigma^2 unknown, integrated on grids; draws by `step`."""
    options = {"variance_shape": 3.0, "variance_scale": 2.0}
    # Without an intercept, as with fixed effects that are held.
    empirical = random == "gamma-dp"
    model = MixedEffects(random=random, fixed="none", empirical=empirical, **options)
    mass = np.exp(np.linspace(-9.0, 3.5, 400))
    prior = stats.gamma.pdf(mass, 1.0) * mass

    def log_eppf(sizes: Any) -> float:
        return float(np.log((np.exp(mixed.log_partition(sizes, mass)) * prior).sum()))

    variance = np.exp(np.linspace(-4.0, 5.0, 160))
    weight = np.exp(mixed.inverse_gamma_logpdf(variance, 3.0, 2.0)) * variance
    expected, moments = exact_over(variance, weight, 0.0, empirical, log_eppf)
    keys = [Key.of_size("A", 2), Key.of_size("B", 2)]
    table = CellTable.from_codes([[0, 0]], keys, population_size=2)
    data = model.prepare(table)._replace(offset=OFFSET, known=COUNTS)
    state = model.init(Stream(6, 0, 0), data)
    n = 30_000
    clusters, rates = np.empty((n, 4), int), np.empty((n, 4))
    for sweep in range(1, n + 1):
        state, _ = model.step(Stream(6, 0, sweep), state, data, 1)
        clusters[sweep - 1], rates[sweep - 1] = state.cluster, np.exp(state.log_mean - OFFSET)
    draws = np.hstack((partition_numbers(clusters), rates))
    p = mixed.batch_p_values(draws, np.concatenate((expected, moments)))
    assert passes(p), p


def test_langevin_moves_keep_a_skewed_posterior():
    """Two effects, three cells with 0, 1 and 0 records, prior variance 10: against quadrature."""
    counts, offset = np.array([0, 1, 0]), np.array([0.5, 0.0, 1.0])
    starts, columns = np.array([0, 1, 2, 4]), np.array([0, 1, 0, 1], np.int32)
    grid = np.linspace(-18.0, 9.0, 1201)
    a, b = np.meshgrid(grid, grid, indexing="ij")
    log_density = b - np.exp(offset[0] + a) - np.exp(offset[1] + b) - np.exp(offset[2] + a + b)
    log_density = log_density - (a**2 + b**2) / 20.0
    density = np.exp(log_density - log_density.max())
    density /= density.sum()

    def looked_at(a: Any, b: Any) -> list[Any]:
        return [a, b, a**2, b**2, a * b, a > 0.0, a < -6.0, b < -2.0, b > 1.0]

    expected = np.array([(density * values).sum() for values in looked_at(a, b)])
    key, n = chain_key(7, 0), 150_000
    draws, at = np.empty((n, 2)), np.zeros(2)
    accepted = 0.0
    cells = fixed_effects.Cells(counts, offset, starts, columns)
    prior = fixed_effects.Prior(np.zeros(2), np.full(2, 0.1))
    for sweep in range(n):
        accepted += fixed_effects.langevin(key, sweep, 1.2, cells, at, prior)
        draws[sweep] = at
    p = mixed.batch_p_values(np.stack(looked_at(*draws.T), axis=1).astype(float), expected)
    assert passes(p), p
    assert 0.3 < accepted / n < 0.95


def small_table() -> CellTable:
    keys = [Key.of_size("A", 2), Key.of_size("B", 3)]
    codes = [[0, 0]] * 7 + [[0, 1]] * 2 + [[1, 0]] * 3 + [[1, 2]]
    return CellTable.from_codes(codes, keys, population_size=130)


def importance(
    log_density: Callable[[np.ndarray], np.ndarray], start: np.ndarray, n: int, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Draws of a multivariate t, made to fit in three rounds, with weights."""
    rng = np.random.default_rng(seed)
    mean, cov = start, 2.0 * np.eye(len(start))
    for size in (20_000, 20_000, 20_000, n):
        t = stats.multivariate_t(mean, cov, df=6, seed=rng)
        x = t.rvs(size)
        log_weight = log_density(x) - t.logpdf(x)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        mean = weight @ x
        cov = 1.3 * np.cov(x.T, aweights=weight)
    return x, weight


@pytest.mark.parametrize("random", ["none", "normal"])
def test_posterior_is_that_of_importance_sampling(random):
    """Independence on a 2 by 3 table, printed priors; phi is integrated out by quadrature.

    The difference of two estimates, each with its own standard error: normal test.
    """
    model = MixedEffects(random=random)
    table = small_table()
    data = model.prepare(table)
    W = mixed.design(model, data.grid.cells, (2, 3))
    f = data.known
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()

    def log_density(x: np.ndarray) -> np.ndarray:
        beta = x[:, :4]
        rate = np.log(0.1) + beta @ W.T
        log_prior = -(beta**2).sum(axis=1) / 20.0
        if random == "none":
            return log_prior + (f * rate - np.exp(rate)).sum(axis=1)
        variance = np.exp(x[:, 4])
        log_prior += mixed.inverse_gamma_logpdf(variance, 1.0, 1.0) + x[:, 4]
        total = np.zeros(len(x))
        for c in range(len(f)):
            r = rate[:, c, None] + np.sqrt(variance)[:, None] * nodes
            with np.errstate(over="ignore"):
                term = f[c] * r - np.exp(r)
            high = term.max(axis=1)
            total += high + np.log(np.exp(term - high[:, None]) @ weights)
        return log_prior + total

    start = np.array([3.5, -0.8, -1.0, -2.0] + [0.0] * (random == "normal"))
    x, weight = importance(log_density, start, 120_000, seed=8)
    effective = 1.0 / (weight**2).sum()
    assert effective > 10_000

    def looked_at(x: np.ndarray) -> np.ndarray:
        beta = x[:, :4]
        return np.column_stack([x, x**2, beta[:, :1] * beta[:, 1:], x < x_median])

    x_median = weight @ x
    expected = weight @ looked_at(x)
    error = np.sqrt(weight**2 @ (looked_at(x) - expected) ** 2)
    state = model.init(Stream(9, 0, 0), data)
    draws = []
    for sweep in range(1, 20_001):
        state, _ = model.step(Stream(9, 0, sweep), state, data, 1)
        more = [np.log(state.variance)] if random == "normal" else []
        draws.append([*state.beta, *more])
    seen = looked_at(np.array(draws))
    batches = seen.reshape(50, 400, -1).mean(axis=1)
    own = batches.std(axis=0, ddof=1) / np.sqrt(50)
    z = (seen.mean(axis=0) - expected) / np.hypot(error, own)
    p = 2.0 * stats.norm.sf(np.abs(z))
    assert passes(p), p
