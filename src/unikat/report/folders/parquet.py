"""Tables in Parquet, with what run they are of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.files.writing import create, finish
from unikat.spec.provenance import Provenance


def labelled(
    schema: pa.Schema, name: str, provenance: Provenance, *, state: str, value: bool
) -> pa.Schema:
    """Add the name of the schema, version and seed of the run, and its state, to the columns."""
    return schema.with_metadata(
        {
            "unikat.schema": name,
            "unikat.version": provenance.unikat,
            "unikat.seed": str(provenance.seed),
            f"unikat.{state}": "true" if value else "false",
        }
    )


def write_table(path: Path, table: pa.Table) -> None:
    """Write a table into a new file."""
    with create(path) as file:
        pq.write_table(table, file, compression="zstd")
        finish(file)
