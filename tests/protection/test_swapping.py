"""Swapping: what stays, who is swapped, and who cannot be."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.protection.swapping import swap_records

LEVELS = (4, 3, 2, 3)


@settings(max_examples=80, deadline=None)
@given(seed=st.integers(0, 10**6), n=st.integers(0, 40))
def test_what_swapping_of_records_keeps(seed, n):
    rng = np.random.default_rng(seed)
    codes = np.column_stack([rng.integers(-1, k, n) for k in LEVELS]).astype(np.int32)
    risk = np.where(rng.random(n) < 0.4, rng.random(n), 0.0)
    options: dict[str, Any] = {"swap": [0, 2], "match": [1], "seed": seed}
    found = swap_records(codes, LEVELS, risk, **options)
    assert (found.codes == swap_records(codes, LEVELS, risk, **options).codes).all()
    # Nothing but the swap keys of swapped records changes, and each of these in one of them.
    assert (found.codes[:, [1, 3]] == codes[:, [1, 3]]).all()
    assert ((found.codes != codes).any(axis=1) == found.swapped).all()

    def joint(some: Any) -> Counter[Any]:
        return Counter(map(tuple, some[:, [0, 1, 2]].tolist()))

    assert joint(found.codes) == joint(codes)
    assert ((risk > 0) == ((found.swapped & (risk > 0)) | found.left)).all()
    # Of those that are left no two could have been swapped, nor one with a record not swapped.
    for i in np.flatnonzero(found.left):
        free = ~found.swapped & (codes[:, 1] == codes[i, 1])
        assert (codes[free][:, [0, 2]] == codes[i, [0, 2]]).all()


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_what_swapping_of_households_keeps(seed):
    rng = np.random.default_rng(seed)
    household = np.sort(rng.integers(0, 14, 30))
    area = rng.integers(0, 4, 14)[household]
    codes = np.column_stack([area, *(rng.integers(0, k, 30) for k in LEVELS[1:])]).astype(np.int32)
    risk = np.where(rng.random(30) < 0.4, rng.random(30), 0.0)
    shuffled = rng.permutation(30)
    codes, household, risk = codes[shuffled], household[shuffled], risk[shuffled]
    gaps = codes.copy()
    gaps[rng.random(30) < 0.2, 0] = -1
    found = swap_records(gaps, LEVELS, risk, swap=[0], match=[2], seed=seed, household=household)
    joint = (Counter(map(tuple, some[:, [0, 2]].tolist())) for some in (found.codes, gaps))
    assert next(joint) == next(joint)
    for h in np.unique(household):
        known = found.codes[(household == h) & (found.codes[:, 0] >= 0), 0]
        assert len(np.unique(known)) <= 1
    found = swap_records(codes, LEVELS, risk, swap=[0], match=[2], seed=seed, household=household)
    assert (found.codes[:, 1:] == codes[:, 1:]).all()

    def kinds(some: Any) -> Counter[Any]:
        whole = [some[household == h] for h in np.unique(household)]
        assert all((rows[:, 0] == rows[0, 0]).all() for rows in whole)
        return Counter((rows[0, 0], tuple(sorted(rows[:, 2].tolist()))) for rows in whole)

    assert kinds(found.codes) == kinds(codes)
    for h in np.unique(household):
        rows = household == h
        assert found.swapped[rows].all() or not found.swapped[rows].any()
        if (risk[rows] > 0).any() and not found.swapped[rows].any():
            assert (found.left[rows] == (risk[rows] > 0)).all()


def test_the_record_at_highest_risk_comes_first():
    codes = [[0, 0], [1, 0], [1, 0]]
    found = swap_records(codes, (2, 1), [0.0, 0.3, 0.6], swap=[0], match=[1], seed=1)
    assert found.codes[:, 0].tolist() == [1, 1, 0]
    assert found.left.tolist() == [False, True, False]


def test_the_seed_draws_the_partner():
    codes = np.column_stack([np.arange(30) % 5, np.zeros(30)])
    risk = np.eye(30)[0]
    partners = {
        tuple(swap_records(codes, (5, 1), risk, swap=[0], match=[1], seed=seed).swapped.tolist())
        for seed in range(20)
    }
    assert len(partners) > 5
