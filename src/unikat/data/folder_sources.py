"""Sources of several files, or of batches: folders of text, Parquet and Arrow, and datasets."""

from __future__ import annotations

import weakref
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.data.engine import literals, pattern, quoted, session, translated
from unikat.data.folders import Parts, check_alike, check_types, folder_keys
from unikat.data.sources import (
    FILE_NUMBER,
    CsvSource,
    Declared,
    FileSource,
    ParquetSource,
    Source,
    TableSource,
    check_columns,
    parquet_schema,
)
from unikat.errors import DataError, brief, listed
from unikat.files.scratch import Scratch, private

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa
    import pyarrow.dataset as ds


class CsvFolder(FileSource):
    """Delimited text files as one; their key columns are put aside as Parquet, file by file."""

    def __init__(self, parts: Parts, files: Sequence[CsvSource], folder: Path) -> None:
        """Describe the files.

        Parameters
        ----------
        parts
            Where they are.
        files
            They, opened.
        folder
            Temporary folder for copies of the keys; it has to outlive this source.
        """
        super().__init__(parts.paths, parts.name)
        self.columns = check_alike(parts, [file.columns for file in files])
        self.delimiter, self.encoding = files[0].delimiter, files[0].encoding
        self._parts, self._files = parts, files
        self._aside = [folder / f"keys-{number}.parquet" for number in range(len(files))]
        self._kept: tuple[str, ...] | None = None

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return [*(file.text for file in self._files), *self._aside]

    def _selected(self, number: int, names: Sequence[str]) -> str:
        """Query of columns of one file; those of the folders' names are the same in every row."""
        file = self._files[number]
        known = dict(zip(self._parts.columns, self._parts.parts[number].values, strict=True))
        selected = []
        for j, name in enumerate(names):
            value = known.get(name)
            if name not in known:
                selected.append(f"f{file.columns.index(name)} AS c{j}")
            elif value is None:
                selected.append(f"CAST(NULL AS VARCHAR) AS c{j}")
            else:
                selected.append(f"{quoted(value)} AS c{j}")
        return f"SELECT {', '.join(selected)} FROM {file.relation}"

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        if self._kept != tuple(names):
            self._kept = None
            for number, (file, aside) in enumerate(zip(self._files, self._aside, strict=True)):
                # Errors name the file.
                with translated(file.name):
                    file.need_text()
                    connection.execute(
                        f"COPY ({self._selected(number, names)}) TO {quoted(str(private(aside)))} "
                        "(FORMAT parquet, USE_TMP_FILE false)"
                    )
                file.delete_copies()
            self._kept = tuple(names)
        parts = literals([pattern(path) for path in self._aside])
        connection.execute(f"CREATE TEMP VIEW source AS SELECT * FROM read_parquet({parts})")

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns, which are not put aside."""
        import pyarrow as pa

        found: list[pa.Table] = []
        for number, file in enumerate(self._files):
            left = n_rows - sum(len(table) for table in found)
            if left <= 0:
                break
            with translated(file.name):
                file.need_text()
                query = f"{self._selected(number, names)} LIMIT {left}"
                found.append(connection.sql(query).to_arrow_table())
            file.delete_copies()
        return pa.concat_tables(found).rename_columns(list(names))

    def native(self) -> Any:
        """Give the rows with all columns."""
        self.check_unchanged()
        with session(self.files, name=self.name) as connection:
            return self.values(connection, self.columns)

    def delete_copies(self) -> None:
        """Delete the columns put aside and the transcoded copies."""
        self._kept = None
        for aside in self._aside:
            aside.unlink(missing_ok=True)
        for file in self._files:
            file.delete_copies()


class StreamSource(Source):
    """Base of sources that come in batches; their key columns are put aside as Parquet.

    No more than some batches are in memory.
    """

    schema: pa.Schema

    def __init__(self) -> None:
        scratch = Scratch()
        self._aside = scratch.path.resolve() / "keys.parquet"
        self._kept: tuple[str, ...] | None = None
        self._orders: dict[str, dict[object, None]] = {}
        self._are_ordered: dict[str, bool | None] = {}
        weakref.finalize(self, scratch.close)

    @abstractmethod
    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give the named columns in batches, always in the same order."""

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return [self._aside]

    def attach(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> None:
        """Make the view ``source`` of the named columns."""
        if self._kept != tuple(names):
            self._put_aside(names)
        connection.execute(
            f"CREATE TEMP VIEW source AS SELECT * FROM read_parquet({quoted(pattern(self._aside))})"
        )

    def _put_aside(self, names: Sequence[str]) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._kept, self._orders, self._are_ordered = None, {}, {}
        fields = [self.schema.field(name) for name in names]
        schema = pa.schema([field.with_name(f"c{j}") for j, field in enumerate(fields)])
        with self._told(), pq.ParquetWriter(private(self._aside), schema) as writer:
            for batch in self.batches(names):
                for name, column in zip(names, batch.columns, strict=True):
                    if pa.types.is_dictionary(column.type):
                        self._are_ordered[name] = True if column.type.ordered else None
                        order = self._orders.setdefault(name, {})
                        order.update(dict.fromkeys(column.dictionary.to_pylist()))
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        self._kept = tuple(names)

    @contextmanager
    def _told(self) -> Iterator[None]:
        """Turn errors of Arrow, which may quote values, into messages without."""
        import pyarrow as pa

        try:
            yield
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise DataError(
                f"{self.name} cannot be read to its end ({type(error).__name__}). A file may be "
                "damaged or gone, or a column of a type that is not supported; write the data to a "
                "Parquet file and read that."
            ) from None

    def declared(self, name: str) -> Declared:
        """Tell what the source itself says of a column."""
        if name not in self._orders:
            return Declared()
        return Declared(order=tuple(self._orders[name]), ordered=self._are_ordered[name])

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns."""
        import pyarrow as pa

        found: list[pa.RecordBatch] = []
        with self._told():
            for batch in self.batches(names):
                found.append(batch.slice(0, n_rows - sum(map(len, found))))
                if sum(map(len, found)) >= n_rows:
                    break
            schema = pa.schema([self.schema.field(name) for name in names])
            return pa.Table.from_batches(found, schema)

    def values(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
        """Give the named columns in the types that the source has."""
        import pyarrow as pa

        with self._told():
            schema = pa.schema([self.schema.field(name) for name in names])
            return pa.Table.from_batches(list(self.batches(names)), schema)

    def native(self) -> Any:
        """Give the rows with all columns."""
        import pyarrow as pa

        self.check_unchanged()
        with self._told():
            return pa.Table.from_batches(list(self.batches(self.columns)), self.schema)

    def delete_copies(self) -> None:
        """Delete the columns put aside."""
        self._kept = None
        self._aside.unlink(missing_ok=True)


class DatasetSource(StreamSource):
    """A dataset of pyarrow, of files or in memory."""

    def __init__(self, dataset: ds.Dataset) -> None:
        """Describe it."""
        self.name = "The dataset"
        self.columns = check_columns(dataset.schema.names, self.name)
        self.schema, self._dataset = dataset.schema, dataset
        super().__init__()

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give the named columns in batches, in the order of the fragments."""
        scanner = self._dataset.scanner(
            columns=list(names), batch_readahead=2, fragment_readahead=1
        )
        yield from scanner.to_batches()


class ArrowFile(TableSource):
    """An Arrow file; other tables in memory come from files of formats that are not written."""


class ArrowFolder(StreamSource, FileSource):
    """Arrow files (IPC, Feather) as one, mapped and not read into memory as a whole."""

    def __init__(self, parts: Parts) -> None:
        """Describe the files."""
        import pyarrow as pa

        FileSource.__init__(self, parts.paths, parts.name)
        schemas = list(map(self._schema, self.paths, parts.labels()))
        self.columns = check_alike(parts, [schema.names for schema in schemas])
        check_types(parts, schemas)
        made = [pa.field(name, pa.string()) for name in parts.columns]
        self.schema = pa.schema([*schemas[0], *made])
        self._parts = parts
        StreamSource.__init__(self)

    @property
    def files(self) -> list[Path]:
        """Files that DuckDB must be allowed to read."""
        return [self._aside]

    def _schema(self, path: Path, label: str) -> pa.Schema:
        import pyarrow as pa

        try:
            with pa.memory_map(str(path)) as file:
                return pa.ipc.open_file(file).schema
        except (pa.ArrowException, OSError, ValueError, KeyError):
            raise DataError(
                f"{label} cannot be read as an Arrow file; it may be damaged. Write it again."
            ) from None

    def batches(self, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Give the named columns in batches, in the order of the files."""
        import pyarrow as pa

        schema = pa.schema([self.schema.field(name) for name in names])
        for part in self._parts.parts:
            known = dict(zip(self._parts.columns, part.values, strict=True))
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
                    yield pa.RecordBatch.from_arrays(columns, schema=schema)


def open_parquet(parts: Parts) -> ParquetSource:
    """Open Parquet files as one.

    DuckDB would read every column in the type of the first file (2.5 as 2), and match names
    without regard to case.

    Parameters
    ----------
    parts
        Where they are.

    Raises
    ------
    DataError
        If a file is damaged, or the columns or their types differ.
    """
    schemas = list(map(parquet_schema, parts.paths, parts.labels()))
    columns = check_alike(parts, [schema.names for schema in schemas])
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
    made = columns[len(columns) - len(parts.columns) :]
    return ParquetSource(parts.paths, parts.name, made, [part.values for part in parts.parts])


def _plain(schema: pa.Schema) -> pa.Schema:
    """Schema with one type for each kind of text, which DuckDB reads alike."""
    import pyarrow as pa

    def plain(type: pa.DataType) -> pa.DataType:
        if pa.types.is_dictionary(type):
            type = type.value_type
        text = pa.types.is_large_string(type) or pa.types.is_string_view(type)
        return pa.string() if text else type

    return pa.schema([(field.name, plain(field.type)) for field in schema])
