"""Risk and utility of continuous variables: slow twins, known cases, and what sdcMicro gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import naive
from unikat.protection.numeric.microaggregation import microaggregated
from unikat.protection.numeric.risk import near, risk_of
from unikat.protection.numeric.utility import moments, utility_of

TESTDATA = Path(__file__).parents[4] / "shared" / "data" / "sdcmicro_testdata.parquet"
NAN = np.nan


@pytest.mark.parametrize("seed", range(6))
def test_linkage_is_that_of_every_pair(seed: int) -> None:
    """Ties included: whole numbers make many records equally near."""
    rng = np.random.default_rng(seed)
    true = rng.integers(0, 30, (150, 2)).astype(float)
    released = np.rint(true / 5) * 5 if seed % 2 else true + rng.normal(size=true.shape)
    keys = rng.integers(0, 8, 150)
    found = risk_of(true, released, keys, keys)
    scale = true.std(axis=0)
    twin = naive.nearest_share(true / scale, released / scale, keys)
    assert found.linkage[0].after == pytest.approx(twin)
    assert found.linkage[0].before == pytest.approx(
        naive.nearest_share(true / scale, true / scale, keys)
    )
    known = np.where(true > 0, 10.0 ** np.floor(np.log10(np.maximum(true, 1))), 1.0)
    digit = np.rint(true / known) * known
    assert found.linkage[2].after == pytest.approx(
        naive.nearest_share(digit / scale, released / scale, keys)
    )
    counts = np.bincount(keys)[keys]
    assert found.keys_before == pytest.approx((1 / counts).mean())


def test_a_group_of_k_is_found_with_at_most_one_in_k() -> None:
    values = np.random.default_rng(1).lognormal(size=(400, 2))
    released = microaggregated(values, 4, np.zeros(400, int))
    nobody = np.zeros(400, int)
    found = risk_of(values, released, nobody, nobody)
    assert found.linkage[0].before == 1.0
    assert found.linkage[0].after <= 1 / 4
    # Keys split the groups, so that the record is found again: what `by` is for.
    keys = np.arange(400) % 5
    assert risk_of(values, released, keys, keys).linkage[0].after > 0.5
    apart = microaggregated(values, 4, keys)
    assert risk_of(values, apart, keys, keys).linkage[0].after <= 1 / 4


def test_missing_values_are_no_distance() -> None:
    true = np.array([[1.0, NAN], [2.0, NAN], [1.0, 5.0], [NAN, NAN]])
    keys = np.zeros(4, int)
    found = risk_of(true, true, keys, keys)
    assert (found.n_records, found.n_targets) == (3, 3)
    assert found.linkage[0].before == 1.0
    assert found.keys_before == pytest.approx((1 / 2 + 1 / 2 + 1) / 3)


def test_near_values_by_rank_count_ties_once() -> None:
    true = np.arange(200.0)
    released = true.copy()
    released[10], released[100] = 12.4, 105.0
    # 1% of 200 records are two ranks.
    ranks = near(true, released).ranks
    assert not ranks[10]
    assert not ranks[100]
    assert ranks.sum() == 198
    released[10] = 11.6
    assert near(true, released).ranks[10]
    assert near(np.zeros(300), np.zeros(300)).ranks.all()


def test_changes_are_in_standard_errors() -> None:
    rng = np.random.default_rng(3)
    true = rng.normal(10.0, 2.0, 40_000)
    found = moments(true, true + 0.1)
    # The standard error of the mean is 2 / 200; that of the median is 1.2533 times as large.
    assert found.mean.change == pytest.approx(10.0, rel=0.02)
    assert found.quantiles[2].change == pytest.approx(10.0 / 1.2533, rel=0.1)
    assert found.lost == pytest.approx(0.01 / 4.0, rel=0.02)
    wider = moments(true, 10.0 + (true - 10.0) * 1.01)
    # That of the variance of normal numbers is variance times sqrt(2 / n).
    assert wider.variance.change == pytest.approx(0.0201 / np.sqrt(2 / 40_000), rel=0.05)
    same = moments(true, true)
    assert same.mean.change == same.variance.change == same.worst_quantile.change == same.lost == 0


def test_columns_without_variance() -> None:
    same = np.full(10, 3.0)
    assert moments(same, same).lost == 0.0
    both = np.column_stack((same, np.arange(10.0)))
    found = utility_of(["a", "b"], both, both)
    assert (found.il1s, found.eigenvalues, found.correlations[0].value.change) == (0.0, 0.0, 0.0)


@pytest.mark.skipif(not TESTDATA.exists(), reason="shared/data/sdcmicro_testdata.parquet is absent")
def test_numbers_of_sdcmicro() -> None:
    """Outputs of sdcMicro 5.8.1 in R 4.2.2 for its testdata, `microaggregation(method="mdav")`."""
    import pyarrow.parquet as pq

    columns = ["expend", "income", "savings"]
    table = pq.read_table(TESTDATA, columns=columns)
    true = np.column_stack([table[name].to_numpy() for name in columns]).astype(float)
    found = microaggregated(true, 3, np.zeros(len(true), int))
    first: Any = [
        [89216447.0, 56066666.6667, 198935.233333],
        [26627835.66667, 25933333.3333, 478764.066667],
        [23178458.33333, 67700000.0, 5579820.333333],
        [16100539.33333, 81433333.3333, 8634904.666667],
        [9097751.66667, 88200000.0, 282854.7],
        [49866767.66667, 34400000.0, 955027.8],
    ]
    assert found[:6] == pytest.approx(np.array(first), rel=1e-10)
    spread = true.std(axis=0)
    lost = (((true - found) / spread) ** 2).sum() / (3 * len(true))
    assert lost == pytest.approx(0.00467033, abs=5e-9)
    keys = np.zeros(len(true), int)
    # dRisk(x, mx), whose k is 0.05; dUtility(x, mx, method = "IL1s" and "eigen").
    assert risk_of(true, found, keys, keys).near_in_all == pytest.approx(0.129476, abs=5e-7)
    kept = utility_of(columns, true, found)
    assert kept.il1s == pytest.approx(533.3434, abs=5e-5)
    assert kept.eigenvalues == pytest.approx(0.0001855492, abs=5e-11)
