"""Ratios of neighbouring households, against all classes of a household listed."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from unikat.kernels.household_neighbours import (
    Known,
    Targets,
    draw_kinds,
    fill_shares,
    household_ratios,
)
from unikat.rng import chain_key

LEVELS, MEMBER_LEVELS = (2, 3), (2, 3)
"""Of the composition and a household key, and of two keys of members in each of two roles."""
FIRST_ROWS = np.array([[0, 2], [4, 7]])
N_CLASSES, N_KINDS, N_SLOTS = 2, 2, 3


class Case:
    """Counts of other households by class, and a household: its keys, members and roles."""

    def __init__(self, seed: int, roles: tuple[int, ...]) -> None:
        g = np.random.default_rng(seed)
        self.pi = g.dirichlet(np.ones(N_CLASSES))
        self.omega = g.dirichlet(np.ones(N_KINDS), N_CLASSES)
        self.profile, self.member_profile = (
            g.gamma(0.5, 1.0, 5) + 0.01,
            g.gamma(0.5, 1.0, 10) + 0.01,
        )
        self.counts = g.integers(0, 3, (N_CLASSES, 5))
        self.member_counts = g.integers(0, 3, (N_CLASSES * N_KINDS, 10))
        self.codes = (int(g.integers(2)), int(g.integers(3)))
        self.members = [tuple(int(g.integers(n)) for n in MEMBER_LEVELS) for _ in roles]
        # Two members with equal values share most.
        self.members[-1] = self.members[0]
        self.roles = roles

    def rows_of(self, j: int, member: tuple[int, ...]) -> list[int]:
        return [int(FIRST_ROWS[k, self.roles[j]]) + x for k, x in enumerate(member)]

    def joint(
        self, codes: tuple[int, ...], members: Any
    ) -> dict[tuple[int, tuple[int, ...]], float]:
        """Probability of a household with each choice of its class and its members' classes."""
        found = {}
        for g in range(N_CLASSES):
            p = self.pi[g]
            for k, x in enumerate(codes):
                here = self.counts[g] + self.profile
                block = slice(2 * k, 2 * k + LEVELS[k])
                p *= here[block][x] / here[block].sum()
            for m in itertools.product(range(N_KINDS), repeat=len(members)):
                counts, q = self.member_counts + self.member_profile, p
                for j, member in enumerate(members):
                    c = g * N_KINDS + m[j]
                    q *= self.omega[g, m[j]]
                    for k, row in enumerate(self.rows_of(j, member)):
                        first = FIRST_ROWS[k, self.roles[j]]
                        q *= counts[c, row] / counts[c, first : first + MEMBER_LEVELS[k]].sum()
                        counts[c, row] += 1.0
                found[g, m] = float(q)
        return found

    def alone(self, g: int) -> list[np.ndarray]:
        """Law of each member's class in class g, by his own keys and all other households."""
        found = []
        for j, member in enumerate(self.members):
            mass = self.omega[g].copy()
            for m in range(N_KINDS):
                counts = self.member_counts[g * N_KINDS + m] + self.member_profile
                for k, row in enumerate(self.rows_of(j, member)):
                    first = FIRST_ROWS[k, self.roles[j]]
                    mass[m] *= counts[row] / counts[first : first + MEMBER_LEVELS[k]].sum()
            found.append(mass / mass.sum())
        return found

    def arrays(self, g: int, m: tuple[int, ...]) -> tuple[Targets, Known, np.ndarray]:
        """Arrays of the kernels where the household has these classes."""
        s = len(self.members)
        members = np.zeros((1, N_SLOTS, 2), np.int64)
        role = np.zeros((1, N_SLOTS), np.int64)
        counts, member_counts = self.counts.copy(), self.member_counts.copy()
        rows = np.array([[self.codes[0], 2 + self.codes[1]]])
        counts[g, rows[0]] += 1
        for j, member in enumerate(self.members):
            members[0, j], role[0, j] = self.rows_of(j, member), self.roles[j]
            member_counts[g * N_KINDS + m[j], members[0, j]] += 1
        known = Known(
            self.pi,
            self.omega,
            self.profile,
            self.member_profile,
            counts,
            member_counts,
            np.array([0, 2, 5]),
            FIRST_ROWS,
            np.array(MEMBER_LEVELS),
        )
        share = np.empty(member_counts.shape)
        fill_shares(known, share)
        return Targets(rows, members, role, np.array([s])), known, share


def neighbours(case: Case) -> dict[int, tuple[Any, Any]]:
    """The households with one other value, by their place in the ratios."""
    found = {1 + 2 + v: ((case.codes[0], v), case.members) for v in range(3)}
    for j, k in itertools.product(range(len(case.members)), range(2)):
        for v in range(MEMBER_LEVELS[k]):
            changed = list(case.members)
            changed[j] = (*changed[j][:k], v, *changed[j][k + 1 :])
            found[1 + 5 + 5 * j + 2 * k + v] = (case.codes, changed)
    return found


def means(case: Case, laws_of: Any, left_in: bool = False) -> tuple[np.ndarray, float]:
    """Mean ratios, and mean of 1 / p(x | others), over the classes given the household.

    laws_of: those of the members' classes in a class that is not the household's; left_in: bug, the
    household counts among the others.
    """
    classes = case.joint(case.codes, case.members)
    truth, s = sum(classes.values()), len(case.members)
    mean, own = np.zeros(1 + 5 + 5 * N_SLOTS), 0.0
    for (g, m), p in classes.items():
        targets, known, share = case.arrays(g, m)
        if left_in:
            known.counts[g, targets.rows[0]] += 1
        before = [share.copy(), known.member_counts.copy()]
        other = 1 - g
        laws = laws_of(other)
        for drawn in itertools.product(range(N_KINDS), repeat=s):
            q = p / truth * np.prod([law[kind] for law, kind in zip(laws, drawn, strict=True)])
            kinds = np.zeros((1, N_CLASSES, N_SLOTS), np.int64)
            kinds[0, g, :s], kinds[0, other, :s] = m, drawn
            ratio, log_own = np.empty((1, len(mean))), np.empty(1)
            scale = np.full((1, N_SLOTS), 0.3)
            household_ratios(targets, np.array([g]), kinds, scale, known, share, ratio, log_own)
            mean += q * ratio[0]
            own += q / np.exp(log_own[0])
        assert np.array_equal(share, before[0])
        assert np.array_equal(known.member_counts, before[1])
    return mean, own


def exact(case: Case) -> dict[int, float]:
    """p(t) / p(x) of the neighbours."""
    truth = sum(case.joint(case.codes, case.members).values())
    return {
        place: sum(case.joint(*household).values()) / truth
        for place, household in neighbours(case).items()
    }


@pytest.mark.parametrize("roles", [(0,), (0, 0), (0, 1), (1, 1, 1), (0, 1, 0)])
def test_the_mean_ratio_is_that_of_all_classes(roles):
    """Its mean over the classes given the household is p(t) / p(x), whatever members share."""
    case = Case(len(roles) + 10 * sum(roles), roles)
    mean, own = means(case, case.alone)
    wanted = exact(case)
    assert {place: mean[place] for place in wanted} == pytest.approx(wanted, rel=1e-10)
    assert np.flatnonzero(mean).tolist() == [0, *wanted]
    assert 1.0 / own == pytest.approx(sum(case.joint(case.codes, case.members).values()))


@pytest.mark.parametrize("bug", ["other laws", "left in"])
def test_planted_bugs_are_caught(bug):
    """Classes drawn by another law than the kernel divides by; x among the other households."""
    case = Case(3, (0, 0))
    even = [np.full(N_KINDS, 1.0 / N_KINDS)] * 2
    laws_of = (lambda g: even) if bug == "other laws" else case.alone
    mean, _ = means(case, laws_of, left_in=bug == "left in")
    wanted = exact(case)
    assert max(abs(mean[place] / wanted[place] - 1.0) for place in wanted) > 0.005


def test_members_of_other_classes_are_drawn_by_their_own_keys():
    """Frequencies of 20,000 draws against their law; the state's own classes stay."""
    case, g = Case(5, (0, 0)), 1
    targets, known, share = case.arrays(g, (1, 0))
    n = 20_000
    many = Targets(*(np.repeat(part, n, axis=0) for part in targets))
    kinds, scale = np.full((n, N_CLASSES, N_SLOTS), 7), np.empty((n, N_SLOTS))
    draw_kinds(chain_key(1, 0), 1, many, np.full(n, g), known, share, kinds, scale)
    assert (kinds[:, g] == 7).all()
    laws = case.alone(1 - g)
    for j, law in enumerate(laws):
        assert abs((kinds[:, 1 - g, j] == 1).mean() - law[1]) < 5 * 0.5 / np.sqrt(n)
    assert (scale[:, :2] > 0.0).all()
