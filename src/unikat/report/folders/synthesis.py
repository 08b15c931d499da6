"""The folder of a synthesis.

| file | what it is |
|---|---|
| `synthetic_1.csv` ... | the synthetic files, in the format of the input |
| `utility.json` | margins, pMSE and probabilities within households beside the original's |
| `synthesis.html` | the page |
| `synthesis.toml` | the run as run |
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa

from unikat.data.sources import Source
from unikat.data.writers import write_records
from unikat.files.folder import claimed
from unikat.files.json import json_text, parse_json
from unikat.files.writing import all_or_nothing, write_text
from unikat.report.facts.attack import GeneratorFit
from unikat.report.facts.synthesis import SCHEMA, SynthesisSummary
from unikat.report.pages.synthesis import render
from unikat.spec.synthesis import SynthesisSpec
from unikat.synthesis.utility import Points

UTILITY, PAGE, SPEC = "utility.json", "synthesis.html", "synthesis.toml"
FILES = (SPEC, PAGE, UTILITY)
_SYNTHETIC = re.compile(r"synthetic_[0-9]+\.[a-z0-9.]+", re.IGNORECASE)


def file_names(n: int, ending: str) -> tuple[str, ...]:
    """Names of the synthetic files."""
    return tuple(f"synthetic_{number}{ending}" for number in range(1, n + 1))


def fit_beside(path: Path | None) -> GeneratorFit | None:
    """Return the fit that made a file, if it lies in the folder of a synthesis; None if not.

    What else such a folder holds does not matter, so nothing is refused.
    """
    if path is None or not _SYNTHETIC.fullmatch(path.name):
        return None
    try:
        found = parse_json((path.parent / UTILITY).read_bytes())
        if found["schema"] != SCHEMA or path.name not in found["files"]:
            return None
        fit = found["fit"]
        return GeneratorFit(
            model=str(fit["model"]),
            converged=fit["converged"] is True,
            stop_reason=str(fit["stop_reason"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Records(NamedTuple):
    """A synthetic file."""

    table: pa.Table
    letters: Mapping[str, Sequence[str | None]]
    """By column: letters of Stata such as ``.a``, where the table has no value."""


def write(
    summary: SynthesisSummary,
    points: Sequence[Points],
    tables: Sequence[Records],
    source: Source,
    spec: SynthesisSpec,
    folder: Path,
) -> None:
    """Write a synthesis into a folder, all files or none.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    note = (
        ""
        if spec.sampling.max_seconds is None
        else "The fit had a time limit, so a repetition does not give exactly the same files."
    )
    # Files of an earlier run that had more of them go.
    earlier = [name for name in sorted(claimed(folder)) if _SYNTHETIC.fullmatch(name)]
    files = tuple(dict.fromkeys([*summary.files, *earlier, *FILES]))
    with all_or_nothing(folder, files, UTILITY) as scratch:
        for name, one in zip(summary.files, tables, strict=True):
            write_records(scratch / name, one.table, source, letters=one.letters)
        write_text(scratch / SPEC, spec.to_toml(folder, note))
        write_text(scratch / PAGE, render(summary, points))
        write_text(scratch / UTILITY, json_text(asdict(summary)))
