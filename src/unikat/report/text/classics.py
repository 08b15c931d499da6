"""The classic measures in words: their table, and how they compare with τ1."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unikat.report.facts.classics import (
    AnonymityResult,
    ClassicsResult,
    InferredResult,
    PerRecordResult,
    SudaResult,
    UniquesResult,
)
from unikat.report.text import track_record
from unikat.report.text.language import known
from unikat.report.text.numbers import estimated, listed, number, significant
from unikat.report.text.sentences import at_risk
from unikat.report.text.words import counted, say

if TYPE_CHECKING:
    from unikat.report.facts.result import Result


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
        _row("anonymity", _anonymity(result.anonymity), found=result),
        _risk_row("individual", result.individual),
    ]
    if result.household is not None:
        table.append(_risk_row("household", result.household))
    table.append(_suda_row(result.suda))
    for one in result.sensitive:
        told = "unknown" if one.distance is None else "closeness"
        codes = "classics.diversity.said", f"classics.diversity.{told}"
        said = say(*codes, one=one, recursion=result.recursion)
        table.append(_row("diversity", said, one=one))
        if one.inferred is not None:
            said = inferred_sentence(one.name, one.inferred)
            table.append(_row("inferred", said, one=one, found=one.inferred))
    return table + [_uniques_row(one) for one in result.uniques]


def inferred_sentences(found: Mapping[str, InferredResult]) -> str:
    """Say what an intruder learns of each sensitive variable; empty if of none."""
    return " ".join(inferred_sentence(name, one) for name, one in found.items())


def inferred_sentence(name: str, found: InferredResult) -> str:
    """Say what an intruder learns of a sensitive variable, of whom most, and from which file."""
    # Of each variable the group of which most is learned, the most first.
    first = [(one.variable, one.levels[0]) for one in found.by if len(one.levels) > 1]
    first.sort(key=lambda one: -one[1].gain)
    groups = listed(
        [say("classics.inferred.group", variable=variable, one=one) for variable, one in first[:2]]
    )
    released = found.released is not None
    misled = found.released is not None and found.released.gain.upper < 0.0
    return say(
        "classics.inferred.said",
        found.gain.mean >= 1.0 and groups and "classics.inferred.groups",
        released and "classics.inferred.released",
        misled and "classics.inferred.misled",
        one={"name": name},
        found=found,
        groups=groups,
    )


def _row(part: str, said: str, **facts: Any) -> Row:
    name, value = (say(f"classics.{part}.{one}", **facts) for one in ("name", "value"))
    return Row(measure=name, value=value, said=said)


def _anonymity(found: tuple[AnonymityResult, ...]) -> str:
    first, *others = found
    file, units = (
        "".join(say("classics.anonymity.more", n=getattr(one, part), k=one.k) for one in others)
        for part in ("records", "in_population")
    )
    return say("classics.anonymity.said", first=first, file=file, units=units)


def _risk_row(name: str, found: PerRecordResult) -> Row:
    parts = ", ".join(f"{significant(t)}: {number(n)}" for t, n in found.at_least)
    return Row(
        measure=say(f"classics.risk.{name}"),
        value=say("classics.risk.value", found=found),
        said=say(f"classics.risk.said_{name}", found=found, parts=parts),
    )


def _suda_row(found: SudaResult) -> Row:
    name = say("classics.suda.name")
    if found.problem:
        return Row(measure=name, value="–", said=found.problem)
    sizes = ", ".join(
        say("classics.suda.size", n=n, size=size)
        for size, n in enumerate(found.by_size, start=1)
        if n
    )
    said = say("classics.suda.said", found=found, sizes=sizes or say("classics.suda.none"))
    return Row(measure=name, value=counted(found.records, "record"), said=said)


def _uniques_row(found: UniquesResult) -> Row:
    name = say("classics.uniques.name", method=_method(found.method))
    if found.estimate is None or found.in_sample is None:
        return Row(measure=name, value="–", said=found.reason)
    method = _method(found.chosen)
    by = say(bool(method) and "classics.uniques.by", method=method)
    said = say("classics.uniques.said", found=found, by=by)
    return Row(measure=name, value=say("classics.uniques.value", found=found), said=said)


def _method(name: str) -> str:
    code = f"classics.method.{name}"
    return say(known(code) and code)


def sentences(result: Result) -> Mapping[str, str]:
    """Return a sentence for every classic measure, if there are any."""
    found = result.classics
    if found is None:
        return {}
    alone = _alone(found, result)
    said = {f"classics.{row.measure}": row.said for row in rows(found)}
    return {
        **said,
        "classics": say(
            "classics.alone",
            alone is not None and "classics.wildcards",
            alone=alone,
            at_risk=at_risk(result.sample),
        ),
        "classics.model": reconciled(result),
    }


def _alone(found: ClassicsResult, result: Result) -> int | None:
    """Return what k-anonymity counts where that is not the sample uniques; None where it is."""
    alone = next((one.records for one in found.anonymity if one.k == 2), None)
    sample = result.sample
    return None if not sample.n_incomplete or alone == sample.n_uniques else alone


def reconciled(result: Result) -> str:
    """Compare the estimates of population uniques with τ1, and say which to use.

    No interval is given for a model whose intervals mostly missed the true value in trials.
    """
    record, tau1, tau2 = track_record.of_result(result), result.tau1, result.tau2
    first, second = (
        number(one.median) if record.unreliable else estimated(one.median, one)
        for one in (tau1, tau2)
    )
    assert result.classics is not None
    others = [one for one in result.classics.uniques if one.in_sample is not None]
    apart = [one for one in others if not tau1.lower <= (one.in_sample or 0.0) <= tau1.upper]
    told = ", ".join(f"{_method(one.method)} {number(one.in_sample or 0.0)}" for one in others)
    differ = bool(apart) and not result.known_exactly
    use = "classics.neither" if record.unreliable else "classics.use_tau1"
    return say(
        "classics.model",
        differ and "classics.others",
        differ and use,
        tau1=first,
        tau2=second,
        told=told,
        warning=record.warning,
    )


def brief(result: ClassicsResult | None) -> list[str]:
    """Lines for the terminal: every measure and its value."""
    table = rows(result)
    width = max((len(row.measure) for row in table), default=0)
    return [f"{row.measure:<{width}}  {row.value:>14}" for row in table]
