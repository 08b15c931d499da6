"""The exact probability of a possible household, against a list of all households."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from statistical import nested
from statistical.test_nested import with_roles
from unikat.kernels.household_rules import HouseholdRules
from unikat.models.base import Stream
from unikat.models.households.exact import chance_by_class, exact_rules
from unikat.models.households.records import columns_of, prepare
from unikat.models.households.state import weights_of
from unikat.zeros.household_heads import head_rules
from unikat.zeros.household_rules import HouseholdZeros

ROLE_OF = {"head": "P0 == 0", "spouse": "P0 == 1", "child": "P0 == 2"}
RULES = {
    "usual": ["count(P0 == 0) != 1", "count(P0 == 1) > 1", "child.P1 == head.P1"],
    "two keys": [
        "count(P0 == 0) != 1",
        "child.P1 == head.P1 and child.P2 != head.P2",
        "spouse.P2 == 1",
    ],
    "no head is possible": [
        "count(P0 == 0) > 1",
        "child.P1 == head.P1",
        "size == 3 and count(P0 == 2) == 0",
    ],
    "nobody is compared": ["count(P0 == 2) > 1", "child.P1 == 0", "head.P2 == 1"],
}


def allowed(name: str, codes: Any, members: Any) -> bool:
    """The rules once more, in loops."""
    held = {role: [m for m in members if m[0] == role] for role in range(3)}
    head, spouse, child = held.values()
    pairs = [(c, h) for c in child for h in head]
    if name == "usual":
        return len(head) == 1 and len(spouse) <= 1 and all(c[1] != h[1] for c, h in pairs)
    if name == "two keys":
        good = len(head) == 1 and all(s[2] != 1 for s in spouse)
        return good and not any(c[1] == h[1] and c[2] != h[2] for c, h in pairs)
    if name == "no head is possible":
        good = len(head) <= 1 and not (len(members) == 3 and not child)
        return good and all(c[1] != h[1] for c, h in pairs)
    return len(child) <= 1 and all(c[1] != 0 for c in child) and all(h[2] != 1 for h in head)


def program(rules: list[str], layout: Any) -> HouseholdRules:
    return HouseholdZeros.of(rules, ROLE_OF, layout.household_keys, layout.person_keys).program


def prior_of(name: str, kind: str) -> nested.Prior:
    """A small layout under these rules, with the composition by size, by role, or ties too."""
    prior = nested.Prior((3, 2), (3, 2, 2), 12, n_classes=4, n_kinds=3)
    if kind != "size":
        prior = with_roles(prior, [[1, 0, 0], [1, 1, 0], [1, 0, 2], [0, 1, 1]])
    if kind == "ties":
        prior = prior._replace(head=0)
    rules = program(RULES[name], prior.layout)
    return prior._replace(rules=rules, possible=lambda c, m: allowed(name, c, m))


def of_classes(prior: nested.Prior, state: Any) -> Any:
    """Sum of the probabilities of all possible households, class by class."""
    cells = nested.all_cells(prior)
    cells = cells[nested.is_possible(prior, cells)]
    one = np.eye(len(state.pi))
    return np.array(
        [
            sum(nested.probability(prior, state._replace(pi=one[g]), cell) for cell in cells)
            for g in range(len(one))
        ]
    )


@pytest.mark.parametrize("kind", ["size", "roles", "ties"])
@pytest.mark.parametrize("name", RULES)
def test_the_chance_of_each_class_is_the_sum_over_all_possible_households(name, kind):
    prior = prior_of(name, kind)
    rng = np.random.default_rng(3)
    state = nested.draw_state(rng, prior)
    table = nested.tabulate(prior, nested.draw_rows(rng, prior, state))
    exact = prepare(table, prior.roles, prior.head).exact
    if kind == "ties" and name == "nobody is compared":
        assert exact is None
        return
    found = chance_by_class(exact, weights_of(state))
    expected = of_classes(prior, state)
    assert expected.min() > 0.0
    assert expected.max() < 1.0
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_a_table_that_is_turned_round_is_caught():
    """Planted: what is forbidden of member and head is looked up the other way round."""
    prior = prior_of("two keys", "roles")
    rng = np.random.default_rng(3)
    state = nested.draw_state(rng, prior)
    table = nested.tabulate(prior, nested.draw_rows(rng, prior, state))
    exact = prepare(table, prior.roles).exact
    turned = exact.rules.beside.transpose(0, 2, 1).copy()
    turned[:, 0] = ~turned[:, 0]
    found = chance_by_class(
        exact._replace(rules=exact.rules._replace(beside=turned)), weights_of(state)
    )
    assert np.abs(found - of_classes(prior, state)).max() > 1e-3


@pytest.mark.parametrize("kind", ["size", "roles", "ties"])
def test_probabilities_of_possible_households_add_up_to_one(kind):
    prior = prior_of("usual", kind)
    rng = np.random.default_rng(5)
    rows = nested.draw_rows(rng, prior, nested.draw_state(rng, prior))
    model = nested.Listed(roles=prior.roles, head=prior.head)
    data = model.prepare(nested.tabulate(prior, rows))
    state = model.init(Stream(3, 1, 0), data)
    state, info = model.step(Stream(3, 1, 1), state, data, 1)
    p = model.cell_probabilities(Stream(3, 1, 1), state, data, nested.all_cells(prior))
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-5)
    assert 0.0 < info.values["impossible_mass"] < 1.0


@pytest.mark.parametrize(
    "rule",
    [
        "child.P1 == spouse.P1 and spouse.P1 == head.P1",
        "child.P1 == head.P1 and H1 == 1",
        "count(P1 == 0) > 1",
        "max(P1) - min(P1) > 0",
        "child.P1 == head.P1 and size == 3",
    ],
)
def test_rules_of_another_kind_are_told_apart(rule):
    layout = nested.Prior((3, 2), (3, 2, 2), 6).layout
    rules = ["count(P0 == 0) != 1", rule]
    assert head_rules(program(rules, layout), np.array([3, 2, 2]), 0) is None
    assert head_rules(program(rules[:1], layout), np.array([3, 2, 2]), 0) is not None


def test_two_heads_that_are_possible_leave_the_simulation():
    layout = nested.Prior((3, 2), (3, 2, 2), 6).layout
    table = nested.tabulate(
        nested.Prior((3, 2), (3, 2, 2), 6), layout.pack(np.array([[0, 0]]), np.array([[0, 0, 0]]))
    )
    columns = columns_of(layout, table)
    rules = program(["child.P1 == head.P1"], layout)
    arguments = columns.roles, columns.ties, columns.absent, columns.first_rows
    assert exact_rules(rules, *arguments) is None
    rules = program(["child.P1 == head.P1", "count(P0 == 0) > 1"], layout)
    assert exact_rules(rules, *arguments) is not None


def test_either_of_two_roles_may_be_the_one_that_is_compared():
    """The one whom all rules name; of several the one whom nobody has twice."""
    layout = nested.Prior((3, 2), (3, 2, 2), 6).layout
    both = ["spouse.P1 != head.P1", "child.P1 != spouse.P1"]
    assert head_rules(program(both, layout), np.array([3, 2, 2]), 0).head == 1
    for once in (0, 1):
        rules = ["spouse.P1 != head.P1", f"count(P0 == {once}) > 1"]
        assert head_rules(program(rules, layout), np.array([3, 2, 2]), 0).head == once
