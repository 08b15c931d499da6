"""The folder of an attack.

| file | what it is |
|---|---|
| `attack.json` | every number of the page |
| `attack.html` | the page |
| `attack.toml` | the attack as run |
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pyarrow as pa

from unikat.files.json import json_text
from unikat.files.writing import all_or_nothing, write_text
from unikat.report.facts.attack import AttackSummary
from unikat.report.pages.attack import render
from unikat.spec.attack import AttackSpec

SUMMARY, PAGE, SPEC = "attack.json", "attack.html", "attack.toml"
FILES = (SPEC, PAGE, SUMMARY)


def write(summary: AttackSummary, folder: Path, spec: AttackSpec) -> None:
    """Write an attack into a folder, all files or none.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    with all_or_nothing(folder, FILES, SUMMARY) as scratch:
        write_text(scratch / SPEC, spec.to_toml(folder))
        write_text(scratch / PAGE, render(summary))
        write_text(scratch / SUMMARY, json_text(asdict(summary)))


def table(summary: AttackSummary) -> pa.Table:
    """Return a row for each attack."""
    rows = []
    for result in summary.attacks:
        row: dict[str, object] = {"attack": result.name, "target": result.target, "n": result.n}
        for name in ("rate", "compared", "baseline", "excess"):
            found = getattr(result, name)
            for part in ("value", "lower", "upper"):
                column = name if part == "value" else f"{name}_{part}"
                row[column] = None if found is None else getattr(found, part)
        rows.append(row)
    return pa.Table.from_pylist(rows)
