"""Dates of texts, numbers and date columns as keys: forms, periods, and what is refused."""

from __future__ import annotations

import re
from datetime import date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data.workbooks import write_xlsx
from unikat.data import Design, read
from unikat.data.dates import KNOWN, day_sql, period_sql, readings
from unikat.data.values import LevelValues
from unikat.errors import UnikatError
from unikat.language.dates import STEPS, DateForm, Period, time_of

CONNECTION = duckdb.connect()
DESIGN = Design(population_size=10_000)
DAYS = st.dates(date(1900, 1, 1), date(2099, 12, 31))
FORMS = st.sampled_from(KNOWN)
MONTHS = [
    "Jan",
    "Feb",
    "März",
    "avril",
    "mayo",
    "June",
    "juil.",
    "Aug.",
    "Sept",
    "oct",
    "Nov.",
    "décembre",
]


def written(day: date, form: DateForm, *, zeros: bool = True) -> str:
    """The slow twin: a day as a form has it, with or without leading zeros."""
    apart = zeros or not all(form.signs)
    digits = (lambda n: f"{n:02}") if apart else str
    texts = {
        "DD": digits(day.day),
        "MM": digits(day.month),
        "MMM": MONTHS[day.month - 1],
        "Q": f"Q{(day.month + 2) // 3}",
        "YYYY": f"{day.year}",
        "YY": f"{day.year % 100:02}",
    }
    pairs = zip(form.parts, (*form.signs, ""), strict=True)
    return "".join(texts[part] + sign for part, sign in pairs)


def first_of(day: date, form: DateForm) -> date:
    unit = form.finest
    month = {"year": 1, "quarter": 3 * ((day.month - 1) // 3) + 1}.get(unit, day.month)
    return date(day.year, month, day.day if unit == "day" else 1)


@settings(max_examples=60, deadline=None)
@given(DAYS, FORMS, st.booleans())
def test_a_day_that_is_written_is_read(day: date, form: DateForm, zeros: bool) -> None:
    if form.has_short_year:
        form = form._replace(last=day.year + (day.day * day.month) % 100)
    assert DateForm.of(str(form)) == form
    text = written(day, form, zeros=zeros)
    found = CONNECTION.execute(f"SELECT {day_sql('v', form)} FROM (SELECT ? AS v)", [text])
    assert found.fetchall()[0][0] == first_of(day, form)


@settings(max_examples=40, deadline=None)
@given(st.lists(DAYS, min_size=1, max_size=6), st.integers(1, 60))
def test_periods_nest_and_their_names_tell_them(days: list[date], n: int) -> None:
    periods = [Period.of(rule) for rule in ("day", *STEPS, f"years({n})")]
    for day in days:
        for one in periods:
            assert one is not None
            sql = f"SELECT {period_sql('v', one)} FROM (SELECT ? AS v)"
            number = one.number(day)
            assert CONNECTION.execute(sql, [day]).fetchall()[0][0] == number
            ends = time_of(one.name(number))
            assert ends is not None
            assert ends[0] <= day <= ends[1]
            assert [one.number(end) for end in ends] == [number, number]
        for low, high in pairwise(periods[:-1]):
            assert low is not None
            assert high is not None
            ends = time_of(low.name(low.number(day))) or ()
            assert {high.number(end) for end in ends} == {high.number(day)}


def refused(frame: Any, key: str = "BIRTH:month", **how: Any) -> str:
    with pytest.raises(UnikatError) as caught:
        read(frame, [key, "SEX"], DESIGN, **how)
    return str(caught.value)


def of(*texts: object) -> pd.DataFrame:
    return pd.DataFrame({"BIRTH": [*texts] * 4, "SEX": [0, 1] * (2 * len(texts))})


def test_what_could_be_two_days_is_never_guessed() -> None:
    unclear = of("03/04/2001", "05/06/2001")
    said = refused(unclear)
    for wanted in ("DD/MM/YYYY", "MM/DD/YYYY", "8 of 8", "--dates"):
        assert wanted in said
    key = read(unclear, ["BIRTH:day", "SEX"], DESIGN, dates={"BIRTH": "dd/mm/yyyy"}).keys[0]
    assert key.labels == ("2001-04-03", "2001-06-05")
    assert key.private == {0, 1}
    # A value that one form alone can have decides for all; one that is the same in both is clear.
    clear = read(of("03/04/2001", "13/04/2001"), ["BIRTH:day", "SEX"], DESIGN).keys[0]
    assert clear.labels == ("2001-04-03", "2001-04-13")
    assert read(of("03/03/2001", "05/05/2001"), ["BIRTH:day", "SEX"], DESIGN).keys[0].n_levels == 2


def test_years_of_two_digits_need_their_last_year() -> None:
    assert "13" not in (said := refused(of("13.11.87", "1.12.25")))
    assert "--dates" in said
    for last, labels in ((2026, ("1987", "2025")), (2024, ("1925", "1987"))):
        told = {"BIRTH": f"DD.MM.YY to {last}"}
        found = read(of("13.11.87", "1.12.25"), ["BIRTH:year", "SEX"], DESIGN, dates=told)
        assert found.keys[0].labels == labels


def test_what_does_not_fit_is_counted_and_never_shown() -> None:
    frame = of(*["13/04/2001"] * 9, "secret")
    for how in ({}, {"dates": {"BIRTH": "DD/MM/YYYY"}}):
        said = refused(frame, **how)
        assert "4 of 40" in said
        assert "secret" not in said
        assert "--missing-values" in said
    assert "secret" not in refused(of("secret", "hidden"))
    assert "time zone" in refused(of("2001-04-13T10:00:00Z", "2001-05-13T10:00:00+02:00"))
    assert "DD/MM/YYYY" in refused(of("13/04/2001"), dates={"BIRTH": "DD/XX"})
    assert "month" in refused(of("2001-04", "2001-05"), "BIRTH:day")
    assert "no column" in refused(of("2001-04"), dates={"BRITH": "YYYY-MM"})
    for rule in ("year(5)", "years", "years(0)", "years(1.5)", "months"):
        assert refused(of("2001-04", "2002-04"), f"BIRTH:{rule}")


def test_missing_codes_and_empty_values_stay_missing() -> None:
    codes = {"BIRTH": ["99/99/9999"]}
    frame = of("13/04/2001", "99/99/9999", None, "14/05/2002")
    found = read(frame, ["BIRTH:year", "SEX"], DESIGN, missing_values=codes)
    assert (found.n_missing[0], found.keys[0].labels) == (8, ("2001", "2002"))
    dates = of(datetime(2001, 4, 13), datetime(9999, 12, 31), None, datetime(2002, 5, 1))
    found = read(dates, ["BIRTH:year", "SEX"], DESIGN, missing_values={"BIRTH": "9999-12-31"})
    assert (found.n_missing[0], found.keys[0].labels) == (8, ("2001", "2002"))
    as_level = read(frame, ["BIRTH:year", "SEX"], DESIGN, missing_values=codes, missing="level")
    assert as_level.keys[0].levels == ("2001", "2002", None)


def test_numbers_times_and_date_columns_are_dates_too(tmp_path: Path) -> None:
    days = [date(1987, 11, 3), date(1990, 1, 31), date(1990, 2, 1), date(2001, 12, 24)]
    wanted = ("1987-Q4", "1990-Q1", "2001-Q4")
    as_number = of(*(int(f"{day:%Y%m%d}") for day in days))
    # A leading zero is lost in a number.
    reversed_ = of(*(int(f"{day:%d%m%Y}") for day in days))
    timed = of(*(f"{day} 23:59:59" for day in days))
    plain = of(*map(str, days))
    rows = [["BIRTH", "SEX"], *([day, sex] for day in days for sex in (0, 1))]
    book = write_xlsx(tmp_path / "a.xlsx", {"all": rows})
    parquet = tmp_path / "a.parquet"
    of(*days).to_parquet(parquet)
    for source in (as_number, reversed_, timed, plain, of(*days), book, parquet):
        key = read(source, ["BIRTH:quarter", "SEX"], DESIGN).keys[0]
        assert (key.labels, key.ordered, key.binning) == (wanted, True, "quarter")
    assert read(plain, ["BIRTH:quantile(2)", "SEX"], DESIGN, dates={"BIRTH": "YYYY-MM-DD"})
    zoned = plain.assign(BIRTH=pd.to_datetime(plain["BIRTH"], utc=True))
    assert "time zone" in refused(zoned)
    assert re.search("BIRTH:year.*BIRTH:month", refused(of(*days), "BIRTH"))
    assert "BIRTH:year" in refused(plain, "BIRTH", dates={"BIRTH": "YYYY-MM-DD"})


@pytest.mark.parametrize("nothing", ["", None])
def test_a_column_without_a_date_is_missing_in_every_row(nothing: str | None) -> None:
    frame = of(nothing, nothing).astype({"BIRTH": "str" if nothing == "" else object})
    for how in ({}, {"dates": {"BIRTH": "DD/MM/YYYY"}}):
        assert "missing in every row" in refused(frame, **how)
    codes = {"missing_values": {"BIRTH": ["99/99/9999"]}}
    assert "missing in every row" in refused(of("99/99/9999"), **codes)


def test_groups_of_years_of_a_protected_file_are_named_without_a_rule() -> None:
    groups = of("1985-1989", None, "1990-1994")
    assert "without a rule, BIRTH" in refused(groups, "BIRTH:years(5)")
    assert read(groups, ["BIRTH", "SEX"], DESIGN).keys[0].labels == ("1985-1989", "1990-1994")


def test_synthetic_dates_have_the_form_of_the_column_and_lie_in_their_period() -> None:
    days = [date(1987, 11, 3), date(1990, 1, 31), date(1990, 2, 28), date(2001, 12, 24)]
    told = {"BIRTH": "DD.MM.YY to 2024"}
    for values in (
        days,
        [f"{day:%d.%m.%y}" for day in days],
        [f"{day:%d-%b-%Y}" for day in days],
        [int(f"{day:%Y%m%d}") for day in days],
    ):
        how = {"dates": told} if "." in str(values[0]) else {}
        for rule in ("years(5)" if values is days else "month",):
            found = read(of(*values), [f"BIRTH:{rule}", "SEX"], DESIGN, **how)
            table = found.tabulate()
            codes = table.cells[table.record_cell]
            written = LevelValues(
                key=found.keys[0], column=found.values(["BIRTH"])["BIRTH"], codes=codes[:, 0]
            ).write(codes[:, 0], np.random.default_rng(1))
            frame = of(*days).assign(BIRTH=written.to_pylist())
            again = read(frame, [f"BIRTH:{rule}", "SEX"], DESIGN, **how).tabulate()
            assert again.keys[0].labels == found.keys[0].labels
            assert (again.cells[again.record_cell] == codes).all()


def test_forms_are_listed_with_the_values_that_have_them() -> None:
    with duckdb.connect() as connection:
        connection.register("given", of("13/04/2001", "03/04/2001", "x"))
        connection.execute("CREATE VIEW source AS SELECT BIRTH AS c0 FROM given")
        found = readings(connection, "c0")
    assert found.n_values == 12
    assert [(str(one.form), one.n) for one in found.found] == [("DD/MM/YYYY", 8)]
