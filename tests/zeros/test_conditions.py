"""Expressions and tables into conditions, against enumeration of all cells."""

from __future__ import annotations

import operator

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from unikat.data import Key
from unikat.errors import DataError, SpecError
from unikat.zeros import Rule, Zeros, conditions_from_table
from unikat.zeros.conditions import layout_of, merged, simplified
from zeros.enumeration import all_cells, meets, random_conditions

SIZES = (4, 3, 2, 3)
KEYS = tuple(Key.of_size(name, n) for name, n in zip("ABCD", SIZES, strict=True))
OFFSETS = np.concatenate([[0], np.cumsum(SIZES)])
SIGNS = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def random_rule(rng, depth):
    """A random rule: its text, and a function of cells (n, 4) that says where it holds."""
    kind = rng.integers(6) if depth else rng.integers(3)
    a, b = rng.choice(4, 2, replace=False)
    sign = str(rng.choice(list(SIGNS)))
    if kind == 0:
        level = int(rng.integers(SIZES[a]))
        return f"{'ABCD'[a]} {sign} {level}", lambda cells: SIGNS[sign](cells[:, a], level)
    if kind == 1:
        levels = rng.choice(SIZES[a], rng.integers(1, SIZES[a] + 1), replace=False).tolist()
        word = "in" if rng.random() < 0.5 else "not in"
        text = f"{'ABCD'[a]} {word} ({', '.join(map(str, levels))})"
        return text, lambda cells: np.isin(cells[:, a], levels) == (word == "in")
    if kind == 2:
        return (
            f"{'ABCD'[a]} {sign} {'ABCD'[b]}",
            lambda cells: SIGNS[sign](cells[:, a], cells[:, b]),
        )
    one, holds_one = random_rule(rng, depth - 1)
    if kind == 3:
        return f"not ({one})", lambda cells: ~holds_one(cells)
    two, holds_two = random_rule(rng, depth - 1)
    if kind == 4:
        return f"({one}) and ({two})", lambda cells: holds_one(cells) & holds_two(cells)
    return f"({one}) or ({two})", lambda cells: holds_one(cells) | holds_two(cells)


@pytest.mark.parametrize("seed", range(60))
def test_rules_mean_what_they_say(seed):
    text, holds = random_rule(np.random.default_rng(seed), 3)
    cells = all_cells(SIZES)
    expected = holds(cells)
    if not expected.any() or expected.all():
        with pytest.raises(SpecError, match=r"forbids (no|every)thing"):
            Rule.of(text, KEYS)
        return
    rule = Rule.of(text, KEYS)
    np.testing.assert_array_equal(meets(rule.conditions, OFFSETS, cells), expected)
    np.testing.assert_array_equal(rule.forbids(cells), expected)
    assert rule.n_impossible == expected.sum()
    assert rule.conditions.reshape(len(rule.conditions), -1).any(axis=1).all()


@pytest.mark.parametrize("seed", range(20))
def test_simplified_and_merged_conditions_cover_the_same(seed):
    conditions = random_conditions(np.random.default_rng(seed), SIZES, 8)
    layout = layout_of(OFFSETS)
    cells = all_cells(SIZES)
    expected = meets(conditions, OFFSETS, cells)
    bits = layout.to_bits(conditions)
    np.testing.assert_array_equal(layout.to_array(bits), conditions)
    for fewer in (simplified(bits), merged(bits, layout.masks)):
        assert len(fewer) <= len(bits)
        np.testing.assert_array_equal(meets(layout.to_array(fewer), OFFSETS, cells), expected)
        for a in fewer:
            assert not any(a | b == b for b in fewer if a != b)


FRAME = pd.DataFrame({"D": ["2", None, "0"], "A": ["", "3", "1"]})


@pytest.mark.parametrize(
    "make",
    [
        lambda frame, path: frame,
        lambda frame, path: pl.from_pandas(frame),
        lambda frame, path: pa.Table.from_pandas(frame),
        lambda frame, path: written(frame.to_csv, path / "zeros.csv"),
        lambda frame, path: written(frame.to_parquet, path / "zeros.parquet"),
        lambda frame, path: str(written(frame.fillna("*").to_csv, path / "zeros.csv")),
        lambda frame, path: written(frame.fillna("NA").to_csv, path / "zeros.csv"),
        lambda frame, path: tabbed(frame, path / "zeros.tsv"),
        lambda frame, path: pd.DataFrame({"D": [2, np.nan, 0], "A": [np.nan, 3, 1]}),
    ],
)
def test_tables_of_any_kind(make, tmp_path):
    conditions = conditions_from_table(make(FRAME, tmp_path), KEYS)
    cells = all_cells(SIZES)
    a, d = cells[:, 0], cells[:, 3]
    expected = (d == 2) | (a == 3) | ((d == 0) & (a == 1))
    np.testing.assert_array_equal(meets(conditions, OFFSETS, cells), expected)
    assert len(conditions) == 3


def written(write, path):
    write(path, index=False)
    return path


def tabbed(frame, path):
    frame.to_csv(path, index=False, sep="\t")
    return path


TOWNS = (Key(name="Ort", levels=("Köln", "Bonn"), labels=("Köln", "Bonn")), KEYS[1])


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16-le"])
@pytest.mark.parametrize("written", ["utf-8", "data"])
def test_tables_in_the_encoding_of_the_data_or_utf_8(written, encoding, tmp_path):
    path = tmp_path / "zeros.csv"
    path.write_text("Ort,B\nKöln,1\n", encoding=encoding if written == "data" else written)
    zeros = Zeros.of([], TOWNS, tables=[path], encoding=encoding)
    assert zeros.forbids([[0, 1], [1, 1]]).tolist() == [True, False]


def test_a_table_in_another_encoding(tmp_path):
    path = tmp_path / "zeros.csv"
    path.write_text("Ort,B\nKöln,1\n", encoding="latin-1")
    with pytest.raises(DataError, match=r"zeros\.csv.* not UTF-8"):
        conditions_from_table(path, TOWNS)
    with pytest.raises(DataError, match=r"zeros\.csv is not in the encoding shift_jis"):
        conditions_from_table(path, TOWNS, encoding="shift_jis")


def test_labels_and_rows_within_others():
    keys = (Key(name="SEX", levels=(1, 2), labels=("male", "female")), KEYS[1])
    frame = pd.DataFrame({"SEX": ["male", "1", "male"], "B": ["*", "2", None]})
    assert conditions_from_table(frame, keys).astype(int).tolist() == [[1, 0, 1, 1, 1]]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        ({"A": ["1"], "E": ["1"]}, "the column 'E' is no key"),
        ({"A": ["1"], "a": ["1"]}, "Did you mean 'A'"),
        ({"A": ["1", "7"]}, "row 2: the entry of 'A' is no level of it"),
        ({"A": ["1", None], "B": ["*", ""]}, "row 2: every field is blank"),
        ({"A": []}, "has no rows"),
    ],
)
def test_wrong_tables(frame, message):
    with pytest.raises(SpecError, match=message):
        conditions_from_table(pd.DataFrame(frame, dtype=object), KEYS)


def test_a_table_that_is_not_there(tmp_path):
    with pytest.raises(DataError, match="no file"):
        Zeros.of([], KEYS, tables=[tmp_path / "none.csv"])


def test_a_table_that_forbids_everything():
    frame = pd.DataFrame({"C": ["0", "1"]})
    with pytest.raises(SpecError, match="no combination possible"):
        Zeros.of([], KEYS, tables=[frame])
