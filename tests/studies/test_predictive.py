from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from risk.toy_model import Toy
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Stream
from unikat.risk.measures import RiskMeasures
from unikat.studies.predictive import (
    NAMES,
    CheckedMeasures,
    counts_of_counts,
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
    for a, b in zip(totals[0], checked.risk_totals(totals[1]), strict=True):
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
