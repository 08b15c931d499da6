"""The nested mixture of households: cells, members without order, rules, what it promises."""

from __future__ import annotations

import pickle
from dataclasses import replace
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import minimize
from scipy.special import softmax

from models.contract import arrays, assert_same, leaves
from statistical import nested
from statistical.test_nested import ROLES, RULED, SMALL, TIES
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.plan import Plan, StopRule
from unikat.models.base import Stream
from unikat.models.households.composition import levels_of
from unikat.models.households.nested import NestedHouseholds
from unikat.models.households.records import possible
from unikat.studies.fit import fit
from unikat.zeros.household_rules import HouseholdZeros

HEADS = nested.Prior((3, 2), (2, 3), 40, head_apart=True)
CASES = {
    "plain": SMALL._replace(n=40),
    "head-apart": HEADS,
    "rules": RULED._replace(n=40),
    "roles": ROLES["all members"]._replace(n=40),
    "roles, head-apart": ROLES["head apart"]._replace(n=80),
    "roles, rules": ROLES["rules"]._replace(n=40),
    "roles, one head": ROLES["one head"]._replace(n=80),
    "ties": TIES["all members"]._replace(n=80),
    "ties, rules": TIES["rules"]._replace(n=40),
}
cases = pytest.mark.parametrize("prior", CASES.values(), ids=CASES)


def fitted(prior: nested.Prior, n_sweeps: int = 5, hidden: float = 0.2, n_threads: int = 1) -> Any:
    """Model, table, data and state after some sweeps."""
    rng = np.random.default_rng(8)
    rows = nested.draw_rows(rng, prior, nested.draw_state(rng, prior))
    table = nested.tabulate(prior, rows, nested.masks(rng, prior, rows, hidden))
    model = nested.Listed(roles=prior.roles, head=prior.head)
    data = model.prepare(table)
    state = model.init(Stream(3, 1, 0), data)
    for sweep in range(1, n_sweeps + 1):
        state, _ = model.step(Stream(3, 1, sweep), state, data, n_threads)
    return model, table, data, state


WHERE = Stream(3, 1, 9)


@cases
def test_probabilities_are_those_of_the_formula_and_add_up(prior):
    model, _, data, state = fitted(prior)
    cells = nested.all_cells(prior)
    good = nested.is_possible(prior, cells)
    expected = np.array([nested.probability(prior, state, cell) for cell in cells])
    np.testing.assert_allclose(expected.sum(), 1.0, rtol=1e-5)
    for function in (model.cell_probabilities, model.predictive_probabilities):
        p = function(WHERE, state, data, cells)
        assert (p[~good] == 0.0).all()
        assert (p[good & (expected > 0.0)] > 0.0).all()
        # Under rules 1 - p0 is estimated with 1,000 possible households.
        np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-5 if good.all() else 0.2)
    p = model.cell_probabilities(WHERE, state, data, cells)
    expected = np.where(good, expected, 0.0)
    np.testing.assert_allclose(p / p.sum(), expected / expected.sum(), rtol=1e-5)


FREE = {name: prior for name, prior in CASES.items() if prior.rules is None}
APART = {
    name: prior for name, prior in FREE.items() if prior.head < 0 and name != "roles, one head"
}


@pytest.mark.parametrize("prior", APART.values(), ids=APART)
def test_probabilities_of_independent_members_add_up(prior):
    model, _, data, state = fitted(prior)
    cells = nested.all_cells(prior)
    p = model.independent_probabilities(state, data, cells)
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-5)
    # The sizes have the law that they have in the model.
    q = model.cell_probabilities(WHERE, state, data, cells)
    np.testing.assert_allclose(np.bincount(cells[:, 0], p), np.bincount(cells[:, 0], q), rtol=1e-5)


@pytest.mark.parametrize("prior", FREE.values(), ids=FREE)
def test_keys_that_are_left_out_are_summed_over(prior):
    """A household key, all, a key of all members or of one; cells of a margin are counted alike."""
    model, _, data, state = fitted(prior)
    cells = nested.all_cells(prior)
    p = model.cell_probabilities(WHERE, state, data, cells)
    for variable in range(len(prior.layout.variables)):
        margin = prior.layout.without(cells, variable)
        kinds, place = np.unique(margin, axis=0, return_inverse=True)
        if prior.head >= 0 and variable == len(prior.levels) - 1 + prior.role:
            with pytest.raises(SpecError, match="roles of members cannot be left out"):
                model.cell_probabilities(WHERE, state, data, kinds.astype(np.int32))
            continue
        got = model.cell_probabilities(WHERE, state, data, kinds.astype(np.int32))
        np.testing.assert_allclose(got, np.bincount(place.ravel(), p), rtol=1e-6)
    none = np.full((1, cells.shape[1]), -1, np.int32)
    np.testing.assert_allclose(model.cell_probabilities(WHERE, state, data, none), 1.0, rtol=1e-5)
    assert model.cell_probabilities(WHERE, state, data, cells[:0]).shape == (0,)


def test_households_that_are_all_incomplete_leave_rules_and_prior():
    """Under rules they are imputed in every sweep; there is nothing else to start from."""
    layout = RULED.layout
    rows = np.array([[1, 0, -1, -1, -1, -1, -1, -1, 3, 2, 2]] * 4, np.int32)
    table = CellTable.from_codes(rows, layout.columns, 50, layout=layout)
    model = NestedHouseholds()
    data = model.prepare(table)
    state = model.init(Stream(3, 1, 0), data)
    for sweep in range(1, 4):
        state, _ = model.step(Stream(3, 1, sweep), state, data, 1)
    imputed = model.impute(WHERE, state, data)
    assert imputed.shape == rows.shape
    assert nested.is_possible(RULED, imputed).all()


def test_a_size_that_is_left_out_is_summed_over_under_rules():
    model, _, data, state = fitted(RULED._replace(n=40))
    cell = np.array([[1, 0, 0, 1, 1, 2, 0, 0, 3, 2, 2]], np.int32)
    margin = cell.copy()
    margin[0, 0] = -1
    p = [float(model.cell_probabilities(WHERE, state, data, c)[0]) for c in (cell, margin)]
    assert p[0] == p[1] > 0.0
    none = np.full((1, cell.shape[1]), -1, np.int32)
    # Two estimates, each by 1,000 possible households or more.
    total = model.cell_probabilities(WHERE, state, data, none)
    np.testing.assert_allclose(total, 1.0, atol=0.35)


def test_a_row_that_contradicts_its_size_has_no_probability():
    model, _, data, state = fitted(CASES["plain"])
    rows = np.array([[0, 0, 1, 1, 1, 1], [1, 0, 1, 1, 2, 3]], np.int32)
    np.testing.assert_array_equal(model.cell_probabilities(WHERE, state, data, rows), 0.0)


@pytest.mark.parametrize("left_out", ["keys", "all roles", "a role"])
@pytest.mark.parametrize("name", ["rules", "roles, rules"])
def test_margins_under_rules_are_those_of_possible_households(name, left_out):
    """Simulated completions, without bias; 60 estimates, false alarm 1e-6."""
    prior = CASES[name]
    model, _, data, state = fitted(prior)
    cells = nested.all_cells(prior)
    good = nested.is_possible(prior, cells)
    p = np.array([nested.probability(prior, state, cell) for cell in cells]) * good
    # Of the head the second key is unknown, of the child the last two; or relations.
    margin = np.array(
        {
            "keys": [[1, 0, 0, -1, 1, 2, -1, -1, 3, 2, 2]],
            "all roles": [[2, 0, -1, 0, 1, -1, 1, 0, -1, 1, 0]],
            "a role": [[2, 0, -1, 0, 1, 0, 1, 0, 2, 0, 0]],
        }[left_out],
        np.int32,
    )
    matches = np.array([good[i] and could_be(cell, margin[0]) for i, cell in enumerate(cells)])
    assert matches.sum() > 1
    found = [
        float(model.cell_probabilities(Stream(3, 1, k), state, data, margin)[0]) for k in range(60)
    ]
    expected = p[matches].sum() / p.sum()
    assert stats.ttest_1samp(found, expected).pvalue > 1e-6


def could_be(cell: np.ndarray, margin: np.ndarray) -> bool:
    """Whether a household of three slots and three keys is in a margin, in some order of slots."""
    slots = cell[2:].reshape(3, 3)
    orders = [np.append(cell[:2], slots[list(order)].ravel()) for order in permutations(range(3))]
    return any(np.all((order == margin) | (margin < 0)) for order in orders)


@pytest.mark.statistical
@cases
def test_simulated_households_have_the_cell_probabilities(prior):
    """Chi-square of 20,000 households over all cells; false alarm 1e-6."""
    model, _, data, state = fitted(prior)
    cells = nested.all_cells(prior)
    n = 20_000
    draw = model.simulate(WHERE, state, data, n)
    np.testing.assert_array_equal(draw[:50], model.simulate(WHERE, state, data, 50))
    both, place = np.unique(np.concatenate((cells, draw)), axis=0, return_inverse=True)
    assert len(both) == len(cells)
    place = place.ravel()
    observed = np.bincount(place[len(cells) :], minlength=len(cells))[place[: len(cells)]]
    expected = model.cell_probabilities(WHERE, state, data, cells)
    assert (observed[expected == 0.0] == 0).all()
    expected *= n / expected.sum()
    common = expected >= 8.0
    # Rare cells are one, if there are any.
    rest = [observed[~common].sum()], [expected[~common].sum()]
    some = slice(0, int(rest[1][0] > 0.0))
    f_obs, f_exp = (
        np.append(observed[common], rest[0][some]),
        np.append(expected[common], rest[1][some]),
    )
    assert stats.chisquare(f_obs, f_exp).pvalue > 1e-6


@cases
def test_imputed_households_keep_what_is_known(prior):
    model, table, data, state = fitted(prior)
    cells = model.impute(WHERE, state, data)
    patterns = np.repeat(table.cells, table.counts, axis=0)
    incomplete = patterns[(patterns < 0).any(axis=1)]
    assert cells.shape == incomplete.shape
    assert len(cells) > 10
    np.testing.assert_array_equal(cells, prior.layout.canonical(cells))
    assert nested.is_possible(prior, cells).all()
    n_keys = len(prior.levels)
    known = incomplete[:, :n_keys] >= 0
    np.testing.assert_array_equal(cells[:, :n_keys][known], incomplete[:, :n_keys][known])
    # Each known key of members is there as often as it was.
    for j in range(2):
        for level in range(prior.member_levels[j]):
            before = (incomplete[:, n_keys + j :: len(prior.member_levels)] == level).sum(axis=1)
            after = (cells[:, n_keys + j :: len(prior.member_levels)] == level).sum(axis=1)
            assert (after >= before).all()


@cases
def test_numbers_do_not_depend_on_threads(prior):
    ends = [fitted(prior, 6, n_threads=n)[-1] for n in (1, 2, 3)]
    for other in ends[1:]:
        assert_same(ends[0], other)


@cases
def test_functions_leave_their_arguments_alone_and_repeat(prior):
    model, table, data, state = fitted(prior)
    before = [array.copy() for array in arrays((state, data))]
    new, info = model.step(WHERE, state, data, 2)
    model.cell_probabilities(WHERE, state, data, table.cells)
    model.impute(WHERE, state, data)
    model.simulate(WHERE, state, data, 10)
    for copy, array in zip(before, arrays((state, data)), strict=True):
        np.testing.assert_array_equal(copy, array)
    assert all(np.isfinite(value) for value in info.values.values())
    there = pickle.loads(pickle.dumps((data, state)))
    assert_same(new, model.step(WHERE, there[1], there[0], 1)[0])
    assert [(a.dtype, np.ndim(a)) for a in leaves(new)] == [
        (a.dtype, np.ndim(a)) for a in leaves(state)
    ]
    assert all(a.flags.c_contiguous for a in arrays(new))
    start = model.init(Stream(3, 1, 0), data)
    assert model.state_fits(new, data, start)
    assert not model.state_fits(new._replace(pi=new.pi[:-1]), data, start)
    assert not model.state_fits(new._replace(alpha=-new.alpha), data, start)
    other = model.init(Stream(3, 2, 0), data)
    assert other.pi.shape != start.pi.shape or not np.array_equal(other.pi, start.pi)
    assert min(model.cost(data)) > 0.0


@pytest.mark.parametrize("zeros", [False, True])
def test_kernels_compile_without_data(zeros):
    assert NestedHouseholds().compile(zeros) is None


def test_classes_split_and_merge_under_rules():
    """And every household, simulated ones included, is still counted once."""
    model, table, data, state = fitted(CASES["roles, rules"], 0, hidden=0.0)
    moves = 0.0
    for sweep in range(1, 120):
        state, info = model.step(Stream(3, 1, sweep), state, data, 1)
        moves += info.values["split_merge"]
        n_impossible = state.counts[: data.columns.offsets[1]].sum() - table.n_records
        n = model.n_possible(table.n_records)
        expected = 1.0 - (n - 1) / (n + n_impossible - 1)
        np.testing.assert_allclose(info.values["impossible_mass"], expected)
        assert (state.counts >= 0).all()
        assert (state.member_counts >= 0).all()
    assert moves > 5


def test_facts_count_members():
    model, table, data, _ = fitted(CASES["plain"])
    facts = model.facts(data)
    sizes = table.cells[table.record_cell, 0] + 1
    assert facts.members == sizes.sum()
    assert facts.distinct_members == len(data.households.persons)
    assert facts.incomplete_households == table.counts[table.incomplete].sum()


def test_concentrations_of_each_class():
    model = NestedHouseholds(beta="by-class", profile_concentration=1.0, profile_base="uniform")
    _, _, data, _ = fitted(CASES["plain"])
    state = model.init(Stream(1, 0, 0), data)
    for sweep in range(1, 8):
        state, _ = model.step(Stream(1, 0, sweep), state, data, 1)
        assert state.beta.shape == state.pi.shape
    assert model.state_fits(state, data, state)
    np.testing.assert_array_equal(state.member_profile, 1.0)


def test_records_that_are_no_households_are_refused():
    table = CellTable.from_codes([[0, 1]], [Key.of_size("A", 2), Key.of_size("B", 2)], 9)
    with pytest.raises(SpecError, match="needs records that are households"):
        NestedHouseholds().prepare(table)


def test_households_that_contradict_their_size_are_refused():
    layout = SMALL.layout
    for row, message in (
        ([-1, 0, 1, 1, 2, 3], "size of a household is missing"),
        ([1, 0, 1, 1, 2, 3], "not as many as its size"),
    ):
        table = CellTable.from_codes([row], layout.columns, 9, layout=layout)
        with pytest.raises(SpecError, match=message):
            NestedHouseholds().prepare(table)


def test_a_sample_that_breaks_its_rules_is_refused():
    rows = np.array([[0, 0, 1, 0, 0, 3, 2, 2, 3, 2, 2]], np.int32)
    free = NestedHouseholds().prepare(nested.tabulate(RULED._replace(rules=None), rows))
    assert not possible(free.columns, RULED.rules, rows).any()
    with pytest.raises(SpecError, match="break the household rules"):
        NestedHouseholds().prepare(nested.tabulate(RULED, rows))


def test_rules_under_which_nothing_is_possible_end_with_one_message(monkeypatch):
    """Here every household but the sample's own has no chance."""
    prior = nested.Prior((2, 2), (2, 3), 3)
    layout = prior.layout
    rules = HouseholdZeros.of(
        ["count(P0 == 0) > 0", "count(P0 == 1) > 0"], {}, layout.household_keys, layout.person_keys
    )
    rows = np.array([[0, 0, 1, 1, 2, 3]], np.int32)
    model = NestedHouseholds()
    data = model.prepare(nested.tabulate(prior, rows))
    state = model.init(Stream(0, 0, 0), data)
    ruled = data._replace(rules=rules.program)
    with pytest.raises(SpecError, match="Fewer than 1 in 100,000"):
        model.step(Stream(0, 0, 1), state, ruled, 2)


def test_the_composition_is_that_of_the_head_or_of_a_key_that_is_named():
    layout = replace(SMALL.layout, role=1)
    rows = np.array([[0, 0, 1, 1, 2, 3], [1, 0, 0, 1, 1, 0]], np.int32)
    table = CellTable.from_codes(rows, layout.columns, 9, layout=layout)
    gap = np.array([[1, 0, 0, -1, 1, 0]], np.int32)
    gaps = CellTable.from_codes(np.concatenate((rows, gap)), layout.columns, 9, layout=layout)

    def role(composition: str, table: CellTable = table) -> int:
        return int(NestedHouseholds(composition=composition).prepare(table).columns.roles.key)

    assert [role("auto"), role("P0"), role("P1"), role("none")] == [1, 0, 1, -1]
    # A role that is missing is no role, and one that is asked for has to be known.
    assert [role("auto", gaps), role("P0", gaps)] == [-1, 0]
    for composition, message in (("P1", "missing of some members"), ("P7", "no key of members")):
        with pytest.raises(SpecError, match=message):
            role(composition, gaps)


def test_compositions_seen_twice_are_levels_and_the_others_one():
    layout = replace(SMALL.layout, role=0)
    each = [[0, 0, 1, 1, 2, 3], [1, 0, 0, 1, 1, 0], [1, 0, 0, 1, 1, 2], [1, 0, 0, 0, 0, 1]]
    rows = np.repeat(np.array(each, np.int32), [3, 1, 1, 1], axis=0)
    table = CellTable.from_codes(rows, layout.columns, 99, layout=layout)
    columns = NestedHouseholds(composition="auto").prepare(table).columns
    roles = columns.roles
    assert roles.members.tolist() == [[0, 1], [1, 1]]
    assert columns.offsets.tolist() == [0, 3, 5]
    assert roles.sizes.sum() == pytest.approx(1.0)

    def minus_log_likelihood(logits):
        """Of the one household with two members in role 0, and half a household like the sample."""
        sizes, shares = softmax(logits[:2]), softmax(logits[2:])
        listed = sizes[0] * shares[1] + sizes[1] * 2.0 * shares[0] * shares[1]
        seen = np.log(sizes[1] * shares[0] ** 2 / (1.0 - listed))
        like_all = np.array([3.5, 3.5]) / 7.0, np.array([4.5, 5.5]) / 10.0
        return -seen - 0.5 * sum(
            p @ np.log(q) for p, q in zip(like_all, (sizes, shares), strict=True)
        )

    best = minimize(minus_log_likelihood, np.zeros(4), tol=1e-12).x
    np.testing.assert_allclose(roles.sizes, softmax(best[:2]), atol=1e-3)
    np.testing.assert_allclose(roles.shares, softmax(best[2:]), atol=1e-3)
    sizes, shares = roles.sizes, roles.shares
    expected = [sizes[0] * shares[1], sizes[1] * 2.0 * shares[0] * shares[1]]
    np.testing.assert_allclose(roles.listed, expected)


def test_compositions_that_are_not_listed_have_one_head_where_members_are_tied_to_it():
    prior = ROLES["one head"]
    heads = np.array([[0, 0], [0, 1], [0, 0], [0, 1], [0, 1]])
    others = [[], [], [[1, 0]], [[1, 0], [1, 1]], [[2, 0], [2, 1]]]
    members = np.concatenate([[h, *more] for h, more in zip(heads, others, strict=True)])
    codes = np.array([[len(more), 0] for more in others])
    table = nested.tabulate(prior, prior.layout.pack(codes, members))
    roles = NestedHouseholds(composition="auto", ties="head").prepare(table).columns.roles
    assert roles.once == 0
    assert roles.shares[0] == 0.0
    assert roles.members.tolist() == [[1, 0, 0]]
    # One of the two members of size 3 is as likely in either role; one of size 2 was in role 1.
    every = [[1, 1, 0], [1, 0, 1], [1, 2, 0], [1, 1, 1], [1, 0, 2]]
    level, log_p = levels_of(roles, np.array([*every, [2, 0, 0], [0, 1, 1], [1, 0, 0]]))
    assert level.tolist() == [1] * 7 + [0]
    assert np.exp(log_p[:5]).sum() == pytest.approx(1.0)
    assert np.isneginf(log_p[5:7]).all()

    def minus_log_likelihood(logits):
        """Of the three others, and half a household like the sample."""
        sizes, one = softmax(logits[:3]), softmax(logits[3:])
        seen = np.log(sizes[1] * one[0]) + 2 * np.log(sizes[2])
        seen += 2 * np.log(one[0]) + 2 * np.log(one[1]) - 3 * np.log(1.0 - sizes[0])
        like_all = np.array([2.5, 1.5, 2.5]) / 6.5, np.array([3.5, 2.5]) / 6.0
        return -seen - 0.5 * sum(p @ np.log(q) for p, q in zip(like_all, (sizes, one), strict=True))

    best = minimize(minus_log_likelihood, np.zeros(5), tol=1e-12).x
    np.testing.assert_allclose(roles.sizes, softmax(best[:3]), atol=1e-3)
    np.testing.assert_allclose(roles.shares[1:], softmax(best[3:]), atol=1e-3)


@pytest.mark.parametrize(
    "bad", [{"composition": ""}, {"beta": "own"}, {"alpha_shape": 0.0}, {"beta_rate": True}]
)
def test_impossible_options_are_refused(bad):
    with pytest.raises(SpecError, match=next(iter(bad))):
        NestedHouseholds(**bad)


@pytest.mark.parametrize("prior", [CASES["plain"], RULED._replace(n=40)], ids=["plain", "rules"])
def test_a_table_of_households_is_assessed_as_any_other(prior):
    """Through chains, risk measures and an estimate; keys of complete and incomplete households."""
    _, table, _, _ = fitted(prior, 0)
    plan = Plan(n_chains=2, stop=StopRule(max_sweeps=60))
    estimate = fit(NestedHouseholds(), table, seed=1, plan=plan).estimate()
    assert 0.0 < estimate.tau1.mean <= table.n_uniques
    assert estimate.tau1.mean <= estimate.tau2.mean
