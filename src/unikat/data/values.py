"""From codes back to the values of a column: what a synthetic record looks like in the file.

A level is written as the value that stands for it in the column, in the column's own type. A level
that joins several values is a missing level, a period of dates or a group of numbers. Of the values
that mean missing one is drawn as often as it occurs. Within a period a day is drawn uniformly, and
within a group a number, so that no record's is published: between the edges of the group or, where
it has an edge on one side only, as far beyond it as gives the mean of the group's records. Of few
records the mean would tell the numbers; their group reaches as far as the one beside it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.keys import Key
from unikat.data.letters import is_letter
from unikat.data.texts import is_text
from unikat.errors import DataError, brief
from unikat.language.dates import DateForm, Period, time_of
from unikat.language.keys import Call

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_DECIMALS = 9
_FIRST_DAY = date(1970, 1, 1)
_LEAST_FOR_MEAN = 10
"""Records of a group whose mean says how far it reaches."""


class Range(NamedTuple):
    """Numbers that a group may be written as: the multiples of a step from low to high."""

    low: Int64
    """(n_levels,): as a multiple of the step."""
    high: Int64


@dataclass(frozen=True, kw_only=True, eq=False)
class LevelValues:
    """How the levels of a key are written in its column.

    Parameters
    ----------
    key
        The key.
    column
        Its values as the source has them, (n_records,).
    codes
        Codes of the same records, -1 where missing.
    decimal
        What stands before the decimals of numbers in text.
    """

    key: Key
    column: pa.ChunkedArray
    codes: Int32
    decimal: str = "."
    letters: Sequence[str | None] | None = None
    """Letters such as ``.a`` of the same records, where there are some."""

    def write(self, codes: Int32, rng: np.random.Generator) -> pa.Array:
        """Return a column of these codes, -1 being missing, in the type of the source."""
        import pyarrow as pa

        codes = codes.astype(np.int32)
        open_, row = self._missing_from(codes, rng)
        if self.key.binning is not None:
            return self._grouped(codes, open_, row, rng)
        first, declared = self._donors()
        row[~open_] = first[codes[~open_]]
        values = self.column
        if len(declared):
            values = pa.chunked_array([*values.chunks, self._of_codebook(declared)], values.type)
        return values.take(pa.array(row, mask=row < 0)).combine_chunks()

    def letters_of(self, codes: Int32, rng: np.random.Generator) -> list[str | None] | None:
        """Return the letters of a column that `write` gives of these codes and random numbers."""
        if self.letters is None:
            return None
        _, row = self._missing_from(codes, rng)
        own = np.array([*self.letters, None], object)
        found: list[str | None] = [
            str(self.key.levels[code]) if code in self.key.declared_missing else letter
            for code, letter in zip(codes.tolist(), own[row].tolist(), strict=True)
        ]
        return [letter if is_letter(letter) else None for letter in found]

    def _missing_from(self, codes: Int32, rng: np.random.Generator) -> tuple[Bool, Int64]:
        """Which values are missing, and a record that each of these is as; -1 of others."""
        row = np.full(len(codes), -1, np.int64)
        open_ = (codes < 0) | (codes == _missing(self.key))
        donors = np.flatnonzero((self.codes < 0) | (self.codes == _missing(self.key)))
        if len(donors) and open_.any():
            row[open_] = donors[rng.integers(0, len(donors), int(open_.sum()))]
        return open_, row

    def _donors(self) -> tuple[Int64, Int64]:
        """First record of each level, levels without one behind all records; and these levels."""
        first = np.full(self.key.n_levels, -1, np.int64)
        there, place = np.unique(self.codes, return_index=True)
        first[there[there >= 0]] = place[there >= 0]
        without = np.flatnonzero(first < 0)
        without = without[without != _missing(self.key)]
        first[without] = len(self.codes) + np.arange(len(without))
        return first, without

    def _of_codebook(self, which: Int64) -> pa.Array:
        import pyarrow as pa

        kind = self.column.type
        plain = kind.value_type if pa.types.is_dictionary(kind) else kind
        levels = [self.key.levels[code] for code in which]
        try:
            if pa.types.is_string(plain) or pa.types.is_large_string(plain):
                return pa.array([str(level) for level in levels], plain).cast(kind)
            return pa.array(levels).cast(plain).cast(kind)
        except pa.ArrowException:
            raise DataError(
                f"Key {brief(self.key.name)!r} has a level from the codebook that its column "
                f"({kind}) cannot hold; take it out of the codebook, or convert the column."
            ) from None

    def _grouped(self, codes: Int32, open_: Bool, row: Int64, rng: np.random.Generator) -> pa.Array:
        """Numbers within the groups."""
        import pyarrow as pa

        is_time = Period.of(self.key.binning) is not None
        numbers, step = (np.zeros(0), 1.0) if is_time else self._numbers()
        found = self._days() if is_time else self._ranges(numbers, step)
        drawn = np.zeros(len(codes), np.int64)
        known = codes[~open_]
        drawn[~open_] = rng.integers(found.low[known], found.high[known] + 1)
        made = self._as_dates(drawn) if is_time else self._as_values(drawn, step)
        if not open_.any():
            return made
        kept = self.column.take(pa.array(row, mask=row < 0)).combine_chunks()
        both = pa.chunked_array([made, kept.cast(made.type)], made.type)
        n = np.arange(len(codes))
        return both.take(pa.array(np.where(open_, len(codes) + n, n))).combine_chunks()

    def _days(self) -> Range:
        """What each period may be written as: its days, counted from 1970."""
        ends = [time_of(label) or (_FIRST_DAY, _FIRST_DAY) for label in self.key.labels]
        low, high = np.array([[(day - _FIRST_DAY).days for day in both] for both in ends]).T
        return Range(low, high)

    def _as_dates(self, days: Int64) -> pa.Array:
        """Days in the type of the column; texts and numbers in the form that it has."""
        import pyarrow as pa

        kind = self.column.type
        dates = pa.array(days.astype(np.int32), pa.date32())
        if pa.types.is_temporal(kind):
            return dates.cast(kind)
        form = DateForm.of(self.key.dates)
        texts = pa.array([form.write(day) for day in dates.to_pylist()], pa.string())
        return texts if is_text(kind) else texts.cast(pa.int64()).cast(kind)

    def _numbers(self) -> tuple[Float64, float]:
        """The column as numbers, NaN where missing, and the step of which all are multiples."""
        import pyarrow as pa
        import pyarrow.compute as pc

        kind = self.column.type
        known = self.codes >= 0
        if pa.types.is_temporal(kind):
            whole = self.column.cast(pa.timestamp("s"), safe=False).cast(pa.int64())
            step = 86_400.0 if pa.types.is_date(kind) else 1.0
            return _floats(whole), step
        if is_text(kind):
            text = pc.utf8_trim_whitespace(self.column.cast(pa.string()))
            text = pc.if_else(pa.array(known), text, pa.scalar(None, pa.string()))
            if self.decimal == ",":
                text = pc.replace_substring(text, ",", ".")
            values = _floats(pc.cast(text, pa.float64()))
        else:
            values = _floats(self.column.cast(pa.float64(), safe=False))
        values = np.where(known, values, np.nan)
        return values, 10.0 ** -_decimals(values[known])

    def _ranges(self, numbers: Float64, step: float) -> Range:
        """What each group may be written as, of multiples of the step."""
        n_levels = self.key.n_levels
        low, high = np.full(n_levels, -np.inf), np.full(n_levels, np.inf)
        known = np.flatnonzero((self.codes >= 0) & (self.codes != _missing(self.key)))
        codes, values = self.codes[known], numbers[known]
        least = np.full(n_levels, np.inf)
        np.minimum.at(least, codes, values)
        totals = np.bincount(codes, values, minlength=n_levels)
        counts = np.bincount(codes, minlength=n_levels)
        mean = totals / np.maximum(counts, 1)
        rule = Call.of(self.key.binning or "")
        assert rule is not None
        arguments = rule.numbers
        there = np.flatnonzero(np.isfinite(least))
        if rule.word == "width":
            low[there] = np.floor(least[there] / arguments[0]) * arguments[0]
            high[there] = low[there] + arguments[0]
        else:
            edges = np.array(arguments) if rule.word == "cut" else least[there][1:]
            place = np.searchsorted(edges, least[there], side="right")
            bounds = np.concatenate(([-np.inf], edges, [np.inf]))
            low[there], high[there] = bounds[place], bounds[place + 1]
            # As far beyond the one edge as gives the mean; half of that:
            below = np.maximum(bounds[1] - mean, step)
            above = np.maximum(mean - bounds[-2], 0.5 * step)
            few = counts < _LEAST_FOR_MEAN
            if len(edges) > 1:
                below[few], above[few] = 0.5 * np.diff(edges)[[0, -1]]
            elif len(edges):
                below[few] = above[few] = np.median(np.abs(values - edges[0])) + 0.5 * step
            at = there[np.isinf(low[there]) & np.isfinite(high[there])]
            low[at] = high[at] - 2.0 * below[at]
            at = there[np.isfinite(low[there]) & np.isinf(high[there])]
            high[at] = low[at] + 2.0 * above[at] + step
        first = np.ceil(np.nan_to_num(low, posinf=0.0, neginf=0.0) / step - 1e-9)
        last = np.ceil(np.nan_to_num(high, posinf=0.0, neginf=0.0) / step - 1e-9) - 1
        return Range(first.astype(np.int64), np.maximum(last, first).astype(np.int64))

    def _as_values(self, multiples: Int64, step: float) -> pa.Array:
        """Multiples of the step in the type of the column."""
        import pyarrow as pa

        kind = self.column.type
        if pa.types.is_temporal(kind):
            seconds = pa.array(multiples * int(step), pa.timestamp("s"))
            return seconds.cast(kind, safe=False)
        if step >= 1.0:
            numbers = pa.array(multiples)
            text = multiples.astype(str)
        else:
            decimals = round(-np.log10(step))
            numbers = pa.array(np.round(multiples * step, decimals))
            text = np.array([f"{value:.{decimals}f}" for value in multiples * step])
        if not is_text(kind):
            return numbers.cast(kind)
        written = [value.replace(".", self.decimal) for value in text.tolist()]
        return pa.array(written, pa.string())


def decimal_of(column: pa.ChunkedArray, asked: str | None) -> str:
    """Return what stands before the decimals of a column's texts, as the reader understood them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if asked is not None or not is_text(column.type):
        return asked or "."
    text = column.cast(pa.string())
    comma = pc.any(pc.match_substring_regex(text, r"^\s*[+-]?[0-9]*,[0-9]*\s*$")).as_py()
    point = pc.any(pc.match_substring_regex(text, r"[0-9]\.|\.[0-9]")).as_py()
    return "," if comma and not point else "."


def _missing(key: Key) -> int:
    return -1 if key.missing_level is None else key.missing_level


def _floats(column: pa.ChunkedArray | pa.Array) -> Float64:
    values: Float64 = column.to_pandas().to_numpy(np.float64, na_value=np.nan)
    return values


def _decimals(values: Float64) -> int:
    """Decimals that the numbers have, at most 9."""
    values = values[np.isfinite(values)]
    for decimals in range(_MOST_DECIMALS):
        near = 1e-12 + 1e-9 * 10.0**-decimals
        if np.allclose(np.round(values, decimals), values, rtol=0.0, atol=near):
            return decimals
    return _MOST_DECIMALS
