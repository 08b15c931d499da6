"""Methods for continuous variables, by what they promise."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.errors import SpecError
from unikat.protection.numeric.methods import changed
from unikat.protection.numeric.microaggregation import groups, microaggregated
from unikat.spec.numeric import Method

NAN = np.nan


def done(values: Any, text: str, by: Any = None, seed: int = 1) -> Any:
    values = np.asarray(values, float)
    points = values if values.ndim == 2 else values[:, None]
    group = np.zeros(len(points), int) if by is None else np.asarray(by)
    found = changed(points, Method.of(text), group, np.random.default_rng(seed))
    return found if values.ndim == 2 else found[:, 0]


def skewed(n: int = 5000, width: int = 3) -> Any:
    rng = np.random.default_rng(4)
    return np.exp(
        rng.multivariate_normal(np.zeros(width), np.full((width, width), 0.5) + np.eye(width), n)
    )


def test_ends_are_replaced_by_their_mean_or_the_bound() -> None:
    income = [5.0, 1.0, NAN, 90.0, 2.0, 30.0, 60.0, 3.0]
    # 3 of 7 lie above the value with at least 50% up to it, which is 5.
    assert done(income, "top(50%)").tolist()[3:] == [60.0, 2.0, 60.0, 60.0, 3.0]
    assert np.isnan(done(income, "top(50%)")[2])
    assert done(income, "top(30, bound)")[[3, 6]].tolist() == [30.0, 30.0]
    assert done(income, "bottom(4)")[[1, 4, 7]].tolist() == [2.0, 2.0, 2.0]
    assert np.nanmean(done(income, "bottom(4)")) == pytest.approx(np.nanmean(income))
    # Nothing lies beyond: nothing changes.
    assert np.array_equal(done(income, "top(90)"), income, equal_nan=True)


def test_the_mean_of_fewer_than_three_is_refused() -> None:
    with pytest.raises(SpecError, match="2 record") as error:
        done([1.0, 2.0, 3.0, 50.0, 60.0], "top(3)")
    assert "top(3, bound)" in str(error.value)
    # No value of a record is told.
    assert "50" not in str(error.value)


def test_random_rounding_goes_to_a_neighbour_without_bias() -> None:
    values = np.full(20_000, 130.0)
    found = done(values, "round(100, random)")
    assert set(found) == {100.0, 200.0}
    # A two-sided test of the binomial count, false alarm 1e-6.
    assert stats.binomtest(int((found == 200.0).sum()), len(values), 0.3).pvalue > 1e-6
    exact = done(np.array([100.0, -300.0]), "round(100, random)")
    assert exact.tolist() == [100.0, -300.0]


def test_microaggregated_columns_have_groups_of_at_least_k() -> None:
    values = skewed()
    values[::7, 1] = NAN
    values[::11, 2] = NAN
    values[3] = NAN
    found = done(values, "microaggregate(5)")
    assert np.array_equal(np.isnan(found), np.isnan(values))
    _, counts = np.unique(
        np.nan_to_num(found[~np.isnan(found).all(axis=1)]), axis=0, return_counts=True
    )
    assert counts.min() >= 5
    assert np.nanmean(found, axis=0) == pytest.approx(np.nanmean(values, axis=0))


def test_groups_of_by_are_not_mixed() -> None:
    values = skewed(400, 2)
    by = np.arange(400) % 4
    found = done(values, "microaggregate(3)", by)
    for group in range(4):
        apart = done(values[by == group], "microaggregate(3)")
        # Standard deviations are those of the file, so groups may differ; sizes and means do not.
        assert found[by == group].mean(axis=0) == pytest.approx(apart.mean(axis=0))
        assert np.unique(found[by == group], axis=0, return_counts=True)[1].min() >= 3
    assert not set(map(tuple, found[by == 0])) & set(map(tuple, found[by == 1]))


def test_small_groups_of_by_are_taken_together() -> None:
    values = np.array([1.0, 2.0, 3.0, 100.0, 101.0, 7.0])
    # Groups 1 and 2 have one record each: together they have two.
    found = done(values, "microaggregate(2)", [0, 0, 0, 1, 2, 0])
    assert found.tolist() == pytest.approx([1.5, 1.5, 5.0, 100.5, 100.5, 5.0])
    # One alone takes the mean of the nearest.
    assert done(values, "microaggregate(2)", [0, 0, 0, 0, 0, 9])[5] in (1.5, 3.0, 2.0)


def test_rare_combinations_of_missing_values_take_those_of_others() -> None:
    values = np.array([[1, 10], [2, 20], [3, 30], [4, 40], [NAN, 33], [2.2, NAN]], float)
    found = done(values, "microaggregate(2)")
    assert found[4, 1] == found[2, 1] == 35.0
    assert found[5, 0] == found[0, 0] == 1.5
    assert np.isnan(found[4, 0])
    assert np.isnan(found[5, 1])
    # Nobody has the columns of the last two records: they lose them.
    lonely = np.array([[1, NAN], [2, NAN], [NAN, 5], [NAN, NAN]], float)
    assert np.isnan(done(lonely, "microaggregate(2)")[2, 1])


def test_one_column_loses_no_more_than_mdav_would() -> None:
    values = skewed(300, 1)
    best = groups(values, 4)
    assert naive.squares_within(values, best) <= naive.squares_within(values, naive.mdav(values, 4))


def test_columns_count_by_their_standard_deviations() -> None:
    values = skewed(300, 2)
    found = microaggregated(values * [1.0, 1e6], 3, np.zeros(300, int))
    assert found / [1.0, 1e6] == pytest.approx(microaggregated(values, 3, np.zeros(300, int)))


def test_noise_has_the_covariance_of_the_data() -> None:
    values = skewed(40_000)
    noise = done(values, "noise(20%)") - values
    covariance = np.cov(values.T)
    # 40,000 draws: five standard errors of a covariance.
    error = 5 * 0.04 * np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)) * 2 / len(values))
    assert (np.abs(np.cov(noise.T) - 0.04 * covariance) < error).all()
    kept = done(values, "noise(50%, preserving)")
    assert np.cov(kept.T) == pytest.approx(covariance, rel=0.05)
    assert kept.mean(axis=0) == pytest.approx(values.mean(axis=0), rel=0.05)
    # Without `preserving` the variance is 1.25 times as large, which this would see.
    assert np.var(done(values, "noise(50%)")) > 1.15 * np.var(values)


def test_noise_of_columns_that_determine_each_other() -> None:
    one = np.arange(50.0)
    noise = done(np.column_stack((one, 2 * one)), "noise(10%)") - np.column_stack((one, 2 * one))
    assert noise[:, 1] == pytest.approx(2 * noise[:, 0])


def test_rank_swapping_keeps_the_values_of_a_column() -> None:
    values = skewed(1000, 1)[:, 0]
    found = done(values, "swap(5%)")
    assert sorted(found) == sorted(values)
    ranks = np.argsort(np.argsort(values))
    moved = np.abs(ranks - np.argsort(np.argsort(found)))
    assert 0 < moved.max() <= 50
    assert (found != values).mean() > 0.9


def test_the_seed_tells_what_is_drawn() -> None:
    values = skewed(100, 1)[:, 0]
    for text in ("noise(10%)", "swap(10%)", "round(0.5, random)"):
        assert np.array_equal(done(values, text, seed=3), done(values, text, seed=3))
        assert not np.array_equal(done(values, text, seed=3), done(values, text, seed=4))
