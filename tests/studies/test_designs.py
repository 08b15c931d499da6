from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.sampling import LEAST_RECORDS
from unikat.data.table import CellTable
from unikat.errors import DataError
from unikat.studies.designs import (
    Population,
    allocate,
    allocate_power,
    chain_seed,
    draw_sample,
    draw_units,
    inclusion,
    observed_levels,
)


def people(n_units: int, seed: int = 0, levels: tuple[int, ...] = (4, 3, 5)) -> Population:
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(0, k, n_units) for k in levels])
    keys = [Key.of_size(f"K{j}", k) for j, k in enumerate(levels)]
    table = CellTable.from_codes(codes, keys, population_size=n_units + 5)
    measure = np.exp(rng.normal(size=n_units))
    return Population.of(table, rng.integers(0, 3, n_units), measure)


def drawn(population: Population, design: str, n: int, repeat: int, seed: int = 1) -> np.ndarray:
    """Units of a design, or of an allocation to strata."""
    if design in ("equal", "power"):
        return draw_units(
            population, n, repeat, seed=seed, design="stratified", allocation=design, power=0.5
        )
    return draw_units(population, n, repeat, seed=seed, design=design)


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


@pytest.mark.parametrize("design", ["simple", "bernoulli", "stratified", "equal", "power", "pps"])
def test_a_sample_depends_on_seed_size_and_repeat_alone(design):
    population = people(500)

    def units(n, repeat, seed):
        return tuple(drawn(population, design, n, repeat, seed))

    assert units(50, 1, 7) == units(50, 1, 7)
    others = {units(50, 1, 7), units(50, 2, 7), units(50, 1, 8), units(51, 1, 7)}
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
    same = Population.of(table, population.strata, population.measure)
    assert same.fingerprint == population.fingerprint
    rows = np.arange(50)[::-1]
    turned = CellTable.from_codes(codes_of(table)[rows], table.keys, population_size=50)
    assert turned.fingerprint == table.fingerprint
    assert Population.of(turned).fingerprint != Population.of(table).fingerprint
    bare = Population.of(table)
    others = [
        Population.of(table, population.strata),
        Population.of(table, None, population.measure),
    ]
    prints = [one.fingerprint for one in (bare, population, *others)]
    assert len(set(prints)) == 4


def test_missing_keys_are_refused_by_number_and_never_by_value():
    keys = [Key.of_size("AGE", 3), Key.of_size("WORK", 2)]
    table = CellTable.from_codes([[0, 1], [2, -1], [-1, -1]], keys, population_size=3)
    with pytest.raises(DataError, match=r"2 units .*AGE 1, WORK 2.*--missing level"):
        Population.of(table)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=9), st.floats(0.0, 1.0), st.data())
@settings(deadline=None)
def test_allocation_by_power_is_in_proportion_within_the_limits(sizes, power, data):
    """Shares that meet no limit are those of a common factor, but for rounding."""
    array = np.array(sizes)
    n = data.draw(st.integers(len(sizes), sum(sizes)))
    shares = allocate_power(n, array, power)
    assert shares.sum() == n
    assert np.all((shares >= 1) & (shares <= array))
    # A factor t with |clip(t N^q, 1, N) - share| < 1 everywhere, found stratum by stratum.
    relative = array**power
    low = np.where(shares == 1, 0.0, (shares - 1.0) / relative)
    high = np.where(shares == array, np.inf, (shares + 1.0) / relative)
    assert low.max() <= high.min() + 1e-9


@pytest.mark.parametrize(
    ("n", "sizes", "power", "shares"),
    [
        # By hand: 12/3 each.
        (12, [50, 30, 20], 0.0, [4, 4, 4]),
        # 14/3 = 4.67 each: of equal remainders the first.
        (14, [50, 30, 20], 0.0, [5, 5, 4]),
        # 30/3 = 10 is above 4; the others share 26.
        (30, [50, 4, 20], 0.0, [13, 4, 13]),
        # 13.5 each at first; 4 whole, then 18.67 is above 7, then (60-11)/2 = 24.5.
        (60, [50, 4, 7, 30], 0.0, [25, 4, 7, 24]),
        (111, [50, 4, 7, 50], 0.0, [50, 4, 7, 50]),
        # Roots 20, 5, 1: 26 is the unit.
        (52, [400, 25, 1], 0.5, [41, 10, 1]),
        # Roots 100, 1: 0.1 of a unit is one unit.
        (10, [10000, 1], 0.5, [9, 1]),
        # q = 1 is in proportion, with at least one of each.
        (10, [50, 30, 20], 1.0, [5, 3, 2]),
        (10, [970, 20, 10], 1.0, [8, 1, 1]),
        (3, [970, 20, 10], 0.3, [1, 1, 1]),
        (7, [7], 0.5, [7]),
    ],
)
def test_allocation_by_hand(n, sizes, power, shares):
    assert allocate_power(n, np.array(sizes), power).tolist() == shares


def test_many_strata_are_allocated_exactly():
    """Equal shares of 200,000 strata of 1 to 40 units: whole, or all alike but for one unit."""
    sizes = np.random.default_rng(2).integers(1, 41, 200_000)
    shares = allocate_power(1_500_000, sizes, 0.0)
    assert shares.sum() == 1_500_000
    partly = shares[shares < sizes]
    assert partly.max() - partly.min() <= 1
    assert sizes[shares == sizes].max() <= partly.max() + 1


@given(st.integers(1, 60), st.integers(0, 10**6), st.data())
@settings(deadline=None)
def test_inclusion_probabilities_are_in_proportion_below_one(n_units, seed, data):
    rng = np.random.default_rng(seed)
    measure = np.exp(3.0 * rng.normal(size=n_units)) * data.draw(
        st.sampled_from([1e-200, 1.0, 1e300])
    )
    n = data.draw(st.integers(1, n_units))
    chances = inclusion(n, measure)
    assert chances.sum() == pytest.approx(n, rel=1e-12)
    assert np.all((chances > 0.0) & (chances <= 1.0))
    free = chances < 1.0
    ratio = chances / (measure / measure.max())
    if free.any():
        np.testing.assert_allclose(ratio[free], ratio[free][0], rtol=1e-9)
        # Those that are certain would be so by the factor of the others.
        assert np.all(ratio[~free] <= ratio[free][0] * (1.0 + 1e-8))


def test_inclusion_probabilities_by_hand():
    # 3 * 10 / 15 = 2 is above 1; 2 * 4 / 5 = 1.6 too; 1 is left for the two of 0.5.
    assert inclusion(3, np.array([10.0, 4.0, 0.5, 0.5])).tolist() == [1.0, 1.0, 0.5, 0.5]
    assert inclusion(4, np.array([10.0, 4.0, 0.5, 0.5])).tolist() == [1.0] * 4
    assert inclusion(1, np.array([3.0, 3.0])).tolist() == [0.5, 0.5]


@pytest.mark.statistical
@pytest.mark.parametrize("design", ["equal", "power", "pps"])
def test_units_are_included_as_often_as_their_probability_says(design):
    """Largest of 60 z scores of 3,000 samples; normal, Bonferroni: false alarms one in 10,000."""
    population, n, repeats = people(60, seed=3), 15, 3000
    included = np.zeros(60)
    for repeat in range(repeats):
        units = drawn(population, design, n, repeat, 11)
        assert len(units) == len(set(units.tolist())) == n
        included[units] += 1
    if design == "pps":
        p = np.minimum(n * population.measure / population.measure.sum(), 1.0)
        while p.sum() < n - 1e-9:
            free = p < 1.0
            p[free] = np.minimum(p[free] * (n - (~free).sum()) / p[free].sum(), 1.0)
        assert 0 < np.count_nonzero(p == 1.0) < 15
    else:
        sizes = np.bincount(population.strata)
        p = (allocate_power(n, sizes, 0.0 if design == "equal" else 0.5) / sizes)[population.strata]
    np.testing.assert_array_equal(included[p == 1.0], repeats)
    p, included = p[p < 1.0], included[p < 1.0]
    z = (included - repeats * p) / np.sqrt(repeats * p * (1.0 - p))
    assert np.abs(z).max() < stats.norm.isf(1e-4 / 2 / 60)


@pytest.mark.statistical
def test_one_of_two_units_is_drawn_as_often_as_its_size_says():
    """3 in 10 of 3,000 samples, within 5 standard errors (false alarm 1e-6)."""
    table = CellTable.from_codes([[0], [1]], [Key.of_size("A", 2)], population_size=2)
    population = Population.of(table, None, np.array([3.0, 7.0]))
    first = np.mean([drawn(population, "pps", 1, r)[0] == 0 for r in range(3000)])
    assert abs(first - 0.3) < 5.0 * np.sqrt(0.21 / 3000)


@pytest.mark.statistical
def test_pairs_of_units_meet_in_a_random_order():
    """Without the random order the units 0 and 1 of equal sizes would never be drawn together.

    Of N equal sizes two units meet about as in simple sampling, n (n-1) / (N (N-1)); in 4,000
    samples within 5 standard errors (false alarm 1e-6).
    """
    keys = [Key.of_size("A", 2), Key.of_size("B", 2)]
    table = CellTable.from_codes([[0, 0]] * 6, keys, population_size=6)
    population = Population.of(table, None, np.ones(6))
    met = sum({0, 1} <= set(drawn(population, "pps", 3, r).tolist()) for r in range(4000)) / 4000
    assert abs(met - 0.2) < 5.0 * np.sqrt(0.16 / 4000)


@pytest.mark.parametrize("design", ["equal", "power"])
def test_records_of_a_stratum_stand_for_its_units(design):
    population = people(300)
    everybody = np.bincount(population.strata)
    sample = draw_sample(
        population, 60, 1, seed=4, design="stratified", allocation=design, power=0.5
    )
    units = drawn(population, design, 60, 1, 4)
    sampling = sample.table.sampling
    assert not sampling.from_weights
    np.testing.assert_array_equal(sampling.strata, population.strata[units])
    np.testing.assert_array_equal(sampling.sizes, everybody)
    counts = np.bincount(population.strata[units])
    np.testing.assert_allclose(sampling.weights, (everybody / counts)[population.strata[units]])
    assert sampling.weights.sum() == pytest.approx(300)
    np.testing.assert_array_equal(sampling.n_sampled, counts)
    # The truth is that of the units, whatever their weights.
    bare = population.sample(units)
    assert (sample.tau1, sample.tau2) == (bare.tau1, bare.tau2)


def test_weights_of_a_sample_in_proportion_to_size():
    population = people(5000)
    sample = draw_sample(population, 800, 1, seed=4, design="pps")
    units = drawn(population, "pps", 800, 1, 4)
    sampling = sample.table.sampling
    assert sampling.from_weights
    assert sampling.n_strata == 800 // LEAST_RECORDS
    assert sampling.weights.sum() == pytest.approx(5000)
    expected = 1.0 / inclusion(800, population.measure)[units]
    np.testing.assert_allclose(sampling.weights, expected * 5000 / expected.sum())
    # The unscaled sum estimates N.
    assert abs(expected.sum() / 5000 - 1.0) < 0.2
    alike = Population.of(population.table, None, np.full(5000, 7.0))
    assert draw_sample(alike, 800, 1, seed=4, design="pps").table.sampling.n_strata == 1


@pytest.mark.parametrize("design", ["simple", "bernoulli", "stratified"])
def test_equal_chances_need_no_weights(design):
    population = people(60)
    sample = draw_sample(population, 20, 1, seed=4, design=design)
    assert sample.table.sampling is None
    bare = population.sample(draw_units(population, 20, 1, seed=4, design=design))
    assert sample.table.fingerprint == bare.table.fingerprint


@pytest.mark.parametrize("design", ["equal", "power", "pps"])
def test_the_whole_population_stands_for_itself(design):
    population = people(60)
    np.testing.assert_array_equal(drawn(population, design, 60, 1), np.arange(60))
    how = {"design": "pps"} if design == "pps" else {"design": "stratified", "allocation": design}
    sampling = draw_sample(population, 60, 1, seed=1, **how).table.sampling
    np.testing.assert_allclose(sampling.weights, 1.0)


def test_a_population_forgets_how_its_table_was_sampled():
    population = people(60)
    table = draw_sample(population, 40, 1, seed=1, design="pps").table
    again = Population.of(table)
    assert again.table.sampling is None
    assert again.sample(np.arange(5)).table.sampling is None


def test_numbers_of_strata_need_not_follow_each_other():
    population = people(60)
    spread = Population.of(population.table, population.strata * 7 + 2)
    np.testing.assert_array_equal(spread.strata, population.strata)
    assert spread.fingerprint == Population.of(population.table, population.strata).fingerprint


def test_households_of_a_sample_keep_their_members_and_a_slot():
    """A sample of heads who live alone, each a household key: one slot, which is empty."""
    layout = HouseholdLayout(
        household_keys=(Key.of_size("size", 3), Key.of_size("head.AGE", 4)),
        person_keys=(Key.of_size("AGE", 4),),
        n_slots=2,
        head_apart=True,
    )
    rows = layout.pack(np.array([[0, 1], [0, 3], [0, 3], [2, 0]]), np.array([[2], [0]]))
    population = Population.of(CellTable.from_codes(rows, layout.columns, 4, layout=layout))
    sample = population.sample(np.array([0, 1]))
    found = observed_levels(sample.table)
    assert found.layout is not None
    assert found.layout.n_slots == 1
    assert [key.n_levels for key in found.layout.household_keys] == [2, 2]
    households, members = found.layout.parts(found.cells)
    assert households.tolist() == [[0, 0], [0, 1]]
    assert (members == found.layout.absent).all()
    assert sample.tau1 == 1.0
    assert sample.tau2 == 1.5
    # Each unit is a household: drawn by households, none has companions.
    assert draw_sample(population, 2, 1, seed=1, design="households").table.households is None


def test_the_number_of_households_is_rounded_to_the_nearest():
    codes = np.zeros((10, 1), np.int32)
    table = replace(
        CellTable.from_codes(codes, [Key.of_size("A", 2)], 10),
        households=np.repeat(np.arange(5, dtype=np.int32), 2),
    )
    population = Population.of(table)
    # 1.5, 2.5 and 3.5 households have so many units: to the even one, and 0.5 to one at least.
    drawn_units = [
        len(draw_units(population, n, 1, seed=1, design="households")) for n in (1, 3, 5, 7, 10)
    ]
    assert drawn_units == [2, 4, 4, 8, 10]


def test_levels_that_are_not_to_be_named_stay_so_in_a_sample():
    key = replace(Key.of_size("A", 4), private=frozenset([1, 3]))
    table = CellTable.from_codes(np.array([[0], [2], [3]]), [key], 9)
    (own,) = observed_levels(table).keys
    assert [own.labels[i] for i in own.private] == [key.labels[3]]


@given(st.integers(0, 10**6), st.floats(0.01, 0.6), st.sampled_from(["simple", "equal"]))
@settings(deadline=None, max_examples=30)
def test_values_set_missing_leave_the_truth_and_the_other_values(seed, share, design):
    population = people(300, seed)
    how = {"design": "simple"}
    if design == "equal":
        how = {"design": "stratified", "allocation": "equal"}
    samples = [
        draw_sample(population, 60, 1, seed=seed, blank=blank, **how)
        for blank in (0.0, share / 2, share)
    ]
    whole, _, more = samples
    gaps = [codes_of(one.table) < 0 for one in samples]
    assert not gaps[0].any()
    assert not (gaps[1] & ~gaps[2]).any()
    for one, gap in zip(samples, gaps, strict=True):
        assert (one.tau1, one.tau2) == (whole.tau1, whole.tau2)
        np.testing.assert_array_equal(one.units, whole.units)
        np.testing.assert_array_equal(codes_of(one.table)[~gap], codes_of(whole.table)[~gap])
        known = ~one.table.incomplete[one.table.record_cell]
        np.testing.assert_array_equal(
            one.population_counts[one.table.record_cell][known],
            whole.population_counts[whole.table.record_cell][known],
        )
    again = draw_sample(population, 60, 1, seed=seed, blank=share, **how)
    assert again.table.fingerprint == more.table.fingerprint
    if design == "equal":
        np.testing.assert_array_equal(more.table.weights, whole.table.weights)


def test_as_many_values_are_set_missing_as_asked_for():
    sample = draw_sample(people(4_000), 2_000, 1, seed=3, blank=0.07)
    # 6,000 values: the share is within four standard deviations.
    assert abs((codes_of(sample.table) < 0).mean() - 0.07) < 4 * (0.07 * 0.93 / 6_000) ** 0.5
