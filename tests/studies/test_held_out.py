from __future__ import annotations

import math

import numpy as np
import pytest

from risk.toy_model import Toy
from unikat.data.keys import Key
from unikat.data.split import split
from unikat.data.table import CellTable
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.studies.held_out import (
    HeldOutScore,
    PredictiveProbabilities,
    ScoreTotals,
    best_score,
    differences,
    held_out_score,
)

KEYS = [Key.of_size("A", 3), Key.of_size("B", 3)]
HERE = Workers(n_workers=1, n_threads=1)


def dependent(n=400, seed=1):
    """B mostly follows A."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 3, n)
    b = np.where(rng.random(n) < 0.6, a, rng.integers(0, 3, n))
    return CellTable.from_codes(np.column_stack([a, b]), KEYS, 10_000)


def score(scores, counts):
    scores, counts = np.array(scores, float), np.array(counts)
    with np.errstate(over="ignore"):
        totals = ScoreTotals(np.array([2]), 2.0 * np.exp(scores))
    return held_out_score(totals, counts)


def test_the_score_is_that_of_the_saved_states():
    """Average p over the states by hand, missing keys by their margin, and take the log."""
    kept, out = split(dependent(), 0.1, 3)
    codes = out.cells[out.record_cell].copy()
    codes[0, 0] = codes[3, 1] = -1
    out = CellTable.from_codes(codes, KEYS, 10_000)
    model = Toy()
    plan = Plan(n_chains=2, thin=1, stop=StopRule(ess=50, rhat=1.5))
    observer = PredictiveProbabilities.of(out)
    draws = sample(model, kept, observer, seed=4, plan=plan, workers=HERE)
    assert draws.converged
    found = held_out_score(draws.totals, out.counts)
    data = model.prepare(kept)
    states = [
        model.step(Stream(4, chain, sweep), None, data, 1)[0].p
        for chain in range(2)
        for sweep in range(draws.n_discarded + 1, draws.n_sweeps + 1)
    ]
    mean = np.mean(states, axis=0)
    by_hand = []
    for a, b in codes.tolist():
        by_hand.append(
            math.log(mean[slice(None) if a < 0 else a, slice(None) if b < 0 else b].sum())
        )
    assert found.n_records == len(codes) == 40
    np.testing.assert_allclose(found.mean, np.mean(by_hand))
    np.testing.assert_allclose(found.standard_error, np.std(by_hand, ddof=1) / np.sqrt(40))
    first = np.log(np.maximum(states[0], 1e-300))
    per_state = np.mean(
        [
            first[a, b] if a >= 0 and b >= 0 else
            math.log(states[0][slice(None) if a < 0 else a, slice(None) if b < 0 else b].sum())
            for a, b in codes.tolist()
        ]
    )  # fmt: skip
    np.testing.assert_allclose(draws.retained("log_score")[0, 0], per_state)


def test_the_right_model_scores_better():
    kept, out = split(dependent(n=1500), 0.2, 1)
    scores = []
    for model in (Toy(independent=True), Toy()):
        observer = PredictiveProbabilities.of(out)
        plan = Plan(n_chains=2, stop=StopRule(ess=100, rhat=1.5))
        draws = sample(model, kept, observer, seed=1, plan=plan, workers=HERE)
        scores.append(held_out_score(draws.totals, out.counts))
    assert best_score(scores) == 1
    wrong, right = differences(scores)
    assert (right.mean, right.standard_error) == (0.0, 0.0)
    assert wrong.mean < -5 * wrong.standard_error < 0
    np.testing.assert_allclose(wrong.mean, scores[0].mean - scores[1].mean)


def test_what_a_model_takes_to_be_impossible_is_counted():
    kept, out = split(dependent(), 0.3, 1)
    observer = PredictiveProbabilities.of(out)
    plan = Plan(n_chains=2, stop=StopRule(ess=50, rhat=1.5))
    model = Toy(never=True)
    draws = sample(model, kept, observer, seed=1, plan=plan, workers=HERE)
    assert draws.converged
    found = held_out_score(draws.totals, out.counts)
    last = int(out.counts[(out.cells == 2).all(axis=1)].sum())
    assert found.n_zero == last > 0
    assert math.isfinite(found.mean)


def test_differences_are_paired_and_over_records_both_allow():
    counts = [2, 3, 1]
    one = score([-1.0, -2.0, -4.0], counts)
    two = score([-1.5, -2.0, -math.inf], counts)
    assert (two.n_zero, two.n_records) == (1, 6)
    np.testing.assert_allclose(two.mean, (2 * -1.5 + 3 * -2.0) / 5)
    assert best_score([two, one]) == 1
    difference, best = differences([two, one])
    assert difference.n_records == 5
    values = np.repeat([-0.5, 0.0], [2, 3])
    np.testing.assert_allclose(difference.mean, values.mean())
    np.testing.assert_allclose(difference.standard_error, values.std(ddof=1) / np.sqrt(5))
    assert (best.mean, best.standard_error, best.n_records) == (0.0, 0.0, 6)


def test_models_with_as_many_impossible_records_are_compared_over_the_others():
    """No one of these is above the best, whichever records are impossible to it."""
    counts = [1, 1, 4, 4]
    # Over its own records the first has the higher mean: the hard record is impossible to it.
    one = score([-math.inf, -1.0, -2.0, -2.1], counts)
    two = score([-9.0, -math.inf, -1.9, -2.0], counts)
    refuted = score([-math.inf, -math.inf, -0.1, -0.1], counts)
    assert one.n_zero == two.n_zero == 1
    assert one.mean > two.mean
    assert best_score([one, two, refuted]) == 1
    found = differences([one, two, refuted])
    assert found[0].mean == pytest.approx(-0.1)
    assert found[0].n_records == 8
    assert found[1].mean == 0.0
    # Ranked after the others, whatever it finds of the records that are left.
    assert found[2].mean > 0.0


def test_scores_of_nothing_and_of_one():
    nothing: HeldOutScore = score([-math.inf], [2])
    assert nothing.n_zero == 2
    assert math.isnan(nothing.mean)
    alone = score([-1.0], [1])
    assert alone.mean == pytest.approx(-1.0)
    assert math.isnan(alone.standard_error)
    assert best_score([nothing, alone]) == 1
    assert math.isnan(differences([nothing, alone])[0].mean)
