"""Kernels of structural zeros, and completions of patterns, against enumeration."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.kernels import zeros as kernels
from unikat.kernels.zeros import Diagram
from unikat.models.mixtures.completions import completions
from unikat.rng import chain_key
from unikat.zeros.diagram import build
from zeros.enumeration import all_cells, meets, random_conditions

FALSE_ALARM = 1e-6
"""Of each assertion on a p-value; about sixty of them."""
KEY = chain_key(12, 0)
N_LEVELS = (3, 2, 4, 2)
OFFSETS = np.concatenate(([0], np.cumsum(N_LEVELS)))
WEIGHTS = np.array([0.6, 0.4])
GAMMA = (1.5, 2.0)


def random_diagram(seed: int) -> tuple[Diagram, np.ndarray]:
    """A diagram, and which cells are impossible, one axis per key: some, and not all."""
    rng = np.random.default_rng(seed)
    while True:
        conditions = random_conditions(rng, N_LEVELS, int(rng.integers(1, 7)))
        impossible = meets(conditions, OFFSETS, all_cells(N_LEVELS))
        if 0.2 < impossible.mean() < 0.9:
            diagram = build(conditions, OFFSETS)
            return diagram, impossible.reshape(N_LEVELS)


def random_profiles(seed: int, n_slots: int = 2) -> tuple[list[np.ndarray], np.ndarray]:
    """Profiles by key, and as rows in single precision."""
    rng = np.random.default_rng(100 + seed)
    theta = [rng.dirichlet(np.full(n, 0.8), n_slots).T for n in N_LEVELS]
    rows = np.concatenate(theta).astype(np.float32)
    return [rows[a:b].astype(float) for a, b in itertools.pairwise(OFFSETS)], rows


def cumulative(rows: np.ndarray) -> np.ndarray:
    parts = [np.cumsum(rows[a:b].astype(float), axis=0) for a, b in itertools.pairwise(OFFSETS)]
    return np.ascontiguousarray(np.concatenate(parts).T)


def assert_frequencies(seen: list[Any], law: dict[Any, float]) -> None:
    """Chi-square of what was drawn against its law, what is rare taken together."""
    total = math.fsum(law.values())
    counts: dict[Any, int] = dict.fromkeys(law, 0)
    for value in seen:
        counts[value] += 1  # A value that cannot be has no place.
    expected = np.array(list(law.values())) / total * len(seen)
    observed = np.array(list(counts.values()))
    assert (observed[expected == 0.0] == 0).all()
    common = expected >= 8.0
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 0.0
    assert keep.sum() == 1 or stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("seed", range(12))
def test_chances_of_every_node(seed):
    """After every beginning: the sum over the endings that are possible."""
    diagram, impossible = random_diagram(seed)
    theta, rows = random_profiles(seed, 3)
    chance = np.full((len(diagram.child) + 1, 3), np.nan)
    kernels.possible_chances(diagram, OFFSETS, rows, chance)
    assert np.isfinite(chance).all()
    order = diagram.order.tolist()
    for k in range(3):
        law = np.where(impossible, 0.0, naive.cell_law(theta, [k] * 4)).transpose(order)
        np.testing.assert_allclose(chance[0, k], law.sum(), rtol=1e-12)
        for depth in range(1, 5):
            for levels in itertools.product(*(range(N_LEVELS[j]) for j in order[:depth])):
                before = math.prod(theta[j][x, k] for j, x in zip(order, levels, strict=False))
                node = 0
                for level in levels:
                    node = -1 if node < 0 else int(diagram.child[node, level])
                found = 0.0 if node < 0 else chance[node, k] * before
                np.testing.assert_allclose(found, law[levels].sum(), rtol=1e-12, atol=1e-300)


def simulated(
    diagram: Diagram, rows: np.ndarray, alpha: list[float], target: int, capacity: int, sweep: int
) -> tuple[int, np.ndarray, np.ndarray, np.ndarray]:
    out = np.full((capacity, 4), 99, np.int32)
    z = np.full((capacity, 4), 99, np.int16)
    alphas = np.full(capacity if len(alpha) == 2 else 0, np.nan)
    n = kernels.simulate_impossible(
        KEY, sweep, 5, target, diagram, OFFSETS,
        kernels.Memberships(np.array(alpha), np.cumsum(WEIGHTS), cumulative(rows)),
        kernels.Found(out, z, alphas),
    )  # fmt: skip
    return n, out, z, alphas


@pytest.mark.statistical
@pytest.mark.parametrize("alpha", [[1.3], list(GAMMA)], ids=["shared", "per-record"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_impossible_records_are_simulated_by_their_law(seed, alpha):
    """Chi-square over all beginnings and components; their number is negative binomial.

    A record's own alpha has its prior's density times the probability to be impossible
    (Kolmogorov-Smirnov).
    """
    diagram, impossible = random_diagram(seed)
    theta, rows = random_profiles(seed)
    law = naive.impossible_law(
        impossible,
        diagram.order.tolist(),
        theta,
        naive.urn_law(4, WEIGHTS, tuple(alpha) if len(alpha) == 2 else alpha[0]),
    )
    p0 = math.fsum(law.values())
    direct = sum(
        mass * naive.cell_law(theta, z)[impossible].sum()
        for z, mass in naive.urn_law(
            4, WEIGHTS, tuple(alpha) if len(alpha) == 2 else alpha[0]
        ).items()
    )
    np.testing.assert_allclose(p0, direct, rtol=1e-6)
    target, found, counts, alphas = 8, [], [], []
    for sweep in range(1200):
        n, out, z, own = simulated(diagram, rows, alpha, target, 1000, sweep)
        counts.append(n)
        levels = np.where(out[:n] >= 0, out[:n] - OFFSETS[:-1], -1)
        found += [
            (tuple(a), tuple(b)) for a, b in zip(levels.tolist(), z[:n].tolist(), strict=True)
        ]
        alphas.append(own[:n])
    assert_frequencies(found, law)
    number = stats.nbinom(target, 1.0 - p0)
    most = int(max(counts))
    edges = {m: float(number.pmf(m)) for m in range(most)} | {most: float(number.sf(most - 1))}
    assert_frequencies(counts, edges)
    if len(alpha) == 2:
        grid = np.exp(np.linspace(-20.0, 4.0, 400))
        density = stats.gamma.pdf(grid, GAMMA[0], scale=1.0 / GAMMA[1]) * grid
        density *= [
            sum(
                mass * naive.cell_law(theta, z)[impossible].sum()
                for z, mass in naive.urn_law(4, WEIGHTS, float(a)).items()
            )
            for a in grid
        ]
        below = np.cumsum((density + np.roll(density, 1))[1:])
        cdf = np.interp(np.concatenate(alphas), grid[1:], below / below[-1])
        # A thousand draws: a grid's error must not matter.
        assert stats.kstest(cdf[:1000], "uniform").pvalue > FALSE_ALARM


def test_records_beyond_the_capacity_are_counted():
    """Up to twice the capacity exactly; those that fit are the first ones."""
    diagram, _ = random_diagram(0)
    _, rows = random_profiles(0)
    n, whole, z, _ = simulated(diagram, rows, [1.3], 60, 1000, 3)
    assert 20 < n < 1000
    assert (whole[n:] == 99).all()
    for capacity in (n, n - 1, (n + 1) // 2):
        m, some, some_z, _ = simulated(diagram, rows, [1.3], 60, capacity, 3)
        assert m == n
        np.testing.assert_array_equal(some, whole[:capacity])
        np.testing.assert_array_equal(some_z, z[:capacity])
    few = n // 2 - 2
    m, some, _, _ = simulated(diagram, rows, [1.3], 60, few, 3)
    assert m == 2 * few + 1
    np.testing.assert_array_equal(some, whole[:few])
    assert simulated(diagram, rows, [1.3], 0, 10, 3)[0] == 0


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_impossible_records_of_a_class_are_drawn_by_their_law(seed):
    """Chi-square over the beginnings, for each of two classes."""
    diagram, impossible = random_diagram(seed)
    theta, rows = random_profiles(seed)
    chance = np.empty((len(diagram.child) + 1, 2))
    kernels.possible_chances(diagram, OFFSETS, rows, chance)
    n = 20_000
    classes = np.arange(n) % 2
    out = np.full((n, 4), 99, np.int32)
    for first, last in ((0, 7), (7, n)):
        kernels.draw_impossible(KEY, 1, first, last, classes, diagram, OFFSETS, rows, chance, out)
    levels = np.where(out >= 0, out - OFFSETS[:-1], -1)
    for k in range(2):
        law = naive.impossible_law(impossible, diagram.order.tolist(), theta, {(k,) * 4: 1.0})
        np.testing.assert_allclose(math.fsum(law.values()), 1.0 - chance[0, k], rtol=1e-6)
        merged: dict[tuple[int, ...], float] = {}
        for (pattern, _), mass in law.items():
            merged[pattern] = merged.get(pattern, 0.0) + mass
        assert_frequencies([tuple(x) for x in levels[classes == k].tolist()], merged)


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [0, 1, 2, 3])
@pytest.mark.parametrize("single", [True, False], ids=["class", "memberships"])
def test_missing_keys_are_completed_by_their_law(seed, single):
    """Chi-square of 8,000 completions of records with one to four missing keys."""
    diagram, impossible = random_diagram(seed)
    theta, rows = random_profiles(seed)
    rng = np.random.default_rng(seed)
    cells = np.argwhere(~impossible)
    n = 8_000
    for missing in ([1], [0, 2], [1, 2, 3], [0, 1, 2, 3]):
        record = cells[rng.integers(len(cells))].copy()
        record[missing] = -1
        z = np.full(4, rng.integers(2)) if single else rng.integers(0, 2, 4)
        law = naive.completion_law(impossible, theta, record.tolist(), z.tolist())
        given = np.where(record >= 0, record + OFFSETS[:-1], -1).astype(np.int32)
        out = np.full((n, 4), 99, np.int32)
        kernels.complete(
            KEY, 1, np.tile(given, (n, 1)), np.tile(z[: 1 if single else 4], (n, 1)),
            diagram, OFFSETS, rows, out,
        )  # fmt: skip
        assert_frequencies([tuple(cell) for cell in (out - OFFSETS[:-1]).tolist()], law)


def test_levels_that_no_float_can_tell_from_zero_stay_possible():
    """Only a level with theta 0 is possible, of one key and of all of a long record."""
    n_keys = 8
    # Level 0 of any key is impossible, level 1 has probability 0.
    conditions = np.ones((n_keys, 2 * n_keys), bool)
    for j in range(n_keys):
        conditions[j, 2 * j + 1] = False
    offsets = np.arange(0, 2 * n_keys + 1, 2)
    diagram = build(conditions, offsets)
    theta = np.tile([1.0, 0.0], n_keys).astype(np.float32)[:, None]
    out = np.zeros((2, n_keys), np.int32)
    given = np.full((2, n_keys), -1, np.int32)
    given[0, 1:] = offsets[1:-1] + 1
    kernels.complete(KEY, 1, given, np.zeros((2, 1), np.int16), diagram, offsets, theta, out)
    np.testing.assert_array_equal(out, np.tile(offsets[:-1] + 1, (2, 1)))


@pytest.mark.statistical
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_chance_of_records_of_several_components(seed):
    """The mean over two alphas has its expectation (z test, the variance enumerated)."""
    diagram, impossible = random_diagram(seed)
    theta, rows = random_profiles(seed)
    n = 20_000
    alpha = np.repeat([0.4, 3.0], [n // 4, n - n // 4])
    mean = kernels.mixed_chance(KEY, 1, n, diagram, OFFSETS, alpha, np.cumsum(WEIGHTS), rows)
    first, second = 0.0, 0.0
    for share, value in ((0.25, 0.4), (0.75, 3.0)):
        inner = [0.0, 0.0]
        for z, mass in naive.urn_law(4, WEIGHTS, value).items():
            if len(set(z)) > 1:
                p = naive.cell_law(theta, z)[~impossible].sum()
                inner = [inner[0] + mass * p, inner[1] + mass * p**2]
        first += share * inner[0]
        second += share * (inner[1] - inner[0] ** 2)
    error = math.sqrt(second / n)
    assert 2 * stats.norm.sf(abs(mean - first) / error) > FALSE_ALARM
    assert error < 0.02 * first


@pytest.mark.parametrize("seed", range(30))
def test_completions_are_products_that_hold_every_possible_cell_once(seed):
    """Each product expanded into its cells; patterns with no, some and all keys missing."""
    diagram, impossible = random_diagram(seed)
    rng = np.random.default_rng(seed)
    cells = all_cells(N_LEVELS)
    patterns = np.where(rng.random((60, 4)) < 0.5, -1, cells[rng.integers(len(cells), size=60)])
    patterns = np.concatenate((patterns, cells[::5], np.full((1, 4), -1))).astype(np.int32)
    found = completions(diagram, OFFSETS, patterns)
    assert (np.diff(found.owner) >= 0).all()
    assert found.rows.dtype == np.int32
    times = np.zeros((len(patterns), *N_LEVELS), int)
    for owner, row in zip(found.owner, found.rows.tolist(), strict=True):
        members = []
        for j, r in enumerate(row):
            first, last = int(OFFSETS[j]), int(OFFSETS[j + 1])
            if r < 0:
                members.append(range(last - first))
            elif r < OFFSETS[-1]:
                assert first <= r < last
                members.append(range(r - first, r - first + 1))
            else:
                chosen = np.flatnonzero(found.sets[r - OFFSETS[-1]])
                assert ((first <= chosen) & (chosen < last)).all()
                members.append(chosen - first)
        times[(owner, *np.ix_(*members))] += 1
    for pattern, counted in zip(patterns, times, strict=True):
        matches = ((pattern < 0) | (cells == pattern)).all(axis=1).reshape(N_LEVELS)
        np.testing.assert_array_equal(counted, matches & ~impossible)


def test_completions_are_remembered_by_what_was_asked():
    """Patterns of equal shape and other diagrams are other questions."""
    patterns = np.full((1, 4), -1, np.int32)
    sizes = set()
    for seed in range(4):
        diagram, impossible = random_diagram(seed)
        found = completions(diagram, OFFSETS, patterns)
        sizes.add((found.rows.tobytes(), found.sets.tobytes()))
        again = completions(Diagram(*(part.copy() for part in diagram)), OFFSETS, patterns.copy())
        assert again is found
        assert impossible.any()
    assert len(sizes) == 4
    assert len(completions(diagram, OFFSETS, patterns[:0]).owner) == 0
