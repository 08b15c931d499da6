"""Population uniques against other programs, exact sums, grids and simulated populations."""

from __future__ import annotations

import itertools
import json
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from unikat.classics import sums
from unikat.classics.histogram import Uniques
from unikat.classics.population_uniques import (
    bethlehem,
    dankar,
    pitman,
    population_uniques,
    snb,
    zayatz,
)
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError
from unikat.zeros.zeros import Zeros

ORACLE = Path(__file__).parents[3] / "shared" / "oracles" / "arx_population_uniques.json"
CASES = ["acs_ne_adults_1000", "adult_f0.02", "adult_f0.05", "adult_f0.2", "adult_f0.5"]
TOLERANCE = 1e-7

Histogram = dict[int, int]
SMALL: list[Histogram] = [
    {1: 40, 2: 12, 3: 5, 9: 2},
    {1: 200, 2: 9, 3: 1},
    {1: 9, 2: 1, 5: 3, 40: 4},
    {1: 1, 3: 6, 4: 9, 5: 7},
    {1: 3, 90: 2},
    {1: 30, 2: 1},
    {1: 2, 2: 1},
    {1: 5, 2: 1, 150: 1},
]
WITH_PAIRS = [histogram for histogram in SMALL if 2 in histogram]


def arrays(histogram: Histogram) -> tuple[list[int], list[int]]:
    return list(histogram), list(histogram.values())


def n_of(histogram: Histogram) -> int:
    return sum(j * c for j, c in histogram.items())


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> dict[str, Any]:
    if not ORACLE.exists():
        pytest.skip(f"the oracle values are not there ({ORACLE})")
    cases = json.loads(ORACLE.read_text())["cases"]
    found = next(case for case in cases if case["name"] == request.param)
    found["sizes"] = [int(size) for size in found["histogram"]]
    found["classes"] = list(found["histogram"].values())
    return found


# --- other programs ----------------------------------------------------------------------------


def test_pitman_and_zayatz_are_those_of_arx(case: dict[str, Any]) -> None:
    of, own, arx = (case["sizes"], case["classes"], case["N"]), case["own"], case["arx_tight"]
    exact, limit = pitman(*of), pitman(*of, asymptotic=True)
    assert math.isclose(exact.estimate, own["pitman_uniques_exact"], rel_tol=TOLERANCE)
    assert math.isclose(limit.estimate, own["pitman_uniques_asymptotic"], rel_tol=TOLERANCE)
    assert math.isclose(limit.estimate, arx["pitman"], rel_tol=TOLERANCE)
    for name in ("theta", "alpha"):
        expected = float(own[f"pitman_{name}"])
        assert math.isclose(exact.parameters[name], expected, rel_tol=TOLERANCE)
    found = zayatz(*of)
    assert math.isclose(found.estimate, own["zayatz_uniques"], rel_tol=TOLERANCE)
    assert math.isclose(found.estimate, arx["zayatz"], rel_tol=TOLERANCE)
    conditional = own["zayatz_conditional_uniqueness"]
    assert math.isclose(found.parameters["conditional"], conditional, rel_tol=TOLERANCE)
    assert math.isclose(found.in_sample, case["c1"] * conditional, rel_tol=TOLERANCE)


@pytest.mark.parametrize("classes", ["modified-shlosser", "shlosser"])
def test_snb_solves_the_right_equations(case: dict[str, Any], classes: Any) -> None:
    found = snb(case["sizes"], case["classes"], case["N"], population_classes=classes)
    expected = case["own"]["snb_corrected"][f"K_{classes.replace('-', '_')}"]
    assert math.isclose(found.estimate, expected["uniques"], rel_tol=TOLERANCE)
    for name in ("K", "a", "b"):
        assert math.isclose(found.parameters[name], float(expected[name]), rel_tol=TOLERANCE)


def test_dankar_is_the_rule_with_the_right_snb(case: dict[str, Any]) -> None:
    found = dankar(case["sizes"], case["classes"], case["N"], asymptotic=True)
    own, arx = case["own"], case["arx_tight"]
    if case["sampling_fraction"] <= 0.1:
        assert found.chosen == "pitman"
        assert math.isclose(found.estimate, arx["dankar"], rel_tol=TOLERANCE)
    else:
        other = own["snb_corrected"]["K_modified_shlosser"]["uniques"]
        assert found.chosen == ("snb" if other < own["zayatz_uniques"] else "zayatz")
        assert math.isclose(found.estimate, min(other, own["zayatz_uniques"]), rel_tol=TOLERANCE)
    assert found.method == "dankar"


# --- Pitman ------------------------------------------------------------------------------------


def log_likelihood(histogram: Histogram, theta: Any, alpha: Any) -> Any:
    """Log of Pitman's sampling formula, every factor written out."""
    u, n = sum(histogram.values()), n_of(histogram)
    total = sum((np.log(theta + i * alpha) for i in range(1, u)), start=0.0)
    total -= sum((np.log(theta + i) for i in range(1, n)), start=0.0)
    for j, c in histogram.items():
        total += c * sum((np.log(i - alpha) for i in range(1, j)), start=0.0)
    return total


@pytest.mark.parametrize("histogram", SMALL, ids=str)
def test_pitman_has_the_highest_likelihood(histogram: Histogram) -> None:
    """On a grid of all (theta, alpha), made finer around its best point."""
    found = pitman(*arrays(histogram), 10_000)
    theta, alpha = found.parameters["theta"], found.parameters["alpha"]
    best = log_likelihood(histogram, theta, alpha)
    low, high = np.array([-7.0, 0.0]), np.array([7.0, 0.9999])
    for _ in range(12):
        logs, alphas = np.linspace(low[0], high[0], 61), np.linspace(low[1], high[1], 61)
        x, a = np.meshgrid(10.0**logs, alphas, indexing="ij")
        values = log_likelihood(histogram, x - a, a)
        assert values.max() <= best + 1e-9 * abs(best)
        i, k = np.unravel_index(np.argmax(values), values.shape)
        width = (high - low) / 5
        low = np.maximum(np.array([logs[i], alphas[k]]) - width, [-7.0, 0.0])
        high = np.minimum(np.array([logs[i], alphas[k]]) + width, [7.0, 0.9999])
    # The likelihood is flat at its top, so that its height tells more than the place.
    assert abs(values.max() - best) <= 1e-7
    assert math.isclose(a[i, k], alpha, abs_tol=1e-3)
    assert math.isclose(x[i, k], theta + alpha, rel_tol=1e-2)


def test_small_histograms_reach_both_ends() -> None:
    """Ewens's formula at alpha = 0, and a negative theta, occur among them."""
    fits = [pitman(*arrays(histogram), 10_000).parameters for histogram in SMALL]
    assert any(fit["alpha"] == 0.0 for fit in fits)
    assert any(fit["theta"] < 0.0 < fit["alpha"] for fit in fits)


def urn(theta: float, alpha: float, size: int) -> float:
    """Expected classes of one unit, unit by unit.

    Of u classes, with m units so far, a unit starts a new one with probability (theta + u alpha) /
    (theta + m) and joins a class of one with probability (1 - alpha) / (theta + m).
    """
    u = ones = 1.0
    for m in range(1, size):
        new = (theta + u * alpha) / (theta + m)
        u, ones = u + new, ones + new - ones * (1.0 - alpha) / (theta + m)
    return ones


@pytest.mark.parametrize("histogram", SMALL, ids=str)
@pytest.mark.parametrize("size", [1_000, 60_000])
def test_pitman_expectation_is_that_of_the_urn(histogram: Histogram, size: int) -> None:
    found = pitman(*arrays(histogram), size)
    expected = urn(found.parameters["theta"], found.parameters["alpha"], size)
    assert math.isclose(found.estimate, expected, rel_tol=1e-9)
    assert math.isclose(found.in_sample, n_of(histogram) / size * expected, rel_tol=1e-9)


@pytest.mark.statistical
def test_pitman_expectation_is_a_mean_of_populations() -> None:
    """300 populations of 600 units drawn from the urn (z test, false alarm 1e-6)."""
    found = pitman([1, 2, 3, 9], [40, 12, 5, 2], 600)
    theta, alpha = found.parameters["theta"], found.parameters["alpha"]
    rng = np.random.default_rng(3)
    uniques = []
    for _ in range(300):
        classes = [1]
        of_units = [0]
        for m, point in enumerate(rng.random(599) * (theta + np.arange(1, 600)), start=1):
            # A unit's class gets 1 - alpha / F for each of its F units.
            if point < theta + alpha * len(classes):
                of_units.append(len(classes))
                classes.append(1)
                continue
            while True:
                unit = of_units[int(rng.integers(m))]
                if rng.random() * classes[unit] < classes[unit] - alpha:
                    break
            of_units.append(unit)
            classes[unit] += 1
        uniques.append(classes.count(1))
    z = (np.mean(uniques) - found.estimate) / (np.std(uniques) / math.sqrt(len(uniques)))
    assert 2 * stats.norm.sf(abs(z)) > 1e-6, (np.mean(uniques), found.estimate)


# --- Zayatz and the slide negative binomial law ------------------------------------------------


@pytest.mark.parametrize("histogram", SMALL, ids=str)
@pytest.mark.parametrize("more", [1, 3, 20, 5_000])
def test_zayatz_in_fractions(histogram: Histogram, more: int) -> None:
    """Also where a class of the population has no room beside the other draws."""
    n = n_of(histogram)
    size, u = n + more, sum(histogram.values())
    chance = {
        j: Fraction(j * math.comb(size - j, n - 1), math.comb(size, n)) for j in histogram
    }  # fmt: skip
    marginal = sum(Fraction(c, u) * chance[j] for j, c in histogram.items())
    conditional = Fraction(histogram[1], u) * chance[1] / marginal
    found = zayatz(*arrays(histogram), size)
    assert math.isclose(found.parameters["conditional"], conditional, rel_tol=1e-11)
    expected = histogram[1] * conditional * Fraction(size, n)
    assert math.isclose(found.estimate, expected, rel_tol=1e-11)


@pytest.mark.parametrize("histogram", WITH_PAIRS, ids=str)
@pytest.mark.parametrize("size", [300, 500, 2_000, 10**6])
def test_shlosser_in_fractions(histogram: Histogram, size: int) -> None:
    """K of both estimators (Haas and Stokes 1998), also where no law of that K exists."""
    n = n_of(histogram)
    q = Fraction(n, size)
    left = sum((1 - q) ** j * c for j, c in histogram.items())
    first = sum(j * q * (1 - q) ** (j - 1) * c for j, c in histogram.items())
    plain = sum(histogram.values()) + histogram[1] * left / first
    above = sum(j * q**2 * (1 - q**2) ** (j - 1) * c for j, c in histogram.items())
    below = sum((1 - q) ** j * ((1 + q) ** j - 1) * c for j, c in histogram.items())
    modified = sum(histogram.values()) + histogram[1] * above / below * (left / first) ** 2
    found = snb(*arrays(histogram), size)
    assert math.isclose(found.parameters["K"], modified, rel_tol=1e-11)
    found = snb(*arrays(histogram), size, population_classes="shlosser")
    assert math.isclose(found.parameters["K"], plain, rel_tol=1e-11)
    assert plain <= size


def test_snb_reproduces_the_classes_of_one_and_two() -> None:
    """Expected numbers by the sum over F of the slid law and of binomial sampling."""
    n_found = 0
    for histogram, share in itertools.product(WITH_PAIRS, (0.03, 0.2, 0.45, 0.8)):
        n = n_of(histogram)
        size = round(n / share)
        for classes in ("modified-shlosser", "shlosser"):
            found = snb(*arrays(histogram), size, population_classes=classes)
            if found.reason:
                continue
            n_found += 1
            k, a, b = (found.parameters[name] for name in ("K", "a", "b"))
            # Beyond so many units nearly no class of them has one or two sampled.
            sizes = np.arange(1, int(60.0 * size / n) + 200)
            law = stats.nbinom.pmf(sizes - 1, a, b)
            for j in (1, 2):
                expected = k * np.sum(law * stats.binom.pmf(j, sizes, n / size))
                assert math.isclose(expected, histogram[j], rel_tol=1e-8)
            assert math.isclose(found.estimate, k * law[0], rel_tol=1e-8)
            assert found.in_sample <= histogram[1]
    assert n_found >= 15


@pytest.mark.parametrize(
    ("histogram", "size", "exists"),
    [
        ({1: 40, 2: 12, 3: 5, 9: 2}, 120, True),
        ({1: 200, 2: 9, 3: 1}, 4_000, True),
        ({1: 9, 2: 20, 5: 3, 40: 4}, 20_000, False),
        ({1: 9, 2: 20, 5: 3, 40: 4}, 400, False),
        ({1: 9, 2: 1, 5: 3, 40: 4}, 2_000, True),
    ],
)
def test_snb_exists_where_a_grid_finds_it(histogram: Histogram, size: int, exists: bool) -> None:
    """The two equations, in logarithms, over all (a, b)."""
    found = snb(*arrays(histogram), size)
    f, k = n_of(histogram) / size, found.parameters["K"]
    a, odds = np.meshgrid(np.geomspace(1e-6, 1e8, 1_200), np.geomspace(1e-12, 1e9, 1_600))
    b, not_b = odds / (1 + odds), 1 / (1 + odds)
    d, not_d = (1 - f) * not_b, b + f * not_b
    power = a * -np.log1p(f * not_b / b)
    one = np.log(k * f) + power + np.log1p(a * d / not_d)
    two = np.log(k * f**2 * a * not_b / 2) + power + np.log(2 - d + a * d) - 2 * np.log(not_d)
    error = np.maximum(abs(one - math.log(histogram[1])), abs(two - math.log(histogram[2]))).min()
    if exists:
        assert error < 0.02
        assert found.estimate > 0.0
    else:
        assert error > 0.1
        assert "No slide negative binomial law" in found.reason
        assert math.isnan(found.estimate)


def test_dankar_without_snb_is_zayatz() -> None:
    """No class of two records: the other estimate does not exist."""
    sizes, classes = [1, 3], [20, 5]
    assert snb(sizes, classes, 100).reason
    found = dankar(sizes, classes, 100)
    assert found.chosen == "zayatz"
    assert found.estimate == zayatz(sizes, classes, 100).estimate
    assert dankar(sizes, classes, 349).chosen == "zayatz"
    assert dankar(sizes, classes, 350).chosen == "pitman"


# --- Bethlehem ---------------------------------------------------------------------------------


def cells_of(histogram: Histogram, n_cells: int) -> Any:
    counts = np.repeat(list(histogram), list(histogram.values()))
    return np.concatenate((counts, np.zeros(n_cells - len(counts), int)))


@pytest.mark.parametrize("n_cells", [230, 1_000, 50_000])
@pytest.mark.parametrize("histogram", SMALL, ids=str)
def test_bethlehem_has_the_highest_likelihood(histogram: Histogram, n_cells: int) -> None:
    """Negative binomial counts of all cells, the empty ones too, on a grid of alpha."""
    counts = cells_of(histogram, n_cells)
    found = bethlehem(*arrays(histogram), 10_000, n_cells)
    if counts.var() <= counts.mean():
        assert "by chance" in found.reason
        return
    alpha = found.parameters["alpha"]
    mean = counts.mean()

    def likelihood(a: Any) -> Any:
        values, times = np.unique(counts, return_counts=True)
        return sum(
            stats.nbinom.logpmf(v, a, a / (a + mean)) * t
            for v, t in zip(values, times, strict=True)
        )

    grid = 10.0 ** np.linspace(-8, 6, 1_401)
    assert likelihood(grid).max() <= likelihood(alpha) + 1e-9
    assert likelihood(alpha * 1.01) < likelihood(alpha) > likelihood(alpha * 0.99)
    assert math.isclose(alpha * found.parameters["beta"] * n_cells, 1.0, rel_tol=1e-12)
    expected = n_cells * stats.nbinom.pmf(1, alpha, alpha / (alpha + 10_000 / n_cells))
    assert math.isclose(found.estimate, expected, rel_tol=1e-9)


@pytest.mark.parametrize("histogram", SMALL[:5], ids=str)
def test_bethlehem_moments_are_those_of_all_cells(histogram: Histogram) -> None:
    counts = cells_of(histogram, 1_000)
    found = bethlehem(*arrays(histogram), 10_000, 1_000, fit="moments")
    excess = counts.var() / counts.mean() - 1.0
    if excess <= 0.0:
        assert found.reason
        return
    beta = excess / counts.sum()
    assert math.isclose(found.parameters["beta"], beta, rel_tol=1e-10)
    shape = 1.0 / (1_000 * beta)
    expected = 1_000 * stats.nbinom.pmf(1, shape, 1.0 / (1.0 + 10_000 * beta))
    assert math.isclose(found.estimate, expected, rel_tol=1e-9)


@pytest.mark.statistical
def test_bethlehem_expectation_is_a_mean_of_populations() -> None:
    """4,000 populations drawn from the fitted law (z test, false alarm 1e-6)."""
    found = bethlehem([1, 2, 3, 9], [40, 12, 5, 2], 5_000, 2_000)
    rng = np.random.default_rng(7)
    alpha, beta = found.parameters["alpha"], found.parameters["beta"]
    rates = rng.gamma(alpha, beta, (4_000, 2_000))
    uniques = (rng.poisson(5_000 * rates) == 1).sum(axis=1)
    z = (uniques.mean() - found.estimate) / (uniques.std() / math.sqrt(len(uniques)))
    assert 2 * stats.norm.sf(abs(z)) > 1e-6, (uniques.mean(), found.estimate)


@pytest.mark.parametrize("histogram", SMALL, ids=str)
def test_bethlehem_of_a_huge_grid_is_the_logarithmic_series(histogram: Histogram) -> None:
    sizes, classes = arrays(histogram)
    u, n = sum(classes), n_of(histogram)
    found = bethlehem(sizes, classes, 10**6, math.inf)
    theta = 1.0 / found.parameters["beta"]
    assert found.parameters["alpha"] == 0.0
    assert math.isclose(u, theta * math.log1p(n / theta), rel_tol=1e-9)
    assert math.isclose(found.estimate, 1e6 * theta / (1e6 + theta), rel_tol=1e-9)
    for n_cells in (1e16, 1e100):
        near = bethlehem(sizes, classes, 10**6, n_cells)
        assert math.isclose(near.estimate, found.estimate, rel_tol=1e-6)
    moments = bethlehem(sizes, classes, 10**6, math.inf, fit="moments")
    pairs = sum(j * (j - 1) * c for j, c in histogram.items())
    assert math.isclose(moments.estimate, 1e6 / (1 + 1e6 * pairs / n**2), rel_tol=1e-9)


# --- size --------------------------------------------------------------------------------------


def large() -> tuple[Any, Any, int]:
    """13 million records in 5.4 million classes of up to a million, of a billion units."""
    sizes = np.unique(np.round(np.geomspace(1, 1_000_000, 60)))
    classes = np.maximum(np.round(4e6 / sizes**2.3), 1)
    return sizes, classes, 10**9


def test_pitman_of_many_records() -> None:
    """Scores, summed term by term, are zero; the expectation by gamma functions' expansion."""
    sizes, classes, size = large()
    found = pitman(sizes, classes, size)
    theta, alpha = found.parameters["theta"], found.parameters["alpha"]
    u, n = int(classes.sum()), int(sizes @ classes)
    i = np.arange(1, u)
    past = np.sum(1.0 / (theta + np.arange(1, n)))
    assert math.isclose(np.sum(1.0 / (theta + i * alpha)), past, rel_tol=1e-9)
    within = sum(
        c * np.sum(1.0 / (np.arange(1, j) - alpha)) for j, c in zip(sizes, classes, strict=True)
    )
    assert math.isclose(np.sum(i / (theta + i * alpha)), within, rel_tol=1e-9)
    shift = 1.0 - alpha
    first = math.exp(math.lgamma(theta + 1.0) - math.lgamma(theta + alpha))
    middle = theta + alpha + size - 1.0 + (shift - 1.0) / 2.0
    assert math.isclose(found.estimate, first * size * middle**-shift, rel_tol=1e-9)


def test_zayatz_of_many_records() -> None:
    """Products of up to 200,000 factors of N = 10^9."""
    sizes, classes, size = large()
    n = int(sizes @ classes)
    logs = np.cumsum(np.log1p(-(n - 1.0) / (size - 1.0 - np.arange(200_000))))
    chances = np.array([
        j * n / size * math.exp(logs[min(int(j) - 2, 199_999)] if j > 1 else 0.0) for j in sizes
    ])  # fmt: skip
    expected = classes[0] ** 2 / np.sum(classes * chances)
    assert math.isclose(zayatz(sizes, classes, size).estimate, expected, rel_tol=1e-10)


def test_all_estimators_hold_in_a_large_population() -> None:
    sizes, classes, size = large()
    for found in (
        snb(sizes, classes, size),
        snb(sizes, classes, size, population_classes="shlosser"),
        dankar(sizes, classes, size),
        bethlehem(sizes, classes, size, 1e12),
        bethlehem(sizes, classes, size, 1e12, fit="moments"),
    ):
        assert found.reason or 0.0 < found.estimate < size
    for histogram in ({1: 10**9, 2: 1}, {1: 2, 10**9: 1}, {1: 1, 2: 10**8}):
        for size in (n_of(histogram) + 1, 2**62 - 1):
            for found in everything(*arrays(histogram), size):
                assert found.reason or 0.0 <= found.estimate <= size


# --- where there is no estimate ----------------------------------------------------------------


def everything(sizes: Any, classes: Any, size: int) -> tuple[Uniques, ...]:
    return (
        pitman(sizes, classes, size),
        pitman(sizes, classes, size, asymptotic=True),
        zayatz(sizes, classes, size),
        snb(sizes, classes, size),
        snb(sizes, classes, size, population_classes="shlosser"),
        dankar(sizes, classes, size),
        bethlehem(sizes, classes, size, math.inf),
        bethlehem(sizes, classes, size, math.inf, fit="moments"),
    )


@pytest.mark.parametrize(
    ("sizes", "classes", "size", "reason"),
    [
        ([], [], 10, "no record"),
        ([1, 2], [0, 0], 10, "no record"),
        ([1], [1], 10, "Every record is alone"),
        ([1, 4], [25, 0], 100, "Every record is alone"),
        ([30], [1], 100, "No record is alone"),
        ([2, 3], [5, 4], 100, "No record is alone"),
        ([1, 2], [1_200, 2], 1_204, "its 1,200 uniques are counted"),
        ([1], [1], 1, "whole population"),
    ],
)
def test_no_estimate_is_a_reason(sizes: Any, classes: Any, size: int, reason: str) -> None:
    for found in everything(sizes, classes, size):
        assert math.isnan(found.estimate)
        assert math.isnan(found.in_sample)
        assert reason in found.reason


def test_no_class_of_two() -> None:
    found = snb([1, 3], [20, 5], 1_000)
    assert math.isnan(found.estimate)
    assert "No class has two records" in found.reason


def test_even_cells_have_no_gamma_law() -> None:
    """One record in nearly every cell of the grid: less than Poisson variance."""
    for fit in ("likelihood", "moments"):
        found = bethlehem([1, 2], [90, 5], 1_000, 100, fit=fit)
        assert math.isnan(found.estimate)
        assert "by chance" in found.reason


@pytest.mark.parametrize(
    ("sizes", "classes"),
    [
        ([1, 2], [3]),
        ([[1, 2]], [[3, 4]]),
        ([0, 1], [3, 4]),
        ([1, 1.5], [3, 4]),
        ([1, 1], [3, 4]),
        ([1, 2], [3, -1]),
        ([1, 2], [3, math.nan]),
        ([1, math.inf], [3, 1]),
    ],
)
def test_no_histogram_is_refused(sizes: Any, classes: Any) -> None:
    with pytest.raises(DataError, match=r"lasses|histogram"):
        zayatz(sizes, classes, 1_000)


def test_impossible_arguments_are_refused() -> None:
    with pytest.raises(SpecError, match="population size"):
        pitman([1, 2], [3, 4], 10)
    with pytest.raises(SpecError, match="whole number"):
        pitman([1, 2], [3, 4], 100.5)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="population_classes"):
        snb([1, 2], [3, 4], 100, population_classes="chao")  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="fit"):
        bethlehem([1, 2], [3, 4], 100, 50, fit="bayes")  # type: ignore[arg-type]
    for n_cells in (6, math.nan):
        with pytest.raises(SpecError, match="number of cells"):
            bethlehem([1, 2], [3, 4], 100, n_cells)


# --- from a table ------------------------------------------------------------------------------

KEYS = [Key.of_size("A", 9), Key.of_size("B", 7), Key.of_size("C", 3)]


def codes(n: int = 60, missing: float = 0.0) -> Any:
    rng = np.random.default_rng(5)
    drawn = np.stack([rng.binomial(key.n_levels - 1, 0.3, n) for key in KEYS], axis=1)
    drawn[rng.random(drawn.shape) < missing] = -1
    return drawn


def same(found: tuple[Uniques, ...], histogram: dict[int, float], size: int, cells: float) -> None:
    of = list(histogram), list(histogram.values()), size
    expected = (pitman(*of), zayatz(*of), snb(*of), dankar(*of), bethlehem(*of, cells))
    assert [uniques.method for uniques in found] == [uniques.method for uniques in expected]
    for one, other in zip(found, expected, strict=True):
        assert one.reason == other.reason
        np.testing.assert_allclose(one.estimate, other.estimate, rtol=1e-10)
    assert sum(not uniques.reason for uniques in found) >= 3


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_table_without_wildcards_has_the_complete_records(missing: float) -> None:
    drawn = codes(missing=missing)
    complete = drawn[(drawn >= 0).all(axis=1)]
    histogram = Counter(Counter(map(tuple, complete.tolist())).values())
    table = CellTable.from_codes(drawn, KEYS, population_size=400)
    same(population_uniques(table), dict(histogram), 400, 189)


def test_table_with_wildcards_has_the_matches() -> None:
    drawn = codes(missing=0.1)
    histogram: dict[int, Fraction] = {}
    for row in drawn:
        matches = sum(((row == other) | (row < 0) | (other < 0)).all() for other in drawn)
        histogram[int(matches)] = histogram.get(int(matches), Fraction()) + Fraction(
            1, int(matches)
        )
    table = CellTable.from_codes(drawn, KEYS, population_size=400, missing="wildcard")
    assert histogram[1] == table.n_uniques
    same(population_uniques(table), {j: float(c) for j, c in histogram.items()}, 400, 189)


def test_table_with_zeros_has_fewer_cells() -> None:
    zeros = Zeros.of(["A == 3 and B == 2"], KEYS)
    drawn = codes()
    drawn = drawn[~((drawn[:, 0] == 3) & (drawn[:, 1] == 2))]
    table = CellTable.from_codes(drawn, KEYS, population_size=400, zeros=zeros.diagram)
    assert population_uniques(table)[-1].parameters["K"] == 186.0


def test_table_of_more_cells_than_a_double_holds() -> None:
    keys = [Key.of_size(f"K{j}", 10) for j in range(320)]
    drawn = np.zeros((6, 320), np.int32)
    drawn[:4, 0] = [1, 2, 3, 3]
    table = CellTable.from_codes(drawn, keys, population_size=100)
    found = population_uniques(table)[-1]
    assert found.parameters["K"] == math.inf
    assert 0.0 < found.estimate < 100.0


def test_table_of_incomplete_records_only() -> None:
    table = CellTable.from_codes([[-1, 0, 0], [1, -1, 1]], KEYS, population_size=10)
    for found in population_uniques(table):
        assert "no record" in found.reason


# --- sums --------------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [1e-9, 0.3, 1.0, 7.7, 25.0, 1e5, 1e12])
def test_reciprocals_are_sums(x: float) -> None:
    for m in (0, 1, 2, 17, 5_000):
        expected = math.fsum(1.0 / (x + i) for i in range(m))
        assert math.isclose(float(sums.reciprocals(x, m)), expected, rel_tol=1e-13)


@pytest.mark.parametrize("m", [1, 2, 900])
@pytest.mark.parametrize("alpha", [0.0, 1e-300, 1e-12, 1e-7, 1e-5, 0.01, 0.9])
@pytest.mark.parametrize("delta", [1e-6, 0.7, 40.0, 1e7])
def test_spaced_sums(delta: float, alpha: float, m: int) -> None:
    one = math.fsum(1.0 / (delta + k * alpha) for k in range(m))
    assert math.isclose(sums.spaced(delta, alpha, m), one, rel_tol=1e-13)
    weighted = math.fsum(k / (delta + k * alpha) for k in range(m))
    rounding = 1e-13 * m / max(delta, alpha)
    assert math.isclose(sums.weighted(delta, alpha, m), weighted, rel_tol=1e-10, abs_tol=rounding)


@pytest.mark.parametrize("m", [2, 5, 900])
def test_series_of_small_steps(m: int) -> None:
    """Every term of it counts at its largest step."""
    alpha = 0.95e-4 / m
    expected = math.fsum(k / (1.0 + k * alpha) for k in range(m))
    assert math.isclose(sums.weighted(1.0, alpha, m), expected, rel_tol=4e-15)


def test_stirling_remainder() -> None:
    for x in (0.2, 1.0, 30.0, 99.0, 101.0, 400.0):
        lead = (x - 0.5) * math.log(x) - x + 0.5 * math.log(2.0 * math.pi)
        found = float(sums.stirling(np.array([x]))[0])
        assert math.isclose(found, math.lgamma(x) - lead, abs_tol=1e-12)
