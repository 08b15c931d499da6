"""Assumptions and limits of an assessment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unikat.report.text import design, track_record
from unikat.report.text.sentences import incomplete, kind

if TYPE_CHECKING:
    from unikat.report.facts.result import Result

_MEMBERSHIP = ("hdp", "gom")
EXACT_KEYS = 11
"""Keys up to which these compute the probability of a cell exactly."""


def limits(result: Result) -> list[tuple[str, str]]:
    """Return what the numbers assume and leave out: a title and a text for each point."""
    sample = result.sample
    points = [
        design.limit(result),
        (
            "Keys are known without error",
            "The intruder is assumed to know every key of every record exactly as in the file. "
            "Errors, changes over time and different codings in the intruder's source make "
            "correct matches rarer than shown.",
        ),
        (
            "The keys are the right ones",
            "Variables that an intruder could know and that are not among the keys are ignored. "
            "With more keys, more records are unique.",
        ),
        ("Missing values", incomplete(result)),
        _impossible(result),
        (
            "The answer depends on the model",
            f"{kind(result).covers} {_model_error(result)} If much depends on the number, repeat "
            "the assessment with coarser keys.",
        ),
    ]
    if sample.n_keys > EXACT_KEYS and result.fitted_model in _MEMBERSHIP:
        points.append(
            (
                "Many keys",
                f"With more than {EXACT_KEYS} keys, each draw has an unbiased estimate of the cell "
                "probability, not an exact sum, which makes r1 very slightly too high.",
            )
        )
    if result.known_exactly:
        return [point for point in points[1:4] if "Missing" not in point[0]]
    return points


def _model_error(result: Result) -> str:
    """Say how large the model's error was in trials, or that this is not known."""
    said = track_record.of_result(result).sentence
    if "terms" in result.fit:
        said += (
            " A log-linear model that lacks important terms can over- or understate τ1; one with "
            "more terms than the file supports mostly understates it."
        )
    return said


def _impossible(result: Result) -> tuple[str, str]:
    if result.zeros is None:
        return (
            "Impossible combinations are not declared",
            "Combinations of values that cannot occur keep a small probability. This makes "
            "possible combinations seem slightly rarer than they are.",
        )
    return (
        "Impossible combinations are as declared",
        "A rule that forbids combinations that do occur makes other combinations seem more "
        "frequent, and so safer, than they are. Impossible combinations that are not declared keep "
        "a small probability.",
    )
