"""Local suppression: the cheapest values to set missing so that no record exceeds a limit.

A record shows the keys that it knows and that are not suppressed. Two rules say when it is safe:

- `KAnonymity`: with it at least k records of the file match what it shows.
- `RiskLimit`: another record of the file matches what it shows, or its risk as the only record of
  its margin is at most a threshold.

The suppressed values of *other* records are to it what they are: the records that match are those
whose values agree with what the record shows, whether they show them or not. This is f of the
margin in r1 of the published record (`unikat.risk.shown`). Were they matches of every level, as in
``--missing wildcard``, k - 1 records without any value would make every file k-anonymous.

A value that was missing before matches every level.

**To suppress never makes a record worse.** What a record shows after further suppression agrees
with all that agreed before, since two patterns agree if they do so in each key by itself, and a key
that becomes missing in either agrees with everything; so the number of matches never falls. The
risk of a margin does not grow as it loses a key (where households share the key, but for the error
of its law: `mixtures.homes`), and other records' suppressions leave it alone. So a safe record
stays safe whatever else is suppressed.

**The solution is exact.** No record's safety depends on what is suppressed in another, so the
cheapest solution is that of each record: the cheapest set of keys that makes it safe. Sets are
visited from the cheapest one on, and only records that are not safe yet ask for their margin.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from unikat._typing import AnyArray, Bool, Float64, Int32, Int64
from unikat.data.households import HouseholdLayout
from unikat.data.patterns import distinct
from unikat.errors import SpecError
from unikat.protection.matches import HouseholdPatterns, Patterns, as_bits
from unikat.spec.protection import MOST_SUPPRESSED


@dataclass(frozen=True)
class KAnonymity:
    """At least k records, the record itself among them, match what each record shows."""

    k: int
    """At least 2."""

    @property
    def needed(self) -> int:
        """Records that must match, the record itself among them."""
        return int(self.k)

    def accepts(self, patterns: Int32) -> Bool:
        """Whether a record that shows a pattern is safe with fewer matches: never."""
        return np.zeros(len(patterns), np.bool_)

    def unreachable(self, total: Int64, patterns: Int32) -> str:
        """Tell the best k, from the matches and patterns of the records that cannot be safe."""
        n = len(total)
        return (
            f"{n:,} {'record does' if n == 1 else 'records do'} not reach k = {self.k}, whatever "
            f"is suppressed; the best that can be reached is k = {int(total.min())}."
        )


@dataclass(frozen=True)
class RiskLimit:
    """Each record is matched by another, or the risk of its margin is at most a threshold."""

    threshold: float
    """Largest risk allowed, from 0 to 1."""
    risk_of: Callable[[Int32], Float64]
    """Risk of a record that is the only one of the sample in a margin, such as the probability
    that it is alone there in the population: patterns (m, n_keys) with -1 for a key not shown to
    (m,). It must not grow when a further key is set to -1."""

    needed = 2

    def accepts(self, patterns: Int32) -> Bool:
        """Whether the risk of each pattern is at most the threshold, (m,)."""
        return np.asarray(self.risk_of(patterns), np.float64) <= self.threshold

    def unreachable(self, total: Int64, patterns: Int32) -> str:
        """Tell the least risk that the records which cannot be safe reach."""
        n = len(total)
        # Rounded up, so that it can be asked for.
        least = min(1.0, math.ceil(1e6 * float(np.max(self.risk_of(patterns)))) / 1e6)
        return (
            f"{n:,} {'record has' if n == 1 else 'records have'} a risk above {self.threshold:g}, "
            f"whatever is suppressed; the lowest threshold that can be reached is {least:.6f}."
        )


def suppress(
    codes: AnyArray,
    n_levels: Sequence[int],
    rule: KAnonymity | RiskLimit,
    *,
    costs: Sequence[float] | Float64 | None = None,
) -> Bool:
    """Find the cheapest values to suppress so that every record is safe.

    Parameters
    ----------
    codes
        (n, n_keys) codes of the records, -1 where a value is missing already.
    n_levels
        Levels of each key.
    rule
        When a record is safe.
    costs
        (n_keys,) cost of suppressing one value of each key, above 0; 1 by default, which finds the
        fewest values. Infinity keeps a key.

    Returns
    -------
    Bool
        (n, n_keys) values to set missing, in the order of the records; False where one was missing
        before. Of sets of keys that cost the same a record gets the one with fewest keys, and of
        these the first in the order of the keys.

    Raises
    ------
    SpecError
        If there are too many keys, or no suppression makes all records safe; the message says the
        best that can be reached.

    Notes
    -----
    The work is at most 2^n_keys passes over the distinct patterns, and as many for each set of keys
    that patterns know. The risk is asked of sample uniques of a margin alone, and of each until it
    is safe.

    Examples
    --------
    The last two records are alone; each is one of the others without its second key.

    >>> codes = [[0, 0], [0, 0], [1, 0], [1, 0], [0, 1], [1, 1]]
    >>> suppress(codes, (2, 2), KAnonymity(2)).astype(int).tolist()
    [[0, 0], [0, 0], [0, 0], [0, 0], [1, 0], [1, 0]]
    """
    n_keys = len(n_levels)
    if n_keys > MOST_SUPPRESSED:
        raise SpecError(
            f"Local suppression takes at most {MOST_SUPPRESSED} keys; there are {n_keys}. Name "
            "fewer."
        )
    codes = np.ascontiguousarray(codes, np.int32)
    found = distinct(codes, n_levels)
    patterns = Patterns(codes[found.first], found.counts)
    cost = np.ones(n_keys) if costs is None else np.asarray(costs, np.float64)
    return _own_optimum(patterns, rule, cost)[found.place]


def cheapest_first(cost: Float64) -> Int64:
    """Sets of keys as bits (key j is bit j), in the order in which they are tried, (2^n_keys,).

    By cost, then number of keys, then order of the keys. Keys that are not suppressed cost nothing
    here: a set with one is tried for the records that lack it.
    """
    n_keys = len(cost)
    bits = np.arange(1 << n_keys, dtype=np.int64)
    members = (bits[:, None] >> np.arange(n_keys)) & 1
    total = np.where((members > 0) & np.isfinite(cost), cost, 0.0).sum(axis=1)
    # Keys read as digits, the first one foremost: of two sets the larger number comes first.
    digits = members @ (1 << np.arange(n_keys)[::-1])
    order: Int64 = np.lexsort((-digits, members.sum(axis=1), total))
    return order


def suppress_households(
    rows: Int32,
    layout: HouseholdLayout,
    of_key: Bool,
    rule: KAnonymity | RiskLimit,
    costs: Float64,
) -> Bool:
    """Find the cheapest keys to suppress so that every household is safe.

    A key is suppressed of all members of a household at once. A household of which a key is missing
    of some members loses it of all, since what is then known has no probability that the model
    tells.

    Parameters
    ----------
    rows
        (n, n_columns) of a layout.
    layout, of_key
        As of `HouseholdPatterns`.
    rule
        When a household is safe; its patterns are rows of the layout.
    costs
        (n_keys,) of suppressing a key of a household, above 0; infinity keeps it.

    Returns
    -------
    Bool
        (n, n_keys): what is suppressed, and what is missing of some members.
    """
    partly = (layout.unknown(rows)[:, None] & of_key).any(axis=2)
    whole = layout.hiding(rows, partly @ of_key)
    changed = (whole != rows).any(axis=1)
    n = int((changed & (partly & np.isinf(costs)).any(axis=1)).sum())
    if n:
        raise SpecError(
            f"{n:,} household(s) lack a key of some members that is not to be suppressed. To "
            "suppress values a key has to be known of all members or of none: let it be "
            "suppressed, recode it, or correct the file."
        )
    found = distinct(whole, [key.n_levels for key in layout.columns])
    patterns = HouseholdPatterns(whole[found.first], found.counts, layout, of_key)
    return _own_optimum(patterns, rule, costs)[found.place] | partly


def _own_optimum(
    patterns: Patterns | HouseholdPatterns, rule: KAnonymity | RiskLimit, cost: Float64
) -> Bool:
    """Cheapest set of keys that makes each pattern safe while all others stay, (C, n_keys).

    The keys that are not shown are tried from the cheapest set on. Of a pattern that lacks keys all
    its sets hold these, so they stand in the order of what is suppressed as well.
    """
    n_keys = len(cost)
    chosen = np.zeros(len(patterns.cells), np.int64)
    known = as_bits(patterns.knows)
    fixed = int(as_bits(np.isinf(cost)[None, :])[0])
    unsafe = np.arange(len(chosen))
    for hidden in cheapest_first(cost).tolist():
        if not len(unsafe):
            break
        shown = ((1 << n_keys) - 1) & ~hidden
        bits = known[unsafe]
        rows = unsafe[((bits & shown) == shown) & ((bits & hidden & fixed) == 0)]
        if not len(rows):
            continue
        safe = _safe(patterns, rule, rows, shown)
        chosen[rows[safe]] = hidden
        unsafe = np.setdiff1d(unsafe, rows[safe], assume_unique=True)
    if len(unsafe):
        _refuse(patterns, rule, unsafe, known[unsafe] & fixed)
    hidden_keys = ((chosen[:, None] >> np.arange(n_keys)) & 1) > 0
    found: Bool = hidden_keys & patterns.knows
    return found


def _safe(
    patterns: Patterns | HouseholdPatterns, rule: KAnonymity | RiskLimit, rows: Int64, shown: int
) -> Bool:
    """Whether patterns are safe that show some keys alone, (n_rows,)."""
    safe = patterns.matching(rows, shown) >= rule.needed
    unsure = np.flatnonzero(~safe)
    if len(unsure):
        safe[unsure] = rule.accepts(patterns.shown(rows[unsure], shown))
    return safe


def _refuse(
    patterns: Patterns | HouseholdPatterns,
    rule: KAnonymity | RiskLimit,
    unsafe: Int64,
    kept: Int64,
) -> None:
    """Say what is the best that can be reached where all that may be is suppressed."""
    totals, shown = [], []
    for bits in np.unique(kept).tolist():
        rows = np.repeat(unsafe[kept == bits], patterns.counts[unsafe[kept == bits]])
        totals.append(patterns.matching(rows, bits))
        shown.append(patterns.shown(rows, bits))
    raise SpecError(
        f"{rule.unreachable(np.concatenate(totals), np.concatenate(shown))} Ask for no more than "
        "that, merge levels of keys, or allow more keys to be suppressed."
    )
