"""Risk of a registry's records in `result.json` and `registry.parquet`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa

from unikat.risk.estimate import Summary
from unikat.risk.registry import RegistryRisk

FILE = "registry.parquet"
THRESHOLDS = (0.05, 0.1, 0.2, 0.5, 0.9)
"""Record risks from which records are counted."""


@dataclass(frozen=True, kw_only=True)
class RegistryResult:
    """A registry's risk in numbers that name no cell."""

    data: str
    """Name of the file, without its folder."""
    n_records: int
    n_uniques: int
    """Complete records that are alone with their combination in the registry."""
    n_shared: int
    """Those of them whose combination two or more records of the survey have: they are not unique
    in the population."""
    n_possible: int
    """Those of them that may be unique in the population: τ1 and τ2 are about these."""
    n_incomplete: int
    """Records with a missing key, which matches every value."""
    n_unknown: int
    """Records with a value that no record of the survey has: nothing is known of them."""
    n_impossible: int
    """Records with a combination to which the model gives no probability: the same."""
    tau1: Summary
    tau2: Summary
    at_least: tuple[tuple[float, int], ...]
    """Thresholds, and records whose r1 is at least so large."""


def registry_result(risk: RegistryRisk, path: Path | None) -> RegistryResult:
    """Bring the risk of a registry into the form of `result.json`."""
    registry = risk.registry
    counts, r1 = registry.counts, np.nan_to_num(risk.r1, nan=-1.0)
    incomplete = ~registry.complete & ~registry.unknown
    return RegistryResult(
        data="the registry" if path is None else path.name,
        n_records=int(counts.sum()),
        n_uniques=int(registry.unique.sum()),
        n_shared=int(registry.shared.sum()),
        n_possible=int((registry.possible & ~risk.impossible).sum()),
        n_incomplete=int(counts[incomplete].sum()),
        n_unknown=int(counts[registry.unknown].sum()),
        n_impossible=int(counts[risk.impossible].sum()),
        tau1=risk.tau1,
        tau2=risk.tau2,
        at_least=tuple((t, int(counts[r1 >= t].sum())) for t in THRESHOLDS),
    )


def registry_table(risk: RegistryRisk) -> pa.Table:
    """Return the rows of `registry.parquet`, one per record, in the order of the registry."""
    registry, cell = risk.registry, risk.registry.record_cell
    numbers = {
        "population": risk.population,
        "r1": risk.r1,
        "r1_lower": risk.r1_lower,
        "r1_upper": risk.r1_upper,
        "r2": risk.r2,
    }
    columns: dict[str, pa.Array] = {
        "row": pa.array(np.arange(1, len(cell) + 1)),
        "g": pa.array(registry.registered[cell]),
        "f": pa.array(registry.surveyed[cell], mask=registry.unknown[cell]),
        "unique": pa.array(registry.unique[cell]),
        **{
            name: pa.array(values[cell], mask=np.isnan(values)[cell])
            for name, values in numbers.items()
        },
    }
    return pa.table(columns).replace_schema_metadata({"unikat.schema": "unikat.registry/1"})
