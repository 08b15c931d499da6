"""A model with its own error: the wrapped sampler is left alone, the risk measures are not."""

from __future__ import annotations

import math
import pickle
from typing import Any, get_args

import numpy as np
import pytest
from scipy import stats

import naive
from models.any_facts import AnyFacts
from models.contract import after, assert_same, random_table
from unikat.data.keys import Key
from unikat.data.table import CellTable, Missing
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.identity import digest
from unikat.inference.plan import Plan, StopRule
from unikat.kernels import cells
from unikat.models.auto import Auto
from unikat.models.base import (
    CHAINS,
    CellLaw,
    Facts,
    GroupsLevels,
    IntegratesRisk,
    OfHouseholds,
    Refits,
    Sampler,
    Simulator,
    Specified,
    Stream,
    Uncertainty,
)
from unikat.models.calibrated import (
    HOUSEHOLD_OVERDISPERSION,
    OVERDISPERSION,
    SHIFTS,
    Calibrated,
    SelectionFacts,
)
from unikat.models.mixtures.hdp import HDP
from unikat.models.mixtures.latent_class import LatentClass
from unikat.risk.by_class import ClassChances, Look
from unikat.risk.exposure import BySampling, EqualChances
from unikat.risk.law import moments, others
from unikat.risk.measures import RiskMeasures
from unikat.risk.observe import observer_for

HERE = Workers(n_workers=1, n_threads=1)
NONE = int(np.argmin(np.abs(SHIFTS)))
FALSE_ALARM = 1e-6


def calibrated(pairs: dict[tuple[int, int], float], **options: Any) -> Calibrated:
    """Latent classes with weights of some (index of k, index of d)."""
    weights = np.zeros((len(HOUSEHOLD_OVERDISPERSION), len(SHIFTS)))
    for pair, weight in pairs.items():
        weights[pair] = weight
    options = {"wrapped": LatentClass()} | options
    return Calibrated(weights=tuple(weights.ravel().tolist()), asked=Auto(), **options)


def spread() -> Calibrated:
    """All pairs are possible."""
    return calibrated(dict.fromkeys(np.ndindex(len(OVERDISPERSION), len(SHIFTS)), 1.0))


def sparse_table(missing: float = 0.1, treatment: Missing = "integrate") -> CellTable:
    """Two groups of records in 1,800 cells, so that many are unique."""
    rng = np.random.default_rng(4)
    levels = (6, 5, 4, 5, 3)
    keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(levels)]
    group = rng.random((200, 1)) < 0.5
    codes = (rng.random((200, 5)) ** np.where(group, 0.4, 2.0) * levels).astype(int)
    codes[rng.random(codes.shape) < missing] = -1
    return CellTable.from_codes(codes, keys, population_size=900, missing=treatment)


def observed(model: Any, table: Any, n_sweeps: int) -> tuple[RiskMeasures, Any, list[Any]]:
    """Observe some states of one chain after some burn-in."""
    data, measures = model.prepare(table), RiskMeasures.of(table)
    state, totals, scalars = after(model, data, 20), measures.start(), []
    for sweep in range(21, 21 + n_sweeps):
        stream = Stream(3, 1, sweep)
        state, _ = model.step(stream, state, data, 1)
        scalars.append(measures.observe(stream, model, state, data, totals))
    return measures, totals, scalars


def test_the_grids_hold_no_error_and_are_ascending():
    assert SHIFTS[NONE] == 0.0
    assert (np.diff(SHIFTS) > 0).all()
    assert (np.diff(OVERDISPERSION) > 0).all()
    np.testing.assert_allclose(OVERDISPERSION[[0, -1]], [0.005, 2.0])
    # The index of a value is the same of persons and of households.
    np.testing.assert_array_equal(HOUSEHOLD_OVERDISPERSION[: len(OVERDISPERSION)], OVERDISPERSION)
    steps = np.diff(np.log(HOUSEHOLD_OVERDISPERSION))
    np.testing.assert_allclose(steps, steps[0], rtol=1e-9)


def test_it_is_a_model_as_others_are():
    model = spread()
    assert model.uncertainty in get_args(Uncertainty)
    assert model.uncertainty in CHAINS
    assert model.population == model.wrapped.population
    again = pickle.loads(pickle.dumps(model))
    assert again == model
    assert digest(again) == digest(model) != digest(calibrated({(0, NONE): 1.0}))


@pytest.mark.parametrize("zeros", [False, True])
def test_compiling_includes_the_wrapped_model(zeros):
    told = []

    class Compiled(LatentClass):
        def compile(self, zeros: bool = False) -> None:
            told.append(zeros)

    calibrated({(0, 0): 1.0}, wrapped=Compiled()).compile(zeros)
    assert told == [zeros]


@pytest.mark.parametrize("missing", ["integrate", "wildcard"])
def test_the_sampler_is_that_of_the_wrapped_model(missing):
    """States, and everything but the risk, to the last digit."""
    table = random_table(missing=0.1) if missing == "integrate" else random_table(missing=0.0)
    model, plain = spread(), LatentClass()
    data, bare = model.prepare(table), plain.prepare(table)
    assert data.n_records == table.n_records
    one, other = model.init(Stream(3, 1, 0), data), plain.init(Stream(3, 1, 0), bare)
    assert_same(one, other)
    for sweep in range(1, 6):
        stream = Stream(3, 1, sweep)
        (one, info), (other, expected) = (
            model.step(stream, one, data, 2),
            plain.step(stream, other, bare, 1),
        )
        assert_same(one, other)
        assert info == expected
        for method in ("cell_probabilities", "predictive_probabilities"):
            np.testing.assert_array_equal(
                getattr(model, method)(stream, one, data, table.cells),
                getattr(plain, method)(stream, other, bare, table.cells),
            )
        np.testing.assert_array_equal(
            model.impute(stream, one, data), plain.impute(stream, other, bare)
        )
        np.testing.assert_array_equal(
            model.simulate(stream, one, data, 9), plain.simulate(stream, other, bare, 9)
        )
    sweep_cost, cell_cost = plain.cost(bare)
    assert model.cost(data)[0] == sweep_cost
    assert model.cost(data)[1] > cell_cost


def mean_rates(p: float, data: Any) -> Any:
    """Rates of an empty cell under all pairs, (k, d): q / (1 + k_c n q) with q = exp(d) p."""
    q = np.exp(SHIFTS) * p
    spread = np.vectorize(naive.cell_overdispersion)(
        OVERDISPERSION[:, None], data.population_size * q
    )
    return q / (1.0 + spread * data.n_records * q)


def found_pair(model: Calibrated, data: Any, stream: Stream, size: int) -> tuple[int, ...]:
    """Indices of k and d: the only pair under which two empty cells have the rates they have."""
    p = np.full(size, 1e-3)
    p[-1] = 5e-3
    q = model.risk_probabilities(stream, data, p, np.zeros(size))
    away = [np.abs(mean_rates(p[i], data) / q[i] - 1.0) for i in (0, -1)]
    (pairs,) = np.argwhere(np.maximum(*away) < 1e-9)
    return tuple(pairs.tolist())


def test_both_calls_of_a_state_have_the_same_error():
    """Whatever the cells; other states and chains have others."""
    model = spread()
    data = model.prepare(random_table())
    first = [found_pair(model, data, Stream(1, 0, sweep), 2) for sweep in range(40)]
    second = [found_pair(model, data, Stream(1, 0, sweep), 30) for sweep in range(40)]
    other = [found_pair(model, data, Stream(1, 1, sweep), 2) for sweep in range(40)]
    assert first == second
    assert len(set(first)) > 20
    assert sum(a == b for a, b in zip(first, other, strict=True)) < 10


def test_the_pairs_of_draws_are_known_afterwards():
    model = spread()
    data = model.prepare(random_table())
    sweeps = range(3, 30, 3)
    found = [
        [found_pair(model, data, Stream(7, chain, sweep), 2) for sweep in sweeps]
        for chain in range(2)
    ]
    pairs = np.stack(np.divmod(model.pairs(7, 2, sweeps), len(SHIFTS)), axis=-1)
    np.testing.assert_array_equal(pairs, found)


@pytest.mark.statistical
def test_errors_are_drawn_by_their_weights():
    """Chi-square of three pairs over 3,000 sweeps, in the order k by k; false alarm 1e-6."""
    pairs = {(2, NONE): 3.0, (2, NONE + 3): 1.0, (20, 1): 2.0}
    model = calibrated(pairs)
    data = model.prepare(random_table())
    drawn = [found_pair(model, data, Stream(1, 0, sweep), 2) for sweep in range(3000)]
    assert set(drawn) == set(pairs)
    found = [drawn.count(pair) for pair in pairs]
    assert stats.chisquare(found, [1500, 500, 1000]).pvalue > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("index", [18, 31])
def test_risks_are_those_of_the_posterior_rates(index):
    """r1 of a cell seen once is the mean over its effect: z test over 4,000 cells, 1e-6.

    The second k is one of households.
    """
    model = calibrated({(index, NONE + 2): 1.0})
    k, d = HOUSEHOLD_OVERDISPERSION[index], SHIFTS[NONE + 2]
    table = random_table()
    data, n = model.prepare(table), table.n_records
    p, unobserved = 0.002, 900.0
    q = model.risk_probabilities(Stream(1, 0, 5), data, np.full(4000, p), np.ones(4000))
    r1, r2 = np.empty(4000), np.empty(4000)
    cells.cell_risk(np.full(4000, float(unobserved)), q, np.ones(4000), False, r1, r2)
    spread_k = naive.cell_overdispersion(float(k), table.population_size * math.exp(d) * p)
    g, weights = naive.effect_law(spread_k, [(1, n * math.exp(d) * p)])
    expected = weights @ np.exp(unobserved * np.log1p(-np.minimum(math.exp(d) * p * g, 1 - 1e-9)))
    error = r1.std(ddof=1) / math.sqrt(4000)
    assert abs(r1.mean() - expected) < stats.norm.isf(FALSE_ALARM / 2) * error


@pytest.mark.statistical
@pytest.mark.parametrize("of_classes", [False, True])
@pytest.mark.parametrize("counts", [1.0, 3.0])
@pytest.mark.parametrize("index", [15, 31])
def test_the_law_of_the_others_is_that_of_drawn_rates(of_classes, counts, index):
    """P(X = 0), E 1/F and E 1/F² of 8,000 cells (z tests; false alarm 1e-6 for each of the 24)."""
    n_cells = 8000
    model = calibrated({(index, NONE + 2): 1.0})
    data = model.prepare(random_table())
    look = Look(Stream(1, 0, 5), model, None, data)
    if of_classes:
        # Classes of 300 and 900 unobserved units, of which the cell is not equally likely.
        exposure = BySampling(
            unobserved=np.array([300.0, 900.0]), sizes=np.array([400.0, 1000.0]),
            share=np.full(2, 0.5), column=1, n_columns=2, appended=True, class_of=np.arange(2),
        )  # fmt: skip
        p, classes = np.array([[0.001, 0.006]]), np.arange(2)[None, :]
        one = ClassChances(np.array([0.0035]), p, classes)
        all_ = ClassChances(
            np.full(n_cells, 0.0035), np.repeat(p, n_cells, 0), np.repeat(classes, n_cells, 0)
        )
    else:
        exposure = EqualChances(unobserved=900.0)
        one, all_ = np.array([0.004]), np.full(n_cells, 0.004)
    seen = np.full(n_cells, counts)
    base, population = exposure.probabilities(all_), exposure.population(all_)
    q = look.erring(base, seen, population)
    rates = exposure.means(exposure.scaled(all_, q))
    f = counts + np.random.default_rng(8).poisson(rates)
    law = others(look, exposure, one, np.array([counts]))
    found = moments(look, exposure, one, np.array([counts]))
    np.testing.assert_array_equal(found.r1, law.alone)
    for drawn, said in ((f == counts, found.r1), (1 / f, found.r2), (1 / f**2, found.second)):
        error = drawn.std() / math.sqrt(n_cells)
        assert abs(drawn.mean() - said[0]) < stats.norm.isf(FALSE_ALARM / 2) * error


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_nearly_without_error_the_risk_is_nearly_that_of_the_model(missing):
    """k = 0.005: effects deviate by 7%, independently over 100 uniques and 30 draws."""
    table = sparse_table(missing)
    assert table.n_uniques > 50
    _, _, scalars = observed(calibrated({(0, NONE): 1.0}), table, 30)
    _, _, plain = observed(LatentClass(), table, 30)
    for tau in ("tau1_expected", "tau2_expected"):
        with_error = np.mean([scalar[tau] for scalar in scalars])
        without = np.mean([scalar[tau] for scalar in plain])
        assert without > 1.0
        assert math.isclose(with_error, without, rel_tol=0.02)
    # A level that is too high by a third is another matter.
    _, _, scalars = observed(calibrated({(0, NONE + 6): 1.0}), table, 30)
    higher = np.mean([scalar["tau1_expected"] for scalar in scalars])
    assert higher < 0.95 * np.mean([scalar["tau1_expected"] for scalar in plain])


@pytest.mark.parametrize("treatment", ["integrate", "wildcard"])
def test_no_key_left_out_raises_the_risk(treatment):
    """Whatever the error, a cell and those that join it have together more than the cell."""
    table = sparse_table(0.02, treatment)
    assert table.incomplete.any()
    measures, totals, scalars = observed(spread(), table, 64)
    assert (totals.key_draws > 0).all()
    drop = totals.key_whole[:, None] - totals.key_rest
    assert drop.min() >= 0.0
    assert drop.max() > 0.0
    assert len(measures.margins) > 20
    for scalar in scalars:
        assert 0.0 <= scalar["tau1"] <= scalar["tau2"] <= table.n_records
        assert scalar["tau1_model"] <= scalar["tau2_model"]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_measures_without_error_are_those_of_the_wrapped_model(missing):
    """In a run with the same seed, draw by draw."""
    table = sparse_table(missing)
    plan = Plan(n_chains=2, thin=2, stop=StopRule(ess=1e6, max_sweeps=60))
    runs = []
    for model in (spread(), LatentClass()):
        observer = observer_for(model, RiskMeasures.of(table), table)
        runs.append(sample(model, table, observer, seed=5, plan=plan, workers=HERE))
    ours, wrapped = runs
    for tau in ("tau1", "tau2"):
        expected = wrapped.scalars[tau]
        assert expected.shape == (2, 30)
        np.testing.assert_allclose(ours.scalars[f"{tau}_model"], expected, rtol=1e-12)
        assert (ours.scalars[tau] != expected).any()
        assert f"{tau}_model" not in wrapped.scalars
    assert set(ours.diagnostics) == {"tau1", "tau2", "tau1_model", "tau2_model"}
    assert set(wrapped.diagnostics) == {"tau1", "tau2"}


def test_numbers_do_not_depend_on_workers():
    table = sparse_table()
    plan = Plan(n_chains=2, thin=2, stop=StopRule(ess=1e6, max_sweeps=60))
    model = spread()
    observer = observer_for(model, RiskMeasures.of(table), table)
    one, other = (
        sample(model, table, observer, seed=5, plan=plan, workers=workers)
        for workers in (HERE, Workers(n_workers=2, n_threads=2))
    )
    assert set(one.scalars) == set(other.scalars)
    for name, draws in one.scalars.items():
        np.testing.assert_array_equal(draws, other.scalars[name])
    assert_same(one.totals, other.totals)


def test_what_is_said_of_the_choice_comes_with_what_the_model_says():
    told = SelectionFacts(chosen="b", candidates=(), not_fitted=(), warnings=("First.",))

    class Saying(LatentClass):
        def facts(self, data: Any) -> Facts:
            return AnyFacts(given={"chosen": "c", "fit": 2, "none": None}, warnings=("Second.",))

    known = {"chosen": "b", "candidates": [], "not_fitted": []}
    for wrapped, expected, warnings in (
        (LatentClass(), known, ("First.",)),
        (Saying(), {**known, "chosen": "c", "fit": 2}, ("First.", "Second.")),
    ):
        model = calibrated({(0, 0): 1.0}, wrapped=wrapped, told=told)
        found = model.facts(model.prepare(random_table()))
        assert (found.values, found.warnings) == (expected, warnings)


def test_every_member_of_the_contract_is_delegated():
    """But for what a model that sees keys does not have."""
    # The law of the rates of cells is a matter of models that see the weights of cells alone.
    without = {"has_cell_rates"}
    members = {
        name
        for kind in (Specified, Sampler, CellLaw, Simulator, GroupsLevels, OfHouseholds)
        for name, value in vars(kind).items()
        if name[0] != "_" and (callable(value) or isinstance(value, property))
    }
    assert members - set(vars(Calibrated)) == without
    model = calibrated({(0, 0): 1.0})
    assert not model.uses_weights
    assert not isinstance(model, (IntegratesRisk, Refits))
    data = model.prepare(random_table())
    wide = calibrated({(0, 0): 1.0}, wrapped=HDP())
    assert wide.state_bytes(wide.prepare(random_table())) > 0.0
    assert model.state_bytes(data) == 0.0
    assert model.simulation_cost(data, 10, 4) == LatentClass().simulation_cost(data.wrapped, 10, 4)
