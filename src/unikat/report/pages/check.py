"""The page of a check: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unikat.report.facts.check import CheckSummary
from unikat.report.pages.template import fill
from unikat.report.text.check import HEAD, limit_rows, verdict_of
from unikat.report.text.protection import risk_rows
from unikat.report.text.verdict import VerdictText
from unikat.report.text.words import capital, say
from unikat.spec.check import CheckSpec
from unikat.spec.provenance import Provenance


@dataclass(frozen=True, kw_only=True)
class CheckPage:
    """The context of `check.html.j2`: every name that the template uses, and no other."""

    title: str
    verdict: VerdictText
    summary: CheckSummary
    """The content of `check.json`."""
    head: Sequence[str]
    limits: Sequence[tuple[str, ...]]
    """Rows of the table of limits."""
    risk: Sequence[tuple[str, ...]]
    """A measure of the file in each row; empty without a model."""
    provenance: Provenance
    command: str


def render(summary: CheckSummary) -> str:
    """Render the page."""
    context = CheckPage(
        title=say("pages.check", policy=summary.policy, data=summary.data),
        verdict=verdict_of(summary),
        summary=summary,
        head=[capital(say(f"check.column.{name}")) for name in HEAD],
        limits=limit_rows(summary),
        risk=[] if summary.risk is None else risk_rows([summary.risk]),
        provenance=summary.provenance,
        command=CheckSpec.again(),
    )
    return fill("check.html.j2", context)
