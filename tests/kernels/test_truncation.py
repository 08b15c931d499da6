"""Kernels of moves under structural zeros: enumeration, ratios from densities, invariance."""

from __future__ import annotations

import inspect
import itertools
import math
import types
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.kernels import random as numbers
from unikat.kernels import truncation as kernels
from unikat.rng import chain_key
from unikat.zeros.diagram import build

FALSE_ALARM = 1e-6
"""Of each assertion on p-values, shared evenly among what it compares; about 25 of them.

A planted bug has to be seen at a hundredth of it."""
KEY = chain_key(21, 0)
N_LEVELS = (3, 2, 4, 2)
OFFSETS = np.concatenate(([0], np.cumsum(N_LEVELS)))


def diagram_of(impossible: np.ndarray) -> Any:
    """Each impossible cell a condition of its own."""
    cells = np.nonzero(impossible)
    blocks = [np.eye(n, dtype=bool)[cells[j]] for j, n in enumerate(impossible.shape)]
    return build(np.hstack(blocks), [0, *np.cumsum(impossible.shape).tolist()])


def random_case(seed: int, n_slots: int = 3) -> tuple[Any, np.ndarray, list[np.ndarray]]:
    """Diagram, impossible cells, profiles in single precision."""
    rng = np.random.default_rng(seed)
    impossible = rng.random(N_LEVELS) < 0.4
    impossible[0, 0] = True
    theta = [rng.dirichlet(np.full(n, 0.8), n_slots).T.astype(np.float32) for n in N_LEVELS]
    return diagram_of(impossible), impossible, theta


# --- the chance of one component -------------------------------------------------------------


@pytest.mark.parametrize("alpha", [0.0, 1e-3, 0.7, 50.0])
@pytest.mark.parametrize("n_keys", [1, 2, 9])
def test_chances_of_one_component(n_keys, alpha):
    """The product, its polynomial, and the urn's law."""
    weights = np.array([0.0, 1e-8, 0.2, 0.8 - 1e-8, 1.0])
    out = np.empty(5)
    kernels.chances_of_one(weights, alpha, n_keys, out)
    direct = [
        g * math.prod((l + alpha * g) / (l + alpha) for l in range(1, n_keys)) for g in weights
    ]
    np.testing.assert_allclose(out, direct, rtol=1e-13)
    coefficient = np.full(n_keys + 1, np.nan)
    kernels.powers_of_one(alpha, n_keys, coefficient)
    np.testing.assert_allclose(np.polyval(coefficient[::-1], weights), direct, rtol=1e-12)
    assert (coefficient >= 0.0).all()
    assert out[-1] == 1.0
    if alpha > 0.0 and n_keys == 2:
        urn = naive.urn_law(n_keys, weights[1:4], alpha)
        np.testing.assert_allclose(out[1:4], [urn[k, k] for k in range(3)], rtol=1e-12)


@pytest.mark.parametrize("growth", [1.0, 1e-6, 30.0])
def test_sums_over_the_other_components(growth):
    """Also where the component left out has nearly all weight."""
    weights = np.array([1.0 - 3e-8, 1e-8, 2e-8])
    q = np.array([0.5, 0.0, 0.7])
    for alpha, degree in ((0.0, 1), (0.3, 12)):
        coefficient = np.zeros(13)
        kernels.powers_of_one(alpha, 12, coefficient)
        found = kernels.impossible_of_others(
            coefficient, degree, weights, q, 0, growth, np.empty(len(weights))
        )
        chance = np.empty(3)
        kernels.chances_of_one(weights / growth, alpha, 12, chance)
        np.testing.assert_allclose(found, chance[1:] @ (1.0 - q[1:]), rtol=1e-12)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "weights", [[0.2, 0.3, 0.5], [0.0, 0.6, 0.0, 0.4], [1.0, 1e-20], [0.5, 0.5]]
)
def test_another_component_is_drawn(weights):
    """Chi-square; never the one left out, whatever the rounding."""
    weights = np.array(weights)
    generator = np.zeros(numbers.GENERATOR_SIZE, np.uint32)
    for k in np.flatnonzero(weights):
        numbers.seek(generator, KEY, int(k), 1, 1)
        seen = [kernels.draw_other(generator, np.cumsum(weights), int(k)) for _ in range(3000)]
        counts = np.bincount(seen, minlength=len(weights))
        expected = np.where(np.arange(len(weights)) == k, 0.0, weights)
        expected *= 3000 / expected.sum()
        there = expected > 0.0
        assert counts[~there].sum() == 0
        assert (
            there.sum() == 1 or stats.chisquare(counts[there], expected[there]).pvalue > FALSE_ALARM
        )


# --- impossible records of several components ------------------------------------------------


def simulated(
    case: Any, weights: np.ndarray, alpha: float, target: int, capacity: int, sweep: int
) -> tuple[int, np.ndarray, np.ndarray]:
    diagram, impossible, theta = case
    together = np.empty(len(weights))
    kernels.chances_of_one(weights, alpha, 4, together)
    q = [naive.cell_law(theta, [k] * 4)[~impossible].sum() for k in range(len(weights))]
    levels = np.concatenate([np.cumsum(part.astype(float), axis=0) for part in theta]).T
    rows = np.full((capacity, 4), 99, np.int32)
    z = np.full((capacity, 4), 99, np.int16)
    law = kernels.MixedLaw(
        alpha, weights, np.cumsum(weights), np.ascontiguousarray(levels), together,
        np.cumsum(np.maximum(weights - together, 0.0)), float(together @ q / together.sum()),
    )  # fmt: skip
    n = kernels.simulate_mixed(KEY, sweep, 3, target, diagram, OFFSETS, law, rows, z)
    return n, rows, z


def assert_frequencies(counts: dict[Any, int], law: dict[Any, float]) -> None:
    """Chi-square of what was drawn against its law, what is rare taken together."""
    assert all(law.get(value, 0.0) > 0.0 for value in counts)
    mass = np.array(list(law.values()))
    expected = mass / mass.sum() * sum(counts.values())
    observed = np.array([counts.get(value, 0) for value in law])
    common = expected >= 8.0
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0.0
    assert keep.sum() > 3
    assert stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > FALSE_ALARM


EVEN = np.array([0.5, 0.3, 0.2])
NEARLY = np.array([1e-8, 1.0 - 3e-8, 2e-8])


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("seed", "alpha", "weights", "target"),
    [
        (0, 0.01, EVEN, 900), (1, 1.3, EVEN, 12), (2, 5.0, EVEN, 10), (3, 1e4, EVEN, 10),
        (0, 0.7, NEARLY, 100_000_000),
    ],
)  # fmt: skip
def test_mixed_records_are_simulated_by_their_law(seed, alpha, weights, target):
    """Chi-square over all beginnings and components of all keys; and of their number.

    Of the records that are possible or mixed, `target` possible ones: negative binomial.
    """
    case = random_case(seed)
    diagram, impossible, theta = case
    urn = naive.urn_law(4, weights, alpha)
    law = naive.mixed_law(impossible, diagram.order.tolist(), theta, urn)
    mixed = math.fsum(law.values())
    possible = math.fsum(p * naive.cell_law(theta, z)[~impossible].sum() for z, p in urn.items())
    np.testing.assert_allclose(
        mixed,
        math.fsum(
            p * naive.cell_law(theta, z)[impossible].sum()
            for z, p in urn.items() if len(set(z)) > 1
        ),
        rtol=1e-6,
    )  # fmt: skip
    found: dict[Any, int] = {}
    times: dict[int, int] = {}
    for sweep in range(1500):
        n, rows, z = simulated(case, weights, alpha, target, 1000, sweep)
        times[n] = times.get(n, 0) + 1
        assert (rows[n:] == 99).all()
        levels = np.where(rows[:n] >= 0, rows[:n] - OFFSETS[:-1], -1)
        for value in zip(map(tuple, levels.tolist()), map(tuple, z[:n].tolist()), strict=True):
            found[value] = found.get(value, 0) + 1
    assert_frequencies(found, law)
    number = stats.nbinom(target, possible / (possible + mixed))
    most = max(times)
    edges = {m: float(number.pmf(m)) for m in range(most)} | {most: float(number.sf(most - 1))}
    assert_frequencies(times, edges)


def test_mixed_records_beyond_the_capacity_are_counted():
    """Up to twice the capacity exactly, beyond it too many; those that fit are the first ones."""
    case = random_case(0)
    n, whole, z = simulated(case, EVEN, 1.3, 200, 1000, 1)
    assert 60 < n < 1000
    for capacity in (n, n - 1, (n + 1) // 2):
        m, some, some_z = simulated(case, EVEN, 1.3, 200, capacity, 1)
        assert m == n
        np.testing.assert_array_equal(some, whole[:capacity])
        np.testing.assert_array_equal(some_z, z[:capacity])
    m, some, _ = simulated(case, EVEN, 1.3, 200, 5, 1)
    assert m > 10
    np.testing.assert_array_equal(some, whole[:5])
    assert simulated(case, EVEN, 1.3, 0, 10, 1)[0] == 0


@pytest.mark.parametrize("weights", [[1.0, 0.0, 0.0], [1e-20, 1.0, 1e-30]])
def test_one_component_has_all_weight(weights):
    assert simulated(random_case(0), np.array(weights), 2.0, 50, 10, 1)[0] == 0


# --- moves along ridges ----------------------------------------------------------------------


class Target(NamedTuple):
    """What along_ridges is given, but for the state."""

    diagram: Any
    impossible: np.ndarray
    profile: np.ndarray
    counts: np.ndarray
    tables: np.ndarray
    alpha: float
    share: float
    rest: float
    n_seen: int

    def total(self) -> float:
        """total_exponent"""
        n_slots = len(self.tables)
        return float(self.tables.sum()) + (n_slots * self.share if self.share else self.rest)

    def move(
        self, sweep: int, theta: np.ndarray, weights: np.ndarray, run: Any = None, **other: Any
    ) -> tuple[int, int]:
        offsets = np.concatenate(([0], np.cumsum(self.impossible.shape)))
        given = {"share": self.share, "total_exponent": self.total(), "n_seen": self.n_seen} | other
        run = run or kernels.along_ridges
        seen = kernels.Seen(self.counts, self.tables, given["n_seen"])
        prior = kernels.RidgePrior(
            self.profile, self.alpha, given["share"], given["total_exponent"]
        )
        found: tuple[int, int] = run(KEY, sweep, self.diagram, offsets, seen, prior, theta, weights)
        return found


def draws(sweep: int, unit: int, shapes: np.ndarray) -> tuple[float, np.ndarray, float]:
    """The random numbers of one move: exponent of the floor, gammas, acceptance."""
    generator = np.zeros(numbers.GENERATOR_SIZE, np.uint32)
    numbers.seek(generator, KEY, unit, sweep, numbers.PURPOSE_RIDGE)
    first = numbers.uniform(generator)
    gammas = [
        (numbers.gamma if a >= 1.0 else numbers.small_gamma)(generator, float(a)) for a in shapes
    ]
    return first, np.array(gammas), numbers.uniform(generator)


@pytest.mark.parametrize("share", [0.0, 1.0])
@pytest.mark.parametrize("alpha", [0.0, 0.05, 4.0])
@pytest.mark.parametrize("n_seen", [0, 25])
def test_moves_are_those_of_the_slow_twin(n_seen, alpha, share):
    """Same random numbers, ratios from the densities; 80 to 128 moves of each case."""
    seen = np.zeros(2, int)
    for sweep in range(8):
        rng = np.random.default_rng(sweep)
        diagram, impossible, _ = random_case(sweep)
        tables = np.array([9, 0, 4, 2])
        counts = np.concatenate(
            [
                rng.multinomial(n, np.ones(m) / m, 4).T
                for n, m in zip((6, 3, 0, 2), N_LEVELS, strict=True)
            ]
        )
        counts[:, tables == 0] = 0
        profile = rng.uniform(0.3, 1.5, OFFSETS[-1])
        target = Target(diagram, impossible, profile, counts, tables, alpha, share, 1.7, n_seen)
        rows = np.concatenate([rng.dirichlet(np.ones(n), 4).T for n in N_LEVELS]).astype(np.float32)
        weights = rng.dirichlet(np.ones(4))
        theta = [
            rows[a:b] / rows[a:b].sum(axis=0, dtype=float) for a, b in itertools.pairwise(OFFSETS)
        ]
        shapes = [(profile[:, None] + counts)[a:b] for a, b in itertools.pairwise(OFFSETS)]
        exponents = tables + share
        ridge = naive.Ridge(impossible, shapes, exponents, 1.7, alpha, n_seen)
        moved, slow_weights = theta, weights.copy()
        slow = np.zeros(2, int)
        for j in diagram.order.tolist():
            for k in np.flatnonzero(exponents > 0.0).tolist():
                u = ridge.tilts(moved, j, k)
                if np.ptp(u) <= 1e-9 * u.max():
                    continue
                first, gammas, point = draws(sweep, k * 4 + j, shapes[j][:, k])
                floor = u.max() * math.exp(-9.0 * first)
                new = gammas / (u + floor)
                value, after, then = ridge.log_ratio(
                    moved, slow_weights, j, k, new / new.sum(), floor
                )
                slow += [0, 1]
                if math.log(point) < value:
                    slow += [1, 0]
                    moved, slow_weights = after, then
        found = target.move(sweep, rows, weights)
        assert found == tuple(slow)
        np.testing.assert_allclose(rows, np.concatenate(moved), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(weights, slow_weights, rtol=1e-9)
        seen += slow
    assert 0.2 * seen[1] < seen[0] < 0.97 * seen[1]
    assert seen[1] > 60


CORNER = np.zeros((2, 3, 2), bool)
CORNER[0, 1:, :] = CORNER[:, 0, 1] = CORNER[1, 2, 0] = True
SEEN = ((0, 0, 0), (1, 1, 1))
"""Possible cells in which the records of the first two of three components are."""
STARTS = np.array([0, 2, 5])
FALL = 4
"""n_seen of the targets that are drawn exactly."""


def corner(alpha: float, share: float, n_seen: int = FALL) -> Target:
    counts = np.zeros((7, 3), int)
    for k, cell in enumerate(SEEN):
        counts[STARTS + cell, k] = 4 - k
    return Target(
        diagram_of(CORNER), CORNER, np.array([0.6, 1.1, 0.9, 0.5, 0.7, 1.2, 0.8]), counts,
        np.array([4, 3, 0]), alpha, share, 1.4, n_seen,
    )  # fmt: skip


@lru_cache
def exact_draws(alpha: float, share: float, n_seen: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Draws of theta (n, n_rows, n_slots) and weights (n, n_slots) of `corner` by rejection.

    1 - R >= sum_k g_k q_k >= x_0 + x_1 >= 2 sqrt(x_0 x_1), x_k the probability of what is seen of
    component k, so that Dirichlets of parameters n_seen / 2 smaller bound the target. With a
    factor (1 - R)^-n_seen of at most 1, the Dirichlets themselves do.
    """
    target, rng = corner(alpha, share, n_seen), np.random.default_rng(17)
    half = max(n_seen, 0) / 2.0
    shapes = (target.profile[:, None] + target.counts).astype(float)
    exponents = (
        target.tables + share + np.where(target.tables > 0, 0.0, (1.0 - share) * target.rest)
    )
    for k, cell in enumerate(SEEN):
        shapes[STARTS + cell, k] -= half
        exponents[k] -= half
    found: list[tuple[np.ndarray, np.ndarray]] = []
    while sum(len(weights) for _, weights in found) < n:
        size = 100_000
        theta = rng.standard_gamma(shapes, (size, 7, 3))
        for a, b in ((0, 2), (2, 5), (5, 7)):
            theta[:, a:b] /= theta[:, a:b].sum(axis=1, keepdims=True)
        weights = rng.dirichlet(exponents, size)
        left = 1.0 - impossible_mass(alpha, theta, weights)
        ratio = left ** -float(n_seen)
        if half:
            for k, (a, b, c) in enumerate(SEEN):
                seen = weights[:, k] * theta[:, a, k] * theta[:, 2 + b, k] * theta[:, 5 + c, k]
                ratio *= (2.0 * seen) ** half
        assert ratio.max() <= 1.0 + 1e-9
        keep = rng.random(size) < ratio
        found.append((theta[keep], weights[keep]))
    theta, weights = (np.concatenate(part)[:n] for part in zip(*found, strict=True))
    return theta.astype(np.float32), weights


def possible_mass(theta: np.ndarray) -> np.ndarray:
    """q_k of every draw, (n, n_slots)."""
    return sum(
        theta[:, a] * theta[:, 2 + b] * theta[:, 5 + c] for a, b, c in np.argwhere(~CORNER).tolist()
    )  # type: ignore[return-value]


def impossible_mass(alpha: float, theta: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """R of every draw."""
    together = weights.copy()
    for l in range(1, 3):
        together *= (l + alpha * weights) / (l + alpha)
    return (together * (1.0 - possible_mass(theta))).sum(axis=1)


def kept(target: Target, run: Any = None, n: int = 8_000, n_moves: int = 12, **other: Any) -> float:
    """Apply calls to exact draws; the smallest p-value times their number.

    Kolmogorov-Smirnov against as many draws that nothing was applied to: q, weights, profiles, R.
    """
    theta, weights = exact_draws(target.alpha, target.share, target.n_seen, 2 * n)
    theta, weights = theta.copy(), weights.copy()
    accepted, proposed = 0, 0
    for i in range(n):
        for step in range(n_moves):
            found = target.move(n_moves * i + step, theta[i], weights[i], run, **other)
            accepted, proposed = accepted + found[0], proposed + found[1]
    assert 0.05 * proposed < accepted < proposed
    assert proposed >= 2 * n * n_moves
    values = np.column_stack(
        (
            possible_mass(theta),
            weights,
            theta.reshape(2 * n, -1),
            impossible_mass(target.alpha, theta, weights),
            (weights * possible_mass(theta)).sum(axis=1),
        )
    )
    p_values = [stats.ks_2samp(column[:n], column[n:]).pvalue for column in values.T]
    return float(min(p_values)) * len(p_values)


CASES = {
    "classes": corner(0.0, 0.0),
    "hdp": corner(1.5, 0.0),
    "hdp-tempered": corner(1.5, 0.0, -3),
    "gom": corner(0.3, 1.0),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_exact_draws_stay_exact(name):
    assert kept(CASES[name]) > FALSE_ALARM


def changed(before: str, after: str) -> Any:
    """The kernel with a bug in its source."""
    source = inspect.getsource(kernels)
    assert source.count(before) == 1
    module = types.ModuleType("unikat.kernels.planted")
    source = source.replace(before, after).replace("import device, kernel", "import device")
    exec(source.replace("@kernel", "@device"), vars(module))
    return module.along_ridges


WRONG: dict[str, tuple[str, dict[str, Any], tuple[str, str] | None]] = {
    "weights: an exponent too many": ("hdp", {"total_exponent": 9.4}, None),
    "weights: an exponent too few": ("classes", {"total_exponent": 7.4}, None),
    "weights: none of those unused": ("gom", {"share": 0.0, "total_exponent": 7.0}, None),
    "truncation ignored": ("hdp", {"n_seen": 0}, None),
    "truncation by half": ("classes", {"n_seen": FALL // 2}, None),
    "tilt": ("hdp", {}, ("size * math.log(tilt / tilt_before)", "0.0")),
    "weights not rescaled": ("gom", {}, ("weights[other] /= growth", "weights[other] /= 1.0")),
    "profiles before the moves": (
        "hdp", {}, ("reach[after, k] += reach[node, k] * exact[r, k]",
                    "reach[after, k] += reach[node, k] * 0.5"),
    ),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", WRONG)
def test_planted_bugs_are_caught(name):
    case, other, source = WRONG[name]
    run = changed(*source) if source else None
    assert kept(CASES[case], run, **other) < 0.01 * FALSE_ALARM
