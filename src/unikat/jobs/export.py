"""Tables of results for programs that read no Parquet: CSV, Stata and SPSS, also beside a file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from unikat.data.readers import open_source
from unikat.data.sources import Source
from unikat.data.writers import ending, write_new, write_records
from unikat.errors import DataError, OutputError, SpecError, brief, listed, option
from unikat.files.folder import keep_inputs
from unikat.files.writing import all_or_nothing
from unikat.report.folders.records_at_risk import safe
from unikat.spec.kinds import RECORDS

_LABELS = {
    "row": "Number of the record in the file",
    "f": "Records of the file in its cell",
    "sample_unique": "Unique in the file",
    "r1": "Probability that it is unique in file and population",
    "r2": "Probability that a match to it is correct",
    "F_median": "Units of the population in its cell, posterior median",
    "F_mode": "Units of the population in its cell, posterior mode",
    "rank": "Rank by risk among the sample uniques, 1 the highest",
    "r1_shown": "r1 by what the file shows of it",
    "r2_shown": "r2 by what the file shows of it",
    "k": "Records of the file that match it",
    "k_population": "Units of the population that match it, by the weights",
    "individual_risk": "Individual risk",
    "household_risk": "Risk of its household",
    "suda": "SUDA score",
    "dis": "DIS score",
    "link": "Probability that an intruder's link to it is correct",
    "conflict": "Impossible combination of keys",
    "household": "Number of its household",
    **{f"key_{i}": f"Key that does most to make it rare, number {i}" for i in (1, 2, 3)},
    **{f"drop_{i}": f"Fall in r1 if key_{i} is left out" for i in (1, 2, 3)},
}
"""Labels of the variables of records in files of Stata and SPSS."""
_ENDS = {"_lower": ", lower end", "_upper": ", upper end"}


def export(results: Path, out: Path, *, beside: Path | None = None, overwrite: bool = False) -> int:
    """Write a table of results in the format that the ending of `out` names; return its rows.

    Parameters
    ----------
    results
        The folder of an assessment, whose records are meant, or a Parquet file of any run.
    out
        The new file: ``.csv``, ``.dta`` or ``.sav``; beside a file, of the ending of that file.
    beside
        A file with a row for each row of the table, in its order, as the one that was assessed: its
        columns come first, with their labels.
    overwrite
        Whether a file that is there is replaced.

    Raises
    ------
    DataError
        If the table cannot be read, or the file has other rows.
    SpecError
        If the file has a column of the same name.
    OutputError
        If `out` is there or has an ending that is not written, or it cannot be written.
    """
    path = results / RECORDS if results.is_dir() else results
    table = _plain(_read(path))
    if out.exists() and not overwrite:
        raise OutputError(
            f"{out} exists. Replace it with {option('overwrite', True)}, or name another file."
        )
    keep_inputs([out], [path, *([] if beside is None else [beside])])
    table = _named(table, out)
    titles = {name: title_of(name) for name in table.column_names}
    source = None if beside is None else _of_ending(beside, out)
    rows, letters = (table, {}) if source is None else _joined(source, table)
    with all_or_nothing(out.parent, (out.name,), out.name) as scratch:
        if source is None:
            write_new(scratch / out.name, rows, titles)
        else:
            write_records(scratch / out.name, rows, source, letters=letters, titles=titles)
    return int(table.num_rows)


def _of_ending(beside: Path, out: Path) -> Source:
    source = open_source(beside)
    wanted = ending(source)
    if out.suffix.lower() != Path(f"x{wanted}").suffix.lower():
        raise OutputError(
            f"{out.name} has another ending than {beside.name}, whose columns it is to have; name "
            f"it with the ending {wanted}."
        )
    return source


def _joined(source: Source, table: pa.Table) -> tuple[pa.Table, dict[str, list[str | None]]]:
    with source.session() as connection:
        rows = source.values(connection, source.columns)
    if rows.num_rows != table.num_rows:
        raise DataError(
            f"{source.name} has {rows.num_rows:,} rows, and the results have {table.num_rows:,}; "
            "name the file that the results are of."
        )
    known = {name.lower() for name in source.columns}
    if twice := [name for name in table.column_names if name.lower() in known]:
        raise SpecError(
            f"{source.name} has columns that are called like results: {listed(twice)}. Rename them "
            "in the file, or leave --beside out."
        )
    for name in table.column_names:
        rows = rows.append_column(name, table[name])
    return rows, source.letters(source.columns)


def title_of(name: str) -> str:
    """Label of a column of results; its name, if there is none.

    Examples
    --------
    >>> title_of("r1_upper")
    'Probability that it is unique in file and population, upper end'
    """
    for end, words in _ENDS.items():
        if name.endswith(end) and (label := _LABELS.get(name.removesuffix(end))):
            return label + words
    return _LABELS.get(name, name)


def _read(path: Path) -> pa.Table:
    remedy = "name the folder of an assessment, or a .parquet file in the folder of a run."
    try:
        return pq.read_table(path)
    except (OSError, pa.ArrowInvalid):
        raise DataError(
            f"{brief(str(path))} is not there or is no table of results; {remedy}"
        ) from None


def _safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts that no spreadsheet runs."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return column
    texts = [None if text is None else safe(text) for text in column.to_pylist()]
    return pa.chunked_array([pa.array(texts, pa.string())])


def _plain(table: pa.Table) -> pa.Table:
    """Texts for categories, and lists as texts: what all formats have."""
    columns: list[Any] = []
    for column in table.columns:
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        elif pa.types.is_list(column.type):
            texts = pc.cast(pc.list_flatten(column), pa.string())
            again = pa.ListArray.from_arrays(
                column.combine_chunks().offsets, texts.combine_chunks()
            )
            column = pc.binary_join(again, "; ")
        columns.append(column)
    return pa.table(columns, names=table.column_names)


def _named(table: pa.Table, out: Path) -> pa.Table:
    """Names and types that Stata and SPSS allow, for files of theirs; in others no formulas."""
    if out.suffix.lower() not in (".dta", ".sav", ".zsav"):
        # Names of keys are texts of whoever made the file.
        return pa.table(
            [_safe(column) for column in table.columns],
            names=[safe(name) for name in table.column_names],
        )
    names = [re.sub(r"\W", "_", name)[:32] for name in table.column_names]
    columns = [
        column.cast(pa.int8()) if pa.types.is_boolean(column.type) else column
        for column in table.columns
    ]
    return pa.table(columns, names=names)
