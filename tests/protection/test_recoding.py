"""What rules do to levels, and what is said of rules that cannot be used."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.data.keys import Key
from unikat.data.structure import order_of, structure_of
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.protection.hierarchies import own_recodings
from unikat.protection.recoding import parse_recoding, recode_key

AGES = Key(name="age", levels=tuple(range(18, 31)), labels=tuple(map(str, range(18, 31))))
BANDS = Key(
    name="band",
    levels=(3, 4, 5, 6),
    labels=("15-19", "20-24", "25-29", "30-34"),
    binning="width(5)",
)
PLACES = Key(
    name="place", levels=("a", "b", "c", "d", None), labels=("A", "B", "B", "D", "missing")
)


def table() -> CellTable:
    codes = [[0, 0, 0], [2, 1, 1], [5, 2, 2], [12, 3, 3], [6, 3, 4], [6, 3, 0], [6, 3, 0]]
    return CellTable.from_codes(codes, (AGES, BANDS, PLACES), 100, "level")


def groups(name: str, rule: object) -> tuple[list[int], list[str]]:
    found = parse_recoding(table(), {name: rule})  # type: ignore[dict-item]
    (one,) = (one for one in found.keys if one.name == name)
    assert one.key is not None
    return one.groups.tolist(), list(one.key.labels)


@pytest.mark.parametrize(
    ("name", "rule", "expected", "labels"),
    [
        (
            "age",
            "width(5)",
            [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3],
            ["15-19", "20-24", "25-29", "30-34"],
        ),
        ("age", "cut(20, 25)", [0, 0, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2], ["< 20", "20-24", ">= 25"]),
        ("age", "top(28)", [*range(10), 10, 10, 10], [*map(str, range(18, 28)), ">= 28"]),
        ("age", "bottom(20)", [0, 0, 0, *range(1, 11)], ["<= 20", *map(str, range(21, 31))]),
        ("band", "width(10)", [0, 1, 1, 2], ["10-19", "20-29", "30-39"]),
        ("band", "top(25)", [0, 1, 2, 2], ["15-19", "20-24", ">= 25"]),
        # Two levels of one label stay apart; what is missing stays missing.
        ("place", {"a": "north", "D": "north"}, [0, 1, 2, 0, 3], ["north", "B", "B", "missing"]),
        ("place", [["b", "c", "d"]], [0, 1, 1, 1, 2], ["A", "B, D", "missing"]),
        ("place", "rare(0.2)", [0, 1, 1, 1, 2], ["A", "other (B, D)", "missing"]),
    ],
)
def test_rules(name: str, rule: object, expected: list[int], labels: list[str]) -> None:
    assert groups(name, rule) == (expected, labels)


def test_quantiles_have_about_as_many_records() -> None:
    rng = np.random.default_rng(1)
    codes = np.column_stack([rng.integers(0, 13, 500), rng.integers(0, 4, 500)])
    many = CellTable.from_codes(codes, (AGES, BANDS), 5_000)
    recoded = parse_recoding(many, {"age": "quantile(4)"}).table(many)
    counts = np.bincount(recoded.cells[recoded.record_cell, 0])
    assert len(counts) == 4
    assert counts.min() > 70


def test_the_table_holds_the_same_records() -> None:
    before = table()
    recoding = parse_recoding(before, {"age": "width(5)", "band": None})
    after = recoding.table(before)
    assert [key.name for key in after.keys] == ["age", "place"]
    expected = recoding.codes(before.cells)[before.record_cell]
    np.testing.assert_array_equal(after.cells[after.record_cell], expected)
    assert after.counts.sum() == before.n_records


def test_coarser_is_an_order() -> None:
    found = [
        parse_recoding(table(), {"age": rule}).keys[0]
        for rule in ("width(2)", "width(4)", "width(5)", None)
    ]
    coarser = [[one.is_coarser(other) for other in found] for one in found]
    assert coarser == [
        [True, False, False, False],
        [True, True, False, False],
        [False, False, True, False],
        [True, True, True, True],
    ]


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"ag": None}, "'ag' is none of the keys: age, band, place. Did you mean 'age'?"),
        ({"age": "wide(5)"}, "the recoding 'wide(5)' is not known; write width(10)"),
        ({"age": "width(a)"}, "malformed"),
        ({"age": "width(0)"}, "needs a width above 0"),
        ({"band": "width(7)"}, "lies in two groups of width(7)"),
        ({"band": "cut(22)"}, "the level '20-24' lies in two groups"),
        ({"place": "width(2)"}, "levels that are no numbers"),
        ({"place": {"x": "y"}}, "'x' is no level of the key"),
        ({"place": [["a"], ["a"]]}, "'a' is named twice"),
        ({"age": "rare(2)"}, "needs a share between 0 and 1"),
        ({"age": "quantile(1)"}, "at least 2"),
        ({"age": None, "band": None, "place": None}, "nothing is left to publish"),
    ],
)
def test_wrong_rules_are_refused(rules: dict[str, object], said: str) -> None:
    with pytest.raises(SpecError) as refused:
        parse_recoding(table(), rules)  # type: ignore[arg-type]
    assert said in str(refused.value)


def one_key(levels: list[object], rule: object) -> list[str]:
    """Label of the group of each level."""
    key = Key(name="x", levels=tuple(levels), labels=tuple(map(str, levels)))
    codes = [[code, code % 2] for code in range(len(levels)) for _ in range(code + 1)]
    both = CellTable.from_codes(codes, (key, Key.of_size("y", 2)), 1000)
    (one, _) = parse_recoding(both, {"x": rule}).keys  # type: ignore[dict-item]
    assert one.key is not None
    return [one.key.labels[group] for group in one.groups]


def test_decimals_begin_the_group_that_is_named_after_them() -> None:
    tenths = [number / 10 for number in range(12)]
    assert one_key(list(tenths), "width(0.1)") == [
        f"[{tenth:g}, {tenth + 0.1:.15g})" for tenth in tenths
    ]


def test_the_group_of_rare_levels_has_a_name_of_its_own() -> None:
    assert one_key(["a", "b", "c", "d"], "rare(0.25)") == ["other (a, b)"] * 2 + ["c", "d"]
    assert one_key(["a", "b", "c", "other (a, b)"], "rare(0.25)") == [
        *["other (a, b) (2)"] * 2,
        "c",
        "other (a, b)",
    ]
    # A group of one level would hide nothing.
    assert one_key(["a", "b", "c"], "rare(0.2)") == ["a", "b", "c"]


def test_bands_join_adjacent_levels_until_each_has_enough_records() -> None:
    grades = Key(
        name="grade",
        levels=("bad", "poor", "fair", "good", "best"),
        labels=("bad", "poor", "fair", "good", "best"),
        ordered=True,
    )
    counts = np.array([1, 2, 10, 20, 3])
    found = recode_key(grades, counts, "bands(0.1)")
    assert found.key is not None
    assert found.key.labels == ("bad, poor, fair", "good, best")
    assert found.groups.tolist() == [0, 0, 0, 1, 1]
    assert found.key.ordered
    # Of the recodings that the program makes none joins levels that are not adjacent.
    for one in own_recodings(grades, counts):
        assert (np.diff(one.groups) >= 0).all()
    unordered = replace(grades, ordered=None)
    with pytest.raises(SpecError, match="the levels have no order"):
        recode_key(unordered, counts, "bands(0.1)")
    joined = recode_key(unordered, counts, "rare(0.2)").key
    assert joined is not None
    assert "other (bad, poor, best)" in joined.labels


def test_bands_of_numbers_are_called_by_their_ends() -> None:
    sizes = Key(name="size", levels=tuple(range(1, 8)), labels=tuple("1234567"))
    found = recode_key(sizes, np.array([5, 40, 30, 20, 2, 2, 1]), "bands(0.05)")
    assert found.key is not None
    assert found.key.labels == ("1", "2", "3", "4", ">= 5")


@pytest.mark.parametrize(
    ("levels", "labels", "declared", "expected"),
    [
        ((1, 2, 3), ("1", "2", "3"), None, True),
        ((1, 2, 3), ("1", "2", "3 and more"), None, True),
        ((1, 2, 3), ("none", "Hindu", "Sikh"), None, False),
        ((1, 2, 3), ("0-4", "5-9", "10+"), None, True),
        ((1, 2, 3), ("bad", "fair", "good"), True, True),
        ((1, 2, 3), ("1", "2", "3"), False, False),
        (("01", "02"), ("01", "02"), None, False),
        (("low", "high"), ("low", "high"), None, False),
        # Many codes are codes.
        (tuple(range(20)), tuple(f"Country {n}" for n in "abcdefghijklmnopqrst"), None, False),
    ],
)
def test_what_is_ordered(
    levels: tuple[object, ...], labels: tuple[str, ...], declared: bool | None, expected: bool
) -> None:
    key = Key(name="x", levels=levels, labels=labels, ordered=declared)
    assert structure_of(key).is_ordered is expected
    assert (order_of(key) is not None) is expected


@pytest.mark.parametrize(
    ("levels", "rule", "said"),
    [
        (["a", "b", "c"], {"a": "b"}, "a group has the name of a level that is not in it"),
        ([1, 2, 3], {"1": "2"}, "a group has the name of a level that is not in it"),
        (["a", "b", "c"], {"a": "", "b": ""}, "a group has no name"),
        ([1, 2, 3], 10, r"a recoding is int; write width\(10"),
        ([1, 2, 3], "width(1e-300)", "more than 100,000 groups"),
        ([1, 2, 3], "width(1e-320)", "more than 100,000 groups"),
    ],
)
def test_groups_that_cannot_be_told_apart_or_made_are_refused(
    levels: list[object], rule: object, said: str
) -> None:
    with pytest.raises(SpecError, match=said):
        one_key(levels, rule)


def test_labels_of_groups_do_not_depend_on_which_levels_a_file_has() -> None:
    """Those of a plan stay, also where another file has fractions or none."""
    below = Key(name="x", levels=(-7, -3, 4, 12), labels=("-7", "-3", "4", "12"))
    fractions = Key(name="x", levels=(-7, -2.5, 4, 12), labels=("-7", "-2.5", "4", "12"))
    counts = np.ones(4, np.int64)
    whole = ("-10 to -6", "-5 to -1", "0-4", "10-14")
    precise = ("[-10, -5)", "[-5, 0)", "[0, 5)", "[10, 15)")
    for key, own, labels in ((below, True, whole), (fractions, False, precise)):
        first = recode_key(key, counts, "width(5)")
        assert (first.whole, first.key and first.key.labels) == (own, labels)
        for other in (below, fractions):
            again = recode_key(other, counts, "width(5)", whole=first.whole)
            assert again.key is not None
            assert again.key.labels == labels


def test_a_recoding_that_is_no_mapping_and_too_many_quantiles() -> None:
    for wrong in (None, "width(10)", ["width(10)"]):
        with pytest.raises(SpecError, match="A recoding is a mapping of keys to rules"):
            parse_recoding(table(), wrong)  # type: ignore[arg-type]
    with pytest.raises(SpecError, match="asks for more than 1,000 groups"):
        parse_recoding(table(), {"age": "quantile(1e12)"})


@pytest.mark.parametrize(
    ("levels", "labels", "ordered"),
    [
        (tuple(range(1, 8)), None, True),
        (("0-4", "5-9", "10-14", "15-19"), None, True),
        # Codes of places, and those that a codebook names.
        (("01", "02", "03", "11", "12"), None, False),
        (tuple(range(1, 8)), tuple("abcdefg"), False),
    ],
)
def test_numbers_of_few_levels_are_grouped_as_numbers_unless_they_are_codes(
    levels: tuple[object, ...], labels: tuple[str, ...] | None, ordered: bool
) -> None:
    key = Key(name="x", levels=levels, labels=labels or tuple(map(str, levels)))
    counts = np.arange(1, len(levels) + 1, dtype=np.int64) * 10
    found = own_recodings(key, counts)
    rules = {one.text.partition("(")[0] for one in found}
    assert rules <= {"as it is", "left out", *(["top", "bands", "cut"] if ordered else ["rare"])}
    if ordered:
        assert len(found) > 2
        assert all((np.diff(one.groups) >= 0).all() for one in found)


def test_messages_name_no_level_that_only_records_tell() -> None:
    """A name that was nearly one brought it as a suggestion."""
    frame = pd.DataFrame({"town": ["Aberdare", "Bala", "Conwy", "Conwy"] * 5, "b": [1, 2] * 10})
    for rules in ({"Aberdar": "x"}, [["Aberdar", "Conwy"]]):
        with pytest.raises(SpecError, match="is no level of the key") as found:
            unikat.protect(frame, keys="town,b", population_size=90, recode={"town": rules})
        assert "Aberdare" not in str(found.value)
    frame["town"] = ["1-5", "6-9", "10-19", "20-29"] * 5
    with pytest.raises(SpecError, match="lies in two groups") as found:
        unikat.protect(frame, keys="town,b", population_size=90, recode={"town": "width(4)"})
    assert "1-5" not in str(found.value)
