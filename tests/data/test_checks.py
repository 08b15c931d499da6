"""What a table says against its keys before any model is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from unikat.data import CellTable, Key
from unikat.data.checks import MANY_LEVELS, MANY_NUMBERS, table_warnings


def rare(n_once: int, n_levels: int, n: int = 100) -> CellTable:
    """Keys A: n_once levels occur once, the others have the rest; B: two levels."""
    a = np.concatenate((np.arange(n_once), np.full(n - n_once, n_once)))
    keys = [Key.of_size("A", n_levels), Key.of_size("B", 2)]
    return CellTable.from_codes(np.column_stack((a, np.arange(n) % 2)), keys, 5000)


def spread(n_levels: int, n: int, levels: Sequence[object] | None = None) -> CellTable:
    """Key A with levels that occur equally often, and B."""
    said = tuple(range(n_levels)) if levels is None else tuple(levels)
    a = Key(name="A", levels=said, labels=tuple(map(str, said)))
    codes = np.column_stack((np.arange(n) % n_levels, np.arange(n) % 2))
    return CellTable.from_codes(codes, [a, Key.of_size("B", 2)], 10**6)


def test_keys_with_many_levels_that_occur_once_are_warned_of() -> None:
    (warning,) = table_warnings(rare(30, 31))
    assert warning.startswith("30 of the 31 levels of A occur once in the file")
    assert "codebook" in warning
    # Up to one in twenty records there may be.
    assert table_warnings(rare(5, 6)) == ()
    assert len(table_warnings(rare(6, 7))) == 1


def test_a_codebook_with_other_levels_is_believed() -> None:
    assert table_warnings(rare(30, 32)) == ()


def test_missing_keys_are_no_level() -> None:
    table = rare(30, 31)
    codes = table.cells[table.record_cell].copy()
    codes[50:90, 0] = -1
    fewer = CellTable.from_codes(codes, table.keys, 5000)
    (warning,) = table_warnings(fewer)
    assert warning.startswith("30 of the 31")


def test_an_identifier_is_warned_of_whatever_its_levels_are() -> None:
    (numbers,) = table_warnings(spread(1_733, 2_000))
    assert numbers.startswith("A has 1,733 levels in 2,000 records and looks like an identifier")
    assert "Leave it out" in numbers
    assert "'A:quantile(10)'" in numbers
    (texts,) = table_warnings(spread(1_733, 2_000, [f"p{i}" for i in range(1_733)]))
    assert "identifier" in texts
    assert "quantile" not in texts
    # Twice per level is still one, a little more than twice is not.
    assert len(table_warnings(spread(100, 200))) == 1
    assert table_warnings(spread(100, 201)) == ()
    fewer, enough = (table_warnings(spread(n, 2 * n)) for n in (MANY_LEVELS - 1, MANY_LEVELS))
    assert fewer == ()
    assert "identifier" in enough[0]


def test_a_raw_income_is_warned_of_and_is_to_be_grouped() -> None:
    incomes = [f"{1_000 + 7.5 * i}" for i in range(400)]
    (warning,) = table_warnings(spread(400, 4_000, incomes))
    assert warning.startswith("A has 400 different numbers in 4,000 records")
    assert "'A:quantile(10)'" in warning
    commas = [income.replace(".", ",") for income in incomes]
    assert table_warnings(spread(400, 4_000, commas)) == (warning,)
    assert table_warnings(spread(400, 4_001, incomes)) == ()
    assert table_warnings(spread(MANY_NUMBERS - 1, 1_000)) == ()


@pytest.mark.parametrize("change", ["labels", "texts", "binning"])
def test_codes_with_names_and_groups_are_no_measurement(change: str) -> None:
    table = spread(400, 2_000)
    key = table.keys[0]
    if change == "labels":
        key = replace(key, labels=tuple(f"occupation {i}" for i in range(400)))
    elif change == "texts":
        texts = tuple(f"v{i}" for i in range(400))
        key = replace(key, levels=texts, labels=texts)
    else:
        key = replace(key, binning="width(5)")
    assert len(table_warnings(table)) == 1
    assert table_warnings(replace(table, keys=(key, table.keys[1]))) == ()


def test_a_level_for_missing_values_is_not_counted() -> None:
    key = Key(name="A", levels=(*range(60), None), labels=(*map(str, range(60)), "missing"))
    codes = np.column_stack((np.r_[np.arange(60), np.full(200, 60)], np.arange(260) % 2))
    table = CellTable.from_codes(codes, [key, Key.of_size("B", 2)], 10**6, missing="level")
    (warning,) = [text for text in table_warnings(table) if "identifier" in text]
    assert warning.startswith("A has 60 levels in 60 records")


def test_a_name_cannot_steer_the_terminal() -> None:
    table = spread(1_733, 2_000)
    key = replace(table.keys[0], name="\x1b[31mID")
    (warning,) = table_warnings(replace(table, keys=(key, table.keys[1])))
    assert warning.startswith("\\u001b[31mID has")
