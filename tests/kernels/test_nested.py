"""Kernels of nested households against their conditionals, written from the equations."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from statistical import nested
from statistical.test_nested import ROLES, RULED, TIES
from unikat.kernels import nested as kernels
from unikat.kernels.nested import Drawn, Weights
from unikat.kernels.random import PURPOSE_HOUSEHOLDS
from unikat.models.households.classes import empty_tally, wide
from unikat.models.households.records import columns_of, prepare
from unikat.models.households.truncation import chance_of_possible, simulate_impossible
from unikat.rng import chain_key

pytestmark = pytest.mark.statistical

PRIOR = nested.Prior((3, 2), (2, 3), 4, n_classes=4, n_kinds=3)
N = 20_000
KEY = chain_key(5, 0)
FALSE_ALARM = 1e-6
"""Of each comparison."""


def weights_of(state: nested.NestedState) -> Weights:
    return Weights(state.pi, state.omega, state.lam, state.phi)


def conditional(prior: nested.Prior, state: Any, row: np.ndarray) -> tuple[Any, Any]:
    """P(G = g) and, for each member, P(M = m | G = g) of a household, in loops over its keys."""
    codes, members = (part[0] for part in prior.layout.parts(row[None, :]))
    offsets = np.concatenate(([0], np.cumsum(prior.levels)))
    member_offsets = np.concatenate(([0], np.cumsum(prior.member_levels)))
    of_class = state.pi.copy()
    for k, x in enumerate(codes):
        if x >= 0:
            of_class *= state.lam[offsets[k] + x]
    of_kind = []
    for j in range(codes[0] + 1):
        joint = state.omega.copy()
        for k, x in enumerate(members[j]):
            if x >= 0:
                joint *= state.phi[member_offsets[k] + x].reshape(joint.shape)
        of_class *= joint.sum(axis=1)
        of_kind.append(joint / joint.sum(axis=1, keepdims=True))
    return of_class / of_class.sum(), np.array(of_kind)


@pytest.mark.parametrize("n_copies", [1, 3])
def test_classes_have_their_conditional(n_copies):
    """Of many equal households, some with a missing key; and the tally counts what was drawn."""
    rng = np.random.default_rng(2)
    state = nested.draw_state(rng, PRIOR)
    rows = nested.draw_rows(rng, PRIOR._replace(n=n_copies), state)
    rows[0, :2] = 2, 1
    rows[0, 2:] = [-1, 1, 0, 2, 0, 2]
    table = nested.tabulate(PRIOR, np.repeat(rows, N, axis=0))
    data = prepare(table)
    households = data.households
    t = np.empty((len(households.persons), PRIOR.n_classes))
    kernels.person_table(0, len(t), households.persons, *wide(state.omega, state.phi), t)
    drawn = Drawn(np.empty(table.n_records, np.int16), np.empty(len(data.token_record), np.int16))
    tally = empty_tally(5, 5, PRIOR.n_classes, PRIOR.n_kinds)
    kernels.allocate(KEY, 1, 0, table.n_cells, households, weights_of(state), t, drawn, tally)
    again = empty_tally(5, 5, PRIOR.n_classes, PRIOR.n_kinds)
    kernels.count(households, drawn, again)
    for one, other in zip(tally, again, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(tally.sizes, np.bincount(drawn.g, minlength=PRIOR.n_classes))
    for cell in range(table.n_cells):
        of_class, of_kind = conditional(PRIOR, state, table.cells[cell])
        records = slice(households.starts[cell], households.starts[cell + 1])
        g = drawn.g[records]
        assert fits(np.bincount(g, minlength=PRIOR.n_classes), of_class)
        tokens = slice(households.token_starts[cell], households.token_starts[cell + 1])
        m = drawn.m[tokens].reshape(len(g), -1)
        # Members that are alike are exchangeable, so each of them has the same law.
        entries = slice(households.member_starts[cell], households.member_starts[cell + 1])
        persons = np.repeat(households.person[entries], households.times[entries])
        largest = int(of_class.argmax())
        for j, person in enumerate(persons):
            known = [tuple(np.where(r < 0, -1, r)) for r in households.persons[person][None, :]]
            kinds = kinds_of(data, state, known[0])[largest]
            assert fits(np.bincount(m[g == largest, j], minlength=PRIOR.n_kinds), kinds)
        np.testing.assert_allclose(
            sorted(
                kinds_of(data, state, tuple(households.persons[p]))[0].tolist() for p in persons
            ),
            sorted(kind[0].tolist() for kind in of_kind),
            rtol=1e-6,
        )


def kinds_of(data: Any, state: Any, rows: tuple[int, ...]) -> Any:
    joint = state.omega.copy()
    for r in rows:
        if r >= 0:
            joint *= state.phi[r].reshape(joint.shape)
    return joint / joint.sum(axis=1, keepdims=True)


def fits(observed: np.ndarray, p: np.ndarray) -> bool:
    expected = p * observed.sum()
    common = expected >= 8.0
    if common.sum() < 2 and (~common).sum() == 0:
        return True
    f_obs = np.append(observed[common], observed[~common].sum())
    f_exp = np.append(expected[common], expected[~common].sum())
    keep = f_exp > 1e-9
    if keep.sum() < 2:
        return True
    f_exp = f_exp * f_obs.sum() / f_exp.sum()
    return bool(stats.chisquare(f_obs[keep], f_exp[keep]).pvalue > FALSE_ALARM)


def test_weights_of_person_classes_have_their_moments():
    """Given beta, which a sharp prior fixes: mean n_m / (n + beta), and what is left in sticks."""
    sizes = np.array([[6, 0, 2, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    seen = []
    for sweep in range(4000):
        omega, left, beta = np.empty(sizes.shape), np.empty(2), np.array([2.0])
        kernels.draw_member_weights(KEY, sweep, beta, 2e6, 1e6, True, sizes, omega, left)
        np.testing.assert_allclose(omega.sum(axis=1), 1.0)
        assert (left >= 0.0).all()
        seen.append([*omega[0, [0, 1, 2]], *omega[1, :2], beta[0]])
    expected = [0.6, 0.2 / 3.0, 0.2, 1.0 / 3.0, 2.0 / 9.0, 2.0]
    p = stats.ttest_1samp(np.array(seen), expected).pvalue
    assert p.min() > FALSE_ALARM


def test_impossible_households_come_as_often_as_they_should():
    """Their number, and how many each class has, by summing over all households."""
    prior = RULED._replace(n_classes=4, n_kinds=3)
    rng = np.random.default_rng(4)
    state = nested.draw_state(rng, prior)
    rows = nested.draw_rows(rng, prior, state)
    columns = columns_of(prior.layout, nested.tabulate(prior, rows))
    cells = nested.all_cells(prior)
    good = nested.is_possible(prior, cells)
    each = np.array(
        [
            [
                nested.probability(prior, state._replace(pi=np.eye(4)[g] * state.pi[g]), cell)
                for g in range(4)
            ]
            for cell in cells
        ]
    )
    possible, impossible = each[good].sum(), each[~good].sum(axis=0)
    target, sweeps = 300, 40
    found = [
        simulate_impossible(
            KEY, sweep, PURPOSE_HOUSEHOLDS, target, columns, prior.rules, weights_of(state), 2
        )
        for sweep in range(sweeps)
    ]
    numbers = [one.n_impossible for one in found]
    expected = target * (1.0 - possible) / possible
    assert stats.ttest_1samp(numbers, expected).pvalue > FALSE_ALARM
    sizes = np.sum([one.tally.sizes for one in found], axis=0)
    assert sizes.sum() == sum(numbers)
    assert fits(sizes, impossible / impossible.sum())
    # All sizes are drawn, and nobody has more relations than persons.
    last = found[-1].tally
    assert last.counts[:3].sum() == numbers[-1]
    assert last.member_counts[:3].sum() == last.member_sizes.sum()
    assert (last.member_counts >= 0).all()
    inverse = [
        1.0
        / chance_of_possible(
            KEY, sweep, PURPOSE_HOUSEHOLDS, target, columns, prior.rules, weights_of(state)
        )
        for sweep in range(sweeps)
    ]
    np.testing.assert_allclose(inverse, 1.0 + np.array(numbers) / target)
    assert stats.ttest_1samp(inverse, 1.0 / possible).pvalue > FALSE_ALARM


@pytest.mark.parametrize("prior", [RULED, ROLES["rules"], TIES["rules"]], ids=["", "roles", "ties"])
def test_impossible_households_one_by_one_are_those_that_are_counted(prior):
    rng = np.random.default_rng(12)
    state = nested.draw_state(rng, prior)
    table = nested.tabulate(prior, nested.draw_rows(rng, prior, state))
    columns = prepare(table, prior.roles, prior.head).columns
    weights = weights_of(state)._replace(ties=state.ties)
    arguments = KEY, 3, PURPOSE_HOUSEHOLDS, 60, columns, prior.rules, weights
    counted = simulate_impossible(*arguments, 2)
    assert counted.records is None
    listed = simulate_impossible(*arguments, 2, counted.n_impossible)
    assert listed.n_impossible == counted.n_impossible == len(listed.records.drawn.g)
    assert simulate_impossible(*arguments, 1, counted.n_impossible - 1).records is None
    names = ["sizes", "counts", "ties"]
    if prior.role >= 0:
        names += ["member_sizes", "member_counts"]
    for name in names:
        np.testing.assert_array_equal(getattr(listed.tally, name), getattr(counted.tally, name))
    # Where members draw their roles, the classes of those whose role alone was drawn are new.
    roles = [np.sum(one.tally.member_counts[: prior.member_levels[0]]) for one in (counted, listed)]
    assert roles[0] == roles[1]
    assert len(listed.records.drawn.m) == listed.tally.member_sizes.sum()
