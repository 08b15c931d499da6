"""The folder of a protection.

| file | what it is |
|---|---|
| `protected.csv` ... | the protected file, in the format of the input |
| `protected.codebook.json` | its codebook, where labels stand in one |
| `plan.toml` | the recodings, to be done to other files |
| `plans.parquet` | all plans of the frontier |
| `protect.json` | every number of the page |
| `report.html` | the page: before and after |
| `committee.html` | two pages for a committee |
| `protect.toml` | the run as run |
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from unikat.data.sources import Source
from unikat.data.writers import write_records
from unikat.files.json import json_text
from unikat.files.writing import write_text
from unikat.protection.released import Released
from unikat.report.facts.protection import ProtectionSummary
from unikat.report.folders.parquet import write_table
from unikat.spec.kinds import PROTECT
from unikat.spec.plan import PlanSpec


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
            "share": plan.share,
            "lost": plan.lost,
            "perturb": plan.perturb,
            "suppress": plan.suppress,
            "n_suppressed": plan.n_suppressed,
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
        pa.field("share", pa.float64()),
        pa.field("lost", pa.float64()),
        pa.field("perturb", pa.string()),
        pa.field("suppress", pa.string()),
        pa.field("n_suppressed", pa.int64()),
        pa.field("n_uniques", pa.int64()),
    ]
    return pa.Table.from_pylist(rows, schema=pa.schema([*first, *numbers, *keys]))


def writers(
    summary: ProtectionSummary, made: Released, plan: PlanSpec, source: Source, folder: Path
) -> dict[str, Callable[[Path], None]]:
    """Return what writes the protected file, the plan and the plans, by name; see `write_run`."""
    assert summary.file is not None

    def write_protected(path: Path) -> None:
        sampled = summary.share < 1.0
        write_records(path, made.table, source, made.labels, letters=made.letters, sampled=sampled)

    plan_file, plans_file = PROTECT.others[:2]
    others: dict[str, Callable[[Path], None]] = {summary.file: write_protected}
    if (codebook := made.codebook) is not None:
        beside = codebook_beside(summary.file)
        others[beside] = lambda path: write_text(path, json_text(codebook))
    others[plan_file] = lambda path: write_text(path, plan.to_toml(folder))
    others[plans_file] = lambda path: write_table(path, plans_table(summary))
    return others
