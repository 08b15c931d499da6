"""ρ: against exact posteriors by enumeration, of a conjugate toy and of latent classes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from unikat import CellTable, Key, LatentClass, Zeros
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule, sample
from unikat.kernels.neighbours import neighbour_ratios
from unikat.synthesis.attacks.posterior import (
    Belief,
    CandidateRatios,
    Mean,
    RatioTotals,
    after,
    joined_table,
    log_priors,
    neighbours,
)

LEVELS = (3, 2)


def test_neighbours_are_the_person_and_all_that_differ_in_one_key():
    persons = np.array([[0, 1], [2, 0]], np.int32)
    found = neighbours(persons, LEVELS)
    for person, cells in zip(persons.tolist(), found.cells.tolist(), strict=True):
        wanted = [
            list(cell)
            for cell in itertools.product(*map(range, LEVELS))
            if sum(a != b for a, b in zip(cell, person, strict=True)) <= 1
        ]
        assert cells[0] == person
        assert sorted(cells) == sorted(wanted)
        for cell, variable in zip(cells[1:], found.variable[1:], strict=True):
            assert cell[variable] != person[variable]
    assert found.possible.all()


def test_what_is_impossible_is_no_candidate():
    keys = [Key.of_size(name, n) for name, n in zip("AB", LEVELS, strict=True)]
    zeros = Zeros.of(["A == 1 and B == 1"], keys)
    found = neighbours(np.array([[0, 1], [2, 0]], np.int32), LEVELS, zeros.diagram)
    assert found.cells[~found.possible].tolist() == [[1, 1]]


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6))
def test_the_ratios_are_those_of_the_equation(seed):
    """Counts of all other records, class by class, and the profiles integrated out."""
    g = np.random.default_rng(seed)
    n, n_classes, offsets = 7, 3, np.array([0, 3, 5])
    cells = np.stack([g.integers(0, k, n) for k in LEVELS], 1)
    z, profile = g.integers(0, n_classes, n), g.gamma(1.0, 1.0, 5) + 1e-3
    weights = g.dirichlet(np.ones(n_classes))
    rows = (cells + offsets[:2]).astype(np.int32)
    counts = np.zeros((n_classes, 5), np.int64)
    for i, j in itertools.product(range(n), range(2)):
        counts[z[i], rows[i, j]] += 1
    ratio, own = np.empty((n, 4)), np.empty(n)
    neighbour_ratios(rows, z, counts, profile, offsets, weights, ratio, own)
    candidates = neighbours(cells.astype(np.int32), LEVELS)
    for i in range(n):
        others = [r for r in range(n) if r != i]

        def probability(cell, others=others):
            total = 0.0
            for k in range(n_classes):
                part = weights[k]
                for j, level in enumerate(cell):
                    eta = profile[offsets[j] : offsets[j + 1]]
                    mine = [r for r in others if z[r] == k]
                    alike = sum(cells[r, j] == level for r in mine)
                    part *= (alike + eta[level]) / (len(mine) + eta.sum())
                total += part
            return total

        wanted = [probability(cell) for cell in candidates.cells[i].tolist()]
        assert own[i] == pytest.approx(wanted[0])
        assert ratio[i].tolist() == pytest.approx([one / wanted[0] for one in wanted])


def log_evidence(counts, prior=0.7):
    """Log probability of counts of cells in order, under a Dirichlet law of the cells."""
    total, n = prior * len(counts), sum(counts)
    return (
        math.lgamma(total) - math.lgamma(total + n)
        + sum(math.lgamma(prior + c) - math.lgamma(prior) for c in counts)
    )  # fmt: skip


def test_rho_is_that_of_a_conjugate_law_and_so_is_the_estimate_of_the_paper():
    """Cells with a Dirichlet law: everything is known exactly, and draws are independent."""
    generator = np.random.default_rng(4)
    original = np.array([3, 1, 0, 2, 1, 0])
    synthetic = [np.array([2, 2, 0, 1, 2, 0]), np.array([0, 1, 1, 4, 1, 0])]
    cells = np.array(list(itertools.product(*map(range, LEVELS))), np.int32)
    candidates = neighbours(cells[original > 0], LEVELS)
    place = candidates.cells @ np.array([LEVELS[1], 1])
    truth = np.broadcast_to(place[:, :1], place.shape)
    exact = np.zeros(place.shape)
    for pair in np.ndindex(place.shape):
        x, t = truth[pair], place[pair]
        with_t = original - np.eye(6, dtype=int)[x] + np.eye(6, dtype=int)[t]
        for made in synthetic:
            exact[pair] += log_evidence(with_t + made) - log_evidence(with_t)

    def drawn(counts):
        theta = generator.dirichlet(counts + 0.7, 100_000)
        ratio = theta[:, place] / theta[:, truth]
        sums = RatioTotals(np.array([len(theta)]), ratio.sum(axis=0), (ratio**2).sum(axis=0))
        return Mean.of_sums(sums), theta, ratio

    (of_original, theta, ratio), *joined = (
        drawn(original + made) for made in (np.zeros(6, int), *synthetic)
    )
    prior = np.zeros(place.shape)
    found, before, effective = after(of_original, [one[0] for one in joined], prior)
    wanted = Belief.of(exact)
    # The estimate of the paper: draws given the original, weighted by both (26, 27).
    direct = np.zeros(place.shape)
    for made in synthetic:
        log = np.log(theta) @ made
        p = np.exp(log - log.max())
        direct += np.log((p[:, None, None] * ratio).sum(axis=0) / ratio.sum(axis=0))
    of_paper = Belief.of(direct)
    assert effective.min() > 1_000
    np.testing.assert_allclose(found.probability, wanted.probability, rtol=0.05)
    np.testing.assert_allclose(of_paper.probability, wanted.probability, rtol=0.05)
    assert found.rank.tolist() == wanted.rank.tolist()
    assert np.ptp(found.rank) > 1.0
    assert before.probability == pytest.approx(np.full(len(effective), 1 / 4))
    assert before.rank.tolist() == [2.5] * len(effective)
    assert before.first == pytest.approx(np.full(len(effective), 1 / 4))


@pytest.mark.slow
@pytest.mark.statistical
def test_rho_of_latent_classes_is_that_of_all_partitions():
    """The model of the house, fitted to four records, and to these with a synthetic file of two."""
    model = LatentClass(profile_concentration=2.0, profile_base="uniform", top_shape=1, top_rate=1)
    records = np.array([[0, 1], [0, 1], [2, 0], [1, 1]], np.int32)
    synthetic = np.array([[0, 1], [2, 1]], np.int32)
    keys = [Key.of_size(name, n) for name, n in zip("AB", LEVELS, strict=True)]
    table = CellTable.from_codes(records, keys, 100)
    candidates = neighbours(records[1:], LEVELS)
    plan = Plan(n_chains=2, thin=2, stop=StopRule(rhat=1.05, ess=2_000, max_sweeps=60_000))
    fits = [
        sample(model, one, CandidateRatios(candidates=candidates), seed=3, plan=plan,
               workers=Workers(n_workers=1))
        for one in (table, joined_table(table, synthetic))
    ]  # fmt: skip
    original, joined = map(Mean.of, fits)
    evidence = {}

    def log_of(rows):
        rows = tuple(sorted(map(tuple, rows)))
        if rows not in evidence:
            profile = 2.0
            law = naive.Franchise(rows, LEVELS, alpha=None, profile=profile, top=(1.0, 1.0))
            evidence[rows] = math.log(law.evidence)
        return evidence[rows]

    exact, prediction = (np.zeros(candidates.possible.shape) for _ in range(2))
    for i, t in np.ndindex(exact.shape):
        guess = [*np.delete(records, 1 + i, axis=0).tolist(), candidates.cells[i, t].tolist()]
        exact[i, t] = log_of([*guess, *synthetic.tolist()]) - log_of(guess)
        prediction[i, t] = log_of(guess)
    priors = log_priors(candidates, original, records, LEVELS)
    for prior, log_prior in (("uniform", 0.0), ("model", prediction)):
        found, _, effective = after(original, [joined], priors[prior])
        wanted = Belief.of(exact + log_prior)
        assert effective.min() > 500
        np.testing.assert_allclose(found.probability, wanted.probability, rtol=0.05)


def test_priors_are_what_they_say():
    records = np.array([[0, 1], [0, 0], [1, 1], [2, 1]], np.int32)
    candidates = neighbours(records[:1], LEVELS)
    sums = RatioTotals(np.array([2.0]), np.array([[2.0, 1.0, 0.0, 4.0]]), np.ones((1, 4)))
    mean = Mean.of_sums(sums)
    candidates = candidates._replace(possible=np.array([[True, True, False, True]]))
    priors = {
        name: np.exp(prior[0])
        for name, prior in log_priors(candidates, mean, records, LEVELS).items()
    }
    # Himself, A = 1, A = 2 (impossible), B = 0.
    assert priors["uniform"].tolist() == [1, 1, 0, 1]
    np.testing.assert_allclose(priors["margins"], [1, 1 / 2, 0, 1 / 3])
    np.testing.assert_allclose(priors["model"], [1, 1 / 2, 0, 2])
    assert mean.effective[0].tolist() == [4.0, 1.0, math.inf, 16.0]
    found, before, effective = after(mean, [mean], np.log([[1.0, 1.0, 1e-300, 1.0]]))
    assert effective.tolist() == [1.0]
    assert found.probability == before.probability == pytest.approx([1 / 3])
