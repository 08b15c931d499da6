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
from operator import attrgetter
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


_OF_PLAN = {
    "chosen": pa.bool_(),
    "share": pa.float64(),
    "lost": pa.float64(),
    "perturb": pa.string(),
    "suppress": pa.string(),
    "n_suppressed": pa.int64(),
    "risk.n_uniques": pa.int64(),
    **{
        f"risk.{name}.{part}": pa.float64()
        for name in ("tau1", "tau2")
        for part in ("mean", "lower", "upper")
    },
}
"""Where the columns of a plan come from, and their types."""


def plans_table(summary: ProtectionSummary) -> pa.Table:
    """One row for each plan of the frontier."""
    names = {path: path.removeprefix("risk.").replace(".", "_") for path in _OF_PLAN}
    keys = {f"key.{one.name}": one.name for one in summary.columns}
    rows = [
        {name: attrgetter(path)(plan) for path, name in names.items()}
        | {column: plan.recodings.get(name) for column, name in keys.items()}
        for plan in summary.plans
    ]
    fields = [*zip(names.values(), _OF_PLAN.values(), strict=True)]
    fields += [(column, pa.string()) for column in keys]
    return pa.Table.from_pylist(rows, schema=pa.schema(fields))


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
