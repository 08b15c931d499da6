"""Integrals of the superpopulation models against mpmath, peers' values, and each other."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import superpopulation_twin as twin
from unikat.kernels import hypergeometric as exact
from unikat.kernels import superpopulation as kernels

VALUES = Path(__file__).parents[1] / "reference" / "values" / "superpopulation.json"


def reference() -> list[dict[str, Any]]:
    values = json.loads(VALUES.read_text())
    return [dict(zip(values["columns"], row, strict=True)) for row in values["rows"]]


def near(got: float, expected: float, tolerance: float) -> bool:
    """A logarithm: absolute where it is small, since its exponential is what matters."""
    return abs(got - expected) <= tolerance * (1.0 + abs(expected))


def test_chances_and_risks_are_those_of_mpmath() -> None:
    """Distribution 2 to 1e-13, E(1/F | f) and E(F | f) to 1e-10 (1e-9), over 128 sets.

    f to 1e5, N to 1e8, K to 1e12, alpha 1e-3 to 1e3, a and b 1e-2 to 1e4.
    """
    n_risks = 0
    for row in reference():
        alpha, a, b, f = (float(row[name]) for name in ("alpha", "a", "b", "f"))
        s = row["N"] / (row["K"] * alpha)
        got = exact.log_count_probability(alpha, a, b, s, f)
        assert near(got, row["log_marginal"], 1e-13), row
        if row["E_inv_F"] is None:
            continue
        n_risks += 1
        p, q, weights = exact.posterior_nodes(alpha, a, b, s, f)
        assert math.isclose(weights.sum(), 1.0, rel_tol=1e-13)
        risk = exact.mean_inverse(p, q, weights, alpha, s, f)
        assert math.isclose(risk, row["E_inv_F"], rel_tol=1e-10), row
        mean = f + (alpha + f) * float(weights @ (s * q / (1.0 + s * p)))
        assert math.isclose(mean, row["mean_F"], rel_tol=1e-9), row
    assert n_risks > 50


def test_mean_inverse_is_a_sum() -> None:
    """E 1/(f + X), X negative binomial, against its terms."""
    for f, alpha, odds in [(1, 0.01, 3.0), (1, 5.0, 40.0), (3, 0.5, 0.01), (40, 300.0, 2.0)]:
        x = np.arange(20_000)
        terms = stats.nbinom.pmf(x, alpha + f, 1.0 / (1.0 + odds)) / (f + x)
        got = exact.mean_inverse(
            np.zeros(1), np.ones(1), np.ones(1), alpha, odds, float(f)
        )  # fmt: skip
        # p = 0 makes the odds s (1 - p) / (1 + s p) = s.
        assert math.isclose(got, math.fsum(terms), rel_tol=1e-11)
    none = exact.mean_inverse(np.ones(1), np.zeros(1), np.ones(1), 0.5, 9.0, 4.0)
    assert none == 0.25


def random_cells(rng: np.random.Generator, n: int) -> tuple[float, float, float, Any, Any]:
    alpha, size, s = 10 ** rng.uniform(-3, 2), 10 ** rng.uniform(-1, 5), 10 ** rng.uniform(-3, 8)
    counts = np.sort(rng.choice([1, 1, 2, 3, 5, 10, 30, 100, 1_000, 10_000], n)).astype(float)
    shapes = size * np.minimum(10 ** rng.uniform(-5, 0, n), 1.0 - 1e-6)
    return alpha, size, s, counts, shapes


def test_many_cells_at_once_are_the_single_ones() -> None:
    """Tabulated and shared nodes against adaptive ones: to 1e-7, 40 random sets of 20 cells."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        alpha, size, s, counts, shapes = random_cells(rng, 20)
        out, r1, r2 = np.empty((20, 3)), np.empty(20), np.empty(20)
        kernels.integrate(alpha, size, s, counts, shapes, out)
        kernels.risks(alpha, size, s, counts, shapes, r1, r2)
        for k in range(0, 20, 3):
            f, a, b = counts[k], shapes[k], size - shapes[k]
            log_chance = exact.log_count_probability(alpha, a, b, s, f)
            p, q, weights = exact.posterior_nodes(alpha, a, b, s, f)
            each = weights * (alpha + f) * s / (1.0 + s * p)
            expected = [log_chance, float(each @ p), float(each @ q)]
            np.testing.assert_allclose(out[k], expected, rtol=1e-7, atol=1e-7)
            none = np.empty(1)
            exact.log_population_probability(alpha, a, b, s, f, log_chance, counts[k : k + 1], none)
            assert math.isclose(r1[k], math.exp(none[0]), rel_tol=1e-7, abs_tol=1e-300)
            risk = exact.mean_inverse(p, q, weights, alpha, s, f)
            assert math.isclose(r2[k], risk, rel_tol=1e-7)
        empty = np.empty((20, 3))
        kernels.integrate(alpha, size, s, np.zeros(20), shapes, empty)
        some = np.empty(20)
        kernels.empty_chances(alpha, size, s, shapes, some)
        for k in range(0, 20, 3):
            log_none = exact.log_count_probability(alpha, shapes[k], size - shapes[k], s, 0.0)
            assert math.isclose(empty[k, 0], log_none, rel_tol=1e-7, abs_tol=1e-7)
            assert math.isclose(some[k], -math.expm1(log_none), rel_tol=1e-6, abs_tol=1e-9)


def test_rare_records_of_empty_cells_keep_their_digits() -> None:
    """P(f > 0) is alpha s a / (a + b) where s is tiny."""
    shapes = np.array([1e-3, 0.3, 4.0])
    out = np.empty(3)
    kernels.empty_chances(0.7, 5.0, 1e-11, shapes, out)
    np.testing.assert_allclose(out, 0.7 * 1e-11 * shapes / 5.0, rtol=1e-8)


def test_no_cells() -> None:
    nothing = np.empty(0)
    kernels.integrate(1.0, 2.0, 3.0, nothing, nothing, np.empty((0, 3)))
    kernels.risks(1.0, 2.0, 3.0, nothing, nothing, nothing, nothing)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("alpha", "a", "b", "s", "f"),
    [(0.1, 0.3, 80.0, 7_000.0, 1), (2.0, 40.0, 0.5, 30.0, 3), (0.5, 200.0, 9_000.0, 50.0, 20),
     (30.0, 0.02, 0.03, 4.0, 0), (300.0, 2.0, 5.0, 100.0, 2_000)],
)  # fmt: skip
def test_rates_are_draws_of_their_law(alpha: float, a: float, b: float, s: float, f: int) -> None:
    """N pi (1 - p) of 20,000 cells against its distribution function (KS, false alarm 1e-6)."""
    n = 20_000
    cells = np.stack(np.unravel_index(np.arange(n), (100, 200)), axis=1).astype(np.int32)
    rates = np.empty(n)
    key = np.array([5, 6], np.uint32)
    kernels.draw_rates(
        key, 3, cells, alpha, a + b, s, np.full(n, float(f)), np.full(n, a), np.array([a]),
        np.ones(1), rates,
    )  # fmt: skip
    u = np.linspace(-60.0, 60.0, 200_001)
    odds = np.exp(u)
    log_density = (a + f) * u + (alpha - a - b) * np.log1p(odds)
    log_density -= (alpha + f) * np.log1p((1.0 + s) * odds)
    weights = np.exp(log_density - log_density.max())
    kept = weights > 1e-9
    weights, scale = weights[kept] / weights[kept].sum(), s / (1.0 + (1.0 + s) * odds[kept])
    at = np.quantile(rates, np.linspace(0.01, 0.99, 60))
    expected = np.array([weights @ special.gammainc(alpha + f, value / scale) for value in at])
    gap = np.abs(np.searchsorted(np.sort(rates), at) / n - expected).max()
    assert gap < stats.kstwo.isf(1e-6, n), gap
    again = np.empty(7)
    kernels.draw_rates(
        key, 3, cells[5:12], alpha, a + b, s, np.full(7, float(f)), np.full(7, a), np.array([a]),
        np.ones(1), again,
    )  # fmt: skip
    np.testing.assert_array_equal(again, rates[5:12])


def test_twin_is_not_the_kernel_by_accident() -> None:
    """The twin's quadrature of P(f) agrees as well."""
    for f, alpha, a, b, s in [(0, 0.1, 0.86, 80.0, 5.0), (4, 0.92, 0.86, 80.0, 800.0)]:
        got = exact.log_count_probability(alpha, a, b, s, float(f))
        assert math.isclose(math.exp(got), twin.chance_of_count(f, alpha, a, b, s), rel_tol=1e-10)
