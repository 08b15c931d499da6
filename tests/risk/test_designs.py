from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError
from unikat.risk.designs import Population, allocate, chain_seed, check_design, draw_units


def people(n_units: int, seed: int = 0, levels: tuple[int, ...] = (4, 3, 5)) -> Population:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, k, n_units) for k in levels])
    keys = [Key.of_size(f"K{j}", k) for j, k in enumerate(levels)]
    table = CellTable.from_codes(codes, keys, population_size=n_units + 5)
    return Population.of(table, rng.integers(0, 3, n_units))


def codes_of(table: CellTable) -> np.ndarray:
    return table.cells[table.record_cell]


@given(st.integers(1, 80), st.integers(0, 10**6), st.data())
@settings(deadline=None, max_examples=60)
def test_the_truth_is_that_of_counting(n_units, seed, data):
    population = people(n_units, seed)
    n = data.draw(st.integers(1, n_units))
    units = draw_units(population, n, 1, seed=seed)
    sample = population.sample(units)
    columns = list("abc")
    everybody = pd.DataFrame(codes_of(population.table), columns=columns)
    everybody["F"] = everybody.groupby(columns)["a"].transform("size")
    drawn = everybody.iloc[units]
    f = drawn.groupby(columns)["a"].transform("size")
    alone = drawn[f == 1]
    assert sample.tau1 == (alone["F"] == 1).sum()
    assert sample.tau2 == pytest.approx((1.0 / alone["F"]).sum())
    # The table is the one that tabulating the sample's rows gives.
    table = CellTable.from_codes(
        drawn[columns].to_numpy(), population.table.keys, population_size=n_units
    )
    for name in ("cells", "counts", "record_cell"):
        np.testing.assert_array_equal(getattr(sample.table, name), getattr(table, name))
    assert sample.table.fingerprint == table.fingerprint
    assert sample.table.record_cell.dtype == np.int32
    np.testing.assert_array_equal(sample.population_counts[table.record_cell], drawn["F"])


@pytest.mark.parametrize("design", ["simple", "bernoulli", "stratified"])
def test_a_sample_depends_on_seed_size_and_repeat_alone(design):
    population = people(500)

    def drawn(n, repeat, seed):
        return tuple(draw_units(population, n, repeat, seed=seed, design=design))

    assert drawn(50, 1, 7) == drawn(50, 1, 7)
    others = {drawn(50, 1, 7), drawn(50, 2, 7), drawn(50, 1, 8), drawn(51, 1, 7)}
    assert len(others) == 4
    for units in others:
        assert list(units) == sorted(set(units))
        assert 0 <= units[0] <= units[-1] < 500


def test_sizes_of_samples():
    population = people(997)
    for n in (1, 10, 997):
        assert len(draw_units(population, n, 1, seed=1)) == n
        units = draw_units(population, n, 1, seed=1, design="stratified")
        assert len(units) == n
        sizes = np.bincount(population.strata)
        drawn = np.bincount(population.strata[units], minlength=len(sizes))
        np.testing.assert_array_equal(drawn, allocate(n, sizes))
    sizes = [len(draw_units(population, 100, r, seed=1, design="bernoulli")) for r in range(1, 40)]
    assert len(set(sizes)) > 10
    assert len(draw_units(population, 997, 1, seed=1, design="bernoulli")) == 997


@pytest.mark.statistical
@pytest.mark.parametrize("design", ["simple", "bernoulli", "stratified"])
def test_every_unit_is_as_likely_as_any_other(design):
    """Chi-square over units of their inclusions; false alarms one in 10,000 (fixed seed)."""
    population, n, repeats = people(60, seed=3), 15, 2000
    included = np.zeros(60)
    for repeat in range(repeats):
        included[draw_units(population, n, repeat, seed=11, design=design)] += 1
    p = np.full(60, n / 60)
    freedom = 60.0
    if design != "bernoulli":
        # Fixed sizes make inclusions of units negatively correlated: with pi = n_h/N_h in each
        # group, sum of (x - R pi)^2 / (R pi (1-pi)) (N_h-1)/N_h has N_h - 1 degrees of freedom.
        group = population.strata if design == "stratified" else np.zeros(60, int)
        sizes = np.bincount(group)
        share = allocate(n, sizes) / sizes
        p = share[group]
        shrink = ((sizes - 1) / sizes)[group]
        freedom = 60.0 - len(sizes)
    else:
        shrink = np.ones(60)
    statistic = ((included - repeats * p) ** 2 / (repeats * p * (1 - p)) * shrink).sum()
    assert 1e-4 / 2 < stats.chi2.sf(statistic, freedom) < 1 - 1e-4 / 2


@given(st.lists(st.integers(1, 1000), min_size=1, max_size=12), st.data())
def test_allocation_is_by_largest_remainder(sizes, data):
    array = np.array(sizes)
    n = data.draw(st.integers(0, sum(sizes)))
    shares = allocate(n, array)
    exact = n * array / array.sum()
    assert shares.sum() == n
    assert np.all(shares <= array)
    assert np.all(np.abs(shares - exact) < 1 + 1e-9)
    up = shares > np.floor(exact + 1e-12)
    remainders = exact - np.floor(exact + 1e-12)
    if up.any() and not up.all():
        assert remainders[up].min() >= remainders[~up].max() - 1e-9


def test_seeds_of_chains_differ_between_samples_and_are_repeatable():
    seeds = {chain_seed(1, n, repeat) for n in (10, 20) for repeat in (1, 2, 3)}
    assert len(seeds) == 6
    assert chain_seed(1, 10, 1) in seeds
    assert all(0 <= seed < 2**63 for seed in seeds)


def test_the_fingerprint_knows_the_order_of_units_and_the_strata():
    population = people(50)
    table = population.table
    same = Population.of(table, population.strata)
    assert same.fingerprint == population.fingerprint
    rows = np.arange(50)[::-1]
    turned = CellTable.from_codes(codes_of(table)[rows], table.keys, population_size=50)
    assert turned.fingerprint == table.fingerprint
    assert Population.of(turned).fingerprint != Population.of(table).fingerprint
    assert Population.of(table).fingerprint != population.fingerprint


def test_missing_keys_are_refused_by_number_and_never_by_value():
    keys = [Key.of_size("AGE", 3), Key.of_size("WORK", 2)]
    table = CellTable.from_codes([[0, 1], [2, -1], [-1, -1]], keys, population_size=3)
    with pytest.raises(DataError, match=r"2 units .*AGE 1, WORK 2.*--missing level"):
        Population.of(table)


@pytest.mark.parametrize("strata", [[0, 1], [0.5] * 4, [0, 1, -1, 2]])
def test_strata_that_do_not_fit_are_refused(strata):
    keys = [Key.of_size("AGE", 3)]
    table = CellTable.from_codes([[0], [1], [2], [2]], keys, population_size=4)
    with pytest.raises(DataError, match="strata"):
        Population.of(table, strata)


def test_an_unknown_design_is_refused():
    with pytest.raises(SpecError, match="Did you mean 'stratified'"):
        check_design("stratifed")
