"""Facts with their sentences: `result.json` of an assessment, `summary.json` of the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, TypeVar

from unikat.report.facts.attack import AttackSummary
from unikat.report.facts.check import CheckSummary
from unikat.report.facts.comparison import ComparisonSummary
from unikat.report.facts.evaluation import EvaluationSummary
from unikat.report.facts.linkage import LinkageResult
from unikat.report.facts.protection import ProtectionSummary
from unikat.report.facts.registry import RegistryResult
from unikat.report.facts.result import Result
from unikat.report.facts.synthesis import SynthesisSummary
from unikat.report.facts.verification import VerifySummary
from unikat.report.text import (
    attack,
    breakdown,
    check,
    classics,
    comparison,
    evaluation,
    households,
    limits,
    overview,
    protection,
    selection,
    sensitivity,
    sentences,
    synthesis,
    track_record,
    verification,
    zeros,
)
from unikat.report.text.declared import declared_words
from unikat.report.text.numbers import listed
from unikat.report.text.words import say
from unikat.risk.limits import judge

S = TypeVar("S")


def explained(found: S) -> S:
    """Add the sentences and warnings to the facts of a run, in the language of the moment."""
    how: Any = _EXPLAINED[type(found)]
    said: S = how(found)
    return said


def _assessment(result: Result) -> Result:
    """Add the sentences; no verdict on a threshold follows from unreliable intervals."""
    if (found := result.threshold) is not None:
        found = judge(found.limit, [found.value], track_record.unknown_of_result(result))
        result = replace(result, threshold=found, verdict=found.verdict)
    said = {
        **sentences.sentences(result),
        **selection.sentences(result),
        **sensitivity.sentences(result),
        **limits.design_sentences(result),
        **zeros.sentences(result.zeros),
        **_of_registry(result.registry),
        **_of_linkage(result.linkage),
        **_of_release(result),
        **classics.sentences(result),
        "declared": "\n".join(declared_words(result.keys)),
        "breakdowns": breakdown.sentence(result.breakdowns, result.unit),
        "threshold": overview.threshold_sentence(result),
    }
    if result.households is not None:
        said |= households.sentences(result)
    return replace(result, sentences=said)


def _of_registry(found: RegistryResult | None) -> Mapping[str, str]:
    """Sentences on the risk of a registry's records, if there is one."""
    if found is None:
        return {}
    n_open = found.n_uniques - found.n_shared - found.n_possible
    said = {
        f"registry.{name}": say(f"registry.{name}", found=found)
        for name in ("tau2", "n_uniques", "n_possible", "limit")
    }
    said["registry"] = say(
        "registry.unique",
        found.n_shared and "registry.shared",
        n_open and "registry.open",
        "registry.these" if found.n_possible == found.n_uniques else "registry.others",
        found.n_unknown and "registry.unknown",
        found.n_impossible and "registry.impossible",
        found=found,
        n_open=n_open,
    )
    return said


def _of_linkage(found: LinkageResult | None) -> Mapping[str, str]:
    """Sentences on links of an intruder whose keys have errors, if they were counted."""
    if found is None:
        return {}
    names = ("correct", "exact", "without_errors", "limit")
    said = {f"linkage.{name}": say(f"linkage.{name}", found=found) for name in names}
    said["linkage"] = say("linkage.expected", "linkage.instead", found=found)
    return said


def _of_release(result: Result) -> Mapping[str, str]:
    """Sentences on the risk of who has another release of the same persons, too."""
    found = result.release
    if found is None:
        return {}
    guessed = found.links - found.n_certain
    said = say(
        "release.all",
        found.n_both is not None and "release.both",
        "release.certain",
        found.n_wrong and "release.wrong",
        found.n_both is None and "release.unknown",
        round(guessed) > 0 and "release.guess",
        "release.none" if found.tau1 is None else "release.risk",
        found=found,
        result=result,
        other=found.data or say("release.other"),
        shared=listed(found.shared),
        guessed=round(guessed),
    )
    return {"release": said}


_EXPLAINED: dict[type, Any] = {
    Result: _assessment,
    ComparisonSummary: comparison.explained,
    EvaluationSummary: evaluation.explained,
    ProtectionSummary: protection.explained,
    SynthesisSummary: synthesis.explained,
    AttackSummary: attack.explained,
    VerifySummary: verification.explained,
    CheckSummary: check.explained,
}
