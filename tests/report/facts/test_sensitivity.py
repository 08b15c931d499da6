"""τ1 under other assumptions: parts of the draws, other weights of them, and misreported keys."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from report.estimates import estimate, table
from unikat.data import CellTable, Key
from unikat.models.auto import Auto
from unikat.models.calibrated import (
    OVERDISPERSION,
    SHIFTS,
    Calibrated,
    SelectionFacts,
    TauFacts,
)
from unikat.models.mixtures.latent_class import LatentClass
from unikat.report.facts import sensitivity as module
from unikat.report.facts.sensitivity import (
    LEAST_DRAWS,
    SHARE,
    SensitivityFacts,
    _less_evidence,
    sensitivity,
)
from unikat.risk.estimate import RiskEstimate
from unikat.studies.calibrate import experience_of, posterior, prior, quantiles

EVIDENCE = -0.5 * (
    ((np.log(OVERDISPERSION)[:, None] + 1.0) / 0.4) ** 2 + ((SHIFTS - 0.05) / 0.05) ** 2
)
N_DRAWS = 20_000


def told(n_draws: int = N_DRAWS, tau1: str = "d") -> RiskEstimate:
    """Return an estimate of `auto` whose τ1 is the k or d of each draw."""
    found = estimate()
    assert found.draws is not None
    drawn = posterior(prior(found.table), EVIDENCE)
    model = Calibrated(wrapped=LatentClass(), weights=tuple(np.ravel(drawn).tolist()), asked=Auto())
    draws = replace(
        found.draws, model=model, n_discarded=0, n_chains=2, thin=1, n_sweeps=n_draws // 2
    )
    k, d = np.divmod(model.pairs(draws.seed, 2, draws.retained_sweeps()), len(SHIFTS))
    scalars = {**draws.scalars, "tau1": OVERDISPERSION[k] if tau1 == "k" else SHIFTS[d]}
    return replace(found, draws=replace(draws, scalars=scalars))


def rows(found: RiskEstimate, assumption: str) -> list[SensitivityFacts]:
    return [one for one in sensitivity(found) if one.assumption == assumption]


def test_the_ends_of_the_model_error() -> None:
    """τ1 is k or d itself, so that the median of a fifth is the quantile of 10% or 90%."""
    weights = posterior(prior(table()), EVIDENCE)
    for tau1, assumption, axis, values in (
        ("k", "overdispersion", 1, OVERDISPERSION),
        ("d", "level", 0, SHIFTS),
    ):
        lower, _, upper = quantiles(weights.sum(axis=axis), values, 1.0 - SHARE)
        low, high = rows(told(tau1=tau1), assumption)
        assert (low.tau1_median, high.tau1_median) == (lower, upper)
        assert low.tau1_lower <= lower <= low.tau1_upper <= high.tau1_lower <= upper
        shown = (lower, upper) if tau1 == "k" else tuple(np.exp((lower, upper)).tolist())
        assert (low.value, high.value) == shown
        for one in (low, high):
            assert one.draws is not None
            assert SHARE * N_DRAWS <= one.draws < 2.0 * SHARE * N_DRAWS


def test_draws_of_the_same_value_share_its_part() -> None:
    places = np.array([0, 1, 1, 1, 1, 2, 2, 2, 2, 2])
    weights = module._part(places, 3, 0.0)
    np.testing.assert_allclose(weights, [1.0, *4 * [0.25], *5 * [0.0]])
    np.testing.assert_allclose(module._part(places, 3, 0.8).sum(), 2.0)
    np.testing.assert_allclose(module._part(np.zeros(5, int), 3, 0.8), SHARE)


@pytest.mark.statistical
@pytest.mark.parametrize("tau1", ["k", "d"])
def test_another_distribution_is_that_of_other_evidence(tau1: str) -> None:
    """The median is that of draws from the other distribution: within 5 standard errors."""
    found = told(tau1=tau1)
    before = prior(found.table)
    seen = posterior(before, EVIDENCE) / before
    others = {"rare_cells": before * np.sqrt(seen)}
    values, axis = (OVERDISPERSION, 1) if tau1 == "k" else (SHIFTS, 0)
    for assumption, weights in others.items():
        (row,) = rows(found, assumption)
        assert row.draws is not None
        assert LEAST_DRAWS <= row.draws < N_DRAWS
        cumulative = np.cumsum(weights.sum(axis=axis)) / weights.sum()
        error = 5.0 * 0.5 / np.sqrt(row.draws)
        least, most = np.searchsorted(cumulative, (0.5 - error, 0.5 + error))
        assert values[least] <= row.tau1_median <= values[most]


def test_too_few_draws_make_no_row() -> None:
    assert sensitivity(told(int(LEAST_DRAWS))) == ()
    assert len(rows(told(400), "rare_cells")) == 1


def test_models_without_calibrated_error() -> None:
    assert sensitivity(estimate()) == ()
    assert sensitivity(estimate(known=True)) == ()
    found = told()
    assert found.draws is not None
    plain = replace(found.draws.model, weights=())  # type: ignore[type-var]
    assert sensitivity(replace(found, draws=replace(found.draws, model=plain))) == ()


def test_misreported_keys_scale_the_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    found = estimate()
    assert found.draws is not None
    shares = np.array([1.0, 0.5, 0.0])
    monkeypatch.setattr(module, "correct_shares", lambda *_: shares)
    same, half, none = sensitivity(found)
    draws = found.draws.retained("tau1")
    assert (same.value, half.value, none.value) == module.MISREPORTED
    assert same.tau1_median == np.median(draws)
    assert same.tau1_lower == np.quantile(draws, 0.025, method="inverted_cdf")
    assert half.tau1_median == pytest.approx(0.5 * np.median(draws), abs=1.0)
    assert (none.tau1_lower, none.tau1_upper) == (0.0, 0.0)
    # Which of the population uniques are matched correctly is up to chance.
    rng = np.random.default_rng(1)
    thinned = rng.binomial(np.tile(draws.astype(int), 50), 0.5)
    for end, level in ((half.tau1_lower, 0.025), (half.tau1_upper, 0.975)):
        assert end == pytest.approx(np.quantile(thinned, level), abs=2.0)


def test_the_evidence_is_what_the_weights_have_beyond_the_prior() -> None:
    """Of a sample of households, whose prior depends on the answer without the error."""
    homes = np.arange(400, dtype=np.int32) // 2
    codes = np.column_stack((np.arange(400), homes % 5, homes % 3, homes % 2))
    keys = [Key.of_size(name, size) for name, size in zip("ABCD", (400, 5, 3, 2), strict=True)]
    sample = replace(CellTable.from_codes(codes, keys, 4000), households=homes)
    alone = 0.95 * sample.unique.sum()
    experience = experience_of(sample)
    weights = prior(sample, experience, alone)
    assert not np.allclose(weights, prior(sample, experience), rtol=1e-3)
    before = TauFacts(mean=alone, median=alone, lower=alone, upper=alone)
    model = Calibrated(
        wrapped=LatentClass(),
        weights=tuple(np.ravel(weights).tolist()),
        asked=Auto(),
        told=SelectionFacts(before=before),
    )
    np.testing.assert_allclose(_less_evidence(sample, model), 1.0, rtol=1e-9)
