"""Known counts of the population over some of the keys, such as a census table.

A *margin* is a table with a column for each of some keys and one column of counts: of every
combination of their levels, a *margin cell*, the number of units in the population.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.design import LARGEST_POPULATION, Design
from unikat.data.keys import Key
from unikat.data.numbers import number_meant, rows_shown
from unikat.data.readers import open_source
from unikat.data.sampling import one_way
from unikat.data.table import CellTable, Margin
from unikat.errors import DataError, SpecError, brief, listed, option, suggest

if TYPE_CHECKING:
    import duckdb

MOST_CELLS = 20_000
"""Margin cells, all combinations of levels, at most."""


@dataclass(frozen=True, kw_only=True)
class _File:
    """The columns of a file of counts."""

    name: str
    keys: tuple[int, ...]
    """Place of each of its keys."""
    levels: list[tuple[Int32, list[str]]]
    """Codes (n_rows,) and texts of each of these columns."""
    counts: Int64


def read_margin(source: Any, keys: Sequence[Key], **reading: Any) -> Margin:
    """Read known counts of the population over some of the keys.

    Parameters
    ----------
    source
        A path or frame, as `read` takes it: one column per key, and one column of counts.
    keys
        The keys of the sample.
    reading
        How a file is read: `delimiter`, `encoding`, `format`, `sheet`, `table`.

    Raises
    ------
    DataError
        If the file cannot be read, has no column of counts or several that might be it, counts that
        are no whole numbers, a margin cell twice, or no row for a level that the sample has.
    SpecError
        If there are too many margin cells.

    Examples
    --------
    >>> import pandas as pd
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> margin = read_margin(pd.DataFrame({"SEX": [0, 1], "people": [400, 600]}), keys)
    >>> margin.keys, margin.counts.tolist()
    ((0,), [400, 600])
    """
    file = _columns(source, keys, reading)
    n_levels = [keys[j].n_levels for j in file.keys]
    if math.prod(n_levels) > MOST_CELLS:
        raise _too_many(file.name, n_levels)
    places = np.zeros(len(file.counts), np.int64)
    outside = np.zeros(len(file.counts), bool)
    ours: list[Int64] = []
    for j, (codes, texts) in zip(file.keys, file.levels, strict=True):
        level = _level_of(keys[j], texts)[codes]
        # Texts that are no level count down from -1: they too have one row each.
        ours.append(-1 - codes.astype(np.int64))
        ours[-1][level >= 0] = level[level >= 0]
        outside |= level < 0
        places = places * keys[j].n_levels + np.maximum(level, 0)
    _refuse_repeated(np.column_stack(ours), file)
    counts = np.zeros(math.prod(n_levels), np.int64)
    counts[places[~outside]] = file.counts[~outside]
    return Margin(
        name=file.name,
        keys=file.keys,
        counts=counts,
        outside=int(file.counts[outside].sum()),
        absent=tuple(_absent(keys[j], ours[column]) for column, j in enumerate(file.keys)),
    )


def margin_of(table: CellTable, names: Sequence[str]) -> Margin:
    """Count the records of a table, which is a population, over some of its keys.

    Examples
    --------
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [1, 1], [0, 2]], keys, population_size=3)
    >>> margin_of(table, ["SEX"]).counts.tolist()
    [2, 1]
    """
    known = _margin_keys(table)
    place = {key.name: j for j, key in enumerate(known)}
    for name in names:
        if name not in place:
            raise SpecError(
                f"{option('margins')} names {brief(name)!r}, and counts can be known over "
                f"{_names(list(place))}.{suggest(name, place)}"
            )
    keys = tuple(sorted({place[name] for name in names}))
    n_levels = [known[j].n_levels for j in keys]
    if math.prod(n_levels) > MOST_CELLS:
        raise _too_many(" and ".join(names), n_levels)
    cell = margin_cell(table.cells, keys, table.n_levels)
    return Margin(
        name=" and ".join(names),
        keys=keys,
        counts=np.bincount(cell, table.counts, math.prod(n_levels)).astype(np.int64),
        outside=0,
        absent=tuple(np.zeros(n, bool) for n in n_levels),
    )


def _margin_keys(table: CellTable) -> tuple[Key, ...]:
    """Keys over which counts may be known, the first columns: of households those of them all."""
    return table.keys if table.layout is None else table.layout.household_keys


def _too_many(name: str, n_levels: Sequence[int]) -> SpecError:
    return SpecError(
        f"{name}: its {len(n_levels)} keys have {math.prod(n_levels):,} combinations of "
        f"levels; at most {MOST_CELLS:,} can be known counts. Give counts over fewer keys."
    )


def with_margins(table: CellTable, margins: Sequence[Margin]) -> CellTable:
    """Return a table whose population has these margins; they tell its size.

    Raises
    ------
    DataError
        If the sample has a level that a margin lacks, or more records in a margin cell than it has
        units.
    SpecError
        If margins contradict each other or the population size, or the sample has weights.
    """
    if table.sampling is not None:
        raise with_unequal_chances()
    if table.layout is not None and table.layout.rules is not None:
        raise SpecError(
            f"{option('margins')} and rules of what is impossible in a household are both given. "
            "How probable a size is under such rules is known by simulation alone, and not well "
            "enough to divide by it. Leave one of them out."
        )
    for margin in margins:
        _refuse_contradiction(margin, table)
    total = margins[0].total
    for other in margins[1:]:
        if other.total != total:
            raise SpecError(
                f"The counts of {margins[0].name} sum to {total:,}, those of {other.name} to "
                f"{other.total:,}. All margins are of one population; correct the files."
            )
    _refuse_disagreeing(margins, table)
    if table.population_size not in (None, total):
        raise SpecError(
            f"The counts of {margins[0].name} sum to {total:,}, but the population size is given "
            f"as {table.population_size:,}. Correct one of them, or leave the population size out: "
            "the counts tell it."
        )
    Design(population_size=total).check(table.n_records)
    return replace(table, population_size=total, margins=tuple(margins))


def recoded_margins(
    margins: Sequence[Margin], groups: Sequence[Int32], kept: Sequence[int]
) -> tuple[Margin, ...]:
    """Return margins of recoded keys; of one whose keys are all left out nothing remains.

    Parameters
    ----------
    margins
        Of the keys as they were.
    groups
        Group of each level, of each key of the table.
    kept
        Keys that are not left out.
    """
    found = []
    for margin in margins:
        grid = margin.counts.reshape([len(groups[j]) for j in margin.keys])
        absent = []
        for axis, j in reversed(list(enumerate(margin.keys))):
            if j not in kept:
                grid = grid.sum(axis=axis)
                continue
            members = groups[j] == np.arange(groups[j].max() + 1)[:, None]
            grid = np.moveaxis(np.tensordot(members.astype(np.int64), grid, (1, axis)), 0, axis)
            if margin.absent:
                absent.append((margin.absent[axis] | ~members).all(axis=1))
        if own := [j for j in margin.keys if j in kept]:
            found.append(
                replace(
                    margin,
                    keys=tuple(list(kept).index(j) for j in own),
                    counts=np.ascontiguousarray(grid).ravel(),
                    absent=tuple(reversed(absent)),
                )
            )
    return tuple(found)


def with_unequal_chances() -> SpecError:
    """Return the error of margins together with weights or strata."""
    return SpecError(
        f"{option('margins')} and weights or strata are both given. Margins are for records drawn "
        "with equal chances. Leave the margins out and calibrate the weights to them, or leave the "
        "weights and strata out."
    )


def margin_cell(cells: Int32, margin_keys: Sequence[int], n_levels: Sequence[int]) -> Int64:
    """Number of the combination of some keys that cells have, (n,); -1 where one is missing."""
    found = np.zeros(len(cells), np.int64)
    missing = np.zeros(len(cells), bool)
    for j in margin_keys:
        missing |= cells[:, j] < 0
        found = found * n_levels[j] + cells[:, j]
    found[missing] = -1
    return found


def _columns(source: Any, keys: Sequence[Key], reading: dict[str, Any]) -> _File:
    """Read the file, and tell its keys from its counts."""
    opened = open_source(source, **reading)
    name = f"{opened.name} ({option('margins')})"
    place = {key.name: j for j, key in enumerate(keys)}
    known = [column for column in opened.columns if column in place]
    others = [column for column in opened.columns if column not in place]
    if not known:
        raise DataError(
            f"{name} has no column that is a key: a margin has a column for each of some keys, and "
            f"one column of counts. The keys are {_names([key.name for key in keys])}."
        )
    if len(others) != 1:
        have = (
            f"has {len(others)} columns that are no keys, {_names(others)}, and one of them only "
            "may be there, that of the counts. Leave the others out, or sum the counts over them"
            if others
            else "has keys only. Add one column of counts, the units of the population in each "
            "combination"
        )
        raise DataError(f"{name} {have}.")
    columns = [*known, *others]
    with opened.session(columns) as connection:
        coded = [_texts_of(connection, f"c{j}") for j in range(len(columns))]
    opened.delete_copies()
    if not len(coded[0][0]):
        raise DataError(f"{name} has columns but no rows; give the counts.")
    for column, (codes, _) in zip(columns, coded, strict=True):
        rule = "It must hold a level in every row; leave out rows of totals"
        if column in others:
            rule = "It must hold a whole number in every row, 0 for nobody"
        _refuse(codes < 0, f"{name}, column {column!r}", "are missing", rule)
    return _File(
        name=opened.name,
        keys=tuple(place[column] for column in known),
        levels=coded[:-1],
        counts=_counts(*coded[-1], f"{name}, column {others[0]!r}"),
    )


def _counts(codes: Int32, texts: list[str], where: str) -> Int64:
    """Counts of the rows, (n_rows,)."""
    numbers = [number_meant(text) for text in texts]
    wrong = np.array([n is None or n != n or abs(n) == math.inf for n in numbers])
    _refuse(wrong[codes], where, "are no numbers", "It must hold whole numbers without commas")
    values = [number or 0 for number in numbers]
    wrong = np.array([value < 0 for value in values])
    _refuse(wrong[codes], where, "are negative", "It must hold numbers of units, 0 or more")
    wrong = np.array([value != int(value) for value in values])
    _refuse(wrong[codes], where, "are not whole", "It must hold numbers of units, not shares")
    wrong = np.array([value >= LARGEST_POPULATION for value in values])
    _refuse(wrong[codes], where, "are 2**62 or more", "It must hold numbers of units")
    total = sum(values[code] for code in codes.tolist())
    if not 1 <= total < LARGEST_POPULATION:
        raise DataError(f"{where}: the counts sum to {total:.4g}; correct the column.")
    return np.array([int(value) for value in values], np.int64)[codes]


def _level_of(key: Key, texts: Sequence[str]) -> Int64:
    """Code of the level that each text means, by its value or its label; -1 where it is none.

    As it is written, or as a number that one level alone means: 1.0 is 1, and 01 is another level
    where there are both.
    """
    names: dict[str, int] = {}
    alike: dict[str, set[int]] = {}
    values = [str(level).lower() if isinstance(level, bool) else str(level) for level in key.levels]
    for written in (values, key.labels):
        for code, name in enumerate(written):
            names.setdefault(name, code)
            alike.setdefault(one_way(name), set()).add(code)
    numbers = {text: min(codes) for text, codes in alike.items() if len(codes) == 1}
    return np.array([names.get(text, numbers.get(one_way(text), -1)) for text in texts], np.int64)


def _texts_of(connection: duckdb.DuckDBPyConnection, column: str) -> tuple[Int32, list[str]]:
    """Code the values of a column of the view ``source``, as they are written; -1 for missing."""
    import pyarrow.compute as pc

    table = connection.sql(
        f"SELECT nullif(nullif(trim(({column})::VARCHAR), ''), 'nan') AS v FROM source"
    ).to_arrow_table()
    encoded = table.column(0).combine_chunks().dictionary_encode()
    codes = np.asarray(pc.fill_null(encoded.indices, -1), dtype=np.int32)
    return codes, [str(text) for text in encoded.dictionary.to_pylist()]


def _absent(key: Key, codes: Int64) -> Bool:
    """Levels of a key that the file has no row for, (n_levels,)."""
    absent = np.ones(key.n_levels, bool)
    absent[codes[codes >= 0]] = False
    return absent


def _refuse_repeated(levels: Int64, file: _File) -> None:
    _, first = np.unique(levels, axis=0, return_index=True)
    again = np.ones(len(levels), bool)
    again[first] = False
    _refuse(
        again,
        f"{file.name} ({option('margins')})",
        "have levels that a row before them has",
        "It must have one row for each combination of levels; sum their counts",
        what="rows",
    )


def _refuse_contradiction(margin: Margin, table: CellTable) -> None:
    """Refuse a margin that lacks levels of the sample, or has fewer units than records."""
    where = f"{margin.name} ({option('margins')})"
    for j, absent in zip(margin.keys, margin.absent, strict=True):
        key = table.keys[j]
        codes = table.cells[table.record_cell, j]
        without = np.flatnonzero(absent[codes] & (codes >= 0))
        if len(without):
            lacking = np.unique(codes[without])
            told = [key.labels[code] for code in lacking if code not in key.private]
            named = f" ({listed([repr(brief(label)) for label in told], 5)})" if told else ""
            groups = (
                f" The key is grouped by {key.binning}: its levels in the file must be the groups, "
                "as the report writes them."
                if key.binning is not None
                else ""
            )
            raise DataError(
                f"{where} has no row for {len(lacking)} of the levels of key "
                f"{brief(key.name)!r}{named} that records have (data rows of the sample "
                f"{rows_shown(without + 1)}). Code the key as in the data, and give the counts of "
                f"all of its levels.{groups}"
            )
    cell = margin_cell(table.cells, margin.keys, table.n_levels)
    complete = cell >= 0
    sampled = np.bincount(cell[complete], table.counts[complete], len(margin.counts))
    beyond = sampled > margin.counts
    if beyond.any():
        records = np.flatnonzero((complete & beyond[cell])[table.record_cell])
        raise DataError(
            f"{where}: {np.count_nonzero(beyond):,} margin cell(s) have more records in the sample "
            "than units in the population (data rows of the sample "
            f"{rows_shown(records + 1)}). A margin cell that the file leaves out has none. Correct "
            "the counts, the coding of the keys, or the records."
        )


def _refuse_disagreeing(margins: Sequence[Margin], table: CellTable) -> None:
    """Refuse several margins that cannot hold together."""
    if len(margins) == 1:
        return
    together = sorted({j for margin in margins for j in margin.keys})
    n_cells = math.prod(table.n_levels[j] for j in together)
    if n_cells > MOST_CELLS:
        raise SpecError(
            f"The {len(margins)} margins have {len(together)} keys together, with {n_cells:,} "
            f"combinations of levels; at most {MOST_CELLS:,} can be adjusted to known counts. Give "
            "margins over fewer keys."
        )
    for margin in margins:
        if margin.outside:
            raise SpecError(
                f"{margin.name} has {margin.outside:,} units at levels that neither the sample nor "
                "a codebook has, and of several margins all levels must be known. Declare them: "
                f"{option('codebook')}."
            )
    for one, other in combinations(margins, 2):
        shared = [j for j in one.keys if j in other.keys]
        sums = [_summed(margin, shared, table.n_levels) for margin in (one, other)]
        if not np.array_equal(sums[0], sums[1]):
            names = _names([table.keys[j].name for j in shared])
            raise SpecError(
                f"{one.name} and {other.name} disagree on {np.count_nonzero(sums[0] != sums[1]):,} "
                f"counts of {names}, which both have. All margins are of one population; correct "
                "the files."
            )


def _summed(margin: Margin, over: Sequence[int], n_levels: Sequence[int]) -> Int64:
    """Counts over some of a margin's keys."""
    grid = margin.counts.reshape([n_levels[j] for j in margin.keys])
    axes = tuple(axis for axis, j in enumerate(margin.keys) if j not in over)
    kept = [j for j in margin.keys if j in over]
    summed = grid.sum(axis=axes)
    return np.transpose(summed, [kept.index(j) for j in over]).ravel() if kept else summed.ravel()


def _refuse(wrong: Bool, where: str, how: str, rule: str, what: str = "values") -> None:
    if wrong.any():
        rows = np.flatnonzero(wrong)
        raise DataError(
            f"{where}: {len(rows):,} {what} {how} (data rows {rows_shown(rows + 1)}, counted "
            f"from 1). {rule}."
        )


def _names(columns: Sequence[str]) -> str:
    return listed([repr(brief(column)) for column in columns], 5)
