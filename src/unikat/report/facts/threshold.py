"""Whether the risk is within the threshold that the owner of the data has set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, TypeAlias

from unikat.spec.target import Target, TargetMeasure

if TYPE_CHECKING:
    from unikat.risk.estimate import Summary

Verdict: TypeAlias = Literal["met", "not met", "undecided"]
Reason: TypeAlias = Literal["interval", "not final", "unreliable interval"]


@dataclass(frozen=True, kw_only=True)
class ThresholdResult:
    """A threshold and the verdict on it."""

    threshold: str
    """As it was set: `tau1 <= 5`."""
    measure: TargetMeasure
    limit: float
    verdict: Verdict
    reason: Reason
    """What decided: the interval; or that the run is not finished, or the model's interval is not
    reliable, so that the verdict is open."""


def threshold_result(
    text: str | None, measures: Mapping[TargetMeasure, Summary], *, final: bool
) -> ThresholdResult | None:
    """Judge a threshold, if there is one, by the interval of its measure.

    Met if the upper end is at or under the limit, not met if the lower end is over it; else, or if
    the run is not `final`, undecided.
    """
    if text is None:
        return None
    threshold = Target.threshold(text)
    summary = measures[threshold.measure]
    verdict: Verdict = "undecided"
    if final and summary.upper <= threshold.limit:
        verdict = "met"
    elif final and summary.lower > threshold.limit:
        verdict = "not met"
    return ThresholdResult(
        threshold=str(threshold),
        measure=threshold.measure,
        limit=threshold.limit,
        verdict=verdict,
        reason="interval" if final else "not final",
    )


def undecided(found: ThresholdResult) -> ThresholdResult:
    """Leave the verdict open, because the intervals of the model are not reliable."""
    if found.reason == "not final":
        return found
    return replace(found, verdict="undecided", reason="unreliable interval")
