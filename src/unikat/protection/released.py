"""The records of a recoded file, and what was done to each column."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unikat._typing import AnyArray, Bool, Int32
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
    n_perturbed: int = 0
    """Values, recoded or not, that PRAM or swapping made others."""


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
    perturbed: Int32 | None = None,
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
    perturbed
        (n_records, n_kept_keys): codes of recoded keys that are written in place of the true ones;
        each is that of a record. None: the true ones are.
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
    true = recoding.codes(codes)
    shown = dict(zip(recoding.kept, (true if perturbed is None else perturbed).T, strict=True))
    others = (
        {}
        if perturbed is None
        else dict(zip(recoding.kept, (perturbed != true).sum(axis=0).tolist(), strict=True))
    )
    for name in names:
        j, one = by_name.get(name, (-1, None))
        nothing = gone.get(j, np.zeros(len(codes), np.bool_))
        if one is None or (not one.changes and one.key is not None and one.key.binning is None):
            column = original[name]
            if others.get(j):
                column = column.take(pa.array(_holders(codes[:, j], shown[j])))
            if nothing.any():
                column = pc.if_else(pa.array(nothing), pa.scalar(None, column.type), column)
            columns.append(column)
            continue
        groups = np.where(nothing, -1, _known(shown[j], one))
        texts = _texts(one)
        if coded:
            labels[name] = {number + 1: text for number, text in enumerate(texts)}
            column = pa.array(groups + 1, pa.int64(), mask=groups < 0)
        else:
            column = pa.array(texts).take(pa.array(groups, mask=groups < 0))
        columns.append(column)
    return Released(
        table=pa.table(dict(zip(names, columns, strict=True))),
        changes=_changes(
            codes, recoding.keys, {j: int(mask.sum()) for j, mask in gone.items()}, others
        ),
        labels=labels,
    )


def _holders(codes: Int32, shown: Int32) -> AnyArray:
    """A record that has the code which each one is to show: itself, or else the first, (n,)."""
    first = np.zeros(int(max(codes.max(initial=0), shown.max(initial=0))) + 2, np.int64)
    levels, rows = np.unique(codes, return_index=True)
    first[levels + 1] = rows
    return np.where(codes == shown, np.arange(len(codes)), first[shown + 1])


def _known(groups: Int32, one: KeyRecoding) -> Int32:
    """Group of each record, -1 where missing, also where missing is a level."""
    assert one.key is not None
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
    codes: Int32,
    keys: Sequence[KeyRecoding],
    suppressed: Mapping[int, int],
    perturbed: Mapping[int, int],
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
            ColumnChange(
                one.name,
                one.text,
                n_levels,
                n_groups,
                changed,
                suppressed.get(j, 0),
                perturbed.get(j, 0),
            )
        )
    return tuple(found)


TELLING = 0.98
"""Share of the records whose level a column tells, from which on it is named."""
_CHANCE = 0.9
"""Share of the records whose level their group tells, up to which a column is looked at."""
_MANY = 5
"""Records of a level, at least, where it is asked whether the level tells the column."""


def telling_columns(
    microdata: Microdata, codes: Int32, recoding: Recoding, hidden: Set[str] = frozenset()
) -> tuple[tuple[str, str], ...]:
    """Find columns that tell more of a key than the file shows: a copy, a year of birth.

    Looked at are records that share their value of the column with another one. Numbers of persons
    have none, and tell nothing by themselves.

    Parameters
    ----------
    microdata, codes, recoding
        As for `released`.
    hidden
        Names of keys of which values were perturbed or suppressed: what tells one, tells these.

    Returns
    -------
    tuple
        Names of columns that are copied, each with that of the key.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    keys = {one.name for one in recoding.keys}
    names = [name for name in microdata.source.columns if name not in keys]
    if not names:
        return ()
    table = microdata.values(names)
    found = []
    for name in names:
        if pa.types.is_nested(table[name].type) or pa.types.is_null(table[name].type):
            continue
        column = pc.fill_null(pc.dictionary_encode(table[name].combine_chunks()).indices, -1)
        values = column.to_numpy(zero_copy_only=False)
        known = values >= 0
        sizes = np.bincount(values[known]) if known.any() else np.zeros(1, np.int64)
        repeated = known & (sizes[np.maximum(values, 0)] > 1)
        for j, one in enumerate(recoding.keys):
            rows = repeated & (codes[:, j] >= 0)
            joins = one.key is None or one.key.n_levels < len(one.groups)
            if not (joins or one.name in hidden) or 2 * rows.sum() < len(codes):
                continue
            levels, shown = codes[rows, j], values[rows]
            groups = np.zeros_like(levels) if one.name in hidden else one.groups[levels]
            tells = told(shown, levels) >= TELLING and told(groups, levels) <= _CHANCE
            # Or it is another grouping of the key, one that splits those of the plan.
            many = np.bincount(levels)[levels] >= _MANY
            if not tells and 2 * many.sum() >= len(codes):
                levels, shown, groups = levels[many], shown[many], groups[many]
                tells = told(levels, shown) >= TELLING and told(groups, shown) <= _CHANCE
            if tells:
                found.append((name, one.name))
    return tuple(found)


def told(values: AnyArray, levels: Int32) -> float:
    """Share of the records that have the commonest level of their value."""
    pairs, counts = np.unique(np.column_stack((values, levels)), axis=0, return_counts=True)
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=pairs[0, 0] - 1))
    return float(np.maximum.reduceat(counts, starts).sum() / len(values))
