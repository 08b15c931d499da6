"""The records of a recoded file, and what was done to each column."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from unikat._typing import AnyArray, Bool, Float64, Int32, Int64
from unikat.data.codebook import Changed, changed_codebook
from unikat.data.keys import Key
from unikat.data.letters import is_letter
from unikat.data.microdata import Microdata
from unikat.data.numbers import number_meant
from unikat.data.roles import encoded
from unikat.data.roles import renumbered as in_order
from unikat.data.sampling import one_way
from unikat.data.sources import as_categories
from unikat.data.texts import is_text
from unikat.protection.codes import Groups, groups_of, number_codes, text_codes
from unikat.protection.groups import is_labelled, labels_of
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
    joined: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Groups of levels that are named one by one, each with the labels of its levels."""
    made_valid: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Groups of valid levels that join levels which were declared missing, with the labels of
    these: records that had them count as valid now."""


class Released(NamedTuple):
    """A recoded file."""

    table: pa.Table
    """All rows and columns of the input, in its order, but keys that are left out."""
    changes: tuple[ColumnChange, ...]
    """By key."""
    labels: dict[str, dict[Any, str]]
    """Of changed columns that hold codes: what each code means."""
    codes: dict[str, dict[str, int | str]]
    """Of the same: code of each group, by its name in the plan."""
    codebook: dict[str, Any] | None
    """To be written beside the file; None where the file holds labels, or there are none."""
    letters: dict[str, list[str | None]]
    """By column that has some: letters such as ``.a``, of each record; the table has no value."""


class _Written(NamedTuple):
    """How the groups of a recoded key are written."""

    groups: Groups
    values: list[Any]
    """One for each group."""
    coded: bool
    """Whether these are codes that have labels."""


def released(
    microdata: Microdata,
    codes: Int32,
    recoding: Recoding,
    suppressed: Bool | None = None,
    perturbed: Int32 | None = None,
    *,
    records: Int64 | None = None,
    scaled: Mapping[str, Float64] | None = None,
    known: Mapping[str, Mapping[str, Any]] | None = None,
    codebook: str | PathLike[str] | Mapping[str, Any] | None = None,
    removed: Collection[str] = (),
    renumbered: Collection[str] = (),
) -> Released:
    """Make the recoded file of microdata.

    Levels that stay are written as their values, and so are codes that mean missing; suppressed
    values are empty. Where the values are codes that have labels a group has a code of its own;
    elsewhere it is written as its name. Other columns are copied.

    Parameters
    ----------
    microdata
        The rows.
    codes
        (n_records, n_keys): of the rows that are released, -1 where missing.
    recoding
        Of the keys.
    suppressed
        (n_records, n_kept_keys): values of recoded keys that are set missing; None: none.
    perturbed
        (n_records, n_kept_keys): codes of recoded keys that are written in place of the true ones;
        each is that of a record. None: the true ones are.
    records
        (n_records,): numbers of the rows that are released; None: all are.
    scaled
        Columns that are multiplied, such as weights, each with (n_records,) factors.
    known
        Codes of groups by key and name, of the plan that is repeated.
    codebook
        Of the microdata, as `load_codebook` takes it.
    removed, renumbered
        Columns that are no keys: those that are left out, and those whose values become 1, 2, ...
        in the order of the file.
    """
    import pyarrow as pa

    by_name = {one.name: (j, one) for j, one in enumerate(recoding.keys)}
    names = [
        name
        for name in microdata.source.columns
        if (name not in by_name or by_name[name][1].key is not None) and name not in removed
    ]
    original = microdata.values(names)
    letters = microdata.letters(names)
    if records is not None:
        original = original.take(pa.array(records))
        letters = {name: [one[row] for row in records] for name, one in letters.items()}
    for name, factor in (scaled or {}).items():
        if name in removed:
            continue
        place = original.column_names.index(name)
        original = original.set_column(place, name, _multiplied(original[name], factor))
    columns, codes_of = [], {}
    labels = {name: found for name, found in microdata.labels.items() if name in names}
    changed: dict[str, Changed] = {}
    gone = {} if suppressed is None else dict(zip(recoding.kept, suppressed.T, strict=True))
    true = recoding.codes(codes)
    of_kept = dict(zip(recoding.kept, true.T, strict=True))
    shown = dict(zip(recoding.kept, (true if perturbed is None else perturbed).T, strict=True))
    others = (
        {}
        if perturbed is None
        else dict(zip(recoding.kept, (perturbed != true).sum(axis=0).tolist(), strict=True))
    )
    for name in names:
        j, one = by_name.get(name, (-1, None))
        nothing = gone.get(j, np.zeros(len(codes), np.bool_))
        column = original[name]
        if name in renumbered:
            columns.append(_renumbered(column))
            letters.pop(name, None)
            continue
        recoded = one is not None and (one.changes or microdata.keys[j].binning is not None)
        if one is not None and _lost_letters(microdata, microdata.keys[j]):
            # What cannot be written as a letter is written as text.
            columns.append(_as_texts(one, shown[j], nothing))
            continue
        if one is None or not (recoded or others.get(j) or nothing.any()):
            columns.append(column)
            if one is not None and microdata.keys[j].by_hand:
                changed[name] = _in_groups(microdata.keys[j], shown[j])
            continue
        key = microdata.keys[j]
        # Groups of a code system have its codes, unless a plan or the file has others.
        own = {group: group for group in one.labels}
        written = _written(microdata, key, one, column, own | dict((known or {}).get(name, {})))
        columns.append(_column(column, key, one, written, of_kept[j], shown[j], nothing))
        letters[name] = _letters(letters.get(name), written, of_kept[j], shown[j], nothing)
        codes_of[name] = dict(zip(written.groups.names, written.values, strict=True))
        visible = np.where(nothing, -1, shown[j])
        if written.coded:
            labels[name] = _labels(microdata, key, one, written, visible)
        changed[name] = Changed(levels=_levels(one, written, visible), labels=labels.get(name, {}))
    return Released(
        table=pa.table(dict(zip(names, columns, strict=True))),
        changes=_changes(
            codes,
            microdata.keys,
            recoding.keys,
            {j: int(mask.sum()) for j, mask in gone.items()},
            others,
        ),
        labels=labels,
        codes={name: codes_of[name] for name in labels if name in codes_of},
        codebook=_codebook(microdata, codebook, changed, recoding, removed),
        letters={name: found for name, found in letters.items() if any(found)},
    )


def _multiplied(column: pa.ChunkedArray, factor: Float64) -> pa.ChunkedArray:
    """Numbers, or texts of numbers, times a factor; with 12 digits, since that is what is meant."""
    import pyarrow as pa
    import pyarrow.compute as pc

    kind = column.type
    values = pc.cast(column, pa.float64())
    found = pc.multiply(values, pa.chunked_array([pa.array(factor)]))
    return pc.cast(found, kind) if is_text(kind) else found


def _renumbered(column: pa.ChunkedArray) -> pa.Array:
    """Number the values in the order of the file, in the type of the column."""
    import pyarrow as pa

    found = encoded(column)
    assert found is not None
    numbers = in_order(found[0])
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    return pa.array(numbers, pa.int64(), mask=numbers == 0).cast(kind)


def _written(
    microdata: Microdata,
    key: Key,
    one: KeyRecoding,
    column: pa.ChunkedArray,
    known: Mapping[str, Any],
) -> _Written:
    """Find what the groups of a key are written as."""
    import pyarrow as pa
    import pyarrow.compute as pc

    groups, source = groups_of(key, one), microdata.source
    declared = microdata.declared(key.name)
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    texts = is_text(kind)
    width = declared.width if texts else None
    # A date becomes the name of its period, which is a text and needs no code.
    coded = is_labelled(key) or (
        source.holds_labels and not texts and not pa.types.is_temporal(kind)
    )
    if width is not None and any(len(name.encode()) > width for name in groups.names):
        # A short text, and what it means as its label.
        coded = True
    # What stays declared missing needs the code that is.
    coded = coded or any(code is not None for code in groups.declared)
    if not coded or not groups.names:
        return _Written(groups, list(groups.names), coded)
    assert one.key is not None
    used = [value for value in pc.unique(column).to_pylist() if value is not None]
    used += [*declared.labels, *(level for level in key.levels if level is not None)]
    numbers = [number_meant(value) for value in used]
    meant = [float(n) for n in numbers if n is not None]
    if not texts or len(meant) == len(used):
        found: list[Any] = list(number_codes(key, one.key, groups, meant, declared, known))
        if not texts:
            return _Written(groups, found, True)
        if width is None or all(len(str(code)) <= width for code in found):
            return _Written(groups, list(map(str, found)), True)
    return _Written(groups, list(text_codes(groups, list(map(str, used)), width, known)), True)


def _column(
    column: pa.ChunkedArray,
    key: Key,
    one: KeyRecoding,
    written: _Written,
    true: Int32,
    shown: Int32,
    nothing: Bool,
) -> pa.Array:
    """Write a key: its own value where the level stays, a donor's where it was perturbed."""
    import pyarrow as pa
    import pyarrow.compute as pc

    assert one.key is not None
    kind = column.type
    if pa.types.is_dictionary(kind):
        plain = column.cast(kind.value_type)
        found = _column(plain, key, one, written, true, shown, nothing)
        # Categories without a record go; groups stand where their levels stood.
        _, first = np.unique(shown[~nothing & (shown >= 0)], return_index=True)
        rows = np.flatnonzero(~nothing & (shown >= 0))[first]
        order = found.take(pa.array(rows)).drop_null().unique().to_pylist()
        ordered = bool(kind.ordered and (one.key.ordered or one.key.binning is not None))
        return as_categories(found, order, pa.dictionary(pa.int32(), found.type, ordered))
    if written.values and not written.coded and not is_text(kind):
        return _as_texts(one, shown, nothing)
    missing = (shown < 0) | (shown == one.key.missing_level)
    place = np.full(one.key.n_levels + 1, -1, np.int64)
    place[list(written.groups.numbers)] = np.arange(len(written.values))
    new = place[shown]
    row = np.where(new >= 0, len(true) + new, _holders(true, shown))
    if written.values:
        values = pa.array([None if is_letter(value) else value for value in written.values])
        if pa.types.is_integer(kind) and not _fits(written.values, kind):
            column = column.cast(pa.int64())
        column = pa.chunked_array([*column.chunks, values.cast(column.type)], column.type)
        if not written.coded:
            # Where nothing has labels an empty field says missing.
            nothing = nothing | missing
    found = column.take(pa.array(row)).combine_chunks()
    return pc.if_else(pa.array(nothing), pa.scalar(None, found.type), found)


def _fits(values: Sequence[int], kind: pa.DataType) -> bool:
    info = np.iinfo(kind.to_pandas_dtype())
    return all(is_letter(value) or info.min <= value <= info.max for value in values)


def _letters(
    before: Sequence[str | None] | None,
    written: _Written,
    true: Int32,
    shown: Int32,
    nothing: Bool,
) -> list[str | None]:
    """Letters of a changed column: as its values, a record's own, a donor's, or of a group."""
    found = np.full(len(true), None) if before is None else np.array(before, object)
    found = found[_holders(true, shown)]
    for number, value in zip(written.groups.numbers, written.values, strict=True):
        found[shown == number] = value if is_letter(value) else None
    found[nothing] = None
    return list(found)


def _lost_letters(microdata: Microdata, key: Key) -> bool:
    """Whether a key has letters as levels that the format of the output does not have."""
    if microdata.source.keeps_letters:
        return False
    return any(is_letter(key.levels[code]) for code in key.declared_missing)


def _as_texts(one: KeyRecoding, shown: Int32, nothing: Bool) -> pa.Array:
    """Write a key without labels as names of its groups and values of its levels."""
    import pyarrow as pa

    assert one.key is not None
    n = one.key.n_levels - (one.key.missing_level is not None)
    values = one.key.levels if one.key.binning is None else one.key.labels
    texts = pa.array([str(value) for value in values[:n]], pa.string())
    return texts.take(pa.array(shown, mask=nothing | (shown < 0) | (shown >= n)))


def _labels(
    microdata: Microdata, key: Key, one: KeyRecoding, written: _Written, shown: Int32
) -> dict[Any, str]:
    """What each code of a changed column means that a record has, or that means missing."""
    there = set(np.unique(shown[shown >= 0]).tolist())
    found: dict[Any, str] = {}
    declared = microdata.declared_by_source(key.name)
    for code, (value, label) in enumerate(zip(key.levels, key.labels, strict=True)):
        group = int(one.groups[code])
        stays = one.stays[code] and group not in written.groups.numbers
        if (
            value is not None
            and stays
            and group in there
            and (str(value) in declared.labels or label != str(value))
        ):
            found[value] = label
    for number, value, label in zip(
        written.groups.numbers, written.values, written.groups.labels, strict=True
    ):
        if number in there:
            found[value] = label
    levels = {str(key.levels[code]) for code in key.declared_missing}
    return found | {
        code: label
        for code, label in declared.missing_labels.items()
        if one_way(str(code)) not in levels
    }


def _levels(one: KeyRecoding, written: _Written, shown: Int32) -> tuple[Any, ...]:
    """Values that a changed column has and that do not mean missing, in their order."""
    assert one.key is not None
    values = dict(zip(written.groups.numbers, written.values, strict=True))
    missing = one.key.missing_level
    return tuple(
        values.get(group, one.key.levels[group])
        for group in np.unique(shown[shown >= 0]).tolist()
        if group != missing
    )


def _in_groups(key: Key, shown: Int32) -> Changed:
    """What a column has that was read in groups made by hand, and is written so."""
    there = np.unique(shown[(shown >= 0) & (shown != key.missing_level)]).tolist()
    labels = {key.levels[code]: key.labels[code] for code in there} if is_labelled(key) else {}
    return Changed(levels=tuple(key.levels[code] for code in there), labels=labels)


def _codebook(
    microdata: Microdata,
    given: str | PathLike[str] | Mapping[str, Any] | None,
    changed: Mapping[str, Changed],
    recoding: Recoding,
    removed: Collection[str],
) -> dict[str, Any] | None:
    """Codebook of a file that holds no labels itself."""
    if microdata.source.holds_labels:
        return None
    labels = {key.name: labels_of(key) for key in microdata.keys if is_labelled(key)}
    if given is None and not labels:
        return None
    left_out = [*(one.name for one in recoding.keys if one.key is None), *removed]
    return changed_codebook(given, labels, changed, left_out)


def _holders(true: Int32, shown: Int32) -> AnyArray:
    """A record that has the code which each one is to show: itself, or else the first, (n,)."""
    first = np.zeros(int(max(true.max(initial=0), shown.max(initial=0))) + 2, np.int64)
    levels, rows = np.unique(true, return_index=True)
    first[levels + 1] = rows
    return np.where(true == shown, np.arange(len(true)), first[shown + 1])


def _changes(
    codes: Int32,
    before: Sequence[Key],
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
                _joined(before[j], one),
                groups_of(before[j], one).made_valid if one.key is not None else (),
            )
        )
    return tuple(found)


def _joined(key: Key, one: KeyRecoding) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Groups and the labels of their levels; of numbers without labels the rule tells all."""
    if one.key is None or not one.changes or not (one.named or is_labelled(key)):
        return ()
    groups = groups_of(key, one)
    return tuple(
        (label, levels)
        for label, levels in zip(groups.labels, groups.levels, strict=True)
        if len(levels) > 1 or levels[0] != label
    )
