"""Skinner-Holmes and Elamir-Skinner: moments, posterior rates against quadrature, simulation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from models.loglinear.test_maximum_likelihood import keys_of
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.terms import parse_terms
from unikat.models.named import build_model
from unikat.risk.measures import RiskMeasures

LEVELS = (3, 4, 3)
CELLS = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
BOTH = pytest.mark.parametrize("name", ["skinner-holmes", "elamir-skinner"])


def overdispersed(n: int = 120, seed: int = 4, missing: float = 0.0) -> CellTable:
    """A sample of independent keys whose cells have rates of their own."""
    rng = np.random.default_rng(seed)
    shares = [rng.dirichlet(np.full(k, 2.0)) for k in LEVELS]
    p = np.multiply.outer(np.multiply.outer(*shares[:2]), shares[2]).ravel()
    p *= rng.gamma(1.0, size=p.size)
    codes = CELLS[rng.choice(p.size, n, p=p / p.sum())].copy()
    codes[rng.random(codes.shape) < missing] = -1
    return CellTable.from_codes(codes, keys_of(LEVELS), population_size=6 * n)


def fitted_rates(table: CellTable) -> Any:
    names = [key.name for key in table.keys]
    fitted = fit(table, parse_terms("independence", names), tolerance=1e-8)
    return table.population_size * fitted.probabilities(CELLS)


def counts(table: CellTable) -> Any:
    found = np.zeros(len(CELLS))
    complete = ~table.incomplete
    place = np.ravel_multi_index(tuple(table.cells[complete].T), LEVELS)
    found[place] = table.counts[complete]
    return found


def expectation(name: str, rate: float, f: float, share: float, spread: float, of: Any) -> float:
    """E[of(lambda) | f] by a fine sum over u = log lambda, written from the densities."""
    u = np.linspace(-60.0, 25.0, 170_001)
    x = np.exp(u)
    if name == "elamir-skinner":
        prior = stats.gamma.logpdf(x, 1.0 / spread, scale=rate * spread) + u
    else:
        variance = math.log1p(spread)
        prior = stats.norm.logpdf(u, math.log(rate) - variance / 2.0, math.sqrt(variance))
    logs = prior + f * u - share * x
    weights = np.exp(logs - logs.max())
    return float(np.sum(weights * of(x)) / np.sum(weights))


@BOTH
def test_spread_is_that_of_the_moments(name: str) -> None:
    table = overdispersed()
    data = build_model(name, {"tolerance": 1e-8}).prepare(table)
    means = fitted_rates(table) * data.share
    f = counts(table)
    expected = np.sum((f - means) ** 2 - f) / np.sum(means**2)
    assert expected > 0.1
    assert math.isclose(data.overdispersion, expected, rel_tol=1e-7)
    parameter = math.log1p(expected) if name == "skinner-holmes" else expected
    assert math.isclose(data.parameter, parameter, rel_tol=1e-7)


@BOTH
def test_posterior_means_are_integrals(name: str) -> None:
    """Of the rate, and of exp(-theta lambda), against quadrature."""
    table = overdispersed()
    model: Any = build_model(name, {"tolerance": 1e-8})
    data = model.prepare(table)
    rates, f = fitted_rates(table), counts(table)
    chosen = [int(np.argmax(f)), int(np.argmin(f)), 7, 20]
    means = model._posterior_mean(data, rates[chosen], f[chosen])
    for i, mean in zip(chosen, means, strict=True):
        expected = expectation(name, rates[i], f[i], data.share, data.overdispersion, lambda x: x)
        assert math.isclose(mean, expected, rel_tol=1e-6)
    for theta in (0.01, 0.3, 2.0):
        none = model._log_none(data, rates[chosen], theta)
        for i, value in zip(chosen, none, strict=True):
            expected = expectation(
                name, rates[i], 0, data.share, data.overdispersion,
                lambda x, theta=theta: np.exp(-theta * x),
            )  # fmt: skip
            assert math.isclose(value, -math.log(expected), rel_tol=1e-6)


@pytest.mark.statistical
@BOTH
def test_risk_is_equation_4(name: str) -> None:
    """Mean r1 of cells over 4,000 draws against the integral (z test, false alarm 1e-6)."""
    table = overdispersed()
    model: Any = build_model(name, {"tolerance": 1e-8})
    data = model.prepare(table)
    rates, f = fitted_rates(table), counts(table)
    state = model.init(Stream(1, 0, 0), data)
    chosen = np.flatnonzero(f == 1)[:4]
    rest = 1.0 - data.share
    draws = np.array([
        model.cell_probabilities(Stream(1, 0, sweep), state, data, CELLS[chosen])
        for sweep in range(4_000)
    ])  # fmt: skip
    r1 = np.exp(-rest * table.population_size * draws)
    for i, values in zip(chosen, r1.T, strict=True):
        expected = expectation(
            name, rates[i], 1, data.share, data.overdispersion, lambda x: np.exp(-rest * x)
        )
        z = (values.mean() - expected) / (values.std() / math.sqrt(len(values)))
        assert 2 * stats.norm.sf(abs(z)) > 1e-6 / len(chosen), (expected, values.mean())


def test_simplified_forms() -> None:
    """Prior mean and plug-in, about the mean and about the median (paper 3, after eq. 4)."""
    table = overdispersed()
    rates = fitted_rates(table)
    p = rates / table.population_size
    variance = math.log1p(build_model("skinner-holmes", {}).prepare(table).overdispersion)
    factor = {
        ("prior-mean", "mean"): 1.0,
        ("plug-in", "mean"): math.exp(-variance / 2.0),
        ("prior-mean", "median"): math.exp(variance / 2.0),
        ("plug-in", "median"): 1.0,
    }
    for (form, centre), times in factor.items():
        model: Any = build_model("skinner-holmes", {"form": form, "centre": centre})
        data = model.prepare(table)
        state = model.init(Stream(1, 0, 0), data)
        got = model.cell_probabilities(Stream(1, 0, 3), state, data, CELLS)
        np.testing.assert_allclose(got, p * times, rtol=1e-4)


@pytest.mark.slow
@pytest.mark.statistical
@BOTH
@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_simulated_cells_share_their_rates(name: str, missing: float) -> None:
    """Mean and variance of the cells' counts over 1,500 new samples (z tests, false alarm 1e-6).

    The counts are mixed Poisson given that they add up to n: for a small cell the mean is n times
    its predictive probability, and the variance exceeds it by that of theta lambda.
    """
    table = overdispersed(missing=missing)
    model: Any = build_model(name, {})
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    n, n_samples = table.n_records, 1_500
    found = np.array([
        np.bincount(
            np.ravel_multi_index(
                tuple(model.simulate(Stream(2, 0, sweep), state, data, n).T), LEVELS
            ),
            minlength=len(CELLS),
        )
        for sweep in range(n_samples)
    ])  # fmt: skip
    assert (found.sum(axis=1) == n).all()
    p = model.predictive_probabilities(Stream(1, 0, 0), state, data, CELLS)
    empty = np.flatnonzero(counts(table) == 0.0)
    assert len(empty) >= 3
    # A ratio of random sums: the mean differs from n p by an order less than the error here.
    z = (found.mean(axis=0) - n * p) / (found.std(axis=0) / math.sqrt(n_samples))
    small = p < 0.05
    assert (2 * stats.norm.sf(np.abs(z[small])) > 1e-6 / small.sum()).all(), z
    rates = fitted_rates(table)[empty]
    theta = n / data.total
    second = np.array([
        expectation(name, rate, 0, data.share, data.overdispersion, lambda x: x * x)
        for rate in rates
    ])  # fmt: skip
    mean = n * p[empty]
    expected = mean.sum() + (theta**2 * second - mean**2).sum()
    squares = ((found[:, empty] - mean) ** 2).sum(axis=1)
    z = (squares.mean() - expected) / (squares.std() / math.sqrt(n_samples))
    assert 2 * stats.norm.sf(abs(z)) > 1e-6, (squares.mean(), expected)


def test_without_spread_it_is_the_plug_in() -> None:
    """Cells more even than chance: nothing is random, and the result says so."""
    codes = np.repeat(CELLS, 4, axis=0)
    table = CellTable.from_codes(codes, keys_of(LEVELS), population_size=1_000)
    for name in ("skinner-holmes", "elamir-skinner"):
        model: Any = build_model(name, {})
        data = model.prepare(table)
        assert data.overdispersion < 0.0
        assert data.parameter == 0.0
        facts = model.facts(data)
        assert "no spread" in facts.warnings[0]
        state = model.init(Stream(1, 0, 0), data)
        p = model.cell_probabilities(Stream(1, 0, 1), state, data, CELLS)
        np.testing.assert_allclose(p, 1.0 / len(CELLS))


@BOTH
def test_nothing_is_estimated_from_no_complete_record(name: str) -> None:
    codes = CELLS.copy()
    codes[np.arange(len(codes)), np.arange(len(codes)) % 3] = -1
    table = CellTable.from_codes(codes, keys_of(LEVELS), population_size=1_000)
    model: Any = build_model(name, {})
    data = model.prepare(table)
    assert data.overdispersion == 0.0
    assert "no spread" in model.facts(data).warnings[0]


@BOTH
def test_imputed_records_are_in_their_cells(name: str) -> None:
    """A cell whose records were imputed has the rate of a cell with records."""
    table = overdispersed(missing=0.3)
    model: Any = build_model(name, {})
    data = model.prepare(table)
    state = model.init(Stream(1, 0, 0), data)
    stream = Stream(1, 0, 4)
    imputed = model.impute(stream, state, data)
    complete = CellTable.from_codes(
        np.concatenate((np.repeat(data.cells, data.counts.astype(int), axis=0), imputed)),
        keys_of(LEVELS),
        table.population_size,
    )
    as_if = data._replace(
        cells=complete.cells, counts=complete.counts.astype(float), patterns=data.patterns[:0],
        pattern_counts=data.pattern_counts[:0],
    )  # fmt: skip
    np.testing.assert_array_equal(
        model.cell_probabilities(stream, state, data, CELLS),
        model.cell_probabilities(stream, state, as_if, CELLS),
    )


@BOTH
def test_incomplete_records_are_completed(name: str) -> None:
    """Missing keys are imputed by the fit; rates are learned from the complete records."""
    table = overdispersed(missing=0.15)
    model: Any = build_model(name, {})
    data = model.prepare(table)
    complete = ~table.incomplete
    assert math.isclose(data.share, table.counts[complete].sum() / table.population_size)
    measures = RiskMeasures.of(table)
    scalars = measures.observe(
        Stream(1, 0, 1), model, model.init(Stream(1, 0, 0), data), data, measures.start()
    )
    assert 0.0 < scalars["tau1_expected"] < table.n_records


@BOTH
@pytest.mark.parametrize(
    "bad", [{"terms": "select"}, {"terms": ""}, {"terms": 3}, {"tolerance": 0.0}]
)
def test_impossible_options_are_refused(name: str, bad: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(bad))):
        build_model(name, bad)


@pytest.mark.parametrize("bad", [{"form": "mean"}, {"centre": "mode"}])
def test_impossible_forms_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(SpecError, match=next(iter(bad))):
        build_model("skinner-holmes", bad)
