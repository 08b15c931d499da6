"""Household rules of coarser keys against the rules of all levels that the groups stand for."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.data import Key
from unikat.kernels.household_rules import broken_rules, household_scratch
from unikat.zeros import household_groups
from unikat.zeros.household_groups import coarser, n_rules_that_forbid
from unikat.zeros.household_rules import HouseholdZeros
from zeros.test_household_rules import (
    PERSONS,
    ROLES,
    expressions,
    family,
    household_keys,
    read,
    refusal,
)

REL, AGE = (next(key for key in PERSONS if key.name == name) for name in ("REL", "AGE"))


def broken(program, house, members, sizes, n_rules):
    found = np.zeros((len(sizes), n_rules), bool)
    scratch = household_scratch(program, members.shape[1])
    broken_rules(program, house.astype(np.int64), members.astype(np.int64), sizes, scratch, found)
    return found


def drawn_groups(rng, keys):
    """Groups of each key, by name; None where it is left out. A missing level stays apart."""
    found = {}
    for key in keys:
        if key.name.startswith("head."):
            continue
        if rng.random() < 0.15:
            found[key.name] = None
            continue
        n = key.n_levels - (key.missing_level is not None)
        groups = np.arange(n) if rng.random() < 0.4 else rng.integers(0, 3, n)
        groups = np.unique(groups, return_inverse=True)[1]
        found[key.name] = np.append(groups, groups.max() + 1) if n < key.n_levels else groups
    return found


def coarse_codes(codes, groups_of):
    return np.stack(
        [
            np.where(codes[..., k] < 0, -1, groups[codes[..., k]])
            for k, groups in enumerate(groups_of)
            if groups is not None
        ],
        axis=-1,
    )


def same_groups(rng, codes, groups_of):
    """Other levels of the same groups; of what is missing any."""
    found = codes.copy()
    for k, groups in enumerate(groups_of):
        n = 4 if groups is None else len(groups)
        for at in np.ndindex(codes.shape[:-1]):
            code = codes[(*at, k)]
            some = np.arange(n)
            if groups is not None and code >= 0:
                some = np.flatnonzero(groups == groups[code])
            elif groups is None:
                continue
            found[(*at, k)] = rng.choice(some)
    return found


@given(
    texts=st.lists(expressions, min_size=1, max_size=3),
    apart=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=100, deadline=None)
def test_a_household_of_groups_breaks_a_rule_only_if_all_its_households_do(texts, apart, seed):
    rng = np.random.default_rng(seed)
    keys = household_keys(apart)
    rules = [text for text in texts if not refusal(text, apart)]
    if not rules:
        return
    zeros = read(rules, apart)
    by_name = drawn_groups(rng, (*keys, *PERSONS))
    house_groups = [by_name[key.name.removeprefix("head.")] for key in keys]
    groups = [by_name[key.name] for key in PERSONS]
    if all(one is None for one in groups) or all(one is None for one in house_groups):
        return
    program = coarser(zeros.program, house_groups, groups)
    if program is None:
        return
    n = 25
    house = np.stack([rng.integers(0, key.n_levels, n) for key in keys], axis=1)
    members = np.stack([rng.integers(0, key.n_levels, (n, 3)) for key in PERSONS], axis=2)
    sizes = rng.integers(1 - apart, 4, n)
    coarse = broken(
        program,
        coarse_codes(house, house_groups),
        coarse_codes(members, groups),
        sizes,
        len(rules),
    )
    for _ in range(8):
        fine = zeros.broken(
            same_groups(rng, house, house_groups), same_groups(rng, members, groups), sizes
        )
        assert (fine | ~coarse).all(), rules


YEARS_RULES = ['count(REL == "h") != 1', "child.AGE > head.AGE - 2"]


@pytest.mark.parametrize("band", [1, 2, 3])
def test_rules_of_bands_forbid_all_that_they_can(band):
    """Every household of bands whose households are all impossible, and no other."""
    zeros = family(YEARS_RULES)
    groups = np.arange(AGE.n_levels) // band
    whole = np.arange(REL.n_levels)
    program = coarser(zeros.program, [np.arange(4)], [groups, whole])
    assert n_rules_that_forbid(program) == 2
    levels = list(product(range(AGE.n_levels), range(REL.n_levels)))
    homes = np.array([[one, two] for one in levels for two in levels])
    house, sizes = np.zeros((len(homes), 1), np.int64), np.full(len(homes), 2)
    fine = zeros.broken(house, homes, sizes)
    coarse = homes.copy()
    coarse[:, :, 0] = groups[homes[:, :, 0]]
    found = broken(program, house, coarse, sizes, 2)
    _, cell = np.unique(coarse.reshape(len(homes), -1), axis=0, return_inverse=True)
    allowed = np.zeros((cell.max() + 1, 2))
    np.add.at(allowed, cell.ravel(), ~fine)
    np.testing.assert_array_equal(found, (allowed == 0)[cell.ravel()])
    assert found.any(axis=0).all()


def test_a_rule_of_a_key_that_is_left_out_forbids_nothing():
    zeros = family(YEARS_RULES)
    whole = [np.arange(4)]
    assert coarser(zeros.program, whole, [np.arange(AGE.n_levels), None]) is None
    program = coarser(zeros.program, whole, [None, np.arange(REL.n_levels)])
    assert n_rules_that_forbid(program) == 1
    house, members = np.zeros((2, 1), np.int64), np.array([[[0], [0]], [[0], [2]]])
    found = broken(program, house, members, np.array([2, 2]), 2)
    assert found.tolist() == [[True, False], [False, False]]
    # Heads and children in one group: nobody is for sure the head, and two spouses are none.
    joined = np.array([0, 1, 0, 2])
    program = coarser(zeros.program, whole, [np.arange(AGE.n_levels), joined])
    assert n_rules_that_forbid(program) == 1
    members = np.array([[[3, 1], [3, 1]], [[3, 0], [3, 0]]])
    found = broken(program, house, members, np.array([2, 2]), 2)
    assert found.tolist() == [[True, False], [False, False]]


@pytest.mark.parametrize("rule", ["AGE > YEARS - 9", "YEARS < AGE + 9", "YEARS != AGE + 9"])
@pytest.mark.parametrize("left_out", ["AGE", "YEARS"])
def test_a_comparison_with_a_key_that_is_left_out_never_holds(rule, left_out):
    """Else another key would be compared in its place, and every household be impossible."""
    zeros = read([rule], apart=False)
    house = [np.arange(key.n_levels) for key in household_keys(False)]
    groups = [None if key.name == left_out else np.arange(key.n_levels) for key in PERSONS]
    assert n_rules_that_forbid(zeros.program) == 1
    assert coarser(zeros.program, house, groups) is None


def test_two_keys_of_which_one_is_grouped_are_not_compared():
    """Two languages with the same levels: a group of one is no level of the other."""
    spoken, learned = (Key(name=n, levels=tuple("abc"), labels=tuple("abc")) for n in "SL")
    same, other = (
        HouseholdZeros.of([f"S {sign} L"], {}, (household_keys(False)[0],), (spoken, learned))
        for sign in ("==", "!=")
    )
    rooms, whole, joined = [np.arange(4)], np.arange(3), np.array([0, 0, 1])
    for zeros, groups, n in (
        (same, [whole, whole], 1),
        (same, [joined, whole], 0),
        (same, [whole, joined], 0),
        (same, [joined, joined], 0),
        (other, [joined, whole], 0),
        (other, [joined, joined], 1),
    ):
        assert n_rules_that_forbid(coarser(zeros.program, rooms, groups)) == n


def test_a_head_whom_no_group_tells_is_in_no_rule():
    """What the head always meets counts only where the head is apart."""
    zeros = family(["head.AGE > 2"])
    joined = np.array([0, 1, 0, 2])
    assert coarser(zeros.program, [np.arange(4)], [np.arange(AGE.n_levels), joined]) is None
    apart = read(["head.YEARS > 2"], apart=True, roles=ROLES | {"head": "YEARS == 3"})
    house = [np.arange(key.n_levels) for key in household_keys(True)]
    groups = [np.arange(key.n_levels) for key in PERSONS]
    assert n_rules_that_forbid(coarser(apart.program, house, groups)) == 1


@pytest.mark.parametrize("level", ["h", "s", "c"])
@pytest.mark.parametrize("rule", ["other.REL == head.REL", "other.REL != head.REL"])
@pytest.mark.parametrize("joined", [None, [0, 0, 1, 2], [0, 1, 1, 2], [1, 0, 0, 0]])
def test_a_head_apart_has_the_group_of_the_level_that_every_head_has(level, rule, joined):
    """The head's level is no column of the file then; all households of one other member."""
    roles = {"head": f'REL == "{level}"', "other": "AGE == 1"}
    zeros = read([rule], apart=True, roles=roles)
    whole = [np.arange(key.n_levels) for key in (*household_keys(True), *PERSONS)]
    n_house = len(household_keys(True))
    place = [key.name for key in PERSONS].index("REL")
    groups = whole[n_house:]
    if joined is not None:
        groups[place] = np.array(joined)
    program = coarser(zeros.program, whole[:n_house], groups)
    members = np.zeros((REL.n_levels, 1, len(PERSONS)), np.int64)
    members[:, 0, 0] = 1
    members[:, 0, place] = np.arange(REL.n_levels)
    house, sizes = np.zeros((REL.n_levels, n_house), np.int64), np.ones(REL.n_levels, np.int64)
    fine = zeros.broken(house, members, sizes)[:, 0]
    assert fine.any()
    # Of every group what holds whatever its levels, and the head's, are.
    group_of, heads = groups[place], "hsco".index(level)
    expected = np.array(
        [
            all(
                (x == y) == (rule == "other.REL == head.REL")
                for x in np.flatnonzero(group_of == group_of[one])
                for y in np.flatnonzero(group_of == group_of[heads])
            )
            for one in range(REL.n_levels)
        ]
    )
    coarse = members.copy()
    coarse[:, 0, place] = group_of[members[:, 0, place]]
    if program is None:
        assert joined is not None
        return
    found = broken(program, house, coarse, sizes, 1)[:, 0]
    if joined is None:
        np.testing.assert_array_equal(found, fine)
    assert (found <= expected).all()


def test_a_group_that_met_what_any_level_meets_would_be_caught(monkeypatch):
    """A planted bug: households that are possible would be forbidden."""
    true = household_groups._rows

    def wrong(program, start, groups):
        masks, ends = true(program, start, groups)
        code = program.code
        words = code[code[household_groups.MASKS] + start + 1 + np.arange(len(groups))]
        for g in range(int(groups.max()) + 1):
            masks[1 + g] = np.bitwise_or.reduce(words[groups == g])
        return masks, ends

    monkeypatch.setattr(household_groups, "_rows", wrong)
    with pytest.raises(AssertionError):
        test_a_rule_of_a_key_that_is_left_out_forbids_nothing()
