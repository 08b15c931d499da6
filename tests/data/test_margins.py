"""Files of known counts: what is read, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pytest

from unikat.data import CellTable, Design, read
from unikat.data.margins import MOST_CELLS, margin_cell, read_margin, with_margins
from unikat.data.table import Margin
from unikat.errors import DataError, SpecError

FRAME = pd.DataFrame(
    {
        "REGION": ["north", "north", "south", "south", "south"],
        "AGE": [31, 44, 31, 68, 68],
        "SEX": [1, 2, 2, 1, 2],
        "W": [2.0, 2.0, 2.0, 2.0, 2.0],
    }
)
COUNTS = pd.DataFrame({"REGION": ["north", "south"], "people": [40, 60]})


def sample(keys: str = "REGION,AGE,SEX", population_size: int | None = None) -> CellTable:
    size = {"without_population": True} if population_size is None else {}
    design = Design(population_size=population_size, **size)  # type: ignore[arg-type]
    return read(FRAME, keys, design).tabulate()


def margin(frame: Any, table: CellTable | None = None, **reading: Any) -> Margin:
    return read_margin(frame, (table or sample()).keys, **reading)


# --- what is read ----------------------------------------------------------------------------


def test_counts_stand_at_their_cells_whatever_the_order() -> None:
    rows = [
        {"SEX": sex, "n": 10 * sex + len(region), "REGION": region}
        for sex in (2, 1)
        for region in ("south", "north")
    ]
    found = margin(pd.DataFrame(rows))
    assert found.keys == (2, 0)
    assert found.counts.tolist() == [15, 15, 25, 25]
    assert (found.total, found.outside) == (80, 0)


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".tsv", ".feather"])
def test_files_are_read_by_the_readers_of_data(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"census{suffix}"
    write = {
        ".csv": lambda: COUNTS.to_csv(path, index=False, sep=";"),
        ".tsv": lambda: COUNTS.to_csv(path, index=False, sep="\t"),
        ".parquet": lambda: COUNTS.to_parquet(path),
        ".feather": lambda: COUNTS.to_feather(path),
    }
    write[suffix]()
    found = margin(path)
    assert found.name == path.name
    assert found.counts.tolist() == [40, 60]


def test_frames_of_any_kind_are_read() -> None:
    assert margin(pl.from_pandas(COUNTS)).counts.tolist() == [40, 60]
    assert margin(COUNTS.astype({"people": float})).counts.tolist() == [40, 60]


def test_levels_are_told_by_value_or_label() -> None:
    codebook = {"SEX": {"levels": [1, 2, 3], "labels": {"1": "male", "2": "female", "3": "other"}}}
    keys = read(FRAME, "REGION,SEX", Design(population_size=9), codebook=codebook).keys
    by_label = pd.DataFrame({"SEX": ["female", "male"], "n": [7, 5]})
    by_value = pd.DataFrame({"SEX": ["1.0", "2"], "n": [5, 7]})
    for frame in (by_label, by_value):
        assert read_margin(frame, keys).counts.tolist() == [5, 7, 0]


def test_text_stays_what_it_is() -> None:
    frame = pd.DataFrame(
        {"CODE": ["01", "1", "02"], "YES": [True, False, True], "NR": [1.0, None, 2.0]}
    )
    keys = read(frame, "CODE,YES,NR", Design(population_size=9)).keys
    counts = {"n": [5, 6, 7]}
    found = read_margin(pd.DataFrame({"CODE": ["1", "01", "2"], **counts}), keys)
    assert dict(zip(keys[0].labels, found.counts.tolist(), strict=True)) == {
        "01": 6, "1": 5, "02": 7,
    }  # fmt: skip
    for yes in ([True, False], ["true", "false"], ["True", "False"]):
        frame = pd.DataFrame({"YES": yes, "n": [5, 6]})
        assert read_margin(frame, keys).counts.tolist() == [6, 5]
    for numbers in ([1, 2], ["1", "2.0"], [1.0, 2.0]):
        frame = pd.DataFrame({"NR": numbers, "n": [5, 6]})
        assert read_margin(frame, keys).counts.tolist() == [5, 6]


def test_groups_are_told_by_their_label() -> None:
    table = sample("REGION,AGE:width(20)")
    frame = pd.DataFrame({"AGE": ["20-39", "40-59", "60-79"], "n": [5, 6, 7]})
    assert margin(frame, table).counts.tolist() == [5, 6, 7]
    with pytest.raises(DataError, match=r"The key is grouped by width\(20\): its levels in the"):
        with_margins(table, [margin(FRAME.groupby("AGE").size().reset_index(name="n"), table)])


def test_levels_that_the_sample_lacks_are_people_all_the_same() -> None:
    frame = pd.concat([COUNTS, pd.DataFrame({"REGION": ["west"], "people": [11]})])
    found = margin(frame)
    assert (found.counts.tolist(), found.outside, found.total) == ([40, 60], 11, 111)
    assert with_margins(sample(), [found]).n_units == 111


def test_the_counts_tell_the_size_of_the_population() -> None:
    found = with_margins(sample(), [margin(COUNTS)])
    assert found.population_size == 100
    assert len(found.margins) == 1
    same = with_margins(sample(population_size=100), [margin(COUNTS)])
    assert same.fingerprint == found.fingerprint
    other = replace(found, margins=())
    assert other.fingerprint != found.fingerprint
    assert other.fingerprint == sample(population_size=100).fingerprint


def test_cells_are_numbered_like_the_counts() -> None:
    table = sample()
    cells = margin_cell(table.cells, (2, 0), table.n_levels)
    assert cells.tolist() == [code[2] * 2 + code[0] for code in table.cells.tolist()]
    without = table.cells.copy()
    without[0, 2] = -1
    assert margin_cell(without, (2, 0), table.n_levels)[0] == -1


# --- what is refused -------------------------------------------------------------------------


def frame_of(**columns: Any) -> pd.DataFrame:
    return pd.DataFrame(columns)


NS = ["north", "south"]


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            frame_of(PLACE=NS, n=[1, 2]),
            r"has no column that is a key: .* The keys are 'REGION', 'AGE', 'SEX'\.",
        ),
        (
            frame_of(REGION=NS, TOWN=["a", "b"], n=[1, 2]),
            r"has 2 columns that are no keys, 'TOWN', 'n', and one of them only may be there, that "
            r"of the counts\. Leave the others out, or sum the counts over them\.",
        ),
        (frame_of(REGION=NS), r"has keys only\. Add one column of counts"),
        (frame_of(REGION=[], n=[]), r"has columns but no rows; give the counts\."),
        (
            frame_of(REGION=NS, n=[4, -2]),
            r"column 'n': 1 values are negative \(data rows 2, counted from 1\)\. It must",
        ),
        (frame_of(REGION=NS, n=[4.5, 2]), r"1 values are not whole \(data rows 1, .* not shares"),
        (frame_of(REGION=NS, n=["1,200", "x"]), r"2 values are no numbers \(data rows 1, 2, "),
        (frame_of(REGION=NS, n=["inf", "5"]), r"1 values are no numbers \(data rows 1, "),
        (frame_of(REGION=NS, n=[None, 5]), r"column 'n': 1 values are missing .* 0 for nobody"),
        (
            frame_of(REGION=["north", None, "south"], n=[1, 3, 2]),
            r"column 'REGION': 1 values are missing \(data rows 2, .* leave out rows of totals",
        ),
        (frame_of(REGION=NS, n=[0, 0]), r"the counts sum to 0; correct the column"),
        (frame_of(REGION=NS, n=["5", "1e30"]), r"1 values are 2\*\*62 or more \(data rows 2, "),
        (
            frame_of(REGION=["north", "south", "north"], n=[1, 2, 3]),
            r"1 rows have levels that a row before them has \(data rows 3, .* sum their counts",
        ),
        (
            frame_of(REGION=["north", "south", "west", "west"], n=[1, 2, 3, 4]),
            r"1 rows have levels that a row before them has \(data rows 4, ",
        ),
    ],
)
def test_a_file_that_is_no_margin_is_refused(frame: pd.DataFrame, message: str) -> None:
    with pytest.raises(DataError, match=message) as caught:
        margin(frame)
    assert "--margins (in Python: margins=)" in str(caught.value)


def test_too_many_cells_are_refused() -> None:
    codebook = {"AGE": {"levels": list(range(MOST_CELLS))}}
    design = Design(population_size=9)
    keys = read(FRAME, "REGION,AGE,SEX", design, codebook=codebook).keys
    frame = pd.DataFrame({"AGE": [31], "SEX": [1], "n": [5]})
    with pytest.raises(SpecError, match=r"40,000 combinations of levels; at most 20,000"):
        read_margin(frame, keys)
    more = [read_margin(frame[[name, "n"]], keys) for name in ("AGE", "SEX")]
    table = replace(sample(), keys=keys)
    everybody = [
        replace(one, counts=one.counts * 0 + 4 * (MOST_CELLS if one.keys == (2,) else 2),
                absent=tuple(absent & False for absent in one.absent))
        for one in more
    ]  # fmt: skip
    with pytest.raises(SpecError, match=r"2 margins have 2 keys together, with 40,000 combin"):
        with_margins(table, everybody)


def test_levels_of_the_sample_need_a_row() -> None:
    with pytest.raises(DataError) as caught:
        with_margins(sample(), [margin(pd.DataFrame({"REGION": ["north"], "n": [99]}))])
    said = str(caught.value)
    assert "has no row for 1 of the levels of key 'REGION' that records have" in said
    assert "data rows of the sample 3, 4, 5" in said
    # Only the records tell the level.
    assert "south" not in said
    codebook = {"REGION": {"levels": ["north", "south"]}}
    table = read(FRAME, "REGION,SEX", Design(without_population=True), codebook=codebook).tabulate()
    with pytest.raises(DataError, match=r"levels of key 'REGION' \('south'\) that records have"):
        with_margins(table, [margin(pd.DataFrame({"REGION": ["north"], "n": [99]}), table)])


def test_a_cell_has_as_many_units_as_records() -> None:
    with pytest.raises(
        DataError,
        match=r"1 margin cell\(s\) have more records in the sample than units in the population "
        r"\(data rows of the sample 3, 4, 5\)",
    ):
        with_margins(sample(), [margin(pd.DataFrame({"REGION": NS, "n": [99, 2]}))])
    # A combination that the file leaves out has nobody.
    some = pd.DataFrame({"REGION": NS, "SEX": [1, 2], "n": [50, 50]})
    with pytest.raises(DataError, match=r"2 margin cell\(s\) .* \(data rows of the sample 2, 4\)"):
        with_margins(sample(), [margin(some)])


def test_the_population_size_must_agree() -> None:
    with pytest.raises(SpecError, match=r"sum to 100, but the population size is given as 90\."):
        with_margins(sample(population_size=90), [margin(COUNTS)])


def test_weights_and_margins_are_refused_together() -> None:
    table = read(FRAME, "REGION,AGE,SEX", Design(weights="W")).tabulate()
    with pytest.raises(SpecError, match="calibrate the weights to them"):
        with_margins(table, [margin(COUNTS)])


def test_several_margins_are_of_one_population() -> None:
    by_sex = pd.DataFrame({"SEX": [1, 2], "n": [55, 45]})
    found = with_margins(sample(), [margin(COUNTS), margin(by_sex)])
    assert len(found.margins) == 2
    with pytest.raises(SpecError, match=r"sum to 100, those of The data frame to 101"):
        with_margins(sample(), [margin(COUNTS), margin(by_sex.assign(n=[55, 46]))])
    both = pd.DataFrame(
        {"REGION": ["north", "north", "south", "south"], "SEX": [1, 2, 1, 2], "n": [25] * 4}
    )
    with pytest.raises(SpecError, match=r"disagree on 2 counts of 'REGION', which both have"):
        with_margins(sample(), [margin(COUNTS), margin(both)])
    agreeing = both.assign(n=[20, 20, 30, 30])
    assert with_margins(sample(), [margin(COUNTS), margin(agreeing)]).n_units == 100
    more = pd.concat([by_sex, pd.DataFrame({"SEX": [9], "n": [3]})])
    wider = COUNTS.assign(people=[43, 60])
    with pytest.raises(SpecError, match=r"3 units at levels that neither the sample nor"):
        with_margins(sample(), [margin(wider), margin(more)])
