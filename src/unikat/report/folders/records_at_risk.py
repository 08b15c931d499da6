"""`records-at-risk.csv`: the records at risk for people with a spreadsheet, highest r1 first.

Where missing keys are integrated over, it is r1 by what the file shows of a record (`risk.shown`),
since that is its risk once the file is published.

Texts that a spreadsheet would run as a formula begin with an apostrophe. Values of records are in
it only if small cells are shown.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unikat.files.writing import create, finish
from unikat.report.facts.result import N_REASONS, reasons
from unikat.risk.estimate import RiskEstimate
from unikat.zeros.conflicts import Handled

FILE = "records-at-risk.csv"
COLUMNS = ("row", "r1", "r1_lower", "r1_upper", "r2", "rank")
SHOWN = ("r1_shown", "r1_shown_lower", "r1_shown_upper", "r2_shown")
"""Further columns, where missing keys are integrated over."""
REASONS = tuple(f"key_{i}" for i in range(1, N_REASONS + 1))
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")
"""A text that begins with one of these may be run by a spreadsheet."""
_CHUNK = 1 << 16


def write_records_at_risk(
    estimate: RiskEstimate, path: Path, handled: Handled | None, *, show_values: bool
) -> None:
    """Write a new file; if values are shown, with the label of every key."""
    with create(path) as file:
        for lines in _chunks(estimate, handled, show_values):
            file.write(lines)
        finish(file)


def safe(text: str) -> str:
    """Return a text that no spreadsheet runs as a formula.

    Examples
    --------
    >>> safe("=HYPERLINK(1)"), safe("AGE")
    ("'=HYPERLINK(1)", 'AGE')
    """
    return f"'{text}" if text.lstrip().startswith(_FORMULA) or text.startswith(_FORMULA) else text


def _chunks(estimate: RiskEstimate, handled: Handled | None, show_values: bool) -> Iterator[bytes]:
    table, records = estimate.table, estimate.records
    names = [safe(key.name) for key in table.keys]
    columns = COLUMNS if records.r1_shown is None else (*COLUMNS, *SHOWN)
    yield _written([[*columns, *REASONS, *(names if show_values else ())]])
    r1 = records.r1_published[table.record_cell]
    at_risk = np.flatnonzero(~np.isnan(r1))
    ordered = at_risk[np.argsort(-r1[at_risk], kind="stable")]
    # Records that were left out have a row in the file too.
    in_file = np.arange(table.n_records) if handled is None else np.flatnonzero(handled.kept)
    labels = [(*(safe(label) for label in key.labels), "") for key in table.keys]
    for start in range(0, len(ordered), _CHUNK):
        rows = ordered[start : start + _CHUNK]
        cells = table.record_cell[rows].astype(np.int64)
        numbers = [getattr(records, name)[cells] for name in columns[1:]]
        keys, _ = reasons(records, cells)
        lines: list[list[Any]] = []
        for i, (row, cell) in enumerate(zip(in_file[rows].tolist(), cells, strict=True)):
            found = [names[key] for key in keys[i] if key >= 0]
            line = [row + 1, *(_number(values[i]) for values in numbers)]
            line += [*found, *[""] * (N_REASONS - len(found))]
            if show_values:
                # A missing key has the code -1: the empty label at the end.
                line += [of[code] for of, code in zip(labels, table.cells[cell], strict=True)]
            lines.append(line)
        yield _written(lines)


def _number(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.6g}"


def _written(lines: Sequence[Sequence[Any]]) -> bytes:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerows(lines)
    return text.getvalue().encode()
