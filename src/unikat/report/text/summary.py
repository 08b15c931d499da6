"""Facts with their sentences: `result.json` of an assessment, `summary.json` of the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, TypeVar

from unikat.report.facts.attack import AttackSummary
from unikat.report.facts.check import CheckSummary
from unikat.report.facts.comparison import ComparisonSummary
from unikat.report.facts.evaluation import EvaluationSummary
from unikat.report.facts.protection import ProtectionSummary
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
    linkage,
    overview,
    protection,
    registry,
    release,
    selection,
    sensitivity,
    sentences,
    synthesis,
    track_record,
    verification,
    zeros,
)
from unikat.report.text.declared import declared_words
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
        **registry.sentences(result.registry),
        **linkage.sentences(result.linkage),
        **release.sentences(result),
        **classics.sentences(result),
        "declared": "\n".join(declared_words(result.keys)),
        "breakdowns": breakdown.sentence(result.breakdowns, result.unit),
        "threshold": overview.threshold_sentence(result),
    }
    if result.households is not None:
        said |= households.sentences(result)
    return replace(result, sentences=said)


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
