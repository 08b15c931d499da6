"""Split-merge moves leave the law of the partition alone, which small tables let us list."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import stats

import naive
from unikat.kernels import split_merge
from unikat.kernels.mixture import Records
from unikat.rng import chain_key

pytestmark = pytest.mark.statistical

FALSE_ALARM = 1e-5
"""Of each test of a case (chi-square); below 1e-4 in total. A planted bug has to be seen at a
hundredth of it."""
N_LEVELS = (2, 3)
N_SLOTS = 8
KEY = chain_key(8, 0)
RECORDS = {
    "two groups": [[0, 0], [0, 0], [1, 2], [1, 1]],
    "missing": [[0, 2], [1, -1], [-1, 2], [1, 0], [-1, -1]],
    "three": [[0, 0], [1, 2], [1, -1]],
}


class Case(NamedTuple):
    """A model with everything above the partition known."""

    records: str
    alpha: float | None
    top: float = 1.0
    components: int = 0
    profile: float = 0.4


CASES = {
    "classes": Case("two groups", None, 0.7),
    "classes-missing": Case("missing", None, 2.5),
    "hdp": Case("three", 0.6, 1.5),
    "hdp-large-alpha": Case("three", 3.0, 0.5, profile=2.0),
    "gom": Case("three", 0.8, components=4),
    "gom-two": Case("three", 0.8, components=2, profile=1.0),
}


def moved(a: dict[str, Any]) -> int:
    """One move, its arguments by their names."""
    found: int = split_merge.propose(
        a["key"],
        a["sweep"],
        Records(a["rows"], a["record_cell"], a["offsets"]),
        split_merge.PartitionPrior(*(a[n] for n in split_merge.PartitionPrior._fields)),
        split_merge.Partition(*(a[n] for n in split_merge.Partition._fields)),
    )
    return found


def after_one_move(
    case: Case, n_draws: int, change: Callable[[dict[str, Any]], None] = lambda _: None
) -> tuple[float, float]:
    """P-value of the law after one move from exact draws of it, and the share of moves accepted.

    `change` may plant a bug in the kernel's arguments.
    """
    records = np.array(RECORDS[case.records])
    exact = naive.Franchise(
        records.tolist(), N_LEVELS, alpha=case.alpha, top=case.top, profile=case.profile,
        components=case.components,
    )  # fmt: skip
    states = list(exact.law)
    place = {state: s for s, state in enumerate(states)}
    law = np.array([exact.law[state] for state in states])
    np.testing.assert_allclose(law.sum(), 1.0)
    offsets = np.array([0, 2, 5], np.int64)
    rows = np.where(records >= 0, records + offsets[:-1], -1).astype(np.int32)
    record = np.array([token[0] for token in exact.tokens])
    column = np.array([token[1] for token in exact.tokens])
    row = rows[record, column]
    single = case.alpha is None
    rng = np.random.default_rng(1)
    count = np.zeros(len(states), int)
    accepted = 0
    k = case.components
    if k:
        log_new, share = np.log(np.arange(k, 0, -1.0)), 1.0
    else:
        log_new, share = np.full(N_SLOTS, np.log(case.top)), 0.0
    for draw, start in enumerate(rng.choice(len(states), n_draws, p=law)):
        dishes = sorted(states[start])
        slots = rng.permutation(k or N_SLOTS)[: len(dishes)]
        z = np.full(records.shape, -1, np.int16)
        tables = np.zeros(N_SLOTS, np.int64)
        for slot, (dish, n_tables) in zip(slots, dishes, strict=True):
            z[record[list(dish)], column[list(dish)]] = slot
            tables[slot] = n_tables
        # g0 given the tables: what an unlimited model leaves unseen is of no matter here.
        weights = np.zeros(N_SLOTS)
        drawn = rng.gamma(tables[: k or N_SLOTS] + share)
        weights[: k or N_SLOTS] = drawn / (drawn.sum() + (0.0 if k else rng.gamma(case.top)))
        counts = np.zeros((5, N_SLOTS), np.int64)
        np.add.at(counts, (row, z[record, column]), 1)
        occupancy = np.array([np.bincount(r[r >= 0], minlength=N_SLOTS) for r in z])
        stacks = np.array([(occupancy > l).sum(axis=0) for l in range(1 if single else 2)])
        arguments = {
            "key": KEY, "sweep": draw, "rows": rows,
            "record_cell": np.arange(len(records), dtype=np.int32), "offsets": offsets,
            "z": z.max(axis=1, keepdims=True) if single else z,
            "alpha": np.array([case.alpha or 0.0]), "weights": weights, "log_new": log_new,
            "share": share, "profile": np.full(5, case.profile), "tables": tables,
            "counts": counts, "stacks": stacks,
        }  # fmt: skip
        change(arguments)
        accepted += abs(moved(arguments))
        z = arguments["z"]
        of_token = z[record, 0 if single else column]
        dishes = {
            (tuple(np.flatnonzero(of_token == k).tolist()), int(tables[k]))
            for k in set(of_token.tolist())
        }
        count[place[frozenset(dishes)]] += 1
        if draw < 200:
            # What is counted goes with the tokens.
            again = np.zeros_like(counts)
            np.add.at(again, (row, of_token), 1)
            np.testing.assert_array_equal(counts, again)
            known = np.broadcast_to(z, records.shape) if not single else z
            occupancy = np.array([np.bincount(r[r >= 0], minlength=N_SLOTS) for r in known])
            stacked = [(occupancy > l).sum(axis=0) for l in range(len(stacks))]
            np.testing.assert_array_equal(stacks, stacked)
            assert (tables[np.setdiff1d(np.arange(N_SLOTS), of_token)] == 0).all()
    common = law * n_draws >= 8.0
    observed = np.append(count[common], count[~common].sum())
    expected = np.append(law[common], law[~common].sum()) * n_draws
    keep = expected > 0.0
    return float(stats.chisquare(observed[keep], expected[keep]).pvalue), accepted / n_draws


@pytest.mark.parametrize("name", CASES)
def test_a_move_leaves_the_law_of_partition_and_tables_alone(name):
    p, accepted = after_one_move(CASES[name], 10_000)
    assert accepted > 0.1
    assert p > FALSE_ALARM


def twice_as_many(arguments: dict[str, Any]) -> None:
    """Plant a wrong number of names for the new component."""
    arguments["log_new"] = arguments["log_new"] + np.log(2.0)


def no_share(arguments: dict[str, Any]) -> None:
    """Plant the Dirichlet process's share into a model with K components."""
    arguments["share"] = 0.0


def flat_profile(arguments: dict[str, Any]) -> None:
    """Plant another Dirichlet parameter of the profiles."""
    arguments["profile"] = np.full(5, 1.0)


def one_name(arguments: dict[str, Any]) -> None:
    """Plant a new component with one name, where K - k are free."""
    arguments["log_new"] = np.zeros_like(arguments["log_new"])


@pytest.mark.parametrize(
    ("name", "bug"),
    [
        ("classes", twice_as_many),
        ("hdp", twice_as_many),
        ("classes", flat_profile),
        ("gom", one_name),
        ("gom", no_share),
    ],
)
def test_planted_bugs_are_caught(name, bug):
    p, _ = after_one_move(CASES[name], 10_000, bug)
    assert p < 0.01 * FALSE_ALARM


def test_very_many_keys_do_not_overflow():
    """Two pure groups with sixty keys in one class: a split parts them, record by record."""
    n, n_keys = 3000, 60
    rows = (2 * np.arange(n_keys) + np.array([[0], [1]])).astype(np.int32)
    record_cell = np.repeat(np.arange(2, dtype=np.int32), n)
    offsets = np.arange(0, 2 * n_keys + 1, 2)
    parts = (slice(n), slice(n, None))
    parted = 0
    for sweep in range(40):
        z = np.zeros((2 * n, 1), np.int16)
        counts = np.zeros((2 * n_keys, 8), np.int64)
        counts[:, 0] = n
        stacks = np.zeros((1, 8), np.int64)
        stacks[0, 0] = 2 * n
        tables = stacks[0].copy()
        profile = np.full(2 * n_keys, 0.0005)
        prior = split_merge.PartitionPrior(
            np.zeros(1), np.full(8, 0.125), np.zeros(8), 0.0, profile
        )
        partition = split_merge.Partition(z, tables, counts, stacks)
        if split_merge.propose(KEY, sweep, Records(rows, record_cell, offsets), prior, partition):
            # Where both anchors are of one group, one of them stays with the other group.
            strangers = [min(np.bincount(z[part, 0], minlength=2)[:2]) for part in parts]
            assert sum(strangers) <= 1
            parted += 1
    assert parted
