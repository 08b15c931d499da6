"""Facts with their sentences: `result.json` of an assessment, `summary.json` of the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import ParamSpec, TypeVar

from unikat.report.facts.comparison import comparison_facts
from unikat.report.facts.evaluation import evaluation_facts
from unikat.report.facts.result import Result, assessment_facts
from unikat.report.text import (
    breakdown,
    classics,
    comparison,
    evaluation,
    households,
    limits,
    overview,
    registry,
    selection,
    sensitivity,
    sentences,
    track_record,
    zeros,
)
from unikat.report.text.declared import declared_words
from unikat.risk.limits import judge

_P = ParamSpec("_P")
_Summary = TypeVar("_Summary")


def explained(result: Result) -> Result:
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
        **classics.sentences(result),
        "declared": "\n".join(declared_words(result.keys)),
        "breakdowns": breakdown.sentence(result.breakdowns, result.unit),
        "threshold": overview.threshold_sentence(result),
    }
    if result.households is not None:
        said |= households.sentences(result)
    return replace(result, sentences=said)


def _finished(
    facts: Callable[_P, _Summary], finish: Callable[[_Summary], _Summary]
) -> Callable[_P, _Summary]:
    """Return a function that gathers facts and adds their sentences."""

    @wraps(facts)
    def summarise(*args: _P.args, **kwargs: _P.kwargs) -> _Summary:
        return finish(facts(*args, **kwargs))

    return summarise


summarise = _finished(assessment_facts, explained)
summarise_comparison = _finished(
    comparison_facts, lambda found: replace(found, sentences=comparison.sentences(found))
)
summarise_evaluation = _finished(
    evaluation_facts, lambda found: replace(found, warnings=evaluation.warnings(found))
)
