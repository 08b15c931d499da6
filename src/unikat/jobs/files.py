"""The files of a specification, read as a run does: before it, and to show records after it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat._typing import Int32
from unikat.data import CellTable
from unikat.data.held import Held, hold
from unikat.errors import DataError, SpecError
from unikat.files.json import parse_json
from unikat.inference.progress import SILENT, Watcher
from unikat.interrupts import interruptible
from unikat.jobs.households import read_sample
from unikat.jobs.inputs import read_registry
from unikat.report.folders.outputs import RESULT, SPEC
from unikat.report.folders.records import ORDER, order_digest, row_cells
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import RECORDS
from unikat.spec.trust import Trust


@interruptible
def understood(spec: AssessmentSpec) -> tuple[str, ...]:
    """Read all files of a specification as the run will, and return what it notes."""
    notes: list[str] = []
    table = read_sample(spec, Inputs(), Watcher(note=notes.append)).table
    if spec.registry is not None:
        read_registry(spec, table)
        notes.append("The registry has these keys.")
    return tuple(notes)


@dataclass(frozen=True, kw_only=True)
class KeyNeighbours:
    """Records whose keys differ from those of a record in one key alone."""

    key: str
    n_records: int
    n_levels: int
    """Levels of the key that they have."""
    n_without: int
    """Records that are alike if the key is left out, the record among them."""


@dataclass(frozen=True, kw_only=True)
class Neighbour:
    """A combination that differs from that of a record in one key."""

    key: str
    row: int
    """Of its first record; the first row of the file is 1."""
    n_records: int


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """A record among those that are nearly alike."""

    n_same: int
    """Records with its combination, itself among them."""
    by_key: tuple[KeyNeighbours, ...]
    """Of each key, the one without which most records are alike first."""
    listed: tuple[Neighbour, ...]
    """The largest first; of equal ones in the order of the keys and the file."""
    n_listed: int
    """How many there are; `listed` has some."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RunRows:
    """The rows of the file of a finished assessment."""

    held: Held
    """The columns of the keys."""
    table: CellTable
    row_cell: Int32
    """(n_rows,): cell of each row, or of its household; -1 if it was left out."""

    def neighbours(self, row: int, key: str = "", most: int = 100) -> Neighbours:
        """Find what differs from a record in one key; a missing value is like a level of its own.

        Parameters
        ----------
        row
            Of the file, from 1.
        key
            List those that differ in this key; empty: in any.
        most
            Combinations that are listed.
        """
        table, keys = self.table, [one.name for one in self.table.keys]
        if table.layout is not None:
            raise SpecError("The units of this run are households; neighbours are of persons.")
        if key and key not in keys:
            raise SpecError("The run has no such key.")
        if not 1 <= row <= len(self.row_cell) or self.row_cell[row - 1] < 0:
            raise SpecError("The run has no such record: give a row of the list of records.")
        cell = int(self.row_cell[row - 1])
        differs = table.cells != table.cells[cell]
        near = np.flatnonzero(differs.sum(axis=1) == 1)
        at = np.argmax(differs[near], axis=1)
        n_same, counts = int(table.counts[cell]), table.counts[near]
        n_levels = np.bincount(at, minlength=len(keys)).tolist()
        n_records = np.bincount(at, counts, minlength=len(keys)).astype(np.int64).tolist()
        by_key = [
            KeyNeighbours(key=name, n_records=n, n_levels=levels, n_without=n_same + n)
            for name, n, levels in zip(keys, n_records, n_levels, strict=True)
        ]
        rows = np.flatnonzero(self.row_cell >= 0)[::-1]
        first = np.zeros(table.n_cells, np.int64)
        # Of several rows the last that is written stays: the first of the file.
        first[self.row_cell[rows]] = rows
        wanted = np.flatnonzero(at == keys.index(key)) if key else np.arange(len(near))
        order = wanted[np.lexsort((first[near[wanted]], at[wanted], -counts[wanted]))]
        return Neighbours(
            n_same=n_same,
            by_key=tuple(sorted(by_key, key=lambda one: -one.n_without)),
            listed=tuple(
                Neighbour(key=keys[at[i]], row=int(first[near[i]]) + 1, n_records=int(counts[i]))
                for i in order[:most]
            ),
            n_listed=len(order),
        )


@interruptible
def run_rows(folder: Path, trust: Trust) -> RunRows:
    """Hold the columns of the keys of a finished assessment, if its file is as it was.

    Parameters
    ----------
    folder
        Of the assessment.
    trust
        What of its specification counts.
    """
    spec = AssessmentSpec.read(folder / SPEC, trust)
    microdata, table, handled, households = read_sample(spec, Inputs(), SILENT)
    try:
        record = parse_json((folder / RESULT).read_bytes())["provenance"]["data_fingerprint"]
        order = (pq.read_schema(folder / RECORDS).metadata or {})[ORDER.encode()].decode()
    except (OSError, ValueError, KeyError, TypeError, pa.ArrowException):
        raise DataError(
            f"{RESULT} and {RECORDS} do not say which file they are about; run it again."
        ) from None
    if (table.fingerprint, order_digest(table, handled, households)) != (record, order):
        raise DataError(
            f"{microdata.name} has changed since this run, so that its records are no longer those "
            "of the result. Run it again."
        )
    names = list(dict.fromkeys(key.name for key in microdata.keys))
    return RunRows(
        held=hold(microdata.source, names),
        table=table,
        row_cell=row_cells(table, handled, households),
    )
