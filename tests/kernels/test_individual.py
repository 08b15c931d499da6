"""E[1/F | f] of the negative binomial: sums in 60 digits, closed forms, mpmath; drawn rates."""

from __future__ import annotations

import itertools
import json
import math
from decimal import Decimal, localcontext
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from unikat.kernels import individual as kernels

ORACLE = Path(__file__).parents[3] / "shared" / "oracles" / "risk_extreme_values.json"


def risk(f: float, p: float) -> float:
    out = np.empty(1)
    kernels.exact_risk(np.array([float(f)]), np.array([p]), out)
    return float(out[0])


def by_sum(f: float, p: float) -> Decimal:
    """sum_x P(x) / (f + x), P(x) = f (f+1) ... (f+x-1) / x! p^f q^x, in 60 digits."""
    with localcontext() as context:
        context.prec = 60
        one, size, share = Decimal(1), Decimal(f), Decimal(p)
        rest = one - share
        mass, total, seen, x = share**size, Decimal(0), Decimal(0), 0
        while one - seen > Decimal("1e-40"):
            total += mass / (size + x)
            seen += mass
            mass *= rest * (size + x) / (x + 1)
            x += 1
        return total


def by_recursion(most: int, p: float) -> list[Decimal]:
    """E[1/F | f] for f = 1 to `most`, p <= 1/2: q E_(f+1) = p (1/f - E_f), E_1 = -p log(p) / q."""
    with localcontext() as context:
        context.prec = 60
        share = Decimal(p)
        odds = share / (1 - share)
        found = [-odds * share.ln()]
        for f in range(1, most):
            found.append(odds * (Decimal(1) / f - found[-1]))
        return found


def test_mpmath_values() -> None:
    if not ORACLE.exists():
        pytest.skip(f"{ORACLE} is not here: the oracle values are kept beside the checkout")
    cases = json.loads(ORACLE.read_text())["neg_binomial"]
    assert len(cases) == 70
    for case in cases:
        assert risk(case["f"], float(case["p"])) == pytest.approx(float(case["risk"]), rel=1e-13)


@pytest.mark.parametrize("p", [0.5, 0.4999999, 0.3, 0.05, 1e-3, 1e-6, 1e-12, 1e-100, 5e-324])
def test_small_probabilities_by_recursion(p: float) -> None:
    """f to 300 one by one."""
    expected = [float(value) for value in by_recursion(300, p)]
    got = [risk(f, p) for f in range(1, 301)]
    # Where p is subnormal so is the risk: its last digit is a large part of it.
    np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-323 if p < 1e-300 else 0.0)


@pytest.mark.parametrize("p", [0.3, 1e-3, 1e-9])
def test_large_frequencies_by_recursion(p: float) -> None:
    """f to 100,000, where powers of p underflow."""
    expected = by_recursion(100_000, p)
    for f in (1_000, 9_999, 50_000, 100_000):
        assert risk(f, p) == pytest.approx(float(expected[f - 1]), rel=1e-13)


@pytest.mark.parametrize(
    ("f", "p"),
    [*itertools.product((1, 2, 3, 7, 15, 16, 40, 300), (0.1, 0.4999, 0.5, 0.75, 0.999, 1 - 2**-53)),
     (2_000, 0.6), (2_000, 0.99), (20_000, 0.9)],
)  # fmt: skip
def test_the_definition_as_a_sum(f: int, p: float) -> None:
    assert risk(f, p) == pytest.approx(float(by_sum(f, p)), rel=1e-13)


@pytest.mark.parametrize("f", [1.25, 1.5, 1.999999, 2.0000001, 3.3, 15.9, 16.1, 77.7])
@pytest.mark.parametrize("p", [0.05, 0.3, 0.49, 0.8])
def test_frequencies_that_are_not_whole(f: float, p: float) -> None:
    """As weights of missing keys make them."""
    assert risk(f, p) == pytest.approx(float(by_sum(f, p)), rel=1e-13)


@pytest.mark.parametrize("p", [1e-3, 1e-8, 1e-15, 1e-200])
def test_half_frequencies_of_rare_units(p: float) -> None:
    """E at f = 1/2 is 2 sqrt(p/q) atan(sqrt(q/p)), and the recursion goes on from there."""
    odds = p / (1.0 - p)
    expected = 2.0 * math.sqrt(odds) * math.atan(1.0 / math.sqrt(odds))
    for f in (0.5, 1.5, 2.5, 3.5, 4.5):
        assert risk(f, p) == pytest.approx(expected, rel=1e-13)
        expected = odds * (1.0 / f - expected)


def test_all_sampled() -> None:
    assert [risk(f, 1.0) for f in (1, 2, 50, 100_000)] == [1.0, 0.5, 0.02, 1e-5]


def test_a_grid_without_gaps() -> None:
    """Between p/f and the least of 1/f and p/(f-1); falling with f, rising with p; never NaN."""
    f = np.unique(np.round(np.geomspace(1, 1e5, 150)))
    p = np.concatenate((np.geomspace(1e-15, 0.5, 60), 1.0 - np.geomspace(0.499, 1e-16, 40), [1.0]))
    grid = np.stack(np.meshgrid(f, p, indexing="ij"))
    got = np.empty(grid[0].size)
    kernels.exact_risk(*(part.ravel() for part in grid), got)
    got = got.reshape(grid[0].shape)
    assert np.isfinite(got).all()
    slack = 1.0 + 1e-14
    assert (got * slack >= grid[1] / grid[0]).all()
    assert (got <= slack / grid[0]).all()
    assert (got[1:] <= slack * (grid[1] / (grid[0] - 1.0 + (grid[0] == 1.0)))[1:]).all()
    assert (np.diff(got, axis=0) < 0.0).all()
    assert (np.diff(got, axis=1) > -1e-15 * got[:, :-1]).all()


def test_approximation() -> None:
    """Exact for f up to 2, then p / (f - q), up to 4.04 % (f = 3, p = 0.32) above the exact one."""
    f = np.array([1.0, 1.5, 2.0, 3.0, 4.0, 200.0])
    p = np.full(6, 0.3)
    exact, approximate = np.empty(6), np.empty(6)
    kernels.exact_risk(f, p, exact)
    kernels.approximate_risk(f, p, approximate)
    np.testing.assert_array_equal(approximate[:3], exact[:3])
    np.testing.assert_allclose(approximate[3:], 0.3 / (f[3:] - 0.7), rtol=1e-14)
    grid = np.linspace(1e-4, 1.0, 2_000)
    three, exact, approximate = np.full(2_000, 3.0), np.empty(2_000), np.empty(2_000)
    kernels.exact_risk(three, grid, exact)
    kernels.approximate_risk(three, grid, approximate)
    assert (approximate / exact).max() == pytest.approx(1.0403, abs=1e-4)
    assert (approximate >= exact * (1.0 - 1e-14)).all()


@pytest.mark.statistical
def test_rates_make_a_negative_binomial() -> None:
    """Poisson counts of 20,000 drawn rates against SciPy's law (false alarm 1e-6 each)."""
    rng = np.random.default_rng(11)
    n = 20_000
    cells = np.stack(np.unravel_index(np.arange(n), (20, 1_000)), axis=1).astype(np.int32)
    key = np.array([5, 6], np.uint32)
    for f, p in ((1, 0.2), (3, 0.6), (40, 0.5)):
        rates = np.empty(n)
        kernels.draw_rates(key, 3, cells, np.full(n, float(f)), np.full(n, (1.0 - p) / p), rates)
        assert stats.kstest(rates, stats.gamma(f, scale=(1.0 - p) / p).cdf).pvalue > 1e-6
        drawn = rng.poisson(rates)
        law = stats.nbinom(f, p)
        top = int(law.ppf(0.999))
        observed = np.bincount(np.minimum(drawn, top), minlength=top + 1)
        expected = n * np.append(law.pmf(np.arange(top)), law.sf(top - 1))
        keep = expected >= 5.0
        pooled = [np.append(part[keep], part[~keep].sum()) for part in (observed, expected)]
        many = [part[pooled[1] > 0.0] for part in pooled]
        assert stats.chisquare(*many).pvalue > 1e-6


def test_a_cell_keeps_its_rate() -> None:
    cells = np.array([[0, 1], [2, 0], [0, 1]], np.int32)
    key = np.array([5, 6], np.uint32)
    draws = []
    for sweep, chosen in ((1, [0, 1, 2]), (1, [1]), (2, [1])):
        rates = np.empty(len(chosen))
        n = len(chosen)
        kernels.draw_rates(key, sweep, cells[chosen], np.full(n, 2.0), np.ones(n), rates)
        draws.append(rates)
    assert draws[0][0] == draws[0][2]
    assert draws[0][1] == draws[1][0] != draws[2][0]
