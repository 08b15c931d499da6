"""Rules of households in a new fit of recoded ones, against all households."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from protection.test_household_what_if import PRIORS, RULES, WHERE, census, fitted
from unikat.models.base import Stream
from unikat.models.households.nested import NestedHouseholds
from unikat.models.households.records import columns_of, possible
from unikat.protection.recoding import parse_recoding
from unikat.protection.refit_rules import under_rules

CASES = [
    (name, rules) for name in ("rules", "roles, rules") for rules in (*RULES[name], {"H1": None})
]


@pytest.mark.parametrize(("name", "rules"), CASES)
def test_a_recoded_household_is_impossible_only_if_all_that_it_stands_for_are(
    name: str, rules: dict[str, Any]
) -> None:
    prior = PRIORS[name]
    table = fitted(prior)[0].table
    recoding = parse_recoding(table, rules)
    ruled, found = under_rules(recoding.table(table), recoding, table)
    assert table.layout is not None
    assert table.layout.rules is not None
    assert found is not None
    assert 0 <= found.n_in_refit <= found.n_rules > 0
    layout = ruled.layout
    if layout is None or layout.rules is None:
        assert found.n_in_refit == 0
        return
    assert found.n_in_refit > 0
    cells, coarse = census(prior, recoding)
    fine = possible(columns_of(table.layout, table), table.layout.rules, cells)
    whole = coarse.cells[coarse.record_cell]
    good = possible(columns_of(layout, ruled), layout.rules, whole)
    # What is possible stays so; and something is still forbidden.
    assert good[fine].all()
    assert not good.all()
    # The fit takes it: all records obey, and what it draws does.
    model = NestedHouseholds(calibrate=False)
    data = model.prepare(ruled)
    state = model.init(Stream(3, 1, 0), data)
    for sweep in range(1, 4):
        state, _ = model.step(Stream(3, 1, sweep), state, data, 1)
    p = model.cell_probabilities(WHERE, state, data, coarse.cells)
    allowed = possible(columns_of(layout, ruled), layout.rules, coarse.cells)
    assert (p[~allowed] == 0.0).all()
    assert (p[allowed] > 0.0).all()
    # 1 - p0 is estimated by simulated households.
    assert float(p.sum()) == pytest.approx(1.0, abs=0.1)


def test_without_a_recoding_the_rules_are_the_same() -> None:
    prior = PRIORS["rules"]
    table = fitted(prior)[0].table
    recoding = parse_recoding(table, {})
    ruled, found = under_rules(recoding.table(table), recoding, table)
    assert found is not None
    assert found.n_in_refit == found.n_rules
    cells = census(prior, recoding)[0]
    assert table.layout is not None
    assert ruled.layout is not None
    columns = columns_of(table.layout, table)
    assert table.layout.rules is not None
    assert ruled.layout.rules is not None
    before = possible(columns, table.layout.rules, cells)
    after = possible(columns, ruled.layout.rules, cells)
    np.testing.assert_array_equal(before, after)
    assert not before.all()
