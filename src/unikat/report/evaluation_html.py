"""The page of an evaluation."""

from collections.abc import Sequence

from unikat.report.evaluation_summary import EvaluationSummary
from unikat.risk.scores import FitScore


def render(summary: EvaluationSummary, scores: Sequence[FitScore]) -> str:
    """Render."""
    return "<html></html>"
