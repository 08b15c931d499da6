"""The classic measures in `result.json`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64
from unikat.classics.table import Classics
from unikat.data.table import CellTable
from unikat.protection.learned import Learned
from unikat.report.facts.breakdown import Breakdown, Column, of_records
from unikat.risk.estimate import Summary

THRESHOLDS = (0.05, 0.1, 0.2, 0.5)
"""Record risks from which records are counted."""


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
    inferred: InferredResult | None = None
    """What an intruder learns of it; None if it was not computed."""


@dataclass(frozen=True, kw_only=True)
class InferredResult:
    """Inference of a sensitive variable of persons whose keys are known."""

    n_records: int
    """Records that show all keys."""
    right: Summary
    """Of these, those for which the best inference from the file is right."""
    before: Summary
    """Those for which the most frequent value of persons like these is right."""
    gain: Summary
    """The difference, which the file adds."""
    by: tuple[GroupsOfGain, ...] = ()
    """The expected gain by groups of records: by every key, and by the columns of `report.by`."""
    released: ReleasedResult | None = None
    """Of a file that was made of this one, if there is one."""


@dataclass(frozen=True, kw_only=True)
class ReleasedResult:
    """What an intruder infers who has a protected or synthetic file instead of this one."""

    right: Summary
    """Records for which the best inference from that file is right."""
    gain: Summary
    """What that file adds to the most frequent value; below 0 where it misleads."""


@dataclass(frozen=True, kw_only=True)
class GroupOfGain:
    """Records with one level of a variable."""

    label: str
    n_records: int
    gain: float


@dataclass(frozen=True, kw_only=True)
class GroupsOfGain:
    """The expected gain by the levels of one variable; the numbers add up to those of the file."""

    variable: str
    levels: tuple[GroupOfGain, ...]
    """Highest gain first; levels with few records are summed up, as where risk is broken down."""

    @classmethod
    def of(cls, found: Breakdown) -> GroupsOfGain:
        """Take a breakdown of which the sum is the gain."""
        levels = [*found.levels, *([] if found.other is None else [found.other])]
        return cls(
            variable=found.variable,
            levels=tuple(
                GroupOfGain(label=one.label, n_records=one.n_records, gain=one.tau1)
                for one in levels
            ),
        )


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


def classics_result(
    found: Classics,
    table: CellTable,
    learned: Sequence[Learned] = (),
    by: Sequence[Column] = (),
    *,
    show_all: bool = False,
) -> ClassicsResult:
    """Bring the classic measures into the form of `result.json`."""
    inferred = {one.name: inferred_result(one, table, by, show_all) for one in learned}
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
                inferred=inferred.get(one.name),
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


def inferred_result(
    found: Learned, table: CellTable, by: Sequence[Column] = (), show_all: bool = False
) -> InferredResult:
    """Bring what is learned of a sensitive variable into the form of the results."""
    told = found.released
    groups = of_records(table, np.nan_to_num(found.record_gain), by, show_all=show_all)
    return InferredResult(
        n_records=found.n_records,
        right=found.right,
        before=found.before,
        gain=found.gain,
        by=tuple(map(GroupsOfGain.of, groups)),
        released=None if told is None else ReleasedResult(right=told.right, gain=told.gain),
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
