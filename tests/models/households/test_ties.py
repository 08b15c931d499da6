"""Laws of values that depend on the head's, alone: their conditional, and where keys are tied."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import beta as beta_function

from statistical import nested
from statistical.test_nested import SMALL, TIES
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.models.households import ties
from unikat.models.households.nested import NestedHouseholds
from unikat.models.households.records import NestedData
from unikat.models.households.state import weights_of
from unikat.models.households.ties import Law
from unikat.rng import chain_key
from unikat.studies.fit import fit

N_LEVELS = 3
HEADS = np.array([6, 1, 3])
"""Members whose head has each level."""
CAUGHT = 1e-8
"""What a planted bug has to be seen at."""
OWN = np.array([0.5, 0.2, 0.3])
"""Law of their own draws."""


def prior_law(rng: np.random.Generator) -> Law:
    """A law from the prior, written once more."""
    n = N_LEVELS
    return Law(
        rng.dirichlet([1.0, 0.5, 0.5]),
        rng.dirichlet(np.full(n, 1.0 / n), n),
        nested.draw_differences(rng, n),
        nested.draw_steps(rng, 2 * n - 1),
    )


def drawn_counts(rng: np.random.Generator, law: Law) -> np.ndarray:
    """Where the values come from, member by member; own draws have the law OWN."""
    counts = np.zeros((4, N_LEVELS, N_LEVELS + 1), np.int64)

    def moved(h: int) -> int:
        while True:
            x = h + int(rng.choice(2 * N_LEVELS - 1, p=law.by_difference)) - N_LEVELS + 1
            if 0 <= x < N_LEVELS:
                return x

    for h, n_members in enumerate(HEADS):
        for _ in range(n_members):
            part = rng.choice(3, p=law.parts)
            x = -1
            if part == 1:
                x = int(rng.choice(N_LEVELS, p=law.by_level[h]))
            if part == 2:
                x = moved(h)
            if part > 0:
                counts[0, h, 1 + x] += 1
                continue
            counts[0, h, 0] += 1
            own = int(rng.choice(N_LEVELS, p=OWN))
            if rng.random() < law.kept[own - h + N_LEVELS - 1]:
                counts[1, h, 1 + own] += 1
                continue
            counts[3, h, 1 + own] += 1
            counts[2, h, 1 + moved(h)] += 1
    return counts


def numbers(law: Law) -> list[float]:
    steps = np.diff(law.kept) == 0.0
    return [
        *law.parts[:2],
        *law.parts[:2] ** 2,
        *law.by_level[0],
        *law.by_difference[[0, 2, 4]],
        *law.kept,
        *law.kept**2,
        *steps,
        law.kept[2] * law.by_difference[2],
        law.kept[2] * law.parts[0],
    ]


@cache
def prior_means(n: int) -> np.ndarray:
    """Numbers of draws from the prior, which no slip below touches."""
    rng = np.random.default_rng(7)
    return np.array([numbers(prior_law(rng)) for _ in range(n)])


def smallest_p(seed: int, caught: float = 0.0, n_runs: int = 600, n_steps: int = 8) -> float:
    """Smallest of the p-values of a joint test (Geweke) of the law's conditional.

    Looked at four times, the first time after a quarter of the runs; a look that is below `caught`
    is the last one.
    """
    rng = np.random.default_rng(seed)
    means, p = [], 1.0
    for run in range(1, n_runs + 1):
        law = prior_law(rng)
        for _ in range(n_steps):
            law = Law.drawn(rng, drawn_counts(rng, law), law)
        means.append(numbers(law))
        if run == n_runs or (caught and 4 * run % n_runs == 0):
            found = stats.ttest_ind(np.array(means), prior_means(10 * n_runs), equal_var=False)
            p = float(found.pvalue.min())
            if p < caught:
                break
    return p


@pytest.mark.statistical
@pytest.mark.slow
def test_laws_have_their_conditional():
    """False alarm about 1e-5 for all numbers together."""
    assert smallest_p(1) > 1e-6


@pytest.mark.statistical
@pytest.mark.slow
def test_differences_beyond_the_levels_that_are_forgotten_are_caught(monkeypatch):
    """As if every difference led to a level."""
    monkeypatch.setattr(ties, "_missed", lambda rng, counts, law: np.zeros(len(law), np.int64))
    assert smallest_p(2, CAUGHT) < CAUGHT


@pytest.mark.statistical
@pytest.mark.slow
def test_another_prior_of_the_parts_is_caught(monkeypatch):
    monkeypatch.setattr(ties, "_PARTS", np.array([1.0, 1.0, 1.0]))
    assert smallest_p(3, CAUGHT) < CAUGHT


@pytest.mark.statistical
@pytest.mark.slow
@pytest.mark.parametrize("slip", [{"_KEPT": (2.0, 1.0)}, {"_STEP": 0.4}], ids=str)
def test_another_prior_of_own_draws_that_are_kept_is_caught(monkeypatch, slip):
    for name, value in slip.items():
        monkeypatch.setattr(ties, name, value)
    assert smallest_p(4, CAUGHT) < CAUGHT


@pytest.mark.statistical
@pytest.mark.slow
def test_own_draws_that_made_place_and_are_not_counted_are_caught(monkeypatch):
    right = Law.drawn.__func__

    def slip(cls, rng, counts, before):
        changed = counts.copy()
        changed[3] = 0
        return right(cls, rng, changed, before)

    monkeypatch.setattr(Law, "drawn", classmethod(slip))
    assert smallest_p(6, CAUGHT) < CAUGHT


def test_steps_have_the_posterior_of_the_enumeration():
    """Which differences are steps, and the means between them, by listing all sets of steps."""
    stayed, left = np.array([4.0, 0.0, 1.0, 0.0]), np.array([0.0, 1.0, 3.0, 0.0])
    n, p, mean = len(stayed), {}, {}
    for steps in itertools.product([False, True], repeat=n - 1):
        at = [0, *(np.flatnonzero(steps) + 1), n]
        p[steps], means = 1.0, []
        for a, b in itertools.pairwise(at):
            here = 1.0 + stayed[a:b].sum(), 1.0 + left[a:b].sum()
            p[steps] *= beta_function(*here)
            means += [here[0] / sum(here)] * (b - a)
        for step in steps:
            p[steps] *= 0.15 if step else 0.85
        mean[steps] = np.array(means)
    total = sum(p.values())
    expected = sum(p[steps] / total * mean[steps] for steps in p)
    rng, times = np.random.default_rng(1), 4000
    drawn = np.array([ties._draw_steps(rng, stayed, left) for _ in range(times)])
    found = (np.diff(drawn, axis=1) != 0.0).tolist()
    for steps, weight in p.items():
        assert stats.binomtest(found.count(list(steps)), times, weight / total).pvalue > 1e-6
    assert stats.ttest_1samp(drawn, expected).pvalue.min() > 1e-6


def test_each_value_is_counted_once_by_an_origin_that_has_its_conditional():
    prior = TIES["two keys"]._replace(n=30)
    rng = np.random.default_rng(5)
    rows = nested.draw_rows(rng, prior, nested.draw_state(rng, prior))
    model = nested.Listed(roles=prior.roles, head=prior.head)
    data = model.prepare(nested.tabulate(prior, rows))
    state = model.init(Stream(3, 1, 0), data)
    for sweep in range(1, 4):
        state, _ = model.step(Stream(3, 1, sweep), state, data, 1)
    laid, tied = data.columns.ties, data.places >= 0
    # All levels alike, so that each origin occurs.
    n_each = np.bincount(laid.own)[laid.own] - 1
    even = np.where(laid.base < 0, 0.0, 1.0 / n_each)
    table = np.stack([1.0 / (n_each + 1), np.where(laid.base < 0, 1.0, 0.5), even])
    state = state._replace(ties=table)
    drawn, tally, _ = model.allocated(Stream(3, 1, 4), state, data, 1)
    assert tied.sum() > 10
    origin, stayed, came, gone = tally.ties
    n_given = origin[laid.base >= 0].sum()
    assert 0 < n_given < tied.sum()
    assert origin.sum() == tied.sum()
    assert stayed.sum() + gone.sum() == tied.sum() - n_given
    assert 0 < came.sum() == gone.sum()
    assert tally.member_counts.sum() == (data.member_rows >= 0).sum() - n_given
    assert (drawn.own_rows >= 0).sum() == tally.member_counts.sum()

    component = drawn.g[data.token_record].astype(np.int64) * state.omega.shape[1] + drawn.m
    n_levels = data.columns.absent[data.columns.walk]
    times, n_own, n_kept = 2000, np.zeros(tied.sum()), 0
    for sweep in range(times):
        found = ties.draw_origins(
            chain_key(7, 0),
            sweep,
            laid,
            weights_of(state),
            ties.lost_draws(laid, weights_of(state)),
            component,
            data.member_rows,
            data.places,
            n_levels,
        )
        n_own += found.own_rows[tied] >= 0
        n_kept += found.counts[1].sum()
    t, k = np.nonzero(tied)
    places = data.places[t, k]
    given, kept, moved = state.ties
    own = kept[places] * state.phi[data.member_rows[t, k], component[t]]
    lost = np.zeros(len(t))
    for i, place in enumerate(places):
        for y in range(n_levels[k[i]]):
            level = laid.own[place] + 1 + y
            lost[i] += (1.0 - kept[level]) * state.phi[laid.base[level], component[t[i]]]
    all_own = given[laid.own[places]] * (own + lost * moved[places])
    p = all_own / (all_own + given[places])
    # Binomial numbers of independent values; false alarm about 1e-5 for all together.
    assert stats.binom.sf(n_own - 1, times, p).min() > 1e-7
    assert stats.binom.cdf(n_own, times, p).min() > 1e-7
    p_kept = p * own / (own + lost * moved[places])
    deviation = (n_kept - times * p_kept.sum()) / np.sqrt(times * np.sum(p_kept * (1.0 - p_kept)))
    assert abs(deviation) < 5.0


def test_the_table_is_made_of_its_parts():
    rng = np.random.default_rng(4)
    law = prior_law(rng)
    table, kept, moved = law.table
    np.testing.assert_allclose(table.sum(axis=1), 1.0)
    np.testing.assert_allclose(moved.sum(axis=1), 1.0)
    for h in range(N_LEVELS):
        reached = sum(law.by_difference[x - h + N_LEVELS - 1] for x in range(N_LEVELS))
        for x in range(N_LEVELS):
            assert kept[h, 1 + x] == law.kept[x - h + N_LEVELS - 1]
            shift = law.by_difference[x - h + N_LEVELS - 1]
            assert moved[h, 1 + x] == pytest.approx(shift / reached)
            given = law.parts[1] * law.by_level[h, x]
            given += law.parts[2] * law.by_difference[x - h + N_LEVELS - 1] / reached
            assert table[h, 1 + x] == pytest.approx(given)


def prepared(rows: list[list[int]], **options: Any) -> tuple[CellTable, NestedData]:
    """Households of two at most with the first key of persons, of two levels, as their role."""
    layout = replace(SMALL.layout, role=0)
    table = CellTable.from_codes(np.array(rows, np.int32), layout.columns, 9, layout=layout)
    return table, NestedHouseholds(**options).prepare(table)


def test_the_head_is_the_role_that_every_household_has_once():
    couples = [[0, 0, 0, 1, 2, 3], [1, 0, 0, 1, 1, 0]]
    _, data = prepared(couples, ties="head")
    assert data.columns.ties.head == 0
    assert data.places.shape == (3, 1)
    assert (data.places >= 0).sum() == 1
    # Without ties, or where a household has no such member, nothing is tied.
    assert prepared(couples)[1].columns.ties.head == -1
    assert prepared([*couples, [0, 0, 1, 1, 2, 3]], ties="head")[1].columns.ties.head == -1


def test_a_key_that_a_head_lacks_is_not_tied():
    _, data = prepared([[1, 0, 0, -1, 1, 0], [1, 0, 0, 1, 1, 0]], ties="head")
    assert data.columns.ties.head == -1
    # Where the others lack it too nothing has to be summed over.
    _, data = prepared([[1, 0, 0, -1, 1, -1], [1, 0, 0, 1, 1, 0]], ties="head")
    assert data.columns.ties.head == 0


def test_risk_with_ties_is_refused():
    prior = TIES["all members"]
    rng = np.random.default_rng(8)
    table = nested.tabulate(prior, nested.draw_rows(rng, prior, nested.draw_state(rng, prior)))
    with pytest.raises(SpecError, match="ties is for synthetic households"):
        fit(NestedHouseholds(ties="head"), table, seed=1)


def test_members_are_not_taken_as_independent():
    table, data = prepared([[0, 0, 0, 1, 2, 3], [1, 0, 0, 1, 1, 0]], ties="head")
    model = NestedHouseholds(ties="head")
    state = model.init(Stream(1, 0, 0), data)
    with pytest.raises(SpecError, match="ties to the head"):
        model.independent_probabilities(state, data, table.cells)


def test_shares_that_underflow_are_those_of_nothing():
    """Of a key with 100 levels, such as age in years, most Dirichlet draws are zero."""
    n, rng = 100, np.random.default_rng(1)
    counts = np.zeros((4, n, n + 1), np.int64)
    counts[0, 30:50, [0, 31]] = 5
    counts[1, 30:50, 31] = 5
    differences = np.full(2 * n - 1, 0.5 / n)
    law = Law(
        np.array([0.5, 0.25, 0.25]), np.full((n, n), 1 / n), differences, np.full(2 * n - 1, 0.5)
    )
    for _ in range(20):
        law = Law.drawn(rng, counts, law)
        np.testing.assert_allclose(law.table[0].sum(axis=1), 1.0)
        assert (law.table >= 0.0).all()
    assert (law.by_level == 0.0).any()
    assert law.by_difference.min() > 0.0


def test_laws_of_another_file_are_not_gone_on_from():
    _, data = prepared([[0, 0, 0, 1, 2, 3], [1, 0, 0, 1, 1, 0]], ties="head")
    model = NestedHouseholds(ties="head")
    state = model.init(Stream(1, 0, 0), data)
    assert len(state.tie_laws)
    assert model.state_fits(state, data, state)
    for laws in (state.tie_laws[:-1], -state.tie_laws, state.tie_laws * np.nan):
        assert not model.state_fits(state._replace(tie_laws=laws), data, state)
