"""The folder of a synthesis.

| file | what it is |
|---|---|
| `synthetic_1.csv` ... | the synthetic files, in the format of the input |
| `utility.json` | margins, pMSE and probabilities within households beside the original's |
| `synthesis.html` | the page |
| `synthesis.toml` | the run as run |
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from unikat.data.sources import Source
from unikat.data.writers import write_records
from unikat.files.json import parse_json
from unikat.report.facts.attack import GeneratorFit
from unikat.report.facts.synthesis import SCHEMA
from unikat.spec.kinds import SYNTHESIZE


def file_names(n: int, ending: str) -> tuple[str, ...]:
    """Names of the synthetic files."""
    return tuple(f"synthetic_{number}{ending}" for number in range(1, n + 1))


def fit_beside(path: Path | None) -> GeneratorFit | None:
    """Return the fit that made a file, if it lies in the folder of a synthesis; None if not.

    What else such a folder holds does not matter, so nothing is refused.
    """
    if path is None or not SYNTHESIZE.records_among([path.name]):
        return None
    try:
        found = parse_json((path.parent / SYNTHESIZE.numbers).read_bytes())
        if found["schema"] != SCHEMA or path.name not in found["files"]:
            return None
        fit = found["fit"]
        return GeneratorFit(
            model=str(fit["model"]),
            converged=fit["converged"] is True,
            stop_reason=str(fit["stop_reason"]),
            ties="head" if fit.get("ties") == "head" else None,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


class Records(NamedTuple):
    """A synthetic file."""

    table: pa.Table
    letters: Mapping[str, Sequence[str | None]]
    """By column: letters of Stata such as ``.a``, where the table has no value."""
    labels: Mapping[str, Mapping[Any, str]]
    """Labels of columns that the original does not have so."""


def writer(one: Records, source: Source) -> Callable[[Path], None]:
    """Return what writes a synthetic file in the format of the original."""
    return lambda path: write_records(path, one.table, source, one.labels, letters=one.letters)
