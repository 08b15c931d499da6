from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.risk.estimate import Summary
from unikat.studies.designs import Population
from unikat.studies.pooled import holds, summarise_fits
from unikat.studies.scores import (
    N_CUTOFFS,
    UNSAFE_CUTOFFS,
    FitScore,
    Point,
    RecordScores,
    classification,
    score_fit,
)


def summary(mean, lower, upper, rhat=1.0):
    return Summary(
        mean=mean, median=mean, lower=lower, upper=upper, level=0.95, rhat=rhat, ess_bulk=500.0,
        ess_tail=450.0,
    )  # fmt: skip


def fit(repeat, true, estimate, **changes):
    mean, lower, upper = estimate
    values = {
        "model": "toy",
        "n": 10,
        "repeat": repeat,
        "n_drawn": 10,
        "n_uniques": 5,
        "tau1_true": true,
        "tau2_true": 2 * true,
        "tau1": summary(mean, lower, upper),
        "tau2": summary(2 * mean, 2 * lower, 2 * upper),
        "converged": True,
        "seconds": 2.0,
        "records": RecordScores.none(),
    }
    return FitScore(**{**values, **changes})


def test_bias_error_and_coverage_of_a_known_case():
    fits = [fit(1, 10.0, (13, 11, 15)), fit(2, 20.0, (19, 15, 25), converged=False)]
    fits.append(fit(3, 30.0, (30, 29, 31)))
    fits.append(fit(4, 5.0, (0, 0, 0), tau1=None, tau2=None, error="refused", seconds=None))
    (score,) = summarise_fits(fits, 0.95)
    assert (score.n_samples, score.n_failed, score.n_unconverged) == (3, 1, 1)
    one, two = score.tau1, score.tau2
    assert one.truth == 20.0
    assert one.estimate == pytest.approx(62 / 3)
    assert one.bias == pytest.approx(2 / 3)
    assert one.relative_bias == pytest.approx(2 / 60)
    # Errors 3, -1, 0.
    assert one.rmse == pytest.approx(math.sqrt(10 / 3))
    assert one.bias_error == pytest.approx(np.std([3, -1, 0], ddof=1) / math.sqrt(3))
    assert (one.n_covered, one.coverage) == (2, pytest.approx(2 / 3))
    # The first: 10, below 11.
    assert (one.n_above, one.n_below) == (0, 1)
    # Wilson (1927): 2 of 3.
    assert (one.coverage_lower, one.coverage_upper) == pytest.approx((0.2077, 0.9385), abs=5e-5)
    assert one.width == pytest.approx((4 + 10 + 2) / 3)
    assert two.bias == pytest.approx(4 / 3)
    assert two.relative_rmse == pytest.approx(one.relative_rmse)
    assert score.seconds == 2.0


def test_where_every_fit_failed_there_are_no_numbers():
    failed = {"tau1": None, "tau2": None, "records": None, "error": "refused", "seconds": None}
    (score,) = summarise_fits([fit(1, 5.0, (0, 0, 0), **failed)], 0.95)
    assert score.n_samples == 0
    assert score.tau1 is None
    assert score.cutoffs == score.r1_groups == score.r2_errors == ()


def test_one_sample_and_a_truth_of_zero():
    (score,) = summarise_fits([fit(1, 0.0, (1, 0, 2))], 0.95)
    assert score.tau1.bias_error is None
    assert score.tau1.relative_bias is None
    assert score.tau1.relative_rmse is None


def test_models_and_sizes_keep_apart():
    fits = [fit(1, 1.0, (1, 1, 1), n=n, model=m) for m in ("b", "a") for n in (20, 10)]
    assert [(one.n, one.model) for one in summarise_fits(fits, 0.95)] == [
        (10, "b"),
        (10, "a"),
        (20, "b"),
        (20, "a"),
    ]


def test_an_interval_holds_a_sum_of_fractions_at_its_end():
    ends = sum([1 / 3] * 3 + [0.1] * 3)
    assert holds(1.0, ends, 1.3)
    assert not holds(1.31, 2.0, 1.3)


@given(st.integers(0, 200), st.integers(0, 10**6))
@settings(deadline=None, max_examples=60)
def test_record_scores_are_those_of_a_slow_count(n, seed):
    rng = np.random.default_rng(seed)
    truth = rng.geometric(0.3, n) * rng.integers(1, 4, n)
    # Some risks on the edges of the bins: above a cut-off means above, not at.
    r1 = np.where(rng.random(n) < 0.3, rng.integers(0, N_CUTOFFS + 1, n) / N_CUTOFFS, rng.random(n))
    r2 = np.minimum(r1 + 0.2 * rng.random(n), 1.0)
    halves = [
        RecordScores.of(r1[part], r2[part], truth[part])
        for part in np.split(np.arange(n), [n // 3])
    ]
    pooled = fit(1, 1.0, (1, 1, 1), records=halves[0] + halves[1])
    (score,) = summarise_fits([pooled], 0.95)
    unique = truth == 1
    for one in score.cutoffs:
        positive = r1 > one.cutoff
        if unique.any():
            assert one.false_negative == pytest.approx(np.mean(~positive[unique]))
        else:
            assert one.false_negative is None
        if (~unique).any():
            assert one.false_positive == pytest.approx(np.mean(positive[~unique]))
        else:
            assert one.false_positive is None
        assert one.above == (pytest.approx(np.mean(positive)) if n else None)
    assert [one.cutoff for one in score.cutoffs] == [i / N_CUTOFFS for i in range(N_CUTOFFS + 1)]
    for groups, risk, true in ((score.r1_groups, r1, unique), (score.r2_groups, r2, 1 / truth)):
        assert sum(group.records for group in groups) == n
        for i, group in enumerate(groups):
            inside = np.minimum((risk * 10).astype(int), 9) == i
            assert group.records == inside.sum()
            if inside.any():
                assert group.predicted == pytest.approx(risk[inside].mean())
                assert group.truth == pytest.approx(true[inside].mean())
            else:
                assert group.predicted is group.truth is None
    error = r2 - 1 / truth
    masks = (np.full(n, True), truth <= 10, truth > 10)
    for one, mask in zip(score.r2_errors, masks, strict=True):
        assert one.records == mask.sum()
        assert one.signed == pytest.approx(error[mask].sum(), abs=1e-9)
        assert one.absolute == pytest.approx(np.abs(error[mask]).sum())
        assert one.squared == pytest.approx((error[mask] ** 2).sum())


def test_errors_of_r2_are_means_over_samples():
    one = RecordScores.of(np.array([0.5]), np.array([0.75]), np.array([2]))
    two = RecordScores.of(np.array([0.5]), np.array([0.25]), np.array([20]))
    scores = [fit(1, 1.0, (1, 1, 1), records=one), fit(2, 1.0, (1, 1, 1), records=two)]
    everything, small, large = summarise_fits(scores, 0.95)[0].r2_errors
    assert (everything.group, small.group, large.group) == ("all", "F <= 10", "F > 10")
    assert small.signed == pytest.approx(0.25 / 2)
    assert large.absolute == pytest.approx(0.2 / 2)
    assert everything.squared == pytest.approx((0.25**2 + 0.2**2) / 2)


def test_diagnostics_are_the_worst_of_both_measures():
    score = fit(1, 1.0, (1, 1, 1), tau1=summary(1, 1, 1, 1.2), tau2=summary(1, 1, 1, 1.1))
    assert (score.rhat, score.ess) == (1.2, 450.0)
    assert fit(1, 1.0, (1, 1, 1), tau1=summary(1, 1, 1, math.nan)).rhat is None
    assert fit(1, 1.0, (1, 1, 1), tau1=None, tau2=None).ess is None


def test_classification_counts_both_kinds_of_error():
    estimated = np.array([0.01, 0.05, 0.06, 0.2, 0.3, 0.9])
    true = np.array([0.01, 0.06, 0.05, 0.5, 1.0, 0.02])
    np.testing.assert_array_equal(classification(estimated, true, 0.05), [[1, 1], [2, 2]])
    assert classification(estimated[:0], true[:0], 0.05).tolist() == [[0, 0], [0, 0]]


def test_cells_with_more_records_are_classified_and_are_nothing_else():
    """All cells count in `unsafe_cells`; every other score is of the sample uniques."""
    f, unique = np.array([1, 3, 40, 2]), np.array([True, False, True, False])
    r1, r2 = np.array([0.8, 0.0, 0.1, 0.2]), np.array([0.9, 0.01, 0.06, 0.5])
    median = np.array([1.0, 50.0, np.nan, 2.0])
    found = RecordScores.of(r1, r2, f, median, None, unique)
    alone = RecordScores.of(r1[unique], r2[unique], f[unique], median[unique])
    for name, value in vars(alone).items():
        if name != "unsafe_cells":
            np.testing.assert_array_equal(getattr(found, name), value)
    # At 0.05: 3 and 2 units are unsafe, and the cell with 3 is missed; 40 units are safe.
    assert found.unsafe_cells[0, 0].tolist() == [[0, 1], [1, 2]]
    assert found.unsafe_cells[1, 0].tolist() == [[0, 1], [0, 2]]
    (score,) = summarise_fits([fit(1, 1.0, (1, 1, 1), records=found)], 0.95)
    by = {(one.summary, one.cutoff): one for one in score.unsafe_cells}
    assert (by["mean", 0.05].false_negative, by["mean", 0.05].false_positive) == (1 / 3, 1.0)
    assert by["median", 0.05].false_positive is None


def test_unsafe_records_are_classified_by_each_summary_of_f():
    """By `classification`; what is not known is left out, and pools with what is."""
    f = np.array([1, 2, 4, 30, 100])
    r2 = np.array([0.6, 0.3, 0.04, 0.15, 0.01])
    median, mode = np.array([1.0, 4.0, 30.0, 4.0, 60.0]), np.array([1.0, 1.0, np.nan, 9.0, 9.0])
    records = RecordScores.of(r2, r2, f, median, mode)
    for tables, risk in zip(records.unsafe, (r2, 1 / median, 1 / mode), strict=True):
        known = ~np.isnan(risk)
        for table, cutoff in zip(tables, UNSAFE_CUTOFFS, strict=True):
            want = classification(risk[known], 1 / f[known], cutoff)
            np.testing.assert_array_equal(table, want)
    (score,) = summarise_fits(
        [fit(1, 5.0, (5, 4, 6), records=records + RecordScores.of(r2, r2, f))],
        0.95,
    )
    by = {(one.summary, one.cutoff): one for one in score.unsafe}
    assert len(by) == 3 * len(UNSAFE_CUTOFFS)
    # Of 1, 1/2, 1/4, 1/30, 1/100 three are above 0.05; r2 finds two, and 0.15 is false.
    assert (by["mean", 0.05].false_negative, by["mean", 0.05].false_positive) == (1 / 3, 1 / 2)
    assert (by["mode", 0.05].false_negative, by["mode", 0.05].false_positive) == (0.0, 1.0)
    (score,) = summarise_fits([fit(1, 5.0, (5, 4, 6), records=RecordScores.of(r2, r2, f))], 0.95)
    assert {one.summary for one in score.unsafe} == {"mean"}


@settings(max_examples=50, deadline=None)
@given(st.integers(2, 40), st.integers(0, 10**6))
def test_record_measures_are_those_of_loops(n: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    fits, wins, pairs, brier, surprise, chance = [], 0.0, 0, [], [], []
    for repeat in (1, 2):
        r1 = rng.choice([0.0, 0.2, 0.2000001, 0.9, 1.0], n)
        counts = rng.integers(1, 4, n)
        fits.append(fit(repeat, 1.0, (1, 0, 2), records=RecordScores.of(r1, r1, counts)))
        alone = counts == 1
        for a in r1[alone]:
            for b in r1[~alone]:
                wins += 1.0 if a > b else 0.5 if a == b else 0.0
                pairs += 1
        for risk, y in zip(r1.tolist(), alone.tolist(), strict=True):
            brier.append((risk - y) ** 2)
            surprise.append(math.log(max(risk if y else 1.0 - risk, 1e-4)))
        chance.append(math.sqrt(sum(risk * (1.0 - risk) for risk in r1.tolist())))
    found = summarise_fits(fits, 0.95)[0].records
    assert found is not None
    assert found.auc == (None if not pairs else pytest.approx(wins / pairs))
    assert found.brier == pytest.approx(np.mean(brier))
    assert found.log_score == pytest.approx(np.mean(surprise))
    assert found.by_chance == pytest.approx(math.sqrt(2 / math.pi) * np.mean(chance))
    assert found.width_by_chance == pytest.approx(2 * 1.959964 * np.mean(chance), rel=1e-6)


def test_the_error_by_chance_is_that_of_who_knows_the_risks() -> None:
    rng = np.random.default_rng(1)
    risks = rng.beta(0.5, 1.0, 400)
    errors = [abs(int((rng.random(400) < risks).sum()) - risks.sum()) for _ in range(4000)]
    one = fit(1, 1.0, (1, 0, 2), records=RecordScores.of(risks, risks, np.full(400, 2)))
    found = summarise_fits([one], 0.95)[0].records
    assert found is not None
    assert found.by_chance == pytest.approx(np.mean(errors), rel=0.04)


def test_formulas_have_no_interval_and_programs_may_have_one() -> None:
    none = {"tau1": None, "tau2": None}
    fits = [
        fit(1, 10.0, (0, 0, 0), **none, tau1_point=Point(mean=14.0)),
        fit(2, 20.0, (0, 0, 0), **none, tau1_point=Point(mean=18.0, lower=10.0, upper=19.0)),
    ]
    (score,) = summarise_fits(fits, 0.95)
    assert score.tau2 is None
    assert score.records is None
    assert score.cutoffs == score.unsafe == score.r1_groups == score.r2_errors == ()
    found = score.tau1
    assert found is not None
    assert (found.absolute, found.bias) == (3.0, 1.0)
    assert (found.n_intervals, found.n_covered, found.n_above, found.n_below) == (1, 0, 1, 0)
    assert found.width == 9.0


def test_where_values_are_missing_complete_records_are_scored_and_chance_is_that_of_all() -> None:
    rng = np.random.default_rng(4)
    keys = [Key.of_size(name, 6) for name in "abc"]
    codes = rng.integers(0, 6, (900, 3))
    population = Population.of(CellTable.from_codes(codes, keys, 900))
    drawn = population.sample(np.arange(0, 900, 6)).blanked(0.2, rng)
    table = drawn.table
    r1 = rng.random(table.n_cells)
    r1[(table.counts > 1) & ~table.incomplete] = np.nan
    nothing = np.full(table.n_cells, np.nan)
    risk = SimpleNamespace(r1=r1, r2=np.nan_to_num(r1), F_median=nothing, F_mode=nothing)
    taus = dict.fromkeys(("tau1", "tau2", "tau1_expected", "tau2_expected"))
    estimate: Any = SimpleNamespace(draws=None, records=risk, converged=True, **taus)
    found = score_fit(drawn, estimate, model="m", n=150, repeat=1)
    assert found.records is not None
    brier = chance = 0.0
    n = 0
    for cell, count, risk_of, true in zip(
        table.cells, table.counts, r1, drawn.population_counts, strict=True
    ):
        if (cell < 0).any():
            chance += count * risk_of * (1 - risk_of)
        elif count == 1:
            n += 1
            chance += risk_of * (1 - risk_of)
            brier += (risk_of - (true == 1)) ** 2
    assert found.records.r1_sums[0] == n
    assert found.records.r1_sums[1] == pytest.approx(brier)
    assert found.records.r1_sums[3] == pytest.approx(chance)
    assert found.tau1_true == population.sample(np.arange(0, 900, 6)).tau1
