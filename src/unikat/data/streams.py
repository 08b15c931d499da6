"""A source whose reader gives it in batches: a stream of Arrow, a large statistical file."""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from unikat.data.engine import pattern, quoted
from unikat.data.sources import Declared, Source
from unikat.errors import DataError
from unikat.files.scratch import Scratch, private

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa


class StreamSource(Source):
    """What a reader gives in batches; the key columns are put aside as Parquet.

    No more than some batches are in memory.

    Parameters
    ----------
    name, paths, format
        As of `Source`.
    schema
        Of the batches.
    batches
        The reader: gives the named columns in batches, always in the same order.
    """

    def __init__(
        self,
        name: str,
        schema: pa.Schema,
        batches: Callable[[Sequence[str]], Iterator[pa.RecordBatch]],
        *,
        paths: Sequence[Path] = (),
        format: str,
    ) -> None:
        super().__init__(name, schema.names, paths=paths, format=format)
        self._schema, self._batches = schema, batches
        scratch = Scratch()
        self._aside = scratch.path.resolve() / "keys.parquet"
        self._kept: tuple[str, ...] | None = None
        self._declared: dict[str, Declared] = {}
        weakref.finalize(self, scratch.close)

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

        self._kept = None
        orders: dict[str, dict[object, None]] = {}
        schema = self._selected(names)
        schema = pa.schema([field.with_name(f"c{j}") for j, field in enumerate(schema)])
        with self._told(), pq.ParquetWriter(private(self._aside), schema) as writer:
            for batch in self._batches(names):
                for name, column in zip(names, batch.columns, strict=True):
                    if pa.types.is_dictionary(column.type):
                        levels = column.dictionary.to_pylist()
                        orders.setdefault(name, {}).update(dict.fromkeys(levels))
                writer.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema))
        self._declared = {
            name: Declared(
                order=tuple(order), ordered=self._schema.field(name).type.ordered or None
            )
            for name, order in orders.items()
        }
        self._kept = tuple(names)

    def _selected(self, names: Sequence[str]) -> pa.Schema:
        import pyarrow as pa

        return pa.schema([self._schema.field(name) for name in names])

    @contextlib.contextmanager
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
        """Tell what the batches said of a column."""
        return self._declared.get(name, Declared())

    def first(
        self, connection: duckdb.DuckDBPyConnection, names: Sequence[str], n_rows: int
    ) -> pa.Table:
        """Give the first rows of the named columns."""
        import pyarrow as pa

        found: list[pa.RecordBatch] = []
        with self._told():
            for batch in self._batches(names):
                found.append(batch.slice(0, n_rows - sum(map(len, found))))
                if sum(map(len, found)) >= n_rows:
                    break
            return pa.Table.from_batches(found, self._selected(names))

    def values(self, connection: duckdb.DuckDBPyConnection, names: Sequence[str]) -> pa.Table:
        """Give the named columns in the types that the source has."""
        import pyarrow as pa

        with self._told():
            return pa.Table.from_batches(list(self._batches(names)), self._selected(names))

    def native(self) -> Any:
        """Give the rows with all columns."""
        import pyarrow as pa

        self.check_unchanged()
        with self._told():
            return pa.Table.from_batches(list(self._batches(self.columns)), self._schema)

    def delete_copies(self) -> None:
        """Delete the columns put aside."""
        self._kept = None
        self._aside.unlink(missing_ok=True)
