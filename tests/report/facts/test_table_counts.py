"""The table of two keys before and after."""

from __future__ import annotations

import numpy as np
import pytest

from unikat.data.keys import Key
from unikat.report.facts.risk_map import MOST
from unikat.report.facts.table_counts import TableCounts
from unikat.report.pages.release_figures import table_cells


def keys(n: int, m: int) -> tuple[Key, Key]:
    return Key.of_size("rows", n), Key.of_size("columns", m)


def test_all_records_stand_in_the_table_whatever_is_joined() -> None:
    rng = np.random.default_rng(1)
    before = rng.integers(0, 30, (40, 5)).astype(float)
    after = before.mean(axis=1, keepdims=True) * np.ones(5)
    found = TableCounts.of(keys(40, 5), before, after, show_all=True)
    assert (len(found.labels[0]), len(found.labels[1]), found.joined) == (MOST, 5, True)
    for told, whole in ((found.before, before), (found.after, after)):
        assert sum(n or 0.0 for row in told for n in row) == pytest.approx(whole.sum())
        columns = [sum(row[j] or 0.0 for row in told) for j in range(5)]
        assert columns == pytest.approx(whole.sum(axis=0).tolist())
    assert found.n_hidden == 0
    same = TableCounts.of(keys(40, 5), before, before, show_all=True)
    assert same.before == same.after


def test_a_report_tells_no_cell_of_few_records_before_or_after() -> None:
    before = np.array([[30.0, 4.0, 0.0], [25.0, 40.0, 60.0], [12.0, 20.0, 50.0]])
    after = before + np.array([[0.0, 6.0, 3.0], [0.0, -35.0, 0.0], [0.0, 0.0, 0.0]])
    found = TableCounts.of(keys(3, 3), before, after)
    # The sums of rows and columns are told elsewhere, so that one cell alone is never hidden.
    gone = np.array([[n is None for n in row] for row in found.before])
    assert gone[0, 1]
    assert not ((gone.sum(axis=0) == 1) | (gone.sum(axis=1) == 1)).any()
    shown = [n for row in (*found.before, *found.after) for n in row if n is not None]
    assert all(n == 0 or n >= 10 for n in shown)
    assert all(a is None for a, g in zip(found.after[0], gone[0], strict=True) if g)
    assert found.after[0][2] is None
    assert found.after[1][1] is None
    drawn = table_cells(found)
    assert "not told" in str(drawn.__html__())


def test_half_a_cell_is_before_and_half_after() -> None:
    before, after = np.array([[100.0, 0.0], [40.0, 20.0]]), np.array([[20.0, 0.0], [40.0, 100.0]])
    drawn = table_cells(TableCounts.of(keys(2, 2), before, after, show_all=True))
    values = {(one["series"], one["name"], one["x"]): one["value"] for one in drawn.data}
    assert values["before", "0", "0"] == 100.0
    assert values["as released", "0", "0"] == 20.0
    assert len(values) == 8
