"""The folder of a run: written as a whole or not at all, and read back only if it is unchanged.

| file | what it is |
|---|---|
| `result.json` | summaries, diagnostics, warnings, and a sentence for every number |
| `records.parquet` | one row per record in the order of the input |
| `records-at-risk.csv` | the records at risk, highest r1 first, for a spreadsheet |
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
import os
import shlex
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jinja2 import TemplateError
from pydantic import TypeAdapter

from unikat._typing import Bool, Float64, Int32
from unikat.data.table import CellTable
from unikat.errors import OutputError, shown, why
from unikat.files.folder import locked
from unikat.files.json import json_text, parse_json
from unikat.files.writing import (
    all_or_nothing,
    create,
    finish,
    replace_file,
    write_bytes,
    write_text,
)
from unikat.report.facts.assessment import N_REASONS, RESULT_SCHEMA, Result, Stage, reasons, spec_of
from unikat.report.facts.registry import FILE as REGISTRY
from unikat.report.facts.registry import write_registry
from unikat.report.facts.supplements import NO_SUPPLEMENTS, Supplements
from unikat.report.folders.records_at_risk import FILE as RECORDS_AT_RISK
from unikat.report.folders.records_at_risk import write_records_at_risk
from unikat.report.pages.assessment import render
from unikat.report.text.summary import summarise
from unikat.risk.estimate import RiskEstimate
from unikat.risk.measures import WITHOUT_ERROR
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.provenance import Provenance
from unikat.zeros.conflicts import Handled

RESULT, RECORDS, DRAWS = "result.json", "records.parquet", "draws.nc"
SPEC, REPORT, MANIFEST = "assessment.toml", "report.html", "manifest.json"
FILES = (RESULT, RECORDS, RECORDS_AT_RISK, REGISTRY, DRAWS, SPEC, REPORT, MANIFEST)
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
    digests: dict[str, str]
    """SHA-256 of the files, as the manifest has them."""
    root: Path
    """The folder, wherever the working folder is later."""

    def read(self, name: str) -> bytes:
        """Read a file of the run, if it is still the one of these results.

        Raises
        ------
        OutputError
            If it cannot be read, or was changed or replaced since.
        """
        path = self.root / name
        try:
            content = path.read_bytes()
        except OSError as error:
            raise OutputError(f"Cannot read {path}: {why(error)}.") from None
        if hashlib.sha256(content).hexdigest() != self.digests[name]:
            raise OutputError(
                f"{path} was changed or replaced since the assessment was loaded; load it again."
            )
        return content

    def copy(self, folder: Path) -> None:
        """Write the same results into another folder; paths in the specification lead there.

        Raises
        ------
        OutputError
            If anything cannot be read or written; what was in the folder is then still there.
        """
        with all_or_nothing(folder, FILES, MANIFEST) as scratch:
            for name in self.digests:
                if name == SPEC:
                    write_text(scratch / SPEC, self.spec.to_toml(folder, _note(self.result)))
                else:
                    write_bytes(scratch / name, self.read(name))
            digests = {name: _digest(scratch / name) for name in sorted(self.digests)}
            write_text(scratch / REPORT, render(self.result, self.traces))
            manifest = {"schema": _MANIFEST_SCHEMA, "sha256": digests}
            write_text(scratch / MANIFEST, json_text(manifest))


@dataclass(frozen=True, kw_only=True, eq=False)
class Findings:
    """Everything that a run has found, in memory; `write` makes the folder of it."""

    result: Result
    spec: AssessmentSpec
    """What was asked, completed with what was left to be decided."""
    estimate: RiskEstimate
    handled: Handled | None = None
    """What was done with records that have an impossible combination, if any combination is."""
    supplements: Supplements = NO_SUPPLEMENTS

    @classmethod
    def of(
        cls,
        estimate: RiskEstimate,
        spec: AssessmentSpec | None = None,
        provenance: Provenance | None = None,
        handled: Handled | None = None,
        supplements: Supplements = NO_SUPPLEMENTS,
        stage: Stage = "final",
    ) -> Findings:
        """Bring an estimate into the form of the results.

        Parameters
        ----------
        estimate
            The estimate.
        spec
            What was asked; completed from the estimate with all but the file.
        provenance
            What ran; by default this machine, now.
        handled
            What was done with records that have an impossible combination, if any combination is.
        supplements
            Registry risk and classic measures, if they were asked for.
        stage
            Whether this is the answer, or a first one that another will replace.
        """
        spec = spec_of(estimate, spec, handled)
        if provenance is None:
            provenance = Provenance.now(
                seed=spec.sampling.seed, data_fingerprint=estimate.table.fingerprint
            )
        result = summarise(estimate, spec, provenance, handled, supplements, stage)
        return cls(
            result=result, spec=spec, estimate=estimate, handled=handled, supplements=supplements
        )

    @property
    def traces(self) -> dict[str, Float64]:
        """Draws of τ1 and τ2 by name, each (n_chains, n_draws), discarded ones included."""
        if self.estimate.draws is None:
            return {}
        scalars = self.estimate.draws.scalars
        return {name: scalars[name] for name in (*SCALARS, *WITHOUT_ERROR) if name in scalars}

    def write(self, folder: Path) -> None:
        """Write the results into a folder, replacing the results that are there.

        Raises
        ------
        OutputError
            If anything cannot be written; what was in the folder is then still there.
        """
        with all_or_nothing(folder, FILES, MANIFEST) as scratch:
            write_text(scratch / RESULT, json_text(asdict(self.result)))
            write_text(scratch / SPEC, self.spec.to_toml(folder, _note(self.result)))
            self._write_records(scratch / RECORDS)
            write_records_at_risk(
                self.estimate,
                scratch / RECORDS_AT_RISK,
                self.handled,
                show_values=self.spec.report.show_small_cells,
            )
            if self.supplements.registry is not None:
                write_registry(self.supplements.registry, scratch / REGISTRY)
            if self.estimate.draws is not None:
                write_bytes(scratch / DRAWS, self.estimate.draws.to_netcdf())
            digests = {
                path.name: _digest(path)
                for path in sorted(scratch.iterdir())
                if path.name != REPORT
            }
            write_text(scratch / REPORT, render(self.result, self.traces))
            manifest = {"schema": _MANIFEST_SCHEMA, "sha256": digests}
            write_text(scratch / MANIFEST, json_text(manifest))

    def write_result(self, folder: Path) -> None:
        """Write `result.json` alone, as the first answer of a run that goes on.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        replace_file(folder / RESULT, json_text(asdict(self.result)).encode())

    def record_tables(self) -> Iterator[pa.Table]:
        """Yield the rows of `records.parquet`, one per record, a chunk of records at a time."""
        estimate, handled = self.estimate, self.handled
        table, records = estimate.table, estimate.records
        row_cell, conflict = _rows(table, handled)
        # Of the records that were assessed, whose rows of the file these are.
        further = self.supplements.record_columns(table)
        rows = np.flatnonzero(row_cell >= 0)
        names = pa.array([key.name for key in table.keys], pa.string())
        frequency = table.matches if table.missing == "wildcard" else table.counts
        what = pa.array([_CONFLICTS["drop" if handled is None else handled.on_conflict]])
        schema = self.records_schema()
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
            yield pa.Table.from_arrays(arrays, schema=schema)

    def records_schema(self) -> pa.Schema:
        """Columns of `records.parquet`, and what run they are of."""
        risks = [(name, pa.float64()) for name in _NUMBERS]
        fields = [("row", pa.int64()), ("f", pa.int64()), ("sample_unique", pa.bool_()), *risks]
        for rank in range(1, N_REASONS + 1):
            fields += [
                (f"key_{rank}", pa.dictionary(pa.int16(), pa.string())),
                (f"drop_{rank}", pa.float64()),
            ]
        further = self.supplements.record_columns(self.estimate.table)
        fields += [(name, pa.float64()) for name in further]
        if self.handled is not None:
            fields.append(("conflict", pa.dictionary(pa.int8(), pa.string())))
        return pa.schema(fields).with_metadata(
            {
                "unikat.schema": _RECORDS_SCHEMA,
                "unikat.version": self.result.provenance.unikat,
                "unikat.seed": str(self.result.seed),
                "unikat.converged": "true" if self.result.converged else "false",
            }
        )

    def _write_records(self, path: Path) -> None:
        with create(path) as file:
            schema = self.records_schema()
            with pq.ParquetWriter(file, schema, compression="zstd") as writer:
                for part in self.record_tables():
                    writer.write_table(part)
            finish(file)


def check_free(folder: Path, *, overwrite: bool = False) -> None:
    """Refuse to write into a folder that holds results, unless they are to be replaced.

    Raises
    ------
    OutputError
        With what to do.
    """
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; name another.")
    found = [name for name in FILES if (folder / name).exists()]
    if found and not overwrite:
        raise OutputError(
            f"The folder {folder} already holds a run ({', '.join(found)}). Replace it with "
            "overwrite=True, or name another folder. Nothing was written."
        )


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
    folder = Path(folder).expanduser()
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
    digests = _manifest(folder)
    for name, expected in digests.items():
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
        digests=digests,
        root=folder.resolve(),
    )


def write_report(results: Results) -> Path:
    """Render the report of a run again, in place of the old one.

    Raises
    ------
    OutputError
        If it cannot be written, or the results are inconsistent; the old report is then still
        there.
    """
    target = results.folder / REPORT
    try:
        page = render(results.result, results.traces).encode()
    except (
        ArithmeticError, AttributeError, LookupError, TypeError, ValueError, TemplateError,
    ) as error:  # fmt: skip
        # What was read has the right types; it may still be what no run writes.
        raise _not_understood(results.folder / RESULT, error) from error
    with locked(results.folder):
        replace_file(target, page)
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


def _rows(table: CellTable, handled: Handled | None) -> tuple[Int32, Bool | None]:
    """Cell of every row of the file, -1 if it was left out, and which rows broke a rule."""
    if handled is None:
        return table.record_cell, None
    cells = np.full(len(handled.kept), -1, np.int32)
    cells[handled.kept] = table.record_cell
    return cells, handled.in_conflict


def _other_results(folder: Path) -> str:
    """Say what another command has left in a folder, and how to go on; nothing if none has."""
    from unikat.report.folders import comparison, evaluation
    from unikat.studies import store as evaluation_store

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
        content = parse_json(path.read_bytes())
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
        content = parse_json(path.read_bytes())
        schema = content.get("schema")
        if schema == RESULT_SCHEMA:
            return TypeAdapter(Result).validate_python(content)
    except (OSError, ValueError, AttributeError) as error:
        raise _not_understood(path, error) from None
    raise OutputError(
        f"{path} has schema {shown(schema)}; this version of unikat reads {RESULT_SCHEMA!r}. "
        "Use the version that wrote it."
    )


def _read_traces(path: Path) -> dict[str, Float64]:
    if not path.exists():
        return {}
    import h5py

    traces = {}
    try:
        with h5py.File(path, "r") as file:
            _check_datasets(file, path.stat().st_size)
            for name in (*SCALARS, *WITHOUT_ERROR):
                if name in WITHOUT_ERROR and name not in file.get("posterior", ()):
                    continue
                parts = [
                    np.asarray(file[group][name], dtype=np.float64)
                    for group in ("warmup_posterior", "posterior")
                    if group in file and name in file[group]
                ]
                traces[name] = np.concatenate(parts, axis=1)
                if not traces[name].size or not np.isfinite(traces[name]).all():
                    raise ValueError
    except (
        OSError, LookupError, ValueError, TypeError, AttributeError, RuntimeError, MemoryError,
    ) as error:  # fmt: skip
        raise _not_understood(path, error) from None
    return traces


def _check_datasets(group: Any, size: int) -> None:
    """Refuse what lies in another file, or is said to be longer than the file (ValueError)."""
    import h5py

    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise ValueError
        inner = group[name]
        if isinstance(inner, h5py.Group):
            _check_datasets(inner, size)
        elif inner.external or inner.is_virtual or inner.nbytes > size:
            # What is declared need not be there, and would be filled with zeros.
            raise ValueError


def _not_understood(path: Path, error: Exception) -> OutputError:
    return OutputError(
        f"{path} cannot be understood ({type(error).__name__}): it is damaged, or of another "
        "version of unikat. Run the assessment again."
    )
