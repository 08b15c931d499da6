"""The folder of a run: written as a whole or not at all, and read back only if it is unchanged.

| file | what it is |
|---|---|
| `result.json` | summaries, diagnostics, warnings, and a sentence for every number |
| `records.parquet` | one row per record in the order of the input |
| `registry.parquet` | one row per record of a registry, if one was given |
| `draws.nc` | the draws, for ArviZ; absent where the risk is known exactly |
| `assessment.toml` | the run as run |
| `report.html` | the report |
| `manifest.json` | SHA-256 of the files but the report, so that a later change is noticed |

Files are written to a hidden folder inside the run's folder (the same file system, whatever is
mounted where), forced to disk, and moved into place one by one; the manifest goes first and comes
last, so a folder with a manifest is complete. All are readable by their owner alone.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import TypeAdapter, ValidationError

from unikat._typing import Bool, Float64, Int32
from unikat.data.table import CellTable
from unikat.errors import OutputError
from unikat.provenance import AssessmentSpec, Provenance
from unikat.report.beside import NOTHING, Beside
from unikat.report.files import (
    all_or_nothing,
    create,
    finish,
    json_text,
    replace_file,
    why,
    write_bytes,
    write_text,
)
from unikat.report.html import render
from unikat.report.registry import FILE as REGISTRY
from unikat.report.registry import write_registry
from unikat.report.summary import (
    N_REASONS,
    RESULT_SCHEMA,
    Result,
    reasons,
    spec_of,
    summarise,
)
from unikat.risk.estimate import RiskEstimate
from unikat.risk.measures import WITHOUT_ERROR
from unikat.zeros.conflicts import Handled

RESULT, RECORDS, DRAWS = "result.json", "records.parquet", "draws.nc"
SPEC, REPORT, MANIFEST = "assessment.toml", "report.html", "manifest.json"
FILES = (RESULT, RECORDS, REGISTRY, DRAWS, SPEC, REPORT, MANIFEST)
_MANIFEST_SCHEMA = "unikat.manifest/1"
_RECORDS_SCHEMA = "unikat.records/1"
_CHUNK = 1 << 18
_CONFLICTS = {"drop": "left out", "missing": "keys set missing", "stop": ""}
"""What `records.parquet` says of a record with an impossible combination."""
_NUMBERS = tuple(
    f"{name}{end}" for name in ("r1", "r2", "rank") for end in ("", "_lower", "_upper")
)
"""Columns of `records.parquet` that are attributes of `RecordRisk`."""
SCALARS = ("tau1", "tau2", "tau1_expected", "tau2_expected")


@dataclass(frozen=True, kw_only=True)
class Results:
    """What lies in the folder of a run."""

    folder: Path
    result: Result
    spec: AssessmentSpec
    traces: dict[str, Float64]
    """Draws of τ1 and τ2 by name, each (n_chains, n_draws), discarded ones included."""


def write(
    estimate: RiskEstimate,
    folder: str | os.PathLike[str],
    spec: AssessmentSpec | None = None,
    provenance: Provenance | None = None,
    handled: Handled | None = None,
    beside: Beside = NOTHING,
) -> Result:
    """Write the results of a run into a folder, replacing the results that are there.

    Parameters
    ----------
    estimate
        What was found.
    folder
        Where to write; made if it does not exist.
    spec
        What was asked; completed with what the estimate tells, which is all but the file.
    provenance
        What ran; by default this machine, now.
    handled
        What was done with records that have an impossible combination, if any combination is.
    beside
        What was found beside it.

    Returns
    -------
    Result
        The content of `result.json`.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    folder = Path(folder)
    spec = spec_of(estimate, spec, handled)
    if provenance is None:
        provenance = Provenance.now(
            seed=spec.sampling.seed, data_fingerprint=estimate.table.fingerprint
        )
    result = summarise(estimate, spec, provenance, handled, beside)
    with all_or_nothing(folder, FILES, MANIFEST) as scratch:
        write_text(scratch / RESULT, json_text(asdict(result)))
        write_text(scratch / SPEC, spec.to_toml(folder, _note(result)))
        _write_records(estimate, result, scratch / RECORDS, handled, beside)
        if beside.registry is not None:
            write_registry(beside.registry, scratch / REGISTRY)
        traces: dict[str, Float64] = {}
        if estimate.draws is not None:
            write_bytes(scratch / DRAWS, estimate.draws.to_netcdf())
            scalars = estimate.draws.scalars
            traces = {name: scalars[name] for name in (*SCALARS, *WITHOUT_ERROR) if name in scalars}
        digests = {
            path.name: _digest(path) for path in sorted(scratch.iterdir()) if path.name != REPORT
        }
        write_text(scratch / REPORT, render(result, traces))
        write_text(scratch / MANIFEST, json_text({"schema": _MANIFEST_SCHEMA, "sha256": digests}))
    return result


def load(folder: str | os.PathLike[str]) -> Results:
    """Read the results of a run and check that they are what was written.

    Parameters
    ----------
    folder
        The folder of the run.

    Raises
    ------
    OutputError
        If there is no complete run, or a file was changed since it was written.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise OutputError(f"{folder} is not a folder; name the folder of a run (its --out).")
    present = [name for name in FILES if (folder / name).exists()]
    if MANIFEST not in present:
        other = "" if present else _other_results(folder)
        if other:
            raise OutputError(f"{folder} does not hold a run of unikat assess but {other}")
        reason = (
            f"its {MANIFEST} is missing, so the results may be incomplete or mixed; run again "
            "with --resume or --overwrite"
            if present
            else "there are no results in it; name the folder of a run (its --out)"
        )
        raise OutputError(f"{folder} does not hold a complete run: {reason}.")
    for name, expected in _manifest(folder).items():
        try:
            found = _digest(folder / name)
        except OSError as error:
            raise OutputError(f"Cannot read {folder / name}: {why(error)}.") from None
        if found != expected:
            raise OutputError(
                f"{folder / name} does not match {MANIFEST}: it was changed after the run wrote "
                "it, so a report would not show what was computed. Restore the file, or run the "
                "assessment again."
            )
    return Results(
        folder=folder,
        result=_read_result(folder / RESULT),
        spec=AssessmentSpec.read(folder / SPEC),
        traces=_read_traces(folder / DRAWS),
    )


def write_report(results: Results) -> Path:
    """Render the report of a run anew and put it in place of the old one.

    Raises
    ------
    OutputError
        If it cannot be written; the old report is then still there.
    """
    target = results.folder / REPORT
    replace_file(target, render(results.result, results.traces).encode())
    return target


def _note(result: Result) -> str:
    if result.stop_reason not in ("time limit", "interrupted"):
        return ""
    return (
        f"Sampling ended early ({result.stop_reason}); max_sweeps is what was reached, so that a "
        "repetition gives the same numbers. Raise it to go further."
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_records(
    estimate: RiskEstimate,
    result: Result,
    path: Path,
    handled: Handled | None,
    beside: Beside,
) -> None:
    """Write one row per record, a chunk of records at a time, and what run they are of."""
    table, records = estimate.table, estimate.records
    row_cell, conflict = _rows(table, handled)
    # Of the records that were assessed, whose rows of the file these are.
    further = beside.record_columns(table)
    rows = np.flatnonzero(row_cell >= 0)
    with create(path) as file:
        names = pa.array([key.name for key in table.keys], pa.string())
        frequency = table.matches if table.missing == "wildcard" else table.counts
        what = pa.array([_CONFLICTS["drop" if handled is None else handled.on_conflict]])
        schema = _records_schema(conflicts=conflict is not None, further=further).with_metadata(
            {
                "unikat.schema": _RECORDS_SCHEMA,
                "unikat.version": result.provenance.unikat,
                "unikat.seed": str(result.seed),
                "unikat.converged": "true" if result.converged else "false",
            }
        )
        with pq.ParquetWriter(file, schema, compression="zstd") as writer:
            for start in range(0, len(row_cell), _CHUNK):
                cells = row_cell[start : start + _CHUNK].astype(np.int64)
                out = cells < 0
                cells[out] = 0
                columns: dict[str, Any] = {
                    "row": np.arange(start + 1, start + 1 + len(cells)),
                    "f": pa.array(frequency[cells], mask=out),
                    "sample_unique": pa.array(table.unique[cells], mask=out),
                }
                if conflict is not None:
                    found = conflict[start : start + _CHUNK]
                    columns["conflict"] = pa.DictionaryArray.from_arrays(
                        pa.array(np.zeros(len(found), np.int8), mask=~found), what
                    )
                for name in _NUMBERS:
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
                arrays = [pa.array(columns[field.name]) for field in schema]
                writer.write_table(pa.Table.from_arrays(arrays, schema=schema))
        finish(file)


def _rows(table: CellTable, handled: Handled | None) -> tuple[Int32, Bool | None]:
    """Cell of every row of the file, -1 if it was left out, and which rows broke a rule."""
    if handled is None:
        return table.record_cell, None
    cells = np.full(len(handled.kept), -1, np.int32)
    cells[handled.kept] = table.record_cell
    return cells, handled.in_conflict


def _records_schema(*, conflicts: bool = False, further: Iterable[str] = ()) -> pa.Schema:
    risks = [(name, pa.float64()) for name in _NUMBERS]
    fields = [("row", pa.int64()), ("f", pa.int64()), ("sample_unique", pa.bool_()), *risks]
    for rank in range(1, N_REASONS + 1):
        fields += [
            (f"key_{rank}", pa.dictionary(pa.int16(), pa.string())),
            (f"drop_{rank}", pa.float64()),
        ]
    fields += [(name, pa.float64()) for name in further]
    if conflicts:
        fields.append(("conflict", pa.dictionary(pa.int8(), pa.string())))
    return pa.schema(fields)


def _other_results(folder: Path) -> str:
    """Say what another command has left in a folder, and how to go on; nothing if none has."""
    from unikat.report import comparison, evaluation, evaluation_store

    for command, what, files, kept in (
        ("compare", "a comparison", comparison, comparison.FITS),
        ("evaluate", "an evaluation", evaluation, evaluation_store.FOLDER),
    ):
        unfinished = (folder / kept).is_dir()
        again = f"unikat {command} {shlex.quote(str(folder / files.SPEC))} --out"
        if (folder / files.PAGE).exists():
            remedy = (
                "To write it again from the fits that are kept there: "
                f"{again} {shlex.quote(str(folder))} --resume"
                if unfinished
                else f"Its fits are gone, so only repeating it makes a page: {again} NEW_FOLDER"
            )
            return f"{what}, whose page is {files.PAGE}. {remedy}"
        if unfinished:
            return (
                f"{what} that is not finished and has no page yet. To go on with it, give the same "
                f"unikat {command} command with --resume."
            )
    return ""


def _manifest(folder: Path) -> dict[str, str]:
    path = folder / MANIFEST
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        digests = content["sha256"]
        if content["schema"] != _MANIFEST_SCHEMA or not {RESULT, RECORDS, SPEC} <= set(digests):
            raise ValueError
        if not set(digests) <= set(FILES):
            raise ValueError
    except OSError as error:
        raise OutputError(f"Cannot read {path}: {why(error)}.") from None
    except (ValueError, KeyError, TypeError):
        raise OutputError(
            f"{path} is damaged or of another version of unikat; run the assessment again."
        ) from None
    return dict(digests)


def _read_result(path: Path) -> Result:
    try:
        text = path.read_text(encoding="utf-8")
        schema = json.loads(text).get("schema")
        if schema != RESULT_SCHEMA:
            raise OutputError(
                f"{path} has schema {schema!r}; this version of unikat reads {RESULT_SCHEMA!r}. "
                "Use the version that wrote it."
            )
        return TypeAdapter(Result).validate_json(text)
    except (OSError, ValidationError, ValueError) as error:
        raise OutputError(f"{path} cannot be understood: {type(error).__name__}.") from None


def _read_traces(path: Path) -> dict[str, Float64]:
    if not path.exists():
        return {}
    import h5py

    traces = {}
    try:
        with h5py.File(path, "r") as file:
            for name in (*SCALARS, *WITHOUT_ERROR):
                if name in WITHOUT_ERROR and name not in file.get("posterior", ()):
                    continue
                parts = [
                    np.asarray(file[group][name], dtype=np.float64)
                    for group in ("warmup_posterior", "posterior")
                    if group in file and name in file[group]
                ]
                traces[name] = np.concatenate(parts, axis=1)
    except (OSError, KeyError, ValueError) as error:
        raise OutputError(f"{path} cannot be understood: {type(error).__name__}.") from None
    return traces
