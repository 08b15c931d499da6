"""The classic measures in a report: facts for `result.json`, sentences, columns of records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from unikat._typing import Float64
from unikat.data.table import CellTable
from unikat.report import track_record
from unikat.report.wording import at_risk, counted, interval, number
from unikat.risk.classics.table import Classics

if TYPE_CHECKING:
    from unikat.report.summary import Result

THRESHOLDS = (0.05, 0.1, 0.2, 0.5)
"""Record risks from which records are counted."""
_METHODS = {
    "pitman": "Pitman's sampling formula",
    "zayatz": "Zayatz",
    "snb": "slide negative binomial",
    "dankar": "Dankar's rule",
    "bethlehem": "Bethlehem's Poisson-gamma",
}


@dataclass(frozen=True, kw_only=True)
class AnonymityResult:
    """Records whose keys too few others share."""

    k: int
    records: int
    """Records that fewer than k records of the file match, themselves counted."""
    in_population: int
    """Records that fewer than k units of the population match, as the weights estimate it."""


@dataclass(frozen=True, kw_only=True)
class PerRecordResult:
    """A risk of single records in numbers that name none."""

    expected: float
    """Sum over the records: expected number of records that are re-identified."""
    highest: float
    at_least: tuple[tuple[float, int], ...]
    """Thresholds, and records whose risk is at least so large."""


@dataclass(frozen=True, kw_only=True)
class SudaResult:
    """Special uniques."""

    records: int
    """Records with a minimal sample unique of at most `largest` keys."""
    largest: int
    by_size: tuple[int, ...]
    """Minimal sample uniques of 1, 2, ... keys, of all records together."""
    highest_dis: float
    match_probability: float
    """DIS of the file."""
    problem: str
    """Why nothing was found out; empty if it was."""


@dataclass(frozen=True, kw_only=True)
class SensitiveResult:
    """What the keys give away of a sensitive variable, where they give away most."""

    name: str
    distinct: int
    entropy: float
    recursive: int
    distance: float | None
    """t of t-closeness; None if no value is known."""


@dataclass(frozen=True, kw_only=True)
class UniquesResult:
    """An estimate of the population's uniques."""

    method: str
    estimate: float | None
    in_sample: float | None
    """About how many of them are in the file."""
    chosen: str
    reason: str
    """Why there is no estimate; empty if there is."""


@dataclass(frozen=True, kw_only=True)
class ClassicsResult:
    """The classic measures of a file."""

    smallest: float
    """Fewest records that match a record, itself counted: the file is k-anonymous up to it."""
    smallest_population: float
    anonymity: tuple[AnonymityResult, ...]
    individual: PerRecordResult
    household: PerRecordResult | None
    suda: SudaResult
    recursion: float
    sensitive: tuple[SensitiveResult, ...]
    uniques: tuple[UniquesResult, ...]


def classics_result(found: Classics, table: CellTable) -> ClassicsResult:
    """Bring the classic measures into the form of `result.json`."""
    anonymity, suda = found.anonymity, found.suda
    n_msu = np.zeros(found.suda_largest) if suda is None else suda.n_msu.sum(axis=0)
    return ClassicsResult(
        smallest=anonymity.smallest,
        smallest_population=anonymity.smallest_population,
        anonymity=tuple(
            AnonymityResult(k=k, records=int(n), in_population=int(weighted))
            for k, n, weighted in zip(
                anonymity.ks, anonymity.violating, anonymity.violating_population, strict=True
            )
        ),
        individual=_per_record(found.individual[table.record_cell]),
        household=None if found.household is None else _per_record(found.household),
        suda=SudaResult(
            records=0 if suda is None else int(np.count_nonzero(suda.n_msu.any(axis=1))),
            largest=found.suda_largest,
            by_size=tuple(int(n) for n in n_msu),
            highest_dis=0.0 if suda is None else float(suda.dis_score.max()),
            match_probability=0.0 if suda is None else suda.match_probability,
            problem=found.suda_problem,
        ),
        recursion=found.recursion,
        sensitive=tuple(
            SensitiveResult(
                name=one.name,
                distinct=int(one.diversity.distinct.min()),
                entropy=float(one.diversity.entropy.min()),
                recursive=int(one.diversity.recursive.min()),
                distance=_known(one.closeness.largest),
            )
            for one in found.sensitive
        ),
        uniques=tuple(
            UniquesResult(
                method=one.method,
                estimate=_known(one.estimate),
                in_sample=_known(one.in_sample),
                chosen=one.chosen,
                reason=one.reason,
            )
            for one in found.uniques
        ),
    )


def _per_record(risk: Float64) -> PerRecordResult:
    return PerRecordResult(
        expected=float(risk.sum()),
        highest=float(risk.max()),
        at_least=tuple((t, int(np.count_nonzero(risk >= t))) for t in THRESHOLDS),
    )


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def columns(found: Classics, table: CellTable) -> dict[str, Float64]:
    """Columns of `records.parquet`, each (n_records,)."""
    cell = table.record_cell
    made = {
        "k": found.frequencies.sample[cell],
        "k_population": found.frequencies.population[cell],
        "individual_risk": found.individual[cell],
    }
    if found.household is not None:
        made["household_risk"] = found.household
    if found.suda is not None:
        made |= {"suda": found.suda.score[cell], "dis": found.suda.dis_score[cell]}
    return made


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table of the classic measures."""

    measure: str
    value: str
    said: str


def rows(result: ClassicsResult | None) -> list[Row]:
    """Return the one table of the classic measures; empty if they were not asked for."""
    if result is None:
        return []
    table = [
        Row(
            measure="k-anonymity",
            value=f"k = {number(result.smallest)}",
            said=_anonymity(result.anonymity),
        ),
        _risk_row(
            "individual risk",
            result.individual,
            "that of its combination, by how many records have it and their weights",
        ),
    ]
    if result.household is not None:
        table.append(
            _risk_row(
                "household risk", result.household,
                "that any member of its household is re-identified, each independently of "
                "the others",
                "records in a household of which a member is re-identified",
            )
        )  # fmt: skip
    table.append(_suda_row(result.suda))
    table += [
        Row(
            measure=f"l-diversity of {one.name}",
            value=f"l = {one.distinct}",
            said=f"Fewest values of {one.name} among records with one combination; by entropy "
            f"{one.entropy:.2f}, recursive (c = {result.recursion:g}) {one.recursive}. "
            + (
                "No value is known."
                if one.distance is None
                else f"t-closeness: t = {one.distance:.2f}, the largest distance from the "
                "distribution in the whole file."
            ),
        )
        for one in result.sensitive
    ]
    return table + [_uniques_row(one) for one in result.uniques]


def _anonymity(found: tuple[AnonymityResult, ...]) -> str:
    first, *others = found
    file = "".join(f", {one.records:,} of fewer than {one.k}" for one in others)
    units = "".join(f", {one.in_population:,} of fewer than {one.k}" for one in others)
    return (
        f"{counted(first.records, 'record')} {'has' if first.records == 1 else 'have'} a "
        f"combination of fewer than {first.k} records of the file{file}. By the weights "
        f"{counted(first.in_population, 'record')} "
        f"{'has' if first.in_population == 1 else 'have'} one of fewer than {first.k} units of "
        f"the population{units}."
    )


def _risk_row(
    name: str, found: PerRecordResult, which: str, of: str = "records that are re-identified"
) -> Row:
    parts = ", ".join(f"{t:g}: {n:,}" for t, n in found.at_least)
    return Row(
        measure=name,
        value=f"{number(found.expected)} records",
        said=f"Expected number of {of}; the risk of a record is {which}. "
        f"The highest is {found.highest:.3f}. Records whose risk is at least {parts}.",
    )


def _suda_row(found: SudaResult) -> Row:
    if found.problem:
        return Row(measure="SUDA2", value="–", said=found.problem)
    sizes = ", ".join(
        f"{n:,} of {size} key{'' if size == 1 else 's'}"
        for size, n in enumerate(found.by_size, start=1)
        if n
    )
    return Row(
        measure="SUDA2",
        value=counted(found.records, "record"),
        said=f"Records that are unique on some of the keys (at most {found.largest} of them). "
        f"Minimal sample uniques: {sizes or 'none'}. Highest DIS score {found.highest_dis:.3f}; of "
        f"the file {found.match_probability:.3f}.",
    )


def _uniques_row(found: UniquesResult) -> Row:
    name = f"population uniques, {_METHODS[found.method]}"
    if found.estimate is None or found.in_sample is None:
        return Row(measure=name, value="–", said=found.reason)
    by = f" (by {_METHODS[found.chosen]})" if found.chosen in _METHODS else ""
    return Row(
        measure=name,
        value=f"{number(found.estimate)} units",
        said=f"Units of the population that are unique{by}, from the sizes of the classes alone; "
        f"about {number(found.in_sample)} of them would be in a simple random sample of this size.",
    )


def sentences(result: Result) -> Mapping[str, str]:
    """Return a sentence for every classic measure, if there are any."""
    found = result.classics
    if found is None:
        return {}
    said = {f"classics.{row.measure}": row.said for row in rows(found)}
    return {
        **said,
        "classics": (
            "Measures that committees ask for beside the model's. None of them says how sure it "
            "is. k-anonymity, SUDA2 and l-diversity describe the file alone; the estimates of "
            "population uniques take it to be a simple random sample and see no keys."
            f"{_alone(found, result)}"
        ),
        "classics.model": reconciled(result),
    }


def _alone(found: ClassicsResult, result: Result) -> str:
    """Say why k-anonymity counts other records than the sample uniques, where it does."""
    alone = next((one.records for one in found.anonymity if one.k == 2), None)
    sample = result.sample
    if alone is None or not sample.n_incomplete or alone == sample.n_uniques:
        return ""
    return (
        f" The {alone:,} records of fewer than 2 in k-anonymity are not the {at_risk(sample)}: "
        "there a missing key matches every level, as in sdcMicro."
    )


def reconciled(result: Result) -> str:
    """Set the estimates of population uniques beside τ1, and say which to believe.

    Of a model whose intervals mostly missed the truth in trials no interval is told.
    """
    record, tau1, tau2 = track_record.of_result(result), result.tau1, result.tau2
    answers = (
        f"τ1 {number(tau1.median)}, τ2 {number(tau2.median)}" if record.doubted
        else f"τ1 {number(tau1.median)} ({interval(tau1)}), τ2 {number(tau2.median)} "
        f"({interval(tau2)})"
    )  # fmt: skip
    said = f"Beside them the model says: {answers}."
    assert result.classics is not None
    others = [one for one in result.classics.uniques if one.in_sample is not None]
    apart = [one for one in others if not tau1.lower <= (one.in_sample or 0.0) <= tau1.upper]
    if result.known_exactly or not apart:
        return said
    told = ", ".join(f"{_METHODS[one.method]} {number(one.in_sample or 0.0)}" for one in others)
    said += (
        f" The estimates of population uniques come to another number of records in this file "
        f"({told}). They use only how many combinations occur once, twice and so on, and are "
        "often off by 50% and more where less than a tenth of the population is in the file."
    )
    if record.doubted:
        return (
            f"{said} {record.warning} So believe neither: assess the file with the default model, "
            "auto."
        )
    return f"{said} The model also uses which keys go together: believe τ1."


def brief(result: ClassicsResult | None) -> list[str]:
    """Lines for the terminal: every measure and its value."""
    table = rows(result)
    width = max((len(row.measure) for row in table), default=0)
    return [f"{row.measure:<{width}}  {row.value:>14}" for row in table]
