"""ρ: against exact posteriors by enumeration, of a conjugate toy and of latent classes."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import naive
from unikat import HDP, CellTable, Key, LatentClass, Zeros
from unikat.data.margins import read_margin
from unikat.errors import DataError, SpecError
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.kernels import neighbours as kernels
from unikat.models.base import Stream
from unikat.studies.auto import Execution
from unikat.synthesis.attacks import persons
from unikat.synthesis.attacks.persons import CandidateRatios, log_priors, neighbours
from unikat.synthesis.attacks.posterior import (
    MOST_ERROR,
    N_BATCHES,
    Belief,
    Fitting,
    Learned,
    Mean,
    Prior,
    Question,
    RatioObserver,
    RatioTotals,
    joined_table,
    told,
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
    kernels.neighbour_ratios(rows, z, counts, profile, offsets, weights, ratio, own)
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


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from([(3, 2, 2), (2,), (2, 3)]))
def test_the_ratios_of_mixed_membership_are_those_of_the_closed_sum(seed, levels):
    """Counts of all other records' tokens; more records than are done at a time."""
    check_ratios(seed, levels, 3)


def test_more_components_than_are_done_at_a_time_have_the_ratios_of_the_closed_sum():
    check_ratios(1, (2, 2), 70)


def check_ratios(seed, levels, n_components):
    g = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(levels)))
    n, n_keys, n_rows = 11, len(levels), int(offsets[-1])
    cells = np.stack([g.integers(0, k, n) for k in levels], 1)
    z, profile = g.integers(0, n_components, (n, n_keys)), g.gamma(1.0, 1.0, n_rows) + 1e-3
    weights = g.dirichlet(np.ones(n_components))
    alpha, share = g.gamma(1.0, 1.0, 2) + 0.01, g.dirichlet(np.ones(2))
    own, ratio = compared_with_the_closed_sum(cells, levels, z, profile, weights, alpha, share)
    # The kernel sums over components in single precision.
    assert own == pytest.approx(1.0, rel=1e-5)
    assert ratio == pytest.approx(1.0, rel=1e-5)


def test_records_of_very_small_probability_are_summed_in_double_precision():
    """Components that have one key each in common with the record, and hardly any other.

    That all keys are of one component has the probability 1e-50, below single precision, and that
    they are of three has less.
    """
    cells = np.repeat(1 - np.eye(3, dtype=int), 1_000, axis=0)
    cells = np.concatenate((cells, [[0, 0, 0]]))
    z = np.repeat(np.repeat(np.arange(3), 1_000)[:, None], 3, axis=1)
    z = np.concatenate((z, [[0, 1, 2]]))
    own, ratio = compared_with_the_closed_sum(
        cells, (2, 2, 2), z, np.full(6, 1e-22), np.full(3, 1 / 3), np.full(1, 1e-30), np.ones(1)
    )
    assert own[-1] == pytest.approx(1.0, rel=1e-9)
    assert ratio[-1] == pytest.approx(1.0, rel=1e-9)


def compared_with_the_closed_sum(cells, levels, z, profile, weights, alpha, share):
    """Probabilities and ratios of the last eleven records over those of the closed sum."""
    offsets = np.concatenate(([0], np.cumsum(levels)))
    n_keys, n_rows, n_components = len(levels), int(offsets[-1]), len(weights)
    rows = (cells + offsets[:-1]).astype(np.int32)
    counts = np.zeros((n_components, n_rows), np.int64)
    np.add.at(counts, (z, rows), 1)
    given = counts, profile, offsets, weights, alpha, share
    every, rows, all_z, z = cells, rows[-11:], z, z[-11:]
    n = len(rows)
    ratio, own = np.empty((n, 1 + n_rows - n_keys)), np.empty(n)
    kernels.membership_ratios(rows, z, *given, ratio, own)
    candidates = neighbours(every[-n:].astype(np.int32), levels)
    for i in range(n):
        at = len(every) - n + i
        theta = []
        for j, first in enumerate(offsets[:-1]):
            others = np.stack(
                [
                    np.bincount(
                        np.delete(every[:, j], at)[np.delete(all_z[:, j], at) == k],
                        minlength=levels[j],
                    )
                    for k in range(n_components)
                ],
                axis=1,
            )
            mean = others + profile[first : first + levels[j], None]
            theta.append(mean / mean.sum(axis=0))
        wanted = np.array(
            [
                sum(
                    w * naive.closed_sum(theta, weights, a, cell)
                    for a, w in zip(alpha, share, strict=True)
                )
                for cell in candidates.cells[i].tolist()
            ]
        )
        own[i] /= wanted[0]
        ratio[i] /= wanted / wanted[0]
    return own, ratio


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
        """Four chains of independent draws, and all of them with their ratios."""
        theta = generator.dirichlet(counts + 0.7, 100_000)
        ratio = theta[:, place] / theta[:, truth]
        batches = ratio.reshape(4, N_BATCHES, -1, *place.shape)
        n = np.full(batches.shape[:2], float(batches.shape[2]))
        return Mean.of(RatioTotals(n, batches.sum(axis=2))), theta, ratio

    (of_original, theta, ratio), *joined = (
        drawn(original + made) for made in (np.zeros(6, int), *synthetic)
    )
    found = Learned.of(of_original, [one[0] for one in joined], Prior(np.zeros(place.shape)))
    wanted = Belief.of(exact)
    # The estimate of the paper: draws given the original, weighted by both (26, 27).
    direct = np.zeros(place.shape)
    for made in synthetic:
        log = np.log(theta) @ made
        p = np.exp(log - log.max())
        direct += np.log((p[:, None, None] * ratio).sum(axis=0) / ratio.sum(axis=0))
    of_paper = Belief.of(direct)
    assert found.doubt.max() < 0.05
    errors = np.log(found.after.probability / wanted.probability) / found.error
    assert abs(errors).max() < 4.5
    np.testing.assert_allclose(of_paper.probability, wanted.probability, rtol=0.05)
    assert found.after.rank.tolist() == wanted.rank.tolist()
    assert np.ptp(found.after.rank) > 1.0
    assert found.before.probability == pytest.approx(np.full(len(place), 1 / 4))
    assert found.before.rank.tolist() == [2.5] * len(place)
    assert found.before.first == pytest.approx(np.full(len(place), 1 / 4))


# The model, the law of its tokens, the first of the records and the number of synthetic ones: the
# partitions of many tokens are too many to be listed.
MODELS = {
    "latent-class": (
        LatentClass(profile_concentration=2.0, profile_base="uniform", top_shape=1, top_rate=1),
        {"alpha": None},
        (0, 2),
    ),
    "hdp": (
        HDP(profile_concentration=2.0, profile_base="uniform", top_shape=1, top_rate=1),
        {"alpha": (2.0, 1.0)},
        (1, 1),
    ),
    "hdp, per record": (
        HDP(
            profile_concentration=2.0, profile_base="uniform", top_shape=1, top_rate=1,
            alpha="per-record", alpha_shape=1.0,
        ),
        {"alpha": (1.0, 1.0), "shared": False},
        (1, 1),
    ),
}  # fmt: skip
RECORDS = np.array([[0, 1], [0, 1], [2, 0], [1, 1]], np.int32)
SYNTHETIC = np.array([[0, 1], [2, 1]], np.int32)


def fitted(name):
    """Means of g_t of all but one of the records, alone and with the synthetic file."""
    model, _, (first, n_synthetic) = MODELS[name]
    keys = [Key.of_size(name, n) for name, n in zip("AB", LEVELS, strict=True)]
    table = CellTable.from_codes(RECORDS[first:], keys, 100)
    observer = CandidateRatios(candidates=neighbours(RECORDS[1:], LEVELS), chosen=np.arange(3))
    plan = Plan(n_chains=2, thin=2, stop=StopRule(rhat=1.05, ess=2_000, max_sweeps=60_000))
    return observer.candidates, [
        Mean.of(
            sample(
                model, one, observer, seed=3, plan=plan, workers=Workers(n_workers=1)
            ).totals
        )
        for one in (table, joined_table(table, SYNTHETIC[:n_synthetic]))
    ]  # fmt: skip


def listed(name, candidates):
    """Log evidence of all candidates in place of each record, without and with the file."""
    evidence = {}
    _, tokens, (first, n_synthetic) = MODELS[name]

    def log_of(rows):
        rows = tuple(sorted(map(tuple, rows)))
        if rows not in evidence:
            law = naive.Franchise(rows, LEVELS, profile=2.0, top=(1.0, 1.0), **tokens)
            evidence[rows] = math.log(law.evidence)
        return evidence[rows]

    alone, both = (np.zeros(candidates.possible.shape) for _ in range(2))
    for i, t in np.ndindex(alone.shape):
        guess = np.vstack((np.delete(RECORDS, 1 + i, axis=0)[first:], candidates.cells[i, t]))
        alone[i, t] = log_of(guess)
        both[i, t] = log_of(np.vstack((guess, SYNTHETIC[:n_synthetic])))
    return alone, both


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", MODELS)
def test_rho_is_that_of_all_partitions(name):
    """Fitted to four records, and to these with a synthetic file of two."""
    candidates, (original, joined) = fitted(name)
    alone, both = listed(name, candidates)
    for prior, wanted in (("uniform", both - alone), ("model", both)):
        found = Learned.of(original, [joined], log_priors(candidates, RECORDS, LEVELS)[prior])
        errors = np.log(found.after.shares) - np.log(Belief.of(wanted).shares)
        assert found.doubt.max() < 0.05
        assert abs(errors[:, 0] / found.error).max() < 4.0
        np.testing.assert_allclose(errors, 0.0, atol=0.06)


@pytest.mark.slow
@pytest.mark.statistical
def test_a_record_that_is_left_among_the_others_is_caught(monkeypatch):
    """Planted: the means of the profiles have the record itself in them."""
    slip = kernels.membership_ratios

    def with_itself(rows, z, counts, *given):
        last = np.full(z.shape, len(counts) - 1)
        slip(rows, last, counts + np.eye(len(counts), dtype=int)[-1][:, None], *given)

    monkeypatch.setattr(kernels, "membership_ratios", with_itself)
    candidates, means = fitted("hdp")
    wanted = Belief.of(listed("hdp", candidates)[1])
    prior = log_priors(candidates, RECORDS, LEVELS)["model"]
    found = Learned.of(means[0], means[1:], prior)
    assert abs(np.log(found.after.shares / wanted.shares)).max() > 0.1


def test_priors_are_what_they_say():
    records = np.array([[0, 1], [0, 0], [1, 1], [2, 1]], np.int32)
    candidates = neighbours(records[:1], LEVELS)
    totals = RatioTotals(np.full((2, 1), 1.0), np.array([[[[1.0, 1.0, 0.0, 1.0]]]] * 2))
    totals.first[1] = [[[1.0, 0.0, 0.0, 3.0]]]
    mean = Mean.of(totals)
    candidates = candidates._replace(possible=np.array([[True, True, False, True]]))
    priors = {
        name: Learned.of(mean, [mean], prior).before.shares[0]
        for name, prior in log_priors(candidates, records, LEVELS).items()
    }
    # Himself, A = 1, A = 2 (impossible), B = 0.
    np.testing.assert_allclose(priors["uniform"], np.array([1, 1, 0, 1]) / 3)
    np.testing.assert_allclose(priors["margins"], np.array([1, 1 / 2, 0, 1 / 3]) / (11 / 6))
    np.testing.assert_allclose(priors["model"], np.array([1, 1 / 2, 0, 2]) / 3.5)


def test_who_knows_counts_of_the_population_has_the_posterior_of_a_random_sample():
    """All samples of one record more from the population, given the records that he knows."""
    keys = [Key.of_size(name, n) for name, n in zip("AB", LEVELS, strict=True)]
    known = np.array([[0, 1], [0, 0], [2, 1]], np.int32)
    records = np.vstack(([[0, 1]], known)).astype(np.int32)
    table = CellTable.from_codes(records, keys, 5)
    counts = pd.DataFrame({"A": [0, 1, 2], "people": [4, 5, 2]})
    margins = persons.known_population(table, [read_margin(counts, keys)]).margins
    candidates = neighbours(records[:1], LEVELS)
    prior = log_priors(candidates, records, LEVELS, margins)["population"]
    found = Belief.of(prior.log).shares[0]
    population = [level for level, n in enumerate((4, 5, 2)) for _ in range(n)]
    for level in known[:, 0]:
        population.remove(level)
    left = np.bincount(population, minlength=3)
    # A = 0 (himself), 1, 2 with his B; another B, of which nothing is known.
    wanted = np.array([left[0], left[1], left[2], left[0]])
    np.testing.assert_allclose(found, wanted / wanted.sum())
    # The truth stays possible where he is the last of his margin cell.
    counts = counts.assign(people=[3, 0, 1])
    margins = persons.known_population(table, [read_margin(counts, keys)]).margins
    prior = log_priors(candidates, records, LEVELS, margins)["population"]
    np.testing.assert_allclose(Belief.of(prior.log).shares[0], [0.5, 0.0, 0.0, 0.5])


def test_counts_over_several_keys_are_of_their_combination():
    keys = [Key.of_size(name, n) for name, n in zip("AB", LEVELS, strict=True)]
    records = np.array([[0, 1], [1, 0]], np.int32)
    table = CellTable.from_codes(records, keys, 5)
    counts = pd.DataFrame({"A": [0, 0, 1, 1, 2, 2], "B": [0, 1] * 3, "people": [3, 7, 9, 2, 4, 5]})
    margins = [read_margin(counts, keys)]
    known = persons.known_population(table, margins)
    assert known.population_size == table.population_size
    candidates = neighbours(records[:1], LEVELS)
    prior = log_priors(candidates, records, LEVELS, known.margins)["population"]
    # Himself, A = 1, A = 2, B = 0.
    np.testing.assert_allclose(Belief.of(prior.log).shares[0], np.array([7, 2, 5, 3]) / 17)
    of_one = read_margin(counts.groupby("A", as_index=False)["people"].sum(), keys)
    with pytest.raises(SpecError, match="one table"):
        persons.known_population(table, [*margins, of_one])
    with pytest.raises(DataError, match="more records"):
        persons.known_population(
            table, [read_margin(counts.assign(people=[3, 0, 9, 2, 4, 5]), keys)]
        )


class Fixed(RatioObserver):
    """Ratios that are listed, one after another."""

    def __init__(self, values):
        self.values = iter(values)

    possible = np.ones((1, 2), np.bool_)

    def cost(self, model, data):
        return 1.0

    def ratios(self, *state):
        return np.array([[1.0, next(self.values)]]), np.zeros(1)


@pytest.mark.parametrize("n", [1, 7, 8, 9, 16, 33, 100])
def test_batches_are_neighbouring_draws_and_become_longer(n):
    values = np.arange(1.0, n + 1)
    observer = Fixed(values)
    totals = observer.start()
    for _ in range(n):
        observer.observe(None, None, None, None, totals)
    length = 1
    while length * N_BATCHES < n:
        length *= 2
    parts = [values[at : at + length] for at in range(0, n, length)]
    assert totals.n_draws[: len(parts)].tolist() == list(map(len, parts))
    assert totals.first[: len(parts), 0, 1].tolist() == [part.sum() for part in parts]
    assert totals.n_draws.sum() == n


def of_batches(values, n_filled=N_BATCHES):
    """Mean of one record in batches of ten draws, (n_chains, n_batches, n_candidates)."""
    n_chains, _, n_each = values.shape
    totals = RatioTotals(
        np.zeros((n_chains, N_BATCHES)), np.zeros((n_chains, N_BATCHES, 1, n_each))
    )
    totals.n_draws[:, :n_filled] = 10.0
    totals.first[:, :n_filled, 0] = 10.0 * values[:, :n_filled]
    return Mean.of(totals)


def written_once_more(fits, coefficients, shares):
    """Squared standard error of log rho, by textbook formulas of means of batches and of chains."""
    within = between = 0.0
    for values, coefficient in zip(fits, coefficients, strict=True):
        deviation = values / values.mean(axis=(0, 1)) - 1.0
        deviation = deviation - (deviation @ shares)[..., None]
        n_chains, n_batches, _ = deviation.shape
        of_batch = deviation.var(axis=1, ddof=1).mean(axis=0)
        within = within + coefficient**2 * of_batch / (n_chains * n_batches)
        between = between + coefficient**2 * deviation.mean(axis=1).var(axis=0, ddof=1) / n_chains
    return np.maximum(within, between), within, between


@pytest.mark.parametrize("predicted", [False, True])
@pytest.mark.parametrize("slow", [0.0, 1.0])
@pytest.mark.parametrize("n_filled", [N_BATCHES, N_BATCHES // 2 + 1])
def test_the_standard_error_is_that_of_batches_and_chains(predicted, slow, n_filled):
    """Too small, it would let numbers of pure noise stand, and records of high rho be left out."""
    rng = np.random.default_rng(5)
    n_chains, n_each = 3, 4
    fits = []
    for _ in range(3):
        chains = slow * rng.normal(0.0, 0.2, (n_chains, 1, n_each))
        batches = rng.normal(0.0, 0.1, (n_chains, n_filled, n_each))
        batches -= batches.mean(axis=1, keepdims=True)
        fits.append(np.exp(np.log([1.0, 0.6, 0.3, 0.001]) + chains + batches))
        fits[-1][..., 0] = 1.0
    original, *joined = (of_batches(one, n_filled) for one in fits)
    found = Learned.of(original, joined, Prior(np.zeros((1, n_each)), predicted))
    # The original's mean stands in the other direction once for each synthetic file.
    coefficients = (-1.0 if predicted else -2.0, 1.0, 1.0)
    shares = found.after.shares[0]
    expected, within, between = written_once_more(fits, coefficients, shares)
    assert (within < between).all() if slow else (within > between).all()
    assert found.error[0] == pytest.approx(np.sqrt(expected[0]), rel=1e-4)
    matters = shares >= 0.01 * shares.max()
    assert matters[1:].any()
    assert found.doubt[0] == pytest.approx(np.sqrt(expected[matters].max()), rel=1e-4)


def test_a_truth_that_hardly_anybody_believes_still_has_its_doubt():
    """What is said of it is the record's own number, however small it is."""
    rng = np.random.default_rng(6)
    values = np.exp(rng.normal(0.0, 0.1, (2, N_BATCHES, 3)) + np.log([1.0, 500.0, 400.0]))
    values[..., 0] = rng.uniform(0.1, 3.0, (2, N_BATCHES))
    joined = of_batches(values)
    original = of_batches(np.ones((2, N_BATCHES, 3)))
    found = Learned.of(original, [joined], Prior(np.zeros((1, 3))))
    assert found.after.probability[0] < 0.005
    assert found.doubt[0] == found.error[0] > 0.1


@pytest.mark.parametrize("with_zeros", [False, True])
def test_ratios_of_a_state_count_every_record_but_the_unknown_one(with_zeros):
    """Simulated impossible records among them, and classes without any record."""
    keys = [Key.of_size(name, n) for name, n in zip("AB", LEVELS, strict=True)]
    zeros = Zeros.of(["A == 1 and B == 1"], keys).diagram if with_zeros else None
    codes = np.array([[0, 0]] + [[0, 1]] * 6 + [[1, 0]] * 5 + [[2, 0]] * 2, np.int32)
    table = CellTable.from_codes(codes, keys, 100, zeros=zeros)
    model = LatentClass(profile_base="uniform")
    data = model.prepare(table)
    state = model.init(Stream(3, 0, 0), data)
    for sweep in range(1, 60):
        state, _ = model.step(Stream(3, 0, sweep), state, data, 1)
        if sweep > 3 and (state.impossible.sum() > 0 or not with_zeros):
            break
    assert (state.impossible.sum() > 0) == with_zeros
    candidates = neighbours(table.cells, LEVELS, zeros)
    observer = CandidateRatios(candidates=candidates, chosen=np.arange(table.n_cells))
    ratio, log_own = observer.ratios(Stream(3, 0, 9), model, state, data)
    z = state.z.ravel()
    offsets = np.array([0, 3, 5])
    occupied = {int(k) for k in z}
    assert len(occupied) < len(state.weights)
    for cell in range(table.n_cells):
        unknown = int(np.flatnonzero(table.record_cell == cell)[0])
        counts = np.zeros((len(state.weights), 5))
        if with_zeros:
            counts += state.impossible.T
        for record in range(len(codes)):
            if record != unknown:
                counts[z[record], offsets[:2] + table.cells[table.record_cell[record]]] += 1

        def chance(person, counts=counts):
            given = counts + state.profile
            p = state.weights.astype(float)
            for j, level in enumerate(person):
                block = given[:, offsets[j] : offsets[j + 1]]
                p = p * block[:, level] / block.sum(axis=1)
            return p.sum()

        own = chance(table.cells[cell])
        assert log_own[cell] == pytest.approx(np.log(own))
        expected = [chance(person) / own for person in candidates.cells[cell]]
        assert ratio[cell] == pytest.approx(np.array(expected))


def test_a_joined_file_has_the_prior_of_the_truncation_of_the_original():
    """Tempered by the records of the original, of which there are more in a joined file."""
    keys = [Key.of_size(name, n) for name, n in zip("AB", LEVELS, strict=True)]
    original = CellTable.from_codes(RECORDS, keys, 100)
    joined = joined_table(original, np.repeat(SYNTHETIC, 2, axis=0))
    found = persons._as_fitted(LatentClass(zeros_tempering=0.5), original, joined)
    assert found.zeros_tempering * joined.n_records == 0.5 * original.n_records


def test_what_is_told_is_of_records_with_a_number():
    """Six records of four candidates, of two of which the number is noise."""
    rng = np.random.default_rng(7)
    ratios = np.array(
        [
            [7.2, 1.0, 1.0, 0.8],
            [5.2, 2.0, 2.0, 0.8],
            [1.0, 2.0, 3.0, 4.0],
            [2.0, 3.0, 4.0, 1.0],
            [50.0, 1.0, 1.0, 1.0],
            [7.0, 1.0, 1.0, 1.0],
        ]
    )
    shape = 2, N_BATCHES, *ratios.shape
    totals = [RatioTotals(np.ones(shape[:2]), np.ones(shape)) for _ in range(2)]
    totals[1].first[:] = ratios
    # The truth of the fifth, and one other candidate of the sixth.
    for place in ((4, 0), (5, 1)):
        noise = rng.gamma(0.4, size=shape[:2])
        totals[1].first[:, :, *place] *= noise / noise.mean()
    question = Question(
        name="x",
        unit="combination",
        variable=np.array([-1, 0, 0, 1]),
        variables=["A", "B"],
        cell=np.arange(6),
    )
    means = list(map(Mean.of, totals))
    prior = Prior(np.zeros(ratios.shape))
    how = Fitting(label="m", seed=1, plan=Plan(), level=0.95, execution=Execution())
    found = told(means, {"uniform": prior}, question, how, converged=True)
    (facts,) = found.facts.priors
    assert (found.facts.n_persons, found.facts.n_unknown, found.facts.n_candidates) == (6, 2, 4)
    assert (facts.top_three, facts.top_three_before, facts.twice) == (0.75, 1.0, 0.5)
    assert (facts.largest, facts.largest_before) == (pytest.approx(0.72), pytest.approx(0.25))
    assert sum(facts.probabilities) == 4
    assert facts.probabilities[10] == facts.probabilities[14] == 1
    # The share of the other candidates that are less probable: 0, 1/3, and all of them twice.
    assert [k for k, n in enumerate(facts.ranks) for _ in range(n)] == [0, 6, 19, 19]
    (result,) = found.results
    assert (result.n, result.rate.value, result.baseline.value) == (4.0, 0.5, 0.25)
    known = [True, True, True, True, False, False]
    rho = found.records["rho"][:6]
    assert np.isfinite(rho).tolist() == known
    assert rho[:4] == pytest.approx(ratios[:4, 0] / ratios[:4].sum(axis=1))
    # The own number of the sixth is sure, but not whether the other is more probable.
    assert found.records["rho_se"][5] < MOST_ERROR


def test_ranks_and_first_guesses_share_ties():
    shares = np.array([[2.0, 1.0, 2.0, 3.0], [1.0, 1.0, 0.5, 0.0], [3.0, 1.0, 1.0, 1.0]])
    with np.errstate(divide="ignore"):
        found = Belief.of(np.log(shares))
    assert found.rank.tolist() == [2.5, 1.5, 1.0]
    assert found.first.tolist() == [0.0, 0.5, 1.0]


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("persistence", [0.0, 0.7])
def test_the_standard_error_is_the_spread_of_runs(persistence):
    """Log g of three candidates, autocorrelated, three fits of four chains; 300 runs of them."""
    rng = np.random.default_rng(8)
    n_runs, n_draws, coefficients = 300, 800, (-2.0, 1.0, 1.0)
    log_rho, errors = [], []
    for _ in range(n_runs):
        means = []
        for _ in coefficients:
            shocks = rng.normal(size=(4, n_draws, 3)) * math.sqrt(1.0 - persistence**2)
            log_g = np.empty_like(shocks)
            log_g[:, 0] = rng.normal(size=(4, 3))
            for at in range(1, n_draws):
                log_g[:, at] = persistence * log_g[:, at - 1] + shocks[:, at]
            g = np.exp(0.7 * log_g)
            g[:, :, 0] = 1.0
            batches = g.reshape(4, N_BATCHES, -1, 1, 3)
            n = np.full((4, N_BATCHES), float(batches.shape[2]))
            means.append(Mean.of(RatioTotals(n, batches.sum(axis=2))))
        found = Learned.of(means[0], means[1:], Prior(np.zeros((1, 3))))
        log_rho.append(np.log(found.after.shares[0]))
        errors.append(found.error[0])
    spread = np.std(log_rho, axis=0)[0]
    # The larger of two estimates is too large by a seventh or so; the spread is known to a tenth.
    assert 0.9 < np.sqrt(np.mean(np.square(errors))) / spread < 1.4
    planted = np.sqrt(np.mean(np.square(errors))) / math.sqrt(N_BATCHES)
    assert planted / spread < 0.6
