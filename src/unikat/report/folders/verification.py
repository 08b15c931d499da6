"""The folder of a verification.

| file | what it is |
|---|---|
| `verify.json` | every number of the page |
| `report.html` | the page |
| `verify.toml` | the run as run |
"""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from unikat.files.json import json_text
from unikat.files.writing import all_or_nothing, write_text
from unikat.report.facts.verification import VerifySummary
from unikat.report.pages.verification import render
from unikat.spec.verification import VerifySpec

SUMMARY, PAGE, SPEC = "verify.json", "report.html", "verify.toml"
FILES = (SPEC, PAGE, SUMMARY)


def write(summary: VerifySummary, spec: VerifySpec, folder: Path) -> None:
    """Write a verification into a folder, all files or none.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    with all_or_nothing(folder, FILES, SUMMARY) as scratch:
        write_text(scratch / SPEC, spec.to_toml(folder))
        write_text(scratch / PAGE, render(summary))
        write_text(scratch / SUMMARY, json_text(asdict(summary)))
