"""The classic measures in words: their table, and how they compare with τ1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from unikat.report.facts.classics import (
    AnonymityResult,
    ClassicsResult,
    PerRecordResult,
    SudaResult,
    UniquesResult,
)
from unikat.report.text import track_record
from unikat.report.text.numbers import counted, estimated, number, verb
from unikat.report.text.sentences import at_risk

if TYPE_CHECKING:
    from unikat.report.facts.result import Result

_METHODS = {
    "pitman": "Pitman's sampling formula",
    "zayatz": "Zayatz",
    "snb": "slide negative binomial",
    "dankar": "Dankar's rule",
    "bethlehem": "Bethlehem's Poisson-gamma",
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the table of the classic measures."""

    measure: str
    value: str
    said: str


def rows(result: ClassicsResult | None) -> list[Row]:
    """Return the table of the classic measures; empty if they were not asked for."""
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
            "that of its cell, from the number of records and their weights",
        ),
    ]
    if result.household is not None:
        table.append(
            _risk_row(
                "household risk",
                result.household,
                "the probability that any household member is re-identified, each independently",
                "records in households with a re-identified member",
            )
        )
    table.append(_suda_row(result.suda))
    table += [
        Row(
            measure=f"l-diversity of {one.name}",
            value=f"l = {one.distinct}",
            said=f"Fewest values of {one.name} in a cell; by entropy "
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
        f"{counted(first.records, 'record')} {verb(first.records, 'are')} in a cell "
        f"of fewer than {first.k} records of the file{file}. By the weights, "
        f"{counted(first.in_population, 'record')} "
        f"{verb(first.in_population, 'are')} in one of fewer than {first.k} units of "
        f"the population{units}."
    )


def _risk_row(
    name: str, found: PerRecordResult, which: str, of: str = "re-identified records"
) -> Row:
    parts = ", ".join(f"{t:g}: {n:,}" for t, n in found.at_least)
    return Row(
        measure=name,
        value=f"{number(found.expected)} records",
        said=f"Expected number of {of}; the risk of a record is {which}. "
        f"The highest risk is {found.highest:.3f}. Records with a risk of at least {parts}.",
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
        said=f"Population uniques{by}, estimated from the cell sizes alone; about "
        f"{number(found.in_sample)} of them would be in a simple random sample of this size.",
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
            "Established measures without intervals. k-anonymity, SUDA2 and l-diversity describe "
            "the file alone. The estimates of population uniques assume a simple random sample and "
            "ignore which keys are associated."
            f"{_alone(found, result)}"
        ),
        "classics.model": reconciled(result),
    }


def _alone(found: ClassicsResult, result: Result) -> str:
    """Say why k-anonymity counts records other than the sample uniques, where it does."""
    alone = next((one.records for one in found.anonymity if one.k == 2), None)
    sample = result.sample
    if alone is None or not sample.n_incomplete or alone == sample.n_uniques:
        return ""
    return (
        f" The {alone:,} records of fewer than 2 in k-anonymity are not the {at_risk(sample)}: "
        "in k-anonymity a missing key matches every level, as in sdcMicro."
    )


def reconciled(result: Result) -> str:
    """Compare the estimates of population uniques with τ1, and say which to use.

    No interval is given for a model whose intervals mostly missed the true value in trials.
    """
    record, tau1, tau2 = track_record.of_result(result), result.tau1, result.tau2
    first, second = (
        number(one.median) if record.unreliable else estimated(one.median, one)
        for one in (tau1, tau2)
    )
    said = f"For comparison, the model estimates τ1 {first}, τ2 {second}."
    assert result.classics is not None
    others = [one for one in result.classics.uniques if one.in_sample is not None]
    apart = [one for one in others if not tau1.lower <= (one.in_sample or 0.0) <= tau1.upper]
    if result.known_exactly or not apart:
        return said
    told = ", ".join(f"{_METHODS[one.method]} {number(one.in_sample or 0.0)}" for one in others)
    said += (
        f" The estimates of population uniques give other numbers for this file ({told}). They "
        "use only how many cells have one record, two records and so on, and are often off by 50% "
        "or more if less than a tenth of the population is in the file."
    )
    if record.unreliable:
        return (
            f"{said} {record.warning} So use neither: assess the file with the default model, auto."
        )
    return f"{said} The model also uses the associations of the keys: use τ1."


def brief(result: ClassicsResult | None) -> list[str]:
    """Lines for the terminal: every measure and its value."""
    table = rows(result)
    width = max((len(row.measure) for row in table), default=0)
    return [f"{row.measure:<{width}}  {row.value:>14}" for row in table]
