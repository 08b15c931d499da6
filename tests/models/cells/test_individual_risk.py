"""The individual risk model: rates and risks against the negative binomial, margins, imputation."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from classics.test_frequencies import weighted
from unikat.classics.frequencies import frequencies
from unikat.classics.individual import individual_risk
from unikat.data import Key
from unikat.data.table import CellTable
from unikat.inference.chains import sample
from unikat.models.base import Stream
from unikat.models.cells.individual_risk import IndividualRisk
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures
from unikat.zeros.diagram import build, possible

LEVELS = (3, 4, 3)
CELLS = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
MODEL = IndividualRisk()


def random_table(n: int = 60, missing: float = 0.0, low: float = 1.0) -> CellTable:
    """Skewed keys, some sample uniques, and weights from `low` to 9."""
    rng = np.random.default_rng(2)
    codes = (rng.random((n, 3)) ** 2 * LEVELS).astype(int)
    codes[rng.random(codes.shape) < missing] = -1
    codes[:2] = [[2, 3, 2], [0, 0, 2]]
    table = weighted(codes, rng.uniform(low, 9.0, n))
    keys = tuple(Key.of_size(f"K{j}", size) for j, size in enumerate(LEVELS))
    return replace(table, keys=keys)


def probabilities(table: CellTable, cells: np.ndarray, sweep: int = 1) -> np.ndarray:
    data = MODEL.prepare(table)
    stream = Stream(4, 1, sweep)
    return MODEL.cell_probabilities(stream, MODEL.init(stream, data), data, cells)


@pytest.mark.statistical
def test_draws_give_the_integrated_risk() -> None:
    """Mean over 6,000 sweeps of r1, r2 and the rate (z tests, false alarm 1e-6 in all)."""
    table = random_table()
    data = MODEL.prepare(table)
    state = MODEL.init(Stream(1, 0, 0), data)
    unobserved = table.population_size - table.n_records
    f = table.counts
    draws = unobserved * np.array([
        MODEL.cell_probabilities(Stream(1, 0, sweep), state, data, table.cells)
        for sweep in range(6_000)
    ])  # fmt: skip
    # Given the rate the unobserved units are Poisson: the sum of P(x) / (f + x).
    x = np.arange(400)
    few = f <= 3
    r1, r2 = MODEL.integrated_risk(Stream(1, 0, 0), state, data, table.cells, f.astype(float))
    for cell in np.flatnonzero(few):
        masses = stats.poisson.pmf(x, draws[:2_000, cell, None])
        matched = masses @ (1.0 / (f[cell] + x))
        for values, mean in (
            (np.exp(-draws[:, cell]), r1[cell]),
            (matched, r2[cell]),
            (draws[:, cell], table.cell_weights[cell] - f[cell]),
        ):
            z = (values.mean() - mean) / (values.std() / math.sqrt(len(values)))
            assert 2.0 * stats.norm.sf(abs(z)) > 1e-6 / (3 * few.sum()), (cell, mean)


def test_integrated_risk_is_the_individual_risk() -> None:
    table = random_table()
    data = MODEL.prepare(table)
    stream = Stream(1, 0, 0)
    f = table.counts.astype(float)
    r1, r2 = MODEL.integrated_risk(stream, MODEL.init(stream, data), data, table.cells, f)
    np.testing.assert_allclose(r2, individual_risk(table), rtol=1e-14)
    found = frequencies(table)
    np.testing.assert_allclose(r1, (found.sample / found.population) ** found.sample, rtol=1e-13)


@pytest.mark.parametrize("missing", [0.0, 0.25])
def test_margins_are_sums_of_cells(missing: float) -> None:
    """Every set of keys left out; nothing where no record is."""
    table = random_table(missing=missing)
    p = probabilities(table, CELLS).reshape(LEVELS)
    complete = table.cells[~table.incomplete]
    seen = np.zeros(LEVELS, bool)
    seen[tuple(complete.T)] = True
    if not missing:
        np.testing.assert_array_equal(p > 0.0, seen)
    assert (p[seen] > 0.0).all()
    for out in itertools.chain.from_iterable(
        itertools.combinations(range(3), k) for k in (1, 2, 3)
    ):
        margin = CELLS.copy()
        margin[:, out] = -1
        expected = np.broadcast_to(p.sum(axis=out, keepdims=True), LEVELS).ravel()
        np.testing.assert_allclose(probabilities(table, margin), expected, rtol=1e-12)


def test_without_weights_every_cell_has_the_sampling_fraction() -> None:
    keys = [Key.of_size(f"K{j}", size) for j, size in enumerate(LEVELS)]
    rng = np.random.default_rng(3)
    table = CellTable.from_codes((rng.random((80, 3)) ** 2 * LEVELS).astype(int), keys, 4_000)
    data = MODEL.prepare(table)
    np.testing.assert_allclose(data.counts / data.sizes, 80 / 4_000)
    stream = Stream(1, 0, 0)
    state = MODEL.init(stream, data)
    np.testing.assert_allclose(
        MODEL.predictive_probabilities(stream, state, data, table.cells), table.counts / 80
    )


def test_imputation_by_hand() -> None:
    """Pattern (0, any): cells (0, 0) and (0, 2) with 30 and 10 units; (1, any) has none."""
    codes = np.array([[0, 0], [0, 2], [2, 1], *[[0, -1]] * 40_000, [1, -1], [-1, -1]])
    weights = np.array([30.0, 10.0, 50.0, *[1.0] * 40_002])
    table = weighted(codes, weights)
    data = MODEL.prepare(table)
    state = MODEL.init(Stream(1, 0, 0), data)
    imputed = MODEL.impute(Stream(1, 0, 5), state, data)
    # Patterns in order: (-1, -1), (0, -1) 40,000 times, (1, -1).
    assert imputed[0].tolist() in [[0, 0], [0, 2], [2, 1]]
    assert (imputed[1:-1, 0] == 0).all()
    first = int((imputed[1:-1, 1] == 0).sum())
    assert stats.binomtest(first, 40_000, 0.75).pvalue > 1e-6
    assert (imputed[1:-1, 1] != 1).all()
    assert imputed[-1, 0] == 1
    facts = MODEL.facts(data)
    assert facts.values["records_without_candidates"] == 1
    assert "agree with no complete record" in facts.warnings[0]


def test_imputed_records_join_their_cells_with_their_weights() -> None:
    """f and F that the drawn risk starts from, counted record by record."""
    table = random_table(200, missing=0.3)
    data = MODEL.prepare(table)
    state = MODEL.init(Stream(1, 0, 0), data)
    order = np.argsort(table.record_cell, kind="stable")
    incomplete = order[table.incomplete[table.record_cell[order]]]
    assert len(np.unique(table.weights[incomplete])) > 20
    for sweep in (1, 2):
        stream = Stream(1, 0, sweep)
        filled = table.cells[table.record_cell]
        filled[incomplete] = MODEL.impute(stream, state, data)
        f = np.array([(filled == cell).all(axis=1).sum() for cell in CELLS])
        size = np.array([table.weights[(filled == cell).all(axis=1)].sum() for cell in CELLS])
        some = f > 0
        r1, _ = MODEL.integrated_risk(stream, state, data, CELLS[some], f[some].astype(float))
        np.testing.assert_allclose(r1, (f / np.maximum(size, 1e-9))[some] ** f[some], rtol=1e-12)
        expected = np.where(some, size - f, 0.0)
        got = MODEL.predictive_probabilities(stream, state, data, CELLS)
        np.testing.assert_allclose(got, expected / expected.sum(), rtol=1e-11, atol=1e-15)


def test_patterns_without_candidates_stay_possible() -> None:
    """K0 = 1 leaves K1 = 3 alone, which no complete record has."""
    conditions = np.ones((1, sum(LEVELS)), bool)
    conditions[0, [0, 2, 6]] = False
    diagram = build(conditions, np.concatenate(([0], np.cumsum(LEVELS))))
    keys = [Key.of_size(f"K{j}", size) for j, size in enumerate(LEVELS)]
    codes = [[0, 0, 1], [2, 1, 0], *[[1, -1, -1]] * 50, *[[-1, 2, -1]] * 50]
    table = CellTable.from_codes(codes, keys, 1_000, zeros=diagram)
    data = MODEL.prepare(table)
    state = MODEL.init(Stream(1, 0, 0), data)
    imputed = MODEL.impute(Stream(1, 0, 1), state, data)
    assert possible(diagram, imputed).all()
    assert (imputed[50:, :2] == [1, 3]).all()
    assert set(imputed[:50, 0].tolist()) == {0, 2}
    assert set(imputed[50:, 2].tolist()) == {0, 1, 2}
    assert possible(diagram, MODEL.simulate(Stream(1, 0, 1), state, data, 200)).all()


@pytest.mark.statistical
def test_simulated_units_have_the_rates_of_the_sweep() -> None:
    """Chi-square of 50,000 units (false alarm 1e-6), and other rates in another sweep."""
    table = random_table(missing=0.2)
    data = MODEL.prepare(table)
    state = MODEL.init(Stream(4, 1, 0), data)
    drawn = MODEL.simulate(Stream(4, 1, 1), state, data, 50_000)
    assert drawn.shape == (50_000, 3)
    assert drawn.dtype == np.int32
    p = probabilities(table, CELLS)
    expected = 50_000 * p / p.sum()
    observed = np.bincount(np.ravel_multi_index(tuple(drawn.T), LEVELS), minlength=len(CELLS))
    assert (observed[expected == 0.0] == 0).all()
    keep = expected > 5.0
    pooled = [np.append(part[keep], part[~keep].sum()) for part in (observed, expected)]
    keep = pooled[1] > 0.0
    assert stats.chisquare(pooled[0][keep], pooled[1][keep]).pvalue > 1e-6
    assert not np.allclose(p, probabilities(table, CELLS, sweep=2))


def test_weights_below_one_count_as_fully_sampled() -> None:
    codes = np.array([[0], [0], [1], [2]])
    table = weighted(codes, np.array([0.4, 0.5, 9.0, 1.0]))
    data = MODEL.prepare(table)
    facts = MODEL.facts(data)
    assert facts.values["cells_fully_sampled"] == 1
    assert "fully sampled (p = 1)" in facts.warnings[0]
    stream = Stream(1, 0, 0)
    state = MODEL.init(stream, data)
    risk = MODEL.integrated_risk(stream, state, data, table.cells, table.counts.astype(float))
    np.testing.assert_allclose(risk[0], [1.0, 1 / 9, 1.0])
    np.testing.assert_allclose(risk[1][[0, 2]], [0.5, 1.0])
    p = MODEL.cell_probabilities(stream, state, data, table.cells)
    assert (p == 0.0).tolist() == [True, False, True]


def test_a_census_has_no_unobserved_units() -> None:
    table = CellTable.from_codes([[0], [0], [1]], [Key.of_size("A", 2)], population_size=3)
    data = MODEL.prepare(table)
    stream = Stream(1, 0, 0)
    state = MODEL.init(stream, data)
    assert not MODEL.cell_probabilities(stream, state, data, table.cells).any()
    p = MODEL.predictive_probabilities(stream, state, data, table.cells)
    np.testing.assert_allclose(p, [2 / 3, 1 / 3])
    assert MODEL.simulate(stream, state, data, 5).shape == (5, 1)
    assert MODEL.facts(data).warnings == ()


@pytest.mark.parametrize("treatment", ["integrate", "wildcard"])
def test_an_assessment(treatment: str) -> None:
    """The measures of the house, where missing keys are filled in and where they match any."""
    table = replace(random_table(80, missing=0.05), missing=treatment)
    assert table.n_uniques > 3
    fitted, at_risk = views(MODEL, table)
    draws = sample(MODEL, fitted, RiskMeasures.of(at_risk), seed=1)
    tau1 = draws.retained("tau1_expected")
    assert np.isfinite(tau1).all()
    assert 0.0 < tau1.mean() <= table.n_records
    if treatment == "wildcard":
        data = MODEL.prepare(table)
        stream = Stream(1, 0, 0)
        r1, r2 = MODEL.integrated_risk(
            stream, MODEL.init(stream, data), data, table.cells, table.matches.astype(float)
        )
        assert np.isfinite(r1).all()
        assert ((r2 > 0.0) & (r2 <= 1.0)).all()


def test_without_missing_keys_tau1_is_the_sum_of_p() -> None:
    """With the rates integrated out r1 of a sample unique is its p, in every draw."""
    table = random_table(low=2.0)
    assert table.n_uniques > 3
    fitted, at_risk = views(MODEL, table)
    draws = sample(MODEL, fitted, RiskMeasures.of(at_risk), seed=1)
    values = draws.retained("tau1_expected").ravel()
    expected = (1.0 / table.cell_weights[table.unique]).sum()
    np.testing.assert_allclose(values, expected)
    # The drawn counts have the same mean (z test, 1e-6).
    drawn = draws.retained("tau1").ravel()
    z = (drawn.mean() - expected) / (drawn.std() / math.sqrt(len(drawn)))
    assert 2.0 * stats.norm.sf(abs(z)) > 1e-6
