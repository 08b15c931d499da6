"""Cell probabilities and risks against sums, products and simulated populations."""

from __future__ import annotations

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.kernels import cells as kernels
from unikat.models.base import Stream
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.mixed_membership import MembershipState
from unikat.rng import chain_key

ORACLE = Path(__file__).parents[3] / "shared" / "oracles" / "risk_extreme_values.json"
POISSON = Path(__file__).parents[1] / "reference" / "values" / "poisson_risk.json"


def random_state(n_levels: tuple[int, ...], n_slots: int, *, shared: bool) -> tuple:
    """Return a model, its data and a random state, with theta as a list of arrays by key."""
    rng = np.random.default_rng(len(n_levels) * 10 + n_slots)
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(n_levels)]
    table = CellTable.from_codes([[0] * len(n_levels)], keys, population_size=10)
    profiles = [rng.dirichlet(np.full(n, 0.6), n_slots).T.astype(np.float32) for n in n_levels]
    model = HDP(alpha="shared" if shared else "per-record", alpha_shape=1.5, alpha_rate=0.8)
    state = MembershipState(
        z=np.zeros((1, len(n_levels)), np.int16),
        theta=np.concatenate(profiles),
        weights=rng.dirichlet(np.full(n_slots, 0.5)),
        alpha=np.array([0.9]),
        spread=np.empty(0),
        top=np.ones(1),
        profile=np.ones(sum(n_levels)),
        **naive.no_zeros(len(n_levels), sum(n_levels)),
    )
    return model, model.prepare(table), state, [p.astype(float) for p in profiles]


@pytest.mark.parametrize("shared", [True, False], ids=["shared", "per-record"])
@pytest.mark.parametrize("n_levels", [(3,), (2, 3), (4, 2, 3), (2, 3, 2, 2), (2, 2, 3, 2, 2),
                                      (2, 2, 2, 2, 2, 3), (2, 2, 2, 2, 3, 2, 2)])  # fmt: skip
def test_probabilities_are_sums_over_partitions(n_levels, shared):
    """Every cell, keys left out included, for 1 to 7 keys; all cells add to 1.

    Relative error 2e-6 per key (theta is held in single precision); the mean over alpha's prior, if
    there is one for each record, by 16 nodes in the model and by the trapezium rule in the twin.
    """
    model, data, state, theta = random_state(n_levels, 5, shared=shared)
    rng = np.random.default_rng(1)
    cells = np.array(list(itertools.product(*(range(-1, n) for n in n_levels))), np.int32)
    p = model.cell_probabilities(Stream(0, 0, 0), state, data, cells)
    whole = (cells >= 0).all(axis=1)
    np.testing.assert_allclose(p[whole].sum(), 1.0, rtol=2e-6 * len(n_levels))
    chosen = rng.choice(len(cells), min(len(cells), 12 if len(n_levels) < 7 else 3), replace=False)
    for c in chosen:
        cell = cells[c].tolist()
        if shared:
            expected = naive.cell_probability(theta, state.weights, 0.9, cell)
        else:
            expected = naive.gamma_mean(
                np.vectorize(
                    lambda a, cell=cell: naive.cell_probability(theta, state.weights, a, cell)
                )
                if len(n_levels) < 5
                else by_moments(theta, state.weights, cell),
                (1.5, 0.8),
            )  # fmt: skip
        np.testing.assert_allclose(p[c], expected, rtol=2e-6 * len(n_levels))
    # Neither order nor repetition of the cells matters.
    order = rng.permutation(np.repeat(np.arange(len(cells)), 2))
    np.testing.assert_array_equal(
        model.cell_probabilities(Stream(0, 0, 0), state, data, cells[order]), p[order]
    )


def by_moments(theta: list, weights: np.ndarray, cell: list[int]):
    """Return the probability as a function of alpha: partitions grouped by their size."""
    known = [j for j, level in enumerate(cell) if level >= 0]
    term = np.zeros(len(known) + 1)
    for partition in naive.set_partitions(known):
        term[len(partition)] += math.prod(
            math.factorial(len(block) - 1)
            * float(weights @ np.prod([theta[j][cell[j]] for j in block], axis=0))
            for block in partition
        )
    return lambda a: sum(t * a**m for m, t in enumerate(term)) / naive.rising(a, len(known))


@pytest.mark.statistical
@pytest.mark.parametrize("n_levels", [(2, 3), (3, 2, 2, 3), (2,) * 7])
def test_probabilities_are_means_over_weights(n_levels):
    """Against g ~ Dirichlet(alpha g0): 6 cells, z tests, false alarm 1e-6 in total."""
    model, data, state, theta = random_state(n_levels, 5, shared=True)
    rng = np.random.default_rng(2)
    cells = np.column_stack([rng.integers(-1, n, size=6) for n in n_levels]).astype(np.int32)
    p = model.cell_probabilities(Stream(0, 0, 0), state, data, cells)
    for cell, value in zip(cells, p, strict=True):
        draws = naive.cell_probability_draws(rng, theta, state.weights, 0.9, cell.tolist(), 40_000)
        error = max(draws.std() / math.sqrt(len(draws)), 1e-7)
        assert abs(draws.mean() - value) < stats.norm.isf(1e-6 / 12) * error


@pytest.mark.parametrize("alpha", [1e-6, 0.3, 50.0])
@pytest.mark.parametrize("n_keys", [1, 2, 5, 9])
def test_rare_cells_among_many(n_keys, alpha):
    """The kernel itself: levels of probability 1e-9, more beginnings than it takes at a time."""
    rng = np.random.default_rng(n_keys)
    theta = [rng.dirichlet(np.ones(3), 7).T for _ in range(n_keys)]
    for profile in theta[1:]:
        profile[2] *= 1e-9
    theta = [profile.astype(np.float32) for profile in theta]
    weights = rng.dirichlet(np.ones(7))
    cells = np.unique(rng.integers(-1, 3, (60, n_keys)), axis=0)
    offsets = 3 * np.arange(n_keys)
    rows = np.where(cells >= 0, cells + offsets, -1).astype(np.int32)
    out = np.empty(len(rows))
    kernels.partition_probabilities(
        rows, np.concatenate(theta), weights, np.array([alpha]), np.ones(1), out
    )
    assert len(rows) == len(np.unique(rows, axis=0))
    for c in rng.choice(len(cells), min(len(cells), 3 if n_keys == 9 else 20), replace=False):
        expected = naive.cell_probability(theta, weights, alpha, cells[c].tolist())
        np.testing.assert_allclose(out[c], expected, rtol=3e-6)


def test_no_cells_and_no_known_keys():
    model, data, state, _ = random_state((2, 3), 5, shared=False)
    assert model.cell_probabilities(Stream(0, 0, 0), state, data, np.empty((0, 2), np.int32)).shape
    free = model.cell_probabilities(Stream(0, 0, 0), state, data, np.full((2, 2), -1, np.int32))
    np.testing.assert_allclose(free, 1.0, rtol=1e-12)


GRID_P = [1e-300, 1e-15, 1e-9, 1e-6, 1e-4, 0.01, 0.3, 0.999]
GRID_M = [0, 1, 5, 300, 10**6, 10**9, 10**12]


@pytest.mark.parametrize("trials", GRID_M)
@pytest.mark.parametrize("p", GRID_P)
def test_risks_are_sums_over_the_binomial(p, trials):
    """r1 to 1e-12 (of its logarithm), r2 of a unique to 1e-11; larger counts to 2e-6 relative."""
    expected = math.exp(trials * math.log1p(-p))
    assert math.isclose(kernels.unique_risk(float(trials), p), expected, rel_tol=1e-12)
    for count in (1, 2, 3, 10, 77, 500):
        if trials * p * (1 - p) > 1e9:
            # Too many terms: there E[1/X] is 1/E[X] within the relative variance.
            twin, tolerance = 1.0 / (count + trials * p), 1e-8
        else:
            twin, tolerance = naive.match_risk(trials, p, count), 1e-11 if count == 1 else 2e-6
        ours = kernels.match_risk(float(trials), p, float(count))
        assert math.isclose(ours, twin, rel_tol=tolerance), (count, ours, twin)


@pytest.mark.parametrize("count", [1.0, 2.0, 9.0, 500.0])
@pytest.mark.parametrize("mean", [1e-9, 0.5, 20.0, 59.9, 60.1, 100.0, 1e4])
@pytest.mark.parametrize("p", [1e-9, 1e-3, 0.05, 0.5, 0.9])
def test_risks_around_the_switch_of_formulas(mean, p, count):
    """On both sides of a mean of 60, relative error below 2e-6."""
    trials = round(mean / p)
    ours = kernels.match_risk(float(trials), p, count)
    assert math.isclose(ours, naive.match_risk(trials, p, int(count)), rel_tol=2e-6)


def test_risks_of_extreme_probabilities():
    """The mpmath oracle: every value to 1e-12 relative (below 1e-300: absolute)."""
    if not ORACLE.exists():
        pytest.skip(f"{ORACLE} is not here: the oracle values are kept beside the checkout")
    cases = json.loads(ORACLE.read_text())["plug_in"]
    assert len(cases) > 20
    for case in cases:
        p, trials = float(case["p"]), float(case["N"] - case["n"])
        expected = float(case["r1_binomial"])
        # The exponent itself is rounded, by 1e-16 of its size.
        tolerance = 1e-12 + 4e-16 * trials * p
        ours = kernels.unique_risk(trials, p)
        assert math.isclose(ours, expected, rel_tol=tolerance, abs_tol=1e-300), case
        ours = kernels.match_risk(trials, p, 1.0)
        assert math.isclose(ours, float(case["r2_binomial"]), rel_tol=1e-12), case


def test_poisson_risks_of_extreme_probabilities():
    """mpmath's values of r1 and r2 to 1e-12 relative (below 1e-300: absolute)."""
    cases = json.loads(POISSON.read_text())["plug_in"]
    assert len(cases) > 70
    for case in cases:
        p, trials = float(case["p"]), float(case["N"] - case["n"])
        r1, r2 = np.empty(1), np.empty(1)
        kernels.cell_risk(np.full(1, float(trials)), np.array([p]), np.ones(1), True, r1, r2)
        # The exponent itself is rounded, by 1e-16 of its size.
        tolerance = 1e-12 + 4e-16 * trials * p
        assert math.isclose(r1[0], case["r1_poisson"], rel_tol=tolerance, abs_tol=1e-300), case
        assert math.isclose(r2[0], case["r2_poisson"], rel_tol=1e-12), case


def test_poisson_risks_of_any_count():
    """mpmath's E(1/F given f): a unique to 1e-12; larger counts to 2e-6, as by the binomial."""
    cases = json.loads(POISSON.read_text())["poisson_general_f"]
    assert {case["f"] for case in cases} == {1, 2, 3, 5, 20, 100}
    for case in cases:
        ours = kernels.poisson_match_risk(float(case["mu"]), float(case["f"]))
        tolerance = 1e-12 if case["f"] == 1 else 2e-6
        assert math.isclose(ours, case["E_inv_F"], rel_tol=tolerance), case


@pytest.mark.parametrize("count", [1, 2, 9, 500])
@pytest.mark.parametrize("mean", [1e-12, 1e-9, 0.5, 20.0, 59.9, 60.1, 100.0, 1e4, 1e7])
def test_poisson_risks_are_sums_over_the_poisson(mean, count):
    """On both sides of the switches; relative error below 2e-6 (a unique: 1e-11)."""
    ours = kernels.poisson_match_risk(mean, float(count))
    twin = naive.poisson_match_risk(mean, count)
    assert math.isclose(ours, twin, rel_tol=1e-11 if count == 1 else 2e-6)
    assert kernels.poisson_match_risk(0.0, float(count)) == 1.0 / count


@pytest.mark.statistical
@pytest.mark.parametrize("unobserved", [1.0, 40.0])
def test_poisson_population_has_independent_counts(unobserved):
    """(tau1, tau2) against NumPy's Poisson counts: chi-square, false alarm 1e-6 each."""
    rng = np.random.default_rng(int(unobserved))
    p = rng.dirichlet(np.full(9, 0.7))[[0, 3, 4, 8]]
    n = 20_000
    ours = [kernels.draw_population(chain_key(2, 0), i, unobserved, p, True) for i in range(n)]
    others = rng.poisson(unobserved * p, size=(n, len(p)))
    theirs = [((row == 0).sum(), (1.0 / (1 + row)).sum()) for row in others]
    both = [[(int(a), round(float(b), 9)) for a, b in draws] for draws in (ours, theirs)]
    place = {value: v for v, value in enumerate(sorted({*both[0], *both[1]}))}
    counts = np.array([np.bincount([place[d] for d in draws], minlength=len(place))
                       for draws in both])  # fmt: skip
    common = counts.sum(axis=0) >= 20
    table = np.column_stack((counts[:, common], counts[:, ~common].sum(axis=1)))
    assert stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue > 1e-6


@pytest.mark.parametrize("trials", [0.0, 1.0, 30.0, 1e4])
def test_risks_of_a_certain_cell(trials):
    """Everybody is in the cell (p is 1, within rounding): E[1/F] = 1/(f + M), r1 = (M == 0)."""
    for p in (1.0 - 1e-13, 1.0, 1.0 + 2.3e-16):
        r1, r2 = np.empty(2), np.empty(2)
        kernels.cell_risk(
            np.full(2, float(trials)), np.full(2, p), np.array([1.0, 4.0]), False, r1, r2
        )
        np.testing.assert_allclose(r1, float(trials == 0.0), atol=1e-12)
        np.testing.assert_allclose(r2, 1.0 / (np.array([1.0, 4.0]) + trials), rtol=1e-6)


@pytest.mark.statistical
@pytest.mark.parametrize("unobserved", [1, 7, 40])
def test_population_has_the_law_of_simulated_individuals(unobserved):
    """(tau1, tau2) by binomials and by simulating everybody: chi-square, false alarm 1e-6."""
    rng = np.random.default_rng(unobserved)
    everywhere = rng.dirichlet(np.full(9, 0.7))
    unique = np.array([0, 3, 4, 8])
    n = 20_000
    ours = [
        kernels.draw_population(chain_key(2, 0), draw, float(unobserved), everywhere[unique], False)
        for draw in range(n)
    ]
    theirs = [naive.simulate_population(rng, unobserved, everywhere, unique) for _ in range(n)]
    both = [(int(a), round(b, 9)) for a, b in ours], [(int(a), round(b, 9)) for a, b in theirs]
    values = sorted(set(both[0]) | set(both[1]))
    place = {value: v for v, value in enumerate(values)}
    counts = np.array([np.bincount([place[d] for d in draws], minlength=len(values))
                       for draws in both])  # fmt: skip
    common = counts.sum(axis=0) >= 20
    table = np.column_stack((counts[:, common], counts[:, ~common].sum(axis=1)))
    table = table[:, table.sum(axis=0) > 0]
    assert stats.chi2_contingency(table).pvalue > 1e-6


def test_population_of_nobody():
    assert kernels.draw_population(chain_key(0, 0), 0, 0.0, np.full(3, 0.1), False) == (3.0, 3.0)


def test_population_when_the_uniques_are_all_there_is():
    """With nothing elsewhere, the counts add to everybody."""
    p = np.array([0.25, 0.25, 0.5])
    for draw in range(200):
        uniques, matches = kernels.draw_population(chain_key(1, 0), draw, 2.0, p, False)
        assert (uniques, round(matches, 6)) in {(2.0, 2.333333), (1.0, 2.0)}


def test_records_are_added_to_sums_and_histograms():
    """Items of one pattern add up; the histograms are over the square root of the risk."""
    r1 = np.array([0.0, 1.0, 0.25, 0.2499])
    r2 = np.array([1.0, 0.01, 0.5, 0.5])
    pattern = np.array([1, 0, 1, 1])
    weight, sum1, sum2 = np.zeros(2), np.zeros(2), np.zeros(2)
    h1, h2 = np.zeros((2, 4), np.int32), np.zeros((2, 4), np.int32)
    kernels.add_records(r1, r2, pattern, weight, sum1, sum2, h1, h2)
    np.testing.assert_allclose(weight, [1, 3])
    np.testing.assert_allclose(sum1, [1.0, 0.4999])
    np.testing.assert_allclose(sum2, [0.01, 2.0])
    np.testing.assert_array_equal(h1, [[0, 0, 0, 1], [1, 1, 1, 0]])
    np.testing.assert_array_equal(h2, [[1, 0, 0, 0], [0, 0, 2, 1]])
