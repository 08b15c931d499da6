"""The folder of a run: written as a whole or not at all, and read back only if it is unchanged.

| file | what it is |
|---|---|
| `result.json` | summaries, diagnostics, warnings, and a sentence for every number |
| `records.parquet` | one row per record in the order of the input |
| `households.parquet` | one row per household in order of appearance, if they are the units |
| `records-at-risk.csv` | the records at risk, highest risk first, for a spreadsheet |
| `registry.parquet` | one row per record of a registry, if one was given |
| `draws.nc` | the draws, for ArviZ; absent where the risk is known exactly |
| `states.checkpoint` | the last states of the chains, if they were to be kept |
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from unikat._typing import Float64
from unikat.errors import OutputError, why
from unikat.files.folder import claimed
from unikat.files.json import facts_text, json_text, parse_json
from unikat.files.writing import (
    all_or_nothing,
    replace_file,
    write_bytes,
    write_text,
)
from unikat.report.facts.result import Result
from unikat.report.folders.findings import SCALARS, Findings
from unikat.report.folders.folder import not_understood, read_run
from unikat.report.folders.outputs import DRAWS, OUTPUTS, REPORT, RESULT, SPEC, note
from unikat.report.pages.assessment import render
from unikat.risk.measures import WITHOUT_ERROR
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.kinds import ASSESS, KINDS, RECORDS

MANIFEST = "manifest.json"
FILES = (*(output.name for output in OUTPUTS), MANIFEST)
_MANIFEST_SCHEMA = "unikat.manifest/1"


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
        """Read a file of the run, if it is still the one of these results."""
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
                    write_text(scratch / SPEC, self.spec.to_toml(folder, note(self.result)))
                else:
                    write_bytes(scratch / name, self.read(name))
            digests = {name: _digest(scratch / name) for name in sorted(self.digests)}
            write_text(scratch / REPORT, render(self.result, self.traces))
            manifest = {"schema": _MANIFEST_SCHEMA, "sha256": digests}
            write_text(scratch / MANIFEST, json_text(manifest))


def write(found: Findings, folder: Path) -> None:
    """Write the results of a run into a folder, replacing the results that are there.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    with all_or_nothing(folder, FILES, MANIFEST) as scratch:
        digests = {}
        for output in OUTPUTS:
            if output.wanted(found):
                output.write(found, scratch / output.name, folder)
                if output.sealed:
                    digests[output.name] = _digest(scratch / output.name)
        manifest = {"schema": _MANIFEST_SCHEMA, "sha256": dict(sorted(digests.items()))}
        write_text(scratch / MANIFEST, json_text(manifest))


def write_result(found: Findings, folder: Path) -> None:
    """Write `result.json` alone, as the preliminary answer of a run that goes on."""
    replace_file(folder / RESULT, facts_text(found.result).encode())


def load(folder: str | os.PathLike[str]) -> Results:
    """Read the results of a run and check that they are what was written."""
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
    result, spec = read_run(ASSESS, folder)
    assert isinstance(spec, AssessmentSpec)
    return Results(
        folder=folder,
        result=result,
        spec=spec,
        traces=_read_traces(folder / DRAWS),
        digests=digests,
        root=folder.resolve(),
    )


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _other_results(folder: Path) -> str:
    """Say what another command has left in a folder, and how to go on; nothing if none has."""
    for kind in KINDS.values():
        article = "an" if kind.noun[0] in "aeiou" else "a"
        what = f"{article} {kind.noun}"
        kept = any((folder / name).is_dir() for name in kind.work)
        unfinished = kept and kind.spec in claimed(folder)
        if (folder / kind.spec).exists() and (folder / kind.report).exists():
            return f"{what}."
        if unfinished:
            return (
                f"{what} that is not finished and has no page yet. To go on with it, give the same "
                f"unikat {kind.name} command with --resume."
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
        OSError,
        LookupError,
        ValueError,
        TypeError,
        AttributeError,
        RuntimeError,
        MemoryError,
    ) as error:
        raise not_understood(path, error) from None
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
