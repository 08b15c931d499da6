"""Streaming risk measures against the same numbers recomputed from stored draws."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.models.base import Model, Stream
from unikat.risk.estimate import _record_risk
from unikat.risk.measures import RiskMeasures
from unikat.risk.observe import observer_for

LEVELS = (2, 3, 2)
KEYS = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
N_DRAWS = 60


class Independence(Model[Any, Any]):
    """A model whose cells are products of margins; its state is (theta by key, imputed cells)."""

    name = "independence"
    population = "multinomial"
    uncertainty = "posterior"

    def cell_probabilities(self, stream: Any, state: Any, data: Any, cells: Any) -> Any:
        """Multiply the margins of the known keys."""
        factors = [
            np.where(cells[:, j] >= 0, state[0][j][cells[:, j]], 1.0) for j in range(len(LEVELS))
        ]
        return np.prod(factors, axis=0)

    def predictive_probabilities(self, *arguments: Any) -> Any:
        return self.cell_probabilities(*arguments)

    def impute(self, stream: Any, state: Any, data: Any) -> Any:
        """Return what the state holds."""
        return state[1].copy()

    def cost(self, data: Any) -> tuple[float, float]:
        """Any numbers."""
        return 1.0, 1.0

    def never(self, *arguments: Any) -> Any:
        raise NotImplementedError

    prepare = init = step = simulate = never


def probability(state: Any, cell: Any) -> float:
    return math.prod(state[0][j][x] for j, x in enumerate(cell) if x >= 0)


def states(table: CellTable) -> list[Any]:
    rng = np.random.default_rng(1)
    drawn = []
    for _ in range(N_DRAWS):
        theta = [rng.dirichlet(np.ones(n)) for n in LEVELS]
        records = np.repeat(table.cells, table.counts, axis=0)
        imputed = records[(records < 0).any(axis=1)]
        for j, n in enumerate(LEVELS):
            gap = imputed[:, j] < 0
            imputed[gap, j] = rng.integers(n, size=gap.sum())
        drawn.append((theta, imputed))
    return drawn


def observe(table: CellTable) -> tuple[RiskMeasures, Any, list[Any], list[Any]]:
    """Observe the states of a table; return the measures, totals, scalars and states."""
    measures = RiskMeasures.of(table)
    totals = measures.start()
    drawn = states(table)
    scalars = [
        measures.observe(Stream(5, 0, sweep), Independence(), state, None, totals)
        for sweep, state in enumerate(drawn, start=1)
    ]
    return measures, totals, scalars, drawn


COMPLETE = [[0, 0, 0], [0, 0, 0], [0, 1, 1], [1, 2, 0], [1, 2, 1], [0, 2, 1]]
GAPS = [*COMPLETE, [0, -1, 1], [0, -1, 1], [-1, -1, 0], [1, 2, -1]]
POPULATION = 60


def falls(totals: Any) -> Any:
    """Mean fall of r1 by sample unique and key, over the draws that leave keys out."""
    n, parts = len(totals.key_whole), len(totals.key_draws)
    part = np.array([p for p in range(parts) for _ in range(n * p // parts, n * (p + 1) // parts)])
    drop = totals.key_whole[:, None] - totals.key_rest
    return drop / totals.key_draws[part][:, None]


def risks(p: float, unobserved: int, count: int) -> tuple[float, float]:
    return math.exp(unobserved * math.log1p(-p)), naive.match_risk(unobserved, p, count)


def test_complete_records():
    """Sums, histograms and expected tau are those of the records taken one by one."""
    table = CellTable.from_codes(COMPLETE, KEYS, POPULATION)
    _, totals, scalars, drawn = observe(table)
    unobserved = POPULATION - len(COMPLETE)
    r = np.array(
        [
            [risks(probability(s, c), unobserved, int(f))
             for c, f in zip(table.cells, table.counts, strict=True)]
            for s in drawn
        ]
    )  # fmt: skip
    r[:, ~table.unique, 0] = 0.0
    assert totals.n_draws[0] == N_DRAWS
    np.testing.assert_allclose(totals.weight, N_DRAWS)
    np.testing.assert_allclose(totals.r1, r[:, :, 0].sum(axis=0))
    np.testing.assert_allclose(totals.r2, r[:, :, 1].sum(axis=0), rtol=1e-6)
    for scalar, (r1, r2) in zip(scalars, r.transpose(0, 2, 1), strict=True):
        np.testing.assert_allclose(scalar["tau1_expected"], r1[table.unique].sum())
        np.testing.assert_allclose(scalar["tau2_expected"], r2[table.unique].sum(), rtol=1e-6)
        assert 0 <= scalar["tau1"] <= scalar["tau2"] <= table.n_uniques
    for histogram, column in ((totals.histogram_r1, 0), (totals.histogram_r2, 1)):
        n_bins = histogram.shape[1]
        for c in range(table.n_cells):
            bins = np.minimum((np.sqrt(r[:, c, column]) * n_bins).astype(int), n_bins - 1)
            np.testing.assert_array_equal(histogram[c], np.bincount(bins, minlength=n_bins))


@pytest.mark.parametrize("codes", [COMPLETE, GAPS], ids=["complete", "gaps"])
def test_patterns_add_up_to_the_expected_measures(codes):
    """In every draw, and so do the squares of what each of them adds."""
    table = CellTable.from_codes(codes, KEYS, POPULATION)
    measures, totals, scalars, drawn = observe(table)
    for name, sums in (("tau1_expected", totals.r1), ("tau2_expected", totals.r2_unique)):
        np.testing.assert_allclose(sums.sum(), sum(one[name] for one in scalars))
    squares = np.zeros((2, table.n_cells))
    for sweep, state in enumerate(drawn, start=1):
        alone = measures.start()
        measures.observe(Stream(5, 0, sweep), Independence(), state, None, alone)
        squares += np.stack([alone.r1, alone.r2_unique]) ** 2
    np.testing.assert_allclose([totals.r1_squared, totals.r2_squared], squares)


@pytest.mark.statistical
def test_predictive_draws_scatter_around_the_expected_risk():
    """Over 60 draws, z tests of tau - E tau; false alarm 1e-6."""
    _, _, scalars, _ = observe(CellTable.from_codes(COMPLETE, KEYS, POPULATION))
    for tau in ("tau1", "tau2"):
        gap = np.array([s[tau] - s[f"{tau}_expected"] for s in scalars])
        assert abs(gap.mean()) < 5.0 * max(gap.std(), 0.02) / math.sqrt(N_DRAWS)


def test_incomplete_records_are_imputed_and_counted_afresh():
    """Every draw completes the sample; risks follow the completed counts, record by record."""
    table = CellTable.from_codes(GAPS, KEYS, POPULATION)
    _, totals, scalars, drawn = observe(table)
    unobserved = POPULATION - len(GAPS)
    r1, r2, weight = (np.zeros(table.n_cells) for _ in range(3))
    records = np.repeat(np.arange(table.n_cells), table.counts)
    gaps = [i for i, c in enumerate(records) if table.incomplete[c]]
    for scalar, state in zip(scalars, drawn, strict=True):
        completed = [tuple(table.cells[c].tolist()) for c in records]
        for i, cell in zip(gaps, state[1].tolist(), strict=True):
            completed[i] = tuple(cell)
        tau = np.zeros(2)
        patterns_done = set()
        for i, cell in enumerate(completed):
            count = completed.count(cell)
            risk = risks(probability(state, cell), unobserved, count)
            if count == 1:
                tau += risk
            c = records[i]
            # A complete pattern counts once a draw, an incomplete record each on its own.
            if table.incomplete[c] or c not in patterns_done:
                patterns_done.add(c)
                weight[c] += 1
                r1[c] += risk[0] * (count == 1)
                r2[c] += risk[1]
        np.testing.assert_allclose(scalar["tau1_expected"], tau[0])
        np.testing.assert_allclose(scalar["tau2_expected"], tau[1], rtol=1e-6)
    np.testing.assert_allclose(totals.weight, weight)
    np.testing.assert_allclose(totals.r1, r1)
    np.testing.assert_allclose(totals.r2, r2, rtol=1e-6)


def test_wildcards_match_any_level():
    """A pattern's count is of all compatible records, its probability that of its margin."""
    table = CellTable.from_codes(GAPS, KEYS, POPULATION, missing="wildcard")
    _, totals, scalars, drawn = observe(table)
    records = np.array(GAPS)
    unobserved = POPULATION - len(GAPS)
    r1, r2 = np.zeros(table.n_cells), np.zeros(table.n_cells)
    for scalar, state in zip(scalars, drawn, strict=True):
        tau = np.zeros(2)
        for c, cell in enumerate(table.cells):
            agree = (records == cell) | (records < 0) | (cell < 0)
            count = int(agree.all(axis=1).sum())
            risk = risks(probability(state, cell.tolist()), unobserved, count)
            r1[c] += risk[0] * (count == 1)
            r2[c] += risk[1]
            tau += np.array(risk) * (count == 1)
        np.testing.assert_allclose(scalar["tau1_expected"], tau[0], atol=1e-15)
        np.testing.assert_allclose(scalar["tau2_expected"], tau[1], rtol=1e-6)
    np.testing.assert_allclose(totals.r1, r1)
    np.testing.assert_allclose(totals.r2, r2, rtol=1e-6)


def test_a_wildcard_for_every_key_is_everybody():
    """A record with nothing known matches the whole population, however small."""
    table = CellTable.from_codes([[-1, -1, -1], [0, 0, 0]], KEYS, 20, missing="wildcard")
    _, totals, _, _ = observe(table)
    np.testing.assert_allclose(totals.r2[0] / N_DRAWS, 1.0 / 20.0, rtol=1e-6)
    np.testing.assert_allclose(totals.r1, 0.0)


@pytest.mark.parametrize("thin", [1, 3, 50, 100, 256, 1000, 2048])
def test_leaving_keys_out_gets_its_turn_at_any_thinning(thin):
    """Within 200 kept draws every part of the uniques is looked at."""
    table = CellTable.from_codes(COMPLETE, KEYS, POPULATION)
    measures = RiskMeasures.of(table)
    totals = measures.start()
    state = states(table)[0]
    for draw in range(1, 201):
        measures.observe(Stream(5, 0, draw * thin), Independence(), state, None, totals)
    n, parts = table.n_uniques, len(totals.key_draws)
    filled = [part for part in range(parts) if n * part // parts < n * (part + 1) // parts]
    assert (totals.key_draws[filled] > 0).all()


def test_risk_that_is_lost_with_a_key():
    """r1 with all keys minus r1 without one, zero where the margin is no longer unique."""
    table = CellTable.from_codes(COMPLETE, KEYS, POPULATION)
    measures = RiskMeasures.of(table)
    totals = measures.start()
    state = states(table)[0]
    for sweep in range(1, 101):
        measures.observe(Stream(5, 0, sweep), Independence(), state, None, totals)
    unobserved = POPULATION - len(COMPLETE)
    uniques = table.cells[table.unique]
    records = np.array(COMPLETE)
    for cell, drop in zip(uniques, falls(totals), strict=True):
        for j in range(len(LEVELS)):
            margin = cell.copy()
            margin[j] = -1
            alone = ((records == margin) | (margin < 0)).all(axis=1).sum() == 1
            expected = risks(probability(state, cell), unobserved, 1)[0]
            if alone:
                expected -= risks(probability(state, margin), unobserved, 1)[0]
            np.testing.assert_allclose(drop[j], expected, atol=1e-12)


def test_totals_do_not_grow():
    """Their size depends on the table only, and totals of two halves add to those of the whole."""
    table = CellTable.from_codes(GAPS, KEYS, POPULATION)
    measures, whole, _, drawn = observe(table)
    assert sum(a.nbytes for a in whole) == sum(a.nbytes for a in measures.start())
    halves = [measures.start(), measures.start()]
    for sweep, state in enumerate(drawn, start=1):
        half = halves[int(2 * sweep > N_DRAWS)]
        measures.observe(Stream(5, 0, sweep), Independence(), state, None, half)
    for total, a, b in zip(whole, *halves, strict=True):
        np.testing.assert_allclose(total, a + b, rtol=1e-12)


class Poisson(Independence):
    """The same cells, with Poisson counts of unobserved individuals."""

    population = "poisson"


def test_poisson_populations_have_no_fixed_size() -> None:
    """One cell has everybody: M = 2 others if their number is known, Poisson(2) if it is not.

    Chi-square of 4,000 draws over 0, 1, 2 and more others, false alarm 1e-6.
    """
    keys = [Key.of_size("K0", 2), Key.of_size("K1", 3), Key.of_size("K2", 2)]
    table = CellTable.from_codes([[0, 0, 0]], keys, population_size=3)
    state = ([np.array([1.0, 0.0]), np.array([1.0, 0.0, 0.0]), np.array([1.0, 0.0])], table.cells)
    measures = RiskMeasures.of(table)

    def others(model: Any) -> Any:
        totals = measures.start()
        tau2 = [
            measures.observe(Stream(5, 0, sweep), model, state, None, totals)["tau2"]
            for sweep in range(4_000)
        ]
        return np.round(1.0 / np.array(tau2)).astype(int) - 1

    assert (others(Independence()) == 2).all()
    found = np.bincount(np.minimum(others(Poisson()), 3), minlength=4)
    law = np.array([1.0, 2.0, 2.0]) * math.exp(-2.0)
    expected = 4_000 * np.append(law, 1.0 - law.sum())
    assert stats.chisquare(found, expected).pvalue > 1e-6


def test_a_key_left_out_of_a_poisson_population() -> None:
    """The fall of r1 is exp(-M p) minus that of the margin, where the margin is unique too."""
    codes = [[0, 0, 0], [1, 1, 1], [1, 2, 0], [1, 2, 1]]
    table = CellTable.from_codes(codes, KEYS, population_size=12)
    theta = [np.array([0.3, 0.7]), np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4])]
    measures = RiskMeasures.of(table)
    totals = measures.start()
    for sweep in range(200):
        measures.observe(Stream(5, 0, sweep), Poisson(), (theta, table.cells), None, totals)
    for cell, drop in zip(table.cells, falls(totals), strict=True):
        for j in range(3):
            margin = [-1 if k == j else x for k, x in enumerate(cell)]
            rest = np.delete(table.cells, j, axis=1)
            alone = (rest == np.delete(cell, j)).all(axis=1).sum() == 1
            p = probability((theta, None), cell)
            without = math.exp(-8.0 * probability((theta, None), margin)) if alone else 0.0
            assert math.isclose(drop[j], math.exp(-8.0 * p) - without, rel_tol=1e-9)


class Erring(Independence):
    """Cells are rarer than the model says by 1 part in 3 with a record, in 2 without."""

    uncertainty = "calibrated"

    def risk_probabilities(self, stream: Any, data: Any, p: Any, counts: Any, **_: Any) -> Any:
        """Return other probabilities."""
        return p * np.where(counts > 0, 2 / 3, 1 / 2)


@pytest.mark.parametrize("codes", [COMPLETE, GAPS], ids=["complete", "gaps"])
def test_risks_are_those_with_the_error_of_a_model(codes):
    """Sums are those of a model with 2/3 of the probabilities; those of the model stand beside."""

    class Rarer(Independence):
        def cell_probabilities(self, *arguments: Any) -> Any:
            return super().cell_probabilities(*arguments) * 2 / 3

    table = CellTable.from_codes(codes, KEYS, POPULATION)
    measures = RiskMeasures.of(table)
    found = {}
    for model in (Erring(), Rarer(), Independence()):
        totals = measures.start()
        found[type(model)] = (
            totals,
            [
                measures.observe(Stream(5, 0, sweep), model, state, None, totals)
                for sweep, state in enumerate(states(table), start=1)
            ],
        )
    (ours, scalars), (twin, rarer), (_, plain) = found.values()
    for name in ("n_draws", "weight", "r1", "r2", "histogram_r1", "histogram_r2", "key_draws"):
        np.testing.assert_allclose(getattr(ours, name), getattr(twin, name), err_msg=name)
    for scalar, other, without in zip(scalars, rarer, plain, strict=True):
        for name, value in other.items():
            assert math.isclose(scalar[name], value, rel_tol=1e-12), name
        for tau in ("tau1", "tau2"):
            assert math.isclose(scalar[f"{tau}_model"], without[tau], rel_tol=1e-12)
        assert set(scalar) == {*without, "tau1_model", "tau2_model"}


def test_a_key_left_out_joins_cells_without_a_record():
    """The margin is the cell with its error, and the rest with that of cells not seen."""
    table = CellTable.from_codes(COMPLETE, KEYS, POPULATION)
    measures = RiskMeasures.of(table)
    totals = measures.start()
    state = states(table)[0]
    for sweep in range(1, 101):
        measures.observe(Stream(5, 0, sweep), Erring(), state, None, totals)
    uniques, records = table.cells[table.unique], np.array(COMPLETE)
    unobserved = POPULATION - len(COMPLETE)
    joined = 0
    for cell, drop in zip(uniques, falls(totals), strict=True):
        p = probability(state, cell)
        for j in range(len(LEVELS)):
            margin = cell.copy()
            margin[j] = -1
            expected = risks(p * 2 / 3, unobserved, 1)[0]
            if ((records == margin) | (margin < 0)).all(axis=1).sum() == 1:
                joined += 1
                rest = probability(state, margin) - p
                expected -= risks(p * 2 / 3 + rest / 2, unobserved, 1)[0]
            np.testing.assert_allclose(drop[j], expected, atol=1e-12)
    assert joined > 3


def test_convergence_is_judged_without_the_error_too():
    table = CellTable.from_codes(COMPLETE, KEYS, POPULATION)
    measures = RiskMeasures.of(table)
    assert measures.monitored == ("tau1", "tau2")
    assert observer_for(Independence(), measures, table) is measures
    observer = observer_for(Erring(), measures, table)
    assert observer.monitored == ("tau1", "tau2", "tau1_model", "tau2_model")
    scalars = observer.observe(Stream(5, 0, 1), Erring(), states(table)[0], None, observer.start())
    assert set(observer.monitored) <= set(scalars)


def test_records_are_ranked_by_their_risk():
    """By hand, over three states: places, their mean, and the ends of the interval."""
    table = CellTable.from_codes([[i] for i in range(5)] + [[5], [5]], [Key.of_size("A", 7)], 500)
    measures = RiskMeasures.of(table)
    assert table.unique.tolist() == [True] * 5 + [False]
    totals = measures.start()
    states = np.array(
        [[0.1, 0.2, 0.3, 0.4, 0.5], [0.2, 0.1, 0.3, 0.4, 0.5], [0.5, 0.1, 0.2, 0.3, 0.4]]
    )
    for q in states:
        measures._add_ranks(q, totals)
    places = 1.0 + np.argsort(np.argsort(states, axis=1), axis=1)
    np.testing.assert_array_equal(totals.rank, places.sum(axis=0))
    assert totals.histogram_rank.sum(axis=1).tolist() == [3] * 5
    bins = np.sqrt((places - 1.0) / 5) * measures.n_bins
    for cell in range(5):
        seen = np.flatnonzero(totals.histogram_rank[cell])
        assert seen.tolist() == sorted(set(bins[:, cell].astype(int).tolist()))


@pytest.mark.parametrize("n", [3, 50, 6400])
def test_places_that_are_known_have_no_interval(n):
    """The first place to the place; the others as finely as the histogram is."""
    table = CellTable.from_codes([[i] for i in range(n)] + [[n], [n]], [Key.of_size("A", n + 1)],
                                 100 * n)  # fmt: skip
    measures = RiskMeasures.of(table)
    totals = measures.start()
    totals.n_draws[0] = 40
    for _ in range(40):
        measures._add_ranks(np.arange(1.0, n + 1.0) / n**2, totals)
    found = _record_risk(totals, table, 0.95)
    places = np.arange(1.0, n + 1.0)
    np.testing.assert_array_equal(found.rank[:n], places)
    assert np.isnan(found.rank[n])
    # A bin of the square root of the share is this wide there, and rounding adds one place.
    width = 2.0 * np.sqrt(places * n) / measures.n_bins + n / measures.n_bins**2 + 1.0
    assert (found.rank_lower[:n] <= places).all()
    assert (found.rank_upper[:n] >= places).all()
    assert (places - found.rank_lower[:n] <= width).all()
    assert (found.rank_upper[:n] - places <= width).all()
    assert found.rank_upper[0] - found.rank_lower[0] <= max(1.0, n / measures.n_bins**2)


def test_a_models_error_may_make_chances_add_to_more_than_one():
    """Nobody is population unique for want of people: unobserved counts are then independent."""

    class Heavy(Independence):
        uncertainty = "calibrated"

        def risk_probabilities(self, stream: Any, data: Any, p: Any, counts: Any, **_: Any) -> Any:
            return np.full(len(p), 0.5)

    table = CellTable.from_codes([[i] for i in range(12)], [Key.of_size("A", 12)], 1000)
    measures = observer_for(Heavy(), RiskMeasures.of(table), table)
    state = np.full((12,), 1 / 12)

    class Flat(Heavy):
        def cell_probabilities(self, *arguments: Any) -> Any:
            return np.full(len(arguments[-1]), 1 / 12)

    scalars = measures.observe(Stream(1, 0, 1), Flat(), state, None, measures.start())
    assert scalars["tau1"] == 0.0
    assert scalars["tau2"] < 0.1


@pytest.mark.statistical
def test_tau1_with_missing_keys_is_that_of_the_complete_records():
    """Populations whose law is known, a third of the values of their samples blanked at random.

    The truth counts records whose combination, complete, is alone in sample and population. The
    error of tau1 has mean 0: |z| below 4, a false alarm in 16,000. A mean that ignores that
    incomplete records may fall in complete cells, or takes none of them as unique, is refuted.
    """
    rng, n, size = np.random.default_rng(7), 10, 25
    theta = [rng.dirichlet(np.ones(n)) for n in LEVELS]
    errors, held, none = [], [], []
    for sweep in range(400):
        population = np.column_stack([rng.choice(len(p), size, p=p) for p in theta])
        sample = population[:n]
        blank = rng.random(sample.shape) < 1.0 / 3.0
        codes = np.where(blank, -1, sample).astype(np.int32)
        table = CellTable.from_codes(codes, KEYS, size)
        imputed = table.cells[table.record_cell][np.argsort(table.record_cell, kind="stable")]
        imputed = imputed[(imputed < 0).any(axis=1)]
        for j, p in enumerate(theta):
            gap = imputed[:, j] < 0
            imputed[gap, j] = rng.choice(len(p), gap.sum(), p=p)
        measures = RiskMeasures.of(table)
        state = theta, imputed
        tau = measures.observe(Stream(5, 0, sweep), Independence(), state, None, measures.start())
        cells = population.tolist()
        alone = [c for c in sample.tolist() if cells.count(c) == 1]
        errors.append(tau["tau1"] - len(alone))
        complete = table.unique
        risk = [risks(probability(state, c), size - n, 1)[0] for c in table.cells[complete]]
        held.append(sum(risk) - sum(c in table.cells[complete].tolist() for c in alone))
        none.append(sum(risk) - len(alone))

    def z(values: list[float]) -> float:
        return float(np.mean(values) / np.std(values) * math.sqrt(len(values)))

    assert abs(z(errors)) < 4.0
    assert z(held) > 4.0
    assert z(none) < -4.0
