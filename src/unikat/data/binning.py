"""Key specifications such as ``AGE:width(5)``: parsing, edges, and the SQL of a bin's number."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, TypeAlias

from unikat.data.design import CLASS
from unikat.data.names import column_hint
from unikat.errors import DataError, SpecError, brief, suggest, visible
from unikat.language.dates import UNITS, Period, checked_period
from unikat.language.keys import Call, entry_of, key_of, split_keys

RuleName: TypeAlias = Literal["quantile", "width", "cut", "time"]

_EXAMPLES = (
    "'NAME:quantile(10)', 'NAME:width(5)' or 'NAME:cut(0,1000,5000)'; of dates 'NAME:year', "
    "'NAME:quarter', 'NAME:month', 'NAME:day' or 'NAME:years(5)'"
)
MOST_BINS = 10_000
"""Most edges of a rule; more would not be a coarsening."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """How numbers are grouped. Bins hold their lower edge and not their upper one.

    ``width(w)``: [k w, (k+1) w). ``cut(a,b,...)``: (-inf, a), [a, b), ..., [last, inf).
    ``quantile(q)``: about equally many records in each of q bins; ties make fewer bins. ``time``:
    dates by `period`.
    """

    rule: RuleName
    arguments: tuple[float, ...]
    text: str
    period: Period | None = None


@dataclass(frozen=True, kw_only=True)
class KeySpec:
    """A key as asked for: column and binning rule."""

    name: str
    rule: Rule | None = None
    by_hand: bool = False
    """Whether its levels are put into groups that somebody made by hand."""


def parse_keys(
    keys: str | Sequence[str], columns: Sequence[str], source: str, fewest: int = 2
) -> list[KeySpec]:
    """Parse key specifications and check them against the columns of the data.

    Raises
    ------
    SpecError
        For no keys, fewer than `fewest`, a key listed twice, a malformed or unknown binning rule.
    DataError
        If a key is not a column.
    """
    if isinstance(keys, str):
        items = split_keys(keys)
    else:
        items = list(keys)
        if not all(isinstance(item, str) for item in items):
            raise SpecError("keys must be names of columns (strings), such as ['AGE', 'SEX'].")
    # The same key twice is one key; with two rules it would be two.
    items = list(dict.fromkeys(item.strip() for item in items if item.strip()))
    confirmed = any(key_of(item, columns)[0] in columns for item in items)
    specs = [_parse(item, columns, source, confirmed=confirmed) for item in items]
    if not specs:
        raise SpecError(
            "There are no keys. Name the key variables, those an intruder may know, such as "
            "AGE,SEX,REGION. The command unikat start FILE proposes them."
        )
    names = [spec.name for spec in specs]
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise SpecError(
            f"Key {brief(twice[0])!r} is listed more than once; list each key variable once, with "
            "one binning rule at most."
        )
    if CLASS in names:
        raise SpecError(
            f"A key may not be called {CLASS!r}, which is what models call the class of records "
            "that were drawn with equal chances; rename the column."
        )
    if len(specs) < fewest:
        raise SpecError(
            f"Only one key ({brief(names[0])!r}) is given. The risk comes from combinations of "
            "keys; give at least two key variables."
        )
    return specs


def _parse(item: str, columns: Sequence[str], source: str, *, confirmed: bool) -> KeySpec:
    name, call = key_of(item, columns)
    if call is None and name not in columns and entry_of(item, last=True)[0] in columns:
        raise SpecError(f"The binning rule in {brief(item)!r} is malformed; write {_EXAMPLES}.")
    if name not in columns:
        raise DataError(
            f"{source} has no column {brief(name)!r}."
            + column_hint(name, columns, confirmed=confirmed)
        )
    return KeySpec(name=name, rule=_rule(call, item) if call else None)


def _rule(call: Call, item: str) -> Rule:
    name, numbers, said = call.word, call.numbers, brief(item)
    if (period := checked_period(call, repr(said))) is not None:
        return Rule(rule="time", arguments=(), text=str(period), period=period)
    if not numbers:
        raise SpecError(
            f"The binning rule in {said!r} is malformed: numbers are expected between the "
            f"parentheses; write {_EXAMPLES}."
        )
    rule: RuleName
    if name == "quantile":
        rule = "quantile"
        if len(numbers) != 1 or not numbers[0].is_integer() or not 2 <= numbers[0] <= MOST_BINS:
            raise SpecError(
                f"{said!r}: quantile takes one whole number of bins from 2 to {MOST_BINS:,}, "
                "such as quantile(10)."
            )
    elif name == "width":
        rule = "width"
        if len(numbers) != 1 or numbers[0] <= 0:
            raise SpecError(f"{said!r}: width takes one number above 0, such as width(5).")
    elif name == "cut":
        rule = "cut"
        if len(numbers) > MOST_BINS or any(a >= b for a, b in pairwise(numbers)):
            raise SpecError(
                f"{said!r}: the edges of cut must increase from left to right (and be at most "
                f"{MOST_BINS:,}), such as cut(0,1000,5000)."
            )
    else:
        raise SpecError(
            f"{said!r}: the binning rule {brief(name)!r} is not known; write {_EXAMPLES}."
            + suggest(name, ("quantile", "width", "cut", "years", *UNITS))
        )
    return Rule(rule=rule, arguments=numbers, text=str(call))


def grouped(name: str, rule: str) -> str:
    """Return a key with a rule of binning as a shell takes it.

    Examples
    --------
    >>> print(grouped("AGE", "width(5)"))
    'AGE:width(5)'
    """
    return shlex.quote(visible(brief(f"{name}:{rule}")))


def width_sql(number: str, width: float) -> str:
    """SQL of the bin k such that the number lies in [k width, (k+1) width)."""
    return f"CAST(floor(({number}) / {width!r}) AS BIGINT)"


def edges_sql(column: str, edges: Sequence[float]) -> str:
    """SQL of how many edges are at or below the number in `column`, by bisection; not for NULL."""

    def bisect(low: int, high: int) -> str:
        if low == high:
            return str(low)
        middle = (low + high) // 2
        return (
            f"CASE WHEN {column} < {edges[middle]!r}::DOUBLE THEN {bisect(low, middle)} "
            f"ELSE {bisect(middle + 1, high)} END"
        )

    return bisect(0, len(edges))


def bin_label(
    code: int,
    *,
    edges: Sequence[float] | None,
    width: float | None,
    whole: bool,
    show: Callable[[float], str],
) -> str:
    """Name of a bin: ``20-24`` where only whole numbers occur, else ``[20, 25)``."""
    low: float | None
    high: float | None
    if width is not None:
        low, high = code * width, (code + 1) * width
    else:
        bounds = [None, *(edges or ()), None]
        low, high = bounds[code], bounds[code + 1]
    if low is None:
        return f"< {show(high)}" if high is not None else "all"
    if high is None:
        return f">= {show(low)}"
    if whole and float(low).is_integer() and float(high).is_integer():
        return whole_span(low, high - 1, show)
    return f"[{show(low)}, {show(high)})"


def whole_span(first: float, last: float, show: Callable[[float], str]) -> str:
    """Name of the whole numbers from one to another.

    Examples
    --------
    >>> [whole_span(a, b, str) for a, b in ((20, 24), (20, 20), (-5, -1))]
    ['20-24', '20', '-5 to -1']
    """
    if first == last:
        return show(first)
    return f"{show(first)}{'-' if first >= 0 else ' to '}{show(last)}"
