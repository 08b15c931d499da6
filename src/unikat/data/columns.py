"""A key on its way from a column of the data to codes.

A key goes through four SQL expressions: its column c0, c1, ...; the *clean* value k0, k1, ...,
NULL where missing; the *value*, which is the clean value or its bin; and the *digit*, the value's
code plus one, zero where missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np

from unikat._typing import Float64
from unikat.data.binning import KeySpec, bin_label, edges_sql, grouped, width_sql
from unikat.data.codebook import Entry
from unikat.data.dates import check_period, day_sql, digits_sql, period_sql, settle_form
from unikat.data.engine import quoted
from unikat.data.keys import MISSING_LABEL, MOST_LEVELS, DeclaredCode, Key, codes_told
from unikat.data.letters import is_letter, letter_number, letter_of
from unikat.data.numbers import date_shown, number_meant, number_of, number_shown, rounded_shown
from unikat.data.sampling import one_way
from unikat.data.sources import Declared, Source
from unikat.data.table import Missing
from unikat.data.texts import check_texts, decimal_hint, find_decimal, number_sql
from unikat.errors import DataError, SpecError, brief, option
from unikat.language.dates import DateForm

if TYPE_CHECKING:
    import duckdb

_FEW_RECORDS = 10
"""Up to so many records, levels that are all different do not make an identifier."""
_DENSE = 4_096
"""Widest range of whole numbers coded through an array; else through their text."""

_MOST_CODES = 100
"""Codes of a key that are declared missing and are told one by one."""

_Kind: TypeAlias = Literal["integer", "text", "boolean", "number", "date"]

_INTEGERS = {"TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"}
_NUMBERS = {"FLOAT", "DOUBLE", "UBIGINT", "HUGEINT", "UHUGEINT"}
NUMERIC_TEXT = re.compile(r"[+-]?\d+(\.\d+)?")
_WHOLE = "^([+-]?[0-9]+)[.]0+$"
"""A whole number with a fraction that is none."""


@dataclass(frozen=True, kw_only=True)
class CodedKey:
    """A key, and how to code its column."""

    key: Key
    clean_sql: str
    value_sql: str
    codes: Mapping[object, int]
    """Code of each value that `value_sql` gives."""
    n_missing: int
    dense: bool
    """Values are whole numbers in a narrow range."""
    declared: Declared
    """What the source, the codebook and the user say of the column."""


class Column:
    """One key on its way from a column to codes; lives during the survey only."""

    def __init__(
        self,
        connection: duckdb.DuckDBPyConnection,
        source: Source,
        spec: KeySpec,
        position: int,
        type_name: str,
        codebook: Mapping[str, Entry],
        missing_values: Mapping[str, tuple[object, ...]],
        n_records: int,
        what: str = "key",
        form: DateForm | None = None,
    ) -> None:
        self.connection = connection
        self.spec = spec
        self.position = position
        self.type_name = type_name
        self.n_records = n_records
        self.where = f"{source.name}, {what} {brief(spec.name)!r}"
        self.entry = codebook.get(spec.name, Entry())
        self.declared: Declared = source.declared(spec.name)
        self.letters = source.letters_counted(spec.name)
        self.form = form
        self.period = None if spec.rule is None else spec.rule.period
        self.missing_codes = (
            *self.declared.missing,
            *self.entry.missing,
            *missing_values.get(spec.name, ()),
        )
        self.kind = self._kind()
        # What the user decided is not checked again: named codes are missing; codes of a key with
        # an empty list, and levels of the codebook, are not.
        said = (*self.entry.missing, *missing_values.get(spec.name, ()))
        self.said_missing = {self._one(code) for code in said}
        self.nothing_is_missing = spec.name in missing_values and not missing_values[spec.name]
        self.answers: dict[str, tuple[str, ...]] = {
            self._one(level): () for level in self.entry.levels or ()
        }
        self.decimal = source.decimal
        self.whole = False
        self.edges: list[float] | None = None
        self.width: float | None = None
        self.clean_sql = self.raw_sql = ""
        self.value_sql = f"k{position}"
        self.declared_codes: dict[str, int] = {}

    def prepare(self) -> None:
        """Settle the type, the missing values and the bins."""
        clean = self._clean()
        if self.period is not None:
            self.clean_sql = period_sql(self._day_sql(clean), self.period)
        elif self.spec.rule is not None:
            self._bin()
        elif self.kind == "number":
            broken = self._count(f"{clean} <> floor({clean}) OR abs({clean}) >= 2^53")
            if broken:
                name = self.spec.name
                raise DataError(
                    f"{self.where}: the column holds decimal numbers ({broken:,} values are not "
                    "whole), which are not levels. Group them, for example "
                    f"{grouped(name, 'quantile(10)')}, {grouped(name, 'width(5)')} or "
                    f"{grouped(name, 'cut(0,1000,5000)')}, or round them beforehand."
                )
            self.clean_sql = f"({clean})::BIGINT"
            self.kind = "integer"
        if self.spec.rule is None:
            for letter in self.letters if self.nothing_is_missing else self.answers:
                if is_letter(letter) and self.letters:
                    self.clean_sql = (
                        f"CASE WHEN {self.has_code(letter)} THEN {letter_number(letter)} "
                        f"ELSE {self.clean_sql} END"
                    )
        self.declared_codes = self.codes_declared()
        if self.spec.rule is None:
            # A letter lies in no group of numbers.
            self.declared_codes |= dict(self.letters)

    def _clean(self) -> str:
        """Settle the type; return and keep the SQL of the value, NULL where missing."""
        column = f"c{self.position}"
        self.kind = self._kind()
        if self.kind == "text":
            clean = self._without_codes(f"nullif({column}::VARCHAR, '')")
        elif self.kind == "boolean":
            clean = f"{column}::BIGINT"
        elif self.kind == "date":
            clean = self._without_codes(column)
        elif self.kind == "integer":
            clean = self._without_codes(f"{column}::BIGINT")
        else:
            double = f"{column}::DOUBLE"
            clean = self._without_codes(f"CASE WHEN isnan({double}) THEN NULL ELSE {double} END")
        self.clean_sql = clean
        return clean

    def number_sql(self, so: str) -> str:
        """SQL of the clean value as a number; what is none is refused, and `so` says why."""
        raw = self.clean_sql
        if self.kind == "date" or self.form is not None:
            day, self.kind = self._day_sql(raw), "date"
            return f"epoch({day})"
        if self.kind == "text":
            self.decimal = find_decimal(self.connection, raw, self.decimal)
        number = number_sql(raw, self.decimal or ".") if self.kind == "text" else f"({raw})::DOUBLE"
        wrong = f"({raw}) IS NOT NULL AND ({number} IS NULL OR NOT isfinite({number}))"
        broken = self._count(wrong)
        if broken:
            remedy = (
                "Correct them, or name their codes as missing values: "
                f"{option('missing_values', [-9])}."
            )
            if self.kind == "text":
                remedy = decimal_hint(self.connection, raw, wrong, self.decimal or ".") or remedy
            raise DataError(
                f"{self.where}: {broken:,} value(s) are not finite numbers, {so} {remedy}"
            )
        return number

    def _day_sql(self, clean: str) -> str:
        """SQL of the day that a clean value says; texts and numbers need a form."""
        if self.kind == "date":
            return clean
        text = digits_sql(clean)
        self.form = settle_form(self.connection, text, self.form, self.where, self.spec.name)
        if self.period is not None:
            check_period(self.period, self.form, self.where)
        return day_sql(text, self.form)

    def measured(self) -> Float64:
        """Read a column that is no key as numbers, (n_records,), NaN where missing."""
        self._clean()
        number = self.number_sql("so the column is no continuous variable.")
        found = self.connection.execute(f"SELECT {number} AS v FROM source").fetchnumpy()["v"]
        return np.ma.filled(np.ma.asarray(found, np.float64), np.nan)

    def refuse_levels(self, number: str) -> None:
        """Refuse a key with too many levels."""
        name = self.spec.name
        raise DataError(
            f"{self.where} has {number} levels in {self.n_records:,} rows; a key may have at most "
            f"{MOST_LEVELS:,}. If it identifies units, leave it out of the keys; if it is a "
            f"measurement, group it, for example {grouped(name, 'quantile(10)')} or "
            f"{grouped(name, 'width(5)')}; if it is a detailed classification, use a coarser one."
        )

    def code(self, missing: Missing) -> CodedKey:
        """Find the levels and give each value its code."""
        counted = self.connection.execute(
            f"SELECT {self.value_sql} AS v, count(*) FROM "
            f"(SELECT {self.clean_sql} AS k{self.position} FROM source) GROUP BY v"
        ).fetchall()
        counts = {value: int(n) for value, n in counted}
        n_missing = counts.pop(None, 0)
        self._check_levels(counts, n_missing)
        if self.kind == "text" and self.spec.rule is None:
            declared = {str(level) for level in self.entry.levels or ()}
            declared |= self.entry.labels.keys() | self.declared.labels.keys()
            missing_texts = {str(code) for code in self.missing_codes}
            check_texts(counts, declared, missing_texts, where=self.where, name=self.spec.name)
        values = self._ordered(counts)
        dense = self.kind != "text" or self.spec.rule is not None
        if dense:
            numbers = [number_of(value) for value in values]
            dense = max(numbers) - min(numbers) < _DENSE
        levels, labels = self._named(values)
        private = self._private(values)
        if missing == "level" and n_missing:
            levels, labels = [*levels, None], [*labels, MISSING_LABEL]
        rule = self.spec.rule
        return CodedKey(
            key=Key(
                name=self.spec.name,
                levels=tuple(levels),
                labels=tuple(labels),
                binning=rule.text if rule else None,
                private=private,
                ordered=(True if self.period else None) if rule else self._are_ordered(),
                told=self.entry.kind,
                told_by="codebook" if self.entry.kind else "",
                measure=self.declared.measure,
                title=self.declared.title,
                dates=str(self.form or ""),
                declared=self._declared(),
                declared_missing=frozenset(
                    code
                    for code, level in enumerate(levels)
                    if rule is None and level is not None and self._is_declared(level)
                ),
            ),
            clean_sql=self.clean_sql,
            value_sql=self.value_sql,
            codes={value: code for code, value in enumerate(values)},
            n_missing=n_missing,
            dense=dense,
            declared=replace(
                self.declared,
                labels={**self.declared.labels, **self.entry.labels},
                missing=self.missing_codes,
            ),
        )

    def _declared(self) -> tuple[DeclaredCode, ...]:
        said = {**self.declared.labels, **self.entry.labels}
        labels = {self._one(code): label for code, label in said.items()}
        named = {self._one(code) for code in self.missing_codes}
        levels = self.declared_codes if self.nothing_is_missing else self.answers
        told_by = {code: self.answers.get(code, ()) for code in levels}
        counts = self.declared_codes | dict(self.letters)
        return codes_told(counts, labels, named | self.letters.keys(), told_by)

    def _kind(self) -> _Kind:
        type_name = self.type_name.partition("(")[0]
        rule = "" if self.spec.rule is None else self.spec.rule.rule
        dated = type_name == "DATE" or type_name.startswith("TIMESTAMP")
        if (dated or self.form is not None) and rule not in ("time", "quantile"):
            raise DataError(
                f"{self.where} holds dates or times, which are not levels. Group them, for example "
                f"{grouped(self.spec.name, 'year')}, {grouped(self.spec.name, 'years(5)')}, "
                f"{grouped(self.spec.name, 'month')} or "
                f"{grouped(self.spec.name, 'quantile(10)')}."
            )
        if dated:
            if rule == "time" and "TIME ZONE" in type_name:
                raise DataError(
                    f"{self.where} holds times with a time zone, on which their day depends. "
                    "Convert them to dates of one place."
                )
            return "date"
        if type_name in _INTEGERS:
            return "integer"
        if type_name in ("VARCHAR", "ENUM"):
            return "text"
        if type_name == "BOOLEAN":
            if self.spec.rule is None:
                return "boolean"
            raise SpecError(f"{self.where} holds true and false, which cannot be binned.")
        if type_name in _NUMBERS or type_name == "DECIMAL":
            return "number"
        if type_name == '"NULL"':
            self._refuse_all_missing()
        raise DataError(
            f"{self.where} has the type {type_name}, which cannot be a key; convert it to a "
            "number or a string."
        )

    def _without_codes(self, sql: str) -> str:
        """Clean SQL with the missing codes as NULL."""
        self.raw_sql = sql
        found = self._are_declared(sql)
        if not found or self.nothing_is_missing:
            return sql
        answers = () if self.kind == "date" else self.answers
        kept = " OR ".join(self.has_code(code) for code in answers)
        return f"CASE WHEN ({found}){f' AND NOT ({kept})' if kept else ''} THEN NULL ELSE {sql} END"

    def _are_declared(self, sql: str) -> str:
        """SQL condition: the value is one of the codes that are declared missing; empty: none."""
        conditions = []
        if self.kind == "date":
            texts = sorted(map(str, self.missing_codes))
            listed = ", ".join(map(quoted, texts))
            return f"({sql})::DATE::VARCHAR IN ({listed})" if texts else ""
        if self.kind == "text":
            # Programs write whole numbers with ".0" where some are missing.
            texts = sorted({re.sub(_WHOLE, r"\1", str(code)) for code in self.missing_codes})
            if texts:
                plain = f"regexp_replace({sql}, '{_WHOLE}', '\\1')"
                conditions.append(f"{plain} IN ({', '.join(map(quoted, texts))})")
            numbers = f"TRY_CAST({sql} AS DOUBLE)"
        else:
            numbers_meant = (number_meant(code) for code in self.missing_codes)
            # NaN is missing anyway.
            wanted = {n for n in numbers_meant if n is not None and isfinite(n)}
            if wanted:
                conditions.append(f"{sql} IN ({', '.join(map(repr, sorted(wanted)))})")
            numbers = sql
        for low, high in self.declared.missing_ranges:
            conditions.append(f"{numbers} BETWEEN {low!r}::DOUBLE AND {high!r}::DOUBLE")
        return " OR ".join(conditions)

    def has_code(self, code: str) -> str:
        """SQL condition: the value is this code."""
        if is_letter(code) and self.letters:
            return f"a{self.position} IS NOT DISTINCT FROM {quoted(code)}"
        if self.kind == "text":
            return f"{self.raw_sql} IS NOT DISTINCT FROM {quoted(code)}"
        number = number_meant(code)
        # A level of the codebook that is no number is refused elsewhere.
        found = "NULL" if number is None or not isfinite(number) else repr(number)
        return f"{self.raw_sql} IS NOT DISTINCT FROM {found}::DOUBLE"

    def codes_declared(self) -> dict[str, int]:
        """Codes that are declared missing and that records have, with their numbers."""
        found = self._are_declared(self.raw_sql) if self.raw_sql else ""
        if not found:
            return {}
        rows = self.connection.execute(
            f"SELECT {self.raw_sql} AS v, count(*) AS n FROM source WHERE {found} "
            f"GROUP BY v ORDER BY n DESC, v LIMIT {_MOST_CODES}"
        ).fetchall()
        return {self._one(value): int(n) for value, n in rows}

    def _is_declared(self, level: object) -> bool:
        """Whether a level is a code that is declared missing."""
        if self.letters and is_letter(level):
            return True
        if self.kind == "text":
            if str(level) in {str(code) for code in self.missing_codes}:
                return True
        elif number_meant(level) in {number_meant(code) for code in self.missing_codes}:
            return True
        number = number_meant(level)
        return number is not None and any(
            low <= number <= high for low, high in self.declared.missing_ranges
        )

    def _one(self, code: object) -> str:
        """Write a code one way: of numbers 9 and 9.0 are the same."""
        return str(code) if self.kind == "text" else one_way(str(code))

    def candidates(self) -> list[str]:
        """Labelled codes that the file itself declares missing, and of which nothing is said."""
        if self.spec.rule is not None or self.nothing_is_missing:
            return []
        decided = self.said_missing | self.answers.keys()
        labelled = {self._one(code) for code in (*self.declared.labels, *self.entry.labels)}
        return [code for code in self.declared_codes if code in labelled and code not in decided]

    def _bin(self) -> None:
        rule = self.spec.rule
        assert rule is not None
        number = self.number_sql(f"so {brief(rule.text)} cannot group them.")
        self.whole = self.kind != "date" and not self._count(f"{number} <> floor({number})")
        self.clean_sql = number
        name = f"k{self.position}"
        if rule.rule == "width":
            self.width = rule.arguments[0]
            largest = self._count_of(f"max(abs({number}))") or 0.0
            if largest / self.width > 2**53:
                raise SpecError(
                    f"{self.where}: the width of {brief(rule.text)} is too small for the size of "
                    "the numbers; take a larger one."
                )
            self.value_sql = width_sql(name, self.width)
            return
        self.edges = list(rule.arguments)
        if rule.rule == "quantile":
            self.edges = self._quantile_edges(int(rule.arguments[0]))
        self.value_sql = (
            f"CASE WHEN {name} IS NULL THEN NULL ELSE {edges_sql(name, self.edges)} END"
        )

    def _quantile_edges(self, n_bins: int) -> list[float]:
        """Lower edges of the bins but the first: the values at the ranks i n / n_bins.

        Repeated edges, which come from ties, are taken once, and so is an edge at the smallest
        value, below which there is nothing.
        """
        counted = self.connection.sql(
            f"SELECT v, count(*) AS n FROM (SELECT {self.clean_sql} AS v FROM source) "
            "WHERE v IS NOT NULL GROUP BY v ORDER BY v"
        )
        n_present = self._count(f"({self.clean_sql}) IS NOT NULL")
        ranks = [i * n_present // n_bins for i in range(1, n_bins)]
        edges: list[float] = []
        below, smallest = 0, None
        for batch in counted.to_arrow_reader(1 << 16):
            for value, n in zip(batch["v"].to_pylist(), batch["n"].to_pylist(), strict=True):
                smallest = value if smallest is None else smallest
                below += n
                while len(edges) < len(ranks) and ranks[len(edges)] < below:
                    edges.append(value)
        return sorted(set(edges) - {smallest})

    def _check_levels(self, counts: Mapping[object, int], n_missing: int) -> None:
        if not counts:
            self._refuse_all_missing()
        if len(counts) > MOST_LEVELS:
            self.refuse_levels(f"{len(counts):,}")
        n_present = self.n_records - n_missing
        one_each = len(counts) == n_present > _FEW_RECORDS
        if one_each and self.spec.rule is None and not self.spec.by_hand:
            raise DataError(
                f"{self.where} is different in every one of its {n_present:,} rows: it identifies "
                "them (a name, number or address), and every record would be unique. Remove it "
                f"from the keys, or group it if it is a number, for example "
                f"{grouped(self.spec.name, 'quantile(10)')}."
            )

    def _ordered(self, counts: Mapping[object, int]) -> list[object]:
        """Values in the order of their codes, declared ones that do not occur included."""
        if self.spec.rule is not None or self.kind == "boolean":
            return sorted(counts, key=number_of)
        if self.entry.levels is not None:
            if len(self.entry.levels) > MOST_LEVELS:
                raise SpecError(
                    f"{self.where}: the codebook declares {len(self.entry.levels):,} levels; a key "
                    f"may have at most {MOST_LEVELS:,}. Use a coarser classification."
                )
            declared = [self._as_value(level) for level in self.entry.levels]
            known = set(declared)
            outside = [value for value in counts if value not in known]
            if outside:
                rows = sum(counts[value] for value in outside)
                raise SpecError(
                    f"{self.where}: the codebook declares {len(declared)} levels, but {rows:,} "
                    f"row(s) have one of {len(outside):,} other value(s). Add them to the "
                    "codebook's levels or missing codes, or correct the rows."
                )
            return declared
        if self.declared.order is not None:
            place = {str(value): i for i, value in enumerate(self.declared.order)}
            return sorted(counts, key=lambda value: place.get(str(value), len(place)))
        if self.kind == "text":
            texts = [str(value) for value in counts]
            if self.decimal == ",":
                numbers = {text: text.replace(",", ".") for text in texts if "." not in text}
            else:
                numbers = {text: text for text in texts}
            if all(NUMERIC_TEXT.fullmatch(numbers.get(text, "")) for text in texts):
                return sorted(counts, key=lambda value: (float(numbers[str(value)]), str(value)))
            return list[object](sorted(texts))
        return sorted(counts, key=number_of)

    def _are_ordered(self) -> bool | None:
        """Whether the codebook, or else the source, says that the levels are ordered."""
        return self.declared.ordered if self.entry.ordered is None else self.entry.ordered

    def _as_value(self, level: object) -> object:
        """A level of the codebook as a value of the column."""
        if self.kind == "text":
            return str(level)
        if self.letters and is_letter(level):
            return letter_number(str(level))
        number = number_meant(level)
        if number is None or not isfinite(number) or number != int(number):
            raise SpecError(
                f"{self.where} holds whole numbers, but a level declared in the codebook is none; "
                "declare the levels as the codes that stand in the data."
            )
        return int(number)

    def _named(self, values: Sequence[object]) -> tuple[list[object], list[str]]:
        """Levels and labels of the values."""
        if self.period is not None:
            names = [self.period.name(int(number_of(value))) for value in values]
            return list(names), names
        if self.spec.rule is not None:
            bins = self._bin_labels(values, date_shown if self.kind == "date" else number_shown)
            if self.spec.rule.rule == "quantile" and self.kind != "date":
                # The edges are values of records, which a report should not spell out.
                rounded = self._bin_labels(values, rounded_shown)
                bins = rounded if len(set(rounded)) == len(rounded) else bins
            return list(bins), bins
        levels = [bool(v) for v in values] if self.kind == "boolean" else list(values)
        levels = [(self.letters and letter_of(level)) or level for level in levels]
        said = {**self.declared.labels, **self.entry.labels}
        return list(levels), [said.get(str(level), str(level)) for level in levels]

    def _private(self, values: Sequence[object]) -> frozenset[int]:
        """Codes of the levels that no codebook and no rule of binning tells."""
        rule = self.spec.rule
        if rule is not None:
            # The edges of quantiles are values of records, and so are days.
            told = rule.rule != "quantile" and rule.text != "day"
            return frozenset(() if told else range(len(values)))
        declared = {str(level) for level in self.entry.levels or ()}
        declared |= self.entry.labels.keys() | self.declared.labels.keys()
        return frozenset(
            code
            for code, value in enumerate(values)
            if self.kind != "boolean" and (letter_of(value) or str(value)) not in declared
        )

    def _bin_labels(self, values: Sequence[object], show: Callable[[float], str]) -> list[str]:
        return [
            bin_label(
                int(number_of(value)),
                edges=self.edges,
                width=self.width,
                whole=self.whole,
                show=show,
            )
            for value in values
        ]

    def _refuse_all_missing(self) -> None:
        raise DataError(
            f"{self.where} is missing in every row; it carries no information. Remove it from the "
            "keys, or check the codes named as missing values."
        )

    def _count(self, condition: str) -> int:
        return int(self._count_of(f"count(*) FILTER (WHERE {condition})") or 0)

    def _count_of(self, aggregate: str) -> float | None:
        rows = self.connection.execute(f"SELECT {aggregate} FROM source").fetchall()
        value: float | None = rows[0][0]
        return value


def refuse_constant(source: str, key: Key) -> None:
    """Refuse a key with one level."""
    how = " once it is binned" if key.binning else " once it is grouped" if key.by_hand else ""
    raise DataError(
        f"{source}, key {brief(key.name)!r} has the same level in every row{how}; it carries no "
        "information. Remove it from the keys."
    )


def may_hold_numbers(type_name: str) -> bool:
    """Whether a type of DuckDB has numbers, or texts that may be."""
    others = {"DECIMAL", "VARCHAR", "ENUM"}
    return type_name.partition("(")[0] in {*_INTEGERS, *_NUMBERS, *others}
