"""The little language of dates: how they are written, and the periods that they are joined to.

::

    form   = part { separator part } [ "to" YEAR ]     DD/MM/YYYY   DD.MM.YY to 2026   D MMM YYYY
    part   = "DD" | "MM" | "MMM" | "YY" | "YYYY" | "Q"
    period = "day" | "month" | "quarter" | "year" | "years(" n ")"

MMM is the name of a month, Q a quarter as in `1987-Q4`. A year of two digits needs the last year
that is meant. Periods nest: each lies in one of the next coarser ones, if numbers of years divide
each other.
"""

from __future__ import annotations

import re
from datetime import date, timedelta
from typing import NamedTuple

from unikat.errors import SpecError, shown
from unikat.language.keys import BARE, Call

STEPS = ("month", "quarter", "year", "years(5)", "years(10)")
"""Coarser and coarser periods above a day."""
_FIRST = date(1970, 1, 1)
MOST_YEARS = 1_000
_PART = re.compile(r"YYYY|YY|MMM|MM|M|DD|D|Q{1,2}")
_TO = re.compile(r"(?P<form>.+?)\s+TO\s+(?P<last>\d{4})")
_SIGNS = re.compile(r"[^\w]{0,3}")
_PERCENT = {"%d": "DD", "%m": "MM", "%Y": "YYYY", "%y": "YY", "%b": "MMM", "%B": "MMM"}
"""As R and Python write forms."""
_ONE = {"M": "MM", "D": "DD", "QQ": "Q"}
_ALLOWED = (
    {"DD", "MM", "Y"}, {"DD", "MMM", "Y"}, {"MM", "Y"}, {"MMM", "Y"}, {"Q", "Y"}, {"Y"},
)  # fmt: skip
FORMS = "DD/MM/YYYY, MM/DD/YYYY, YYYY-MM-DD, YYYYMMDD, DD MMM YYYY, MM/YYYY or DD.MM.YY to 2026"
_NAMES = "JanFebMarAprMayJunJulAugSepOctNovDec"
_DAY = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_MONTH = re.compile(r"(\d{4})-(\d\d)")
_QUARTER = re.compile(r"(\d{4})-Q([1-4])")
_YEARS = re.compile(r"(\d{4})(?:-(\d{4}))?")


class DateForm(NamedTuple):
    """How a column writes its dates."""

    parts: tuple[str, ...]
    """`DD`, `MM`, `MMM`, `Q`, `YYYY` or `YY`, in the order of the column."""
    signs: tuple[str, ...]
    """What stands between them; one fewer."""
    last: int | None = None
    """The last year that two digits mean."""

    @classmethod
    def of(cls, text: object) -> DateForm:
        """Read a form.

        Raises
        ------
        ValueError
            If it is none.

        Examples
        --------
        >>> str(DateForm.of("dd.mm.yy to 2026")), str(DateForm.of("%Y-%m-%d"))
        ('DD.MM.YY to 2026', 'YYYY-MM-DD')
        """
        said = text.strip() if isinstance(text, str) else ""
        for sign, part in _PERCENT.items():
            said = said.replace(sign, part)
        said = said.upper()
        last = None
        if found := _TO.fullmatch(said):
            said, last = found["form"], int(found["last"])
        parts, signs, at = [], [], 0
        while found := _PART.match(said, at):
            parts.append(_ONE.get(found[0], found[0]))
            between = _SIGNS.match(said, found.end())
            assert between is not None
            signs.append(between[0])
            at = between.end()
        kinds = {"Y" if part[0] == "Y" else part for part in parts}
        whole = at == len(said) and not (signs and signs[-1]) and len(parts) == len(kinds)
        if not whole or kinds not in _ALLOWED:
            raise ValueError(f"{shown(text)} is no form of dates; write one as in {FORMS}")
        form = cls(tuple(parts), tuple(signs[:-1]), last)
        if form.has_short_year != (last is not None):
            raise ValueError(
                f"{shown(text)} has "
                + (
                    "years of two digits; say the last year that they mean, as in "
                    f"'{form._written} to 2026'"
                    if last is None
                    else f"years of four digits, which need no last year; write {form._written}"
                )
            )
        return form

    @property
    def has_short_year(self) -> bool:
        """Whether years have two digits."""
        return "YY" in self.parts

    @property
    def finest(self) -> str:
        """The period that a value tells: `day`, `month`, `quarter` or `year`."""
        of = {"DD": "day", "MM": "month", "MMM": "month", "Q": "quarter"}
        return next((of[part] for part in of if part in self.parts), "year")

    def write(self, day: date) -> str:
        """Write a day.

        Examples
        --------
        >>> DateForm.of("DD-MMM-YYYY").write(date(1987, 11, 3))
        '03-Nov-1987'
        """
        texts = {
            "DD": f"{day.day:02}",
            "MM": f"{day.month:02}",
            "MMM": _NAMES[3 * day.month - 3 : 3 * day.month],
            "Q": f"Q{(day.month + 2) // 3}",
            "YYYY": f"{day.year:04}",
            "YY": f"{day.year % 100:02}",
        }
        pairs = zip(self.parts, (*self.signs, ""), strict=True)
        return "".join(texts[part] + sign for part, sign in pairs)

    @property
    def _written(self) -> str:
        pairs = zip(self.parts, (*self.signs, ""), strict=True)
        return "".join(part + sign for part, sign in pairs)

    def __str__(self) -> str:
        return self._written + (f" to {self.last}" if self.last is not None else "")


class Period(NamedTuple):
    """Spans of time: days, months, quarters, or groups of years that begin with a multiple of n."""

    unit: str
    n: int = 1

    @classmethod
    def of(cls, rule: Call | str | None) -> Period | None:
        """Read a rule; None if it is none of time.

        Raises
        ------
        ValueError
            If it is one, and malformed.

        Examples
        --------
        >>> Period.of("year"), Period.of("years(5)"), Period.of("width(5)")
        (Period(unit='year', n=1), Period(unit='year', n=5), None)
        """
        call = Call.of(rule) if isinstance(rule, str) else rule
        if call is None or call.word not in (*BARE, "years"):
            return None
        if call.word == "years":
            n = call.numbers[0] if len(call.numbers) == 1 else 0.0
            if not n.is_integer() or not 1 <= n <= MOST_YEARS:
                raise ValueError(
                    f"years takes one whole number from 1 to {MOST_YEARS:,}, such as years(5)"
                )
            return cls("year", int(n))
        if any(call.arguments):
            raise ValueError(f"{call.word} takes no number; write {call.word}, or years(5)")
        return cls(call.word)

    def __str__(self) -> str:
        return self.unit if self.n == 1 else f"years({self.n})"

    def number(self, day: date) -> int:
        """Number the period that a day lies in, in the order of time."""
        if self.unit == "day":
            return (day - _FIRST).days
        if self.unit == "month":
            return 12 * day.year + day.month - 1
        if self.unit == "quarter":
            return 4 * day.year + (day.month - 1) // 3
        return day.year // self.n

    def name(self, number: int) -> str:
        """Name a period by its number.

        Examples
        --------
        >>> day = date(1987, 11, 3)
        >>> rules = ("day", "month", "quarter", "year", "years(5)")
        >>> [one.name(one.number(day)) for one in map(Period.of, rules)]
        ['1987-11-03', '1987-11', '1987-Q4', '1987', '1985-1989']
        """
        if self.unit == "day":
            return (_FIRST + timedelta(days=number)).isoformat()
        if self.unit == "month":
            return f"{number // 12:04}-{number % 12 + 1:02}"
        if self.unit == "quarter":
            return f"{number // 4:04}-Q{number % 4 + 1}"
        first = number * self.n
        return f"{first:04}" if self.n == 1 else f"{first:04}-{first + self.n - 1:04}"

    def is_coarser(self, unit: str) -> bool:
        """Whether each of the periods of a unit lies in one of these."""
        return UNITS.index(self.unit) >= UNITS.index(unit)


def checked_period(call: Call | None, where: str) -> Period | None:
    """Read a rule as `Period.of` does (SpecError, that begins with `where`)."""
    try:
        return Period.of(call)
    except ValueError as error:
        raise SpecError(f"{where}: {error}.") from None


UNITS = ("day", "month", "quarter", "year")
"""From the finest."""


def time_of(label: str) -> tuple[date, date] | None:
    """Return the first and the last day of a period by its name; None if the text names none.

    Examples
    --------
    >>> time_of("1987-Q4"), time_of("65 and over")
    ((datetime.date(1987, 10, 1), datetime.date(1987, 12, 31)), None)
    """
    try:
        if found := _DAY.fullmatch(label):
            day = date.fromisoformat(label)
            return day, day
        if found := _MONTH.fullmatch(label):
            year, month, n = int(found[1]), int(found[2]), 1
        elif found := _QUARTER.fullmatch(label):
            year, month, n = int(found[1]), 3 * int(found[2]) - 2, 3
        elif found := _YEARS.fullmatch(label):
            year, last = int(found[1]), int(found[2] or found[1])
            return (date(year, 1, 1), date(last, 12, 31)) if year <= last else None
        else:
            return None
        after = 12 * year + month - 1 + n
        return date(year, month, 1), date(after // 12, after % 12 + 1, 1) - timedelta(days=1)
    except ValueError:
        return None
