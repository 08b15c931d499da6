from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data import CellTable, Key
from unikat.data.shared_keys import sharing
from unikat.models.calibrated import OVERDISPERSION, SHIFTS
from unikat.models.mixtures.latent_class import LatentClass
from unikat.studies import calibrate
from unikat.studies.calibrate import (
    EXPERIENCE,
    SAMPLED_HOUSEHOLDS,
    outside,
    posterior,
    prior,
    quantiles,
)
from unikat.studies.known_error import weights_of_error

LOG_K = np.log(OVERDISPERSION)
SHAPE = (len(OVERDISPERSION), len(SHIFTS))


TAILS = calibrate.TAILS


def moments(weights, values):
    mean = float(weights @ values) / weights.sum()
    return mean, math.sqrt(float(weights @ (values - mean) ** 2) / weights.sum())


def table(n_keys=8, n_records=1_800, households=False):
    """A table of which nothing but these numbers matters; all records are unique."""
    keys = [Key.of_size(f"K{j}", 2 if j else n_records) for j in range(n_keys)]
    homes = np.arange(n_records, dtype=np.int32) // 2
    codes = np.tile((homes % 2 if households else 0 * homes)[:, None], n_keys)
    codes[:, 0] = np.arange(n_records)
    found = CellTable.from_codes(codes, keys, 10 * n_records)
    return replace(found, households=homes if households else None)


@pytest.mark.parametrize(
    ("n_keys", "n_records", "expected"),
    [
        (3, 200, []),
        (12, 15_000, []),
        (2, 1_800, [("keys", 2)]),
        (13, 1_800, [("keys", 13)]),
        (8, 199, [("records", 199)]),
        (2, 15_001, [("keys", 2), ("records", 15_001)]),
    ],
)
def test_a_file_unlike_all_samples_that_were_learned_from(n_keys, n_records, expected):
    found = outside(table(n_keys, n_records), EXPERIENCE)
    assert [(one.what, one.value) for one in found] == expected


NARROW = replace(
    EXPERIENCE,
    centre=-2.0,
    slope=1.3,
    deviation=0.25,
    shift=0.07,
    size=0.05,
    sharing=-0.01,
    sharing_spread=0.05,
    shift_deviation=0.05,
    alike=20.0,
)


@pytest.mark.parametrize(
    ("times", "n_uniques", "expected"),
    [
        (10, 1_000, []),
        (5_000, 1_000, [("sampling_fraction", 1 / 5_000)]),
        (2, 1_000, [("sampling_fraction", 0.5)]),
        (10, 2, [("share_of_uniques", 0.002)]),
    ],
)
def test_samples_of_other_fractions_and_shares_of_uniques(times, n_uniques, expected):
    """The prior is the wider the further away, around the same middle."""
    codes = np.arange(1_000)
    codes[n_uniques:] = n_uniques + codes[n_uniques:] // 2
    keys = [Key.of_size("A", 1_000)] + [Key.of_size(f"K{j}", 2) for j in range(4)]
    columns = np.column_stack([codes] + 4 * [codes % 2])
    sample = CellTable.from_codes(columns, keys, times * 1_000)
    found = outside(sample, EXPERIENCE)
    assert [(one.what, pytest.approx(one.value)) for one in found] == expected
    usual = CellTable.from_codes(np.column_stack(5 * [np.arange(1_000)]), keys[:1] * 5, 20_000)
    here, there = (moments(prior(one, NARROW).sum(axis=1), LOG_K) for one in (sample, usual))
    assert here[0] == pytest.approx(there[0], abs=0.05)
    assert (here[1] > 1.1 * there[1]) == bool(expected)


def test_each_halving_of_the_sampling_fraction_widens_the_prior():
    """However small it is: variances grow by one for each, as NARROW has them."""
    sample = table()
    sizes = [2_000 * 1_800 * 2**times for times in range(1, 12)]
    found = [
        moments(prior(replace(sample, population_size=size), NARROW).sum(axis=0), SHIFTS)[1] ** 2
        for size in sizes
    ]
    usual = moments(prior(sample, NARROW).sum(axis=0), SHIFTS)[1] ** 2
    relative = np.array(found[:4]) / usual
    np.testing.assert_allclose(relative, 1.0 + np.arange(1, 5), rtol=0.15)
    assert (np.diff(found) > 0.0).all()


def test_members_who_differ_more_than_strangers_share_nothing():
    """Spouses of two sexes: s is below 0."""
    codes = np.column_stack([np.arange(400) % 2, np.arange(400) % 5, np.arange(400) % 2])
    keys = [Key.of_size(name, n) for name, n in (("SEX", 2), ("B", 5), ("ROLE", 2))]
    couples = CellTable.from_codes(codes, keys, 8_000)
    couples = replace(couples, households=np.arange(400, dtype=np.int32) // 2)
    assert sharing(couples) < 0.0
    assert "alike" not in [one.what for one in outside(couples, SAMPLED_HOUSEHOLDS)]
    np.testing.assert_allclose(prior(couples).sum(), 1.0)


@pytest.mark.parametrize("n_keys", [2, 5, 8, 15, 40])
def test_the_prior_is_a_distribution(n_keys):
    weights = prior(table(n_keys))
    assert weights.shape == SHAPE
    assert (weights >= 0.0).all()
    np.testing.assert_allclose(weights.sum(), 1.0)


@pytest.mark.parametrize("n_keys", [2, 8, 15])
@pytest.mark.parametrize("n_records", [50, 1_800, 60_000])
@pytest.mark.parametrize("households", [False, True])
@pytest.mark.parametrize("share", [0.2, 0.9])
def test_the_prior_has_the_middle_of_experience(n_keys, n_records, households, share):
    """Far from the ends of the grids: to 0.03 (log k) and 0.01 (d)."""
    sample = table(n_keys, n_records, households)
    n_uniques = sample.unique.sum()
    weights = prior(sample, NARROW, share * n_uniques)
    rare = math.log(9.0) if share == 0.9 else 0.0
    # Numbers beyond those that were learned from count as the nearest.
    centre = -2.0 + 1.3 * math.log(min(max(n_keys, 3), 12) / 8.0)
    alike = sharing(sample)
    shift = 0.07 - 0.01 * alike * rare + 0.05 * math.log(min(max(n_records, 200), 20_000) / 1800.0)
    # Each doubling beyond adds the variance between populations.
    keys = {2: math.log2(3 / 2), 8: 0.0, 15: math.log2(15 / 12)}[n_keys]
    records = {50: 2.0, 1_800: 0.0, 60_000: 2.0}[n_records]
    wider = math.sqrt((1.0 + keys + records) * TAILS / (TAILS - 2.0))
    mean, deviation = moments(weights.sum(axis=1), LOG_K)
    assert mean == pytest.approx(centre, abs=0.05)
    assert deviation == pytest.approx(0.25 * wider, rel=0.1)
    mean, deviation = moments(weights.sum(axis=0), SHIFTS)
    assert mean == pytest.approx(shift, abs=0.01)
    assert deviation == pytest.approx(0.05 * math.exp(0.05 * alike) * wider, rel=0.15)


def test_the_weights_of_auto_know_what_the_model_says_alone():
    """Where members of households are alike, the rarer the uniques the lower the level."""
    sample = table(6, 400, households=True)
    levels = []
    for share in (0.4, 0.6, 0.95):
        tau1 = SimpleNamespace(mean=share * sample.unique.sum())
        risk = SimpleNamespace(evidence=(0.0,) * (SHAPE[0] * SHAPE[1]), tau1=tau1)
        alike = prior(sample, SAMPLED_HOUSEHOLDS, tau1.mean)
        found = weights_of_error(sample, LatentClass(), risk)
        np.testing.assert_allclose(found, alike, rtol=1e-9)
        levels.append(moments(found.sum(axis=0), SHIFTS)[0])
    assert sharing(sample) > 0.5
    assert levels == sorted(levels, reverse=True)


def test_the_prior_has_the_tails_of_students_t():
    """Each pair against SciPy's bivariate t, by the width that a shift stands for."""
    law = stats.multivariate_t([-2.0, 0.07], np.diag([0.25, 0.05]) ** 2, df=TAILS)
    points = np.dstack(np.meshgrid(LOG_K, SHIFTS, indexing="ij"))
    expected = law.pdf(points) * np.gradient(SHIFTS)
    np.testing.assert_allclose(prior(table(), NARROW), expected / expected.sum(), rtol=1e-9)


@pytest.mark.parametrize("level", [0.0, -500.0])
def test_evidence_that_tells_nothing_leaves_the_prior(level):
    """But for the edges of the grids, where the blurred likelihood is 1 too."""
    weights = prior(table(6))
    np.testing.assert_allclose(posterior(weights, np.full(SHAPE, level)), weights, rtol=1e-12)


def test_the_posterior_pair_by_pair():
    """Against sums from the definition, on a part of the grid of k: to 1e-10."""
    rng = np.random.default_rng(1)
    seen = -3.0 * rng.exponential(size=SHAPE)
    seen -= seen.max()
    names = ("lag_k", "lag_d", "spread_k", "spread_d", "power")
    settings = [getattr(EXPERIENCE, name) for name in names]
    for weights in (prior(table(7)), np.full(SHAPE, 1.0 / math.prod(SHAPE))):
        twin = naive.error_posterior(weights, np.exp(seen), LOG_K, SHIFTS, settings)
        found = posterior(weights, seen)
        np.testing.assert_allclose(found, twin, rtol=1e-10)
        # A constant of the likelihood has no influence.
        np.testing.assert_allclose(posterior(weights, seen - 900.0), found, rtol=1e-10)


def sharp(index, shift, sharpness=200.0):
    """Log-likelihood with its peak at one pair."""
    away = (LOG_K - LOG_K[index])[:, None] ** 2 + 25.0 * (SHIFTS - SHIFTS[shift])[None, :] ** 2
    return -sharpness * away


def test_evidence_moves_what_is_known():
    """Towards the likelihood, in both directions and for both parameters."""
    low, high = 4, len(LOG_K) - 3
    left, right = (int(np.searchsorted(SHIFTS, d)) for d in (-0.25, 0.15))
    found = {}
    for index in (low, high):
        for shift in (left, right):
            weights = posterior(prior(table()), sharp(index, shift))
            assert weights.sum() == pytest.approx(1.0)
            of_k, of_d = weights.sum(axis=1), weights.sum(axis=0)
            found[index, shift] = (moments(of_k, LOG_K)[0], moments(of_d, SHIFTS)[0])
    for shift in (left, right):
        assert found[high, shift][0] - found[low, shift][0] > 0.2
    for index in (low, high):
        assert found[index, right][1] - found[index, left][1] > 0.02


def test_the_lags_are_taken_off():
    """What a sample tells is higher by the lags: to half a step of each grid."""
    experience = replace(EXPERIENCE, lag_k=0.6, lag_d=0.1, spread_k=0.3, spread_d=0.05)
    weights = posterior(np.ones(SHAPE), sharp(14, 13), experience)
    peak = LOG_K[int(np.argmax(weights.sum(axis=1)))]
    assert abs(peak - (LOG_K[14] - 0.6)) <= (LOG_K[1] - LOG_K[0]) / 2 + 1e-9
    assert SHIFTS[int(np.argmax(weights.sum(axis=0)))] == pytest.approx(SHIFTS[13] - 0.1)


def test_a_part_of_the_likelihood_counts():
    """With a power the posterior is wider."""
    seen = sharp(12, 12, sharpness=1.0)
    widths = [
        moments(
            posterior(np.ones(SHAPE), seen, replace(EXPERIENCE, power=power)).sum(axis=1), LOG_K
        )[1]
        for power in (0.3, 1.0)
    ]
    assert widths[1] < widths[0]


def test_quantiles():
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert quantiles(np.array([1.0, 1.0, 1.0, 1.0]), values, 0.4) == (2.0, 2.0, 3.0)
    # In any unit, and where there is no weight nothing is found.
    assert quantiles(np.array([0.0, 0.0, 7.0, 0.0]), values, 0.95) == (3.0, 3.0, 3.0)
    lower, middle, upper = quantiles(np.array([2.0, 90.0, 5.0, 3.0]), values, 0.95)
    assert (lower, middle, upper) == (2.0, 2.0, 4.0)
    for level in (0.5, 0.9, 0.95, 0.999):
        lower, middle, upper = quantiles(prior(table(5)).sum(axis=1), OVERDISPERSION, level)
        assert lower < middle < upper
        inside = slice(*np.searchsorted(OVERDISPERSION, (lower, np.nextafter(upper, 9.0))))
        assert prior(table(5)).sum(axis=1)[inside].sum() >= level - 1e-12
