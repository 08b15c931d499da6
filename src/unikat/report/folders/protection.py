"""The folder of a protection.

| file | what it is |
|---|---|
| `protected.csv` ... | the protected file, in the format of the input |
| `protected.codebook.json` | its codebook, where labels stand in one |
| `plan.toml` | the recodings, to be done to other files |
| `plans.parquet` | all plans of the frontier |
| `protect.json` | every number of the page |
| `report.html` | the page: before and after |
| `protect.toml` | the run as run |
"""

from __future__ import annotations

import re
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.data.sources import Source
from unikat.data.writers import write_records
from unikat.files.folder import claimed
from unikat.files.json import json_text
from unikat.files.writing import all_or_nothing, create, finish, write_text
from unikat.protection.released import Released
from unikat.report.facts.protection import ProtectionSummary
from unikat.report.pages.protection import render
from unikat.spec.protection import PlanSpec, ProtectionSpec

SUMMARY, PAGE, PLAN, PLANS, SPEC = (
    "protect.json",
    "report.html",
    "plan.toml",
    "plans.parquet",
    "protect.toml",
)
FILES = (SPEC, PAGE, PLAN, PLANS, SUMMARY)
_PROTECTED = re.compile(r"protected\.[a-z0-9.]+", re.IGNORECASE)


def codebook_beside(file: str) -> str:
    """Name of the codebook of a file.

    Examples
    --------
    >>> codebook_beside("protected.csv.gz")
    'protected.codebook.json'
    """
    return f"{file.partition('.')[0]}.codebook.json"


def plans_table(summary: ProtectionSummary) -> pa.Table:
    """One row for each plan of the frontier."""
    rows = [
        {
            "chosen": plan.chosen,
            "lost": plan.lost,
            "n_uniques": plan.risk.n_uniques,
            **{
                f"{name}_{part}": getattr(getattr(plan.risk, name), part)
                for name in ("tau1", "tau2")
                for part in ("mean", "lower", "upper")
            },
            **{f"key.{one.name}": plan.recodings.get(one.name) for one in summary.columns},
        }
        for plan in summary.plans
    ]
    keys = [pa.field(f"key.{one.name}", pa.string()) for one in summary.columns]
    numbers = [
        pa.field(f"{name}_{part}", pa.float64())
        for name in ("tau1", "tau2")
        for part in ("mean", "lower", "upper")
    ]
    first = [
        pa.field("chosen", pa.bool_()),
        pa.field("lost", pa.float64()),
        pa.field("n_uniques", pa.int64()),
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([*first, *numbers, *keys]))


def write(
    summary: ProtectionSummary,
    made: Released,
    plan: PlanSpec,
    source: Source,
    spec: ProtectionSpec,
    folder: Path,
) -> None:
    """Write a protection into a folder, all files or none.

    Raises
    ------
    OutputError
        If anything cannot be written; what was in the folder is then still there.
    """
    assert summary.file is not None
    earlier = [name for name in sorted(claimed(folder)) if _PROTECTED.fullmatch(name)]
    beside = codebook_beside(summary.file)
    written = [summary.file, *([] if made.codebook is None else [beside])]
    files = tuple(dict.fromkeys([*written, *earlier, *FILES]))
    with all_or_nothing(folder, files, SUMMARY) as scratch:
        write_records(scratch / summary.file, made.table, source, made.labels, letters=made.letters)
        if made.codebook is not None:
            write_text(scratch / beside, json_text(made.codebook))
        write_text(scratch / PLAN, plan.to_toml(folder))
        with create(scratch / PLANS) as file:
            pq.write_table(plans_table(summary), file, compression="zstd")
            finish(file)
        write_text(scratch / SPEC, spec.to_toml(folder))
        write_text(scratch / PAGE, render(summary))
        write_text(scratch / SUMMARY, json_text(asdict(summary)))
