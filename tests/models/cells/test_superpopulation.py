"""Models I and II of Polettini and Stander: exact laws, risks, and the posterior behind them."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import superpopulation_twin as twin
from models.contract import random_table
from unikat.data.design import Sampling
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.models.cells.laws import lay_out
from unikat.models.cells.population_count import PopulationCount
from unikat.models.named import build_model
from unikat.risk.exposure import views
from unikat.risk.measures import RiskMeasures

ORACLE = Path(__file__).parents[4] / "shared" / "oracles" / "model1_polettini_stander.json"
LEVELS = (4, 5, 3)
CELLS = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
KEYS = [Key.of_size(f"K{j}", n) for j, n in enumerate(LEVELS)]
RATES = np.where(CELLS[:, 0] == 3, 0.2, 0.05)
"""Sampling rates of two strata."""


def table_of(counts: Any, population_size: int, weighted: bool = True) -> CellTable:
    """Tabulate counts of all 60 cells, with weights of two strata."""
    codes = np.repeat(CELLS, counts, axis=0)
    table = CellTable.from_codes(codes, KEYS, population_size)
    if not weighted:
        return table
    weights = np.repeat(1.0 / RATES, counts)
    strata = np.repeat((CELLS[:, 0] == 3).astype(np.int32), counts)
    _, strata = np.unique(strata, return_inverse=True)
    sizes = np.bincount(strata, weights)
    sampling = Sampling(
        weights=weights, strata=strata.astype(np.int32), sizes=sizes, from_weights=True
    )
    return replace(table, sampling=sampling)


def example(seed: int = 1, alpha: float = 0.4, population_size: int = 4_000) -> CellTable:
    rng = np.random.default_rng(seed)
    sizes = rng.poisson(population_size * rng.gamma(alpha, 1.0 / (60 * alpha), 60))
    counts = rng.binomial(sizes, RATES)
    return table_of(counts, population_size)


def started(name: str, options: dict[str, Any], table: CellTable) -> tuple[Any, Any, Any]:
    model: Any = build_model(name, options)
    data = model.prepare(table)
    return model, data, model.init(Stream(1, 0, 0), data)


# --- one cell ------------------------------------------------------------------------------------


def test_one_cell_is_that_of_the_oracle() -> None:
    """95 sets of parameters: E(1/F | f), P(f), E(F | f) to 1e-9, median and modes exactly."""
    if not ORACLE.exists():
        pytest.skip(f"{ORACLE} is not here: the oracle values are kept beside the checkout")
    rows = json.loads(ORACLE.read_text())["rows"]
    assert len(rows) == 95
    for row in rows:
        cell = PopulationCount(
            alpha=row["alpha"], a=row["a"], b=row["b"], population_size=row["N"],
            n_cells=row["K"], count=row["f"],
        )  # fmt: skip
        assert math.isclose(cell.mean_inverse, float(row["E_inv_F"]), rel_tol=1e-9)
        assert math.isclose(math.exp(cell.log_marginal), float(row["marginal_f"]), rel_tol=1e-9)
        assert math.isclose(cell.mean, float(row["mean_F"]), rel_tol=1e-9)
        assert cell.median == row["median_F"]
        tie = row["mode_tie_with"]
        assert cell.modes == tuple(sorted({row["mode_F"], tie or row["mode_F"]}))


SETS = [(0.92, 0.86, 80.0, 743.0), (0.1, 0.27, 79.73, 74.3), (5.0, 20.0, 3.0, 0.6)]


@pytest.mark.parametrize(("alpha", "a", "b", "mean"), SETS)
def test_distributions_sum_to_one_and_are_bayes_theorem(
    alpha: float, a: float, b: float, mean: float
) -> None:
    """Distributions 1 and 2 to 1e-10, the first against Bayes' theorem; the misprint is far off."""
    K = 100
    N = round(mean * K)

    def cell(f: int) -> PopulationCount:
        return PopulationCount(alpha=alpha, a=a, b=b, population_size=N, n_cells=K, count=f)

    for f in (0, 1, 2, 7):
        sizes = np.arange(f, 400_000)
        pmf = cell(f).pmf(sizes)
        s = N / (K * alpha)
        assert math.isclose(pmf.sum(), 1.0, rel_tol=1e-10)
        expected = twin.chance_of_size(sizes, f, alpha, a, b, s)
        kept = expected > 1e-250
        np.testing.assert_allclose(pmf[kept], expected[kept], rtol=1e-8)
        wrong = twin.chance_of_size(sizes, f, alpha, a, b, s, misprint=True)
        assert np.abs(pmf[:3] / wrong[:3] - 1.0).min() > 0.01
        assert math.isclose(cell(f).alone, pmf[0])
        assert cell(f).pmf([f - 1.0])[0] == 0.0
        below = np.cumsum(pmf)
        assert cell(f).median == f + int(np.argmax(below >= 0.5))
        assert f + int(np.argmax(pmf)) in cell(f).modes
        assert math.isclose(cell(f).mean, float(pmf @ sizes), rel_tol=1e-6)
        if f:
            assert math.isclose(cell(f).mean_inverse, float(pmf @ (1.0 / sizes)), rel_tol=1e-10)
    total = math.fsum(math.exp(cell(f).log_marginal) for f in range(3_000))
    top = twin.mean_over_p(
        a, b, lambda p: stats.nbinom.cdf(2_999, alpha, 1.0 / (1.0 + N / (K * alpha) * p))
    )
    assert math.isclose(total, top, rel_tol=1e-10)


@pytest.mark.statistical
def test_the_hierarchy_reproduces_the_risk() -> None:
    """E(1/F | f) and P(F = f | f) of 2 million cells drawn step by step (false alarm 1e-6)."""
    rng = np.random.default_rng(5)
    for alpha, a, b, mean in SETS:
        N, K = round(mean * 1_000), 1_000
        sizes, counts = twin.hierarchy(rng, 700_000, alpha, a, b, N, K)
        for f in (1, 2, 3):
            cell = PopulationCount(alpha=alpha, a=a, b=b, population_size=N, n_cells=K, count=f)
            inverse = 1.0 / sizes[counts == f]
            n = len(inverse)
            assert n > 1_000
            z = (inverse.mean() - cell.mean_inverse) / (inverse.std() / math.sqrt(n))
            assert 2 * stats.norm.sf(abs(z)) > 1e-6 / 18, (alpha, f, z)
            alone = int((sizes[counts == f] == f).sum())
            assert stats.binomtest(alone, n, cell.alone).pvalue > 1e-6 / 18, (alpha, f)


def test_one_cell_refuses_what_it_cannot_be() -> None:
    good = {"alpha": 1.0, "a": 1.0, "b": 1.0, "population_size": 10, "n_cells": 5, "count": 1}
    for name, bad in [("alpha", 0.0), ("b", math.inf), ("count", -1), ("count", 1.5), ("a", True)]:
        with pytest.raises(SpecError, match=name):
            PopulationCount(**{**good, name: bad})  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="at least 1"):
        _ = PopulationCount(**{**good, "count": 0}).mean_inverse  # type: ignore[arg-type]


# --- the models ---------------------------------------------------------------------------------

GIVEN: dict[str, dict[str, Any]] = {
    "superpopulation-1": {"alpha": 0.4, "a": 3.0, "b": 40.0},
    "superpopulation-2": {"alpha": 0.3, "a": 80.0, "gamma": 0.7},
}
MODELS = pytest.mark.parametrize("name", GIVEN)


def cells_of(name: str, table: CellTable, options: dict[str, Any]) -> list[PopulationCount]:
    """Each cell by itself."""
    found = []
    for f, weight in zip(table.counts.tolist(), table.cell_weights.tolist(), strict=True):
        rate = f / weight
        two = name == "superpopulation-2"
        a = options["a"] * rate if two else options["a"]
        b = options["a"] * (1.0 - rate) if two else options["b"]
        found.append(PopulationCount(
            alpha=options["alpha"], a=a, b=b, population_size=table.population_size, n_cells=60,
            count=f,
        ))  # fmt: skip
    return found


@MODELS
def test_risks_of_records_are_those_of_their_cells(name: str) -> None:
    table = example()
    model, data, state = started(name, GIVEN[name], table)
    assert model.uncertainty == "empirical-bayes"
    f = table.counts.astype(float)
    r1, r2 = model.integrated_risk(Stream(1, 0, 1), state, data, table.cells, f)
    single = cells_of(name, table, GIVEN[name])
    np.testing.assert_allclose(r1, [cell.alone for cell in single], rtol=1e-7, atol=1e-300)
    np.testing.assert_allclose(r2, [cell.mean_inverse for cell in single], rtol=1e-7)
    nothing = model.integrated_risk(Stream(1, 0, 1), state, data, table.cells[:0], f[:0])
    assert [len(part) for part in nothing] == [0, 0]


@MODELS
@pytest.mark.statistical
def test_drawn_rates_have_the_integrated_risks(name: str) -> None:
    """Mean r1 and r2 over 3,000 draws of the rates (z tests, false alarm 1e-6)."""
    table = example()
    model, data, state = started(name, GIVEN[name], table)
    unobserved = table.population_size - table.n_records
    chosen = table.cells[table.unique][:6]
    expected = model.integrated_risk(Stream(1, 0, 1), state, data, chosen, np.ones(len(chosen)))
    rates = unobserved * np.array([
        model.cell_probabilities(Stream(2, 0, sweep), state, data, chosen)
        for sweep in range(3_000)
    ])  # fmt: skip
    drawn = np.exp(-rates), -np.expm1(-rates) / rates
    for got, mean in zip(drawn, expected, strict=True):
        z = (got.mean(axis=0) - mean) / (got.std(axis=0) / math.sqrt(len(got)))
        assert (2 * stats.norm.sf(np.abs(z)) > 1e-6 / 24).all(), z


@MODELS
@pytest.mark.statistical
def test_means_are_those_of_the_draws(name: str) -> None:
    """Of cells with and without records, and of a margin (z tests, false alarm 1e-6)."""
    table = example()
    model, data, state = started(name, GIVEN[name], table)
    margin = np.array([[1, -1, -1], [-1, -1, -1]], np.int32)
    cells = np.concatenate((CELLS, margin))
    draws = np.array([
        model.cell_probabilities(Stream(2, 0, sweep), state, data, cells) for sweep in range(2_000)
    ])  # fmt: skip
    law = model._law(state.position)
    total = model._means(law, data)[2] / (table.population_size - table.n_records)
    means = total * model.predictive_probabilities(Stream(1, 0, 1), state, data, cells)
    z = (draws.mean(axis=0) - means) / (draws.std(axis=0) / math.sqrt(len(draws)))
    assert (2 * stats.norm.sf(np.abs(z)) > 1e-6 / 124).all(), z


def test_likelihoods_are_the_equations() -> None:
    """Distributions 2 and 3 over all cells, term by term."""
    table = example()
    f = table.counts
    for options in ({"alpha": 0.4, "a": 3.0, "b": 40.0}, {"alpha": 2.0, "a": 0.5, "b": 9.0}):
        model, data, state = started("superpopulation-1", options, table)
        expected = twin.log_likelihood_1(f, 60, *options.values(), N=table.population_size)
        got = model._log_likelihood(state.position, data)
        assert math.isclose(got, expected, rel_tol=1e-8), options
    rates = f / table.cell_weights
    points, times = np.unique(rates.round(10), return_counts=True)
    assert len(points) == 2
    for alpha, a, gamma in [(0.3, 80.0, 0.7), (1.5, 900.0, 1.0)]:
        options = {"alpha": alpha, "a": a, "gamma": gamma}
        model, data, state = started("superpopulation-2", options, table)
        expected = twin.log_likelihood_2(
            f, rates, points, times / len(f), 60, alpha, a, gamma, table.population_size
        )  # fmt: skip
        assert math.isclose(model._log_likelihood(state.position, data), expected, rel_tol=1e-8)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "options"),
    [("superpopulation-1", {"b": 60.0}), ("superpopulation-1", {"alpha": 0.4}),
     ("superpopulation-2", {"a": 90.0}), ("superpopulation-2", {"gamma": 1.0})],
)  # fmt: skip
def test_hyperparameters_are_drawn_from_their_posterior(name: str, options: dict[str, Any]) -> None:
    """Means and spreads of the two that are free, against a grid (z tests, false alarm 1e-6)."""
    table = example(seed=3)
    model, data, state = started(name, options, table)
    free = data.proposal.free
    assert len(free) == 2
    centre = data.proposal.modes[0].copy()
    widths = np.sqrt(np.diag(data.proposal.roots[0] @ data.proposal.roots[0].T))
    axes = [
        centre[i] + np.linspace(-6.0, 6.0, 49) * width
        for i, width in zip(free, widths, strict=True)
    ]
    values = np.array([
        model._value(np.array([
            {free[0]: x, free[1]: y}.get(i, centre[i]) for i in range(3)
        ]), data)
        for x, y in itertools.product(*axes)
    ])  # fmt: skip
    weights = np.exp(values - values.max()).reshape(49, 49)
    weights /= weights.sum()
    assert max(weights[0].sum(), weights[-1].sum(), weights[:, 0].sum()) < 1e-4
    n = 1_200
    draws = np.empty((n, 2))
    for sweep in range(n):
        state, _ = model.step(Stream(1, 0, sweep + 1), state, data, 1)
        draws[sweep] = state.position[free]
    for k in range(2):
        mass = weights.sum(axis=1 - k)
        mean = float(mass @ axes[k])
        square = float(mass @ (axes[k] - mean) ** 2)
        for got, expected in ((draws[:, k], mean), ((draws[:, k] - mean) ** 2, square)):
            batches = got[200:].reshape(-1, 40).mean(axis=1)
            z = (batches.mean() - expected) / (batches.std(ddof=1) / math.sqrt(len(batches)))
            assert 2 * stats.t.sf(abs(z), len(batches) - 1) > 1e-6 / 16, (k, z)


@pytest.mark.statistical
@MODELS
def test_hyperparameters_are_calibrated(name: str) -> None:
    """Ranks of the truth among draws are uniform: 48 tables from the prior (false alarm 1e-6)."""
    rng = np.random.default_rng(11)
    tight = {"alpha_spread": 0.7, "shape_spread": 0.7}
    model: Any = build_model(name, tight)
    N, n_prior, n_draws = 4_000, 250.0, 7
    ranks = []
    template = lay_out(example(), None, model.has_cell_rates)
    while len(ranks) < 48:
        prior = model._hyperparameters(n_prior / N, n_prior / 60)
        alpha, a = np.exp(np.array(prior.centre[:2]) + 0.7 * rng.standard_normal(2))
        if name == "superpopulation-1":
            third = math.log(a) - prior.centre[2] - prior.spread[2] * rng.standard_normal()
            truth = np.array([math.log(alpha), math.log(a), third])
            p = rng.beta(a, math.exp(third), 60)
        else:
            third = rng.beta(1.0, 1.0)
            truth = np.array([math.log(alpha), math.log(a), math.log(third / (1.0 - third))])
            rate = rng.choice([0.05, 0.2], 60)
            p = rng.beta(a * rate, a * (1.0 - rate)) * (rng.random(60) < third)
        f = rng.binomial(rng.poisson(N * rng.gamma(alpha, 1.0 / (60 * alpha), 60)), p)
        if not f.any():
            continue
        some = f > 0
        pairs = np.stack((f[some], rate[some] if name[-1] == "2" else np.ones(some.sum())), 1)
        pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
        data = template._replace(
            population_size=float(N), n_records=n_prior, counts=f[some].astype(float),
            pair_counts=pairs[:, 0].copy(), pair_rates=pairs[:, 1].copy(),
            times=np.ones(len(pairs)), points=np.array([0.05, 0.2])[: 1 + (name[-1] == "2")],
            chances=np.array([[1.0], [0.5, 0.5]][name[-1] == "2"]),
        )  # fmt: skip
        likelihood = lambda there, data=data: model._log_likelihood(there, data)  # noqa: E731
        data = data._replace(proposal=prior.explore(likelihood))
        state = model.init(Stream(len(ranks), 0, 0), data)
        draws = []
        for sweep in range(1, n_draws + 9):
            state, _ = model.step(Stream(len(ranks), 0, sweep), state, data, 1)
            if sweep > 8:
                draws.append(state.position)
        ranks.append((np.array(draws) < truth).sum(axis=0))
    for coordinate in np.array(ranks).T:
        observed = np.bincount(coordinate * 4 // (n_draws + 1), minlength=4)
        assert stats.chisquare(observed).pvalue > 1e-6 / 3, observed


@MODELS
def test_the_paper_s_hyperparameters_are_nearly_on_the_prior(name: str) -> None:
    """What is drawn is proper and can be told: prior medians stand in the facts."""
    table = example()
    model, data, _ = started(name, {}, table)
    facts = model.facts(data)
    told = facts.values["hyperparameters"]
    assert told["alpha"]["prior"] == "lognormal"
    assert facts.values["occupied"] + facts.values["empty"] == 60
    assert not facts.warnings
    given, data, _ = started(name, GIVEN[name], table)
    assert given.facts(data).values["hyperparameters"]["alpha"] == {"given": GIVEN[name]["alpha"]}
    assert model.uncertainty == "posterior"
    sums = [model._parameters(data).log_prior(np.full(3, x)) for x in (-61.0, 61.0)]
    assert sums == [-math.inf, -math.inf]


def test_cells_that_are_sampled_whole_are_told() -> None:
    counts = np.where(np.arange(60) < 30, 2, 0)
    table = table_of(counts, 100, weighted=False)
    weights = np.where(np.arange(60) < 20, 1.0, 4.0)[: table.n_records]
    whole = replace(
        table,
        sampling=Sampling(
            weights=weights, strata=np.zeros(60, np.int32), sizes=np.array([100.0]),
            from_weights=True,
        ),
    )  # fmt: skip
    model, data, state = started("superpopulation-2", {"a": 1e4, "gamma": 1.0}, whole)
    assert "10 cells" in model.facts(data).warnings[0]
    f = whole.counts.astype(float)
    _, r2 = model.integrated_risk(Stream(1, 0, 1), state, data, whole.cells, f)
    np.testing.assert_allclose(r2[:10], 0.5, rtol=1e-2)
    assert (r2[10:] < 0.4).all()


@MODELS
def test_a_census_has_nobody_else(name: str) -> None:
    """N = n: all is known, and the measures have it so."""
    table = table_of(np.where(np.arange(60) < 30, 1, 0), 30, weighted=False)
    model, data, state = started(name, {}, table)
    measures = RiskMeasures.of(table)
    seen = measures.observe(Stream(1, 0, 1), model, state, data, measures.start())
    assert seen["tau1"] == seen["tau1_expected"] == 30.0


@MODELS
def test_incomplete_records_count_in_their_imputed_cells(name: str) -> None:
    table = random_table()
    model, data, state = started(name, {}, table)
    complete = ~table.incomplete
    assert math.isclose(data.share, table.counts[complete].sum() / table.n_records)
    imputed = model.impute(Stream(1, 0, 4), state, data)
    everybody = np.concatenate(
        (np.repeat(table.cells[complete], table.counts[complete], 0), imputed)
    )
    as_if = CellTable.from_codes(everybody, table.keys, table.population_size)
    f = as_if.counts.astype(float)
    got = model.integrated_risk(Stream(1, 0, 4), state, data, as_if.cells, f)
    # The state stands for the same hyperparameters, whatever they were learned from.
    whole = lay_out(as_if, None, model.has_cell_rates)
    expected = model.integrated_risk(Stream(1, 0, 4), state, whole, as_if.cells, f)
    for mine, theirs in zip(got, expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9)
    pattern = as_if.cells[:3].copy()
    pattern[:, 1] = -1
    r1, r2 = model.integrated_risk(Stream(1, 0, 4), state, data, pattern, np.full(3, 2.0))
    p = model.cell_probabilities(Stream(1, 0, 4), state, data, pattern)
    unobserved = table.population_size - table.n_records
    np.testing.assert_allclose(r1, np.exp(-unobserved * p), rtol=1e-9)
    assert ((r2 > 0.0) & (r2 <= 0.5)).all()


@MODELS
def test_fewer_cells_than_combinations(name: str) -> None:
    """K given: the empty cells are spread over the possible combinations."""
    table = example()
    occupied = table.n_cells
    options = GIVEN[name] | {"n_cells": occupied + 3}
    model, data, state = started(name, options, table)
    p = model.predictive_probabilities(Stream(1, 0, 1), state, data, CELLS)
    assert math.isclose(p.sum(), 1.0, rel_tol=1e-12)
    law = model._law(state.position)
    means, each, total = model._means(law, data)
    assert math.isclose(total, means.sum() + each * (60 - occupied), rel_tol=1e-12)
    full = started(name, GIVEN[name] | {"n_cells": occupied}, table)
    p = full[0].predictive_probabilities(Stream(1, 0, 1), full[2], full[1], CELLS)
    assert (p == 0.0).sum() == 60 - occupied
    assert len(full[0].simulate(Stream(1, 0, 1), full[2], full[1], 50)) == 50
    for bad in (occupied - 1, 61):
        with pytest.raises(SpecError, match="n_cells"):
            build_model(name, {"n_cells": bad}).prepare(table)


@pytest.mark.statistical
@MODELS
def test_simulated_cells_share_their_rates(name: str) -> None:
    """Means of cells over 1,500 new samples, and cells that are met twice (z, false alarm 1e-6)."""
    table = example()
    model, data, state = started(name, GIVEN[name], table)
    n, n_samples = 100, 1_500
    found = np.array([
        np.bincount(
            np.ravel_multi_index(
                tuple(model.simulate(Stream(2, 0, sweep), state, data, n).T), LEVELS
            ),
            minlength=60,
        )
        for sweep in range(n_samples)
    ])  # fmt: skip
    assert (found.sum(axis=1) == n).all()
    p = model.predictive_probabilities(Stream(1, 0, 0), state, data, CELLS)
    # A ratio of random sums: for a small cell its mean differs from n p by less than the error.
    small = p < 0.02
    z = (found.mean(axis=0) - n * p) / np.maximum(found.std(axis=0) / math.sqrt(n_samples), 1e-9)
    assert small.sum() > 20
    assert (2 * stats.norm.sf(np.abs(z[small])) > 1e-6 / 60).all(), z
    empty = np.ones(60, bool)
    empty[np.ravel_multi_index(tuple(table.cells.T), LEVELS)] = False
    # Were they independent, an empty cell's count would be Poisson, or less spread.
    assert found[:, empty].var(axis=0).mean() > 1.5 * found[:, empty].mean()


@MODELS
def test_observed_measures_are_in_order(name: str) -> None:
    table = example()
    model, data, state = started(name, {}, table)
    measures = RiskMeasures.of(views(model, table)[1])
    totals = measures.start()
    for sweep in range(1, 30):
        state, info = model.step(Stream(1, 0, sweep), state, data, 1)
        seen = measures.observe(Stream(1, 0, sweep), model, state, data, totals)
    assert 0.0 < seen["tau1_expected"] < seen["tau2_expected"] < table.n_uniques
    assert set(info.values) == {"alpha", "a", "b" if name[-1] == "1" else "gamma"}


@pytest.mark.parametrize(
    ("name", "bad"),
    [("superpopulation-1", {"alpha": 0.0}), ("superpopulation-1", {"b": -1.0}),
     ("superpopulation-1", {"mean_spread": 0.0}), ("superpopulation-2", {"gamma": 1.1}),
     ("superpopulation-2", {"shape": math.nan}), ("superpopulation-2", {"gamma_a": 0.0}),
     ("superpopulation-2", {"n_cells": True})],
)  # fmt: skip
def test_impossible_options_are_refused(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(bad))):
        build_model(name, bad)


def test_model_one_with_rates_of_the_cells_is_model_two_that_can_sample_every_cell() -> None:
    """Eq. 4 with a_k = a q_k and b_k = a (1 - q_k), drawn and given."""
    table = example()
    counts = table.counts.astype(np.float64)
    for given in ({}, {"a": 80.0}, {"alpha": 0.3, "a": 80.0}):
        found = []
        for name, options in (("1", {"rates": "cell"}), ("2", {"gamma": 1.0})):
            model: Any = build_model(f"superpopulation-{name}", {**given, **options})
            data = model.prepare(table)
            state = model.init(Stream(1, 0, 0), data)
            state, info = model.step(Stream(1, 0, 1), state, data, 1)
            found.append(model.integrated_risk(Stream(1, 0, 1), state, data, table.cells, counts))
            assert set(info.values) == {"alpha", "a"} | ({"gamma"} if name == "2" else set())
            assert model.uncertainty == ("posterior" if len(given) < 2 else "empirical-bayes")
        np.testing.assert_array_equal(*found)


def test_the_likelihood_of_cells_with_laws_of_their_own_is_that_of_each() -> None:
    """Eq. 11; an empty cell has the mixture of the rates of the others."""
    table = example()
    model: Any = build_model("superpopulation-1", {"rates": "cell", "alpha": 0.3, "a": 80.0})
    data = lay_out(table, None, by_rate=True)

    def log_chance(count: int, rate: float) -> float:
        return PopulationCount(
            alpha=0.3, a=80.0 * rate, b=80.0 * (1.0 - rate), n_cells=60, count=count,
            population_size=table.n_units,
        ).log_marginal  # fmt: skip

    rates = table.counts / table.cell_weights
    want = sum(map(log_chance, table.counts.tolist(), rates.tolist()))
    none = sum(
        chance * math.exp(log_chance(0, rate))
        for rate, chance in zip(data.points.tolist(), data.chances.tolist(), strict=True)
    )
    want += (60 - table.n_cells) * math.log(none)
    position = np.array([math.log(0.3), math.log(80.0), 0.0])
    np.testing.assert_allclose(model._log_likelihood(position, data), want, rtol=1e-8)


def test_a_given_b_and_rates_of_the_cells_contradict() -> None:
    with pytest.raises(SpecError, match="Leave b out"):
        build_model("superpopulation-1", {"rates": "cell", "b": 80.0})
    with pytest.raises(SpecError, match="rates"):
        build_model("superpopulation-1", {"rates": "cells"})


def test_priors_are_those_that_are_told() -> None:
    """Differences of the log density, against the laws in words."""
    here, there = np.array([-1.0, 4.0, 0.7]), np.array([0.4, 7.5, -1.1])
    one: Any = build_model("superpopulation-1", {})._hyperparameters(0.05, 4.0)
    two: Any = build_model("superpopulation-2", {"gamma_a": 2.0, "gamma_b": 3.0})
    two = two._hyperparameters(0.05, 0.5)

    def first(x: Any) -> float:
        alpha = stats.norm.logpdf(x[0], 0.0, 2.0)
        a = stats.norm.logpdf(x[1], math.log(10.0), 1.0)
        return alpha + a + stats.norm.logpdf(x[1] - x[2], math.log(0.05 / 0.95), 0.5)

    def second(x: Any) -> float:
        alpha = stats.norm.logpdf(x[0], math.log(0.5), 2.0)
        a = stats.norm.logpdf(x[1], math.log(10.0 / 0.05), 1.0)
        gamma = 1.0 / (1.0 + math.exp(-x[2]))
        return alpha + a + stats.beta.logpdf(gamma, 2.0, 3.0) + math.log(gamma * (1.0 - gamma))

    for got, expected in ((one, first), (two, second)):
        change = got.log_prior(there) - got.log_prior(here)
        assert math.isclose(change, expected(there) - expected(here), rel_tol=1e-12)


def test_every_option_is_documented(capsys: Any) -> None:
    guide = (Path(__file__).parents[3] / "docs" / "models.md").read_text(encoding="utf-8")
    section = guide.partition("## Superpopulation models")[2]
    options = {
        field.name for name in GIVEN for field in dataclasses.fields(build_model(name, {}))
    }  # fmt: skip
    assert sorted(name for name in options if f"`{name}`" not in section) == []
    example = section.partition("```python")[2].partition("```")[0]
    exec(compile(example, "models.md", "exec"), {})
    assert capsys.readouterr().out == "E(1/F) 0.017, alone 0.003, median 373\n"


def test_a_likelihood_without_a_value_is_told():
    model = build_model("superpopulation-1", {})
    parameters = model._hyperparameters(0.1, 0.5)
    with pytest.raises(SpecError, match="no finite value near the hyperparameters"):
        parameters.explore(lambda position: math.nan)
