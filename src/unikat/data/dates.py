"""Dates in a column: in which form texts and numbers write them, and as periods, in SQL.

A form is taken without being told only if every value has it and no other form reads one of them
as another day. Messages count values and never show one.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import TYPE_CHECKING, NamedTuple

from unikat.data.engine import quoted
from unikat.errors import DataError, SpecError, option
from unikat.language.dates import FORMS, DateForm, Period
from unikat.language.keys import quoted as quoted_name

if TYPE_CHECKING:
    import duckdb

_MONTHS = (
    "jan january januar janner jaenner janvier janv enero ene",
    "feb february februar fevrier fevr fev febrero",
    "mar march marz maerz mrz mars marzo",
    "apr april avril avr abril abr",
    "may mai mayo",
    "jun june juni juin junio",
    "jul july juli juillet juil julio",
    "aug august aout agosto ago",
    "sep sept september septembre septiembre setiembre set",
    "oct october okt oktober octobre octubre",
    "nov november novembre noviembre",
    "dec december dez dezember decembre diciembre dic",
)
"""Names of months in English, German, French and Spanish, without accents."""
_PARTS = {
    "YYYY": "((?:1[5-9]|2[0-2])[0-9]{2})",
    "YY": "([0-9]{2})",
    "MMM": r"(\p{L}{3,})\.?",
    "Q": "[Qq]([1-4])",
}
_DIGITS = "([0-9]{1,2})"
"""Of a day or a month between signs; a leading zero may be there or not."""
_TIME = r"(?:(?:[Tt]|\s+)[0-9]{1,2}:[0-9]{2}(?::[0-9]{2}(?:[.,][0-9]+)?)?(?:\s*[AaPp][Mm])?)?"
"""A time of day, which no period needs."""
_ZONE = r":[0-9]{2}(?:[.,][0-9]+)?\s*(?:[Zz]|[+-][0-9]{2}:?(?:[0-9]{2})?|UTC|GMT|CES?T)\s*$"
LIKE_DATE = (
    r"^\s*(?:[0-9]{1,4}[./\s-]+(?:[0-9]{1,2}|\pL{3,})\b|[0-9]{1,4}\pL{3,}|\pL{3,9}\.?[\s-][0-9]"
    r"|[0-9]{8}\s*$|[0-9]{4}-?Q[1-4])"
)
"""How nearly all values of a column of dates begin; forms are looked for in such a column."""
_SEEN = 300
"""Values by which forms that hardly any has are left out before all are counted."""
_LAST = 2099
"""Last year of two digits while forms are looked for."""


def _known() -> tuple[DateForm, ...]:
    orders = (("DD", "MM", "Y"), ("MM", "DD", "Y"), ("Y", "MM", "DD"))
    found: list[tuple[tuple[str, ...], tuple[str, ...]]]
    found = [(order, (sign, sign)) for order, sign in product(orders, ("/", ".", "-", " ", ""))]
    signs = ((" ", " "), ("-", "-"), (". ", " "), ("/", "/"), ("", ""))
    found += [(("DD", "MMM", "Y"), both) for both in signs] + [(("MMM", "DD", "Y"), (" ", ", "))]
    found += [((*order,), (sign,)) for order in (("Y", "MM"), ("MM", "Y")) for sign in "-/."]
    found += [(("Y", "MM"), ("",)), (("MMM", "Y"), (" ",)), (("MMM", "Y"), ("-",))]
    found += [(("Y", "Q"), ("-",)), (("Y", "Q"), ("",)), (("Q", "Y"), (" ",)), (("Y",), ())]
    years = (("YYYY", None), ("YY", _LAST))
    forms = [
        DateForm(tuple(year if part == "Y" else part for part in order), signs, last)
        for year, last in years
        for order, signs in found
        # A month and a year of two digits are too many other things.
        if year == "YYYY" or "DD" in order
    ]
    return tuple(dict.fromkeys(forms))


KNOWN = _known()
"""The forms that are looked for."""


class Reading(NamedTuple):
    """A form, and how many values have it."""

    form: DateForm
    n: int


class Readings(NamedTuple):
    """What a column may be read as, the form of the most values first."""

    n_values: int
    found: tuple[Reading, ...]

    @property
    def fitting(self) -> list[DateForm]:
        """The forms that all values have."""
        return [one.form for one in self.found if one.n == self.n_values]


def day_sql(text: str, form: DateForm) -> str:
    """SQL of the first day of what a text says, a DATE; NULL if it has another form."""
    groups, pattern = [], ""
    signs = ("", *form.signs, "")
    for place, part in enumerate(form.parts):
        sign = signs[place]
        pattern += r"\s+" if sign == " " else "".join(_sign(one) for one in sign)
        apart = bool(sign or signs[place + 1] or "MMM" in form.parts)
        pattern += _PARTS.get(part, _DIGITS if apart else "([0-9]{2})")
        groups.append(quoted(part[0].lower()))
    whole = quoted(rf"^\s*{pattern}{_TIME if form.finest == 'day' else ''}\s*$")
    found = f"regexp_extract({text}, {whole}, [{', '.join(groups)}])"
    year = "TRY_CAST(f.y AS INTEGER)"
    if form.has_short_year:
        assert form.last is not None
        year = f"({form.last} - ({form.last} - TRY_CAST(f.y AS INTEGER)) % 100)"
    month = "f.m"
    if "MMM" in form.parts:
        name = "strip_accents(lower(f.m))"
        cases = (
            f"WHEN {name} IN ({', '.join(map(quoted, names.split()))}) THEN '{number}'"
            for number, names in enumerate(_MONTHS, 1)
        )
        month = f"CASE {' '.join(cases)} END"
    elif "Q" in form.parts:
        month = "(3 * TRY_CAST(f.q AS INTEGER) - 2)"
    elif "MM" not in form.parts:
        month = "'1'"
    day = "f.d" if "DD" in form.parts else "'1'"
    made = f"TRY_CAST({year} || '-' || {month} || '-' || {day} AS DATE)"
    # One match for all parts: a list of one is a variable of the expression.
    return f"list_transform([{found}], lambda f: {made})[1]"


def _sign(sign: str) -> str:
    return r"\s+" if sign == " " else f"[{sign}]" if sign in "./" else "\\" + sign


def period_sql(day: str, period: Period) -> str:
    """SQL of the number of the period that a day lies in (`Period.number`)."""
    if period.unit == "day":
        return f"date_diff('day', DATE '1970-01-01', ({day})::DATE)::BIGINT"
    if period.unit == "month":
        return f"(12 * year({day}) + month({day}) - 1)::BIGINT"
    if period.unit == "quarter":
        return f"(4 * year({day}) + quarter({day}) - 1)::BIGINT"
    return f"floor(year({day}) / {period.n})::BIGINT"


def digits_sql(value: str) -> str:
    """SQL of a whole number as the text of a date: 3111987 is 03111987; texts stay."""
    text = f"regexp_replace(({value})::VARCHAR, '^([0-9]+)[.]0+$', '\\1')"
    return (
        f"CASE WHEN regexp_full_match({text}, '[0-9]{{5}}|[0-9]{{7}}') THEN '0' || {text} "
        f"ELSE {text} END"
    )


def readings(connection: duckdb.DuckDBPyConnection, text: str) -> Readings:
    """Find the forms that values of a column of texts may have.

    Parameters
    ----------
    connection
        Has the view ``source``.
    text
        SQL of the text, NULL where missing.
    """
    values = f"(SELECT {text} AS v, count(*) AS n FROM source GROUP BY v HAVING v IS NOT NULL)"
    seen = f"(SELECT v FROM {values} ORDER BY n DESC, hash(v), v LIMIT {_SEEN})"
    likely = forms_of(connection, seen)
    n_values, counts = _counted(connection, values, likely)
    found = [Reading(form, n) for form, n in zip(likely, counts, strict=True) if n]
    return Readings(n_values, tuple(sorted(found, key=lambda one: -one.n)))


def forms_of(connection: duckdb.DuckDBPyConnection, values: str) -> tuple[DateForm, ...]:
    """Return the forms that most of some values v have, of a relation in SQL."""
    values = f"(SELECT v, 1 AS n FROM {values} WHERE v IS NOT NULL)"
    n_values, counts = _counted(connection, values, KNOWN)
    return tuple(form for form, n in zip(KNOWN, counts, strict=True) if 2 * n >= n_values > 0)


def _counted(
    connection: duckdb.DuckDBPyConnection, values: str, forms: Sequence[DateForm]
) -> tuple[int, list[int]]:
    fits = "".join(f", sum(n) FILTER ({day_sql('v', form)} IS NOT NULL)" for form in forms)
    row = connection.execute(f"SELECT sum(n){fits} FROM {values}").fetchall()[0]
    n, *counts = (int(one or 0) for one in row)
    return n, counts


def settle_form(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    told: DateForm | None,
    where: str,
    name: str,
) -> DateForm:
    """Return the form of a column of texts.

    Parameters
    ----------
    connection, text
        As of `readings`.
    told
        The form that somebody names; None finds it.
    where, name
        What messages call the column.

    Raises
    ------
    DataError
        If values have another form, or none; if several that differ are those of all values, or
        years have two digits, and nobody names the form.
    """
    if told is not None:
        _refuse_others(connection, text, told, where, name, "the form that is named")
        return told
    seen = readings(connection, text)
    if not seen.n_values:
        # A column without values has any form; that it has none is said of every key alike.
        return KNOWN[0]
    if not seen.fitting:
        _refuse_groups(connection, text, where, name)
        if seen.found:
            _refuse_others(connection, text, seen.found[0].form, where, name, "as most are")
        _refuse_zones(connection, text, where)
        raise DataError(
            f"{where}: the values are not dates of a form that is looked for. {_remedy(name)}, and "
            f"name the form: {_asked(name)}. A form is {FORMS}."
        )
    first, *others = seen.fitting
    for other in others:
        days = [day_sql("v", form) for form in (first, other)]
        rows = connection.execute(
            f"SELECT count(*) FILTER ({' <> '.join(days)}) FROM (SELECT {text} AS v FROM source)"
        ).fetchall()
        if n := int(rows[0][0]):
            raise DataError(
                f"{where}: the dates may be {_plain(first)} or {_plain(other)}, which are "
                f"different days in {n:,} of {seen.n_values:,} values. Say which: "
                f"{_asked(name, first)}, or {_asked(name, other)}."
            )
    if first.has_short_year:
        raise DataError(
            f"{where}: the dates are {_plain(first)}, with years of two digits, so that 25 may be "
            f"1925 or 2025. Say the last year that they mean: {_asked(name, first)}."
        )
    return first


def _refuse_others(
    connection: duckdb.DuckDBPyConnection,
    text: str,
    form: DateForm,
    where: str,
    name: str,
    why: str,
) -> None:
    """Refuse values of another form than one (DataError)."""
    rows = connection.execute(
        f"SELECT count(v), count(*) FILTER (v IS NOT NULL AND {day_sql('v', form)} IS NULL) "
        f"FROM (SELECT {text} AS v FROM source)"
    ).fetchall()
    n_values, n_other = rows[0]
    if n_other:
        _refuse_zones(connection, text, where)
        raise DataError(
            f"{where}: {n_other:,} of {n_values:,} values are no dates {_plain(form)}, {why}. "
            f"{_remedy(name)}. If the dates have another form, name it: {_asked(name)}."
        )


def _refuse_groups(connection: duckdb.DuckDBPyConnection, text: str, where: str, name: str) -> None:
    """Refuse groups of years, which no rule reads: a protected file has them."""
    rows = connection.execute(
        f"SELECT bool_and(regexp_full_match({text}, '[0-9]{{4}}-[0-9]{{4}}')) FROM source"
    ).fetchall()
    if rows[0][0]:
        raise DataError(
            f"{where}: the values are groups of years, as a protected file has them. Name the key "
            f"without a rule, {quoted_name(name)}; protect makes it coarser with "
            f"{option('recode', f'{name}: years(10)')}."
        )


def _refuse_zones(connection: duckdb.DuckDBPyConnection, text: str, where: str) -> None:
    rows = connection.execute(
        f"SELECT count(*) FILTER (regexp_matches({text}, {quoted(_ZONE)})) FROM source"
    ).fetchall()
    if n := int(rows[0][0]):
        raise DataError(
            f"{where}: {n:,} value(s) have a time zone, on which their day depends. Convert them "
            "to dates of one place."
        )


def _remedy(name: str) -> str:
    codes = option("missing_values", f"{name}: 99/99/9999")
    return f"Correct them, or name their codes as missing values, as in {codes}"


def _plain(form: DateForm) -> str:
    return str(form._replace(last=None))


def _asked(name: str, form: DateForm | None = None) -> str:
    if form is not None and form.has_short_year:
        form = form._replace(last=2026)
    return option("dates", f"{name}: {form or 'DD/MM/YYYY'}")


def check_period(period: Period, form: DateForm, where: str) -> None:
    """Refuse periods that are finer than what a form says (SpecError)."""
    if not period.is_coarser(form.finest):
        raise SpecError(
            f"{where}: dates {_plain(form)} say the {form.finest} alone, so they cannot be grouped "
            f"by {period}; take {form.finest} or a coarser rule."
        )
