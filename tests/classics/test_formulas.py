from __future__ import annotations

import math
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import gammaln

from unikat.classics.formulas import FORMULAS
from unikat.classics.individual import individual_risk
from unikat.classics.population_uniques import population_uniques
from unikat.classics.scaling_law import Law, expected_correctness, nearest_law
from unikat.data.keys import Key
from unikat.data.sampling import sampling_of
from unikat.data.table import CellTable
from unikat.risk.pairs import match_bound
from unikat.studies.designs import Population

KEYS = [Key.of_size("a", 5), Key.of_size("b", 7), Key.of_size("c", 4)]


def records() -> CellTable:
    codes = [[i % 5, (i * i) % 7, (i // 3) % 4] for i in range(120)]
    return CellTable.from_codes(codes, KEYS, 2_000)


def test_modrisk_is_that_of_sdcmicro() -> None:
    # modRisk(method = "default", formulaM = ~a+b+c) of sdcMicro 5.8.1, weights 2000/120.
    table = records()
    found = FORMULAS["sdcmicro-modrisk"].estimate(table)
    assert found.tau1 == pytest.approx(0.0767429748416 * table.n_cells, rel=1e-8)
    assert found.tau2 == pytest.approx(0.1609146434208 * table.n_cells, rel=1e-8)


def test_individual_risk_is_that_of_sdcmicro() -> None:
    # Sum of risk where fk = 1, of the same object.
    found = FORMULAS["benedetti-franconi"].estimate(records())
    assert found.tau2 == pytest.approx(2.87327051924, rel=1e-9)
    assert found.tau1 is None
    assert found.r2 is not None
    assert found.r2.tolist() == individual_risk(records()).tolist()


def test_a_match_is_correct_as_often_as_theta_says() -> None:
    table = records()
    share, n1, n2 = 120 / 2000, 16, 18
    theta = share * n1 / (share * n1 + 2 * (1 - share) * n2)
    found = FORMULAS["dis"].estimate(table)
    assert found.tau2 == pytest.approx(n1 * theta)
    bound = match_bound(table)
    assert bound is not None
    assert found.tau2 == pytest.approx(bound.value)


def test_simulated_intrusions_are_correct_as_often_as_dis_says() -> None:
    # The mean of theta over samples, beside n1 over the sum of F: what Skinner and Elliot estimate.
    rng = np.random.default_rng(1)
    codes = np.stack([rng.zipf(1.6, 4000) % size for size in (5, 7, 4)], axis=1)
    codes = np.concatenate((codes, rng.integers(0, 4, (600, 3))))
    population = Population.of(CellTable.from_codes(codes, KEYS, len(codes)))
    said, true = [], []
    for _ in range(300):
        units = np.sort(rng.choice(len(codes), 300, replace=False))
        sample = population.sample(units)
        counts = sample.population_counts[sample.table.unique]
        found = FORMULAS["dis"].estimate(sample.table)
        assert found.tau2 is not None
        said.append(found.tau2)
        true.append(len(counts) ** 2 / counts.sum())
    error = np.std(np.subtract(said, true)) / math.sqrt(300)
    assert abs(np.mean(said) - np.mean(true)) < 4 * error + 0.02 * np.mean(true)


def test_class_sizes_are_scaled_to_the_sample() -> None:
    table = records()
    for one in population_uniques(table):
        assert FORMULAS[one.method].estimate(table).tau1 == pytest.approx(one.estimate * 120 / 2000)


def test_what_depends_on_the_fraction_alone() -> None:
    table = records()
    found = FORMULAS["riskutility-zayatz"].estimate(table)
    assert found.tau1 == pytest.approx(16 * 0.94 ** (1 / 0.06 - 1))
    assert FORMULAS["sample-uniques"].estimate(table).tau1 == 16.0


def test_where_a_formula_has_no_answer_it_gives_none() -> None:
    alone = CellTable.from_codes([[0, 0, 0], [1, 1, 1]], KEYS, 100)
    assert FORMULAS["pitman"].estimate(alone).tau1 is None
    twins = CellTable.from_codes([[0, 0, 0], [0, 0, 0]], KEYS, 100)
    assert FORMULAS["dis"].estimate(twins).tau2 is None
    for name in ("pitman", "dis", "scaling-law", "sdcmicro-modrisk"):
        nobody = CellTable.from_codes([[-1, 0, 0], [0, -1, 0]], KEYS, 100)
        nothing = FORMULAS[name].estimate(nobody)
        assert (nothing.tau1, nothing.tau2) == (None, None)
    assert FORMULAS["scaling-law"].estimate(alone).tau1 is None


def test_of_records_with_unknown_keys_formulas_know_the_others_and_scale() -> None:
    table = records()
    codes = table.cells[table.record_cell].copy()
    codes[::4, 1] = -1
    gaps = CellTable.from_codes(codes, KEYS, 2_000)
    known = CellTable.from_codes(codes[codes.min(axis=1) >= 0], KEYS, 2_000)
    weights = np.linspace(5.0, 30.0, 120)
    for name, formula in FORMULAS.items():
        for sampling in (None, sampling_of(weights * 2_000 / weights.sum(), 2_000)):
            found = formula.estimate(replace(gaps, sampling=sampling))
            own = sampling and sampling.taken(np.flatnonzero(codes.min(axis=1) >= 0))
            wanted = formula.compute(replace(known, sampling=own))
            for one in ("tau1", "tau2"):
                total = getattr(wanted, one)
                scaled = None if total is None else pytest.approx(total * 120 / 90)
                assert getattr(found, one) == scaled, name
            for risk, of_known in ((found.r1, wanted.r1), (found.r2, wanted.r2)):
                if of_known is not None:
                    np.testing.assert_array_equal(risk[~gaps.incomplete], of_known)


def test_the_scaling_law_is_that_of_its_authors() -> None:
    # PYPExtrapolation of dataless 1.x, its README: n 1, 10, 100 and correctness 1, 0.99, 0.95.
    law = nearest_law(np.array([1, 10, 100]), np.array([1.0, 0.99, 0.95]))
    told = [1.0, 0.99000117, 0.95000214, 0.88420427, 0.81462242]
    found = law.correctness(np.array([1, 10, 100, 1_000, 10_000]))
    np.testing.assert_allclose(found, told, atol=1e-5)


@given(st.floats(0.05, 0.95), st.floats(0.01, 100), st.integers(2, 2_000))
def test_correctness_has_the_closed_form_and_uniqueness_is_its_last_step(
    discount: float, strength: float, n: int
) -> None:
    law = Law(discount, strength)
    d, a = law
    ratio = gammaln(1 + a) + gammaln(n + d + a) - gammaln(d + a) - gammaln(n + a)
    found = law.correctness(np.array([n - 1, n]))
    assert found[1] == pytest.approx((math.exp(ratio) - a) / (n * d), rel=1e-5)
    assert found[1] * n - found[0] * (n - 1) == pytest.approx(law.uniqueness(n), rel=1e-6)


def test_correctness_is_the_mean_over_all_parts_of_a_sample() -> None:
    counts = np.array([1, 1, 3, 2])
    people = np.repeat(np.arange(4), counts)
    for m in (1, 3, 7):
        parts = [len(set(people[list(part)])) / m for part in combinations(range(7), m)]
        assert expected_correctness(counts, np.array([m]))[0] == pytest.approx(np.mean(parts))
