"""What a file tells of keys, design and households before anybody has said anything of it.

Everything here is a proposal for a person to accept or to change. It names columns, and values
only of codes that may mean missing and of the head of a household.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.clues import joined
from unikat.data.names import column_hint
from unikat.data.not_asked import Counted, is_group, telling_levels
from unikat.data.numbers import number_meant
from unikat.data.profile import MOST_COLUMNS
from unikat.data.readers import open_source
from unikat.data.roles import ColumnRole, encoded, proposed, words_of
from unikat.data.shared_keys import known_values
from unikat.errors import SpecError, brief
from unikat.interrupts import interruptible

MOST_ROWS = 200_000
"""Rows that are looked at."""
MOST_LEVELS = 120
"""Different values of a column that is proposed as a key: ages are, incomes are not."""
MOST_KEYS = 8
"""Keys that are proposed."""
LEAST_HEADS = 0.8
"""Share of the households of two or more that have exactly one member with the value of a head."""
_CALLED_WEIGHTS = frozenset(
    """weight weights wgt wt wgtp pwgt pwgtp hwgt peso pond pondera ponderacion factor fex facexp
    expansion gew gewicht gewichtung wichtung hochrechnungsfaktor hochrechnungsgewicht hrf poids
    ponderation pondération""".split()  # noqa: SIM905
)
_MISSING_TEXTS = frozenset(
    ("?", ".", "na", "n/a", "nan", "null", "missing", "unknown", "not stated", "no answer",
     "refused", "don't know", "ns/nr", "no sabe", "no responde")
)  # fmt: skip
_MISSING_NUMBER = re.compile(r"-(\d)\1{0,3}")
"""-1 to -9, -99, -888 and the like."""
_NINES = re.compile(r"9{1,6}")


class Head(NamedTuple):
    """A value that one member of most households has."""

    column: str
    rule: str
    """As `--head` takes it."""
    n_without: int
    """Households with no such member, or several."""


@dataclass(frozen=True, kw_only=True)
class FirstLook:
    """What the first rows of a file tell. Made by `look`."""

    name: str
    n_rows: int
    """Rows that were looked at."""
    columns: tuple[str, ...]
    roles: tuple[ColumnRole, ...]
    _codes: dict[str, Int32] = field(repr=False)
    _values: dict[str, list[object]] = field(repr=False)

    @property
    def households(self) -> tuple[str, ...]:
        """The column that looks like the number of a household, if one does."""
        found = [one for one in self.roles if one.role == "household"]
        return (max(found, key=lambda one: one.n_values).name,) if found else ()

    @property
    def weights(self) -> str | None:
        """The column that is called like weights, and whose values may be weights."""
        for name in self._codes:
            if words_of(name) & _CALLED_WEIGHTS and (self._codes[name] >= 0).all():
                numbers = [_number(value) for value in self._values[name]]
                known = [one for one in numbers if one is not None]
                if len(known) == len(numbers) and known and min(known) > 0 and max(known) > 1:
                    return name
        return None

    @property
    def identifiers(self) -> tuple[ColumnRole, ...]:
        """Columns that name persons."""
        return tuple(one for one in self.roles if one.role == "identifier")

    @property
    def missing(self) -> dict[str, tuple[str, ...]]:
        """Codes that may mean missing, by column: texts that say so, and numbers apart.

        A negative code counts where all other values are not negative; 9, 99 or 999 where no
        other value is even half as large. A code that says who was not asked is none, nor is -1 as
        the age of babies.
        """
        asked = {name: [one for one in codes
                        if (name, one) not in {*self.not_asked, *self.below_zero}]
                 for name, codes in self._missing.items()}  # fmt: skip
        return {name: tuple(codes) for name, codes in asked.items() if codes}

    @cached_property
    def not_asked(self) -> dict[tuple[str, str], str]:
        """Columns and their codes of who was not asked: the column that tells who that is.

        Of children of whom nobody asks for work, by the rule for codes that a file declares
        missing (`unikat.data.not_asked`).
        """
        told = {(name, code): self._told_by(name, code)
                for name, codes in self._missing.items() for code in codes}  # fmt: skip
        return {one: by for one, by in told.items() if by}

    @cached_property
    def below_zero(self) -> tuple[tuple[str, str], ...]:
        """Columns and their code -1 that goes on below 0: ages of babies, not born at the date.

        All who have it were not asked what the column tells of the youngest (`not_asked`), as who
        has a 0. Who refused an age is of any.
        """
        found = []
        for (other, code), name in self.not_asked.items():
            asked = [_written(one) for one in self._values[other]].index(code)
            values = [_written(one) for one in self._values[name]]
            if "-1" not in self._missing.get(name, ()) or "0" not in values:
                continue
            like = [self._codes[other][self._codes[name] == values.index(one)] == asked
                    for one in ("-1", "0")]  # fmt: skip
            if all(one.all() for one in like):
                found.append((name, "-1"))
        return tuple(dict.fromkeys(found))

    def _told_by(self, name: str, code: str) -> str:
        """Name the column that tells who has a code; empty if none does."""
        apart = self._is_missing[name][self._codes[name]]
        has = self._codes[name] == [_written(one) for one in self._values[name]].index(code)
        # Who refused could have answered or not.
        known = has | (~apart & (self._codes[name] >= 0))
        has = has[known]
        names = self.keys([name])
        coded = [self._ranked(other)[known] for other in names]
        counted = [
            Counted(
                *(
                    np.bincount(one[of & (one >= 0)], minlength=len(self._values[other]))
                    for of in (np.ones(len(one), bool), has)
                )
            )
            for other, one in zip(names, coded, strict=True)
        ]
        told = telling_levels(counted, len(has), int(has.sum()))
        inside = [levels[one] & (one >= 0) for levels, one in zip(told, coded, strict=True)]
        if not any(one.any() for one in inside):
            return ""
        group = np.any(inside, axis=0)
        if not is_group(len(has), int(has.sum()), int(group.sum()), int(has[group].sum())):
            return ""
        return names[int(np.argmax([np.count_nonzero(one & has) for one in inside]))]

    def _ranked(self, name: str) -> Int64:
        """Codes of a column in the order of its numbers, -1 where it is or may be missing."""
        codes, numbers = self._codes[name], [_number(value) for value in self._values[name]]
        rank = np.arange(len(numbers))
        if all(one is not None for one in numbers):
            rank = np.argsort(np.argsort(np.array(numbers, float), kind="stable"))
        return np.where((codes < 0) | self._is_missing[name][codes], -1, rank[codes])

    @cached_property
    def _is_missing(self) -> dict[str, Bool]:
        """Whether each value of a column may mean missing."""
        return {
            name: np.array([_written(one) in self._missing.get(name, ()) for one in values], bool)
            for name, values in self._values.items()
        }

    @cached_property
    def _missing(self) -> dict[str, tuple[str, ...]]:
        """Codes that look like missing, by column."""
        found = {}
        for name, values in self._values.items():
            codes = [one for one in values if _may_be_missing(one, values)]
            if 0 < len(codes) <= len(values) / 2:
                found[name] = tuple(_written(one) for one in codes)
        return found

    def head(self, household: Sequence[str]) -> Head | None:
        """Find the value that exactly one member of most households has, such as `REL == 1`.

        A column that numbers the members is none that says who they are.
        """
        homes = self._homes(household)
        best: tuple[float, Head] | None = None
        for name in self._candidates(household):
            codes, values = self._codes[name], self._values[name]
            if not 2 <= len(values) <= MOST_LEVELS or _all_differ(homes, codes):
                continue
            for code, share, n_without in of_one_member(homes, codes, len(values)):
                if best is None or share > best[0]:
                    best = (
                        share,
                        Head(name, f"{_name(name)} == {_literal(values[code])}", n_without),
                    )
        return None if best is None else best[1]

    def shared(self, household: Sequence[str]) -> tuple[str, ...]:
        """Columns that all members of every household have alike."""
        homes, names = self._homes(household), self._candidates(household)
        if not names:
            return ()
        together = np.stack([self._codes[name] for name in names], axis=1)
        _, differ = known_values(together, homes)
        return tuple(name for name, apart in zip(names, differ, strict=True) if not apart)

    def keys(
        self, without: Sequence[str], household: Sequence[str] = (), *, drawn: bool = False
    ) -> tuple[str, ...]:
        """Columns that may be keys: of few values, and neither identifiers nor of the design.

        Parameters
        ----------
        without
            Columns that are none.
        household
            Columns that identify the household, whose members some column may number.
        drawn
            Households are to be drawn as wholes, and so have a size without a key of it.
        """
        others = {one.name for one in self.roles if one.role in ("other", "linked")}
        homes = self._homes(household) if household else None
        sizes = None if homes is None else np.bincount(homes)[homes]
        found = []
        for name in self._codes:
            codes, values = self._codes[name], self._values[name]
            if name not in others or name in without or len(values) > MOST_LEVELS:
                continue
            if self._n_levels(name) < 2:
                continue
            if homes is not None and _all_differ(homes, codes):
                continue
            if drawn and _is(codes, values, sizes):
                continue
            if any(hasattr(value, "year") for value in values):
                continue
            found.append(name)
        return tuple(found)

    def _n_levels(self, name: str) -> int:
        """Values of a column that are neither blank nor codes that may mean missing."""
        pairs = zip(self._values[name], self._is_missing[name], strict=True)
        return sum(not missing and bool(str(value).strip()) for value, missing in pairs)

    def is_long_number(self, name: str) -> bool:
        """Whether a column has more than 30 values, all numbers."""
        values = self._values[name]
        return len(values) > 30 and all(_number(value) is not None for value in values)

    def check_column(self, name: str) -> None:
        """Refuse a name that no column has (SpecError)."""
        if name not in self.columns:
            raise SpecError(
                f"{self.name} has no column {brief(name)!r}." + column_hint(name, self.columns)
            )

    def _homes(self, household: Sequence[str]) -> Int64:
        for name in household:
            self.check_column(name)
            if name not in self._codes:
                raise SpecError(
                    f"{self.name}: {brief(name)!r} is beyond the first {MOST_COLUMNS:,} columns, "
                    "or holds lists; choose another column for the household."
                )
        found = joined([self._codes[name].astype(np.int64) for name in household])
        # Who has no household is one.
        found = np.where(found < 0, found.max(initial=-1) + 1 + np.arange(len(found)), found)
        return np.unique(found, return_inverse=True)[1].astype(np.int64)

    def _candidates(self, household: Sequence[str]) -> list[str]:
        return [name for name, values in self._values.items()
                if name not in household and len(values) > 1]  # fmt: skip


def of_one_member(
    homes: Int32 | Int64, codes: Int32, n_values: int
) -> Iterator[tuple[int, float, int]]:
    """Yield the values that exactly one member of most households of two or more has.

    Parameters
    ----------
    homes
        (n_persons,) number of the household.
    codes
        (n_persons,) code of the value; negative where it is missing.
    n_values
        Values of the column.

    Yields
    ------
    tuple
        Code; share of these households; and the number of all households in which nobody has the
        value, or several.

    Examples
    --------
    >>> list(of_one_member(np.array([0, 0, 1, 1, 2]), np.array([0, 1, 0, 1, 1]), 2))
    [(0, 1.0, 1), (1, 1.0, 0)]
    """
    several = np.bincount(homes) > 1
    if not several.any():
        return
    for code in range(n_values):
        heads = np.bincount(homes[codes == code], minlength=len(several))
        share = float((heads[several] == 1).mean())
        if share >= LEAST_HEADS:
            yield code, share, int(np.count_nonzero(heads != 1))


@interruptible
def look(source: Any, **reading: Any) -> FirstLook:
    """Look at the first rows of a file.

    Parameters
    ----------
    source
        A path or a frame, as `read` takes them.
    **reading
        Format, delimiter, encoding, sheet and table, as `read` takes them.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"HH": [1, 1, 2] * 9, "REL": [1, 2, 1] * 9, "WEIGHT": [2.5] * 27})
    >>> found = look(frame)
    >>> found.weights, found.keys(["WEIGHT", "HH"]), found.head(["HH"]) is None
    ('WEIGHT', ('REL',), True)
    """
    opened = open_source(source, **reading)
    names = list(opened.columns[:MOST_COLUMNS])
    with opened.session() as connection:
        rows = opened.first(connection, names, MOST_ROWS)
    opened.delete_copies()
    columns = {name: encoded(rows[name]) for name in rows.column_names}
    known = {name: one for name, one in columns.items() if one is not None}
    return FirstLook(
        name=opened.name,
        n_rows=int(rows.num_rows),
        columns=tuple(opened.columns),
        roles=proposed(columns),
        _codes={name: codes for name, (codes, _) in known.items()},
        _values={name: values for name, (_, values) in known.items()},
    )


def _number(value: object) -> float | None:
    number = number_meant(value)
    return None if number is None or number != number else number


def _may_be_missing(value: object, values: Sequence[object]) -> bool:
    number = _number(value)
    if number is None:
        return str(value).strip().lower() in _MISSING_TEXTS
    text = _written(value)
    others = [one for one in map(_number, values) if one is not None and one != number]
    if _MISSING_NUMBER.fullmatch(text):
        return all(one >= 0 or _MISSING_NUMBER.fullmatch(_written(one)) for one in others)
    if not others or not _NINES.fullmatch(text):
        return False
    return number > 2 * max(others)


def _all_differ(homes: Int64, codes: Int32) -> bool:
    """Whether all members of every household differ in a column, as their numbers do."""
    pairs = np.unique(np.stack([homes, codes.astype(np.int64)]), axis=1)
    return bool(pairs.shape[1] == len(homes))


def _is(codes: Int32, values: Sequence[object], numbers: Int64 | None) -> bool:
    """Whether a column holds these numbers."""
    found = [_number(value) for value in values]
    if numbers is None or any(one is None for one in found) or (codes < 0).any():
        return False
    return bool((np.array(found, float)[codes] == numbers).all())


def _written(value: object) -> str:
    """A value as a text, whole numbers without a decimal."""
    return str(value).strip().removesuffix(".0")


def _literal(value: object) -> str:
    """A value as a rule has it."""
    text = _written(value)
    if _number(value) is not None and not re.match(r"-?0\d", text):
        return text
    text = str(value)
    return f"'{text}'" if '"' in text else f'"{text}"'


def _name(column: str) -> str:
    """A column as a rule has it."""
    return column if re.fullmatch(r"[^\W\d]\w*", column) else f"`{column}`"
