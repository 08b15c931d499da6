"""`records.parquet`: one row per record, in the order of the input; `households.parquet` likewise.

Where the units are households, every record has the risk of its household.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat._typing import Bool, Int32
from unikat.data.grouping import HouseholdSample
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.files.writing import create, finish
from unikat.report.facts.result import N_REASONS, reasons
from unikat.report.folders.findings import Findings
from unikat.report.folders.parquet import labelled
from unikat.risk.estimate import RecordRisk
from unikat.zeros.conflicts import Handled

ORDER = "unikat.order"
"""Metadata of the file: see `order_digest`."""
_SCHEMA, _OF_HOUSEHOLDS = "unikat.records/1", "unikat.households/1"
_UNIT = [("row", pa.int64())]
_CHUNK = 1 << 18
_CONFLICTS = {"drop": "left out", "missing": "keys set missing", "stop": ""}
"""What the table says of a record that breaks a rule."""
_RISKS = ("r1", "r1_lower", "r1_upper", "r2", "r2_lower", "r2_upper")
_NUMBERS = (*_RISKS, "F_median", "F_mode", "rank", "rank_lower", "rank_upper")
"""Columns that are attributes of `RecordRisk`."""
_LEVEL = "level."
"""Before the name of a key: its level, in columns that only runs of a database have."""
_SHOWN = tuple(f"{name[:2]}_shown{name[2:]}" for name in _RISKS)
"""Further ones, where missing keys are integrated over."""


def write_records(findings: Findings, path: Path, *, by_household: bool = False) -> None:
    """Write the file, a chunk of records (or households) at a time."""
    schema = records_schema(findings, by_household=by_household)
    with create(path) as file:
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for part in record_tables(findings, by_household=by_household):
                writer.write_table(part)
        finish(file)


def record_tables(findings: Findings, *, by_household: bool = False) -> Iterator[pa.Table]:
    """Yield the rows of `records.parquet`, one per record, a chunk of records at a time.

    `by_household` yields those of `households.parquet`, one per household.
    """
    estimate, handled = findings.estimate, findings.handled
    table, records = estimate.table, estimate.records
    sample = findings.supplements.households
    row_cell, conflict = _rows(table, handled)
    if sample is not None and not by_household:
        row_cell = _of_households(table, sample)
    # Of the records that were assessed, whose rows of the file these are.
    further = findings.supplements.record_columns(table)
    rows = np.flatnonzero(row_cell >= 0)
    names = pa.array([key.name for key in table.variables], pa.string())
    frequency = table.matches if table.missing == "wildcard" else table.counts
    what = pa.array([_CONFLICTS["drop" if handled is None else handled.on_conflict]])
    schema = records_schema(findings, by_household=by_household)
    for start in range(0, len(row_cell), _CHUNK):
        cells = row_cell[start : start + _CHUNK].astype(np.int64)
        out = cells < 0
        cells[out] = 0
        columns: dict[str, Any] = {
            "row": np.arange(start + 1, start + 1 + len(cells)),
            "f": pa.array(frequency[cells], mask=out),
            "sample_unique": pa.array(table.unique[cells], mask=out),
        }
        if by_household:
            columns |= {"household": columns["row"] - 1, "size": table.cells[cells, 0] + 1}
        elif sample is not None:
            of_record = sample.of_record[start : start + len(cells)]
            columns["household"] = pa.array(of_record, mask=out)
        if conflict is not None:
            found = conflict[start : start + _CHUNK]
            columns["conflict"] = pa.DictionaryArray.from_arrays(
                pa.array(np.zeros(len(found), np.int8), mask=~found), what
            )
        for name in _numbers(records):
            values = getattr(records, name)[cells]
            columns[name] = pa.array(values, mask=np.isnan(values) | out)
        here = slice(*np.searchsorted(rows, (start, start + len(cells))))
        for name, values in further.items():
            spread = np.full(len(cells), np.nan)
            spread[~out] = values[here]
            columns[name] = pa.array(spread, mask=out)
        keys, drops = reasons(records, cells)
        for rank in range(N_REASONS):
            absent = np.ones(len(cells), bool)
            key, drop = np.zeros(len(cells), np.int16), np.zeros(len(cells))
            if rank < keys.shape[1]:
                absent = (keys[:, rank] < 0) | out
                key, drop = keys[:, rank].astype(np.int16), drops[:, rank]
            indices = pa.array(np.where(absent, 0, key).astype(np.int16), mask=absent)
            columns[f"key_{rank + 1}"] = pa.DictionaryArray.from_arrays(indices, names)
            columns[f"drop_{rank + 1}"] = pa.array(drop, mask=absent)
        for shown, codes in _shown_keys(findings, table.cells[cells].T):
            absent = (codes < 0) | out
            columns[_LEVEL + shown.name] = pa.DictionaryArray.from_arrays(
                pa.array(np.where(absent, 0, codes).astype(np.int32), mask=absent),
                pa.array(shown.labels, pa.string()),
            )
        arrays = [pa.array(columns[field.name]) for field in schema]
        yield pa.Table.from_arrays(arrays, schema=schema)


def records_schema(findings: Findings, *, by_household: bool = False) -> pa.Schema:
    """Columns of `records.parquet` or `households.parquet`, and what run they are of."""
    risks = [(name, pa.float64()) for name in _numbers(findings.estimate.records)]
    unit = [("household", pa.int64()), ("size", pa.int64())] if by_household else _UNIT
    if findings.supplements.households is not None and not by_household:
        unit = [*_UNIT, ("household", pa.int64())]
    fields = [*unit, ("f", pa.int64()), ("sample_unique", pa.bool_()), *risks]
    for rank in range(1, N_REASONS + 1):
        fields += [
            (f"key_{rank}", pa.dictionary(pa.int16(), pa.string())),
            (f"drop_{rank}", pa.float64()),
        ]
    further = findings.supplements.record_columns(findings.estimate.table)
    fields += [(name, pa.float64()) for name in further]
    for key, _ in _shown_keys(findings, findings.estimate.table.keys):
        fields.append((_LEVEL + key.name, pa.dictionary(pa.int32(), pa.string())))
    if findings.handled is not None:
        fields.append(("conflict", pa.dictionary(pa.int8(), pa.string())))
    result = findings.result
    name = _OF_HOUSEHOLDS if by_household else _SCHEMA
    schema = labelled(
        pa.schema(fields), name, result.provenance, state="converged", value=result.converged
    )
    estimate, sample = findings.estimate, findings.supplements.households
    order = order_digest(estimate.table, findings.handled, sample)
    return schema.with_metadata({**schema.metadata, ORDER: order})


def order_digest(
    table: CellTable, handled: Handled | None, households: HouseholdSample | None
) -> str:
    """SHA-256 (hex) of the cell of every row of the file: which record has which keys.

    The fingerprint of a run does not depend on the order of the records.
    """
    cells = row_cells(table, handled, households)
    return hashlib.sha256(np.ascontiguousarray(cells, dtype="<i4").data).hexdigest()


def row_cells(
    table: CellTable, handled: Handled | None, households: HouseholdSample | None
) -> Int32:
    """Cell of every row of the file, or that of its household; -1 if it was left out."""
    return _rows(table, handled)[0] if households is None else _of_households(table, households)


def _of_households(table: CellTable, sample: HouseholdSample) -> Int32:
    """Cell of the household of every row of the file; -1 of one that was left out."""
    return np.append(table.record_cell, np.int32(-1))[sample.of_record]


def _shown_keys(findings: Findings, values: Iterable[Any]) -> Iterator[tuple[Key, Any]]:
    """Yield keys whose levels are shown, each with one of the values.

    Rows of a database have no order by which its owner could tell them apart.
    """
    table = findings.estimate.table
    if findings.spec.data.database is not None and table.layout is None:
        yield from zip(table.keys, values, strict=True)


def _numbers(records: RecordRisk) -> tuple[str, ...]:
    return _NUMBERS if records.r1_shown is None else (*_NUMBERS, *_SHOWN)


def _rows(table: CellTable, handled: Handled | None) -> tuple[Int32, Bool | None]:
    """Cell of every row of the file, -1 if it was left out, and which rows broke a rule."""
    if handled is None:
        return table.record_cell, None
    cells = np.full(len(handled.kept), -1, np.int32)
    cells[handled.kept] = table.record_cell
    return cells, handled.in_conflict
