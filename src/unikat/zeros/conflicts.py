"""Records that break a rule: counted, dropped, or their keys set missing.

A record breaks the rules if its combination of keys is impossible; an incomplete record does if all
its completions are. Either the data or the rules are wrong. A model of the possible combinations
cannot be fitted to such records, so they are handled before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.keys import MISSING
from unikat.data.numbers import ROWS_SHOWN, rows_shown
from unikat.data.patterns import distinct
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, brief, listed, suggest
from unikat.zeros.writing import rule_text

if TYPE_CHECKING:
    from unikat.zeros.zeros import Zeros

OnConflict: TypeAlias = Literal["stop", "drop", "missing"]
"""What is done with records that break a rule: nothing goes on; they are left out; or the keys that
the broken rules constrain are set missing in them."""
CONDITIONS_TOGETHER = "several conditions together"
"""The same for the conditions of a table."""
TOGETHER = "several rules together"
"""What stands for a rule where no single one forbids a record, but every completion of it."""
_MOST_RULES = 10
_LONGEST_SHOWN = 60
_MOST_AT_ONCE = 20_000_000


@dataclass(frozen=True, kw_only=True)
class BrokenRule:
    """A rule, and how many records break it."""

    name: str | None
    text: str
    n_records: int
    first_rows: tuple[int, ...]
    """Their first row numbers in the file; the first row is 1."""

    @property
    def rows_listed(self) -> str:
        """The first row numbers in a sentence."""
        return rows_shown(self.first_rows, self.n_records)


@dataclass(frozen=True, kw_only=True, eq=False)
class BrokenCondition:
    """A condition of a table, and the records that break it."""

    text: str
    """It as a rule."""
    share: float | None
    """Part of all combinations that it makes impossible; None of several together."""
    rows: Int64
    """Row numbers in the file; the first row is 1."""

    @property
    def n_records(self) -> int:
        """Records that break it."""
        return len(self.rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class Conflicts:
    """The records of a table that break a rule; made by :func:`find_conflicts`."""

    table: CellTable
    zeros: Zeros
    forbidden: Bool
    """(n_cells,): patterns that are impossible."""

    @property
    def n_records(self) -> int:
        """Records that break a rule."""
        return int(self.table.counts[self.forbidden].sum())

    @cached_property
    def rules(self) -> tuple[BrokenRule, ...]:
        """Every rule in its order, also one that no record breaks.

        A last one, :data:`TOGETHER`, is for incomplete records that no single rule forbids, where
        there are any. A record that breaks several rules counts for each.
        """
        found = [
            self._broken(rule.name, rule.text, self.patterns(position))
            for position, rule in enumerate(self.zeros.rules)
        ]
        together = self.patterns(len(found))
        if together.any():
            found.append(self._broken(None, TOGETHER, together))
        return tuple(found)

    def patterns(self, rule: int) -> Bool:
        """Patterns that break a rule by its position, (n_cells,); last, those of no one rule."""
        mask = np.zeros(len(self.forbidden), bool)
        mask[self._by_rule[rule]] = True
        return mask

    def rows(self, rule: int) -> Int64:
        """Row numbers of the records that break a rule by its position, the first row being 1."""
        return self._rows(self.patterns(rule))

    def conditions(self, rule: int) -> tuple[BrokenCondition, ...]:
        """Conditions of a table that records break, by the position of its rule.

        Those that most records break come first; nothing for a rule that is no table. A last one,
        :data:`CONDITIONS_TOGETHER`, is for incomplete records that no single one forbids.
        """
        if rule >= len(self.zeros.rules) or not self.zeros.rules[rule].from_table:
            return ()
        table, where = self.zeros.rules[rule], self._by_rule[rule]
        cells, alone = self.table.cells[where], np.zeros(len(where), bool)
        found = []
        for condition, broken in _broken_conditions(cells, table.conditions, table.offsets):
            alone |= broken
            sets = {
                j: np.flatnonzero(condition[start:end]).tolist()
                for j, (start, end) in enumerate(
                    zip(table.offsets[:-1], table.offsets[1:], strict=True)
                )
                if not condition[start:end].all()
            }
            text = rule_text(self.table.keys, sets)
            share = prod(len(levels) / table.n_levels[j] for j, levels in sets.items())
            found.append(self._condition(text, share, where[broken]))
        found.sort(key=lambda one: -one.n_records)
        if not alone.all():
            found.append(self._condition(CONDITIONS_TOGETHER, None, where[~alone]))
        return tuple(found)

    def _condition(self, text: str | None, share: float | None, where: Int64) -> BrokenCondition:
        patterns = np.zeros(len(self.forbidden), bool)
        patterns[where] = True
        return BrokenCondition(
            text=text or "a condition whose labels no rule can hold",
            share=share,
            rows=self._rows(patterns),
        )

    def message(self, name: str) -> str:
        """Say how many records break which rule, in which rows, and what can be done."""
        n, total = self.n_records, self.table.n_records
        breaks = "breaks" if n == 1 else "break"
        return broken_told(
            f"{n:,} of {total:,} records {breaks} a rule of what is impossible, in {name}:",
            self.rules,
            ("row ({})", "rows ({})"),
            "Correct the rules or the file (`unikat zeros check` lists all rows); or leave "
            'these records out with --zeros-conflict drop (on_conflict="drop"), or set the '
            "keys of the broken rules missing in them with --zeros-conflict missing "
            '(on_conflict="missing").',
        )

    @cached_property
    def _by_rule(self) -> tuple[Int64, ...]:
        """Rows of the forbidden patterns by rule, and last of those that no single one forbids."""
        where = np.flatnonzero(self.forbidden)
        cells = self.table.cells[where]
        alone, found = np.zeros(len(where), bool), []
        for rule in self.zeros.rules:
            broken = rule.forbids(cells)
            alone |= broken
            found.append(where[broken])
        return (*found, where[~alone])

    def _rows(self, patterns: Bool) -> Int64:
        return np.flatnonzero(patterns[self.table.record_cell]).astype(np.int64) + 1

    def _broken(self, name: str | None, text: str, patterns: Bool) -> BrokenRule:
        n = int(self.table.counts[patterns].sum())
        rows = self._rows(patterns)[:ROWS_SHOWN].tolist() if n else []
        return BrokenRule(name=name, text=text, n_records=n, first_rows=tuple(rows))


@dataclass(frozen=True, kw_only=True, eq=False)
class Handled:
    """A table without impossible records, and what was done to the records that were.

    Examples
    --------
    >>> import unikat
    >>> table = unikat.tabulate([[30, 1], [5, 1], [5, 0]], ["AGE", "MARRIED"], population_size=100)
    >>> zeros = unikat.Zeros.of(["AGE < 14 and MARRIED == 1"], table.keys)
    >>> handled = unikat.apply_zeros(table, zeros, "drop")
    >>> handled.n_dropped, handled.in_conflict.tolist()
    (1, [False, True, False])
    """

    table: CellTable
    """With the possible cells; without the records that were left out."""
    on_conflict: OnConflict
    conflicts: Conflicts

    @property
    def n_dropped(self) -> int:
        """Records that were left out."""
        return self.conflicts.n_records if self.on_conflict == "drop" else 0

    @property
    def n_set_missing(self) -> int:
        """Records in which keys were set missing."""
        return self.conflicts.n_records if self.on_conflict == "missing" else 0

    @property
    def in_conflict(self) -> Bool:
        """Records of the file that broke a rule, (n_rows,) in the order of the file."""
        return self.conflicts.forbidden[self.conflicts.table.record_cell]

    @property
    def kept(self) -> Bool:
        """Records of the file that the table holds, (n_rows,) in the order of the file."""
        if self.on_conflict == "drop":
            return ~self.in_conflict
        return np.ones(self.conflicts.table.n_records, bool)


def check_on_conflict(on_conflict: str) -> None:
    """Refuse an unknown way to handle records that break a rule (SpecError)."""
    choices = get_args(OnConflict)
    if on_conflict not in choices:
        raise SpecError(
            f"on_conflict={on_conflict!r} is not known; use one of "
            f"{', '.join(map(repr, choices))}.{suggest(str(on_conflict), choices)}"
        )


def find_conflicts(table: CellTable, zeros: Zeros) -> Conflicts:
    """Find the records that break a rule."""
    if [(key.name, key.labels) for key in zeros.keys] != [
        (key.name, key.labels) for key in table.keys
    ]:
        raise SpecError(
            "The rules were made for other keys, or other levels of them, than the table has; "
            "make them with the keys of the table."
        )
    return Conflicts(table=table, zeros=zeros, forbidden=zeros.forbids(table.cells))


def apply_zeros(
    table: CellTable, zeros: Zeros, on_conflict: OnConflict = "stop", *, name: str = "the data"
) -> Handled:
    """Give a table its impossible combinations, and handle the records that have one.

    Parameters
    ----------
    table
        The sample.
    zeros
        The rules, over the keys of the table.
    on_conflict
        ``"stop"`` refuses the table; ``"drop"`` leaves the records out; ``"missing"`` sets the
        keys that the broken rules constrain missing in them.
    name
        What the data are called in messages.

    Returns
    -------
    Handled
        `table` is ready to be sampled. None of its patterns is impossible.

    Raises
    ------
    DataError
        If records break rules and `on_conflict` is ``"stop"``; or nothing is left when they are
        dropped; or a key cannot be set missing. Row numbers are told, never values.
    SpecError
        If the rules do not fit the table.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> from unikat.zeros import Zeros
    >>> keys = [Key.of_size("AGE", 90), Key.of_size("MARRIED", 2)]
    >>> table = CellTable.from_codes([[30, 1], [5, 1], [5, 0]], keys, population_size=100)
    >>> handled = apply_zeros(table, Zeros.of(["AGE < 14 and MARRIED == 1"], keys), "drop")
    >>> handled.table.n_records, handled.kept.tolist()
    (2, [True, False, True])
    """
    check_on_conflict(on_conflict)
    conflicts = find_conflicts(table, zeros)
    handled = table
    if conflicts.n_records:
        if on_conflict == "stop":
            raise DataError(conflicts.message(name))
        if on_conflict == "drop":
            handled = _without(table, conflicts, name)
        else:
            handled = _with_missing(table, conflicts)
    return Handled(
        table=replace(handled, zeros=zeros.diagram), on_conflict=on_conflict, conflicts=conflicts
    )


def _without(table: CellTable, conflicts: Conflicts, name: str) -> CellTable:
    possible = ~conflicts.forbidden
    if not possible.any():
        raise DataError(
            f"Every record in {name} breaks a rule, so none would be left; correct the rules."
        )
    place = np.cumsum(possible, dtype=np.int64).astype(np.int32) - 1
    kept = np.flatnonzero(possible[table.record_cell])
    record_cell = table.record_cell[kept]
    sampling = None if table.sampling is None else table.sampling.taken(kept)
    if sampling is not None and not sampling.n_sampled.all():
        lost = int(np.count_nonzero(sampling.n_sampled == 0))
        raise DataError(
            f"Without the records of {name} that break a rule {lost} of {sampling.n_strata} "
            "classes of the design (strata, or records of about the same weight) have no record "
            "left, so nothing would be known of their units. Correct the rules or the records, "
            "or set the keys missing instead (--zeros-conflict missing)."
        )
    return replace(
        table,
        sampling=sampling,
        cells=np.ascontiguousarray(table.cells[possible]),
        counts=table.counts[possible],
        record_cell=place[record_cell],
        households=None if table.households is None else table.households[kept],
    )


def _with_missing(table: CellTable, conflicts: Conflicts) -> CellTable:
    zeros, where = conflicts.zeros, np.flatnonzero(conflicts.forbidden)
    cells = table.cells[where].copy()
    codes = _missing_codes(table, [j for rule in zeros.rules for j in rule.constrained])
    left = np.ones(len(cells), bool)
    # What one condition leaves possible another may still forbid; every round sets a key.
    while left.any():
        rows = np.flatnonzero(left)
        before = cells[rows]
        after = np.where(_keys_to_go(before, zeros), codes, before)
        stuck = (after == before).all(axis=1)
        if stuck.any():
            raise DataError(
                f"{int(table.counts[where[rows[stuck]]].sum()):,} records are impossible also "
                "with the keys of the broken rules missing, because a rule forbids the missing "
                "level; leave them out with --zeros-conflict drop, or change the rule."
            )
        cells[rows] = after
        left[rows] = zeros.forbids(after)
    new = table.cells.copy()
    new[where] = cells
    return _regrouped(table, new)


def _broken_conditions(
    patterns: Int32, conditions: Bool, offsets: Int64
) -> Iterator[tuple[Bool, Bool]]:
    """Yield conditions that forbid patterns all by themselves, and these, (n,)."""
    step = max(1, _MOST_AT_ONCE // max(1, len(patterns)))
    for start in range(0, len(conditions) if len(patterns) else 0, step):
        some = conditions[start : start + step]
        inside = np.ones((len(patterns), len(some)), bool)
        for j in range(len(offsets) - 1):
            sets = some[:, offsets[j] : offsets[j + 1]]
            # A missing key (-1) is in a set that holds all levels: the last column.
            inside &= np.column_stack([sets, sets.all(axis=1)]).T[patterns[:, j]]
        for position in np.flatnonzero(inside.any(axis=0)):
            yield some[position], inside[:, position]


def _keys_to_go(patterns: Int32, zeros: Zeros) -> Bool:
    """Keys that make patterns impossible, (n, n_keys).

    Those of the conditions that forbid a pattern by themselves; where none does, but every
    completion is forbidden by one or another, those of all conditions that forbid a completion.
    """
    n_keys, offsets = patterns.shape[1], zeros.offsets
    alone = np.zeros(patterns.shape, bool)
    partly = np.zeros(patterns.shape, bool)
    for condition in zeros.conditions:
        sets = [condition[offsets[j] : offsets[j + 1]] for j in range(n_keys)]
        keys = [j for j in range(n_keys) if not sets[j].all()]
        forbids = np.ones(len(patterns), bool)
        may_forbid = forbids.copy()
        for j in keys:
            known = patterns[:, j] != MISSING
            inside = known & sets[j][patterns[:, j]]
            forbids &= inside
            may_forbid &= inside | ~known
        constrained = np.isin(np.arange(n_keys), keys)
        alone |= np.outer(forbids, constrained)
        partly |= np.outer(may_forbid, constrained)
    return np.where(alone.any(axis=1, keepdims=True), alone, partly)


def _missing_codes(table: CellTable, columns: Iterable[int]) -> Int32:
    """Code that stands for missing, by key; refuse keys that have none."""
    codes = np.full(table.n_keys, MISSING, np.int32)
    if table.missing != "level":
        return codes
    lacking = []
    for j in sorted(set(columns)):
        level = table.keys[j].missing_level
        if level is None:
            lacking.append(table.keys[j].name)
        else:
            codes[j] = level
    if lacking:
        names = listed([repr(name) for name in lacking])
        raise DataError(
            f"Missing is a level of its own, but no record lacks {names}, so there is "
            "no such level to set. Leave the records out with --zeros-conflict drop, or integrate "
            "over missing keys with --missing integrate."
        )
    return codes


def _regrouped(table: CellTable, cells: Int32) -> CellTable:
    """Give the patterns other codes, and bring those together that have become the same."""
    first, place, _ = distinct(cells, table.n_levels)
    counts = np.zeros(len(first), np.int64)
    np.add.at(counts, place, table.counts)
    return replace(
        table,
        cells=np.ascontiguousarray(cells[first]),
        counts=counts,
        record_cell=place.astype(np.int32)[table.record_cell],
    )


def shown(rule: BrokenRule) -> str:
    """Return what one line calls a rule: its name, or the beginning of its text."""
    return cut(rule.name or rule.text)


def cut(text: str) -> str:
    """Return a text on one line; of a long one the beginning and the end."""
    return brief(text, _LONGEST_SHOWN)


def broken_told(head: str, rules: Sequence[BrokenRule], units: tuple[str, str], remedy: str) -> str:
    """Return a message with a line for each broken rule, the first ones of many.

    Parameters
    ----------
    head, remedy
        The first line and the last one.
    rules
        All rules.
    units
        What breaks them, one and several, with the place of the row numbers.
    """
    broken = [rule for rule in rules if rule.n_records]
    lines = [
        f"{shown(rule)}: {rule.n_records:,} " + units[rule.n_records != 1].format(rule.rows_listed)
        for rule in broken[:_MOST_RULES]
    ]
    if len(broken) > _MOST_RULES:
        lines.append(f"... and {len(broken) - _MOST_RULES} more rules")
    return "\n  ".join([head, *lines, remedy])
