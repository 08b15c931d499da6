"""Household rules against their slow twin; roles, stages, and rules that cannot be."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unikat.data import Key
from unikat.errors import SpecError
from unikat.kernels.household_rules import CONSTANTS, first_rules, household_scratch
from unikat.zeros.household_rules import HouseholdZeros
from zeros.household_twin import Twin


def key_of(name, *levels):
    return Key(name=name, levels=levels, labels=tuple(map(str, levels)))


AGE = key_of("AGE", *range(7))
YEARS = key_of("YEARS", *range(4))
GROUP = key_of("GROUP", "0-1", "2-3", "4+")
REL = key_of("REL", "h", "s", "c", "o")
SEX = Key(name="SEX", levels=("f", "m", None), labels=("f", "m", "missing"))
ROOMS, REGION = key_of("ROOMS", *range(4)), key_of("REGION", "a", "b")
PERSONS = (AGE, YEARS, GROUP, REL, SEX)
HOUSE = (ROOMS, REGION)
HEAD_AGE, HEAD_SEX = (
    Key(name=f"head.{key.name}", levels=key.levels, labels=key.labels) for key in (AGE, SEX)
)
NUMBERS = {key.name: [(n, n) for n in range(key.n_levels)] for key in (AGE, YEARS, ROOMS)} | {
    "GROUP": [(0, 1), (2, 3), (4, inf)]
}
ROLES = {
    "head": 'REL == "h"',
    "spouse": 'REL == "s"',
    "child": 'REL in ("c", "o") and AGE < 5',
    "worker": "YEARS > 1 or YEARS > AGE",
}


def household_keys(apart):
    return (*HOUSE, HEAD_AGE, HEAD_SEX) if apart else HOUSE


def read(rules, apart=False, roles=ROLES):
    return HouseholdZeros.of(rules, roles, household_keys(apart), PERSONS, head_apart=apart)


def twin(apart):
    keys = {key.name: key for key in (*PERSONS, *household_keys(apart))}
    numbers = NUMBERS | {"head.AGE": NUMBERS["AGE"]}
    return Twin(keys, numbers, ROLES, apart, frozenset(key.name for key in PERSONS))


one_of = st.sampled_from
numeric = one_of(
    ["AGE", "YEARS", "GROUP", "head.AGE", "spouse.AGE", "child.AGE", "worker.YEARS", "child.GROUP"]
)
text_keys = one_of(["REL", "SEX", "spouse.SEX", "head.SEX", "child.REL", "REGION"])
operators = one_of(["==", "!=", "<", "<=", ">", ">="])
small = st.integers(-1, 7).map(str)
LEVELS = {"REL": ["h", "s", "c", "o"], "SEX": ["f", "m"], "REGION": ["a", "b"]}


@st.composite
def level_tests(draw, keys=text_keys):
    key = draw(keys)
    levels = LEVELS[key.rpartition(".")[2]]
    kind = draw(one_of(["==", "!=", "in", "not in"]))
    if kind in ("==", "!="):
        return f"{key} {kind} '{draw(one_of(levels))}'"
    chosen = draw(st.lists(one_of(levels), min_size=1, max_size=2))
    return f"{key} {kind} ({', '.join(map(repr, chosen))})"


@st.composite
def one_person(draw):
    parts = draw(
        st.lists(
            st.one_of(
                level_tests(one_of(["REL", "SEX"])),
                st.tuples(one_of(["AGE", "YEARS"]), operators, st.integers(0, 3)).map(
                    lambda part: f"{part[0]} {part[1]} {part[2]}"
                ),
                one_of(["SEX is missing", "SEX is not missing", "YEARS > AGE - 1", "AGE == YEARS"]),
            ),
            min_size=1,
            max_size=2,
        )
    )
    text = draw(one_of([" and ", " or "])).join(parts)
    return f"not ({text})" if draw(st.booleans()) else text


operands = st.one_of(
    numeric,
    small,
    one_of(["size", "ROOMS", "min(AGE)", "max(AGE)", "max(GROUP)", "min(YEARS)"]),
    one_person().map(lambda text: f"count({text})"),
)


@st.composite
def comparisons(draw):
    kind = draw(st.integers(0, 4))
    if kind == 0:
        return draw(level_tests())
    if kind == 1:
        return draw(
            one_of(
                [
                    "spouse.SEX == head.SEX",
                    "SEX != child.SEX",
                    "child.REL == REL",
                    "size in (1, 3)",
                    "SEX is missing",
                    "child.SEX is not missing",
                ]
            )
        )
    sides = [
        draw(one_of([" - ", " + "])).join(draw(st.lists(operands, min_size=1, max_size=2)))
        for _ in range(2)
    ]
    return draw(operators).join(f" {side} " for side in sides)


expressions = st.recursive(
    comparisons(),
    lambda inner: st.one_of(
        inner.map(lambda text: f"not ({text})"),
        st.tuples(one_of(["and", "or"]), inner, inner).map(
            lambda parts: f"({parts[1]}) {parts[0]} ({parts[2]})"
        ),
    ),
    max_leaves=4,
)


def households(rng, keys, n_slots, least, n=12):
    """Random households, of which a third lack values."""
    house = np.array([[rng.integers(key.n_levels) for key in keys] for _ in range(n)])
    members = np.array(
        [
            [[rng.integers(key.n_levels) for key in PERSONS] for _ in range(n_slots)]
            for _ in range(n)
        ]
    ).reshape(n, n_slots, len(PERSONS))
    house = house.reshape(n, len(keys))
    lacks = rng.random(n) < 0.33
    house[(rng.random(house.shape) < 0.3) & lacks[:, None]] = -1
    members[(rng.random(members.shape) < 0.3) & lacks[:, None, None]] = -1
    return house, members, rng.integers(least, n_slots + 1, n)


REFUSED = (
    "cuts through",
    "only a part of",
    "has no level",
    "with itself",
    "two values",
    "no order of numbers",
    "is not known",
)


def refusal(text, apart):
    """Message with which a rule is refused, or nothing."""
    try:
        read([text], apart)
    except SpecError as error:
        return str(error)
    return ""


def lacks_any(household):
    return any(
        value is None for one in (household.house, *household.persons) for value in one.values()
    )


@given(
    texts=st.lists(expressions, min_size=1, max_size=3),
    apart=st.booleans(),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=150, deadline=None)
def test_compiled_rules_are_the_expression_itself(texts, apart, seed):
    keys, slow = household_keys(apart), twin(apart)
    house, members, sizes = households(np.random.default_rng(seed), keys, 4, 1 - apart)
    seen = [
        slow.household([key.name for key in keys], h, m[:n].tolist())
        for h, m, n in zip(house.tolist(), members, sizes, strict=True)
    ]
    rules = []
    for text in texts:
        said = refusal(text, apart)
        if not said:
            rules.append(text)
        elif "forbids nothing" in said:
            assert not any(slow.is_broken(text, one) for one in seen), text
        elif "forbids everything" in said:
            # Of missing values nothing is said.
            whole = [one for one in seen if not lacks_any(one)]
            assert all(slow.is_broken(text, one) for one in whole), text
        else:
            assert any(part in said for part in REFUSED), (text, said)
    if not rules:
        return
    zeros = read(rules, apart)
    expected = np.array([[slow.is_broken(text, one) for text in rules] for one in seen])
    np.testing.assert_array_equal(zeros.broken(house, members, sizes), expected, err_msg=str(rules))
    found = np.empty(len(sizes), np.int64)
    first_rules(zeros.program, house, members, sizes, household_scratch(zeros.program, 4), found)
    np.testing.assert_array_equal(found >= 0, expected.any(axis=1))
    for rule, broken in zip(found, expected, strict=True):
        assert rule < 0 or broken[rule]


KEYS = (AGE, REL)
FAMILY = {"head": 'REL == "h"', "spouse": 'REL == "s"', "child": 'REL == "c"'}


def family(rules, **more):
    return HouseholdZeros.of(rules, FAMILY, (ROOMS,), KEYS, **more)


@pytest.mark.parametrize(
    ("rule", "message", "place"),
    [
        ("spouse.AGE <", "a key, a number, count(...), min(...) or max(...) is expected here", 12),
        ('count(REL == "h" and AGE < 1', "this parenthesis is never closed", 5),
        ("min(3) > 1", "the name of a key is expected here, as in min(AGE)", 4),
        ("max(AGE) - min(AGE)", "a comparison (== != < <= > >= in is) is expected here", 19),
        ("AGE + 'a' > 3", "only numbers are added and subtracted", 6),
        ("AGE + 1 in (2, 3)", "a key stands before 'in', and nothing else", 0),
        ("spose.AGE < 16", "no role is called 'spose'. Did you mean 'spouse'?", 0),
        ("lodger.AGE < 16", "The roles are head, spouse, child. Declare it under [roles]", 0),
        ("spouse.AGES < 16", "no key of persons is called 'AGES'. Did you mean 'AGE'?", 0),
        ("AEG < 16", "no key is called 'AEG'. Did you mean 'AGE'?", 0),
        ("spouse.ROOMS < 2", "'ROOMS' is a key of the household; write it without a role", 0),
        ("count(ROOMS < 2) > 1", "'ROOMS' is a key of the household; a condition on one", 6),
        ("count(spouse.AGE < 2) > 1", "names keys without a role; write AGE", 6),
        ("count(count(AGE < 2) > 1) > 1", "holds no size, count, min or max", 6),
        ("min(RELL) > 1", "no key is called 'RELL'", 4),
        ("max(REL) > 1", "'REL' has no order of numbers: the level 'h' is neither", 4),
        ("spouse.REL > head.AGE", "'REL' has no order of numbers", 0),
        ("spouse.AGE == spouse.AGE", "'spouse.AGE' is compared with itself", 11),
        ('REL == "x"', "'REL' has no level 'x'", 7),
        ("REL == h", "If a level of 'REL' is meant, put it in quotes", 7),
        ("size == 'two'", "a number is expected here, not a text", 8),
        ("size is missing", "the size is never missing", 0),
        ("AGE & 3", "'&' is not understood; write and", 4),
        ("3 < 4", "two values are compared", 0),
        ("AGE > 2)", "this parenthesis was never opened", 7),
    ],
)
def test_an_error_points_at_its_place(rule, message, place):
    with pytest.raises(SpecError) as caught:
        family([rule])
    said = str(caught.value)
    assert message in said
    assert said.splitlines()[-1] == " " * (2 + place) + "^", said


@pytest.mark.parametrize(
    "rule",
    [
        'child.REL == "h"',
        "size < 1",
        "max(AGE) > 6",
        "child.AGE - head.AGE > 6",
        "count(AGE < 2) < 0",
        "AGE < 2 and AGE > 3",
    ],
)
def test_a_rule_that_forbids_nothing_is_refused(rule):
    with pytest.raises(SpecError, match="forbids nothing"):
        family([rule])


@pytest.mark.parametrize("rule", ["size >= 1", "count(AGE < 2) >= 0", "AGE < 4 or AGE >= 2"])
def test_a_rule_that_forbids_everything_is_refused(rule):
    with pytest.raises(SpecError, match="forbids everything"):
        family([rule])


@pytest.mark.parametrize(
    ("roles", "message"),
    [
        ({"the head": 'REL == "h"'}, "has no name that a rule can use"),
        ({"and": 'REL == "h"'}, "has no name that a rule can use"),
        ({"head": 'REL == "h" and REL == "s"'}, "can be nobody's"),
        ({"head": "ROOMS == 1"}, "is a key of the household"),
        ({"head": "REL = 'h'"}, "write == for equal"),
    ],
)
def test_a_wrong_role_is_refused(roles, message):
    with pytest.raises(SpecError, match=message):
        HouseholdZeros.of(["AGE > 3"], roles, (ROOMS,), KEYS)


def broken(rules, members, house=(0,), **more):
    zeros = family(rules, **more)
    codes = np.array([[list(member) for member in members]]).reshape(1, -1, 2)
    return zeros.broken([list(house)], codes, [len(members)])[0].tolist()


H, S, C = 0, 1, 2


def test_two_roles_are_two_persons_and_or_is_two_rules():
    alone, couple = [(5, H)], [(5, H), (1, S)]
    assert broken(["AGE < head.AGE", "AGE == head.AGE"], alone) == [False, False]
    assert broken(["AGE < head.AGE"], couple) == [True]
    # Nobody is a child, but the other half of the rule holds.
    assert broken(["child.AGE > 3 or spouse.AGE < 2"], couple) == [True]
    assert broken(["child.AGE > 3 and spouse.AGE < 2"], couple) == [False]
    # Two children that differ need two names: the same role is the same person.
    assert broken(["child.AGE == 1 and child.AGE == 2 or size > 9"], [(1, C), (2, C)]) == [False]


def test_a_missing_value_decides_nothing():
    assert broken(["spouse.AGE < 2"], [(5, H), (-1, S)]) == [False]
    assert broken(["not spouse.AGE >= 2"], [(5, H), (-1, S)]) == [False]
    assert broken(['count(REL == "h") != 1'], [(5, H), (1, -1)]) == [False]
    # One more is too many already, whatever the third is.
    assert broken(['count(REL == "h") != 1'], [(5, H), (1, H), (1, -1)]) == [True]
    assert broken(["min(AGE) > 2", "min(AGE) < 2"], [(1, H), (-1, S)]) == [False, True]


def test_the_head_apart_counts_and_is_a_member_where_it_is_known():
    keys = (HEAD_AGE,)

    def apart(rule, head, *members):
        zeros = HouseholdZeros.of([rule], FAMILY, keys, KEYS, head_apart=True)
        codes = np.array(members, np.int64).reshape(1, len(members), 2)
        return zeros.broken([[head]], codes, [len(members)]).item()

    rule = 'count(REL == "h") != 1'
    assert not apart(rule, 3, (1, S))
    assert apart(rule, 3, (1, H))
    assert apart("size > 1", 3, (1, S))
    assert not apart("size > 1", 3)
    assert apart("head.AGE < 4", 3)
    assert apart("AGE < 4", 3, (5, S))
    assert apart("max(AGE) - min(AGE) > 2", 6, (3, S))
    assert apart("child.AGE > head.AGE - 2", 3, (2, C))
    # What is not known of the head stays open, unless its role says it.
    assert not apart('REL == "s" and AGE < 4', 3, (5, S))
    assert apart('spouse.AGE > AGE + 1 and REL == "h"', 3, (5, S))
    with pytest.raises(SpecError, match="the head's 'AGE' is not known"):
        HouseholdZeros.of(["head.AGE < 4"], FAMILY, (ROOMS,), KEYS, head_apart=True)


def test_a_table_of_conditions_is_about_each_member(tmp_path):
    path = tmp_path / "impossible.csv"
    path.write_text("AGE,REL,ROOMS\n0,h,\n,s,0\n")
    zeros = family([], tables=[path])
    assert zeros.rules[0].text == "2 conditions of impossible.csv"
    members = np.array([[[5, H], [0, S]], [[0, H], [5, C]], [[5, H], [0, C]]])
    assert zeros.broken([[0], [1], [0]], members, [2, 2, 2])[:, 0].tolist() == [True, True, False]


def test_many_levels_need_several_words():
    rules = [f"AGE == {a} and YEARS == {y}" for a in range(0, 7) for y in range(4) if (a + y) % 2]
    rules += [f'count(AGE in ({a}, {b}) and REL == "c") > 1' for a in range(7) for b in range(a)]
    rules += [
        f"count(AGE in ({a}, {b}, {c})) > 1" for a in range(7) for b in range(a) for c in range(b)
    ]
    zeros, slow = read(rules), twin(False)
    assert zeros.program.code[0] > 1
    house, members, sizes = households(np.random.default_rng(4), HOUSE, 3, 1, n=6)
    names = [key.name for key in HOUSE]
    for h, m, n in zip(house, members, sizes, strict=True):
        one = slow.household(names, h.tolist(), m[:n].tolist())
        assert zeros.broken([h], [m], [n])[0].tolist() == [
            slow.is_broken(rule, one) for rule in rules
        ]


def test_stages_draw_few_keys_first_and_others_never():
    zeros = read(
        [
            "spouse.AGE < 2",
            'count(REL == "h") != 1',
            "max(AGE) - min(AGE) > 5",
            "size > 9",
            "ROOMS == 3 and size > 4",
        ]
    )
    p = zeros.program
    stages = [
        (
            p.house_keys[p.house_first[s] : p.house_first[s + 1]].tolist(),
            p.person_keys[p.person_first[s] : p.person_first[s + 1]].tolist(),
            sorted(p.order[p.stage_first[s] : p.stage_first[s + 1]].tolist()),
        )
        for s in range(len(p.stage_first) - 1)
    ]
    # What the size decides, then the household's keys; the relation, then the ages.
    assert stages == [([], [], [3]), ([0], [], [4]), ([], [3], [1]), ([], [0], [0, 2])]
    ordered = zeros.ordered(np.array([7, 1, 0, 0, 0]))
    assert ordered.order.tolist()[-2:] == [0, 2]
    assert sorted(ordered.order.tolist()) == list(range(5))


def test_roles_that_nobody_has_are_told():
    zeros = family(["spouse.AGE < 2", "child.AGE > head.AGE"])
    members = np.array([[[5, H], [2, C]], [[5, H], [1, S]]])
    assert zeros.roles_of_nobody(members, [2, 1]) == ("spouse",)
    assert zeros.roles_of_nobody(members, [2, 2]) == ()


def test_a_planted_mistake_of_the_program_is_found():
    zeros = family(["spouse.AGE < 2", 'count(REL == "h") != 1', "max(AGE) - min(AGE) > 4"])
    members = np.stack([np.random.default_rng(2).integers(0, (7, 4), (3, 2)) for _ in range(400)])
    house, sizes = np.zeros((400, 1), np.int64), np.full(400, 3)
    right = zeros.broken(house, members, sizes)
    code, numbers = zeros.program.code, zeros.program.numbers
    kept = int(code[CONSTANTS])
    numbers[kept] += 1
    assert (zeros.broken(house, members, sizes) != right).any()
