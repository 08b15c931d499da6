"""ρ of households and of persons in them: against posteriors by weighing draws from the prior."""

from __future__ import annotations

import itertools
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from scipy import special

from statistical import nested
from statistical.test_nested import with_roles
from unikat import CellTable, Key
from unikat.data.households import HouseholdLayout
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.plan import Plan, StopRule
from unikat.models.households.nested import NestedHouseholds
from unikat.synthesis.attacks.households import (
    Generator,
    HouseholdRatios,
    candidates_of,
    neighbours,
    persons_of,
    variables_of,
)
from unikat.synthesis.attacks.posterior import Mean, joined_table, squared_error
from unikat.zeros.household_rules import HouseholdZeros

PLAIN = nested.Prior((2, 2), (2, 2), 3, n_classes=8, n_kinds=6)


def one_head(codes: np.ndarray, members: np.ndarray) -> bool:
    """One member of the first level of the first key, and not of level 0 as his household."""
    heads = members[members[:, 0] == 0]
    return len(heads) == 1 and not heads[0, 1] == codes[1] == 0


def with_rules(prior: nested.Prior) -> nested.Prior:
    layout = prior.layout
    rules = HouseholdZeros.of(
        ["count(P0 == 0) != 1", "head.P1 == 0 and H1 == 0"],
        {"head": "P0 == 0"},
        layout.household_keys,
        layout.person_keys,
    )
    return prior._replace(rules=rules.program, possible=one_head)


CASES = {
    "plain": PLAIN,
    "rules": with_rules(PLAIN),
    "roles": with_roles(PLAIN, [[1, 0], [1, 1]]),
    "roles, rules": with_rules(with_roles(PLAIN, [[1, 0], [1, 1]])),
}


def rows_of(prior: nested.Prior, homes: Any) -> np.ndarray:
    """Cells of households, each its code of H1 and its members."""
    codes = np.array([[len(members) - 1, h] for h, members in homes])
    persons = np.array([member for _, members in homes for member in members])
    return prior.layout.pack(codes, persons)


ORIGINAL = [(1, [(0, 0), (1, 1)]), (0, [(0, 1), (1, 1)]), (1, [(0, 0)])]
SYNTHETIC = [(1, [(0, 0), (1, 1)]), (1, [(0, 0), (1, 0)]), (0, [(0, 1)])]


def laws(prior: nested.Prior, n: int = 80_000) -> tuple[np.ndarray, np.ndarray]:
    """Probability of every household under draws from the prior, (n, n_cells), in one order of its
    members; and that of a possible one, (n,)."""
    rng = np.random.default_rng(5)
    cells = nested.all_cells(prior)
    n_classes, n_kinds = prior.n_classes, prior.n_kinds
    offsets = np.concatenate(([0], np.cumsum(prior.blocks)))
    member_offsets = np.concatenate(([0], np.cumsum(prior.member_blocks)))
    codes, members = prior.layout.parts(cells)
    homes = [[tuple(one) for one in m[: c[0] + 1]] for c, m in zip(codes, members, strict=True)]
    composed = [nested.composition(prior, home) for home in homes]
    orders = np.array([one[2] for one in composed])
    for i, home in enumerate(homes):
        for member in set(home):
            orders[i] //= special.factorial(home.count(member), exact=True)
    good = nested.is_possible(prior, cells)

    def weights(law: tuple[float, float], shape: tuple[int, ...]) -> np.ndarray:
        concentration = rng.gamma(law[0], 1.0 / law[1], (shape[0],) + (1,) * (len(shape) - 1))
        broken = rng.beta(1.0, np.broadcast_to(concentration, shape))
        broken[..., -1] = 1.0
        left = np.cumprod(1.0 - broken[..., :-1], axis=-1)
        broken[..., 1:] *= left
        return broken

    def profiles(levels: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
        return np.concatenate(
            [rng.dirichlet(np.full(k, prior.profile), shape) for k in levels], axis=-1
        )

    found = np.empty((n, len(cells)))
    for start in range(0, n, 5_000):
        shape = (5_000, n_classes)
        pi, omega = weights(prior.alpha, shape), weights(prior.beta, (*shape, n_kinds))
        lam = profiles(prior.blocks, shape)
        phi = profiles(prior.member_blocks, (*shape, n_kinds))
        table = {}
        for member in itertools.product(*map(range, prior.member_levels)):
            term = omega.copy()
            for k, x in enumerate(member):
                if k != prior.role:
                    role = member[prior.role] if prior.role >= 0 else 0
                    term *= phi[..., member_offsets[prior.block(k, role)] + x]
            table[member] = term.sum(axis=-1)
        for i, home in enumerate(homes):
            p = pi * lam[..., composed[i][0]] * lam[..., offsets[1] + codes[i, 1]]
            for member in home:
                p = p * table[member]
            found[start : start + 5_000, i] = p.sum(axis=1) * composed[i][1]
    return found, (found * orders)[:, good].sum(axis=1)


def exact(prior: nested.Prior) -> tuple[dict[bytes, float], dict[bytes, float]]:
    """E[g_t | D] and E[g_t | D, Z] of every household in place of the first."""
    f, chance = laws(prior)
    cells = nested.all_cells(prior)
    place = {cell.tobytes(): i for i, cell in enumerate(cells)}
    first, *others = (place[row.tobytes()] for row in rows_of(prior, ORIGINAL))
    made = [place[row.tobytes()] for row in rows_of(prior, SYNTHETIC)]
    both = []
    for more in ([], made):
        weight = f[:, others + more].prod(axis=1) / chance ** (len(ORIGINAL) + len(more))
        p = weight @ f
        both.append({cell.tobytes(): float(p[i] / p[first]) for i, cell in enumerate(cells)})
    return both[0], both[1]


PLAN = Plan(n_chains=2, thin=1, stop=StopRule(rhat=1.05, ess=1_000, max_sweeps=2_500))


def model_of(prior: nested.Prior) -> Generator:
    """With the roles of the prior, which a sample of three does not have."""
    model = nested.model_of(prior)
    options = {one.name: getattr(model, one.name) for one in fields(NestedHouseholds)}
    return Generator(**options, roles=prior.roles, n_original=len(ORIGINAL))


def errors(prior: nested.Prior, n_fits: int = 2) -> np.ndarray:
    """Log of the means of g_t of candidates of the first household, less the exact ones."""
    model = model_of(prior)
    table = nested.tabulate(prior, rows_of(prior, ORIGINAL))
    target = rows_of(prior, ORIGINAL)[:1]
    data = model.prepare(table)
    candidates = candidates_of(data, target)
    observer = HouseholdRatios(candidates=candidates, chosen=np.zeros(1, int))
    found = []
    tables = table, joined_table(table, rows_of(prior, SYNTHETIC))
    for one, wanted in list(zip(tables, exact(prior), strict=True))[:n_fits]:
        draws = sample(
            model, one, observer, seed=3, plan=PLAN, workers=Workers(n_workers=1)
        )  # fmt: skip
        mean = Mean.of(draws.totals)
        listed = neighbours(data.columns, target, candidates.targets, 0)
        good = candidates.possible[0, listed.places]
        logs = np.log([wanted[cell.tobytes()] for cell in listed.cells[good]])
        found.append(mean.log[0, listed.places[good]] - logs)
        errors = np.sqrt(squared_error([mean], [1.0], np.eye(1, mean.log.shape[1])))
        assert errors[0, listed.places[good]].max() < 0.03
    return np.array(found)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_means_of_the_ratios_are_those_of_the_weighed_prior(name):
    found = errors(CASES[name])
    assert found.shape[1] >= 3
    np.testing.assert_allclose(found, 0.0, atol=0.05)


@pytest.mark.slow
@pytest.mark.statistical
def test_impossible_households_that_are_left_out_are_caught(monkeypatch):
    """Planted: the classes are drawn, and counted, as if every household were possible."""

    def slip(self: Any, stream: Any, state: Any, data: Any, *how: Any) -> Any:
        return NestedHouseholds.allocated(self, stream, state, data._replace(rules=None), *how)

    monkeypatch.setattr(Generator, "allocated", slip)
    assert abs(errors(CASES["rules"], 1)).max() > 0.1


def of(prior: nested.Prior, homes: Any) -> tuple[Any, Any, Any]:
    """Model, data and candidates of households that are the sample."""
    model, rows = model_of(prior), rows_of(prior, homes)
    data = model.prepare(nested.tabulate(prior, rows))
    return model, data, candidates_of(data, rows)


@pytest.mark.parametrize("name", CASES)
def test_candidates_are_all_possible_households_that_differ_in_one_value(name):
    prior = CASES[name]
    _, data, found = of(prior, ORIGINAL)
    cells = nested.all_cells(prior)
    cells = cells[nested.is_possible(prior, cells)]
    for i, (h, members) in enumerate(ORIGINAL):
        listed = neighbours(data.columns, found.cells, found.targets, i)
        good = found.possible[i, listed.places]
        wanted = {found.cells[i].tobytes(), rows_of(prior, [(1 - h, members)])[0].tobytes()}
        for j, k in itertools.product(range(len(members)), range(2)):
            if k != prior.role:
                changed = [list(one) for one in members]
                changed[j][k] = 1 - changed[j][k]
                wanted.add(rows_of(prior, [(h, changed)])[0].tobytes())
        wanted &= {cell.tobytes() for cell in cells}
        assert sorted(cell.tobytes() for cell in listed.cells[good]) == sorted(wanted)
        assert found.possible[i].sum() == len(wanted)


def test_alike_members_differ_once_and_orders_are_counted():
    """Two members alike: either may differ, so the candidate has two orders and this one."""
    homes = [(1, [(0, 1), (0, 1)]), (0, [(0, 1), (1, 1)])]
    _, data, found = of(PLAIN, homes)
    # Itself, another H1, and two keys of one member.
    assert found.possible[0].sum() == 1 + 1 + 2
    listed = neighbours(data.columns, found.cells, found.targets, 0)
    orders = np.exp(found.log_orders[0, listed.places])
    assert orders.tolist() == pytest.approx([1, 1, 2, 2])
    # Of four members one has 1 in the first key, and none 0 in the second; one H1 of each.
    frequency = np.exp(found.log_frequency[0, listed.places])
    assert frequency.tolist() == pytest.approx([1, 1, 1 / 3, 0])
    # The other household: a member becomes like the other one.
    listed = neighbours(data.columns, found.cells, found.targets, 1)
    orders = np.exp(found.log_orders[1, listed.places])
    assert sorted(orders.tolist()) == pytest.approx([1 / 2, 1 / 2, 1, 1, 1, 1])


def test_persons_have_their_own_candidates_and_so_has_a_head_who_is_apart():
    layout = HouseholdLayout(
        household_keys=(Key.of_size("size", 3), Key.of_size("H", 2), Key.of_size("head.A", 3)),
        person_keys=(Key.of_size("A", 3), Key.of_size("B", 2)),
        n_slots=2,
        head_apart=True,
    )
    codes = layout.pack(np.array([[2, 0, 1], [0, 1, 2]]), np.array([[0, 1], [2, 0]]))
    table = CellTable.from_codes(codes, layout.columns, 9, layout=layout)
    data = Generator().prepare(table)
    candidates = candidates_of(data, table.cells)
    household, places, codes = persons_of(candidates, table, data.columns)
    alone = int(np.flatnonzero(table.cells[:, 0] == 0)[0])
    assert sorted(household.tolist()) == sorted([1 - alone, 1 - alone, 0, 1])
    n_each = [
        int(candidates.possible[i, p[p >= 0]].sum()) for i, p in zip(household, places, strict=True)
    ]
    # Members have two other values of A and one of B, heads two of A.
    assert sorted(n_each) == [3, 3, 4, 4]
    assert (places[:, 0] == 0).all()
    assert codes is not None
    # Of the members all values, of heads those of their one key.
    assert sorted(map(tuple, codes.tolist())) == sorted([(0, 1), (2, 0), (1, -1), (2, -1)])
    variable, names = variables_of(table, data.columns)
    assert names == ["H", "A", "B"]
    assert len(variable) == candidates.possible.shape[1]
