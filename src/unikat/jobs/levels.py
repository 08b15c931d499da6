"""What a level editor shows of a key: its levels with the risk that they carry, and its groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from unikat._typing import AnyArray, Bool, Float64, Int64
from unikat.data.keys import Key
from unikat.data.named_levels import level_names
from unikat.data.structure import n_named
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.jobs.form_preview import key_counts
from unikat.language.levels import FOUND, Group, LevelGroups
from unikat.protection.by_hand import meant, recode_by_hand
from unikat.protection.hierarchies import Choices, choices
from unikat.protection.recoding import (
    KeyRecoding,
    Recoding,
    Rule,
    level_counts,
    recodable,
    recode_key,
    unchanged,
)
from unikat.protection.trees import Paths
from unikat.report.facts.breakdown import sums_by_level
from unikat.report.facts.levels import LevelsFacts
from unikat.report.text.plan_words import key_words, kind_words
from unikat.report.text.words import say
from unikat.risk.estimate import RiskEstimate
from unikat.risk.limits import smallest


@dataclass(frozen=True, kw_only=True)
class Level:
    """A level of a key as it is."""

    value: str
    """As it stands in the file."""
    label: str
    n: int
    """Records."""
    risk: float
    """Expected population uniques among them."""
    path: tuple[str, ...]
    """Groups of a hierarchy that it is in, from the top; none of other keys."""
    valid: bool
    """Whether it can be joined with others: it is not declared missing."""


@dataclass(frozen=True, kw_only=True)
class KeyLevels:
    """The levels of a key. The code of a level is its place."""

    name: str
    title: str
    """Label of the column in a statistical file; else empty."""
    kind: str
    """`nominal`, `ordered`, `hierarchical` or `numeric`."""
    words: str
    """Kind and why, as a sentence."""
    levels: tuple[Level, ...]
    order: tuple[int, ...]
    """Valid levels from the lowest to the highest; empty if they have no order."""
    labels: dict[str, str]
    """What groups of a hierarchy are called."""
    heights: tuple[str, ...]
    """What the groups of each height of a hierarchy are, from the top; `` `` where that is not
    known."""
    n_missing: int
    """Records without a value."""


@dataclass(frozen=True, kw_only=True)
class KeyGroups:
    """The groups of a recoded key; those of one level included."""

    of_level: tuple[int, ...]
    """Group of each level."""
    labels: tuple[str, ...]
    risk: tuple[float, ...]
    """Expected population uniques of each; empty until they are known."""


def key_levels(estimate: RiskEstimate, name: str, kind: str) -> KeyLevels:
    """Tell what is known of the levels of a key; see `levels_of`."""
    return levels_of(estimate.table, name, kind, estimate.records.r1)


def levels_of(table: CellTable, name: str, kind: str, r1: Float64 | None = None) -> KeyLevels:
    """Tell what is known of the levels of a key.

    Parameters
    ----------
    table
        The file as it is.
    name
        Of the key.
    kind
        How its levels are meant: `found`, or as `--levels` takes it.
    r1
        (n_cells,): risk of the cells; None where nothing was fitted: sample uniques are counted.
    """
    (key,) = (key for key in recodable(table) if key.name == name)
    structure, codes = meant(key, kind)
    n, risk = _sums(table, name, key.n_levels, r1)
    paths = Paths.of(structure)
    above: dict[int, tuple[str, ...]] = {}
    if paths is not None:
        pairs = zip(codes.tolist(), paths.paths, strict=True)
        above = {code: path[:-1] for code, path in pairs}
    n_levels, names = n_named(key), level_names(key)
    valid = {*codes.tolist()}
    titles = () if paths is None else paths.titles
    return KeyLevels(
        name=name,
        title=key.title,
        kind=structure.kind,
        words=kind_words(LevelsFacts.of_structure(name, structure)),
        levels=tuple(
            Level(
                value=names[code],
                label=key.labels[code],
                n=int(n[code]),
                risk=float(risk[code]),
                path=above.get(code, ()),
                valid=code in valid,
            )
            for code in range(n_levels)
        ),
        order=tuple(codes[structure.order].tolist()) if structure.order is not None else (),
        labels=dict(paths.labels) if paths is not None else {},
        heights=tuple(
            titles[i] if i < len(titles) else ""
            for i in range(0 if paths is None else paths.height)
        ),
        n_missing=int(n[n_levels:].sum()),
    )


def key_groups(
    recoding: Recoding, name: str, estimate: RiskEstimate | None = None
) -> KeyGroups | None:
    """Tell the groups of a key of a recoded file; None if it is left out.

    Parameters
    ----------
    recoding
        What was recoded.
    name
        Of the key.
    estimate
        Of the recoded file; without it no risk is told.
    """
    (place,) = (j for j, one in enumerate(recoding.keys) if one.name == name)
    one = recoding.keys[place]
    if one.key is None:
        return None
    n, risk = n_named(one.key), np.zeros(0)
    if estimate is not None:
        risk = _sums(estimate.table, name, one.key.n_levels, estimate.records.r1)[1][:n]
    return _groups(one, one.key, risk)


def _groups(one: KeyRecoding, key: Key, risk: AnyArray) -> KeyGroups:
    n = n_named(key)
    n_levels = len(one.groups) - (key.missing_level is not None)
    return KeyGroups(
        of_level=tuple(one.groups[:n_levels].tolist()),
        labels=tuple(one.labels.get(label, label) for label in key.labels[:n]),
        risk=tuple(risk.tolist()),
    )


def rows_of(one: KeyRecoding, names: Sequence[str]) -> tuple[tuple[str, str], ...]:
    """Each level of a key that is kept with its group, as a hierarchy of one column has them."""
    assert one.key is not None
    return tuple(
        (name, name if one.stays[code] else one.key.labels[one.groups[code]])
        for code, name in enumerate(names)
    )


def _sums(
    table: CellTable, name: str, n_levels: int, r1: Float64 | None
) -> tuple[AnyArray, AnyArray]:
    """Sum records, and r1 or without it sample uniques, by level, (n_levels + 1,).

    Of a key of the members of households these are persons, and the risk is that of the households
    in which the level occurs, each once.
    """
    weights = np.zeros(len(table.counts)) if r1 is None else np.nan_to_num(r1, nan=0.0)
    rows = (table.counts, table.unique, weights)
    # Members stand beside each other if they have the same level.
    codes = np.sort(table.cells[:, table.columns_of(name)], axis=1)
    first = np.ones(codes.shape, bool)
    first[:, 1:] = codes[:, 1:] != codes[:, :-1]
    n, uniques, risk = (np.zeros(n_levels + 1) for _ in range(3))
    for column, new in zip(codes.T, first.T, strict=True):
        there = column < n_levels
        n += sums_by_level(column[there], n_levels, _of(rows, there))[0]
        once = sums_by_level(column[there & new], n_levels, _of(rows, there & new))
        uniques, risk = uniques + once[1], risk + once[2]
    return n, (uniques if r1 is None else risk)


def _of(rows: tuple[Int64, Bool, Float64], some: Bool) -> tuple[Int64, Bool, Float64]:
    counts, unique, r1 = rows
    return counts[some], unique[some], r1[some]


@dataclass(frozen=True, kw_only=True)
class GroupCounts:
    """What a file tells whose key is recoded, without a model."""

    n_uniques: int
    """Sample uniques."""
    smallest: int
    """Records in the smallest combination."""
    n_cells: int
    """Combinations without a missing key that occur."""
    rule: str
    """What is done to the key; empty: nothing. Groups that no rule makes begin with `groups`."""
    groups: KeyGroups | None
    """None if the key is left out. The risk of each is its sample uniques."""
    rows: tuple[tuple[str, str], ...]
    """Level and group, where no rule makes the groups."""


@dataclass(frozen=True, kw_only=True, eq=False)
class EditedKey:
    """A key whose levels are merged before anything is fitted."""

    table: CellTable
    name: str
    _levels: dict[str, KeyLevels] = field(default_factory=dict)

    @cached_property
    def place(self) -> int:
        """Of the key among those that can be recoded."""
        return [key.name for key in recodable(self.table)].index(self.name)

    @cached_property
    def key(self) -> Key:
        """The key as it is."""
        return recodable(self.table)[self.place]

    @cached_property
    def part(self) -> Choices:
        """Recodings to start from."""
        others = [key.name for key in recodable(self.table) if key.name != self.name]
        return choices(self.table, keep=others)[self.place]

    def levels(self, kind: str) -> KeyLevels:
        """Tell its levels; see `levels_of`."""
        if kind not in self._levels:
            self._levels[kind] = levels_of(self.table, self.name, kind)
        return self._levels[kind]

    @cached_property
    def steps(self) -> list[dict[str, Any]]:
        """The recodings to start from, in words; the first is the key as it is."""
        return [
            {
                "rule": one.text if one.changes else "",
                "words": recoding_words(one),
                "n_groups": 0 if one.key is None else one.key.n_levels,
                "lost": min(float(lost) / max(self.part.entropy, 1e-300), 1.0),
            }
            for one, lost in zip(self.part.recodings, self.part.lost, strict=True)
        ]

    def recoded(self, choice: int | str) -> KeyRecoding:
        """Return a recoding to start from by its place, or groups made by hand by their text."""
        if isinstance(choice, int):
            return self.part.recodings[choice]
        try:
            made = LevelGroups.parse(choice)
        except ValueError as error:
            raise SpecError(f"Key {self.name!r}: {error}; open the page again.") from None
        if made.kind.startswith("file("):
            # The table was read with it.
            made = replace(made, kind=FOUND)
        if not made.groups:
            return unchanged(self.key)
        return recode_by_hand(self.key, level_counts(self.table)[self.place], made)

    def counts(self, choice: int | str) -> GroupCounts:
        """Tell what the file does whose key is recoded so."""
        if choice == 0:
            return self._as_it_is
        return self._counted(self.recoded(choice))

    @cached_property
    def _as_it_is(self) -> GroupCounts:
        return self._counted(unchanged(self.key))

    def _counted(self, one: KeyRecoding) -> GroupCounts:
        keys = [unchanged(key) for key in recodable(self.table)]
        keys[self.place] = one
        recoding = Recoding(keys=tuple(keys))
        recoding.check_kept()
        table = recoding.table(self.table)
        groups = None
        if one.key is not None:
            risk = _sums(table, self.name, one.key.n_levels, None)[1][: n_named(one.key)]
            groups = _groups(one, one.key, risk)
        return GroupCounts(
            n_uniques=table.n_uniques,
            smallest=int(smallest(table)),
            n_cells=key_counts(table).n_cells,
            rule=one.text if one.changes else "",
            groups=groups,
            rows=rows_of(one, level_names(self.key)) if one.changes and one.key else (),
        )

    def groups_of(self, rule: Rule) -> str:
        """Write what a rule makes as groups made by hand."""
        one = recode_key(self.key, level_counts(self.table)[self.place], rule)
        if one.key is None:
            return ""
        groups: dict[int, list[int]] = {}
        n_levels = n_named(self.key)
        for code, group in enumerate(one.groups[:n_levels].tolist()):
            groups.setdefault(group, []).append(code)
        named = isinstance(rule, dict)
        made = [
            Group(tuple(codes), one.key.labels[group] if named else "")
            for group, codes in groups.items()
            if len(codes) > 1
        ]
        return str(LevelGroups(groups=tuple(made)))


def recoding_words(one: KeyRecoding) -> str:
    """Say what a recoding does to a key."""
    if not one.changes:
        return say("web.what_if_candidates.as_it_is")
    n_groups = None if one.key is None else one.key.n_levels
    return key_words("", one.text, title=one.title, n_groups=n_groups)
