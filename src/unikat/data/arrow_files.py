"""Readers of Parquet and Arrow files, one or a folder of them, and of datasets of pyarrow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from unikat.data.engine import literals, pattern, quoted, session
from unikat.data.folders import Part, Parts, check_alike, check_types, folder_keys
from unikat.data.sources import (
    Declared,
    RelationSource,
    TableSource,
    as_categories,
    categories_of,
    check_columns,
    identifier,
)
from unikat.data.streams import StreamSource
from unikat.errors import DataError, brief, listed

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

FILE_NUMBER = "file_index"
"""DuckDB's number of the file that a row is from; a column of this name would hide it."""


def open_dataset(dataset: ds.Dataset) -> StreamSource:
    """Open a dataset of pyarrow, of files or in memory; its rows are in order of the fragments."""

    def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        scanner = dataset.scanner(columns=list(names), batch_readahead=2, fragment_readahead=1)
        yield from scanner.to_batches()

    return StreamSource("The dataset", dataset.schema, batches, format="dataset")


def open_arrow(path: Path) -> TableSource:
    """Open an Arrow file, mapped where it is not compressed."""
    import pyarrow as pa

    try:
        with pa.memory_map(str(path)) as file:
            table = pa.ipc.open_file(file).read_all()
        # Without this a damaged file can end the process.
        table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError, KeyError):
        raise _damaged(brief(path.name)) from None
    return TableSource.of(path, table, "arrow")


def open_arrow_folder(parts: Parts) -> StreamSource:
    """Open Arrow files (IPC, Feather) as one, mapped and not read into memory as a whole."""
    import pyarrow as pa

    schemas = []
    for path, label in zip(parts.paths, parts.labels(), strict=True):
        try:
            with pa.memory_map(str(path)) as file:
                schemas.append(pa.ipc.open_file(file).schema)
        except (pa.ArrowException, OSError, ValueError, KeyError):
            raise _damaged(label) from None
    check_alike(parts, [schema.names for schema in schemas])
    check_types(parts, schemas)
    schema = pa.schema([*schemas[0], *(pa.field(name, pa.string()) for name in parts.columns)])

    def batches(names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        selected = pa.schema([schema.field(name) for name in names])
        for part in parts.parts:
            known = dict(zip(parts.columns, part.values, strict=True))
            with pa.memory_map(str(part.path)) as file:
                reader = pa.ipc.open_file(file)
                for number in range(reader.num_record_batches):
                    batch = reader.get_batch(number)
                    # Without this a damaged file can end the process.
                    batch.validate(full=True)
                    columns = [
                        pa.array([known[name]] * len(batch), pa.string())
                        if name in known
                        else batch.column(name)
                        for name in names
                    ]
                    yield pa.RecordBatch.from_arrays(columns, schema=selected)

    return StreamSource(brief(parts.name), schema, batches, paths=parts.paths, format="arrow")


def _damaged(name: str) -> DataError:
    return DataError(f"{name} cannot be read as an Arrow file; it may be damaged. Write it again.")


def open_parquet(path: Path) -> RelationSource:
    """Open a Parquet file."""
    return _parquet(brief(path.name), [Part(path, ())], ())


def open_parquet_folder(parts: Parts) -> RelationSource:
    """Open Parquet files as one.

    DuckDB would read every column in the type of the first file (2.5 as 2), and match names
    without regard to case.
    """
    schemas = list(map(parquet_schema, parts.paths, parts.labels()))
    check_alike(parts, [schema.names for schema in schemas])
    check_types(parts, list(map(_plain, schemas)))
    alike = Counter(name.lower() for name in schemas[0].names)
    twice = [name for name in schemas[0].names if alike[name.lower()] > 1]
    if twice and len(parts.parts) > 1:
        raise DataError(
            f"{parts.name} has columns whose names differ in case only: {listed(twice, 4)}. Rename "
            "them, or read the files one at a time."
        )
    taken = [name for name in schemas[0].names if name.lower() == FILE_NUMBER]
    if taken and parts.columns:
        raise DataError(
            f"{parts.name} has a column {brief(taken[0])} and folders "
            f"{folder_keys(parts.columns)}; that name is needed to tell the folder of a row. "
            "Rename the column."
        )
    return _parquet(brief(parts.name), parts.parts, parts.columns)


def _parquet(name: str, parts: Sequence[Part], made: Sequence[str]) -> RelationSource:
    """Describe Parquet files; `made` are the columns that the names of their folders make."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    paths = [part.path.resolve() for part in parts]
    schema = parquet_schema(paths[0], name)
    check_columns(schema.names, name)
    # The values that DuckDB takes from names of folders would replace columns of the files.
    patterns = literals([pattern(path) for path in paths])
    relation = f"read_parquet({patterns}, hive_partitioning = false)"
    with session(paths, name=name) as connection:
        described = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    # DuckDB renames columns that differ in case only; their order stays.
    sql_names = [row[0] for row in described]
    if made:
        further = []
        for j in range(len(made)):
            sql_names.append(f"unikat folder {j}")
            levels = [part.values[j] for part in parts]
            texts = ", ".join("NULL" if level is None else quoted(level) for level in levels)
            further.append(
                f"list_extract(CAST([{texts}] AS VARCHAR[]), CAST({FILE_NUMBER} AS BIGINT) + 1) "
                f"AS {identifier(sql_names[-1])}"
            )
        relation = f"(SELECT *, {', '.join(further)} FROM {relation})"

    def declare(column: str) -> Declared:
        known = parquet_schema(paths[0], name)
        if column not in known.names or not pa.types.is_dictionary(known.field(column).type):
            return Declared()
        return categories_of(pq.read_table(paths[0], columns=[column], partitioning=None)[column])

    def typed(table: pa.Table) -> pa.Table:
        for place, column in enumerate(table.column_names):
            if schema.get_field_index(column) < 0:
                continue
            field = schema.field(column)
            order = source.declared(column).order
            if order is None:
                found = table[column].cast(field.type)
            else:
                # Arrow alone would number the categories as they occur.
                plain = table[column].cast(field.type.value_type).combine_chunks()
                found = as_categories(plain, order, field.type)
            table = table.set_column(place, field, found)
        return table

    source = RelationSource(
        name,
        [*schema.names, *made],
        paths=paths,
        format="parquet",
        relation=relation,
        sql_names=sql_names,
        declare=declare,
        typed=typed,
    )
    return source


def parquet_schema(path: Path, name: str) -> pa.Schema:
    """Columns of a Parquet file, which messages call `name`, and their types."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (pa.ArrowException, OSError, ValueError):
        raise DataError(
            f"{brief(name)} cannot be read as Parquet. The file may be damaged or not "
            "of the format its name says; write it again from its source."
        ) from None


def _plain(schema: pa.Schema) -> pa.Schema:
    """Schema with one type for each kind of text, which DuckDB reads alike."""
    import pyarrow as pa

    def plain(type: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(type):
            type = type.value_type
        text = pa.types.is_large_string(type) or pa.types.is_string_view(type)
        return pa.string() if text else type

    return pa.schema([(field.name, plain(field.type)) for field in schema])
