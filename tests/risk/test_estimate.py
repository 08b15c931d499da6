"""From draws and totals to a risk estimate; and the cases in which no draws are needed."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from unikat.data.checks import table_warnings
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.diagnostics import diagnose
from unikat.inference.draws import Diagnostics, Draws
from unikat.models.mixtures.hdp import HDP
from unikat.risk import estimate
from unikat.risk.estimate import assess, known_exactly
from unikat.risk.measures import RiskMeasures

KEYS = [Key.of_size("A", 2), Key.of_size("B", 3)]
CODES = [[0, 0], [0, 0], [1, 0], [1, 1], [0, 2]]


def table_of(codes: Any = CODES, population: int = 50, missing: Any = "integrate") -> CellTable:
    return CellTable.from_codes(codes, KEYS, population, missing)


def draws_of(
    table: CellTable, scalars: dict[str, np.ndarray], totals: Any, *, converged: bool = True
) -> Draws:
    return Draws(
        scalars=scalars, n_discarded=2, totals=totals, thin=1, n_sweeps=10, n_chains=2, seed=1,
        seconds=1.0, converged=converged,
        stop_reason="converged" if converged else "sweep limit",
        diagnostics={
            "tau1": Diagnostics(rhat=1.004, ess_bulk=500.0, ess_tail=450.0),
            "tau2": Diagnostics(rhat=1.2, ess_bulk=50.0, ess_tail=9.0),
        },
        model=HDP(), observer=RiskMeasures.of(table),
    )  # fmt: skip


def some_draws(n: int = 402) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    scalars = {
        "tau1": rng.integers(0, 4, (2, n)).astype(float),
        "tau2": rng.gamma(3.0, size=(2, n)),
        "tau1_expected": rng.gamma(2.0, size=(2, n)),
        "tau2_expected": rng.gamma(3.0, size=(2, n)),
    }
    for values in scalars.values():
        values[:, :2] = 1e9  # discarded, so it must not show
    return scalars


def random_totals(table: CellTable, n_draws: int) -> tuple[Any, np.ndarray]:
    """Totals of `n_draws` draws of random risks, and the draws (n_draws, n_cells, 2)."""
    rng = np.random.default_rng(2)
    risks = rng.beta(0.7, 3.0, (n_draws, table.n_cells, 2))
    totals = RiskMeasures.of(table).start()
    n_bins = totals.histogram_r1.shape[1]
    totals.n_draws[0] = n_draws
    totals.weight[:] = n_draws
    for column, total in enumerate((totals.r1, totals.r2)):
        total[:] = risks[:, :, column].sum(axis=0)
    totals.r1_squared[:] = (risks[:, :, 0] ** 2).sum(axis=0)
    totals.r2_unique[:] = totals.r2
    totals.r2_squared[:] = (risks[:, :, 1] ** 2).sum(axis=0)
    for column, histogram in enumerate((totals.histogram_r1, totals.histogram_r2)):
        bins = np.floor(np.sqrt(risks[:, :, column]) * n_bins).astype(int)
        for c in range(table.n_cells):
            histogram[c] = np.bincount(bins[:, c], minlength=n_bins)
    totals.key_draws[:] = 4
    totals.key_whole[:] = rng.random(len(totals.key_whole))
    totals.key_rest[:] = totals.key_whole[:, None] * rng.random(totals.key_rest.shape)
    return totals, risks


@pytest.mark.parametrize("level", [0.5, 0.9, 0.95])
def test_summaries_are_those_of_the_retained_draws(level):
    table = table_of()
    scalars = some_draws()
    result = assess(draws_of(table, scalars, random_totals(table, 9)[0]), table, level=level)
    for name, values in scalars.items():
        kept = np.sort(values[:, 2:].ravel())
        summary = getattr(result, name)
        n = len(kept)
        assert summary.mean == pytest.approx(kept.mean())
        # The smallest value that at least the given share of the draws does not exceed.
        for got, share in ((summary.lower, (1 - level) / 2), (summary.median, 0.5),
                           (summary.upper, (1 + level) / 2)):  # fmt: skip
            assert got in kept
            assert (kept <= got).mean() >= share - 1e-9
            assert (kept < got).mean() < share + 1.0 / n
        assert summary.level == level
    assert result.tau1.rhat == 1.004
    assert result.tau1.ess_tail == 450.0
    # What is not monitored is diagnosed here.
    assert result.tau1_expected.rhat == diagnose(scalars["tau1_expected"][:, 2:]).rhat
    assert result.converged
    assert result.warnings == table_warnings(table)


def test_record_risks_are_means_and_quantiles_of_the_draws():
    """Means are exact; the quantiles' square roots are right to two bins of the histogram."""
    table = table_of()
    totals, risks = random_totals(table, 2000)
    result = assess(draws_of(table, some_draws(), totals), table, level=0.9).records
    unique = table.unique
    np.testing.assert_array_equal(result.unique, unique)
    assert np.isnan(result.r1[~unique]).all()
    np.testing.assert_allclose(result.r1[unique], risks[:, unique, 0].mean(axis=0))
    np.testing.assert_allclose(result.r2, risks[:, :, 1].mean(axis=0))
    n_bins = totals.histogram_r1.shape[1]
    for column, (lower, upper), which in (
        (0, (result.r1_lower, result.r1_upper), unique),
        (1, (result.r2_lower, result.r2_upper), np.ones_like(unique)),
    ):
        exact = np.quantile(risks[:, :, column], (0.05, 0.95), axis=0)
        for got, want in zip((lower, upper), exact, strict=True):
            gap = np.abs(np.sqrt(got[which]) - np.sqrt(want[which]))
            assert gap.max() < 2.0 / n_bins
    assert (result.r2_lower <= result.r2).all()
    assert (result.r2 <= result.r2_upper).all()
    share = totals.key_rest / totals.key_whole[:, None]
    np.testing.assert_allclose(result.key_drop[unique], result.r1[unique][:, None] * (1 - share))
    assert np.isnan(result.key_drop[~unique]).all()


def test_the_variance_is_split_into_population_and_parameters():
    table = table_of()
    totals, risks = random_totals(table, 2000)
    scalars = some_draws()
    result = assess(draws_of(table, scalars, totals), table)
    for column, (name, parts) in enumerate(
        (("tau1", result.tau1_variance), ("tau2", result.tau2_variance))
    ):
        drawn, expected = scalars[name][:, 2:], scalars[f"{name}_expected"][:, 2:]
        np.testing.assert_allclose(parts.population, ((drawn - expected) ** 2).mean())
        np.testing.assert_allclose(parts.parameters, expected.var())
        np.testing.assert_allclose(parts.records, risks[:, :, column].var(axis=0).sum())
        np.testing.assert_allclose(parts.records + parts.covariances, parts.parameters)
    medians = np.median(risks[:, table.unique, 0], axis=0)
    assert result.tau1_of_medians == pytest.approx(medians.sum(), abs=0.05)


def test_quantiles_of_a_degenerate_histogram():
    """All draws in one bin: quantiles lie in it; the last bin may reach one but not beyond."""
    histogram = np.zeros((2, 8), np.int32)
    histogram[0, 0] = 5
    histogram[1, 7] = 5
    for quantile in estimate.histogram_quantiles(histogram, (0.025, 0.5, 1.0)):
        assert 0.0 <= quantile[0] <= (1 / 8) ** 2
        assert (7 / 8) ** 2 <= quantile[1] <= 1.0


@pytest.mark.parametrize("population", [100, 5000])
def test_an_identifier_is_warned_of_once_with_and_without_a_model(population):
    keys = [Key.of_size("ID", 90), Key.of_size("B", 3)]
    table = CellTable.from_codes([[i % 90, i % 3] for i in range(100)], keys, population)
    draws = None
    if population > 100:
        totals, _ = random_totals(table, 9)
        draws = draws_of(table, some_draws(), totals)
    (warning,) = assess(draws, table).warnings
    assert warning.startswith("ID has 90 levels in 100 records")


def test_draws_that_have_not_converged_carry_a_warning():
    table = table_of()
    result = assess(
        draws_of(table, some_draws(), random_totals(table, 9)[0], converged=False), table
    )
    assert not result.converged
    assert "sweep limit" in result.warnings[0]
    assert "1.200" in result.warnings[0]


def test_an_interruption_is_no_limit() -> None:
    table = table_of()
    totals, _ = random_totals(table, 10)
    draws = replace(
        draws_of(table, some_draws(), totals, converged=False), stop_reason="interrupted"
    )
    (said,) = [text for text in assess(draws, table).warnings if "converged" in text]
    assert said.startswith("Sampling was interrupted before it converged")


def test_a_census_needs_no_model():
    """N = n: every sample unique is population unique, and 1/F is 1/f."""
    table = table_of(population=len(CODES))
    assert known_exactly(table)
    result = assess(None, table)
    assert result.tau1.mean == result.tau1.lower == result.tau2.upper == table.n_uniques == 3
    np.testing.assert_allclose(result.records.r2, 1.0 / table.counts)
    np.testing.assert_array_equal(np.isnan(result.records.r1), ~table.unique)
    # Without B, (1, 0) and (1, 1) are two of a kind and (0, 2) is one of three; without A,
    # (1, 0) is one of three and the others stay unique.
    drop = {tuple(c): d.tolist() for c, d in zip(table.cells.tolist(), result.records.key_drop,
                                                 strict=True)}  # fmt: skip
    assert drop[1, 0] == [1.0, 1.0]
    assert drop[1, 1] == [0.0, 1.0]
    assert drop[0, 2] == [0.0, 1.0]
    assert all(math.isnan(d) for d in drop[0, 0])


def test_a_sample_without_uniques_needs_no_model():
    table = table_of(CODES[:2] * 2)
    assert known_exactly(table)
    result = assess(None, table)
    assert result.tau1.mean == result.tau2.mean == 0.0
    assert np.isnan(result.records.r2).all()


@pytest.mark.parametrize("population", [5, 500])
def test_a_missing_key_that_is_integrated_over_needs_a_model(population):
    """Whether the record is unique is not known, whatever the population."""
    table = table_of([[0, 0], [0, 0], [1, 0], [1, 0], [-1, 0]], population)
    assert table.n_uniques == 0
    assert not known_exactly(table)
    with pytest.raises(SpecError, match="no draws"):
        assess(None, table)
    assert known_exactly(table_of([[0, 0], [0, 0], [-1, 0]], 3, "wildcard"))


def test_a_wildcard_census():
    """1/F is one over all compatible records."""
    table = table_of([[0, 0], [0, 1], [-1, 0]], 3, "wildcard")
    result = assess(None, table)
    by_cell = dict(zip(map(tuple, table.cells.tolist()), result.records.r2, strict=True))
    assert by_cell == {(-1, 0): 0.5, (0, 0): 0.5, (0, 1): 1.0}
    assert result.tau1.mean == 1.0
    assert any("1 record(s) with a combination of their own" in w for w in result.warnings)
    whole = table_of([[0, 0], [0, 1]], 2, "wildcard")
    assert assess(None, whole).warnings == table_warnings(whole)


def test_records_that_wildcards_mask_are_told_of():
    codes = [[0, 0], [0, 1], [0, 1], [1, 1], [1, -1]]
    for missing, told in (("wildcard", True), ("integrate", False)):
        table = table_of(codes, 50, missing)
        totals, _ = random_totals(table, 3)
        result = assess(draws_of(table, some_draws(), totals), table)
        assert any("(wildcard)" in warning for warning in result.warnings) == told


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 95.0, float("nan")])
def test_impossible_levels_are_refused(level):
    with pytest.raises(SpecError, match="level"):
        assess(None, table_of(population=5), level=level)


def test_draws_are_needed_where_the_risk_is_not_known():
    with pytest.raises(SpecError, match="no draws"):
        assess(None, table_of())


@pytest.mark.parametrize("name", ["tau1", "tau2"])
def test_draws_that_are_no_numbers_give_no_result(name):
    table = table_of()
    totals, _ = random_totals(table, 400)
    scalars = some_draws()
    scalars[name][1, -1] = np.nan
    draws = replace(draws_of(table, scalars, totals), model=HDP())
    with pytest.raises(
        SpecError, match=r"The model hdp .*probabilities that are no numbers.* nearer"
    ):
        assess(draws, table)
