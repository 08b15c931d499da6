from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from scipy import stats

from risk.toy_model import Toy
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.models.calibrated import OVERDISPERSION
from unikat.risk.measures import RiskMeasures
from unikat.risk.predictive import (
    NAMES,
    CheckedMeasures,
    counts_of_counts,
    overdispersion_likelihood,
    predictive_checks,
    predictive_p_value,
)

KEYS = [Key.of_size("A", 5), Key.of_size("B", 4), Key.of_size("C", 3)]


def some_table(n=120, missing="integrate", holes=True, seed=1):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([np.minimum(rng.geometric(0.4, n) - 1, k.n_levels - 1) for k in KEYS])
    if holes:
        codes[rng.random(codes.shape) < 0.1] = -1
    return CellTable.from_codes(codes, KEYS, 5000, missing)


def brute_force(table):
    """Counts of counts from the definition, record by record."""
    records = [tuple(cell) for cell in table.cells[table.record_cell].tolist()]
    patterns = set(records)
    if table.missing == "wildcard":
        sizes = [
            sum(
                all(x < 0 or y < 0 or x == y for x, y in zip(pattern, record, strict=True))
                for record in records
            )
            for pattern in patterns
        ]
    else:
        seen = Counter(records)
        sizes = [seen[pattern] for pattern in patterns if min(pattern) >= 0]
    return [sum(size == k for size in sizes) for k in (1, 2, 3, 4)] + [
        sum(size >= 5 for size in sizes)
    ]


@pytest.mark.parametrize("missing", ["integrate", "wildcard"])
@pytest.mark.parametrize("holes", [False, True])
def test_counts_of_counts_by_hand(missing, holes):
    table = some_table(missing=missing, holes=holes)
    found = counts_of_counts(table)
    assert found.tolist() == brute_force(table)
    assert found[0] == table.n_uniques
    assert found.sum() > 20


@pytest.mark.parametrize("missing", ["integrate", "wildcard"])
def test_a_simulated_sample_has_the_missing_keys_of_the_file(missing):
    table = some_table(missing=missing)
    model = Toy()
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    observer = CheckedMeasures.of(table)
    simulated = observer.simulated(Stream(1, 0, 3), model, state, data)

    def masks(one):
        rows = one.cells[one.record_cell] < 0
        return Counter(map(tuple, rows.tolist()))

    assert masks(simulated) == masks(table)
    assert simulated.missing == table.missing
    assert simulated.n_records == table.n_records
    observed = observer.observe(Stream(1, 0, 3), model, state, data, observer.start())
    assert [observed[name] for name in NAMES] == brute_force(simulated)


def test_the_risk_measures_are_those_without_checks():
    table = some_table()
    model = Toy()
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    plain, checked = RiskMeasures.of(table), CheckedMeasures.of(table)
    totals = plain.start(), checked.start()
    for sweep in range(1, 6):
        stream = Stream(1, 0, sweep)
        one = plain.observe(stream, model, state, data, totals[0])
        other = checked.observe(stream, model, state, data, totals[1])
        assert one == {name: other[name] for name in one}
    for a, b in zip(totals[0], totals[1].risk, strict=True):
        np.testing.assert_array_equal(a, b)
    assert plain.cost(model, data) == checked.cost(model, data)


def test_samples_are_simulated_as_often_as_they_are_cheap():
    table = some_table(n=1000, holes=False)
    model = Toy()
    data = model.prepare(table)
    observer = CheckedMeasures.of(table)
    every = observer.skipped(model, data)
    assert 1 < every <= 16
    state, totals = model.init(Stream(1, 0, 0), data), observer.start()
    seen = [
        observer.observe(Stream(1, 0, sweep), model, state, data, totals)[NAMES[0]]
        for sweep in range(1, 3 * every + 1)
    ]
    assert np.flatnonzero(~np.isnan(seen)).tolist() == [0, every, 2 * every]


@pytest.mark.parametrize("missing", ["integrate", "wildcard"])
def test_expected_sizes_are_those_of_the_simulated_samples(missing):
    """Over the complete records of each, with probabilities of the state; summed over draws."""
    table = some_table(n=60, missing=missing)
    model = Toy()
    data, observer = model.prepare(table), CheckedMeasures.of(table)
    state, totals = model.init(Stream(1, 0, 0), data), observer.start()
    every = observer.skipped(model, data)
    expected = np.zeros(totals.sizes.shape)
    for sweep in range(1, every + 2):
        stream = Stream(1, 0, sweep)
        observer.observe(stream, model, state, data, totals)
        if sweep % every != 1 % every:
            continue
        simulated = observer.simulated(stream, model, state, data)
        rows = simulated.cells[simulated.record_cell]
        cells = rows[(rows >= 0).all(axis=1)]
        p = model.cell_probabilities(stream, state, data, cells)
        for m, k in enumerate(OVERDISPERSION):
            law = stats.nbinom(1.0 / k, 1.0 / (1.0 + k * len(cells) * p))
            expected[m] += [np.sum(law.pmf(size) / p) / len(cells) for size in (1, 2, 3)]
    assert totals.n_simulated[0] == 2
    np.testing.assert_allclose(totals.sizes, expected, rtol=1e-9)


def test_a_sample_without_complete_records_tells_nothing_of_the_overdispersion():
    codes = np.tile([[0, -1, 0]], (5, 1))
    table = CellTable.from_codes(codes, KEYS, 50)
    model = Toy()
    data, observer = model.prepare(table), CheckedMeasures.of(table)
    totals = observer.start()
    observer.observe(Stream(1, 0, 1), model, model.init(Stream(1, 0, 0), data), data, totals)
    assert totals.n_simulated[0] == 0
    found = overdispersion_likelihood(counts_of_counts(table), totals)
    assert found.tolist() == [0.0] * len(OVERDISPERSION)


def test_the_likelihood_of_counts_of_counts():
    """Products of three Poisson probabilities of the mean expectation; larger cells left out."""
    observer = CheckedMeasures.of(some_table())
    rng = np.random.default_rng(1)
    sizes = 4.0 * rng.uniform(1.0, 40.0, (len(OVERDISPERSION), 3))
    totals = observer.start()._replace(n_simulated=np.array([4]), sizes=sizes)
    observed = np.array([30, 12, 7, 1000, 1000])
    found = overdispersion_likelihood(observed, totals)
    expected = stats.poisson(sizes / 4.0).logpmf(observed[:3]).sum(axis=1)
    assert found.max() == 0.0
    np.testing.assert_allclose(found, expected - expected.max(), rtol=1e-9, atol=1e-9)


def test_p_values():
    draws = np.array([[1.0, 2.0], [3.0, 4.0]])
    assert predictive_p_value(0, draws) == 0.0
    assert predictive_p_value(5, draws) == 0.0
    assert predictive_p_value(2.5, draws) == 1.0
    assert predictive_p_value(2, draws) == 2 * (0.25 + 0.125)
    assert predictive_p_value(7, np.full(10, 7.0)) == 1.0
    assert np.isnan(predictive_p_value(1, np.empty(0)))


def test_checks_leave_out_draws_without_a_sample():
    simulated = {name: np.array([[1.0, np.nan, 3.0], [np.nan, 5.0, 7.0]]) for name in NAMES}
    checks = predictive_checks(np.array([4, 0, 9, 3, 1]), simulated, level=0.5)
    assert [check.size for check in checks] == [1, 2, 3, 4, 5]
    assert [check.observed for check in checks] == [4, 0, 9, 3, 1]
    assert {(check.mean, check.lower, check.upper) for check in checks} == {(4.0, 1.0, 5.0)}
    assert [check.p_value for check in checks] == [1.0, 0.0, 0.0, 0.75, 0.25]
    empty = {name: np.full((2, 3), np.nan) for name in NAMES}
    check = predictive_checks(np.array([4, 0, 9, 3, 1]), empty, level=0.95)[0]
    assert np.isnan([check.mean, check.lower, check.upper, check.p_value]).all()
