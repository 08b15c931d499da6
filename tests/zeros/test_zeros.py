"""Rules and tables together: which patterns are impossible."""

from __future__ import annotations

import numpy as np
import pytest

from unikat.data import Key
from unikat.errors import SpecError
from unikat.zeros import Rule, Zeros
from unikat.zeros.zeros import _rule
from zeros.enumeration import all_cells, meets, random_conditions

SIZES = (3, 2, 4, 2)
KEYS = tuple(Key.of_size(name, n) for name, n in zip("ABCD", SIZES, strict=True))
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])


def random_zeros(seed):
    rng = np.random.default_rng(seed)
    from unikat.zeros.conditions import layout_of

    rules = []
    for n in (1, 2, 1):
        conditions = random_conditions(rng, SIZES, n)
        conditions[:, 0] &= conditions[:, 1:3].all(axis=1)  # leaves something possible
        if conditions.reshape(n, -1)[:, :3].any(axis=1).all():
            rules.append(_rule(conditions, layout_of(OFFSETS), KEYS, f"rule {n}", None))
    return rules


@pytest.mark.parametrize("seed", range(40))
def test_patterns_are_forbidden_if_every_completion_is(seed):
    rules = random_zeros(seed)
    cells = all_cells(SIZES)
    by_rule = [meets(rule.conditions, OFFSETS, cells) for rule in rules]
    together = np.any(by_rule, axis=0) if rules else np.ones(len(cells), bool)
    if not rules or together.all() or any(found.all() for found in by_rule):
        return
    zeros = Zeros.of(rules, KEYS)
    patterns = np.array(
        [[code - 1 for code in pattern] for pattern in all_cells([n + 1 for n in SIZES])]
    )
    completions = [((p == -1) | (p == cells)).all(axis=1) for p in patterns]
    for rule, found in zip(rules, by_rule, strict=True):
        np.testing.assert_array_equal(
            rule.forbids(patterns), [found[completion].all() for completion in completions]
        )
        assert rule.n_impossible == found.sum()
    np.testing.assert_array_equal(
        zeros.forbids(patterns), [together[completion].all() for completion in completions]
    )
    assert zeros.n_impossible == together.sum()
    np.testing.assert_array_equal(meets(zeros.conditions, OFFSETS, cells), together)


def test_several_rules_together_forbid_an_incomplete_pattern():
    zeros = Zeros.of(["A == 0 and B == 0", "A == 0 and B == 1"], KEYS)
    pattern = np.array([[0, -1, 2, -1]])
    assert zeros.forbids(pattern).tolist() == [True]
    assert [rule.forbids(pattern).tolist() for rule in zeros.rules] == [[False], [False]]
    assert [rule.keys for rule in zeros.rules] == [("A", "B")] * 2
    assert [rule.name for rule in zeros.rules] == [None, None]


def test_rules_tables_and_names_mix(tmp_path):
    path = tmp_path / "more.csv"
    path.write_text("C,D\n3,\n3,1\n*,0\n")
    zeros = Zeros.of([("first", "A == 0"), Rule.of("B == 1 and C == 2", KEYS)], KEYS, tables=[path])
    assert [(rule.name, rule.text) for rule in zeros.rules] == [
        ("first", "A == 0"),
        (None, "B == 1 and C == 2"),
        (None, "2 conditions of more.csv"),
    ]
    assert zeros.rules[2].keys == ("C", "D")
    a, b, c, d = all_cells(SIZES).T
    expected = (a == 0) | ((b == 1) & (c == 2)) | (c == 3) | (d == 0)
    assert zeros.n_impossible == expected.sum()
    np.testing.assert_array_equal(zeros.forbids(all_cells(SIZES)), expected)


def test_no_patterns_at_all():
    zeros = Zeros.of(["A == 0"], KEYS)
    assert zeros.forbids(np.zeros((0, 4), dtype=np.int32)).shape == (0,)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ([], "There are no rules"),
        ("A == 0", "must be a list"),
        ([3], "Rule 1 must be a text"),
        ([("a", 3)], "Rule 1 must be a text"),
        (["A == 0", "A >= 1"], "no combination possible"),
        ([Rule.of("X == 1", [Key.of_size("X", 2)])], "other numbers of levels"),
    ],
)
def test_what_is_no_set_of_rules(rules, message):
    with pytest.raises(SpecError, match=message):
        Zeros.of(rules, KEYS)


@pytest.mark.parametrize("cells", [[[0, 0, 0]], [0, 0, 0, 0], [[3, 0, 0, 0]], [[-2, 0, 0, 0]]])
def test_wrong_patterns(cells):
    with pytest.raises(SpecError, match="Patterns"):
        Zeros.of(["A == 0"], KEYS).forbids(cells)


def test_new_york(new_york, shared_data):
    zeros = Zeros.of([], new_york.keys, tables=[shared_data / "nyexample_MCZ.parquet"])
    assert zeros.n_impossible == 2_317_030
    assert len(zeros.diagram.child) <= 18
    assert not zeros.forbids(new_york.cells).any()
    by_hand = Zeros.of(
        [
            "OWNERSHP == 1 and MORTGAGE == 0",
            "OWNERSHP != 1 and MORTGAGE != 0",
            "AGE < 15 and MARST != 6",
            "AGE <= 15 and EMPSTAT != 0 or AGE > 15 and EMPSTAT == 0",
            "AGE <= 15 and EDUC >= 7 or AGE < 18 and EDUC >= 10",
            "AGE <= 15 and DISABWRK != 0 or AGE >= 16 and DISABWRK == 0",
            "AGE < 17 and VETSTAT != 0 or AGE >= 17 and VETSTAT == 0",
        ],
        new_york.keys,
    )
    assert by_hand.n_impossible == zeros.n_impossible
    np.testing.assert_array_equal(by_hand.diagram.child, zeros.diagram.child)
