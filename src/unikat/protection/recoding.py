"""Recodings: groups of levels of each key, from what is asked for, and the table they give."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.hand_groups import check_group_names, row_of_codes
from unikat.data.hierarchies import Hierarchy
from unikat.data.households import HouseholdLayout
from unikat.data.keys import Key
from unikat.data.margins import recoded_margins
from unikat.data.named_levels import Levels, level_names
from unikat.data.numbers import number_shown
from unikat.data.patterns import distinct
from unikat.data.structure import Structure, n_named, order_of, valid_part
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief, listed, option, shown, suggest
from unikat.language.dates import checked_period
from unikat.language.keys import Call
from unikat.protection.edges import NUMBER_RULES, numbers_grouped
from unikat.protection.groups import bands, called, joined_name, periods, rare_levels
from unikat.protection.trees import Grouping, paths_for
from unikat.spec.recodings import LEFT_OUT

Rule: TypeAlias = "str | Mapping[Any, Any] | Sequence[Sequence[Any]] | None"
"""How a key is recoded: a rule such as ``"width(10)"``, a mapping of levels to groups, a list of
lists of levels, or None to leave the key out."""

_SHARES = ("rare", "bands", "local")
_FORMS = (
    "width(10), cut(18,65), quantile(4), top(80), bottom(20), rare(0.05), bands(0.05), join(A,B), "
    "prefix(2), level(1) or local(0.05); of dates year, quarter, month or years(5)"
)


@dataclass(frozen=True, kw_only=True, eq=False)
class KeyRecoding:
    """What becomes of one key.

    Parameters
    ----------
    name
        Of the key.
    text
        What is done, in words for a reader: ``"width(10)"``, ``"dropped"``.
    groups
        (n_levels,): group of each level; every level in group 0 where the key is left out.
    key
        The recoded key, its levels the groups; None where it is left out.
    stays
        (n_levels,): levels that are written as they were; none of a key that was read in groups.
    rule
        What recodes other records in the same way: quantiles as edges, rare levels by name.
    named
        All levels, where the rule names levels; None elsewhere.
    whole
        Whether groups of numbers are called as those of whole numbers are; None of other rules.
    """

    name: str
    text: str
    groups: Int32
    key: Key | None
    stays: Bool
    rule: str | Mapping[str, str] | None = field(default=None, compare=False)
    named: tuple[str, ...] | None = None
    whole: bool | None = None
    rest: str | None = None
    """The group of all rare levels, where there is one."""
    labels: Mapping[str, str] = field(default_factory=dict, compare=False, repr=False)
    """What groups are called that have codes of a hierarchy as names."""
    title: str = field(default="", compare=False)
    """What the groups are: `ISCO-08 major group`; of ages `years`."""

    @property
    def changes(self) -> bool:
        """Whether a value becomes another one, or the key is left out.

        A group of one level has a name too: its value would tell more than the plan shows.
        """
        return self.key is None or (self.rule is not None and not self.stays.all())

    def left_out(self) -> KeyRecoding:
        """The same key left out."""
        nothing = np.zeros(len(self.groups), np.bool_)
        groups = np.zeros(len(self.groups), np.int32)
        return KeyRecoding(
            name=self.name, text=LEFT_OUT, groups=groups, key=None, stays=nothing, rule=LEFT_OUT
        )

    def is_coarser(self, other: KeyRecoding) -> bool:
        """Whether each group of the other lies in one group of this one (so does each of its own).

        A key that is left out is coarser than any.
        """
        if self.key is None:
            return True
        if other.key is None:
            return False
        pairs = np.unique(np.column_stack((other.groups, self.groups)), axis=0)
        return len(pairs) == other.key.n_levels


@dataclass(frozen=True, kw_only=True, eq=False)
class Recoding:
    """What becomes of all keys of a table: of `recodable`, which of records are in their order."""

    keys: tuple[KeyRecoding, ...]
    held: Bool | None = None
    """(n_records,): records that are held back (`protection.subsample`); None: as of the table."""

    @property
    def kept(self) -> tuple[int, ...]:
        """Places of the keys that are not left out."""
        return tuple(j for j, one in enumerate(self.keys) if one.key is not None)

    @property
    def changes(self) -> bool:
        """Whether any key is recoded."""
        return any(one.changes for one in self.keys)

    def check_kept(self) -> None:
        """Refuse to leave all keys out (SpecError)."""
        if not self.kept:
            raise SpecError(
                "All keys are left out, so nothing is left to publish; keep at least one."
            )

    def codes(self, codes: Int32) -> Int32:
        """Recode records (n, n_keys), -1 where missing; the columns are the keys that are kept."""
        return Columns(tuple(one.groups for one in self.keys), self.kept).codes(codes)

    def table(self, table: CellTable) -> CellTable:
        """Return the table of the recoded records.

        A record whose last known key is left out has no key any more; all its keys are missing.
        A household whose members have no key any more is a record of its own keys and its size.
        """
        layout = None if table.layout is None else self._layout(table.layout)
        cells = self.columns(table).codes(table.cells)
        if layout is not None:
            cells, keys = layout.canonical(cells), layout.columns
        elif table.layout is not None:
            keys = self._of_households(table.layout)
        else:
            keys = tuple(one.key for one in self.keys if one.key is not None)
        found = distinct(cells, [key.n_levels for key in keys])
        return replace(
            table,
            keys=keys,
            cells=np.ascontiguousarray(cells[found.first], np.int32),
            counts=np.bincount(found.place, table.counts).astype(np.int64),
            record_cell=found.place[table.record_cell].astype(np.int32),
            # Impossible cells of recoded keys hold no record, and their law is the model's.
            zeros=None,
            clues=(),
            layout=layout,
            margins=recoded_margins(table.margins, *self.columns(table)),
            held=table.held if self.held is None else self.held,
        )

    def columns(self, table: CellTable) -> Columns:
        """What becomes of the columns of a table: of a table of households, see its layout."""
        if table.layout is None:
            return Columns(tuple(one.groups for one in self.keys), self.kept)
        layout, by_name = table.layout, self._by_name
        groups = [np.arange(layout.household_keys[0].n_levels, dtype=np.int32)]
        kept = [True]
        for key in layout.household_keys[1:]:
            one = by_name[layout.name_of(key)]
            groups.append(one.groups)
            kept.append(one.key is not None)
        of_members = [by_name[key.name] for key in layout.person_keys]
        for one in of_members * layout.n_slots:
            # One group more: no such member.
            groups.append(np.append(one.groups, one.groups.max() + 1).astype(np.int32))
            kept.append(one.key is not None)
        return Columns(tuple(groups), tuple(np.flatnonzero(kept).tolist()))

    @property
    def _by_name(self) -> dict[str, KeyRecoding]:
        return {one.name: one for one in self.keys}

    def _of_households(self, layout: HouseholdLayout) -> tuple[Key, ...]:
        """Keys of recoded households, the size first."""
        keys = [(key, self._by_name[layout.name_of(key)].key) for key in layout.household_keys[1:]]
        found = (replace(coarse, name=key.name) for key, coarse in keys if coarse is not None)
        return (layout.household_keys[0], *found)

    def _layout(self, layout: HouseholdLayout) -> HouseholdLayout | None:
        """The layout of recoded households; None if their members have no key any more."""
        coarse = [self._by_name[key.name].key for key in layout.person_keys]
        kept = [k for k, key in enumerate(coarse) if key is not None]
        if not kept:
            return None
        return replace(
            layout,
            household_keys=self._of_households(layout),
            person_keys=tuple(key for key in coarse if key is not None),
            # Those of the keys as they were; their law is the model's, see `refit_rules`.
            rules=None,
            role=kept.index(layout.role) if layout.role in kept else -1,
        )


class Columns(NamedTuple):
    """What becomes of the columns of a table."""

    groups: tuple[Int32, ...]
    """(n_levels,) of each: group of each level."""
    kept: tuple[int, ...]
    """Those that are not left out."""

    def codes(self, codes: Int32) -> Int32:
        """Recode rows (n, n_columns), -1 where missing; the columns are those that are kept."""
        columns = [np.where(codes[:, j] >= 0, self.groups[j][codes[:, j]], -1) for j in self.kept]
        return np.stack(columns, axis=1).astype(np.int32)


def recodable(table: CellTable) -> tuple[Key, ...]:
    """Return the keys of a table that can be recoded.

    Of households all but the size; a key that the head has apart is that of the members.
    """
    layout = table.layout
    if layout is None:
        return table.keys
    return tuple(key for key in layout.variables if layout.name_of(key) == key.name)


def parse_recoding(table: CellTable, rules: Mapping[str, Rule]) -> Recoding:
    """Make the recoding of a table from rules by key; keys without one stay as they are.

    Parameters
    ----------
    table
        The sample. Quantiles and rare levels are those of its records.
    rules
        For each key that is recoded, ``"width(w)"``: groups [k w, (k + 1) w) of numbers;
        ``"cut(a,b,...)"``: groups between edges; ``"quantile(q)"``: q groups of about as many
        records; ``"top(a)"``: one group of a and above; ``"bottom(a)"``: one of a and below;
        ``"rare(s)"``: one group of all levels with less than a share s of the records;
        ``"bands(s)"``: adjacent levels of an ordered key joined until each band has that share;
        ``"level(n)"``: groups of a hierarchy, 1 being the top; ``"local(s)"``: the same where a
        level has less than a share s; ``"prefix(n)"``: codes by their first n characters;
        ``"month"``, ..., ``"years(n)"``: periods of dates; ``"join(A,B)"``: these levels joined; a
        mapping of levels (or labels) to names of groups; a list of lists of levels, each a group;
        or None: the key is left out. Levels that are not named stay as they are, and so do those
        that are declared missing. Missing values stay missing.

    Raises
    ------
    SpecError
        If a key, level or rule is not known; if a group of the key does not lie in one group of the
        rule; if all keys are left out.
    """
    if not isinstance(rules, Mapping):
        raise SpecError(
            "A recoding is a mapping of keys to rules, as in {'age': 'width(10)', 'region': None}; "
            f"it is {shown(rules)}. Keys that it does not name stay as they are."
        )
    keys = recodable(table)
    names = [key.name for key in keys]
    for name in rules:
        if name not in names:
            raise SpecError(
                f"{brief(str(name))!r} is none of the keys: {listed(names)}."
                + suggest(str(name), names)
            )
    counts = level_counts(table)
    found = Recoding(
        keys=tuple(
            recode_key(key, counts[j], rules[key.name]) if key.name in rules else unchanged(key)
            for j, key in enumerate(keys)
        )
    )
    found.check_kept()
    return found


def level_counts(table: CellTable) -> list[Int64]:
    """Records of each level of each key; of incomplete records those that are known.

    Of `recodable` keys. Of households those are households, for keys of members persons.
    """
    found = []
    for key in recodable(table):
        counts = np.zeros(key.n_levels)
        for j in table.columns_of(key.name):
            known = (table.cells[:, j] >= 0) & (table.cells[:, j] < key.n_levels)
            counts += np.bincount(
                table.cells[known, j], table.counts[known], minlength=key.n_levels
            )
        found.append(counts.astype(np.int64))
    return found


def unchanged(key: Key) -> KeyRecoding:
    """Leave a key as it is."""
    return KeyRecoding(
        name=key.name,
        text="as it is",
        groups=np.arange(key.n_levels, dtype=np.int32),
        key=key,
        stays=np.full(key.n_levels, key.binning is None),
    )


def recode_key(
    key: Key,
    counts: Int64,
    rule: Rule,
    *,
    whole: bool | None = None,
    apart: Set[int] = frozenset(),
) -> KeyRecoding:
    """Recode a key; see `parse_recoding`.

    Parameters
    ----------
    key, rule
        What is recoded, and how.
    counts
        (n_levels,): records of each level.
    whole
        Whether groups of numbers are called as those of whole numbers are; None: if all are whole.
    apart
        Levels that a rule which finds the groups itself does not join with each other.
    """
    if rule is None or rule == LEFT_OUT:
        return unchanged(key).left_out()
    if isinstance(rule, str):
        valid, places = valid_part(key)
        if len(places) == n_named(key):
            return _by_rule(key, counts, rule, whole, apart)
        if not len(places):
            return unchanged(key)
        of_valid = frozenset(np.flatnonzero(np.isin(places, list(apart))).tolist())
        one = _by_rule(valid, counts[places], rule, whole, of_valid)
        return beside_declared(key, places, one)
    levels = Levels(key=key)
    if isinstance(rule, Mapping):
        named = [(level, str(group)) for level, group in rule.items()]
        check_group_names(key, {group for _, group in named})
        text = "groups " + listed(list(dict.fromkeys(group for _, group in named)))
    elif not isinstance(rule, (list, tuple)):
        raise SpecError(
            f"Key {key.name!r}: a recoding is {type(rule).__name__}; write {_FORMS}, a mapping of "
            "levels to groups, a list of lists of levels, or none to leave the key out."
        )
    else:
        parts = [part if isinstance(part, (list, tuple)) else [part] for part in rule]
        joined = [_after_levels(key, levels, part) for part in parts]
        named = [(level, joined[i]) for i, part in enumerate(parts) for level in part]
        text = "groups " + listed(joined)
    group_of: list[str | None] = [None] * levels.n_named
    seen: dict[int, object] = {}
    for level, group in named:
        codes = levels.called(level)
        if len(codes) != 1:
            many = "several levels" if codes else "no level"
            raise SpecError(
                f"Key {key.name!r}, recoding: {brief(str(level))!r} is {many} of the key. Name "
                f"levels by their value or label.{levels.hint(str(level))}"
            )
        (code,) = codes
        if code in seen:
            raise SpecError(
                f"Key {key.name!r}, recoding: {brief(str(level))!r} is named twice; put each level "
                "in one group."
            )
        seen[code] = level
        group_of[code] = group
    by_level = {str(level): group for level, group in named}
    return grouped(key, group_of, text, by_level)


def beside_declared(key: Key, codes: Int64, one: KeyRecoding) -> KeyRecoding:
    """Recode a key as its valid levels, at `codes`, are; those declared missing stay apart."""
    if one.key is None:
        return unchanged(key).left_out()
    if one.rule is None:
        return unchanged(key)
    group_of: list[str | None] = [None] * Levels(key=key).n_named
    for code, group in zip(codes.tolist(), one.groups.tolist(), strict=True):
        group_of[code] = None if one.stays[codes == code][0] else one.key.labels[group]
    return replace(
        grouped(key, group_of, one.text, one.rule),
        whole=one.whole,
        rest=one.rest,
        named=one.named and tuple(dict.fromkeys([*level_names(key), *one.named])),
        labels=one.labels,
        title=one.title,
    )


def _after_levels(key: Key, levels: Levels, part: Sequence[object]) -> str:
    """Name of a group of levels that are listed: by their labels."""
    codes = [levels.called(level) for level in part]
    return joined_name(
        [
            key.labels[next(iter(found))] if len(found) == 1 else str(level)
            for level, found in zip(part, codes, strict=True)
        ]
    )


def _by_rule(
    key: Key, counts: Int64, text: str, whole: bool | None, apart: Set[int]
) -> KeyRecoding:
    call = Call.of(text)
    rule, numbers = ("", ()) if call is None else (call.word, call.numbers)
    if call is not None and rule == "join":
        if len(call.arguments) < 2:
            what = f"Key {key.name!r}: {brief(text)!r} joins nothing"
            raise SpecError(f"{what}; name two levels or more, as in join(A,B).")
        return recode_key(key, counts, [list(call.arguments)])
    if (period := checked_period(call, f"Key {key.name!r}, {brief(text)!r}")) is not None:
        return grouped(key, periods(key, period), str(period), str(period))
    if rule not in (*NUMBER_RULES, *_SHARES, "prefix", "level"):
        raise SpecError(
            f"Key {key.name!r}: the recoding {brief(text)!r} is not known; write {_FORMS}, a "
            "mapping of levels to groups, or none to leave the key out."
        )
    if not numbers or (rule != "cut" and len(numbers) > 1):
        raise SpecError(f"Key {key.name!r}: {brief(text)!r} is malformed; write {_FORMS}.")
    shown = f"{rule}({','.join(number_shown(number) for number in numbers)})"
    if rule in ("prefix", "level"):
        if not numbers[0].is_integer() or numbers[0] < 1:
            raise SpecError(f"Key {key.name!r}: {shown} needs a whole number, at least 1.")
        return _higher(key, rule, int(numbers[0]), shown)
    if rule in _SHARES:
        return _by_share(key, counts, rule, numbers[0], shown, apart)
    by_number = numbers_grouped(key, counts, rule, numbers, shown, whole)
    one = grouped(key, by_number.group_of, shown, by_number.frozen)
    title = "years" if Structure.of(key).is_age else ""
    return replace(one, whole=by_number.whole, title=title)


def _by_share(
    key: Key, counts: Int64, rule: str, share: float, shown: str, apart: Set[int]
) -> KeyRecoding:
    """Join levels with few records: all, of an ordered key adjacent ones, or those of a branch."""
    if not 0.0 < share < 1.0:
        raise SpecError(f"Key {key.name!r}: {shown} needs a share between 0 and 1, as in 0.05.")
    if rule == "local":
        return _of_paths(key, paths_for(key, shown).local(counts, share, apart), shown)
    if rule == "bands" and order_of(key) is None:
        raise SpecError(
            f"Key {key.name!r}: {shown} joins adjacent levels, and the levels have no order. Take "
            "rare(0.05), or say that they are in order: "
            f"{option('levels', f'{key.name}: ordered')}; a codebook tells which order that is."
        )
    group_of = (bands if rule == "bands" else rare_levels)(key, counts, share, apart)
    names = level_names(key)
    by_level = {names[code]: group for code, group in enumerate(group_of) if group is not None}
    rest = next(iter(by_level.values()), None) if rule == "rare" else None
    return replace(grouped(key, group_of, shown, by_level), rest=rest)


def _higher(key: Key, rule: str, n: int, shown: str) -> KeyRecoding:
    """Put levels into groups of a height of their hierarchy, or of their first characters."""
    if rule == "level":
        return _of_paths(key, paths_for(key, shown).level(n), shown)
    names = level_names(key)
    if key.binning is not None or not any(len(name) > n for name in names):
        raise SpecError(
            f"Key {key.name!r}: {shown} keeps the first characters of codes, and no level has more."
        )
    groups = {name[:n] for name in names if len(name) > n}
    group_of = [name[:n] if name[:n] in groups else None for name in names]
    return grouped(key, group_of, shown, shown)


def _of_paths(key: Key, found: Grouping, shown: str) -> KeyRecoding:
    check_group_names(key, {*found.by_level.values(), *found.labels.values()})
    one = grouped(key, found.group_of, shown, found.by_level)
    named = dict.fromkeys([*level_names(key), *found.by_level])
    return replace(one, named=tuple(named), labels=found.labels, title=found.title)


def by_hierarchy(key: Key, hierarchy: Hierarchy) -> list[KeyRecoding]:
    """Recode a key by each column of a hierarchy; a column of one group leaves the key out."""
    names, row_of = level_names(key), row_of_codes(key, hierarchy)
    # Levels of the file by their values there; others as the hierarchy has them, for other files.
    by_row = {row: names[code] for code, row in row_of.items()}
    texts = [by_row.get(row, text) for row, text in enumerate(hierarchy.levels)]
    found = []
    for column, groups in enumerate(hierarchy.groups, start=2):
        check_group_names(key, set(groups))
        if len(set(groups)) == 1:
            found.append(unchanged(key).left_out())
            continue
        # A level that is a group of its own name stays as it is.
        n_of, rows = Counter(groups), zip(texts, groups, strict=True)
        other = [None if text == group and n_of[group] == 1 else group for text, group in rows]
        by_level = {text: group for text, group in zip(texts, other, strict=True) if group}
        named = [other[row_of[code]] for code in range(len(names))]
        text = f"in the groups of column {column} of {hierarchy.name}"
        title = hierarchy.titles[column - 2] if column - 2 < len(hierarchy.titles) else ""
        one = grouped(key, named, text, by_level)
        found.append(replace(one, named=tuple(texts), labels=hierarchy.labels, title=title))
    return found


def grouped(
    key: Key, group_of: Sequence[str | None], text: str, rule: str | Mapping[str, str]
) -> KeyRecoding:
    """Merge levels of one group, None being a group of its own; so is what means missing."""
    n = Levels(key=key).n_named
    groups_named = {group for group in group_of if group is not None}
    if "" in groups_named:
        raise SpecError(
            f"Key {key.name!r}, recoding: a group has no name, which is what a missing value is "
            "written as; name it."
        )
    alone = [code for code, group in enumerate(group_of) if group is None]
    if any(not groups_named.isdisjoint(called(key, code)) for code in alone):
        raise SpecError(
            f"Key {key.name!r}, recoding: a group has the name of a level that is not in it; "
            "name the group otherwise, or put that level in it."
        )
    named = [code if group is None else group for code, group in enumerate(group_of)]
    place = {group: number for number, group in enumerate(dict.fromkeys(named))}
    groups = np.array([place[group] for group in named], np.int32)
    # A named group is its name even where it has one level: its value would tell that level.
    first = np.unique(groups, return_index=True)[1].tolist()
    levels: list[object] = []
    labels: list[str] = []
    for code, group in zip(first, place, strict=True):
        labels.append(group if isinstance(group, str) else key.labels[code])
        levels.append(group if isinstance(group, str) else key.levels[code])
    private = {place[code] for code in key.private if code in place}
    stays = np.array([group is None and key.binning is None for group in group_of], np.bool_)
    if key.missing_level is not None:
        groups = np.append(groups, len(place)).astype(np.int32)
        stays = np.append(stays, True)
        levels.append(None)
        labels.append(key.labels[key.missing_level])
    return KeyRecoding(
        name=key.name,
        text=text,
        groups=groups,
        stays=stays,
        rule=rule,
        named=None if isinstance(rule, str) else tuple(level_names(key)),
        key=Key(
            name=key.name,
            levels=tuple(levels),
            labels=tuple(labels),
            binning=key.binning if len(place) == n else None,
            private=frozenset(private),
            declared_missing=frozenset(
                group
                for group in range(len(place))
                if set(np.flatnonzero(groups == group).tolist()) <= key.declared_missing
            ),
            ordered=key.ordered if (np.diff(groups[:n]) >= 0).all() else None,
        ),
    )
