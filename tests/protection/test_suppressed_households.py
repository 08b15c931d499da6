"""Keys suppressed of whole households, against enumerations of all households."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import pytest

from protection.test_household_what_if import PRIORS, WHERE, census, fitted
from unikat.data import households
from unikat.data.households import HouseholdLayout, agreeing_households, household_meetings
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.models.base import Stream
from unikat.protection.perturbed import correct_matches
from unikat.protection.recoding import parse_recoding
from unikat.protection.release import suppressed_values
from unikat.protection.suppression import KAnonymity, RiskLimit, suppress_households
from unikat.protection.what_if import Posterior
from unikat.spec.limits import Limit

Row = tuple[Any, ...]


def shown_of(layout: HouseholdLayout, row: Any, hidden: Any) -> Row:
    """What a household shows, in loops: own values, and its members in any order."""
    n_own, n_keys = len(layout.household_keys), len(layout.person_keys)
    own = [row[0], *(None if hidden[k] else row[k + 1] for k in range(n_own - 1))]
    members = []
    for slot in range(layout.n_slots):
        member = row[n_own + slot * n_keys : n_own + (slot + 1) * n_keys]
        if member[0] == layout.person_keys[0].n_levels:
            continue
        members.append(
            tuple(None if hidden[n_own - 1 + k] else int(value) for k, value in enumerate(member))
        )
    counts = Counter(members)
    return (*own, frozenset(counts.items()))


def sets_of(n: int) -> list[Any]:
    return [np.array(one) for one in itertools.product((False, True), repeat=n)]


@pytest.mark.parametrize("name", ["plain", "head-apart", "roles"])
def test_what_a_household_shows_has_the_probability_of_all_that_agree(name: str) -> None:
    prior = PRIORS[name]
    posterior, state = fitted(prior)
    layout = posterior.table.layout
    assert layout is not None
    cells = census(prior, parse_recoding(posterior.table, {}))[0]
    some = cells[np.random.default_rng(2).permutation(len(cells))[:150]]
    p = posterior.model.cell_probabilities(WHERE, state, posterior.data, cells)
    for hidden in sets_of(len(layout.variables)):
        patterns = layout.hiding(some, np.broadcast_to(hidden, (len(some), len(hidden))))
        found = posterior.recoded(parse_recoding(posterior.table, {}), posterior.table)
        mine = found.cell_probabilities(WHERE, state, posterior.data, patterns)
        sums = Counter[Row]()
        for row, chance in zip(cells, p.tolist(), strict=True):
            sums[shown_of(layout, row, hidden)] += chance
        expected = [sums[shown_of(layout, row, hidden)] for row in some]
        np.testing.assert_allclose(mine, expected, rtol=5e-5)


@pytest.mark.parametrize("name", ["plain", "head-apart"])
def test_households_that_agree_with_what_is_shown_are_counted(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layout = PRIORS[name].layout
    cells = census(PRIORS[name], parse_recoding(fitted(PRIORS[name])[0].table, {}))[0][::3]
    rng = np.random.default_rng(5)
    each = sets_of(len(layout.variables))
    hidden = np.array([each[k] for k in rng.integers(0, len(each), len(cells))])

    def of_layout() -> tuple[Any, Any]:
        rows = layout.hiding(cells, hidden)
        counts = np.zeros(len(rows), int)
        for met in agreeing_households(layout, rows, cells):
            for at, number in zip(met.asking, met.wanted, strict=True):
                counts[at] += int((met.offered == number).sum())
        both = np.zeros(len(rows), int)
        for met in household_meetings(layout, rows):
            for at, number in zip(met.asking, met.wanted, strict=True):
                both[at] += int((met.offered == number).sum())
        return counts, both

    counts, both = of_layout()
    for at in range(0, len(cells), 7):
        seen = shown_of(layout, cells[at], hidden[at])
        assert counts[at] == sum(shown_of(layout, row, hidden[at]) == seen for row in cells)
        mutual = [
            shown_of(layout, cells[at], hidden[at] | other)
            == shown_of(layout, row, hidden[at] | other)
            for row, other in zip(cells, hidden, strict=True)
        ]
        assert both[at] == sum(mutual)
    rows = layout.hiding(cells, hidden)
    assert layout.is_whole(rows).all()
    if name == "head-apart":
        return
    # Members in the order that they had before their keys were hidden are other households.
    monkeypatch.setattr(households, "sorted_slots", lambda members: members)
    wrong, _ = of_layout()
    assert (wrong < counts).any()


def homes(rng: np.random.Generator, n: int) -> tuple[HouseholdLayout, Any]:
    """Households of one or two members, an own key of two levels and two keys of members."""
    layout = HouseholdLayout(
        household_keys=(Key.of_size("size", 2), Key.of_size("area", 2)),
        person_keys=(Key.of_size("age", 3), Key.of_size("sex", 2)),
        n_slots=2,
    )
    sizes, area = rng.integers(0, 2, n), rng.integers(0, 2, n)
    persons = np.column_stack(
        (rng.integers(0, 3, int((sizes + 1).sum())), rng.integers(0, 2, int((sizes + 1).sum())))
    )
    return layout, layout.pack(np.column_stack((sizes, area)), persons)


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", ["k", "risk"])
def test_each_household_gets_the_cheapest_set_of_keys_that_makes_it_safe(
    seed: int, kind: str
) -> None:
    """Against a search over all sets in loops; risks fall as keys are hidden."""
    rng = np.random.default_rng(seed)
    layout, rows = homes(rng, 14)
    costs = np.array([[1.0, 1.0, 1.0], [2.0, 0.5, 1.5]][seed % 2])
    of_size = rng.random(2)

    def risk_of(patterns: Any) -> Any:
        houses, members = layout.parts(patterns)
        share = 0.5 ** (houses[:, 1:] < 0).sum(axis=1)
        share *= 0.4 ** (members[:, 0] < 0).sum(axis=1)
        return share * of_size[houses[:, 0]]

    rule: Any = KAnonymity(3) if kind == "k" else RiskLimit(0.15, risk_of)
    try:
        found = suppress_households(rows, layout, np.eye(3, dtype=bool), rule, costs)
    except SpecError:
        found = None
    for at, row in enumerate(rows):
        safe = []
        for hidden in sets_of(3):
            seen = shown_of(layout, row, hidden)
            n = sum(shown_of(layout, other, hidden) == seen for other in rows)
            alone = layout.hiding(row[None], hidden[None])
            if n >= rule.needed or (kind == "risk" and risk_of(alone)[0] <= 0.15):
                safe.append(float(costs[hidden].sum()))
        if found is None:
            if not safe:
                return
            continue
        assert float(costs[found[at]].sum()) == min(safe)
    assert found is not None


def test_a_key_that_some_members_lack_is_suppressed_of_all() -> None:
    layout, rows = homes(np.random.default_rng(1), 10)
    place = int(np.flatnonzero(rows[:, 0] == 1)[0])
    rows[place, 2] = -1
    rows = layout.canonical(rows)
    assert not layout.is_whole(rows)[place]
    of_key = np.eye(3, dtype=bool)
    found = suppress_households(rows, layout, of_key, KAnonymity(2), np.ones(3))
    assert found[place, 1]
    assert layout.is_whole(layout.hiding(rows, found)).all()
    with pytest.raises(SpecError, match=r"1 household\(s\) lack a key of some members"):
        suppress_households(rows, layout, of_key, KAnonymity(2), np.array([1.0, np.inf, 1.0]))


def with_states(name: str, n: int, size: int) -> Posterior:
    """States of a model of a drawn sample, in a population of so many households."""
    prior = PRIORS[name]._replace(n=n)
    posterior, state = fitted(prior)
    table = CellTable.from_codes(
        posterior.table.cells[posterior.table.record_cell],
        posterior.table.keys,
        size,
        layout=posterior.table.layout,
    )
    states, data = [], posterior.data
    for sweep in range(6, 18):
        state, _ = posterior.model.step(Stream(3, 1, sweep), state, data, 1)
        states.append((Stream(3, 1, sweep), state))
    return Posterior(
        table=table, fitted=table, model=posterior.model, data=data, states=(tuple(states),)
    )


@pytest.mark.parametrize("name", ["plain", "head-apart", "roles"])
def test_what_is_left_is_the_risk_of_the_margins(name: str) -> None:
    """τ1 and τ2 of a suppressed file by the risk of recodings that leave the keys out."""
    posterior = with_states(name, 40, 400)
    table, layout = posterior.table, posterior.table.layout
    assert layout is not None
    whole = parse_recoding(table, {})
    rows = table.cells[table.record_cell]
    limit = Limit.of(f"households.r1 <= {0.4 if name == 'roles' else 0.2}")
    hidden = suppressed_values(limit, posterior, whole, rows, [1.0] * len(whole.kept), ())
    assert hidden.any()
    assert not hidden.all()
    names = [one.name for one in whole.keys]
    if name == "roles":
        # Who lives in a household stays.
        assert not hidden[:, names.index("P0")].any()
    own = [layout.name_of(key) for key in layout.variables]
    of_variables = hidden @ (np.array(names)[:, None] == np.array(own))
    published = layout.hiding(rows, of_variables)
    found = correct_matches(posterior, whole, published, 0.95, unsuppressed=rows)
    tau1 = tau2 = 0.0
    n_uniques = 0
    for pattern in np.unique(hidden, axis=0):
        some = (hidden == pattern).all(axis=1)
        rules = {one: None for one, gone in zip(names, pattern, strict=True) if gone}
        margin = parse_recoding(table, rules)
        if not margin.kept:
            continue
        coarse = margin.table(table)
        records = posterior.what_if(margin).records
        alone = (coarse.counts == 1)[coarse.record_cell] & some
        n_uniques += int(alone.sum())
        cell = coarse.record_cell[alone]
        tau1 += float(records.r1[cell].sum())
        tau2 += float(records.r2[cell].sum())
        # What was asked of each.
        assert (records.r1[cell] <= limit.bound + 1e-9).all()
    assert found.n_uniques == n_uniques
    assert found.tau1.mean == pytest.approx(tau1, rel=1e-4)
    assert found.tau2.mean == pytest.approx(tau2, rel=1e-3)
