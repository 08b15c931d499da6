"""What the numbers of a run assume and leave out, for the end of the report."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unikat.report.text import design, track_record
from unikat.report.text.assessment import incomplete, kind

if TYPE_CHECKING:
    from unikat.report.facts.assessment import Result

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
            "The intruder is taken to know every key of every record exactly as it stands in the "
            "file. Errors, changes over time and different codings in the intruder's source make "
            "correct links rarer than shown.",
        ),
        (
            "The keys are the right ones",
            "Variables that an intruder could know but that are not among the keys are not "
            "counted. With more keys more records are unique.",
        ),
        ("Missing values", incomplete(result)),
        _impossible(result),
        (
            "The answer depends on the model",
            f"{kind(result).covers} {_model_error(result)} Where much depends on the number, see "
            "whether it holds with coarser keys.",
        ),
    ]
    if sample.n_keys > EXACT_KEYS and result.fitted_model in _MEMBERSHIP:
        points.append(
            (
                "Many keys",
                f"With more than {EXACT_KEYS} keys the probability of a combination is an "
                "unbiased estimate in every draw, not an exact sum, so r1 comes out very slightly "
                "too high.",
            )
        )
    if result.known_exactly:
        return [point for point in points[1:4] if "Missing" not in point[0]]
    return points


def _model_error(result: Result) -> str:
    """Say how far this model was off in trials, or that this is not known."""
    said = track_record.of_result(result).sentence
    if "terms" in result.fit:
        said += (
            " A log-linear model that leaves out terms that matter takes too many records for "
            "unique in the population, one with more terms than the file can tell takes too few."
        )
    return said


def _impossible(result: Result) -> tuple[str, str]:
    if result.zeros is None:
        return (
            "Impossible combinations are not declared",
            "Combinations of values that cannot occur keep a little probability, which makes the "
            "possible ones seem slightly rarer than they are.",
        )
    return (
        "Impossible combinations are as declared",
        "A rule that forbids what does occur in the population moves its probability to other "
        "combinations, which makes those seem more frequent, and so safer, than they are. What is "
        "impossible and not declared keeps a little probability.",
    )
