"""The log-linear model behind the contract: what it says of its fit, and refits."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import unikat
from models.contract import N_LEVELS, random_table
from models.loglinear.test_maximum_likelihood import keys_of, random_counts, table_of
from models.loglinear.test_selection import table_of_two_pairs
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.models.loglinear import conditional as loglinear
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.loglinear.decomposable import DecomposableFit
from unikat.models.loglinear.factored import Fit
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.selection import evidence
from unikat.models.loglinear.terms import all_interactions
from zeros.enumeration import all_cells


def prepared(model: LogLinear, table: CellTable) -> tuple[Any, dict[str, Any], tuple[str, ...]]:
    data = model.prepare(table)
    facts = model.facts(data)
    return data, facts.values, facts.warnings


def test_facts_of_given_terms():
    table = random_table(missing=0.0)
    data, values, _ = prepared(LogLinear(), table)
    assert values["terms"] == "two-way"
    assert values["cells"] == data.fit.n_cells <= 48
    assert values["zero_margins"] == data.fit.n_zero_margins == 0
    assert values["margin_error"] <= 1e-4
    found = evidence(table, data.fit)
    assert (values["B1"], values["B2"]) == (found.b1, found.b2)
    assert "path" not in values
    assert prepared(LogLinear(terms="K3:K1"), table)[1]["terms"] == "K0 + K1:K3 + K2"
    _, values, _ = prepared(LogLinear(terms="K0:K1:K2:K3"), table)
    assert values["zero_margins"] == 48 - table.n_cells == 48 - values["cells"] > 0


def test_facts_of_a_selection():
    table = table_of_two_pairs()
    data, values, warnings = prepared(LogLinear(terms="select", criterion="B2"), table)
    assert values["terms"] == "K0:K1 + K2:K3 + K4"
    assert values["criterion"] == "B2"
    assert [step["added"] for step in values["path"]] == ["independence", "K0:K1", "K2:K3"]
    assert values["path"][-1]["B2"] == data.path[-1].evidence.b2 <= 1.645 < values["path"][-2]["B2"]
    assert all({"B1", "B2", "tau1", "tau2"} < set(step) for step in values["path"])
    assert [step["held_out"] for step in values["path"]] == [step.score for step in data.path]
    assert values["path"][0]["gain"] is None
    assert warnings == ()
    # The model that was selected is the one that is used.
    np.testing.assert_allclose(
        data.fit.probabilities(table.cells),
        fit(table, ((0, 1), (2, 3), (4,)), tolerance=1e-6).probabilities(table.cells),
        rtol=1e-3,
    )


def test_a_selection_by_held_out_score_names_it_and_keeps_the_test_of_fit():
    table = table_of_two_pairs()
    _, values, warnings = prepared(LogLinear(terms="select", criterion="held-out"), table)
    assert values["terms"] == "K0:K1 + K2:K3 + K4"
    assert values["criterion"] == "held-out"
    assert warnings == ()
    model = LogLinear(terms="select", criterion="held-out", underfitting=1e6)
    assert prepared(model, table)[1]["terms"] == "independence"


@pytest.mark.parametrize("criterion", ["B1", "B2"])
def test_underfitting_is_told(criterion):
    table = table_of_two_pairs()
    options: dict[str, Any] = {"terms": "independence", "criterion": criterion}
    _, values, (warning,) = prepared(LogLinear(**options), table)
    assert f"{criterion}/√ν = {values[criterion]:.1f}, above 1.645" in warning
    assert "can be too high or too low" in warning
    assert prepared(LogLinear(**options, underfitting=30.0), table)[2] == ()
    assert prepared(LogLinear(terms="K0:K1 + K2:K3", criterion=criterion), table)[2] == ()


def test_a_fit_that_did_not_arrive_is_told(monkeypatch):
    monkeypatch.setattr("unikat.models.loglinear.maximum_likelihood._MOST_WALKS", 2)
    _, values, warnings = prepared(LogLinear(tolerance=1e-6), random_table())
    assert f"stopped {values['margin_error']:.2g} records from" in warnings[0]
    assert "the tolerance of 1e-06" in warnings[0]


def test_unknown_keys_are_refused_with_a_suggestion():
    with pytest.raises(SpecError, match="there is no key 'k1'"):
        LogLinear(terms="K0:k1").prepare(random_table())


@pytest.mark.parametrize("terms", ["independence", "K0:K1:K2 + K3", "two-way"])
def test_a_refit_is_the_fit_of_the_same_terms_to_another_table(terms):
    """Within what the margins' tolerance of 0.01 records leaves open."""
    model = LogLinear(terms=terms)
    data = model.prepare(random_table())
    other = random_table(n=301, missing=0.1)
    again = model.refit(other, data)
    assert isinstance(again.fit, Fit)
    incomplete = other.incomplete
    np.testing.assert_array_equal(again.patterns, other.cells[incomplete])
    np.testing.assert_array_equal(again.counts, other.counts[incomplete])
    assert again.names == data.names
    cells = all_cells(N_LEVELS)
    np.testing.assert_allclose(
        again.fit.probabilities(cells) * 301,
        model.prepare(other).fit.probabilities(cells) * 301,
        atol=0.05,
    )


def test_selected_terms_are_kept_in_a_refit():
    table = table_of_two_pairs()
    model = LogLinear(terms="select")
    data = model.prepare(table)
    rng = np.random.default_rng(1)
    shuffled = np.repeat(table.cells, table.counts, axis=0)
    for j in range(5):
        shuffled[:, j] = rng.permutation(shuffled[:, j])
    other = CellTable.from_codes(shuffled, table.keys, table.population_size)
    again = model.refit(other, data)
    theirs = fit(other, data.path[-1].generators, tolerance=1e-3)
    np.testing.assert_allclose(
        again.fit.probabilities(other.cells), theirs.probabilities(other.cells), rtol=1e-2
    )


def test_the_closed_form_is_for_complete_tables_without_zeros(monkeypatch):
    """Where there are more cells than the walk takes; else it is too large."""
    monkeypatch.setattr(loglinear, "MOST_CELLS", 40)
    monkeypatch.setattr("unikat.models.loglinear.maximum_likelihood.MOST_CELLS", 40)
    table = random_table(missing=0.0)
    model = LogLinear(terms="independence")
    data, values, warnings = prepared(model, table)
    assert isinstance(data.fit, DecomposableFit)
    assert values == {"terms": "independence"}
    assert warnings == ()
    assert data.path == ()
    assert data.evidence is None
    stream = Stream(1, 0, 0)
    assert model.impute(stream, model.init(stream, data), data).shape == (0, 4)
    again = model.refit(random_table(n=77, missing=0.0), data)
    assert isinstance(again.fit, DecomposableFit)
    assert again.fit.counts.sum() == 77
    for other in (random_table(), table):
        with pytest.raises(SpecError, match="more than 40 cells"):
            LogLinear(terms="independence", smoothing=float(other is table)).prepare(other)


def test_imputed_records_have_the_law_of_the_fit():
    """Mean of 400 imputations against the expected counts: z tests, false alarm 1e-6 in total."""
    table = random_table()
    model = LogLinear(terms="K0:K1 + K2:K3 + K1:K2")
    data = model.prepare(table)
    cells = all_cells(N_LEVELS)
    p = model.cell_probabilities(Stream(1, 0, 0), model.init(Stream(1, 0, 0), data), data, cells)
    expected = np.zeros(len(cells))
    variance = np.zeros(len(cells))
    for pattern, n in zip(table.cells, table.counts, strict=True):
        if (pattern < 0).any():
            law = p * ((pattern < 0) | (cells == pattern)).all(axis=1)
            law /= law.sum()
            expected += n * law
            variance += n * law * (1.0 - law)
    total = np.zeros(len(cells))
    for sweep in range(400):
        stream = Stream(1, 0, sweep)
        drawn = model.impute(stream, model.init(stream, data), data)
        total += np.bincount(np.ravel_multi_index(tuple(drawn.T), N_LEVELS), minlength=48)
    assert total[variance == 0.0].sum() == 0
    there = variance > 0.05
    z = (total - 400 * expected)[there] / np.sqrt(400 * variance[there])
    assert np.abs(z).max() < 6.0


@pytest.mark.parametrize("interval", ["conditional", "bootstrap"])
def test_the_risk_can_be_assessed(interval):
    """Through the public door; tau's expected value is that of the formulas."""
    counts = random_counts(np.random.default_rng(3), (5, 4, 6), 0.7)
    table = table_of(counts)
    model = LogLinear(terms="independence", interval=interval)
    plan = Plan(n_chains=2, thin=1, stop=StopRule(max_sweeps=40))
    fitted = unikat.fit(model, table, seed=1, plan=plan)
    draws, estimate = fitted.draws, fitted.estimate()
    assert 0 <= estimate.tau1.mean <= table.n_uniques
    n = table.n_records
    shares = [counts.sum(axis=tuple({0, 1, 2} - {j})) / n for j in range(3)]
    p = np.einsum("a,b,c->abc", *shares)[counts == 1]
    exact = np.exp(-(table.population_size - n) * p).sum()
    if interval == "conditional":
        np.testing.assert_allclose(draws.retained("tau1_expected"), exact, rtol=1e-3)


def test_a_table_of_one_key():
    table = CellTable.from_codes([[0], [0], [1], [3]], [Key.of_size("A", 4)], 40)
    for terms in ("independence", "two-way", "select", "A"):
        data, values, _ = prepared(LogLinear(terms=terms), table)
        assert values["terms"] == "independence"
        p = data.fit.probabilities(np.array([[0], [1], [2], [3]], np.int32))
        np.testing.assert_allclose(p, [0.5, 0.25, 0.0, 0.25], atol=1e-5)


def test_probabilities_of_patterns_with_missing_keys():
    """As the wildcard treatment asks for them."""
    table = random_table(missing=0.3)
    table = CellTable.from_codes(
        np.repeat(table.cells, table.counts, axis=0), table.keys, 2010, "wildcard"
    )
    data = LogLinear(terms="K0:K1 + K2:K3").prepare(table)
    cells = all_cells(N_LEVELS)
    whole = data.fit.probabilities(cells)
    for pattern, p in zip(table.cells, data.fit.probabilities(table.cells), strict=True):
        match = ((pattern < 0) | (cells == pattern)).all(axis=1)
        np.testing.assert_allclose(p, whole[match].sum(), rtol=1e-12)


def test_keys_in_any_order_give_the_same_fit():
    """The walk goes through keys by their number of levels; nothing else depends on it."""
    table = random_table()
    codes = np.repeat(table.cells, table.counts, axis=0)
    reference = fit(table, ((0, 1, 3), (1, 2)), tolerance=1e-8)
    cells = all_cells(N_LEVELS)
    for order in itertools.permutations(range(4)):
        moved = CellTable.from_codes(
            codes[:, order], keys_of(tuple(N_LEVELS[j] for j in order)), 2010
        )
        place = {key: position for position, key in enumerate(order)}
        generators = tuple(
            sorted(tuple(sorted(place[j] for j in one)) for one in ((0, 1, 3), (1, 2)))
        )
        other = fit(moved, generators, tolerance=1e-8)
        np.testing.assert_allclose(
            other.probabilities(cells[:, order]), reference.probabilities(cells), atol=1e-7
        )


def test_two_way_terms_have_the_short_name():
    table = random_table()
    names = [key.name for key in table.keys]
    terms = " + ".join(":".join(names[j] for j in one) for one in all_interactions(4, 2))
    assert prepared(LogLinear(terms=terms), table)[1]["terms"] == "two-way"
