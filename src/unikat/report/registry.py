"""What a run says of a registry: facts for `result.json`, sentences, and `registry.parquet`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from unikat.data import Design, read
from unikat.data.design import LARGEST_POPULATION
from unikat.data.table import CellTable
from unikat.errors import DataError
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
    """Complete records that are alone with their combination in the registry."""
    n_shared: int
    """Those of them whose combination two or more records of the survey have: they are not unique
    in the population."""
    n_possible: int
    """Those of them that may be unique in the population: τ1 and τ2 are about these."""
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


def read_registry(spec: AssessmentSpec, survey: CellTable, source: Any = None) -> Registry:
    """Read the registry that a specification names, or the frame `source`, in the survey's levels.

    Raises
    ------
    DataError, SpecError
        If it cannot be read, or does not have the survey's keys.
    """
    assert spec.registry is not None
    if spec.registry.path is None and source is None:
        raise DataError(
            "No file of the registry is named, as in a run of a data frame. Write its path as path "
            "under [registry] in the specification."
        )
    data = spec.data
    codes = data.missing_values
    table = read(
        spec.registry.path if source is None else source,
        list(spec.keys),
        Design(population_size=LARGEST_POPULATION - 1),
        codebook=data.codebook,
        missing="integrate" if data.missing == "wildcard" else data.missing,
        missing_values=codes,
        delimiter=spec.registry.delimiter,
        decimal=spec.registry.decimal,
        encoding=spec.registry.encoding,
        format=spec.registry.format,
        sheet=spec.registry.sheet,
        table=spec.registry.table,
        constant_keys=True,
    ).tabulate()
    return Registry.of(table, survey)


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
            f"{_uniques(found)} Of {_possible(found)}, about "
            f"{number(found.tau1.median)} {'is' if number(found.tau1.median) == '1' else 'are'} "
            f"also unique in the population ({interval(found.tau1)}).{unknown}"
        ),
        "registry.tau2": (
            "Correct matches of an intruder who links each of these records "
            f"({found.n_possible:,}) to a unit of the population, at random among those that agree "
            f"with it: {number(found.tau2.median)} ({interval(found.tau2)})."
        ),
        "registry.n_uniques": (
            f"complete records that are alone with their combination in the registry, "
            f"{percent(found.n_uniques / max(found.n_records, 1))} of its "
            f"{counted(found.n_records, 'record')}"
        ),
        "registry.n_possible": (
            "of these, the records that may be unique in the population: the survey has at most "
            "one record with the combination, and the model knows it"
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


def _uniques(found: RegistryResult) -> str:
    """Say how many records are unique in the registry, and which of them cannot be at risk."""
    n, shared = found.n_uniques, found.n_shared
    said = f"{counted(n, 'record')} {'is' if n == 1 else 'are'} unique in the registry."
    if shared:
        share = "shares its" if shared == 1 else "share their"
        said += (
            f" {counted(shared, 'record')} of these {share} combination with two or more records "
            "of the survey and cannot be unique in the population."
        )
    n_open = n - shared - found.n_possible
    if n_open:
        said += f" Of {counted(n_open, 'record')} nothing is known."
    return said


def _possible(found: RegistryResult) -> str:
    n = found.n_possible
    if n == found.n_uniques:
        return "these"
    return f"the other {n:,}"


def _have(n: int) -> str:
    return "has" if n == 1 else "have"


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


def write_registry(risk: RegistryRisk, path: Path) -> None:
    """Write `registry.parquet`."""
    with create(path) as file:
        pq.write_table(registry_table(risk), file, compression="zstd")
        finish(file)
