"""The sampler of nested households leaves the joint law alone; planted bugs do not."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from statistical import nested
from unikat.kernels import nested as kernels
from unikat.kernels import nested_split, nested_truncation, profiles
from unikat.models.base import Stream
from unikat.models.households import nested as nested_model
from unikat.models.households import records
from unikat.models.households.composition import listing
from unikat.zeros.household_rules import HouseholdZeros

pytestmark = [pytest.mark.statistical, pytest.mark.slow]

FALSE_ALARM = 1e-5
"""Of each test, shared evenly among the numbers that are compared; a planted bug has to be seen at
a hundredth of it."""

SMALL = nested.Prior((2, 2), (2, 3), 5)
PRIORS = {
    "common": SMALL,
    "by-class": SMALL._replace(by_class=True),
    "learned": SMALL._replace(profile=None, base="learned", n=6),
    "head-apart": SMALL._replace(levels=(3, 2), head_apart=True),
}


def passes(p_values: dict[str, float], share: float = 1.0) -> bool:
    return min(p_values.values()) > share * FALSE_ALARM / len(p_values)


@pytest.mark.parametrize("name", PRIORS)
def test_sampler_keeps_the_joint_law(name):
    p = nested.joint_test(PRIORS[name], seed=1, n_runs=40, n_steps=18)
    assert passes(p), p


def test_sampler_keeps_the_joint_law_with_missing_keys():
    p = nested.joint_test(SMALL, seed=2, n_runs=40, n_steps=18, hidden=0.3)
    assert passes(p), p


def test_wrong_weights_of_person_classes_are_caught(monkeypatch):
    """Members counted twice in the weights of the person classes."""
    right = kernels.draw_member_weights

    def slip(*arguments: Any) -> None:
        changed = list(arguments)
        changed[6] = 2 * arguments[6]
        right(*changed)

    monkeypatch.setattr(kernels, "draw_member_weights", slip)
    p = nested.joint_test(SMALL, seed=3, n_runs=60, n_steps=24)
    assert not passes(p, 0.01), p


def test_flat_profiles_where_they_are_not_are_caught(monkeypatch):
    """Another Dirichlet prior of the profiles than was asked for."""
    right = profiles.draw_profiles

    def slip(key: Any, sweep: int, offsets: Any, profile: Any, *rest: Any) -> None:
        right(key, sweep, offsets, np.ones_like(profile), *rest)

    monkeypatch.setattr(profiles, "draw_profiles", slip)
    p = nested.joint_test(SMALL._replace(profile=0.2), seed=5, n_runs=60, n_steps=24)
    assert not passes(p, 0.01), p


def test_splits_by_another_concentration_are_caught(monkeypatch):
    """Household classes split as if alpha were twenty times as large."""
    right = nested_split.propose

    def slip(key: Any, sweep: int, number: int, tokens: Any, prior: Any, *rest: Any) -> Any:
        return right(key, sweep, number, tokens, prior._replace(alpha=20.0 * prior.alpha), *rest)

    monkeypatch.setattr(nested_split, "propose", slip)
    p = nested.joint_test(SMALL, seed=8, n_runs=80, n_steps=24)
    assert not passes(p, 0.01), p


def test_ranks_of_the_truth_are_uniform():
    """Simulation-based calibration of cell probabilities, weights and concentrations."""
    p = nested.rank_test(SMALL._replace(n=12), seed=1, n_sets=80)
    assert min(p) > FALSE_ALARM / len(p), p


def partitions(n: int) -> list[list[int]]:
    """All partitions of n things, as labels in order of appearance."""
    found: list[list[int]] = [[]]
    for _ in range(n):
        found = [[*p, k] for p in found for k in range(max(p, default=-1) + 2)]
    return found


def crp(sizes: list[int], law: tuple[float, float], groups: list[list[int]]) -> tuple[float, float]:
    """Integral of the partition probabilities over a gamma concentration; the same times it."""
    grid = (np.arange(4000) + 0.5) / 4000
    value = stats.gamma.ppf(grid, law[0], scale=1.0 / law[1])
    log_p = np.zeros(len(grid))
    for n, parts in zip(sizes, groups, strict=True):
        log_p += len(parts) * np.log(value) + gammaln(value) - gammaln(value + n)
        log_p += sum(math.lgamma(size) for size in parts)
    p = np.exp(log_p)
    return float(p.mean()), float((p * value).mean())


def levels_evidence(codes: np.ndarray, levels: tuple[int, ...], profile: float) -> float:
    """Probability of the levels of one class's things, the profile integrated out."""
    value = 0.0
    for k, n_levels in enumerate(levels):
        counts = np.bincount(codes[:, k], minlength=n_levels)
        value += math.lgamma(n_levels * profile) - math.lgamma(n_levels * profile + counts.sum())
        value += float(np.sum(gammaln(profile + counts)) - n_levels * math.lgamma(profile))
    return math.exp(value)


class Exact:
    """Exact posterior of the partitions of few households, by listing them."""

    def __init__(self, prior: nested.Prior, rows: Any) -> None:
        rows = np.array(rows)
        codes, members = prior.layout.parts(rows)
        n_members = codes[:, 0] + 1
        persons = np.concatenate([m[:n] for m, n in zip(members, n_members, strict=True)])
        owner = np.repeat(np.arange(len(rows)), n_members)
        assert prior.profile is not None
        self.evidence = self.alpha = self.beta = self.classes = self.kinds = self.one = 0.0
        for partition in partitions(len(rows)):
            g = np.array(partition)
            sizes = np.bincount(g).tolist()
            p, with_alpha = crp([len(rows)], prior.alpha, [sizes])
            for k in range(len(sizes)):
                here = levels_evidence(codes[g == k], prior.levels, prior.profile)
                p, with_alpha = p * here, with_alpha * here
            inside = [np.flatnonzero(g[owner] == k) for k in range(len(sizes))]
            for choice in itertools.product(*[partitions(len(part)) for part in inside]):
                groups = [np.bincount(m).tolist() for m in choice]
                q, with_beta = crp([len(part) for part in inside], prior.beta, groups)
                term = 1.0
                for part, m in zip(inside, choice, strict=True):
                    for kind in range(max(m) + 1):
                        one = persons[part[np.array(m) == kind]]
                        term *= levels_evidence(one, prior.member_levels, prior.profile)
                self.evidence += p * q * term
                self.alpha += with_alpha * q * term
                self.beta += p * with_beta * term
                self.classes += p * q * term * len(sizes)
                self.one += p * q * term * (len(sizes) == 1)
                self.kinds += p * q * term * sum(map(len, groups))


def test_posterior_is_that_of_the_enumeration():
    """Classes, concentrations and cell probabilities of three households have their exact means."""
    prior = nested.Prior((2, 2), (2, 2), 3, profile=0.4)
    rows = prior.layout.pack(
        np.array([[1, 0], [0, 0], [1, 1]]), np.array([[0, 0], [1, 1], [0, 0], [1, 1], [1, 1]])
    )
    exact = Exact(prior, rows)
    new = prior.layout.pack(np.array([[0, 0], [0, 1]]), np.array([[0, 0], [0, 1]]))
    p = [Exact(prior, np.concatenate((rows, cell[None, :]))).evidence for cell in new]
    expected = [exact.classes, exact.one, exact.kinds, exact.alpha, exact.beta, *p]
    expected = np.array(expected) / exact.evidence
    model = nested.model_of(prior)
    data = model.prepare(nested.tabulate(prior, rows))
    batches = []
    for chain in range(4):
        state = model.init(Stream(7, chain, 0), data)
        seen = []
        for time in range(1, 2051):
            where = Stream(7, chain, time)
            state, info = model.step(where, state, data, 1)
            if time > 50:
                found = info.values
                seen.append(
                    [
                        found["n_household_classes"],
                        found["n_household_classes"] == 1.0,
                        found["n_person_classes"],
                        found["alpha"],
                        found["beta"],
                        *model.cell_probabilities(where, state, data, new),
                    ]
                )
        batches.extend(np.array(seen, float).reshape(10, -1, len(expected)).mean(axis=1))
    p_values = stats.ttest_1samp(np.array(batches), expected).pvalue
    assert p_values.min() > FALSE_ALARM / len(expected), (
        expected.tolist(),
        np.mean(batches, axis=0).tolist(),
    )


# --- rules --------------------------------------------------------------------------------------


def one_head(codes: np.ndarray, members: np.ndarray) -> bool:
    """One head, at most one spouse, and of three persons none in a household of the second kind."""
    relation = members[:, 0]
    few = (relation == 0).sum() == 1 and (relation == 1).sum() <= 1
    # A child (level 2) is not of the head's level of the second key.
    head = members[relation == 0, 1]
    child = members[relation == 2, 1]
    return bool(few and not np.isin(child, head).any() and not (codes[1] == 1 and codes[0] == 2))


def with_rules(prior: nested.Prior) -> nested.Prior:
    layout = prior.layout
    rules = HouseholdZeros.of(
        [
            "count(P0 == 0) != 1",
            "count(P0 == 1) > 1",
            "H1 == 1 and size == 3",
            "child.P1 == head.P1",
        ],
        {"head": "P0 == 0", "child": "P0 == 2"},
        layout.household_keys,
        layout.person_keys,
    )
    return prior._replace(rules=rules.program, possible=one_head)


RULED = with_rules(nested.Prior((3, 2), (3, 2, 2), 6))


def with_roles(prior: nested.Prior, listed: list[list[int]], once: int = -1) -> nested.Prior:
    """With the first key of persons as their role, and some compositions that are not listed.

    once: the role that these have exactly once, -1 if there is none.
    """
    n_roles = len(listed[0])
    shares = np.arange(1.0, n_roles + 1.0)
    if once >= 0:
        shares[once] = 0.0
    sizes = np.arange(1.0, prior.levels[0] + 1.0)
    roles = listing(
        0,
        np.array(listed),
        sizes / sizes.sum(),
        shares / shares.sum(),
        int(not prior.head_apart),
        once,
    )
    return prior._replace(role=0, roles=roles)


ROLES = {
    "all members": with_roles(SMALL, [[1, 0], [1, 1], [0, 2]]),
    "head apart": with_roles(PRIORS["head-apart"], [[0, 0], [1, 0], [1, 1], [0, 2]]),
    "learned": with_roles(
        PRIORS["learned"]._replace(member_levels=(2, 3, 2)), [[1, 0], [1, 1], [0, 2]]
    ),
    "rules": with_roles(RULED, [[1, 0, 0], [1, 1, 0], [1, 0, 1], [0, 1, 1], [1, 1, 1]]),
    "one head": with_roles(
        SMALL._replace(levels=(3, 2), member_levels=(3, 2)), [[1, 0, 0], [1, 1, 0], [1, 1, 1]], 0
    ),
}


@pytest.mark.parametrize("name", ROLES)
@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_sampler_keeps_the_joint_law_with_the_composition_by_role(name, hidden):
    p = nested.joint_test(ROLES[name], seed=9, n_runs=40, n_steps=18, hidden=hidden)
    assert passes(p), p


def test_members_of_one_role_that_have_the_profile_of_another_are_caught(monkeypatch):
    """Rows of the profiles of the second role are those of the first."""
    right = records.columns_of

    def slip(*arguments: Any) -> Any:
        columns = right(*arguments)
        return columns._replace(first_rows=columns.first_rows[:, :1].repeat(2, axis=1))

    monkeypatch.setattr(records, "columns_of", slip)
    prior = ROLES["all members"]._replace(profile=0.2)
    p = nested.joint_test(prior, seed=10, n_runs=60, n_steps=24)
    assert not passes(p, 0.01), p


TIES = {
    "all members": ROLES["all members"]._replace(head=0),
    "two keys": with_roles(SMALL._replace(member_levels=(2, 3, 2)), [[1, 0], [1, 1]])._replace(
        head=0
    ),
    "one head": ROLES["one head"]._replace(head=0),
    "rules": ROLES["rules"]._replace(head=0),
}


@pytest.mark.parametrize("name", TIES)
@pytest.mark.parametrize("hidden", [0.0, 0.3])
def test_sampler_keeps_the_joint_law_with_ties_to_the_head(name, hidden):
    p = nested.joint_test(TIES[name], seed=11, n_runs=40, n_steps=24, hidden=hidden)
    assert passes(p), p


def test_ranks_of_the_truth_are_uniform_with_ties_to_the_head():
    p = nested.rank_test(TIES["two keys"]._replace(n=20), seed=4, n_sets=60)
    assert min(p) > FALSE_ALARM / len(p), p


@pytest.mark.parametrize("hidden", [0.0, 0.2])
def test_sampler_keeps_the_joint_law_under_rules(hidden):
    """With missing keys too, which are imputed such that the rules hold."""
    p = nested.joint_test(RULED, seed=6, n_runs=40, n_steps=18, hidden=hidden)
    assert passes(p), p


def test_impossible_households_that_are_not_counted_are_caught(monkeypatch):
    """They are simulated, and left out of all counts."""
    right = nested_model.simulate_impossible

    def slip(*arguments: Any) -> Any:
        found = right(*arguments)
        nothing = type(found.tally)(*(np.zeros_like(part) for part in found.tally))
        return found._replace(tally=nothing, records=None)

    monkeypatch.setattr(nested_model, "simulate_impossible", slip)
    p = nested.joint_test(RULED, seed=7, n_runs=60, n_steps=24)
    assert not passes(p, 0.01), p


def test_impossible_households_that_move_with_the_wrong_class_are_caught(monkeypatch):
    """In the list that is split and merged they are all of the first class."""
    right = nested_truncation.simulate

    def slip(*arguments: Any) -> Any:
        found = right(*arguments)
        arguments[12].g[:] = 0
        return found

    monkeypatch.setattr(nested_truncation, "simulate", slip)
    p = nested.joint_test(RULED, seed=12, n_runs=60, n_steps=24)
    assert not passes(p, 0.01), p


def test_ranks_of_the_truth_are_uniform_under_rules():
    """Chains are longer: what is impossible of a class leaves its weight open."""
    p = nested.rank_test(RULED._replace(n=6), seed=2, n_sets=48, thin=24, warmup=120)
    assert min(p) > FALSE_ALARM / len(p), p
