"""Fits of an attack go on until log ρ is sure enough, with the draws where the variance is."""

from __future__ import annotations

import numpy as np
import pytest

from unikat import CellTable, Key, LatentClass
from unikat.inference.backends import Workers
from unikat.inference.plan import Plan, StopRule
from unikat.studies.auto import Execution
from unikat.synthesis.attacks import fits
from unikat.synthesis.attacks.fits import AIM, appended, draws_needed
from unikat.synthesis.attacks.persons import attacked_persons, log_priors, one_unknown
from unikat.synthesis.attacks.posterior import (
    MOST_ERROR,
    N_BATCHES,
    Fitting,
    Learned,
    Mean,
    RatioTotals,
    errors_by_fit,
)


def totals_of(rng, n_batches, n_chains=3, lengths=(5, 9)):
    n = rng.integers(*lengths, (n_chains, n_batches)).astype(float)
    return RatioTotals(n, n[..., None, None] * rng.lognormal(0.0, 0.3, (*n.shape, 4, 3)))


def test_totals_of_chains_that_went_on_are_those_of_all_their_draws():
    rng = np.random.default_rng(2)
    parts = [totals_of(rng, N_BATCHES) for _ in range(6)]
    parts[2].n_draws[:, 3:] = 0.0
    parts[2].first[:, 3:] = 0.0
    found = parts[0]
    for part in parts[1:]:
        found = appended(found, part)
        assert N_BATCHES // 2 <= found.n_draws.shape[1] <= N_BATCHES
        assert (found.n_draws > 0.0).all()
    for name in RatioTotals._fields:
        every = sum(getattr(part, name).sum(axis=1) for part in parts)
        np.testing.assert_allclose(getattr(found, name).sum(axis=1), every)


def test_the_standard_error_of_uneven_batches_is_that_of_independent_draws():
    """Draws are independent, so that batches of any length tell the same variance."""
    rng = np.random.default_rng(3)
    n_chains, n = 4, 96
    found, spread = [], []
    for _ in range(400):
        g = rng.lognormal(0.0, 0.5, (n_chains, n, 1, 2))
        g[..., 0] = 1.0
        ends = np.array([0, 2, 4, 6, 8, 16, 24, 32, 48, 64, 80, 96])
        totals = RatioTotals(
            np.tile(np.diff(ends).astype(float), (n_chains, 1)),
            np.add.reduceat(g, ends[:-1], axis=1),
        )
        mean = Mean.of(totals)
        error = fits_error(mean)
        found.append(error)
        spread.append(mean.log[0, 1])
    # The larger of an estimate within chains and one between them is too large, by a quarter here.
    assert 0.95 < np.sqrt(np.mean(found)) / np.std(spread) < 1.5


def fits_error(mean):
    from unikat.synthesis.attacks.posterior import squared_error

    return squared_error([mean], [1.0], np.eye(1, 2))[0, 1]


def test_draws_are_where_the_variance_is():
    """For a given number of draws in all no other shares make less variance."""
    n_draws, of_draw = np.array([50.0, 20.0, 30.0]), np.array([[25.0], [1.0], [2.0]])
    needed, n_lacking = draws_needed(of_draw / n_draws[:, None], n_draws, np.full(3, 1e9))
    assert n_lacking == 1
    assert (of_draw[:, 0] / needed).sum() == pytest.approx(AIM**2)
    for i, j in ((0, 1), (0, 2), (1, 2)):
        moved = needed.copy()
        moved[i] *= 1.05
        moved[j] -= moved[i] - needed[i]
        assert (of_draw[:, 0] / moved).sum() > AIM**2


def test_records_that_are_sure_or_out_of_reach_ask_for_no_draws():
    n_draws = np.array([100.0, 100.0])
    errors = np.array([[0.5, 0.9, 50.0], [0.4, 0.1, 0.1]]) * MOST_ERROR**2
    needed, n_lacking = draws_needed(errors, n_draws, 20.0 * n_draws)
    assert n_lacking == 1
    only, _ = draws_needed(errors[:, 1:2], n_draws, 20.0 * n_draws)
    np.testing.assert_array_equal(needed, only)
    nothing, n_lacking = draws_needed(errors[:, ::2], n_draws, 20.0 * n_draws)
    assert n_lacking == 0
    assert nothing.tolist() == [0.0, 0.0]


KEYS = [Key.of_size(name, n) for name, n in zip("AB", (3, 2), strict=True)]


def attack(folder=None, *, resume=False, **stop):
    """Twelve records and two synthetic files, by latent classes."""
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, key.n_levels, 12) for key in KEYS], 1)
    table = CellTable.from_codes(codes, KEYS, 1_000)
    made = [codes[rng.integers(0, 12, 12)].astype(np.int32) for _ in range(2)]
    execution = Execution(workers=Workers(n_workers=1), folder=folder, resume=resume)
    plan = Plan(
        n_chains=2, stop=StopRule(**({"rhat": 1.2, "ess": 30.0, "max_sweeps": 20_000} | stop))
    )
    how = Fitting(label="m", seed=2, plan=plan, level=0.95, execution=execution)
    return one_unknown(LatentClass(), table, made, how)


def test_fits_go_on_until_every_record_is_sure():
    found = attack()
    at_once = attack(ess=20.0, max_sweeps=300)
    assert found.facts.n_unknown == 0 < at_once.facts.n_unknown
    assert found.facts.standard_error < at_once.facts.standard_error


@pytest.mark.parametrize("at", [2, 5])
def test_an_attack_that_was_stopped_goes_on_to_the_same_numbers(tmp_path, monkeypatch, at):
    """In a fit's start, and where fits went on."""
    whole = attack()
    calls = 0
    sample = fits.sample

    def stopped(*args, **options):
        nonlocal calls
        calls += 1
        if calls == at:
            raise KeyboardInterrupt
        return sample(*args, **options)

    monkeypatch.setattr(fits, "sample", stopped)
    with pytest.raises(KeyboardInterrupt):
        attack(tmp_path)
    again = attack(tmp_path, resume=True)
    for name, column in whole.records.items():
        np.testing.assert_array_equal(column, again.records[name])


def test_limits_end_fits_that_would_go_on():
    """Forty draws are no number for anybody."""
    found = attack(ess=4.0, max_sweeps=400)
    assert found.facts.n_unknown > 0


def test_errors_by_fit_add_up_to_the_doubt():
    rng = np.random.default_rng(4)
    means = [Mean.of(totals_of(rng, N_BATCHES)) for _ in range(3)]
    codes = np.zeros((4, 2), np.int32)
    table = CellTable.from_codes(codes, [Key.of_size(name, 2) for name in "AB"], 9)
    candidates = attacked_persons(table, 1).candidates
    prior = log_priors(candidates, codes, (2, 2))["uniform"]
    prior = prior._replace(log=np.zeros((4, 3)))
    errors = errors_by_fit(means, prior)
    doubt = Learned.of(means[0], means[1:], prior).doubt
    assert (errors > 0.0).all()
    np.testing.assert_allclose(errors.sum(axis=0), doubt**2)
    # The mean given the original stands in log rho twice, so that its variance counts fourfold.
    assert errors[0].mean() > errors[1:].mean()
