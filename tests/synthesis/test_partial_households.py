"""Partially synthetic households: the law of what is drawn against enumeration."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from statistical import nested
from statistical.test_nested import PRIORS, ROLES, RULED
from synthesis.test_households import ROLES as RELATIONS
from synthesis.test_households import homes, synthesize
from unikat import SpecError
from unikat.models.base import Stream
from unikat.models.households import cells
from unikat.synthesis import partial
from unikat.synthesis.generate import PosteriorState
from unikat.synthesis.partial import draw_members_given
from unikat.synthesis.persons import Persons

N = 4_000
FALSE_ALARM = 1e-5
"""Of each comparison; a planted bug has to be seen at a hundredth of it."""


class Household:
    """One household of a small prior, N times, with its persons in a given order."""

    def __init__(self, prior: nested.Prior, house: list[int], members: list[list[int]]) -> None:
        self.prior, self.house, self.members = prior, house, np.array(members, np.int32)
        layout = prior.layout
        if prior.head_apart:
            # The head's value of the last key is the household's.
            named = replace(layout.person_keys[-1], name=f"head.{layout.person_keys[-1].name}")
            last = replace(named, levels=layout.household_keys[-1].levels, labels=("a", "b"))
            size, *_ = layout.household_keys
            layout = replace(layout, household_keys=(size, *layout.household_keys[1:-1], last))
        self.layout = layout
        self.state = nested.draw_state(np.random.default_rng(11), prior)
        row = layout.joined(np.array([house]), self.slots(self.members))
        self.table = nested.tabulate(prior, np.repeat(row, N, axis=0))
        self.table = replace(self.table, layout=layout)
        self.data = nested.Listed(roles=prior.roles).prepare(self.table)

    def slots(self, members: Any) -> Any:
        """The members in the slots of the layout, (1, n_slots, n_person_keys)."""
        found = np.empty((1, self.layout.n_slots, len(self.prior.member_levels)), np.int32)
        found[:] = self.layout.absent
        found[0, : len(members)] = members
        return found

    def persons(self) -> Persons:
        """The file: the head first where it is apart, with values of its own alone."""
        shared = self.layout.household_keys[1:]
        keys = self.layout.person_keys
        if not self.prior.head_apart:
            keys = (*shared, *keys)
        rows = []
        if self.prior.head_apart:
            rows.append([0] * (len(keys) - 1) + [self.house[-1]])
        for member in self.members.tolist():
            rows.append([*([] if self.prior.head_apart else self.house[1:]), *member])
        return Persons(
            keys,
            np.tile(np.array(rows, np.int32), (N, 1)),
            np.arange(N * len(rows)),
            np.repeat(np.arange(N, dtype=np.int32), len(rows)),
            np.tile(np.arange(len(rows)) == 0, N) if self.prior.head_apart else None,
        )

    def drawn(self, replaced: list[str]) -> Any:
        """Codes of the synthetic persons, (N, n_persons, n_keys)."""
        at = PosteriorState(Stream(5, 0, 1), self.state)
        persons = self.persons()
        codes = draw_members_given(
            at, self.data, self.prior.rules, persons, self.table, self.table, replaced
        )
        return codes.reshape(N, -1, len(persons.keys))

    def law(self, replaced: list[str]) -> dict[tuple[int, ...], float]:
        """Probabilities of the codes of all persons in their order, by listing every completion."""
        prior = self.prior
        names = [key.name for key in self.layout.household_keys]
        persons = [key.name for key in self.layout.person_keys]
        fixed = [*self.house, *self.members.ravel().tolist()]
        labels = [name.removeprefix("head.") for name in names] + persons * len(self.members)
        levels = [*prior.levels, *(list(prior.member_levels) * len(self.members))]
        ranges = [
            range(n) if name in replaced or x < 0 else [x]
            for x, name, n in zip(fixed, labels, levels, strict=True)
        ]
        found: dict[tuple[int, ...], float] = {}
        for values in itertools.product(*ranges):
            house = np.array([values[: len(names)]])
            members = np.array(values[len(names) :]).reshape(self.members.shape)
            row = self.layout.joined(house, self.slots(members))
            if not nested.is_possible(prior, row)[0]:
                continue
            p = nested.probability(prior, self.state, row[0])
            # One of the orders in which the members may stand.
            alike = [tuple(member) for member in members.tolist()]
            p /= math.factorial(len(alike))
            for one in set(alike):
                p *= math.factorial(alike.count(one))
            seen = tuple(
                x if name in replaced else known
                for x, name, known in zip(values, labels, fixed, strict=True)
            )
            found[seen] = found.get(seen, 0.0) + p
        total = sum(found.values())
        return {seen: p / total for seen, p in found.items()}

    def p_value(self, replaced: list[str]) -> float:
        """Chi-square test of what is drawn against its law; 0 where something cannot be."""
        codes = self.drawn(replaced)
        if self.prior.head_apart:
            whole = [codes[:, 0, -1:], codes[:, 1:].reshape(N, -1)]
        else:
            n_shared = len(self.house) - 1
            whole = [codes[:, 0, :n_shared], codes[:, :, n_shared:].reshape(N, -1)]
        size = np.full((N, 1), self.house[0])
        rows, counts = np.unique(np.hstack([size, *whole]), axis=0, return_counts=True)
        law = self.law(replaced)
        seen = {tuple(row): n for row, n in zip(rows.tolist(), counts.tolist(), strict=True)}
        if not set(seen) <= set(law):
            return 0.0
        expected = N * np.array(list(law.values()))
        observed = np.array([seen.get(row, 0) for row in law])
        rare = expected < 8.0
        if rare.any():
            expected = np.append(expected[~rare], expected[rare].sum())
            observed = np.append(observed[~rare], observed[rare].sum())
        return float(stats.chisquare(observed, expected * observed.sum() / expected.sum()).pvalue)


CASES = {
    "a key of persons": (PRIORS["common"], [1, 1], [[1, 2], [0, 0]], ["P1"]),
    "of the household": (PRIORS["common"], [1, 1], [[1, 2], [0, 0]], ["H1"]),
    "both": (PRIORS["common"], [1, 0], [[1, 2], [1, 0]], ["H1", "P0"]),
    "a kept one is missing": (PRIORS["common"], [1, 0], [[-1, 2], [1, 0]], ["P1"]),
    "head apart": (PRIORS["head-apart"], [2, 1], [[1, 2], [0, 0]], ["P1"]),
    "rules": (RULED, [1, 0], [[2, 1, 0], [0, 0, 1]], ["P0"]),
    "rules, two keys": (RULED, [2, 0], [[2, 1, 0], [0, 0, 1], [1, 0, 0]], ["P0", "P1"]),
    "rules, one missing": (RULED, [1, 0], [[2, -1, 0], [0, 0, 1]], ["P0"]),
    "the role": (ROLES["all members"], [1, 1], [[1, 2], [0, 0]], ["P0"]),
    "the role and more": (ROLES["all members"], [1, 1], [[1, 2], [0, 0]], ["P0", "P1"]),
    "not the role": (ROLES["all members"], [1, 1], [[1, 2], [0, 0]], ["P1"]),
    "the role under rules": (ROLES["rules"], [2, 0], [[2, 1, 0], [0, 0, 1], [1, 0, 0]], ["P0"]),
}


@pytest.mark.statistical
@pytest.mark.parametrize("name", CASES)
def test_what_is_drawn_has_its_distribution_given_all_the_rest(name):
    prior, house, members, replaced = CASES[name]
    assert Household(prior, house, members).p_value(replaced) > FALSE_ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("slip", ["sorted members", "household key ignored", "rules ignored"])
def test_a_wrong_conditional_is_caught(monkeypatch, slip):
    right = partial.drawn_given

    def wrong(stream: Any, columns: Any, rules: Any, weights: Any, known: Any) -> Any:
        if slip == "rules ignored":
            return right(stream, columns, None, weights, known)
        if slip == "household key ignored":
            less = known.copy()
            less[:, 1] = -1
            found = right(stream, columns, rules, weights, less)
            found[:, 1] = known[:, 1]
            return found
        return columns.canonical(right(stream, columns, rules, weights, known))

    monkeypatch.setattr(partial, "drawn_given", wrong)
    case = {"rules ignored": "rules", "household key ignored": "not the role"}.get(slip, "both")
    prior, house, members, replaced = CASES[case]
    assert Household(prior, house, members).p_value(replaced) < FALSE_ALARM / 100


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"set": {"composition": "rel"}},
        {"head": "rel == 1", "set": {"households.head_keys": "age:width(5),sex"}},
        {"method": "reject"},
        {"method": "untruncated"},
        {"method": "flat"},
    ],
    ids=lambda more: "-".join(map(str, more.values())) or "default",
)
@pytest.mark.parametrize("replaced", ["rel", "age,owner"])
def test_kept_values_are_untouched_and_rules_obeyed(more, replaced):
    frame = homes()
    frame["sex"] = frame["sex"].astype("Int64")
    frame.loc[::9, "sex"] = pd.NA
    rules = ["count(rel == 2) > 1", "spouse.age < 15"]
    zeros = {"rules": rules, "roles": {"spouse": RELATIONS["spouse"]}}
    found = synthesize(frame, zeros=zeros, replace=replaced, **more)
    names = replaced.split(",")
    kept = [name for name in frame.columns if name not in names and name != "hid"]
    for synthetic, broken in zip(found.frames, found.summary.impossible.shares, strict=True):
        pd.testing.assert_frame_equal(synthetic[kept], frame[kept])
        assert (synthetic.groupby("hid")["owner"].nunique() == 1).all()
        if "head" not in more or replaced != "rel":
            assert (synthetic[names] != frame[names]).to_numpy().mean() > 0.1
        if more.get("method") not in ("flat", "untruncated"):
            spouses = synthetic[synthetic["rel"] == 2]
            assert broken == 0.0
            assert spouses["hid"].is_unique
            assert (spouses["age"] >= 15).all()


def test_households_that_cannot_be_drawn_get_one_message(monkeypatch):
    """Given the kept values nearly no household that the model draws obeys the rules."""
    monkeypatch.setattr(cells, "_MOST_DRAWN", (10, 1000))
    case = Household(RULED, [1, 0], [[2, 1, 0], [0, 0, 1]])
    phi = case.state.phi.copy()
    phi[: case.prior.member_levels[0]] = np.array([[1e-12], [1.0], [1e-12]])
    case.state = case.state._replace(phi=phi)
    with pytest.raises(SpecError, match=r"4,000 of 4,000 households .* Replace fewer keys"):
        case.drawn(["P0"])


def test_the_stratum_that_the_files_keep_is_not_replaced():
    frame = homes(300)
    with pytest.raises(SpecError, match="'owner', which says in which stratum"):
        synthesize(
            frame,
            replace="owner,age",
            strata="owner",
            stratum_sizes={"0": 5000, "1": 6000},
        )
