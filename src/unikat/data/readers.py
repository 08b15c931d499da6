"""Opening files and frames: `read` turns them into Microdata."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from unikat.data.arrow_files import (
    open_arrow,
    open_arrow_folder,
    open_dataset,
    open_parquet,
    open_parquet_folder,
)
from unikat.data.binning import KeySpec, parse_keys
from unikat.data.codebook import Entry, codebook_warnings, load_codebook
from unikat.data.columns import CodedKey, refuse_constant
from unikat.data.databases import open_duckdb, open_sqlite
from unikat.data.design import Design
from unikat.data.engine import DEFAULT_MEMORY
from unikat.data.folders import Parts, find_parts
from unikat.data.formats import (
    DATABASES,
    SHEETS,
    TABLES,
    checked_format,
    named_format,
    no_file,
    what_is,
)
from unikat.data.frames import frame_of_codes
from unikat.data.hand_groups import Groups, HandGroups, hierarchy_of, in_groups
from unikat.data.keys import Key
from unikat.data.letters import is_letter
from unikat.data.levels import survey
from unikat.data.microdata import Microdata, columns_of
from unikat.data.named_levels import is_number
from unikat.data.names import column_hint
from unikat.data.numbers import number_meant
from unikat.data.postgres import PostgresSource
from unikat.data.r_files import open_r
from unikat.data.sources import FrameSource, Source, check_columns
from unikat.data.spreadsheets import open_spreadsheet
from unikat.data.statistical import StatisticalSource
from unikat.data.structure import structure_of
from unikat.data.table import Missing, check_missing
from unikat.data.text_files import open_text
from unikat.errors import DataError, SpecError, brief, option
from unikat.interrupts import interruptible
from unikat.language.dates import DateForm
from unikat.language.keys import entries_of
from unikat.spec.addresses import is_address
from unikat.spec.level_kinds import PLAIN
from unikat.spec.missing import listed_codes


@interruptible
def read(
    source: Any,
    keys: str | Sequence[str],
    design: Design,
    *,
    codebook: str | PathLike[str] | Mapping[str, Any] | None = None,
    missing: Missing = "integrate",
    missing_values: object = (),
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    sheet: str | None = None,
    table: str | None = None,
    query: str | None = None,
    memory_limit: str = DEFAULT_MEMORY,
    constant_keys: bool = False,
    empty_rows: bool = False,
    fewest_keys: int = 2,
    answers: Mapping[str, Sequence[str]] | None = None,
    levels: Mapping[str, str] | None = None,
    groups: Mapping[str, Groups] | None = None,
    others_stay: bool = False,
    dates: str | Mapping[str, str] = "",
) -> Microdata:
    """Read microdata and find the levels of their keys.

    Values are taken as they are: codes in text keep their leading zeros, an empty string is
    missing, text such as ``NA`` or ``null`` is refused until it is named as a missing value or in
    the codebook, and so is text that differs from other text by surrounding blanks only, and a
    key's levels are the values that occur and those the codebook declares. Levels are in the order
    of the codebook if it declares them, of the categories if the column is categorical, else sorted
    (by number where all look like numbers). Neither categories nor value labels declare levels,
    since both often outlive the records that had them.

    Parameters
    ----------
    source
        A path: CSV or TSV (``.csv``, ``.tsv``, ``.txt``, also ``.gz``), Parquet, Arrow, Feather or
        IPC, SQLite, DuckDB; with the extra ``spreadsheet`` Excel (``.xlsx``) and OpenDocument
        (``.ods``), with ``stat`` SPSS, Stata and SAS, with ``r`` data frames of R (``.rds``,
        ``.RData``). Of text, Parquet and Arrow also a folder or a pattern such as
        ``"parts/*.parquet"``: its files in order of name, with folders ``key=value`` as columns of
        text. Or a pandas or polars DataFrame, a polars LazyFrame (collected), a pyarrow Table, a
        pyarrow Dataset (read in batches, in the order of its fragments), a DuckDB relation (brought
        into memory, since its rows need not come in the same order twice). Or a NumPy matrix of
        whole numbers, (n_records, n_keys), -1 where missing, whose columns are the keys.
        Or, with the extra ``postgres``, ``"postgresql://USER@HOST/DATABASE"``: the server counts
        the combinations, and the rows are in their order.
    keys
        Key variables, as a list or separated by commas. Numbers can be grouped:
        ``"AGE:quantile(10)"`` makes ten groups of about as many records (fewer with ties),
        ``"AGE:width(5)"`` makes 0-4, 5-9, ..., and ``"INCOME:cut(0,1000,5000)"`` makes
        below 0, [0, 1000), [1000, 5000), and 5000 and above, so that nothing falls outside.
        Groups without records are not levels. Dates are joined by ``"BIRTH:year"``, ``quarter``,
        ``month``, ``day`` or ``years(5)``.
    design
        How the sample was drawn: the population size, and the columns of weights and strata.
    codebook
        Declared levels, labels and missing codes; see
        :func:`unikat.data.codebook.load_codebook`. Levels and labels concern keys that are not
        grouped; missing codes all.
    missing
        What a missing key is: ``"integrate"`` (unknown, integrated over), ``"level"`` (a level of
        its own), ``"wildcard"`` (matches every level). NaN counts as missing.
    missing_values
        Further codes that mean missing, such as ``[-1]`` for all keys, or ``{"AGE": [-1, 999]}``.
        An empty list, ``{"AGE": []}``: no code of this key does, whatever the file declares. A
        labelled code that the file declares missing is a level if other keys tell who has it (see
        `unikat.data.not_asked`).
    delimiter
        Character between fields of a CSV file; found out from the header if None.
    decimal
        Character before the decimals of numbers that stand as text, ``"."`` or ``","``. None: a
        comma in columns that have numbers such as 12,5 and none with a point. What could also
        separate thousands (1,234) needs to be told.
    encoding
        Encoding of a CSV or statistical file; UTF-8 if None (byte order marks are understood),
        respectively what the statistical file states.
    format
        ``"csv"``, ``"tsv"``, ``"parquet"``, ``"arrow"``, ``"xlsx"``, ``"ods"``, ``"sqlite"``,
        ``"duckdb"``, ``"rds"``, ``"rdata"``, ``"sav"``, ``"zsav"``, ``"dta"``, ``"sas7bdat"`` or
        ``"xpt"``, if the name of the file does not say it.
    sheet
        Sheet of a workbook; None if there is only one.
    table
        Table or view of a database, or data frame of an ``.RData`` file; None if there is only
        one. Tables of PostgreSQL outside the search path have their schema before the name.
    query
        A query of a database in place of a table.
    memory_limit
        Memory that DuckDB may use, such as ``"1GB"``. A workbook, file of R or of a statistical
        package, table of SQLite or view of DuckDB that needs more is refused.
    constant_keys
        Whether a key may have the same level in every row, as in a register of one sex; in a
        sample it carries no information and is refused.
    empty_rows
        Whether rows may have all keys missing, where nothing is estimated of them.
    fewest_keys
        Keys that are needed: 1 where they are put together with others, as those of households.
    answers
        Codes by key that the file declares missing and that are levels, as another file of the same
        survey told; None: this file tells.
    levels
        Kind of the levels of some keys, where the file does not tell: ``{"EDU": "ordered"}``; see
        `unikat.spec.level_kinds`.
    groups
        Groups of levels in which some keys are read, as if their columns had them: a file with a
        level and its group in each row, or a mapping, ``{"REGION": {1: "north", 2: "north"}}``.
    others_stay
        Whether levels that are in no row of their file of groups stay as they are, as in a file
        that somebody recoded further; else they are refused.
    dates
        Form of the dates of some keys, where texts or numbers hold them and the form is not the
        only one that all have: ``{"BIRTH": "DD/MM/YYYY"}``; see `unikat.language.dates`.

    Returns
    -------
    Microdata
        Rows in their order, not yet counted.

    Raises
    ------
    DataError
        If the file or frame cannot be read, or a key cannot be used.
    SpecError
        If an option is wrong.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"SEX": ["m", "f", "f"], "AGE": [31, 44, 68]})
    >>> microdata = read(frame, "SEX, AGE:cut(40,65)", Design(population_size=100))
    >>> [key.labels for key in microdata.keys]
    [('f', 'm'), ('< 40', '40-64', '>= 65')]
    """
    check_missing(missing)
    if not isinstance(design, Design):
        raise SpecError("design must be a Design, such as Design(population_size=1_000_000).")
    if decimal not in (None, ".", ","):
        raise SpecError(f"{option('decimal', brief(str(decimal)))} must be a point or a comma.")
    entries = load_codebook(codebook)
    if isinstance(source, np.ndarray):
        source = frame_of_codes(source, keys)
    opened = open_source(
        source,
        delimiter=delimiter,
        encoding=encoding,
        format=format,
        sheet=sheet,
        table=table,
        query=query,
        memory_limit=memory_limit,
    )
    opened.decimal = decimal
    specs = parse_keys(keys, opened.columns, opened.name, fewest_keys)
    specs = [_with_groups(spec, groups or {}) for spec in specs]
    names = [spec.name for spec in specs]
    _check_columns("groups", groups or {}, opened)
    _check_design(design, opened)
    codes = _missing_values(missing_values, [*names, *design.household], opened)
    with opened.session(columns_of(names, design), memory_limit=memory_limit) as connection:
        n_records, coded = survey(
            connection,
            opened,
            specs,
            codebook=entries,
            missing_values=codes,
            missing=missing,
            constant_keys=constant_keys,
            empty_rows=empty_rows,
            answers=answers,
            dates=_forms(dates, opened),
        )
    design.check(n_records)
    columns = tuple(columns_of(names, design))
    by_hand: dict[str, HandGroups] = {}
    for j, (spec, one) in enumerate(zip(specs, coded, strict=True)):
        if not spec.by_hand:
            continue
        assert groups is not None
        tree = hierarchy_of(spec.name, groups[spec.name], encoding)
        by_code = opened.holds_labels and all(
            level is None or is_number(level) or is_letter(level) for level in one.key.levels
        )
        entry = entries.get(spec.name, Entry())
        in_order = (
            one.key.ordered is True
            or one.declared.order is not None
            or entry.levels is not None
            or (levels or {}).get(spec.name) == "ordered"
        )
        try:
            coded[j] = in_groups(
                one, tree, in_order=in_order, by_code=by_code, others_stay=others_stay
            )
        except SpecError as error:
            # A run may read several files.
            raise SpecError(f"{opened.name}: {error}") from None
        if coded[j].key.n_levels == 1 and not constant_keys:
            refuse_constant(opened.name, coded[j].key)
        by_hand[spec.name] = HandGroups(
            coded=coded[j], position=j, columns=columns, has_codes=by_code
        )
    before, coded = coded, _with_kinds(coded, levels or {}, opened)
    found = tuple(column.key for column in coded)
    dropped = [
        f"The groups of {brief(key.name)} are no levels of the kind {kind!r}, which "
        f"{'its codebook' if key.name not in (levels or {}) else option('levels')} names: they are "
        "read without it. Leave the kind out, or name one of the groups."
        for key, one in zip(found, before, strict=True)
        if key.by_hand and not key.told and (kind := (levels or {}).get(key.name, one.key.told))
    ]
    return Microdata(
        name=opened.name,
        keys=found,
        warnings=(*codebook_warnings(entries, opened.columns, found, opened.name), *dropped),
        n_records=n_records,
        n_missing=tuple(column.n_missing for column in coded),
        design=design,
        missing=missing,
        _source=opened,
        _coded=tuple(coded),
        _missing_values=codes,
        _memory_limit=memory_limit,
        _by_hand=by_hand,
    )


def _with_groups(spec: KeySpec, groups: Mapping[str, Groups]) -> KeySpec:
    if spec.name not in groups:
        return spec
    if spec.rule is not None:
        raise SpecError(
            f"Key {brief(spec.name)!r} is grouped by {brief(spec.rule.text)} and by "
            f"{option('groups')}; leave one of the two out."
        )
    return replace(spec, by_hand=True)


def _with_kinds(
    coded: Sequence[CodedKey], levels: Mapping[str, str], source: Source
) -> list[CodedKey]:
    """Give keys the kinds of levels that the user tells, and check those of all."""
    _check_columns("levels", levels, source)
    found = []
    for one in coded:
        key = one.key
        if kind := levels.get(key.name):
            key = replace(key, told=kind, told_by="option")
        if key.told and key.by_hand and kind not in PLAIN:
            # The levels of the file are codes of a system; their groups may be.
            key = key if _can_be(key) else replace(key, told="", told_by="")
        if key.told:
            structure_of(key)
        found.append(replace(one, key=key))
    return found


def _can_be(key: Key) -> bool:
    """Whether the levels of a key can be of the kind that is told."""
    try:
        structure_of(key)
    except (DataError, SpecError):
        return False
    return True


def _check_columns(name: str, given: Mapping[str, Any], source: Source) -> None:
    """Refuse what an option says of the levels of a column that the data do not have."""
    for column in given:
        if column not in source.columns:
            raise SpecError(
                f"{source.name} has no column {brief(column)!r}, whose levels "
                f"{option(name, f'{column}: ...')} describes." + column_hint(column, source.columns)
            )


def _forms(dates: str | Mapping[str, str], source: Source) -> dict[str, DateForm]:
    """Read the forms of dates that the user tells."""
    found = {}
    entries = entries_of(dates, last=True) if isinstance(dates, str) else dates.items()
    for name, text in entries:
        if name not in source.columns:
            raise SpecError(
                f"{source.name} has no column {brief(name)!r}, whose dates "
                f"{option('dates', f'{name}: ...')} describes." + column_hint(name, source.columns)
            )
        try:
            found[name] = DateForm.of(text)
        except ValueError as error:
            raise SpecError(f"{option('dates', name)}: {error}.") from None
    return found


def _check_design(design: Design, source: Source) -> None:
    """Refuse columns of the design that the data do not have."""
    for name in design.columns:
        if name not in source.columns:
            raise DataError(
                f"{source.name} has no column {brief(name)!r}, which is named for the "
                f"{design.use_of(name)}." + column_hint(name, source.columns)
            )


def _missing_values(
    given: object, names: Sequence[str], source: Source
) -> dict[str, tuple[object, ...]]:
    if not isinstance(given, Mapping):
        if not isinstance(given, str) and given is not None and not listed_codes(given):
            # Nothing is said, which is not that no code means missing.
            return {}
        given = dict.fromkeys(names, given)
    result = {}
    for name, codes in given.items():
        if name not in source.columns:
            raise SpecError(
                f"The missing values name {brief(str(name))!r}, which is no column of "
                f"{source.name}." + column_hint(str(name), source.columns)
            )
        codes = listed_codes(codes)
        if any(isinstance(code, int) and number_meant(code) is None for code in codes):
            raise SpecError(
                f"The missing values of {brief(str(name))!r} hold a number of hundreds of digits, "
                "which no column can hold."
            )
        result[str(name)] = tuple(codes)
    return result


def open_source(
    source: Any,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    format: str | None = None,
    sheet: str | None = None,
    table: str | None = None,
    query: str | None = None,
    memory_limit: str = DEFAULT_MEMORY,
) -> Source:
    """Open a path or a frame; parameters as of `read`. What is open already stays as it is."""
    if isinstance(source, Source):
        return source
    if not isinstance(source, (str, PathLike)):
        return _open_frame(source)
    if is_address(source):
        return PostgresSource(source, table, query)
    path, kind = Path(source), named_format(format)
    parts = _several(path, kind)
    kind = checked_format(path, kind) if parts is None else parts.kind
    for name, given, kinds, several in (
        ("sheet", sheet, SHEETS, "sheets"),
        ("table", table, TABLES, "tables"),
        ("query", query, DATABASES, "queries"),
    ):
        if given is not None and kind not in kinds:
            raise SpecError(
                f"{option(name)} is given, but {brief(path.name)} is to be read as {kind}, "
                f"which has no {several}; leave the option out."
            )
    if parts is not None:
        for one, label in zip(parts.paths, parts.labels(), strict=True):
            what_is(one)
            checked_format(one, kind, name=label)
    if kind in ("csv", "tsv"):
        return open_text(path, parts, kind, delimiter=delimiter, encoding=encoding)
    if kind == "parquet":
        return open_parquet(path) if parts is None else open_parquet_folder(parts)
    if kind == "arrow":
        return open_arrow(path) if parts is None else open_arrow_folder(parts)
    if kind in SHEETS:
        return open_spreadsheet(path, kind, sheet, memory_limit)
    if kind == "sqlite":
        return open_sqlite(path, table, query, memory_limit)
    if kind == "duckdb":
        return open_duckdb(path, table, query, memory_limit)
    if kind in ("rds", "rdata"):
        return open_r(path, table, memory_limit)
    return StatisticalSource(path, kind, encoding, memory_limit)


def _open_frame(source: Any) -> Source:
    import duckdb
    import narwhals.stable.v2 as nw
    import pyarrow as pa

    name = "The data frame"
    if isinstance(source, duckdb.DuckDBPyRelation):
        name = "The relation"
        frame = nw.from_native(source.to_arrow_table(), eager_only=True)
        return FrameSource(frame, kind="relation", name=name)
    if isinstance(source, pa.RecordBatch):
        source = pa.Table.from_batches([source])
    # Narwhals refuses repeated names in words of its own, and takes names that are no strings.
    if isinstance(source, pa.Table):
        check_columns(source.column_names, name)
    elif type(source).__module__.startswith("pandas") and hasattr(source, "columns"):
        unnamed = sum(not isinstance(column, str) for column in source.columns)
        if unnamed:
            raise DataError(
                f"{name} has {unnamed} column name(s) that are not strings; name the columns, "
                "for example frame.columns = frame.columns.astype(str)."
            )
        check_columns(list(source.columns), name)
    if type(source).__module__.startswith("pyarrow._dataset") and hasattr(source, "scanner"):
        return open_dataset(source)
    frame = nw.from_native(source, pass_through=True)
    if isinstance(frame, nw.LazyFrame):
        return FrameSource(frame.collect(), kind="lazy", name=name)
    if isinstance(frame, nw.DataFrame):
        return FrameSource(frame, kind="eager", name=name)
    raise DataError(
        f"Data of type {type(source).__name__} cannot be read; give a path, a pandas or polars "
        "data frame, a pyarrow table or dataset, a DuckDB relation, or a NumPy matrix of codes."
    )


def _several(path: Path, kind: str | None) -> Parts | None:
    """Find the files of a folder or a pattern; None if it is one file."""
    found = what_is(path)
    # A file whose name looks like a pattern is that file.
    if found == "folder" or (found is None and any(char in str(path) for char in "*?[")):
        return find_parts(path, kind, is_folder=found == "folder")
    if found is None:
        raise no_file(path)
    return None
