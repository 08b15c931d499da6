from __future__ import annotations

import math

import numpy as np
import pytest

from unikat.classics.formulas import FORMULAS
from unikat.classics.individual import individual_risk
from unikat.classics.population_uniques import population_uniques
from unikat.data.keys import Key
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
    missing = CellTable.from_codes([[0, 0, 0], [0, -1, 0]], KEYS, 100)
    assert FORMULAS["sdcmicro-modrisk"].estimate(missing).tau1 is None
