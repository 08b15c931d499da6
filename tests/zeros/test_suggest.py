"""Suggested rules: what is planted is found, nothing else, and every text reads back."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from unikat.data import CellTable, Design, Key, read
from unikat.errors import SpecError
from unikat.zeros import Rule, Zeros, rule_text, suggest
from unikat.zeros.suggest import fitted, least_ratio

DESIGN = Design(population_size=10**8)


def holds(found, table):
    """Every suggestion is a rule that no record breaks, and each stands once."""
    assert len({one.rule for one in found}) == len(found)
    for one in found:
        rule = Rule.of(one.rule, table.keys)
        assert rule.keys == one.keys
        assert not rule.forbids(table.cells).any()
        assert 0 <= one.bound < 0.01
    ranks = [one.expected_if_rare for one in found]
    assert ranks == sorted(ranks, reverse=True)
    assert all(one.expected_if_rare <= one.expected for one in found)


def test_planted_rules_are_found(people):
    table = read(people, "AGE,SEX,MARST,EDUC", DESIGN).tabulate()
    found = suggest(table)
    holds(found, table)
    assert [one.rule for one in found] == [
        'AGE < 16 and MARST != "single"',
        "AGE < 12 and EDUC >= 1",
    ]
    assert found[0].n_cells == 32
    assert suggest(table, Zeros.of([one.rule for one in found], table.keys)) == ()


def test_three_keys():
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 2, (4_000, 4))
    codes = codes[~((codes[:, 0] == 1) & (codes[:, 1] == 0) & (codes[:, 3] == 1))]
    keys = [Key.of_size(name, 2) for name in "ABCD"]
    table = CellTable.from_codes(codes, keys, population_size=10**6)
    # Three of four margins fix the last cell of a 2 x 2 x 2 table, so more levels are needed.
    assert suggest(table, n_keys=2) == ()
    wide = [Key.of_size(name, 4) for name in "ABCD"]
    codes = rng.integers(0, 4, (20_000, 4))
    codes = codes[~((codes[:, 0] == 1) & (codes[:, 1] == 0) & (codes[:, 3] >= 3))]
    table = CellTable.from_codes(codes, wide, population_size=10**6)
    found = suggest(table)
    holds(found, table)
    assert [one.rule for one in found] == ["A == 1 and B == 0 and D == 3"]


@pytest.mark.parametrize("seed", range(5))
def test_chance_suggests_nothing(seed):
    rng = np.random.default_rng(seed)
    codes = np.minimum(rng.geometric(0.4, (3_000, 4)) - 1, 7)
    table = CellTable.from_codes(codes, [Key.of_size(n, 8) for n in "ABCD"], population_size=10**6)
    assert suggest(table) == ()


def test_persons_of_one_household_are_no_evidence_of_their_own():
    """Five persons with the same levels each: as much is known as of one person of each."""
    rng = np.random.default_rng(2)
    codes = rng.integers(0, (12, 2), (300, 2))
    codes[codes[:, 0] == 3, 1] = 0
    keys = [Key.of_size("A", 12), Key.of_size("B", 2)]
    persons = CellTable.from_codes(np.repeat(codes, 5, axis=0), keys, population_size=10**6)
    drawn = replace(persons, households=np.repeat(np.arange(300, dtype=np.int32), 5))
    options = {"level": 0.99, "n_keys": 2}
    (one,), (other,) = suggest(persons, **options), suggest(drawn, **options)
    assert one.rule == other.rule == "A == 3 and B == 1"
    assert other.expected == one.expected
    assert other.expected_if_rare == pytest.approx(one.expected_if_rare / 5.0)
    assert other.bound > 1e3 * one.bound


def test_missing_values_are_no_evidence(people):
    people.loc[people.AGE < 16, "MARST"] = None
    for missing in ("integrate", "level"):
        table = read(people, "AGE,MARST", DESIGN, missing=missing).tabulate()
        assert suggest(table) == ()


def test_expected_counts():
    rng = np.random.default_rng(3)
    two = rng.integers(0, 9, (3, 4)).astype(float)
    product = np.outer(two.sum(axis=1), two.sum(axis=0)) / two.sum()
    np.testing.assert_allclose(fitted(two, np.ones_like(two, dtype=bool)), product)
    three = rng.integers(1, 9, (3, 4, 2)).astype(float)
    found = fitted(three, np.ones_like(three, dtype=bool))
    for axis in range(3):
        np.testing.assert_allclose(found.sum(axis=axis), three.sum(axis=axis), rtol=1e-4)
    logs = np.log(found)
    odds = logs[1:, 1:] - logs[:1, 1:] - logs[1:, :1] + logs[:1, :1]
    np.testing.assert_allclose(odds[..., 0], odds[..., 1], atol=1e-3)


@pytest.mark.parametrize("seed", range(60))
def test_texts_read_back(seed, keys):
    rng = np.random.default_rng(seed)
    sets = {}
    for j in rng.choice(len(keys) - 2, 2, replace=False).tolist():
        n = keys[j].n_levels - (keys[j].missing_level is not None)
        if rng.random() < 0.5:
            start, end = sorted(rng.integers(0, n, 2).tolist())
            chosen = set(range(start, end + 1))
        else:
            chosen = set(np.flatnonzero(rng.random(n) < 0.5).tolist())
        sets[j] = chosen if 0 < len(chosen) < n else {0}
    text = rule_text(keys, sets)
    rule = Rule.of(text, keys)
    expected = np.concatenate(
        [
            np.isin(np.arange(key.n_levels), sorted(sets.get(j, range(key.n_levels))))
            for j, key in enumerate(keys)
        ]
    )
    np.testing.assert_array_equal(rule.conditions, expected[None])


@pytest.mark.parametrize(
    ("name", "label", "text"),
    [
        ("A B", "x", '`A B` == "x"'),
        ("in", "x", '`in` == "x"'),
        ("A", 'say "x"', "A == 'say \"x\"'"),
        ("A", "say \"x\" 'y'", 'A not in ("other", "third")'),
        ("A`", "x", None),
        ("Größe", "é", 'Größe == "é"'),
    ],
)
def test_names_and_quotes(name, label, text):
    key = Key(name=name, levels=(label, "other", "third"), labels=(label, "other", "third"))
    assert rule_text([key], {0: [0]}) == text


@pytest.mark.parametrize(
    ("options", "message"),
    [({"n_keys": 4}, "2 or 3"), ({"level": 0}, "between 0 and 1"), ({"most": 0}, "at least 1")],
)
def test_options_out_of_range(options, message, people):
    table = read(people, "SEX,EDUC", DESIGN).tabulate()
    with pytest.raises(SpecError, match=message):
        suggest(table, **options)
    with pytest.raises(SpecError, match="other keys"):
        suggest(table, Zeros.of(["A == 1"], [Key.of_size("A", 2)]))


def test_most(people):
    table = read(people, "AGE,SEX,MARST,EDUC", DESIGN).tabulate()
    assert len(suggest(table, most=1)) == 1


def finds(table, expected):
    """Find these rules, and perhaps others, all of them sound."""
    found = suggest(table)
    holds(found, table)
    assert {one.rule for one in found} >= expected


def test_new_york(new_york, shared_data):
    expected = {
        'OWNERSHP == "1" and MORTGAGE == "0"',
        "AGE < 17 and VETSTAT >= 1",
        'AGE >= 17 and VETSTAT == "0"',
        'AGE == "<15" and MARST < 6',
    }
    finds(new_york, expected)
    zeros = Zeros.of([], new_york.keys, tables=[shared_data / "nyexample_MCZ.parquet"])
    holds(suggest(new_york, zeros), new_york)


def test_many_records(shared_data):
    path = shared_data / "acs2024_persons_northeast.parquet"
    table = read(path, "AGEP,SCHL,MAR,ESR,MIL,SEX", DESIGN).tabulate()
    finds(table, {"AGEP < 17 and MIL >= 1", "AGEP < 16 and ESR >= 1", "AGEP < 15 and MAR < 5"})


def test_what_gets_rarer_along_an_order_is_not_suggested():
    """Widows: each age group has a third of the rate of the next older one, and none is seen below.

    By the margins many are expected at the young ages, and fewer than one is by the rate.
    """
    rng = np.random.default_rng(7)
    age = rng.integers(0, 12, 4_000)
    widowed = rng.random(4_000) < 0.5 * 3.0 ** (age - 11)
    keys = [Key.of_size("AGE", 12), Key.of_size("WIDOWED", 2)]
    codes = np.stack([age, widowed], axis=1).astype(int)
    table = CellTable.from_codes(codes, keys, population_size=10**6)
    assert (np.bincount(age[widowed], minlength=12)[:4] == 0).all()
    assert suggest(table) == ()
    # Where the rate ends at once, it is.
    stops = CellTable.from_codes(
        np.stack([age, (rng.random(4_000) < 0.4) & (age >= 5)], axis=1).astype(int),
        keys, population_size=10**6,
    )  # fmt: skip
    assert [one.rule for one in suggest(stops)] == ["AGE < 5 and WIDOWED == 1"]


def test_the_least_ratio_is_that_of_a_walk():
    """By hand: along rows without an order, along columns with one."""
    expected = np.full((5, 3), 100.0)
    seen = np.array([[0, 90, 0], [0, 90, 90], [4, 90, 90], [25, 90, 90], [81, 90, 90.0]])
    found = least_ratio(seen, expected, [range(5), None])
    high = [(n + np.sqrt(n) + 1) / 100 for n in (4, 25, 81, 90)]
    factor = high[0] / high[1]
    assert found[1, 0] == pytest.approx(high[0] * factor)
    assert found[0, 0] == pytest.approx(high[0] * factor**2)
    assert found[0, 2] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("adult_48842", "age:width(5),workclass,marital_status,relationship,sex,income"),
        ("uk2011_teaching_srs_10k", "age,marital_status,student,economic_activity,occupation"),
        ("co_geih2018_bogota", "AGE:width(5),SEX,REL,ACTIVITY,HEALTHREG"),
    ],
)
def test_few_suggestions_are_false_and_hardly_for_anybody(shared_data, name, keys):
    """Of samples of 2,000 of three populations: at most a third are broken, by 0.1% at most."""
    whole = read(shared_data / f"{name}.parquet", keys, DESIGN, missing="level").tabulate()
    rng = np.random.default_rng(1)
    rows = whole.cells[whole.record_cell[rng.choice(whole.n_records, 2_000, replace=False)]]
    found = suggest(CellTable.from_codes(rows, whole.keys, 10**8, "level"))
    broken = [
        int(whole.counts[Rule.of(one.rule, whole.keys).forbids(whole.cells)].sum()) for one in found
    ]
    assert found
    assert np.count_nonzero(broken) <= len(found) / 3
    assert max(broken) <= 0.001 * whole.n_records
