"""The files of a specification, read as a run does: before it, and to show records after it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.data.held import Held, hold
from unikat.errors import DataError
from unikat.files.json import parse_json
from unikat.inference.progress import SILENT, Watcher
from unikat.interrupts import interruptible
from unikat.jobs.households import read_sample
from unikat.jobs.inputs import read_registry
from unikat.report.folders.outputs import RESULT, SPEC
from unikat.report.folders.records import ORDER, order_digest
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import Inputs
from unikat.spec.kinds import RECORDS
from unikat.spec.trust import Trust


@interruptible
def understood(spec: AssessmentSpec) -> tuple[str, ...]:
    """Read all files of a specification as the run will, and return what it notes.

    Raises
    ------
    DataError, SpecError
        If the run would refuse them.
    """
    notes: list[str] = []
    table = read_sample(spec, Inputs(), Watcher(note=notes.append)).table
    if spec.registry is not None:
        read_registry(spec, table)
        notes.append("The registry has these keys.")
    return tuple(notes)


@interruptible
def key_values(folder: Path, inside: Path) -> Held:
    """Hold the columns of the keys of a finished assessment, if its file is as it was.

    Parameters
    ----------
    folder
        Of the assessment.
    inside
        The folder of the workbench, in which its file has to lie.

    Raises
    ------
    DataError, SpecError
        If the file cannot be read, or its records are no longer those that were assessed.
    """
    spec = AssessmentSpec.read(folder / SPEC, Trust(inside=inside))
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
    return hold(microdata.source, names)
