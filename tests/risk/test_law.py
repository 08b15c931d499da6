"""The laws of τ1 and τ2 given states, against enumeration and simulated populations."""

from __future__ import annotations

import itertools
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from unikat.risk import law as laws
from unikat.risk import predictive
from unikat.risk.exposure import EqualChances
from unikat.risk.law import Moments, Others, State, others, smallest_at_least
from unikat.risk.predictive import Law, poisson_binomial, weighted_sums

F_MOST = 4000


def by_enumeration(p: np.ndarray) -> np.ndarray:
    """P(sum <= k) of indicators: all outcomes."""
    found = np.zeros(len(p) + 1)
    for outcome in itertools.product((0, 1), repeat=len(p)):
        found[sum(outcome)] += np.prod(np.where(outcome, p, 1.0 - p))
    return found.cumsum()


def law_of(b: float, alpha: float, a: float) -> np.ndarray:
    """P(X = x), x < F_MOST: the convolution of a Poisson and a negative binomial law."""
    x = np.arange(F_MOST)
    of_b = stats.poisson.pmf(x, b)
    of_a = stats.nbinom.pmf(x, alpha, 1.0 / (1.0 + a)) if alpha else (x == 0).astype(float)
    return np.convolve(of_b, of_a)[:F_MOST]


CELLS = [
    (0.0, 1.4, 0.3), (0.0, 21.0, 0.002), (0.0, 3.0, 40.0), (0.7, 1.4, 2.0), (0.0, 1.2, 1e-14),
    (0.4, 0.0, 0.0), (25.0, 0.0, 0.0), (0.0, 6.0, 0.5), (3.0, 2.0, 0.0),
]  # fmt: skip


@pytest.mark.parametrize("f", [1.0, 2.0, 7.0])
def test_risks_of_a_cell_are_those_of_its_law(f: float) -> None:
    law = Others(*np.array(CELLS).T)
    counts = np.full(len(CELLS), f)
    r2 = laws.mean_inverse(law, counts)
    second, third = laws._higher(law, counts, r2)
    inverse = 1.0 / (f + np.arange(F_MOST))
    for i, cell in enumerate(CELLS):
        p = law_of(*cell)
        assert law.alone[i] == pytest.approx(p[0], rel=1e-9, abs=1e-12)
        assert r2[i] == pytest.approx(p @ inverse, rel=2e-6)
        # At most 1% of the variance is left out, and nothing is added to it.
        variance, third_cumulant = Moments(
            law.alone[i : i + 1], r2[i : i + 1], second[i : i + 1], third[i : i + 1]
        ).cumulants[1:]
        spread = p @ (inverse - p @ inverse) ** 2
        skew = p @ (inverse - p @ inverse) ** 3
        assert 0.99 * spread - 1e-9 <= variance <= spread * (1.0 + 1e-4) + 1e-9
        assert third_cumulant == pytest.approx(skew, rel=0.05, abs=0.02 * spread**1.5 + 1e-9)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "cell", [(20.0, 0.0, 0.0), (0.0, 12.0, 40.0 / 12.0), (9.0, 3.0, 4.0)], ids=str
)
def test_the_interval_of_tau2_is_wide_enough_where_f_is_mostly_large(
    cell: tuple[float, float, float],
) -> None:
    n, draws = 300, 20_000
    law = Others(*(np.full(n, part) for part in cell))
    r2 = laws.mean_inverse(law, np.ones(n))
    state = State.of(Moments(law.alone, r2, *laws._higher(law, np.ones(n), r2)))
    rng = np.random.default_rng(5)
    b, alpha, a = cell
    rates = b + (rng.gamma(alpha, a, (draws, n)) if alpha else 0.0)
    tau2 = (1.0 / (1.0 + rng.poisson(rates, (draws, n)))).sum(axis=1)
    # A variance of 20,000 draws has a relative standard error of 1%.
    assert state.cumulants[1] == pytest.approx(tau2.var(), rel=0.05)
    found = Law([state]).tau2(0.95)
    for share, end in ((0.025, found.lower), (0.975, found.upper)):
        # Five standard errors of the share of draws below an end, 0.0011, and the gamma law's own.
        assert (tau2 <= end).mean() == pytest.approx(share, abs=0.0055 + 0.004)


def test_an_indicator_sum_has_the_law_of_all_outcomes() -> None:
    rng = np.random.default_rng(1)
    sums = [rng.random(9) ** 2, rng.random(6), np.array([1.0, 1.0, 0.0, 1e-3]), np.empty(0)]
    found = poisson_binomial(sums)
    for place, p in enumerate(sums):
        expected = by_enumeration(p)
        np.testing.assert_allclose(found[: len(expected), place], expected, atol=1e-13)
        assert (found[len(expected) :, place] > 1.0 - 1e-12).all()


def test_persons_in_unique_households_have_the_law_of_all_outcomes() -> None:
    rng = np.random.default_rng(4)
    sizes, sums = rng.integers(1, 5, 8), [rng.random(8), rng.random(8) ** 3]
    found = weighted_sums(sums, sizes)
    for place, p in enumerate(sums):
        expected = np.zeros(sizes.sum() + 1)
        for outcome in itertools.product((0, 1), repeat=8):
            expected[sizes @ outcome] += np.prod(np.where(outcome, p, 1.0 - p))
        np.testing.assert_allclose(found[:, place], expected.cumsum()[: len(found)], atol=1e-13)
    # Of homes of one size the persons are so many times the homes, by convolution and beyond.
    for n in (40, 2000):
        states = [State(rng.random(n), np.zeros(3)) for _ in range(3)]
        law, three = Law(states), np.full(n, 3)
        alone, persons = law.tau1(0.9), law.persons(three, 0.9)
        assert (persons.lower, persons.median, persons.upper) == tuple(
            3.0 * end for end in (alone.lower, alone.median, alone.upper)
        )
        assert persons.mean == pytest.approx(3.0 * alone.mean)
    # Just above `EXACT` the approximation is close to the convolution, of skewed laws too.
    for power in (1.0, 6.0):
        p = rng.random(4000) ** power
        p = p[: int(np.searchsorted(np.cumsum(p * (1.0 - p)), predictive.EXACT)) + 2]
        sizes = rng.integers(1, 7, len(p))
        wide, exact = predictive._Counts([p], sizes=sizes), weighted_sums([p], sizes)[:, 0]
        error = [float(wide.at_most(k)[0] - exact[k]) for k in range(len(exact))]
        assert np.abs(error).max() < 1e-3


@pytest.mark.parametrize("power", [0.2, 1.0, 6.0])
def test_the_approximation_of_a_wide_law_is_close_to_it(power: float) -> None:
    """Error of the distribution function just above `EXACT`, in units of probability."""
    rng = np.random.default_rng(2)
    p = rng.random(4000) ** power
    n = int(np.searchsorted(np.cumsum(p * (1.0 - p)), predictive.EXACT)) + 2
    assert predictive.EXACT < float((p[:n] * (1.0 - p[:n])).sum()) < predictive.EXACT + 1.0
    wide = predictive._Counts([p[:n]])
    exact = poisson_binomial([p[:n]])[:, 0]
    error = [float(wide.at_most(k)[0] - exact[k]) for k in range(len(exact))]
    assert np.abs(error).max() < 2e-4
    # Without the skewness it is off by much more, where there is some.
    if power == 6.0:
        mean, variance, _ = wide._normal[0]
        plain = stats.norm.cdf((np.arange(len(exact)) + 0.5 - mean) / math.sqrt(variance))
        assert np.abs(plain - exact).max() > 10.0 * np.abs(error).max()


def state_of(rng: np.random.Generator, n: int, mean: float) -> tuple[State, Others]:
    others = Others(np.zeros(n), np.full(n, 3.0), rng.gamma(1.0, mean / 3.0, n))
    counts = np.ones(n)
    r2 = laws.mean_inverse(others, counts)
    found = Moments(others.alone, r2, *laws._higher(others, counts, r2))
    return State.of(found), others


@pytest.mark.statistical
@pytest.mark.parametrize(("n", "mean"), [(8, 1.0), (60, 4.0), (300, 30.0), (400, 0.8)])
def test_quantiles_are_those_of_drawn_populations(n: int, mean: float) -> None:
    rng = np.random.default_rng(3)
    each = 2_500
    states, drawn = [], []
    for _ in range(25):
        state, others = state_of(rng, n, mean * rng.gamma(20.0, 1.0 / 20.0))
        states.append(state)
        rates = rng.gamma(3.0, others.scale, (each, n))
        f = 1.0 + rng.poisson(rates)
        drawn.append(np.stack(((f == 1.0).sum(axis=1), (1.0 / f).sum(axis=1))))
    tau1, tau2 = np.concatenate(drawn, axis=1)
    law, total = Law(states), len(tau1)
    assert law.tau1(0.95).mean == pytest.approx(tau1.mean(), abs=5.0 * tau1.std() / total**0.5)
    assert law.tau2(0.95).mean == pytest.approx(tau2.mean(), abs=5.0 * tau2.std() / total**0.5)
    for level in (0.5, 0.95):
        tail = (1.0 - level) / 2.0
        # Draws of a share have a standard error of at most 0.5 / sqrt(n); ten limits, 5 of them.
        error = 5.0 * math.sqrt(tail * (1.0 - tail) / total)
        for share, end in ((tail, law.tau1(level).lower), (1.0 - tail, law.tau1(level).upper)):
            assert (tau1 <= end).mean() >= share - error
            assert (tau1 <= end - 1.0).mean() <= share + error
        # A gamma variable is not τ2 itself: of few records it is off by more.
        close = 0.03 if n < 10 else 0.004
        for share, end in ((tail, law.tau2(level).lower), (1.0 - tail, law.tau2(level).upper)):
            assert (tau2 <= end + 1e-9).mean() >= share - error - close
            assert (tau2 < end - 1e-9).mean() <= share + error + close


@pytest.mark.statistical
def test_units_of_one_population_make_the_interval_wide_rather_than_narrow() -> None:
    """Multinomial counts: less spread than of independent cells, by the share that is said."""
    rng = np.random.default_rng(4)
    m, unobserved = 100, 900
    p = rng.dirichlet(np.full(m, 4.0)) * 0.15
    alone = (1.0 - p) ** unobserved
    drawn = (rng.multinomial(unobserved, [*p, 1.0 - p.sum()], 40_000)[:, :m] == 0).sum(axis=1)
    independent = float((alone * (1.0 - alone)).sum())
    said = independent - (unobserved * p @ alone) ** 2 / unobserved
    # The variance of 40,000 draws has a relative standard error of 0.7%.
    assert drawn.var() == pytest.approx(said, rel=0.03)
    assert 0.9 * independent < drawn.var() < independent
    found = Law([State(alone, np.array([alone.sum(), independent, 0.0]))]).tau1(0.95)
    low, high = np.quantile(drawn, (0.025, 0.975), method="inverted_cdf")
    assert found.lower <= low <= high <= found.upper
    assert found.upper - found.lower <= high - low + 2.0


def test_the_bound_of_the_smallest_count_is_that_of_all_cells() -> None:
    cells = CELLS[:2] + CELLS[5:8]
    law = Others(*np.array(cells).T)
    counts = np.array([1.0, 2.0, 1.0, 5.0, 3.0])
    found = smallest_at_least(law, counts, np.arange(1.0, 7.0))
    for k in range(1, 7):
        few = [
            law_of(*cell)[: max(k - int(f), 0)].sum() for cell, f in zip(cells, counts, strict=True)
        ]
        assert found[k - 1] == pytest.approx(max(1.0 - sum(few), 0.0), rel=1e-6, abs=1e-9)


def all_at_least(p: list[float], counts: list[int], unobserved: int, k: int) -> float:
    """P(min F >= k) of a population of known size: every split of the unobserved units."""
    left = np.zeros(unobserved + 1)
    left[unobserved], rest = 1.0, 1.0
    for share, f in zip(p, counts, strict=True):
        after, few = np.zeros_like(left), max(k - f, 0)
        for m in np.flatnonzero(left):
            x = np.arange(few, m + 1)
            after[m - x] += left[m] * stats.binom.pmf(x, m, min(share / rest, 1.0))
        left, rest = after, rest - share
    return float(left.sum())


@pytest.mark.parametrize(
    ("p", "counts", "unobserved"),
    [
        ([0.5, 0.5], [30, 30], 300), ([0.1] * 10, [6] * 10, 300),
        ([0.5, 0.1, 0.02], [9, 4, 1], 200), ([0.02] * 6, [1, 1, 2, 2, 3, 5], 250),
    ],
)  # fmt: skip
def test_the_smallest_count_promises_no_more_than_a_population_of_known_size(
    p: list[float], counts: list[int], unobserved: int
) -> None:
    """A limit is judged where the probability is 0.975: nothing there may be too high."""
    shares, f = np.array(p), np.array(counts, float)
    exposure = EqualChances(unobserved=float(unobserved))
    look: Any = SimpleNamespace(
        model=SimpleNamespace(error_law=lambda *_: None), stream=None, data=None, poisson=False
    )
    law = others(look, exposure, shares, f, by_mean=True)
    found = smallest_at_least(law, f, np.arange(1.0, 1.0 + unobserved))
    end = int((found > 0.975).sum())
    for k in (end - 2, end, end + 1, end + 3):
        assert found[k - 1] <= all_at_least(p, counts, unobserved, k) + 1e-12
    # A population reaches at most a tenth more, and two.
    assert all_at_least(p, counts, unobserved, int(1.1 * end) + 3) < 0.975
