"""Every column of a file that is protected: its role, and what becomes of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.clues import joined
from unikat.data.keys import Key
from unikat.data.microdata import Microdata
from unikat.data.named_levels import level_names
from unikat.data.names import column_hint
from unikat.data.numbers import number_meant
from unikat.data.roles import NEARLY_UNIQUE, ColumnRole, encoded, proposed
from unikat.data.structure import order_of
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief, option
from unikat.jobs.inputs import UNKNOWN, open_data
from unikat.protection.groups import joined_name
from unikat.protection.left_over import known
from unikat.protection.linked import Homes, Pairs, followed, links
from unikat.protection.numeric.change import NumericFacts
from unikat.protection.recoding import KeyRecoding, Recoding, recode_key, unchanged
from unikat.protection.release import Release
from unikat.protection.released import Released, released
from unikat.protection.what_if import Posterior
from unikat.report.facts.columns import ColumnFacts, LeftOver, RiskWith
from unikat.spec.columns import RoleTold, design_roles
from unikat.spec.protection import ProtectionSpec
from unikat.spec.tables import DataSpec


@dataclass(frozen=True, kw_only=True, eq=False)
class FileColumns:
    """The columns of a file that are no keys, with their roles."""

    table: pa.Table
    """Their values."""
    roles: tuple[ColumnRole, ...]
    linked: dict[str, tuple[int, ...]]
    """Numbers of the keys that each linked column follows or tells."""
    numeric: tuple[str, ...]
    """Continuous variables that are to be changed."""

    @classmethod
    def of(
        cls, spec: ProtectionSpec, microdata: Microdata, every: CellTable, numeric: Sequence[str]
    ) -> FileColumns:
        """Propose a role for each column; those that the user tells overrule."""
        keys = [key.name for key in microdata.keys]
        design = design_roles(spec.design)
        for name in spec.columns:
            if name not in microdata.source.columns:
                hint = column_hint(name, microdata.source.columns)
                raise SpecError(
                    f"{option('columns')} names {brief(name)!r}, which is no column of "
                    f"{microdata.name}.{hint}"
                )
        names = [name for name in microdata.source.columns if name not in keys]
        values = microdata.values(names) if names else pa.table({})
        columns = {name: encoded(values[name]) for name in names}
        told = {name: RoleTold.of(text) for name, text in spec.columns.items() if name in names}
        # Who changes a measurement wants it in the file.
        told = {name: RoleTold("other", None) for name in numeric} | told
        roles = proposed(
            columns,
            weights=[name for name, role in design.items() if role == "weight"],
            households=[name for name, role in design.items() if role == "household"],
            told={name: one.role for name, one in told.items()},
            decimal=microdata.source.decimal or ".",
        )
        found: list[ColumnRole] = []
        linked: dict[str, tuple[int, ...]] = {}
        codes = every.cells[every.record_cell]
        homes = _homes(roles, columns)
        for one in roles:
            asked = told.get(one.name)
            if one.role not in ("other", "linked") or (asked is not None and one.role == "other"):
                found.append(one)
                continue
            known = columns[one.name]
            near = [] if known is None else links(known[0], codes, homes)
            if asked is not None and asked.key is not None:
                key = keys.index(asked.key)
                found.append(replace(one, key=asked.key))
                linked[one.name] = (key,)
            elif near:
                measure = min(near[0].measure, 1.0)
                found.append(
                    replace(
                        one,
                        role="linked",
                        reason="linked",
                        key=keys[near[0].key],
                        measure=measure,
                        member=near[0].member,
                    )
                )
                linked[one.name] = tuple(link.key for link in near)
            elif asked is not None:
                raise SpecError(
                    f"{option('columns')}: {brief(one.name)!r} tells no key and follows from none; "
                    "name the key, as in 'linked(region)', or give it another role."
                )
            else:
                found.append(one)
        return cls(table=values, roles=tuple(found), linked=linked, numeric=tuple(numeric))

    @property
    def facts(self) -> tuple[ColumnFacts, ...]:
        """What would be done to each, before the keys are recoded."""
        return tuple(
            _facts(one, "as_key" if one.name in self.linked else _of_role(one))
            for one in self.roles
        )

    def codes(self, name: str) -> Int32:
        """(n,) numbers of the values of a column that is not nested, -1 where missing."""
        found = encoded(self.table[name])
        assert found is not None
        return found[0]

    def left(self, removed: Collection[str]) -> Iterator[tuple[str, Int32]]:
        """Columns with values that are not removed, and numbers of these."""
        for one in self.roles:
            if one.name not in removed and (found := encoded(self.table[one.name])) is not None:
                yield one.name, found[0]


def _homes(roles: Sequence[ColumnRole], columns: dict[str, Any]) -> Homes | None:
    """Households, where columns say who lives together."""
    found = [
        columns[one.name][0].astype(np.int64)
        for one in roles
        if one.role == "household" and columns[one.name] is not None
    ]
    return Homes.of(joined(found).astype(np.int32)) if found else None


class Treated(NamedTuple):
    """The file as it is released."""

    made: Released
    """All rows that are released."""
    columns: tuple[ColumnFacts, ...]
    recoding: Recoding
    """Of the keys, and of the linked columns that were recoded."""
    keys: tuple[Key, ...]
    """Of the same, as they were."""
    left_over: LeftOver | None = None
    """The risk with all columns that are copied; None if none is."""
    numeric: NumericFacts | None = None
    """Of the continuous variables that were changed."""

    @property
    def treated(self) -> list[str]:
        """Columns that are not copied."""
        return [one.name for one in self.columns if one.action != "copied"]

    @property
    def identifying(self) -> tuple[str, ...]:
        """Copied columns with a value of its own for nearly every record."""
        n = self.made.table.num_rows
        return tuple(
            one.name
            for one in self.columns
            if one.action == "copied" and one.role != "weight" and one.n_values >= NEARLY_UNIQUE * n
        )


def treated(
    columns: FileColumns,
    spec: ProtectionSpec,
    microdata: Microdata,
    codes: Int32,
    recoding: Recoding,
    release: Release,
    scaled: Mapping[str, Float64],
) -> Treated:
    """Make the released file: keys as told, identifiers removed, linked columns as their keys.

    A linked column stays where the groups of its keys tell it. Where the key tells it, it is joined
    until the groups do; else, and where the values of the key were perturbed, it is removed.

    Parameters
    ----------
    columns
        Those that are no keys.
    spec, microdata
        What is asked for, and the rows.
    codes
        (n_records, n_keys) of all rows, -1 where missing.
    recoding
        Of the columns of the file.
    release
        What the released records show of the keys.
    scaled
        Columns that are multiplied, each with the factors of the released records.
    """
    out, suppressed = release.records, release.suppressed
    perturbed = None if release.perturbed is None else release.published
    fates = {one.name: _of_role(one) for one in columns.roles}
    fates |= {name: "changed" for name in columns.numeric if fates[name] == "copied"}
    follow = {}
    for name, keys in columns.linked.items():
        pairs = {key: Pairs.of(columns.codes(name), codes[:, key]) for key in keys}
        fates[name] = _of_linked(pairs, microdata.keys, recoding, suppressed, spec.perturbed)
        if fates[name] in ("recoded", "suppressed"):
            follow[name] = keys
    for one in columns.roles:
        if one.member and fates[one.name] != "copied":
            # Whose value of the key it is differs from record to record.
            fates[one.name] = "removed"
            follow.pop(one.name, None)
    whole, every = microdata, codes
    if follow:
        data = spec.data.model_copy(update={"missing": DataSpec.model_fields["missing"].default})
        beside = open_data(
            data,
            list(follow),
            UNKNOWN,
            microdata.source,
            fewest_keys=1,
            constant_keys=True,
            empty_rows=True,
        )
        table = beside.tabulate()
        own = table.cells[table.record_cell]
        whole, every = microdata.beside(beside), np.hstack([codes, own])
        extra = []
        for j, (name, keys) in enumerate(follow.items()):
            joins = _followed(beside.keys[j], own[:, j], codes, keys, recoding)
            if joins is None:
                fates[name] = "removed"
                joins = unchanged(beside.keys[j]).left_out()
            extra.append(joins)
            if joins.key is None:
                continue
            if suppressed is not None:
                gone = [suppressed[:, recoding.kept.index(k)] for k in keys if k in recoding.kept]
                nothing = np.any(gone, axis=0) if gone else np.zeros(len(out), np.bool_)
                suppressed = np.column_stack([suppressed, nothing])
            if perturbed is not None:
                values = own[out, j]
                shown = np.where(values >= 0, joins.groups[values], -1)
                perturbed = np.column_stack([perturbed, shown]).astype(np.int32)
        recoding = replace(recoding, keys=(*recoding.keys, *extra))
    made = released(
        whole,
        every[out],
        recoding,
        suppressed,
        perturbed,
        records=out if release.share < 1.0 else None,
        scaled=scaled,
        codebook=spec.data.codebook,
        removed=[name for name, fate in fates.items() if fate == "removed"],
        renumbered=[name for name, fate in fates.items() if fate == "renumbered"],
    )
    facts = tuple(_facts(one, fates[one.name]) for one in columns.roles)
    return Treated(made, facts, recoding, whole.keys)


def _facts(one: ColumnRole, action: str) -> ColumnFacts:
    return ColumnFacts(
        name=one.name,
        role=one.role,
        reason=one.reason,
        action=action,
        n_values=one.n_values,
        key=one.key,
        measure=one.measure,
        member=one.member,
    )


def _of_role(one: ColumnRole) -> str:
    if one.removed:
        return "removed"
    return "renumbered" if one.role == "household" else "copied"


def _of_linked(
    pairs: Mapping[int, Pairs],
    keys: Sequence[Key],
    recoding: Recoding,
    suppressed: Bool | None,
    perturbed: Collection[str],
) -> str:
    """What becomes of a linked column: `copied`, `recoded`, `suppressed` or `removed`."""
    fate = "copied"
    for key, one in pairs.items():
        recoded = recoding.keys[key]
        if recoded.name in perturbed:
            return "removed"
        coarser = recoded.changes or keys[key].binning is not None
        if coarser and not one.coarser_than(recoded.groups):
            if not one.follows_exactly() or recoded.key is None:
                return "removed"
            fate = "recoded"
        elif key in recoding.kept and suppressed is not None and fate == "copied":
            fate = "suppressed" if suppressed[:, recoding.kept.index(key)].any() else fate
    return fate


def _followed(
    column: Key, own: Int32, codes: Int32, keys: Sequence[int], recoding: Recoding
) -> KeyRecoding | None:
    """Join the values of a column until the groups of its keys tell it; None if all are one."""
    pairs = {key: Pairs.of(own, codes[:, key]) for key in keys}
    part = followed(pairs, recoding.keys, column.n_levels)
    if part is None:
        return None
    names = level_names(column)
    numbers = [number_meant(label) for label in column.labels]
    is_ordered = None not in numbers or order_of(column) is not None
    group_of: dict[str, str] = {}
    for number in np.unique(part).tolist():
        members = np.flatnonzero(part == number)
        if len(members) > 1:
            is_band = is_ordered and bool((np.diff(members) == 1).all())
            labels = [column.labels[code] for code in members]
            name = joined_name(labels, is_band=is_band)
            if is_band and None not in numbers:
                name = f"{labels[0]}-{labels[-1]}"
            group_of |= {names[code]: name for code in members if code < len(names)}
    if not group_of:
        return unchanged(column)
    counts = np.bincount(own[own >= 0], minlength=column.n_levels)
    return recode_key(column, counts.astype(np.int64), group_of)


def with_risk(
    columns_left: Sequence[ColumnFacts],
    columns: FileColumns,
    posterior: Posterior,
    recoding: Recoding,
    shown: Int32,
    rows: Int64,
    released_rows: Int64,
    level: float,
) -> tuple[tuple[ColumnFacts, ...], LeftOver | None]:
    """Tell the risk with each column that is copied, and with all of them.

    Parameters
    ----------
    columns_left, columns
        What was done to the columns that are no keys.
    posterior, recoding
        Of the keys.
    shown, rows
        (n_rows, n_recoded_keys): what the assessed records show of them, and their (n_rows,) places
        in the file.
    released_rows
        Which of these are released.
    level
        Probability of the intervals.

    Returns
    -------
    tuple
        The columns with it, and that of all; None if none is left.
    """
    left = {
        one.name: one
        for one in columns_left
        if one.action == "copied" and one.role != "weight" and one.n_values > 1
    }
    if not left or posterior.table.layout is not None:
        # What a column adds for households is not known.
        return tuple(columns_left), None
    exact = [name for name, one in left.items() if one.reason == "continuous"]
    codes = {name: columns.codes(name)[rows] for name in left}
    found = known(posterior, recoding, shown, codes, level, exact, released_rows)
    risks = {name: RiskWith(n_uniques=one.n_uniques, tau1=one.tau1) for name, one in found.items()}
    facts = tuple(replace(one, risk=risks.get(one.name)) for one in columns_left)
    n_all = len(left) - len(exact)
    complete = int((shown[released_rows] >= 0).all(axis=1).sum())
    return facts, LeftOver(
        n_columns=n_all,
        n_records=complete,
        n_hidden=len(released_rows) - complete,
        without=risks[""],
        together=risks.get(None),
    )
