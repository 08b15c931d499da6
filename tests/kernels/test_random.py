"""Philox against its published vectors, and the samplers built on it against SciPy."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.kernels import random

FALSE_ALARM = 1e-6
"""Of every p-value; about 90 of them, so 9e-5 for the module."""
N = 20_000

KNOWN_ANSWERS = [
    ("00000000 00000000 00000000 00000000", "00000000 00000000",
     "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
    ("ffffffff ffffffff ffffffff ffffffff", "ffffffff ffffffff",
     "408f276d 41c83b0e a20bc7c6 6d5451fd"),
    ("243f6a88 85a308d3 13198a2e 03707344", "a4093822 299f31d0",
     "d16cfe09 94fdcceb 5001e420 24126ea1"),
]  # fmt: skip
"""Random123's kat_vectors for philox4x32-10: counter, key, result."""


def words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


def generator_at(unit: int) -> np.ndarray:
    generator = np.zeros(random.GENERATOR_SIZE, np.uint32)
    random.seek(generator, np.array([17, 4], np.uint32), unit, 0, 63)
    return generator


@pytest.mark.parametrize(("counter", "key", "result"), KNOWN_ANSWERS)
def test_philox_gives_the_published_numbers(counter, key, result):
    ours = random.philox(*(np.uint64(word) for word in (*words(counter), *words(key))))
    assert [int(word) for word in ours] == words(result)
    assert naive.philox(words(counter), words(key)) == tuple(words(result))


def test_a_stream_is_philox_over_its_address():
    """Bits come from counter = (block, unit, sweep, purpose) under the chain's key, in order."""
    generator = np.zeros(random.GENERATOR_SIZE, np.uint32)
    random.seek(generator, np.array([7, 9], np.uint32), 11, 5, 3)
    bits = [int(random.next_bits(generator)) for _ in range(10)]
    expected = [w for block in range(3) for w in naive.philox((block, 11, 5, 3), (7, 9))]
    assert bits == expected[:10]


def test_purposes_are_distinct():
    """Two purposes with one number would share their random numbers."""
    numbers = [value for name, value in vars(random).items() if name.startswith("PURPOSE_")]
    assert len(set(numbers)) == len(numbers) >= 9


@pytest.mark.statistical
def test_uniforms_are_uniform_within_and_across_units():
    """Kolmogorov-Smirnov along one stream and over the first numbers of many streams."""
    generator = generator_at(0)
    along = [random.uniform(generator) for _ in range(N)]
    across = [random.uniform(generator_at(unit)) for unit in range(N)]
    for draws in (along, across):
        assert 0.0 < min(draws) < max(draws) <= 1.0
        assert stats.kstest(draws, "uniform").pvalue > FALSE_ALARM
        assert stats.pearsonr(draws[:-1], draws[1:]).pvalue > FALSE_ALARM


@pytest.mark.statistical
def test_normals_and_exponentials():
    generator = generator_at(1)
    normals = [random.normal(generator) for _ in range(N)]
    exponentials = [random.exponential(generator) for _ in range(N)]
    assert stats.kstest(normals, "norm").pvalue > FALSE_ALARM
    assert stats.kstest(exponentials, "expon").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [1.0, 1.01, 2.5, 30.0, 1e4, 1e8])
def test_gammas(shape):
    generator = generator_at(2)
    draws = [random.gamma(generator, shape) for _ in range(N)]
    assert stats.kstest(draws, stats.gamma(shape).cdf).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [1e-6, 1e-3, 0.1, 0.9, 1.0, 7.0])
def test_logarithms_of_gammas_do_not_underflow(shape):
    """For tiny shapes P(G < g) = g^shape / Gamma(shape + 1) far below the smallest double."""
    generator = generator_at(3)
    draws = np.array([random.log_gamma_variate(generator, shape) for _ in range(N)])
    assert np.isfinite(draws).all()
    small = np.exp(shape * draws - math.lgamma(shape + 1.0))
    cdf = np.where(draws < -30.0, small, stats.gamma.cdf(np.exp(draws), shape))
    assert stats.kstest(cdf, "uniform").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(("a", "b"), [(0.5, 0.5), (2.0, 5.0), (1.0, 1e4), (0.05, 3.0), (300, 40)])
def test_logarithms_of_betas(a, b):
    generator = generator_at(4)
    draws = [math.exp(random.log_beta_variate(generator, a, b)) for _ in range(N)]
    assert stats.kstest(draws, stats.beta(a, b).cdf).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("trials", "mean"),
    [
        (trials, mean)
        for trials in (1.0, 7.0, 40.0, 1e4, 1e8, 1e12)
        for mean in (1e-6, 0.01, 0.7, 3.0, 9.99, 10.01, 19.9, 47.0, 1e3, 1e6, 1e9)
        if mean < trials
    ],
)
def test_binomials(trials, mean):
    """Probability integral transforms, spread within the jumps, are uniform."""
    p = mean / trials
    generator = generator_at(5)
    draws = np.array([random.binomial(generator, trials, p) for _ in range(N)])
    assert ((draws >= 0) & (draws <= trials) & (draws == np.floor(draws))).all()
    law = stats.binom(trials, p)
    ranks = law.cdf(draws) - np.random.default_rng(1).random(N) * law.pmf(draws)
    assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(("trials", "p"), [(5.0, 0.8), (60.0, 0.93), (1e5, 0.999)])
def test_binomials_with_large_p(trials, p):
    generator = generator_at(6)
    draws = np.array([random.binomial(generator, trials, p) for _ in range(N)])
    law = stats.binom(trials, p)
    ranks = law.cdf(draws) - np.random.default_rng(1).random(N) * law.pmf(draws)
    assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM


def test_binomials_at_the_ends():
    generator = generator_at(7)
    assert random.binomial(generator, 0.0, 0.5) == 0.0
    assert random.binomial(generator, 9.0, 0.0) == 0.0
    assert random.binomial(generator, 9.0, 1.0) == 9.0


@pytest.mark.statistical
@pytest.mark.parametrize("mean", [0.1, 3.0, 9.9, 9.9999, 10.0, 13.7, 50.0, 1e4, 1e8])
def test_poissons(mean):
    """Chi-square over values (or 40 quantile classes), and the spread-out transforms."""
    generator = generator_at(8)
    draws = np.array([random.poisson_variate(generator, mean) for _ in range(N)])
    assert ((draws >= 0) & (draws == np.floor(draws))).all()
    law = stats.poisson(mean)
    ranks = law.cdf(draws) - np.random.default_rng(1).random(N) * law.pmf(draws)
    assert stats.kstest(ranks, "uniform").pvalue > FALSE_ALARM
    edges = np.unique(law.ppf(np.arange(1, 40) / 40))
    classes = np.searchsorted(edges, draws)
    share = np.diff(np.concatenate(([0.0], law.cdf(edges), [1.0])))
    observed = np.bincount(classes, minlength=len(share))
    kept = share * N > 5.0
    observed = np.append(observed[kept], observed[~kept].sum())
    expected = np.append(share[kept], share[~kept].sum()) * N
    assert stats.chisquare(observed[expected > 0], expected[expected > 0]).pvalue > FALSE_ALARM


def test_poissons_at_the_end():
    generator = generator_at(9)
    assert [random.poisson_variate(generator, mean) for mean in (0.0, 1e-300)] == [0.0, 0.0]


def exact_log_ratio(a: int, b: int) -> float:
    """log(a! / b!), a >= b, from logarithms of exact products."""
    product = 1
    total = 0.0
    for x in range(b + 1, a + 1):
        product *= x
        if product > 2**900:
            total, product = total + math.log(product), 1
    return total + math.log(product)


@pytest.mark.parametrize(
    ("a", "b"),
    [(0, 0), (5, 2), (170, 3), (1000, 900), (999_990, 999_000), (1_000_500, 999_990),
     (10**8 + 5000, 10**8), (10**12 + 3000, 10**12), (2**53, 2**53 - 2000)],
)  # fmt: skip
def test_log_factorial_ratio(a, b):
    """Relative error below 1e-9 (or absolute below 1e-8), both ways round."""
    expected = exact_log_ratio(a, b)
    ours = random.log_factorial_ratio(float(a), float(b))
    assert math.isclose(ours, expected, rel_tol=1e-9, abs_tol=1e-8)
    back = random.log_factorial_ratio(float(b), float(a))
    assert math.isclose(back, -expected, rel_tol=1e-9, abs_tol=1e-8)


def test_the_twin_of_ratios_is_exact():
    """The exact ratio is checked itself, on factorials small enough to write down."""
    ratio = Fraction(math.factorial(40), math.factorial(33))
    assert math.isclose(exact_log_ratio(40, 33), math.log(ratio), rel_tol=1e-14)


def test_what_is_no_number_is_drawn_at_once():
    generator = generator_at(9)
    for draw in (random.gamma, random.poisson_variate):
        assert math.isnan(draw(generator, math.nan))
    assert math.isnan(random.binomial(generator, 10.0, math.nan))
    assert math.isnan(random.binomial(generator, math.nan, 0.5))
    assert random.gamma(generator, math.inf) == math.inf
    assert random.poisson_variate(generator, math.inf) == math.inf
    for mean in (1e12, 1e300):
        assert random.poisson_variate(generator, mean) == mean
    # The generator is where it was: none of these took a number.
    assert random.uniform(generator) == random.uniform(generator_at(9))
