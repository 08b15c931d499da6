"""Persons grouped into households: rows of codes, and files that contradict themselves."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from unikat.errors import DataError, SpecError
from unikat.inference.progress import SILENT
from unikat.jobs.households import read_households
from unikat.spec.assessment import AssessmentSpec

FRAME = pd.DataFrame(
    {
        "HH": [7, 7, 7, 3, 5, 5, 4, 4],
        "REL": ["head", "spouse", "child", "head", "spouse", "head", "head", "spouse"],
        "AGE": [40, 38, 5, 70, 38, 40, 40, 38],
        "ROOMS": [3, 3, 3, 1, 2, 2, 2, 2],
    }
)


def grouped(frame: pd.DataFrame = FRAME, keys: str = "REL,AGE", **changes: Any) -> Any:
    households = {"keys": "ROOMS", "population": 90, **changes.pop("households", {})}
    values = {
        "keys": keys,
        "model": "households",
        "design": {"household": "HH"},
        "households": {name: value for name, value in households.items() if value is not None},
        **changes,
    }
    return read_households(AssessmentSpec.parse(values), frame, SILENT)[1]


def test_a_household_is_a_row_whatever_the_order_of_its_members():
    sample = grouped()
    table = sample.table
    assert sample.of_record.tolist() == [0, 0, 0, 1, 2, 2, 3, 3]
    assert (table.n_records, table.n_units) == (4, 90)
    # Households 5 and 4 have the same members, in another order.
    assert table.record_cell[2] == table.record_cell[3]
    assert sorted(table.counts.tolist()) == [1, 1, 2]
    assert [key.name for key in table.variables] == ["ROOMS", "REL", "AGE"]
    assert table.layout.n_slots == 3


def test_the_keys_of_the_head_are_moved_to_the_household():
    sample = grouped(households={"head": "REL == 'head'", "head_keys": "AGE"})
    layout = sample.table.layout
    assert [key.name for key in layout.household_keys] == ["size", "ROOMS", "head.AGE"]
    assert layout.head_apart
    assert layout.n_slots == 2
    assert layout.person_keys[layout.role].name == "REL"
    houses, members = layout.parts(sample.table.cells[sample.table.record_cell])
    ages = layout.household_keys[2].levels
    assert [ages[code] for code in houses[:, 2]] == [40, 70, 40, 40]
    assert (members[1] == layout.absent).all()


def test_the_head_may_be_told_by_a_column_that_is_no_key():
    sample = grouped(keys="AGE", households={"head": "REL == 'head'", "head_keys": "AGE"})
    assert [key.name for key in sample.table.variables] == ["ROOMS", "head.AGE", "AGE"]
    assert sample.table.layout.role == -1


def test_leaving_a_key_out_puts_members_in_a_new_order():
    table = grouped().table
    left = table.without(table.cells, 1)
    assert (left == -1).sum() == 3 + 1 + 2
    age = table.layout.person_keys[1]
    first = left[table.record_cell[0]][2:].reshape(3, 2)[:, 1]
    assert [age.levels[code] for code in first] == [5, 38, 40]


@pytest.mark.parametrize(
    ("frame", "changes", "message"),
    [
        (FRAME.assign(HH=[7, 7, None, 3, 5, 5, 4, 4]), {}, r"1 of 8 values are missing \(rows 3\)"),
        (FRAME.assign(HH=[7, 7, 3, 7, 5, 5, 4, 4]), {}, r"row 4 belongs to a household that ended"),
        (
            FRAME.assign(ROOMS=[3, 3, 2, 1, 2, 2, 2, 2]),
            {},
            r"1 household differ in 'ROOMS', a key of the household \(rows 1, 2, 3\)",
        ),
        (
            FRAME.assign(REL=["spouse", *FRAME["REL"][1:]]),
            {"head": "REL == 'head'"},
            r"1 household with no head by --head.*\(rows 1, 2, 3\)",
        ),
        (
            FRAME.assign(REL=[*FRAME["REL"][:7], "head"]),
            {"head": "REL == 'head'"},
            r"1 household with several heads by --head.*\(rows 7, 8\)",
        ),
        (
            pd.concat([FRAME.assign(HH=1)] * 8),
            {"keys": None},
            r"1 household of more than 60 persons \(row 1\)",
        ),
    ],
)
def test_a_file_that_contradicts_itself_is_refused_with_rows(
    frame: pd.DataFrame, changes: dict[str, Any], message: str
):
    with pytest.raises(DataError, match=message):
        grouped(frame.reset_index(drop=True), households=changes)


def test_members_may_be_scattered_if_that_is_said():
    frame = FRAME.iloc[[0, 3, 1, 4, 6, 2, 5, 7]].reset_index(drop=True)
    table, shuffled = grouped().table, grouped(frame, households={"scattered": True}).table
    assert np.array_equal(table.cells, shuffled.cells)
    assert np.array_equal(table.counts, shuffled.counts)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"population": None}, "number of households in the population is needed"),
        ({"population": 3}, "3 households, but the data hold 4"),
        ({"keys": "ROOM"}, "no column 'ROOM'"),
        ({"head": "REL == 'head'", "head_keys": "AGES"}, "'AGES', which is no key.*Did you mean"),
        ({"head_keys": "AGE"}, "nothing says who is the head"),
        ({"head": "REL == 'head'", "head_keys": "ROOMS"}, "'ROOMS' is named as a key of the house"),
    ],
)
def test_options_that_do_not_fit_are_refused(changes: dict[str, Any], message: str):
    with pytest.raises((SpecError, DataError), match=f"(?s){message}"):
        grouped(households=changes)


def test_other_models_have_no_households():
    with pytest.raises(SpecError, match="add --model households"):
        AssessmentSpec.parse({"keys": "A,B", "households": {"keys": "C"}})


def test_keys_come_from_a_file_of_households(tmp_path):
    path = tmp_path / "homes.csv"
    path.write_text("HH,RENT\n4,low\n3,high\n5,low\n7,low\n9,high\n")
    table = grouped(households={"keys": "RENT", "path": str(path)}).table
    rent = table.layout.household_keys[1]
    codes = table.cells[table.record_cell, 1]
    assert [rent.labels[code] for code in codes] == ["low", "high", "low", "low"]
    path.write_text("HH,RENT\n4,low\n3,high\n5,low\n7,low\n7,high\n")
    with pytest.raises(DataError, match=r"1 household listed more than once \(row 5\)"):
        grouped(households={"keys": "RENT", "path": str(path)})
    path.write_text("HH,RENT\n4,low\n3,high\n5,low\n")
    with pytest.raises(DataError, match=r"households of 3 persons \(rows 1, 2, 3\) are not in"):
        grouped(households={"keys": "RENT", "path": str(path)})


def test_weights_are_those_of_households():
    frame = FRAME.assign(W=[10.0] * 3 + [30.0] + [20.0] * 4)
    spec = {"design": {"household": "HH", "weights": "W"}, "households": {"population": None}}
    table = grouped(frame, **spec).table
    assert table.n_units == 80
    assert table.weights.tolist() == [10.0, 30.0, 20.0, 20.0]
    frame.loc[1, "W"] = 11.0
    with pytest.raises(DataError, match=r"1 household differ in their weights \(rows 1, 2, 3\)"):
        grouped(frame, **spec)


def test_households_that_break_a_rule_are_refused_or_left_out():
    frame = FRAME.assign(AGE=[40, 38, 45, 70, 38, 40, 40, 38])
    rules = {"rules": ["child.AGE > head.AGE"], "roles": {"child": "REL == 'child'"}}
    head = {"head": "REL == 'head'"}
    with pytest.raises(DataError, match="1 of 4 households breaks a rule"):
        grouped(frame, households=head, zeros=rules)
    sample = grouped(frame, households=head, zeros={**rules, "on_conflict": "drop"})
    assert sample.table.n_records == 3
    assert sample.of_record.tolist() == [-1, -1, -1, 0, 1, 1, 2, 2]
    assert sample.table.layout.rules is not None
