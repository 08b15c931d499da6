"""The households of a sample: read from columns, kept through the table, split as wholes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from unikat.data import Design, read
from unikat.data.checks import table_warnings
from unikat.data.split import split
from unikat.errors import DataError, SpecError
from unikat.spec.assessment import AssessmentSpec

FRAME = pd.DataFrame(
    {
        "SEX": [1, 2, 1, 2, 1, 2],
        "AGE": [30, 41, 30, 20, 20, 41],
        "Q": ["a", "a", "a", "b", "b", "b"],
        "HH": [7, 7, 3, 7, None, None],
    }
)


def test_several_columns_identify_a_household() -> None:
    table = read(FRAME, "SEX,AGE", Design(population_size=90, household=("Q", "HH"))).tabulate()
    assert table.households is not None
    a, b, c, d, e, f = table.households.tolist()
    assert a == b
    # The same number in another quarter; and two records without a household are not of one.
    assert len({a, c, d, e, f}) == 5
    assert sorted(set(table.households.tolist())) == [0, 1, 2, 3, 4]


def test_codes_of_missing_are_no_household() -> None:
    frame = FRAME.assign(HH=["9", "9", "NA", "NA", "4", "4"])
    design = Design(population_size=90, household=("HH",))
    found = read(frame, "SEX,AGE", design, missing_values=["NA"]).tabulate().households
    assert found is not None
    assert found[0] == found[1]
    assert found[4] == found[5]
    assert found[2] != found[3]


def test_households_are_part_of_what_a_run_depends_on() -> None:
    plain = read(FRAME, "SEX,AGE", Design(population_size=90)).tabulate()
    grouped = read(FRAME, "SEX,AGE", Design(population_size=90, household=("Q",))).tabulate()
    assert plain.households is None
    assert plain.fingerprint != grouped.fingerprint


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(DataError, match="no column 'HOUSE'"):
        read(FRAME, "SEX,AGE", Design(population_size=90, household=("HOUSE",)))


def test_households_stay_together_in_a_split() -> None:
    rng = np.random.default_rng(3)
    home = np.repeat(np.arange(400), rng.integers(1, 6, 400))
    frame = pd.DataFrame({"A": rng.integers(0, 5, len(home)), "B": rng.integers(0, 9, len(home))})
    frame["HH"] = home
    design = Design(population_size=100_000, household=("HH",))
    table = read(frame, "A,B", design).tabulate()
    kept, out = split(table, 0.5, seed=4)
    assert kept.n_records + out.n_records == table.n_records
    assert abs(out.n_records - table.n_records / 2) <= 5
    assert kept.households is not None
    assert out.households is not None
    # As many households as there are, none in both parts.
    assert kept.households.max() + out.households.max() + 2 == 400
    again, _ = split(table, 0.5, seed=4)
    np.testing.assert_array_equal(kept.cells, again.cells)
    other, _ = split(table, 0.5, seed=5)
    assert other.fingerprint != kept.fingerprint


def test_one_household_cannot_be_split() -> None:
    design = Design(population_size=90, household=("HH",))
    with pytest.raises(DataError, match="'HH': all 6 records would be one household"):
        read(FRAME.assign(HH=1), "SEX,AGE", design).tabulate()
    # A part of a file may have one household left.
    table = read(FRAME, "SEX,AGE", design).tabulate()
    with pytest.raises(SpecError, match="one household"):
        split(replace(table, households=np.zeros(6, np.int32)), 0.5, seed=1)


@pytest.mark.parametrize(
    ("table", "values", "says"),
    [
        ("design", {"household": ""}, "no column is named"),
        ("design", {"household": " , "}, "no column is named"),
        ("design", {"household": "HH,HH"}, "more than once"),
        ("classics", {"household": "HH"}, r"write it under \[design\]"),
    ],
)
def test_what_a_specification_says_of_households(
    table: str, values: dict[str, str], says: str
) -> None:
    with pytest.raises(SpecError, match=says):
        AssessmentSpec.parse({"keys": "A,B", "population_size": 9, table: values})
    assert AssessmentSpec.parse({"keys": "A,B", "design": {"household": []}}).design.household == ()


@pytest.mark.parametrize("name", ["weights", "strata", "inclusion"])
def test_a_column_of_the_design_is_no_household(name: str) -> None:
    columns: dict[str, str] = {name: "HH"}
    with pytest.raises(SpecError, match="'HH' is named twice"):
        Design(without_population=True, household=("HH",), **columns)  # type: ignore[arg-type]  # as users do


def test_households_that_can_hardly_be_any_are_warned_of() -> None:
    design = Design(population_size=9000, household=("HH",))

    def warned(size: int) -> tuple[str, ...]:
        frame = pd.DataFrame({"SEX": [1, 2] * 90, "AGE": [3, 4, 5] * 60})
        frame["HH"] = np.arange(180) // size
        return table_warnings(read(frame, "SEX,AGE", design).tabulate())

    assert warned(3) == ()
    assert "household of its own" in warned(1)[0]
    assert "18 households have 10 records" in warned(10)[0]
