"""The page of a verification: one HTML file that needs no network and has no script."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unikat.report.facts.verification import VerifySummary
from unikat.report.pages.template import fill
from unikat.report.text.protection import risk_rows
from unikat.report.text.sentences import first
from unikat.report.text.verdict import VerdictText
from unikat.report.text.verification import HEAD, key_rows, risk_after, verdict_of
from unikat.report.text.words import capital, say
from unikat.spec.provenance import Provenance
from unikat.spec.verification import VerifySpec


@dataclass(frozen=True, kw_only=True)
class VerificationPage:
    """The context of `verification.html.j2`: every name that the template uses, and no other."""

    title: str
    verdict: VerdictText | None
    """On the target; None if there is none."""
    summary: VerifySummary
    """The content of `verify.json`."""
    lead: str
    """Sentences below the title."""
    sides: Sequence[tuple[str, ...]]
    """A measure of the original and of the protected file."""
    head: Sequence[str]
    keys: Sequence[tuple[str, ...]]
    """Rows of the table of keys."""
    provenance: Provenance
    command: str


def render(summary: VerifySummary) -> str:
    """Render the page."""
    said = summary.sentences
    verdict = verdict_of(summary)
    context = VerificationPage(
        title=say(
            f"pages.{'verification_of' if summary.protected else 'verification'}",
            begins=first(summary.converged),
            data=summary.protected,
        ),
        verdict=verdict,
        summary=summary,
        lead=" ".join(said[place] for place in ("records",) if place in said),
        sides=risk_rows([summary.before, risk_after(summary)]),
        head=[capital(say(f"verification.column.{name}")) for name in HEAD],
        keys=key_rows(summary),
        provenance=summary.provenance,
        command=VerifySpec.again(),
    )
    return fill("verification.html.j2", context)
