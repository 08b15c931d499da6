"""Each language writes numbers as its readers do, by the tables of the Unicode consortium."""

from __future__ import annotations

from datetime import date

import pytest
from babel import Locale
from babel.dates import format_date
from babel.numbers import format_decimal, format_percent

from unikat.report.text import numbers
from unikat.report.text.language import LANGUAGES, catalogue, speaking, wording
from unikat.report.text.words import form


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_numbers_are_written_as_in_the_language(spoken: str) -> None:
    locale = Locale.parse(catalogue(spoken)["numbers.locale"], sep="-")
    assert locale.language == spoken
    with speaking(spoken):
        assert numbers.digits(-1234567.8, 1) == format_decimal(-1234567.8, locale=locale).replace(
            "-", "−"
        )
        for share in (0.05, 0.38):
            assert numbers.whole_percent(share) == format_percent(share, locale=locale)
        for month in range(1, 13):
            day = format_date(date(2026, month, 5), "long", locale=locale)
            assert numbers.date(f"2026-{month:02}-05T10:00:00+00:00") == day
        assert numbers.date("not a date") == "not a date"


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_the_form_of_a_word_goes_with_its_number(spoken: str) -> None:
    rule = Locale(spoken).plural_form
    with speaking(spoken):
        for n in (0, 0.5, 1, 1.5, 2, 5, 21, 101, 1200):
            assert form(n, "one", "several") == ("one" if rule(n) == "one" else "several"), n


@pytest.mark.parametrize("spoken", LANGUAGES)
def test_no_line_begins_with_a_sign(spoken: str) -> None:
    blank = catalogue(spoken)["numbers.before_sign"]
    with speaking(spoken):
        assert wording("numbers.percent").replace(blank, "") == "{}%"
        found = [one for one in catalogue(spoken).values() if isinstance(one, str)]
    if blank != " ":
        assert not [one for one in found if " %" in one.replace(" %}", "")]
