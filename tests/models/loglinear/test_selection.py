"""Tests of fit against SDCNway and listed cells; selection where the terms are known."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace

import numpy as np
import pytest

import naive
from models.loglinear.test_maximum_likelihood import (
    VALUES,
    incomplete_table,
    keys_of,
    random_counts,
    read_reference,
    table_of,
)
from unikat.data.design import CLASS
from unikat.data.keys import Key
from unikat.data.split import split
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.loglinear import selection
from unikat.models.loglinear.conditional import LogLinear
from unikat.models.loglinear.maximum_likelihood import fit
from unikat.models.loglinear.selection import evidence, select
from unikat.models.loglinear.terms import all_interactions
from zeros.enumeration import all_cells

SDCNWAY = json.loads((VALUES / "sdcnway_loglinear.json").read_text())["cases"]


@pytest.mark.parametrize("case", SDCNWAY, ids=lambda c: f"{c['table']}-{c['degree']}")
def test_criteria_and_risks_are_those_of_sdcnway(case):
    """tau1, tau2, B1 / sqrt(nu), B2 / sqrt(nu) to 1e-8; it sums over the cells of levels seen."""
    table, _, _, names = read_reference(case["table"])
    assert (names, table.n_records, table.population_size) == (case["keys"], case["n"], case["N"])
    fitted = fit(table, all_interactions(len(names), case["degree"]), tolerance=1e-10)
    found = evidence(table, fitted)
    for ours, name in [
        (found.tau1, "tau1"),
        (found.tau2, "tau2"),
        (found.b1, "B_tau1_type2"),
        (found.b2, "B_tau2_type2"),
    ]:
        np.testing.assert_allclose(ours, case[name], rtol=1e-8, err_msg=name)


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_criteria_are_sums_over_all_cells(missing):
    """Of the complete records; the sampling fraction is theirs."""
    n_levels = (3, 2, 4)
    table = incomplete_table(11, n_levels, 90, missing)
    complete = table.cells[~table.incomplete]
    observed = np.zeros(n_levels)
    observed[tuple(complete.T)] = table.counts[~table.incomplete]
    n = observed.sum()
    fitted = fit(table, ((0, 1), (2,)), tolerance=1e-9)
    means = fitted.probabilities(all_cells(n_levels)).reshape(n_levels) * n
    b1, nu1, b2, nu2 = naive.bias_sums(observed, means, n / table.population_size)
    found = evidence(table, fitted)
    np.testing.assert_allclose(found.b1, b1 / np.sqrt(nu1), rtol=1e-9)
    np.testing.assert_allclose(found.b2, b2 / np.sqrt(nu2), rtol=1e-9)
    np.testing.assert_allclose(found.squared_means, (means**2).sum(), rtol=1e-12)
    rate = means[observed == 1.0] * (table.population_size / n - 1.0)
    np.testing.assert_allclose(found.tau1, np.exp(-rate).sum(), rtol=1e-12)
    np.testing.assert_allclose(found.tau2, (-np.expm1(-rate) / rate).sum(), rtol=1e-12)


def test_criteria_without_complete_records_are_not_known():
    table = CellTable.from_codes([[0, -1], [-1, 1], [1, -1]], keys_of((2, 2)), 30)
    found = evidence(table, fit(table, ((0,), (1,))))
    assert np.isnan(found).all()
    for criterion in selection.CRITERIA:
        path = select(table, criterion, 1.645, 1e-4, 0.0)
        assert [step.generators for step in path] == [((0,), (1,))]


def table_of_two_pairs(seed: int = 1, n: int = 4000) -> CellTable:
    """Keys 0 and 1 interact, and keys 2 and 3; key 4 stands alone.

    In other draws of the truth one pair may be too weak to be asked for.
    """
    rng = np.random.default_rng(seed)
    n_levels = (6, 6, 5, 5, 4)

    def pair(a: int, b: int) -> np.ndarray:
        p = rng.dirichlet(np.full(a, 2.0))[:, None] * rng.dirichlet(np.full(b, 2.0))
        p *= np.exp(rng.normal(size=(a, b)) * 1.2)
        return p / p.sum()

    p = np.einsum("ab,cd,e->abcde", pair(6, 6), pair(5, 5), rng.dirichlet(np.full(4, 2.0)))
    codes = all_cells(n_levels)[rng.choice(p.size, n, p=p.ravel())]
    return CellTable.from_codes(codes, keys_of(n_levels), 20 * n)


@pytest.mark.parametrize("criterion", ["B1", "B2"])
def test_the_pairs_that_interact_are_found(criterion):
    """They and no other; the path holds every model and its criteria."""
    table = table_of_two_pairs()
    path = select(table, criterion, 1.645, 1e-4, 0.0)
    assert path[0].generators == all_interactions(5, 1)
    assert path[0].added == ()
    assert {step.added for step in path[1:]} == {(0, 1), (2, 3)}
    assert len(path) == 3
    which = 0 if criterion == "B1" else 1
    assert path[0].evidence[which] > 5.0
    for before, step in itertools.pairwise(path):
        assert before.evidence[which] > 1.645
        assert abs(step.evidence[which]) < abs(before.evidence[which])
        assert step.generators == selection.maximal([*before.generators, step.added])
    assert np.isnan([path[0].gain, path[0].gain_error]).all()
    assert all(step.gain > 5.0 * step.gain_error for step in path[1:])
    for step in path:
        fitted = fit(table, step.generators, tolerance=1e-6)
        np.testing.assert_allclose(step.evidence, evidence(table, fitted), rtol=1e-3)
    assert path[-1].evidence[which] <= 1.645


def held_out_logs(table: CellTable, generators: selection.Generators) -> np.ndarray:
    """Log score of every held-out record, from the definition; both parts' levels are the same."""
    kept, out = split(table, 0.5, 0)
    p, p0 = (
        fit(kept, one, tolerance=1e-8).probabilities(out.cells[out.record_cell])
        for one in (generators, all_interactions(table.n_keys, 1))
    )
    return np.log((kept.n_records * p + p0) / (kept.n_records + 1))


def test_the_pairs_that_interact_predict_held_out_records():
    """They and no other; scores and gains are those of records that were not fitted."""
    table = table_of_two_pairs()
    path = select(table, "held-out", 1.645, 1e-4, 0.0)
    assert {step.added for step in path[1:]} == {(0, 1), (2, 3)}
    assert len(path) == 3
    before = held_out_logs(table, path[0].generators)
    np.testing.assert_allclose(path[0].score, before.mean(), rtol=1e-6)
    for step in path[1:]:
        logs = held_out_logs(table, step.generators)
        gain = logs - before
        np.testing.assert_allclose(step.score, logs.mean(), rtol=1e-4)
        np.testing.assert_allclose(step.gain, gain.mean(), rtol=1e-2)
        np.testing.assert_allclose(step.gain_error, gain.std(ddof=1) / len(gain) ** 0.5, rtol=1e-2)
        assert step.gain > 1.645 * step.gain_error
        before = logs


@pytest.mark.parametrize("missing", [0.0, 0.1])
def test_a_term_is_added_while_its_gain_is_clear(missing):
    """With a high threshold none is; with a low one the score rises at every step."""
    table = incomplete_table(11, (4, 3, 4), 400, missing)
    assert len(select(table, "held-out", 1e3, 1e-4, 0.0)) == 1
    path = select(table, "held-out", 1e-6, 1e-4, 0.0)
    assert all(step.gain > 0.0 for step in path[1:])
    scores = np.array([step.score for step in path])
    np.testing.assert_allclose(np.diff(scores), [step.gain for step in path[1:]], atol=1e-12)


def test_zero_margins_make_held_out_records_improbable_not_impossible():
    """One pair of levels is in the held-out half alone."""
    codes = np.repeat([[0, 0], [1, 1], [0, 1]], [40, 40, 1], axis=0)
    for shift in range(81):
        table = CellTable.from_codes(np.roll(codes, shift, axis=0), keys_of((2, 2)), 2000)
        if (split(table, 0.5, 0)[1].cells == (0, 1)).all(axis=1).any():
            break
    path = select(table, "held-out", 1e-6, 1e-4, 0.0)
    assert [step.added for step in path] == [(), (0, 1)]
    assert np.isfinite([step.score for step in path]).all()


def test_a_sample_that_cannot_be_split_has_no_score():
    table = CellTable.from_codes([[0, 1]], keys_of((2, 2)), 30)
    one = CellTable.from_codes([[0, 1], [1, 0]], keys_of((2, 2)), 30)
    of_one_household = replace(one, households=np.zeros(2, np.int32))
    for each in (table, of_one_household):
        (only,) = select(each, "held-out", 1.645, 1e-4, 0.0)
        assert np.isnan([only.score, only.gain, only.gain_error]).all()


def test_the_sign_of_the_test_of_fit_is_not_that_of_the_error_of_tau():
    """Rates of 2.6 that vary by 30% around the fit: tau1 is too low, and B1 is positive.

    Exact, by the gamma law of the rates; `benchmarks/bias.py` simulates it.
    """
    share, fitted, shape = 0.1, 2.6, 0.3**-2
    nodes, weights = np.polynomial.legendre.leggauss(400)
    rates = fitted * 2.0 * (nodes + 1.0)
    weights = weights * rates ** (shape - 1.0) * np.exp(-shape * rates / fitted)
    weights /= weights.sum()
    unique = share * rates * np.exp(-share * rates)
    truth, ours = np.exp(-(1.0 - share) * rates), np.exp(-(1.0 - share) * fitted)
    error = weights @ (unique * (ours - truth))
    variance = weights @ (share * (rates - fitted)) ** 2
    mean = share * fitted
    b1 = selection.bias.bias_weights(mean, share)[1] * variance
    change = (1.0 - mean) * np.exp(-mean) * (1.0 - share) * ours / share
    expansion = (change - selection.bias.bias_weights(mean, share)[1]) * variance
    np.testing.assert_allclose(18_000 * np.array([error, b1]), [-27.0, 86.0], rtol=0.05)
    np.testing.assert_allclose(expansion, error, rtol=0.25)


def test_each_step_takes_the_term_that_brings_the_criterion_nearest_to_zero():
    counts = random_counts(np.random.default_rng(5), (4, 3, 4, 2), 0.8)
    table = table_of(counts)
    for step, after in itertools.pairwise(select(table, "B2", 0.01, 1e-6, 0.0)):
        size = {}
        for term in selection._candidates(step.generators, 4):
            larger = selection.maximal([*step.generators, term])
            size[term] = abs(evidence(table, fit(table, larger, tolerance=1e-8)).b2)
        # A rough fit ranks them.
        assert size[after.added] <= min(size.values()) + 0.05


def test_a_model_that_holds_needs_no_term():
    """Independent keys: B2 / sqrt(nu) is about standard normal, above 4 once in 30,000."""
    rng = np.random.default_rng(8)
    codes = np.column_stack([rng.choice(5, 3000, p=rng.dirichlet(np.ones(5))) for _ in range(4)])
    table = CellTable.from_codes(codes, keys_of((5,) * 4), 60_000)
    (only,) = select(table, "B2", 4.0, 1e-4, 0.0)
    assert only.generators == all_interactions(4, 1)


def test_candidates_are_hierarchical():
    """A triple only where its three pairs are in the model; never what is there already."""
    pairs = list(itertools.combinations(range(4), 2))
    assert selection._candidates(all_interactions(4, 1), 4) == pairs
    assert selection._candidates(((0, 1), (0, 2), (1, 2), (3,)), 4) == [
        (0, 3), (1, 3), (2, 3), (0, 1, 2),
    ]  # fmt: skip
    assert selection._candidates(((0, 1, 2), (3,)), 4) == [(0, 3), (1, 3), (2, 3)]
    assert selection._candidates(all_interactions(4, 2), 4) == [
        (0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3),
    ]  # fmt: skip
    assert selection._candidates(all_interactions(4, 3), 4) == []
    assert selection._candidates(((0,),), 1) == []


@pytest.mark.statistical
def test_the_criterion_is_standard_normal_where_the_model_holds():
    """B1 / sqrt(nu) and B2 / sqrt(nu) of 200 Poisson tables with their own means.

    Mean (z test) and variance (chi-square), false alarm 1e-5 each. The means are not fitted.
    """
    rng = np.random.default_rng(4)
    means = rng.gamma(0.5, size=(8, 8, 8)) * 1.5
    found = []
    for _ in range(200):
        b1, nu1, b2, nu2 = direct_sums(rng.poisson(means), means, 0.05)
        found.append([b1 / np.sqrt(nu1), b2 / np.sqrt(nu2)])
    values = np.array(found)
    assert (np.abs(values.mean(axis=0)) * np.sqrt(200) < 4.5).all()
    assert (np.abs(values.var(axis=0) - 1.0) < 4.5 * np.sqrt(6 / 200)).all()


def direct_sums(observed: np.ndarray, means: np.ndarray, share: float) -> np.ndarray:
    """B1, nu1, B2, nu2 by the kernel's weights of each cell."""
    a1, b1, a2, b2 = np.array(
        [selection.bias.bias_weights(mean, share) for mean in means.ravel()]
    ).T
    gap = observed.ravel() - means.ravel()
    mu = means.ravel()
    second = gap**2 - observed.ravel()
    return np.array(
        [
            (a1 * gap + b1 * second).sum(), (a1**2 * mu + 2 * b1**2 * mu**2).sum(),
            (a2 * gap + b2 * second).sum(), (a2**2 * mu + 2 * b2**2 * mu**2).sum(),
        ]
    )  # fmt: skip


def test_a_selection_keeps_the_interactions_of_a_sampling_class():
    rng = np.random.default_rng(2)
    keys = [Key.of_size("A", 3), Key.of_size("B", 4), Key.of_size(CLASS, 2)]
    codes = np.column_stack([rng.integers(0, key.n_levels, 300) for key in keys])
    table = CellTable.from_codes(codes, keys, 5000)
    path = select(table, "B2", 1.64, 1e-6, 0.0)
    assert path[0].generators == ((0, 2), (1, 2))
    for step in path:
        assert all(any({j, 2} <= set(one) for one in step.generators) for j in (0, 1))


def test_a_score_that_selects_no_terms_is_refused() -> None:
    with pytest.raises(SpecError, match="no terms are selected; add terms=select"):
        LogLinear(terms="two-way", criterion="held-out")
