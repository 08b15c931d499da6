"""l-diversity and t-closeness: the definitions record by record, sdcMicro's values, transport."""

from __future__ import annotations

import itertools
import math
from collections import Counter

import numpy as np
import pytest
from scipy import optimize

from classics.test_frequencies import coded, columns, oracle
from unikat.classics.diversity import l_diversity, t_closeness
from unikat.data import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError


def tabulated(codes: np.ndarray) -> CellTable:
    keys = [Key.of_size(f"K{j}", max(int(column.max()) + 1, 1)) for j, column in enumerate(codes.T)]
    return CellTable.from_codes(codes, keys, population_size=10 * len(codes))


def class_of(codes: np.ndarray, i: int, wildcards: bool) -> np.ndarray:
    """Records of the class of record i."""
    mine = codes[i]
    if not wildcards:
        return np.flatnonzero((codes == mine).all(axis=1))
    return np.flatnonzero(((codes == mine) | (codes < 0) | (mine < 0)).all(axis=1))


def naive_diversity(values: list[int], c: float) -> tuple[int, float, int]:
    falling = sorted(Counter(v for v in values if v >= 0).values(), reverse=True)
    if not falling:
        return 0, 0.0, 0
    n = sum(falling)
    entropy = math.exp(-sum(m / n * math.log(m / n) for m in falling))
    holds = [l for l in range(1, len(falling) + 1) if falling[0] < c * sum(falling[l - 1 :])]
    return len(falling), entropy, max(holds, default=0)


def transport(q: list[float], p: list[float], ordered: bool) -> float:
    """Least work to move q to p, by linear programming over all flows."""
    m = len(p)
    cost = [
        (abs(i - j) / max(m - 1, 1) if ordered else float(i != j))
        for i, j in itertools.product(range(m), repeat=2)
    ]
    leave = np.kron(np.eye(m), np.ones(m))
    arrive = np.kron(np.ones(m), np.eye(m))
    found = optimize.linprog(cost, A_eq=np.vstack((leave, arrive)), b_eq=[*q, *p])
    return float(found.fun)


def test_sdcmicro_diversity() -> None:
    """The three measures of each variable; sdcMicro's measures of several are others."""
    cases = oracle("sdcmicro_ldiversity.json")
    assert len(cases) == 3
    for case in cases:
        data = columns(case["input"])
        table = tabulated(np.stack([coded(data[key]) for key in case["keys"]], axis=1))
        names = case["sensitive"]
        for name in [names] if isinstance(names, str) else names:
            found = l_diversity(table, coded(data[name]), recursion=case["l_recurs_c"])
            for kind, values in zip(("Distinct", "Entropy", "Recursive"), found, strict=True):
                column = case["columns"].index(f"{name}_{kind}_Ldiversity")
                expected = [row[column] for row in case["values"]]
                np.testing.assert_allclose(values[table.record_cell], expected, rtol=1e-9)


SIZES = [(60, (2, 3), 4), (40, (2, 2, 2, 2), 7), (1, (3,), 2), (30, (2,), 1)]


@pytest.mark.parametrize("wildcards", [True, False])
@pytest.mark.parametrize("share_missing", [0.0, 0.2])
def test_measures_are_those_of_the_definitions(wildcards: bool, share_missing: float) -> None:
    rng = np.random.default_rng(3)
    for (n, sizes, m), c in itertools.product(SIZES, (0.7, 1.0, 2.5)):
        codes = (rng.random((n, len(sizes))) * sizes).astype(int)
        codes[rng.random(codes.shape) < share_missing] = -1
        # Values with gaps between their codes, some missing.
        sensitive = (rng.random(n) ** 2 * m).astype(int) * 3
        sensitive[rng.random(n) < share_missing] = -1
        table = tabulated(codes)
        found = l_diversity(table, sensitive, c, wildcards=wildcards)
        got = np.stack(found, axis=1)[table.record_cell]
        expected = [
            naive_diversity(sensitive[class_of(codes, i, wildcards)].tolist(), c) for i in range(n)
        ]
        np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("wildcards", [True, False])
@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("share_missing", [0.0, 0.2])
def test_closeness_is_the_least_work(wildcards: bool, ordered: bool, share_missing: float) -> None:
    rng = np.random.default_rng(4)
    for n, sizes, m in SIZES:
        codes = (rng.random((n, len(sizes))) * sizes).astype(int)
        codes[rng.random(codes.shape) < share_missing] = -1
        sensitive = (rng.random(n) ** 2 * m).astype(int) * 3
        sensitive[rng.random(n) < share_missing] = -1
        table = tabulated(codes)
        found = t_closeness(table, sensitive, ordered=ordered, wildcards=wildcards)
        values = sorted({v for v in sensitive.tolist() if v >= 0})
        known = sensitive[sensitive >= 0]
        p = [float((known == v).mean()) for v in values]
        first = np.unique(table.record_cell, return_index=True)[1]
        for cell, i in enumerate(first.tolist()):
            mine = sensitive[class_of(codes, i, wildcards)]
            mine = mine[mine >= 0]
            if not len(mine):
                assert np.isnan(found.distance[cell])
                continue
            expected = transport([float((mine == v).mean()) for v in values], p, ordered)
            assert found.distance[cell] == pytest.approx(expected, abs=1e-9)
        if len(known):
            assert found.largest == np.nanmax(found.distance)
        else:
            assert np.isnan(found.largest)


def test_li_and_others_salaries() -> None:
    """The example of Li, Li and Venkatasubramanian (2007), section 5: salaries of 3k to 11k."""
    salary = [3, 5, 9, 6, 11, 8, 4, 7, 10]
    codes = np.repeat([[0], [1], [2]], 3, axis=0)
    # {3k, 4k, 5k} and {6k, 8k, 11k} against {3k, ..., 11k}.
    order = [0, 6, 1, 3, 5, 4, 2, 7, 8]
    found = t_closeness(tabulated(codes), np.array(salary)[order], ordered=True)
    assert found.distance[:2] == pytest.approx([0.375, 1 / 6])


def test_a_thousand_patterns_and_many_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of patterns join up: 1,000 patterns, 200 values, some rows of a block at a time."""
    rng = np.random.default_rng(6)
    codes = (rng.random((3_000, 5)) * (5, 5, 5, 4, 4)).astype(int)
    codes[rng.random(codes.shape) < 0.02] = -1
    sensitive = (rng.random(3_000) ** 3 * 200).astype(int)
    table = tabulated(codes)
    assert table.n_cells > 1_000
    whole = l_diversity(table, sensitive), t_closeness(table, sensitive)
    monkeypatch.setattr("unikat.classics.diversity._BLOCK", 7_001)
    monkeypatch.setattr("unikat.classics.diversity._WAITING", 5_000)
    parts = l_diversity(table, sensitive), t_closeness(table, sensitive)
    for one, other in zip(whole[0], parts[0], strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(whole[1].distance, parts[1].distance)
    for i in range(0, 3_000, 300):
        expected = naive_diversity(sensitive[class_of(codes, i, True)].tolist(), 2.0)
        got = [values[table.record_cell[i]] for values in whole[0]]
        np.testing.assert_allclose(got, expected, rtol=1e-12)


def test_nothing_known() -> None:
    table = tabulated(np.zeros((3, 1), int))
    found = l_diversity(table, [-1, -1, -1])
    assert [values.tolist() for values in found] == [[0], [0.0], [0]]
    assert np.isnan(t_closeness(table, [-1, -1, -1]).largest)


def test_what_is_not_such_a_variable_is_refused() -> None:
    table = tabulated(np.zeros((3, 1), int))
    for bad in ([0, 1], [0, 1, -2], [0.0, 1.0, 2.0]):
        with pytest.raises(DataError, match="one per record"):
            l_diversity(table, bad)
    for c in (0.0, -1.0, float("nan")):
        with pytest.raises(SpecError, match="recursion"):
            l_diversity(table, [0, 1, 1], recursion=c)
