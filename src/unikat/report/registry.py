"""What a run says of a registry: facts for `result.json`, sentences, and `registry.parquet`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat.data import Design, read
from unikat.data.design import LARGEST_POPULATION
from unikat.data.table import CellTable
from unikat.provenance import AssessmentSpec
from unikat.report.files import create, finish
from unikat.report.wording import counted, interval, number, percent
from unikat.risk.estimate import Summary
from unikat.risk.registry import Registry, RegistryRisk

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
    """Records alone with their combination in the registry, and at most one in the survey."""
    n_incomplete: int
    """Records with a missing key, which are taken to agree with every value of it."""
    n_unknown: int
    """Records with a value that no record of the survey has: nothing is known of them."""
    n_impossible: int
    """Records with a combination to which the model gives no probability: the same."""
    tau1: Summary
    tau2: Summary
    at_least: tuple[tuple[float, int], ...]
    """Thresholds, and records whose r1 is at least so large."""


def read_registry(spec: AssessmentSpec, survey: CellTable) -> Registry:
    """Read the registry that a specification names, in the levels of the survey.

    Raises
    ------
    DataError, SpecError
        If it cannot be read, or does not have the survey's keys.
    """
    assert spec.registry is not None
    data = spec.data
    codes = data.missing_values
    table = read(
        spec.registry.path,
        list(spec.keys),
        Design(population_size=LARGEST_POPULATION - 1),
        codebook=data.codebook,
        missing="integrate" if data.missing == "wildcard" else data.missing,
        missing_values=codes,
        delimiter=spec.registry.delimiter,
        encoding=spec.registry.encoding,
        format=spec.registry.format,
        constant_keys=True,
    ).tabulate()
    return Registry.of(table, survey)


def registry_result(risk: RegistryRisk, path: Path) -> RegistryResult:
    """Bring the risk of a registry into the form of `result.json`."""
    registry = risk.registry
    counts, r1 = registry.counts, np.nan_to_num(risk.r1, nan=-1.0)
    incomplete = (registry.cells < 0).any(axis=1) & ~registry.unknown
    return RegistryResult(
        data=path.name,
        n_records=int(counts.sum()),
        n_uniques=int((registry.unique & ~risk.impossible).sum()),
        n_incomplete=int(counts[incomplete].sum()),
        n_unknown=int(counts[registry.unknown].sum()),
        n_impossible=int(counts[risk.impossible].sum()),
        tau1=risk.tau1,
        tau2=risk.tau2,
        at_least=tuple((t, int(counts[r1 >= t].sum())) for t in THRESHOLDS),
    )


def sentences(found: RegistryResult | None) -> Mapping[str, str]:
    """Return sentences for the numbers of a registry, if there is one."""
    if found is None:
        return {}
    unknown = (
        f" {counted(found.n_unknown, 'record')} of it {_have(found.n_unknown)} a value that no "
        "record of the survey has: of these nothing is known, and they may well be at risk."
        if found.n_unknown
        else ""
    )
    if found.n_impossible:
        unknown += (
            f" {counted(found.n_impossible, 'record')} of it {_have(found.n_impossible)} a "
            "combination that the model takes for impossible, and that occurs: of these nothing is "
            "known either."
        )
    return {
        "registry": (
            f"Of the {found.n_uniques:,} records that are unique in the registry, about "
            f"{number(found.tau1.median)} are also unique in the population "
            f"({interval(found.tau1)}).{unknown}"
        ),
        "registry.tau2": (
            "Correct links that an intruder would make who links each of these records to a unit "
            f"of the population at random among those that agree with it: "
            f"{number(found.tau2.median)} ({interval(found.tau2)})."
        ),
        "registry.n_uniques": (
            f"{percent(found.n_uniques / max(found.n_records, 1))} of the registry's "
            f"{found.n_records:,} records are alone with their combination in it, and have one "
            "record of the survey with it at most."
        ),
        "registry.limit": (
            "The population's counts come from the survey alone: the registry is taken to be no "
            "sample of anything. A record of the survey with the combination of one of the "
            "registry is taken to be the same unit, which makes the risk higher than otherwise, "
            "never lower. How many of the units that the survey does not have are registered, and "
            "so would be seen, is told by single keys: where it is more of a combination than of "
            "any of its values, the risk comes out too low. A unit of the registry that is outside "
            "the survey's population is not counted rightly."
        ),
    }


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


def write_registry(risk: RegistryRisk, path: Path) -> None:
    """Write one row per record of the registry, in the order of the input."""
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
    table = pa.table(columns).replace_schema_metadata({"unikat.schema": "unikat.registry/1"})
    with create(path) as file:
        pq.write_table(table, file, compression="zstd")
        finish(file)
