"""Individual and household risk: sdcMicro's values, the definition as a sum, simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest

from classics.test_frequencies import coded, columns, of_case, oracle, weighted
from unikat.classics.frequencies import Frequencies, frequencies
from unikat.classics.individual import household_risk, individual_risk
from unikat.data import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError


def by_sum(f: float, p: float) -> float:
    """sum over x of P(F - f = x) / (f + x), for p that is not small."""
    total, log_mass = 0.0, f * math.log(p)
    for x in range(3_000):
        total += math.exp(log_mass) / (f + x)
        log_mass += math.log((1.0 - p) * (f + x) / (x + 1.0))
    return total


def test_sdcmicro_risk_with_missing_keys() -> None:
    """Both methods, where sdcMicro gives a number (it has none for three large frequencies)."""
    seen = 0
    for case in oracle("sdcmicro_freqcalc_indivrisk.json"):
        if "indivRisk_exact" not in case:
            continue
        table = of_case(case)
        found = frequencies(table, case["alpha"])
        for method in ("exact", "approx"):
            got = individual_risk(table, method, found)[table.record_cell]
            assert np.isfinite(got).all()
            expected = np.array(case[f"indivRisk_{method}"], float)
            there = ~np.isnan(expected)
            np.testing.assert_allclose(got[there], expected[there], rtol=1e-9)
            seen += int(there.sum())
            if case["alpha"] == 1:
                np.testing.assert_array_equal(
                    got, individual_risk(table, method)[table.record_cell]
                )
    assert seen == 2 * (8 + 8 + 504 + 504) - 3


def test_sdcmicro_households_and_file() -> None:
    cases = oracle("sdcmicro_measure_risk.json")
    assert len(cases) == 4
    for case in cases:
        table = of_case(case)
        found = frequencies(table)
        np.testing.assert_array_equal(found.sample[table.record_cell], case["fk"])
        risk = individual_risk(table, "approx", found)[table.record_cell]
        np.testing.assert_allclose(risk, case["risk"], rtol=1e-9)
        households = coded(columns(case["input"])[case["hid"]])
        of_household = household_risk(risk, households)
        np.testing.assert_allclose(of_household, case["hier_risk"], rtol=1e-9)
        assert risk.sum() == pytest.approx(case["global_risk_ER"], rel=1e-9)
        assert of_household.sum() == pytest.approx(case["hier_risk_ER"], rel=1e-9)


def test_a_thousand_patterns_by_the_definition() -> None:
    rng = np.random.default_rng(9)
    codes = (rng.random((2_000, 4)) ** 1.5 * (9, 9, 9, 5)).astype(int)
    weights = rng.uniform(1.0, 6.0, len(codes))
    table = weighted(codes, weights)
    assert table.n_cells > 1_000
    got = individual_risk(table)
    for cell in range(0, table.n_cells, 10):
        f, F = table.counts[cell], weights[table.record_cell == cell].sum()
        assert got[cell] == pytest.approx(by_sum(f, f / F), rel=1e-11)


def test_frequencies_that_are_not_whole() -> None:
    """alpha makes fractions of a record."""
    codes = np.array([[0, 0], [0, -1], [1, 0], [0, 0], [-1, 0]])
    table = weighted(codes, np.full(5, 4.0))
    found = frequencies(table, 0.3)
    assert (found.sample % 1.0 > 0.0).any()
    expected = [by_sum(f, f / F) for f, F in zip(found.sample, found.population, strict=True)]
    np.testing.assert_allclose(individual_risk(table, "exact", found), expected, rtol=1e-11)


def test_weights_below_one_and_a_census() -> None:
    """p is at most 1: the risk is 1/f, and not NaN."""
    keys = [Key.of_size("A", 2)]
    census = CellTable.from_codes([[0], [0], [0], [1]], keys, population_size=4)
    for method in ("exact", "approx"):
        np.testing.assert_allclose(individual_risk(census, method), [1 / 3, 1.0])
        few = Frequencies(np.array([1.0, 5.0]), np.array([0.4, 4.9]), np.array([1, 5]))
        np.testing.assert_allclose(individual_risk(census, method, few), [1.0, 0.2])


def test_household_is_that_of_any_member() -> None:
    """Against a product household by household; also of risks of 1, and of records alone."""
    rng = np.random.default_rng(10)
    household = rng.integers(0, 200, 1_000) * 7
    risk = rng.random(1_000) ** 6
    risk[:3] = [1.0, 0.0, 1e-300]
    got = household_risk(risk, household)
    for code in np.unique(household):
        members = household == code
        expected = 1.0 - math.prod((1.0 - risk[members]).tolist())
        np.testing.assert_allclose(got[members], expected, rtol=1e-12, atol=1e-15)
    np.testing.assert_array_equal(household_risk(risk, np.full(1_000, -1)), risk)
    assert household_risk(np.array([1e-20, 1e-20]), [0, 0]).tolist() == [2e-20, 2e-20]
    assert household_risk(np.empty(0), np.empty(0, int)).tolist() == []


def test_what_cannot_be_is_refused() -> None:
    table = weighted(np.zeros((2, 1), int), np.ones(2))
    with pytest.raises(SpecError, match="'approx'"):
        individual_risk(table, "aprox")  # type: ignore[arg-type]
    for bad in ([0], [0, -2], [0.0, 1.0]):
        with pytest.raises(DataError, match="one per record"):
            household_risk(np.ones(2), bad)
