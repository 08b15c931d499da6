"""The records of a recoded file, and what was done to each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unikat._typing import Bool, Int32
from unikat.data.microdata import Microdata
from unikat.protection.recoding import KeyRecoding, Recoding

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class ColumnChange:
    """What was done to a column."""

    name: str
    action: str
    """`as it is`, `left out`, or the rule."""
    n_levels: int
    """Values before, those that mean missing excepted; 0 of a column that is no key."""
    n_groups: int
    """Values after."""
    n_changed: int
    """Records whose value is another, or gone; without suppressed ones."""
    n_suppressed: int = 0
    """Values set missing by local suppression."""


class Released(NamedTuple):
    """A recoded file."""

    table: pa.Table
    """All rows and columns of the input, in its order, but keys that are left out."""
    changes: tuple[ColumnChange, ...]
    """By key."""
    labels: dict[str, dict[int, str]]
    """Of recoded columns that hold codes: what each code means."""


def released(
    microdata: Microdata,
    codes: Int32,
    recoding: Recoding,
    suppressed: Bool | None = None,
    *,
    coded: bool,
) -> Released:
    """Make the recoded file of microdata.

    A key that is recoded, or was read in groups, is written as the labels of its groups; a level
    that is alone in its group as its value. Missing values are empty. Other columns are copied.

    Parameters
    ----------
    microdata
        The rows.
    codes
        (n_records, n_keys): of all rows, -1 where missing.
    recoding
        Of the keys.
    suppressed
        (n_records, n_kept_keys): values of recoded keys that are set missing; None: none.
    coded
        Write codes 1, 2, ... that have labels, as statistical programs do, and not the labels.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    by_name = {one.name: (j, one) for j, one in enumerate(recoding.keys)}
    names = [
        name
        for name in microdata.source.columns
        if name not in by_name or by_name[name][1].key is not None
    ]
    original = microdata.values(names)
    columns, labels = [], {}
    gone = {} if suppressed is None else dict(zip(recoding.kept, suppressed.T, strict=True))
    for name in names:
        j, one = by_name.get(name, (-1, None))
        nothing = gone.get(j, np.zeros(len(codes), np.bool_))
        if one is None or (not one.changes and one.key is not None and one.key.binning is None):
            column = original[name]
            if nothing.any():
                column = pc.if_else(pa.array(nothing), pa.scalar(None, column.type), column)
            columns.append(column)
            continue
        groups = np.where(nothing, -1, _groups_of(codes[:, j], one))
        texts = _texts(one)
        if coded:
            labels[name] = {number + 1: text for number, text in enumerate(texts)}
            column = pa.array(groups + 1, pa.int64(), mask=groups < 0)
        else:
            column = pa.array(texts).take(pa.array(groups, mask=groups < 0))
        columns.append(column)
    return Released(
        table=pa.table(dict(zip(names, columns, strict=True))),
        changes=_changes(codes, recoding.keys, {j: int(mask.sum()) for j, mask in gone.items()}),
        labels=labels,
    )


def _groups_of(codes: Int32, one: KeyRecoding) -> Int32:
    """Group of each record, -1 where missing, also where missing is a level."""
    assert one.key is not None
    groups = np.where(codes >= 0, one.groups[codes], -1)
    missing = -1 if one.key.missing_level is None else one.key.missing_level
    return np.where(groups == missing, -1, groups).astype(np.int32)


def _texts(one: KeyRecoding) -> list[str]:
    """What each group is written as."""
    assert one.key is not None
    n = one.key.n_levels - (one.key.missing_level is not None)
    if one.key.binning is not None:
        return list(one.key.labels[:n])
    return [str(level) for level in one.key.levels[:n]]


def _changes(
    codes: Int32, keys: Sequence[KeyRecoding], suppressed: Mapping[int, int]
) -> tuple[ColumnChange, ...]:
    found = []
    for j, one in enumerate(keys):
        known = codes[:, j] >= 0
        changed = int(np.count_nonzero(~one.stays[codes[known, j]]))
        n_groups = 0
        if one.key is not None:
            n_groups = one.key.n_levels - (one.key.missing_level is not None)
        n_levels = len(one.groups) - (one.key is not None and one.key.missing_level is not None)
        found.append(
            ColumnChange(one.name, one.text, n_levels, n_groups, changed, suppressed.get(j, 0))
        )
    return tuple(found)
