"""A registry's risk by a survey: levels matched, sums of draws, and the truth where it is known."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from risk.toy_model import Toy, ToyState
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.models.calibrated import OVERDISPERSION, SHIFTS, Calibrated, CalibratedData
from unikat.risk.measures import RiskMeasures
from unikat.risk.registry import Registry, RegistryMeasures, registry_risk

KEYS = [
    Key(name="SEX", levels=("f", "m"), labels=("f", "m")),
    Key(name="AGE", levels=("old", "young", "child"), labels=("old", "young", "child")),
]
SURVEY = [[0, 0], [0, 0], [0, 1], [1, 2], [1, 0]]
FALSE_ALARM = 1e-6
COVERAGE = 0.3, 0.02
"""Share of the units that is registered: of the first levels, and of the others."""


def survey(population_size: int = 50) -> CellTable:
    return CellTable.from_codes(SURVEY, KEYS, population_size)


def registry_table(codes: Any, ages: tuple[str, ...] = ("child", "old", "young")) -> CellTable:
    """A registry whose ages are in another order."""
    keys = [KEYS[0], Key(name="AGE", levels=ages, labels=ages)]
    return CellTable.from_codes(codes, keys, 10**6)


def test_levels_are_matched_by_their_labels():
    # (f, old) twice, (f, young), (m, young), and one whose sex is not known.
    found = Registry.of(registry_table([[0, 1], [0, 1], [0, 2], [1, 2], [-1, 0]]), survey())
    rows = found.cells[found.record_cell].tolist()
    assert rows == [[0, 0], [0, 0], [0, 1], [1, 1], [-1, 2]]
    cell = found.record_cell
    assert found.counts[cell].tolist() == [2, 2, 1, 1, 1]
    assert found.surveyed[cell].tolist() == [2, 2, 1, 0, 1]
    assert found.shown[cell].tolist() == [2, 2, 1, 1, 1]
    assert found.unique[cell].tolist() == [False, False, True, True, False]
    assert found.possible[cell].tolist() == [False, False, True, True, False]
    assert not found.unknown.any()


def test_levels_that_the_survey_does_not_have():
    ages = ("ancient", "child", "old")
    found = Registry.of(registry_table([[0, 0], [1, 2], [1, 1], [1, 1]], ages), survey())
    assert found.unknown[found.record_cell].tolist() == [True, False, False, False]
    # The record of an unknown level is unique in the registry, whatever the survey knows.
    assert found.unique[found.record_cell].tolist() == [True, True, False, False]
    assert found.possible[found.record_cell].tolist() == [False, True, False, False]
    assert found.surveyed[found.record_cell].tolist() == [0, 1, 1, 1]
    with pytest.raises(DataError, match="coded in the same way"):
        Registry.of(registry_table([[0, 0]], ages), survey())


def test_a_record_unique_in_the_registry_that_the_survey_has_twice():
    """It is unique in the registry, and cannot be so in the population: r1 is 0."""
    table = survey()
    found = Registry.of(registry_table([[0, 1], [0, 2]]), table)
    cell = found.record_cell
    assert found.surveyed[cell].tolist() == [2, 1]
    assert found.unique[cell].tolist() == [True, True]
    assert found.shared[cell].tolist() == [True, False]
    assert found.possible[cell].tolist() == [False, True]
    observer = RegistryMeasures(measures=RiskMeasures.of(table), registry=found)
    draws = sample(
        Toy(), table, observer, seed=2, plan=Plan(n_chains=1, stop=StopRule(max_sweeps=60))
    )
    risk = registry_risk(draws, found)
    assert [risk.r1[cell[0]], risk.r1_lower[cell[0]], risk.r1_upper[cell[0]]] == [0.0, 0.0, 0.0]
    assert 0.0 < risk.r1[cell[1]] < 1.0
    assert risk.r2[cell[0]] <= 0.5


def test_quantiles_and_other_keys_are_refused():
    grouped = replace(KEYS[1], binning="quantile(3)")
    table = CellTable.from_codes(SURVEY, [KEYS[0], grouped], 50)
    with pytest.raises(SpecError, match="quantiles"):
        Registry.of(registry_table([[0, 0]]), table)
    with pytest.raises(SpecError, match="same keys"):
        Registry.of(CellTable.from_codes([[0, 0]], KEYS[::-1], 50), survey())


def test_sums_are_those_of_the_cells_one_by_one():
    table = survey()
    registry = Registry.of(registry_table([[0, 1], [0, 1], [0, 2], [1, 2], [-1, 0]]), table)
    measures = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
    totals = measures.start()
    rng = np.random.default_rng(1)
    model, n_draws, scalars = Toy(), 40, []
    expected = np.zeros((4, len(registry.cells)))
    for sweep in range(1, n_draws + 1):
        p = rng.dirichlet(np.ones(6)).reshape(2, 3)
        scalars.append(measures.observe(Stream(1, 0, sweep), model, ToyState(p), None, totals))
        for c, cell in enumerate(registry.cells.tolist()):
            chance = p[tuple(slice(None) if x < 0 else x for x in cell)].sum()
            mean, rho = 45 * chance, float(registry.coverage[c])
            f, m = int(registry.surveyed[c]), int(registry.registered[c])
            chance *= 1.0 - rho
            # By how many of the survey's records are registered.
            shares = [
                stats.binom.pmf(a, f, rho) * stats.poisson.pmf(m - a, rho * mean)
                for a in range(min(f, m) + 1)
            ]
            scale = rho**m * (1.0 - rho) ** (f - min(f, m)) * math.comb(f, min(f, m))
            scale /= math.factorial(m - min(f, m))
            for a, share in enumerate(np.array(shares) / scale):
                expected[3, c] += share
                alone = f + m - a == 1 and registry.complete[c]
                r1 = math.exp(45 * math.log1p(-chance)) if alone else 0.0
                expected[0, c] += share * r1
                expected[1, c] += share * naive.match_risk(45, float(chance), f + m - a)
                expected[2, c] += share * (45 * chance + min(f, m) - a)
    np.testing.assert_allclose(totals.r1, expected[0])
    np.testing.assert_allclose(totals.r2, expected[1], rtol=1e-6)
    np.testing.assert_allclose(totals.unseen, expected[2])
    np.testing.assert_allclose(totals.weight, expected[3])
    np.testing.assert_allclose(totals.histogram_r1.sum(axis=1), expected[3])
    assert all(0 <= one["registry_tau1"] <= one["registry_tau2"] <= 2 for one in scalars)
    # The survey's own numbers are those without a registry, to the last digit.
    alone = RiskMeasures.of(table)
    again = alone.observe(Stream(1, 0, n_draws), model, ToyState(p), None, alone.start())
    assert {name: scalars[-1][name] for name in again} == again


def differences(*, known_coverage: bool = True, shared: bool = False) -> list[float]:
    """Expected less true population uniques in registries of 300 populations of a known law.

    Of the combinations that the survey has once, if `shared`, else of those that it has not.
    """
    rng = np.random.default_rng(3)
    keys = [Key.of_size("A", 10), Key.of_size("B", 40)]
    p = np.outer(rng.dirichlet(np.full(10, 0.5)), rng.dirichlet(np.full(40, 0.5))).ravel()
    difference = []
    for repeat in range(1500 if shared else 300):
        units = rng.choice(400, 2000, p=p)
        # Who is registered depends on the keys, strongly.
        registered = rng.random(2000) < np.where(units // 40 < 5, COVERAGE[0], COVERAGE[1])
        chosen = rng.choice(2000, 400 if shared else 60, replace=False)
        codes = np.column_stack((units // 40, units % 40))
        table = CellTable.from_codes(codes[chosen], keys, 2000)
        registry = Registry.of(CellTable.from_codes(codes[registered], keys, 2000), table)
        true = np.where(registry.cells[:, 0] < 5, COVERAGE[0], COVERAGE[1])
        coverage = true if known_coverage else np.zeros(len(true))
        registry = replace(registry, coverage=coverage)
        measures = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
        totals = measures.start()
        state = ToyState(p.reshape(10, 40))
        measures.observe(Stream(repeat, 0, 1), Toy(), state, None, totals)
        population = np.bincount(units, minlength=400)
        judged = registry.possible & ((registry.surveyed > 0) == shared)
        truth = population[registry.cells[judged] @ [40, 1]] == 1
        r1 = totals.r1[judged] / totals.weight[judged]
        difference.append(float(r1.sum() - truth.sum()))
    return difference


def z_score(values: list[float]) -> float:
    return float(np.mean(values) / (np.std(values, ddof=1) / math.sqrt(len(values))))


def test_risk_is_that_of_the_population():
    """Who is registered depends on the keys: a z test at 1e-6, which fails without the coverage."""
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(z_score(differences(known_coverage=True))) < limit
    # Registered neighbours would be seen: not to know it makes the risk too low.
    assert z_score(differences(known_coverage=False)) < -limit


@pytest.mark.slow
def test_two_records_of_a_combination_may_be_two_units(monkeypatch):
    """Where the survey has the combination too: a z test at 1e-6, which plants fail at 1e-8.

    To take the records of both files for the same unit makes the risk too high.
    """
    assert abs(z_score(differences(shared=True))) < stats.norm.isf(FALSE_ALARM / 2)
    right = Registry.evidence

    def same_unit(self: Registry, means: Any) -> Any:
        return right(self, means)[:1]

    monkeypatch.setattr(Registry, "evidence", same_unit)
    assert z_score(differences(shared=True)) > stats.norm.isf(0.01 * FALSE_ALARM / 2)


@pytest.mark.slow
def test_records_of_both_files_are_less_evidence_than_of_one():
    """Posterior by quadrature: a gamma size, one record in the survey and one in the registry."""
    rng = np.random.default_rng(8)
    shape, unobserved, coverage, n = 0.5, 4000, 0.3, 20_000
    keys = [Key.of_size("A", 2), Key.of_size("B", 2)]
    table = CellTable.from_codes([[0, 1], [0, 0], [1, 1]], keys, unobserved + 3)
    registry = Registry.of(CellTable.from_codes([[0, 1]], keys, 4003), table)
    registry = replace(registry, coverage=np.array([coverage]))
    measures = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
    totals = measures.start()
    rate, size = 2e-4, unobserved
    drawn = rng.gamma(shape, rate / shape, n)
    for sweep, p in enumerate(drawn, start=1):
        state = ToyState(np.array([[0.5, p], [0.25, 0.25 - p]]))
        measures.observe(Stream(1, 0, sweep), Toy(), state, None, totals)
    found = totals.r1[0] / totals.weight[0], totals.r2[0] / totals.weight[0]
    # The survey's unit is registered, or another one is: every number of units and of registered.
    mass = tau1 = tau2 = 0.0
    slope = shape / rate
    for others in range(200):
        # Others are negative binomial.
        chance = stats.nbinom.pmf(others, shape, slope / (slope + size))
        either = chance * (
            coverage * (1 - coverage) ** others
            + (1 - coverage) * others * coverage * (1 - coverage) ** (others - 1.0)
        )
        mass += either
        tau1 += either * (others == 0)
        tau2 += either / (1 + others)
    assert found == pytest.approx((tau1 / mass, tau2 / mass), rel=0.02)
    # As evidence of its own, the registry's record would make the combination commoner.
    mean = size * drawn
    own = mean * np.exp(-coverage * mean)
    assert (own @ np.exp(-(1 - coverage) * mean)) / own.sum() < 0.8 * found[0]


def test_coverage_is_that_of_the_level_where_it_is_greatest():
    """Half of the old of a large population are registered, and a hundredth of the others."""
    rng = np.random.default_rng(1)
    units = np.column_stack((rng.integers(0, 2, 200_000), rng.integers(0, 3, 200_000)))
    registered = rng.random(200_000) < np.where(units[:, 1] == 0, 0.5, 0.01)
    chosen = rng.choice(200_000, 20_000, replace=False)
    table = CellTable.from_codes(units[chosen], KEYS, 200_000)
    registry = Registry.of(CellTable.from_codes(units[registered], KEYS, 200_000), table)
    old = registry.cells[:, 1] == 0
    np.testing.assert_allclose(registry.coverage[old], 0.5, atol=0.02)
    # By sex it is about 0.17, which is more than a hundredth: cautious.
    np.testing.assert_allclose(registry.coverage[~old], 0.173, atol=0.02)


def test_summary_of_draws():
    table = survey()
    codes = [[0, 1], [0, 1], [0, 2], [1, 2], [-1, 0]]
    registry = Registry.of(registry_table(codes), table)
    observer = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
    draws = sample(
        Toy(), table, observer, seed=2, plan=Plan(n_chains=2, stop=StopRule(max_sweeps=400))
    )
    risk = registry_risk(draws, registry)
    assert 0 <= risk.tau1.lower <= risk.tau1.mean <= risk.tau1.upper <= 2
    assert np.isnan(risk.r1).tolist() == (~registry.unique).tolist()
    unique = registry.possible
    assert (risk.r1_lower[unique] <= risk.r1[unique]).all()
    assert (risk.r1[unique] <= risk.r1_upper[unique]).all()
    assert (risk.population >= registry.shown).all()
    # What is drawn and what is expected agree on average, in draws that are not weighed.
    drawn, expected = (draws.retained(f"registry_tau1{end}") for end in ("", "_expected"))
    error = math.sqrt(2 / drawn.size)
    assert abs((drawn - expected).mean()) < stats.norm.isf(FALSE_ALARM / 2) * error
    # The summary has the mean of the records, to the rounding of a count.
    assert abs(risk.tau1.mean - risk.r1[unique].sum()) < 0.25
    assert abs(risk.tau2.mean - risk.r2[unique].sum()) < 0.05


def test_a_record_in_the_registry_is_evidence_of_its_cell():
    """Cells with gamma sizes of which the survey tells nothing: posterior by quadrature."""
    rng = np.random.default_rng(8)
    shape, unobserved, coverage, n = 0.5, 4000, 0.2, 20_000
    keys = [Key.of_size("A", 2), Key.of_size("B", 2)]
    table = CellTable.from_codes([[0, 0], [0, 0], [1, 1]], keys, unobserved + 3)
    registry = Registry.of(CellTable.from_codes([[0, 1]], keys, 4003), table)
    registry = replace(registry, coverage=np.array([coverage]))
    measures = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
    totals = measures.start()
    rate = 1e-3
    for sweep in range(1, n + 1):
        p = rng.gamma(shape, rate / shape)
        state = ToyState(np.array([[0.5, p], [0.25, 0.25 - p]]))
        measures.observe(Stream(1, 0, sweep), Toy(), state, None, totals)
    found = totals.r1[0] / totals.weight[0]
    # Gamma(shape + 1) by the record, less the units that were registered and are not seen.
    slope = shape / rate + coverage * unobserved
    expected = (slope / (slope + (1 - coverage) * unobserved)) ** (shape + 1)
    assert found == pytest.approx(expected, rel=0.05)
    prior = (shape / rate / (shape / rate + unobserved)) ** shape
    assert prior > 1.5 * expected


@pytest.mark.parametrize("unknown", [False, True])
def test_nothing_is_said_of_what_is_not_known(unknown):
    table = survey()
    ages = ("ancient", "child", "old") if unknown else ("child", "old", "young")
    registry = Registry.of(registry_table([[0, 0], [1, 2]], ages), table)
    observer = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
    draws = sample(
        Toy(), table, observer, seed=2, plan=Plan(n_chains=1, stop=StopRule(max_sweeps=60))
    )
    risk = registry_risk(draws, registry)
    assert np.isnan(risk.r2).tolist() == registry.unknown.tolist()
    assert np.isnan(risk.population).tolist() == registry.unknown.tolist()
    assert not risk.impossible.any()


def test_what_a_key_that_is_missing_leaves_open():
    """A pattern counts the complete records that agree with it, in both files."""
    codes = [[0, 1], [0, 1], [0, 2], [1, 2], [0, -1], [-1, 1]]
    found = Registry.of(registry_table(codes), survey())
    cell = found.record_cell
    # (f, ?) agrees with three complete records and itself; (?, old) with two and itself.
    assert found.registered[cell].tolist() == [2, 2, 1, 1, 4, 3]
    assert found.surveyed[cell].tolist() == [2, 2, 1, 0, 3, 3]
    assert found.counts[cell].tolist() == [2, 2, 1, 1, 1, 1]
    assert found.unique[cell].tolist() == [False, False, True, True, False, False]
    assert found.complete[cell].tolist() == [True, True, True, True, False, False]


def test_numbers_are_levels_however_they_are_written():
    def table(ages: tuple[str, ...], codes: Any) -> CellTable:
        return CellTable.from_codes(codes, [Key(name="AGE", levels=ages, labels=ages)], 50)

    theirs = table(("3.0", "10.0", "4.5", "x_1"), [[0], [1], [2], [3]])
    found = Registry.of(theirs, table(("3", "4.50", "10", "x1"), [[0], [1], [2], [3]]))
    assert found.cells[found.record_cell, 0].tolist()[:3] == [0, 2, 1]
    assert found.unknown[found.record_cell].tolist() == [False, False, False, True]
    # Where two levels mean one number, only what is written alike is the same.
    ours = table(("3", "3.0", "x_1"), [[0], [1], [2]])
    found = Registry.of(table(("3.00", "3.0", "x_1"), [[0], [1], [2]]), ours)
    assert found.unknown[found.record_cell].tolist() == [True, False, False]
    assert found.cells[found.record_cell, 0].tolist()[1:] == [1, 2]


def test_a_registry_larger_than_the_population_is_refused():
    with pytest.raises(DataError, match=r"56 records, but the population has only 50 units"):
        Registry.of(registry_table([[0, 1]] * 56), survey())
    # The population's size may be an estimate.
    assert Registry.of(registry_table([[0, 1]] * 55), survey()).coverage.max() == 1.0


def test_nothing_is_said_of_a_combination_that_the_model_takes_for_impossible():
    """The last cell, (m, child), has no probability; the survey has it once or never."""
    codes = [[0, 2], [1, 0], [1, 0], [1, 2]]
    for sample_, known in ((SURVEY, True), ([[0, 0], [0, 2], [0, 1], [1, 0]], False)):
        table = CellTable.from_codes(sample_, KEYS, 50)
        registry = Registry.of(registry_table(codes), table)
        observer = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
        model = Toy(never=True)
        draws = sample(
            model, table, observer, seed=2, plan=Plan(n_chains=1, stop=StopRule(max_sweeps=60))
        )
        risk = registry_risk(draws, registry)
        cell = registry.record_cell
        assert risk.impossible[cell].tolist() == [False, not known, not known, False]
        assert np.isnan(risk.r2[cell]).tolist() == [False, not known, not known, False]
        assert np.isnan(risk.population[cell]).tolist() == [False, not known, not known, False]


def test_the_error_of_the_model_is_told_by_what_both_files_look_at():
    """Expected units that neither file shows, of a gamma law of rates: z test at 1e-6.

    Taking a registry's count for that of so small a sample as the survey makes them far too many.
    """
    rng = np.random.default_rng(4)
    keys = [Key.of_size("A", 20), Key.of_size("B", 50)]
    p = np.outer(rng.dirichlet(np.full(20, 0.5)), rng.dirichlet(np.full(50, 0.5))).ravel()
    size, share = 10_000, 0.4
    place = 18
    weights = np.zeros((len(OVERDISPERSION), len(SHIFTS)))
    weights[place, int(np.argmin(np.abs(SHIFTS)))] = 1.0
    model = Calibrated(wrapped=Toy(), weights=tuple(weights.ravel().tolist()), asked=None)
    spread = np.array(
        [naive.cell_overdispersion(float(OVERDISPERSION[place]), size * one) for one in p]
    )
    differences, risks = [], []
    for repeat in range(60):
        counts = rng.poisson(size * p * rng.gamma(1 / spread, spread))
        units = np.repeat(np.arange(1000), counts)
        codes = np.column_stack((units // 50, units % 50))
        registered = rng.random(len(units)) < share
        chosen = rng.choice(len(units), 100, replace=False)
        table = CellTable.from_codes(codes[chosen], keys, size)
        registry = Registry.of(CellTable.from_codes(codes[registered], keys, size), table)
        registry = replace(registry, coverage=np.full(len(registry.cells), share))
        measures = RegistryMeasures(measures=RiskMeasures.of(table), registry=registry)
        data, totals = CalibratedData(None, 100.0, float(size)), measures.start()
        for sweep in range(1, 11):
            state = ToyState(p.reshape(20, 50))
            measures.observe(Stream(repeat, 0, sweep), model, state, data, totals)
        judged = registry.surveyed == 0
        true = counts[registry.cells @ [50, 1]]
        # In so large a population all that is not shown is not registered.
        differences.append(
            float((totals.unseen / totals.weight - (true - registry.counts))[judged].sum())
        )
        unique = judged & registry.possible
        risks.append(float((totals.r1 / totals.weight - (true == 1))[unique].sum()))
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(z_score(differences)) < limit
    assert abs(z_score(risks)) < limit


def test_chance_is_not_taken_for_coverage():
    """A tenth of all are registered; of most levels the survey has a record or two of a hundred."""
    rng = np.random.default_rng(1)
    size, levels = 100_000, 100
    shares = 1.0 / np.arange(1, levels + 1)
    keys = [Key.of_size("A", levels), Key.of_size("B", levels)]
    units = rng.choice(levels, (size, 2), p=shares / shares.sum())
    chosen = rng.choice(size, 1000, replace=False)
    registry = Registry.of(
        CellTable.from_codes(units[rng.random(size) < 0.1], keys, size),
        CellTable.from_codes(units[chosen], keys, size),
    )
    expected = np.bincount(units @ [levels, 1])[registry.cells @ [levels, 1]][registry.possible]
    found, true = (
        float(np.exp(-(1.0 - coverage) * expected).sum())
        for coverage in (registry.coverage[registry.possible], 0.1)
    )
    assert true < found < 1.15 * true
